/* Registers that programs ask the kernel for, with values that the processor does not take. */
#include "process.h"

#include <linux/sched.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <ucontext.h>

#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#define ARCH_SET_GS 0x1001
#define ARCH_SET_FS 0x1002
/* HWCAP2: programs may execute wrfsbase and its like. */
#define HAS_FSGSBASE 2

/* Neither with 48 bits of address nor with 57. */
static const unsigned long no_addresses[] = { 1ul << 63, 1ul << 56, 0xfeffffffffffffff, 1ul << 62 };
static const unsigned long kernel_addresses[] = { 0xffff800000000000, (1ul << 47) - 4096, ~0ul - 4095 };

static char stack[65536] __attribute__((aligned(16)));
static char alternate[65536];

static void *top(void)
{
    return stack + sizeof stack;
}

static void refuse(unsigned long address)
{
    struct clone_args args = { .flags = CLONE_SETTLS, .exit_signal = SIGCHLD, .tls = address };
    unsigned long thread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;

    show("fork with it", syscall(SYS_clone, SIGCHLD | CLONE_SETTLS, NULL, NULL, NULL, address));
    show("vfork with it", syscall(SYS_clone, SIGCHLD | CLONE_VM | CLONE_VFORK | CLONE_SETTLS, top(), NULL, NULL, address));
    show("a thread with it", syscall(SYS_clone, thread | CLONE_SETTLS, top(), NULL, NULL, address));
    show("clone3", syscall(SYS_clone3, &args, sizeof args));
    show("FS", syscall(SYS_arch_prctl, ARCH_SET_FS, address));
    show("GS", syscall(SYS_arch_prctl, ARCH_SET_GS, address));
}

CASE(thread_local_memory_that_no_program_has)
{
    for (size_t i = 0; i < COUNT_OF(no_addresses); i++)
        refuse(no_addresses[i]);
    refuse(kernel_addresses[0]);
    refuse(kernel_addresses[2]);
}

static sigjmp_buf back;
static unsigned long wanted, found;
static siginfo_t seen;
static long trap;

static void note(int number, siginfo_t *info, void *context)
{
    ucontext_t *at = context;

    (void)number;
    seen = *info;
    found = at->uc_mcontext.gregs[REG_RIP];
    trap = at->uc_mcontext.gregs[REG_TRAPNO];
    siglongjmp(back, 1);
}

static void go_there(int number, siginfo_t *info, void *context)
{
    ucontext_t *at = context;

    (void)number, (void)info;
    at->uc_mcontext.gregs[REG_RIP] = wanted;
}

static void handle_faults(void)
{
    stack_t other = { .ss_sp = alternate, .ss_size = sizeof alternate };
    struct sigaction action = { .sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };

    MUST(sigaltstack(&other, NULL));
    MUST(sigaction(SIGSEGV, &action, NULL));
}

static void show_fault(const char *what)
{
    printf("%s: signal %d, code %d, trap %ld\n", what, seen.si_signo, seen.si_code, trap);
    truth("at the address", found == wanted);
    truth("which it tells", seen.si_addr == (void *)wanted);
}

static void go_by_signal(const char *what, void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_NODEFER };

    MUST(sigaction(SIGUSR1, &action, NULL));
    if (!sigsetjmp(back, 1))
        raise(SIGUSR1);
    show_fault(what);
}

static void go_everywhere(const unsigned long *addresses, size_t count)
{
    handle_faults();
    for (size_t i = 0; i < count; i++) {
        wanted = addresses[i];
        go_by_signal("return from a handler", go_there);
        go_by_signal("handler", (void (*)(int, siginfo_t *, void *))wanted);
    }
}

CASE(going_to_no_address)
{
    go_everywhere(no_addresses, COUNT_OF(no_addresses));
}

CASE(going_to_the_kernel)
{
    go_everywhere(kernel_addresses, COUNT_OF(kernel_addresses));
}

CASE(faults_at_the_end_of_memory)
{
    /* hlt; a load through rax. */
    static const unsigned char code[][2] = { { 0x90, 0xf4 }, { 0x8a, 0x00 } };
    unsigned char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    truth("mapped", page != MAP_FAILED);
    MUST(munmap(page + 4096, 4096));
    handle_faults();
    for (size_t i = 0; i < COUNT_OF(code); i++) {
        memcpy(page + 4094, code[i], 2);
        wanted = (unsigned long)page + (i == 0 ? 4095 : 4094);
        if (!sigsetjmp(back, 1))
            __asm__ volatile("call *%1" : : "a"(1ul << 63), "r"(wanted) : "memory");
        printf("signal %d, code %d, trap %ld\n", seen.si_signo, seen.si_code, trap);
        truth("at the instruction", found == wanted);
    }
}

__attribute__((noinline)) static int set_base(void)
{
    if (sigsetjmp(back, 1))
        return 0;
    __asm__ volatile("wrfsbase %0" : : "r"(1ul << 63));
    return 1;
}

CASE(a_base_that_is_no_address)
{
    int has = (getauxval(AT_HWCAP2) & HAS_FSGSBASE) != 0;

    handle_faults();
    truth("refused", !has || !set_base());
}

/* Frames with a state of the extended registers that the processor does not take. */
static void spoil_state(int number, siginfo_t *info, void *context)
{
    ucontext_t *at = context;
    unsigned *words = (unsigned *)at->uc_mcontext.fpregs;

    (void)number, (void)info;
    words[6] = wanted; /* MXCSR */
}

static int returns_spoiled(void *argument)
{
    struct sigaction action = { .sa_sigaction = spoil_state, .sa_flags = SA_SIGINFO };

    wanted = *(unsigned *)argument;
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    return 7;
}

CASE(control_words_in_frames)
{
    unsigned words[] = { 0x1f80, 0xffff, 0x10000, ~0u };

    for (size_t i = 0; i < COUNT_OF(words); i++)
        in_child("return", returns_spoiled, &words[i]);
}
