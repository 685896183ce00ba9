//! Attributes of folders that are removed and still open: whatever has one open keeps what it was like, and all of it changes together.

use crate::ctx::Ctx;
use crate::files::FileKind;
use crate::kernel::Kernel;
use crate::vfs::NewTime;
use linux_abi::fs::{IN_ISDIR, S_IFMT, Stat};

const SECOND: i128 = 1_000_000_000;

/// A change of attributes; None for what stays.
#[derive(Clone, Copy, Default)]
pub(super) struct Change {
    /// Permission bits.
    pub mode: Option<u32>,
    pub user: Option<u32>,
    pub group: Option<u32>,
    /// Of access and modification.
    pub times: [Option<NewTime>; 2],
}

/// Changes a removed folder, which had this path and was like this, and tells watches of it (`mask`).
pub(super) fn change(ctx: &mut Ctx<'_>, path: &[u8], stat: &Stat, change: Change, mask: u32) {
    let now = i128::from(ctx.kernel.vfs.identities.stamp(ctx.now));
    ctx.kernel.each_removed(stat.st_ino, |stat| apply(stat, change, now));
    ctx.kernel.file_event(path, stat.st_ino, mask | IN_ISDIR, true);
}

fn apply(stat: &mut Stat, change: Change, now: i128) {
    let time = |new: NewTime, old: (i64, i64)| match new {
        NewTime::Same => old,
        NewTime::Now => split(now),
        NewTime::At(time) => split(time),
    };
    if let Some(mode) = change.mode {
        stat.st_mode = stat.st_mode & S_IFMT | mode & 0o7777;
    }
    stat.st_uid = change.user.unwrap_or(stat.st_uid);
    stat.st_gid = change.group.unwrap_or(stat.st_gid);
    let [accessed, modified] = change.times.map(|new| new.unwrap_or(NewTime::Same));
    (stat.st_atime, stat.st_atime_nsec) = time(accessed, (stat.st_atime, stat.st_atime_nsec));
    (stat.st_mtime, stat.st_mtime_nsec) = time(modified, (stat.st_mtime, stat.st_mtime_nsec));
    (stat.st_ctime, stat.st_ctime_nsec) = split(now);
}

/// Seconds and nanoseconds of a time in nanoseconds.
fn split(time: i128) -> (i64, i64) {
    (time.div_euclid(SECOND) as i64, time.rem_euclid(SECOND) as i64)
}

impl Kernel {
    /// Changes what everything that is open of a removed folder shows, and what processes have that work in it.
    fn each_removed(&mut self, number: u64, change: impl Fn(&mut Stat)) {
        let of_files = self.files.iter_mut().filter_map(|(_, file)| match &mut file.kind {
            FileKind::Directory(directory) => directory.gone.as_deref_mut(),
            FileKind::Name(place) => place.gone.as_deref_mut(),
            _ => None,
        });
        of_files.filter(|stat| stat.st_ino == number).for_each(&change);
        let places = self.shared.places.iter_mut().filter_map(|place| place.gone.as_deref_mut());
        places.filter(|stat| stat.st_ino == number).for_each(&change);
    }
}
