//! What packetdrill calls: the functions of `struct packetdrill_interface` (its packetdrill.h), each a system call of the host under test.
//! Arguments are copied into the simulated process's memory and results back, so the kernel reads and writes guest memory as it does for
//! guests. A pointer at which nothing can be read is handed on as it is: what comes of it is the kernel's to say.

#![allow(unsafe_code)]

use crate::host::Arguments;
use crate::session::Session;
use crate::settings::Settings;
use base::SimDuration;
use libc::{c_char, c_int, c_long, c_uint, c_ulong, c_void, size_t, ssize_t};
use linux_abi::nr;
use std::ffi::CStr;
use std::sync::OnceLock;

/// The one session of a process.
static SESSION: OnceLock<Session> = OnceLock::new();

/// Errors are the negative errno.
const ERRNO_MAX: u64 = 4095;

pub fn session() -> Option<&'static Session> {
    SESSION.get()
}

type Data = *mut c_void;

/// packetdrill.h's structure; the order of its fields is the interface.
#[repr(C)]
pub struct Interface {
    userdata: Data,
    free: extern "C" fn(Data),
    socket: extern "C" fn(Data, c_int, c_int, c_int) -> c_int,
    bind: extern "C" fn(Data, c_int, *const c_void, c_uint) -> c_int,
    listen: extern "C" fn(Data, c_int, c_int) -> c_int,
    accept: extern "C" fn(Data, c_int, *mut c_void, *mut c_uint) -> c_int,
    connect: extern "C" fn(Data, c_int, *const c_void, c_uint) -> c_int,
    read: extern "C" fn(Data, c_int, *mut c_void, size_t) -> ssize_t,
    readv: extern "C" fn(Data, c_int, *const libc::iovec, c_int) -> ssize_t,
    recv: extern "C" fn(Data, c_int, *mut c_void, size_t, c_int) -> ssize_t,
    recvfrom: extern "C" fn(Data, c_int, *mut c_void, size_t, c_int, *mut c_void, *mut c_uint) -> ssize_t,
    recvmsg: extern "C" fn(Data, c_int, *mut libc::msghdr, c_int) -> ssize_t,
    write: extern "C" fn(Data, c_int, *const c_void, size_t) -> ssize_t,
    writev: extern "C" fn(Data, c_int, *const libc::iovec, c_int) -> ssize_t,
    send: extern "C" fn(Data, c_int, *const c_void, size_t, c_int) -> ssize_t,
    sendto: extern "C" fn(Data, c_int, *const c_void, size_t, c_int, *const c_void, c_uint) -> ssize_t,
    sendmsg: extern "C" fn(Data, c_int, *const libc::msghdr, c_int) -> ssize_t,
    fcntl: extern "C" fn(Data, c_int, c_int, c_long) -> c_int,
    ioctl: extern "C" fn(Data, c_int, c_ulong, *mut c_int) -> c_int,
    close: extern "C" fn(Data, c_int) -> c_int,
    shutdown: extern "C" fn(Data, c_int, c_int) -> c_int,
    getsockopt: extern "C" fn(Data, c_int, c_int, c_int, *mut c_void, *mut c_uint) -> c_int,
    setsockopt: extern "C" fn(Data, c_int, c_int, c_int, *const c_void, c_uint) -> c_int,
    poll: extern "C" fn(Data, *mut c_void, c_ulong, c_int) -> c_int,
    netdev_send: extern "C" fn(Data, *const c_void, size_t) -> c_int,
    netdev_receive: extern "C" fn(Data, *mut c_void, *mut size_t, *mut i64) -> c_int,
    usleep: extern "C" fn(Data, c_uint) -> c_int,
    gettimeofday: extern "C" fn(Data, *mut libc::timeval, *mut c_void) -> c_int,
    epoll_create: extern "C" fn(Data, c_int) -> c_int,
    epoll_ctl: extern "C" fn(Data, c_int, c_int, c_int, *mut c_void) -> c_int,
    epoll_wait: extern "C" fn(Data, c_int, *mut c_void, c_int, c_int) -> c_int,
    pipe: extern "C" fn(Data, *mut c_int) -> c_int,
    splice: extern "C" fn(Data, c_int, *mut i64, c_int, *mut i64, size_t, c_uint) -> ssize_t,
}

/// Where packetdrill begins: fills in its table. A mistake in the flags ends the process with status 2.
#[unsafe(no_mangle)]
pub extern "C" fn packetdrill_interface_init(flags: *const c_char, interface: *mut Interface) {
    // SAFETY: packetdrill gives its `--so_flags`, a string of C's, or a null pointer.
    let flags = if flags.is_null() { c"" } else { unsafe { CStr::from_ptr(flags) } };
    let settings = Settings::parse(&flags.to_string_lossy()).unwrap_or_else(|error| {
        eprintln!("--so_flags: {error}");
        std::process::exit(2);
    });
    // SAFETY: packetdrill has not started the commands of the script; its second thread does not look at the environment. What it
    // starts is not to be preloaded.
    unsafe { std::env::remove_var("LD_PRELOAD") };
    SESSION.get_or_init(|| Session::new(settings));
    let table = Interface {
        userdata: std::ptr::null_mut(),
        free,
        socket,
        bind,
        listen,
        accept,
        connect,
        read,
        readv,
        recv,
        recvfrom,
        recvmsg,
        write,
        writev,
        send,
        sendto,
        sendmsg,
        fcntl,
        ioctl,
        close,
        shutdown,
        getsockopt,
        setsockopt,
        poll,
        netdev_send,
        netdev_receive,
        usleep,
        gettimeofday,
        epoll_create,
        epoll_ctl,
        epoll_wait,
        pipe,
        splice,
    };
    // SAFETY: packetdrill gives its own structure to be filled in.
    unsafe { interface.write(table) };
}

/// A copy of bytes of packetdrill's. None where they can not be read.
fn bytes_at(at: *const c_void, len: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0u8; len];
    if len == 0 {
        return if at.is_null() { None } else { Some(bytes) };
    }
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: len };
    let remote = libc::iovec { iov_base: at.cast_mut(), iov_len: len };
    // SAFETY: the kernel writes into `bytes` alone, and answers EFAULT for what can not be read.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    (copied == len as ssize_t).then_some(bytes)
}

/// Copies bytes to where packetdrill wants them.
fn copy_out(to: *mut c_void, bytes: &[u8]) {
    if !to.is_null() && !bytes.is_empty() {
        // SAFETY: packetdrill gave the buffer for as many bytes as the call can return, and the call has succeeded, so it is none of the
        // pointers that scripts break.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), bytes.len()) };
    }
}

fn value_at<T: Copy>(at: *const T) -> Option<T> {
    // SAFETY: a null pointer is refused; others point to a value that packetdrill keeps during the call.
    unsafe { at.as_ref() }.copied()
}

/// Puts an argument in place; a pointer that can not be read stays as it is.
fn put(arguments: &mut Arguments, at: *const c_void, len: usize) -> u64 {
    bytes_at(at, len).map_or(at as u64, |bytes| arguments.put(bytes))
}

/// Room for a result of packetdrill's; nowhere where that can not be written.
fn room(arguments: &mut Arguments, at: *const c_void, len: usize) -> u64 {
    if len > 0 && bytes_at(at, 1).is_none() { at as u64 } else { arguments.space(len) }
}

/// A result in C's way: -1 and errno.
fn answer(result: u64) -> i64 {
    if result > ERRNO_MAX.wrapping_neg() - 1 {
        // SAFETY: errno is this thread's own.
        unsafe { *libc::__errno_location() = -(result as i64) as c_int };
        return -1;
    }
    result as i64
}

/// A call of this number with these arguments.
fn call<const N: usize>(prepare: impl FnOnce(&mut Arguments) -> (u32, [u64; N])) -> i64 {
    call_for(
        |arguments| {
            let (number, args) = prepare(arguments);
            (number, args, ())
        },
        |(), _, _| (),
    )
}

/// A call, and what to do with its results if it succeeds.
fn call_for<const N: usize, P>(
    prepare: impl FnOnce(&mut Arguments) -> (u32, [u64; N], P),
    take: impl FnOnce(P, u64, &mut dyn FnMut(u64, &mut [u8])),
) -> i64 {
    let session = session().expect("a session, since packetdrill has the table");
    let prepare = |arguments: &mut Arguments| {
        let (number, given, prepared) = prepare(arguments);
        let mut args = [0; 6];
        args[..N].copy_from_slice(&given);
        (number, args, prepared)
    };
    answer(session.call(prepare, |prepared, result, read| {
        if result < ERRNO_MAX.wrapping_neg() {
            take(prepared, result, read);
        }
        result
    }))
}

extern "C" fn free(_: Data) {}

extern "C" fn socket(_: Data, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    call(|_| (nr::socket, [domain as u64, kind as u64, protocol as u64])) as c_int
}

extern "C" fn bind(_: Data, fd: c_int, addr: *const c_void, len: c_uint) -> c_int {
    call(|a| (nr::bind, [fd as u64, put(a, addr, len as usize), len.into()])) as c_int
}

extern "C" fn listen(_: Data, fd: c_int, backlog: c_int) -> c_int {
    call(|_| (nr::listen, [fd as u64, backlog as u64])) as c_int
}

/// A value whose room and length packetdrill gives and whose length the call changes: an address, an option.
struct Sized {
    at: u64,
    len_at: u64,
    to: *mut c_void,
    len_to: *mut c_uint,
}

impl Sized {
    fn prepare(arguments: &mut Arguments, to: *mut c_void, len_to: *mut c_uint) -> Sized {
        let Some(len) = value_at(len_to) else { return Sized { at: to as u64, len_at: 0, to, len_to } };
        let at = match bytes_at(to, (len as i32).max(0) as usize) {
            Some(bytes) => arguments.put(bytes),
            None => to as u64,
        };
        Sized { at, len_at: arguments.put(len.to_ne_bytes().to_vec()), to, len_to }
    }

    fn take(self, read: &mut dyn FnMut(u64, &mut [u8])) {
        let Some(room) = value_at(self.len_to).filter(|_| self.at != self.to as u64) else { return };
        let mut len = [0; 4];
        read(self.len_at, &mut len);
        let mut value = vec![0; room.min(u32::from_ne_bytes(len)) as usize];
        read(self.at, &mut value);
        copy_out(self.to, &value);
        copy_out(self.len_to.cast(), &len);
    }
}

extern "C" fn accept(_: Data, fd: c_int, addr: *mut c_void, len: *mut c_uint) -> c_int {
    let prepare = |a: &mut Arguments| {
        let name = Sized::prepare(a, addr, len);
        (nr::accept, [fd as u64, name.at, name.len_at], name)
    };
    call_for(prepare, |name, _, read| name.take(read)) as c_int
}

extern "C" fn connect(_: Data, fd: c_int, addr: *const c_void, len: c_uint) -> c_int {
    call(|a| (nr::connect, [fd as u64, put(a, addr, len as usize), len.into()])) as c_int
}

extern "C" fn read(_: Data, fd: c_int, buf: *mut c_void, count: size_t) -> ssize_t {
    let prepare = |a: &mut Arguments| {
        let at = room(a, buf, count);
        (nr::read, [fd as u64, at, count as u64], at)
    };
    call_for(prepare, |at, result, read| fetch(read, at, buf, result as usize)) as ssize_t
}

/// Copies a result of the call from the simulated process to packetdrill.
fn fetch(read: &mut dyn FnMut(u64, &mut [u8]), at: u64, to: *mut c_void, len: usize) {
    if at != to as u64 {
        let mut bytes = vec![0; len];
        read(at, &mut bytes);
        copy_out(to, &bytes);
    }
}

extern "C" fn recv(_: Data, fd: c_int, buf: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    recvfrom(std::ptr::null_mut(), fd, buf, len, flags, std::ptr::null_mut(), std::ptr::null_mut())
}

extern "C" fn recvfrom(
    _: Data,
    fd: c_int,
    buf: *mut c_void,
    len: size_t,
    flags: c_int,
    addr: *mut c_void,
    addr_len: *mut c_uint,
) -> ssize_t {
    let prepare = |a: &mut Arguments| {
        let at = room(a, buf, len);
        let name = Sized::prepare(a, addr, addr_len);
        let call = [fd as u64, at, len as u64, flags as u64, name.at, name.len_at];
        (nr::recvfrom, call, (at, name))
    };
    let take = |(at, name): (u64, Sized), result, read: &mut dyn FnMut(u64, &mut [u8])| {
        // With MSG_TRUNC more may be returned than was there room for, and nothing be stored.
        fetch(read, at, buf, len.min(result as usize));
        name.take(read);
    };
    call_for(prepare, take) as ssize_t
}

/// A vector of buffers: where it lies, and where each buffer does, with packetdrill's own place of it.
struct Vector {
    at: u64,
    buffers: Vec<(u64, *mut c_void, usize)>,
}

impl Vector {
    /// With the bytes in them if the call reads them.
    fn prepare(arguments: &mut Arguments, iov: *const libc::iovec, count: usize, with_bytes: bool) -> Vector {
        let Some(raw) = bytes_at(iov.cast(), count.saturating_mul(size_of::<libc::iovec>())) else {
            return Vector { at: iov as u64, buffers: Vec::new() };
        };
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        let (mut buffers, mut guest) = (Vec::new(), Vec::new());
        for entry in raw.chunks_exact(16) {
            let (base, len) = (word(&entry[..8]) as *mut c_void, word(&entry[8..]) as usize);
            let at = if with_bytes { put(arguments, base, len) } else { room(arguments, base, len) };
            buffers.push((at, base, len));
            guest.extend(at.to_ne_bytes());
            guest.extend((len as u64).to_ne_bytes());
        }
        Vector { at: arguments.put(guest), buffers }
    }

    /// Copies what a call stored.
    fn take(&self, read: &mut dyn FnMut(u64, &mut [u8]), mut total: usize) {
        for (at, to, len) in &self.buffers {
            let part = total.min(*len);
            fetch(read, *at, *to, part);
            total -= part;
        }
    }
}

extern "C" fn readv(_: Data, fd: c_int, iov: *const libc::iovec, count: c_int) -> ssize_t {
    let prepare = |a: &mut Arguments| {
        let vector = Vector::prepare(a, iov, count.max(0) as usize, false);
        (nr::readv, [fd as u64, vector.at, count as u64], vector)
    };
    call_for(prepare, |vector, result, read| vector.take(read, result as usize)) as ssize_t
}

extern "C" fn writev(_: Data, fd: c_int, iov: *const libc::iovec, count: c_int) -> ssize_t {
    call(|a| {
        let vector = Vector::prepare(a, iov, count.max(0) as usize, true);
        (nr::writev, [fd as u64, vector.at, count as u64])
    }) as ssize_t
}

/// `struct msghdr` of the kernel, which lies in packetdrill's memory and in that of the simulated process.
struct Message {
    at: u64,
    name: u64,
    vector: Vector,
    control: u64,
}

impl Message {
    /// The header's words: name, its length, vector, its count, control, its length, flags.
    const BYTES: usize = 56;

    fn prepare(arguments: &mut Arguments, header: &libc::msghdr, sends: bool) -> Message {
        let vector = Vector::prepare(arguments, header.msg_iov, header.msg_iovlen, sends);
        let name = put(arguments, header.msg_name, header.msg_namelen as usize);
        let control = put(arguments, header.msg_control, header.msg_controllen);
        let words = [
            name,
            header.msg_namelen.into(),
            vector.at,
            header.msg_iovlen as u64,
            control,
            header.msg_controllen as u64,
            header.msg_flags as u64,
        ];
        let at = arguments.put(words.iter().flat_map(|word| word.to_ne_bytes()).collect());
        Message { at, name, vector, control }
    }

    fn take(&self, read: &mut dyn FnMut(u64, &mut [u8]), header: &mut libc::msghdr, total: usize) {
        self.vector.take(read, total);
        let mut words = [0; Self::BYTES];
        read(self.at, &mut words);
        let word = |at: usize| u64::from_ne_bytes(words[8 * at..8 * at + 8].try_into().expect("eight bytes"));
        let (name_len, control_len) = (word(1) as c_uint, word(5) as usize);
        fetch(read, self.name, header.msg_name, name_len.min(header.msg_namelen) as usize);
        fetch(read, self.control, header.msg_control, control_len.min(header.msg_controllen));
        header.msg_namelen = name_len;
        header.msg_controllen = control_len;
        header.msg_flags = word(6) as c_int;
    }
}

extern "C" fn recvmsg(_: Data, fd: c_int, header: *mut libc::msghdr, flags: c_int) -> ssize_t {
    // SAFETY: packetdrill gives a header of its own, which nobody else uses during the call.
    let Some(header) = (unsafe { header.as_mut() }) else {
        return call(|_| (nr::recvmsg, [fd as u64, 0, flags as u64])) as ssize_t;
    };
    let given = *header;
    let prepare = |a: &mut Arguments| {
        let message = Message::prepare(a, &given, false);
        (nr::recvmsg, [fd as u64, message.at, flags as u64], message)
    };
    call_for(prepare, |message, result, read| message.take(read, header, result as usize)) as ssize_t
}

extern "C" fn write(_: Data, fd: c_int, buf: *const c_void, count: size_t) -> ssize_t {
    call(|a| (nr::write, [fd as u64, put(a, buf, count), count as u64])) as ssize_t
}

extern "C" fn send(_: Data, fd: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    sendto(std::ptr::null_mut(), fd, buf, len, flags, std::ptr::null(), 0)
}

extern "C" fn sendto(
    _: Data,
    fd: c_int,
    buf: *const c_void,
    len: size_t,
    flags: c_int,
    addr: *const c_void,
    addr_len: c_uint,
) -> ssize_t {
    call(|a| {
        let (data, name) = (put(a, buf, len), put(a, addr, addr_len as usize));
        (nr::sendto, [fd as u64, data, len as u64, flags as u64, name, addr_len.into()])
    }) as ssize_t
}

extern "C" fn sendmsg(_: Data, fd: c_int, header: *const libc::msghdr, flags: c_int) -> ssize_t {
    call(|a| {
        let message = value_at(header).map_or(0, |header| Message::prepare(a, &header, true).at);
        (nr::sendmsg, [fd as u64, message, flags as u64])
    }) as ssize_t
}

/// A variable argument is passed as a fixed one is; one that is not given is not looked at.
extern "C" fn fcntl(_: Data, fd: c_int, command: c_int, argument: c_long) -> c_int {
    call(|_| (nr::fcntl, [fd as u64, command as u64, argument as u64])) as c_int
}

/// As for `fcntl`; scripts ask for numbers.
extern "C" fn ioctl(_: Data, fd: c_int, request: c_ulong, argument: *mut c_int) -> c_int {
    let prepare = |a: &mut Arguments| {
        let at = put(a, argument.cast_const().cast(), size_of::<c_int>());
        (nr::ioctl, [fd as u64, request, at], at)
    };
    call_for(prepare, |at, _, read| fetch(read, at, argument.cast(), size_of::<c_int>())) as c_int
}

pub extern "C" fn close(_: Data, fd: c_int) -> c_int {
    call(|_| (nr::close, [fd as u64])) as c_int
}

extern "C" fn shutdown(_: Data, fd: c_int, how: c_int) -> c_int {
    call(|_| (nr::shutdown, [fd as u64, how as u64])) as c_int
}

pub extern "C" fn getsockopt(
    _: Data,
    fd: c_int,
    level: c_int,
    option: c_int,
    value: *mut c_void,
    len: *mut c_uint,
) -> c_int {
    let prepare = |a: &mut Arguments| {
        let answer = Sized::prepare(a, value, len);
        (nr::getsockopt, [fd as u64, level as u64, option as u64, answer.at, answer.len_at], answer)
    };
    call_for(prepare, |answer, _, read| answer.take(read)) as c_int
}

extern "C" fn setsockopt(_: Data, fd: c_int, level: c_int, option: c_int, value: *const c_void, len: c_uint) -> c_int {
    call(|a| {
        let at = put(a, value, (len as c_int).max(0) as usize);
        (nr::setsockopt, [fd as u64, level as u64, option as u64, at, len.into()])
    }) as c_int
}

extern "C" fn poll(_: Data, fds: *mut c_void, count: c_ulong, timeout: c_int) -> c_int {
    let len = count as usize * size_of::<libc::pollfd>();
    let prepare = |a: &mut Arguments| {
        let at = put(a, fds, len);
        (nr::poll, [at, count, timeout as u64], at)
    };
    call_for(prepare, |at, _, read| fetch(read, at, fds, len)) as c_int
}

extern "C" fn netdev_send(_: Data, buf: *const c_void, count: size_t) -> c_int {
    let (Some(session), Some(bytes)) = (session(), bytes_at(buf, count)) else { return -1 };
    session.packet_arrives(&bytes);
    0
}

/// No packet for long is one of no bytes, which packetdrill can not read, so it ends with an error. It would ask again for ever otherwise.
extern "C" fn netdev_receive(_: Data, buf: *mut c_void, count: *mut size_t, time_usecs: *mut i64) -> c_int {
    let (Some(session), Some(room)) = (session(), value_at(count)) else { return -1 };
    let packet = session.packet_leaves();
    if packet.is_none() {
        eprintln!("Timed out waiting for packet");
    }
    let (at, bytes) = packet.unwrap_or_default();
    if bytes.len() > room {
        return -1;
    }
    copy_out(buf, &bytes);
    // SAFETY: both are packetdrill's own variables, there for this.
    unsafe {
        count.write(bytes.len());
        time_usecs.write(micros(at));
    }
    0
}

/// The clock that packetdrill sees: any will do that counts microseconds.
fn micros(at: base::SimTime) -> i64 {
    (at.as_nanos() / 1000) as i64
}

extern "C" fn usleep(_: Data, time: c_uint) -> c_int {
    if let Some(session) = session() {
        session.sleep(SimDuration::from_micros(time.into()));
    }
    0
}

extern "C" fn gettimeofday(_: Data, time: *mut libc::timeval, _: *mut c_void) -> c_int {
    let now = session().map_or(0, |session| micros(session.clock()));
    // SAFETY: packetdrill's own variable, there for this.
    unsafe { time.write(libc::timeval { tv_sec: now / 1_000_000, tv_usec: now % 1_000_000 }) };
    0
}

extern "C" fn epoll_create(_: Data, size: c_int) -> c_int {
    call(|_| (nr::epoll_create, [size as u64])) as c_int
}

extern "C" fn epoll_ctl(_: Data, epfd: c_int, op: c_int, fd: c_int, event: *mut c_void) -> c_int {
    call(|a| {
        let at = put(a, event, size_of::<libc::epoll_event>());
        (nr::epoll_ctl, [epfd as u64, op as u64, fd as u64, at])
    }) as c_int
}

extern "C" fn epoll_wait(_: Data, epfd: c_int, events: *mut c_void, most: c_int, timeout: c_int) -> c_int {
    let each = size_of::<libc::epoll_event>();
    let prepare = |a: &mut Arguments| {
        let at = room(a, events, most.max(0) as usize * each);
        (nr::epoll_wait, [epfd as u64, at, most as u64, timeout as u64], at)
    };
    call_for(prepare, |at, result, read| fetch(read, at, events, result as usize * each)) as c_int
}

extern "C" fn pipe(_: Data, fds: *mut c_int) -> c_int {
    let prepare = |a: &mut Arguments| {
        let at = a.space(8);
        (nr::pipe, [at], at)
    };
    call_for(prepare, |at, _, read| fetch(read, at, fds.cast(), 8)) as c_int
}

extern "C" fn splice(
    _: Data,
    fd_in: c_int,
    off_in: *mut i64,
    fd_out: c_int,
    off_out: *mut i64,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    // packetdrill gives the places of the numbers that the script wrote; to Linux it gives those numbers as the pointers.
    let (from, to) = (value_at(off_in).unwrap_or(0) as u64, value_at(off_out).unwrap_or(0) as u64);
    call(|_| (nr::splice, [fd_in as u64, from, fd_out as u64, to, len as u64, flags.into()])) as ssize_t
}

/// open(2), for `preload.rs`.
pub fn open(path: &CStr, flags: c_int, mode: c_uint) -> c_int {
    call(|a| {
        let at = a.put(path.to_bytes_with_nul().to_vec());
        (nr::open, [at, flags as u64, mode.into()])
    }) as c_int
}

/// sendfile(2), for `preload.rs`.
pub fn sendfile(to: c_int, from: c_int, offset: *mut i64, count: size_t) -> ssize_t {
    let prepare = |a: &mut Arguments| {
        let at = put(a, offset.cast_const().cast(), size_of::<i64>());
        (nr::sendfile, [to as u64, from as u64, at, count as u64], at)
    };
    call_for(prepare, |at, _, read| fetch(read, at, offset.cast(), size_of::<i64>())) as ssize_t
}
