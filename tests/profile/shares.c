/* Functions with known shares of the processor time: 60, 30 and 10 %, in so many threads and twins as the arguments say. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile uint64_t sink;

#define WORK(name)                                                                                                     \
    __attribute__((noinline)) void name(long rounds) {                                                                 \
        uint64_t x = 88172645463325252ull;                                                                             \
        for (long i = 0; i < rounds; i++) {                                                                            \
            x ^= x << 13;                                                                                              \
            x ^= x >> 7;                                                                                               \
            x ^= x << 17;                                                                                              \
        }                                                                                                              \
        sink += x;                                                                                                     \
    }

WORK(sixty)
WORK(thirty)
WORK(ten)

static void *work(void *rounds) {
    for (long i = (long)rounds; i > 0; i--) {
        sixty(60000);
        thirty(30000);
        ten(10000);
        if (i % 10 == 0)
            usleep(1000);
    }
    return NULL;
}

int main(int argc, char **argv) {
    long rounds = atol(argv[1]), threads = atol(argv[2]), twins = atol(argv[3]);
    for (long i = 0; i < twins; i++)
        if (fork() == 0) {
            work((void *)rounds);
            _exit(0);
        }
    pthread_t all[16];
    for (long i = 0; i < threads; i++)
        pthread_create(&all[i], NULL, work, (void *)rounds);
    work((void *)rounds);
    for (long i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    while (wait(NULL) > 0)
        ;
    return 0;
}
