/*
 * Passes pointers that lead nowhere to system calls of many kinds and prints
 * what they answer. The last line shows that it lives on. Prints the same
 * natively and as a guest.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static void show(const char *what, unsigned long pointer, long ret)
{
    printf("%s(%#lx) = %s\n", what, pointer, ret == -1 ? strerrorname_np(errno) : "ok");
}

/* Kernel addresses, non-canonical ones, null's page, the end of memory. */
static const unsigned long pointers[] = {
    8, 0x1000 - 1, 0x800000000000, 0xffff800000000000, 0xffffffffffffff00,
};

/* What GS points to: nothing natively; memory of the simulator in a guest. */
static unsigned long gs_base(void)
{
    unsigned long base;

    __asm__ volatile("rdgsbase %0" : "=r"(base));
    return base;
}

int main(void)
{
    int ends[2], zero = open("/dev/zero", O_RDONLY);
    void *hole = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *readonly = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (pipe(ends) || write(ends[1], "x", 1) != 1 || munmap((char *)hole + 4096, 4096))
        return 2;
    for (unsigned i = 0; i < sizeof pointers / sizeof *pointers; i++) {
        unsigned long p = pointers[i];

        show("write", p, syscall(SYS_write, ends[1], p, 16));
        show("read", p, syscall(SYS_read, zero, p, 16));
        show("readv", p, syscall(SYS_readv, zero, p, 2));
        show("open", p, syscall(SYS_open, p, O_RDONLY));
        show("stat", p, syscall(SYS_stat, "/", p));
        show("pipe", p, syscall(SYS_pipe, p));
        show("poll", p, syscall(SYS_poll, p, 1, 0));
        show("clock_gettime", p, syscall(SYS_clock_gettime, CLOCK_MONOTONIC, p));
        show("nanosleep", p, syscall(SYS_nanosleep, p, 0));
        show("uname", p, syscall(SYS_uname, p));
        show("getrandom", p, syscall(SYS_getrandom, p, 16, 0));
        show("rt_sigaction", p, syscall(SYS_rt_sigaction, 10, p, 0, 8));
        show("bind", p, syscall(SYS_bind, socket(AF_INET, SOCK_DGRAM, 0), p, 16));
    }
    printf("write from where GS points = %s\n", write(ends[1], (void *)gs_base(), 16) == -1 ? strerrorname_np(errno) : "ok");
    printf("read to where GS points = %s\n", read(zero, (void *)gs_base(), 16) == -1 ? strerrorname_np(errno) : "ok");
    printf("read into read-only memory = %s\n", read(zero, readonly, 1) == -1 ? strerrorname_np(errno) : "ok");
    printf("read across the end of a mapping: %zd\n", read(zero, (char *)hole + 4090, 100));
    printf("write across the end of a mapping: %zd\n", write(ends[1], (char *)hole + 4090, 100));
    if (write(ends[1], "four", 4) != 4)
        return 2;
    printf("read from a pipe across the end of a mapping: %zd\n", read(ends[0], (char *)hole + 4093, 5));
    printf("the pipe still has all of it: %zd\n", read(ends[0], hole, 100));
    puts("still here");
    return 0;
}
