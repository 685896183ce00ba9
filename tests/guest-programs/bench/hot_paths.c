/*
 * Takes each hot path of the simulator a number of times, between two marks.
 *
 * Usage: hot_paths alone ROUNDS
 *        hot_paths costed ROUNDS
 *        hot_paths client|server udp|tcp|bulk ROUNDS
 *
 * A mark is an attempt to open a file that does not exist. Its name says which path begins or
 * ends; tests/hot_paths.rs sees it in the simulator's own system calls. Each path is taken
 * ROUNDS times before its first mark, so that all that is allocated once is there.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PORT 5000
#define BULK (64 * 1024)

static void check(int is_good, const char *what)
{
    if (!is_good) {
        perror(what);
        exit(1);
    }
}

static void mark(const char *edge, const char *path)
{
    char name[100];

    snprintf(name, sizeof name, "hot-path-%s-%s", edge, path);
    check(open(name, O_RDONLY) < 0, name);
}

static void measure(const char *path, long rounds, void (*round)(void))
{
    for (long i = 0; i < rounds; i++)
        round();
    mark("begin", path);
    for (long i = 0; i < rounds; i++)
        round();
    mark("end", path);
}

static void nothing(void)
{
}

static void call(void)
{
    check(getppid() >= 0, "getppid");
}

static int pipe_ends[2];

static void pipe_round(void)
{
    char data[64] = "";

    check(write(pipe_ends[1], data, sizeof data) == sizeof data, "write");
    check(read(pipe_ends[0], data, sizeof data) == sizeof data, "read");
}

static int epoll;

static void epoll_ready(void)
{
    struct epoll_event event;

    check(epoll_wait(epoll, &event, 1, -1) == 1, "epoll_wait");
}

static void poll_nothing(void)
{
    struct epoll_event event;

    check(epoll_wait(epoll, &event, 1, 0) == 0, "epoll_wait");
}

static uint32_t owner;

static void hand_over(uint32_t from, uint32_t to)
{
    while (__atomic_load_n(&owner, __ATOMIC_ACQUIRE) != from)
        syscall(SYS_futex, &owner, FUTEX_WAIT_PRIVATE, to, NULL, NULL, 0);
    __atomic_store_n(&owner, to, __ATOMIC_RELEASE);
    syscall(SYS_futex, &owner, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void futex_round(void)
{
    hand_over(0, 1);
}

static void *other_thread(void *unused)
{
    for (;;)
        hand_over(1, 0);
    return unused;
}

static void timer_round(void)
{
    struct timespec delay = {0, 1000000};

    check(clock_nanosleep(CLOCK_MONOTONIC, 0, &delay, NULL) == 0, "clock_nanosleep");
}

static void stat_round(void)
{
    struct stat status;

    check(stat("/etc/hosts", &status) == 0, "stat");
}

static void alone(long rounds)
{
    struct epoll_event event = {.events = EPOLLIN};
    pthread_t thread;
    int ready = eventfd(1, 0);

    measure("nothing", rounds, nothing);
    measure("call", rounds, call);
    check(pipe(pipe_ends) == 0, "pipe");
    measure("pipe", rounds, pipe_round);
    epoll = epoll_create1(0);
    check(epoll_ctl(epoll, EPOLL_CTL_ADD, pipe_ends[0], &event) == 0, "epoll_ctl");
    measure("epoll-none", rounds, poll_nothing);
    check(epoll_ctl(epoll, EPOLL_CTL_ADD, ready, &event) == 0, "epoll_ctl");
    measure("epoll-ready", rounds, epoll_ready);
    measure("stat", rounds, stat_round);
    measure("timer", rounds, timer_round);
    check(pthread_create(&thread, NULL, other_thread, NULL) == 0, "pthread_create");
    measure("futex", rounds, futex_round);
}

/* As tor does between two of its calls. */
static void look_round(void)
{
    struct timespec now;

    call();
    for (int i = 0; i < 6; i++)
        check(clock_gettime(CLOCK_MONOTONIC, &now) == 0, "clock_gettime");
}

static int peer;

static void send_all(const void *data, size_t length)
{
    for (size_t sent = 0; sent < length;) {
        ssize_t now = send(peer, (const char *)data + sent, length - sent, 0);
        check(now > 0, "send");
        sent += now;
    }
}

static void receive_all(void *data, size_t length)
{
    for (size_t received = 0; received < length;) {
        ssize_t now = recv(peer, (char *)data + received, length - received, 0);
        if (now == 0)
            exit(0);
        check(now > 0, "recv");
        received += now;
    }
}

/* A datagram, or a kilobyte of a stream, to the other host and back. */
static void echo(void)
{
    char data[1024] = "";

    send_all(data, sizeof data);
    receive_all(data, sizeof data);
}

/* As much as fits into a few dozen packets, and a byte back. */
static void bulk(void)
{
    static char data[BULK];

    send_all(data, sizeof data);
    receive_all(data, 1);
}

static struct sockaddr_in address(const char *text)
{
    struct sockaddr_in result = {.sin_family = AF_INET, .sin_port = htons(PORT)};

    check(inet_pton(AF_INET, text, &result.sin_addr) == 1, "inet_pton");
    return result;
}

static void client(const char *path, long rounds)
{
    struct sockaddr_in server = address("10.1.0.1");
    int type = strcmp(path, "udp") == 0 ? SOCK_DGRAM : SOCK_STREAM, on = 1;

    peer = socket(AF_INET, type, 0);
    check(connect(peer, (struct sockaddr *)&server, sizeof server) == 0, "connect");
    if (type == SOCK_STREAM)
        setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    measure(path, rounds, strcmp(path, "bulk") == 0 ? bulk : echo);
}

static void server(const char *path)
{
    struct sockaddr_in own = address("0.0.0.0"), other;
    socklen_t length = sizeof other;
    int type = strcmp(path, "udp") == 0 ? SOCK_DGRAM : SOCK_STREAM, on = 1;
    static char data[BULK];

    peer = socket(AF_INET, type, 0);
    check(bind(peer, (struct sockaddr *)&own, sizeof own) == 0, "bind");
    if (type == SOCK_DGRAM)
        for (;;) {
            ssize_t received = recvfrom(peer, data, sizeof data, 0, (struct sockaddr *)&other, &length);
            check(sendto(peer, data, received, 0, (struct sockaddr *)&other, length) == received, "sendto");
        }
    check(listen(peer, 1) == 0, "listen");
    peer = accept(peer, NULL, NULL);
    setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (;;)
        if (strcmp(path, "bulk") == 0) {
            receive_all(data, BULK);
            send_all(data, 1);
        } else {
            receive_all(data, 1024);
            send_all(data, 1024);
        }
}

int main(int argc, char **argv)
{
    check(argc >= 3, "arguments");
    if (strcmp(argv[1], "alone") == 0)
        alone(atol(argv[2]));
    else if (strcmp(argv[1], "costed") == 0)
        measure("costed", atol(argv[2]), look_round);
    else if (strcmp(argv[1], "client") == 0)
        client(argv[2], atol(argv[3]));
    else
        server(argv[2]);
    return 0;
}
