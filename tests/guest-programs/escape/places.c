/*
 * Executes `rdrand` that the program has written where no first execution is noticed: PLACE is one of those below. Prints it, and that the
 * instruction was carried out; what it brought is the processor's own.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#define PAGE 4096

/* rdrand %eax; sbb %eax,%eax; ret: -1 where there was a number. */
static const unsigned char code[] = { 0x0f, 0xc7, 0xf0, 0x19, 0xc0, 0xc3 };
static unsigned char zeroes[PAGE] __attribute__((aligned(PAGE)));
static unsigned char data[PAGE] __attribute__((aligned(PAGE))) = { 1 };
static const int all = PROT_READ | PROT_WRITE | PROT_EXEC;

__attribute__((aligned(PAGE), noinline)) static int text(void)
{
    __asm__ volatile("nop; nop; nop; nop; nop; nop; nop; nop");
    return 5;
}

static void carry_out(void *at)
{
    printf("carried out: %d\n", ((int (*)(void))at)() != 0);
}

int main(int argc, char **argv)
{
    const char *place = argc > 1 ? argv[1] : "";
    unsigned char *memory = NULL;
    int file = memfd_create("code", 0), segment;

    printf("%s\n", place);
    if (write(file, code, sizeof code) != sizeof code || ftruncate(file, PAGE))
        return 1;
    if (!strcmp(place, "zeroes") || !strcmp(place, "data")) {
        memory = *place == 'z' ? zeroes : data;
        memcpy(memory, code, sizeof code);
        mprotect(memory, PAGE, PROT_READ | PROT_EXEC);
    } else if (!strcmp(place, "text")) {
        memory = (unsigned char *)text;
        mprotect(memory, PAGE, all);
        memcpy(memory, code, sizeof code);
    } else if (!strcmp(place, "file")) {
        memory = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
    } else if (!strcmp(place, "twice")) {
        unsigned char *written = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

        memset(written, 0xc3, PAGE);
        memory = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
        memcpy(written, code, sizeof code);
    } else if (!strcmp(place, "segment")) {
        segment = shmget(IPC_PRIVATE, PAGE, 0700);
        memory = shmat(segment, NULL, SHM_EXEC);
        shmctl(segment, IPC_RMID, NULL);
        memcpy(memory, code, sizeof code);
    } else if (!strcmp(place, "covered") || !strcmp(place, "cut")) {
        memory = mmap(NULL, 2 * PAGE, all, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        memcpy(memory + PAGE, code, sizeof code);
        carry_out(memory + PAGE);
        if (*place == 'c' && place[1] == 'o')
            mmap(memory + PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        else
            mremap(memory, 2 * PAGE, PAGE, 0);
        return 0;
    }
    if (!memory || memory == MAP_FAILED)
        return 1;
    carry_out(memory);
    return 0;
}
