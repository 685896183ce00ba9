/*
 * epoll: level and edge triggering, one-shot, changes, errors, nesting, closed
 * descriptors, limits, timeouts and masks.
 */
#include "case.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

static int ep;
static int ends[2];

static void setup(void)
{
    ep = MUST(epoll_create1(0));
    MUST(pipe(ends));
}

static long control(int operation, int fd, uint32_t events, uint64_t data)
{
    struct epoll_event event = { .events = events, .data.u64 = data };

    return epoll_ctl(ep, operation, fd, &event);
}

static void show_event(uint32_t events, uint64_t data)
{
    printf("event %llu:%s%s%s%s%s\n", (unsigned long long)data, events & EPOLLIN ? " IN" : "",
           events & EPOLLOUT ? " OUT" : "", events & EPOLLRDHUP ? " RDHUP" : "",
           events & EPOLLHUP ? " HUP" : "", events & EPOLLERR ? " ERR" : "");
}

/* Waits and prints the events in the order of their data. */
static void show_wait(int timeout_ms)
{
    struct epoll_event events[16];
    int count = epoll_wait(ep, events, 16, timeout_ms);

    show("wait", count);
    for (uint64_t data = 0; data < 64; data++)
        for (int i = 0; i < count; i++)
            if (events[i].data.u64 == data)
                show_event(events[i].events, data);
}

CASE(create)
{
    int fd = show_ok("epoll_create1", epoll_create1(EPOLL_CLOEXEC));
    show("F_GETFD", fcntl(fd, F_GETFD));
    show_ok("epoll_create", epoll_create(1));
    show("epoll_create 0", epoll_create(0));
    show("bad flags", epoll_create1(0x10));
}

CASE(level_triggered)
{
    char data[8];
    setup();
    show("add", control(EPOLL_CTL_ADD, ends[0], EPOLLIN, 7));
    show_wait(0);
    MUST(write(ends[1], "abc", 3));
    show_wait(0);
    MUST(read(ends[0], data, 1));
    show_wait(0);
    MUST(read(ends[0], data, 8));
    show_wait(0);
}

CASE(edge_triggered)
{
    char data[8];
    setup();
    show("add", control(EPOLL_CTL_ADD, ends[0], EPOLLIN | EPOLLET, 7));
    MUST(write(ends[1], "abc", 3));
    show_wait(0);
    show_wait(0);
    MUST(write(ends[1], "d", 1));
    show_wait(0);
    MUST(read(ends[0], data, 2));
    show_wait(0);
    MUST(close(ends[1]));
    show_wait(0);
    show_wait(0);
}

CASE(edge_triggered_ready_when_added)
{
    setup();
    MUST(write(ends[1], "abc", 3));
    show("add", control(EPOLL_CTL_ADD, ends[0], EPOLLIN | EPOLLET, 7));
    show_wait(0);
    show_wait(0);
    show("mod rearms", control(EPOLL_CTL_MOD, ends[0], EPOLLIN | EPOLLET, 8));
    show_wait(0);
    show_wait(0);
}

CASE(one_shot)
{
    setup();
    show("add", control(EPOLL_CTL_ADD, ends[0], EPOLLIN | EPOLLONESHOT, 7));
    MUST(write(ends[1], "a", 1));
    show_wait(0);
    show_wait(0);
    MUST(write(ends[1], "b", 1));
    show_wait(0);
    show("mod", control(EPOLL_CTL_MOD, ends[0], EPOLLIN | EPOLLONESHOT, 9));
    show_wait(0);
    show_wait(0);
}

CASE(control_errors)
{
    scratch();
    setup();
    file_make("f", "");
    int file = MUST(open("f", O_RDONLY));
    int directory = MUST(open(".", O_RDONLY));
    show("mod missing", control(EPOLL_CTL_MOD, ends[0], EPOLLIN, 0));
    show("del missing", control(EPOLL_CTL_DEL, ends[0], 0, 0));
    show("add", control(EPOLL_CTL_ADD, ends[0], EPOLLIN, 0));
    show("add again", control(EPOLL_CTL_ADD, ends[0], EPOLLIN, 0));
    show("bad operation", control(77, ends[0], EPOLLIN, 0));
    show("itself", control(EPOLL_CTL_ADD, ep, EPOLLIN, 0));
    show("regular file", control(EPOLL_CTL_ADD, file, EPOLLIN, 0));
    show("directory", control(EPOLL_CTL_ADD, directory, EPOLLIN, 0));
    show("closed", control(EPOLL_CTL_ADD, 999, EPOLLIN, 0));
    show("not an epoll", epoll_ctl(ends[0], EPOLL_CTL_ADD, ends[1], &(struct epoll_event){ 0 }));
    show("bad epoll", epoll_ctl(999, EPOLL_CTL_ADD, ends[1], &(struct epoll_event){ 0 }));
    show("del with NULL", epoll_ctl(ep, EPOLL_CTL_DEL, ends[0], NULL));
}

CASE(wait_errors)
{
    struct epoll_event events[2];
    setup();
    show("maxevents 0", epoll_wait(ep, events, 0, 0));
    show("maxevents -1", syscall(SYS_epoll_wait, ep, events, -1, 0));
    show("bad descriptor", epoll_wait(999, events, 2, 0));
    show("not an epoll", epoll_wait(ends[0], events, 2, 0));
    show("read", read(ep, events, 8));
    show("write", write(ep, events, 8));
}

CASE(modify_events)
{
    setup();
    MUST(write(ends[1], "x", 1));
    show("add without events", control(EPOLL_CTL_ADD, ends[0], 0, 1));
    show_wait(0);
    show("mod in", control(EPOLL_CTL_MOD, ends[0], EPOLLIN, 2));
    show_wait(0);
    show("mod out", control(EPOLL_CTL_MOD, ends[0], EPOLLOUT, 3));
    show_wait(0);
    show("del", control(EPOLL_CTL_DEL, ends[0], 0, 0));
    show_wait(0);
    show("add again", control(EPOLL_CTL_ADD, ends[0], EPOLLIN, 4));
    show_wait(0);
}

CASE(hangup_is_always_reported)
{
    setup();
    show("add", control(EPOLL_CTL_ADD, ends[0], 0, 1));
    show("add", control(EPOLL_CTL_ADD, ends[1], 0, 2));
    MUST(close(ends[0]));
    show_wait(0);
    MUST(close(ends[1]));
    MUST(pipe(ends));
    show("add", control(EPOLL_CTL_ADD, ends[0], 0, 3));
    MUST(close(ends[1]));
    show_wait(0);
}

CASE(closing_removes)
{
    setup();
    show("add", control(EPOLL_CTL_ADD, ends[0], EPOLLIN, 1));
    MUST(write(ends[1], "x", 1));
    int copy = MUST(dup(ends[0]));
    MUST(close(ends[0]));
    show_wait(0);
    MUST(close(copy));
    show_wait(0);
}

CASE(dup_is_another_key)
{
    setup();
    int copy = MUST(dup(ends[0]));
    show("add", control(EPOLL_CTL_ADD, ends[0], EPOLLIN, 1));
    show("add dup", control(EPOLL_CTL_ADD, copy, EPOLLIN, 2));
    MUST(write(ends[1], "x", 1));
    show_wait(0);
}

CASE(max_events_rotate)
{
    struct epoll_event event;
    int fds[3], seen[3] = { 0 };
    uint64_t one = 1;
    ep = MUST(epoll_create1(0));
    for (int i = 0; i < 3; i++) {
        fds[i] = MUST(eventfd(0, 0));
        MUST(control(EPOLL_CTL_ADD, fds[i], EPOLLIN, i));
        MUST(write(fds[i], &one, 8));
    }
    for (int i = 0; i < 3; i++) {
        MUST(epoll_wait(ep, &event, 1, 0));
        seen[event.data.u64]++;
    }
    printf("each once: %d %d %d\n", seen[0], seen[1], seen[2]);
}

CASE(events_in_order_of_readiness)
{
    struct epoll_event events[4];
    int fds[4];
    uint64_t one = 1;
    ep = MUST(epoll_create1(0));
    for (int i = 0; i < 4; i++) {
        fds[i] = MUST(eventfd(0, 0));
        MUST(control(EPOLL_CTL_ADD, fds[i], EPOLLIN, i));
    }
    MUST(write(fds[2], &one, 8));
    MUST(write(fds[0], &one, 8));
    MUST(write(fds[3], &one, 8));
    int count = epoll_wait(ep, events, 4, 0);
    for (int i = 0; i < count; i++)
        number("ready", events[i].data.u64);
}

CASE(timeouts)
{
    int64_t start = now_ns();
    setup();
    show_wait(0);
    show_wait(20);
    show_elapsed(start, 20);
}

static void *write_late(void *argument)
{
    (void)argument;
    sleep_ms(20);
    MUST(write(ends[1], "x", 1));
    return NULL;
}

CASE(wait_blocks)
{
    int64_t start = now_ns();
    setup();
    MUST(control(EPOLL_CTL_ADD, ends[0], EPOLLIN, 5));
    pthread_t writer = thread_start(write_late, NULL);
    show_wait(-1);
    show_elapsed(start, 20);
    thread_join(writer);
}

static void *add_late(void *argument)
{
    (void)argument;
    sleep_ms(20);
    MUST(control(EPOLL_CTL_ADD, ends[0], EPOLLIN, 6));
    return NULL;
}

CASE(added_while_waiting)
{
    setup();
    MUST(write(ends[1], "x", 1));
    pthread_t adder = thread_start(add_late, NULL);
    show_wait(5000);
    thread_join(adder);
}

CASE(nested)
{
    setup();
    int inner = ep;
    MUST(control(EPOLL_CTL_ADD, ends[0], EPOLLIN, 1));
    int outer = ep = MUST(epoll_create1(0));
    show("add inner", control(EPOLL_CTL_ADD, inner, EPOLLIN, 2));
    show_wait(0);
    MUST(write(ends[1], "x", 1));
    show_wait(0);
    ep = inner;
    show("loop", control(EPOLL_CTL_ADD, outer, EPOLLIN, 3));
    show_wait(0);
}

CASE(nested_blocks)
{
    setup();
    int inner = ep;
    MUST(control(EPOLL_CTL_ADD, ends[0], EPOLLIN, 1));
    ep = MUST(epoll_create1(0));
    MUST(control(EPOLL_CTL_ADD, inner, EPOLLIN, 2));
    pthread_t writer = thread_start(write_late, NULL);
    show_wait(5000);
    thread_join(writer);
}

CASE(half_close)
{
    int pair[2];
    ep = MUST(epoll_create1(0));
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    show("add", control(EPOLL_CTL_ADD, pair[0], EPOLLIN | EPOLLRDHUP, 1));
    show_wait(0);
    MUST(shutdown(pair[1], SHUT_WR));
    show_wait(0);
    MUST(close(pair[1]));
    show_wait(0);
    show("mod without RDHUP", control(EPOLL_CTL_MOD, pair[0], EPOLLIN, 2));
    show_wait(0);
}

CASE(edge_triggered_output)
{
    static char data[65536];
    setup();
    set_nonblocking(ends[1]);
    show("add", control(EPOLL_CTL_ADD, ends[1], EPOLLOUT | EPOLLET, 1));
    show_wait(0);
    show_wait(0);
    MUST(write(ends[1], data, sizeof data));
    show_wait(0);
    MUST(read(ends[0], data, sizeof data));
    show_wait(0);
    show_wait(0);
}

CASE(exclusive)
{
    setup();
    show("add", control(EPOLL_CTL_ADD, ends[0], EPOLLIN | EPOLLEXCLUSIVE, 1));
    show("mod", control(EPOLL_CTL_MOD, ends[0], EPOLLIN, 1));
    show("add exclusive oneshot", control(EPOLL_CTL_ADD, ends[1], EPOLLOUT | EPOLLEXCLUSIVE | EPOLLONESHOT, 1));
    MUST(write(ends[1], "x", 1));
    show_wait(0);
    show("del", control(EPOLL_CTL_DEL, ends[0], 0, 0));
}

static volatile sig_atomic_t signals_seen;

static void count_signal(int number)
{
    (void)number;
    signals_seen++;
}

CASE(pwait_with_mask)
{
    struct epoll_event event;
    sigset_t block, none, after;
    setup();
    signals_seen = 0;
    signal(SIGUSR1, count_signal);
    sigemptyset(&none);
    sigemptyset(&block);
    sigaddset(&block, SIGUSR1);
    MUST(sigprocmask(SIG_BLOCK, &block, NULL));
    MUST(raise(SIGUSR1));
    show("epoll_pwait", epoll_pwait(ep, &event, 1, 5000, &none));
    number("signals", signals_seen);
    MUST(sigprocmask(SIG_SETMASK, NULL, &after));
    truth("mask is back", sigismember(&after, SIGUSR1));
    show("epoll_pwait without signal", epoll_pwait(ep, &event, 1, 5, &none));
}

CASE(two_epolls_watch_one_pipe)
{
    setup();
    int first = ep;
    MUST(control(EPOLL_CTL_ADD, ends[0], EPOLLIN | EPOLLET, 1));
    int second = ep = MUST(epoll_create1(0));
    MUST(control(EPOLL_CTL_ADD, ends[0], EPOLLIN | EPOLLET, 2));
    MUST(write(ends[1], "x", 1));
    ep = first;
    show_wait(0);
    ep = second;
    show_wait(0);
}

static void *take_one_event(void *argument)
{
    struct epoll_event event;

    (void)argument;
    return (void *)(long)epoll_wait(ep, &event, 1, 5000);
}

CASE(edge_wakes_one_waiter_per_event)
{
    pthread_t waiters[3];
    long sum = 0;
    uint64_t one = 1;
    int fds[3];
    ep = MUST(epoll_create1(0));
    for (int i = 0; i < 3; i++) {
        fds[i] = MUST(eventfd(0, 0));
        MUST(control(EPOLL_CTL_ADD, fds[i], EPOLLIN | EPOLLET, i));
        waiters[i] = thread_start(take_one_event, NULL);
    }
    sleep_ms(10);
    for (int i = 0; i < 3; i++)
        MUST(write(fds[i], &one, 8));
    for (int i = 0; i < 3; i++)
        sum += (long)thread_join(waiters[i]);
    number("events taken", sum);
    show_wait(0);
}
