//! Why a socket call failed: one variant per errno that Linux would return, named after it.

use std::fmt;

/// Maps one to one to Linux's errnos (see errno(3)); the simulated kernel does the mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketError {
    /// EADDRINUSE
    AddressInUse,
    /// EADDRNOTAVAIL
    AddressNotAvailable,
    /// EAFNOSUPPORT
    AddressFamilyNotSupported,
    /// ECONNABORTED
    ConnectionAborted,
    /// ECONNREFUSED
    ConnectionRefused,
    /// ECONNRESET
    ConnectionReset,
    /// EPIPE
    BrokenPipe,
    /// ETIMEDOUT
    TimedOut,
    /// ENOTCONN
    NotConnected,
    /// EISCONN
    IsConnected,
    /// EALREADY
    AlreadyInProgress,
    /// EINPROGRESS
    InProgress,
    /// EINVAL
    InvalidArgument,
    /// EMSGSIZE
    MessageTooLong,
    /// EHOSTUNREACH
    HostUnreachable,
    /// ENETUNREACH
    NetworkUnreachable,
    /// EAGAIN
    WouldBlock,
    /// EDESTADDRREQ
    DestinationRequired,
    /// EOPNOTSUPP
    NotSupported,
    /// EACCES
    PermissionDenied,
    /// ENOBUFS
    NoBufferSpace,
    /// ENOPROTOOPT
    NoSuchOption,
    /// EPROTO
    Protocol,
    /// EBADF: the id names no socket (any more)
    BadSocket,
}

impl fmt::Display for SocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SocketError::AddressInUse => "address already in use",
            SocketError::AddressNotAvailable => "address not available on this host",
            SocketError::AddressFamilyNotSupported => "address family not supported",
            SocketError::ConnectionAborted => "connection aborted",
            SocketError::ConnectionRefused => "connection refused",
            SocketError::ConnectionReset => "connection reset by peer",
            SocketError::BrokenPipe => "broken pipe",
            SocketError::TimedOut => "connection timed out",
            SocketError::NotConnected => "socket is not connected",
            SocketError::IsConnected => "socket is already connected",
            SocketError::AlreadyInProgress => "connection already in progress",
            SocketError::InProgress => "connection now in progress",
            SocketError::InvalidArgument => "invalid argument",
            SocketError::MessageTooLong => "message too long",
            SocketError::HostUnreachable => "host unreachable",
            SocketError::NetworkUnreachable => "network unreachable",
            SocketError::WouldBlock => "would block",
            SocketError::DestinationRequired => "destination address required",
            SocketError::NotSupported => "operation not supported",
            SocketError::PermissionDenied => "permission denied",
            SocketError::NoBufferSpace => "no buffer space",
            SocketError::NoSuchOption => "no such option",
            SocketError::Protocol => "protocol error",
            SocketError::BadSocket => "no such socket",
        })
    }
}

impl std::error::Error for SocketError {}
