/*
 * Runs generated programs: texts of system calls, one per line, which several threads and processes make in turns.
 *
 *     runner [--private] FILE FIRST COUNT
 *
 * runs COUNT programs of FILE, from number FIRST on, each in an empty folder "s" of the working directory, and prints what every call
 * returned. README.md beside this file tells how programs are written. --private gives the runner namespaces of its own first,
 * for use on a real machine: what programs do to the network, to processes and to files stays inside.
 *
 * The conductor (this process) hands each line to the actor that it names: a thread or process of the program, which runs in
 * another process than the conductor. An actor that is asleep in its call is "blocked", and the program goes on with the next line; what
 * later lines complete is printed after them. So nothing depends on how threads are scheduled.
 */
#define _GNU_SOURCE
#include "board.h"
#include <dirent.h>
#include <limits.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

/* How often an actor must be seen asleep before its call counts as blocked, and how long to wait between looks. */
enum { LOOKS = 2, LOOK_NS = 1000000 };
/* A call marked with ~ ends by itself: this is how many looks it gets. A busy machine may be late. */
enum { PATIENCE = 4000 };

struct board *board;

static void die(const char *what)
{
    fprintf(stderr, "runner: %s: %s\n", what, strerror(errno));
    exit(2);
}

#define CHECK(call) do { if ((call) < 0) die(#call); } while (0)

/* --- actors, as the conductor sees them --- */

/* The state letter of an actor's thread, 0 if it is gone. */
static char state_of(const struct actor *actor)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", actor->pid, actor->tid);
    int file = open(path, O_RDONLY);
    if (file < 0)
        return 0;
    ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    if (got <= 0)
        return 0;
    text[got] = 0;
    char *end = strrchr(text, ')');
    return end && end[1] ? end[2] : 0;
}

static int is_gone(char state)
{
    return state == 0 || state == 'Z' || state == 'X';
}

static void doze(void)
{
    struct timespec time = {0, LOOK_NS};
    nanosleep(&time, NULL);
}

/* Prints the signals that handlers noted since the last time, actor by actor. */
static void print_signals(void)
{
    int end = __atomic_load_n(&board->n_signals, __ATOMIC_ACQUIRE);
    if (end > MOST_SIGNALS)
        end = MOST_SIGNALS;
    for (int a = 0; a < MOST_ACTORS; a++)
        for (int i = board->signals_printed; i < end; i++)
            if (board->signals[i].actor == a)
                printf("    actor %d: signal %s\n", a, board->signals[i].text);
    board->signals_printed = end;
}

static void print_result(int line, int now)
{
    if (line == now)
        printf("%d = %s\n", line, board->results[line].text);
    else
        printf("    %d then = %s\n", line, board->results[line].text);
}

/* Takes note of calls that ended and actors that are gone; waits until everybody else sleeps. */
static void settle(int now)
{
    int looks = 0;
again:
    for (int a = 0; a < MOST_ACTORS; a++) {
        struct actor *actor = &board->actors[a];
        if (!actor->tid || actor->gone)
            continue;
        char state = state_of(actor);
        if (__atomic_load_n(&actor->busy, __ATOMIC_ACQUIRE) || !is_gone(state)) {
            if (!is_gone(state) && state != 'S' && state != 'T' && looks++ < PATIENCE) {
                doze();
                goto again;
            }
        }
        if (is_gone(state))
            actor->gone = 1;
    }
    for (int a = 0; a < MOST_ACTORS; a++) {
        struct actor *actor = &board->actors[a];
        if (actor->tid && actor->line >= 0 && !__atomic_load_n(&actor->busy, __ATOMIC_ACQUIRE)) {
            print_result(actor->line, now);
            actor->line = -1;
        } else if (actor->tid && actor->gone && !actor->told) {
            actor->told = 1;
            printf("    actor %d is gone\n", a);
        }
    }
    print_signals();
}

/* How many actors there are besides `a`. */
static int has_others(int a)
{
    for (int other = 0; other < MOST_ACTORS; other++)
        if (other != a && board->actors[other].tid && !board->actors[other].gone)
            return 1;
    return 0;
}

static void start_line(struct actor *actor, int line)
{
    actor->line = line;
    __atomic_store_n(&actor->busy, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&actor->command, line + 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &actor->command, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Waits until the actor's call ended, or sleeps, or took the actor with it. */
static void await_line(struct actor *actor, int patient)
{
    struct timespec time = {0, LOOK_NS};
    for (int asleep = 0, looks = 0; __atomic_load_n(&actor->busy, __ATOMIC_ACQUIRE); looks++) {
        syscall(SYS_futex, &actor->busy, FUTEX_WAIT, 1, &time, NULL, 0);
        if (!__atomic_load_n(&actor->busy, __ATOMIC_ACQUIRE))
            break;
        char state = state_of(actor);
        if (is_gone(state)) {
            actor->gone = 1;
            break;
        }
        asleep = state == 'S' || state == 'T' ? asleep + 1 : 0;
        if (asleep >= LOOKS && (!patient || looks > PATIENCE))
            break;
        if (looks > 4 * PATIENCE)
            break;
    }
}

/* Waits until an actor sleeps or is gone; whether it is. */
static int await_rest(struct actor *actor)
{
    for (int looks = 0; looks < PATIENCE; looks++) {
        char state = state_of(actor);
        if (is_gone(state) || state == 'S' || state == 'T')
            return is_gone(state);
        doze();
    }
    return 0;
}

/* A line that makes another actor: waits until it is there. */
static void await_actor(int a)
{
    struct actor *actor = &board->actors[a];
    for (int looks = 0; !__atomic_load_n(&actor->tid, __ATOMIC_ACQUIRE) && looks < PATIENCE; looks++)
        doze();
}

static void perform(int line)
{
    const char *text = board->text + board->lines[line];
    int a = text[0] - '0';
    if (a < 0 || a >= MOST_ACTORS)
        return;
    struct actor *actor = &board->actors[a];
    if (!actor->tid || actor->gone || actor->line >= 0) {
        printf("%d skipped\n", line);
        return;
    }
    start_line(actor, line);
    await_line(actor, text[1] == '~');
    /* Whether a call returns that ends its own process depends on which of its threads takes the signal. */
    if (has_others(a) && await_rest(actor)) {
        actor->gone = actor->told = 1;
        actor->line = -1;
        printf("%d ends actor %d\n", line, a);
        settle(line);
        return;
    }
    if (!__atomic_load_n(&actor->busy, __ATOMIC_ACQUIRE)) {
        int child = board->results[line].child;
        if (child > 0)
            await_actor(child);
        print_result(line, line);
        actor->line = -1;
    } else if (!actor->gone) {
        printf("%d blocks\n", line);
        int child = board->results[line].child;
        if (child > 0)
            await_actor(child);
    }
    if (actor->gone || has_others(a))
        settle(line);
    else
        print_signals();
}

/* --- before and after a program --- */

static void remove_tree(const char *path)
{
    DIR *folder = opendir(path);
    if (!folder) {
        chmod(path, 0700);
        folder = opendir(path);
    }
    if (folder) {
        for (struct dirent *entry; (entry = readdir(folder));) {
            char below[PATH_MAX];
            if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
                continue;
            snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
            if (unlink(below) < 0)
                remove_tree(below);
        }
        closedir(folder);
    }
    rmdir(path);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void show_entry(const char *path, const char *shown);

/* What a program left in a folder, by name. */
static void show_folder(const char *path, const char *shown)
{
    char *names[64];
    int count = 0;
    DIR *folder = opendir(path);
    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder)) && count < 64;)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            names[count++] = strdup(entry->d_name);
    closedir(folder);
    qsort(names, count, sizeof *names, by_name);
    for (int i = 0; i < count; i++) {
        char below[PATH_MAX], below_shown[PATH_MAX];
        snprintf(below, sizeof below, "%s/%s", path, names[i]);
        snprintf(below_shown, sizeof below_shown, "%s%s%s", shown, *shown ? "/" : "", names[i]);
        show_entry(below, below_shown);
        free(names[i]);
    }
}

static void show_entry(const char *path, const char *shown)
{
    struct stat stat;
    if (lstat(path, &stat) < 0)
        return;
    printf("    left %s: %o links %d owner %d:%d", shown, stat.st_mode, (int)stat.st_nlink, stat.st_uid, stat.st_gid);
    if (S_ISREG(stat.st_mode)) {
        unsigned long hash = 5381;
        unsigned char data[4096];
        int file = open(path, O_RDONLY);
        for (ssize_t got; file >= 0 && (got = read(file, data, sizeof data)) > 0;)
            for (ssize_t i = 0; i < got && stat.st_size < (1 << 20); i++)
                hash = hash * 33 + data[i];
        close(file);
        printf(" size %ld hash %lx", (long)stat.st_size, hash);
    } else if (S_ISLNK(stat.st_mode)) {
        char target[PATH_MAX] = {0};
        readlink(path, target, sizeof target - 1);
        printf(" to %s", target);
    }
    printf("\n");
    if (S_ISDIR(stat.st_mode))
        show_folder(path, shown);
}

/* Prints how the program's processes ended that nobody waited for, ending those that live on. */
static void end_actors(int root)
{
    for (int a = 0; a < MOST_ACTORS; a++)
        if (board->actors[a].tid && board->actors[a].line >= 0 && !board->actors[a].gone)
            printf("    actor %d still waits in %d\n", a, board->actors[a].line);
    int status, ended = waitpid(root, &status, WNOHANG | __WALL) == root;
    if (ended)
        printf("    ended: %s %d\n", WIFSIGNALED(status) ? "signal" : "exit", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    /* Also those that seem gone: a thread that executes a program has another number from then on. */
    for (int a = 0; a < MOST_ACTORS; a++)
        if (board->actors[a].pid && !(ended && board->actors[a].pid == root))
            kill(board->actors[a].pid, SIGKILL);
    while (waitpid(-1, &status, __WALL) > 0)
        ;
}

static void remove_objects(void)
{
    for (int i = 0; i < board->n_ids; i++) {
        struct id id = board->ids[i];
        if (id.call == SYS_shmget)
            shmctl(id.id, IPC_RMID, NULL);
        else if (id.call == SYS_semget)
            semctl(id.id, 0, IPC_RMID);
        else
            msgctl(id.id, IPC_RMID, NULL);
    }
    for (const char *name = "abcd"; *name; name++) {
        char queue[3] = {'q', *name, 0};
        syscall(SYS_mq_unlink, queue);
    }
}

static void drop_capability(int capability)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
    if (syscall(SYS_capget, &header, data) == 0) {
        data[capability / 32].effective &= ~(1u << capability % 32);
        data[capability / 32].permitted &= ~(1u << capability % 32);
        syscall(SYS_capset, &header, data);
    }
}

static int start_root(const char *board_path)
{
    int pid = fork();
    CHECK(pid);
    if (pid)
        return pid;
    for (int fd = 0; fd < 3; fd++)
        dup2(open("/dev/null", O_RDWR | O_CLOEXEC), fd);
    syscall(SYS_close_range, 3, ~0u, 0);
    struct rlimit files = {256, 256}, core = {0, 0};
    setrlimit(RLIMIT_NOFILE, &files);
    setrlimit(RLIMIT_CORE, &core);
    umask(022);
    setsid();
    /* Containers mostly lack it. */
    drop_capability(CAP_SYS_RESOURCE);
    /* Whoever started the tests may have done so at idle priority, which programs would see. */
    struct sched_param usual = {0};
    sched_setscheduler(0, SCHED_OTHER, &usual);
    /* What tests were started with: ignored and blocked signals are inherited, those of the C library too. */
    unsigned long nothing[4] = {0};
    for (int number = 1; number <= 64; number++)
        syscall(SYS_rt_sigaction, number, nothing, NULL, 8);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, nothing, NULL, 8);
    if (chdir("s") < 0)
        _exit(99);
    execl("/proc/self/exe", "actor", board_path, "0", NULL);
    _exit(98);
}

static void run_program(char *text, const char *board_path)
{
    memset(board, 0, sizeof *board);
    for (int a = 0; a < MOST_ACTORS; a++)
        board->actors[a].line = -1;
    /* Who refers to a line that is not there gets no descriptor. */
    for (int line = 0; line < MOST_LINES; line++) {
        board->results[line].value = -1;
        memset(board->results[line].out, 0xff, OUT_KEPT);
    }
    if (strlen(text) >= sizeof board->text)
        text[sizeof board->text - 1] = 0;
    strcpy(board->text, text);
    for (char *line = board->text; *line && board->n_lines < MOST_LINES;) {
        board->lines[board->n_lines++] = line - board->text;
        char *end = strchr(line, '\n');
        if (!end)
            break;
        *end = 0;
        line = end + 1;
    }
    if (!getcwd(board->home, sizeof board->home - 3))
        die("getcwd");
    board->conductor = getpid();
    remove_tree("s");
    CHECK(mkdir("s", 0755));
    CHECK(chmod("s", 0755));
    strcat(board->home, "/s");
    int root = start_root(board_path);
    for (int looks = 0; !__atomic_load_n(&board->actors[0].tid, __ATOMIC_ACQUIRE); looks++) {
        int status;
        if (looks > PATIENCE || waitpid(root, &status, WNOHANG | __WALL) == root) {
            printf("    no actor\n");
            return;
        }
        struct timespec time = {0, LOOK_NS};
        syscall(SYS_futex, &board->actors[0].tid, FUTEX_WAIT, 0, &time, NULL, 0);
    }
    for (int line = 0; line < board->n_lines; line++)
        perform(line);
    end_actors(root);
    remove_objects();
    show_folder("s", "");
    remove_tree("s");
}

/* --- namespaces --- */

static void write_file(const char *path, const char *text)
{
    int file = open(path, O_WRONLY);
    if (file < 0 || write(file, text, strlen(text)) < 0)
        die(path);
    close(file);
}

static void raise_loopback(void)
{
    struct ifreq request = {.ifr_name = "lo"};
    int socket_fd = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(socket_fd);
    CHECK(ioctl(socket_fd, SIOCGIFFLAGS, &request));
    request.ifr_flags |= IFF_UP;
    CHECK(ioctl(socket_fd, SIOCSIFFLAGS, &request));
    close(socket_fd);
}

/* Devices of the program's own, since it may be root: what it does to the mode of /dev/null must not be the machine's. Terminals as Debian has
 * them. */
static void make_devices(void)
{
    static const struct { const char *path; int major, minor; } devices[] = {
        {"/dev/null", 1, 3}, {"/dev/zero", 1, 5}, {"/dev/full", 1, 7}, {"/dev/random", 1, 8}, {"/dev/urandom", 1, 9}, {"/dev/tty", 5, 0},
    };
    CHECK(mount("dev", "/dev", "tmpfs", 0, "mode=755"));
    umask(0);
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        CHECK(mknod(devices[i].path, S_IFCHR | 0666, makedev(devices[i].major, devices[i].minor)));
    CHECK(mkdir("/dev/pts", 0755));
    CHECK(mount("devpts", "/dev/pts", "devpts", 0, "newinstance,gid=5,mode=620,ptmxmode=666"));
    CHECK(symlink("pts/ptmx", "/dev/ptmx"));
    CHECK(mkdir("/dev/shm", 01777));
    umask(022);
}

/* Goes on in namespaces of its own. Files stay those of the machine: their file system decides much of what calls return. */
static void go_private(void)
{
    uid_t uid = getuid(), gid = getgid();
    char home[PATH_MAX], map[64];
    if (!getcwd(home, sizeof home))
        die("getcwd");
    int spaces = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
    int mapped = unshare(spaces) < 0;
    if (mapped) {
        CHECK(unshare(spaces | CLONE_NEWUSER));
        write_file("/proc/self/setgroups", "deny");
        snprintf(map, sizeof map, "0 %d 1", uid);
        write_file("/proc/self/uid_map", map);
        snprintf(map, sizeof map, "0 %d 1", gid);
        write_file("/proc/self/gid_map", map);
    }
    int child = fork(), status;
    CHECK(child);
    if (child) {
        waitpid(child, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 2);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
    CHECK(mount("proc", "/proc", "proc", 0, NULL));
    if (!mapped)
        make_devices();
    CHECK(chdir(home));
    raise_loopback();
}

static char *read_all(const char *path)
{
    int file = open(path, O_RDONLY);
    struct stat stat;
    if (file < 0 || fstat(file, &stat) < 0)
        die(path);
    char *text = calloc(1, stat.st_size + 1);
    for (off_t done = 0; done < stat.st_size;) {
        ssize_t got = read(file, text + done, stat.st_size - done);
        if (got <= 0)
            die(path);
        done += got;
    }
    close(file);
    return text;
}

int main(int count, char **arguments)
{
    if (count == 3 && !strcmp(arguments[0], "actor"))
        return act(arguments[1], atoi(arguments[2]));
    int private = count > 1 && !strcmp(arguments[1], "--private");
    if (count - private != 4) {
        fprintf(stderr, "usage: runner [--private] FILE FIRST COUNT\n");
        return 2;
    }
    char **rest = arguments + 1 + private;
    char *text = read_all(rest[0]);
    long first = atol(rest[1]), end = first + atol(rest[2]);
    if (private)
        go_private();
    /* Programs may look at the folder above theirs: there is the board and nothing else, whatever the simulator puts beside a guest. */
    CHECK(mkdir("w", 0755));
    CHECK(chdir("w"));
    char path[PATH_MAX + 8];
    if (!getcwd(path, PATH_MAX))
        die("getcwd");
    strcat(path, "/board");
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    CHECK(file);
    CHECK(ftruncate(file, sizeof *board));
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (board == MAP_FAILED)
        die("mmap");
    close(file);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    /* Programs are separated by lines "program NAME". */
    char *program = strncmp(text, "program ", 8) ? NULL : text;
    for (long number = 0; program && number < end; number++) {
        char *body = strchr(program, '\n'), *next = NULL;
        if (body) {
            *body++ = 0;
            if (!strncmp(body, "program ", 8)) {
                next = body;
                body = "";
            } else if ((next = strstr(body, "\nprogram "))) {
                *next++ = 0;
            }
        }
        if (number >= first) {
            printf("%s\n", program);
            if (body)
                run_program(body, path);
            fflush(stdout);
        }
        program = next;
    }
    unlink(path);
    return 0;
}
