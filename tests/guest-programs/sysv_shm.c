/* System V shared memory: segments, attachments, what outlives whom. */
#include "process.h"

#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>

#define PAGE 4096

/* A key that nobody else uses. */
static key_t own_key(int number)
{
    return 0x67000000 + (getpid() & 0xffff) * 16 + number;
}

static int segment(size_t size)
{
    return MUST(shmget(IPC_PRIVATE, size, IPC_CREAT | 0600));
}

static long attached(int id)
{
    struct shmid_ds data;

    return shmctl(id, IPC_STAT, &data) == -1 ? -1 : (long)data.shm_nattch;
}

CASE(a_new_segment_is_zero_and_keeps_what_is_written)
{
    int id = segment(3 * PAGE);
    char *memory = shmat(id, NULL, 0);
    int zero = 1;

    for (int i = 0; i < 3 * PAGE; i++)
        zero &= memory[i] == 0;
    truth("zero", zero);
    strcpy(memory + 2 * PAGE, "kept");
    show("shmdt", shmdt(memory));
    memory = shmat(id, NULL, 0);
    text("after", memory + 2 * PAGE);
    show("shmdt", shmdt(memory));
    show("shmdt again", shmdt(memory));
    show("rmid", shmctl(id, IPC_RMID, NULL));
}

CASE(two_attachments_show_the_same_memory)
{
    int id = segment(PAGE);
    char *first = shmat(id, NULL, 0), *second = shmat(id, NULL, 0);

    truth("different", first != second);
    strcpy(first, "one");
    text("second", second);
    number("attached", attached(id));
    shmdt(first);
    number("attached", attached(id));
    text("second", second);
    shmdt(second);
    number("attached", attached(id));
    shmctl(id, IPC_RMID, NULL);
}

CASE(keys_find_segments)
{
    key_t key = own_key(1);
    int id = show_ok("create", shmget(key, 100, IPC_CREAT | IPC_EXCL | 0640));

    truth("found", shmget(key, 100, 0) == id);
    truth("found smaller", shmget(key, 1, IPC_CREAT) == id);
    truth("found with size 0", shmget(key, 0, 0) == id);
    show("larger", shmget(key, 101, 0));
    show("excl", shmget(key, 100, IPC_CREAT | IPC_EXCL));
    show("rmid", shmctl(id, IPC_RMID, NULL));
    show("gone", shmget(key, 100, 0));
}

CASE(bad_arguments)
{
    int id = segment(PAGE);
    static char buffer[2 * PAGE] __attribute__((aligned(PAGE)));

    show("size 0", shmget(IPC_PRIVATE, 0, IPC_CREAT | 0600));
    show("no such key", shmget(own_key(2), 10, 0600));
    show("attach -1", (long)shmat(-1, NULL, 0));
    show("attach unknown", (long)shmat(0x7fff1234, NULL, 0));
    show("attach misaligned", (long)shmat(id, buffer + 1, 0));
    show("attach over memory", (long)shmat(id, buffer, 0));
    show("attach rounded over memory", (long)shmat(id, buffer + 1, SHM_RND));
    show("remap nowhere", (long)shmat(id, NULL, SHM_REMAP));
    show("detach what is none", shmdt(buffer));
    show("detach misaligned", shmdt(buffer + 1));
    show("unknown command", shmctl(id, 99, NULL));
    show("stat to nowhere", shmctl(id, IPC_STAT, (void *)8));
    show("stat of -1", shmctl(-1, IPC_STAT, NULL));
    show("rmid", shmctl(id, IPC_RMID, NULL));
    show("stat of what is gone", shmctl(id, IPC_STAT, (void *)buffer));
}

CASE(read_only_attachments_fault)
{
    int id = segment(PAGE);
    char *writable = shmat(id, NULL, 0), *readable = shmat(id, NULL, SHM_RDONLY);
    int status;
    pid_t pid;

    strcpy(writable, "text");
    text("read", readable);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        readable[0] = 'x';
        _exit(0);
    }
    MUST(waitpid(pid, &status, 0));
    show_status("writing", status);
    shmctl(id, IPC_RMID, NULL);
    shmdt(writable);
    shmdt(readable);
}

CASE(at_a_chosen_address)
{
    int id = segment(2 * PAGE);
    char *place = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *memory;

    strcpy(place + PAGE, "private");
    show("over it", (long)shmat(id, place + PAGE, 0));
    memory = shmat(id, place + PAGE, SHM_REMAP);
    truth("remapped there", memory == place + PAGE);
    text("shared", memory);
    MUST(munmap(place + 3 * PAGE, PAGE));
    show("detach", shmdt(memory));
    memory = shmat(id, place + PAGE, 0);
    truth("free now", memory == place + PAGE);
    shmdt(memory);
    memory = shmat(id, place + PAGE + 77, SHM_RND);
    truth("rounded", memory == place + PAGE);
    shmdt(memory);
    shmctl(id, IPC_RMID, NULL);
    munmap(place, PAGE);
}

struct shared {
    int id;
    volatile int *word;
};

static int write_word(void *argument)
{
    struct shared *shared = argument;

    *shared->word += 10;
    return 0;
}

CASE(a_forked_child_has_it_attached)
{
    struct shared shared = { segment(PAGE), NULL };
    int ends[2];
    pid_t pid;

    shared.word = shmat(shared.id, NULL, 0);
    *shared.word = 5;
    in_child("child", write_word, &shared);
    number("word", *shared.word);
    make_pipe(ends);
    fflush(stdout);
    pid = MUST(fork());
    if (pid == 0) {
        close(ends[1]);
        wait_for_end(ends[0]);
        _exit(0);
    }
    number("attached by two", attached(shared.id));
    close(ends[1]);
    child_end("child", pid);
    number("attached by one", attached(shared.id));
    shmdt((void *)shared.word);
    shmctl(shared.id, IPC_RMID, NULL);
}

static int attach_and_write(void *argument)
{
    struct shared *shared = argument;
    char *elsewhere = mmap(NULL, 16 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *memory = shmat(shared->id, NULL, 0);

    strcat(memory, " child");
    return memory == elsewhere;
}

CASE(another_process_attaches_it_by_itself)
{
    struct shared shared = { segment(PAGE), NULL };
    char *memory;

    in_child("child", attach_and_write, &shared);
    number("attached", attached(shared.id));
    memory = shmat(shared.id, NULL, 0);
    strcat(memory, " parent");
    in_child("child", attach_and_write, &shared);
    text("memory", memory);
    shmdt(memory);
    shmctl(shared.id, IPC_RMID, NULL);
}

CASE(a_removed_segment_lives_until_it_is_detached)
{
    key_t key = own_key(3);
    int id = MUST(shmget(key, PAGE, IPC_CREAT | 0600)), other;
    char *memory = shmat(id, NULL, 0), *second;
    struct shmid_ds data;

    strcpy(memory, "alive");
    show("rmid", shmctl(id, IPC_RMID, NULL));
    show("stat", shmctl(id, IPC_STAT, &data));
    printf("mode %o, key %s\n", data.shm_perm.mode, data.shm_perm.__key == IPC_PRIVATE ? "private" : "kept");
    text("memory", memory);
    show("by key", shmget(key, PAGE, 0));
    other = MUST(shmget(key, PAGE, IPC_CREAT | 0600));
    truth("a new one", other != id);
    second = shmat(id, NULL, 0);
    truth("attached once more", second != (char *)-1);
    text("second", second);
    shmdt(second);
    show("rmid again", shmctl(id, IPC_RMID, NULL));
    shmdt(memory);
    show("stat", shmctl(id, IPC_STAT, &data));
    shmctl(other, IPC_RMID, NULL);
}

static int leave_attached(void *argument)
{
    shmat(*(int *)argument, NULL, 0);
    return 0;
}

static int leave_by_exec(void *argument)
{
    shmat(*(int *)argument, NULL, 0);
    execl("/bin/true", "true", NULL);
    return 1;
}

CASE(the_end_of_a_process_and_exec_detach)
{
    int id = segment(PAGE);
    struct shmid_ds data;
    pid_t pid;

    pid = child_start(leave_attached, &id);
    child_end("child", pid);
    MUST(shmctl(id, IPC_STAT, &data));
    number("attached", data.shm_nattch);
    truth("last by the child", data.shm_lpid == pid);
    truth("made by this one", data.shm_cpid == getpid());
    pid = child_start(leave_by_exec, &id);
    child_end("child", pid);
    number("attached", attached(id));
    shmctl(id, IPC_RMID, NULL);
}

CASE(munmap_of_a_part)
{
    int id = segment(4 * PAGE);
    char *memory = shmat(id, NULL, 0);

    number("attached", attached(id));
    MUST(munmap(memory + PAGE, PAGE));
    strcpy(memory + 2 * PAGE, "still there");
    text("third page", memory + 2 * PAGE);
    show("shmdt", shmdt(memory));
    number("attached", attached(id));
    show("shmdt again", shmdt(memory));
    shmctl(id, IPC_RMID, NULL);
}

CASE(stat_and_set)
{
    int id = segment(5000);
    struct shmid_ds data;
    long made;

    MUST(shmctl(id, IPC_STAT, &data));
    printf("mode %o, size %zu, attached %lu\n", data.shm_perm.mode, data.shm_segsz, data.shm_nattch);
    truth("owner", data.shm_perm.uid == geteuid() && data.shm_perm.cuid == geteuid());
    truth("never attached", data.shm_atime == 0 && data.shm_dtime == 0 && data.shm_lpid == 0);
    made = data.shm_ctime;
    truth("made now", made > 0);
    data.shm_perm.mode = 0444;
    data.shm_segsz = 1;
    show("set", shmctl(id, IPC_SET, &data));
    MUST(shmctl(id, IPC_STAT, &data));
    printf("mode %o, size %zu\n", data.shm_perm.mode, data.shm_segsz);
    shmdt(shmat(id, NULL, SHM_RDONLY));
    MUST(shmctl(id, IPC_STAT, &data));
    truth("attached and detached", data.shm_atime >= made && data.shm_dtime >= made);
    truth("by this one", data.shm_lpid == getpid());
    shmctl(id, IPC_RMID, NULL);
}

CASE(limits_and_usage)
{
    struct shminfo limits;
    struct shm_info usage;
    struct shmid_ds data;
    int id = segment(3 * PAGE), highest, found = 0;

    truth("ipc_info", shmctl(0, IPC_INFO, (struct shmid_ds *)&limits) >= 0);
    printf("min %lu, max %#lx, segments %lu, all %#lx\n", limits.shmmin, limits.shmmax, limits.shmmni, limits.shmall);
    highest = shmctl(0, SHM_INFO, (struct shmid_ds *)&usage);
    truth("used", usage.used_ids >= 1 && usage.shm_tot >= 3);
    for (int index = 0; index <= highest; index++)
        found += shmctl(index, SHM_STAT, &data) == id && data.shm_segsz == 3 * PAGE;
    number("found by index", found);
    show("too large", shmget(IPC_PRIVATE, ~0ul, IPC_CREAT | 0600));
    shmctl(id, IPC_RMID, NULL);
}

CASE(lock_and_unlock)
{
    int id = segment(PAGE);
    struct shmid_ds data;

    show("lock", shmctl(id, SHM_LOCK, NULL));
    MUST(shmctl(id, IPC_STAT, &data));
    truth("locked", data.shm_perm.mode & SHM_LOCKED);
    show("unlock", shmctl(id, SHM_UNLOCK, NULL));
    MUST(shmctl(id, IPC_STAT, &data));
    truth("locked", data.shm_perm.mode & SHM_LOCKED);
    shmctl(id, IPC_RMID, NULL);
}

CASE(proc_lists_it)
{
    int id = segment(12345);
    char line[512], name[64];
    int header = 0, rows = 0;
    FILE *file = fopen("/proc/sysvipc/shm", "r");

    while (file && fgets(line, sizeof line, file)) {
        int key, row_id;
        unsigned mode;
        unsigned long size;

        header |= strstr(line, "nattch") != NULL;
        if (sscanf(line, "%d %d %o %lu", &key, &row_id, &mode, &size) == 4 && row_id == id) {
            rows++;
            printf("key %d mode %o size %lu\n", key, mode, size);
        }
    }
    truth("header", header);
    number("rows", rows);
    if (file)
        fclose(file);
    snprintf(name, sizeof name, "/SYSV%08x", 0);
    char *memory = shmat(id, NULL, 0);
    file = fopen("/proc/self/maps", "r");
    rows = 0;
    while (file && fgets(line, sizeof line, file))
        rows += strstr(line, name) != NULL;
    number("in maps", rows);
    if (file)
        fclose(file);
    shmdt(memory);
    shmctl(id, IPC_RMID, NULL);
}

/* Every combination of flags on a key that exists and on one that does not. */
CASE(matrix_of_shmget)
{
    static const int flags[] = { 0, IPC_CREAT, IPC_EXCL, IPC_CREAT | IPC_EXCL };
    static const size_t sizes[] = { 0, 1, 4096, 4097 };
    key_t key = own_key(4);

    for (size_t f = 0; f < COUNT_OF(flags); f++)
        for (size_t s = 0; s < COUNT_OF(sizes); s++)
            for (int exists = 0; exists < 2; exists++) {
                int id = exists ? MUST(shmget(key, 4096, IPC_CREAT | 0600)) : -1;
                int got = shmget(key, sizes[s], flags[f] | 0600);

                printf("flags %o size %zu %s: %s\n", flags[f], sizes[s], exists ? "exists" : "missing",
                       got == -1 ? errno_name(errno) : got == id ? "the same" : "new");
                if (got != -1)
                    shmctl(got, IPC_RMID, NULL);
                else if (id != -1)
                    shmctl(id, IPC_RMID, NULL);
            }
}

CASE(ids_of_removed_segments_are_not_taken_for_new_ones)
{
    int first = segment(PAGE), last;
    int same = 0;

    shmctl(first, IPC_RMID, NULL);
    for (int i = 0; i < 200; i++) {
        last = segment(PAGE);
        same += last == first;
        shmctl(last, IPC_RMID, NULL);
    }
    number("same id", same);
}
