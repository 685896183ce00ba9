//! When messages came: SO_TIMESTAMP and its relatives, and what SIOCGSTAMP tells (socket(7), time_stamps in the kernel's documents).

use super::message::{Message, push_control};
use super::options::Kept;
use base::SimTime;
use linux_abi::Errno;
use linux_abi::socket::{SO_TIMESTAMP, SO_TIMESTAMP_NEW, SO_TIMESTAMPNS, SO_TIMESTAMPNS_NEW, SOL_SOCKET};
use linux_abi::time::{Timespec, Timeval};
use zerocopy::IntoBytes;

/// The options, of which a socket has one at most: each replaces the one before, and each switches off whichever there is
/// (`sock_set_timestamp`).
const OPTIONS: [i32; 4] = [SO_TIMESTAMP, SO_TIMESTAMPNS, SO_TIMESTAMP_NEW, SO_TIMESTAMPNS_NEW];

pub(crate) fn is_option(option: i32) -> bool {
    OPTIONS.contains(&option)
}

/// The option that a socket has, if it has one.
fn wanted(kept: &Kept) -> Option<i32> {
    OPTIONS.into_iter().find(|option| kept.get(SOL_SOCKET, *option) == Some(1))
}

/// Whether a socket's messages come with their times.
pub(crate) fn is_wanted(kept: &Kept) -> bool {
    wanted(kept).is_some()
}

/// setsockopt(2) of one of the options.
pub(crate) fn set(kept: &mut Kept, option: i32, on: bool) {
    for other in OPTIONS {
        let value = i32::from(on && other == option);
        if value != 0 || kept.get(SOL_SOCKET, other).is_some() {
            kept.set(SOL_SOCKET, other, value);
        }
    }
}

/// Appends the control message that tells when a message came, in nanoseconds of the Unix epoch, if the socket wants to know.
pub(crate) fn tell(kept: &Kept, nanos: u64, space: usize, message: &mut Message) {
    let Some(option) = wanted(kept) else { return };
    let (secs, rest) = ((nanos / 1_000_000_000) as i64, (nanos % 1_000_000_000) as i64);
    // The new layouts are those of 32-bit programs with long times: the same bytes here.
    if matches!(option, SO_TIMESTAMPNS | SO_TIMESTAMPNS_NEW) {
        let time = Timespec { tv_sec: secs, tv_nsec: rest };
        push_control(message, space, SOL_SOCKET, option, time.as_bytes());
    } else {
        let time = Timeval { tv_sec: secs, tv_usec: rest / 1000 };
        push_control(message, space, SOL_SOCKET, option, time.as_bytes());
    }
}

/// What SIOCGSTAMP tells of the last datagram that was read (`sock_gettstamp`). The first question only makes the socket keep it.
#[derive(Clone, Copy, Default, Debug)]
pub struct Stamp {
    keeps: bool,
    last: Option<Came>,
}

#[derive(Clone, Copy, Debug)]
enum Came {
    /// Before the socket kept it.
    Unknown,
    At(SimTime),
}

impl Stamp {
    /// A datagram was read. One with its time beside it leaves nothing here.
    pub fn received(&mut self, kept: &Kept, at: SimTime) {
        if is_wanted(kept) {
            return;
        }
        if self.keeps {
            self.last = Some(Came::At(at));
        } else if self.last.is_none() {
            self.last = Some(Came::Unknown);
        }
    }

    /// The moment; that of the question where nobody knows. ENOENT when nothing was read.
    pub fn get(&mut self, now: SimTime) -> Result<SimTime, Errno> {
        self.keeps = true;
        let at = match self.last.ok_or(Errno::ENOENT)? {
            Came::At(at) => at,
            Came::Unknown => now,
        };
        self.last = Some(Came::At(at));
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::message::controls;
    use linux_abi::socket::MSG_CTRUNC;

    const NANOS: u64 = 7_000_000_009 + 2000;

    fn told(kept: &Kept, space: usize) -> Message {
        let mut message = Message::default();
        tell(kept, NANOS, space, &mut message);
        message
    }

    #[test]
    fn one_option_replaces_another_and_any_switches_off() {
        let mut kept = Kept::default();
        for option in OPTIONS {
            set(&mut kept, option, true);
            assert_eq!(
                OPTIONS.map(|other| kept.get(SOL_SOCKET, other) == Some(1)),
                OPTIONS.map(|other| other == option)
            );
        }
        set(&mut kept, SO_TIMESTAMP, false);
        assert!(!is_wanted(&kept));
        assert_eq!(told(&kept, 64), Message::default());
    }

    #[test]
    fn times_have_the_options_unit() {
        for (option, fraction) in [(SO_TIMESTAMP, 2i64), (SO_TIMESTAMPNS_NEW, 2009)] {
            let mut kept = Kept::default();
            set(&mut kept, option, true);
            let message = told(&kept, 64);
            let (level, kind, data) = controls(&message.control).next().unwrap().unwrap();
            assert_eq!((level, kind, data), (SOL_SOCKET, option, [7, fraction].as_bytes()));
        }
    }

    #[test]
    fn a_time_without_room_is_cut() {
        let mut kept = Kept::default();
        set(&mut kept, SO_TIMESTAMP, true);
        assert_eq!(told(&kept, 0).flags, MSG_CTRUNC);
    }
}
