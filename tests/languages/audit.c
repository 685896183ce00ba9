/* A library for LD_AUDIT (rtld-audit(7)): tells which libraries a program loads. */
#define _GNU_SOURCE
#include <link.h>
#include <stdio.h>
#include <string.h>

unsigned int la_version(unsigned int version)
{
    return version;
}

unsigned int la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie)
{
    const char *slash = strrchr(map->l_name, '/');
    (void)cookie;
    if (space == LM_ID_BASE && slash != NULL)
        fprintf(stderr, "loads %s\n", slash + 1);
    return 0;
}
