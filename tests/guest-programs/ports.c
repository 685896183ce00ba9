/*
 * Who may have which port: tables of bind(2), listen(2) and connect(2) over
 * addresses, SO_REUSEADDR, SO_REUSEPORT and the state of whoever was first.
 *
 * Ports come from bind to port 0 and are never printed.
 */
#include "case.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

/* Addresses in the tables, by the letter that stands for each. */
static const struct place {
    char letter;
    int family;
    const char *address;
    int only6;
} places[] = {
    { '4', AF_INET, "0.0.0.0", 0 },
    { '1', AF_INET, "127.0.0.1", 0 },
    { '2', AF_INET, "127.0.0.2", 0 },
    { '6', AF_INET6, "::", 0 },
    { 'o', AF_INET6, "::", 1 },
    { 'l', AF_INET6, "::1", 0 },
    { 'm', AF_INET6, "::ffff:127.0.0.1", 0 },
};

/* Options in the tables: SO_REUSEADDR is 1, SO_REUSEPORT is 2. */
#define CHOICES 4

static socklen_t address_of(const struct place *place, int port, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof *out);
    out->ss_family = place->family;
    if (place->family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)out;

        in->sin_port = htons(port);
        inet_pton(AF_INET, place->address, &in->sin_addr);
        return sizeof *in;
    }
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;

    in6->sin6_port = htons(port);
    inet_pton(AF_INET6, place->address, &in6->sin6_addr);
    return sizeof *in6;
}

static int new_socket(const struct place *place, int type, int choice)
{
    int on = 1, fd = MUST(socket(place->family, type, 0));

    if (choice & 1)
        MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    if (choice & 2)
        MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on));
    if (place->only6)
        MUST(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on));
    return fd;
}

static long bind_at(int fd, const struct place *place, int port)
{
    struct sockaddr_storage address;
    socklen_t length = address_of(place, port, &address);

    return bind(fd, (struct sockaddr *)&address, length);
}

static long connect_to(int fd, const struct place *place, int port)
{
    struct sockaddr_storage address;
    socklen_t length = address_of(place, port, &address);

    return connect(fd, (struct sockaddr *)&address, length);
}

static int port_of(int fd)
{
    struct sockaddr_in6 address;
    socklen_t length = sizeof address;

    MUST(getsockname(fd, (struct sockaddr *)&address, &length));
    return ntohs(address.sin6_port);
}

/* A port that nobody has at any address. */
static int free_port(int type)
{
    int fd = new_socket(&places[3], type, 0), port;

    MUST(bind_at(fd, &places[3], 0));
    port = port_of(fd);
    MUST(close(fd));
    return port;
}

static int listener(const struct place *place, int choice)
{
    int fd = new_socket(place, SOCK_STREAM, choice);

    MUST(bind_at(fd, place, 0));
    MUST(listen(fd, 8));
    return fd;
}

/* "-" for who gets nothing, "b" for who may bind, "l" for who may listen, too. */
static char what_it_gets(const struct place *place, int type, int choice, int port)
{
    int fd = new_socket(place, type, choice);
    char got = '-';

    if (bind_at(fd, place, port) == 0)
        got = type == SOCK_STREAM && listen(fd, 1) == 0 ? 'l' : 'b';
    MUST(close(fd));
    return got;
}

/* A line of a table: what each other socket gets of this port. */
static void print_line(int type, int port)
{
    for (size_t other = 0; other < COUNT_OF(places); other++) {
        putchar(' ');
        for (int choice = 0; choice < CHOICES; choice++)
            putchar(what_it_gets(&places[other], type, choice, port));
    }
    putchar('\n');
}

static void print_head(const char *what)
{
    printf("%-12s", what);
    for (size_t other = 0; other < COUNT_OF(places); other++)
        printf(" %c...", places[other].letter);
    putchar('\n');
}

static void print_table(int type, int listens)
{
    print_head("first");
    for (size_t first = 0; first < COUNT_OF(places); first++) {
        for (int choice = 0; choice < CHOICES; choice++) {
            int fd = new_socket(&places[first], type, choice), port = free_port(type);

            MUST(bind_at(fd, &places[first], port));
            if (listens)
                MUST(listen(fd, 1));
            printf("%c with %d    ", places[first].letter, choice);
            print_line(type, port);
            MUST(close(fd));
        }
    }
}

CASE(beside_a_bound_stream)
{
    print_table(SOCK_STREAM, 0);
}

CASE(beside_a_listener)
{
    print_table(SOCK_STREAM, 1);
}

CASE(beside_a_datagram_socket)
{
    print_table(SOCK_DGRAM, 0);
}

CASE(beside_connections)
{
    print_head("first");
    for (int choice = 0; choice < CHOICES; choice++) {
        int server = listener(&places[1], 0), to = port_of(server), port, fd, taken;

        /* Its port is the stack's choice. */
        fd = new_socket(&places[1], SOCK_STREAM, choice);
        MUST(connect_to(fd, &places[1], to));
        printf("chosen %d    ", choice);
        print_line(SOCK_STREAM, port_of(fd));
        MUST(close(fd));
        /* It was bound to all addresses, and is at one since it is connected. */
        fd = new_socket(&places[0], SOCK_STREAM, choice);
        port = free_port(SOCK_STREAM);
        MUST(bind_at(fd, &places[0], port));
        MUST(connect_to(fd, &places[1], to));
        printf("narrowed %d  ", choice);
        print_line(SOCK_STREAM, port);
        MUST(close(fd));
        MUST(close(server));
        /* It was accepted by a listener that is no more. */
        server = listener(&places[0], choice);
        port = port_of(server);
        fd = new_socket(&places[1], SOCK_STREAM, 0);
        MUST(connect_to(fd, &places[1], port));
        taken = MUST(accept(server, NULL, NULL));
        printf("accepted %d+ ", choice);
        print_line(SOCK_STREAM, port);
        MUST(close(server));
        printf("accepted %d  ", choice);
        print_line(SOCK_STREAM, port);
        MUST(close(taken));
        MUST(close(fd));
    }
}

/* Closes a connection by the first end, which keeps its port in TIME_WAIT. */
static void close_first(int fd, int other)
{
    char byte;

    MUST(close(fd));
    MUST(read(other, &byte, 1));
    MUST(close(other));
    sleep_ms(20);
}

CASE(beside_what_waits_for_old_segments)
{
    print_head("first");
    for (int choice = 0; choice < CHOICES; choice++) {
        int server = listener(&places[1], 0), to = port_of(server), port;
        int fd = new_socket(&places[0], SOCK_STREAM, choice);

        port = free_port(SOCK_STREAM);
        MUST(bind_at(fd, &places[0], port));
        MUST(connect_to(fd, &places[1], to));
        close_first(fd, MUST(accept(server, NULL, NULL)));
        printf("named %d     ", choice);
        print_line(SOCK_STREAM, port);
        fd = new_socket(&places[1], SOCK_STREAM, choice);
        MUST(connect_to(fd, &places[1], to));
        port = port_of(fd);
        close_first(fd, MUST(accept(server, NULL, NULL)));
        printf("chosen %d    ", choice);
        print_line(SOCK_STREAM, port);
        MUST(close(server));
    }
}

CASE(a_named_port_connects_again_at_once)
{
    int server = listener(&places[1], 0), to = port_of(server), port = free_port(SOCK_STREAM);
    char byte = 'x';

    for (int turn = 0; turn < 3; turn++) {
        int fd = new_socket(&places[1], SOCK_STREAM, 1), other;

        show("bind", bind_at(fd, &places[1], port));
        show("connect", connect_to(fd, &places[1], to));
        other = MUST(accept(server, NULL, NULL));
        show("write", write(fd, &byte, 1));
        show("read", read(other, &byte, 1));
        close_first(fd, other);
    }
}

CASE(two_connections_between_the_same_ends)
{
    int server = listener(&places[1], 0), to = port_of(server);
    int first = new_socket(&places[1], SOCK_STREAM, 1), second = new_socket(&places[1], SOCK_STREAM, 1);

    MUST(connect_to(first, &places[1], to));
    show("bind", bind_at(second, &places[1], port_of(first)));
    show("connect", connect_to(second, &places[1], to));
    /* To somebody else it may. */
    int other = listener(&places[1], 0);
    show("connect elsewhere", connect_to(second, &places[1], port_of(other)));
}

CASE(flags_that_change_later)
{
    int off = 0, on = 1, port = free_port(SOCK_STREAM);
    int fd = new_socket(&places[1], SOCK_STREAM, 0), server = listener(&places[1], 0);

    MUST(bind_at(fd, &places[1], port));
    MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    printf("switched on  ");
    print_line(SOCK_STREAM, port);
    MUST(close(fd));
    fd = new_socket(&places[1], SOCK_STREAM, 0);
    MUST(connect_to(fd, &places[1], port_of(server)));
    MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    printf("connected on ");
    print_line(SOCK_STREAM, port_of(fd));
    MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &off, sizeof off));
    printf("and off      ");
    print_line(SOCK_STREAM, port_of(fd));
}

CASE(datagram_sockets_narrow_by_connecting)
{
    struct sockaddr none = { .sa_family = AF_UNSPEC };
    int fd = new_socket(&places[0], SOCK_DGRAM, 0), port = free_port(SOCK_DGRAM);

    MUST(bind_at(fd, &places[0], port));
    MUST(connect_to(fd, &places[1], 9));
    print_head("first");
    printf("named        ");
    print_line(SOCK_DGRAM, port);
    MUST(connect(fd, &none, sizeof none));
    printf("dissolved    ");
    print_line(SOCK_DGRAM, port);
    fd = new_socket(&places[0], SOCK_DGRAM, 0);
    MUST(connect_to(fd, &places[1], 9));
    printf("chosen       ");
    print_line(SOCK_DGRAM, port_of(fd));
}

CASE(chosen_ports_are_nobodys)
{
    enum { COUNT = 40 };
    int ports[COUNT], twice = 0;

    for (int type = 0; type < 2; type++) {
        int fds[COUNT];

        for (int i = 0; i < COUNT; i++) {
            fds[i] = new_socket(&places[1], SOCK_STREAM, type ? 1 : 0);
            MUST(bind_at(fds[i], &places[1], 0));
            ports[i] = port_of(fds[i]);
            for (int j = 0; j < i; j++)
                twice += ports[i] == ports[j];
        }
        for (int i = 0; i < COUNT; i++)
            MUST(close(fds[i]));
    }
    number("ports given twice", twice);
}
