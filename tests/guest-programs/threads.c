/*
 * POSIX threads: creation and joining, mutexes, condition variables, locks,
 * barriers, semaphores, thread-local data, cancellation, robust mutexes, and
 * the kernel's part in a thread's birth and death.
 */
#include "case.h"

#include <sched.h>
#include <semaphore.h>
#include <sys/mman.h>

static void *return_argument(void *argument)
{
    return argument;
}

static void *sleep_and_return(void *argument)
{
    sleep_ms(20);
    return argument;
}

CASE(create_and_join)
{
    number("result", (long)thread_join(thread_start(return_argument, (void *)42)));
    number("result of a slow one", (long)thread_join(thread_start(sleep_and_return, (void *)43)));
}

static void *exit_deep(void *argument)
{
    pthread_exit((char *)argument + 1);
}

CASE(pthread_exit_value)
{
    number("result", (long)thread_join(thread_start(exit_deep, (void *)9)));
}

CASE(join_errors)
{
    show_error("join self", pthread_join(pthread_self(), NULL));
    pthread_t thread = thread_start(sleep_and_return, NULL);
    show_error("tryjoin", pthread_tryjoin_np(thread, NULL));
    struct timespec limit = timespec_of_ns(clock_ns(CLOCK_REALTIME) + 1000000);
    show_error("timedjoin", pthread_timedjoin_np(thread, NULL, &limit));
    show_error("join", pthread_join(thread, NULL));
}

static sem_t finished;

static void *post_finished(void *argument)
{
    sem_post(&finished);
    return argument;
}

CASE(detached)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sem_init(&finished, 0, 0);
    pthread_attr_init(&attributes);
    show_error("setdetachstate", pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED));
    show_error("create", pthread_create(&thread, &attributes, post_finished, NULL));
    show("wait", sem_wait(&finished));
    thread = thread_start(post_finished, NULL);
    show_error("detach", pthread_detach(thread));
    show("wait", sem_wait(&finished));
    pthread_attr_destroy(&attributes);
}

CASE(many_threads)
{
    enum { MANY = 100 };
    pthread_t threads[MANY];
    long sum = 0;
    for (long i = 0; i < MANY; i++)
        threads[i] = thread_start(sleep_and_return, (void *)i);
    for (int i = 0; i < MANY; i++)
        sum += (long)thread_join(threads[i]);
    number("sum", sum);
}

CASE(many_in_sequence)
{
    long sum = 0;
    for (long i = 0; i < 200; i++)
        sum += (long)thread_join(thread_start(return_argument, (void *)i));
    number("sum", sum);
}

static void *nest(void *argument)
{
    long depth = (long)argument;

    return (void *)(depth ? 1 + (long)thread_join(thread_start(nest, (void *)(depth - 1))) : 0);
}

CASE(nested_threads)
{
    number("depth", (long)nest((void *)20));
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long counter;

static void *count_up(void *argument)
{
    (void)argument;
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_lock(&mutex);
        long seen = counter;
        if (i % 100 == 0)
            sched_yield();
        counter = seen + 1;
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

CASE(mutex_protects)
{
    pthread_t threads[4];
    counter = 0;
    for (int i = 0; i < 4; i++)
        threads[i] = thread_start(count_up, NULL);
    for (int i = 0; i < 4; i++)
        thread_join(threads[i]);
    number("counter", counter);
}

static void *try_lock(void *argument)
{
    return (void *)(long)pthread_mutex_trylock(argument);
}

static void *timed_lock(void *argument)
{
    struct timespec limit = timespec_of_ns(clock_ns(CLOCK_REALTIME) + 20000000);

    return (void *)(long)pthread_mutex_timedlock(argument, &limit);
}

/* What a thread that holds `mutex` for all but an instant does meanwhile. */
struct meanwhile {
    const char *name;
    void (*act)(void);
};

static void call_once(void)
{
    syscall(SYS_getppid);
}

static void read_clock(void)
{
    clock_ns(CLOCK_MONOTONIC);
}

static void sleep_with_it(void)
{
    sleep_ms(1);
}

static int wanted;

static void *want_it(void *argument)
{
    pthread_mutex_lock(&mutex);
    wanted = 1;
    pthread_mutex_unlock(&mutex);
    return argument;
}

/* A mutex that is let go and taken again at once, without a call in between. */
CASE(mutex_free_for_an_instant_passes_on)
{
    static const struct meanwhile all[] = {
        { "a call", call_once },
        { "a clock", read_clock },
        { "a sleep", sleep_with_it },
    };
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        wanted = 0;
        pthread_mutex_lock(&mutex);
        pthread_t thread = thread_start(want_it, NULL);
        sleep_ms(1);
        for (int seen = 0; !seen;) {
            all[i].act();
            seen = wanted;
            pthread_mutex_unlock(&mutex);
            if (!seen)
                pthread_mutex_lock(&mutex);
        }
        thread_join(thread);
        text(all[i].name, "passed on");
    }
}

CASE(mutex_from_another_thread)
{
    pthread_mutex_lock(&mutex);
    show_error("trylock", (long)thread_join(thread_start(try_lock, &mutex)));
    int64_t start = now_ns();
    show_error("timedlock", (long)thread_join(thread_start(timed_lock, &mutex)));
    show_elapsed(start, 19);
    pthread_mutex_unlock(&mutex);
}

CASE(mutex_types)
{
    pthread_mutexattr_t attributes;
    pthread_mutex_t recursive, checking;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive, &attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&checking, &attributes);
    show_error("recursive", pthread_mutex_lock(&recursive));
    show_error("recursive again", pthread_mutex_lock(&recursive));
    show_error("unlock", pthread_mutex_unlock(&recursive));
    show_error("another thread", (long)thread_join(thread_start(try_lock, &recursive)));
    show_error("unlock", pthread_mutex_unlock(&recursive));
    show_error("unlock once more", pthread_mutex_unlock(&recursive));
    show_error("checking", pthread_mutex_lock(&checking));
    show_error("checking again", pthread_mutex_lock(&checking));
    show_error("unlock", pthread_mutex_unlock(&checking));
    show_error("unlock unlocked", pthread_mutex_unlock(&checking));
}

static void *lock_and_die(void *argument)
{
    return (void *)(long)pthread_mutex_lock(argument);
}

CASE(robust_mutex)
{
    pthread_mutexattr_t attributes;
    pthread_mutex_t robust;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &attributes);
    thread_join(thread_start(lock_and_die, &robust));
    show_error("lock after death", pthread_mutex_lock(&robust));
    show_error("consistent", pthread_mutex_consistent(&robust));
    show_error("unlock", pthread_mutex_unlock(&robust));
    thread_join(thread_start(lock_and_die, &robust));
    show_error("trylock after death", pthread_mutex_trylock(&robust));
    show_error("unlock inconsistent", pthread_mutex_unlock(&robust));
    show_error("lock is lost", pthread_mutex_lock(&robust));
}

static void *lock_and_die_late(void *argument)
{
    pthread_mutex_lock(argument);
    sem_post(&finished);
    sleep_ms(30);
    return NULL;
}

CASE(robust_mutex_wakes_a_waiter)
{
    pthread_mutexattr_t attributes;
    pthread_mutex_t robust;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &attributes);
    sem_init(&finished, 0, 0);
    pthread_t thread = thread_start(lock_and_die_late, &robust);
    sem_wait(&finished);
    show_error("lock", pthread_mutex_lock(&robust));
    thread_join(thread);
}

CASE(priority_inheritance_mutex)
{
    pthread_mutexattr_t attributes;
    pthread_mutex_t inheriting;
    pthread_mutexattr_init(&attributes);
    show_error("setprotocol", pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT));
    show_error("init", pthread_mutex_init(&inheriting, &attributes));
    show_error("lock", pthread_mutex_lock(&inheriting));
    show_error("another thread", (long)thread_join(thread_start(try_lock, &inheriting)));
    show_error("unlock", pthread_mutex_unlock(&inheriting));
}

static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int turn;

static void *take_turns(void *argument)
{
    int own = (long)argument;

    pthread_mutex_lock(&mutex);
    for (int i = 0; i < 100; i++) {
        while (turn % 3 != own)
            pthread_cond_wait(&condition, &mutex);
        turn++;
        pthread_cond_broadcast(&condition);
    }
    pthread_mutex_unlock(&mutex);
    return NULL;
}

CASE(condition_turns)
{
    pthread_t threads[3];
    turn = 0;
    for (long i = 0; i < 3; i++)
        threads[i] = thread_start(take_turns, (void *)i);
    for (int i = 0; i < 3; i++)
        thread_join(threads[i]);
    number("turns", turn);
}

CASE(condition_timeout)
{
    int64_t start = now_ns();
    struct timespec limit = timespec_of_ns(clock_ns(CLOCK_REALTIME) + 20000000);
    pthread_mutex_lock(&mutex);
    show_error("timedwait", pthread_cond_timedwait(&condition, &mutex, &limit));
    show_elapsed(start, 19);
    start = now_ns();
    limit = timespec_of_ns(start + 20000000);
    show_error("clockwait", pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &limit));
    show_elapsed(start, 20);
    limit = timespec_of_ns(1);
    show_error("in the past", pthread_cond_timedwait(&condition, &mutex, &limit));
    pthread_mutex_unlock(&mutex);
}

static int waiting, released;

static void *wait_released(void *argument)
{
    pthread_mutex_lock(&mutex);
    waiting++;
    while (!released)
        pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
    return argument;
}

static void await_waiting(int count)
{
    for (int all = 0; !all; sleep_ms(1)) {
        pthread_mutex_lock(&mutex);
        all = waiting == count;
        pthread_mutex_unlock(&mutex);
    }
}

CASE(condition_broadcast)
{
    pthread_t threads[10];
    waiting = released = 0;
    for (int i = 0; i < 10; i++)
        threads[i] = thread_start(wait_released, NULL);
    await_waiting(10);
    pthread_mutex_lock(&mutex);
    released = 1;
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < 10; i++)
        thread_join(threads[i]);
    number("released", waiting);
}

static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

static void *try_read(void *argument)
{
    int error = pthread_rwlock_tryrdlock(argument);

    if (!error)
        pthread_rwlock_unlock(argument);
    return (void *)(long)error;
}

static void *try_write(void *argument)
{
    int error = pthread_rwlock_trywrlock(argument);

    if (!error)
        pthread_rwlock_unlock(argument);
    return (void *)(long)error;
}

CASE(read_write_lock)
{
    show_error("read", pthread_rwlock_rdlock(&rwlock));
    show_error("another reader", (long)thread_join(thread_start(try_read, &rwlock)));
    show_error("a writer", (long)thread_join(thread_start(try_write, &rwlock)));
    pthread_rwlock_unlock(&rwlock);
    show_error("write", pthread_rwlock_wrlock(&rwlock));
    show_error("a reader", (long)thread_join(thread_start(try_read, &rwlock)));
    show_error("write again", pthread_rwlock_wrlock(&rwlock));
    pthread_rwlock_unlock(&rwlock);
    show_error("a writer", (long)thread_join(thread_start(try_write, &rwlock)));
}

static pthread_barrier_t barrier;

static void *meet(void *argument)
{
    long serial = 0;

    (void)argument;
    for (int i = 0; i < 10; i++)
        serial += pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
    return (void *)serial;
}

CASE(barrier_rounds)
{
    pthread_t threads[5];
    long serial = 0;
    pthread_barrier_init(&barrier, NULL, 5);
    for (int i = 0; i < 5; i++)
        threads[i] = thread_start(meet, NULL);
    for (int i = 0; i < 5; i++)
        serial += (long)thread_join(threads[i]);
    number("serial threads over 10 rounds", serial);
    pthread_barrier_destroy(&barrier);
}

static void *post_late(void *argument)
{
    sleep_ms(20);
    sem_post(argument);
    return NULL;
}

CASE(semaphores)
{
    sem_t semaphore;
    int value;
    show("init", sem_init(&semaphore, 0, 1));
    show("wait", sem_wait(&semaphore));
    show("trywait", sem_trywait(&semaphore));
    pthread_t thread = thread_start(post_late, &semaphore);
    show("wait", sem_wait(&semaphore));
    thread_join(thread);
    struct timespec limit = timespec_of_ns(clock_ns(CLOCK_REALTIME) + 10000000);
    show("timedwait", sem_timedwait(&semaphore, &limit));
    show("post", sem_post(&semaphore));
    sem_getvalue(&semaphore, &value);
    number("value", value);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int initialised;

static void initialise(void)
{
    sleep_ms(10);
    initialised++;
}

static void *initialise_once(void *argument)
{
    pthread_once(&once, initialise);
    return (void *)(long)(initialised + (long)argument);
}

CASE(once_only)
{
    pthread_t threads[5];
    for (int i = 0; i < 5; i++)
        threads[i] = thread_start(initialise_once, NULL);
    for (int i = 0; i < 5; i++)
        number("seen", (long)thread_join(threads[i]));
}

static __thread long local_value = 7;
static __thread char local_block[3000];

static void *use_local(void *argument)
{
    long start = local_value;

    local_value += (long)argument;
    memset(local_block, (long)argument, sizeof local_block);
    sleep_ms(5);
    return (void *)(start * 1000 + local_value + local_block[2999]);
}

CASE(thread_local_storage)
{
    pthread_t threads[5];
    local_value = 1;
    for (long i = 0; i < 5; i++)
        threads[i] = thread_start(use_local, (void *)i);
    for (int i = 0; i < 5; i++)
        number("result", (long)thread_join(threads[i]));
    number("own", local_value);
    number("own block", local_block[0]);
    local_value = 7;
}

static pthread_key_t key;
static int destroyed;

static void destroy(void *value)
{
    destroyed += (long)value;
}

static void *use_key(void *argument)
{
    truth("empty at first", pthread_getspecific(key) == NULL);
    pthread_setspecific(key, argument);
    return pthread_getspecific(key);
}

CASE(thread_specific_data)
{
    destroyed = 0;
    show_error("key_create", pthread_key_create(&key, destroy));
    pthread_setspecific(key, (void *)1);
    number("in thread", (long)thread_join(thread_start(use_key, (void *)50)));
    number("destroyed", destroyed);
    number("own", (long)pthread_getspecific(key));
    show_error("key_delete", pthread_key_delete(key));
}

static int cleaned;

static void clean(void *argument)
{
    cleaned += (long)argument;
}

static void *block_with_cleanup(void *argument)
{
    pthread_cleanup_push(clean, (void *)10);
    pthread_cleanup_push(clean, (void *)1);
    sem_post(&finished);
    for (;;)
        pause();
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    return argument;
}

CASE(cancel_deferred)
{
    cleaned = 0;
    sem_init(&finished, 0, 0);
    pthread_t thread = thread_start(block_with_cleanup, NULL);
    sem_wait(&finished);
    show_error("cancel", pthread_cancel(thread));
    truth("cancelled", thread_join(thread) == PTHREAD_CANCELED);
    number("cleaned", cleaned);
}

static void *block_asynchronously(void *argument)
{
    int old;

    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    sem_post(&finished);
    for (;;)
        sched_yield();
    return argument;
}

CASE(cancel_asynchronous)
{
    sem_init(&finished, 0, 0);
    pthread_t thread = thread_start(block_asynchronously, NULL);
    sem_wait(&finished);
    show_error("cancel", pthread_cancel(thread));
    truth("cancelled", thread_join(thread) == PTHREAD_CANCELED);
}

static void *refuse_cancel(void *argument)
{
    int old;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    sem_post(&finished);
    sleep_ms(20);
    cleaned = 5;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
    pthread_testcancel();
    return argument;
}

CASE(cancel_disabled)
{
    cleaned = 0;
    sem_init(&finished, 0, 0);
    pthread_t thread = thread_start(refuse_cancel, NULL);
    sem_wait(&finished);
    show_error("cancel", pthread_cancel(thread));
    truth("cancelled", thread_join(thread) == PTHREAD_CANCELED);
    number("ran on while disabled", cleaned);
}

static int cancel_pipe[2];

static void *blocked_reader(void *argument)
{
    char byte;

    sem_post(&finished);
    (void)!read(cancel_pipe[0], &byte, 1);
    return argument;
}

CASE(cancel_in_read)
{
    MUST(pipe(cancel_pipe));
    sem_init(&finished, 0, 0);
    pthread_t thread = thread_start(blocked_reader, NULL);
    sem_wait(&finished);
    sleep_ms(10);
    show_error("cancel", pthread_cancel(thread));
    truth("cancelled", thread_join(thread) == PTHREAD_CANCELED);
}

static void unlock(void *argument)
{
    pthread_mutex_unlock(argument);
}

static void *cancelled_waiter(void *argument)
{
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(unlock, &mutex);
    sem_post(&finished);
    for (;;)
        pthread_cond_wait(&condition, &mutex);
    pthread_cleanup_pop(1);
    return argument;
}

CASE(cancel_in_condition_wait)
{
    sem_init(&finished, 0, 0);
    pthread_t thread = thread_start(cancelled_waiter, NULL);
    sem_wait(&finished);
    show_error("cancel", pthread_cancel(thread));
    truth("cancelled", thread_join(thread) == PTHREAD_CANCELED);
    show_error("mutex is free", pthread_mutex_trylock(&mutex));
    pthread_mutex_unlock(&mutex);
}

static void *use_stack(void *argument)
{
    volatile char block[200 * 1024];
    long sum = 0;

    for (size_t i = 0; i < sizeof block; i += 512)
        block[i] = 1;
    for (size_t i = 0; i < sizeof block; i += 512)
        sum += block[i];
    return (void *)(sum + (long)argument);
}

CASE(stack_sizes)
{
    pthread_attr_t attributes;
    pthread_t thread;
    size_t size = 0;
    pthread_attr_init(&attributes);
    show_error("too small", pthread_attr_setstacksize(&attributes, 100));
    show_error("512 KiB", pthread_attr_setstacksize(&attributes, 512 * 1024));
    pthread_attr_getstacksize(&attributes, &size);
    number("size", size);
    MUST_ZERO(pthread_create(&thread, &attributes, use_stack, NULL));
    number("touched", (long)thread_join(thread));
}

static void *is_on_stack(void *argument)
{
    char here;
    char *base = argument;

    return (void *)(long)(&here >= base && &here < base + 256 * 1024);
}

CASE(stack_given_by_caller)
{
    pthread_attr_t attributes;
    pthread_t thread;
    void *stack = mmap(NULL, 256 * 1024, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_init(&attributes);
    show_error("setstack", pthread_attr_setstack(&attributes, stack, 256 * 1024));
    MUST_ZERO(pthread_create(&thread, &attributes, is_on_stack, stack));
    truth("runs on it", (long)thread_join(thread));
    munmap(stack, 256 * 1024);
}

static void *own_tid(void *argument)
{
    (void)argument;
    return (void *)(syscall(SYS_gettid) * 2 + (getpid() == syscall(SYS_getpid)));
}

CASE(thread_and_process_ids)
{
    truth("main thread's id is the process's", syscall(SYS_gettid) == getpid());
    long tid = (long)thread_join(thread_start(own_tid, NULL));
    truth("another thread has another id", tid / 2 != getpid());
    truth("and the same process id", tid % 2);
    truth("tgkill to the dead thread", syscall(SYS_tgkill, getpid(), tid / 2, 0) == -1 && errno == ESRCH);
}

CASE(set_tid_address_returns_tid)
{
    static int word;
    truth("returns the thread id", syscall(SYS_set_tid_address, &word) == syscall(SYS_gettid));
}

CASE(yielding)
{
    show("sched_yield", sched_yield());
    for (int i = 0; i < 1000; i++)
        sched_yield();
}

static volatile int spun;

static void *set_spun(void *argument)
{
    (void)argument;
    spun = 1;
    return NULL;
}

CASE(spinning_with_yield_ends)
{
    spun = 0;
    pthread_t thread = thread_start(set_spun, NULL);
    while (!spun)
        sched_yield();
    thread_join(thread);
    number("spun", spun);
}

CASE(spin_lock)
{
    pthread_spinlock_t lock;
    show_error("init", pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE));
    show_error("lock", pthread_spin_lock(&lock));
    show_error("trylock", pthread_spin_trylock(&lock));
    show_error("unlock", pthread_spin_unlock(&lock));
}

static void *name_itself(void *argument)
{
    pthread_setname_np(pthread_self(), "worker");
    pthread_getname_np(pthread_self(), argument, 16);
    return NULL;
}

CASE(thread_names)
{
    char name[16] = "";
    thread_join(thread_start(name_itself, name));
    text("name", name);
    show_error("too long", pthread_setname_np(pthread_self(), "a name of more than 15 bytes"));
}

static void *errno_of_its_own(void *argument)
{
    (void)argument;
    close(-1);
    return (void *)(long)errno;
}

CASE(errno_is_per_thread)
{
    errno = 0;
    show_error("thread", (long)thread_join(thread_start(errno_of_its_own, NULL)));
    show_error("main", errno);
}

/* The queue of a producer and its consumers. */
static int queue[8], queue_head, queue_tail, queue_closed;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER, not_full = PTHREAD_COND_INITIALIZER;

static void *consume(void *argument)
{
    long sum = 0;

    (void)argument;
    pthread_mutex_lock(&mutex);
    for (;;) {
        while (queue_head == queue_tail && !queue_closed)
            pthread_cond_wait(&not_empty, &mutex);
        if (queue_head == queue_tail)
            break;
        sum += queue[queue_tail++ % 8];
        pthread_cond_signal(&not_full);
    }
    pthread_mutex_unlock(&mutex);
    return (void *)sum;
}

CASE(producer_and_consumers)
{
    pthread_t threads[4];
    long sum = 0;
    queue_head = queue_tail = queue_closed = 0;
    for (int i = 0; i < 4; i++)
        threads[i] = thread_start(consume, NULL);
    for (int i = 1; i <= 2000; i++) {
        pthread_mutex_lock(&mutex);
        while (queue_head - queue_tail == 8)
            pthread_cond_wait(&not_full, &mutex);
        queue[queue_head++ % 8] = i;
        pthread_cond_signal(&not_empty);
        pthread_mutex_unlock(&mutex);
    }
    pthread_mutex_lock(&mutex);
    queue_closed = 1;
    pthread_cond_broadcast(&not_empty);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < 4; i++)
        sum += (long)thread_join(threads[i]);
    number("sum", sum);
}

/* The first version of `struct sched_attr` of linux/sched/types.h, as GLib uses it. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static void *schedule(void *main_thread)
{
    struct attributes attributes = { 0 };

    show("read one's own", syscall(SYS_sched_getattr, syscall(SYS_gettid), &attributes, sizeof attributes, 0));
    attributes.size = sizeof attributes;
    show("set one's own", syscall(SYS_sched_setattr, syscall(SYS_gettid), &attributes, 0));
    show("set those of number 0", syscall(SYS_sched_setattr, 0, &attributes, 0));
    show("set another thread's", syscall(SYS_sched_setattr, (pid_t)(intptr_t)main_thread, &attributes, 0));
    show("set nobody's", syscall(SYS_sched_setattr, 0x3ffffff, &attributes, 0));
    return NULL;
}

CASE(each_thread_sets_its_scheduling)
{
    pthread_t thread;

    MUST(pthread_create(&thread, NULL, schedule, (void *)(intptr_t)getpid()) == 0);
    MUST(pthread_join(thread, NULL) == 0);
}
