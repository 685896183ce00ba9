/* A library for LD_PRELOAD: hosts are called NAME for whoever loads it, and what the next library says is told, too. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

int uname(struct utsname *names)
{
    int (*next)(struct utsname *) = (int (*)(struct utsname *))dlsym(RTLD_NEXT, "uname");
    int result = next(names);
    snprintf(names->nodename + strlen(names->nodename), 20, "-%s", NAME);
    return result;
}
