//! The one table: what the arguments of each system call are.

use super::decode::Arg::{self, *};
use crate::nr;
use crate::{event, fs, ipc, mm, process, signal, socket, sysinfo, time};

/// What a call returns when it does not fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Returns {
    Number,
    /// File permissions, in octal.
    Mode,
    Address,
    /// As the command says.
    FcntlValue,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) args: &'static [Arg],
    pub(super) returns: Returns,
}

/// For calls that the table does not know: all six registers.
const UNKNOWN: Entry = Entry { args: &[Word, Word, Word, Word, Word, Word], returns: Returns::Number };

static TABLE: [Entry; nr::COUNT] = {
    let mut table = [UNKNOWN; nr::COUNT];
    let mut i = 0;
    while i < CALLS.len() {
        table[CALLS[i].0 as usize] = CALLS[i].1;
        i += 1;
    }
    table
};

pub(super) fn entry(number: u64) -> &'static Entry {
    usize::try_from(number).ok().and_then(|number| TABLE.get(number)).unwrap_or(&UNKNOWN)
}

macro_rules! calls {
    ($($name:ident ( $($arg:expr),* ) $(-> $returns:ident)?;)*) => {
        const CALLS: &[(u32, Entry)] = &[$(
            (nr::$name, Entry { args: &[$($arg),*], returns: calls!(@returns $($returns)?) }),
        )*];
    };
    (@returns) => { Returns::Number };
    (@returns $returns:ident) => { Returns::$returns };
}

const MSG: Arg = Flags(socket::MSG_FLAGS);
const AT: Arg = Flags(fs::AT_FLAGS);
const SPLICE: Arg = Flags(fs::SPLICE_FLAGS);
const RWF: Arg = Flags(fs::RWF_FLAGS);
const PROT: Arg = Flags(mm::PROT_FLAGS);
const CLOCK: Arg = Enum(time::CLOCK_IDS);
const RLIMIT: Arg = Enum(sysinfo::RLIMITS);
const FAMILY: Arg = Enum(socket::FAMILIES);
const LEVEL: Arg = Enum(socket::SOCKET_LEVELS);
const SCHED: Arg = Enum(process::SCHED_POLICIES);

calls! {
    // Files.
    read(Fd, BufferOut, Size);
    write(Fd, BufferIn, Size);
    open(Path, OpenFlags, CreateMode);
    openat(DirFd, Path, OpenFlags, CreateMode);
    openat2(DirFd, Path, OpenHow, Size);
    creat(Path, FileMode);
    close(Fd);
    close_range(Unsigned, Unsigned, Hex);
    stat(Path, StatOut);
    fstat(Fd, StatOut);
    lstat(Path, StatOut);
    newfstatat(DirFd, Path, StatOut, AT);
    statx(DirFd, Path, AT, Flags(fs::STATX_MASK), StatxOut);
    statfs(Path, Pointer);
    fstatfs(Fd, Pointer);
    lseek(Fd, Long, Enum(fs::WHENCE));
    pread64(Fd, BufferOut, Size, Long);
    pwrite64(Fd, BufferIn, Size, Long);
    readv(Fd, VectorOut, Int);
    writev(Fd, VectorIn, Int);
    preadv(Fd, VectorOut, Int, Long, Long);
    pwritev(Fd, VectorIn, Int, Long, Long);
    preadv2(Fd, VectorOut, Int, Long, Long, RWF);
    pwritev2(Fd, VectorIn, Int, Long, Long, RWF);
    access(Path, Flags(fs::ACCESS_MODES));
    faccessat(DirFd, Path, Flags(fs::ACCESS_MODES));
    faccessat2(DirFd, Path, Flags(fs::ACCESS_MODES), AT);
    getdents(Fd, Pointer, Size);
    getdents64(Fd, Pointer, Size);
    getcwd(StringOut, Size);
    chdir(Path);
    fchdir(Fd);
    chroot(Path);
    rename(Path, Path);
    renameat(DirFd, Path, DirFd, Path);
    renameat2(DirFd, Path, DirFd, Path, Flags(fs::RENAME_FLAGS));
    mkdir(Path, FileMode);
    mkdirat(DirFd, Path, FileMode);
    rmdir(Path);
    link(Path, Path);
    linkat(DirFd, Path, DirFd, Path, AT);
    symlink(Path, Path);
    symlinkat(Path, DirFd, Path);
    unlink(Path);
    unlinkat(DirFd, Path, AT);
    readlink(Path, BufferOut, Size);
    readlinkat(DirFd, Path, BufferOut, Size);
    mknod(Path, FileMode, Hex);
    mknodat(DirFd, Path, FileMode, Hex);
    chmod(Path, FileMode);
    fchmod(Fd, FileMode);
    fchmodat(DirFd, Path, FileMode);
    fchmodat2(DirFd, Path, FileMode, AT);
    chown(Path, Int, Int);
    fchown(Fd, Int, Int);
    lchown(Path, Int, Int);
    fchownat(DirFd, Path, Int, Int, AT);
    umask(FileMode) -> Mode;
    truncate(Path, Long);
    ftruncate(Fd, Long);
    fallocate(Fd, Flags(fs::FALLOCATE_FLAGS), Long, Long);
    fadvise64(Fd, Long, Long, Enum(fs::FADVISE));
    readahead(Fd, Long, Size);
    fsync(Fd);
    fdatasync(Fd);
    sync();
    syncfs(Fd);
    sync_file_range(Fd, Long, Long, Hex);
    flock(Fd, Flags(fs::FLOCK_OPERATIONS));
    fcntl(Fd, Enum(fs::FCNTL_COMMANDS), FcntlOperand) -> FcntlValue;
    ioctl(Fd, Ioctl, IoctlValue);
    dup(Fd);
    dup2(Fd, Fd);
    dup3(Fd, Fd, OpenFlags);
    utime(Path, Pointer);
    utimes(Path, Pointer);
    futimesat(DirFd, Path, Pointer);
    utimensat(DirFd, Path, TimespecPair, AT);
    sendfile(Fd, Fd, LongPointer, Size);
    splice(Fd, LongPointer, Fd, LongPointer, Size, SPLICE);
    tee(Fd, Fd, Size, SPLICE);
    vmsplice(Fd, VectorIn, Size, SPLICE);
    copy_file_range(Fd, LongPointer, Fd, LongPointer, Size, Hex);
    memfd_create(Path, Flags(fs::MEMFD_FLAGS));
    getxattr(Path, Path, Pointer, Size);
    lgetxattr(Path, Path, Pointer, Size);
    fgetxattr(Fd, Path, Pointer, Size);
    listxattr(Path, Pointer, Size);
    llistxattr(Path, Pointer, Size);
    flistxattr(Fd, Pointer, Size);
    setxattr(Path, Path, BufferIn, Size, Int);
    fsetxattr(Fd, Path, BufferIn, Size, Int);
    removexattr(Path, Path);
    // System V and POSIX communication between processes.
    shmget(Int, Size, Hex);
    shmat(Int, Pointer, Flags(ipc::SHM_FLAGS)) -> Address;
    shmdt(Pointer);
    shmctl(Int, Int, Pointer);
    semget(Int, Int, Hex);
    semop(Int, Pointer, Size);
    semtimedop(Int, Pointer, Size, Timespec);
    semctl(Int, Int, Int, Word);
    msgget(Int, Hex);
    msgsnd(Int, Pointer, Size, Hex);
    msgrcv(Int, Pointer, Size, Long, Hex);
    msgctl(Int, Int, Pointer);
    mq_open(Path, OpenFlags, CreateMode, Pointer);
    mq_unlink(Path);
    mq_timedsend(Fd, BufferIn, Size, Unsigned, Timespec);
    mq_timedreceive(Fd, BufferOut, Size, IntPointer, Timespec);
    mq_notify(Fd, Pointer);
    mq_getsetattr(Fd, Pointer, Pointer);
    inotify_init();
    inotify_init1(OpenFlags);
    inotify_add_watch(Fd, Path, Flags(fs::INOTIFY_MASK));
    inotify_rm_watch(Fd, Int);
    mount(Path, Path, Path, Hex, Pointer);
    umount2(Path, Hex);

    // Memory.
    mmap(Pointer, Size, PROT, MapFlags, Fd, Hex) -> Address;
    mprotect(Pointer, Size, PROT);
    pkey_mprotect(Pointer, Size, PROT, Int);
    munmap(Pointer, Size);
    mremap(Pointer, Size, Size, Flags(mm::MREMAP_FLAGS), Pointer) -> Address;
    msync(Pointer, Size, Flags(mm::MSYNC_FLAGS));
    mincore(Pointer, Size, Pointer);
    madvise(Pointer, Size, Enum(mm::ADVICE));
    mlock(Pointer, Size);
    mlock2(Pointer, Size, Hex);
    munlock(Pointer, Size);
    mlockall(Flags(mm::MLOCKALL_FLAGS));
    munlockall();
    brk(Pointer) -> Address;
    membarrier(Int, Hex, Int);

    // Waiting.
    poll(PollFds, Unsigned, Int);
    ppoll(PollFds, Unsigned, Timespec, Sigset, Size);
    select(Int, FdSet, FdSet, FdSet, Timeval);
    pselect6(Int, FdSet, FdSet, FdSet, Timespec, Pointer);
    epoll_create(Int);
    epoll_create1(Flags(event::EPOLL_CREATE_FLAGS));
    epoll_ctl(Fd, Enum(event::EPOLL_CTL_OPS), Fd, EpollEventIn);
    epoll_wait(Fd, EpollEventsOut, Int, Int);
    epoll_pwait(Fd, EpollEventsOut, Int, Int, Sigset, Size);
    epoll_pwait2(Fd, EpollEventsOut, Int, Timespec, Sigset, Size);
    eventfd(Unsigned);
    eventfd2(Unsigned, Flags(event::EVENTFD_FLAGS));
    signalfd(Fd, Sigset, Size);
    signalfd4(Fd, Sigset, Size, Flags(event::SIGNALFD_FLAGS));
    timerfd_create(CLOCK, Flags(event::TIMERFD_FLAGS));
    timerfd_settime(Fd, Flags(event::TIMERFD_SETTIME_FLAGS), Itimerspec, ItimerspecOut);
    timerfd_gettime(Fd, ItimerspecOut);
    pipe(FdPairOut);
    pipe2(FdPairOut, OpenFlags);
    futex(Pointer, FutexOp, Unsigned, FutexRest);
    set_robust_list(Pointer, Size);
    get_robust_list(Int, Pointer, Pointer);

    // Sockets.
    socket(FAMILY, SocketType, Protocol);
    socketpair(FAMILY, SocketType, Protocol, FdPairOut);
    connect(Fd, SockaddrIn, Int);
    bind(Fd, SockaddrIn, Int);
    listen(Fd, Int);
    accept(Fd, SockaddrOut, IntPointer);
    accept4(Fd, SockaddrOut, IntPointer, SocketFlags);
    getsockname(Fd, SockaddrOut, IntPointer);
    getpeername(Fd, SockaddrOut, IntPointer);
    sendto(Fd, BufferIn, Size, MSG, SockaddrIn, Int);
    recvfrom(Fd, BufferOut, Size, MSG, SockaddrOut, IntPointer);
    sendmsg(Fd, MessageIn, MSG);
    recvmsg(Fd, MessageOut, MSG);
    sendmmsg(Fd, MessagesIn, Unsigned, MSG);
    recvmmsg(Fd, MessagesOut, Unsigned, MSG, Timespec);
    shutdown(Fd, Enum(socket::SHUTDOWN_HOW));
    setsockopt(Fd, LEVEL, SocketOption, OptionIn, Int);
    getsockopt(Fd, LEVEL, SocketOption, OptionOut, IntPointer);

    // Processes and threads.
    clone(CloneFlags, Pointer, Pointer, Pointer, Pointer);
    clone3(CloneArgs, Size);
    fork();
    vfork();
    execve(Path, StringArray, EnvironmentCount);
    execveat(DirFd, Path, StringArray, EnvironmentCount, AT);
    exit(Int);
    exit_group(Int);
    wait4(Int, WaitStatusOut, Flags(process::WAIT_OPTIONS), Pointer);
    waitid(Enum(process::ID_TYPES), Int, SiginfoOut, Flags(process::WAIT_OPTIONS), Pointer);
    getpid();
    getppid();
    gettid();
    getpgrp();
    getpgid(Int);
    setpgid(Int, Int);
    getsid(Int);
    setsid();
    getuid();
    geteuid();
    getgid();
    getegid();
    setuid(Int);
    setgid(Int);
    setreuid(Int, Int);
    setregid(Int, Int);
    setresuid(Int, Int, Int);
    setresgid(Int, Int, Int);
    getresuid(IntPointer, IntPointer, IntPointer);
    getresgid(IntPointer, IntPointer, IntPointer);
    getgroups(Int, Pointer);
    setgroups(Int, Pointer);
    setfsuid(Int);
    setfsgid(Int);
    capget(Pointer, Pointer);
    capset(Pointer, Pointer);
    prctl(Enum(process::PRCTL), PrctlValue, PrctlRest);
    arch_prctl(Enum(process::ARCH_PRCTL), Pointer);
    seccomp(Enum(process::SECCOMP_OPERATIONS), Hex, Pointer);
    set_tid_address(Pointer);
    rseq(Pointer, Size, Hex, Hex);
    sched_yield();
    sched_getaffinity(Int, Size, AffinityOut);
    sched_setaffinity(Int, Size, AffinityIn);
    sched_getscheduler(Int);
    sched_setscheduler(Int, SCHED, IntPointer);
    sched_getparam(Int, IntPointer);
    sched_setparam(Int, IntPointer);
    sched_get_priority_max(SCHED);
    sched_get_priority_min(SCHED);
    sched_rr_get_interval(Int, TimespecOut);
    getcpu(IntPointer, IntPointer, Pointer);
    getpriority(Enum(process::PRIORITY_WHICH), Int);
    setpriority(Enum(process::PRIORITY_WHICH), Int, Int);
    pidfd_open(Int, OpenFlags);
    pidfd_send_signal(Fd, SignalNumber, Pointer, Hex);
    process_vm_readv(Int, Pointer, Unsigned, Pointer, Unsigned, Hex);

    // Signals.
    rt_sigaction(SignalNumber, SigactionIn, SigactionOut, Size);
    rt_sigprocmask(Enum(signal::SIGPROCMASK_HOW), Sigset, SigsetOut, Size);
    rt_sigpending(SigsetOut, Size);
    rt_sigsuspend(Sigset, Size);
    rt_sigtimedwait(Sigset, SiginfoOut, Timespec, Size);
    rt_sigqueueinfo(Int, SignalNumber, SiginfoIn);
    rt_tgsigqueueinfo(Int, Int, SignalNumber, SiginfoIn);
    rt_sigreturn();
    sigaltstack(StackIn, StackOut);
    kill(Int, SignalNumber);
    tkill(Int, SignalNumber);
    tgkill(Int, Int, SignalNumber);
    pause();
    restart_syscall();

    // Time.
    nanosleep(Timespec, TimespecOut);
    clock_nanosleep(CLOCK, TimerFlags, Timespec, TimespecOut);
    clock_gettime(CLOCK, TimespecOut);
    clock_settime(CLOCK, Timespec);
    clock_getres(CLOCK, TimespecOut);
    gettimeofday(TimevalOut, Pointer);
    time(Pointer);
    times(Pointer);
    alarm(Unsigned);
    getitimer(Enum(time::ITIMERS), ItimervalOut);
    setitimer(Enum(time::ITIMERS), Itimerval, ItimervalOut);
    timer_create(CLOCK, Pointer, IntPointer);
    timer_settime(Int, TimerFlags, Itimerspec, ItimerspecOut);
    timer_gettime(Int, ItimerspecOut);
    timer_getoverrun(Int);
    timer_delete(Int);

    // The system.
    uname(UtsnameOut);
    sysinfo(Pointer);
    getrusage(Enum(sysinfo::RUSAGE_WHO), Pointer);
    getrlimit(RLIMIT, RlimitOut);
    setrlimit(RLIMIT, RlimitIn);
    prlimit64(Int, RLIMIT, RlimitIn, RlimitOut);
    getrandom(BufferOut, Size, Flags(sysinfo::GETRANDOM_FLAGS));
    sethostname(BufferIn, Size);
    setdomainname(BufferIn, Size);
    syslog(Int, Pointer, Int);
    personality(Hex);
    bpf(Int, Pointer, Unsigned);
    io_uring_setup(Unsigned, Pointer);
    userfaultfd(OpenFlags);
    perf_event_open(Pointer, Int, Int, Fd, Hex);
}
