/*
 * Netlink sockets: addresses, groups, options, the frame of answers, what
 * is lost when nobody reads, and messages between programs.
 *
 * What is listed depends on the machine: the loopback interface alone is
 * looked at, and how lists begin and end.
 */
#include "case.h"

#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#define LO 1

struct request {
    struct nlmsghdr header;
    char body[64];
};

static int new_socket(int protocol)
{
    return MUST(socket(AF_NETLINK, SOCK_RAW, protocol));
}

static struct request request_of(int type, int flags, int family, int length)
{
    struct request request = {
        .header = { NLMSG_HDRLEN + length, type, NLM_F_REQUEST | flags, 7, 0 },
    };

    request.body[0] = family;
    return request;
}

static void ask(int fd, struct request *request)
{
    MUST(send(fd, request, request->header.nlmsg_len, 0));
}

/* The types of an answer's messages, each once in a row; lists end by themselves. */
static void answers(int fd)
{
    static char data[1 << 16];
    int last = -1, done = 0;
    struct pollfd ready = { fd, POLLIN, 0 };

    while (!done && poll(&ready, 1, 20) > 0) {
        long got = recv(fd, data, sizeof data, MSG_DONTWAIT);
        struct nlmsghdr *at = (void *)data;

        if (got < 0) {
            show("receive", got);
            return;
        }
        for (; NLMSG_OK(at, got); at = NLMSG_NEXT(at, got)) {
            if (at->nlmsg_type != last)
                printf("type %d, %s\n", at->nlmsg_type, at->nlmsg_flags & NLM_F_MULTI ? "of a list" : "alone");
            last = at->nlmsg_type;
            if (last == NLMSG_ERROR) {
                struct nlmsgerr *error = NLMSG_DATA(at);

                show_error("error", -error->error);
                truth("quotes the request's header", error->msg.nlmsg_seq == 7);
                truth("is capped", at->nlmsg_flags & NLM_F_CAPPED);
                number("length", at->nlmsg_len);
            }
            if (last == NLMSG_DONE)
                show_error("done", -*(int *)NLMSG_DATA(at));
            done |= last == NLMSG_DONE;
        }
    }
}

static void ask_and_show(int fd, int type, int flags, int family, int length)
{
    struct request request = request_of(type, flags, family, length);

    ask(fd, &request);
    answers(fd);
}

CASE(lists_of_families_without_one_are_those_of_all)
{
    int fd = new_socket(NETLINK_ROUTE), seen[2] = { 0 }, round;
    int families[] = { AF_UNSPEC, AF_PACKET };
    static char data[1 << 16];

    for (round = 0; round < 2; round++) {
        struct request request = request_of(RTM_GETADDR, NLM_F_DUMP, families[round], 8);
        int done = 0;

        ask(fd, &request);
        while (!done) {
            long got = MUST(recv(fd, data, sizeof data, 0));
            struct nlmsghdr *at = (void *)data;

            for (; NLMSG_OK(at, got); at = NLMSG_NEXT(at, got)) {
                done |= at->nlmsg_type == NLMSG_DONE;
                seen[round] += at->nlmsg_type == RTM_NEWADDR;
            }
        }
    }
    truth("as many addresses", seen[0] == seen[1] && seen[0] > 0);
    ask_and_show(fd, RTM_GETLINK, NLM_F_DUMP, AF_INET, sizeof(struct ifinfomsg));
    ask_and_show(fd, RTM_GETADDR, NLM_F_ROOT, AF_INET, sizeof(struct ifaddrmsg));
    ask_and_show(fd, RTM_GETADDR, NLM_F_MATCH, AF_INET, sizeof(struct ifaddrmsg));
}

CASE(rules_are_listed)
{
    int fd = new_socket(NETLINK_ROUTE);

    ask_and_show(fd, RTM_GETRULE, NLM_F_DUMP, AF_INET, sizeof(struct rtmsg));
    ask_and_show(fd, RTM_GETRULE, NLM_F_DUMP, AF_INET6, sizeof(struct rtmsg));
}

CASE(one_thing_or_an_error)
{
    int fd = new_socket(NETLINK_ROUTE), on = 1;
    struct request request = request_of(RTM_GETLINK, NLM_F_ACK, 0, sizeof(struct ifinfomsg));
    struct ifinfomsg *link = (void *)request.body;

    link->ifi_index = LO;
    ask(fd, &request);
    answers(fd);
    link->ifi_index = 9999;
    ask(fd, &request);
    answers(fd);
    ask_and_show(fd, RTM_GETADDR, 0, AF_INET, sizeof(struct ifaddrmsg));
    ask_and_show(fd, RTM_GETROUTE, 0, AF_PACKET, sizeof(struct rtmsg));
    ask_and_show(fd, 4000, 0, 0, 16);
    MUST(setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof on));
    ask_and_show(fd, 4000, 0, 0, 16);
}

CASE(what_is_no_request_is_acknowledged_alone)
{
    int fd = new_socket(NETLINK_ROUTE);
    struct request request = request_of(RTM_GETLINK, NLM_F_ACK, 0, sizeof(struct ifinfomsg));

    ask_and_show(fd, NLMSG_NOOP, NLM_F_ACK, 0, 0);
    ask_and_show(fd, RTM_GETLINK, NLM_F_ACK, 0, 0);
    request.header.nlmsg_flags = NLM_F_ACK;
    ask(fd, &request);
    answers(fd);
    ask_and_show(fd, NLMSG_NOOP, 0, 0, 0);
    request.header.nlmsg_len = 8;
    show("too short", send(fd, &request, 16, 0));
    answers(fd);
}

CASE(groups_are_joined_and_listed)
{
    int fd = new_socket(NETLINK_ROUTE), group = RTNLGRP_LINK, bad[] = { 0, -1, 1000 };
    unsigned words[8] = { 0 };
    socklen_t length = sizeof words;
    struct sockaddr_nl name = { .nl_family = AF_NETLINK, .nl_groups = 0x10 };
    socklen_t name_length = sizeof name;
    unsigned i;

    show("join", setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group));
    group = RTNLGRP_IPV6_PREFIX;
    show("join another", setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group));
    for (i = 0; i < COUNT_OF(bad); i++)
        show("no such group", setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &bad[i], sizeof bad[i]));
    show("list", getsockopt(fd, SOL_NETLINK, NETLINK_LIST_MEMBERSHIPS, words, &length));
    printf("%x, %d bytes\n", words[0], (int)length);
    show("bind replaces them", bind(fd, (struct sockaddr *)&name, sizeof name));
    MUST(getsockopt(fd, SOL_NETLINK, NETLINK_LIST_MEMBERSHIPS, words, &length));
    printf("%x\n", words[0]);
    MUST(getsockname(fd, (struct sockaddr *)&name, &name_length));
    printf("name has %x\n", name.nl_groups);
    group = 5;
    show("leave", setsockopt(fd, SOL_NETLINK, NETLINK_DROP_MEMBERSHIP, &group, sizeof group));
    length = 0;
    show("how long", getsockopt(fd, SOL_NETLINK, NETLINK_LIST_MEMBERSHIPS, words, &length));
    number("bytes", length);
}

CASE(options_of_all_sockets)
{
    int fd = new_socket(NETLINK_ROUTE), value = 0;
    socklen_t length = sizeof value;
    struct timeval time = { 0, 30000 };
    socklen_t time_length = sizeof time;
    int64_t start;
    char data[16];

    show("timeout", setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    memset(&time, 0, sizeof time);
    MUST(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, &time_length));
    truth("is about what was set", time.tv_sec == 0 && time.tv_usec >= 30000 && time.tv_usec < 60000);
    start = now_ns();
    show("receive", recv(fd, data, sizeof data, 0));
    show_elapsed(start, 25);
    value = 10000;
    show("receive buffer", setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, sizeof value));
    MUST(getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, &length));
    number("is", value);
    value = 100;
    show("send buffer", setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &value, sizeof value));
    MUST(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &value, &length));
    number("is", value);
    show("too long", send(fd, (char[8192]){ 0 }, 8192, 0));
    show("no such option", setsockopt(fd, SOL_NETLINK, 99, &value, sizeof value));
    show("no such option", getsockopt(fd, SOL_NETLINK, 99, &value, &length));
    show("no such level", setsockopt(fd, IPPROTO_TCP, 1, &value, sizeof value));
    MUST(getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &value, &length));
    number("protocol", value);
}

CASE(answers_tell_their_sender)
{
    int fd = new_socket(NETLINK_ROUTE), on = 1;
    char data[4096], control[128];
    struct iovec part = { data, sizeof data };
    struct sockaddr_nl from;
    struct msghdr message = { &from, sizeof from, &part, 1, control, sizeof control, 0 };
    struct request request = request_of(4000, 0, 0, 16);
    struct cmsghdr *at;

    MUST(setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on));
    MUST(setsockopt(fd, SOL_NETLINK, NETLINK_PKTINFO, &on, sizeof on));
    ask(fd, &request);
    truth("received", MUST(recvmsg(fd, &message, 0)) > 0);
    printf("from %d, groups %x\n", from.nl_pid, from.nl_groups);
    for (at = CMSG_FIRSTHDR(&message); at; at = CMSG_NXTHDR(&message, at)) {
        if (at->cmsg_level == SOL_NETLINK)
            number("group", *(int *)CMSG_DATA(at));
        if (at->cmsg_level == SOL_SOCKET) {
            struct ucred *who = (void *)CMSG_DATA(at);

            printf("process %d, user %d, group %d\n", who->pid, who->uid, who->gid);
        }
    }
}

CASE(what_does_not_fit_is_lost)
{
    int fd = new_socket(NETLINK_ROUTE), small = 2304, i, got, error = 0;
    socklen_t length = sizeof error;
    struct request request = request_of(4000, 0, 0, 16);
    struct pollfd ready = { fd, POLLIN, 0 };
    char data[256];

    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small));
    for (i = 0; i < 50; i++)
        ask(fd, &request);
    MUST(poll(&ready, 1, 0));
    truth("an error to be read", ready.revents & POLLERR);
    show("receive", recv(fd, data, sizeof data, MSG_DONTWAIT));
    ask(fd, &request);
    for (got = 0; recv(fd, data, sizeof data, MSG_DONTWAIT) > 0; got++)
        ;
    truth("a few came", got > 0 && got < 20);
    MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length));
    number("error", error);
    ask(fd, &request);
    truth("there is room again", recv(fd, data, sizeof data, MSG_DONTWAIT) > 0);
    i = 1;
    MUST(setsockopt(fd, SOL_NETLINK, NETLINK_NO_ENOBUFS, &i, sizeof i));
    for (i = 0; i < 50; i++)
        ask(fd, &request);
    truth("no error", recv(fd, data, sizeof data, MSG_DONTWAIT) > 0);
}

CASE(programs_send_to_each_other)
{
    int one = new_socket(NETLINK_USERSOCK), two = new_socket(NETLINK_USERSOCK), group = 3, on = 1;
    struct sockaddr_nl name = { .nl_family = AF_NETLINK, .nl_pid = 1 << 30 }, from;
    struct sockaddr_nl to_group = { .nl_family = AF_NETLINK, .nl_groups = 1 << 2 };
    struct sockaddr_nl nobody = { .nl_family = AF_NETLINK, .nl_pid = (1 << 30) + 1 };
    socklen_t length = sizeof from;
    char data[32] = "";

    show("bind", bind(two, (struct sockaddr *)&name, sizeof name));
    show("send", sendto(one, "hello", 5, 0, (struct sockaddr *)&name, sizeof name));
    show("receive", recvfrom(two, data, sizeof data, MSG_DONTWAIT, (struct sockaddr *)&from, &length));
    text("data", data);
    truth("from a process's port", from.nl_pid == (unsigned)getpid());
    show("to nobody", sendto(one, "x", 1, 0, (struct sockaddr *)&nobody, sizeof nobody));
    show("to the kernel", send(one, "x", 1, 0));
    show("connect", connect(one, (struct sockaddr *)&name, sizeof name));
    show("send", send(one, "again", 5, 0));
    show("receive", recv(two, data, sizeof data, MSG_DONTWAIT));
    MUST(setsockopt(two, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group));
    MUST(setsockopt(two, SOL_NETLINK, NETLINK_PKTINFO, &on, sizeof on));
    show("to a group", sendto(one, "group", 5, 0, (struct sockaddr *)&to_group, sizeof to_group));
    show("receive", recvfrom(two, data, sizeof data, MSG_DONTWAIT, (struct sockaddr *)&from, &length));
    printf("groups %x\n", from.nl_groups);
    show("one port, one socket", bind(new_socket(NETLINK_USERSOCK), (struct sockaddr *)&name, sizeof name));
    show("other protocols have their own", bind(new_socket(NETLINK_ROUTE), (struct sockaddr *)&name, sizeof name));
}

CASE(generic_families_are_looked_for)
{
    static char data[1 << 16];
    struct {
        struct nlmsghdr header;
        struct genlmsghdr generic;
        struct nlattr attribute;
        char name[16];
    } request = {
        { sizeof request, GENL_ID_CTRL, NLM_F_REQUEST, 7, 0 }, { CTRL_CMD_GETFAMILY, 1, 0 },
        { 4 + 13, CTRL_ATTR_FAMILY_NAME }, "nosuchfamily",
    };
    int fd = new_socket(NETLINK_GENERIC);

    MUST(send(fd, &request, sizeof request, 0));
    answers(fd);
    strcpy(request.name, "nlctrl");
    request.attribute.nla_len = 4 + 7;
    MUST(send(fd, &request, sizeof request, 0));
    truth("the controller", MUST(recv(fd, data, sizeof data, 0)) > 64);
    number("type", ((struct nlmsghdr *)data)->nlmsg_type);
    number("command", data[NLMSG_HDRLEN]);
    request.header.nlmsg_type = 4000;
    MUST(send(fd, &request, sizeof request, 0));
    answers(fd);
}

CASE(devices_come_and_go_in_silence)
{
    int fd = new_socket(NETLINK_KOBJECT_UEVENT);
    struct sockaddr_nl name = { .nl_family = AF_NETLINK, .nl_groups = 1 };

    show("bind", bind(fd, (struct sockaddr *)&name, sizeof name));
    show("no such protocol", socket(AF_NETLINK, SOCK_RAW, 40));
    show("no such protocol", socket(AF_NETLINK, SOCK_RAW, -1));
    show("no such type", socket(AF_NETLINK, SOCK_STREAM, NETLINK_ROUTE));
    show("shutdown", shutdown(fd, SHUT_RDWR));
    show("listen", listen(fd, 1));
}
