/* splice and vmsplice: what they take and give, how much, and when they wait. */
#include "case.h"
#include "process.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

static int full_pipe[2];

static void open_pipe(void)
{
    MUST(pipe(full_pipe));
    MUST(write(full_pipe[1], "text", 4));
}

CASE(what_cannot_be_spliced)
{
    int directory, event, epoll, name, empty[2];

    scratch();
    open_pipe();
    MUST(pipe(empty));
    MUST(directory = open(".", O_RDONLY | O_DIRECTORY));
    MUST(event = eventfd(1, EFD_NONBLOCK));
    MUST(epoll = epoll_create1(0));
    MUST(name = open(".", O_PATH));
    show("from a directory", splice(directory, NULL, full_pipe[1], NULL, 10, 0));
    show("from an event", splice(event, NULL, full_pipe[1], NULL, 10, 0));
    show("from epoll", splice(epoll, NULL, full_pipe[1], NULL, 10, 0));
    show("from a name", splice(name, NULL, full_pipe[1], NULL, 10, 0));
    show("to an event, of an empty pipe", splice(empty[0], NULL, event, NULL, 10, 0));
    show("to epoll, of an empty pipe", splice(empty[0], NULL, epoll, NULL, 10, 0));
    show("to an event", splice(full_pipe[0], NULL, event, NULL, 8, 0));
    show("to the same pipe", splice(full_pipe[0], NULL, full_pipe[1], NULL, 10, 0));
}

CASE(through_sockets)
{
    char data[16] = "";
    int ends[2], back[2];

    open_pipe();
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    MUST(pipe(back));
    show("into a socket", splice(full_pipe[0], NULL, ends[0], NULL, 10, 0));
    show("out of a socket", splice(ends[1], NULL, back[1], NULL, 10, 0));
    show("read", read(back[0], data, sizeof(data)));
    bytes("data", data, 4);
    show("at a position", splice(full_pipe[0], NULL, ends[0], &(loff_t){ 0 }, 10, 0));
    MUST(close(ends[1]));
    MUST(write(full_pipe[1], "more", 4));
    signal(SIGPIPE, SIG_IGN);
    show("into a closed socket", splice(full_pipe[0], NULL, ends[0], NULL, 10, 0));
}

CASE(through_files)
{
    char data[16] = "";
    loff_t at = 1;
    int fd;

    scratch();
    open_pipe();
    file_make("file", "0123456789");
    MUST(fd = open("file", O_RDWR));
    show("into a file", splice(full_pipe[0], NULL, fd, &at, 10, 0));
    number("position", at);
    at = 8;
    show("out of a file", splice(fd, &at, full_pipe[1], NULL, 10, 0));
    number("position", at);
    show("read", read(full_pipe[0], data, sizeof(data)));
    bytes("data", data, 2);
    file_show("file");
    show("at the end", splice(fd, &at, full_pipe[1], NULL, 10, 0));
}

CASE(user_memory_goes_in_as_far_as_there_is_room)
{
    static char data[4 * 65536];
    struct iovec part = { data, sizeof(data) };
    int ends[2];
    long done;

    MUST(pipe(ends));
    done = vmsplice(ends[1], &part, 1, 0);
    truth("some of it", done > 0 && done <= 65536);
    show("no more", vmsplice(ends[1], &part, 1, SPLICE_F_NONBLOCK));
    truth("as much comes out", read(ends[0], data, sizeof(data)) == done);
    part.iov_len = 0;
    show("nothing", vmsplice(ends[1], &part, 1, 0));
    part.iov_len = 10;
    show("into the reading end", vmsplice(ends[0], &part, 1, SPLICE_F_NONBLOCK));
    MUST(close(ends[0]));
    signal(SIGPIPE, SIG_IGN);
    show("nobody reads", vmsplice(ends[1], &part, 1, 0));
    show("no pipe", vmsplice(0, &part, 1, 0));
}
