/*
 * The processor's state around system calls: general registers, flags, the red
 * zone, x87, SSE and AVX registers; `syscall` instructions in awkward places;
 * and the instructions that would tell a guest about the real machine.
 *
 * Most of it is assembly, so that the compiler decides nothing. Where the
 * processor lacks a feature, the case prints what holds with it too.
 */
#include "case.h"

#include <cpuid.h>
#include <immintrin.h>
#include <sched.h>
#include <sys/auxv.h>

/* rax rbx rcx rdx rsi rdi rbp r8 r9 r10 r11 r12 r13 r14 r15 */
struct registers {
    uint64_t rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15;
};

/* Loads all registers, executes `syscall`, stores all registers. */
void call_with_registers(struct registers *registers);
__asm__(".text\n"
        ".globl call_with_registers\n"
        "call_with_registers:\n"
        "push %rbx\npush %rbp\npush %r12\npush %r13\npush %r14\npush %r15\npush %rdi\n"
        "mov 0(%rdi), %rax\nmov 8(%rdi), %rbx\nmov 16(%rdi), %rcx\nmov 24(%rdi), %rdx\n"
        "mov 32(%rdi), %rsi\nmov 48(%rdi), %rbp\nmov 56(%rdi), %r8\nmov 64(%rdi), %r9\n"
        "mov 72(%rdi), %r10\nmov 80(%rdi), %r11\nmov 88(%rdi), %r12\nmov 96(%rdi), %r13\n"
        "mov 104(%rdi), %r14\nmov 112(%rdi), %r15\nmov 40(%rdi), %rdi\n"
        "syscall\n"
        "push %rax\nmov 8(%rsp), %rax\n"
        "mov %rbx, 8(%rax)\nmov %rcx, 16(%rax)\nmov %rdx, 24(%rax)\nmov %rsi, 32(%rax)\n"
        "mov %rdi, 40(%rax)\nmov %rbp, 48(%rax)\nmov %r8, 56(%rax)\nmov %r9, 64(%rax)\n"
        "mov %r10, 72(%rax)\nmov %r11, 80(%rax)\nmov %r12, 88(%rax)\nmov %r13, 96(%rax)\n"
        "mov %r14, 104(%rax)\nmov %r15, 112(%rax)\n"
        "pop %rbx\nmov %rbx, 0(%rax)\n"
        "pop %rdi\npop %r15\npop %r14\npop %r13\npop %r12\npop %rbp\npop %rbx\nret\n");

static struct timespec millisecond = { 0, 1000000 };

static void show_preserved(const struct registers *before, const struct registers *after)
{
    truth("rbx rbp", before->rbx == after->rbx && before->rbp == after->rbp);
    truth("rdi rsi rdx", before->rdi == after->rdi && before->rsi == after->rsi && before->rdx == after->rdx);
    truth("r8 r9 r10", before->r8 == after->r8 && before->r9 == after->r9 && before->r10 == after->r10);
    truth("r12 to r15", before->r12 == after->r12 && before->r13 == after->r13 &&
                            before->r14 == after->r14 && before->r15 == after->r15);
}

static struct registers registers_for(long number, uint64_t first, uint64_t second)
{
    return (struct registers){
        .rax = number, .rbx = 0xb000000000000001, .rcx = 0xb000000000000002, .rdx = 0xb000000000000003,
        .rsi = second, .rdi = first, .rbp = 0xb000000000000004, .r8 = 0xb000000000000005,
        .r9 = 0xb000000000000006, .r10 = 0xb000000000000007, .r11 = 0xb000000000000008,
        .r12 = 0xb000000000000009, .r13 = 0xb00000000000000a, .r14 = 0xb00000000000000b,
        .r15 = 0xb00000000000000c,
    };
}

CASE(registers_over_a_call)
{
    struct registers before = registers_for(SYS_getpid, 0xb0, 0xb1), after = before;
    call_with_registers(&after);
    truth("result", (long)after.rax == getpid());
    show_preserved(&before, &after);
}

CASE(registers_over_a_blocking_call)
{
    struct registers before = registers_for(SYS_nanosleep, (uint64_t)&millisecond, 0), after = before;
    call_with_registers(&after);
    number("result", after.rax);
    show_preserved(&before, &after);
}

CASE(registers_over_a_failing_call)
{
    struct registers before = registers_for(SYS_close, 0xffffffff, 0), after = before;
    call_with_registers(&after);
    number("result", after.rax);
    show_preserved(&before, &after);
    before = registers_for(5000, 1, 2);
    after = before;
    call_with_registers(&after);
    number("result", after.rax);
    show_preserved(&before, &after);
}

CASE(number_minus_one)
{
    struct registers registers = registers_for(-1, 0, 0);
    call_with_registers(&registers);
    number("call -1", registers.rax);
}

/* Fills the red zone, calls, and counts the words that changed. */
long red_zone_over(long number, long first, long second);
__asm__(".text\n"
        ".globl red_zone_over\n"
        "red_zone_over:\n"
        "mov %rdi, %rax\nmov %rsi, %rdi\nmov %rdx, %rsi\n"
        "mov $0x123456789abcdef, %r8\n"
        "mov $-16, %r9\n"
        "1: lea (%r8,%r9), %r10\nmov %r10, (%rsp,%r9,8)\ninc %r9\njnz 1b\n"
        "syscall\n"
        "xor %eax, %eax\n"
        "mov $-16, %r9\n"
        "2: lea (%r8,%r9), %r10\ncmp %r10, (%rsp,%r9,8)\nje 3f\ninc %rax\n"
        "3: inc %r9\njnz 2b\n"
        "ret\n");

CASE(red_zone)
{
    number("words changed by getpid", red_zone_over(SYS_getpid, 0, 0));
    number("words changed by a failing call", red_zone_over(SYS_close, -1, 0));
    number("words changed by a blocking call", red_zone_over(SYS_nanosleep, (long)&millisecond, 0));
    number("words changed by an unknown call", red_zone_over(5000, 0, 0));
}

/* Sets the flags, calls getpid, returns the flags. */
static unsigned long flags_over_getpid(unsigned long flags)
{
    __asm__ volatile("sub $256, %%rsp\n"
                     "push %0\npopfq\n"
                     "mov $39, %%eax\nsyscall\n"
                     "pushfq\npop %0\n"
                     "cld\nadd $256, %%rsp\n"
                     : "+r"(flags)::"rax", "rcx", "r11", "cc", "memory");
    return flags;
}

CASE(flags)
{
    /* CF PF AF ZF SF DF OF */
    static const unsigned long tried[] = { 0x001, 0x004, 0x010, 0x040, 0x080, 0x400, 0x800, 0xcd5, 0 };
    for (size_t i = 0; i < COUNT_OF(tried); i++)
        printf("%03lx -> %03lx\n", tried[i], flags_over_getpid(tried[i] | 0x202) & 0xcd5);
}

CASE(mxcsr)
{
    unsigned old = _mm_getcsr();
    _mm_setcsr(0x7f80);
    syscall(SYS_getpid);
    printf("after getpid %x\n", _mm_getcsr());
    syscall(SYS_nanosleep, &millisecond, NULL);
    printf("after nanosleep %x\n", _mm_getcsr());
    _mm_setcsr(old);
}

CASE(x87_control_and_stack)
{
    uint16_t old, wanted = 0x0c3f, seen = 0;
    double a = 3.5, b = -7.25, x, y;
    long ret;
    __asm__ volatile("fnstcw %0" : "=m"(old));
    __asm__ volatile("fldcw %4\nfldl %5\nfldl %6\n"
                     "mov $35, %%eax\nlea %7, %%rdi\nxor %%esi, %%esi\nsyscall\n"
                     "fstpl %1\nfstpl %2\nfnstcw %3\n"
                     : "=&a"(ret), "=m"(x), "=m"(y), "+m"(seen)
                     : "m"(wanted), "m"(a), "m"(b), "m"(millisecond)
                     : "rdi", "rsi", "rcx", "r11", "st", "st(1)", "memory");
    __asm__ volatile("fldcw %0" ::"m"(old));
    number("result", ret);
    printf("stack %.2f %.2f\n", x, y);
    printf("control word %04x\n", seen);
}

/* Loads xmm0 to xmm15, calls, stores them. */
long xmm_over(long number, long first, long second, const void *in, void *out);
__asm__(".text\n"
        ".globl xmm_over\n"
        "xmm_over:\n"
        "mov %rdi, %rax\nmov %rsi, %rdi\nmov %rdx, %rsi\nmov %rcx, %r9\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "movdqu 16*\\n(%r9), %xmm\\n\n"
        ".endr\n"
        "syscall\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "movdqu %xmm\\n, 16*\\n(%r8)\n"
        ".endr\n"
        "ret\n");

/* The same with ymm0 to ymm15. */
long ymm_over(long number, long first, long second, const void *in, void *out);
__asm__(".text\n"
        ".globl ymm_over\n"
        "ymm_over:\n"
        "mov %rdi, %rax\nmov %rsi, %rdi\nmov %rdx, %rsi\nmov %rcx, %r9\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "vmovdqu 32*\\n(%r9), %ymm\\n\n"
        ".endr\n"
        "syscall\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "vmovdqu %ymm\\n, 32*\\n(%r8)\n"
        ".endr\n"
        "vzeroupper\nret\n");

/* The same with zmm0 to zmm31 and k1 to k3. */
long zmm_over(long number, long first, long second, const void *in, void *out);
__asm__(".text\n"
        ".globl zmm_over\n"
        "zmm_over:\n"
        "mov %rdi, %rax\nmov %rsi, %rdi\nmov %rdx, %rsi\nmov %rcx, %r9\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
        "vmovdqu64 64*\\n(%r9), %zmm\\n\n"
        ".endr\n"
        "kmovw (%r9), %k1\nkmovw 2(%r9), %k2\nkmovw 4(%r9), %k3\n"
        "syscall\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
        "vmovdqu64 %zmm\\n, 64*\\n(%r8)\n"
        ".endr\n"
        "kmovw %k1, 2048(%r8)\nkmovw %k2, 2050(%r8)\nkmovw %k3, 2052(%r8)\n"
        "vzeroupper\nret\n");

static unsigned char vectors_in[2048], vectors_out[2054];

typedef long vector_test(long number, long first, long second, const void *in, void *out);

static int vectors_survive(vector_test *test, size_t length, long number, long first)
{
    fill_pattern(vectors_in, sizeof vectors_in, number + length);
    memset(vectors_out, 0, sizeof vectors_out);
    test(number, first, 0, vectors_in, vectors_out);
    return !memcmp(vectors_in, vectors_out, length);
}

static volatile int clobbering;

/* Overwrites every vector register between sleeps, until told to stop. */
static void *clobber(void *argument)
{
    static unsigned char other[2048], ignored[2054];

    (void)argument;
    memset(other, 0xee, sizeof other);
    while (clobbering) {
        if (__builtin_cpu_supports("avx512f"))
            zmm_over(SYS_getpid, 0, 0, other, ignored);
        else if (__builtin_cpu_supports("avx"))
            ymm_over(SYS_getpid, 0, 0, other, ignored);
        else
            xmm_over(SYS_getpid, 0, 0, other, ignored);
        nanosleep(&(struct timespec){ 0, 200000 }, NULL);
    }
    return NULL;
}

static void show_vectors(vector_test *test, size_t length, int supported)
{
    truth("over getpid", !supported || vectors_survive(test, length, SYS_getpid, 0));
    truth("over a failing call", !supported || vectors_survive(test, length, SYS_close, -1));
    truth("over a blocking call", !supported || vectors_survive(test, length, SYS_nanosleep, (long)&millisecond));
    int survived = 0;
    clobbering = 1;
    pthread_t thread = thread_start(clobber, NULL);
    for (int i = 0; i < 20; i++)
        survived += !supported || vectors_survive(test, length, SYS_nanosleep, (long)&millisecond);
    clobbering = 0;
    thread_join(thread);
    number("of 20 times while another thread clobbers", survived);
}

CASE(xmm_registers)
{
    show_vectors(xmm_over, 256, 1);
}

CASE(ymm_registers)
{
    show_vectors(ymm_over, 512, __builtin_cpu_supports("avx"));
}

CASE(zmm_registers)
{
    show_vectors(zmm_over, 2048, __builtin_cpu_supports("avx512f"));
}

CASE(mask_registers)
{
    int supported = __builtin_cpu_supports("avx512f");
    truth("over a blocking call", !supported || (vectors_survive(zmm_over, 2048, SYS_nanosleep, (long)&millisecond) &&
                                                 !memcmp(vectors_in, vectors_out + 2048, 6)));
}

static void *float_work(void *argument)
{
    double value = (long)argument, sum = 0;

    for (int i = 1; i <= 200; i++) {
        sum += value / i;
        if (i % 20 == 0)
            sched_yield();
        if (i % 50 == 0)
            nanosleep(&(struct timespec){ 0, 100000 }, NULL);
    }
    return (void *)(long)(sum * 1000000);
}

CASE(floating_point_in_many_threads)
{
    pthread_t threads[8];
    for (long i = 0; i < 8; i++)
        threads[i] = thread_start(float_work, (void *)(i + 1));
    for (int i = 0; i < 8; i++)
        number("sum", (long)thread_join(threads[i]));
}

/* `syscall` instructions in awkward places; each returns rax. */

long jumped_to_syscall(long number);
__asm__(".text\n.globl jumped_to_syscall\njumped_to_syscall:\n"
        "mov %rdi, %rax\njmp 1f\nud2\n1: syscall\nret\n");

long loop_on_syscall(long number);
__asm__(".text\n.globl loop_on_syscall\nloop_on_syscall:\n"
        "push %rbx\nmov $5, %ebx\nxor %r8d, %r8d\nmov %rdi, %rax\n"
        "1: syscall\nadd %rax, %r8\nmov %rdi, %rax\ndec %ebx\njnz 1b\n"
        "mov %r8, %rax\npop %rbx\nret\n");

long target_after_syscall(long skip, long number);
__asm__(".text\n.globl target_after_syscall\ntarget_after_syscall:\n"
        "mov $-7777, %rax\ntest %rdi, %rdi\njnz 1f\nmov %rsi, %rax\n"
        "syscall\n1: cmp $-4095, %rax\njae 2f\nret\n2: neg %rax\nret\n");

long target_between_number_and_syscall(long number);
__asm__(".text\n.globl target_between_number_and_syscall\ntarget_between_number_and_syscall:\n"
        "mov %rdi, %rax\ntest %rdi, %rdi\njnz 1f\nmov $39, %eax\n1: syscall\nret\n");

long adjacent_syscalls(void);
__asm__(".text\n.globl adjacent_syscalls\nadjacent_syscalls:\n"
        "mov $3, %eax\nmov $-1, %edi\nsyscall\nsyscall\nret\n");

__asm__(".text\n.globl call_three_bytes_long\ncall_three_bytes_long:\n"
        "mov %rdi, %rax\ncall 1f\nret\n1: syscall\nret\n"
        ".globl neighbour_function\nneighbour_function:\nmov $4711, %eax\nret\n");
long call_three_bytes_long(long number);
long neighbour_function(void);

long hidden_target_after_syscall(long skip);
__asm__(".text\n.globl hidden_target_after_syscall\nhidden_target_after_syscall:\n"
        "lea 1f(%rip), %rdx\nmov $1234, %eax\ntest %rdi, %rdi\njz 0f\njmp *%rdx\nud2\n"
        "0: mov $39, %eax\nsyscall\n1: add $1, %rax\nret\n");

long table_target_on_syscall(long index);
__asm__(".text\n.globl table_target_on_syscall\ntable_target_on_syscall:\n"
        "lea 9f(%rip), %rdx\nmovslq (%rdx,%rdi,4), %rcx\nadd %rdx, %rcx\nmov $110, %eax\njmp *%rcx\n"
        "1: mov $39, %eax\n2: syscall\n3: ret\n"
        ".section .rodata\n.align 4\n9: .long 1b-9b, 2b-9b, 3b-9b\n.text\n");

long pattern_in_immediates(void);
__asm__(".text\n.globl pattern_in_immediates\npattern_in_immediates:\n"
        "mov $0x050f, %eax\nmov $0x050f050f, %ecx\nadd %rcx, %rax\n"
        "movabs $0x050f050f050f, %rdx\nadd %rdx, %rax\nret\n");

extern const unsigned char pattern_in_data_of_text[8];
__asm__(".text\n.globl pattern_in_data_of_text\npattern_in_data_of_text:\n"
        ".byte 0x0f, 0x05, 0xc3, 0x0f, 0x05, 0x90, 0x0f, 0x05\n");

long syscall_with_prefix(long number);
__asm__(".text\n.globl syscall_with_prefix\nsyscall_with_prefix:\n"
        "mov %rdi, %rax\n.byte 0x48, 0x0f, 0x05\nret\n");

long relative_neighbours(void);
__asm__(".text\n.globl relative_neighbours\nrelative_neighbours:\n"
        "mov 8f(%rip), %eax\nsyscall\nmov 7f(%rip), %rcx\nsub %rcx, %rax\nret\n"
        ".section .rodata\n.align 8\n7: .quad 1000000\n8: .long 39, 0\n.text\n");

long call_right_after(void);
__asm__(".text\n.globl call_right_after\ncall_right_after:\n"
        "sub $8, %rsp\nmov $39, %eax\nsyscall\ncall 1f\nadd $8, %rsp\nret\n"
        "1: add $2, %rax\nret\n");

long branch_right_after(long number, long first);
__asm__(".text\n.globl branch_right_after\nbranch_right_after:\n"
        "mov %rdi, %rax\nmov %rsi, %rdi\ntest %rax, %rax\nsyscall\njz 1f\njs 1f\nret\n1: mov $-999, %rax\nret\n");

long zeroed_number(long descriptor, void *data, long length);
__asm__(".text\n.globl zeroed_number\nzeroed_number:\n"
        "xor %eax, %eax\nsyscall\ncmp $-4096, %rax\nja 1f\nret\n1: ret\n");

long stack_around(void);
__asm__(".text\n.globl stack_around\nstack_around:\n"
        "push $77\nmov $39, %eax\nsyscall\npop %rcx\nlea (%rax,%rcx), %rax\nret\n");

CASE(syscall_as_a_jump_target)
{
    truth("jumped to", jumped_to_syscall(SYS_getpid) == getpid());
    truth("loop", loop_on_syscall(SYS_getpid) == 5L * getpid());
}

CASE(jump_target_behind_a_syscall)
{
    truth("through the call", target_after_syscall(0, SYS_getpid) == getpid());
    number("around the call", target_after_syscall(1, SYS_getpid));
    number("failing call", target_after_syscall(0, 5000));
    truth("computed, through", hidden_target_after_syscall(0) == getpid() + 1);
    number("computed, around", hidden_target_after_syscall(1));
}

CASE(jump_target_before_a_syscall)
{
    truth("falling in", target_between_number_and_syscall(0) == getpid());
    truth("jumping in", target_between_number_and_syscall(SYS_getppid) == getppid());
}

CASE(jump_table_around_a_syscall)
{
    truth("before the number", table_target_on_syscall(0) == getpid());
    truth("on the call", table_target_on_syscall(1) == getppid());
    number("behind the call", table_target_on_syscall(2));
}

CASE(syscall_next_to_a_syscall)
{
    number("second call takes the first's result as its number", adjacent_syscalls());
}

CASE(tiny_function)
{
    truth("syscall and ret only", call_three_bytes_long(SYS_getpid) == getpid());
    number("its neighbour is intact", neighbour_function());
}

CASE(bytes_that_look_like_a_syscall)
{
    printf("immediates %lx\n", pattern_in_immediates());
    bytes("data between functions", pattern_in_data_of_text, 8);
}

CASE(syscall_with_a_prefix)
{
    truth("result", syscall_with_prefix(SYS_getpid) == getpid());
}

CASE(neighbours_that_depend_on_their_place)
{
    truth("rip-relative before and behind", relative_neighbours() == getpid() - 1000000);
    truth("call behind", call_right_after() == getpid() + 2);
    truth("push and pop around", stack_around() == getpid() + 77);
}

CASE(flags_used_behind_a_syscall)
{
    truth("not zero, not negative", branch_right_after(SYS_getpid, 0) == getpid());
    number("negative number", branch_right_after(-5, 0));
    number("zero number", branch_right_after(SYS_read, -1));
}

CASE(number_made_by_xor)
{
    char data[4];
    int fd = MUST(open("/dev/zero", O_RDONLY));
    number("read", zeroed_number(fd, data, 4));
    number("read of bad", zeroed_number(-1, data, 4));
}

CASE(libc_syscall_function)
{
    truth("getpid", syscall(SYS_getpid) == getpid());
    show("six arguments", syscall(SYS_mmap, 0, 0, 0, 0, 0, 0));
    show("unknown", syscall(5000, 1, 2, 3, 4, 5, 6));
}

CASE(time_stamp_counter)
{
    unsigned auxiliary;
    int backwards = 0;
    uint64_t last = __rdtsc();
    for (int i = 0; i < 1000; i++) {
        uint64_t now = i % 2 ? __rdtsc() : __rdtscp(&auxiliary);
        backwards += now < last;
        last = now;
    }
    number("backwards", backwards);
    sleep_ms(10);
    truth("moves while sleeping", __rdtsc() > last);
    truth("fences around it", (_mm_lfence(), __rdtsc() >= last));
}

CASE(processor_identification)
{
    unsigned a, b, c, d, again_a, again_b, again_c, again_d, max;
    char vendor[13] = "";
    __cpuid(0, max, b, c, d);
    truth("highest leaf at least 1", max >= 1);
    memcpy(vendor, &b, 4);
    memcpy(vendor + 4, &d, 4);
    memcpy(vendor + 8, &c, 4);
    number("length of vendor", strlen(vendor));
    __cpuid(1, a, b, c, d);
    truth("fpu, tsc, cx8, cmov", d & 1 && d >> 4 & 1 && d >> 8 & 1 && d >> 15 & 1);
    truth("sse, sse2", d >> 25 & 1 && d >> 26 & 1);
    __cpuid(1, again_a, again_b, again_c, again_d);
    truth("the same twice", a == again_a && c == again_c && d == again_d);
    __cpuid(0x80000000, max, b, c, d);
    truth("extended leaves", max >= 0x80000001);
    __cpuid(0x80000001, a, b, c, d);
    truth("long mode", d >> 29 & 1);
}

CASE(registers_over_cpuid)
{
    uint64_t r8 = 0, r15 = 0;
    __asm__ volatile("mov $0x1111, %%r8\nmov $0x2222, %%r15\nxor %%eax, %%eax\nxor %%ecx, %%ecx\ncpuid\n"
                     "mov %%r8, %0\nmov %%r15, %1\n"
                     : "=&r"(r8), "=&r"(r15)::"rax", "rbx", "rcx", "rdx", "r8", "r15");
    printf("r8 %lx r15 %lx\n", r8, r15);
}

__attribute__((target("rdrnd"))) static int random_from_processor(uint64_t *value)
{
    unsigned long long drawn = 0;

    for (int i = 0; i < 100; i++)
        if (_rdrand64_step(&drawn)) {
            *value = drawn;
            return 1;
        }
    return 0;
}

CASE(random_instruction)
{
    unsigned a, b, c, d;
    uint64_t first = 0, second = 0;
    __cpuid(1, a, b, c, d);
    int supported = c >> 30 & 1;
    truth("succeeds", !supported || (random_from_processor(&first) && random_from_processor(&second)));
    truth("two values differ", !supported || first != second);
}

__attribute__((target("rdseed"))) static int seed_from_processor(uint64_t *value)
{
    unsigned long long drawn = 0;

    for (int i = 0; i < 10000; i++)
        if (_rdseed64_step(&drawn)) {
            *value = drawn;
            return 1;
        }
    return 0;
}

CASE(seed_instruction)
{
    unsigned a, b, c, d;
    uint64_t first = 0, second = 0;
    int supported = __get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 18 & 1;
    truth("succeeds", !supported || (seed_from_processor(&first) && seed_from_processor(&second)));
    truth("two values differ", !supported || first != second);
}

CASE(random_instruction_sets_flags)
{
    unsigned a, b, c, d;
    int carry = 1;
    __cpuid(1, a, b, c, d);
    uint64_t value = 0;
    if (c >> 30 & 1) {
        carry = 0;
        for (int i = 0; i < 100 && !carry; i++)
            __asm__ volatile("rdrand %%ecx\nsetc %b0" : "=q"(carry), "=c"(value)::"cc");
    }
    truth("carry", carry & 1);
    truth("upper half is zero", value >> 32 == 0);
}

__attribute__((target("fsgsbase"))) static int fs_base_points_at_itself(void)
{
    void *self;

    __asm__("mov %%fs:0, %0" : "=r"(self));
    return _readfsbase_u64() == (uint64_t)self;
}

CASE(fs_base_instruction)
{
    /* Bit 1 of AT_HWCAP2 says that the kernel allows it. */
    truth("points at itself", !(getauxval(AT_HWCAP2) & 2) || fs_base_points_at_itself());
}

CASE(fs_base_after_blocking)
{
    void *before, *after;
    __asm__ volatile("mov %%fs:0, %0" : "=r"(before));
    sleep_ms(2);
    __asm__ volatile("mov %%fs:0, %0" : "=r"(after));
    truth("the same", before == after);
}
