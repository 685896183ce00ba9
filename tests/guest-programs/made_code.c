/*
 * Code that a program makes while it runs: in memory of all rights, in memory whose rights change, on the stack; rewritten, moved, read from
 * files, copied from the program and its libraries, shared by threads and parted by forks. The linker marks this program as one that executes its stack, because of its nested functions.
 */
#include "case.h"

#include <asm/prctl.h>
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

/* Functions of a few instructions each, with what gives way to a jump in them. */
asm(".pushsection .text\n"
    ".type tiny_call, @function\n"
    "tiny_call: mov $110, %eax; syscall; ret\n"
    ".size tiny_call, . - tiny_call\n"
    ".type two_calls, @function\n"
    "two_calls: mov $39, %eax; syscall; mov %eax, %edx; mov $186, %eax; syscall; sub %edx, %eax; ret\n"
    ".size two_calls, . - two_calls\n"
    ".type two_calls_more, @function\n"
    "two_calls_more: mov $39, %eax; syscall; mov %eax, %edx; mov $110, %eax; syscall; sub %edx, %eax; ret\n"
    ".size two_calls_more, . - two_calls_more\n"
    ".type question, @function\n"
    "question: push %rbx; mov %edi, %eax; xor %ecx, %ecx; cpuid; lea (%rbx, %rdx), %eax; pop %rbx; ret\n"
    ".size question, . - question\n"
    ".type by_gs, @function\n"
    "by_gs: xor %eax, %eax; mov %gs:(%rdi), %eax; lea 1(%rax), %eax; mov %gs:4(%rdi), %ecx; add %ecx, %eax; ret\n"
    ".size by_gs, . - by_gs\n"
    ".type in_a_loop, @function\n"
    "in_a_loop: mov %edi, %edx; xor %esi, %esi\n"
    "1: mov $110, %eax; 2: syscall; add %eax, %esi; dec %edx; je 3f; test $1, %dl; je 1b; mov $39, %eax; jmp 2b\n"
    "3: mov %esi, %eax; ret\n"
    ".size in_a_loop, . - in_a_loop\n"
    "all_of_them:\n"
    ".popsection");
extern int tiny_call(int), two_calls(int), two_calls_more(int), question(int), in_a_loop(int), all_of_them(int);
extern int by_gs(long);

static __attribute__((noinline, noclone)) int own_call(int unused)
{
    int result;

    (void)unused;
    asm volatile("syscall" : "=a"(result) : "a"(SYS_getppid) : "rcx", "r11", "memory");
    return result;
}

/* As program loaders do it: written first, then made executable. */
static void *copy_of(const void *function, size_t bytes)
{
    unsigned char *memory = map(PAGE, PROT_READ | PROT_WRITE);

    memcpy(memory, function, bytes);
    MUST(mprotect(memory, PAGE, PROT_READ | PROT_EXEC));
    return memory;
}

/* How long a function of the library is that returns at once. */
static size_t up_to_its_return(const unsigned char *function)
{
    size_t at = 7;

    while (function[at] != 0xc3)
        at++;
    return at + 1;
}

CASE(copied_functions_make_their_calls)
{
    const unsigned char *library = (void *)getppid;

    truth("own", ((code)copy_of(own_call, 64))(0) == getppid());
    truth("tiny", ((code)copy_of(tiny_call, 8))(0) == getppid());
    truth("two calls", ((code)copy_of(two_calls, 19))(0) == 0);
    truth("others", ((code)copy_of(two_calls_more, 19))(0) == getppid() - getpid());
    truth("of the library", ((code)copy_of(library, up_to_its_return(library)))(0) == getppid());
    truth("more of it", ((code)copy_of(library, 64))(0) == getppid());
}

CASE(the_beginning_of_a_function_is_moved)
{
    unsigned char *memory = map(PAGE, ALL);

    memcpy(memory, tiny_call, 7);
    memcpy(memory + 7, "\x83\xe8\x01\xc3", 4); /* sub $1, %eax; ret */
    truth("one less", ((code)memory)(0) == getppid() - 1);
}

CASE(many_functions_are_copied_at_once)
{
    const unsigned char *from = (void *)tiny_call;
    unsigned char *memory = copy_of(from, (unsigned char *)all_of_them - from);
    long words[2] = { 30, 0 };

    truth("tiny", ((code)memory)(0) == getppid());
    for (int count = 1; count < 6; count++) {
        int (*loop)(int) = (code)(memory + ((unsigned char *)in_a_loop - from));
        truth("in a loop", loop(count) == in_a_loop(count));
    }
    code ask = (code)(memory + ((unsigned char *)question - from));
    for (int leaf = 0; leaf < 3; leaf++)
        truth("the same answer", ask(leaf) == question(leaf));
    truth("others", ((code)(memory + ((unsigned char *)two_calls_more - from)))(0) == getppid() - getpid());
    words[0] = 0x500000007;
    MUST(syscall(SYS_arch_prctl, ARCH_SET_GS, words));
    number("by GS", by_gs(0));
    number("by GS in the copy", ((int (*)(long))(memory + ((unsigned char *)by_gs - from)))(0));
}

CASE(a_copy_is_entered_in_its_middle)
{
    unsigned char *memory = copy_of(tiny_call, 16);
    int result = SYS_getpid;

    asm volatile("call *%1" : "+a"(result) : "r"(memory + 5) : "rcx", "r11", "memory");
    truth("the other call", result == getpid());
    truth("its own", ((code)memory)(0) == getppid());
}

CASE(copies_reach_over_the_end_of_a_page)
{
    int right = 0;

    for (int before = 0; before < 20; before++) {
        unsigned char *memory = map(2 * PAGE, ALL);

        memcpy(memory + PAGE - before, two_calls_more, 19);
        right += ((code)(memory + PAGE - before))(0) == getppid() - getpid();
        munmap(memory, 2 * PAGE);
    }
    number("right", right);
    for (int before = 1; before < 19; before++) {
        unsigned char *memory = map(2 * PAGE, ALL);

        /* Both pages have been executed before. */
        put_constant(memory + PAGE + 64, 1);
        put_constant(memory, 1);
        right += ((code)(memory + PAGE + 64))(0) + ((code)memory)(0);
        memcpy(memory + PAGE - before, two_calls_more, 19);
        right += ((code)(memory + PAGE - before))(0) == getppid() - getpid();
        munmap(memory, 2 * PAGE);
    }
    number("right", right);
    for (int before = 1; before < 19; before++) {
        unsigned char *memory = map(2 * PAGE, PROT_READ | PROT_WRITE);

        memcpy(memory + PAGE - before, two_calls_more, 19);
        put_constant(memory + PAGE + 64, 1);
        MUST(mprotect(memory, 2 * PAGE, PROT_READ | PROT_EXEC));
        /* The second page is executed first. */
        right += ((code)(memory + PAGE + 64))(0);
        right += ((code)(memory + PAGE - before))(0) == getppid() - getpid();
        munmap(memory, 2 * PAGE);
    }
    number("right", right);
}

CASE(copies_are_written_over_others)
{
    unsigned char *memory = map(PAGE, ALL);
    int right = 0;

    for (int i = 0; i < 3; i++) {
        memcpy(memory, two_calls_more, 19);
        right += ((code)memory)(0) == getppid() - getpid();
        memcpy(memory, two_calls, 19);
        right += ((code)memory)(0) == 0;
    }
    number("right", right);
}

CASE(a_child_executes_a_copy_that_its_parent_made)
{
    unsigned char *memory = copy_of(tiny_call, 8);
    pid_t parent = getpid();
    int status;

    pid_t child = fork();
    if (child == 0)
        _exit(((code)memory)(0) == parent ? 1 : 2);
    MUST(waitpid(child, &status, 0));
    number("child", WEXITSTATUS(status));
    truth("parent", ((code)memory)(0) == getppid());
    child = fork();
    if (child == 0) {
        memory = copy_of(own_call, 64);
        _exit(((code)memory)(0) == parent ? 3 : 4);
    }
    MUST(waitpid(child, &status, 0));
    number("child", WEXITSTATUS(status));
}

CASE(jumps_of_its_own_stay)
{
    unsigned char *memory = map(0x200 * PAGE, ALL);
    unsigned sum = 0;

    for (int i = 1; i < 0x200; i++) {
        /* jmp to a page behind; hlt; hlt */
        unsigned char jump[] = { 0xe9, 0, 0, 0, 0, 0xf4, 0xf4 };
        int distance = i * PAGE - 5;

        memcpy(jump + 1, &distance, 4);
        memcpy(memory, jump, sizeof jump);
        put_constant(memory + i * PAGE, i);
        if (i % 64 == 1)
            sum += ((code)memory)(0);
        for (size_t at = 0; at < sizeof jump; at++)
            sum = sum * 31 + memory[at];
    }
    number("sum", sum);
}
