/* Calls abort in a thread that is not the first. */
#include <pthread.h>
#include <stdlib.h>

__attribute__((noinline, noclone)) void gives_up(void)
{
    abort();
}

static void *thread_function(void *unused)
{
    gives_up();
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, thread_function, NULL);
    pthread_join(thread, NULL);
    return 0;
}
