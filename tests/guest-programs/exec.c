/*
 * execve and what is built on it: what a program keeps of the one before,
 * scripts, failures, posix_spawn, system, popen.
 */
#include "process.h"

#include <spawn.h>
#include <sys/auxv.h>
#include <sys/mman.h>

extern char **environ;

/*
 * The program itself as another one: executed with "helper" as its name it
 * does what its first argument says and never reaches main.
 */
__attribute__((constructor)) static void helper(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (argc < 1 || strcmp(argv[0], "helper"))
        return;
    if (!strcmp(what, "arguments")) {
        for (int i = 0; i < argc; i++)
            printf("argument %d: %s\n", i, argv[i]);
        for (char **variable = environ; *variable; variable++)
            printf("variable: %s\n", *variable);
    } else if (!strcmp(what, "descriptors")) {
        for (int fd = 3; fd < 64; fd++)
            if (fcntl(fd, F_GETFD) != -1)
                printf("open: %d\n", fd);
    } else if (!strcmp(what, "signals")) {
        sigset_t blocked, pending;
        struct sigaction action;
        sigprocmask(SIG_BLOCK, NULL, &blocked);
        sigpending(&pending);
        for (int number = 1; number < 32; number++) {
            sigaction(number, NULL, &action);
            if (action.sa_handler == SIG_IGN)
                printf("ignored: %s\n", sigabbrev_np(number));
            if (action.sa_handler != SIG_IGN && action.sa_handler != SIG_DFL)
                printf("handled: %s\n", sigabbrev_np(number));
            if (sigismember(&blocked, number))
                printf("blocked: %s\n", sigabbrev_np(number));
            if (sigismember(&pending, number))
                printf("pending: %s\n", sigabbrev_np(number));
        }
    } else if (!strcmp(what, "attributes")) {
        char name[16] = "", where[PATH_LIMIT];
        stack_t stack;
        struct itimerval timer;
        prctl(PR_GET_NAME, name);
        printf("tid is pid: %d\n", syscall(SYS_gettid) == getpid());
        printf("umask: %o\n", umask(0));
        printf("directory: %s\n", strrchr(getcwd(where, sizeof where), '/'));
        sigaltstack(NULL, &stack);
        printf("no alternate stack: %d\n", stack.ss_flags == SS_DISABLE);
        getitimer(ITIMER_REAL, &timer);
        printf("timer runs: %d\n", timer.it_value.tv_sec > 0);
        printf("leads its group %d, its session %d\n", getpgrp() == getpid(), getsid(0) == getpid());
    } else if (!strcmp(what, "parent")) {
        printf("parent is right: %d\n", getppid() == atoi(argv[2]));
        printf("pid is right: %d\n", argc < 4 || getpid() == atoi(argv[3]));
    } else if (!strcmp(what, "status")) {
        exit(atoi(argv[2]));
    } else if (!strcmp(what, "threads")) {
        DIR *tasks = opendir("/proc/self/task");
        int count = 0;
        while (readdir(tasks))
            count++;
        printf("threads: %d\n", count - 2);
    } else if (!strcmp(what, "own file")) {
        struct stat status;
        char name[PATH_LIMIT];
        long length = readlink("/proc/self/exe", name, sizeof name - 1);
        int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        name[length > 0 ? length : 0] = 0;
        printf("is called %s\n", strrchr(name, '/') ? strrchr(name, '/') : name);
        int found = stat("/proc/self/exe", &status);
        printf("stat: %d, size %s, open: %d\n", found, status.st_size > 10000 ? "large" : "small", fd >= 0);
        fflush(stdout);
        if (atoi(argv[2]) > 0)
            execv("/proc/self/exe", (char *[]){ "helper", "own file", argv[2][0] == '2' ? "1" : "0", NULL });
    } else if (!strcmp(what, "name")) {
        printf("called %s\n", (const char *)getauxval(AT_EXECFN));
    } else if (!strcmp(what, "wait")) {
        char byte;
        if (write(1, "x", 1) != 1 || read(0, &byte, 1) < 0)
            exit(2);
    } else if (!strcmp(what, "copy")) {
        char data[256];
        long length;
        while ((length = read(0, data, sizeof data)) > 0)
            if (write(1, data, length) != length)
                exit(2);
    }
    fflush(stdout);
    exit(0);
}

static const char *self(void)
{
    static char path[PATH_LIMIT];
    long length = readlink("/proc/self/exe", path, sizeof path - 1);

    path[length > 0 ? length : 0] = 0;
    return path;
}

static int execute_with(char **arguments, char **environment)
{
    execve(self(), arguments, environment);
    return 99;
}

#define EXECUTE(...) execute_with((char *[]){ "helper", __VA_ARGS__, NULL }, (char *[]){ "A=1", "B=two words", NULL })

static int executes_arguments(void *argument)
{
    (void)argument;
    return EXECUTE("arguments", "one", "", "three and more");
}

CASE(arguments_and_environment)
{
    in_child("child", executes_arguments, NULL);
}

static int executes_status(void *argument)
{
    char *arguments[] = { "helper", "status", argument, NULL };

    return execute_with(arguments, environ);
}

CASE(exit_status)
{
    in_child("0", executes_status, "0");
    in_child("200", executes_status, "200");
}

CASE(the_process_is_the_same)
{
    char parent[16];
    pid_t pid;

    snprintf(parent, sizeof parent, "%d", getpid());
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        char own[16];

        snprintf(own, sizeof own, "%d", getpid());
        _exit(EXECUTE("parent", parent, own));
    }
    child_end("child", pid);
}

static int executes_descriptors(void *argument)
{
    (void)argument;
    return EXECUTE("descriptors");
}

CASE(close_on_exec)
{
    MUST(dup2(MUST(open("/dev/null", O_RDONLY)), 20));
    MUST(dup3(20, 21, O_CLOEXEC));
    MUST(dup2(20, 22));
    MUST(fcntl(22, F_SETFD, FD_CLOEXEC));
    MUST(dup2(22, 23));
    int pair[2];
    MUST(pipe2(pair, O_CLOEXEC));
    MUST(dup2(pair[0], 30));
    close(3);
    in_child("child", executes_descriptors, NULL);
    show("20 in the parent", fcntl(20, F_GETFD));
    show("21 in the parent", fcntl(21, F_GETFD));
}

static volatile sig_atomic_t seen;

static void handler(int number)
{
    seen = number;
}

static int executes_signals(void *argument)
{
    sigset_t set;

    (void)argument;
    signal(SIGUSR1, handler);
    signal(SIGUSR2, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGHUP);
    return EXECUTE("signals");
}

CASE(signals_across_exec)
{
    in_child("child", executes_signals, NULL);
}

static int executes_attributes(void *argument)
{
    static char memory[16384];
    stack_t stack = { .ss_sp = memory, .ss_size = sizeof memory };
    struct itimerval timer = { .it_value = { .tv_sec = 100 } };

    (void)argument;
    sigaltstack(&stack, NULL);
    umask(035);
    setitimer(ITIMER_REAL, &timer, NULL);
    return EXECUTE("attributes");
}

CASE(attributes_across_exec)
{
    scratch();
    in_child("child", executes_attributes, NULL);
}

static void *execute_in_thread(void *argument)
{
    (void)argument;
    EXECUTE("attributes");
    return NULL;
}

static void *wait_for_ever(void *argument)
{
    (void)argument;
    for (;;)
        pause();
    return NULL;
}

static int executes_in_thread(void *argument)
{
    (void)argument;
    thread_start(wait_for_ever, NULL);
    thread_start(wait_for_ever, NULL);
    thread_start(execute_in_thread, NULL);
    wait_for_ever(NULL);
    return 1;
}

CASE(exec_in_a_thread)
{
    scratch();
    in_child("child", executes_in_thread, NULL);
}

static void *execute_and_count(void *argument)
{
    (void)argument;
    EXECUTE("threads");
    return NULL;
}

static int executes_and_counts(void *argument)
{
    (void)argument;
    thread_start(wait_for_ever, NULL);
    thread_start(execute_and_count, NULL);
    wait_for_ever(NULL);
    return 1;
}

CASE(threads_end_at_exec)
{
    in_child("child", executes_and_counts, NULL);
}

static void show_exec(const char *path)
{
    char *arguments[] = { "x", NULL };

    show(path, execve(path, arguments, environ));
}

CASE(failures)
{
    int fd;

    scratch();
    file_make("plain", "echo plain\n");
    file_make("empty", "");
    file_make("garbage", "\177ELF garbage that is no program at all, but long enough to be one if read carelessly ........");
    file_make("script", "#!/does/not/exist\n");
    file_make("bare", "#!\n");
    MUST(mkdir("directory", 0755));
    MUST(chmod("empty", 0755));
    MUST(chmod("garbage", 0755));
    MUST(chmod("script", 0755));
    MUST(chmod("bare", 0755));
    MUST(symlink("loop", "loop"));
    show_exec("missing");
    show_exec("");
    show_exec("plain");
    show_exec("plain/below");
    show_exec("empty");
    show_exec("garbage");
    show_exec("script");
    show_exec("bare");
    show_exec("directory");
    show_exec("loop");
    MUST(chmod("plain", 0755));
    show_exec("plain");
    show("bad path", syscall(SYS_execve, 8, NULL, NULL));
    show("bad arguments", syscall(SYS_execve, "/bin/true", 8, NULL));
    show("bad environment", syscall(SYS_execve, "/bin/true", NULL, 8));
    fd = MUST(open("/dev/null", O_RDONLY | O_CLOEXEC));
    show_exec("missing");
    show("nothing was closed", fcntl(fd, F_GETFD));
}

static int executes_long(void *argument)
{
    char *arguments[] = { "helper", "status", "0", NULL, NULL };
    size_t length = *(size_t *)argument;

    arguments[3] = malloc(length + 1);
    memset(arguments[3], 'x', length);
    arguments[3][length] = 0;
    execve(self(), arguments, environ);
    return errno == E2BIG ? 7 : 8;
}

CASE(long_arguments)
{
    size_t lengths[] = { 100000, 131071, 131072 };

    for (size_t i = 0; i < COUNT_OF(lengths); i++)
        in_child("child", executes_long, &lengths[i]);
}

static int executes_file(void *path)
{
    char *arguments[] = { "name", "first", "second", NULL };

    execve(path, arguments, environ);
    show(path, -1);
    return 9;
}

CASE(scripts)
{
    scratch();
    file_make("plain", "#!/bin/sh\necho \"plain: $0 $@\"\nexit 3\n");
    file_make("spaced", "#!  /bin/sh   -e  \necho \"spaced: $0 $1\"\nfalse\necho not here\n");
    file_make("twice", "#!./plain\n");
    file_make("cat", "#!/bin/cat\nthe script itself\n");
    file_make("no newline", "#!/bin/sh");
    MUST(chmod("plain", 0755));
    MUST(chmod("spaced", 0755));
    MUST(chmod("twice", 0755));
    MUST(chmod("no newline", 0755));
    in_child("plain", executes_file, "./plain");
    in_child("spaced", executes_file, "./spaced");
    in_child("twice", executes_file, "./twice");
    in_child("no newline", executes_file, "./no newline");
}

static int executes_by_name(void *name)
{
    char *arguments[] = { "argument", "one", NULL };

    execve(name, arguments, environ);
    return 99;
}

CASE(names_by_which_programs_are_called)
{
    scratch();
    file_make("script", "#!/bin/sh\necho \"$0 $1\"\ncat /proc/$$/comm\n");
    MUST(chmod("script", 0755));
    MUST(symlink("script", "link"));
    in_child("script", executes_by_name, "./script");
    in_child("link to it", executes_by_name, "./link");
    MUST(symlink("/bin/cat", "print"));
    file_make("comm", "#!./print\n");
    MUST(chmod("comm", 0755));
    in_child("interpreter by link", executes_by_name, "./comm");
}

CASE(scripts_that_lead_to_themselves)
{
    scratch();
    file_make("a", "#!./b\n");
    file_make("b", "#!./a\n");
    MUST(chmod("a", 0755));
    MUST(chmod("b", 0755));
    in_child("loop", executes_file, "./a");
}

static int executes_by_descriptor(void *argument)
{
    char *arguments[] = { "helper", "status", "51", NULL };
    int fd = open(self(), O_RDONLY | O_CLOEXEC);

    (void)argument;
    fexecve(fd, arguments, environ);
    return 9;
}

static int executes_in_directory(void *argument)
{
    char *arguments[] = { "name", "first", NULL };
    int fd = open("below", O_RDONLY | O_DIRECTORY);

    (void)argument;
    syscall(SYS_execveat, fd, "script", arguments, environ, 0);
    return 9;
}

static int executes_at_badly(void *argument)
{
    char *arguments[] = { "helper", "status", "0", NULL };

    (void)argument;
    show("empty", syscall(SYS_execveat, AT_FDCWD, "", arguments, environ, 0));
    show("flags", syscall(SYS_execveat, AT_FDCWD, "/bin/true", arguments, environ, 0x4000000));
    show("descriptor", syscall(SYS_execveat, 60, "x", arguments, environ, 0));
    return 9;
}

CASE(execveat)
{
    scratch();
    MUST(mkdir("below", 0755));
    file_make("below/script", "#!/bin/sh\necho \"in a directory $#\"\n");
    MUST(chmod("below/script", 0755));
    in_child("by descriptor", executes_by_descriptor, NULL);
    in_child("in a directory", executes_in_directory, NULL);
    in_child("bad", executes_at_badly, NULL);
}

static int searches_path(void *name)
{
    char *arguments[] = { name, "-c", "echo found", NULL };

    execvp(name, arguments);
    show(name, -1);
    return 9;
}

CASE(search_in_path)
{
    in_child("sh", searches_path, "sh");
    in_child("missing", searches_path, "no-such-program-anywhere");
}

CASE(command_line_and_exe_of_another)
{
    int gate[2], there[2], fd;
    char path[64], line[256];
    long length;
    pid_t pid;

    make_pipe(gate);
    make_pipe(there);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        MUST(dup2(gate[0], 0));
        MUST(dup2(there[1], 1));
        close(gate[1]);
        _exit(EXECUTE("copy"));
    }
    MUST(write(gate[1], "x", 1));
    MUST(read(there[0], line, 1));
    snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    fd = MUST(open(path, O_RDONLY));
    length = MUST(read(fd, line, sizeof line));
    bytes("cmdline", line, length);
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    length = MUST(readlink(path, line, sizeof line));
    line[length] = 0;
    truth("exe", !strcmp(line, self()));
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    fd = MUST(open(path, O_RDONLY));
    length = MUST(read(fd, line, sizeof line));
    bytes("comm", line, length);
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    fd = MUST(open(path, O_RDONLY));
    length = MUST(read(fd, line, sizeof line));
    bytes("environ", line, length);
    close(gate[1]);
    child_end("child", pid);
}

static void *forking_thread(void *argument)
{
    pid_t *pid = argument;

    fflush(stdout);
    *pid = fork();
    if (*pid == 0)
        _exit(EXECUTE("status", "17"));
    return NULL;
}

CASE(fork_and_exec_in_a_thread)
{
    pid_t pid = 0;

    thread_join(thread_start(forking_thread, &pid));
    child_end("child", pid);
}

CASE(vfork_and_exec)
{
    char *arguments[] = { "helper", "status", "18", NULL };
    const char *path = self();
    pid_t pid;

    pid = vfork();
    if (pid == 0) {
        execve(path, arguments, environ);
        _exit(9);
    }
    child_end("child", pid);
    pid = vfork();
    if (pid == 0) {
        execve("/does/not/exist", arguments, environ);
        _exit(10);
    }
    child_end("failed", pid);
}

static void spawn(const char *what, posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes, char **arguments)
{
    pid_t pid;

    fflush(stdout);
    int error = posix_spawn(&pid, self(), actions, attributes, arguments, environ);
    if (error)
        show_error(what, error);
    else
        child_end(what, pid);
}

CASE(spawning)
{
    char *arguments[] = { "helper", "status", "23", NULL };
    pid_t pid;

    spawn("plain", NULL, NULL, arguments);
    show_error("missing", posix_spawn(&pid, "/does/not/exist", NULL, NULL, arguments, environ));
    show("nothing is left", wait(NULL));
    show_error("by path", posix_spawnp(&pid, "true", NULL, NULL, arguments, environ));
    child_end("true", pid);
}

CASE(spawning_with_files)
{
    char *arguments[] = { "helper", "copy", NULL };
    posix_spawn_file_actions_t actions;

    scratch();
    file_make("in", "what is copied\n");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "in", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "out", O_WRONLY | O_CREAT, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    spawn("copy", &actions, NULL, arguments);
    file_show("out");
    posix_spawn_file_actions_addclose(&actions, 55);
    spawn("closing what is not open", &actions, NULL, arguments);
    posix_spawn_file_actions_addopen(&actions, 5, "missing", O_RDONLY, 0);
    spawn("opening what is not there", &actions, NULL, arguments);
    posix_spawn_file_actions_destroy(&actions);
}

CASE(spawning_with_descriptors)
{
    char *arguments[] = { "helper", "descriptors", NULL };
    posix_spawn_file_actions_t actions;
    int fd = MUST(open("/dev/null", O_RDONLY | O_CLOEXEC));

    MUST(dup2(fd, 40));
    MUST(dup2(fd, 41));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addclose(&actions, 41);
    posix_spawn_file_actions_adddup2(&actions, 40, 42);
    posix_spawn_file_actions_adddup2(&actions, fd, fd);
    posix_spawn_file_actions_adddup2(&actions, fd, 44);
    posix_spawn_file_actions_addclose(&actions, fd);
    spawn("child", &actions, NULL, arguments);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    spawn("closefrom", &actions, NULL, arguments);
    posix_spawn_file_actions_destroy(&actions);
}

CASE(spawning_with_attributes)
{
    char *attributes_of[] = { "helper", "attributes", NULL };
    char *signals_of[] = { "helper", "signals", NULL };
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t set;

    scratch();
    MUST(mkdir("below", 0755));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, "below");
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
    spawn("group", &actions, &attributes, attributes_of);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    spawn("session", &actions, &attributes, attributes_of);
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    signal(SIGHUP, handler);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    posix_spawnattr_setsigdefault(&attributes, &set);
    sigemptyset(&set);
    sigaddset(&set, SIGWINCH);
    posix_spawnattr_setsigmask(&attributes, &set);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    spawn("signals", NULL, &attributes, signals_of);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
}

static void show_system(const char *command)
{
    fflush(stdout);
    int status = system(command);
    printf("%s: ", command);
    show_status("status", status);
}

CASE(system_runs_commands)
{
    truth("there is a shell", system(NULL));
    show_system("exit 5");
    show_system("true");
    show_system("no-such-command-anywhere 2> /dev/null");
    show_system("kill -TERM $$");
    show_system("echo from the shell");
    show_system("echo one; echo two | cat");
}

CASE(popen_reads)
{
    char line[64];
    FILE *file;

    fflush(stdout);
    file = popen("echo first; echo second; exit 6", "r");
    while (file && fgets(line, sizeof line, file))
        text("line", line);
    show_status("pclose", pclose(file));
}

CASE(popen_writes)
{
    FILE *file;

    scratch();
    file = popen("sort > sorted", "w");
    fputs("c\na\nb\n", file);
    show_status("pclose", pclose(file));
    file_show("sorted");
}

CASE(several_popens)
{
    FILE *first, *second;

    scratch();
    first = popen("cat > one", "w");
    second = popen("cat > two", "w");
    fputs("1", first);
    fputs("2", second);
    /* The second command must not hold the first one's pipe. */
    show_status("first", pclose(first));
    show_status("second", pclose(second));
    file_show("one");
    file_show("two");
}

CASE(pipelines_of_children)
{
    int first[2], second[2];
    char data[64];
    pid_t writer, middle;
    long length;

    make_pipe(first);
    make_pipe(second);
    fflush(stdout);
    writer = MUST(fork());
    if (writer == 0) {
        dup2(first[1], 1);
        close(first[0]);
        close(first[1]);
        close(second[0]);
        close(second[1]);
        execl("/bin/sh", "sh", "-c", "echo through; echo the pipe", NULL);
        _exit(9);
    }
    middle = MUST(fork());
    if (middle == 0) {
        dup2(first[0], 0);
        dup2(second[1], 1);
        close(first[0]);
        close(first[1]);
        close(second[0]);
        close(second[1]);
        _exit(EXECUTE("copy"));
    }
    close(first[0]);
    close(first[1]);
    close(second[1]);
    length = 0;
    for (;;) {
        long part = MUST(read(second[0], data + length, sizeof data - length));

        if (part == 0)
            break;
        length += part;
    }
    bytes("read", data, length);
    child_end("writer", writer);
    child_end("middle", middle);
}

/* A copy of this program. */
static void copy_self(const char *path)
{
    char data[65536];
    long length;
    int from = MUST(open("/proc/self/exe", O_RDONLY)), to = MUST(open(path, O_CREAT | O_TRUNC | O_WRONLY, 0755));

    while ((length = read(from, data, sizeof data)) > 0)
        MUST(write(to, data, length));
    close(from);
    close(to);
}

static int executes_own_file(void *argument)
{
    execl(argument, "helper", "own file", "2", NULL);
    return 99;
}

/* Starts the copy with pipes; it has begun when this returns. */
static pid_t start_waiting(const char *path, int *give)
{
    int in[2], out[2];
    char byte;

    MUST(pipe(in));
    MUST(pipe(out));
    pid_t child = MUST(fork());
    if (child == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        close(out[0]);
        execl(path, "helper", "wait", NULL);
        _exit(99);
    }
    close(in[0]);
    close(out[1]);
    MUST(read(out[0], &byte, 1));
    close(out[0]);
    *give = in[1];
    return child;
}

static void show_exe_of(const char *what, pid_t child)
{
    char link[64], text[PATH_LIMIT];
    struct stat status;

    snprintf(link, sizeof link, "/proc/%d/exe", child);
    long length = readlink(link, text, sizeof text - 1);
    text[length > 0 ? length : 0] = 0;
    int found = stat(link, &status);
    printf("%s: %s, stat %d, large: %d\n", what, strrchr(text, '/') ? strrchr(text, '/') : text, found, status.st_size > 10000);
    lstat(link, &status);
    printf("the link: %o, %ld bytes\n", status.st_mode, (long)status.st_size);
}

CASE(a_program_keeps_its_file)
{
    int give;

    scratch();
    copy_self("p");
    in_child("as it is", executes_own_file, "./p");
    pid_t child = start_waiting("./p", &give);
    show_exe_of("started", child);
    MUST(rename("p", "q"));
    show_exe_of("renamed", child);
    copy_self("r");
    MUST(rename("r", "q"));
    show_exe_of("replaced", child);
    close(give);
    child_end("the first", child);
    child = start_waiting("./q", &give);
    MUST(unlink("q"));
    show_exe_of("removed", child);
    close(give);
    child_end("the second", child);
}

static int executes_memory(void *argument)
{
    (void)argument;
    char data[65536];
    long length;
    int from = open("/proc/self/exe", O_RDONLY), memory = memfd_create("program", MFD_CLOEXEC);
    while ((length = read(from, data, sizeof data)) > 0)
        if (write(memory, data, length) != length)
            return 98;
    fexecve(memory, (char *[]){ "helper", "own file", "2", NULL }, environ);
    return 99;
}

CASE(a_program_of_memory_executes_itself)
{
    in_child("memory", executes_memory, NULL);
}

static int executes_a_name(void *argument)
{
    int fd = open(argument, O_PATH | O_CLOEXEC);
    char path[64];

    fexecve(fd, (char *[]){ "helper", "status", "7", NULL }, environ);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    execl(path, "helper", "status", "8", NULL);
    show("execl", -1);
    return 99;
}

CASE(names_are_executed)
{
    in_child("O_PATH", executes_a_name, (void *)self());
    scratch();
    close(MUST(open("plain", O_CREAT | O_WRONLY, 0644)));
    in_child("no program", executes_a_name, "plain");
}

static int executes_path(void *argument)
{
    execl(argument, "helper", "status", "5", NULL);
    show("execl", -1);
    return 99;
}

CASE(nobody_writes_to_what_is_executed)
{
    int give, fd;

    scratch();
    copy_self("p");
    pid_t child = start_waiting("./p", &give);
    show("open to write", open("p", O_WRONLY));
    show("open to read and write", open("p", O_RDWR));
    show("cut off", open("p", O_RDONLY | O_TRUNC));
    show("truncate", truncate("p", 100));
    fd = MUST(open("p", O_RDONLY));
    close(fd);
    MUST(link("p", "q"));
    show("by another name", open("q", O_WRONLY));
    show("chmod", chmod("p", 0700));
    close(give);
    child_end("child", child);
    fd = MUST(open("p", O_RDWR));
    in_child("written", executes_path, "./p");
    in_child("by another name", executes_path, "./q");
    int script = MUST(open("s", O_CREAT | O_WRONLY, 0755));
    MUST(write(script, "#!/bin/true\n", 12));
    in_child("a script that is written", executes_path, "./s");
    close(script);
    in_child("a script", executes_path, "./s");
    close(fd);
    in_child("no more", executes_path, "./p");
}

static void write_script(const char *path, const char *text)
{
    int fd = MUST(open(path, O_CREAT | O_TRUNC | O_WRONLY, 0755));

    MUST(write(fd, text, strlen(text)));
    close(fd);
}

CASE(first_lines_of_scripts)
{
    static const char *lines[] = { "#!/bin/echo\n", "#!/bin/echo\r\n", "#! \t /bin/echo \t a b \t \n", "#!/bin/echo", "#!/bin/echo x",
        "#!\n", "#! \t \n", "#!", "#!/bin/echo  two  words\r\n", "#!/bin/echo \f x\n", "#!\n/bin/echo\n" };
    char text[600], name[32];

    scratch();
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        write_script("./s", lines[i]);
        snprintf(name, sizeof name, "line %zu", i);
        in_child(name, executes_path, "./s");
    }
    for (int i = 245; i < 262; i++) {
        snprintf(text, sizeof text, "#!/bin/%.*s", i, "/////////////////////////////////////////////////////////////////////////"
            "////////////////////////////////////////////////////////////////////////////////////////////////////////////////"
            "////////////////////////////////////////////////////////////////////////////////////////////////////////////////");
        memcpy(text + strlen(text) - 5, "/true", 5);
        size_t length = strlen(text);
        snprintf(name, sizeof name, "%zu", length);
        write_script("./s", text);
        in_child(name, executes_path, "./s");
        snprintf(text + length, 10, " x y\n");
        write_script("./s", text);
        in_child("with an argument", executes_path, "./s");
    }
    write_script("./s0", "#!/bin/echo\n");
    for (int i = 1; i < 7; i++) {
        snprintf(text, sizeof text, "#!./s%d\n", i - 1);
        snprintf(name, sizeof name, "./s%d", i);
        write_script(name, text);
        in_child(name, executes_path, name);
    }
}

static int executes_script_at(void *argument)
{
    const int *how = argument;
    int fd = open(how[0] & 1 ? "." : "s", O_RDONLY | (how[0] & 2 ? O_CLOEXEC : 0));

    MUST(dup3(fd, 20, how[0] & 2 ? O_CLOEXEC : 0));
    syscall(SYS_execveat, 20, how[0] & 1 ? "s" : "", (char *[]){ "s", NULL }, environ, how[0] & 1 ? 0 : AT_EMPTY_PATH);
    show("execveat", -1);
    return 99;
}

CASE(scripts_by_their_descriptors)
{
    scratch();
    write_script("s", "#!/bin/echo\n");
    for (int how = 0; how < 4; how++)
        in_child(how & 2 ? "closed" : "open", executes_script_at, &how);
}

static int executes_link(void *argument)
{
    const int *flags = argument;
    syscall(SYS_execveat, AT_FDCWD, "./link", (char *[]){ "helper", "name", NULL }, environ, *flags);
    show("execveat", -1);
    return 99;
}

CASE(links_are_followed_unless)
{
    int flags = AT_SYMLINK_NOFOLLOW, none = 0;

    scratch();
    MUST(symlink(self(), "link"));
    in_child("not followed", executes_link, &flags);
    in_child("followed", executes_link, &none);
    MUST(symlink("nowhere", "link2"));
    MUST(rename("link2", "link"));
    in_child("to nothing, not followed", executes_link, &flags);
    in_child("to nothing", executes_link, &none);
}

static int executes_bad_interpreter(void *argument)
{
    execl(argument, argument, NULL);
    show("execl", -1);
    return 99;
}

/* Writes a program whose interpreter has this name, in place of the one of /bin/true. */
static void write_with_interpreter(const char *path, const char *interpreter)
{
    static const char usual[] = "/lib64/ld-linux-x86-64.so.2";
    static char data[1 << 20];
    int from = MUST(open("/bin/true", O_RDONLY)), to = MUST(open(path, O_CREAT | O_TRUNC | O_WRONLY, 0755));
    long length = MUST(read(from, data, sizeof data));
    char *at = memmem(data, length, usual, sizeof usual);

    if (at) {
        memset(at, 0, sizeof usual);
        strcpy(at, interpreter);
    }
    MUST(write(to, data, length));
    close(from);
    close(to);
}

CASE(interpreters_of_programs)
{
    scratch();
    write_with_interpreter("p", "/lib64/ld-linux-x86-99.so.2");
    in_child("none", executes_bad_interpreter, "./p");
    write_with_interpreter("p", "/etc/passwd");
    in_child("not executable", executes_bad_interpreter, "./p");
    write_with_interpreter("p", "/tmp");
    in_child("a folder", executes_bad_interpreter, "./p");
    write_with_interpreter("p", "/usr/bin/ldd");
    in_child("a script", executes_bad_interpreter, "./p");
}

CASE(texts_of_links_take_no_blocks)
{
    struct stat status;
    char text[200];

    scratch();
    for (int length = 1; length < 200; length += 29) {
        memset(text, 'x', length);
        text[length] = 0;
        MUST(symlink(text, "l"));
        MUST(lstat("l", &status));
        if (length < 60)
            printf("%d: %ld blocks\n", length, (long)status.st_blocks);
        MUST(unlink("l"));
    }
}
