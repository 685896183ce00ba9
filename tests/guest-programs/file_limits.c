/* Limits and seals: files that may not grow, memory files that may not change, memory that is locked. */
#include "case.h"
#include "process.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/vfs.h>

static volatile sig_atomic_t exceeded;

static void on_excess(int number)
{
    (void)number;
    exceeded++;
}

static void limit_files(unsigned long bytes)
{
    struct rlimit limit;

    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
}

CASE(files_grow_up_to_their_limit)
{
    struct sigaction action = { .sa_handler = on_excess }, old;
    char data[64] = "";
    int fd, other;

    scratch();
    exceeded = 0;
    sigaction(SIGXFSZ, &action, &old);
    MUST(fd = open("file", O_RDWR | O_CREAT, 0600));
    MUST(other = open("other", O_RDWR | O_CREAT, 0600));
    fflush(stdout);
    limit_files(100);
    long first = write(fd, data, 64), second = write(fd, data, 64), third = write(fd, data, 64);
    int third_error = errno;
    long inside = pwrite(fd, data, 10, 50), outside = pwrite(fd, data, 10, 200);
    int outside_error = errno;
    long longer = ftruncate(fd, 101);
    int longer_error = errno;
    long shorter = ftruncate(fd, 40), by_name = truncate("file", 1000), reserved = fallocate(fd, 0, 0, 200);
    long copied = copy_file_range(fd, NULL, other, &(off_t){ 90 }, 40, 0);
    limit_files(RLIM_INFINITY);
    number("first", first);
    number("second", second);
    errno = third_error;
    show("third", third);
    number("inside", inside);
    errno = outside_error;
    show("outside", outside);
    errno = longer_error;
    show("made longer", longer);
    number("made shorter", shorter);
    number("by name", by_name);
    number("reserved", reserved);
    truth("copied no further", copied <= 10);
    truth("signals", exceeded >= 4);
    sigaction(SIGXFSZ, &old, NULL);
}

CASE(writers_past_the_limit_die)
{
    int fd, status;
    pid_t child;

    scratch();
    MUST(fd = open("file", O_RDWR | O_CREAT, 0600));
    fflush(stdout);
    MUST(child = fork());
    if (child == 0) {
        struct rlimit none = { 0, 0 };

        setrlimit(RLIMIT_CORE, &none);
        signal(SIGXFSZ, SIG_DFL);
        limit_files(2);
        if (write(fd, "abc", 3) != 2)
            _exit(1);
        if (write(fd, "d", 1) < 0)
            _exit(2);
        _exit(0);
    }
    MUST(waitpid(child, &status, 0));
    truth("by SIGXFSZ", WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
    file_show("file");
}

CASE(seals_are_kept_and_obeyed)
{
    char data[4096] = "", *map;
    int fd, again;
    char path[64];

    MUST(fd = memfd_create("sealed", MFD_ALLOW_SEALING));
    show("none at first", fcntl(fd, F_GET_SEALS));
    MUST(write(fd, data, sizeof(data)));
    show("against shrinking", fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
    show("shrink", ftruncate(fd, 100));
    show("grow", ftruncate(fd, 8192));
    show("against growing", fcntl(fd, F_ADD_SEALS, F_SEAL_GROW));
    show("grow", ftruncate(fd, 9000));
    show("write at the end", pwrite(fd, data, 10, 8192));
    show("write inside", pwrite(fd, data, 10, 0));
    map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    show_ok("mapped", map == MAP_FAILED ? -1 : 0);
    show("against writing", fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    munmap(map, 4096);
    show("against writing", fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    show("write inside", pwrite(fd, data, 10, 0));
    show("map to write", mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0);
    show_ok("map privately", mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0) == MAP_FAILED ? -1 : 0);
    show("against seals", fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL));
    show("one more", fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    MUST(again = open(path, O_RDWR));
    number("seals of the file, opened again", fcntl(again, F_GET_SEALS));
    show("write there", write(again, data, 10));
}

CASE(unsealable_files)
{
    int fd, file;

    scratch();
    MUST(fd = memfd_create("plain", 0));
    number("seals", fcntl(fd, F_GET_SEALS));
    show("one more", fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    MUST(file = open("/dev/null", O_RDWR));
    show("of a device", fcntl(file, F_GET_SEALS));
}

static long locked_kilobytes(void)
{
    char line[256];
    long value = -1;
    FILE *file = fopen("/proc/self/status", "r");

    while (file && fgets(line, sizeof(line), file))
        sscanf(line, "VmLck: %ld", &value);
    if (file)
        fclose(file);
    return value;
}

CASE(locked_memory_counts)
{
    long page = sysconf(_SC_PAGESIZE);
    char *at = mmap(NULL, 8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    number("at first", locked_kilobytes());
    show("lock", mlock(at, 4 * page));
    number("locked", locked_kilobytes());
    show("lock a part again", mlock(at + 1, page));
    number("locked", locked_kilobytes());
    show("invalidate", msync(at, page, MS_INVALIDATE));
    show("invalidate the rest", msync(at + 4 * page, page, MS_INVALIDATE));
    show("discard", madvise(at, page, MADV_DONTNEED));
    show("discard the rest", madvise(at + 4 * page, page, MADV_DONTNEED));
    show("unlock", munlock(at + page, page));
    number("locked", locked_kilobytes());
    munmap(at, 2 * page);
    number("after munmap", locked_kilobytes());
    show("lock nothing", mlock(at, page));
    show("unlock all", munlockall());
    number("locked", locked_kilobytes());
    show("no such flag", mlockall(64));
    show("no flag", mlockall(0));
}

/* EFBIG on ext4, which is what guests are told that they have; other file systems have longer files. */
static int is_comparable;

static void show_length(const char *what, long ret)
{
    if (ret == -1 && errno == EFBIG)
        printf("%s: too long\n", what);
    else if (is_comparable || ret == -1)
        show(what, ret);
    else
        printf("%s: too long\n", what);
}

CASE(files_are_not_endless)
{
    static const long lengths[] = { 1L << 62, 1L << 44, (1L << 44) - 4095 };
    long longest = (1L << 44) - 4096;
    struct statfs about;
    int fd, memory;

    scratch();
    MUST(statfs(".", &about));
    is_comparable = about.f_type == 0xef53;
    MUST(fd = open("file", O_RDWR | O_CREAT, 0600));
    MUST(write(fd, "text", 4));
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        show_length("ftruncate", ftruncate(fd, lengths[i]));
        show_length("truncate", truncate("file", lengths[i]));
        show_length("fallocate", fallocate(fd, 0, lengths[i] - 4096, 4096));
        show_length("pwrite", pwrite(fd, "xy", 2, lengths[i]));
        show("pwrite of nothing", pwrite(fd, "xy", 0, lengths[i]));
        show("pread", pread(fd, &(char){ 0 }, 1, lengths[i]));
        show("size", lseek(fd, 0, SEEK_END));
    }
    if (is_comparable) {
        show("as long as can be", ftruncate(fd, longest));
        show("the last byte", pwrite(fd, "xy", 2, longest - 1));
        show("none behind it", pwrite(fd, "xy", 2, longest));
        show("cut again", ftruncate(fd, 4));
        show("seek", lseek(fd, longest, SEEK_SET));
        show("seek behind", lseek(fd, longest + 1, SEEK_SET));
    } else {
        printf("as long as can be = 0\nthe last byte = 1\nnone behind it = -1 EFBIG\ncut again = 0\n");
        printf("seek = %ld\nseek behind = -1 EINVAL\n", longest);
    }
    MUST(memory = memfd_create("memory", 0));
    show("memory", ftruncate(memory, 1L << 62));
    show("written there", pwrite(memory, "xy", 2, (1L << 62) - 4096));
}

/* A file that is longer than its limit can be cut to a length that is longer too. */
CASE(limits_are_for_growing)
{
    struct sigaction action = { .sa_handler = on_excess }, old;
    int fd;

    scratch();
    exceeded = 0;
    sigaction(SIGXFSZ, &action, &old);
    MUST(fd = open("file", O_RDWR | O_CREAT, 0600));
    MUST(ftruncate(fd, 1000));
    fflush(stdout);
    limit_files(100);
    long cut = ftruncate(fd, 500), by_name = truncate("file", 400), kept = ftruncate(fd, 400), grown = ftruncate(fd, 401);
    limit_files(RLIM_INFINITY);
    number("cut", cut);
    number("by name", by_name);
    number("kept", kept);
    number("grown", grown);
    number("signals", exceeded);
    sigaction(SIGXFSZ, &old, NULL);
}
