/*
 * Clocks and sleeping: which clocks exist, that they never run backwards, how
 * long sleeps last at least, what an interrupted sleep leaves.
 *
 * Only relations are printed. While a program computes, simulated time stands
 * still, so nothing here asks that a clock has moved without a sleep.
 */
#include "case.h"

#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/wait.h>

static const struct {
    clockid_t id;
    const char *name;
} clocks[] = {
    { CLOCK_REALTIME, "REALTIME" },
    { CLOCK_MONOTONIC, "MONOTONIC" },
    { CLOCK_PROCESS_CPUTIME_ID, "PROCESS_CPUTIME" },
    { CLOCK_THREAD_CPUTIME_ID, "THREAD_CPUTIME" },
    { CLOCK_MONOTONIC_RAW, "MONOTONIC_RAW" },
    { CLOCK_REALTIME_COARSE, "REALTIME_COARSE" },
    { CLOCK_MONOTONIC_COARSE, "MONOTONIC_COARSE" },
    { CLOCK_BOOTTIME, "BOOTTIME" },
};

CASE(clocks_exist)
{
    struct timespec now;
    for (size_t i = 0; i < COUNT_OF(clocks); i++) {
        show(clocks[i].name, clock_gettime(clocks[i].id, &now));
        truth("normalised", now.tv_sec >= 0 && now.tv_nsec >= 0 && now.tv_nsec < 1000000000);
    }
    show("unknown", clock_gettime(99, &now));
    show("negative", clock_gettime(-1, &now));
}

CASE(clocks_never_run_backwards)
{
    for (size_t i = 0; i < COUNT_OF(clocks); i++) {
        int backwards = 0;
        int64_t last = clock_ns(clocks[i].id);
        for (int j = 0; j < 1000; j++) {
            int64_t now = clock_ns(clocks[i].id);
            backwards += now < last;
            last = now;
        }
        number(clocks[i].name, backwards);
    }
}

static uint64_t time_stamp(void)
{
    uint32_t low, high;
    asm volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}

/* What generators of random numbers from a processor's jitter ask for before they work (jitterentropy: of 1,024 measurements at most nine in ten stuck). */
CASE(time_stamps_vary)
{
    enum { READINGS = 1024 };
    uint64_t last = time_stamp();
    int64_t step = 0, change = 0;
    int backwards = 0, stuck = 0;
    for (int i = 0; i < READINGS; i++) {
        volatile unsigned char memory[64];
        for (size_t j = 0; j < sizeof(memory); j++)
            memory[j] = (unsigned char)i;
        uint64_t now = time_stamp();
        int64_t new_step = (int64_t)(now - last);
        int64_t new_change = new_step - step;
        backwards += new_step < 0;
        stuck += new_step == 0 || new_change == 0 || new_change == change;
        last = now;
        step = new_step;
        change = new_change;
    }
    number("backwards", backwards);
    truth("varies", stuck < READINGS * 9 / 10);
}

CASE(time_stamps_move_while_sleeping)
{
    uint64_t started = time_stamp();
    sleep_ms(10);
    uint64_t slept = time_stamp() - started;
    started = time_stamp();
    sleep_ms(40);
    uint64_t longer = time_stamp() - started;
    truth("more than twice", longer > 2 * slept);
}

CASE(clocks_move_while_sleeping)
{
    static const int moving[] = { 0, 1, 4, 7 };
    for (size_t i = 0; i < COUNT_OF(moving); i++) {
        int64_t start = clock_ns(clocks[moving[i]].id);
        sleep_ms(10);
        int64_t elapsed = clock_ns(clocks[moving[i]].id) - start;
        printf("%s: %s\n", clocks[moving[i]].name, elapsed >= 9900000 && elapsed < 5000000000 ? "moved" : "wrong");
    }
}

CASE(processor_time_does_not_move_while_sleeping)
{
    int64_t start = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    sleep_ms(50);
    truth("less than 40 ms used", clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start < 40000000);
}

CASE(raw_calls_agree_with_libc)
{
    struct timespec raw;
    int64_t before = now_ns();
    show("clock_gettime", syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &raw));
    int64_t now = raw.tv_sec * 1000000000LL + raw.tv_nsec;
    truth("in order", before <= now && now <= now_ns());
}

CASE(resolution)
{
    struct timespec resolution;
    for (size_t i = 0; i < COUNT_OF(clocks); i++) {
        show(clocks[i].name, clock_getres(clocks[i].id, &resolution));
        truth("below a second", resolution.tv_sec == 0 && resolution.tv_nsec > 0);
    }
    show("without result", clock_getres(CLOCK_MONOTONIC, NULL));
    show("unknown", clock_getres(99, &resolution));
}

CASE(setting_refused)
{
    struct timespec now = { 5, 0 };
    show("MONOTONIC", clock_settime(CLOCK_MONOTONIC, &now));
    show("unknown", clock_settime(99, &now));
}

CASE(wall_clock_calls_agree)
{
    struct timeval tv;
    struct timespec real;
    time_t before = time(NULL), stored = 0;
    show("gettimeofday", gettimeofday(&tv, NULL));
    clock_gettime(CLOCK_REALTIME, &real);
    time_t after = time(&stored);
    truth("time stores what it returns", after == stored);
    truth("gettimeofday between", before <= tv.tv_sec && tv.tv_sec <= after + 1);
    truth("clock_gettime between", before <= real.tv_sec && real.tv_sec <= after + 1);
    truth("after 1999", before > 900000000);
    struct timezone zone;
    show("with zone", gettimeofday(&tv, &zone));
    truth("microseconds", tv.tv_usec >= 0 && tv.tv_usec < 1000000);
}

CASE(broken_down_time)
{
    struct tm parts;
    char formatted[64];
    time_t moment = 951826203;
    gmtime_r(&moment, &parts);
    strftime(formatted, sizeof formatted, "%Y-%m-%d %H:%M:%S %a %j", &parts);
    text("formatted", formatted);
    number("back", timegm(&parts));
}

CASE(nanosleep_lasts)
{
    static const long lengths[] = { 1, 5, 20 };
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        struct timespec wanted = timespec_of_ms(lengths[i]);
        int64_t start = now_ns();
        show("nanosleep", nanosleep(&wanted, NULL));
        show_elapsed(start, lengths[i]);
    }
}

CASE(nanosleep_of_nothing)
{
    struct timespec wanted = { 0, 0 };
    show("zero", nanosleep(&wanted, NULL));
    wanted.tv_nsec = 1;
    show("a nanosecond", nanosleep(&wanted, NULL));
    wanted.tv_nsec = 1000000000;
    show("too many nanoseconds", nanosleep(&wanted, NULL));
    wanted.tv_nsec = -1;
    show("negative nanoseconds", nanosleep(&wanted, NULL));
    wanted = (struct timespec){ -1, 0 };
    show("negative seconds", nanosleep(&wanted, NULL));
}

CASE(clock_nanosleep_relative)
{
    struct timespec wanted = timespec_of_ms(10);
    int64_t start = now_ns();
    show_error("monotonic", clock_nanosleep(CLOCK_MONOTONIC, 0, &wanted, NULL));
    show_elapsed(start, 10);
    show_error("realtime", clock_nanosleep(CLOCK_REALTIME, 0, &wanted, NULL));
    show_error("boottime", clock_nanosleep(CLOCK_BOOTTIME, 0, &wanted, NULL));
    show_error("unknown clock", clock_nanosleep(99, 0, &wanted, NULL));
    show_error("thread clock", clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &wanted, NULL));
    wanted.tv_nsec = 1000000000;
    show_error("bad nanoseconds", clock_nanosleep(CLOCK_MONOTONIC, 0, &wanted, NULL));
}

CASE(clock_nanosleep_absolute)
{
    int64_t start = now_ns();
    struct timespec until = timespec_of_ns(start + 20000000);
    show_error("monotonic", clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL));
    show_elapsed(start, 20);
    show_error("same again", clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL));
    until = timespec_of_ns(1);
    show_error("long past", clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL));
    int64_t real = clock_ns(CLOCK_REALTIME);
    until = timespec_of_ns(real + 20000000);
    show_error("realtime", clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL));
    truth("reached", clock_ns(CLOCK_REALTIME) >= real + 20000000);
}

static void ignore_signal(int number)
{
    (void)number;
}

static void *interrupt_late(void *argument)
{
    sleep_ms(30);
    MUST_ZERO(pthread_kill(*(pthread_t *)argument, SIGUSR1));
    return NULL;
}

CASE(interrupted_sleep_tells_what_is_left)
{
    struct sigaction action = { .sa_handler = ignore_signal };
    struct timespec wanted = { 100, 0 }, left = { 0, 0 };
    pthread_t self = pthread_self();
    MUST(sigaction(SIGUSR1, &action, NULL));
    pthread_t thread = thread_start(interrupt_late, &self);
    show_error("clock_nanosleep", clock_nanosleep(CLOCK_MONOTONIC, 0, &wanted, &left));
    truth("most is left", left.tv_sec >= 90 && left.tv_sec < 100);
    thread_join(thread);
    left = (struct timespec){ 7, 7 };
    wanted = timespec_of_ns(now_ns() + 100000000000);
    thread = thread_start(interrupt_late, &self);
    show_error("absolute", clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wanted, &left));
    number("nothing is written", left.tv_sec);
    thread_join(thread);
}

CASE(other_sleeps)
{
    int64_t start = now_ns();
    show("usleep", usleep(15000));
    show_elapsed(start, 15);
    number("sleep 0", sleep(0));
}

static void *sleep_in_thread(void *argument)
{
    long ms = (long)argument;
    int64_t start = now_ns();

    sleep_ms(ms);
    return (void *)(long)(now_ns() - start >= ms * 1000000LL);
}

CASE(sleeps_run_side_by_side)
{
    pthread_t threads[20];
    int64_t start = now_ns();
    int slept = 0;
    for (long i = 0; i < 20; i++)
        threads[i] = thread_start(sleep_in_thread, (void *)(i + 20));
    for (int i = 0; i < 20; i++)
        slept += (long)thread_join(threads[i]);
    number("slept long enough", slept);
    truth("not one after the other", now_ns() - start < 580000000);
}

static int wake_order[5], woken;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *sleep_and_enlist(void *argument)
{
    long index = (long)argument;

    sleep_ms(20 + index * 35);
    pthread_mutex_lock(&mutex);
    wake_order[woken++] = index;
    pthread_mutex_unlock(&mutex);
    return NULL;
}

CASE(sleepers_wake_in_order)
{
    pthread_t threads[5];
    woken = 0;
    for (long i = 4; i >= 0; i--)
        threads[i] = thread_start(sleep_and_enlist, (void *)i);
    for (int i = 0; i < 5; i++)
        thread_join(threads[i]);
    for (int i = 0; i < 5; i++)
        number("woken", wake_order[i]);
}

CASE(processor_times)
{
    struct tms usage;
    truth("times", times(&usage) != (clock_t)-1);
    truth("not negative", usage.tms_utime >= 0 && usage.tms_stime >= 0);
    truth("of children", usage.tms_cutime >= 0 && usage.tms_cstime >= 0);
    truth("clock", clock() >= 0);
}

CASE(timers_on_clocks)
{
    static const int coarse[] = { CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE, CLOCK_TAI, 99 };
    for (size_t i = 0; i < COUNT_OF(coarse); i++) {
        int timer;
        number("clock", coarse[i]);
        if (show("timer_create", syscall(SYS_timer_create, coarse[i], NULL, &timer)) == 0)
            syscall(SYS_timer_delete, timer);
        show_ok("timerfd_create", timerfd_create(coarse[i], 0));
        show("clock_settime to nothing", syscall(SYS_clock_settime, coarse[i], NULL));
    }
    show("clock_settime to nothing", syscall(SYS_clock_settime, CLOCK_REALTIME, NULL));
}

CASE(clocks_for_sleeping)
{
    static const int more[] = { -1, CLOCK_TAI, 10, 12, 99 };
    struct timespec nothing = { 0, 0 }, bad = { 0, 2000000000 };
    for (size_t i = 0; i < COUNT_OF(clocks) + COUNT_OF(more); i++) {
        int id = i < COUNT_OF(clocks) ? clocks[i].id : more[i - COUNT_OF(clocks)];
        number("clock", id);
        show("relative", syscall(SYS_clock_nanosleep, id, 0, &nothing, NULL));
        show("absolute", syscall(SYS_clock_nanosleep, id, TIMER_ABSTIME, &nothing, NULL));
        show("no request", syscall(SYS_clock_nanosleep, id, 0, NULL, NULL));
        show("bad request", syscall(SYS_clock_nanosleep, id, 0, &bad, NULL));
    }
    show("nanosleep without a request", syscall(SYS_nanosleep, NULL, NULL));
}

/* Whether they exist depends on the machine's real-time clock. */
CASE(clocks_that_wake_a_machine)
{
    static const int ids[] = { CLOCK_REALTIME_ALARM, CLOCK_BOOTTIME_ALARM };
    struct timespec nothing = { 0, 0 }, now;
    timer_t timer;
    for (size_t i = 0; i < COUNT_OF(ids); i++) {
        int shown = clock_gettime(ids[i], &now) == 0;
        truth("resolution", (clock_getres(ids[i], &now) == 0) == shown);
        long slept = syscall(SYS_clock_nanosleep, ids[i], 0, &nothing, NULL);
        truth("sleep", (slept == 0) == shown || (slept == -1 && errno == EPERM));
        truth("or it cannot", slept == 0 || errno == EOPNOTSUPP || errno == EPERM);
        int made = timer_create(ids[i], NULL, &timer) == 0;
        truth("timer", made == shown || errno == EPERM);
        if (made)
            timer_delete(timer);
        show("no request", syscall(SYS_clock_nanosleep, ids[i], 0, NULL, NULL));
        show("set", syscall(SYS_clock_settime, ids[i], &nothing));
    }
}

CASE(intervals_of_stopped_timers)
{
    static const int kinds[] = { ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF };
    struct itimerval stopped = { { 3, 0 }, { 0, 0 } }, running = { { 2, 0 }, { 50, 0 } }, seen;
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        show("stopped", setitimer(kinds[i], &stopped, NULL));
        MUST(getitimer(kinds[i], &seen));
        number("interval", seen.it_interval.tv_sec);
        MUST(setitimer(kinds[i], &running, NULL));
        show("stopped", setitimer(kinds[i], &stopped, &seen));
        number("interval before", seen.it_interval.tv_sec);
        MUST(getitimer(kinds[i], &seen));
        number("interval", seen.it_interval.tv_sec);
        number("value", seen.it_value.tv_sec);
        MUST(setitimer(kinds[i], &(struct itimerval){ { 0, 0 }, { 0, 0 } }, NULL));
    }
}

CASE(intervals_of_stopped_posix_timers)
{
    struct itimerspec stopped = { { 5, 0 }, { 0, 0 } }, running = { { 5, 0 }, { 9, 0 } }, seen;
    struct sigevent none = { .sigev_notify = SIGEV_NONE };
    timer_t timer;
    MUST(timer_create(CLOCK_MONOTONIC, &none, &timer));
    show("stopped", timer_settime(timer, 0, &stopped, NULL));
    MUST(timer_gettime(timer, &seen));
    number("interval", seen.it_interval.tv_sec);
    MUST(timer_settime(timer, 0, &running, NULL));
    show("stopped", timer_settime(timer, 0, &stopped, &seen));
    number("interval before", seen.it_interval.tv_sec);
    MUST(timer_gettime(timer, &seen));
    number("interval", seen.it_interval.tv_sec);
    MUST(timer_delete(timer));
    int fd = MUST(timerfd_create(CLOCK_MONOTONIC, 0));
    MUST(timerfd_settime(fd, 0, &running, NULL));
    show("stopped", timerfd_settime(fd, 0, &stopped, &seen));
    number("interval before", seen.it_interval.tv_sec);
    MUST(timerfd_gettime(fd, &seen));
    number("interval", seen.it_interval.tv_sec);
}

static clockid_t clock_of(pid_t pid, int kind)
{
    return ~pid << 3 | kind;
}

CASE(clocks_of_other_processes)
{
    struct timespec now;
    clockid_t clock;
    int ends[2];
    MUST(pipe(ends));
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0) {
        char byte;
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) != 0);
    }
    show_error("clock_getcpuclockid of oneself", clock_getcpuclockid(getpid(), &clock));
    show("clock_gettime", clock_gettime(clock, &now));
    show_error("of a child", clock_getcpuclockid(child, &clock));
    show("clock_gettime", clock_gettime(clock, &now));
    truth("sane", now.tv_sec >= 0 && now.tv_sec < 100);
    show("clock_getres", clock_getres(clock, &now));
    show("its main thread's", clock_gettime(clock_of(child, 6), &now));
    show("one's own thread's", clock_gettime(clock_of(gettid(), 6), &now));
    show("of a thread 0", clock_gettime(clock_of(0, 6), &now));
    show("no kind", clock_gettime(clock_of(child, 7), &now));
    show("of a descriptor", clock_gettime(clock_of(77, 3), &now));
    MUST(close(ends[1]));
    MUST(waitpid(child, NULL, 0));
    show("once it is over", clock_gettime(clock, &now));
    show_error("of nobody", clock_getcpuclockid(0x3fffff, &clock));
    show_error("of process 1", clock_getcpuclockid(1, &clock));
    show("clock_getres of nobody", clock_getres(clock_of(0x3fffff, 2), &now));
    show("unknown", clock_gettime(99, &now));
    show("clock_getres of an unknown one", clock_getres(99, &now));
}

CASE(posix_timers_that_expire_faster_than_anybody_follows)
{
    struct itimerspec often = { { 0, 2 }, { 0, 2 } }, never = { { 0, 0 }, { 0, 0 } };
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
    siginfo_t info;
    timer_t timer;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    MUST(sigprocmask(SIG_BLOCK, &set, NULL));
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer));
    MUST(timer_settime(timer, 0, &often, NULL));
    sleep_ms(100);
    show("its signal", sigwaitinfo(&set, &info));
    truth("all are counted", info.si_overrun >= 50000000 - 50000);
    show("another", sigwaitinfo(&set, &info));
    show("stopped", timer_settime(timer, 0, &never, NULL));
    MUST(timer_delete(timer));
}
