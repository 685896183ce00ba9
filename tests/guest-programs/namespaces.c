/* The namespaces that a process is in: their links, open files of them, and what these tell. */
#include "case.h"
#include "process.h"

#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>

static const char *const names[] = { "cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "user", "uts" };

CASE(links_name_kind_and_number)
{
    char path[64], target[64];
    struct stat link, file;

    for (unsigned i = 0; i < COUNT_OF(names); i++) {
        ssize_t length;
        unsigned long inode = 0;
        char kind[32] = "";

        snprintf(path, sizeof(path), "/proc/self/ns/%s", names[i]);
        length = readlink(path, target, sizeof(target) - 1);
        target[length > 0 ? length : 0] = 0;
        truth(names[i], sscanf(target, "%31[a-z]:[%lu]", kind, &inode) == 2);
        text("kind", kind);
        MUST(lstat(path, &link));
        MUST(stat(path, &file));
        truth("a link", S_ISLNK(link.st_mode));
        truth("to a file of that number", S_ISREG(file.st_mode) && file.st_ino == inode);
    }
}

CASE(children_are_in_the_same)
{
    struct stat own, theirs;
    char path[64];
    pid_t child;

    fflush(stdout);
    MUST(child = fork());
    if (child == 0) {
        pause();
        _exit(0);
    }
    for (unsigned i = 0; i < COUNT_OF(names); i++) {
        snprintf(path, sizeof(path), "/proc/self/ns/%s", names[i]);
        MUST(stat(path, &own));
        snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)child, names[i]);
        MUST(stat(path, &theirs));
        truth(names[i], own.st_ino == theirs.st_ino);
    }
    MUST(kill(child, SIGKILL));
    MUST(waitpid(child, NULL, 0));
}

CASE(open_files_of_them)
{
    char byte, path[64], target[64];
    ssize_t length;
    int uts, user, parent;

    MUST(uts = open("/proc/self/ns/uts", O_RDONLY));
    MUST(user = open("/proc/self/ns/user", O_RDONLY));
    truth("type of uts", ioctl(uts, NS_GET_NSTYPE) == CLONE_NEWUTS);
    truth("type of user", ioctl(user, NS_GET_NSTYPE) == CLONE_NEWUSER);
    show("parent of uts", ioctl(uts, NS_GET_PARENT));
    show("owner of uts", ioctl(uts, NS_GET_OWNER_UID, &length));
    show("an unknown request", ioctl(uts, 0x5413, &length));
    show_ok("user namespace of uts", parent = ioctl(uts, NS_GET_USERNS));
    truth("is user", ioctl(parent, NS_GET_NSTYPE) == CLONE_NEWUSER);
    show("read", read(uts, &byte, 1));
    show("write", write(uts, "x", 1));
    snprintf(path, sizeof(path), "/proc/self/fd/%d", uts);
    length = readlink(path, target, sizeof(target));
    truth("shown as such", length > 5 && memcmp(target, "uts:[", 5) == 0);
    show("not followed", open("/proc/self/ns/uts", O_RDONLY | O_NOFOLLOW));
    show("no such one", open("/proc/self/ns/nothing", O_RDONLY));
}

CASE(nobody_changes_their_files)
{
    static const char name[] = "/proc/self/ns/net";
    char path[64];
    int fd, again;

    show("opened to write", open(name, O_RDWR));
    show("truncated", truncate(name, 0));
    show("may write", access(name, W_OK));
    show("may execute", access(name, X_OK | W_OK));
    show("may read", access(name, R_OK));
    show("the link may be written", faccessat(AT_FDCWD, name, W_OK, AT_SYMLINK_NOFOLLOW));
    show("given a mode", chmod(name, 0777));
    show("given an owner", chown(name, 0, 0));
    show("given times", utimensat(AT_FDCWD, name, NULL, 0));
    MUST(fd = open(name, O_RDONLY));
    show("given a mode by descriptor", fchmod(fd, 0777));
    show("may write the descriptor", syscall(SYS_faccessat2, fd, "", W_OK, AT_EMPTY_PATH));
    show("may execute the descriptor", syscall(SYS_faccessat2, fd, "", X_OK, AT_EMPTY_PATH));
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    show("may write behind the descriptor", access(path, W_OK));
    show("opened again to write", open(path, O_RDWR));
    show_ok("opened again to read", again = open(path, O_RDONLY));
    truth("of the same kind", ioctl(again, NS_GET_NSTYPE) == CLONE_NEWNET);
}

CASE(entering_them_wrongly)
{
    int uts, user, own;

    MUST(uts = open("/proc/self/ns/uts", O_RDONLY));
    MUST(user = open("/proc/self/ns/user", O_RDONLY));
    MUST(own = (int)syscall(SYS_pidfd_open, getpid(), 0));
    show("another kind", setns(uts, CLONE_NEWNET));
    show("the own user namespace", setns(user, 0));
    show("a process, without kinds", setns(own, 0));
    show("no namespace", setns(0, 0));
    show("no descriptor", setns(60, 0));
    show("unshare of nothing known", unshare(1));
}
