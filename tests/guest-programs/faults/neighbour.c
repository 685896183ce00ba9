/*
 * Lives beside a guest that misbehaves, and notices if its own memory, files,
 * time or connections suffer.
 *
 * Usage: neighbour serve PORT            echoes what connections send, for ever
 *        neighbour ADDRESS PORT SECONDS  exits 0 if all was well until then
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 4096
#define MEMORY (1 << 20)

static void fail(const char *what)
{
    printf("%s: %s\n", what, strerror(errno));
    exit(1);
}

static struct sockaddr_in address_of(const char *host, const char *port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };

    if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
        fail("address");
    return address;
}

static void echo(int connection)
{
    char block[BLOCK];
    ssize_t length;

    while ((length = read(connection, block, sizeof(block))) > 0)
        if (write(connection, block, length) != length)
            break;
    _exit(0);
}

static _Noreturn void serve(const char *port)
{
    struct sockaddr_in address = address_of("0.0.0.0", port);
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;

    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 64))
        fail("listen");
    for (;;) {
        int connection = accept(listener, NULL, NULL);

        if (connection < 0)
            fail("accept");
        if (fork() == 0)
            echo(connection);
        close(connection);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
}

/* One block there and back. */
static void exchange(int connection, unsigned char salt)
{
    unsigned char out[BLOCK], in[BLOCK];

    for (size_t i = 0; i < sizeof(out); i++)
        out[i] = (unsigned char)(i * 31 + salt);
    if (write(connection, out, sizeof(out)) != (ssize_t)sizeof(out))
        fail("write");
    if (recv(connection, in, sizeof(in), MSG_WAITALL) != (ssize_t)sizeof(in))
        fail("read");
    if (memcmp(out, in, sizeof(in)))
        fail("the echo differs");
}

static void check(const unsigned char *memory, unsigned char salt)
{
    for (size_t i = 0; i < MEMORY; i++)
        if (memory[i] != (unsigned char)(i * 7 + salt))
            fail("memory changed");
}

static void fill(unsigned char *memory, unsigned char salt)
{
    for (size_t i = 0; i < MEMORY; i++)
        memory[i] = (unsigned char)(i * 7 + salt);
}

int main(int argc, char **argv)
{
    struct sockaddr_in address;
    unsigned char *memory;
    struct timespec begin, now;
    int rounds = 0, connection, child_status;
    pid_t child;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 3 && !strcmp(argv[1], "serve"))
        serve(argv[2]);
    if (argc != 4)
        return 2;
    address = address_of(argv[1], argv[2]);
    connection = socket(AF_INET, SOCK_STREAM, 0);
    memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (connection < 0 || memory == MAP_FAILED || connect(connection, (struct sockaddr *)&address, sizeof(address)))
        fail("start");
    clock_gettime(CLOCK_MONOTONIC, &begin);
    fill(memory, 0);
    do {
        unsigned char salt = (unsigned char)rounds;

        exchange(connection, salt);
        check(memory, salt);
        fill(memory, (unsigned char)(salt + 1));
        usleep(100000);
        rounds++;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - begin.tv_sec < atoi(argv[3]));
    child = fork();
    if (child == 0)
        _exit(7);
    if (child < 0 || waitpid(child, &child_status, 0) != child || !WIFEXITED(child_status) || WEXITSTATUS(child_status) != 7)
        fail("child");
    printf("all was well: %d rounds\n", rounds);
    return 0;
}
