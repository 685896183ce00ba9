/* Changes the rights of every second page until no mapping is left; gives all back at once and goes on. The argument says how many
   mappings the machine allows. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE 4096ul
#define PAGES_BEYOND 100000ul

int main(int argc, char **argv)
{
    unsigned long pages = argc == 2 ? strtoul(argv[1], NULL, 10) + PAGES_BEYOND : 0;

    if (pages == 0) {
        fprintf(stderr, "usage: split_mappings MAPPINGS\n");
        return 1;
    }
    for (int round = 0; round < 2; round++) {
        char *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        int refused = 0;

        if (memory == MAP_FAILED) {
            printf("mmap: %d\n", errno);
            return 1;
        }
        for (unsigned long page = 0; page < pages; page += 2)
            refused += mprotect(memory + page * PAGE, PAGE, PROT_READ) && errno == ENOMEM;
        printf("many refused: %d\n", refused > 10000);
        if (munmap(memory, pages * PAGE))
            return 1;
    }
    return 0;
}
