/* A tunnel of relays: the sender encrypts packets in one layer for each hop, every hop takes one off, the last one says how fast they came.
 * tunnel send LAYERS PACKETS HOST PORT; tunnel relay PACKETS PORT HOST PORT; tunnel sink PACKETS PORT */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 1000, ROUNDS = 24 };
static uint8_t packet[BYTES];

__attribute__((noinline)) static void encrypt(uint32_t key) {
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < BYTES; i++) {
            key = key * 1664525u + 1013904223u;
            packet[i] ^= key >> 24;
        }
}

static struct sockaddr_in address(const char *host, const char *port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
    struct hostent *entry = host ? gethostbyname(host) : NULL;
    if (entry)
        memcpy(&to.sin_addr, entry->h_addr_list[0], 4);
    return to;
}

static int bound(const char *port) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0), room = 1 << 22;
    struct sockaddr_in own = address(NULL, port);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    if (bind(fd, (struct sockaddr *)&own, sizeof own) != 0)
        exit(2);
    return fd;
}

int main(int argc, char **argv) {
    const char *role = argv[1];
    int sends = strcmp(role, "send") == 0, number = atoi(argv[sends ? 3 : 2]);
    if (sends) {
        struct sockaddr_in to = address(argv[4], argv[5]);
        int fd = socket(AF_INET, SOCK_DGRAM, 0);
        sleep(1);
        for (int i = 0; i < number; i++) {
            for (int layer = 0; layer < atoi(argv[2]); layer++)
                encrypt(layer);
            sendto(fd, packet, BYTES, 0, (struct sockaddr *)&to, sizeof to);
        }
        return 0;
    }
    int fd = bound(argv[3]), out = socket(AF_INET, SOCK_DGRAM, 0), got = 0;
    struct sockaddr_in to = strcmp(role, "relay") == 0 ? address(argv[4], argv[5]) : address(NULL, "0");
    struct timespec first, last;
    for (; got < number; got++) {
        if (recvfrom(fd, packet, BYTES, 0, NULL, NULL) != BYTES)
            return 1;
        if (got == 0)
            clock_gettime(CLOCK_MONOTONIC, &first);
        encrypt(0);
        if (argc == 6)
            sendto(out, packet, BYTES, 0, (struct sockaddr *)&to, sizeof to);
    }
    clock_gettime(CLOCK_MONOTONIC, &last);
    double s = (last.tv_sec - first.tv_sec) + (last.tv_nsec - first.tv_nsec) / 1e9;
    if (argc == 4)
        printf("%.0f bytes/s\n", (number - 1) * (double)BYTES / s);
    return 0;
}
