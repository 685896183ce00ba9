/*
 * Enters code at every instruction around a special one: by computed jumps, tables of addresses, and a jump back from a part of a
 * function that lies elsewhere. Prints what comes of it, the same wherever it runs.
 */
#include <stdio.h>

/* System call 1000 does not exist: -38. -1 is no descriptor: read answers -9. */
asm(".text\n"
    ".macro part name\n .globl \\name\n \\name:\n.endm\n"
    ".macro begin name\n .balign 16\n .type \\name, @function\n part \\name\n.endm\n"
    ".macro end name\n .size \\name, . - \\name\n.endm\n"
    "begin long_before\n  mov $1000, %eax\n part long_call\n  syscall\n part long_after\n  ret\n  end long_before\n"
    "begin short_before\n  xor %eax, %eax\n part short_call\n  syscall\n part short_after\n  cmp $-4095, %rax\n"
    "  part short_branch\n  jae 1f\n  mov $1, %eax\n 1: ret\n  end short_before\n"
    "begin moved_before\n  mov %rdi, %rax\n part moved_call\n  syscall\n part moved_after\n  neg %rax\n part moved_end\n"
    "  lea 5(%rax), %rax\n  ret\n  end moved_before\n"
    "begin bare_call\n  syscall\n part bare_after\n  neg %rax\n part bare_end\n  add $5, %eax\n  ret\n  end bare_call\n"
    "begin pushed_before\n  push %rbx\n part pushed_next\n  xor %eax, %eax\n part pushed_call\n  syscall\n"
    "  part pushed_after\n  nop\n part pushed_pop\n  pop %rbx\n  ret\n  end pushed_before\n"
    "begin loop_before\n  push %rbx\n  mov $3, %ebx\n  mov $1000, %eax\n part loop_call\n  syscall\n  dec %ebx\n"
    "  mov $1000, %eax\n  jne loop_call\n  mov $-7, %rax\n  pop %rbx\n  ret\n  end loop_before\n"
    "begin twice\n  mov $1000, %eax\n  syscall\n part twice_between\n  mov $1000, %eax\n part twice_call\n  syscall\n"
    "  part twice_after\n  ret\n  end twice\n"
    "begin stamp\n  rdtsc\n part stamp_after\n  mov $3, %eax\n part stamp_end\n  cltq\n  ret\n  end stamp\n"
    "begin identify\n  push %rbx\n  xor %eax, %eax\n part identify_call\n  cpuid\n part identify_after\n  mov $4, %eax\n"
    "  pop %rbx\n  ret\n  end identify\n"
    /* Data behind a jump that looks like the beginning of an instruction. */
    "begin data_behind\n  push %rbx\n  mov $1000, %eax\n  jmp 1f\n  .byte 0xa9\n 1: syscall\n  syscall\n  xor %eax, %eax\n"
    "  xor %ecx, %ecx\n  cpuid\n  xor %edx, %edx\n  pop %rbx\n  mov $9, %eax\n  ret\n  end data_behind\n"
    "begin data_more\n  mov $1000, %eax\n  cmp $-1, %rdi\n  je 1f\n  ret\n  .byte 217, 94, 101, 119, 58, 66\n"
    " 1: xchg %rbx, %r8\n  syscall\n  xchg %rbx, %r8\n  ret\n  end data_more\n"
    ".section .text.unlikely, \"ax\", @progbits\n"
    "begin cold\n  mov $1000, %eax\n  jmp long_call\n  end cold\n"
    "begin cold_after\n  mov $6, %eax\n  jmp bare_after\n  end cold_after\n"
    ".text\n");

/* What is in rax matters at some of these. Places behind a push are entered with something on the stack. */
#define PLACES(place)                                                                                                 \
    place(long_before, 0) place(long_call, 0) place(long_after, 0) place(short_before, 0) place(short_call, 0)        \
    place(short_after, 0) place(short_branch, 0) place(moved_before, 0) place(moved_call, 0) place(moved_after, 0)    \
    place(moved_end, 0) place(bare_call, 0) place(bare_after, 0) place(bare_end, 0) place(pushed_before, 0)           \
    place(pushed_next, 1) place(pushed_call, 1) place(pushed_after, 1) place(pushed_pop, 1) place(loop_before, 0)     \
    place(twice, 0) place(twice_between, 0) place(twice_call, 0) place(twice_after, 0) place(stamp, 0)                \
    place(stamp_after, 0) place(stamp_end, 0) place(identify, 0) place(identify_call, 1) place(identify_after, 1)     \
    place(cold, 0) place(cold_after, 0) place(data_behind, 0) place(data_more, 0)

#define DECLARE(name, pushed) extern const char name[];
PLACES(DECLARE)

#define LIST(name, pushed) { #name, name, pushed },
static const struct {
    const char *name;
    const void *place;
    int pushed;
} places[] = { PLACES(LIST) };

static long enter(const void *place, long number, int pushed)
{
    long result;
    if (pushed)
        asm volatile("push %%rbx\n push %%rbp\n lea 1f(%%rip), %%rcx\n mov %%rsp, %%rbp\n push %%rcx\n push %%rbx\n jmp *%2\n 1:\n"
                     "mov %%rbp, %%rsp\n pop %%rbp\n pop %%rbx"
                     : "=a"(result) : "0"(number), "r"(place), "D"(-1L), "S"(0), "d"(0) : "rcx", "r11", "memory", "cc");
    else
        asm volatile("push %%rbx\n push %%rbp\n sub $8, %%rsp\n call *%2\n add $8, %%rsp\n pop %%rbp\n pop %%rbx"
                     : "=a"(result) : "0"(number), "r"(place), "D"(-1L), "S"(0), "d"(0) : "rcx", "r11", "memory", "cc");
    return result;
}

int main(void)
{
    for (unsigned i = 0; i < sizeof places / sizeof places[0]; i++)
        for (int round = 0; round < 3; round++)
            printf("%s = %ld\n", places[i].name, enter(places[i].place, 1000 + round, places[i].pushed));
    return 0;
}
