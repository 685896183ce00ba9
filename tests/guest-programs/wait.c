/*
 * The end of processes: wait4, waitid, zombies, orphans, SIGCHLD, stops and
 * continuations, descriptors of processes.
 */
#include "process.h"

#include <poll.h>
#include <sys/mman.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#define SYS_pidfd_send_signal 424
#endif
#ifndef P_PIDFD
#define P_PIDFD 3
#endif

static int exit_with(void *argument)
{
    return (int)(intptr_t)argument;
}

static pid_t child_exiting(int status)
{
    return child_start(exit_with, (void *)(intptr_t)status);
}

static int pause_for_ever(void *argument)
{
    (void)argument;
    for (;;)
        pause();
    return 0;
}

static void show_info(const char *what, const siginfo_t *info, pid_t pid)
{
    const char *codes[] = { "0", "exited", "killed", "dumped", "trapped", "stopped", "continued" };

    printf("%s: signal %d code %s status %d ", what, info->si_signo, codes[info->si_code % 7], info->si_status);
    printf("pid %s uid %d\n", info->si_pid == pid ? "right" : info->si_pid ? "wrong" : "0", info->si_uid != getuid());
}

CASE(no_children)
{
    int status;

    show("wait", wait(&status));
    show("waitpid", waitpid(1, &status, 0));
    show("WNOHANG", waitpid(-1, &status, WNOHANG));
    show("own pid", waitpid(getpid(), &status, 0));
    show("no such group", waitpid(-999999, &status, 0));
    show("bad options", waitpid(-1, &status, 0x1234));
    show("least pid", waitpid(-2147483647 - 1, &status, 0));
}

CASE(no_children_waitid)
{
    siginfo_t info;

    show("all", waitid(P_ALL, 0, &info, WEXITED));
    show("no event", waitid(P_ALL, 0, &info, WNOHANG));
    show("bad type", waitid(9, 0, &info, WEXITED));
    show("pid 0", waitid(P_PID, 0, &info, WEXITED));
    show("bad options", waitid(P_ALL, 0, &info, WEXITED | 0x1000));
    show("bad pidfd", waitid(P_PIDFD, 1000, &info, WEXITED));
    show("no pidfd", waitid(P_PIDFD, 0, &info, WEXITED));
}

CASE(wnohang)
{
    int gate[2], status = -1;
    pid_t pid;

    make_pipe(gate);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        gate_wait(gate[0]);
        _exit(3);
    }
    show("not yet", waitpid(pid, &status, WNOHANG));
    show("none yet", waitpid(-1, &status, WNOHANG));
    number("status untouched", status);
    gate_open(gate[1]);
    until_over(pid);
    truth("now", waitpid(-1, &status, WNOHANG) == pid);
    show_status("child", status);
    show("no more", waitpid(-1, &status, WNOHANG));
}

CASE(waiting_blocks)
{
    int64_t start = now_ns();
    pid_t pid;

    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        sleep_ms(60);
        _exit(0);
    }
    child_end("child", pid);
    show_elapsed(start, 60);
}

CASE(zombies_wait_in_the_order_of_creation)
{
    pid_t pids[4];

    for (int i = 0; i < 4; i++)
        pids[i] = child_exiting(i + 1);
    for (int i = 3; i >= 0; i--)
        until_over(pids[i]);
    for (int i = 0; i < 4; i++) {
        int status;

        truth("next", wait(&status) == pids[i]);
        show_status("child", status);
    }
}

CASE(one_of_several)
{
    pid_t first = child_exiting(1), second = child_exiting(2), third = child_exiting(3);

    child_end("second", second);
    child_end("third", third);
    child_end("first", first);
    show("again", waitpid(second, NULL, 0));
}

CASE(killed_children)
{
    int signals[] = { SIGKILL, SIGTERM, SIGHUP, SIGUSR1, SIGALRM, SIGPIPE, SIGRTMIN + 1 };
    struct rlimit none = { 0, 0 };

    MUST(setrlimit(RLIMIT_CORE, &none));
    for (size_t i = 0; i < COUNT_OF(signals); i++) {
        pid_t pid = child_start(pause_for_ever, NULL);
        int status;

        MUST(kill(pid, signals[i]));
        MUST(waitpid(pid, &status, 0));
        truth("signaled", WIFSIGNALED(status) && WTERMSIG(status) == signals[i]);
    }
}

static int crash(void *argument)
{
    (void)argument;
    *(volatile int *)8 = 1;
    return 0;
}

static int abort_at_once(void *argument)
{
    (void)argument;
    abort();
}

static int divide(void *argument)
{
    volatile int zero = 0;

    (void)argument;
    return 1 / zero;
}

CASE(crashes)
{
    in_child("null pointer", crash, NULL);
    in_child("abort", abort_at_once, NULL);
    in_child("division", divide, NULL);
}

CASE(waitid_of_an_exit)
{
    pid_t pid = child_exiting(77);
    siginfo_t info;

    memset(&info, 0xee, sizeof info);
    show("WNOWAIT", waitid(P_PID, pid, &info, WEXITED | WNOWAIT));
    show_info("info", &info, pid);
    memset(&info, 0xee, sizeof info);
    show("again", waitid(P_ALL, 0, &info, WEXITED));
    show_info("info", &info, pid);
    show("gone", waitid(P_PID, pid, &info, WEXITED));
}

CASE(waitid_of_a_kill)
{
    pid_t pid = child_start(pause_for_ever, NULL);
    siginfo_t info;

    MUST(kill(pid, SIGTERM));
    MUST(waitid(P_PID, pid, &info, WEXITED));
    show_info("info", &info, pid);
}

CASE(waitid_without_news)
{
    pid_t pid = child_start(pause_for_ever, NULL);
    siginfo_t info;

    memset(&info, 0xee, sizeof info);
    show("waitid", waitid(P_PID, pid, &info, WEXITED | WNOHANG));
    show_info("info", &info, pid);
    show("no info wanted", waitid(P_PID, pid, NULL, WEXITED | WNOHANG));
    MUST(kill(pid, SIGKILL));
    show("no info wanted", waitid(P_PID, pid, NULL, WEXITED));
}

CASE(bad_pointers)
{
    pid_t pid = child_exiting(0);

    until_over(pid);
    show("status", syscall(SYS_wait4, pid, (int *)8, 0, NULL));
    show("it is reaped all the same", waitpid(pid, NULL, 0));
}

CASE(usage_of_children)
{
    struct rusage usage, before;
    pid_t pid = child_exiting(0);

    MUST(getrusage(RUSAGE_CHILDREN, &before));
    memset(&usage, 0xee, sizeof usage);
    show("wait4", wait4(pid, NULL, 0, &usage) == pid);
    truth("sane", usage.ru_utime.tv_sec >= 0 && usage.ru_utime.tv_sec < 1000 && usage.ru_maxrss > 0);
    MUST(getrusage(RUSAGE_CHILDREN, &usage));
    truth("never less", usage.ru_utime.tv_sec >= before.ru_utime.tv_sec);
}

static volatile sig_atomic_t count;
static siginfo_t last;

static void on_child(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    last = *info;
    count++;
}

static void catch_children(int flags)
{
    struct sigaction action = { .sa_sigaction = on_child, .sa_flags = SA_SIGINFO | flags };

    count = 0;
    MUST(sigaction(SIGCHLD, &action, NULL));
}

CASE(sigchld_of_an_exit)
{
    pid_t pid;

    catch_children(0);
    pid = child_exiting(5);
    until_over(pid);
    number("signals", count);
    show_info("info", &last, pid);
    child_end("child", pid);
}

CASE(sigchld_of_a_kill)
{
    pid_t pid;

    catch_children(0);
    pid = child_start(pause_for_ever, NULL);
    MUST(kill(pid, SIGUSR2));
    until_over(pid);
    number("signals", count);
    show_info("info", &last, pid);
    child_end("child", pid);
}

CASE(sigchld_interrupts_sleep)
{
    struct timespec time = timespec_of_ms(150);
    int64_t start = now_ns();
    pid_t pid;

    catch_children(0);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        sleep_ms(30);
        _exit(0);
    }
    show("nanosleep", nanosleep(&time, NULL));
    show_elapsed(start, 30);
    number("signals", count);
    child_end("child", pid);
}

CASE(default_sigchld_interrupts_nothing)
{
    struct timespec time = timespec_of_ms(60);
    pid_t pid = child_exiting(0);

    show("nanosleep", nanosleep(&time, NULL));
    child_end("child", pid);
}

CASE(wait_returns_before_its_handler_runs)
{
    int status;
    pid_t pid;

    catch_children(0);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        sleep_ms(30);
        _exit(8);
    }
    truth("wait", waitpid(pid, &status, 0) == pid);
    number("signals", count);
    show_status("child", status);
}

CASE(another_signal_interrupts_wait)
{
    struct itimerval timer = { .it_value = { .tv_usec = 30000 } };
    struct sigaction action = { .sa_sigaction = on_child, .sa_flags = SA_SIGINFO };
    pid_t pid = child_start(pause_for_ever, NULL);

    MUST(sigaction(SIGALRM, &action, NULL));
    MUST(setitimer(ITIMER_REAL, &timer, NULL));
    show("wait", waitpid(pid, NULL, 0));
    action.sa_flags |= SA_RESTART;
    MUST(sigaction(SIGALRM, &action, NULL));
    MUST(setitimer(ITIMER_REAL, &timer, NULL));
    fflush(stdout);
    pid_t killer = MUST(fork());
    if (killer == 0) {
        sleep_ms(60);
        kill(pid, SIGKILL);
        _exit(0);
    }
    child_end("restarted", pid);
    child_end("killer", killer);
}

CASE(ignored_sigchld_reaps)
{
    pid_t pid;

    signal(SIGCHLD, SIG_IGN);
    pid = child_exiting(3);
    show("wait", waitpid(pid, NULL, 0));
    child_exiting(4);
    child_exiting(5);
    show("wait for all", wait(NULL));
}

CASE(no_child_wait_reaps)
{
    pid_t pid;

    catch_children(SA_NOCLDWAIT);
    pid = child_exiting(3);
    while (waitpid(pid, NULL, 0) == -1 && errno == EINTR)
        ;
    show("wait", waitpid(pid, NULL, 0));
    number("signals", count);
}

CASE(blocked_sigchld_waits)
{
    struct timespec none = { 0, 0 };
    siginfo_t info;
    sigset_t set, pending;
    pid_t pid;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    pid = child_exiting(1);
    child_end("child", pid);
    sigpending(&pending);
    truth("pending", sigismember(&pending, SIGCHLD));
    show("sigtimedwait", sigtimedwait(&set, &info, &none));
    show_info("info", &info, pid);
    show("none left", sigtimedwait(&set, &info, &none));
}

CASE(sigwaitinfo_for_a_child)
{
    siginfo_t info;
    sigset_t set;
    pid_t pid;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        sleep_ms(30);
        _exit(9);
    }
    show("sigwaitinfo", sigwaitinfo(&set, &info));
    show_info("info", &info, pid);
    child_end("child", pid);
}

CASE(a_zombie)
{
    pid_t pid = child_exiting(0);
    char path[64], line[512] = "";
    FILE *file;

    until_over(pid);
    show("signal 0", kill(pid, 0));
    show("signal", kill(pid, SIGKILL));
    truth("its group", getpgid(pid) == getpgrp());
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    file = fopen(path, "r");
    truth("stat", file && fgets(line, sizeof line, file) && strstr(line, ") Z "));
    if (file)
        fclose(file);
    snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    file = fopen(path, "r");
    truth("cmdline is empty", file && !fgets(line, sizeof line, file));
    if (file)
        fclose(file);
    child_end("child", pid);
    show("signal 0", kill(pid, 0));
}

CASE(orphans_go_to_init)
{
    int news[2];
    pid_t pid, orphan_parent = 0;

    make_pipe(news);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        pid_t parent = getpid();

        if (fork() == 0) {
            pid_t now;

            while ((now = getppid()) == parent)
                sleep_ms(5);
            MUST(write(news[1], &now, sizeof now));
            _exit(0);
        }
        _exit(0);
    }
    child_end("child", pid);
    close(news[1]);
    MUST(read(news[0], &orphan_parent, sizeof orphan_parent));
    truth("not ours", orphan_parent != getpid());
    wait_for_end(news[0]);
    show("nothing to wait for", wait(NULL));
}

CASE(a_subreaper_gets_orphans)
{
    int news[2], value = -1;
    pid_t pid, orphan_parent = 0;

    MUST(prctl(PR_SET_CHILD_SUBREAPER, 1));
    MUST(prctl(PR_GET_CHILD_SUBREAPER, &value));
    number("subreaper", value);
    catch_children(SA_RESTART);
    make_pipe(news);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        pid_t parent = getpid();

        prctl(PR_GET_CHILD_SUBREAPER, &value);
        if (fork() == 0) {
            pid_t now;

            while ((now = getppid()) == parent)
                sleep_ms(5);
            MUST(write(news[1], &now, sizeof now));
            _exit(value ? 1 : 33);
        }
        _exit(0);
    }
    child_end("child", pid);
    MUST(read(news[0], &orphan_parent, sizeof orphan_parent));
    truth("ours", orphan_parent == getpid());
    int status;
    truth("waited", wait(&status) > 0);
    show_status("orphan", status);
    show("no more", wait(NULL));
    MUST(prctl(PR_SET_CHILD_SUBREAPER, 0));
}

CASE(orphaned_zombies_are_the_subreapers)
{
    int status;
    pid_t pid;

    MUST(prctl(PR_SET_CHILD_SUBREAPER, 1));
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        pid_t zombie = child_exiting(44);

        until_over(zombie);
        _exit(0);
    }
    child_end("child", pid);
    truth("zombie", wait(&status) > 0);
    show_status("zombie", status);
    MUST(prctl(PR_SET_CHILD_SUBREAPER, 0));
}

CASE(daemons_fork_twice)
{
    int news[2];
    char word[32] = "";
    pid_t pid;

    make_pipe(news);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        if (setsid() == -1)
            _exit(1);
        if (fork())
            _exit(0);
        close(news[0]);
        sleep_ms(30);
        snprintf(word, sizeof word, "daemon leads %d %d", getpid() == getpgrp(), getpid() == getsid(0));
        MUST(write(news[1], word, strlen(word)));
        _exit(0);
    }
    close(news[1]);
    child_end("first child", pid);
    long length = MUST(read(news[0], word, sizeof word));
    bytes("daemon", word, length);
    wait_for_end(news[0]);
}

CASE(stop_and_continue)
{
    int status;
    siginfo_t info;
    pid_t pid;

    catch_children(0);
    pid = child_start(pause_for_ever, NULL);
    MUST(kill(pid, SIGSTOP));
    truth("stopped", waitpid(pid, &status, WUNTRACED) == pid);
    show_status("child", status);
    number("signals", count);
    show_info("signal", &last, pid);
    show("told once", waitpid(pid, &status, WUNTRACED | WNOHANG));
    MUST(kill(pid, SIGCONT));
    MUST(waitid(P_PID, pid, &info, WCONTINUED));
    show_info("waitid", &info, pid);
    MUST(kill(pid, SIGTERM));
    child_end("child", pid);
}

CASE(stops_are_told_without_reaping)
{
    siginfo_t info;
    pid_t pid = child_start(pause_for_ever, NULL);

    MUST(kill(pid, SIGSTOP));
    MUST(waitid(P_PID, pid, &info, WSTOPPED | WNOWAIT));
    show_info("seen", &info, pid);
    MUST(waitid(P_PID, pid, &info, WSTOPPED));
    show_info("taken", &info, pid);
    info.si_pid = 0;
    show("no more", waitid(P_PID, pid, &info, WSTOPPED | WNOHANG));
    number("pid", info.si_pid);
    MUST(kill(pid, SIGKILL));
    child_end("killed while stopped", pid);
}

CASE(no_signals_of_stops)
{
    int status;
    pid_t pid;

    catch_children(SA_NOCLDSTOP);
    pid = child_start(pause_for_ever, NULL);
    MUST(kill(pid, SIGSTOP));
    MUST(waitpid(pid, &status, WUNTRACED));
    MUST(kill(pid, SIGCONT));
    MUST(waitpid(pid, &status, WCONTINUED));
    show_status("child", status);
    number("signals", count);
    MUST(kill(pid, SIGKILL));
    until_over(pid);
    number("signals", count);
    child_end("child", pid);
}

CASE(a_stopped_process_does_nothing)
{
    int there[2], back[2], status;
    struct pollfd ready;
    pid_t pid;

    make_pipe(there);
    make_pipe(back);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        gate_wait(there[0]);
        gate_open(back[1]);
        _exit(0);
    }
    MUST(kill(pid, SIGSTOP));
    MUST(waitpid(pid, &status, WUNTRACED));
    gate_open(there[1]);
    ready = (struct pollfd){ .fd = back[0], .events = POLLIN };
    show("no answer", poll(&ready, 1, 50));
    MUST(kill(pid, SIGUSR1));
    show("signals wait too", waitpid(pid, &status, WNOHANG));
    MUST(kill(pid, SIGCONT));
    child_end("child", pid);
}

static volatile sig_atomic_t continued;

static void on_continue(int number)
{
    (void)number;
    continued++;
}

static int pause_until_continued(void *argument)
{
    int *gate = argument;

    signal(SIGCONT, on_continue);
    gate_open(gate[1]);
    int result = pause();
    return result == -1 && errno == EINTR && continued == 1 ? 21 : 1;
}

CASE(handler_of_continue)
{
    int gate[2], status;
    pid_t pid;

    make_pipe(gate);
    pid = child_start(pause_until_continued, gate);
    gate_wait(gate[0]);
    sleep_ms(20);
    MUST(kill(pid, SIGSTOP));
    MUST(waitpid(pid, &status, WUNTRACED));
    MUST(kill(pid, SIGCONT));
    child_end("child", pid);
}

static int sleep_and_tell(void *argument)
{
    struct timespec time = timespec_of_ms(100);

    (void)argument;
    return nanosleep(&time, NULL) == 0 ? 12 : 13;
}

CASE(sleep_goes_on_after_a_stop)
{
    int64_t start = now_ns();
    int status;
    pid_t pid = child_start(sleep_and_tell, NULL);

    sleep_ms(20);
    MUST(kill(pid, SIGSTOP));
    MUST(waitpid(pid, &status, WUNTRACED));
    sleep_ms(20);
    MUST(kill(pid, SIGCONT));
    child_end("child", pid);
    show_elapsed(start, 100);
}

CASE(stop_signals_and_continue_cancel_each_other)
{
    sigset_t set, pending;

    sigemptyset(&set);
    sigaddset(&set, SIGTSTP);
    sigaddset(&set, SIGCONT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGTSTP, on_continue);
    signal(SIGCONT, on_continue);
    raise(SIGTSTP);
    raise(SIGCONT);
    sigpending(&pending);
    printf("stop %d continue %d\n", sigismember(&pending, SIGTSTP), sigismember(&pending, SIGCONT));
    raise(SIGTSTP);
    sigpending(&pending);
    printf("stop %d continue %d\n", sigismember(&pending, SIGTSTP), sigismember(&pending, SIGCONT));
    signal(SIGTSTP, SIG_IGN);
}

CASE(pidfds)
{
    pid_t pid = child_start(pause_for_ever, NULL);
    int fd = MUST(syscall(SYS_pidfd_open, pid, 0));
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    siginfo_t info;
    char byte;

    number("close-on-exec", fcntl(fd, F_GETFD));
    show("poll", poll(&ready, 1, 0));
    show("read", read(fd, &byte, 1));
    show("bad signal", syscall(SYS_pidfd_send_signal, fd, 999, NULL, 0));
    show("flags", syscall(SYS_pidfd_send_signal, fd, 0, NULL, 77));
    show("signal 0", syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0));
    show("signal", syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0));
    show("poll", poll(&ready, 1, 2000));
    number("events", ready.revents);
    show("waitid", waitid(P_PIDFD, fd, &info, WEXITED));
    show_info("info", &info, pid);
    show("signal", syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0));
    show("poll", poll(&ready, 1, 0));
}

CASE(bad_pidfds)
{
    show("pid 0", syscall(SYS_pidfd_open, 0, 0));
    show("negative", syscall(SYS_pidfd_open, -1, 0));
    show("flags", syscall(SYS_pidfd_open, getpid(), 1));
    show("no such process", syscall(SYS_pidfd_open, 4000000, 0));
    show_ok("own", syscall(SYS_pidfd_open, getpid(), 0));
    show("no pidfd", syscall(SYS_pidfd_send_signal, 0, 0, NULL, 0));
}

static void *waiter(void *argument)
{
    int status;
    pid_t pid = waitpid(*(pid_t *)argument, &status, 0);

    return (void *)(intptr_t)(pid > 0 ? WEXITSTATUS(status) : -1);
}

CASE(any_thread_waits_for_any_child)
{
    pid_t pids[3];
    pthread_t threads[3];
    long sum = 0;

    for (int i = 0; i < 3; i++) {
        fflush(stdout);
        pids[i] = MUST(fork());
        if (pids[i] == 0) {
            sleep_ms(20);
            _exit(10 << i);
        }
    }
    for (int i = 0; i < 3; i++)
        threads[i] = thread_start(waiter, &pids[i]);
    for (int i = 0; i < 3; i++)
        sum += (long)(intptr_t)thread_join(threads[i]);
    number("sum", sum);
}

static void *exit_process(void *argument)
{
    (void)argument;
    exit(31);
}

static int exit_by_thread(void *argument)
{
    (void)argument;
    thread_join(thread_start(exit_process, NULL));
    return 1;
}

static void *sleep_on(void *argument)
{
    sleep_ms((long)(intptr_t)argument);
    return NULL;
}

static int exit_before_thread(void *argument)
{
    (void)argument;
    thread_start(sleep_on, (void *)150);
    return 32;
}

static void *exit_later(void *argument)
{
    (void)argument;
    sleep_ms(30);
    syscall(SYS_exit_group, 34);
    return NULL;
}

static int leave_by_thread_exit(void *argument)
{
    (void)argument;
    thread_start(exit_later, NULL);
    pthread_exit(NULL);
}

CASE(exits_with_threads)
{
    in_child("exit in a thread", exit_by_thread, NULL);
    in_child("exit while a thread sleeps", exit_before_thread, NULL);
    in_child("the main thread leaves first", leave_by_thread_exit, NULL);
}

/* What a child of this size adds to the pages that every process has. */
#define LARGE (12L << 20)

static int touch_much(void *argument)
{
    char *memory = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)argument;
    if (memory == MAP_FAILED)
        return 1;
    memset(memory, 1, LARGE);
    return 0;
}

CASE(memory_of_children)
{
    struct rusage usage, children;
    pid_t pid = child_start(touch_much, NULL);
    MUST(wait4(pid, NULL, 0, &usage));
    truth("of the child", usage.ru_maxrss >= LARGE / 1024 && usage.ru_maxrss < 1 << 20);
    truth("pages", usage.ru_minflt > 0);
    MUST(getrusage(RUSAGE_CHILDREN, &children));
    truth("the most of all", children.ru_maxrss >= usage.ru_maxrss);
    pid = child_start(exit_with, NULL);
    MUST(wait4(pid, NULL, 0, &usage));
    truth("a small one", usage.ru_maxrss > 0 && usage.ru_maxrss < children.ru_maxrss);
    truth("does not count", getrusage(RUSAGE_CHILDREN, &usage) == 0 && usage.ru_maxrss == children.ru_maxrss);
}

CASE(the_most_memory_that_there_was)
{
    struct rusage before, with, after;
    MUST(getrusage(RUSAGE_SELF, &before));
    char *memory = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, LARGE);
    MUST(getrusage(RUSAGE_SELF, &with));
    truth("it grows", with.ru_maxrss >= before.ru_maxrss + LARGE / 1024 / 2);
    MUST(munmap(memory, LARGE));
    MUST(getrusage(RUSAGE_SELF, &after));
    truth("it never shrinks", after.ru_maxrss >= with.ru_maxrss);
}

CASE(process_1_can_be_named)
{
    siginfo_t info;
    struct pollfd entry = { .events = POLLIN };
    entry.fd = show_ok("pidfd_open", syscall(SYS_pidfd_open, 1, 0));
    show("poll", poll(&entry, 1, 0));
    show("waitid", waitid(P_PIDFD, entry.fd, &info, WEXITED | WNOHANG));
}
