/* Data in an executable segment, where linkers put it that make one segment of code and constants (gold; ld with -z noseparate-code). It reads
   like cpuid and an access by GS, and is so long that functions are known for less than half of the segment. Printed, it must be as it is written here. */
#include <stdio.h>

static const unsigned char much[1 << 16] = { 1 };
static const unsigned char constants[16] = { 0x0f, 0xa2, 0xc3, 0x65, 0x8b, 0x00, 0xc3, 0x0f, 0x31, 0xc3 };

int main(int count, char **words)
{
    const volatile unsigned char *at = constants;
    (void)words;
    /* Whoever looks at the code sees its address taken. */
    __asm__ volatile("" : "+r"(at));
    for (int i = 0; i < 10; i++)
        printf("%02x ", at[i]);
    printf("%d\n", much[count]);
    return 0;
}
