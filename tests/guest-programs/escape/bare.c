/*
 * A program with no library, no unwind tables and, once they have been cut off, no section headers: what rewriting knows of its
 * code, it has to find. Prints what cpuid, rdrand and the clock answer.
 */
typedef unsigned long word;

static word call(word number, word a, word b, word c)
{
    word result;
    asm volatile("syscall" : "=a"(result) : "0"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

static void print(const char *name, word value)
{
    char line[64], *at = line;
    while (*name)
        *at++ = *name++;
    *at++ = ' ';
    for (int shift = 60; shift >= 0; shift -= 4)
        *at++ = "0123456789abcdef"[value >> shift & 15];
    *at++ = '\n';
    call(1, 1, (word)line, at - line);
}

static void brand(void)
{
    unsigned a = 0x80000002, b, c = 0, d;
    asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    print("brand", (word)b << 32 | a);
}

static void features(void)
{
    unsigned a, d;
    asm volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    print("features", (word)d << 32 | a);
}

static void number(void)
{
    word value;
    asm volatile("rdrand %0" : "=r"(value) : : "cc");
    print("random", value);
}

static void stamp(void)
{
    unsigned a, d;
    asm volatile("rdtsc" : "=a"(a), "=d"(d));
    print("stamp", (word)d << 32 | a);
}

/* Called by way of a table, and of a switch that the compiler makes into one. */
static void (*const table[])(void) = { brand, number, stamp, features };

static void choose(int which)
{
    switch (which) {
    case 0: table[0](); break;
    case 1: print("one", call(39, 0, 0, 0)); break;
    case 2: table[1](); break;
    case 3: print("uid", call(102, 0, 0, 0)); break;
    case 4: { word value; asm volatile("rdseed %0" : "=r"(value) : : "cc"); print("seed", value); break; }
    case 5: table[2](); break;
    case 6: print("time", call(201, 0, 0, 0)); break;
    case 7: table[3](); break;
    }
}

void _start(void)
{
    for (volatile int i = 0; i < 8; i++)
        choose(i);
    call(231, 0, 0, 0);
}
