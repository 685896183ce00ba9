/*
 * Writes to the base of GS, which the simulator needs, with "wrgsbase" of 64 or
 * 32 bits.
 *
 * Usage: set_gs 64|32
 */
#include <stdlib.h>

int main(int argc, char **argv)
{
    unsigned long place = (unsigned long)&argc;

    if (argc > 1 && atoi(argv[1]) == 64)
        __asm__ volatile("wrgsbase %0" : : "r"(place));
    else
        __asm__ volatile("wrgsbase %0" : : "r"((unsigned)place));
    return 0;
}
