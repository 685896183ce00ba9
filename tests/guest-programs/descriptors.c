/*
 * Descriptor tables: dup in all forms, descriptor and status flags, limits on
 * their number, close and close_range.
 */
#include "case.h"

#include <sys/ioctl.h>
#include <sys/resource.h>

/* A descriptor on a fresh file "f" in the scratch directory. */
static int open_file(int flags)
{
    return MUST(open("f", O_RDWR | O_CREAT | flags, 0644));
}

static int is_open(int fd)
{
    return fcntl(fd, F_GETFD) != -1;
}

CASE(lowest_free_number)
{
    int a = MUST(open("/dev/null", O_RDONLY));
    int b = MUST(open("/dev/null", O_RDONLY));
    int c = MUST(open("/dev/null", O_RDONLY));
    truth("ascending", a < b && b < c);
    MUST(close(b));
    MUST(close(a));
    truth("lowest first", open("/dev/null", O_RDONLY) == a);
    truth("then next", open("/dev/null", O_RDONLY) == b);
}

CASE(close_twice)
{
    int fd = MUST(open("/dev/null", O_RDONLY));
    show("close", close(fd));
    show("close again", close(fd));
    show("close -1", close(-1));
    show("close huge", close(1000000));
}

CASE(dup_shares_offset)
{
    scratch();
    int fd = open_file(0);
    int copy = show_ok("dup", dup(fd));
    truth("another number", copy != fd);
    MUST(write(fd, "abc", 3));
    show("offset of copy", lseek(copy, 0, SEEK_CUR));
    MUST(lseek(copy, 1, SEEK_SET));
    show("offset of original", lseek(fd, 0, SEEK_CUR));
    show("close original", close(fd));
    show("write to copy", write(copy, "X", 1));
    file_show("f");
    show("dup of closed", dup(fd));
}

CASE(dup2_replaces)
{
    scratch();
    int fd = open_file(0);
    show("dup2 to 40", dup2(fd, 40));
    show("dup2 to itself", dup2(40, 40));
    int other = MUST(open("/dev/null", O_RDWR));
    show("dup2 over 40", dup2(other, 40));
    show("write", write(40, "gone", 4));
    show("size of file", lseek(fd, 0, SEEK_END));
    show("dup2 of closed", dup2(41, 42));
    show("dup2 closed onto itself", dup2(41, 41));
    show("dup2 to -1", dup2(fd, -1));
}

CASE(dup3_flags)
{
    int fd = MUST(open("/dev/null", O_RDWR));
    show("dup3", dup3(fd, 40, O_CLOEXEC));
    show("F_GETFD", fcntl(40, F_GETFD));
    show("dup3 without flag", dup3(fd, 40, 0));
    show("F_GETFD", fcntl(40, F_GETFD));
    show("dup3 onto itself", dup3(fd, fd, 0));
    show("dup3 bad flags", dup3(fd, 40, O_APPEND));
}

CASE(fcntl_dupfd)
{
    int fd = MUST(open("/dev/null", O_RDWR));
    show("F_DUPFD 50", fcntl(fd, F_DUPFD, 50));
    show("F_DUPFD 50 again", fcntl(fd, F_DUPFD, 50));
    show("F_GETFD", fcntl(50, F_GETFD));
    show("F_DUPFD_CLOEXEC 50", fcntl(fd, F_DUPFD_CLOEXEC, 50));
    show("F_GETFD", fcntl(52, F_GETFD));
    show("F_DUPFD -1", fcntl(fd, F_DUPFD, -1));
    show("F_DUPFD of bad", fcntl(999, F_DUPFD, 0));
}

CASE(cloexec_flag)
{
    int fd = MUST(open("/dev/null", O_RDWR));
    show("F_GETFD", fcntl(fd, F_GETFD));
    show("F_SETFD", fcntl(fd, F_SETFD, FD_CLOEXEC));
    show("F_GETFD", fcntl(fd, F_GETFD));
    int copy = MUST(dup(fd));
    show("F_GETFD of dup", fcntl(copy, F_GETFD));
    show("F_SETFD 0", fcntl(fd, F_SETFD, 0));
    show("F_GETFD", fcntl(fd, F_GETFD));
    int with = MUST(open("/dev/null", O_RDWR | O_CLOEXEC));
    show("O_CLOEXEC", fcntl(with, F_GETFD));
    show("FIOCLEX", ioctl(fd, FIOCLEX));
    show("F_GETFD", fcntl(fd, F_GETFD));
    show("FIONCLEX", ioctl(fd, FIONCLEX));
    show("F_GETFD", fcntl(fd, F_GETFD));
}

static void show_status_flags(const char *what, int fd)
{
    int flags = fcntl(fd, F_GETFL);

    printf("%s: %s%s%s%s\n", what,
           (flags & O_ACCMODE) == O_RDONLY ? "read" : (flags & O_ACCMODE) == O_WRONLY ? "write" : "both",
           flags & O_APPEND ? " append" : "", flags & O_NONBLOCK ? " nonblock" : "",
           flags & (O_CREAT | O_EXCL | O_TRUNC | O_CLOEXEC) ? " creation flags" : "");
}

CASE(status_flags)
{
    scratch();
    int fd = open_file(O_APPEND | O_CLOEXEC | O_TRUNC);
    show_status_flags("opened", fd);
    show("F_SETFL", fcntl(fd, F_SETFL, O_NONBLOCK));
    show_status_flags("nonblock", fd);
    int copy = MUST(dup(fd));
    show("F_SETFL on dup", fcntl(copy, F_SETFL, O_APPEND));
    show_status_flags("shared by dup", fd);
    show("F_SETFL cannot change access", fcntl(fd, F_SETFL, O_RDONLY));
    show_status_flags("still both", fd);
    show_status_flags("reader", MUST(open("f", O_RDONLY)));
    show_status_flags("writer", MUST(open("f", O_WRONLY | O_NONBLOCK)));
    show("bad command", fcntl(fd, 9999));
    show("bad descriptor", fcntl(999, F_GETFL));
}

CASE(fionbio_ioctl)
{
    int ends[2], on = 1, off = 0;
    MUST(pipe(ends));
    show("FIONBIO on", ioctl(ends[0], FIONBIO, &on));
    show_status_flags("pipe", ends[0]);
    show("FIONBIO off", ioctl(ends[0], FIONBIO, &off));
    show_status_flags("pipe", ends[0]);
    show("bad ioctl", ioctl(ends[0], 0x12345678, 0));
    show("ioctl of bad", ioctl(999, FIONBIO, &on));
}

CASE(terminal_ioctl_on_non_terminals)
{
    scratch();
    int ends[2], fd = open_file(0);
    char data[128];
    MUST(pipe(ends));
    show("TCGETS file", ioctl(fd, TCGETS, data));
    show("TCGETS pipe", ioctl(ends[0], TCGETS, data));
    show("isatty", isatty(fd) ? 1 : -1);
    show("TIOCGWINSZ stdin", ioctl(0, TIOCGWINSZ, data));
}

CASE(limit_on_descriptors)
{
    struct rlimit old, low;
    int opened = 0;
    MUST(getrlimit(RLIMIT_NOFILE, &old));
    low = old;
    low.rlim_cur = 30;
    show("setrlimit", setrlimit(RLIMIT_NOFILE, &low));
    int last = -1;
    for (int fd; (fd = open("/dev/null", O_RDONLY)) != -1; opened++)
        last = fd;
    number("error is EMFILE", errno == EMFILE);
    number("last", last);
    int ends[2];
    show("pipe", pipe(ends));
    show("dup", dup(0));
    show("dup2 beyond", dup2(0, 30));
    show("F_DUPFD beyond", fcntl(0, F_DUPFD, 30));
    show("socket", syscall(SYS_socket, 1, 1, 0));
    show("eventfd", syscall(SYS_eventfd2, 0, 0));
    show("epoll_create1", syscall(SYS_epoll_create1, 0));
    show("close", close(20));
    show("open", open("/dev/null", O_RDONLY));
    show("pipe needs two", (close(20), pipe(ends)));
    show("still one free", open("/dev/null", O_RDONLY));
    MUST(setrlimit(RLIMIT_NOFILE, &old));
    show("open after raising", open("/dev/null", O_RDONLY));
}

CASE(close_range_closes)
{
    for (int fd = 40; fd < 50; fd++)
        MUST(dup2(0, fd));
    show("close_range", close_range(42, 45, 0));
    for (int fd = 40; fd < 50; fd++)
        printf("%d open: %s\n", fd, is_open(fd) ? "yes" : "no");
    show("close_range to the end", close_range(48, ~0U, 0));
    truth("47 open", is_open(47));
    truth("49 open", is_open(49));
    show("first > last", close_range(9, 8, 0));
    show("bad flags", close_range(41, 42, 1 << 20));
}

CASE(close_range_cloexec)
{
    for (int fd = 40; fd < 44; fd++)
        MUST(dup2(0, fd));
    show("CLOSE_RANGE_CLOEXEC", close_range(41, 42, 4));
    for (int fd = 40; fd < 44; fd++)
        show("F_GETFD", fcntl(fd, F_GETFD));
}

CASE(descriptor_reused_after_close)
{
    int ends[2];
    char byte;
    MUST(pipe(ends));
    int old = ends[0];
    MUST(close(ends[0]));
    int fd = MUST(open("/dev/zero", O_RDONLY));
    truth("same number", fd == old);
    show("read", read(old, &byte, 1));
    number("byte", byte);
}

static void *opener(void *argument)
{
    int *fd = argument;

    *fd = open("/dev/zero", O_RDONLY);
    return NULL;
}

CASE(threads_share_descriptors)
{
    int fd = -1;
    char byte = 1;
    thread_join(thread_start(opener, &fd));
    show("read what the thread opened", read(fd, &byte, 1));
    show("close", close(fd));
}
