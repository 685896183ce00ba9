/* The actors of generated programs: they read a line, make the call, and write down what it returned. */
#include <stdarg.h>
#include <ucontext.h>

/* Where mappings of programs go, and what is around bad addresses. At fixed places of the actor's own memory. */
enum { PAGE = 4096, FIELD_PAGES = 64, ARENA = 1 << 18, MOST_OUTS = 24 };
static char *field;                            /* FIELD_PAGES without access, for MAP_FIXED: % */
static char *read_only, *edge;                 /* a page that can only be read; the end of a page before one that is not there */
static char arenas[MOST_ACTORS][ARENA] __attribute__((aligned(64)));
static char stacks[MOST_ACTORS][1 << 16] __attribute__((aligned(64)));

struct out {
    unsigned char *at;
    size_t size;
    char format[64];
};

/* The reading of one line. */
struct reading {
    const char *text;
    int actor;
    size_t used;                               /* of the arena */
    int n_outs;
    struct out outs[MOST_OUTS];
    int bad;                                   /* the line cannot be read */
};

static long call6(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 asm("r10") = d;
    register long r8 asm("r8") = e;
    register long r9 asm("r9") = f;
    asm volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return result;
}

/* --- reading lines --- */

static void *take_room(struct reading *r, size_t size)
{
    size_t at = (r->used + 15) & ~15ul;
    if (at + size > ARENA) {
        r->bad = 1;
        at = size = 0;
    }
    r->used = at + size;
    return arenas[r->actor] + at;
}

static int next_is(struct reading *r, char c)
{
    while (*r->text == ' ')
        r->text++;
    if (*r->text != c)
        return 0;
    r->text++;
    return 1;
}

static long number(struct reading *r)
{
    char *end;
    long value = *r->text == '-' ? strtol(r->text, &end, 0) : (long)strtoul(r->text, &end, 0);
    if (end == r->text)
        r->bad = 1;
    r->text = end;
    return value;
}

static struct result *line_of(struct reading *r)
{
    unsigned long line = number(r);
    if (line >= MOST_LINES) {
        r->bad = 1;
        line = 0;
    }
    return &board->results[line];
}

static long bad_address(struct reading *r)
{
    switch (*r->text++) {
    case 'b': return (long)edge;
    case 'r': return (long)read_only;
    case 'e': return (long)edge - number(r);
    }
    r->bad = 1;
    return 0;
}

static long one_value(struct reading *r)
{
    if (next_is(r, '$')) {
        struct result *result = line_of(r);
        if (*r->text != '.')
            return result->value;
        r->text++;
        unsigned long offset = number(r);
        int value = -1;
        if (offset + 4 <= OUT_KEPT)
            memcpy(&value, result->out + offset, 4);
        return value;
    }
    if (next_is(r, '#')) {
        struct actor *actor = &board->actors[number(r) & (MOST_ACTORS - 1)];
        if (*r->text != '.')
            return actor->pid;
        r->text += 2;
        return actor->tid;
    }
    if (next_is(r, '%'))
        return (long)field + number(r);
    if (next_is(r, '!'))
        return bad_address(r);
    return number(r);
}

static long value_of(struct reading *r)
{
    long value = next_is(r, '~') ? -one_value(r) : one_value(r);
    while (*r->text == '+') {
        r->text++;
        value += one_value(r);
    }
    return value;
}

static int digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* The bytes of "...", with \xNN for what is not a letter. The quote is read already. */
static size_t quoted(struct reading *r, char *to, size_t room)
{
    size_t size = 0;
    while (*r->text && *r->text != '"') {
        char c = *r->text++;
        if (c == '\\' && r->text[0] == 'x' && r->text[1] && r->text[2]) {
            c = digit(r->text[1]) * 16 + digit(r->text[2]);
            r->text += 3;
        }
        if (size < room)
            to[size++] = c;
    }
    if (!*r->text)
        r->bad = 1;
    else
        r->text++;
    return size;
}

static long pointer(struct reading *r);

static void put(char **to, char *end, const void *from, size_t size)
{
    if (*to + size <= end) {
        memcpy(*to, from, size);
        *to += size;
    }
}

/* One part of { ... }: b w d q VALUE; zN; s"..."; fSEED*N; p POINTER; h$LINE.OFFSET:N raw bytes of an earlier result. */
static void piece(struct reading *r, char **to, char *end)
{
    static const char widths[] = "bwdq";
    char kind = *r->text++;
    if (kind && strchr(widths, kind)) {
        long value = value_of(r);
        put(to, end, &value, 1ul << (strchr(widths, kind) - widths));
    } else if (kind == 'z') {
        for (long left = number(r); left > 0 && *to < end; left--)
            *(*to)++ = 0;
    } else if (kind == 's' && next_is(r, '"')) {
        *to += quoted(r, *to, end - *to);
    } else if (kind == 'f') {
        unsigned long seed = number(r);
        r->text++;
        for (long left = number(r); left > 0 && *to < end; left--, seed++)
            *(*to)++ = seed * 7 + seed / 256;
    } else if (kind == 'p') {
        long value = pointer(r);
        put(to, end, &value, 8);
    } else if (kind == 'h' && next_is(r, '$')) {
        struct result *result = line_of(r);
        r->text++;
        unsigned long offset = number(r);
        r->text++;
        unsigned long size = number(r);
        if (offset + size <= OUT_KEPT)
            put(to, end, result->out + offset, size);
    } else {
        r->bad = 1;
    }
}

/* The inside of { ... }, of which the brace is read. */
static char *structure(struct reading *r, size_t *size)
{
    /* Parts that pointers lead to lie behind; what it takes itself is found out at the end. */
    char *start = take_room(r, 1 << 14);
    if (r->bad)
        return start;
    char *to = start, *end = start + (1 << 14);
    while (!next_is(r, '}')) {
        if (!*r->text || r->bad) {
            r->bad = 1;
            break;
        }
        piece(r, &to, end);
    }
    *size = to - start;
    return start;
}

static void read_format(struct reading *r, struct out *out)
{
    size_t length = 0;
    if (*r->text == ':')
        for (r->text++; *r->text && !strchr(" }", *r->text); r->text++)
            if (length + 1 < sizeof out->format)
                out->format[length++] = *r->text;
    out->format[length] = 0;
}

/* &N:FORMAT or &{...}:FORMAT, the & being read. */
static long buffer(struct reading *r)
{
    struct out out;
    if (*r->text == '{') {
        r->text++;
        out.at = (unsigned char *)structure(r, &out.size);
    } else {
        out.size = number(r);
        out.at = take_room(r, out.size);
        if (!r->bad)
            memset(out.at, 0xaa, out.size);
    }
    read_format(r, &out);
    if (r->n_outs < MOST_OUTS)
        r->outs[r->n_outs++] = out;
    return (long)out.at;
}

static long pointer(struct reading *r)
{
    size_t size = 0;
    if (next_is(r, '"')) {
        char *start = take_room(r, 4352);
        if (!r->bad)
            start[quoted(r, start, 4351)] = 0;
        return (long)start;
    }
    if (next_is(r, '{'))
        return (long)structure(r, &size);
    if (next_is(r, '&'))
        return buffer(r);
    return value_of(r);
}

/* --- writing results --- */

struct writing {
    char *to, *end;
};

static void say(struct writing *w, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int size = vsnprintf(w->to, w->end - w->to, format, list);
    va_end(list);
    w->to = size < w->end - w->to ? w->to + size : w->end - 1;
}

/* The place of a number among those seen, which it joins. */
static int seen_place(unsigned long *seen, int *count, unsigned long value)
{
    for (int i = 0; i < *count; i++)
        if (seen[i] == value)
            return i;
    if (*count < MOST_NAMES)
        seen[(*count)++] = value;
    return *count - 1;
}

static void say_port(struct writing *w, unsigned short port)
{
    port = port >> 8 | port << 8;
    if (port < 32768) {
        say(w, "port %d", port);
        return;
    }
    int i = 0;
    while (i < board->n_ports && board->ports[i] != port)
        i++;
    if (i == board->n_ports && i < MOST_NAMES)
        board->ports[board->n_ports++] = port;
    say(w, "port @%d", i);
}

static void say_pid(struct writing *w, int pid)
{
    for (int a = 0; a < MOST_ACTORS; a++)
        if (board->actors[a].pid == pid && pid > 0) {
            say(w, "#%d", a);
            return;
        }
    for (int a = 0; a < MOST_ACTORS; a++)
        if (board->actors[a].tid == pid && pid > 0) {
            say(w, "#%d.t", a);
            return;
        }
    if (pid == board->conductor)
        say(w, "conductor");
    else
        say(w, pid > 1 ? "someone" : "%d", pid);
}

static void say_address(struct writing *w, unsigned long address)
{
    if (address - (unsigned long)field < FIELD_PAGES * PAGE)
        say(w, "%%%#lx", address - (unsigned long)field);
    else if (address - (unsigned long)arenas < sizeof arenas)
        say(w, "own memory");
    else if (address == (unsigned long)edge || address == (unsigned long)read_only)
        say(w, address == (unsigned long)edge ? "!b" : "!r");
    else if (address < PAGE)
        say(w, "%#lx", address);
    else
        say(w, "place %d+%#lx", seen_place(board->addresses, &board->n_addresses, address & ~0xffful), address & 0xfff);
}

static void say_bytes(struct writing *w, const unsigned char *at, size_t size)
{
    size_t whole = size;
    unsigned long hash = 5381;
    while (size && at[size - 1] == 0xaa)
        size--;
    for (size_t i = 0; i < size; i++)
        hash = hash * 33 + at[i];
    for (size_t i = 0; i < size && i < 40; i++)
        say(w, "%02x", at[i]);
    if (size > 40)
        say(w, "..%zu:%lx", size, hash);
    if (size < whole)
        say(w, "_");
}

static void say_text(struct writing *w, const unsigned char *at, size_t size)
{
    for (size_t i = 0; i < size && at[i]; i++)
        if (at[i] > ' ' && at[i] < 127 && at[i] != '\\')
            say(w, "%c", at[i]);
        else
            say(w, "\\%02x", at[i]);
}

static void say_sockaddr(struct writing *w, const unsigned char *at, size_t size)
{
    unsigned short family, port;
    memcpy(&family, at, 2);
    memcpy(&port, at + 2, 2);
    if (family == 2 && size >= 16) {
        say(w, "inet %d.%d.%d.%d ", at[4], at[5], at[6], at[7]);
        say_port(w, port);
        say_bytes(w, at + 8, 8);
    } else if (family == 10 && size >= 28) {
        say(w, "inet6 ");
        say_bytes(w, at + 8, 16);
        say(w, " ");
        say_port(w, port);
        say_bytes(w, at + 4, 4);
        say_bytes(w, at + 24, 4);
    } else if (family == 16 && size >= 12) {
        unsigned part[2];
        memcpy(part, at + 4, 8);
        say(w, "netlink ");
        say_pid(w, part[0]);
        say(w, " groups %x", part[1]);
    } else if (family == 1 && size > 7 && !at[2] && at[3] != 0xaa && at[8] == 0xaa) {
        /* What the kernel chose, if it has that form: five digits. */
        say(w, "unix automatic");
    } else {
        say_bytes(w, at, size);
    }
}

/* A path without the folder in which the program runs. */
static void say_path(struct writing *w, const unsigned char *at, size_t size)
{
    size_t home = strlen(board->home);
    if (size > home && !memcmp(at, board->home, home)) {
        say(w, "~");
        at += home;
        size -= home;
    }
    say_text(w, at, size);
}

static unsigned long field_of(const unsigned char **at, const unsigned char *end, size_t size)
{
    unsigned long value = 0;
    if (*at + size <= end)
        memcpy(&value, *at, size);
    *at += size;
    return value;
}

/* struct stat without what depends on the file system: sizes of what is no file, and links of folders. */
static void say_stat(struct writing *w, const unsigned char *at, size_t size)
{
    struct stat stat;
    if (size < sizeof stat)
        return;
    memcpy(&stat, at, sizeof stat);
    say(w, "mode %o owner %d:%d", stat.st_mode, stat.st_uid, stat.st_gid);
    if (!S_ISDIR(stat.st_mode) && !S_ISSOCK(stat.st_mode) && !S_ISFIFO(stat.st_mode) && !S_ISCHR(stat.st_mode))
        say(w, " size %ld", (long)stat.st_size);
    if (S_ISREG(stat.st_mode) || S_ISLNK(stat.st_mode) || S_ISDIR(stat.st_mode))
        say(w, " links %d inode %d", (int)stat.st_nlink, seen_place(board->inodes, &board->n_inodes, stat.st_ino));
}

static void say_statx(struct writing *w, const unsigned char *at, size_t size)
{
    struct statx stat;
    if (size < sizeof stat)
        return;
    memcpy(&stat, at, sizeof stat);
    say(w, "mask %x mode %o owner %d:%d", stat.stx_mask & 0x7ff & ~0x800, stat.stx_mode, stat.stx_uid, stat.stx_gid);
    if (S_ISREG(stat.stx_mode) || S_ISLNK(stat.stx_mode))
        say(w, " size %ld links %d", (long)stat.stx_size, stat.stx_nlink);
}

/* Access and modification times that a program can have set: small ones. */
static void say_times(struct writing *w, const unsigned char *at, size_t size)
{
    long times[4];
    if (size < sizeof times)
        return;
    memcpy(times, at, sizeof times);
    for (int i = 0; i < 4; i += 2)
        if (times[i] < 100000)
            say(w, " %ld.%09ld", times[i], times[i + 1]);
        else
            say(w, " now");
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Entries of a folder, in the order of their names. */
static void say_names(struct writing *w, const unsigned char *at, const unsigned char *end)
{
    const char *names[64];
    int count = 0;
    while (at + 19 < end && count < 64) {
        unsigned short length;
        memcpy(&length, at + 16, 2);
        if (length < 20 || length > end - at)
            break;
        names[count++] = (const char *)at + 18;
        at += length;
    }
    qsort(names, count, sizeof *names, by_text);
    for (int i = 0; i < count; i++)
        say(w, " %d:%s", names[i][0], names[i] + 1);
}

/* Names of attributes that programs set; a machine may have others. */
static void say_attributes(struct writing *w, const unsigned char *at, size_t size)
{
    for (size_t i = 0; i < size && at[i] != 0xaa; i += strlen((const char *)at + i) + 1)
        if (!memcmp(at + i, "user.", 5) || !memcmp(at + i, "trusted.", 8))
            say(w, " %s", at + i);
}

/* Events of inotify. */
static void say_watched(struct writing *w, const unsigned char *at, const unsigned char *end)
{
    int seen = 0;
    unsigned cookie = 0;
    while (at + 16 <= end) {
        struct { int watch; unsigned mask, cookie, length; } event;
        memcpy(&event, at, 16);
        if (event.watch == (int)0xaaaaaaaa || event.length > (size_t)(end - at) - 16)
            break;
        if (event.cookie && event.cookie != cookie)
            seen++, cookie = event.cookie;
        say(w, " %d:%x:%d:%.*s", event.watch, event.mask, event.cookie ? seen : 0, (int)event.length, at + 16);
        at += 16 + event.length;
    }
}

/* Control messages. */
static void say_control(struct writing *w, const unsigned char *at, const unsigned char *end)
{
    while (at + 16 <= end) {
        struct { unsigned long length; int level, type; } head;
        memcpy(&head, at, 16);
        if (head.length < 16 || head.length > (size_t)(end - at))
            break;
        say(w, " %d:%d:", head.level, head.type);
        if (head.level == 1 && head.type == 2 && head.length >= 28) {
            int part[3];
            memcpy(part, at + 16, 12);
            say_pid(w, part[0]);
            say(w, ":%d:%d", part[1], part[2]);
        } else if (!(head.level == 1 && head.type >= 29)) {
            say_bytes(w, at + 16, head.length - 16);
        }
        at += (head.length + 7) & ~7ul;
    }
}

#include "netlink.h"

/* One letter of a format; the table stands in README.md. Returns what follows it. */
static const char *say_field(struct writing *w, const char *format, const unsigned char **at, const unsigned char *end)
{
    char kind = *format++;
    long count = *format >= '0' && *format <= '9' ? strtol(format, (char **)&format, 10) : 0;
    size_t left = *at < end ? end - *at : 0;
    if (kind == '.') {
        *at += count;
        return format;
    }
    say(w, " ");
    switch (kind) {
    case 'b': say(w, "%lx", field_of(at, end, 1)); break;
    case 'w': say(w, "%lx", field_of(at, end, 2)); break;
    case 'd': say(w, "%d", (int)field_of(at, end, 4)); break;
    case 'u': say(w, "%lx", field_of(at, end, 4)); break;
    case 'q': say(w, "%ld", (long)field_of(at, end, 8)); break;
    case 'Q': say(w, "%lx", field_of(at, end, 8)); break;
    case 'p': say_pid(w, field_of(at, end, 4)); break;
    case 'a': say_address(w, field_of(at, end, 8)); break;
    case 'i': say(w, "inode %d", seen_place(board->inodes, &board->n_inodes, field_of(at, end, 8))); break;
    case 'n': say(w, field_of(at, end, 8) ? "some" : "none"); break;
    case 'x': left = count && (size_t)count < left ? (size_t)count : left; say_bytes(w, *at, left); *at += left; break;
    case 's': say_text(w, *at, left); *at = end; break;
    case 'c': say_path(w, *at, left); *at = end; break;
    case 'S': left = count && (size_t)count < left ? (size_t)count : left; say_sockaddr(w, *at, left); *at += left; break;
    case 't': say_stat(w, *at, left); *at = end; break;
    case 'y': say_statx(w, *at, left); *at = end; break;
    case 'T': say_times(w, *at, left); *at = end; break;
    case 'D': say_names(w, *at, end); *at = end; break;
    case 'N': say_attributes(w, *at, left); *at = end; break;
    case 'I': say_watched(w, *at, end); *at = end; break;
    case 'M': say_control(w, *at, end); *at = end; break;
    case 'R': say_netlink(w, *at, end); *at = end; break;
    default: say(w, "?%c", kind); *at = end;
    }
    return format;
}

static void say_out(struct writing *w, const struct out *out, long result)
{
    const char *format = out->format;
    const unsigned char *at = out->at, *end = at + out->size;
    if (*format == '!')
        format++;
    else if (result < 0)
        return;
    if (!*format)
        return;
    say(w, " [");
    if (*format == '*') {
        for (long i = 0; i < result && at < end; i++)
            for (const char *each = format + 1; *each;)
                each = say_field(w, each, &at, end);
    } else {
        while (*format)
            format = say_field(w, format, &at, end);
    }
    say(w, " ]");
}

static void say_value(struct writing *w, char kind, long number, long value)
{
    if (value < 0 && value > -4096) {
        const char *name = strerrorname_np(-value);
        say(w, "-%s", name ? name : "?");
    } else if (kind == 'p') {
        say_pid(w, value);
    } else if (kind == 'a') {
        say_address(w, value);
    } else if (kind == 'k') {
        int i = 0;
        while (i < board->n_ids && !(board->ids[i].id == value && board->ids[i].call == number))
            i++;
        if (i == board->n_ids && i < MOST_IDS)
            board->ids[board->n_ids++] = (struct id){value, number};
        say(w, "id %d", i);
    } else if (kind == 'z') {
        say(w, "ok");
    } else if (kind == 'n') {
        say(w, value ? "not 0" : "0");
    } else {
        say(w, "%ld", value);
    }
}

/* --- signals --- */

static int actor_here(void)
{
    int tid = call6(SYS_gettid, 0, 0, 0, 0, 0, 0);
    for (int a = 0; a < MOST_ACTORS; a++)
        if (board->actors[a].tid == tid)
            return a;
    return 0;
}

/* Bytes that peek and poke try, by actor; where they go on after a fault. */
static volatile int probing[MOST_ACTORS];
static void *after_probe[MOST_ACTORS][5];

static void note_signal(int number, siginfo_t *info, void *context)
{
    int a = actor_here();
    if ((number == SIGSEGV || number == SIGBUS) && info->si_code > 0) {
        if (probing[a]) {
            probing[a] = number * 16 + info->si_code;
            __builtin_longjmp(after_probe[a], 1);
        }
        call6(SYS_exit_group, 100 + number, 0, 0, 0, 0, 0);
    }
    int place = __atomic_fetch_add(&board->n_signals, 1, __ATOMIC_ACQ_REL);
    if (place >= MOST_SIGNALS)
        return;
    struct noted_signal *note = &board->signals[place];
    struct writing w = {note->text, note->text + sizeof note->text};
    note->actor = a;
    say(&w, "%d code %d", number, info->si_code);
    if (number == SIGCHLD && info->si_code > 0) {
        say(&w, " of ");
        say_pid(&w, info->si_pid);
        say(&w, " status %d", info->si_status);
    } else if (info->si_code == SI_USER || info->si_code == SI_TKILL || info->si_code == SI_QUEUE || info->si_code == SI_MESGQ) {
        say(&w, " from ");
        say_pid(&w, info->si_pid);
        if (info->si_code == SI_QUEUE || info->si_code == SI_MESGQ)
            say(&w, " value %d", info->si_int);
    } else if (info->si_code == SI_TIMER) {
        say(&w, " value %d", info->si_int);
    } else if (number == SIGIO || number >= SIGRTMIN) {
        say(&w, " fd %d band %lx", info->si_fd, info->si_band);
    }
    if (((unsigned long)&w) - (unsigned long)field < FIELD_PAGES * PAGE)
        say(&w, " on the other stack");
    unsigned long mask;
    memcpy(&mask, &((ucontext_t *)context)->uc_sigmask, 8);
    if (mask)
        say(&w, " mask %lx", mask);
}

struct kernel_action {
    void *handler;
    unsigned long flags;
    void *restorer;
    unsigned long mask;
};

void restore_after_signal(void);
asm(".text\nrestore_after_signal: mov $15, %eax\n syscall\n");

static void say_action(struct writing *w, const struct kernel_action *action)
{
    const char *who = action->handler == SIG_DFL ? "default" : action->handler == SIG_IGN ? "ignore" : "handler";
    say(w, " was %s flags %lx mask %lx", who, action->flags & ~0x4000000ul, action->mask);
}

/* handle SIGNAL FLAGS MASK KIND: 0 default, 1 ignore, 2 a handler that notes. */
static long handle(struct reading *r, struct writing *w)
{
    long number = value_of(r), flags = value_of(r), mask = value_of(r), kind = value_of(r);
    struct kernel_action action = {(void *)kind, flags | 0x4000000 | SA_SIGINFO, restore_after_signal, mask}, old = {0};
    if (kind == 2)
        action.handler = note_signal;
    long result = call6(SYS_rt_sigaction, number, (long)&action, (long)&old, 8, 0, 0);
    if (!result)
        say_action(w, &old);
    return result;
}

/* --- what is not one call --- */

static void play(int actor);

static int play_thread(void *actor)
{
    play((int)(long)actor);
    return 0;
}

/* spawn ACTOR FLAGS: another actor, by clone with these flags. */
static long spawn(struct reading *r)
{
    long child = value_of(r) & (MOST_ACTORS - 1), flags = value_of(r);
    struct actor *actor = &board->actors[child];
    if (actor->tid || child == 0)
        return -EBUSY;
    /* A parent that waits for the end of its vfork has told already whom it made. */
    board->results[board->actors[r->actor].line].child = child;
    long result;
    if (flags & CLONE_VM) {
        result = clone(play_thread, stacks[child] + sizeof stacks[child], flags, (void *)child);
        if (result < 0)
            result = -errno;
    } else {
        result = call6(SYS_clone, flags, 0, 0, 0, 0, 0);
        if (result == 0)
            play(child);
    }
    if (result < 0)
        board->results[board->actors[r->actor].line].child = 0;
    return result;
}

/* peek ADDRESS: a byte of memory; poke ADDRESS VALUE: writes one. */
static long probe(struct reading *r, int write)
{
    volatile unsigned char *at = (unsigned char *)value_of(r);
    int a = r->actor;
    long value = write ? value_of(r) : 0;
    if (__builtin_setjmp(after_probe[a])) {
        long fault = probing[a];
        probing[a] = 0;
        unsigned long none = 1ul << (fault / 16 - 1);
        call6(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&none, 0, 8, 0, 0);
        return 100000 + fault / 16 * 100 + fault % 16;
    }
    probing[a] = 1;
    if (write)
        *at = value;
    else
        value = *at;
    probing[a] = 0;
    return value;
}

/* execute: the same program anew, as the same actor. */
static long execute(struct reading *r)
{
    char path[4300], number[2] = {'0' + r->actor, 0};
    snprintf(path, sizeof path, "%.*s/board", (int)(strrchr(board->home, '/') - board->home), board->home);
    char *arguments[] = {"actor", path, number, NULL}, *environment[] = {NULL};
    return call6(SYS_execve, (long)"/proc/self/exe", (long)arguments, (long)environment, 0, 0, 0);
}

static long make_call(struct reading *r, const char *name, size_t length, struct writing *w, long *made)
{
    static const struct { const char *name; int number; } special[] = {{"handle", 1}, {"spawn", 2}, {"peek", 3}, {"poke", 4}, {"execute", 5}};
    *made = 0;
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (strlen(special[i].name) == length && !memcmp(special[i].name, name, length))
            switch (special[i].number) {
            case 1: return handle(r, w);
            case 2: return spawn(r);
            case 3: return probe(r, 0);
            case 4: return probe(r, 1);
            case 5: return execute(r);
            }
    if (*name < '0' || *name > '9') {
        r->bad = 1;
        return -ENOSYS;
    }
    long given[6] = {0};
    for (int n = 0; *r->text == ' ' && n < 6 && !r->bad; n++) {
        r->text++;
        given[n] = pointer(r);
    }
    if (r->bad || *r->text) {
        r->bad = 1;
        return -ENOSYS;
    }
    *made = strtol(name, NULL, 10);
    return call6(*made, given[0], given[1], given[2], given[3], given[4], given[5]);
}

/* Makes the call of a line: ACTOR NUMBER[:KIND] ARGUMENT... */
static void make_line(int actor, int line)
{
    struct result *result = &board->results[line];
    struct writing w = {result->text, result->text + sizeof result->text};
    char noted[200] = "";
    struct writing more = {noted, noted + sizeof noted};
    static struct reading readings[MOST_ACTORS];
    struct reading *r = &readings[actor];
    *r = (struct reading){.text = board->text + board->lines[line] + 1, .actor = actor};
    next_is(r, '~');
    next_is(r, ' ');
    const char *name = r->text;
    size_t length = strcspn(name, " :");
    char kind = name[length] == ':' ? name[length + 1] : 0;
    r->text += length + (kind ? 2 : 0);
    long number, value = make_call(r, name, length, &more, &number);
    if (r->bad) {
        say(&w, "cannot be read near \"%.20s\"", r->text);
        value = -1;
    } else {
        say_value(&w, !strncmp(name, "spawn", 5) ? 'z' : kind, number, value);
        say(&w, "%s", noted);
        for (int i = 0; i < r->n_outs; i++)
            say_out(&w, &r->outs[i], value);
    }
    result->value = value;
    if (r->n_outs)
        memcpy(result->out, r->outs[0].at, r->outs[0].size < OUT_KEPT ? r->outs[0].size : OUT_KEPT);
}

/* Makes the lines that it is given, for ever. */
static void play(int a)
{
    struct actor *actor = &board->actors[a];
    unsigned seen = __atomic_load_n(&actor->command, __ATOMIC_ACQUIRE);
    actor->pid = call6(SYS_getpid, 0, 0, 0, 0, 0, 0);
    __atomic_store_n(&actor->tid, (int)call6(SYS_gettid, 0, 0, 0, 0, 0, 0), __ATOMIC_RELEASE);
    __atomic_store_n(&actor->busy, 0, __ATOMIC_RELEASE);
    call6(SYS_futex, (long)&actor->tid, FUTEX_WAKE, 1, 0, 0, 0);
    for (;;) {
        unsigned command = __atomic_load_n(&actor->command, __ATOMIC_ACQUIRE);
        if (command == seen) {
            call6(SYS_futex, (long)&actor->command, FUTEX_WAIT, seen, 0, 0, 0);
            continue;
        }
        seen = command;
        make_line(a, command - 1);
        __atomic_store_n(&actor->busy, 0, __ATOMIC_RELEASE);
        call6(SYS_futex, (long)&actor->busy, FUTEX_WAKE, 1, 0, 0, 0);
    }
}

/* A process that begins with this program: the first of a generated one, or after `execute`. */
int act(const char *board_path, int a)
{
    int file = open(board_path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return 97;
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    int none = MAP_PRIVATE | MAP_ANONYMOUS;
    field = mmap(NULL, FIELD_PAGES * PAGE, PROT_NONE, none, -1, 0);
    edge = (char *)mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, none, -1, 0) + PAGE;
    mprotect(edge, PAGE, PROT_NONE);
    read_only = mmap(NULL, PAGE, PROT_READ, none, -1, 0);
    if (board == MAP_FAILED || field == MAP_FAILED || read_only == MAP_FAILED)
        return 96;
    for (int number = SIGBUS; number <= SIGSEGV; number += SIGSEGV - SIGBUS) {
        struct kernel_action action = {note_signal, SA_SIGINFO | SA_ONSTACK | 0x4000000, restore_after_signal, 0};
        call6(SYS_rt_sigaction, number, (long)&action, 0, 8, 0, 0);
    }
    play(a);
    return 0;
}
