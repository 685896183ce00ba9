/* inotify: which events a watch gives for what is done to files and directories. */
#include "process.h"

#include <limits.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>

static const struct {
    unsigned bit;
    const char *word;
} words[] = {
    { IN_ACCESS, "ACCESS" }, { IN_MODIFY, "MODIFY" }, { IN_ATTRIB, "ATTRIB" }, { IN_CLOSE_WRITE, "CLOSE_WRITE" },
    { IN_CLOSE_NOWRITE, "CLOSE_NOWRITE" }, { IN_OPEN, "OPEN" }, { IN_MOVED_FROM, "MOVED_FROM" },
    { IN_MOVED_TO, "MOVED_TO" }, { IN_CREATE, "CREATE" }, { IN_DELETE, "DELETE" }, { IN_DELETE_SELF, "DELETE_SELF" },
    { IN_MOVE_SELF, "MOVE_SELF" }, { IN_UNMOUNT, "UNMOUNT" }, { IN_Q_OVERFLOW, "Q_OVERFLOW" },
    { IN_IGNORED, "IGNORED" }, { IN_ISDIR, "ISDIR" },
};

static int watcher(void)
{
    return MUST(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
}

/* Prints the events that wait, one per line; cookies as whether they repeat the one before. */
static void show_events(const char *what, int fd)
{
    static char buffer[65536] __attribute__((aligned(8)));
    long got = read(fd, buffer, sizeof buffer);
    unsigned cookie = 0;

    printf("%s:%s\n", what, got == -1 ? errno == EAGAIN ? " nothing" : errno_name(errno) : "");
    for (long at = 0; at < got;) {
        struct inotify_event *event = (void *)(buffer + at);

        printf("  wd %d", event->wd);
        for (size_t i = 0; i < COUNT_OF(words); i++)
            if (event->mask & words[i].bit)
                printf(" %s", words[i].word);
        if (event->cookie)
            printf(event->cookie == cookie ? " same cookie" : " cookie");
        cookie = event->cookie;
        if (event->len)
            printf(" \"%s\" (%u)", event->name, event->len);
        printf("\n");
        at += sizeof *event + event->len;
    }
}

static void write_file(const char *path, const char *content)
{
    int fd = MUST(open(path, O_WRONLY | O_CREAT, 0644));

    MUST(write(fd, content, strlen(content)));
    MUST(close(fd));
}

CASE(a_new_file_in_a_directory)
{
    int fd = watcher();

    scratch();
    show("watch", inotify_add_watch(fd, ".", IN_ALL_EVENTS));
    show_events("at first", fd);
    write_file("new", "text");
    show_events("created and written", fd);
    write_file("new", "again");
    show_events("written again", fd);
    file_show("new");
    show_events("read", fd);
    MUST(unlink("new"));
    show_events("removed", fd);
}

CASE(a_watched_file)
{
    int fd = watcher(), file;

    scratch();
    file_make("file", "text");
    show("watch", inotify_add_watch(fd, "file", IN_ALL_EVENTS));
    file_show("file");
    show_events("read", fd);
    file = MUST(open("file", O_RDWR));
    MUST(write(file, "x", 1));
    show_events("written", fd);
    MUST(pwrite(file, "y", 1, 3));
    MUST(ftruncate(file, 2));
    show_events("truncated", fd);
    MUST(fchmod(file, 0600));
    show_events("mode", fd);
    MUST(close(file));
    show_events("closed", fd);
    MUST(chmod("file", 0644));
    MUST(truncate("file", 1));
    show_events("by path", fd);
    MUST(link("file", "other"));
    show_events("linked", fd);
    MUST(rename("file", "moved"));
    show_events("moved", fd);
    write_file("moved", "z");
    show_events("written under its new name", fd);
    write_file("other", "z");
    show_events("written under its other name", fd);
    MUST(unlink("moved"));
    show_events("one name removed", fd);
    MUST(unlink("other"));
    show_events("last name removed", fd);
    file_make("file", "new");
    show_events("a new file of that name", fd);
    show("remove the watch", inotify_rm_watch(fd, 1));
}

CASE(directories)
{
    int fd = watcher();
    DIR *dir;

    scratch();
    inotify_add_watch(fd, ".", IN_ALL_EVENTS);
    MUST(mkdir("dir", 0755));
    show_events("made", fd);
    show("watch", inotify_add_watch(fd, "dir", IN_ALL_EVENTS));
    dir = opendir("dir");
    show_events("opened", fd);
    while (readdir(dir))
        ;
    closedir(dir);
    show_events("listed and closed", fd);
    MUST(chmod("dir", 0700));
    show_events("mode", fd);
    file_make("dir/file", "");
    show_events("file in it", fd);
    MUST(rename("dir", "moved"));
    show_events("moved", fd);
    MUST(unlink("moved/file"));
    show_events("file in it removed", fd);
    MUST(rmdir("moved"));
    show_events("removed", fd);
}

CASE(renames)
{
    int fd = watcher();

    scratch();
    MUST(mkdir("a", 0755));
    MUST(mkdir("b", 0755));
    file_make("a/one", "1");
    file_make("b/two", "2");
    file_make("outside", "3");
    show("watch a", inotify_add_watch(fd, "a", IN_ALL_EVENTS));
    show("watch b", inotify_add_watch(fd, "b", IN_ALL_EVENTS));
    MUST(rename("a/one", "a/uno"));
    show_events("within", fd);
    MUST(rename("a/uno", "b/uno"));
    show_events("across", fd);
    MUST(rename("b/uno", "b/two"));
    show_events("over another", fd);
    MUST(rename("outside", "a/inside"));
    show_events("in", fd);
    MUST(rename("b/two", "gone"));
    show_events("out", fd);
    MUST(syscall(SYS_renameat2, AT_FDCWD, "gone", AT_FDCWD, "a/inside", 2));
    show_events("exchanged", fd);
}

CASE(a_replaced_file)
{
    int fd = watcher();

    scratch();
    file_make("file", "old");
    file_make("next", "new");
    show("watch", inotify_add_watch(fd, "file", IN_ALL_EVENTS));
    MUST(rename("next", "file"));
    show_events("replaced", fd);
    show("remove the watch", inotify_rm_watch(fd, 1));
}

CASE(an_open_file_that_is_removed)
{
    int fd = watcher(), file;

    scratch();
    inotify_add_watch(fd, ".", IN_ALL_EVENTS);
    file = MUST(open("file", O_RDWR | O_CREAT, 0644));
    inotify_add_watch(fd, "file", IN_ALL_EVENTS);
    show_events("made", fd);
    MUST(unlink("file"));
    show_events("removed", fd);
    MUST(write(file, "x", 1));
    show_events("written", fd);
    MUST(close(file));
    show_events("closed", fd);
}

CASE(excl_unlink)
{
    int fd = watcher(), file;

    scratch();
    inotify_add_watch(fd, ".", IN_ALL_EVENTS | IN_EXCL_UNLINK);
    file = MUST(open("file", O_RDWR | O_CREAT, 0644));
    MUST(unlink("file"));
    show_events("made and removed", fd);
    MUST(write(file, "x", 1));
    MUST(close(file));
    show_events("written and closed", fd);
}

CASE(masks_choose)
{
    int fd = watcher();

    scratch();
    inotify_add_watch(fd, ".", IN_CLOSE_WRITE | IN_DELETE);
    write_file("file", "text");
    file_show("file");
    MUST(unlink("file"));
    show_events("events", fd);
    truth("the same watch", inotify_add_watch(fd, ".", IN_CREATE) == 1);
    write_file("file", "text");
    MUST(unlink("file"));
    show_events("another mask", fd);
    truth("the same watch", inotify_add_watch(fd, ".", IN_DELETE | IN_MASK_ADD) == 1);
    write_file("file", "text");
    MUST(unlink("file"));
    show_events("added", fd);
    show("create only", inotify_add_watch(fd, ".", IN_DELETE | IN_MASK_CREATE));
}

CASE(oneshot)
{
    int fd = watcher();

    scratch();
    inotify_add_watch(fd, ".", IN_CREATE | IN_ONESHOT);
    file_make("a", "");
    file_make("b", "");
    show_events("events", fd);
    show("remove the watch", inotify_rm_watch(fd, 1));
}

CASE(removing_watches)
{
    int fd = watcher();

    scratch();
    file_make("file", "");
    show("watch", inotify_add_watch(fd, "file", IN_OPEN));
    show("remove", inotify_rm_watch(fd, 1));
    show_events("events", fd);
    show("remove again", inotify_rm_watch(fd, 1));
    show("watch", inotify_add_watch(fd, "file", IN_OPEN));
    show("watch", inotify_add_watch(fd, ".", IN_OPEN));
    file_show("file");
    show_events("events", fd);
}

CASE(errors)
{
    int fd = watcher(), file;

    scratch();
    file_make("file", "");
    MUST(symlink("file", "link"));
    MUST(symlink("nowhere", "broken"));
    file = MUST(open("file", O_RDONLY));
    show("no events", inotify_add_watch(fd, ".", 0));
    show("unknown bits only", inotify_add_watch(fd, ".", 0x00100000));
    show("add and create", inotify_add_watch(fd, ".", IN_OPEN | IN_MASK_ADD | IN_MASK_CREATE));
    show("missing", inotify_add_watch(fd, "missing", IN_OPEN));
    show("only directories", inotify_add_watch(fd, "file", IN_OPEN | IN_ONLYDIR));
    show("no instance", inotify_add_watch(file, ".", IN_OPEN));
    show("no descriptor", inotify_add_watch(-1, ".", IN_OPEN));
    show("broken link", inotify_add_watch(fd, "broken", IN_OPEN));
    show_ok("broken link itself", inotify_add_watch(fd, "broken", IN_OPEN | IN_DONT_FOLLOW));
    show_ok("through a link", inotify_add_watch(fd, "link", IN_OPEN));
    file_show("link");
    show_events("through a link", fd);
    show("bad pointer", syscall(SYS_inotify_add_watch, fd, (void *)8, IN_OPEN));
    show("unknown watch", inotify_rm_watch(fd, 77));
    show("bad flags", inotify_init1(1));
    show("write", write(fd, "x", 1));
    show("lseek", lseek(fd, 0, SEEK_SET));
}

CASE(reading)
{
    int fd = watcher(), available;
    char small[16], exact[32];

    scratch();
    inotify_add_watch(fd, ".", IN_CREATE);
    file_make("a", "");
    file_make("fifteen_letters", "");
    file_make("sixteen__letters", "");
    show("ioctl", ioctl(fd, FIONREAD, &available));
    number("available", available);
    show("too small", read(fd, small, sizeof small));
    show("one", read(fd, exact, sizeof exact));
    show("another", read(fd, exact, sizeof exact));
    show("third does not fit", read(fd, exact, sizeof exact));
    ioctl(fd, FIONREAD, &available);
    number("available", available);
    show_events("rest", fd);
}

CASE(equal_events_merge)
{
    int fd = watcher(), file;

    scratch();
    file = MUST(open("file", O_RDWR | O_CREAT, 0644));
    inotify_add_watch(fd, "file", IN_MODIFY | IN_ATTRIB);
    for (int i = 0; i < 5; i++)
        MUST(write(file, "x", 1));
    MUST(fchmod(file, 0600));
    for (int i = 0; i < 3; i++)
        MUST(write(file, "x", 1));
    show_events("events", fd);
}

static int make_and_remove(void *argument)
{
    (void)argument;
    write_file("by-child", "text");
    unlink("by-child");
    return 0;
}

CASE(other_processes_cause_events)
{
    int fd = watcher();

    scratch();
    inotify_add_watch(fd, ".", IN_CREATE | IN_MODIFY | IN_DELETE);
    in_child("child", make_and_remove, NULL);
    show_events("events", fd);
}

static int create_later(void *argument)
{
    (void)argument;
    sleep_ms(30);
    file_make("late", "");
    return 0;
}

CASE(read_and_poll_wait)
{
    int fd = MUST(inotify_init());
    char buffer[256];
    struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
    pid_t pid;

    scratch();
    inotify_add_watch(fd, ".", IN_CREATE | IN_DELETE);
    show("poll at once", poll(&poll_fd, 1, 0));
    pid = child_start(create_later, NULL);
    show("poll", poll(&poll_fd, 1, 5000));
    printf("%#x\n", (unsigned)poll_fd.revents);
    show("read", read(fd, buffer, sizeof buffer));
    child_end("child", pid);
    unlink("late");
    show("read", read(fd, buffer, sizeof buffer));
    pid = child_start(create_later, NULL);
    show("read waits", read(fd, buffer, sizeof buffer));
    child_end("child", pid);
}

CASE(links_and_special_files)
{
    int fd = watcher();

    scratch();
    file_make("file", "");
    inotify_add_watch(fd, ".", IN_ALL_EVENTS);
    MUST(symlink("file", "symlink"));
    MUST(link("file", "hardlink"));
    MUST(mkfifo("fifo", 0600));
    show_events("made", fd);
    MUST(unlink("symlink"));
    MUST(unlink("hardlink"));
    MUST(unlink("fifo"));
    show_events("removed", fd);
}

CASE(attributes)
{
    int fd = watcher();
    struct timespec both[2] = { { 5, 0 }, { 6, 0 } };

    scratch();
    file_make("file", "");
    inotify_add_watch(fd, ".", IN_ALL_EVENTS);
    MUST(utimensat(AT_FDCWD, "file", both, 0));
    show_events("both times", fd);
    both[0].tv_nsec = UTIME_OMIT;
    MUST(utimensat(AT_FDCWD, "file", both, 0));
    show_events("modified", fd);
    both[0].tv_nsec = 0;
    both[1].tv_nsec = UTIME_OMIT;
    MUST(utimensat(AT_FDCWD, "file", both, 0));
    show_events("accessed", fd);
    MUST(chmod("file", 0640));
    show_events("mode", fd);
    MUST(chown("file", getuid(), getgid()));
    show_events("owner", fd);
}

CASE(mapped_writes_are_not_seen)
{
    int fd = watcher(), file;
    char *memory;

    scratch();
    file = MUST(open("file", O_RDWR | O_CREAT, 0644));
    MUST(ftruncate(file, 4096));
    memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    inotify_add_watch(fd, "file", IN_ALL_EVENTS);
    memory[0] = 'x';
    show_events("written through memory", fd);
    munmap(memory, 4096);
}

CASE(a_directory_and_a_file_in_it)
{
    int fd = watcher();

    scratch();
    file_make("file", "text");
    show("directory", inotify_add_watch(fd, ".", IN_ALL_EVENTS));
    show("file", inotify_add_watch(fd, "file", IN_ALL_EVENTS));
    file_show("file");
    show_events("read", fd);
    MUST(unlink("file"));
    show_events("removed", fd);
}

CASE(two_instances)
{
    int first = watcher(), second = watcher();

    scratch();
    inotify_add_watch(first, ".", IN_CREATE);
    inotify_add_watch(second, ".", IN_DELETE);
    file_make("file", "");
    MUST(unlink("file"));
    show_events("first", first);
    show_events("second", second);
    close(first);
    file_make("file", "");
    MUST(unlink("file"));
    show_events("second", second);
}

CASE(the_queue_overflows)
{
    int fd = watcher(), limit = 16384;
    FILE *setting = fopen("/proc/sys/fs/inotify/max_queued_events", "r");
    static char buffer[1 << 20] __attribute__((aligned(8)));
    long got, events = 0, overflows = 0, last = 0;
    int file;

    if (setting && fscanf(setting, "%d", &limit) == 1)
        fclose(setting);
    scratch();
    file = MUST(open("file", O_RDWR | O_CREAT, 0644));
    inotify_add_watch(fd, "file", IN_MODIFY | IN_ACCESS);
    for (int i = 0; i < limit + 100; i++) {
        if (i % 2)
            MUST(pwrite(file, "x", 1, 0));
        else
            MUST(pread(file, buffer, 1, 0));
    }
    while ((got = read(fd, buffer, sizeof buffer)) > 0)
        for (long at = 0; at < got;) {
            struct inotify_event *event = (void *)(buffer + at);

            events++;
            last = event->mask & IN_Q_OVERFLOW && event->wd == -1;
            overflows += last;
            at += sizeof *event + event->len;
        }
    number("overflows", overflows);
    truth("the last one", last);
    truth("as many as the limit says", events == limit + 1);
}

/* Every call that may change a file, and the events of one watch on the file and one on its directory. */
CASE(matrix_of_opens)
{
    static const int flags[] = { O_RDONLY, O_WRONLY, O_RDWR, O_WRONLY | O_APPEND, O_RDONLY | O_DIRECTORY, O_PATH };

    scratch();
    file_make("file", "text");
    MUST(mkdir("dir", 0755));
    for (size_t f = 0; f < COUNT_OF(flags); f++)
        for (int directory = 0; directory < 2; directory++) {
            int fd = watcher(), file;
            char what[64];

            inotify_add_watch(fd, ".", IN_ALL_EVENTS);
            inotify_add_watch(fd, directory ? "dir" : "file", IN_ALL_EVENTS);
            file = open(directory ? "dir" : "file", flags[f]);
            if (file != -1)
                close(file);
            snprintf(what, sizeof what, "flags %#o of the %s: %s", flags[f], directory ? "directory" : "file",
                     file == -1 ? errno_name(errno) : "opened");
            show_events(what, fd);
            close(fd);
        }
}

/* Each buffer is filled by itself with whole events; one that has no room for the next ends the call. */
CASE(vectors)
{
    static const size_t rooms[][2] = { { 4, 100 }, { 32, 100 }, { 32, 4 }, { 64, 64 }, { 0, 64 } };

    scratch();
    for (size_t i = 0; i < COUNT_OF(rooms); i++) {
        char data[256], name[16];
        struct iovec parts[2] = { { data, rooms[i][0] }, { data + rooms[i][0], rooms[i][1] } };
        int fd = MUST(inotify_init1(IN_NONBLOCK));

        MUST(inotify_add_watch(fd, ".", IN_CREATE));
        for (int file = 0; file < 2; file++) {
            snprintf(name, sizeof name, "f%zu-%d", i, file);
            MUST(mkdir(name, 0700));
        }
        show("readv", readv(fd, parts, 2));
        show("read", read(fd, data, sizeof data));
        show("read", read(fd, data, sizeof data));
        close(fd);
    }
}

/* Files of memory lie in no folder, not in the root either. */
CASE(files_of_memory)
{
    int fd = watcher(), file;

    MUST(inotify_add_watch(fd, "/", IN_MODIFY | IN_CLOSE_WRITE | IN_CREATE));
    file = MUST(memfd_create("shared", MFD_CLOEXEC));
    MUST(write(file, "abc", 3));
    MUST(close(file));
    show_events("a watch of the root", fd);
    close(fd);
}

/* What is done by way of an open file whose name is gone is kept from those that ask for that; what becomes of the file is not. */
CASE(excl_unlink_of_the_file_itself)
{
    int fd = watcher(), file;

    scratch();
    file = MUST(open("file", O_RDWR | O_CREAT, 0644));
    inotify_add_watch(fd, ".", IN_ALL_EVENTS | IN_EXCL_UNLINK);
    inotify_add_watch(fd, "file", IN_ALL_EVENTS | IN_EXCL_UNLINK);
    MUST(unlink("file"));
    show_events("removed", fd);
    MUST(write(file, "x", 1));
    show_events("written", fd);
    MUST(posix_fallocate(file, 0, 10));
    show_events("allocated", fd);
    MUST(ftruncate(file, 5));
    show_events("cut", fd);
    MUST(fchmod(file, 0600));
    show_events("mode", fd);
    MUST(futimens(file, NULL));
    show_events("times", fd);
    write_file("file", "another");
    show_events("another of its name", fd);
    MUST(fchmod(file, 0640));
    show_events("mode of the first", fd);
    MUST(close(file));
    show_events("closed", fd);
}

/* A folder that somebody has open lives on without its name. */
CASE(an_open_folder_that_is_removed)
{
    int fd = watcher(), folder, again, place;

    scratch();
    MUST(mkdir("folder", 0755));
    folder = MUST(open("folder", O_RDONLY | O_DIRECTORY));
    again = MUST(open("folder", O_RDONLY | O_DIRECTORY));
    place = MUST(open("folder", O_PATH));
    inotify_add_watch(fd, ".", IN_ALL_EVENTS);
    inotify_add_watch(fd, "folder", IN_ALL_EVENTS);
    MUST(rmdir("folder"));
    show_events("removed", fd);
    MUST(mkdir("folder", 0755));
    show_events("another of its name", fd);
    MUST(close(folder));
    show_events("closed once", fd);
    MUST(close(again));
    show_events("closed twice", fd);
    MUST(close(place));
    show_events("not even named", fd);
}

CASE(files_that_are_made_up)
{
    int fd = watcher(), file;
    char byte;

    inotify_add_watch(fd, "/proc/filesystems", IN_ALL_EVENTS);
    inotify_add_watch(fd, "/dev/zero", IN_ALL_EVENTS);
    file = MUST(open("/proc/filesystems", O_RDONLY));
    show_events("opened", fd);
    MUST(read(file, &byte, 1));
    show_events("read", fd);
    MUST(close(file));
    show_events("closed", fd);
    file = MUST(open("/dev/zero", O_RDWR));
    MUST(read(file, &byte, 1));
    MUST(write(file, &byte, 1));
    MUST(close(file));
    show_events("a device", fd);
}
