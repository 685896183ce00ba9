/*
 * Writes code by one mapping of a memfd and executes it by another, as compilers at run time do: WAY is one of those below. Prints what the
 * code makes of its arguments, natively the same.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 4

/* mov $0x0010030f,%eax; add $0x0103650f,%eax; xor $0x65034865,%eax; add %edi,%eax; ret */
static const unsigned char constants[] = { 0xb8, 0x0f, 0x03, 0x10, 0x00, 0x05, 0x0f, 0x65, 0x03, 0x01, 0x35, 0x65,
                                           0x48, 0x03, 0x65, 0x01, 0xf8, 0xc3 };
/* Numbers of lines, as Erlang's compiler has them beside its code: 0x30f and 0x365 are like `lsl` and an access relative to GS. */
static const unsigned char lines[] = {
    0xe6, 0x02, 0xed, 0x02, 0xee, 0x02, 0xf0, 0x02, 0xf7, 0x02, 0xfc, 0x02, 0xfd, 0x02, 0x04, 0x03, 0x0f, 0x03, 0x10, 0x03,
    0x12, 0x03, 0x15, 0x03, 0x1f, 0x03, 0x22, 0x03, 0x26, 0x03, 0x24, 0x03, 0x2e, 0x03, 0x2a, 0x03, 0x38, 0x03, 0x2e, 0x03,
    0x56, 0x03, 0x57, 0x03, 0x58, 0x03, 0x40, 0x03, 0x34, 0x03, 0x2b, 0x03, 0x4e, 0x03, 0x45, 0x03, 0x5a, 0x03, 0x5b, 0x03,
    0x5c, 0x03, 0x61, 0x03, 0x65, 0x03, 0x5c, 0x03, 0x68, 0x03, 0x6c, 0x03, 0x6d, 0x03, 0x76, 0x03, 0x81, 0x03, 0x84, 0x03,
    0x85, 0x03, 0x89, 0x03, 0x99, 0x03, 0x9a, 0x03,
};
/* mov %edi,%eax; xor %ecx,%ecx; lsl %ecx,%eax, which leaves it as it is; ret */
static const unsigned char special[] = { 0x89, 0xf8, 0x31, 0xc9, 0x0f, 0x03, 0xc1, 0xc3 };
/* mov %edi,%eax; xor %ecx,%ecx; then, as a table: add $3,%al...; lsl %ecx,%eax; add %eax,%eax...; ret */
static const unsigned char table[] = {
    0x89, 0xf8, 0x31, 0xc9, 0x04, 0x03, 0x04, 0x03, 0x04, 0x03, 0x04, 0x03, 0x04, 0x03, 0x04, 0x03, 0x04, 0x03, 0x04,
    0x03, 0x0f, 0x03, 0xc1, 0x03, 0xc0, 0x03, 0xc0, 0x03, 0xc0, 0x03, 0xc0, 0x03, 0xc0, 0x03, 0xc0, 0x03, 0xc0, 0xc3,
};
/* call +0x7b, over itself; ret. What is called begins 0x80 bytes behind it. */
static const unsigned char call[] = { 0xe8, 0x7b, 0x00, 0x00, 0x00, 0xc3 };

static void carry_out(const unsigned char *at)
{
    printf("%#x\n", ((int (*)(int))at)(0x1000));
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    int file = memfd_create("code", 0);
    unsigned char *written, *code;

    if (ftruncate(file, PAGES * PAGE))
        return 1;
    written = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    code = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
    if (written == MAP_FAILED || code == MAP_FAILED)
        return 1;
    memcpy(written, constants, sizeof constants);
    carry_out(code);
    if (!strcmp(way, "data")) {
        /* Beside what is executed, and code that is not. */
        memcpy(written + 0x80, lines, sizeof lines);
        memcpy(written + PAGE, special, sizeof special);
    } else if (!strcmp(way, "later")) {
        memcpy(written + 0x80, special, sizeof special);
        carry_out(code + 0x80);
    } else if (!strcmp(way, "table")) {
        memcpy(written + PAGE, table, sizeof table);
        carry_out(code + PAGE);
    } else if (!strcmp(way, "called")) {
        memcpy(written + PAGE, call, sizeof call);
        memcpy(written + PAGE + 0x80, table, sizeof table);
        carry_out(code + PAGE);
    } else if (!strcmp(way, "moved") || !strcmp(way, "grown") || !strcmp(way, "doubled")) {
        /* Some of it was executed; where it lies afterwards, it can be. */
        unsigned char *other = mmap(NULL, 2 * PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        size_t old = *way == 'd' ? 0 : PAGES * PAGE, size = *way == 'g' ? 2 * PAGES * PAGE : PAGES * PAGE;

        if (ftruncate(file, 2 * PAGES * PAGE))
            return 1;
        memcpy(written + (PAGES - 1) * PAGE, constants, sizeof constants);
        carry_out(code + (PAGES - 1) * PAGE);
        other = mremap(code, old, size, MREMAP_MAYMOVE | (*way == 'g' ? 0 : MREMAP_FIXED), other);
        if (other == MAP_FAILED)
            return 1;
        if (pwrite(file, constants, sizeof constants, size - PAGE) != sizeof constants)
            return 1;
        carry_out(other);
        carry_out(other + size - PAGE);
        if (*way == 'd')
            carry_out(code);
    }
    return 0;
}
