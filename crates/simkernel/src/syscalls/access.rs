//! What the calling thread may do with names: walks with its rights, permission checks for the calls on files, and access(2).

use super::paths::{existing, start_of};
use super::stat::stat_open;
use crate::ctx::Ctx;
use crate::exec::Caller;
use crate::files::{FileKind, Place};
use crate::ids::FileId;
use crate::kernel::Kernel;
use crate::outcome::SysResult;
use crate::vfs::permission::Permissions;
use crate::vfs::synthetic::{self, Synthetic, View};
use crate::vfs::walk::{Node, Target, check_text};
use crate::vfs::{New, RealNode, Vfs, parent};
use linux_abi::Errno;
use linux_abi::capability::{CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID, CAP_NET_ADMIN};
use linux_abi::fs::*;
use std::sync::Arc;

impl Kernel {
    /// The file tree, and what a caller sees of the host there; the simulator itself sees and may do everything.
    pub(crate) fn eyes<'a>(&'a mut self, caller: Option<Caller<'a>>) -> (&'a mut Vfs, View<'a>) {
        let view = View {
            config: &self.config,
            process: caller.map(|caller| caller.process),
            thread: caller.map(|caller| caller.thread),
            credentials: caller.map(|caller| &*caller.thread.credentials),
            threads: &self.threads,
            processes: &self.processes,
            shared: &self.shared,
            ipc: &self.ipc,
            terminals: &self.terminals,
            files: &self.files,
            net: &self.net,
            unix: &self.unix,
            now: self.now,
        };
        (&mut self.vfs, view)
    }
}

impl Ctx<'_> {
    /// Works on the file tree with the calling thread's eyes and rights.
    pub(crate) fn with_vfs<R>(&mut self, work: impl FnOnce(&mut Vfs, &View<'_>) -> R) -> R {
        let (vfs, view) = self.kernel.eyes(Some(Caller { process: self.process, thread: self.thread }));
        work(vfs, &View { now: self.now, ..view })
    }

    /// Walks a path from a directory descriptor (or AT_FDCWD).
    pub(crate) fn walk(&mut self, dirfd: u64, path: &[u8], follow: bool) -> Result<Target, Errno> {
        self.walk_to_name(dirfd, path, follow)?.possible()
    }

    /// As `walk`, but a last name that is too long is no error yet.
    pub(crate) fn walk_to_name(&mut self, dirfd: u64, path: &[u8], follow: bool) -> Result<Target, Errno> {
        check_text(path)?;
        if let Some((place, _)) = self.removed_start(dirfd, path) {
            // From a folder that is removed only the one above it can be found.
            let rest = without_dots(path).strip_prefix(b"..").filter(starts_over).ok_or(Errno::ENOENT)?;
            let above = parent(&place);
            if !self.lookup(above)?.is_directory() {
                return Err(Errno::ENOENT);
            }
            let rest = [b".", rest].concat();
            return self.with_vfs(|vfs, view| vfs.walk_to_name(view, above, &rest, follow));
        }
        let start = if path.starts_with(b"/") { Vec::new() } else { start_of(self, dirfd)? };
        if self.is_place(dirfd) && !path.starts_with(b"/") && self.lookup(&start).is_ok_and(|node| !node.is_directory())
        {
            return Err(Errno::ENOTDIR);
        }
        self.with_vfs(|vfs, view| vfs.walk_to_name(view, &start, path, follow))
    }

    /// The folder from which a relative path begins, if that was removed: where it was, and what it was like.
    fn removed_start(&self, dirfd: u64, path: &[u8]) -> Option<(Vec<u8>, Stat)> {
        if path.starts_with(b"/") {
            return None;
        }
        if dirfd as i32 == AT_FDCWD {
            let place = self.place();
            return place.gone.as_ref().map(|stat| (place.cwd.clone(), **stat));
        }
        self.removed_folder(self.file(dirfd).ok()?)
    }

    /// The removed folder that a file has open, or names: where it was, and what it was like.
    pub(super) fn removed_folder(&self, id: FileId) -> Option<(Vec<u8>, Stat)> {
        match &self.kernel.files[id].kind {
            FileKind::Directory(directory) => directory.gone.as_ref().map(|stat| (directory.path.clone(), **stat)),
            FileKind::Name(Place { path, gone: Some(stat) }) if stat.st_mode & S_IFMT == S_IFDIR => {
                Some((path.clone(), **stat))
            }
            _ => None,
        }
    }

    /// The same for a path that leads nowhere else (`.`).
    pub(super) fn removed_itself(&self, dirfd: u64, path: &[u8]) -> Option<(Vec<u8>, Stat)> {
        let start = self.removed_start(dirfd, path)?;
        (!path.is_empty() && without_dots(path).is_empty()).then_some(start)
    }

    /// Whether a descriptor is one of O_PATH, which may be of anything.
    fn is_place(&self, fd: u64) -> bool {
        fd as i32 != AT_FDCWD && self.file(fd).is_ok_and(|id| matches!(self.kernel.files[id].kind, FileKind::Name(_)))
    }

    /// The caller changes what an open file holds: it loses what lends rights.
    pub(crate) fn drop_lent_rights(&mut self, id: FileId) -> Result<(), Errno> {
        let FileKind::Regular(file) = &self.kernel.files[id].kind else { return Ok(()) };
        self.kernel.vfs.drop_capabilities(file.number);
        if self.credentials().can(CAP_FSETID) {
            return Ok(());
        }
        let stat = self.kernel.regular_stat(id)?;
        let old = Permissions::from(&stat);
        let mode = old.after_write(self.credentials());
        if mode != old.mode {
            self.kernel.vfs.identities.attributes(stat.st_ino).mode = Some(mode & 0o7777);
            self.kernel.open_file_event(id, IN_ATTRIB);
        }
        Ok(())
    }

    /// The same of a file in a writable area that is cut off by its name.
    pub(crate) fn drop_lent_rights_of(&mut self, node: &RealNode) {
        let number = self.kernel.vfs.identities.of_node(node);
        self.kernel.vfs.drop_capabilities(number);
        let old = Permissions::from(&self.kernel.vfs.stat(node));
        let mode = old.after_write(self.credentials());
        if mode != old.mode {
            self.kernel.vfs.set_mode(&node.stat, mode, self.now);
        }
    }

    /// What is at an absolute path of the host, whatever the caller's root and rights.
    pub(crate) fn lookup(&mut self, path: &[u8]) -> Result<Node, Errno> {
        self.with_vfs(|vfs, view| vfs.lookup(view, path))?.ok_or(Errno::ENOENT)
    }

    /// Owner and mode of what a walk found.
    pub(crate) fn permissions(&mut self, path: &[u8], node: &Node) -> Permissions {
        self.with_vfs(|vfs, view| vfs.permissions(view, path, node))
    }

    /// Demands some of `R_OK`, `W_OK`, `X_OK` of a file. EACCES.
    pub(crate) fn demand(&mut self, path: &[u8], node: &Node, wanted: u32) -> Result<(), Errno> {
        if synthetic::is_descriptor_info(path) && node.is_directory() {
            self.demand_look(path)?;
        }
        if synthetic::keeps_owner(path) {
            return self.demand_setting(path, node, wanted);
        }
        if wanted & X_OK == 0 && self.credentials().can(CAP_DAC_OVERRIDE) {
            return Ok(());
        }
        if self.with_vfs(|_, view| synthetic::is_own_descriptors(view, path)) {
            return Ok(());
        }
        self.permissions(path, node).demand(self.credentials(), wanted)
    }

    /// The same of a setting of the system, whose mode no capability for files overrides; those of the network are as root's to whoever
    /// may set it up (`proc_sys_permission`, `net_ctl_permissions`). EACCES.
    fn demand_setting(&mut self, path: &[u8], node: &Node, wanted: u32) -> Result<(), Errno> {
        let mode = self.permissions(path, node).mode;
        let who = self.credentials();
        let of_network = path.starts_with(b"/proc/sys/net/") && who.can(CAP_NET_ADMIN);
        let granted = match () {
            () if of_network || who.user.effective == 0 => mode >> 6,
            () if who.group.effective == 0 || who.groups.contains(&0) => mode >> 3,
            () => mode,
        };
        let granted = if node.is_directory() { granted } else { granted & !X_OK };
        if wanted & !granted == 0 { Ok(()) } else { Err(Errno::EACCES) }
    }

    /// Whether following a node leads to a namespace's file, which nobody changes.
    pub(crate) fn leads_to_namespace(&self, node: &Node) -> Result<bool, Errno> {
        Ok(match node {
            Node::Synthetic(Synthetic::Namespace(_)) => true,
            Node::Synthetic(Synthetic::Descriptor { pid, fd }) => {
                matches!(self.kernel.files[self.file_of(*pid, *fd)?].kind, FileKind::Namespace(_))
            }
            _ => false,
        })
    }

    /// Demands that the caller may look into the process that a path below `/proc` belongs to. EACCES.
    pub(crate) fn demand_look(&mut self, path: &[u8]) -> Result<(), Errno> {
        self.with_vfs(|_, view| synthetic::demand_look(view, path))
    }

    /// Demands that the caller may add a name at this path. EROFS, EACCES.
    pub(crate) fn demand_new(&mut self, path: &[u8]) -> Result<(), Errno> {
        if self.credentials().can(CAP_DAC_OVERRIDE) {
            return Ok(());
        }
        // As on a file system that is mounted for reading alone: that comes first.
        if !self.kernel.vfs.writable(path) && !synthetic::covers(path) {
            return Err(Errno::EROFS);
        }
        let directory = self.lookup(parent(path))?;
        self.demand(parent(path), &directory, W_OK | X_OK)
    }

    /// Demands that the caller may remove or rename what is at this path. EACCES, EPERM.
    pub(crate) fn demand_removal(&mut self, path: &[u8], node: &Node) -> Result<(), Errno> {
        if self.credentials().can(CAP_DAC_OVERRIDE) && self.credentials().can(CAP_FOWNER) {
            return Ok(());
        }
        let directory = self.lookup(parent(path))?;
        let directory = self.permissions(parent(path), &directory);
        directory.demand(self.credentials(), W_OK | X_OK)?;
        let file = self.permissions(path, node);
        directory.demand_removal(self.credentials(), file)
    }

    /// Works with what a new file is given: the caller's ids, and `mode` without what its umask takes away.
    pub(crate) fn create_with<R>(&mut self, mode: u32, work: impl FnOnce(&mut Vfs, &New<'_>) -> R) -> R {
        let mode = mode & !self.place().umask;
        let new = New { mode, owner: &self.thread.credentials, now: self.now };
        work(&mut self.kernel.vfs, &new)
    }

    /// A file of the machine that is to be changed; one that is made up becomes the host's own where the area allows that. EPERM.
    pub(crate) fn changeable(&mut self, path: &[u8], node: Node) -> Result<RealNode, Errno> {
        match node {
            Node::Real(node) => Ok(node),
            Node::Synthetic(file @ Synthetic::File(_)) if self.kernel.vfs.writable(path) => {
                self.with_vfs(|vfs, view| vfs.materialize(view, path, &file))
            }
            Node::Synthetic(_) => Err(Errno::EPERM),
        }
    }
}

/// A relative path without the `.` that it begins with.
fn without_dots(mut path: &[u8]) -> &[u8] {
    while let Some(rest) = path.strip_prefix(b".").filter(starts_over) {
        path = rest.iter().position(|&b| b != b'/').map_or(&[], |at| &rest[at..]);
    }
    path
}

/// Whether what follows a component of a path begins another one.
fn starts_over(rest: &&[u8]) -> bool {
    rest.is_empty() || rest.starts_with(b"/")
}

/// access(2).
pub fn access(ctx: &mut Ctx<'_>, [path, mode, ..]: [u64; 6]) -> SysResult {
    faccessat2(ctx, [AT_FDCWD as u64, path, mode, 0, 0, 0])
}

/// faccessat(2).
pub fn faccessat(ctx: &mut Ctx<'_>, [dirfd, path, mode, ..]: [u64; 6]) -> SysResult {
    faccessat2(ctx, [dirfd, path, mode, 0, 0, 0])
}

/// faccessat2(2): asks about the real ids, with AT_EACCESS about the effective ones.
pub fn faccessat2(ctx: &mut Ctx<'_>, [dirfd, path, mode, flags, ..]: [u64; 6]) -> SysResult {
    let (mode, flags) = (mode as u32, flags as u32);
    if mode & !(R_OK | W_OK | X_OK) != 0 || flags & !(AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let asked = if flags & AT_EACCESS != 0 { None } else { Some(ctx.credentials().for_access()) };
    let Some(asked) = asked.filter(|asked| asked != ctx.credentials()) else {
        return check_access(ctx, dirfd, path, mode, flags);
    };
    let own = std::mem::replace(&mut ctx.thread.credentials, Arc::new(asked));
    let result = check_access(ctx, dirfd, path, mode, flags);
    ctx.thread.credentials = own;
    result
}

/// What may be asked of a namespace's file: EACCES for execution, since their file system is mounted without it, and EPERM for
/// writing, which nobody may.
fn demand_namespace(mode: u32) -> Result<(), Errno> {
    match mode {
        _ if mode & X_OK != 0 => Err(Errno::EACCES),
        _ if mode & W_OK != 0 => Err(Errno::EPERM),
        _ => Ok(()),
    }
}

fn check_access(ctx: &mut Ctx<'_>, dirfd: u64, path: u64, mode: u32, flags: u32) -> SysResult {
    let path = ctx.path_argument(path)?;
    let (path, node) = if path.is_empty() && flags & AT_EMPTY_PATH != 0 {
        let open = if dirfd as i32 == AT_FDCWD { None } else { Some(ctx.file(dirfd)?) };
        let Ok(path) = start_of(ctx, dirfd) else {
            match open.map(|id| &ctx.kernel.files[id].kind) {
                // Their file system is mounted without execution.
                Some(FileKind::Process(_)) if mode & X_OK != 0 => return Err(Errno::EACCES.into()),
                Some(FileKind::Namespace(_)) => demand_namespace(mode)?,
                _ => {}
            }
            // What has no name has a mode all the same.
            let stat = open.map(|id| stat_open(ctx, id)).transpose()?;
            let permissions = stat.map(|stat| Permissions::from(&stat));
            return permissions
                .map_or(Ok(()), |has| has.demand(ctx.credentials(), mode))
                .map(|()| 0)
                .map_err(Into::into);
        };
        let node = ctx.lookup(&path)?;
        (path, node)
    } else if let Some((_, stat)) = ctx.removed_itself(dirfd, &path) {
        Permissions::from(&stat).demand(ctx.credentials(), mode)?;
        return Ok(0);
    } else {
        existing(ctx, dirfd, &path, flags & AT_SYMLINK_NOFOLLOW == 0)?
    };
    let follows = flags & AT_SYMLINK_NOFOLLOW == 0;
    if follows && ctx.leads_to_namespace(&node)? {
        demand_namespace(mode)?;
    }
    if let (true, Node::Synthetic(Synthetic::Descriptor { pid, fd })) = (follows, &node) {
        // What a process has open, and has no name by which it could be found.
        let id = ctx.file_of(*pid, *fd)?;
        let permissions = Permissions::from(&stat_open(ctx, id)?);
        permissions.demand(ctx.credentials(), mode)?;
        return Ok(0);
    }
    ctx.demand(&path, &node, mode)?;
    let kept = match &node {
        Node::Real(node) => matches!(node.kind(), S_IFREG | S_IFDIR | S_IFLNK) && !ctx.kernel.vfs.writable(&path),
        // Nobody writes into /proc and /sys, but for what can be set there.
        Node::Synthetic(_) => false,
    };
    if mode & W_OK != 0 && kept { Err(Errno::EROFS.into()) } else { Ok(0) }
}
