//! Pages of files that lie in pipes: `splice` and `sendfile` hand over the pages themselves, so what is written to a file later shows in
//! the pipe, as long as the page is the file's (`filemap_splice_read`, `shmem_file_splice_read`).
//!
//! Pipes hold copies, which follow the calls that change a file: a write changes them, what cuts the file or makes holes ends the page. What
//! is written through shared mappings does not show.

use super::pipe::{PAGE, PipeEnd, PipeId};
use crate::ids::FileId;
use crate::kernel::Kernel;
use linux_abi::Errno;
use std::collections::BTreeSet;
use std::ops::Range;

/// Whose byte a page of a pipe begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FilePlace {
    /// The file's inode number.
    pub number: u64,
    /// In bytes from its start.
    pub at: u64,
}

/// What has become of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change<'a> {
    /// These bytes are at this place now.
    Written { at: u64, bytes: &'a [u8] },
    /// These are zeroes, or behind the end: whole pages are the file's no more.
    Cleared { from: u64, to: u64 },
}

/// The pipes of a host that may hold pages of files.
#[derive(Debug, Default)]
pub(crate) struct Spliced {
    pipes: BTreeSet<u32>,
}

impl Spliced {
    pub(super) fn add(&mut self, pipe: PipeId) {
        self.pipes.insert(pipe.0);
    }

    pub(super) fn has(&self, pipe: PipeId) -> bool {
        self.pipes.contains(&pipe.0)
    }
}

/// Brings a page's copy up to date; `bytes` are those that the pipe shows or has shown. Whether the page is the file's still.
pub(super) fn follow(place: FilePlace, bytes: &mut [u8], change: Change<'_>) -> bool {
    let end = place.at + bytes.len() as u64;
    let common = |from: u64, to: u64| from.max(place.at)..to.min(end).max(from.max(place.at));
    let within = |part: &Range<u64>, start: u64| (part.start - start) as usize..(part.end - start) as usize;
    match change {
        Change::Written { at, bytes: new } => {
            let part = common(at, at + new.len() as u64);
            if !part.is_empty() {
                bytes[within(&part, place.at)].copy_from_slice(&new[within(&part, at)]);
            }
            true
        }
        Change::Cleared { from, to } => {
            let page = place.at - place.at % PAGE as u64;
            if from <= page && page + PAGE as u64 <= to {
                return false;
            }
            let part = common(from, to);
            if !part.is_empty() {
                bytes[within(&part, place.at)].fill(0);
            }
            true
        }
    }
}

impl Kernel {
    /// A file has changed: what pipes hold of it follows.
    #[inline]
    pub(crate) fn file_changed(&mut self, number: u64, change: Change<'_>) {
        if !self.spliced.pipes.is_empty() {
            self.show_in_pipes(number, change);
        }
    }

    #[cold]
    fn show_in_pipes(&mut self, number: u64, change: Change<'_>) {
        let pipes = &mut self.pipes;
        self.spliced.pipes.retain(|pipe| pipes.get_mut(*pipe as usize).is_some_and(|pipe| pipe.follow(number, change)));
    }

    /// Hands a file's bytes, which begin at `offset`, to a pipe as pages. How many fitted.
    pub(crate) fn pipe_take_file(
        &mut self,
        to: PipeEnd,
        file: FileId,
        bytes: &[u8],
        offset: u64,
    ) -> Result<usize, Errno> {
        let super::FileKind::Regular(regular) = &self.files[file].kind else {
            return Ok(self.pipe_take_pages(to, bytes, offset, |_| None));
        };
        let (number, changes) = (regular.number, regular.in_run);
        // In place of a hole of a file of memory the pipe gets a page of zeroes that is nobody's.
        let holes =
            if regular.is_memory() { self.holes(file, offset..offset + bytes.len() as u64)? } else { Vec::new() };
        let place = |at: u64| {
            let is_hole = holes.contains(&(at / PAGE as u64));
            (changes && !is_hole).then_some(FilePlace { number, at })
        };
        if changes {
            self.spliced.add(to.pipe);
        }
        Ok(self.pipe_take_pages(to, bytes, offset, place))
    }

    /// The numbers of a file's pages in a range that hold no data.
    fn holes(&mut self, file: FileId, range: Range<u64>) -> Result<Vec<u64>, Errno> {
        let mut holes = Vec::new();
        for page in range.start / PAGE as u64..range.end.div_ceil(PAGE as u64) {
            let start = page * PAGE as u64;
            let data = rustix::fs::seek(self.real_descriptor(file)?, rustix::fs::SeekFrom::Data(start));
            if data.map_or(true, |data| data >= start + PAGE as u64) {
                holes.push(page);
            }
        }
        Ok(holes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: FilePlace = FilePlace { number: 1, at: 5000 };

    fn after(change: Change<'_>) -> (bool, Vec<u8>) {
        let mut bytes = vec![1; 8];
        let stays = follow(PLACE, &mut bytes, change);
        (stays, bytes)
    }

    #[test]
    fn what_is_written_shows_where_it_lies() {
        assert_eq!(after(Change::Written { at: 4998, bytes: &[7; 4] }), (true, vec![7, 7, 1, 1, 1, 1, 1, 1]));
        assert_eq!(after(Change::Written { at: 5006, bytes: &[7; 4] }), (true, vec![1, 1, 1, 1, 1, 1, 7, 7]));
        assert_eq!(after(Change::Written { at: 5008, bytes: &[7; 4] }), (true, vec![1; 8]));
        assert_eq!(after(Change::Written { at: 4990, bytes: &[7; 10] }), (true, vec![1; 8]));
        assert_eq!(after(Change::Written { at: 0, bytes: &[7; 9000] }), (true, vec![7; 8]));
    }

    #[test]
    fn whole_pages_that_are_cleared_stay_as_they_were() {
        assert_eq!(after(Change::Cleared { from: 4096, to: 8192 }), (false, vec![1; 8]));
        assert_eq!(after(Change::Cleared { from: 0, to: u64::MAX }), (false, vec![1; 8]));
        assert_eq!(after(Change::Cleared { from: 5002, to: u64::MAX }), (true, vec![1, 1, 0, 0, 0, 0, 0, 0]));
        assert_eq!(after(Change::Cleared { from: 0, to: 4500 }), (true, vec![1; 8]));
    }
}
