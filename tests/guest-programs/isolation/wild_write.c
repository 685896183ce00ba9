/*
 * Writes through the segment by which the simulator finds its own state: what a
 * wild pointer could hit, by the shortest way, in code that nobody prepares:
 * in memory that could be shared.
 * Natively it is a null pointer.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* movq $0x1234, %gs:0; ret */
static const unsigned char code[] = { 0x65, 0x48, 0xc7, 0x04, 0x25, 0, 0, 0, 0, 0x34, 0x12, 0, 0, 0xc3 };

int main(void)
{
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 2;
    memcpy(memory, code, sizeof code);
    if (mprotect(memory, 4096, PROT_READ | PROT_EXEC))
        return 2;
    puts("about to write");
    fflush(stdout);
    ((void (*)(void))memory)();
    getppid();
    puts("still here");
    return 0;
}
