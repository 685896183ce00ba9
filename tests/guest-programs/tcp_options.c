/*
 * Options of TCP sockets: what they are at first, what setting them changes,
 * timeouts, TCP_INFO.
 */
#include "tcp.h"

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

static void show_clamp(const char *what, int fd, int value)
{
    show(what, set_option(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, value));
}

CASE(windows_of_connections_have_an_end)
{
    int fresh = new_socket();

    show_clamp("closed, 0", fresh, 0);
    establish();
    show_clamp("listening, 0", server, 0);
    show_clamp("connected, 0", client, 0);
    show_clamp("accepted, 0", session, 0);
    show_clamp("negative", client, -1);
    number("as the least", get_option(client, IPPROTO_TCP, TCP_WINDOW_CLAMP));
    show_clamp("1", session, 1);
    truth("the same", get_option(client, IPPROTO_TCP, TCP_WINDOW_CLAMP) == get_option(session, IPPROTO_TCP, TCP_WINDOW_CLAMP));
    close(session);
    await(client, POLLIN);
    show_clamp("the peer has closed, 0", client, 0);
    shutdown(client, SHUT_RDWR);
    sleep_ms(20);
    show_clamp("closed again, 0", client, 0);
}

CASE(listeners_wait_for_the_first_byte)
{
    int seconds[] = { 0, 1, 2, 3, 4, 100, -1 };
    struct pollfd entry = { .events = POLLIN };

    for (size_t i = 0; i < COUNT_OF(seconds); i++) {
        int fd = new_listener(4);

        show("set", set_option(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, seconds[i]));
        number("get", get_option(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT));
        client = new_socket();
        entry.fd = fd;
        show("connect", try_connect(client, port_of(fd)));
        show("before data", poll(&entry, 1, 30));
        MUST(write(client, "x", 1));
        show("after data", poll(&entry, 1, 1000));
        MUST(close(client));
        MUST(close(fd));
    }
}

CASE(a_silent_client_is_accepted_in_the_end)
{
    int fd = new_listener(4);
    struct pollfd entry = { .fd = fd, .events = POLLIN };

    MUST(set_option(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, 1));
    client = new_socket();
    MUST(try_connect(client, port_of(fd)));
    show("at first", poll(&entry, 1, 100));
    show("then", poll(&entry, 1, 5000));
    show_ok("accept", accept(fd, NULL, NULL));
}

CASE(a_connection_that_was_reset_has_a_name)
{
    int fd = new_listener(4), error = 0;
    struct linger now = { 1, 0 };
    struct sockaddr_in name = { .sin_port = 0 };
    socklen_t length = sizeof name;

    client = new_socket();
    MUST(try_connect(client, port_of(fd)));
    int port = port_of(client);
    MUST(setsockopt(client, SOL_SOCKET, SO_LINGER, &now, sizeof now));
    MUST(close(client));
    sleep_ms(20);
    int taken = MUST(accept(fd, (struct sockaddr *)&name, &length));
    number("length", length);
    number("family", name.sin_family);
    truth("port", ntohs(name.sin_port) == port);
    length = sizeof error;
    MUST(getsockopt(taken, SOL_SOCKET, SO_ERROR, &error, &length));
    show_error("SO_ERROR", error);
    length = sizeof name;
    show("getpeername", getpeername(taken, (struct sockaddr *)&name, &length));
}

CASE(packets_with_too_few_hops_are_nobodys)
{
    int fd = new_listener(4), hops = 65;
    struct pollfd entry = { .fd = fd, .events = POLLIN };

    show("set", setsockopt(fd, IPPROTO_IP, IP_MINTTL, &hops, sizeof hops));
    client = new_socket();
    set_nonblocking(client);
    show("connect", try_connect(client, port_of(fd)));
    show("nobody comes", poll(&entry, 1, 50));
    hops = 256;
    show("too many", setsockopt(fd, IPPROTO_IP, IP_MINTTL, &hops, sizeof hops));
    hops = 64;
    show("fewer", setsockopt(fd, IPPROTO_IP, IP_MINTTL, &hops, sizeof hops));
    number("get", get_option(fd, IPPROTO_IP, IP_MINTTL));
    show("it is tried again", poll(&entry, 1, 5000));
}

CASE(addresses_of_others_can_be_bound)
{
    int fd = new_socket(), udp = MUST(socket(AF_INET, SOCK_DGRAM, 0)), on = 1;
    struct sockaddr_in other = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000209) };
    struct sockaddr_in to = loopback(9);

    show("bind", bind(fd, (struct sockaddr *)&other, sizeof other));
    show("set", setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof on));
    show("bind", bind(fd, (struct sockaddr *)&other, sizeof other));
    show("listen", listen(fd, 1));
    MUST(setsockopt(udp, IPPROTO_IP, IP_FREEBIND, &on, sizeof on));
    show("bind", bind(udp, (struct sockaddr *)&other, sizeof other));
    show("send", sendto(udp, "x", 1, 0, (struct sockaddr *)&to, sizeof to));
}
