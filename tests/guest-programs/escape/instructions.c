/*
 * Executes instructions that could show the real machine, each by itself, and prints what it answered or which signal it raised.
 *
 *   instructions file NAME...         as the compiler put them into this file
 *   instructions generated NAME...    copied into memory that was made executable
 *   instructions shared NAME...       the same in memory that could be shared with others
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

typedef uint64_t (*instruction)(void *memory, uint64_t operand);

/*
 * A function of one instruction: rdi is memory, rsi an operand, rax the answer. rbx is saved in r9. The same bytes lie among the
 * constants, where nobody rewrites them.
 */
#define INSTRUCTION(name, code)                                                                                       \
    asm(".pushsection .text\n.balign 16\n.type at_" #name ", @function\nat_" #name ":\n" code                         \
        "\nret\n.size at_" #name ", .-at_" #name "\n.popsection\n"                                                    \
        ".pushsection .rodata\nfrom_" #name ":\n" code "\nret\nto_" #name ":\n.popsection");                         \
    extern const unsigned char at_##name[], from_##name[], to_##name[];

INSTRUCTION(cpuid_vendor, "mov %rbx, %r9; xor %eax, %eax; xor %ecx, %ecx; cpuid; mov %ebx, %eax; mov %r9, %rbx")
INSTRUCTION(cpuid_brand, "mov %rbx, %r9; mov $0x80000002, %eax; cpuid; mov %ebx, %eax; mov %r9, %rbx")
INSTRUCTION(cpuid_apic, "mov %rbx, %r9; mov $1, %eax; cpuid; mov %ebx, %eax; shr $24, %eax; mov %r9, %rbx")
INSTRUCTION(xgetbv, "xor %ecx, %ecx; xgetbv; shl $32, %rdx; or %rdx, %rax")
INSTRUCTION(rdtsc, "rdtsc; shl $32, %rdx; or %rdx, %rax")
INSTRUCTION(rdtscp, "rdtscp; mov %ecx, %eax")
INSTRUCTION(rdpid, "xor %eax, %eax; rdpid %rax")
INSTRUCTION(lsl, "mov $-1, %eax; lsl %esi, %eax")
INSTRUCTION(lsl_memory, "mov $-1, %eax; mov %si, (%rdi); lsl (%rdi), %eax")
INSTRUCTION(lsl_flag, "xor %eax, %eax; lsl %esi, %ecx; setz %al")
INSTRUCTION(sgdt, "sgdt (%rdi); mov 2(%rdi), %rax")
INSTRUCTION(sidt, "sidt (%rdi); mov 2(%rdi), %rax")
INSTRUCTION(sldt, "sldt %rax")
INSTRUCTION(sldt_memory, "movl $-1, (%rdi); sldt (%rdi); mov (%rdi), %eax")
INSTRUCTION(str, "str %rax")
INSTRUCTION(smsw, "smsw %rax")
INSTRUCTION(smsw_word, "mov $-1, %rax; smsw %ax")
INSTRUCTION(rdgsbase, "rdgsbase %rax")
INSTRUCTION(rdfsbase, "rdfsbase %rax; sub %fs:0, %rax")
INSTRUCTION(wrfsbase, "rdfsbase %rcx; mov $0x1234, %eax; wrfsbase %rax; rdfsbase %rax; wrfsbase %rcx")
INSTRUCTION(wrgsbase, "wrgsbase %rdi; xor %eax, %eax")
INSTRUCTION(mov_gs, "mov %esi, %gs; xor %eax, %eax")
INSTRUCTION(mov_gs_memory, "mov %rsi, (%rdi); mov (%rdi), %gs; xor %eax, %eax")
INSTRUCTION(pop_gs, "push %rsi; pop %gs; xor %eax, %eax")
INSTRUCTION(lgs, "movl $7, (%rdi); mov %esi, 4(%rdi); lgs (%rdi), %eax")
INSTRUCTION(mov_fs, "rdfsbase %rcx; mov %esi, %fs; rdfsbase %rax; wrfsbase %rcx")
INSTRUCTION(swapgs, "swapgs; xor %eax, %eax")
INSTRUCTION(rdpkru, "xor %ecx, %ecx; rdpkru")
INSTRUCTION(wrpkru, "xor %eax, %eax; xor %ecx, %ecx; xor %edx, %edx; wrpkru")
INSTRUCTION(rdpmc, "xor %ecx, %ecx; rdpmc")
INSTRUCTION(serialize, ".byte 0x0f, 0x01, 0xe8; xor %eax, %eax")
INSTRUCTION(umonitor, ".byte 0xf3, 0x0f, 0xae, 0xf7; xor %eax, %eax")
INSTRUCTION(umwait, "xor %eax, %eax; xor %edx, %edx; .byte 0xf2, 0x0f, 0xae, 0xf6; setc %al")
INSTRUCTION(tpause, "xor %eax, %eax; xor %edx, %edx; .byte 0x66, 0x0f, 0xae, 0xf6; setc %al")
INSTRUCTION(monitorx, "mov %rdi, %rax; xor %ecx, %ecx; xor %edx, %edx; .byte 0x0f, 0x01, 0xfa")
INSTRUCTION(rdpru, "xor %ecx, %ecx; .byte 0x0f, 0x01, 0xfd")
INSTRUCTION(clzero, "mov %rdi, %rax; .byte 0x0f, 0x01, 0xfc; xor %eax, %eax")
INSTRUCTION(xbegin, "mov $7, %eax; xbegin 1f; xor %eax, %eax; xend; 1:")
INSTRUCTION(xtest, "xor %eax, %eax; xtest; setz %al")
INSTRUCTION(rdrand, "rdrand %rax")
INSTRUCTION(rdseed, "rdseed %rax")
INSTRUCTION(int_80, "mov $20, %eax; int $0x80")
INSTRUCTION(sysenter, "mov $20, %eax; sysenter; xor %eax, %eax")
INSTRUCTION(in, "mov $0x71, %edx; in %dx, %al")
INSTRUCTION(out, "mov $0x80, %edx; out %al, %dx")
INSTRUCTION(cli, "cli")
INSTRUCTION(hlt, "hlt")
INSTRUCTION(rdmsr, "mov $0x10, %ecx; rdmsr")
INSTRUCTION(mov_cr0, "mov %cr0, %rax")
INSTRUCTION(mov_dr7, "mov %dr7, %rax")
INSTRUCTION(invd, "invd")
INSTRUCTION(vmcall, "mov $1, %eax; .byte 0x0f, 0x01, 0xc1")
INSTRUCTION(vmmcall, "mov $1, %eax; .byte 0x0f, 0x01, 0xd9")
INSTRUCTION(iretq_kernel, "push $0; push $0; push $0x202; push $0x10; push $0; iretq")
INSTRUCTION(far_return, "push $0x23; push $0x1000; lretq")
INSTRUCTION(far_call_gate, "push $0x10; push $0x1000; lretq")
INSTRUCTION(syscall, "mov $39, %eax; push %rcx; push %r11; syscall; pop %r11; pop %rcx")
INSTRUCTION(gs_read, "mov %gs:0, %rax")
INSTRUCTION(gs_read_short, "mov %gs:(%edi), %eax")
INSTRUCTION(vsyscall_time, "mov $0xffffffffff600400, %rax; xor %edi, %edi; sub $8, %rsp; call *%rax; add $8, %rsp")
INSTRUCTION(vsyscall_gettimeofday,
            "mov $0xffffffffff600000, %rax; push %rdi; xor %esi, %esi; call *%rax; pop %rdi; mov (%rdi), %rax")
INSTRUCTION(vsyscall_getcpu,
            "movq $7, (%rdi); mov $0xffffffffff600800, %rax; push %rdi; xor %esi, %esi; call *%rax; pop %rdi; mov (%rdi), %eax")
INSTRUCTION(vsyscall_jump, "mov $0xffffffffff600400, %rax; xor %edi, %edi; jmp *%rax")
INSTRUCTION(vsyscall_bad_pointer, "mov $8, %edi; mov $0xffffffffff600400, %rax; sub $8, %rsp; call *%rax; add $8, %rsp")
INSTRUCTION(vsyscall_between, "mov $0xffffffffff600401, %rax; sub $8, %rsp; call *%rax; add $8, %rsp")
INSTRUCTION(vsyscall_read, "mov $0xffffffffff600400, %rax; mov (%rax), %rax")

#define ALSO(text, name, operand) { text, at_##name, from_##name, to_##name, operand }
#define ENTRY(name, operand) ALSO(#name, name, operand)
static const struct {
    const char *name;
    const unsigned char *at, *from, *to;
    uint64_t operand;
} all[] = {
    ENTRY(cpuid_vendor, 0), ENTRY(cpuid_brand, 0), ENTRY(cpuid_apic, 0), ENTRY(xgetbv, 0), ENTRY(rdtsc, 0), ENTRY(rdtscp, 0),
    ENTRY(rdpid, 0), ENTRY(lsl, 0x7b), ALSO("lsl_code", lsl, 0x33), ALSO("lsl_kernel", lsl, 0x10),
    ENTRY(lsl_memory, 0x7b), ENTRY(lsl_flag, 0x7b), ALSO("lsl_flag_null", lsl_flag, 0), ENTRY(sgdt, 0),
    ENTRY(sidt, 0), ENTRY(sldt, 0), ENTRY(sldt_memory, 0), ENTRY(str, 0), ENTRY(smsw, 0), ENTRY(smsw_word, 0),
    ENTRY(rdgsbase, 0), ENTRY(rdfsbase, 0), ENTRY(wrfsbase, 0), ENTRY(wrgsbase, 0), ENTRY(mov_gs, 0),
    ALSO("mov_gs_flat", mov_gs, 0x2b), ALSO("mov_gs_bad", mov_gs, 0x1234), ENTRY(mov_gs_memory, 0),
    ENTRY(pop_gs, 0), ALSO("pop_gs_bad", pop_gs, 0x1234), ENTRY(lgs, 0), ALSO("lgs_bad", lgs, 0x1234),
    ENTRY(mov_fs, 0), ENTRY(swapgs, 0), ENTRY(rdpkru, 0), ENTRY(wrpkru, 0), ENTRY(rdpmc, 0), ENTRY(serialize, 0),
    ENTRY(umonitor, 0), ENTRY(umwait, 0), ENTRY(tpause, 0), ENTRY(monitorx, 0), ENTRY(rdpru, 0), ENTRY(clzero, 0),
    ENTRY(xbegin, 0), ENTRY(xtest, 0), ENTRY(rdrand, 0), ENTRY(rdseed, 0), ENTRY(int_80, 0), ENTRY(sysenter, 0),
    ENTRY(in, 0), ENTRY(out, 0), ENTRY(cli, 0), ENTRY(hlt, 0), ENTRY(rdmsr, 0), ENTRY(mov_cr0, 0), ENTRY(mov_dr7, 0),
    ENTRY(invd, 0), ENTRY(vmcall, 0), ENTRY(vmmcall, 0), ENTRY(iretq_kernel, 0), ENTRY(far_return, 0), ENTRY(far_call_gate, 0),
    ENTRY(syscall, 0), ENTRY(gs_read, 0), ENTRY(gs_read_short, 0), ENTRY(vsyscall_time, 0), ENTRY(vsyscall_gettimeofday, 0),
    ENTRY(vsyscall_getcpu, 0), ENTRY(vsyscall_jump, 0), ENTRY(vsyscall_bad_pointer, 0), ENTRY(vsyscall_between, 0),
    ENTRY(vsyscall_read, 0),
};

static sigjmp_buf back;

static void caught(int number, siginfo_t *info, void *context)
{
    siglongjmp(back, number);
}

static void attempt(const char *mode, const char *name)
{
    static unsigned char scratch[64] __attribute__((aligned(64)));
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i].name, name))
            continue;
        instruction code = (instruction)all[i].at;
        if (strcmp(mode, "file")) {
            int sharing = strcmp(mode, "shared") ? MAP_PRIVATE : MAP_SHARED;
            void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
            memcpy(memory, all[i].from, all[i].to - all[i].from);
            mprotect(memory, 4096, PROT_READ | PROT_EXEC);
            code = (instruction)memory;
        }
        int number = sigsetjmp(back, 1);
        if (number == 0)
            printf("%s = %#llx\n", name, (unsigned long long)code(scratch, all[i].operand));
        else
            printf("%s = SIG%s\n", name, sigabbrev_np(number));
        fflush(stdout);
        return;
    }
    printf("%s is not known\n", name);
}

int main(int argc, char **argv)
{
    static const int signals[] = { SIGSEGV, SIGILL, SIGBUS, SIGTRAP, SIGFPE, SIGSYS };
    static char stack[65536];
    struct sigaction action = { .sa_sigaction = caught, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };
    stack_t other = { .ss_sp = stack, .ss_size = sizeof stack };

    sigaltstack(&other, NULL);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaction(signals[i], &action, NULL);
    if (argc == 2)
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
            attempt(argv[1], all[i].name);
    for (int i = 2; i < argc; i++)
        attempt(argv[1], argv[i]);
    return 0;
}
