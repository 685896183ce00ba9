/* A library to load: a counter of its own, per process and per thread, and what happens when it comes and goes. NAME is a string. */
#include <stdio.h>

static int counter;
static __thread int per_thread = 100;

__attribute__((constructor)) static void come(void)
{
    printf("%s comes\n", NAME);
    fflush(stdout);
}

__attribute__((destructor)) static void go(void)
{
    printf("%s goes with %d\n", NAME, counter);
    fflush(stdout);
}

int count(void)
{
    per_thread++;
    return ++counter;
}

int count_of_thread(void)
{
    return per_thread;
}

const char *name(void)
{
    return NAME;
}

static const char *chosen(void)
{
    return "chosen at load";
}

static const char *(*choose(void))(void)
{
    return chosen;
}

/* An indirect function: the loader calls `choose` to learn which one it is. */
const char *indirect(void) __attribute__((ifunc("choose")));
