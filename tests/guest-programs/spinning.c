/*
 * Loops that wait without a call, or with calls that do not wait: for memory
 * that another thread or process writes, for signals, for clocks, in every form
 * that the loop's code may take. Natively a processor burns meanwhile; a guest
 * must get on all the same.
 *
 * Rounds are few: on one processor each takes a time slice natively.
 */
#include "case.h"
#include "process.h"

#include <immintrin.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define PAUSE __asm__ volatile("pause")

static volatile int flag;
static volatile int seen;

/* Writes `*(int *)place` after a while. */
static void *set_later(void *place)
{
    sleep_ms(10);
    *(volatile int *)place = 7;
    return NULL;
}

CASE(thread_sets_a_flag)
{
    flag = 0;
    pthread_t thread = thread_start(set_later, (void *)&flag);
    while (!flag)
        ;
    number("flag", flag);
    thread_join(thread);
}

CASE(thread_sets_a_flag_while_pausing)
{
    flag = 0;
    pthread_t thread = thread_start(set_later, (void *)&flag);
    while (!flag)
        PAUSE;
    number("flag", flag);
    thread_join(thread);
}

static void *wait_for_flag(void *argument)
{
    while (!flag)
        PAUSE;
    seen++;
    return argument;
}

CASE(main_sets_a_flag_for_a_thread)
{
    flag = seen = 0;
    pthread_t thread = thread_start(wait_for_flag, (void *)3);
    sleep_ms(10);
    flag = 1;
    number("result", (long)thread_join(thread));
    number("seen", seen);
}

/* Every size that a flag may have, and every place in a cache line's word. */
#define WAIT_FOR(type)                                                          \
    static void *set_##type(void *place)                                        \
    {                                                                           \
        sleep_ms(2);                                                            \
        *(volatile type *)place = (type)0x0123456789abcdefLL;                   \
        return NULL;                                                            \
    }                                                                           \
    CASE(flag_of_##type)                                                        \
    {                                                                           \
        static _Alignas(64) unsigned char line[64];                             \
        for (size_t at = 0; at < 16; at += sizeof(type)) {                      \
            volatile type *place = (volatile type *)(line + at);                \
            *place = 0;                                                         \
            pthread_t thread = thread_start(set_##type, (void *)place);         \
            while (!*place)                                                     \
                ;                                                               \
            printf("at %zu: %llx\n", at, (unsigned long long)*place);           \
            thread_join(thread);                                                \
        }                                                                       \
    }
WAIT_FOR(uint8_t)
WAIT_FOR(uint16_t)
WAIT_FOR(uint32_t)
WAIT_FOR(uint64_t)

/* What a loop's body may do while it waits; each form is one case. */
#define FORM(name, declaration, body)                                           \
    CASE(loop_that_##name)                                                      \
    {                                                                           \
        flag = 0;                                                               \
        declaration;                                                            \
        pthread_t thread = thread_start(set_later, (void *)&flag);              \
        while (!flag) {                                                         \
            body;                                                               \
        }                                                                       \
        number("flag", flag);                                                   \
        thread_join(thread);                                                    \
    }

__attribute__((noinline)) static int read_flag_deep(int depth)
{
    __asm__ volatile("");
    return depth ? read_flag_deep(depth - 1) + 0 : flag;
}

static int (*volatile indirect)(int) = read_flag_deep;
static volatile int busy;
static volatile unsigned char narrow;
static volatile double real;
static volatile _Atomic int atomic_word;
static char text_a[40] = "the same text", text_b[40] = "the same text";

FORM(toggles_a_word, busy = 0, busy = !busy)
FORM(counts_in_a_byte, narrow = 0, narrow++)
FORM(counts_to_a_hundred, int round = 0, round = (round + 1) % 100; busy = round)
FORM(calls_a_function, , if (read_flag_deep(5)) break)
FORM(calls_through_a_pointer, , if (indirect(3)) break)
FORM(adds_real_numbers, real = 1, real = real + 0.0)
FORM(uses_x87, volatile long double y = 2, y = y * 1.0L)
FORM(adds_zero_atomically, , atomic_fetch_add(&atomic_word, 0))
FORM(exchanges, , atomic_exchange(&atomic_word, 1))
FORM(compares_and_exchanges, int none = 99, atomic_compare_exchange_strong(&atomic_word, &none, 5); none = 99)
FORM(fences, , atomic_thread_fence(memory_order_seq_cst))
FORM(compares_strings, , if (strcmp(text_a, text_b)) break)
FORM(copies_memory, char copy[40], memcpy(copy, text_a, sizeof copy); __asm__ volatile("" ::"r"(copy) : "memory"))
FORM(stores_by_string_instruction, char area[32],
     void *to = area; long count = sizeof area;
     __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(5) : "memory"))
FORM(scans_by_string_instruction, ,
     const char *at = text_a; long left = 40;
     __asm__ volatile("repne scasb" : "+D"(at), "+c"(left) : "a"(0) : "memory", "cc"))
FORM(pushes_and_pops, ,
     __asm__ volatile("sub $128, %%rsp; push %%rax; pop %%rax; add $128, %%rsp" ::: "memory", "cc"))
FORM(uses_sse, __m128i v = _mm_set1_epi8(1), v = _mm_xor_si128(v, _mm_set1_epi8(3)); __asm__ volatile("" : "+x"(v)))
FORM(pauses_often, , for (int i = 0; i < 200; i++) PAUSE)
FORM(backs_off, int wait = 1, for (int i = 0; i < wait; i++) PAUSE; wait = wait < 64 ? wait * 2 : 1)
FORM(looks_at_thread_memory, static __thread volatile int own, own = flag; if (own) break)
FORM(yields, , sched_yield())
FORM(asks_for_the_parent, , getppid())
FORM(reads_the_clock, struct timespec t, clock_gettime(CLOCK_MONOTONIC, &t))
FORM(polls_nothing, , poll(NULL, 0, 0))
FORM(sleeps_for_nothing, struct timespec none = { 0 }, nanosleep(&none, NULL))
FORM(reads_the_time_stamp, , if (__builtin_ia32_rdtsc() == 0) break)

CASE(loop_that_counts_further_than_it_will_come)
{
    volatile unsigned long rounds = 0;

    for (flag = 0; !flag && rounds < 50000000; rounds++)
        ;
    truth("came to its end", rounds == 50000000);
}

/* Turns: each thread waits for its number. */
#define PLAYERS_LIMIT 8
static volatile int turn;
static int players, rounds_each;

static void *take_turns(void *argument)
{
    int own = (long)argument;

    for (int round = 0; round < rounds_each; round++) {
        while (turn % players != own)
            PAUSE;
        turn++;
    }
    return NULL;
}

static void play(int count, int rounds)
{
    pthread_t threads[PLAYERS_LIMIT];

    turn = 0;
    players = count;
    rounds_each = rounds;
    for (long i = 0; i < count; i++)
        threads[i] = thread_start(take_turns, (void *)i);
    for (int i = 0; i < count; i++)
        thread_join(threads[i]);
    number("turns", turn);
}

CASE(two_threads_take_turns) { play(2, 10); }
CASE(three_threads_take_turns) { play(3, 5); }
CASE(eight_threads_take_turns) { play(8, 2); }

/* Locks of every make, held across a sleep now and then. */
static pthread_spinlock_t spinlock;
static atomic_flag test_and_set = ATOMIC_FLAG_INIT;
static _Atomic unsigned next_ticket, now_serving;
static _Atomic int word_lock;
static long protected_sum;

static void lock_spin(void) { pthread_spin_lock(&spinlock); }
static void unlock_spin(void) { pthread_spin_unlock(&spinlock); }
static void lock_flag(void)
{
    while (atomic_flag_test_and_set(&test_and_set))
        PAUSE;
}
static void unlock_flag(void) { atomic_flag_clear(&test_and_set); }
static void lock_ticket(void)
{
    unsigned own = atomic_fetch_add(&next_ticket, 1);
    while (atomic_load(&now_serving) != own)
        PAUSE;
}
static void unlock_ticket(void) { atomic_fetch_add(&now_serving, 1); }
static void lock_word(void)
{
    int free = 0;
    while (!atomic_compare_exchange_weak(&word_lock, &free, 1))
        free = 0;
}
static void unlock_word(void) { atomic_store(&word_lock, 0); }

static const struct lock {
    const char *name;
    void (*lock)(void), (*unlock)(void);
} locks[] = {
    { "pthread_spin_lock", lock_spin, unlock_spin },
    { "test and set", lock_flag, unlock_flag },
    { "ticket", lock_ticket, unlock_ticket },
    { "compare and exchange", lock_word, unlock_word },
};
static const struct lock *lock_used;

static void *add_under_lock(void *argument)
{
    for (int i = 0; i < 20; i++) {
        lock_used->lock();
        long sum = protected_sum;
        if (i % 10 == 0)
            sleep_ms(1);
        protected_sum = sum + 1;
        lock_used->unlock();
    }
    return argument;
}

CASE(locks_that_spin)
{
    MUST_ZERO(pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE));
    for (size_t which = 0; which < COUNT_OF(locks); which++) {
        for (int count = 1; count <= 4; count++) {
            pthread_t threads[4];
            lock_used = &locks[which];
            protected_sum = 0;
            for (int i = 0; i < count; i++)
                threads[i] = thread_start(add_under_lock, NULL);
            for (int i = 0; i < count; i++)
                thread_join(threads[i]);
            printf("%s, %d threads: %ld\n", lock_used->name, count, protected_sum);
        }
    }
}

CASE(a_lock_taken_twice_is_not_free)
{
    MUST_ZERO(pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE));
    show_error("lock", pthread_spin_lock(&spinlock));
    show_error("trylock", pthread_spin_trylock(&spinlock));
    show_error("unlock", pthread_spin_unlock(&spinlock));
    show_error("trylock", pthread_spin_trylock(&spinlock));
}

/* Peterson's algorithm. */
static _Atomic int wants[2], victim;

static void *peterson(void *argument)
{
    int own = (long)argument;

    for (int i = 0; i < 10; i++) {
        atomic_store(&wants[own], 1);
        atomic_store(&victim, own);
        while (atomic_load(&wants[1 - own]) && atomic_load(&victim) == own)
            ;
        long sum = protected_sum;
        if (i == 5)
            sleep_ms(1);
        protected_sum = sum + 1;
        atomic_store(&wants[own], 0);
    }
    return NULL;
}

CASE(petersons_algorithm)
{
    protected_sum = 0;
    pthread_t a = thread_start(peterson, (void *)0), b = thread_start(peterson, (void *)1);
    thread_join(a);
    thread_join(b);
    number("sum", protected_sum);
}

/* A barrier that turns round by a word. */
static _Atomic int arrived, generation;
static int parties;

static void meet(void)
{
    int own = atomic_load(&generation);

    if (atomic_fetch_add(&arrived, 1) + 1 == parties) {
        atomic_store(&arrived, 0);
        atomic_fetch_add(&generation, 1);
        return;
    }
    while (atomic_load(&generation) == own)
        PAUSE;
}

static void *meet_often(void *argument)
{
    for (int i = 0; i < 3; i++)
        meet();
    return argument;
}

CASE(barriers_that_spin)
{
    for (parties = 2; parties <= 5; parties++) {
        pthread_t threads[5];
        generation = arrived = 0;
        for (int i = 0; i < parties; i++)
            threads[i] = thread_start(meet_often, NULL);
        for (int i = 0; i < parties; i++)
            thread_join(threads[i]);
        printf("%d parties: generation %d\n", parties, generation);
    }
}

/* Signals. */
static sigjmp_buf out_of_loop;
static volatile sig_atomic_t caught;

static void on_signal(int number)
{
    caught = number;
    flag = 1;
}

static void jump_out(int number)
{
    siglongjmp(out_of_loop, number);
}

static void handle(int number, void (*handler)(int))
{
    struct sigaction action = { .sa_handler = handler };

    MUST(sigaction(number, &action, NULL));
}

static void timer_in_ms(long ms)
{
    struct itimerval timer = { .it_value = { .tv_usec = ms * 1000 } };

    MUST(setitimer(ITIMER_REAL, &timer, NULL));
}

CASE(handler_sets_a_flag)
{
    flag = 0;
    handle(SIGALRM, on_signal);
    int64_t start = now_ns();
    timer_in_ms(20);
    while (!flag)
        ;
    number("caught", caught);
    show_elapsed(start, 20);
}

CASE(handler_jumps_out_of_an_endless_loop)
{
    handle(SIGALRM, jump_out);
    int signal = sigsetjmp(out_of_loop, 1);
    if (signal == 0) {
        timer_in_ms(10);
        for (;;)
            ;
    }
    number("signal", signal);
}

static volatile int ticks_seen;

static void count_tick(int number)
{
    (void)number;
    ticks_seen++;
}

CASE(interval_timer_ticks_into_a_loop)
{
    struct itimerval timer = { .it_interval = { .tv_usec = 5000 }, .it_value = { .tv_usec = 5000 } };

    ticks_seen = 0;
    handle(SIGALRM, count_tick);
    MUST(setitimer(ITIMER_REAL, &timer, NULL));
    while (ticks_seen < 5)
        ;
    number("ticks", ticks_seen);
}

CASE(posix_timer_ticks_into_a_loop)
{
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
    struct itimerspec times = { .it_value = timespec_of_ms(10) };
    timer_t timer;

    flag = 0;
    handle(SIGUSR1, on_signal);
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer));
    MUST(timer_settime(timer, 0, &times, NULL));
    while (!flag)
        PAUSE;
    number("caught is SIGUSR1", caught == SIGUSR1);
    MUST(timer_delete(timer));
}

static void *kill_later(void *argument)
{
    sleep_ms(10);
    pthread_kill(*(pthread_t *)argument, SIGUSR2);
    return NULL;
}

CASE(thread_signals_a_looping_thread)
{
    pthread_t own = pthread_self();

    flag = 0;
    handle(SIGUSR2, on_signal);
    pthread_t thread = thread_start(kill_later, &own);
    while (!flag)
        ;
    truth("caught SIGUSR2", caught == SIGUSR2);
    thread_join(thread);
}

static void wait_in_handler(int number)
{
    (void)number;
    while (!flag)
        PAUSE;
    seen = 1;
}

CASE(loop_in_a_handler)
{
    flag = seen = 0;
    handle(SIGUSR1, wait_in_handler);
    pthread_t thread = thread_start(set_later, (void *)&flag);
    raise(SIGUSR1);
    number("seen", seen);
    thread_join(thread);
}

CASE(blocked_signal_does_not_end_a_loop)
{
    sigset_t set;

    flag = 0;
    handle(SIGALRM, on_signal);
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    MUST(sigprocmask(SIG_BLOCK, &set, NULL));
    timer_in_ms(5);
    volatile int other = 0;
    pthread_t thread = thread_start(set_later, (void *)&other);
    while (!other)
        ;
    number("flag before", flag);
    MUST(sigprocmask(SIG_UNBLOCK, &set, NULL));
    number("flag after", flag);
    thread_join(thread);
}

static void *loop_for_ever(void *argument)
{
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    flag = 1;
    for (;;)
        ;
    return argument;
}

CASE(cancelled_in_an_endless_loop)
{
    flag = 0;
    pthread_t thread = thread_start(loop_for_ever, NULL);
    while (!flag)
        PAUSE;
    show_error("cancel", pthread_cancel(thread));
    truth("cancelled", thread_join(thread) == PTHREAD_CANCELED);
}

/* Other processes. */
static int wait_status(pid_t child)
{
    int status = 0;

    MUST(waitpid(child, &status, 0));
    return status;
}

static pid_t looping_child(void)
{
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0) {
        for (;;)
            ;
    }
    return child;
}

CASE(child_that_loops_is_killed)
{
    static const int signals[] = { SIGKILL, SIGTERM, SIGINT, SIGUSR1, SIGALRM };

    for (size_t i = 0; i < COUNT_OF(signals); i++) {
        pid_t child = looping_child();
        sleep_ms(2);
        MUST(kill(child, signals[i]));
        int status = wait_status(child);
        printf("%s: signaled %d, by it %d\n", sigabbrev_np(signals[i]), WIFSIGNALED(status), WTERMSIG(status) == signals[i]);
    }
}

CASE(child_that_loops_stops_and_continues)
{
    int status;
    pid_t child = looping_child();

    MUST(kill(child, SIGSTOP));
    MUST(waitpid(child, &status, WUNTRACED));
    truth("stopped", WIFSTOPPED(status));
    MUST(kill(child, SIGCONT));
    MUST(waitpid(child, &status, WCONTINUED));
    truth("continued", WIFCONTINUED(status));
    MUST(kill(child, SIGKILL));
    truth("killed", WIFSIGNALED(wait_status(child)));
}

CASE(alarm_ends_a_looping_child)
{
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0) {
        timer_in_ms(10);
        for (;;)
            PAUSE;
    }
    int status = wait_status(child);
    truth("by SIGALRM", WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
}

CASE(processes_take_turns_in_shared_memory)
{
    volatile int *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    truth("mapped", word != MAP_FAILED);
    fflush(stdout);
    pid_t child = MUST(fork());
    for (int round = 0; round < 10; round++) {
        while ((*word & 1) != (child == 0))
            PAUSE;
        ++*word;
    }
    if (child == 0)
        _exit(5);
    number("status", WEXITSTATUS(wait_status(child)));
    number("word", *word);
    MUST(munmap((void *)word, 4096));
}

CASE(private_copy_of_a_flag_stays)
{
    flag = 0;
    handle(SIGALRM, on_signal);
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0) {
        flag = 1;
        _exit(0);
    }
    number("status", wait_status(child));
    number("flag", flag);
    timer_in_ms(5);
    while (!flag)
        ;
    number("caught is SIGALRM", caught == SIGALRM);
}

CASE(parent_writes_into_a_looping_child)
{
    flag = 0;
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0) {
        while (!flag)
            PAUSE;
        _exit(flag);
    }
    int value = 21;
    struct iovec own = { &value, sizeof value }, other = { (void *)&flag, sizeof flag };
    sleep_ms(5);
    show("write", process_vm_writev(child, &own, 1, &other, 1, 0));
    number("status", WEXITSTATUS(wait_status(child)));
    number("own flag", flag);
}

CASE(exit_while_a_thread_loops)
{
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0) {
        flag = 0;
        thread_start(loop_for_ever, NULL);
        while (!flag)
            PAUSE;
        _exit(9);
    }
    number("status", WEXITSTATUS(wait_status(child)));
}

CASE(exec_while_a_thread_loops)
{
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0) {
        flag = 0;
        thread_start(loop_for_ever, NULL);
        while (!flag)
            PAUSE;
        execl("/bin/true", "true", NULL);
        _exit(127);
    }
    number("status", WEXITSTATUS(wait_status(child)));
}

CASE(fork_while_a_thread_loops)
{
    flag = seen = 0;
    pthread_t thread = thread_start(wait_for_flag, NULL);
    sleep_ms(5);
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0)
        _exit(4);
    number("status", WEXITSTATUS(wait_status(child)));
    flag = 1;
    thread_join(thread);
    number("seen", seen);
}

/* What the kernel writes for another thread. */
static int ends[2];

static void *read_into_flag(void *argument)
{
    return (void *)read(ends[0], argument, sizeof(int));
}

static void *write_later(void *descriptor)
{
    int value = 12;

    sleep_ms(5);
    return (void *)write(*(int *)descriptor, &value, sizeof value);
}

CASE(call_writes_the_flag)
{
    flag = 0;
    MUST(pipe(ends));
    pthread_t reader = thread_start(read_into_flag, (void *)&flag);
    pthread_t writer = thread_start(write_later, &ends[1]);
    while (!flag)
        PAUSE;
    number("flag", flag);
    number("read", (long)thread_join(reader));
    number("written", (long)thread_join(writer));
}

static void fault_jump(int number)
{
    siglongjmp(out_of_loop, number);
}

static void *unmap_later(void *page)
{
    sleep_ms(10);
    return (void *)(long)mprotect(page, 4096, PROT_NONE);
}

CASE(page_of_the_flag_is_taken_away)
{
    volatile int *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    handle(SIGSEGV, fault_jump);
    pthread_t thread = thread_start(unmap_later, (void *)page);
    int signal = sigsetjmp(out_of_loop, 1);
    if (signal == 0) {
        while (!*page)
            ;
    }
    truth("SIGSEGV", signal == SIGSEGV);
    number("mprotect", (long)thread_join(thread));
    MUST(munmap((void *)page, 4096));
}

/* Clocks: each is looked at until time has passed. */
#define UNTIL(name, ms, look)                                                   \
    CASE(until_##name)                                                          \
    {                                                                           \
        int64_t start = now_ns();                                               \
        while (now_ns() - start < ms * 1000000LL) {                             \
            look;                                                               \
        }                                                                       \
        show_elapsed(start, ms);                                                \
    }
UNTIL(the_clock_has_moved, 50, )
UNTIL(the_clock_has_moved_between_yields, 5, sched_yield())
UNTIL(the_clock_has_moved_between_polls, 30, poll(NULL, 0, 0))
UNTIL(the_clock_has_moved_between_calls, 30, getppid())
UNTIL(the_clock_has_moved_between_tries_to_wait, 30, waitpid(-1, NULL, WNOHANG))

CASE(until_the_seconds_change)
{
    time_t start = time(NULL);

    while (time(NULL) == start)
        ;
    truth("later", time(NULL) > start);
}

CASE(until_the_time_of_day_changes)
{
    struct timeval start, now;

    gettimeofday(&start, NULL);
    do
        gettimeofday(&now, NULL);
    while ((now.tv_sec - start.tv_sec) * 1000000L + now.tv_usec - start.tv_usec < 20000);
    truth("later", 1);
}

CASE(until_the_time_stamp_changes)
{
    unsigned long long start = __builtin_ia32_rdtsc();

    while (__builtin_ia32_rdtsc() - start < 1000000)
        ;
    truth("later", 1);
}

static void *echo(void *argument)
{
    int *pipes = argument;
    char byte;

    while (read(pipes[0], &byte, 1) == 1)
        if (write(pipes[3], &byte, 1) != 1)
            break;
    return NULL;
}

CASE(until_the_clock_has_moved_between_two_threads)
{
    int pipes[4];
    char byte = 'x';

    MUST(pipe(pipes));
    MUST(pipe(pipes + 2));
    pthread_t thread = thread_start(echo, pipes);
    int64_t start = now_ns();
    do {
        MUST(write(pipes[1], &byte, 1));
        MUST(read(pipes[2], &byte, 1));
    } while (now_ns() - start < 30 * 1000000LL);
    show_elapsed(start, 30);
    close(pipes[1]);
    thread_join(thread);
}

/* A lock that handlers of signals can take too: a byte in a pipe. */
static int lock[2];

static void *take_the_lock_often(void *argument)
{
    char byte;

    for (int i = 0; i < 60; i++) {
        MUST(read(lock[0], &byte, 1));
        MUST(write(lock[1], &byte, 1));
    }
    flag = 1;
    return argument;
}

CASE(lock_that_another_thread_takes_without_end)
{
    char byte = 'x';

    /* Eight calls in a round, the lock held during half of them: neither half is the one in which time always passes. */
    for (int before = 0; before <= 4; before += 4) {
        flag = 0;
        MUST(pipe(lock));
        MUST(write(lock[1], &byte, 1));
        pthread_t thread = thread_start(take_the_lock_often, NULL);
        for (int i = 0; i < before; i++)
            getppid();
        while (!flag) {
            MUST(read(lock[0], &byte, 1));
            for (int i = 0; i < 3; i++)
                getppid();
            MUST(write(lock[1], &byte, 1));
            for (int i = 0; i < 3; i++)
                getppid();
        }
        thread_join(thread);
        truth("had by both", 1);
        close(lock[0]);
        close(lock[1]);
    }
}
