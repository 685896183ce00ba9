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

static uint32_t *shared_word;

static long on_word(int operation)
{
    return syscall(SYS_futex, shared_word, operation, 0, NULL, NULL, 0);
}

/* A call's result, the marks in the word, and whose the lock is. */
static void show_word(const char *what, long ret)
{
    int error = errno;
    uint32_t word = *(volatile uint32_t *)shared_word, owner = word & FUTEX_TID_MASK;

    printf("%s: %s, %s%s%s\n", what, ret == -1 ? errno_name(error) : "0", word & FUTEX_WAITERS ? "waiters " : "",
           word & FUTEX_OWNER_DIED ? "died " : "", owner == 0 ? "free" : owner == (uint32_t)gettid() ? "own" : "another's");
}

static void map_word(void)
{
    if (!shared_word)
        shared_word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *shared_word = 0;
}

static void *note_thread(void *into)
{
    *(uint32_t *)into = gettid();
    return NULL;
}

CASE(marks_of_locks_that_inherit)
{
    static const uint32_t marks[] = { 0, FUTEX_OWNER_DIED, FUTEX_WAITERS, FUTEX_WAITERS | FUTEX_OWNER_DIED };
    uint32_t dead = 0, owners[3];
    pthread_t thread = thread_start(note_thread, &dead);

    thread_join(thread);
    owners[0] = 0;
    owners[1] = dead;
    owners[2] = gettid();
    map_word();
    for (size_t owner = 0; owner < COUNT_OF(owners); owner++) {
        for (size_t mark = 0; mark < COUNT_OF(marks); mark++) {
            printf("%s, mark %zu\n", owner == 0 ? "nobody's" : owner == 1 ? "a dead one's" : "own", mark);
            *shared_word = owners[owner] | marks[mark];
            show_word("lock", on_word(FUTEX_LOCK_PI));
            *shared_word = owners[owner] | marks[mark];
            show_word("try", on_word(FUTEX_TRYLOCK_PI));
            if ((*shared_word & FUTEX_TID_MASK) == (uint32_t)gettid())
                show_word("unlock", on_word(FUTEX_UNLOCK_PI));
        }
    }
    *shared_word = getppid();
    show_word("try another process's", on_word(FUTEX_TRYLOCK_PI) == -1 && (errno == EAGAIN || errno == ESRCH) ? 0 : -1);
}

static void *try_lock(void *argument)
{
    (void)argument;
    show_word("another tries", on_word(FUTEX_TRYLOCK_PI));
    return NULL;
}

static void *lock_for_a_while(void *argument)
{
    (void)argument;
    show_word("another locks", on_word(FUTEX_LOCK_PI));
    show_word("another unlocks", on_word(FUTEX_UNLOCK_PI));
    return NULL;
}

static int lock_for_a_while_in_child(void *argument)
{
    lock_for_a_while(argument);
    return 0;
}

static void *lock_and_end(void *argument)
{
    show_word("another locks", on_word(FUTEX_LOCK_PI));
    MUST(write(*(int *)argument, "x", 1));
    sleep_ms(60);
    return NULL;
}

static int lock_and_end_in_child(void *argument)
{
    lock_and_end(argument);
    return 0;
}

static void until_waited_for(void)
{
    while (!(*(volatile uint32_t *)shared_word & FUTEX_WAITERS))
        sleep_ms(5);
    sleep_ms(20);
}

CASE(locks_that_inherit_change_hands)
{
    pthread_t thread;
    pid_t child;

    map_word();
    show_word("lock", on_word(FUTEX_LOCK_PI));
    thread = thread_start(try_lock, NULL);
    thread_join(thread);
    show_word("unlock", on_word(FUTEX_UNLOCK_PI));
    for (int processes = 0; processes < 2; processes++) {
        show_word("lock", on_word(FUTEX_LOCK_PI));
        if (processes)
            child = child_start(lock_for_a_while_in_child, NULL);
        else
            thread = thread_start(lock_for_a_while, NULL);
        until_waited_for();
        truth("unlock", on_word(FUTEX_UNLOCK_PI) == 0);
        if (processes)
            child_end("child", child);
        else
            thread_join(thread);
        show_word("end", 0);
    }
}

CASE(locks_that_inherit_outlive_their_owners)
{
    pthread_t thread;
    pid_t child;
    int ends[2];
    char byte;

    MUST(pipe(ends));
    for (int processes = 0; processes < 2; processes++) {
        map_word();
        if (processes)
            child = child_start(lock_and_end_in_child, &ends[1]);
        else
            thread = thread_start(lock_and_end, &ends[1]);
        MUST(read(ends[0], &byte, 1));
        show_word("lock", on_word(FUTEX_LOCK_PI));
        if (processes)
            child_end("child", child);
        else
            thread_join(thread);
        show_word("again", on_word(FUTEX_LOCK_PI));
        show_word("unlock", on_word(FUTEX_UNLOCK_PI));
    }
}

static uint32_t condition;

static void *wait_for_condition(void *argument)
{
    long ret;

    (void)argument;
    ret = syscall(SYS_futex, &condition, FUTEX_WAIT_REQUEUE_PI, 0, NULL, shared_word, 0);
    show_word("waited", ret);
    show_word("unlock", on_word(FUTEX_UNLOCK_PI));
    return NULL;
}

CASE(marks_of_locks_that_are_handed_to_who_waits)
{
    static const struct { uint32_t word; long more; } starts[] = { { 0, 0 }, { 0, 5 }, { FUTEX_OWNER_DIED, 5 } };

    map_word();
    for (size_t i = 0; i < COUNT_OF(starts); i++) {
        pthread_t thread;
        long moved;

        *shared_word = starts[i].word;
        thread = thread_start(wait_for_condition, NULL);
        while ((moved = syscall(SYS_futex, &condition, FUTEX_CMP_REQUEUE_PI, 1, starts[i].more, shared_word, 0)) == 0)
            sleep_ms(5);
        thread_join(thread);
        number("moved", moved);
    }
    *shared_word = 0x3ffffff0;
    pthread_t thread = thread_start(wait_for_condition, NULL);
    long ret;
    while ((ret = syscall(SYS_futex, &condition, FUTEX_CMP_REQUEUE_PI, 1, 5, shared_word, 0)) == 0)
        sleep_ms(5);
    show_word("of who does not exist", ret);
    *shared_word = 0;
    number("moved", syscall(SYS_futex, &condition, FUTEX_CMP_REQUEUE_PI, 1, 5, shared_word, 0));
    thread_join(thread);
}
