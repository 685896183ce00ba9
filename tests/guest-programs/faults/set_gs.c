/*
 * Sets the base of GS, which is the simulator's in the processor, with
 * "wrgsbase" of 64 or 32 bits, and reads what lies there: its own variable, or
 * nothing at all.
 *
 * Usage: set_gs 64|32
 */
#include <stdlib.h>

int main(int argc, char **argv)
{
    unsigned long place = (unsigned long)&argc;
    int found;

    if (argc > 1 && atoi(argv[1]) == 64)
        __asm__ volatile("wrgsbase %0" : : "r"(place));
    else
        __asm__ volatile("wrgsbase %0" : : "r"((unsigned)place));
    __asm__ volatile("mov %%gs:0, %0" : "=r"(found) : : "memory");
    return found != argc;
}
