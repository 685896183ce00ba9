/*
 * Control messages beside datagrams that are sent: what each asks for, where
 * it counts, and which are refused. Interfaces that sockets are bound to.
 *
 * Ports come from bind to port 0 and are never printed.
 */
#include "case.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define ROOM 256

struct out {
    union {
        char bytes[ROOM];
        struct cmsghdr aligned;
    };
    size_t length;
};

static void add(struct out *out, int level, int type, const void *data, size_t length)
{
    struct cmsghdr *entry = (struct cmsghdr *)(out->bytes + out->length);

    memset(entry, 0, CMSG_SPACE(length));
    entry->cmsg_level = level;
    entry->cmsg_type = type;
    entry->cmsg_len = CMSG_LEN(length);
    memcpy(CMSG_DATA(entry), data, length);
    out->length += CMSG_SPACE(length);
}

static void add_int(struct out *out, int level, int type, int value)
{
    add(out, level, type, &value, sizeof value);
}

static struct sockaddr_in v4(const char *text, int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };

    inet_pton(AF_INET, text, &address.sin_addr);
    return address;
}

static struct sockaddr_in6 v6(const char *text, int port)
{
    struct sockaddr_in6 address = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

    inet_pton(AF_INET6, text, &address.sin6_addr);
    return address;
}

static int port_of(int fd)
{
    struct sockaddr_in6 address;
    socklen_t length = sizeof address;

    MUST(getsockname(fd, (struct sockaddr *)&address, &length));
    return ntohs(address.sin6_port);
}

static int receiver4(void)
{
    struct sockaddr_in any = v4("0.0.0.0", 0);
    int on = 1, fd = MUST(socket(AF_INET, SOCK_DGRAM, 0));

    MUST(bind(fd, (struct sockaddr *)&any, sizeof any));
    MUST(setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof on));
    MUST(setsockopt(fd, IPPROTO_IP, IP_RECVTTL, &on, sizeof on));
    MUST(setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on));
    return fd;
}

static int receiver6(void)
{
    struct sockaddr_in6 any = v6("::", 0);
    int on = 1, fd = MUST(socket(AF_INET6, SOCK_DGRAM, 0));

    MUST(bind(fd, (struct sockaddr *)&any, sizeof any));
    MUST(setsockopt(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof on));
    MUST(setsockopt(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, &on, sizeof on));
    MUST(setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof on));
    MUST(setsockopt(fd, IPPROTO_IP, IP_RECVTTL, &on, sizeof on));
    return fd;
}

static long send_with(int fd, const void *to, socklen_t length, struct out *out)
{
    struct iovec vector = { "x", 1 };
    struct msghdr message = {
        .msg_name = (void *)to,
        .msg_namelen = length,
        .msg_iov = &vector,
        .msg_iovlen = 1,
        .msg_control = out->length ? out->bytes : NULL,
        .msg_controllen = out->length,
    };

    return sendmsg(fd, &message, 0);
}

static void print_addresses(const struct sockaddr_storage *from, const struct cmsghdr *entry)
{
    char text[INET6_ADDRSTRLEN] = "";
    struct in_pktinfo info;

    if (from->ss_family == AF_INET)
        inet_ntop(AF_INET, &((struct sockaddr_in *)from)->sin_addr, text, sizeof text);
    else
        inet_ntop(AF_INET6, &((struct sockaddr_in6 *)from)->sin6_addr, text, sizeof text);
    printf(" from %s", text);
    if (entry) {
        memcpy(&info, CMSG_DATA(entry), sizeof info);
        inet_ntop(AF_INET, &info.ipi_addr, text, sizeof text);
        printf(" to %s by %d", text, info.ipi_ifindex);
    }
}

/* What came with the next datagram. */
static void show_received(int fd)
{
    char data[64];
    union {
        char bytes[ROOM];
        struct cmsghdr aligned;
    } control;
    struct sockaddr_storage from;
    struct iovec vector = { data, sizeof data };
    struct msghdr message = { .msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &vector,
        .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control };
    struct pollfd entry = { .fd = fd, .events = POLLIN };
    struct cmsghdr *info = NULL;

    if (poll(&entry, 1, 200) != 1 || recvmsg(fd, &message, MSG_DONTWAIT) == -1) {
        printf("    nothing came\n");
        return;
    }
    printf("   ");
    for (struct cmsghdr *at = CMSG_FIRSTHDR(&message); at; at = CMSG_NXTHDR(&message, at)) {
        int value = *CMSG_DATA(at);

        if (at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_TOS)
            printf(" tos %d", value);
        else if (at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_TTL)
            printf(" ttl %d", value);
        else if (at->cmsg_level == IPPROTO_IPV6 && at->cmsg_type == IPV6_TCLASS)
            printf(" class %d", value);
        else if (at->cmsg_level == IPPROTO_IPV6 && at->cmsg_type == IPV6_HOPLIMIT)
            printf(" hops %d", value);
        else if (at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_PKTINFO)
            info = at;
        else
            printf(" level %d type %d", at->cmsg_level, at->cmsg_type);
    }
    print_addresses(&from, info);
    putchar('\n');
}

static void try4(const char *what, int fd, int receiver, struct out *out)
{
    struct sockaddr_in to = v4("127.0.0.1", port_of(receiver));

    if (show(what, send_with(fd, &to, sizeof to, out)) != -1)
        show_received(receiver);
}

static void try6(const char *what, const char *address, int fd, int receiver, struct out *out)
{
    struct sockaddr_in6 to = v6(address, port_of(receiver));

    if (show(what, send_with(fd, &to, sizeof to, out)) != -1)
        show_received(receiver);
}

CASE(tos_and_ttl_of_one_datagram)
{
    int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0)), receiver = receiver4(), tos = 0x20, ttl = 9;
    unsigned char byte = 1;
    struct out out = { .length = 0 };

    try4("none", fd, receiver, &out);
    add_int(&out, IPPROTO_IP, IP_TOS, 2);
    try4("tos", fd, receiver, &out);
    add_int(&out, IPPROTO_IP, IP_TTL, 42);
    try4("tos, ttl", fd, receiver, &out);
    out.length = 0;
    add(&out, IPPROTO_IP, IP_TOS, &byte, 1);
    try4("tos as a byte", fd, receiver, &out);
    MUST(setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof tos));
    MUST(setsockopt(fd, IPPROTO_IP, IP_TTL, &ttl, sizeof ttl));
    try4("instead of the socket's", fd, receiver, &out);
    out.length = 0;
    try4("none", fd, receiver, &out);
}

CASE(class_and_hops_of_one_datagram)
{
    int fd = MUST(socket(AF_INET6, SOCK_DGRAM, 0)), receiver = receiver6();
    struct out out = { .length = 0 };

    add_int(&out, IPPROTO_IPV6, IPV6_TCLASS, 3);
    add_int(&out, IPPROTO_IPV6, IPV6_HOPLIMIT, 17);
    try6("to ::1", "::1", fd, receiver, &out);
    try6("to IPv4, for which they are nothing", "::ffff:127.0.0.1", fd, receiver, &out);
    out.length = 0;
    add_int(&out, IPPROTO_IP, IP_TOS, 1);
    add_int(&out, IPPROTO_IP, IP_TTL, 18);
    try6("IPv4's to ::1", "::1", fd, receiver, &out);
    try6("IPv4's to IPv4", "::ffff:127.0.0.1", fd, receiver, &out);
    out.length = 0;
    /* A class of -1 is left out: some kernels send 255. */
    add_int(&out, IPPROTO_IPV6, IPV6_HOPLIMIT, -1);
    try6("the socket's own", "::1", fd, receiver, &out);
}

CASE(the_source_of_one_datagram)
{
    int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0)), receiver = receiver4();
    struct { const char *address; int index; } tries[] = { { "127.0.0.5", 0 }, { "127.0.0.5", 1 },
        { "0.0.0.0", 1 }, { "0.0.0.0", 0 }, { "192.0.2.9", 0 }, { "255.255.255.255", 0 },
        { "127.0.0.1", 12345 } };

    for (size_t i = 0; i < COUNT_OF(tries); i++) {
        struct in_pktinfo info = { .ipi_ifindex = tries[i].index };
        struct out out = { .length = 0 };

        inet_pton(AF_INET, tries[i].address, &info.ipi_spec_dst);
        add(&out, IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
        try4(tries[i].address, fd, receiver, &out);
    }
    /* A bound address gives way, too. */
    struct sockaddr_in bound = v4("127.0.0.7", 0);
    struct in_pktinfo info = { .ipi_ifindex = 0 };
    struct out out = { .length = 0 };
    int other = MUST(socket(AF_INET, SOCK_DGRAM, 0));

    MUST(bind(other, (struct sockaddr *)&bound, sizeof bound));
    try4("bound", other, receiver, &out);
    add(&out, IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
    try4("bound, by the route", other, receiver, &out);
}

CASE(the_source_of_one_datagram_of_ipv6)
{
    int fd = MUST(socket(AF_INET6, SOCK_DGRAM, 0)), receiver = receiver6();
    struct { const char *source, *to; int index; } tries[] = { { "::1", "::1", 0 }, { "::1", "::1", 1 },
        { "::", "::1", 0 }, { "2001:db8::9", "::1", 0 }, { "::1", "::1", 12345 }, { "fe80::1", "::1", 0 },
        { "::ffff:127.0.0.6", "::ffff:127.0.0.1", 0 }, { "::1", "::ffff:127.0.0.1", 0 },
        { "::ffff:127.0.0.6", "::1", 0 } };

    for (size_t i = 0; i < COUNT_OF(tries); i++) {
        struct in6_pktinfo info = { .ipi6_ifindex = tries[i].index };
        struct out out = { .length = 0 };

        inet_pton(AF_INET6, tries[i].source, &info.ipi6_addr);
        add(&out, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof info);
        printf("to %s, ", tries[i].to);
        try6(tries[i].source, tries[i].to, fd, receiver, &out);
    }
}

CASE(an_answer_leaves_from_where_it_was_asked)
{
    int server = receiver4(), client = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    struct sockaddr_in to = v4("127.0.0.5", port_of(server)), from;
    char data[8], room[ROOM];
    struct iovec vector = { data, sizeof data };
    struct msghdr message = { .msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &vector,
        .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room };

    MUST(connect(client, (struct sockaddr *)&to, sizeof to));
    MUST(send(client, "ask", 3, 0));
    MUST(recvmsg(server, &message, 0));
    for (struct cmsghdr *at = CMSG_FIRSTHDR(&message); at; at = CMSG_NXTHDR(&message, at)) {
        struct out out = { .length = 0 };

        if (at->cmsg_type != IP_PKTINFO)
            continue;
        add(&out, IPPROTO_IP, IP_PKTINFO, CMSG_DATA(at), sizeof(struct in_pktinfo));
        show("answer", send_with(server, &from, sizeof from, &out));
    }
    show("recv", recv(client, data, sizeof data, 0));
}

CASE(what_is_refused)
{
    static const struct { int level, type, length, value; } tries[] = {
        { IPPROTO_IP, IP_TTL, 4, 0 }, { IPPROTO_IP, IP_TTL, 4, 256 }, { IPPROTO_IP, IP_TTL, 1, 5 },
        { IPPROTO_IP, IP_TOS, 4, 256 }, { IPPROTO_IP, IP_TOS, 4, -1 }, { IPPROTO_IP, IP_TOS, 2, 1 },
        { IPPROTO_IP, IP_PKTINFO, 11, 0 }, { IPPROTO_IP, IP_PKTINFO, 13, 0 }, { IPPROTO_IP, 99, 4, 0 },
        { IPPROTO_IPV6, IPV6_TCLASS, 4, 256 }, { IPPROTO_IPV6, IPV6_TCLASS, 4, -2 },
        { IPPROTO_IPV6, IPV6_HOPLIMIT, 4, 256 }, { IPPROTO_IPV6, IPV6_HOPLIMIT, 1, 1 },
        { IPPROTO_IPV6, IPV6_DONTFRAG, 4, 2 }, { IPPROTO_IPV6, IPV6_DONTFRAG, 4, 1 },
        { IPPROTO_IPV6, IPV6_PKTINFO, 19, 0 }, { IPPROTO_IPV6, 99, 4, 0 },
        { IPPROTO_UDP, UDP_SEGMENT, 4, 100 }, { IPPROTO_UDP, UDP_SEGMENT, 2, 100 }, { IPPROTO_UDP, 1, 2, 0 },
        { SOL_SOCKET, SO_PRIORITY, 4, 3 }, { SOL_SOCKET, SCM_RIGHTS, 4, 0 }, { SOL_SOCKET, 99, 4, 0 },
        { SOL_SOCKET, SO_TIMESTAMPING, 4, 0x4000 }, { IPPROTO_TCP, 1, 4, 0 }, { 12345, 1, 4, 0 },
    };
    int four = MUST(socket(AF_INET, SOCK_DGRAM, 0)), six = MUST(socket(AF_INET6, SOCK_DGRAM, 0));
    struct sockaddr_in to4 = v4("127.0.0.1", port_of(receiver4()));
    struct sockaddr_in6 to6 = v6("::1", port_of(receiver6()));

    for (size_t i = 0; i < COUNT_OF(tries); i++) {
        char data[32] = { 0 };
        struct out out = { .length = 0 };

        memcpy(data, &tries[i].value, sizeof tries[i].value);
        add(&out, tries[i].level, tries[i].type, data, tries[i].length);
        printf("level %d type %d, %d bytes, %d\n", tries[i].level, tries[i].type, tries[i].length, tries[i].value);
        show("  IPv4", send_with(four, &to4, sizeof to4, &out));
        show("  IPv6", send_with(six, &to6, sizeof to6, &out));
    }
}

CASE(messages_that_do_not_fit)
{
    int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    struct sockaddr_in to = v4("127.0.0.1", port_of(receiver4()));

    for (size_t length = 0; length < 40; length += 13) {
        struct out out = { .length = 0 };

        add_int(&out, 12345, 1, 0);
        out.aligned.cmsg_len = length;
        show("sendmsg", send_with(fd, &to, sizeof to, &out));
    }
}

CASE(corked_datagrams_go_as_their_first_part_said)
{
    int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0)), receiver = receiver4();
    struct sockaddr_in to = v4("127.0.0.1", port_of(receiver));
    struct out out = { .length = 0 };
    struct iovec vector = { "a", 1 };
    struct msghdr message = { .msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &vector, .msg_iovlen = 1 };

    add_int(&out, IPPROTO_IP, IP_TOS, 5);
    message.msg_control = out.bytes;
    message.msg_controllen = out.length;
    show("first", sendmsg(fd, &message, MSG_MORE));
    out.length = 0;
    add_int(&out, IPPROTO_IP, IP_TOS, 6);
    show("second", sendmsg(fd, &message, 0));
    show_received(receiver);
}

CASE(many_datagrams_with_messages_of_their_own)
{
    int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0)), receiver = receiver4();
    struct sockaddr_in to = v4("127.0.0.1", port_of(receiver));
    struct out outs[3];
    struct iovec vector = { "a", 1 };
    struct mmsghdr messages[3];

    memset(messages, 0, sizeof messages);
    for (int i = 0; i < 3; i++) {
        outs[i].length = 0;
        add_int(&outs[i], IPPROTO_IP, IP_TOS, i == 2 ? 300 : i + 1);
        messages[i].msg_hdr = (struct msghdr){ .msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &vector,
            .msg_iovlen = 1, .msg_control = outs[i].bytes, .msg_controllen = outs[i].length };
    }
    show("sendmmsg", sendmmsg(fd, messages, 3, 0));
    show_received(receiver);
    show_received(receiver);
    show_received(receiver);
}

CASE(sockets_of_one_device)
{
    int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0)), receiver = receiver4();
    struct sockaddr_in to = v4("127.0.0.1", port_of(receiver));
    char name[IFNAMSIZ] = "";
    socklen_t length = sizeof name;
    struct out out = { .length = 0 };

    show("no such device", setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "none9", 6));
    show("lo", setsockopt(receiver, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3));
    show("name", getsockopt(receiver, SOL_SOCKET, SO_BINDTODEVICE, name, &length));
    text("name", name);
    show("send", send_with(fd, &to, sizeof to, &out));
    show_received(receiver);
}

CASE(neighbours)
{
    struct arpreq request = { .arp_pa = { .sa_family = AF_INET }, .arp_dev = "lo" };
    int udp = MUST(socket(AF_INET, SOCK_DGRAM, 0)), tcp = MUST(socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in *asked = (struct sockaddr_in *)&request.arp_pa;

    inet_pton(AF_INET, "192.0.2.77", &asked->sin_addr);
    show("of lo", ioctl(udp, SIOCGARP, &request));
    show("by TCP", ioctl(tcp, SIOCGARP, &request));
    show("of IPv6", ioctl(MUST(socket(AF_INET6, SOCK_DGRAM, 0)), SIOCGARP, &request));
    show("of Unix", ioctl(MUST(socket(AF_UNIX, SOCK_DGRAM, 0)), SIOCGARP, &request));
    strcpy(request.arp_dev, "none9");
    show("of no device", ioctl(udp, SIOCGARP, &request));
    request.arp_dev[0] = 0;
    show("without a device", ioctl(udp, SIOCGARP, &request));
    request.arp_pa.sa_family = AF_INET6;
    show("another family", ioctl(udp, SIOCGARP, &request));
    show("a bad address", ioctl(udp, SIOCGARP, (void *)8));
}

CASE(raw_packets)
{
    int sender = MUST(socket(AF_INET, SOCK_RAW, IPPROTO_UDP)), receiver = MUST(socket(AF_INET, SOCK_RAW, IPPROTO_UDP));
    struct sockaddr_in to = v4("127.0.0.1", 0), name;
    socklen_t length = sizeof name;
    unsigned char data[128], *header = data;
    struct out out = { .length = 0 };
    struct iovec vector = { "12345678", 8 };
    struct msghdr message = { .msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &vector, .msg_iovlen = 1 };

    MUST(bind(receiver, (struct sockaddr *)&to, sizeof to));
    MUST(getsockname(receiver, (struct sockaddr *)&name, &length));
    number("protocol as port", ntohs(name.sin_port));
    add_int(&out, IPPROTO_IP, IP_TTL, 43);
    add_int(&out, IPPROTO_IP, IP_TOS, 9);
    message.msg_control = out.bytes;
    message.msg_controllen = out.length;
    show("sendmsg", sendmsg(sender, &message, 0));
    show("recv", recv(receiver, data, sizeof data, 0));
    number("ttl", header[8]);
    number("tos", header[1]);
    MUST(connect(sender, (struct sockaddr *)&to, sizeof to));
    MUST(shutdown(sender, SHUT_WR));
    show("write when shut", write(sender, "12345678", 8));
    struct sockaddr_in6 other = v6("::1", 0);
    show("bind to another family", bind(MUST(socket(AF_INET, SOCK_RAW, IPPROTO_UDP)), (struct sockaddr *)&other, sizeof other));
    show("connect to another family", connect(sender, (struct sockaddr *)&other, sizeof other));
}

CASE(raw_packets_of_ipv6)
{
    int icmp = MUST(socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6)), udp = MUST(socket(AF_INET6, SOCK_RAW, IPPROTO_UDP));
    int value = -7;
    socklen_t length = sizeof value;
    struct icmp6_filter filter;
    struct sockaddr_in6 to = v6("::1", 0);
    unsigned char data[64] = { 0 };

    show("checksum of ICMPv6", getsockopt(icmp, IPPROTO_IPV6, IPV6_CHECKSUM, &value, &length));
    number("at", value);
    value = 2;
    show("set", setsockopt(icmp, IPPROTO_IPV6, IPV6_CHECKSUM, &value, sizeof value));
    show("set as raw", setsockopt(icmp, SOL_RAW, IPV6_CHECKSUM, &value, sizeof value));
    length = sizeof value;
    show("checksum of UDP", getsockopt(udp, IPPROTO_IPV6, IPV6_CHECKSUM, &value, &length));
    number("at", value);
    value = 5;
    show("odd", setsockopt(udp, IPPROTO_IPV6, IPV6_CHECKSUM, &value, sizeof value));
    value = 6;
    show("even", setsockopt(udp, IPPROTO_IPV6, IPV6_CHECKSUM, &value, sizeof value));
    length = sizeof filter;
    show("filter", getsockopt(icmp, IPPROTO_ICMPV6, ICMP6_FILTER, &filter, &length));
    number("its length", length);
    to.sin6_port = htons(9);
    show("another protocol as port", sendto(udp, data, 16, 0, (struct sockaddr *)&to, sizeof to));
    to.sin6_port = htons(IPPROTO_UDP);
    data[5] = 8;
    show("its own", sendto(udp, data, 8, 0, (struct sockaddr *)&to, sizeof to));
    show("too short for a checksum", sendto(udp, data, 7, 0, (struct sockaddr *)&to, sizeof to));
    show("recv", recv(udp, data, sizeof data, MSG_DONTWAIT));
    truth("has a checksum", data[6] || data[7]);
}
