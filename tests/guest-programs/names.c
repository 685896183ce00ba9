/*
 * Names in the file system: directories, links, renames, removal, permissions,
 * the working directory and listings.
 */
#include "case.h"

/* Prints the names in a directory, sorted, with their types. */
static void list_directory(const char *path)
{
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort);

    if (count == -1) {
        show("scandir", -1);
        return;
    }
    for (int i = 0; i < count; i++) {
        int type = entries[i]->d_type;
        printf("entry %s %s\n", entries[i]->d_name,
               type == DT_DIR ? "directory" : type == DT_REG ? "file" : type == DT_LNK ? "symlink" : "other");
        free(entries[i]);
    }
    free(entries);
}

static void show_mode(const char *path)
{
    struct stat status;

    if (show("stat", stat(path, &status)) == 0)
        printf("mode %s: %04o\n", path, status.st_mode & 07777);
}

CASE(mkdir_rmdir)
{
    scratch();
    show("mkdir", mkdir("d", 0755));
    show("mkdir again", mkdir("d", 0755));
    show("mkdir under missing", mkdir("no/d", 0755));
    show("mkdir trailing slash", mkdir("e/", 0755));
    show("mkdir dot", mkdir(".", 0755));
    file_make("d/f", "");
    show("rmdir full", rmdir("d"));
    show("unlink directory", unlink("d"));
    show("unlink", unlink("d/f"));
    show("rmdir", rmdir("d"));
    show("rmdir again", rmdir("d"));
    show("rmdir dot", rmdir("e/."));
    file_make("f", "");
    show("rmdir file", rmdir("f"));
    show("mkdir over file", mkdir("f", 0755));
    show("mkdir under file", mkdir("f/d", 0755));
    show("mkdir empty", mkdir("", 0755));
}

CASE(mkdirat_and_unlinkat)
{
    scratch();
    show("mkdirat", mkdirat(AT_FDCWD, "d", 0700));
    int dir = MUST(open("d", O_RDONLY | O_DIRECTORY));
    show("mkdirat under descriptor", mkdirat(dir, "e", 0700));
    show_mode("d/e");
    show("unlinkat directory", unlinkat(dir, "e", 0));
    show("unlinkat AT_REMOVEDIR", unlinkat(dir, "e", AT_REMOVEDIR));
    file_make("d/f", "");
    show("unlinkat AT_REMOVEDIR on file", unlinkat(dir, "f", AT_REMOVEDIR));
    show("unlinkat", unlinkat(dir, "f", 0));
    show("unlinkat bad flags", unlinkat(dir, "f", 0x1));
}

CASE(list_sorted)
{
    scratch();
    MUST(mkdir("dir", 0755));
    file_make("file", "");
    MUST(symlink("file", "link"));
    file_make("dir/inner", "");
    list_directory(".");
    list_directory("dir");
    list_directory("file");
    list_directory("missing");
}

CASE(list_many_entries)
{
    scratch();
    char name[32];
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "a-rather-long-name-%03d", i);
        file_make(name, "");
    }
    DIR *dir = opendir(".");
    int seen[300] = { 0 }, count = 0, twice = 0, others = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        int i;
        if (sscanf(entry->d_name, "a-rather-long-name-%d", &i) != 1) {
            others++;
            continue;
        }
        twice += seen[i]++;
        count++;
    }
    number("entries", count);
    number("entries seen twice", twice);
    number("dot entries", others);
    rewinddir(dir);
    count = 0;
    while (readdir(dir))
        count++;
    number("after rewinddir", count);
    closedir(dir);
}

CASE(list_raw_getdents)
{
    scratch();
    file_make("f", "");
    char data[1024];
    int dir = MUST(open(".", O_RDONLY | O_DIRECTORY));
    int file = MUST(open("f", O_RDONLY));
    truth("first call returns entries", syscall(SYS_getdents64, dir, data, sizeof data) > 0);
    show("second call", syscall(SYS_getdents64, dir, data, sizeof data));
    show("seek to 0", lseek(dir, 0, SEEK_SET));
    truth("after seek", syscall(SYS_getdents64, dir, data, sizeof data) > 0);
    MUST(lseek(dir, 0, SEEK_SET));
    show("tiny buffer", syscall(SYS_getdents64, dir, data, 8));
    show("of a file", syscall(SYS_getdents64, file, data, sizeof data));
}

CASE(list_removed_directory)
{
    scratch();
    char data[1024];
    MUST(mkdir("d", 0755));
    int dir = MUST(open("d", O_RDONLY | O_DIRECTORY));
    MUST(rmdir("d"));
    show("getdents", syscall(SYS_getdents64, dir, data, sizeof data));
    show_ok("create in it", openat(dir, "f", O_RDWR | O_CREAT, 0644));
}

CASE(rename_files)
{
    scratch();
    file_make("a", "content of a");
    file_make("b", "content of b");
    show("over existing", rename("a", "b"));
    file_show("b");
    show("missing", rename("a", "c"));
    show("onto itself", rename("b", "b"));
    show("to missing directory", rename("b", "no/b"));
    MUST(mkdir("d", 0755));
    show("file onto directory", rename("b", "d"));
    show("directory onto file", rename("d", "b"));
    show("into directory", rename("b", "d/b"));
    file_show("d/b");
    show("empty name", rename("", "x"));
}

CASE(rename_directories)
{
    scratch();
    MUST(mkdir("d", 0755));
    MUST(mkdir("e", 0755));
    file_make("d/f", "inside");
    show("onto empty", rename("d", "e"));
    file_show("e/f");
    MUST(mkdir("d", 0755));
    show("onto full", rename("d", "e"));
    show("into itself", rename("e", "e/sub"));
    show("dot", rename(".", "x"));
}

CASE(renameat2_noreplace)
{
    scratch();
    file_make("a", "a");
    file_make("b", "b");
    show("onto existing", renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_NOREPLACE));
    show("onto new", renameat2(AT_FDCWD, "a", AT_FDCWD, "c", RENAME_NOREPLACE));
    file_show("c");
    show("bad flags", renameat2(AT_FDCWD, "b", AT_FDCWD, "c", 0x100));
}

CASE(renameat_between_directories)
{
    scratch();
    MUST(mkdir("d", 0755));
    MUST(mkdir("e", 0755));
    file_make("d/f", "moved");
    int d = MUST(open("d", O_RDONLY | O_DIRECTORY));
    int e = MUST(open("e", O_PATH | O_DIRECTORY));
    show("renameat", renameat(d, "f", e, "g"));
    file_show("e/g");
    show("bad descriptor", renameat(999, "f", e, "g"));
}

CASE(hard_links)
{
    scratch();
    struct stat a, b;
    file_make("a", "shared");
    show("link", link("a", "b"));
    MUST(stat("a", &a));
    MUST(stat("b", &b));
    number("links", a.st_nlink);
    truth("same inode", a.st_ino == b.st_ino);
    show("link onto existing", link("a", "b"));
    show("link missing", link("missing", "c"));
    show("link directory", link(".", "c"));
    MUST(unlink("a"));
    file_show("b");
    MUST(stat("b", &b));
    number("links", b.st_nlink);
    MUST(symlink("b", "s"));
    show("linkat follows", linkat(AT_FDCWD, "s", AT_FDCWD, "t", AT_SYMLINK_FOLLOW));
    MUST(lstat("t", &b));
    truth("regular", S_ISREG(b.st_mode));
}

CASE(symbolic_links)
{
    scratch();
    char target[64];
    struct stat status;
    file_make("f", "pointed at");
    show("symlink", symlink("f", "s"));
    show("again", symlink("f", "s"));
    file_show("s");
    show("readlink", readlink("s", target, sizeof target));
    show("readlink short", readlink("s", target, 1) );
    show("readlink of file", readlink("f", target, sizeof target));
    show("readlink missing", readlink("missing", target, sizeof target));
    show("readlink size 0", syscall(SYS_readlink, "s", target, 0));
    MUST(lstat("s", &status));
    truth("symlink", S_ISLNK(status.st_mode));
    number("size", status.st_size);
    show("unlink", unlink("s"));
    file_show("f");
    show("symlink empty target", symlink("", "x"));
    show("symlinkat", symlinkat("f", AT_FDCWD, "y"));
    file_show("y");
}

CASE(symlink_loops)
{
    scratch();
    struct stat status;
    MUST(symlink("b", "a"));
    MUST(symlink("a", "b"));
    MUST(symlink("self", "self"));
    show("open", open("a", O_RDONLY));
    show("stat", stat("self", &status));
    show("lstat", lstat("self", &status));
    show("through", open("self/x", O_RDONLY));
    show("dangling stat", symlink("nothing", "d"));
    show("stat dangling", stat("d", &status));
}

CASE(symlink_to_directory)
{
    scratch();
    MUST(mkdir("d", 0755));
    file_make("d/f", "via link");
    MUST(symlink("d", "s"));
    file_show("s/f");
    show("rmdir of link", rmdir("s"));
    show("unlink with slash", unlink("s/"));
    show_ok("O_DIRECTORY", open("s", O_RDONLY | O_DIRECTORY));
    show("O_DIRECTORY nofollow", open("s", O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    show("chdir", chdir("s"));
    file_show("f");
    file_show("../d/f");
}

CASE(unlink_errors)
{
    scratch();
    file_make("f", "");
    show("unlink", unlink("f"));
    show("again", unlink("f"));
    show("empty", unlink(""));
    show("dot", unlink("."));
    file_make("f", "");
    show("under file", unlink("f/g"));
    show("trailing slash", unlink("f/"));
}

CASE(chdir_getcwd)
{
    scratch();
    char start[PATH_LIMIT], here[PATH_LIMIT];
    MUST(mkdir("d", 0755));
    MUST(mkdir("d/e", 0755));
    MUST(getcwd(start, sizeof start) ? 0 : -1);
    show("chdir", chdir("d/e"));
    MUST(getcwd(here, sizeof here) ? 0 : -1);
    text("below start", here + strlen(start));
    show("chdir up", chdir("../.."));
    MUST(getcwd(here, sizeof here) ? 0 : -1);
    truth("back at start", !strcmp(start, here));
    show("raw getcwd counts the zero byte", syscall(SYS_getcwd, here, sizeof here) - (long)strlen(start));
    show("raw getcwd too small", syscall(SYS_getcwd, here, 2));
    show("chdir missing", chdir("missing"));
    file_make("f", "");
    show("chdir file", chdir("f"));
}

CASE(fchdir_works)
{
    scratch();
    MUST(mkdir("d", 0755));
    file_make("d/f", "here");
    file_make("g", "");
    int back = MUST(open(".", O_RDONLY));
    int dir = MUST(open("d", O_RDONLY));
    int file = MUST(open("g", O_RDONLY));
    show("fchdir", fchdir(dir));
    file_show("f");
    show("fchdir file", fchdir(file));
    show("fchdir bad", fchdir(999));
    show("fchdir back", fchdir(back));
    file_show("g");
}

CASE(umask_applies)
{
    scratch();
    number("old mask is 022", umask(077) == 022);
    MUST(open("f", O_RDWR | O_CREAT, 0666));
    show_mode("f");
    MUST(mkdir("d", 0777));
    show_mode("d");
    number("mask was 077", umask(0) == 077);
    MUST(open("g", O_RDWR | O_CREAT, 0666));
    show_mode("g");
    umask(07777);
    number("mask keeps nine bits", umask(022) == 0777);
}

CASE(chmod_family)
{
    scratch();
    file_make("f", "");
    MUST(symlink("f", "s"));
    show("chmod", chmod("f", 0600));
    show_mode("f");
    show("chmod through link", chmod("s", 0640));
    show_mode("f");
    int fd = MUST(open("f", O_RDONLY));
    show("fchmod", fchmod(fd, 0444));
    show_mode("f");
    show("fchmodat", fchmodat(AT_FDCWD, "f", 0755, 0));
    show_mode("f");
    show("chmod missing", chmod("missing", 0600));
    MUST(mkdir("d", 0755));
    show("chmod sticky directory", chmod("d", 01777));
    show_mode("d");
}

CASE(access_checks)
{
    scratch();
    file_make("f", "");
    MUST(chmod("f", 0644));
    show("exists", access("f", F_OK));
    show("read write", access("f", R_OK | W_OK));
    show("execute", access("f", X_OK));
    MUST(chmod("f", 0755));
    show("execute after chmod", access("f", X_OK));
    show("missing", access("missing", F_OK));
    show("bad mode", access("f", 99));
    show("directory", access(".", R_OK | W_OK | X_OK));
    show("faccessat", faccessat(AT_FDCWD, "f", R_OK, 0));
    show("faccessat AT_EACCESS", faccessat(AT_FDCWD, "f", R_OK, AT_EACCESS));
    show("faccessat bad descriptor", faccessat(999, "f", R_OK, 0));
    MUST(symlink("nothing", "s"));
    show("dangling", access("s", F_OK));
    show("under a file", access("f/x", F_OK));
}

CASE(fstatat_flags)
{
    scratch();
    struct stat status;
    file_make("f", "12345");
    MUST(symlink("f", "s"));
    show("follow", fstatat(AT_FDCWD, "s", &status, 0));
    truth("regular", S_ISREG(status.st_mode));
    show("nofollow", fstatat(AT_FDCWD, "s", &status, AT_SYMLINK_NOFOLLOW));
    truth("symlink", S_ISLNK(status.st_mode));
    int fd = MUST(open("f", O_RDONLY));
    show("empty path", fstatat(fd, "", &status, AT_EMPTY_PATH));
    number("size", status.st_size);
    show("empty path without flag", fstatat(AT_FDCWD, "", &status, 0));
    show("bad flag", fstatat(AT_FDCWD, "f", &status, 0x8000000));
}

CASE(stat_kinds)
{
    scratch();
    struct stat status;
    int ends[2];
    MUST(pipe(ends));
    show("directory", stat(".", &status));
    truth("is directory", S_ISDIR(status.st_mode));
    show("device", stat("/dev/null", &status));
    truth("is character device", S_ISCHR(status.st_mode));
    show("pipe", fstat(ends[0], &status));
    truth("is fifo", S_ISFIFO(status.st_mode));
    number("size", status.st_size);
    show("root", stat("/", &status));
    truth("is directory", S_ISDIR(status.st_mode));
    show("through a device", stat("/dev/null/x", &status));
    show("bad descriptor", fstat(999, &status));
}

CASE(realpath_resolves)
{
    scratch();
    char here[PATH_LIMIT], found[PATH_LIMIT];
    MUST(mkdir("d", 0755));
    file_make("d/f", "");
    MUST(symlink("d/../d/f", "s"));
    MUST(getcwd(here, sizeof here) ? 0 : -1);
    MUST(realpath("./d/./../s", found) ? 0 : -1);
    text("below here", found + strlen(here));
    truth("missing fails", !realpath("d/missing", found) && errno == ENOENT);
}

CASE(temporary_files)
{
    scratch();
    char a[] = "name-XXXXXX", b[] = "name-XXXXXX", directory[] = "dir-XXXXXX";
    show_ok("mkstemp", mkstemp(a));
    show_ok("mkstemp", mkstemp(b));
    truth("different names", strcmp(a, b) != 0);
    truth("mkdtemp", mkdtemp(directory) != NULL);
    struct stat status;
    MUST(stat(a, &status));
    printf("mode: %04o\n", status.st_mode & 07777);
}

CASE(links_by_descriptor)
{
    char target[64];
    int ends[2];
    scratch();
    MUST(symlink("target", "link"));
    MUST(mkdir("directory", 0755));
    file_make("file", "content");
    MUST(pipe(ends));
    int link = MUST(open("link", O_PATH | O_NOFOLLOW)), directory = MUST(open("directory", O_RDONLY));
    int path = MUST(open("directory", O_PATH)), file = MUST(open("file", O_RDONLY));
    show("link", readlinkat(link, "", target, sizeof target));
    show("one byte of it", readlinkat(link, "", target, 1));
    show("directory", readlinkat(directory, "", target, sizeof target));
    show("path of a directory", readlinkat(path, "", target, sizeof target));
    show("file", readlinkat(file, "", target, sizeof target));
    show("pipe", readlinkat(ends[0], "", target, sizeof target));
    show("working directory", readlinkat(AT_FDCWD, "", target, sizeof target));
    show("no descriptor", readlinkat(999, "", target, sizeof target));
    show("no name", readlink("", target, sizeof target));
    show("no room", syscall(SYS_readlinkat, link, "", target, 0));
    show("no link", readlink("file", target, sizeof target));
    show("below a file", readlinkat(file, "x", target, sizeof target));
}

/* What a directory that is gone still answers to who works there. */
CASE(working_directories_that_were_removed)
{
    char text_of[64];
    struct stat stat_of;
    struct dirent *entry;

    scratch();
    MUST(mkdir("a", 0755));
    MUST(chdir("a"));
    MUST(rmdir("../a"));
    show("getcwd", getcwd(text_of, sizeof text_of) ? 0 : -1);
    show("stat", stat(".", &stat_of));
    printf("mode %o, links %lu\n", stat_of.st_mode, (unsigned long)stat_of.st_nlink);
    show("stat with dots", stat("./.", &stat_of));
    show("access", access(".", R_OK | X_OK));
    show("stat a name", stat("x", &stat_of));
    show("stat a name behind a dot", stat("./x", &stat_of));
    show("create", open("x", O_CREAT | O_WRONLY, 0644));
    show("make", mkdir("x", 0755));
    show("link", symlink("x", "y"));
    show("write it", open(".", O_WRONLY));
    show("create it", open(".", O_CREAT | O_RDONLY, 0644));
    show("create it anew", open(".", O_CREAT | O_EXCL | O_RDONLY, 0644));
    DIR *directory = opendir(".");
    truth("opened", directory != NULL);
    while ((entry = readdir(directory)) != NULL)
        text("entry", entry->d_name);
    closedir(directory);
    long length = readlink("/proc/self/cwd", text_of, sizeof text_of);
    truth("deleted", length > 0 && (length == (long)sizeof text_of || memmem(text_of, length, "a (deleted)", 11)));
    show("chdir", chdir("."));
    show("execute", execl("./x", "x", NULL));
    /* Another one of its name is another one. */
    MUST(mkdir("../a", 0755));
    close(MUST(open("../a/x", O_CREAT | O_WRONLY, 0644)));
    show("stat a name", stat("x", &stat_of));
    show("getcwd", getcwd(text_of, sizeof text_of) ? 0 : -1);
    int fd = MUST(open(".", O_RDONLY | O_DIRECTORY));
    show("chdir to the other", chdir("../a"));
    show("stat its name", stat("x", &stat_of));
    show("back", fchdir(fd));
    show("stat a name", stat("x", &stat_of));
    show("stat", fstatat(fd, ".", &stat_of, 0));
    show("above", chdir(".."));
    show("below", stat("a/x", &stat_of));
    /* One that is moved goes with it. */
    MUST(mkdir("b", 0755));
    MUST(mkdir("b/c", 0755));
    MUST(chdir("b/c"));
    MUST(rename("../../b", "../../d"));
    MUST(rmdir("../../d/c"));
    show("stat", stat(".", &stat_of));
    show("getcwd", getcwd(text_of, sizeof text_of) ? 0 : -1);
    show("above", stat("..", &stat_of));
    MUST(chdir("../.."));
}

/* A relative path walks the tree that getcwd shows: as many steps up as it has names lead to the root. */
CASE(paths_lead_up_as_getcwd_shows)
{
    static char shown[PATH_LIMIT], path[2 * PATH_LIMIT], above[PATH_LIMIT];
    struct stat root, here;

    scratch();
    MUST(mkdir("a", 0755));
    MUST(chdir("a"));
    if (!getcwd(shown, sizeof shown))
        case_give_up("getcwd", errno);
    for (char *slash = shown; *slash; slash++)
        if (*slash == '/')
            strcat(above, "../");
    snprintf(path, sizeof path, "%setc/passwd", above);
    show("a file below the root", access(path, F_OK));
    snprintf(path, sizeof path, "%s.", above);
    MUST(stat("/", &root));
    MUST(stat(path, &here));
    truth("the root", root.st_ino == here.st_ino && root.st_dev == here.st_dev);
    strcpy(path, shown);
    int is_shorter = 1, is_same = 1;
    while (strcmp(path, "/") != 0) {
        char *last = strrchr(path, '/');

        last[last == path] = 0;
        MUST(chdir(".."));
        if (!getcwd(shown, sizeof shown))
            case_give_up("getcwd", errno);
        is_shorter &= strcmp(shown, path) == 0;
        MUST(stat(path, &root));
        MUST(stat(".", &here));
        is_same &= root.st_ino == here.st_ino;
    }
    truth("each step takes a name away", is_shorter);
    truth("and leads to the directory of that name", is_same);
    MUST(chdir("/"));
    MUST(chdir(".."));
    text("above the root", getcwd(shown, sizeof shown) ? shown : "?");
}

CASE(small_matters_of_folders)
{
    struct stat stat_of;
    char bytes[4096], path[64];

    scratch();
    show("remove the root", rmdir("/"));
    show("unlink the root", unlink("/"));
    MUST(stat("/proc", &stat_of));
    number("number of /proc", stat_of.st_ino);
    int fd = MUST(open(".", O_RDONLY | O_DIRECTORY));
    show("more room than there can be", syscall(SYS_getdents64, fd, bytes, 0x80000000u));
    show("direct", open(".", O_RDONLY | O_DIRECT));
    show("direct to nothing", open("/dev/null", O_RDONLY | O_DIRECT));
    MUST(mkfifo("fifo", 0600));
    show("a pipe as a folder", open("fifo", O_RDONLY | O_DIRECTORY | O_NONBLOCK));
    int place = MUST(open(".", O_PATH | O_RDWR | O_NONBLOCK | O_APPEND | O_DIRECTORY));
    printf("flags of a place %o\n", fcntl(place, F_GETFL));
    MUST(mkdir("a", 0755));
    MUST(mkdir("a/b", 0755));
    place = MUST(open("a/b", O_PATH | O_DIRECTORY));
    MUST(rmdir("a/b"));
    MUST(rmdir("a"));
    snprintf(path, sizeof path, "/proc/self/fd/%d", place);
    show("enter a removed folder", chdir(path));
    show("where", getcwd(bytes, sizeof bytes) ? 0 : -1);
    show("make", mkdir("x", 0755));
    show("enter it by descriptor", fchdir(place));
    show("leave", chdir("/"));
}
