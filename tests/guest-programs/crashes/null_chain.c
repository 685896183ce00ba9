/* Reads through a null pointer, three functions deep. With an argument it sleeps first; another thread waits meanwhile. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone))

static volatile int sum;

KEEP int third_function(int *pointer)
{
    sum += *pointer;
    return sum;
}

KEEP int second_function(int *pointer)
{
    sum += third_function(pointer) + 1;
    return sum;
}

KEEP int first_function(int *pointer)
{
    sum += second_function(pointer) + 2;
    return sum;
}

KEEP void *waiting_function(void *ends)
{
    char byte;
    sum += (int)read(*(int *)ends, &byte, 1);
    return NULL;
}

int main(int argc, char **argv)
{
    int ends[2];
    pthread_t thread;
    if (pipe(ends) != 0 || pthread_create(&thread, NULL, waiting_function, ends) != 0)
        return 1;
    usleep(1500000);
    write(1, "about to crash\n", 15);
    return first_function(argc > 5 ? &argc : NULL);
}
