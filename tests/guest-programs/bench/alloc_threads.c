/*
 * Allocates and frees memory, and starts and joins threads that do so too, N
 * rounds. A guest in its steady state: the simulator must make no memory-map
 * calls of the real kernel for it.
 *
 * Usage: alloc_threads N
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 32, THREADS = 4 };

/* Sizes on both sides of the size from which malloc maps. */
static const size_t sizes[] = { 24, 300, 4000, 40000, 200000, 1000000 };

static int allocate_and_free(void)
{
    char *blocks[SLOTS];

    for (int i = 0; i < SLOTS; i++) {
        size_t size = sizes[i % (sizeof sizes / sizeof sizes[0])];
        blocks[i] = malloc(size);
        if (!blocks[i])
            return 1;
        memset(blocks[i], i, size);
    }
    for (int i = 0; i < SLOTS; i++)
        free(blocks[i]);
    return 0;
}

static void *work(void *argument)
{
    return allocate_and_free() ? NULL : argument;
}

static int round_of_threads(void)
{
    pthread_t threads[THREADS];
    void *result;
    int failed = 0;

    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, threads))
            return 1;
    for (int i = 0; i < THREADS; i++)
        failed |= pthread_join(threads[i], &result) || !result;
    return failed;
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 100;

    for (long i = 0; i < rounds; i++)
        if (allocate_and_free() || round_of_threads())
            return 1;
    return 0;
}
