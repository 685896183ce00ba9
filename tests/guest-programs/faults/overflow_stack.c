/* Recurses without end: in the main thread or in another one. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static volatile int sum;

static __attribute__((noinline)) int dive(int depth)
{
    volatile char frame[512];

    frame[0] = (char)depth;
    sum += frame[0];
    return dive(depth + 1) + frame[0];
}

static void *thread(void *argument)
{
    dive(0);
    return argument;
}

int main(int argc, char **argv)
{
    pthread_t id;

    puts("about to dive");
    fflush(stdout);
    if (argc > 1 && !strcmp(argv[1], "thread")) {
        pthread_create(&id, NULL, thread, NULL);
        pthread_join(id, NULL);
    }
    return dive(0);
}
