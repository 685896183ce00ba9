/*
 * Pipes: flags, capacity, blocking and nonblocking ends, closed ends, atomic
 * writes, and what poll says about each end.
 */
#include "case.h"

#include <limits.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

static int ends[2];

static void make_pipe(int flags)
{
    MUST(pipe2(ends, flags));
}

static void show_poll(const char *what, int fd, short events)
{
    struct pollfd entry = { .fd = fd, .events = events };
    int ready = poll(&entry, 1, 0);

    printf("%s: %d%s%s%s%s%s\n", what, ready, entry.revents & POLLIN ? " IN" : "",
           entry.revents & POLLOUT ? " OUT" : "", entry.revents & POLLERR ? " ERR" : "",
           entry.revents & POLLHUP ? " HUP" : "", entry.revents & POLLNVAL ? " NVAL" : "");
}

static void show_unread(int fd)
{
    int unread = -1;

    show("FIONREAD", ioctl(fd, FIONREAD, &unread));
    number("unread", unread);
}

/* Writes until the pipe takes no more; the pipe must be nonblocking. */
static long fill_pipe(size_t piece)
{
    static char data[65536];
    long total = 0, n;

    while ((n = write(ends[1], data, piece)) > 0)
        total += n;
    return total;
}

CASE(write_and_read)
{
    char data[16];
    make_pipe(0);
    show("write", write(ends[1], "hello", 5));
    show("read", read(ends[0], data, sizeof data));
    bytes("data", data, 5);
    show("write 0", write(ends[1], "", 0));
    show("write a", write(ends[1], "ab", 2));
    show("write b", write(ends[1], "cd", 2));
    show("read joins writes", read(ends[0], data, 3));
    show("read rest", read(ends[0], data, 3));
    show("close writer", close(ends[1]));
    show("read at end", read(ends[0], data, 3));
}

CASE(wrong_ends)
{
    char byte;
    make_pipe(0);
    show("read writer", read(ends[1], &byte, 1));
    show("write reader", write(ends[0], "x", 1));
    show("lseek", lseek(ends[0], 0, SEEK_SET));
    show("pread", pread(ends[0], &byte, 1, 0));
    show("pwrite", pwrite(ends[1], "x", 1, 0));
    show("ftruncate", ftruncate(ends[1], 0));
}

CASE(pipe2_flags)
{
    char byte;
    make_pipe(O_NONBLOCK | O_CLOEXEC);
    show("F_GETFD", fcntl(ends[0], F_GETFD));
    show("F_GETFD", fcntl(ends[1], F_GETFD));
    truth("reader nonblocking", fcntl(ends[0], F_GETFL) & O_NONBLOCK);
    truth("writer access", (fcntl(ends[1], F_GETFL) & O_ACCMODE) == O_WRONLY);
    show("read empty", read(ends[0], &byte, 1));
    int other[2];
    show("bad flags", pipe2(other, O_APPEND));
    MUST(pipe2(other, 0));
    show("plain F_GETFD", fcntl(other[0], F_GETFD));
}

CASE(capacity)
{
    make_pipe(O_NONBLOCK);
    show("F_GETPIPE_SZ", fcntl(ends[1], F_GETPIPE_SZ));
    number("page-sized writes fit", fill_pipe(4096));
    show("one more byte", write(ends[1], "x", 1));
    show_unread(ends[0]);
}

CASE(capacity_with_one_write)
{
    static char data[100000];
    make_pipe(O_NONBLOCK);
    show("write more than fits", write(ends[1], data, sizeof data));
    show("write again", write(ends[1], data, 10));
    show("read", read(ends[0], data, sizeof data));
    show_unread(ends[0]);
}

CASE(set_capacity)
{
    make_pipe(O_NONBLOCK);
    show("F_SETPIPE_SZ 4096", fcntl(ends[0], F_SETPIPE_SZ, 4096));
    number("fits", fill_pipe(4096));
    show("F_SETPIPE_SZ 5000 rounds up", fcntl(ends[0], F_SETPIPE_SZ, 5000));
    number("fits more", fill_pipe(4096));
    show("shrink below content", fcntl(ends[0], F_SETPIPE_SZ, 4096));
    show("get", fcntl(ends[0], F_GETPIPE_SZ));
    show("on a file", fcntl(0, F_GETPIPE_SZ));
}

CASE(nonblocking_partial_write)
{
    static char data[70000];
    make_pipe(O_NONBLOCK);
    fill_pipe(4096);
    show("full", write(ends[1], data, 1));
    show("read a page", read(ends[0], data, 4096));
    show("write 70000 into a page", write(ends[1], data, 70000));
    show("read 100", read(ends[0], data, 100));
    show("atomic write does not fit", write(ends[1], data, PIPE_BUF));
}

CASE(reader_gone)
{
    signal(SIGPIPE, SIG_IGN);
    make_pipe(0);
    MUST(write(ends[1], "x", 1));
    MUST(close(ends[0]));
    show("write", write(ends[1], "x", 1));
    show("write 0", write(ends[1], "", 0));
    show_poll("writer", ends[1], POLLOUT);
}

static volatile sig_atomic_t pipe_signals;

static void count_sigpipe(int number)
{
    (void)number;
    pipe_signals++;
}

CASE(sigpipe_handler)
{
    pipe_signals = 0;
    signal(SIGPIPE, count_sigpipe);
    make_pipe(0);
    MUST(close(ends[0]));
    show("write", write(ends[1], "x", 1));
    number("signals", pipe_signals);
    show("write", write(ends[1], "x", 1));
    number("signals", pipe_signals);
}

static void *write_late(void *argument)
{
    sleep_ms(30);
    MUST(write(ends[1], argument, strlen(argument)));
    return NULL;
}

CASE(reader_blocks_until_data)
{
    char data[16];
    int64_t start = now_ns();
    make_pipe(0);
    pthread_t writer = thread_start(write_late, "late");
    show("read", read(ends[0], data, sizeof data));
    bytes("data", data, 4);
    show_elapsed(start, 30);
    thread_join(writer);
}

static void *close_late(void *argument)
{
    sleep_ms(30);
    MUST(close(*(int *)argument));
    return NULL;
}

CASE(reader_blocks_until_writer_closes)
{
    char byte;
    make_pipe(0);
    pthread_t closer = thread_start(close_late, &ends[1]);
    show("read", read(ends[0], &byte, 1));
    thread_join(closer);
}

CASE(writer_blocks_until_reader_closes)
{
    static char data[65536];
    signal(SIGPIPE, SIG_IGN);
    make_pipe(0);
    MUST(write(ends[1], data, sizeof data));
    pthread_t closer = thread_start(close_late, &ends[0]);
    show("write", write(ends[1], data, 10));
    thread_join(closer);
}

CASE(blocked_large_write_partial_on_close)
{
    static char data[100000];
    signal(SIGPIPE, SIG_IGN);
    make_pipe(0);
    pthread_t closer = thread_start(close_late, &ends[0]);
    show("write", write(ends[1], data, sizeof data));
    show("write again", write(ends[1], data, 1));
    thread_join(closer);
}

enum { STREAM_LENGTH = 300000 };

static void *read_stream(void *argument)
{
    static char data[7001];
    uint64_t *sum = argument;
    long total = 0;

    *sum = CHECKSUM_START;
    for (long n; (n = MUST(read(ends[0], data, sizeof data))) > 0; total += n)
        *sum = checksum(*sum, data, n);
    return (void *)total;
}

CASE(large_write_through_thread)
{
    static char data[STREAM_LENGTH];
    uint64_t received;
    fill_pattern(data, sizeof data, 7);
    make_pipe(0);
    pthread_t reader = thread_start(read_stream, &received);
    show("write", write(ends[1], data, sizeof data));
    MUST(close(ends[1]));
    number("received", (long)thread_join(reader));
    truth("same bytes", received == checksum(CHECKSUM_START, data, sizeof data));
}

static void *write_records(void *argument)
{
    char record[100];
    memset(record, *(char *)argument, sizeof record);
    for (int i = 0; i < 200; i++)
        MUST(write(ends[1], record, sizeof record));
    return NULL;
}

CASE(small_writes_are_atomic)
{
    pthread_t writers[3];
    char names[] = "abc", record[100];
    int counts[3] = { 0 }, mixed = 0;
    make_pipe(0);
    for (int i = 0; i < 3; i++)
        writers[i] = thread_start(write_records, &names[i]);
    for (int i = 0; i < 600; i++) {
        for (long got = 0; got < 100;)
            got += MUST(read(ends[0], record + got, sizeof record - got));
        counts[record[0] - 'a']++;
        for (int j = 1; j < 100; j++)
            mixed += record[j] != record[0];
    }
    for (int i = 0; i < 3; i++) {
        thread_join(writers[i]);
        number("records", counts[i]);
    }
    number("mixed bytes", mixed);
}

CASE(vectors_through_a_pipe)
{
    char a[2], b[10];
    struct iovec out[] = { { "abc", 3 }, { "defg", 4 } };
    struct iovec in[] = { { a, 2 }, { b, 10 } };
    make_pipe(0);
    show("writev", writev(ends[1], out, 2));
    show("readv", readv(ends[0], in, 2));
    bytes("a", a, 2);
    bytes("b", b, 5);
}

CASE(poll_states)
{
    make_pipe(O_NONBLOCK);
    show_poll("empty reader", ends[0], POLLIN);
    show_poll("empty writer", ends[1], POLLOUT);
    MUST(write(ends[1], "x", 1));
    show_poll("reader with data", ends[0], POLLIN);
    fill_pipe(4096);
    show_poll("full writer", ends[1], POLLOUT);
    char data[4096];
    MUST(read(ends[0], data, 4096));
    show_poll("writer after a page", ends[1], POLLOUT);
}

CASE(poll_writer_closed)
{
    char byte;
    make_pipe(0);
    MUST(write(ends[1], "x", 1));
    MUST(close(ends[1]));
    show_poll("data and hangup", ends[0], POLLIN);
    MUST(read(ends[0], &byte, 1));
    show_poll("hangup", ends[0], POLLIN);
    show_poll("hangup without request", ends[0], 0);
}

CASE(poll_reader_closed)
{
    make_pipe(0);
    MUST(close(ends[0]));
    show_poll("writer", ends[1], POLLOUT);
    show_poll("writer without request", ends[1], 0);
}

CASE(duplicate_keeps_end_open)
{
    char byte;
    make_pipe(O_NONBLOCK);
    int copy = MUST(dup(ends[1]));
    MUST(close(ends[1]));
    show("read", read(ends[0], &byte, 1));
    show("write", write(copy, "x", 1));
    show("read", read(ends[0], &byte, 1));
    MUST(close(copy));
    show("read", read(ends[0], &byte, 1));
}

CASE(unread_count)
{
    char data[8];
    make_pipe(0);
    show_unread(ends[0]);
    MUST(write(ends[1], "12345", 5));
    show_unread(ends[0]);
    MUST(read(ends[0], data, 2));
    show_unread(ends[0]);
    show_unread(ends[1]);
}

CASE(named_pipe)
{
    scratch();
    char data[8];
    show("mkfifo", mkfifo("fifo", 0600));
    show("writer without reader", open("fifo", O_WRONLY | O_NONBLOCK));
    int reader = show_ok("reader", open("fifo", O_RDONLY | O_NONBLOCK));
    int writer = show_ok("writer", open("fifo", O_WRONLY | O_NONBLOCK));
    show("write", write(writer, "through", 7));
    show("read", read(reader, data, sizeof data));
    show("read empty", read(reader, data, sizeof data));
    show("close", close(writer));
    show("read closed", read(reader, data, sizeof data));
}

CASE(many_pipes_ring)
{
    enum { RING = 20 };
    int ring[RING][2];
    char byte = 0;
    for (int i = 0; i < RING; i++)
        MUST(pipe(ring[i]));
    MUST(write(ring[0][1], &byte, 1));
    for (int i = 0; i < 10 * RING; i++) {
        MUST(read(ring[i % RING][0], &byte, 1));
        byte++;
        MUST(write(ring[(i + 1) % RING][1], &byte, 1));
    }
    number("rounds", (unsigned char)byte);
    for (int i = 0; i < RING; i++) {
        close(ring[i][0]);
        close(ring[i][1]);
    }
}

static void show_read(void)
{
    char data[8192];

    show("read", read(ends[0], data, sizeof data));
}

CASE(packets_behind_bytes)
{
    static char page[4096];
    make_pipe(O_NONBLOCK);
    MUST(write(ends[1], "abc", 3));
    show("F_SETFL", fcntl(ends[1], F_SETFL, O_NONBLOCK | O_DIRECT));
    show("write", write(ends[1], "de", 2));
    show("write", write(ends[1], "fgh", 3));
    show_unread(ends[0]);
    for (int i = 0; i < 3; i++)
        show_read();
    show("write a packet", write(ends[1], "ij", 2));
    show("write a packet", write(ends[1], "klm", 3));
    show("F_SETFL", fcntl(ends[1], F_SETFL, O_NONBLOCK));
    show("write bytes", write(ends[1], "nopq", 4));
    show("write bytes", write(ends[1], "r", 1));
    show("F_SETFL", fcntl(ends[1], F_SETFL, O_NONBLOCK | O_DIRECT));
    show("write", write(ends[1], page, sizeof page));
    show("write", write(ends[1], "st", 2));
    for (int i = 0; i < 7; i++)
        show_read();
}
