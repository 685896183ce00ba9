//! eventfd(2): a counter.

use crate::wait::Events;
use linux_abi::Errno;

/// The largest value that the counter holds.
const MAX: u64 = u64::MAX - 1;

#[derive(Clone, Copy, Debug)]
pub struct EventFd {
    pub count: u64,
    pub semaphore: bool,
}

impl EventFd {
    /// Takes the count, or 1 of it. EAGAIN at 0.
    pub fn read(&mut self) -> Result<u64, Errno> {
        if self.count == 0 {
            return Err(Errno::EAGAIN);
        }
        let value = if self.semaphore { 1 } else { self.count };
        self.count -= value;
        Ok(value)
    }

    /// EINVAL for u64::MAX, EAGAIN when the sum does not fit.
    pub fn write(&mut self, value: u64) -> Result<(), Errno> {
        if value == u64::MAX {
            return Err(Errno::EINVAL);
        }
        self.count = self.count.checked_add(value).filter(|sum| *sum <= MAX).ok_or(Errno::EAGAIN)?;
        Ok(())
    }

    pub fn poll(&self) -> Events {
        // Without RDNORM and WRNORM, which eventfd does not tell.
        Events::IN.when(self.count > 0) | Events::OUT.when(self.count < MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_take_all_or_one() {
        let mut plain = EventFd { count: 3, semaphore: false };
        assert_eq!(plain.read(), Ok(3));
        assert_eq!(plain.read(), Err(Errno::EAGAIN));
        let mut semaphore = EventFd { count: 2, semaphore: true };
        assert_eq!((semaphore.read(), semaphore.read(), semaphore.read()), (Ok(1), Ok(1), Err(Errno::EAGAIN)));
    }

    #[test]
    fn the_counter_stops_below_its_maximum() {
        let mut event = EventFd { count: 0, semaphore: false };
        assert_eq!(event.write(u64::MAX), Err(Errno::EINVAL));
        assert_eq!(event.write(u64::MAX - 1), Ok(()));
        assert_eq!(event.write(1), Err(Errno::EAGAIN));
        assert!(!event.poll().intersects(Events::OUT));
    }
}
