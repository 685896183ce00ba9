/*
 * Access times: when reading a file, a folder or a link moves them, as on a
 * mount with relatime, and when not.
 */
#include "case.h"

#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <sys/wait.h>

static struct timespec accessed(int fd)
{
    struct stat stat_of;

    MUST(fstat(fd, &stat_of));
    return stat_of.st_atim;
}

/* Waits for another tick of the clock that stamps files, does something and says whether that moved the file's access time. */
#define MOVES(what, fd, act)                                                            \
    do {                                                                                \
        struct timespec before = accessed(fd), after;                                   \
        nanosleep(&(struct timespec){ 0, 20000000 }, NULL);                             \
        act;                                                                            \
        after = accessed(fd);                                                           \
        truth(what, before.tv_sec != after.tv_sec || before.tv_nsec != after.tv_nsec);  \
    } while (0)

static int made(const char *name)
{
    int fd = MUST(open(name, O_RDWR | O_CREAT | O_TRUNC, 0644));

    MUST(write(fd, "text", 4));
    return fd;
}

CASE(files_that_are_read)
{
    char bytes[16];

    scratch();
    int fd = made("file");
    MOVES("read", fd, MUST(pread(fd, bytes, 1, 0)));
    MOVES("read again", fd, MUST(pread(fd, bytes, 1, 0)));
    MUST(write(fd, "x", 1));
    MOVES("read behind the end after a write", fd, MUST(pread(fd, bytes, 1, 100)));
    MUST(write(fd, "x", 1));
    MOVES("read of nothing", fd, MUST(pread(fd, bytes, 0, 0)));
    MOVES("vector", fd, MUST(preadv(fd, &(struct iovec){ bytes, 2 }, 1, 0)));
    MUST(fchmod(fd, 0600));
    MOVES("read after a change of mode", fd, MUST(pread(fd, bytes, 1, 0)));
    MUST(write(fd, "x", 1));
    int quiet = MUST(open("file", O_RDONLY | O_NOATIME));
    MOVES("by O_NOATIME", fd, MUST(pread(quiet, bytes, 1, 0)));
    MOVES("by another descriptor", fd, MUST(pread(fd, bytes, 1, 0)));
    MUST(write(fd, "x", 1));
    MOVES("advice", fd, posix_fadvise(fd, 0, 1, POSIX_FADV_WILLNEED));
    MOVES("seek", fd, MUST(lseek(fd, 0, SEEK_SET)));
}

CASE(files_that_are_mapped_and_moved)
{
    int pipes[2];
    loff_t at = 0;

    scratch();
    int fd = made("file"), other = made("other");
    MUST(pipe(pipes));
    MOVES("private mapping", fd, mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0));
    MUST(write(fd, "x", 1));
    MOVES("shared mapping", fd, mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0));
    MUST(write(fd, "x", 1));
    MOVES("splice", fd, MUST(splice(fd, &at, pipes[1], NULL, 1, 0)));
    MUST(write(fd, "x", 1));
    at = 0;
    MOVES("sendfile", fd, MUST(sendfile(other, fd, &at, 1)));
    MUST(write(fd, "x", 1));
    at = 0;
    MOVES("copy_file_range", fd, MUST(copy_file_range(fd, &at, other, NULL, 1, 0)));
}

CASE(times_that_were_set)
{
    struct timespec times[2] = { { 1000, 0 }, { 2000, 0 } };
    char byte;

    scratch();
    int fd = made("file");
    MUST(futimens(fd, times));
    MOVES("long ago", fd, MUST(pread(fd, &byte, 1, 0)));
    times[0].tv_sec = time(NULL) + 50 * 3600;
    MUST(futimens(fd, times));
    MOVES("in the future", fd, MUST(pread(fd, &byte, 1, 0)));
    times[0] = (struct timespec){ 0, UTIME_NOW };
    MUST(futimens(fd, times));
    nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
    MOVES("now", fd, MUST(pread(fd, &byte, 1, 0)));
    MOVES("now, again", fd, MUST(pread(fd, &byte, 1, 0)));
}

CASE(files_of_memory)
{
    char byte;
    int fd = MUST(memfd_create("memory", 0));

    MUST(write(fd, "text", 4));
    for (int i = 0; i < 3; i++)
        MOVES("read", fd, MUST(pread(fd, &byte, 1, 0)));
    MOVES("behind the end", fd, MUST(pread(fd, &byte, 1, 100)));
}

CASE(folders_and_links)
{
    char bytes[1024];

    scratch();
    MUST(mkdir("folder", 0755));
    int fd = MUST(open("folder", O_RDONLY | O_DIRECTORY));
    MOVES("opened", fd, close(MUST(open("folder", O_RDONLY))));
    MOVES("listed", fd, MUST(syscall(SYS_getdents64, fd, bytes, sizeof bytes)));
    MOVES("at its end", fd, MUST(syscall(SYS_getdents64, fd, bytes, sizeof bytes)));
    close(made("folder/file"));
    MUST(lseek(fd, 0, SEEK_SET));
    MOVES("listed after a change", fd, MUST(syscall(SYS_getdents64, fd, bytes, sizeof bytes)));
    MOVES("searched", fd, access("folder/file", F_OK));
    MUST(symlink("folder/file", "link"));
    int link = MUST(open("link", O_PATH | O_NOFOLLOW));
    MOVES("looked at", link, readlink("nothing", bytes, sizeof bytes));
    MOVES("a link is read", link, MUST(readlink("link", bytes, sizeof bytes)));
    MOVES("and read again", link, MUST(readlink("link", bytes, sizeof bytes)));
    MUST(unlink("link"));
    MUST(symlink("folder/file", "link"));
    link = MUST(open("link", O_PATH | O_NOFOLLOW));
    MOVES("a link is followed", link, MUST(access("link", F_OK)));
}

CASE(programs_that_are_executed)
{
    scratch();
    int fd = made("script");
    MUST(ftruncate(fd, 0));
    MUST(pwrite(fd, "#!/bin/true\n", 12, 0));
    MUST(fchmod(fd, 0755));
    close(fd);
    fd = MUST(open("script", O_RDONLY));
    MOVES("a script", fd, MUST(system("./script")));
}

CASE(named_pipes)
{
    struct stat before, after;
    char byte;

    scratch();
    MUST(mkfifo("pipe", 0600));
    int fd = MUST(open("pipe", O_RDWR));
    MUST(write(fd, "text", 4));
    MOVES("read", fd, MUST(read(fd, &byte, 1)));
    MOVES("read again", fd, MUST(read(fd, &byte, 1)));
    MUST(stat("pipe", &before));
    nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
    MUST(write(fd, "x", 1));
    MUST(stat("pipe", &after));
    truth("written", before.st_mtim.tv_sec != after.st_mtim.tv_sec || before.st_mtim.tv_nsec != after.st_mtim.tv_nsec);
    MOVES("read after that", fd, MUST(read(fd, &byte, 1)));
}
