/*
 * What the programs about TCP share: sockets on the loopback address, an
 * established connection, options, and waiting for packets.
 *
 * Ports come from bind to port 0 and are never printed.
 */
#ifndef GNOMON_TCP_H
#define GNOMON_TCP_H

#include "case.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

static int server, client, session;

static inline struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
}

static inline struct sockaddr_in local_address(int fd)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;

    MUST(getsockname(fd, (struct sockaddr *)&address, &length));
    return address;
}

static inline long try_bind(int fd, int port)
{
    struct sockaddr_in address = loopback(port);

    return bind(fd, (struct sockaddr *)&address, sizeof address);
}

static inline long try_connect(int fd, int port)
{
    struct sockaddr_in address = loopback(port);

    return connect(fd, (struct sockaddr *)&address, sizeof address);
}

static inline int port_of(int fd)
{
    return ntohs(local_address(fd).sin_port);
}

static inline int new_socket(void)
{
    return MUST(socket(AF_INET, SOCK_STREAM, 0));
}

static inline int new_listener(int backlog)
{
    int fd = new_socket();

    MUST(try_bind(fd, 0));
    MUST(listen(fd, backlog));
    return fd;
}

/* A port of the loopback address on which nobody listens. */
static inline int quiet_port(void)
{
    int fd = new_socket();

    MUST(try_bind(fd, 0));
    int port = port_of(fd);
    MUST(close(fd));
    return port;
}

/* Sets `server`, `client` and `session` to a listener and a connection's ends. */
static inline void establish(void)
{
    server = new_listener(8);
    client = new_socket();
    MUST(try_connect(client, port_of(server)));
    session = MUST(accept(server, NULL, NULL));
}

static inline int get_option(int fd, int level, int option)
{
    int value = -1;
    socklen_t length = sizeof value;

    if (getsockopt(fd, level, option, &value, &length) == -1)
        show("getsockopt", -1);
    return value;
}

static inline long set_option(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value);
}

static inline int tcp_state(int fd)
{
    struct tcp_info info;
    socklen_t length = sizeof info;

    memset(&info, 0, sizeof info);
    MUST(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length));
    return info.tcpi_state;
}

static inline void show_poll(const char *what, int fd, int timeout_ms)
{
    struct pollfd entry = { .fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP };
    int ready = poll(&entry, 1, timeout_ms);

    printf("%s: %d%s%s%s%s%s\n", what, ready, entry.revents & POLLIN ? " IN" : "",
           entry.revents & POLLOUT ? " OUT" : "", entry.revents & POLLRDHUP ? " RDHUP" : "",
           entry.revents & POLLHUP ? " HUP" : "", entry.revents & POLLERR ? " ERR" : "");
}

/* Waits until poll reports at least one of the events: packets take time. */
static inline void await(int fd, short events)
{
    struct pollfd entry = { .fd = fd, .events = events };

    MUST(poll(&entry, 1, 5000));
}

static inline void await_unread(int fd, int amount)
{
    int unread = -1;

    for (int i = 0; i < 1000 && unread != amount; i++) {
        MUST(ioctl(fd, FIONREAD, &unread));
        if (unread != amount)
            sleep_ms(1);
    }
    number("unread", unread);
}

/* Makes close send a reset. */
static inline void reset_on_close(int fd)
{
    struct linger linger = { .l_onoff = 1, .l_linger = 0 };

    MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
}

#endif
