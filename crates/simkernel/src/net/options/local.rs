//! SOL_SOCKET of sockets that have no part in the Internet's stack: Unix and netlink sockets. Their
//! settings lie here together, so that both families take and show them alike.

use super::common::{self, Holder, Request, demand_rights};
use super::kept::Kept;
use super::value::{Answer, number, read_timeout, timeval};
use crate::credentials::Credentials;
use crate::outcome::Outcome;
use base::SimDuration;
use guest::AddressSpace;
use linux_abi::Errno;
use linux_abi::capability::CAP_NET_RAW;
use linux_abi::socket::*;
use tcpip::Interface;
use zerocopy::IntoBytes;

/// net.core.wmem_default and rmem_default.
const DEFAULT_BUFFER: usize = 212_992;
/// SOCK_MIN_SNDBUF and SOCK_MIN_RCVBUF.
const MIN_SEND: usize = 4608;
const MIN_RECV: usize = 2304;
/// SO_BUF_LOCK: which buffers a program has set.
const SEND_LOCK: i32 = 1;
const RECV_LOCK: i32 = 2;

/// What a socket is set to.
#[derive(Debug)]
pub(crate) struct Settings {
    pub send_buffer: usize,
    pub recv_buffer: usize,
    pub send_timeout: Option<SimDuration>,
    pub recv_timeout: Option<SimDuration>,
    /// Everything else, of other levels too.
    pub kept: Kept,
    /// SO_LINGER, without effect.
    linger: Linger,
    /// SO_MAX_PACING_RATE, without effect: nothing is paced.
    pacing: u64,
    /// SO_BINDTODEVICE, without effect: no message passes an interface.
    device: i32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            send_buffer: DEFAULT_BUFFER,
            recv_buffer: DEFAULT_BUFFER,
            send_timeout: None,
            recv_timeout: None,
            kept: Kept::default(),
            linger: Linger::default(),
            pacing: u64::MAX,
            device: 0,
        }
    }
}

/// Who sets an option, and where its value lies.
pub(crate) struct Setter<'a> {
    pub who: &'a Credentials,
    pub memory: &'a AddressSpace,
    /// The most that SO_SNDBUF and SO_RCVBUF take.
    pub buffer_limits: (u32, u32),
    /// Whether the number that is set is an open descriptor's.
    pub is_descriptor: bool,
}

impl Settings {
    /// Whether a flag of a level is on.
    pub fn has(&self, level: i32, option: i32) -> bool {
        self.kept.get(level, option) == Some(1)
    }

    /// SO_BINDTODEVICE, by the interface's index (`sock_bindtoindex_locked`). EPERM, EINVAL, ENODEV.
    pub fn bind_to_device(&mut self, who: &Credentials, index: i32) -> Result<(), Errno> {
        if self.device != 0 && !who.can(CAP_NET_RAW) {
            return Err(Errno::EPERM);
        }
        let index = u32::try_from(index).map_err(|_| Errno::EINVAL)?;
        if index != 0 && Interface::of_index(index).is_none() {
            return Err(Errno::ENODEV);
        }
        self.device = index as i32;
        Ok(())
    }

    /// The index of the interface that the socket is bound to; 0 for none.
    pub fn device(&self) -> i32 {
        self.device
    }

    /// setsockopt(2), beside what the family has of its own.
    pub fn set(&mut self, by: &Setter<'_>, holder: Holder, request: Request) -> Result<(), Outcome> {
        let Request { option, number, value, len } = request;
        demand_rights(by.who, option, number)?;
        if let Some(result) = common::set_nothing(by.who, by.memory, holder, request, by.is_descriptor) {
            return result;
        }
        match option {
            SO_SNDBUF | SO_SNDBUFFORCE => {
                self.send_buffer = buffer(request, by.buffer_limits.0).max(MIN_SEND);
                self.lock(SEND_LOCK);
            }
            SO_RCVBUF | SO_RCVBUFFORCE => {
                self.recv_buffer = buffer(request, by.buffer_limits.1).max(MIN_RECV);
                self.lock(RECV_LOCK);
            }
            SO_BUF_LOCK if number & !(SEND_LOCK | RECV_LOCK) != 0 => return Err(Errno::EINVAL.into()),
            SO_BUF_LOCK => self.kept.set(SOL_SOCKET, SO_BUF_LOCK, number),
            SO_RCVTIMEO | SO_RCVTIMEO_NEW => self.recv_timeout = read_timeout(by.memory, value, len)?,
            SO_SNDTIMEO | SO_SNDTIMEO_NEW => self.send_timeout = read_timeout(by.memory, value, len)?,
            SO_RCVLOWAT => {
                self.kept.set(SOL_SOCKET, option, if number < 0 { i32::MAX } else { number.max(1) });
            }
            SO_LINGER if len < size_of::<Linger>() => return Err(Errno::EINVAL.into()),
            SO_LINGER => {
                let asked: Linger = by.memory.read_value(value)?;
                let is_on = asked.l_onoff != 0;
                let l_linger = if is_on { common::linger_shown(asked.l_linger) } else { self.linger.l_linger };
                self.linger = Linger { l_onoff: is_on.into(), l_linger };
            }
            SO_MAX_PACING_RATE => self.pacing = common::read_pacing(by.memory, request)?,
            SO_BINDTOIFINDEX => self.bind_to_device(by.who, number)?,
            SO_DETACH_REUSEPORT_BPF => {
                let shares = self.has(SOL_SOCKET, SO_REUSEPORT);
                return Err(if shares { Errno::ENOENT } else { Errno::EINVAL }.into());
            }
            _ => {
                common::keep(holder, &mut self.kept, option, number)?;
            }
        }
        Ok(())
    }

    fn lock(&mut self, which: i32) {
        let locks = self.kept.get(SOL_SOCKET, SO_BUF_LOCK).unwrap_or(0);
        self.kept.set(SOL_SOCKET, SO_BUF_LOCK, locks | which);
    }

    /// getsockopt(2), beside what the family has of its own.
    pub fn show(&self, holder: Holder, option: i32, len: usize) -> Result<Answer, Errno> {
        if let Some(answer) = common::show_structure(option, len) {
            return answer;
        }
        Ok(match option {
            SO_RCVTIMEO | SO_RCVTIMEO_NEW => timeval(self.recv_timeout),
            SO_SNDTIMEO | SO_SNDTIMEO_NEW => timeval(self.send_timeout),
            SO_LINGER => Answer::from_slice(self.linger.as_bytes()),
            SO_MAX_PACING_RATE => common::show_pacing(self.pacing, len),
            SO_SNDBUF => number(self.send_buffer as i32),
            SO_RCVBUF => number(self.recv_buffer as i32),
            SO_RCVLOWAT => number(self.kept.get(SOL_SOCKET, SO_RCVLOWAT).unwrap_or(1)),
            SO_BUF_LOCK => number(self.kept.get(SOL_SOCKET, SO_BUF_LOCK).unwrap_or(0)),
            SO_BINDTOIFINDEX => number(self.device),
            _ => number(common::shown(holder, &self.kept, option)?),
        })
    }

    /// SO_MEMINFO, given the bytes that wait to be read and to be taken by others.
    pub fn show_memory(&self, received: usize, sent: usize) -> Answer {
        let memory = [received as u32, self.recv_buffer as u32, sent as u32, self.send_buffer as u32, 0, 0, 0, 0, 0];
        Answer::from_slice(memory.as_bytes())
    }
}

/// A buffer's size, which is twice what a program asks for: at most `most`, unless it forces more.
fn buffer(request: Request, most: u32) -> usize {
    const FORCED_MAX: u32 = i32::MAX as u32 / 2;
    let asked = match request.option {
        SO_SNDBUFFORCE | SO_RCVBUFFORCE => request.number.max(0) as u32,
        _ => (request.number as u32).min(most),
    };
    asked.min(FORCED_MAX) as usize * 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_doubled_within_bounds() {
        let of = |option, number| buffer(Request { option, number, value: 0, len: 4 }, 1000);
        assert_eq!(of(SO_SNDBUF, 700), 1400);
        assert_eq!(of(SO_SNDBUF, -1), 2000);
        assert_eq!(of(SO_SNDBUFFORCE, 5000), 10_000);
        assert_eq!(of(SO_SNDBUFFORCE, -1), 0);
    }
}
