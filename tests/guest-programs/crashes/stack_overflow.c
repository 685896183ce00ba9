/* Overflows its stack: that of the main thread, or with an argument that of another one. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

__attribute__((noinline, noclone)) int endless(int depth, char *above)
{
    char buffer[512];
    memset(buffer, depth, sizeof buffer);
    buffer[0] += above[0];
    return endless(depth + 1, buffer) + buffer[7];
}

static void *in_thread(void *unused)
{
    char first[1] = "";
    return (void *)(long)endless(0, first);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    if (argc < 2)
        return in_thread(NULL) != NULL;
    pthread_create(&thread, NULL, in_thread, NULL);
    return pthread_join(thread, NULL);
}
