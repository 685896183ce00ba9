/* Looks names and addresses up with the C library's own functions. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;

    for (int i = 1; i < argc; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET};
        struct sockaddr_in6 address6 = {.sin6_family = AF_INET6};
        char name[256];
        int result;

        if (inet_pton(AF_INET, argv[i], &address.sin_addr) == 1) {
            result = getnameinfo((struct sockaddr *)&address, sizeof address, name, sizeof name, NULL, 0, NI_NAMEREQD);
            printf("%s: %s\n", argv[i], result == 0 ? name : result == EAI_NONAME ? "no name" : gai_strerror(result));
            continue;
        }
        if (inet_pton(AF_INET6, argv[i], &address6.sin6_addr) == 1) {
            result = getnameinfo((struct sockaddr *)&address6, sizeof address6, name, sizeof name, NULL, 0, NI_NAMEREQD);
            printf("%s: %s\n", argv[i], result == 0 ? name : result == EAI_NONAME ? "no name" : gai_strerror(result));
            continue;
        }
        result = getaddrinfo(argv[i], "80", &hints, &found);
        printf("%s:", argv[i]);
        if (result != 0)
            printf(" %s", result == EAI_NONAME ? "no name" : gai_strerror(result));
        else
            for (; found; found = found->ai_next) {
                getnameinfo(found->ai_addr, found->ai_addrlen, name, sizeof name, NULL, 0, NI_NUMERICHOST);
                printf(" %s", name);
            }
        printf("\n");
    }
    return 0;
}
