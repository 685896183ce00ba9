//! What files are: `stat` and its relatives, `statfs`, directory listings.

use super::paths::start_of;
use crate::ctx::Ctx;
use crate::files::FileKind;
use crate::ids::FileId;
use crate::ipc::queues::Queue;
use crate::kernel::Kernel;
use crate::namespaces::Namespace;
use crate::net::listing::{ANONYMOUS_NUMBERS, inode};
use crate::outcome::{Outcome, SysResult};
use crate::vfs::identity::synthetic_stat;
use crate::vfs::list::Entry;
use crate::vfs::mount_around;
use crate::vfs::permission::Permissions;
use crate::vfs::synthetic;
use crate::vfs::walk::Node;
use guest::AddressSpace;
use linux_abi::Errno;
use linux_abi::fs::*;
use std::os::unix::ffi::OsStringExt;

const HERE: u64 = AT_FDCWD as u64;

/// stat(2).
pub fn stat(ctx: &mut Ctx<'_>, [path, out, ..]: [u64; 6]) -> SysResult {
    let stat = stat_at(ctx, HERE, path, 0)?;
    ctx.process.memory.write_value(out, &stat)?;
    Ok(0)
}

/// lstat(2).
pub fn lstat(ctx: &mut Ctx<'_>, [path, out, ..]: [u64; 6]) -> SysResult {
    let stat = stat_at(ctx, HERE, path, AT_SYMLINK_NOFOLLOW)?;
    ctx.process.memory.write_value(out, &stat)?;
    Ok(0)
}

/// fstat(2).
pub fn fstat(ctx: &mut Ctx<'_>, [fd, out, ..]: [u64; 6]) -> SysResult {
    let id = ctx.file(fd)?;
    let stat = stat_open(ctx, id)?;
    ctx.process.memory.write_value(out, &stat)?;
    Ok(0)
}

/// newfstatat(2).
pub fn newfstatat(ctx: &mut Ctx<'_>, [dirfd, path, out, flags, ..]: [u64; 6]) -> SysResult {
    // How fresh the answer must be is asked by statx's flags here too.
    const KNOWN: u32 = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_STATX_FORCE_SYNC | AT_STATX_DONT_SYNC;
    if flags as u32 & !KNOWN != 0 {
        return Err(Errno::EINVAL.into());
    }
    let stat = stat_at(ctx, dirfd, path, flags as u32)?;
    ctx.process.memory.write_value(out, &stat)?;
    Ok(0)
}

/// statx(2): what `stat` knows, and when a guest created the file.
pub fn statx(ctx: &mut Ctx<'_>, [dirfd, path, flags, mask, out, _]: [u64; 6]) -> SysResult {
    let flags = flags as u32;
    let known = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_STATX_FORCE_SYNC | AT_STATX_DONT_SYNC;
    let both = AT_STATX_FORCE_SYNC | AT_STATX_DONT_SYNC;
    if flags & !known != 0 || flags & both == both || mask as u32 & STATX_RESERVED != 0 {
        return Err(Errno::EINVAL.into());
    }
    let stat = stat_at(ctx, dirfd, path, flags)?;
    let mut statx = Statx::from_stat(&stat);
    if let Some(born) = ctx.kernel.vfs.identities.born(stat.st_ino) {
        statx.set_birth(born);
    }
    ctx.process.memory.write_value(out, &statx)?;
    Ok(0)
}

fn stat_at(ctx: &mut Ctx<'_>, dirfd: u64, path: u64, flags: u32) -> Result<Stat, Outcome> {
    let path = if path == 0 && flags & AT_EMPTY_PATH != 0 { Vec::new() } else { ctx.path_argument(path)? };
    if path.is_empty() && flags & AT_EMPTY_PATH != 0 {
        if dirfd as i32 != AT_FDCWD {
            let id = ctx.file(dirfd)?;
            return Ok(stat_open(ctx, id)?);
        }
        return Ok(stat_path(ctx, HERE, b".", true)?);
    }
    Ok(stat_path(ctx, dirfd, &path, flags & AT_SYMLINK_NOFOLLOW == 0)?)
}

fn stat_path(ctx: &mut Ctx<'_>, dirfd: u64, path: &[u8], follow: bool) -> Result<Stat, Errno> {
    if let Some((_, stat)) = ctx.removed_itself(dirfd, path) {
        return Ok(stat);
    }
    let target = ctx.walk(dirfd, path, follow)?;
    let node = target.node.ok_or(Errno::ENOENT)?;
    stat_found(ctx, &target.path, node, follow)
}

/// `stat` of what is at an absolute path of the host.
fn stat_found(ctx: &mut Ctx<'_>, path: &[u8], node: Node, follow: bool) -> Result<Stat, Errno> {
    match node {
        Node::Real(mut node) => {
            if ctx.kernel.flush_output_at(&node.path) {
                let fresh = rustix::fs::statat(rustix::fs::CWD, &node.path[..], rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
                node.stat = fresh.map_err(crate::vfs::errno)?;
            }
            Ok(ctx.kernel.vfs.stat(&node))
        }
        Node::Synthetic(synthetic::Synthetic::Descriptor { pid, fd }) if follow => {
            let id = ctx.file_of(pid, fd)?;
            stat_open(ctx, id)
        }
        Node::Synthetic(synthetic::Synthetic::Namespace(namespace)) if follow => Ok(namespace_stat(ctx, namespace)),
        Node::Synthetic(node) => Ok(ctx.with_vfs(|_, view| synthetic::stat(view, path, &node))),
    }
}

fn namespace_stat(ctx: &Ctx<'_>, namespace: Namespace) -> Stat {
    synthetic_stat(ctx.kernel.config.clock, namespace.number, S_IFREG | 0o444, 0)
}

/// `stat` of an open file.
pub(super) fn stat_open(ctx: &mut Ctx<'_>, id: FileId) -> Result<Stat, Errno> {
    let (number, start) = (ANONYMOUS_NUMBERS + u64::from(id.0), ctx.kernel.config.clock);
    let path = match &ctx.kernel.files[id].kind {
        FileKind::Regular(_) => return ctx.kernel.regular_stat(id),
        FileKind::Directory(directory) if let Some(stat) = &directory.gone => return Ok(**stat),
        FileKind::Directory(directory) => directory.path.clone(),
        FileKind::Name(place) if let Some(stat) = &place.gone => return Ok(**stat),
        FileKind::Name(place) => place.path.clone(),
        FileKind::Snapshot(snapshot) => snapshot.path.clone(),
        FileKind::Device(device) => synthetic::device_path(*device),
        FileKind::Pipe(end) if let Some((_, node)) = ctx.kernel.fifo_of(*end)? => {
            return Ok(ctx.kernel.vfs.stat(&node));
        }
        FileKind::Terminal(file) if !file.is_named_after_number() => ctx.kernel.describe_file(id),
        FileKind::Terminal(file) => {
            let path = format!("/dev/pts/{}", file.tty);
            let node = synthetic::terminal_node(ctx.kernel.terminals.of(*file), file.tty);
            return Ok(ctx.with_vfs(|_, view| synthetic::stat(view, path.as_bytes(), &node)));
        }
        FileKind::Output(output) => ctx.kernel.shown_output(*output).into_os_string().into_vec(),
        FileKind::Pipe(_) | FileKind::Inet(_) | FileKind::Netlink(_) | FileKind::Unix(_) | FileKind::Queue(_) => {
            let (number, st_nlink, size) = match &ctx.kernel.files[id].kind {
                FileKind::Pipe(end) => (ANONYMOUS_NUMBERS * 2 + u64::from(end.pipe.0), 1, 0),
                FileKind::Queue(open) => {
                    let queue = ctx.kernel.ipc.queues.get(open.queue);
                    (number, u64::from(queue.linked), queue.file_bytes)
                }
                _ => (number, 1, 0),
            };
            let Some(Permissions { mode, user, group }) = ctx.kernel.nameless(id) else {
                return Err(Errno::EBADF);
            };
            return Ok(Stat { st_uid: user, st_gid: group, st_nlink, ..synthetic_stat(start, number, mode, size) });
        }
        FileKind::Namespace(namespace) => return Ok(namespace_stat(ctx, *namespace)),
        // A file of a kind that is not told.
        FileKind::Process(_) => return Ok(synthetic_stat(start, number, 0o700, 0)),
        FileKind::Inotify(_) | FileKind::Event(_) | FileKind::Timer(_) | FileKind::Signals(_) | FileKind::Epoll(_) => {
            return Ok(synthetic_stat(start, number, 0o600, 0));
        }
    };
    // Whatever the caller's root is now, and whether it could walk there.
    let node = ctx.lookup(&path)?;
    stat_found(ctx, &path, node, false)
}

impl Kernel {
    /// Mode and owner of an open file that has no name: a pipe, a socket, a queue. None for others.
    pub(crate) fn nameless(&mut self, id: FileId) -> Option<Permissions> {
        match &self.files[id].kind {
            FileKind::Pipe(end) => Some(self.pipes[end.pipe.0 as usize].permissions),
            FileKind::Inet(socket) => Some(socket.permissions),
            FileKind::Netlink(socket) => Some(socket.permissions),
            FileKind::Unix(socket) => self.unix.permissions(*socket).copied(),
            FileKind::Queue(open) => {
                let Queue { mode, owner, .. } = self.ipc.queues.get(open.queue);
                Some(Permissions { mode: S_IFREG | mode, user: owner.uid, group: owner.gid })
            }
            _ => None,
        }
    }

    /// chmod(2) and chown(2) of such a file.
    pub(crate) fn change_nameless(&mut self, id: FileId, changed: Permissions) {
        match &mut self.files[id].kind {
            FileKind::Pipe(end) => self.pipes[end.pipe.0 as usize].permissions = changed,
            FileKind::Inet(socket) => socket.permissions = changed,
            FileKind::Netlink(socket) => socket.permissions = changed,
            FileKind::Unix(socket) => {
                if let Some(permissions) = self.unix.permissions(*socket) {
                    *permissions = changed;
                }
            }
            FileKind::Queue(open) => {
                let queue = self.ipc.queues.get_mut(open.queue);
                queue.mode = changed.mode & 0o7777;
                (queue.owner.uid, queue.owner.gid) = (changed.user, changed.group);
            }
            _ => {}
        }
    }

    /// What `/proc/PID/fd/N` shows of an open file.
    pub(crate) fn describe_file(&self, id: FileId) -> Vec<u8> {
        match &self.files[id].kind {
            FileKind::Regular(file) if file.unlinked && !file.path.ends_with(b" (deleted)") => {
                [&file.path[..], b" (deleted)"].concat()
            }
            FileKind::Regular(file) => file.path.clone(),
            FileKind::Directory(directory) if directory.path.is_empty() => b"/".to_vec(),
            FileKind::Directory(directory) if directory.gone.is_some() => [&directory.path[..], b" (deleted)"].concat(),
            FileKind::Directory(directory) => directory.path.clone(),
            FileKind::Name(place) if place.gone.is_some() => [&place.path[..], b" (deleted)"].concat(),
            FileKind::Name(place) => place.path.clone(),
            FileKind::Snapshot(snapshot) => snapshot.path.clone(),
            FileKind::Device(device) => synthetic::device_path(*device),
            FileKind::Output(output) => self.shown_output(*output).into_os_string().into_vec(),
            FileKind::Pipe(end) if let Some(fifo) = &self.pipes[end.pipe.0 as usize].fifo => fifo.shown(),
            FileKind::Pipe(end) => format!("pipe:[{}]", ANONYMOUS_NUMBERS * 2 + u64::from(end.pipe.0)).into_bytes(),
            FileKind::Inet(_) | FileKind::Netlink(_) | FileKind::Unix(_) => {
                format!("socket:[{}]", inode(id)).into_bytes()
            }
            FileKind::Inotify(_) => b"anon_inode:inotify".to_vec(),
            FileKind::Terminal(file) => file.path(self.terminals.named(file.tty).is_some()),
            FileKind::Event(_) => b"anon_inode:[eventfd]".to_vec(),
            FileKind::Timer(_) => b"anon_inode:[timerfd]".to_vec(),
            FileKind::Signals(_) => b"anon_inode:[signalfd]".to_vec(),
            FileKind::Epoll(_) => b"anon_inode:[eventpoll]".to_vec(),
            FileKind::Queue(open) => [b"/", &self.ipc.queues.get(open.queue).name[..]].concat(),
            FileKind::Process(_) => b"anon_inode:[pidfd]".to_vec(),
            FileKind::Namespace(namespace) => namespace.text(),
        }
    }
}

/// statfs(2).
pub fn statfs(ctx: &mut Ctx<'_>, [path, out, ..]: [u64; 6]) -> SysResult {
    let path = ctx.path_argument(path)?;
    let target = ctx.walk(HERE, &path, true)?;
    let statfs = match target.node.ok_or(Errno::ENOENT)? {
        Node::Synthetic(synthetic::Synthetic::Descriptor { pid, fd }) => {
            let id = ctx.file_of(pid, fd)?;
            statfs_of_open(ctx, id)?
        }
        Node::Synthetic(synthetic::Synthetic::Namespace(_)) => unmounted(NSFS_MAGIC),
        _ => mounted_at(&target.path),
    };
    ctx.process.memory.write_value(out, &statfs)?;
    Ok(0)
}

/// fstatfs(2).
pub fn fstatfs(ctx: &mut Ctx<'_>, [fd, out, ..]: [u64; 6]) -> SysResult {
    let id = ctx.file(fd)?;
    let statfs = statfs_of_open(ctx, id)?;
    ctx.process.memory.write_value(out, &statfs)?;
    Ok(0)
}

fn statfs_of_open(ctx: &mut Ctx<'_>, id: FileId) -> Result<Statfs, Errno> {
    let path = match &ctx.kernel.files[id].kind {
        FileKind::Regular(file) if file.is_memory() => return Ok(unmounted(TMPFS_MAGIC)),
        FileKind::Regular(file) => file.path.clone(),
        FileKind::Directory(directory) => directory.path.clone(),
        FileKind::Snapshot(snapshot) => snapshot.path.clone(),
        FileKind::Name(place) => {
            let path = place.path.clone();
            match ctx.lookup(&path) {
                // What is behind a descriptor or a namespace, where the name is of a link to it.
                Ok(Node::Synthetic(synthetic::Synthetic::Descriptor { pid, fd })) => {
                    let behind = ctx.file_of(pid, fd)?;
                    return statfs_of_open(ctx, behind);
                }
                Ok(Node::Synthetic(synthetic::Synthetic::Namespace(_))) => return Ok(unmounted(NSFS_MAGIC)),
                _ => path,
            }
        }
        FileKind::Device(_) | FileKind::Terminal(_) | FileKind::Output(_) => ctx.kernel.describe_file(id),
        FileKind::Pipe(end) => match ctx.kernel.fifo_of(*end)? {
            Some((path, _)) => path,
            None => return Ok(unmounted(PIPEFS_MAGIC)),
        },
        FileKind::Inet(_) | FileKind::Netlink(_) | FileKind::Unix(_) => return Ok(unmounted(SOCKFS_MAGIC)),
        FileKind::Queue(_) => return Ok(unmounted(MQUEUE_MAGIC)),
        FileKind::Namespace(_) => return Ok(unmounted(NSFS_MAGIC)),
        // Descriptors of processes have a file system of their own since Linux 6.9.
        FileKind::Process(_)
        | FileKind::Event(_)
        | FileKind::Timer(_)
        | FileKind::Signals(_)
        | FileKind::Epoll(_)
        | FileKind::Inotify(_) => return Ok(unmounted(ANON_INODE_FS_MAGIC)),
    };
    Ok(mounted_at(&path))
}

/// A file system of the kernel's own that nothing is mounted of, and that counts nothing.
fn unmounted(magic: i64) -> Statfs {
    Statfs {
        f_type: magic,
        f_bsize: 4096,
        f_namelen: NAME_MAX as i64,
        f_frsize: 4096,
        f_flags: ST_VALID,
        ..Statfs::default()
    }
}

/// The file system around a path, as `/proc/mounts` has them: those that hold files have 64 GiB, half full, whatever the machine has.
fn mounted_at(path: &[u8]) -> Statfs {
    let (kind, options) = mount_around(path);
    let magic = match kind {
        "proc" => PROC_SUPER_MAGIC,
        "sysfs" => SYSFS_MAGIC,
        "devpts" => DEVPTS_SUPER_MAGIC,
        "mqueue" => MQUEUE_MAGIC,
        "tmpfs" | "devtmpfs" => TMPFS_MAGIC,
        _ => EXT4_SUPER_MAGIC,
    };
    const FLAGS: [(&str, i64); 4] =
        [("nosuid", ST_NOSUID), ("nodev", ST_NODEV), ("noexec", ST_NOEXEC), ("relatime", ST_RELATIME)];
    let is_set = |name: &str| options.split(',').any(|option| option == name);
    let flags = FLAGS.iter().filter(|(name, _)| is_set(name)).fold(ST_VALID, |flags, (_, flag)| flags | flag);
    let statfs = Statfs { f_flags: flags, ..unmounted(magic) };
    if !matches!(magic, TMPFS_MAGIC | EXT4_SUPER_MAGIC) {
        return statfs;
    }
    Statfs { f_blocks: 16 << 20, f_bfree: 8 << 20, f_bavail: 8 << 20, f_files: 4 << 20, f_ffree: 2 << 20, ..statfs }
}

/// Writes one entry into a buffer with a limit, as `push_dirent64` does.
type PushEntry = fn(&mut Vec<u8>, usize, u64, i64, u8, &[u8]) -> bool;

/// getdents64(2): by name.
pub fn getdents64(ctx: &mut Ctx<'_>, args: [u64; 6]) -> SysResult {
    list_directory(ctx, args, push_dirent64)
}

/// getdents(2).
pub fn getdents(ctx: &mut Ctx<'_>, args: [u64; 6]) -> SysResult {
    list_directory(ctx, args, push_dirent)
}

fn list_directory(ctx: &mut Ctx<'_>, [fd, out, size, ..]: [u64; 6], push: PushEntry) -> SysResult {
    let id = ctx.file(fd)?;
    if ctx.kernel.files[id].status & O_PATH != 0 {
        return Err(Errno::EBADF.into());
    }
    let FileKind::Directory(directory) = &ctx.kernel.files[id].kind else { return Err(Errno::ENOTDIR.into()) };
    if directory.gone.is_some() {
        return Err(Errno::ENOENT.into());
    }
    if directory.entries.is_none() {
        let entries = read_entries(ctx, fd, id)?;
        let FileKind::Directory(directory) = &mut ctx.kernel.files[id].kind else { return Err(Errno::ENOTDIR.into()) };
        directory.entries = Some(entries);
    }
    let FileKind::Directory(directory) = &mut ctx.kernel.files[id].kind else { return Err(Errno::ENOTDIR.into()) };
    let entries = directory.entries.as_deref().unwrap_or(&[]);
    let first = directory.position;
    let mut bytes = Vec::new();
    let mut ends = Vec::new();
    // A size is signed here: what is more than that leaves no room for any entry.
    let limit = (size as i32).clamp(0, 1 << 20) as usize;
    for (position, entry) in entries.iter().enumerate().skip(first) {
        if !push(&mut bytes, limit, entry.number, position as i64 + 1, entry.kind, &entry.name) {
            break;
        }
        ends.push(bytes.len());
    }
    if bytes.is_empty() && first < entries.len() {
        return Err(Errno::EINVAL.into());
    }
    let told = write_entries(&ctx.process.memory, out, &bytes, &ends)?;
    directory.position = first + told;
    ctx.kernel.open_file_event(id, IN_ACCESS);
    Ok(ends[..told].last().map_or(0, |end| *end as u64))
}

/// Writes entries, which end there, and returns how many could be written before memory ends. EFAULT when it is none.
fn write_entries(memory: &AddressSpace, out: u64, bytes: &[u8], ends: &[usize]) -> Result<usize, Errno> {
    if memory.write(out, bytes).is_ok() {
        return Ok(ends.len());
    }
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let written = starts
        .zip(ends)
        .take_while(|&(start, &end)| memory.write(out + start as u64, &bytes[start..end]).is_ok())
        .count();
    if written == 0 { Err(Errno::EFAULT) } else { Ok(written) }
}

fn read_entries(ctx: &mut Ctx<'_>, fd: u64, id: FileId) -> Result<Vec<Entry>, Errno> {
    let path = start_of(ctx, fd)?;
    let node = ctx.lookup(&path)?;
    if let Node::Real(node) = &node
        && ctx.kernel.files[id].status & O_NOATIME == 0
    {
        ctx.kernel.vfs.note_access(node, ctx.now);
    }
    ctx.with_vfs(|vfs, view| vfs.list(view, &path, &node))
}
