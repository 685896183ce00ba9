/* Dies of a null pointer, as so many programs do. */
#include <stdio.h>

int main(void)
{
    volatile int *nothing = NULL;

    puts("about to read *NULL");
    fflush(stdout);
    return *nothing;
}
