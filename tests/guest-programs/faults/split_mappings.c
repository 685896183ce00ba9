/* Changes the rights of every second page until no mapping is left; gives all back at once and goes on. */
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#define PAGE 4096ul
#define PAGES 200000ul

int main(void)
{
    for (int round = 0; round < 2; round++) {
        char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        int refused = 0;

        if (memory == MAP_FAILED) {
            printf("mmap: %d\n", errno);
            return 1;
        }
        for (unsigned long page = 0; page < PAGES; page += 2)
            refused += mprotect(memory + page * PAGE, PAGE, PROT_READ) && errno == ENOMEM;
        printf("many refused: %d\n", refused > 10000);
        if (munmap(memory, PAGES * PAGE))
            return 1;
    }
    return 0;
}
