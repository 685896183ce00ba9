/*
 * timerfd: relative, absolute and periodic timers, expiration counts, the time
 * that is left, disarming, and blocking reads.
 */
#include "case.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

static int fd;

static struct itimerspec timer_of(long first_ms, long interval_ms)
{
    return (struct itimerspec){ .it_value = timespec_of_ms(first_ms), .it_interval = timespec_of_ms(interval_ms) };
}

static void arm(long first_ms, long interval_ms)
{
    struct itimerspec timer = timer_of(first_ms, interval_ms);

    show("settime", timerfd_settime(fd, 0, &timer, NULL));
}

static uint64_t show_read(void)
{
    uint64_t count = 0;

    show("read", read(fd, &count, sizeof count));
    return count;
}

CASE(relative_once)
{
    int64_t start = now_ns();
    fd = MUST(timerfd_create(CLOCK_MONOTONIC, 0));
    arm(30, 0);
    number("expirations", show_read());
    show_elapsed(start, 30);
    set_nonblocking(fd);
    show_read();
}

CASE(realtime_clock)
{
    int64_t start = now_ns();
    fd = MUST(timerfd_create(CLOCK_REALTIME, 0));
    arm(20, 0);
    number("expirations", show_read());
    show_elapsed(start, 20);
}

CASE(absolute)
{
    int64_t start = now_ns();
    struct itimerspec timer = { .it_value = timespec_of_ns(start + 30000000) };
    fd = MUST(timerfd_create(CLOCK_MONOTONIC, 0));
    show("settime", timerfd_settime(fd, TFD_TIMER_ABSTIME, &timer, NULL));
    number("expirations", show_read());
    show_elapsed(start, 30);
}

CASE(absolute_in_the_past)
{
    struct itimerspec timer = { .it_value = { 0, 1 } };
    fd = MUST(timerfd_create(CLOCK_MONOTONIC, 0));
    show("settime", timerfd_settime(fd, TFD_TIMER_ABSTIME, &timer, NULL));
    number("expirations", show_read());
}

CASE(expirations_accumulate)
{
    fd = MUST(timerfd_create(CLOCK_MONOTONIC, 0));
    arm(10, 10);
    sleep_ms(55);
    truth("at least 5", show_read() >= 5);
}

CASE(interval_repeats)
{
    int64_t start = now_ns();
    uint64_t total = 0;
    fd = MUST(timerfd_create(CLOCK_MONOTONIC, 0));
    arm(10, 15);
    while (total < 4) {
        uint64_t count = 0;
        MUST(read(fd, &count, sizeof count));
        total += count;
    }
    show_elapsed(start, 55);
}

CASE(nonblocking)
{
    fd = MUST(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    show("F_GETFD", fcntl(fd, F_GETFD));
    show_read();
    arm(60, 0);
    show_read();
    sleep_ms(70);
    number("expirations", show_read());
    show_read();
}

CASE(gettime_tells_what_is_left)
{
    struct itimerspec left;
    fd = MUST(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
    show("gettime disarmed", timerfd_gettime(fd, &left));
    truth("zero", left.it_value.tv_sec == 0 && left.it_value.tv_nsec == 0);
    arm(50000, 7000);
    show("gettime", timerfd_gettime(fd, &left));
    truth("at most 50 s", left.it_value.tv_sec <= 50);
    truth("more than 40 s", left.it_value.tv_sec > 40);
    number("interval", left.it_interval.tv_sec);
}

CASE(settime_returns_the_old)
{
    struct itimerspec old, timer = timer_of(100000, 0);
    fd = MUST(timerfd_create(CLOCK_MONOTONIC, 0));
    arm(50000, 3000);
    show("settime", timerfd_settime(fd, 0, &timer, &old));
    truth("old value", old.it_value.tv_sec > 40 && old.it_value.tv_sec <= 50);
    number("old interval", old.it_interval.tv_sec);
}

CASE(disarm)
{
    struct pollfd entry;
    fd = MUST(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
    arm(10, 0);
    arm(0, 0);
    sleep_ms(20);
    show_read();
    entry = (struct pollfd){ .fd = fd, .events = POLLIN };
    show("poll", poll(&entry, 1, 0));
}

CASE(rearming_clears_expirations)
{
    fd = MUST(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
    arm(5, 0);
    sleep_ms(15);
    arm(60000, 0);
    show_read();
}

CASE(poll_wakes)
{
    int64_t start = now_ns();
    fd = MUST(timerfd_create(CLOCK_MONOTONIC, 0));
    struct pollfd entry = { .fd = fd, .events = POLLIN | POLLOUT };
    arm(60, 0);
    show("poll now", poll(&entry, 1, 0));
    show("poll", poll(&entry, 1, 3000));
    truth("in", entry.revents == POLLIN);
    show_elapsed(start, 60);
    show("poll again", poll(&entry, 1, 0));
    number("expirations", show_read());
    show("poll after read", poll(&entry, 1, 0));
}

CASE(bad_arguments)
{
    struct itimerspec timer = timer_of(10, 0);
    char data[16];
    show("bad clock", timerfd_create(99, 0));
    show("bad flags", timerfd_create(CLOCK_MONOTONIC, 0x10));
    show("cpu clock", timerfd_create(CLOCK_PROCESS_CPUTIME_ID, 0));
    fd = MUST(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
    show("write", write(fd, data, 8));
    show("short read", read(fd, data, 7));
    show("settime on stdin", timerfd_settime(0, 0, &timer, NULL));
    show("gettime on stdin", timerfd_gettime(0, &timer));
    show("settime on bad", timerfd_settime(999, 0, &timer, NULL));
    timer.it_value.tv_nsec = 1000000000;
    show("bad nanoseconds", timerfd_settime(fd, 0, &timer, NULL));
    timer.it_value.tv_nsec = 0;
    timer.it_value.tv_sec = -1;
    show("negative", timerfd_settime(fd, 0, &timer, NULL));
    timer.it_value.tv_sec = 1;
    show("bad settime flags", timerfd_settime(fd, 0x40, &timer, NULL));
}

CASE(two_timers_in_order)
{
    int late = MUST(timerfd_create(CLOCK_MONOTONIC, 0));
    int early = MUST(timerfd_create(CLOCK_MONOTONIC, 0));
    struct itimerspec timer = timer_of(60, 0);
    MUST(timerfd_settime(late, 0, &timer, NULL));
    timer = timer_of(10, 0);
    MUST(timerfd_settime(early, 0, &timer, NULL));
    struct pollfd entries[] = { { .fd = late, .events = POLLIN }, { .fd = early, .events = POLLIN } };
    truth("poll", poll(entries, 2, 3000) >= 1);
    truth("early is ready", entries[1].revents == POLLIN);
    show("poll late", poll(entries, 1, 3000));
}

CASE(more_expirations_than_anybody_follows)
{
    struct itimerspec timer = { { 0, 2 }, { 0, 2 } }, seen;
    fd = MUST(timerfd_create(CLOCK_MONOTONIC, 0));
    MUST(timerfd_settime(fd, 0, &timer, NULL));
    sleep_ms(100);
    truth("all are counted", show_read() >= 50000000 - 50000);
    truth("more come", show_read() > 0);
    show("gettime", timerfd_gettime(fd, &seen));
    number("interval", seen.it_interval.tv_nsec);
    struct pollfd entry = { .fd = fd, .events = POLLIN };
    show("poll", poll(&entry, 1, 3000));
}

CASE(a_timer_that_nobody_reads_is_told_once)
{
    struct itimerspec timer = timer_of(10, 10), seen;
    struct epoll_event event = { .events = EPOLLIN | EPOLLET };
    int ep = MUST(epoll_create1(0)), told = 0;
    uint64_t count = 0;

    fd = MUST(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
    MUST(timerfd_settime(fd, 0, &timer, NULL));
    MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event));
    while (epoll_wait(ep, &event, 1, 60) > 0)
        told++;
    number("told", told);
    MUST(read(fd, &count, sizeof count));
    truth("all were counted", count >= 5);
    show("told again after the read", epoll_wait(ep, &event, 1, 1000));
    /* Asking for the time lets it go on, too. */
    sleep_ms(20);
    show("told no more", epoll_wait(ep, &event, 1, 30));
    MUST(timerfd_gettime(fd, &seen));
    truth("time is left", seen.it_value.tv_nsec > 0 && seen.it_value.tv_nsec <= 10000000);
    show("told again after the question", epoll_wait(ep, &event, 1, 1000));
}
