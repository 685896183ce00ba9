/* One program for all kinds of executables: what depends on how it is linked and loaded. Prints the same in every run. */
#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1UL << 20)

const char constant[] = "constant";
static char zeros[64 * MIB];
static __thread int per_thread = 7;
static int twice(int x) { return 2 * x; }
/* A pointer to relocate, and one that is only called through. */
static int (*volatile function)(int) = twice;
static const char *const table[] = {"zero", "one", "two"};

__attribute__((constructor)) static void before(void)
{
    printf("before main\n");
}

__attribute__((destructor)) static void after(void)
{
    printf("after main\n");
}

static void *thread(void *argument)
{
    per_thread += *(int *)argument;
    return (void *)(long)per_thread;
}

static void show_address(const char *name)
{
#ifdef LIBC_WITHOUT_NAMES
    (void)name;
#else
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
    char text[INET_ADDRSTRLEN] = "";
    int error = getaddrinfo(name, "80", &hints, &found);
    if (error == 0)
        inet_ntop(AF_INET, &((struct sockaddr_in *)found->ai_addr)->sin_addr, text, sizeof text);
    printf("address %d %s\n", error, text);
#endif
}

int main(int count, char **arguments, char **environment)
{
    int sum = 0, five = 5, status;
    pthread_t id;
    void *result;
    for (size_t i = 0; i < sizeof zeros; i += MIB)
        sum += zeros[i]++;
    printf("%d %s %s %d %d\n", count, constant, table[2], sum, function(21));
    pthread_create(&id, NULL, thread, &five);
    pthread_join(id, &result);
    printf("threads %ld %d\n", (long)result, per_thread);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        zeros[0] = 9;
        per_thread = 1;
        _exit(3);
    }
    waitpid(child, &status, 0);
    printf("child %d, here %d %d\n", WEXITSTATUS(status), zeros[0], per_thread);
    show_address("localhost");
    char line[20] = "";
    FILE *shell = popen("echo from the shell", "r");
    printf("%s", fgets(line, sizeof line, shell));
    printf("%d\n", pclose(shell));
    printf("%s %d\n", getenv("KIND") ? getenv("KIND") : "none", environment[0] != NULL && arguments[count] == NULL);
    return 0;
}
