/*
 * Socket options that few programs use, as a matrix: each is read, set to 1 and
 * to 0, and read again, on sockets of each family. What some of them do.
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

/* Sends a descriptor; only Linux 6.16 and later ask whether anybody takes it. */
static long send_descriptor(int fd)
{
    char byte = 'x', control[CMSG_SPACE(sizeof(int))] = { 0 };
    struct iovec part = { &byte, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    return sendmsg(fd, &message, 0);
}

CASE(descriptors_that_nobody_takes)
{
    static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET };

    for (size_t i = 0; i < COUNT_OF(types); i++) {
        int pair[2], off = 0, on = 1;
        MUST(socketpair(AF_UNIX, types[i], 0, pair));
        show("switched off", setsockopt(pair[1], SOL_SOCKET, 83, &off, sizeof off));
        show("sent", send_descriptor(pair[0]));
        show("the other way", send_descriptor(pair[1]));
        show("switched on", setsockopt(pair[1], SOL_SOCKET, 83, &on, sizeof on));
        show("sent again", send_descriptor(pair[0]));
    }
}

CASE(sources_of_a_membership)
{
    int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    struct in_addr loopback = { htonl(INADDR_LOOPBACK) }, group = { htonl(0xe00000fb) }, other = { htonl(0x7f000002) };
    struct ip_mreq_source first = { group, loopback, loopback }, second = { group, loopback, other };
    char room[IP_MSFILTER_SIZE(4)];
    struct ip_msfilter *filter = (struct ip_msfilter *)room;

    for (int count = 0; count < 4; count++) {
        socklen_t length = sizeof room;
        memset(room, 0, sizeof room);
        filter->imsf_multiaddr = group;
        filter->imsf_interface = loopback;
        filter->imsf_numsrc = 4;
        show("filter", getsockopt(fd, IPPROTO_IP, IP_MSFILTER, filter, &length));
        printf("%u bytes, mode %u, %u sources, first ends in %d\n", length, filter->imsf_fmode, filter->imsf_numsrc,
               ntohl(filter->imsf_slist[0].s_addr) & 255);
        if (count == 0)
            show("first", setsockopt(fd, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &first, sizeof first));
        if (count == 1)
            show("second", setsockopt(fd, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &second, sizeof second));
        if (count == 2)
            show("first leaves", setsockopt(fd, IPPROTO_IP, IP_DROP_SOURCE_MEMBERSHIP, &first, sizeof first));
    }
}

/* Prints the control messages of a datagram that a socket of IPv6 sends to itself. */
static void hear_itself(int fd, const struct sockaddr_in6 *own)
{
    char byte, control[256];
    struct iovec part = { &byte, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };

    MUST(sendto(fd, "x", 1, 0, (const struct sockaddr *)own, sizeof *own));
    MUST(recvmsg(fd, &message, 0));
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
        int value;
        memcpy(&value, CMSG_DATA(header), sizeof value);
        /* Linux makes up a flow label. */
        if (header->cmsg_type == 11)
            value = ntohl(value) >> 20;
        printf("  level %d type %d, %zu bytes, %x\n", header->cmsg_level, header->cmsg_type,
               header->cmsg_len - CMSG_LEN(0), value);
    }
}

CASE(messages_of_rfc_2292)
{
    /* IPV6_2292PKTINFO, IPV6_2292HOPLIMIT. */
    static const int options[] = { 2, 8 };
    struct sockaddr_in6 own = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    socklen_t length = sizeof own;
    int fd = MUST(socket(AF_INET6, SOCK_DGRAM, 0)), on = 1, class = 0x28;

    MUST(bind(fd, (struct sockaddr *)&own, sizeof own));
    MUST(getsockname(fd, (struct sockaddr *)&own, &length));
    for (size_t i = 0; i < COUNT_OF(options); i++) {
        show("set", setsockopt(fd, IPPROTO_IPV6, options[i], &on, sizeof on));
        hear_itself(fd, &own);
    }
    MUST(setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &class, sizeof class));
    show("IPV6_FLOWINFO", setsockopt(fd, IPPROTO_IPV6, 11, &on, sizeof on));
    hear_itself(fd, &own);
}

CASE(locks_of_buffers)
{
    int fd = MUST(socket(AF_INET, SOCK_STREAM, 0)), size = 30000, none = 0;
    struct option locks = { "", SOL_SOCKET, 72 };

    read_option("at first", fd, &locks);
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size));
    read_option("with a receive buffer", fd, &locks);
    MUST(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size));
    read_option("with both", fd, &locks);
    show("unlocked", setsockopt(fd, SOL_SOCKET, 72, &none, sizeof none));
    read_option("at last", fd, &locks);
}
