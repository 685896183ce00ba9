/*
 * UDP over ::1: names, sizes, control messages, errors that come back by
 * ICMPv6, and what sockets of IPv6 do with IPv4.
 */
#include "inet6.h"

#include <linux/errqueue.h>

static long send_name(int fd, struct name *name, socklen_t length)
{
    return sendto(fd, "x", 1, 0, &name->any, length);
}

CASE(names_of_an_unbound_socket)
{
    int fd = new_socket(AF_INET6, SOCK_DGRAM);

    show_local("local", fd);
    show_peer("peer", fd);
    number("domain", get_option(fd, SOL_SOCKET, SO_DOMAIN));
    number("protocol", get_option(fd, SOL_SOCKET, SO_PROTOCOL));
    show("connect", try_connect(fd, "::1", 9));
    show_local("local", fd);
    show_peer("peer", fd);
}

CASE(a_datagram_tells_its_sender)
{
    int server = new_server("::1", SOCK_DGRAM, 0), client = new_server("::1", SOCK_DGRAM, 0);
    struct name from = { .length = sizeof from.v6 };
    char data[8];

    show("send", try_send(client, "::1", port_of(server), "hello"));
    await(server, POLLIN);
    show("receive", recvfrom(server, data, sizeof data, 0, &from.any, &from.length));
    show_name("from", &from);
    truth("client's port", ntohs(from.v6.sin6_port) == port_of(client));
}

CASE(destinations_of_every_length)
{
    int server = new_server("::1", SOCK_DGRAM, 0);

    for (socklen_t length = 0; length <= 28; length += 4) {
        int fd = new_socket(AF_INET6, SOCK_DGRAM);
        struct name name = name_of("::1", port_of(server));
        char what[40];

        snprintf(what, sizeof what, "send, length %u", length);
        show(what, send_name(fd, &name, length));
        snprintf(what, sizeof what, "connect, length %u", length);
        show(what, connect(fd, &name.any, length));
        close(fd);
    }
}

CASE(destinations_of_every_family)
{
    static const int families[] = { AF_UNSPEC, AF_UNIX, AF_INET, AF_INET6, 77 };
    int server = new_server("::", SOCK_DGRAM, 0);

    for (size_t i = 0; i < COUNT_OF(families); i++) {
        int fd = new_socket(AF_INET6, SOCK_DGRAM);
        struct name name = name_of(families[i] == AF_INET ? "127.0.0.1" : "::1", port_of(server));
        char what[40];

        name.any.sa_family = families[i];
        snprintf(what, sizeof what, "send, family %d", families[i]);
        show(what, send_name(fd, &name, sizeof name.v6));
        snprintf(what, sizeof what, "connect, family %d", families[i]);
        show(what, connect(fd, &name.any, sizeof name.v6));
        snprintf(what, sizeof what, "bind, family %d", families[i]);
        show(what, bind(fd, &name.any, sizeof name.v6));
        close(fd);
    }
}

CASE(ipv4_destinations_and_v6only)
{
    static const char *const destinations[] = { "127.0.0.1", "::ffff:127.0.0.1", "::1", "::" };
    int server = new_server("::", SOCK_DGRAM, 0);

    for (int only = 0; only < 2; only++) {
        for (size_t i = 0; i < COUNT_OF(destinations); i++) {
            int fd = new_socket(AF_INET6, SOCK_DGRAM);
            char what[60];

            set_v6only(fd, only);
            snprintf(what, sizeof what, "only %d send to %s", only, destinations[i]);
            show(what, try_send(fd, destinations[i], port_of(server), "x"));
            snprintf(what, sizeof what, "only %d connect to %s", only, destinations[i]);
            show(what, try_connect(fd, destinations[i], port_of(server)));
            show_local("local", fd);
            show_peer("peer", fd);
            close(fd);
        }
    }
}

CASE(port_zero_and_no_destination)
{
    int fd = new_socket(AF_INET6, SOCK_DGRAM);

    show("port 0", try_send(fd, "::1", 0, "x"));
    show("no destination", send(fd, "x", 1, 0));
    show("connect to port 0", try_connect(fd, "::1", 0));
}

CASE(link_local_addresses_need_a_scope)
{
    int fd = new_socket(AF_INET6, SOCK_DGRAM);

    show("connect", try_connect(fd, "fe80::1", 9));
    show("bind", try_bind(fd, "fe80::1", 0));
}

/* A datagram of this size there and back to the byte. */
static void carry(const char *address, int size)
{
    static unsigned char out[65536], in[65536];
    int server = new_server(address, SOCK_DGRAM, 0), client = new_socket(AF_INET6, SOCK_DGRAM);
    char what[40];

    for (int i = 0; i < size; i++)
        out[i] = i * 11 + (i >> 8);
    MUST(set_option(server, SOL_SOCKET, SO_RCVBUF, 200000));
    MUST(try_connect(client, address, port_of(server)));
    snprintf(what, sizeof what, "send %d", size);
    if (show(what, send(client, out, size, 0)) >= 0) {
        await(server, POLLIN);
        show("received", recv(server, in, sizeof in, 0));
        truth("equal", memcmp(in, out, size) == 0);
    }
    close(client);
    close(server);
}

CASE(sizes_over_ipv6)
{
    static const int sizes[] = { 0, 1, 1280, 1452, 1500, 9000, 65000, 65507, 65508, 65527, 65528, 65535 };

    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        carry("::1", sizes[i]);
}

CASE(sizes_over_mapped_addresses)
{
    static const int sizes[] = { 0, 1472, 65507, 65508, 65527, 65535 };

    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        carry("::ffff:127.0.0.1", sizes[i]);
}

/* What comes beside a datagram from `from` to a socket with all the options that ask for something. */
static void controls(const char *bound, const char *to, int family)
{
    static const int six[] = { IPV6_RECVPKTINFO, IPV6_RECVHOPLIMIT, IPV6_RECVTCLASS };
    static const int four[] = { IP_PKTINFO, IP_RECVTTL, IP_RECVTOS };
    int server = new_server(bound, SOCK_DGRAM, 0), client = new_socket(family, SOCK_DGRAM);
    char data[8], control[256];
    struct iovec piece = { data, sizeof data };
    struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };

    for (size_t i = 0; i < COUNT_OF(six); i++)
        MUST(set_option(server, IPPROTO_IPV6, six[i], 1));
    for (size_t i = 0; i < COUNT_OF(four); i++)
        MUST(set_option(server, IPPROTO_IP, four[i], 1));
    if (family == AF_INET6) {
        MUST(set_option(client, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 7));
        MUST(set_option(client, IPPROTO_IPV6, IPV6_TCLASS, 0xa3));
    }
    MUST(set_option(client, IPPROTO_IP, IP_TTL, 9));
    MUST(set_option(client, IPPROTO_IP, IP_TOS, 0x11));
    MUST(try_send(client, to, port_of(server), "hello"));
    await(server, POLLIN);
    show("received", recvmsg(server, &message, 0));
    for (struct cmsghdr *at = CMSG_FIRSTHDR(&message); at; at = CMSG_NXTHDR(&message, at)) {
        int length = at->cmsg_len - CMSG_LEN(0), value = 0;
        char text[INET6_ADDRSTRLEN];

        printf("level %d type %d length %d: ", at->cmsg_level, at->cmsg_type, length);
        if (at->cmsg_level == IPPROTO_IPV6 && at->cmsg_type == IPV6_PKTINFO) {
            struct in6_pktinfo info;
            memcpy(&info, CMSG_DATA(at), sizeof info);
            printf("%s by %d\n", inet_ntop(AF_INET6, &info.ipi6_addr, text, sizeof text), info.ipi6_ifindex);
        } else if (at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_PKTINFO) {
            struct in_pktinfo info;
            memcpy(&info, CMSG_DATA(at), sizeof info);
            printf("%s by %d\n", inet_ntop(AF_INET, &info.ipi_addr, text, sizeof text), info.ipi_ifindex);
        } else {
            memcpy(&value, CMSG_DATA(at), length < 4 ? length : 4);
            printf("%d\n", value);
        }
    }
}

CASE(control_messages_of_ipv6)
{
    controls("::", "::1", AF_INET6);
}

CASE(control_messages_of_a_mapped_sender)
{
    controls("::", "::ffff:127.0.0.1", AF_INET6);
}

CASE(control_messages_of_an_ipv4_sender)
{
    controls("::", "127.0.0.1", AF_INET);
}

/* Sends with a control message. */
static void send_with(const char *what, int level, int kind, const void *value, size_t length)
{
    int server = new_server("::1", SOCK_DGRAM, 0), client = new_socket(AF_INET6, SOCK_DGRAM);
    char control[128] = { 0 };
    struct iovec piece = { "x", 1 };
    struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(length) };
    struct cmsghdr *at = CMSG_FIRSTHDR(&message);

    at->cmsg_level = level;
    at->cmsg_type = kind;
    at->cmsg_len = CMSG_LEN(length);
    if (length)
        memcpy(CMSG_DATA(at), value, length);
    MUST(try_connect(client, "::1", port_of(server)));
    show(what, sendmsg(client, &message, 0));
    close(client);
    close(server);
}

CASE(control_messages_that_are_sent)
{
    static const int numbers[] = { -2, -1, 0, 1, 255, 256 };
    struct in6_pktinfo info = { .ipi6_ifindex = 0 };
    char what[40];

    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        snprintf(what, sizeof what, "hop limit %d", numbers[i]);
        if (numbers[i] != 0)
            send_with(what, IPPROTO_IPV6, IPV6_HOPLIMIT, &numbers[i], sizeof numbers[i]);
        snprintf(what, sizeof what, "traffic class %d", numbers[i]);
        send_with(what, IPPROTO_IPV6, IPV6_TCLASS, &numbers[i], sizeof numbers[i]);
    }
    send_with("short hop limit", IPPROTO_IPV6, IPV6_HOPLIMIT, numbers, 2);
    send_with("packet info of none", IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof info);
    info.ipi6_addr = in6addr_loopback;
    send_with("packet info", IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof info);
    send_with("short packet info", IPPROTO_IPV6, IPV6_PKTINFO, &info, 8);
    send_with("unknown", IPPROTO_IPV6, 4711, NULL, 0);
    send_with("another level", 4711, 1, NULL, 0);
}

/* What a connected socket hears of a port that nobody has. */
static void closed_port(const char *address)
{
    int quiet = new_server(address, SOCK_DGRAM, 0), fd = new_socket(AF_INET6, SOCK_DGRAM);
    int port = port_of(quiet);
    char data[4];

    MUST(close(quiet));
    MUST(try_connect(fd, address, port));
    show("send", send(fd, "x", 1, 0));
    await(fd, POLLERR);
    number("error", get_option(fd, SOL_SOCKET, SO_ERROR) == ECONNREFUSED);
    show("send", send(fd, "x", 1, 0));
    await(fd, POLLERR);
    show("receive", recv(fd, data, sizeof data, MSG_DONTWAIT));
    show("receive", recv(fd, data, sizeof data, MSG_DONTWAIT));
}

CASE(a_closed_port_is_told)
{
    closed_port("::1");
}

CASE(a_closed_port_is_told_over_mapped_addresses)
{
    closed_port("::ffff:127.0.0.1");
}

CASE(an_unconnected_socket_hears_nothing)
{
    int quiet = new_server("::1", SOCK_DGRAM, 0), fd = new_socket(AF_INET6, SOCK_DGRAM);
    int port = port_of(quiet);

    MUST(close(quiet));
    show("send", try_send(fd, "::1", port, "x"));
    sleep_ms(10);
    show("send", try_send(fd, "::1", port, "x"));
    number("error", get_option(fd, SOL_SOCKET, SO_ERROR));
}

CASE(a_connected_socket_hears_its_peer_only)
{
    int server = new_server("::", SOCK_DGRAM, 0), other = new_server("::", SOCK_DGRAM, 0);
    int fd = new_server("::", SOCK_DGRAM, 0);
    char data[8];

    MUST(try_connect(fd, "::1", port_of(server)));
    show_local("local", fd);
    MUST(try_send(other, "::1", port_of(fd), "no"));
    MUST(try_send(server, "::1", port_of(fd), "yes"));
    await(fd, POLLIN);
    show("receive", recv(fd, data, sizeof data, 0));
    show("receive", recv(fd, data, sizeof data, MSG_DONTWAIT));
}

CASE(connecting_again_and_no_more)
{
    struct sockaddr none = { .sa_family = AF_UNSPEC };
    int server = new_server("::", SOCK_DGRAM, 0), fd = new_socket(AF_INET6, SOCK_DGRAM);

    MUST(try_connect(fd, "::ffff:127.0.0.1", port_of(server)));
    show_local("mapped", fd);
    show("disconnect", connect(fd, &none, sizeof none));
    show_local("local", fd);
    show("connect", try_connect(fd, "::1", port_of(server)));
    show_local("local", fd);
    show_peer("peer", fd);
}

/* Reads the error queue once, and shows what it tells. */
static void show_report(int fd)
{
    char data[64], control[256], text[INET6_ADDRSTRLEN];
    struct name name = { .length = 0 };
    struct iovec piece = { data, sizeof data };
    struct msghdr message = { .msg_name = &name.any, .msg_namelen = sizeof name.v6, .msg_iov = &piece, .msg_iovlen = 1,
                              .msg_control = control, .msg_controllen = sizeof control };

    if (show("error queue", recvmsg(fd, &message, MSG_ERRQUEUE)) == -1)
        return;
    name.length = message.msg_namelen;
    show_name("was for", &name);
    number("flags", message.msg_flags == MSG_ERRQUEUE);
    for (struct cmsghdr *at = CMSG_FIRSTHDR(&message); at; at = CMSG_NXTHDR(&message, at)) {
        struct sock_extended_err error;
        struct name offender = { .length = 0 };

        if ((at->cmsg_level != IPPROTO_IPV6 || at->cmsg_type != IPV6_RECVERR) &&
            (at->cmsg_level != IPPROTO_IP || at->cmsg_type != IP_RECVERR))
            continue;
        memcpy(&error, CMSG_DATA(at), sizeof error);
        memcpy(&offender.any, CMSG_DATA(at) + sizeof error, at->cmsg_len - CMSG_LEN(sizeof error));
        printf("level %d: %s, origin %d, type %d, code %d\n", at->cmsg_level, errno_name(error.ee_errno), error.ee_origin,
               error.ee_type, error.ee_code);
        if (offender.any.sa_family == AF_INET6)
            printf("by %s\n", inet_ntop(AF_INET6, &offender.v6.sin6_addr, text, sizeof text));
        else if (offender.any.sa_family == AF_INET)
            printf("by %s\n", inet_ntop(AF_INET, &offender.v4.sin_addr, text, sizeof text));
    }
}

/* A datagram to a port that nobody has, by a socket that wants its errors queued. */
static void queued_error(int family, const char *address, int connected)
{
    int quiet = new_server(address, SOCK_DGRAM, 0), fd = new_socket(family, SOCK_DGRAM);
    int port = port_of(quiet);
    struct pollfd entry = { .fd = fd, .events = POLLIN };

    MUST(close(quiet));
    MUST(set_option(fd, IPPROTO_IP, IP_RECVERR, 1));
    if (family == AF_INET6)
        MUST(set_option(fd, IPPROTO_IPV6, IPV6_RECVERR, 1));
    show("empty", recv(fd, NULL, 0, MSG_ERRQUEUE));
    if (connected) {
        MUST(try_connect(fd, address, port));
        show("send", send(fd, "hello", 5, 0));
    } else {
        show("send", try_send(fd, address, port, "hello"));
    }
    MUST(poll(&entry, 1, 5000));
    printf("POLLERR %d\n", (entry.revents & POLLERR) != 0);
    show_report(fd);
    show("then", recv(fd, NULL, 0, MSG_ERRQUEUE));
    number("error", get_option(fd, SOL_SOCKET, SO_ERROR));
}

CASE(errors_are_queued_over_ipv4)
{
    queued_error(AF_INET, "127.0.0.1", 0);
}

CASE(errors_are_queued_over_ipv4_connected)
{
    queued_error(AF_INET, "127.0.0.1", 1);
}

CASE(errors_are_queued_over_ipv6)
{
    queued_error(AF_INET6, "::1", 0);
}

CASE(errors_are_queued_over_ipv6_connected)
{
    queued_error(AF_INET6, "::1", 1);
}

CASE(errors_are_queued_over_mapped_addresses)
{
    queued_error(AF_INET6, "::ffff:127.0.0.1", 0);
}
