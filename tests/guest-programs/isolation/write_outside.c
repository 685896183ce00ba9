/*
 * Tries in all ways to change files of the machine.
 *
 *   write_outside DIRECTORY    has a file "victim" and a directory "folder"
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static char buffers[4][PATH_MAX];

/* DIRECTORY/name; four of them live at a time. */
static const char *in(const char *directory, const char *name)
{
    static int next;
    char *path = buffers[next++ % 4];

    snprintf(path, PATH_MAX, "%s/%s", directory, name);
    return path;
}

static void show(const char *what, long ret)
{
    printf("%s = %s\n", what, ret == -1 ? strerrorname_np(errno) : "ok");
}

int main(int argc, char **argv)
{
    const char *d = argv[1];
    struct timespec times[2] = { { 1, 0 }, { 1, 0 } };
    char reopened[32];
    int fd;

    if (argc != 2)
        return 2;
    show("create", open(in(d, "new"), O_CREAT | O_WRONLY, 0644));
    show("create exclusively", open(in(d, "new"), O_CREAT | O_EXCL | O_RDWR, 0644));
    show("create without a name", open(d, O_TMPFILE | O_RDWR, 0600));
    show("open for writing", open(in(d, "victim"), O_WRONLY));
    show("open for both", open(in(d, "victim"), O_RDWR));
    show("open to append", open(in(d, "victim"), O_WRONLY | O_APPEND));
    show("open and truncate", open(in(d, "victim"), O_RDONLY | O_TRUNC));
    show("truncate", truncate(in(d, "victim"), 0));
    show("unlink", unlink(in(d, "victim")));
    show("rmdir", rmdir(in(d, "folder")));
    show("mkdir", mkdir(in(d, "new"), 0755));
    show("mkfifo", mkfifo(in(d, "new"), 0644));
    show("symlink", symlink("/", in(d, "new")));
    show("link", link(in(d, "victim"), in(d, "new")));
    show("rename", rename(in(d, "victim"), in(d, "new")));
    show("chmod", chmod(in(d, "victim"), 0777));
    show("utimensat", utimensat(AT_FDCWD, in(d, "victim"), times, 0));
    show("setxattr", setxattr(in(d, "victim"), "user.x", "y", 1, 0));

    /* Through links that lie where writing is allowed. */
    if (symlink(in(d, "victim"), "to-victim") || symlink(in(d, "new"), "to-new") || symlink(d, "to-directory"))
        return 2;
    show("open through a link", open("to-victim", O_WRONLY));
    show("create through a link", open("to-new", O_CREAT | O_WRONLY, 0644));
    show("create through a directory link", open("to-directory/new", O_CREAT | O_WRONLY, 0644));
    close(open("mine", O_CREAT | O_WRONLY, 0644));
    show("rename into", rename("mine", in(d, "new")));
    show("link out", link(in(d, "victim"), "stolen"));

    /* Through a descriptor that may only read. */
    fd = open(in(d, "victim"), O_RDONLY);
    snprintf(reopened, sizeof reopened, "/proc/self/fd/%d", fd);
    show("read-only descriptor", fd == -1 ? -1 : 0);
    show("write", write(fd, "x", 1));
    show("ftruncate", ftruncate(fd, 0));
    show("fchmod", fchmod(fd, 0777));
    show("map shared for writing", mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0);
    show("reopen for writing", open(reopened, O_WRONLY));
    return 0;
}
