/*
 * What tools see of sockets: the tables in /proc/net, sock_diag(7), counters
 * of interfaces and protocols. A socket is found by its inode; ports and
 * inodes themselves are never printed.
 */
#include "tcp.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <net/if.h>
#include <stddef.h>
#include <sys/un.h>

static unsigned long inode_of(int fd)
{
    struct stat status;

    MUST(fstat(fd, &status));
    return status.st_ino;
}

/* The line of a table whose given column (from 0) is this number; 0: there is none. */
static int find_line(const char *table, int column, unsigned long wanted, char *line, int size)
{
    char path[64], copy[1024];
    snprintf(path, sizeof path, "/proc/net/%s", table);
    FILE *file = fopen(path, "r");
    int found = 0;

    if (!file)
        case_give_up(path, errno);
    while (!found && fgets(line, size, file)) {
        snprintf(copy, sizeof copy, "%s", line);
        char *rest = copy, *field = NULL;
        for (int i = 0; i <= column; i++)
            field = strtok_r(i ? NULL : copy, " \n", &rest);
        found = field && strtoul(field, NULL, 10) == wanted;
    }
    fclose(file);
    return found;
}

/* Prints the columns of a line of tcp, udp and their like that are the same everywhere. */
static void show_row(const char *what, const char *table, int fd)
{
    char line[1024], local[64], remote[64];
    unsigned state, sent, unread, timer, uid;
    int length;

    if (!find_line(table, 9, inode_of(fd), line, sizeof line)) {
        printf("%s: no line\n", what);
        return;
    }
    length = strlen(line);
    int fields = sscanf(line, "%*d: %32[0-9A-F]:%*x %32[0-9A-F]:%*x %x %x:%x %x:%*x %*x %u", local, remote, &state, &sent,
                        &unread, &timer, &uid);
    printf("%s: %d %s %s state %02X queues %u %u timer %u\n", what, fields, local, remote, state, sent, unread, timer);
    truth("own user", uid == getuid());
    number("length", strchr(table, '6') ? 0 : length);
}

/* The first line of a table. */
static void show_title(const char *table)
{
    char path[64], line[512] = "";
    snprintf(path, sizeof path, "/proc/net/%s", table);
    FILE *file = fopen(path, "r");

    if (!file)
        case_give_up(path, errno);
    if (fgets(line, sizeof line, file))
        printf("%s|%s", table, line);
    fclose(file);
}

CASE(titles)
{
    const char *tables[] = { "tcp", "tcp6", "udp", "udp6", "raw", "raw6", "icmp", "icmp6", "unix", "dev", "route", "arp",
                             "packet", "netlink" };
    for (unsigned i = 0; i < COUNT_OF(tables); i++)
        show_title(tables[i]);
}

CASE(listener)
{
    server = new_listener(5);
    show_row("listener", "tcp", server);
    client = new_socket();
    MUST(try_connect(client, port_of(server)));
    await(server, POLLIN);
    show_row("one waits", "tcp", server);
}

CASE(connection)
{
    establish();
    show_row("client", "tcp", client);
    show_row("session", "tcp", session);
    MUST(send(session, "hello", 5, 0));
    await_unread(client, 5);
    show_row("five bytes unread", "tcp", client);
    MUST(shutdown(session, SHUT_WR));
    await(client, POLLRDHUP);
    show_row("end unread", "tcp", client);
    char data[16];
    MUST(recv(client, data, 5, 0));
    MUST(recv(client, data, 5, 0));
    show_row("end read", "tcp", client);
}

CASE(unbound_sockets_are_not_listed)
{
    int tcp = new_socket(), udp = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    show_row("tcp", "tcp", tcp);
    show_row("udp", "udp", udp);
    MUST(try_bind(tcp, 0));
    show_row("bound tcp", "tcp", tcp);
}

CASE(time_wait)
{
    establish();
    int port = port_of(client), found = 0;
    char line[1024];
    MUST(close(client));
    await(session, POLLIN);
    MUST(close(session));
    for (int tries = 0; tries < 100 && !found; tries++) {
        FILE *file = fopen("/proc/net/tcp", "r");
        while (fgets(line, sizeof line, file)) {
            unsigned own, state, timer, inode;
            if (sscanf(line, "%*d: %*x:%x %*x:%*x %x %*x:%*x %x:%*x %*x %*u %*u %u", &own, &state, &timer, &inode) == 4 &&
                (int)own == port && state == TCP_TIME_WAIT) {
                printf("timer %u inode %u length %zu\n", timer, inode, strlen(line));
                found = 1;
            }
        }
        fclose(file);
        sleep_ms(2);
    }
    truth("found", found);
}

CASE(sockets_of_both_families)
{
    int six = MUST(socket(AF_INET6, SOCK_STREAM, 0));
    struct sockaddr_in6 any = { .sin6_family = AF_INET6 };
    socklen_t length = sizeof any;
    MUST(bind(six, (struct sockaddr *)&any, sizeof any));
    MUST(listen(six, 4));
    MUST(getsockname(six, (struct sockaddr *)&any, &length));
    client = new_socket();
    MUST(try_connect(client, ntohs(any.sin6_port)));
    session = MUST(accept(six, NULL, NULL));
    show_row("listener", "tcp6", six);
    show_row("mapped", "tcp6", session);
    show_row("not here", "tcp", session);
    show_row("client", "tcp", client);
}

CASE(datagrams)
{
    int one = MUST(socket(AF_INET, SOCK_DGRAM, 0)), two = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    MUST(try_bind(one, 0));
    show_row("bound", "udp", one);
    MUST(try_connect(two, port_of(one)));
    show_row("connected", "udp", two);
    int six = MUST(socket(AF_INET6, SOCK_DGRAM, 0));
    struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    MUST(bind(six, (struct sockaddr *)&any, sizeof any));
    show_row("six", "udp6", six);
}

static void show_unix_row(const char *what, int fd)
{
    char line[1024], path[256] = "";
    unsigned references, flags, type, state;

    if (!find_line("unix", 6, inode_of(fd), line, sizeof line)) {
        printf("%s: no line\n", what);
        return;
    }
    int fields = sscanf(line, "%*[^:]: %x %*x %x %x %x %*u %255s", &references, &flags, &type, &state, path);
    printf("%s: %d references %u flags %x type %u state %u %s\n", what, fields, references, flags, type, state, path);
}

static int unix_named(int type, const char *name)
{
    int fd = MUST(socket(AF_UNIX, type, 0));
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t length = offsetof(struct sockaddr_un, sun_path) + strlen(name);

    memcpy(address.sun_path, name, strlen(name));
    if (name[0] == '@')
        address.sun_path[0] = 0;
    MUST(bind(fd, (struct sockaddr *)&address, length));
    return fd;
}

CASE(unix_sockets)
{
    scratch();
    int plain = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    show_unix_row("unnamed", plain);
    int listener = unix_named(SOCK_STREAM, "place");
    show_unix_row("bound", listener);
    MUST(listen(listener, 3));
    show_unix_row("listening", listener);
    struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "place" };
    MUST(connect(plain, (struct sockaddr *)&address, sizeof address));
    show_unix_row("connected", plain);
    int accepted = MUST(accept(listener, NULL, NULL));
    show_unix_row("accepted", accepted);
    int datagrams = unix_named(SOCK_DGRAM, "@gnomon-tables");
    show_unix_row("abstract", datagrams);
    int pair[2];
    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
    show_unix_row("pair", pair[0]);
}

CASE(descriptors_name_their_inode)
{
    char path[64], link[64] = "", expected[64];
    int fd = new_listener(1);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    MUST(readlink(path, link, sizeof link - 1));
    snprintf(expected, sizeof expected, "socket:[%lu]", inode_of(fd));
    truth("link", strcmp(link, expected) == 0);
    truth("fits 32 bits", inode_of(fd) <= 0xffffffffUL);
}

/* sock_diag: sends one request and collects the answer. */
static char answer[1 << 20];

static int ask(int protocol, void *request, unsigned size)
{
    int fd = MUST(socket(AF_NETLINK, SOCK_RAW, protocol)), total = 0;

    MUST(send(fd, request, size, 0));
    for (;;) {
        int got = MUST(recv(fd, answer + total, sizeof answer - total, 0));
        struct nlmsghdr *header = (struct nlmsghdr *)(answer + total);
        total += got;
        for (; NLMSG_OK(header, got); header = NLMSG_NEXT(header, got))
            if (header->nlmsg_type == NLMSG_DONE || header->nlmsg_type == NLMSG_ERROR || !(header->nlmsg_flags & NLM_F_MULTI)) {
                close(fd);
                return total;
            }
    }
}

struct inet_request {
    struct nlmsghdr header;
    struct inet_diag_req_v2 body;
};

static struct inet_request inet_request(int family, int protocol, int extensions)
{
    return (struct inet_request){
        .header = { .nlmsg_len = sizeof(struct inet_request),
                    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                    .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
                    .nlmsg_seq = 7 },
        .body = { .sdiag_family = family, .sdiag_protocol = protocol, .idiag_ext = extensions, .idiag_states = ~0u },
    };
}

/* The message about a socket in the answer. */
static struct nlmsghdr *message_about(int total, unsigned inode)
{
    struct nlmsghdr *header = (struct nlmsghdr *)answer;

    for (; NLMSG_OK(header, total); header = NLMSG_NEXT(header, total)) {
        struct inet_diag_msg *message = NLMSG_DATA(header);
        if (header->nlmsg_type == SOCK_DIAG_BY_FAMILY && message->idiag_inode == inode)
            return header;
    }
    return NULL;
}

/* An attribute of a message; its size, or -1. */
static int attribute(struct nlmsghdr *header, unsigned fixed, int kind, void **data)
{
    struct rtattr *entry = (struct rtattr *)((char *)NLMSG_DATA(header) + NLMSG_ALIGN(fixed));
    int left = header->nlmsg_len - NLMSG_LENGTH(NLMSG_ALIGN(fixed));

    for (; RTA_OK(entry, left); entry = RTA_NEXT(entry, left))
        if (entry->rta_type == kind) {
            *data = RTA_DATA(entry);
            return RTA_PAYLOAD(entry);
        }
    return -1;
}

static void show_diag(const char *what, int family, int protocol, int fd)
{
    struct inet_request request = inet_request(family, protocol, 0xff);
    struct nlmsghdr *header = message_about(ask(NETLINK_SOCK_DIAG, &request, sizeof request), inode_of(fd));
    void *data;

    if (!header) {
        printf("%s: none\n", what);
        return;
    }
    struct inet_diag_msg *message = NLMSG_DATA(header);
    printf("%s: family %u state %u queues %u %u timer %u\n", what, message->idiag_family, message->idiag_state,
           message->idiag_rqueue, message->idiag_wqueue, message->idiag_timer);
    truth("own user", message->idiag_uid == getuid());
    truth("own port", message->id.idiag_sport != 0 && (int)ntohs(message->id.idiag_sport) == port_of(fd));
    struct tcp_info info;
    int size = attribute(header, sizeof *message, INET_DIAG_INFO, &data);
    if (size > 0) {
        memcpy(&info, data, (size_t)size < sizeof info ? (size_t)size : sizeof info);
        printf("info state %u\n", info.tcpi_state);
    }
    if (attribute(header, sizeof *message, INET_DIAG_CONG, &data) > 0)
        truth("names its congestion control", strlen(data) > 0);
    printf("meminfo %d skmeminfo %d tos %d shutdown %d\n", attribute(header, sizeof *message, INET_DIAG_MEMINFO, &data),
           attribute(header, sizeof *message, INET_DIAG_SKMEMINFO, &data) >= 36,
           attribute(header, sizeof *message, INET_DIAG_TOS, &data),
           attribute(header, sizeof *message, INET_DIAG_SHUTDOWN, &data) == 1 ? *(unsigned char *)data : -1);
}

CASE(diag_of_tcp)
{
    establish();
    show_diag("listener", AF_INET, IPPROTO_TCP, server);
    show_diag("client", AF_INET, IPPROTO_TCP, client);
    MUST(send(session, "hello", 5, 0));
    await_unread(client, 5);
    show_diag("five bytes unread", AF_INET, IPPROTO_TCP, client);
    MUST(shutdown(client, SHUT_WR));
    await(session, POLLRDHUP);
    /* The FIN's acknowledgement may be delayed. */
    while (tcp_state(client) != TCP_FIN_WAIT2)
        sleep_ms(5);
    show_diag("half closed", AF_INET, IPPROTO_TCP, client);
    show_diag("other half", AF_INET, IPPROTO_TCP, session);
    show_diag("not of IPv6", AF_INET6, IPPROTO_TCP, client);
}

CASE(diag_of_udp)
{
    int one = MUST(socket(AF_INET, SOCK_DGRAM, 0)), two = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    MUST(try_bind(one, 0));
    MUST(try_connect(two, port_of(one)));
    show_diag("bound", AF_INET, IPPROTO_UDP, one);
    show_diag("connected", AF_INET, IPPROTO_UDP, two);
}

/* What a request that is no list is answered with: an errno, or the state. */
static void show_exact(const char *what, struct inet_request *request)
{
    ask(NETLINK_SOCK_DIAG, request, sizeof *request);
    struct nlmsghdr *header = (struct nlmsghdr *)answer;
    if (header->nlmsg_type == NLMSG_ERROR)
        show_error(what, -((struct nlmsgerr *)NLMSG_DATA(header))->error);
    else
        printf("%s: state %u\n", what, ((struct inet_diag_msg *)NLMSG_DATA(header))->idiag_state);
}

CASE(diag_of_one_socket)
{
    establish();
    struct inet_request request = inet_request(AF_INET, IPPROTO_TCP, 0);
    request.header.nlmsg_flags = NLM_F_REQUEST;
    request.body.id.idiag_sport = htons(port_of(client));
    request.body.id.idiag_dport = htons(port_of(server));
    request.body.id.idiag_src[0] = request.body.id.idiag_dst[0] = htonl(INADDR_LOOPBACK);
    memset(request.body.id.idiag_cookie, 0xff, sizeof request.body.id.idiag_cookie);
    show_exact("connection", &request);
    request.body.id.idiag_dport = htons(1);
    show_exact("other port", &request);
    request.body.sdiag_family = 99;
    show_exact("family 99", &request);
    request.body.sdiag_family = AF_IPX;
    show_exact("family without sockets", &request);
    request.body.sdiag_family = AF_INET;
    request.body.sdiag_protocol = 250;
    show_exact("protocol 250", &request);
    request.header.nlmsg_type = 77;
    show_exact("type 77", &request);
}

CASE(diag_of_states)
{
    establish();
    struct inet_request request = inet_request(AF_INET, IPPROTO_TCP, 0);
    request.body.idiag_states = 1 << TCP_LISTEN;
    int total = ask(NETLINK_SOCK_DIAG, &request, sizeof request);
    truth("listener is listed", message_about(total, inode_of(server)) != NULL);
    truth("client is not", message_about(total, inode_of(client)) == NULL);
    request.body.id.idiag_sport = htons(1);
    total = ask(NETLINK_SOCK_DIAG, &request, sizeof request);
    truth("none at port 1", message_about(total, inode_of(server)) == NULL);
}

struct unix_request {
    struct nlmsghdr header;
    struct unix_diag_req body;
};

static struct nlmsghdr *unix_diag(int fd)
{
    struct unix_request request = {
        .header = { .nlmsg_len = sizeof request, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
        .body = { .sdiag_family = AF_UNIX, .udiag_states = ~0u, .udiag_show = 0x3f },
    };
    int total = ask(NETLINK_SOCK_DIAG, &request, sizeof request);
    struct nlmsghdr *header = (struct nlmsghdr *)answer;

    for (; NLMSG_OK(header, total); header = NLMSG_NEXT(header, total)) {
        struct unix_diag_msg *message = NLMSG_DATA(header);
        if (header->nlmsg_type == SOCK_DIAG_BY_FAMILY && message->udiag_ino == inode_of(fd))
            return header;
    }
    return NULL;
}

static void show_unix_diag(const char *what, int fd, int peer)
{
    struct nlmsghdr *header = unix_diag(fd);
    void *data;

    if (!header) {
        printf("%s: none\n", what);
        return;
    }
    struct unix_diag_msg *message = NLMSG_DATA(header);
    printf("%s: type %u state %u\n", what, message->udiag_type, message->udiag_state);
    int size = attribute(header, sizeof *message, UNIX_DIAG_NAME, &data);
    if (size >= 0)
        bytes("name", data, size);
    truth("has a file", attribute(header, sizeof *message, UNIX_DIAG_VFS, &data) == 8);
    size = attribute(header, sizeof *message, UNIX_DIAG_PEER, &data);
    if (size == 4)
        truth("peer", peer != -1 && *(unsigned *)data == inode_of(peer));
    number("waiting", attribute(header, sizeof *message, UNIX_DIAG_ICONS, &data));
    if (attribute(header, sizeof *message, UNIX_DIAG_RQLEN, &data) == 8)
        printf("queues %u %u\n", ((unsigned *)data)[0], ((unsigned *)data)[1]);
    if (attribute(header, sizeof *message, UNIX_DIAG_SHUTDOWN, &data) == 1)
        number("shutdown", *(unsigned char *)data);
}

CASE(diag_of_unix_sockets)
{
    scratch();
    int listener = unix_named(SOCK_STREAM, "place"), one = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    MUST(listen(listener, 3));
    show_unix_diag("listening", listener, -1);
    struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "place" };
    MUST(connect(one, (struct sockaddr *)&address, sizeof address));
    show_unix_diag("one waits", listener, -1);
    int other = MUST(accept(listener, NULL, NULL));
    show_unix_diag("connected", one, other);
    MUST(shutdown(one, SHUT_WR));
    show_unix_diag("shut", one, other);
    show_unix_diag("abstract", unix_named(SOCK_DGRAM, "@gnomon-tables"), -1);
}

/* A number of /proc/net/snmp or netstat; -1: there is none. */
static long counter(const char *table, const char *group, const char *name)
{
    static char titles[8192], values[8192];
    char path[64];
    snprintf(path, sizeof path, "/proc/net/%s", table);
    FILE *file = fopen(path, "r");
    long found = -1;

    if (!file)
        case_give_up(path, errno);
    while (found == -1 && fgets(titles, sizeof titles, file) && fgets(values, sizeof values, file)) {
        if (strncmp(titles, group, strlen(group)) || titles[strlen(group)] != ':')
            continue;
        char *first, *second, *title = strtok_r(titles, " \n", &first), *value = strtok_r(values, " \n", &second);
        for (; title && value; title = strtok_r(NULL, " \n", &first), value = strtok_r(NULL, " \n", &second))
            if (!strcmp(title, name))
                found = atol(value);
    }
    fclose(file);
    return found;
}

CASE(counters_of_protocols)
{
    const char *names[][3] = {
        { "snmp", "Udp", "OutDatagrams" }, { "snmp", "Udp", "InDatagrams" }, { "snmp", "Udp", "NoPorts" },
        { "snmp", "Tcp", "ActiveOpens" },  { "snmp", "Tcp", "PassiveOpens" }, { "snmp", "Tcp", "InSegs" },
        { "snmp", "Tcp", "OutSegs" },      { "snmp", "Tcp", "OutRsts" },      { "snmp", "Tcp", "AttemptFails" },
        { "snmp", "Tcp", "EstabResets" },  { "snmp", "Icmp", "OutDestUnreachs" }, { "snmp", "Icmp", "InDestUnreachs" },
        { "snmp", "Ip", "InReceives" },    { "snmp", "Ip", "OutRequests" },   { "netstat", "IpExt", "InOctets" },
        { "netstat", "TcpExt", "TCPOrigDataSent" },
    };
    const long least[] = { 2, 1, 1, 2, 1, 6, 6, 2, 1, 1, 1, 1, 9, 9, 300, 1 };
    long before[COUNT_OF(names)];
    for (unsigned i = 0; i < COUNT_OF(names); i++)
        before[i] = counter(names[i][0], names[i][1], names[i][2]);

    int one = MUST(socket(AF_INET, SOCK_DGRAM, 0)), two = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    char data[16];
    MUST(try_bind(one, 0));
    MUST(try_connect(two, port_of(one)));
    MUST(send(two, "x", 1, 0));
    await(one, POLLIN);
    MUST(recv(one, data, sizeof data, 0));
    MUST(close(one));
    MUST(send(two, "x", 1, 0));
    await(two, POLLERR);
    establish();
    MUST(send(client, "hello", 5, 0));
    await_unread(session, 5);
    MUST(close(session)); /* unread: a reset */
    await(client, POLLHUP);
    show("connect", try_connect(new_socket(), quiet_port()));

    for (unsigned i = 0; i < COUNT_OF(names); i++) {
        long rise = counter(names[i][0], names[i][1], names[i][2]) - before[i];
        printf("%s: %s\n", names[i][2], before[i] < 0 ? "missing" : rise >= least[i] ? "counted" : "too few");
        if (before[i] >= 0 && rise < least[i])
            number("rise", rise);
    }
}

/* Packets and bytes that an interface has received. */
static void received(const char *name, long *packets, long *octets)
{
    char line[512];
    FILE *file = fopen("/proc/net/dev", "r");

    while (fgets(line, sizeof line, file)) {
        char *at = line;
        while (*at == ' ')
            at++;
        if (!strncmp(at, name, strlen(name)) && at[strlen(name)] == ':')
            sscanf(at + strlen(name) + 1, "%ld %ld", octets, packets);
    }
    fclose(file);
}

CASE(counters_of_interfaces)
{
    long packets[2], octets[2];
    char data[128] = { 0 };
    int one = MUST(socket(AF_INET, SOCK_DGRAM, 0)), two = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    MUST(try_bind(one, 0));
    MUST(try_connect(two, port_of(one)));
    received("lo", &packets[0], &octets[0]);
    MUST(send(two, data, 100, 0));
    await(one, POLLIN);
    received("lo", &packets[1], &octets[1]);
    truth("packet", packets[1] - packets[0] >= 1);
    truth("bytes", octets[1] - octets[0] >= 128);
    char path[128];
    int fd = MUST(open("/sys/class/net/lo/statistics/rx_bytes", O_RDONLY));
    ssize_t got = MUST(read(fd, path, sizeof path - 1));
    path[got] = 0;
    truth("sysfs", atol(path) >= octets[1]);
}

CASE(counters_over_netlink)
{
    struct {
        struct nlmsghdr header;
        struct ifinfomsg body;
    } request = {
        .header = { .nlmsg_len = sizeof request, .nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST },
        .body = { .ifi_index = 1 },
    };
    void *data;
    long packets = 0, octets = 0;
    received("lo", &packets, &octets);
    ask(NETLINK_ROUTE, &request, sizeof request);
    struct nlmsghdr *header = (struct nlmsghdr *)answer;
    number("type", header->nlmsg_type);
    int size = attribute(header, sizeof(struct ifinfomsg), IFLA_STATS64, &data);
    truth("64 bits", size >= 24 * 8);
    if (size > 0) {
        unsigned long long fields[24];
        memcpy(fields, data, sizeof fields);
        truth("packets", (long)fields[0] >= packets && fields[0] == fields[1]);
        truth("bytes", (long)fields[2] >= octets);
    }
    size = attribute(header, sizeof(struct ifinfomsg), IFLA_STATS, &data);
    truth("32 bits", size >= 23 * 4);
    truth("discipline", attribute(header, sizeof(struct ifinfomsg), IFLA_QDISC, &data) > 0);
}

CASE(sockets_in_use)
{
    char word[64];
    long before = -1, after = -1;
    for (int round = 0; round < 2; round++) {
        long *count = round ? &after : &before;
        FILE *file = fopen("/proc/net/sockstat", "r");
        MUST(fscanf(file, "sockets: used %ld", count) == 1 ? 0 : -1);
        while (fscanf(file, "%63s", word) == 1)
            if (!round && strchr(word, ':'))
                printf("%s\n", word);
        fclose(file);
        if (!round)
            for (int i = 0; i < 5; i++)
                new_socket();
    }
    truth("five more", after - before >= 5);
}

static long bind_port(int fd, unsigned port, socklen_t length)
{
    struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_pid = port };

    return bind(fd, (struct sockaddr *)&address, length);
}

static unsigned netlink_port(int fd)
{
    struct sockaddr_nl address = { 0 };
    socklen_t length = sizeof address;

    MUST(getsockname(fd, (struct sockaddr *)&address, &length));
    return address.nl_pid;
}

CASE(ports_of_netlink)
{
    struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
    struct sockaddr nobody = { .sa_family = AF_UNSPEC };
    socklen_t length = sizeof kernel;
    int first = MUST(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));
    show("bind to any", bind_port(first, 0, length));
    truth("it is the process", netlink_port(first) == (unsigned)getpid());
    show("bind to any again", bind_port(first, 0, length));
    show("bind to the same", bind_port(first, getpid(), length));
    show("bind to another", bind_port(first, 7777, length));
    int second = MUST(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));
    show("bind to a chosen one", bind_port(second, 7777, length));
    show("bind to any", bind_port(second, 0, length));
    int third = MUST(socket(AF_NETLINK, SOCK_DGRAM, NETLINK_ROUTE));
    show("bind with a short address", bind_port(third, 0, 8));
    show("connect", connect(third, (struct sockaddr *)&kernel, length));
    truth("it has a port", netlink_port(third) != 0);
    show("connect again", connect(third, (struct sockaddr *)&kernel, length));
    show("connect to nobody", connect(third, &nobody, sizeof nobody));
    show("bind to any", bind_port(third, 0, length));
    show("bind to its own", bind_port(third, netlink_port(third), length));
    int value;
    show("SIOCGSTAMP", ioctl(third, SIOCGSTAMP, &value));
    show("SIOCINQ", ioctl(third, SIOCINQ, &value));
}
