//! Level SOL_TCP (tcp(7), `do_tcp_setsockopt`, `do_tcp_getsockopt`).

use super::kept::{REFUSED, Rule};
use super::table::{self, set_in_stack};
use super::tcp_info::tcp_info;
use super::value::{Place, number, read_number, read_text};
use crate::ctx::Ctx;
use crate::ids::FileId;
use crate::net::errno;
use crate::outcome::{Outcome, SysResult};
use linux_abi::Errno;
use linux_abi::capability::CAP_NET_ADMIN;
use linux_abi::socket::*;
use tcpip::{CongestionControl, OptionName, SocketId, SocketOption, TcpState};
use zerocopy::IntoBytes;

/// TCP_CA_NAME_MAX and TCP_ULP_NAME_MAX.
const NAME_MAX: usize = 16;
/// TCP_FASTOPEN_KEY_LENGTH; two of them may be set.
const KEY_BYTES: usize = 16;
/// `sizeof(struct tcp_md5sig)`.
const MD5_SIGNATURE: usize = 216;
/// `sizeof(struct tcp_repair_window)`.
const REPAIR_WINDOW: usize = 20;
/// How much of `struct tcp_zerocopy_receive` is read at least.
const ZEROCOPY_LEAST: usize = 12;
/// TCP_DELACK_MAX, in microseconds.
const DELAYED_ACK_MAX: i32 = 200_000;
/// The least that timers take: more than a tick of a kernel with 1,000 in a second, in microseconds.
const LEAST_TIMER: i32 = 1_001;

/// setsockopt(2).
pub(super) fn set(ctx: &mut Ctx<'_>, file: FileId, option: i32, value: u64, len: usize) -> Result<(), Outcome> {
    let id = ctx.inet(file)?.id;
    match option {
        TCP_CONGESTION | TCP_ULP if len == 0 => Err(Errno::EINVAL.into()),
        TCP_CONGESTION => {
            let name = read_text(&ctx.process.memory, value, len.min(NAME_MAX - 1))?;
            Ok(set_in_stack(ctx, id, SocketOption::Congestion(congestion_control(&name)?))?)
        }
        TCP_ULP => read_text(&ctx.process.memory, value, len.min(NAME_MAX - 1)).and(Err(Errno::ENOENT.into())),
        TCP_FASTOPEN_KEY if len != KEY_BYTES && len != 2 * KEY_BYTES => Err(Errno::EINVAL.into()),
        TCP_FASTOPEN_KEY => {
            ctx.process.memory.read(value, &mut [0; 2 * KEY_BYTES][..len])?;
            Err(REFUSED.into())
        }
        _ => {
            let number = read_number(&ctx.process.memory, value, len)?;
            match option {
                TCP_MD5SIG | TCP_MD5SIG_EXT if len < MD5_SIGNATURE => Err(Errno::EINVAL.into()),
                _ => Ok(set_number(ctx, file, option, number)?),
            }
        }
    }
}

fn set_number(ctx: &mut Ctx<'_>, file: FileId, option: i32, number: i32) -> Result<(), Errno> {
    let id = ctx.inet(file)?.id;
    match option {
        TCP_FASTOPEN | TCP_FASTOPEN_NO_COOKIE if !is_idle(ctx, id)? => Err(Errno::EINVAL),
        TCP_FASTOPEN => {
            // A queue of connections, whose length the system bounds (`fastopen_queue_tune`).
            let somaxconn = ctx.kernel.net.stack.config().somaxconn as i32;
            table::set(ctx, file, SOL_TCP, option, number.min(somaxconn))
        }
        // As where net.ipv4.tcp_fastopen has clients without it.
        TCP_FASTOPEN_CONNECT if !is_closed(ctx, id)? => Err(Errno::EINVAL),
        TCP_FASTOPEN_CONNECT if number == 1 => Err(Errno::EOPNOTSUPP),
        TCP_THIN_DUPACK => Rule::Bit.accept(number).map(|_| ()),
        TCP_REPAIR | TCP_AO_REPAIR if !may_repair(ctx, id) => Err(Errno::EPERM),
        // -1 switches it off without a probe of the peer's window.
        TCP_REPAIR if number == -1 => Ok(()),
        // What only a socket under repair has.
        TCP_REPAIR_QUEUE | TCP_TIMESTAMP | TCP_REPAIR_WINDOW => Err(Errno::EPERM),
        TCP_REPAIR_OPTIONS => Err(Errno::EINVAL),
        TCP_QUEUE_SEQ if is_closed(ctx, id)? => Err(Errno::EINVAL),
        TCP_QUEUE_SEQ => Err(Errno::EPERM),
        TCP_RTO_MAX_MS => only(bounds(ctx).1, 1_000, 120_000, number),
        TCP_RTO_MIN_US => only(bounds(ctx).0, LEAST_TIMER, 200_000, number),
        TCP_DELACK_MAX_US => only(DELAYED_ACK_MAX, LEAST_TIMER, DELAYED_ACK_MAX, number),
        _ => table::set(ctx, file, SOL_TCP, option, number),
    }
}

/// A time that sockets do not have of their own. EINVAL, ENOPROTOOPT.
fn only(value: i32, least: i32, most: i32, number: i32) -> Result<(), Errno> {
    Rule::Only { only: value, least, most }.accept(number).map(|_| ())
}

/// Between which times segments are sent again: the least in microseconds, the most in milliseconds.
fn bounds(ctx: &Ctx<'_>) -> (i32, i32) {
    let config = ctx.kernel.net.stack.config();
    (config.rto_min.as_micros() as i32, config.rto_max.as_millis() as i32)
}

fn state(ctx: &mut Ctx<'_>, id: SocketId) -> Result<TcpState, Errno> {
    Ok(ctx.kernel.net.stack.tcp_info(ctx.now, id).map_err(errno)?.state)
}

/// Whether a stream has no connection: it may listen.
fn is_idle(ctx: &mut Ctx<'_>, id: SocketId) -> Result<bool, Errno> {
    Ok(matches!(state(ctx, id)?, TcpState::Close | TcpState::Listen))
}

fn is_closed(ctx: &mut Ctx<'_>, id: SocketId) -> Result<bool, Errno> {
    Ok(state(ctx, id)? == TcpState::Close)
}

/// `tcp_can_repair_sock`.
fn may_repair(ctx: &mut Ctx<'_>, id: SocketId) -> bool {
    ctx.credentials().can(CAP_NET_ADMIN) && !ctx.kernel.net.stack.is_listening(id)
}

fn congestion_control(name: &[u8]) -> Result<CongestionControl, Errno> {
    match name {
        b"cubic" => Ok(CongestionControl::Cubic),
        b"reno" => Ok(CongestionControl::Reno),
        _ => Err(Errno::ENOENT),
    }
}

/// getsockopt(2).
pub(super) fn get(ctx: &mut Ctx<'_>, file: FileId, option: i32, place: Place) -> SysResult {
    let id = ctx.inet(file)?.id;
    match option {
        TCP_INFO => {
            let info = ctx.kernel.net.stack.tcp_info(ctx.now, id).map_err(errno)?;
            place.store_len_first(&ctx.process.memory, tcp_info(&info).as_bytes())
        }
        TCP_CONGESTION => {
            let mut name = [0u8; NAME_MAX];
            let text: &[u8] = match ctx.kernel.net.stack.option(id, OptionName::Congestion).map_err(errno)? {
                SocketOption::Congestion(CongestionControl::Reno) => b"reno",
                _ => b"cubic",
            };
            name[..text.len()].copy_from_slice(text);
            place.store_len_first(&ctx.process.memory, &name)
        }
        // Nothing to show.
        TCP_CC_INFO | TCP_SAVED_SYN | TCP_ULP | TCP_FASTOPEN_KEY => place.store_len(&ctx.process.memory, 0),
        TCP_REPAIR_WINDOW if place.len != REPAIR_WINDOW => Err(Errno::EINVAL.into()),
        TCP_REPAIR_WINDOW => Err(Errno::EPERM.into()),
        TCP_REPAIR_QUEUE | TCP_QUEUE_SEQ => Err(Errno::EINVAL.into()),
        TCP_AO_REPAIR if !may_repair(ctx, id) => Err(Errno::EPERM.into()),
        TCP_ZEROCOPY_RECEIVE => {
            // There is no memory to map, wherever it is asked for.
            if place.len >= ZEROCOPY_LEAST {
                ctx.process.memory.read(place.value, &mut [0; ZEROCOPY_LEAST])?;
            }
            Err(Errno::EINVAL.into())
        }
        _ => {
            let shown = show(ctx, file, id, option)?;
            place.store_len_first(&ctx.process.memory, &number(shown))
        }
    }
}

fn show(ctx: &mut Ctx<'_>, file: FileId, id: SocketId, option: i32) -> Result<i32, Errno> {
    Ok(match option {
        TCP_SYNCNT => match table::stack_number(ctx, id, OptionName::SynCount)? {
            0 => ctx.kernel.net.stack.config().syn_retries as i32,
            set => set,
        },
        TCP_THIN_DUPACK => 0,
        TCP_RTO_MAX_MS => bounds(ctx).1,
        TCP_RTO_MIN_US => bounds(ctx).0,
        TCP_DELACK_MAX_US => DELAYED_ACK_MAX,
        // A clock of milliseconds; the lowest bit says that it is not one of microseconds.
        TCP_TIMESTAMP => (ctx.now.as_nanos() / 1_000_000) as i32 & !1,
        _ => table::show(ctx, file, SOL_TCP, option)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn congestion_controls_are_found_by_name() {
        assert_eq!(congestion_control(b"reno"), Ok(CongestionControl::Reno));
        assert_eq!(congestion_control(b"bbr"), Err(Errno::ENOENT));
    }

    #[test]
    fn times_of_the_system_cannot_be_changed() {
        assert_eq!(only(200_000, LEAST_TIMER, 200_000, 200_000), Ok(()));
        assert_eq!(only(200_000, LEAST_TIMER, 200_000, 50_000), Err(REFUSED));
        assert_eq!(only(200_000, LEAST_TIMER, 200_000, 0), Err(Errno::EINVAL));
    }
}
