/* Opens until nothing can be opened any more, twice; what needs a descriptor fails meanwhile, all else works. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

static void attempt(const char *what, int result)
{
    printf("%s: %s\n", what, result < 0 ? strerrorname_np(errno) : "done");
}

int main(void)
{
    struct rlimit limit;
    int pair[2];

    getrlimit(RLIMIT_NOFILE, &limit);
    for (int round = 0; round < 2; round++) {
        int fd, last = 0;

        for (long opened = 3; (fd = open("/dev/null", O_RDONLY)) >= 0; opened++)
            last = fd;
        attempt("open", fd);
        printf("at the limit: %d\n", (rlim_t)last + 1 == limit.rlim_cur);
        attempt("socket", socket(AF_INET, SOCK_STREAM, 0));
        attempt("pipe", pipe(pair));
        attempt("dup", dup(0));
        attempt("eventfd", eventfd(0, 0));
        attempt("timerfd", timerfd_create(CLOCK_MONOTONIC, 0));
        attempt("epoll", epoll_create1(0));
        attempt("memfd", memfd_create("x", 0));
        attempt("write", (int)write(1, "", 0));
        for (fd = 3; fd <= last; fd++)
            close(fd);
        attempt("pipe afterwards", pipe(pair));
        close(pair[0]);
        close(pair[1]);
    }
    return 0;
}
