/* Leases on files: who may have one, who hears of it, and who waits. */
#include "case.h"
#include "process.h"

static volatile sig_atomic_t broken;

static void on_break(int number)
{
    (void)number;
    broken++;
}

static void handle_breaks(void)
{
    struct sigaction action = { .sa_handler = on_break, .sa_flags = SA_RESTART };

    broken = 0;
    sigaction(SIGIO, &action, NULL);
}

static void show_lease(const char *what, int fd)
{
    int kind = fcntl(fd, F_GETLEASE);

    text(what, kind == F_RDLCK ? "read" : kind == F_WRLCK ? "write" : kind == F_UNLCK ? "none" : "?");
}

CASE(leases_are_taken_changed_and_given_up)
{
    int reader, writer;

    scratch();
    file_make("file", "text");
    MUST(reader = open("file", O_RDONLY));
    show_lease("at first", reader);
    show("nothing to give up", fcntl(reader, F_SETLEASE, F_UNLCK));
    show("read lease", fcntl(reader, F_SETLEASE, F_RDLCK));
    show_lease("then", reader);
    show("write lease", fcntl(reader, F_SETLEASE, F_WRLCK));
    show_lease("then", reader);
    show("back", fcntl(reader, F_SETLEASE, F_RDLCK));
    show("none", fcntl(reader, F_SETLEASE, F_UNLCK));
    show_lease("then", reader);
    MUST(writer = open("file", O_RDWR));
    show("read lease beside a writer", fcntl(reader, F_SETLEASE, F_RDLCK));
    show("write lease beside another", fcntl(writer, F_SETLEASE, F_WRLCK));
    MUST(close(reader));
    show("read lease of a writer", fcntl(writer, F_SETLEASE, F_RDLCK));
    show("write lease of the only one", fcntl(writer, F_SETLEASE, F_WRLCK));
    show("an unknown kind", fcntl(writer, F_SETLEASE, 7));
}

CASE(only_regular_files_have_leases)
{
    int ends[2], directory;

    scratch();
    MUST(pipe(ends));
    MUST(directory = open(".", O_RDONLY | O_DIRECTORY));
    show("pipe", fcntl(ends[0], F_SETLEASE, F_RDLCK));
    show_lease("of a pipe", ends[0]);
    show("no descriptor", fcntl(60, F_SETLEASE, F_RDLCK));
}

/* A child opens the file, in a way that the holder's lease stands against. */
static void break_by(const char *what, int lease, int flags, int answer)
{
    int fd, opened[2], status;
    char done = 0;
    pid_t child;

    handle_breaks();
    file_make("file", "text");
    MUST(pipe(opened));
    MUST(fd = open("file", O_RDONLY));
    MUST(fcntl(fd, F_SETLEASE, lease));
    fflush(stdout);
    MUST(child = fork());
    if (child == 0) {
        int other = open("file", flags);

        if (write(opened[1], other < 0 ? "x" : "o", 1) != 1)
            _exit(2);
        _exit(other < 0 ? errno == EAGAIN ? 3 : 4 : 0);
    }
    while (!broken && !(flags & O_NONBLOCK) && answer >= 0)
        usleep(1000);
    if (answer >= 0 && !(flags & O_NONBLOCK)) {
        show_lease(what, fd);
        show("answer", fcntl(fd, F_SETLEASE, answer));
    }
    MUST(read(opened[0], &done, 1));
    MUST(waitpid(child, &status, 0));
    printf("%s: opened %c, status %d, told %d\n", what, done, WEXITSTATUS(status), (int)broken);
    show_lease("after", fd);
    close(fd);
    close(opened[0]);
    close(opened[1]);
}

CASE(writers_wait_for_read_leases)
{
    scratch();
    break_by("writer against read lease", F_RDLCK, O_WRONLY, F_UNLCK);
}

CASE(readers_pass_read_leases)
{
    scratch();
    break_by("reader beside read lease", F_RDLCK, O_RDONLY, -1);
}

CASE(readers_wait_for_write_leases_to_go_down)
{
    scratch();
    break_by("reader against write lease", F_WRLCK, O_RDONLY, F_RDLCK);
    break_by("reader against write lease that goes", F_WRLCK, O_RDONLY, F_UNLCK);
}

CASE(who_does_not_wait_is_refused_and_breaks_nevertheless)
{
    scratch();
    break_by("hasty writer", F_RDLCK, O_WRONLY | O_NONBLOCK, F_UNLCK);
    number("breaks told", broken);
}

CASE(truncation_breaks_leases_and_closing_ends_them)
{
    int fd, status;
    pid_t child;

    scratch();
    handle_breaks();
    file_make("file", "text");
    MUST(fd = open("file", O_RDONLY));
    MUST(fcntl(fd, F_SETLEASE, F_RDLCK));
    fflush(stdout);
    MUST(child = fork());
    if (child == 0) {
        close(fd);
        _exit(truncate("file", 1) == 0 ? 0 : 1);
    }
    while (!broken)
        usleep(1000);
    MUST(close(fd));
    MUST(waitpid(child, &status, 0));
    number("truncated, status", WEXITSTATUS(status));
    file_show("file");
}

static volatile sig_atomic_t code_seen, descriptor_seen;

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    code_seen = info->si_code;
    descriptor_seen = info->si_fd;
    broken++;
}

CASE(a_chosen_signal_names_the_descriptor)
{
    struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART };
    int fd, status;
    pid_t child;

    scratch();
    broken = 0;
    sigaction(SIGRTMIN + 1, &action, NULL);
    file_make("file", "text");
    MUST(fd = open("file", O_RDONLY));
    MUST(fcntl(fd, F_SETSIG, SIGRTMIN + 1));
    MUST(fcntl(fd, F_SETLEASE, F_RDLCK));
    fflush(stdout);
    MUST(child = fork());
    if (child == 0)
        _exit(open("file", O_WRONLY | O_NONBLOCK) < 0 && errno == EWOULDBLOCK ? 0 : 1);
    MUST(waitpid(child, &status, 0));
    number("refused, status", WEXITSTATUS(status));
    number("told", broken);
    truth("POLL_MSG", code_seen == POLL_MSG);
    truth("its descriptor", descriptor_seen == fd);
}
