/*
 * Takes memory in pieces of so many MiB and writes to all of it.
 *
 * Usage: fill_memory refused|killed|shared. "refused" stops at the first piece that it
 * does not get, gives all back and goes on; "killed" took more than there is
 * before it wrote anything, so it never comes to its end; so does "shared", in
 * memory that it could share with children.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PIECE (16ul << 20)
#define PIECES 1000000

static char *pieces[PIECES];

int main(int argc, char **argv)
{
    int refused = argc > 1 && !strcmp(argv[1], "refused"), shared = argc > 1 && !strcmp(argv[1], "shared"), count = 0;

    if (!refused) {
        size_t size = 1ul << 37;
        int flags = (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS | MAP_NORESERVE;
        char *all = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);

        if (all == MAP_FAILED)
            return 1;
        puts("a lot");
        fflush(stdout);
        memset(all, 1, size);
        return 2;
    }
    while (count < PIECES && (pieces[count] = malloc(PIECE)))
        memset(pieces[count++], 1, PIECE);
    if (count == PIECES)
        return 1;
    for (int i = 0; i < count; i++) {
        if (pieces[i][PIECE - 1] != 1)
            return 1;
        free(pieces[i]);
    }
    puts("refused");
    return malloc(PIECE) ? 0 : 1;
}
