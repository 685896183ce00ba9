/* What the conductor and the actors of a generated program share: the text, who does what, and what came of it. */
#ifndef BOARD_H
#define BOARD_H

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MOST_ACTORS = 8, MOST_LINES = 96, MOST_SIGNALS = 64, MOST_IDS = 32, MOST_NAMES = 64, OUT_KEPT = 256 };

struct actor {
    int tid;               /* set last, when the actor waits for lines */
    int pid;
    unsigned command;      /* the line to make, plus one; a futex */
    unsigned busy;         /* whether it is still at it; a futex */
    int line;              /* which one the conductor waits for, or -1 */
    int gone, told;
};

struct result {
    long value;
    int child;                       /* the actor that the line makes */
    unsigned char out[OUT_KEPT];     /* the start of the line's first buffer, after the call */
    char text[1000];
};

struct noted_signal {
    int actor;
    char text[96];
};

struct id {
    int id, call;
};

struct board {
    struct actor actors[MOST_ACTORS];
    struct result results[MOST_LINES];
    int n_lines, lines[MOST_LINES];
    int n_signals, signals_printed;
    struct noted_signal signals[MOST_SIGNALS];
    int conductor;
    /* Numbers that differ from machine to machine, in the order in which they were seen. */
    int n_ids, n_ports, n_inodes, n_addresses;
    struct id ids[MOST_IDS];
    unsigned short ports[MOST_NAMES];
    unsigned long inodes[MOST_NAMES], addresses[MOST_NAMES];
    char home[4200];
    char text[1 << 15];
};

extern struct board *board;

int act(const char *board_path, int actor);

#include "actor.h"
#endif
