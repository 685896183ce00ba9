//! Writing in overlays: the private part grows as a host changes what the machine has, with the owners and modes of what it replaces.

use super::identity::{Times, machine_owner};
use super::mounts::{Area, Lower, RUN_DIRECTORIES};
use super::permission::Permissions;
use super::synthetic::{Synthetic, View};
use super::{RealNode, Vfs, as_path, errno, parent, walk};
use linux_abi::Errno;
use linux_abi::fs::{S_IFDIR, S_IFIFO, S_IFLNK, S_IFREG};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use std::io::Write;

impl Vfs {
    /// Where a new file at this path is really created. EROFS where everything is made up.
    pub(super) fn place(&mut self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        let machine = self.mounts.machine_path(path);
        let path = &*machine;
        match self.mounts.find(path) {
            (Area::ReadOnly, _) => Err(Errno::EROFS),
            (Area::Run, _) => {
                let real = self.mounts.real(path);
                self.changes(&real);
                Ok(real)
            }
            (Area::Overlay(overlay), prefix) => {
                let real = [&overlay.upper[..], &path[prefix..]].concat();
                if path.len() > prefix {
                    self.create_upper(parent(path))?;
                }
                self.changes(&real);
                Ok(real)
            }
        }
    }

    /// Makes a directory of an overlay, and those above it, exist in the private part; each has owner, mode and times of what it
    /// covers. Where it really lies.
    pub(super) fn create_upper(&mut self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        let machine = self.mounts.machine_path(path);
        let path = &*machine;
        let (Area::Overlay(overlay), prefix) = self.mounts.find(path) else { return Err(Errno::EROFS) };
        let (upper, lower, mode) = (overlay.upper.clone(), overlay.lower, overlay.mode);
        let real = [&upper[..], &path[prefix..]].concat();
        if overlay.used && walk::real_node(&real, true)?.is_some() {
            return Ok(real);
        }
        if path.len() > prefix {
            self.create_upper(parent(path))?;
            rustix::fs::mkdir(&real[..], Mode::from_raw_mode(0o755)).map_err(errno)?;
        } else {
            std::fs::create_dir_all(as_path(&real)).map_err(|e| crate::machine::io_errno(&e))?;
            self.mounts.use_overlay(&path[..prefix]);
        }
        let node = walk::real_node(&real, true)?.ok_or(Errno::EIO)?;
        match if matches!(lower, Lower::Nothing | Lower::MadeUp) { None } else { walk::real_node(path, false)? } {
            Some(covered) => self.inherit(&node, &covered, lower),
            None => self.note_permissions(&node.stat, Permissions { mode: S_IFDIR | mode, user: 0, group: 0 }),
        }
        self.forget_known();
        Ok(real)
    }

    /// What every system has in `/run` from its start, made when somebody looks.
    pub(super) fn born_in_run(&mut self, path: &[u8]) -> Result<Option<RealNode>, Errno> {
        let Some((_, mode)) = RUN_DIRECTORIES.iter().find(|(born, _)| born.as_bytes() == path) else { return Ok(None) };
        if self.hidden.contains(path) {
            return Ok(None);
        }
        let real = self.create_upper(path)?;
        let node = walk::real_node(&real, true)?.ok_or(Errno::EIO)?;
        self.note_permissions(&node.stat, Permissions { mode: S_IFDIR | mode, user: 0, group: 0 });
        Ok(Some(node))
    }

    /// Gives a file of the private part what the one of the machine had that it covers.
    fn inherit(&mut self, node: &RealNode, covered: &RealNode, lower: Lower) {
        self.identities.copied(covered, node);
        let stat = &covered.stat;
        let (user, group) = (machine_owner(stat.st_uid), machine_owner(stat.st_gid));
        let permissions = Permissions { mode: stat.st_mode, user, group };
        self.note_permissions(&node.stat, permissions);
        let modified = match (covered.kind(), lower) {
            (S_IFDIR, Lower::Changing) => self.identities.times_of_start().modified,
            _ => i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec),
        };
        let number = self.identities.of_node(node);
        let attributes = self.identities.attributes(number);
        let accessed = attributes.accessed.unwrap_or(modified);
        attributes.times = Some(Times { accessed, modified, changed: modified });
    }

    /// Notes owner and permission bits of a file in a writable area.
    pub(super) fn note_permissions(&mut self, stat: &rustix::fs::Stat, permissions: Permissions) {
        let number = self.identities.of(stat);
        let attributes = self.identities.attributes(number);
        attributes.mode = Some(permissions.mode & 0o7777);
        attributes.owner = Some((permissions.user, permissions.group));
    }

    /// Walks look again at what they took for lasting.
    pub(super) fn forget_known(&mut self) {
        self.known_directories.clear();
        self.known_links.clear();
    }

    /// The same file where it can be changed: copied into the private part of an overlay if it still is the machine's.
    pub fn for_change(&mut self, path: &[u8], node: &RealNode) -> Result<RealNode, Errno> {
        if node.writable {
            self.changes(&node.path);
            return Ok(node.clone());
        }
        let machine = self.mounts.machine_path(path);
        let path = &*machine;
        let lower = match self.mounts.find(path).0 {
            Area::Overlay(overlay) => overlay.lower,
            _ => return Err(Errno::EROFS),
        };
        let real = match node.kind() {
            S_IFDIR => self.create_upper(path)?,
            S_IFREG => {
                let real = self.place(path)?;
                std::fs::copy(as_path(&node.path), as_path(&real)).map_err(|e| crate::machine::io_errno(&e))?;
                rustix::fs::chmod(&real[..], Mode::from_raw_mode(node.stat.st_mode & 0o777 | 0o600)).map_err(errno)?;
                real
            }
            S_IFLNK => {
                let real = self.place(path)?;
                let text = rustix::fs::readlinkat(CWD, &node.path[..], Vec::new()).map_err(errno)?;
                rustix::fs::symlink(text, &real[..]).map_err(errno)?;
                real
            }
            S_IFIFO => {
                let real = self.place(path)?;
                let mode = Mode::from_raw_mode(node.stat.st_mode & 0o777 | 0o600);
                rustix::fs::mknodat(CWD, &real[..], FileType::Fifo, mode, 0).map_err(errno)?;
                real
            }
            _ => return Err(Errno::EROFS),
        };
        let copy = walk::real_node(&real, true)?.ok_or(Errno::EIO)?;
        self.inherit(&copy, node, lower);
        if let Some(pipe) = self.fifo(&node.stat) {
            // Who opens it from now on meets those that have it open.
            self.remember_fifo(&copy.stat, pipe);
        }
        self.forget_known();
        Ok(copy)
    }

    /// A made-up file of an overlay as a private one that can be changed. EROFS for what lies elsewhere.
    pub fn materialize(&mut self, view: &View<'_>, path: &[u8], node: &Synthetic) -> Result<RealNode, Errno> {
        let Synthetic::File(content) = node else { return Err(Errno::EROFS) };
        let real = self.place(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&real[..], flags, Mode::from_raw_mode(0o600)).map_err(errno)?;
        std::fs::File::from(fd).write_all(content).map_err(|e| crate::machine::io_errno(&e))?;
        let copy = walk::real_node(&real, true)?.ok_or(Errno::EIO)?;
        let permissions = Permissions::from(&super::synthetic::stat(view, path, node));
        self.note_permissions(&copy.stat, permissions);
        let number = self.identities.of(&copy.stat);
        self.identities.attributes(number).times = Some(self.identities.times_of_start());
        Ok(copy)
    }

    /// Keeps the machine's file at this path from showing through an overlay.
    pub(super) fn hide_lower(&mut self, path: &[u8]) -> Result<(), Errno> {
        let machine = self.mounts.machine_path(path);
        if self.covers_machine(&machine) {
            self.hidden.insert(machine.into_owned());
            self.forget_known();
        }
        Ok(())
    }

    pub(super) fn shows_lower(&self, path: &[u8]) -> Result<bool, Errno> {
        let machine = self.mounts.machine_path(path);
        Ok(!self.is_hidden(&machine) && self.covers_machine(&machine))
    }

    /// Whether the machine, or what is made up for it, has something at a path in an overlay.
    fn covers_machine(&self, path: &[u8]) -> bool {
        let Area::Overlay(overlay) = self.mounts.find(path).0 else { return false };
        if RUN_DIRECTORIES.iter().any(|(born, _)| born.as_bytes() == path) {
            return true;
        }
        let on_machine = || matches!(walk::real_node(path, false), Ok(Some(_)));
        overlay.shows_machine() && (super::synthetic::covers(path) || on_machine())
    }
}
