/* Loaded into a tor by LD_PRELOAD: a thread that writes down, twenty times a second, what waits in the kernel's send buffers.
 * A line of the file `queues` is: seconds, the connection's peer, bytes not yet acknowledged (SIOCOUTQ), bytes of these not yet sent
 * (SIOCOUTQNSD). tor itself does what it would do without. */

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { DESCRIPTORS = 128, PERIOD_US = 50000 };

static void look(FILE *file, int descriptor, double now) {
    struct sockaddr_in peer;
    socklen_t length = sizeof peer;
    char name[INET_ADDRSTRLEN];
    int queued, unsent;
    if (getpeername(descriptor, (struct sockaddr *)&peer, &length) != 0 || peer.sin_family != AF_INET)
        return;
    if (ioctl(descriptor, SIOCOUTQ, &queued) != 0 || ioctl(descriptor, SIOCOUTQNSD, &unsent) != 0)
        return;
    fprintf(file, "%.3f %s %d %d\n", now, inet_ntop(AF_INET, &peer.sin_addr, name, sizeof name), queued, unsent);
}

static void *watch(void *unused) {
    FILE *file = fopen("queues", "w");
    struct timespec now;
    while (file != NULL && usleep(PERIOD_US) == 0) {
        clock_gettime(CLOCK_REALTIME, &now);
        for (int descriptor = 0; descriptor < DESCRIPTORS; descriptor++)
            look(file, descriptor, now.tv_sec + now.tv_nsec / 1e9);
        fflush(file);
    }
    return unused;
}

__attribute__((constructor)) static void start(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, watch, NULL);
}
