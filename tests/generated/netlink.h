/* How messages of netlink are shown: what the loopback interface has, and answers about nothing in particular. Other interfaces differ from
 * machine to machine, and so do attributes that tell of devices and of what the kernel has been built with. */
#include <linux/fib_rules.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

/* What is shown of one kind of message: its fixed part, where in that the interface stands (-1: nowhere), and some attributes. */
struct shown_message {
    int type, fixed, index;
    unsigned char attributes[16];
};

static const struct shown_message shown_messages[] = {
    {RTM_NEWLINK, sizeof(struct ifinfomsg), 4, {IFLA_ADDRESS, IFLA_BROADCAST, IFLA_IFNAME, IFLA_MTU, IFLA_QDISC, IFLA_TXQLEN, IFLA_OPERSTATE,
                                                IFLA_GROUP, IFLA_CARRIER}},
    {RTM_NEWADDR, sizeof(struct ifaddrmsg), 4, {IFA_ADDRESS, IFA_LOCAL, IFA_LABEL, IFA_BROADCAST, IFA_FLAGS}},
    {RTM_NEWROUTE, sizeof(struct rtmsg), -1, {RTA_DST, RTA_OIF, RTA_PRIORITY, RTA_PREFSRC, RTA_TABLE}},
    {RTM_NEWRULE, sizeof(struct fib_rule_hdr), -1, {FRA_PRIORITY, FRA_SUPPRESS_PREFIXLEN, FRA_TABLE, FRA_PROTOCOL}},
    {RTM_NEWNEIGH, sizeof(struct ndmsg), 4, {NDA_DST}},
    {RTM_NEWQDISC, sizeof(struct tcmsg), 4, {TCA_KIND}},
};

static const unsigned char *attribute_of(const unsigned char *at, const unsigned char *end, int type, size_t *size)
{
    for (struct rtattr head; at + sizeof head <= end; at += (head.rta_len + 3) & ~3) {
        memcpy(&head, at, sizeof head);
        if (head.rta_len < sizeof head || head.rta_len > end - at)
            break;
        if (head.rta_type == type) {
            *size = head.rta_len - sizeof head;
            return at + sizeof head;
        }
    }
    return NULL;
}

/* Whether a message is about another interface than the first. */
static int is_elsewhere(const struct shown_message *kind, const unsigned char *body, const unsigned char *end)
{
    int index = 1;
    size_t size = 4;
    const unsigned char *at = kind->index >= 0 ? body + kind->index : NULL;
    if (kind->type == RTM_NEWROUTE)
        at = attribute_of(body + kind->fixed, end, RTA_OIF, &size);
    if (at && size == 4 && at + 4 <= end)
        memcpy(&index, at, 4);
    return index != 1;
}

static void say_body(struct writing *w, const struct shown_message *kind, const unsigned char *body, const unsigned char *end)
{
    say(w, " ");
    say_bytes(w, body, kind->fixed < end - body ? kind->fixed : end - body);
    for (const unsigned char *type = kind->attributes; *type; type++) {
        size_t size;
        const unsigned char *at = attribute_of(body + kind->fixed, end, *type, &size);
        if (at) {
            say(w, " %d=", *type);
            say_bytes(w, at, size);
        }
    }
}

/* An errno, and the message that it is about. */
static void say_refusal(struct writing *w, const unsigned char *body, const unsigned char *end)
{
    struct nlmsghdr about;
    int number;
    memcpy(&number, body, 4);
    say(w, " %s", number ? strerrorname_np(-number) : "0");
    if (body + 4 + sizeof about > end)
        return;
    memcpy(&about, body + 4, sizeof about);
    say(w, " of %u:%d:%x:%u:%u ", about.nlmsg_len, about.nlmsg_type, about.nlmsg_flags, about.nlmsg_seq, about.nlmsg_pid);
    say_bytes(w, body + 4 + sizeof about, end - body - 4 - sizeof about);
}

static void say_netlink(struct writing *w, const unsigned char *at, const unsigned char *end)
{
    struct nlmsghdr head;
    int has_rules = 0;
    for (; at + sizeof head <= end; at += (head.nlmsg_len + 3) & ~3u) {
        memcpy(&head, at, sizeof head);
        if (head.nlmsg_len < sizeof head || head.nlmsg_len > (size_t)(end - at)) {
            /* What programs send each other, or a part. */
            if (head.nlmsg_len > 1 << 16 && head.nlmsg_len != 0xaaaaaaaa)
                say_bytes(w, at, end - at);
            break;
        }
        const unsigned char *body = at + sizeof head, *after = at + head.nlmsg_len;
        const struct shown_message *kind = NULL;
        for (size_t i = 0; i < sizeof shown_messages / sizeof *shown_messages; i++)
            if (shown_messages[i].type == head.nlmsg_type)
                kind = &shown_messages[i];
        if (kind && is_elsewhere(kind, body, after))
            continue;
        /* Rules of multicast are there or not; the end of a list of rules is part of its last datagram or not. */
        if (head.nlmsg_type == RTM_NEWRULE && (*body & 0x80))
            continue;
        if (head.nlmsg_type == NLMSG_DONE && has_rules)
            break;
        has_rules |= head.nlmsg_type == RTM_NEWRULE;
        say(w, " %d:%x:%u:", head.nlmsg_type, head.nlmsg_flags, head.nlmsg_seq);
        say_pid(w, head.nlmsg_pid);
        if (kind)
            say_body(w, kind, body, after);
        else if (head.nlmsg_type == NLMSG_ERROR || head.nlmsg_type == NLMSG_DONE)
            say_refusal(w, body, after);
    }
}
