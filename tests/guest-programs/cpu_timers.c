/* Timers on processor time: setitimer's two, and those of timer_create. They may expire late, never early. */
#include "case.h"
#include "process.h"

static volatile sig_atomic_t fired, last_signal;

static void on_timer(int number)
{
    fired++;
    last_signal = number;
}

static void handle(int number)
{
    struct sigaction action = { .sa_handler = on_timer };

    fired = 0;
    sigaction(number, &action, NULL);
}

static long cpu_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000000L + now.tv_nsec / 1000;
}

static void show_timer(const char *what, int which)
{
    struct itimerval value;

    if (show(what, getitimer(which, &value)) == 0) {
        printf("interval %ld.%06ld\n", (long)value.it_interval.tv_sec, (long)value.it_interval.tv_usec);
        truth("runs", value.it_value.tv_sec || value.it_value.tv_usec);
    }
}

CASE(intervals_are_kept_and_told)
{
    struct itimerval value = { { 100, 10000 }, { 90, 20000 } }, old;

    for (int which = ITIMER_REAL; which <= ITIMER_PROF; which++) {
        show_timer("at first", which);
        show("set", setitimer(which, &value, NULL));
        show_timer("then", which);
        memset(&old, 0, sizeof(old));
        show("stop", setitimer(which, &(struct itimerval){ 0 }, &old));
        number("interval before", old.it_interval.tv_sec);
        truth("time was left", old.it_value.tv_sec >= 89 && old.it_value.tv_sec <= 90);
        show_timer("stopped", which);
    }
    show("an unknown timer", getitimer(3, &value));
    value.it_value.tv_usec = 1000000;
    show("too many microseconds", setitimer(ITIMER_PROF, &value, NULL));
}

CASE(computing_makes_them_expire)
{
    struct itimerval value = { { 0, 0 }, { 0, 20000 } };
    int kinds[][2] = { { ITIMER_VIRTUAL, SIGVTALRM }, { ITIMER_PROF, SIGPROF } };

    for (unsigned i = 0; i < COUNT_OF(kinds); i++) {
        long before = cpu_us();

        handle(kinds[i][1]);
        MUST(setitimer(kinds[i][0], &value, NULL));
        while (!fired)
            ;
        truth("its signal", last_signal == kinds[i][1]);
        truth("not early", cpu_us() - before >= 20000);
        show_timer("after", kinds[i][0]);
        number("fired", fired);
    }
}

CASE(calls_are_processor_time_too)
{
    struct itimerval value = { { 0, 10000 }, { 0, 10000 } };

    handle(SIGPROF);
    MUST(setitimer(ITIMER_PROF, &value, NULL));
    while (fired < 3)
        getppid();
    MUST(setitimer(ITIMER_PROF, &(struct itimerval){ 0 }, NULL));
    truth("three times", fired >= 3);
}

CASE(sleeping_is_none)
{
    struct itimerval value = { { 0, 0 }, { 0, 50000 } };

    handle(SIGPROF);
    MUST(setitimer(ITIMER_PROF, &value, NULL));
    usleep(80000);
    number("fired", fired);
    MUST(setitimer(ITIMER_PROF, &(struct itimerval){ 0 }, &value));
    truth("most is left", value.it_value.tv_usec > 25000);
}

CASE(children_have_none)
{
    struct itimerval value = { { 5, 0 }, { 5, 0 } };
    pid_t child;

    MUST(setitimer(ITIMER_VIRTUAL, &value, NULL));
    fflush(stdout);
    MUST(child = fork());
    if (child == 0) {
        show_timer("child", ITIMER_VIRTUAL);
        fflush(stdout);
        _exit(0);
    }
    while (waitpid(child, NULL, 0) < 0)
        ;
    show_timer("parent", ITIMER_VIRTUAL);
    MUST(setitimer(ITIMER_VIRTUAL, &(struct itimerval){ 0 }, NULL));
}

CASE(timers_on_clocks_of_processor_time)
{
    clockid_t clocks[] = { CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID };

    for (unsigned i = 0; i < COUNT_OF(clocks); i++) {
        struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
        struct itimerspec value = { { 0, 0 }, { 0, 20000000 } };
        long before = cpu_us();
        timer_t timer;

        handle(SIGUSR1);
        MUST(timer_create(clocks[i], &event, &timer));
        MUST(timer_settime(timer, 0, &value, NULL));
        MUST(timer_gettime(timer, &value));
        truth("something is left", value.it_value.tv_nsec > 0 && value.it_value.tv_nsec <= 20000000);
        while (!fired)
            ;
        truth("not early", cpu_us() - before >= 20000);
        MUST(timer_gettime(timer, &value));
        number("left", value.it_value.tv_nsec);
        MUST(timer_delete(timer));
    }
}

CASE(absolute_moments_of_processor_time)
{
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
    struct itimerspec value = { 0 };
    long until;
    timer_t timer;

    handle(SIGUSR1);
    MUST(timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer));
    MUST(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &value.it_value));
    value.it_value.tv_nsec += 10000000;
    if (value.it_value.tv_nsec >= 1000000000) {
        value.it_value.tv_nsec -= 1000000000;
        value.it_value.tv_sec++;
    }
    until = value.it_value.tv_sec * 1000000L + value.it_value.tv_nsec / 1000;
    MUST(timer_settime(timer, TIMER_ABSTIME, &value, NULL));
    while (!fired)
        ;
    truth("not early", cpu_us() >= until);
    MUST(timer_delete(timer));
}

CASE(clocks_that_cannot_be_slept_on)
{
    struct timespec time = { 0, 1000 };

    show_error("thread's processor time", clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &time, NULL));
    show("raw", syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC_RAW, 0, &time, NULL));
    show("coarse", syscall(SYS_clock_nanosleep, CLOCK_REALTIME_COARSE, 0, &time, NULL));
    show("unknown", syscall(SYS_clock_nanosleep, 77, 0, &time, NULL));
}

CASE(timers_that_are_set_wrongly)
{
    struct sigevent event = { .sigev_notify = SIGEV_THREAD, .sigev_signo = SIGUSR1 };
    struct itimerspec value = { { 0, 0 }, { 0, 1000000000 } };
    int timer;

    show("made as for threads", syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer));
    show("no value", syscall(SYS_timer_settime, timer, 0, NULL, NULL));
    show("too many nanoseconds", syscall(SYS_timer_settime, timer, 0, &value, NULL));
    show("no such timer", syscall(SYS_timer_settime, 1234, 0, &value, NULL));
    show("deleted", syscall(SYS_timer_delete, timer));
    event.sigev_signo = 77;
    show("no such signal", syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer));
    event.sigev_notify = 9;
    show("no such kind", syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer));
}

CASE(a_moment_long_ago_counts_what_was_missed)
{
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
    struct itimerspec value = { { 0, 100000000 }, { 0, 0 } };
    timer_t timer;

    handle(SIGRTMIN);
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer));
    MUST(clock_gettime(CLOCK_MONOTONIC, &value.it_value));
    value.it_value.tv_sec -= 10;
    MUST(timer_settime(timer, TIMER_ABSTIME, &value, NULL));
    while (!fired)
        usleep(1000);
    truth("a hundred at least", timer_getoverrun(timer) >= 100);
    MUST(timer_delete(timer));
}
