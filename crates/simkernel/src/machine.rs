//! What the machine refuses: errors of the real kernel that another machine would not have given. A guest gets them as they are, and
//! the run says that they came from outside.
//!
//! An error climbs through a dozen signatures that carry nothing but its number, which the simulated kernel gives too (a full
//! `/dev/full`, a guest's own limit of descriptors). So the origin is noted beside it, on the thread that executes the call, and
//! whoever executes calls takes the note right after.

use crate::ctx::Ctx;
use crate::files::FileKind;
use crate::kernel::Kernel;
use crate::trace::GuestMemory;
use base::Cause;
use linux_abi::strace::{Call, Mode, write_call};
use linux_abi::{Errno, nr};
use std::cell::Cell;

thread_local! {
    static REFUSAL: Cell<Option<(Cause, Errno)>> = const { Cell::new(None) };
}

/// What makes the machine give this error; None for those that the same files give on every machine.
fn cause_of(errno: Errno) -> Option<Cause> {
    match errno {
        Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG => Some(Cause::Space),
        Errno::EMFILE | Errno::ENFILE => Some(Cause::Descriptors),
        Errno::ENOMEM => Some(Cause::Memory),
        Errno::EIO | Errno::ESTALE | Errno::EUCLEAN => Some(Cause::Files),
        _ => None,
    }
}

fn note(cause: Option<Cause>, errno: Errno) -> Errno {
    if let Some(cause) = cause {
        REFUSAL.set(Some((cause, errno)));
    }
    errno
}

/// An error of the real kernel, for a guest.
pub fn errno(error: rustix::io::Errno) -> Errno {
    let errno = Errno::from_raw(error.raw_os_error()).unwrap_or(Errno::EIO);
    note(cause_of(errno), errno)
}

/// As `errno`, from the standard library.
pub fn io_errno(error: &std::io::Error) -> Errno {
    let errno = Errno::from_io(error);
    note(cause_of(errno), errno)
}

/// As `errno`, for what happens in the run's own directory: there the simulator must be allowed everything, and names that are not too
/// long for a guest must not be so for the machine.
pub fn errno_in_run(error: rustix::io::Errno) -> Errno {
    let errno = Errno::from_raw(error.raw_os_error()).unwrap_or(Errno::EIO);
    let own = matches!(errno, Errno::EACCES | Errno::EPERM | Errno::EROFS | Errno::ENAMETOOLONG | Errno::EMLINK);
    note(if own { Some(Cause::Files) } else { cause_of(errno) }, errno)
}

/// A host met another one in the run's directory within one window.
pub fn note_meeting() {
    REFUSAL.set(Some((Cause::Sharing, Errno::EAGAIN)));
}

/// ENOMEM, since this process has as many memory mappings as the machine allows.
pub fn no_mappings() -> Errno {
    // What the refusal was for is told now.
    guest::mappings_ran_out();
    note(Some(Cause::Mappings), Errno::ENOMEM)
}

/// The refusal that was met since this was asked last.
#[inline]
pub(crate) fn take() -> Option<(Cause, Errno)> {
    REFUSAL.take()
}

impl Ctx<'_> {
    /// A call of the guest has met a refusal: the log tells it once for each process and cause, the end of the run once for each cause.
    #[cold]
    pub(crate) fn note_refusal(&mut self, (cause, errno): (Cause, Errno), number: u64, args: [u64; 6]) {
        let is_refused = cause != Cause::Sharing;
        let (mut text, result) = (String::new(), is_refused.then(|| errno.to_return()));
        let call = Call { number, args: &args, result };
        write_call(&mut text, call, Mode::Standard, &GuestMemory(&self.process.memory));
        if let Some(path) = self.file_written(number, args[0]) {
            text.push_str(&format!(", {}", String::from_utf8_lossy(&path)));
        }
        self.interfered(cause, &text);
        if self.process.refusals.insert(cause) {
            let what = match is_refused {
                true => "the machine refused this",
                false => "another host looks at these files or changes them within the same window",
            };
            self.report(format!("{what}, and the run is not reproducible to the bit: {text}"));
        }
    }

    /// Where on the machine the file lies that a call writes through a descriptor.
    fn file_written(&self, number: u64, fd: u64) -> Option<Vec<u8>> {
        const BY_DESCRIPTOR: [u32; 7] =
            [nr::write, nr::writev, nr::pwrite64, nr::pwritev, nr::ftruncate, nr::fallocate, nr::fsync];
        BY_DESCRIPTOR.iter().find(|call| u64::from(**call) == number)?;
        match &self.kernel.files[self.fds().get(fd).ok()?].kind {
            FileKind::Regular(file) => Some(file.real.clone()),
            _ => None,
        }
    }
}

impl Kernel {
    /// The simulator itself has met a refusal on the host's behalf, if it has.
    pub fn note_own_refusal(&mut self, what: &str) {
        if let Some((cause, _)) = take() {
            let host = &self.config.name;
            self.interferences.note(cause, || format!("{host}: {what}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_another_machine_would_not_refuse_is_noted() {
        assert_eq!(errno(rustix::io::Errno::NOENT), Errno::ENOENT);
        assert_eq!(errno(rustix::io::Errno::ACCESS), Errno::EACCES);
        assert_eq!(take(), None);
        assert_eq!(errno(rustix::io::Errno::NOSPC), Errno::ENOSPC);
        assert_eq!(take(), Some((Cause::Space, Errno::ENOSPC)));
        assert_eq!(take(), None);
        assert_eq!(errno_in_run(rustix::io::Errno::ACCESS), Errno::EACCES);
        assert_eq!(take(), Some((Cause::Files, Errno::EACCES)));
        assert_eq!(io_errno(&std::io::Error::from_raw_os_error(24)), Errno::EMFILE);
        assert_eq!(take(), Some((Cause::Descriptors, Errno::EMFILE)));
    }
}
