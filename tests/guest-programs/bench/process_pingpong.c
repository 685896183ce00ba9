/*
 * Two processes hand a byte to each other through two pipes, N times there and
 * back: twins of a fork, twins that share 64 MB in which both have written each
 * page, or two programs (the child executes this one anew).
 *
 * Usage: process_pingpong twins|shared|programs N. Whoever starts it measures.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHARED_BYTES (64L << 20)

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
    char byte = 'b', *shared = NULL;
    long rounds;
    pid_t child;

    if (argc != 3)
        return 2;
    rounds = atol(argv[2]);
    if (!strcmp(argv[1], "shared")) {
        shared = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED)
            return 1;
        memset(shared, 1, SHARED_BYTES);
    }
    if (!strcmp(argv[1], "answer"))
        return answer(0, 1, rounds);
    if (pipe(there) || pipe(back) || (child = fork()) < 0)
        return 1;
    if (child == 0) {
        if (shared)
            memset(shared, 2, SHARED_BYTES);
        if (strcmp(argv[1], "programs"))
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
