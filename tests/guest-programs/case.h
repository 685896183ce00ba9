/*
 * The harness that every guest test program includes.
 *
 * A program is one C file with many cases. It runs natively and as a guest of
 * Gnomon; both must print the same bytes and exit with the same status. So a
 * case prints only what Linux promises: results, errno names, relations.
 * README.md states the rules.
 *
 *   CASE(name) { ... }      defines and registers a case
 *   show("read", ret)       prints "read = RET" or "read = -1 ERRNO", returns ret
 *   number, truth, text     print "what: value"
 *   MUST(expr)              ends the case when a step of preparation fails
 *   scratch()               enters an empty directory that is removed afterwards
 *
 * `PROGRAM` runs all cases, `PROGRAM NAME...` the named ones, `PROGRAM --list`
 * prints the names. The exit status is 0 unless preparation failed somewhere.
 */
#ifndef GNOMON_CASE_H
#define GNOMON_CASE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define CASE_LIMIT 256
#define SCRATCH_LIMIT 128
#define PATH_LIMIT 4096
/* Descriptors that the harness closes after each case: 3 up to this one. */
#define SWEPT_DESCRIPTORS 64

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

struct test_case {
    const char *name;
    void (*run)(void);
    int line;
};

static struct test_case cases[CASE_LIMIT];
static int case_count;
static int case_failed;
static const char *case_running;
static pthread_t case_main_thread;
static sigjmp_buf case_abandon;
static char case_start_dir[PATH_LIMIT];
static char case_scratch_dir[SCRATCH_LIMIT];

/* Registers a case; constructors run in no promised order, so lines decide. */
static inline void case_register(const char *name, void (*run)(void), int line)
{
    int at = case_count;

    if (case_count == CASE_LIMIT) {
        fprintf(stderr, "too many cases: raise CASE_LIMIT\n");
        exit(2);
    }
    case_count++;
    for (; at > 0 && cases[at - 1].line > line; at--)
        cases[at] = cases[at - 1];
    cases[at] = (struct test_case){ name, run, line };
}

#define CASE(name)                                                     \
    static void case_##name(void);                                     \
    __attribute__((constructor)) static void case_register_##name(void) \
    {                                                                  \
        case_register(#name, case_##name, __LINE__);                   \
    }                                                                  \
    static void case_##name(void)

/* The symbolic name of an errno value, such as "EAGAIN". */
static inline const char *errno_name(int error)
{
    const char *name = strerrorname_np(error);

    return name ? name : "E?";
}

/* Prints a call's result, with errno's name when it is -1; returns the result. */
static inline long show(const char *what, long ret)
{
    if (ret == -1)
        printf("%s = -1 %s\n", what, errno_name(errno));
    else
        printf("%s = %ld\n", what, ret);
    return ret;
}

/* Prints "ok" for any result but -1: for descriptors and addresses. */
static inline long show_ok(const char *what, long ret)
{
    if (ret == -1)
        printf("%s = -1 %s\n", what, errno_name(errno));
    else
        printf("%s = ok\n", what);
    return ret;
}

/* Prints the result of a call that returns an error number, as pthreads do. */
static inline int show_error(const char *what, int error)
{
    printf("%s = %s\n", what, error ? errno_name(error) : "0");
    return error;
}

static inline void number(const char *what, long value)
{
    printf("%s: %ld\n", what, value);
}

static inline void truth(const char *what, int holds)
{
    printf("%s: %s\n", what, holds ? "yes" : "no");
}

/* Prints the given bytes; unprintable ones as \xNN. */
static inline void bytes(const char *what, const void *data, long length)
{
    const unsigned char *byte = data;

    printf("%s: \"", what);
    for (long i = 0; i < length; i++) {
        if (byte[i] >= ' ' && byte[i] <= '~')
            putchar(byte[i]);
        else
            printf("\\x%02x", byte[i]);
    }
    printf("\"\n");
}

static inline void text(const char *what, const char *value)
{
    bytes(what, value, strlen(value));
}

/* Ends the case: its preparation failed, so its observations mean nothing. */
__attribute__((noreturn)) static inline void case_give_up(const char *step, int error)
{
    printf("preparation failed: %s: %s\n", step, errno_name(error));
    fflush(stdout);
    case_failed = 1;
    if (!pthread_equal(pthread_self(), case_main_thread))
        exit(1);
    siglongjmp(case_abandon, 1);
}

static inline long case_must(const char *step, long ret)
{
    if (ret == -1)
        case_give_up(step, errno);
    return ret;
}

/* A step of preparation that returns -1 and sets errno on failure. */
#define MUST(expr) case_must(#expr, (long)(expr))

/* A step of preparation that returns an error number on failure. */
#define MUST_ZERO(expr)                       \
    do {                                      \
        int must_error = (expr);              \
        if (must_error)                       \
            case_give_up(#expr, must_error);  \
    } while (0)

/* Nanoseconds on a clock. */
static inline int64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static inline int64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

static inline struct timespec timespec_of_ms(long ms)
{
    return (struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
}

static inline struct timespec timespec_of_ns(int64_t ns)
{
    return (struct timespec){ .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };
}

/* Sleeps at least that long, through signals too. */
static inline void sleep_ms(long ms)
{
    struct timespec left = timespec_of_ms(ms);

    while (nanosleep(&left, &left) == -1 && errno == EINTR)
        ;
}

/* Prints whether at least `ms` have passed since `start`, and not wildly more. */
static inline void show_elapsed(int64_t start, long ms)
{
    int64_t elapsed = now_ns() - start;

    printf("elapsed >= %ld ms: %s\n", ms, elapsed >= ms * 1000000LL ? "yes" : "no");
    printf("elapsed < %ld ms: %s\n", ms + 5000, elapsed < (ms + 5000) * 1000000LL ? "yes" : "no");
}

static inline pthread_t thread_start(void *(*body)(void *), void *argument)
{
    pthread_t thread;

    MUST_ZERO(pthread_create(&thread, NULL, body, argument));
    return thread;
}

/* Waits for a thread and returns what it returned. */
static inline void *thread_join(pthread_t thread)
{
    void *result = NULL;

    MUST_ZERO(pthread_join(thread, &result));
    return result;
}

static inline void set_nonblocking(int fd)
{
    MUST(fcntl(fd, F_SETFL, MUST(fcntl(fd, F_GETFL)) | O_NONBLOCK));
}

/* Fills memory with bytes that follow from the seed alone. */
static inline void fill_pattern(void *data, size_t length, uint32_t seed)
{
    unsigned char *byte = data;
    uint32_t state = seed * 2654435761u + 1;

    for (size_t i = 0; i < length; i++) {
        state = state * 1664525u + 1013904223u;
        byte[i] = state >> 24;
    }
}

/* FNV-1a over the bytes, continuing from `hash` (begin with CHECKSUM_START). */
#define CHECKSUM_START 14695981039346656037ULL
static inline uint64_t checksum(uint64_t hash, const void *data, size_t length)
{
    const unsigned char *byte = data;

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ byte[i]) * 1099511628211ULL;
    return hash;
}

/* Creates or replaces a file in the working directory. */
static inline void file_make(const char *path, const char *content)
{
    int fd = MUST(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644));

    MUST(write(fd, content, strlen(content)));
    MUST(close(fd));
}

/* Prints a file's content, at most its first kilobyte. */
static inline void file_show(const char *path)
{
    char content[1024];
    int fd = open(path, O_RDONLY);
    long length = fd == -1 ? -1 : read(fd, content, sizeof content);

    if (length == -1)
        show(path, -1);
    else
        bytes(path, content, length);
    if (fd != -1)
        close(fd);
}

/* Removes a file, or a directory with all that it holds. */
static inline void case_remove_tree(int parent, const char *name)
{
    struct dirent *entry;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    DIR *dir = fd == -1 ? NULL : fdopendir(fd);

    if (!dir) {
        unlinkat(parent, name, 0);
        return;
    }
    while ((entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            case_remove_tree(fd, entry->d_name);
    closedir(dir);
    unlinkat(parent, name, AT_REMOVEDIR);
}

/* Enters an empty directory of this case; the harness removes it afterwards. */
static inline void scratch(void)
{
    snprintf(case_scratch_dir, sizeof case_scratch_dir, "scratch-%s", case_running);
    case_remove_tree(AT_FDCWD, case_scratch_dir);
    MUST(mkdir(case_scratch_dir, 0755));
    MUST(chdir(case_scratch_dir));
}

/* All signals do what they do by default, and none is blocked. */
static inline void case_reset_signals(void)
{
    sigset_t none;

    for (int number = 1; number < NSIG; number++) {
        /* 32 and 33 belong to libc's threads. */
        if (number != SIGKILL && number != SIGSTOP && number != 32 && number != 33)
            signal(number, SIG_DFL);
    }
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
}

/* Undoes what a case may have changed in the process, so that order is free. */
static inline void case_clean_up(void)
{
    struct itimerval stopped = { { 0, 0 }, { 0, 0 } };

    setitimer(ITIMER_REAL, &stopped, NULL);
    case_reset_signals();
    for (int fd = 3; fd < SWEPT_DESCRIPTORS; fd++)
        close(fd);
    umask(022);
    if (case_scratch_dir[0]) {
        if (chdir(case_start_dir))
            perror("chdir");
        case_remove_tree(AT_FDCWD, case_scratch_dir);
        case_scratch_dir[0] = 0;
    }
}

__attribute__((noinline)) static void case_run(const struct test_case *test)
{
    printf("case %s\n", test->name);
    fflush(stdout);
    case_running = test->name;
    if (!sigsetjmp(case_abandon, 0))
        test->run();
    case_clean_up();
    fflush(stdout);
}

static inline int case_wanted(const char *name, int argc, char **argv)
{
    if (argc < 2)
        return 1;
    for (int i = 1; i < argc; i++)
        if (!strcmp(name, argv[i]))
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    int ran = 0;

    if (argc == 2 && !strcmp(argv[1], "--list")) {
        for (int i = 0; i < case_count; i++)
            puts(cases[i].name);
        return 0;
    }
    /* By lines, so that what came before a crash is seen. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    case_main_thread = pthread_self();
    if (!getcwd(case_start_dir, sizeof case_start_dir)) {
        perror("getcwd");
        return 2;
    }
    umask(022);
    /* Whoever started this may ignore some: nohup(1), a shell for what it runs in the background. */
    case_reset_signals();
    for (int i = 0; i < case_count; i++) {
        if (case_wanted(cases[i].name, argc, argv)) {
            case_run(&cases[i]);
            ran++;
        }
    }
    if (!ran) {
        fprintf(stderr, "no such case; --list prints the names\n");
        return 2;
    }
    return case_failed;
}

#endif
