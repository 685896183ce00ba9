/* Maps until there are no addresses left, in ever smaller pieces; gives all back and goes on. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PIECES 100000

static void *pieces[PIECES];
static size_t sizes[PIECES];

int main(void)
{
    for (int round = 0; round < 2; round++) {
        int count = 0;

        for (size_t size = 1ul << 46; size >= 4096 && count < PIECES; size /= 2) {
            int some = 0;

            while (count < PIECES && some++ < 3000) {
                void *piece = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

                if (piece == MAP_FAILED) {
                    if (errno != ENOMEM) {
                        printf("mmap: %s\n", strerrorname_np(errno));
                        return 1;
                    }
                    break;
                }
                *(volatile char *)piece = 1;
                sizes[count] = size;
                pieces[count++] = piece;
            }
        }
        printf("some pieces: %d\n", count > 10);
        for (int i = 0; i < count; i++)
            if (munmap(pieces[i], sizes[i]))
                return 1;
        char *memory = malloc(1 << 20);
        if (!memory)
            return 1;
        memset(memory, 1, 1 << 20);
        free(memory);
        printf("memory again\n");
    }
    return 0;
}
