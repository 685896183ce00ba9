/* What threads and processes share of descriptors and directories, and looking into other processes. */
#include "process.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#define KCMP_FILE 0
#define KCMP_VM 1
#define KCMP_FILES 2
#define KCMP_FS 3
#define KCMP_SIGHAND 4

static char stack[65536] __attribute__((aligned(16)));

static int compare(pid_t first, pid_t second, int kind, unsigned long a, unsigned long b)
{
    int order = syscall(SYS_kcmp, first, second, kind, a, b);

    return order > 0 ? 1 : order;
}

static void *unshare_files(void *argument)
{
    int fd = *(int *)argument, other;

    show("unshare", unshare(CLONE_FILES));
    show("its own is open", fcntl(fd, F_GETFD));
    MUST(close(fd));
    show("closed here", fcntl(fd, F_GETFD));
    other = MUST(open("/dev/null", O_RDONLY));
    truth("the number is free again", other == fd);
    show("unshare again", unshare(CLONE_FILES));
    show("still open", fcntl(fd, F_GETFD));
    return NULL;
}

CASE(a_thread_unshares_descriptors)
{
    int fd = MUST(open("/dev/zero", O_RDONLY));
    char byte = 'x';

    thread_join(thread_start(unshare_files, &fd));
    show("open elsewhere", fcntl(fd, F_GETFD));
    show("read", read(fd, &byte, 1));
    number("byte", byte);
}

static int ends_of_thread[2];

static void *keep_write_end(void *argument)
{
    (void)argument;
    MUST(unshare(CLONE_FILES));
    return NULL;
}

CASE(the_end_of_a_thread_closes_its_descriptors)
{
    char byte;

    make_pipe(ends_of_thread);
    thread_join(thread_start(keep_write_end, NULL));
    MUST(close(ends_of_thread[1]));
    show("end of file", read(ends_of_thread[0], &byte, 1));
}

static void *close_range_unshared(void *argument)
{
    int fd = *(int *)argument;

    show("close_range", syscall(436, fd, fd, 2));
    show("closed here", fcntl(fd, F_GETFD));
    return NULL;
}

CASE(close_range_unshares_for_one_thread)
{
    int fd = MUST(open("/dev/zero", O_RDONLY));

    thread_join(thread_start(close_range_unshared, &fd));
    show("open elsewhere", fcntl(fd, F_GETFD));
}

static void *change_directory(void *argument)
{
    char place[200];

    (void)argument;
    show("unshare", unshare(CLONE_FS));
    MUST(chdir("/usr"));
    umask(077);
    text("here", getcwd(place, sizeof place));
    return NULL;
}

CASE(a_thread_unshares_its_directory)
{
    char place[200];

    scratch();
    umask(022);
    thread_join(thread_start(change_directory, NULL));
    truth("not moved", strcmp(getcwd(place, sizeof place), "/usr") != 0);
    printf("umask %o\n", umask(022));
}

static void *just_chdir(void *argument)
{
    MUST(chdir(argument));
    return NULL;
}

CASE(threads_share_their_directory)
{
    char place[200];

    thread_join(thread_start(just_chdir, "/usr"));
    text("moved", getcwd(place, sizeof place));
    MUST(chdir(case_start_dir));
}

struct plan {
    int fd, seen;
};

static int act(void *argument)
{
    struct plan *plan = argument;

    close(plan->fd);
    if (chdir("/usr"))
        return 1;
    plan->seen++;
    return 0;
}

CASE(clone_shares_what_its_flags_say)
{
    static const int flags[] = { 0, CLONE_FILES, CLONE_FS, CLONE_FILES | CLONE_FS, CLONE_VM, CLONE_VM | CLONE_FILES | CLONE_FS };

    for (size_t i = 0; i < COUNT_OF(flags); i++) {
        struct plan plan = { MUST(open("/dev/null", O_RDONLY)), 0 };
        char place[200];
        int status;
        pid_t pid;

        fflush(stdout);
        pid = MUST(clone(act, stack + sizeof stack, flags[i] | SIGCHLD, &plan));
        MUST(waitpid(pid, &status, 0));
        printf("files %d fs %d vm %d: descriptor %s, directory %s, memory %s\n", !!(flags[i] & CLONE_FILES),
               !!(flags[i] & CLONE_FS), !!(flags[i] & CLONE_VM), fcntl(plan.fd, F_GETFD) == -1 ? "closed" : "open",
               strcmp(getcwd(place, sizeof place), "/usr") ? "kept" : "changed", plan.seen ? "shared" : "own");
        MUST(chdir(case_start_dir));
        close(plan.fd);
    }
}

static int unshare_and_close(void *argument)
{
    MUST(unshare(CLONE_FILES | CLONE_FS));
    return act(argument);
}

CASE(a_process_unshares)
{
    struct plan plan = { MUST(open("/dev/null", O_RDONLY)), 0 };
    char place[200];
    int status;
    pid_t pid;

    fflush(stdout);
    pid = MUST(clone(unshare_and_close, stack + sizeof stack, CLONE_FILES | CLONE_FS | SIGCHLD, &plan));
    MUST(waitpid(pid, &status, 0));
    show("open", fcntl(plan.fd, F_GETFD));
    truth("directory kept", strcmp(getcwd(place, sizeof place), "/usr") != 0);
}

static void *exec_from_thread(void *argument)
{
    (void)argument;
    MUST(unshare(CLONE_FILES));
    MUST(dup2(open("/dev/null", O_WRONLY), 40));
    execl("/bin/sh", "sh", "-c", "test -e /proc/self/fd/40 && test ! -e /proc/self/fd/41", NULL);
    return NULL;
}

static int exec_in_thread(void *argument)
{
    (void)argument;
    MUST(dup2(0, 41));
    MUST(fcntl(41, F_SETFD, FD_CLOEXEC));
    thread_join(thread_start(exec_from_thread, NULL));
    return 1;
}

CASE(exec_keeps_the_descriptors_of_its_thread)
{
    in_child("child", exec_in_thread, NULL);
}

CASE(unshare_refuses)
{
    show("nothing", unshare(0));
    show("unknown", unshare(1));
    show("descriptors alone", unshare(CLONE_FILES));
    show("semaphores", unshare(CLONE_SYSVSEM));
    show("setns of nothing", setns(-1, 0));
}

static int wait_for_gate(void *argument)
{
    wait_for_end(*(int *)argument);
    return 0;
}

CASE(kcmp_compares)
{
    int ends[2], copy = MUST(dup(1)), other = MUST(open("/dev/null", O_RDONLY));
    pid_t pid, self = getpid();

    make_pipe(ends);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        close(ends[1]);
        _exit(wait_for_gate(&ends[0]));
    }
    number("the same file", compare(self, self, KCMP_FILE, 1, copy));
    number("different files", compare(self, self, KCMP_FILE, 1, other));
    number("the child's", compare(self, pid, KCMP_FILE, other, other));
    number("memory", compare(self, pid, KCMP_VM, 0, 0));
    number("own memory", compare(self, self, KCMP_VM, 0, 0));
    number("descriptors", compare(self, pid, KCMP_FILES, 0, 0));
    number("directory", compare(self, pid, KCMP_FS, 0, 0));
    number("handlers", compare(self, pid, KCMP_SIGHAND, 0, 0));
    show("bad descriptor", syscall(SYS_kcmp, self, self, KCMP_FILE, 1, 60));
    show("bad kind", syscall(SYS_kcmp, self, self, 99, 0, 0));
    show("no process", syscall(SYS_kcmp, self, 0x7ffffff0, KCMP_VM, 0, 0));
    close(ends[1]);
    child_end("child", pid);
}

CASE(memory_of_a_child)
{
    static char data[20000];
    char local[100] = "";
    int ends[2];
    pid_t pid;
    struct iovec own = { local, 30 }, its = { data + 4090, 30 };
    struct iovec parts[2] = { { local, 3 }, { local + 10, 3 } };

    make_pipe(ends);
    strcpy(data + 4090, "before the fork");
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        close(ends[1]);
        strcpy(data + 4090, "written by child");
        wait_for_end(ends[0]);
        _exit(strcmp(data + 4090, "WRITTEN by child"));
    }
    close(ends[0]);
    sleep_ms(50);
    show("read", process_vm_readv(pid, &own, 1, &its, 1, 0));
    text("child's", local);
    text("own", data + 4090);
    strcpy(local, "WRITTEN");
    own.iov_len = 7;
    show("write", process_vm_writev(pid, &own, 1, &its, 1, 0));
    text("own", data + 4090);
    show("into parts", process_vm_readv(pid, parts, 2, &its, 1, 0));
    printf("%.3s %.3s\n", local, local + 10);
    its.iov_base = (void *)8;
    show("nothing there", process_vm_readv(pid, &own, 1, &its, 1, 0));
    its.iov_base = data;
    show("flags", process_vm_readv(pid, &own, 1, &its, 1, 1));
    show("no process", process_vm_readv(0x7ffffff0, &own, 1, &its, 1, 0));
    own.iov_len = 5;
    strcpy(data, "self");
    show("of oneself", process_vm_readv(getpid(), &own, 1, &its, 1, 0));
    text("self", local);
    close(ends[1]);
    child_end("child", pid);
}

CASE(descriptors_of_a_child)
{
    int ends[2], ready[2], pidfd, fd;
    char data[8] = "";
    pid_t pid;

    scratch();
    make_pipe(ends);
    make_pipe(ready);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        close(ends[1]);
        file_make("file", "content");
        MUST(dup2(open("file", O_RDONLY), 50));
        gate_open(ready[1]);
        wait_for_end(ends[0]);
        _exit(lseek(50, 0, SEEK_CUR) == 4 ? 0 : 1);
    }
    gate_wait(ready[0]);
    pidfd = MUST(syscall(SYS_pidfd_open, pid, 0));
    fd = show_ok("pidfd_getfd", syscall(SYS_pidfd_getfd, pidfd, 50, 0));
    truth("close-on-exec", fcntl(fd, F_GETFD) & FD_CLOEXEC);
    show("read", read(fd, data, 4));
    text("data", data);
    show("not open there", syscall(SYS_pidfd_getfd, pidfd, 51, 0));
    show("flags", syscall(SYS_pidfd_getfd, pidfd, 50, 1));
    show("no pidfd", syscall(SYS_pidfd_getfd, 1, 50, 0));
    close(ends[1]);
    child_end("child", pid);
    show("after its end", syscall(SYS_pidfd_getfd, pidfd, 50, 0));
}

/* A sequence of its own for each thread of the library's: where the processor's number stands. */
CASE(restartable_sequences)
{
    static struct {
        uint32_t cpu_id_start, cpu_id;
        uint64_t sequence;
        uint32_t flags, rest[3];
    } area __attribute__((aligned(32)));
    long first = syscall(334, &area, sizeof area, 0, 0x53053053);

    /* The C library may have registered one before; then this one is refused. */
    if (first == 0) {
        truth("a processor", area.cpu_id < 4096 && area.cpu_id == area.cpu_id_start);
        show("once more", syscall(334, &area, sizeof area, 0, 0x53053053) == -1 && errno == EBUSY ? -2 : 0);
        syscall(334, &area, sizeof area, 1, 0x53053053);
    }
    show("misaligned or there is one", syscall(334, (char *)&area + 1, sizeof area, 0, 0x53053053));
    show("flags", syscall(334, &area, sizeof area, 8, 0x53053053));
    truth("sched_getcpu", sched_getcpu() >= 0);
}
