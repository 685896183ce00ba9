/* A program linked with a library from library.c: LD_LIBRARY_PATH says which. */
#include <stdio.h>

int count(void);
const char *name(void);

int main(void)
{
    printf("linked with %s\n", name());
    return count() - 1;
}
