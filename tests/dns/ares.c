/* Looks names up with c-ares, by DNS alone. */
#include <ares.h>
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/select.h>

static void print_addresses(void *name, int status, int timeouts, struct ares_addrinfo *found)
{
    printf("%s: %s", (const char *)name, ares_strerror(status));
    for (struct ares_addrinfo_node *node = found ? found->nodes : NULL; node; node = node->ai_next) {
        char text[NI_MAXHOST];

        getnameinfo(node->ai_addr, node->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST);
        printf(", %s", text);
    }
    printf(", %d timeouts\n", timeouts);
    if (found)
        ares_freeaddrinfo(found);
}

static void print_name(void *address, int status, int timeouts, struct hostent *host)
{
    printf("%s: %s, %s, %d timeouts\n", (const char *)address, ares_strerror(status), host ? host->h_name : "-", timeouts);
}

static void run(ares_channel channel)
{
    fd_set readable, writable;
    int last;

    for (;;) {
        FD_ZERO(&readable);
        FD_ZERO(&writable);
        last = ares_fds(channel, &readable, &writable);
        if (last == 0)
            return;
        struct timeval wait, *timeout = ares_timeout(channel, NULL, &wait);
        select(last, &readable, &writable, NULL, timeout);
        ares_process(channel, &readable, &writable);
    }
}

int main(int argc, char **argv)
{
    struct ares_options options = {.lookups = "b", .flags = ARES_FLAG_EDNS};
    struct ares_addrinfo_hints hints = {.ai_family = AF_UNSPEC, .ai_flags = ARES_AI_NOSORT};
    ares_channel channel;

    ares_library_init(ARES_LIB_INIT_ALL);
    for (int over_tcp = 0; over_tcp < 2; over_tcp++) {
        if (over_tcp)
            options.flags |= ARES_FLAG_USEVC;
        if (ares_init_options(&channel, &options, ARES_OPT_LOOKUPS | ARES_OPT_FLAGS) != ARES_SUCCESS)
            return 1;
        for (int i = 1; i < argc; i++) {
            struct in_addr address;
            struct in6_addr address6;

            if (inet_pton(AF_INET6, argv[i], &address6) == 1)
                ares_gethostbyaddr(channel, &address6, sizeof address6, AF_INET6, print_name, argv[i]);
            else if (inet_pton(AF_INET, argv[i], &address) == 1)
                ares_gethostbyaddr(channel, &address, sizeof address, AF_INET, print_name, argv[i]);
            else
                ares_getaddrinfo(channel, argv[i], NULL, &hints, print_addresses, argv[i]);
            run(channel);
        }
        ares_destroy(channel);
    }
    return 0;
}
