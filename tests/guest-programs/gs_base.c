/*
 * GS as a base of the program's own: set and read by calls and by instructions, used by loads and stores of all kinds in the program's
 * file, kept per thread, by a child, through signals, and not through exec.
 *
 * All accesses are assembly, so that they stand in the file as they are written here.
 */
#include "case.h"

#include <asm/prctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>

static uint64_t area[64] __attribute__((aligned(64)));

static long set_gs(const void *base)
{
    return syscall(SYS_arch_prctl, ARCH_SET_GS, base);
}

static uint64_t get_gs(void)
{
    uint64_t base = 1;

    MUST(syscall(SYS_arch_prctl, ARCH_GET_GS, &base));
    return base;
}

static uint64_t read_gs_base(void)
{
    uint64_t base;

    __asm__ volatile("rdgsbase %0" : "=r"(base));
    return base;
}

static void write_gs_base(uint64_t base)
{
    __asm__ volatile("wrgsbase %0" : : "r"(base) : "memory");
}

static void fill(void)
{
    for (int i = 0; i < 64; i++)
        area[i] = 0x0123456789abcdefULL * (i + 1);
}

static void show_area(const char *what)
{
    printf("%s: %016llx\n", what, (unsigned long long)checksum(CHECKSUM_START, area, sizeof area));
}

#define HEX(what, value) printf("%s: %#llx\n", what, (unsigned long long)(value))

CASE(the_base_is_set_and_read_by_calls)
{
    truth("0 at first", get_gs() == 0);
    show("set", set_gs(area));
    truth("read by a call", get_gs() == (uint64_t)area);
    truth("read by the instruction", read_gs_base() == (uint64_t)area);
    show("set beyond programs' addresses", set_gs((void *)(1ULL << 47)));
    truth("as before", get_gs() == (uint64_t)area);
    show("set to 0", set_gs(NULL));
    truth("0", read_gs_base() == 0);
}

CASE(the_base_is_set_and_read_by_instructions)
{
    uint64_t base = (uint64_t)area, whole = -1;

    write_gs_base(base);
    truth("read by a call", get_gs() == base);
    truth("read by the instruction", read_gs_base() == base);
    __asm__ volatile("rdgsbase %k0" : "+r"(whole));
    truth("its lower half", whole == (base & 0xffffffff));
    whole = 0xffffffff12345678;
    __asm__ volatile("wrgsbase %k0" : : "r"(whole));
    HEX("half written", read_gs_base());
    __asm__ volatile("push %%rbx\nmov %%rsp, %%rbx\nwrgsbase %%rsp\nrdgsbase %%rax\nsub %%rbx, %%rax\npop %%rbx" : "=a"(whole));
    HEX("the stack pointer, less itself", whole);
    write_gs_base(0);
}

CASE(the_base_does_not_change_over_calls)
{
    write_gs_base((uint64_t)area);
    fill();
    for (int i = 0; i < 3; i++) {
        sleep_ms(1);
        uint64_t value;
        __asm__ volatile("mov %%gs:8, %0" : "=r"(value));
        HEX("value", value);
    }
    write_gs_base(0);
}

/* Runs one piece of assembly with rbx = 16, rcx = 3, rdi = -8; prints what it left in rax, rcx and rdx, the flags, and the area. */
#define TRY(name, code)                                                                                                   \
    do {                                                                                                                  \
        uint64_t a = 0x1111111111111111, b = 16, c = 3, d = 0x2222222222222222, i = -8, flags;                            \
        fill();                                                                                                           \
        __asm__ volatile("stc\n" code "\npushfq\npop %5"                                                                  \
                         : "+a"(a), "+b"(b), "+c"(c), "+d"(d), "+D"(i), "=r"(flags)                                       \
                         :                                                                                                \
                         : "memory", "cc", "xmm0", "xmm1", "r8", "r9", "r12", "r13");                                     \
        printf("%s: %016llx %llx %llx %016llx %llx flags %llx ", name, (unsigned long long)a, (unsigned long long)b,      \
               (unsigned long long)c, (unsigned long long)d, (unsigned long long)i, (unsigned long long)(flags & 0x8c1)); \
        show_area("area");                                                                                                \
    } while (0)

CASE(loads)
{
    write_gs_base((uint64_t)(area + 16));
    TRY("by an offset", "mov %%gs:0x10, %%rax");
    TRY("by a negative offset", "mov %%gs:-0x10, %%eax");
    TRY("by a register", "mov %%gs:(%%rbx), %%eax");
    TRY("by a negative register", "mov %%gs:(%%rdi), %%rax");
    TRY("by a register and an offset", "mov %%gs:0x20(%%rbx), %%rdx");
    TRY("by two registers", "mov %%gs:(%%rbx,%%rcx), %%rax");
    TRY("by two registers, scaled", "mov %%gs:1(%%rbx,%%rcx,8), %%edx");
    TRY("by an index alone", "mov %%gs:0x8(,%%rcx,4), %%edx");
    TRY("into the address", "mov %%gs:(%%rbx), %%rbx");
    TRY("into the index", "mov %%gs:(%%rbx,%%rcx,2), %%ecx");
    TRY("of a byte", "mov %%gs:(%%rbx), %%al");
    TRY("of the second byte", "mov %%gs:(%%rbx), %%ah");
    TRY("of two bytes", "mov %%gs:(%%rbx), %%ax");
    TRY("of a byte, zeroes before", "movzbl %%gs:1(%%rbx), %%eax");
    TRY("of a byte, signs before", "movsbq %%gs:1(%%rbx), %%rax");
    TRY("of two bytes, signs before", "movswl %%gs:2(%%rbx), %%edx");
    TRY("of four bytes, signs before", "movslq %%gs:(%%rbx), %%rax");
    TRY("through r12", "mov %%rbx, %%r12\nmov %%gs:8(%%r12), %%rax");
    TRY("through r13", "mov %%rbx, %%r13\nmov %%gs:(%%r13), %%rax");
    TRY("through r9, into it", "mov %%rbx, %%r9\nmovzbl %%gs:(%%r9), %%r9d\nmov %%r9, %%rax");
    TRY("a sum", "add %%gs:(%%rbx), %%rax");
    TRY("a comparison", "cmp %%rax, %%gs:(%%rbx)");
    TRY("a conditional move", "cmovc %%gs:(%%rbx), %%rax\ncmovnc %%gs:8(%%rbx), %%rdx");
    TRY("a vector", "movups %%gs:(%%rbx), %%xmm0\nmovq %%xmm0, %%rax\npsrldq $8, %%xmm0\nmovq %%xmm0, %%rdx");
    TRY("a scalar", "movss %%gs:4(%%rbx), %%xmm1\nmovq %%xmm1, %%rax");
    TRY("a prefetch", "prefetcht0 %%gs:(%%rbx)");
    TRY("an address, which is none", "lea %%gs:8(%%rbx), %%rax");
    write_gs_base(0);
}

CASE(stores)
{
    write_gs_base((uint64_t)(area + 16));
    TRY("by an offset", "mov %%rax, %%gs:0x10");
    TRY("of four bytes", "mov %%edx, %%gs:(%%rbx)");
    TRY("of two bytes", "mov %%dx, %%gs:(%%rbx)");
    TRY("of a byte", "mov %%dl, %%gs:3(%%rbx)");
    TRY("of a second byte", "mov %%dh, %%gs:3(%%rbx)");
    TRY("of the address", "mov %%rbx, %%gs:(%%rbx)");
    TRY("by two registers", "mov %%rdx, %%gs:8(%%rbx,%%rcx,8)");
    TRY("of a constant", "movl $0x12345678, %%gs:(%%rbx)");
    TRY("of a small constant", "movb $7, %%gs:(%%rbx,%%rcx)");
    TRY("of a vector", "movq %%rax, %%xmm0\nmovups %%xmm0, %%gs:1(%%rbx)");
    TRY("of a condition", "setc %%gs:(%%rbx)\nsetnc %%gs:1(%%rbx)");
    TRY("an exchange", "xchg %%rax, %%gs:(%%rbx)");
    TRY("an exchange when equal", "mov %%gs:(%%rbx), %%rax\nlock cmpxchg %%rdx, %%gs:(%%rbx)");
    TRY("no exchange when not", "lock cmpxchg %%rdx, %%gs:(%%rbx)");
    TRY("a sum", "lock xadd %%eax, %%gs:(%%rbx)");
    TRY("an increment", "incl %%gs:(%%rbx)");
    TRY("a negation", "notq %%gs:(%%rbx)");
    TRY("a shift", "rclb $1, %%gs:(%%rbx)");
    TRY("many in a row", "mov %%eax, %%gs:(%%rbx)\nmov %%edx, %%gs:4(%%rbx)\nmov %%gs:(%%rbx), %%rdx\nmov %%dl, %%gs:9(%%rbx)\n"
                         "add %%gs:8(%%rbx), %%rdx\nmov %%rdx, %%gs:(%%rdi)");
    write_gs_base(0);
}

CASE(the_stack)
{
    write_gs_base((uint64_t)(area + 16));
    TRY("push and pop", "pushq %%gs:(%%rbx)\npop %%rax\npush %%rdx\npopq %%gs:8(%%rbx)");
    uint64_t value = 0;
    __asm__ volatile("push $77\nwrgsbase %%rsp\nxor %%eax, %%eax\nmov %%gs:(%%rax), %%rax\npop %%rdx" : "=a"(value) : : "rdx", "memory");
    HEX("relative to the stack", value);
    write_gs_base(0);
    __asm__ volatile("push $78\nmov %%gs:(%%rsp), %%rax\npop %%rdx" : "=a"(value) : : "rdx", "memory");
    HEX("base 0", value);
}

/* A loop whose first instruction is an access of three bytes, which its jump leads to. */
CASE(loops_of_short_accesses)
{
    uint64_t i = 0, sum = 0;

    fill();
    write_gs_base((uint64_t)area);
    __asm__ volatile("1:\n mov %%gs:(%%rdi), %%eax\n add %%rax, %%rsi\n mov %%esi, %%gs:(%%rdi)\n add $4, %%edi\n cmp $256, %%edi\n jb 1b"
                     : "+D"(i), "+S"(sum) : : "rax", "memory", "cc");
    HEX("sum", sum);
    show_area("area");
    sum = 0;
    __asm__ volatile("xor %%r8d, %%r8d\n1:\n mov %%gs:(%%r8), %%eax\n inc %%r8\n add %%eax, %%esi\n mov %%gs:8(%%r8), %%dl\n dec %%dl\n"
                     " js 2f\n inc %%esi\n 2:\n cmp $200, %%r8d\n jb 1b" : "+S"(sum) : : "rax", "rdx", "r8", "memory", "cc");
    HEX("sum", sum);
    write_gs_base(0);
}

/* An access of four bytes to which one branch leads, and over which another does. */
CASE(accesses_between_branches)
{
    uint64_t sum = 0;

    fill();
    write_gs_base((uint64_t)area);
    for (uint64_t i = 0; i < 4; i++)
        __asm__ volatile("xor %%eax, %%eax\n test $1, %%cl\n jne 2f\n mov %%gs:(%%rax), %%rdx\n jmp 3f\n 2:\n mov %%gs:8(%%rax), %%edx\n 3:\n"
                         " mov %%rdx, %%rdi\n add %%gs:0x10(%%rax), %%rdi\n mov %%rdi, %%gs:0x123(%%rax)\n add %%rdx, %%rsi\n"
                         " test $2, %%cl\n jne 2f\n mov %%gs:(%%rax), %%rdx\n jmp 3f\n 2:\n mov %%gs:(%%rax), %%rdx\n 3:\n add %%rdx, %%rsi"
                         : "+S"(sum) : "c"(i) : "rax", "rdx", "rdi", "memory", "cc");
    HEX("sum", sum);
    show_area("area");
    write_gs_base(0);
}

/* Enters a row of accesses at each of its instructions, by computed jumps. */
CASE(computed_jumps_into_the_middle)
{
    uint64_t sums[4] = { 0 };

    fill();
    write_gs_base((uint64_t)area);
    for (int entry = 0; entry < 4; entry++) {
        uint64_t sum = 0;
        __asm__ volatile("lea 1f(%%rip), %%rax\n movslq (%%rax,%%rcx,4), %%rdx\n add %%rdx, %%rax\n xor %%edx, %%edx\n jmp *%%rax\n"
                         ".pushsection .rodata\n.balign 4\n 1: .long 2f - 1b, 3f - 1b, 4f - 1b, 5f - 1b\n.popsection\n"
                         "2: add %%gs:(%%rdx), %%ebx\n 3: add %%gs:8(%%rdx), %%ebx\n 4: add %%gs:16(%%rdx), %%ebx\n 5: add %%gs:24(%%rdx), %%ebx"
                         : "+b"(sum) : "c"((uint64_t)entry) : "rax", "rdx", "cc", "memory");
        sums[entry] = sum;
    }
    for (int entry = 0; entry < 4; entry++)
        HEX("sum", sums[entry]);
    write_gs_base(0);
}

static void *thread_with_a_base(void *argument)
{
    uint64_t *own = argument, inherited = read_gs_base();

    write_gs_base((uint64_t)own);
    for (int i = 0; i < 50; i++) {
        __asm__ volatile("incq %%gs:0" : : : "memory", "cc");
        sched_yield();
    }
    own[1] = inherited == (uint64_t)area;
    own[2] = read_gs_base() == (uint64_t)own;
    return NULL;
}

CASE(threads_have_their_own)
{
    uint64_t words[4][8] = { { 0 } };
    pthread_t threads[4];

    write_gs_base((uint64_t)area);
    for (int i = 0; i < 4; i++)
        threads[i] = thread_start(thread_with_a_base, words[i]);
    for (int i = 0; i < 4; i++) {
        thread_join(threads[i]);
        printf("%d: counted %d, inherited %d, kept %d\n", i, (int)words[i][0], (int)words[i][1], (int)words[i][2]);
    }
    truth("the first one's", read_gs_base() == (uint64_t)area);
    write_gs_base(0);
}

CASE(a_child_has_its_parents)
{
    int status;

    fill();
    write_gs_base((uint64_t)area);
    fflush(stdout);
    pid_t child = MUST(fork());
    if (!child) {
        __asm__ volatile("incq %%gs:16" : : : "memory", "cc");
        _exit(read_gs_base() == (uint64_t)area && area[2] == 0x0123456789abcdefULL * 3 + 1 ? 7 : 8);
    }
    MUST(waitpid(child, &status, 0));
    number("status", WEXITSTATUS(status));
    show_area("the parent's");
    write_gs_base(0);
}

CASE(exec_begins_with_0)
{
    if (getenv("GS_BASE_AGAIN")) {
        HEX("base", read_gs_base());
        return;
    }
    int status;
    fflush(stdout);
    pid_t child = MUST(fork());
    if (!child) {
        write_gs_base((uint64_t)area);
        setenv("GS_BASE_AGAIN", "1", 1);
        execl("/proc/self/exe", "gs_base", "exec_begins_with_0", NULL);
        _exit(9);
    }
    MUST(waitpid(child, &status, 0));
    number("status", WEXITSTATUS(status));
}

static volatile int handled;
static uint64_t base_in_handler, other[8];

static void on_alarm(int number)
{
    base_in_handler = read_gs_base();
    write_gs_base((uint64_t)other);
    handled = 1;
}

CASE(a_handler_sees_and_changes_it)
{
    signal(SIGUSR1, on_alarm);
    write_gs_base((uint64_t)area);
    handled = 0;
    raise(SIGUSR1);
    truth("handled", handled);
    truth("seen", base_in_handler == (uint64_t)area);
    truth("changed for good", read_gs_base() == (uint64_t)other);
    write_gs_base(0);
}

/* Accesses that fault: each at a label, with what else is in registers. */
#define FAULTING(name, code)                                                                       \
    void fault_##name(void);                                                                       \
    extern const char place_##name[];                                                              \
    __asm__(".pushsection .text\n.globl fault_" #name "\n.type fault_" #name ", @function\nfault_" #name ":\n" \
            "push %rbx\npush %rbp\nmov $0x11, %eax\nmov $0x22, %ebx\nmov $0x33, %ecx\nmov $0x44, %edx\n" \
            "mov $0x1000, %esi\nmov $0x66, %edi\nmov $0x77, %ebp\n.globl place_" #name "\nplace_" #name ":\n" code \
            "\npop %rbp\npop %rbx\nret\n.size fault_" #name ", .-fault_" #name "\n.popsection")

FAULTING(load, "mov %gs:(%rsi), %eax");
FAULTING(load_into_address, "mov %gs:(%rsi), %esi");
FAULTING(store, "mov %eax, %gs:8(%rsi)");
FAULTING(sum, "add %eax, %gs:(%rsi,%rbx,2)");
FAULTING(vector, "movups %gs:4(%rsi), %xmm0");

static greg_t at_fault[NGREG];
static void *fault_address;
static int fault_signal, fault_code, mends;
static char *pages;

static void on_fault(int number, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;

    memcpy(at_fault, uc->uc_mcontext.gregs, sizeof at_fault);
    fault_signal = number;
    fault_code = info->si_code;
    fault_address = info->si_addr;
    mends++;
    /* The instruction is executed again, and finds memory. */
    mprotect(pages + 4096, 4096, PROT_READ | PROT_WRITE);
}

static void show_fault(const char *name, void (*function)(void), const char *place)
{
    struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

    MUST(sigaction(SIGSEGV, &action, NULL));
    MUST(mprotect(pages + 4096, 4096, PROT_NONE));
    write_gs_base((uint64_t)pages);
    mends = 0;
    function();
    write_gs_base(0);
    printf("%s: signal %d code %d, %d times, address +%ld, rip right %d, rax %llx rbx %llx rcx %llx rdx %llx rsi %llx rdi %llx rbp %llx\n", name,
           fault_signal, fault_code, mends, (long)((char *)fault_address - pages), at_fault[REG_RIP] == (greg_t)place,
           at_fault[REG_RAX], at_fault[REG_RBX], at_fault[REG_RCX], at_fault[REG_RDX], at_fault[REG_RSI], at_fault[REG_RDI], at_fault[REG_RBP]);
}

CASE(faults_show_the_instruction_and_its_registers)
{
    pages = (char *)MUST(mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    show_fault("load", fault_load, place_load);
    show_fault("load into the address", fault_load_into_address, place_load_into_address);
    show_fault("store", fault_store, place_store);
    show_fault("sum", fault_sum, place_sum);
    show_fault("vector", fault_vector, place_vector);
    MUST(munmap(pages, 8192));
}

static sigjmp_buf out;

static void leave(int number, siginfo_t *info, void *context)
{
    siglongjmp(out, 1);
}

CASE(base_0_faults_as_other_null_pointers)
{
    struct sigaction action = { .sa_sigaction = leave, .sa_flags = SA_SIGINFO };

    MUST(sigaction(SIGSEGV, &action, NULL));
    write_gs_base(0);
    if (!sigsetjmp(out, 1)) {
        __asm__ volatile("mov %%gs:0, %%rax" : : : "rax");
        printf("no fault\n");
    } else {
        printf("a fault\n");
    }
}

static volatile int ticks;

static void on_tick(int number)
{
    ticks++;
}

/* Timers of processor time interrupt such accesses at any place. */
CASE(interruptions_leave_no_trace)
{
    struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { { 0, 0 }, { 0, 0 } };
    int wrong = 0;

    fill();
    write_gs_base((uint64_t)area);
    signal(SIGPROF, on_tick);
    MUST(setitimer(ITIMER_PROF, &often, NULL));
    ticks = 0;
    while (ticks < 20) {
        uint64_t a = 0x1234, c = 0x5678, d = 0, expected = area[3];
        __asm__ volatile("mov %%gs:24, %%rdx\nmov %%rdx, %%gs:32\nxor %%edi, %%edi\nadd %%gs:32(%%rdi), %%rdx\nmov %%ecx, %%gs:40(%%rdi)"
                         : "+a"(a), "+c"(c), "+d"(d) : : "rdi", "memory", "cc");
        wrong += a != 0x1234 || c != 0x5678 || d != 2 * expected || (uint32_t)area[5] != 0x5678;
        getppid();
    }
    MUST(setitimer(ITIMER_PROF, &never, NULL));
    number("wrong", wrong);
    write_gs_base(0);
}
