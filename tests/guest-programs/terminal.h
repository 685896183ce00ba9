/*
 * What the programs about terminals share: a pair of master and slave, its
 * settings, and all that comes out of either side until nothing more does.
 */
#ifndef GNOMON_TERMINAL_H
#define GNOMON_TERMINAL_H

#include "process.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <termios.h>

/* How long a side is given to bring something, and more: natively a kernel thread moves bytes. */
#define FIRST_MS 200
#define SETTLE_MS 25

static int master, slave;

/* Opens a new pair into `master` and `slave`, which becomes nobody's terminal. */
static inline void pair_open(void)
{
    master = MUST(posix_openpt(O_RDWR | O_NOCTTY));
    MUST(grantpt(master));
    MUST(unlockpt(master));
    slave = MUST(open(ptsname(master), O_RDWR | O_NOCTTY));
}

static inline int is_ready(int fd, short events, int timeout_ms)
{
    struct pollfd entry = { .fd = fd, .events = events };

    return poll(&entry, 1, timeout_ms) > 0 && (entry.revents & events);
}

/* Reads what comes until nothing has for a while; prints it. */
static inline void show_all(const char *what, int fd)
{
    static char data[1 << 16];
    long total = 0;

    while (total < (long)sizeof data && is_ready(fd, POLLIN, total ? SETTLE_MS : FIRST_MS)) {
        long got = read(fd, data + total, sizeof data - total);

        if (got <= 0) {
            if (got < 0)
                show("read", got);
            break;
        }
        total += got;
    }
    bytes(what, data, total);
}

/* What one read gives. */
static inline void show_read(const char *what, int fd, long size)
{
    char data[8192];
    long got = read(fd, data, size);

    if (got < 0)
        show(what, got);
    else
        bytes(what, data, got);
}

static inline void say_bytes(int fd, const char *data, long length)
{
    MUST(write(fd, data, length));
}

static inline void say(int fd, const char *data)
{
    say_bytes(fd, data, strlen(data));
}

/* Changes of a terminal's settings: flags that are set, flags that are cleared. */
struct change {
    tcflag_t iset, iclear, oset, oclear, lset, lclear;
};

static inline void apply(struct change change)
{
    struct termios settings;

    MUST(tcgetattr(slave, &settings));
    settings.c_iflag = (settings.c_iflag & ~change.iclear) | change.iset;
    settings.c_oflag = (settings.c_oflag & ~change.oclear) | change.oset;
    settings.c_lflag = (settings.c_lflag & ~change.lclear) | change.lset;
    MUST(tcsetattr(slave, TCSANOW, &settings));
}

static inline void set_character(int place, cc_t value)
{
    struct termios settings;

    MUST(tcgetattr(slave, &settings));
    settings.c_cc[place] = value;
    MUST(tcsetattr(slave, TCSANOW, &settings));
}

static inline void set_raw(int min, int time)
{
    struct termios settings;

    MUST(tcgetattr(slave, &settings));
    cfmakeraw(&settings);
    settings.c_cc[VMIN] = min;
    settings.c_cc[VTIME] = time;
    MUST(tcsetattr(slave, TCSANOW, &settings));
}

static inline void show_flags(const struct termios *settings)
{
    printf("iflag %#x oflag %#x cflag %#x lflag %#x\n", settings->c_iflag, settings->c_oflag,
           settings->c_cflag, settings->c_lflag);
}

static inline int count_of(int fd, unsigned long request)
{
    int count = -1;

    if (ioctl(fd, request, &count))
        return -errno;
    return count;
}

#endif
