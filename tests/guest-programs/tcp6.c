/*
 * TCP over ::1, and what is particular about stream sockets of IPv6: names and
 * their lengths, options of level IPPROTO_IPV6.
 */
#include "inet6.h"

#include <linux/in6.h>

static int server, client, session;

static void establish(void)
{
    server = new_server("::1", SOCK_STREAM, 0);
    client = new_socket(AF_INET6, SOCK_STREAM);
    MUST(try_connect(client, "::1", port_of(server)));
    session = MUST(accept(server, NULL, NULL));
}

CASE(names_of_an_unbound_socket)
{
    int fd = new_socket(AF_INET6, SOCK_STREAM);

    show_local("local", fd);
    show_peer("peer", fd);
    number("domain", get_option(fd, SOL_SOCKET, SO_DOMAIN));
    number("type", get_option(fd, SOL_SOCKET, SO_TYPE));
    number("protocol", get_option(fd, SOL_SOCKET, SO_PROTOCOL));
    MUST(listen(fd, 1));
    show_local("listening", fd);
}

CASE(names_of_a_connection)
{
    establish();
    show_local("client", client);
    show_peer("client's peer", client);
    show_local("session", session);
    show_peer("session's peer", session);
    truth("ports match", port_of(client) != port_of(session) && port_of(session) == port_of(server));
}

CASE(names_are_cut_to_the_room_there_is)
{
    establish();
    for (socklen_t room = 0; room <= 32; room += 4) {
        unsigned char bytes[40];
        socklen_t length = room;
        int untouched = 1;

        memset(bytes, 0xee, sizeof bytes);
        long result = getpeername(client, (struct sockaddr *)bytes, &length);
        for (size_t i = room; i < sizeof bytes; i++)
            untouched &= bytes[i] == 0xee;
        printf("room %u: %ld, length %u, rest untouched %d\n", room, result, length, untouched);
    }
}

CASE(binding_needs_a_long_enough_name)
{
    for (socklen_t length = 0; length <= 32; length += 4) {
        int fd = new_socket(AF_INET6, SOCK_STREAM);
        char bytes[32] = { 0 };
        struct name name = name_of("::1", 0);
        char what[32];

        memcpy(bytes, &name.v6, sizeof name.v6);
        snprintf(what, sizeof what, "length %u", length);
        show(what, bind(fd, (struct sockaddr *)bytes, length));
        close(fd);
    }
}

CASE(connecting_needs_a_long_enough_name)
{
    int listener = new_server("::1", SOCK_STREAM, 0);

    for (socklen_t length = 0; length <= 32; length += 4) {
        int fd = new_socket(AF_INET6, SOCK_STREAM);
        char bytes[32] = { 0 };
        struct name name = name_of("::1", port_of(listener));
        char what[32];

        memcpy(bytes, &name.v6, sizeof name.v6);
        snprintf(what, sizeof what, "length %u", length);
        show(what, connect(fd, (struct sockaddr *)bytes, length));
        close(fd);
    }
}

CASE(names_of_other_families)
{
    static const int families[] = { AF_UNSPEC, AF_UNIX, AF_INET, 77 };
    int listener = new_server("::", SOCK_STREAM, 0);

    for (size_t i = 0; i < COUNT_OF(families); i++) {
        int fd = new_socket(AF_INET6, SOCK_STREAM);
        struct name name = name_of("::1", 0);
        char what[40];

        name.v6.sin6_family = families[i];
        snprintf(what, sizeof what, "bind family %d", families[i]);
        show(what, bind(fd, &name.any, sizeof name.v6));
        name.v6.sin6_port = htons(port_of(listener));
        snprintf(what, sizeof what, "connect family %d", families[i]);
        show(what, connect(fd, &name.any, sizeof name.v6));
        close(fd);
    }
}

CASE(an_ipv6_name_is_not_for_an_ipv4_socket)
{
    int fd = new_socket(AF_INET, SOCK_STREAM);

    show("bind", try_bind(fd, "::1", 0));
    show("bind mapped", try_bind(fd, "::ffff:127.0.0.1", 0));
    show("connect", try_connect(fd, "::1", 9));
    show("V6ONLY", set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1));
    show("get V6ONLY", get_option(fd, IPPROTO_IPV6, IPV6_V6ONLY));
}

CASE(addresses_of_nobody)
{
    static const char *const addresses[] = { "2001:db8::1", "fe80::1", "ff02::1", "::2", "::ffff:192.0.2.1" };

    for (size_t i = 0; i < COUNT_OF(addresses); i++) {
        int fd = new_socket(AF_INET6, SOCK_STREAM);

        show(addresses[i], try_bind(fd, addresses[i], 0));
        close(fd);
    }
}

CASE(v6only_follows_the_address_that_is_bound)
{
    static const char *const addresses[] = { "::", "::1", "::ffff:127.0.0.1", "::ffff:0.0.0.0" };

    for (size_t i = 0; i < COUNT_OF(addresses); i++) {
        int fd = new_socket(AF_INET6, SOCK_STREAM);

        number("before", get_option(fd, IPPROTO_IPV6, IPV6_V6ONLY));
        show(addresses[i], try_bind(fd, addresses[i], 0));
        number("after", get_option(fd, IPPROTO_IPV6, IPV6_V6ONLY));
        show("set", set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1));
        show("unset", set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0));
        show_local("local", fd);
        close(fd);
    }
}

CASE(binding_twice)
{
    int fd = new_socket(AF_INET6, SOCK_STREAM);

    MUST(try_bind(fd, "::1", 0));
    show("again", try_bind(fd, "::1", 0));
    show("nobody's", try_bind(fd, "2001:db8::1", 0));
    show("mapped", try_bind(fd, "::ffff:127.0.0.1", 0));
}

CASE(nobody_listens)
{
    int fd = new_socket(AF_INET6, SOCK_STREAM);
    int quiet = new_socket(AF_INET6, SOCK_STREAM);

    MUST(try_bind(quiet, "::1", 0));
    show("connect", try_connect(fd, "::1", port_of(quiet)));
    show("again", try_connect(fd, "::1", port_of(quiet)));
}

CASE(connecting_to_the_unspecified_address)
{
    int listener = new_server("::", SOCK_STREAM, 0);
    int fd = new_socket(AF_INET6, SOCK_STREAM);

    show("connect", try_connect(fd, "::", port_of(listener)));
    show_peer("peer", fd);
    show_local("local", fd);
}

CASE(disconnecting_and_connecting_again)
{
    struct sockaddr none = { .sa_family = AF_UNSPEC };

    establish();
    show("disconnect", connect(client, &none, sizeof none));
    show_peer("peer", client);
    show("connect", try_connect(client, "::1", port_of(server)));
    show_peer("peer", client);
}

CASE(data_arrives_whole_and_in_order)
{
    static unsigned char out[300000], in[300000];
    size_t sent = 0, got = 0;

    establish();
    for (size_t i = 0; i < sizeof out; i++)
        out[i] = i * 7 + (i >> 8);
    while (got < sizeof in) {
        struct pollfd entries[2] = { { .fd = client, .events = sent < sizeof out ? POLLOUT : 0 },
                                     { .fd = session, .events = POLLIN } };
        MUST(poll(entries, 2, 5000));
        if (entries[0].revents & POLLOUT)
            sent += MUST(send(client, out + sent, sizeof out - sent, MSG_DONTWAIT));
        if (entries[1].revents & POLLIN)
            got += MUST(recv(session, in + got, sizeof in - got, 0));
    }
    truth("equal", memcmp(out, in, sizeof in) == 0);
    MUST(shutdown(client, SHUT_WR));
    show("end", recv(session, in, sizeof in, 0));
}

CASE(segment_sizes_and_mtu)
{
    struct tcp_info info;
    socklen_t length = sizeof info;

    establish();
    truth("MAXSEG is large", get_option(client, IPPROTO_TCP, TCP_MAXSEG) > 1440);
    number("IPV6_MTU", get_option(client, IPPROTO_IPV6, IPV6_MTU));
    MUST(getsockopt(client, IPPROTO_TCP, TCP_INFO, &info, &length));
    number("state", info.tcpi_state);
    int fresh = new_socket(AF_INET6, SOCK_STREAM);
    number("unconnected MAXSEG", get_option(fresh, IPPROTO_TCP, TCP_MAXSEG));
    number("unconnected MTU", get_option(fresh, IPPROTO_IPV6, IPV6_MTU));
}

CASE(mapped_connections_have_the_sizes_of_ipv4)
{
    int listener = new_server("::", SOCK_STREAM, 0);
    int fd = new_socket(AF_INET6, SOCK_STREAM);

    MUST(try_connect(fd, "::ffff:127.0.0.1", port_of(listener)));
    truth("MAXSEG is large", get_option(fd, IPPROTO_TCP, TCP_MAXSEG) > 1460);
    number("IP_MTU", get_option(fd, IPPROTO_IP, IP_MTU));
}

CASE(accepted_sockets_inherit_options)
{
    server = new_socket(AF_INET6, SOCK_STREAM);
    MUST(set_option(server, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 9));
    MUST(set_option(server, IPPROTO_IPV6, IPV6_TCLASS, 0x20));
    MUST(try_bind(server, "::", 0));
    MUST(listen(server, 1));
    client = new_socket(AF_INET6, SOCK_STREAM);
    MUST(try_connect(client, "::1", port_of(server)));
    session = MUST(accept(server, NULL, NULL));
    number("domain", get_option(session, SOL_SOCKET, SO_DOMAIN));
    number("hops", get_option(session, IPPROTO_IPV6, IPV6_UNICAST_HOPS));
    number("V6ONLY", get_option(session, IPPROTO_IPV6, IPV6_V6ONLY));
}

/* Sets an option to many values and shows what it is then. */
static void values_of(int kind, int option)
{
    static const int values[] = { -2, -1, 0, 1, 2, 5, 6, 64, 255, 256 };
    int fd = new_socket(AF_INET6, kind);

    number("default", get_option(fd, IPPROTO_IPV6, option));
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        char what[24];

        snprintf(what, sizeof what, "set %d", values[i]);
        show(what, set_option(fd, IPPROTO_IPV6, option, values[i]));
        number("is", get_option(fd, IPPROTO_IPV6, option));
    }
}

#define VALUES(name, option)                                 \
    CASE(stream_values_of_##name)                            \
    {                                                        \
        values_of(SOCK_STREAM, option);                      \
    }                                                        \
    CASE(datagram_values_of_##name)                          \
    {                                                        \
        values_of(SOCK_DGRAM, option);                       \
    }

VALUES(v6only, IPV6_V6ONLY)
VALUES(unicast_hops, IPV6_UNICAST_HOPS)
VALUES(tclass, IPV6_TCLASS)
VALUES(recvpktinfo, IPV6_RECVPKTINFO)
VALUES(recvhoplimit, IPV6_RECVHOPLIMIT)
VALUES(recvtclass, IPV6_RECVTCLASS)
VALUES(recverr, IPV6_RECVERR)
VALUES(mtu_discover, IPV6_MTU_DISCOVER)
VALUES(dontfrag, IPV6_DONTFRAG)
VALUES(multicast_hops, IPV6_MULTICAST_HOPS)
VALUES(multicast_loop, IPV6_MULTICAST_LOOP)
VALUES(autoflowlabel, IPV6_AUTOFLOWLABEL)
VALUES(freebind, IPV6_FREEBIND)
VALUES(minhopcount, IPV6_MINHOPCOUNT)

CASE(short_values)
{
    static const int options[] = { IPV6_V6ONLY, IPV6_UNICAST_HOPS, IPV6_TCLASS, IPV6_RECVPKTINFO, IPV6_MTU_DISCOVER };
    int fd = new_socket(AF_INET6, SOCK_DGRAM);
    char bytes[3] = { 1 };

    for (size_t i = 0; i < COUNT_OF(options); i++) {
        show("set nothing", setsockopt(fd, IPPROTO_IPV6, options[i], bytes, 0));
        show("set a byte", setsockopt(fd, IPPROTO_IPV6, options[i], bytes, 1));
        show("set three", setsockopt(fd, IPPROTO_IPV6, options[i], bytes, 3));
    }
}

CASE(address_preferences)
{
    static const int values[] = { 0x1, 0x2, 0x4, 0x100, 0x400, 0x8, 0x800, 0x3, 0x404, 0x808, 0x405, 0 };
    int fd = new_socket(AF_INET6, SOCK_STREAM);

    number("default", get_option(fd, IPPROTO_IPV6, IPV6_ADDR_PREFERENCES));
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        char what[24];

        snprintf(what, sizeof what, "set %#x", values[i]);
        show(what, set_option(fd, IPPROTO_IPV6, IPV6_ADDR_PREFERENCES, values[i]));
    }
}

CASE(groups_and_unknown_options)
{
    struct ipv6_mreq request = { .ipv6mr_interface = 0 };
    int fd = new_socket(AF_INET6, SOCK_DGRAM);

    show("join ::1", (MUST(inet_pton(AF_INET6, "::1", &request.ipv6mr_multiaddr)),
                      setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &request, sizeof request)));
    show("join, short", setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &request, 8));
    show("multicast by an interface that is none", set_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, 4711));
    show("option 9999", set_option(fd, IPPROTO_IPV6, 9999, 1));
    show("address form", set_option(fd, IPPROTO_IPV6, IPV6_ADDRFORM, AF_INET));
    show("address form 77", set_option(fd, IPPROTO_IPV6, IPV6_ADDRFORM, 77));
}

CASE(types_and_protocols)
{
    static const int kinds[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET };
    static const int protocols[] = { 0, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP, 200, 300, -1 };

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        for (size_t j = 0; j < COUNT_OF(protocols); j++) {
            char what[40];
            long fd = socket(AF_INET6, kinds[i], protocols[j]);

            snprintf(what, sizeof what, "type %d protocol %d", kinds[i], protocols[j]);
            show_ok(what, fd);
            if (fd >= 0)
                close(fd);
        }
    }
    int pair[2];
    show("socketpair", socketpair(AF_INET6, SOCK_STREAM, 0, pair));
}
