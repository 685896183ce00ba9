/*
 * What a process can ask about itself and its machine: ids, limits, names,
 * usage, random numbers, processors, and files under /proc and /etc.
 */
#include "case.h"

#include <sched.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>

CASE(process_ids)
{
    truth("getpid is positive", getpid() > 0);
    truth("getpid is stable", getpid() == getpid());
    truth("raw and libc agree", getpid() == syscall(SYS_getpid));
    truth("getppid is stable", getppid() == getppid());
    truth("parent is another", getppid() != getpid());
    truth("getpgid of self", getpgid(0) == getpgrp());
    truth("getsid", getsid(0) > 0 || getsid(0) == 0);
    show("getpgid of nobody", getpgid(0x3ffffff));
}

CASE(user_ids)
{
    uid_t real, effective, saved;
    gid_t group_real, group_effective, group_saved;
    show("getresuid", getresuid(&real, &effective, &saved));
    show("getresgid", getresgid(&group_real, &group_effective, &group_saved));
    truth("uid", real == getuid() && effective == geteuid());
    truth("gid", group_real == getgid() && group_effective == getegid());
    truth("saved as effective", saved == effective && group_saved == group_effective);
    truth("getgroups counts", getgroups(0, NULL) >= 0);
    show("getgroups negative", syscall(SYS_getgroups, -1, NULL));
    show("setuid to itself", setuid(getuid()));
    show("setgid to itself", setgid(getgid()));
}

CASE(limits)
{
    struct rlimit limit, again;
    static const int resources[] = { RLIMIT_NOFILE, RLIMIT_STACK, RLIMIT_CORE, RLIMIT_DATA, RLIMIT_AS, RLIMIT_NPROC, RLIMIT_FSIZE, RLIMIT_CPU };
    for (size_t i = 0; i < COUNT_OF(resources); i++) {
        show("getrlimit", getrlimit(resources[i], &limit));
        truth("soft at most hard", limit.rlim_cur <= limit.rlim_max);
    }
    show("unknown", getrlimit(99, &limit));
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = 100;
    show("set soft", setrlimit(RLIMIT_NOFILE, &limit));
    show("get", getrlimit(RLIMIT_NOFILE, &again));
    number("soft", again.rlim_cur);
    truth("hard is unchanged", again.rlim_max == limit.rlim_max);
    number("sysconf follows", sysconf(_SC_OPEN_MAX));
    limit.rlim_cur = limit.rlim_max;
    show("set back", setrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = 100;
    limit.rlim_max = 50;
    show("soft above hard", setrlimit(RLIMIT_NOFILE, &limit));
}

CASE(prlimit_on_itself)
{
    struct rlimit old, limit, new_limit;
    show("get", prlimit(0, RLIMIT_NOFILE, NULL, &old));
    new_limit = old;
    new_limit.rlim_cur = 64;
    show("swap", prlimit(getpid(), RLIMIT_NOFILE, &new_limit, &limit));
    truth("old value", limit.rlim_cur == old.rlim_cur);
    show("swap back", prlimit(0, RLIMIT_NOFILE, &old, &limit));
    number("was", limit.rlim_cur);
    show("nobody", prlimit(0x3ffffff, RLIMIT_NOFILE, NULL, &limit));
}

CASE(system_name)
{
    struct utsname name;
    char host[256];
    show("uname", uname(&name));
    text("sysname", name.sysname);
    text("machine", name.machine);
    truth("release begins with a number", name.release[0] >= '1' && name.release[0] <= '9');
    truth("version is not empty", name.version[0] != 0);
    show("gethostname", gethostname(host, sizeof host));
    truth("agrees with nodename", !strcmp(host, name.nodename));
    show("gethostname too short", gethostname(host, 0));
}

CASE(system_information)
{
    struct sysinfo info;
    show("sysinfo", sysinfo(&info));
    truth("uptime", info.uptime >= 0);
    truth("total memory", info.totalram > 0);
    truth("free is part of it", info.freeram <= info.totalram);
    truth("unit", info.mem_unit >= 1);
    truth("processes", info.procs >= 1);
}

CASE(random_numbers)
{
    unsigned char a[256], b[300];
    long total = 0;
    show("getrandom", getrandom(a, sizeof a, 0));
    show("getrandom", getrandom(b, sizeof a, GRND_NONBLOCK));
    truth("different", memcmp(a, b, sizeof a) != 0);
    for (int i = 0; i < 256; i++)
        total += __builtin_popcount(a[i]) + __builtin_popcount(b[i]);
    truth("about half the bits are set", total > 1700 && total < 2400);
    show("length 0", getrandom(a, 0, 0));
    show("GRND_RANDOM", getrandom(a, 16, GRND_RANDOM));
    show("GRND_INSECURE", getrandom(a, 16, GRND_INSECURE));
    show("bad flags", getrandom(a, 16, 0x100));
    show("exclusive flags", getrandom(a, 16, GRND_RANDOM | GRND_INSECURE));
    show_error("getentropy", getentropy(a, 32));
    show("getentropy too long", getentropy(b, 257));
}

CASE(large_random_read)
{
    static unsigned char data[100000];
    long counts[256] = { 0 };
    int rare = 0;
    show("getrandom", getrandom(data, sizeof data, 0));
    for (size_t i = 0; i < sizeof data; i++)
        counts[data[i]]++;
    for (int i = 0; i < 256; i++)
        rare += counts[i] < 200;
    number("byte values that are rare", rare);
}

CASE(auxiliary_vector)
{
    unsigned char *random = (unsigned char *)getauxval(AT_RANDOM);
    int zeros = 0;
    number("AT_PAGESZ", getauxval(AT_PAGESZ));
    number("AT_CLKTCK", getauxval(AT_CLKTCK));
    truth("AT_RANDOM", random != NULL);
    for (int i = 0; i < 16; i++)
        zeros += random[i] == 0;
    truth("random bytes", zeros < 12);
    truth("AT_UID", getauxval(AT_UID) == getuid());
    truth("AT_ENTRY", getauxval(AT_ENTRY) != 0);
    truth("AT_PHNUM", getauxval(AT_PHNUM) > 1);
    truth("AT_EXECFN", getauxval(AT_EXECFN) && *(char *)getauxval(AT_EXECFN));
    number("AT_SECURE", getauxval(AT_SECURE));
}

CASE(processors)
{
    cpu_set_t set;
    unsigned cpu = 99999, node = 99999;
    show("sched_getaffinity", sched_getaffinity(0, sizeof set, &set));
    truth("at least one", CPU_COUNT(&set) >= 1);
    show("getcpu", getcpu(&cpu, &node));
    truth("cpu is in the set", CPU_ISSET(cpu, &set));
    truth("sched_getcpu", sched_getcpu() >= 0);
    truth("nprocs", get_nprocs() >= 1 && sysconf(_SC_NPROCESSORS_ONLN) >= 1);
    show("set the same", sched_setaffinity(0, sizeof set, &set));
    CPU_ZERO(&set);
    show("set none", sched_setaffinity(0, sizeof set, &set));
    show("nobody", sched_getaffinity(0x3ffffff, sizeof set, &set));
    show("set too small", syscall(SYS_sched_getaffinity, 0, 1, &set));
}

CASE(scheduling)
{
    struct sched_param parameters;
    show("getscheduler", sched_getscheduler(0));
    show("getparam", sched_getparam(0, &parameters));
    number("priority", parameters.sched_priority);
    show("max of FIFO", sched_get_priority_max(SCHED_FIFO));
    show("min of OTHER", sched_get_priority_min(SCHED_OTHER));
    show("unknown policy", sched_get_priority_max(99));
}

CASE(names_of_threads)
{
    char name[17] = "";
    show("PR_SET_NAME", prctl(PR_SET_NAME, "a-new-name"));
    show("PR_GET_NAME", prctl(PR_GET_NAME, name));
    text("name", name);
    show("PR_SET_NAME long", prctl(PR_SET_NAME, "longer-than-fifteen-bytes"));
    show("PR_GET_NAME", prctl(PR_GET_NAME, name));
    text("cut", name);
}

CASE(process_controls)
{
    int value = -1;
    show("PR_GET_DUMPABLE", prctl(PR_GET_DUMPABLE) >= 0 ? 0 : -1);
    show("PR_SET_PDEATHSIG", prctl(PR_SET_PDEATHSIG, SIGTERM));
    show("PR_GET_PDEATHSIG", prctl(PR_GET_PDEATHSIG, &value));
    number("signal", value);
    MUST(prctl(PR_SET_PDEATHSIG, 0));
    show("PR_GET_NO_NEW_PRIVS", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) >= 0 ? 0 : -1);
    show("unknown", prctl(99999));
    show("PR_GET_TIMING", prctl(PR_GET_TIMING));
    show("PR_SET_TIMING", prctl(PR_SET_TIMING, PR_TIMING_STATISTICAL));
    show("PR_SET_TIMING by stamps", prctl(PR_SET_TIMING, PR_TIMING_TIMESTAMP));
}

CASE(address_that_a_threads_end_clears)
{
    int *address = NULL, own;
    show("PR_GET_TID_ADDRESS", prctl(PR_GET_TID_ADDRESS, &address));
    truth("it holds the number", address && *address == gettid());
    show("PR_GET_TID_ADDRESS to nowhere", syscall(SYS_prctl, PR_GET_TID_ADDRESS, NULL, 0, 0, 0));
    int *libc = address;
    truth("set_tid_address", syscall(SYS_set_tid_address, &own) == gettid());
    show("PR_GET_TID_ADDRESS", prctl(PR_GET_TID_ADDRESS, &address));
    truth("it is the new one", address == &own);
    syscall(SYS_set_tid_address, libc);
}

CASE(cpuid_may_be_used)
{
    show("ARCH_GET_CPUID", syscall(SYS_arch_prctl, 0x1011, 0));
    long set = syscall(SYS_arch_prctl, 0x1012, 1);
    truth("ARCH_SET_CPUID works, or no processor can", set == 0 || errno == ENODEV);
    show("ARCH_GET_CPUID", syscall(SYS_arch_prctl, 0x1011, 0));
    show("unknown", syscall(SYS_arch_prctl, 0x7777, 0));
}

CASE(usage)
{
    struct rusage own;
    show("RUSAGE_SELF", getrusage(RUSAGE_SELF, &own));
    truth("user time", own.ru_utime.tv_sec >= 0 && own.ru_utime.tv_usec >= 0);
    truth("system time", own.ru_stime.tv_sec >= 0 && own.ru_stime.tv_usec >= 0);
    truth("memory", own.ru_maxrss >= 0);
    show("RUSAGE_THREAD", getrusage(RUSAGE_THREAD, &own));
    show("RUSAGE_CHILDREN", getrusage(RUSAGE_CHILDREN, &own));
    truth("children's time", own.ru_utime.tv_sec >= 0);
    show("unknown", getrusage(99, &own));
}

CASE(configuration)
{
    number("_SC_PAGESIZE", sysconf(_SC_PAGESIZE));
    number("_SC_CLK_TCK", sysconf(_SC_CLK_TCK));
    number("_SC_IOV_MAX", sysconf(_SC_IOV_MAX));
    truth("_SC_PHYS_PAGES", sysconf(_SC_PHYS_PAGES) > 0);
    truth("_SC_NPROCESSORS_CONF", sysconf(_SC_NPROCESSORS_CONF) >= 1);
    number("_PC_PIPE_BUF", pathconf(".", _PC_PIPE_BUF));
    errno = 0;
    number("unknown", sysconf(99999));
    truth("EINVAL", errno == EINVAL);
}

CASE(thread_pointer)
{
    unsigned long base = 0;
    void *self;
    __asm__("mov %%fs:0, %0" : "=r"(self));
    show("ARCH_GET_FS", syscall(SYS_arch_prctl, 0x1003, &base));
    truth("points at itself", base == (unsigned long)self);
    truth("is the thread", self == (void *)pthread_self());
    show("unknown", syscall(SYS_arch_prctl, 0x9999, &base));
}

CASE(own_entries_in_proc)
{
    char by_self[64], by_pid[64], path[64], target[PATH_LIMIT];
    snprintf(by_pid, sizeof by_pid, "%d", getpid());
    long length = readlink("/proc/self", by_self, sizeof by_self - 1);
    by_self[length > 0 ? length : 0] = 0;
    truth("/proc/self is the pid", !strcmp(by_self, by_pid));
    truth("/proc/self/exe", readlink("/proc/self/exe", target, sizeof target) > 1);
    int fd = MUST(open("/dev/null", O_RDONLY));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    length = readlink(path, target, sizeof target - 1);
    target[length > 0 ? length : 0] = 0;
    text("descriptor", target);
}

CASE(host_files)
{
    char data[4096];
    int fd = show_ok("/etc/hosts", open("/etc/hosts", O_RDONLY));
    long length = read(fd, data, sizeof data - 1);
    data[length > 0 ? length : 0] = 0;
    truth("names localhost", strstr(data, "localhost") != NULL);
}

CASE(environment)
{
    show("setenv", setenv("CASE_VARIABLE", "value", 1));
    text("getenv", getenv("CASE_VARIABLE"));
    show("unsetenv", unsetenv("CASE_VARIABLE"));
    truth("gone", getenv("CASE_VARIABLE") == NULL);
}

static void show_policy(const char *what)
{
    struct sched_param parameters;
    int policy = MUST(sched_getscheduler(0));
    MUST(sched_getparam(0, &parameters));
    printf("%s: policy %d%s priority %d\n", what, policy & 0xff, policy & SCHED_RESET_ON_FORK ? " reset" : "", parameters.sched_priority);
}

static long set_policy(int policy, int priority)
{
    struct sched_param parameters = { .sched_priority = priority };
    return sched_setscheduler(0, policy, &parameters);
}

static void policies(void)
{
    struct sched_param parameters = { 0 };
    struct timespec slice;
    int root = geteuid() == 0;
    show("unknown policy", set_policy(4, 0));
    show("negative policy", syscall(SYS_sched_setscheduler, 0, -1, &parameters));
    show("FIFO without a priority", set_policy(SCHED_FIFO, 0));
    show("OTHER with a priority", set_policy(SCHED_OTHER, 1));
    show("priority 100", set_policy(SCHED_RR, 100));
    show("DEADLINE without lengths", set_policy(6, 0));
    show("no parameters", syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, NULL));
    show("bad parameters", syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, (void *)8));
    show("negative id", sched_setparam(-1, &parameters));
    show("nobody", sched_setparam(0x3ffffff, &parameters));
    show("get of a negative id", sched_getscheduler(-1));
    show("get of nobody", sched_getscheduler(0x3ffffff));
    show("get without room", syscall(SYS_sched_getparam, 0, NULL));
    show("interval of a negative id", sched_rr_get_interval(-1, &slice));
    show("BATCH", set_policy(SCHED_BATCH, 0));
    show_policy("now");
    show("priority for BATCH", (parameters.sched_priority = 1, sched_setparam(0, &parameters)));
    show("OTHER", set_policy(SCHED_OTHER | SCHED_RESET_ON_FORK, 0));
    show_policy("now");
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0) {
        show_policy("in a child");
        fflush(stdout);
        _exit(0);
    }
    MUST(waitpid(child, NULL, 0));
    long back = set_policy(SCHED_OTHER, 0);
    truth("only the privileged take that back", root ? back == 0 : back == -1 && errno == EPERM);
}

CASE(policies_are_checked_and_kept)
{
    /* A process of its own, since not everybody can take it back. */
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0) {
        policies();
        fflush(stdout);
        _exit(0);
    }
    MUST(waitpid(child, NULL, 0));
}

CASE(urgent_policies_need_a_limit_or_privilege)
{
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_RTPRIO, &limit));
    long set = set_policy(SCHED_RR, 5);
    int may = geteuid() == 0 || limit.rlim_cur >= 5;
    /* Where control groups give no time to such threads, root may not either. */
    truth("as allowed", set == 0 ? may : errno == EPERM);
    struct timespec slice = { 0, 1 };
    int is_kept = set == -1
        || (sched_getscheduler(0) == SCHED_RR && sched_rr_get_interval(0, &slice) == 0 && slice.tv_nsec > 0
            && set_policy(SCHED_FIFO, 5) == 0 && sched_rr_get_interval(0, &slice) == 0 && slice.tv_nsec == 0);
    truth("kept, with a slice for who takes turns", is_kept);
    show("back", set_policy(SCHED_OTHER, 0));
}
