/*
 * What differs from machine to machine, asked for by instructions: the processor,
 * random numbers, the time-stamp counter. `tests/digests.rs` takes the section
 * headers away, as packers do, so that the code has to be found without them.
 */
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>

static void cpuid(uint32_t leaf, uint32_t part)
{
    uint32_t a = leaf, b, c = part, d;

    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    printf("cpuid %x %x: %08x %08x %08x %08x\n", leaf, part, a, b, c, d);
}

int main(void)
{
    static const uint32_t leaves[] = { 0, 1, 7, 0xb, 0xd, 0x16, 0x80000001, 0x80000002, 0x80000006 };
    uint64_t number = 0, low, high;
    uint32_t seed = 0, bytes = 0;
    unsigned char carry = 0;
    struct timespec now;

    for (unsigned i = 0; i < sizeof leaves / sizeof *leaves; i++)
        for (uint32_t part = 0; part < 2; part++)
            cpuid(leaves[i], part);
    for (int i = 0; i < 4; i++) {
        __asm__ volatile("rdrand %0; setc %1" : "=r"(number), "=qm"(carry) : : "cc");
        printf("rdrand %d %016lx\n", carry, (unsigned long)number);
        __asm__ volatile("rdseed %0; setc %1" : "=r"(seed), "=qm"(carry) : : "cc");
        printf("rdseed %d %08x\n", carry, seed);
    }
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    printf("rdtsc %lu\n", (unsigned long)(high << 32 | low));
    __asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(seed));
    printf("rdtscp %lu, processor %u\n", (unsigned long)(high << 32 | low), seed);
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    printf("xgetbv %lx %lx\n", (unsigned long)low, (unsigned long)high);
    getrandom(&bytes, sizeof bytes, 0);
    clock_gettime(CLOCK_REALTIME, &now);
    printf("getrandom %08x, %ld.%09ld\n", bytes, (long)now.tv_sec, now.tv_nsec);
    return 0;
}
