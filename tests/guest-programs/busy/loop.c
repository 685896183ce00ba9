/*
 * Computes without calls, in several ways; `tests/busy_loops.rs` runs it.
 *
 *   loop forever             a loop that nothing ends
 *   loop count-forever       one that counts, so that nothing repeats
 *   loop count-until MS      counts until a timer's signal
 *   loop work N              N rounds of arithmetic
 *   loop work-and-send N ADDRESS   the same, then a datagram to port 5000
 *   loop receive             waits for that datagram
 *   loop turns N             two threads take N turns each
 *   loop ask N               works N times, and asks the processor after each
 *
 * All but the first two print the milliseconds of simulated time since they began.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

static volatile unsigned long counter;
static volatile sig_atomic_t over;
static volatile int turn;

static double now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static void end_loop(int number)
{
    (void)number;
    over = 1;
}

static void count_until(long ms)
{
    struct itimerval timer = { .it_value = { ms / 1000, ms % 1000 * 1000 } };

    signal(SIGALRM, end_loop);
    setitimer(ITIMER_REAL, &timer, NULL);
    while (!over)
        counter++;
}

static void work(long rounds)
{
    uint64_t state = 1;

    for (long i = 0; i < rounds; i++)
        state = state * 6364136223846793005ull + 1442695040888963407ull;
    counter = state;
}

static int datagram(const char *to)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(5000) };
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    char byte = 1;

    if (to) {
        inet_pton(AF_INET, to, &address.sin_addr);
        return sendto(fd, &byte, 1, 0, (struct sockaddr *)&address, sizeof address) != 1;
    }
    return bind(fd, (struct sockaddr *)&address, sizeof address) || recv(fd, &byte, 1, 0) != 1;
}

static void *take_turns(void *argument)
{
    long *own = argument;

    for (long i = 0; i < own[1]; i++) {
        while (turn != own[0])
            ;
        turn = !turn;
    }
    return NULL;
}

static void play(long turns)
{
    long arguments[2][2] = { { 0, turns }, { 1, turns } };
    pthread_t other;

    pthread_create(&other, NULL, take_turns, arguments[1]);
    take_turns(arguments[0]);
    pthread_join(other, NULL);
}

/* Fails when an answer is missing: a register then holds what it held before. */
static int ask(long times)
{
    uint64_t before = 0, now, low, high, base;

    for (uint64_t i = 1; i <= (uint64_t)times; i++) {
        work(100000);
        __asm__ volatile("wrgsbase %1\n mov $0, %0\n rdgsbase %0" : "=r"(base) : "r"(i));
        if (base != i)
            return 1;
        work(100000);
        __asm__ volatile("mov $0, %%eax\n mov $0, %%edx\n rdtsc" : "=a"(low), "=d"(high));
        now = high << 32 | low;
        if (now <= before)
            return 1;
        before = now;
    }
    return 0;
}

int main(int count, char **words)
{
    const char *what = count > 1 ? words[1] : "";
    long number = count > 2 ? atol(words[2]) : 0;
    double start = now_ms();
    int failed = 0;

    if (!strcmp(what, "forever"))
        for (;;)
            ;
    else if (!strcmp(what, "count-forever"))
        for (;;)
            counter++;
    else if (!strcmp(what, "count-until"))
        count_until(number);
    else if (!strcmp(what, "work"))
        work(number);
    else if (!strcmp(what, "work-and-send")) {
        work(number);
        failed = datagram(words[3]);
    } else if (!strcmp(what, "receive"))
        failed = datagram(NULL);
    else if (!strcmp(what, "turns"))
        play(number);
    else if (!strcmp(what, "ask"))
        failed = ask(number);
    else
        return 2;
    printf("%.6f\n", now_ms() - start);
    return failed;
}
