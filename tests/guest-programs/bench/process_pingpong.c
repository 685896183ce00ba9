/*
 * Two processes hand a byte to each other through two pipes, N times there and
 * back: twins of a fork, or two programs (the child executes this one anew).
 *
 * Usage: process_pingpong twins|programs N. Whoever starts it measures.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int answer(int from, int to, long rounds)
{
    char byte;

    for (long i = 0; i < rounds; i++)
        if (read(from, &byte, 1) != 1 || write(to, &byte, 1) != 1)
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    int there[2], back[2], status;
    char byte = 'b';
    long rounds;
    pid_t child;

    if (argc != 3)
        return 2;
    rounds = atol(argv[2]);
    if (!strcmp(argv[1], "answer"))
        return answer(0, 1, rounds);
    if (pipe(there) || pipe(back) || (child = fork()) < 0)
        return 1;
    if (child == 0) {
        if (!strcmp(argv[1], "twins"))
            _exit(answer(there[0], back[1], rounds));
        dup2(there[0], 0);
        dup2(back[1], 1);
        execl(argv[0], argv[0], "answer", argv[2], NULL);
        _exit(127);
    }
    for (long i = 0; i < rounds; i++)
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
            return 1;
    return waitpid(child, &status, 0) != child || status != 0;
}
