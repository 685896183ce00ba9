/*
 * Twenty connections on which a client asks 3 bytes and a server answers
 * 20,000, again and again.
 *
 * `exchange serve PORT` serves for ever; `exchange ADDRESS PORT SECONDS` asks
 * for so long and prints how many answers the connection with the fewest has
 * had, and the longest wait for an answer in milliseconds.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS 20
#define QUESTION 3
#define ANSWER 20000

static struct sockaddr_in address;
static double end;

struct asker {
    pthread_t thread;
    long answers;
    double longest;
};

static void give_up(const char *step)
{
    perror(step);
    exit(1);
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* Reads so many bytes; 0 at the end of the stream. */
static int read_all(int fd, char *data, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t got = read(fd, data + done, length - done);

        if (got < 0)
            give_up("read");
        if (got == 0)
            return 0;
        done += got;
    }
    return 1;
}

static void write_all(int fd, const char *data, size_t length)
{
    if (write(fd, data, length) != (ssize_t)length)
        give_up("write");
}

static void *answer(void *argument)
{
    char question[QUESTION], reply[ANSWER];
    int fd = (int)(long)argument;

    memset(reply, 'a', sizeof reply);
    while (read_all(fd, question, sizeof question))
        write_all(fd, reply, sizeof reply);
    close(fd);
    return NULL;
}

static void serve(void)
{
    pthread_t thread;
    int fd, listener = socket(AF_INET, SOCK_STREAM, 0);

    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, CONNECTIONS))
        give_up("listen");
    while ((fd = accept(listener, NULL, NULL)) >= 0)
        if (pthread_create(&thread, NULL, answer, (void *)(long)fd))
            give_up("pthread_create");
    give_up("accept");
}

static void *ask(void *argument)
{
    struct asker *asker = argument;
    char reply[ANSWER];
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (connect(fd, (struct sockaddr *)&address, sizeof address))
        give_up("connect");
    for (double start = now(), next; start < end; start = next) {
        write_all(fd, "get", QUESTION);
        if (!read_all(fd, reply, sizeof reply))
            give_up("end of the stream");
        next = now();
        asker->answers++;
        if (next - start > asker->longest)
            asker->longest = next - start;
    }
    close(fd);
    return NULL;
}

int main(int argc, char **argv)
{
    static struct asker askers[CONNECTIONS];
    long fewest = -1;
    double longest = 0;

    if (argc < 3)
        return 2;
    address.sin_family = AF_INET;
    address.sin_port = htons(atoi(argv[2]));
    if (!strcmp(argv[1], "serve"))
        serve();
    inet_pton(AF_INET, argv[1], &address.sin_addr);
    end = now() + atoi(argv[3]);
    for (int i = 0; i < CONNECTIONS; i++)
        if (pthread_create(&askers[i].thread, NULL, ask, &askers[i]))
            give_up("pthread_create");
    for (int i = 0; i < CONNECTIONS; i++) {
        pthread_join(askers[i].thread, NULL);
        if (fewest < 0 || askers[i].answers < fewest)
            fewest = askers[i].answers;
        if (askers[i].longest > longest)
            longest = askers[i].longest;
    }
    printf("%ld %.0f\n", fewest, longest * 1000);
    return 0;
}
