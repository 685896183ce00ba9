/* What could make two counts of the same instructions differ: flags that are stored, repeated instructions, clocks, other stacks,
 * signals, loops that wait for another thread. Says what it has seen of the trap flag. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <x86intrin.h>

static volatile int flag, alarms, traps, seen_trap_flag;
static jmp_buf away;
static ucontext_t here, there;
static char stack[65536];

static void note_flags(void) {
    uint64_t flags;
    __asm__ volatile("pushfq; popq %0" : "=r"(flags));
    seen_trap_flag |= (flags >> 8) & 1;
    /* What was stored is loaded again, which must not have the next instructions trap. */
    __asm__ volatile("pushfq; popfq" ::: "cc", "memory");
    uint16_t small;
    __asm__ volatile("pushfw; popw %0" : "=r"(small));
    seen_trap_flag |= (small >> 8) & 1;
}

static void repeat(void) {
    static char from[3000], to[3000];
    void *d = to, *s = from;
    size_t n = sizeof from;
    __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n)::"memory");
}

static void on_alarm(int signal) {
    (void)signal;
    alarms++;
    note_flags();
}

static void on_trap(int signal) {
    (void)signal;
    traps++;
}

/* Traps that are the program's own: int3, and int1, whose exception is that of a step. Some virtual machines never come back from an int1. */
static void trap(int has_int1) {
    signal(SIGTRAP, on_trap);
    for (int i = 0; i < 10; i++) {
        __asm__ volatile("int3");
        if (has_int1)
            __asm__ volatile(".byte 0xf1");
        else
            __asm__ volatile("int3");
    }
}

static void other_stack(void) {
    for (int i = 0; i < 3; i++)
        swapcontext(&there, &here);
}

static void deep(int depth) {
    if (depth == 0)
        longjmp(away, 1);
    deep(depth - 1);
}

static void *set_flag(void *unused) {
    usleep(1000);
    flag = 1;
    return unused;
}

static uint64_t clocks(void) {
    struct timespec t;
    struct timeval v;
    uint64_t sum = 0;
    for (int i = 0; i < 20; i++) {
        clock_gettime(CLOCK_MONOTONIC, &t);
        gettimeofday(&v, NULL);
        sum += t.tv_nsec + v.tv_usec + time(NULL) + __rdtsc();
    }
    return sum;
}

/* `strange traps` does no more than that, `strange without-int1` leaves the latter out. */
int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    note_flags();
    repeat();
    trap(strcmp(how, "without-int1") != 0);
    if (strcmp(how, "traps") == 0)
        return 0;
    uint64_t sum = clocks();
    unsigned a, b, c, d;
    __get_cpuid(1, &a, &b, &c, &d);
    if (setjmp(away) == 0)
        deep(20);
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = sizeof stack;
    there.uc_link = &here;
    makecontext(&there, other_stack, 0);
    for (int i = 0; i < 3; i++)
        swapcontext(&here, &there);
    signal(SIGALRM, on_alarm);
    struct itimerval often = {{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &often, NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, set_flag, NULL);
    while (!flag)
        ;
    pthread_join(thread, NULL);
    for (int i = 0; i < 5; i++)
        usleep(700);
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    fflush(stdout);
    if (fork() == 0) {
        sum += clocks();
        printf("child %llu\n", (unsigned long long)sum);
        return 0;
    }
    wait(NULL);
    printf("%llu, %d alarms, %d traps, the trap flag was %s\n", (unsigned long long)sum, alarms, traps,
           seen_trap_flag ? "seen" : "not seen");
    return 0;
}
