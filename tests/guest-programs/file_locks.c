/*
 * Locks on files between processes: fcntl's record locks belong to
 * processes, flock's and those of open file descriptions to open files.
 */
#include "process.h"

#include <sys/file.h>

static struct flock lock_of(int type, long start, long length)
{
    return (struct flock){ .l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length };
}

static int lock(int fd, int command, int type, long start, long length)
{
    struct flock wanted = lock_of(type, start, length);

    return fcntl(fd, command, &wanted);
}

static int open_file(void)
{
    return MUST(open("file", O_RDWR | O_CREAT, 0600));
}

/* What a process that is none of the holders sees. */
static void show_holder(const char *what, int fd, int type, pid_t expected)
{
    struct flock seen = lock_of(type, 0, 0);

    MUST(fcntl(fd, F_GETLK, &seen));
    if (seen.l_type == F_UNLCK)
        printf("%s: free\n", what);
    else
        printf("%s: %s from %ld for %ld, %s\n", what, seen.l_type == F_WRLCK ? "exclusive" : "shared",
               (long)seen.l_start, (long)seen.l_len, seen.l_pid == expected ? "right" : "wrong");
}

CASE(a_childs_view_of_its_parents_lock)
{
    int fd;
    pid_t pid, parent = getpid();

    scratch();
    fd = open_file();
    MUST(lock(fd, F_SETLK, F_WRLCK, 10, 20));
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        show_holder("child", fd, F_RDLCK, parent);
        show("same range", lock(fd, F_SETLK, F_RDLCK, 15, 1));
        show("before it", lock(fd, F_SETLK, F_WRLCK, 0, 10));
        show("behind it", lock(fd, F_SETLK, F_WRLCK, 30, 0));
        fflush(stdout);
        _exit(0);
    }
    child_end("child", pid);
    show("the child's locks are gone", lock(fd, F_SETLK, F_WRLCK, 0, 0));
}

/* All locks of other processes, one after the other. */
static void show_all(int fd)
{
    long at = 0;

    for (;;) {
        struct flock seen = lock_of(F_WRLCK, at, 0);

        MUST(fcntl(fd, F_GETLK, &seen));
        if (seen.l_type == F_UNLCK)
            break;
        printf(" %s %ld-%ld", seen.l_type == F_WRLCK ? "exclusive" : "shared", (long)seen.l_start,
               (long)(seen.l_start + seen.l_len));
        at = seen.l_start + seen.l_len;
    }
    printf("\n");
    fflush(stdout);
}

/* A second lock of each kind in each position to a first one: what joins, what is split. */
CASE(locks_of_one_process_join_and_split)
{
    static const struct {
        int type;
        const char *name;
    } types[] = { { F_RDLCK, "shared" }, { F_WRLCK, "exclusive" }, { F_UNLCK, "none" } };
    static const long ranges[][2] = { { 1, 5 },   { 5, 5 },   { 5, 8 },   { 10, 3 },  { 10, 10 }, { 12, 4 },
                                      { 15, 5 },  { 17, 10 }, { 20, 5 },  { 22, 3 },  { 5, 30 } };
    int fd;

    scratch();
    fd = open_file();
    for (int first = 0; first < 2; first++)
        for (int second = 0; second < 3; second++)
            for (size_t r = 0; r < COUNT_OF(ranges); r++) {
                pid_t pid;

                MUST(lock(fd, F_SETLK, F_UNLCK, 0, 0));
                MUST(lock(fd, F_SETLK, types[first].type, 10, 10));
                MUST(lock(fd, F_SETLK, types[second].type, ranges[r][0], ranges[r][1]));
                printf("%s, then %s at %ld for %ld:", types[first].name, types[second].name, ranges[r][0], ranges[r][1]);
                fflush(stdout);
                pid = MUST(fork());
                if (pid == 0) {
                    show_all(fd);
                    _exit(0);
                }
                MUST(waitpid(pid, NULL, 0));
            }
}

CASE(waiting_for_a_record_lock)
{
    int fd;
    pid_t pid;

    scratch();
    fd = open_file();
    MUST(lock(fd, F_SETLK, F_WRLCK, 0, 0));
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        int64_t start = now_ns();

        show("waits", lock(fd, F_SETLKW, F_WRLCK, 0, 0));
        show_elapsed(start, 40);
        fflush(stdout);
        _exit(0);
    }
    sleep_ms(60);
    MUST(lock(fd, F_SETLK, F_UNLCK, 0, 0));
    child_end("child", pid);
}

CASE(exit_releases_record_locks)
{
    int fd, gate[2];
    pid_t pid;

    scratch();
    fd = open_file();
    make_pipe(gate);
    pid = MUST(fork());
    if (pid == 0) {
        MUST(lock(fd, F_SETLK, F_WRLCK, 0, 0));
        gate_open(gate[1]);
        sleep_ms(40);
        _exit(0);
    }
    gate_wait(gate[0]);
    show("held", lock(fd, F_SETLK, F_WRLCK, 0, 0));
    show("waits", lock(fd, F_SETLKW, F_WRLCK, 0, 0));
    child_end("child", pid);
}

CASE(any_close_releases_record_locks)
{
    int fd;
    pid_t pid, parent = getpid();

    scratch();
    fd = open_file();
    MUST(lock(fd, F_SETLK, F_WRLCK, 0, 0));
    close(open_file());
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        show_holder("after another close", fd, F_RDLCK, parent);
        fflush(stdout);
        _exit(0);
    }
    child_end("child", pid);
    MUST(lock(fd, F_SETLK, F_WRLCK, 0, 0));
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        close(fd);
        fd = open_file();
        show_holder("a close in the child", fd, F_RDLCK, parent);
        fflush(stdout);
        _exit(0);
    }
    child_end("child", pid);
}

CASE(shared_record_locks)
{
    int fd;
    pid_t pid, parent = getpid();

    scratch();
    fd = open_file();
    MUST(lock(fd, F_SETLK, F_RDLCK, 0, 0));
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        show("shared", lock(fd, F_SETLK, F_RDLCK, 0, 0));
        show("exclusive", lock(fd, F_SETLK, F_WRLCK, 0, 0));
        show_holder("sees", fd, F_WRLCK, parent);
        fflush(stdout);
        _exit(0);
    }
    child_end("child", pid);
}

CASE(flock_is_inherited)
{
    int fd, other;
    pid_t pid;

    scratch();
    fd = open_file();
    other = open_file();
    show("exclusive", flock(fd, LOCK_EX));
    show("another description", flock(other, LOCK_EX | LOCK_NB));
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        int fresh = open_file();

        show("opened in the child", flock(fresh, LOCK_EX | LOCK_NB));
        show("inherited", flock(fd, LOCK_EX | LOCK_NB));
        show("unlocked by the child", flock(fd, LOCK_UN));
        fflush(stdout);
        _exit(0);
    }
    child_end("child", pid);
    show("free now", flock(other, LOCK_EX | LOCK_NB));
}

CASE(flock_lives_with_its_description)
{
    int fd, other, gate[2];
    pid_t pid;

    scratch();
    fd = open_file();
    make_pipe(gate);
    MUST(flock(fd, LOCK_EX));
    pid = MUST(fork());
    if (pid == 0) {
        close(gate[1]);
        gate_wait(gate[0]);
        sleep_ms(30);
        _exit(0);
    }
    close(fd);
    other = open_file();
    show("the child still has it", flock(other, LOCK_EX | LOCK_NB));
    close(gate[1]);
    show("waits for the child", flock(other, LOCK_EX));
    child_end("child", pid);
}

CASE(locks_of_open_files)
{
    int fd, other;
    pid_t pid;

    scratch();
    fd = open_file();
    other = open_file();
    show("lock", lock(fd, F_OFD_SETLK, F_WRLCK, 0, 0));
    show("another description", lock(other, F_OFD_SETLK, F_WRLCK, 0, 0));
    show("a process's lock", lock(other, F_SETLK, F_WRLCK, 0, 0));
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        show("inherited", lock(fd, F_OFD_SETLK, F_WRLCK, 0, 0));
        fflush(stdout);
        _exit(0);
    }
    child_end("child", pid);
    show("still held", lock(other, F_OFD_SETLK, F_WRLCK, 0, 0));
    close(fd);
    show("free", lock(other, F_OFD_SETLK, F_WRLCK, 0, 0));
}

static void nothing(int number)
{
    (void)number;
}

CASE(a_signal_ends_waiting)
{
    struct sigaction action = { .sa_handler = nothing };
    struct itimerval timer = { .it_value = { .tv_usec = 30000 } };
    int fd, gate[2];
    pid_t pid;

    scratch();
    fd = open_file();
    make_pipe(gate);
    pid = MUST(fork());
    if (pid == 0) {
        MUST(lock(fd, F_SETLK, F_WRLCK, 0, 0));
        gate_open(gate[1]);
        pause();
    }
    gate_wait(gate[0]);
    MUST(sigaction(SIGALRM, &action, NULL));
    MUST(setitimer(ITIMER_REAL, &timer, NULL));
    show("record", lock(fd, F_SETLKW, F_WRLCK, 0, 0));
    MUST(kill(pid, SIGKILL));
    child_end("child", pid);
}

CASE(deadlocks_are_found)
{
    int fd, gate[2], back[2];
    pid_t pid;

    scratch();
    fd = open_file();
    make_pipe(gate);
    make_pipe(back);
    MUST(lock(fd, F_SETLK, F_WRLCK, 0, 1));
    pid = MUST(fork());
    if (pid == 0) {
        MUST(lock(fd, F_SETLK, F_WRLCK, 1, 1));
        gate_open(back[1]);
        lock(fd, F_SETLKW, F_WRLCK, 0, 1);
        _exit(0);
    }
    gate_wait(back[0]);
    sleep_ms(30);
    show("the second", lock(fd, F_SETLKW, F_WRLCK, 1, 1));
    MUST(lock(fd, F_SETLK, F_UNLCK, 0, 1));
    child_end("child", pid);
}

static void show_range(const char *what, int fd, int type, int whence, long start, long length)
{
    struct flock wanted = { .l_type = type, .l_whence = whence, .l_start = start, .l_len = length };
    long result = show(what, fcntl(fd, F_OFD_SETLK, &wanted));

    if (result == 0 && type != F_UNLCK) {
        int other = open_file();
        struct flock seen = lock_of(F_WRLCK, 0, 0);
        MUST(fcntl(other, F_OFD_GETLK, &seen));
        printf("from %ld for %ld\n", (long)seen.l_start, (long)seen.l_len);
        MUST(close(other));
        seen = lock_of(F_UNLCK, 0, 0);
        MUST(fcntl(fd, F_OFD_SETLK, &seen));
    }
}

CASE(the_ends_of_ranges)
{
    long most = INT64_MAX;
    scratch();
    file_make("file", "0123456789");
    int fd = open_file();
    show_range("the last byte", fd, F_WRLCK, SEEK_SET, most, 1);
    show_range("beyond it", fd, F_WRLCK, SEEK_SET, most, 2);
    show_range("the last two bytes", fd, F_WRLCK, SEEK_SET, most - 1, 2);
    show_range("all but the last byte", fd, F_WRLCK, SEEK_SET, 0, most);
    show_range("all but the first byte", fd, F_WRLCK, SEEK_SET, 1, most);
    show_range("too long", fd, F_WRLCK, SEEK_SET, 5, most);
    show_range("backwards", fd, F_WRLCK, SEEK_SET, 10, -4);
    show_range("backwards from the last byte", fd, F_WRLCK, SEEK_SET, most, -most);
    show_range("backwards past the start", fd, F_WRLCK, SEEK_SET, 10, -11);
    show_range("the longest way back", fd, F_WRLCK, SEEK_SET, 5, INT64_MIN);
    show_range("before the start", fd, F_WRLCK, SEEK_SET, -1, 5);
    show_range("from the end", fd, F_WRLCK, SEEK_END, most - 10, 1);
    show_range("from beyond what can be", fd, F_WRLCK, SEEK_END, most, 1);
    show_range("back from the end", fd, F_WRLCK, SEEK_END, -10, 0);
    show_range("back from the end, too far", fd, F_WRLCK, SEEK_END, -11, 0);
    MUST(lseek(fd, 3, SEEK_SET));
    show_range("from the position", fd, F_WRLCK, SEEK_CUR, 2, 4);
    show_range("from the position, too far", fd, F_WRLCK, SEEK_CUR, most, 1);
    show_range("unlock the last byte", fd, F_UNLCK, SEEK_SET, most, 1);
}
