//! SOL_SOCKET (socket(7), `sk_setsockopt`, `sk_getsockopt`): what sockets of all families have in common. What acts in the Internet's
//! stack is in `internet`, what Unix and netlink sockets have of it in `local`.

use super::kept::{ANY, Kept, REFUSED, Rule, off};
use super::value::{self, Answer, Place};
use crate::credentials::Credentials;
use crate::net::interfaces::{LOOPBACK_INDEX, NAMES};
use crate::net::{filter, stamp};
use crate::outcome::{Outcome, SysResult};
use guest::AddressSpace;
use linux_abi::Errno;
use linux_abi::capability::{CAP_NET_ADMIN, CAP_NET_RAW};
use linux_abi::ioctl::IFNAMSIZ;
use linux_abi::socket::*;
use linux_abi::time::{CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_TAI};
use std::ops::RangeInclusive;

/// SKF_AD_MAX.
const BPF_EXTENSIONS: i32 = 64;
/// The greatest that SO_BUSY_POLL_BUDGET takes.
const BUDGET_MAX: i32 = u16::MAX as i32;
/// Flags of SO_TIMESTAMPING that Linux knows.
const STAMPING_FLAGS: u32 = (1 << 19) - 1;
/// Flags of SO_TXTIME.
const TXTIME_FLAGS: u32 = 3;
/// SO_NETNS_COOKIE: every host is a kernel of its own, with one namespace.
const NAMESPACE_COOKIE: u64 = 1;
/// `sizeof(struct dmabuf_token)`, and how many of them SO_DEVMEM_DONTNEED takes.
const DEVMEM_TOKEN: usize = 8;
const DEVMEM_TOKENS_MAX: usize = 128;

/// The kinds of sockets that SOL_SOCKET tells apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holder {
    Tcp,
    Udp,
    /// Raw sockets, and those of echo requests.
    Raw,
    Unix,
    Netlink,
}

const ALL: &[Holder] = &[Holder::Tcp, Holder::Udp, Holder::Raw, Holder::Unix, Holder::Netlink];

/// An option that is kept with a socket: the values that it takes, and the kinds of sockets that set and show it. Other kinds get EOPNOTSUPP.
struct Row {
    option: i32,
    rule: Rule,
    set_by: &'static [Holder],
    shown_by: &'static [Holder],
}

const fn row(option: i32, rule: Rule) -> Row {
    Row { option, rule, set_by: ALL, shown_by: ALL }
}

const fn row_of(option: i32, rule: Rule, holders: &'static [Holder]) -> Row {
    Row { option, rule, set_by: holders, shown_by: holders }
}

/// Flags that the Internet's stack has are here for the other families, where nothing follows from them.
const ROWS: &[Row] = &[
    row(SO_DEBUG, Rule::Flag),
    row(SO_REUSEADDR, Rule::Flag),
    row(SO_REUSEPORT, Rule::Flag),
    row(SO_KEEPALIVE, Rule::Flag),
    row(SO_BROADCAST, Rule::Flag),
    row(SO_DONTROUTE, Rule::Flag),
    row(SO_OOBINLINE, Rule::Flag),
    row(SO_NO_CHECK, Rule::Flag),
    row(SO_RXQ_OVFL, Rule::Flag),
    row(SO_TIMESTAMP, Rule::Flag),
    row(SO_TIMESTAMPNS, Rule::Flag),
    row(SO_TIMESTAMP_NEW, Rule::Flag),
    row(SO_TIMESTAMPNS_NEW, Rule::Flag),
    row(SO_WIFI_STATUS, Rule::Flag),
    row(SO_NOFCS, Rule::Flag),
    row(SO_LOCK_FILTER, Rule::Flag),
    row(SO_SELECT_ERR_QUEUE, Rule::Flag),
    row(SO_PREFER_BUSY_POLL, Rule::Flag),
    row(SO_RCVMARK, Rule::Flag),
    row(SO_RCVPRIORITY, Rule::Flag),
    row(SO_PRIORITY, ANY),
    row(SO_MARK, ANY),
    row(SO_INCOMING_CPU, Rule::Number { default: -1, least: i32::MIN, most: i32::MAX }),
    row(SO_BUSY_POLL, Rule::Number { default: 0, least: 0, most: i32::MAX }),
    row(SO_BSDCOMPAT, Rule::Ignored),
    row(SO_CNX_ADVICE, Rule::SetOnly),
    row(SO_INCOMING_NAPI_ID, Rule::Fixed(0)),
    row(SO_BPF_EXTENSIONS, Rule::Fixed(BPF_EXTENSIONS)),
    row(SO_SNDLOWAT, Rule::Fixed(1)),
    row_of(SO_PASSCRED, Rule::Flag, &[Holder::Unix, Holder::Netlink]),
    row_of(SO_PASSSEC, Rule::Flag, &[Holder::Unix, Holder::Netlink]),
    row_of(SO_PASSPIDFD, Rule::Flag, &[Holder::Unix]),
    row_of(SO_PASSRIGHTS, Rule::FlagOn, &[Holder::Unix]),
    row_of(SO_TXREHASH, Rule::Number { default: 1, least: -1, most: 1 }, &[Holder::Tcp]),
    // Below 0 it is off.
    row_of(
        SO_PEEK_OFF,
        Rule::Number { default: -1, least: i32::MIN, most: i32::MAX },
        &[Holder::Tcp, Holder::Udp, Holder::Unix],
    ),
    Row { option: SO_ZEROCOPY, rule: off(1), set_by: &[Holder::Tcp, Holder::Udp], shown_by: ALL },
    // Memory is reserved where a control group accounts for it.
    Row { option: SO_RESERVE_MEM, rule: off(i32::MAX), set_by: &[], shown_by: ALL },
];

fn find(option: i32) -> Result<&'static Row, Errno> {
    ROWS.iter().find(|row| row.option == option).ok_or(Errno::ENOPROTOOPT)
}

/// Checks the capabilities that some options require (`sk_setsockopt`): unusual priorities, marks, buffers beyond the limits, debugging. EPERM,
/// EACCES.
pub(crate) fn demand_rights(who: &Credentials, option: i32, number: i32) -> Result<(), Errno> {
    const USUAL_PRIORITIES: RangeInclusive<i32> = 0..=6;
    let administers = who.can(CAP_NET_ADMIN);
    match option {
        SO_PRIORITY if USUAL_PRIORITIES.contains(&number) => Ok(()),
        SO_PRIORITY | SO_MARK if !administers && !who.can(CAP_NET_RAW) => Err(Errno::EPERM),
        SO_SNDBUFFORCE | SO_RCVBUFFORCE if !administers => Err(Errno::EPERM),
        SO_PREFER_BUSY_POLL if number != 0 && !administers => Err(Errno::EPERM),
        SO_BUSY_POLL_BUDGET if number > 0 && !administers => Err(Errno::EPERM),
        SO_DEBUG if number != 0 && !administers => Err(Errno::EACCES),
        _ => Ok(()),
    }
}

/// Sets an option that is kept with the socket; what it has become. ENOPROTOOPT, EOPNOTSUPP, EINVAL.
pub(crate) fn keep(holder: Holder, kept: &mut Kept, option: i32, number: i32) -> Result<i32, Errno> {
    let row = find(option)?;
    if option == SO_RESERVE_MEM && number < 0 {
        return Err(Errno::EINVAL);
    }
    if !row.set_by.contains(&holder) || (option == SO_REUSEPORT && number != 0 && !is_internet(holder)) {
        return Err(Errno::EOPNOTSUPP);
    }
    let mut accepted = row.rule.accept(number)?;
    match (option, accepted) {
        (SO_PEEK_OFF, 0..) => return Err(REFUSED),
        // The system's value.
        (SO_TXREHASH, -1) => accepted = 1,
        _ => {}
    }
    if stamp::is_option(option) {
        stamp::set(kept, option, accepted != 0);
    } else if kept.get(SOL_SOCKET, option).is_some() || row.rule.default() != Ok(accepted) {
        kept.set(SOL_SOCKET, option, accepted);
    }
    Ok(accepted)
}

/// Whether a value is an option's first one.
pub(crate) fn is_default(option: i32, value: i32) -> bool {
    find(option).and_then(|row| row.rule.default()) == Ok(value)
}

/// Shows an option that is kept with the socket. ENOPROTOOPT, EOPNOTSUPP.
pub(crate) fn shown(holder: Holder, kept: &Kept, option: i32) -> Result<i32, Errno> {
    let row = find(option)?;
    if !row.shown_by.contains(&holder) {
        return Err(Errno::EOPNOTSUPP);
    }
    let default = row.rule.default()?;
    Ok(kept.get(SOL_SOCKET, option).unwrap_or(default))
}

fn is_internet(holder: Holder) -> bool {
    matches!(holder, Holder::Tcp | Holder::Udp | Holder::Raw)
}

/// An option that a program sets, of which the first four bytes have been read.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub option: i32,
    pub number: i32,
    pub value: u64,
    pub len: usize,
}

/// Sets the options that are no numbers, and keep nothing: they switch off what is not simulated, or are refused. None for other
/// options. `is_descriptor` says whether the number is one that is open.
pub(crate) fn set_nothing(
    who: &Credentials,
    memory: &AddressSpace,
    holder: Holder,
    request: Request,
    is_descriptor: bool,
) -> Option<Result<(), Outcome>> {
    let Request { option, number, value, len } = request;
    Some(match option {
        SO_BUSY_POLL_BUDGET if (0..=BUDGET_MAX).contains(&number) => Ok(()),
        SO_BUSY_POLL_BUDGET => Err(Errno::EINVAL.into()),
        SO_TIMESTAMPING | SO_TIMESTAMPING_NEW => set_stamping(memory, request),
        SO_TXTIME => set_departures(who, memory, value, len),
        // No descriptor is a program of BPF's.
        SO_ATTACH_BPF | SO_ATTACH_REUSEPORT_EBPF if len == size_of::<u32>() && !is_descriptor => {
            Err(Errno::EBADF.into())
        }
        SO_ATTACH_BPF | SO_ATTACH_REUSEPORT_EBPF => Err(Errno::EINVAL.into()),
        SO_ATTACH_REUSEPORT_CBPF => filter::SocketFilter::read(memory, value, len).and(Err(REFUSED.into())),
        // There is no memory of devices.
        SO_DEVMEM_DONTNEED if holder != Holder::Tcp => Err(Errno::EBADF.into()),
        SO_DEVMEM_DONTNEED if !len.is_multiple_of(DEVMEM_TOKEN) || len > DEVMEM_TOKEN * DEVMEM_TOKENS_MAX => {
            Err(Errno::EINVAL.into())
        }
        SO_DEVMEM_DONTNEED => {
            memory.read(value, &mut [0; DEVMEM_TOKEN * DEVMEM_TOKENS_MAX][..len]).map_err(Outcome::from)
        }
        _ => return None,
    })
}

/// SO_TIMESTAMPING: nobody is told when packets pass what lies below the stack.
fn set_stamping(memory: &AddressSpace, request: Request) -> Result<(), Outcome> {
    let flags = match request.len {
        8 => memory.read_value::<[u32; 2]>(request.value)?[0],
        _ => request.number as u32,
    };
    match flags {
        0 => Ok(()),
        _ if flags & !STAMPING_FLAGS != 0 => Err(Errno::EINVAL.into()),
        _ => Err(REFUSED.into()),
    }
}

/// SO_TXTIME: packets leave when they can.
fn set_departures(who: &Credentials, memory: &AddressSpace, value: u64, len: usize) -> Result<(), Outcome> {
    if len != 8 {
        return Err(Errno::EINVAL.into());
    }
    let [clock, flags]: [u32; 2] = memory.read_value(value)?;
    Err(match clock as i32 {
        _ if flags & !TXTIME_FLAGS != 0 => Errno::EINVAL,
        CLOCK_MONOTONIC => REFUSED,
        _ if !who.can(CAP_NET_ADMIN) => Errno::EPERM,
        CLOCK_REALTIME | CLOCK_TAI => REFUSED,
        _ => Errno::EINVAL,
    }
    .into())
}

/// Shows the options that are no numbers and the same for all sockets. None for other options. EINVAL.
pub(crate) fn show_structure(option: i32, len: usize) -> Option<Result<Answer, Errno>> {
    Some(match option {
        SO_TIMESTAMPING | SO_TIMESTAMPING_NEW | SO_TXTIME => Ok(Answer::from_slice(&[0; 8])),
        SO_NETNS_COOKIE if len != 8 => Err(Errno::EINVAL),
        SO_NETNS_COOKIE => Ok(Answer::from_slice(&NAMESPACE_COOKIE.to_ne_bytes())),
        _ => return None,
    })
}

/// Reads SO_MAX_PACING_RATE, in bytes per second: a number of 64 bits, or of 32, in which all ones are no limit. EFAULT.
pub(crate) fn read_pacing(memory: &AddressSpace, request: Request) -> Result<u64, Outcome> {
    match request.number as u32 {
        _ if request.len >= size_of::<u64>() => Ok(memory.read_value(request.value)?),
        u32::MAX => Ok(u64::MAX),
        rate => Ok(rate.into()),
    }
}

/// SO_MAX_PACING_RATE, in 32 bits where the program has no room for 64.
pub(crate) fn show_pacing(rate: u64, len: usize) -> Answer {
    if len >= size_of::<u64>() {
        Answer::from_slice(&rate.to_ne_bytes())
    } else {
        value::number(rate.min(u32::MAX.into()) as i32)
    }
}

/// How long SO_LINGER shows that a socket waits, in seconds: below 0 without end, which is what a long
/// holds of ticks of 4 ms, cut to its lower half (MAX_SCHEDULE_TIMEOUT).
pub(crate) fn linger_shown(seconds: i32) -> i32 {
    if seconds < 0 { (i64::MAX / 250) as i32 } else { seconds }
}

/// SO_COOKIE. EINVAL.
pub(crate) fn show_cookie(cookie: u64, len: usize) -> Result<Answer, Errno> {
    if len < 8 { Err(Errno::EINVAL) } else { Ok(Answer::from_slice(&cookie.to_ne_bytes())) }
}

/// SO_PEERNAME, which gives no more than there is. EINVAL.
pub(crate) fn show_name(name: &[u8], len: usize) -> Result<Answer, Errno> {
    if name.len() < len { Err(Errno::EINVAL) } else { Ok(Answer::from_slice(name)) }
}

/// Reads the interface that SO_BINDTODEVICE names; 0 for none. EFAULT, ENODEV.
pub(crate) fn read_device(memory: &AddressSpace, value: u64, len: usize) -> Result<i32, Outcome> {
    let name = value::read_name(memory, value, len.min(IFNAMSIZ - 1))?;
    if name.is_empty() {
        return Ok(0);
    }
    let place = NAMES.iter().position(|known| known.as_bytes() == &name[..]);
    Ok(place.ok_or(Errno::ENODEV)? as i32 + LOOPBACK_INDEX)
}

/// SO_BINDTODEVICE, by the interface's index. EINVAL, EFAULT.
pub(crate) fn show_device(memory: &AddressSpace, place: Place, index: i32) -> SysResult {
    let Some(name) = NAMES.get((index - LOOPBACK_INDEX) as usize) else { return place.store_len(memory, 0) };
    if place.len < IFNAMSIZ {
        return Err(Errno::EINVAL.into());
    }
    let mut bytes = Answer::from_slice(name.as_bytes());
    bytes.push(0);
    place.store(memory, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_option_stands_here_twice() {
        for (place, row) in ROWS.iter().enumerate() {
            assert!(ROWS[..place].iter().all(|other| other.option != row.option), "{}", row.option);
        }
    }

    #[test]
    fn options_belong_to_some_sockets_alone() {
        let mut kept = Kept::default();
        assert_eq!(keep(Holder::Udp, &mut kept, SO_PASSCRED, 1), Err(Errno::EOPNOTSUPP));
        assert_eq!(keep(Holder::Netlink, &mut kept, SO_PASSCRED, 5), Ok(1));
        assert_eq!(shown(Holder::Netlink, &kept, SO_PASSCRED), Ok(1));
        assert_eq!(shown(Holder::Udp, &kept, SO_TXREHASH), Err(Errno::EOPNOTSUPP));
        assert_eq!(keep(Holder::Unix, &mut kept, SO_REUSEPORT, 1), Err(Errno::EOPNOTSUPP));
        assert_eq!(keep(Holder::Unix, &mut kept, SO_REUSEPORT, 0), Ok(0));
    }

    #[test]
    fn what_is_not_simulated_shows_that_it_is_off() {
        let mut kept = Kept::default();
        assert_eq!(shown(Holder::Unix, &kept, SO_ZEROCOPY), Ok(0));
        assert_eq!(keep(Holder::Tcp, &mut kept, SO_ZEROCOPY, 1), Err(REFUSED));
        assert_eq!(keep(Holder::Tcp, &mut kept, SO_PEEK_OFF, -7), Ok(-7));
        assert_eq!(keep(Holder::Tcp, &mut kept, SO_PEEK_OFF, 0), Err(REFUSED));
        assert_eq!(shown(Holder::Tcp, &kept, SO_PEEK_OFF), Ok(-7));
    }
}
