/*
 * Faults of the processor as signals: bad memory accesses with their address
 * and code, illegal instructions, breakpoints, divisions by zero, handlers
 * that repair or skip, and what survives a handler in vector registers.
 */
#include "case.h"

#include <immintrin.h>
#include <sys/mman.h>
#include <ucontext.h>

static sigjmp_buf recover;
static siginfo_t last_info;
static volatile sig_atomic_t seen;

static void jump_back(int number, siginfo_t *info, void *context)
{
    (void)context;
    last_info = *info;
    siglongjmp(recover, number);
}

static void handle(int number, void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags };

    seen = 0;
    MUST(sigaction(number, &action, NULL));
}

/* A fresh page, readable and writable, beginning with a byte 7. */
static char *new_page(void)
{
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    MUST(page == MAP_FAILED ? -1 : 0);
    page[0] = 7;
    return page;
}

static void try_to_read(volatile char *at)
{
    int caught = sigsetjmp(recover, 1);

    if (!caught)
        printf("read %d\n", *at);
    else
        printf("signal %d code %d address %s\n", caught, last_info.si_code,
               last_info.si_addr == at ? "matches" : "differs");
}

static void try_to_write(volatile char *at)
{
    int caught = sigsetjmp(recover, 1);

    if (!caught) {
        *at = 9;
        printf("wrote %d\n", *at);
    } else {
        printf("signal %d code %d address %s\n", caught, last_info.si_code,
               last_info.si_addr == at ? "matches" : "differs");
    }
}

CASE(null_pointer)
{
    handle(SIGSEGV, jump_back, 0);
    volatile uintptr_t none = 0;
    try_to_read((char *)none);
    try_to_write((char *)none);
    try_to_read((char *)none + 100);
}

CASE(unmapped_page)
{
    handle(SIGSEGV, jump_back, 0);
    char *page = new_page();
    try_to_read(page);
    MUST(munmap(page, 4096));
    try_to_read(page);
    try_to_write(page + 4095);
}

CASE(read_only_page)
{
    handle(SIGSEGV, jump_back, 0);
    char *page = new_page();
    MUST(mprotect(page, 4096, PROT_READ));
    try_to_read(page);
    try_to_write(page + 8);
    MUST(mprotect(page, 4096, PROT_READ | PROT_WRITE));
    try_to_write(page + 8);
    munmap(page, 4096);
}

CASE(inaccessible_page)
{
    handle(SIGSEGV, jump_back, 0);
    char *page = new_page();
    MUST(mprotect(page, 4096, PROT_NONE));
    try_to_read(page);
    try_to_write(page + 1);
    MUST(mprotect(page, 4096, PROT_READ));
    try_to_read(page);
    munmap(page, 4096);
}

CASE(read_only_data)
{
    static const char constant[] = "constant";
    handle(SIGSEGV, jump_back, 0);
    try_to_read((char *)constant);
    try_to_write((char *)constant);
    text("unchanged", constant);
}

CASE(addresses_of_the_kernel)
{
    handle(SIGSEGV, jump_back, 0);
    volatile uintptr_t kernel = 0xffffffff81000000, strange = 0x8000000000000000;
    int caught = sigsetjmp(recover, 1);
    if (!caught)
        *(volatile char *)kernel = 1;
    printf("signal %d\n", caught);
    caught = sigsetjmp(recover, 1);
    if (!caught)
        *(volatile char *)strange = 1;
    printf("signal %d code %d address %ld\n", caught, last_info.si_code, (long)last_info.si_addr);
}

CASE(call_into_data)
{
    handle(SIGSEGV, jump_back, 0);
    char *page = new_page();
    page[0] = (char)0xc3;
    int caught = sigsetjmp(recover, 1);
    if (!caught)
        ((void (*)(void))(uintptr_t)page)();
    printf("signal %d code %d address %s\n", caught, last_info.si_code,
           last_info.si_addr == page ? "matches" : "differs");
    munmap(page, 4096);
}

CASE(call_of_null)
{
    handle(SIGSEGV, jump_back, 0);
    void (*volatile nothing)(void) = NULL;
    int caught = sigsetjmp(recover, 1);
    if (!caught)
        nothing();
    printf("signal %d code %d address %ld\n", caught, last_info.si_code, (long)last_info.si_addr);
}

static char *repaired_page;

static void repair(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    (void)context;
    seen++;
    mprotect(repaired_page, 4096, PROT_READ | PROT_WRITE);
}

CASE(handler_repairs_and_the_access_is_retried)
{
    handle(SIGSEGV, repair, 0);
    repaired_page = new_page();
    for (int i = 0; i < 3; i++) {
        MUST(mprotect(repaired_page, 4096, PROT_READ));
        *(volatile char *)(repaired_page + 5) = i;
    }
    number("faults", seen);
    number("value", repaired_page[5]);
    munmap(repaired_page, 4096);
}

static void skip_two_bytes(int number, siginfo_t *info, void *context)
{
    ucontext_t *interrupted = context;

    (void)number;
    last_info = *info;
    seen++;
    interrupted->uc_mcontext.gregs[REG_RIP] += 2;
}

CASE(illegal_instruction)
{
    handle(SIGILL, skip_two_bytes, 0);
    __asm__ volatile("ud2" ::: "memory");
    number("seen", seen);
    number("code", last_info.si_code);
    number("signo", last_info.si_signo);
    truth("address", last_info.si_addr != NULL);
}

static volatile greg_t trap_distance;

static void note_trap(int number, siginfo_t *info, void *context)
{
    ucontext_t *interrupted = context;

    (void)number;
    last_info = *info;
    seen++;
    trap_distance = interrupted->uc_mcontext.gregs[REG_RIP] - interrupted->uc_mcontext.gregs[REG_RBX];
}

CASE(breakpoint)
{
    handle(SIGTRAP, note_trap, 0);
    __asm__ volatile("lea 1f(%%rip), %%rbx\n1: int3\nnop\n" ::: "rbx", "memory");
    number("seen", seen);
    number("code", last_info.si_code);
    number("rip is past the byte", trap_distance);
}

static void skip_division(int number, siginfo_t *info, void *context)
{
    ucontext_t *interrupted = context;

    (void)number;
    last_info = *info;
    seen++;
    interrupted->uc_mcontext.gregs[REG_RAX] = 77;
    interrupted->uc_mcontext.gregs[REG_RIP] += 2;
}

CASE(division_by_zero)
{
    int result = 1;
    handle(SIGFPE, skip_division, 0);
    __asm__ volatile("xor %%edx, %%edx\nxor %%ecx, %%ecx\nidiv %%ecx" : "+a"(result)::"rcx", "rdx", "memory");
    number("seen", seen);
    number("code is FPE_INTDIV", last_info.si_code == FPE_INTDIV);
    number("result set by the handler", result);
}

CASE(sse_exception)
{
    handle(SIGFPE, jump_back, 0);
    unsigned old = _mm_getcsr();
    int caught = sigsetjmp(recover, 1);
    if (!caught) {
        volatile double zero = 0, one = 1;
        _mm_setcsr(old & ~_MM_MASK_DIV_ZERO);
        volatile double quotient = one / zero;
        (void)quotient;
    }
    _mm_setcsr(old);
    number("code is FPE_FLTDIV", caught == SIGFPE && last_info.si_code == FPE_FLTDIV);
    printf("signal %d\n", caught);
}

CASE(privileged_instruction)
{
    handle(SIGSEGV, jump_back, 0);
    int caught = sigsetjmp(recover, 1);
    if (!caught)
        __asm__ volatile("hlt" ::: "memory");
    printf("signal %d code %d address %ld\n", caught, last_info.si_code, (long)last_info.si_addr);
}

static volatile greg_t context_error, context_trap, context_cr2_matches;
static volatile char *faulting;

static void look_at_context(int number, siginfo_t *info, void *context)
{
    ucontext_t *interrupted = context;

    (void)number;
    last_info = *info;
    context_trap = interrupted->uc_mcontext.gregs[REG_TRAPNO];
    context_error = interrupted->uc_mcontext.gregs[REG_ERR];
    context_cr2_matches = interrupted->uc_mcontext.gregs[REG_CR2] == (greg_t)faulting;
    siglongjmp(recover, 1);
}

CASE(context_of_a_fault)
{
    handle(SIGSEGV, look_at_context, 0);
    faulting = new_page();
    munmap((void *)faulting, 4096);
    if (!sigsetjmp(recover, 1))
        *faulting = 1;
    number("trap number", context_trap);
    number("write by user", context_error & 6);
    number("cr2 matches", context_cr2_matches);
}

static void change_registers(int number, siginfo_t *info, void *context)
{
    ucontext_t *interrupted = context;

    (void)number;
    (void)info;
    interrupted->uc_mcontext.gregs[REG_RAX] = 0x1111;
    interrupted->uc_mcontext.gregs[REG_R12] = 0x2222;
    interrupted->uc_mcontext.gregs[REG_RIP] += 2;
    seen++;
}

CASE(handler_changes_registers)
{
    long rax = 0, r12 = 0;
    handle(SIGILL, change_registers, 0);
    __asm__ volatile("ud2\nmov %%rax, %0\nmov %%r12, %1" : "=&r"(rax), "=&r"(r12)::"rax", "r12", "memory");
    printf("rax %lx r12 %lx\n", rax, r12);
}

static void clobber_everything(int number)
{
    (void)number;
    seen++;
    __asm__ volatile("pcmpeqb %%xmm0, %%xmm0\npcmpeqb %%xmm1, %%xmm1\npcmpeqb %%xmm7, %%xmm7\n"
                     "pcmpeqb %%xmm8, %%xmm8\npcmpeqb %%xmm15, %%xmm15\nfninit\nfld1\nfldpi\n" ::
                         : "xmm0", "xmm1", "xmm7", "xmm8", "xmm15", "memory");
    _mm_setcsr(0x7f80);
}

CASE(sse_registers_survive_a_handler)
{
    static uint64_t in[4] = { 0x1111, 0x2222, 0x3333, 0x4444 }, out[4];
    struct sigaction action = { .sa_handler = clobber_everything };
    seen = 0;
    MUST(sigaction(SIGUSR1, &action, NULL));
    long pid = getpid(), ret;
    __asm__ volatile("movdqu (%2), %%xmm0\nmovdqu 16(%2), %%xmm15\n"
                     "mov $62, %%eax\nsyscall\n"
                     "movdqu %%xmm0, (%3)\nmovdqu %%xmm15, 16(%3)\n"
                     : "=&a"(ret)
                     : "D"(pid), "r"(in), "r"(out), "S"((long)SIGUSR1)
                     : "rcx", "r11", "xmm0", "xmm15", "memory");
    show("kill", ret);
    number("handler ran", seen);
    truth("registers", !memcmp(in, out, sizeof in));
    truth("mxcsr", _mm_getcsr() == 0x1f80);
}

CASE(x87_stack_survives_a_handler)
{
    struct sigaction action = { .sa_handler = clobber_everything };
    double first = 1.25, second = 2.5, a, b;
    seen = 0;
    MUST(sigaction(SIGUSR1, &action, NULL));
    long pid = getpid(), ret;
    __asm__ volatile("fldl %4\nfldl %5\nmov $62, %%eax\nsyscall\nfstpl %1\nfstpl %2\n"
                     : "=&a"(ret), "=m"(a), "=m"(b)
                     : "D"(pid), "m"(first), "m"(second), "S"((long)SIGUSR1)
                     : "rcx", "r11", "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)", "memory");
    number("handler ran", seen);
    printf("values %.2f %.2f\n", a, b);
}

__attribute__((target("avx"))) static void clobber_ymm(int number)
{
    (void)number;
    seen++;
    __asm__ volatile("vzeroall" ::: "memory");
}

__attribute__((target("avx"))) static int ymm_survives(void)
{
    static uint64_t in[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, out[8];
    long pid = getpid(), ret;

    __asm__ volatile("vmovdqu (%2), %%ymm1\nvmovdqu 32(%2), %%ymm14\n"
                     "mov $62, %%eax\nsyscall\n"
                     "vmovdqu %%ymm1, (%3)\nvmovdqu %%ymm14, 32(%3)\nvzeroupper\n"
                     : "=&a"(ret)
                     : "D"(pid), "r"(in), "r"(out), "S"((long)SIGUSR1)
                     : "rcx", "r11", "xmm1", "xmm14", "memory");
    return !memcmp(in, out, sizeof in);
}

CASE(avx_registers_survive_a_handler)
{
    struct sigaction action = { .sa_handler = clobber_ymm };
    seen = 0;
    MUST(sigaction(SIGUSR1, &action, NULL));
    /* Where the processor has no AVX there is nothing to lose. */
    truth("registers", !__builtin_cpu_supports("avx") || ymm_survives());
    truth("handler ran", !__builtin_cpu_supports("avx") || seen == 1);
}

static char alternate[64 * 1024];

static volatile sig_atomic_t handled_on_alternate;

static void overflow_handler(int number, siginfo_t *info, void *context)
{
    char here;

    (void)info;
    (void)context;
    handled_on_alternate = &here >= alternate && &here < alternate + sizeof alternate;
    siglongjmp(recover, number);
}

static volatile long no_depth = -1;

/* Recurses without end, but the compiler cannot know. */
static long depth_of(long depth)
{
    volatile char block[4096];

    block[0] = depth;
    if (depth == no_depth)
        return 0;
    return depth_of(depth + 1) + block[0];
}

static void *overflow_stack(void *argument)
{
    stack_t stack = { .ss_sp = alternate, .ss_size = sizeof alternate };

    (void)argument;
    MUST(sigaltstack(&stack, NULL));
    int caught = sigsetjmp(recover, 1);
    if (!caught)
        depth_of(0);
    stack.ss_flags = SS_DISABLE;
    MUST(sigaltstack(&stack, NULL));
    return (void *)(long)caught;
}

CASE(stack_overflow_on_an_alternate_stack)
{
    pthread_attr_t attributes;
    pthread_t thread;
    handle(SIGSEGV, overflow_handler, SA_ONSTACK);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 128 * 1024);
    MUST_ZERO(pthread_create(&thread, &attributes, overflow_stack, NULL));
    number("signal", (long)thread_join(thread));
    truth("on the alternate stack", handled_on_alternate);
}

static void *fault_in_thread(void *argument)
{
    for (int i = 0; i < 10; i++)
        if (!sigsetjmp(recover, 1))
            *(volatile char *)argument = 1;
    return (void *)(long)last_info.si_signo;
}

CASE(fault_in_another_thread)
{
    handle(SIGSEGV, jump_back, 0);
    char *page = new_page();
    MUST(mprotect(page, 4096, PROT_READ));
    number("signal", (long)thread_join(thread_start(fault_in_thread, page)));
    munmap(page, 4096);
}

CASE(many_faults)
{
    handle(SIGSEGV, jump_back, 0);
    char *page = new_page();
    volatile int faults = 0;
    MUST(mprotect(page, 4096, PROT_NONE));
    for (volatile int i = 0; i < 1000; i++) {
        if (!sigsetjmp(recover, 1))
            *(volatile char *)page = 1;
        else
            faults++;
    }
    number("faults", faults);
    munmap(page, 4096);
}
