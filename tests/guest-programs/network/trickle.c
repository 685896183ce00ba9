// trickle from | trickle to ADDRESS: five writes of 100 bytes at once, and when, in microseconds of the simulation, which of them came.
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec % 1000 * 1000000 + t.tv_nsec / 1000;
}

int main(int argc, char **argv) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(9000)};
    int s = socket(AF_INET, SOCK_STREAM, 0);
    char bytes[100] = {0}, buffer[1000];
    if (argc == 2) {
        if (bind(s, (struct sockaddr *)&at, sizeof at) || listen(s, 1)) return 1;
        int connection = accept(s, NULL, NULL);
        long begun = 0;
        for (ssize_t n; (n = read(connection, buffer, sizeof buffer)) > 0;) {
            if (!begun) begun = now();
            printf("%ld %zd\n", now() - begun, n);
        }
        fflush(stdout);
        pause();
    }
    sleep(1);
    inet_pton(AF_INET, argv[2], &at.sin_addr);
    if (connect(s, (struct sockaddr *)&at, sizeof at)) return 2;
    for (int i = 0; i < 5; i++)
        if (write(s, bytes, sizeof bytes) != sizeof bytes) return 3;
    sleep(1); // The end of a connection would push what waits.
    return 0;
}
