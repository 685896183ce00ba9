//! Calls on names: making, removing, moving and linking files and directories, and their attributes.

use super::removed;
use crate::ctx::Ctx;
use crate::files::regular::LONGEST_ON_DISK;
use crate::files::spliced::Change;
use crate::files::{FileKind, Place};
use crate::ids::FileId;
use crate::outcome::{Outcome, SysResult};
use crate::tty::TtyId;
use crate::vfs::mounts::is_below;
use crate::vfs::permission::Permissions;
use crate::vfs::synthetic::{self, Synthetic};
use crate::vfs::walk::{Node, Target};
use crate::vfs::{NewTime, RealNode, parent};
use linux_abi::Errno;
use linux_abi::capability::{CAP_MKNOD, CAP_SYS_CHROOT};
use linux_abi::fs::*;
use linux_abi::time::{Timespec, Timeval, UTIME_NOW, UTIME_OMIT};
use rustix::fs::CWD;

const HERE: u64 = AT_FDCWD as u64;

/// The directory from which a relative path is walked. EBADF, ENOTDIR.
pub(super) fn start_of(ctx: &Ctx<'_>, dirfd: u64) -> Result<Vec<u8>, Errno> {
    if dirfd as i32 == AT_FDCWD {
        let place = ctx.place();
        return if place.gone.is_some() { Err(Errno::ENOENT) } else { Ok(place.cwd.clone()) };
    }
    match &ctx.kernel.files[ctx.file(dirfd)?].kind {
        FileKind::Directory(directory) if directory.gone.is_some() => Err(Errno::ENOENT),
        FileKind::Directory(directory) => Ok(directory.path.clone()),
        FileKind::Name(place) => match &place.gone {
            None => Ok(place.path.clone()),
            Some(stat) if stat.st_mode & S_IFMT == S_IFDIR => Err(Errno::ENOENT),
            Some(_) => Err(Errno::ENOTDIR),
        },
        _ => Err(Errno::ENOTDIR),
    }
}

/// The directory entry that a call is about to create. EEXIST when there is one, EACCES where the caller may create none.
fn new_name(ctx: &mut Ctx<'_>, dirfd: u64, address: u64, directory: bool) -> Result<Target, Outcome> {
    let target = free_name(ctx, dirfd, address, directory)?;
    ctx.demand_new(&target.path)?;
    Ok(target)
}

/// As `new_name`, before rights are looked at.
fn free_name(ctx: &mut Ctx<'_>, dirfd: u64, address: u64, directory: bool) -> Result<Target, Outcome> {
    let path = ctx.path_argument(address)?;
    // What is there is in the way, with a slash behind its name or not.
    let (name, slash) = without_slashes(&path);
    let target = ctx.walk(dirfd, name, false)?;
    if target.node.is_some() {
        return Err(Errno::EEXIST.into());
    }
    if slash && !directory {
        return Err(Errno::ENOENT.into());
    }
    Ok(target)
}

/// The existing thing that a path names. ENOENT.
pub(super) fn existing(ctx: &mut Ctx<'_>, dirfd: u64, path: &[u8], follow: bool) -> Result<(Vec<u8>, Node), Errno> {
    let target = ctx.walk(dirfd, path, follow)?;
    Ok((target.path, target.node.ok_or(Errno::ENOENT)?))
}

/// The same, and behind `/proc/PID/fd/N` what is open there, as far as it has a name.
pub(super) fn behind(ctx: &mut Ctx<'_>, dirfd: u64, path: &[u8], follow: bool) -> Result<(Vec<u8>, Node), Outcome> {
    let found = existing(ctx, dirfd, path, follow)?;
    let (true, (_, Node::Synthetic(Synthetic::Descriptor { pid, fd }))) = (follow, &found) else { return Ok(found) };
    let named = match &ctx.kernel.files[ctx.file_of(*pid, *fd)?].kind {
        FileKind::Name(Place { gone: None, path, .. }) => path.clone(),
        FileKind::Regular(file) if file.pinned.is_none() && !file.unlinked => file.path.clone(),
        FileKind::Directory(directory) if directory.gone.is_none() => directory.path.clone(),
        _ => return Ok(found),
    };
    Ok(existing(ctx, HERE, &named, false)?)
}

/// mkdir(2).
pub fn mkdir(ctx: &mut Ctx<'_>, [path, mode, ..]: [u64; 6]) -> SysResult {
    mkdirat(ctx, [HERE, path, mode, 0, 0, 0])
}

/// mkdirat(2).
pub fn mkdirat(ctx: &mut Ctx<'_>, [dirfd, path, mode, ..]: [u64; 6]) -> SysResult {
    let target = new_name(ctx, dirfd, path, true)?;
    ctx.create_with(mode as u32 & 0o1777, |vfs, new| vfs.mkdir(&target.path, new))?;
    ctx.kernel.name_event(&target.path, IN_CREATE | IN_ISDIR);
    Ok(0)
}

/// mknod(2).
pub fn mknod(ctx: &mut Ctx<'_>, [path, mode, dev, ..]: [u64; 6]) -> SysResult {
    mknodat(ctx, [HERE, path, mode, dev, 0, 0])
}

/// mknodat(2). Devices are for those that may make them.
pub fn mknodat(ctx: &mut Ctx<'_>, [dirfd, path, mode, device, ..]: [u64; 6]) -> SysResult {
    let mode = mode as u32;
    let kind = match mode & S_IFMT {
        0 => S_IFREG,
        kind @ (S_IFREG | S_IFIFO | S_IFSOCK | S_IFCHR | S_IFBLK) => kind,
        S_IFDIR => return Err(Errno::EPERM.into()),
        _ => return Err(Errno::EINVAL.into()),
    };
    let is_device = matches!(kind, S_IFCHR | S_IFBLK);
    if is_device {
        ctx.credentials().demand(CAP_MKNOD)?;
    }
    let target = new_name(ctx, dirfd, path, false)?;
    ctx.create_with(kind | mode & 0o7777, |vfs, new| match is_device {
        true => vfs.make_device(&target.path, new, device & 0xffff_ffff),
        false => vfs.mknod(&target.path, new).map(|_| ()),
    })?;
    ctx.kernel.name_event(&target.path, IN_CREATE);
    Ok(0)
}

/// symlink(2).
pub fn symlink(ctx: &mut Ctx<'_>, [text, path, ..]: [u64; 6]) -> SysResult {
    symlinkat(ctx, [text, HERE, path, 0, 0, 0])
}

/// symlinkat(2).
pub fn symlinkat(ctx: &mut Ctx<'_>, [text, dirfd, path, ..]: [u64; 6]) -> SysResult {
    let text = ctx.path_argument(text)?;
    if text.is_empty() {
        return Err(Errno::ENOENT.into());
    }
    let target = new_name(ctx, dirfd, path, false)?;
    ctx.create_with(0o777, |vfs, new| vfs.symlink(&text, &target.path, new))?;
    ctx.kernel.name_event(&target.path, IN_CREATE);
    Ok(0)
}

/// link(2).
pub fn link(ctx: &mut Ctx<'_>, [from, to, ..]: [u64; 6]) -> SysResult {
    linkat(ctx, [HERE, from, HERE, to, 0, 0])
}

/// linkat(2).
pub fn linkat(ctx: &mut Ctx<'_>, [from_fd, from, to_fd, to, flags, _]: [u64; 6]) -> SysResult {
    let flags = flags as u32;
    if flags & !(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let from = ctx.path_argument(from)?;
    if from.is_empty() && flags & AT_EMPTY_PATH != 0 && from_fd as i32 == AT_FDCWD {
        // The working directory, which may have no other name.
        let (path, node) = existing(ctx, from_fd, b".", false)?;
        let target = free_name(ctx, to_fd, to, false)?;
        return link_node(ctx, &path, node, &target.path);
    }
    if from.is_empty() && flags & AT_EMPTY_PATH != 0 {
        let id = ctx.file(from_fd)?;
        let target = free_name(ctx, to_fd, to, false)?;
        return link_open_file(ctx, id, &target.path);
    }
    let (path, node) = existing(ctx, from_fd, &from, flags & AT_SYMLINK_FOLLOW != 0)?;
    let target = free_name(ctx, to_fd, to, false)?;
    if let (Node::Synthetic(Synthetic::Descriptor { pid, fd }), true) = (&node, flags & AT_SYMLINK_FOLLOW != 0) {
        let id = ctx.file_of(*pid, *fd)?;
        return link_open_file(ctx, id, &target.path);
    }
    link_node(ctx, &path, node, &target.path)
}

/// Gives what lies at a path one more name.
fn link_node(ctx: &mut Ctx<'_>, path: &[u8], node: Node, to: &[u8]) -> SysResult {
    // Whether the file may have another name is asked before whether the folder may have another file (`do_linkat`).
    demand_link(ctx, path, &node)?;
    ctx.demand_new(to)?;
    if node.is_directory() {
        return Err(Errno::EPERM.into());
    }
    let node = ctx.changeable(path, node).map_err(|_| Errno::EXDEV)?;
    let node = ctx.kernel.for_change(path, &node)?;
    ctx.kernel.vfs.link(path, &node, to, ctx.now)?;
    let number = ctx.kernel.vfs.identities.of_node(&node);
    ctx.kernel.self_event(path, number, IN_ATTRIB);
    ctx.kernel.name_event(to, IN_CREATE);
    Ok(0)
}

/// Gives an open file one more name, or its first one (O_TMPFILE).
fn link_open_file(ctx: &mut Ctx<'_>, id: FileId, to: &[u8]) -> SysResult {
    let file = match &ctx.kernel.files[id].kind {
        FileKind::Regular(file) if file.in_run => file,
        FileKind::Name(_) | FileKind::Directory(_) | FileKind::Pipe(_) => return link_place(ctx, id, to),
        _ => return Err(Errno::EXDEV.into()),
    };
    let number = file.number;
    ctx.demand_new(to)?;
    let fd = ctx.kernel.real_descriptor(id)?.try_clone_to_owned().map_err(|e| crate::machine::io_errno(&e))?;
    let real = ctx.kernel.vfs.link_unnamed(std::os::fd::AsFd::as_fd(&fd), to, ctx.now)?;
    if let FileKind::Regular(file) = &mut ctx.kernel.files[id].kind
        && file.unlinked
    {
        (file.unlinked, file.path, file.real) = (false, to.to_vec(), real);
    }
    ctx.kernel.self_event(to, number, IN_ATTRIB);
    ctx.kernel.name_event(to, IN_CREATE);
    Ok(0)
}

/// Gives what an open file is of, and has a name already, one more.
fn link_place(ctx: &mut Ctx<'_>, id: FileId, to: &[u8]) -> SysResult {
    let path = match &ctx.kernel.files[id].kind {
        FileKind::Name(Place { gone: Some(stat), .. }) => {
            let is_directory = stat.st_mode & S_IFMT == S_IFDIR;
            return Err(if is_directory { Errno::EPERM } else { Errno::ENOENT }.into());
        }
        FileKind::Name(place) => place.path.clone(),
        FileKind::Directory(directory) if directory.gone.is_some() => return Err(Errno::EPERM.into()),
        FileKind::Directory(directory) => directory.path.clone(),
        FileKind::Pipe(end) => match ctx.kernel.fifo_of(*end)? {
            Some((path, node)) if node.stat.st_nlink > 0 => path,
            Some(_) => return Err(Errno::ENOENT.into()),
            None => return Err(Errno::EXDEV.into()),
        },
        _ => return Err(Errno::EXDEV.into()),
    };
    match ctx.lookup(&path)? {
        node @ Node::Real(_) => link_node(ctx, &path, node, to),
        Node::Synthetic(_) => Err(Errno::EXDEV.into()),
    }
}

/// Who gives a file of somebody else another name must be able to read and write it, and it may lend no rights: proc_sys_fs(5),
/// `protected_hardlinks`. EPERM.
fn demand_link(ctx: &mut Ctx<'_>, path: &[u8], node: &Node) -> Result<(), Errno> {
    let permissions = ctx.permissions(path, node);
    let plain = permissions.mode & S_IFMT == S_IFREG && permissions.without_privileges() == permissions.mode;
    let open = || permissions.demand(ctx.credentials(), R_OK | W_OK).is_ok();
    if permissions.is_owned_by(ctx.credentials()) || (plain && open()) { Ok(()) } else { Err(Errno::EPERM) }
}

/// unlink(2).
pub fn unlink(ctx: &mut Ctx<'_>, [path, ..]: [u64; 6]) -> SysResult {
    remove(ctx, HERE, path, false)
}

/// rmdir(2).
pub fn rmdir(ctx: &mut Ctx<'_>, [path, ..]: [u64; 6]) -> SysResult {
    remove(ctx, HERE, path, true)
}

/// unlinkat(2).
pub fn unlinkat(ctx: &mut Ctx<'_>, [dirfd, path, flags, ..]: [u64; 6]) -> SysResult {
    if flags as u32 & !AT_REMOVEDIR != 0 {
        return Err(Errno::EINVAL.into());
    }
    remove(ctx, dirfd, path, flags as u32 & AT_REMOVEDIR != 0)
}

/// A path whose last component is meant itself, whatever slashes follow it, and whether some do.
pub(super) fn without_slashes(path: &[u8]) -> (&[u8], bool) {
    let len = path.iter().rposition(|&b| b != b'/').map_or(path.len().min(1), |last| last + 1);
    (&path[..len], len < path.len())
}

/// The last component of a path.
fn last_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&b| b == b'/').find(|part| !part.is_empty()).unwrap_or_default()
}

fn remove(ctx: &mut Ctx<'_>, dirfd: u64, path: u64, directory: bool) -> SysResult {
    let path = ctx.path_argument(path)?;
    let (trimmed, follows_slash) = without_slashes(&path);
    let special = match last_name(&path) {
        b"." if directory => Some(Errno::EINVAL),
        b".." if directory => Some(Errno::ENOTEMPTY),
        b"" if directory => Some(Errno::EBUSY),
        b"." | b".." | b"" => Some(Errno::EISDIR),
        _ => None,
    };
    let (path, node) = existing(ctx, dirfd, trimmed, false)?;
    if let Some(error) = special {
        return Err(error.into());
    }
    ctx.demand_removal(&path, &node)?;
    match (node.is_directory(), directory) {
        (true, false) => return Err(Errno::EISDIR.into()),
        (false, true) => return Err(Errno::ENOTDIR.into()),
        (false, false) if follows_slash => return Err(Errno::ENOTDIR.into()),
        _ => {}
    }
    if let (Some(name), Node::Synthetic(_)) = (path.strip_prefix(b"/dev/mqueue/"), &node) {
        ctx.kernel.ipc.queues.unlink(name)?;
        return Ok(0);
    }
    if matches!(node, Node::Real(_)) && !ctx.kernel.vfs.writable(&path) {
        return Err(Errno::EROFS.into());
    }
    let node = ctx.changeable(&path, node)?;
    let node = ctx.kernel.copy_if_open(&path, node)?;
    let last = node.stat.st_nlink <= 1;
    let in_use = ctx.kernel.pin_open_files(&node, last)?;
    let number = ctx.kernel.vfs.identities.of_node(&node);
    let left = ctx.kernel.vfs.stat(&node);
    ctx.kernel.vfs.remove(&path, &node, in_use, ctx.now)?;
    let in_use = ctx.kernel.leave_places(&path, left) || in_use;
    ctx.kernel.removal_event(&path, number, directory, last || directory, in_use);
    Ok(0)
}

/// rename(2).
pub fn rename(ctx: &mut Ctx<'_>, [from, to, ..]: [u64; 6]) -> SysResult {
    renameat2(ctx, [HERE, from, HERE, to, 0, 0])
}

/// renameat(2).
pub fn renameat(ctx: &mut Ctx<'_>, [from_fd, from, to_fd, to, ..]: [u64; 6]) -> SysResult {
    renameat2(ctx, [from_fd, from, to_fd, to, 0, 0])
}

/// renameat2(2).
pub fn renameat2(ctx: &mut Ctx<'_>, [from_fd, from, to_fd, to, flags, _]: [u64; 6]) -> SysResult {
    let flags = flags as u32;
    let exchange = flags & RENAME_EXCHANGE != 0;
    if flags & !(RENAME_NOREPLACE | RENAME_EXCHANGE) != 0 || flags == RENAME_NOREPLACE | RENAME_EXCHANGE {
        return Err(Errno::EINVAL.into());
    }
    let from = ctx.path_argument(from)?;
    let (from_name, from_slash) = without_slashes(&from);
    // Both ways are gone before what lies at their ends is looked at (`do_renameat2`).
    let source = ctx.walk_to_name(from_fd, from_name, false)?;
    let to = ctx.path_argument(to)?;
    let (to_name, to_slash) = without_slashes(&to);
    let target = ctx.walk_to_name(to_fd, to_name, false)?;
    let is_of_kernel = |path: &[u8]| is_below(path, b"/proc") || is_below(path, b"/sys");
    if is_of_kernel(&source.path) != is_of_kernel(&target.path) {
        return Err(Errno::EXDEV.into());
    }
    if is_special(&from) {
        return Err(Errno::EBUSY.into());
    }
    if is_special(&to) {
        return Err(if flags & RENAME_NOREPLACE != 0 { Errno::EEXIST } else { Errno::EBUSY }.into());
    }
    let source = source.possible()?;
    let (source, node) = (source.path, source.node.ok_or(Errno::ENOENT)?);
    let target = target.possible()?;
    let directory = node.is_directory();
    match &target.node {
        None if exchange => return Err(Errno::ENOENT.into()),
        Some(_) if flags & RENAME_NOREPLACE != 0 => return Err(Errno::EEXIST.into()),
        Some(old) if exchange && to_slash && !old.is_directory() => return Err(Errno::ENOTDIR.into()),
        _ => {}
    }
    if !directory && (from_slash || to_slash && !exchange) {
        return Err(Errno::ENOTDIR.into());
    }
    if directory && source != target.path && is_below(&target.path, &source) {
        return Err(Errno::EINVAL.into());
    }
    if target.node.is_some() && source != target.path && is_below(&source, &target.path) {
        return Err(if exchange { Errno::EINVAL } else { Errno::ENOTEMPTY }.into());
    }
    if !matches!(node, Node::Real(_)) && source == target.path {
        return Ok(0);
    }
    // What has both names stays as it is, whoever asks (`vfs_rename`).
    if let (Node::Real(one), Some(Node::Real(other))) = (&node, &target.node)
        && (one.stat.st_dev, one.stat.st_ino) == (other.stat.st_dev, other.stat.st_ino)
    {
        return Ok(0);
    }
    demand_move(ctx, &source, &node, &target)?;
    let node = ctx.changeable(&source, node)?;
    let mut replaced = None;
    match target.node {
        None => {}
        Some(Node::Synthetic(_)) if !ctx.kernel.vfs.writable(&target.path) => return Err(Errno::EXDEV.into()),
        Some(old) => {
            let old = ctx.changeable(&target.path, old)?;
            if old.path == node.path || (old.stat.st_ino, old.stat.st_dev) == (node.stat.st_ino, node.stat.st_dev) {
                return Ok(0);
            }
            let old = match exchange {
                true if old.kind() != S_IFDIR => ctx.kernel.for_change(&target.path, &old)?,
                true => old,
                false => ctx.kernel.copy_if_open(&target.path, old)?,
            };
            let number = ctx.kernel.vfs.identities.of_node(&old);
            let in_use = !exchange && replace(ctx, &target.path, &old, directory)?;
            replaced = Some((number, old.kind() == S_IFDIR, old.stat.st_nlink <= 1, in_use));
        }
    }
    let node = if directory { node } else { ctx.kernel.for_change(&source, &node)? };
    let (before, after) = ctx.kernel.vfs.rename(&source, &node, &target.path, exchange, ctx.now)?;
    if let Some((other, of_directory, last, in_use)) = replaced
        && (exchange || !of_directory && (in_use || !last))
    {
        ctx.kernel.vfs.identities.change_together(other);
    }
    ctx.kernel.move_open_files([&before, &after], [&source, &target.path], exchange);
    move_places(ctx, &source, &target.path, exchange);
    let number = ctx.kernel.vfs.identities.of_node(&node);
    ctx.kernel.move_event(&source, &target.path, number, directory);
    match replaced {
        Some((other, of_directory, ..)) if exchange => {
            ctx.kernel.moved_self_event(number);
            ctx.kernel.move_event(&target.path, &source, other, of_directory);
            ctx.kernel.moved_self_event(other);
            return Ok(0);
        }
        Some((other, of_directory, last, in_use)) => {
            ctx.kernel.replaced_event(&target.path, other, of_directory, last || of_directory, in_use);
        }
        None => {}
    }
    ctx.kernel.moved_self_event(number);
    Ok(0)
}

/// Whether a path ends in `.` or `..`, which cannot be moved, nor made.
pub(super) fn is_special(path: &[u8]) -> bool {
    matches!(last_name(path), b"." | b".." | b"")
}

/// Both directories must let the caller change them, and a directory that gets another parent must itself. EACCES, EPERM.
fn demand_move(ctx: &mut Ctx<'_>, source: &[u8], node: &Node, target: &Target) -> Result<(), Errno> {
    ctx.demand_removal(source, node)?;
    match &target.node {
        Some(old) => ctx.demand_removal(&target.path, old)?,
        None => ctx.demand_new(&target.path)?,
    }
    if node.is_directory() && parent(source) != parent(&target.path) {
        ctx.demand(source, node, W_OK)?;
    }
    Ok(())
}

/// Makes room for what is moved: the old file's open files keep their inode, an old directory must be empty. Whether open files keep it.
fn replace(ctx: &mut Ctx<'_>, path: &[u8], old: &RealNode, by_directory: bool) -> Result<bool, Errno> {
    match (old.kind() == S_IFDIR, by_directory) {
        (true, false) => return Err(Errno::EISDIR),
        (false, true) => return Err(Errno::ENOTDIR),
        _ => {}
    }
    if !ctx.kernel.vfs.writable(path) {
        return Err(Errno::EROFS);
    }
    let left = ctx.kernel.vfs.stat(old);
    if by_directory {
        ctx.kernel.vfs.remove(path, old, false, ctx.now)?;
        return Ok(ctx.kernel.leave_places(path, left));
    }
    let last = old.stat.st_nlink <= 1;
    let in_use = ctx.kernel.pin_open_files(old, last)?;
    let is_kept = ctx.kernel.leave_places(path, left);
    if old.writable && last && !in_use {
        ctx.kernel.vfs.forget(old.stat.st_dev, old.stat.st_ino);
    }
    Ok(in_use || is_kept)
}

/// What is known by its path and lies at or below what moved goes with it: working directories, open directories and places.
fn move_places(ctx: &mut Ctx<'_>, from: &[u8], to: &[u8], exchange: bool) {
    let moved = |path: &mut Vec<u8>| {
        if is_below(path, from) {
            *path = [to, &path[from.len()..]].concat();
        } else if exchange && is_below(path, to) {
            *path = [from, &path[to.len()..]].concat();
        }
    };
    let places = ctx.kernel.shared.places.iter_mut().filter(|place| place.gone.is_none());
    places.for_each(|place| moved(&mut place.cwd));
    ctx.kernel.pipes.iter_mut().filter_map(|(_, pipe)| pipe.fifo.as_mut()).for_each(|fifo| moved(&mut fifo.path));
    for (_, file) in ctx.kernel.files.iter_mut() {
        match &mut file.kind {
            FileKind::Directory(directory) if directory.gone.is_none() => moved(&mut directory.path),
            FileKind::Name(place) if place.gone.is_none() => moved(&mut place.path),
            _ => {}
        }
    }
}

/// readlink(2).
pub fn readlink(ctx: &mut Ctx<'_>, [path, buffer, size, ..]: [u64; 6]) -> SysResult {
    readlinkat(ctx, [HERE, path, buffer, size, 0, 0])
}

/// readlinkat(2).
pub fn readlinkat(ctx: &mut Ctx<'_>, [dirfd, path, buffer, size, ..]: [u64; 6]) -> SysResult {
    if size as i32 <= 0 {
        return Err(Errno::EINVAL.into());
    }
    let path = ctx.path_argument(path)?;
    let empty = path.is_empty();
    let (path, node) = if empty && dirfd as i32 != AT_FDCWD {
        ctx.file(dirfd)?;
        let path = start_of(ctx, dirfd).map_err(|_| Errno::ENOENT)?;
        let node = ctx.lookup(&path)?;
        (path, node)
    } else {
        existing(ctx, dirfd, &path, false)?
    };
    if node.is_link() || matches!(node, Node::Synthetic(Synthetic::Namespace(_) | Synthetic::Descriptor { .. })) {
        ctx.demand_look(&path)?;
    }
    let text = match node {
        Node::Real(node) if node.kind() == S_IFLNK => {
            ctx.kernel.vfs.note_access(&node, ctx.now);
            let text = rustix::fs::readlinkat(CWD, &node.path[..], Vec::new())
                .map_err(|e| Outcome::from(crate::vfs::errno(e)))?;
            text.into_bytes()
        }
        Node::Synthetic(Synthetic::Link(text)) => text,
        Node::Synthetic(Synthetic::Namespace(namespace)) => namespace.text(),
        Node::Synthetic(Synthetic::Descriptor { pid, fd }) => {
            let id = ctx.file_of(pid, fd)?;
            let text = ctx.kernel.describe_file(id);
            ctx.with_vfs(|_, view| crate::vfs::seen(view, &text))
        }
        // Who gives no name means a descriptor of a link.
        _ => return Err(if empty { Errno::ENOENT } else { Errno::EINVAL }.into()),
    };
    let len = text.len().min(size as usize);
    ctx.process.memory.write(buffer, &text[..len])?;
    Ok(len as u64)
}

/// chdir(2).
pub fn chdir(ctx: &mut Ctx<'_>, [path, ..]: [u64; 6]) -> SysResult {
    let path = ctx.path_argument(path)?;
    if ctx.removed_itself(HERE, &path).is_some() {
        return Ok(0);
    }
    let (path, node) = existing(ctx, HERE, &path, true)?;
    if let Node::Synthetic(Synthetic::Descriptor { pid, fd }) = node {
        let id = ctx.file_of(pid, fd)?;
        if let Some((path, stat)) = ctx.removed_folder(id) {
            return enter_removed(ctx, path, stat);
        }
    }
    enter(ctx, path, &node)
}

/// fchdir(2).
pub fn fchdir(ctx: &mut Ctx<'_>, [fd, ..]: [u64; 6]) -> SysResult {
    if let Some((path, stat)) = ctx.removed_itself(fd, b".") {
        return enter_removed(ctx, path, stat);
    }
    let path = start_of(ctx, fd)?;
    let node = ctx.lookup(&path)?;
    enter(ctx, path, &node)
}

/// Enters a folder that was removed, by what is open of it.
fn enter_removed(ctx: &mut Ctx<'_>, path: Vec<u8>, stat: Stat) -> SysResult {
    Permissions::from(&stat).demand(ctx.credentials(), X_OK)?;
    let place = ctx.place_mut();
    (place.cwd, place.gone) = (path, Some(Box::new(stat)));
    Ok(0)
}

fn enter(ctx: &mut Ctx<'_>, path: Vec<u8>, node: &Node) -> SysResult {
    if !node.is_directory() {
        return Err(Errno::ENOTDIR.into());
    }
    ctx.demand(&path, node, X_OK)?;
    let place = ctx.place_mut();
    (place.cwd, place.gone) = (if path.is_empty() { b"/".to_vec() } else { path }, None);
    Ok(0)
}

/// getcwd(2): a directory outside the root begins with "(unreachable)". ENOENT for one that was removed.
pub fn getcwd(ctx: &mut Ctx<'_>, [buffer, size, ..]: [u64; 6]) -> SysResult {
    let place = ctx.place();
    if place.gone.is_some() {
        return Err(Errno::ENOENT.into());
    }
    let path = place.shown(if place.cwd == b"/" { b"" } else { &place.cwd });
    let mut text = path.unwrap_or_else(|| [b"(unreachable)", &place.cwd[..]].concat());
    text.push(0);
    if size < text.len() as u64 {
        return Err(Errno::ERANGE.into());
    }
    ctx.process.memory.write(buffer, &text)?;
    Ok(text.len() as u64)
}

/// umask(2).
pub fn umask(ctx: &mut Ctx<'_>, [mask, ..]: [u64; 6]) -> SysResult {
    let old = std::mem::replace(&mut ctx.place_mut().umask, mask as u32 & 0o777);
    Ok(old.into())
}

/// chroot(2).
pub fn chroot(ctx: &mut Ctx<'_>, [path, ..]: [u64; 6]) -> SysResult {
    let path = ctx.path_argument(path)?;
    let (path, node) = existing(ctx, HERE, &path, true)?;
    if !node.is_directory() {
        return Err(Errno::ENOTDIR.into());
    }
    ctx.demand(&path, &node, X_OK)?;
    ctx.credentials().demand(CAP_SYS_CHROOT)?;
    ctx.place_mut().root = path;
    Ok(0)
}

/// What a call that changes attributes works on: by path, or (with an empty one, or by descriptor) an open file.
enum Subject {
    Path(Vec<u8>, RealNode),
    Open(Vec<u8>, RealNode),
    /// A folder that was removed, by what is open of it.
    Removed(Vec<u8>, Box<Stat>),
    Terminal(TtyId, Permissions),
    /// A pipe, a socket, a queue.
    Nameless(FileId, Permissions),
    /// Something whose attributes nobody keeps, by its path; empty where it has none.
    Other(Vec<u8>, Permissions),
}

impl Subject {
    fn permissions(&self, ctx: &mut Ctx<'_>) -> Permissions {
        match self {
            Subject::Path(_, node) | Subject::Open(_, node) => Permissions::from(&ctx.kernel.vfs.stat(node)),
            Subject::Removed(_, stat) => Permissions::from(&**stat),
            Subject::Terminal(_, permissions) | Subject::Nameless(_, permissions) | Subject::Other(_, permissions) => {
                *permissions
            }
        }
    }

    /// The file where it can be changed.
    fn for_change(self, ctx: &mut Ctx<'_>) -> Result<Option<(Vec<u8>, RealNode)>, Errno> {
        match self {
            Subject::Path(path, node) => {
                let node = ctx.kernel.for_change(&path, &node)?;
                Ok(Some((path, node)))
            }
            Subject::Open(path, node) => Ok(Some((path, node))),
            Subject::Removed(..) | Subject::Terminal(..) | Subject::Nameless(..) | Subject::Other(..) => Ok(None),
        }
    }
}

/// The subject of a call that takes a path, or (without one) a descriptor.
fn subject(ctx: &mut Ctx<'_>, dirfd: u64, path: Option<u64>, flags: u32) -> Result<Subject, Outcome> {
    let Some(path) = path else { return open_subject(ctx, dirfd) };
    let text = ctx.path_argument(path)?;
    if text.is_empty() && flags & AT_EMPTY_PATH != 0 && dirfd as i32 != AT_FDCWD {
        // Only these calls reach what a descriptor of O_PATH names.
        return match &ctx.kernel.files[ctx.file(dirfd)?].kind {
            FileKind::Name(Place { gone: None, path, .. }) => {
                let path = path.clone();
                let (path, node) = existing(ctx, HERE, &path, false)?;
                path_subject(ctx, path, node)
            }
            _ => open_subject(ctx, dirfd),
        };
    }
    let text = if text.is_empty() && flags & AT_EMPTY_PATH != 0 { b".".to_vec() } else { text };
    let follow = flags & AT_SYMLINK_NOFOLLOW == 0;
    match behind(ctx, dirfd, &text, follow)? {
        // It has no name any more, or never had one.
        (_, Node::Synthetic(Synthetic::Descriptor { pid, fd })) if follow => {
            let id = ctx.file_of(pid, fd)?;
            file_subject(ctx, id)
        }
        (_, Node::Synthetic(Synthetic::Namespace(_))) if follow => Err(Errno::EPERM.into()),
        (path, node) => path_subject(ctx, path, node),
    }
}

fn path_subject(ctx: &mut Ctx<'_>, path: Vec<u8>, node: Node) -> Result<Subject, Outcome> {
    let writable = ctx.kernel.vfs.writable(&path);
    match node {
        Node::Synthetic(Synthetic::File(_)) if writable => {
            let node = ctx.changeable(&path, node)?;
            Ok(Subject::Path(path, node))
        }
        Node::Synthetic(Synthetic::Terminal(tty, _)) => Ok(Subject::Terminal(tty, ctx.permissions(&path, &node))),
        Node::Synthetic(_) => {
            let permissions = ctx.permissions(&path, &node);
            Ok(Subject::Other(path, permissions))
        }
        Node::Real(_) if !writable => Err(Errno::EROFS.into()),
        Node::Real(node) => Ok(Subject::Path(path, node)),
    }
}

fn open_subject(ctx: &mut Ctx<'_>, fd: u64) -> Result<Subject, Outcome> {
    let id = ctx.file(fd)?;
    file_subject(ctx, id)
}

fn file_subject(ctx: &mut Ctx<'_>, id: FileId) -> Result<Subject, Outcome> {
    let path = match &ctx.kernel.files[id].kind {
        FileKind::Regular(file) if !file.in_run => file.path.clone(),
        FileKind::Regular(file) => {
            let path = file.path.clone();
            let real = file.real.clone();
            let fd = ctx.kernel.real_descriptor(id)?;
            let stat = rustix::fs::fstat(fd).map_err(|e| Outcome::from(crate::vfs::errno(e)))?;
            return Ok(Subject::Open(path, RealNode { path: real, stat, writable: true }));
        }
        FileKind::Directory(directory) if let Some(stat) = &directory.gone => {
            return Ok(Subject::Removed(directory.path.clone(), stat.clone()));
        }
        FileKind::Directory(directory) => directory.path.clone(),
        FileKind::Name(_) => return Err(Errno::EBADF.into()),
        FileKind::Pipe(end) if let Some((path, node)) = ctx.kernel.fifo_of(*end)? => {
            if node.writable {
                return Ok(Subject::Open(path, node));
            }
            path
        }
        FileKind::Terminal(file) if file.is_named_after_number() => {
            let tty = file.tty;
            let pair = ctx.kernel.terminals.get(tty);
            let (mode, (user, group)) = pair.map_or((0, (0, 0)), |pair| (pair.mode, pair.owner));
            return Ok(Subject::Terminal(tty, Permissions { mode: S_IFCHR | mode, user, group }));
        }
        FileKind::Device(_) | FileKind::Terminal(_) => ctx.kernel.describe_file(id),
        FileKind::Event(_)
        | FileKind::Timer(_)
        | FileKind::Signals(_)
        | FileKind::Epoll(_)
        | FileKind::Inotify(_)
        | FileKind::Process(_) => return Err(Errno::EOPNOTSUPP.into()),
        FileKind::Namespace(_) => return Err(Errno::EPERM.into()),
        FileKind::Snapshot(file) if synthetic::keeps_mode(&file.path) => {
            let path = file.path.clone();
            return Ok(Subject::Other(path, Permissions::nameless(S_IFREG, ctx.credentials())));
        }
        _ => {
            if let Some(permissions) = ctx.kernel.nameless(id) {
                return Ok(Subject::Nameless(id, permissions));
            }
            return Ok(Subject::Other(Vec::new(), Permissions::nameless(S_IFREG, ctx.credentials())));
        }
    };
    let node = ctx.lookup(&path)?;
    path_subject(ctx, path, node)
}

/// Tells watches what was done with a file.
fn tell(ctx: &mut Ctx<'_>, path: &[u8], stat: &rustix::fs::Stat, mask: u32) {
    let number = ctx.kernel.vfs.identities.of(stat);
    let kind = if stat.st_mode & S_IFMT == S_IFDIR { IN_ISDIR } else { 0 };
    // What an open file alone keeps is no more what its path names.
    ctx.kernel.file_event(path, number, mask | kind, stat.st_nlink == 0);
}

/// chmod(2).
pub fn chmod(ctx: &mut Ctx<'_>, [path, mode, ..]: [u64; 6]) -> SysResult {
    set_mode(ctx, HERE, Some(path), mode, 0)
}

/// fchmod(2).
pub fn fchmod(ctx: &mut Ctx<'_>, [fd, mode, ..]: [u64; 6]) -> SysResult {
    set_mode(ctx, fd, None, mode, 0)
}

/// fchmodat(2).
pub fn fchmodat(ctx: &mut Ctx<'_>, [dirfd, path, mode, ..]: [u64; 6]) -> SysResult {
    set_mode(ctx, dirfd, Some(path), mode, 0)
}

/// fchmodat2(2).
pub fn fchmodat2(ctx: &mut Ctx<'_>, [dirfd, path, mode, flags, ..]: [u64; 6]) -> SysResult {
    if flags as u32 & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL.into());
    }
    set_mode(ctx, dirfd, Some(path), mode, flags as u32)
}

fn set_mode(ctx: &mut Ctx<'_>, dirfd: u64, path: Option<u64>, mode: u64, flags: u32) -> SysResult {
    let subject = subject(ctx, dirfd, path, flags)?;
    if matches!(&subject, Subject::Other(path, _) if synthetic::keeps_mode(path)) {
        return Err(Errno::EPERM.into());
    }
    let mode = subject.permissions(ctx).demand_mode(ctx.credentials(), mode as u32)?;
    match subject {
        Subject::Path(_, node) if node.kind() == S_IFLNK => return Err(Errno::EOPNOTSUPP.into()),
        Subject::Path(path, node) => {
            let node = ctx.kernel.for_change(&path, &node)?;
            ctx.kernel.vfs.chmod(&path, &node, mode, ctx.now)?;
            tell(ctx, &path, &node.stat, IN_ATTRIB);
        }
        Subject::Open(path, node) => {
            ctx.kernel.vfs.set_mode(&node.stat, mode, ctx.now);
            tell(ctx, &path, &node.stat, IN_ATTRIB);
        }
        Subject::Removed(path, stat) => {
            let change = removed::Change { mode: Some(mode), ..removed::Change::default() };
            removed::change(ctx, &path, &stat, change, IN_ATTRIB);
        }
        Subject::Terminal(tty, _) => ctx.kernel.terminals.set_mode(tty, mode),
        Subject::Nameless(id, permissions) => {
            let mode = permissions.mode & S_IFMT | mode & 0o7777;
            ctx.kernel.change_nameless(id, Permissions { mode, ..permissions });
        }
        Subject::Other(..) => {}
    }
    Ok(0)
}

/// chown(2).
pub fn chown(ctx: &mut Ctx<'_>, [path, uid, gid, ..]: [u64; 6]) -> SysResult {
    set_owner(ctx, HERE, Some(path), uid, gid, 0)
}

/// lchown(2).
pub fn lchown(ctx: &mut Ctx<'_>, [path, uid, gid, ..]: [u64; 6]) -> SysResult {
    set_owner(ctx, HERE, Some(path), uid, gid, AT_SYMLINK_NOFOLLOW)
}

/// fchown(2).
pub fn fchown(ctx: &mut Ctx<'_>, [fd, uid, gid, ..]: [u64; 6]) -> SysResult {
    set_owner(ctx, fd, None, uid, gid, 0)
}

/// fchownat(2).
pub fn fchownat(ctx: &mut Ctx<'_>, [dirfd, path, uid, gid, flags, _]: [u64; 6]) -> SysResult {
    if flags as u32 & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL.into());
    }
    set_owner(ctx, dirfd, Some(path), uid, gid, flags as u32)
}

fn set_owner(ctx: &mut Ctx<'_>, dirfd: u64, path: Option<u64>, uid: u64, gid: u64, flags: u32) -> SysResult {
    let [user, group] = [uid as u32, gid as u32].map(|id| (id != u32::MAX).then_some(id));
    let subject = subject(ctx, dirfd, path, flags)?;
    if matches!(&subject, Subject::Other(path, _) if synthetic::keeps_owner(path)) {
        return if (user, group) == (None, None) { Ok(0) } else { Err(Errno::EPERM.into()) };
    }
    let before = subject.permissions(ctx);
    before.demand_owner(ctx.credentials(), user, group)?;
    let mode = before.after_chown(ctx.credentials());
    // Watches are told what was changed, and nothing was where only its time was (`fsnotify_change`).
    let is_told = (user, group) != (None, None) || mode != before.mode;
    let told = if is_told { IN_ATTRIB } else { 0 };
    if let Subject::Terminal(tty, _) = subject {
        ctx.kernel.terminals.set_owner(tty, uid as u32, gid as u32);
        return Ok(0);
    }
    if let Subject::Removed(path, stat) = &subject {
        let change = removed::Change { user, group, ..removed::Change::default() };
        removed::change(ctx, path, stat, change, told);
        return Ok(0);
    }
    let after = Permissions { mode, user: user.unwrap_or(before.user), group: group.unwrap_or(before.group) };
    if let Subject::Nameless(id, _) = subject {
        ctx.kernel.change_nameless(id, after);
        return Ok(0);
    }
    if let Some((path, node)) = subject.for_change(ctx)? {
        ctx.kernel.vfs.set_owner(&node, after, ctx.now);
        tell(ctx, &path, &node.stat, told);
    }
    Ok(0)
}

/// utimensat(2).
pub fn utimensat(ctx: &mut Ctx<'_>, [dirfd, path, times, flags, ..]: [u64; 6]) -> SysResult {
    if flags as u32 & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let times = if times == 0 {
        [Timespec { tv_sec: 0, tv_nsec: UTIME_NOW }; 2]
    } else {
        [ctx.process.memory.read_value(times)?, ctx.process.memory.read_value(times + 16)?]
    };
    let path = (path != 0 || dirfd as i32 == AT_FDCWD).then_some(path);
    if path.is_none() && flags as u32 != 0 {
        return Err(Errno::EINVAL.into());
    }
    set_times(ctx, dirfd, path, times, flags as u32)
}

/// utimes(2).
pub fn utimes(ctx: &mut Ctx<'_>, [path, times, ..]: [u64; 6]) -> SysResult {
    futimesat(ctx, [HERE, path, times, 0, 0, 0])
}

/// futimesat(2).
pub fn futimesat(ctx: &mut Ctx<'_>, [dirfd, path, times, ..]: [u64; 6]) -> SysResult {
    let mut parsed = [Timespec { tv_sec: 0, tv_nsec: UTIME_NOW }; 2];
    if times != 0 {
        for (i, time) in parsed.iter_mut().enumerate() {
            let value: Timeval = ctx.process.memory.read_value(times + 16 * i as u64)?;
            if !(0..1_000_000).contains(&value.tv_usec) {
                return Err(Errno::EINVAL.into());
            }
            *time = Timespec { tv_sec: value.tv_sec, tv_nsec: value.tv_usec * 1000 };
        }
    }
    set_times(ctx, dirfd, Some(path), parsed, 0)
}

/// utime(2).
pub fn utime(ctx: &mut Ctx<'_>, [path, times, ..]: [u64; 6]) -> SysResult {
    let mut parsed = [Timespec { tv_sec: 0, tv_nsec: UTIME_NOW }; 2];
    if times != 0 {
        let value: Utimbuf = ctx.process.memory.read_value(times)?;
        parsed = [Timespec { tv_sec: value.actime, tv_nsec: 0 }, Timespec { tv_sec: value.modtime, tv_nsec: 0 }];
    }
    set_times(ctx, HERE, Some(path), parsed, 0)
}

fn set_times(ctx: &mut Ctx<'_>, dirfd: u64, path: Option<u64>, times: [Timespec; 2], flags: u32) -> SysResult {
    if times.iter().all(|time| time.tv_nsec == UTIME_OMIT) {
        return Ok(0);
    }
    let parsed = times.map(new_time);
    let subject = match subject(ctx, dirfd, path, flags) {
        // What has no times at all is looked at behind the times themselves (`vfs_utimes`).
        Err(Outcome::Errno(Errno::EOPNOTSUPP | Errno::EROFS | Errno::EPERM))
            if parsed.contains(&Err(Errno::EINVAL)) =>
        {
            return Err(Errno::EINVAL.into());
        }
        subject => subject?,
    };
    let parsed = [parsed[0]?, parsed[1]?];
    demand_times(ctx, &subject, times)?;
    let mask = match parsed {
        [_, NewTime::Same] => IN_ACCESS,
        [NewTime::Same, _] => IN_MODIFY,
        _ => IN_ATTRIB,
    };
    if let Subject::Removed(path, stat) = &subject {
        let change = removed::Change { times: parsed.map(Some), ..removed::Change::default() };
        removed::change(ctx, path, stat, change, mask);
        return Ok(0);
    }
    if let Some((path, node)) = subject.for_change(ctx)? {
        ctx.kernel.vfs.set_times(&node.stat, parsed[0], parsed[1], ctx.now);
        tell(ctx, &path, &node.stat, mask);
    }
    Ok(0)
}

/// What becomes of a file's time. EINVAL.
fn new_time(time: Timespec) -> Result<NewTime, Errno> {
    match time.tv_nsec {
        UTIME_NOW => Ok(NewTime::Now),
        UTIME_OMIT => Ok(NewTime::Same),
        _ => file_time(time).map(NewTime::At),
    }
}

/// Nanoseconds of the Unix epoch, which a file's time may precede. EINVAL.
fn file_time(time: Timespec) -> Result<i128, Errno> {
    const SECOND: i64 = 1_000_000_000;
    if !(0..SECOND).contains(&time.tv_nsec) {
        return Err(Errno::EINVAL);
    }
    Ok(i128::from(time.tv_sec) * i128::from(SECOND) + i128::from(time.tv_nsec))
}

/// Everyone who may write a file may set its times to now; others only its owner. EACCES, EPERM.
fn demand_times(ctx: &mut Ctx<'_>, subject: &Subject, times: [Timespec; 2]) -> Result<(), Errno> {
    let permissions = subject.permissions(ctx);
    if permissions.is_owned_by(ctx.credentials()) {
        return Ok(());
    }
    match times.iter().all(|time| time.tv_nsec == UTIME_NOW) {
        true => permissions.demand(ctx.credentials(), W_OK),
        false => Err(Errno::EPERM),
    }
}

/// truncate(2).
pub fn truncate(ctx: &mut Ctx<'_>, [path, size, ..]: [u64; 6]) -> SysResult {
    let path = ctx.path_argument(path)?;
    if size > i64::MAX as u64 {
        return Err(Errno::EINVAL.into());
    }
    let (path, node) = behind(ctx, HERE, &path, true)?;
    if node.is_directory() {
        return Err(Errno::EISDIR.into());
    }
    if ctx.leads_to_namespace(&node)? {
        return Err(Errno::EPERM.into());
    }
    // What is no file of bytes is refused to everybody alike (`vfs_truncate`).
    let has_length = match &node {
        Node::Real(node) => node.kind() == S_IFREG,
        Node::Synthetic(node) => !matches!(node, Synthetic::Device(_) | Synthetic::Terminal(..)),
    };
    if !has_length {
        return Err(Errno::EINVAL.into());
    }
    ctx.demand(&path, &node, W_OK)?;
    let node = ctx.changeable(&path, node).map_err(|_| Errno::EINVAL)?;
    if node.kind() != S_IFREG {
        return Err(Errno::EINVAL.into());
    }
    let number = ctx.kernel.vfs.identities.of_node(&node);
    ctx.kernel.demand_idle_text(number)?;
    if size > node.stat.st_size as u64 {
        ctx.demand_file_size(size)?;
        if size > LONGEST_ON_DISK {
            return Err(Errno::EFBIG.into());
        }
    }
    ctx.break_leases(number, O_WRONLY)?;
    let node = ctx.kernel.for_change(&path, &node)?;
    ctx.drop_lent_rights_of(&node);
    ctx.kernel.vfs.truncate(&path, &node, size, ctx.now)?;
    ctx.kernel.file_changed(number, Change::Cleared { from: size, to: u64::MAX });
    tell(ctx, &path, &node.stat, IN_MODIFY);
    Ok(0)
}
