//! Prints what pointers lead to: addresses, times, sets, messages, and the other structures.

use super::decode::{Arg, Decoder, SHOWN_ELEMENTS};
use super::{Call, MemoryReader, Mode};
use crate::event::{EPOLL_EVENTS, EpollEvent, POLL_EVENTS, Pollfd};
use crate::fs::{FD_CLOEXEC, FILE_TYPES, Flock, Iovec, LOCK_TYPES, OpenHow, S_IFMT, Stat, Statx, WHENCE};
use crate::process::{CLONE_FLAGS, CloneArgs};
use crate::signal::{KernelSigaction, SA_FLAGS, SS_FLAGS, Siginfo, StackT};
use crate::socket::{Cmsghdr, Linger, MSG_FLAGS, Mmsghdr, Msghdr, SCM_TYPES};
use crate::sysinfo::{RLIM_INFINITY, Rlimit, Utsname};
use crate::time::{Itimerspec, Itimerval, Timespec, Timeval, UTIME_NOW, UTIME_OMIT};
use crate::{Errno, Names, Signal, SockAddr, UnixName, fs, ioctl, name_of, signal, socket};
use std::fmt::{self, Write};

impl Decoder<'_> {
    /// Argument `i`, of a kind that points to something.
    pub(super) fn structure(&mut self, kind: Arg, i: usize, value: u64) {
        let next = self.call.args.get(i + 1).copied().unwrap_or(0);
        match kind {
            Arg::IntPointer => self.with_value(value, |d, n: i32| d.put(format_args!("[{n}]"))),
            Arg::LongPointer => self.with_value(value, |d, n: i64| d.put(format_args!("[{n}]"))),
            Arg::FdPairOut => {
                self.output(value, |d| d.with_value(value, |d, [a, b]: [i32; 2]| d.put(format_args!("[{a}, {b}]"))));
            }
            Arg::VectorIn => self.vectors(value, next, u64::MAX),
            Arg::VectorOut => self.output(value, |d| d.vectors(value, next, d.success().unwrap_or(0))),
            Arg::SockaddrIn => self.sockaddr(value, next as u32),
            Arg::SockaddrOut => self.sockaddr_out(value, next),
            Arg::OptionIn => self.option_value(value, next as u32),
            Arg::OptionOut => self.output(value, |d| d.option_value(value, d.value(next).unwrap_or(0))),
            Arg::MessageIn => self.with_value(value, |d, m| d.message(&m, u64::MAX)),
            Arg::MessageOut => {
                self.output(value, |d| d.with_value(value, |d, m| d.message(&m, d.success().unwrap_or(0))));
            }
            Arg::MessagesIn => self.messages(value, next, false),
            Arg::MessagesOut => self.output(value, |d| d.messages(value, d.success().unwrap_or(0), true)),
            Arg::PollFds => self.poll_fds(value, next as u32),
            Arg::FdSet => self.fd_set(value),
            Arg::EpollEventIn => self.with_value(value, |d, event| d.epoll_event(&event)),
            Arg::EpollEventsOut => self.output(value, |d| d.epoll_events(value, d.success().unwrap_or(0))),
            Arg::IoctlValue => self.ioctl_arg(self.call.args[1] as u32, value),
            Arg::FcntlOperand => self.fcntl_arg(self.call.args[1] as i32, value),
            Arg::AffinityIn => self.affinity(value, self.call.args[1]),
            Arg::AffinityOut => self.output(value, |d| d.affinity(value, d.success().unwrap_or(0))),
            _ => self.time_or_signal(kind, value),
        }
    }

    fn time_or_signal(&mut self, kind: Arg, value: u64) {
        match kind {
            Arg::Timespec => self.timespec(value),
            Arg::TimespecOut => self.output(value, |d| d.timespec(value)),
            Arg::TimespecPair => self.with_value(value, |d, [a, b]: [Timespec; 2]| d.timespec_pair(a, b)),
            Arg::Timeval => self.with_value(value, |d, t: Timeval| d.put(format_args!("{}", Show(&t)))),
            Arg::TimevalOut => {
                self.output(value, |d| d.with_value(value, |d, t: Timeval| d.put(format_args!("{}", Show(&t)))));
            }
            Arg::Itimerspec => self.itimerspec(value),
            Arg::ItimerspecOut => self.output(value, |d| d.itimerspec(value)),
            Arg::Itimerval => self.itimerval(value),
            Arg::ItimervalOut => self.output(value, |d| d.itimerval(value)),
            Arg::Sigset => self.with_value(value, |d, set| d.put(format_args!("{}", Sigset(set)))),
            Arg::SigsetOut => {
                self.output(value, |d| d.with_value(value, |d, set| d.put(format_args!("{}", Sigset(set)))));
            }
            Arg::SigactionIn => self.with_value(value, |d, action| d.sigaction(&action)),
            Arg::SigactionOut => self.output(value, |d| d.with_value(value, |d, action| d.sigaction(&action))),
            Arg::SiginfoIn => self.with_value(value, |d, info| write_siginfo_body(d.out, &info, d.mode)),
            Arg::SiginfoOut => {
                self.output(value, |d| d.with_value(value, |d, info| write_siginfo_body(d.out, &info, d.mode)));
            }
            Arg::StackIn => self.with_value(value, |d, stack| d.stack(&stack)),
            Arg::StackOut => self.output(value, |d| d.with_value(value, |d, stack| d.stack(&stack))),
            _ => self.system_structure(kind, value),
        }
    }

    fn system_structure(&mut self, kind: Arg, value: u64) {
        match kind {
            Arg::StatOut => self.output(value, |d| d.with_value(value, |d, stat| d.stat(&stat))),
            Arg::StatxOut => self.output(value, |d| d.with_value(value, |d, statx| d.statx(&statx))),
            Arg::OpenHow => self.with_value(value, |d, how: OpenHow| {
                d.out.push_str("{flags=");
                d.open_flags(how.flags as u32);
                d.put(format_args!(", mode=0{:03o}, resolve={:#x}}}", how.mode, how.resolve));
            }),
            Arg::CloneArgs => self.with_value(value, |d, args| d.clone_args(&args)),
            Arg::WaitStatusOut => {
                self.output(value, |d| d.with_value(value, |d, status| d.put(format_args!("{}", WaitStatus(status)))));
            }
            Arg::RlimitIn => self.with_value(value, |d, limit: Rlimit| d.put(format_args!("{}", Show(&limit)))),
            Arg::RlimitOut => {
                self.output(value, |d| {
                    d.with_value(value, |d, limit: Rlimit| d.put(format_args!("{}", Show(&limit))));
                });
            }
            Arg::UtsnameOut => self.output(value, |d| d.with_value(value, |d, names| d.utsname(&names))),
            other => unreachable!("{other:?} is printed elsewhere"),
        }
    }

    // Addresses and messages.

    fn sockaddr(&mut self, address: u64, length: u32) {
        let length = length.min(128) as usize;
        match SockAddr::parse(&self.bytes(address, length)) {
            Ok(addr) if address != 0 => self.put(format_args!("{}", Show(&addr))),
            _ => self.pointer(address),
        }
    }

    fn sockaddr_out(&mut self, address: u64, length_address: u64) {
        match (self.success(), self.value::<u32>(length_address)) {
            (Some(_), Some(length)) => self.sockaddr(address, length),
            _ => self.pointer(address),
        }
    }

    fn vectors(&mut self, address: u64, count: u64, mut bytes: u64) {
        let shown = count.min(SHOWN_ELEMENTS as u64);
        if address == 0 || (shown > 0 && self.value::<Iovec>(address).is_none()) {
            self.pointer(address);
            return;
        }
        self.out.push('[');
        for i in 0..shown {
            self.out.push_str(if i > 0 { ", " } else { "" });
            let Some(vector) = self.value::<Iovec>(address + 16 * i) else { break };
            self.out.push_str("{iov_base=");
            let part = vector.iov_len.min(bytes);
            self.buffer(vector.iov_base, part as usize);
            bytes -= part;
            self.put(format_args!(", iov_len={}}}", vector.iov_len));
        }
        self.out.push_str(if count > shown { ", ...]" } else { "]" });
    }

    /// `bytes` is how much of the vectors is filled.
    fn message(&mut self, message: &Msghdr, bytes: u64) {
        self.out.push_str("{msg_name=");
        self.sockaddr(message.msg_name, message.msg_namelen as u32);
        self.put(format_args!(", msg_namelen={}, msg_iov=", message.msg_namelen));
        self.vectors(message.msg_iov, message.msg_iovlen, bytes);
        self.put(format_args!(", msg_iovlen={}, ", message.msg_iovlen));
        if message.msg_control != 0 && message.msg_controllen > 0 {
            self.out.push_str("msg_control=");
            self.control(message.msg_control, message.msg_controllen);
            self.out.push_str(", ");
        }
        self.put(format_args!("msg_controllen={}, msg_flags=", message.msg_controllen));
        self.flags(MSG_FLAGS, u64::from(message.msg_flags));
        self.out.push('}');
    }

    fn control(&mut self, address: u64, length: u64) {
        let (mut at, mut shown) = (0, 0);
        self.out.push('[');
        while let Some(header) = self.value::<Cmsghdr>(address + at) {
            if header.cmsg_len < 16 || header.cmsg_len > length - at || shown == SHOWN_ELEMENTS {
                break;
            }
            self.out.push_str(if shown > 0 { ", " } else { "" });
            self.put(format_args!("{{cmsg_len={}, cmsg_level=", header.cmsg_len));
            self.constant(socket::SOCKET_LEVELS, header.cmsg_level);
            self.out.push_str(", cmsg_type=");
            self.control_data(&header, address + at + 16);
            self.out.push('}');
            shown += 1;
            at += header.cmsg_len.next_multiple_of(8);
            if at + 16 > length {
                break;
            }
        }
        self.out.push(']');
    }

    fn control_data(&mut self, header: &Cmsghdr, address: u64) {
        let names = match header.cmsg_level {
            socket::SOL_SOCKET => SCM_TYPES,
            socket::SOL_IP => socket::IP_OPTIONS,
            socket::SOL_IPV6 => socket::IPV6_OPTIONS,
            _ => &[],
        };
        self.constant(names, header.cmsg_type);
        let length = header.cmsg_len - 16;
        if header.cmsg_level == socket::SOL_SOCKET && header.cmsg_type == socket::SCM_RIGHTS {
            let fds = self.bytes(address, length.min(4 * 253) as usize);
            let fds: Vec<i32> =
                fds.chunks_exact(4).map(|fd| i32::from_le_bytes([fd[0], fd[1], fd[2], fd[3]])).collect();
            self.put(format_args!(", cmsg_data={fds:?}"));
        } else if length > 0 {
            self.out.push_str(", cmsg_data=");
            self.buffer(address, length as usize);
        }
    }

    fn messages(&mut self, address: u64, count: u64, received: bool) {
        let shown = count.min(SHOWN_ELEMENTS as u64);
        if address == 0 {
            self.pointer(address);
            return;
        }
        self.out.push('[');
        for i in 0..shown {
            self.out.push_str(if i > 0 { ", " } else { "" });
            let Some(message) = self.value::<Mmsghdr>(address + 64 * i) else { break };
            self.out.push_str("{msg_hdr=");
            self.message(&message.msg_hdr, if received { u64::from(message.msg_len) } else { u64::MAX });
            if self.success().is_some_and(|done| i < done) {
                self.put(format_args!(", msg_len={}", message.msg_len));
            }
            self.out.push('}');
        }
        self.out.push_str(if count > shown { ", ...]" } else { "]" });
    }

    fn option_value(&mut self, address: u64, length: u32) {
        let (level, option) = (self.call.args[1] as i32, self.call.args[2] as i32);
        match (level, option, length) {
            (socket::SOL_SOCKET, socket::SO_LINGER, 8..) => self.with_value(address, |d, linger: Linger| {
                d.put(format_args!("{{l_onoff={}, l_linger={}}}", linger.l_onoff, linger.l_linger));
            }),
            (socket::SOL_SOCKET, socket::SO_RCVTIMEO | socket::SO_SNDTIMEO, 16..) => {
                self.with_value(address, |d, time: Timeval| d.put(format_args!("{}", Show(&time))));
            }
            (socket::SOL_SOCKET, socket::SO_ERROR, 4) => {
                self.with_value(address, |d, n: i32| match Errno::from_raw(n) {
                    Some(errno) => d.put(format_args!("[{errno:?}]")),
                    None => d.put(format_args!("[{n}]")),
                })
            }
            (socket::SOL_TCP, socket::TCP_CONGESTION, _) => self.buffer(address, length as usize),
            (_, _, 4) => self.with_value(address, |d, n: i32| d.put(format_args!("[{n}]"))),
            _ => self.buffer(address, length as usize),
        }
    }

    // Waiting.

    fn poll_fds(&mut self, address: u64, count: u32) {
        let shown = count.min(SHOWN_ELEMENTS as u32);
        if shown > 0 && self.value::<Pollfd>(address).is_none() {
            self.pointer(address);
            return;
        }
        self.out.push('[');
        for i in 0..shown {
            self.out.push_str(if i > 0 { ", " } else { "" });
            let Some(fd) = self.value::<Pollfd>(address + 8 * u64::from(i)) else { break };
            self.put(format_args!("{{fd={}", fd.fd));
            if fd.fd >= 0 {
                self.out.push_str(", events=");
                self.flags(POLL_EVENTS, u64::from(fd.events as u16));
            }
            self.out.push('}');
        }
        self.out.push_str(if count > shown { ", ...]" } else { "]" });
    }

    /// A set as select leaves it: the descriptors that are ready.
    fn fd_set(&mut self, address: u64) {
        let bits = (self.call.args[0] as u32).min(1024) as usize;
        let bytes = self.bytes(address, bits.div_ceil(64) * 8);
        if address == 0 || bytes.len() < bits.div_ceil(64) * 8 {
            self.pointer(address);
            return;
        }
        let members = (0..bits).filter(|bit| bytes[bit / 8] & 1 << (bit % 8) != 0);
        let text: Vec<String> = members.map(|fd| fd.to_string()).collect();
        self.put(format_args!("[{}]", text.join(" ")));
    }

    fn epoll_event(&mut self, event: &EpollEvent) {
        let (events, data) = (event.events, event.data);
        self.out.push_str("{events=");
        self.flags(EPOLL_EVENTS, u64::from(events));
        self.out.push_str(", data=");
        self.user_word(data);
        self.out.push('}');
    }

    fn epoll_events(&mut self, address: u64, count: u64) {
        self.out.push('[');
        for i in 0..count.min(SHOWN_ELEMENTS as u64) {
            self.out.push_str(if i > 0 { ", " } else { "" });
            let Some(event) = self.value(address + 12 * i) else { break };
            self.epoll_event(&event);
        }
        self.out.push_str(if count > SHOWN_ELEMENTS as u64 { ", ...]" } else { "]" });
    }

    fn affinity(&mut self, address: u64, length: u64) {
        let bytes = self.bytes(address, length.min(128) as usize);
        let cpus = (0..bytes.len() * 8).filter(|cpu| bytes[cpu / 8] & 1 << (cpu % 8) != 0);
        let text: Vec<String> = cpus.map(|cpu| cpu.to_string()).collect();
        self.put(format_args!("[{}]", text.join(" ")));
    }

    // Times.

    pub(super) fn timespec(&mut self, address: u64) {
        self.with_value(address, |d, t: Timespec| d.put(format_args!("{}", Show(&t))));
    }

    fn timespec_pair(&mut self, a: Timespec, b: Timespec) {
        let one = |t: Timespec| match t.tv_nsec {
            UTIME_NOW => "UTIME_NOW".to_string(),
            UTIME_OMIT => "UTIME_OMIT".to_string(),
            _ => Show(&t).to_string(),
        };
        self.put(format_args!("[{}, {}]", one(a), one(b)));
    }

    fn itimerspec(&mut self, address: u64) {
        self.with_value(address, |d, timer: Itimerspec| {
            let (interval, value) = (Show(&timer.it_interval), Show(&timer.it_value));
            d.put(format_args!("{{it_interval={interval}, it_value={value}}}"));
        });
    }

    fn itimerval(&mut self, address: u64) {
        self.with_value(address, |d, timer: Itimerval| {
            let (interval, value) = (Show(&timer.it_interval), Show(&timer.it_value));
            d.put(format_args!("{{it_interval={interval}, it_value={value}}}"));
        });
    }

    // Signals.

    fn sigaction(&mut self, action: &KernelSigaction) {
        self.out.push_str("{sa_handler=");
        self.handler(action.handler);
        self.put(format_args!(", sa_mask={}, sa_flags=", Sigset(action.mask)));
        self.flags(SA_FLAGS, action.flags);
        if action.flags & signal::SA_RESTORER != 0 {
            self.out.push_str(", sa_restorer=");
            self.pointer(action.restorer);
        }
        self.out.push('}');
    }

    fn stack(&mut self, stack: &StackT) {
        self.out.push_str("{ss_sp=");
        self.pointer(stack.ss_sp);
        self.out.push_str(", ss_flags=");
        self.flags(SS_FLAGS, u64::from(stack.ss_flags));
        self.put(format_args!(", ss_size={}}}", stack.ss_size));
    }

    // The system.

    fn stat(&mut self, stat: &Stat) {
        self.out.push_str("{st_mode=");
        self.file_mode(stat.st_mode);
        match stat.st_mode & S_IFMT {
            fs::S_IFCHR | fs::S_IFBLK => {
                let (major, minor) = (fs::dev_major(stat.st_rdev), fs::dev_minor(stat.st_rdev));
                self.put(format_args!(", st_rdev=makedev({major:#x}, {minor:#x}), ...}}"));
            }
            _ => self.put(format_args!(", st_size={}, ...}}", stat.st_size)),
        }
    }

    fn statx(&mut self, statx: &Statx) {
        self.out.push_str("{stx_mask=");
        self.flags(fs::STATX_MASK, u64::from(statx.stx_mask));
        self.out.push_str(", stx_mode=");
        self.file_mode(u32::from(statx.stx_mode));
        self.put(format_args!(", stx_size={}, ...}}", statx.stx_size));
    }

    fn file_mode(&mut self, mode: u32) {
        self.constant(FILE_TYPES, (mode & S_IFMT) as i32);
        self.put(format_args!("|0{:03o}", mode & !S_IFMT));
    }

    fn clone_args(&mut self, args: &CloneArgs) {
        self.out.push_str("{flags=");
        self.flags(CLONE_FLAGS, args.flags);
        for (name, address) in
            [("child_tid", args.child_tid), ("parent_tid", args.parent_tid), ("stack", args.stack), ("tls", args.tls)]
        {
            self.put(format_args!(", {name}="));
            self.pointer(address);
        }
        self.put(format_args!(", stack_size={:#x}, exit_signal=", args.stack_size));
        self.signal(args.exit_signal as i32);
        self.out.push('}');
    }

    fn utsname(&mut self, names: &Utsname) {
        let text = |field: &[u8; 65]| {
            let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
            field[..end].to_vec()
        };
        self.out.push_str("{sysname=");
        self.quoted(&text(&names.sysname));
        self.out.push_str(", nodename=");
        self.quoted(&text(&names.nodename));
        self.out.push_str(", ...}");
    }

    fn ioctl_arg(&mut self, request: u32, value: u64) {
        match request {
            ioctl::FIONREAD | ioctl::TIOCOUTQ | ioctl::SIOCOUTQNSD => {
                self.output(value, |d| d.with_value(value, |d, n: i32| d.put(format_args!("[{n}]"))));
            }
            ioctl::FIONBIO | ioctl::FIOASYNC => self.with_value(value, |d, n: i32| d.put(format_args!("[{n}]"))),
            ioctl::FIOCLEX | ioctl::FIONCLEX | ioctl::TIOCNOTTY | ioctl::TIOCSCTTY => self.user_word(value),
            _ => self.pointer(value),
        }
    }

    fn fcntl_arg(&mut self, command: i32, value: u64) {
        match command {
            fs::F_SETFD => self.flags(&[("FD_CLOEXEC", FD_CLOEXEC as u64)], value & 0xffff_ffff),
            fs::F_SETFL => self.open_flags(value as u32),
            fs::F_ADD_SEALS => self.flags(fs::SEALS, value & 0xffff_ffff),
            fs::F_GETLK | fs::F_SETLK | fs::F_SETLKW | fs::F_OFD_GETLK | fs::F_OFD_SETLK | fs::F_OFD_SETLKW => {
                self.with_value(value, |d, lock: Flock| d.lock(&lock));
            }
            _ => self.put(format_args!("{}", value as i32)),
        }
    }

    fn lock(&mut self, lock: &Flock) {
        self.out.push_str("{l_type=");
        self.constant(LOCK_TYPES, i32::from(lock.l_type));
        self.out.push_str(", l_whence=");
        self.constant(WHENCE, i32::from(lock.l_whence));
        self.put(format_args!(", l_start={}, l_len={}}}", lock.l_start, lock.l_len));
    }
}

/// What strace adds behind the result: which descriptors poll found ready, and that a wait ran out.
pub(super) fn write_result_details(
    out: &mut String,
    call: Call<'_>,
    args: &[Arg],
    mode: Mode,
    memory: &dyn MemoryReader,
) {
    let waits = args.iter().any(|arg| matches!(arg, Arg::PollFds | Arg::FdSet));
    match call.result {
        Some(0) if waits => out.push_str(" (Timeout)"),
        Some(ready) if matches!(args.first(), Some(Arg::PollFds)) && (ready as i64) > 0 => {
            let decoder = Decoder::new(out, call, mode, memory);
            write_ready(decoder);
        }
        _ => {}
    }
}

fn write_ready(mut decoder: Decoder<'_>) {
    let (address, count) = (decoder.call.args[0], decoder.call.args[1] as u32);
    decoder.out.push_str(" ([");
    let mut separator = "";
    for i in 0..count.min(SHOWN_ELEMENTS as u32) {
        let Some(fd) = decoder.value::<Pollfd>(address + 8 * u64::from(i)) else { break };
        if fd.fd >= 0 && fd.revents != 0 {
            decoder.put(format_args!("{separator}{{fd={}, revents=", fd.fd));
            decoder.flags(POLL_EVENTS, u64::from(fd.revents as u16));
            decoder.out.push('}');
            separator = ", ";
        }
    }
    decoder.out.push_str("])");
}

/// The result of fcntl, whose meaning depends on the command.
pub(super) fn write_fcntl_result(out: &mut String, call: Call<'_>, value: u64) -> fmt::Result {
    match call.args[1] as i32 {
        fs::F_GETFD if value != 0 => write!(out, "{value:#x} (flags FD_CLOEXEC)"),
        fs::F_GETFL => {
            write!(out, "{value:#x} (flags ")?;
            let none: &dyn MemoryReader = &NoMemory;
            Decoder::new(out, call, Mode::Standard, none).open_flags(value as u32);
            out.write_char(')')
        }
        _ => write!(out, "{}", value as i64),
    }
}

struct NoMemory;

impl MemoryReader for NoMemory {
    fn read(&self, _address: u64, _buf: &mut [u8]) -> usize {
        0
    }
}

/// `SIGCHLD {si_signo=SIGCHLD, ...}`.
pub(super) fn write_siginfo(out: &mut String, info: &Siginfo, mode: Mode) {
    if let Some(signal) = Signal::from_raw(info.si_signo) {
        let _ = write!(out, "{signal} ");
    }
    write_siginfo_body(out, info, mode);
}

fn write_siginfo_body(out: &mut String, info: &Siginfo, mode: Mode) {
    let Some(signal) = Signal::from_raw(info.si_signo) else {
        out.push_str("{si_signo=0}");
        return;
    };
    let codes: Names = match signal {
        Signal::SIGCHLD => signal::CLD_CODES,
        Signal::SIGSEGV => signal::SEGV_CODES,
        Signal::SIGBUS => signal::BUS_CODES,
        Signal::SIGFPE => signal::FPE_CODES,
        Signal::SIGILL => signal::ILL_CODES,
        Signal::SIGTRAP => signal::TRAP_CODES,
        _ => &[],
    };
    let code = info.si_code as i64 as u64;
    let name = name_of(signal::SI_CODES, code).or_else(|| name_of(codes, code));
    let _ = write!(out, "{{si_signo={signal}, si_code=");
    let _ = match name {
        Some(name) => out.write_str(name),
        None => write!(out, "{}", info.si_code),
    };
    let from_hardware = info.si_code > 0 && info.si_code < signal::SI_KERNEL;
    let _ = match signal {
        Signal::SIGCHLD if from_hardware => {
            let status = info.si_status();
            write!(out, ", si_pid={}, si_uid={}, si_status={status}", info.si_pid(), info.si_uid())
        }
        Signal::SIGSEGV | Signal::SIGBUS | Signal::SIGFPE | Signal::SIGILL | Signal::SIGTRAP if from_hardware => {
            match (mode, info.si_addr()) {
                (_, 0) => write!(out, ", si_addr=NULL"),
                (Mode::Standard, address) => write!(out, ", si_addr={address:#x}"),
                (Mode::Deterministic, _) => write!(out, ", si_addr=<pointer>"),
            }
        }
        _ if info.si_code == signal::SI_TIMER || info.si_code == signal::SI_KERNEL => Ok(()),
        _ => write!(out, ", si_pid={}, si_uid={}", info.si_pid(), info.si_uid()),
    };
    out.push('}');
}

/// A set of signals: those in it, or `~` and those not in it, whichever is shorter.
struct Sigset(u64);

impl fmt::Display for Sigset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inverted = self.0.count_ones() > 32;
        let shown = if inverted { !self.0 } else { self.0 };
        f.write_str(if inverted { "~[" } else { "[" })?;
        let mut separator = "";
        for signal in (1..=64).filter_map(Signal::from_raw).filter(|signal| shown & signal.mask() != 0) {
            let name = signal.to_string();
            write!(f, "{separator}{}", name.strip_prefix("SIG").unwrap_or(&name))?;
            separator = " ";
        }
        f.write_char(']')
    }
}

/// A status word of wait(2).
struct WaitStatus(i32);

impl fmt::Display for WaitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signal = |number: i32| Signal::from_raw(number).map_or(number.to_string(), |signal| signal.to_string());
        match (self.0 & 0x7f, self.0 >> 8 & 0xff) {
            _ if self.0 == crate::process::WAIT_STATUS_CONTINUED => f.write_str("[{WIFCONTINUED(s)}]"),
            (0, code) => write!(f, "[{{WIFEXITED(s) && WEXITSTATUS(s) == {code}}}]"),
            (0x7f, stop) => write!(f, "[{{WIFSTOPPED(s) && WSTOPSIG(s) == {}}}]", signal(stop)),
            (term, _) => {
                let core = if self.0 & 0x80 != 0 { " && WCOREDUMP(s)" } else { "" };
                write!(f, "[{{WIFSIGNALED(s) && WTERMSIG(s) == {}{core}}}]", signal(term))
            }
        }
    }
}

/// strace's form of a structure that needs no memory behind it.
struct Show<'a, T>(&'a T);

impl fmt::Display for Show<'_, Timespec> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{tv_sec={}, tv_nsec={}}}", self.0.tv_sec, self.0.tv_nsec)
    }
}

impl fmt::Display for Show<'_, Timeval> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{tv_sec={}, tv_usec={}}}", self.0.tv_sec, self.0.tv_usec)
    }
}

impl fmt::Display for Show<'_, Rlimit> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = |value: u64| match value {
            RLIM_INFINITY => "RLIM64_INFINITY".to_string(),
            value if value > 1024 && value % 1024 == 0 => format!("{}*1024", value / 1024),
            value => value.to_string(),
        };
        write!(f, "{{rlim_cur={}, rlim_max={}}}", limit(self.0.rlim_cur), limit(self.0.rlim_max))
    }
}

impl fmt::Display for Show<'_, SockAddr> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SockAddr::Unspec => f.write_str("{sa_family=AF_UNSPEC}"),
            SockAddr::V4(v4) => {
                write!(f, "{{sa_family=AF_INET, sin_port=htons({}), sin_addr=inet_addr(\"{}\")}}", v4.port(), v4.ip())
            }
            SockAddr::V6(v6) => {
                write!(
                    f,
                    "{{sa_family=AF_INET6, sin6_port=htons({}), sin6_flowinfo=htonl({}), ",
                    v6.port(),
                    v6.flowinfo()
                )?;
                write!(f, "inet_pton(AF_INET6, \"{}\", &sin6_addr), sin6_scope_id={}}}", v6.ip(), v6.scope_id())
            }
            SockAddr::Unix(UnixName::Unnamed) => f.write_str("{sa_family=AF_UNIX}"),
            SockAddr::Unix(UnixName::Path(path)) => {
                write!(f, "{{sa_family=AF_UNIX, sun_path=\"{}\"}}", path.escape_ascii())
            }
            SockAddr::Unix(UnixName::Abstract(name)) => {
                write!(f, "{{sa_family=AF_UNIX, sun_path=@\"{}\"}}", name.escape_ascii())
            }
            SockAddr::Other(family, rest) => match name_of(socket::FAMILIES, u64::from(*family)) {
                Some(name) => write!(f, "{{sa_family={name}, sa_data=\"{}\"}}", rest.escape_ascii()),
                None => write!(f, "{{sa_family={family:#x}, sa_data=\"{}\"}}", rest.escape_ascii()),
            },
        }
    }
}
