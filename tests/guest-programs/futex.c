/*
 * The futex system call itself: waiting, waking, requeueing, bit sets,
 * operations on the second word, and timeouts in every form.
 */
#include "case.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>

static uint32_t word, other_word;

static long futex(uint32_t *at, int operation, uint32_t value, void *timeout, uint32_t *at2, uint32_t value3)
{
    return syscall(SYS_futex, at, operation, value, timeout, at2, value3);
}

static long wake(uint32_t *at, int count)
{
    return futex(at, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static void *waiter(void *argument)
{
    uint32_t *at = argument;

    return (void *)futex(at, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

/* Wakes up to `count` waiters, waiting until they have begun to wait. */
static long wake_when_waiting(uint32_t *at, int count)
{
    long woken = 0;

    for (int i = 0; i < 2000 && woken < count; i++) {
        woken += wake(at, count - woken);
        if (woken < count)
            sleep_ms(1);
    }
    return woken;
}

CASE(value_differs)
{
    word = 5;
    show("wait", futex(&word, FUTEX_WAIT_PRIVATE, 4, NULL, NULL, 0));
    show("wait shared", futex(&word, FUTEX_WAIT, 4, NULL, NULL, 0));
}

CASE(nobody_waits)
{
    show("wake", wake(&word, 1));
    show("wake all", wake(&word, INT_MAX));
    show("wake shared", futex(&word, FUTEX_WAKE, 1, NULL, NULL, 0));
}

CASE(wake_one_at_a_time)
{
    pthread_t threads[3];
    word = 0;
    for (int i = 0; i < 3; i++)
        threads[i] = thread_start(waiter, &word);
    sleep_ms(20);
    for (int i = 0; i < 3; i++)
        number("woken", wake_when_waiting(&word, 1));
    for (int i = 0; i < 3; i++)
        number("waiter returned", (long)thread_join(threads[i]));
    show("wake", wake(&word, 1));
}

CASE(wake_all)
{
    pthread_t threads[5];
    word = 0;
    for (int i = 0; i < 5; i++)
        threads[i] = thread_start(waiter, &word);
    number("woken", wake_when_waiting(&word, 5));
    for (int i = 0; i < 5; i++)
        thread_join(threads[i]);
}

CASE(wait_times_out)
{
    struct timespec limit = timespec_of_ms(20);
    int64_t start = now_ns();
    word = 0;
    show("wait", futex(&word, FUTEX_WAIT_PRIVATE, 0, &limit, NULL, 0));
    show_elapsed(start, 20);
    limit = (struct timespec){ 0, 0 };
    show("wait for no time", futex(&word, FUTEX_WAIT_PRIVATE, 0, &limit, NULL, 0));
    limit.tv_nsec = 1000000000;
    show("bad nanoseconds", futex(&word, FUTEX_WAIT_PRIVATE, 0, &limit, NULL, 0));
    limit = (struct timespec){ -1, 0 };
    show("negative", futex(&word, FUTEX_WAIT_PRIVATE, 0, &limit, NULL, 0));
    show("value is checked first", futex(&word, FUTEX_WAIT_PRIVATE, 1, &(struct timespec){ 0, 0 }, NULL, 0));
}

CASE(wait_bitset_is_absolute)
{
    int64_t start = now_ns();
    struct timespec limit = timespec_of_ns(start + 20000000);
    word = 0;
    show("monotonic", futex(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, &limit, NULL, FUTEX_BITSET_MATCH_ANY));
    show_elapsed(start, 20);
    start = now_ns();
    limit = timespec_of_ns(clock_ns(CLOCK_REALTIME) + 20000000);
    show("realtime", futex(&word, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 0, &limit, NULL, FUTEX_BITSET_MATCH_ANY));
    show_elapsed(start, 19);
    limit = timespec_of_ns(1);
    show("past", futex(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, &limit, NULL, FUTEX_BITSET_MATCH_ANY));
    show("no bits", futex(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, &limit, NULL, 0));
    show("wake no bits", futex(&word, FUTEX_WAKE_BITSET_PRIVATE, 1, NULL, NULL, 0));
}

static void *bit_waiter(void *argument)
{
    return (void *)futex(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL, (uintptr_t)argument);
}

static long wake_bits(int count, uint32_t bits)
{
    return futex(&word, FUTEX_WAKE_BITSET_PRIVATE, count, NULL, NULL, bits);
}

CASE(wake_by_bits)
{
    word = 0;
    pthread_t one = thread_start(bit_waiter, (void *)1), two = thread_start(bit_waiter, (void *)2);
    sleep_ms(20);
    number("wake bit 4", wake_bits(10, 4));
    long woken = 0;
    for (int i = 0; i < 2000 && !woken; i++, sleep_ms(1))
        woken = wake_bits(10, 2);
    number("wake bit 2", woken);
    thread_join(two);
    woken = 0;
    for (int i = 0; i < 2000 && !woken; i++, sleep_ms(1))
        woken = wake(&word, 10);
    number("wake any", woken);
    thread_join(one);
}

CASE(requeue)
{
    pthread_t threads[3];
    word = other_word = 0;
    for (int i = 0; i < 3; i++)
        threads[i] = thread_start(waiter, &word);
    sleep_ms(50);
    number("woken", futex(&word, FUTEX_REQUEUE_PRIVATE, 1, (void *)10, &other_word, 0));
    number("left on the first", wake(&word, 10));
    number("on the second", wake_when_waiting(&other_word, 2));
    for (int i = 0; i < 3; i++)
        thread_join(threads[i]);
}

CASE(cmp_requeue)
{
    pthread_t threads[3];
    word = other_word = 0;
    show("nobody waits", futex(&word, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)10, &other_word, 0));
    show("value differs", futex(&word, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)10, &other_word, 9));
    for (int i = 0; i < 3; i++)
        threads[i] = thread_start(waiter, &word);
    sleep_ms(50);
    number("woken and moved", futex(&word, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)1, &other_word, 0));
    number("on the second", wake_when_waiting(&other_word, 1));
    number("left on the first", wake_when_waiting(&word, 1));
    for (int i = 0; i < 3; i++)
        thread_join(threads[i]);
    show("negative count", futex(&word, FUTEX_CMP_REQUEUE_PRIVATE, -1, (void *)1, &other_word, 0));
}

static long wake_op(int operation, int argument, int compare, int compare_argument)
{
    return futex(&word, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1, &other_word,
                 FUTEX_OP(operation, argument, compare, compare_argument));
}

CASE(wake_op_changes_the_word)
{
    other_word = 10;
    show("set 7", wake_op(FUTEX_OP_SET, 7, FUTEX_OP_CMP_EQ, 10));
    number("word", other_word);
    show("add 5", wake_op(FUTEX_OP_ADD, 5, FUTEX_OP_CMP_EQ, 0));
    number("word", other_word);
    show("or 3", wake_op(FUTEX_OP_OR, 3, FUTEX_OP_CMP_EQ, 0));
    number("word", other_word);
    show("and-not 1", wake_op(FUTEX_OP_ANDN, 1, FUTEX_OP_CMP_EQ, 0));
    number("word", other_word);
    show("xor 15", wake_op(FUTEX_OP_XOR, 15, FUTEX_OP_CMP_EQ, 0));
    number("word", other_word);
    show("or 1 << 6", wake_op(FUTEX_OP_OR | FUTEX_OP_OPARG_SHIFT, 6, FUTEX_OP_CMP_EQ, 0));
    number("word", other_word);
    show("add -1", wake_op(FUTEX_OP_ADD, -1, FUTEX_OP_CMP_EQ, 0));
    number("word", other_word);
}

CASE(wake_op_wakes_both)
{
    word = other_word = 0;
    pthread_t a = thread_start(waiter, &word), b = thread_start(waiter, &other_word);
    sleep_ms(50);
    number("comparison fails", wake_op(FUTEX_OP_SET, 0, FUTEX_OP_CMP_GT, 100));
    thread_join(a);
    a = thread_start(waiter, &word);
    sleep_ms(50);
    number("comparison holds", wake_op(FUTEX_OP_SET, 0, FUTEX_OP_CMP_LE, 0));
    thread_join(a);
    thread_join(b);
}

CASE(bad_calls)
{
    show("bad operation", futex(&word, 99, 0, NULL, NULL, 0));
    show("unaligned wait", futex((uint32_t *)((char *)&word + 1), FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0));
    show("unaligned wake", futex((uint32_t *)((char *)&word + 1), FUTEX_WAKE_PRIVATE, 0, NULL, NULL, 0));
    show("wait at NULL", futex(NULL, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0));
    word = 0;
    show("bad timeout", futex(&word, FUTEX_WAIT_PRIVATE, 0, (void *)8, NULL, 0));
    show("wake with realtime flag", futex(&word, FUTEX_WAKE_PRIVATE | FUTEX_CLOCK_REALTIME, 1, NULL, NULL, 0));
}

static void ignore_signal(int number)
{
    (void)number;
}

static void *signal_main_late(void *argument)
{
    sleep_ms(30);
    MUST_ZERO(pthread_kill(*(pthread_t *)argument, SIGUSR1));
    return NULL;
}

CASE(wait_interrupted)
{
    struct sigaction action = { .sa_handler = ignore_signal };
    struct timespec limit = timespec_of_ms(5000);
    pthread_t self = pthread_self();
    MUST(sigaction(SIGUSR1, &action, NULL));
    word = 0;
    pthread_t sender = thread_start(signal_main_late, &self);
    show("wait", futex(&word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0));
    thread_join(sender);
    action.sa_flags = SA_RESTART;
    MUST(sigaction(SIGUSR1, &action, NULL));
    sender = thread_start(signal_main_late, &self);
    show("with a limit it is not restarted", futex(&word, FUTEX_WAIT_PRIVATE, 0, &limit, NULL, 0));
    thread_join(sender);
}

static void change_word(int number)
{
    (void)number;
    word = 1;
}

CASE(wait_restarted)
{
    struct sigaction action = { .sa_handler = change_word, .sa_flags = SA_RESTART };
    pthread_t self = pthread_self();
    MUST(sigaction(SIGUSR1, &action, NULL));
    word = 0;
    pthread_t sender = thread_start(signal_main_late, &self);
    show("restarted wait sees the new value", futex(&word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0));
    thread_join(sender);
}

static void *ping(void *argument)
{
    (void)argument;
    for (uint32_t turn = 1; turn < 2000; turn += 2) {
        while (__atomic_load_n(&word, __ATOMIC_ACQUIRE) != turn)
            futex(&word, FUTEX_WAIT_PRIVATE, turn - 1, NULL, NULL, 0);
        __atomic_store_n(&word, turn + 1, __ATOMIC_RELEASE);
        wake(&word, 1);
    }
    return NULL;
}

static int wait_operation;

static void *wait_a_little(void *argument)
{
    struct timespec limit = timespec_of_ms(150);
    long result = futex(argument, wait_operation, 0, &limit, NULL, 0);

    return (void *)(long)(result == -1 ? errno : 0);
}

/* Who waits for a word as a private one is not seen by who wakes it as a shared one, and the other way round. */
static void wake_otherwise(uint32_t *at, int waits, int wakes)
{
    wait_operation = waits;
    pthread_t thread = thread_start(wait_a_little, at);
    sleep_ms(50);
    show("wake", futex(at, wakes, 1, NULL, NULL, 0));
    show_error("wait", (int)(long)thread_join(thread));
}

CASE(kinds_of_one_word)
{
    uint32_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    truth("mapped", shared != MAP_FAILED);
    word = 0;
    for (int i = 0; i < 2; i++) {
        uint32_t *at = i ? shared : &word;

        wake_otherwise(at, FUTEX_WAIT_PRIVATE, FUTEX_WAKE);
        wake_otherwise(at, FUTEX_WAIT, FUTEX_WAKE_PRIVATE);
        wake_otherwise(at, FUTEX_WAIT, FUTEX_WAKE);
        wake_otherwise(at, FUTEX_WAIT_PRIVATE, FUTEX_WAKE_PRIVATE);
    }
    munmap(shared, 4096);
}

CASE(ping_pong)
{
    word = 0;
    pthread_t thread = thread_start(ping, NULL);
    for (uint32_t turn = 0; turn < 2000; turn += 2) {
        __atomic_store_n(&word, turn + 1, __ATOMIC_RELEASE);
        wake(&word, 1);
        while (__atomic_load_n(&word, __ATOMIC_ACQUIRE) != turn + 2)
            futex(&word, FUTEX_WAIT_PRIVATE, turn + 1, NULL, NULL, 0);
    }
    thread_join(thread);
    number("turns", word);
}
