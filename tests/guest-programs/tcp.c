/*
 * TCP over the loopback interface: establishing, refusing, transferring, flags
 * of receiving, addresses, readiness.
 */
#include "tcp.h"

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

static void bind_without_port(int fd, const char *address)
{
    struct sockaddr_in any = loopback(0);
    int on = 1;

    any.sin_addr.s_addr = inet_addr(address);
    show("IP_BIND_ADDRESS_NO_PORT", setsockopt(fd, SOL_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on));
    show("bind", bind(fd, (struct sockaddr *)&any, sizeof any));
    number("port", port_of(fd));
    text("address", inet_ntoa(local_address(fd).sin_addr));
}

CASE(ports_that_connect_takes)
{
    struct sockaddr_in other = loopback(0);
    server = new_listener(5);
    client = new_socket();
    bind_without_port(client, "127.0.0.9");
    bind_without_port(client, "127.0.0.7");
    MUST(try_connect(client, port_of(server)));
    truth("port after connect", port_of(client) != 0);
    text("address after connect", inet_ntoa(local_address(client).sin_addr));
    show("bind when connected", bind(client, (struct sockaddr *)&other, sizeof other));
    session = MUST(accept(server, NULL, NULL));
    struct sockaddr_in peer;
    socklen_t length = sizeof peer;
    MUST(getpeername(session, (struct sockaddr *)&peer, &length));
    text("seen from", inet_ntoa(peer.sin_addr));
    truth("seen port", ntohs(peer.sin_port) == port_of(client));

    int with_port = new_socket();
    int on = 1, free = port_of(client) == 20001 ? 20002 : 20001;
    MUST(setsockopt(with_port, SOL_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on));
    other.sin_addr.s_addr = inet_addr("127.0.0.8");
    other.sin_port = htons(free);
    show("bind to a port", bind(with_port, (struct sockaddr *)&other, sizeof other));
    number("port", port_of(with_port) == free);

    int listener = new_socket();
    bind_without_port(listener, "127.0.0.6");
    show("listen", listen(listener, 1));
    truth("port of listener", port_of(listener) != 0);
    text("address of listener", inet_ntoa(local_address(listener).sin_addr));
    other.sin_addr.s_addr = inet_addr("8.8.8.8");
    other.sin_port = 0;
    int foreign = new_socket();
    MUST(setsockopt(foreign, SOL_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on));
    show("an address of others", bind(foreign, (struct sockaddr *)&other, sizeof other));
}

CASE(addresses_outlive_connections)
{
    struct sockaddr_in none = { .sin_family = AF_UNSPEC }, own = loopback(0);
    server = new_listener(5);
    client = new_socket();
    own.sin_addr.s_addr = inet_addr("127.0.0.5");
    MUST(bind(client, (struct sockaddr *)&own, sizeof own));
    MUST(try_connect(client, port_of(server)));
    show("connect to nothing", connect(client, (struct sockaddr *)&none, sizeof none));
    text("address", inet_ntoa(local_address(client).sin_addr));
    show("connect again", try_connect(client, port_of(server)));
    text("address", inet_ntoa(local_address(client).sin_addr));
}
