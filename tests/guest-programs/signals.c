/*
 * Signals: handlers and their flags, masks, pending and queued signals,
 * waiting for signals, interruption and restart of calls, alternate stacks,
 * leaving a handler by a jump, timers that signal.
 */
#include "case.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <ucontext.h>

static volatile sig_atomic_t seen;
static volatile sig_atomic_t order[16];
static volatile sig_atomic_t order_length;
static siginfo_t last_info;

static void count(int number)
{
    (void)number;
    seen++;
}

static void record(int number)
{
    if (order_length < 16)
        order[order_length++] = number;
}

static void record_info(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    last_info = *info;
    seen++;
}

static void handle(int number, void (*handler)(int), int flags)
{
    struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

    seen = 0;
    MUST(sigaction(number, &action, NULL));
}

static void handle_info(int number)
{
    struct sigaction action = { .sa_sigaction = record_info, .sa_flags = SA_SIGINFO };

    seen = 0;
    MUST(sigaction(number, &action, NULL));
}

static sigset_t set_of(int number)
{
    sigset_t set;

    sigemptyset(&set);
    if (number)
        sigaddset(&set, number);
    return set;
}

static void block(int number)
{
    sigset_t set = set_of(number);

    MUST(sigprocmask(SIG_BLOCK, &set, NULL));
}

static void unblock(int number)
{
    sigset_t set = set_of(number);

    MUST(sigprocmask(SIG_UNBLOCK, &set, NULL));
}

static int is_blocked(int number)
{
    sigset_t now;

    MUST(sigprocmask(SIG_SETMASK, NULL, &now));
    return sigismember(&now, number);
}

static int is_pending(int number)
{
    sigset_t now;

    MUST(sigpending(&now));
    return sigismember(&now, number);
}

struct late_signal {
    pthread_t target;
    int number;
};

static void *signal_late(void *argument)
{
    struct late_signal *late = argument;

    sleep_ms(30);
    MUST_ZERO(pthread_kill(late->target, late->number));
    return NULL;
}

CASE(raise_runs_the_handler)
{
    handle(SIGUSR1, count, 0);
    show("raise", raise(SIGUSR1));
    number("seen", seen);
    show("kill self", kill(getpid(), SIGUSR1));
    number("seen", seen);
    show("tgkill", syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1));
    number("seen", seen);
    show("tkill", syscall(SYS_tkill, syscall(SYS_gettid), SIGUSR1));
    number("seen", seen);
}

CASE(sigaction_returns_the_old)
{
    struct sigaction old, action = { .sa_handler = count, .sa_flags = SA_RESTART };
    sigaddset(&action.sa_mask, SIGUSR2);
    show("set", sigaction(SIGUSR1, &action, &old));
    truth("was default", old.sa_handler == SIG_DFL);
    show("get", sigaction(SIGUSR1, NULL, &old));
    truth("handler", old.sa_handler == count);
    truth("flags", old.sa_flags & SA_RESTART);
    truth("mask", sigismember(&old.sa_mask, SIGUSR2) && !sigismember(&old.sa_mask, SIGUSR1));
}

CASE(bad_arguments)
{
    struct sigaction action = { .sa_handler = count };
    show("SIGKILL", sigaction(SIGKILL, &action, NULL));
    show("SIGSTOP", sigaction(SIGSTOP, &action, NULL));
    show("signal 0", sigaction(0, &action, NULL));
    show("signal 65", sigaction(65, &action, NULL));
    show("kill with 0", kill(getpid(), 0));
    show("kill with 65", kill(getpid(), 65));
    show("kill nobody", kill(0x3ffffff, 0));
    show("tgkill wrong group", syscall(SYS_tgkill, 0x3ffffff, syscall(SYS_gettid), 0));
    show("tgkill pid 0", syscall(SYS_tgkill, 0, 1, 0));
    show("bad how", sigprocmask(99, &(sigset_t){ 0 }, NULL));
    show("set size 4", syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, NULL, 4));
}

CASE(siginfo_of_raise_and_kill)
{
    handle_info(SIGUSR1);
    MUST(raise(SIGUSR1));
    number("signo", last_info.si_signo);
    truth("SI_TKILL", last_info.si_code == SI_TKILL);
    truth("own pid", last_info.si_pid == getpid());
    truth("own uid", last_info.si_uid == getuid());
    MUST(kill(getpid(), SIGUSR1));
    truth("SI_USER", last_info.si_code == SI_USER);
    truth("own pid", last_info.si_pid == getpid());
    number("errno", last_info.si_errno);
}

CASE(siginfo_of_sigqueue)
{
    handle_info(SIGUSR2);
    union sigval value = { .sival_ptr = (void *)0x123456789 };
    show("sigqueue", sigqueue(getpid(), SIGUSR2, value));
    number("signo", last_info.si_signo);
    truth("SI_QUEUE", last_info.si_code == SI_QUEUE);
    number("value", (long)last_info.si_value.sival_ptr);
    truth("own pid", last_info.si_pid == getpid());
}

CASE(blocked_signal_waits)
{
    handle(SIGUSR1, count, 0);
    block(SIGUSR1);
    MUST(raise(SIGUSR1));
    MUST(raise(SIGUSR1));
    number("seen while blocked", seen);
    truth("pending", is_pending(SIGUSR1));
    unblock(SIGUSR1);
    number("standard signals merge", seen);
    truth("pending", is_pending(SIGUSR1));
}

CASE(realtime_signals_queue)
{
    handle(SIGRTMIN + 1, count, 0);
    block(SIGRTMIN + 1);
    for (int i = 0; i < 5; i++)
        MUST(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){ .sival_int = i }));
    unblock(SIGRTMIN + 1);
    number("seen", seen);
}

static void record_value(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    record(info->si_value.sival_int);
}

static void handle_value(int number)
{
    struct sigaction action = { .sa_sigaction = record_value, .sa_flags = SA_SIGINFO };

    sigfillset(&action.sa_mask);
    MUST(sigaction(number, &action, NULL));
}

CASE(realtime_signals_in_order)
{
    sigset_t set = set_of(SIGRTMIN + 1);
    sigaddset(&set, SIGRTMIN + 2);
    order_length = 0;
    handle_value(SIGRTMIN + 1);
    handle_value(SIGRTMIN + 2);
    MUST(sigprocmask(SIG_BLOCK, &set, NULL));
    for (int i = 0; i < 3; i++) {
        MUST(sigqueue(getpid(), SIGRTMIN + 2, (union sigval){ .sival_int = 20 + i }));
        MUST(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){ .sival_int = 10 + i }));
    }
    MUST(sigprocmask(SIG_UNBLOCK, &set, NULL));
    for (int i = 0; i < order_length; i++)
        number("value", order[i]);
}

CASE(standard_before_realtime)
{
    sigset_t set = set_of(SIGRTMIN + 1);
    sigset_t all;
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigfillset(&all);
    order_length = 0;
    int numbers[] = { SIGRTMIN + 1, SIGUSR2, SIGUSR1 };
    MUST(sigprocmask(SIG_BLOCK, &set, NULL));
    for (int i = 0; i < 3; i++) {
        struct sigaction action = { .sa_handler = record, .sa_mask = all };
        MUST(sigaction(numbers[i], &action, NULL));
        MUST(raise(numbers[i]));
    }
    MUST(sigprocmask(SIG_UNBLOCK, &set, NULL));
    for (int i = 0; i < order_length; i++)
        number("delivered", order[i]);
}

static volatile sig_atomic_t depth, deepest;

static void raise_within(int number)
{
    depth++;
    if (depth > deepest)
        deepest = depth;
    if (seen++ < 2)
        raise(number);
    depth--;
}

CASE(handler_masks_its_signal)
{
    depth = deepest = 0;
    handle(SIGUSR1, raise_within, 0);
    MUST(raise(SIGUSR1));
    number("seen", seen);
    number("deepest", deepest);
}

CASE(nodefer_nests)
{
    depth = deepest = 0;
    handle(SIGUSR1, raise_within, SA_NODEFER);
    MUST(raise(SIGUSR1));
    number("seen", seen);
    number("deepest", deepest);
}

CASE(resethand_runs_once)
{
    struct sigaction now;
    handle(SIGUSR1, count, SA_RESETHAND);
    MUST(raise(SIGUSR1));
    number("seen", seen);
    MUST(sigaction(SIGUSR1, NULL, &now));
    truth("default again", now.sa_handler == SIG_DFL);
}

static volatile sig_atomic_t blocked_inside[3];

static void look_at_mask(int number)
{
    (void)number;
    blocked_inside[0] = is_blocked(SIGUSR1);
    blocked_inside[1] = is_blocked(SIGUSR2);
    blocked_inside[2] = is_blocked(SIGALRM);
}

CASE(mask_during_handler)
{
    struct sigaction action = { .sa_handler = look_at_mask };
    sigaddset(&action.sa_mask, SIGUSR2);
    MUST(sigaction(SIGUSR1, &action, NULL));
    MUST(raise(SIGUSR1));
    truth("itself", blocked_inside[0]);
    truth("in sa_mask", blocked_inside[1]);
    truth("another", blocked_inside[2]);
    truth("itself afterwards", is_blocked(SIGUSR1));
    truth("sa_mask afterwards", is_blocked(SIGUSR2));
}

CASE(kill_and_stop_cannot_be_blocked)
{
    sigset_t all;
    sigfillset(&all);
    show("sigprocmask", sigprocmask(SIG_SETMASK, &all, NULL));
    truth("SIGKILL", is_blocked(SIGKILL));
    truth("SIGSTOP", is_blocked(SIGSTOP));
    truth("SIGTERM", is_blocked(SIGTERM));
}

CASE(ignored_signals)
{
    signal(SIGUSR1, SIG_IGN);
    show("ignored", raise(SIGUSR1));
    show("SIGCHLD is ignored by default", raise(SIGCHLD));
    show("SIGURG too", raise(SIGURG));
    show("SIGWINCH too", raise(SIGWINCH));
    show("SIGCONT does nothing to the running", raise(SIGCONT));
    block(SIGUSR1);
    MUST(raise(SIGUSR1));
    handle(SIGUSR1, count, 0);
    unblock(SIGUSR1);
    number("ignored while blocked", seen);
}

CASE(ignoring_discards_pending)
{
    handle(SIGUSR1, count, 0);
    block(SIGUSR1);
    MUST(raise(SIGUSR1));
    truth("pending", is_pending(SIGUSR1));
    signal(SIGUSR1, SIG_IGN);
    truth("pending after SIG_IGN", is_pending(SIGUSR1));
    handle(SIGUSR1, count, 0);
    unblock(SIGUSR1);
    number("seen", seen);
}

CASE(sigsuspend_waits)
{
    sigset_t none = set_of(0);
    struct late_signal late = { pthread_self(), SIGUSR1 };
    handle(SIGUSR1, count, 0);
    block(SIGUSR1);
    pthread_t sender = thread_start(signal_late, &late);
    show("sigsuspend", sigsuspend(&none));
    number("seen", seen);
    truth("blocked again", is_blocked(SIGUSR1));
    thread_join(sender);
}

CASE(pause_waits)
{
    handle(SIGALRM, count, 0);
    struct itimerval timer = { .it_value = { 0, 30000 } };
    int64_t start = now_ns();
    MUST(setitimer(ITIMER_REAL, &timer, NULL));
    show("pause", pause());
    number("seen", seen);
    show_elapsed(start, 30);
}

CASE(sigwait_takes)
{
    sigset_t set = set_of(SIGUSR1);
    int number_taken = 0;
    handle(SIGUSR1, count, 0);
    block(SIGUSR1);
    MUST(raise(SIGUSR1));
    show_error("sigwait", sigwait(&set, &number_taken));
    number("taken", number_taken);
    number("handler ran", seen);
    truth("pending", is_pending(SIGUSR1));
}

CASE(sigtimedwait_limits)
{
    sigset_t set = set_of(SIGUSR1);
    siginfo_t info;
    struct timespec limit = timespec_of_ms(20);
    int64_t start = now_ns();
    block(SIGUSR1);
    show("nothing comes", sigtimedwait(&set, &info, &limit));
    show_elapsed(start, 20);
    limit = (struct timespec){ 0, 0 };
    show("at once", sigtimedwait(&set, &info, &limit));
    MUST(sigqueue(getpid(), SIGUSR1, (union sigval){ .sival_int = 77 }));
    show("pending", sigtimedwait(&set, &info, &limit));
    number("value", info.si_value.sival_int);
    limit.tv_nsec = -1;
    show("bad time", sigtimedwait(&set, &info, &limit));
}

CASE(sigwaitinfo_blocks)
{
    sigset_t set = set_of(SIGUSR2);
    siginfo_t info;
    struct late_signal late = { pthread_self(), SIGUSR2 };
    block(SIGUSR2);
    pthread_t sender = thread_start(signal_late, &late);
    show("sigwaitinfo", sigwaitinfo(&set, &info));
    number("signo", info.si_signo);
    truth("own pid", info.si_pid == getpid());
    thread_join(sender);
}

CASE(sigtimedwait_interrupted_by_another)
{
    sigset_t set = set_of(SIGUSR2);
    struct timespec limit = timespec_of_ms(5000);
    struct late_signal late = { pthread_self(), SIGUSR1 };
    handle(SIGUSR1, count, SA_RESTART);
    block(SIGUSR2);
    pthread_t sender = thread_start(signal_late, &late);
    show("sigtimedwait", sigtimedwait(&set, NULL, &limit));
    number("seen", seen);
    thread_join(sender);
}

CASE(read_interrupted)
{
    int ends[2];
    char byte;
    struct late_signal late = { pthread_self(), SIGUSR1 };
    MUST(pipe(ends));
    handle(SIGUSR1, count, 0);
    pthread_t sender = thread_start(signal_late, &late);
    show("read", read(ends[0], &byte, 1));
    number("seen", seen);
    thread_join(sender);
}

static int restart_pipe[2];

static void write_byte(int number)
{
    (void)number;
    seen++;
    (void)!write(restart_pipe[1], "x", 1);
}

CASE(read_restarted)
{
    char byte;
    struct late_signal late = { pthread_self(), SIGUSR1 };
    MUST(pipe(restart_pipe));
    handle(SIGUSR1, write_byte, SA_RESTART);
    pthread_t sender = thread_start(signal_late, &late);
    show("read", read(restart_pipe[0], &byte, 1));
    number("seen", seen);
    thread_join(sender);
}

CASE(nanosleep_interrupted)
{
    struct timespec wanted = { 50, 0 }, left = { 0, 0 };
    struct late_signal late = { pthread_self(), SIGUSR1 };
    handle(SIGUSR1, count, SA_RESTART);
    pthread_t sender = thread_start(signal_late, &late);
    show("nanosleep", nanosleep(&wanted, &left));
    truth("most is left", left.tv_sec >= 40 && left.tv_sec < 50);
    thread_join(sender);
}

CASE(socket_calls_interrupted)
{
    int pair[2];
    char byte;
    struct late_signal late = { pthread_self(), SIGUSR1 };
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    handle(SIGUSR1, count, 0);
    pthread_t sender = thread_start(signal_late, &late);
    show("recv", recv(pair[0], &byte, 1, 0));
    thread_join(sender);
    struct timeval limit = { 5, 0 };
    MUST(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    handle(SIGUSR1, count, SA_RESTART);
    sender = thread_start(signal_late, &late);
    show("recv with a timeout is not restarted", recv(pair[0], &byte, 1, 0));
    thread_join(sender);
}

CASE(partial_write_interrupted)
{
    static char data[100000];
    int ends[2];
    struct late_signal late = { pthread_self(), SIGUSR1 };
    MUST(pipe(ends));
    handle(SIGUSR1, count, 0);
    pthread_t sender = thread_start(signal_late, &late);
    show("write", write(ends[1], data, sizeof data));
    thread_join(sender);
}

CASE(ignored_signal_does_not_interrupt)
{
    struct timespec limit = timespec_of_ms(60);
    struct late_signal late = { pthread_self(), SIGCHLD };
    int64_t start = now_ns();
    pthread_t sender = thread_start(signal_late, &late);
    show("nanosleep", nanosleep(&limit, NULL));
    show_elapsed(start, 60);
    thread_join(sender);
}

static void *tid_of_handler(void *argument)
{
    (void)argument;
    sleep_ms(60);
    return NULL;
}

static volatile pid_t handling_thread;

static void remember_thread(int number)
{
    (void)number;
    handling_thread = syscall(SYS_gettid);
}

CASE(pthread_kill_reaches_its_thread)
{
    handle(SIGUSR1, remember_thread, 0);
    handling_thread = 0;
    pthread_t thread = thread_start(tid_of_handler, NULL);
    show_error("pthread_kill", pthread_kill(thread, SIGUSR1));
    thread_join(thread);
    truth("handled", handling_thread != 0);
    truth("not by main", handling_thread != getpid());
}

CASE(process_signal_goes_to_an_unblocked_thread)
{
    handle(SIGUSR1, remember_thread, 0);
    handling_thread = 0;
    pthread_t thread = thread_start(tid_of_handler, NULL);
    block(SIGUSR1);
    show("kill", kill(getpid(), SIGUSR1));
    thread_join(thread);
    truth("handled", handling_thread != 0);
    truth("not by main", handling_thread != getpid());
    truth("pending", is_pending(SIGUSR1));
}

static void *inherited_mask(void *argument)
{
    (void)argument;
    return (void *)(long)is_blocked(SIGUSR2);
}

CASE(threads_inherit_the_mask)
{
    block(SIGUSR2);
    number("blocked in thread", (long)thread_join(thread_start(inherited_mask, NULL)));
    unblock(SIGUSR2);
    number("blocked in thread", (long)thread_join(thread_start(inherited_mask, NULL)));
}

static char alternate[64 * 1024];
static volatile sig_atomic_t on_alternate, alternate_flags;

static void look_at_stack(int number)
{
    char here;
    stack_t now;

    (void)number;
    on_alternate = &here >= alternate && &here < alternate + sizeof alternate;
    sigaltstack(NULL, &now);
    alternate_flags = now.ss_flags;
}

CASE(alternate_stack)
{
    stack_t stack = { .ss_sp = alternate, .ss_size = sizeof alternate }, old;
    show("set", sigaltstack(&stack, &old));
    truth("was disabled", old.ss_flags & SS_DISABLE);
    handle(SIGUSR1, look_at_stack, SA_ONSTACK);
    MUST(raise(SIGUSR1));
    truth("on the alternate stack", on_alternate);
    number("flags inside", alternate_flags);
    handle(SIGUSR1, look_at_stack, 0);
    MUST(raise(SIGUSR1));
    truth("on the alternate stack", on_alternate);
    show("get", sigaltstack(NULL, &old));
    truth("the same", old.ss_sp == alternate && old.ss_size == sizeof alternate);
    stack.ss_size = 100;
    show("too small", sigaltstack(&stack, NULL));
    stack.ss_flags = 99;
    show("bad flags", sigaltstack(&stack, NULL));
    stack.ss_flags = SS_DISABLE;
    show("disable", sigaltstack(&stack, NULL));
}

static sigjmp_buf jump;

static void jump_out(int number)
{
    siglongjmp(jump, number);
}

CASE(jump_out_of_a_handler)
{
    handle(SIGUSR1, jump_out, 0);
    for (volatile int i = 0; i < 3; i++) {
        int number_jumped = sigsetjmp(jump, 1);
        if (!number_jumped)
            raise(SIGUSR1);
        number("jumped with", number_jumped);
        truth("mask restored", !is_blocked(SIGUSR1));
    }
}

static void unblock_other_in_context(int number, siginfo_t *info, void *context)
{
    ucontext_t *interrupted = context;

    (void)number;
    (void)info;
    sigaddset(&interrupted->uc_sigmask, SIGUSR2);
}

CASE(handler_changes_the_returned_mask)
{
    struct sigaction action = { .sa_sigaction = unblock_other_in_context, .sa_flags = SA_SIGINFO };
    MUST(sigaction(SIGUSR1, &action, NULL));
    MUST(raise(SIGUSR1));
    truth("mask taken from the context", is_blocked(SIGUSR2));
}

CASE(interval_timer)
{
    struct itimerval timer = { .it_value = { 0, 10000 }, .it_interval = { 0, 10000 } }, left;
    int64_t start = now_ns();
    handle(SIGALRM, count, SA_RESTART);
    show("setitimer", setitimer(ITIMER_REAL, &timer, NULL));
    while (seen < 3)
        pause();
    show_elapsed(start, 30);
    show("getitimer", getitimer(ITIMER_REAL, &left));
    number("interval", left.it_interval.tv_usec);
    truth("at most the interval is left", left.it_value.tv_sec == 0 && left.it_value.tv_usec <= 10000);
    timer = (struct itimerval){ { 0, 0 }, { 0, 0 } };
    show("stop", setitimer(ITIMER_REAL, &timer, &left));
    number("old interval", left.it_interval.tv_usec);
    show("bad timer", setitimer(99, &timer, NULL));
    timer.it_value.tv_usec = 1000000;
    show("bad microseconds", setitimer(ITIMER_REAL, &timer, NULL));
}

CASE(alarm_seconds)
{
    handle(SIGALRM, count, 0);
    number("none before", alarm(50));
    truth("about 50 s left", alarm(100) >= 49);
    truth("about 100 s left", alarm(0) >= 99);
    number("none left", alarm(0));
    number("seen", seen);
}

CASE(nested_different_signals)
{
    order_length = 0;
    handle(SIGUSR1, record, 0);
    handle(SIGUSR2, record, 0);
    handle(SIGALRM, record, 0);
    for (int i = 0; i < 3; i++) {
        MUST(raise(SIGUSR1));
        MUST(raise(SIGUSR2));
        MUST(raise(SIGALRM));
    }
    for (int i = 0; i < order_length; i++)
        printf("%d ", order[i]);
    printf("\n");
}

static void call_in_handler(int number)
{
    char data[8];
    int ends[2];

    (void)number;
    if (!pipe(ends) && write(ends[1], "nested", 6) == 6 && read(ends[0], data, 8) == 6)
        seen++;
    close(ends[0]);
    close(ends[1]);
    errno = ENOTTY;
}

CASE(handler_makes_calls)
{
    handle(SIGUSR1, call_in_handler, 0);
    for (int i = 0; i < 10; i++)
        MUST(raise(SIGUSR1));
    number("calls", seen);
    truth("errno is the handler's", errno == ENOTTY);
}

CASE(many_signals)
{
    handle(SIGUSR1, count, 0);
    for (int i = 0; i < 10000; i++)
        raise(SIGUSR1);
    number("seen", seen);
}

static int spoiled;

/* Changes the frame so that the processor would refuse it, or not. */
static void spoil(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    mcontext_t *saved = &((ucontext_t *)context)->uc_mcontext;
    unsigned char *area = (unsigned char *)saved->fpregs;
    static const short segments[] = { 0x33, 0x30, 0x2b, 0, 8, 0x23 };
    if (spoiled < 6) {
        saved->gregs[REG_CSGSFS] = (saved->gregs[REG_CSGSFS] & ~0xffffL) | segments[spoiled];
        return;
    }
    if (spoiled < 10) {
        static const long stacks[] = { 0x2b, 0x28, 0, 0x33 };
        saved->gregs[REG_CSGSFS] = (saved->gregs[REG_CSGSFS] & 0xffffffffffffL) | stacks[spoiled - 6] << 48;
        return;
    }
    switch (spoiled) {
    case 10: saved->fpregs->mxcsr = 0x1fbf; break;
    case 11: saved->fpregs->mxcsr |= 1u << 31; break;
    case 12: saved->fpregs->mxcsr |= 1u << 16; break;
    case 13: area[520] = 1; break;                                       /* compacted */
    case 14: area[527] = 0x80; break;                                    /* the compacted form itself */
    case 15: area[528] = 1; break;                                       /* reserved */
    case 16: area[519] = 0x40; break;                                    /* a component that there is not */
    case 17: area[575] = 1; break;
    case 18: saved->fpregs = NULL; break;
    case 19: saved->fpregs = (fpregset_t)(uintptr_t)8; break;
    case 20: saved->gregs[REG_RIP] = 1L << 62; break;
    case 21: ((ucontext_t *)context)->uc_flags &= ~4UL; saved->gregs[REG_CSGSFS] &= 0xffffffffffffL; break;
    }
}

CASE(frames_that_the_processor_refuses)
{
    for (spoiled = 0; spoiled < 22; spoiled++) {
        fflush(stdout);
        pid_t child = MUST(fork());
        if (child == 0) {
            struct sigaction action = { .sa_sigaction = spoil, .sa_flags = SA_SIGINFO };
            sigaction(SIGUSR1, &action, NULL);
            raise(SIGUSR1);
            _exit(3);
        }
        int status;
        MUST(waitpid(child, &status, 0));
        printf("%d: %s %d\n", spoiled, WIFSIGNALED(status) ? "signal" : "exit", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
}

CASE(signals_to_process_1)
{
    union sigval value = { 0 };
    int root = geteuid() == 0;
    /* Signal 0 only looks, and an ordinary user may not even do that. */
    truth("kill", kill(1, 0) == (root ? 0 : -1) && (root || errno == EPERM));
    truth("sigqueue", sigqueue(1, 0, value) == (root ? 0 : -1) && (root || errno == EPERM));
    truth("tgkill", syscall(SYS_tgkill, 1, 1, 0) == (root ? 0 : -1) && (root || errno == EPERM));
}
