/*
 * Two threads hand a turn to each other by futex, N times there and back.
 *
 * Usage: futex_pingpong N. Whoever starts it measures.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Whose turn it is: 0 is the main thread, 1 the other. */
static uint32_t turn;
static long rounds;

static void wait_for(uint32_t own)
{
    while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != own)
        syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, 1 - own, NULL, NULL, 0);
}

static void hand_over(uint32_t other)
{
    __atomic_store_n(&turn, other, __ATOMIC_RELEASE);
    syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *answer(void *argument)
{
    for (long i = 0; i < rounds; i++) {
        wait_for(1);
        hand_over(0);
    }
    return argument;
}

int main(int argc, char **argv)
{
    pthread_t thread;

    rounds = argc > 1 ? atol(argv[1]) : 100000;
    if (pthread_create(&thread, NULL, answer, NULL))
        return 1;
    for (long i = 0; i < rounds; i++) {
        hand_over(1);
        wait_for(0);
    }
    return pthread_join(thread, NULL) ? 1 : 0;
}
