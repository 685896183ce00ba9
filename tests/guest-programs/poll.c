/*
 * poll, ppoll, select and pselect: readiness, timeouts, signal masks, bad
 * descriptors, many descriptors.
 */
#include "case.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>

static int ends[2];

static volatile sig_atomic_t signals_seen;

static void count_signal(int number)
{
    (void)number;
    signals_seen++;
}

static void handle(int number, int flags)
{
    struct sigaction action = { .sa_handler = count_signal, .sa_flags = flags };

    signals_seen = 0;
    MUST(sigaction(number, &action, NULL));
}

static void *write_late(void *argument)
{
    (void)argument;
    sleep_ms(20);
    MUST(write(ends[1], "x", 1));
    return NULL;
}

static pthread_t main_thread;

static void *signal_late(void *argument)
{
    sleep_ms(30);
    MUST_ZERO(pthread_kill(main_thread, (long)argument));
    return NULL;
}

CASE(poll_timeout)
{
    int64_t start = now_ns();
    MUST(pipe(ends));
    struct pollfd entry = { .fd = ends[0], .events = POLLIN, .revents = -1 };
    show("poll", poll(&entry, 1, 20));
    number("revents", entry.revents);
    show_elapsed(start, 20);
    start = now_ns();
    show("poll of nothing", poll(NULL, 0, 20));
    show_elapsed(start, 20);
    show("poll at once", poll(&entry, 1, 0));
}

CASE(poll_wakes)
{
    MUST(pipe(ends));
    struct pollfd entry = { .fd = ends[0], .events = POLLIN };
    pthread_t writer = thread_start(write_late, NULL);
    show("poll without limit", poll(&entry, 1, -1));
    truth("in", entry.revents == POLLIN);
    thread_join(writer);
}

CASE(poll_bad_descriptors)
{
    struct pollfd entries[] = {
        { .fd = 999, .events = POLLIN },
        { .fd = -1, .events = POLLIN, .revents = 7 },
        { .fd = 0, .events = POLLIN },
    };
    show("poll", poll(entries, 3, 0));
    truth("NVAL", entries[0].revents == POLLNVAL);
    number("negative is skipped", entries[1].revents);
    truth("stdin is ready", entries[2].revents == POLLIN);
}

CASE(poll_regular_file)
{
    scratch();
    file_make("f", "");
    struct pollfd entry = { .fd = MUST(open("f", O_RDWR)), .events = POLLIN | POLLOUT };
    show("poll", poll(&entry, 1, 0));
    truth("in and out", entry.revents == (POLLIN | POLLOUT));
}

CASE(poll_same_descriptor_twice)
{
    MUST(pipe(ends));
    MUST(write(ends[1], "x", 1));
    struct pollfd entries[] = { { .fd = ends[0], .events = POLLIN }, { .fd = ends[0], .events = 0 }, { .fd = ends[0], .events = POLLRDNORM } };
    show("poll", poll(entries, 3, 0));
    truth("first", entries[0].revents == POLLIN);
    truth("second", entries[1].revents == 0);
    truth("third", entries[2].revents == POLLRDNORM);
}

CASE(poll_many)
{
    enum { MANY = 200 };
    static int fds[MANY];
    static struct pollfd entries[MANY];
    uint64_t one = 1;
    for (int i = 0; i < MANY; i++) {
        fds[i] = MUST(eventfd(0, 0));
        entries[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
    }
    show("none", poll(entries, MANY, 0));
    MUST(write(fds[0], &one, 8));
    MUST(write(fds[111], &one, 8));
    MUST(write(fds[199], &one, 8));
    show("three", poll(entries, MANY, -1));
    for (int i = 0; i < MANY; i++)
        if (entries[i].revents)
            number("ready", i);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
}

CASE(poll_interrupted)
{
    handle(SIGUSR1, SA_RESTART);
    main_thread = pthread_self();
    pthread_t sender = thread_start(signal_late, (void *)SIGUSR1);
    show("poll is never restarted", poll(NULL, 0, 5000));
    number("signals", signals_seen);
    thread_join(sender);
}

CASE(poll_too_many)
{
    struct rlimit old, low;
    static struct pollfd entries[40];
    MUST(getrlimit(RLIMIT_NOFILE, &old));
    low = old;
    low.rlim_cur = 30;
    MUST(setrlimit(RLIMIT_NOFILE, &low));
    for (int i = 0; i < 40; i++)
        entries[i].fd = -1;
    show("at the limit", poll(entries, 30, 0));
    show("beyond the limit", poll(entries, 31, 0));
    MUST(setrlimit(RLIMIT_NOFILE, &old));
}

CASE(ppoll_timeout)
{
    int64_t start = now_ns();
    struct timespec limit = timespec_of_ms(20);
    show("ppoll", ppoll(NULL, 0, &limit, NULL));
    show_elapsed(start, 20);
    limit.tv_nsec = -1;
    show("negative nanoseconds", ppoll(NULL, 0, &limit, NULL));
    limit = (struct timespec){ -1, 0 };
    show("negative seconds", ppoll(NULL, 0, &limit, NULL));
    limit = (struct timespec){ 0, 0 };
    show("zero", ppoll(NULL, 0, &limit, NULL));
}

CASE(ppoll_unblocks_signal)
{
    sigset_t block, none, after;
    handle(SIGUSR1, 0);
    sigemptyset(&none);
    sigemptyset(&block);
    sigaddset(&block, SIGUSR1);
    MUST(sigprocmask(SIG_BLOCK, &block, NULL));
    MUST(raise(SIGUSR1));
    number("signals before", signals_seen);
    struct timespec limit = timespec_of_ms(5000);
    show("ppoll", ppoll(NULL, 0, &limit, &none));
    number("signals after", signals_seen);
    MUST(sigprocmask(SIG_SETMASK, NULL, &after));
    truth("mask is back", sigismember(&after, SIGUSR1));
}

CASE(ppoll_ready_wins_over_mask)
{
    sigset_t all, now;
    sigfillset(&all);
    MUST(pipe(ends));
    MUST(write(ends[1], "x", 1));
    struct pollfd entry = { .fd = ends[0], .events = POLLIN };
    show("ppoll", ppoll(&entry, 1, NULL, &all));
    MUST(sigprocmask(SIG_SETMASK, NULL, &now));
    truth("mask is back", !sigismember(&now, SIGUSR1));
}

CASE(select_sets)
{
    fd_set readers, writers, others;
    MUST(pipe(ends));
    FD_ZERO(&readers);
    FD_ZERO(&writers);
    FD_ZERO(&others);
    FD_SET(ends[0], &readers);
    FD_SET(ends[1], &writers);
    FD_SET(ends[0], &others);
    struct timeval limit = { 5, 0 };
    show("select", select(ends[1] + 1, &readers, &writers, &others, &limit));
    truth("reader", FD_ISSET(ends[0], &readers));
    truth("writer", FD_ISSET(ends[1], &writers));
    truth("exception", FD_ISSET(ends[0], &others));
    MUST(write(ends[1], "x", 1));
    FD_SET(ends[0], &readers);
    show("select", select(ends[1] + 1, &readers, &writers, NULL, &limit));
    truth("reader", FD_ISSET(ends[0], &readers));
    MUST(close(ends[1]));
    show("end of file reads", select(ends[0] + 1, &readers, NULL, NULL, NULL));
}

CASE(select_timeout)
{
    fd_set readers;
    int64_t start = now_ns();
    MUST(pipe(ends));
    FD_ZERO(&readers);
    FD_SET(ends[0], &readers);
    struct timeval limit = { 0, 20000 };
    show("select", select(ends[0] + 1, &readers, NULL, NULL, &limit));
    truth("set is cleared", !FD_ISSET(ends[0], &readers));
    truth("nothing is left", limit.tv_sec == 0 && limit.tv_usec == 0);
    show_elapsed(start, 20);
    limit = (struct timeval){ 0, 10000 };
    show("sleep with select", select(0, NULL, NULL, NULL, &limit));
}

CASE(select_tells_what_is_left)
{
    fd_set readers;
    MUST(pipe(ends));
    MUST(write(ends[1], "x", 1));
    FD_ZERO(&readers);
    FD_SET(ends[0], &readers);
    struct timeval limit = { 100, 0 };
    show("select", select(ends[0] + 1, &readers, NULL, NULL, &limit));
    truth("most is left", limit.tv_sec >= 95 && limit.tv_sec <= 100);
}

CASE(select_errors)
{
    fd_set readers;
    struct timeval limit = { 0, 0 };
    FD_ZERO(&readers);
    FD_SET(60, &readers);
    show("closed descriptor", select(61, &readers, NULL, NULL, &limit));
    FD_ZERO(&readers);
    show("negative count", select(-1, &readers, NULL, NULL, &limit));
    limit.tv_sec = -1;
    show("negative time", select(0, NULL, NULL, NULL, &limit));
    limit = (struct timeval){ 0, 2000000 };
    show("beyond count is ignored", (FD_SET(60, &readers), limit.tv_usec = 0, select(60, &readers, NULL, NULL, &limit)));
}

CASE(select_hangup_and_error)
{
    fd_set readers, writers;
    MUST(pipe(ends));
    int copy = MUST(dup(ends[1]));
    MUST(close(ends[0]));
    FD_ZERO(&readers);
    FD_ZERO(&writers);
    FD_SET(copy, &writers);
    FD_SET(copy, &readers);
    struct timeval limit = { 0, 0 };
    show("select", select(copy + 1, &readers, &writers, NULL, &limit));
    truth("writable on error", FD_ISSET(copy, &writers));
    truth("readable on error", FD_ISSET(copy, &readers));
}

CASE(pselect_with_mask)
{
    sigset_t block, none;
    handle(SIGUSR2, 0);
    sigemptyset(&none);
    sigemptyset(&block);
    sigaddset(&block, SIGUSR2);
    MUST(sigprocmask(SIG_BLOCK, &block, NULL));
    MUST(raise(SIGUSR2));
    struct timespec limit = timespec_of_ms(5000);
    show("pselect", pselect(0, NULL, NULL, NULL, &limit, &none));
    number("signals", signals_seen);
    number("time is not written back", limit.tv_sec);
    limit = timespec_of_ms(10);
    int64_t start = now_ns();
    show("pselect timeout", pselect(0, NULL, NULL, NULL, &limit, NULL));
    show_elapsed(start, 10);
}

static long wait_by_ppoll(const sigset_t *mask, struct timespec *limit)
{
    struct pollfd entry = { .fd = ends[0], .events = POLLIN };
    return ppoll(&entry, 1, limit, mask);
}

static long wait_by_pselect(const sigset_t *mask, struct timespec *limit)
{
    fd_set readers;
    FD_ZERO(&readers);
    FD_SET(ends[0], &readers);
    return pselect(ends[0] + 1, &readers, NULL, NULL, limit, mask);
}

static long wait_by_epoll(const sigset_t *mask, struct timespec *limit)
{
    struct epoll_event event = { .events = EPOLLIN };
    int fd = MUST(epoll_create1(0));
    MUST(epoll_ctl(fd, EPOLL_CTL_ADD, ends[0], &event));
    long result = epoll_pwait(fd, &event, 1, limit->tv_sec * 1000 + limit->tv_nsec / 1000000, mask);
    int error = errno;
    close(fd);
    errno = error;
    return result;
}

static long (*const waits_with_mask[])(const sigset_t *, struct timespec *) = { wait_by_ppoll, wait_by_pselect, wait_by_epoll };

/* What a call's mask held back comes as soon as the call is over, and not with the next one. */
CASE(signals_that_a_mask_held_back)
{
    sigset_t block;
    main_thread = pthread_self();
    MUST(pipe(ends));
    sigemptyset(&block);
    sigaddset(&block, SIGUSR1);
    for (size_t i = 0; i < COUNT_OF(waits_with_mask); i++) {
        struct timespec limit = timespec_of_ms(80);
        handle(SIGUSR1, 0);
        pthread_t sender = thread_start(signal_late, (void *)SIGUSR1);
        long result = waits_with_mask[i](&block, &limit);
        int seen = signals_seen;
        show("times out", result);
        number("signals at its end", seen);
        thread_join(sender);
    }
}

/* A call that has something to report leaves signals that only its own mask lets through. */
CASE(signals_that_only_a_mask_lets_through)
{
    sigset_t block, none, pending;
    MUST(pipe(ends));
    MUST(write(ends[1], "x", 1));
    sigemptyset(&none);
    sigemptyset(&block);
    sigaddset(&block, SIGUSR1);
    MUST(sigprocmask(SIG_BLOCK, &block, NULL));
    MUST(raise(SIGUSR1));
    for (size_t i = 0; i < COUNT_OF(waits_with_mask); i++) {
        struct timespec limit = timespec_of_ms(1000);
        handle(SIGUSR1, 0);
        show("ready", waits_with_mask[i](&none, &limit));
        number("signals", signals_seen);
        MUST(sigpending(&pending));
        truth("it still waits", sigismember(&pending, SIGUSR1));
    }
    signal(SIGUSR1, SIG_IGN);
}

CASE(two_threads_poll_one_pipe)
{
    MUST(pipe(ends));
    pthread_t writer = thread_start(write_late, NULL);
    struct pollfd entries[] = { { .fd = ends[0], .events = POLLIN }, { .fd = ends[1], .events = 0 } };
    show("poll", poll(entries, 2, -1));
    thread_join(writer);
    MUST(close(ends[0]));
    show("poll after close", poll(entries, 2, 0));
    truth("first is NVAL", entries[0].revents == POLLNVAL);
    truth("second is ERR", entries[1].revents == POLLERR);
}
