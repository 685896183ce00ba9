/*
 * What parent and child do to their memory while both live on after a fork:
 * mappings that they share and that one of them changes, private pages that
 * both write, and ends in any order.
 */
#include "process.h"

#include <sys/mman.h>

#define PAGE 4096
#define ROUNDS 6

/* Who speaks: parent and child hand a byte to each other. */
static int there[2], back[2];

static void open_gates(void)
{
    make_pipe(there);
    make_pipe(back);
}

static void pass(int fd)
{
    MUST(write(fd, "x", 1));
}

static void await(int fd)
{
    char byte;

    MUST(read(fd, &byte, 1));
}

static void *map(void *at, size_t pages, int flags, int fd)
{
    void *memory = mmap(at, pages * PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);

    if (memory == MAP_FAILED)
        MUST(-1);
    return memory;
}

static int shared_pages(const char *name, size_t pages)
{
    int fd = MUST(memfd_create(name, 0));

    MUST(ftruncate(fd, pages * PAGE));
    return fd;
}

static sigjmp_buf landing;

static void land(int signal)
{
    siglongjmp(landing, signal);
}

/* The signal that touching a byte raises; 0 when it can be touched. */
static int touch(volatile char *at, int writes)
{
    struct sigaction action = { .sa_handler = land, .sa_flags = SA_NODEFER };
    int signal;

    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    signal = sigsetjmp(landing, 1);
    if (signal == 0) {
        char byte = *at;

        if (writes)
            *at = byte;
    }
    return signal;
}

/* Runs `child` in a child and `parent` here, in turns: each begins a round when the other has ended its own. */
static void in_turns(void (*parent)(char *, int), void (*child)(char *, int), char *memory)
{
    pid_t pid;

    open_gates();
    fflush(stdout);
    pid = MUST(fork());
    for (int round = 0; round < ROUNDS; round++) {
        if (pid == 0) {
            await(there[0]);
            child(memory, round);
            fflush(stdout);
            pass(back[1]);
        } else {
            parent(memory, round);
            fflush(stdout);
            pass(there[1]);
            await(back[0]);
        }
    }
    if (pid == 0)
        _exit(0);
    child_end("child", pid);
}

static void writes_shared(char *memory, int round)
{
    memory[round * PAGE] += 1;
    memory[7 * PAGE] = 'a' + round;
}

static void unmaps_the_middle(char *memory, int round)
{
    if (round == 1)
        MUST(munmap(memory + 2 * PAGE, 2 * PAGE));
    if (round == 2) {
        map(memory + 2 * PAGE, 1, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
        memory[2 * PAGE] = 'p';
    }
    number("child reads", memory[round < 2 ? 0 : 2 * PAGE]);
    number("and at the end", memory[7 * PAGE]);
    memory[6 * PAGE] = round;
}

static void reads_all(char *memory, int round)
{
    int sum = 0;

    writes_shared(memory, round);
    for (int page = 0; page < 8; page++)
        sum += memory[page * PAGE];
    number("parent's sum", sum);
}

CASE(a_child_unmaps_part_of_what_both_share)
{
    in_turns(reads_all, unmaps_the_middle, map(NULL, 8, MAP_SHARED | MAP_ANONYMOUS, -1));
}

CASE(a_parent_unmaps_part_of_what_both_share)
{
    in_turns(unmaps_the_middle, reads_all, map(NULL, 8, MAP_SHARED | MAP_ANONYMOUS, -1));
}

static void loses_rights(char *memory, int round)
{
    if (round == 1)
        MUST(mprotect(memory + PAGE, 2 * PAGE, PROT_READ));
    if (round == 4)
        MUST(mprotect(memory + PAGE, PAGE, PROT_READ | PROT_WRITE));
    for (int page = 0; page < 4; page++)
        number("child's store", touch(memory + page * PAGE, 1));
    number("child reads", memory[PAGE]);
}

static void keeps_rights(char *memory, int round)
{
    memory[PAGE] = round;
    number("parent's store", touch(memory + PAGE, 1));
}

CASE(one_side_takes_rights_away)
{
    in_turns(keeps_rights, loses_rights, map(NULL, 4, MAP_SHARED | MAP_ANONYMOUS, shared_pages("rights", 4)));
    in_turns(loses_rights, keeps_rights, map(NULL, 4, MAP_SHARED, shared_pages("rights", 4)));
}

static char *moved;

static void moves(char *memory, int round)
{
    if (round == 1)
        moved = mremap(memory + PAGE, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, memory + 32 * PAGE);
    if (round >= 1) {
        number("moved", moved[0]);
        moved[PAGE] = 10 + round;
    }
    number("stayed", memory[3 * PAGE]);
}

static void stays(char *memory, int round)
{
    memory[PAGE] = round;
    memory[3 * PAGE] = -round;
    number("parent reads", memory[2 * PAGE]);
}

CASE(one_side_moves_what_both_share)
{
    char *memory = map(NULL, 64, MAP_PRIVATE | MAP_ANONYMOUS, -1);

    in_turns(stays, moves, map(memory, 4, MAP_SHARED | MAP_FIXED, shared_pages("moved", 4)));
}

static int cut_file;

static void cuts(char *memory, int round)
{
    if (round == 2)
        MUST(ftruncate(cut_file, PAGE));
    if (round == 4)
        MUST(ftruncate(cut_file, 4 * PAGE));
    memory[0] = round;
}

static void looks(char *memory, int round)
{
    number("first page", memory[0]);
    for (int page = 0; page < 4; page++)
        number("touch", touch(memory + page * PAGE, round > 3));
}

CASE(a_shared_file_is_cut)
{
    cut_file = shared_pages("cut", 4);
    in_turns(cuts, looks, map(NULL, 4, MAP_SHARED, cut_file));
}

static void maps_over(char *memory, int round)
{
    static int fd = -1;

    if (round == 1) {
        fd = shared_pages("over", 2);
        map(memory + PAGE, 2, MAP_SHARED | MAP_FIXED, fd);
    }
    memory[PAGE] += 1;
    number("child has", memory[PAGE]);
    number("and beside", memory[0]);
}

static void keeps_private(char *memory, int round)
{
    memory[PAGE] += 10;
    memory[0] = 100 - round;
    number("parent has", memory[PAGE]);
}

CASE(a_file_where_the_other_has_private_pages)
{
    in_turns(keeps_private, maps_over, map(NULL, 4, MAP_PRIVATE | MAP_ANONYMOUS, -1));
}

/* Many pages, of which each side changes others in each round. */
static void writes_many(char *memory, int round, int step, int pages)
{
    unsigned sum = 0;

    for (int page = 0; page < pages; page++) {
        int *word = (int *)(memory + page * PAGE + 64 * (page % 60));

        if ((page + round) % step == 0)
            *word += step * (page + 1);
        sum = sum * 31 + *word;
    }
    printf("sum of %d pages: %u\n", pages, sum);
}

static void writes_few_pages(char *memory, int round)
{
    writes_many(memory, round, 3, 40);
}

static void writes_other_pages(char *memory, int round)
{
    writes_many(memory, round, 7, 40);
}

static void writes_many_pages(char *memory, int round)
{
    writes_many(memory, round, 2, 900);
}

static void writes_many_others(char *memory, int round)
{
    writes_many(memory, round, 5, 900);
    if (round == 3)
        MUST(madvise(memory + 100 * PAGE, 300 * PAGE, MADV_DONTNEED));
}

CASE(private_pages_differ)
{
    in_turns(writes_few_pages, writes_other_pages, map(NULL, 40, MAP_PRIVATE | MAP_ANONYMOUS, -1));
    in_turns(writes_many_pages, writes_many_others, map(NULL, 900, MAP_PRIVATE | MAP_ANONYMOUS, -1));
    in_turns(writes_few_pages, writes_many_others, map(NULL, 900, MAP_PRIVATE | MAP_ANONYMOUS, -1));
}

static int grandchild(void *memory)
{
    char *pages = memory;

    pages[0] += 1;
    pages[PAGE] += 1;
    MUST(munmap(pages + 2 * PAGE, PAGE));
    return pages[0];
}

static void has_children(char *memory, int round)
{
    memory[0] = 10 * round;
    in_child("grandchild", grandchild, memory);
    number("own", memory[0]);
    number("shared", memory[PAGE]);
    number("still there", touch(memory + 2 * PAGE, 1));
}

CASE(both_sides_have_children)
{
    char *memory = map(NULL, 4, MAP_PRIVATE | MAP_ANONYMOUS, -1);

    map(memory + PAGE, 2, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1);
    in_turns(has_children, has_children, memory);
}

static void *adds(void *memory)
{
    for (int page = 0; page < 4; page++)
        ((char *)memory)[page * PAGE] += page + 1;
    return NULL;
}

static void starts_threads(char *memory, int round)
{
    pthread_t threads[3];

    (void)round;
    for (int at = 0; at < 3; at++) {
        MUST(-pthread_create(&threads[at], NULL, adds, memory));
        pthread_join(threads[at], NULL);
    }
    number("with threads", memory[3 * PAGE]);
}

static void adds_alone(char *memory, int round)
{
    (void)round;
    adds(memory);
    number("alone", memory[3 * PAGE]);
}

CASE(threads_on_one_side)
{
    in_turns(adds_alone, starts_threads, map(NULL, 4, MAP_PRIVATE | MAP_ANONYMOUS, -1));
    in_turns(starts_threads, adds_alone, map(NULL, 4, MAP_SHARED | MAP_ANONYMOUS, -1));
}

CASE(some_exec_and_some_exit_in_any_order)
{
    char *own = map(NULL, 4, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    char *shared = map(NULL, 4, MAP_SHARED | MAP_ANONYMOUS, -1);
    static const int order[] = { 2, 0, 3, 1 };
    int gates[4][2];
    pid_t pids[4];

    for (int at = 0; at < 4; at++) {
        make_pipe(gates[at]);
        own[0] = at;
        fflush(stdout);
        pids[at] = MUST(fork());
        if (pids[at] == 0) {
            own[PAGE] = 10 + at;
            await(gates[at][0]);
            shared[0] += own[0] + own[PAGE];
            if (at % 2)
                execl("/bin/true", "true", NULL);
            _exit(own[0]);
        }
    }
    for (int at = 0; at < 4; at++) {
        own[0] = 50 + at;
        pass(gates[order[at]][1]);
        child_end("child", pids[order[at]]);
        number("own", own[0] + own[PAGE]);
        number("shared", shared[0]);
    }
}
