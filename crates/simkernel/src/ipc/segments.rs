//! System V shared memory. A segment is a nameless real file, so that all who attach it share its pages. How often it is attached is
//! counted when somebody asks, in the books of the host's address spaces: attachments come with `fork` and go with `execve`, the
//! end of a process and `munmap`, none of which need to know of segments.

use super::{Caller, Ids, Keyed, new_perm};
use guest::AddressSpace;
use linux_abi::Errno;
use linux_abi::ipc::{IpcPerm, SHM_DEST, ShmidDs};
use std::fs::File;

pub const PAGE: u64 = 4096;
/// SHMMAX and SHMALL, as kernels have them by default.
pub const BYTES_MAX: u64 = u64::MAX - (1 << 24);
/// SHMMNI.
pub const SEGMENTS_MAX: usize = 4096;

#[derive(Debug)]
pub struct Segment {
    pub data: ShmidDs,
    pub file: File,
    /// The number under which address spaces know the memory, once it was attached.
    pub object: Option<u32>,
}

impl Keyed for Segment {
    fn perm(&self) -> &IpcPerm {
        &self.data.shm_perm
    }
    fn perm_mut(&mut self) -> &mut IpcPerm {
        &mut self.data.shm_perm
    }
}

impl Segment {
    /// Removed by IPC_RMID, and kept until nobody has it attached.
    pub fn is_removed(&self) -> bool {
        self.data.shm_perm.mode & SHM_DEST != 0
    }

    pub fn pages(&self) -> u64 {
        self.data.shm_segsz.div_ceil(PAGE)
    }

    /// What `/proc/PID/maps` shows.
    pub fn name(&self) -> Vec<u8> {
        format!("/SYSV{:08x} (deleted)", self.data.shm_perm.key as u32).into_bytes()
    }
}

#[derive(Debug, Default)]
pub struct Segments {
    pub ids: Ids<Segment>,
}

impl Segments {
    /// A new segment. ENOMEM when it is larger than all memory, ENOSPC when there are too many.
    pub fn create(
        &mut self,
        key: i32,
        bytes: u64,
        flags: u32,
        caller: Caller,
        pid: i32,
        now: i64,
    ) -> Result<i32, Errno> {
        if self.ids.len() >= SEGMENTS_MAX {
            return Err(Errno::ENOSPC);
        }
        let fd = rustix::fs::memfd_create("segment", rustix::fs::MemfdFlags::CLOEXEC).map_err(crate::vfs::errno)?;
        let size = bytes.checked_next_multiple_of(PAGE).filter(|size| *size <= 1 << 46).ok_or(Errno::ENOMEM)?;
        rustix::fs::ftruncate(&fd, size).map_err(crate::vfs::errno)?;
        let data = ShmidDs {
            shm_perm: new_perm(key, flags, caller),
            shm_segsz: bytes,
            shm_ctime: now,
            shm_cpid: pid,
            ..ShmidDs::default()
        };
        self.ids.insert(Segment { data, file: File::from(fd), object: None })
    }

    /// The segment that has this number in address spaces.
    pub fn by_object(&mut self, object: u32) -> Option<&mut Segment> {
        self.ids.iter_mut().map(|(_, segment)| segment).find(|segment| segment.object == Some(object))
    }

    /// Removes segments that nobody can reach any more. `spaces` are all address spaces of the host.
    pub fn collect<'a>(&mut self, spaces: impl Iterator<Item = &'a AddressSpace> + Clone) {
        let gone: Vec<i32> = self
            .ids
            .iter()
            .filter(|(_, segment)| segment.is_removed() && attachments(segment, spaces.clone()) == 0)
            .map(|(id, _)| id)
            .collect();
        for id in gone {
            // It was found a line above.
            let _ = self.ids.remove(id);
        }
    }

    /// A process gives up its memory.
    pub fn detach_all(&mut self, memory: &AddressSpace, pid: i32, now: i64) {
        if self.ids.is_empty() {
            return;
        }
        for vma in memory.mappings().filter(|vma| vma.shared) {
            if let Some(segment) = self.by_object(vma.object()) {
                segment.data.shm_lpid = pid;
                segment.data.shm_dtime = now;
            }
        }
    }
}

/// How often a segment is attached in all of the given address spaces.
pub fn attachments<'a>(segment: &Segment, spaces: impl Iterator<Item = &'a AddressSpace>) -> u64 {
    let Some(object) = segment.object else { return 0 };
    let count =
        |space: &AddressSpace| space.mappings().filter(|vma| vma.shared && vma.object() == object).count() as u64;
    spaces.map(count).sum()
}
