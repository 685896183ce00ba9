/* The newer calls on futexes, and locks with priority inheritance. What a kernel does not have is left out. */
#include "process.h"

#include <linux/futex.h>
#include <sys/mman.h>

#define SYS_WAITV 449
#define SYS_WAKE2 454
#define SYS_WAIT2 455
#define SYS_REQUEUE2 456
#define SIZE_U32 2

struct waiter {
    uint64_t value, address;
    uint32_t flags, reserved;
};

static uint32_t words[8];

static struct waiter waiter_on(int word, uint32_t value)
{
    return (struct waiter){ value, (uintptr_t)&words[word], SIZE_U32 | 128, 0 };
}

/* Kernels before 6.7 do not know three of the calls. */
static int has_new_calls(void)
{
    return syscall(SYS_WAKE2, &words[7], 1, 0, SIZE_U32) != -1 || errno != ENOSYS;
}

CASE(one_of_several)
{
    struct waiter list[3] = { waiter_on(0, 0), waiter_on(1, 0), waiter_on(2, 0) };
    struct timespec until = timespec_of_ns(now_ns() + 40000000), past = { 0, 0 };
    int64_t start = now_ns();

    memset(words, 0, sizeof words);
    show("timeout", syscall(SYS_WAITV, list, 3, 0, &until, CLOCK_MONOTONIC));
    show_elapsed(start, 35);
    show("past", syscall(SYS_WAITV, list, 3, 0, &past, CLOCK_MONOTONIC));
    words[1] = 7;
    show("another value", syscall(SYS_WAITV, list, 3, 0, NULL, 0));
    show("none", syscall(SYS_WAITV, list, 0, 0, NULL, 0));
    show("too many", syscall(SYS_WAITV, list, 129, 0, NULL, 0));
    show("flags", syscall(SYS_WAITV, list, 3, 1, NULL, 0));
    list[0].flags = 1 | 128;
    show("size", syscall(SYS_WAITV, list, 3, 0, NULL, 0));
    list[0] = waiter_on(0, 0);
    list[0].reserved = 1;
    show("reserved", syscall(SYS_WAITV, list, 3, 0, NULL, 0));
    show("bad pointer", syscall(SYS_WAITV, (void *)8, 1, 0, NULL, 0));
    show("clock", syscall(SYS_WAITV, list, 1, 0, &until, 5));
}

static void *wait_for_three(void *argument)
{
    struct waiter list[3] = { waiter_on(0, 0), waiter_on(1, 0), waiter_on(2, 0) };

    (void)argument;
    return (void *)syscall(SYS_WAITV, list, 3, 0, NULL, 0);
}

CASE(the_woken_one_is_named)
{
    memset(words, 0, sizeof words);
    for (int word = 0; word < 3; word++) {
        pthread_t thread = thread_start(wait_for_three, NULL);

        while (syscall(SYS_futex, &words[word], FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) == 0)
            sleep_ms(5);
        number("woken", (long)thread_join(thread));
        show("nobody at another", syscall(SYS_futex, &words[(word + 1) % 3], FUTEX_WAKE_PRIVATE, 9, NULL, NULL, 0));
    }
}

static void *wait_new(void *argument)
{
    return (void *)syscall(SYS_WAIT2, argument, 0, 1, SIZE_U32 | 128, NULL, 0);
}

CASE(wait_and_wake)
{
    pthread_t thread;

    memset(words, 0, sizeof words);
    if (!has_new_calls())
        return;
    thread = thread_start(wait_new, &words[3]);
    sleep_ms(20);
    show("another mask", syscall(SYS_WAKE2, &words[3], 2, 1, SIZE_U32 | 128));
    while (syscall(SYS_WAKE2, &words[3], 1, 1, SIZE_U32 | 128) != 1)
        sleep_ms(5);
    number("woken", (long)thread_join(thread));
    show("another value", syscall(SYS_WAIT2, &words[3], 1, 1, SIZE_U32 | 128, NULL, 0));
    show("no mask", syscall(SYS_WAKE2, &words[3], 0, 1, SIZE_U32 | 128));
    show("size", syscall(SYS_WAKE2, &words[3], 1, 1, 0));
}

CASE(requeue)
{
    struct waiter both[2] = { waiter_on(4, 0), waiter_on(5, 0) };
    pthread_t first, second;
    int moved;

    memset(words, 0, sizeof words);
    if (!has_new_calls())
        return;
    first = thread_start(wait_new, &words[4]);
    second = thread_start(wait_new, &words[4]);
    sleep_ms(30);
    while ((moved = syscall(SYS_REQUEUE2, both, 0, 0, 2)) == 0)
        sleep_ms(5);
    number("moved", moved);
    both[0].value = 1;
    show("another value", syscall(SYS_REQUEUE2, both, 0, 0, 2));
    show("woken at the second", syscall(SYS_WAKE2, &words[5], 1, 2, SIZE_U32 | 128));
    thread_join(first);
    thread_join(second);
}

static int lock_word(void *argument)
{
    uint32_t *word = argument;
    long ret = syscall(SYS_futex, word, FUTEX_LOCK_PI, 0, NULL, NULL, 0);

    if (ret == 0)
        truth("owner", (*word & FUTEX_TID_MASK) == (uint32_t)syscall(SYS_gettid));
    show("unlock", syscall(SYS_futex, word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0));
    return 0;
}

CASE(locks_that_inherit)
{
    uint32_t *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct timespec past = { 1, 0 };
    pid_t pid;

    show("lock", syscall(SYS_futex, word, FUTEX_LOCK_PI, 0, NULL, NULL, 0));
    show("lock again", syscall(SYS_futex, word, FUTEX_LOCK_PI, 0, NULL, NULL, 0));
    pid = child_start(lock_word, word);
    while (!(*(volatile uint32_t *)word & FUTEX_WAITERS))
        sleep_ms(5);
    show("unlock", syscall(SYS_futex, word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0));
    child_end("child", pid);
    number("free", *word);
    show("unlock what is free", syscall(SYS_futex, word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0));
    *word = 0x3ffffff0;
    show("an owner that does not exist", syscall(SYS_futex, word, FUTEX_LOCK_PI, 0, NULL, NULL, 0));
    *word = getppid();
    show("timeout", syscall(SYS_futex, word, FUTEX_LOCK_PI, 0, &past, NULL, 0) == -1 && (errno == ETIMEDOUT || errno == ESRCH) ? -2 : 0);
    munmap(word, 4096);
}
