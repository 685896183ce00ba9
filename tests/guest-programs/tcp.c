/*
 * TCP over the loopback interface: establishing, refusing, transferring,
 * closing in halves and by reset, flags, options, addresses, readiness.
 *
 * Ports come from bind to port 0 and are never printed.
 */
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

static struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
}

static struct sockaddr_in local_address(int fd)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;

    MUST(getsockname(fd, (struct sockaddr *)&address, &length));
    return address;
}

static long try_bind(int fd, int port)
{
    struct sockaddr_in address = loopback(port);

    return bind(fd, (struct sockaddr *)&address, sizeof address);
}

static long try_connect(int fd, int port)
{
    struct sockaddr_in address = loopback(port);

    return connect(fd, (struct sockaddr *)&address, sizeof address);
}

static int port_of(int fd)
{
    return ntohs(local_address(fd).sin_port);
}

static int new_socket(void)
{
    return MUST(socket(AF_INET, SOCK_STREAM, 0));
}

static int new_listener(int backlog)
{
    int fd = new_socket();

    MUST(try_bind(fd, 0));
    MUST(listen(fd, backlog));
    return fd;
}

/* A port of the loopback address on which nobody listens. */
static int quiet_port(void)
{
    int fd = new_socket();

    MUST(try_bind(fd, 0));
    int port = port_of(fd);
    MUST(close(fd));
    return port;
}

/* Sets `server`, `client` and `session` to a listener and a connection's ends. */
static void establish(void)
{
    server = new_listener(8);
    client = new_socket();
    MUST(try_connect(client, port_of(server)));
    session = MUST(accept(server, NULL, NULL));
}

static int get_option(int fd, int level, int option)
{
    int value = -1;
    socklen_t length = sizeof value;

    if (getsockopt(fd, level, option, &value, &length) == -1)
        show("getsockopt", -1);
    return value;
}

static long set_option(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value);
}

static int tcp_state(int fd)
{
    struct tcp_info info;
    socklen_t length = sizeof info;

    memset(&info, 0, sizeof info);
    MUST(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length));
    return info.tcpi_state;
}

static void show_poll(const char *what, int fd, int timeout_ms)
{
    struct pollfd entry = { .fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP };
    int ready = poll(&entry, 1, timeout_ms);

    printf("%s: %d%s%s%s%s%s\n", what, ready, entry.revents & POLLIN ? " IN" : "",
           entry.revents & POLLOUT ? " OUT" : "", entry.revents & POLLRDHUP ? " RDHUP" : "",
           entry.revents & POLLHUP ? " HUP" : "", entry.revents & POLLERR ? " ERR" : "");
}

/* Waits until poll reports at least one of the events: packets take time. */
static void await(int fd, short events)
{
    struct pollfd entry = { .fd = fd, .events = events };

    MUST(poll(&entry, 1, 5000));
}

static void await_unread(int fd, int amount)
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
static void reset_on_close(int fd)
{
    struct linger linger = { .l_onoff = 1, .l_linger = 0 };

    MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
}

CASE(connect_and_accept)
{
    char data[16];
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    server = new_listener(5);
    client = new_socket();
    show("connect", try_connect(client, port_of(server)));
    session = show_ok("accept", accept(server, (struct sockaddr *)&address, &length));
    number("address length", length);
    truth("client's port", address.sin_port == local_address(client).sin_port);
    truth("client's address", address.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    show("write", write(client, "ping", 4));
    show("read", read(session, data, sizeof data));
    bytes("data", data, 4);
    show("write", write(session, "pong!", 5));
    show("read", read(client, data, sizeof data));
    show("close", close(client));
    show("read at end", read(session, data, sizeof data));
}

CASE(connection_refused)
{
    client = new_socket();
    show("connect", try_connect(client, quiet_port()));
    number("SO_ERROR", get_option(client, SOL_SOCKET, SO_ERROR));
    server = new_listener(1);
    show("connect elsewhere with the same socket", try_connect(client, port_of(server)));
}

CASE(nonblocking_connect)
{
    server = new_listener(1);
    client = MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    show("connect", try_connect(client, port_of(server)));
    await(client, POLLOUT);
    show_poll("poll", client, 0);
    number("SO_ERROR", get_option(client, SOL_SOCKET, SO_ERROR));
    show("connect once more", try_connect(client, port_of(server)));
    show("connect connected", try_connect(client, port_of(server)));
}

CASE(nonblocking_connect_refused)
{
    client = MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    show("connect", try_connect(client, quiet_port()));
    await(client, POLLOUT);
    show_poll("poll", client, 0);
    printf("SO_ERROR: %s\n", errno_name(get_option(client, SOL_SOCKET, SO_ERROR)));
    number("SO_ERROR again", get_option(client, SOL_SOCKET, SO_ERROR));
    show("write", send(client, "x", 1, MSG_NOSIGNAL));
}

CASE(connect_errors)
{
    struct sockaddr_in address = loopback(1);
    client = new_socket();
    show("short address", connect(client, (struct sockaddr *)&address, 4));
    address.sin_family = 77;
    show("wrong family", connect(client, (struct sockaddr *)&address, sizeof address));
    show("not a socket", connect(0, (struct sockaddr *)&address, sizeof address));
    show("bad descriptor", connect(999, (struct sockaddr *)&address, sizeof address));
    establish();
    show("connected", try_connect(client, port_of(server)));
    show("listening", try_connect(server, port_of(server)));
}

CASE(socket_errors)
{
    show("bad family", socket(99, SOCK_STREAM, 0));
    show("bad type", socket(AF_INET, 77, 0));
    show("udp protocol for a stream", socket(AF_INET, SOCK_STREAM, IPPROTO_UDP));
    show("unknown protocol", socket(AF_INET, SOCK_STREAM, 200));
    show_ok("tcp protocol", socket(AF_INET, SOCK_STREAM, IPPROTO_TCP));
    int fd = show_ok("flags", socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    show("F_GETFD", fcntl(fd, F_GETFD));
    truth("nonblocking", fcntl(fd, F_GETFL) & O_NONBLOCK);
}

CASE(bind_errors)
{
    struct sockaddr_in address = loopback(0);
    server = new_listener(1);
    int other = new_socket();
    show("taken port", try_bind(other, port_of(server)));
    show("bind twice", try_bind(server, 0));
    show("short address", bind(other, (struct sockaddr *)&address, 8));
    address.sin_addr.s_addr = inet_addr("192.0.2.1");
    show("foreign address", bind(other, (struct sockaddr *)&address, sizeof address));
    address.sin_family = AF_UNIX;
    show("wrong family", bind(other, (struct sockaddr *)&address, sizeof address));
    address = loopback(port_of(server));
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    show("any address, taken port", bind(other, (struct sockaddr *)&address, sizeof address));
    show("bind at last", try_bind(other, 0));
}

CASE(listen_without_bind)
{
    int fd = new_socket();
    show("listen", listen(fd, 5));
    truth("has a port", port_of(fd) != 0);
    client = new_socket();
    show("connect", try_connect(client, port_of(fd)));
    show_ok("accept", accept(fd, NULL, NULL));
    show("listen again", listen(fd, 1));
    show("listen connected", listen(client, 1));
    show("accept connected", accept(client, NULL, NULL));
}

CASE(reuse_address)
{
    int first = new_socket(), second = new_socket();
    MUST(set_option(first, SOL_SOCKET, SO_REUSEADDR, 1));
    MUST(set_option(second, SOL_SOCKET, SO_REUSEADDR, 1));
    show("bind", try_bind(first, 0));
    show("bind same, none listening", try_bind(second, port_of(first)));
    show("listen", listen(first, 1));
    show("listen second", listen(second, 1));
    int third = new_socket();
    MUST(set_option(third, SOL_SOCKET, SO_REUSEADDR, 1));
    show("bind while listening", try_bind(third, port_of(first)));
}

CASE(reuse_port)
{
    int first = new_socket(), second = new_socket(), third = new_socket();
    MUST(set_option(first, SOL_SOCKET, SO_REUSEPORT, 1));
    MUST(set_option(second, SOL_SOCKET, SO_REUSEPORT, 1));
    show("bind", try_bind(first, 0));
    show("listen", listen(first, 1));
    show("bind second", try_bind(second, port_of(first)));
    show("listen second", listen(second, 1));
    show("bind without option", try_bind(third, port_of(first)));
}

CASE(port_is_free_after_listener_closes)
{
    server = new_listener(1);
    int port = port_of(server);
    MUST(close(server));
    int other = new_socket();
    show("bind", try_bind(other, port));
    show("listen", listen(other, 1));
}

CASE(time_wait_blocks_bind)
{
    char byte;
    server = new_socket();
    MUST(set_option(server, SOL_SOCKET, SO_REUSEADDR, 1));
    MUST(try_bind(server, 0));
    MUST(listen(server, 1));
    client = new_socket();
    MUST(try_connect(client, port_of(server)));
    session = MUST(accept(server, NULL, NULL));
    int port = port_of(server);
    MUST(close(server));
    MUST(close(session));
    show("read end", read(client, &byte, 1));
    MUST(close(client));
    sleep_ms(20);
    int other = new_socket();
    show("bind", try_bind(other, port));
    MUST(set_option(other, SOL_SOCKET, SO_REUSEADDR, 1));
    show("bind with SO_REUSEADDR", try_bind(other, port));
    show("listen", listen(other, 1));
}

CASE(accept_nonblocking)
{
    server = MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    MUST(try_bind(server, 0));
    MUST(listen(server, 5));
    show("accept", accept(server, NULL, NULL));
    client = new_socket();
    MUST(try_connect(client, port_of(server)));
    await(server, POLLIN);
    session = show_ok("accept", accept(server, NULL, NULL));
    truth("flag is not inherited", !(fcntl(session, F_GETFL) & O_NONBLOCK));
    show("accept", accept(server, NULL, NULL));
}

CASE(accept4_flags)
{
    server = new_listener(5);
    client = new_socket();
    MUST(try_connect(client, port_of(server)));
    show("bad flags", accept4(server, NULL, NULL, 1));
    session = show_ok("accept4", accept4(server, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
    show("F_GETFD", fcntl(session, F_GETFD));
    truth("nonblocking", fcntl(session, F_GETFL) & O_NONBLOCK);
    char byte;
    show("read", read(session, &byte, 1));
}

CASE(data_before_accept)
{
    char data[16];
    server = new_listener(5);
    client = new_socket();
    MUST(try_connect(client, port_of(server)));
    show("write", write(client, "early", 5));
    MUST(close(client));
    session = MUST(accept(server, NULL, NULL));
    show("recv", recv(session, data, sizeof data, MSG_WAITALL));
    bytes("data", data, 5);
}

CASE(many_connections)
{
    enum { MANY = 20 };
    int clients[MANY], sum = 0;
    server = new_listener(MANY);
    for (int i = 0; i < MANY; i++) {
        unsigned char index = i;
        clients[i] = new_socket();
        MUST(try_connect(clients[i], port_of(server)));
        MUST(write(clients[i], &index, 1));
    }
    for (int i = 0; i < MANY; i++) {
        unsigned char index;
        session = MUST(accept(server, NULL, NULL));
        MUST(read(session, &index, 1));
        sum += index;
        MUST(close(session));
        MUST(close(clients[i]));
    }
    number("sum", sum);
}

CASE(addresses)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int fresh = new_socket();
    show("getsockname unbound", getsockname(fresh, (struct sockaddr *)&address, &length));
    number("port", address.sin_port);
    truth("any address", address.sin_addr.s_addr == 0);
    show("getpeername unconnected", getpeername(fresh, (struct sockaddr *)&address, &length));
    establish();
    length = sizeof address;
    show("getpeername", getpeername(client, (struct sockaddr *)&address, &length));
    number("length", length);
    truth("server's port", address.sin_port == local_address(server).sin_port);
    truth("session has the server's port", local_address(session).sin_port == local_address(server).sin_port);
    show("getpeername of listener", getpeername(server, (struct sockaddr *)&address, &length));
    length = 4;
    show("getsockname cut", getsockname(client, (struct sockaddr *)&address, &length));
    number("real length", length);
}

enum { STREAM_LENGTH = 1 << 20 };

/* Echoes until the end of the stream, then closes its sending half. */
static void *echo(void *argument)
{
    static char data[16384];
    int fd = *(int *)argument;

    for (long n; (n = MUST(read(fd, data, sizeof data))) > 0;)
        for (long at = 0; at < n;)
            at += MUST(write(fd, data + at, n - at));
    MUST(shutdown(fd, SHUT_WR));
    return NULL;
}

static void *send_stream(void *argument)
{
    static char data[STREAM_LENGTH];

    (void)argument;
    fill_pattern(data, sizeof data, 11);
    for (long at = 0; at < STREAM_LENGTH;)
        at += MUST(write(client, data + at, STREAM_LENGTH - at));
    MUST(shutdown(client, SHUT_WR));
    return (void *)checksum(CHECKSUM_START, data, sizeof data);
}

CASE(echo_of_a_mebibyte)
{
    static char data[10000];
    uint64_t received = CHECKSUM_START;
    long total = 0;
    establish();
    pthread_t echoer = thread_start(echo, &session);
    pthread_t sender = thread_start(send_stream, NULL);
    for (long n; (n = MUST(read(client, data, sizeof data))) > 0; total += n)
        received = checksum(received, data, n);
    number("received", total);
    truth("same bytes", (uint64_t)thread_join(sender) == received);
    thread_join(echoer);
}

CASE(nonblocking_transfer)
{
    static char out[200000], in[200000];
    long sent = 0, got = 0;
    establish();
    set_nonblocking(client);
    set_nonblocking(session);
    fill_pattern(out, sizeof out, 5);
    while (got < (long)sizeof in) {
        struct pollfd entries[] = {
            { .fd = client, .events = sent < (long)sizeof out ? POLLOUT : 0 },
            { .fd = session, .events = POLLIN },
        };
        long n;
        MUST(poll(entries, 2, 5000));
        if (entries[0].revents & POLLOUT && (n = write(client, out + sent, sizeof out - sent)) > 0)
            sent += n;
        if (entries[1].revents & POLLIN && (n = read(session, in + got, sizeof in - got)) > 0)
            got += n;
    }
    truth("same bytes", !memcmp(in, out, sizeof in));
    show("read when empty", read(session, in, 1));
}

CASE(sending_blocks_at_a_limit)
{
    static char data[65536];
    long total = 0, n;
    establish();
    set_nonblocking(client);
    while ((n = write(client, data, sizeof data)) > 0)
        total += n;
    show("write", n);
    truth("some was taken", total > 0);
    show_poll("poll", client, 0);
    number("SO_ERROR", get_option(client, SOL_SOCKET, SO_ERROR));
    set_nonblocking(session);
    long drained = 0;
    while (drained < total) {
        await(session, POLLIN);
        if ((n = read(session, data, sizeof data)) > 0)
            drained += n;
    }
    number("lost", total - drained);
    await(client, POLLOUT);
    show_poll("poll after draining", client, 0);
}

CASE(half_close)
{
    char data[16];
    establish();
    MUST(write(client, "request", 7));
    show("shutdown", shutdown(client, SHUT_WR));
    show("send", send(client, "x", 1, MSG_NOSIGNAL));
    show("peer reads", recv(session, data, sizeof data, MSG_WAITALL));
    show("peer at end", read(session, data, sizeof data));
    show_poll("peer", session, 0);
    show("peer writes", write(session, "answer", 6));
    MUST(close(session));
    show("read", recv(client, data, sizeof data, MSG_WAITALL));
    show("read at end", read(client, data, sizeof data));
}

CASE(shutdown_both)
{
    char byte;
    establish();
    show("shutdown", shutdown(client, SHUT_RDWR));
    show("read", read(client, &byte, 1));
    show("send", send(client, "x", 1, MSG_NOSIGNAL));
    show("peer reads", read(session, &byte, 1));
    show("shutdown again", shutdown(client, SHUT_WR));
    int fresh = new_socket();
    show("shutdown unconnected", shutdown(fresh, SHUT_RDWR));
    show("bad how", shutdown(session, 3));
}

CASE(shutdown_reading)
{
    char data[8];
    establish();
    show("shutdown", shutdown(client, SHUT_RD));
    show("read", read(client, data, sizeof data));
    show_poll("poll", client, 0);
    show("write", write(client, "still", 5));
    show("peer reads", read(session, data, sizeof data));
}

static void *shut_late(void *argument)
{
    sleep_ms(20);
    MUST(shutdown(*(int *)argument, SHUT_RDWR));
    return NULL;
}

CASE(shutdown_wakes_a_reader)
{
    char byte;
    establish();
    pthread_t shutter = thread_start(shut_late, &client);
    show("read", read(client, &byte, 1));
    thread_join(shutter);
}

static void *shut_listener_late(void *argument)
{
    sleep_ms(20);
    MUST(shutdown(*(int *)argument, SHUT_RD));
    return NULL;
}

CASE(shutdown_of_a_listener)
{
    server = new_listener(1);
    int port = port_of(server);
    pthread_t shutter = thread_start(shut_listener_late, &server);
    show("accept", accept(server, NULL, NULL));
    thread_join(shutter);
    client = new_socket();
    show("connect", try_connect(client, port));
    show("listen again", listen(server, 1));
    int other = new_socket();
    show("connect", try_connect(other, port));
}

CASE(reset_by_linger)
{
    char byte;
    establish();
    reset_on_close(session);
    MUST(close(session));
    await(client, POLLIN);
    show_poll("poll", client, 0);
    show("read", read(client, &byte, 1));
    show("read again", read(client, &byte, 1));
    show("send", send(client, "x", 1, MSG_NOSIGNAL));
}

CASE(reset_when_closed_with_unread_data)
{
    char byte;
    establish();
    MUST(write(client, "unread", 6));
    await(session, POLLIN);
    MUST(close(session));
    await(client, POLLIN);
    show("read", read(client, &byte, 1));
}

CASE(reset_by_so_error)
{
    establish();
    reset_on_close(session);
    MUST(close(session));
    await(client, POLLIN);
    printf("SO_ERROR: %s\n", errno_name(get_option(client, SOL_SOCKET, SO_ERROR)));
    number("SO_ERROR again", get_option(client, SOL_SOCKET, SO_ERROR));
    char byte;
    show("read", read(client, &byte, 1));
}

CASE(write_after_peer_closed)
{
    char byte;
    establish();
    MUST(close(session));
    show("read", read(client, &byte, 1));
    show("first send", send(client, "x", 1, MSG_NOSIGNAL));
    await(client, POLLHUP);
    show("second send", send(client, "x", 1, MSG_NOSIGNAL));
}

static volatile sig_atomic_t pipe_signals;

static void count_sigpipe(int number)
{
    (void)number;
    pipe_signals++;
}

CASE(sigpipe)
{
    pipe_signals = 0;
    signal(SIGPIPE, count_sigpipe);
    establish();
    MUST(shutdown(client, SHUT_WR));
    show("write", write(client, "x", 1));
    number("signals", pipe_signals);
    show("MSG_NOSIGNAL", send(client, "x", 1, MSG_NOSIGNAL));
    number("signals", pipe_signals);
}

CASE(peek)
{
    char data[16];
    establish();
    MUST(write(client, "peekable", 8));
    await_unread(session, 8);
    show("peek", recv(session, data, 4, MSG_PEEK));
    bytes("data", data, 4);
    show("peek all", recv(session, data, 16, MSG_PEEK));
    show("recv", recv(session, data, 16, 0));
    show("peek empty", recv(session, data, 16, MSG_PEEK | MSG_DONTWAIT));
}

static void *write_in_pieces(void *argument)
{
    (void)argument;
    for (int i = 0; i < 5; i++) {
        sleep_ms(5);
        MUST(write(client, "0123456789" + i, 4));
    }
    return NULL;
}

CASE(wait_for_all)
{
    char data[20];
    establish();
    pthread_t writer = thread_start(write_in_pieces, NULL);
    show("MSG_WAITALL", recv(session, data, sizeof data, MSG_WAITALL));
    bytes("data", data, 20);
    thread_join(writer);
    MUST(write(client, "tail", 4));
    MUST(close(client));
    show("MSG_WAITALL at end", recv(session, data, sizeof data, MSG_WAITALL));
}

CASE(truncating_receive)
{
    char data[4];
    establish();
    MUST(write(client, "discarded", 9));
    await_unread(session, 9);
    show("MSG_TRUNC discards", recv(session, NULL, 6, MSG_TRUNC));
    show("recv", recv(session, data, 4, 0));
    bytes("data", data, 3);
}

CASE(unread_and_unsent)
{
    char data[64];
    int queued = -1;
    establish();
    await_unread(session, 0);
    MUST(write(client, "0123456789", 10));
    await_unread(session, 10);
    MUST(read(session, data, 4));
    await_unread(session, 6);
    MUST(read(session, data, 6));
    for (int i = 0; i < 1000 && queued != 0; i++) {
        MUST(ioctl(client, SIOCOUTQ, &queued));
        if (queued)
            sleep_ms(1);
    }
    number("SIOCOUTQ after drain", queued);
    show("SIOCOUTQNSD", ioctl(client, SIOCOUTQNSD, &queued));
    number("unsent", queued);
    show("FIONREAD of listener", ioctl(server, FIONREAD, &queued));
}

CASE(socket_options)
{
    establish();
    number("SO_TYPE", get_option(client, SOL_SOCKET, SO_TYPE));
    number("SO_DOMAIN", get_option(client, SOL_SOCKET, SO_DOMAIN));
    number("SO_PROTOCOL", get_option(client, SOL_SOCKET, SO_PROTOCOL));
    number("SO_ACCEPTCONN", get_option(client, SOL_SOCKET, SO_ACCEPTCONN));
    number("SO_ACCEPTCONN of listener", get_option(server, SOL_SOCKET, SO_ACCEPTCONN));
    number("SO_ERROR", get_option(client, SOL_SOCKET, SO_ERROR));
    number("SO_REUSEADDR", get_option(client, SOL_SOCKET, SO_REUSEADDR));
    number("SO_KEEPALIVE", get_option(client, SOL_SOCKET, SO_KEEPALIVE));
    number("SO_BROADCAST", get_option(client, SOL_SOCKET, SO_BROADCAST));
    show("set SO_TYPE", set_option(client, SOL_SOCKET, SO_TYPE, 1));
    show("set SO_ERROR", set_option(client, SOL_SOCKET, SO_ERROR, 1));
    show("unknown option", set_option(client, SOL_SOCKET, 9999, 1));
    show("short value", setsockopt(client, SOL_SOCKET, SO_KEEPALIVE, "x", 1));
}

CASE(buffer_options)
{
    client = new_socket();
    show("set SO_SNDBUF", set_option(client, SOL_SOCKET, SO_SNDBUF, 20000));
    number("doubled", get_option(client, SOL_SOCKET, SO_SNDBUF));
    show("set SO_RCVBUF", set_option(client, SOL_SOCKET, SO_RCVBUF, 30000));
    number("doubled", get_option(client, SOL_SOCKET, SO_RCVBUF));
    show("set tiny SO_RCVBUF", set_option(client, SOL_SOCKET, SO_RCVBUF, 1));
    number("minimum", get_option(client, SOL_SOCKET, SO_RCVBUF));
}

CASE(nagle_options)
{
    establish();
    number("TCP_NODELAY", get_option(client, IPPROTO_TCP, TCP_NODELAY));
    show("set", set_option(client, IPPROTO_TCP, TCP_NODELAY, 5));
    number("TCP_NODELAY", get_option(client, IPPROTO_TCP, TCP_NODELAY));
    number("TCP_CORK", get_option(client, IPPROTO_TCP, TCP_CORK));
    show("set", set_option(client, IPPROTO_TCP, TCP_CORK, 1));
    number("TCP_CORK", get_option(client, IPPROTO_TCP, TCP_CORK));
    number("session's own", get_option(session, IPPROTO_TCP, TCP_NODELAY));
    show("unknown", set_option(client, IPPROTO_TCP, 999, 1));
}

CASE(cork_holds_data)
{
    char data[16];
    establish();
    MUST(set_option(client, IPPROTO_TCP, TCP_CORK, 1));
    MUST(write(client, "corked", 6));
    sleep_ms(20);
    show("nothing yet", recv(session, data, sizeof data, MSG_DONTWAIT));
    MUST(set_option(client, IPPROTO_TCP, TCP_CORK, 0));
    await_unread(session, 6);
}

CASE(keepalive_options)
{
    establish();
    show("SO_KEEPALIVE", set_option(client, SOL_SOCKET, SO_KEEPALIVE, 1));
    number("SO_KEEPALIVE", get_option(client, SOL_SOCKET, SO_KEEPALIVE));
    show("TCP_KEEPIDLE", set_option(client, IPPROTO_TCP, TCP_KEEPIDLE, 30));
    number("TCP_KEEPIDLE", get_option(client, IPPROTO_TCP, TCP_KEEPIDLE));
    show("TCP_KEEPINTVL", set_option(client, IPPROTO_TCP, TCP_KEEPINTVL, 5));
    number("TCP_KEEPINTVL", get_option(client, IPPROTO_TCP, TCP_KEEPINTVL));
    show("TCP_KEEPCNT", set_option(client, IPPROTO_TCP, TCP_KEEPCNT, 3));
    number("TCP_KEEPCNT", get_option(client, IPPROTO_TCP, TCP_KEEPCNT));
    show("TCP_KEEPIDLE 0", set_option(client, IPPROTO_TCP, TCP_KEEPIDLE, 0));
    show("TCP_USER_TIMEOUT", set_option(client, IPPROTO_TCP, TCP_USER_TIMEOUT, 1234));
    number("TCP_USER_TIMEOUT", get_option(client, IPPROTO_TCP, TCP_USER_TIMEOUT));
}

CASE(linger_option)
{
    struct linger linger = { 1, 7 };
    socklen_t length = sizeof linger;
    client = new_socket();
    show("set", setsockopt(client, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
    linger = (struct linger){ 0, 0 };
    show("get", getsockopt(client, SOL_SOCKET, SO_LINGER, &linger, &length));
    printf("linger: %d %d\n", linger.l_onoff, linger.l_linger);
    show("short", setsockopt(client, SOL_SOCKET, SO_LINGER, &linger, 4));
}

CASE(receive_timeout)
{
    char byte;
    struct timeval limit = { 0, 40000 };
    socklen_t length = sizeof limit;
    establish();
    show("set", setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    int64_t start = now_ns();
    show("read", read(client, &byte, 1));
    show_elapsed(start, 36);
    show("get", getsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, &length));
    printf("limit: %ld s %ld us\n", (long)limit.tv_sec, (long)limit.tv_usec);
    limit.tv_usec = 1000000;
    show("bad microseconds", setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
}

CASE(send_timeout)
{
    static char data[1 << 20];
    struct timeval limit = { 0, 40000 };
    establish();
    show("set", setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
    long n, calls = 0;
    while ((n = send(client, data, sizeof data, 0)) > 0 && calls < 100)
        calls++;
    show("send", n);
}

CASE(accept_timeout)
{
    struct timeval limit = { 0, 40000 };
    server = new_listener(1);
    MUST(setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    show("accept", accept(server, NULL, NULL));
}

CASE(info_states)
{
    char byte;
    int fresh = new_socket();
    number("closed", tcp_state(fresh));
    establish();
    number("listener", tcp_state(server));
    number("client", tcp_state(client));
    number("session", tcp_state(session));
    MUST(shutdown(client, SHUT_WR));
    MUST(read(session, &byte, 1));
    number("session in CLOSE_WAIT", tcp_state(session));
    for (int i = 0; i < 1000 && tcp_state(client) != 5; i++)
        sleep_ms(1);
    number("client in FIN_WAIT2", tcp_state(client));
}

CASE(info_fields)
{
    struct tcp_info info;
    socklen_t length = sizeof info;
    establish();
    MUST(write(client, "x", 1));
    await_unread(session, 1);
    show("TCP_INFO", getsockopt(client, IPPROTO_TCP, TCP_INFO, &info, &length));
    number("state", info.tcpi_state);
    truth("mss positive", info.tcpi_snd_mss > 0);
    truth("window positive", info.tcpi_snd_cwnd > 0);
    number("retransmits", info.tcpi_retransmits);
    number("total retransmissions", info.tcpi_total_retrans);
    length = 1;
    show("one byte of it", getsockopt(client, IPPROTO_TCP, TCP_INFO, &info, &length));
    number("length", length);
}

CASE(congestion_control_name)
{
    char name[16] = "";
    socklen_t length = sizeof name;
    client = new_socket();
    show("set reno", setsockopt(client, IPPROTO_TCP, TCP_CONGESTION, "reno", 4));
    show("get", getsockopt(client, IPPROTO_TCP, TCP_CONGESTION, name, &length));
    text("name", name);
    show("unknown", setsockopt(client, IPPROTO_TCP, TCP_CONGESTION, "nonesuch", 8));
}

CASE(vectors)
{
    char a[3], b[16];
    struct iovec out[] = { { "one", 3 }, { "two", 3 }, { "three", 5 } };
    struct iovec in[] = { { a, 3 }, { b, 16 } };
    struct msghdr message = { .msg_iov = out, .msg_iovlen = 3 };
    establish();
    show("sendmsg", sendmsg(client, &message, 0));
    await_unread(session, 11);
    struct sockaddr_in from;
    message = (struct msghdr){ .msg_iov = in, .msg_iovlen = 2, .msg_name = &from, .msg_namelen = sizeof from };
    show("recvmsg", recvmsg(session, &message, 0));
    bytes("a", a, 3);
    bytes("b", b, 8);
    number("no name", message.msg_namelen);
    show("writev", writev(client, out, 2));
    await_unread(session, 6);
    show("readv", readv(session, in, 2));
}

CASE(sendto_on_a_connection)
{
    struct sockaddr_in address = loopback(9);
    char data[8];
    socklen_t length = sizeof address;
    establish();
    show("sendto ignores the address", sendto(client, "x", 1, 0, (struct sockaddr *)&address, sizeof address));
    show("recvfrom", recvfrom(session, data, 8, 0, (struct sockaddr *)&address, &length));
    number("address length", length);
    int fresh = new_socket();
    show("send unconnected", send(fresh, "x", 1, MSG_NOSIGNAL));
    show("recv unconnected", recv(fresh, data, 1, 0));
    show("recv of listener", recv(server, data, 1, 0));
}

CASE(poll_states)
{
    int fresh = new_socket();
    show_poll("fresh", fresh, 0);
    establish();
    show_poll("listener", server, 0);
    show_poll("established", client, 0);
    MUST(write(session, "x", 1));
    await(client, POLLIN);
    show_poll("readable", client, 0);
    MUST(close(session));
    await(client, POLLRDHUP);
    show_poll("peer closed", client, 0);
    MUST(shutdown(client, SHUT_WR));
    show_poll("both closed", client, 0);
}

CASE(epoll_edge_triggered)
{
    struct epoll_event event = { .events = EPOLLIN | EPOLLET | EPOLLRDHUP };
    char byte;
    establish();
    int ep = MUST(epoll_create1(0));
    MUST(epoll_ctl(ep, EPOLL_CTL_ADD, session, &event));
    show("quiet", epoll_wait(ep, &event, 1, 0));
    MUST(write(client, "a", 1));
    show("data", epoll_wait(ep, &event, 1, 5000));
    truth("in", event.events == EPOLLIN);
    show("no edge", epoll_wait(ep, &event, 1, 0));
    MUST(write(client, "b", 1));
    show("more data", epoll_wait(ep, &event, 1, 5000));
    MUST(read(session, &byte, 1));
    show("no edge", epoll_wait(ep, &event, 1, 0));
    MUST(close(client));
    show("closed", epoll_wait(ep, &event, 1, 5000));
    truth("in and rdhup", event.events == (EPOLLIN | EPOLLRDHUP));
}

CASE(epoll_listener)
{
    struct epoll_event event = { .events = EPOLLIN };
    server = new_listener(5);
    set_nonblocking(server);
    int ep = MUST(epoll_create1(0));
    MUST(epoll_ctl(ep, EPOLL_CTL_ADD, server, &event));
    show("quiet", epoll_wait(ep, &event, 1, 0));
    client = new_socket();
    MUST(try_connect(client, port_of(server)));
    show("pending", epoll_wait(ep, &event, 1, 5000));
    show("level", epoll_wait(ep, &event, 1, 0));
    session = MUST(accept(server, NULL, NULL));
    show("taken", epoll_wait(ep, &event, 1, 0));
}

CASE(options_inherited_by_accept)
{
    server = new_socket();
    MUST(set_option(server, IPPROTO_TCP, TCP_NODELAY, 1));
    MUST(set_option(server, SOL_SOCKET, SO_KEEPALIVE, 1));
    MUST(try_bind(server, 0));
    MUST(listen(server, 1));
    client = new_socket();
    MUST(try_connect(client, port_of(server)));
    session = MUST(accept(server, NULL, NULL));
    number("TCP_NODELAY", get_option(session, IPPROTO_TCP, TCP_NODELAY));
    number("SO_KEEPALIVE", get_option(session, SOL_SOCKET, SO_KEEPALIVE));
    number("SO_ACCEPTCONN", get_option(session, SOL_SOCKET, SO_ACCEPTCONN));
}

CASE(listener_closed_with_pending_connection)
{
    char byte;
    server = new_listener(5);
    client = new_socket();
    MUST(try_connect(client, port_of(server)));
    MUST(close(server));
    show("read", read(client, &byte, 1));
}

CASE(connect_to_any_address)
{
    struct sockaddr_in address;
    server = new_listener(5);
    address = loopback(port_of(server));
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    client = new_socket();
    show("connect to 0.0.0.0", connect(client, (struct sockaddr *)&address, sizeof address));
    socklen_t length = sizeof address;
    MUST(getpeername(client, (struct sockaddr *)&address, &length));
    truth("peer is loopback", address.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
}

CASE(other_loopback_addresses)
{
    struct sockaddr_in address = loopback(0);
    server = new_socket();
    address.sin_addr.s_addr = inet_addr("127.1.2.3");
    show("bind", bind(server, (struct sockaddr *)&address, sizeof address));
    MUST(listen(server, 1));
    int port = port_of(server);
    client = new_socket();
    show("connect to 127.0.0.1", try_connect(client, port));
    int other = new_socket();
    address.sin_port = htons(port);
    show("connect to 127.1.2.3", connect(other, (struct sockaddr *)&address, sizeof address));
}
