/*
 * Starts N processes of a program that stays, lets all of them run until they
 * wait, and ends them.
 *
 * Usage: spawn_many N PROGRAM. Whoever starts it measures time and memory.
 */
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char *environment[] = { NULL };
    char *arguments[] = { argc == 3 ? argv[2] : NULL, NULL };
    long count = argc == 3 ? atol(argv[1]) : 0;
    pid_t *children = calloc(count + 1, sizeof(*children));
    struct rlimit limit;
    int status;

    if (!children || argc != 3 || getrlimit(RLIMIT_NPROC, &limit))
        return 2;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NPROC, &limit))
        return 1;
    for (long i = 0; i < count; i++)
        if (posix_spawn(&children[i], argv[2], NULL, NULL, arguments, environment))
            return 1;
    usleep(100000);
    for (long i = 0; i < count; i++)
        if (kill(children[i], SIGKILL) || waitpid(children[i], &status, 0) != children[i] || !WIFSIGNALED(status))
            return 1;
    return 0;
}
