/* Datagrams at once, and when they come: `burst to ADDRESS SIZE...` sends one of each size after 1 s, which may be to everybody; `burst
 * from` says of each datagram when it came, in microseconds since the program's start at 0 s, and how large it was. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static long now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return time.tv_sec % 60 * 1000000 + time.tv_nsec / 1000;
}

int main(int count, char **arguments)
{
    static char bytes[2000];
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(7) };
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (count == 2) {
        if (bind(s, (struct sockaddr *)&address, sizeof address))
            return 1;
        for (;;) {
            ssize_t size = recv(s, bytes, sizeof bytes, 0);
            printf("%ld %zd\n", now_us(), size);
        }
    }
    inet_pton(AF_INET, arguments[2], &address.sin_addr);
    if (setsockopt(s, SOL_SOCKET, SO_BROADCAST, &(int){ 1 }, sizeof(int)))
        return 1;
    sleep(1);
    for (int i = 3; i < count; i++)
        if (sendto(s, bytes, strtoul(arguments[i], NULL, 10), 0, (struct sockaddr *)&address, sizeof address) < 0)
            return 1;
    return 0;
}
