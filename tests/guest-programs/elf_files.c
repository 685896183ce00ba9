/* ELF files that no linker makes: what execve(2) makes of their segments. */
#include "process.h"

#include <elf.h>
#include <stddef.h>

#define PAGE 4096ul
#define BASE 0x40000ul

/* exit(7); a load from the address behind the code, and exit with that. */
static const unsigned char exits[] = { 0xb8, 0x3c, 0, 0, 0, 0xbf, 7, 0, 0, 0, 0x0f, 0x05 };
static const unsigned char exits_with_byte[] = { 0xb8, 0x3c, 0, 0, 0, 0x0f, 0xb6, 0x3d, 0xf4, 0x0f, 0, 0, 0x0f, 0x05 };

struct file {
    const char *name;
    int type;
    unsigned long entry;
    Elf64_Phdr segments[3];
};

#define STACK { .p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W }
#define LOAD(flags, offset, address, in_file, in_memory)                                                              \
    {                                                                                                                  \
        .p_type = PT_LOAD, .p_flags = (flags), .p_offset = (offset), .p_vaddr = (address), .p_filesz = (in_file),      \
        .p_memsz = (in_memory)                                                                                         \
    }
#define CODE LOAD(PF_R | PF_X, PAGE, BASE, 16, 16)

/* A page of headers, a page of code, a page of 'x'. */
static void make(const struct file *file, const unsigned char *code, size_t bytes)
{
    static unsigned char content[3 * PAGE];
    Elf64_Ehdr head = { .e_type = file->type, .e_machine = EM_X86_64, .e_version = 1, .e_entry = file->entry };

    memcpy(head.e_ident, ELFMAG "\2\1\1", 7);
    head.e_phoff = head.e_ehsize = sizeof head;
    head.e_phentsize = sizeof(Elf64_Phdr);
    head.e_phnum = COUNT_OF(file->segments);
    memset(content, 0, 2 * PAGE);
    memset(content + 2 * PAGE, 'x', PAGE);
    memcpy(content, &head, sizeof head);
    memcpy(content + sizeof head, file->segments, sizeof file->segments);
    memcpy(content + PAGE, code, bytes);
    int fd = MUST(open(file->name, O_WRONLY | O_CREAT | O_TRUNC, 0755));
    MUST(write(fd, content, sizeof content));
    MUST(close(fd));
}

static int execute(void *name)
{
    execl(name, name, (char *)NULL);
    printf("execve: %s\n", errno_name(errno));
    return 99;
}

static void run_all(const struct file *files, size_t count, const unsigned char *code, size_t bytes)
{
    scratch();
    for (size_t i = 0; i < count; i++) {
        make(&files[i], code, bytes);
        in_child(files[i].name, execute, (void *)files[i].name);
    }
}

CASE(segments_in_any_order)
{
    static const struct file files[] = {
        { "plain", ET_EXEC, BASE, { STACK, CODE } },
        { "in order", ET_EXEC, BASE, { STACK, CODE, LOAD(PF_R | PF_W, 2 * PAGE, BASE + PAGE, 16, 16) } },
        { "not in order", ET_EXEC, BASE, { STACK, LOAD(PF_R | PF_W, 2 * PAGE, BASE + PAGE, 16, 16), CODE } },
        { "at any place", ET_DYN, 0, { STACK, LOAD(PF_R | PF_X, PAGE, 0, 16, 16) } },
        { "at any place, not from 0", ET_DYN, BASE, { STACK, CODE } },
        { "at any place, not in order", ET_DYN, BASE, { STACK, LOAD(PF_R | PF_W, 2 * PAGE, BASE + PAGE, 16, 16), CODE } },
        { "writable code", ET_EXEC, BASE, { STACK, LOAD(PF_R | PF_W | PF_X, PAGE, BASE, 16, 0x20000) } },
    };

    run_all(files, COUNT_OF(files), exits, sizeof exits);
}

/* Of two at one address the later one counts. */
CASE(segments_over_each_other)
{
    static const struct file files[] = {
        { "apart", ET_EXEC, BASE, { STACK, CODE, LOAD(PF_R, 2 * PAGE, BASE + PAGE, 16, 16) } },
        { "the second over the first", ET_EXEC, BASE,
          { STACK, LOAD(PF_R | PF_X, PAGE, BASE, 2 * PAGE, 2 * PAGE), LOAD(PF_R, 2 * PAGE, BASE + PAGE, 16, 16) } },
        { "the same twice", ET_EXEC, BASE, { LOAD(PF_R, 2 * PAGE, BASE + PAGE, 16, 16), CODE, CODE } },
        { "zeroes", ET_EXEC, BASE, { STACK, CODE, LOAD(PF_R | PF_W, 0, BASE + PAGE, 0, PAGE) } },
    };

    run_all(files, COUNT_OF(files), exits_with_byte, sizeof exits_with_byte);
}

/* What is wrong with segments is found when the old program is gone. */
CASE(segments_that_cannot_be)
{
    static const struct file files[] = {
        { "more bytes than memory", ET_EXEC, BASE, { STACK, LOAD(PF_R | PF_X, PAGE, BASE, 16, 4) } },
        { "misaligned", ET_EXEC, BASE, { STACK, LOAD(PF_R | PF_X, PAGE + 2, BASE, 16, 16) } },
        { "none", ET_EXEC, BASE, { STACK, STACK, STACK } },
        { "no code at the entry", ET_EXEC, BASE + 16 * PAGE, { STACK, CODE } },
        { "zeroes for code", ET_EXEC, BASE, { STACK, LOAD(PF_R | PF_X, PAGE, BASE, 0, PAGE) } },
    };

    run_all(files, COUNT_OF(files), exits, sizeof exits);
}

#define INTERPRETER(offset, bytes) { .p_type = PT_INTERP, .p_flags = PF_R, .p_offset = (offset), .p_filesz = (bytes), .p_memsz = (bytes) }

CASE(interpreters_that_cannot_be)
{
    static const struct file files[] = {
        { "a name without an end", ET_EXEC, BASE, { INTERPRETER(2 * PAGE, 16), CODE } },
        { "no name", ET_EXEC, BASE, { INTERPRETER(PAGE + 100, 1), CODE } },
        { "an empty name", ET_EXEC, BASE, { INTERPRETER(PAGE + 100, 0), CODE } },
    };

    run_all(files, COUNT_OF(files), exits, sizeof exits);
}

CASE(types_that_cannot_be)
{
    static const struct file files[] = {
        { "relocatable", ET_REL, BASE, { STACK, CODE } },
        { "core", ET_CORE, BASE, { STACK, CODE } },
    };

    run_all(files, COUNT_OF(files), exits, sizeof exits);
}
