/*
 * What the programs about processes share: children that run a function,
 * statuses in words, pipes as starting guns.
 */
#ifndef GNOMON_PROCESS_H
#define GNOMON_PROCESS_H

#include "case.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* Starts a child that runs `body` and exits with what it returns. */
static inline pid_t child_start(int (*body)(void *), void *argument)
{
    pid_t pid;

    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        int status = body(argument);

        fflush(stdout);
        _exit(status);
    }
    return pid;
}

static inline void show_status(const char *what, int status)
{
    if (WIFEXITED(status))
        printf("%s: exited %d\n", what, WEXITSTATUS(status));
    else if (WIFSIGNALED(status))
        printf("%s: killed by %s\n", what, sigabbrev_np(WTERMSIG(status)));
    else if (WIFSTOPPED(status))
        printf("%s: stopped by %s\n", what, sigabbrev_np(WSTOPSIG(status)));
    else if (WIFCONTINUED(status))
        printf("%s: continued\n", what);
    else
        printf("%s: status %#x\n", what, status);
}

/* Waits for one child and prints how it ended. */
static inline void child_end(const char *what, pid_t pid)
{
    int status = -1;
    pid_t got = waitpid(pid, &status, 0);

    if (got == pid)
        show_status(what, status);
    else
        show(what, got);
}

/* Runs `body` in a child and prints how it ended. */
static inline void in_child(const char *what, int (*body)(void *), void *argument)
{
    child_end(what, child_start(body, argument));
}

/* Waits until a child that is about to make a call waits in it, proc_pid_stat(5). */
static inline void until_it_waits(pid_t pid)
{
    char path[64], line[256];
    int sleeps = 0;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    while (!sleeps) {
        int fd = MUST(open(path, O_RDONLY));
        long length = MUST(read(fd, line, sizeof line - 1));
        MUST(close(fd));
        line[length] = 0;
        sleeps = strstr(line, ") S ") != NULL;
        sleep_ms(1);
    }
}

/* Waits until a child is a zombie without reaping it. */
static inline void until_over(pid_t pid)
{
    siginfo_t info;

    MUST(waitid(P_PID, pid, &info, WEXITED | WNOWAIT));
}

/* A pipe; ends[0] is read, ends[1] written. */
static inline void make_pipe(int ends[2])
{
    MUST(pipe(ends));
}

/* Waits until the other side writes a byte, or closes its end. */
static inline int gate_wait(int fd)
{
    char byte;

    return read(fd, &byte, 1);
}

static inline void gate_open(int fd)
{
    MUST(write(fd, "g", 1));
}

/* Waits until nobody has the write end of a pipe any more. */
static inline void wait_for_end(int fd)
{
    char byte;

    while (read(fd, &byte, 1) > 0)
        ;
}

#endif
