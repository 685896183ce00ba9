/*
 * Descriptors of the processes behind Unix sockets: SO_PEERPIDFD, SO_PASSPIDFD.
 * They came with Linux 6.5: on an older one each line says what a newer one does.
 */
#include "case.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76
#define SO_PEERPIDFD 77
#endif
#ifndef SCM_PIDFD
#define SCM_PIDFD 4
#endif

static int pair[2];

/* Whether this kernel knows the options; makes the pair. */
static int supported(void)
{
    int on = 1;

    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    return setsockopt(pair[0], SOL_SOCKET, SO_PASSPIDFD, &on, sizeof on) == 0;
}

static int peer_descriptor(int fd)
{
    int descriptor = -1;
    socklen_t length = sizeof descriptor;

    return getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &descriptor, &length) == 0 && length == 4 ? descriptor : -1;
}

/* The number that /proc/self/fdinfo tells of a descriptor of a process. */
static int pid_behind(int fd)
{
    char path[64], line[256];
    int pid = -1;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    FILE *file = fopen(path, "r");

    while (file && fgets(line, sizeof line, file))
        sscanf(line, "Pid: %d", &pid);
    if (file)
        fclose(file);
    return pid;
}

CASE(of_a_pair)
{
    int known = supported(), fd = known ? peer_descriptor(pair[0]) : -1;
    truth("descriptor", !known || fd >= 0);
    truth("own process", !known || pid_behind(fd) == getpid());
    truth("close on exec", !known || fcntl(fd, F_GETFD) == FD_CLOEXEC);
}

CASE(without_a_peer)
{
    int known = supported(), fd = MUST(socket(AF_UNIX, SOCK_STREAM, 0)), value;
    socklen_t length = sizeof value;
    long result = getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &value, &length);
    truth("refused", !known || (result == -1 && errno == ENODATA));
    result = setsockopt(pair[0], SOL_SOCKET, SO_PEERPIDFD, &value, sizeof value);
    truth("cannot be set", result == -1 && errno == ENOPROTOOPT);
}

CASE(of_a_child_that_sends)
{
    int known = supported();
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0) {
        char byte;
        MUST(write(pair[1], "x", 1));
        MUST(close(pair[0]));
        _exit(read(pair[1], &byte, 1) == 0 ? 7 : 8);
    }
    MUST(close(pair[1]));
    char data[4], control[CMSG_SPACE(sizeof(int)) + 64];
    struct iovec vector = { data, sizeof data };
    struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    number("received", MUST(recvmsg(pair[0], &message, 0)));
    struct cmsghdr *part = CMSG_FIRSTHDR(&message);
    int fd = -1;
    if (part && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_PIDFD)
        memcpy(&fd, CMSG_DATA(part), sizeof fd);
    truth("child's descriptor", !known || (fd >= 0 && pid_behind(fd) == child));
    struct pollfd entry = { .fd = fd, .events = POLLIN };
    truth("lives", !known || poll(&entry, 1, 0) == 0);
    MUST(close(pair[0]));
    truth("ends", !known || poll(&entry, 1, 5000) == 1);
    int status = 0;
    MUST(waitpid(child, &status, 0));
    number("status", WEXITSTATUS(status));
}

CASE(no_room_for_it)
{
    int known = supported();
    char data[4], control[4];
    struct iovec vector = { data, sizeof data };
    struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    MUST(write(pair[1], "x", 1));
    number("received", MUST(recvmsg(pair[0], &message, 0)));
    truth("cut", !known || message.msg_flags == MSG_CTRUNC);
    number("control", (long)message.msg_controllen);
}
