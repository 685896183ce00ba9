/*
 * The end of TCP connections: half closes, shutdowns, resets, what a peer that
 * is gone means for reading and writing, and when a port is free again.
 */
#include "tcp.h"

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

CASE(listener_closed_with_pending_connection)
{
    char byte;
    server = new_listener(5);
    client = new_socket();
    MUST(try_connect(client, port_of(server)));
    MUST(close(server));
    show("read", read(client, &byte, 1));
}

static void show_receive(const char *what, int fd)
{
    char data[64];
    long got = recv(fd, data, sizeof data, MSG_DONTWAIT);

    if (show(what, got) > 0)
        bytes("data", data, got);
}

static void show_send(const char *what, int fd)
{
    show(what, send(fd, "x", 1, MSG_NOSIGNAL));
}

static void show_pending_error(int fd)
{
    int error = get_option(fd, SOL_SOCKET, SO_ERROR);

    printf("SO_ERROR: %s\n", error ? errno_name(error) : "none");
}

CASE(data_after_both_sides_were_shut)
{
    for (int way = 0; way < 4; way++) {
        number("way", way);
        establish();
        if (way == 1)
            MUST(send(session, "before", 6, 0)), await_unread(client, 6);
        if (way == 2)
            MUST(send(client, "own", 3, 0)), await_unread(session, 3);
        if (way == 3) {
            show("shutdown for writing", shutdown(client, SHUT_WR));
            show("shutdown for reading", shutdown(client, SHUT_RD));
        } else {
            show("shutdown", shutdown(client, SHUT_RDWR));
        }
        await(session, POLLRDHUP);
        show_send("peer sends", session);
        await(session, POLLHUP);
        show_poll("own end", client, 0);
        show_poll("peer", session, 0);
        if (way == 2)
            show_pending_error(client);
        show_receive("receive", client);
        show_receive("receive", client);
        show_pending_error(client);
        show_receive("peer receives", session);
        show_receive("peer receives", session);
        show_send("peer sends", session);
        show_pending_error(session);
        show_send("send", client);
        close(client);
        close(session);
        close(server);
    }
}

CASE(data_after_reading_was_shut)
{
    establish();
    show("shutdown", shutdown(client, SHUT_RD));
    show_receive("receive", client);
    show_send("peer sends", session);
    await_unread(client, 1);
    show_receive("receive", client);
    show_receive("receive", client);
    show_send("send", client);
    show("shutdown", shutdown(client, SHUT_WR));
    await(session, POLLRDHUP);
    show_send("peer sends", session);
    await(session, POLLHUP);
    show_receive("receive", client);
}

CASE(end_after_both_sides_were_shut)
{
    establish();
    MUST(shutdown(client, SHUT_RDWR));
    await(session, POLLRDHUP);
    show("peer shuts writing", shutdown(session, SHUT_WR));
    await(client, POLLHUP);
    show_receive("receive", client);
    show_pending_error(client);
    show_receive("peer receives", session);
    show_pending_error(session);
}

CASE(reset_behind_the_end)
{
    for (int way = 0; way < 6; way++) {
        number("way", way);
        establish();
        if (way & 1)
            MUST(send(client, "bye", 3, 0));
        MUST(close(client));
        await(session, POLLRDHUP);
        if (way >= 4)
            show_receive("receive before", session);
        show_send("send", session);
        await(session, POLLHUP);
        show_poll("poll", session, 0);
        if (way == 2 || way == 3)
            show_send("send", session);
        show_receive("receive", session);
        show_receive("receive", session);
        show_pending_error(session);
        show_pending_error(session);
        show_receive("receive", session);
        show_send("send", session);
        close(session);
        close(server);
    }
}

CASE(reset_without_an_end)
{
    for (int way = 0; way < 4; way++) {
        number("way", way);
        establish();
        if (way & 1)
            MUST(send(client, "data", 4, 0)), await_unread(session, 4);
        reset_on_close(client);
        MUST(close(client));
        await(session, POLLHUP);
        if (way & 2)
            show_send("send", session);
        show_receive("receive", session);
        show_receive("receive", session);
        show_pending_error(session);
        show_receive("receive", session);
        show_send("send", session);
        close(session);
        close(server);
    }
}

CASE(receiving_nothing)
{
    char data[8];
    establish();
    show("no room, nothing there", recv(client, data, 0, MSG_DONTWAIT));
    MUST(send(session, "abc", 3, 0));
    await_unread(client, 3);
    show("no room", recv(client, data, 0, MSG_DONTWAIT));
    show("read of nothing", read(client, data, 0));
    show("no room, peeking", recv(client, data, 0, MSG_DONTWAIT | MSG_PEEK));
    show("receive", recv(client, data, sizeof data, 0));
    MUST(close(session));
    await(client, POLLRDHUP);
    show("no room at the end", recv(client, data, 0, MSG_DONTWAIT));
    show("unconnected", recv(new_socket(), data, 0, MSG_DONTWAIT));
}
