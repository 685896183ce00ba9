/*
 * Two threads hand a byte to each other through two pipes, N times there and
 * back.
 *
 * Usage: pipe_pingpong N. Whoever starts it measures.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static int there[2], back[2];
static long rounds;

static void *answer(void *argument)
{
    char byte;

    for (long i = 0; i < rounds; i++)
        if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1)
            exit(1);
    return argument;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    char byte = 'b';

    rounds = argc > 1 ? atol(argv[1]) : 100000;
    if (pipe(there) || pipe(back) || pthread_create(&thread, NULL, answer, NULL))
        return 1;
    for (long i = 0; i < rounds; i++)
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
            return 1;
    return pthread_join(thread, NULL) ? 1 : 0;
}
