/* Numbers of threads where calls and /proc ask for processes, and what each thread has for itself. */
#include "process.h"

#include <linux/aio_abi.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/uio.h>

static int told[2], asked[2];
static long word = 7;

/* A thread that tells its number, and ends when it is asked to. */
static void *stay(void *number)
{
    *(pid_t *)number = syscall(SYS_gettid);
    gate_open(told[1]);
    gate_wait(asked[0]);
    return NULL;
}

static pthread_t start_staying(pid_t *number)
{
    make_pipe(told);
    make_pipe(asked);
    pthread_t thread = thread_start(stay, number);
    gate_wait(told[0]);
    return thread;
}

/* Its number stays for a moment after the thread has been joined. */
static void end_staying(pthread_t thread, pid_t tid)
{
    gate_open(asked[1]);
    thread_join(thread);
    while (syscall(SYS_tgkill, getpid(), tid, 0) == 0)
        sleep_ms(1);
}

static void ask_by_number(pid_t tid)
{
    long copy = 0;
    struct iovec own = { &copy, sizeof copy }, other = { &word, sizeof word };
    struct rlimit limit, before;
    siginfo_t none = { .si_code = SI_QUEUE };
    struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, tid };
    struct __user_cap_data_struct sets[2];
    cpu_set_t processors;

    show("read its memory", process_vm_readv(tid, &own, 1, &other, 1, 0));
    number("word", copy);
    copy = 9;
    show("write its memory", process_vm_writev(tid, &own, 1, &other, 1, 0));
    number("word", word);
    word = 7;
    show("limit", prlimit(tid, RLIMIT_NOFILE, NULL, &before));
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    truth("that of the process", limit.rlim_cur == before.rlim_cur && limit.rlim_max == before.rlim_max);
    limit.rlim_cur -= 1;
    show("set", prlimit(tid, RLIMIT_NOFILE, &limit, NULL));
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    truth("set for the process", limit.rlim_cur == before.rlim_cur - 1);
    MUST(setrlimit(RLIMIT_NOFILE, &before));
    show("kill", kill(tid, 0));
    truth("group", getpgid(tid) == getpgid(0));
    truth("session", getsid(tid) == getsid(0));
    show("setpgid", setpgid(tid, 0));
    show("scheduler", sched_getscheduler(tid));
    truth("processors", sched_getaffinity(tid, sizeof processors, &processors) == 0);
    show("capabilities", syscall(SYS_capget, &header, sets));
    show("queue", syscall(SYS_rt_sigqueueinfo, tid, 0, &none));
    show("compare", syscall(SYS_kcmp, getpid(), tid, 1, 0, 0));
}

CASE(calls_that_name_a_thread)
{
    pid_t tid;
    pthread_t thread = start_staying(&tid);

    ask_by_number(tid);
    end_staying(thread, tid);
    show("over", process_vm_readv(tid, NULL, 0, NULL, 0, 0));
    show("limit of none", prlimit(tid, RLIMIT_NOFILE, NULL, NULL));
}

static volatile sig_atomic_t signals;

static void count_signal(int signal_number)
{
    (void)signal_number;
    signals++;
}

CASE(a_thread_owns_a_file)
{
    pid_t tid;
    pthread_t thread = start_staying(&tid);
    struct f_owner_ex owner = { F_OWNER_TID, 1 };
    int pair[2];

    signal(SIGIO, count_signal);
    make_pipe(pair);
    show("owner", fcntl(pair[0], F_SETOWN, tid));
    show("which nobody is told", fcntl(pair[0], F_GETOWN));
    show("nor so", fcntl(pair[0], F_GETOWN_EX, &owner));
    printf("kind %d, number %d\n", owner.type, owner.pid);
    MUST(fcntl(pair[0], F_SETFL, O_ASYNC));
    MUST(write(pair[1], "x", 1));
    for (int i = 0; i < 200 && !signals; i++)
        sleep_ms(1);
    number("signals", signals);
    end_staying(thread, tid);
    show("a number of none", fcntl(pair[0], F_SETOWN, tid));
}

/* The rest of a line of a file of /proc. */
static void line_of(const char *path, const char *name, char *rest, size_t room)
{
    char text[8192];
    int fd = MUST(open(path, O_RDONLY));
    long length = MUST(read(fd, text, sizeof text - 1));

    close(fd);
    text[length] = 0;
    char *at = strstr(text, name);
    snprintf(rest, room, "%s", at ? at + strlen(name) : "none");
    rest[strcspn(rest, "\n")] = 0;
}

CASE(directories_of_threads)
{
    pid_t tid;
    pthread_t thread = start_staying(&tid);
    char path[64], line[64];
    struct stat about;

    snprintf(path, sizeof path, "/proc/%d/status", tid);
    line_of(path, "\nTgid:\t", line, sizeof line);
    truth("of the process", atoi(line) == getpid());
    line_of(path, "\nPid:\t", line, sizeof line);
    truth("of the thread", atoi(line) == tid);
    snprintf(path, sizeof path, "/proc/%d/task/%d", tid, getpid());
    show("the other thread", stat(path, &about));
    snprintf(path, sizeof path, "/proc/%d/fd/%d", tid, told[0]);
    show("descriptors", access(path, F_OK));
    snprintf(path, sizeof path, "/proc/self/task/%d/task", tid);
    show("no threads of threads", access(path, F_OK));
    end_staying(thread, tid);
    snprintf(path, sizeof path, "/proc/%d", tid);
    show("over", access(path, F_OK));
}

CASE(files_of_what_has_been_reaped)
{
    static const char *names[] = { "cmdline", "maps", "stat", "status", "comm", "limits", "mounts" };
    int open_files[COUNT_OF(names)], gate[2];
    char path[64], byte;

    make_pipe(gate);
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0) {
        gate_wait(gate[0]);
        _exit(0);
    }
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", child, names[i]);
        open_files[i] = MUST(open(path, O_RDONLY));
    }
    gate_open(gate[1]);
    MUST(waitpid(child, NULL, 0));
    for (size_t i = 0; i < COUNT_OF(names); i++)
        show(names[i], read(open_files[i], &byte, 1));
    snprintf(path, sizeof path, "/proc/%d", child);
    show("directory", access(path, F_OK));
}

CASE(files_say_what_holds_when_they_are_read)
{
    char first[64], second[64];
    int comm = MUST(open("/proc/self/comm", O_RDONLY)), status = MUST(open("/proc/thread-self/status", O_RDONLY));

    MUST(prctl(PR_SET_NAME, "first"));
    bytes("read", first, MUST(pread(comm, first, sizeof first, 0)));
    MUST(prctl(PR_SET_NAME, "second"));
    bytes("read again", second, MUST(pread(comm, second, sizeof second, 0)));
    MUST(read(status, first, sizeof first));
    MUST(prctl(PR_SET_NAME, "third"));
    MUST(lseek(status, 0, SEEK_SET));
    bytes("status", second, MUST(read(status, second, 11)));
}

static void *ask_for_privileges(void *unused)
{
    (void)unused;
    gate_wait(asked[0]);
    return (void *)(long)prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
}

static void *new_thread(void *unused)
{
    (void)unused;
    return (void *)(long)prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
}

static int renounce(void *unused)
{
    char line[64];

    (void)unused;
    make_pipe(asked);
    pthread_t before = thread_start(ask_for_privileges, NULL);
    show("renounce", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    show("own", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    gate_open(asked[1]);
    number("a thread from before", (long)thread_join(before));
    number("a new thread", (long)thread_join(thread_start(new_thread, NULL)));
    line_of("/proc/self/status", "\nNoNewPrivs:\t", line, sizeof line);
    text("status", line);
    return 0;
}

CASE(privileges_are_renounced_by_each_thread)
{
    in_child("renounced", renounce, NULL);
}

/* A filter for all threads that answers 70 + `which` for one call. */
static long filter_all(unsigned call, unsigned which, unsigned flags)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (70 + which)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { COUNT_OF(filter), filter };

    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

static void *filter_from_a_thread(void *unused)
{
    (void)unused;
    show("filter", filter_all(SYS_getppid, 0, SECCOMP_FILTER_FLAG_TSYNC));
    return NULL;
}

static int filtered_by_another(void *unused)
{
    (void)unused;
    thread_join(thread_start(filter_from_a_thread, NULL));
    show("filtered", syscall(SYS_getppid));
    number("renounced with it", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    return 0;
}

static int filter_in_clone(void *unused)
{
    (void)unused;
    filter_all(SYS_getppid, 0, SECCOMP_FILTER_FLAG_TSYNC);
    word = 8;
    return 0;
}

static int filtered_while_it_waits(void *unused)
{
    static char stack[65536] __attribute__((aligned(16)));
    int flags = CLONE_FILES | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD | CLONE_VM | CLONE_VFORK;

    (void)unused;
    MUST(clone(filter_in_clone, stack + sizeof stack, flags, NULL));
    number("the thread is over", word);
    show("filtered", syscall(SYS_getppid));
    return 0;
}

static void *filter_alone(void *tid)
{
    *(pid_t *)tid = syscall(SYS_gettid);
    filter_all(SYS_getpgrp, 1, 0);
    gate_open(told[1]);
    gate_wait(asked[0]);
    return NULL;
}

static int threads_apart(void *unused)
{
    pid_t tid;

    (void)unused;
    make_pipe(told);
    make_pipe(asked);
    pthread_t thread = thread_start(filter_alone, &tid);
    gate_wait(told[0]);
    truth("names the other one", filter_all(SYS_getppid, 0, SECCOMP_FILTER_FLAG_TSYNC) == tid);
    show("or does not", filter_all(SYS_getppid, 0, SECCOMP_FILTER_FLAG_TSYNC | 16));
    truth("not filtered", syscall(SYS_getppid) > 0);
    end_staying(thread, tid);
    show("alone", filter_all(SYS_getppid, 0, SECCOMP_FILTER_FLAG_TSYNC));
    show("filtered", syscall(SYS_getppid));
    return 0;
}

CASE(filters_for_all_threads)
{
    in_child("by another thread", filtered_by_another, NULL);
    in_child("by one that is waited for", filtered_while_it_waits, NULL);
    in_child("that have others", threads_apart, NULL);
}

/* A thread's area is overwritten by each barrier: what a program has put into it is gone. */
static uint32_t area[8] __attribute__((aligned(32)));

static void *keep_something(void *number)
{
    /* Where the C library has an area for each thread, this one is refused, and the number stays. */
    long result = syscall(334, area, sizeof area, 0, 0x53053053);

    *(long *)number = result;
    if (result == 0)
        __atomic_store_n(&area[0], 0xfffffff0, __ATOMIC_SEQ_CST);
    gate_open(told[1]);
    gate_wait(asked[0]);
    if (result == 0)
        syscall(334, area, sizeof area, 1, 0x53053053);
    return NULL;
}

extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));

static volatile uint32_t *library_area;

static void *keep_in_librarys(void *unused)
{
    library_area = (volatile uint32_t *)((char *)__builtin_thread_pointer() + __rseq_offset);
    *library_area = 0xfffffff0;
    gate_open(told[1]);
    gate_wait(asked[0]);
    return unused;
}

CASE(barriers_for_restartable_sequences)
{
    int has = &__rseq_size && __rseq_size > 0;
    long result = 0;

    make_pipe(told);
    make_pipe(asked);
    show("register", syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0));
    pthread_t thread = thread_start(has ? keep_in_librarys : keep_something, &result);
    gate_wait(told[0]);
    show("barrier", syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, 0));
    gate_open(asked[1]);
    thread_join(thread);
    /* Natively leaving the processor does it, too. */
    truth("overwritten", has ? *library_area != 0xfffffff0 : area[0] != 0xfffffff0);
}

static aio_context_t context;
static struct iocb operation, *operations[] = { &operation };

static int submit(void *unused)
{
    (void)unused;
    return syscall(SYS_io_submit, context, 1, operations) == 1 ? 0 : errno;
}

CASE(contexts_go_with_memory)
{
    static char stack[65536] __attribute__((aligned(16)));
    struct io_event event;
    int status;

    scratch();
    file_make("file", "");
    operation = (struct iocb){ .aio_fildes = MUST(open("file", O_WRONLY)), .aio_lio_opcode = IOCB_CMD_PWRITE };
    operation.aio_buf = (uintptr_t)"abc";
    operation.aio_nbytes = 3;
    MUST(syscall(SYS_io_setup, 8, &context));
    pid_t child = MUST(clone(submit, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL));
    MUST(waitpid(child, &status, 0));
    show_status("a child with the same memory", status);
    show("its event", syscall(SYS_io_getevents, context, 1, 1, &event, NULL));
    file_show("file");
    MUST(syscall(SYS_io_destroy, context));
}

CASE(numbers_of_other_processes_threads)
{
    pid_t tid = 0;
    char path[64], line[64];

    fflush(stdout);
    make_pipe(told);
    pid_t child = MUST(fork());
    if (child == 0) {
        int outer = dup(told[1]);

        start_staying(&tid);
        MUST(write(outer, &tid, sizeof tid));
        pause();
    }
    MUST(read(told[0], &tid, sizeof tid));
    snprintf(path, sizeof path, "/proc/%d/status", tid);
    line_of(path, "\nTgid:\t", line, sizeof line);
    truth("of the child", atoi(line) == child);
    show("limit", prlimit(tid, RLIMIT_CORE, NULL, NULL));
    show("no group of its own", setpgid(tid, 0));
    MUST(kill(tid, SIGKILL));
    child_end("killed by that number", child);
}
