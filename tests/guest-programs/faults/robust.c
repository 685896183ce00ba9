/*
 * A process takes a robust mutex that lies in shared memory and waits for ever.
 * Another one waits for the mutex, gets it as its owner's heir, and hands it on.
 *
 * Usage: robust hold FILE | robust inherit FILE
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct shared {
    pthread_mutex_t mutex;
    int value;
};

static struct shared *map(const char *path, int flags)
{
    int fd = open(path, O_RDWR | flags, 0600);

    if (fd < 0 || ftruncate(fd, sizeof(struct shared)))
        return NULL;
    return mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

static int hold(const char *path)
{
    struct shared *shared = map(path, O_CREAT);
    pthread_mutexattr_t attributes;

    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    if (!shared || pthread_mutex_init(&shared->mutex, &attributes) || pthread_mutex_lock(&shared->mutex))
        return 1;
    shared->value = 42;
    puts("held");
    fflush(stdout);
    for (;;)
        pause();
}

static int inherit(const char *path)
{
    struct shared *shared = map(path, 0);
    int error = shared ? pthread_mutex_lock(&shared->mutex) : EINVAL;

    printf("lock: %s, value %d\n", error ? strerrorname_np(error) : "0", shared->value);
    printf("consistent: %d\n", pthread_mutex_consistent(&shared->mutex));
    printf("unlock: %d\n", pthread_mutex_unlock(&shared->mutex));
    printf("lock again: %d\n", pthread_mutex_lock(&shared->mutex));
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    return !strcmp(argv[1], "hold") ? hold(argv[2]) : inherit(argv[2]);
}
