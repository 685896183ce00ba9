/* Prints what programs seed random numbers from, and what they draw then; `tests/host_clocks.rs` runs it on several hosts. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static long long ns_of(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

int main(void)
{
    srand(time(NULL) ^ getpid());
    printf("real %lld\nup %lld\npid %d\ndrawn %d\n", ns_of(CLOCK_REALTIME), ns_of(CLOCK_MONOTONIC), getpid(), rand());
    return 0;
}
