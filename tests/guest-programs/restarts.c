/*
 * Calls that wait and are interrupted by a handler: EINTR, or going on, with
 * and without SA_RESTART, as signal(7) lists them. A case per call: a second
 * thread sends the signal, and then lets the call come to its end.
 */
#include "process.h"

#include <poll.h>
#include <pty.h>
#include <linux/futex.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>

/* How long each side gives the other. */
#define STEP_MS 30

typedef long blocking_call(void);
typedef void ending(void);

static volatile sig_atomic_t handled;
static pthread_t waiter;
static int ends[2], pair[2];
static char buffer[256];

static void handler(int number)
{
    (void)number;
    handled++;
}

static void *disturb(void *argument)
{
    ending *end = (ending *)argument;

    sleep_ms(STEP_MS);
    pthread_kill(waiter, SIGUSR1);
    sleep_ms(STEP_MS);
    if (end)
        end();
    return NULL;
}

/* What may wait of SIGUSR2, which some ends send. */
static void forget_second(void)
{
    struct timespec none = { 0, 0 };
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    while (sigtimedwait(&set, NULL, &none) > 0)
        ;
}

static void interrupted(const char *what, int flags, blocking_call *call, ending *end)
{
    struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
    sigset_t set, old;
    pthread_t thread;
    long result;

    MUST(sigaction(SIGUSR1, &action, NULL));
    waiter = pthread_self();
    handled = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    MUST_ZERO(pthread_sigmask(SIG_BLOCK, &set, &old));
    thread = thread_start(disturb, (void *)end);
    MUST_ZERO(pthread_sigmask(SIG_SETMASK, &old, NULL));
    result = call();
    show(what, result);
    thread_join(thread);
    forget_second();
    number("handled", handled);
}

/* Both ways; `prepare` makes what the call waits for, anew each time. */
static void both(ending *prepare, blocking_call *call, ending *end)
{
    prepare();
    interrupted("without SA_RESTART", 0, call, end);
    prepare();
    interrupted("with SA_RESTART", SA_RESTART, call, end);
}

static void nothing(void)
{
}

static void close_all(void)
{
    for (int fd = 3; fd < SWEPT_DESCRIPTORS; fd++)
        close(fd);
}

static void new_pipe(void)
{
    close_all();
    make_pipe(ends);
}

static void full_pipe(void)
{
    new_pipe();
    set_nonblocking(ends[1]);
    while (write(ends[1], buffer, sizeof buffer) > 0)
        ;
    MUST(fcntl(ends[1], F_SETFL, 0));
}

static void put_byte(void)
{
    if (write(ends[1], "x", 1) < 0)
        perror("write");
}

static void empty_pipe(void)
{
    static char room[1 << 17];

    if (read(ends[0], room, sizeof room) < 0)
        perror("read");
}

static void new_pair(void)
{
    close_all();
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
}

static void put_in_pair(void)
{
    if (write(pair[1], "x", 1) < 0)
        perror("write");
}

static long read_pipe(void)
{
    return read(ends[0], buffer, 10);
}

CASE(read_of_a_pipe)
{
    both(new_pipe, read_pipe, put_byte);
}

static long readv_pipe(void)
{
    struct iovec vector = { buffer, 10 };

    return readv(ends[0], &vector, 1);
}

CASE(readv_of_a_pipe)
{
    both(new_pipe, readv_pipe, put_byte);
}

static long write_pipe(void)
{
    return write(ends[1], buffer, 100);
}

CASE(write_to_a_full_pipe)
{
    both(full_pipe, write_pipe, empty_pipe);
}

static long splice_pipe(void)
{
    int other[2];

    MUST(pipe(other));
    return splice(ends[0], NULL, other[1], NULL, 10, 0);
}

CASE(splice_of_an_empty_pipe)
{
    both(new_pipe, splice_pipe, put_byte);
}

static long vmsplice_pipe(void)
{
    struct iovec vector = { buffer, 10 };

    return vmsplice(ends[1], &vector, 1, 0);
}

CASE(vmsplice_to_a_full_pipe)
{
    both(full_pipe, vmsplice_pipe, empty_pipe);
}

static void new_fifo(void)
{
    close_all();
    unlink("fifo");
    MUST(mkfifo("fifo", 0600));
}

static long open_fifo(void)
{
    long fd = open("fifo", O_RDONLY);

    return fd < 0 ? fd : 0;
}

static void open_other_end(void)
{
    int fd = open("fifo", O_WRONLY | O_NONBLOCK);

    if (fd >= 0)
        close(fd);
}

CASE(open_of_a_fifo)
{
    scratch();
    both(new_fifo, open_fifo, open_other_end);
}

static long read_socket(void)
{
    return read(pair[0], buffer, 10);
}

CASE(read_of_a_socket)
{
    both(new_pair, read_socket, put_in_pair);
}

static long recv_socket(void)
{
    return recv(pair[0], buffer, 10, 0);
}

CASE(recv)
{
    both(new_pair, recv_socket, put_in_pair);
}

static long recvmsg_socket(void)
{
    struct iovec vector = { buffer, 10 };
    struct msghdr header = { .msg_iov = &vector, .msg_iovlen = 1 };

    return recvmsg(pair[0], &header, 0);
}

CASE(recvmsg)
{
    both(new_pair, recvmsg_socket, put_in_pair);
}

static void timed_pair(void)
{
    struct timeval limit = { 5, 0 };

    new_pair();
    MUST(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    MUST(setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
}

CASE(recv_with_a_timeout)
{
    both(timed_pair, recv_socket, put_in_pair);
}

static void fill_pair(void)
{
    static char data[4096];

    set_nonblocking(pair[0]);
    while (write(pair[0], data, sizeof data) > 0 || write(pair[0], data, 1) > 0)
        ;
    MUST(fcntl(pair[0], F_SETFL, 0));
}

static void full_pair(void)
{
    new_pair();
    fill_pair();
}

static void full_timed_pair(void)
{
    timed_pair();
    fill_pair();
}

static void empty_pair(void)
{
    static char data[1 << 20];

    set_nonblocking(pair[1]);
    while (read(pair[1], data, sizeof data) > 0)
        ;
}

static long send_socket(void)
{
    return send(pair[0], buffer, 10, 0);
}

CASE(send_to_a_full_socket)
{
    both(full_pair, send_socket, empty_pair);
}

CASE(send_with_a_timeout)
{
    both(full_timed_pair, send_socket, empty_pair);
}

static struct sockaddr_un address = { .sun_family = AF_UNIX };

static void new_listener(void)
{
    close_all();
    unlink("socket");
    strcpy(address.sun_path, "socket");
    pair[0] = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    MUST(bind(pair[0], (struct sockaddr *)&address, sizeof address));
    MUST(listen(pair[0], 4));
}

static long accept_socket(void)
{
    long fd = accept(pair[0], NULL, NULL);

    return fd < 0 ? fd : 0;
}

static void connect_to_it(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    connect(fd, (struct sockaddr *)&address, sizeof address);
}

CASE(accept)
{
    scratch();
    both(new_listener, accept_socket, connect_to_it);
}

static pid_t holder;
static int release_fd;

/* A child that holds a lock of some kind until it is told to let it go. */
static void hold(void (*lock)(int fd))
{
    int ready[2], go[2];

    close_all();
    make_pipe(ready);
    make_pipe(go);
    fflush(stdout);
    holder = MUST(fork());
    if (holder == 0) {
        int fd = open("file", O_RDWR | O_CREAT, 0600);

        lock(fd);
        close(go[1]);
        gate_open(ready[1]);
        gate_wait(go[0]);
        _exit(0);
    }
    close(go[0]);
    close(ready[1]);
    gate_wait(ready[0]);
    release_fd = go[1];
    pair[0] = MUST(open("file", O_RDWR));
}

static void let_go(void)
{
    close(release_fd);
    waitpid(holder, NULL, 0);
}

static void lock_whole(int fd)
{
    flock(fd, LOCK_EX);
}

static void lock_record(int fd)
{
    struct flock lock = { .l_type = F_WRLCK };

    fcntl(fd, F_SETLK, &lock);
}

static void held_whole(void)
{
    hold(lock_whole);
}

static void held_record(void)
{
    hold(lock_record);
}

static long wait_for_whole(void)
{
    return flock(pair[0], LOCK_EX);
}

static long wait_for_record(void)
{
    struct flock lock = { .l_type = F_WRLCK };

    return fcntl(pair[0], F_SETLKW, &lock);
}

static long wait_for_open_record(void)
{
    struct flock lock = { .l_type = F_WRLCK };

    return fcntl(pair[0], F_OFD_SETLKW, &lock);
}

CASE(flock_of_a_locked_file)
{
    scratch();
    both(held_whole, wait_for_whole, let_go);
}

CASE(record_lock)
{
    scratch();
    both(held_record, wait_for_record, let_go);
}

CASE(lock_of_an_open_file)
{
    scratch();
    both(held_record, wait_for_open_record, let_go);
}

static void new_child(void)
{
    int go[2];

    close_all();
    make_pipe(go);
    fflush(stdout);
    holder = MUST(fork());
    if (holder == 0) {
        close(go[1]);
        gate_wait(go[0]);
        _exit(3);
    }
    close(go[0]);
    release_fd = go[1];
}

static void end_child(void)
{
    close(release_fd);
}

static void reap(void)
{
    while (waitpid(-1, NULL, 0) > 0)
        ;
}

static long wait_child(void)
{
    int status = 0;
    long got = waitpid(holder, &status, 0);

    return got < 0 ? got : WEXITSTATUS(status);
}

static long waitid_child(void)
{
    siginfo_t info = { 0 };
    long got = waitid(P_PID, holder, &info, WEXITED);

    return got < 0 ? got : info.si_status;
}

CASE(waitpid)
{
    both(new_child, wait_child, end_child);
    reap();
}

CASE(waitid)
{
    both(new_child, waitid_child, end_child);
    reap();
}

static int word;

static void clear_word(void)
{
    word = 0;
}

static void set_word(void)
{
    __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static long futex_wait(void)
{
    return syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static long futex_timed(void)
{
    struct timespec limit = timespec_of_ms(2000);

    return syscall(SYS_futex, &word, FUTEX_WAIT, 0, &limit, NULL, 0);
}

static long futex_bitset(void)
{
    struct timespec limit = timespec_of_ns(now_ns() + 2000000000);

    return syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 0, &limit, NULL, -1);
}

CASE(futex)
{
    both(clear_word, futex_wait, set_word);
}

CASE(futex_with_a_timeout)
{
    both(clear_word, futex_timed, set_word);
}

CASE(futex_with_a_deadline)
{
    both(clear_word, futex_bitset, set_word);
}

static sem_t semaphore;

static void new_semaphore(void)
{
    MUST(sem_init(&semaphore, 0, 0));
}

static long wait_semaphore(void)
{
    return sem_wait(&semaphore);
}

static long wait_semaphore_timed(void)
{
    struct timespec limit = timespec_of_ns(clock_ns(CLOCK_REALTIME) + 2000000000);

    return sem_timedwait(&semaphore, &limit);
}

static void post(void)
{
    sem_post(&semaphore);
}

CASE(sem_wait)
{
    both(new_semaphore, wait_semaphore, post);
}

CASE(sem_timedwait)
{
    both(new_semaphore, wait_semaphore_timed, post);
}

static int ipc;

static void new_queue(void)
{
    ipc = MUST(msgget(IPC_PRIVATE, 0600));
}

static long receive_message(void)
{
    long message[4];
    long got = msgrcv(ipc, message, 8, 0, 0);
    int error = errno;

    msgctl(ipc, IPC_RMID, NULL);
    errno = error;
    return got;
}

static void send_message(void)
{
    long message[4] = { 1 };

    msgsnd(ipc, message, 8, 0);
}

CASE(msgrcv)
{
    both(new_queue, receive_message, send_message);
}

static void new_set(void)
{
    ipc = MUST(semget(IPC_PRIVATE, 1, 0600));
}

static long wait_set(void)
{
    struct sembuf down = { 0, -1, 0 };
    long got = semop(ipc, &down, 1);
    int error = errno;

    semctl(ipc, 0, IPC_RMID);
    errno = error;
    return got;
}

static void raise_set(void)
{
    struct sembuf up = { 0, 1, 0 };

    semop(ipc, &up, 1);
}

CASE(semop)
{
    both(new_set, wait_set, raise_set);
}

static void new_event(void)
{
    close_all();
    pair[0] = MUST(eventfd(0, 0));
}

static void raise_event(void)
{
    eventfd_write(pair[0], 1);
}

static void new_timer(void)
{
    struct itimerspec timer = { .it_value = timespec_of_ms(150) };

    close_all();
    pair[0] = MUST(timerfd_create(CLOCK_MONOTONIC, 0));
    MUST(timerfd_settime(pair[0], 0, &timer, NULL));
}

static void new_signalfd(void)
{
    sigset_t set;

    close_all();
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    MUST_ZERO(pthread_sigmask(SIG_BLOCK, &set, NULL));
    pair[0] = MUST(signalfd(-1, &set, 0));
}

static void send_second(void)
{
    kill(getpid(), SIGUSR2);
}

static long read_record(void)
{
    struct signalfd_siginfo record;

    return read(pair[0], &record, sizeof record);
}

CASE(read_of_an_eventfd)
{
    both(new_event, read_socket, raise_event);
}

CASE(read_of_a_timerfd)
{
    both(new_timer, read_socket, nothing);
}

CASE(read_of_a_signalfd)
{
    both(new_signalfd, read_record, send_second);
}

static void new_watch(void)
{
    close_all();
    pair[0] = MUST(inotify_init());
    MUST(inotify_add_watch(pair[0], ".", IN_CREATE));
}

static void new_name(void)
{
    unlink("name");
    close(open("name", O_CREAT | O_WRONLY, 0600));
}

static long read_watch(void)
{
    long got = read(pair[0], buffer, sizeof buffer);

    return got > 0 ? 1 : got;
}

CASE(read_of_inotify)
{
    scratch();
    both(new_watch, read_watch, new_name);
}

static void new_terminal(void)
{
    close_all();
    MUST(openpty(&pair[1], &pair[0], NULL, NULL, NULL));
}

static void type_line(void)
{
    if (write(pair[1], "line\n", 5) < 0)
        perror("write");
}

CASE(read_of_a_terminal)
{
    both(new_terminal, read_socket, type_line);
}

static void new_master(void)
{
    close_all();
    MUST(openpty(&pair[0], &pair[1], NULL, NULL, NULL));
}

static void show_byte(void)
{
    if (write(pair[1], "x", 1) < 0)
        perror("write");
}

CASE(read_of_a_master)
{
    both(new_master, read_socket, show_byte);
}

static long poll_call(void)
{
    struct pollfd entry = { .fd = ends[0], .events = POLLIN };

    return poll(&entry, 1, 2000);
}

static long ppoll_call(void)
{
    struct pollfd entry = { .fd = ends[0], .events = POLLIN };
    struct timespec limit = timespec_of_ms(2000);

    return ppoll(&entry, 1, &limit, NULL);
}

static long select_call(void)
{
    struct timeval limit = { 2, 0 };
    fd_set set;

    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    return select(ends[0] + 1, &set, NULL, NULL, &limit);
}

static long pselect_call(void)
{
    struct timespec limit = timespec_of_ms(2000);
    fd_set set;

    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    return pselect(ends[0] + 1, &set, NULL, NULL, &limit, NULL);
}

static long epoll_call(void)
{
    struct epoll_event event = { .events = EPOLLIN };
    int instance = MUST(epoll_create1(0));

    MUST(epoll_ctl(instance, EPOLL_CTL_ADD, ends[0], &event));
    return epoll_wait(instance, &event, 1, 2000);
}

CASE(poll)
{
    both(new_pipe, poll_call, put_byte);
}

CASE(ppoll)
{
    both(new_pipe, ppoll_call, put_byte);
}

CASE(select)
{
    both(new_pipe, select_call, put_byte);
}

CASE(pselect)
{
    both(new_pipe, pselect_call, put_byte);
}

CASE(epoll_wait)
{
    both(new_pipe, epoll_call, put_byte);
}

static long sleep_call(void)
{
    struct timespec time = timespec_of_ms(5000), left = { 9, 9 };
    long got = nanosleep(&time, &left);
    int error = errno;

    truth("some time left", got == -1 && left.tv_sec < 5);
    errno = error;
    return got;
}

static long clock_sleep_call(void)
{
    struct timespec time = timespec_of_ms(5000);

    errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
    return errno ? -1 : 0;
}

static long clock_sleep_until(void)
{
    struct timespec time = timespec_of_ns(now_ns() + 5000000000);

    errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
    return errno ? -1 : 0;
}

CASE(nanosleep)
{
    both(nothing, sleep_call, nothing);
}

CASE(clock_nanosleep)
{
    both(nothing, clock_sleep_call, nothing);
}

CASE(clock_nanosleep_until)
{
    both(nothing, clock_sleep_until, nothing);
}

static long pause_call(void)
{
    return pause();
}

static long suspend_call(void)
{
    sigset_t set;

    sigemptyset(&set);
    return sigsuspend(&set);
}

static long timed_wait_call(void)
{
    struct timespec limit = timespec_of_ms(2000);
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    return sigtimedwait(&set, NULL, &limit);
}

static void block_second(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    MUST_ZERO(pthread_sigmask(SIG_BLOCK, &set, NULL));
}

CASE(pause)
{
    both(nothing, pause_call, nothing);
}

CASE(sigsuspend)
{
    both(nothing, suspend_call, nothing);
}

CASE(sigtimedwait)
{
    both(block_second, timed_wait_call, nothing);
}

/* What is not read in time: a write that had begun gives what it has done. */
static long long_write(void)
{
    static char data[200000];

    return write(ends[1], data, sizeof data) == 65536 ? 65536 : -2;
}

CASE(a_write_that_had_begun)
{
    both(new_pipe, long_write, nothing);
}
