/* Calls that are used in ways that no manual recommends: what Linux answers all the same. */
#include "case.h"
#include "process.h"

#include <linux/fs.h>
#include <linux/futex.h>
#include <linux/random.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

static long page;

static char *unmapped(void)
{
    char *at;

    page = sysconf(_SC_PAGESIZE);
    at = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(at, page);
    return at;
}

CASE(epoll_refuses_names_and_files_without_events)
{
    struct epoll_event event = { .events = EPOLLIN };
    const char *paths[] = { "/proc/self/maps", "/proc/self/status", "/etc/hosts", "/", "/dev/null", "/dev/zero" };
    const char *others[] = { "/proc/self/mounts", "/proc/meminfo", "/proc/sys/kernel/hostname" };
    int epoll, fd;

    MUST(epoll = epoll_create1(0));
    MUST(fd = open("/", O_PATH));
    show("O_PATH", epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
    for (unsigned i = 0; i < COUNT_OF(paths); i++) {
        MUST(fd = open(paths[i], O_RDONLY));
        show(paths[i], epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
        close(fd);
    }
    for (unsigned i = 0; i < COUNT_OF(others); i++) {
        MUST(fd = open(others[i], O_RDONLY));
        show(others[i], epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
        close(fd);
    }
}

CASE(programs_always_have_a_name)
{
    int status, ends[2];
    char said[64] = "";
    pid_t child;

    MUST(pipe(ends));
    fflush(stdout);
    MUST(child = fork());
    if (child == 0) {
        char *none[] = { NULL };
        char *environment[] = { "LANG=C", NULL };

        dup2(ends[1], 1);
        execve("/bin/pwd", none, environment);
        _exit(9);
    }
    close(ends[1]);
    MUST(waitpid(child, &status, 0));
    truth("exited", WIFEXITED(status));
    number("status", WEXITSTATUS(status));
    truth("it printed a path", read(ends[0], said, sizeof(said)) > 0 && said[0] == '/');
}

CASE(shared_futexes_need_memory)
{
    int word = 0;
    char *gone = unmapped();

    show("wake", syscall(SYS_futex, gone, FUTEX_WAKE, 1, NULL, NULL, 0));
    show("private wake", syscall(SYS_futex, gone, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0));
    show("requeue there", syscall(SYS_futex, &word, FUTEX_CMP_REQUEUE, 1, 1, gone, 0));
    show("requeue from there", syscall(SYS_futex, gone, FUTEX_REQUEUE, 1, 1, &word, 0));
    show("no waiters", syscall(SYS_futex_waitv, NULL, 1, 0, NULL, CLOCK_MONOTONIC));
}

CASE(sizes_of_pipes)
{
    int ends[2];
    char data[8192] = "";

    MUST(pipe(ends));
    show("past 2 GiB", fcntl(ends[1], F_SETPIPE_SZ, (1U << 31) + 1));
    show("none", fcntl(ends[1], F_SETPIPE_SZ, 0));
    show("a little", fcntl(ends[1], F_SETPIPE_SZ, 4097));
    MUST(write(ends[1], data, sizeof(data)));
    show("less than is inside", fcntl(ends[1], F_SETPIPE_SZ, 4096));
}

CASE(empty_paths)
{
    show("fchmodat", fchmodat(AT_FDCWD, "", 0644, 0));
    show("fchownat", fchownat(AT_FDCWD, "", -1, -1, 0));
    show("chmod", chmod("", 0644));
    show("utimensat", utimensat(AT_FDCWD, "", NULL, 0));
    show("truncate", truncate("", 0));
}

CASE(names_take_no_requests)
{
    int fd, value;

    scratch();
    file_make("file", "text");
    MUST(fd = open("file", O_PATH));
    show("ioctl", ioctl(fd, FIGETBSZ, &value));
    show("mmap", mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED ? -1 : 0);
    show("readahead", readahead(fd, 0, 4096));
    show("fadvise", syscall(SYS_fadvise64, fd, 0, 0, 0));
}

CASE(requests_on_files)
{
    int fd, random, directory, value = 0, writer;

    scratch();
    file_make("file", "text");
    MUST(fd = open("file", O_RDONLY));
    MUST(writer = open("other", O_RDWR | O_CREAT, 0600));
    MUST(directory = open(".", O_RDONLY | O_DIRECTORY));
    MUST(random = open("/dev/urandom", O_RDONLY));
    show("block size", ioctl(fd, FIGETBSZ, &value));
    truth("a power of two", value >= 512 && (value & (value - 1)) == 0);
    show("entropy", ioctl(random, RNDGETENTCNT, &value));
    truth("as the setting says", value == 256);
    show("clone of a directory", ioctl(writer, FICLONE, directory));
    show("clone of no descriptor", ioctl(writer, FICLONE, 60));
    show("clone into what cannot be written", ioctl(fd, FICLONE, writer));
    show("readahead", readahead(fd, 0, 4096));
    show("readahead of a directory", readahead(directory, 0, 4096));
}

CASE(process_one_is_asked)
{
    truth("getpgid", getpgid(1) >= 0);
    truth("getsid", getsid(1) >= 0);
    show("no such process", getpgid(0x3fffffff));
}

CASE(signals_through_directories_of_processes)
{
    sigset_t set;
    siginfo_t info;
    char path[64];
    int fd, file;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    MUST(sigprocmask(SIG_BLOCK, &set, NULL));
    snprintf(path, sizeof(path), "/proc/%d", (int)getpid());
    MUST(fd = open(path, O_DIRECTORY | O_CLOEXEC));
    MUST(file = open("/proc/self/status", O_RDONLY));
    show("its directory", syscall(SYS_pidfd_send_signal, fd, SIGUSR1, NULL, 0));
    show("the signal", sigtimedwait(&set, &info, &(struct timespec){ 1, 0 }) == SIGUSR1);
    show("a file there", syscall(SYS_pidfd_send_signal, file, SIGUSR1, NULL, 0));
    MUST(fd = open("/proc", O_DIRECTORY));
    show("another directory", syscall(SYS_pidfd_send_signal, fd, SIGUSR1, NULL, 0));
}

static void *receiver(void *number)
{
    sigset_t set;
    int got;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    *(volatile pid_t *)number = (pid_t)syscall(SYS_gettid);
    sigwait(&set, &got);
    return (void *)(long)got;
}

CASE(numbers_of_threads_stand_for_their_process)
{
    volatile pid_t tid = 0;
    union sigval value = { .sival_int = 5 };
    pthread_t thread;
    sigset_t set;
    void *got;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    MUST(pthread_sigmask(SIG_BLOCK, &set, NULL));
    pthread_create(&thread, NULL, receiver, (void *)&tid);
    while (!tid)
        usleep(1000);
    show("kill", kill(tid, 0));
    show("sigqueue", sigqueue(tid, SIGUSR2, value));
    pthread_join(thread, &got);
    truth("received", (long)got == SIGUSR2);
}

CASE(mappings_that_cannot_be)
{
    int fd;

    scratch();
    file_make("file", "text");
    MUST(fd = open("file", O_RDWR));
    show("closed", mmap(NULL, 0, PROT_WRITE, MAP_SHARED, 60, 0) == MAP_FAILED ? -1 : 0);
    show("empty", mmap(NULL, 0, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0);
    show("no kind", mmap(NULL, 4096, PROT_READ, 0, fd, 0) == MAP_FAILED ? -1 : 0);
    show("unknown flag", mmap(NULL, 4096, PROT_READ, MAP_SHARED_VALIDATE | 1 << 22, fd, 0) == MAP_FAILED ? -1 : 0);
    show_ok("unknown flag, not validated", mmap(NULL, 4096, PROT_READ, MAP_SHARED | 1 << 22, fd, 0) == MAP_FAILED ? -1 : 0);
    show("validated without a file", mmap(NULL, 4096, PROT_READ, MAP_SHARED_VALIDATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0);
}

struct how {
    uint64_t flags, mode, resolve, more[4];
};

CASE(structures_longer_than_is_known)
{
    struct how how = { .flags = O_RDONLY };
    char *edge;

    scratch();
    file_make("file", "text");
    show_ok("zeros behind", syscall(SYS_openat2, AT_FDCWD, "file", &how, sizeof(how)));
    how.more[1] = 1;
    show("something behind", syscall(SYS_openat2, AT_FDCWD, "file", &how, sizeof(how)));
    show("too short", syscall(SYS_openat2, AT_FDCWD, "file", &how, 23));
    show("longer than a page", syscall(SYS_openat2, AT_FDCWD, "file", &how, 4097));
    page = sysconf(_SC_PAGESIZE);
    edge = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(edge + page, page);
    memset(edge + page - 24, 0, 24);
    show("past the memory", syscall(SYS_openat2, AT_FDCWD, "file", edge + page - 24, 25));
    how.more[1] = 0;
    how.resolve = 2; /* RESOLVE_NO_MAGICLINKS */
    show("magic link", syscall(SYS_openat2, AT_FDCWD, "/proc/self/exe", &how, sizeof(how)));
    show("through a magic link", syscall(SYS_openat2, AT_FDCWD, "/proc/self/cwd/file", &how, sizeof(how)));
    show_ok("usual link", syscall(SYS_openat2, AT_FDCWD, "/proc/self/status", &how, sizeof(how)));
}

CASE(pairs_of_internet_sockets)
{
    int ends[2];

    show("tcp", socketpair(AF_INET, SOCK_STREAM, IPPROTO_TCP, ends));
    show("udp", socketpair(AF_INET, SOCK_DGRAM, 0, ends));
    show("udp of tcp", socketpair(AF_INET, SOCK_DGRAM, IPPROTO_TCP, ends));
    show("icmp stream", socketpair(AF_INET, SOCK_STREAM, IPPROTO_ICMP, ends));
    show("raw without protocol", socketpair(AF_INET, SOCK_RAW, 0, ends));
}

CASE(scheduling_arguments)
{
    struct sched_param parameters;

    show("nobody", sched_getparam(-1, &parameters));
    show("nowhere", sched_getparam(0, NULL));
    show("no such thread", sched_getparam(0x3fffffff, &parameters));
}

CASE(slack_of_timers)
{
    FILE *file;
    long own = 0;

    show("set", prctl(PR_SET_TIMERSLACK, 70000));
    show("get", prctl(PR_GET_TIMERSLACK));
    if ((file = fopen("/proc/self/timerslack_ns", "r"))) {
        truth("read", fscanf(file, "%ld", &own) == 1);
        fclose(file);
    }
    number("in /proc", own);
    show("reset", prctl(PR_SET_TIMERSLACK, 0));
    show("usual", prctl(PR_GET_TIMERSLACK));
}

static sigjmp_buf back;

static void on_fault(int number)
{
    siglongjmp(back, number);
}

CASE(time_stamps_can_be_forbidden)
{
    struct sigaction action = { .sa_handler = on_fault }, old;
    int state = 0, number_got;

    sigaction(SIGSEGV, &action, &old);
    show("get", prctl(PR_GET_TSC, &state));
    number("state", state);
    show("forbid", prctl(PR_SET_TSC, PR_TSC_SIGSEGV));
    if ((number_got = sigsetjmp(back, 1)) == 0)
        __builtin_ia32_rdtsc();
    truth("SIGSEGV", number_got == SIGSEGV);
    prctl(PR_GET_TSC, &state);
    number("state", state);
    show("allow", prctl(PR_SET_TSC, PR_TSC_ENABLE));
    truth("works", __builtin_ia32_rdtsc() > 0);
    show("unknown", prctl(PR_SET_TSC, 3));
    sigaction(SIGSEGV, &old, NULL);
}

CASE(huge_pages_can_be_declined)
{
    show("get", prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
    show("set", prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
    show("get", prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
    show("unknown argument", prctl(PR_SET_THP_DISABLE, 0, 0, 1, 0));
    show("reset", prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0));
}

CASE(barriers_are_registered_for)
{
    show("unregistered", syscall(SYS_membarrier, 8, 0));
    show("register", syscall(SYS_membarrier, 16, 0));
    show("registered", syscall(SYS_membarrier, 8, 0));
    show("global", syscall(SYS_membarrier, 1, 0));
    show("unknown", syscall(SYS_membarrier, 1 << 20, 0));
    show("flags", syscall(SYS_membarrier, 1, 77));
}

CASE(descriptors_tell_what_they_are)
{
    char path[64], line[256];
    int fd, watch;
    unsigned mask = 0;
    FILE *file;

    scratch();
    MUST(fd = inotify_init());
    MUST(watch = inotify_add_watch(fd, ".", IN_MODIFY | IN_ONESHOT));
    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    MUST((file = fopen(path, "r")) ? 0 : -1);
    while (fgets(line, sizeof(line), file))
        if (sscanf(line, "inotify wd:%*x ino:%*x sdev:%*x mask:%x", &mask) == 1)
            printf("mask %x\n", mask);
    fclose(file);
}

static char small_stack[65536] __attribute__((aligned(4096)));
static volatile sig_atomic_t faulted;

static void on_no_room(int number)
{
    (void)number;
    faulted++;
    syscall(SYS_mprotect, small_stack, sizeof(small_stack), 3);
}

static void on_user(int number)
{
    (void)number;
}

CASE(frames_that_do_not_fit_are_a_fault_that_can_be_handled)
{
    struct sigaction fault = { .sa_handler = on_no_room }, user = { .sa_handler = on_user, .sa_flags = SA_ONSTACK };
    stack_t stack = { .ss_sp = small_stack, .ss_size = sizeof(small_stack) }, none = { .ss_flags = SS_DISABLE };

    faulted = 0;
    sigaction(SIGSEGV, &fault, NULL);
    sigaction(SIGUSR1, &user, NULL);
    MUST(sigaltstack(&stack, NULL));
    MUST(syscall(SYS_mprotect, small_stack, sizeof(small_stack), 1));
    raise(SIGUSR1);
    number("faults", faulted);
    sigaltstack(&none, NULL);
    signal(SIGSEGV, SIG_DFL);
}

CASE(freshness_is_asked_for_in_one_way)
{
    int both = AT_STATX_FORCE_SYNC | AT_STATX_DONT_SYNC;
    struct statx about;
    struct stat plain;

    show("always fresh", statx(AT_FDCWD, "/", AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &about));
    show("as it is", statx(AT_FDCWD, "/", AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &about));
    show("both", statx(AT_FDCWD, "/", both, STATX_BASIC_STATS, &about));
    show("both of what is not there", statx(AT_FDCWD, "/none", both, STATX_BASIC_STATS, &about));
    show("both with fstatat", syscall(SYS_newfstatat, AT_FDCWD, "/", &plain, both));
    show("reserved bit", statx(AT_FDCWD, "/", 0, 0x80000000u, &about));
    show("reserved bit of a bad path", statx(AT_FDCWD, (char *)8, 0, 0x80000000u, &about));
    show("all other bits", statx(AT_FDCWD, "/", 0, 0x7fffffffu, &about));
    show("flag", statx(AT_FDCWD, "/", 0x20000, 0, &about));
}

CASE(files_wait_for_nothing)
{
    int fds[2], on = 1, off = 0;

    scratch();
    MUST(fds[0] = open("file", O_RDWR | O_CREAT, 0600));
    MUST(fds[1] = open(".", O_RDONLY | O_DIRECTORY));
    for (int i = 0; i < 2; i++) {
        puts(i == 0 ? "file" : "directory");
        show("FIOASYNC", ioctl(fds[i], FIOASYNC, &on));
        show("FIOASYNC off", ioctl(fds[i], FIOASYNC, &off));
        show("FIOASYNC of nothing", ioctl(fds[i], FIOASYNC, (void *)8));
        show("FIONBIO", ioctl(fds[i], FIONBIO, &on));
        truth("shown", (fcntl(fds[i], F_GETFL) & O_NONBLOCK) != 0);
        show("FIONBIO off", ioctl(fds[i], FIONBIO, &off));
        truth("shown", (fcntl(fds[i], F_GETFL) & O_NONBLOCK) != 0);
        show("O_ASYNC", fcntl(fds[i], F_SETFL, O_ASYNC));
        truth("shown", (fcntl(fds[i], F_GETFL) & O_ASYNC) != 0);
    }
}

/* What kernels newer than 6.1 have beside these is not asked for. */
CASE(barriers_for_restartable_sequences)
{
    printf("all: %lx\n", syscall(SYS_membarrier, 0, 0, 0) & 0x1ff);
    show("flag for the question", syscall(SYS_membarrier, 0, 1, 0));
    show("unregistered", syscall(SYS_membarrier, 128, 0, 0));
    show("unregistered, on a processor", syscall(SYS_membarrier, 128, 1, 0));
    show("register with a flag", syscall(SYS_membarrier, 256, 1, 0));
    show("register", syscall(SYS_membarrier, 256, 0, 0));
    show("registered", syscall(SYS_membarrier, 128, 0, 0));
    show("on a processor", syscall(SYS_membarrier, 128, 1, 0));
    show("on none", syscall(SYS_membarrier, 128, 1, 99999));
    show("another flag", syscall(SYS_membarrier, 128, 2, 0));
    show("flag for another barrier", syscall(SYS_membarrier, 32, 1, 0));
}
