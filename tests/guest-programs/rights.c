/*
 * What only some may do beside files and ports: raw sockets, options of sockets,
 * priorities of input and output, and looking into other users' processes by
 * way of /proc. Root natively.
 */
#include "users.h"

#include <linux/capability.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/xattr.h>

static const struct user nobody = { "nobody", 65534, 65534, 0 };

static void open_raw_sockets(void *argument)
{
    static const int protocols[] = { 0, IPPROTO_ICMP, IPPROTO_UDP, IPPROTO_RAW };

    (void)argument;
    for (size_t i = 0; i < COUNT_OF(protocols); i++) {
        printf("protocol %d: ", protocols[i]);
        show_ok("of IPv4", socket(AF_INET, SOCK_RAW, protocols[i]));
        printf("protocol %d: ", protocols[i]);
        show_ok("of IPv6", socket(AF_INET6, SOCK_RAW, protocols[i]));
    }
}

static void without_raw(void (*work)(void *))
{
    struct capabilities now = capabilities_now();

    now.effective &= ~(1ull << CAP_NET_RAW);
    MUST(capabilities_set(now));
    work(NULL);
}

static void open_raw_sockets_without(void *argument)
{
    (void)argument;
    without_raw(open_raw_sockets);
}

CASE(raw_sockets)
{
    in_child(open_raw_sockets, NULL);
    puts("without CAP_NET_RAW");
    in_child(open_raw_sockets_without, NULL);
    puts("as nobody");
    as_user(&nobody, open_raw_sockets, NULL);
}

static void set_options(void *argument)
{
    static const struct {
        const char *name;
        int level, option, value;
    } wanted[] = {
        { "SO_PRIORITY 6", SOL_SOCKET, SO_PRIORITY, 6 },
        { "SO_PRIORITY 7", SOL_SOCKET, SO_PRIORITY, 7 },
        { "SO_MARK 0", SOL_SOCKET, SO_MARK, 0 },
        { "SO_RCVBUFFORCE", SOL_SOCKET, SO_RCVBUFFORCE, 9000 },
        { "SO_SNDBUFFORCE", SOL_SOCKET, SO_SNDBUFFORCE, 9000 },
        { "SO_DEBUG", SOL_SOCKET, SO_DEBUG, 1 },
        { "SO_DEBUG off", SOL_SOCKET, SO_DEBUG, 0 },
        { "SO_PREFER_BUSY_POLL", SOL_SOCKET, SO_PREFER_BUSY_POLL, 1 },
        { "SO_PREFER_BUSY_POLL off", SOL_SOCKET, SO_PREFER_BUSY_POLL, 0 },
        { "IP_TRANSPARENT", SOL_IP, IP_TRANSPARENT, 1 },
        { "IP_TRANSPARENT off", SOL_IP, IP_TRANSPARENT, 0 },
        { "IP_FREEBIND", SOL_IP, IP_FREEBIND, 1 },
        { "IPV6_TRANSPARENT", SOL_IPV6, IPV6_TRANSPARENT, 1 },
        { "IPV6_TRANSPARENT off", SOL_IPV6, IPV6_TRANSPARENT, 0 },
    };

    (void)argument;
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        int fd = MUST(socket(AF_INET6, SOCK_DGRAM, 0));
        int value = wanted[i].value;

        show(wanted[i].name, setsockopt(fd, wanted[i].level, wanted[i].option, &value, sizeof value));
        close(fd);
    }
    int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    show("to lo", setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3));
    show("to lo again", setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3));
    show("to nothing", setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "", 1));
    show("to what is not there", setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "nowhere", 8));
    show("to nothing, by number", setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &(int){ 0 }, 4));
}

CASE(options_of_sockets)
{
    in_child(set_options, NULL);
    puts("as nobody");
    as_user(&nobody, set_options, NULL);
}

static void rank(void *argument)
{
    pid_t parent = getppid();

    (void)argument;
    for (int class = 0; class < 9; class ++)
        for (int level = 0; level < 10; level += 4) {
            printf("class %d, level %d: ", class, level);
            show("set", syscall(SYS_ioprio_set, 1, 0, class << 13 | level));
        }
    show("idle", syscall(SYS_ioprio_set, 1, 0, 3 << 13));
    show("which", syscall(SYS_ioprio_get, 1, 0));
    show("the parent's", syscall(SYS_ioprio_set, 1, parent, 2 << 13 | 4));
    show("which", syscall(SYS_ioprio_get, 1, parent));
}

CASE(priorities_of_input_and_output)
{
    in_child(rank, NULL);
    puts("as nobody");
    as_user(&nobody, rank, NULL);
}

static const char *const of_processes[] = {
    "attr/current", "auxv", "cmdline", "comm", "cwd", "environ", "exe", "fd", "fd/0", "fdinfo", "fdinfo/0", "io", "limits",
    "maps", "mem", "mounts", "ns", "ns/net", "numa_maps", "oom_score", "pagemap", "personality", "root", "smaps", "smaps_rollup",
    "stack", "stat", "statm", "status", "syscall", "task", "wchan",
};

static void look_into(pid_t pid, const char *within)
{
    char path[64], target[64];

    for (size_t i = 0; i < COUNT_OF(of_processes); i++) {
        snprintf(path, sizeof path, "/proc/%d%s/%s", pid, within, of_processes[i]);
        printf("%s: ", of_processes[i]);
        int fd = open(path, O_RDONLY);
        printf("open %s, ", outcome(fd));
        if (fd != -1)
            close(fd);
        printf("look %s, ", outcome(access(path, R_OK)));
        printf("link %s\n", outcome(readlink(path, target, sizeof target)));
    }
}

static void look_into_process(void *argument)
{
    char within[32];
    pid_t pid = *(pid_t *)argument;

    look_into(pid, "");
    puts("its thread");
    snprintf(within, sizeof within, "/task/%d", pid);
    look_into(pid, within);
}

static void look_into_itself(void *argument)
{
    (void)argument;
    MUST(prctl(PR_SET_DUMPABLE, 1));
    look_into(getpid(), "");
}

static pid_t waiting_child(int blocked)
{
    pid_t child = MUST(fork());

    if (child == 0) {
        char byte;

        read(blocked, &byte, 1);
        _exit(0);
    }
    return child;
}

CASE(files_of_other_users_processes)
{
    int ends[2];

    MUST(pipe2(ends, O_CLOEXEC));
    pid_t child = waiting_child(ends[0]);
    puts("as root");
    in_child(look_into_process, &child);
    puts("as nobody");
    as_user(&nobody, look_into_process, &child);
    puts("one's own");
    as_user(&nobody, look_into_itself, NULL);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void *look_as_somebody(void *argument)
{
    MUST(syscall(SYS_setuid, 65534));
    look_into(*(pid_t *)argument, "");
    return NULL;
}

/* Credentials are a thread's own. */
CASE(files_seen_by_a_thread_that_is_somebody_else)
{
    int ends[2];
    pthread_t thread;

    MUST(pipe2(ends, O_CLOEXEC));
    pid_t child = waiting_child(ends[0]);
    if (pthread_create(&thread, NULL, look_as_somebody, &child))
        case_give_up("pthread_create", errno);
    pthread_join(thread, NULL);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* Memory is gone before its process is waited for. */
CASE(files_of_processes_that_are_over)
{
    static const char *const of_memory[] = { "auxv", "environ", "maps", "mem", "numa_maps", "pagemap", "smaps", "smaps_rollup", "exe", "cwd", "root" };
    siginfo_t info;
    char path[64];
    pid_t child = MUST(fork());

    if (child == 0)
        _exit(0);
    MUST(waitid(P_PID, child, &info, WEXITED | WNOWAIT));
    for (size_t i = 0; i < COUNT_OF(of_memory); i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", child, of_memory[i]);
        show_ok(of_memory[i], open(path, O_RDONLY));
    }
    waitpid(child, NULL, 0);
}

/* A well-formed value of security.capability: CAP_NET_BIND_SERVICE, effective. */
static const unsigned char lent[20] = { 1, 0, 0, 2, 0, 4 };

static void lend(const char *path)
{
    MUST(setxattr(path, "security.capability", lent, sizeof lent, 0));
}

static void show_lent(const char *what, const char *path)
{
    unsigned char value[64];

    show(what, getxattr(path, "security.capability", value, sizeof value));
}

static void lend_as_somebody(void *argument)
{
    (void)argument;
    show("by somebody else", setxattr("file", "security.capability", lent, sizeof lent, 0));
    show("removed by somebody else", removexattr("file", "security.capability"));
}

/* Capabilities of a file go when its content or owner changes, whoever changes it. */
CASE(capabilities_that_files_lend)
{
    scratch();
    int fd = MUST(open("file", O_RDWR | O_CREAT, 0777));
    show("too short", setxattr("file", "security.capability", lent, 19, 0));
    show("of no form", setxattr("file", "security.capability", "01234567890123456789", 20, 0));
    lend("file");
    show_lent("lent", "file");
    as_user(&nobody, lend_as_somebody, NULL);
    MUST(fchmod(fd, 0755));
    show_lent("another mode", "file");
    MUST(write(fd, "text", 4));
    show_lent("written", "file");
    lend("file");
    MUST(pwrite(fd, "", 0, 0));
    show_lent("nothing written", "file");
    MUST(chown("file", 1, 1));
    show_lent("another owner", "file");
    lend("file");
    MUST(truncate("file", 2));
    show_lent("cut off", "file");
    lend("file");
    MUST(ftruncate(fd, 1));
    show_lent("cut off by descriptor", "file");
    lend("file");
    close(MUST(open("file", O_WRONLY | O_TRUNC)));
    show_lent("cut off when opened", "file");
    lend("file");
    MUST(posix_fallocate(fd, 0, 10));
    show_lent("allocated", "file");
    lend("file");
    MUST(setxattr("file", "user.other", "x", 1, 0));
    MUST(rename("file", "moved"));
    show_lent("moved", "moved");
}
