/*
 * Code that a program makes while it runs: in memory of all rights, in memory whose rights change, on the stack; rewritten, moved, read from
 * files, shared by threads and parted by forks. The linker marks this program as one that executes its stack, because of its nested functions.
 */
#include "case.h"

#include <sys/mman.h>
#include <sys/wait.h>

#define PAGE 4096
#define ALL (PROT_READ | PROT_WRITE | PROT_EXEC)

typedef int (*code)(int);

static unsigned char *map(size_t bytes, int prot)
{
    void *memory = mmap(NULL, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    MUST(memory == MAP_FAILED ? -1 : 0);
    return memory;
}

/* mov $value, %eax; ret */
static void put_constant(unsigned char *at, int value)
{
    unsigned char bytes[] = { 0xb8, 0, 0, 0, 0, 0xc3 };

    memcpy(bytes + 1, &value, 4);
    memcpy(at, bytes, sizeof bytes);
}

/* lea value(%rdi), %eax; ret */
static void put_sum(unsigned char *at, int value)
{
    unsigned char bytes[] = { 0x8d, 0x87, 0, 0, 0, 0, 0xc3 };

    memcpy(bytes + 2, &value, 4);
    memcpy(at, bytes, sizeof bytes);
}

/* The signal by which a child that calls `at` ends, or 0. */
static int signal_of(void *at)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        ((code)at)(0);
        _exit(0);
    }
    MUST(waitpid(child, &status, 0));
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static int apply(int (*function)(int), int value)
{
    return function(value);
}

CASE(nested_functions_have_code_on_the_stack)
{
    int sum = 0;

    for (int i = 0; i < 50; i++) {
        int add(int value) { return value + i; }
        int twice(int value) { return add(add(value)); }
        sum += apply(add, 5) + apply(twice, i);
    }
    number("sum", sum);
}

CASE(functions_are_written_over_again_and_again)
{
    unsigned char *memory = map(PAGE, ALL);
    int sum = 0;

    for (int i = 0; i < 300; i++) {
        put_sum(memory + 16 * (i % 16), i);
        sum += ((code)(memory + 16 * (i % 16)))(i);
        sum += ((code)memory)(1);
    }
    number("sum", sum);
}

CASE(rights_change_back_and_forth)
{
    unsigned char *memory = map(2 * PAGE, PROT_READ | PROT_WRITE);
    int sum = 0;

    for (int i = 0; i < 300; i++) {
        MUST(mprotect(memory, 2 * PAGE, PROT_READ | PROT_WRITE));
        put_constant(memory + 8 * (i % 4), i);
        put_constant(memory + PAGE, 1);
        MUST(mprotect(memory, 2 * PAGE, PROT_READ | PROT_EXEC));
        sum += ((code)(memory + 8 * (i % 4)))(0) + ((code)(memory + PAGE))(0);
    }
    number("sum", sum);
}

CASE(code_reaches_over_the_end_of_a_page)
{
    unsigned char *memory = map(4 * PAGE, ALL);

    put_constant(memory + PAGE - 3, 0x12345678);
    number("value", ((code)(memory + PAGE - 3))(0));
    put_constant(memory + 3 * PAGE - 1, 77);
    number("value", ((code)(memory + 3 * PAGE - 1))(0));
}

CASE(code_changes_itself)
{
    /* movl $42, 1(%rip); mov $0, %eax; ret */
    static const unsigned char bytes[] = { 0xc7, 0x05, 1, 0, 0, 0, 42, 0, 0, 0, 0xb8, 0, 0, 0, 0, 0xc3 };
    unsigned char *memory = map(PAGE, ALL);

    for (int i = 0; i < 20; i++) {
        memcpy(memory, bytes, sizeof bytes);
        if (((code)memory)(0) != 42)
            text("changed", "no");
    }
    number("value", ((code)memory)(0));
}

CASE(a_child_has_code_of_its_own)
{
    unsigned char *memory = map(PAGE, ALL);
    int status;

    put_constant(memory, 1);
    number("before", ((code)memory)(0));
    pid_t child = fork();
    if (child == 0) {
        put_constant(memory, 2);
        _exit(((code)memory)(0));
    }
    MUST(waitpid(child, &status, 0));
    number("child", WEXITSTATUS(status));
    number("after", ((code)memory)(0));
}

static void *call_often(void *at)
{
    long sum = 0;

    for (int i = 0; i < 1000; i++)
        sum += ((code)at)(i);
    return (void *)sum;
}

CASE(threads_share_code)
{
    unsigned char *memory = map(PAGE, ALL);
    pthread_t threads[4];
    long total = 0;

    put_sum(memory, 3);
    for (int i = 0; i < 4; i++)
        MUST(pthread_create(&threads[i], NULL, call_often, memory));
    for (int i = 0; i < 4; i++) {
        void *sum;
        pthread_join(threads[i], &sum);
        total += (long)sum;
    }
    number("total", total);
}

CASE(code_comes_from_a_file)
{
    unsigned char *memory = map(PAGE, ALL);
    unsigned char bytes[16];

    scratch();
    put_constant(memory, 1);
    number("first", ((code)memory)(0));
    put_constant(bytes, 5);
    int fd = open("code", O_RDWR | O_CREAT, 0600);
    MUST(write(fd, bytes, 6));
    /* Into a page that was executed. */
    show("pread", pread(fd, memory, 6, 0));
    number("second", ((code)memory)(0));
    close(fd);
}

CASE(moved_code_is_code)
{
    unsigned char *memory = map(2 * PAGE, ALL);

    put_constant(memory + PAGE, 9);
    number("before", ((code)(memory + PAGE))(0));
    unsigned char *moved = mremap(memory, 2 * PAGE, 64 * PAGE, MREMAP_MAYMOVE);
    MUST(moved == MAP_FAILED ? -1 : 0);
    number("after", ((code)(moved + PAGE))(0));
    put_constant(moved + 40 * PAGE, 10);
    number("behind", ((code)(moved + 40 * PAGE))(0));
}

CASE(what_may_not_be_executed_is_not)
{
    unsigned char *memory = map(PAGE, PROT_READ | PROT_WRITE);
    unsigned char *heap = malloc(64);

    put_constant(memory, 1);
    put_constant(heap, 1);
    number("plain memory", signal_of(memory));
    number("the heap", signal_of(heap));
    MUST(mprotect(memory, PAGE, ALL));
    number("executable", signal_of(memory));
    MUST(mprotect(memory, PAGE, PROT_READ | PROT_WRITE));
    number("no longer", signal_of(memory));
    MUST(mprotect(memory, PAGE, PROT_READ | PROT_EXEC));
    number("again", signal_of(memory));
}

CASE(what_the_processor_is_asked_for_is_made_up)
{
    /* push %rbx; xor %eax, %eax; cpuid; mov %ebx, %eax; pop %rbx; ret: any answer, the same each time */
    static const unsigned char bytes[] = { 0x53, 0x31, 0xc0, 0x0f, 0xa2, 0x89, 0xd8, 0x5b, 0xc3 };
    unsigned char *memory = map(PAGE, ALL);

    memcpy(memory, bytes, sizeof bytes);
    int first = ((code)memory)(0);
    memcpy(memory + 64, bytes, sizeof bytes);
    truth("the same", ((code)(memory + 64))(0) == first);
    memcpy(memory, bytes, sizeof bytes);
    truth("the same again", ((code)memory)(0) == first);
}
