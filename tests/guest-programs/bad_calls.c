/*
 * Calls that must fail: unknown numbers, bad descriptors, and bad pointers,
 * each as a matrix made from a table, so that a new call is one line.
 */
#include "case.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <netinet/in.h>

/* Descriptors at fixed places, opened by `open_all`. */
enum {
    ZERO = 40,      /* /dev/zero, for reading */
    WRITER = 41,    /* a pipe's writing end */
    READER = 42,    /* a pipe's reading end, with a byte to read */
    EVENT = 43,     /* an eventfd with a count */
    TIMER = 44,     /* a timerfd */
    EPOLL = 45,     /* an epoll instance */
    STREAM = 46,    /* a Unix stream socket with a byte to read */
    UDP = 47,       /* an unconnected UDP socket */
    FILE_FD = 48,   /* a regular file of some bytes */
    DIRECTORY = 49, /* the scratch directory */
    LISTENER = 50,  /* a listening TCP socket with a pending connection */
};

static void put(int fd, int place)
{
    MUST(fd);
    MUST(dup2(fd, place));
}

static void open_all(void)
{
    int ends[2];
    struct epoll_event event = { .events = EPOLLIN };

    scratch();
    put(open("/dev/zero", O_RDWR), ZERO);
    MUST(pipe(ends));
    put(ends[1], WRITER);
    put(ends[0], READER);
    MUST(write(WRITER, "x", 1));
    put(eventfd(5, EFD_NONBLOCK), EVENT);
    put(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), TIMER);
    put(epoll_create1(0), EPOLL);
    MUST(epoll_ctl(EPOLL, EPOLL_CTL_ADD, READER, &event));
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    put(ends[0], STREAM);
    MUST(write(ends[1], "x", 1));
    put(socket(AF_INET, SOCK_DGRAM, 0), UDP);
    file_make("f", "some bytes");
    put(open("f", O_RDWR), FILE_FD);
    put(open(".", O_RDONLY | O_DIRECTORY), DIRECTORY);
    put(socket(AF_INET, SOCK_STREAM, 0), LISTENER);
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    MUST(bind(LISTENER, (struct sockaddr *)&address, sizeof address));
    MUST(listen(LISTENER, 5));
    MUST(getsockname(LISTENER, (struct sockaddr *)&address, &length));
    int client = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(client, (struct sockaddr *)&address, sizeof address));
}

/* Stands in a table for the argument that the matrix varies. */
#define HERE 0x5ca1ab1e

struct call {
    const char *name;
    long number;
    long arguments[6];
};

static long call_with(const struct call *call, long value)
{
    long a[6];

    for (int i = 0; i < 6; i++)
        a[i] = call->arguments[i] == HERE ? value : call->arguments[i];
    return syscall(call->number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void show_call(const struct call *call, const char *value_name, long value)
{
    char what[80];

    snprintf(what, sizeof what, "%s(%s)", call->name, value_name);
    show(what, call_with(call, value));
}

static const struct {
    const char *name;
    long value;
} pointers[] = {
    { "NULL", 0 },
    { "1", 1 },
    { "-1", -1 },
    { "1<<63", (long)(1UL << 63) },
};

static void show_pointers(const struct call *calls, size_t count)
{
    open_all();
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < COUNT_OF(pointers); j++)
            show_call(&calls[i], pointers[j].name, pointers[j].value);
}

static struct timespec short_time = { 0, 1000 };
static uint32_t futex_word;
static char buffer[256];
static socklen_t address_length = 16;

CASE(unknown_numbers)
{
    /* 335 and 336 are probes of newer kernels, which answer by SIGILL. */
    static const long numbers[] = { 380, 400, 423, 600, 999, 5000, 65536, 0x7fffffff, -1, -100 };
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        printf("%ld: ", numbers[i]);
        show("call", syscall(numbers[i], 1, 2, 3, 4, 5, 6));
    }
}

CASE(pointers_to_data_for_reading)
{
    static const struct call calls[] = {
        { "read zero", SYS_read, { ZERO, HERE, 8 } },
        { "read pipe", SYS_read, { READER, HERE, 1 } },
        { "read file", SYS_read, { FILE_FD, HERE, 8 } },
        { "read eventfd", SYS_read, { EVENT, HERE, 8 } },
        { "pread64", SYS_pread64, { FILE_FD, HERE, 8, 0 } },
        { "readv", SYS_readv, { ZERO, HERE, 1 } },
        { "preadv", SYS_preadv, { FILE_FD, HERE, 1, 0 } },
        { "recvfrom", SYS_recvfrom, { STREAM, HERE, 1, 0 } },
        { "recvmsg", SYS_recvmsg, { STREAM, HERE, 0 } },
        { "getrandom", SYS_getrandom, { HERE, 16, 0 } },
        { "getdents64", SYS_getdents64, { DIRECTORY, HERE, 4096 } },
        { "getcwd", SYS_getcwd, { HERE, 4096 } },
        { "readlink", SYS_readlink, { (long)"/proc/self", HERE, 100 } },
    };
    show_pointers(calls, COUNT_OF(calls));
}

CASE(pointers_to_data_for_writing)
{
    static const struct call calls[] = {
        { "write pipe", SYS_write, { WRITER, HERE, 8 } },
        { "write file", SYS_write, { FILE_FD, HERE, 8 } },
        { "write eventfd", SYS_write, { EVENT, HERE, 8 } },
        { "pwrite64", SYS_pwrite64, { FILE_FD, HERE, 8, 0 } },
        { "writev", SYS_writev, { WRITER, HERE, 1 } },
        { "pwritev", SYS_pwritev, { FILE_FD, HERE, 1, 0 } },
        { "sendto", SYS_sendto, { STREAM, HERE, 8, MSG_NOSIGNAL } },
        { "sendmsg", SYS_sendmsg, { STREAM, HERE, MSG_NOSIGNAL } },
    };
    show_pointers(calls, COUNT_OF(calls));
}

CASE(pointers_to_paths)
{
    static const struct call calls[] = {
        { "open", SYS_open, { HERE, O_RDONLY } },
        { "openat", SYS_openat, { AT_FDCWD, HERE, O_RDONLY } },
        { "stat", SYS_stat, { HERE, (long)buffer } },
        { "lstat", SYS_lstat, { HERE, (long)buffer } },
        { "access", SYS_access, { HERE, F_OK } },
        { "faccessat", SYS_faccessat, { AT_FDCWD, HERE, F_OK } },
        { "mkdir", SYS_mkdir, { HERE, 0755 } },
        { "rmdir", SYS_rmdir, { HERE } },
        { "unlink", SYS_unlink, { HERE } },
        { "unlinkat", SYS_unlinkat, { AT_FDCWD, HERE, 0 } },
        { "rename from", SYS_rename, { HERE, (long)"x" } },
        { "rename to", SYS_rename, { (long)"f", HERE } },
        { "link to", SYS_link, { (long)"f", HERE } },
        { "symlink to", SYS_symlink, { (long)"f", HERE } },
        { "readlink", SYS_readlink, { HERE, (long)buffer, 100 } },
        { "chdir", SYS_chdir, { HERE } },
        { "chmod", SYS_chmod, { HERE, 0644 } },
        { "truncate", SYS_truncate, { HERE, 0 } },
    };
    show_pointers(calls, COUNT_OF(calls));
}

CASE(pointers_to_results)
{
    static const struct call calls[] = {
        { "fstat", SYS_fstat, { FILE_FD, HERE } },
        { "stat", SYS_stat, { (long)"f", HERE } },
        { "newfstatat", SYS_newfstatat, { AT_FDCWD, (long)"f", HERE, 0 } },
        { "statx", SYS_statx, { AT_FDCWD, (long)"f", 0, 0x7ff, HERE } },
        { "pipe", SYS_pipe, { HERE } },
        { "pipe2", SYS_pipe2, { HERE, O_CLOEXEC } },
        { "socketpair", SYS_socketpair, { AF_UNIX, SOCK_STREAM, 0, HERE } },
        { "uname", SYS_uname, { HERE } },
        { "sysinfo", SYS_sysinfo, { HERE } },
        { "getrlimit", SYS_getrlimit, { RLIMIT_NOFILE, HERE } },
        { "getrusage", SYS_getrusage, { RUSAGE_SELF, HERE } },
        { "getresuid", SYS_getresuid, { HERE, (long)buffer, (long)buffer } },
        { "sched_getaffinity", SYS_sched_getaffinity, { 0, 128, HERE } },
        { "ioctl FIONREAD", SYS_ioctl, { READER, 0x541b, HERE } },
        { "ioctl FIONBIO", SYS_ioctl, { EVENT, 0x5421, HERE } },
    };
    show_pointers(calls, COUNT_OF(calls));
}

CASE(pointers_to_times)
{
    static const struct call calls[] = {
        { "clock_gettime", SYS_clock_gettime, { CLOCK_MONOTONIC, HERE } },
        { "nanosleep", SYS_nanosleep, { HERE, 0 } },
        { "clock_nanosleep", SYS_clock_nanosleep, { CLOCK_MONOTONIC, 0, HERE, 0 } },
        { "timerfd_settime", SYS_timerfd_settime, { TIMER, 0, HERE, 0 } },
        { "timerfd_gettime", SYS_timerfd_gettime, { TIMER, HERE } },
        { "getitimer", SYS_getitimer, { ITIMER_REAL, HERE } },
    };
    show_pointers(calls, COUNT_OF(calls));
}

CASE(pointers_that_may_be_null)
{
    static const struct call calls[] = {
        { "gettimeofday", SYS_gettimeofday, { HERE, 0 } },
        { "time", SYS_time, { HERE } },
        { "clock_getres", SYS_clock_getres, { CLOCK_MONOTONIC, HERE } },
        { "sigaction old", SYS_rt_sigaction, { SIGUSR1, 0, HERE, 8 } },
        { "sigaction new", SYS_rt_sigaction, { SIGUSR1, HERE, 0, 8 } },
        { "sigprocmask new", SYS_rt_sigprocmask, { SIG_BLOCK, HERE, 0, 8 } },
        { "sigprocmask old", SYS_rt_sigprocmask, { SIG_BLOCK, 0, HERE, 8 } },
        { "sigaltstack new", SYS_sigaltstack, { HERE, 0 } },
        { "sigaltstack old", SYS_sigaltstack, { 0, HERE } },
        { "getcpu", SYS_getcpu, { HERE, 0, 0 } },
        { "prlimit new", SYS_prlimit64, { 0, RLIMIT_NOFILE, HERE, 0 } },
        { "prlimit old", SYS_prlimit64, { 0, RLIMIT_NOFILE, 0, HERE } },
    };
    open_all();
    for (size_t i = 0; i < COUNT_OF(calls); i++)
        for (size_t j = 1; j < COUNT_OF(pointers); j++)
            show_call(&calls[i], pointers[j].name, pointers[j].value);
}

CASE(accept_with_a_bad_address)
{
    open_all();
    set_nonblocking(LISTENER);
    show("length at 8", syscall(SYS_accept, LISTENER, buffer, 8));
    show("the connection is lost", accept(LISTENER, NULL, NULL));
}

CASE(pointers_to_sets_of_descriptors)
{
    static const struct call calls[] = {
        { "poll", SYS_poll, { HERE, 1, 0 } },
        { "ppoll", SYS_ppoll, { HERE, 1, (long)&short_time, 0, 8 } },
        { "epoll_wait", SYS_epoll_wait, { EPOLL, HERE, 1, 0 } },
        { "epoll_ctl add", SYS_epoll_ctl, { EPOLL, EPOLL_CTL_ADD, WRITER, HERE } },
        { "epoll_ctl mod", SYS_epoll_ctl, { EPOLL, EPOLL_CTL_MOD, READER, HERE } },
    };
    show_pointers(calls, COUNT_OF(calls));
    static const struct call selects[] = {
        { "select readers", SYS_select, { 45, HERE, 0, 0, 0 } },
        { "select time", SYS_select, { 0, 0, 0, 0, HERE } },
    };
    for (size_t i = 0; i < COUNT_OF(selects); i++)
        for (size_t j = 1; j < COUNT_OF(pointers); j++)
            show_call(&selects[i], pointers[j].name, pointers[j].value);
}

CASE(pointers_to_addresses)
{
    static const struct call calls[] = {
        { "bind", SYS_bind, { UDP, HERE, 16 } },
        { "connect", SYS_connect, { UDP, HERE, 16 } },
        { "sendto address", SYS_sendto, { UDP, (long)buffer, 1, 0, HERE, 16 } },
        { "getsockname", SYS_getsockname, { UDP, HERE, (long)&address_length } },
        { "getsockname length", SYS_getsockname, { UDP, (long)buffer, HERE } },
        { "getsockopt value", SYS_getsockopt, { UDP, SOL_SOCKET, SO_TYPE, HERE, (long)&address_length } },
        { "getsockopt length", SYS_getsockopt, { UDP, SOL_SOCKET, SO_TYPE, (long)buffer, HERE } },
        { "setsockopt", SYS_setsockopt, { UDP, SOL_SOCKET, SO_REUSEADDR, HERE, 4 } },
    };
    open_all();
    for (size_t i = 0; i < COUNT_OF(calls); i++)
        for (size_t j = 0; j < COUNT_OF(pointers); j++) {
            /* With no address sendto has no destination: that error is another matter. */
            if (calls[i].number == SYS_sendto && j == 0)
                continue;
            show_call(&calls[i], pointers[j].name, pointers[j].value);
        }
}

CASE(pointers_to_futexes)
{
    static const struct call calls[] = {
        { "wait", SYS_futex, { HERE, FUTEX_WAIT_PRIVATE, 0, (long)&short_time } },
        { "wake_op", SYS_futex, { (long)&futex_word, FUTEX_WAKE_OP_PRIVATE, 1, 1, HERE, 0 } },
        { "cmp_requeue", SYS_futex, { HERE, FUTEX_CMP_REQUEUE_PRIVATE, 1, 1, (long)&futex_word, 0 } },
    };
    show_pointers(calls, COUNT_OF(calls));
}

/* The kernel would hold these pointers until a thread dies: only lengths are tried. */
CASE(robust_list_length)
{
    show("set", syscall(SYS_set_robust_list, buffer, 1));
}

static const struct {
    const char *name;
    long value;
} descriptors[] = {
    { "-1", -1 },
    { "closed", 63 },
    { "999999", 999999 },
};

CASE(bad_descriptors)
{
    static struct iovec vector = { buffer, 1 };
    static struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1 };
    static socklen_t length = 16;
    static const struct call calls[] = {
        { "read", SYS_read, { HERE, (long)buffer, 1 } },
        { "write", SYS_write, { HERE, (long)buffer, 1 } },
        { "pread64", SYS_pread64, { HERE, (long)buffer, 1, 0 } },
        { "pwrite64", SYS_pwrite64, { HERE, (long)buffer, 1, 0 } },
        { "readv", SYS_readv, { HERE, (long)&vector, 1 } },
        { "writev", SYS_writev, { HERE, (long)&vector, 1 } },
        { "close", SYS_close, { HERE } },
        { "dup", SYS_dup, { HERE } },
        { "dup2", SYS_dup2, { HERE, 20 } },
        { "dup3", SYS_dup3, { HERE, 20, 0 } },
        { "fcntl", SYS_fcntl, { HERE, F_GETFL } },
        { "ioctl", SYS_ioctl, { HERE, 0x541b, (long)buffer } },
        { "lseek", SYS_lseek, { HERE, 0, SEEK_SET } },
        { "fstat", SYS_fstat, { HERE, (long)buffer } },
        { "ftruncate", SYS_ftruncate, { HERE, 0 } },
        { "fsync", SYS_fsync, { HERE } },
        { "fdatasync", SYS_fdatasync, { HERE } },
        { "fchmod", SYS_fchmod, { HERE, 0644 } },
        { "fchdir", SYS_fchdir, { HERE } },
        { "getdents64", SYS_getdents64, { HERE, (long)buffer, 256 } },
        { "fallocate", SYS_fallocate, { HERE, 0, 0, 10 } },
        { "openat", SYS_openat, { HERE, (long)"relative", O_RDONLY } },
        { "unlinkat", SYS_unlinkat, { HERE, (long)"relative", 0 } },
        { "newfstatat", SYS_newfstatat, { HERE, (long)"relative", (long)buffer, 0 } },
        { "socket: bind", SYS_bind, { HERE, (long)buffer, 16 } },
        { "listen", SYS_listen, { HERE, 1 } },
        { "accept", SYS_accept, { HERE, 0, 0 } },
        { "connect", SYS_connect, { HERE, (long)buffer, 16 } },
        { "sendto", SYS_sendto, { HERE, (long)buffer, 1, 0, 0, 0 } },
        { "recvfrom", SYS_recvfrom, { HERE, (long)buffer, 1, 0, 0, 0 } },
        { "sendmsg", SYS_sendmsg, { HERE, (long)&message, 0 } },
        { "recvmsg", SYS_recvmsg, { HERE, (long)&message, 0 } },
        { "shutdown", SYS_shutdown, { HERE, SHUT_RDWR } },
        { "getsockname", SYS_getsockname, { HERE, (long)buffer, (long)&length } },
        { "getpeername", SYS_getpeername, { HERE, (long)buffer, (long)&length } },
        { "getsockopt", SYS_getsockopt, { HERE, SOL_SOCKET, SO_TYPE, (long)buffer, (long)&length } },
        { "setsockopt", SYS_setsockopt, { HERE, SOL_SOCKET, SO_REUSEADDR, (long)buffer, 4 } },
        { "epoll_wait", SYS_epoll_wait, { HERE, (long)buffer, 1, 0 } },
        { "timerfd_gettime", SYS_timerfd_gettime, { HERE, (long)buffer } },
        { "mmap", SYS_mmap, { 0, 4096, 1, 2, HERE, 0 } },
    };
    for (size_t i = 0; i < COUNT_OF(calls); i++)
        for (size_t j = 0; j < COUNT_OF(descriptors); j++)
            show_call(&calls[i], descriptors[j].name, descriptors[j].value);
}

CASE(sockets_that_are_none)
{
    static struct iovec vector = { buffer, 1 };
    static struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1 };
    static socklen_t length = 16;
    static const struct call calls[] = {
        { "bind", SYS_bind, { HERE, (long)buffer, 16 } },
        { "listen", SYS_listen, { HERE, 1 } },
        { "accept", SYS_accept, { HERE, 0, 0 } },
        { "sendto", SYS_sendto, { HERE, (long)buffer, 1, 0, 0, 0 } },
        { "recvfrom", SYS_recvfrom, { HERE, (long)buffer, 1, 0, 0, 0 } },
        { "sendmsg", SYS_sendmsg, { HERE, (long)&message, 0 } },
        { "recvmsg", SYS_recvmsg, { HERE, (long)&message, 0 } },
        { "shutdown", SYS_shutdown, { HERE, SHUT_RDWR } },
        { "getsockname", SYS_getsockname, { HERE, (long)buffer, (long)&length } },
        { "getpeername", SYS_getpeername, { HERE, (long)buffer, (long)&length } },
        { "getsockopt", SYS_getsockopt, { HERE, SOL_SOCKET, SO_TYPE, (long)buffer, (long)&length } },
    };
    open_all();
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        show_call(&calls[i], "pipe", READER);
        show_call(&calls[i], "eventfd", EVENT);
        show_call(&calls[i], "file", FILE_FD);
    }
}

CASE(offsets_where_there_are_none)
{
    static const struct call calls[] = {
        { "lseek", SYS_lseek, { HERE, 0, SEEK_SET } },
        { "pread64", SYS_pread64, { HERE, (long)buffer, 8, 0 } },
        { "pwrite64", SYS_pwrite64, { HERE, (long)buffer, 8, 0 } },
        { "ftruncate", SYS_ftruncate, { HERE, 0 } },
        { "getdents64", SYS_getdents64, { HERE, (long)buffer, 256 } },
        { "fchdir", SYS_fchdir, { HERE } },
    };
    open_all();
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        show_call(&calls[i], "pipe", calls[i].number == SYS_pwrite64 ? WRITER : READER);
        show_call(&calls[i], "stream", STREAM);
        show_call(&calls[i], "udp", UDP);
    }
}

CASE(vectors_with_bad_entries)
{
    struct iovec good_then_bad[] = { { (void *)"good", 4 }, { (void *)8, 4 } };
    struct iovec bad_then_good[] = { { (void *)8, 4 }, { (void *)"good", 4 } };
    struct iovec empty_bad[] = { { (void *)8, 0 }, { (void *)"good", 4 } };
    int ends[2];
    scratch();
    MUST(pipe(ends));
    int fd = MUST(open("f", O_RDWR | O_CREAT, 0644));
    show("pipe: bad then good", writev(ends[1], bad_then_good, 2));
    show("pipe: empty bad then good", writev(ends[1], empty_bad, 2));
    show("file: bad then good", writev(fd, bad_then_good, 2));
    show("file: good then bad", writev(fd, good_then_bad, 2));
    show("file: empty bad then good", writev(fd, empty_bad, 2));
    file_show("f");
}

CASE(bytes_stay_after_a_fault)
{
    char byte;
    int ends[2], pair[2];
    uint64_t value = 0;
    MUST(pipe(ends));
    MUST(write(ends[1], "p", 1));
    show("pipe fault", syscall(SYS_read, ends[0], 8, 1));
    show("pipe still has it", read(ends[0], &byte, 1));
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    MUST(write(pair[1], "s", 1));
    show("stream fault", syscall(SYS_read, pair[0], 8, 1));
    show("stream still has it", recv(pair[0], &byte, 1, MSG_DONTWAIT));
    int event = MUST(eventfd(6, EFD_NONBLOCK));
    show("eventfd fault", syscall(SYS_read, event, 8, 8));
    show("eventfd lost it", read(event, &value, 8));
}
