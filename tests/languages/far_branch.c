/* For a program at fixed addresses (-no-pie, stripped) with 4 MiB of code that no symbol and no unwind table speaks of, as Haskell's are: a
   branch leads 0x400000, the address at which such programs are linked, behind the middle of an instruction. Who takes the branch's target for an
   absolute address finds that middle, `65 00`, and takes it for an access by GS. */
#include <stdio.h>

__asm__(".text\n"
        "middle: mov $0x1680561, %ebx\n add $8, %rbp\n .byte 0xff, 0x65, 0x00\n" /* jmp *0(%rbp) */
        " mov $0x15f0d48, %ebx\n .byte 0x41, 0xff, 0x65, 0xf8\n"                 /* jmp *-8(%r13) */
        " .org middle + 3 + 0x400000, 0xcc\n"
        "behind: mov $7, %eax\n ret\n"
        ".globl far\n.type far, @function\nfar: cmp $5, %edi\n jb behind\n mov $8, %eax\n ret\n.size far, . - far\n"
        ".globl near\n.type near, @function\nnear: push %rbp\n push %rbx\n lea frame - 8(%rip), %rbp\n jmp middle\n"
        "back: mov %ebx, %eax\n pop %rbx\n pop %rbp\n ret\n.size near, . - near\n"
        ".data\n.balign 8\nframe: .quad back\n.text\n");

int far(unsigned), near(void);

int main(int count, char **words)
{
    (void)words;
    printf("%d\n%x\n", far((unsigned)count), (unsigned)near());
    return 0;
}
