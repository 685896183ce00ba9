/*
 * Tries to reach a real address by TCP and UDP, and by a raw socket.
 *
 *   real_network ADDRESS PORT
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static void show(const char *what, long ret)
{
    printf("%s = %s\n", what, ret == -1 ? strerrorname_np(errno) : "ok");
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    struct timeval limit = { 20, 0 };
    char answer[16];
    int tcp = socket(AF_INET, SOCK_STREAM, 0), udp = socket(AF_INET, SOCK_DGRAM, 0);

    if (argc != 3 || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1)
        return 2;
    address.sin_port = htons(atoi(argv[2]));
    setsockopt(tcp, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(udp, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    show("tcp connect", connect(tcp, (struct sockaddr *)&address, sizeof address));
    show("tcp send", send(tcp, "out", 3, MSG_NOSIGNAL));
    sendto(udp, "out", 3, 0, (struct sockaddr *)&address, sizeof address);
    show("udp answer", recv(udp, answer, sizeof answer, 0));
    return 0;
}
