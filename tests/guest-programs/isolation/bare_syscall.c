/*
 * Makes system calls through a bare `syscall` instruction in memory that it
 * wrote and made executable itself, where no rewriter has seen it. Prints what
 * the calls answer: the simulated kernel's answers, if they are caught.
 *
 *   bare_syscall FILE     FILE: a path that must not be created
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

/* long call(number, a, b, c): the C convention's registers to the kernel's. */
static const unsigned char code[] = {
    0x48, 0x89, 0xf8, /* mov %rdi, %rax */
    0x48, 0x89, 0xf7, /* mov %rsi, %rdi */
    0x48, 0x89, 0xd6, /* mov %rdx, %rsi */
    0x48, 0x89, 0xca, /* mov %rcx, %rdx */
    0x0f, 0x05,       /* syscall */
    0xc3,             /* ret */
};

typedef long (*call_fn)(long number, long a, long b, long c);

static void show(const char *what, long ret)
{
    printf("%s = %s\n", what, ret < 0 ? strerrorname_np(-ret) : "ok");
}

int main(int argc, char **argv)
{
    struct utsname name;
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    call_fn call = (call_fn)memory;

    if (argc != 2 || memory == MAP_FAILED)
        return 2;
    memcpy(memory, code, sizeof code);
    if (mprotect(memory, 4096, PROT_READ | PROT_EXEC))
        return 2;
    printf("pid %ld\n", call(SYS_getpid, 0, 0, 0));
    if (call(SYS_uname, (long)&name, 0, 0) == 0)
        printf("host %s\n", name.nodename);
    show("create", call(SYS_open, (long)argv[1], O_CREAT | O_WRONLY, 0644));
    show("bad pointer", call(SYS_open, 8, O_RDONLY, 0));
    for (int i = 0; i < 1000; i++)
        if (call(SYS_getppid, 0, 0, 0) < 0)
            return 1;
    puts("still here");
    return 0;
}
