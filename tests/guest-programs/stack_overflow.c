/*
 * Stacks that overflow, on the main thread and on others, with and without a
 * stack for the handler; and children that die of signals that dump core.
 */
#include "process.h"

#include <sys/mman.h>

static sigjmp_buf back;
static char spare[64 * 1024] __attribute__((aligned(16)));
static volatile sig_atomic_t on_spare, code_seen;
static volatile uintptr_t address_seen;

static void leave(int number, siginfo_t *info, void *context)
{
    char here;

    (void)context;
    on_spare = &here >= spare && &here < spare + sizeof spare;
    code_seen = info->si_code;
    address_seen = (uintptr_t)info->si_addr;
    siglongjmp(back, number);
}

static volatile long no_depth = -1;

/* Recurses without end, but the compiler cannot know. */
static long __attribute__((noinline)) dive(long depth)
{
    volatile char block[1024];

    block[0] = depth;
    if (depth == no_depth)
        return 0;
    return dive(depth + 1) + block[0];
}

static void use_spare_stack(void (*handler)(int, siginfo_t *, void *))
{
    stack_t stack = { .ss_sp = spare, .ss_size = sizeof spare };
    struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK };

    sigaltstack(&stack, NULL);
    sigaction(SIGSEGV, &action, NULL);
}

/* Cases that overflow the main stack do so in a child: what the stack took stays taken. */
static int plain_dive(void *unused)
{
    (void)unused;
    return (int)dive(0);
}

CASE(main_stack_without_a_handler)
{
    in_child("dive", plain_dive, NULL);
}

static int handled_dives(void *unused)
{
    char here;

    (void)unused;
    use_spare_stack(leave);
    for (int round = 0; round < 3; round++) {
        int caught = sigsetjmp(back, 1);

        if (!caught)
            return (int)dive(0);
        number("signal", caught);
        truth("on the alternate stack", on_spare);
        truth("nothing is mapped there", code_seen == SEGV_MAPERR);
        uintptr_t depth = (uintptr_t)&here - address_seen;
        truth("the stack has about 8 MiB", depth > 7 << 20 && depth < 9 << 20);
    }
    return 0;
}

CASE(main_stack_with_an_alternate_stack)
{
    in_child("dives", handled_dives, NULL);
}

static int handler_without_stack(void *unused)
{
    struct sigaction action = { .sa_sigaction = leave, .sa_flags = SA_SIGINFO };

    (void)unused;
    sigaction(SIGSEGV, &action, NULL);
    if (sigsetjmp(back, 1))
        return 1;
    return (int)dive(0);
}

CASE(main_stack_and_a_handler_without_room)
{
    in_child("dive", handler_without_stack, NULL);
}

static void dive_again(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
    dive(0);
}

static int handler_dives_too(void *unused)
{
    (void)unused;
    /* The signal is blocked in its handler, so a second fault kills; below `spare` lies other data. */
    char *stack = mmap(NULL, 128 * 1024, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t alternate = { .ss_sp = stack + 64 * 1024, .ss_size = 64 * 1024 };
    struct sigaction action = { .sa_sigaction = dive_again, .sa_flags = SA_SIGINFO | SA_ONSTACK };

    mprotect(alternate.ss_sp, alternate.ss_size, PROT_READ | PROT_WRITE);
    sigaltstack(&alternate, NULL);
    sigaction(SIGSEGV, &action, NULL);
    return (int)dive(0);
}

CASE(an_alternate_stack_overflows_too)
{
    in_child("dives", handler_dives_too, NULL);
}

static volatile sig_atomic_t handlers_run;

static void signal_again(int number, siginfo_t *info, void *context)
{
    (void)info, (void)context;
    /* Far more than the stack has room for: then it began anew, over frames that are still in use. */
    if (++handlers_run > 1000)
        _exit(3);
    if (number == SIGSEGV)
        *(volatile int *)8 = 0;
    else
        raise(number);
}

/* Memory below the stack is there, so that nothing but the kernel's own look at its bounds ends it. */
static int frames_overflow(void *number)
{
    static char memory[256 * 1024];
    stack_t alternate = { .ss_sp = memory + 128 * 1024, .ss_size = 128 * 1024 };
    struct sigaction action = { .sa_sigaction = signal_again, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };

    sigaltstack(&alternate, NULL);
    sigaction((int)(long)number, &action, NULL);
    signal_again((int)(long)number, NULL, NULL);
    return 1;
}

CASE(frames_overflow_an_alternate_stack)
{
    in_child("of a fault", frames_overflow, (void *)SIGSEGV);
    in_child("of a signal", frames_overflow, (void *)SIGUSR1);
}

static int frames_overflow_twice(void *unused)
{
    struct sigaction action = { .sa_sigaction = signal_again, .sa_flags = SA_SIGINFO };

    (void)unused;
    sigaction(SIGSEGV, &action, NULL);
    return frames_overflow((void *)SIGUSR1);
}

/* The handler of what an overflow raises would have to run on the same stack. */
CASE(an_overflow_cannot_be_handled)
{
    in_child("of a signal", frames_overflow_twice, NULL);
}

CASE(far_below_the_stack_pointer)
{
    volatile char here = 1;
    volatile char *below = &here - (6 << 20);

    /* Within the limit the stack grows by any distance. */
    number("fresh", *below);
    *below = 7;
    number("written", *below);
}

static void *dive_in_thread(void *argument)
{
    stack_t stack = { .ss_sp = spare, .ss_size = sizeof spare };

    (void)argument;
    sigaltstack(&stack, NULL);
    int caught = sigsetjmp(back, 1);
    if (!caught)
        dive(0);
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, NULL);
    return (void *)(long)caught;
}

static void thread_overflow(size_t stack, size_t guard)
{
    pthread_attr_t attributes;
    pthread_t thread;
    void *result = NULL;

    on_spare = code_seen = 0;
    use_spare_stack(leave);
    pthread_attr_init(&attributes);
    MUST_ZERO(pthread_attr_setstacksize(&attributes, stack));
    MUST_ZERO(pthread_attr_setguardsize(&attributes, guard));
    MUST_ZERO(pthread_create(&thread, &attributes, dive_in_thread, NULL));
    pthread_join(thread, &result);
    printf("stack %zu KiB, guard %zu KiB: signal %ld, on the alternate stack: %d, a guard: %d\n", stack >> 10, guard >> 10,
           (long)result, (int)on_spare, code_seen == SEGV_ACCERR);
}

CASE(thread_stacks_of_any_size)
{
    for (size_t stack = 64 << 10; stack <= 8 << 20; stack *= 2)
        thread_overflow(stack, 4096);
}

CASE(thread_guards_of_any_size)
{
    for (size_t guard = 4096; guard <= 256 << 10; guard *= 2)
        thread_overflow(512 << 10, guard);
}

static void *only_dive(void *unused)
{
    (void)unused;
    return (void *)dive(0);
}

static int thread_kills(void *unused)
{
    pthread_t thread;

    (void)unused;
    if (pthread_create(&thread, NULL, only_dive, NULL) != 0)
        return 1;
    pthread_join(thread, NULL);
    return 0;
}

CASE(a_threads_overflow_ends_its_process)
{
    in_child("thread", thread_kills, NULL);
}

/* Whether a core is dumped depends on the machine, unless the process is not dumpable. */
static int die(void *number)
{
    prctl(PR_SET_DUMPABLE, 0);
    raise(*(int *)number);
    return 0;
}

static void core_signal(int core)
{
    siginfo_t info = { 0 };
    int status = 0;
    pid_t child = child_start(die, &core);

    MUST(waitid(P_PID, child, &info, WEXITED | WNOWAIT));
    truth("CLD_KILLED", info.si_code == CLD_KILLED);
    number("si_status", info.si_status);
    MUST(waitpid(child, &status, 0));
    truth("signaled", WIFSIGNALED(status));
    truth("core dumped", WCOREDUMP(status));
    number("signal", WTERMSIG(status));
}

#define CORE_SIGNAL(name) \
    CASE(dies_of_##name) \
    { \
        core_signal(name); \
    }

CORE_SIGNAL(SIGQUIT)
CORE_SIGNAL(SIGILL)
CORE_SIGNAL(SIGTRAP)
CORE_SIGNAL(SIGABRT)
CORE_SIGNAL(SIGBUS)
CORE_SIGNAL(SIGFPE)
CORE_SIGNAL(SIGSEGV)
CORE_SIGNAL(SIGXCPU)
CORE_SIGNAL(SIGXFSZ)
CORE_SIGNAL(SIGSYS)

static int exits_cleanly(void *unused)
{
    (void)unused;
    return 3;
}

CASE(limits_of_core_files_are_inherited)
{
    struct rlimit limit = { 0, 0 }, old;

    MUST(getrlimit(RLIMIT_CORE, &old));
    MUST(setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, old.rlim_max }));
    in_child("child", exits_cleanly, NULL);
    MUST(getrlimit(RLIMIT_CORE, &limit));
    number("soft", (long)limit.rlim_cur);
    MUST(setrlimit(RLIMIT_CORE, &old));
}
