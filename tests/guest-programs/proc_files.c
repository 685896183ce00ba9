/*
 * What /proc and /sys tell a process of itself and of its machine: forms,
 * relations to what the calls say, and what can be written.
 */
#include "case.h"

#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>

/* Reads a file; its content lives until the next call. */
static char *content(const char *path)
{
    static char data[65536];
    int fd = open(path, O_RDONLY);
    long length = 0, got;

    if (fd == -1) {
        printf("%s: %s\n", path, errno_name(errno));
        data[0] = 0;
        return data;
    }
    while (length < (long)sizeof data - 1 && (got = read(fd, data + length, sizeof data - 1 - length)) > 0)
        length += got;
    close(fd);
    data[length] = 0;
    return data;
}

/* The rest of the first line that begins with `name`; empty when there is none. */
static const char *field(const char *text, const char *name)
{
    static char rest[256];
    const char *line = text;

    rest[0] = 0;
    while (line) {
        if (!strncmp(line, name, strlen(name))) {
            line += strlen(name) + strspn(line + strlen(name), " \t");
            snprintf(rest, sizeof rest, "%.*s", (int)strcspn(line, "\n"), line);
            break;
        }
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return rest;
}

static long field_number(const char *text, const char *name)
{
    const char *value = field(text, name);

    return *value ? strtol(value, NULL, 0) : -1;
}

static char *map_pages(size_t bytes, int rights)
{
    char *at = mmap(NULL, bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        printf("mmap: %s\n", errno_name(errno));
    return at;
}

CASE(status_agrees_with_calls)
{
    char *status = content("/proc/self/status");

    truth("Pid", field_number(status, "Pid:") == getpid());
    truth("Tgid", field_number(status, "Tgid:") == getpid());
    truth("PPid", field_number(status, "PPid:") == getppid());
    truth("Uid", field_number(status, "Uid:") == (long)getuid());
    truth("Gid", field_number(status, "Gid:") == (long)getgid());
    number("Threads", field_number(status, "Threads:"));
    number("TracerPid", field_number(status, "TracerPid:"));
    text("Umask", field(status, "Umask:"));
    text("State", field(status, "State:"));
    truth("VmSize", field_number(status, "VmSize:") > 0);
    truth("VmRSS", field_number(status, "VmRSS:") > 0);
    truth("RSS is part of the size", field_number(status, "VmRSS:") <= field_number(status, "VmSize:"));
    truth("VmPeak", field_number(status, "VmPeak:") >= field_number(status, "VmSize:"));
    truth("VmStk", field_number(status, "VmStk:") > 0);
    truth("VmExe", field_number(status, "VmExe:") > 0);
    number("VmSwap", field_number(status, "VmSwap:"));
    truth("CapEff", *field(status, "CapEff:") != 0);
    truth("Cpus_allowed_list", *field(status, "Cpus_allowed_list:") != 0);
    truth("voluntary_ctxt_switches", field_number(status, "voluntary_ctxt_switches:") >= 0);
}

CASE(status_counts_threads_and_signals)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGUSR2, SIG_IGN);
    raise(SIGUSR1);
    char *status = content("/proc/self/status");
    text("SigBlk", field(status, "SigBlk:"));
    truth("SigIgn", strtoull(field(status, "SigIgn:"), NULL, 16) >> (SIGUSR2 - 1) & 1);
    truth("SigPnd", strtoull(field(status, "SigPnd:"), NULL, 16) >> (SIGUSR1 - 1) & 1);
    signal(SIGUSR1, SIG_IGN);
}

CASE(stat_has_52_fields)
{
    char *stat = content("/proc/self/stat");
    char *end = strrchr(stat, ')');
    int fields = 2;

    truth("name in parentheses", end && strchr(stat, '('));
    for (char *part = strtok(end + 1, " \n"); part; part = strtok(NULL, " \n")) {
        fields++;
        if (fields == 3)
            text("state", part);
        if (fields == 4)
            truth("parent", atoi(part) == getppid());
        if (fields == 5)
            truth("group", atoi(part) == getpgrp());
        if (fields == 20)
            text("threads", part);
        if (fields == 23)
            truth("size", atol(part) > 0);
        if (fields == 24)
            truth("resident", atol(part) > 0);
    }
    number("fields", fields);
}

CASE(statm_is_in_pages)
{
    long size = 0, resident = 0, shared = 0, code = 0, library = 9, data = 0, dirty = 9;
    number("numbers", sscanf(content("/proc/self/statm"), "%ld %ld %ld %ld %ld %ld %ld", &size, &resident, &shared, &code, &library, &data, &dirty));
    truth("resident is part of it", resident > 0 && resident <= size);
    truth("shared is part of that", shared >= 0 && shared <= resident);
    truth("code and data", code > 0 && data > 0);
    printf("obsolete: %ld %ld\n", library, dirty);
}

CASE(maps_show_where_things_are)
{
    static int writable = 1;
    static const int constant = 1;
    int local = 1;
    void *places[] = { &writable, (void *)&constant, &local, (void *)(uintptr_t)strtok };
    char *maps = content("/proc/self/maps");
    char rights[COUNT_OF(places)][5] = { "" };

    for (char *line = strtok(maps, "\n"); line; line = strtok(NULL, "\n")) {
        unsigned long start, end;
        char protection[5];
        if (sscanf(line, "%lx-%lx %4s", &start, &end, protection) != 3)
            printf("odd line: %s\n", line);
        for (size_t i = 0; i < COUNT_OF(places); i++)
            if ((unsigned long)places[i] >= start && (unsigned long)places[i] < end)
                strcpy(rights[i], protection);
    }
    text("data", rights[0]);
    text("constants can be read", rights[1][0] == 'r' ? "r" : rights[1]);
    text("stack", rights[2]);
    truth("code can be executed", rights[3][2] == 'x');
}

CASE(smaps_and_their_sum)
{
    long sum = 0, lines = 0;
    char *smaps = content("/proc/self/smaps");

    for (char *line = smaps; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (!strncmp(line, "Rss:", 4)) {
            sum += strtol(line + 4, NULL, 10);
            lines++;
        }
    truth("each mapping has one", lines > 3 && sum > 0);
    char *rollup = content("/proc/self/smaps_rollup");
    truth("rollup", strstr(rollup, "[rollup]\n") != NULL);
    truth("Rss", field_number(rollup, "Rss:") > 0);
    truth("Pss", field_number(rollup, "Pss:") > 0);
    truth("Private_Dirty", field_number(rollup, "Private_Dirty:") > 0);
    number("Swap", field_number(rollup, "Swap:"));
}

CASE(comm_can_be_written)
{
    char name[17] = "";
    int fd = MUST(open("/proc/self/comm", O_RDWR));
    show("write", write(fd, "renamed\n", 8));
    close(fd);
    prctl(PR_GET_NAME, name);
    text("name", name);
    fd = MUST(open("/proc/self/comm", O_WRONLY));
    show("write too long", write(fd, "a-name-that-is-much-too-long", 28));
    close(fd);
    text("comm", content("/proc/self/comm"));
    text("status", field(content("/proc/self/status"), "Name:"));
}

static void *named_thread(void *argument)
{
    char path[64];
    int fd;

    (void)argument;
    snprintf(path, sizeof path, "/proc/self/task/%ld/comm", (long)syscall(SYS_gettid));
    fd = MUST(open(path, O_WRONLY));
    show("write", write(fd, "worker", 6));
    close(fd);
    text("thread-self", content("/proc/thread-self/comm"));
    text("by number", content(path));
    return NULL;
}

CASE(threads_have_names_of_their_own)
{
    MUST(prctl(PR_SET_NAME, "main"));
    thread_join(thread_start(named_thread, NULL));
    text("main", content("/proc/self/comm"));
}

CASE(oom_scores_can_be_raised)
{
    int fd = MUST(open("/proc/self/oom_score_adj", O_RDWR));
    show("write", write(fd, "500", 3));
    close(fd);
    text("read", content("/proc/self/oom_score_adj"));
    fd = MUST(open("/proc/self/oom_score_adj", O_RDWR));
    show("too much", write(fd, "1001", 4));
    show("no number", write(fd, "x", 1));
    show("more", write(fd, "600\n", 4));
    close(fd);
    text("read", content("/proc/self/oom_score_adj"));
}

CASE(fdinfo_shows_positions_and_flags)
{
    char path[64];
    scratch();
    int fd = MUST(open("file", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    MUST(write(fd, "0123456789", 10));
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    char *info = content(path);
    number("pos", field_number(info, "pos:"));
    printf("flags: %lo\n", strtol(field(info, "flags:"), NULL, 8));
    MUST(fcntl(fd, F_SETFD, 0));
    MUST(lseek(fd, 3, SEEK_SET));
    info = content(path);
    number("pos", field_number(info, "pos:"));
    printf("flags: %lo\n", strtol(field(info, "flags:"), NULL, 8));
    truth("mnt_id", field_number(info, "mnt_id:") > 0);
    close(fd);
    show("closed", open(path, O_RDONLY));
}

CASE(descriptors_are_listed)
{
    int expected = MUST(dup2(0, 50)), found = 0;
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        found |= atoi(entry->d_name) == expected;
    if (dir)
        closedir(dir);
    truth("there", found);
    found = 0;
    dir = opendir("/proc/self/fdinfo");
    while (dir && (entry = readdir(dir)))
        found |= atoi(entry->d_name) == expected;
    if (dir)
        closedir(dir);
    truth("there too", found);
}

CASE(children_are_listed)
{
    char path[64];
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0) {
        pause();
        _exit(0);
    }
    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    truth("it is the one", atoi(content(path)) == child);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    text("then none", content(path));
}

CASE(links_of_a_process)
{
    static const char *links[] = { "/proc/self/cwd", "/proc/self/root", "/proc/self/exe", "/proc/self/ns/net", "/proc/self/ns/pid" };
    char target[PATH_LIMIT], cwd[PATH_LIMIT];

    MUST(getcwd(cwd, sizeof cwd) ? 0 : -1);
    for (size_t i = 0; i < COUNT_OF(links); i++) {
        long length = readlink(links[i], target, sizeof target - 1);
        target[length > 0 ? length : 0] = 0;
        if (i == 0)
            truth("cwd", !strcmp(target, cwd));
        else if (i == 1)
            text("root", target);
        else if (i == 2)
            truth("exe", target[0] == '/' && strstr(target, "proc_files"));
        else
            printf("%s: %.5s\n", links[i], target);
    }
}

CASE(modes_of_own_files)
{
    static const char *files[] = { "status", "stat", "statm", "maps", "smaps", "smaps_rollup", "comm", "cmdline", "environ",
        "limits", "io", "fd", "task", "ns", "cwd", "exe", "root", "mounts", "mountinfo", "oom_score",
        "oom_score_adj", "loginuid", "uid_map", "wchan", "syscall", "personality", "stack", "sched", "cgroup", "net" };
    char path[64];
    struct stat stat;

    MUST(prctl(PR_SET_DUMPABLE, 1));
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        snprintf(path, sizeof path, "/proc/self/%s", files[i]);
        if (lstat(path, &stat))
            printf("%s: %s\n", files[i], errno_name(errno));
        else
            printf("%s: %o%s\n", files[i], stat.st_mode, stat.st_uid == getuid() ? "" : " of another");
    }
}

CASE(small_files_of_a_process)
{
    text("personality", content("/proc/self/personality"));
    text("uid_map begins", *content("/proc/self/uid_map") == ' ' ? "with a space" : "?");
    char *io = content("/proc/self/io");
    truth("io", field_number(io, "rchar:") >= 0 && field_number(io, "write_bytes:") >= 0);
    char *limits = content("/proc/self/limits");
    truth("limits", strstr(limits, "Max open files") && strstr(limits, "Units"));
    char *mounts = content("/proc/self/mountinfo");
    truth("mountinfo has a root", strstr(mounts, " / / ") != NULL);
    truth("mounts has a root", strstr(content("/proc/mounts"), " / ") != NULL);
    truth("cgroup", strchr(content("/proc/self/cgroup"), ':') != NULL);
    text("write to status", (errno = 0, open("/proc/self/status", O_WRONLY) == -1 ? errno_name(errno) : "ok"));
    show("mkdir", mkdir("/proc/self/x", 0755) == -1 ? -2 : 0);
}

CASE(memory_agrees_with_sysinfo)
{
    struct sysinfo info;
    char *memory = content("/proc/meminfo");
    long total = field_number(memory, "MemTotal:");

    MUST(sysinfo(&info));
    truth("total", total == (long)(info.totalram / 1024 * info.mem_unit));
    truth("free", field_number(memory, "MemFree:") > 0 && field_number(memory, "MemFree:") <= total);
    truth("available", field_number(memory, "MemAvailable:") > 0);
    truth("cached", field_number(memory, "Cached:") >= 0);
    truth("slab", field_number(memory, "Slab:") >= 0 && field_number(memory, "SReclaimable:") >= 0);
    truth("commit", field_number(memory, "CommitLimit:") > 0 && field_number(memory, "Committed_AS:") > 0);
    number("huge page", field_number(memory, "Hugepagesize:"));
    truth("pages", sysconf(_SC_PHYS_PAGES) == total / 4);
}

CASE(uptime_agrees_with_sysinfo)
{
    struct sysinfo info;
    double uptime = 0, idle = 0;
    number("numbers", sscanf(content("/proc/uptime"), "%lf %lf", &uptime, &idle));
    MUST(sysinfo(&info));
    truth("the same", info.uptime >= (long)uptime && info.uptime <= (long)uptime + 2);
    truth("idle", idle >= 0);
}

CASE(processors_are_counted)
{
    long found = 0, lines = 0;
    char *info = content("/proc/cpuinfo");
    for (char *line = info; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        found += !strncmp(line, "processor\t", 10);
    truth("cpuinfo", found == sysconf(_SC_NPROCESSORS_ONLN));
    truth("flags", strstr(info, " sse2 ") != NULL);
    char *stat = content("/proc/stat");
    for (char *line = stat; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        lines += !strncmp(line, "cpu", 3) && line[3] != ' ';
    truth("stat", lines == sysconf(_SC_NPROCESSORS_ONLN));
    truth("btime", field_number(stat, "btime ") > 0);
    truth("processes", field_number(stat, "processes ") > 0);
    truth("running", field_number(stat, "procs_running ") >= 1);
    truth("online", atoi(content("/sys/devices/system/cpu/online")) == 0);
    truth("possible", *content("/sys/devices/system/cpu/possible") == '0');
    text("cpu0's core", content("/sys/devices/system/cpu/cpu0/topology/core_id")[0] >= '0' ? "a number" : "?");
}

CASE(load_has_five_fields)
{
    double one, five, fifteen;
    int running, all, last;
    number("fields", sscanf(content("/proc/loadavg"), "%lf %lf %lf %d/%d %d", &one, &five, &fifteen, &running, &all, &last));
    truth("running", running >= 1 && running <= all);
    truth("last", last > 0);
}

CASE(names_of_the_kernel)
{
    struct utsname name;
    char expected[256];

    MUST(uname(&name));
    snprintf(expected, sizeof expected, "%s\n", name.nodename);
    truth("hostname", !strcmp(content("/proc/sys/kernel/hostname"), expected));
    snprintf(expected, sizeof expected, "%s\n", name.release);
    truth("osrelease", !strcmp(content("/proc/sys/kernel/osrelease"), expected));
    text("ostype", content("/proc/sys/kernel/ostype"));
    snprintf(expected, sizeof expected, "Linux version %s ", name.release);
    truth("version", !strncmp(content("/proc/version"), expected, strlen(expected)));
    truth("pid_max", atol(content("/proc/sys/kernel/pid_max")) > 1000);
    truth("cap_last_cap", atol(content("/proc/sys/kernel/cap_last_cap")) >= 37);
    number("ngroups_max", atol(content("/proc/sys/kernel/ngroups_max")));
}

CASE(settings_are_there)
{
    static const char *names[] = { "fs/file-max", "fs/nr_open", "fs/pipe-max-size", "fs/inotify/max_user_watches", "kernel/pid_max",
        "kernel/threads-max", "kernel/shmmax", "kernel/sem", "kernel/msgmax", "kernel/core_pattern", "kernel/randomize_va_space",
        "net/core/somaxconn", "net/ipv4/ip_local_port_range", "net/ipv4/tcp_rmem", "net/ipv4/tcp_wmem", "net/ipv4/tcp_syncookies",
        "net/ipv4/tcp_keepalive_time", "net/ipv4/tcp_fin_timeout", "net/ipv4/tcp_congestion_control", "net/ipv4/ip_forward",
        "net/ipv4/ip_unprivileged_port_start", "net/unix/max_dgram_qlen", "vm/max_map_count", "vm/overcommit_memory",
        "vm/swappiness", "vm/nr_hugepages", "vm/mmap_min_addr" };
    char path[128];

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        snprintf(path, sizeof path, "/proc/sys/%s", names[i]);
        printf("%s: %s\n", names[i], *content(path) ? "there" : "empty");
    }
    show("unknown", open("/proc/sys/kernel/no-such-setting", O_RDONLY));
    show("a directory", open("/proc/sys/kernel", O_RDONLY) >= 0 ? 0 : -1);
}

CASE(random_names)
{
    char first[64], boot[64];
    snprintf(first, sizeof first, "%s", content("/proc/sys/kernel/random/uuid"));
    number("length", strlen(first));
    truth("version 4", first[14] == '4');
    truth("another each time", strcmp(first, content("/proc/sys/kernel/random/uuid")) != 0);
    snprintf(boot, sizeof boot, "%s", content("/proc/sys/kernel/random/boot_id"));
    truth("one per boot", !strcmp(boot, content("/proc/sys/kernel/random/boot_id")));
}

CASE(interfaces_in_sys)
{
    truth("index", (unsigned)atoi(content("/sys/class/net/lo/ifindex")) == if_nametoindex("lo"));
    text("address", content("/sys/class/net/lo/address"));
    text("mtu", content("/sys/class/net/lo/mtu"));
    text("type", content("/sys/class/net/lo/type"));
    show("no such interface", open("/sys/class/net/none/mtu", O_RDONLY));
}

CASE(directories_of_proc_and_sys)
{
    static const char *names[] = { "/proc", "/proc/sys", "/proc/sys/kernel", "/proc/self/task", "/sys", "/sys/class", "/sys/devices/system/cpu" };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct stat stat;
        DIR *dir = opendir(names[i]);
        int count = 0;
        while (dir && readdir(dir))
            count++;
        if (dir)
            closedir(dir);
        MUST(lstat(names[i], &stat));
        printf("%s: %s, %o\n", names[i], count > 2 ? "has entries" : "empty", stat.st_mode);
    }
}

static void *wait_at(void *barrier)
{
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    return NULL;
}

/* The links that a directory has beside those that every directory has. */
static long links_to(const char *path)
{
    struct stat stat;

    return lstat(path, &stat) == 0 ? (long)stat.st_nlink - 2 : -1;
}

/* Programs that fork look whether they have one thread. */
CASE(directories_of_threads_are_linked)
{
    pthread_barrier_t barrier;
    pthread_t threads[3];

    number("one thread", links_to("/proc/self/task"));
    MUST(pthread_barrier_init(&barrier, NULL, 4) == 0);
    for (int i = 0; i < 3; i++)
        MUST(pthread_create(&threads[i], NULL, wait_at, &barrier) == 0);
    pthread_barrier_wait(&barrier);
    number("four threads", links_to("/proc/self/task"));
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 3; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    number("descriptors", links_to("/proc/self/fd"));
    number("namespaces", links_to("/proc/self/ns"));
}

static const char constant_text[8192] = "constant";
static volatile int watched = 11;

static int __attribute__((noipa)) one(void)
{
    return 1;
}

CASE(memory_is_a_file)
{
    char buffer[64] = "";
    int value = 0, changed = 22;
    struct stat status;
    char *volatile nowhere = NULL;
    int fd = MUST(open("/proc/self/mem", O_RDWR));

    MUST(fstat(fd, &status));
    number("mode", status.st_mode & 07777);
    number("size", status.st_size);
    show("pread", pread(fd, &value, sizeof value, (off_t)(uintptr_t)&watched));
    number("value", value);
    show("pwrite", pwrite(fd, &changed, sizeof changed, (off_t)(uintptr_t)&watched));
    number("changed", watched);
    /* What the program itself may not write. */
    show("a constant", pwrite(fd, "K", 1, (off_t)(uintptr_t)constant_text));
    printf("%s\n", (const char *)(uintptr_t)((volatile uintptr_t[]){ (uintptr_t)constant_text })[0]);
    char *page = map_pages(3 * 4096, PROT_READ | PROT_WRITE);
    memset(page, 'p', 3 * 4096);
    MUST(mprotect(page, 4096, PROT_READ));
    MUST(munmap(page + 8192, 4096));
    show("read-only", pwrite(fd, "q", 1, (off_t)(uintptr_t)page + 4095));
    number("there", page[4095]);
    show("over two pages", pwrite(fd, "rs", 2, (off_t)(uintptr_t)page + 4095));
    printf("%c%c\n", page[4095], page[4096]);
    show("up to a hole", pread(fd, buffer, 64, (off_t)(uintptr_t)page + 8192 - 16));
    show("a hole", pread(fd, buffer, 64, (off_t)(uintptr_t)page + 8192));
    show("a hole", pwrite(fd, buffer, 64, (off_t)(uintptr_t)page + 8192));
    show("nothing", pread(fd, buffer, 16, 0));
    show("a bad buffer", pread(fd, nowhere, 16, (off_t)(uintptr_t)page));
    show("no bytes", pread(fd, buffer, 0, 0));
    /* Its own position. */
    truth("lseek", lseek(fd, (off_t)(uintptr_t)page, SEEK_SET) == (off_t)(uintptr_t)page);
    show("read", read(fd, buffer, 8));
    printf("%.8s\n", buffer);
    truth("moved", lseek(fd, 0, SEEK_CUR) == (off_t)(uintptr_t)page + 8);
    show("to the end", lseek(fd, 0, SEEK_END));
    show("truncate", ftruncate(fd, 0));
    struct pollfd poll_mem = { .fd = fd, .events = POLLIN | POLLOUT };
    show("poll", poll(&poll_mem, 1, 0));
    int ends[2];
    MUST(pipe(ends));
    show("splice", splice(fd, &(off_t){ (off_t)(uintptr_t)page }, ends[1], NULL, 16, 0));
    MUST(write(ends[1], "spliced", 7));
    show("splice to it", splice(ends[0], NULL, fd, &(off_t){ (off_t)(uintptr_t)page }, 7, 0));
    show("mmap", mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED ? -1 : 0);
    close(fd);
    fd = MUST(open("/proc/self/mem", O_RDONLY));
    show("write to what is open for reading", write(fd, "x", 1));
    close(fd);
}

/* As compilers write code that they do not make writable. */
CASE(code_is_written_by_way_of_a_file)
{
    static const unsigned char codes[2][6] = { { 0xb8, 42, 0, 0, 0, 0xc3 }, { 0xb8, 43, 0, 0, 0, 0xc3 } }; /* mov $42, %eax; ret */
    int fd = MUST(open("/proc/self/mem", O_RDWR));
    char *page = map_pages(4096, PROT_READ | PROT_EXEC);

    for (int i = 0; i < 40; i++) {
        if (pwrite(fd, codes[i % 2], 6, (off_t)(uintptr_t)page + i % 3 * 64) != 6)
            show("pwrite", -1);
        int result = ((int (*)(void))(uintptr_t)(page + i % 3 * 64))();
        if (result != 42 + i % 2)
            number("wrong", result);
    }
    truth("a function of the program", pwrite(fd, codes[1], 6, (off_t)(uintptr_t)&one) == 6);
    number("one", one());
    close(fd);
}

CASE(memory_of_another_process_is_a_file)
{
    int told[2], asked[2], value = 0;
    char path[64], byte = 0;

    MUST(pipe(told));
    MUST(pipe(asked));
    watched = 33;
    pid_t child = MUST(fork());
    if (child == 0) {
        watched = 44;
        if (write(told[1], "x", 1) != 1 || read(asked[0], &byte, 1) != 1)
            _exit(1);
        _exit(watched);
    }
    MUST(read(told[0], &byte, 1));
    snprintf(path, sizeof path, "/proc/%d/mem", child);
    int fd = MUST(open(path, O_RDWR));
    show("pread", pread(fd, &value, sizeof value, (off_t)(uintptr_t)&watched));
    number("value", value);
    value = 55;
    show("pwrite", pwrite(fd, &value, sizeof value, (off_t)(uintptr_t)&watched));
    show("a constant", pwrite(fd, "C", 1, (off_t)(uintptr_t)constant_text));
    printf("own: %d, %.8s\n", watched, constant_text + 1);
    MUST(write(asked[1], "x", 1));
    int status;
    MUST(waitpid(child, &status, 0));
    number("the child's", WEXITSTATUS(status));
    show("of nobody", pread(fd, &value, sizeof value, (off_t)(uintptr_t)&watched));
    close(fd);
    show("open", open(path, O_RDWR));
}

CASE(the_auxiliary_vector_is_a_file)
{
    unsigned long vector[128];
    int fd = MUST(open("/proc/self/auxv", O_RDONLY));
    long length = MUST(read(fd, vector, sizeof vector)), pairs = length / 16, wrong = 0;

    truth("whole pairs", length % 16 == 0);
    truth("an end", vector[2 * pairs - 2] == AT_NULL && vector[2 * pairs - 1] == 0);
    for (long i = 0; i < pairs - 1; i++)
        wrong += vector[2 * i] != AT_HWCAP && getauxval(vector[2 * i]) != vector[2 * i + 1];
    number("other than getauxval has them", wrong);
    show("more", read(fd, vector, sizeof vector));
    pid_t child = MUST(fork());
    if (child == 0) {
        unsigned long again[128];

        fd = open("/proc/self/auxv", O_RDONLY);
        _exit(read(fd, again, sizeof again) == length && again[3] == vector[3]);
    }
    int status;
    MUST(waitpid(child, &status, 0));
    number("a child has it too", WEXITSTATUS(status));
}

CASE(mounts_are_told_in_several_ways)
{
    char *stats = content("/proc/self/mountstats"), *line = stats;
    int root = 0, odd = 0, proc = 0;

    for (; *line; line = strchr(line, '\n') + 1) {
        char device[256], at[256], kind[64];
        int parts = sscanf(line, "device %255s mounted on %255s with fstype %63s", device, at, kind);

        odd += parts != 3;
        root += parts == 3 && !strcmp(at, "/");
        proc += parts == 3 && !strcmp(at, "/proc") && !strcmp(kind, "proc");
    }
    number("odd lines", odd);
    truth("the root", root > 0);
    truth("/proc", proc > 0);
}

static uint64_t page_word(int fd, const void *at)
{
    uint64_t word = 77;

    show("read", pread(fd, &word, sizeof word, (uintptr_t)at / 4096 * 8));
    return word;
}

CASE(pages_are_a_file)
{
    uint64_t words[4];
    char *pages = map_pages(4 * 4096, PROT_READ | PROT_WRITE);
    int fd = MUST(open("/proc/self/pagemap", O_RDONLY));
    off_t start = (uintptr_t)pages / 4096 * 8;

    pages[0] = pages[4096] = 1;
    mprotect(pages + 3 * 4096, 4096, PROT_NONE);
    truth("present", page_word(fd, pages) >> 63);
    truth("anonymous", !(page_word(fd, pages) >> 61 & 1));
    truth("nothing allowed", page_word(fd, pages + 3 * 4096) >> 63);
    truth("own stack", page_word(fd, words) >> 63);
    munmap(pages, 4096);
    truth("unmapped", page_word(fd, pages) >> 63);
    show("several", pread(fd, words, sizeof words, start));
    truth("the second", words[1] >> 63);
    show("crooked place", pread(fd, words, 8, start + 1));
    show("crooked length", pread(fd, words, 7, start));
    show("nothing", pread(fd, words, 0, start));
    show("behind all addresses", pread(fd, words, 8, (1L << 47) / 4096 * 8));
    show("bad pointer", pread(fd, (void *)8, 8, start));
    show("end", lseek(fd, 0, SEEK_END));
    show("seek", lseek(fd, 64, SEEK_SET));
    show("read", read(fd, words, 16));
    show("position", lseek(fd, 0, SEEK_CUR));
    close(fd);
    fd = open("/proc/self/pagemap", O_WRONLY);
    truth("not written", fd == -1 || write(fd, words, 8) == -1);
}

CASE(nodes_of_mappings)
{
    char start[32], *pages = map_pages(2 * 4096, PROT_READ | PROT_WRITE), *nothing = map_pages(4096, PROT_NONE);

    pages[0] = pages[4096] = 1;
    snprintf(start, sizeof start, "%lx ", (unsigned long)(uintptr_t)nothing);
    char *maps = content("/proc/self/numa_maps");
    text("what nobody may touch", field(maps, start));
    truth("a stack", strstr(maps, " default stack anon=") != NULL);
    truth("a heap", strstr(maps, " default heap") != NULL);
    truth("files", strstr(maps, " default file=/") != NULL);
    truth("small pages", strstr(maps, " kernelpagesize_kB=4\n") != NULL);
}

/* What they hold depends on the machine's security module, if it has one. */
CASE(attributes_of_security)
{
    static const char *names[] = { "current", "exec", "fscreate", "keycreate", "prev", "sockcreate", "none" };

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char path[64];
        struct stat about;

        snprintf(path, sizeof path, "/proc/self/attr/%s", names[i]);
        if (show(names[i], stat(path, &about)) == 0)
            printf("%o\n", about.st_mode);
    }
}

/* Prints the fields of /proc/self/stat from the 18th on that say how a process is scheduled. */
static void show_scheduling(const char *what)
{
    long fields[52] = { 0 };
    char *part = strrchr(content("/proc/self/stat"), ')') + 2;

    for (int i = 2; i < 52 && part; i++) {
        fields[i] = strtol(part, NULL, 10);
        part = strchr(part, ' ');
        part = part ? part + 1 : NULL;
    }
    printf("%s: priority %ld, nice %ld, real-time priority %ld, policy %ld\n", what, fields[17], fields[18], fields[39], fields[40]);
}

CASE(stat_tells_how_one_is_scheduled)
{
    struct sched_param none = { 0 };

    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0) {
        show_scheduling("first");
        show("batch", sched_setscheduler(0, SCHED_BATCH, &none));
        show_scheduling("batch");
        MUST(setpriority(PRIO_PROCESS, 0, 5));
        show_scheduling("nice");
        show("idle", sched_setscheduler(0, SCHED_IDLE, &none));
        show_scheduling("idle");
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

CASE(ends_of_files_that_are_made_up)
{
    static const char *const paths[] = {
        "/proc/cpuinfo", "/proc/stat", "/proc/meminfo", "/proc/self/maps", "/proc/self/stat", "/proc/self/status",
        "/proc/self/limits", "/proc/self/mounts", "/proc/self/comm", "/proc/self/cmdline", "/proc/self/environ",
        "/proc/self/auxv", "/proc/self/oom_score_adj", "/proc/self/coredump_filter", "/proc/self/net/tcp",
        "/proc/self/fdinfo/0", "/proc/sys/kernel/ostype", "/sys/class/net/lo/address",
    };

    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        int fd = MUST(open(paths[i], O_RDONLY));

        printf("%s: ", paths[i]);
        printf("end %s, ", errno_name(lseek(fd, 0, SEEK_END) == -1 ? errno : 0));
        printf("before it %s, ", errno_name(lseek(fd, -1, SEEK_END) == -1 ? errno : 0));
        printf("here %s, ", errno_name(lseek(fd, 0, SEEK_CUR) == -1 ? errno : 0));
        printf("there %s\n", errno_name(lseek(fd, 7, SEEK_SET) == -1 ? errno : 0));
        close(fd);
    }
}

CASE(files_that_nobody_writes)
{
    static const char *const paths[] = {
        "/proc/cpuinfo", "/proc/stat", "/proc/uptime", "/proc/filesystems", "/proc/self/stat", "/proc/self/maps",
        "/proc/self/limits", "/proc/self/cmdline", "/proc/self/mounts", "/proc/self/fdinfo/0", "/proc/self/cgroup",
        "/proc/sys/kernel/ostype", "/proc/sys/kernel/random/uuid", "/sys/class/net/lo/address",
    };
    int is_root = geteuid() == 0;

    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        int fd = open(paths[i], O_WRONLY);

        printf("%s: ", paths[i]);
        if (fd != -1 && is_root)
            show("write", write(fd, "x", 1));
        else if (fd == -1)
            printf("%s\n", errno_name(errno));
        if (fd != -1)
            close(fd);
    }
}

CASE(what_dumps_hold_can_be_chosen)
{
    static const char *const values[] = { "5", "0x7", "0777", "-1", "1000", "99999999999", "many", "0x33" };
    int fd = MUST(open("/proc/self/coredump_filter", O_RDWR));

    for (size_t i = 0; i < COUNT_OF(values); i++) {
        printf("%s ", values[i]);
        show("written", write(fd, values[i], strlen(values[i])));
        text("read", content("/proc/self/coredump_filter"));
    }
    show("with a NUL", write(fd, "7", 2));
    text("read", content("/proc/self/coredump_filter"));
    pid_t child = MUST(fork());
    if (child == 0) {
        text("a child's", content("/proc/self/coredump_filter"));
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}
