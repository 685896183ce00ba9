/*
 * Tries to reach the real machine by system calls, whatever their number, and by files: clock, network, identity, other
 * processes, the kernel. Prints one line for each attempt: what it got.
 *
 *   calls SOCKET PID FILE     SOCKET: a real listening Unix socket; PID: a real process; FILE: a real file of one's own
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/netlink.h>
#include <linux/perf_event.h>
#include <linux/vm_sockets.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static void show(const char *what, long ret)
{
    if (ret < 0)
        printf("%s: %s\n", what, strerrorname_np(errno));
    else
        printf("%s: %ld\n", what, ret);
    fflush(stdout);
}

/* For results that are numbers of new descriptors. */
static void show_success(const char *what, long ret)
{
    show(what, ret < 0 ? ret : 0);
}

static void show_line(const char *what, const char *path)
{
    char line[256] = "";
    FILE *file = fopen(path, "r");
    if (!file)
        return show(what, -1);
    if (!fgets(line, sizeof line, file))
        strcpy(line, "\n");
    printf("%s: %s", what, line);
    fclose(file);
}

static void show_field(const char *what, const char *path, const char *field)
{
    char line[512];
    FILE *file = fopen(path, "r");
    if (!file)
        return show(what, -1);
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, field, strlen(field))) {
            printf("%s: %s", what, line);
            fclose(file);
            return;
        }
    printf("%s: no such line\n", what);
    fclose(file);
}

/* A call by `syscall` in memory that was made executable: no library and no rewriter knows of it. */
static long bare(long number, long a, long b, long c)
{
    static const unsigned char code[] = { 0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0x48, 0x89, 0xd6,
                                          0x48, 0x89, 0xca, 0x0f, 0x05, 0xc3 };
    static long (*call)(long, long, long, long);
    if (!call) {
        void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memcpy(memory, code, sizeof code);
        mprotect(memory, 4096, PROT_READ | PROT_EXEC);
        call = memory;
    }
    long ret = call(number, a, b, c);
    if (ret < 0 && ret > -4096) {
        errno = -ret;
        return -1;
    }
    return ret;
}

static void clocks(const char *file)
{
    struct timespec now = { 0 };
    struct timeval day = { 0 };
    struct timex timex = { 0 };
    struct sysinfo info = { 0 };
    struct rusage usage = { 0 };
    struct tms tms;
    struct stat status = { 0 };

    show("bare time", bare(SYS_time, 0, 0, 0));
    bare(SYS_clock_gettime, CLOCK_REALTIME, (long)&now, 0);
    show("bare clock_gettime", now.tv_sec);
    bare(SYS_gettimeofday, (long)&day, 0, 0);
    show("bare gettimeofday", day.tv_sec);
    syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &now);
    show("boot time", now.tv_sec);
    syscall(SYS_clock_gettime, CLOCK_TAI, &now);
    show("TAI", now.tv_sec);
    now.tv_sec = -1;
    show_success("x32 clock_gettime", bare(0x40000000 | SYS_clock_gettime, CLOCK_REALTIME, (long)&now, 0));
    show_success("adjtimex", adjtimex(&timex) < 0 ? -1 : 0);
    show("adjtimex time", timex.time.tv_sec);
    sysinfo(&info);
    show("sysinfo uptime", info.uptime);
    getrusage(RUSAGE_SELF, &usage);
    show("rusage", usage.ru_utime.tv_sec + usage.ru_stime.tv_sec);
    show("times", times(&tms) < 100);
    close(open("new", O_CREAT | O_WRONLY, 0644));
    stat("new", &status);
    show("mtime of a new file", status.st_mtime);
    show("a file's birth", syscall(SYS_statx, AT_FDCWD, "new", 0, 0x800, &(char[256]){ 0 }) < 0 ? -1 : 0);
    show_line("/proc/uptime", "/proc/uptime");
    show_field("btime", "/proc/stat", "btime");
    show_success("/dev/rtc", open("/dev/rtc0", O_RDONLY));
    show_success("/dev/ptp0", open("/dev/ptp0", O_RDONLY));
    show_success("/dev/hpet", open("/dev/hpet", O_RDONLY));
    show_success("clock_settime", clock_settime(CLOCK_REALTIME, &(struct timespec){ 1, 0 }));
}

static void identity(void)
{
    struct utsname name = { 0 };
    cpu_set_t set;
    unsigned cpu = 7, node = 7;

    uname(&name);
    printf("uname: %s %s\n", name.sysname, name.nodename);
    sched_getaffinity(0, sizeof set, &set);
    show("processors", CPU_COUNT(&set));
    syscall(SYS_getcpu, &cpu, &node, NULL);
    show("processor", cpu * 10 + node);
    show("bare getcpu", bare(SYS_getcpu, (long)&cpu, 0, 0) + cpu);
    show_field("cpuinfo", "/proc/cpuinfo", "model name");
    show_line("online", "/sys/devices/system/cpu/online");
    printf("AT_PLATFORM: %s\n", (char *)getauxval(AT_PLATFORM));
    show("AT_SYSINFO_EHDR", getauxval(AT_SYSINFO_EHDR) != 0);
    show_line("machine-id", "/etc/machine-id");
    show_line("product", "/sys/class/dmi/id/product_name");
    show_line("mac address", "/sys/class/net/eth0/address");
    show_line("boot id", "/proc/sys/kernel/random/boot_id");
}

static void network(const char *path)
{
    int fd = socket(AF_PACKET, SOCK_RAW, 0x300);
    struct sockaddr_un address = { AF_UNIX };
    struct sockaddr_in world = { AF_INET, htons(53), { htonl(0xc0000201) } };

    show_success("packet socket", fd);
    show_success("vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
    show_success("alg", socket(38, SOCK_SEQPACKET, 0));
    show_success("xdp", socket(44, SOCK_RAW, 0));
    show_success("bluetooth", socket(31, SOCK_RAW, 1));
    show_success("kernel connection multiplexor", socket(41, SOCK_DGRAM, 0));
    show_success("netlink audit", socket(AF_NETLINK, SOCK_RAW, NETLINK_AUDIT));
    show_success("netlink uevents", socket(AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT));
    show_success("netlink netfilter", socket(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER));
    show_success("bare packet socket", bare(SYS_socket, AF_PACKET, SOCK_RAW, 0x300));
    show_success("x32 socket", bare(0x40000000 | SYS_socket, AF_INET, SOCK_STREAM, 0));
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    show("a real Unix socket", connect(fd, (void *)&address, sizeof address));
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    memcpy(address.sun_path, "\0gnomon-escape", 15);
    show("a real abstract socket", connect(fd, (void *)&address, sizeof(sa_family_t) + 14));
    fd = socket(AF_INET, SOCK_STREAM, 0);
    show("the world", connect(fd, (void *)&world, sizeof world));
    show_success("tun", open("/dev/net/tun", O_RDWR));
}

static void others(pid_t pid)
{
    char buffer[64];
    struct iovec local = { buffer, sizeof buffer }, remote = { (void *)0x400000, sizeof buffer };

    show("signal a real process", kill(pid, 0));
    show_success("pidfd_open a real process", syscall(SYS_pidfd_open, pid, 0));
    show("read a real process", process_vm_readv(pid, &local, 1, &remote, 1, 0));
    show("attach to a real process", ptrace(PTRACE_ATTACH, pid, 0, 0));
    show("attach to process 1", ptrace(PTRACE_ATTACH, 1, 0, 0));
    show("compare with process 1", syscall(SYS_kcmp, getpid(), 1, 0, 0, 0));
    show_success("memory of process 1", open("/proc/1/mem", O_RDWR));
    show("read process 1", process_vm_readv(1, &local, 1, &remote, 1, 0));
    snprintf(buffer, sizeof buffer, "/proc/%d/mem", pid);
    show_success("memory of a real process", open(buffer, O_RDONLY));
    show("root of process 1", readlink("/proc/1/exe", buffer, sizeof buffer) < 0 ? -1 : 0);
    show("priority of a real process", setpriority(PRIO_PROCESS, pid, 5));
    show("affinity of a real process", sched_setaffinity(pid, 8, (cpu_set_t *)buffer));
    show("limits of a real process", syscall(SYS_prlimit64, pid, RLIMIT_NOFILE, NULL, buffer));
    show("session of a real process", getsid(pid) < 0 ? -1 : 0);
}

static void kernel(void)
{
    struct io_uring_params ring = { 0 };
    struct perf_event_attr perf = { .size = sizeof perf, .config = PERF_COUNT_HW_CPU_CYCLES };
    union bpf_attr map = { .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1 };
    char descriptor[16] = { 0 };

    show_success("io_uring", syscall(SYS_io_uring_setup, 4, &ring));
    show_success("bare io_uring", bare(SYS_io_uring_setup, 4, (long)&ring, 0));
    show_success("bpf", syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof map));
    show_success("perf events", syscall(SYS_perf_event_open, &perf, 0, -1, -1, 0));
    show_success("userfaultfd", syscall(SYS_userfaultfd, O_CLOEXEC));
    show_success("secret memory", syscall(SYS_memfd_secret, 0));
    show_success("fanotify", syscall(SYS_fanotify_init, 0, 0));
    show_success("a file by its handle", syscall(SYS_open_by_handle_at, AT_FDCWD, descriptor, 0));
    show_success("a key", syscall(SYS_add_key, "user", "name", "value", 5, -3));
    show("keys", syscall(SYS_keyctl, 0, -3, 0));
    show("ports", syscall(SYS_iopl, 3));
    show("port permissions", syscall(SYS_ioperm, 0x70, 2, 1));
    show("a segment of one's own", syscall(SYS_modify_ldt, 1, descriptor, sizeof descriptor));
    show("GS base", syscall(SYS_arch_prctl, 0x1001, descriptor));
    show("cpuid back", syscall(SYS_arch_prctl, 0x1012, 1));
    show("AMX", syscall(SYS_arch_prctl, 0x1023, 18));
    show("dispatch off", syscall(SYS_prctl, 59, 0, 0, 0, 0));
    show("dispatch on", syscall(SYS_prctl, 59, 1, 0, 0, descriptor));
    show("a module", syscall(SYS_init_module, descriptor, 16, ""));
    show("a module from a file", syscall(SYS_finit_module, 0, "", 0));
    show("another kernel", syscall(SYS_kexec_load, 0, 0, 0, 0));
    show("restart", syscall(SYS_reboot, 0xfee1dead, 0x28121969, 0, 0));
    show("kernel log", syscall(SYS_syslog, 10, 0, 0) < 0 ? -1 : 0);
    show("swap", syscall(SYS_swapon, "/new", 0));
    show("accounting", syscall(SYS_acct, "/new"));
    show("quota", syscall(SYS_quotactl, 0x800007 << 8, "/", 0, 0));
    show("root", syscall(SYS_pivot_root, "/", "/"));
    show("namespace", syscall(SYS_setns, 0, 0));
    show("number 1000", bare(1000, 0, 0, 0));
    show("number 0x3fffffff", bare(0x3fffffff, 0, 0, 0));
    show("number -1", bare(-1, 0, 0, 0));
    show("number 2^32 + getpid", bare(0x100000000 + SYS_getpid, 0, 0, 0));
    show("x32 write", bare(0x40000000 | SYS_write, 1, (long)"", 0));
    show_success("x32 execve", bare(0x40000000 | 520, (long)"/bin/true", 0, 0));
    show_success("/dev/mem", open("/dev/mem", O_RDWR));
    show_success("/dev/kvm", open("/dev/kvm", O_RDWR));
    show_success("/dev/fuse", open("/dev/fuse", O_RDWR));
    show_success("/proc/kcore", open("/proc/kcore", O_RDONLY));
    show_success("/proc/kallsyms", open("/proc/kallsyms", O_RDONLY));
    show_success("/proc/sysrq-trigger", open("/proc/sysrq-trigger", O_WRONLY));
    show_success("/sys/kernel/debug", open("/sys/kernel/debug/tracing", O_RDONLY));
    show_success("a control group", open("/sys/fs/cgroup/cgroup.procs", O_WRONLY));
}

/* Addresses above the arenas belong to the simulator. */
static void simulator(void)
{
    static const uint64_t somewhere[] = { 0x500000000000, 0x555555554000, 0x7f0000000000, 0x7ffff7a00000, 0x7ffffffde000 };
    char line[256], own[64];
    int strange = 0, mem = open("/proc/self/mem", O_RDWR);
    FILE *maps = fopen("/proc/self/maps", "r");

    while (fgets(line, sizeof line, maps))
        strange += strtoull(line, NULL, 16) >= 0x500000000000;
    show("mappings above one's own", strange);
    for (int i = 0; i < 5; i++) {
        void *at = (void *)somewhere[i];
        struct iovec local = { own, 64 }, remote = { at, 64 };
        printf("%d: ", i);
        show("write from there", write(1, at, 64));
        show("read to there", read(0, at, 64));
        show("its memory file", pwrite(mem, own, 64, somewhere[i]));
        show("copy from there", process_vm_readv(getpid(), &local, 1, &remote, 1, 0));
        show("copy to there", process_vm_writev(getpid(), &local, 1, &remote, 1, 0));
        show("protect", mprotect(at, 4096, PROT_READ | PROT_WRITE | PROT_EXEC));
        show("unmap", munmap(at, 1 << 20));
        show("advise", madvise(at, 4096, MADV_DONTNEED));
        show("map over it", mmap(at, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED ? -1 : 0);
        show("move it", mremap(at, 4096, 8192, MREMAP_MAYMOVE) == MAP_FAILED ? -1 : 0);
        show("wake there", syscall(SYS_futex, at, FUTEX_WAKE, 1, 0, 0, 0));
        show("a robust list there", syscall(SYS_set_robust_list, at, 24));
        show("a stack there", sigaltstack(&(stack_t){ .ss_sp = at, .ss_size = 8192 }, NULL));
        show("a sequence there", syscall(SYS_rseq, at, 32, 0, 0x53053053));
    }
}

static void randomness(void)
{
    unsigned char bytes[4][8] = { 0 };
    int fd = open("/dev/urandom", O_RDONLY), other = open("/dev/hwrng", O_RDONLY);

    syscall(SYS_getrandom, bytes[0], 8, 0);
    read(fd, bytes[1], 8);
    memcpy(bytes[2], (void *)getauxval(AT_RANDOM), 8);
    bare(SYS_getrandom, (long)bytes[3], 8, 0);
    for (int i = 0; i < 4; i++)
        printf("random %d: %016lx\n", i, *(unsigned long *)bytes[i]);
    show("hardware generator", other);
    show_line("uuid", "/proc/sys/kernel/random/uuid");
    printf("addresses: %p %p %p\n", (void *)bytes, (void *)randomness, malloc(100));
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    clocks(argv[3]);
    identity();
    network(argv[1]);
    others(atoi(argv[2]));
    kernel();
    simulator();
    randomness();
    show("a real file", open(argv[3], O_WRONLY | O_TRUNC) < 0 ? -1 : 0);
    show("remove a real file", unlink(argv[3]));
    return 0;
}
