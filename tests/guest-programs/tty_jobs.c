/*
 * Sessions with a terminal: how one is got and lost, foreground groups, keys
 * that send signals, background reads and writes, hang-ups.
 */
#include "terminal.h"

/* What a session's leader runs, the terminal open as `slave` and controlling. */
typedef void session_body(void);

static int gate[2], answer[2];

static void expect_gate(void)
{
    gate_wait(gate[0]);
}

/* Starts a leader of a new session whose terminal is the pair's; without `take` it has none yet. */
static pid_t session_start(session_body *body, int take)
{
    pid_t pid;

    pair_open();
    make_pipe(gate);
    make_pipe(answer);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        char *name = ptsname(master);

        alarm(20);
        MUST(setsid());
        MUST(close(slave));
        slave = MUST(open(name, O_RDWR | (take ? 0 : O_NOCTTY)));
        MUST(close(master));
        close(gate[1]);
        close(answer[0]);
        body();
        fflush(stdout);
        _exit(0);
    }
    close(slave);
    close(gate[0]);
    close(answer[1]);
    return pid;
}

static void in_session(session_body *body)
{
    child_end("leader", session_start(body, 1));
    show_all("shown", master);
}

/* A line on the pair's other side is the parent's sign to go on. */
static void tell_parent(void)
{
    gate_open(answer[1]);
}

static void wait_for_session(void)
{
    gate_wait(answer[0]);
}

/* Gives the terminal to a group, from the background too, as a shell does. */
static int give_terminal(pid_t group)
{
    void (*old)(int) = signal(SIGTTOU, SIG_IGN);
    int ret = tcsetpgrp(slave, group);

    signal(SIGTTOU, old);
    return ret;
}

/* Starts a member of the session in a group of its own. */
static pid_t job_start(int foreground, int (*body)(void *), void *argument)
{
    pid_t pid;

    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        /* Whatever becomes of its session, a job holds the standard output of the tests no longer. */
        alarm(20);
        setpgid(0, 0);
        if (foreground)
            give_terminal(getpid());
        fflush(stdout);
        _exit(body(argument));
    }
    setpgid(pid, pid);
    /* The job may have been faster: then this is done from the background. */
    if (foreground)
        MUST(give_terminal(pid));
    return pid;
}

static void take_back(void)
{
    MUST(give_terminal(getpgrp()));
}

static void job_state(const char *what, pid_t pid)
{
    int status = -1;

    if (waitpid(pid, &status, WUNTRACED | WCONTINUED) == pid)
        show_status(what, status);
}

/* Fields 7 and 8 of /proc/self/stat: the terminal's device, its foreground group. */
static void terminal_of_self(int *device, int *foreground)
{
    char line[1024];
    int fd = MUST(open("/proc/self/stat", O_RDONLY));
    long got = MUST(read(fd, line, sizeof line - 1));

    line[got] = 0;
    sscanf(strrchr(line, ')') + 2, "%*c %*d %*d %*d %d %d", device, foreground);
    close(fd);
}

static void show_terminal(const char *what)
{
    int device = -7, foreground = -7, fd = open("/dev/tty", O_RDWR);
    struct stat status;

    MUST(fstat(slave, &status));
    terminal_of_self(&device, &foreground);
    printf("%s: /dev/tty %s, device %s, foreground %s\n", what, fd == -1 ? errno_name(errno) : "ok",
           device == 0 ? "none" : device == (int)status.st_rdev ? "the terminal" : "another",
           foreground == getpgrp() ? "own" : foreground == -1 ? "none" : "another");
    if (fd != -1)
        close(fd);
}

static void first_open(void)
{
    show_terminal("opened");
    truth("session", tcgetsid(slave) == getpid());
    truth("foreground", tcgetpgrp(slave) == getpid());
}

CASE(first_open_takes_the_terminal)
{
    in_session(first_open);
}

static void without_terminal(void)
{
    int value;

    show_terminal("before");
    show("tcgetpgrp", tcgetpgrp(slave));
    show("tcsetpgrp", tcsetpgrp(slave, getpid()));
    show("tcgetsid", tcgetsid(slave));
    show("TIOCNOTTY", ioctl(slave, TIOCNOTTY));
    show("TIOCSCTTY", ioctl(slave, TIOCSCTTY, 0));
    show_terminal("after");
    show("again", ioctl(slave, TIOCSCTTY, 0));
    truth("group", tcgetpgrp(slave) == getpid());
    MUST(ioctl(slave, TIOCGSID, &value));
    truth("session", value == getpid());
}

CASE(terminal_on_demand)
{
    child_end("leader", session_start(without_terminal, 0));
}

static void write_only(void)
{
    int fd = MUST(open(ttyname(slave), O_WRONLY));

    show_terminal("write only");
    close(fd);
    fd = MUST(open(ttyname(slave), O_RDONLY));
    show_terminal("read only");
}

CASE(opening_for_writing_takes_nothing)
{
    child_end("leader", session_start(write_only, 0));
}

static int member_tries(void *argument)
{
    (void)argument;
    show("TIOCSCTTY", ioctl(slave, TIOCSCTTY, 0));
    show_terminal("member");
    fflush(stdout);
    return 0;
}

static void only_leaders(void)
{
    int other;

    child_end("member", child_start(member_tries, NULL));
    MUST(ioctl(slave, TIOCSCTTY, 0));
    other = MUST(posix_openpt(O_RDWR | O_NOCTTY));
    MUST(unlockpt(other));
    other = MUST(open(ptsname(other), O_RDWR));
    show("second terminal", ioctl(other, TIOCSCTTY, 0));
    show("group of the second", tcgetpgrp(other));
    show("set group of the second", tcsetpgrp(other, getpid()));
    show_terminal("kept");
}

CASE(only_leaders_without_one_get_a_terminal)
{
    child_end("leader", session_start(only_leaders, 0));
}

static void other_session(void)
{
    pid_t pid = child_start(member_tries, NULL);

    child_end("member", pid);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        MUST(setsid());
        show_terminal("new session");
        close(MUST(open(ttyname(slave), O_RDWR)));
        show_terminal("not taken away");
        show("TIOCSCTTY", ioctl(slave, TIOCSCTTY, 0));
        show("tcsetpgrp", tcsetpgrp(slave, getpid()));
        fflush(stdout);
        _exit(0);
    }
    child_end("other", pid);
    show_terminal("kept");
}

CASE(another_session_does_not_take_it)
{
    in_session(other_session);
}

static int gives_up(void *argument)
{
    (void)argument;
    show_terminal("inherited");
    show("TIOCNOTTY", ioctl(slave, TIOCNOTTY));
    show_terminal("given up");
    show("again", ioctl(slave, TIOCNOTTY));
    fflush(stdout);
    return 0;
}

static void member_gives_up(void)
{
    child_end("member", child_start(gives_up, NULL));
    show_terminal("leader");
}

CASE(a_member_gives_its_terminal_up)
{
    in_session(member_gives_up);
}

static volatile sig_atomic_t hangups, continues;

static void count_signal(int number)
{
    if (number == SIGHUP)
        hangups++;
    else
        continues++;
}

static void leader_gives_up(void)
{
    signal(SIGHUP, count_signal);
    signal(SIGCONT, count_signal);
    show("TIOCNOTTY", ioctl(slave, TIOCNOTTY));
    number("SIGHUP", hangups);
    number("SIGCONT", continues);
    show_terminal("given up");
    show("write", write(slave, "still here", 10));
}

CASE(a_leader_gives_its_terminal_up)
{
    in_session(leader_gives_up);
}

static void bad_groups(void)
{
    pid_t gone;

    fflush(stdout);
    gone = MUST(fork());
    if (gone == 0)
        _exit(0);
    MUST(waitpid(gone, NULL, 0));
    show("own", tcsetpgrp(slave, getpid()));
    show("gone", tcsetpgrp(slave, gone));
    show("negative", ioctl(slave, TIOCSPGRP, &(int){ -5 }));
    show("another session's", tcsetpgrp(slave, getppid()));
    show("bad address", ioctl(slave, TIOCSPGRP, (void *)8));
    show("not a terminal", tcsetpgrp(gate[0], getpid()));
    truth("unchanged", tcgetpgrp(slave) == getpid());
}

CASE(foreground_groups_that_cannot_be)
{
    in_session(bad_groups);
}

static int sleeps(void *argument)
{
    if (argument)
        tell_parent();
    for (;;)
        pause();
    return 0;
}

static void key_to_foreground(void)
{
    pid_t back = job_start(0, sleeps, NULL);
    pid_t front = job_start(1, sleeps, "");

    job_state("front", front);
    take_back();
    printf("back: %d\n", waitpid(back, NULL, WNOHANG));
    kill(back, SIGKILL);
    job_state("back", back);
}

static void key_case(const char *key)
{
    pid_t pid = session_start(key_to_foreground, 1);

    wait_for_session();
    sleep_ms(10);
    say(master, key);
    child_end("leader", pid);
    show_all("echo", master);
}

CASE(interrupt_key)
{
    key_case("\x03");
}

CASE(quit_key)
{
    key_case("\x1c");
}

static void suspended(void)
{
    pid_t front = job_start(1, sleeps, "");

    job_state("suspended", front);
    take_back();
    MUST(tcsetpgrp(slave, front));
    kill(-front, SIGCONT);
    job_state("continued", front);
    tell_parent();
    job_state("ended", front);
    take_back();
}

CASE(suspend_key_and_continuation)
{
    pid_t pid = session_start(suspended, 1);

    wait_for_session();
    sleep_ms(10);
    say(master, "typed\x1a");
    wait_for_session();
    sleep_ms(10);
    say(master, "\x03");
    child_end("leader", pid);
    show_all("echo", master);
}

CASE(signal_by_the_master)
{
    pid_t pid = session_start(key_to_foreground, 1);
    int refused, taken;

    wait_for_session();
    sleep_ms(10);
    refused = ioctl(master, TIOCSIG, SIGKILL) == -1 ? errno : 0;
    taken = ioctl(master, TIOCSIG, SIGINT);
    child_end("leader", pid);
    show_error("SIGKILL", refused);
    number("SIGINT", taken);
}

static int reads_line(void *argument)
{
    char line[64];
    long got;

    (void)argument;
    got = read(slave, line, sizeof line);
    if (got < 0)
        show("read", got);
    else
        bytes("read", line, got);
    fflush(stdout);
    return 0;
}

static void background_reader(void)
{
    pid_t job = job_start(0, reads_line, NULL);

    job_state("reader", job);
    MUST(tcsetpgrp(slave, job));
    kill(-job, SIGCONT);
    job_state("reader", job);
    tell_parent();
    job_state("reader", job);
    take_back();
}

CASE(background_read_stops)
{
    pid_t pid = session_start(background_reader, 1);

    wait_for_session();
    say(master, "for the job\n");
    child_end("leader", pid);
}

static int reads_ignoring(void *argument)
{
    signal(SIGTTIN, SIG_IGN);
    return reads_line(argument);
}

static int reads_blocking(void *argument)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTTIN);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return reads_line(argument);
}

static void note(int number)
{
    (void)number;
    hangups++;
}

static int reads_handling(void *argument)
{
    struct sigaction action = { .sa_handler = note };

    sigaction(SIGTTIN, &action, NULL);
    reads_line(argument);
    number("handled", hangups);
    fflush(stdout);
    return 0;
}

static void readers_that_do_not_stop(void)
{
    job_state("ignoring", job_start(0, reads_ignoring, NULL));
    job_state("blocking", job_start(0, reads_blocking, NULL));
    job_state("handling", job_start(0, reads_handling, NULL));
}

CASE(background_reads_that_fail)
{
    in_session(readers_that_do_not_stop);
}

static int orphan(void *argument)
{
    pid_t own = getpid();

    (void)argument;
    if (fork() == 0) {
        close(answer[1]);
        while (getppid() == own)
            sleep_ms(2);
        reads_line(NULL);
        show("tcsetpgrp", tcsetpgrp(slave, getpgrp()));
        show("write", write(slave, "allowed\n", 8));
        fflush(stdout);
        _exit(0);
    }
    return 0;
}

static void with_orphans(void)
{
    int done[2], status = -1;
    pid_t job;

    make_pipe(done);
    job = job_start(0, orphan, NULL);
    MUST(waitpid(job, &status, 0));
    close(done[1]);
    wait_for_end(done[0]);
    show_status("parent", status);
}

CASE(orphaned_groups_are_not_stopped)
{
    in_session(with_orphans);
}

static int writes(void *argument)
{
    long got = write(slave, "output\n", 7);

    (void)argument;
    show("write", got);
    fflush(stdout);
    return 0;
}

static int writes_ignoring(void *argument)
{
    signal(SIGTTOU, SIG_IGN);
    return writes(argument);
}

static void background_writers(void)
{
    pid_t job = job_start(0, writes, NULL);

    job_state("without TOSTOP", job);
    apply((struct change){ .lset = TOSTOP });
    job = job_start(0, writes, NULL);
    job_state("with TOSTOP", job);
    MUST(tcsetpgrp(slave, job));
    kill(-job, SIGCONT);
    job_state("continued", job);
    job_state("ended", job);
    take_back();
    job_state("ignoring", job_start(0, writes_ignoring, NULL));
}

CASE(background_writes)
{
    in_session(background_writers);
}

static int changes(void *argument)
{
    struct termios settings;

    (void)argument;
    show("tcgetattr", tcgetattr(slave, &settings));
    fflush(stdout);
    show("tcsetattr", tcsetattr(slave, TCSANOW, &settings));
    fflush(stdout);
    return 0;
}

static int changes_blocking(void *argument)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTTOU);
    sigprocmask(SIG_BLOCK, &set, NULL);
    show("tcflush", tcflush(slave, TCIFLUSH));
    show("tcsetpgrp", tcsetpgrp(slave, getpgrp()));
    return changes(argument);
}

static void background_changes(void)
{
    pid_t job = job_start(0, changes, NULL);

    job_state("changes", job);
    kill(-job, SIGKILL);
    job_state("killed", job);
    job_state("blocking", job_start(0, changes_blocking, NULL));
    take_back();
}

CASE(background_changes_of_settings)
{
    in_session(background_changes);
}

static volatile sig_atomic_t resized;

static void on_resize(int number)
{
    (void)number;
    resized++;
}

static void resizes(void)
{
    struct sigaction action = { .sa_handler = on_resize, .sa_flags = SA_RESTART };
    struct winsize window;

    MUST(sigaction(SIGWINCH, &action, NULL));
    tell_parent();
    expect_gate();
    expect_gate();
    number("times", resized);
    MUST(ioctl(slave, TIOCGWINSZ, &window));
    printf("%d x %d\n", window.ws_row, window.ws_col);
}

CASE(window_changes_are_signalled)
{
    struct winsize window = { 30, 100, 0, 0 };
    pid_t pid = session_start(resizes, 1);

    wait_for_session();
    MUST(ioctl(master, TIOCSWINSZ, &window));
    sleep_ms(20);
    MUST(ioctl(master, TIOCSWINSZ, &window));
    sleep_ms(20);
    window.ws_col = 101;
    MUST(ioctl(master, TIOCSWINSZ, &window));
    sleep_ms(20);
    MUST(write(gate[1], "gg", 2));
    child_end("leader", pid);
}

static void seen_from_the_master(void)
{
    tell_parent();
    expect_gate();
}

CASE(session_seen_from_the_master)
{
    pid_t pid = session_start(seen_from_the_master, 1);
    int value = -1;

    wait_for_session();
    show("TIOCGPGRP", ioctl(master, TIOCGPGRP, &value));
    truth("group", value == pid);
    show("TIOCGSID", ioctl(master, TIOCGSID, &value));
    truth("session", value == pid);
    show("tcsetpgrp", tcsetpgrp(master, pid));
    show("TIOCNOTTY", ioctl(master, TIOCNOTTY));
    gate_open(gate[1]);
    child_end("leader", pid);
    value = -1;
    show("TIOCGPGRP", ioctl(master, TIOCGPGRP, &value));
    number("group", value);
    show("TIOCGSID", ioctl(master, TIOCGSID, &value));
}

static void leader_hears(void)
{
    struct sigaction action = { .sa_handler = count_signal };
    sigset_t set, old;
    char byte;

    MUST(sigaction(SIGHUP, &action, NULL));
    MUST(sigaction(SIGCONT, &action, NULL));
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, &old);
    tell_parent();
    while (!hangups)
        sigsuspend(&old);
    number("SIGHUP", hangups);
    number("SIGCONT", continues);
    show("read", read(slave, &byte, 1));
    show("write", write(slave, "x", 1));
    show("/dev/tty", open("/dev/tty", O_RDWR));
}

CASE(hang_up_reaches_the_leader)
{
    pid_t pid = session_start(leader_hears, 1);

    wait_for_session();
    MUST(close(master));
    child_end("leader", pid);
}

static void default_end(void)
{
    tell_parent();
    for (;;)
        pause();
}

CASE(hang_up_ends_a_leader)
{
    pid_t pid = session_start(default_end, 1);

    wait_for_session();
    MUST(close(master));
    child_end("leader", pid);
}

static int foreground_job(void *argument)
{
    (void)argument;
    close(gate[0]);
    tell_parent();
    for (;;)
        pause();
    return 0;
}

static void leader_leaves_job(void)
{
    job_start(1, foreground_job, NULL);
    expect_gate();
}

/* The job holds the write end of `answer`, so its end is seen here. */
CASE(end_of_the_leader_hangs_the_foreground_up)
{
    pid_t pid = session_start(leader_leaves_job, 1);

    wait_for_session();
    gate_open(gate[1]);
    child_end("leader", pid);
    wait_for_end(answer[0]);
    puts("the job has ended");
    show_read("master", master, 10);
}

CASE(hang_up_and_end_of_the_leader)
{
    pid_t pid = session_start(leader_leaves_job, 1);

    wait_for_session();
    MUST(close(master));
    child_end("leader", pid);
    wait_for_end(answer[0]);
    puts("the job has ended");
}

static volatile sig_atomic_t interrupts;

static void on_interrupt(int number)
{
    (void)number;
    interrupts++;
}

static void interrupted_read(void)
{
    struct sigaction action = { .sa_handler = on_interrupt };
    char line[32];

    MUST(sigaction(SIGINT, &action, NULL));
    tell_parent();
    show("read", read(slave, line, sizeof line));
    number("interrupts", interrupts);
    action.sa_flags = SA_RESTART;
    MUST(sigaction(SIGINT, &action, NULL));
    tell_parent();
    show("read", read(slave, line, sizeof line));
    number("interrupts", interrupts);
}

CASE(reads_interrupted_by_a_key)
{
    pid_t pid = session_start(interrupted_read, 1);

    wait_for_session();
    sleep_ms(20);
    say(master, "lost\x03");
    wait_for_session();
    sleep_ms(20);
    say(master, "lost\x03");
    sleep_ms(20);
    say(master, "kept\n");
    child_end("leader", pid);
    show_all("echo", master);
}

static void controlling_device(void)
{
    struct stat status, own;
    int fd = MUST(open("/dev/tty", O_RDWR));
    char path[64], name[64] = "";

    say(fd, "by /dev/tty\n");
    MUST(fstat(fd, &status));
    MUST(stat("/dev/tty", &own));
    truth("same device", status.st_rdev == own.st_rdev);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    MUST(readlink(path, name, sizeof name - 1));
    text("link", name);
    truth("group", tcgetpgrp(fd) == getpgrp());
    show("isatty", isatty(fd));
    MUST(close(slave));
    show("again", close(open("/dev/tty", O_RDONLY)));
}

CASE(the_controlling_terminal_as_a_device)
{
    in_session(controlling_device);
}

static void stops_itself(void)
{
    pid_t job = job_start(1, sleeps, "");

    job_state("first", job);
    take_back();
    /* Continued in the background: it runs, and the terminal stays with the leader. */
    kill(-job, SIGCONT);
    job_state("background", job);
    truth("foreground", tcgetpgrp(slave) == getpgrp());
    kill(-job, SIGTERM);
    job_state("ended", job);
}

CASE(continued_in_the_background)
{
    pid_t pid = session_start(stops_itself, 1);

    wait_for_session();
    sleep_ms(10);
    say(master, "\x1a");
    child_end("leader", pid);
}
