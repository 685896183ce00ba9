//! The forms in which options' values lie in a program's memory.

use crate::outcome::{Outcome, SysResult};
use base::SimDuration;
use guest::AddressSpace;
use linux_abi::Errno;
use linux_abi::time::Timeval;
use smallvec::SmallVec;
use zerocopy::IntoBytes;

/// An option's value as bytes.
pub(crate) type Answer = SmallVec<[u8; 16]>;

pub(crate) fn number(value: i32) -> Answer {
    Answer::from_slice(&value.to_ne_bytes())
}

/// SO_RCVTIMEO and SO_SNDTIMEO; `None` is zero.
pub(crate) fn timeval(timeout: Option<SimDuration>) -> Answer {
    let micros = timeout.map_or(0, SimDuration::as_micros);
    let time = Timeval { tv_sec: (micros / 1_000_000) as i64, tv_usec: (micros % 1_000_000) as i64 };
    Answer::from_slice(time.as_bytes())
}

/// Reads the number that most options are. EINVAL when it is shorter, EFAULT.
pub(crate) fn read_number(memory: &AddressSpace, value: u64, len: usize) -> Result<i32, Outcome> {
    if len < size_of::<i32>() { Err(Errno::EINVAL.into()) } else { Ok(memory.read_value(value)?) }
}

/// Reads a number of level SOL_IP, which takes a byte too, and no bytes as 0 (ip(7)). EFAULT.
pub(super) fn read_short(memory: &AddressSpace, value: u64, len: usize) -> Result<i32, Outcome> {
    match len {
        0 => Ok(0),
        1..4 => Ok(memory.read_value::<u8>(value)?.into()),
        _ => Ok(memory.read_value(value)?),
    }
}

/// Reads a `struct timeval` (`sock_set_timeout`): zero is no limit, a negative one has passed
/// already. EINVAL, EFAULT, EDOM for microseconds out of range.
pub(crate) fn read_timeout(memory: &AddressSpace, value: u64, len: usize) -> Result<Option<SimDuration>, Outcome> {
    if len < size_of::<Timeval>() {
        return Err(Errno::EINVAL.into());
    }
    let time: Timeval = memory.read_value(value)?;
    if !(0..1_000_000).contains(&time.tv_usec) {
        return Err(Errno::EDOM.into());
    }
    if time.tv_sec < 0 {
        return Ok(Some(SimDuration::ZERO));
    }
    let nanos = (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_usec as u64 * 1000);
    Ok((nanos > 0).then_some(SimDuration::from_nanos(nanos)))
}

/// Reads a name of at most `len` bytes, up to its NUL. EFAULT.
pub(super) fn read_name(memory: &AddressSpace, value: u64, len: usize) -> Result<SmallVec<[u8; 16]>, Outcome> {
    let mut name = SmallVec::from_elem(0, len);
    memory.read(value, &mut name)?;
    name.truncate(name.iter().position(|&byte| byte == 0).unwrap_or(len));
    Ok(name)
}

/// Reads a name of at most `len` bytes, and nothing behind its NUL (`strncpy_from_sockptr`). EFAULT.
pub(super) fn read_text(memory: &AddressSpace, value: u64, len: usize) -> Result<SmallVec<[u8; 16]>, Outcome> {
    let mut name = SmallVec::from_elem(0, len);
    let readable = memory.read_partial(value, &mut name);
    match name[..readable].iter().position(|&byte| byte == 0) {
        Some(end) => name.truncate(end),
        None if readable < len => return Err(Errno::EFAULT.into()),
        None => {}
    }
    Ok(name)
}

/// Reads getsockopt(2)'s length. EFAULT, EINVAL for negative ones.
pub(crate) fn read_len(memory: &AddressSpace, len_address: u64) -> Result<usize, Outcome> {
    let len: i32 = memory.read_value(len_address)?;
    Ok(usize::try_from(len).map_err(|_| Errno::EINVAL)?)
}

/// Where getsockopt(2) stores a value, and the room there.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub value: u64,
    pub len_address: u64,
    pub len: usize,
}

impl Place {
    /// Stores the length of an option's value, and the value, cut to the room there is. Levels other than SOL_SOCKET
    /// store them in this order, so the length is stored even if the value cannot be. EFAULT.
    pub fn store_len_first(self, memory: &AddressSpace, answer: &[u8]) -> SysResult {
        let cut = &answer[..answer.len().min(self.len)];
        self.store_len(memory, cut.len())?;
        memory.write(self.value, cut)?;
        Ok(0)
    }

    /// Stores an option's value, cut to the room there is, and its length. EFAULT.
    pub fn store(self, memory: &AddressSpace, answer: &[u8]) -> SysResult {
        let cut = &answer[..answer.len().min(self.len)];
        memory.write(self.value, cut)?;
        self.store_len(memory, cut.len())
    }

    /// Stores a number as level SOL_IP does: short buffers have a byte (`do_ip_getsockopt`).
    pub fn store_short(self, memory: &AddressSpace, number: i32) -> SysResult {
        match u8::try_from(number) {
            Ok(byte) if (1..4).contains(&self.len) => self.store_len_first(memory, &[byte]),
            _ => self.store_len_first(memory, &number.to_ne_bytes()),
        }
    }

    /// Stores a length alone. EFAULT.
    pub fn store_len(self, memory: &AddressSpace, len: usize) -> SysResult {
        memory.write_value(self.len_address, &(len as i32))?;
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_come_back_in_microseconds() {
        let raw = timeval(Some(SimDuration::from_micros(1_500_000)));
        assert_eq!(raw[..], *Timeval { tv_sec: 1, tv_usec: 500_000 }.as_bytes());
        assert_eq!(timeval(None)[..], [0; 16]);
    }
}
