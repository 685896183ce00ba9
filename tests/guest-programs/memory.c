/*
 * Memory: anonymous and file mappings, moving and protecting them, brk, libc's
 * allocator under stress, generated code, and the kernel's refusal of bad
 * pointers.
 */
#include "case.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { PAGE = 4096 };

static char *map(size_t length, int protection)
{
    return mmap(NULL, length, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static char *map_writable(size_t length)
{
    char *at = map(length, PROT_READ | PROT_WRITE);

    MUST(at == MAP_FAILED ? -1 : 0);
    return at;
}

static void show_map(const char *what, void *at)
{
    show_ok(what, at == MAP_FAILED ? -1 : 0);
}

/* Whether the kernel can read a byte there, asked through a pipe. */
static int is_readable(const void *at)
{
    static int ends[2];
    char byte;

    MUST(pipe(ends));
    int readable = write(ends[1], at, 1) == 1 && read(ends[0], &byte, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return readable;
}

CASE(anonymous_memory_is_zero)
{
    char *at = map_writable(10 * PAGE);
    long sum = 0;
    for (int i = 0; i < 10 * PAGE; i++)
        sum += at[i];
    number("sum", sum);
    truth("aligned", ((uintptr_t)at & (PAGE - 1)) == 0);
    memset(at, 1, 10 * PAGE);
    show("munmap", munmap(at, 10 * PAGE));
    truth("readable", is_readable(at));
}

CASE(map_errors)
{
    show_map("length 0", map(0, PROT_READ));
    show_map("huge", map((size_t)1 << 47, PROT_READ));
    show_map("neither private nor shared", mmap(NULL, PAGE, PROT_READ, MAP_ANONYMOUS, -1, 0));
    show_map("bad descriptor", mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, 999, 0));
    show_map("unaligned offset", mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 100));
    char *at = map_writable(PAGE);
    show_map("unaligned fixed", mmap(at + 1, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    show("munmap unaligned", munmap(at + 1, PAGE));
    show("munmap length 0", munmap(at, 0));
    show("munmap nothing", (munmap(at, PAGE), munmap(at, PAGE)));
    int ends[2];
    MUST(pipe(ends));
    show_map("of a pipe", mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, ends[0], 0));
}

CASE(map_a_file_privately)
{
    scratch();
    file_make("f", "file content");
    int fd = MUST(open("f", O_RDWR));
    char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    show_map("mmap", at);
    show("close keeps it", close(fd));
    bytes("content", at, 12);
    number("rest of the page", at[100]);
    memcpy(at, "FILE", 4);
    bytes("memory", at, 12);
    file_show("f");
    show("munmap", munmap(at, PAGE));
}

CASE(map_a_file_shared)
{
    scratch();
    file_make("f", "file content");
    int fd = MUST(open("f", O_RDWR));
    char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    show_map("mmap", at);
    memcpy(at, "FILE", 4);
    show("msync", msync(at, PAGE, MS_SYNC));
    file_show("f");
    MUST(pwrite(fd, "CONTENT", 7, 5));
    bytes("memory", at, 12);
    show("munmap", munmap(at, PAGE));
    file_show("f");
}

CASE(map_with_an_offset)
{
    scratch();
    static char block[3 * PAGE];
    for (int i = 0; i < 3; i++)
        memset(block + i * PAGE, 'a' + i, PAGE);
    int fd = MUST(open("f", O_RDWR | O_CREAT, 0644));
    MUST(write(fd, block, sizeof block));
    char *at = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE, fd, PAGE);
    show_map("mmap", at);
    bytes("first", at, 2);
    bytes("second", at + PAGE, 2);
    munmap(at, 2 * PAGE);
}

CASE(map_behind_the_last_byte)
{
    static const off_t offsets[] = { 0x7ffffffffffff000, 0x7fffffffffffe000, -4096, INT64_MIN, -8192 };
    int files[3], ends[2];

    scratch();
    files[0] = MUST(open("file", O_RDWR | O_CREAT, 0644));
    files[1] = MUST(open("file", O_WRONLY));
    MUST(pipe(ends));
    files[2] = ends[0];
    for (size_t file = 0; file < COUNT_OF(files); file++) {
        for (size_t i = 0; i < COUNT_OF(offsets); i++) {
            printf("file %zu offset %zu: ", file, i);
            show_ok("mmap", (long)mmap(NULL, 4096, PROT_READ, MAP_SHARED, files[file], offsets[i]));
        }
    }
    show_ok("of nothing", (long)mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, -4096));
}

CASE(map_permissions_of_files)
{
    scratch();
    file_make("f", "x");
    int reader = MUST(open("f", O_RDONLY)), writer = MUST(open("f", O_WRONLY));
    show_map("shared writable from a reader", mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, reader, 0));
    show_map("private writable from a reader", mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, reader, 0));
    show_map("from a writer", mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, writer, 0));
    int directory = MUST(open(".", O_RDONLY));
    show_map("of a directory", mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, directory, 0));
}

CASE(map_fixed_replaces)
{
    char *at = map_writable(3 * PAGE);
    memset(at, 5, 3 * PAGE);
    char *again = mmap(at + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    truth("same place", again == at + PAGE);
    printf("%d %d %d\n", at[0], at[PAGE], at[2 * PAGE]);
    show("munmap", munmap(at, 3 * PAGE));
}

CASE(map_fixed_noreplace)
{
    char *at = map_writable(3 * PAGE);
    show_map("taken", mmap(at, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
    MUST(munmap(at + PAGE, PAGE));
    char *hole = mmap(at + PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    truth("in the hole", hole == at + PAGE);
    munmap(at, 3 * PAGE);
}

CASE(map_hint)
{
    char *at = map_writable(4 * PAGE);
    MUST(munmap(at, 4 * PAGE));
    char *again = mmap(at, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    truth("a free hint is taken", again == at);
    char *other = mmap(at, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    truth("a taken hint is not", other != at && other != MAP_FAILED);
    munmap(again, PAGE);
    munmap(other, PAGE);
}

CASE(partial_munmap)
{
    char *at = map_writable(5 * PAGE);
    memset(at, 3, 5 * PAGE);
    show("middle", munmap(at + 2 * PAGE, PAGE));
    for (int i = 0; i < 5; i++)
        printf("page %d readable: %s\n", i, is_readable(at + i * PAGE) ? "yes" : "no");
    show("everything with a hole", munmap(at, 5 * PAGE));
    truth("readable", is_readable(at));
}

CASE(mremap_grows_and_shrinks)
{
    char *at = map_writable(2 * PAGE);
    fill_pattern(at, 2 * PAGE, 1);
    uint64_t before = checksum(CHECKSUM_START, at, 2 * PAGE);
    at = mremap(at, 2 * PAGE, 50 * PAGE, MREMAP_MAYMOVE);
    show_map("grow", at);
    truth("content", checksum(CHECKSUM_START, at, 2 * PAGE) == before);
    number("new part is zero", at[49 * PAGE]);
    char *shrunk = mremap(at, 50 * PAGE, PAGE, 0);
    truth("shrinks in place", shrunk == at);
    truth("tail is gone", !is_readable(at + PAGE));
    munmap(at, PAGE);
}

CASE(mremap_without_moving)
{
    char *at = map_writable(3 * PAGE);
    show_map("into a neighbour", mremap(at, PAGE, 2 * PAGE, 0));
    MUST(munmap(at + PAGE, 2 * PAGE));
    truth("into free space", mremap(at, PAGE, 2 * PAGE, 0) == at);
    show_map("unaligned", mremap(at + 1, PAGE, 2 * PAGE, MREMAP_MAYMOVE));
    show_map("bad flags", mremap(at, PAGE, PAGE, 0x100));
    show_map("to size 0", mremap(at, PAGE, 0, 0));
    munmap(at, 2 * PAGE);
    show_map("unmapped", mremap(at, PAGE, 2 * PAGE, MREMAP_MAYMOVE));
}

CASE(mremap_to_a_fixed_place)
{
    char *from = map_writable(2 * PAGE), *to = map_writable(2 * PAGE);
    memset(from, 7, 2 * PAGE);
    char *moved = mremap(from, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
    truth("moved there", moved == to);
    number("content", to[PAGE]);
    truth("old place is gone", !is_readable(from));
    munmap(to, 2 * PAGE);
}

CASE(mprotect_errors)
{
    char *at = map_writable(2 * PAGE);
    show("unaligned", mprotect(at + 1, PAGE, PROT_READ));
    show("bad protection", mprotect(at, PAGE, 0x1000));
    show("length 0", mprotect(at, 0, PROT_READ));
    MUST(munmap(at + PAGE, PAGE));
    show("partly unmapped", mprotect(at, 2 * PAGE, PROT_READ));
    munmap(at, PAGE);
    show("unmapped", mprotect(at, PAGE, PROT_READ));
}

CASE(mprotect_decides_for_the_kernel_too)
{
    char *at = map_writable(2 * PAGE);
    int fd = MUST(open("/dev/zero", O_RDONLY));
    MUST(mprotect(at, PAGE, PROT_READ));
    show("read into read-only", read(fd, at, 10));
    show("read across the border", read(fd, at + PAGE, 10));
    MUST(mprotect(at, PAGE, PROT_NONE));
    truth("kernel reads PROT_NONE", is_readable(at));
    MUST(mprotect(at, PAGE, PROT_READ | PROT_WRITE));
    show("read into writable", read(fd, at, 10));
    munmap(at, 2 * PAGE);
}

CASE(madvise_dontneed_zeroes)
{
    char *at = map_writable(4 * PAGE);
    memset(at, 9, 4 * PAGE);
    show("madvise", madvise(at + PAGE, 2 * PAGE, MADV_DONTNEED));
    printf("%d %d %d %d\n", at[0], at[PAGE], at[2 * PAGE], at[3 * PAGE]);
    show("MADV_NORMAL", madvise(at, PAGE, MADV_NORMAL));
    show("unaligned", madvise(at + 1, PAGE, MADV_DONTNEED));
    show("unknown advice", madvise(at, PAGE, 9999));
    munmap(at, 4 * PAGE);
    show("unmapped", madvise(at, PAGE, MADV_DONTNEED));
}

CASE(madvise_on_a_private_file)
{
    scratch();
    file_make("f", "original");
    int fd = MUST(open("f", O_RDWR));
    char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    memcpy(at, "CHANGED!", 8);
    show("MADV_DONTNEED", madvise(at, PAGE, MADV_DONTNEED));
    bytes("file again", at, 8);
    munmap(at, PAGE);
}

CASE(program_break)
{
    char *start = sbrk(0);
    truth("grow", sbrk(10000) == start);
    memset(start, 1, 10000);
    truth("now", (char *)sbrk(0) == start + 10000);
    truth("shrink", sbrk(-10000) == start + 10000);
    truth("back", (char *)sbrk(0) == start);
    truth("raw brk of 0 returns the break", syscall(SYS_brk, 0) == (long)start);
    truth("impossible break is refused", syscall(SYS_brk, (long)1 << 60) == (long)start);
    truth("regrown memory is zero", sbrk(10000) == start && start[9000] == 0);
    sbrk(-10000);
}

CASE(shared_anonymous)
{
    char *at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    show_map("mmap", at);
    number("zero", at[PAGE]);
    at[PAGE] = 4;
    number("written", at[PAGE]);
    show("munmap", munmap(at, 2 * PAGE));
}

CASE(memory_file)
{
    char data[8];
    int fd = show_ok("memfd_create", memfd_create("test", MFD_CLOEXEC));
    show("ftruncate", ftruncate(fd, 2 * PAGE));
    char *a = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    char *b = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    memcpy(a, "shared", 6);
    bytes("through the other mapping", b, 6);
    show("pread", pread(fd, data, 6, 0));
    bytes("through the descriptor", data, 6);
    munmap(a, PAGE);
    munmap(b, PAGE);
}

CASE(big_calloc_is_zero)
{
    size_t size = 20 << 20;
    char *at = calloc(1, size);
    long sum = 0;
    for (size_t i = 0; i < size; i += 511)
        sum += at[i];
    number("sum", sum);
    memset(at, 1, size);
    free(at);
    at = calloc(1, size);
    for (size_t i = 0; i < size; i += 511)
        sum += at[i];
    number("sum", sum);
    free(at);
}

CASE(aligned_allocations)
{
    void *at = NULL;
    for (size_t alignment = 16; alignment <= 1 << 16; alignment *= 16) {
        show_error("posix_memalign", posix_memalign(&at, alignment, 1000));
        truth("aligned", ((uintptr_t)at & (alignment - 1)) == 0);
        free(at);
    }
    show_error("bad alignment", posix_memalign(&at, 24, 100));
    volatile size_t too_much = (size_t)1 << 62;
    truth("impossible malloc", malloc(too_much) == NULL && errno == ENOMEM);
}

CASE(allocator_stress)
{
    enum { SLOTS = 200, ROUNDS = 5000 };
    static unsigned char *blocks[SLOTS];
    static size_t sizes[SLOTS];
    uint32_t state = 1;
    long damaged = 0;
    memset(blocks, 0, sizeof blocks);
    for (int i = 0; i < ROUNDS; i++) {
        state = state * 1664525u + 1013904223u;
        int slot = (state >> 8) % SLOTS;
        if (blocks[slot]) {
            for (size_t j = 0; j < sizes[slot]; j += 97)
                damaged += blocks[slot][j] != slot;
            free(blocks[slot]);
        }
        /* Mostly small, now and then beyond malloc's threshold for mmap. */
        sizes[slot] = (state >> 20) % (i % 50 ? 2000 : 300000) + 1;
        blocks[slot] = malloc(sizes[slot]);
        memset(blocks[slot], slot, sizes[slot]);
    }
    for (int i = 0; i < SLOTS; i++)
        free(blocks[i]);
    number("damaged", damaged);
    malloc_trim(0);
}

static void *allocate_in_thread(void *argument)
{
    uint32_t state = (long)argument;
    long damaged = 0;

    for (int i = 0; i < 2000; i++) {
        state = state * 1664525u + 1013904223u;
        size_t size = (state >> 16) % 5000 + 1;
        unsigned char *block = malloc(size);
        memset(block, i, size);
        damaged += block[size - 1] != (unsigned char)i;
        block = realloc(block, size * 2);
        damaged += block[size - 1] != (unsigned char)i;
        free(block);
    }
    return (void *)damaged;
}

CASE(allocator_in_threads)
{
    pthread_t threads[4];
    long damaged = 0;
    for (long i = 0; i < 4; i++)
        threads[i] = thread_start(allocate_in_thread, (void *)(i + 1));
    for (int i = 0; i < 4; i++)
        damaged += (long)thread_join(threads[i]);
    number("damaged", damaged);
}

CASE(realloc_keeps_content)
{
    size_t size = 10;
    char *at = malloc(size);
    memset(at, 'r', size);
    for (int i = 0; i < 16; i++) {
        at = realloc(at, size * 2);
        memset(at + size, 'r', size);
        size *= 2;
    }
    long wrong = 0;
    for (size_t i = 0; i < size; i++)
        wrong += at[i] != 'r';
    number("wrong", wrong);
    free(at);
}

CASE(generated_code)
{
    static const unsigned char code[] = { 0x8d, 0x47, 0x05, 0xc3 }; /* lea 5(%rdi), %eax; ret */
    char *at = map_writable(PAGE);
    memcpy(at, code, sizeof code);
    show("mprotect", mprotect(at, PAGE, PROT_READ | PROT_EXEC));
    number("call", ((int (*)(int))(uintptr_t)at)(37));
    show("back", mprotect(at, PAGE, PROT_READ | PROT_WRITE));
    at[2] = 6;
    show("mprotect", mprotect(at, PAGE, PROT_READ | PROT_EXEC));
    number("changed", ((int (*)(int))(uintptr_t)at)(37));
    munmap(at, PAGE);
}

/* mov $39, %eax; syscall; ret */
static const unsigned char getpid_code[] = { 0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xc3 };

CASE(bare_syscall_in_generated_code)
{
    char *at = map(PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
    show_map("mmap", at);
    memcpy(at, getpid_code, sizeof getpid_code);
    truth("getpid", ((int (*)(void))(uintptr_t)at)() == getpid());
    for (int i = 0; i < 100; i++)
        if (((int (*)(void))(uintptr_t)at)() != getpid())
            printf("wrong\n");
    munmap(at, PAGE);
}

CASE(bare_syscall_after_mprotect)
{
    char *at = map_writable(PAGE);
    memcpy(at + 100, getpid_code, sizeof getpid_code);
    MUST(mprotect(at, PAGE, PROT_READ | PROT_EXEC));
    truth("getpid", ((int (*)(void))(uintptr_t)(at + 100))() == getpid());
    munmap(at, PAGE);
}

CASE(bare_syscall_in_a_mapped_file)
{
    scratch();
    int fd = MUST(open("code", O_RDWR | O_CREAT, 0755));
    MUST(write(fd, getpid_code, sizeof getpid_code));
    char *at = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    show_map("mmap", at);
    truth("getpid", at != MAP_FAILED && ((int (*)(void))(uintptr_t)at)() == getpid());
    munmap(at, PAGE);
}

CASE(bad_pointers_for_read)
{
    static const char constant[] = "constant";
    int fd = MUST(open("/dev/zero", O_RDONLY));
    volatile uintptr_t kernel = 0xffffffff81000000, strange = 0x8000000000000000, last = ~(uintptr_t)0;
    show("NULL", syscall(SYS_read, fd, NULL, 10));
    show("1", syscall(SYS_read, fd, 1, 10));
    show("-1", read(fd, (void *)last, 10));
    show("kernel", read(fd, (void *)kernel, 10));
    show("not canonical", read(fd, (void *)strange, 10));
    show("read-only data", read(fd, (void *)constant, 4));
    text("unchanged", constant);
    show("code", read(fd, (void *)(uintptr_t)&getpid, 4));
    char *at = map_writable(PAGE);
    munmap(at, PAGE);
    show("unmapped", read(fd, at, 10));
    show("length 0 at NULL", read(fd, NULL, 0));
}

CASE(bad_pointers_for_write)
{
    int ends[2], null = MUST(open("/dev/null", O_WRONLY));
    MUST(pipe(ends));
    volatile uintptr_t kernel = 0xffffffff81000000, strange = 0x8000000000000000;
    show("NULL", syscall(SYS_write, ends[1], NULL, 10));
    show("kernel", write(ends[1], (void *)kernel, 10));
    show("not canonical", write(ends[1], (void *)strange, 10));
    char *at = map_writable(2 * PAGE);
    MUST(munmap(at + PAGE, PAGE));
    show("entirely mapped", write(ends[1], at + PAGE - 10, 10));
    munmap(at, PAGE);
    show("unmapped", write(ends[1], at, 10));
    show("/dev/null does not look", write(null, at, 10));
}

CASE(file_read_across_the_end_of_memory)
{
    scratch();
    static char block[2 * PAGE];
    int fd = MUST(open("f", O_RDWR | O_CREAT, 0644));
    MUST(write(fd, block, sizeof block));
    char *at = map_writable(2 * PAGE);
    MUST(munmap(at + PAGE, PAGE));
    show("pread up to the end", pread(fd, at + PAGE - 100, 100, 0));
    show("pread beyond at once", pread(fd, at + PAGE, 100, 0));
    show("pwrite from beyond", pwrite(fd, at + PAGE, 100, 0));
    munmap(at, PAGE);
}

CASE(many_mappings)
{
    enum { MANY = 300 };
    static char *at[MANY];
    for (int i = 0; i < MANY; i++) {
        at[i] = map_writable(PAGE * (i % 5 + 1));
        at[i][0] = i;
    }
    for (int i = 0; i < MANY; i += 2)
        munmap(at[i], PAGE * (i % 5 + 1));
    int wrong = 0;
    for (int i = 1; i < MANY; i += 2)
        wrong += at[i][0] != (char)i;
    number("wrong", wrong);
    for (int i = 1; i < MANY; i += 2)
        munmap(at[i], PAGE * (i % 5 + 1));
}

CASE(reserve_then_commit)
{
    size_t size = (size_t)4 << 30;
    char *at = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    show_map("reserve 4 GiB", at);
    char *middle = at + size / 2;
    show("commit a page", mprotect(middle, PAGE, PROT_READ | PROT_WRITE));
    middle[0] = 5;
    number("written", middle[0]);
    truth("the rest is closed", !is_readable(at));
    show("munmap", munmap(at, size));
}

CASE(madvise_errors)
{
    char *at = map_writable(4 * PAGE);
    char *shared = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(at, 1, 4 * PAGE);
    memset(shared, 1, 2 * PAGE);
    show("a length that wraps", madvise(at, (size_t)-PAGE, MADV_NORMAL));
    show("no length left", madvise(at, (size_t)-1, MADV_DONTNEED));
    show("MADV_REMOVE of private memory", madvise(at, PAGE, MADV_REMOVE));
    show("MADV_REMOVE of shared memory", madvise(shared, PAGE, MADV_REMOVE));
    printf("%d %d\n", shared[0], shared[PAGE]);
    show("MADV_DONTNEED of shared memory", madvise(shared + PAGE, PAGE, MADV_DONTNEED));
    printf("%d %d\n", shared[0], shared[PAGE]);
    show("populate", madvise(at, 2 * PAGE, MADV_POPULATE_WRITE));
    MUST(mprotect(at, PAGE, PROT_READ));
    show("populate read-only", madvise(at, 2 * PAGE, MADV_POPULATE_READ));
    show("populate read-only to write", madvise(at, 2 * PAGE, MADV_POPULATE_WRITE));
    MUST(mprotect(at, PAGE, PROT_NONE));
    show("populate without rights", madvise(at, 2 * PAGE, MADV_POPULATE_READ));
    MUST(munmap(at + 2 * PAGE, PAGE));
    show("populate a hole", madvise(at + PAGE, 3 * PAGE, MADV_POPULATE_READ));
    show("mlock without rights", mlock(at, PAGE));
    munlock(at, PAGE);
    show("a stack that does not grow", mprotect(at + PAGE, PAGE, PROT_READ | PROT_GROWSDOWN));
    munmap(at, 4 * PAGE);
    munmap(shared, 2 * PAGE);
}

CASE(memory_that_can_only_be_written_can_be_read)
{
    int ends[2];
    char byte = 0, *at = map(PAGE, PROT_WRITE);
    MUST(pipe(ends));
    at[0] = 'w';
    show("write", write(ends[1], at, 1));
    show("read", read(ends[0], &byte, 1));
    bytes("byte", &byte, 1);
    munmap(at, PAGE);
}

CASE(a_private_file_mapping_grows_into_the_file)
{
    scratch();
    static char block[100 * PAGE];
    for (int i = 0; i < 100; i++)
        memset(block + i * PAGE, 'a' + i % 20, PAGE);
    int fd = MUST(open("f", O_RDWR | O_CREAT, 0644));
    MUST(write(fd, block, sizeof block));
    char *at = mmap(NULL, 40 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    at[0] = 'X';
    at = mremap(at, 40 * PAGE, 90 * PAGE, MREMAP_MAYMOVE);
    show_map("grow", at);
    printf("%c%c%c\n", at[0], at[PAGE], at[85 * PAGE]);
    show("drop what was written", madvise(at, PAGE, MADV_DONTNEED));
    printf("%c\n", at[0]);
    munmap(at, 90 * PAGE);
}

CASE(large_reservations_and_forks)
{
    fflush(stdout);
    char *at = mmap(NULL, (size_t)1 << 40, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    show_map("reserve 1 TiB", at);
    MUST(mprotect(at + ((size_t)1 << 39), PAGE, PROT_READ | PROT_WRITE));
    at[(size_t)1 << 39] = 6;
    fflush(stdout);
    pid_t child = MUST(fork());
    if (!child)
        _exit(at[(size_t)1 << 39]++);
    int status;
    MUST(waitpid(child, &status, 0));
    number("in the child", WEXITSTATUS(status));
    number("in the parent", at[(size_t)1 << 39]);
    munmap(at, (size_t)1 << 40);
}

CASE(sizes_that_wrap_are_none)
{
    const size_t sizes[] = { -1UL, -(size_t)PAGE, -(size_t)PAGE + 1 };
    char *private = map(4 * PAGE, PROT_READ | PROT_WRITE);
    char *shared = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared[PAGE] = 's';
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        show_map("private from it", mremap(private, sizes[i], PAGE, MREMAP_MAYMOVE));
        char *twice = mremap(shared, sizes[i], 2 * PAGE, MREMAP_MAYMOVE);
        show_map("shared from it", twice);
        if (twice != MAP_FAILED && twice != shared) {
            printf("%c\n", twice[PAGE]);
            munmap(twice, 2 * PAGE);
        }
        show("mlock", mlock(private, sizes[i]));
        show("mlock from the middle of a page", mlock(private + 1, sizes[i]));
        show("munlock", munlock(private, sizes[i]));
        show("munlock from the middle of a page", munlock(private + 1, sizes[i]));
        show("mprotect", mprotect(private, sizes[i], PROT_READ));
        show("madvise", madvise(private, sizes[i], MADV_DONTNEED));
        show("msync", msync(private, sizes[i], MS_SYNC));
        show("munmap", munmap(private, sizes[i]));
        show_map("mmap", mmap(NULL, sizes[i], PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    }
    show_map("private to it", mremap(private, PAGE, -1UL, MREMAP_MAYMOVE));
    munmap(private, 4 * PAGE);
    munmap(shared, 4 * PAGE);
}
