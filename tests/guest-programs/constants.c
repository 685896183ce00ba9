/*
 * Constants among code that read like instructions, which a guest must find as
 * they are in its file: code that is compiled ahead of time (Mono's) keeps one
 * behind each jump of its linkage table.
 */
#include "case.h"

#define ENTRY(constant) "  jmp *nowhere(%rip)\n  .long " #constant "\n"

/* cpuid; a string move by GS; a load of the GS register; rdtsc; sldt; xgetbv, syscall, rdrand and others that hide where the next jump begins. */
#define ENTRIES                                                                                                        \
    ENTRY(0x0002a20f) ENTRY(0x0002a565) ENTRY(0x0002e88e) ENTRY(0x0004310f) ENTRY(0x0000000f) ENTRY(0x00d0010f)        \
    ENTRY(0x00000f05) ENTRY(0xf0c70f00) ENTRY(0x0fa20fa2) ENTRY(0x65650f66) ENTRY(0x310f0048) ENTRY(0x00000001)

asm(".text\n.type table, @function\ntable:\n" ENTRIES ".size table, . - table\n"
    ".type lone, @function\nlone:\n" ENTRY(0x0003a20f) ".size lone, . - lone\n"
    ".data\nnowhere: .quad 0\n.text\n");

extern const unsigned char table[], lone[];

CASE(behind_the_jumps_of_a_table)
{
    for (int i = 0; i < 12; i++) {
        uint32_t constant;
        memcpy(&constant, table + 10 * i + 6, sizeof(constant));
        printf("%08x\n", constant);
    }
}

CASE(behind_a_jump_alone)
{
    uint32_t constant;
    memcpy(&constant, lone + 6, sizeof(constant));
    printf("%08x\n", constant);
}
