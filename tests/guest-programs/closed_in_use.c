/*
 * Descriptors that one thread closes, or gives to another file, while another
 * thread waits in a call on them: the call keeps the file and completes, and
 * the file's peers notice nothing before.
 */
#include "tcp.h"

#include <mqueue.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/wait.h>

#define LARGE (1 << 20)

/* A call that a second thread makes. */
struct waiting {
    long (*call)(struct waiting *);
    int fd, other;
    char data[64];
    long result;
    int error;
    _Atomic int tid;
    pthread_t thread;
};

static void *make_call(void *argument)
{
    struct waiting *waiting = argument;

    waiting->tid = gettid();
    waiting->result = waiting->call(waiting);
    waiting->error = errno;
    return NULL;
}

/* Whether a thread sleeps, proc_pid_stat(5). */
static int sleeps(int tid)
{
    char path[64], line[256];

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    int fd = MUST(open(path, O_RDONLY));
    long length = MUST(read(fd, line, sizeof line - 1));
    line[length] = 0;
    MUST(close(fd));
    return strstr(line, ") S ") != NULL;
}

/* Starts a call and returns when it waits. */
static void begin_with(struct waiting *waiting, long (*call)(struct waiting *), int fd, int other)
{
    *waiting = (struct waiting){ .call = call, .fd = fd, .other = other };
    waiting->thread = thread_start(make_call, waiting);
    while (!waiting->tid)
        sleep_ms(1);
    while (!sleeps(waiting->tid))
        sleep_ms(1);
    sleep_ms(5);
}

static void begin(struct waiting *waiting, long (*call)(struct waiting *), int fd)
{
    begin_with(waiting, call, fd, -1);
}

static void finish(const char *what, struct waiting *waiting)
{
    thread_join(waiting->thread);
    errno = waiting->error;
    show(what, waiting->result);
}

static void finish_with_data(const char *what, struct waiting *waiting)
{
    finish(what, waiting);
    bytes("it read", waiting->data, waiting->result > 0 ? waiting->result : 0);
}

static long call_read(struct waiting *waiting)
{
    return read(waiting->fd, waiting->data, sizeof waiting->data);
}

static long call_readv(struct waiting *waiting)
{
    struct iovec parts[2] = { { waiting->data, 2 }, { waiting->data + 2, 60 } };

    return readv(waiting->fd, parts, 2);
}

static long call_recv(struct waiting *waiting)
{
    return recv(waiting->fd, waiting->data, sizeof waiting->data, 0);
}

static long call_recv_all(struct waiting *waiting)
{
    return recv(waiting->fd, waiting->data, 6, MSG_WAITALL);
}

static long call_recvmsg(struct waiting *waiting)
{
    struct iovec part = { waiting->data, sizeof waiting->data };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

    return recvmsg(waiting->fd, &message, 0);
}

static long call_recvmmsg(struct waiting *waiting)
{
    struct iovec parts[2] = { { waiting->data, 8 }, { waiting->data + 8, 8 } };
    struct mmsghdr messages[2];

    memset(messages, 0, sizeof messages);
    for (int i = 0; i < 2; i++)
        messages[i].msg_hdr = (struct msghdr){ .msg_iov = &parts[i], .msg_iovlen = 1 };
    return recvmmsg(waiting->fd, messages, 2, 0, NULL);
}

static char large[LARGE];

static long call_write(struct waiting *waiting)
{
    return write(waiting->fd, large, LARGE);
}

static long call_send(struct waiting *waiting)
{
    return send(waiting->fd, large, LARGE, MSG_NOSIGNAL);
}

static long call_accept(struct waiting *waiting)
{
    return accept(waiting->fd, NULL, NULL) >= 0 ? 1 : -1;
}

static long call_poll(struct waiting *waiting)
{
    struct pollfd entry = { .fd = waiting->fd, .events = POLLIN };
    long ready = poll(&entry, 1, 2000);

    return ready < 0 ? ready : ready * 1000 + entry.revents;
}

static long call_poll_briefly(struct waiting *waiting)
{
    struct pollfd entry = { .fd = waiting->fd, .events = POLLIN };
    long ready = poll(&entry, 1, 100);

    return ready < 0 ? ready : ready * 1000 + entry.revents;
}

static long call_select(struct waiting *waiting)
{
    fd_set set;
    struct timeval time = { 0, 300000 };

    FD_ZERO(&set);
    FD_SET(waiting->fd, &set);
    return select(waiting->fd + 1, &set, NULL, NULL, &time);
}

static long call_epoll(struct waiting *waiting)
{
    struct epoll_event event;
    long ready = epoll_wait(waiting->fd, &event, 1, 2000);

    return ready < 0 ? ready : ready * 1000 + (long)event.data.u32;
}

static long call_flock(struct waiting *waiting)
{
    return flock(waiting->fd, LOCK_EX);
}

static long call_lock(struct waiting *waiting)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

    return fcntl(waiting->fd, F_SETLKW, &lock);
}

static long call_lock_of_file(struct waiting *waiting)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

    return fcntl(waiting->fd, F_OFD_SETLKW, &lock);
}

static long call_splice(struct waiting *waiting)
{
    return splice(waiting->fd, NULL, waiting->other, NULL, 64, 0);
}

static long call_sendfile(struct waiting *waiting)
{
    off_t from = 0;

    return sendfile(waiting->other, waiting->fd, &from, LARGE);
}

static long drain(int fd)
{
    char data[16384];
    long got, sum = 0;

    while ((got = read(fd, data, sizeof data)) > 0)
        sum += got;
    return got == 0 ? sum : -1;
}

CASE(reads_of_a_pipe)
{
    static long (*const calls[])(struct waiting *) = { call_read, call_readv };

    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        struct waiting reader;
        int ends[2];

        MUST(pipe(ends));
        signal(SIGPIPE, SIG_IGN);
        begin(&reader, calls[i], ends[0]);
        show("close", close(ends[0]));
        show("close again", close(ends[0]));
        show("write", write(ends[1], "hello", 5));
        finish_with_data("read", &reader);
        show("write to nobody", write(ends[1], "more", 4));
        close(ends[1]);
    }
}

CASE(end_of_a_pipe)
{
    struct waiting reader;
    int ends[2];

    MUST(pipe(ends));
    begin(&reader, call_read, ends[0]);
    show("close", close(ends[0]));
    show("close the other end", close(ends[1]));
    finish_with_data("read", &reader);
}

CASE(write_to_a_pipe)
{
    struct waiting writer;
    int ends[2];

    MUST(pipe(ends));
    begin(&writer, call_write, ends[1]);
    show("close", close(ends[1]));
    show("all that was read", drain(ends[0]));
    finish("write", &writer);
}

CASE(descriptor_given_to_another_file)
{
    struct waiting reader;
    int ends[2], others[2];

    MUST(pipe(ends));
    MUST(pipe(others));
    MUST(write(others[1], "other", 5));
    begin(&reader, call_read, ends[0]);
    show_ok("dup2", dup2(others[0], ends[0]));
    sleep_ms(20);
    show("write", write(ends[1], "hello", 5));
    finish_with_data("read", &reader);
    memset(reader.data, 0, sizeof reader.data);
    show("read of the new file", call_read(&reader));
    bytes("it read", reader.data, 5);
}

CASE(unix_sockets)
{
    static long (*const calls[])(struct waiting *) = { call_read, call_recv, call_recvmsg, call_recvmmsg };
    static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET };

    for (size_t type = 0; type < COUNT_OF(types); type++) {
        for (size_t i = 0; i < COUNT_OF(calls); i++) {
            struct waiting reader;
            int pair[2];

            MUST(socketpair(AF_UNIX, types[type], 0, pair));
            begin(&reader, calls[i], pair[0]);
            show("close", close(pair[0]));
            show("send", send(pair[1], "hello", 5, MSG_NOSIGNAL));
            if (calls[i] == call_recvmmsg)
                show("send", send(pair[1], "again", 5, MSG_NOSIGNAL));
            finish("receive", &reader);
            bytes("it read", reader.data, 5);
            show("send to nobody", send(pair[1], "more", 4, MSG_NOSIGNAL));
            close(pair[1]);
        }
    }
}

CASE(unix_stream_written)
{
    struct waiting writer;
    int pair[2];

    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    begin(&writer, call_send, pair[0]);
    show("close", close(pair[0]));
    show("all that was read", drain(pair[1]));
    finish("send", &writer);
}

CASE(tcp_received)
{
    static long (*const calls[])(struct waiting *) = { call_read, call_recv, call_recv_all, call_recvmsg };

    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        struct waiting reader;

        establish();
        begin(&reader, calls[i], client);
        show("close", close(client));
        sleep_ms(20);
        show_poll("the peer", session, 0);
        show("send", send(session, "abc", 3, MSG_NOSIGNAL));
        sleep_ms(20);
        if (calls[i] == call_recv_all)
            show("send", send(session, "def", 3, MSG_NOSIGNAL));
        finish_with_data("receive", &reader);
        await(session, POLLRDHUP);
        show_poll("the peer", session, 0);
        show("read", call_read(&(struct waiting){ .fd = session }));
        close(session);
        close(server);
    }
}

CASE(tcp_sent)
{
    struct waiting writer;

    establish();
    MUST(set_option(client, SOL_SOCKET, SO_SNDBUF, 65536));
    MUST(set_option(session, SOL_SOCKET, SO_RCVBUF, 65536));
    begin(&writer, call_send, client);
    show("close", close(client));
    show("all that was read", drain(session));
    finish("send", &writer);
}

CASE(tcp_accepted)
{
    struct waiting accepting;

    server = new_listener(8);
    int port = port_of(server);
    begin(&accepting, call_accept, server);
    show("close", close(server));
    client = new_socket();
    show("connect", try_connect(client, port));
    finish("accept", &accepting);
    int late = new_socket();
    show("connect later", try_connect(late, port));
}

CASE(udp_received)
{
    static long (*const calls[])(struct waiting *) = { call_read, call_recv, call_recvmsg };

    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        struct waiting reader;
        int receiver = MUST(socket(AF_INET, SOCK_DGRAM, 0)), sender = MUST(socket(AF_INET, SOCK_DGRAM, 0));

        MUST(try_bind(receiver, 0));
        MUST(try_connect(sender, port_of(receiver)));
        begin(&reader, calls[i], receiver);
        show("close", close(receiver));
        show("send", send(sender, "hello", 5, 0));
        finish_with_data("receive", &reader);
        show("send to nobody", send(sender, "more", 4, 0));
        sleep_ms(20);
        show("send again", send(sender, "more", 4, 0));
        close(sender);
    }
}

CASE(counter)
{
    struct waiting reader;
    uint64_t seven = 7;
    int fd = MUST(eventfd(0, 0)), second = MUST(dup(fd));

    begin(&reader, call_read, fd);
    show("close", close(fd));
    show("write", write(second, &seven, 8));
    finish("read", &reader);
    number("it read", reader.data[0]);
}

CASE(polled)
{
    struct waiting poller;
    int ends[2];

    MUST(pipe(ends));
    signal(SIGPIPE, SIG_IGN);
    begin(&poller, call_poll, ends[0]);
    show("close", close(ends[0]));
    show("write", write(ends[1], "hello", 5));
    finish("poll", &poller);
    show("write to nobody", write(ends[1], "more", 4));
}

CASE(polled_until_the_timeout)
{
    struct waiting poller;
    int ends[2];

    MUST(pipe(ends));
    begin(&poller, call_poll_briefly, ends[0]);
    show("close", close(ends[0]));
    finish("poll", &poller);
}

CASE(selected)
{
    struct waiting selecting;
    int ends[2];

    MUST(pipe(ends));
    signal(SIGPIPE, SIG_IGN);
    begin(&selecting, call_select, ends[0]);
    show("close", close(ends[0]));
    show("write", write(ends[1], "hello", 5));
    finish("select", &selecting);
    show("write to nobody", write(ends[1], "more", 4));
}

CASE(epoll_instance)
{
    struct waiting waiting;
    struct epoll_event event = { .events = EPOLLIN, .data.u32 = 7 };
    int ends[2], instance = MUST(epoll_create1(0));

    MUST(pipe(ends));
    MUST(epoll_ctl(instance, EPOLL_CTL_ADD, ends[0], &event));
    begin(&waiting, call_epoll, instance);
    show("close", close(instance));
    show("write", write(ends[1], "hello", 5));
    finish("epoll_wait", &waiting);
}

CASE(file_that_epoll_watches)
{
    struct waiting reader;
    struct epoll_event event = { .events = EPOLLIN | EPOLLHUP, .data.u32 = 7 };
    int pair[2], instance = MUST(epoll_create1(0));

    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    MUST(epoll_ctl(instance, EPOLL_CTL_ADD, pair[0], &event));
    begin(&reader, call_recv_all, pair[0]);
    show("close", close(pair[0]));
    show("send", send(pair[1], "abc", 3, MSG_NOSIGNAL));
    show("send", send(pair[1], "defgh", 5, MSG_NOSIGNAL));
    finish_with_data("receive", &reader);
    show("epoll_wait", epoll_wait(instance, &event, 1, 0));
}

CASE(locks)
{
    static long (*const calls[])(struct waiting *) = { call_flock, call_lock_of_file };

    scratch();
    file_make("file", "content");
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        struct waiting locking, holder = { .fd = MUST(open("file", O_RDWR)) }, later = { .fd = MUST(open("file", O_RDWR)) };
        int fd = MUST(open("file", O_RDWR));

        MUST(calls[i](&holder));
        begin(&locking, calls[i], fd);
        show("close", close(fd));
        MUST(close(holder.fd));
        finish("lock", &locking);
        show("lock later", calls[i](&later));
        close(later.fd);
    }
}

CASE(record_lock)
{
    struct waiting locking;
    int release[2], ready[2];
    char byte;

    scratch();
    file_make("file", "content");
    MUST(pipe(release));
    MUST(pipe(ready));
    fflush(stdout);
    if (MUST(fork()) == 0) {
        struct waiting holder = { .fd = MUST(open("file", O_RDWR)) };

        MUST(call_lock(&holder));
        MUST(write(ready[1], "x", 1));
        MUST(read(release[0], &byte, 1));
        _exit(0);
    }
    MUST(read(ready[0], &byte, 1));
    int fd = MUST(open("file", O_RDWR));
    begin(&locking, call_lock, fd);
    show("close", close(fd));
    MUST(write(release[1], "x", 1));
    finish("lock", &locking);
    fflush(stdout);
    if (MUST(fork()) == 0) {
        struct waiting later = { .fd = MUST(open("file", O_RDWR)) };

        alarm(2);
        show("lock of another process", call_lock(&later));
        fflush(stdout);
        _exit(0);
    }
    for (int status; wait(&status) != -1;)
        ;
}

CASE(spliced)
{
    struct waiting splicing;
    int from[2], to[2];

    for (int both = 0; both < 2; both++) {
        MUST(pipe(from));
        MUST(pipe(to));
        begin_with(&splicing, call_splice, from[0], to[1]);
        show("close the input", close(from[0]));
        if (both)
            show("close the output", close(to[1]));
        show("write", write(from[1], "hello", 5));
        finish("splice", &splicing);
        splicing.fd = to[0];
        show("read", call_read(&splicing));
        bytes("it read", splicing.data, 5);
        for (int i = 0; i < 2; i++) {
            close(from[i]);
            close(to[i]);
        }
    }
}

CASE(sent_from_a_file)
{
    struct waiting sending;
    int pair[2], fd;

    scratch();
    fd = MUST(open("file", O_RDWR | O_CREAT, 0644));
    MUST(ftruncate(fd, LARGE));
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    begin_with(&sending, call_sendfile, fd, pair[0]);
    show("close the file", close(fd));
    show("close the socket", close(pair[0]));
    show("all that was read", drain(pair[1]));
    finish("sendfile", &sending);
}

static long call_send_descriptor(struct waiting *waiting)
{
    char control[CMSG_SPACE(sizeof(int))] = { 0 };
    struct iovec part = { "x", 1 };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control
    };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    *header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
    memcpy(CMSG_DATA(header), &waiting->other, sizeof(int));
    return sendmsg(waiting->fd, &message, 0);
}

CASE(descriptor_in_a_message)
{
    char data[64], control[CMSG_SPACE(sizeof(int))];
    struct waiting sending;
    int pair[2], ends[2], got;

    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
    MUST(pipe(ends));
    set_nonblocking(pair[0]);
    while (send(pair[0], "full", 4, 0) == 4)
        ;
    MUST(fcntl(pair[0], F_SETFL, 0));
    begin_with(&sending, call_send_descriptor, pair[0], ends[1]);
    show("close the descriptor that is sent", close(ends[1]));
    for (;;) {
        struct iovec part = { data, sizeof data };
        struct msghdr message = {
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control
        };
        struct cmsghdr *header;

        MUST(recvmsg(pair[1], &message, 0));
        header = CMSG_FIRSTHDR(&message);
        if (header) {
            memcpy(&got, CMSG_DATA(header), sizeof got);
            break;
        }
    }
    finish("sendmsg", &sending);
    show("write", write(got, "hello", 5));
    show("read", read(ends[0], data, sizeof data));
}

CASE(opening_of_a_fifo_whose_process_dies)
{
    scratch();
    MUST(mkfifo("fifo", 0644));
    pid_t child = MUST(fork());
    if (child == 0) {
        open("fifo", O_RDONLY);
        _exit(0);
    }
    sleep_ms(50);
    MUST(kill(child, SIGKILL));
    MUST(waitpid(child, NULL, 0));
    show("open for writing", open("fifo", O_WRONLY | O_NONBLOCK));
}

static long call_receive_message(struct waiting *waiting)
{
    return mq_receive(waiting->fd, waiting->data, sizeof waiting->data, NULL);
}

CASE(message_queue)
{
    struct mq_attr form = { .mq_maxmsg = 4, .mq_msgsize = 64 };
    struct waiting reader;
    mqd_t queue = MUST(mq_open("/gnomon-closed-in-use", O_RDWR | O_CREAT | O_EXCL, 0600, &form));
    mqd_t second = MUST(mq_open("/gnomon-closed-in-use", O_RDWR));

    mq_unlink("/gnomon-closed-in-use");
    begin(&reader, call_receive_message, queue);
    show("close", mq_close(queue));
    show("send", mq_send(second, "hello", 5, 0));
    finish_with_data("receive", &reader);
}

static long call_close(struct waiting *waiting)
{
    return close(waiting->fd);
}

CASE(number_of_a_lingering_socket_is_free)
{
    struct linger linger = { .l_onoff = 1, .l_linger = 1 };
    struct waiting closing;

    establish();
    MUST(set_option(session, SOL_SOCKET, SO_RCVBUF, 4096));
    set_nonblocking(client);
    while (write(client, large, LARGE) > 0)
        ;
    MUST(setsockopt(client, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
    begin(&closing, call_close, client);
    show("F_GETFD", fcntl(client, F_GETFD));
    close(session);
    finish("close", &closing);
}
