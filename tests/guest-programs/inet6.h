/*
 * What the programs about IPv6 share: addresses of both families by a short
 * name, sockets, and addresses in words.
 *
 * Ports come from bind to port 0 and are never printed.
 */
#ifndef GNOMON_INET6_H
#define GNOMON_INET6_H

#include "case.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

struct name {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    };
    socklen_t length;
};

/* "0.0.0.0" and its like for IPv4, what has a colon for IPv6. */
static inline struct name name_of(const char *text, int port)
{
    struct name name;

    memset(&name, 0, sizeof name);
    if (strchr(text, ':')) {
        name.v6.sin6_family = AF_INET6;
        name.v6.sin6_port = htons(port);
        MUST(inet_pton(AF_INET6, text, &name.v6.sin6_addr) - 1);
        name.length = sizeof name.v6;
    } else {
        name.v4.sin_family = AF_INET;
        name.v4.sin_port = htons(port);
        MUST(inet_pton(AF_INET, text, &name.v4.sin_addr) - 1);
        name.length = sizeof name.v4;
    }
    return name;
}

static inline int family_of(const char *text)
{
    return strchr(text, ':') ? AF_INET6 : AF_INET;
}

static inline long try_bind(int fd, const char *text, int port)
{
    struct name name = name_of(text, port);

    return bind(fd, &name.any, name.length);
}

static inline long try_connect(int fd, const char *text, int port)
{
    struct name name = name_of(text, port);

    return connect(fd, &name.any, name.length);
}

static inline long try_send(int fd, const char *text, int port, const char *data)
{
    struct name name = name_of(text, port);

    return sendto(fd, data, strlen(data), 0, &name.any, name.length);
}

static inline struct name local_name(int fd)
{
    struct name name;

    memset(&name, 0, sizeof name);
    name.length = sizeof name.v6;
    MUST(getsockname(fd, &name.any, &name.length));
    return name;
}

static inline int port_of(int fd)
{
    struct name name = local_name(fd);

    return ntohs(name.any.sa_family == AF_INET6 ? name.v6.sin6_port : name.v4.sin_port);
}

/* "what: ADDRESS, port set": the family and address, never the port itself. */
static inline void show_name(const char *what, const struct name *name)
{
    char text[INET6_ADDRSTRLEN] = "?";

    if (name->length == 0) {
        printf("%s: none\n", what);
    } else if (name->any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &name->v6.sin6_addr, text, sizeof text);
        printf("%s: %s, port %s, scope %u, flow %u, length %u\n", what, text, name->v6.sin6_port ? "set" : "0",
               name->v6.sin6_scope_id, ntohl(name->v6.sin6_flowinfo), name->length);
    } else {
        inet_ntop(AF_INET, &name->v4.sin_addr, text, sizeof text);
        printf("%s: %s, port %s, length %u\n", what, text, name->v4.sin_port ? "set" : "0", name->length);
    }
}

static inline void show_local(const char *what, int fd)
{
    struct name name = local_name(fd);

    show_name(what, &name);
}

static inline void show_peer(const char *what, int fd)
{
    struct name name = { .length = sizeof name.v6 };

    if (getpeername(fd, &name.any, &name.length) == -1)
        show(what, -1);
    else
        show_name(what, &name);
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

static inline void set_v6only(int fd, int on)
{
    MUST(set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, on));
}

static inline int new_socket(int family, int kind)
{
    return MUST(socket(family, kind, 0));
}

/* A socket that is bound to an address, and listens if it is a stream. */
static inline int new_server(const char *text, int kind, int v6only)
{
    int fd = new_socket(family_of(text), kind);

    if (family_of(text) == AF_INET6)
        set_v6only(fd, v6only);
    MUST(try_bind(fd, text, 0));
    if (kind == SOCK_STREAM)
        MUST(listen(fd, 8));
    return fd;
}

/* Waits until poll reports at least one of the events: packets take time. */
static inline void await(int fd, short events)
{
    struct pollfd entry = { .fd = fd, .events = events };

    MUST(poll(&entry, 1, 5000));
}

#endif
