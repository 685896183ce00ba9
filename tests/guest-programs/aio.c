/*
 * Asynchronous input and output: contexts, operations on files and pipes, what
 * is refused at once and what by an event, rings, waits, eventfds.
 */
#include "case.h"

#include <linux/aio_abi.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>

/* The head of a context's memory, fs/aio.c. */
struct ring {
    unsigned id, events, head, tail, magic, compatible, incompatible, header_bytes;
};

static aio_context_t context;

static long setup(unsigned events)
{
    context = 0;
    return syscall(SYS_io_setup, events, &context);
}

static long destroy(void)
{
    return syscall(SYS_io_destroy, context);
}

static long submit(long count, struct iocb **all)
{
    return syscall(SYS_io_submit, context, count, all);
}

static long submit_one(struct iocb *one)
{
    return submit(1, &one);
}

static long get(long least, long most, struct io_event *events, long ms)
{
    struct timespec limit = timespec_of_ms(ms);

    return syscall(SYS_io_getevents, context, least, most, events, ms < 0 ? NULL : &limit);
}

static struct iocb operation(int command, int fd, const void *buffer, size_t count, long long offset)
{
    return (struct iocb){ .aio_data = 7, .aio_key = 99, .aio_lio_opcode = command, .aio_fildes = fd, .aio_buf = (uintptr_t)buffer,
                          .aio_nbytes = count, .aio_offset = offset };
}

/* Submits one operation and shows its event, if it is accepted. */
static long perform(const char *what, struct iocb one)
{
    struct io_event event = { 0 };

    if (show(what, submit_one(&one)) != 1)
        return -1;
    if (get(1, 1, &event, 1000) != 1) {
        text(what, "has no event");
        return -1;
    }
    printf("event: %llu, ours %d, key %u, %lld %s, %lld\n", event.data, event.obj == (uintptr_t)&one, one.aio_key, event.res,
           event.res < 0 ? errno_name(-event.res) : "", event.res2);
    return event.res;
}

CASE(contexts)
{
    show("setup", setup(8));
    truth("context", context != 0);
    aio_context_t first = context;
    show("setup again with it", syscall(SYS_io_setup, 8, &context));
    show("second", setup(1));
    truth("another", context != first);
    show("destroy", destroy());
    show("destroy again", destroy());
    context = first;
    show("destroy", destroy());
    show("none", setup(0));
    show("too many", setup(1u << 31));
    show("more than allowed", setup(5000000));
    show("nowhere", syscall(SYS_io_setup, 8, NULL));
    show("destroy 0", syscall(SYS_io_destroy, 0));
}

CASE(writes_and_reads)
{
    char buffer[20] = { 0 };

    scratch();
    MUST(setup(4));
    int fd = MUST(open("file", O_RDWR | O_CREAT, 0644));
    perform("write", operation(IOCB_CMD_PWRITE, fd, "hello world", 11, 5));
    perform("read", operation(IOCB_CMD_PREAD, fd, buffer, sizeof buffer, 6));
    text("buffer", buffer);
    perform("read past the end", operation(IOCB_CMD_PREAD, fd, buffer, sizeof buffer, 100));
    perform("nothing", operation(IOCB_CMD_PREAD, fd, buffer, 0, 0));
    number("position", lseek(fd, 0, SEEK_CUR));
    struct iovec parts[] = { { buffer, 3 }, { buffer + 10, 4 } };
    perform("read parts", operation(IOCB_CMD_PREADV, fd, parts, 2, 5));
    text("first", buffer);
    text("second", buffer + 10);
    perform("write parts", operation(IOCB_CMD_PWRITEV, fd, parts, 2, 0));
    perform("sync", operation(IOCB_CMD_FSYNC, fd, NULL, 0, 0));
    perform("sync data", operation(IOCB_CMD_FDSYNC, fd, NULL, 0, 0));
    close(fd);
    file_show("file");
    fd = MUST(open("file", O_WRONLY | O_APPEND));
    perform("append", operation(IOCB_CMD_PWRITE, fd, "end", 3, 0));
    close(fd);
    fd = MUST(open("file", O_WRONLY));
    struct iocb flagged = operation(IOCB_CMD_PWRITE, fd, "END", 3, 0);
    flagged.aio_rw_flags = RWF_APPEND;
    perform("append by flag", flagged);
    flagged.aio_rw_flags = 0x4000;
    perform("unknown flag", flagged);
    close(fd);
    file_show("file");
    destroy();
}

CASE(refused_at_once_or_by_an_event)
{
    char buffer[20];

    scratch();
    file_make("file", "text");
    MUST(setup(4));
    int fd = MUST(open("file", O_RDONLY));
    int directory = MUST(open(".", O_RDONLY));
    int name = MUST(open("file", O_PATH));
    perform("no file", operation(IOCB_CMD_PREAD, 99, buffer, 4, 0));
    perform("not for writing", operation(IOCB_CMD_PWRITE, fd, "x", 1, 0));
    perform("a directory", operation(IOCB_CMD_PREAD, directory, buffer, 4, 0));
    perform("a name", operation(IOCB_CMD_PREAD, name, buffer, 4, 0));
    perform("before the start", operation(IOCB_CMD_PREAD, fd, buffer, 4, -1));
    perform("to nowhere", operation(IOCB_CMD_PREAD, fd, (void *)8, 4, 0));
    perform("beyond all", operation(IOCB_CMD_PREAD, fd, (void *)(1ul << 63), 4, 0));
    perform("parts nowhere", operation(IOCB_CMD_PREADV, fd, (void *)8, 1, 0));
    perform("too many parts", operation(IOCB_CMD_PREADV, fd, buffer, 2000, 0));
    perform("sync with a buffer", operation(IOCB_CMD_FSYNC, fd, buffer, 4, 0));
    perform("unknown", operation(99, fd, buffer, 4, 0));
    perform("nothing to do", operation(6, fd, buffer, 4, 0));
    perform("negative length", operation(IOCB_CMD_PREAD, fd, buffer, -1, 0));
    struct iocb one = operation(IOCB_CMD_PREAD, fd, buffer, 4, 0);
    one.aio_reserved2 = 1;
    perform("reserved", one);
    one.aio_reserved2 = 0;
    one.aio_flags = IOCB_FLAG_RESFD;
    one.aio_resfd = fd;
    perform("no eventfd", one);
    one.aio_resfd = 99;
    perform("no descriptor", one);
    show("no such context", syscall(SYS_io_submit, 4096, 1, &(struct iocb *){ &one }));
    show("negative", submit(-1, &(struct iocb *){ &one }));
    show("none", submit(0, NULL));
    show("nowhere", submit(1, NULL));
    show("nowhere behind it", submit(1, &(struct iocb *){ NULL }));
    struct rlimit limit = { 2, 2 }, old;
    getrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_IGN);
    limit.rlim_max = old.rlim_max;
    int out = MUST(open("out", O_RDWR | O_CREAT, 0644));
    struct iocb past = operation(IOCB_CMD_PWRITE, out, "abcdef", 6, 0), behind = operation(IOCB_CMD_PWRITE, out, "abcdef", 6, 6);
    /* The limit is for the output of this program too. */
    setrlimit(RLIMIT_FSIZE, &limit);
    long accepted = submit_one(&past) + submit_one(&behind);
    setrlimit(RLIMIT_FSIZE, &old);
    number("accepted", accepted);
    struct io_event events[2];
    show("get", get(2, 2, events, 0));
    printf("past the limit: %lld, behind it: %lld\n", events[0].res, events[1].res);
    destroy();
}

CASE(many_at_once)
{
    enum { MANY = 6 };
    struct iocb operations[MANY], *all[MANY];
    struct io_event events[MANY];
    char buffer[MANY][4];

    scratch();
    file_make("file", "0123456789");
    MUST(setup(MANY));
    int fd = MUST(open("file", O_RDONLY));
    for (int i = 0; i < MANY; i++) {
        operations[i] = operation(IOCB_CMD_PREAD, fd, buffer[i], 2, i);
        operations[i].aio_data = 100 + i;
        all[i] = &operations[i];
    }
    show("submit", submit(MANY, all));
    show("get two", get(2, 2, events, -1));
    show("get more", get(1, MANY, events + 2, -1));
    for (int i = 0; i < MANY; i++)
        printf("%llu: %lld %.2s\n", events[i].data, events[i].res, buffer[i]);
    show("get none", get(0, MANY, events, 0));
    operations[3].aio_fildes = 99;
    show("with a bad one", submit(MANY, all));
    show("its predecessors", get(3, MANY, events, -1));
    all[2] = (void *)8;
    show("with one nowhere", submit(MANY, all));
    show("its predecessors", get(2, MANY, events, -1));
    destroy();
}

CASE(rings_can_be_read)
{
    struct io_event event;
    char buffer[4];

    scratch();
    file_make("file", "0123456789");
    MUST(setup(4));
    int fd = MUST(open("file", O_RDONLY));
    struct ring *ring = (struct ring *)context;
    struct io_event *events = (struct io_event *)(ring + 1);
    printf("magic %x, compatible %u, incompatible %u, header %u, enough %d\n", ring->magic, ring->compatible, ring->incompatible,
           ring->header_bytes, ring->events > 4);
    struct iocb one = operation(IOCB_CMD_PREAD, fd, buffer, 2, 0);
    MUST(submit_one(&one));
    printf("head %u, tail %u, event %llu %lld\n", ring->head, ring->tail, events[0].data, events[0].res);
    ring->head = 1;
    show("taken", get(0, 1, &event, 0));
    MUST(submit_one(&one));
    show("next", get(1, 1, &event, 0));
    printf("head %u, tail %u\n", ring->head, ring->tail);
    /* Around, and around again. */
    long failed = 0;
    for (unsigned i = 0; i < 3 * ring->events; i++)
        failed += submit_one(&one) != 1 || get(1, 1, &event, 0) != 1 || event.res != 2;
    number("failed", failed);
    truth("in bounds", ring->head < ring->events && ring->tail == ring->head);
    long accepted = 0;
    while (submit_one(&one) == 1)
        accepted++;
    show("full", submit_one(&one));
    truth("holds what was asked for", accepted >= 4);
    number("waiting", (ring->tail + ring->events - ring->head) % ring->events - accepted);
    destroy();
}

CASE(waits)
{
    struct io_event event;

    MUST(setup(4));
    int64_t start = now_ns();
    show("nothing within 20 ms", get(1, 1, &event, 20));
    show_elapsed(start, 20);
    show("nothing now", get(1, 1, &event, 0));
    show("more than room", get(2, 1, &event, 0));
    show("negative", get(-1, 1, &event, 0));
    show("none", get(0, 0, &event, -1));
    show("limit nowhere", syscall(SYS_io_getevents, context, 1, 1, &event, 8));
    destroy();
    show("no context", get(0, 1, &event, 0));
}

static int source;

static void *submit_two(void *argument)
{
    char buffer[2][2];
    struct iocb one = operation(IOCB_CMD_PREAD, source, buffer[0], 2, 0), other = operation(IOCB_CMD_PREAD, source, buffer[1], 1, 2);

    sleep_ms(10);
    MUST(submit_one(&one));
    sleep_ms(10);
    MUST(submit_one(&other));
    return argument;
}

CASE(a_thread_waits_for_another_ones_operations)
{
    struct io_event events[2];

    scratch();
    file_make("file", "0123456789");
    source = MUST(open("file", O_RDONLY));
    MUST(setup(4));
    pthread_t thread = thread_start(submit_two, NULL);
    show("get", get(2, 2, events, -1));
    printf("%lld %lld\n", events[0].res, events[1].res);
    thread_join(thread);
    destroy();
}

static void ignore(int signal)
{
    (void)signal;
}

CASE(signals_end_waits)
{
    struct io_event event;
    struct sigaction action = { .sa_handler = ignore, .sa_flags = SA_RESTART };

    MUST(setup(4));
    sigaction(SIGALRM, &action, NULL);
    struct itimerval soon = { .it_value = { .tv_usec = 10000 } };
    setitimer(ITIMER_REAL, &soon, NULL);
    show("get", get(1, 1, &event, -1));
    /* Blocked, but for the wait. */
    sigset_t alarm, none;
    sigemptyset(&none);
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigprocmask(SIG_BLOCK, &alarm, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    struct { const sigset_t *set; size_t bytes; } mask = { &none, 8 };
    show("get with a mask", syscall(SYS_io_pgetevents, context, 1, 1, &event, NULL, &mask));
    mask.bytes = 4;
    show("get with a short mask", syscall(SYS_io_pgetevents, context, 0, 1, &event, NULL, &mask));
    destroy();
}

CASE(pipes)
{
    int ends[2];
    char buffer[8] = { 0 };
    struct io_event events[2];

    MUST(pipe(ends));
    MUST(setup(4));
    perform("write", operation(IOCB_CMD_PWRITE, ends[1], "abc", 3, 0));
    perform("read", operation(IOCB_CMD_PREAD, ends[0], buffer, sizeof buffer, 17));
    text("buffer", buffer);
    set_nonblocking(ends[0]);
    perform("read nothing", operation(IOCB_CMD_PREAD, ends[0], buffer, sizeof buffer, 0));
    perform("sync", operation(IOCB_CMD_FSYNC, ends[0], NULL, 0, 0));
    signal(SIGPIPE, SIG_IGN);
    close(ends[0]);
    perform("write to nobody", operation(IOCB_CMD_PWRITE, ends[1], "abc", 3, 0));
    show("get", get(0, 2, events, 0));
    destroy();
}

CASE(eventfds_are_told)
{
    struct io_event event;
    uint64_t count = 0;
    char buffer[4];

    scratch();
    file_make("file", "0123456789");
    int fd = MUST(open("file", O_RDONLY)), told = MUST(eventfd(0, EFD_NONBLOCK));
    MUST(setup(4));
    struct iocb one = operation(IOCB_CMD_PREAD, fd, buffer, 2, 0);
    one.aio_flags = IOCB_FLAG_RESFD;
    one.aio_resfd = told;
    MUST(submit_one(&one));
    MUST(submit_one(&one));
    show("read", read(told, &count, sizeof count));
    number("count", count);
    show("get", get(2, 2, &(struct io_event[2]){ { 0 } }[0], 0));
    show("get", get(0, 1, &event, 0));
    destroy();
}

CASE(children_have_no_contexts)
{
    int status;

    scratch();
    file_make("file", "0123456789");
    MUST(setup(4));
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0) {
        struct io_event event;
        show("get in the child", get(0, 1, &event, 0));
        show("destroy in the child", destroy());
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, &status, 0);
    number("status", status);
    show("destroy", destroy());
}

CASE(cancelling)
{
    struct io_event event;
    char buffer[4];

    scratch();
    file_make("file", "0123456789");
    int fd = MUST(open("file", O_RDONLY));
    MUST(setup(4));
    struct iocb one = operation(IOCB_CMD_PREAD, fd, buffer, 2, 0);
    show("never submitted", syscall(SYS_io_cancel, context, &one, &event));
    MUST(submit_one(&one));
    show("over", syscall(SYS_io_cancel, context, &one, &event));
    show("nowhere", syscall(SYS_io_cancel, context, NULL, &event));
    show("no context", syscall(SYS_io_cancel, 4096, &one, &event));
    destroy();
}
