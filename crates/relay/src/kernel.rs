//! What the kernel says of a TCP connection that is being sent to: the one place of this crate that needs `unsafe`.
#![allow(unsafe_code, reason = "neither the standard library nor mio asks for TCP_INFO and SIOCOUTQNSD")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// What of tcp(7)'s TCP_INFO and SIOCOUTQNSD says how much can be sent at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sending {
    /// The congestion window, in segments.
    pub window: u32,
    /// Segments that were sent and not yet acknowledged.
    pub unacknowledged: u32,
    /// Bytes of a segment.
    pub segment: u32,
    /// Bytes in the kernel that were not yet sent.
    pub unsent: u32,
}

/// `linux/sockios.h`'s, which libc lacks.
const SIOCOUTQNSD: libc::c_ulong = 0x894b;

fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<libc::tcp_info> {
    let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `info`, which has as many, and to `length`.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if got != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is made of integers, all of which were zero at least.
    Ok(unsafe { info.assume_init() })
}

/// Bytes of the longest packet on a connection's way, as far as the kernel knows it (IP_MTU, ip(7)).
pub fn mtu(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let (mut mtu, mut length): (libc::c_int, _) = (0, size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the kernel writes at most `length` bytes to `mtu`, which has as many, and to `length`.
    let got = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_MTU, (&raw mut mtu).cast(), &raw mut length)
    };
    if got != 0 {
        return Err(io::Error::last_os_error());
    }
    u32::try_from(mtu).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Segments that a connection has sent again since it began.
pub fn retransmitted(socket: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(tcp_info(socket)?.tcpi_total_retrans)
}

impl Sending {
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Sending> {
        let info = tcp_info(socket)?;
        let mut unsent: libc::c_int = 0;
        // SAFETY: the kernel writes one int.
        if unsafe { libc::ioctl(socket.as_raw_fd(), SIOCOUTQNSD as _, &raw mut unsent) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Sending {
            window: info.tcpi_snd_cwnd,
            unacknowledged: info.tcpi_unacked,
            segment: info.tcpi_snd_mss,
            unsent: u32::try_from(unsent).unwrap_or_default(),
        })
    }

    /// Bytes that KIST lets the kernel have besides what it has: what it can send now, and a window for when that is acknowledged
    /// (Jansen and others, "KIST: Kernel-Informed Socket Transport for Tor", TOPS 2018, with tor's factor of 1).
    pub fn limit(self) -> u64 {
        let space = u64::from(self.window.saturating_sub(self.unacknowledged)) * u64::from(self.segment);
        let window = u64::from(self.window) * u64::from(self.segment);
        (space + window).saturating_sub(self.unsent.into())
    }
}

/// Bytes that KIST of 2014 gives the kernel: what its buffer has room for, and TCP can send at once (Jansen and others, "Never Been KIST", USENIX
/// Security 2014; the code that IMUX was evaluated with).
pub fn limit_2014(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let info = tcp_info(socket)?;
    let (mut buffer, mut length): (libc::c_int, _) = (0, size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the kernel writes at most `length` bytes to `buffer`, which has as many, and to `length`.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_SNDBUF,
            (&raw mut buffer).cast(),
            &raw mut length,
        )
    };
    if got != 0 {
        return Err(io::Error::last_os_error());
    }
    let room = u64::try_from(buffer).unwrap_or_default().saturating_sub(queued(socket)? as u64);
    let window = u64::from(info.tcpi_snd_cwnd.saturating_sub(info.tcpi_unacked)) * u64::from(info.tcpi_snd_mss);
    Ok(room.min(window))
}

/// Bytes in the kernel that were not yet sent or not yet acknowledged: SIOCOUTQ, which is TIOCOUTQ for sockets (tcp(7)).
pub fn queued(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one int.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(usize::try_from(bytes).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn a_window_may_wait_behind_what_can_be_sent() {
        let idle = Sending { window: 10, unacknowledged: 0, segment: 1000, unsent: 0 };
        assert_eq!(idle.limit(), 20_000);
        assert_eq!(Sending { unacknowledged: 4, ..idle }.limit(), 16_000);
        assert_eq!(Sending { unacknowledged: 10, unsent: 9_000, ..idle }.limit(), 1_000);
        assert_eq!(Sending { unacknowledged: 12, unsent: 10_001, ..idle }.limit(), 0, "too much is there already");
    }

    #[test]
    fn the_kernel_tells() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let sending = Sending::of(sender.as_fd()).unwrap();
        assert!(sending.window >= 1 && sending.segment >= 500, "{sending:?}");
        assert_eq!(sending.unsent, 0);
        let window = u64::from(sending.window) * u64::from(sending.segment);
        let limit = limit_2014(sender.as_fd()).unwrap();
        assert!(limit > 0 && limit <= window, "{limit} of {window}");
        assert!(mtu(sender.as_fd()).unwrap() >= 576);
        // Nobody reads: what the receiver has no room for stays unsent.
        sender.set_nonblocking(true).unwrap();
        while sender.write(&[0; 65_536]).is_ok() {}
        assert!(Sending::of(sender.as_fd()).unwrap().unsent > 0);
        assert!(limit_2014(sender.as_fd()).unwrap() < limit, "its buffer is full, or its window");
        assert!(Sending::of(std::fs::File::open("/dev/null").unwrap().as_fd()).is_err());
    }
}
