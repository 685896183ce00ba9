/*
 * Multicast and broadcasts on the loopback interface: who hears a datagram
 * to a group, which memberships there can be, what sending needs.
 *
 * Every membership and every sender names the loopback interface: what other
 * interfaces do depends on the machine.
 */
#include "case.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#define GROUP 0xefc00a01u  /* 239.192.10.1 */
#define OTHER 0xefc00a02u
#define LO 1

static struct sockaddr_in address(unsigned ip, int port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(ip) };
}

static long bind_to(int fd, unsigned ip, int port)
{
    struct sockaddr_in at = address(ip, port);

    return bind(fd, (struct sockaddr *)&at, sizeof at);
}

static int port_of(int fd)
{
    struct sockaddr_in at;
    socklen_t length = sizeof at;

    MUST(getsockname(fd, (struct sockaddr *)&at, &length));
    return ntohs(at.sin_port);
}

static struct ip_mreqn on_loopback(unsigned group)
{
    return (struct ip_mreqn){ { htonl(group) }, { 0 }, LO };
}

static long join(int fd, unsigned group)
{
    struct ip_mreqn request = on_loopback(group);

    return setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request);
}

static long leave(int fd, unsigned group)
{
    struct ip_mreqn request = on_loopback(group);

    return setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &request, sizeof request);
}

/* A socket that sends to groups by the loopback interface. */
static int new_sender(void)
{
    int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    /* By its address, which is the source then: by its index alone, the source would be another interface's. */
    struct in_addr way = { htonl(INADDR_LOOPBACK) };

    MUST(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &way, sizeof way));
    return fd;
}

/* A socket that shares its port, bound to any address; `port` 0 chooses one. */
static int new_receiver(unsigned ip, int *port)
{
    int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    int on = 1;

    MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    MUST(bind_to(fd, ip, *port));
    *port = port_of(fd);
    return fd;
}

static long send_to(int fd, unsigned ip, int port, const char *what)
{
    struct sockaddr_in to = address(ip, port);

    return sendto(fd, what, strlen(what), 0, (struct sockaddr *)&to, sizeof to);
}

/* What is there to be read, or that nothing is. */
static void heard(const char *who, int fd)
{
    struct pollfd ready = { fd, POLLIN, 0 };
    char data[32] = "";
    long got;

    poll(&ready, 1, 20);
    got = recv(fd, data, sizeof data - 1, MSG_DONTWAIT);
    if (got < 0)
        text(who, errno == EAGAIN ? "nothing" : "an error");
    else
        text(who, data);
}

CASE(members_hear_a_group_and_others_of_the_host_too)
{
    int port = 0;
    int member = new_receiver(INADDR_ANY, &port);
    int other = new_receiver(INADDR_ANY, &port);
    int picky = new_receiver(INADDR_ANY, &port);
    int named = new_receiver(INADDR_LOOPBACK, &port);
    int sender = new_sender();
    int off = 0;

    MUST(setsockopt(picky, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof off));
    show("before joining", send_to(sender, GROUP, port, "early"));
    heard("member", member);
    show("join", join(member, GROUP));
    show("send", send_to(sender, GROUP, port, "hello"));
    heard("member", member);
    heard("another socket", other);
    heard("one that wants its own groups alone", picky);
    heard("one at an address", named);
    show("leave", leave(member, GROUP));
    show("send", send_to(sender, GROUP, port, "late"));
    heard("member", member);
}

CASE(a_socket_bound_to_a_group_hears_it_alone)
{
    int port = 0;
    int bound = new_receiver(GROUP, &port);
    int sender = new_sender();
    struct sockaddr_in at;
    socklen_t length = sizeof at;

    MUST(join(bound, GROUP));
    MUST(join(bound, OTHER));
    MUST(getsockname(bound, (struct sockaddr *)&at, &length));
    truth("its name is the group", at.sin_addr.s_addr == htonl(GROUP));
    show("send", send_to(sender, GROUP, port, "group"));
    show("send to another", send_to(sender, OTHER, port, "other"));
    show("send to the host", send_to(sender, INADDR_LOOPBACK, port, "host"));
    heard("bound", bound);
    heard("bound", bound);
}

CASE(closing_ends_memberships)
{
    int port = 0;
    int member = new_receiver(INADDR_ANY, &port);
    int other = new_receiver(INADDR_ANY, &port);
    int sender = new_sender();

    MUST(join(member, GROUP));
    close(member);
    show("send", send_to(sender, GROUP, port, "to nobody"));
    heard("other", other);
}

CASE(memberships_are_counted_and_named)
{
    int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    int stream = MUST(socket(AF_INET, SOCK_STREAM, 0));
    struct ip_mreq request = { { htonl(GROUP) }, { htonl(INADDR_LOOPBACK) } };
    struct ip_mreqn nowhere = { { htonl(GROUP) }, { 0 }, 9999 };
    struct ip_mreqn strange = { { htonl(GROUP) }, { htonl(0x01020304) }, 0 };
    int i, joined = 0;

    show("join", setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request));
    show("again", setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request));
    show("again by index", join(fd, GROUP));
    show("leave by index", leave(fd, GROUP));
    show("leave again", leave(fd, GROUP));
    show("no group", join(fd, INADDR_LOOPBACK));
    show("no such interface", setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &nowhere, sizeof nowhere));
    show("no such address", setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &strange, sizeof strange));
    show("short", setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, 7));
    show("a stream", setsockopt(stream, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request));
    for (i = 0; i < 30; i++)
        joined += join(fd, GROUP + i) == 0;
    number("most memberships", joined);
    show("one more", join(fd, OTHER + 100));
}

CASE(options_of_sending_are_kept)
{
    int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    int values[] = { -2, -1, 0, 1, 7, 255, 256 };
    struct in_addr way = { htonl(INADDR_LOOPBACK) };
    struct in_addr strange = { htonl(0x01020304) };
    struct ip_mreqn nowhere = { { 0 }, { 0 }, 9999 };
    struct ip_mreqn by_index = on_loopback(0);
    socklen_t length = sizeof(int);
    unsigned i;
    int value;

    for (i = 0; i < COUNT_OF(values); i++) {
        show("ttl", setsockopt(fd, IPPROTO_IP, IP_MULTICAST_TTL, &values[i], sizeof values[i]));
        MUST(getsockopt(fd, IPPROTO_IP, IP_MULTICAST_TTL, &value, &length));
        number("is", value);
    }
    for (i = 0; i < COUNT_OF(values); i++) {
        show("loop", setsockopt(fd, IPPROTO_IP, IP_MULTICAST_LOOP, &values[i], sizeof values[i]));
        MUST(getsockopt(fd, IPPROTO_IP, IP_MULTICAST_LOOP, &value, &length));
        number("is", value);
        show("all", setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &values[i], sizeof values[i]));
    }
    show("interface by address", setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &way, sizeof way));
    MUST(getsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &value, &length));
    truth("is that address", value == (int)htonl(INADDR_LOOPBACK));
    show("a strange address", setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &strange, sizeof strange));
    show("a strange index", setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &nowhere, sizeof nowhere));
    show("interface by index", setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &by_index, sizeof by_index));
    MUST(getsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &value, &length));
    number("address", value);
}

CASE(the_interface_follows_from_the_address_of_the_sender)
{
    int port = 0;
    int member = new_receiver(INADDR_ANY, &port);
    int sender = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    char data[8];

    MUST(join(member, GROUP));
    MUST(bind_to(sender, INADDR_LOOPBACK, 0));
    show("send", send_to(sender, GROUP, port, "bound"));
    show("receive", recvfrom(member, data, sizeof data, 0, (struct sockaddr *)&from, &length));
    truth("from the address", from.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
}

CASE(packet_info_names_group_and_own_address)
{
    int port = 0;
    int member = new_receiver(INADDR_ANY, &port);
    int sender = new_sender();
    int on = 1, ttl = 7;
    char data[8], control[256];
    struct iovec part = { data, sizeof data };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control,
    };
    struct cmsghdr *at;

    MUST(join(member, GROUP));
    MUST(setsockopt(member, IPPROTO_IP, IP_PKTINFO, &on, sizeof on));
    MUST(setsockopt(member, IPPROTO_IP, IP_RECVTTL, &on, sizeof on));
    MUST(send_to(sender, GROUP, port, "one"));
    MUST(setsockopt(sender, IPPROTO_IP, IP_MULTICAST_TTL, &ttl, sizeof ttl));
    MUST(send_to(sender, GROUP, port, "two"));
    for (on = 0; on < 2; on++) {
        message.msg_controllen = sizeof control;
        show("receive", recvmsg(member, &message, 0));
        for (at = CMSG_FIRSTHDR(&message); at; at = CMSG_NXTHDR(&message, at)) {
            if (at->cmsg_type == IP_PKTINFO) {
                struct in_pktinfo *info = (void *)CMSG_DATA(at);

                number("interface", info->ipi_ifindex);
                truth("to the group", info->ipi_addr.s_addr == htonl(GROUP));
                truth("own address", info->ipi_spec_dst.s_addr == htonl(INADDR_LOOPBACK));
            } else if (at->cmsg_type == IP_TTL) {
                number("ttl", *(int *)CMSG_DATA(at));
            }
        }
    }
}

/* What a datagram's own control messages say goes before what the socket is set to; a filter is asked for each receiver. */
CASE(control_messages_and_filters_act_for_groups)
{
    int port = 0, on = 1, ttl = 3;
    int receiver = new_receiver(INADDR_ANY, &port), picky = new_receiver(INADDR_ANY, &port);
    int sender = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    struct sock_filter none[] = { { BPF_RET | BPF_K, 0, 0, 0 } };
    struct sock_fprog filter = { 1, none };
    struct in_pktinfo way = { .ipi_ifindex = LO, .ipi_spec_dst.s_addr = htonl(0x7f000002) };
    struct sockaddr_in to = address(GROUP, port), from = { 0 };
    char room[128] = { 0 }, data[8];
    struct iovec vector = { "x", 1 };
    struct msghdr message = { &to, sizeof to, &vector, 1, room, CMSG_SPACE(sizeof way) + CMSG_SPACE(sizeof ttl), 0 };
    struct cmsghdr *control = CMSG_FIRSTHDR(&message);
    struct pollfd ready = { receiver, POLLIN, 0 };

    MUST(join(receiver, GROUP));
    MUST(join(picky, GROUP));
    MUST(setsockopt(receiver, IPPROTO_IP, IP_RECVTTL, &on, sizeof on));
    MUST(setsockopt(picky, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter));
    *control = (struct cmsghdr){ CMSG_LEN(sizeof way), IPPROTO_IP, IP_PKTINFO };
    memcpy(CMSG_DATA(control), &way, sizeof way);
    control = CMSG_NXTHDR(&message, control);
    *control = (struct cmsghdr){ CMSG_LEN(sizeof ttl), IPPROTO_IP, IP_TTL };
    memcpy(CMSG_DATA(control), &ttl, sizeof ttl);
    show("send", sendmsg(sender, &message, 0));

    vector = (struct iovec){ data, sizeof data };
    message = (struct msghdr){ &from, sizeof from, &vector, 1, room, sizeof room, 0 };
    poll(&ready, 1, 20);
    show("receive", recvmsg(receiver, &message, MSG_DONTWAIT));
    printf("from %s\n", inet_ntoa(from.sin_addr));
    for (control = CMSG_FIRSTHDR(&message); control; control = CMSG_NXTHDR(&message, control))
        printf("level %d, type %d: %d\n", control->cmsg_level, control->cmsg_type, *(int *)CMSG_DATA(control));
    heard("behind a filter", picky);
}

CASE(sources_are_chosen_or_blocked)
{
    int port = 0;
    int chosen = new_receiver(INADDR_ANY, &port);
    int blocked = new_receiver(INADDR_ANY, &port);
    int one = MUST(socket(AF_INET, SOCK_DGRAM, 0)), two = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    struct ip_mreq_source first = { { htonl(GROUP) }, { htonl(INADDR_LOOPBACK) }, { htonl(0x7f000001) } };
    struct ip_mreq_source second = { { htonl(GROUP) }, { htonl(INADDR_LOOPBACK) }, { htonl(0x7f000002) } };

    MUST(bind_to(one, 0x7f000001, 0));
    MUST(bind_to(two, 0x7f000002, 0));
    show("block before joining", setsockopt(blocked, IPPROTO_IP, IP_BLOCK_SOURCE, &first, sizeof first));
    MUST(join(blocked, GROUP));
    show("block", setsockopt(blocked, IPPROTO_IP, IP_BLOCK_SOURCE, &first, sizeof first));
    show("block again", setsockopt(blocked, IPPROTO_IP, IP_BLOCK_SOURCE, &first, sizeof first));
    show("join a source of it", setsockopt(blocked, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &first, sizeof first));
    show("join one source", setsockopt(chosen, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &first, sizeof first));
    show("the same again", setsockopt(chosen, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &first, sizeof first));
    show("too long", setsockopt(chosen, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &first, sizeof first + 4));
    MUST(send_to(one, GROUP, port, "one"));
    MUST(send_to(two, GROUP, port, "two"));
    heard("chosen", chosen);
    heard("chosen", chosen);
    heard("blocked", blocked);
    heard("blocked", blocked);
    show("join another", setsockopt(chosen, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &second, sizeof second));
    show("unblock", setsockopt(blocked, IPPROTO_IP, IP_UNBLOCK_SOURCE, &first, sizeof first));
    MUST(send_to(one, GROUP, port, "one"));
    MUST(send_to(two, GROUP, port, "two"));
    heard("chosen", chosen);
    heard("chosen", chosen);
    heard("blocked", blocked);
    heard("blocked", blocked);
    show("leave the first", setsockopt(chosen, IPPROTO_IP, IP_DROP_SOURCE_MEMBERSHIP, &first, sizeof first));
    show("leave it again", setsockopt(chosen, IPPROTO_IP, IP_DROP_SOURCE_MEMBERSHIP, &first, sizeof first));
    show("leave the last", setsockopt(chosen, IPPROTO_IP, IP_DROP_SOURCE_MEMBERSHIP, &second, sizeof second));
    show("nothing is left", leave(chosen, GROUP));
}

CASE(requests_for_any_family)
{
    int port = 0;
    int member = new_receiver(INADDR_ANY, &port);
    int sender = new_sender();
    struct group_req group = { .gr_interface = LO };
    struct group_source_req source = { .gsr_interface = LO };
    struct sockaddr_in at = address(GROUP, 0), from = address(INADDR_LOOPBACK, 0);

    show("no family", setsockopt(member, IPPROTO_IP, MCAST_JOIN_GROUP, &group, sizeof group));
    memcpy(&group.gr_group, &at, sizeof at);
    memcpy(&source.gsr_group, &at, sizeof at);
    show("short", setsockopt(member, IPPROTO_IP, MCAST_JOIN_GROUP, &group, sizeof group - 1));
    show("join", setsockopt(member, IPPROTO_IP, MCAST_JOIN_GROUP, &group, sizeof group));
    show("no source", setsockopt(member, IPPROTO_IP, MCAST_BLOCK_SOURCE, &source, sizeof source));
    memcpy(&source.gsr_source, &from, sizeof from);
    MUST(send_to(sender, GROUP, port, "joined"));
    heard("member", member);
    show("block", setsockopt(member, IPPROTO_IP, MCAST_BLOCK_SOURCE, &source, sizeof source));
    MUST(send_to(sender, GROUP, port, "blocked"));
    heard("member", member);
    show("unblock", setsockopt(member, IPPROTO_IP, MCAST_UNBLOCK_SOURCE, &source, sizeof source));
    show("leave", setsockopt(member, IPPROTO_IP, MCAST_LEAVE_GROUP, &group, sizeof group));
    show("leave again", setsockopt(member, IPPROTO_IP, MCAST_LEAVE_GROUP, &group, sizeof group));
    show("join a source", setsockopt(member, IPPROTO_IP, MCAST_JOIN_SOURCE_GROUP, &source, sizeof source));
    MUST(send_to(sender, GROUP, port, "source"));
    heard("member", member);
    show("leave it", setsockopt(member, IPPROTO_IP, MCAST_LEAVE_SOURCE_GROUP, &source, sizeof source));
    show("leave it again", setsockopt(member, IPPROTO_IP, MCAST_LEAVE_SOURCE_GROUP, &source, sizeof source));
}

CASE(whole_filters)
{
    int port = 0;
    int member = new_receiver(INADDR_ANY, &port);
    int sender = new_sender();
    char room[IP_MSFILTER_SIZE(2)];
    struct ip_msfilter *filter = (void *)room;

    memset(room, 0, sizeof room);
    filter->imsf_multiaddr.s_addr = htonl(GROUP);
    filter->imsf_interface.s_addr = htonl(INADDR_LOOPBACK);
    filter->imsf_fmode = MCAST_EXCLUDE;
    filter->imsf_numsrc = 1;
    filter->imsf_slist[0].s_addr = htonl(INADDR_LOOPBACK);
    show("before joining", setsockopt(member, IPPROTO_IP, IP_MSFILTER, room, IP_MSFILTER_SIZE(1)));
    MUST(join(member, GROUP));
    show("exclude", setsockopt(member, IPPROTO_IP, IP_MSFILTER, room, IP_MSFILTER_SIZE(1)));
    MUST(send_to(sender, GROUP, port, "excluded"));
    heard("member", member);
    filter->imsf_fmode = MCAST_INCLUDE;
    show("include", setsockopt(member, IPPROTO_IP, IP_MSFILTER, room, IP_MSFILTER_SIZE(1)));
    MUST(send_to(sender, GROUP, port, "included"));
    heard("member", member);
    filter->imsf_numsrc = 3;
    show("short", setsockopt(member, IPPROTO_IP, IP_MSFILTER, room, IP_MSFILTER_SIZE(2)));
    filter->imsf_fmode = 2;
    filter->imsf_numsrc = 0;
    show("no such mode", setsockopt(member, IPPROTO_IP, IP_MSFILTER, room, IP_MSFILTER_SIZE(0)));
    filter->imsf_fmode = MCAST_INCLUDE;
    show("include nobody", setsockopt(member, IPPROTO_IP, IP_MSFILTER, room, IP_MSFILTER_SIZE(0)));
    show("nothing is left", leave(member, GROUP));
}

CASE(connecting_to_a_group)
{
    int port = 0;
    int member = new_receiver(INADDR_ANY, &port);
    int sender = new_sender();
    int stream = MUST(socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in to = address(GROUP, port), from;
    socklen_t length = sizeof from;

    MUST(join(member, GROUP));
    show("connect", connect(sender, (struct sockaddr *)&to, sizeof to));
    MUST(getsockname(sender, (struct sockaddr *)&from, &length));
    truth("from the interface", from.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    show("send", send(sender, "peer", 4, 0));
    heard("member", member);
    show("a listener at a group", bind_to(stream, GROUP, 0));
}

CASE(groups_of_a_socket_bound_to_a_device)
{
    int port = 0;
    int member = new_receiver(INADDR_ANY, &port);
    int sender = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    int on = LO;

    MUST(join(member, GROUP));
    MUST(setsockopt(sender, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3));
    show("send", send_to(sender, GROUP, port, "device"));
    heard("member", member);
    MUST(setsockopt(member, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3));
    show("send", send_to(sender, GROUP, port, "device"));
    heard("member", member);
    show("interface of the device", setsockopt(sender, IPPROTO_IP, IP_MULTICAST_IF,
                                               &(struct ip_mreqn){ .imr_ifindex = on }, sizeof(struct ip_mreqn)));
}

CASE(broadcasts_by_the_loopback_interface)
{
    int port = 0, on = 1;
    int everybody = new_receiver(INADDR_ANY, &port);
    int limited = new_receiver(INADDR_BROADCAST, &port);
    int sender = MUST(socket(AF_INET, SOCK_DGRAM, 0));

    MUST(bind_to(sender, INADDR_LOOPBACK, 0));
    show("without the option", send_to(sender, INADDR_BROADCAST, port, "no"));
    MUST(setsockopt(sender, SOL_SOCKET, SO_BROADCAST, &on, sizeof on));
    show("to all", send_to(sender, INADDR_BROADCAST, port, "limited"));
    heard("bound to no address", everybody);
    heard("bound to the broadcast", limited);
    show("to the network", send_to(sender, 0x7fffffff, port, "directed"));
    heard("bound to no address", everybody);
    heard("bound to the broadcast", limited);
}

/* The lines of a group on the loopback interface in /proc/net/igmp. */
CASE(groups_are_listed)
{
    int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0)), again = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    char line[256], wanted[16];
    int round;

    snprintf(wanted, sizeof wanted, "%08X", htonl(GROUP));
    MUST(join(fd, GROUP));
    for (round = 0; round < 3; round++) {
        FILE *file;
        int index = 0, users = 0, everybody = 0;

        if (round == 1)
            MUST(join(again, GROUP));
        if (round == 2)
            MUST(leave(fd, GROUP));
        file = fopen("/proc/net/igmp", "r");
        while (file && fgets(line, sizeof line, file)) {
            unsigned group;
            int count;

            if (line[0] != '\t')
                sscanf(line, "%d", &index);
            else if (index == LO && sscanf(line, "%X %d", &group, &count) == 2) {
                users += group == htonl(GROUP) ? count : 0;
                everybody += group == htonl(INADDR_ALLHOSTS_GROUP);
            }
        }
        number("users", users);
        number("all hosts", everybody);
        if (file)
            fclose(file);
    }
}

static struct sockaddr_in6 address6(const char *ip, int port)
{
    struct sockaddr_in6 at = { .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_scope_id = LO };

    inet_pton(AF_INET6, ip, &at.sin6_addr);
    return at;
}

static struct ipv6_mreq request6(const char *group, int interface)
{
    struct ipv6_mreq request = { .ipv6mr_interface = interface };

    inet_pton(AF_INET6, group, &request.ipv6mr_multiaddr);
    return request;
}

/* No route to groups of IPv6 leads to the loopback interface: it is joined here, and nothing arrives. */
CASE(groups_of_ipv6)
{
    int fd = MUST(socket(AF_INET6, SOCK_DGRAM, 0)), other = MUST(socket(AF_INET6, SOCK_DGRAM, 0));
    int stream = MUST(socket(AF_INET6, SOCK_STREAM, 0));
    struct ipv6_mreq group = request6("ff02::1234", LO), any = request6("ff02::1234", 0);
    struct ipv6_mreq none = request6("::1", LO), nowhere = request6("ff02::1234", 9999);
    struct sockaddr_in6 to = address6("ff02::1234", 9);
    int values[] = { -2, -1, 0, 1, 7, 255, 256 };
    int value, lo = LO, strange = 9999;
    socklen_t length = sizeof value;
    unsigned i;

    show("join", setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, sizeof group));
    show("again", setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, sizeof group));
    show("again on any", setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &any, sizeof any));
    show("no group", setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &none, sizeof none));
    show("no interface", setsockopt(other, IPPROTO_IPV6, IPV6_JOIN_GROUP, &nowhere, sizeof nowhere));
    show("short", setsockopt(other, IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, sizeof group - 1));
    show("a stream", setsockopt(stream, IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, sizeof group));
    show("send", sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof to));
    show("leave any", setsockopt(fd, IPPROTO_IPV6, IPV6_LEAVE_GROUP, &any, sizeof any));
    show("leave", setsockopt(fd, IPPROTO_IPV6, IPV6_LEAVE_GROUP, &group, sizeof group));
    for (i = 0; i < COUNT_OF(values); i++) {
        show("hops", setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, &values[i], sizeof value));
        MUST(getsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, &value, &length));
        number("are", value);
        show("loop", setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, &values[i], sizeof value));
        show("all", setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, &values[i], sizeof value));
    }
    show("interface", setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &lo, sizeof lo));
    show("a strange one", setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &strange, sizeof strange));
}

CASE(sources_of_ipv6)
{
    int fd = MUST(socket(AF_INET6, SOCK_DGRAM, 0));
    struct group_source_req source = { .gsr_interface = LO };
    struct group_req group = { .gr_interface = LO };
    struct sockaddr_in6 at = address6("ff02::1234", 0), from = address6("::1", 0);

    show("no family", setsockopt(fd, IPPROTO_IPV6, MCAST_JOIN_GROUP, &group, sizeof group));
    memcpy(&source.gsr_group, &at, sizeof at);
    memcpy(&group.gr_group, &at, sizeof at);
    show("no source", setsockopt(fd, IPPROTO_IPV6, MCAST_BLOCK_SOURCE, &source, sizeof source));
    memcpy(&source.gsr_source, &from, sizeof from);
    show("block before joining", setsockopt(fd, IPPROTO_IPV6, MCAST_BLOCK_SOURCE, &source, sizeof source));
    show("join a source", setsockopt(fd, IPPROTO_IPV6, MCAST_JOIN_SOURCE_GROUP, &source, sizeof source));
    show("the same again", setsockopt(fd, IPPROTO_IPV6, MCAST_JOIN_SOURCE_GROUP, &source, sizeof source));
    show("block it", setsockopt(fd, IPPROTO_IPV6, MCAST_BLOCK_SOURCE, &source, sizeof source));
    show("leave it", setsockopt(fd, IPPROTO_IPV6, MCAST_LEAVE_SOURCE_GROUP, &source, sizeof source));
    show("leave the group", setsockopt(fd, IPPROTO_IPV6, MCAST_LEAVE_GROUP, &group, sizeof group));
    show("join", setsockopt(fd, IPPROTO_IPV6, MCAST_JOIN_GROUP, &group, sizeof group));
    show("block", setsockopt(fd, IPPROTO_IPV6, MCAST_BLOCK_SOURCE, &source, sizeof source));
    show("unblock", setsockopt(fd, IPPROTO_IPV6, MCAST_UNBLOCK_SOURCE, &source, sizeof source));
    show("wrong level", setsockopt(fd, IPPROTO_IP, MCAST_JOIN_GROUP, &group, sizeof group));
}
