/*
 * Reserves memory without rights and gives it some later, as allocators and compilers at run time do: of all sizes up to that of what the
 * loader has given up before.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, MOST = 32 };

static const int rights[] = { PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE | PROT_EXEC };

int main(void)
{
    int checked = 0;

    for (int pages = 1; pages <= MOST; pages++)
        for (int kind = 0; kind < 3; kind++) {
            size_t bytes = (size_t)pages * PAGE;
            unsigned char *memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (memory == MAP_FAILED || mprotect(memory, bytes, rights[kind]) != 0)
                return 1;
            for (size_t at = 0; at < bytes; at++)
                if (memory[at] != 0)
                    return 2;
            if (kind > 0)
                memset(memory, 0xc3, bytes);
            if (kind == 2)
                ((void (*)(void))(memory + bytes - 1))();
            if (write(-1, memory, 1) != -1 || munmap(memory, bytes) != 0)
                return 3;
            /* A part of it. */
            memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (memory == MAP_FAILED || mprotect(memory + bytes - PAGE, PAGE, PROT_READ | PROT_WRITE) != 0)
                return 4;
            memory[bytes - 1] = 1;
            checked++;
            /* The first stay, so that other memory is met. */
            if (pages > 4)
                munmap(memory, bytes);
        }
    printf("%d\n", checked);
    return 0;
}
