/*
 * Measures how fast the processor is, as programs do that tune what a password costs; `tests/busy_loops.rs` runs it.
 *
 *   measure double ROUNDS    doubles its work until one piece takes 10 ms, so many times over
 *   measure grow MS          from one round on, between two looks each, until they are so far apart
 *   measure short MS         pieces of some 25 us until so much time has passed
 *   measure processor        doubles it until one piece takes 100 ms of processor time
 *   measure until MS         pieces of the same size until so much time has passed
 *   measure interrupted MS   the same, with a signal every 10 ms
 *   measure stamps N         N pieces of little work, a time stamp for each
 *
 * All print what they found, and the milliseconds of simulated time since they began.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

/* Larger than a cache, so that what a copy of memory lacks would show. */
static uint64_t table[1 << 16];

static double ms_of(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static void work(long rounds)
{
    uint64_t state = table[0];

    for (long i = 0; i < rounds; i++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        table[state >> 48] += state;
    }
    table[0] = state;
}

static long doubled(clockid_t clock, double least_ms, long rounds)
{
    double before, after = ms_of(clock);

    do {
        rounds *= 2;
        work(rounds);
        before = after;
        after = ms_of(clock);
    } while (after - before < least_ms);
    return rounds;
}

/* As timeit and other benchmarks do. */
static long grown(double least_ms)
{
    long rounds = 1;

    for (;; rounds *= 2) {
        double before = ms_of(CLOCK_MONOTONIC);
        work(rounds);
        if (ms_of(CLOCK_MONOTONIC) - before >= least_ms)
            return rounds;
    }
}

static void ignore(int number)
{
    (void)number;
}

/* As the runtime of Go does. */
static void interrupt_each_10_ms(void)
{
    struct itimerval often = {{0, 10000}, {0, 10000}};

    signal(SIGALRM, ignore);
    setitimer(ITIMER_REAL, &often, NULL);
}

int main(int argc, char **argv)
{
    double began = ms_of(CLOCK_MONOTONIC);
    const char *what = argc > 1 ? argv[1] : "";
    long count = argc > 2 ? atol(argv[2]) : 0, most = 0, pieces = 0;

    if (!strcmp(what, "double")) {
        for (long round = 0; round < count; round++) {
            long rounds = doubled(CLOCK_MONOTONIC, 10, 100000);
            if (rounds > most)
                most = rounds;
        }
    } else if (!strcmp(what, "grow")) {
        most = grown(count);
    } else if (!strcmp(what, "short")) {
        for (; ms_of(CLOCK_MONOTONIC) - began < count; pieces++)
            work(10000);
    } else if (!strcmp(what, "processor")) {
        most = doubled(CLOCK_PROCESS_CPUTIME_ID, 100, 100000);
    } else if (!strcmp(what, "until") || !strcmp(what, "interrupted")) {
        if (what[0] == 'i')
            interrupt_each_10_ms();
        for (; ms_of(CLOCK_MONOTONIC) - began < count; pieces++)
            work(500000);
    } else {
        for (; pieces < count; pieces++) {
            work(100);
            table[pieces & 0xffff] ^= (uint64_t)ms_of(CLOCK_MONOTONIC);
        }
    }
    double took = ms_of(CLOCK_MONOTONIC) - began;
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        sum = sum * 31 + table[i];
    printf("%ld %ld %016lx %.3f\n", most, pieces, sum, took);
    return 0;
}
