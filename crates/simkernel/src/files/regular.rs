//! Regular files of the machine: a path, an offset, and now and then a real descriptor from the cache.
//!
//! A guest's reads and writes of regular files never take simulated time.

use crate::ids::FileId;
use crate::kernel::Kernel;
use crate::user_io::{ByteSink, ByteSource};
use crate::vfs::mounts::is_below;
use crate::vfs::{RealNode, data_blocks, errno, has_holes};
use base::SimTime;
use linux_abi::Errno;
use linux_abi::fs::{
    F_SEAL_FUTURE_WRITE, F_SEAL_GROW, F_SEAL_WRITE, IN_ACCESS, IN_MODIFY, O_APPEND, O_NOATIME, S_IFDIR, S_IFMT,
    S_IFREG, Stat,
};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::FileKind;
use super::spliced::Change;

/// Bytes moved by one real read or write.
const CHUNK: usize = 256 << 10;

/// The longest file of ext4 with blocks of 4 KiB, which guests are told that they have: longer ones are refused before the machine is asked,
/// whose file system may take more or less.
pub(crate) const LONGEST_ON_DISK: u64 = ((1 << 32) - 1) << 12;

/// What Linux writes at once into a file of memory.
const PAGE_BYTES: u64 = 4096;

#[derive(Debug)]
pub struct RegularFile {
    /// Names the real descriptor in the cache.
    pub serial: u64,
    /// Where the file really lies; where it is reopened.
    pub real: Vec<u8>,
    /// The path by which the guest opened it.
    pub path: Vec<u8>,
    /// Opened for writing.
    pub writes: bool,
    /// It lies in a writable area.
    pub in_run: bool,
    /// The guest-visible inode number.
    pub number: u64,
    pub offset: u64,
    /// The one descriptor of a file that has no name any more.
    pub pinned: Option<OwnedFd>,
    /// The last name was removed: the inode is gone with this open file.
    pub unlinked: bool,
}

impl RegularFile {
    /// A file of memfd_create(2): on no disk.
    pub fn is_memory(&self) -> bool {
        self.path.starts_with(b"/memfd:")
    }

    /// How long it may become (`s_maxbytes`).
    pub fn longest(&self) -> u64 {
        if self.is_memory() { i64::MAX as u64 } else { LONGEST_ON_DISK }
    }
}

impl Kernel {
    /// Whether an open file is one of memfd_create(2).
    pub(crate) fn is_memory(&self, id: FileId) -> bool {
        matches!(&self.files[id].kind, FileKind::Regular(file) if file.is_memory())
    }

    /// A real descriptor for an open regular file, to map it or to move bytes. EBADF for other kinds.
    pub fn real_descriptor(&mut self, id: FileId) -> Result<BorrowedFd<'_>, Errno> {
        let FileKind::Regular(file) = &self.files[id].kind else { return Err(Errno::EBADF) };
        match &file.pinned {
            Some(fd) => Ok(fd.as_fd()),
            None => self.vfs.descriptors.get(file.serial, &file.real, file.writes),
        }
    }

    /// The seals of a memfd, which the real file keeps, and obeys.
    pub(crate) fn seals(&mut self, id: FileId) -> Result<u32, Errno> {
        Ok(rustix::fs::fcntl_get_seals(self.real_descriptor(id)?).map_err(errno)?.bits())
    }

    fn regular(&mut self, id: FileId) -> Result<&mut RegularFile, Errno> {
        match &mut self.files[id].kind {
            FileKind::Regular(file) => Ok(file),
            _ => Err(Errno::EBADF),
        }
    }

    /// Reads at `position`, or at and with the file's offset.
    pub(crate) fn regular_read(
        &mut self,
        id: FileId,
        sink: &mut dyn ByteSink,
        position: Option<u64>,
    ) -> Result<usize, Errno> {
        if let FileKind::Regular(file) = &self.files[id].kind
            && file.in_run
        {
            self.vfs.looks_at(&file.real);
        }
        let start = match position {
            Some(position) => position,
            None => self.regular(id)?.offset,
        };
        let wanted = sink.remaining();
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = self.read_chunks(id, sink, start, &mut scratch);
        self.scratch = scratch;
        self.note_access(id, wanted);
        let done = result?;
        if position.is_none() {
            self.regular(id)?.offset = start + done as u64;
        }
        if done > 0 {
            self.open_file_event(id, IN_ACCESS);
        }
        Ok(done)
    }

    /// Somebody reads `wanted` bytes of an open file, or as much as there is, or maps it (`file_accessed`).
    pub(crate) fn note_access(&mut self, id: FileId, wanted: usize) {
        let open = &self.files[id];
        let FileKind::Regular(file) = &open.kind else { return };
        if file.is_memory() {
            self.vfs.identities.access_always(file.number, self.now);
        } else if wanted > 0 && open.status & O_NOATIME == 0 {
            self.vfs.identities.access(file.number, file.in_run, self.now);
        }
    }

    fn read_chunks(
        &mut self,
        id: FileId,
        sink: &mut dyn ByteSink,
        start: u64,
        scratch: &mut Vec<u8>,
    ) -> Result<usize, Errno> {
        let mut done = 0;
        while sink.remaining() > 0 {
            let want = sink.remaining().min(CHUNK);
            if scratch.len() < want {
                scratch.resize(want, 0);
            }
            let fd = self.real_descriptor(id)?;
            let got = match rustix::io::pread(fd, &mut scratch[..want], start + done as u64) {
                Ok(got) => got,
                Err(_) if done > 0 => break,
                Err(error) => return Err(errno(error)),
            };
            let moved = sink.put(&scratch[..got]);
            done += moved;
            if moved < got && done == 0 {
                return Err(Errno::EFAULT);
            }
            if moved < want {
                break;
            }
        }
        Ok(done)
    }

    /// Writes at `position`, or at and with the file's offset; at the end of a file opened with O_APPEND.
    pub(crate) fn regular_write(
        &mut self,
        id: FileId,
        source: &mut dyn ByteSource,
        position: Option<u64>,
        now: SimTime,
    ) -> Result<usize, Errno> {
        if source.remaining() == 0 {
            return Ok(0);
        }
        if let FileKind::Regular(file) = &self.files[id].kind {
            self.vfs.changes(&file.real);
        }
        let append = self.files[id].status & O_APPEND != 0;
        let start = match position {
            _ if append => self.regular_size(id)?,
            Some(position) => position,
            None => self.regular(id)?.offset,
        };
        // A place beyond the last one is refused (`rw_verify_area`) before a file's own limit.
        if !append && start.saturating_add(source.remaining() as u64) > i64::MAX as u64 {
            return Err(Errno::EINVAL);
        }
        let longest = self.regular(id)?.longest();
        if start >= longest {
            return Err(Errno::EFBIG);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = self.write_chunks(id, source, start..longest, &mut scratch);
        self.scratch = scratch;
        let done = result?;
        let file = self.regular(id)?;
        if position.is_none() {
            file.offset = start + done as u64;
        }
        let number = file.number;
        self.vfs.identities.touch(number, now);
        self.open_file_event(id, IN_MODIFY);
        Ok(done)
    }

    fn write_chunks(
        &mut self,
        id: FileId,
        source: &mut dyn ByteSource,
        Range { start, end }: Range<u64>,
        scratch: &mut Vec<u8>,
    ) -> Result<usize, Errno> {
        let mut done = 0;
        while source.remaining() > 0 && start + (done as u64) < end {
            let want = source.remaining().min(CHUNK).min((end - start - done as u64) as usize);
            if scratch.len() < want {
                scratch.resize(want, 0);
            }
            let got = source.take(&mut scratch[..want]);
            if got == 0 {
                break;
            }
            let fd = self.real_descriptor(id)?;
            match rustix::io::pwrite(fd, &scratch[..got], start + done as u64) {
                Ok(written) => {
                    let number = self.regular(id)?.number;
                    self.file_changed(number, Change::Written { at: start + done as u64, bytes: &scratch[..written] });
                    done += written;
                }
                Err(_) if done > 0 => break,
                Err(error) => return Err(errno(error)),
            }
            if got < want {
                break;
            }
        }
        if done == 0 { Err(self.write_of_nothing(id, start, source.remaining())) } else { Ok(done) }
    }

    /// What follows if none of `bytes` can be had of the writer's memory: since Linux 6.16 the file is made ready first, so it grows to where
    /// they would have gone, and its seals have their say.
    fn write_of_nothing(&mut self, id: FileId, start: u64, bytes: usize) -> Errno {
        let grow_to = |kernel: &mut Self| -> Result<(), Errno> {
            let size = kernel.regular_size(id)?;
            if kernel.is_memory(id) {
                let seals = kernel.seals(id)?;
                let page = PAGE_BYTES - start % PAGE_BYTES;
                let is_grown = start + page.min(bytes as u64) > size;
                if seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE) != 0 || (seals & F_SEAL_GROW != 0 && is_grown) {
                    return Err(Errno::EPERM);
                }
            }
            if start > size {
                rustix::fs::ftruncate(kernel.real_descriptor(id)?, start).map_err(errno)?;
            }
            Ok(())
        };
        grow_to(self).err().unwrap_or(Errno::EFAULT)
    }

    pub fn regular_size(&mut self, id: FileId) -> Result<u64, Errno> {
        Ok(rustix::fs::fstat(self.real_descriptor(id)?).map_err(errno)?.st_size as u64)
    }

    pub(crate) fn regular_stat(&mut self, id: FileId) -> Result<Stat, Errno> {
        let real = rustix::fs::fstat(self.real_descriptor(id)?).map_err(errno)?;
        let in_run = self.regular(id)?.in_run;
        let number = self.vfs.identities.of(&real);
        let mut stat = self.vfs.identities.present(&real, number, in_run);
        if !in_run && self.regular(id)?.unlinked {
            // The machine's own file keeps its name.
            stat.st_nlink = 0;
        }
        if has_holes(&real, in_run) {
            // The real descriptor's own position is used for nothing else.
            stat.st_blocks = data_blocks(self.real_descriptor(id)?, stat.st_size as u64);
        }
        Ok(stat)
    }

    pub(crate) fn regular_truncate(&mut self, id: FileId, size: u64, now: SimTime) -> Result<(), Errno> {
        self.truncate_silently(id, size, now)?;
        self.size_event(id);
        Ok(())
    }

    /// The same where who watches the file is told by the caller.
    pub(crate) fn truncate_silently(&mut self, id: FileId, size: u64, now: SimTime) -> Result<(), Errno> {
        if let FileKind::Regular(file) = &self.files[id].kind {
            self.vfs.changes(&file.real);
        }
        rustix::fs::ftruncate(self.real_descriptor(id)?, size).map_err(errno)?;
        let number = self.regular(id)?.number;
        self.file_changed(number, Change::Cleared { from: size, to: u64::MAX });
        self.vfs.identities.touch(number, now);
        Ok(())
    }

    /// As [`Vfs::for_change`](crate::vfs::Vfs::for_change). Who has the machine's file open has the private copy from now on.
    pub(crate) fn for_change(&mut self, path: &[u8], node: &RealNode) -> Result<RealNode, Errno> {
        let copy = self.vfs.for_change(path, node)?;
        if copy.path != node.path {
            for (_, file) in self.files.iter_mut() {
                let FileKind::Regular(file) = &mut file.kind else { continue };
                if file.pinned.is_none() && file.real == node.path {
                    file.real.clone_from(&copy.path);
                    file.in_run = true;
                    drop(self.vfs.descriptors.take(file.serial));
                }
            }
        }
        Ok(copy)
    }

    /// A file that is about to lose its name: the machine's own, where somebody has it open, gives way to a private copy, which can still be changed
    /// by who has it.
    pub(crate) fn copy_if_open(&mut self, path: &[u8], node: RealNode) -> Result<RealNode, Errno> {
        let has_it = |file: &super::OpenFile| matches!(&file.kind, FileKind::Regular(file) if file.real == node.path);
        if node.writable || node.kind() != S_IFREG || !self.files.iter().any(|(_, file)| has_it(file)) {
            return Ok(node);
        }
        self.for_change(path, &node)
    }

    /// A name is about to vanish: open files at this real path keep their descriptor from now on. Whether any keeps the inode, by this name or by
    /// one that has vanished before.
    pub(crate) fn pin_open_files(&mut self, node: &RealNode, last_name: bool) -> Result<bool, Errno> {
        let number = self.vfs.identities.of_node(node);
        let mut found = self.vfs.fifo(&node.stat).is_some();
        for (_, file) in self.files.iter_mut() {
            let FileKind::Regular(file) = &mut file.kind else { continue };
            if file.pinned.is_none() && file.real == node.path {
                self.vfs.descriptors.get(file.serial, &file.real, file.writes)?;
                file.pinned = self.vfs.descriptors.take(file.serial);
            } else if file.pinned.is_none() || file.number != number {
                continue;
            }
            found = true;
            file.unlinked |= last_name;
        }
        Ok(found)
    }

    /// A file or directory moved: open files at or below it are reopened at the new place (`real` paths), and shown there.
    /// With `exchange` those at the new place come to the old one.
    pub(crate) fn move_open_files(&mut self, real: [&[u8]; 2], shown: [&[u8]; 2], exchange: bool) {
        let forth = (real, shown);
        let back = ([real[1], real[0]], [shown[1], shown[0]]);
        for (_, file) in self.files.iter_mut() {
            let FileKind::Regular(file) = &mut file.kind else { continue };
            if file.pinned.is_some() {
                continue;
            }
            let ([from, to], [old, new]) = match () {
                () if is_below(&file.real, real[0]) => forth,
                () if exchange && is_below(&file.real, real[1]) => back,
                () => continue,
            };
            file.real = [to, &file.real[from.len()..]].concat();
            if is_below(&file.path, old) {
                file.path = [new, &file.path[old.len()..]].concat();
            }
        }
    }

    /// A name was removed: places and folders that were opened by it keep what was there, as it was (`stat`, still with that name). Whether
    /// there are any.
    pub(crate) fn leave_places(&mut self, path: &[u8], stat: Stat) -> bool {
        let mut is_kept = false;
        let is_directory = stat.st_mode & S_IFMT == S_IFDIR;
        let st_nlink = if is_directory { 0 } else { stat.st_nlink.saturating_sub(1) };
        for (_, file) in self.files.iter_mut() {
            let (of, gone) = match &mut file.kind {
                FileKind::Name(place) => (&place.path, &mut place.gone),
                FileKind::Directory(directory) => (&directory.path, &mut directory.gone),
                _ => continue,
            };
            match gone {
                None if of == path => {
                    is_kept = true;
                    *gone = Some(Box::new(Stat { st_nlink, ..stat }));
                }
                // It was opened by a name that went before.
                Some(gone) if gone.st_ino == stat.st_ino => gone.st_nlink = st_nlink,
                _ => {}
            }
        }
        let left =
            self.shared.places.iter_mut().filter(|place| is_directory && place.gone.is_none() && place.cwd == path);
        left.for_each(|place| place.gone = Some(Box::new(Stat { st_nlink, ..stat })));
        is_kept
    }

    /// The last reference to an open regular file is gone, and its inode with it, if it has neither a name nor another open file.
    pub(crate) fn close_regular(&mut self, file: &RegularFile) {
        let number = file.number;
        let same = |other: &super::OpenFile| matches!(&other.kind, FileKind::Regular(other) if other.number == number);
        let is_last = file.unlinked && !self.files.iter().any(|(_, other)| same(other));
        let gone = file.pinned.as_ref().filter(|_| is_last);
        if let Some(Ok(stat)) = gone.map(rustix::fs::fstat) {
            self.vfs.forget(stat.st_dev, stat.st_ino);
        }
        drop(self.vfs.descriptors.take(file.serial));
    }
}
