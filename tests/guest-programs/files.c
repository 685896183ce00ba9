/*
 * Regular files through a descriptor: open flags, read and write in all their
 * forms, offsets, sizes, times, and the device files that every system has.
 */
#include "case.h"
#include <sys/xattr.h>

#include <sys/uio.h>

CASE(open_missing_file)
{
    scratch();
    show("open read", open("missing", O_RDONLY));
    show("open write", open("missing", O_WRONLY));
    show("open empty path", open("", O_RDONLY));
    show("open under missing", open("no/such/file", O_RDONLY | O_CREAT, 0644));
}

CASE(open_create_exclusive)
{
    scratch();
    show_ok("create", open("f", O_RDWR | O_CREAT | O_EXCL, 0644));
    show_ok("create again", open("f", O_RDWR | O_CREAT | O_EXCL, 0644));
    show_ok("create without excl", open("f", O_RDWR | O_CREAT, 0644));
    MUST(symlink("nowhere", "dangling"));
    show_ok("excl on dangling symlink", open("dangling", O_RDWR | O_CREAT | O_EXCL, 0644));
    show_ok("create through dangling symlink", open("dangling", O_RDWR | O_CREAT, 0644));
    show("target exists", access("nowhere", F_OK));
}

CASE(open_truncates)
{
    scratch();
    file_make("f", "a long first content");
    int fd = MUST(open("f", O_WRONLY | O_TRUNC));
    show("write", write(fd, "new", 3));
    MUST(close(fd));
    file_show("f");
}

CASE(open_append)
{
    scratch();
    file_make("f", "head");
    int fd = MUST(open("f", O_RDWR | O_APPEND));
    show("offset at start", lseek(fd, 0, SEEK_CUR));
    show("write", write(fd, "-one", 4));
    show("offset after write", lseek(fd, 0, SEEK_CUR));
    show("seek to 0", lseek(fd, 0, SEEK_SET));
    show("write", write(fd, "-two", 4));
    show("pwrite ignores offset", pwrite(fd, "-three", 6, 0));
    MUST(close(fd));
    file_show("f");
}

CASE(open_append_two_descriptors)
{
    scratch();
    int a = MUST(open("f", O_WRONLY | O_CREAT | O_APPEND, 0644));
    int b = MUST(open("f", O_WRONLY | O_APPEND));
    for (int i = 0; i < 3; i++) {
        MUST(write(a, "a", 1));
        MUST(write(b, "bb", 2));
    }
    file_show("f");
}

CASE(open_directory_flag)
{
    scratch();
    file_make("f", "");
    MUST(mkdir("d", 0755));
    show_ok("file with O_DIRECTORY", open("f", O_RDONLY | O_DIRECTORY));
    show_ok("directory with O_DIRECTORY", open("d", O_RDONLY | O_DIRECTORY));
    show_ok("directory for writing", open("d", O_WRONLY));
    show_ok("directory with O_CREAT", open("d", O_RDONLY | O_CREAT, 0644));
    show_ok("file as directory", open("f/x", O_RDONLY));
    show_ok("file with trailing slash", open("f/", O_RDONLY));
    show_ok("create with trailing slash", open("new/", O_RDWR | O_CREAT, 0644));
}

CASE(open_nofollow)
{
    scratch();
    file_make("f", "x");
    MUST(symlink("f", "link"));
    show_ok("follow", open("link", O_RDONLY));
    show_ok("O_NOFOLLOW", open("link", O_RDONLY | O_NOFOLLOW));
    show_ok("O_NOFOLLOW on a file", open("f", O_RDONLY | O_NOFOLLOW));
}

CASE(open_path_descriptor)
{
    scratch();
    file_make("f", "x");
    char byte;
    struct stat status;
    int fd = MUST(open("f", O_PATH));
    show("read", read(fd, &byte, 1));
    show("write", write(fd, "y", 1));
    show("lseek", lseek(fd, 0, SEEK_SET));
    show("fchmod", fchmod(fd, 0600));
    show("fstat", fstat(fd, &status));
    number("size", status.st_size);
    int dir = MUST(open(".", O_PATH | O_DIRECTORY));
    show_ok("openat under it", openat(dir, "f", O_RDONLY));
    show("fchdir", fchdir(dir));
}

CASE(open_path_of_symlink)
{
    scratch();
    MUST(symlink("target", "link"));
    struct stat status;
    char target[32];
    int fd = MUST(open("link", O_PATH | O_NOFOLLOW));
    MUST(fstat(fd, &status));
    truth("is a symlink", S_ISLNK(status.st_mode));
    show("readlinkat", readlinkat(fd, "", target, sizeof target));
}

CASE(openat_relative)
{
    scratch();
    MUST(mkdir("d", 0755));
    int dir = MUST(open("d", O_RDONLY | O_DIRECTORY));
    int fd = show_ok("create", openat(dir, "f", O_RDWR | O_CREAT, 0644));
    show("write", write(fd, "inside", 6));
    file_show("d/f");
    file_make("plain", "");
    int plain = MUST(open("plain", O_RDONLY));
    show_ok("relative to a file", openat(plain, "f", O_RDONLY));
    show_ok("relative to bad descriptor", openat(999, "f", O_RDONLY));
    char absolute[PATH_LIMIT];
    MUST(getcwd(absolute, sizeof absolute - 8) ? 0 : -1);
    strcat(absolute, "/d/f");
    show_ok("absolute with bad descriptor", openat(999, absolute, O_RDONLY));
    show_ok("AT_FDCWD", openat(AT_FDCWD, "d/f", O_RDONLY));
}

CASE(open_long_names)
{
    scratch();
    char name[300];
    static char path[5000];
    memset(name, 'n', sizeof name);
    name[255] = 0;
    show_ok("255 bytes", open(name, O_RDWR | O_CREAT, 0644));
    name[255] = 'n';
    name[256] = 0;
    show_ok("256 bytes", open(name, O_RDWR | O_CREAT, 0644));
    for (int i = 0; i < 4998; i += 2)
        memcpy(path + i, "./", 2);
    show_ok("path of 4998 bytes", open(path, O_RDONLY));
    path[4094] = 0;
    show_ok("path of 4094 bytes", open(path, O_RDONLY));
}

CASE(access_modes_of_descriptors)
{
    scratch();
    file_make("f", "content");
    char byte;
    int reader = MUST(open("f", O_RDONLY));
    int writer = MUST(open("f", O_WRONLY));
    show("write to reader", write(reader, "x", 1));
    show("read from writer", read(writer, &byte, 1));
    show("ftruncate reader", ftruncate(reader, 0));
    show("pread from writer", pread(writer, &byte, 1, 0));
    show("pwrite to reader", pwrite(reader, "x", 1, 0));
}

CASE(read_to_end)
{
    scratch();
    file_make("f", "0123456789");
    char data[16];
    int fd = MUST(open("f", O_RDONLY));
    show("read 4", read(fd, data, 4));
    bytes("data", data, 4);
    show("read 16", read(fd, data, 16));
    bytes("data", data, 6);
    show("read at end", read(fd, data, 16));
    show("read 0", read(fd, data, 0));
    show("read far beyond", pread(fd, data, 16, 1000000));
}

CASE(read_directory_descriptor)
{
    scratch();
    char data[16];
    int fd = MUST(open(".", O_RDONLY));
    show("read", read(fd, data, sizeof data));
    show("write", write(fd, data, 1));
    show("ftruncate", ftruncate(fd, 0));
}

CASE(pread_pwrite_keep_offset)
{
    scratch();
    char data[8] = "";
    int fd = MUST(open("f", O_RDWR | O_CREAT, 0644));
    show("pwrite at 5", pwrite(fd, "abc", 3, 5));
    show("offset", lseek(fd, 0, SEEK_CUR));
    show("write", write(fd, "XY", 2));
    show("offset", lseek(fd, 0, SEEK_CUR));
    show("pread", pread(fd, data, 8, 0));
    bytes("data", data, 8);
    show("pread negative", pread(fd, data, 1, -1));
    show("pwrite negative", pwrite(fd, data, 1, -1));
}

CASE(readv_writev)
{
    scratch();
    char a[3], b[4], c[8];
    struct iovec out[] = { { "one", 3 }, { "", 0 }, { "two-", 4 }, { "three", 5 } };
    struct iovec in[] = { { a, sizeof a }, { b, sizeof b }, { c, sizeof c } };
    int fd = MUST(open("f", O_RDWR | O_CREAT, 0644));
    show("writev", writev(fd, out, 4));
    MUST(lseek(fd, 0, SEEK_SET));
    show("readv", readv(fd, in, 3));
    bytes("a", a, 3);
    bytes("b", b, 4);
    bytes("c", c, 5);
    show("writev of none", writev(fd, out, 0));
    show("writev of -1", syscall(SYS_writev, fd, out, -1));
    show("writev of 1025", syscall(SYS_writev, fd, out, 1025));
    struct iovec huge[] = { { a, (size_t)1 << 63 } };
    show("writev of huge length", writev(fd, huge, 1));
}

CASE(preadv_pwritev)
{
    scratch();
    char a[3], b[4];
    struct iovec out[] = { { "abc", 3 }, { "defg", 4 } };
    struct iovec in[] = { { a, sizeof a }, { b, sizeof b } };
    int fd = MUST(open("f", O_RDWR | O_CREAT, 0644));
    show("pwritev", pwritev(fd, out, 2, 2));
    show("preadv", preadv(fd, in, 2, 1));
    bytes("a", a, 3);
    bytes("b", b, 4);
    show("preadv near end", preadv(fd, in, 2, 7));
    bytes("a", a, 2);
    show("preadv2 at the offset", preadv2(fd, in, 2, -1, 0));
    show("offset", lseek(fd, 0, SEEK_CUR));
}

CASE(lseek_positions)
{
    scratch();
    file_make("f", "0123456789");
    char byte = 0;
    int fd = MUST(open("f", O_RDWR));
    show("set 3", lseek(fd, 3, SEEK_SET));
    show("cur +2", lseek(fd, 2, SEEK_CUR));
    MUST(read(fd, &byte, 1));
    bytes("byte", &byte, 1);
    show("end -1", lseek(fd, -1, SEEK_END));
    show("end +100", lseek(fd, 100, SEEK_END));
    show("before start", lseek(fd, -1, SEEK_SET));
    show("offset unchanged", lseek(fd, 0, SEEK_CUR));
    show("bad whence", lseek(fd, 0, 77));
    show("cur underflow", lseek(fd, -1000, SEEK_CUR));
}

CASE(write_beyond_end_leaves_zeros)
{
    scratch();
    char data[12];
    int fd = MUST(open("f", O_RDWR | O_CREAT, 0644));
    MUST(write(fd, "ab", 2));
    show("seek", lseek(fd, 8, SEEK_SET));
    show("write", write(fd, "cd", 2));
    show("pread", pread(fd, data, sizeof data, 0));
    bytes("data", data, 10);
}

CASE(truncate_and_extend)
{
    scratch();
    file_make("f", "0123456789");
    struct stat status;
    show("truncate", truncate("f", 4));
    file_show("f");
    int fd = MUST(open("f", O_RDWR));
    show("ftruncate", ftruncate(fd, 8));
    file_show("f");
    MUST(fstat(fd, &status));
    number("size", status.st_size);
    show("ftruncate negative", ftruncate(fd, -1));
    show("truncate missing", truncate("missing", 0));
    show("truncate directory", truncate(".", 0));
}

CASE(fallocate_sizes)
{
    scratch();
    struct stat status;
    int fd = MUST(open("f", O_RDWR | O_CREAT, 0644));
    show("fallocate", fallocate(fd, 0, 0, 10000));
    MUST(fstat(fd, &status));
    number("size", status.st_size);
    show("fallocate keep size", fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 50000));
    MUST(fstat(fd, &status));
    number("size", status.st_size);
    show("length 0", fallocate(fd, 0, 0, 0));
    show("negative offset", fallocate(fd, 0, -1, 10));
    show_error("posix_fallocate", posix_fallocate(fd, 0, 20000));
    MUST(fstat(fd, &status));
    number("size", status.st_size);
}

CASE(fsync_family)
{
    scratch();
    int fd = MUST(open("f", O_RDWR | O_CREAT, 0644));
    int ends[2];
    MUST(write(fd, "x", 1));
    show("fsync", fsync(fd));
    show("fdatasync", fdatasync(fd));
    MUST(pipe(ends));
    show("fsync pipe", fsync(ends[0]));
    show("fsync bad", fsync(999));
    show_error("posix_fadvise", posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL));
}

CASE(fstat_of_a_file)
{
    scratch();
    file_make("f", "12345");
    struct stat by_fd, by_path;
    int fd = MUST(open("f", O_RDONLY));
    show("fstat", fstat(fd, &by_fd));
    show("stat", stat("f", &by_path));
    truth("regular", S_ISREG(by_fd.st_mode));
    number("size", by_fd.st_size);
    number("links", by_fd.st_nlink);
    number("mode (octal digits as decimal)", (by_fd.st_mode >> 6 & 7) * 100 + (by_fd.st_mode >> 3 & 7) * 10 + (by_fd.st_mode & 7));
    truth("same inode", by_fd.st_ino == by_path.st_ino && by_fd.st_dev == by_path.st_dev);
    truth("own file", by_fd.st_uid == geteuid());
    truth("block size positive", by_fd.st_blksize > 0);
}

CASE(statx_fields)
{
    scratch();
    file_make("f", "1234567");
    MUST(symlink("f", "link"));
    struct statx status;
    memset(&status, 0, sizeof status);
    show("statx", statx(AT_FDCWD, "f", 0, STATX_BASIC_STATS, &status));
    number("size", status.stx_size);
    number("links", status.stx_nlink);
    truth("regular", S_ISREG(status.stx_mode));
    truth("mask holds basic", (status.stx_mask & STATX_BASIC_STATS) == STATX_BASIC_STATS);
    show("statx nofollow", statx(AT_FDCWD, "link", AT_SYMLINK_NOFOLLOW, STATX_TYPE, &status));
    truth("symlink", S_ISLNK(status.stx_mode));
    int fd = MUST(open("f", O_RDONLY));
    show("statx of descriptor", statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &status));
    number("size", status.stx_size);
    show("statx missing", statx(AT_FDCWD, "missing", 0, STATX_SIZE, &status));
    show("statx empty path", statx(AT_FDCWD, "", 0, STATX_SIZE, &status));
    show("statx bad flags", statx(AT_FDCWD, "f", 0x40000000, STATX_SIZE, &status));
}

CASE(unlinked_file_lives_on)
{
    scratch();
    char data[8];
    struct stat status;
    int fd = MUST(open("f", O_RDWR | O_CREAT, 0644));
    MUST(write(fd, "alive", 5));
    show("unlink", unlink("f"));
    show("stat by name", stat("f", &status));
    show("fstat", fstat(fd, &status));
    number("links", status.st_nlink);
    show("pread", pread(fd, data, sizeof data, 0));
    bytes("data", data, 5);
    show("write", write(fd, "!", 1));
}

CASE(renamed_file_stays_open)
{
    scratch();
    int fd = MUST(open("a", O_RDWR | O_CREAT, 0644));
    show("rename", rename("a", "b"));
    show("write", write(fd, "content", 7));
    file_show("b");
    file_show("a");
}

CASE(two_opens_have_two_offsets)
{
    scratch();
    file_make("f", "abcdef");
    char data[3];
    int a = MUST(open("f", O_RDONLY));
    int b = MUST(open("f", O_RDWR));
    MUST(read(a, data, 3));
    show("offset of a", lseek(a, 0, SEEK_CUR));
    show("offset of b", lseek(b, 0, SEEK_CUR));
    MUST(write(b, "ABCDEF", 6));
    MUST(read(a, data, 3));
    bytes("a sees b's write", data, 3);
}

CASE(utimensat_times)
{
    scratch();
    file_make("f", "");
    struct stat status;
    struct timespec times[2] = { { 1000000000, 5 }, { 1100000000, 123456000 } };
    show("utimensat", utimensat(AT_FDCWD, "f", times, 0));
    MUST(stat("f", &status));
    number("atime", status.st_atim.tv_sec);
    number("mtime", status.st_mtim.tv_sec);
    number("mtime ns", status.st_mtim.tv_nsec);
    times[0].tv_nsec = UTIME_OMIT;
    times[1].tv_sec = 1200000000;
    int fd = MUST(open("f", O_WRONLY));
    show("futimens", futimens(fd, times));
    MUST(stat("f", &status));
    number("atime", status.st_atim.tv_sec);
    number("mtime", status.st_mtim.tv_sec);
    times[1].tv_nsec = 1000000000;
    show("bad nanoseconds", futimens(fd, times));
    show("missing", utimensat(AT_FDCWD, "missing", times, 0));
}

CASE(times_before_1970)
{
    scratch();
    file_make("f", "");
    struct stat status;
    struct timespec times[2] = { { -1, 5 }, { -14245441, 750000000 } };
    struct timeval old[2] = { { -3600, 999999 }, { 0, 0 } };
    show("utimensat", utimensat(AT_FDCWD, "f", times, 0));
    MUST(stat("f", &status));
    number("atime", status.st_atim.tv_sec);
    number("atime ns", status.st_atim.tv_nsec);
    number("mtime", status.st_mtim.tv_sec);
    number("mtime ns", status.st_mtim.tv_nsec);
    show("utimes", utimes("f", old));
    MUST(stat("f", &status));
    number("atime", status.st_atim.tv_sec);
    number("atime ns", status.st_atim.tv_nsec);
    number("mtime", status.st_mtim.tv_sec);
    old[1].tv_usec = 1000000;
    show("bad microseconds", utimes("f", old));
}

CASE(large_file_checksum)
{
    scratch();
    enum { CHUNK = 10007, ROUNDS = 100 };
    static char chunk[CHUNK];
    uint64_t written = CHECKSUM_START, read_back = CHECKSUM_START;
    int fd = MUST(open("f", O_RDWR | O_CREAT, 0644));
    for (int i = 0; i < ROUNDS; i++) {
        fill_pattern(chunk, CHUNK, i);
        written = checksum(written, chunk, CHUNK);
        MUST(write(fd, chunk, CHUNK));
    }
    show("size", lseek(fd, 0, SEEK_END));
    MUST(lseek(fd, 0, SEEK_SET));
    for (long n; (n = MUST(read(fd, chunk, 4096))) > 0;)
        read_back = checksum(read_back, chunk, n);
    truth("same content", written == read_back);
}

CASE(sparse_file_beyond_4_gib)
{
    scratch();
    struct stat status;
    char byte = 1;
    int fd = MUST(open("f", O_RDWR | O_CREAT, 0644));
    show("pwrite", pwrite(fd, "x", 1, 5000000000));
    MUST(fstat(fd, &status));
    number("size", status.st_size);
    show("pread hole", pread(fd, &byte, 1, 4000000000));
    number("byte", byte);
    show("seek", lseek(fd, 0, SEEK_END));
    show("ftruncate", ftruncate(fd, 0));
}

CASE(stdio_round_trip)
{
    scratch();
    char line[64];
    FILE *file = fopen("f", "w+");
    if (!file)
        case_give_up("fopen", errno);
    for (int i = 0; i < 1000; i++)
        fprintf(file, "line %d\n", i);
    number("ftell", ftell(file));
    rewind(file);
    int count = 0;
    while (fgets(line, sizeof line, file))
        count++;
    number("lines", count);
    text("last", line);
    number("fseek", fseek(file, -9, SEEK_END));
    text("tail", fgets(line, sizeof line, file));
    number("fclose", fclose(file));
}

CASE(device_null)
{
    char data[8] = "data";
    struct stat status;
    int fd = show_ok("open", open("/dev/null", O_RDWR));
    show("write", write(fd, data, 8));
    show("read", read(fd, data, 8));
    show("fstat", fstat(fd, &status));
    truth("character device", S_ISCHR(status.st_mode));
    show("lseek", lseek(fd, 100, SEEK_SET));
}

CASE(device_zero)
{
    char data[64];
    memset(data, 'x', sizeof data);
    int fd = show_ok("open", open("/dev/zero", O_RDWR));
    show("read", read(fd, data, sizeof data));
    int sum = 0;
    for (size_t i = 0; i < sizeof data; i++)
        sum += data[i];
    number("sum", sum);
    show("write", write(fd, data, 10));
}

/* Who guards against links on the way opens a directory and goes on from there by its descriptor's link. */
CASE(descriptors_links_are_ways)
{
    scratch();
    MUST(mkdir("d", 0755));
    file_make("d/f", "content");
    file_make("plain", "content");
    char name[64], other[64], told[64];
    struct stat status;
    static const int flags[] = { O_PATH | O_DIRECTORY, O_RDONLY | O_DIRECTORY, O_PATH };
    for (size_t i = 0; i < COUNT_OF(flags); i++) {
        int dir = MUST(open("d", flags[i]));
        snprintf(name, sizeof name, "/proc/self/fd/%d/f", dir);
        snprintf(other, sizeof other, "/dev/fd/%d/new", dir);
        show("open", open(name, O_RDONLY) < 0 ? -1 : 0);
        show("stat", stat(name, &status));
        show("access", access(name, W_OK));
        show("create", open(other, O_CREAT | O_EXCL | O_RDWR, 0600) < 0 ? -1 : 0);
        show("rename", rename(other, "d/renamed"));
        show("unlink", unlink("d/renamed"));
        show("mkdir", mkdir(other, 0700));
        show("rmdir", rmdir(other));
        show("symlink", symlink("f", other));
        show("readlink", readlink(other, told, sizeof told));
        show("unlink", unlink(other));
        show("link", link(name, other));
        show("unlink", unlink(other));
        snprintf(name, sizeof name, "/proc/self/fd/%d/../plain", dir);
        show("its parent", stat(name, &status));
        snprintf(name, sizeof name, "/proc/self/fd/%d/f/x", dir);
        show("below a file", stat(name, &status));
        snprintf(name, sizeof name, "/proc/self/fd/%d", dir);
        show("lstat", lstat(name, &status));
        truth("is link", S_ISLNK(status.st_mode));
        show("chdir", chdir(name));
        show("there", access("f", F_OK));
        show("back", chdir(".."));
        close(dir);
    }
    int file = MUST(open("plain", O_RDONLY));
    snprintf(name, sizeof name, "/proc/self/fd/%d/x", file);
    show("through a file", stat(name, &status));
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    show("no rename out of /proc", rename(name, "moved"));
    show("setxattr", setxattr(name, "user.a", "1", 1, 0));
    show("getxattr", getxattr("plain", "user.a", told, sizeof told));
    show("removexattr", removexattr(name, "user.a"));
    MUST(unlink("plain"));
    show("chmod without a name", chmod(name, 0604));
    MUST(fstat(file, &status));
    printf("mode: %04o\n", status.st_mode & 07777);
    int gone = MUST(open("d", O_RDONLY | O_DIRECTORY));
    MUST(unlink("d/f"));
    MUST(rmdir("d"));
    snprintf(name, sizeof name, "/proc/self/fd/%d/f", gone);
    show("through a directory that is gone", stat(name, &status));
}

/* Samba, systemd and container runtimes hold names by O_PATH and open, change or look at them by these later. */
CASE(path_descriptors_lead_on)
{
    char name[64];
    scratch();
    MUST(close(MUST(open("f", O_CREAT | O_RDWR, 0600))));
    int fd = MUST(open("f", O_PATH));
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    show("read and write", open(name, O_RDWR) < 0 ? -1 : 0);
    show("cut off", open(name, O_WRONLY | O_TRUNC) < 0 ? -1 : 0);
    show("create", open(name, O_RDWR | O_CREAT, 0600) < 0 ? -1 : 0);
    struct stat status;
    show("chmod", chmod(name, 0640));
    show("truncate", truncate(name, 3));
    MUST(stat("f", &status));
    printf("%o, %d bytes\n", status.st_mode, (int)status.st_size);
    show("directory", open(name, O_RDONLY | O_DIRECTORY));
    show("no link", open(name, O_RDONLY | O_NOFOLLOW));
    show("no link, name", open(name, O_PATH | O_NOFOLLOW) < 0 ? -1 : 0);
    int dir = MUST(open(".", O_PATH | O_DIRECTORY));
    snprintf(name, sizeof(name), "/proc/self/fd/%d", dir);
    show("folder", open(name, O_RDONLY | O_DIRECTORY) < 0 ? -1 : 0);
    show("folder, write", open(name, O_RDWR));
    show("fchownat", fchownat(fd, "", getuid(), getgid(), AT_EMPTY_PATH));
    show("fchown", fchown(fd, getuid(), getgid()));
    show("utimensat", utimensat(fd, "", NULL, AT_EMPTY_PATH));
    show("futimens", futimens(fd, NULL));
}

/* cp and tar leave holes out where a file has fewer blocks than its size. */
CASE(holes_take_no_blocks)
{
    scratch();
    struct stat status;
    char data[8192];
    memset(data, 'x', sizeof data);
    int fd = MUST(open("f", O_CREAT | O_RDWR, 0600));
    MUST(ftruncate(fd, 1 << 20));
    MUST(fstat(fd, &status));
    number("blocks of a hole", status.st_blocks);
    show("write", pwrite(fd, data, sizeof data, 512 << 10));
    MUST(fstat(fd, &status));
    truth("two pages at least", status.st_blocks >= 16);
    truth("most is a hole", status.st_blocks < 1024);
    MUST(stat("f", &status));
    truth("by name, too", status.st_blocks >= 16 && status.st_blocks < 1024);
    show("first data", lseek(fd, 0, SEEK_DATA));
    MUST(ftruncate(fd, 0));
    MUST(lseek(fd, 0, SEEK_SET));
    for (int i = 0; i < 16; i++)
        MUST(write(fd, data, sizeof data));
    MUST(fstat(fd, &status));
    truth("no hole", status.st_blocks * 512 >= status.st_size);
}

static struct stat stat_of(int fd)
{
    struct stat status;
    MUST(fstat(fd, &status));
    return status;
}

static int is_later(struct timespec time, struct timespec than)
{
    return time.tv_sec > than.tv_sec || (time.tv_sec == than.tv_sec && time.tv_nsec > than.tv_nsec);
}

CASE(an_open_file_outlives_names_that_go_in_their_order)
{
    char value[4];
    scratch();
    int fd = MUST(open("first", O_CREAT | O_RDWR, 0644));
    int attributes = fsetxattr(fd, "user.kept", "1", 1, 0) == 0;
    MUST(link("first", "second"));
    struct timespec times[2] = { { 1000, 0 }, { 2000, 0 } };
    MUST(futimens(fd, times));
    struct stat before = stat_of(fd);
    MUST(unlink("first"));
    MUST(unlink("second"));
    struct stat after = stat_of(fd);
    truth("same inode", before.st_ino == after.st_ino);
    number("names", after.st_nlink);
    number("modified", after.st_mtime);
    truth("attribute", !attributes || fgetxattr(fd, "user.kept", value, sizeof value) == 1);
    int other = MUST(open("third", O_CREAT | O_RDWR, 0644));
    truth("another file is another", stat_of(other).st_ino != after.st_ino);
}

CASE(two_open_files_of_a_file_without_a_name)
{
    scratch();
    int one = MUST(open("f", O_CREAT | O_RDWR, 0640));
    int two = MUST(open("f", O_RDONLY));
    struct stat before = stat_of(two);
    MUST(unlink("f"));
    MUST(close(one));
    struct stat after = stat_of(two);
    truth("same inode", before.st_ino == after.st_ino);
    number("mode", after.st_mode & 0777);
}

CASE(a_lost_name_is_a_change)
{
    scratch();
    MUST(close(MUST(open("a", O_CREAT | O_RDWR, 0644))));
    MUST(link("a", "b"));
    int fd = MUST(open("a", O_RDONLY));
    struct stat before, unlinked, middle, replaced;
    MUST(stat("a", &before));
    sleep_ms(20);
    MUST(unlink("b"));
    MUST(stat("a", &unlinked));
    truth("by unlink", is_later(unlinked.st_ctim, before.st_ctim));
    MUST(link("a", "c"));
    MUST(close(MUST(open("x", O_CREAT | O_RDWR, 0644))));
    MUST(stat("a", &middle));
    sleep_ms(20);
    MUST(rename("x", "c"));
    MUST(stat("a", &replaced));
    truth("by rename over it", is_later(replaced.st_ctim, middle.st_ctim));
    truth("contents did not change", replaced.st_mtim.tv_sec == before.st_mtim.tv_sec && replaced.st_mtim.tv_nsec == before.st_mtim.tv_nsec);
    sleep_ms(20);
    MUST(unlink("a"));
    truth("the last one", is_later(stat_of(fd).st_ctim, replaced.st_ctim));
    number("names", stat_of(fd).st_nlink);
}

CASE(device_full)
{
    char data[16];
    memset(data, 'x', sizeof data);
    int fd = show_ok("open", open("/dev/full", O_RDWR));
    show("write", write(fd, "x", 1));
    show("read", read(fd, data, sizeof data));
    number("byte", data[15]);
}

CASE(device_urandom)
{
    unsigned char a[64], b[64];
    int fd = show_ok("open", open("/dev/urandom", O_RDONLY));
    show("read", read(fd, a, sizeof a));
    show("read", read(fd, b, sizeof b));
    truth("different", memcmp(a, b, sizeof a) != 0);
    int random = show_ok("open /dev/random", open("/dev/random", O_RDONLY));
    show("read", read(random, a, 16));
}

CASE(standard_input_is_empty)
{
    char byte;
    show("read", read(0, &byte, 1));
}
