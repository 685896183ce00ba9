/* Forks children that stay until fork is refused, ends them, and can fork again. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    long limit = argc > 1 ? atol(argv[1]) : 0;
    struct rlimit rlimit = { limit, limit };
    long count = 0;
    pid_t child;

    if (limit && setrlimit(RLIMIT_NPROC, &rlimit))
        return 1;
    signal(SIGTERM, SIG_DFL);
    while ((child = fork()) > 0)
        count++;
    if (child == 0) {
        pause();
        _exit(1);
    }
    printf("fork: %s, some children: %d\n", strerrorname_np(errno), count > 10);
    fflush(stdout);
    signal(SIGTERM, SIG_IGN);
    if (kill(0, SIGTERM))
        return 1;
    for (int status; count > 0; count--)
        if (wait(&status) < 0 || !WIFSIGNALED(status) || WTERMSIG(status) != SIGTERM)
            return 1;
    child = fork();
    if (child == 0)
        _exit(0);
    printf("fork again: %d\n", child > 0 && waitpid(child, NULL, 0) == child);
    return 0;
}
