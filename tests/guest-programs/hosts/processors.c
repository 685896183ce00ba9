/*
 * What a program sees of its machine's processors, and how long threads compute on them; `tests/host_processors.rs` runs it natively
 * and on hosts with several processors.
 *
 *   processors see                   counts, masks, and the processor after each change of the mask
 *   processors calls THREADS CALLS   threads that each make so many calls: the microseconds that it took
 *   processors work THREADS ROUNDS   threads that each compute so many rounds: the same
 *   processors same                  (itself) what a program sees that was executed by a thread with a mask
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Lines of a file that begin with a word and a digit, or a word alone. */
static int count_lines(const char *path, const char *word, int digit)
{
    char line[4096];
    size_t length = strlen(word);
    int count = 0;
    FILE *file = fopen(path, "r");

    while (fgets(line, sizeof line, file)) {
        char next = line[length];

        count += !strncmp(line, word, length) && (!digit || (next >= '0' && next <= '9'));
    }
    fclose(file);
    return count;
}

static int count_folders(void)
{
    DIR *folder = opendir("/sys/devices/system/cpu");
    struct dirent *entry;
    int count = 0, number;
    char rest;

    while ((entry = readdir(folder)))
        count += sscanf(entry->d_name, "cpu%d%c", &number, &rest) == 1;
    closedir(folder);
    return count;
}

static void show_line(const char *path, const char *word)
{
    char line[4096];
    FILE *file = fopen(path, "r");

    while (fgets(line, sizeof line, file))
        if (!strncmp(line, word, strlen(word)))
            printf("%s", line);
    fclose(file);
}

/* The processor in /proc/self/task/TID/stat. */
static int shown_processor(pid_t tid)
{
    char path[64], text[4096], *field;
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    file = fopen(path, "r");
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    field = strrchr(text, ')');
    for (int i = 2; i < 39; i++)
        field = strchr(field + 1, ' ');
    return atoi(field);
}

static int pin(pid_t tid, int processor)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    return sched_setaffinity(tid, sizeof set, &set);
}

/* What all that tells the processor says; natively that is the same as long as only one is allowed. */
static void show_place(const char *what)
{
    struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    unsigned cpu = 99, node = 99, number, low, high, limit = 0;
    cpu_set_t set;

    syscall(SYS_getcpu, &cpu, &node, NULL);
    __asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(number));
    __asm__ volatile("lsl %1, %0" : "+r"(limit) : "r"(0x7b));
    sched_getaffinity(0, sizeof set, &set);
    printf("%s: getcpu %u node %u, sched_getcpu %d, rseq %u %u, rdtscp %u, lsl %u, stat %d, allowed %d\n", what, cpu, node,
           sched_getcpu(), area->cpu_id, area->cpu_id_start, number & 0xfff, limit & 0xfff, shown_processor(gettid()),
           CPU_COUNT(&set));
}

static void show_mask(const char *what, pid_t tid)
{
    cpu_set_t set;
    int result = sched_getaffinity(tid, sizeof set, &set);

    printf("%s:", what);
    for (int cpu = 0; cpu < CPU_SETSIZE && !result; cpu++)
        if (CPU_ISSET(cpu, &set))
            printf(" %d", cpu);
    printf("%s\n", result ? " refused" : "");
}

static void show(const char *what, long result)
{
    printf("%s: %ld %s\n", what, result, result == -1 ? strerrorname_np(errno) : "");
}

static int asleep[2], awake[2];
static volatile pid_t other;

static void *sleeper(void *last)
{
    char byte;

    show_place("a thread of a pinned one");
    pin(0, 0);
    show_place("which pins itself elsewhere");
    other = gettid();
    write(awake[1], "", 1);
    read(asleep[0], &byte, 1);
    show_place("and is pinned by another while it sleeps");
    return NULL;
}

static void show_inheritance(int last)
{
    pthread_t thread;
    char byte;
    int status;

    pin(0, last);
    pipe(asleep);
    pipe(awake);
    pthread_create(&thread, NULL, sleeper, NULL);
    read(awake[0], &byte, 1);
    show_place("its creator stays");
    show_mask("mask of the thread", other);
    show("pinned", pin(other, last));
    show_mask("mask of the thread", other);
    write(asleep[1], "", 1);
    pthread_join(thread, NULL);
    if (!fork()) {
        show_place("a child");
        fflush(stdout);
        execl("/proc/self/exe", "processors", "same", NULL);
        _exit(1);
    }
    wait(&status);
    printf("child %d\n", status);
}

static void show_refusals(int online)
{
    cpu_set_t set;

    show("one that is not there", pin(0, online));
    CPU_ZERO(&set);
    show("none", sched_setaffinity(0, sizeof set, &set));
    show("no bytes", syscall(SYS_sched_setaffinity, 0, 0, &set));
    show("nowhere", syscall(SYS_sched_setaffinity, 0, 8, 8));
    show("nowhere, of nobody", syscall(SYS_sched_setaffinity, 0x3ffffff, 8, 8));
    show("of nobody", sched_setaffinity(0x3ffffff, sizeof set, &set));
    show_mask("after all", 0);
    memset(&set, 0xff, sizeof set);
    show("all that could be", sched_setaffinity(0, sizeof set, &set));
    show_mask("all that are", 0);
    show("too few", syscall(SYS_sched_getaffinity, 0, (online - 1) / 64 * 8, &set));
    show("odd", syscall(SYS_sched_getaffinity, 0, 129, &set));
}

static void see(void)
{
    int online = sysconf(_SC_NPROCESSORS_ONLN);
    char what[64];

    setvbuf(stdout, NULL, _IONBF, 0);
    printf("configured %ld, online %d, cpuinfo %d, stat %d, folders %d\n", sysconf(_SC_NPROCESSORS_CONF), online,
           count_lines("/proc/cpuinfo", "processor", 0), count_lines("/proc/stat", "cpu", 1), count_folders());
    show_mask("mask", 0);
    show_line("/proc/self/status", "Cpus_allowed");
    for (int cpu = 0; cpu < online; cpu++) {
        snprintf(what, sizeof what, "%d %d", cpu, pin(0, cpu));
        show_place(what);
    }
    show_line("/proc/self/status", "Cpus_allowed");
    show_refusals(online);
    show_inheritance(online - 1);
}

static long amount;
static volatile uint64_t sink;

static void *call(void *unused)
{
    for (long i = 0; i < amount; i++)
        syscall(SYS_getppid);
    return NULL;
}

static void *work(void *unused)
{
    uint64_t state = 1;

    for (long i = 0; i < amount; i++)
        state = state * 6364136223846793005ull + 1442695040888963407ull;
    sink = state;
    return NULL;
}

static long now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void measure(void *(*task)(void *), int threads)
{
    pthread_t all[64];
    long began = now_us();

    for (int i = 0; i < threads; i++)
        pthread_create(&all[i], NULL, task, NULL);
    for (int i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    printf("%ld\n", now_us() - began);
}

int main(int argc, char **argv)
{
    if (argc == 4) {
        amount = atol(argv[3]);
        measure(strcmp(argv[1], "work") ? call : work, atoi(argv[2]));
    } else if (!strcmp(argv[1], "same")) {
        show_place("a program");
    } else {
        see();
    }
    return 0;
}
