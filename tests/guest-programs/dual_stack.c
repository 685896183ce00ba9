/*
 * Sockets that speak IPv4 and IPv6 over the loopback interface: who may have
 * which port beside whom, who reaches whom under which address. Matrices: a
 * case per combination of two addresses, a line per kind and option.
 */
#include "inet6.h"

static const char *const kinds[] = { "stream", "datagram" };
static const int kind_of[] = { SOCK_STREAM, SOCK_DGRAM };

/* A port that nobody has, at no address of either family. */
static int free_port(int kind)
{
    int fd = new_socket(AF_INET6, kind), port;

    set_v6only(fd, 0);
    MUST(try_bind(fd, "::", 0));
    port = port_of(fd);
    MUST(close(fd));
    return port;
}

/* Binds `first`, then `second` to the same port, for both kinds and all values of the options. */
static void bind_both(const char *first, const char *second)
{
    for (int kind = 0; kind < 2; kind++) {
        for (int only = 0; only < 4; only++) {
            if ((family_of(first) == AF_INET && only & 1) || (family_of(second) == AF_INET && only >> 1))
                continue;
            for (int reuse = 0; reuse < 3; reuse++) {
                int a = new_socket(family_of(first), kind_of[kind]);
                int b = new_socket(family_of(second), kind_of[kind]);
                int option = reuse == 2 ? SO_REUSEPORT : SO_REUSEADDR;
                int port = free_port(kind_of[kind]);
                char what[80];

                if (family_of(first) == AF_INET6)
                    set_v6only(a, only & 1);
                if (family_of(second) == AF_INET6)
                    set_v6only(b, only >> 1);
                if (reuse) {
                    MUST(set_option(a, SOL_SOCKET, option, 1));
                    MUST(set_option(b, SOL_SOCKET, option, 1));
                }
                snprintf(what, sizeof what, "%s only %d%d %s", kinds[kind], only & 1, only >> 1,
                         reuse == 0 ? "plain" : reuse == 1 ? "reuse address" : "reuse port");
                if (try_bind(a, first, port) == -1) {
                    printf("%s: first ", what);
                    show("bind", -1);
                } else {
                    show(what, try_bind(b, second, port));
                }
                close(a);
                close(b);
            }
        }
    }
}

#define BIND(first_name, first, second_name, second)         \
    CASE(bind_##first_name##_then_##second_name)             \
    {                                                        \
        bind_both(first, second);                            \
    }

#define BIND_AFTER(first_name, first)                        \
    BIND(first_name, first, any4, "0.0.0.0")                 \
    BIND(first_name, first, local4, "127.0.0.1")             \
    BIND(first_name, first, any6, "::")                      \
    BIND(first_name, first, local6, "::1")                   \
    BIND(first_name, first, mapped, "::ffff:127.0.0.1")      \
    BIND(first_name, first, mapped_any, "::ffff:0.0.0.0")

BIND_AFTER(any4, "0.0.0.0")
BIND_AFTER(local4, "127.0.0.1")
BIND_AFTER(any6, "::")
BIND_AFTER(local6, "::1")
BIND_AFTER(mapped, "::ffff:127.0.0.1")
BIND_AFTER(mapped_any, "::ffff:0.0.0.0")

/* Whom a stream socket with these addresses reaches, and what both ends call each other. */
static void reach_stream(const char *listener, const char *destination)
{
    for (int only = 0; only < 4; only++) {
        if ((family_of(listener) == AF_INET && only & 1) || (family_of(destination) == AF_INET && only >> 1))
            continue;
        int client = new_socket(family_of(destination), SOCK_STREAM);
        int server = new_socket(family_of(listener), SOCK_STREAM);

        if (family_of(listener) == AF_INET6)
            set_v6only(server, only & 1);
        if (family_of(destination) == AF_INET6)
            set_v6only(client, only >> 1);
        printf("only %d%d ", only & 1, only >> 1);
        if (show("bind", try_bind(server, listener, 0)) == -1)
            goto next;
        MUST(listen(server, 1));
        if (show("connect", try_connect(client, destination, port_of(server))) == -1)
            goto next;
        struct name peer = { .length = sizeof peer.v6 };
        int session = MUST(accept(server, &peer.any, &peer.length));
        show_name("accepted", &peer);
        show_local("client", client);
        show_peer("client's peer", client);
        show_local("session", session);
        truth("same port", port_of(client) == ntohs(peer.any.sa_family == AF_INET6 ? peer.v6.sin6_port : peer.v4.sin_port));
        close(session);
    next:
        close(client);
        close(server);
    }
}

/* The same with datagrams, and an answer to the address that they came from. */
static void reach_datagram(const char *listener, const char *destination)
{
    for (int only = 0; only < 4; only++) {
        if ((family_of(listener) == AF_INET && only & 1) || (family_of(destination) == AF_INET && only >> 1))
            continue;
        int client = new_socket(family_of(destination), SOCK_DGRAM);
        int server = new_socket(family_of(listener), SOCK_DGRAM);
        char data[8];

        if (family_of(listener) == AF_INET6)
            set_v6only(server, only & 1);
        if (family_of(destination) == AF_INET6)
            set_v6only(client, only >> 1);
        printf("only %d%d ", only & 1, only >> 1);
        if (show("bind", try_bind(server, listener, 0)) == -1)
            goto next;
        if (show("send", try_send(client, destination, port_of(server), "ask")) == -1)
            goto next;
        struct pollfd entry = { .fd = server, .events = POLLIN };
        if (poll(&entry, 1, 20) == 0) {
            printf("nothing came\n");
            goto next;
        }
        struct name from = { .length = sizeof from.v6 };
        show("received", recvfrom(server, data, sizeof data, 0, &from.any, &from.length));
        show_name("from", &from);
        show_local("client", client);
        show_peer("client's peer", client);
        show("answer", sendto(server, "answer", 6, 0, &from.any, from.length));
        await(client, POLLIN);
        from.length = sizeof from.v6;
        show("answered", recvfrom(client, data, sizeof data, 0, &from.any, &from.length));
        show_name("by", &from);
    next:
        close(client);
        close(server);
    }
}

#define REACH(listener_name, listener, name, destination)    \
    CASE(stream_to_##listener_name##_by_##name)              \
    {                                                        \
        reach_stream(listener, destination);                 \
    }                                                        \
    CASE(datagram_to_##listener_name##_by_##name)            \
    {                                                        \
        reach_datagram(listener, destination);               \
    }

#define REACH_BY_ALL(listener_name, listener)                \
    REACH(listener_name, listener, any4, "0.0.0.0")          \
    REACH(listener_name, listener, local4, "127.0.0.1")      \
    REACH(listener_name, listener, any6, "::")               \
    REACH(listener_name, listener, local6, "::1")            \
    REACH(listener_name, listener, mapped, "::ffff:127.0.0.1")

REACH_BY_ALL(any4, "0.0.0.0")
REACH_BY_ALL(local4, "127.0.0.1")
REACH_BY_ALL(any6, "::")
REACH_BY_ALL(local6, "::1")
REACH_BY_ALL(mapped, "::ffff:127.0.0.1")

/* Two listeners on one port, one of each family: each takes its own. */
CASE(listeners_of_both_families_take_their_own)
{
    int six = new_server("::", SOCK_STREAM, 1);
    int four = new_socket(AF_INET, SOCK_STREAM);
    int clients[2] = { new_socket(AF_INET, SOCK_STREAM), new_socket(AF_INET6, SOCK_STREAM) };

    MUST(try_bind(four, "0.0.0.0", port_of(six)));
    MUST(listen(four, 4));
    show("IPv4", try_connect(clients[0], "127.0.0.1", port_of(six)));
    show("IPv6", try_connect(clients[1], "::1", port_of(six)));
    int session = MUST(accept(four, NULL, NULL));
    show_local("IPv4's", session);
    close(session);
    session = MUST(accept(six, NULL, NULL));
    show_local("IPv6's", session);
    close(session);
}

CASE(datagrams_of_ipv4_go_to_a_socket_of_ipv4_first)
{
    int six = new_socket(AF_INET6, SOCK_DGRAM);
    int four = new_socket(AF_INET, SOCK_DGRAM);
    int client = new_socket(AF_INET, SOCK_DGRAM);
    char data[4];

    MUST(set_option(six, SOL_SOCKET, SO_REUSEADDR, 1));
    MUST(set_option(four, SOL_SOCKET, SO_REUSEADDR, 1));
    MUST(try_bind(six, "::", 0));
    MUST(try_bind(four, "0.0.0.0", port_of(six)));
    MUST(try_send(client, "127.0.0.1", port_of(six), "x"));
    await(four, POLLIN);
    show("IPv4", recv(four, data, sizeof data, MSG_DONTWAIT));
    show("IPv6", recv(six, data, sizeof data, MSG_DONTWAIT));
    MUST(close(four));
    MUST(try_send(client, "127.0.0.1", port_of(six), "x"));
    await(six, POLLIN);
    show("IPv6 alone", recv(six, data, sizeof data, MSG_DONTWAIT));
}

CASE(ephemeral_ports_differ_between_families)
{
    int fds[32];
    int different = 1;

    for (int i = 0; i < 32; i++) {
        fds[i] = new_socket(i & 1 ? AF_INET6 : AF_INET, SOCK_STREAM);
        MUST(try_bind(fds[i], i & 1 ? "::" : "0.0.0.0", 0));
        for (int j = 0; j < i; j++)
            different &= port_of(fds[i]) != port_of(fds[j]);
    }
    truth("all different", different);
    for (int i = 0; i < 32; i++)
        close(fds[i]);
}

CASE(a_bound_source_of_the_other_family_reaches_nothing)
{
    static const char *const sources[] = { "::1", "::ffff:127.0.0.1", "::" };
    static const char *const destinations[] = { "::1", "::ffff:127.0.0.1", "127.0.0.1" };
    int server = new_server("::", SOCK_DGRAM, 0);

    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            int fd = new_socket(AF_INET6, SOCK_DGRAM);
            char what[80];

            MUST(try_bind(fd, sources[i], 0));
            snprintf(what, sizeof what, "send %s to %s", sources[i], destinations[j]);
            show(what, try_send(fd, destinations[j], port_of(server), "x"));
            snprintf(what, sizeof what, "connect %s to %s", sources[i], destinations[j]);
            show(what, try_connect(fd, destinations[j], port_of(server)));
            close(fd);
        }
    }
}

CASE(a_port_is_free_when_its_dual_stack_listener_is_gone)
{
    int listener = new_server("::", SOCK_STREAM, 0);
    int port = port_of(listener);
    int fd = new_socket(AF_INET, SOCK_STREAM);

    show("while it listens", try_bind(fd, "127.0.0.1", port));
    MUST(close(listener));
    show("afterwards", try_bind(fd, "127.0.0.1", port));
}
