//! The file tree as a host's guests see it: the machine's files, read-only; the run's directory, writable; private overlays for
//! `/tmp` and its like; synthetic files for what must not depend on the machine.
//!
//! Owns paths, identities and the cache of real descriptors. Open files are in `files`; the calls in `syscalls`.

pub mod descriptors;
pub mod folders;
pub mod identity;
pub mod list;
pub mod machine_files;
pub mod mounts;
mod network_settings;
mod overlay;
pub mod permission;
pub mod proc;
mod proc_init;
mod proc_ipc;
pub(crate) mod proc_memory;
mod proc_net;
mod proc_process;
pub mod settings;
pub mod synthetic;
mod sys;
pub mod walk;

use crate::credentials::Credentials;
use crate::files::pipe::PipeId;
use crate::host::HostConfig;
pub(crate) use crate::machine::errno;
use crate::machine::errno_in_run;
use base::SimTime;
use base::map::{FastMap, FastSet};
use descriptors::Descriptors;
use folders::Visitor;
use identity::{Identities, Times};
use linux_abi::Errno;
use linux_abi::fs::{S_IFDIR, S_IFIFO, S_IFLNK, S_IFMT, S_IFREG, Stat};
use machine_files::Reads;
use mounts::{Area, Mounts};
use permission::Permissions;
pub(crate) use proc_process::{mount_around, seen};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, SeekFrom};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use synthetic::View;
pub use walk::{Node, Target};

const PAGE_BYTES: u64 = 4096;

/// A file of the machine.
#[derive(Clone, Debug)]
pub struct RealNode {
    /// Where it really lies.
    pub path: Vec<u8>,
    pub stat: rustix::fs::Stat,
    /// It lies in the run's directory or in an overlay's private part.
    pub writable: bool,
}

#[derive(Debug)]
pub struct Vfs {
    mounts: Mounts,
    /// How the host moves in the run's directory.
    pub visitor: Visitor,
    /// Directories of the machine that walks have passed.
    known_directories: FastMap<Vec<u8>, Permissions>,
    /// Links of the machine that walks have followed, and their texts.
    known_links: FastMap<Vec<u8>, Vec<u8>>,
    /// Paths in overlays whose lower file was removed: nothing at or below them shows through.
    hidden: FastSet<Vec<u8>>,
    pub identities: Identities,
    /// Extended attributes, by inode number.
    pub xattrs: FastMap<u64, BTreeMap<Vec<u8>, Vec<u8>>>,
    pub descriptors: Descriptors,
    /// FIFOs that are open, by real path.
    fifos: BTreeMap<(u64, u64), PipeId>,
    serials: u64,
    reads: RefCell<Reads>,
}

/// One of a file's times as utimensat(2) sets it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewTime {
    Same,
    Now,
    /// In nanoseconds of the Unix epoch, which it may precede.
    At(i128),
}

/// What a new file is given.
#[derive(Clone, Copy, Debug)]
pub struct New<'a> {
    /// Permission bits, and the type for `mknod`.
    pub mode: u32,
    pub owner: &'a Credentials,
    pub now: SimTime,
}

pub fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// The directory part of an absolute path; empty for the root.
pub fn parent(path: &[u8]) -> &[u8] {
    &path[..path.iter().rposition(|&b| b == b'/').unwrap_or(0)]
}

impl Vfs {
    pub fn new(config: &HostConfig) -> Self {
        Vfs {
            mounts: Mounts::new(config),
            visitor: Visitor::new(Arc::clone(&config.folders), config.id, &config.data_dir, &config.host_dir),
            known_directories: FastMap::default(),
            known_links: FastMap::default(),
            hidden: FastSet::default(),
            identities: Identities::new(config.clock, config.data_dir.as_os_str().as_bytes().to_vec()),
            xattrs: FastMap::default(),
            descriptors: Descriptors::new(config.real_descriptors),
            fifos: BTreeMap::new(),
            serials: 0,
            reads: RefCell::new(Reads::new(&config.machine_files)),
        }
    }

    /// A guest reads a file of the machine, or lists a folder: the run depends on what is there.
    pub(crate) fn reads(&self, node: &RealNode) {
        if !node.writable {
            self.reads.borrow_mut().note(&node.path);
        }
    }

    /// The host looks at a file of the machine, where it really lies.
    pub fn looks_at(&self, real: &[u8]) {
        if self.visitor.looks_at(real) {
            crate::machine::note_meeting();
        }
    }

    /// The host changes a file, where it really lies.
    pub fn changes(&self, real: &[u8]) {
        if self.visitor.changes(real) {
            crate::machine::note_meeting();
        }
    }

    /// A number for a new open file.
    pub fn new_serial(&mut self) -> u64 {
        self.serials += 1;
        self.serials
    }

    /// Whether anything could be written at this path.
    pub fn writable(&self, path: &[u8]) -> bool {
        !matches!(self.mounts.find(&self.mounts.machine_path(path)).0, Area::ReadOnly)
    }

    /// The one name under which watches know what lies beside the run's directory.
    pub(crate) fn machine_path<'a>(&self, path: &'a [u8]) -> std::borrow::Cow<'a, [u8]> {
        self.mounts.machine_path(path)
    }

    fn is_hidden(&self, path: &[u8]) -> bool {
        if mounts::is_of_running_programs(path) {
            return true;
        }
        if self.hidden.is_empty() {
            return false;
        }
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
        ends.chain([path.len()]).any(|end| self.hidden.contains(&path[..end]))
    }

    /// Creates a regular file and opens it. The caller knows that nothing is there, and that it may.
    pub fn create(&mut self, path: &[u8], new: &New<'_>) -> Result<(OwnedFd, RealNode), Errno> {
        let real = self.place(path)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd =
            rustix::fs::open(&real[..], flags, Mode::from_raw_mode(new.mode & 0o777 | 0o600)).map_err(errno_in_run)?;
        let node = self.created(path, real, new)?;
        Ok((fd, node))
    }

    /// Creates a regular file without a name in a directory. `linkable`: it may be given one later.
    pub fn create_unnamed(
        &mut self,
        directory: &[u8],
        new: &New<'_>,
        linkable: bool,
    ) -> Result<(OwnedFd, RealNode), Errno> {
        let name = format!("/#{}", self.new_serial());
        let path = [directory, name.as_bytes()].concat();
        let real = self.place(&path)?;
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let flags = if linkable { flags } else { flags | OFlags::EXCL };
        let mode_bits = Mode::from_raw_mode(new.mode & 0o777 | 0o600);
        match rustix::fs::open(parent(&real), flags, mode_bits) {
            Ok(fd) => {
                let stat = rustix::fs::fstat(&fd).map_err(errno_in_run)?;
                let owner = Permissions { mode: new.mode, user: new.owner.user.fs, group: new.owner.group.fs };
                self.note_permissions(&stat, owner);
                self.note_birth(&stat, new.now);
                Ok((fd, RealNode { path: real, stat, writable: true }))
            }
            // Not every file system has such files: a name that vanishes at once does for all but linking.
            Err(_) => {
                let (fd, node) = self.create(&path, new)?;
                rustix::fs::unlink(&node.path[..]).map_err(errno_in_run)?;
                Ok((fd, node))
            }
        }
    }

    /// Gives a file without a name, open at a real descriptor, a name. The real path. ENOENT for one that must not have any.
    pub fn link_unnamed(&mut self, fd: std::os::fd::BorrowedFd<'_>, to: &[u8], now: SimTime) -> Result<Vec<u8>, Errno> {
        use std::os::fd::AsRawFd;
        let real = self.place(to)?;
        let source = format!("/proc/self/fd/{}", fd.as_raw_fd());
        rustix::fs::linkat(CWD, source, CWD, &real[..], AtFlags::SYMLINK_FOLLOW).map_err(errno_in_run)?;
        let number = self.identities.of(&rustix::fs::fstat(fd).map_err(errno_in_run)?);
        self.identities.change(number, now);
        self.touch_parent(to, now);
        Ok(real)
    }

    fn note_birth(&mut self, stat: &rustix::fs::Stat, now: SimTime) {
        let number = self.identities.of(stat);
        let stamp = self.identities.stamp(now);
        let attributes = self.identities.attributes(number);
        attributes.times = Some(Times::at(stamp));
        attributes.born = Some(stamp);
    }

    /// Notes times, owner and mode of what was just created, and the change of its directory.
    fn created(&mut self, path: &[u8], real: Vec<u8>, new: &New<'_>) -> Result<RealNode, Errno> {
        let node = walk::real_node(&real, true)?.ok_or(Errno::EIO)?;
        let directory = self.touch_parent(path, new.now);
        let mode = if node.kind() == S_IFLNK { S_IFLNK | 0o777 } else { node.kind() | new.mode & 0o7777 };
        let permissions = match directory {
            Some(directory) => directory.of_new(new.owner, mode),
            None => Permissions { mode, user: new.owner.user.fs, group: new.owner.group.fs },
        };
        self.note_permissions(&node.stat, permissions);
        self.note_birth(&node.stat, new.now);
        if matches!(self.mounts.find(&self.mounts.machine_path(path)).0, Area::Overlay(overlay) if overlay.shows_machine())
        {
            let number = self.identities.of(&node.stat);
            self.identities.attributes(number).overlaid = true;
        }
        Ok(node)
    }

    /// Notes the change of a directory, whose permissions it returns.
    fn touch_parent(&mut self, path: &[u8], now: SimTime) -> Option<Permissions> {
        let node = self.lookup_real(parent(path)).ok().flatten()?;
        let number = self.identities.of_node(&node);
        self.identities.touch(number, now);
        Some(Permissions::from(&self.stat(&node)))
    }

    pub fn mkdir(&mut self, path: &[u8], new: &New<'_>) -> Result<(), Errno> {
        let real = self.place(path)?;
        rustix::fs::mkdir(&real[..], Mode::from_raw_mode(new.mode & 0o777 | 0o700)).map_err(errno_in_run)?;
        self.created(path, real, new).map(|_| ())
    }

    pub fn symlink(&mut self, text: &[u8], path: &[u8], new: &New<'_>) -> Result<(), Errno> {
        let real = self.place(path)?;
        rustix::fs::symlink(text, &real[..]).map_err(errno_in_run)?;
        self.created(path, real, new).map(|_| ())
    }

    /// A regular file, FIFO or socket node (the mode with its type). The real path, under which FIFOs and sockets are known.
    pub fn mknod(&mut self, path: &[u8], new: &New<'_>) -> Result<Vec<u8>, Errno> {
        let real = self.place(path)?;
        let kind = rustix::fs::FileType::from_raw_mode(new.mode);
        rustix::fs::mknodat(CWD, &real[..], kind, Mode::from_raw_mode(new.mode & 0o777 | 0o600), 0)
            .map_err(errno_in_run)?;
        Ok(self.created(path, real, new)?.path)
    }

    /// A device node (the mode with its type) with a number.
    pub fn make_device(&mut self, path: &[u8], new: &New<'_>, device: u64) -> Result<(), Errno> {
        let fifo = New { mode: S_IFIFO | new.mode & !S_IFMT, ..*new };
        let real = self.mknod(path, &fifo)?;
        let node = walk::real_node(&real, true)?.ok_or(Errno::EIO)?;
        let number = self.identities.of_node(&node);
        self.identities.attributes(number).device = Some((new.mode & S_IFMT, device));
        Ok(())
    }

    pub fn link(&mut self, from: &[u8], node: &RealNode, to: &[u8], now: SimTime) -> Result<(), Errno> {
        let real = self.place(to)?;
        let source = self.for_change(from, node)?;
        rustix::fs::linkat(CWD, &source.path[..], CWD, &real[..], AtFlags::empty()).map_err(errno_in_run)?;
        let number = self.identities.of_node(&source);
        self.identities.change(number, now);
        self.touch_parent(to, now);
        Ok(())
    }

    /// Removes a name. The caller has detached open files, and checked that it is a directory or not. `in_use` says that an open
    /// file still keeps the inode.
    pub fn remove(&mut self, path: &[u8], node: &RealNode, in_use: bool, now: SimTime) -> Result<(), Errno> {
        if !self.writable(path) {
            return Err(Errno::EROFS);
        }
        let directory = node.kind() == S_IFDIR;
        if directory && !self.list_names(path, node)?.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        if node.writable {
            self.changes(&node.path);
            let flags = if directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            rustix::fs::unlinkat(CWD, &node.path[..], flags).map_err(errno_in_run)?;
            if (directory || node.stat.st_nlink <= 1) && !in_use {
                self.forget(node.stat.st_dev, node.stat.st_ino);
            }
        }
        self.hide_lower(path)?;
        self.touch_parent(path, now);
        if !directory && (in_use || node.stat.st_nlink > 1) {
            self.lost_name(&node.stat);
        }
        Ok(())
    }

    /// A file that lives on has lost a name, at the moment at which the directory changed.
    pub(crate) fn lost_name(&mut self, stat: &rustix::fs::Stat) {
        let number = self.identities.of(stat);
        self.identities.change_together(number);
    }

    /// A real inode is gone, with what the simulation knows of it.
    pub(crate) fn forget(&mut self, device: u64, inode: u64) {
        if !self.xattrs.is_empty() {
            let number = self.identities.number(device, inode);
            self.xattrs.remove(&number);
        }
        self.identities.forget(device, inode);
    }

    /// Moves a file or directory, replacing what is at `to`; the caller has checked what Linux demands of the two. The real paths
    /// before and after. EXDEV for a directory of the machine, as from an overlay file system.
    pub fn rename(
        &mut self,
        from: &[u8],
        node: &RealNode,
        to: &[u8],
        exchange: bool,
        now: SimTime,
    ) -> Result<(Vec<u8>, Vec<u8>), Errno> {
        if !self.writable(from) || !self.writable(to) {
            return Err(Errno::EROFS);
        }
        if node.kind() == S_IFDIR && (!node.writable || self.shows_lower(from)?) {
            return Err(Errno::EXDEV);
        }
        let source = self.for_change(from, node)?;
        let real = self.place(to)?;
        self.changes(&source.path);
        let flags = if exchange { RenameFlags::EXCHANGE } else { RenameFlags::empty() };
        rustix::fs::renameat_with(CWD, &source.path[..], CWD, &real[..], flags).map_err(errno_in_run)?;
        let number = self.identities.of_node(&source);
        self.identities.change(number, now);
        if !exchange {
            self.hide_lower(from)?;
        }
        self.touch_parent(from, now);
        self.touch_parent(to, now);
        Ok((source.path, real))
    }

    /// Somebody reads a directory or a link.
    pub fn note_access(&mut self, node: &RealNode, now: SimTime) {
        let number = self.identities.of_node(node);
        self.identities.access(number, node.writable, now);
    }

    pub fn stat(&mut self, node: &RealNode) -> Stat {
        let number = self.identities.of_node(node);
        let mut stat = self.identities.present(&node.stat, number, node.writable);
        if has_holes(&node.stat, node.writable)
            && let Ok(file) = rustix::fs::open(&node.path[..], OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        {
            stat.st_blocks = data_blocks(&file, stat.st_size as u64);
        }
        // Some file systems (btrfs, overlays) do not count the directories below a directory, and say 1.
        if node.writable && node.kind() == S_IFDIR && stat.st_nlink < 2 {
            let entries = std::fs::read_dir(as_path(&node.path)).into_iter().flatten().flatten();
            stat.st_nlink =
                2 + entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).count() as u64;
        }
        stat
    }

    pub fn chmod(&mut self, path: &[u8], node: &RealNode, mode: u32, now: SimTime) -> Result<(), Errno> {
        let node = self.for_change(path, node)?;
        let floor = if node.kind() == S_IFDIR { 0o700 } else { 0o600 };
        rustix::fs::chmod(&node.path[..], Mode::from_raw_mode(mode & 0o777 | floor)).map_err(errno_in_run)?;
        self.set_mode(&node.stat, mode, now);
        Ok(())
    }

    /// Notes permission bits; the real ones always let the run itself read and write.
    pub fn set_mode(&mut self, stat: &rustix::fs::Stat, mode: u32, now: SimTime) {
        let number = self.identities.of(stat);
        self.identities.attributes(number).mode = Some(mode & 0o7777);
        self.identities.change(number, now);
    }

    /// Lets every user work in a directory of the run, as in `/tmp`.
    pub fn open_to_all(&mut self, path: &[u8]) {
        if let Ok(Some(node)) = self.lookup_real(path)
            && node.writable
        {
            let number = self.identities.of_node(&node);
            self.identities.attributes(number).mode = Some(0o1777);
        }
    }

    /// Notes an owner, and the mode with it. The real file's owner never changes.
    pub fn set_owner(&mut self, node: &RealNode, new: Permissions, now: SimTime) {
        self.note_permissions(&node.stat, new);
        let number = self.identities.of_node(node);
        self.drop_capabilities(number);
        self.identities.change(number, now);
    }

    /// A file gets another content or owner: its capabilities go (`cap_inode_killpriv`).
    pub(crate) fn drop_capabilities(&mut self, number: u64) {
        if !self.xattrs.is_empty()
            && let Some(attributes) = self.xattrs.get_mut(&number)
        {
            attributes.remove(&b"security.capability"[..]);
        }
    }

    /// What decides who may do what with a file.
    pub fn permissions(&mut self, view: &View<'_>, path: &[u8], node: &Node) -> Permissions {
        match node {
            Node::Real(node) => self.real_permissions(path, node),
            Node::Synthetic(node) => Permissions::from(&synthetic::stat(view, path, node)),
        }
    }

    /// As `permissions`, for a file of the machine or the run. Everyone may pass the directories that lead to where the host
    /// works: its users are no users of the machine, whose run may lie in `/root` or a closed home.
    fn real_permissions(&mut self, path: &[u8], node: &RealNode) -> Permissions {
        let permissions = Permissions::from(&self.stat(node));
        let passage = if self.mounts.leads_to_host(path) { 0o111 } else { 0 };
        Permissions { mode: permissions.mode | passage, ..permissions }
    }

    /// Notes times.
    pub fn set_times(&mut self, stat: &rustix::fs::Stat, accessed: NewTime, modified: NewTime, now: SimTime) {
        let number = self.identities.of(stat);
        let (stamp, of_start) = (self.identities.stamp(now).into(), self.identities.times_of_start());
        let times = self.identities.attributes(number).times.get_or_insert(of_start);
        for (time, new) in [(&mut times.accessed, accessed), (&mut times.modified, modified)] {
            match new {
                NewTime::Same => {}
                NewTime::Now => *time = stamp,
                NewTime::At(nanos) => *time = nanos,
            }
        }
        times.changed = stamp;
    }

    pub fn truncate(&mut self, path: &[u8], node: &RealNode, size: u64, now: SimTime) -> Result<(), Errno> {
        let node = self.for_change(path, node)?;
        let fd =
            rustix::fs::open(&node.path[..], OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).map_err(errno_in_run)?;
        rustix::fs::ftruncate(&fd, size).map_err(errno_in_run)?;
        let number = self.identities.of_node(&node);
        self.identities.touch(number, now);
        Ok(())
    }

    /// The pipe behind an open FIFO.
    pub fn fifo(&self, stat: &rustix::fs::Stat) -> Option<PipeId> {
        self.fifos.get(&(stat.st_dev, stat.st_ino)).copied()
    }

    pub fn remember_fifo(&mut self, stat: &rustix::fs::Stat, pipe: PipeId) {
        self.fifos.insert((stat.st_dev, stat.st_ino), pipe);
    }

    /// A FIFO's last end was closed.
    pub(crate) fn forget_fifo(&mut self, stat: &rustix::fs::Stat, pipe: PipeId) {
        // One of the machine's that was copied for a change has two files.
        self.fifos.retain(|_, known| *known != pipe);
        if stat.st_nlink == 0 {
            self.forget(stat.st_dev, stat.st_ino);
        }
    }
}

/// Whether a file of this run may have holes: where its file system counts less than its size.
pub(crate) fn has_holes(real: &rustix::fs::Stat, writable: bool) -> bool {
    writable && real.st_mode & S_IFMT == S_IFREG && real.st_blocks < blocks(real.st_size as u64)
}

/// Blocks of 512 bytes in the pages that hold data: what was written decides, and not what a file system makes of it.
pub(crate) fn data_blocks(file: impl AsFd, size: u64) -> i64 {
    let (mut pages, mut at) = (0, 0);
    while at < size {
        let start = match rustix::fs::seek(&file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(rustix::io::Errno::NXIO) => break,
            Err(_) => return blocks(size),
        };
        let end = rustix::fs::seek(&file, SeekFrom::Hole(start)).unwrap_or(size).min(size);
        // A page counts once, whatever a file system's own blocks are.
        let first = (start / PAGE_BYTES).max(at.div_ceil(PAGE_BYTES));
        pages += end.div_ceil(PAGE_BYTES).saturating_sub(first);
        at = end.max(start + 1);
    }
    pages as i64 * (PAGE_BYTES / 512) as i64
}

/// Blocks of 512 bytes of a file without holes.
pub(crate) fn blocks(size: u64) -> i64 {
    (size.div_ceil(PAGE_BYTES) * (PAGE_BYTES / 512)) as i64
}

#[cfg(test)]
pub(crate) mod tests;
