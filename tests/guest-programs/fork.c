/*
 * fork, vfork and clone: what a child has from its parent, what it has not,
 * and what the two share.
 */
#include "process.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static int exit_with(void *argument)
{
    return (int)(intptr_t)argument;
}

CASE(exit_codes)
{
    in_child("0", exit_with, (void *)0);
    in_child("1", exit_with, (void *)1);
    in_child("255", exit_with, (void *)255);
    in_child("256", exit_with, (void *)256);
    in_child("-1", exit_with, (void *)-1);
}

CASE(ids_of_parent_and_child)
{
    pid_t parent = getpid();
    pid_t group = getpgrp();
    pid_t session = getsid(0);
    pid_t pid;

    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        truth("own pid", getpid() != parent);
        truth("own tid is pid", syscall(SYS_gettid) == getpid());
        truth("parent", getppid() == parent);
        truth("same group", getpgrp() == group);
        truth("same session", getsid(0) == session);
        fflush(stdout);
        _exit(getpid() & 0x7f);
    }
    int status;
    truth("waited for it", waitpid(pid, &status, 0) == pid);
    truth("its number", WEXITSTATUS(status) == (pid & 0x7f));
    truth("gone", kill(pid, 0) == -1 && errno == ESRCH);
}

static int global = 1;
static char zeroed[3 << 12];

CASE(memory_is_copied)
{
    int local = 1;
    char *heap = malloc(100000);
    char *mapped = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int to_child[2], to_parent[2];
    pid_t pid;

    fill_pattern(heap, 100000, 1);
    fill_pattern(mapped, 1 << 20, 2);
    global = 2;
    memset(zeroed, 3, sizeof zeroed);
    make_pipe(to_child);
    make_pipe(to_parent);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        char byte;

        /* The parent changes everything first. */
        gate_wait(to_child[0]);
        printf("child sees %d %d %d\n", local, global, zeroed[5000]);
        printf("child sees %016lx %016lx\n", (unsigned long)checksum(CHECKSUM_START, heap, 100000),
               (unsigned long)checksum(CHECKSUM_START, mapped, 1 << 20));
        local = 20;
        global = 21;
        memset(heap, 22, 100000);
        memset(mapped, 23, 1 << 20);
        memset(zeroed, 24, sizeof zeroed);
        gate_open(to_parent[1]);
        byte = gate_wait(to_child[0]);
        printf("child keeps %d %d %d %d %d %d\n", local, global, heap[9], mapped[9], zeroed[9], byte);
        fflush(stdout);
        _exit(0);
    }
    local = 10;
    global = 11;
    memset(heap, 12, 100000);
    memset(mapped, 13, 1 << 20);
    memset(zeroed, 14, sizeof zeroed);
    gate_open(to_child[1]);
    gate_wait(to_parent[0]);
    printf("parent keeps %d %d %d %d %d\n", local, global, heap[9], mapped[9], zeroed[9]);
    gate_open(to_child[1]);
    child_end("child", pid);
    printf("parent keeps %d %d %d %d %d\n", local, global, heap[9], mapped[9], zeroed[9]);
    free(heap);
    munmap(mapped, 1 << 20);
}

CASE(mappings_are_the_childs_own)
{
    char *kept = mmap(NULL, 4 << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *removed = mmap(NULL, 4 << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pid_t pid;

    strcpy(kept, "kept");
    strcpy(removed, "parent's");
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        char *more;

        show("munmap", munmap(removed, 4 << 12));
        show("mprotect", mprotect(kept, 4 << 12, PROT_READ));
        more = mmap(NULL, 64 << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(more, 5, 64 << 12);
        text("kept", kept);
        /* The brk moves too. */
        char *top = sbrk(1 << 16);
        memset(top, 7, 1 << 16);
        number("brk", top[100]);
        fflush(stdout);
        _exit(0);
    }
    child_end("child", pid);
    text("parent's", removed);
    strcpy(kept, "written by the parent");
    text("kept", kept);
    munmap(kept, 4 << 12);
    munmap(removed, 4 << 12);
}

CASE(shared_mappings_are_shared)
{
    volatile int *shared = mmap(NULL, 1 << 12, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    volatile int *private = mmap(NULL, 1 << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pid_t pid;

    shared[0] = private[0] = 1;
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        shared[0] += 10;
        private[0] += 10;
        fflush(stdout);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            shared[1] = shared[0] + 100;
            _exit(0);
        }
        waitpid(grandchild, NULL, 0);
        _exit(0);
    }
    child_end("child", pid);
    number("shared", shared[0]);
    number("shared by the grandchild", shared[1]);
    number("private", private[0]);
    munmap((void *)shared, 1 << 12);
    munmap((void *)private, 1 << 12);
}

CASE(shared_file_mappings)
{
    int fd;
    char *shared, *private;
    pid_t pid;

    scratch();
    file_make("file", "0123456789");
    fd = MUST(open("file", O_RDWR));
    shared = mmap(NULL, 10, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    private = mmap(NULL, 10, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    private[1] = 'p';
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        shared[0] = 'c';
        private[2] = 'c';
        bytes("child's private", private, 10);
        fflush(stdout);
        _exit(0);
    }
    child_end("child", pid);
    bytes("shared", shared, 10);
    bytes("private, changed pages aside", private + 1, 1);
    truth("not the child's", private[2] == '2');
    munmap(shared, 10);
    munmap(private, 10);
    file_show("file");
}

static int depth(void *argument)
{
    int level = (int)(intptr_t)argument;
    int status = -1;
    pid_t pid;

    if (level == 0)
        return 1;
    pid = fork();
    if (pid == 0)
        _exit(depth((void *)(intptr_t)(level - 1)));
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status) + 1;
}

CASE(generations)
{
    in_child("ten generations", depth, (void *)9);
}

CASE(many_children_at_once)
{
    pid_t pids[40];
    int sum = 0;

    fflush(stdout);
    for (int i = 0; i < 40; i++) {
        pids[i] = MUST(fork());
        if (pids[i] == 0)
            _exit(i);
    }
    for (int i = 39; i >= 0; i--) {
        int status;

        truth("right child", waitpid(pids[i], &status, 0) == pids[i] && WEXITSTATUS(status) == i);
        sum += WEXITSTATUS(status);
    }
    number("sum", sum);
    show("no more", wait(NULL));
}

CASE(fork_bombs_in_rows)
{
    int total = 0;

    for (int round = 0; round < 100; round++) {
        pid_t pid = MUST(fork());
        int status;

        if (pid == 0)
            _exit(round);
        MUST(waitpid(pid, &status, 0));
        total += WEXITSTATUS(status);
    }
    number("total", total);
}

CASE(pipe_from_child)
{
    int ends[2];
    char data[16];
    pid_t pid;

    make_pipe(ends);
    pid = MUST(fork());
    if (pid == 0) {
        close(ends[0]);
        MUST(write(ends[1], "from child", 10));
        _exit(0);
    }
    close(ends[1]);
    long length = MUST(read(ends[0], data, sizeof data));
    bytes("read", data, length);
    child_end("child", pid);
    show("end", read(ends[0], data, sizeof data));
}

CASE(pipe_to_child)
{
    int ends[2];
    pid_t pid;

    make_pipe(ends);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        char data[16];
        long length;

        close(ends[1]);
        while ((length = read(ends[0], data, 4)) > 0)
            bytes("child read", data, length);
        number("end", length);
        fflush(stdout);
        _exit(0);
    }
    close(ends[0]);
    MUST(write(ends[1], "0123456789", 10));
    close(ends[1]);
    child_end("child", pid);
}

CASE(much_data_through_pipes)
{
    enum { TOTAL = 1 << 20 };
    int there[2], back[2];
    uint64_t sum = CHECKSUM_START;
    static char block[8192];
    long done = 0;
    pid_t writer, filter;

    make_pipe(there);
    make_pipe(back);
    writer = MUST(fork());
    if (writer == 0) {
        for (int i = 0; i < TOTAL / 8192; i++) {
            fill_pattern(block, sizeof block, i);
            MUST(write(there[1], block, sizeof block));
        }
        _exit(0);
    }
    filter = MUST(fork());
    if (filter == 0) {
        long length;

        close(there[1]);
        close(back[0]);
        while ((length = read(there[0], block, sizeof block)) > 0)
            MUST(write(back[1], block, length));
        _exit(length == 0 ? 0 : 1);
    }
    close(there[0]);
    close(there[1]);
    close(back[1]);
    for (;;) {
        long length = MUST(read(back[0], block, sizeof block));

        if (length == 0)
            break;
        sum = checksum(sum, block, length);
        done += length;
    }
    number("bytes", done);
    printf("sum %016lx\n", (unsigned long)sum);
    child_end("writer", writer);
    child_end("filter", filter);
}

CASE(broken_pipe_to_a_child_that_is_gone)
{
    int ends[2];
    pid_t pid;

    signal(SIGPIPE, SIG_IGN);
    make_pipe(ends);
    pid = MUST(fork());
    if (pid == 0)
        _exit(0);
    close(ends[0]);
    child_end("child", pid);
    show("write", write(ends[1], "x", 1));
}

CASE(offsets_are_shared)
{
    int fd;
    char data[4];
    pid_t pid;

    scratch();
    file_make("file", "0123456789");
    fd = MUST(open("file", O_RDWR));
    MUST(read(fd, data, 2));
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        MUST(read(fd, data, 3));
        bytes("child reads", data, 3);
        fcntl(fd, F_SETFL, O_APPEND);
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        fflush(stdout);
        _exit(0);
    }
    child_end("child", pid);
    MUST(read(fd, data, 2));
    bytes("parent reads on", data, 2);
    truth("status flags are shared", fcntl(fd, F_GETFL) & O_APPEND);
    number("descriptor flags are not", fcntl(fd, F_GETFD));
    /* A file opened twice has two offsets. */
    int other = MUST(open("file", O_RDONLY));
    show("other", lseek(other, 0, SEEK_CUR));
}

CASE(descriptors_are_copied)
{
    int fd;
    pid_t pid;

    scratch();
    file_make("file", "abc");
    fd = MUST(open("file", O_RDONLY));
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        close(fd);
        show("closed in the child", fcntl(fd, F_GETFD));
        MUST(open("/dev/null", O_RDONLY));
        fflush(stdout);
        _exit(0);
    }
    child_end("child", pid);
    show("open in the parent", fcntl(fd, F_GETFD));
    char data[4];
    show("read", read(fd, data, 4));
}

CASE(closing_in_one_leaves_the_other)
{
    int pair[2];
    char data[8];
    pid_t pid;

    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        close(pair[0]);
        gate_wait(pair[1]);
        MUST(write(pair[1], "late", 4));
        _exit(0);
    }
    close(pair[1]);
    gate_open(pair[0]);
    long length = MUST(read(pair[0], data, sizeof data));
    bytes("read", data, length);
    show("end", read(pair[0], data, sizeof data));
    child_end("child", pid);
}

CASE(shutdown_reaches_all_holders)
{
    int pair[2];
    char byte;
    pid_t pid;

    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        show("child's read ends", read(pair[1], &byte, 1));
        fflush(stdout);
        _exit(0);
    }
    MUST(shutdown(pair[0], SHUT_WR));
    child_end("child", pid);
}

CASE(working_directory_and_umask)
{
    char where[PATH_LIMIT];
    pid_t pid;

    scratch();
    MUST(mkdir("below", 0755));
    umask(027);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        number("child's umask", umask(077));
        show("chdir", chdir("below"));
        fflush(stdout);
        _exit(0);
    }
    child_end("child", pid);
    number("parent's umask", umask(022));
    text("parent is in", strrchr(getcwd(where, sizeof where), '/'));
}

static volatile sig_atomic_t handled;

static void handler(int number)
{
    handled = number;
}

CASE(signal_state)
{
    sigset_t set, old;
    pid_t pid;

    signal(SIGUSR1, handler);
    signal(SIGUSR2, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGTERM);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        sigset_t pending;
        struct sigaction action;

        sigpending(&pending);
        truth("pending in the child", sigismember(&pending, SIGTERM));
        sigprocmask(SIG_BLOCK, NULL, &old);
        truth("blocked in the child", sigismember(&old, SIGTERM));
        raise(SIGUSR1);
        number("handled in the child", handled);
        sigaction(SIGUSR2, NULL, &action);
        truth("ignored in the child", action.sa_handler == SIG_IGN);
        signal(SIGUSR1, SIG_DFL);
        fflush(stdout);
        _exit(0);
    }
    child_end("child", pid);
    number("handled in the parent", handled);
    raise(SIGUSR1);
    number("handled in the parent", handled);
    sigset_t pending;
    sigpending(&pending);
    truth("pending in the parent", sigismember(&pending, SIGTERM));
    signal(SIGTERM, SIG_IGN);
}

CASE(alternate_stack_is_kept)
{
    static char memory[32768];
    stack_t stack = { .ss_sp = memory, .ss_size = sizeof memory };
    pid_t pid;

    MUST(sigaltstack(&stack, NULL));
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        stack_t seen;

        sigaltstack(NULL, &seen);
        truth("same", seen.ss_sp == memory && seen.ss_size == sizeof memory);
        fflush(stdout);
        _exit(0);
    }
    child_end("child", pid);
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, NULL);
}

CASE(timers_are_not_inherited)
{
    struct itimerval timer = { .it_value = { .tv_usec = 50000 } };
    timer_t id;
    pid_t pid;

    signal(SIGALRM, handler);
    handled = 0;
    MUST(setitimer(ITIMER_REAL, &timer, NULL));
    MUST(timer_create(CLOCK_MONOTONIC, NULL, &id));
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        struct itimerval seen;
        struct itimerspec spec;

        getitimer(ITIMER_REAL, &seen);
        truth("no interval timer", seen.it_value.tv_sec == 0 && seen.it_value.tv_usec == 0);
        show("timer_gettime", timer_gettime(id, &spec));
        number("alarm", alarm(0));
        sleep_ms(80);
        number("handled", handled);
        fflush(stdout);
        _exit(0);
    }
    child_end("child", pid);
    number("handled in the parent", handled);
    timer_delete(id);
}

CASE(limits_and_priority)
{
    struct rlimit limit = { 50, 60 };
    int before = getpriority(PRIO_PROCESS, 0);
    pid_t pid;

    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        MUST(setrlimit(RLIMIT_NOFILE, &limit));
        MUST(setpriority(PRIO_PROCESS, 0, 15));
        fflush(stdout);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            MUST(getrlimit(RLIMIT_NOFILE, &limit));
            printf("limits %ld %ld\n", (long)limit.rlim_cur, (long)limit.rlim_max);
            number("priority", getpriority(PRIO_PROCESS, 0));
            fflush(stdout);
            _exit(0);
        }
        child_end("grandchild", grandchild);
        fflush(stdout);
        _exit(0);
    }
    child_end("child", pid);
    truth("own priority is as before", getpriority(PRIO_PROCESS, 0) == before);
}

CASE(names)
{
    char name[16] = "";
    pid_t pid;

    MUST(prctl(PR_SET_NAME, "a name"));
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        MUST(prctl(PR_GET_NAME, name));
        text("child's name", name);
        MUST(prctl(PR_SET_NAME, "another"));
        fflush(stdout);
        _exit(0);
    }
    child_end("child", pid);
    MUST(prctl(PR_GET_NAME, name));
    text("parent's name", name);
}

CASE(floating_point_state)
{
    volatile double third = 1.0;
    pid_t pid;

    third /= 3;
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        printf("child %.15f\n", third * 2);
        fflush(stdout);
        _exit(0);
    }
    child_end("child", pid);
    printf("parent %.15f\n", third * 2);
}

CASE(stdio_buffers_are_copied)
{
    FILE *file;
    pid_t pid;

    scratch();
    file = fopen("file", "w");
    fputs("buffered ", file);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        fputs("child", file);
        fclose(file);
        _exit(0);
    }
    child_end("child", pid);
    fputs("parent", file);
    fclose(file);
    file_show("file");
}

static int order[8], ordered;

static void prepare(void) { order[ordered++] = 1; }
static void in_parent(void) { order[ordered++] = 2; }
static void in_the_child(void) { order[ordered++] = 3; }

CASE(handlers_of_fork)
{
    pid_t pid;

    MUST_ZERO(pthread_atfork(prepare, in_parent, in_the_child));
    ordered = 0;
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        printf("child %d %d %d\n", ordered, order[0], order[1]);
        fflush(stdout);
        _exit(0);
    }
    child_end("child", pid);
    printf("parent %d %d %d\n", ordered, order[0], order[1]);
}

static void *sleeper(void *argument)
{
    (void)argument;
    gate_wait(*(int *)argument);
    return NULL;
}

static void *forker(void *argument)
{
    pid_t pid;

    (void)argument;
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        truth("it is the main thread", syscall(SYS_gettid) == getpid());
        DIR *tasks = opendir("/proc/self/task");
        int count = 0;
        while (readdir(tasks))
            count++;
        number("threads", count - 2);
        closedir(tasks);
        fflush(stdout);
        _exit(9);
    }
    return (void *)(intptr_t)pid;
}

CASE(only_the_calling_thread_is_copied)
{
    int ends[2];
    pthread_t first, second;

    make_pipe(ends);
    first = thread_start(sleeper, &ends[0]);
    second = thread_start(forker, NULL);
    child_end("child", (pid_t)(intptr_t)thread_join(second));
    gate_open(ends[1]);
    thread_join(first);
}

static void *add_up(void *argument)
{
    *(int *)argument += 1;
    return NULL;
}

CASE(threads_in_the_child)
{
    pid_t pid;

    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        int sum = 0;
        for (int i = 0; i < 10; i++)
            thread_join(thread_start(add_up, &sum));
        number("sum", sum);
        fflush(stdout);
        _exit(0);
    }
    child_end("child", pid);
}

CASE(vfork_waits_for_exit)
{
    volatile int seen = 0;
    pid_t parent = getpid();
    pid_t pid;

    fflush(stdout);
    pid = vfork();
    if (pid == 0) {
        seen = 1 + (getpid() != parent);
        _exit(3);
    }
    number("seen", seen);
    child_end("child", pid);
}

CASE(vfork_shares_memory_not_descriptors)
{
    volatile int value = 1;
    int fd = MUST(open("/dev/null", O_RDONLY));
    pid_t pid;

    fflush(stdout);
    pid = vfork();
    if (pid == 0) {
        value = 2;
        close(fd);
        sleep_ms(30);
        _exit(0);
    }
    number("value", value);
    show("still open", fcntl(fd, F_GETFD));
    child_end("child", pid);
}

static int clone_body(void *argument)
{
    int *values = argument;

    values[0]++;
    close(values[1]);
    if (chdir("below"))
        values[0] = -1;
    return 4;
}

static void clone_with(const char *what, int flags)
{
    static char stack[1 << 16] __attribute__((aligned(16)));
    char where[PATH_LIMIT];
    int values[2] = { 0, MUST(open("/dev/null", O_RDONLY)) };
    pid_t pid;

    fflush(stdout);
    pid = MUST(clone(clone_body, stack + sizeof stack, flags | SIGCHLD, values));
    child_end(what, pid);
    number("memory", values[0]);
    show("descriptor", fcntl(values[1], F_GETFD));
    text("directory", strrchr(getcwd(where, sizeof where), '/'));
    MUST(chdir(case_start_dir));
    MUST(chdir(case_scratch_dir));
    close(values[1]);
}

CASE(clone_shares_what_its_flags_say)
{
    scratch();
    MUST(mkdir("below", 0755));
    clone_with("nothing", 0);
    clone_with("memory", CLONE_VM);
    clone_with("descriptors", CLONE_FILES);
    clone_with("directory", CLONE_FS);
    clone_with("all", CLONE_VM | CLONE_FILES | CLONE_FS);
    clone_with("vfork", CLONE_VM | CLONE_VFORK);
}

static int set_handlers(void *argument)
{
    (void)argument;
    signal(SIGUSR1, SIG_IGN);
    return 0;
}

CASE(clone_shares_handlers)
{
    static char stack[1 << 16] __attribute__((aligned(16)));
    struct sigaction action;
    pid_t pid;

    fflush(stdout);
    pid = MUST(clone(set_handlers, stack + sizeof stack, CLONE_VM | CLONE_SIGHAND | SIGCHLD, NULL));
    child_end("child", pid);
    sigaction(SIGUSR1, NULL, &action);
    truth("ignored in the parent", action.sa_handler == SIG_IGN);
}

CASE(clone_bad_flags)
{
    show("thread without sighand", syscall(SYS_clone, CLONE_THREAD | CLONE_VM, 0, 0, 0, 0));
    show("sighand without vm", syscall(SYS_clone, CLONE_SIGHAND | SIGCHLD, 0, 0, 0, 0));
    show("clone3 short", syscall(SYS_clone3, NULL, 8));
    uint64_t args[8] = { CLONE_SIGHAND | 0x100000000ULL };
    show("clone3 both sighands", syscall(SYS_clone3, args, sizeof args));
    args[0] = SIGCHLD;
    show("clone3 signal in flags", syscall(SYS_clone3, args, sizeof args));
    args[0] = 0;
    args[5] = 4096;
    show("clone3 stack without size", syscall(SYS_clone3, args, sizeof args));
}

CASE(clone_stores_numbers)
{
    pid_t *numbers = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid;

    fflush(stdout);
    pid = syscall(SYS_clone, CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | SIGCHLD, 0, &numbers[0], &numbers[1], 0);
    if (pid == 0)
        _exit(0);
    truth("in the parent", numbers[0] == pid);
    child_end("child", pid);
    truth("in the child", numbers[1] == pid);
    munmap(numbers, 4096);
}

CASE(exit_signal_of_ones_own)
{
    int status = 0;
    pid_t pid;

    signal(SIGUSR1, handler);
    handled = 0;
    fflush(stdout);
    pid = syscall(SYS_clone, SIGUSR1, 0, 0, 0, 0);
    if (pid == 0)
        _exit(6);
    show("plain wait", waitpid(pid, &status, 0));
    truth("__WCLONE", waitpid(pid, &status, __WCLONE) == pid);
    show_status("child", status);
    truth("signal", handled == SIGUSR1);
}

CASE(no_exit_signal)
{
    int status = 0;
    pid_t pid;

    signal(SIGCHLD, handler);
    handled = 0;
    fflush(stdout);
    pid = syscall(SYS_clone, 0, 0, 0, 0, 0);
    if (pid == 0)
        _exit(6);
    truth("__WALL", waitpid(pid, &status, __WALL) == pid);
    show_status("child", status);
    number("handled", handled);
}

CASE(epoll_is_shared)
{
    int epoll = MUST(epoll_create1(0));
    int event = MUST(eventfd(0, 0));
    struct epoll_event interest = { .events = EPOLLIN, .data.u32 = 7 };
    struct epoll_event found = { 0 };
    pid_t pid;

    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, event, &interest));
        _exit(0);
    }
    child_end("child", pid);
    MUST(eventfd_write(event, 1));
    show("wait", epoll_wait(epoll, &found, 1, 0));
    number("data", found.data.u32);
}

CASE(eventfd_between_processes)
{
    int event = MUST(eventfd(0, 0));
    eventfd_t value = 0;
    pid_t pid;

    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        MUST(eventfd_write(event, 5));
        _exit(0);
    }
    MUST(eventfd_read(event, &value));
    number("value", value);
    child_end("child", pid);
}

CASE(shared_mutex_and_condition)
{
    struct shared {
        pthread_mutex_t mutex;
        pthread_cond_t condition;
        int turn;
        int log[20];
    } *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t mutex;
    pthread_condattr_t condition;
    pid_t pid;

    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    pthread_condattr_init(&condition);
    pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&shared->mutex, &mutex);
    pthread_cond_init(&shared->condition, &condition);
    fflush(stdout);
    pid = MUST(fork());
    for (int i = 0; i < 10; i++) {
        int own = pid == 0;

        pthread_mutex_lock(&shared->mutex);
        while (shared->turn % 2 != own)
            pthread_cond_wait(&shared->condition, &shared->mutex);
        shared->log[shared->turn++] = own;
        pthread_cond_broadcast(&shared->condition);
        pthread_mutex_unlock(&shared->mutex);
    }
    if (pid == 0)
        _exit(0);
    child_end("child", pid);
    number("turns", shared->turn);
    int right = 1;
    for (int i = 0; i < 20; i++)
        right &= shared->log[i] == i % 2;
    truth("in turns", right);
    munmap(shared, 4096);
}

CASE(robust_mutex_of_a_process_that_died)
{
    pthread_mutex_t *mutex = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t attributes;
    pid_t pid;

    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(mutex, &attributes);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        pthread_mutex_lock(mutex);
        raise(SIGKILL);
    }
    child_end("child", pid);
    show_error("lock", pthread_mutex_lock(mutex));
    show_error("consistent", pthread_mutex_consistent(mutex));
    show_error("unlock", pthread_mutex_unlock(mutex));
    munmap(mutex, 4096);
}

CASE(semaphores_of_files)
{
    int fd;
    int *word;
    pid_t pid;

    scratch();
    file_make("word", "\1\1\1\1");
    fd = MUST(open("word", O_RDWR));
    word = mmap(NULL, 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    *word = 0;
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        /* A mapping of its own, at another address. */
        int *again = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        sleep_ms(20);
        __atomic_store_n(again, 1, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, again, 1 /* FUTEX_WAKE */, 1, NULL, NULL, 0);
        _exit(0);
    }
    while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == 0)
        syscall(SYS_futex, word, 0 /* FUTEX_WAIT */, 0, NULL, NULL, 0);
    number("word", *word);
    child_end("child", pid);
    munmap(word, 4);
}
