//! Every x86-64 system call: how far it is simulated, why not further, and by which function.
//!
//! `docs/system-calls.md` is generated from this table; a test keeps the two equal.

use super::{
    Handler, access, aio, clone, credentials, descriptors, futex, futex2, inotify, locks, memory, memory_policy,
    mqueue, open, other_process, paths, poll, process, read_write, refused, rseq, scheduling, seccomp, signals,
    sockets, splice, stat, system, sysv_msg, sysv_sem, sysv_shm, time, unsupported, wait, xattr,
};
use linux_abi::nr::{self, *};

/// How much of a call's behaviour on Linux a guest gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Support {
    /// What programs can observe agrees with Linux.
    Full,
    /// Some of it is missing.
    Partial(&'static str),
    /// The call answers ENOSYS.
    Unsupported(&'static str),
}

#[derive(Clone, Copy)]
pub struct Entry {
    pub number: u32,
    pub support: Support,
    pub handler: Handler,
}

const fn full(number: u32, handler: Handler) -> Entry {
    Entry { number, support: Support::Full, handler }
}

const fn partial(number: u32, handler: Handler, what: &'static str) -> Entry {
    Entry { number, support: Support::Partial(what), handler }
}

const fn missing(number: u32, why: &'static str) -> Entry {
    Entry { number, support: Support::Unsupported(why), handler: unsupported }
}

const fn missing_with(number: u32, handler: Handler, why: &'static str) -> Entry {
    Entry { number, support: Support::Unsupported(why), handler }
}

/// Handlers by number.
pub(super) static HANDLERS: [Handler; nr::COUNT] = {
    let mut handlers: [Handler; nr::COUNT] = [unsupported; nr::COUNT];
    let mut i = 0;
    while i < TABLE.len() {
        handlers[TABLE[i].number as usize] = TABLE[i].handler;
        i += 1;
    }
    handlers
};

/// One entry per call, by family.
pub const TABLE: &[Entry] = &[
    // Reading and writing.
    full(read, read_write::read),
    full(write, read_write::write),
    full(readv, read_write::readv),
    full(writev, read_write::writev),
    full(pread64, read_write::pread64),
    full(pwrite64, read_write::pwrite64),
    full(preadv, read_write::preadv),
    full(pwritev, read_write::pwritev),
    full(preadv2, read_write::preadv2),
    partial(pwritev2, read_write::pwritev2, "no RWF_NOAPPEND, no RWF_ATOMIC"),
    partial(lseek, read_write::lseek, "holes of sparse files are those of the machine's file system"),
    partial(io_setup, aio::io_setup, "files take no time: an operation is over when it is submitted"),
    full(io_destroy, aio::io_destroy),
    partial(io_submit, aio::io_submit, "no IOCB_CMD_POLL: EINVAL, as before Linux 4.18"),
    full(io_getevents, aio::io_getevents),
    full(io_pgetevents, aio::io_pgetevents),
    full(io_cancel, aio::io_cancel),
    full(sendfile, read_write::sendfile),
    full(copy_file_range, read_write::copy_file_range),
    full(linux_abi::nr::splice, splice::splice),
    full(tee, splice::tee),
    full(vmsplice, splice::vmsplice),
    // Opening files.
    full(linux_abi::nr::open, open::open),
    full(creat, open::creat),
    full(openat, open::openat),
    full(openat2, open::openat2),
    full(memfd_create, open::memfd_create),
    // Names and attributes.
    full(mkdir, paths::mkdir),
    full(mkdirat, paths::mkdirat),
    partial(mknod, paths::mknod, "devices other than those of /dev answer ENXIO"),
    partial(mknodat, paths::mknodat, "devices other than those of /dev answer ENXIO"),
    full(symlink, paths::symlink),
    full(symlinkat, paths::symlinkat),
    full(link, paths::link),
    full(linkat, paths::linkat),
    full(unlink, paths::unlink),
    full(unlinkat, paths::unlinkat),
    full(rmdir, paths::rmdir),
    full(rename, paths::rename),
    full(renameat, paths::renameat),
    partial(renameat2, paths::renameat2, "no RENAME_WHITEOUT"),
    full(readlink, paths::readlink),
    full(readlinkat, paths::readlinkat),
    full(chdir, paths::chdir),
    full(fchdir, paths::fchdir),
    full(getcwd, paths::getcwd),
    full(umask, paths::umask),
    full(chroot, paths::chroot),
    full(linux_abi::nr::access, access::access),
    full(faccessat, access::faccessat),
    full(faccessat2, access::faccessat2),
    full(chmod, paths::chmod),
    full(fchmod, paths::fchmod),
    full(fchmodat, paths::fchmodat),
    full(fchmodat2, paths::fchmodat2),
    full(chown, paths::chown),
    full(lchown, paths::lchown),
    full(fchown, paths::fchown),
    full(fchownat, paths::fchownat),
    full(utimensat, paths::utimensat),
    full(utimes, paths::utimes),
    full(futimesat, paths::futimesat),
    full(utime, paths::utime),
    full(truncate, paths::truncate),
    full(linux_abi::nr::stat, stat::stat),
    full(lstat, stat::lstat),
    full(fstat, stat::fstat),
    full(newfstatat, stat::newfstatat),
    partial(statx, stat::statx, "birth times of files that guests created"),
    partial(statfs, stat::statfs, "file systems that hold files have 64 GiB, half of it free"),
    partial(fstatfs, stat::fstatfs, "file systems that hold files have 64 GiB, half of it free"),
    full(getdents64, stat::getdents64),
    full(getdents, stat::getdents),
    partial(getxattr, xattr::getxattr, "user, trusted and security attributes; no access control lists"),
    partial(lgetxattr, xattr::lgetxattr, "user, trusted and security attributes; no access control lists"),
    partial(fgetxattr, xattr::fgetxattr, "user, trusted and security attributes; no access control lists"),
    partial(setxattr, xattr::setxattr, "user, trusted and security attributes; no access control lists"),
    partial(lsetxattr, xattr::lsetxattr, "user, trusted and security attributes; no access control lists"),
    partial(fsetxattr, xattr::fsetxattr, "user, trusted and security attributes; no access control lists"),
    partial(listxattr, xattr::listxattr, "user, trusted and security attributes; no access control lists"),
    partial(llistxattr, xattr::llistxattr, "user, trusted and security attributes; no access control lists"),
    partial(flistxattr, xattr::flistxattr, "user, trusted and security attributes; no access control lists"),
    partial(removexattr, xattr::removexattr, "user, trusted and security attributes; no access control lists"),
    partial(lremovexattr, xattr::lremovexattr, "user, trusted and security attributes; no access control lists"),
    partial(fremovexattr, xattr::fremovexattr, "user, trusted and security attributes; no access control lists"),
    // Descriptors.
    full(close, descriptors::close),
    full(close_range, descriptors::close_range),
    full(dup, descriptors::dup),
    full(dup2, descriptors::dup2),
    full(dup3, descriptors::dup3),
    partial(fcntl, descriptors::fcntl, "no directory notifications"),
    partial(flock, locks::flock, "seen within one host"),
    partial(ioctl, descriptors::ioctl, "requests on files, pipes, sockets and terminals"),
    full(linux_abi::nr::pipe, descriptors::pipe),
    full(pipe2, descriptors::pipe2),
    full(eventfd, descriptors::eventfd),
    full(eventfd2, descriptors::eventfd2),
    full(fsync, descriptors::fsync),
    full(fdatasync, descriptors::fsync),
    full(syncfs, descriptors::syncfs),
    full(sync_file_range, descriptors::sync_file_range),
    full(sync, descriptors::sync),
    full(ftruncate, descriptors::ftruncate),
    partial(fallocate, descriptors::fallocate, "growing, punching holes, zeroing"),
    full(fadvise64, descriptors::fadvise),
    full(readahead, descriptors::readahead),
    partial(cachestat, descriptors::cachestat, "all of a file counts as cached"),
    // Memory.
    partial(mmap, memory::mmap, "MAP_HUGETLB, MAP_32BIT and fixed addresses outside the process's arena are refused"),
    partial(munmap, memory::munmap, "addresses that a process maps again and again fault some calls later"),
    full(mprotect, memory::mprotect),
    partial(mremap, memory::mremap, "shared mappings do not grow in place"),
    full(brk, memory::brk),
    partial(
        madvise,
        memory::madvise,
        "MADV_DONTNEED, MADV_REMOVE and MADV_WIPEONFORK are obeyed, other advice accepted without effect",
    ),
    full(msync, memory::msync),
    full(mlock, memory::mlock),
    full(mlock2, memory::mlock2),
    full(munlock, memory::munlock),
    full(mlockall, memory::mlockall),
    full(munlockall, memory::munlockall),
    // Processes and threads.
    partial(linux_abi::nr::clone, clone::clone, "no namespaces, no tracing"),
    partial(clone3, clone::clone3, "no namespaces, no chosen numbers, no control groups"),
    full(fork, clone::fork),
    full(vfork, clone::vfork),
    full(execve, process::execve),
    full(execveat, process::execveat),
    full(exit, process::exit),
    full(exit_group, process::exit_group),
    full(wait4, wait::wait4),
    full(waitid, wait::waitid),
    full(pidfd_open, wait::pidfd_open),
    full(pidfd_send_signal, wait::pidfd_send_signal),
    full(getpid, process::getpid),
    full(getppid, process::getppid),
    full(gettid, process::gettid),
    full(getpgrp, process::getpgrp),
    full(getpgid, process::getpgid),
    full(getsid, process::getsid),
    full(setpgid, process::setpgid),
    full(setsid, process::setsid),
    full(getuid, credentials::getuid),
    full(geteuid, credentials::geteuid),
    full(getgid, credentials::getgid),
    full(getegid, credentials::getegid),
    full(setuid, credentials::setuid),
    full(setgid, credentials::setgid),
    full(setreuid, credentials::setreuid),
    full(setregid, credentials::setregid),
    full(setresuid, credentials::setresuid),
    full(setresgid, credentials::setresgid),
    full(setfsuid, credentials::setfsuid),
    full(setfsgid, credentials::setfsgid),
    full(setgroups, credentials::setgroups),
    full(getresuid, credentials::getresuid),
    full(getresgid, credentials::getresgid),
    full(getgroups, credentials::getgroups),
    full(set_tid_address, process::set_tid_address),
    partial(arch_prctl, process::arch_prctl, "bases of FS and GS; that `cpuid` cannot be made to fault"),
    partial(
        prctl,
        process::prctl,
        "names, parent-death signal, subreaper, dumpable, capabilities, no-new-privileges, seccomp",
    ),
    full(sched_yield, process::sched_yield),
    // Signals.
    full(rt_sigaction, signals::rt_sigaction),
    full(rt_sigprocmask, signals::rt_sigprocmask),
    full(rt_sigpending, signals::rt_sigpending),
    full(rt_sigsuspend, signals::rt_sigsuspend),
    full(rt_sigtimedwait, signals::rt_sigtimedwait),
    full(rt_sigreturn, signals::rt_sigreturn),
    full(rt_sigqueueinfo, signals::rt_sigqueueinfo),
    full(rt_tgsigqueueinfo, signals::rt_tgsigqueueinfo),
    full(sigaltstack, signals::sigaltstack),
    full(kill, signals::kill),
    full(tkill, signals::tkill),
    full(tgkill, signals::tgkill),
    full(pause, signals::pause),
    full(signalfd, signals::signalfd),
    full(signalfd4, signals::signalfd4),
    // Futexes.
    partial(futex, futex::futex, "locks with priority inheritance pass on no priority"),
    full(linux_abi::nr::futex_waitv, futex2::futex_waitv),
    full(linux_abi::nr::futex_wait, futex2::futex_wait),
    full(linux_abi::nr::futex_wake, futex2::futex_wake),
    full(linux_abi::nr::futex_requeue, futex2::futex_requeue),
    full(set_robust_list, futex::set_robust_list),
    full(get_robust_list, futex::get_robust_list),
    full(linux_abi::nr::rseq, rseq::rseq),
    // Time.
    full(clock_gettime, time::clock_gettime),
    full(clock_getres, time::clock_getres),
    partial(clock_settime, time::clock_settime, "the clock is the experiment's: EPERM"),
    partial(settimeofday, time::settimeofday, "the clock is the experiment's: EPERM"),
    full(gettimeofday, time::gettimeofday),
    partial(adjtimex, time::adjtimex, "the clock is the experiment's: it can be read"),
    partial(clock_adjtime, time::clock_adjtime, "the clock is the experiment's: it can be read"),
    full(linux_abi::nr::time, time::time),
    full(nanosleep, time::nanosleep),
    full(clock_nanosleep, time::clock_nanosleep),
    full(alarm, time::alarm),
    full(getitimer, time::getitimer),
    full(setitimer, time::setitimer),
    full(timer_create, time::timer_create),
    full(timer_settime, time::timer_settime),
    full(timer_gettime, time::timer_gettime),
    full(timer_getoverrun, time::timer_getoverrun),
    full(timer_delete, time::timer_delete),
    full(timerfd_create, time::timerfd_create),
    full(timerfd_settime, time::timerfd_settime),
    full(timerfd_gettime, time::timerfd_gettime),
    // Waiting for descriptors.
    full(linux_abi::nr::poll, poll::poll),
    full(ppoll, poll::ppoll),
    full(select, poll::select),
    full(pselect6, poll::pselect6),
    full(epoll_create, poll::epoll_create),
    full(epoll_create1, poll::epoll_create1),
    full(epoll_ctl, poll::epoll_ctl),
    full(epoll_wait, poll::epoll_wait),
    full(epoll_pwait, poll::epoll_pwait),
    full(epoll_pwait2, poll::epoll_pwait2),
    // Sockets.
    partial(
        socket,
        sockets::socket,
        "Unix sockets, TCP, UDP, echo and raw sockets over IPv4 and IPv6, and netlink for interfaces, routes, lists of sockets and messages between programs; no AF_PACKET",
    ),
    full(socketpair, sockets::socketpair),
    full(bind, sockets::bind),
    full(listen, sockets::listen),
    partial(connect, sockets::connect, "an address that no host has answers ENETUNREACH"),
    full(accept, sockets::accept),
    full(accept4, sockets::accept4),
    partial(sendto, sockets::sendto, "no urgent data, no fast open; ENETUNREACH for what is outside the experiment"),
    partial(sendmsg, sockets::sendmsg, "no urgent data, no fast open"),
    partial(sendmmsg, sockets::sendmmsg, "no urgent data, no fast open"),
    partial(recvfrom, sockets::recvfrom, "no urgent data, error queue of datagrams alone"),
    partial(recvmsg, sockets::recvmsg, "no urgent data, error queue of datagrams alone, no SO_TIMESTAMPING"),
    partial(recvmmsg, sockets::recvmmsg, "no urgent data, error queue of datagrams alone, no SO_TIMESTAMPING"),
    full(shutdown, sockets::shutdown),
    full(getsockname, sockets::getsockname),
    full(getpeername, sockets::getpeername),
    partial(setsockopt, sockets::setsockopt, "no eBPF; options about hardware have no effect"),
    partial(getsockopt, sockets::getsockopt, "no eBPF"),
    // System V communication between processes.
    full(shmget, sysv_shm::shmget),
    partial(shmat, sysv_shm::shmat, "a chosen address must lie in the process's arena"),
    full(shmdt, sysv_shm::shmdt),
    full(shmctl, sysv_shm::shmctl),
    full(semget, sysv_sem::semget),
    full(semop, sysv_sem::semop),
    full(semtimedop, sysv_sem::semtimedop),
    full(semctl, sysv_sem::semctl),
    full(msgget, sysv_msg::msgget),
    full(msgsnd, sysv_msg::msgsnd),
    full(msgrcv, sysv_msg::msgrcv),
    full(msgctl, sysv_msg::msgctl),
    // POSIX message queues.
    full(mq_open, mqueue::mq_open),
    full(mq_unlink, mqueue::mq_unlink),
    full(mq_timedsend, mqueue::mq_timedsend),
    full(mq_timedreceive, mqueue::mq_timedreceive),
    full(mq_notify, mqueue::mq_notify),
    full(mq_getsetattr, mqueue::mq_getsetattr),
    // The system.
    full(uname, system::uname),
    full(sysinfo, system::sysinfo),
    full(getrandom, system::getrandom),
    partial(
        prlimit64,
        system::prlimit64,
        "enforced: NOFILE, FSIZE, MEMLOCK, AS, DATA, MSGQUEUE, NPROC (which counts all threads of the host)",
    ),
    full(getrlimit, system::getrlimit),
    full(setrlimit, system::setrlimit),
    partial(
        getrusage,
        system::getrusage,
        "no CPU time but a microsecond for each call; memory as far as mappings tell",
    ),
    partial(times, system::times, "guests take no CPU time: a microsecond for each call"),
    full(getcpu, system::getcpu),
    full(sched_getaffinity, system::sched_getaffinity),
    full(sched_setaffinity, system::sched_setaffinity),
    full(sched_getparam, scheduling::sched_getparam),
    partial(sched_setparam, scheduling::sched_setparam, "checked and kept without effect"),
    full(sched_getscheduler, scheduling::sched_getscheduler),
    partial(sched_setscheduler, scheduling::sched_setscheduler, "checked and kept without effect"),
    full(sched_get_priority_max, scheduling::priority_max),
    full(sched_get_priority_min, scheduling::priority_min),
    full(sched_rr_get_interval, scheduling::rr_interval),
    full(getpriority, system::getpriority),
    partial(setpriority, system::setpriority, "kept without effect"),
    full(membarrier, system::membarrier),
    partial(sethostname, system::set_name, "names are the plan's: EPERM"),
    partial(setdomainname, system::set_name, "names are the plan's: EPERM"),
    partial(personality, system::personality, "kept and shown; flags have no effect, which the log says"),
    full(capget, credentials::capget),
    full(capset, credentials::capset),
    // Changes of files.
    full(inotify_init, inotify::inotify_init),
    full(inotify_init1, inotify::inotify_init1),
    partial(inotify_add_watch, inotify::inotify_add_watch, "execve causes no events"),
    full(inotify_rm_watch, inotify::inotify_rm_watch),
    // Other processes, and what is shared with them.
    full(process_vm_readv, other_process::process_vm_readv),
    full(process_vm_writev, other_process::process_vm_writev),
    partial(process_madvise, other_process::process_madvise, "advice that changes nothing"),
    partial(process_mrelease, other_process::process_mrelease, "memory goes with its process"),
    full(pidfd_getfd, other_process::pidfd_getfd),
    partial(kcmp, other_process::kcmp, "not KCMP_EPOLL_TFD"),
    partial(unshare, other_process::unshare, "no namespaces: EPERM"),
    partial(setns, refused::setns, "there is one namespace of each kind, which every process is in"),
    // More of memory and of scheduling.
    partial(mincore, memory::mincore, "whatever is mapped counts as present"),
    full(mseal, memory::mseal),
    partial(pkey_alloc, refused::pkey_alloc, "the processor has no keys: ENOSPC"),
    partial(pkey_free, refused::pkey_free, "the processor has no keys: EINVAL"),
    partial(pkey_mprotect, refused::pkey_mprotect, "the processor has no keys: only key -1"),
    partial(sched_setattr, scheduling::sched_setattr, "checked and kept without effect"),
    full(sched_getattr, scheduling::sched_getattr),
    partial(ioprio_set, scheduling::ioprio_set, "kept without effect"),
    partial(ioprio_get, scheduling::ioprio_get, "of processes"),
    partial(mbind, memory_policy::mbind, "one node: checked without effect"),
    partial(set_mempolicy, memory_policy::set_mempolicy, "one node: kept without effect"),
    full(get_mempolicy, memory_policy::get_mempolicy),
    partial(migrate_pages, memory_policy::migrate_pages, "one node: no effect"),
    partial(move_pages, memory_policy::move_pages, "one node: no effect"),
    // What a kernel refuses to programs.
    partial(
        io_uring_setup,
        refused::not_permitted,
        "EPERM, as with kernel.io_uring_disabled=2: programs fall back to epoll",
    ),
    partial(io_uring_enter, refused::no_ring, "there are no rings"),
    partial(io_uring_register, refused::no_ring, "there are no rings"),
    partial(
        ptrace,
        refused::not_permitted,
        "EPERM, as with kernel.yama.ptrace_scope=3: guests are debugged from outside",
    ),
    partial(mount, refused::not_permitted, "EPERM: the file tree is fixed"),
    partial(umount2, refused::not_permitted, "EPERM: the file tree is fixed"),
    partial(pivot_root, refused::not_permitted, "EPERM: the file tree is fixed"),
    partial(open_tree, refused::not_permitted, "EPERM: the file tree is fixed"),
    partial(move_mount, refused::not_permitted, "EPERM: the file tree is fixed"),
    partial(fsopen, refused::not_permitted, "EPERM: the file tree is fixed"),
    partial(fsconfig, refused::not_permitted, "EPERM: the file tree is fixed"),
    partial(fsmount, refused::not_permitted, "EPERM: the file tree is fixed"),
    partial(fspick, refused::not_permitted, "EPERM: the file tree is fixed"),
    partial(mount_setattr, refused::not_permitted, "EPERM: the file tree is fixed"),
    partial(swapon, refused::not_permitted, "EPERM"),
    partial(swapoff, refused::not_permitted, "EPERM"),
    partial(reboot, refused::not_permitted, "EPERM"),
    partial(acct, refused::not_permitted, "EPERM"),
    partial(vhangup, refused::not_permitted, "EPERM"),
    partial(quotactl, refused::not_permitted, "EPERM"),
    partial(quotactl_fd, refused::not_permitted, "EPERM"),
    partial(iopl, refused::not_permitted, "EPERM"),
    partial(ioperm, refused::not_permitted, "EPERM"),
    partial(init_module, refused::not_permitted, "EPERM"),
    partial(finit_module, refused::not_permitted, "EPERM"),
    partial(delete_module, refused::not_permitted, "EPERM"),
    partial(kexec_load, refused::not_permitted, "EPERM"),
    partial(kexec_file_load, refused::not_permitted, "EPERM"),
    partial(linux_abi::nr::syslog, refused::not_permitted, "EPERM, as with kernel.dmesg_restrict=1"),
    partial(bpf, refused::not_permitted, "EPERM, as with kernel.unprivileged_bpf_disabled=1"),
    partial(userfaultfd, refused::not_permitted, "EPERM, as with vm.unprivileged_userfaultfd=0"),
    partial(perf_event_open, refused::no_access, "EACCES, as with kernel.perf_event_paranoid=3"),
    partial(fanotify_init, refused::not_permitted, "EPERM"),
    partial(name_to_handle_at, refused::no_handles, "EOPNOTSUPP: no file system gives handles out"),
    partial(open_by_handle_at, refused::not_permitted, "EPERM"),
    missing_with(add_key, refused::absent, "as a kernel without CONFIG_KEYS"),
    missing_with(request_key, refused::absent, "as a kernel without CONFIG_KEYS"),
    missing_with(keyctl, refused::absent, "as a kernel without CONFIG_KEYS"),
    missing_with(modify_ldt, refused::absent, "as a kernel without CONFIG_MODIFY_LDT_SYSCALL"),
    missing_with(memfd_secret, refused::absent, "as a kernel without secretmem.enable"),
    // Known and not simulated.
    partial(
        seccomp,
        seccomp::seccomp,
        "filters without notification and tracing; reads of clocks pass unseen, as with a vDSO",
    ),
    missing(landlock_create_ruleset, "guests are confined from outside"),
];

/// The document about system calls: one table, by number.
pub fn generate_markdown() -> String {
    use std::fmt::Write;
    let mut rows: Vec<(u32, Option<&Entry>)> = nr::ALL.iter().map(|(number, _)| (*number, None)).collect();
    for entry in TABLE {
        if let Some(row) = rows.iter_mut().find(|row| row.0 == entry.number) {
            row.1 = Some(entry);
        }
    }
    let count =
        |wanted: fn(Option<Support>) -> bool| rows.iter().filter(|row| wanted(row.1.map(|e| e.support))).count();
    let full = count(|support| support == Some(Support::Full));
    let partial = count(|support| matches!(support, Some(Support::Partial(_))));
    let mut text = format!(
        "# System calls\n\nGenerated from `crates/simkernel/src/syscalls/table.rs`; do not edit. To regenerate:\n\n    \
         GNOMON_WRITE_DOCS=1 cargo test -p simkernel document\n\nOf {} calls that Linux has on x86-64, {full} are supported in \
         full, {partial} in part. All others answer ENOSYS, which is\nreported once per program.\n\n\
         | number | call | support | remarks |\n| ---: | --- | --- | --- |\n",
        rows.len(),
    );
    for (number, entry) in rows {
        let (support, remark) = match entry.map(|entry| entry.support) {
            Some(Support::Full) => ("full", ""),
            Some(Support::Partial(what)) => ("partial", what),
            Some(Support::Unsupported(why)) => ("no", why),
            None => ("no", ""),
        };
        let name = nr::name(number.into()).unwrap_or_default();
        writeln!(text, "| {number} | `{name}` | {support} | {remark} |").expect("a string takes everything");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_has_one_entry_at_most() {
        let mut numbers: Vec<u32> = TABLE.iter().map(|entry| entry.number).collect();
        numbers.sort_unstable();
        let before = numbers.len();
        numbers.dedup();
        assert_eq!(numbers.len(), before);
        assert!(numbers.iter().all(|number| nr::name((*number).into()).is_some()));
    }

    #[test]
    fn the_document_says_what_the_table_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/system-calls.md");
        let text = generate_markdown();
        if std::env::var_os("GNOMON_WRITE_DOCS").is_some() {
            std::fs::write(path, &text).unwrap();
        }
        let current = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            current == text,
            "docs/system-calls.md is out of date: GNOMON_WRITE_DOCS=1 cargo test -p simkernel document"
        );
    }
}
