/*
 * UDP over the loopback interface: addresses, message boundaries, connected
 * sockets, errors that come back by ICMP, options, readiness.
 *
 * Ports come from bind to port 0 and are never printed.
 */
#include "case.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

static struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
}

static int new_socket(void)
{
    return MUST(socket(AF_INET, SOCK_DGRAM, 0));
}

static long try_bind(int fd, int port)
{
    struct sockaddr_in address = loopback(port);

    return bind(fd, (struct sockaddr *)&address, sizeof address);
}

static int port_of(int fd)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;

    MUST(getsockname(fd, (struct sockaddr *)&address, &length));
    return ntohs(address.sin_port);
}

static int bound_socket(void)
{
    int fd = new_socket();

    MUST(try_bind(fd, 0));
    return fd;
}

static long try_connect(int fd, int port)
{
    struct sockaddr_in address = loopback(port);

    return connect(fd, (struct sockaddr *)&address, sizeof address);
}

static long send_to(int fd, int port, const void *data, size_t length)
{
    struct sockaddr_in address = loopback(port);

    return sendto(fd, data, length, 0, (struct sockaddr *)&address, sizeof address);
}

static int quiet_port(void)
{
    int fd = bound_socket(), port = port_of(fd);

    MUST(close(fd));
    return port;
}

static int get_option(int fd, int option)
{
    int value = -1;
    socklen_t length = sizeof value;

    MUST(getsockopt(fd, SOL_SOCKET, option, &value, &length));
    return value;
}

/* Waits until a datagram or an error can be taken. */
static void await(int fd)
{
    struct pollfd entry = { .fd = fd, .events = POLLIN };

    MUST(poll(&entry, 1, 5000));
}

CASE(send_and_receive)
{
    char data[32];
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    int a = bound_socket(), b = bound_socket();
    show("sendto", send_to(a, port_of(b), "hello", 5));
    show("recvfrom", recvfrom(b, data, sizeof data, 0, (struct sockaddr *)&from, &length));
    bytes("data", data, 5);
    number("address length", length);
    truth("sender's port", ntohs(from.sin_port) == port_of(a));
    truth("sender's address", from.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    truth("family", from.sin_family == AF_INET);
}

CASE(boundaries_and_order)
{
    char data[32];
    int a = bound_socket(), b = bound_socket();
    show("send", send_to(a, port_of(b), "one", 3));
    show("send", send_to(a, port_of(b), "", 0));
    show("send", send_to(a, port_of(b), "three", 5));
    show("recv", recv(b, data, sizeof data, 0));
    show("recv empty", recv(b, data, sizeof data, 0));
    show("recv", recv(b, data, sizeof data, 0));
    show("recv none", recv(b, data, sizeof data, MSG_DONTWAIT));
}

CASE(truncation)
{
    char data[4];
    struct iovec vector = { data, sizeof data };
    struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1 };
    int a = bound_socket(), b = bound_socket();
    for (int i = 0; i < 3; i++)
        MUST(send_to(a, port_of(b), "0123456789", 10));
    show("recv", recv(b, data, sizeof data, 0));
    show("recv with MSG_TRUNC", recv(b, data, sizeof data, MSG_TRUNC));
    show("recvmsg", recvmsg(b, &message, 0));
    truth("flag", message.msg_flags & MSG_TRUNC);
    show("nothing is left", recv(b, data, sizeof data, MSG_DONTWAIT));
}

CASE(connected_sockets)
{
    char data[16];
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int a = bound_socket(), b = bound_socket(), stranger = bound_socket();
    show("connect", try_connect(a, port_of(b)));
    show("send", send(a, "via connect", 11, 0));
    show("recv", recv(b, data, sizeof data, 0));
    show("stranger sends", send_to(stranger, port_of(a), "strange", 7));
    show("peer sends", send_to(b, port_of(a), "known", 5));
    show("recv only the peer's", recv(a, data, sizeof data, 0));
    bytes("data", data, 5);
    show("recv none", recv(a, data, sizeof data, MSG_DONTWAIT));
    show("getpeername", getpeername(a, (struct sockaddr *)&address, &length));
    truth("peer's port", ntohs(address.sin_port) == port_of(b));
    show("sendto elsewhere", send_to(a, port_of(stranger), "other", 5));
    show("stranger receives", recv(stranger, data, sizeof data, 0));
}

CASE(disconnect)
{
    struct sockaddr address = { .sa_family = AF_UNSPEC };
    struct sockaddr_in peer;
    socklen_t length = sizeof peer;
    int a = bound_socket(), b = bound_socket();
    show("send unconnected", send(a, "x", 1, 0));
    show("getpeername unconnected", getpeername(a, (struct sockaddr *)&peer, &length));
    MUST(try_connect(a, port_of(b)));
    show("connect again", try_connect(a, port_of(a)));
    show("disconnect", connect(a, &address, sizeof address));
    show("send", send(a, "x", 1, 0));
}

CASE(refused_through_icmp)
{
    char byte;
    int a = new_socket();
    MUST(try_connect(a, quiet_port()));
    show("send", send(a, "x", 1, 0));
    await(a);
    show("recv", recv(a, &byte, 1, MSG_DONTWAIT));
    show("recv again", recv(a, &byte, 1, MSG_DONTWAIT));
    show("send", send(a, "x", 1, 0));
    await(a);
    show("send reports the error", send(a, "x", 1, 0));
}

CASE(refused_in_so_error)
{
    int a = new_socket();
    MUST(try_connect(a, quiet_port()));
    show("send", send(a, "x", 1, 0));
    await(a);
    struct pollfd entry = { .fd = a, .events = POLLIN };
    show("poll", poll(&entry, 1, 0));
    truth("POLLERR", entry.revents & POLLERR);
    printf("SO_ERROR: %s\n", errno_name(get_option(a, SO_ERROR)));
    number("SO_ERROR again", get_option(a, SO_ERROR));
}

CASE(unconnected_hears_no_refusal)
{
    char byte;
    int a = bound_socket();
    show("sendto", send_to(a, quiet_port(), "x", 1));
    sleep_ms(10);
    show("recv", recv(a, &byte, 1, MSG_DONTWAIT));
    show("sendto", send_to(a, quiet_port(), "x", 1));
}

CASE(sizes)
{
    static char data[70000], received[70000];
    int a = bound_socket(), b = bound_socket();
    fill_pattern(data, sizeof data, 9);
    show("send 65507", send_to(a, port_of(b), data, 65507));
    show("recv", recv(b, received, sizeof received, 0));
    truth("same bytes", !memcmp(data, received, 65507));
    show("send 65508", send_to(a, port_of(b), data, 65508));
    show("send 20000", send_to(a, port_of(b), data, 20000));
    show("recv", recv(b, received, sizeof received, 0));
}

CASE(automatic_port)
{
    char byte;
    int a = new_socket(), b = bound_socket();
    number("port before", port_of(a));
    show("sendto", send_to(a, port_of(b), "x", 1));
    truth("port after", port_of(a) != 0);
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    MUST(recvfrom(b, &byte, 1, 0, (struct sockaddr *)&from, &length));
    truth("that port was the sender", ntohs(from.sin_port) == port_of(a));
}

CASE(bind_errors)
{
    struct sockaddr_in address = loopback(0);
    int a = bound_socket(), b = new_socket();
    show("taken port", try_bind(b, port_of(a)));
    show("bind twice", try_bind(a, 0));
    address.sin_addr.s_addr = inet_addr("192.0.2.1");
    show("foreign address", bind(b, (struct sockaddr *)&address, sizeof address));
    int on = 1, c = new_socket(), d = new_socket();
    MUST(setsockopt(c, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    MUST(setsockopt(d, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    show("bind", try_bind(c, 0));
    show("both with SO_REUSEADDR", try_bind(d, port_of(c)));
}

CASE(send_errors)
{
    struct sockaddr_in address = loopback(0);
    int a = bound_socket();
    show("no address", send(a, "x", 1, 0));
    show("port 0", send_to(a, 0, "x", 1));
    address = loopback(9);
    show("short address", sendto(a, "x", 1, 0, (struct sockaddr *)&address, 4));
    address.sin_family = AF_UNIX;
    show("wrong family", sendto(a, "x", 1, 0, (struct sockaddr *)&address, sizeof address));
    show("MSG_OOB", send(a, "x", 1, MSG_OOB));
    show("listen", listen(a, 1));
    show("accept", accept(a, NULL, NULL));
}

CASE(broadcast_needs_permission)
{
    struct sockaddr_in address = loopback(9);
    int a = bound_socket(), value = -1;
    socklen_t length = sizeof value;
    address.sin_addr.s_addr = htonl(INADDR_BROADCAST);
    show("sendto", sendto(a, "x", 1, 0, (struct sockaddr *)&address, sizeof address));
    show("getsockopt", getsockopt(a, SOL_SOCKET, SO_BROADCAST, &value, &length));
    number("SO_BROADCAST", value);
}

CASE(peek)
{
    char data[16];
    int a = bound_socket(), b = bound_socket();
    MUST(send_to(a, port_of(b), "first", 5));
    MUST(send_to(a, port_of(b), "second", 6));
    show("peek", recv(b, data, sizeof data, MSG_PEEK));
    show("peek for the length", recv(b, data, 1, MSG_PEEK | MSG_TRUNC));
    show("recv", recv(b, data, sizeof data, 0));
    show("recv", recv(b, data, sizeof data, 0));
}

CASE(vectors_and_names)
{
    char a_data[2], b_data[16];
    struct sockaddr_in name;
    struct iovec out[] = { { "ab", 2 }, { "", 0 }, { "cdef", 4 } };
    struct iovec in[] = { { a_data, 2 }, { b_data, 16 } };
    int a = bound_socket(), b = bound_socket();
    name = loopback(port_of(b));
    struct msghdr message = { .msg_name = &name, .msg_namelen = sizeof name, .msg_iov = out, .msg_iovlen = 3 };
    show("sendmsg", sendmsg(a, &message, 0));
    memset(&name, 0, sizeof name);
    message = (struct msghdr){ .msg_name = &name, .msg_namelen = sizeof name, .msg_iov = in, .msg_iovlen = 2 };
    show("recvmsg", recvmsg(b, &message, 0));
    number("name length", message.msg_namelen);
    truth("sender's port", ntohs(name.sin_port) == port_of(a));
    number("flags", message.msg_flags);
    bytes("b", b_data, 4);
    show("readv needs data", (set_nonblocking(b), readv(b, in, 2)));
}

CASE(many_messages)
{
    char data[3][16];
    struct iovec vectors[3];
    struct mmsghdr messages[3];
    int a = bound_socket(), b = bound_socket();
    memset(messages, 0, sizeof messages);
    MUST(try_connect(a, port_of(b)));
    for (int i = 0; i < 3; i++) {
        memset(data[i], 'a' + i, sizeof data[i]);
        vectors[i] = (struct iovec){ data[i], i + 1 };
        messages[i].msg_hdr.msg_iov = &vectors[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    show("sendmmsg", sendmmsg(a, messages, 3, 0));
    for (int i = 0; i < 3; i++)
        vectors[i].iov_len = sizeof data[i];
    show("recvmmsg", recvmmsg(b, messages, 3, MSG_DONTWAIT, NULL));
    for (int i = 0; i < 3; i++)
        number("length", messages[i].msg_len);
    show("recvmmsg none", recvmmsg(b, messages, 3, MSG_DONTWAIT, NULL));
}

CASE(unread_count_and_poll)
{
    int unread = -1;
    char data[16];
    int a = bound_socket(), b = bound_socket();
    struct pollfd entry = { .fd = b, .events = POLLIN | POLLOUT };
    show("poll", poll(&entry, 1, 0));
    truth("only out", entry.revents == POLLOUT);
    MUST(send_to(a, port_of(b), "12345", 5));
    MUST(send_to(a, port_of(b), "678", 3));
    await(b);
    show("FIONREAD", ioctl(b, FIONREAD, &unread));
    number("next datagram", unread);
    show("poll", poll(&entry, 1, 0));
    truth("in and out", entry.revents == (POLLIN | POLLOUT));
    MUST(recv(b, data, sizeof data, 0));
    show("FIONREAD", ioctl(b, FIONREAD, &unread));
    number("next datagram", unread);
}

static void *send_late(void *argument)
{
    int *fds = argument;

    sleep_ms(20);
    MUST(send_to(fds[0], port_of(fds[1]), "late", 4));
    return NULL;
}

CASE(receive_blocks)
{
    char data[16];
    int fds[2] = { bound_socket(), bound_socket() };
    int64_t start = now_ns();
    pthread_t sender = thread_start(send_late, fds);
    show("recv", recv(fds[1], data, sizeof data, 0));
    show_elapsed(start, 20);
    thread_join(sender);
}

CASE(receive_timeout)
{
    char byte;
    struct timeval limit = { 0, 40000 };
    int a = bound_socket();
    MUST(setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    int64_t start = now_ns();
    show("recv", recv(a, &byte, 1, 0));
    show_elapsed(start, 36);
}

CASE(to_itself)
{
    char data[8];
    int a = bound_socket();
    show("send", send_to(a, port_of(a), "me", 2));
    show("recv", recv(a, data, sizeof data, 0));
    show("connect to itself", try_connect(a, port_of(a)));
    show("send", send(a, "again", 5, 0));
    show("recv", recv(a, data, sizeof data, 0));
}

CASE(shutdown_states)
{
    char byte;
    int a = bound_socket(), b = bound_socket();
    show("unconnected", shutdown(a, SHUT_RD));
    MUST(try_connect(a, port_of(b)));
    show("connected", shutdown(a, SHUT_RD));
    show("recv", recv(a, &byte, 1, 0));
    show("send", send(a, "x", 1, 0));
    show("shutdown write", shutdown(a, SHUT_WR));
    show("send", send(a, "x", 1, MSG_NOSIGNAL));
}

CASE(options)
{
    int a = bound_socket();
    number("SO_TYPE", get_option(a, SO_TYPE));
    number("SO_DOMAIN", get_option(a, SO_DOMAIN));
    number("SO_PROTOCOL", get_option(a, SO_PROTOCOL));
    number("SO_ACCEPTCONN", get_option(a, SO_ACCEPTCONN));
    number("SO_ERROR", get_option(a, SO_ERROR));
    int ttl = -1;
    socklen_t length = sizeof ttl;
    show("IP_TTL", getsockopt(a, IPPROTO_IP, IP_TTL, &ttl, &length));
    number("default", ttl);
    show("wrong level", getsockopt(a, IPPROTO_TCP, 1, &ttl, &length));
}

CASE(multicast_interface)
{
    struct in_addr address = { htonl(INADDR_LOOPBACK) }, got = { 1 };
    struct ip_mreqn request = { .imr_ifindex = 4711 };
    socklen_t length = sizeof got;
    int a = bound_socket();
    show("get", getsockopt(a, IPPROTO_IP, IP_MULTICAST_IF, &got, &length));
    truth("none at first", got.s_addr == 0 && length == sizeof got);
    show("by an own address", setsockopt(a, IPPROTO_IP, IP_MULTICAST_IF, &address, sizeof address));
    MUST(getsockopt(a, IPPROTO_IP, IP_MULTICAST_IF, &got, &length));
    truth("the address", got.s_addr == address.s_addr);
    address.s_addr = htonl(INADDR_ANY);
    show("by no address", setsockopt(a, IPPROTO_IP, IP_MULTICAST_IF, &address, sizeof address));
    address.s_addr = inet_addr("192.0.2.77");
    show("by somebody's address", setsockopt(a, IPPROTO_IP, IP_MULTICAST_IF, &address, sizeof address));
    show("by an index that is none", setsockopt(a, IPPROTO_IP, IP_MULTICAST_IF, &request, sizeof request));
    request.imr_ifindex = 1;
    show("by the index of lo", setsockopt(a, IPPROTO_IP, IP_MULTICAST_IF, &request, sizeof request));
    show("too short", setsockopt(a, IPPROTO_IP, IP_MULTICAST_IF, &request, 3));
    show("on a stream", setsockopt(MUST(socket(AF_INET, SOCK_STREAM, 0)), IPPROTO_IP, IP_MULTICAST_IF, &request, sizeof request));
}

CASE(wildcard_receives)
{
    struct sockaddr_in any = loopback(0), from;
    socklen_t length = sizeof from;
    char byte;
    int a = bound_socket(), b = new_socket();
    any.sin_addr.s_addr = htonl(INADDR_ANY);
    MUST(bind(b, (struct sockaddr *)&any, sizeof any));
    show("send", send_to(a, port_of(b), "x", 1));
    show("recvfrom", recvfrom(b, &byte, 1, 0, (struct sockaddr *)&from, &length));
    truth("answer reaches", send_to(b, ntohs(from.sin_port), "y", 1) == 1 && recv(a, &byte, 1, 0) == 1);
}

CASE(queue_overflow_drops)
{
    static char data[1000];
    int size = 4096, received = 0;
    int a = bound_socket(), b = bound_socket();
    MUST(setsockopt(b, SOL_SOCKET, SO_RCVBUF, &size, sizeof size));
    for (int i = 0; i < 100; i++)
        MUST(send_to(a, port_of(b), data, sizeof data));
    while (recv(b, data, sizeof data, MSG_DONTWAIT) > 0)
        received++;
    truth("some arrived", received > 0);
    truth("some were dropped", received < 100);
}

static void show_receive(const char *what, int fd, int flags)
{
    char data[16];
    long got = recv(fd, data, sizeof data, flags);

    if (show(what, got) > 0)
        bytes("data", data, got);
}

static void show_poll(const char *what, int fd)
{
    struct pollfd entry = { .fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP };
    int ready = poll(&entry, 1, 0);

    printf("%s: %d%s%s%s%s%s\n", what, ready, entry.revents & POLLIN ? " IN" : "",
           entry.revents & POLLOUT ? " OUT" : "", entry.revents & POLLRDHUP ? " RDHUP" : "",
           entry.revents & POLLHUP ? " HUP" : "", entry.revents & POLLERR ? " ERR" : "");
}

CASE(reading_is_shut)
{
    char byte;
    int a = bound_socket(), b = bound_socket();
    MUST(try_connect(a, port_of(b)));
    MUST(try_connect(b, port_of(a)));
    MUST(send(b, "before", 6, 0));
    await(a);
    show("shutdown", shutdown(a, SHUT_RD));
    show_poll("poll", a);
    show_receive("what was there", a, MSG_DONTWAIT);
    show_receive("without waiting", a, MSG_DONTWAIT);
    show_receive("waiting", a, 0);
    show_receive("peeking", a, MSG_PEEK);
    MUST(send(b, "after", 5, 0));
    int unread = 0;
    for (int i = 0; i < 1000 && !unread; i++) {
        MUST(ioctl(a, FIONREAD, &unread));
        sleep_ms(1);
    }
    show_receive("what came later", a, MSG_DONTWAIT);
    show_receive("without waiting", a, MSG_DONTWAIT);
    set_nonblocking(a);
    show("read", read(a, &byte, 1));
    show("send", send(a, "x", 1, 0));
    show("shutdown", shutdown(a, SHUT_WR));
    show("send", send(a, "x", 1, MSG_NOSIGNAL));
    show_poll("poll", a);
}

CASE(unconnected_sockets_are_shut_too)
{
    int a = bound_socket(), b = bound_socket();
    show("shutdown", shutdown(a, SHUT_RDWR));
    show_poll("poll", a);
    show_receive("without waiting", a, MSG_DONTWAIT);
    show_receive("waiting", a, 0);
    show("send to nobody", send(a, "x", 1, MSG_NOSIGNAL));
    struct sockaddr_in to = loopback(port_of(b));
    show("send", sendto(a, "x", 1, MSG_NOSIGNAL, (struct sockaddr *)&to, sizeof to));
}

static void *shut_later(void *argument)
{
    sleep_ms(30);
    shutdown(*(int *)argument, SHUT_RD);
    return NULL;
}

CASE(shutdown_wakes_who_waits)
{
    int a = bound_socket();
    pthread_t thread = thread_start(shut_later, &a);
    show_receive("receive", a, 0);
    thread_join(thread);
}

CASE(errors_of_sending_in_their_order)
{
    struct sockaddr_in none = loopback(0);
    int a = new_socket(), port = quiet_port();
    MUST(try_connect(a, port));
    MUST(send(a, "x", 1, 0));
    await(a);
    struct sockaddr nobody = { .sa_family = AF_UNSPEC };
    MUST(connect(a, &nobody, sizeof nobody));
    show("to nobody", send(a, "x", 1, 0));
    show("to port 0", sendto(a, "x", 1, 0, (struct sockaddr *)&none, sizeof none));
    show("to somebody, with an error that waits", send_to(a, port, "x", 1));
    show("to somebody", send_to(a, port, "x", 1));
}

/* Prints whether the stamp is a moment of the last minutes. */
static void show_stamp(const char *what, int fd)
{
    struct timeval stamp = { -7, -7 };

    if (show(what, ioctl(fd, SIOCGSTAMP, &stamp)) == 0)
        truth("it is recent", llabs(stamp.tv_sec - time(NULL)) < 100 && stamp.tv_usec >= 0 && stamp.tv_usec < 1000000);
}

CASE(stamps_by_request)
{
    struct timeval stamp, again;
    struct timespec precise;
    char byte;
    int a = bound_socket(), b = new_socket();
    MUST(try_connect(b, port_of(a)));
    show_stamp("at first", a);
    MUST(send(b, "x", 1, 0));
    await(a);
    show_stamp("unread", a);
    MUST(recv(a, &byte, 1, 0));
    show_stamp("read", a);
    MUST(ioctl(a, SIOCGSTAMP, &stamp));
    sleep_ms(5);
    MUST(ioctl(a, SIOCGSTAMP, &again));
    truth("it stays", !memcmp(&stamp, &again, sizeof stamp));
    show("SIOCGSTAMPNS", ioctl(a, SIOCGSTAMPNS, &precise));
    truth("it is the same", precise.tv_sec == stamp.tv_sec && precise.tv_nsec / 1000 == stamp.tv_usec);
    show("to nowhere", ioctl(a, SIOCGSTAMP, NULL));
    int peeked = bound_socket();
    MUST(try_connect(b, port_of(peeked)));
    MUST(send(b, "x", 1, 0));
    MUST(recv(peeked, &byte, 1, MSG_PEEK));
    show_stamp("peeked", peeked);
    int with_option = bound_socket(), on = 1;
    MUST(setsockopt(with_option, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on));
    MUST(try_connect(b, port_of(with_option)));
    MUST(send(b, "x", 1, 0));
    MUST(recv(with_option, &byte, 1, 0));
    show_stamp("with SO_TIMESTAMP", with_option);
    int stream = MUST(socket(AF_INET, SOCK_STREAM, 0));
    show_stamp("stream", stream);
    show("SIOCATMARK", ioctl(a, SIOCATMARK, &on));
}

CASE(stamps_are_of_the_arrival)
{
    char data[8], control[128];
    struct iovec part = { data, sizeof data };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    struct timeval came, now;
    int a = bound_socket(), b = new_socket(), on = 1;
    MUST(setsockopt(a, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on));
    MUST(try_connect(b, port_of(a)));
    /* Linux begins to stamp a little later. */
    sleep_ms(50);
    MUST(send(b, "x", 1, 0));
    await(a);
    sleep_ms(50);
    MUST(recvmsg(a, &message, 0));
    memcpy(&came, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof came);
    MUST(gettimeofday(&now, NULL));
    long age = (now.tv_sec - came.tv_sec) * 1000 + (now.tv_usec - came.tv_usec) / 1000;
    truth("it has waited", age >= 49 && age < 5000);
}

static void show_own_address(int fd)
{
    struct sockaddr_in own;
    socklen_t length = sizeof own;

    MUST(getsockname(fd, (struct sockaddr *)&own, &length));
    text("address", inet_ntoa(own.sin_addr));
}

CASE(ports_that_sending_takes)
{
    struct sockaddr_in own = loopback(0), none = { .sin_family = AF_UNSPEC };
    int on = 1, receiver = bound_socket();
    for (int way = 0; way < 2; way++) {
        int fd = new_socket();
        MUST(setsockopt(fd, SOL_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on));
        own.sin_addr.s_addr = inet_addr("127.0.0.9");
        show("bind", bind(fd, (struct sockaddr *)&own, sizeof own));
        number("port", port_of(fd));
        own.sin_addr.s_addr = inet_addr("127.0.0.7");
        show("bind again", bind(fd, (struct sockaddr *)&own, sizeof own));
        if (way == 0) {
            struct sockaddr_in to = loopback(port_of(receiver));
            show("sendto", sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof to));
        } else {
            show("connect", try_connect(fd, port_of(receiver)));
            show("send", send(fd, "x", 1, 0));
        }
        truth("port then", port_of(fd) != 0);
        show_own_address(fd);
        show("bind when it has one", bind(fd, (struct sockaddr *)&own, sizeof own));
        struct sockaddr_in from;
        socklen_t length = sizeof from;
        char byte;
        MUST(recvfrom(receiver, &byte, 1, 0, (struct sockaddr *)&from, &length));
        text("from", inet_ntoa(from.sin_addr));
        truth("from that port", ntohs(from.sin_port) == port_of(fd));
        show("connect to nothing", connect(fd, (struct sockaddr *)&none, sizeof none));
        show_own_address(fd);
    }
}

CASE(each_datagram_that_leaves_is_room_again)
{
    int ep = MUST(epoll_create1(0)), receiver = bound_socket(), fd = new_socket(), told = 0;
    struct epoll_event event = { .events = EPOLLOUT | EPOLLET };

    MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event));
    told += epoll_wait(ep, &event, 1, 50) > 0;
    show("no news", epoll_wait(ep, &event, 1, 10));
    for (int i = 0; i < 10; i++) {
        MUST(send_to(fd, port_of(receiver), "x", 1));
        told += epoll_wait(ep, &event, 1, 50) > 0;
    }
    number("told", told);
    show("no news", epoll_wait(ep, &event, 1, 10));
}

CASE(what_was_dropped_is_told)
{
    int receiver = bound_socket(), fd = new_socket(), on = 1, small = 1, dropped = 0;
    char data[2000], room[64];
    struct iovec vector = { data, sizeof data };

    memset(data, 'x', sizeof data);
    MUST(setsockopt(receiver, SOL_SOCKET, SO_RCVBUF, &small, sizeof small));
    MUST(setsockopt(receiver, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof on));
    for (int i = 0; i < 5; i++)
        MUST(send_to(fd, port_of(receiver), data, sizeof data));
    await(receiver);
    for (int turn = 0; turn < 2; turn++) {
        struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room };

        show("recvmsg", recvmsg(receiver, &message, 0));
        for (struct cmsghdr *at = CMSG_FIRSTHDR(&message); at; at = CMSG_NXTHDR(&message, at)) {
            truth("its own message", at->cmsg_level == SOL_SOCKET && at->cmsg_type == SO_RXQ_OVFL);
            memcpy(&dropped, CMSG_DATA(at), sizeof dropped);
        }
        truth("some were dropped", dropped > 0);
        while (recv(receiver, data, sizeof data, MSG_DONTWAIT) > 0)
            ;
        MUST(send_to(fd, port_of(receiver), data, sizeof data));
        await(receiver);
    }
}
