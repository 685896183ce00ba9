//! What a guest sees of a file's identity and attributes, where the machine's own would differ from run to run: inode numbers
//! follow from the paths of files, of those that guests make from a counter, times of files in writable areas are simulated ones, and owners are root.
//!
//! No two events stamp files with the same time, although much can happen on a host while its time stands still: each stamp is a
//! nanosecond later than the last one, so that `make` sees what was changed after what was built. The real-time clock shows
//! no earlier time than the last stamp.

use super::RealNode;
use super::mounts::is_below;
use crate::host::DATA_DIRECTORY;
use crate::host_clock::HostClock;
use base::SimTime;
use base::map::{FastHasher, FastMap, FastSet};
use linux_abi::fs::{S_IFDIR, S_IFLNK, S_IFMT, Stat};
use std::hash::Hasher;

/// The device number of all files of writable areas.
const WRITABLE_DEVICE: u64 = 0x2a;
/// The device number of all other real files.
const MACHINE_DEVICE: u64 = 0x2b;
/// The device number of what exists nowhere on the machine (`/proc`, pipes, sockets).
pub const SYNTHETIC_DEVICE: u64 = 0x2c;
/// Numbers below it are left for the synthetic files; from it on come the files that guests make.
const FIRST_MADE: u64 = 1 << 20;
/// Of so many numbers, and from this one on, each file that was there before has one: archives keep 32 bits.
const FIRST_FOUND: u64 = 1 << 31;
/// No file of the machine has this one: it stands for the directory in which the run's directory lies, under its name for guests. By the machine's
/// path that has another number, which must not depend on where the run lies.
pub const BESIDE_RUN: u64 = u64::MAX;
/// Shorter texts of links lie in the inode (ext4).
const INLINE_LINK_BYTES: i64 = 60;

/// Times of a file in a writable area, in nanoseconds of the Unix epoch, which they may precede.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    pub accessed: i128,
    pub modified: i128,
    pub changed: i128,
}

impl Times {
    pub fn at(stamp: u64) -> Self {
        let ns = stamp.into();
        Times { accessed: ns, modified: ns, changed: ns }
    }

    /// Puts them into what `stat` answers.
    pub fn show(&self, stat: &mut Stat) {
        (stat.st_atime, stat.st_atime_nsec) = split(self.accessed);
        (stat.st_mtime, stat.st_mtime_nsec) = split(self.modified);
        (stat.st_ctime, stat.st_ctime_nsec) = split(self.changed);
    }
}

/// What a guest set and the real file does not carry.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes {
    pub times: Option<Times>,
    /// When a file of the machine was read last, in nanoseconds of the Unix epoch.
    pub accessed: Option<i128>,
    /// Permission bits.
    pub mode: Option<u32>,
    pub owner: Option<(u32, u32)>,
    /// When it was created, in nanoseconds of the Unix epoch, which they may precede.
    pub born: Option<u64>,
    /// It stands for a device that a guest has made (mknod): its type, and its number. The real file is a FIFO.
    pub device: Option<(u32, u64)>,
    /// It lies over the machine's files, and is on their device for guests.
    pub overlaid: bool,
}

#[derive(Debug)]
pub struct Identities {
    clock: HostClock,
    /// The run's directory on the machine.
    run: Vec<u8>,
    numbers: FastMap<(u64, u64), u64>,
    /// Those that follow from paths, of files that are gone too.
    found: FastSet<u64>,
    attributes: FastMap<u64, Attributes>,
    /// How many files guests have made.
    made: u64,
    /// The last stamp, in nanoseconds of the Unix epoch.
    last_stamp: u64,
}

impl Identities {
    /// For a host with this clock, in a run whose directory lies here on the machine.
    pub fn new(clock: HostClock, run: Vec<u8>) -> Self {
        let (numbers, found, attributes) = Default::default();
        Identities { clock, run, numbers, found, attributes, made: 0, last_stamp: 0 }
    }

    pub fn clock(&self) -> HostClock {
        self.clock
    }

    /// The times of what was there before the run.
    pub fn times_of_start(&self) -> Times {
        Times::at(self.clock.unix_nanos(SimTime::ZERO))
    }

    /// The time for what happens to files now, in nanoseconds of the Unix epoch: later than any before.
    pub fn stamp(&mut self, now: SimTime) -> u64 {
        self.last_stamp = self.clock.unix_nanos(now).max(self.last_stamp + 1);
        self.last_stamp
    }

    /// What the real-time clock shows, in nanoseconds of the Unix epoch.
    pub fn real_time(&self, now: SimTime) -> u64 {
        self.clock.unix_nanos(now).max(self.last_stamp)
    }

    /// The number that stands for a real inode. One that has none yet is a file that a guest has just made.
    pub fn number(&mut self, device: u64, inode: u64) -> u64 {
        *self.numbers.entry((device, inode)).or_insert_with(|| {
            self.made += 1;
            FIRST_MADE + self.made
        })
    }

    pub fn of(&mut self, stat: &rustix::fs::Stat) -> u64 {
        self.number(stat.st_dev, stat.st_ino)
    }

    pub fn of_node(&mut self, node: &RealNode) -> u64 {
        self.found_at(node.stat.st_dev, node.stat.st_ino, &[&node.path])
    }

    /// The number of a real inode that lies at this path of the machine, given in pieces. What nobody has looked at before was there before guests
    /// were: what else they have looked at, and what lies beside it, must not change its number.
    pub fn found_at(&mut self, device: u64, inode: u64, path: &[&[u8]]) -> u64 {
        if let Some(number) = self.numbers.get(&(device, inode)) {
            return *number;
        }
        let path = if inode == BESIDE_RUN { super::parent(DATA_DIRECTORY.as_bytes()).to_vec() } else { path.concat() };
        let mut number = FIRST_FOUND + self.scattered(&path) % FIRST_FOUND;
        while !self.found.insert(number) {
            number = FIRST_FOUND + (number + 1) % FIRST_FOUND;
        }
        self.numbers.insert((device, inode), number);
        number
    }

    /// The same for a path in the run's directory, wherever this is.
    fn scattered(&self, path: &[u8]) -> u64 {
        let shown = DATA_DIRECTORY.as_bytes();
        let (prefix, rest) =
            if is_below(path, &self.run) { (shown, &path[self.run.len()..]) } else { (&path[..0], path) };
        let mut hasher = FastHasher::default();
        hasher.write(prefix);
        hasher.write(rest);
        hasher.finish()
    }

    /// A private copy stands for a file of the machine from now on: for guests it is the same one.
    pub fn copied(&mut self, from: &RealNode, to: &RealNode) {
        let number = self.of_node(from);
        self.numbers.insert((to.stat.st_dev, to.stat.st_ino), number);
        self.attributes(number).overlaid = true;
    }

    /// The real inode is gone: if the machine uses its number again, that is another file. Another file at its path gets another number.
    pub fn forget(&mut self, device: u64, inode: u64) {
        if let Some(number) = self.numbers.remove(&(device, inode)) {
            self.attributes.remove(&number);
        }
    }

    pub fn attributes(&mut self, number: u64) -> &mut Attributes {
        self.attributes.entry(number).or_default()
    }

    /// When a guest created the file, in nanoseconds of the Unix epoch, which they may precede.
    pub fn born(&self, number: u64) -> Option<u64> {
        self.attributes.get(&number)?.born
    }

    /// Type and number of the device that a real file stands for.
    pub fn device(&self, real: &rustix::fs::Stat) -> Option<(u32, u64)> {
        self.device_of(*self.numbers.get(&(real.st_dev, real.st_ino))?)
    }

    pub fn device_of(&self, number: u64) -> Option<(u32, u64)> {
        self.attributes.get(&number)?.device
    }

    /// A write: modification and change time.
    pub fn touch(&mut self, number: u64, now: SimTime) {
        let (stamp, of_start) = (self.stamp(now).into(), self.times_of_start());
        let times = self.attributes(number).times.get_or_insert(of_start);
        (times.modified, times.changed) = (stamp, stamp);
    }

    /// A read: the access time moves if it is not later than the two others, or a day old (`relatime_needs_update`). No stamp of its own, so
    /// that reading a file does not change when the next one is written.
    pub fn access(&mut self, number: u64, writable: bool, now: SimTime) {
        const DAY: i128 = 24 * 3600 * 1_000_000_000;
        let (time, of_start) = (i128::from(self.real_time(now)), self.times_of_start());
        let attributes = self.attributes(number);
        if !writable {
            let accessed = attributes.accessed.get_or_insert(time);
            if time - *accessed >= DAY {
                *accessed = time;
            }
            return;
        }
        let times = attributes.times.get_or_insert(of_start);
        if times.accessed <= times.modified.max(times.changed) || time - times.accessed >= DAY {
            times.accessed = time;
        }
    }

    /// A read of a file on a mount without `relatime`, as files of memory have.
    pub fn access_always(&mut self, number: u64, now: SimTime) {
        let (time, of_start) = (i128::from(self.real_time(now)), self.times_of_start());
        self.attributes(number).times.get_or_insert(of_start).accessed = time;
    }

    /// A change of attributes: change time.
    pub fn change(&mut self, number: u64, now: SimTime) {
        let (stamp, of_start) = (self.stamp(now).into(), self.times_of_start());
        self.attributes(number).times.get_or_insert(of_start).changed = stamp;
    }

    /// A change of attributes by what was stamped last.
    pub fn change_together(&mut self, number: u64) {
        let (stamp, of_start) = (self.last_stamp.into(), self.times_of_start());
        self.attributes(number).times.get_or_insert(of_start).changed = stamp;
    }

    /// `stat` as a guest sees it.
    pub fn present(&self, real: &rustix::fs::Stat, number: u64, writable: bool) -> Stat {
        let mut stat = Stat {
            st_dev: MACHINE_DEVICE,
            st_ino: number,
            st_nlink: real.st_nlink,
            st_mode: real.st_mode,
            st_uid: machine_owner(real.st_uid),
            st_gid: machine_owner(real.st_gid),
            st_rdev: real.st_rdev,
            st_size: real.st_size,
            st_blksize: 4096,
            st_blocks: super::blocks(real.st_size as u64),
            ..Stat::default()
        };
        if writable {
            self.present_writable(&mut stat);
        } else {
            (stat.st_atime, stat.st_atime_nsec) = (real.st_mtime, real.st_mtime_nsec as i64);
            (stat.st_mtime, stat.st_mtime_nsec) = (real.st_mtime, real.st_mtime_nsec as i64);
            (stat.st_ctime, stat.st_ctime_nsec) = (real.st_mtime, real.st_mtime_nsec as i64);
            if let Some(accessed) = self.attributes.get(&number).and_then(|known| known.accessed) {
                (stat.st_atime, stat.st_atime_nsec) = split(accessed);
            }
        }
        if stat.st_mode & S_IFMT == S_IFDIR {
            (stat.st_size, stat.st_blocks) = (4096, 8);
        }
        if stat.st_mode & S_IFMT == S_IFLNK && stat.st_size < INLINE_LINK_BYTES {
            stat.st_blocks = 0;
        }
        stat
    }

    fn present_writable(&self, stat: &mut Stat) {
        let known = self.attributes.get(&stat.st_ino).copied().unwrap_or_default();
        let times = known.times.unwrap_or(self.times_of_start());
        stat.st_dev = if known.overlaid { MACHINE_DEVICE } else { WRITABLE_DEVICE };
        (stat.st_uid, stat.st_gid) = known.owner.unwrap_or((0, 0));
        if let Some(mode) = known.mode {
            stat.st_mode = stat.st_mode & S_IFMT | mode;
        }
        times.show(stat);
    }
}

/// Whom a file of the machine belongs to. Where the simulator runs in a user namespace, Linux shows owners that it does not know as
/// nobody, user_namespaces(7): they stand for root, so that a run as an ordinary user sees what one as root sees.
pub fn machine_owner(id: u32) -> u32 {
    const OVERFLOW: u32 = 65_534;
    if id == OVERFLOW { 0 } else { id }
}

fn split(ns: i128) -> (i64, i64) {
    (ns.div_euclid(1_000_000_000) as i64, ns.rem_euclid(1_000_000_000) as i64)
}

/// `stat` of something that is no file of the machine, and as old as the host.
pub fn synthetic_stat(clock: HostClock, number: u64, mode: u32, size: u64) -> Stat {
    let mut stat = Stat {
        st_dev: SYNTHETIC_DEVICE,
        st_ino: number,
        st_nlink: 1,
        st_mode: mode,
        st_size: size as i64,
        st_blksize: 4096,
        ..Stat::default()
    };
    Times::at(clock.unix_nanos(SimTime::ZERO)).show(&mut stat);
    stat
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::StartDate;

    fn identities() -> Identities {
        Identities::new(HostClock::exact(StartDate::default()), b"/home/me/o".to_vec())
    }

    #[test]
    fn numbers_of_what_guests_make_are_not_given_twice() {
        let mut identities = identities();
        let first = identities.number(1, 700);
        let second = identities.number(1, 5);
        assert_eq!(second, first + 1);
        assert_eq!(identities.number(1, 700), first);
        identities.touch(first, SimTime::from_nanos(5));
        identities.change(second, SimTime::from_nanos(5));
        let changed =
            |identities: &mut Identities, number| identities.attributes(number).times.map(|times| times.changed);
        let (earlier, later) = (changed(&mut identities, first), changed(&mut identities, second));
        assert_eq!((earlier.map(|time| time + 1), later), (later, Some(identities.real_time(SimTime::ZERO).into())));
        assert_eq!(
            identities.real_time(SimTime::from_nanos(9)),
            HostClock::exact(StartDate::default()).unix_nanos(SimTime::from_nanos(9))
        );
        identities.forget(1, 700);
        assert_eq!(identities.number(1, 700), second + 1);
        assert!(identities.attributes(second + 1).times.is_none());
    }

    #[test]
    fn numbers_of_what_was_there_follow_from_paths_alone() {
        let mut first = identities();
        let script = first.found_at(1, 20, &[b"/home/me", b"/", b"script"]);
        let log = first.found_at(1, 21, &[b"/home/me/o/hosts/a/log"]);
        let above = first.found_at(1, BESIDE_RUN, &[b"/home/me"]);
        let really = first.found_at(1, 22, &[b"/home/me"]);
        assert!((FIRST_FOUND..2 * FIRST_FOUND).contains(&script));
        assert_eq!(first.number(1, 20), script, "whoever asks");
        // Elsewhere, on another disk, with more beside it.
        let mut second = Identities::new(HostClock::exact(StartDate::default()), b"/srv/else/run".to_vec());
        let other = second.found_at(7, 1, &[b"/home/me/other"]);
        assert_eq!(second.found_at(7, 2, &[b"/home/me/script"]), script);
        assert_eq!(second.found_at(7, 3, &[b"/srv/else/run/hosts/a/log"]), log);
        assert_eq!(second.found_at(7, BESIDE_RUN, &[b"/srv/else"]), above);
        assert_eq!(second.found_at(7, 4, &[b"/home/me"]), really);
        let all = [script, log, above, really, other];
        assert!(all.iter().enumerate().all(|(at, number)| !all[..at].contains(number)));
    }

    #[test]
    fn two_files_never_have_one_number() {
        let mut identities = identities();
        let (one, other) = colliding(&identities);
        let first = identities.found_at(1, 1, &[&one]);
        let next = |number| FIRST_FOUND + (number + 1) % FIRST_FOUND;
        assert_eq!(identities.found_at(1, 2, &[&other]), next(first));
        // Nor one after the other.
        identities.forget(1, 1);
        assert_eq!(identities.found_at(1, 3, &[&one]), next(next(first)));
    }

    fn colliding(identities: &Identities) -> (Vec<u8>, Vec<u8>) {
        let mut seen: FastMap<u64, Vec<u8>> = FastMap::default();
        for at in 0u32.. {
            let path = format!("/usr/share/{at}").into_bytes();
            if let Some(other) = seen.insert(identities.scattered(&path) % FIRST_FOUND, path.clone()) {
                return (other, path);
            }
        }
        unreachable!()
    }
}
