/*
 * Writes through the segment by which the simulator finds its own state: what a
 * wild pointer could hit, by the shortest way. Natively it is a null pointer.
 */
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    puts("about to write");
    fflush(stdout);
    __asm__ volatile("movq %0, %%gs:0" : : "r"(0x1234UL));
    getppid();
    puts("still here");
    return 0;
}
