/*
 * Calls getsockopt and setsockopt with every option of every level on sockets of
 * every kind, with lengths and addresses of every kind, and prints what they
 * return. Natively it wants a network namespace of its own.
 *
 *     sweep get|zero|one|minus|large|structures [user]
 *
 * A line is one option of one socket: for each kind of address, each result where
 * it differs from the one of the length before. What a socket shows after a value
 * was set follows in brackets.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define SOL_NETLINK 270
/* No program has memory there. */
#define NOWHERE ((void *)8)
#define ROOM 64

static void die(const char *what)
{
    perror(what);
    exit(2);
}

#define CHECK(call) ((call) < 0 ? die(#call) : (void)0)

enum state { FRESH, BOUND, LISTENING, CONNECTED };

struct kind {
    const char *name;
    int family, type, protocol;
    enum state state;
};

static const struct kind kinds[] = {
    { "tcp", AF_INET, SOCK_STREAM, 0, FRESH },
    { "tcp6", AF_INET6, SOCK_STREAM, 0, FRESH },
    { "tcp-listening", AF_INET, SOCK_STREAM, 0, LISTENING },
    { "tcp-connected", AF_INET, SOCK_STREAM, 0, CONNECTED },
    { "tcp6-connected", AF_INET6, SOCK_STREAM, 0, CONNECTED },
    { "udp", AF_INET, SOCK_DGRAM, 0, FRESH },
    { "udp6", AF_INET6, SOCK_DGRAM, 0, FRESH },
    { "udp-bound", AF_INET, SOCK_DGRAM, 0, BOUND },
    { "udp6-connected", AF_INET6, SOCK_DGRAM, 0, CONNECTED },
    { "unix", AF_UNIX, SOCK_STREAM, 0, FRESH },
    { "unix-connected", AF_UNIX, SOCK_STREAM, 0, CONNECTED },
    { "unix-datagram", AF_UNIX, SOCK_DGRAM, 0, FRESH },
    { "unix-messages", AF_UNIX, SOCK_SEQPACKET, 0, FRESH },
    { "netlink", AF_NETLINK, SOCK_RAW, NETLINK_ROUTE, FRESH },
    { "ping", AF_INET, SOCK_DGRAM, IPPROTO_ICMP, FRESH },
    { "ping6", AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6, FRESH },
    { "raw", AF_INET, SOCK_RAW, IPPROTO_UDP, FRESH },
    { "raw-icmp", AF_INET, SOCK_RAW, IPPROTO_ICMP, FRESH },
    { "raw6", AF_INET6, SOCK_RAW, IPPROTO_UDP, FRESH },
    { "raw6-icmp", AF_INET6, SOCK_RAW, IPPROTO_ICMPV6, FRESH },
};

/* Options from 0 on, below `end`. 6 is the level of a protocol that only some have. */
static const struct {
    int level, end;
} levels[] = {
    { SOL_SOCKET, 90 }, { SOL_IP, 60 },     { SOL_IPV6, 85 },   { SOL_TCP, 50 }, { IPPROTO_UDP, 110 },
    { SOL_RAW, 5 },     { SOL_ICMPV6, 3 }, { SOL_NETLINK, 14 }, { 1234, 3 },     { -1, 2 },
};

static const int lengths[] = { -1, 0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 32, 40, ROOM };

/* What differs from run to run, or is about the machine. */
static int is_private(const struct kind *kind, int level, int option)
{
    if (level == SOL_SOCKET)
        /* Cookies; ports; the processor that a packet came by; descriptors. Sizes of buffers follow from the memory that a machine has. */
        return option == SO_COOKIE || option == 71 || option == 77 || option == SO_PEERCRED ||
               (option == SO_PEERNAME && kind->state == CONNECTED) ||
               (kind->state == CONNECTED && kind->type == SOCK_STREAM && kind->family != AF_UNIX &&
                (option == SO_INCOMING_CPU || option == SO_MEMINFO || option == SO_SNDBUF || option == SO_RCVBUF || option == 56));
    if (level == SOL_TCP)
        /* Clocks, and what follows from the sizes of buffers. */
        return option == TCP_TIMESTAMP || option == TCP_INFO ||
               ((option == TCP_WINDOW_CLAMP || option == TCP_MAXSEG) && kind->state == CONNECTED);
    /* Ports. */
    return level == SOL_IP && option == 52 && kind->state != FRESH;
}

static int open_kind(const struct kind *kind)
{
    int fd = socket(kind->family, kind->type, kind->protocol), pair[2];
    struct sockaddr_in v4 = { AF_INET, 0, { htonl(INADDR_LOOPBACK) }, { 0 } };
    struct sockaddr_in6 v6 = { AF_INET6, 0, 0, IN6ADDR_LOOPBACK_INIT, 0 };
    struct sockaddr *name = kind->family == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
    socklen_t length = kind->family == AF_INET ? sizeof v4 : sizeof v6;

    if (fd < 0 || kind->state == FRESH)
        return fd;
    if (kind->family == AF_UNIX) {
        CHECK(socketpair(AF_UNIX, kind->type, 0, pair));
        return pair[0];
    }
    CHECK(bind(fd, name, length));
    if (kind->state == BOUND)
        return fd;
    if (kind->type == SOCK_STREAM)
        CHECK(listen(fd, 5));
    if (kind->state == LISTENING)
        return fd;
    CHECK(getsockname(fd, name, &length));
    int client = socket(kind->family, kind->type, kind->protocol);
    CHECK(client);
    CHECK(connect(client, name, length));
    if (kind->type == SOCK_STREAM)
        CHECK(accept(fd, NULL, NULL));
    return client;
}

static void show_bytes(const unsigned char *bytes, socklen_t length)
{
    while (length > 0 && bytes[length - 1] == 0)
        length--;
    for (socklen_t at = 0; at < length; at++)
        printf("%02x", bytes[at]);
}

static char last[4 * ROOM];

/* Prints a result where it is not the one of the length before. */
static void report(int length, const char *result)
{
    if (!strcmp(last, result))
        return;
    snprintf(last, sizeof last, "%s", result);
    printf(" %d:%s", length, result);
}

static void read_option(const struct kind *kind, int fd, int level, int option)
{
    static const char *const addresses[] = { "", " value-nowhere", " length-nowhere" };

    for (int bad = 0; bad < 3; bad++) {
        printf("%s", addresses[bad]);
        last[0] = 0;
        for (size_t i = 0; i < COUNT_OF(lengths); i++) {
            unsigned char bytes[ROOM + 8];
            char text[4 * ROOM];
            socklen_t length = lengths[i];
            memset(bytes, 0xee, sizeof bytes);
            errno = 0;
            long result = syscall(SYS_getsockopt, fd, level, option, bad == 1 ? NOWHERE : bytes, bad == 2 ? NOWHERE : &length);
            int at = snprintf(text, sizeof text, "%s", result < 0 ? strerrorname_np(errno) : "ok");
            if (!bad && result == 0) {
                /* Its length, where it is not the room, and what it is. */
                int whole = length <= ROOM ? (int)length : ROOM;
                at += snprintf(text + at, sizeof text - at, whole == lengths[i] ? "" : "/%d", whole);
                if (!is_private(kind, level, option)) {
                    at += snprintf(text + at, sizeof text - at, "=");
                    int shown = whole;
                    while (shown > 0 && bytes[shown - 1] == 0)
                        shown--;
                    for (int place = 0; place < shown && at < (int)sizeof text - 3; place++)
                        at += snprintf(text + at, sizeof text - at, "%02x", bytes[place]);
                    if (bytes[whole] != 0xee)
                        snprintf(text + at, sizeof text - at, "!");
                }
            }
            report(lengths[i], text);
        }
    }
}

/* What an option shows in eight bytes. */
static void show_after(const struct kind *kind, int fd, int level, int option)
{
    unsigned char bytes[8];
    socklen_t length = sizeof bytes;
    long result = getsockopt(fd, level, option, bytes, &length);

    printf(" [");
    if (result < 0)
        printf("%s", strerrorname_np(errno));
    else if (!is_private(kind, level, option))
        show_bytes(bytes, length);
    printf("]");
}

static void set_option(const struct kind *kind, int fd, int level, int option, const unsigned char *value)
{
    static const char *const addresses[] = { "", " value-nowhere" };

    for (int bad = 0; bad < 2; bad++) {
        printf("%s", addresses[bad]);
        last[0] = 0;
        for (size_t i = 0; i < COUNT_OF(lengths); i++) {
            errno = 0;
            long result = syscall(SYS_setsockopt, fd, level, option, bad ? NOWHERE : value, lengths[i]);
            report(lengths[i], result < 0 ? strerrorname_np(errno) : "ok");
        }
    }
    show_after(kind, fd, level, option);
}

static void sweep(const char *mode, const unsigned char *value)
{
    for (size_t k = 0; k < COUNT_OF(kinds); k++)
        for (size_t l = 0; l < COUNT_OF(levels); l++)
            for (int option = 0; option < levels[l].end; option++) {
                int fd = open_kind(&kinds[k]);
                printf("%s %s %d/%d", kinds[k].name, mode, levels[l].level, option);
                if (fd < 0)
                    printf(" %s", strerrorname_np(errno));
                else if (value)
                    set_option(&kinds[k], fd, levels[l].level, option, value);
                else
                    read_option(&kinds[k], fd, levels[l].level, option);
                printf("\n");
                close_range(3, ~0u, 0);
            }
}

/* Sets one structure on sockets of each kind, and shows what is there then. */
static void set_structure(int level, int option, const char *what, const void *value, socklen_t length)
{
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
        int fd = open_kind(&kinds[k]);
        printf("%s %s %d/%d", kinds[k].name, what, level, option);
        if (fd >= 0) {
            long result = setsockopt(fd, level, option, value, length);
            printf(" %s", result < 0 ? strerrorname_np(errno) : "ok");
            show_after(&kinds[k], fd, level, option);
            result = setsockopt(fd, level, option, value, length);
            printf(" again %s", result < 0 ? strerrorname_np(errno) : "ok");
        }
        printf("\n");
        close_range(3, ~0u, 0);
    }
}

#define SET(level, option, what, ...) \
    do { \
        __VA_ARGS__; \
        set_structure(level, option, what, &value, sizeof value); \
    } while (0)

static void structures(void)
{
    struct in_addr group, loopback = { htonl(INADDR_LOOPBACK) }, any = { 0 };
    inet_pton(AF_INET, "224.0.0.251", &group);

    SET(SOL_SOCKET, SO_LINGER, "on", struct linger value = { 1, 5 });
    SET(SOL_SOCKET, SO_LINGER, "off", struct linger value = { 0, 7 });
    SET(SOL_SOCKET, SO_LINGER, "negative", struct linger value = { 1, -1 });
    for (int option = SO_RCVTIMEO; option <= SO_SNDTIMEO; option++) {
        SET(SOL_SOCKET, option, "time", struct timeval value = { 1, 500000 });
        SET(SOL_SOCKET, option, "negative", struct timeval value = { -1, 0 });
        SET(SOL_SOCKET, option, "micros", struct timeval value = { 1, 1000000 });
    }
    SET(SOL_SOCKET, SO_BINDTODEVICE, "lo", char value[] = "lo");
    SET(SOL_SOCKET, SO_BINDTODEVICE, "eth7", char value[IFNAMSIZ] = "eth7");
    SET(SOL_SOCKET, SO_BINDTODEVICE, "long", char value[40] = "longer-than-any-name-of-an-interface");
    SET(SOL_SOCKET, SO_TIMESTAMPING, "none", int value[2] = { 0 });
    SET(SOL_SOCKET, SO_TIMESTAMPING, "unknown", int value = 1 << 30);
    SET(SOL_SOCKET, SO_TXTIME, "clock", int value[2] = { 77, 0 });
    SET(SOL_SOCKET, SO_TXTIME, "flags", int value[2] = { 1, 8 });
    SET(SOL_SOCKET, SO_ATTACH_BPF, "closed", int value = 777);
    SET(SOL_SOCKET, SO_BUF_LOCK, "unknown", int value = 4);
    SET(SOL_SOCKET, SO_BUF_LOCK, "both", int value = 3);
    SET(SOL_IP, IP_ADD_MEMBERSHIP, "join", struct ip_mreq value = { group, loopback });
    SET(SOL_IP, IP_ADD_MEMBERSHIP, "index", struct ip_mreqn value = { group, any, 1 });
    SET(SOL_IP, IP_ADD_MEMBERSHIP, "no-group", struct ip_mreqn value = { loopback, any, 1 });
    SET(SOL_IP, IP_DROP_MEMBERSHIP, "leave", struct ip_mreqn value = { group, any, 1 });
    SET(SOL_IP, IP_MULTICAST_IF, "address", struct in_addr value = loopback);
    SET(SOL_IP, IP_MULTICAST_IF, "index", struct ip_mreqn value = { any, any, 1 });
    SET(SOL_IP, IP_MULTICAST_IF, "nobody", struct in_addr value = group);
    SET(SOL_IP, IP_ADD_SOURCE_MEMBERSHIP, "source", struct ip_mreq_source value = { group, loopback, loopback });
    SET(SOL_IP, IP_BLOCK_SOURCE, "source", struct ip_mreq_source value = { group, loopback, loopback });
    SET(SOL_IP, IP_UNICAST_IF, "lo", int value = htonl(1));
    SET(SOL_IP, IP_UNICAST_IF, "nobody", int value = htonl(77));
    SET(SOL_IP, 51, "range", int value = 3000 << 16 | 2000);
    SET(SOL_IP, 51, "reversed", int value = 2000 << 16 | 3000);
    for (int level = SOL_IP; level <= SOL_IPV6; level += SOL_IPV6) {
        struct group_req request = { .gr_interface = 1 };
        struct sockaddr_in *v4 = (struct sockaddr_in *)&request.gr_group;
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&request.gr_group;
        if (level == SOL_IP) {
            v4->sin_family = AF_INET;
            v4->sin_addr = group;
        } else {
            v6->sin6_family = AF_INET6;
            inet_pton(AF_INET6, "ff02::fb", &v6->sin6_addr);
        }
        SET(level, MCAST_JOIN_GROUP, "join", struct group_req value = request);
        SET(level, MCAST_LEAVE_GROUP, "leave", struct group_req value = request);
        request.gr_group.ss_family = AF_UNIX;
        SET(level, MCAST_JOIN_GROUP, "family", struct group_req value = request);
    }
    SET(SOL_IPV6, IPV6_ADD_MEMBERSHIP, "nobody", struct ipv6_mreq value = { IN6ADDR_LOOPBACK_INIT, 1 });
    SET(SOL_IPV6, IPV6_ADDRFORM, "inet", int value = AF_INET);
    SET(SOL_TCP, TCP_CONGESTION, "reno", char value[] = "reno");
    SET(SOL_TCP, TCP_CONGESTION, "nobody", char value[] = "nobody-has-it");
    SET(SOL_TCP, 44, "most", int value = 120000);
    SET(SOL_TCP, 44, "less", int value = 999);
    SET(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, "link", int value = 1);
    SET(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, "nobody", int value = 1000);
}

static void write_setting(const char *path, const char *value)
{
    int file = open(path, O_WRONLY);

    if (file >= 0 && write(file, value, strlen(value)) < 0)
        perror(path);
    close(file);
}

/* Makes the network of a new namespace like a guest's. */
static void prepare(void)
{
    struct ifreq request = { .ifr_name = "lo" };
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    CHECK(fd);
    if (ioctl(fd, SIOCGIFFLAGS, &request) == 0 && !(request.ifr_flags & IFF_UP)) {
        request.ifr_flags |= IFF_UP;
        CHECK(ioctl(fd, SIOCSIFFLAGS, &request));
        write_setting("/proc/sys/net/ipv4/ping_group_range", "0 2147483647");
    }
    close(fd);
    write_setting("/proc/sys/net/ipv4/tcp_congestion_control", "reno");
}

int main(int count, char **arguments)
{
    unsigned char value[ROOM] = { 0 };
    const char *mode = count > 1 ? arguments[1] : "";

    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    prepare();
    if (count > 2)
        CHECK(setresgid(65534, 65534, 65534) | setresuid(65534, 65534, 65534));
    if (!strcmp(mode, "structures")) {
        structures();
        return 0;
    }
    if (!strcmp(mode, "one"))
        value[0] = 1;
    else if (!strcmp(mode, "minus"))
        memset(value, 0xff, sizeof value);
    else if (!strcmp(mode, "large"))
        memset(value, 0x7f, sizeof value);
    else if (strcmp(mode, "zero") && strcmp(mode, "get"))
        die("sweep get|zero|one|minus|large|structures [user]");
    sweep(mode, strcmp(mode, "get") ? value : NULL);
    return 0;
}
