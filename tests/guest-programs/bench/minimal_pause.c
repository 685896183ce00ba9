/*
 * The smallest program that stays: it blocks until a signal ends it. What a
 * living guest costs in memory.
 */
#include <unistd.h>

int main(void)
{
    for (;;)
        pause();
}
