/* Memory that processes share, in all its forms, and what POSIX threads keep in it. */
#include "process.h"

#include <semaphore.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#define PAGE 4096

static void *shared_zeroes(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    MUST(memory == MAP_FAILED ? -1 : 0);
    return memory;
}

static void *map_fd(int fd, size_t size, int prot, int flags)
{
    void *memory = mmap(NULL, size, prot, flags, fd, 0);

    MUST(memory == MAP_FAILED ? -1 : 0);
    return memory;
}

static const char *object_name(void)
{
    static char name[64];

    snprintf(name, sizeof name, "/gnomon-%s-%d", case_running, (int)getpid());
    return name;
}

static int add_one(void *argument)
{
    ++*(volatile int *)argument;
    return 0;
}

static int child_with_child(void *argument)
{
    in_child("grandchild", add_one, argument);
    ++*(volatile int *)argument;
    return 0;
}

CASE(anonymous_memory_is_shared_over_generations)
{
    int *word = shared_zeroes(PAGE), *private = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    *word = *private = 10;
    in_child("child", child_with_child, word);
    in_child("child", add_one, private);
    printf("shared %d, private %d\n", *word, *private);
    munmap(word, PAGE);
    munmap(private, PAGE);
}

struct halves {
    char *memory;
    int gate[2], back[2];
};

static int unmap_and_write(void *argument)
{
    struct halves *halves = argument;

    munmap(halves->memory, PAGE);
    strcpy(halves->memory + PAGE, "second half");
    gate_open(halves->back[1]);
    gate_wait(halves->gate[0]);
    return strcmp(halves->memory + PAGE, "by the parent") != 0;
}

CASE(unmapping_is_each_ones_own)
{
    struct halves halves = { .memory = shared_zeroes(2 * PAGE) };
    pid_t pid;

    make_pipe(halves.gate);
    make_pipe(halves.back);
    strcpy(halves.memory, "first half");
    pid = child_start(unmap_and_write, &halves);
    gate_wait(halves.back[0]);
    printf("%s, %s\n", halves.memory, halves.memory + PAGE);
    strcpy(halves.memory + PAGE, "by the parent");
    gate_open(halves.gate[1]);
    child_end("child", pid);
    munmap(halves.memory, 2 * PAGE);
}

CASE(turns_see_each_others_writes)
{
    volatile int *words = shared_zeroes(PAGE);
    int there[2], back[2];
    pid_t pid;

    make_pipe(there);
    make_pipe(back);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        for (int i = 0; i < 100; i++) {
            gate_wait(there[0]);
            words[1] += words[0];
            gate_open(back[1]);
        }
        _exit(0);
    }
    for (int i = 0; i < 100; i++) {
        words[0] = i;
        gate_open(there[1]);
        gate_wait(back[0]);
    }
    child_end("child", pid);
    number("sum", words[1]);
    munmap((void *)words, PAGE);
}

CASE(several_children_count_together)
{
    int *word = shared_zeroes(PAGE);
    pid_t pids[6];

    for (int i = 0; i < 6; i++) {
        fflush(stdout);
        pids[i] = MUST(fork());
        if (pids[i] == 0) {
            for (int n = 0; n < 200; n++) {
                __atomic_add_fetch(word, 1, __ATOMIC_SEQ_CST);
                if (n % 50 == 0)
                    sched_yield();
            }
            _exit(0);
        }
    }
    for (int i = 0; i < 6; i++)
        MUST(waitpid(pids[i], NULL, 0));
    number("count", *word);
    munmap(word, PAGE);
}

/* Opens an object by its name as a process of its own would. */
static int open_and_write(void *argument)
{
    int fd = shm_open(argument, O_RDWR, 0);
    char *padding = mmap(NULL, 5 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *memory = map_fd(fd, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);

    strcat(memory, " and child");
    return padding == memory;
}

CASE(posix_objects)
{
    const char *name = object_name();
    int fd = MUST(shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600));
    char *memory;
    struct stat stat;

    MUST(ftruncate(fd, PAGE));
    memory = map_fd(fd, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
    strcpy(memory, "parent");
    in_child("child", open_and_write, (void *)name);
    text("memory", memory);
    show("exclusive", shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600));
    show("unlink", shm_unlink(name));
    show("unlink again", shm_unlink(name));
    strcat(memory, ", still");
    text("memory", memory);
    MUST(fstat(fd, &stat));
    number("size", stat.st_size);
    number("links", stat.st_nlink);
    munmap(memory, PAGE);
}

CASE(a_program_writes_a_file_that_is_mapped)
{
    char command[200];
    int fd;
    char *memory;

    scratch();
    file_make("file", "old content of the file");
    fd = MUST(open("file", O_RDWR));
    memory = map_fd(fd, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
    snprintf(command, sizeof command, "printf new > part && dd if=part of=file conv=notrunc 2>/dev/null");
    number("status", system(command));
    text("memory", memory);
    strcpy(memory + 4, "CONTENT");
    number("status", system("head -c 11 file; echo"));
    munmap(memory, PAGE);
}

CASE(file_mappings_and_calls_agree)
{
    int fd;
    char *memory, *other, data[8] = { 0 };

    scratch();
    fd = MUST(open("file", O_RDWR | O_CREAT, 0644));
    MUST(ftruncate(fd, 2 * PAGE));
    memory = map_fd(fd, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
    other = map_fd(fd, 2 * PAGE, PROT_READ, MAP_SHARED);
    MUST(pwrite(fd, "call", 4, PAGE));
    bytes("memory", memory + PAGE, 4);
    memcpy(memory + PAGE, "map", 3);
    MUST(pread(fd, data, 4, PAGE));
    bytes("read", data, 4);
    bytes("other mapping", other + PAGE, 4);
    MUST(munmap(memory, 2 * PAGE));
    memory = map_fd(fd, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    memory[0] = 'p';
    MUST(pread(fd, data, 1, 0));
    bytes("private writes stay", data, 1);
    bytes("other mapping", other, 1);
    munmap(memory, PAGE);
    munmap(other, 2 * PAGE);
}

static int touch(void *argument)
{
    return ((volatile char *)argument)[PAGE];
}

CASE(behind_the_end_of_a_file)
{
    int fd;
    char *memory;

    scratch();
    fd = MUST(open("file", O_RDWR | O_CREAT, 0644));
    MUST(write(fd, "abc", 3));
    memory = map_fd(fd, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
    bytes("the rest of the page is zero", memory, 6);
    in_child("behind it", touch, memory);
    MUST(ftruncate(fd, 2 * PAGE));
    in_child("once the file grew", touch, memory);
    munmap(memory, 2 * PAGE);
}

CASE(growing_and_moving)
{
    int fd = MUST(memfd_create("grows", 0));
    char *memory, *more;

    MUST(ftruncate(fd, 8 * PAGE));
    memory = map_fd(fd, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
    strcpy(memory, "start");
    more = mremap(memory, PAGE, 8 * PAGE, MREMAP_MAYMOVE);
    truth("moved or grown", more != MAP_FAILED);
    text("start", more);
    strcpy(more + 7 * PAGE, "end");
    memory = map_fd(fd, 8 * PAGE, PROT_READ, MAP_SHARED);
    text("end", memory + 7 * PAGE);
    munmap(memory, 8 * PAGE);
    memory = mremap(more, 8 * PAGE, 2 * PAGE, 0);
    truth("shrunk in place", memory == more);
    more = mremap(memory, 0, 2 * PAGE, MREMAP_MAYMOVE);
    truth("once more", more != MAP_FAILED && more != memory);
    strcpy(memory + PAGE, "both");
    text("both", more + PAGE);
    munmap(memory, 2 * PAGE);
    munmap(more, 2 * PAGE);
}

CASE(dontunmap_leaves_an_empty_mapping)
{
    char *memory = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *moved;

    strcpy(memory, "text");
    /* The C library does not pass the fifth argument, which the kernel looks at. */
    moved = (char *)syscall(SYS_mremap, memory, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | 4, NULL);
    truth("moved", moved != MAP_FAILED && moved != memory);
    text("there", moved);
    text("here", memory);
    memory[0] = 'x';
    text("there", moved);
    show("other size", syscall(SYS_mremap, moved, 2 * PAGE, PAGE, MREMAP_MAYMOVE | 4, NULL));
    show("without moving", syscall(SYS_mremap, moved, 2 * PAGE, 2 * PAGE, 4, NULL));
    munmap(memory, 2 * PAGE);
    munmap(moved, 2 * PAGE);
}

static void send_fd(int socket, int fd)
{
    char byte = 'f', control[CMSG_SPACE(sizeof fd)] = { 0 };
    struct iovec part = { &byte, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    MUST(sendmsg(socket, &message, 0));
}

static int receive_fd(int socket)
{
    char byte, control[CMSG_SPACE(sizeof(int))] = { 0 };
    struct iovec part = { &byte, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    int fd = -1;

    MUST(recvmsg(socket, &message, 0));
    if (CMSG_FIRSTHDR(&message))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

CASE(a_memfd_is_passed)
{
    int ends[2], fd, status;
    char *memory;
    pid_t pid;

    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        close(ends[0]);
        fd = receive_fd(ends[1]);
        memory = map_fd(fd, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
        strcat(memory, " world");
        MUST(write(ends[1], "d", 1));
        _exit(0);
    }
    close(ends[1]);
    fd = MUST(memfd_create("passed", 0));
    MUST(ftruncate(fd, PAGE));
    memory = map_fd(fd, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
    strcpy(memory, "hello");
    send_fd(ends[0], fd);
    gate_wait(ends[0]);
    text("memory", memory);
    MUST(waitpid(pid, &status, 0));
    munmap(memory, PAGE);
}

CASE(futexes_by_place_and_not_by_address)
{
    int fd = MUST(memfd_create("futex", 0)), status, *first, *second;
    pid_t pid;

    MUST(ftruncate(fd, PAGE));
    first = map_fd(fd, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
    second = map_fd(fd, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
    truth("two addresses", first != second);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0)
        _exit(syscall(SYS_futex, first + 3, 0, 0, NULL, NULL, 0) == 0 ? 0 : errno);
    while (syscall(SYS_futex, second + 3, 1, 1, NULL, NULL, 0) != 1)
        sleep_ms(5);
    MUST(waitpid(pid, &status, 0));
    show_status("child", status);
    show("nobody at another place", syscall(SYS_futex, second + 4, 1, 1, NULL, NULL, 0));
    munmap(first, PAGE);
    munmap(second, PAGE);
}

struct room {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    pthread_barrier_t barrier;
    pthread_rwlock_t rwlock;
    pthread_spinlock_t spin;
    sem_t semaphore;
    int value, turns;
};

static struct room *make_room(int robust, int protocol)
{
    struct room *room = shared_zeroes(PAGE);
    pthread_mutexattr_t mutex;
    pthread_condattr_t cond;
    pthread_barrierattr_t barrier;
    pthread_rwlockattr_t rwlock;

    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    if (robust)
        pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST);
    MUST_ZERO(pthread_mutexattr_setprotocol(&mutex, protocol));
    MUST_ZERO(pthread_mutex_init(&room->mutex, &mutex));
    pthread_condattr_init(&cond);
    pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED);
    MUST_ZERO(pthread_cond_init(&room->cond, &cond));
    pthread_barrierattr_init(&barrier);
    pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED);
    MUST_ZERO(pthread_barrier_init(&room->barrier, &barrier, 3));
    pthread_rwlockattr_init(&rwlock);
    pthread_rwlockattr_setpshared(&rwlock, PTHREAD_PROCESS_SHARED);
    MUST_ZERO(pthread_rwlock_init(&room->rwlock, &rwlock));
    MUST_ZERO(pthread_spin_init(&room->spin, PTHREAD_PROCESS_SHARED));
    MUST(sem_init(&room->semaphore, 1, 0));
    return room;
}

static int count_under_mutex(void *argument)
{
    struct room *room = argument;

    for (int i = 0; i < 100; i++) {
        pthread_mutex_lock(&room->mutex);
        int value = room->value;

        if (i % 10 == 0)
            sched_yield();
        room->value = value + 1;
        pthread_mutex_unlock(&room->mutex);
    }
    return 0;
}

static void mutex_between_processes(int robust, int protocol)
{
    struct room *room = make_room(robust, protocol);
    pid_t pids[3];

    for (int i = 0; i < 3; i++)
        pids[i] = child_start(count_under_mutex, room);
    count_under_mutex(room);
    for (int i = 0; i < 3; i++)
        child_end("child", pids[i]);
    number("value", room->value);
    munmap(room, PAGE);
}

CASE(mutexes)
{
    mutex_between_processes(0, PTHREAD_PRIO_NONE);
}

CASE(robust_mutexes)
{
    mutex_between_processes(1, PTHREAD_PRIO_NONE);
}

CASE(mutexes_that_inherit_priority)
{
    mutex_between_processes(0, PTHREAD_PRIO_INHERIT);
}

static int lock_and_die(void *argument)
{
    pthread_mutex_lock(&((struct room *)argument)->mutex);
    raise(SIGKILL);
    return 0;
}

static void owner_dies(int protocol)
{
    struct room *room = make_room(1, protocol);

    in_child("owner", lock_and_die, room);
    show_error("lock", pthread_mutex_lock(&room->mutex));
    show_error("consistent", pthread_mutex_consistent(&room->mutex));
    show_error("unlock", pthread_mutex_unlock(&room->mutex));
    show_error("lock", pthread_mutex_lock(&room->mutex));
    show_error("unlock", pthread_mutex_unlock(&room->mutex));
    in_child("owner", lock_and_die, room);
    show_error("lock", pthread_mutex_lock(&room->mutex));
    show_error("unlock without repair", pthread_mutex_unlock(&room->mutex));
    show_error("lock", pthread_mutex_lock(&room->mutex));
    munmap(room, PAGE);
}

CASE(the_owner_of_a_robust_mutex_dies)
{
    owner_dies(PTHREAD_PRIO_NONE);
}

CASE(the_owner_of_a_robust_inheriting_mutex_dies)
{
    owner_dies(PTHREAD_PRIO_INHERIT);
}

static int lock_and_report(void *argument)
{
    struct room *room = argument;
    int error;

    room->turns = 1;
    error = pthread_mutex_lock(&room->mutex);
    if (error == EOWNERDEAD)
        pthread_mutex_consistent(&room->mutex);
    pthread_mutex_unlock(&room->mutex);
    return error;
}

static int hold_until_other_waits(void *argument)
{
    struct room *room = argument;

    pthread_mutex_lock(&room->mutex);
    room->value = 1;
    while (!room->turns)
        sleep_ms(5);
    sleep_ms(30);
    _exit(0);
}

static void waiter_inherits(int protocol)
{
    struct room *room = make_room(1, protocol);
    pid_t holder = child_start(hold_until_other_waits, room), waiter;

    while (!*(volatile int *)&room->value)
        sleep_ms(5);
    waiter = child_start(lock_and_report, room);
    child_end("holder", holder);
    int status;
    MUST(waitpid(waiter, &status, 0));
    text("waiter", errno_name(WEXITSTATUS(status)));
    show_error("lock", pthread_mutex_lock(&room->mutex));
    munmap(room, PAGE);
}

CASE(a_waiter_learns_of_the_death)
{
    waiter_inherits(PTHREAD_PRIO_NONE);
}

CASE(a_waiter_of_an_inheriting_mutex_learns_of_the_death)
{
    waiter_inherits(PTHREAD_PRIO_INHERIT);
}

static int wait_for_value(void *argument)
{
    struct room *room = argument;

    pthread_mutex_lock(&room->mutex);
    while (room->value < 5)
        pthread_cond_wait(&room->cond, &room->mutex);
    room->turns++;
    pthread_mutex_unlock(&room->mutex);
    return 0;
}

CASE(conditions)
{
    struct room *room = make_room(0, PTHREAD_PRIO_NONE);
    pid_t first = child_start(wait_for_value, room), second = child_start(wait_for_value, room);

    for (int i = 0; i < 5; i++) {
        sleep_ms(5);
        pthread_mutex_lock(&room->mutex);
        room->value++;
        pthread_cond_broadcast(&room->cond);
        pthread_mutex_unlock(&room->mutex);
    }
    child_end("first", first);
    child_end("second", second);
    number("turns", room->turns);
    munmap(room, PAGE);
}

static int meet(void *argument)
{
    struct room *room = argument;
    int serial = 0;

    for (int i = 0; i < 4; i++) {
        serial += pthread_barrier_wait(&room->barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
        __atomic_add_fetch(&room->value, 1, __ATOMIC_SEQ_CST);
        pthread_barrier_wait(&room->barrier);
        if (room->value != 3 * (i + 1))
            return 100;
        pthread_barrier_wait(&room->barrier);
    }
    __atomic_add_fetch(&room->turns, serial, __ATOMIC_SEQ_CST);
    return 0;
}

CASE(barriers)
{
    struct room *room = make_room(0, PTHREAD_PRIO_NONE);
    pid_t first = child_start(meet, room), second = child_start(meet, room);

    number("own", meet(room));
    child_end("first", first);
    child_end("second", second);
    printf("value %d, serial %d\n", room->value, room->turns);
    munmap(room, PAGE);
}

static int post_three(void *argument)
{
    for (int i = 0; i < 3; i++)
        sem_post(&((struct room *)argument)->semaphore);
    return 0;
}

CASE(semaphores)
{
    struct room *room = make_room(0, PTHREAD_PRIO_NONE);
    struct timespec soon = timespec_of_ns(clock_ns(CLOCK_REALTIME) + 30000000);
    pid_t pid;
    int value;

    show("trywait", sem_trywait(&room->semaphore));
    show("timedwait", sem_timedwait(&room->semaphore, &soon));
    pid = child_start(post_three, room);
    show("wait", sem_wait(&room->semaphore));
    show("wait", sem_wait(&room->semaphore));
    child_end("child", pid);
    sem_getvalue(&room->semaphore, &value);
    number("value", value);
    munmap(room, PAGE);
}

static int post_named(void *argument)
{
    sem_t *semaphore = sem_open(argument, 0);

    return semaphore == SEM_FAILED ? errno : sem_post(semaphore);
}

CASE(named_semaphores)
{
    const char *name = object_name();
    sem_t *semaphore = sem_open(name, O_CREAT | O_EXCL, 0600, 1);
    int value;

    truth("made", semaphore != SEM_FAILED);
    truth("exclusive", sem_open(name, O_CREAT | O_EXCL, 0600, 1) == SEM_FAILED && errno == EEXIST);
    in_child("child", post_named, (void *)name);
    sem_getvalue(semaphore, &value);
    number("value", value);
    truth("the same address again", sem_open(name, 0) == semaphore);
    show("unlink", sem_unlink(name));
    show("unlink again", sem_unlink(name));
    in_child("child", post_named, (void *)name);
    sem_close(semaphore);
    sem_close(semaphore);
}

static int read_and_write_locks(void *argument)
{
    struct room *room = argument;

    for (int i = 0; i < 50; i++) {
        pthread_rwlock_wrlock(&room->rwlock);
        room->value++;
        room->turns++;
        pthread_rwlock_unlock(&room->rwlock);
        pthread_rwlock_rdlock(&room->rwlock);
        if (room->value != room->turns)
            return 1;
        pthread_rwlock_unlock(&room->rwlock);
        if (i % 10 == 0)
            sched_yield();
    }
    return 0;
}

CASE(read_write_locks)
{
    struct room *room = make_room(0, PTHREAD_PRIO_NONE);
    pid_t first = child_start(read_and_write_locks, room), second = child_start(read_and_write_locks, room);

    number("own", read_and_write_locks(room));
    child_end("first", first);
    child_end("second", second);
    number("value", room->value);
    munmap(room, PAGE);
}

CASE(maps_names_shared_memory)
{
    int fd = MUST(memfd_create("shown", 0)), zero = 0, memfd = 0;
    void *memory = shared_zeroes(PAGE), *other;
    char line[512];
    FILE *file;

    MUST(ftruncate(fd, PAGE));
    other = map_fd(fd, PAGE, PROT_READ, MAP_SHARED);
    file = fopen("/proc/self/maps", "r");
    while (file && fgets(line, sizeof line, file)) {
        zero += strstr(line, "rw-s") && strstr(line, "/dev/zero (deleted)");
        memfd += strstr(line, "r--s") && strstr(line, "/memfd:shown (deleted)");
    }
    if (file)
        fclose(file);
    printf("%d %d\n", zero, memfd);
    munmap(memory, PAGE);
    munmap(other, PAGE);
}

/* Both kinds of mappings of each kind of memory, written by a child: what the parent sees. */
CASE(matrix_of_mappings)
{
    static const char *const sources[] = { "anonymous", "memfd", "file", "shm" };

    scratch();
    for (int source = 0; source < 4; source++)
        for (int shared = 0; shared < 2; shared++)
            for (int before = 0; before < 2; before++) {
                int fd = -1, flags = shared ? MAP_SHARED : MAP_PRIVATE;
                volatile int *word;

                if (source == 1)
                    fd = MUST(memfd_create("matrix", 0));
                else if (source == 2)
                    fd = MUST(open("matrix", O_RDWR | O_CREAT | O_TRUNC, 0600));
                else if (source == 3)
                    fd = MUST(shm_open(object_name(), O_RDWR | O_CREAT | O_TRUNC, 0600));
                if (fd != -1)
                    MUST(ftruncate(fd, PAGE));
                else
                    flags |= MAP_ANONYMOUS;
                word = map_fd(fd, PAGE, PROT_READ | PROT_WRITE, flags);
                if (before)
                    *word = 7;
                in_child("child", add_one, (void *)word);
                printf("%s %s%s: %d\n", sources[source], shared ? "shared" : "private", before ? ", written before" : "", *word);
                munmap((void *)word, PAGE);
                if (fd != -1)
                    close(fd);
            }
    shm_unlink(object_name());
}
