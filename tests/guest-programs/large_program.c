/*
 * A program of more than half a gigabyte, as browsers are: nothing else of the
 * process may lie where it lies.
 */
#include "case.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define LARGE_BYTES (600L << 20)
#define STEP (1L << 20)

static char large[LARGE_BYTES];

/* Writes a byte in each MiB, which depends on `seed`. */
static void fill(char seed)
{
    for (long at = 0; at < LARGE_BYTES; at += STEP)
        large[at] = (char)(at / STEP) ^ seed;
}

static int is_filled(char seed)
{
    for (long at = 0; at < LARGE_BYTES; at += STEP)
        if (large[at] != ((char)(at / STEP) ^ seed))
            return 0;
    return 1;
}

CASE(heap_and_mappings_lie_beside_it)
{
    char *end = large + LARGE_BYTES;
    char *heap, *mapping, *block;

    fill(1);
    MUST((heap = sbrk(1 << 20)) != (void *)-1);
    memset(heap, 0xff, 1 << 20);
    MUST((mapping = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED);
    memset(mapping, 0xff, 64 << 20);
    MUST((block = malloc(100000)) != NULL);
    memset(block, 0xff, 100000);
    truth("the heap is behind it", heap >= end);
    truth("the mapping is elsewhere", mapping >= end || mapping + (64 << 20) <= large);
    truth("all is as it was", is_filled(1));
    free(block);
    munmap(mapping, 64 << 20);
}

CASE(libraries_are_found)
{
    truth("a function of the C library", dlsym(RTLD_DEFAULT, "strtol") == (void *)strtol);
    number("strtol", strtol("1234", NULL, 10));
}

CASE(a_child_has_its_own)
{
    pid_t child;
    int status;

    fill(2);
    MUST((child = fork()) != -1);
    if (child == 0) {
        int same = is_filled(2);
        fill(3);
        _exit(same && is_filled(3) ? 7 : 1);
    }
    MUST(waitpid(child, &status, 0) == child);
    number("the child's status", WEXITSTATUS(status));
    truth("all is as it was", is_filled(2));
}

CASE(executed_again_it_is_empty)
{
    pid_t child;
    int status;

    fill(4);
    MUST((child = fork()) != -1);
    if (child == 0) {
        execl("/proc/self/exe", "again", "--list", (char *)NULL);
        _exit(1);
    }
    MUST(waitpid(child, &status, 0) == child);
    number("the child's status", WEXITSTATUS(status));
    truth("all is as it was", is_filled(4));
}
