/*
 * Starts a program and waits for its end, N times, one after the other.
 *
 * Usage: spawn_loop fork|vfork|posix_spawn N PROGRAM. Whoever starts it
 * measures.
 */
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char *environment[] = { NULL };

static pid_t start(const char *how, char *program)
{
    char *arguments[] = { program, NULL };
    pid_t child;

    if (!strcmp(how, "posix_spawn"))
        return posix_spawn(&child, program, NULL, NULL, arguments, environment) ? -1 : child;
    child = !strcmp(how, "vfork") ? vfork() : fork();
    if (child == 0) {
        execve(program, arguments, environment);
        _exit(127);
    }
    return child;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    for (long rounds = atol(argv[2]); rounds > 0; rounds--) {
        int status;
        pid_t child = start(argv[1], argv[3]);

        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            return 1;
    }
    return 0;
}
