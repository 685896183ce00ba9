/* A library whose code says which processor it sees and makes calls (-DLIBRARY), and a program that maps it by itself: as its first argument says.
   The library's entry is its only function, so that nothing has to be relocated. */
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/syscall.h>

#ifdef LIBRARY
unsigned long entry(int what) {
    if (what == 0) {
        unsigned a = 0, b, c = 0, d;
        __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
        return b;
    }
    unsigned long sum = 0;
    for (int i = 0; i < what; i++) {
        long result;
        __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_getpid) : "rcx", "r11", "memory");
        sum += result > 0;
    }
    return sum;
}
#else
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static unsigned char *file;
static size_t size;
static Elf64_Phdr loads[16];
static int count;

static uint64_t down(uint64_t at) { return at & ~4095ull; }
static uint64_t up(uint64_t at) { return (at + 4095) & ~4095ull; }

static int rights(const Elf64_Phdr *load) {
    return (load->p_flags & PF_R ? PROT_READ : 0) | (load->p_flags & PF_W ? PROT_WRITE : 0) |
           (load->p_flags & PF_X ? PROT_EXEC : 0);
}

static void must(int holds, const char *what) {
    if (!holds) { perror(what); exit(1); }
}

static void map(int fd, char *base, const Elf64_Phdr *load, int prot) {
    uint64_t from = down(load->p_vaddr), to = up(load->p_vaddr + load->p_filesz);
    must(mmap(base + from, to - from, prot, MAP_PRIVATE | MAP_FIXED, fd, down(load->p_offset)) == base + from, "mmap");
}

/* Reserves the library's addresses as loaders do that align: more than that, of which the rest is given back. */
static char *end;
static char *reserve(uint64_t span, uint64_t alignment) {
    char *all = mmap(0, span + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(all != MAP_FAILED, "reserve");
    end = all + span + alignment;
    return (char *)(((uintptr_t)all + alignment - 1) & -alignment);
}

static void give_back(char *from) {
    if (end > from) must(!munmap(from, end - from), "munmap");
}

int main(int argc, char **argv) {
    const char *way = argv[1];
    setvbuf(stdout, 0, _IONBF, 0);
    if (!strcmp(way, "dlopen")) {
        void *library = dlopen(argv[2], RTLD_NOW);
        if (!library) { puts(dlerror()); return 1; }
        unsigned long (*entry)(int) = dlsym(library, "entry");
        printf("%s %lx %lu\n", way, entry(0), entry(1000));
        return 0;
    }
    int fd = open(argv[2], O_RDONLY);
    struct stat stat;
    must(fd >= 0 && !fstat(fd, &stat), argv[2]);
    size = stat.st_size;
    file = malloc(size);
    must(read(fd, file, size) == (ssize_t)size, "read");
    if (!strcmp(way, "memfd")) {
        fd = memfd_create("library", 0);
        must(write(fd, file, size) == (ssize_t)size, "write");
    }
    Elf64_Ehdr *header = (void *)file;
    uint64_t span = 0, alignment = 4096;
    for (int i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr *program = (Elf64_Phdr *)(file + header->e_phoff) + i;
        if (program->p_type != PT_LOAD) continue;
        loads[count++] = *program;
        span = up(program->p_vaddr + program->p_memsz);
        alignment = program->p_align > alignment ? program->p_align : alignment;
    }
    char *entry = 0;
    if (!strcmp(way, "flat") || !strcmp(way, "flat-late")) {
        /* The whole file in one piece. */
        int late = !strcmp(way, "flat-late");
        char *all = mmap(0, size, PROT_READ | (late ? 0 : PROT_EXEC), MAP_PRIVATE, fd, 0);
        must(all != MAP_FAILED, "mmap");
        if (late) must(!mprotect(all, size, PROT_READ | PROT_EXEC), "mprotect");
        for (int i = 0; i < count; i++)
            if (header->e_entry - loads[i].p_vaddr < loads[i].p_filesz)
                entry = all + loads[i].p_offset + (header->e_entry - loads[i].p_vaddr);
    } else if (!strcmp(way, "anywhere")) {
        /* The code alone, at whatever address. */
        for (int i = 0; i < count; i++)
            if (loads[i].p_flags & PF_X) {
                uint64_t from = down(loads[i].p_offset);
                char *at = mmap(0, up(loads[i].p_offset + loads[i].p_filesz) - from, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, from);
                must(at != MAP_FAILED, "mmap");
                entry = at + (loads[i].p_offset - from) + (header->e_entry - loads[i].p_vaddr);
            }
    } else {
        char *base = reserve(span, alignment);
        int early = !strcmp(way, "early");
        if (early) give_back(base + span);
        int late = !strcmp(way, "late");
        for (int i = 0; i < count; i++) {
            const Elf64_Phdr *load = &loads[!strcmp(way, "reverse") ? count - 1 - i : i];
            map(fd, base, load, late ? PROT_READ : rights(load));
        }
        if (!strcmp(way, "again")) {
            /* All of it once more, behind a closed range. */
            must(mmap(base, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == base, "close");
            for (int i = 0; i < count; i++) map(fd, base, &loads[i], rights(&loads[i]));
        }
        if (!strcmp(way, "whole-first")) {
            must(mmap(base, span, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == base, "whole");
            for (int i = 0; i < count; i++) map(fd, base, &loads[i], rights(&loads[i]));
        }
        for (int i = 0; late && i < count; i++)
            must(!mprotect(base + down(loads[i].p_vaddr), up(loads[i].p_vaddr + loads[i].p_filesz) - down(loads[i].p_vaddr),
                           rights(&loads[i])), "mprotect");
        if (!early) give_back(base + span);
        entry = base + header->e_entry;
    }
    unsigned long (*function)(int) = (void *)entry;
    printf("%s %lx %lu\n", way, function(0), function(1000));
    return 0;
}
#endif
