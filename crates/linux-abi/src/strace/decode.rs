//! Prints arguments by their kinds: numbers, flags, strings, buffers. What needs a structure goes on in `structs`.

use super::{Call, MemoryReader, Mode};
use crate::{Errno, Names, Signal, fs, ioctl, mm, name_of, process, signal, socket, time};
use std::fmt::Write;
use zerocopy::{FromBytes, IntoBytes};

/// What an argument is. Kinds with `Out` are filled by the call: they are shown as addresses when it failed. A buffer's,
/// address's or option's length is the next argument.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arg {
    Int,
    Unsigned,
    Long,
    Size,
    Hex,
    /// A number or an address: nobody knows.
    Word,
    Pointer,
    Fd,
    /// A descriptor or AT_FDCWD.
    DirFd,
    Flags(Names),
    Enum(Names),
    OpenFlags,
    /// Left out unless the flags before it create a file.
    CreateMode,
    FileMode,
    MapFlags,
    CloneFlags,
    FutexOp,
    /// What the command takes after the value; prints several arguments.
    FutexRest,
    /// What few commands take after the first argument; prints several arguments.
    PrctlRest,
    TimerFlags,
    SocketType,
    SocketFlags,
    Protocol,
    SocketOption,
    Ioctl,
    IoctlValue,
    /// Left out for commands that take none.
    FcntlOperand,
    PrctlValue,
    SignalNumber,
    Path,
    StringOut,
    StringArray,
    EnvironmentCount,
    BufferIn,
    /// As long as the result says.
    BufferOut,
    VectorIn,
    VectorOut,
    IntPointer,
    LongPointer,
    FdPairOut,
    SockaddrIn,
    SockaddrOut,
    OptionIn,
    OptionOut,
    MessageIn,
    MessageOut,
    MessagesIn,
    MessagesOut,
    Timespec,
    TimespecOut,
    TimespecPair,
    Timeval,
    TimevalOut,
    Itimerspec,
    ItimerspecOut,
    Itimerval,
    ItimervalOut,
    PollFds,
    FdSet,
    EpollEventIn,
    EpollEventsOut,
    Sigset,
    SigsetOut,
    SigactionIn,
    SigactionOut,
    SiginfoIn,
    SiginfoOut,
    StackIn,
    StackOut,
    StatOut,
    StatxOut,
    OpenHow,
    CloneArgs,
    WaitStatusOut,
    RlimitIn,
    RlimitOut,
    UtsnameOut,
    AffinityIn,
    AffinityOut,
}

/// Bytes of a buffer that are shown.
const SHOWN_BYTES: usize = 32;
/// Elements of an array that are shown.
pub(super) const SHOWN_ELEMENTS: usize = 32;

/// One call being printed.
pub(super) struct Decoder<'a> {
    pub(super) out: &'a mut String,
    pub(super) call: Call<'a>,
    pub(super) mode: Mode,
    memory: &'a dyn MemoryReader,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(out: &'a mut String, call: Call<'a>, mode: Mode, memory: &'a dyn MemoryReader) -> Decoder<'a> {
        Decoder { out, call, mode, memory }
    }

    pub(super) fn arguments(&mut self, kinds: &[Arg]) {
        for (i, &kind) in kinds.iter().enumerate() {
            match kind {
                Arg::CreateMode if !self.creates_file(i) => return,
                Arg::FcntlOperand if fcntl_takes_none(self.call.args[1] as i32) => return,
                Arg::FutexRest => return self.futex_rest(),
                Arg::PrctlRest => return self.prctl_rest(),
                _ => {}
            }
            self.out.push_str(if i > 0 { ", " } else { "" });
            self.argument(kind, i);
        }
    }

    /// Argument `i`.
    fn argument(&mut self, kind: Arg, i: usize) {
        let value = self.call.args[i];
        match kind {
            Arg::Int => self.put(format_args!("{}", value as i32)),
            Arg::Unsigned => self.put(format_args!("{}", value as u32)),
            Arg::Long => self.put(format_args!("{}", value as i64)),
            Arg::Size => self.put(format_args!("{value}")),
            Arg::Hex => self.hex(value),
            Arg::Word => self.user_word(value),
            Arg::Pointer => self.pointer(value),
            Arg::Fd => self.put(format_args!("{}", value as i32)),
            Arg::DirFd => self.dir_fd(value as i32),
            Arg::Flags(names) => self.flags(names, value & 0xffff_ffff),
            Arg::Enum(names) => self.constant(names, value as i32),
            Arg::OpenFlags => self.open_flags(value as u32),
            Arg::CreateMode | Arg::FileMode => self.put(format_args!("0{:03o}", value as u32)),
            Arg::MapFlags => self.map_flags(value as u32),
            Arg::CloneFlags => self.clone_flags(value),
            Arg::FutexOp => self.futex_op(value as u32),
            Arg::TimerFlags => self.flags(&[("TIMER_ABSTIME", time::TIMER_ABSTIME as u64)], value & 0xffff_ffff),
            Arg::SocketType => self.socket_type(value as i32),
            Arg::SocketFlags => self.flags(socket::SOCKET_FLAGS, value & 0xffff_ffff),
            Arg::Protocol => self.protocol(value as i32),
            Arg::SocketOption => self.socket_option(self.call.args[i - 1] as i32, value as i32),
            Arg::Ioctl => self.constant(ioctl::IOCTLS, value as i32),
            Arg::PrctlValue => self.prctl_arg(value),
            Arg::SignalNumber => self.signal(value as i32),
            Arg::Path => self.path(value),
            Arg::StringOut => self.output(value, |d| d.path(value)),
            Arg::StringArray => self.string_array(value),
            Arg::EnvironmentCount => self.environment(value),
            Arg::BufferIn => self.buffer(value, self.call.args[i + 1] as usize),
            Arg::BufferOut => self.output(value, |d| d.buffer(value, d.returned_bytes(i + 1))),
            _ => self.structure(kind, i, value),
        }
    }

    pub(super) fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.out.write_fmt(text);
    }

    /// What the call returned; None when it failed or has not ended.
    pub(super) fn success(&self) -> Option<u64> {
        self.call.result.and_then(|result| Errno::from_return(result).ok())
    }

    /// Prints what the call wrote, or the address alone when it wrote nothing.
    pub(super) fn output(&mut self, address: u64, print: impl FnOnce(&mut Self)) {
        if self.success().is_some() { print(self) } else { self.pointer(address) }
    }

    /// How many bytes of a buffer the call filled: its result, or the whole of it where 0 is all it returns (getrandom and
    /// read return counts). MSG_TRUNC makes the result longer than the buffer.
    fn returned_bytes(&self, length_arg: usize) -> usize {
        (self.success().unwrap_or(0)).min(self.call.args[length_arg]) as usize
    }

    pub(super) fn pointer(&mut self, address: u64) {
        match (address, self.mode) {
            (0, _) => self.out.push_str("NULL"),
            (_, Mode::Standard) => self.put(format_args!("{address:#x}")),
            (_, Mode::Deterministic) => self.out.push_str("<pointer>"),
        }
    }

    pub(super) fn hex(&mut self, value: u64) {
        if value == 0 { self.out.push('0') } else { self.put(format_args!("{value:#x}")) }
    }

    /// A word that the guest may use for an address or for a number.
    pub(super) fn user_word(&mut self, value: u64) {
        match self.mode {
            Mode::Deterministic if value > u64::from(u32::MAX) => self.out.push_str("<pointer>"),
            _ => self.hex(value),
        }
    }

    fn dir_fd(&mut self, fd: i32) {
        if fd == fs::AT_FDCWD { self.out.push_str("AT_FDCWD") } else { self.put(format_args!("{fd}")) }
    }

    /// A value with one name, or its number.
    pub(super) fn constant(&mut self, names: Names, value: i32) {
        let wide = |known: &&(&str, u64)| known.1 as u32 == value as u32;
        match names.iter().find(wide) {
            Some((name, _)) => self.out.push_str(name),
            None => self.put(format_args!("{value:#x}")),
        }
    }

    /// Names joined by `|`, what has none in hexadecimal at the end.
    pub(super) fn flags(&mut self, names: Names, value: u64) {
        if value == 0 {
            self.out.push_str(name_of(names, 0).unwrap_or("0"));
            return;
        }
        let mut rest = value;
        let mut separator = "";
        for &(name, bits) in names {
            if bits != 0 && rest & bits == bits {
                self.put(format_args!("{separator}{name}"));
                rest &= !bits;
                separator = "|";
            }
        }
        if rest != 0 {
            self.put(format_args!("{separator}{rest:#x}"));
        }
    }

    /// As [`Decoder::flags`], after something that is printed already; nothing for no flags.
    fn more_flags(&mut self, names: Names, value: u64) {
        if value != 0 {
            self.out.push('|');
            self.flags(names, value);
        }
    }

    pub(super) fn open_flags(&mut self, flags: u32) {
        self.out.push_str(match flags & fs::O_ACCMODE {
            fs::O_RDONLY => "O_RDONLY",
            fs::O_WRONLY => "O_WRONLY",
            fs::O_RDWR => "O_RDWR",
            _ => "O_ACCMODE",
        });
        self.more_flags(fs::OPEN_FLAGS, u64::from(flags & !fs::O_ACCMODE));
    }

    fn creates_file(&self, mode_arg: usize) -> bool {
        let flags = self.call.args[mode_arg - 1] as u32;
        flags & fs::O_CREAT != 0 || flags & fs::O_TMPFILE == fs::O_TMPFILE
    }

    fn map_flags(&mut self, flags: u32) {
        self.constant(mm::MAP_TYPES, (flags & mm::MAP_TYPE) as i32);
        self.more_flags(mm::MAP_FLAGS, u64::from(flags & !mm::MAP_TYPE));
    }

    fn clone_flags(&mut self, flags: u64) {
        let signal = (flags & process::CSIGNAL & 0x7f) as i32;
        let rest = flags & !process::CSIGNAL;
        if rest != 0 || signal == 0 {
            self.flags(process::CLONE_FLAGS, rest);
        }
        if signal != 0 {
            self.out.push_str(if rest != 0 { "|" } else { "" });
            self.signal(signal);
        }
    }

    fn futex_op(&mut self, op: u32) {
        self.constant(process::FUTEX_COMMANDS, (op & process::FUTEX_CMD_MASK) as i32);
        if op & process::FUTEX_PRIVATE_FLAG != 0 {
            self.out.push_str("_PRIVATE");
        }
        if op & process::FUTEX_CLOCK_REALTIME != 0 {
            self.out.push_str("|FUTEX_CLOCK_REALTIME");
        }
    }

    /// The rest of futex(2)'s arguments, whose number and meaning depend on the command.
    fn futex_rest(&mut self) {
        let [_, op, _, fourth, address, value] = *self.call.args;
        let command = op as u32 & process::FUTEX_CMD_MASK;
        match command {
            process::FUTEX_WAIT | process::FUTEX_LOCK_PI | process::FUTEX_LOCK_PI2 => self.futex_time(fourth),
            process::FUTEX_WAIT_BITSET => {
                self.futex_time(fourth);
                self.futex_bitset(value as u32);
            }
            process::FUTEX_WAKE_BITSET => self.futex_bitset(value as u32),
            process::FUTEX_WAIT_REQUEUE_PI => {
                self.futex_time(fourth);
                self.futex_second(address);
            }
            process::FUTEX_REQUEUE
            | process::FUTEX_CMP_REQUEUE
            | process::FUTEX_CMP_REQUEUE_PI
            | process::FUTEX_WAKE_OP => {
                self.put(format_args!(", {}", fourth as u32));
                self.futex_second(address);
                if command == process::FUTEX_WAKE_OP {
                    self.put(format_args!(", {:#x}", value as u32));
                } else if command != process::FUTEX_REQUEUE {
                    self.put(format_args!(", {}", value as u32));
                }
            }
            _ => {}
        }
    }

    fn futex_time(&mut self, address: u64) {
        self.out.push_str(", ");
        self.timespec(address);
    }

    fn futex_second(&mut self, address: u64) {
        self.out.push_str(", ");
        self.pointer(address);
    }

    fn futex_bitset(&mut self, bits: u32) {
        match bits {
            process::FUTEX_BITSET_MATCH_ANY => self.out.push_str(", FUTEX_BITSET_MATCH_ANY"),
            _ => self.put(format_args!(", {bits:#x}")),
        }
    }

    fn prctl_rest(&mut self) {
        let more = match self.call.args[0] as i32 {
            process::PR_SET_VMA | process::PR_SET_MM | process::PR_SET_SYSCALL_USER_DISPATCH => 5,
            process::PR_SET_SECCOMP | process::PR_CAP_AMBIENT | process::PR_SET_SPECULATION_CTRL => 3,
            _ => 2,
        };
        for i in 2..more {
            self.out.push_str(", ");
            self.user_word(self.call.args[i]);
        }
    }

    fn socket_type(&mut self, kind: i32) {
        self.constant(socket::SOCKET_TYPES, kind & socket::SOCK_TYPE_MASK);
        self.more_flags(socket::SOCKET_FLAGS, u64::from((kind & !socket::SOCK_TYPE_MASK) as u32));
    }

    /// A protocol means something in its family alone.
    fn protocol(&mut self, protocol: i32) {
        match self.call.args[0] as i32 {
            socket::AF_INET | socket::AF_INET6 => self.constant(socket::IP_PROTOCOLS, protocol),
            _ => self.put(format_args!("{protocol}")),
        }
    }

    fn socket_option(&mut self, level: i32, option: i32) {
        let names = match level {
            socket::SOL_SOCKET => socket::SOCKET_OPTIONS,
            socket::SOL_TCP => socket::TCP_OPTIONS,
            socket::SOL_UDP => socket::UDP_OPTIONS,
            socket::SOL_IP => socket::IP_OPTIONS,
            socket::SOL_IPV6 => socket::IPV6_OPTIONS,
            _ => &[],
        };
        self.constant(names, option);
    }

    fn prctl_arg(&mut self, value: u64) {
        match self.call.args[0] as i32 {
            process::PR_SET_NAME => self.path(value),
            process::PR_GET_NAME => self.output(value, |d| d.path(value)),
            process::PR_SET_PDEATHSIG => self.signal(value as i32),
            _ => self.user_word(value),
        }
    }

    pub(super) fn signal(&mut self, number: i32) {
        match Signal::from_raw(number) {
            Some(signal) => self.put(format_args!("{signal}")),
            None => self.put(format_args!("{number}")),
        }
    }

    pub(super) fn handler(&mut self, handler: u64) {
        match handler {
            signal::SIG_DFL => self.out.push_str("SIG_DFL"),
            signal::SIG_IGN => self.out.push_str("SIG_IGN"),
            address => self.pointer(address),
        }
    }

    // Memory.

    /// The value at `address`; None where it cannot be read.
    pub(super) fn value<T: FromBytes + IntoBytes>(&self, address: u64) -> Option<T> {
        let mut value = T::new_zeroed();
        let size = size_of::<T>();
        (address != 0 && self.memory.read(address, value.as_mut_bytes()) == size).then_some(value)
    }

    /// Up to `max` bytes from `address` on.
    pub(super) fn bytes(&self, address: u64, max: usize) -> Vec<u8> {
        let mut bytes = vec![0; max];
        let read = if address == 0 { 0 } else { self.memory.read(address, &mut bytes) };
        bytes.truncate(read);
        bytes
    }

    /// Prints the value at `address` by `print`, or the address where nothing can be read.
    pub(super) fn with_value<T: FromBytes + IntoBytes>(&mut self, address: u64, print: impl FnOnce(&mut Self, T)) {
        match self.value(address) {
            Some(value) => print(self, value),
            None => self.pointer(address),
        }
    }

    /// A NUL-terminated string, in full.
    pub(super) fn path(&mut self, address: u64) {
        let Some(string) = self.c_string(address) else {
            self.pointer(address);
            return;
        };
        self.quoted(&string);
    }

    fn c_string(&self, address: u64) -> Option<Vec<u8>> {
        let mut string = Vec::new();
        while string.len() < fs::PATH_MAX {
            // Never across a page at once: the next page may not be there, though the string ends before it.
            let here = address + string.len() as u64;
            let chunk = self.bytes(here, (mm::PAGE_SIZE - here % mm::PAGE_SIZE).min(256) as usize);
            if chunk.is_empty() {
                return None;
            }
            if let Some(end) = chunk.iter().position(|&byte| byte == 0) {
                string.extend_from_slice(&chunk[..end]);
                return Some(string);
            }
            string.extend_from_slice(&chunk);
        }
        Some(string)
    }

    /// The first bytes of a buffer of `length` bytes.
    pub(super) fn buffer(&mut self, address: u64, length: usize) {
        let shown = self.bytes(address, length.min(SHOWN_BYTES));
        if shown.len() < length.min(SHOWN_BYTES) || address == 0 {
            self.pointer(address);
            return;
        }
        self.quoted(&shown);
        if length > shown.len() {
            self.out.push_str("...");
        }
    }

    /// In quotes, with C's escapes; octal ones as short as the next byte allows.
    pub(super) fn quoted(&mut self, bytes: &[u8]) {
        self.out.push('"');
        for (i, &byte) in bytes.iter().enumerate() {
            match byte {
                b'"' | b'\\' => self.put(format_args!("\\{}", byte as char)),
                b'\n' => self.out.push_str("\\n"),
                b'\t' => self.out.push_str("\\t"),
                b'\r' => self.out.push_str("\\r"),
                b'\x0b' => self.out.push_str("\\v"),
                b'\x0c' => self.out.push_str("\\f"),
                b' '..=b'~' => self.out.push(byte as char),
                _ if bytes.get(i + 1).is_some_and(u8::is_ascii_digit) => self.put(format_args!("\\{byte:03o}")),
                _ => self.put(format_args!("\\{byte:o}")),
            }
        }
        self.out.push('"');
    }

    fn string_array(&mut self, address: u64) {
        let Some(first) = self.value::<u64>(address) else {
            self.pointer(address);
            return;
        };
        self.out.push('[');
        let (mut string, mut count) = (first, 0);
        while string != 0 && count < SHOWN_ELEMENTS {
            self.out.push_str(if count > 0 { ", " } else { "" });
            self.path(string);
            count += 1;
            string = self.value(address + 8 * count as u64).unwrap_or(0);
        }
        self.out.push_str(if string != 0 { ", ...]" } else { "]" });
    }

    /// strace shows an environment by its address and size alone.
    fn environment(&mut self, address: u64) {
        const MOST: u64 = 100_000;
        let is_set = |i: &u64| self.value::<u64>(address + 8 * i).is_some_and(|string| string != 0);
        let count = if address == 0 { 0 } else { (0..MOST).take_while(is_set).count() };
        self.pointer(address);
        if address != 0 {
            self.put(format_args!(" /* {count} var{} */", if count == 1 { "" } else { "s" }));
        }
    }
}

fn fcntl_takes_none(command: i32) -> bool {
    matches!(
        command,
        fs::F_GETFD | fs::F_GETFL | fs::F_GETOWN | fs::F_GETSIG | fs::F_GETLEASE | fs::F_GETPIPE_SZ | fs::F_GET_SEALS
    )
}
