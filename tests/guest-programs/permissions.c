/*
 * Who may do what with files: mode bits by class and operation, sticky and
 * set-group-id directories, changes of modes, owners and times, chroot.
 */
#include "users.h"

#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <utime.h>
#include <sys/xattr.h>

static const struct user owner = { "owner", 1000, 1000, 0 };
static const struct user member = { "member", 1001, 1000, 0 };
static const struct user other_member = { "supplementary member", 1002, 1002, 1000 };
static const struct user other = { "other", 1003, 1003, 0 };

static const struct user *everyone[] = { &root_user, &owner, &member, &other_member, &other };

/* A directory that everybody may change. */
static void open_scratch(void)
{
    scratch();
    MUST(chmod(".", 0777));
}

static void make_file(const char *name, uid_t uid, gid_t gid, mode_t mode)
{
    file_make(name, "data");
    MUST(chown(name, uid, gid));
    MUST(chmod(name, mode));
}

static void make_directory(const char *name, uid_t uid, gid_t gid, mode_t mode)
{
    MUST(mkdir(name, 0700));
    MUST(chown(name, uid, gid));
    MUST(chmod(name, mode));
}

static long try_open(const char *name, int flags)
{
    int fd = open(name, flags, 0666);

    if (fd != -1)
        close(fd);
    return fd;
}

/* ---- files: every mode of the three classes ---- */

static void use_file(void *argument)
{
    (void)argument;
    printf(" read %s", outcome(try_open("file", O_RDONLY)));
    printf(" write %s", outcome(try_open("file", O_WRONLY)));
    printf(" both %s", outcome(try_open("file", O_RDWR)));
    printf(" append %s", outcome(try_open("file", O_WRONLY | O_APPEND)));
    printf(" path %s", outcome(try_open("file", O_PATH)));
    printf(" creat %s", outcome(try_open("file", O_CREAT | O_WRONLY)));
    printf(" R %s", outcome(access("file", R_OK)));
    printf(" W %s", outcome(access("file", W_OK)));
    printf(" X %s", outcome(access("file", X_OK)));
    printf(" RW %s", outcome(access("file", R_OK | W_OK)));
    printf(" F %s", outcome(access("file", F_OK)));
    printf(" truncate %s", outcome(truncate("file", 4)));
    printf(" O_TRUNC %s\n", outcome(try_open("file", O_RDONLY | O_TRUNC)));
}

static void files_by_mode(const struct user *user, int shift)
{
    open_scratch();
    for (int mode = 0; mode < 8; mode++) {
        make_file("file", 1000, 1000, mode << shift);
        printf("%04o:", mode << shift);
        as_user(user, use_file, NULL);
        MUST(unlink("file"));
    }
}

CASE(files_for_their_owner) { files_by_mode(&owner, 6); }
CASE(files_for_their_owner_by_group_bits) { files_by_mode(&owner, 3); }
CASE(files_for_their_owner_by_other_bits) { files_by_mode(&owner, 0); }
CASE(files_for_a_member) { files_by_mode(&member, 3); }
CASE(files_for_a_member_by_owner_bits) { files_by_mode(&member, 6); }
CASE(files_for_a_member_by_other_bits) { files_by_mode(&member, 0); }
CASE(files_for_a_supplementary_member) { files_by_mode(&other_member, 3); }
CASE(files_for_a_supplementary_member_by_other_bits) { files_by_mode(&other_member, 0); }
CASE(files_for_others) { files_by_mode(&other, 0); }
CASE(files_for_others_by_group_bits) { files_by_mode(&other, 3); }
CASE(files_for_root_by_owner_bits) { files_by_mode(&root_user, 6); }
CASE(files_for_root_by_other_bits) { files_by_mode(&root_user, 0); }

/* ---- directories ---- */

static void use_directory(void *argument)
{
    struct stat stat;

    (void)argument;
    printf(" list %s", outcome(try_open("dir", O_RDONLY | O_DIRECTORY)));
    printf(" write %s", outcome(try_open("dir", O_WRONLY)));
    printf(" stat %s", outcome(lstat("dir/file", &stat)));
    printf(" missing %s", outcome(lstat("dir/missing", &stat)));
    printf(" dot %s", outcome(lstat("dir/.", &stat)));
    printf(" up %s", outcome(lstat("dir/..", &stat)));
    printf(" open %s", outcome(try_open("dir/file", O_RDONLY)));
    printf(" creat %s", outcome(try_open("dir/new", O_CREAT | O_WRONLY)));
    printf(" excl %s", outcome(try_open("dir/file", O_CREAT | O_EXCL | O_WRONLY)));
    printf(" mkdir %s", outcome(mkdir("dir/sub", 0777)));
    printf(" mkdir there %s", outcome(mkdir("dir/file", 0777)));
    printf(" symlink %s", outcome(symlink("x", "dir/symlink")));
    printf(" link %s", outcome(link("own", "dir/link")));
    printf(" fifo %s", outcome(mkfifo("dir/fifo", 0666)));
    printf(" rename in %s", outcome(rename("own", "dir/moved")));
    printf(" rename %s", outcome(rename("dir/file", "dir/renamed")));
    printf(" rename back %s", outcome(rename("dir/renamed", "dir/file")));
    printf(" rmdir %s", outcome(rmdir("dir/sub")));
    printf(" unlink %s", outcome(unlink("dir/file")));
    printf(" unlink dir %s", outcome(unlink("dir/kept")));
    printf(" X %s", outcome(access("dir", X_OK)));
    printf(" W %s", outcome(access("dir", W_OK)));
    printf(" chdir %s\n", outcome(chdir("dir")));
}

static void directories_by_mode(const struct user *user, int shift)
{
    open_scratch();
    for (int mode = 0; mode < 8; mode++) {
        make_directory("dir", 1000, 1000, mode << shift);
        MUST(mkdir("dir/kept", 0777));
        make_file("dir/file", 1000, 1000, 0666);
        make_file("own", user->uid, user->gid, 0666);
        printf("%04o:", mode << shift);
        as_user(user, use_directory, NULL);
        case_remove_tree(AT_FDCWD, "dir");
        unlink("own");
    }
}

CASE(directories_for_their_owner) { directories_by_mode(&owner, 6); }
CASE(directories_for_their_owner_by_other_bits) { directories_by_mode(&owner, 0); }
CASE(directories_for_a_member) { directories_by_mode(&member, 3); }
CASE(directories_for_a_supplementary_member) { directories_by_mode(&other_member, 3); }
CASE(directories_for_others) { directories_by_mode(&other, 0); }
CASE(directories_for_others_by_group_bits) { directories_by_mode(&other, 3); }
CASE(directories_for_root) { directories_by_mode(&root_user, 0); }

static void search_deep(void *argument)
{
    struct stat stat;

    (void)argument;
    show("a/b/c", lstat("a/b/c", &stat));
    show("a/b", lstat("a/b", &stat));
    show("a/link/c", lstat("a/link/c", &stat));
    show("a/b/../x", lstat("a/b/../x", &stat));
    show("a/x/y", lstat("a/x/y", &stat));
    show("chdir a/b", chdir("a/b"));
}

CASE(every_directory_on_the_way_is_searched)
{
    open_scratch();
    make_directory("a", 0, 0, 0755);
    make_directory("a/b", 0, 0, 0744);
    make_file("a/b/c", 0, 0, 0666);
    make_file("a/x", 0, 0, 0666);
    MUST(symlink("b", "a/link"));
    as_user(&other, search_deep, NULL);
    MUST(chmod("a/b", 0711));
    as_user(&other, search_deep, NULL);
    MUST(chmod("a", 0700));
    as_user(&other, search_deep, NULL);
}

static void from_a_descriptor(void *argument)
{
    int fd = *(int *)argument;
    struct stat stat;

    show("fstatat", fstatat(fd, "file", &stat, 0));
    show_ok("openat", openat(fd, "file", O_RDONLY));
    show("faccessat", faccessat(fd, "file", R_OK, 0));
    show("fstatat of itself", fstatat(fd, "", &stat, AT_EMPTY_PATH));
    show("fchdir", fchdir(fd));
}

CASE(open_directories_are_searched_anew)
{
    open_scratch();
    make_directory("dir", 0, 0, 0755);
    make_file("dir/file", 0, 0, 0644);
    int fd = MUST(open("dir", O_RDONLY));
    as_user(&other, from_a_descriptor, &fd);
    MUST(chmod("dir", 0700));
    as_user(&other, from_a_descriptor, &fd);
}

static void in_a_closed_directory(void *argument)
{
    char path[PATH_LIMIT];
    struct stat stat;

    (void)argument;
    truth("getcwd", getcwd(path, sizeof path) != NULL);
    show("stat .", stat.st_mode = lstat(".", &stat));
    show("stat file", lstat("file", &stat));
    show_ok("open .", open(".", O_RDONLY));
    show("chdir .", chdir("."));
    show("chdir ..", chdir(".."));
}

static void enter_and_become(void *argument)
{
    MUST(chdir("dir"));
    become(&other);
    in_a_closed_directory(argument);
}

CASE(a_working_directory_that_may_not_be_searched)
{
    open_scratch();
    make_directory("dir", 0, 0, 0700);
    make_file("dir/file", 0, 0, 0644);
    in_child(enter_and_become, NULL);
}

/* ---- sticky directories, and those that hand on their group ---- */

static void clear_sticky(void *argument)
{
    (void)argument;
    printf(" unlink %s", outcome(unlink("dir/file")));
    printf(" rmdir %s", outcome(rmdir("dir/sub")));
    printf(" rename %s", outcome(rename("dir/moving", "dir/moved")));
    printf(" replace %s", outcome(rename("source", "dir/old")));
    printf(" creat %s\n", outcome(try_open("dir/fresh", O_CREAT | O_WRONLY)));
}

CASE(sticky_directories)
{
    static const uid_t owners[] = { 1000, 1003, 0 };

    for (size_t d = 0; d < COUNT_OF(owners); d++) {
        for (size_t f = 0; f < COUNT_OF(owners); f++) {
            for (size_t u = 0; u < COUNT_OF(everyone); u++) {
                open_scratch();
                make_directory("dir", owners[d], 0, 01777);
                make_file("dir/file", owners[f], 0, 0666);
                make_file("dir/moving", owners[f], 0, 0666);
                make_file("dir/old", owners[f], 0, 0666);
                make_directory("dir/sub", owners[f], 0, 0777);
                make_file("source", everyone[u]->uid, 0, 0666);
                printf("directory of %d, files of %d, %s:", owners[d], owners[f], everyone[u]->name);
                as_user(everyone[u], clear_sticky, NULL);
                MUST(chdir(case_start_dir));
            }
        }
    }
}

static void show_owner(const char *name)
{
    struct stat stat;

    if (lstat(name, &stat))
        printf("%s: %s\n", name, errno_name(errno));
    else
        printf("%s: %d %d %o\n", name, stat.st_uid, stat.st_gid, stat.st_mode);
}

static void make_all(void *argument)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "dir/socket" };
    int fd;

    (void)argument;
    umask(002);
    try_open("dir/file", O_CREAT | O_WRONLY);
    MUST(mkdir("dir/sub", 0777));
    MUST(symlink("x", "dir/symlink"));
    MUST(mkfifo("dir/fifo", 0666));
    fd = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    MUST(bind(fd, (struct sockaddr *)&address, sizeof address));
    fd = MUST(open("dir/bits", O_CREAT | O_WRONLY, 06775));
    show_owner("dir/file");
    show_owner("dir/sub");
    show_owner("dir/symlink");
    show_owner("dir/fifo");
    show_owner("dir/socket");
    show_owner("dir/bits");
}

CASE(new_files_belong_to_their_makers)
{
    for (size_t u = 0; u < COUNT_OF(everyone); u++) {
        open_scratch();
        printf("%s\n", everyone[u]->name);
        make_directory("dir", 0, 0, 0777);
        as_user(everyone[u], make_all, NULL);
        MUST(chdir(case_start_dir));
    }
}

CASE(directories_that_hand_on_their_group)
{
    for (size_t u = 0; u < COUNT_OF(everyone); u++) {
        open_scratch();
        printf("%s\n", everyone[u]->name);
        make_directory("dir", 0, 50, 02777);
        as_user(everyone[u], make_all, NULL);
        MUST(chdir(case_start_dir));
    }
}

static void make_with_file_ids(void *argument)
{
    (void)argument;
    setfsgid(1003);
    setfsuid(1003);
    show_ok("creat", open("made", O_CREAT | O_WRONLY, 0644));
    show_owner("made");
    show_ok("of root", open("secret", O_RDONLY));
    setfsuid(0);
    show_ok("of root again", open("secret", O_RDONLY));
}

CASE(file_ids_decide)
{
    open_scratch();
    make_file("secret", 0, 0, 0600);
    in_child(make_with_file_ids, NULL);
}

CASE(masks)
{
    static const mode_t masks[] = { 0, 022, 027, 077, 0777, 0111 };

    scratch();
    for (size_t i = 0; i < COUNT_OF(masks); i++) {
        umask(masks[i]);
        MUST(close(MUST(open("file", O_CREAT | O_WRONLY, 07777))));
        MUST(mkdir("dir", 07777));
        MUST(mkfifo("fifo", 0666));
        MUST(mknod("node", S_IFREG | 04755, 0));
        printf("mask %04o\n", masks[i]);
        show_owner("file");
        show_owner("dir");
        show_owner("fifo");
        show_owner("node");
        unlink("file");
        rmdir("dir");
        unlink("fifo");
        unlink("node");
    }
}

/* ---- modes and owners ---- */

static void change_mode(void *argument)
{
    static const mode_t modes[] = { 0600, 0777, 04755, 02755, 06775, 01777 };
    const char *name = argument;

    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        printf("chmod %04o %s, ", modes[i], outcome(chmod(name, modes[i])));
        show_owner(name);
    }
}

CASE(modes_are_changed_by_owners)
{
    for (size_t u = 0; u < COUNT_OF(everyone); u++) {
        open_scratch();
        printf("%s\n", everyone[u]->name);
        make_file("file", 1000, 1000, 0644);
        as_user(everyone[u], change_mode, "file");
        make_file("foreign", 1000, 50, 0644);
        as_user(everyone[u], change_mode, "foreign");
        make_directory("dir", 1000, 50, 0755);
        as_user(everyone[u], change_mode, "dir");
        MUST(chdir(case_start_dir));
    }
}

static void change_owner(void *argument)
{
    static const int owners[][2] = { { -1, -1 }, { 1000, -1 }, { -1, 1000 }, { -1, 1002 }, { 1003, -1 }, { 1000, 1000 }, { 0, 0 } };
    const char *name = argument;

    for (size_t i = 0; i < COUNT_OF(owners); i++) {
        printf("chown %d %d %s, ", owners[i][0], owners[i][1], outcome(lchown(name, owners[i][0], owners[i][1])));
        show_owner(name);
    }
}

CASE(owners_are_changed_by_root)
{
    for (size_t u = 0; u < COUNT_OF(everyone); u++) {
        open_scratch();
        printf("%s\n", everyone[u]->name);
        make_file("file", 1000, 1000, 0644);
        as_user(everyone[u], change_owner, "file");
        make_directory("dir", 1000, 1000, 0755);
        as_user(everyone[u], change_owner, "dir");
        MUST(symlink("file", "link"));
        MUST(lchown("link", 1000, 1000));
        as_user(everyone[u], change_owner, "link");
        MUST(chdir(case_start_dir));
    }
}

CASE(groups_are_given_to_own_ones)
{
    struct user many = { "many", 1000, 1000, 1002 };

    open_scratch();
    make_file("file", 1000, 1000, 0644);
    as_user(&many, change_owner, "file");
    make_file("foreign", 1003, 1000, 0644);
    as_user(&many, change_owner, "foreign");
}

CASE(a_new_owner_takes_lent_ids_away)
{
    static const mode_t modes[] = { 04755, 02755, 06755, 06777, 06711 };

    scratch();
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        make_file("file", 1000, 1000, modes[i]);
        MUST(chown("file", 1001, -1));
        show_owner("file");
        make_file("file", 1000, 1000, modes[i]);
        MUST(chown("file", -1, 1001));
        show_owner("file");
        make_directory("dir", 1000, 1000, modes[i]);
        MUST(chown("dir", 1001, 1001));
        show_owner("dir");
        unlink("file");
        rmdir("dir");
    }
}

static void by_descriptor(void *argument)
{
    int fd = *(int *)argument;
    struct timespec now[2] = { { 0, UTIME_NOW }, { 0, UTIME_NOW } };

    show("fchmod", fchmod(fd, 0600));
    show("fchown", fchown(fd, 1003, -1));
    show("futimens now", futimens(fd, now));
    show("ftruncate", ftruncate(fd, 1));
    show("write", write(fd, "x", 1));
    show("lseek", lseek(fd, 0, SEEK_SET));
}

CASE(descriptors_keep_what_they_were_opened_for)
{
    open_scratch();
    make_file("file", 1000, 1000, 0644);
    int fd = MUST(open("file", O_RDWR));
    MUST(chmod("file", 0));
    as_user(&other, by_descriptor, &fd);
    as_user(&owner, by_descriptor, &fd);
}

static void created_closed(void *argument)
{
    int fd;

    (void)argument;
    fd = show_ok("creat 0", open("closed", O_CREAT | O_RDWR, 0));
    show("write", write(fd, "x", 1));
    show_ok("open again", open("closed", O_RDONLY));
    show_ok("creat again", open("closed", O_CREAT | O_RDONLY, 0));
    show("chmod", chmod("closed", 0400));
    show_ok("open for reading", open("closed", O_RDONLY));
    show_ok("open for writing", open("closed", O_WRONLY));
}

CASE(a_creator_has_what_it_asked_for)
{
    open_scratch();
    as_user(&other, created_closed, NULL);
}

/* ---- times ---- */

static void change_times(void *argument)
{
    struct timespec now[2] = { { 0, UTIME_NOW }, { 0, UTIME_NOW } };
    struct timespec one[2] = { { 0, UTIME_NOW }, { 0, UTIME_OMIT } };
    struct timespec given[2] = { { 1000, 0 }, { 2000, 0 } };
    struct timespec none[2] = { { 0, UTIME_OMIT }, { 0, UTIME_OMIT } };

    (void)argument;
    printf(" NULL %s", outcome(utimensat(AT_FDCWD, "file", NULL, 0)));
    printf(" now %s", outcome(utimensat(AT_FDCWD, "file", now, 0)));
    printf(" one %s", outcome(utimensat(AT_FDCWD, "file", one, 0)));
    printf(" given %s", outcome(utimensat(AT_FDCWD, "file", given, 0)));
    printf(" none %s", outcome(utimensat(AT_FDCWD, "file", none, 0)));
    printf(" utime %s\n", outcome(utime("file", NULL)));
}

CASE(times_are_changed_by_owners_and_writers)
{
    static const mode_t modes[] = { 0644, 0666, 0444, 0 };

    for (size_t m = 0; m < COUNT_OF(modes); m++) {
        open_scratch();
        make_file("file", 1000, 1000, modes[m]);
        for (size_t u = 0; u < COUNT_OF(everyone); u++) {
            printf("%04o %s:", modes[m], everyone[u]->name);
            as_user(everyone[u], change_times, NULL);
        }
        MUST(chdir(case_start_dir));
    }
}

static void no_access_time(void *argument)
{
    (void)argument;
    show_ok("own", open("own", O_RDONLY | O_NOATIME));
    show_ok("of others", open("others", O_RDONLY | O_NOATIME));
}

CASE(access_times_are_kept_for_owners)
{
    open_scratch();
    make_file("own", 1003, 1003, 0644);
    make_file("others", 1000, 1000, 0644);
    as_user(&other, no_access_time, NULL);
    as_user(&root_user, no_access_time, NULL);
}

/* ---- access(2): the real ids ---- */

static void real_and_effective(void *argument)
{
    (void)argument;
    show("access", access("file", R_OK));
    show("AT_EACCESS", faccessat(AT_FDCWD, "file", R_OK, AT_EACCESS));
    show("raw", syscall(439, AT_FDCWD, "file", R_OK, AT_EACCESS));
    show("raw real", syscall(439, AT_FDCWD, "file", R_OK, 0));
    show("in a closed directory", access("closed/file", F_OK));
    show("raw in a closed directory", syscall(439, AT_FDCWD, "closed/file", F_OK, AT_EACCESS));
    show_ok("open", open("file", O_RDONLY));
    show("bad mode", access("file", 8));
    show("bad flags", syscall(439, AT_FDCWD, "file", R_OK, 1));
}

static void lent_from_root(void *argument)
{
    MUST(setresuid(1003, 0, 0));
    real_and_effective(argument);
}

static void root_as_another(void *argument)
{
    MUST(setresuid(0, 1003, 0));
    real_and_effective(argument);
}

CASE(access_asks_about_the_real_user)
{
    open_scratch();
    make_file("file", 0, 0, 0600);
    make_directory("closed", 0, 0, 0700);
    make_file("closed/file", 0, 0, 0600);
    in_child(lent_from_root, NULL);
    in_child(root_as_another, NULL);
}

/* ---- names ---- */

static void move_directory(void *argument)
{
    (void)argument;
    show("rename in place", rename("from/dir", "from/renamed"));
    show("rename elsewhere", rename("from/renamed", "to/dir"));
}

CASE(a_directory_that_moves_must_be_writable)
{
    static const mode_t modes[] = { 0755, 0777, 0555 };

    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        open_scratch();
        make_directory("from", 0, 0, 0777);
        make_directory("to", 0, 0, 0777);
        make_directory("from/dir", 1000, 1000, modes[i]);
        printf("%04o\n", modes[i]);
        as_user(&other, move_directory, NULL);
        MUST(chdir(case_start_dir));
    }
}

static void move_between(void *argument)
{
    (void)argument;
    printf(" move %s", outcome(rename("from/file", "to/file")));
    printf(" exchange %s", outcome(renameat2(AT_FDCWD, "from/other", AT_FDCWD, "to/other", RENAME_EXCHANGE)));
    printf(" noreplace %s\n", outcome(renameat2(AT_FDCWD, "from/other", AT_FDCWD, "to/new", RENAME_NOREPLACE)));
}

CASE(moving_needs_both_directories)
{
    static const mode_t modes[] = { 0777, 0755, 01777 };

    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        for (size_t j = 0; j < COUNT_OF(modes); j++) {
            open_scratch();
            make_directory("from", 0, 0, modes[i]);
            make_directory("to", 0, 0, modes[j]);
            make_file("from/file", 1003, 1003, 0644);
            make_file("from/other", 1003, 1003, 0644);
            make_file("to/other", 1000, 1000, 0644);
            printf("%04o %04o:", modes[i], modes[j]);
            as_user(&other, move_between, NULL);
            MUST(chdir(case_start_dir));
        }
    }
}

static void read_links(void *argument)
{
    char text[64];

    (void)argument;
    show("readlink", readlink("link", text, sizeof text));
    show("readlink in a closed directory", readlink("closed/link", text, sizeof text));
    show_ok("through it", open("link", O_RDONLY));
}

CASE(links_can_be_read_by_all)
{
    open_scratch();
    make_directory("closed", 0, 0, 0700);
    MUST(symlink("closed/file", "link"));
    MUST(symlink("file", "closed/link"));
    as_user(&other, read_links, NULL);
}

/* ---- programs ---- */

static void run_it(void *argument)
{
    char *argv[] = { argument, NULL };
    char *environment[] = { NULL };

    execve(argument, argv, environment);
    printf("%s: %s\n", (char *)argument, errno_name(errno));
    fflush(stdout);
    _exit(99);
}

static void show_end(const char *what, int status)
{
    if (WIFEXITED(status))
        printf("%s: exited %d\n", what, WEXITSTATUS(status));
    else
        printf("%s: signal %d\n", what, WTERMSIG(status));
}

static void copy_true(const char *to)
{
    char data[65536];
    long length;
    int in = MUST(open("/bin/true", O_RDONLY));
    int out = MUST(open(to, O_WRONLY | O_CREAT | O_TRUNC, 0755));

    while ((length = MUST(read(in, data, sizeof data))) > 0)
        MUST(write(out, data, length));
    close(in);
    MUST(close(out));
}

CASE(programs_by_mode)
{
    open_scratch();
    copy_true("program");
    MUST(chown("program", 1000, 1000));
    for (int mode = 0; mode < 8; mode++) {
        MUST(chmod("program", mode << 6));
        printf("%04o ", mode << 6);
        show_end("owner", as_user(&owner, run_it, "./program"));
        MUST(chmod("program", mode));
        printf("%04o ", mode);
        show_end("other", as_user(&other, run_it, "./program"));
        show_end("root", as_user(&root_user, run_it, "./program"));
    }
}

CASE(programs_in_closed_directories)
{
    open_scratch();
    make_directory("dir", 0, 0, 0755);
    copy_true("dir/program");
    show_end("open", as_user(&other, run_it, "dir/program"));
    MUST(chmod("dir", 0711));
    show_end("not to be listed", as_user(&other, run_it, "dir/program"));
    MUST(chmod("dir", 0744));
    show_end("not to be searched", as_user(&other, run_it, "dir/program"));
    show_end("root", as_user(&root_user, run_it, "dir/program"));
}

CASE(interpreters_need_permission_too)
{
    open_scratch();
    copy_true("interpreter");
    int fd = MUST(open("script", O_WRONLY | O_CREAT, 0755));
    MUST(write(fd, "#!./interpreter\n", 16));
    close(fd);
    show_end("both", as_user(&other, run_it, "./script"));
    MUST(chmod("interpreter", 0744));
    show_end("interpreter not", as_user(&other, run_it, "./script"));
    MUST(chmod("interpreter", 0755));
    MUST(chmod("script", 0644));
    show_end("script not", as_user(&other, run_it, "./script"));
    show_end("root", as_user(&root_user, run_it, "./script"));
}

/* ---- FIFOs and sockets ---- */

static void use_fifo(void *argument)
{
    (void)argument;
    printf(" read %s", outcome(try_open("fifo", O_RDONLY | O_NONBLOCK)));
    printf(" both %s", outcome(try_open("fifo", O_RDWR | O_NONBLOCK)));
    printf(" write %s\n", outcome(try_open("fifo", O_WRONLY | O_NONBLOCK)));
}

CASE(fifos_by_mode)
{
    open_scratch();
    for (int mode = 0; mode < 8; mode++) {
        MUST(mkfifo("fifo", 0600));
        MUST(chown("fifo", 1000, 1000));
        MUST(chmod("fifo", mode));
        printf("%04o:", mode);
        as_user(&other, use_fifo, NULL);
        MUST(unlink("fifo"));
    }
}

static void use_socket(void *argument)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "socket" };
    struct sockaddr_un datagrams = { .sun_family = AF_UNIX, .sun_path = "datagrams" };
    int fd = MUST(socket(AF_UNIX, SOCK_STREAM, 0));

    (void)argument;
    printf(" connect %s", outcome(connect(fd, (struct sockaddr *)&address, sizeof address)));
    fd = MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
    printf(" sendto %s", outcome(sendto(fd, "x", 1, 0, (struct sockaddr *)&datagrams, sizeof datagrams)));
    printf(" open %s\n", outcome(try_open("socket", O_RDWR)));
}

CASE(sockets_by_mode)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "socket" };
    struct sockaddr_un datagrams = { .sun_family = AF_UNIX, .sun_path = "datagrams" };

    open_scratch();
    int stream = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    MUST(bind(stream, (struct sockaddr *)&address, sizeof address));
    MUST(listen(stream, 100));
    int datagram = MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
    MUST(bind(datagram, (struct sockaddr *)&datagrams, sizeof datagrams));
    show_owner("socket");
    for (int mode = 0; mode < 8; mode++) {
        MUST(chmod("socket", mode));
        MUST(chmod("datagrams", mode));
        printf("%04o:", mode);
        as_user(&other, use_socket, NULL);
    }
}

static void bind_sockets(void *argument)
{
    struct sockaddr_un inside = { .sun_family = AF_UNIX, .sun_path = "dir/socket" };
    struct sockaddr_un open_one = { .sun_family = AF_UNIX, .sun_path = "socket" };
    int fd = MUST(socket(AF_UNIX, SOCK_STREAM, 0));

    (void)argument;
    show("bind in a closed directory", bind(fd, (struct sockaddr *)&inside, sizeof inside));
    show("bind in an open one", bind(fd, (struct sockaddr *)&open_one, sizeof open_one));
    show_owner("socket");
}

CASE(sockets_are_bound_where_one_may_write)
{
    open_scratch();
    make_directory("dir", 0, 0, 0755);
    as_user(&other, bind_sockets, NULL);
}

/* ---- devices and files of the system ---- */

static void use_devices(void *argument)
{
    (void)argument;
    show_ok("/dev/null", open("/dev/null", O_RDWR));
    show_ok("/dev/urandom", open("/dev/urandom", O_RDONLY));
    show_ok("/etc/passwd", open("/etc/passwd", O_RDONLY));
    show_ok("/etc/shadow", open("/etc/shadow", O_RDONLY));
    show("chmod /dev/null", chmod("/dev/null", 0600));
    show("unlink /dev/null", unlink("/dev/null"));
    show("mkdir", mkdir("/usr/x", 0700));
    show_ok("/etc/new", open("/etc/new", O_CREAT | O_WRONLY, 0644));
    show("unlink /etc/passwd", unlink("/etc/passwd"));
}

CASE(files_of_the_system)
{
    as_user(&other, use_devices, NULL);
}

/* ---- chroot ---- */

static void look_around(void *argument)
{
    char path[PATH_LIMIT];
    struct stat root, dot, up;

    (void)argument;
    show("chroot", chroot("jail"));
    truth("getcwd outside", syscall(SYS_getcwd, path, sizeof path) > 0 && !strncmp(path, "(unreachable)/", 14));
    show("chdir", chdir("/"));
    text("getcwd", getcwd(path, sizeof path) ? path : "?");
    file_show("/file");
    file_show("file");
    file_show("../file");
    file_show("/../../file");
    file_show("/dir/../file");
    MUST(stat("/", &root));
    MUST(stat(".", &dot));
    MUST(stat("..", &up));
    truth("root, dot and dot-dot are one", root.st_ino == dot.st_ino && root.st_ino == up.st_ino);
    file_show("/absolute");
    file_show("/relative");
    show("outside is gone", access("/etc/passwd", F_OK));
    show("/proc is gone", access("/proc/self", F_OK));
    show("/dev is gone", access("/dev/null", F_OK));
    MUST(chdir("dir"));
    text("getcwd", getcwd(path, sizeof path) ? path : "?");
    show("chdir up", chdir(".."));
    show("chdir up", chdir(".."));
    text("getcwd", getcwd(path, sizeof path) ? path : "?");
    show("chroot again", chroot("dir"));
    file_show("/inner");
    show("mkdir", mkdir("/made", 0755));
}

static void build_jail(void)
{
    scratch();
    MUST(mkdir("jail", 0755));
    MUST(mkdir("jail/dir", 0755));
    file_make("jail/file", "inside");
    file_make("jail/dir/inner", "inner");
    file_make("file", "outside");
    MUST(symlink("/file", "jail/absolute"));
    MUST(symlink("../../../file", "jail/relative"));
}

CASE(a_root_of_ones_own)
{
    build_jail();
    in_child(look_around, NULL);
    file_show("jail/dir/made");
    show("the parent's root is its own", access("/etc/passwd", F_OK));
}

static void reach_out(void *argument)
{
    int fd = *(int *)argument;
    char path[PATH_LIMIT];

    MUST(chroot("jail"));
    MUST(chdir("/"));
    show_ok("openat", openat(fd, "file", O_RDONLY));
    show("fchdir", fchdir(fd));
    /* libc's would search for the name. */
    truth("getcwd", syscall(SYS_getcwd, path, sizeof path) > 0 && !strncmp(path, "(unreachable)/", 14));
    file_show("file");
    file_show("/file");
    show_ok("up", open("..", O_RDONLY | O_DIRECTORY));
}

CASE(descriptors_lead_out_of_a_root)
{
    build_jail();
    int fd = MUST(open(".", O_RDONLY | O_DIRECTORY));
    in_child(reach_out, &fd);
}

static void jailed_child(void *argument)
{
    (void)argument;
    file_show("/file");
    show("chroot as another", (MUST(setuid(1000)), chroot("/dir")));
}

static void inherit_root(void *argument)
{
    MUST(chroot("jail"));
    MUST(chdir("/"));
    in_child(jailed_child, argument);
    run_it("/program");
}

CASE(children_and_programs_keep_the_root)
{
    build_jail();
    show_end("a program that is not there", in_child(inherit_root, NULL));
}

static void bad_roots(void *argument)
{
    (void)argument;
    show("a file", chroot("file"));
    show("nothing", chroot("missing"));
    show("empty", chroot(""));
    show("bad address", chroot((char *)8));
}

static void roots_of_others(void *argument)
{
    MUST(chmod("jail", 0700));
    become(&other);
    show("closed directory", chroot("jail"));
    show("open directory", chroot("."));
    bad_roots(argument);
}

CASE(roots_that_cannot_be)
{
    build_jail();
    in_child(bad_roots, NULL);
    in_child(roots_of_others, NULL);
}

static void sockets_in_jail(void *argument)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "/socket" };
    int fd = MUST(socket(AF_UNIX, SOCK_STREAM, 0));

    (void)argument;
    MUST(chroot("jail"));
    show("bind", bind(fd, (struct sockaddr *)&address, sizeof address));
    show("listen", listen(fd, 5));
    fd = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    show("connect", connect(fd, (struct sockaddr *)&address, sizeof address));
}

CASE(sockets_are_named_from_the_root)
{
    build_jail();
    in_child(sockets_in_jail, NULL);
    show("it lies inside", access("jail/socket", F_OK));
}

static void devices_of_others(void *argument)
{
    (void)argument;
    become(&other);
    show("character device", mknod("theirs", S_IFCHR | 0600, makedev(1, 3)));
    show("block device", mknod("theirs", S_IFBLK | 0600, makedev(7, 0)));
}

CASE(devices_that_are_made)
{
    struct dirent *entry;
    struct stat about;
    DIR *directory;

    scratch();
    MUST(chmod(".", 0777));
    show("character device", mknod("null", S_IFCHR | 0640, makedev(1, 3)));
    show("block device", mknod("loop", S_IFBLK | 0600, makedev(7, 1)));
    show("again", mknod("null", S_IFCHR | 0640, makedev(1, 3)));
    MUST(lstat("null", &about));
    printf("mode %o, device %u:%u, size %ld\n", about.st_mode, major(about.st_rdev), minor(about.st_rdev), (long)about.st_size);
    MUST(lstat("loop", &about));
    printf("mode %o, device %u:%u\n", about.st_mode, major(about.st_rdev), minor(about.st_rdev));
    MUST(rename("null", "zero"));
    MUST(chmod("zero", 0666));
    MUST(stat("zero", &about));
    printf("mode %o, device %u:%u\n", about.st_mode, major(about.st_rdev), minor(about.st_rdev));
    MUST((directory = opendir(".")) ? 0 : -1);
    while ((entry = readdir(directory)))
        if (strcmp(entry->d_name, "zero") == 0)
            truth("listed as a character device", entry->d_type == DT_CHR);
    closedir(directory);
    in_child(devices_of_others, NULL);
    show("unlink", unlink("zero"));
    show("gone", stat("zero", &about));
}

/* Descriptors are of what they were opened on, wherever the root is. */
static void look_from_another_root(void)
{
    struct stat stat_of;
    struct dirent *entry;

    MUST(chroot("r"));
    show("directory", fstat(MUST(open("/", O_RDONLY | O_DIRECTORY)), &stat_of));
    int below = MUST(open("/d", O_RDONLY | O_DIRECTORY));
    show("directory below", fstat(below, &stat_of));
    show("by an empty name", fstatat(below, "", &stat_of, AT_EMPTY_PATH));
    show("place", fstat(MUST(open("/d", O_PATH)), &stat_of));
    DIR *directory = opendir("/");
    for (int count = 0; directory && (entry = readdir(directory)) != NULL;)
        if (entry->d_name[0] != '.')
            printf("entry %d: %s\n", count++, entry->d_name);
    show("attributes", flistxattr(below, NULL, 0));
    show("mode", fchmod(below, 0700));
    show("nested", chroot("/d"));
    show("directory", fstat(MUST(open("/", O_RDONLY | O_DIRECTORY)), &stat_of));
    printf("mode %o\n", stat_of.st_mode & 07777);
    show("not in it any more", stat("/d", &stat_of));
    show("descriptors stay", fstat(below, &stat_of));
    show("working directory", stat("r/d", &stat_of));
}

CASE(descriptors_in_another_root)
{
    int status;

    scratch();
    MUST(mkdir("r", 0755));
    MUST(mkdir("r/d", 0755));
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0) {
        look_from_another_root();
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, &status, 0);
    number("status", status);
}

/* By the link to a descriptor a file is opened with the rights that its mode gives. */
CASE(removed_files_are_opened_again_by_their_mode)
{
    static const int modes[] = { 0644, 0666 };
    char link[64];

    scratch();
    MUST(chmod(".", 0777));
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        file_make("file", "content");
        MUST(chmod("file", modes[i]));
        int fd = MUST(open("file", O_RDONLY)), status;
        MUST(unlink("file"));
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        fflush(stdout);
        pid_t child = MUST(fork());
        if (child == 0) {
            MUST(setuid(1000));
            int again = open(link, O_RDWR);
            show("opened", again < 0 ? -1 : 0);
            if (again >= 0)
                show("written", write(again, "CON", 3));
            fflush(stdout);
            _exit(0);
        }
        waitpid(child, &status, 0);
        number("status", status);
        char bytes_of[8] = { 0 };
        MUST(pread(fd, bytes_of, 7, 0));
        text("content", bytes_of);
    }
}
