/*
 * Makes N getppid calls through libc: the cost of a system call that does
 * nothing.
 *
 * Usage: getppid_loop N. It takes no time itself, for a guest's clock stands
 * still while it computes: whoever starts it measures.
 */
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 1000000;
    pid_t parent = getppid();

    for (long i = 0; i < rounds; i++)
        if (getppid() != parent)
            return 1;
    return 0;
}
