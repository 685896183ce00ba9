/*
 * What processes call themselves: /proc/PID/cmdline and environ show what a
 * program has made of its arguments and variables, which servers write their
 * state over.
 */
#include "process.h"

extern char **environ;

static char **title_argv;
static int title_argc;

/* The program itself under other arguments: see `with_title`. */
static int run_titled(const char *what);

__attribute__((constructor)) static void titled(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[0], "titled"))
        return;
    title_argv = argv;
    title_argc = argc;
    exit(run_titled(argv[1]));
}

/* Prints a file of /proc/PID with its NULs as dots. */
static void show_file(const char *what, pid_t pid, const char *name)
{
    char path[64], content[8192];
    int fd;
    long length;

    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    fd = MUST(open(path, O_RDONLY));
    length = MUST(read(fd, content, sizeof content));
    close(fd);
    printf("%s: %ld bytes: ", what, length);
    for (long i = 0; i < length && i < 100; i++)
        putchar(content[i] ? content[i] : '.');
    putchar('\n');
    fflush(stdout);
}

/* The bytes from the first argument to the end of the last one. */
static size_t argument_bytes(void)
{
    char *last = title_argv[title_argc - 1];

    return last + strlen(last) + 1 - title_argv[0];
}

/* The same to the end of the last variable. */
static size_t all_bytes(void)
{
    char *end = title_argv[0] + argument_bytes();

    for (char **variable = environ; *variable; variable++)
        if (*variable == end)
            end += strlen(end) + 1;
    return end - title_argv[0];
}

/* As nginx does it: the text, then NULs. */
static void write_title(const char *text)
{
    memset(title_argv[0], 0, argument_bytes());
    strncpy(title_argv[0], text, argument_bytes() - 1);
}

static int titled_child(void *argument)
{
    int *ends = argument;

    write_title("child's own");
    gate_open(ends[1]);
    pause();
    return 0;
}

static int run_titled(const char *what)
{
    pid_t pid = getpid();

    if (!strcmp(what, "plain")) {
        printf("arguments and variables are neighbours: %d\n", environ[0] == title_argv[0] + argument_bytes());
        show_file("cmdline", pid, "cmdline");
        show_file("environ", pid, "environ");
    } else if (!strcmp(what, "short")) {
        write_title("new title");
        show_file("cmdline", pid, "cmdline");
        show_file("environ", pid, "environ");
        show_file("comm", pid, "comm");
    } else if (!strcmp(what, "spaces")) {
        size_t bytes = argument_bytes();
        memset(title_argv[0], ' ', bytes);
        memcpy(title_argv[0], "filled with", 11);
        title_argv[0][bytes - 1] = 0;
        show_file("cmdline", pid, "cmdline");
    } else if (!strcmp(what, "over")) {
        size_t bytes = argument_bytes() + 4;
        memset(title_argv[0], 'x', bytes);
        title_argv[0][bytes] = 0;
        show_file("cmdline", pid, "cmdline");
        show_file("environ", pid, "environ");
    } else if (!strcmp(what, "all")) {
        size_t bytes = all_bytes();
        memset(title_argv[0], 'y', bytes);
        title_argv[0][bytes - 1] = 0;
        show_file("cmdline", pid, "cmdline");
    } else if (!strcmp(what, "pointer")) {
        title_argv[0] = "elsewhere";
        environ = NULL;
        show_file("cmdline", pid, "cmdline");
        show_file("environ", pid, "environ");
    } else if (!strcmp(what, "children")) {
        int ends[2];
        pid_t children[2];
        make_pipe(ends);
        for (int i = 0; i < 2; i++) {
            children[i] = child_start(titled_child, ends);
            gate_wait(ends[0]);
        }
        write_title("parent's");
        show_file("parent", pid, "cmdline");
        for (int i = 0; i < 2; i++) {
            show_file("child", children[i], "cmdline");
            show_file("its variables", children[i], "environ");
        }
        for (int i = 0; i < 2; i++) {
            kill(children[i], SIGKILL);
            until_over(children[i]);
            show_file("zombie", children[i], "cmdline");
            child_end("child", children[i]);
        }
    }
    fflush(stdout);
    return 0;
}

static int execute_titled(void *what)
{
    char path[PATH_LIMIT];
    long length = readlink("/proc/self/exe", path, sizeof path - 1);
    char *arguments[] = { "titled", what, "and some more", NULL };
    char *variables[] = { "ONE=1", "TWO=and two", NULL };

    path[length > 0 ? length : 0] = 0;
    execve(path, arguments, variables);
    return 99;
}

static void show_titled(char *what)
{
    in_child("program", execute_titled, what);
}

CASE(arguments_and_variables)
{
    show_titled("plain");
}

CASE(a_shorter_title)
{
    show_titled("short");
}

CASE(a_title_filled_with_spaces)
{
    show_titled("spaces");
}

CASE(a_title_over_the_last_nul)
{
    show_titled("over");
}

CASE(a_title_over_all_variables)
{
    show_titled("all");
}

CASE(other_pointers_change_nothing)
{
    show_titled("pointer");
}

CASE(titles_of_children_that_wait)
{
    show_titled("children");
}

static int execute_without(void *what)
{
    char path[PATH_LIMIT];
    long length = readlink("/proc/self/exe", path, sizeof path - 1);
    char *arguments[] = { "titled", what, NULL };
    char *variables[] = { NULL };

    path[length > 0 ? length : 0] = 0;
    execve(path, arguments, variables);
    return 99;
}

CASE(a_title_without_variables)
{
    in_child("program", execute_without, "short");
}
