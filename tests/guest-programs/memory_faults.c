/*
 * Which accesses fault, and how the fault is told: memory without rights, read-only memory and memory that is gone, of every size from a
 * page to reservations larger than the machine; files that end early, code, stacks and the patterns of collectors and compilers.
 */
#include "case.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>

#define PAGE 4096L
#define KIB 1024L
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

static sigjmp_buf back;
static volatile int fault_signal, fault_code, fault_trap;
static void *volatile fault_address;

static void on_fault(int number, siginfo_t *info, void *context)
{
    ucontext_t *saved = context;

    fault_signal = number;
    fault_code = info->si_code;
    fault_address = info->si_addr;
    fault_trap = saved->uc_mcontext.gregs[REG_TRAPNO];
    siglongjmp(back, 1);
}

static void catch_faults(int flags)
{
    struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | flags };

    MUST(sigaction(SIGSEGV, &action, NULL));
    MUST(sigaction(SIGBUS, &action, NULL));
}

static const char *code_name(void)
{
    if (fault_signal == SIGBUS)
        return fault_code == BUS_ADRERR ? "SIGBUS BUS_ADRERR" : "SIGBUS";
    return fault_code == SEGV_MAPERR ? "SEGV_MAPERR" : fault_code == SEGV_ACCERR ? "SEGV_ACCERR" : "SIGSEGV";
}

static void tell(const char *what, const char *how, const volatile char *at)
{
    printf("%s: %s: %s%s, trap %d\n", what, how, code_name(), fault_address == at ? " there" : " elsewhere", fault_trap);
}

/* Reads a byte, and says what came of it. */
static void reads(const char *what, const volatile char *at)
{
    if (sigsetjmp(back, 1))
        return tell(what, "read", at);
    int value = *at;
    printf("%s: read: %d\n", what, value);
}

static void writes(const char *what, volatile char *at)
{
    if (sigsetjmp(back, 1))
        return tell(what, "write", at);
    *at = 7;
    printf("%s: write: ok\n", what);
}

static void touches(const char *what, char *at)
{
    reads(what, at);
    writes(what, at);
}

static void calls(const char *what, char *at)
{
    if (sigsetjmp(back, 1))
        return tell(what, "call", at);
    printf("%s: call: %d\n", what, ((int (*)(void))(uintptr_t)at)());
}

/* The first byte, one in the middle and the last. */
static void touches_all(const char *what, char *at, long length)
{
    touches(what, at);
    touches(what, at + length / 2 + 123);
    touches(what, at + length - 1);
}

static char *map(long length, int protection)
{
    char *at = mmap(NULL, length, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    MUST(at == MAP_FAILED ? -1 : 0);
    return at;
}

static const struct size {
    const char *name;
    long length;
} sizes[] = { { "a page", PAGE },         { "64 KiB", 64 * KIB }, { "1 MiB", MIB },       { "2 MiB", 2 * MIB },
              { "12 MiB", 12 * MIB },     { "64 MiB", 64 * MIB }, { "300 MiB", 300 * MIB }, { "10 GiB", 10 * GIB } };

#define EACH_SIZE(size) for (const struct size *size = sizes; size < sizes + COUNT_OF(sizes); size++)

CASE(no_rights_of_every_size)
{
    catch_faults(0);
    EACH_SIZE(size) {
        char *at = map(size->length, PROT_NONE);
        touches_all(size->name, at, size->length);
        MUST(munmap(at, size->length));
    }
}

CASE(read_only_of_every_size)
{
    catch_faults(0);
    EACH_SIZE(size) {
        char *at = map(size->length, PROT_READ);
        touches_all(size->name, at, size->length);
        MUST(munmap(at, size->length));
    }
}

CASE(write_only_can_be_read)
{
    catch_faults(0);
    char *at = map(2 * MIB, PROT_WRITE);
    touches_all("write only", at, 2 * MIB);
    munmap(at, 2 * MIB);
}

CASE(unmapped_of_every_size)
{
    catch_faults(0);
    EACH_SIZE(size) {
        char *at = map(size->length, PROT_READ | PROT_WRITE);
        at[0] = at[size->length - 1] = 1;
        MUST(munmap(at, size->length));
        touches_all(size->name, at, size->length);
    }
}

CASE(unmapped_after_each_protection)
{
    catch_faults(0);
    for (int protection = 0; protection < 4; protection++) {
        char *at = map(20 * MIB, PROT_READ | PROT_WRITE);
        memset(at, 1, 20 * MIB);
        MUST(mprotect(at, 20 * MIB, protection));
        MUST(munmap(at, 20 * MIB));
        number("protection", protection);
        touches_all("unmapped", at, 20 * MIB);
        char *again = mmap(at, 20 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        truth("there again", again == at);
        touches_all("mapped anew", at, 20 * MIB);
        munmap(at, 20 * MIB);
    }
}

CASE(protections_taken_and_given)
{
    static const int steps[] = { PROT_READ, PROT_NONE, PROT_READ | PROT_WRITE, PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE };
    catch_faults(0);
    EACH_SIZE(size) {
        if (size->length > 100 * MIB)
            break;
        char *at = map(size->length, PROT_READ | PROT_WRITE);
        at[0] = at[size->length / 2 + 123] = at[size->length - 1] = 5;
        for (size_t step = 0; step < COUNT_OF(steps); step++) {
            MUST(mprotect(at, size->length, steps[step]));
            number("protection", steps[step]);
            touches_all(size->name, at, size->length);
        }
        munmap(at, size->length);
    }
}

CASE(a_commit_in_a_reservation_ends_where_it_ends)
{
    catch_faults(0);
    char *at = map(10 * GIB, PROT_NONE);
    long offsets[] = { 0, 64 * KIB, 5 * MIB, 3 * GIB + 12 * PAGE, 10 * GIB - 2 * PAGE };
    for (size_t i = 0; i < COUNT_OF(offsets); i++)
        MUST(mprotect(at + offsets[i], 2 * PAGE, PROT_READ | PROT_WRITE));
    for (size_t i = 0; i < COUNT_OF(offsets); i++) {
        number("commit", offsets[i]);
        touches("first", at + offsets[i]);
        touches("last", at + offsets[i] + 2 * PAGE - 1);
        if (i)
            touches("before", at + offsets[i] - 1);
        if (i + 1 < COUNT_OF(offsets)) {
            touches("behind", at + offsets[i] + 2 * PAGE);
            touches("a little behind", at + offsets[i] + 40 * KIB);
            touches("well behind", at + offsets[i] + 3 * MIB);
        }
    }
    MUST(mprotect(at + 5 * MIB, PAGE, PROT_NONE));
    touches("closed again", at + 5 * MIB);
    touches("left open", at + 5 * MIB + PAGE);
    munmap(at, 10 * GIB);
}

CASE(a_commit_that_grows)
{
    catch_faults(0);
    char *at = map(128 * MIB, PROT_NONE);
    for (long end = 132 * KIB, next; end < 20 * MIB; end = next) {
        next = end * 3 / 2 & -PAGE;
        MUST(mprotect(at, next, PROT_READ | PROT_WRITE));
        at[next - 1] = 1;
        touches("the end", at + next);
    }
    munmap(at, 128 * MIB);
}

CASE(commits_by_fixed_mappings)
{
    catch_faults(0);
    char *at = map(GIB, PROT_NONE);
    int fixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    MUST(mmap(at + 100 * MIB, 40 * MIB, PROT_READ | PROT_WRITE, fixed, -1, 0) == MAP_FAILED ? -1 : 0);
    touches("before", at + 100 * MIB - 1);
    touches("first", at + 100 * MIB);
    touches("last", at + 140 * MIB - 1);
    touches("behind", at + 140 * MIB);
    MUST(mmap(at + 110 * MIB, 20 * MIB, PROT_NONE, fixed, -1, 0) == MAP_FAILED ? -1 : 0);
    touches("left", at + 110 * MIB - 1);
    touches_all("given up", at + 110 * MIB, 20 * MIB);
    touches("left", at + 130 * MIB);
    MUST(mmap(at + 112 * MIB, MIB, PROT_READ, fixed, -1, 0) == MAP_FAILED ? -1 : 0);
    touches_all("read-only", at + 112 * MIB, MIB);
    MUST(mmap(at + 112 * MIB, MIB, PROT_READ | PROT_WRITE, fixed, -1, 0) == MAP_FAILED ? -1 : 0);
    touches_all("writable", at + 112 * MIB, MIB);
    munmap(at, GIB);
    touches("all gone", at + 112 * MIB);
}

CASE(holes_and_what_stays)
{
    catch_faults(0);
    char *at = map(64 * MIB, PROT_READ | PROT_WRITE);
    memset(at, 3, 64 * MIB);
    long holes[][2] = { { PAGE, PAGE }, { MIB, 3 * MIB }, { 10 * MIB, 30 * MIB } };
    for (size_t i = 0; i < COUNT_OF(holes); i++)
        MUST(munmap(at + holes[i][0], holes[i][1]));
    for (size_t i = 0; i < COUNT_OF(holes); i++) {
        reads("before", at + holes[i][0] - 1);
        touches_all("hole", at + holes[i][0], holes[i][1]);
        reads("behind", at + holes[i][0] + holes[i][1]);
    }
    munmap(at, 64 * MIB);
}

CASE(moved_memory_is_gone_where_it_was)
{
    catch_faults(0);
    long lengths[] = { PAGE, 300 * KIB, 3 * MIB, 40 * MIB };
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        long length = lengths[i];
        char *at = map(length, PROT_READ | PROT_WRITE), *to = map(2 * length, PROT_NONE);
        memset(at, 9, length);
        MUST(mremap(at, length, 2 * length, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED ? -1 : 0);
        number("length", length);
        touches_all("old place", at, length);
        touches_all("new place", to, 2 * length);
        MUST(mremap(to, 2 * length, PAGE, 0) == MAP_FAILED ? -1 : 0);
        reads("kept", to);
        touches("cut off", to + PAGE);
        touches("cut off", to + 2 * length - 1);
        munmap(to, PAGE);
    }
}

CASE(moved_memory_keeps_its_protection)
{
    catch_faults(0);
    char *at = map(4 * MIB, PROT_READ | PROT_WRITE);
    memset(at, 9, 4 * MIB);
    MUST(mprotect(at, 4 * MIB, PROT_READ));
    at = mremap(at, 4 * MIB, 8 * MIB, MREMAP_MAYMOVE);
    MUST(at == MAP_FAILED ? -1 : 0);
    touches("read-only", at);
    touches("grown", at + 8 * MIB - 1);
    MUST(mprotect(at, 8 * MIB, PROT_NONE));
    char *to = map(8 * MIB, PROT_NONE);
    MUST(mremap(at, 8 * MIB, 8 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED ? -1 : 0);
    touches("without rights", to);
    MUST(mprotect(to, 8 * MIB, PROT_READ));
    touches("readable", to);
    munmap(to, 8 * MIB);
}

CASE(the_break_faults_behind_its_end)
{
    catch_faults(0);
    char *start = sbrk(0);
    char *page = (char *)(((uintptr_t)start + PAGE - 1) & -PAGE);
    touches("behind", page + 300 * KIB);
    long lengths[] = { 200 * KIB, 5 * MIB, 50 * MIB };
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        MUST(brk(page + lengths[i]));
        memset(page, 1, lengths[i]);
        touches("behind", page + lengths[i]);
        MUST(brk(page + PAGE));
        reads("kept", page);
        touches("given up", page + PAGE);
        touches("given up", page + lengths[i] - 1);
    }
    MUST(brk(page + 2 * PAGE));
    reads("grown again", page + PAGE);
    MUST(brk(start));
}

static int file_of(long length)
{
    static char page[PAGE];
    int fd = MUST(open("f", O_RDWR | O_CREAT | O_TRUNC, 0644));

    memset(page, 'f', PAGE);
    MUST(pwrite(fd, page, PAGE, 0));
    MUST(pwrite(fd, page, PAGE, length - PAGE));
    return fd;
}

CASE(files_of_every_size_keep_their_protection)
{
    catch_faults(0);
    scratch();
    long lengths[] = { PAGE, 48 * KIB, 300 * KIB, 2 * MIB, 20 * MIB };
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        int fd = file_of(lengths[i]);
        for (int shared = 0; shared < 2; shared++) {
            for (int protection = 0; protection < 4; protection++) {
                char *at = mmap(NULL, lengths[i], protection, shared ? MAP_SHARED : MAP_PRIVATE, fd, 0);
                MUST(at == MAP_FAILED ? -1 : 0);
                printf("length %ld, %s, protection %d\n", lengths[i], shared ? "shared" : "private", protection);
                touches_all("file", at, lengths[i]);
                MUST(mprotect(at, lengths[i], PROT_READ));
                touches("made read-only", at);
                MUST(mprotect(at, lengths[i], PROT_READ | PROT_WRITE));
                touches("made writable", at);
                MUST(munmap(at, lengths[i]));
                touches_all("unmapped", at, lengths[i]);
            }
        }
        close(fd);
    }
}

CASE(a_file_that_ends_early_is_a_bus_error)
{
    catch_faults(0);
    scratch();
    int fd = file_of(3 * MIB);
    for (int shared = 0; shared < 2; shared++) {
        MUST(ftruncate(fd, 3 * MIB));
        char *at = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, shared ? MAP_SHARED : MAP_PRIVATE, fd, 0);
        MUST(at == MAP_FAILED ? -1 : 0);
        reads("in the file", at);
        touches("behind its end", at + 3 * MIB);
        MUST(ftruncate(fd, MIB));
        reads("kept", at + MIB - 1);
        touches("cut off", at + MIB);
        touches("cut off", at + 3 * MIB - 1);
        show("read into what is cut off", read(fd, at + 2 * MIB, 10));
        MUST(ftruncate(fd, 3 * MIB));
        reads("grown again", at + 2 * MIB);
        munmap(at, 4 * MIB);
    }
    close(fd);
}

CASE(dontneed_brings_a_private_file_back)
{
    catch_faults(0);
    scratch();
    int fd = file_of(2 * MIB);
    char *at = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    memset(at, 1, 2 * MIB);
    MUST(mprotect(at, 2 * MIB, PROT_READ));
    MUST(madvise(at, 2 * MIB, MADV_DONTNEED));
    touches("from the file", at);
    reads("from the file", at + MIB);
    munmap(at, 2 * MIB);
    at = map(2 * MIB, PROT_READ | PROT_WRITE);
    memset(at, 1, 2 * MIB);
    MUST(mprotect(at, 2 * MIB, PROT_NONE));
    show("MADV_DONTNEED without rights", madvise(at, 2 * MIB, MADV_DONTNEED));
    touches("without rights", at);
    MUST(mprotect(at, 2 * MIB, PROT_READ | PROT_WRITE));
    touches("given back", at);
    munmap(at, 2 * MIB);
}

CASE(code_and_constants_cannot_be_written)
{
    static const char constant[] = "constant";
    catch_faults(0);
    writes("a constant", (char *)constant);
    writes("code", (char *)(uintptr_t)&file_of);
    truth("unchanged", constant[0] == 'c');
}

static const unsigned char code[] = { 0xb8, 42, 0, 0, 0, 0xc3 }; /* mov $42, %eax; ret */

CASE(only_executable_memory_executes)
{
    unsigned char local[64];
    catch_faults(0);
    memcpy(local, code, sizeof code);
    char *heap = malloc(64);
    memcpy(heap, code, sizeof code);
    calls("the heap", heap);
    calls("the stack", (char *)local);
    char *at = map(2 * MIB, PROT_READ | PROT_WRITE);
    memcpy(at, code, sizeof code);
    calls("writable", at);
    MUST(mprotect(at, 2 * MIB, PROT_READ | PROT_EXEC));
    calls("executable", at);
    writes("executable", at + 100);
    MUST(mprotect(at, 2 * MIB, PROT_READ | PROT_WRITE));
    calls("writable again", at);
    writes("writable again", at + 100);
    MUST(mprotect(at, 2 * MIB, PROT_READ | PROT_WRITE | PROT_EXEC));
    calls("everything", at);
    writes("everything", at + 100);
    MUST(mprotect(at, 2 * MIB, PROT_NONE));
    calls("nothing", at);
    munmap(at, 2 * MIB);
    calls("unmapped", at);
    free(heap);
}

static char data_page[PAGE] __attribute__((aligned(4096))) = { 0x31, (char)0xc0, (char)0xc3 }; /* xor %eax, %eax; ret */
static char zero_page[3 * PAGE] __attribute__((aligned(4096)));

static void call_own_data(const char *who)
{
    printf("%s:\n", who);
    calls("data", data_page);
    calls("zeroes", zero_page + PAGE);
    writes("data", data_page + 100);
}

CASE(data_of_a_program_executes_when_it_may)
{
    catch_faults(0);
    memcpy(zero_page + PAGE, code, sizeof code);
    call_own_data("at the start");
    MUST(mprotect(data_page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC));
    MUST(mprotect(zero_page + PAGE, PAGE, PROT_READ | PROT_EXEC));
    call_own_data("executable");
    writes("code", zero_page + PAGE + 100);
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child)
        MUST(waitpid(child, NULL, 0));
    MUST(mprotect(data_page, PAGE, PROT_READ | PROT_WRITE));
    MUST(mprotect(zero_page + PAGE, PAGE, PROT_READ | PROT_WRITE));
    call_own_data(child ? "data again" : "data again, in a child");
    writes("zeroes", zero_page + PAGE + 100);
    fflush(stdout);
    if (child == 0)
        _exit(0);
}

static char *barrier_start;
static volatile int barrier_hits;

static void on_barrier(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    char *page = (char *)((uintptr_t)info->si_addr & -PAGE);
    if (info->si_code != SEGV_ACCERR || page < barrier_start || page >= barrier_start + 16 * MIB)
        _exit(3);
    barrier_hits++;
    if (mprotect(page, PAGE, PROT_READ | PROT_WRITE))
        _exit(4);
}

/* As collectors find what was written: everything is closed, each first write opens its page. */
CASE(write_barriers_over_16_mib)
{
    struct sigaction action = { .sa_sigaction = on_barrier, .sa_flags = SA_SIGINFO };
    MUST(sigaction(SIGSEGV, &action, NULL));
    barrier_start = map(16 * MIB, PROT_READ | PROT_WRITE);
    memset(barrier_start, 1, 16 * MIB);
    uint32_t state = 1;
    for (int round = 0; round < 5; round++) {
        barrier_hits = 0;
        MUST(mprotect(barrier_start, 16 * MIB, PROT_READ));
        for (int i = 0; i < 200; i++) {
            state = state * 1664525u + 1013904223u;
            barrier_start[(state >> 4) % (16 * MIB)]++;
        }
        number("pages written", barrier_hits);
    }
    number("sum", checksum(CHECKSUM_START, barrier_start, 16 * MIB) & 0xffff);
    munmap(barrier_start, 16 * MIB);
}

/* As bounds are checked by hardware: the handler goes on at a landing place. */
static void on_bounds(int number, siginfo_t *info, void *context)
{
    ucontext_t *saved = context;

    (void)number;
    fault_code = info->si_code;
    fault_address = info->si_addr;
    saved->uc_mcontext.gregs[REG_RAX] = -1;
    saved->uc_mcontext.gregs[REG_RIP] += 3;
}

static long load(const char *at)
{
    long value;

    /* Three bytes, which the handler passes over. */
    __asm__ volatile(".byte 0x48, 0x8b, 0x02" : "=a"(value) : "d"(at) : "memory");
    return value;
}

CASE(a_handler_passes_over_what_is_out_of_bounds)
{
    struct sigaction action = { .sa_sigaction = on_bounds, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    MUST(sigaction(SIGSEGV, &action, NULL));
    char *at = map(10 * GIB, PROT_NONE);
    long size = 64 * KIB;
    for (int round = 0; round < 4; round++, size *= 16) {
        MUST(mprotect(at, size, PROT_READ | PROT_WRITE));
        long offsets[] = { 0, size - 8, size - 4, size, size + MIB, 2 * GIB, 4 * GIB - 8, 8 * GIB };
        for (size_t i = 0; i < COUNT_OF(offsets); i++) {
            fault_code = 0;
            printf("%ld of %ld: %ld, code %d\n", offsets[i], size, load(at + offsets[i]), fault_code);
        }
    }
    munmap(at, 10 * GIB);
}

static int endless = 1;

__attribute__((noinline)) static int descend(int depth)
{
    volatile char frame[2000];

    frame[0] = depth;
    return endless ? descend(depth + 1) + frame[0] : 0;
}

CASE(a_stack_that_overflows_is_left_by_a_jump)
{
    static char alternate[64 << 10];
    stack_t stack = { .ss_sp = alternate, .ss_size = sizeof alternate };
    MUST(sigaltstack(&stack, NULL));
    catch_faults(SA_ONSTACK);
    for (int i = 0; i < 3; i++) {
        if (sigsetjmp(back, 1)) {
            printf("left: %s, below the frame: %s\n", code_name(), (char *)fault_address < (char *)&i ? "yes" : "no");
            continue;
        }
        printf("%d\n", descend(0));
    }
    stack.ss_flags = SS_DISABLE;
    MUST(sigaltstack(&stack, NULL));
}

static void *overflow(void *argument)
{
    static char alternate[64 << 10];
    stack_t stack = { .ss_sp = alternate, .ss_size = sizeof alternate };

    (void)argument;
    MUST(sigaltstack(&stack, NULL));
    if (sigsetjmp(back, 1))
        printf("left: %s\n", code_name());
    else
        printf("%d\n", descend(0));
    stack.ss_flags = SS_DISABLE;
    MUST(sigaltstack(&stack, NULL));
    return NULL;
}

CASE(a_thread_that_overflows_meets_its_guard)
{
    long stacks[] = { 64 * KIB, MIB, 8 * MIB, 64 * MIB }, guards[] = { PAGE, 64 * KIB, 2 * MIB };
    catch_faults(SA_ONSTACK);
    for (size_t i = 0; i < COUNT_OF(stacks); i++) {
        for (size_t j = 0; j < COUNT_OF(guards); j++) {
            pthread_attr_t attributes;
            pthread_t thread;
            MUST_ZERO(pthread_attr_init(&attributes));
            MUST_ZERO(pthread_attr_setstacksize(&attributes, stacks[i] + guards[j]));
            MUST_ZERO(pthread_attr_setguardsize(&attributes, guards[j]));
            MUST_ZERO(pthread_create(&thread, &attributes, overflow, NULL));
            MUST_ZERO(pthread_join(thread, NULL));
        }
    }
}

CASE(a_child_has_the_same_protections)
{
    catch_faults(0);
    char *reserved = map(GIB, PROT_NONE), *constant = map(20 * MIB, PROT_READ | PROT_WRITE);
    char *gone = map(3 * MIB, PROT_READ | PROT_WRITE), *far = map(40 * MIB, PROT_READ | PROT_WRITE);
    MUST(mprotect(reserved + 5 * MIB, PAGE, PROT_READ | PROT_WRITE));
    memset(constant, 4, 20 * MIB);
    MUST(mprotect(constant, 20 * MIB, PROT_READ));
    MUST(munmap(gone, 3 * MIB));
    MUST(munmap(far, 40 * MIB));
    for (int i = 0; i < 3; i++) {
        fflush(stdout);
        pid_t child = MUST(fork());
        if (child)
            MUST(waitpid(child, NULL, 0));
        touches("reserved", reserved);
        touches("committed", reserved + 5 * MIB);
        touches("behind", reserved + 5 * MIB + PAGE);
        touches_all("constant", constant, 20 * MIB);
        touches_all("gone", gone, 3 * MIB);
        touches_all("gone", far, 40 * MIB);
        if (child == 0) {
            MUST(mprotect(reserved, 30 * MIB, PROT_READ | PROT_WRITE));
            MUST(mprotect(constant, MIB, PROT_READ | PROT_WRITE));
            touches("opened by the child", reserved + 20 * MIB);
            touches("opened by the child", constant);
            fflush(stdout);
            _exit(0);
        }
        touches("not opened by the parent", reserved + 20 * MIB);
        touches("not opened by the parent", constant);
    }
    munmap(reserved, GIB);
    munmap(constant, 20 * MIB);
}

CASE(twins_reserve_and_end_one_after_the_other)
{
    catch_faults(0);
    for (int i = 0; i < 20; i++) {
        fflush(stdout);
        pid_t child = MUST(fork());
        if (child == 0) {
            char *at = map(2 * GIB, PROT_NONE);
            touches("reserved", at + GIB);
            MUST(mprotect(at + GIB, 3 * MIB, PROT_READ | PROT_WRITE));
            touches("committed", at + GIB + 2 * MIB);
            fflush(stdout);
            _exit(0);
        }
        MUST(waitpid(child, NULL, 0));
    }
}

static char *shared_place;

static void *take_rights(void *argument)
{
    (void)argument;
    MUST(mprotect(shared_place, 3 * MIB, PROT_NONE));
    return NULL;
}

CASE(another_thread_takes_the_rights)
{
    catch_faults(0);
    shared_place = map(3 * MIB, PROT_READ | PROT_WRITE);
    memset(shared_place, 6, 3 * MIB);
    thread_join(thread_start(take_rights, NULL));
    touches_all("closed by another", shared_place, 3 * MIB);
    munmap(shared_place, 3 * MIB);
}

CASE(calls_are_refused_what_faults)
{
    scratch();
    int zero = MUST(open("/dev/zero", O_RDONLY));
    char *reserved = map(GIB, PROT_NONE), *constant = map(3 * MIB, PROT_READ);
    show("read into a reservation", read(zero, reserved + 500 * MIB, 10));
    show("read into read-only memory", read(zero, constant + MIB, 10));
    MUST(mprotect(reserved + 4 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE));
    int fd = MUST(open("f", O_RDWR | O_CREAT, 0644));
    static char block[3 * PAGE];
    MUST(write(fd, block, sizeof block));
    show("read up to the end", pread(fd, reserved + 4 * PAGE, 2 * PAGE, 0));
    show("read over the end", pread(fd, reserved + 6 * PAGE - 100, 200, 0));
    MUST(munmap(constant, 3 * MIB));
    show("read into what is gone", read(zero, constant + MIB, 10));
    munmap(reserved, GIB);
}

CASE(memory_that_grows_downwards)
{
    struct rlimit limit, smaller;
    catch_faults(0);
    MUST(getrlimit(RLIMIT_STACK, &limit));
    smaller = (struct rlimit){ 2 * MIB, limit.rlim_max };
    MUST(setrlimit(RLIMIT_STACK, &smaller));
    char *area = map(64 * MIB, PROT_NONE), *at = area + 60 * MIB;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_GROWSDOWN;
    MUST(mmap(at, 2 * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED ? -1 : 0);
    MUST(munmap(area, 60 * MIB));
    touches("at its start", at);
    touches("below it", at - 1);
    touches("well below it", at - MIB);
    reads("in between", at - MIB / 2);
    touches("beyond the limit", at - 3 * MIB);
    MUST(mmap(at - 2 * MIB, PAGE, PROT_READ, flags & ~MAP_GROWSDOWN, -1, 0) == MAP_FAILED ? -1 : 0);
    touches("close to another mapping", at - 3 * MIB / 2);
    show("from its start on", mprotect(at, PAGE, PROT_READ | PROT_GROWSDOWN));
    touches("read-only", at - MIB);
    munmap(area, 64 * MIB);
    MUST(setrlimit(RLIMIT_STACK, &limit));
}

CASE(a_large_buffer_in_a_loop)
{
    long wrong = 0;
    for (int i = 0; i < 300; i++) {
        long length = (256 + i % 7 * 16) * KIB;
        char *at = map(length, PROT_READ | PROT_WRITE);
        for (long j = 0; j < length; j += 509)
            wrong += at[j] != 0;
        memset(at, 1, i % 5 ? PAGE : length);
        if (i % 3 == 0) {
            at = mremap(at, length, length / 2 & -PAGE, MREMAP_MAYMOVE);
            length = length / 2 & -PAGE;
        }
        MUST(munmap(at, length));
    }
    number("bytes that were not zero", wrong);
}

CASE(the_break_in_a_loop)
{
    char *start = sbrk(0);
    long wrong = 0;
    for (int i = 0; i < 300; i++) {
        MUST(brk(start + (i % 9 + 1) * 100000));
        for (long j = 0; j < (i % 9 + 1) * 100000; j += 509)
            wrong += start[j] != 0;
        memset(start, 1, i % 3 ? 5000 : (i % 9 + 1) * 100000);
        MUST(brk(start));
    }
    number("bytes that were not zero", wrong);
}
