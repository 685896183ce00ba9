/*
 * What sigaction's flags do, alternate stacks, queues of real-time signals and
 * their order, timers that send signals, and descriptors that do (O_ASYNC).
 */
#include "process.h"

#include <pty.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <ucontext.h>

static volatile sig_atomic_t depth, deepest, count, order[64];
static siginfo_t last;

static struct sigaction action_of(void (*handler)(int, siginfo_t *, void *), int flags)
{
    return (struct sigaction){ .sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags };
}

static void install(int signal, void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action = action_of(handler, flags);

    sigemptyset(&action.sa_mask);
    MUST(sigaction(signal, &action, NULL));
}

static void note(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (count < 64)
        order[count] = number;
    count++;
    last = *info;
}

static void show_order(const char *what)
{
    printf("%s:", what);
    for (int i = 0; i < count && i < 64; i++)
        printf(" %d", order[i] >= SIGRTMIN ? order[i] - SIGRTMIN + 100 : order[i]);
    puts("");
}

static void block(int signal)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, signal);
    MUST(sigprocmask(SIG_BLOCK, &set, NULL));
}

static void unblock_all(void)
{
    sigset_t none;

    sigemptyset(&none);
    MUST(sigprocmask(SIG_SETMASK, &none, NULL));
}

static void nest(int number, siginfo_t *info, void *context)
{
    (void)info;
    (void)context;
    depth++;
    if (depth > deepest)
        deepest = depth;
    if (++count < 4)
        raise(number);
    depth--;
}

static void nesting(const char *what, int flags)
{
    depth = deepest = count = 0;
    install(SIGUSR1, nest, flags);
    raise(SIGUSR1);
    printf("%s: depth %d of %d\n", what, deepest, count);
}

CASE(a_handlers_own_signal_waits)
{
    nesting("plain", 0);
    nesting("SA_NODEFER", SA_NODEFER);
}

static void mask_shown(int number, siginfo_t *info, void *context)
{
    sigset_t now;

    (void)number;
    (void)info;
    (void)context;
    sigprocmask(SIG_SETMASK, NULL, &now);
    for (int signal = 1; signal < 65; signal++)
        if (sigismember(&now, signal) == 1)
            printf(" %d", signal);
    puts("");
}

CASE(masks_inside_handlers)
{
    static const int flags[] = { 0, SA_NODEFER };

    for (int i = 0; i < 2; i++) {
        for (int with = 0; with < 2; with++) {
            struct sigaction action = action_of(mask_shown, flags[i]);

            sigemptyset(&action.sa_mask);
            if (with) {
                sigaddset(&action.sa_mask, SIGUSR2);
                sigaddset(&action.sa_mask, SIGUSR1);
                sigaddset(&action.sa_mask, SIGKILL);
            }
            MUST(sigaction(SIGUSR1, &action, NULL));
            printf("flags %d mask %d:", i, with);
            raise(SIGUSR1);
        }
    }
}

static int reset_twice(void *argument)
{
    install(SIGUSR1, note, SA_RESETHAND | *(int *)argument);
    raise(SIGUSR1);
    printf("first: %d\n", count);
    fflush(stdout);
    raise(SIGUSR1);
    return 0;
}

CASE(a_handler_that_is_reset)
{
    int flags = 0;

    in_child("plain", reset_twice, &flags);
    flags = SA_NODEFER;
    in_child("with SA_NODEFER", reset_twice, &flags);
}

CASE(reset_shows_the_default)
{
    struct sigaction now;

    install(SIGUSR1, note, SA_RESETHAND);
    raise(SIGUSR1);
    MUST(sigaction(SIGUSR1, NULL, &now));
    truth("default", now.sa_handler == SIG_DFL);
    printf("flags %#x\n", now.sa_flags & ~0x04000000);
}

struct raw_action {
    unsigned long handler, flags, restorer, mask;
};

/* Flags that the kernel does not know are not kept. */
CASE(every_flag_read_back)
{
    for (int bit = 0; bit < 32; bit++) {
        struct raw_action set = { 1, 1ul << bit, 0, 0 }, got = { 0 };

        MUST(syscall(SYS_rt_sigaction, SIGUSR2, &set, NULL, 8));
        MUST(syscall(SYS_rt_sigaction, SIGUSR2, NULL, &got, 8));
        if (bit != 10)
            printf("bit %d: %#lx\n", bit, got.flags);
    }
}

CASE(signals_that_cannot_be_handled)
{
    struct sigaction action = { .sa_handler = SIG_IGN };

    show("SIGKILL", sigaction(SIGKILL, &action, NULL));
    show("SIGSTOP", sigaction(SIGSTOP, &action, NULL));
    show("SIGKILL asked", sigaction(SIGKILL, NULL, &action));
    show("0", sigaction(0, &action, NULL));
    show("65", sigaction(65, &action, NULL));
}

/* Alternate stacks. */
static char stack_memory[65536];
static volatile int on_stack, flags_inside, change_inside;

static void look_at_stack(int number, siginfo_t *info, void *context)
{
    char here;
    stack_t now, other = { .ss_sp = stack_memory, .ss_size = sizeof stack_memory };
    ucontext_t *saved = context;

    (void)number;
    (void)info;
    on_stack = &here >= stack_memory && &here < stack_memory + sizeof stack_memory;
    sigaltstack(NULL, &now);
    flags_inside = now.ss_flags;
    change_inside = sigaltstack(&other, NULL) ? errno : 0;
    printf("  saved flags %#x same %d\n", (unsigned)saved->uc_stack.ss_flags, saved->uc_stack.ss_sp == stack_memory);
}

static void alternate(const char *what, unsigned stack_flags, int flags)
{
    stack_t stack = { .ss_sp = stack_memory, .ss_size = sizeof stack_memory, .ss_flags = stack_flags }, now;

    printf("%s\n", what);
    show("  sigaltstack", sigaltstack(&stack, NULL));
    install(SIGUSR1, look_at_stack, flags);
    raise(SIGUSR1);
    printf("  on it %d flags %#x change %s\n", on_stack, (unsigned)flags_inside,
           change_inside ? errno_name(change_inside) : "0");
    MUST(sigaltstack(NULL, &now));
    printf("  afterwards %#x\n", (unsigned)now.ss_flags);
    stack.ss_flags = SS_DISABLE;
    MUST(sigaltstack(&stack, NULL));
}

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31)
#endif

CASE(alternate_stacks)
{
    alternate("plain", 0, SA_ONSTACK);
    alternate("not asked for", 0, 0);
    alternate("SS_AUTODISARM", SS_AUTODISARM, SA_ONSTACK);
    alternate("SS_ONSTACK", SS_ONSTACK, SA_ONSTACK);
}

CASE(bad_alternate_stacks)
{
    stack_t stack = { .ss_sp = stack_memory, .ss_size = 100 };

    show("small", sigaltstack(&stack, NULL));
    stack.ss_size = sizeof stack_memory;
    stack.ss_flags = 77;
    show("flags", sigaltstack(&stack, NULL));
    stack.ss_flags = SS_DISABLE;
    show("disable", sigaltstack(&stack, NULL));
    MUST(sigaltstack(NULL, &stack));
    printf("flags %#x\n", (unsigned)stack.ss_flags);
}

static void *stack_of_thread(void *argument)
{
    stack_t now;

    (void)argument;
    MUST(sigaltstack(NULL, &now));
    printf("thread: %#x\n", (unsigned)now.ss_flags);
    return NULL;
}

static int stack_of_child(void *argument)
{
    stack_of_thread(argument);
    return 0;
}

CASE(who_inherits_a_stack)
{
    stack_t stack = { .ss_sp = stack_memory, .ss_size = sizeof stack_memory };

    MUST(sigaltstack(&stack, NULL));
    thread_join(thread_start(stack_of_thread, NULL));
    in_child("child", stack_of_child, NULL);
    stack.ss_flags = SS_DISABLE;
    MUST(sigaltstack(&stack, NULL));
}

static sigjmp_buf out;

static void jump_out(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    (void)context;
    siglongjmp(out, 1);
}

CASE(jumping_off_an_alternate_stack)
{
    stack_t stack = { .ss_sp = stack_memory, .ss_size = sizeof stack_memory }, now;

    for (volatile int i = 0; i < 3; i++) {
        MUST(sigaltstack(&stack, NULL));
        install(SIGUSR1, jump_out, SA_ONSTACK);
        if (!sigsetjmp(out, 1))
            raise(SIGUSR1);
        MUST(sigaltstack(NULL, &now));
        printf("%d: %#x\n", i, (unsigned)now.ss_flags);
    }
    stack.ss_flags = SS_DISABLE;
    MUST(sigaltstack(&stack, NULL));
}

/* Children and SIGCHLD. */
static int stop_self(void *argument)
{
    (void)argument;
    raise(SIGSTOP);
    return 5;
}

static void stops(const char *what, int flags)
{
    pid_t pid;

    count = 0;
    install(SIGCHLD, note, flags | SA_RESTART);
    pid = child_start(stop_self, NULL);
    MUST(waitid(P_PID, pid, &(siginfo_t){ 0 }, WSTOPPED));
    printf("%s: stopped %d", what, count);
    if (count)
        printf(" code %d status %d", last.si_code, last.si_status);
    kill(pid, SIGCONT);
    until_over(pid);
    sleep_ms(5);
    /* The end and the continuation before it may have come as one. */
    printf(" ended %d\n", flags ? last.si_code == CLD_EXITED : count > 1);
    signal(SIGCHLD, SIG_DFL);
    child_end("child", pid);
}

CASE(stops_of_children)
{
    stops("plain", 0);
    stops("SA_NOCLDSTOP", SA_NOCLDSTOP);
}

static int exits(void *argument)
{
    return *(int *)argument;
}

CASE(children_that_leave_no_zombies)
{
    int status = 3;
    pid_t pid;

    count = 0;
    install(SIGCHLD, note, SA_NOCLDWAIT | SA_RESTART);
    pid = child_start(exits, &status);
    show("SA_NOCLDWAIT", waitpid(pid, NULL, 0));
    printf("signalled %d code %d status %d\n", count, last.si_code, last.si_status);
    signal(SIGCHLD, SIG_IGN);
    pid = child_start(exits, &status);
    show("ignored", waitpid(pid, NULL, 0));
    signal(SIGCHLD, SIG_DFL);
    pid = child_start(exits, &status);
    child_end("default", pid);
}

static int ends_by(void *argument)
{
    struct rlimit none = { 0, 0 };
    int number = *(int *)argument;

    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_DUMPABLE, 0);
    signal(number, SIG_DFL);
    unblock_all();
    kill(getpid(), number);
    return 0;
}

/* How each signal ends a process, or that it does not. */
CASE(end_by_every_signal)
{
    for (int number = 1; number < 65; number++) {
        int status = -1;
        pid_t pid;

        if (number == 32 || number == 33 || number == SIGSTOP || number == SIGTSTP || number == SIGTTIN
            || number == SIGTTOU)
            continue;
        pid = child_start(ends_by, &number);
        MUST(waitpid(pid, &status, 0));
        printf("%d: %#x\n", number, status & 0xff7f);
    }
}

/* Queues. */
CASE(real_time_signals_come_in_order)
{
    static const int sent[] = { 5, 1, 3, 1, 5, 2 };
    union sigval value = { .sival_int = 0 };

    count = 0;
    for (int i = 0; i < 6; i++) {
        install(SIGRTMIN + i, note, 0);
        block(SIGRTMIN + i);
    }
    install(SIGUSR1, note, 0);
    install(SIGTERM, note, 0);
    block(SIGUSR1);
    block(SIGTERM);
    for (int i = 0; i < 6; i++) {
        value.sival_int = i;
        MUST(sigqueue(getpid(), SIGRTMIN + sent[i], value));
    }
    MUST(kill(getpid(), SIGTERM));
    MUST(kill(getpid(), SIGUSR1));
    MUST(kill(getpid(), SIGUSR1));
    /* The handlers nest: the last that is delivered runs first. */
    unblock_all();
    show_order("handled");
}

CASE(real_time_signals_are_taken_in_order)
{
    static const int sent[] = { 5, 1, 3, 1, 5, 2 };
    union sigval value = { .sival_int = 0 };
    sigset_t set;

    sigemptyset(&set);
    for (int i = 0; i < 6; i++)
        sigaddset(&set, SIGRTMIN + i);
    sigaddset(&set, SIGUSR1);
    MUST(sigprocmask(SIG_BLOCK, &set, NULL));
    for (int i = 0; i < 6; i++) {
        value.sival_int = i;
        MUST(sigqueue(getpid(), SIGRTMIN + sent[i], value));
    }
    MUST(kill(getpid(), SIGUSR1));
    for (int i = 0; i < 7; i++) {
        siginfo_t info;
        int got = MUST(sigwaitinfo(&set, &info));

        printf("%d value %d code %d\n", got >= SIGRTMIN ? got - SIGRTMIN + 100 : got,
               got >= SIGRTMIN ? info.si_value.sival_int : 0, info.si_code);
    }
    errno = 0;
    show("no more", sigtimedwait(&set, NULL, &(struct timespec){ 0, 0 }));
}

CASE(a_threads_own_come_before_the_processes)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    MUST(sigprocmask(SIG_BLOCK, &set, NULL));
    MUST(kill(getpid(), SIGUSR1));
    MUST(syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1));
    for (int i = 0; i < 2; i++) {
        siginfo_t info;

        MUST(sigwaitinfo(&set, &info));
        number("code", info.si_code);
    }
}

static int no_queue(void *argument)
{
    struct rlimit none = { 0, 0 };
    union sigval value = { .sival_int = 7 };
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
    siginfo_t info;
    timer_t timer;
    sigset_t set;

    (void)argument;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    sigaddset(&set, SIGUSR1);
    MUST(sigprocmask(SIG_BLOCK, &set, NULL));
    MUST(setrlimit(RLIMIT_SIGPENDING, &none));
    show("sigqueue", sigqueue(getpid(), SIGRTMIN, value));
    show("kill real-time", kill(getpid(), SIGRTMIN));
    show("kill", kill(getpid(), SIGUSR1));
    for (int i = 0; i < 2; i++) {
        int got = sigwaitinfo(&set, &info);

        printf("%d code %d own %d\n", got >= SIGRTMIN ? 100 : got, info.si_code, info.si_pid == getpid());
    }
    show("timer_create", timer_create(CLOCK_MONOTONIC, &event, &timer));
    return 0;
}

CASE(no_room_in_the_queue)
{
    in_child("child", no_queue, NULL);
}

CASE(forged_senders)
{
    siginfo_t info = { 0 };

    block(SIGUSR1);
    info.si_code = SI_USER;
    show("as kill, to self", syscall(SYS_rt_sigqueueinfo, getpid(), SIGUSR1, &info));
    show("as kill, to another", syscall(SYS_rt_sigqueueinfo, getppid(), 0, &info));
    info.si_code = SI_QUEUE;
    info.si_pid = 4711;
    signal(SIGUSR1, SIG_IGN);
    block(SIGUSR2);
    show("queued", syscall(SYS_rt_sigqueueinfo, getpid(), SIGUSR2, &info));
    {
        sigset_t set;
        siginfo_t got;

        sigemptyset(&set);
        sigaddset(&set, SIGUSR2);
        MUST(sigwaitinfo(&set, &got));
        number("pid as given", got.si_pid);
        number("code", got.si_code);
    }
    show("bad signal", syscall(SYS_rt_sigqueueinfo, getpid(), 65, &info));
    show("nobody", syscall(SYS_rt_sigqueueinfo, 0x3fffffff, SIGUSR1, &info));
    show("to a thread", syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), 0, &info));
}

/* Timers. */
CASE(alarm_tells_what_was_left)
{
    install(SIGALRM, note, 0);
    show("first", alarm(100));
    show("second", alarm(50));
    show("off", alarm(0));
    show("none", alarm(0));
}

CASE(interval_timer_and_alarm_are_one)
{
    struct itimerval timer = { .it_value = { 70, 300000 }, .it_interval = { 3, 0 } }, got;

    show("setitimer", setitimer(ITIMER_REAL, &timer, NULL));
    show("alarm", alarm(20));
    MUST(getitimer(ITIMER_REAL, &got));
    truth("seconds", got.it_value.tv_sec == 20 || (got.it_value.tv_sec == 19 && got.it_value.tv_usec > 0));
    number("interval", got.it_interval.tv_sec);
    timer.it_value.tv_usec = 1000000;
    show("bad", setitimer(ITIMER_REAL, &timer, NULL));
    show("which", setitimer(9, &timer, NULL));
}

CASE(interval_timer_repeats)
{
    struct itimerval timer = { .it_value = { 0, 10000 }, .it_interval = { 0, 10000 } };

    count = 0;
    install(SIGALRM, note, 0);
    MUST(setitimer(ITIMER_REAL, &timer, NULL));
    while (count < 3)
        pause();
    number("code", last.si_code);
    timer.it_value.tv_usec = 0;
    MUST(setitimer(ITIMER_REAL, &timer, NULL));
}

static timer_t timer_for(int notify, int signal)
{
    struct sigevent event = { .sigev_notify = notify, .sigev_signo = signal };
    timer_t timer;

    event.sigev_value.sival_int = 42;
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer));
    return timer;
}

static void arm(timer_t timer, long first_ms, long interval_ms)
{
    struct itimerspec spec = { .it_value = timespec_of_ms(first_ms), .it_interval = timespec_of_ms(interval_ms) };

    MUST(timer_settime(timer, 0, &spec, NULL));
}

CASE(a_timers_signal)
{
    timer_t timer = timer_for(SIGEV_SIGNAL, SIGUSR1);

    count = 0;
    install(SIGUSR1, note, 0);
    arm(timer, 10, 0);
    while (!count)
        pause();
    printf("code %d value %d overrun %d\n", last.si_code, last.si_value.sival_int, last.si_overrun);
    number("getoverrun", timer_getoverrun(timer));
    MUST(timer_delete(timer));
    show("deleted", timer_getoverrun(timer));
}

/* While its signal waits, a timer counts and sends no other. */
static void overruns(int signal_number)
{
    timer_t timer = timer_for(SIGEV_SIGNAL, signal_number);
    siginfo_t info;
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, signal_number);
    MUST(sigprocmask(SIG_BLOCK, &set, NULL));
    arm(timer, 10, 10);
    sleep_ms(55);
    MUST(sigwaitinfo(&set, &info));
    truth("at least 4", info.si_overrun >= 4 && info.si_overrun < 1000);
    truth("the same", timer_getoverrun(timer) == info.si_overrun);
    show("only one", sigtimedwait(&set, NULL, &(struct timespec){ 0, 0 }) > 0 ? 1 : 0);
    arm(timer, 0, 0);
    MUST(timer_delete(timer));
}

CASE(overruns_of_a_standard_signal)
{
    overruns(SIGUSR1);
}

CASE(overruns_of_a_real_time_signal)
{
    overruns(SIGRTMIN + 2);
}

CASE(two_timers_with_one_real_time_signal)
{
    timer_t first = timer_for(SIGEV_SIGNAL, SIGRTMIN), second = timer_for(SIGEV_SIGNAL, SIGRTMIN);
    siginfo_t info;
    sigset_t set;
    int seen = 0;

    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    MUST(sigprocmask(SIG_BLOCK, &set, NULL));
    arm(first, 5, 0);
    arm(second, 10, 0);
    sleep_ms(20);
    while (sigtimedwait(&set, &info, &(struct timespec){ 0, 0 }) > 0)
        seen++;
    number("signals", seen);
    MUST(timer_delete(first));
    MUST(timer_delete(second));
}

CASE(timers_beside_a_signal_that_waits)
{
    timer_t first = timer_for(SIGEV_SIGNAL, SIGUSR1), second = timer_for(SIGEV_SIGNAL, SIGUSR1);
    siginfo_t info;
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    MUST(sigprocmask(SIG_BLOCK, &set, NULL));
    MUST(kill(getpid(), SIGUSR1));
    arm(first, 5, 0);
    arm(second, 10, 0);
    sleep_ms(30);
    while (sigtimedwait(&set, &info, &(struct timespec){ 0, 0 }) > 0)
        number("code", info.si_code);
    MUST(timer_delete(first));
    MUST(timer_delete(second));
}

CASE(a_timer_without_a_signal)
{
    timer_t timer = timer_for(SIGEV_NONE, 0);
    struct itimerspec left;

    arm(timer, 10, 0);
    MUST(timer_gettime(timer, &left));
    truth("running", left.it_value.tv_nsec > 0 && left.it_value.tv_nsec <= 10000000);
    sleep_ms(20);
    MUST(timer_gettime(timer, &left));
    truth("over", left.it_value.tv_sec == 0 && left.it_value.tv_nsec == 0);
    MUST(timer_delete(timer));
}

CASE(deleting_a_timer_takes_its_signal_back)
{
    timer_t timer = timer_for(SIGEV_SIGNAL, SIGUSR2);
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    MUST(sigprocmask(SIG_BLOCK, &set, NULL));
    arm(timer, 5, 0);
    sleep_ms(15);
    MUST(sigpending(&set));
    truth("pending", sigismember(&set, SIGUSR2) == 1);
    MUST(timer_delete(timer));
    signal(SIGUSR2, SIG_IGN);
}

static int timer_in_child(void *argument)
{
    show("in the child", timer_delete(*(timer_t *)argument));
    return 0;
}

CASE(timers_are_not_inherited)
{
    timer_t timer = timer_for(SIGEV_NONE, 0);

    in_child("child", timer_in_child, &timer);
    MUST(timer_delete(timer));
}

CASE(bad_timers)
{
    struct sigevent event = { .sigev_notify = 99 };
    struct itimerspec spec = { .it_value = { 0, 1000000000 } };
    timer_t timer;

    show("notify", timer_create(CLOCK_MONOTONIC, &event, &timer));
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = 65;
    show("signal", timer_create(CLOCK_MONOTONIC, &event, &timer));
    show("clock", timer_create(99, NULL, &timer));
    MUST(timer_create(CLOCK_MONOTONIC, NULL, &timer));
    show("nanoseconds", timer_settime(timer, 0, &spec, NULL));
    MUST(timer_delete(timer));
}

/* Descriptors that send signals. */
static void wait_for_signal(const char *what)
{
    for (int i = 0; i < 50 && !count; i++)
        sleep_ms(2);
    printf("%s: %d", what, count > 0);
    if (count)
        printf(" signal %d code %d band %#lx", last.si_signo >= SIGRTMIN ? last.si_signo - SIGRTMIN + 100 : last.si_signo,
               last.si_code, last.si_code == SI_KERNEL ? 0 : last.si_band);
    puts("");
    count = 0;
}

static void make_async(int fd, int signal)
{
    MUST(fcntl(fd, F_SETOWN, getpid()));
    if (signal)
        MUST(fcntl(fd, F_SETSIG, signal));
    MUST(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC));
}

static void async_case(int reader, int writer, int signal)
{
    char byte;

    count = 0;
    install(SIGIO, note, SA_RESTART);
    install(SIGRTMIN + 4, note, SA_RESTART);
    make_async(reader, signal);
    MUST(write(writer, "x", 1));
    wait_for_signal("readable");
    MUST(read(reader, &byte, 1));
    MUST(write(writer, "y", 1));
    wait_for_signal("again");
    MUST(fcntl(reader, F_SETFL, fcntl(reader, F_GETFL) & ~O_ASYNC));
    MUST(write(writer, "z", 1));
    sleep_ms(5);
    number("switched off", count);
}

CASE(sigio_of_a_pipe)
{
    int ends[2];

    make_pipe(ends);
    async_case(ends[0], ends[1], 0);
}

CASE(sigio_of_a_socket)
{
    int ends[2];

    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    async_case(ends[0], ends[1], 0);
}

CASE(a_chosen_signal)
{
    int ends[2];

    make_pipe(ends);
    async_case(ends[0], ends[1], SIGRTMIN + 4);
    number("F_GETSIG", fcntl(ends[0], F_GETSIG) - SIGRTMIN);
}

CASE(owners)
{
    int ends[2];
    struct f_owner_ex owner = { F_OWNER_TID, 0 };

    make_pipe(ends);
    number("none", fcntl(ends[0], F_GETOWN));
    MUST(fcntl(ends[0], F_SETOWN, getpid()));
    truth("process", fcntl(ends[0], F_GETOWN) == getpid());
    MUST(fcntl(ends[0], F_SETOWN, -getpgrp()));
    owner.type = -1;
    MUST(fcntl(ends[0], F_GETOWN_EX, &owner));
    printf("group: %d %d\n", owner.type, owner.pid == getpgrp());
    owner = (struct f_owner_ex){ F_OWNER_TID, gettid() };
    show("F_SETOWN_EX", fcntl(ends[0], F_SETOWN_EX, &owner));
    owner.type = -1;
    MUST(fcntl(ends[0], F_GETOWN_EX, &owner));
    printf("thread: %d %d\n", owner.type, owner.pid == gettid());
    owner.type = 9;
    show("bad type", fcntl(ends[0], F_SETOWN_EX, &owner));
    show("nobody", fcntl(ends[0], F_SETOWN, 0x3fffffff));
    show("bad signal", fcntl(ends[0], F_SETSIG, 65));
    show("F_GETSIG", fcntl(ends[0], F_GETSIG));
}

CASE(async_by_ioctl)
{
    int ends[2], on = 1;

    make_pipe(ends);
    show("on", ioctl(ends[0], FIOASYNC, &on));
    truth("O_ASYNC", (fcntl(ends[0], F_GETFL) & O_ASYNC) != 0);
    on = 0;
    show("off", ioctl(ends[0], FIOASYNC, &on));
    truth("O_ASYNC", (fcntl(ends[0], F_GETFL) & O_ASYNC) != 0);
}

CASE(sigpipe)
{
    int ends[2];

    count = 0;
    install(SIGPIPE, note, 0);
    make_pipe(ends);
    close(ends[0]);
    show("pipe", write(ends[1], "x", 1));
    number("signals", count);
    number("code", last.si_code);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    close(ends[0]);
    show("socket", send(ends[1], "x", 1, 0));
    number("signals", count);
    show("MSG_NOSIGNAL", send(ends[1], "x", 1, MSG_NOSIGNAL));
    number("signals", count);
    signal(SIGPIPE, SIG_IGN);
    show("ignored", write(ends[1], "x", 1));
}

/* prctl. */
static int orphaned(void *argument)
{
    int *ends = argument;
    pid_t own = getpid();
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGUSR1);
        block(SIGUSR1);
        gate_open(ends[1]);
        while (getppid() == own)
            sleep_ms(2);
        {
            sigset_t set;
            siginfo_t info;

            sigemptyset(&set);
            sigaddset(&set, SIGUSR1);
            printf("got %d", sigwaitinfo(&set, &info));
            printf(" code %d from parent %d\n", info.si_code, info.si_pid == own);
        }
        fflush(stdout);
        _exit(0);
    }
    gate_wait(ends[0]);
    return 0;
}

CASE(death_of_the_parent)
{
    int ends[2], done[2], status;
    pid_t pid;

    make_pipe(ends);
    make_pipe(done);
    fflush(stdout);
    pid = child_start(orphaned, ends);
    close(done[1]);
    wait_for_end(done[0]);
    MUST(waitpid(pid, &status, 0));
    show_status("parent", status);
}

static int death_signal(void *argument)
{
    int value = -1;

    (void)argument;
    MUST(prctl(PR_GET_PDEATHSIG, &value));
    number("child", value);
    return 0;
}

CASE(the_death_signal_is_not_inherited)
{
    int value = -1;

    show("set", prctl(PR_SET_PDEATHSIG, SIGTERM));
    MUST(prctl(PR_GET_PDEATHSIG, &value));
    number("own", value);
    in_child("child", death_signal, NULL);
    show("bad", prctl(PR_SET_PDEATHSIG, 65));
    MUST(prctl(PR_SET_PDEATHSIG, 0));
}

CASE(names_of_threads)
{
    char name[32] = "", path[64], shown[32] = "";
    int fd;

    show("set", prctl(PR_SET_NAME, "a name of more than fifteen bytes"));
    MUST(prctl(PR_GET_NAME, name));
    text("get", name);
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", gettid());
    fd = MUST(open(path, O_RDONLY));
    MUST(read(fd, shown, sizeof shown - 1));
    text("comm", shown);
}

static void show_room(void)
{
    char status[4096], *line;
    int fd = MUST(open("/proc/self/status", O_RDONLY));

    status[MUST(read(fd, status, sizeof status - 1))] = 0;
    close(fd);
    line = strstr(status, "SigQ:");
    printf("%.*s\n", (int)strcspn(line, "\n"), line);
}

static int little_room(void *argument)
{
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 5 };
    struct rlimit little = { 3, 3 };
    struct timespec now = { 0, 0 };
    union sigval value = { 0 };
    siginfo_t info;
    timer_t timer;
    sigset_t set;
    int got;

    (void)argument;
    /* A user of its own has nothing else that waits. */
    MUST(syscall(SYS_setresuid, 54321, 54321, 54321));
    sigfillset(&set);
    MUST(sigprocmask(SIG_BLOCK, &set, NULL));
    MUST(setrlimit(RLIMIT_SIGPENDING, &little));
    show_room();
    for (value.sival_int = 1; value.sival_int < 5; value.sival_int++)
        show("sigqueue", sigqueue(getpid(), SIGRTMIN + 1, value));
    show_room();
    show("timer", timer_create(CLOCK_MONOTONIC, &event, &timer));
    for (int i = 0; i < 3; i++)
        show("kill", kill(getpid(), SIGRTMIN + 2));
    show("tgkill", syscall(SYS_tgkill, getpid(), gettid(), SIGRTMIN + 3));
    show_error("pthread_sigqueue", pthread_sigqueue(pthread_self(), SIGRTMIN + 4, value));
    show("standard, with a value", sigqueue(getpid(), SIGUSR1, value));
    show("standard", kill(getpid(), SIGUSR2));
    show_room();
    while ((got = sigtimedwait(&set, &info, &now)) > 0)
        printf("%s%d code %d value %d own %d\n", got >= SIGRTMIN ? "real-time " : "", got >= SIGRTMIN ? got - SIGRTMIN : got, info.si_code,
               info.si_code == SI_QUEUE ? info.si_value.sival_int : 0, info.si_pid == getpid());
    show("timer", timer_create(CLOCK_MONOTONIC, &event, &timer));
    show_room();
    for (value.sival_int = 1; value.sival_int < 4; value.sival_int++)
        show("sigqueue", sigqueue(getpid(), SIGRTMIN + 1, value));
    timer_delete(timer);
    show_room();
    return 0;
}

CASE(little_room_in_the_queue)
{
    in_child("child", little_room, NULL);
}
