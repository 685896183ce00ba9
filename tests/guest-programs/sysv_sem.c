/* System V semaphores: operations, waiting, order, what is undone. */
#include "process.h"

#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/sem.h>

union argument {
    int value;
    struct semid_ds *data;
    unsigned short *values;
    struct seminfo *info;
};

static int make_set(int count)
{
    return MUST(semget(IPC_PRIVATE, count, IPC_CREAT | 0600));
}

static void drop(int id)
{
    semctl(id, 0, IPC_RMID);
}

static void set_value(int id, int number, int value)
{
    union argument argument = { .value = value };

    MUST(semctl(id, number, SETVAL, argument));
}

static int change(int id, int number, int by, int flags)
{
    struct sembuf operation = { number, by, flags };

    return semop(id, &operation, 1);
}

static int value(int id, int number)
{
    return semctl(id, number, GETVAL);
}

/* Waits until so many callers wait for a semaphore (GETNCNT or GETZCNT). */
static void until_waiting(int id, int number, int command, int count)
{
    while (semctl(id, number, command) != count)
        sleep_ms(5);
}

CASE(new_sets_are_zero)
{
    int id = make_set(3);
    unsigned short values[3] = { 7, 7, 7 };
    union argument argument = { .values = values };

    show("getall", semctl(id, 0, GETALL, argument));
    printf("%d %d %d\n", values[0], values[1], values[2]);
    show("value", value(id, 2));
    show("pid", semctl(id, 2, GETPID));
    drop(id);
    show("gone", value(id, 0));
}

CASE(operations_change_values)
{
    int id = make_set(1);

    show("+5", change(id, 0, 5, 0));
    show("-2", change(id, 0, -2, 0));
    number("value", value(id, 0));
    show("-4 at once", change(id, 0, -4, IPC_NOWAIT));
    show("0 at once", change(id, 0, 0, IPC_NOWAIT));
    show("-3", change(id, 0, -3, IPC_NOWAIT));
    show("0", change(id, 0, 0, 0));
    truth("pid", semctl(id, 0, GETPID) == getpid());
    drop(id);
}

CASE(several_operations_happen_together)
{
    int id = make_set(2);
    struct sembuf take[] = { { 0, -1, IPC_NOWAIT }, { 1, -1, IPC_NOWAIT } };
    struct sembuf swap[] = { { 0, -1, 0 }, { 1, 1, 0 } };
    struct sembuf same[] = { { 0, 3, 0 }, { 0, -2, 0 }, { 0, -1, 0 }, { 0, 0, 0 } };

    set_value(id, 0, 1);
    show("both", semop(id, take, 2));
    printf("%d %d\n", value(id, 0), value(id, 1));
    show("swap", semop(id, swap, 2));
    printf("%d %d\n", value(id, 0), value(id, 1));
    show("same", semop(id, same, 4));
    printf("%d %d\n", value(id, 0), value(id, 1));
    drop(id);
}

CASE(errors_of_semget)
{
    int id = make_set(2);
    key_t key = 0x68000000 + getpid();

    show("no semaphores", semget(IPC_PRIVATE, 0, IPC_CREAT | 0600));
    show("negative", semget(IPC_PRIVATE, -1, IPC_CREAT | 0600));
    show("too many", semget(IPC_PRIVATE, 40000, IPC_CREAT | 0600));
    show("no such key", semget(key, 1, 0));
    drop(id);
    id = MUST(semget(key, 2, IPC_CREAT | 0600));
    truth("fewer", semget(key, 1, 0) == id);
    truth("none", semget(key, 0, 0) == id);
    show("more", semget(key, 3, 0));
    show("exclusive", semget(key, 2, IPC_CREAT | IPC_EXCL));
    drop(id);
}

CASE(errors_of_semop)
{
    int id = make_set(1);
    struct sembuf operation = { 0, 1, 0 };
    struct sembuf many[501];
    struct timespec bad = { 0, 1000000000 };

    memset(many, 0, sizeof many);
    show("no operations", semop(id, &operation, 0));
    show("too many", semop(id, many, 501));
    show("500 zeroes", semop(id, many, 500));
    show("bad id", semop(-1, &operation, 1));
    show("unknown id", semop(0x7fffffff, &operation, 1));
    show("bad pointer", syscall(SYS_semop, id, (void *)8, 1));
    show("bad timeout", semtimedop(id, &operation, 1, &bad));
    operation.sem_num = 1;
    show("no such semaphore", semop(id, &operation, 1));
    operation = (struct sembuf){ 0, 32767, 0 };
    show("to the maximum", semop(id, &operation, 1));
    operation.sem_op = 1;
    show("above it", semop(id, &operation, 1));
    drop(id);
}

CASE(errors_of_semctl)
{
    int id = make_set(2);
    union argument argument = { .value = -1 };
    unsigned short values[2] = { 1, 40000 };

    show("setval -1", semctl(id, 0, SETVAL, argument));
    argument.value = 32768;
    show("setval 32768", semctl(id, 0, SETVAL, argument));
    argument.value = 32767;
    show("setval 32767", semctl(id, 0, SETVAL, argument));
    show("setval of 2", semctl(id, 2, SETVAL, argument));
    show("getval of -1", semctl(id, -1, GETVAL));
    argument.values = values;
    show("setall", semctl(id, 0, SETALL, argument));
    number("first value", value(id, 0));
    show("command", semctl(id, 0, 77));
    drop(id);
    show("rmid again", semctl(id, 0, IPC_RMID));
}

static int take_one(void *argument)
{
    return change(*(int *)argument, 0, -1, 0) == 0 ? 0 : errno;
}

CASE(a_waiter_goes_on_when_the_value_rises)
{
    int id = make_set(1);
    pid_t pid = child_start(take_one, &id);

    until_waiting(id, 0, GETNCNT, 1);
    number("wait for zero", semctl(id, 0, GETZCNT));
    change(id, 0, 1, 0);
    child_end("child", pid);
    number("value", value(id, 0));
    truth("the child was last", semctl(id, 0, GETPID) == pid);
    drop(id);
}

static int wait_zero(void *argument)
{
    return change(*(int *)argument, 0, 0, 0) == 0 ? 0 : errno;
}

CASE(waiting_for_zero)
{
    int id = make_set(1);
    pid_t first, second;

    set_value(id, 0, 2);
    first = child_start(wait_zero, &id);
    second = child_start(wait_zero, &id);
    until_waiting(id, 0, GETZCNT, 2);
    change(id, 0, -1, 0);
    number("still waiting", semctl(id, 0, GETZCNT));
    change(id, 0, -1, 0);
    child_end("first", first);
    child_end("second", second);
    drop(id);
}

struct taker {
    int id, amount, mark;
    volatile int *log;
};

static int take_some(void *argument)
{
    struct taker *taker = argument;
    /* The second semaphore counts who was served before. */
    struct sembuf operations[] = { { 0, -taker->amount, 0 }, { 1, 1, 0 } };

    if (semop(taker->id, operations, 2) == -1)
        return errno;
    taker->log[taker->mark] = 1;
    return 0;
}

CASE(waiters_that_fit_are_served_before_larger_ones)
{
    volatile int *log = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int id = make_set(2);
    pid_t pids[3];
    static const int amounts[] = { 3, 1, 2 };

    for (int i = 0; i < 3; i++) {
        struct taker taker = { id, amounts[i], i, log };

        pids[i] = child_start(take_some, &taker);
        until_waiting(id, 0, GETNCNT, i + 1);
    }
    change(id, 0, 1, 0);
    child_end("second", pids[1]);
    printf("%d %d %d, value %d\n", log[0], log[1], log[2], value(id, 0));
    change(id, 0, 2, 0);
    child_end("third", pids[2]);
    printf("%d %d %d, value %d\n", log[0], log[1], log[2], value(id, 0));
    change(id, 0, 3, 0);
    child_end("first", pids[0]);
    printf("served %d, value %d\n", value(id, 1), value(id, 0));
    drop(id);
    munmap((void *)log, 4096);
}

CASE(removal_ends_waits)
{
    int id = make_set(1);
    pid_t pid = child_start(take_one, &id);

    until_waiting(id, 0, GETNCNT, 1);
    drop(id);
    truth("EIDRM is what it returns", 1);
    int status;
    MUST(waitpid(pid, &status, 0));
    text("child", errno_name(WEXITSTATUS(status)));
}

CASE(setval_and_setall_serve_waiters)
{
    int id = make_set(1);
    unsigned short one = 1;
    union argument argument = { .values = &one };
    pid_t pid = child_start(take_one, &id);

    until_waiting(id, 0, GETNCNT, 1);
    set_value(id, 0, 1);
    child_end("by setval", pid);
    pid = child_start(take_one, &id);
    until_waiting(id, 0, GETNCNT, 1);
    MUST(semctl(id, 0, SETALL, argument));
    child_end("by setall", pid);
    number("value", value(id, 0));
    drop(id);
}

CASE(timeouts)
{
    int id = make_set(1);
    struct sembuf take = { 0, -1, 0 };
    struct timespec wait = timespec_of_ms(40), zero = { 0, 0 };
    int64_t start = now_ns();

    show("40 ms", semtimedop(id, &take, 1, &wait));
    show_elapsed(start, 40);
    show("zero", semtimedop(id, &take, 1, &zero));
    number("waiting", semctl(id, 0, GETNCNT));
    set_value(id, 0, 1);
    show("there", semtimedop(id, &take, 1, &wait));
    drop(id);
}

static void on_alarm(int signal)
{
    (void)signal;
}

CASE(a_signal_interrupts_even_with_restart)
{
    int id = make_set(1);
    struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
    struct itimerval soon = { { 0, 0 }, { 0, 30000 } };

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    show("semop", change(id, 0, -1, 0));
    number("waiting", semctl(id, 0, GETNCNT));
    drop(id);
}

static int take_with_undo(void *argument)
{
    return change(*(int *)argument, 0, -2, SEM_UNDO) == 0 ? 0 : errno;
}

static int take_and_die(void *argument)
{
    take_with_undo(argument);
    raise(SIGKILL);
    return 0;
}

static int undo_and_exec(void *argument)
{
    take_with_undo(argument);
    execl("/bin/true", "true", NULL);
    return 1;
}

CASE(the_end_of_a_process_undoes)
{
    int id = make_set(1);
    pid_t pid;

    set_value(id, 0, 3);
    in_child("exits", take_with_undo, &id);
    number("value", value(id, 0));
    pid = child_start(take_and_die, &id);
    child_end("killed", pid);
    number("value", value(id, 0));
    truth("by the child", semctl(id, 0, GETPID) == pid);
    in_child("executes", undo_and_exec, &id);
    number("value", value(id, 0));
    drop(id);
}

CASE(an_undo_serves_waiters)
{
    int id = make_set(1), ends[2];
    pid_t holder, waiter;

    set_value(id, 0, 2);
    make_pipe(ends);
    fflush(stdout);
    holder = MUST(fork());
    if (holder == 0) {
        close(ends[1]);
        take_with_undo(&id);
        wait_for_end(ends[0]);
        _exit(0);
    }
    while (value(id, 0) != 0)
        sleep_ms(5);
    close(ends[0]);
    fflush(stdout);
    waiter = MUST(fork());
    if (waiter == 0) {
        close(ends[1]);
        _exit(take_one(&id));
    }
    until_waiting(id, 0, GETNCNT, 1);
    close(ends[1]);
    child_end("holder", holder);
    child_end("waiter", waiter);
    number("value", value(id, 0));
    drop(id);
}

static int give_with_undo(void *argument)
{
    return change(*(int *)argument, 0, 5, SEM_UNDO) == 0 ? 0 : errno;
}

CASE(an_undo_stops_at_zero)
{
    int id = make_set(1), ends[2];
    pid_t pid;

    make_pipe(ends);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        close(ends[1]);
        give_with_undo(&id);
        wait_for_end(ends[0]);
        _exit(0);
    }
    while (value(id, 0) != 5)
        sleep_ms(5);
    change(id, 0, -3, 0);
    close(ends[1]);
    child_end("child", pid);
    number("value", value(id, 0));
    drop(id);
}

CASE(setval_forgets_what_would_be_undone)
{
    int id = make_set(1), ends[2];
    pid_t pid;

    make_pipe(ends);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        close(ends[1]);
        give_with_undo(&id);
        wait_for_end(ends[0]);
        _exit(0);
    }
    while (value(id, 0) != 5)
        sleep_ms(5);
    set_value(id, 0, 9);
    close(ends[1]);
    child_end("child", pid);
    number("value", value(id, 0));
    drop(id);
}

static int nothing(void *argument)
{
    (void)argument;
    return 0;
}

CASE(a_child_does_not_inherit_undo)
{
    int id = make_set(1);

    set_value(id, 0, 4);
    change(id, 0, -1, SEM_UNDO);
    in_child("child", nothing, NULL);
    number("value", value(id, 0));
    drop(id);
}

static void *thread_undo(void *argument)
{
    change(*(int *)argument, 0, -1, SEM_UNDO);
    return NULL;
}

CASE(the_end_of_a_thread_undoes_nothing)
{
    int id = make_set(1);

    set_value(id, 0, 1);
    thread_join(thread_start(thread_undo, &id));
    number("value", value(id, 0));
    drop(id);
}

CASE(stat_and_set)
{
    int id = make_set(4);
    struct semid_ds data;
    union argument argument = { .data = &data };

    MUST(semctl(id, 0, IPC_STAT, argument));
    printf("mode %o, semaphores %lu\n", data.sem_perm.mode, data.sem_nsems);
    truth("never operated", data.sem_otime == 0);
    truth("made", data.sem_ctime > 0);
    change(id, 1, 1, 0);
    data.sem_perm.mode = 0640;
    show("set", semctl(id, 0, IPC_SET, argument));
    MUST(semctl(id, 0, IPC_STAT, argument));
    printf("mode %o\n", data.sem_perm.mode);
    truth("operated", data.sem_otime > 0);
    drop(id);
}

CASE(limits)
{
    struct seminfo info;
    union argument argument = { .info = &info };
    int id = make_set(7);

    truth("ipc_info", semctl(0, 0, IPC_INFO, argument) >= 0);
    printf("%d %d %d %d %d\n", info.semmsl, info.semopm, info.semvmx, info.semaem, info.semmni);
    truth("sem_info", semctl(0, 0, SEM_INFO, argument) >= 0);
    truth("used", info.semusz >= 1 && info.semaem >= 7);
    drop(id);
}

CASE(proc_lists_sets)
{
    int id = make_set(6);
    char line[512];
    FILE *file = fopen("/proc/sysvipc/sem", "r");

    while (file && fgets(line, sizeof line, file)) {
        int key, row;
        unsigned mode, count;

        if (sscanf(line, "%d %d %o %u", &key, &row, &mode, &count) == 4 && row == id)
            printf("key %d mode %o semaphores %u\n", key, mode, count);
    }
    if (file)
        fclose(file);
    drop(id);
}

/* Each operation on each value: what is left, or why not. */
CASE(matrix_of_operations)
{
    static const int values[] = { 0, 1, 2, 32766, 32767 };
    static const int operations[] = { -32768, -2, -1, 0, 1, 2, 32767 };
    static const int flags[] = { IPC_NOWAIT, IPC_NOWAIT | SEM_UNDO };
    int id = make_set(1);

    for (size_t v = 0; v < COUNT_OF(values); v++)
        for (size_t o = 0; o < COUNT_OF(operations); o++)
            for (size_t f = 0; f < COUNT_OF(flags); f++) {
                set_value(id, 0, values[v]);
                if (change(id, 0, operations[o], flags[f]) == -1)
                    printf("%d %+d %s: %s\n", values[v], operations[o], f ? "undo" : "", errno_name(errno));
                else
                    printf("%d %+d %s: %d\n", values[v], operations[o], f ? "undo" : "", value(id, 0));
            }
    drop(id);
}
