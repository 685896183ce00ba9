/*
 * Socket options that few programs use, as a matrix: each is read, set to 1 and
 * to 0, and read again, on sockets of each family.
 */
#include "case.h"

#include <netinet/in.h>
#include <sys/socket.h>

#ifndef SOL_NETLINK
#define SOL_NETLINK 270
#endif

struct option {
    const char *name;
    int level, number;
};

#define OF_SOCKET(name) { #name, SOL_SOCKET, name }

static const struct option common[] = {
    OF_SOCKET(SO_BSDCOMPAT),   OF_SOCKET(SO_WIFI_STATUS), OF_SOCKET(SO_NOFCS),    OF_SOCKET(SO_SELECT_ERR_QUEUE),
    OF_SOCKET(SO_TIMESTAMPNS), OF_SOCKET(SO_TIMESTAMP),   OF_SOCKET(SO_RXQ_OVFL), OF_SOCKET(SO_NO_CHECK),
    OF_SOCKET(SO_BROADCAST),   OF_SOCKET(SO_CNX_ADVICE),
};
static const struct option internet[] = {
    OF_SOCKET(SO_BPF_EXTENSIONS),
    OF_SOCKET(SO_INCOMING_NAPI_ID),
    OF_SOCKET(SO_PEERGROUPS),
    { "IP_PASSSEC", IPPROTO_IP, 18 },
    { "IP_CHECKSUM", IPPROTO_IP, 23 },
};
static const struct option netlink[] = {
    { "PKTINFO", SOL_NETLINK, 3 },    { "BROADCAST_ERROR", SOL_NETLINK, 4 }, { "NO_ENOBUFS", SOL_NETLINK, 5 },
    { "CAP_ACK", SOL_NETLINK, 10 },   { "EXT_ACK", SOL_NETLINK, 11 },        { "GET_STRICT_CHK", SOL_NETLINK, 12 },
    { "unknown", SOL_NETLINK, 99 },   OF_SOCKET(SO_REUSEADDR),               OF_SOCKET(SO_KEEPALIVE),
};

static void read_option(const char *what, int fd, const struct option *option)
{
    int value = -1;
    socklen_t length = sizeof value;
    long result = getsockopt(fd, option->level, option->number, &value, &length);

    if (result == 0)
        printf("%s: %d in %u bytes\n", what, value, length);
    else
        show(what, result);
}

static void matrix(int family, int type, const struct option *options, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int fd = MUST(socket(family, type, 0)), on = 1, off = 0;
        printf("%s\n", options[i].name);
        read_option("first", fd, &options[i]);
        show("set", setsockopt(fd, options[i].level, options[i].number, &on, sizeof on));
        read_option("then", fd, &options[i]);
        show("cleared", setsockopt(fd, options[i].level, options[i].number, &off, sizeof off));
        read_option("last", fd, &options[i]);
        show("short", setsockopt(fd, options[i].level, options[i].number, &on, 1));
        MUST(close(fd));
    }
}

CASE(tcp)
{
    matrix(AF_INET, SOCK_STREAM, common, COUNT_OF(common));
    matrix(AF_INET, SOCK_STREAM, internet, COUNT_OF(internet));
}

CASE(udp)
{
    matrix(AF_INET, SOCK_DGRAM, common, COUNT_OF(common));
    matrix(AF_INET6, SOCK_DGRAM, common, COUNT_OF(common));
    matrix(AF_INET, SOCK_DGRAM, internet, COUNT_OF(internet));
}

CASE(unix_family)
{
    matrix(AF_UNIX, SOCK_STREAM, common, COUNT_OF(common));
    matrix(AF_UNIX, SOCK_DGRAM, common, COUNT_OF(common));
}

CASE(netlink_family)
{
    matrix(AF_NETLINK, SOCK_RAW, netlink, COUNT_OF(netlink));
}

CASE(names_and_memory)
{
    int server = MUST(socket(AF_INET, SOCK_STREAM, 0)), client = MUST(socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) }, peer;
    socklen_t length = sizeof address;
    MUST(bind(server, (struct sockaddr *)&address, sizeof address));
    MUST(listen(server, 1));
    MUST(getsockname(server, (struct sockaddr *)&address, &length));
    show("peer of none", getsockopt(client, SOL_SOCKET, SO_PEERNAME, &peer, &length));
    MUST(connect(client, (struct sockaddr *)&address, sizeof address));
    show("peer", getsockopt(client, SOL_SOCKET, SO_PEERNAME, &peer, &length));
    truth("same name", length == sizeof peer && memcmp(&peer, &address, sizeof peer) == 0);
    unsigned memory[16];
    length = sizeof memory;
    show("memory", getsockopt(client, SOL_SOCKET, SO_MEMINFO, memory, &length));
    truth("at least nine numbers", length >= 36);
    truth("buffers", memory[0] == 0 && memory[1] > 2000 && memory[3] > 4000);
    int index = 1;
    show("bind to lo", setsockopt(client, SOL_SOCKET, SO_BINDTOIFINDEX, &index, sizeof index));
    index = -1;
    show("to a bad one", setsockopt(client, SOL_SOCKET, SO_BINDTOIFINDEX, &index, sizeof index));
    read_option("bound to", client, &(struct option){ "", SOL_SOCKET, SO_BINDTOIFINDEX });
    unsigned long long cookie = 0, again = 0;
    length = sizeof cookie;
    MUST(getsockopt(client, SOL_SOCKET, SO_COOKIE, &cookie, &length));
    MUST(getsockopt(client, SOL_SOCKET, SO_COOKIE, &again, &length));
    truth("cookie stays", cookie != 0 && cookie == again);
}
