/*
 * Users, groups and capabilities: who may become whom, and what follows from
 * it. Changes are made by raw calls in threads of their own, which alone have
 * them then.
 */
#include "users.h"

#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

static const struct user alice = { "alice", 1000, 1000, 0 };
static const struct user bob = { "bob", 1001, 1001, 0 };
static const struct user nobody = { "nobody", 65534, 65534, 0 };

/* ---- changes of ids from every state ---- */

static const int ids[] = { 0, 1, 2 };

struct change {
    int group;     /* change groups rather than users */
    int drop;      /* without capabilities */
    long call;
    int arguments;
    long start[3];
    long values[3];
};

static void print_ids(int group)
{
    unsigned int real, effective, saved;

    syscall(group ? SYS_getresgid : SYS_getresuid, &real, &effective, &saved);
    printf(" %u,%u,%u fs %ld", real, effective, saved, syscall(group ? SYS_setfsgid : SYS_setfsuid, -1));
}

static void *change_in_thread(void *argument)
{
    struct change *change = argument;
    struct capabilities before, after;
    long ret;

    if (syscall(change->group ? SYS_setresgid : SYS_setresuid, change->start[0], change->start[1], change->start[2]))
        printf(" (start failed)");
    if (change->drop)
        syscall(SYS_setresuid, 7, 7, 7);
    before = capabilities_now();
    errno = 0;
    ret = syscall(change->call, change->values[0], change->values[1], change->values[2]);
    after = capabilities_now();
    printf("  %s:", outcome(ret));
    print_ids(change->group);
    printf(" caps %s%s -> %s%s\n", before.permitted ? "p" : "-", before.effective ? "e" : "-",
           after.permitted ? "p" : "-", after.effective ? "e" : "-");
    return NULL;
}

static void change_from_every_state(int group, int drop, long call, int arguments)
{
    static const long values[] = { -1, 0, 1, 2 };
    int combinations = arguments == 1 ? 4 : arguments == 2 ? 16 : 64;

    for (int state = 0; state < 27; state++) {
        long start[3] = { ids[state / 9], ids[state / 3 % 3], ids[state % 3] };
        printf("from %ld,%ld,%ld\n", start[0], start[1], start[2]);
        for (int i = 0; i < combinations; i++) {
            struct change change = { group, drop, call, arguments, { start[0], start[1], start[2] }, { 0 } };
            change.values[0] = values[i % 4];
            change.values[1] = values[i / 4 % 4];
            change.values[2] = values[i / 16 % 4];
            if (arguments == 1)
                printf(" %ld", change.values[0]);
            else if (arguments == 2)
                printf(" %ld %ld", change.values[0], change.values[1]);
            else
                printf(" %ld %ld %ld", change.values[0], change.values[1], change.values[2]);
            thread_join(thread_start(change_in_thread, &change));
        }
    }
}

CASE(setuid_from_every_state)
{
    change_from_every_state(0, 0, SYS_setuid, 1);
}

CASE(setreuid_from_every_state)
{
    change_from_every_state(0, 0, SYS_setreuid, 2);
}

CASE(setresuid_from_every_state)
{
    change_from_every_state(0, 0, SYS_setresuid, 3);
}

CASE(setfsuid_from_every_state)
{
    change_from_every_state(0, 0, SYS_setfsuid, 1);
}

CASE(setgid_by_root_from_every_state)
{
    change_from_every_state(1, 0, SYS_setgid, 1);
}

CASE(setregid_by_root_from_every_state)
{
    change_from_every_state(1, 0, SYS_setregid, 2);
}

CASE(setresgid_by_root_from_every_state)
{
    change_from_every_state(1, 0, SYS_setresgid, 3);
}

CASE(setgid_by_others_from_every_state)
{
    change_from_every_state(1, 1, SYS_setgid, 1);
}

CASE(setregid_by_others_from_every_state)
{
    change_from_every_state(1, 1, SYS_setregid, 2);
}

CASE(setresgid_by_others_from_every_state)
{
    change_from_every_state(1, 1, SYS_setresgid, 3);
}

CASE(setfsgid_by_root_from_every_state)
{
    change_from_every_state(1, 0, SYS_setfsgid, 1);
}

CASE(setfsgid_by_others_from_every_state)
{
    change_from_every_state(1, 1, SYS_setfsgid, 1);
}

/* ---- processes, threads and libc ---- */

static void *other_thread_ids(void *argument)
{
    (void)argument;
    return (void *)(long)getuid();
}

static void libc_changes_all_threads(void *argument)
{
    (void)argument;
    pthread_t thread;
    int ends[2];
    char byte;

    MUST(pipe(ends));
    show("setuid", setuid(1000));
    thread = thread_start(other_thread_ids, NULL);
    number("a new thread has it", (long)thread_join(thread));
    show("setuid back", setuid(0));
    show("read", read(ends[0], &byte, 0));
}

CASE(libc_changes_the_process)
{
    in_child(libc_changes_all_threads, NULL);
    number("the parent has its own", getuid());
}

static int waiting_thread[2];

static void *wait_and_tell(void *argument)
{
    char byte;

    (void)argument;
    if (read(waiting_thread[0], &byte, 1) != 1)
        return (void *)-1L;
    return (void *)(long)(geteuid() * 10000 + getegid());
}

static void change_with_a_waiting_thread(void *argument)
{
    pthread_t thread;

    (void)argument;
    MUST(pipe(waiting_thread));
    thread = thread_start(wait_and_tell, NULL);
    sleep_ms(20);
    show("setresgid", setresgid(3, 3, 3));
    show("setresuid", setresuid(2, 2, 2));
    MUST(write(waiting_thread[1], "x", 1));
    number("the waiting thread has them", (long)thread_join(thread));
}

CASE(libc_changes_threads_that_wait)
{
    in_child(change_with_a_waiting_thread, NULL);
}

static void *raw_change(void *argument)
{
    (void)argument;
    show("raw setresuid", syscall(SYS_setresuid, 5, 5, 5));
    return (void *)(long)syscall(SYS_getuid);
}

CASE(raw_changes_are_of_one_thread)
{
    number("in the thread", (long)thread_join(thread_start(raw_change, NULL)));
    number("here", getuid());
}

static void show_inherited(void *argument)
{
    gid_t groups[8];
    int count;

    (void)argument;
    count = getgroups(8, groups);
    printf("uid %d %d gid %d %d groups %d\n", getuid(), geteuid(), getgid(), getegid(), count);
    for (int i = 0; i < count; i++)
        number("group", groups[i]);
}

static void fork_again(void *argument)
{
    MUST(setresuid(1, 2, 3));
    in_child(show_inherited, argument);
}

CASE(children_inherit)
{
    struct user user = { "many", 1000, 1001, 1002 };
    as_user(&user, show_inherited, NULL);
    in_child(fork_again, NULL);
}

/* ---- groups ---- */

static void groups_work(void *argument)
{
    gid_t many[] = { 30, 10, 20, 10 };
    gid_t got[8] = { 0 };

    (void)argument;
    show("setgroups", setgroups(4, many));
    show("getgroups counts", getgroups(0, NULL));
    show("getgroups", getgroups(8, got));
    printf("in order: %d %d %d %d\n", got[0], got[1], got[2], got[3]);
    show("too little room", getgroups(3, got));
    show("negative", syscall(SYS_getgroups, -1, got));
    show("bad address", syscall(SYS_getgroups, 8, 8L));
    show("setgroups bad address", syscall(SYS_setgroups, 2, 8L));
    show("setgroups too many", syscall(SYS_setgroups, 65537, many));
    show("setgroups negative", syscall(SYS_setgroups, -1, many));
    many[1] = -1;
    show("setgroups of nobody", setgroups(2, many));
    show("setgroups none", setgroups(0, NULL));
    show("getgroups none", getgroups(8, got));
}

CASE(supplementary_groups)
{
    in_child(groups_work, NULL);
}

static void groups_of_others(void *argument)
{
    gid_t one[] = { 1000 };

    (void)argument;
    show("setgroups", setgroups(1, one));
    show("setgroups none", setgroups(0, NULL));
    show("setgroups too many", syscall(SYS_setgroups, 65537, one));
    show("getgroups", getgroups(0, NULL));
}

CASE(setgroups_needs_a_capability)
{
    as_user(&alice, groups_of_others, NULL);
}

CASE(ids_of_nobody)
{
    show("setuid", syscall(SYS_setuid, -1));
    show("setgid", syscall(SYS_setgid, -1));
    show("setreuid", syscall(SYS_setreuid, -1, -1));
    show("setresuid", syscall(SYS_setresuid, -1, -1, -1));
    show("setresgid", syscall(SYS_setresgid, -1, -1, -1));
    show("setfsuid", syscall(SYS_setfsuid, -1));
    show("getresuid bad address", syscall(SYS_getresuid, 8L, 8L, 8L));
}

/* ---- capabilities ---- */

CASE(capget_versions)
{
    uint32_t header[2] = { 0x19980330, 0 };
    uint32_t data[6] = { 9, 9, 9, 9, 9, 9 };

    show("version 1", syscall(SYS_capget, header, data));
    truth("three words only", data[3] == 9 && data[4] == 9 && data[5] == 9);
    header[0] = 0x20071026;
    show("version 2", syscall(SYS_capget, header, data));
    truth("six words", data[5] != 9);
    header[0] = 0x20080522;
    show("version 3", syscall(SYS_capget, header, data));
    show("without data", syscall(SYS_capget, header, NULL));
    header[0] = 0;
    show("unknown version", syscall(SYS_capget, header, data));
    truth("the preferred one", header[0] == 0x20080522);
    header[0] = 0;
    show("probe", syscall(SYS_capget, header, NULL));
    truth("the preferred one", header[0] == 0x20080522);
    header[1] = -1;
    show("negative thread", syscall(SYS_capget, header, data));
    header[1] = 0x3ffffff;
    show("no such thread", syscall(SYS_capget, header, data));
    header[1] = getpid();
    show("itself by number", syscall(SYS_capget, header, data));
    show("bad header", syscall(SYS_capget, 8L, data));
    show("bad data", syscall(SYS_capget, header, 8L));
}

static void drop_and_raise(void *argument)
{
    struct capabilities set = capabilities_now(), own = set;

    (void)argument;
    set.effective = 1 << CAP_CHOWN;
    show("lower effective", capabilities_set(set));
    truth("it is so", capabilities_now().effective == 1 << CAP_CHOWN);
    show("raise again", capabilities_set(own));
    set = own;
    set.permitted = set.effective = 1 << CAP_CHOWN | 1 << CAP_SETUID;
    show("lower permitted", capabilities_set(set));
    show("raise permitted", capabilities_set(own));
    set.effective = 1 << CAP_KILL;
    show("effective beyond permitted", capabilities_set(set));
    set = capabilities_now();
    set.inheritable = 1 << CAP_CHOWN;
    show("inheritable from permitted", capabilities_set(set));
    set.inheritable = 1 << CAP_KILL;
    show("inheritable beyond", capabilities_set(set));
    show("setgid without its capability", setgid(5));
    show("setuid with it", setuid(5));
    truth("nothing is left", !capabilities_now().permitted && !capabilities_now().effective);
}

CASE(capabilities_go_and_do_not_come_back)
{
    in_child(drop_and_raise, NULL);
}

static void set_for_others(void *argument)
{
    uint32_t header[2] = { 0x20080522, 0 };
    uint32_t data[6] = { 0 };

    (void)argument;
    header[1] = getppid();
    show("capset of another", syscall(SYS_capset, header, data));
    header[1] = getpid();
    show("capset of itself by number", syscall(SYS_capset, header, data));
    show("capset nothing more", syscall(SYS_capset, header, data));
    header[0] = 1;
    show("unknown version", syscall(SYS_capset, header, data));
}

CASE(capset_is_for_oneself)
{
    in_child(set_for_others, NULL);
}

static void keep(void *argument)
{
    (void)argument;
    show("PR_GET_KEEPCAPS", prctl(PR_GET_KEEPCAPS));
    show("PR_SET_KEEPCAPS", prctl(PR_SET_KEEPCAPS, 1));
    show("PR_GET_KEEPCAPS", prctl(PR_GET_KEEPCAPS));
    show("PR_SET_KEEPCAPS 2", prctl(PR_SET_KEEPCAPS, 2));
    MUST(syscall(SYS_setresuid, 1000, 1000, 1000));
    truth("permitted", capabilities_now().permitted != 0);
    truth("effective", capabilities_now().effective != 0);
    struct capabilities set = capabilities_now();
    set.effective = 1 << CAP_NET_BIND_SERVICE;
    show("capset", capabilities_set(set));
    number("uid", getuid());
    show("setuid", setuid(0));
}

CASE(keeping_capabilities)
{
    in_child(keep, NULL);
}

static void secure_bits(void *argument)
{
    (void)argument;
    show("get", prctl(PR_GET_SECUREBITS));
    show("set NO_SETUID_FIXUP", prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP));
    MUST(syscall(SYS_setresuid, 1000, 1000, 1000));
    truth("still effective", capabilities_now().effective != 0);
    show("lock", prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED));
    show("unlock", prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP));
    show("take back", prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP_LOCKED));
    show("more", prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_NOROOT));
    show("unknown", prctl(PR_SET_SECUREBITS, 0x10000));
    show("get", prctl(PR_GET_SECUREBITS));
}

CASE(secure_bits_are_kept_and_locked)
{
    in_child(secure_bits, NULL);
}

static void secure_bits_of_others(void *argument)
{
    (void)argument;
    show("set", prctl(PR_SET_SECUREBITS, SECBIT_NOROOT));
    show("set the same", prctl(PR_SET_SECUREBITS, 0));
    show("PR_SET_KEEPCAPS", prctl(PR_SET_KEEPCAPS, 1));
    show("PR_CAPBSET_DROP", prctl(PR_CAPBSET_DROP, CAP_CHOWN));
    show("PR_CAPBSET_READ", prctl(PR_CAPBSET_READ, CAP_CHOWN));
}

CASE(secure_bits_need_a_capability)
{
    as_user(&alice, secure_bits_of_others, NULL);
}

static void bounding(void *argument)
{
    (void)argument;
    show("read", prctl(PR_CAPBSET_READ, CAP_KILL));
    show("drop", prctl(PR_CAPBSET_DROP, CAP_KILL));
    show("read", prctl(PR_CAPBSET_READ, CAP_KILL));
    show("read unknown", prctl(PR_CAPBSET_READ, 63));
    show("drop unknown", prctl(PR_CAPBSET_DROP, 63));
    truth("what is permitted stays", capabilities_now().permitted >> CAP_KILL & 1);
}

CASE(the_bounding_set)
{
    in_child(bounding, NULL);
}

static void ambient(void *argument)
{
    struct capabilities set = capabilities_now();

    (void)argument;
    show("is set", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_KILL, 0, 0));
    show("raise what is not inheritable", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_KILL, 0, 0));
    set.inheritable = 1 << CAP_KILL;
    show("capset", capabilities_set(set));
    show("raise", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_KILL, 0, 0));
    show("is set", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_KILL, 0, 0));
    show("lower", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_LOWER, CAP_KILL, 0, 0));
    show("is set", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_KILL, 0, 0));
    show("raise", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_KILL, 0, 0));
    show("clear", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0));
    show("is set", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_KILL, 0, 0));
    show("unknown capability", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 63, 0, 0));
    show("unknown command", prctl(PR_CAP_AMBIENT, 9, 0, 0, 0));
    show("rest not zero", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_KILL, 1, 0));
    show("raise", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_KILL, 0, 0));
    set.inheritable = 0;
    show("capset without inheritable", capabilities_set(set));
    show("is set", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_KILL, 0, 0));
}

CASE(ambient_capabilities)
{
    in_child(ambient, NULL);
}

static void file_capabilities(void *argument)
{
    (void)argument;
    uint64_t files = 1 << CAP_CHOWN | 1 << CAP_DAC_OVERRIDE | 1 << CAP_DAC_READ_SEARCH | 1 << CAP_FOWNER | 1 << CAP_FSETID;
    truth("before", (capabilities_now().effective & files) == files);
    setfsuid(1000);
    truth("away with another file user", !(capabilities_now().effective & files));
    truth("others stay", capabilities_now().effective >> CAP_SETUID & 1);
    setfsuid(0);
    truth("back with root's", (capabilities_now().effective & files) == files);
}

CASE(capabilities_for_files_follow_the_file_user)
{
    in_child(file_capabilities, NULL);
}

/* ---- programs ---- */

/* Run in place of the cases when the program is executed by one of them. */
__attribute__((constructor)) static void show_program(void)
{
    uid_t real, effective, saved;
    gid_t group_real, group_effective, group_saved;

    if (!getenv("SHOW_PROGRAM"))
        return;
    getresuid(&real, &effective, &saved);
    getresgid(&group_real, &group_effective, &group_saved);
    struct capabilities set = capabilities_now();
    printf("uid %d %d %d fs %ld gid %d %d %d fs %ld secure %lu euid %lu caps %s%s%s dumpable %d keep %d\n", real, effective,
           saved, syscall(SYS_setfsuid, -1), group_real, group_effective, group_saved, syscall(SYS_setfsgid, -1),
           getauxval(AT_SECURE), getauxval(AT_EUID), set.permitted ? "p" : "-", set.effective ? "e" : "-",
           set.inheritable ? "i" : "-", prctl(PR_GET_DUMPABLE) == 1, prctl(PR_GET_KEEPCAPS));
    fflush(stdout);
    _exit(0);
}

/* A copy of this program with an owner and a mode of its own. */
static void copy_program(const char *to, uid_t uid, gid_t gid, mode_t mode)
{
    char data[65536];
    long length;
    int in = MUST(open("/proc/self/exe", O_RDONLY));
    int out = MUST(open(to, O_WRONLY | O_CREAT | O_TRUNC, 0755));

    while ((length = MUST(read(in, data, sizeof data))) > 0)
        MUST(write(out, data, length));
    close(in);
    MUST(close(out));
    MUST(chown(to, uid, gid));
    MUST(chmod(to, mode));
}

struct execution {
    const char *path;
    int no_new_privileges;
    long before[3]; /* real, effective, saved; -1 for nothing to do */
};

static void execute(void *argument)
{
    struct execution *execution = argument;
    char *argv[] = { (char *)execution->path, NULL };
    char *environment[] = { "SHOW_PROGRAM=1", NULL };

    if (execution->no_new_privileges)
        MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    if (execution->before[0] != -1)
        MUST(setresuid(execution->before[0], execution->before[1], execution->before[2]));
    execve(execution->path, argv, environment);
    printf("execve: %s\n", errno_name(errno));
}

CASE(programs_that_lend_their_owners_ids)
{
    static const mode_t modes[] = { 0755, 04755, 02755, 06755, 02745, 04711 };
    static const struct user *users[] = { &root_user, &alice };

    scratch();
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        copy_program("program", 1001, 1001, modes[i]);
        for (size_t who = 0; who < COUNT_OF(users); who++) {
            for (int no_new = 0; no_new < 2; no_new++) {
                struct execution execution = { "./program", no_new, { -1, -1, -1 } };
                printf("mode %04o by %s%s: ", modes[i], users[who]->name, no_new ? " without new privileges" : "");
                as_user(users[who], execute, &execution);
            }
        }
    }
}

CASE(programs_of_root_give_capabilities)
{
    scratch();
    copy_program("program", 0, 0, 04755);
    struct execution execution = { "./program", 0, { -1, -1, -1 } };
    as_user(&alice, execute, &execution);
    execution.no_new_privileges = 1;
    as_user(&alice, execute, &execution);
}

CASE(programs_begin_with_the_saved_ids)
{
    static const long states[][3] = { { 0, 0, 0 }, { 0, 5, 5 }, { 5, 0, 0 }, { 5, 5, 0 }, { 5, 6, 7 }, { 0, 5, 0 } };

    scratch();
    copy_program("program", 0, 0, 0755);
    for (size_t i = 0; i < COUNT_OF(states); i++) {
        struct execution execution = { "./program", 0, { states[i][0], states[i][1], states[i][2] } };
        printf("from %ld,%ld,%ld: ", states[i][0], states[i][1], states[i][2]);
        in_child(execute, &execution);
    }
}

static void execute_with_ambient(void *argument)
{
    struct capabilities set = capabilities_now();

    set.inheritable = 1 << CAP_KILL;
    MUST(capabilities_set(set));
    MUST(prctl(PR_SET_KEEPCAPS, 1));
    MUST(setresuid(1000, 1000, 1000));
    set = capabilities_now();
    set.effective = set.permitted;
    MUST(capabilities_set(set));
    MUST(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_KILL, 0, 0));
    execute(argument);
}

CASE(ambient_capabilities_survive_programs)
{
    scratch();
    copy_program("program", 0, 0, 0755);
    struct execution execution = { "./program", 0, { -1, -1, -1 } };
    in_child(execute_with_ambient, &execution);
}

CASE(scripts_lend_nothing)
{
    scratch();
    copy_program("program", 0, 0, 0755);
    int fd = MUST(open("script", O_WRONLY | O_CREAT, 0755));
    char line[PATH_LIMIT + 16];
    snprintf(line, sizeof line, "#!./program\n");
    MUST(write(fd, line, strlen(line)));
    close(fd);
    MUST(chown("script", 1001, 1001));
    MUST(chmod("script", 06755));
    struct execution execution = { "./script", 0, { -1, -1, -1 } };
    as_user(&alice, execute, &execution);
}

static void dumpable(void *argument)
{
    (void)argument;
    show("before", prctl(PR_GET_DUMPABLE));
    show("PR_SET_PDEATHSIG", prctl(PR_SET_PDEATHSIG, SIGTERM));
    show("setresuid", setresuid(1000, 1000, 1000));
    truth("not dumpable", prctl(PR_GET_DUMPABLE) != 1);
    int signal = -1;
    prctl(PR_GET_PDEATHSIG, &signal);
    number("death signal", signal);
    show("set", prctl(PR_SET_DUMPABLE, 1));
    show("after", prctl(PR_GET_DUMPABLE));
    show("setresuid the same", setresuid(1000, 1000, 1000));
    show("after", prctl(PR_GET_DUMPABLE));
}

CASE(who_becomes_another_is_closed_to_others)
{
    in_child(dumpable, NULL);
}

/* ---- signals ---- */

struct meeting {
    long target[3];
    long sender[3];
    pid_t pid;
};

static void sit(void *argument)
{
    struct meeting *meeting = argument;

    MUST(setresuid(meeting->target[0], meeting->target[1], meeting->target[2]));
    MUST(write(waiting_thread[1], "x", 1));
    for (;;)
        pause();
}

static void signal_it(void *argument)
{
    struct meeting *meeting = argument;

    MUST(setresuid(meeting->sender[0], meeting->sender[1], meeting->sender[2]));
    printf(" 0: %s", outcome(kill(meeting->pid, 0)));
    printf(" CONT: %s", outcome(kill(meeting->pid, SIGCONT)));
    printf(" tgkill: %s", outcome(syscall(SYS_tgkill, meeting->pid, meeting->pid, SIGURG)));
    printf(" queue: %s", outcome(sigqueue(meeting->pid, SIGURG, (union sigval){ 0 })));
    printf(" bad: %s", outcome(kill(meeting->pid, 99)));
    printf(" TERM: %s\n", outcome(kill(meeting->pid, SIGTERM)));
}

static void meet(struct meeting meeting)
{
    char byte;
    int status;

    MUST(pipe(waiting_thread));
    fflush(stdout);
    meeting.pid = MUST(fork());
    if (meeting.pid == 0)
        sit(&meeting);
    MUST(read(waiting_thread[0], &byte, 1));
    printf("%ld,%ld,%ld to %ld,%ld,%ld:", meeting.sender[0], meeting.sender[1], meeting.sender[2], meeting.target[0],
           meeting.target[1], meeting.target[2]);
    in_child(signal_it, &meeting);
    kill(meeting.pid, SIGKILL);
    MUST(waitpid(meeting.pid, &status, 0));
    close(waiting_thread[0]);
    close(waiting_thread[1]);
}

CASE(who_may_signal_whom)
{
    static const long senders[][3] = { { 0, 0, 0 }, { 1, 1, 1 }, { 1, 2, 2 }, { 2, 1, 1 }, { 3, 3, 1 } };
    static const long targets[][3] = { { 0, 0, 0 }, { 1, 1, 1 }, { 1, 2, 2 }, { 2, 1, 2 }, { 2, 2, 1 } };

    for (size_t i = 0; i < COUNT_OF(senders); i++) {
        for (size_t j = 0; j < COUNT_OF(targets); j++) {
            struct meeting meeting = { { 0 }, { 0 }, 0 };
            memcpy(meeting.sender, senders[i], sizeof senders[i]);
            memcpy(meeting.target, targets[j], sizeof targets[j]);
            meet(meeting);
        }
    }
}

static void signal_group(void *argument)
{
    struct meeting *meeting = argument;

    MUST(setresuid(1000, 1000, 1000));
    show("group", kill(-meeting->pid, SIGTERM));
    show("group, question", kill(-meeting->pid, 0));
}

CASE(groups_of_others_are_out_of_reach)
{
    struct meeting meeting = { { 1001, 1001, 1001 }, { 0 }, 0 };
    int status;
    char byte;

    MUST(pipe(waiting_thread));
    fflush(stdout);
    meeting.pid = MUST(fork());
    if (meeting.pid == 0) {
        MUST(setpgid(0, 0));
        sit(&meeting);
    }
    MUST(read(waiting_thread[0], &byte, 1));
    in_child(signal_group, &meeting);
    show("root", kill(-meeting.pid, SIGTERM));
    MUST(waitpid(meeting.pid, &status, 0));
    truth("ended by it", WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

static volatile sig_atomic_t sender_uid = -1;

static void note_sender(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    sender_uid = info->si_uid;
}

static void signal_parent(void *argument)
{
    (void)argument;
    MUST(setresuid(1234, 0, 0));
    show("kill", kill(getppid(), SIGUSR1));
}

CASE(signals_name_their_senders)
{
    struct sigaction action = { .sa_sigaction = note_sender, .sa_flags = SA_SIGINFO };
    siginfo_t info;

    MUST(sigaction(SIGUSR1, &action, NULL));
    in_child(signal_parent, NULL);
    for (int i = 0; i < 50 && sender_uid == -1; i++)
        sleep_ms(2);
    number("its real user", sender_uid);
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0) {
        MUST(setresuid(77, 78, 79));
        _exit(0);
    }
    MUST(waitid(P_PID, child, &info, WEXITED));
    number("a child's real user", info.si_uid);
}

/* ---- sockets ---- */

static int pair[2];

static void *peer_of_pair(void *argument)
{
    struct ucred peer;
    socklen_t size = sizeof peer;

    (void)argument;
    MUST(syscall(SYS_setresgid, 3, 4, 5));
    MUST(syscall(SYS_setresuid, 1, 2, 3));
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    show("SO_PEERCRED", getsockopt(pair[0], SOL_SOCKET, SO_PEERCRED, &peer, &size));
    printf("uid %d gid %d own pid %d\n", peer.uid, peer.gid, peer.pid == getpid());
    return NULL;
}

CASE(peers_are_known_by_their_effective_ids)
{
    thread_join(thread_start(peer_of_pair, NULL));
}

static void *groups_of_peers(void *argument)
{
    const gid_t groups[] = { 30, 10, 20 }, later[] = { 7 };
    const int sizes[] = { 16, 12, 11, 4, 0 };
    gid_t known[4] = { 0 };
    int single = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    socklen_t size = sizeof known;

    (void)argument;
    MUST(syscall(SYS_setgroups, 3, groups));
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    MUST(syscall(SYS_setgroups, 1, later));
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        size = sizes[i];
        show("SO_PEERGROUPS", getsockopt(pair[0], SOL_SOCKET, SO_PEERGROUPS, known, &size));
        printf("%u: %u %u %u\n", size, known[0], known[1], known[2]);
    }
    show("without a peer", getsockopt(single, SOL_SOCKET, SO_PEERGROUPS, known, &size));
    show("set", setsockopt(pair[0], SOL_SOCKET, SO_PEERGROUPS, known, sizeof known));
    return NULL;
}

CASE(peers_are_known_by_their_groups_of_then)
{
    thread_join(thread_start(groups_of_peers, NULL));
}

static void *send_claims(void *argument)
{
    static const struct ucred claims[] = { { 0, 0, 0 }, { 0, 1, 3 }, { 0, 2, 4 }, { 0, 3, 5 }, { 0, 9, 3 }, { 0, 1, 9 }, { 1, 1, 3 } };
    char byte = 'x';
    struct iovec part = { &byte, 1 };
    union {
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr align;
    } control;

    if (argument)
        MUST(syscall(SYS_setresuid, 1, 2, 3));
    for (size_t i = 0; i < COUNT_OF(claims); i++) {
        struct ucred claim = claims[i];
        struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        if (claim.pid == 0)
            claim.pid = getpid();
        *head = (struct cmsghdr){ CMSG_LEN(sizeof claim), SOL_SOCKET, SCM_CREDENTIALS };
        memcpy(CMSG_DATA(head), &claim, sizeof claim);
        printf("claim uid %d gid %d%s: ", claim.uid, claim.gid, claims[i].pid ? " of process 1" : "");
        show("sendmsg", sendmsg(pair[0], &message, MSG_DONTWAIT));
    }
    return NULL;
}

static void claims_of(void *argument)
{
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
    MUST(syscall(SYS_setresgid, 3, 4, 5));
    thread_join(thread_start(send_claims, argument));
}

CASE(claims_of_others_are_refused)
{
    in_child(claims_of, (void *)1);
}

static void receive_credentials(void *argument)
{
    char byte;
    struct iovec part = { &byte, 1 };
    union {
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr align;
    } control;
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
    int on = 1;
    struct ucred got;

    (void)argument;
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
    MUST(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on));
    MUST(setresgid(3, 4, 5));
    MUST(setresuid(1, 2, 3));
    MUST(write(pair[0], "x", 1));
    show("recvmsg", recvmsg(pair[1], &message, 0));
    memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
    printf("uid %d gid %d own pid %d\n", got.uid, got.gid, got.pid == getpid());
}

CASE(messages_carry_the_real_ids)
{
    in_child(receive_credentials, NULL);
}

/* ---- what only root may ---- */

static void privileged_calls(void *argument)
{
    struct rlimit limit;
    struct timespec time = { 1, 0 };

    (void)argument;
    show("sethostname", sethostname("x", 1));
    show("clock_settime", clock_settime(CLOCK_REALTIME, &time));
    show("chroot", chroot("/"));
    show("setpriority lower", setpriority(PRIO_PROCESS, 0, -5));
    show("setpriority higher", setpriority(PRIO_PROCESS, 0, 5));
    show("setpriority back", setpriority(PRIO_PROCESS, 0, 0));
    show("nice of root's", setpriority(PRIO_PROCESS, getppid(), 5));
    show("prlimit of root's", prlimit(getppid(), RLIMIT_NOFILE, NULL, &limit));
    MUST(getrlimit(RLIMIT_NPROC, &limit));
    limit.rlim_cur = limit.rlim_max = 100;
    show("lower a hard limit", setrlimit(RLIMIT_NPROC, &limit));
    limit.rlim_max = 101;
    show("raise a hard limit", setrlimit(RLIMIT_NPROC, &limit));
    limit.rlim_cur = 50;
    limit.rlim_max = 100;
    show("lower a soft limit", setrlimit(RLIMIT_NPROC, &limit));
    limit.rlim_cur = 100;
    show("raise it again", setrlimit(RLIMIT_NPROC, &limit));
    show("mknod of a device", mknod("device", S_IFCHR | 0600, 0x103));
}

CASE(what_root_alone_may)
{
    struct user user = alice;

    scratch();
    MUST(chmod(".", 0777));
    as_user(&user, privileged_calls, NULL);
}

static void sit_with_pipe(void *argument)
{
    (void)argument;
    MUST(write(waiting_thread[1], "x", 1));
    for (;;)
        pause();
}

static void touch_another(void *argument)
{
    pid_t pid = *(pid_t *)argument;
    struct rlimit limit;
    char path[64], target[PATH_LIMIT];

    show("getpriority", getpriority(PRIO_PROCESS, pid) == -1 ? -1 : 0);
    show("setpriority", setpriority(PRIO_PROCESS, pid, 3));
    /* Root may lack CAP_SYS_RESOURCE natively. */
    if (getuid())
        show("prlimit", prlimit(pid, RLIMIT_NOFILE, NULL, &limit));
    show("getpgid", getpgid(pid) == -1 ? -1 : 0);
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    show("exe", readlink(path, target, sizeof target) == -1 ? -1 : 0);
    snprintf(path, sizeof path, "/proc/%d/cwd", pid);
    show("cwd", readlink(path, target, sizeof target) == -1 ? -1 : 0);
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    show_ok("environ", open(path, O_RDONLY));
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    show_ok("fd", open(path, O_RDONLY));
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    show_ok("status", open(path, O_RDONLY));
    snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    show_ok("cmdline", open(path, O_RDONLY));
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    show_ok("comm to write", open(path, O_WRONLY));
    snprintf(path, sizeof path, "/proc/%d/oom_score_adj", pid);
    show_ok("oom_score_adj to write", open(path, O_WRONLY));
    snprintf(path, sizeof path, "/proc/%d/limits", pid);
    show_ok("limits", open(path, O_RDONLY));
}

CASE(processes_of_others)
{
    static const struct user *users[] = { &root_user, &bob, &nobody };
    int status;
    char byte;
    pid_t pid;

    MUST(pipe(waiting_thread));
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        become(&bob);
        sit_with_pipe(NULL);
    }
    MUST(read(waiting_thread[0], &byte, 1));
    for (size_t i = 0; i < COUNT_OF(users); i++) {
        printf("as %s\n", users[i]->name);
        as_user(users[i], touch_another, &pid);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
}

/* ---- /proc ---- */

static void status_lines(void *argument)
{
    char line[512];
    FILE *file = fopen("/proc/self/status", "r");

    (void)argument;
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, "Uid:", 4) || !strncmp(line, "Gid:", 4) || !strncmp(line, "Groups:", 7) ||
            !strncmp(line, "NoNewPrivs:", 11) || !strncmp(line, "CapEff:", 7) || !strncmp(line, "CapPrm:", 7) ||
            !strncmp(line, "CapAmb:", 7))
            fputs(line, stdout);
    if (file)
        fclose(file);
}

static void status_of_mixed(void *argument)
{
    gid_t groups[] = { 9, 8 };

    MUST(setgroups(2, groups));
    MUST(setresgid(4, 5, 6));
    MUST(setresuid(1, 2, 3));
    setfsuid(3);
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    status_lines(argument);
}

CASE(status_shows_ids)
{
    in_child(status_of_mixed, NULL);
    as_user(&alice, status_lines, NULL);
}

static void owner_of_own_files(void *argument)
{
    static const char *files[] = { "/proc/self/status", "/proc/self/environ", "/proc/self/fd", "/proc/self/task", "/proc/self/." };
    struct stat stat;

    (void)argument;
    for (int dumpable = 0; dumpable < 2; dumpable++) {
        MUST(prctl(PR_SET_DUMPABLE, dumpable));
        for (size_t i = 0; i < COUNT_OF(files); i++) {
            MUST(lstat(files[i], &stat));
            printf("%s: %d %d %o\n", files[i], stat.st_uid, stat.st_gid, stat.st_mode);
        }
        show_ok("environ", open("/proc/self/environ", O_RDONLY));
    }
}

CASE(own_files_in_proc_have_the_effective_owner)
{
    as_user(&alice, owner_of_own_files, NULL);
}
