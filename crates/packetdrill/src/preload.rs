//! Functions of the C library that packetdrill calls past its interface: preloaded (`LD_PRELOAD`), this shared object answers them. What is
//! not meant for the host under test is done as the C library would; `socket` alone is for runs against the machine's Linux.

#![allow(unsafe_code)]

use crate::interface::{self, session};
use libc::{c_char, c_int, c_long, c_uint, c_void, size_t, ssize_t};
use std::ffi::CStr;
use std::sync::atomic::{AtomicI64, Ordering};

/// packetdrill keeps all of its memory in the machine's: with a guest's arenas that would be terabytes.
#[unsafe(no_mangle)]
pub extern "C" fn mlockall(_: c_int) -> c_int {
    0
}

/// A script's commands are no guests, for whom reading the time-stamp counter is trapped: that would outlive the exec, and kill the shell.
#[unsafe(no_mangle)]
pub extern "C" fn system(command: *const c_char) -> c_int {
    let mut trapped: c_int = 0;
    // SAFETY: the C library has this function, of this type; the counter's state is this thread's own, and as before when it returns.
    unsafe {
        let original = libc::dlsym(libc::RTLD_NEXT, c"system".as_ptr());
        if original.is_null() {
            return -1;
        }
        let original: extern "C" fn(*const c_char) -> c_int = std::mem::transmute(original);
        libc::prctl(libc::PR_GET_TSC, &raw mut trapped);
        libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_ENABLE);
        let status = original(command);
        libc::prctl(libc::PR_SET_TSC, trapped);
        status
    }
}

/// packetdrill looks at this clock until it has moved ten times, to begin in the midst of a tick. Here there are no real ticks.
#[unsafe(no_mangle)]
pub extern "C" fn times(_: *mut c_void) -> c_long {
    static TICKS: AtomicI64 = AtomicI64::new(0);
    TICKS.fetch_add(1, Ordering::Relaxed)
}

/// A script's files are the simulated host's; what packetdrill itself reads lies below /proc and /dev.
#[unsafe(no_mangle)]
pub extern "C" fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: a string of C's, as open(2) wants it; a script can not give another.
    let name = unsafe { CStr::from_ptr(path) };
    let own = [&b"/proc/"[..], b"/dev/"].iter().any(|folder| name.to_bytes().starts_with(folder));
    if session().is_some() && !own {
        return interface::open(name, flags, mode);
    }
    // SAFETY: what the C library does.
    unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags, mode) as c_int }
}

#[unsafe(no_mangle)]
pub extern "C" fn sendfile(to: c_int, from: c_int, offset: *mut i64, count: size_t) -> ssize_t {
    if session().is_some() {
        return interface::sendfile(to, from, offset, count);
    }
    // SAFETY: what the C library does.
    unsafe { libc::syscall(libc::SYS_sendfile, to, from, offset, count) as ssize_t }
}

/// For TCP_INFO, which packetdrill asks for when a script has code to check it.
#[unsafe(no_mangle)]
pub extern "C" fn getsockopt(fd: c_int, level: c_int, option: c_int, value: *mut c_void, len: *mut c_uint) -> c_int {
    if session().is_some() {
        return interface::getsockopt(std::ptr::null_mut(), fd, level, option, value, len);
    }
    // SAFETY: what the C library does.
    unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, option, value, len) as c_int }
}

/// For the machine's own TCP, which may be set to something that the simulated one does not speak: whoever is preloaded there gets CUBIC. In a
/// network namespace of its own, the sysctl takes only what the whole machine allows.
#[unsafe(no_mangle)]
pub extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: what the C library does.
    let fd = unsafe { libc::syscall(libc::SYS_socket, domain, kind, protocol) as c_int };
    let is_inet = matches!(domain, libc::AF_INET | libc::AF_INET6);
    if fd >= 0 && is_inet && kind & 0xf == libc::SOCK_STREAM {
        let name = b"cubic";
        let (at, len) = (name.as_ptr(), name.len());
        // SAFETY: the kernel reads `name` alone. Where it has no CUBIC, the default stays.
        unsafe { libc::syscall(libc::SYS_setsockopt, fd, libc::SOL_TCP, libc::TCP_CONGESTION, at, len) };
    }
    fd
}
