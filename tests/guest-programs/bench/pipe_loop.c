/*
 * Writes 64 bytes to a pipe and reads them back, N times, in one thread.
 *
 * Usage: pipe_loop N. Whoever starts it measures.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 1000000;
    char out[64], in[64];
    int ends[2];

    memset(out, 'p', sizeof out);
    if (pipe(ends))
        return 1;
    for (long i = 0; i < rounds; i++) {
        if (write(ends[1], out, sizeof out) != sizeof out)
            return 1;
        if (read(ends[0], in, sizeof in) != sizeof in)
            return 1;
    }
    return memcmp(in, out, sizeof in) && rounds ? 1 : 0;
}
