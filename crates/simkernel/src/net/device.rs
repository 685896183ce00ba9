//! Interfaces as programs bind sockets to them, and name them beside datagrams (SO_BINDTODEVICE,
//! IP_PKTINFO).

use super::errno;
use super::options::set_in_stack;
use crate::ctx::Ctx;
use linux_abi::Errno;
use linux_abi::capability::CAP_NET_RAW;
use tcpip::{Interface, OptionName, SocketId, SocketOption};

/// The interface of an index; 0 is none. ENODEV.
pub(super) fn of_index(index: i32) -> Result<Option<Interface>, Errno> {
    match index {
        0 => Ok(None),
        _ => Interface::of_index(index as u32).map(Some).ok_or(Errno::ENODEV),
    }
}

/// SO_BINDTODEVICE, by the interface's index. Without CAP_NET_RAW it can be set once. EPERM,
/// EINVAL, ENODEV (`sock_bindtoindex_locked`).
pub(super) fn bind(ctx: &mut Ctx<'_>, id: SocketId, index: i32) -> Result<(), Errno> {
    let before = ctx.kernel.net.stack.option(id, OptionName::Device).map_err(errno)?;
    if before != SocketOption::Device(None) && !ctx.credentials().can(CAP_NET_RAW) {
        return Err(Errno::EPERM);
    }
    if index < 0 {
        return Err(Errno::EINVAL);
    }
    set_in_stack(ctx, id, SocketOption::Device(of_index(index)?))
}

/// The index of a socket's device; 0 of none.
pub(super) fn index_of(option: SocketOption) -> i32 {
    match option {
        SocketOption::Device(Some(interface)) => interface.index() as i32,
        _ => 0,
    }
}
