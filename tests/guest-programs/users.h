/*
 * What the programs about users and permissions share: acting as somebody else
 * for a moment. They are run by root natively; the suite leaves them out for
 * everybody else.
 */
#ifndef GNOMON_USERS_H
#define GNOMON_USERS_H

#include "case.h"

#include <grp.h>
#include <sys/fsuid.h>
#include <sys/wait.h>

/* Somebody who is not root. Nobody needs to know them. */
struct user {
    const char *name;
    uid_t uid;
    gid_t gid;
    gid_t other_group; /* 0: none */
};

static const struct user root_user = { "root", 0, 0, 0 };

/* Becomes a user for good. */
static inline void become(const struct user *user)
{
    gid_t groups[1] = { user->other_group };

    MUST(setgroups(user->other_group ? 1 : 0, groups));
    MUST(setresgid(user->gid, user->gid, user->gid));
    MUST(setresuid(user->uid, user->uid, user->uid));
}

/* Runs work(argument) in a child process that is this user; returns its status. */
static inline int as_user(const struct user *user, void (*work)(void *), void *argument)
{
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = MUST(fork());
    if (child == 0) {
        become(user);
        work(argument);
        fflush(stdout);
        _exit(0);
    }
    while (waitpid(child, &status, 0) == -1)
        if (errno != EINTR)
            case_give_up("waitpid", errno);
    return status;
}

/* As as_user, with the ids as they are. */
static inline int in_child(void (*work)(void *), void *argument)
{
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = MUST(fork());
    if (child == 0) {
        work(argument);
        fflush(stdout);
        _exit(0);
    }
    while (waitpid(child, &status, 0) == -1)
        if (errno != EINTR)
            case_give_up("waitpid", errno);
    return status;
}

/* "0" or the error's name, for tables. */
static inline const char *outcome(long ret)
{
    return ret == -1 ? errno_name(errno) : "ok";
}

/* The effective, permitted, inheritable capabilities of the calling thread. */
struct capabilities {
    uint64_t effective, permitted, inheritable;
};

static inline struct capabilities capabilities_now(void)
{
    uint32_t header[2] = { 0x20080522, 0 };
    uint32_t data[6] = { 0 };

    MUST(syscall(SYS_capget, header, data));
    return (struct capabilities){
        data[0] | (uint64_t)data[3] << 32,
        data[1] | (uint64_t)data[4] << 32,
        data[2] | (uint64_t)data[5] << 32,
    };
}

static inline long capabilities_set(struct capabilities wanted)
{
    uint32_t header[2] = { 0x20080522, 0 };
    uint32_t data[6] = {
        wanted.effective, wanted.permitted, wanted.inheritable,
        wanted.effective >> 32, wanted.permitted >> 32, wanted.inheritable >> 32,
    };

    return syscall(SYS_capset, header, data);
}

#endif
