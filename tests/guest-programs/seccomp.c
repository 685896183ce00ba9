/*
 * seccomp filters. Each case has a thread of its own to lock in, so that the others stay free.
 */
#include "case.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define UNLESS(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (skip))
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, (value))

static void in_a_thread(void *(*body)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, NULL) == 0)
        pthread_join(thread, NULL);
}

static long install(struct sock_filter *filter, unsigned short length, unsigned flags)
{
    struct sock_fprog program = { .len = length, .filter = filter };
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

static void *errno_of_a_call(void *unused)
{
    struct sock_filter filter[] = { LOAD(nr), UNLESS(SYS_getpgid, 1), ANSWER(SECCOMP_RET_ERRNO | 71), ANSWER(SECCOMP_RET_ALLOW) };
    show("mode before", prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
    show("install", install(filter, COUNT_OF(filter), 0));
    show("mode after", prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
    show("filtered", syscall(SYS_getpgid, 0));
    truth("others pass", getpid() > 0);
    return unused;
}

CASE(a_filter_answers_for_a_call)
{
    in_a_thread(errno_of_a_call);
    truth("other threads are free", getpgid(0) >= 0);
}

static void *by_argument(void *unused)
{
    struct sock_filter filter[] = {
        LOAD(arch),          UNLESS(AUDIT_ARCH_X86_64, 5), LOAD(nr),
        UNLESS(SYS_dup, 3),  LOAD(args[0]),                UNLESS(7777, 1),
        ANSWER(SECCOMP_RET_ERRNO | 13),                    ANSWER(SECCOMP_RET_ALLOW),
    };
    show("install", install(filter, COUNT_OF(filter), 0));
    show("that descriptor", dup(7777));
    show("another", dup(7778));
    return unused;
}

CASE(a_filter_sees_arguments)
{
    in_a_thread(by_argument);
}

static void *two_filters(void *unused)
{
    struct sock_filter weak[] = { LOAD(nr), UNLESS(SYS_getpgid, 1), ANSWER(SECCOMP_RET_ERRNO | 5), ANSWER(SECCOMP_RET_ALLOW) };
    struct sock_filter strong[] = { LOAD(nr), UNLESS(SYS_getpgid, 1), ANSWER(SECCOMP_RET_ERRNO | 6), ANSWER(SECCOMP_RET_ALLOW) };
    show("first", install(weak, COUNT_OF(weak), 0));
    show("second", install(strong, COUNT_OF(strong), 0));
    show("the later one wins among equals", syscall(SYS_getpgid, 0));
    return unused;
}

CASE(the_last_filter_answers_first)
{
    in_a_thread(two_filters);
}

static volatile int trapped_call, trapped_errno, trapped_code, trapped_arch;

static void on_sys(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    trapped_call = info->si_syscall;
    trapped_errno = info->si_errno;
    trapped_code = info->si_code;
    trapped_arch = info->si_arch == AUDIT_ARCH_X86_64;
}

static void *trap_a_call(void *unused)
{
    struct sock_filter filter[] = { LOAD(nr), UNLESS(SYS_getpgid, 1), ANSWER(SECCOMP_RET_TRAP | 42), ANSWER(SECCOMP_RET_ALLOW) };
    struct sigaction action = { .sa_sigaction = on_sys, .sa_flags = SA_SIGINFO };
    MUST(sigaction(SIGSYS, &action, NULL));
    show("install", install(filter, COUNT_OF(filter), 0));
    number("the register keeps the number", syscall(SYS_getpgid, 0));
    number("si_syscall", trapped_call);
    number("si_errno", trapped_errno);
    number("si_code", trapped_code);
    truth("si_arch", trapped_arch);
    return unused;
}

CASE(a_trap_is_a_signal)
{
    in_a_thread(trap_a_call);
}

static void *probing(void *unused)
{
    unsigned actions[] = { SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_TRAP, SECCOMP_RET_KILL_PROCESS, 0x12340000 };
    for (size_t i = 0; i < COUNT_OF(actions); i++)
        show("action available", syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &actions[i]));
    show("strict with an argument", syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL));
    show("no program", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL));
    show("no program for all threads", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, NULL));
    show("no such operation", syscall(SYS_seccomp, 99, 0, NULL));
    show("no such mode", prctl(PR_SET_SECCOMP, 9, 0, 0, 0));
    return unused;
}

CASE(what_is_asked_before_filters_are_used)
{
    in_a_thread(probing);
}

static void *bad_filters(void *unused)
{
    struct sock_filter endless[] = { LOAD(nr) };
    struct sock_filter outside[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64), ANSWER(SECCOMP_RET_ALLOW) };
    struct sock_filter far_jump[] = { UNLESS(0, 9), ANSWER(SECCOMP_RET_ALLOW) };
    struct sock_filter bytes[] = { BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0), ANSWER(SECCOMP_RET_ALLOW) };
    show("without an end", install(endless, COUNT_OF(endless), 0));
    show("a word outside", install(outside, COUNT_OF(outside), 0));
    show("a jump outside", install(far_jump, COUNT_OF(far_jump), 0));
    show("a byte", install(bytes, COUNT_OF(bytes), 0));
    show("nothing", install(bytes, 0, 0));
    show("still free", prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
    return unused;
}

CASE(bad_filters_are_refused)
{
    in_a_thread(bad_filters);
}

static int lock_in(int how)
{
    MUST(how ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0) : syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL));
    MUST(write(1, "still writes\n", 13));
    syscall(SYS_getppid);
    syscall(SYS_exit, 3);
    return 0;
}

CASE(strict_mode_kills_without_a_core)
{
    for (int how = 0; how < 2; how++) {
        int status;
        fflush(stdout);
        pid_t child = MUST(fork());
        if (child == 0)
            lock_in(how);
        MUST(waitpid(child, &status, 0));
        printf("%s %d core %d\n", WIFSIGNALED(status) ? "signal" : "exit", WTERMSIG(status), !!WCOREDUMP(status));
    }
}

CASE(status_tells_strict_mode_from_filters)
{
    int told[2], asked[2];
    char path[64], byte, status[4096];

    MUST(pipe(told));
    MUST(pipe(asked));
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0) {
        prctl(PR_SET_SECCOMP, 1);
        if (write(told[1], "x", 1) == 1 && read(asked[0], &byte, 1) == 1)
            syscall(SYS_exit, 0);
        syscall(SYS_exit, 1);
    }
    MUST(read(told[0], &byte, 1));
    snprintf(path, sizeof path, "/proc/%d/status", child);
    int fd = MUST(open(path, O_RDONLY));
    status[MUST(read(fd, status, sizeof status - 1))] = 0;
    for (char *line = strtok(status, "\n"); line; line = strtok(NULL, "\n"))
        if (!strncmp(line, "Seccomp", 7))
            puts(line);
    MUST(write(asked[1], "x", 1));
    waitpid(child, NULL, 0);
}
