/* POSIX message queues. */
#include "process.h"

#include <mqueue.h>
#include <poll.h>
#include <sys/epoll.h>

static char queue_name[64];

/* The name of this case's queue. */
static const char *name(void)
{
    snprintf(queue_name, sizeof queue_name, "/gnomon-%s-%d", case_running, (int)getpid());
    return queue_name;
}

static mqd_t make_queue(long messages, long size, int flags)
{
    struct mq_attr attr = { .mq_maxmsg = messages, .mq_msgsize = size };
    mqd_t queue = mq_open(name(), O_RDWR | O_CREAT | O_EXCL | flags, 0600, &attr);

    MUST(queue);
    return queue;
}

static void drop(mqd_t queue)
{
    mq_close(queue);
    mq_unlink(name());
}

static int send_text(mqd_t queue, const char *text, unsigned priority)
{
    return mq_send(queue, text, strlen(text), priority);
}

static void receive(const char *what, mqd_t queue)
{
    char data[8192];
    unsigned priority = 99;
    long got = mq_receive(queue, data, sizeof data, &priority);

    if (got == -1)
        printf("%s: %s\n", what, errno_name(errno));
    else
        printf("%s: priority %u \"%.*s\"\n", what, priority, (int)got, data);
}

CASE(priorities_order_messages)
{
    mqd_t queue = make_queue(10, 100, O_NONBLOCK);

    show("send", send_text(queue, "low", 1));
    show("send", send_text(queue, "high", 31));
    show("send", send_text(queue, "low again", 1));
    show("send", send_text(queue, "", 0));
    show("send", send_text(queue, "highest", 32767));
    for (int i = 0; i < 6; i++)
        receive("message", queue);
    drop(queue);
}

CASE(attributes)
{
    mqd_t queue = make_queue(3, 17, 0);
    struct mq_attr attr, set = { .mq_flags = O_NONBLOCK, .mq_maxmsg = 9, .mq_msgsize = 9 };

    send_text(queue, "x", 0);
    show("getattr", mq_getattr(queue, &attr));
    printf("%ld %ld %ld %ld\n", attr.mq_flags, attr.mq_maxmsg, attr.mq_msgsize, attr.mq_curmsgs);
    show("setattr", mq_setattr(queue, &set, &attr));
    printf("%ld %ld %ld %ld\n", attr.mq_flags, attr.mq_maxmsg, attr.mq_msgsize, attr.mq_curmsgs);
    mq_getattr(queue, &attr);
    printf("nonblocking %d, %ld %ld\n", attr.mq_flags == O_NONBLOCK, attr.mq_maxmsg, attr.mq_msgsize);
    truth("in fcntl", fcntl(queue, F_GETFL) & O_NONBLOCK);
    set.mq_flags = 1;
    show("other flags", mq_setattr(queue, &set, NULL));
    drop(queue);
}

CASE(default_attributes)
{
    mqd_t queue = mq_open(name(), O_RDWR | O_CREAT, 0600, NULL);
    struct mq_attr attr;

    MUST(mq_getattr(queue, &attr));
    printf("%ld %ld\n", attr.mq_maxmsg, attr.mq_msgsize);
    truth("close-on-exec", fcntl(queue, F_GETFD) & FD_CLOEXEC);
    drop(queue);
}

CASE(names)
{
    mqd_t queue = make_queue(1, 1, 0), again;
    char longest[300];

    again = mq_open(name(), O_RDONLY);
    show_ok("open", again);
    show("exclusive", mq_open(name(), O_RDWR | O_CREAT | O_EXCL, 0600, NULL));
    show("missing", mq_open("/gnomon-there-is-none", O_RDWR));
    show("without slash", mq_open("gnomon", O_RDWR | O_CREAT, 0600, NULL));
    show("two slashes", mq_open("/gnomon/x", O_RDWR | O_CREAT, 0600, NULL));
    show("empty", mq_open("/", O_RDWR | O_CREAT, 0600, NULL));
    memset(longest, 'x', sizeof longest);
    longest[0] = '/';
    longest[299] = 0;
    show("long", mq_open(longest, O_RDWR | O_CREAT, 0600, NULL));
    show("unlink", mq_unlink(name()));
    show("unlink again", mq_unlink(name()));
    show("open after", mq_open(name(), O_RDWR));
    show("still works", send_text(queue, "x", 0));
    receive("message", again);
    mq_close(again);
    mq_close(queue);
}

CASE(errors)
{
    mqd_t queue = make_queue(2, 4, O_NONBLOCK), reader = mq_open(name(), O_RDONLY), writer = mq_open(name(), O_WRONLY);
    char data[8];
    struct mq_attr bad = { .mq_maxmsg = 0, .mq_msgsize = 1 };

    show("too long", send_text(queue, "12345", 0));
    show("longest", send_text(queue, "1234", 0));
    show("priority", send_text(queue, "1", 32768));
    show("small buffer", mq_receive(queue, data, 3, NULL));
    show("send to reader", send_text(reader, "1", 0));
    show("receive from writer", mq_receive(writer, data, 8, NULL));
    show("send to a file", send_text(1, "1", 0));
    show("send to nothing", send_text(-1, "1", 0));
    show("fill", send_text(queue, "2", 0));
    show("full", send_text(queue, "3", 0));
    show("no messages at all", mq_open("/gnomon-bad", O_RDWR | O_CREAT, 0600, &bad));
    show("write", write(queue, "x", 1));
    mq_close(reader);
    mq_close(writer);
    drop(queue);
}

struct work {
    mqd_t queue;
    const char *text;
};

static int wait_for_message(void *argument)
{
    struct work *work = argument;
    char data[64];
    unsigned priority = 0;

    return mq_receive(work->queue, data, sizeof data, &priority) == 1 ? data[0] + priority : errno;
}

static int send_slowly(void *argument)
{
    struct work *work = argument;

    return send_text(work->queue, work->text, 5) == 0 ? 0 : errno;
}

CASE(a_receiver_waits)
{
    struct work work = { make_queue(2, 8, 0), "A" };
    pid_t pid = child_start(wait_for_message, &work);

    sleep_ms(30);
    send_text(work.queue, "A", 3);
    child_end("child", pid);
    drop(work.queue);
}

CASE(a_sender_waits)
{
    struct work work = { make_queue(1, 8, 0), "late" };
    pid_t pid;

    send_text(work.queue, "first", 1);
    pid = child_start(send_slowly, &work);
    sleep_ms(30);
    receive("first", work.queue);
    child_end("child", pid);
    receive("second", work.queue);
    drop(work.queue);
}

CASE(two_receivers_are_served_in_order)
{
    struct work work = { make_queue(4, 8, 0), NULL };
    pid_t first = child_start(wait_for_message, &work), second;

    sleep_ms(30);
    second = child_start(wait_for_message, &work);
    sleep_ms(30);
    send_text(work.queue, "1", 0);
    send_text(work.queue, "2", 9);
    child_end("first", first);
    child_end("second", second);
    drop(work.queue);
}

CASE(timeouts)
{
    mqd_t queue = make_queue(1, 8, 0);
    char data[8];
    struct timespec until = timespec_of_ns(clock_ns(CLOCK_REALTIME) + 40000000), past = { 1, 0 }, bad = { 1, -1 };
    int64_t start = now_ns();

    show("receive", mq_timedreceive(queue, data, 8, NULL, &until));
    show_elapsed(start, 35);
    show("past", mq_timedreceive(queue, data, 8, NULL, &past));
    show("bad", mq_timedreceive(queue, data, 8, NULL, &bad));
    show("send with room", mq_timedsend(queue, "x", 1, 0, &past));
    show("send without", mq_timedsend(queue, "x", 1, 0, &past));
    until = timespec_of_ns(clock_ns(CLOCK_REALTIME) + 40000000);
    show("send", mq_timedsend(queue, "x", 1, 0, &until));
    show("receive what is there", mq_timedreceive(queue, data, 8, NULL, &past));
    drop(queue);
}

static void on_alarm(int signal)
{
    (void)signal;
}

CASE(signals_interrupt)
{
    mqd_t queue = make_queue(1, 8, 0);
    struct sigaction action = { .sa_handler = on_alarm };
    struct itimerval soon = { { 0, 0 }, { 0, 30000 } };
    char data[8];

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    show("receive", mq_receive(queue, data, 8, NULL));
    send_text(queue, "x", 0);
    setitimer(ITIMER_REAL, &soon, NULL);
    show("send", send_text(queue, "x", 0));
    drop(queue);
}

static volatile int notified, notified_code, notified_value, notified_pid;

static void on_notice(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    notified++;
    notified_code = info->si_code;
    notified_value = info->si_value.sival_int;
    notified_pid = info->si_pid;
}

CASE(notification_by_signal)
{
    mqd_t queue = make_queue(4, 8, 0);
    struct sigaction action = { .sa_sigaction = on_notice, .sa_flags = SA_SIGINFO };
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 77 };

    notified = 0;
    sigaction(SIGUSR1, &action, NULL);
    show("notify", mq_notify(queue, &event));
    show("notify again", mq_notify(queue, &event));
    send_text(queue, "x", 0);
    printf("%d: code %s, value %d, own pid %d\n", notified, notified_code == SI_MESGQ ? "SI_MESGQ" : "other",
           notified_value, notified_pid == getpid());
    send_text(queue, "y", 0);
    number("once only", notified);
    show("notify with messages there", mq_notify(queue, &event));
    send_text(queue, "z", 0);
    number("not when it was not empty", notified);
    show("take it back", mq_notify(queue, NULL));
    show("take nothing back", mq_notify(queue, NULL));
    for (int i = 0; i < 3; i++)
        receive("message", queue);
    send_text(queue, "w", 0);
    number("after that", notified);
    drop(queue);
}

static int register_in_child(void *argument)
{
    struct work *work = argument;
    struct sigevent event = { .sigev_notify = SIGEV_NONE };

    return mq_notify(work->queue, &event) == 0 ? 0 : errno;
}

CASE(the_end_of_the_registered_process_frees_the_place)
{
    struct work work = { make_queue(4, 8, 0), NULL };
    struct sigevent event = { .sigev_notify = SIGEV_NONE };

    in_child("child", register_in_child, &work);
    show("notify", mq_notify(work.queue, &event));
    in_child("child", register_in_child, &work);
    send_text(work.queue, "x", 0);
    receive("message", work.queue);
    in_child("after the notice", register_in_child, &work);
    event.sigev_notify = 99;
    show("unknown kind", mq_notify(work.queue, &event));
    event = (struct sigevent){ .sigev_notify = SIGEV_SIGNAL, .sigev_signo = 1000 };
    show("unknown signal", mq_notify(work.queue, &event));
    drop(work.queue);
}

static int thread_gate[2];

static void on_thread(union sigval value)
{
    char byte = value.sival_int;

    MUST(write(thread_gate[1], &byte, 1));
}

CASE(notification_by_thread)
{
    mqd_t queue = make_queue(4, 8, 0);
    struct sigevent event = { .sigev_notify = SIGEV_THREAD, .sigev_notify_function = on_thread, .sigev_value.sival_int = 'T' };
    char byte = 0;

    make_pipe(thread_gate);
    show("notify", mq_notify(queue, &event));
    send_text(queue, "x", 0);
    MUST(read(thread_gate[0], &byte, 1));
    bytes("thread", &byte, 1);
    receive("message", queue);
    show("notify again", mq_notify(queue, &event));
    show("take it back", mq_notify(queue, NULL));
    drop(queue);
}

CASE(a_receiver_that_waits_is_served_before_any_notice)
{
    struct work work = { make_queue(4, 8, 0), NULL };
    struct sigaction action = { .sa_sigaction = on_notice, .sa_flags = SA_SIGINFO };
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
    pid_t pid;

    notified = 0;
    sigaction(SIGUSR1, &action, NULL);
    mq_notify(work.queue, &event);
    pid = child_start(wait_for_message, &work);
    sleep_ms(40);
    send_text(work.queue, "1", 0);
    child_end("child", pid);
    number("notices", notified);
    send_text(work.queue, "2", 0);
    number("notices", notified);
    drop(work.queue);
}

CASE(poll_and_epoll)
{
    mqd_t queue = make_queue(2, 8, 0);
    struct pollfd poll_fd = { .fd = queue, .events = POLLIN | POLLOUT };
    struct epoll_event event = { .events = EPOLLIN | EPOLLET };
    int epoll = MUST(epoll_create1(0));

    MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, queue, &event));
    poll(&poll_fd, 1, 0);
    printf("empty: %#x\n", (unsigned)poll_fd.revents);
    send_text(queue, "x", 0);
    poll(&poll_fd, 1, 0);
    printf("one: %#x\n", (unsigned)poll_fd.revents);
    show("epoll", epoll_wait(epoll, &event, 1, 0));
    show("epoll again", epoll_wait(epoll, &event, 1, 0));
    send_text(queue, "x", 0);
    poll(&poll_fd, 1, 0);
    printf("full: %#x\n", (unsigned)poll_fd.revents);
    drop(queue);
}

CASE(the_limit_of_bytes)
{
    struct rlimit limit = { 50000, 50000 };
    struct mq_attr attr = { .mq_maxmsg = 10, .mq_msgsize = 8000 };
    pid_t pid;

    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        name();
        MUST(setrlimit(RLIMIT_MSGQUEUE, &limit));
        show("too large", mq_open(queue_name, O_RDWR | O_CREAT, 0600, &attr));
        attr.mq_msgsize = 2000;
        show_ok("small", mq_open(queue_name, O_RDWR | O_CREAT, 0600, &attr));
        mq_unlink(queue_name);
        fflush(stdout);
        _exit(0);
    }
    child_end("child", pid);
}

CASE(its_file_describes_it)
{
    mqd_t queue = make_queue(4, 8, 0);
    char line[200];
    long got;

    send_text(queue, "12345", 0);
    got = read(queue, line, sizeof line);
    bytes("line", line, got);
    show("at the end", read(queue, line, sizeof line));
    drop(queue);
}

/* Each access mode with each call. */
CASE(matrix_of_access_modes)
{
    static const int modes[] = { O_RDONLY, O_WRONLY, O_RDWR };
    static const char *const words[] = { "read", "write", "both" };
    mqd_t queue = make_queue(4, 8, 0);

    for (size_t m = 0; m < COUNT_OF(modes); m++) {
        mqd_t other = mq_open(name(), modes[m] | O_NONBLOCK);
        char data[8];

        printf("%s\n", words[m]);
        show("  send", send_text(other, "x", 0));
        show("  receive", mq_receive(other, data, 8, NULL));
        show("  receive again", mq_receive(other, data, 8, NULL));
        mq_close(other);
    }
    drop(queue);
}
