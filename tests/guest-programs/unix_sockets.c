/*
 * Unix-domain sockets: socketpairs of all three types, listening sockets on
 * paths and abstract names, message flags, shutdown, options, addresses.
 */
#include "case.h"

#include <poll.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

static int pair[2];

static void make_pair(int type)
{
    MUST(socketpair(AF_UNIX, type, 0, pair));
}

/* An address of a path, or of an abstract name where it begins with '@'. */
static socklen_t address_of(struct sockaddr_un *address, const char *name)
{
    size_t length = strlen(name);

    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, name, length);
    if (name[0] == '@') {
        address->sun_path[0] = 0;
        return offsetof(struct sockaddr_un, sun_path) + length;
    }
    return offsetof(struct sockaddr_un, sun_path) + length + 1;
}

static int bound(int type, const char *name)
{
    struct sockaddr_un address;
    socklen_t length = address_of(&address, name);
    int fd = MUST(socket(AF_UNIX, type, 0));

    MUST(bind(fd, (struct sockaddr *)&address, length));
    return fd;
}

static int listener(const char *name)
{
    int fd = bound(SOCK_STREAM, name);

    MUST(listen(fd, 5));
    return fd;
}

static long try_connect(int fd, const char *name)
{
    struct sockaddr_un address;
    socklen_t length = address_of(&address, name);

    return connect(fd, (struct sockaddr *)&address, length);
}

static int option_of(int fd, int option)
{
    int value = -1;
    socklen_t length = sizeof value;

    if (getsockopt(fd, SOL_SOCKET, option, &value, &length) == -1)
        show("getsockopt", -1);
    return value;
}

static void show_poll(const char *what, int fd)
{
    struct pollfd entry = { .fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP };
    int ready = poll(&entry, 1, 0);

    printf("%s: %d%s%s%s%s%s\n", what, ready, entry.revents & POLLIN ? " IN" : "",
           entry.revents & POLLOUT ? " OUT" : "", entry.revents & POLLRDHUP ? " RDHUP" : "",
           entry.revents & POLLHUP ? " HUP" : "", entry.revents & POLLERR ? " ERR" : "");
}

CASE(stream_pair)
{
    char data[16];
    make_pair(SOCK_STREAM);
    show("write", write(pair[0], "abc", 3));
    show("write", write(pair[0], "def", 3));
    show("read joins", read(pair[1], data, sizeof data));
    bytes("data", data, 6);
    show("write back", write(pair[1], "xyz", 3));
    show("recv", recv(pair[0], data, 2, 0));
    show("recv", recv(pair[0], data, 2, 0));
    show("close", close(pair[0]));
    show("read at end", read(pair[1], data, 1));
    show("send", send(pair[1], "x", 1, MSG_NOSIGNAL));
}

CASE(dgram_pair_keeps_boundaries)
{
    char data[16];
    make_pair(SOCK_DGRAM);
    show("write", write(pair[0], "abc", 3));
    show("write", write(pair[0], "defgh", 5));
    show("write empty", write(pair[0], "", 0));
    show("send empty", send(pair[0], "", 0, 0));
    show("read", read(pair[1], data, sizeof data));
    show("read short", read(pair[1], data, 2));
    bytes("data", data, 2);
    show("recv empty", recv(pair[1], data, sizeof data, 0));
    show("recv", recv(pair[1], data, sizeof data, MSG_DONTWAIT));
}

CASE(seqpacket_pair)
{
    char data[16];
    make_pair(SOCK_SEQPACKET);
    show("send", send(pair[0], "first", 5, 0));
    show("send", send(pair[0], "second", 6, 0));
    show("recv", recv(pair[1], data, 3, 0));
    show("recv", recv(pair[1], data, sizeof data, 0));
    bytes("data", data, 6);
    MUST(close(pair[0]));
    show("recv at end", recv(pair[1], data, sizeof data, 0));
    show("send", send(pair[1], "x", 1, MSG_NOSIGNAL));
}

CASE(pair_flags)
{
    char byte;
    make_pair(SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC);
    show("F_GETFD", fcntl(pair[0], F_GETFD));
    truth("nonblocking", fcntl(pair[1], F_GETFL) & O_NONBLOCK);
    show("read", read(pair[0], &byte, 1));
    show("bad type", socketpair(AF_UNIX, 77, 0, pair));
    show("bad protocol", socketpair(AF_UNIX, SOCK_STREAM, 5, pair));
    show("bad family", socketpair(99, SOCK_STREAM, 0, pair));
    show("no pairs of inet", socketpair(AF_INET, SOCK_STREAM, 0, pair));
}

CASE(peek)
{
    char data[16];
    make_pair(SOCK_STREAM);
    MUST(write(pair[0], "peekable", 8));
    show("peek", recv(pair[1], data, 4, MSG_PEEK));
    bytes("data", data, 4);
    show("peek again", recv(pair[1], data, 16, MSG_PEEK));
    show("recv", recv(pair[1], data, 16, 0));
    show("peek empty", recv(pair[1], data, 16, MSG_PEEK | MSG_DONTWAIT));
}

CASE(truncated_datagrams)
{
    char data[4];
    struct iovec vector = { data, sizeof data };
    struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1 };
    make_pair(SOCK_DGRAM);
    MUST(send(pair[0], "0123456789", 10, 0));
    MUST(send(pair[0], "0123456789", 10, 0));
    MUST(send(pair[0], "012", 3, 0));
    show("recv with MSG_TRUNC", recv(pair[1], data, sizeof data, MSG_TRUNC));
    show("recvmsg", recvmsg(pair[1], &message, 0));
    truth("MSG_TRUNC set", message.msg_flags & MSG_TRUNC);
    show("recvmsg whole", recvmsg(pair[1], &message, 0));
    truth("MSG_TRUNC set", message.msg_flags & MSG_TRUNC);
}

static void *write_in_pieces(void *argument)
{
    (void)argument;
    for (int i = 0; i < 4; i++) {
        sleep_ms(5);
        MUST(write(pair[0], "0123456789" + i, 3));
    }
    return NULL;
}

CASE(wait_for_all)
{
    char data[12];
    make_pair(SOCK_STREAM);
    pthread_t writer = thread_start(write_in_pieces, NULL);
    show("MSG_WAITALL", recv(pair[1], data, sizeof data, MSG_WAITALL));
    bytes("data", data, 12);
    thread_join(writer);
    MUST(write(pair[0], "end", 3));
    MUST(close(pair[0]));
    show("MSG_WAITALL at end", recv(pair[1], data, sizeof data, MSG_WAITALL));
}

CASE(dontwait)
{
    char byte;
    make_pair(SOCK_STREAM);
    show("recv", recv(pair[0], &byte, 1, MSG_DONTWAIT));
    truth("still blocking", !(fcntl(pair[0], F_GETFL) & O_NONBLOCK));
    make_pair(SOCK_DGRAM);
    show("recv dgram", recv(pair[0], &byte, 1, MSG_DONTWAIT));
    static char big[4096];
    long sent = 0;
    while (send(pair[0], big, sizeof big, MSG_DONTWAIT) > 0)
        sent++;
    truth("queue has a limit", errno == EAGAIN && sent > 0);
}

CASE(shutdown_write)
{
    char data[8];
    make_pair(SOCK_STREAM);
    MUST(write(pair[0], "last", 4));
    show("shutdown", shutdown(pair[0], SHUT_WR));
    show("send", send(pair[0], "x", 1, MSG_NOSIGNAL));
    show("peer reads", read(pair[1], data, sizeof data));
    show("peer at end", read(pair[1], data, sizeof data));
    show("peer writes", write(pair[1], "reply", 5));
    show("read", read(pair[0], data, sizeof data));
    show_poll("half closed", pair[1]);
    show("shutdown peer", shutdown(pair[1], SHUT_WR));
    show_poll("closed", pair[1]);
}

CASE(shutdown_read)
{
    char data[8];
    signal(SIGPIPE, SIG_IGN);
    make_pair(SOCK_STREAM);
    show("shutdown", shutdown(pair[0], SHUT_RD));
    show("read", read(pair[0], data, sizeof data));
    show("peer writes", write(pair[1], "x", 1));
    show("write", write(pair[0], "y", 1));
    show("bad how", shutdown(pair[0], 5));
    int lone = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    show("shutdown unconnected", shutdown(lone, SHUT_RDWR));
    show("not a socket", shutdown(0, SHUT_RDWR));
}

static volatile sig_atomic_t pipe_signals;

static void count_sigpipe(int number)
{
    (void)number;
    pipe_signals++;
}

CASE(peer_gone)
{
    pipe_signals = 0;
    signal(SIGPIPE, count_sigpipe);
    make_pair(SOCK_STREAM);
    MUST(close(pair[1]));
    show("write", write(pair[0], "x", 1));
    number("signals", pipe_signals);
    show("MSG_NOSIGNAL", send(pair[0], "x", 1, MSG_NOSIGNAL));
    number("signals", pipe_signals);
    show_poll("poll", pair[0]);
    make_pair(SOCK_DGRAM);
    MUST(close(pair[1]));
    show("dgram", send(pair[0], "x", 1, MSG_NOSIGNAL));
}

CASE(peer_closed_with_unread_data)
{
    char byte;
    make_pair(SOCK_STREAM);
    MUST(write(pair[0], "unread", 6));
    MUST(close(pair[1]));
    show("read", read(pair[0], &byte, 1));
    show("read again", read(pair[0], &byte, 1));
}

static void *close_with_unread_data(void *argument)
{
    char byte;

    /* Late enough for the writer to wait for room; one byte less makes none. */
    usleep(50 * 1000);
    MUST(read(pair[1], &byte, 1));
    MUST(close(pair[1]));
    return argument;
}

static void write_until_the_peer_closes(int type)
{
    static char data[4096];
    char byte;
    long written;

    make_pair(type);
    pthread_t reader = thread_start(close_with_unread_data, NULL);
    while ((written = send(pair[0], data, sizeof data, MSG_NOSIGNAL)) == sizeof data)
        ;
    show("send that waited", written);
    show("read", read(pair[0], &byte, 1));
    thread_join(reader);
}

CASE(writers_whose_peer_closes_with_unread_data)
{
    char byte;

    write_until_the_peer_closes(SOCK_STREAM);
    write_until_the_peer_closes(SOCK_SEQPACKET);
    for (int type = SOCK_STREAM; type; type = type == SOCK_STREAM ? SOCK_SEQPACKET : 0) {
        make_pair(type);
        MUST(write(pair[0], "unread", 6));
        MUST(close(pair[1]));
        show("send that did not wait", send(pair[0], "x", 1, MSG_NOSIGNAL));
        show("send again", send(pair[0], "x", 1, MSG_NOSIGNAL));
        show("read", read(pair[0], &byte, 1));
    }
}

CASE(connect_and_accept_on_a_path)
{
    scratch();
    char data[8];
    struct stat status;
    int server = listener("sock");
    MUST(stat("sock", &status));
    truth("is a socket", S_ISSOCK(status.st_mode));
    int client = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    show("connect", try_connect(client, "sock"));
    int session = show_ok("accept", accept(server, NULL, NULL));
    show("write", write(client, "ping", 4));
    show("read", read(session, data, sizeof data));
    show("write", write(session, "pong!", 5));
    show("read", read(client, data, sizeof data));
    show("connect again", try_connect(client, "sock"));
    show("open the socket file", open("sock", O_RDWR));
    show("unlink", unlink("sock"));
    int late = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    show("connect to unlinked", try_connect(late, "sock"));
    show("established one still works", write(client, "x", 1));
}

CASE(abstract_names)
{
    char data[8];
    int server = listener("@gnomon-test-abstract");
    int client = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    show("connect", try_connect(client, "@gnomon-test-abstract"));
    int session = show_ok("accept", accept(server, NULL, NULL));
    show("write", write(client, "ping", 4));
    show("read", read(session, data, sizeof data));
    int other = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    show("another name", try_connect(other, "@gnomon-test-other"));
    struct sockaddr_un address;
    socklen_t length = address_of(&address, "@gnomon-test-abstract");
    show("bind taken name", bind(other, (struct sockaddr *)&address, length));
    MUST(close(server));
    MUST(close(session));
    show("name is free after close", bind(other, (struct sockaddr *)&address, length));
}

CASE(bind_errors)
{
    scratch();
    struct sockaddr_un address;
    int fd = bound(SOCK_STREAM, "sock");
    int other = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    socklen_t length = address_of(&address, "sock");
    show("taken path", bind(other, (struct sockaddr *)&address, length));
    length = address_of(&address, "sock2");
    show("second bind", bind(fd, (struct sockaddr *)&address, length));
    length = address_of(&address, "no/sock");
    show("missing directory", bind(other, (struct sockaddr *)&address, length));
    address.sun_family = AF_INET;
    show("wrong family", bind(other, (struct sockaddr *)&address, length));
    address.sun_family = AF_UNIX;
    show("length 1", bind(other, (struct sockaddr *)&address, 1));
    show("too long", bind(other, (struct sockaddr *)&address, sizeof address + 20));
    show("not a socket", bind(0, (struct sockaddr *)&address, length));
}

CASE(connect_errors)
{
    scratch();
    int fd = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    show("missing path", try_connect(fd, "missing"));
    file_make("f", "");
    show("a regular file", try_connect(fd, "f"));
    bound(SOCK_STREAM, "quiet");
    show("bound, not listening", try_connect(fd, "quiet"));
    bound(SOCK_DGRAM, "dgram");
    show("other type", try_connect(fd, "dgram"));
    show("listen unbound", listen(fd, 1));
    show("accept unlistening", accept(fd, NULL, NULL));
    int dgram = MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
    show("listen dgram", listen(dgram, 1));
    show("accept dgram", accept(dgram, NULL, NULL));
    show("send unconnected stream", send(fd, "x", 1, MSG_NOSIGNAL));
    show("recv unconnected stream", recv(fd, &(char){ 0 }, 1, 0));
}

CASE(nonblocking_accept_and_backlog)
{
    int server = bound(SOCK_STREAM | SOCK_NONBLOCK, "@gnomon-test-backlog");
    MUST(listen(server, 1));
    show("accept", accept(server, NULL, NULL));
    int connected = 0;
    for (int i = 0; i < 5; i++) {
        int client = MUST(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0));
        if (try_connect(client, "@gnomon-test-backlog") == 0)
            connected++;
        else if (i == 4)
            show("connect", -1);
    }
    number("connected", connected);
    show_poll("listener", server);
    show_ok("accept", accept(server, NULL, NULL));
}

CASE(accept4_flags)
{
    int server = listener("@gnomon-test-accept4");
    for (int i = 0; i < 2; i++) {
        int client = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
        MUST(try_connect(client, "@gnomon-test-accept4"));
    }
    int session = MUST(accept4(server, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
    show("F_GETFD", fcntl(session, F_GETFD));
    truth("nonblocking", fcntl(session, F_GETFL) & O_NONBLOCK);
    show("bad flags", accept4(server, NULL, NULL, 1));
    session = MUST(accept(server, NULL, NULL));
    show("F_GETFD", fcntl(session, F_GETFD));
}

static void *connect_late(void *argument)
{
    int client = MUST(socket(AF_UNIX, SOCK_STREAM, 0));

    sleep_ms(20);
    MUST(try_connect(client, argument));
    MUST(write(client, "hi", 2));
    MUST(close(client));
    return NULL;
}

CASE(accept_blocks)
{
    char data[8];
    int server = listener("@gnomon-test-blocks");
    pthread_t client = thread_start(connect_late, "@gnomon-test-blocks");
    int session = show_ok("accept", accept(server, NULL, NULL));
    show("read", recv(session, data, sizeof data, MSG_WAITALL));
    thread_join(client);
}

/* The length travels by pointer: arguments are evaluated in any order. */
static void show_name(const char *what, long ret, struct sockaddr_un *address, const socklen_t *length)
{
    show(what, ret);
    number("length", *length);
    if (*length > 2)
        bytes("path", address->sun_path, *length - 2);
}

CASE(names_of_sockets)
{
    scratch();
    struct sockaddr_un address;
    socklen_t length = sizeof address;
    int server = listener("sock");
    int client = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    show_name("unbound", getsockname(client, (struct sockaddr *)&address, &length), &address, &length);
    MUST(try_connect(client, "sock"));
    length = sizeof address;
    show_name("accept", accept(server, (struct sockaddr *)&address, &length) > 0 ? 0 : -1, &address, &length);
    length = sizeof address;
    show_name("listener", getsockname(server, (struct sockaddr *)&address, &length), &address, &length);
    length = sizeof address;
    show_name("peer", getpeername(client, (struct sockaddr *)&address, &length), &address, &length);
    length = 4;
    show("peer cut to 4", getpeername(client, (struct sockaddr *)&address, &length));
    number("real length", length);
    show("peer of listener", getpeername(server, (struct sockaddr *)&address, &length));
    make_pair(SOCK_STREAM);
    length = sizeof address;
    show_name("pair", getsockname(pair[0], (struct sockaddr *)&address, &length), &address, &length);
    length = sizeof address;
    show_name("pair peer", getpeername(pair[0], (struct sockaddr *)&address, &length), &address, &length);
}

CASE(datagrams_by_name)
{
    scratch();
    struct sockaddr_un address;
    char data[16];
    int a = bound(SOCK_DGRAM, "a"), b = bound(SOCK_DGRAM, "b");
    int nameless = MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
    socklen_t length = address_of(&address, "b");
    show("sendto", sendto(a, "from a", 6, 0, (struct sockaddr *)&address, length));
    show("sendto nameless", sendto(nameless, "anonymous", 9, 0, (struct sockaddr *)&address, length));
    length = sizeof address;
    show_name("recvfrom", recvfrom(b, data, sizeof data, 0, (struct sockaddr *)&address, &length), &address, &length);
    length = sizeof address;
    show_name("recvfrom", recvfrom(b, data, sizeof data, 0, (struct sockaddr *)&address, &length), &address, &length);
    show("send without peer", send(nameless, "x", 1, 0));
    length = address_of(&address, "missing");
    show("sendto missing", sendto(a, "x", 1, 0, (struct sockaddr *)&address, length));
    MUST(close(b));
    length = address_of(&address, "b");
    show("sendto closed", sendto(a, "x", 1, 0, (struct sockaddr *)&address, length));
}

CASE(vectors_in_messages)
{
    char a[3], b[10];
    struct iovec out[] = { { "one", 3 }, { "two", 3 }, { "three", 5 } };
    struct iovec in[] = { { a, 3 }, { b, 10 } };
    struct msghdr send_message = { .msg_iov = out, .msg_iovlen = 3 };
    struct msghdr receive_message = { .msg_iov = in, .msg_iovlen = 2 };
    make_pair(SOCK_DGRAM);
    show("sendmsg", sendmsg(pair[0], &send_message, 0));
    show("recvmsg", recvmsg(pair[1], &receive_message, 0));
    bytes("a", a, 3);
    bytes("b", b, 8);
    number("name length", receive_message.msg_namelen);
    number("control length", receive_message.msg_controllen);
    show("writev", writev(pair[0], out, 2));
    show("readv", readv(pair[1], in, 2));
}

CASE(options)
{
    make_pair(SOCK_SEQPACKET);
    number("SO_TYPE", option_of(pair[0], SO_TYPE));
    number("SO_DOMAIN", option_of(pair[0], SO_DOMAIN));
    number("SO_PROTOCOL", option_of(pair[0], SO_PROTOCOL));
    number("SO_ACCEPTCONN", option_of(pair[0], SO_ACCEPTCONN));
    number("SO_ERROR", option_of(pair[0], SO_ERROR));
    int server = listener("@gnomon-test-options");
    number("SO_ACCEPTCONN of listener", option_of(server, SO_ACCEPTCONN));
    truth("SO_SNDBUF positive", option_of(pair[0], SO_SNDBUF) > 0);
    int value;
    socklen_t length = sizeof value;
    show("bad option", getsockopt(pair[0], SOL_SOCKET, 9999, &value, &length));
    show("not a socket", getsockopt(0, SOL_SOCKET, SO_TYPE, &value, &length));
    show("TCP level", getsockopt(pair[0], 6, 1, &value, &length));
}

CASE(peer_credentials)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    make_pair(SOCK_STREAM);
    show("SO_PEERCRED", getsockopt(pair[0], SOL_SOCKET, SO_PEERCRED, &peer, &length));
    truth("own pid", peer.pid == getpid());
    truth("own uid", peer.uid == geteuid());
    truth("own gid", peer.gid == getegid());
    number("length", length);
}

static void show_credentials(const char *what, int fd)
{
    struct ucred peer = { -5, -5, -5 };
    socklen_t length = sizeof peer;

    show(what, getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length));
    truth("this process", peer.pid == getpid() && peer.uid == getuid() && peer.gid == getgid());
    truth("nobody", peer.pid == 0 && peer.uid == (uid_t)-1 && peer.gid == (gid_t)-1);
}

CASE(listeners_are_their_own_peers)
{
    int fd = MUST(socket(AF_UNIX, SOCK_STREAM, 0)), client = MUST(socket(AF_UNIX, SOCK_STREAM, 0)), accepted;
    struct sockaddr_un address;
    socklen_t length = address_of(&address, "@gnomon-listeners-peer");

    show_credentials("new", fd);
    MUST(bind(fd, (struct sockaddr *)&address, length));
    show_credentials("bound", fd);
    MUST(listen(fd, 1));
    show_credentials("listening", fd);
    MUST(try_connect(client, "@gnomon-listeners-peer"));
    accepted = MUST(accept(fd, NULL, NULL));
    show_credentials("client", client);
    show_credentials("accepted", accepted);
}

CASE(connections_inherit_whether_senders_are_told)
{
    int fd = bound(SOCK_STREAM, "@gnomon-inherited"), client = MUST(socket(AF_UNIX, SOCK_STREAM, 0)), accepted, on = 1;
    char data[4], control[CMSG_SPACE(sizeof(struct ucred))];
    struct iovec part = { data, sizeof data };
    struct msghdr message = { NULL, 0, &part, 1, control, sizeof control, 0 };

    MUST(setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on));
    MUST(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on));
    MUST(listen(fd, 1));
    MUST(try_connect(client, "@gnomon-inherited"));
    accepted = MUST(accept(fd, NULL, NULL));
    number("SO_PASSCRED", option_of(accepted, SO_PASSCRED));
    number("SO_KEEPALIVE", option_of(accepted, SO_KEEPALIVE));
    number("the client's", option_of(client, SO_PASSCRED));
    MUST(send(client, "hi", 2, 0));
    show("receive", recvmsg(accepted, &message, 0));
    truth("with the sender", message.msg_controllen > 0 &&
                             ((struct ucred *)CMSG_DATA(CMSG_FIRSTHDR(&message)))->pid == getpid());
}

static long send_as(int fd, pid_t pid, uid_t uid, gid_t gid)
{
    char control[CMSG_SPACE(sizeof(struct ucred))] = { 0 };
    struct iovec part = { "x", 1 };
    struct msghdr message = { NULL, 0, &part, 1, control, sizeof control, 0 };
    struct ucred who = { pid, uid, gid };
    struct cmsghdr *at = CMSG_FIRSTHDR(&message);

    at->cmsg_level = SOL_SOCKET;
    at->cmsg_type = SCM_CREDENTIALS;
    at->cmsg_len = CMSG_LEN(sizeof who);
    memcpy(CMSG_DATA(at), &who, sizeof who);
    return sendmsg(fd, &message, 0);
}

CASE(credentials_that_a_sender_names_are_looked_at)
{
    int type;

    for (type = SOCK_STREAM; type <= SOCK_DGRAM; type++) {
        make_pair(type);
        show("own", send_as(pair[0], getpid(), getuid(), getgid()));
        show("no user", send_as(pair[0], getpid(), -1, getgid()));
        show("no group", send_as(pair[0], getpid(), getuid(), -1));
        /* Who may name others' processes learns that there is none, everybody else that it may not. */
        truth("no process", send_as(pair[0], 0x3ffffff, getuid(), getgid()) == -1 &&
                            errno == (getuid() == 0 ? ESRCH : EPERM));
        truth("process 0", send_as(pair[0], 0, getuid(), getgid()) == -1 &&
                           errno == (getuid() == 0 ? ESRCH : EPERM));
    }
}

CASE(a_socket_file_has_the_mode_of_its_socket)
{
    int fd = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    struct sockaddr_un address;
    socklen_t length = address_of(&address, "narrow");
    struct stat status;

    scratch();
    umask(022);
    MUST(fchmod(fd, 0640));
    MUST(bind(fd, (struct sockaddr *)&address, length));
    MUST(stat("narrow", &status));
    printf("file %o\n", status.st_mode & 07777);
    MUST(fstat(fd, &status));
    printf("socket %o\n", status.st_mode & 07777);
    MUST(fchmod(fd, 0600));
    MUST(stat("narrow", &status));
    printf("file %o\n", status.st_mode & 07777);
    fd = MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
    length = address_of(&address, "usual");
    MUST(bind(fd, (struct sockaddr *)&address, length));
    MUST(stat("usual", &status));
    printf("file %o\n", status.st_mode & 07777);
}

CASE(unread_counts)
{
    int unread = -1;
    make_pair(SOCK_STREAM);
    show("FIONREAD", ioctl(pair[1], FIONREAD, &unread));
    number("unread", unread);
    MUST(write(pair[0], "12345", 5));
    MUST(write(pair[0], "678", 3));
    show("FIONREAD", ioctl(pair[1], FIONREAD, &unread));
    number("stream unread", unread);
    make_pair(SOCK_DGRAM);
    MUST(write(pair[0], "12345", 5));
    MUST(write(pair[0], "678", 3));
    show("FIONREAD", ioctl(pair[1], FIONREAD, &unread));
    number("next datagram", unread);
}

CASE(poll_states)
{
    char byte;
    make_pair(SOCK_STREAM);
    show_poll("fresh", pair[0]);
    MUST(write(pair[1], "x", 1));
    show_poll("data", pair[0]);
    MUST(close(pair[1]));
    show_poll("data, peer closed", pair[0]);
    MUST(read(pair[0], &byte, 1));
    show_poll("peer closed", pair[0]);
    int lone = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    show_poll("unconnected", lone);
}

enum { STREAM_LENGTH = 500000 };

static void *read_stream(void *argument)
{
    static char data[9001];
    uint64_t *sum = argument;
    long total = 0;

    *sum = CHECKSUM_START;
    for (long n; (n = MUST(read(pair[1], data, sizeof data))) > 0; total += n)
        *sum = checksum(*sum, data, n);
    return (void *)total;
}

CASE(large_stream_through_thread)
{
    static char data[STREAM_LENGTH];
    uint64_t received;
    fill_pattern(data, sizeof data, 3);
    make_pair(SOCK_STREAM);
    pthread_t reader = thread_start(read_stream, &received);
    show("write", write(pair[0], data, sizeof data));
    MUST(shutdown(pair[0], SHUT_WR));
    number("received", (long)thread_join(reader));
    truth("same bytes", received == checksum(CHECKSUM_START, data, sizeof data));
}

CASE(receive_timeout)
{
    char byte;
    struct timeval limit = { 0, 30000 };
    make_pair(SOCK_STREAM);
    show("SO_RCVTIMEO", setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    int64_t start = now_ns();
    show("read", read(pair[0], &byte, 1));
    show_elapsed(start, 28);
}

/* A timeout counts from one message to the next: what is so short is over when the first one has come. */
CASE(receiving_many_in_no_time)
{
    static const struct timespec times[] = { { 0, 0 }, { 0, 1 }, { 0, 50000000 } };
    int pair[2];

    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        char data[3][4];
        struct iovec parts[3];
        struct mmsghdr messages[3] = { 0 };
        struct timespec limit = times[i];
        int count = i == 2 ? 3 : 1;

        for (int part = 0; part < 3; part++) {
            parts[part] = (struct iovec){ data[part], sizeof data[part] };
            messages[part].msg_hdr = (struct msghdr){ .msg_iov = &parts[part], .msg_iovlen = 1 };
        }
        for (int sent = 0; sent < count; sent++)
            MUST(send(pair[0], "x", 1, 0));
        show("recvmmsg", recvmmsg(pair[1], messages, 3, 0, &limit));
        truth("less is left", limit.tv_sec == 0 && limit.tv_nsec <= times[i].tv_nsec);
        truth("something", limit.tv_nsec > 0 || i < 2);
    }
}

CASE(lseek_on_a_socket)
{
    char byte;
    make_pair(SOCK_STREAM);
    show("lseek", lseek(pair[0], 0, SEEK_SET));
    show("pread", pread(pair[0], &byte, 1, 0));
    show("ftruncate", ftruncate(pair[0], 0));
    show("fsync", fsync(pair[0]));
}

static const int all_types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET };
static const char *const type_names[] = { "stream", "datagrams", "packets" };

static void show_peer(const char *what, int fd)
{
    struct sockaddr_un address;
    socklen_t length = sizeof address;

    memset(&address, '#', sizeof address);
    if (show(what, getpeername(fd, (struct sockaddr *)&address, &length)) == 0)
        bytes("name", address.sun_path, length - offsetof(struct sockaddr_un, sun_path));
}

/* Receives without waiting, and shows who sent what. */
static void show_receive(const char *what, int fd, size_t room, int flags)
{
    struct sockaddr_un address;
    socklen_t length = sizeof address;
    char data[64];
    long got = recvfrom(fd, data, room, flags | MSG_DONTWAIT, (struct sockaddr *)&address, &length);

    if (show(what, got) == -1)
        return;
    bytes("data", data, got);
    bytes("from", address.sun_path, length ? length - offsetof(struct sockaddr_un, sun_path) : 0);
}

static void show_unread(const char *what, int fd)
{
    int unread = -1;

    if (show(what, ioctl(fd, FIONREAD, &unread)) == 0)
        number("unread", unread);
}

static int new_socket(int type)
{
    return MUST(socket(AF_UNIX, type, 0));
}

static long try_bind(int fd, const char *name)
{
    struct sockaddr_un address;
    socklen_t length = address_of(&address, name);

    return bind(fd, (struct sockaddr *)&address, length);
}

CASE(each_type_has_abstract_names_of_its_own)
{
    int sockets[3];
    scratch();
    for (int i = 0; i < 3; i++) {
        sockets[i] = new_socket(all_types[i]);
        show(type_names[i], try_bind(sockets[i], "@gnomon-test-types"));
    }
    show("the same again", try_bind(new_socket(SOCK_STREAM), "@gnomon-test-types"));
    int stream = new_socket(SOCK_STREAM), datagrams = new_socket(SOCK_DGRAM), packets = new_socket(SOCK_SEQPACKET);
    show("datagrams", try_connect(datagrams, "@gnomon-test-types"));
    show("stream that does not listen", try_connect(stream, "@gnomon-test-types"));
    MUST(listen(sockets[0], 1));
    show("stream", try_connect(stream, "@gnomon-test-types"));
    show("packets", try_connect(packets, "@gnomon-test-types"));
    bound(SOCK_DGRAM, "@gnomon-test-datagrams");
    show("stream to datagrams", try_connect(new_socket(SOCK_STREAM), "@gnomon-test-datagrams"));
    /* Files have one socket each. */
    bound(SOCK_DGRAM, "file");
    show("stream to a file of datagrams", try_connect(new_socket(SOCK_STREAM), "file"));
    show("connected stream to it", try_connect(stream, "file"));
    show("stream bound to it", try_bind(new_socket(SOCK_STREAM), "file"));
}

CASE(names_of_peers_that_are_gone)
{
    scratch();
    for (int i = 0; i < 3; i++) {
        char servers[16], clients[16];
        snprintf(servers, sizeof servers, "server-%d", i);
        snprintf(clients, sizeof clients, "client-%d", i);
        text("type", type_names[i]);
        int listening = bound(all_types[i], servers), own = bound(all_types[i], clients), other = listening;
        if (i != 1)
            MUST(listen(listening, 1));
        MUST(try_connect(own, servers));
        if (i == 1)
            MUST(try_connect(listening, clients));
        else
            other = MUST(accept(listening, NULL, NULL));
        show_peer("peer", other);
        MUST(send(own, "hello", 5, 0));
        MUST(send(other, "world", 5, 0));
        show_receive("receive", own, 64, 0);
        show_receive("peek", other, 64, MSG_PEEK);
        show_receive("part", other, 3, 0);
        show_receive("rest", other, 64, 0);
        MUST(send(own, "late", 4, 0));
        MUST(close(own));
        show_peer("peer is gone", other);
        show_receive("what it sent", other, 64, 0);
        show_receive("the end", other, 64, 0);
        show_peer("peer is gone", other);
        show("send", send(other, "x", 1, MSG_NOSIGNAL));
        show_peer("peer after that", other);
        close(other);
        close(listening);
    }
    int listening = listener("lasting"), client = new_socket(SOCK_STREAM);
    MUST(try_connect(client, "lasting"));
    int session = MUST(accept(listening, NULL, NULL));
    MUST(send(client, "x", 1, 0));
    show_receive("from who has no name", session, 64, 0);
    MUST(close(session));
    MUST(close(listening));
    show_peer("listener is gone", client);
    int impatient = new_socket(SOCK_STREAM);
    listening = bound(SOCK_STREAM, "second");
    MUST(listen(listening, 1));
    MUST(try_bind(impatient, "impatient"));
    MUST(try_connect(impatient, "second"));
    MUST(close(impatient));
    struct sockaddr_un address;
    socklen_t length = sizeof address;
    show_ok("accept of who has gone", accept(listening, (struct sockaddr *)&address, &length));
    bytes("name", address.sun_path, length - offsetof(struct sockaddr_un, sun_path));
}

CASE(receiving_nothing)
{
    for (int i = 0; i < 3; i++) {
        int value;
        text("type", type_names[i]);
        make_pair(all_types[i]);
        show_receive("no room, nothing there", pair[0], 0, 0);
        show("read of nothing", read(pair[0], &value, 0));
        MUST(send(pair[1], "abc", 3, 0));
        MUST(send(pair[1], "defgh", 5, 0));
        MUST(send(pair[1], "i", 1, 0));
        show_unread("FIONREAD", pair[0]);
        show_receive("no room", pair[0], 0, 0);
        show_unread("FIONREAD", pair[0]);
        show_receive("room for two", pair[0], 2, 0);
        show_unread("FIONREAD", pair[0]);
        show_receive("no room, peeking", pair[0], 0, MSG_PEEK);
        show("SIOCGSTAMP", ioctl(pair[0], 0x8906, &value));
        MUST(close(pair[1]));
        show_receive("the rest", pair[0], 64, 0);
        show_receive("the end", pair[0], 64, 0);
        show_receive("the end, no room", pair[0], 0, 0);
    }
}

CASE(least_that_a_stream_receives)
{
    int least = 4;
    make_pair(SOCK_STREAM);
    MUST(setsockopt(pair[0], SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least));
    MUST(send(pair[1], "abc", 3, 0));
    show_receive("less", pair[0], 64, 0);
    MUST(send(pair[1], "defgh", 5, 0));
    show_receive("more", pair[0], 64, 0);
    show_receive("nothing", pair[0], 64, 0);
}

CASE(resets_and_what_was_sent_before)
{
    for (int i = 0; i < 3; i++) {
        text("type", type_names[i]);
        for (int way = 0; way < 4; way++) {
            make_pair(all_types[i]);
            MUST(send(pair[1], "abc", 3, 0));
            MUST(send(pair[1], "def", 3, 0));
            MUST(send(pair[0], "unread", 6, 0));
            MUST(close(pair[1]));
            if (way == 1)
                show("send first", send(pair[0], "x", 1, MSG_NOSIGNAL));
            if (way == 2)
                printf("SO_ERROR: %s\n", errno_name(option_of(pair[0], SO_ERROR)));
            if (way == 3)
                show_receive("peek first", pair[0], 64, MSG_PEEK);
            for (int turn = 0; turn < 4; turn++)
                show_receive("receive", pair[0], 64, 0);
            MUST(close(pair[0]));
        }
    }
}

CASE(shutting_each_type)
{
    for (int i = 0; i < 3; i++) {
        char byte;
        text("type", type_names[i]);
        make_pair(all_types[i]);
        MUST(send(pair[1], "abc", 3, 0));
        show("shutdown", shutdown(pair[0], SHUT_RD));
        show_receive("what was there", pair[0], 64, 0);
        show_receive("without waiting", pair[0], 64, 0);
        show_receive("no room", pair[0], 0, 0);
        show("waiting", recv(pair[0], &byte, 1, 0));
        show("peer sends", send(pair[1], "x", 1, MSG_NOSIGNAL));
        show("send", send(pair[0], "x", 1, MSG_NOSIGNAL));
        make_pair(all_types[i]);
        show("peer shuts writing", shutdown(pair[1], SHUT_WR));
        show_receive("without waiting", pair[0], 64, 0);
        int lone = new_socket(all_types[i]);
        show("unconnected", shutdown(lone, SHUT_RDWR));
        show_receive("without waiting", lone, 64, 0);
    }
}

CASE(datagram_socket_that_changes_its_peer)
{
    struct sockaddr nobody = { .sa_family = AF_UNSPEC };
    scratch();
    int a = bound(SOCK_DGRAM, "a"), b = bound(SOCK_DGRAM, "b");
    bound(SOCK_DGRAM, "c");
    MUST(try_connect(a, "b"));
    MUST(try_connect(b, "a"));
    MUST(send(a, "lost", 4, 0));
    show("b to c", try_connect(b, "c"));
    show_receive("a learns of it", a, 64, 0);
    show_receive("what a sent is lost", b, 64, 0);
    show("a to b, which has another peer", send(a, "x", 1, 0));
    show("b to nobody", connect(b, &nobody, sizeof nobody));
    show_peer("peer of b", b);
    show("a to b", send(a, "y", 1, 0));
    show_receive("b has it", b, 64, 0);
    show("b to c again", try_connect(b, "c"));
    show_receive("a learns nothing", a, 64, 0);
}
