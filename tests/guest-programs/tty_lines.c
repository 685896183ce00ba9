/*
 * The line discipline of terminals: editing, echoes, special characters, input
 * and output processing, raw mode with VMIN and VTIME, buffers and flushing.
 */
#include "terminal.h"

/* Types `input` into a terminal with the changed settings; what is echoed and what a program reads. */
static void typed_bytes(const char *what, struct change change, const char *input, long length)
{
    pair_open();
    apply(change);
    set_nonblocking(slave);
    printf("%s\n", what);
    say_bytes(master, input, length);
    show_all("  echo", master);
    show_all("  line", slave);
    close(slave);
    close(master);
}

static void typed(const char *what, struct change change, const char *input)
{
    typed_bytes(what, change, input, strlen(input));
}

static const struct change NONE;

/* The same with every combination of some local flags. */
static void with_each(const tcflag_t *flags, int count, const char *input)
{
    for (int set = 0; set < 1 << count; set++) {
        struct change change = { 0 };
        char what[64];

        for (int i = 0; i < count; i++) {
            if (set >> i & 1)
                change.lset |= flags[i];
            else
                change.lclear |= flags[i];
        }
        snprintf(what, sizeof what, "flags %#x", change.lset);
        typed(what, change, input);
    }
}

CASE(plain_line)
{
    typed("plain", NONE, "hello\n");
    typed("carriage return", NONE, "hello\r");
    typed("empty", NONE, "\n");
    typed("two lines", NONE, "one\ntwo\n");
    typed("unfinished", NONE, "half");
}

CASE(erase)
{
    typed("one", NONE, "abc\x7f\n");
    typed("two", NONE, "abc\x7f\x7fX\n");
    typed("more than there is", NONE, "ab\x7f\x7f\x7f\x7fz\n");
    typed("control character", NONE, "a\x01\x7f" "b\n");
    typed("not past a line", NONE, "one\n\x7f\x7ftwo\n");
}

CASE(erase_over_tabs)
{
    typed("tab", NONE, "ab\t\x7fx\n");
    typed("two tabs", NONE, "a\tb\t\x7f\x7f\x7fx\n");
    typed("control before tab", NONE, "\x01\t\x7fx\n");
    typed("tab first", NONE, "\t\x7fx\n");
}

CASE(erase_after_a_prompt)
{
    pair_open();
    say(slave, "name: ");
    show_all("prompt", master);
    say(master, "a\tb\x7f\x7f");
    show_all("echo", master);
    say(master, "\n");
    show_all("line end", master);
    show_read("line", slave, 100);
}

CASE(kill_line)
{
    typed("kill", NONE, "abc def\x15x\n");
    typed("empty kill", NONE, "\x15x\n");
    typed("with tab", NONE, "a\tb\x15x\n");
    typed("with control", NONE, "a\x01" "b\x15x\n");
}

CASE(kill_line_without_erasing)
{
    typed("no ECHOKE", (struct change){ .lclear = ECHOKE }, "abc\x15x\n");
    typed("no ECHOK", (struct change){ .lclear = ECHOK }, "abc\x15x\n");
    typed("no ECHOE", (struct change){ .lclear = ECHOE }, "abc\x15x\n");
    typed("no ECHO", (struct change){ .lclear = ECHO }, "abc\x15x\n");
    typed("no ECHOK, ECHOKE", (struct change){ .lclear = ECHOK | ECHOKE }, "abc\x15x\n");
}

CASE(erase_word)
{
    typed("word", NONE, "one two\x17x\n");
    typed("blanks behind", NONE, "one two  \x17x\n");
    typed("punctuation", NONE, "a.b-c_d\x17x\n");
    typed("all", NONE, "word\x17\x17x\n");
    typed("latin 1", NONE, "ab \xe4\xf6\xd7\xdf\x17x\n");
    typed("without IEXTEN", (struct change){ .lclear = IEXTEN }, "one two\x17x\n");
}

CASE(erase_utf8)
{
    typed("off", NONE, "a\xc3\xa4\x7fx\n");
    typed("on", (struct change){ .iset = IUTF8 }, "a\xc3\xa4\x7fx\n");
    typed("three bytes", (struct change){ .iset = IUTF8 }, "\xe2\x82\xac\x7fx\n");
    typed("word", (struct change){ .iset = IUTF8 }, "a \xc3\xa4" "b\x17x\n");
    typed("only continuations", (struct change){ .iset = IUTF8 }, "\xa4\x7fx\n");
    typed("tab behind", (struct change){ .iset = IUTF8 }, "\xc3\xa4\t\x7fx\n");
}

CASE(literal_next)
{
    typed("erase", NONE, "a\x16\x7f" "b\n");
    typed("newline", NONE, "a\x16\nb\n");
    typed("end of file", NONE, "\x16\x04x\n");
    typed("return", NONE, "a\x16\rb\n");
    typed("itself", NONE, "\x16\x16\n");
    typed("interrupt", NONE, "\x16\x03\n");
    typed("stop", NONE, "\x16\x13\n");
    typed("no ECHOCTL", (struct change){ .lclear = ECHOCTL }, "a\x16\x01" "b\n");
    typed("without IEXTEN", (struct change){ .lclear = IEXTEN }, "a\x16" "b\n");
}

CASE(reprint)
{
    typed("reprint", NONE, "abc\x12" "d\n");
    typed("with control", NONE, "a\x01" "c\x12" "d\n");
    typed("without echo", (struct change){ .lclear = ECHO }, "abc\x12" "d\n");
    typed("without IEXTEN", (struct change){ .lclear = IEXTEN }, "abc\x12" "d\n");
}

CASE(end_of_file)
{
    pair_open();
    say(master, "abc\x04");
    show_read("partial", slave, 100);
    say(master, "\x04");
    show_read("end", slave, 100);
    say(master, "x\n");
    show_read("more", slave, 100);
    show_all("echo", master);
}

CASE(end_of_file_behind_an_exact_read)
{
    pair_open();
    set_nonblocking(slave);
    say(master, "abc\x04");
    is_ready(slave, POLLIN, 1000);
    show_read("exact", slave, 3);
    show_read("then", slave, 3);
    say(master, "def\x04ghi\n");
    is_ready(slave, POLLIN, 1000);
    show_read("less", slave, 2);
    show_read("rest", slave, 10);
    show_read("next", slave, 10);
}

CASE(lines_are_read_one_by_one)
{
    pair_open();
    set_nonblocking(slave);
    say(master, "one\ntwo\nthree");
    show_all("echo", master);
    number("unread", count_of(slave, FIONREAD));
    show_read("first", slave, 100);
    number("unread", count_of(slave, FIONREAD));
    show_read("part", slave, 2);
    number("unread", count_of(slave, FIONREAD));
    show_read("rest", slave, 100);
    show_read("none", slave, 100);
    number("unread", count_of(slave, FIONREAD));
}

CASE(other_line_ends)
{
    pair_open();
    set_character(VEOL, ';');
    set_character(VEOL2, ':');
    say(master, "a;b:c\n");
    show_all("echo", master);
    for (int i = 0; i < 3; i++)
        show_read("line", slave, 100);
    apply((struct change){ .lclear = IEXTEN });
    say(master, "a:b\n");
    show_read("without IEXTEN", slave, 100);
}

CASE(disabled_characters)
{
    static const int places[] = { VINTR, VQUIT, VERASE, VKILL, VEOF, VSUSP, VWERASE, VLNEXT, VREPRINT, VSTART, VSTOP };

    for (unsigned i = 0; i < COUNT_OF(places); i++) {
        char line[16];
        struct termios settings;

        pair_open();
        set_nonblocking(slave);
        MUST(tcgetattr(slave, &settings));
        snprintf(line, sizeof line, "ab%cc\n", settings.c_cc[places[i]]);
        set_character(places[i], _POSIX_VDISABLE);
        say(master, line);
        printf("place %d\n", places[i]);
        show_all("  echo", master);
        show_all("  line", slave);
        close(slave);
        close(master);
    }
    typed_bytes("nul", NONE, "a\0b\n", 4);
}

CASE(every_control_character)
{
    for (int c = 0; c < 32; c++) {
        char input[4] = { 'a', c, 'b', '\n' };
        char what[16];

        if (c == 3 || c == 28 || c == 26 || c == 19)
            continue;
        snprintf(what, sizeof what, "%d", c);
        typed_bytes(what, NONE, input, 4);
    }
}

CASE(every_control_character_without_echoctl)
{
    for (int c = 0; c < 32; c++) {
        char input[4] = { 'a', c, 'b', '\n' };
        char what[16];

        if (c == 3 || c == 28 || c == 26 || c == 19)
            continue;
        snprintf(what, sizeof what, "%d", c);
        typed_bytes(what, (struct change){ .lclear = ECHOCTL }, input, 4);
    }
}

CASE(echo_flags)
{
    static const tcflag_t flags[] = { ECHO, ECHOE, ECHOK, ECHONL, ECHOKE };

    with_each(flags, 5, "ab\x7f" "c\x15z\n");
}

CASE(printed_erasing)
{
    static const tcflag_t flags[] = { ECHOPRT, ECHOE, ECHOCTL };

    with_each(flags, 3, "abc\x01\x7f\x7f" "d\x7f\x7f\x7fz\n");
    typed("utf8", (struct change){ .iset = IUTF8, .lset = ECHOPRT }, "a\xc3\xa4\x7fz\n");
}

CASE(input_newline_flags)
{
    static const tcflag_t flags[] = { ICRNL, INLCR, IGNCR };

    for (int set = 0; set < 8; set++) {
        for (int canonical = 0; canonical < 2; canonical++) {
            struct change change = { 0 };
            char what[64];

            for (int i = 0; i < 3; i++) {
                if (set >> i & 1)
                    change.iset |= flags[i];
                else
                    change.iclear |= flags[i];
            }
            if (!canonical)
                change.lclear = ICANON;
            snprintf(what, sizeof what, "flags %#x canonical %d", change.iset, canonical);
            typed(what, change, "a\rb\nc");
        }
    }
}

CASE(case_and_strip)
{
    typed("ISTRIP", (struct change){ .iset = ISTRIP }, "a\xe1z\n");
    typed("IUCLC", (struct change){ .iset = IUCLC }, "AbC\xc4\n");
    typed("IUCLC without IEXTEN", (struct change){ .iset = IUCLC, .lclear = IEXTEN }, "AbC\n");
    typed("both", (struct change){ .iset = IUCLC | ISTRIP }, "A\xc2z\n");
    typed("stripped special", (struct change){ .iset = ISTRIP }, "ab\xff" "c\n");
    typed("literal stripped", (struct change){ .iset = ISTRIP }, "\x16\xe1\n");
}

CASE(parity_marks)
{
    typed("PARMRK", (struct change){ .iset = PARMRK }, "a\xff" "b\n");
    typed("PARMRK raw", (struct change){ .iset = PARMRK, .lclear = ICANON | ECHO }, "a\xff" "b");
    typed("off", NONE, "a\xff" "b\n");
}

CASE(echo_without_canonical_mode)
{
    typed("newline", (struct change){ .lclear = ICANON }, "a\nb\x7f\x15\x04");
    typed("return", (struct change){ .lclear = ICANON }, "a\rb");
    typed("no ECHOCTL", (struct change){ .lclear = ICANON | ECHOCTL }, "a\nb\x01");
}

/* What a program's output becomes. */
static void printed(const char *what, struct change change, const char *output)
{
    pair_open();
    apply(change);
    say(slave, output);
    show_all(what, master);
    close(slave);
    close(master);
}

CASE(output_flags)
{
    static const tcflag_t flags[] = { OPOST, ONLCR, OCRNL, ONOCR, ONLRET };

    for (int set = 0; set < 32; set++) {
        struct change change = { 0 };
        char what[64];

        for (int i = 0; i < 5; i++) {
            if (set >> i & 1)
                change.oset |= flags[i];
            else
                change.oclear |= flags[i];
        }
        snprintf(what, sizeof what, "flags %#x", change.oset);
        printed(what, change, "\rab\r\rc\nd\n\re\r\n");
    }
}

CASE(output_tabs)
{
    printed("kept", NONE, "\ta\tbb\tccccccc\tdddddddd\t|\n");
    printed("expanded", (struct change){ .oset = XTABS }, "\ta\tbb\tccccccc\tdddddddd\t|\n");
    printed("backspace", (struct change){ .oset = XTABS }, "abc\b\b\t|\n");
    printed("return", (struct change){ .oset = XTABS }, "abc\r\t|\n");
    printed("control", (struct change){ .oset = XTABS }, "a\x1b\x07\t|\n");
    printed("utf8 off", (struct change){ .oset = XTABS }, "\xc3\xa4\t|\n");
    printed("utf8 on", (struct change){ .oset = XTABS, .iset = IUTF8 }, "\xc3\xa4\t|\n");
}

CASE(output_upper_case)
{
    printed("OLCUC", (struct change){ .oset = OLCUC }, "aBz\xe4\xf7\xff{\n");
}

CASE(echo_passes_output_processing)
{
    typed("XTABS", (struct change){ .oset = XTABS }, "a\tb\t\x7f\n");
    typed("OLCUC", (struct change){ .oset = OLCUC }, "abc\n");
    typed("no OPOST", (struct change){ .oclear = OPOST }, "a\tb\n");
}

CASE(stopped_output)
{
    pair_open();
    set_nonblocking(slave);
    say(slave, "before ");
    show_all("first", master);
    say(master, "\x13");
    sleep_ms(20);
    show("stopped write", write(slave, "x", 1));
    truth("writable", is_ready(slave, POLLOUT, 0));
    say(master, "a");
    show_all("no echo", master);
    say(master, "\x11");
    sleep_ms(20);
    truth("writable again", is_ready(slave, POLLOUT, 1000));
    show_all("late echo", master);
    say(slave, "after\n");
    show_all("last", master);
}

CASE(any_character_restarts)
{
    pair_open();
    apply((struct change){ .iset = IXANY });
    set_nonblocking(slave);
    say(master, "\x13");
    sleep_ms(20);
    show("stopped", write(slave, "x", 1));
    say(master, "q");
    sleep_ms(20);
    show("going", write(slave, "x", 1));
    show_all("output", master);
}

CASE(switching_ixon_off_restarts)
{
    pair_open();
    set_nonblocking(slave);
    say(master, "\x13");
    sleep_ms(20);
    show("stopped", write(slave, "x", 1));
    apply((struct change){ .iclear = IXON });
    show("going", write(slave, "y", 1));
    say(master, "\x13\n");
    show_all("output", master);
    show_all("input", slave);
}

CASE(tcflow_stops_and_starts)
{
    pair_open();
    set_nonblocking(slave);
    show("TCOOFF", tcflow(slave, TCOOFF));
    show("stopped", write(slave, "x", 1));
    say(master, "\x11");
    sleep_ms(20);
    show("still stopped", write(slave, "x", 1));
    show("TCOON", tcflow(slave, TCOON));
    show("going", write(slave, "y", 1));
    show("TCIOFF", tcflow(slave, TCIOFF));
    show("TCION", tcflow(slave, TCION));
    show_all("output", master);
    show("bad", ioctl(slave, TCXONC, 9));
}

CASE(long_line_keeps_its_last_place)
{
    static char line[6000], got[8192];
    long length;

    pair_open();
    apply((struct change){ .lclear = ECHO });
    for (unsigned i = 0; i < sizeof line; i++)
        line[i] = 'a' + i % 26;
    line[5999] = '\n';
    say_bytes(master, line, 6000);
    sleep_ms(20);
    number("unread", count_of(slave, FIONREAD));
    length = read(slave, got, sizeof got);
    number("length", length);
    truth("same beginning", !memcmp(line, got, 4095));
    bytes("last", got + length - 3, 3);
}

CASE(longest_whole_line)
{
    static const long lengths[] = { 4093, 4094, 4095, 4096, 4097 };
    static char line[5000], got[8192];

    for (unsigned i = 0; i < COUNT_OF(lengths); i++) {
        pair_open();
        apply((struct change){ .lclear = ECHO });
        memset(line, 'x', lengths[i]);
        line[lengths[i]] = '\n';
        say_bytes(master, line, lengths[i] + 1);
        sleep_ms(5);
        printf("%ld: %ld\n", lengths[i], (long)read(slave, got, sizeof got));
        close(slave);
        close(master);
    }
}

CASE(erasing_in_a_line_that_is_too_long)
{
    static char line[5000], got[8192];
    long length;

    pair_open();
    apply((struct change){ .lclear = ECHO });
    memset(line, 'x', 4500);
    say_bytes(master, line, 4500);
    say(master, "\x7f\x7fyz\n");
    sleep_ms(20);
    length = read(slave, got, sizeof got);
    number("length", length);
    bytes("last", got + length - 5, 5);
}

CASE(raw_bytes_pass)
{
    char all[256];
    unsigned char got[512];
    long length = 0;

    pair_open();
    set_raw(1, 0);
    for (int i = 0; i < 256; i++)
        all[i] = i;
    say_bytes(master, all, 256);
    while (length < 256)
        length += MUST(read(slave, got + length, sizeof got - length));
    truth("input", !memcmp(all, got, 256));
    say_bytes(slave, all, 256);
    length = 0;
    while (length < 256)
        length += MUST(read(master, got + length, sizeof got - length));
    truth("output", !memcmp(all, got, 256));
    show_all("nothing echoed", master);
}

CASE(minimum_without_time)
{
    static const int mins[] = { 1, 2, 4 };

    for (unsigned i = 0; i < COUNT_OF(mins); i++) {
        pair_open();
        set_raw(mins[i], 0);
        say(master, "abcdefg");
        sleep_ms(5);
        printf("VMIN %d\n", mins[i]);
        show_read("  small buffer", slave, 3);
        show_read("  rest", slave, 100);
        close(slave);
        close(master);
    }
}

static void *type_slowly(void *argument)
{
    const char *text = argument;

    for (; *text; text++) {
        sleep_ms(20);
        say_bytes(master, text, 1);
    }
    return NULL;
}

CASE(minimum_waits)
{
    pthread_t thread;

    pair_open();
    set_raw(3, 0);
    thread = thread_start(type_slowly, "abcd");
    show_read("three", slave, 100);
    thread_join(thread);
    sleep_ms(5);
    number("unread", count_of(slave, FIONREAD));
    truth("not ready with fewer", !is_ready(slave, POLLIN, 0));
}

CASE(minimum_with_nonblocking)
{
    pair_open();
    set_raw(5, 0);
    set_nonblocking(slave);
    show_read("none", slave, 100);
    say(master, "ab");
    sleep_ms(10);
    truth("not ready", !is_ready(slave, POLLIN, 0));
    show_read("two", slave, 100);
}

CASE(time_without_minimum)
{
    int64_t start = now_ns();

    pair_open();
    set_raw(0, 1);
    show_read("nothing", slave, 100);
    show_elapsed(start, 90);
    say(master, "ab");
    show_read("something", slave, 100);
}

CASE(no_minimum_and_no_time)
{
    pair_open();
    set_raw(0, 0);
    show_read("nothing", slave, 100);
    truth("ready", is_ready(slave, POLLIN, 0));
    say(master, "ab");
    sleep_ms(10);
    show_read("something", slave, 100);
}

CASE(time_between_bytes)
{
    pthread_t thread;
    int64_t start;

    pair_open();
    set_raw(10, 1);
    thread = thread_start(type_slowly, "abc");
    start = now_ns();
    show_read("three", slave, 100);
    show_elapsed(start, 150);
    thread_join(thread);
}

CASE(time_stops_at_the_minimum)
{
    pthread_t thread;

    pair_open();
    set_raw(3, 2);
    thread = thread_start(type_slowly, "abc");
    show_read("three", slave, 100);
    thread_join(thread);
}

CASE(switching_to_raw_shows_the_unfinished_line)
{
    pair_open();
    set_nonblocking(slave);
    say(master, "half");
    show_all("echo", master);
    show_read("canonical", slave, 100);
    set_raw(1, 0);
    show_read("raw", slave, 100);
}

CASE(switching_to_lines_ends_one)
{
    pair_open();
    set_raw(1, 0);
    set_nonblocking(slave);
    say(master, "ab\ncd");
    sleep_ms(20);
    apply((struct change){ .lset = ICANON });
    number("unread", count_of(slave, FIONREAD));
    show_read("canonical", slave, 100);
    show_read("nothing more", slave, 100);
}

CASE(flushing_input)
{
    pair_open();
    set_nonblocking(slave);
    say(master, "one\ntwo");
    show_all("echo", master);
    show("TCIFLUSH", tcflush(slave, TCIFLUSH));
    show_read("nothing", slave, 100);
    say(master, "three\n");
    is_ready(slave, POLLIN, 1000);
    show_read("three", slave, 100);
    show("bad", ioctl(slave, TCFLSH, 7));
}

CASE(settings_with_flush)
{
    struct termios settings;

    pair_open();
    set_nonblocking(slave);
    say(master, "lost\n");
    show_all("echo", master);
    MUST(tcgetattr(slave, &settings));
    show("TCSAFLUSH", tcsetattr(slave, TCSAFLUSH, &settings));
    show_read("nothing", slave, 100);
    say(master, "kept\n");
    show_all("echo", master);
    show("TCSADRAIN", tcsetattr(slave, TCSADRAIN, &settings));
    show_read("line", slave, 100);
    show("tcdrain", tcdrain(slave));
    show("tcsendbreak", tcsendbreak(slave, 0));
}

CASE(flushing_at_the_master)
{
    pair_open();
    set_nonblocking(master);
    say(slave, "shown");
    is_ready(master, POLLIN, 1000);
    show("TCIFLUSH", tcflush(master, TCIFLUSH));
    show_read("nothing", master, 100);
}

CASE(signal_characters_without_a_session)
{
    pair_open();
    set_nonblocking(slave);
    say(master, "abc\x03" "def\n");
    show_all("echo", master);
    show_read("line", slave, 100);
    apply((struct change){ .lset = NOFLSH });
    say(master, "abc\x03" "def\n");
    show_all("echo", master);
    show_read("NOFLSH", slave, 100);
    apply((struct change){ .lclear = ISIG });
    say(master, "abc\x03" "def\n");
    show_all("echo", master);
    show_read("no ISIG", slave, 100);
    apply((struct change){ .lset = ISIG, .lclear = ECHO });
    say(master, "x\x1cy\x1az\n");
    show_all("echo", master);
    show_read("no ECHO", slave, 100);
}

CASE(unread_bytes_are_counted)
{
    pair_open();
    say(master, "ab\x04" "cd\n");
    sleep_ms(20);
    number("slave", count_of(slave, FIONREAD));
    number("output waiting", count_of(slave, TIOCOUTQ));
    is_ready(master, POLLIN, 1000);
    truth("master", count_of(master, FIONREAD) > 0);
    show_read("first", slave, 10);
    number("slave", count_of(slave, FIONREAD));
}

CASE(output_waits_for_the_master)
{
    static char data[64 << 10];
    long written = 0, got = 0, now;

    pair_open();
    set_raw(1, 0);
    set_nonblocking(slave);
    memset(data, 'x', sizeof data);
    for (int i = 0; i < 20; i++) {
        now = write(slave, data, 100);
        while (now > 0) {
            written += now;
            now = write(slave, data, 100);
        }
        sleep_ms(2);
    }
    truth("more than a page", written > 4096);
    truth("less than 64 KiB", written < 65536);
    show("full", write(slave, data, 100));
    truth("not writable", !is_ready(slave, POLLOUT, 0));
    while (got < written)
        got += MUST(read(master, data, sizeof data));
    truth("all arrived", got == written);
    truth("writable", is_ready(slave, POLLOUT, 1000));
}

static void *drain(void *argument)
{
    char data[1000];
    long total = 0, wanted = (long)argument;

    while (total < wanted)
        total += MUST(read(master, data, sizeof data));
    return (void *)total;
}

CASE(large_writes_are_whole)
{
    static char data[100000];
    pthread_t thread;

    pair_open();
    set_raw(1, 0);
    memset(data, 'y', sizeof data);
    thread = thread_start(drain, (void *)sizeof data);
    show("write", write(slave, data, sizeof data));
    number("read", (long)thread_join(thread));
}

CASE(large_input_is_whole)
{
    static char data[50000], got[50000];
    long total = 0;
    pid_t pid;

    pair_open();
    set_raw(1, 0);
    fill_pattern(data, sizeof data, 3);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0)
        _exit(write(master, data, sizeof data) != sizeof data);
    while (total < (long)sizeof got)
        total += MUST(read(slave, got + total, sizeof got - total));
    truth("same", !memcmp(data, got, sizeof data));
    child_end("writer", pid);
}

CASE(vectors)
{
    struct iovec parts[2] = { { "ab", 2 }, { "c\n", 2 } };
    char first[2], second[8];
    struct iovec rooms[2] = { { first, 2 }, { second, 8 } };

    pair_open();
    show("writev", writev(master, parts, 2));
    show("readv", readv(slave, rooms, 2));
    bytes("first", first, 2);
    bytes("second", second, 2);
    show("empty write", write(slave, "", 0));
    show("empty read", read(slave, first, 0));
}

CASE(bad_buffers)
{
    pair_open();
    say(master, "ab\n");
    is_ready(slave, POLLIN, 1000);
    show("read", syscall(SYS_read, slave, (void *)8, 10));
    show("write", syscall(SYS_write, slave, (void *)8, 10));
    show("TCGETS", ioctl(slave, TCGETS, (void *)8));
    show("TCSETS", ioctl(slave, TCSETS, (void *)8));
    show("TIOCGWINSZ", ioctl(slave, TIOCGWINSZ, (void *)8));
    show("FIONREAD", ioctl(slave, FIONREAD, (void *)8));
}
