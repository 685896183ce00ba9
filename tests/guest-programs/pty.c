/*
 * Pseudo-terminals as devices: opening, names, attributes, locks, window sizes,
 * settings, packet mode, readiness, and what remains when one side is closed.
 */
#include "terminal.h"

#include <pty.h>
#include <sys/epoll.h>
#include <sys/sysmacros.h>

static void show_ready(const char *what, int fd)
{
    struct pollfd entry = { .fd = fd, .events = POLLIN | POLLOUT | POLLPRI };

    poll(&entry, 1, 0);
    printf("%s: %#x\n", what, entry.revents);
}

CASE(names_and_numbers)
{
    char name[64];
    unsigned index = 99;

    master = MUST(posix_openpt(O_RDWR | O_NOCTTY));
    show("TIOCGPTN", ioctl(master, TIOCGPTN, &index));
    snprintf(name, sizeof name, "/dev/pts/%u", index);
    truth("ptsname", !strcmp(ptsname(master), name));
    show("exists", access(name, F_OK));
    show("locked", open(name, O_RDWR | O_NOCTTY));
    index = 0;
    show("TIOCGPTLCK", ioctl(master, TIOCGPTLCK, &index));
    number("locked", index);
    show("unlock", unlockpt(master));
    slave = MUST(open(name, O_RDWR | O_NOCTTY));
    truth("ttyname", !strcmp(ttyname(slave), name));
    show("isatty slave", isatty(slave));
    show("isatty master", isatty(master));
    show("TIOCGPTN on slave", ioctl(slave, TIOCGPTN, &index));
    show("TIOCSPTLCK on slave", ioctl(slave, TIOCSPTLCK, &index));
    MUST(close(master));
    show("gone", access(name, F_OK));
}

CASE(numbers_are_used_again)
{
    unsigned first, second, third;
    int other;

    master = MUST(posix_openpt(O_RDWR | O_NOCTTY));
    other = MUST(posix_openpt(O_RDWR | O_NOCTTY));
    MUST(ioctl(master, TIOCGPTN, &first));
    MUST(ioctl(other, TIOCGPTN, &second));
    truth("different", first != second);
    MUST(close(master));
    master = MUST(posix_openpt(O_RDWR | O_NOCTTY));
    MUST(ioctl(master, TIOCGPTN, &third));
    truth("the same again", first == third);
}

CASE(attributes)
{
    struct stat by_name, open_one, tty, ptmx;
    unsigned index;

    pair_open();
    MUST(ioctl(master, TIOCGPTN, &index));
    MUST(stat(ptsname(master), &by_name));
    MUST(fstat(slave, &open_one));
    MUST(stat("/dev/tty", &tty));
    MUST(fstat(master, &ptmx));
    truth("character device", S_ISCHR(by_name.st_mode) && S_ISCHR(ptmx.st_mode));
    number("major", major(by_name.st_rdev));
    truth("minor", minor(by_name.st_rdev) == index);
    truth("same file", by_name.st_ino == open_one.st_ino && by_name.st_dev == open_one.st_dev);
    truth("same device", by_name.st_rdev == open_one.st_rdev);
    truth("own", by_name.st_uid == getuid());
    printf("tty %u:%u ptmx %u:%u\n", major(tty.st_rdev), minor(tty.st_rdev), major(ptmx.st_rdev), minor(ptmx.st_rdev));
    show("fchmod", fchmod(slave, 0600));
    MUST(stat(ptsname(master), &by_name));
    printf("mode %o\n", by_name.st_mode & 07777);
    show("chmod", chmod(ptsname(master), 0640));
    MUST(fstat(slave, &open_one));
    printf("mode %o\n", open_one.st_mode & 07777);
}

CASE(listed)
{
    struct dirent *entry;
    DIR *dir;
    int found = 0;

    pair_open();
    dir = opendir("/dev/pts");
    while (dir && (entry = readdir(dir)))
        if (!strcmp(entry->d_name, ptsname(master) + 9)) {
            found++;
            number("type", entry->d_type);
        }
    closedir(dir);
    number("found", found);
}

CASE(peer)
{
    int flags = -1;

    master = MUST(posix_openpt(O_RDWR | O_NOCTTY));
    show("locked", ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY));
    MUST(unlockpt(master));
    slave = MUST(ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
    flags = fcntl(slave, F_GETFD);
    number("FD", flags);
    printf("FL %#x\n", fcntl(slave, F_GETFL));
    truth("same name", !strcmp(ttyname(slave), ptsname(master)));
    show("on slave", ioctl(slave, TIOCGPTPEER, O_RDWR));
}

CASE(links_in_proc)
{
    char path[64], name[64];
    long length;

    pair_open();
    snprintf(path, sizeof path, "/proc/self/fd/%d", slave);
    length = MUST(readlink(path, name, sizeof name - 1));
    name[length] = 0;
    truth("slave", !strcmp(name, ptsname(master)));
    MUST(close(slave));
    slave = MUST(open(ptsname(master), O_RDONLY | O_NOCTTY));
    snprintf(path, sizeof path, "/proc/self/fd/%d", slave);
    close(MUST(open(path, O_RDWR | O_NOCTTY)));
}

CASE(first_settings)
{
    struct termios settings;
    struct winsize window;

    pair_open();
    MUST(tcgetattr(slave, &settings));
    show_flags(&settings);
    bytes("characters", settings.c_cc, 17);
    truth("speed", cfgetospeed(&settings) == B38400 && cfgetispeed(&settings) == B38400);
    show("window", ioctl(slave, TIOCGWINSZ, &window));
    printf("%d %d %d %d\n", window.ws_row, window.ws_col, window.ws_xpixel, window.ws_ypixel);
    MUST(tcgetattr(master, &settings));
    show_flags(&settings);
}

CASE(settings_are_one_for_both_sides)
{
    struct termios settings;

    pair_open();
    MUST(tcgetattr(master, &settings));
    cfmakeraw(&settings);
    cfsetspeed(&settings, B115200);
    show("tcsetattr", tcsetattr(master, TCSANOW, &settings));
    MUST(tcgetattr(slave, &settings));
    show_flags(&settings);
    truth("speed", cfgetospeed(&settings) == B115200);
}

CASE(parity_and_width_cannot_be_had)
{
    struct termios settings;

    pair_open();
    MUST(tcgetattr(slave, &settings));
    settings.c_cflag = (settings.c_cflag & ~(CSIZE | CREAD)) | CS7 | PARENB | PARODD | CSTOPB | HUPCL | CLOCAL;
    MUST(tcsetattr(slave, TCSANOW, &settings));
    MUST(tcgetattr(slave, &settings));
    printf("cflag %#x\n", settings.c_cflag);
}

struct short_settings {
    unsigned short iflag, oflag, cflag, lflag;
    unsigned char line, characters[8];
};

CASE(older_forms_of_settings)
{
    struct short_settings settings;
    struct termios whole;
    unsigned char second[64] = { 0 };

    pair_open();
    memset(&settings, 0, sizeof settings);
    show("TCGETA", ioctl(slave, TCGETA, &settings));
    printf("%#x %#x %#x %#x\n", settings.iflag, settings.oflag, settings.cflag, settings.lflag);
    bytes("characters", settings.characters, 8);
    settings.lflag &= ~ECHO;
    settings.characters[VERASE] = 'E';
    show("TCSETA", ioctl(slave, TCSETA, &settings));
    MUST(tcgetattr(slave, &whole));
    show_flags(&whole);
    number("erase", whole.c_cc[VERASE]);
    show("TCGETS2", ioctl(slave, 0x802c542a, second));
    bytes("speeds", second + 36, 8);
}

CASE(window_sizes)
{
    struct winsize set = { 24, 80, 640, 480 }, got;

    pair_open();
    show("set", ioctl(master, TIOCSWINSZ, &set));
    memset(&got, 0, sizeof got);
    show("get", ioctl(slave, TIOCGWINSZ, &got));
    truth("same", !memcmp(&set, &got, sizeof set));
    set.ws_row = 50;
    show("set by slave", ioctl(slave, TIOCSWINSZ, &set));
    show("get", ioctl(master, TIOCGWINSZ, &got));
    number("rows", got.ws_row);
}

CASE(openpty_and_its_settings)
{
    struct termios settings = { .c_iflag = ICRNL, .c_oflag = 0, .c_lflag = ICANON, .c_cflag = CS8 | B9600 };
    struct winsize window = { 10, 20, 0, 0 };
    char name[64];

    show("openpty", openpty(&master, &slave, name, &settings, &window));
    truth("name", !strcmp(name, ttyname(slave)));
    MUST(tcgetattr(slave, &settings));
    show_flags(&settings);
    MUST(ioctl(slave, TIOCGWINSZ, &window));
    number("rows", window.ws_row);
}

CASE(exclusive)
{
    int value = -1;

    pair_open();
    show("TIOCGEXCL", ioctl(slave, TIOCGEXCL, &value));
    number("exclusive", value);
    show("TIOCEXCL", ioctl(slave, TIOCEXCL));
    MUST(ioctl(slave, TIOCGEXCL, &value));
    number("exclusive", value);
    MUST(ioctl(master, TIOCGEXCL, &value));
    number("master", value);
    show("TIOCNXCL", ioctl(slave, TIOCNXCL));
}

CASE(requests_that_a_pair_refuses)
{
    static const unsigned long requests[] = { TIOCMGET, TIOCMSET, TIOCGSERIAL, 0x5460, 0x1234, TIOCGICOUNT };
    char room[256];

    pair_open();
    memset(room, 0, sizeof room);
    for (unsigned i = 0; i < COUNT_OF(requests); i++) {
        printf("%#lx\n", requests[i]);
        show("  slave", ioctl(slave, requests[i], room));
        show("  master", ioctl(master, requests[i], room));
    }
}

CASE(discipline_number)
{
    int value = -1;

    pair_open();
    show("TIOCGETD", ioctl(slave, TIOCGETD, &value));
    number("discipline", value);
    value = 0;
    show("TIOCSETD", ioctl(slave, TIOCSETD, &value));
}

CASE(other_calls)
{
    char byte;

    pair_open();
    show("lseek", lseek(slave, 0, SEEK_SET));
    show("pread", pread(slave, &byte, 1, 0));
    show("fsync", fsync(slave));
    show("ftruncate", ftruncate(slave, 0));
    show("master lseek", lseek(master, 0, SEEK_CUR));
    printf("FL %#x %#x\n", fcntl(master, F_GETFL), fcntl(slave, F_GETFL));
}

CASE(readiness)
{
    pair_open();
    show_ready("master", master);
    show_ready("slave", slave);
    say(master, "a");
    is_ready(master, POLLIN, 1000);
    show_ready("echo waits", master);
    show_ready("half a line", slave);
    say(master, "\n");
    is_ready(slave, POLLIN, 1000);
    show_ready("line", slave);
    show_all("echo", master);
    show_ready("read", master);
    close(slave);
    show_ready("slave closed", master);
}

CASE(readiness_by_epoll)
{
    int instance = MUST(epoll_create1(0));
    struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.u32 = 1 }, got[4];

    pair_open();
    MUST(epoll_ctl(instance, EPOLL_CTL_ADD, slave, &event));
    event.data.u32 = 2;
    MUST(epoll_ctl(instance, EPOLL_CTL_ADD, master, &event));
    show("nothing", epoll_wait(instance, got, 4, 0));
    say(slave, "x");
    show("output", epoll_wait(instance, got, 4, 1000));
    number("which", got[0].data.u32);
    apply((struct change){ .lclear = ECHO });
    while (epoll_wait(instance, got, 4, 20) > 0)
        ;
    say(master, "y\n");
    show("input", epoll_wait(instance, got, 4, 1000));
    number("which", got[0].data.u32);
    show("edge", epoll_wait(instance, got, 4, 20));
    close(slave);
    show("hang-up", epoll_wait(instance, got, 4, 1000));
    printf("which %u events %#x\n", got[0].data.u32, got[0].events);
}

CASE(master_before_the_slave_is_opened)
{
    master = MUST(posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK));
    show_ready("never opened", master);
    show_read("read", master, 10);
    show("write", write(master, "early\n", 6));
    MUST(unlockpt(master));
    show_all("echo", master);
    slave = MUST(open(ptsname(master), O_RDWR | O_NOCTTY));
    show_read("kept", slave, 100);
}

CASE(slave_closes)
{
    pair_open();
    say(slave, "last words");
    MUST(close(slave));
    is_ready(master, POLLHUP, 1000);
    show_ready("with data", master);
    show_read("data", master, 100);
    show_ready("empty", master);
    show_read("end", master, 100);
    show("write", write(master, "x\n", 2));
    slave = MUST(open(ptsname(master), O_RDWR | O_NOCTTY));
    show_all("echo", master);
    show_read("was kept", slave, 100);
    set_nonblocking(master);
    show_read("open again", master, 100);
}

CASE(several_opens_of_a_slave)
{
    int other;

    pair_open();
    set_nonblocking(master);
    other = MUST(open(ptsname(master), O_WRONLY | O_NOCTTY));
    MUST(close(slave));
    show_read("still open", master, 10);
    say(other, "x");
    show_all("data", master);
    show("read of a writer", read(other, NULL, 0));
    MUST(close(other));
    show_read("closed", master, 10);
}

CASE(master_closes)
{
    struct termios settings;
    int group;

    pair_open();
    say(master, "unread\n");
    show_all("echo", master);
    MUST(close(master));
    show_ready("hung up", slave);
    show_read("read", slave, 10);
    show("write", write(slave, "x", 1));
    show("TCGETS", tcgetattr(slave, &settings));
    show("isatty", isatty(slave));
    show("TIOCGPGRP", ioctl(slave, TIOCGPGRP, &group));
    show("TIOCSPGRP", ioctl(slave, TIOCSPGRP, &group));
    show("FIONREAD", ioctl(slave, FIONREAD, &group));
    show("TIOCNOTTY", ioctl(slave, TIOCNOTTY));
}

static void *close_later(void *argument)
{
    sleep_ms(20);
    MUST(close(*(int *)argument));
    return NULL;
}

CASE(master_closes_under_a_reader)
{
    pthread_t thread;

    pair_open();
    thread = thread_start(close_later, &master);
    show_read("read", slave, 10);
    thread_join(thread);
}

CASE(slave_closes_under_a_reader)
{
    pthread_t thread;

    pair_open();
    thread = thread_start(close_later, &slave);
    show_read("read", master, 10);
    thread_join(thread);
}

CASE(writer_is_woken_by_the_end)
{
    static char data[100000];
    pthread_t thread;
    long written;

    pair_open();
    set_raw(1, 0);
    thread = thread_start(close_later, &master);
    written = write(slave, data, sizeof data);
    truth("a part", written > 0 && written < (long)sizeof data);
    show("again", write(slave, data, 1));
    thread_join(thread);
}

CASE(blocking_reads)
{
    pid_t pid;

    pair_open();
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        sleep_ms(20);
        say(slave, "from the child");
        _exit(0);
    }
    show_read("master", master, 100);
    child_end("child", pid);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        sleep_ms(20);
        say(master, "typed\n");
        _exit(0);
    }
    show_read("slave", slave, 100);
    child_end("child", pid);
}

static void show_packet(const char *what)
{
    char data[100];
    long got = read(master, data, sizeof data);

    if (got < 0)
        show(what, got);
    else
        bytes(what, data, got);
}

CASE(packet_mode)
{
    int on = 1, value = 7;

    pair_open();
    set_nonblocking(master);
    show("TIOCPKT", ioctl(master, TIOCPKT, &on));
    show("TIOCGPKT", ioctl(master, TIOCGPKT, &value));
    number("packet", value);
    show("on slave", ioctl(slave, TIOCPKT, &on));
    show_packet("nothing");
    say(slave, "data");
    is_ready(master, POLLIN, 1000);
    show_packet("data");
    show("flush input", tcflush(slave, TCIFLUSH));
    show_ready("status", master);
    show_packet("FLUSHREAD");
    show("flush output", tcflush(slave, TCOFLUSH));
    show_packet("FLUSHWRITE");
    show("flush both", tcflush(slave, TCIOFLUSH));
    show_packet("both");
    tcflow(slave, TCOOFF);
    show_packet("STOP");
    tcflow(slave, TCOON);
    show_packet("START");
    apply((struct change){ .iclear = IXON });
    show_packet("NOSTOP");
    apply((struct change){ .iset = IXON });
    show_packet("DOSTOP");
    apply((struct change){ .lclear = ECHO });
    show_packet("nothing of it");
    on = 0;
    show("off", ioctl(master, TIOCPKT, &on));
    say(slave, "plain");
    is_ready(master, POLLIN, 1000);
    show_packet("plain");
}

CASE(packet_mode_by_characters)
{
    int on = 1;

    pair_open();
    set_nonblocking(master);
    MUST(ioctl(master, TIOCPKT, &on));
    say(master, "\x13");
    is_ready(master, POLLPRI, 1000);
    show_packet("stopped");
    say(master, "\x11");
    is_ready(master, POLLPRI, 1000);
    show_packet("started");
    say(master, "ab\x03");
    sleep_ms(20);
    show_packet("interrupt");
    show_all("echo", master);
}

CASE(packet_mode_with_extproc)
{
    int on = 1;

    pair_open();
    set_nonblocking(master);
    MUST(ioctl(master, TIOCPKT, &on));
    apply((struct change){ .lset = EXTPROC });
    show_packet("set");
    apply((struct change){ .lclear = ECHO });
    show_packet("change");
    say(master, "a\x7f\x03\r");
    sleep_ms(20);
    show_packet("no echo");
    set_nonblocking(slave);
    show_read("as it came", slave, 100);
}

CASE(reopening_by_descriptor)
{
    char path[64];
    unsigned first, second;
    int again;

    pair_open();
    snprintf(path, sizeof path, "/proc/self/fd/%d", master);
    again = MUST(open(path, O_RDWR | O_NOCTTY));
    MUST(ioctl(master, TIOCGPTN, &first));
    MUST(ioctl(again, TIOCGPTN, &second));
    truth("another pair", first != second);
    snprintf(path, sizeof path, "/proc/self/fd/%d", slave);
    again = MUST(open(path, O_RDWR | O_NOCTTY));
    truth("the same terminal", !strcmp(ttyname(slave), ttyname(again)));
}

CASE(many_pairs)
{
    int masters[20], slaves[20];

    for (int i = 0; i < 20; i++) {
        char word[16];

        pair_open();
        masters[i] = master;
        slaves[i] = slave;
        snprintf(word, sizeof word, "pair %d\n", i);
        say(master, word);
    }
    for (int i = 0; i < 20; i++)
        show_read("line", slaves[i], 100);
    for (int i = 0; i < 20; i++)
        close(masters[i]);
}
