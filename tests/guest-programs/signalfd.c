/*
 * signalfd: records of signals from every kind of sender, sets that change,
 * readiness for poll, select and epoll, and whose signals a reader gets.
 */
#include "process.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>

static sigset_t set_of(int first, int second)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, first);
    if (second)
        sigaddset(&set, second);
    return set;
}

/* Blocks two signals and opens a descriptor for them. */
static int open_for(int first, int second, int flags)
{
    sigset_t set = set_of(first, second);

    MUST(sigprocmask(SIG_BLOCK, &set, NULL));
    return MUST(signalfd(-1, &set, flags));
}

static void show_record(int fd)
{
    struct signalfd_siginfo info;
    long got = read(fd, &info, sizeof info);

    show("read", got);
    if (got != sizeof info)
        return;
    number("signo", info.ssi_signo);
    number("code", info.ssi_code);
    number("errno", info.ssi_errno);
    truth("own pid", info.ssi_pid == (unsigned)getpid());
    truth("own uid", info.ssi_uid == getuid());
    number("int", info.ssi_int);
}

static void show_ready(const char *what, int fd)
{
    struct pollfd entry = { .fd = fd, .events = POLLIN | POLLOUT };

    show(what, poll(&entry, 1, 0));
    number("revents", entry.revents);
}

CASE(kill_is_read)
{
    int fd = open_for(SIGUSR1, 0, 0);

    MUST(kill(getpid(), SIGUSR1));
    show_record(fd);
}

CASE(tgkill_is_read)
{
    int fd = open_for(SIGUSR1, 0, 0);

    MUST(syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1));
    show_record(fd);
}

CASE(sigqueue_carries_a_value)
{
    int fd = open_for(SIGRTMIN + 3, 0, 0);
    union sigval value = { .sival_int = 77 };

    MUST(sigqueue(getpid(), SIGRTMIN + 3, value));
    value.sival_int = -5;
    MUST(sigqueue(getpid(), SIGRTMIN + 3, value));
    show_record(fd);
    show_record(fd);
}

CASE(pointer_value)
{
    int fd = open_for(SIGUSR2, 0, 0);
    union sigval value = { .sival_ptr = (void *)0x123456789abcul };
    struct signalfd_siginfo info;

    MUST(sigqueue(getpid(), SIGUSR2, value));
    show("read", read(fd, &info, sizeof info));
    printf("ptr %llx\n", (unsigned long long)info.ssi_ptr);
}

CASE(child_record)
{
    int fd = open_for(SIGCHLD, 0, 0);
    struct signalfd_siginfo info;
    pid_t pid;

    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0)
        _exit(42);
    show("read", read(fd, &info, sizeof info));
    number("signo", info.ssi_signo);
    number("code", info.ssi_code);
    number("status", info.ssi_status);
    truth("pid", info.ssi_pid == (unsigned)pid);
    child_end("child", pid);
}

CASE(killed_child_record)
{
    int fd = open_for(SIGCHLD, 0, 0);
    struct signalfd_siginfo info;
    pid_t pid;

    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        pause();
        _exit(0);
    }
    MUST(kill(pid, SIGKILL));
    show("read", read(fd, &info, sizeof info));
    number("code", info.ssi_code);
    number("status", info.ssi_status);
    child_end("child", pid);
}

CASE(timer_record)
{
    int fd = open_for(SIGALRM, 0, 0);
    struct itimerval timer = { .it_value = { 0, 20000 } };
    struct signalfd_siginfo info;

    MUST(setitimer(ITIMER_REAL, &timer, NULL));
    show("read", read(fd, &info, sizeof info));
    number("signo", info.ssi_signo);
    number("code", info.ssi_code);
    number("pid", info.ssi_pid);
}

CASE(posix_timer_record)
{
    int fd = open_for(SIGRTMIN + 1, 0, 0);
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1 };
    struct itimerspec once = { .it_value = timespec_of_ms(10) };
    struct signalfd_siginfo info;
    timer_t timer;

    event.sigev_value.sival_int = 99;
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer));
    MUST(timer_settime(timer, 0, &once, NULL));
    show("read", read(fd, &info, sizeof info));
    number("code", info.ssi_code);
    number("int", info.ssi_int);
    number("overrun", info.ssi_overrun);
    MUST(timer_delete(timer));
}

CASE(several_records_in_one_read)
{
    int fd = open_for(SIGUSR1, SIGUSR2, SFD_NONBLOCK);
    struct signalfd_siginfo info[4];
    long got;

    MUST(kill(getpid(), SIGUSR2));
    MUST(kill(getpid(), SIGUSR1));
    got = show("read", read(fd, info, sizeof info));
    for (long i = 0; i < got / (long)sizeof *info; i++)
        number("signo", info[i].ssi_signo);
    show("again", read(fd, info, sizeof info));
}

CASE(room_for_one_and_a_half)
{
    int fd = open_for(SIGUSR1, SIGUSR2, SFD_NONBLOCK);
    struct signalfd_siginfo info[2];

    MUST(kill(getpid(), SIGUSR1));
    MUST(kill(getpid(), SIGUSR2));
    show("read", read(fd, info, sizeof *info + 64));
    show("rest", read(fd, info, sizeof info));
}

CASE(bad_sizes)
{
    int fd = open_for(SIGUSR1, 0, SFD_NONBLOCK);
    char small[127];

    show("empty", read(fd, small, 0));
    show("small", read(fd, small, sizeof small));
    MUST(kill(getpid(), SIGUSR1));
    show("small, pending", read(fd, small, sizeof small));
    show("write", write(fd, "x", 1));
    show("lseek", lseek(fd, 0, SEEK_SET));
    show_record(fd);
}

CASE(standard_signals_merge_real_time_ones_queue)
{
    int fd = open_for(SIGUSR1, SIGRTMIN, SFD_NONBLOCK);
    struct signalfd_siginfo info[8];
    union sigval value = { .sival_int = 0 };

    for (int i = 0; i < 3; i++) {
        MUST(kill(getpid(), SIGUSR1));
        value.sival_int = i;
        MUST(sigqueue(getpid(), SIGRTMIN, value));
    }
    show("read", read(fd, info, sizeof info));
    for (int i = 0; i < 4; i++)
        printf("%d %d\n", info[i].ssi_signo == (unsigned)SIGRTMIN ? -1 : (int)info[i].ssi_signo, info[i].ssi_int);
}

CASE(flags)
{
    sigset_t set = set_of(SIGUSR1, 0);
    int plain = MUST(signalfd(-1, &set, 0));
    int both = MUST(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));

    number("FD plain", fcntl(plain, F_GETFD));
    number("FL plain", fcntl(plain, F_GETFL));
    number("FD both", fcntl(both, F_GETFD));
    number("FL both", fcntl(both, F_GETFL));
    show("bad flags", signalfd(-1, &set, 1));
    show("bad descriptor", signalfd(99, &set, 0));
    show("other kind", signalfd(0, &set, 0));
    show("bad size", syscall(SYS_signalfd4, -1, &set, 4, 0));
    show("bad address", syscall(SYS_signalfd4, -1, NULL, 8, 0));
}

CASE(set_can_be_changed)
{
    int fd = open_for(SIGUSR1, SIGUSR2, SFD_NONBLOCK);
    sigset_t other = set_of(SIGUSR2, 0);

    MUST(kill(getpid(), SIGUSR1));
    show_ready("before", fd);
    truth("same descriptor", signalfd(fd, &other, 0) == fd);
    show_ready("after", fd);
    show_record(fd);
    MUST(kill(getpid(), SIGUSR2));
    show_record(fd);
    number("still nonblocking", (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
    signal(SIGUSR1, SIG_IGN);
}

CASE(kill_and_stop_are_never_in_a_set)
{
    sigset_t all;
    int fd;

    sigfillset(&all);
    fd = MUST(signalfd(-1, &all, SFD_NONBLOCK));
    show_ready("nothing", fd);
}

CASE(unblocked_signal_goes_to_its_handler)
{
    sigset_t set = set_of(SIGUSR1, 0);
    int fd = MUST(signalfd(-1, &set, SFD_NONBLOCK));

    signal(SIGUSR1, SIG_IGN);
    MUST(kill(getpid(), SIGUSR1));
    show_record(fd);
}

CASE(ignored_but_blocked_is_kept)
{
    int fd = open_for(SIGUSR1, 0, SFD_NONBLOCK);

    signal(SIGUSR1, SIG_IGN);
    MUST(kill(getpid(), SIGUSR1));
    show_record(fd);
}

CASE(readiness_by_poll_and_select)
{
    int fd = open_for(SIGUSR1, 0, 0);
    struct timeval zero = { 0, 0 };
    fd_set readers;

    show_ready("before", fd);
    MUST(kill(getpid(), SIGUSR1));
    show_ready("after", fd);
    FD_ZERO(&readers);
    FD_SET(fd, &readers);
    show("select", select(fd + 1, &readers, NULL, NULL, &zero));
    show_record(fd);
    show_ready("read", fd);
}

static void epoll_case(unsigned events)
{
    int fd = open_for(SIGUSR1, 0, SFD_NONBLOCK);
    int instance = MUST(epoll_create1(0));
    struct epoll_event event = { .events = events, .data.u32 = 7 };

    MUST(epoll_ctl(instance, EPOLL_CTL_ADD, fd, &event));
    show("nothing", epoll_wait(instance, &event, 1, 0));
    MUST(kill(getpid(), SIGUSR1));
    show("ready", epoll_wait(instance, &event, 1, 1000));
    number("events", event.events);
    show("again", epoll_wait(instance, &event, 1, 0));
    show_record(fd);
    show("read", epoll_wait(instance, &event, 1, 0));
    MUST(kill(getpid(), SIGUSR1));
    show("second", epoll_wait(instance, &event, 1, 50));
    show_record(fd);
}

CASE(epoll_level)
{
    epoll_case(EPOLLIN);
}

CASE(epoll_edge)
{
    epoll_case(EPOLLIN | EPOLLET);
}

CASE(epoll_one_shot)
{
    epoll_case(EPOLLIN | EPOLLONESHOT);
}

static void *send_later(void *argument)
{
    sleep_ms(20);
    MUST(kill(getpid(), *(int *)argument));
    return NULL;
}

CASE(blocking_read_is_woken)
{
    int fd = open_for(SIGUSR1, 0, 0), signal = SIGUSR1;
    pthread_t thread = thread_start(send_later, &signal);

    show_record(fd);
    thread_join(thread);
}

CASE(blocking_poll_is_woken)
{
    int fd = open_for(SIGUSR2, 0, 0), signal = SIGUSR2;
    pthread_t thread = thread_start(send_later, &signal);
    struct pollfd entry = { .fd = fd, .events = POLLIN };

    show("poll", poll(&entry, 1, 2000));
    number("revents", entry.revents);
    thread_join(thread);
    show_record(fd);
}

CASE(blocking_epoll_is_woken)
{
    int fd = open_for(SIGUSR2, 0, 0), signal = SIGUSR2;
    int instance = MUST(epoll_create1(0));
    struct epoll_event event = { .events = EPOLLIN };
    pthread_t thread = thread_start(send_later, &signal);

    MUST(epoll_ctl(instance, EPOLL_CTL_ADD, fd, &event));
    show("epoll", epoll_wait(instance, &event, 1, 2000));
    thread_join(thread);
    show_record(fd);
}

static int fd_of_parent;

static int read_own(void *argument)
{
    (void)argument;
    show_ready("child before", fd_of_parent);
    MUST(kill(getpid(), SIGUSR1));
    show_record(fd_of_parent);
    return 0;
}

CASE(each_process_reads_its_own)
{
    fd_of_parent = open_for(SIGUSR1, 0, SFD_NONBLOCK);
    MUST(kill(getpid(), SIGUSR1));
    in_child("child", read_own, NULL);
    show_record(fd_of_parent);
}

static int wait_for_own(void *argument)
{
    struct signalfd_siginfo info;

    (void)argument;
    show("child read", read(fd_of_parent, &info, sizeof info));
    truth("from parent", info.ssi_pid == (unsigned)getppid());
    return 0;
}

CASE(child_waits_while_the_parent_has_one)
{
    pid_t pid;

    fd_of_parent = open_for(SIGUSR1, 0, 0);
    pid = child_start(wait_for_own, NULL);
    sleep_ms(20);
    MUST(kill(getpid(), SIGUSR1));
    sleep_ms(20);
    MUST(kill(pid, SIGUSR1));
    child_end("child", pid);
    show_record(fd_of_parent);
}

static void *read_in_thread(void *argument)
{
    struct signalfd_siginfo info;
    long got = read(*(int *)argument, &info, sizeof info);

    return (void *)(got == sizeof info ? (long)info.ssi_signo : -(long)errno);
}

CASE(any_thread_reads_the_processes_signals)
{
    int fd = open_for(SIGUSR1, 0, 0);
    pthread_t thread = thread_start(read_in_thread, &fd);

    sleep_ms(20);
    MUST(kill(getpid(), SIGUSR1));
    number("signo", (long)thread_join(thread));
}

CASE(a_threads_own_signal_is_not_another_ones)
{
    int fd = open_for(SIGUSR1, 0, SFD_NONBLOCK);
    pthread_t thread;

    MUST(syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1));
    thread = thread_start(read_in_thread, &fd);
    truth("EAGAIN", (long)thread_join(thread) == -EAGAIN);
    show_record(fd);
}

static void handler(int number)
{
    (void)number;
}

CASE(other_signal_interrupts_a_read)
{
    int fd = open_for(SIGUSR1, 0, 0), signal_number = SIGUSR2;
    struct sigaction action = { .sa_handler = handler };
    struct signalfd_siginfo info;
    pthread_t thread;
    sigset_t block = set_of(SIGUSR2, 0), old;

    MUST(sigaction(SIGUSR2, &action, NULL));
    MUST_ZERO(pthread_sigmask(SIG_BLOCK, &block, &old));
    thread = thread_start(send_later, &signal_number);
    MUST_ZERO(pthread_sigmask(SIG_SETMASK, &old, NULL));
    show("read", read(fd, &info, sizeof info));
    thread_join(thread);
}

CASE(duplicates_share)
{
    int fd = open_for(SIGUSR1, 0, SFD_NONBLOCK), copy = MUST(dup(fd));

    MUST(kill(getpid(), SIGUSR1));
    show_record(copy);
    show_record(fd);
}

CASE(link_text)
{
    sigset_t set = set_of(SIGUSR1, 0);
    int fd = MUST(signalfd(-1, &set, 0));
    char path[64], name[64] = "";

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    show("length", readlink(path, name, sizeof name - 1));
    text("link", name);
}

/* Each signal that a set can hold: sent, ready, read. */
CASE(every_signal)
{
    for (int number = 1; number <= 64; number++) {
        struct signalfd_siginfo info;
        sigset_t set;
        int fd;
        long got;

        if (number == SIGKILL || number == SIGSTOP || number == 32 || number == 33)
            continue;
        set = set_of(number, 0);
        MUST(sigprocmask(SIG_BLOCK, &set, NULL));
        fd = MUST(signalfd(-1, &set, SFD_NONBLOCK));
        MUST(kill(getpid(), number));
        got = read(fd, &info, sizeof info);
        printf("signal %d: %ld %d %d\n", number, got, (int)info.ssi_signo, info.ssi_code);
        close(fd);
    }
}
