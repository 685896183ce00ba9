/* dlopen(3) and dlmopen(3): libraries shared, reloaded, and in name spaces of their own. Arguments: two libraries from library.c. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef int counting(void);
typedef const char *naming(void);

static int call(void *library, const char *function)
{
    counting *found = (counting *)dlsym(library, function);
    return found ? found() : -1;
}

static int count_libraries(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    *(int *)data += strstr(info->dlpi_name, "library-") != NULL;
    return 0;
}

static void *in_thread(void *library)
{
    int first = call(library, "count_of_thread");
    call(library, "count");
    printf("thread %d %d\n", first, call(library, "count_of_thread"));
    return NULL;
}

static void show_loaded(const char *when)
{
    int libraries = 0;
    dl_iterate_phdr(count_libraries, &libraries);
    printf("%s: %d\n", when, libraries);
}

static void *own_space(const char *path)
{
    void *library = dlmopen(LM_ID_NEWLM, path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        printf("dlmopen: %s\n", dlerror());
    return library;
}

int main(int count, char **paths)
{
    if (count != 3)
        return 2;
    void *first = dlopen(paths[1], RTLD_LAZY), *again = dlopen(paths[1], RTLD_NOW), *second = dlopen(paths[2], RTLD_NOW);
    printf("same %d, other %d\n", first == again, first != second);
    printf("counts %d %d %d\n", call(first, "count"), call(again, "count"), call(second, "count"));
    printf("%s, %s\n", ((naming *)dlsym(first, "name"))(), ((naming *)dlsym(second, "indirect"))());
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, first);
    pthread_join(thread, NULL);
    Dl_info info;
    dladdr(dlsym(first, "count"), &info);
    printf("is %s in %s\n", info.dli_sname, strrchr(info.dli_fname, '/') + 1);
    show_loaded("loaded");

    void *spaces[] = {own_space(paths[1]), own_space(paths[1]), own_space(paths[2])};
    for (int i = 0; i < 3; i++) {
        Lmid_t space = -1;
        dlinfo(spaces[i], RTLD_DI_LMID, &space);
        printf("space %d counts %d, own %d\n", i, call(spaces[i], "count"), space != LM_ID_BASE);
    }
    for (int i = 0; i < 3; i++)
        dlclose(spaces[i]);
    dlclose(first);
    printf("still %d\n", call(again, "count"));
    dlclose(again);
    show_loaded("one is closed");
    first = dlopen(paths[1], RTLD_NOW | RTLD_GLOBAL);
    printf("afresh %d, by default %d\n", call(first, "count"), dlsym(RTLD_DEFAULT, "count") == dlsym(first, "count"));
    printf("missing %d %d\n", dlopen("/no/such/library", RTLD_NOW) == NULL, dlsym(first, "no_such_function") == NULL);
    return 0;
}
