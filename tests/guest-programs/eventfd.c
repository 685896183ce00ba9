/*
 * eventfd: counters, semaphore mode, nonblocking and blocking limits, poll.
 */
#include "case.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>

static int fd;

static void show_add(uint64_t value)
{
    show("write", write(fd, &value, sizeof value));
}

static void show_take(void)
{
    uint64_t value = 0;

    if (show("read", read(fd, &value, sizeof value)) == 8)
        printf("value: %llu\n", (unsigned long long)value);
}

static void show_poll(void)
{
    struct pollfd entry = { .fd = fd, .events = POLLIN | POLLOUT };
    int ready = poll(&entry, 1, 0);

    printf("poll: %d%s%s%s\n", ready, entry.revents & POLLIN ? " IN" : "",
           entry.revents & POLLOUT ? " OUT" : "", entry.revents & POLLERR ? " ERR" : "");
}

CASE(counter)
{
    fd = MUST(eventfd(3, EFD_NONBLOCK));
    show_take();
    show_take();
    show_add(5);
    show_add(7);
    show_add(0);
    show_take();
    show_take();
}

CASE(semaphore)
{
    fd = MUST(eventfd(2, EFD_NONBLOCK | EFD_SEMAPHORE));
    show_take();
    show_take();
    show_take();
    show_add(2);
    show_take();
    show_take();
    show_take();
}

CASE(flags_and_sizes)
{
    char data[16] = "";
    fd = MUST(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
    show("F_GETFD", fcntl(fd, F_GETFD));
    truth("nonblocking", fcntl(fd, F_GETFL) & O_NONBLOCK);
    show("bad flags", eventfd(0, 0x10));
    show("read 7", read(fd, data, 7));
    show("write 7", write(fd, data, 7));
    show("read 16", read(fd, data, 16));
}

CASE(overflow)
{
    fd = MUST(eventfd(0, EFD_NONBLOCK));
    show_add(UINT64_MAX);
    show_add(UINT64_MAX - 1);
    show_poll();
    show_add(1);
    show_take();
    show_add(UINT64_MAX - 2);
    show_poll();
    show_add(1);
    show_poll();
    show_add(1);
}

CASE(poll_states)
{
    fd = MUST(eventfd(0, 0));
    show_poll();
    show_add(1);
    show_poll();
    show_take();
    show_poll();
}

static void *add_late(void *argument)
{
    uint64_t value = (uintptr_t)argument;

    sleep_ms(30);
    MUST(write(fd, &value, sizeof value));
    return NULL;
}

CASE(reader_blocks)
{
    int64_t start = now_ns();
    fd = MUST(eventfd(0, 0));
    pthread_t adder = thread_start(add_late, (void *)42);
    show_take();
    show_elapsed(start, 30);
    thread_join(adder);
}

static void *take_late(void *argument)
{
    uint64_t value;

    (void)argument;
    sleep_ms(30);
    MUST(read(fd, &value, sizeof value));
    return NULL;
}

CASE(writer_blocks_at_the_top)
{
    int64_t start = now_ns();
    fd = MUST(eventfd(0, 0));
    show_add(UINT64_MAX - 1);
    pthread_t taker = thread_start(take_late, NULL);
    show_add(5);
    show_elapsed(start, 30);
    thread_join(taker);
    show_take();
}

static void *take_one(void *argument)
{
    uint64_t value;

    (void)argument;
    MUST(read(fd, &value, sizeof value));
    return (void *)(uintptr_t)value;
}

CASE(semaphore_wakes_each_reader)
{
    pthread_t readers[4];
    long sum = 0;
    fd = MUST(eventfd(0, EFD_SEMAPHORE));
    for (int i = 0; i < 4; i++)
        readers[i] = thread_start(take_one, NULL);
    sleep_ms(10);
    show_add(4);
    for (int i = 0; i < 4; i++)
        sum += (long)thread_join(readers[i]);
    number("sum", sum);
}

CASE(libc_wrappers)
{
    eventfd_t value = 0;
    fd = MUST(eventfd(0, EFD_NONBLOCK));
    number("eventfd_write", eventfd_write(fd, 9));
    number("eventfd_read", eventfd_read(fd, &value));
    number("value", value);
    number("eventfd_read", eventfd_read(fd, &value));
}

CASE(vectors_are_written_one_by_one)
{
    uint64_t values[2] = { 3, 4 }, top = UINT64_MAX - 1;
    struct iovec split[2] = { { values, 2 }, { (char *)values + 2, 6 } };
    struct iovec two[2] = { { values, 8 }, { &values[1], 8 } };
    struct iovec short_end[2] = { { values, 8 }, { &values[1], 4 } };
    struct iovec empty_start[2] = { { values, 0 }, { &values[1], 8 } };
    struct iovec empty_end[2] = { { values, 8 }, { &values[1], 0 } };
    struct iovec bad_end[2] = { { values, 8 }, { (void *)8, 8 } };
    struct iovec full[2] = { { &top, 8 }, { values, 8 } };
    fd = MUST(eventfd(0, EFD_NONBLOCK));
    show("2 and 6 bytes", writev(fd, split, 2));
    show_take();
    show("8 and 8 bytes", writev(fd, two, 2));
    show_take();
    show("8 and 4 bytes", writev(fd, short_end, 2));
    show_take();
    show("0 and 8 bytes", writev(fd, empty_start, 2));
    show_take();
    show("8 and 0 bytes", writev(fd, empty_end, 2));
    show_take();
    show("8 bytes and a bad pointer", writev(fd, bad_end, 2));
    show_take();
    show("the most and more", writev(fd, full, 2));
    show_take();
    show("pwritev2 at the file's own position", pwritev2(fd, two, 2, -1, 0));
    show("pwritev2 with a flag", pwritev2(fd, two, 2, -1, RWF_NOWAIT));
    show("readv of 2 and 6 bytes", readv(fd, split, 2));
}

static void *take_later(void *argument)
{
    (void)argument;
    sleep_ms(20);
    show_take();
    return NULL;
}

CASE(a_vector_waits_in_its_midst)
{
    uint64_t values[2] = { UINT64_MAX - 1, 5 };
    struct iovec two[2] = { { values, 8 }, { &values[1], 8 } };
    fd = MUST(eventfd(0, 0));
    pthread_t reader = thread_start(take_later, NULL);
    long written = writev(fd, two, 2);
    thread_join(reader);
    show("writev", written);
    show_take();
}
