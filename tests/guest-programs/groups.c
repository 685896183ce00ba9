/*
 * Process groups and sessions, signals between processes, the death of
 * parents, limits on processes, /proc of others.
 */
#include "process.h"

#include <sys/mman.h>

static int pause_for_ever(void *argument)
{
    (void)argument;
    for (;;)
        pause();
    return 0;
}

/* A child in a group of its own, or in the given one. */
static pid_t child_in_group(pid_t group)
{
    pid_t pid = child_start(pause_for_ever, NULL);

    MUST(setpgid(pid, group));
    return pid;
}

CASE(groups_of_children)
{
    pid_t first = child_in_group(0);
    pid_t second = child_in_group(first);
    int status;

    truth("leads", getpgid(first) == first);
    truth("follows", getpgid(second) == first);
    truth("not ours", getpgrp() != first);
    truth("our session", getsid(second) == getsid(0));
    MUST(kill(-first, SIGTERM));
    until_over(second);
    until_over(first);
    truth("by group", waitpid(-first, &status, 0) == first);
    show_status("first", status);
    truth("by group", waitpid(-first, &status, 0) == second);
    show_status("second", status);
    show("no more", waitpid(-first, &status, 0));
    show("no such group", kill(-first, 0));
}

static int leads_itself(void *argument)
{
    (void)argument;
    show("setpgid", setpgid(0, 0));
    truth("leads", getpgrp() == getpid());
    show("again", setpgid(0, 0));
    show("setsid of a leader", setsid());
    return 0;
}

static int makes_session(void *argument)
{
    (void)argument;
    truth("setsid", setsid() == getpid());
    truth("group", getpgrp() == getpid());
    truth("session", getsid(0) == getpid());
    show("setpgid", setpgid(0, 0));
    show("setsid", setsid());
    return 0;
}

CASE(own_groups_and_sessions)
{
    in_child("group", leads_itself, NULL);
    in_child("session", makes_session, NULL);
}

static int errors_of_setpgid(void *argument)
{
    int gate[2], back[2];
    pid_t other, child;

    (void)argument;
    make_pipe(gate);
    make_pipe(back);
    show("negative", setpgid(0, -1));
    show("no such process", setpgid(4000000, 0));
    show("parent", setpgid(getppid(), 0));
    show("no such group", setpgid(0, 4000000));
    fflush(stdout);
    other = MUST(fork());
    if (other == 0) {
        setsid();
        gate_open(back[1]);
        gate_wait(gate[0]);
        _exit(0);
    }
    gate_wait(back[0]);
    show("child of another session", setpgid(other, 0));
    show("group of another session", setpgid(0, other));
    fflush(stdout);
    child = MUST(fork());
    if (child == 0) {
        dup2(gate[0], 0);
        dup2(back[1], 1);
        execl("/bin/sh", "sh", "-c", "echo; read line; exit 0", NULL);
        _exit(9);
    }
    gate_wait(back[0]);
    show("child that executed", setpgid(child, 0));
    MUST(write(gate[1], "\n\n", 2));
    close(gate[1]);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    show("own", setpgid(0, 0));
    return 0;
}

CASE(errors)
{
    in_child("child", errors_of_setpgid, NULL);
    show("getpgid", getpgid(4000000));
    show("getsid", getsid(4000000));
    truth("getpgid of 0", getpgid(0) == getpgrp());
}

static volatile sig_atomic_t count;
static siginfo_t last;

static void handler(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    last = *info;
    count++;
}

static void catch(int number)
{
    struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };

    MUST(sigaction(number, &action, NULL));
}

static int signals_its_group(void *argument)
{
    pid_t pids[3];
    int gate[2];

    (void)argument;
    setpgid(0, 0);
    make_pipe(gate);
    catch(SIGUSR1);
    for (int i = 0; i < 3; i++) {
        fflush(stdout);
        pids[i] = MUST(fork());
        if (pids[i] == 0) {
            gate_open(gate[1]);
            while (count == 0)
                sleep_ms(5);
            _exit(last.si_pid == getppid() ? 40 : 41);
        }
    }
    for (int i = 0; i < 3; i++)
        gate_wait(gate[0]);
    show("kill", kill(0, SIGUSR1));
    number("own", count);
    for (int i = 0; i < 3; i++)
        child_end("member", pids[i]);
    return 0;
}

CASE(signal_to_ones_group)
{
    in_child("leader", signals_its_group, NULL);
}

static int gate_for_all[2];

static int answer_signals(void *argument)
{
    (void)argument;
    catch(SIGUSR1);
    catch(SIGRTMIN + 2);
    gate_open(gate_for_all[1]);
    for (int answered = 0;; answered++) {
        while (count == answered)
            sleep_ms(5);
        printf("signal %s code %d value %d sender %s\n", last.si_signo == SIGUSR1 ? "USR1" : "RT", last.si_code,
               last.si_code == SI_QUEUE ? last.si_value.sival_int : 0, last.si_pid == getppid() ? "right" : "wrong");
        fflush(stdout);
        gate_open(gate_for_all[1]);
    }
    return 0;
}

CASE(siginfo_from_other_processes)
{
    pid_t pid;

    make_pipe(gate_for_all);
    pid = child_start(answer_signals, NULL);
    gate_wait(gate_for_all[0]);
    MUST(kill(pid, SIGUSR1));
    gate_wait(gate_for_all[0]);
    MUST(syscall(SYS_tgkill, pid, pid, SIGUSR1));
    gate_wait(gate_for_all[0]);
    MUST(sigqueue(pid, SIGRTMIN + 2, (union sigval){ .sival_int = 77 }));
    gate_wait(gate_for_all[0]);
    show("wrong group", syscall(SYS_tgkill, getpid(), pid, SIGUSR1));
    siginfo_t forged = { .si_signo = SIGUSR1, .si_code = SI_USER };
    show("forged", syscall(SYS_rt_sigqueueinfo, pid, SIGUSR1, &forged));
    MUST(kill(pid, SIGKILL));
    child_end("child", pid);
}

CASE(bad_signals)
{
    pid_t pid = child_start(pause_for_ever, NULL);

    show("0", kill(pid, 0));
    show("65", kill(pid, 65));
    show("-1", kill(pid, -1));
    show("no such process", kill(4000000, SIGTERM));
    show("no such group", kill(-4000000, SIGTERM));
    MUST(kill(pid, SIGKILL));
    child_end("child", pid);
}

static int counts_real_time(void *argument)
{
    int *gate = argument;
    sigset_t set;
    siginfo_t info;

    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 1);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    gate_open(gate[1]);
    sleep_ms(60);
    for (int i = 0; i < 4; i++) {
        MUST(sigwaitinfo(&set, &info));
        printf("%s %d\n", info.si_signo == SIGUSR1 ? "USR1" : "RT", info.si_value.sival_int);
    }
    struct timespec none = { 0, 0 };
    show("no more", sigtimedwait(&set, &info, &none));
    return 0;
}

CASE(queued_signals_of_another_process)
{
    int gate[2];
    pid_t pid;

    make_pipe(gate);
    pid = child_start(counts_real_time, gate);
    gate_wait(gate[0]);
    for (int i = 1; i <= 3; i++)
        MUST(sigqueue(pid, SIGRTMIN + 1, (union sigval){ .sival_int = i }));
    MUST(sigqueue(pid, SIGUSR1, (union sigval){ .sival_int = 10 }));
    MUST(sigqueue(pid, SIGUSR1, (union sigval){ .sival_int = 11 }));
    child_end("child", pid);
}

static int dies_with_parent(void *argument)
{
    int *news = argument;
    pid_t grandchild;

    fflush(stdout);
    grandchild = MUST(fork());
    if (grandchild == 0) {
        int value = -1;

        MUST(prctl(PR_SET_PDEATHSIG, SIGUSR1));
        catch(SIGUSR1);
        fflush(stdout);
        if (fork() == 0) {
            MUST(prctl(PR_GET_PDEATHSIG, &value));
            _exit(value);
        }
        int status;
        MUST(wait(&status));
        value = WEXITSTATUS(status);
        MUST(write(news[1], &value, sizeof value));
        while (count == 0)
            sleep_ms(5);
        value = 100 + (last.si_signo == SIGUSR1);
        MUST(write(news[1], &value, sizeof value));
        _exit(0);
    }
    sleep_ms(30);
    return 0;
}

CASE(death_of_the_parent)
{
    int news[2], value;

    make_pipe(news);
    in_child("child", dies_with_parent, news);
    close(news[1]);
    MUST(read(news[0], &value, sizeof value));
    number("not inherited", value);
    MUST(read(news[0], &value, sizeof value));
    number("told", value);
    wait_for_end(news[0]);
}

CASE(death_signal_arguments)
{
    int value = -1;

    show("bad", prctl(PR_SET_PDEATHSIG, 65));
    show("good", prctl(PR_SET_PDEATHSIG, SIGTERM));
    show("get", prctl(PR_GET_PDEATHSIG, &value));
    number("value", value);
    show("none", prctl(PR_SET_PDEATHSIG, 0));
}

static int stops_its_group(void *argument)
{
    pid_t pids[2];
    int status;

    (void)argument;
    pids[0] = child_in_group(0);
    pids[1] = child_in_group(pids[0]);
    MUST(kill(-pids[0], SIGTSTP));
    for (int i = 0; i < 2; i++) {
        MUST(waitpid(pids[i], &status, WUNTRACED));
        show_status("member", status);
    }
    MUST(kill(-pids[0], SIGCONT));
    for (int i = 0; i < 2; i++) {
        MUST(waitpid(pids[i], &status, WCONTINUED));
        show_status("member", status);
    }
    MUST(kill(-pids[0], SIGKILL));
    for (int i = 0; i < 2; i++)
        child_end("member", pids[i]);
    return 0;
}

CASE(stopping_a_group)
{
    in_child("shell", stops_its_group, NULL);
}

static int leaves_stopped_job(void *argument)
{
    int *news = argument;
    int status;
    pid_t pid;

    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        int byte;

        setpgid(0, 0);
        catch(SIGHUP);
        raise(SIGSTOP);
        while (count == 0)
            sleep_ms(5);
        byte = last.si_signo;
        MUST(write(news[1], &byte, sizeof byte));
        _exit(0);
    }
    MUST(waitpid(pid, &status, WUNTRACED));
    show_status("job", status);
    return 0;
}

CASE(orphaned_stopped_groups_are_hung_up)
{
    int news[2], value = 0;

    make_pipe(news);
    in_child("shell", leaves_stopped_job, news);
    close(news[1]);
    MUST(read(news[0], &value, sizeof value));
    number("signal", value);
    wait_for_end(news[0]);
}

CASE(fields_of_stat)
{
    char path[64], line[1024];
    int gate[2], parent, group, session, fields;
    char state = 0, name[64];
    pid_t pid, shown;

    make_pipe(gate);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        MUST(prctl(PR_SET_NAME, "a (child) x"));
        setsid();
        gate_open(gate[1]);
        for (;;)
            pause();
    }
    gate_wait(gate[0]);
    sleep_ms(20);
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    MUST(fgets(line, sizeof line, file) ? 0 : -1);
    fclose(file);
    fields = sscanf(line, "%d (%11[^z]) %c %d %d %d", &shown, name, &state, &parent, &group, &session);
    number("fields", fields);
    text("name", name);
    printf("state %c\n", state);
    truth("numbers", shown == pid && parent == getpid() && group == pid && session == pid);
    MUST(kill(pid, SIGSTOP));
    MUST(waitpid(pid, NULL, WUNTRACED));
    file = fopen(path, "r");
    MUST(fgets(line, sizeof line, file) ? 0 : -1);
    fclose(file);
    sscanf(line, "%d (%11[^z]) %c", &shown, name, &state);
    printf("state %c\n", state);
    MUST(kill(pid, SIGKILL));
    child_end("child", pid);
    show_ok("gone", (long)fopen(path, "r") ? 0 : -1);
}

CASE(lines_of_status)
{
    char path[64], line[256];
    pid_t pid = child_start(pause_for_ever, NULL);

    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "r");
    while (fgets(line, sizeof line, file)) {
        int value;

        if (sscanf(line, "Pid: %d", &value) == 1)
            truth("Pid", value == pid);
        if (sscanf(line, "Tgid: %d", &value) == 1)
            truth("Tgid", value == pid);
        if (sscanf(line, "PPid: %d", &value) == 1)
            truth("PPid", value == getpid());
        if (sscanf(line, "Threads: %d", &value) == 1)
            number("Threads", value);
    }
    fclose(file);
    MUST(kill(pid, SIGKILL));
    child_end("child", pid);
}

CASE(descriptors_of_another_process)
{
    char path[64], target[PATH_LIMIT];
    int gate[2];
    pid_t pid;

    scratch();
    make_pipe(gate);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        int fd = MUST(open("/dev/null", O_RDONLY));

        MUST(dup2(fd, 50));
        MUST(mkdir("inside", 0755));
        MUST(chdir("inside"));
        gate_open(gate[1]);
        for (;;)
            pause();
    }
    gate_wait(gate[0]);
    snprintf(path, sizeof path, "/proc/%d/fd/50", pid);
    long length = MUST(readlink(path, target, sizeof target));
    bytes("descriptor 50", target, length);
    snprintf(path, sizeof path, "/proc/%d/fd/51", pid);
    show("descriptor 51", readlink(path, target, sizeof target));
    snprintf(path, sizeof path, "/proc/%d/cwd", pid);
    length = MUST(readlink(path, target, sizeof target - 1));
    target[length] = 0;
    text("directory", strrchr(target, '/'));
    MUST(kill(pid, SIGKILL));
    child_end("child", pid);
}

CASE(tasks_of_another_process)
{
    char path[64];
    int tasks = 0;
    struct dirent *entry;
    pid_t pid = child_start(pause_for_ever, NULL);

    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *dir = opendir(path);
    while ((entry = readdir(dir)))
        if (atoi(entry->d_name) == pid)
            tasks++;
    closedir(dir);
    number("tasks", tasks);
    snprintf(path, sizeof path, "/proc/%d/task/%d/comm", pid, pid);
    show_ok("comm", access(path, R_OK));
    MUST(kill(pid, SIGKILL));
    child_end("child", pid);
}

CASE(listing_proc)
{
    pid_t pid = child_start(pause_for_ever, NULL);
    struct dirent *entry;
    int own = 0, child = 0;
    DIR *dir = opendir("/proc");

    while ((entry = readdir(dir))) {
        own += atoi(entry->d_name) == getpid();
        child += atoi(entry->d_name) == pid;
    }
    closedir(dir);
    printf("own %d child %d\n", own, child);
    MUST(kill(pid, SIGKILL));
    child_end("child", pid);
}

CASE(scheduling_of_another_process)
{
    int before = getpriority(PRIO_PROCESS, 0);
    pid_t pid = child_start(pause_for_ever, NULL);

    show("setpriority", setpriority(PRIO_PROCESS, pid, 17));
    show("getpriority", getpriority(PRIO_PROCESS, pid));
    truth("own is as before", getpriority(PRIO_PROCESS, 0) == before);
    errno = 0;
    show("nobody", getpriority(PRIO_PROCESS, 4000000));
    struct rlimit limit = { 30, 40 };
    show("prlimit", prlimit(pid, RLIMIT_NOFILE, &limit, NULL));
    memset(&limit, 0, sizeof limit);
    show("prlimit", prlimit(pid, RLIMIT_NOFILE, NULL, &limit));
    printf("%ld %ld\n", (long)limit.rlim_cur, (long)limit.rlim_max);
    show("nobody", prlimit(4000000, RLIMIT_NOFILE, NULL, &limit));
    MUST(kill(pid, SIGKILL));
    child_end("child", pid);
}
