//! Lines as strace writes them, over a small fake memory.

use super::*;
use crate::SockAddr;
use crate::event::{self, EpollEvent, Pollfd};
use crate::fs::{self, Flock, Iovec, Stat};
use crate::signal::{self, KernelSigaction, Siginfo, Signal};
use crate::socket::{self, Cmsghdr, Msghdr};
use crate::time::Timespec;
use crate::{mm, process, sysinfo, time};
use std::cell::RefCell;
use std::net::Ipv4Addr;
use zerocopy::{Immutable, IntoBytes};

/// Memory from 0x1000 on, filled by the tests.
#[derive(Default)]
struct Memory(RefCell<Vec<u8>>);

const BASE: u64 = 0x1000;

impl MemoryReader for Memory {
    fn read(&self, address: u64, buf: &mut [u8]) -> usize {
        let memory = self.0.borrow();
        let Some(offset) = address.checked_sub(BASE).filter(|&offset| offset < memory.len() as u64) else { return 0 };
        let part = &memory[offset as usize..];
        let count = part.len().min(buf.len());
        buf[..count].copy_from_slice(&part[..count]);
        count
    }
}

impl Memory {
    /// Puts bytes and says where.
    fn put(&self, bytes: &[u8]) -> u64 {
        let mut memory = self.0.borrow_mut();
        let address = BASE + memory.len() as u64;
        memory.extend_from_slice(bytes);
        let padded = memory.len().next_multiple_of(8);
        memory.resize(padded, 0);
        address
    }

    fn value<T: IntoBytes + Immutable + ?Sized>(&self, value: &T) -> u64 {
        self.put(value.as_bytes())
    }

    fn string(&self, text: &str) -> u64 {
        self.put(&[text.as_bytes(), b"\0"].concat())
    }

    fn show(&self, number: u32, args: &[u64], result: u64, mode: Mode) -> String {
        let mut all = [0xdead_beef_u64; 6];
        all[..args.len()].copy_from_slice(args);
        let mut out = String::new();
        write_call(&mut out, Call { number: number.into(), args: &all, result: Some(result) }, mode, self);
        out
    }

    fn standard(&self, number: u32, args: &[u64], result: u64) -> String {
        self.show(number, args, result, Mode::Standard)
    }
}

const FDCWD: u64 = fs::AT_FDCWD as u32 as u64;

#[test]
fn calls_without_arguments_and_unknown_calls() {
    let memory = Memory::default();
    assert_eq!(memory.standard(nr::getpid, &[], 1000), "getpid() = 1000");
    let unknown = memory.standard(9999, &[1, 2, 3, 4, 5, 0], Errno::ENOSYS.to_return());
    assert_eq!(unknown, "syscall_0x270f(0x1, 0x2, 0x3, 0x4, 0x5, 0) = -1 ENOSYS (Function not implemented)");
}

#[test]
fn files_are_opened_with_names_and_flags() {
    let memory = Memory::default();
    let path = memory.string("/etc/hosts");
    let flags = u64::from(fs::O_CLOEXEC);
    assert_eq!(
        memory.standard(nr::openat, &[FDCWD, path, flags], 3),
        "openat(AT_FDCWD, \"/etc/hosts\", O_RDONLY|O_CLOEXEC) = 3"
    );
    let flags = u64::from(fs::O_WRONLY | fs::O_CREAT | fs::O_TRUNC | 1 << 30);
    assert_eq!(
        memory.standard(nr::open, &[path, flags, 0o644], Errno::EACCES.to_return()),
        "open(\"/etc/hosts\", O_WRONLY|O_CREAT|O_TRUNC|0x40000000, 0644) = -1 EACCES (Permission denied)"
    );
    assert_eq!(
        memory.standard(nr::openat, &[5, 0, 0], Errno::EFAULT.to_return()),
        "openat(5, NULL, O_RDONLY) = -1 EFAULT (Bad address)"
    );
    let (sync, tmp) = (u64::from(fs::O_SYNC | fs::O_RDWR), u64::from(fs::O_TMPFILE | fs::O_RDWR));
    assert_eq!(memory.standard(nr::open, &[path, sync], 3), "open(\"/etc/hosts\", O_RDWR|O_SYNC) = 3");
    assert_eq!(memory.standard(nr::open, &[path, tmp, 0o600], 3), "open(\"/etc/hosts\", O_RDWR|O_TMPFILE, 0600) = 3");
}

#[test]
fn buffers_show_what_was_moved_and_are_cut() {
    let memory = Memory::default();
    let text = memory.put(b"127.0.0.1 localhost\n127.0.1.1 debian\n# more than fits");
    assert_eq!(
        memory.standard(nr::read, &[3, text, 4096], 52),
        "read(3, \"127.0.0.1 localhost\\n127.0.1.1 de\"..., 4096) = 52"
    );
    assert_eq!(memory.standard(nr::read, &[3, text, 4096], 9), "read(3, \"127.0.0.1\", 4096) = 9");
    assert_eq!(memory.standard(nr::read, &[3, text, 4096], 0), "read(3, \"\", 4096) = 0");
    assert_eq!(
        memory.standard(nr::read, &[3, text, 4096], Errno::EAGAIN.to_return()),
        "read(3, 0x1000, 4096) = -1 EAGAIN (Resource temporarily unavailable)"
    );
    let odd = memory.put(b"\0\x011\"\\\xff");
    assert_eq!(memory.standard(nr::write, &[1, odd, 6], 6), "write(1, \"\\0\\0011\\\"\\\\\\377\", 6) = 6");
    assert_eq!(memory.standard(nr::write, &[1, 0x10, 6], 6), "write(1, 0x10, 6) = 6");
}

#[test]
fn vectors_show_their_parts() {
    let memory = Memory::default();
    let (a, b) = (memory.put(b"hello "), memory.put(b"world"));
    let vectors = memory.value(&[Iovec { iov_base: a, iov_len: 6 }, Iovec { iov_base: b, iov_len: 5 }]);
    assert_eq!(
        memory.standard(nr::writev, &[1, vectors, 2], 11),
        "writev(1, [{iov_base=\"hello \", iov_len=6}, {iov_base=\"world\", iov_len=5}], 2) = 11"
    );
    assert_eq!(
        memory.standard(nr::readv, &[1, vectors, 2], 8),
        "readv(1, [{iov_base=\"hello \", iov_len=6}, {iov_base=\"wo\", iov_len=5}], 2) = 8"
    );
}

#[test]
fn addresses_are_decoded() {
    let memory = Memory::default();
    let addr = memory.put(&SockAddr::from((Ipv4Addr::new(11, 0, 0, 2), 80)).to_bytes());
    assert_eq!(
        memory.standard(nr::connect, &[5, addr, 16], Errno::EINPROGRESS.to_return()),
        "connect(5, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr(\"11.0.0.2\")}, 16) = -1 EINPROGRESS \
         (Operation now in progress)"
    );
    let length = memory.value(&16i32);
    assert_eq!(
        memory.standard(nr::accept4, &[5, addr, length, socket::SOCK_NONBLOCK as u64], 6),
        "accept4(5, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr(\"11.0.0.2\")}, [16], SOCK_NONBLOCK) = 6"
    );
    assert_eq!(memory.standard(nr::accept, &[5, 0, 0], 6), "accept(5, NULL, NULL) = 6");
    let unix = memory.put(b"\x01\0/run/x\0");
    assert_eq!(memory.standard(nr::bind, &[5, unix, 9], 0), "bind(5, {sa_family=AF_UNIX, sun_path=\"/run/x\"}, 9) = 0");
    let v6 = memory.put(&SockAddr::from((std::net::Ipv6Addr::LOCALHOST, 443)).to_bytes());
    assert_eq!(
        memory.standard(nr::bind, &[5, v6, 28], 0),
        "bind(5, {sa_family=AF_INET6, sin6_port=htons(443), sin6_flowinfo=htonl(0), inet_pton(AF_INET6, \"::1\", \
         &sin6_addr), sin6_scope_id=0}, 28) = 0"
    );
}

#[test]
fn sockets_and_their_options_are_named() {
    let memory = Memory::default();
    let kind = (socket::SOCK_STREAM | socket::SOCK_CLOEXEC | socket::SOCK_NONBLOCK) as u64;
    assert_eq!(
        memory.standard(nr::socket, &[2, kind, 6], 3),
        "socket(AF_INET, SOCK_STREAM|SOCK_NONBLOCK|SOCK_CLOEXEC, IPPROTO_TCP) = 3"
    );
    let one = memory.value(&1i32);
    assert_eq!(
        memory.standard(nr::setsockopt, &[3, 6, socket::TCP_NODELAY as u64, one, 4], 0),
        "setsockopt(3, SOL_TCP, TCP_NODELAY, [1], 4) = 0"
    );
    let four = memory.value(&4i32);
    assert_eq!(
        memory.standard(nr::getsockopt, &[3, 1, socket::SO_ERROR as u64, one, four], 0),
        "getsockopt(3, SOL_SOCKET, SO_ERROR, [EPERM], [4]) = 0"
    );
    let refused = memory.value(&111i32);
    assert_eq!(
        memory.standard(nr::getsockopt, &[3, 1, socket::SO_ERROR as u64, refused, four], 0),
        "getsockopt(3, SOL_SOCKET, SO_ERROR, [ECONNREFUSED], [4]) = 0"
    );
    let linger = memory.value(&socket::Linger { l_onoff: 1, l_linger: 5 });
    assert_eq!(
        memory.standard(nr::setsockopt, &[3, 1, socket::SO_LINGER as u64, linger, 8], 0),
        "setsockopt(3, SOL_SOCKET, SO_LINGER, {l_onoff=1, l_linger=5}, 8) = 0"
    );
}

#[test]
fn messages_show_addresses_vectors_and_control_data() {
    let memory = Memory::default();
    let data = memory.put(b"ping");
    let vector = memory.value(&Iovec { iov_base: data, iov_len: 4 });
    let header = Cmsghdr { cmsg_len: 24, cmsg_level: socket::SOL_SOCKET, cmsg_type: socket::SCM_RIGHTS };
    let control = memory.put(&[header.as_bytes(), [7i32, 9].as_bytes()].concat());
    let message = memory.value(&Msghdr {
        msg_iov: vector,
        msg_iovlen: 1,
        msg_control: control,
        msg_controllen: 24,
        ..Msghdr::default()
    });
    assert_eq!(
        memory.standard(nr::sendmsg, &[3, message, u64::from(socket::MSG_NOSIGNAL)], 4),
        "sendmsg(3, {msg_name=NULL, msg_namelen=0, msg_iov=[{iov_base=\"ping\", iov_len=4}], msg_iovlen=1, \
         msg_control=[{cmsg_len=24, cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS, cmsg_data=[7, 9]}], msg_controllen=24, \
         msg_flags=0}, MSG_NOSIGNAL) = 4"
    );
}

#[test]
fn waiting_shows_what_became_ready() {
    let memory = Memory::default();
    let fds = [
        Pollfd { fd: 3, events: event::POLLIN, revents: event::POLLIN | event::POLLHUP },
        Pollfd { fd: -1, events: 0, revents: 0 },
    ];
    let fds = memory.value(&fds);
    assert_eq!(
        memory.standard(nr::poll, &[fds, 2, -1i64 as u64], 1),
        "poll([{fd=3, events=POLLIN}, {fd=-1}], 2, -1) = 1 ([{fd=3, revents=POLLIN|POLLHUP}])"
    );
    assert_eq!(memory.standard(nr::poll, &[fds, 1, 100], 0), "poll([{fd=3, events=POLLIN}], 1, 100) = 0 (Timeout)");
    let set = memory.value(&[0b1010u64]);
    assert_eq!(memory.standard(nr::select, &[4, set, 0, 0, 0], 2), "select(4, [1 3], NULL, NULL, NULL) = 2");
    let events = memory.value(&EpollEvent { events: event::EPOLLIN | event::EPOLLET, data: 7 });
    assert_eq!(
        memory.standard(nr::epoll_ctl, &[4, 1, 5, events], 0),
        "epoll_ctl(4, EPOLL_CTL_ADD, 5, {events=EPOLLIN|EPOLLET, data=0x7}) = 0"
    );
    assert_eq!(
        memory.standard(nr::epoll_wait, &[4, events, 8, 0], 1),
        "epoll_wait(4, [{events=EPOLLIN|EPOLLET, data=0x7}], 8, 0) = 1"
    );
    assert_eq!(memory.standard(nr::epoll_wait, &[4, events, 8, 0], 0), "epoll_wait(4, [], 8, 0) = 0");
}

#[test]
fn memory_is_shown_with_and_without_addresses() {
    let memory = Memory::default();
    let prot = u64::from(mm::PROT_READ | mm::PROT_WRITE);
    let flags = u64::from(mm::MAP_PRIVATE | mm::MAP_ANONYMOUS);
    let args = [0, 8192, prot, flags, u64::from(u32::MAX), 0];
    assert_eq!(
        memory.standard(nr::mmap, &args, 0x7f00_0000_1000),
        "mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f0000001000"
    );
    assert_eq!(
        memory.show(nr::mmap, &args, 0x7f00_0000_1000, Mode::Deterministic),
        "mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = <pointer>"
    );
    assert_eq!(memory.standard(nr::mprotect, &[0x5000, 4096, 0], 0), "mprotect(0x5000, 4096, PROT_NONE) = 0");
    assert_eq!(memory.show(nr::munmap, &[0x5000, 4096], 0, Mode::Deterministic), "munmap(<pointer>, 4096) = 0");
}

/// Two runs whose memory lies elsewhere print the same.
#[test]
fn deterministic_lines_do_not_depend_on_addresses() {
    let run = |shift: usize| {
        let memory = Memory::default();
        memory.put(&vec![0; shift]);
        let mut lines = String::new();
        let action = KernelSigaction {
            handler: 0x40_0000 + shift as u64,
            flags: signal::SA_RESTORER | signal::SA_SIGINFO,
            restorer: 0x50_0000 + shift as u64,
            mask: Signal::SIGINT.mask(),
        };
        let action = memory.value(&action);
        let event = memory.value(&EpollEvent { events: 1, data: 0x7fff_0000_0000 + shift as u64 });
        let path = memory.string("x");
        let argv = memory.value(&[path, 0]);
        let time = memory.value(&Timespec { tv_sec: 1, tv_nsec: 2 });
        let calls: [(u32, &[u64], u64); 8] = [
            (nr::rt_sigaction, &[2, action, 0, 8], 0),
            (nr::epoll_ctl, &[4, 1, 5, event], 0),
            (nr::execve, &[path, argv, argv], 0),
            (nr::brk, &[0x60_0000 + shift as u64], 0x60_0000 + shift as u64),
            (nr::futex, &[event, 128, 1, time, 0, 0], Errno::ETIMEDOUT.to_return()),
            (nr::futex, &[event, 129, 1, time, event, 0], 0),
            (nr::clone, &[0x11, event, event, event, event], 1001),
            (nr::arch_prctl, &[0x1002, event], 0),
        ];
        for (number, args, result) in calls {
            lines += &memory.show(number, args, result, Mode::Deterministic);
            lines.push('\n');
        }
        lines
    };
    let lines = run(0);
    assert_eq!(lines, run(4096));
    assert!(!lines.contains("0x"), "no address at all: {lines}");
    assert!(lines.contains("futex(<pointer>, FUTEX_WAKE_PRIVATE, 1) = 0"));
    let action = "{sa_handler=<pointer>, sa_mask=[INT], sa_flags=SA_SIGINFO|SA_RESTORER, sa_restorer=<pointer>}";
    assert!(lines.contains(&format!("rt_sigaction(SIGINT, {action}, NULL, 8) = 0")));
    assert!(lines.contains("execve(\"x\", [\"x\"], <pointer> /* 1 var */) = 0"));
    assert!(lines.contains("clone(SIGCHLD, <pointer>, <pointer>, <pointer>, <pointer>) = 1001"));
}

#[test]
fn futexes_clones_and_waits_are_decoded() {
    let memory = Memory::default();
    let time = memory.value(&Timespec { tv_sec: 1, tv_nsec: 2 });
    assert_eq!(
        memory.standard(nr::futex, &[0x5000, 128, 7, time, 0, 0], Errno::ETIMEDOUT.to_return()),
        "futex(0x5000, FUTEX_WAIT_PRIVATE, 7, {tv_sec=1, tv_nsec=2}) = -1 ETIMEDOUT (Connection timed out)"
    );
    assert_eq!(
        memory.standard(nr::futex, &[0x5000, 128 | 256 | 9, 0, 0, 0x77, u64::from(u32::MAX)], 0),
        "futex(0x5000, FUTEX_WAIT_BITSET_PRIVATE|FUTEX_CLOCK_REALTIME, 0, NULL, FUTEX_BITSET_MATCH_ANY) = 0"
    );
    assert_eq!(
        memory.standard(nr::futex, &[0x5000, 128 | 4, 1, 5, 0x6000, 7], 2),
        "futex(0x5000, FUTEX_CMP_REQUEUE_PRIVATE, 1, 5, 0x6000, 7) = 2"
    );
    let name = memory.string("worker");
    assert_eq!(
        memory.standard(nr::prctl, &[process::PR_SET_NAME as u64, name], 0),
        "prctl(PR_SET_NAME, \"worker\") = 0"
    );
    let flags = process::CLONE_VM | process::CLONE_VFORK | Signal::SIGCHLD.raw() as u64;
    assert_eq!(
        memory.standard(nr::clone, &[flags, 0x5000, 0, 0, 0], 1001),
        "clone(CLONE_VM|CLONE_VFORK|SIGCHLD, 0x5000, NULL, NULL, NULL) = 1001"
    );
    let status = memory.value(&process::wait_status_exited(3));
    assert_eq!(
        memory.standard(nr::wait4, &[u64::MAX, status, 0, 0], 1001),
        "wait4(-1, [{WIFEXITED(s) && WEXITSTATUS(s) == 3}], 0, NULL) = 1001"
    );
    let status = memory.value(&process::wait_status_signaled(11, true));
    assert_eq!(
        memory.standard(nr::wait4, &[1001, status, u64::from(process::WNOHANG), 0], 1001),
        "wait4(1001, [{WIFSIGNALED(s) && WTERMSIG(s) == SIGSEGV && WCOREDUMP(s)}], WNOHANG, NULL) = 1001"
    );
}

#[test]
fn times_limits_and_files_are_decoded() {
    let memory = Memory::default();
    let now = memory.value(&Timespec { tv_sec: 946_684_800, tv_nsec: 5 });
    assert_eq!(
        memory.standard(nr::clock_gettime, &[time::CLOCK_REALTIME as u64, now], 0),
        "clock_gettime(CLOCK_REALTIME, {tv_sec=946684800, tv_nsec=5}) = 0"
    );
    let limit = memory.value(&sysinfo::Rlimit { rlim_cur: 8 << 20, rlim_max: u64::MAX });
    assert_eq!(
        memory.standard(nr::prlimit64, &[0, 3, 0, limit], 0),
        "prlimit64(0, RLIMIT_STACK, NULL, {rlim_cur=8192*1024, rlim_max=RLIM64_INFINITY}) = 0"
    );
    let stat = memory.value(&Stat { st_mode: fs::S_IFREG | 0o644, st_size: 220, ..Stat::default() });
    assert_eq!(memory.standard(nr::fstat, &[3, stat], 0), "fstat(3, {st_mode=S_IFREG|0644, st_size=220, ...}) = 0");
    let pair = memory.value(&[3i32, 4]);
    let pipe_flags = u64::from(fs::O_CLOEXEC);
    assert_eq!(memory.standard(nr::pipe2, &[pair, pipe_flags], 0), "pipe2([3, 4], O_RDONLY|O_CLOEXEC) = 0");
}

#[test]
fn fcntl_and_ioctl_depend_on_their_command() {
    let memory = Memory::default();
    let flags = u64::from(fs::O_RDWR | fs::O_NONBLOCK);
    assert_eq!(
        memory.standard(nr::fcntl, &[3, fs::F_GETFL as u64, 0], flags),
        "fcntl(3, F_GETFL) = 0x802 (flags O_RDWR|O_NONBLOCK)"
    );
    assert_eq!(memory.standard(nr::fcntl, &[3, fs::F_SETFD as u64, 1], 0), "fcntl(3, F_SETFD, FD_CLOEXEC) = 0");
    let lock = memory.value(&Flock { l_type: 1, l_len: 10, ..Flock::default() });
    assert_eq!(
        memory.standard(nr::fcntl, &[3, fs::F_SETLK as u64, lock], 0),
        "fcntl(3, F_SETLK, {l_type=F_WRLCK, l_whence=SEEK_SET, l_start=0, l_len=10}) = 0"
    );
    let count = memory.value(&42i32);
    assert_eq!(memory.standard(nr::ioctl, &[3, 0x541b, count], 0), "ioctl(3, FIONREAD, [42]) = 0");
    assert_eq!(
        memory.standard(nr::ioctl, &[1, 0x5401, 0x5000], Errno::ENOTTY.to_return()),
        "ioctl(1, TCGETS, 0x5000) = -1 ENOTTY (Inappropriate ioctl for device)"
    );
}

#[test]
fn lines_carry_time_and_thread_and_signals_stand_between() {
    let memory = Memory::default();
    let mut out = String::new();
    let args = [0; 6];
    let call = Call { number: u64::from(nr::exit_group), args: &args, result: None };
    let time = SimTime::from_nanos(1_000_000_002);
    write_line(&mut out, time, 1000, call, Mode::Standard, &memory);
    write_signal_line(&mut out, time, 1000, &Siginfo::child(signal::CLD_EXITED, 1001, 0, 3, 0, 0), Mode::Standard);
    let fault = Siginfo::fault(Signal::SIGSEGV, signal::SEGV_MAPERR, 0x10);
    write_signal_line(&mut out, time, 1000, &fault, Mode::Deterministic);
    let restart = Call { result: Some(Errno::ERESTARTSYS.to_return()), number: u64::from(nr::pause), ..call };
    write_line(&mut out, time, 1000, restart, Mode::Standard, &memory);
    assert_eq!(
        out,
        "00:00:01.000000002 [tid 1000] exit_group(0) = ?\n\
         00:00:01.000000002 [tid 1000] --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=1001, si_uid=0, \
         si_status=3} ---\n\
         00:00:01.000000002 [tid 1000] --- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=<pointer>} ---\n\
         00:00:01.000000002 [tid 1000] pause() = ? ERESTARTSYS (To be restarted if SA_RESTART is set)\n"
    );
}

/// Whatever a guest passes, the decoder prints something and does not panic.
#[test]
fn wild_arguments_are_survived() {
    let memory = Memory::default();
    memory.put(&(0..4096u32).map(|i| (i * 31 % 251) as u8).collect::<Vec<u8>>());
    let words = [0, 1, 8, BASE, BASE + 8, BASE + 4093, u64::MAX, u64::from(u32::MAX), 1 << 63, i64::MAX as u64];
    let results = [Some(0), Some(7), Some(u64::MAX), Some(1 << 40), None];
    let mut out = String::new();
    for number in 0..nr::COUNT as u64 {
        for (i, result) in (0..60).zip(results.iter().cycle()) {
            let args = std::array::from_fn(|arg| words[(i * 7 + arg * 3 + number as usize) % words.len()]);
            for mode in [Mode::Standard, Mode::Deterministic] {
                out.clear();
                write_call(&mut out, Call { number, args: &args, result: *result }, mode, &memory);
                assert!(out.contains(") = "));
            }
        }
    }
}
