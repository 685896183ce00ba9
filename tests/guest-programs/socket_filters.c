/*
 * Filters of sockets: programs of classic BPF that judge what comes, and who
 * may take them away.
 *
 * Ports come from bind to port 0 and are never printed.
 */
#include "case.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

static long attach(int fd, struct sock_filter *code, int count)
{
    struct sock_fprog program = { count, code };

    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

#define ATTACH(fd, ...)                                     \
    ({                                                      \
        struct sock_filter code_[] = { __VA_ARGS__ };       \
        attach(fd, code_, COUNT_OF(code_));                 \
    })

static long detach(int fd)
{
    int none = 0;

    return setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof none);
}

static int bound(int type, struct sockaddr_in *name)
{
    socklen_t length = sizeof *name;
    int fd = MUST(socket(AF_INET, type, 0));

    *name = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    MUST(bind(fd, (struct sockaddr *)name, sizeof *name));
    MUST(getsockname(fd, (struct sockaddr *)name, &length));
    return fd;
}

static void try_send(int fd, const struct sockaddr_in *to, const char *data)
{
    char got[64];
    struct pollfd entry = { .fd = fd, .events = POLLIN };
    int sender = MUST(socket(AF_INET, SOCK_DGRAM, 0));

    MUST(sendto(sender, data, strlen(data), 0, (const struct sockaddr *)to, sizeof *to));
    poll(&entry, 1, 50);
    show(data, recv(fd, got, sizeof got, MSG_DONTWAIT));
    MUST(close(sender));
}

CASE(datagrams_are_judged_with_their_header)
{
    struct sockaddr_in name;
    int fd = bound(SOCK_DGRAM, &name);

    show("nothing to take away", detach(fd));
    show("drop all", ATTACH(fd, BPF_STMT(BPF_RET | BPF_K, 0)));
    try_send(fd, &name, "lost");
    show("take away", detach(fd));
    try_send(fd, &name, "found");
    show("those that begin with a", ATTACH(fd, BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 8),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 'a', 0, 1), BPF_STMT(BPF_RET | BPF_K, -1),
        BPF_STMT(BPF_RET | BPF_K, 0)));
    try_send(fd, &name, "apple");
    try_send(fd, &name, "pear");
    show("three bytes", ATTACH(fd, BPF_STMT(BPF_RET | BPF_K, 11)));
    try_send(fd, &name, "apple");
    show("less than the header", ATTACH(fd, BPF_STMT(BPF_RET | BPF_K, 1)));
    try_send(fd, &name, "apple");
    show("beyond the end", ATTACH(fd, BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 10), BPF_STMT(BPF_RET | BPF_K, -1)));
    try_send(fd, &name, "abc");
    try_send(fd, &name, "abcdef");
    show("by length", ATTACH(fd, BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0), BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 12, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0), BPF_STMT(BPF_RET | BPF_K, -1)));
    try_send(fd, &name, "abcd");
    try_send(fd, &name, "abcde");
}

CASE(what_is_known_of_a_packet)
{
    static const struct { const char *what; unsigned at, value; } all[] = {
        { "protocol", SKF_AD_OFF + SKF_AD_PROTOCOL, 0x0800 }, { "type", SKF_AD_OFF + SKF_AD_PKTTYPE, 0 },
        { "interface", SKF_AD_OFF + SKF_AD_IFINDEX, 1 }, { "hardware", SKF_AD_OFF + SKF_AD_HATYPE, 772 },
        { "mark", SKF_AD_OFF + SKF_AD_MARK, 0 }, { "payload", SKF_AD_OFF + SKF_AD_PAY_OFFSET, 8 },
    };
    struct sockaddr_in name;
    int fd = bound(SOCK_DGRAM, &name);

    for (size_t i = 0; i < COUNT_OF(all); i++) {
        show(all[i].what, ATTACH(fd, BPF_STMT(BPF_LD | BPF_W | BPF_ABS, all[i].at),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, all[i].value, 0, 1), BPF_STMT(BPF_RET | BPF_K, -1),
            BPF_STMT(BPF_RET | BPF_K, 0)));
        try_send(fd, &name, "x");
    }
    show("network header", ATTACH(fd, BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (unsigned)SKF_NET_OFF + 9),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 1), BPF_STMT(BPF_RET | BPF_K, -1),
        BPF_STMT(BPF_RET | BPF_K, 0)));
    try_send(fd, &name, "x");
}

CASE(programs_that_are_none)
{
    struct sockaddr_in name;
    int fd = bound(SOCK_DGRAM, &name);
    struct sock_fprog program = { 1, NULL };
    struct sock_filter end = BPF_STMT(BPF_RET | BPF_K, 0);

    show("no instructions", attach(fd, &end, 0));
    show("no pointer", setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    program.filter = (void *)8;
    show("bad pointer", setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    program.filter = &end;
    show("short", setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program - 1));
    show("no end", ATTACH(fd, BPF_STMT(BPF_LD | BPF_IMM, 0)));
    show("jump outside", ATTACH(fd, BPF_STMT(BPF_JMP | BPF_JA, 1), BPF_STMT(BPF_RET | BPF_K, 0)));
    show("division by nothing", ATTACH(fd, BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 0), BPF_STMT(BPF_RET | BPF_K, 0)));
    show("remainder", ATTACH(fd, BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, 3), BPF_STMT(BPF_RET | BPF_K, 0)));
    show("cell that was never written", ATTACH(fd, BPF_STMT(BPF_LD | BPF_MEM, 1), BPF_STMT(BPF_RET | BPF_K, 0)));
    show("unknown knowledge", ATTACH(fd, BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)SKF_AD_OFF + 200), BPF_STMT(BPF_RET | BPF_K, 0)));
    show("unknown instruction", ATTACH(fd, BPF_STMT(0xff, 0), BPF_STMT(BPF_RET | BPF_K, 0)));
}

CASE(locked_filters_stay)
{
    struct sockaddr_in name;
    int fd = bound(SOCK_DGRAM, &name), on = 1, off = 0, value = -1;
    socklen_t length = sizeof value;

    show("lock", setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &on, sizeof on));
    show("attach", ATTACH(fd, BPF_STMT(BPF_RET | BPF_K, 0)));
    show("detach", detach(fd));
    show("unlock", setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &off, sizeof off));
    show("lock again", setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &on, sizeof on));
    MUST(getsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &value, &length));
    number("locked", value);
}

CASE(a_filter_can_be_read)
{
    struct sockaddr_in name;
    int fd = bound(SOCK_DGRAM, &name);
    struct sock_filter code[4];
    socklen_t length = 0;

    show("none", getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, code, &length));
    number("instructions", length);
    MUST(ATTACH(fd, BPF_STMT(BPF_LD | BPF_IMM, 7), BPF_STMT(BPF_RET | BPF_A, 0)));
    length = 0;
    show("how many", getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, code, &length));
    number("instructions", length);
    length = 1;
    show("too little room", getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, code, &length));
    length = 4;
    show("all", getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, code, &length));
    number("instructions", length);
    number("first", code[0].k);
    number("second", code[1].code);
}

CASE(listeners_give_their_filters_on)
{
    struct sockaddr_in name;
    int fd = bound(SOCK_STREAM, &name), client, taken, on = 1;
    char data[8];
    struct pollfd entry = { .events = POLLIN };

    MUST(listen(fd, 4));
    /* Segments that carry the urgent flag of nobody pass; those with a byte 'z' in front do not. */
    show("attach", ATTACH(fd, BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 12), BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 4),
        BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, 4), BPF_STMT(BPF_MISC | BPF_TAX, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0), BPF_JUMP(BPF_JMP | BPF_JGT | BPF_X, 0, 0, 3),
        BPF_STMT(BPF_LD | BPF_B | BPF_IND, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 'z', 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0), BPF_STMT(BPF_RET | BPF_K, -1)));
    client = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
    MUST(connect(client, (struct sockaddr *)&name, sizeof name));
    taken = MUST(accept(fd, NULL, NULL));
    MUST(write(client, "abc", 3));
    show("passes", read(taken, data, sizeof data));
    MUST(write(client, "zzz", 3));
    entry.fd = taken;
    show("is dropped", poll(&entry, 1, 20));
    show("detach", detach(taken));
    show("comes again", poll(&entry, 1, 3000));
    show("read", read(taken, data, sizeof data));
}

CASE(messages_between_processes)
{
    int ends[2];
    char data[16];

    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends));
    show("attach", ATTACH(ends[1], BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 'a', 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 3), BPF_STMT(BPF_RET | BPF_K, 0)));
    show("send", send(ends[0], "apple", 5, 0));
    show("recv", recv(ends[1], data, sizeof data, MSG_DONTWAIT));
    show("send", send(ends[0], "pear", 4, 0));
    show("recv", recv(ends[1], data, sizeof data, MSG_DONTWAIT));
    show("detach", detach(ends[1]));
    show("detach again", detach(ends[1]));
    show("send", send(ends[0], "pear", 4, 0));
    show("recv", recv(ends[1], data, sizeof data, MSG_DONTWAIT));
}
