/* System V message queues: types, sizes, waiting, removal. */
#include "process.h"

#include <limits.h>
#include <sys/ipc.h>
#include <sys/msg.h>

struct message {
    long type;
    char text[8200];
};

static int make_queue(void)
{
    return MUST(msgget(IPC_PRIVATE, IPC_CREAT | 0600));
}

static void drop(int id)
{
    msgctl(id, IPC_RMID, NULL);
}

static int send_text(int id, long type, const char *text)
{
    struct message message = { .type = type };

    strcpy(message.text, text);
    return msgsnd(id, &message, strlen(text), IPC_NOWAIT);
}

/* Prints what a receive call gets. */
static void receive(const char *what, int id, size_t size, long type, int flags)
{
    struct message message = { 0 };
    long got = msgrcv(id, &message, size, type, flags);

    if (got == -1)
        printf("%s: %s\n", what, errno_name(errno));
    else
        printf("%s: type %ld \"%.*s\"\n", what, message.type, (int)got, message.text);
}

static long count(int id)
{
    struct msqid_ds data;

    return msgctl(id, IPC_STAT, &data) == -1 ? -1 : (long)data.msg_qnum;
}

CASE(messages_come_in_order)
{
    int id = make_queue();

    show("send", send_text(id, 3, "first"));
    show("send", send_text(id, 1, "second"));
    show("send", send_text(id, 2, ""));
    number("messages", count(id));
    receive("any", id, 100, 0, 0);
    receive("any", id, 100, 0, 0);
    receive("empty text", id, 100, 0, 0);
    receive("none", id, 100, 0, IPC_NOWAIT);
    drop(id);
}

CASE(types_choose)
{
    int id = make_queue();

    for (int i = 0; i < 8; i++) {
        char text[] = { '0' + i, 0 };

        send_text(id, "\3\1\2\5\1\2\4\3"[i], text);
    }
    receive("type 2", id, 9, 2, 0);
    receive("type 7", id, 9, 7, IPC_NOWAIT);
    receive("lowest up to 3", id, 9, -3, 0);
    receive("lowest up to 3", id, 9, -3, 0);
    receive("lowest up to 3", id, 9, -3, 0);
    receive("not 3", id, 9, 3, MSG_EXCEPT);
    receive("not 4", id, 9, 4, MSG_EXCEPT);
    receive("lowest up to 1", id, 9, -1, IPC_NOWAIT);
    receive("lowest of all", id, 9, LONG_MIN, 0);
    receive("rest", id, 9, 0, IPC_NOWAIT);
    receive("rest", id, 9, 0, IPC_NOWAIT);
    drop(id);
}

CASE(sizes)
{
    int id = make_queue();

    send_text(id, 1, "abcdef");
    receive("too small", id, 3, 0, 0);
    number("still there", count(id));
    receive("cut", id, 3, 0, MSG_NOERROR);
    number("left", count(id));
    send_text(id, 1, "xyz");
    receive("no room at all", id, 0, 0, MSG_NOERROR);
    number("left", count(id));
    drop(id);
}

CASE(errors)
{
    int id = make_queue();
    struct message message = { .type = 1 };

    show("type 0", send_text(id, 0, "x"));
    show("type -1", send_text(id, -1, "x"));
    show("too long", msgsnd(id, &message, 8193, IPC_NOWAIT));
    show("longest", msgsnd(id, &message, 8192, IPC_NOWAIT));
    show("negative size", msgsnd(id, &message, -1, IPC_NOWAIT));
    show("no memory", syscall(SYS_msgsnd, id, (void *)8, 1, IPC_NOWAIT));
    show("id -1", send_text(-1, 1, "x"));
    show("unknown id", send_text(0x7ffffffe, 1, "x"));
    show("receive negative", msgrcv(id, &message, -1, 0, IPC_NOWAIT));
    show("receive from -1", msgrcv(-1, &message, 1, 0, IPC_NOWAIT));
    show("command", msgctl(id, 55, NULL));
    drop(id);
    show("after removal", send_text(id, 1, "x"));
    show("removal again", msgctl(id, IPC_RMID, NULL));
}

CASE(keys)
{
    key_t key = 0x69000000 + getpid();
    int id;

    show("missing", msgget(key, 0));
    id = show_ok("create", msgget(key, IPC_CREAT | IPC_EXCL | 0600));
    truth("found", msgget(key, 0) == id);
    show("exclusive", msgget(key, IPC_CREAT | IPC_EXCL | 0600));
    drop(id);
    show("gone", msgget(key, 0));
}

CASE(a_full_queue)
{
    int id = make_queue();
    struct message message = { .type = 1 };
    struct msqid_ds data;
    int sent = 0;

    while (msgsnd(id, &message, 1000, IPC_NOWAIT) == 0)
        sent++;
    show("send", msgsnd(id, &message, 1000, IPC_NOWAIT));
    number("messages of 1000 bytes", sent);
    show("a smaller one", msgsnd(id, &message, 300, IPC_NOWAIT));
    MUST(msgctl(id, IPC_STAT, &data));
    printf("%lu messages, %lu bytes of %lu\n", data.msg_qnum, data.__msg_cbytes, data.msg_qbytes);
    drop(id);
}

CASE(empty_messages_count_too)
{
    int id = make_queue();
    struct msqid_ds data;
    int sent = 0;

    MUST(msgctl(id, IPC_STAT, &data));
    data.msg_qbytes = 5;
    show("set", msgctl(id, IPC_SET, &data));
    while (send_text(id, 1, "") == 0)
        sent++;
    number("empty messages in 5 bytes", sent);
    drop(id);
}

struct peer {
    int id;
    long type;
    int flags;
    size_t size;
};

static int wait_for_message(void *argument)
{
    struct peer *peer = argument;
    struct message message = { 0 };
    long got = msgrcv(peer->id, &message, peer->size, peer->type, peer->flags);

    return got == -1 ? 100 + errno : message.text[0];
}

CASE(a_receiver_waits)
{
    struct peer peer = { make_queue(), 0, 0, 10 };
    pid_t pid = child_start(wait_for_message, &peer);
    struct msqid_ds data;

    until_it_waits(pid);
    send_text(peer.id, 1, "A");
    child_end("child", pid);
    MUST(msgctl(peer.id, IPC_STAT, &data));
    truth("received by the child", data.msg_lrpid == pid);
    truth("sent by this one", data.msg_lspid == getpid());
    number("left", data.msg_qnum);
    drop(peer.id);
}

CASE(receivers_get_what_they_wait_for)
{
    struct peer peers[] = { { make_queue(), 5, 0, 10 }, { 0, -3, 0, 10 }, { 0, 0, 0, 10 }, { 0, 0, 0, 10 } };
    pid_t pids[4];

    for (int i = 0; i < 4; i++) {
        peers[i].id = peers[0].id;
        pids[i] = child_start(wait_for_message, &peers[i]);
        until_it_waits(pids[i]);
    }
    send_text(peers[0].id, 9, "a");
    child_end("third, any", pids[2]);
    send_text(peers[0].id, 2, "b");
    child_end("second, up to 3", pids[1]);
    send_text(peers[0].id, 5, "c");
    child_end("first, 5", pids[0]);
    send_text(peers[0].id, 5, "d");
    child_end("fourth, any", pids[3]);
    number("left", count(peers[0].id));
    drop(peers[0].id);
}

CASE(a_receiver_with_too_little_room_learns_it)
{
    struct peer small = { make_queue(), 0, 0, 2 }, large = { small.id, 0, 0, 10 };
    pid_t first = child_start(wait_for_message, &small), second;

    until_it_waits(first);
    second = child_start(wait_for_message, &large);
    until_it_waits(second);
    send_text(small.id, 1, "long");
    child_end("small", first);
    child_end("large", second);
    drop(small.id);
}

static int wait_to_send(void *argument)
{
    struct message message = { .type = 7, .text = "Z" };

    return msgsnd(*(int *)argument, &message, 1, 0) == 0 ? 0 : 100 + errno;
}

static int full_queue(void)
{
    int id = make_queue();
    struct message message = { .type = 1 };

    while (msgsnd(id, &message, 4096, IPC_NOWAIT) == 0)
        ;
    return id;
}

CASE(a_sender_waits_for_room)
{
    int id = full_queue();
    pid_t pid = child_start(wait_to_send, &id);
    struct message message;

    until_it_waits(pid);
    number("messages", count(id));
    number("received", msgrcv(id, &message, 8192, 0, 0));
    child_end("child", pid);
    receive("its message", id, 10, 7, IPC_NOWAIT);
    drop(id);
}

CASE(removal_wakes_all)
{
    struct peer peer = { make_queue(), 0, 0, 10 };
    int full = full_queue(), status;
    pid_t receiver = child_start(wait_for_message, &peer), sender = child_start(wait_to_send, &full);

    until_it_waits(receiver);
    until_it_waits(sender);
    drop(peer.id);
    MUST(waitpid(receiver, &status, 0));
    text("receiver", errno_name(WEXITSTATUS(status) - 100));
    drop(full);
    MUST(waitpid(sender, &status, 0));
    text("sender", errno_name(WEXITSTATUS(status) - 100));
}

static void on_alarm(int signal)
{
    (void)signal;
}

CASE(signals_interrupt)
{
    int id = make_queue(), full = full_queue();
    struct message message = { .type = 1 };
    struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
    struct itimerval soon = { { 0, 0 }, { 0, 30000 } };

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    show("receive", msgrcv(id, &message, 10, 0, 0));
    setitimer(ITIMER_REAL, &soon, NULL);
    show("send", msgsnd(full, &message, 10, 0));
    drop(id);
    drop(full);
}

CASE(copies)
{
    int id = make_queue();

    send_text(id, 4, "one");
    send_text(id, 5, "two");
#ifdef MSG_COPY
    receive("copy of 1", id, 10, 1, MSG_COPY | IPC_NOWAIT);
    receive("copy of 0", id, 10, 0, MSG_COPY | IPC_NOWAIT);
    receive("copy of 2", id, 10, 2, MSG_COPY | IPC_NOWAIT);
    receive("copy that waits", id, 10, 0, MSG_COPY);
    receive("copy of others", id, 10, 0, MSG_COPY | MSG_EXCEPT | IPC_NOWAIT);
#endif
    number("left", count(id));
    drop(id);
}

CASE(stat_and_set)
{
    int id = make_queue();
    struct msqid_ds data;

    MUST(msgctl(id, IPC_STAT, &data));
    printf("mode %o, %lu of %lu bytes\n", data.msg_perm.mode, data.__msg_cbytes, data.msg_qbytes);
    truth("unused", data.msg_stime == 0 && data.msg_rtime == 0 && data.msg_lspid == 0 && data.msg_lrpid == 0);
    truth("made", data.msg_ctime > 0);
    data.msg_perm.mode = 0622;
    data.msg_qbytes = 100;
    show("set", msgctl(id, IPC_SET, &data));
    MUST(msgctl(id, IPC_STAT, &data));
    printf("mode %o, %lu bytes\n", data.msg_perm.mode, data.msg_qbytes);
    drop(id);
}

CASE(limits)
{
    struct msginfo info;
    int id = make_queue();

    send_text(id, 1, "12345");
    truth("ipc_info", msgctl(0, IPC_INFO, (struct msqid_ds *)&info) >= 0);
    printf("%d %d %d\n", info.msgmax, info.msgmnb, info.msgmni);
    truth("msg_info", msgctl(0, MSG_INFO, (struct msqid_ds *)&info) >= 0);
    truth("used", info.msgpool >= 1 && info.msgmap >= 1 && info.msgtql >= 5);
    drop(id);
}

CASE(proc_lists_queues)
{
    int id = make_queue();
    char line[512];
    FILE *file;

    send_text(id, 1, "12345");
    file = fopen("/proc/sysvipc/msg", "r");
    while (file && fgets(line, sizeof line, file)) {
        int key, row;
        unsigned mode;
        unsigned long bytes, messages;

        if (sscanf(line, "%d %d %o %lu %lu", &key, &row, &mode, &bytes, &messages) == 5 && row == id)
            printf("key %d mode %o bytes %lu messages %lu\n", key, mode, bytes, messages);
    }
    if (file)
        fclose(file);
    drop(id);
}

/* Which of five messages each request takes, and what it does when there is none. */
CASE(matrix_of_requests)
{
    static const int flags[] = { 0, MSG_EXCEPT, MSG_NOERROR };

    for (long type = -6; type <= 6; type++)
        for (size_t f = 0; f < COUNT_OF(flags); f++) {
            int id = make_queue();
            char what[64];

            send_text(id, 4, "four");
            send_text(id, 2, "two");
            send_text(id, 5, "fivefive");
            send_text(id, 2, "zwei");
            snprintf(what, sizeof what, "type %ld flags %o", type, flags[f]);
            receive(what, id, 4, type, flags[f] | IPC_NOWAIT);
            drop(id);
        }
}
