//! Differences that are known, each with its reason. A program is explained by the first line on which the two sides differ, if that is the
//! result of a call named here; what comes after it follows from it.

/// A difference: the call, what it returns natively and as a guest ("" for anything), and why.
struct Known {
    calls: &'static [&'static str],
    native: &'static str,
    guest: &'static str,
    /// What the line must contain.
    with: &'static str,
    reason: &'static str,
}

const fn known(
    calls: &'static [&'static str],
    [native, guest]: [&'static str; 2],
    with: &'static str,
    reason: &'static str,
) -> Known {
    Known { calls, native, guest, with, reason }
}

const ORDER: &str = "several mistakes at once: which of them a call reports first";

const MADE_OF: &[&str] = &["write", "writev", "sendto", "sendmsg", "pwrite64"];
const PATHS: &[&str] = &["linkat", "symlinkat", "mkdirat", "mknodat", "renameat", "renameat2", "openat", "newfstatat"];
const CALLS_OF_SOCKETS: &[&str] =
    &["sendto", "sendmsg", "bind", "connect", "listen", "setsockopt", "getsockopt", "accept4"];

const KNOWN: &[Known] = &[
    known(&["mmap"], ["-EEXIST", "-EINVAL"], "", ORDER),
    known(PATHS, ["-EEXIST", "-ENOTDIR"], "", ORDER),
    known(PATHS, ["-ENOTDIR", "-ENAMETOOLONG"], "", ORDER),
    known(PATHS, ["-ENOENT", "-ENAMETOOLONG"], "", ORDER),
    known(PATHS, ["-ENOTDIR", "-EFAULT"], "", ORDER),
    known(PATHS, ["-EBADF", "-ENAMETOOLONG"], "", ORDER),
    known(&["epoll_ctl"], ["-EINVAL", "-ENOENT"], " 3 ", ORDER),
    known(&["sendfile"], ["-ESPIPE", ""], "", ORDER),
    known(&["madvise"], ["0", "-EINVAL"], " 18", "MADV_WIPEONFORK is refused"),
    known(PATHS, ["-EBADF", "-EFAULT"], "", ORDER),
    known(&["fcntl"], ["-EPERM", "-EINVAL"], " 1033 ", ORDER),
    known(&["lseek"], ["-EINVAL", "-ESPIPE"], "", ORDER),
    known(CALLS_OF_SOCKETS, ["-EISCONN", "-EAFNOSUPPORT"], "", ORDER),
    known(CALLS_OF_SOCKETS, ["-ECONNREFUSED", "-EISCONN"], "", ORDER),
    known(CALLS_OF_SOCKETS, ["-EADDRINUSE", "-EINVAL"], "", ORDER),
    known(CALLS_OF_SOCKETS, ["-EDESTADDRREQ", "-EFAULT"], "", ORDER),
    known(CALLS_OF_SOCKETS, ["-EDESTADDRREQ", "-EPIPE"], "", ORDER),
    known(CALLS_OF_SOCKETS, ["-EINVAL", "-ENOTCONN"], "", ORDER),
    known(CALLS_OF_SOCKETS, ["-ENOTCONN", "-EINVAL"], "", ORDER),
    known(CALLS_OF_SOCKETS, ["-ENOPROTOOPT", "-EOPNOTSUPP"], "", ORDER),
    known(MADE_OF, ["-EFAULT", ""], "!e1", "of memory that ends within a buffer, what is there is taken"),
    known(&["ioctl"], ["0", "-ENOTTY"], " 0x541b ", "queues are no files of 80 bytes"),
];

/// Why a program may print something else as a guest; None if nothing explains it.
pub fn reason(program: &[String], native: &str, guest: &str) -> Option<&'static str> {
    let (native, guest) = native.lines().zip(guest.lines()).find(|(native, guest)| native != guest)?;
    let (number, native) = result(native)?;
    let (other, guest) = result(guest)?;
    if number != other {
        return None;
    }
    let line = program.get(number)?;
    let call = line.split(' ').nth(1)?.split(':').next()?;
    let fits = |known: &&Known| {
        known.calls.contains(&call)
            && native.starts_with(known.native)
            && guest.starts_with(known.guest)
            && line.contains(known.with)
    };
    KNOWN.iter().find(fits).map(|known| known.reason)
}

/// The number of a line and what it returned, at once or later.
fn result(text: &str) -> Option<(usize, &str)> {
    let (head, result) = text.trim_start().split_once(" = ")?;
    Some((head.split(' ').next()?.parse().ok()?, result))
}
