/* Files with holes, without names, with attributes; restricted walks; packets; flags of single reads and writes. */
#include "process.h"

#include <mqueue.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#ifndef SYS_openat2
#define SYS_openat2 437
#endif

CASE(holes)
{
    int fd;

    scratch();
    fd = MUST(open("file", O_RDWR | O_CREAT, 0644));
    MUST(ftruncate(fd, 3 << 20));
    MUST(pwrite(fd, "data", 4, 1 << 20));
    show("data", lseek(fd, 0, SEEK_DATA));
    truth("hole behind it", lseek(fd, 1 << 20, SEEK_HOLE) > 1 << 20 && lseek(fd, 1 << 20, SEEK_HOLE) <= 2 << 20);
    show("hole", lseek(fd, 5, SEEK_HOLE));
    show("position", lseek(fd, 0, SEEK_CUR));
    show("no data behind", lseek(fd, 2 << 20, SEEK_DATA));
    show("hole at the end", lseek(fd, (3 << 20) - 1, SEEK_HOLE));
    show("behind the end", lseek(fd, 3 << 20, SEEK_HOLE));
    show("negative", lseek(fd, -1, SEEK_DATA));
}

CASE(a_file_without_a_name_gets_one)
{
    int fd, again;
    char path[64];
    struct stat stat;

    scratch();
    fd = open(".", O_TMPFILE | O_RDWR, 0640);
    show_ok("open", fd);
    MUST(write(fd, "content", 7));
    MUST(fstat(fd, &stat));
    printf("links %ld, mode %o\n", (long)stat.st_nlink, stat.st_mode & 07777);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    show("link", linkat(AT_FDCWD, path, AT_FDCWD, "name", AT_SYMLINK_FOLLOW));
    file_show("name");
    MUST(fstat(fd, &stat));
    number("links", stat.st_nlink);
    show("link again", linkat(AT_FDCWD, path, AT_FDCWD, "name", AT_SYMLINK_FOLLOW));
    show("another name", linkat(AT_FDCWD, path, AT_FDCWD, "second", AT_SYMLINK_FOLLOW));
    MUST(pwrite(fd, "C", 1, 0));
    file_show("second");
    again = MUST(open(".", O_TMPFILE | O_RDWR | O_EXCL, 0600));
    snprintf(path, sizeof path, "/proc/self/fd/%d", again);
    show("exclusive", linkat(AT_FDCWD, path, AT_FDCWD, "third", AT_SYMLINK_FOLLOW));
    show("reading only", open(".", O_TMPFILE | O_RDONLY, 0600));
    show("not in a file", open("name", O_TMPFILE | O_RDWR, 0600));
}

static int execute_memfd(void *argument)
{
    char *const arguments[] = { "true-in-memory", NULL }, *const none[] = { NULL };
    int from = MUST(open(argument, O_RDONLY)), fd = MUST(memfd_create("program", MFD_CLOEXEC));
    char buffer[65536];
    long got;

    while ((got = read(from, buffer, sizeof buffer)) > 0)
        MUST(write(fd, buffer, got));
    fexecve(fd, arguments, none);
    return errno;
}

static int execute_by_link(void *argument)
{
    int fd = MUST(open(argument, O_RDONLY));
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    execl(path, "by-link", NULL);
    return errno;
}

static int execute_text(void *argument)
{
    char *const arguments[] = { "text", NULL }, *const none[] = { NULL };
    int fd = MUST(memfd_create("program", MFD_CLOEXEC));

    (void)argument;
    MUST(write(fd, "no program", 10));
    fexecve(fd, arguments, none);
    return errno;
}

CASE(programs_in_memory)
{
    in_child("true", execute_memfd, "/bin/true");
    in_child("false", execute_memfd, "/bin/false");
    in_child("false by its link", execute_by_link, "/bin/false");
    in_child("no program", execute_text, NULL);
}

struct how {
    unsigned long flags, mode, resolve;
};

static void open_restricted(const char *what, int dir, const char *path, unsigned long flags, unsigned long resolve)
{
    struct how how = { flags, flags & O_CREAT ? 0644 : 0, resolve };
    long fd = syscall(SYS_openat2, dir, path, &how, sizeof how);

    show_ok(what, fd);
    if (fd >= 0)
        close(fd);
}

CASE(restricted_walks)
{
    static const struct {
        const char *word;
        unsigned long flag;
    } restrictions[] = { { "none", 0 }, { "no links", 4 }, { "beneath", 8 }, { "in root", 16 }, { "no magic", 2 } };
    static const char *const paths[] = {
        "file", "dir/file", "dir/../file", "../file", "dir/../../file", "/file", "link", "dir/up", "absolute", "dirlink/file",
        "missing", "dir/missing", "file/x", ".", "dir/back/file",
    };
    char absolute[400];
    int dir;

    scratch();
    MUST(mkdir("top", 0755));
    MUST(mkdir("top/dir", 0755));
    file_make("top/file", "");
    file_make("top/dir/file", "");
    MUST(symlink("file", "top/link"));
    MUST(symlink("../../file", "top/dir/up"));
    MUST(symlink("..", "top/dir/back"));
    MUST(symlink("dir", "top/dirlink"));
    if (!getcwd(absolute, 300))
        return;
    strcat(absolute, "/top/file");
    MUST(symlink(absolute, "top/absolute"));
    dir = MUST(open("top", O_PATH | O_DIRECTORY));
    for (size_t p = 0; p < COUNT_OF(paths); p++)
        for (size_t r = 0; r < COUNT_OF(restrictions); r++) {
            char what[100];

            /* Without a restriction these depend on what lies above. */
            if (restrictions[r].flag != 8 && restrictions[r].flag != 16 && (paths[p][0] == '/' || strstr(paths[p], "..") || strstr(paths[p], "up")))
                continue;
            snprintf(what, sizeof what, "%s, %s", paths[p], restrictions[r].word);
            open_restricted(what, dir, paths[p], O_RDONLY, restrictions[r].flag);
        }
    open_restricted("create beneath", dir, "new", O_RDWR | O_CREAT, 8);
    open_restricted("create above", dir, "../new", O_RDWR | O_CREAT, 8);
    open_restricted("unknown restriction", dir, "file", O_RDONLY, 1 << 20);
    open_restricted("both fences", dir, "file", O_RDONLY, 8 | 16);
    open_restricted("magic link", AT_FDCWD, "/proc/self/fd/0", O_RDONLY, 2);
    open_restricted("magic link, no links", AT_FDCWD, "/proc/self/fd/0", O_RDONLY, 4);
}

static int file_with(const char *name, const char *content)
{
    file_make(name, content);
    return MUST(open(name, O_RDWR));
}

static void show_attributes(const char *path)
{
    char list[1000], *names[20];
    long got = listxattr(path, list, sizeof list);
    int count = 0;

    if (got == -1) {
        show("list", got);
        return;
    }
    for (long at = 0; at < got && count < 20; at += strlen(list + at) + 1)
        if (!strncmp(list + at, "user.", 5))
            names[count++] = list + at;
    for (int i = 0; i < count; i++)
        for (int j = i + 1; j < count; j++)
            if (strcmp(names[i], names[j]) > 0) {
                char *other = names[i];

                names[i] = names[j];
                names[j] = other;
            }
    printf("list:");
    for (int i = 0; i < count; i++)
        printf(" %s", names[i]);
    printf("\n");
}

/* Not every file system keeps attributes of users. */
static int has_attributes(void)
{
    int fd = file_with("probe", "");

    return fsetxattr(fd, "user.probe", "x", 1, 0) == 0;
}

CASE(attributes)
{
    char value[100];
    int fd;

    scratch();
    if (!has_attributes())
        return;
    fd = file_with("file", "content");
    show("none", getxattr("file", "user.a", value, sizeof value));
    show("set", setxattr("file", "user.a", "first", 5, 0));
    show("create", setxattr("file", "user.a", "x", 1, XATTR_CREATE));
    show("replace", setxattr("file", "user.a", "other", 5, XATTR_REPLACE));
    show("replace none", setxattr("file", "user.b", "x", 1, XATTR_REPLACE));
    show("by descriptor", fsetxattr(fd, "user.b", "", 0, XATTR_CREATE));
    show("length", getxattr("file", "user.a", NULL, 0));
    show("get", getxattr("file", "user.a", value, sizeof value));
    bytes("value", value, 5);
    show("too small", getxattr("file", "user.a", value, 4));
    show("empty value", fgetxattr(fd, "user.b", value, sizeof value));
    show_attributes("file");
    show("list too small", listxattr("file", value, 3) == -1 && errno == ERANGE ? -2 : 0);
    MUST(link("file", "second"));
    show_attributes("second");
    MUST(rename("file", "moved"));
    show_attributes("moved");
    show("remove", removexattr("moved", "user.a"));
    show("remove again", removexattr("moved", "user.a"));
    show_attributes("second");
    show("bad flags", setxattr("moved", "user.c", "x", 1, 8));
    show("no class", setxattr("moved", "plain", "x", 1, 0));
    show("empty class", setxattr("moved", "user.", "x", 1, 0));
    show("empty name", setxattr("moved", "", "x", 1, 0));
    show("missing", setxattr("missing", "user.a", "x", 1, 0));
    MUST(mkdir("dir", 0755));
    show("directory", setxattr("dir", "user.a", "x", 1, 0));
    show_attributes("dir");
    MUST(symlink("moved", "link"));
    show("through a link", setxattr("link", "user.l", "x", 1, 0));
    show("of a link", lsetxattr("link", "user.l", "x", 1, 0));
    show_attributes("moved");
}

CASE(packets)
{
    int ends[2];
    char data[100];
    struct pollfd poll_fd;

    MUST(pipe2(ends, O_DIRECT | O_NONBLOCK));
    MUST(write(ends[1], "one", 3));
    MUST(write(ends[1], "two and more", 12));
    MUST(write(ends[1], "three", 5));
    show("first", read(ends[0], data, sizeof data));
    show("cut", read(ends[0], data, 3));
    bytes("cut", data, 3);
    show("third", read(ends[0], data, sizeof data));
    bytes("third", data, 5);
    show("none", read(ends[0], data, sizeof data));
    truth("flag", fcntl(ends[1], F_GETFL) & O_DIRECT);
    MUST(fcntl(ends[1], F_SETFL, O_NONBLOCK));
    MUST(write(ends[1], "a", 1));
    MUST(write(ends[1], "b", 1));
    show("a stream again", read(ends[0], data, sizeof data));
    poll_fd = (struct pollfd){ .fd = ends[0], .events = POLLIN };
    show("poll", poll(&poll_fd, 1, 0));
}

CASE(flags_of_single_calls)
{
    int fd, ends[2];
    char data[20] = "";
    struct iovec part = { "XY", 2 }, into = { data, 5 };

    scratch();
    fd = file_with("file", "0123456789");
    show("append", pwritev2(fd, &part, 1, 0, RWF_APPEND));
    show("position", lseek(fd, 0, SEEK_CUR));
    show("append at the position", pwritev2(fd, &part, 1, -1, RWF_APPEND));
    show("position", lseek(fd, 0, SEEK_CUR));
    file_show("file");
    show("at once", preadv2(fd, &into, 1, 0, RWF_NOWAIT) == 5 ? 5 : errno == EAGAIN ? 5 : -1);
    show("unknown", preadv2(fd, &into, 1, 0, 0x4000));
    show("synchronous", pwritev2(fd, &part, 1, 0, RWF_SYNC | RWF_DSYNC));
    make_pipe(ends);
    show("nothing in a pipe", preadv2(ends[0], &into, 1, -1, RWF_NOWAIT));
    MUST(write(ends[1], "pipe", 4));
    show("something", preadv2(ends[0], &into, 1, -1, RWF_NOWAIT));
}

CASE(birth_times)
{
    struct statx before, after;

    scratch();
    file_make("file", "");
    MUST(statx(AT_FDCWD, "file", 0, STATX_BTIME, &before));
    sleep_ms(20);
    MUST(chmod("file", 0600));
    MUST(statx(AT_FDCWD, "file", 0, STATX_BTIME | STATX_CTIME, &after));
    if (before.stx_mask & STATX_BTIME) {
        truth("kept", before.stx_btime.tv_sec == after.stx_btime.tv_sec && before.stx_btime.tv_nsec == after.stx_btime.tv_nsec);
        truth("before the change", after.stx_btime.tv_sec < after.stx_ctime.tv_sec
                                       || after.stx_btime.tv_nsec < after.stx_ctime.tv_nsec);
    }
}

CASE(presence_of_pages)
{
    unsigned char pages[4] = { 0 };
    char *memory = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    memset(memory, 1, 4 * 4096);
    show("mincore", mincore(memory, 4 * 4096, pages));
    printf("%d %d %d %d\n", pages[0] & 1, pages[1] & 1, pages[2] & 1, pages[3] & 1);
    show("misaligned", mincore(memory + 1, 4096, pages));
    MUST(munmap(memory + 8192, 4096));
    show("a hole", mincore(memory, 4 * 4096, pages));
    munmap(memory, 4 * 4096);
}

static int fill_address_space(void *argument)
{
    struct rlimit limit = { 1ul << 30, 1ul << 30 };
    void *memory;

    (void)argument;
    MUST(setrlimit(RLIMIT_AS, &limit));
    memory = mmap(NULL, 2ul << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    show("two gigabytes", memory == MAP_FAILED ? -1 : 0);
    memory = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    show("a megabyte", memory == MAP_FAILED ? -1 : 0);
    return 0;
}

static int fill_data(void *argument)
{
    struct rlimit limit = { 256ul << 20, 256ul << 20 };
    void *memory;

    (void)argument;
    MUST(setrlimit(RLIMIT_DATA, &limit));
    memory = mmap(NULL, 300 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    show("private and writable", memory == MAP_FAILED ? -1 : 0);
    memory = mmap(NULL, 300 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    show("read-only", memory == MAP_FAILED ? -1 : 0);
    show("brk", sbrk(300 << 20) == (void *)-1 ? -1 : 0);
    return 0;
}

CASE(limits_of_memory)
{
    in_child("address space", fill_address_space, NULL);
    in_child("data", fill_data, NULL);
}

static void show_file_system(const char *what, int fd)
{
    struct statfs about = { 0 };

    if (fd == -1 || fstatfs(fd, &about) == -1)
        show(what, -1);
    else
        printf("%s: %lx, %s, names of %ld\n", what, (long)about.f_type, about.f_flags & 0x20 ? "with flags" : "without flags", (long)about.f_namelen);
    if (fd != -1)
        close(fd);
}

/* Those of descriptors of processes depend on the kernel. */
CASE(file_systems_of_descriptors)
{
    struct mq_attr small = { .mq_maxmsg = 1, .mq_msgsize = 8 };
    struct statfs about = { 0 };
    sigset_t none;
    int ends[2], master;
    char path[64];

    sigemptyset(&none);
    MUST(pipe(ends));
    show_file_system("pipe", dup(ends[0]));
    snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
    show_file_system("place of a pipe", open(path, O_PATH));
    show("statfs by that name", statfs(path, &about));
    printf("%lx\n", (long)about.f_type);
    show_file_system("TCP socket", socket(AF_INET, SOCK_STREAM, 0));
    show_file_system("Unix socket", socket(AF_UNIX, SOCK_DGRAM, 0));
    show_file_system("netlink socket", socket(AF_NETLINK, SOCK_RAW, 0));
    show_file_system("memory", memfd_create("memory", 0));
    show_file_system("epoll", epoll_create1(0));
    show_file_system("eventfd", eventfd(0, 0));
    show_file_system("signalfd", signalfd(-1, &none, 0));
    show_file_system("timerfd", timerfd_create(CLOCK_MONOTONIC, 0));
    show_file_system("inotify", inotify_init1(0));
    show_file_system("file of a process", open("/proc/self/status", O_RDONLY));
    show_file_system("its descriptors", open("/proc/self/fd", O_RDONLY));
    show_file_system("/sys", open("/sys/class/net", O_RDONLY));
    show_file_system("/dev/null", open("/dev/null", O_RDONLY));
    show_file_system("/dev/shm", open("/dev/shm", O_RDONLY));
    show_file_system("/dev/pts", open("/dev/pts", O_RDONLY));
    MUST(master = posix_openpt(O_RDWR | O_NOCTTY));
    MUST(unlockpt(master));
    show_file_system("terminal", open(ptsname(master), O_RDWR | O_NOCTTY));
    show_file_system("queue", mq_open("/gnomon-unusual", O_CREAT | O_RDWR, 0600, &small));
    mq_unlink("/gnomon-unusual");
    show_file_system("namespace", open("/proc/self/ns/net", O_RDONLY));
    show_file_system("place of a namespace", open("/proc/self/ns/net", O_PATH));
    show("bad pointer", fstatfs(ends[0], (void *)8));
    show("bad descriptor", fstatfs(60, &about));
}
