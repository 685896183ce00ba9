/*
 * Ports below 1024: who may bind to them, and in which order bind looks at
 * things. Root natively; 127.0.0.1 alone.
 */
#include "users.h"

#include <arpa/inet.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>

static const struct user nobody = { "nobody", 65534, 65534, 0 };

static long bind4(int type, unsigned address, int port)
{
    int fd = MUST(socket(AF_INET, type, 0));
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(address) };
    long result = bind(fd, (struct sockaddr *)&name, sizeof name);
    int error = errno;

    close(fd);
    errno = error;
    return result;
}

static long bind6(int type, struct in6_addr address, int port)
{
    int fd = MUST(socket(AF_INET6, type, 0));
    struct sockaddr_in6 name = { .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = address };
    long result = bind(fd, (struct sockaddr *)&name, sizeof name);
    int error = errno;

    close(fd);
    errno = error;
    return result;
}

/* Containers often let everyone bind to all ports: there the answer is not Linux's default one. */
static int open_to_all(void)
{
    int start = 1024;
    FILE *file = fopen("/proc/sys/net/ipv4/ip_unprivileged_port_start", "r");

    if (file && fscanf(file, "%d", &start) != 1)
        start = 1024;
    if (file)
        fclose(file);
    return start != 1024;
}

static int may_bind(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2];

    MUST(syscall(SYS_capget, &header, data));
    return data[0].effective >> CAP_NET_BIND_SERVICE & 1;
}

static void show_low(const char *what, long result)
{
    int error = errno;

    if (open_to_all() && !may_bind())
        result = -1, error = EACCES;
    errno = error;
    show(what, result);
}

static void bind_low_ports(void *argument)
{
    (void)argument;
    show_low("stream", bind4(SOCK_STREAM, INADDR_LOOPBACK, 3));
    show_low("datagrams", bind4(SOCK_DGRAM, INADDR_LOOPBACK, 3));
    show_low("1023", bind4(SOCK_STREAM, INADDR_LOOPBACK, 1023));
    show("any port", bind4(SOCK_STREAM, INADDR_LOOPBACK, 0));
    show("address of nobody", bind4(SOCK_STREAM, 0xcb007101, 3));
    show_low("IPv6 stream", bind6(SOCK_STREAM, in6addr_loopback, 3));
    show_low("IPv6 datagrams", bind6(SOCK_DGRAM, in6addr_loopback, 3));
    struct in6_addr other = { .s6_addr = { 0x20, 1, 0xd, 0xb8, [15] = 1 } };
    show_low("IPv6 address of nobody", bind6(SOCK_STREAM, other, 3));
}

CASE(root_may)
{
    bind_low_ports(NULL);
}

CASE(others_may_not)
{
    as_user(&nobody, bind_low_ports, NULL);
}

static void keep_one_capability(void *argument)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2] = { 0 };

    (void)argument;
    MUST(prctl(PR_SET_KEEPCAPS, 1));
    MUST(setresuid(65534, 65534, 65534));
    data[0].permitted = data[0].effective = 1 << CAP_NET_BIND_SERVICE;
    MUST(syscall(SYS_capset, &header, data));
    bind_low_ports(NULL);
}

CASE(a_capability_is_enough)
{
    in_child(keep_one_capability, NULL);
}

static void drop_capability(void *argument)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2];

    (void)argument;
    MUST(syscall(SYS_capget, &header, data));
    data[0].effective &= ~(1 << CAP_NET_BIND_SERVICE);
    MUST(syscall(SYS_capset, &header, data));
    bind_low_ports(NULL);
}

CASE(root_without_it_may_not)
{
    in_child(drop_capability, NULL);
}
