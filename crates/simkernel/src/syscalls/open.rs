//! Opening files: `open` and its relatives, and what becomes an open file of each thing that a path can name.

use crate::credentials::{Credentials, ProgramFile};
use crate::ctx::Ctx;
use crate::exec::{Caller, Executable};
use crate::files::pipe::PipeEnd;
use crate::files::regular::RegularFile;
use crate::files::spliced::Change;
use crate::files::synthetic::{Directory, Image, Shown, Snapshot};
use crate::files::{FileKind, OpenFile, Place};
use crate::ids::{FileId, Pid};
use crate::namespaces;
use crate::outcome::{Outcome, Restart, SysResult};
use crate::tty::{self, Side};
use crate::vfs::permission::Permissions;
use crate::vfs::synthetic::{self, Device, Synthetic};
use crate::vfs::walk::{Node, Target, check_text};
use crate::vfs::{RealNode, as_path, errno};
use crate::wait::{Events, Wake};
use linux_abi::Errno;
use linux_abi::fs::*;
use linux_abi::sysinfo::RLIMIT_NOFILE;
use rustix::fs::{MemfdFlags, Mode, OFlags};
use std::os::fd::{AsRawFd, OwnedFd};

/// Flags that F_GETFL does not show again.
const CREATION_FLAGS: u32 = O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_CLOEXEC;

/// How long a structure may be that a newer kernel knows more of.
const PAGE_BYTES: u64 = 4096;

/// open(2).
pub fn open(ctx: &mut Ctx<'_>, [path, flags, mode, ..]: [u64; 6]) -> SysResult {
    open_path(ctx, AT_FDCWD as u64, path, flags as u32, mode as u32)
}

/// creat(2).
pub fn creat(ctx: &mut Ctx<'_>, [path, mode, ..]: [u64; 6]) -> SysResult {
    open_path(ctx, AT_FDCWD as u64, path, O_CREAT | O_WRONLY | O_TRUNC, mode as u32)
}

/// openat(2).
pub fn openat(ctx: &mut Ctx<'_>, [dirfd, path, flags, mode, ..]: [u64; 6]) -> SysResult {
    open_path(ctx, dirfd, path, flags as u32, mode as u32)
}

/// openat2(2).
pub fn openat2(ctx: &mut Ctx<'_>, [dirfd, path, how, size, ..]: [u64; 6]) -> SysResult {
    if size < size_of::<OpenHow>() as u64 {
        return Err(Errno::EINVAL.into());
    }
    if size > PAGE_BYTES {
        return Err(Errno::E2BIG.into());
    }
    let more = size as usize - size_of::<OpenHow>();
    let mut rest = vec![0; more];
    ctx.process.memory.read(how.wrapping_add(size_of::<OpenHow>() as u64), &mut rest)?;
    if rest.iter().any(|byte| *byte != 0) {
        return Err(Errno::E2BIG.into());
    }
    let how: OpenHow = ctx.process.memory.read_value(how)?;
    let no_mode = how.flags as u32 & (O_CREAT | O_TMPFILE & !O_DIRECTORY) == 0;
    if how.flags > u64::from(u32::MAX) || how.mode & !0o7777 != 0 || (no_mode && how.mode != 0) {
        return Err(Errno::EINVAL.into());
    }
    check_flags(how.flags as u32)?;
    // What open(2) leaves out beside O_PATH is a mistake here.
    const BESIDE_PATH: u32 = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    if how.flags as u32 & O_PATH != 0 && how.flags as u32 & !BESIDE_PATH != 0 {
        return Err(Errno::EINVAL.into());
    }
    if how.resolve == 0 {
        return open_path(ctx, dirfd, path, how.flags as u32, how.mode as u32);
    }
    super::resolve::check(how.resolve)?;
    let path = ctx.path_argument(path)?;
    let resolved = super::resolve::resolve(ctx, dirfd, &path, how.flags as u32, how.resolve)?;
    open_at(ctx, AT_FDCWD as u64, resolved, how.flags as u32 | O_NOFOLLOW, how.mode as u32, how.flags as u32)
}

fn open_path(ctx: &mut Ctx<'_>, dirfd: u64, path: u64, flags: u32, mode: u32) -> SysResult {
    check_flags(flags)?;
    let path = ctx.path_argument(path)?;
    open_at(ctx, dirfd, path, flags, mode, flags)
}

/// Flags that exclude each other are found before the path is read (`build_open_flags`). EINVAL.
fn check_flags(flags: u32) -> Result<(), Errno> {
    if flags & O_PATH != 0 {
        return Ok(());
    }
    let creates_directory = flags & (O_CREAT | O_DIRECTORY) == O_CREAT | O_DIRECTORY;
    let unnamed_to_read = flags & O_TMPFILE == O_TMPFILE && flags & O_ACCMODE == O_RDONLY;
    if creates_directory || unnamed_to_read { Err(Errno::EINVAL) } else { Ok(()) }
}

/// Opens a path from a directory. `shown` are the flags that the open file keeps.
fn open_at(ctx: &mut Ctx<'_>, dirfd: u64, path: Vec<u8>, flags: u32, mode: u32, shown: u32) -> SysResult {
    if ctx.thread.call.progress != 0 {
        return finish_fifo(ctx, flags);
    }
    // Whether there is a descriptor left is asked before the path is walked, once that has been read (`do_sys_openat2`).
    check_text(&path)?;
    let limit = ctx.process.limits.soft(RLIMIT_NOFILE);
    ctx.fds().demand_room(limit)?;
    if flags & O_PATH == 0 && flags & O_TMPFILE == O_TMPFILE {
        return open_unnamed(ctx, dirfd, &path, flags, mode);
    }
    if flags & O_PATH == 0 && flags & O_CREAT != 0 {
        let (name, follows_slash) = super::paths::without_slashes(&path);
        if follows_slash && !super::paths::is_special(&path) {
            // Whatever is there, only a directory could be called so (`open_last_lookups`).
            ctx.walk_to_name(dirfd, name, false)?;
            return Err(Errno::EISDIR.into());
        }
    }
    let exclusive = flags & O_CREAT != 0 && flags & O_EXCL != 0;
    let status = visible_status(shown);
    if let Some((path, stat)) = ctx.removed_itself(dirfd, &path) {
        let gone = Some(Box::new(stat));
        let kind = match flags {
            _ if flags & O_PATH != 0 => FileKind::Name(Place { gone, ..Place::new(path) }),
            _ if exclusive => return Err(Errno::EEXIST.into()),
            _ if wants_write(flags) || flags & O_CREAT != 0 => return Err(Errno::EISDIR.into()),
            _ => FileKind::Directory(Box::new(Directory { gone, ..Directory::new(path) })),
        };
        return install(ctx, kind, status, flags);
    }
    let target = ctx.walk(dirfd, &path, flags & O_NOFOLLOW == 0 && !exclusive)?;
    let file = match &target.node {
        Some(_) if exclusive && flags & O_PATH == 0 => return Err(Errno::EEXIST.into()),
        Some(_) if flags & O_PATH != 0 => {
            let node = target.node.as_ref().expect("just matched");
            if flags & O_DIRECTORY != 0 && !node.is_directory() {
                return Err(Errno::ENOTDIR.into());
            }
            FileKind::Name(Place::new(target.path))
        }
        Some(node @ Node::Real(fifo)) if fifo.kind() == S_IFIFO && flags & O_DIRECTORY == 0 => {
            ctx.demand(&target.path, node, wanted(flags))?;
            let node = fifo.clone();
            return open_fifo(ctx, target.path, node, flags);
        }
        Some(Node::Synthetic(Synthetic::Descriptor { .. })) if shown & O_NOFOLLOW != 0 => {
            return Err(Errno::ELOOP.into());
        }
        Some(Node::Synthetic(Synthetic::Descriptor { pid, fd })) => {
            ctx.demand_look(&target.path)?;
            return reopen(ctx, *pid, *fd, flags);
        }
        Some(node @ Node::Real(device)) if matches!(device.kind(), S_IFCHR | S_IFBLK) && flags & O_DIRECTORY == 0 => {
            ctx.demand(&target.path, node, wanted(flags))?;
            let known = synthetic::device_of(device.kind(), device.stat.st_rdev).ok_or(Errno::ENXIO)?;
            let node = Synthetic::Device(known);
            if node.is_terminal() {
                return open_terminal(ctx, &node, flags);
            }
            FileKind::Device(known)
        }
        Some(Node::Synthetic(Synthetic::Namespace(namespace))) if flags & (O_NOFOLLOW | O_DIRECTORY) == 0 => {
            ctx.demand_look(&target.path)?;
            if wants_write(flags) {
                return Err(Errno::EPERM.into());
            }
            if flags & O_DIRECT != 0 {
                return Err(Errno::EINVAL.into());
            }
            return Ok(namespaces::open(ctx, *namespace, flags & O_CLOEXEC != 0)?);
        }
        Some(node @ Node::Synthetic(terminal)) if flags & O_DIRECTORY == 0 && terminal.is_terminal() => {
            ctx.demand(&target.path, node, wanted(flags))?;
            return open_terminal(ctx, &terminal.clone(), flags);
        }
        Some(node) => {
            wait_for_leases(ctx, &target.path, node, flags)?;
            open_node(ctx, &target.path, node, flags)?
        }
        None if flags & O_CREAT == 0 => return Err(Errno::ENOENT.into()),
        None if target.slash => return Err(Errno::EISDIR.into()),
        None => {
            let file = create(ctx, target, mode)?;
            return install(ctx, file, status, flags & !O_TRUNC);
        }
    };
    install(ctx, file, status, flags)
}

/// Who may open a file waits for those that hold leases on it.
fn wait_for_leases(ctx: &mut Ctx<'_>, path: &[u8], node: &Node, flags: u32) -> Result<(), Outcome> {
    // What should be a directory and is none is found before (`do_open`).
    if ctx.kernel.leases.is_empty() || flags & O_DIRECTORY != 0 {
        return Ok(());
    }
    let Node::Real(real) = node else { return Ok(()) };
    if real.kind() != S_IFREG {
        return Ok(());
    }
    ctx.demand(path, node, wanted(flags))?;
    let number = ctx.kernel.vfs.identities.of_node(real);
    ctx.break_leases(number, flags)
}

/// What F_GETFL shows of `open`'s flags.
fn visible_status(flags: u32) -> u32 {
    // `do_dentry_open` and `build_open_flags` leave nothing else of what beside O_PATH has no meaning.
    const OF_PLACES: u32 = O_PATH | O_DIRECTORY | O_NOFOLLOW;
    if flags & O_PATH == 0 { flags & !CREATION_FLAGS | O_LARGEFILE } else { flags & OF_PLACES }
}

fn install(ctx: &mut Ctx<'_>, kind: FileKind, status: u32, flags: u32) -> SysResult {
    let is_made_up = matches!(kind, FileKind::Directory(_) | FileKind::Snapshot(_) | FileKind::Device(_));
    if is_made_up && flags & (O_DIRECT | O_PATH) == O_DIRECT {
        // Only files on disk pass by the cache, which is found once the file is open (`do_dentry_open`): watches learn that it is closed.
        let file = ctx.kernel.files.insert(OpenFile::new(kind, status));
        ctx.kernel.release_file(file);
        return Err(Errno::EINVAL.into());
    }
    let file = ctx.kernel.files.insert(OpenFile::new(kind, status));
    let fd = ctx.install(file, flags & O_CLOEXEC != 0)?;
    ctx.kernel.open_file_event(file, IN_OPEN);
    // What was there is cut off once it is open.
    let cuts = flags & O_TRUNC != 0 && flags & O_TMPFILE != O_TMPFILE;
    if cuts && matches!(ctx.kernel.files[file].kind, FileKind::Regular(_)) {
        ctx.kernel.open_file_event(file, IN_MODIFY);
    }
    Ok(fd)
}

/// What an open file may be asked for: some of `R_OK` and `W_OK`.
fn wanted(flags: u32) -> u32 {
    let (reads, writes) = access(flags);
    (if reads { R_OK } else { 0 }) | if writes || flags & O_TRUNC != 0 { W_OK } else { 0 }
}

/// An open file on what a walk found. EACCES, EPERM (O_NOATIME on a file of somebody else).
fn open_node(ctx: &mut Ctx<'_>, path: &[u8], node: &Node, flags: u32) -> Result<FileKind, Errno> {
    let misused = node.is_directory() && (wants_write(flags) || flags & O_CREAT != 0);
    if !misused && !node.is_link() && (flags & O_DIRECTORY == 0 || node.is_directory()) {
        ctx.demand(path, node, wanted(flags))?;
        if flags & O_NOATIME != 0 && !ctx.permissions(path, node).is_owned_by(ctx.credentials()) {
            return Err(Errno::EPERM);
        }
    }
    match node {
        Node::Real(node) => open_real(ctx, path, node, flags),
        Node::Synthetic(Synthetic::File(_)) if wants_write(flags) && ctx.kernel.vfs.writable(path) => {
            let node = ctx.changeable(path, node.clone())?;
            open_real(ctx, path, &node, flags)
        }
        Node::Synthetic(_) if flags & O_DIRECTORY != 0 && !node.is_directory() => Err(Errno::ENOTDIR),
        Node::Synthetic(_) if let Some((pid, shown)) = synthetic::shown_memory(path) => {
            open_memory(ctx, path, pid, shown)
        }
        Node::Synthetic(Synthetic::File(_)) if wants_write(flags) && synthetic::is_never_written(path) => {
            Err(Errno::EACCES)
        }
        Node::Synthetic(node) => open_made_up(ctx, path, node, flags),
    }
}

/// A file or folder that does not exist on the machine.
fn open_made_up(ctx: &mut Ctx<'_>, path: &[u8], node: &Synthetic, flags: u32) -> Result<FileKind, Errno> {
    if let Some(errno) = ctx.with_vfs(|_, view| synthetic::refusal(view, path)) {
        return Err(errno);
    }
    if matches!(node, Synthetic::File(_)) && synthetic::is_of_memory(path) {
        demand_memory(ctx, path)?;
    }
    let mut kind = open_synthetic(path.to_vec(), node.clone(), flags)?;
    if let FileKind::Snapshot(snapshot) = &mut kind {
        snapshot.made = (ctx.kernel.turns, ctx.process.calls);
    }
    Ok(kind)
}

/// Files of `/proc` that show a process's memory are for those who may look into it; whoever shares the memory may. EACCES, ESRCH when
/// it is over (`proc_mem_open`; the lists of mappings are empty then).
fn demand_memory(ctx: &mut Ctx<'_>, path: &[u8]) -> Result<(), Errno> {
    let own = ctx.process.space;
    let is_list = path.ends_with(b"maps");
    ctx.with_vfs(|_, view| match synthetic::process_of(view, path) {
        Some(target) if target.zombie.is_some() => {
            if is_list {
                Ok(())
            } else {
                Err(Errno::ESRCH)
            }
        }
        Some(target) if target.space == own => Ok(()),
        _ => synthetic::demand_look(view, path),
    })
}

/// `/proc/PID/mem` and its like. EACCES for those who might not trace the process (`proc_mem_open`), ESRCH when it is over.
fn open_memory(ctx: &Ctx<'_>, path: &[u8], pid: u32, shown: fn(Image) -> Shown) -> Result<FileKind, Errno> {
    let pid = super::process::process_of_thread(ctx, pid).ok_or(Errno::ESRCH)?;
    let process = if pid == ctx.process.pid { Some(&*ctx.process) } else { ctx.kernel.processes.get(pid.0) };
    let process = process.filter(|process| process.zombie.is_none()).ok_or(Errno::ESRCH)?;
    let is_shared = process.space == ctx.process.space;
    if !is_shared && !ctx.credentials().may_look_into(&process.credentials, process.dumpable) {
        return Err(Errno::EACCES);
    }
    let shown = shown(Image { pid: process.pid, execs: process.execs });
    Ok(FileKind::Snapshot(Box::new(Snapshot { shown, ..Snapshot::new(path.to_vec(), Vec::new()) })))
}

fn wants_write(flags: u32) -> bool {
    flags & O_ACCMODE != O_RDONLY || flags & O_TRUNC != 0
}

/// An open file on something of the machine.
fn open_real(ctx: &mut Ctx<'_>, path: &[u8], node: &RealNode, flags: u32) -> Result<FileKind, Errno> {
    match node.kind() {
        S_IFDIR if wants_write(flags) || flags & O_CREAT != 0 => return Err(Errno::EISDIR),
        S_IFDIR => {
            return Ok(FileKind::Directory(Box::new(Directory::new(path.to_vec()))));
        }
        _ if flags & O_DIRECTORY != 0 => return Err(Errno::ENOTDIR),
        S_IFLNK => return Err(Errno::ELOOP),
        S_IFSOCK => return Err(Errno::ENXIO),
        S_IFREG => {}
        _ => return Err(Errno::EACCES),
    }
    let writes = wants_write(flags);
    if writes {
        let number = ctx.kernel.vfs.identities.of_node(node);
        ctx.kernel.demand_idle_text(number)?;
    }
    let node = if writes { ctx.kernel.for_change(path, node)? } else { node.clone() };
    ctx.kernel.flush_output_at(&node.path);
    let access = if writes { OFlags::RDWR } else { OFlags::RDONLY };
    let fd =
        rustix::fs::open(&node.path[..], access | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty()).map_err(errno)?;
    if flags & O_TRUNC != 0 {
        rustix::fs::ftruncate(&fd, 0).map_err(errno)?;
        ctx.drop_lent_rights_of(&node);
        let number = ctx.kernel.vfs.identities.of_node(&node);
        ctx.kernel.vfs.identities.touch(number, ctx.now);
        ctx.kernel.file_changed(number, Change::Cleared { from: 0, to: u64::MAX });
    }
    Ok(regular(ctx, path, node, fd, writes))
}

fn regular(ctx: &mut Ctx<'_>, path: &[u8], node: RealNode, fd: OwnedFd, writes: bool) -> FileKind {
    let vfs = &mut ctx.kernel.vfs;
    let serial = vfs.new_serial();
    vfs.descriptors.insert(serial, fd);
    vfs.reads(&node);
    let number = vfs.identities.of_node(&node);
    FileKind::Regular(Box::new(RegularFile {
        serial,
        real: node.path,
        path: path.to_vec(),
        writes,
        in_run: node.writable,
        number,
        offset: 0,
        pinned: None,
        unlinked: false,
    }))
}

fn create(ctx: &mut Ctx<'_>, target: Target, mode: u32) -> Result<FileKind, Errno> {
    if crate::vfs::synthetic::covers(&target.path) && !ctx.kernel.vfs.writable(&target.path) {
        return Err(Errno::EACCES);
    }
    ctx.demand_new(&target.path)?;
    let (fd, node) = ctx.create_with(mode & 0o7777, |vfs, new| vfs.create(&target.path, new))?;
    ctx.kernel.name_event(&target.path, IN_CREATE);
    Ok(regular(ctx, &target.path, node, fd, true))
}

/// O_TMPFILE: a file in a directory's area that never had a name.
fn open_unnamed(ctx: &mut Ctx<'_>, dirfd: u64, path: &[u8], flags: u32, mode: u32) -> SysResult {
    let directory = ctx.walk(dirfd, path, true)?;
    if !directory.node.as_ref().ok_or(Errno::ENOENT)?.is_directory() {
        return Err(Errno::ENOTDIR.into());
    }
    ctx.demand_new(&[&directory.path[..], b"/#"].concat())?;
    let linkable = flags & O_EXCL == 0;
    let (fd, node) = ctx.create_with(mode & 0o7777, |vfs, new| vfs.create_unnamed(&directory.path, new, linkable))?;
    let number = ctx.kernel.vfs.identities.of_node(&node);
    let path = [&directory.path[..], b"/#", number.to_string().as_bytes()].concat();
    let kind = regular(ctx, &path, node, fd, true);
    pin(ctx, kind, visible_status(flags), flags)
}

/// Installs a regular file that lives by its descriptor alone.
fn pin(ctx: &mut Ctx<'_>, mut kind: FileKind, status: u32, flags: u32) -> SysResult {
    if let FileKind::Regular(file) = &mut kind {
        file.pinned = ctx.kernel.vfs.descriptors.take(file.serial);
        file.unlinked = true;
    }
    install(ctx, kind, status, flags)
}

/// memfd_create(2).
pub fn memfd_create(ctx: &mut Ctx<'_>, [name, flags, ..]: [u64; 6]) -> SysResult {
    let flags = flags as u32;
    if flags & MFD_HUGETLB != 0 && flags & !(MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB | MFD_HUGE_MASK) == 0 {
        // No size of huge pages has any.
        return Err(Errno::ENODEV.into());
    }
    // Those about execution came with Linux 6.3.
    if flags & !(MFD_CLOEXEC | MFD_ALLOW_SEALING) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let name = ctx.process.memory.read_cstr(name, 250)?.ok_or(Errno::EINVAL)?;
    let kept = if flags & MFD_ALLOW_SEALING != 0 { MemfdFlags::ALLOW_SEALING } else { MemfdFlags::empty() };
    let fd = rustix::fs::memfd_create(&name[..], MemfdFlags::CLOEXEC | kept).map_err(|e| Outcome::from(errno(e)))?;
    let stat = rustix::fs::fstat(&fd).map_err(|e| Outcome::from(errno(e)))?;
    let path = [b"/memfd:", &name[..], b" (deleted)"].concat();
    let node = RealNode { path: path.clone(), stat, writable: true };
    let number = ctx.kernel.vfs.identities.of(&stat);
    let owner = (ctx.credentials().user.fs, ctx.credentials().group.fs);
    let stamp = ctx.kernel.vfs.identities.stamp(ctx.now);
    let attributes = ctx.kernel.vfs.identities.attributes(number);
    attributes.times = Some(crate::vfs::identity::Times::at(stamp));
    attributes.owner = Some(owner);
    let kind = regular(ctx, &path, node, fd, true);
    let cloexec = if flags & MFD_CLOEXEC != 0 { O_CLOEXEC } else { 0 };
    pin(ctx, kind, O_RDWR | O_LARGEFILE, cloexec)
}

fn open_synthetic(path: Vec<u8>, node: Synthetic, flags: u32) -> Result<FileKind, Errno> {
    let directory = matches!(node, Synthetic::Directory(_) | Synthetic::Descriptors(_) | Synthetic::Threads(_));
    if flags & O_DIRECTORY != 0 && !directory {
        return Err(Errno::ENOTDIR);
    }
    match node {
        _ if directory && (wants_write(flags) || flags & O_CREAT != 0) => Err(Errno::EISDIR),
        Synthetic::Directory(_) | Synthetic::Descriptors(_) | Synthetic::Threads(_) => {
            Ok(FileKind::Directory(Box::new(Directory::new(path))))
        }
        Synthetic::Terminal(..) => Err(Errno::ENXIO),
        Synthetic::Device(device) => Ok(FileKind::Device(device)),
        Synthetic::File(content) => {
            let shown = if synthetic::is_of_security(&path) { Shown::Nothing } else { Shown::Content };
            Ok(FileKind::Snapshot(Box::new(Snapshot { shown, ..Snapshot::new(path, content) })))
        }
        Synthetic::Link(_) | Synthetic::Descriptor { .. } | Synthetic::Namespace(_) => Err(Errno::ELOOP),
    }
}

fn open_terminal(ctx: &mut Ctx<'_>, node: &Synthetic, flags: u32) -> SysResult {
    let status = visible_status(flags);
    match node {
        Synthetic::Device(Device::Ptmx) => tty::open_master(ctx, flags, status),
        Synthetic::Terminal(number, _) => tty::open_slave(ctx, *number, flags, status),
        _ => tty::open_controlling(ctx, flags, status),
    }
}

/// Opens what is behind another descriptor once more (`/proc/self/fd/N`).
fn reopen(ctx: &mut Ctx<'_>, pid: Pid, fd: u32, flags: u32) -> SysResult {
    let id = ctx.file_of(pid, fd)?;
    let status = visible_status(flags);
    match &ctx.kernel.files[id].kind {
        FileKind::Directory(_) if wants_write(flags) => return Err(Errno::EISDIR.into()),
        FileKind::Directory(_) | FileKind::Name(_) => {}
        _ if flags & O_DIRECTORY != 0 => return Err(Errno::ENOTDIR.into()),
        _ => {}
    }
    let kind = match &ctx.kernel.files[id].kind {
        FileKind::Regular(file) => {
            let (path, pinned) = (file.path.clone(), file.pinned.is_some());
            if pinned {
                reopen_pinned(ctx, id, flags)?
            } else {
                match ctx.lookup(&path)? {
                    node @ Node::Real(_) => open_node(ctx, &path, &node, flags)?,
                    Node::Synthetic(_) => return Err(Errno::ENOENT.into()),
                }
            }
        }
        FileKind::Directory(directory) => {
            let (path, gone) = (directory.path.clone(), directory.gone.clone());
            FileKind::Directory(Box::new(Directory { gone, ..Directory::new(path) }))
        }
        FileKind::Snapshot(snapshot) => FileKind::Snapshot(Box::new(Snapshot {
            shown: snapshot.shown,
            ..Snapshot::new(snapshot.path.clone(), snapshot.content.clone())
        })),
        // What it names is opened now.
        FileKind::Name(place) if place.gone.is_none() => {
            let (path, flags) = (place.path.clone(), flags & !(O_CREAT | O_EXCL));
            return open_at(ctx, AT_FDCWD as u64, path, flags | O_NOFOLLOW, 0, flags);
        }
        FileKind::Namespace(_) if wants_write(flags) => return Err(Errno::EPERM.into()),
        FileKind::Namespace(namespace) => {
            let namespace = *namespace;
            return Ok(namespaces::open(ctx, namespace, flags & O_CLOEXEC != 0)?);
        }
        FileKind::Device(device) => FileKind::Device(*device),
        FileKind::Output(output) => FileKind::Output(*output),
        FileKind::Terminal(file) => {
            let file = *file;
            return match file.side {
                Side::Master => tty::open_master(ctx, flags, status),
                Side::Slave => tty::open_slave(ctx, file.tty, flags, status),
            };
        }
        FileKind::Pipe(end) => {
            let (reads, writes) = access(flags);
            let end = PipeEnd { pipe: end.pipe, reads, writes };
            let file = ctx.kernel.files.insert(OpenFile::new(FileKind::Pipe(end), status));
            ctx.kernel.attach_pipe_end(end, file);
            return Ok(ctx.install(file, flags & O_CLOEXEC != 0)?);
        }
        _ => return Err(Errno::ENXIO.into()),
    };
    install(ctx, kind, status, flags)
}

/// A second open file on one that has no name.
fn reopen_pinned(ctx: &mut Ctx<'_>, id: FileId, flags: u32) -> Result<FileKind, Errno> {
    let FileKind::Regular(file) = &ctx.kernel.files[id].kind else { return Err(Errno::EBADF) };
    let (real, path) = (file.real.clone(), file.path.clone());
    let (was_writable, in_run, number, unlinked) = (file.writes, file.in_run, file.number, file.unlinked);
    let writes = was_writable || (in_run && wants_write(flags));
    if writes && !was_writable {
        Permissions::from(&ctx.kernel.regular_stat(id)?).demand(ctx.credentials(), wanted(flags))?;
    }
    let pinned = ctx.kernel.real_descriptor(id)?;
    let fd = if writes && !was_writable {
        let link = format!("/proc/self/fd/{}", pinned.as_raw_fd());
        rustix::fs::open(link, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(errno)?
    } else {
        pinned.try_clone_to_owned().map_err(|e| crate::machine::io_errno(&e))?
    };
    if flags & O_TRUNC != 0 {
        // `install` tells of it, once it is open.
        rustix::fs::ftruncate(&fd, 0).map_err(errno)?;
        ctx.kernel.file_changed(number, Change::Cleared { from: 0, to: u64::MAX });
        ctx.kernel.vfs.identities.touch(number, ctx.now);
    }
    let serial = ctx.kernel.vfs.new_serial();
    Ok(FileKind::Regular(Box::new(RegularFile {
        serial,
        real,
        path,
        writes,
        in_run,
        number,
        offset: 0,
        pinned: Some(fd),
        unlinked,
    })))
}

fn access(flags: u32) -> (bool, bool) {
    let mode = flags & O_ACCMODE;
    (mode != O_WRONLY, mode != O_RDONLY)
}

/// Opens a FIFO: without O_NONBLOCK the call waits until the other end is open too, fifo(7).
fn open_fifo(ctx: &mut Ctx<'_>, path: Vec<u8>, node: RealNode, flags: u32) -> SysResult {
    let (reads, writes) = access(flags);
    let known = ctx.kernel.vfs.fifo(&node.stat);
    let has_readers = known.is_some_and(|pipe| ctx.kernel.pipes[pipe.0 as usize].has_readers());
    if writes && !reads && flags & O_NONBLOCK != 0 && !has_readers {
        return Err(Errno::ENXIO.into());
    }
    let pipe = match known {
        Some(pipe) => pipe,
        None => ctx.kernel.new_fifo(path, &node)?,
    };
    let end = PipeEnd { pipe, reads, writes };
    let file = ctx.kernel.files.insert(OpenFile::new(FileKind::Pipe(end), visible_status(flags)));
    ctx.kernel.attach_pipe_end(end, file);
    ctx.kernel.notify_pipe_partners(end);
    ctx.thread.call.progress = partners_of(ctx, end) << 32 | (u64::from(file.0) + 1);
    finish_fifo(ctx, flags)
}

/// How often the other end of a FIFO was opened so far, in 32 bits.
fn partners_of(ctx: &Ctx<'_>, end: PipeEnd) -> u64 {
    let pipe = &ctx.kernel.pipes[end.pipe.0 as usize];
    let opened = if end.reads { pipe.opened_writers } else { pipe.opened_readers };
    opened & u64::from(u32::MAX)
}

/// Waits for a FIFO's other end, which may be closed again already; `progress` holds the file that was opened, and how often the other
/// end had been by then.
fn finish_fifo(ctx: &mut Ctx<'_>, flags: u32) -> SysResult {
    let file = FileId(ctx.thread.call.progress as u32 - 1);
    let FileKind::Pipe(end) = ctx.kernel.files[file].kind else { return Err(Errno::EIO.into()) };
    let came = partners_of(ctx, end) != ctx.thread.call.progress >> 32;
    let pipe = &ctx.kernel.pipes[end.pipe.0 as usize];
    let partner = came
        || match (end.reads, end.writes) {
            (true, false) => pipe.has_writers() || flags & O_NONBLOCK != 0,
            (false, true) => pipe.has_readers(),
            _ => true,
        };
    let first = ctx.thread.wake == Wake::First;
    if partner {
        if !first {
            // What the call has held is given up at its end.
            ctx.kernel.files.acquire(file);
        }
        return Ok(ctx.install(file, flags & O_CLOEXEC != 0)?);
    }
    if let Err(errno) = ctx.reserve_fd() {
        ctx.kernel.release_file(file);
        return Err(errno.into());
    }
    ctx.watch(file, Events::READABLE | Events::WRITABLE);
    let outcome = ctx.block(Restart::Sys);
    match outcome {
        Outcome::Block if first => ctx.take_over(file, None),
        _ if first => ctx.kernel.release_file(file),
        _ => {}
    }
    Err(outcome)
}

impl Ctx<'_> {
    /// A path argument. EFAULT, ENAMETOOLONG.
    pub(crate) fn path_argument(&self, address: u64) -> Result<Vec<u8>, Outcome> {
        Ok(self.process.memory.read_cstr(address, PATH_MAX - 1)?.ok_or(Errno::ENAMETOOLONG)?)
    }
}

impl crate::kernel::Kernel {
    /// Finds and opens a program for `execve`. Without a caller relative paths start at the root. A link in the last place is followed, or is
    /// ELOOP. ENOENT, EACCES (no regular file, not executable), ETXTBSY, ...
    pub(crate) fn open_executable(
        &mut self,
        caller: Option<Caller<'_>>,
        path: &[u8],
        follow: bool,
    ) -> Result<Executable, Errno> {
        let (vfs, view) = self.eyes(caller);
        let place = caller.map(|caller| &view.shared.places[caller.thread.own_place.unwrap_or(caller.process.place)]);
        if place.is_some_and(|place| place.gone.is_some()) && !path.starts_with(b"/") {
            return Err(Errno::ENOENT);
        }
        let cwd = place.map_or(&b"/"[..], |place| &place.cwd);
        let target = vfs.walk(&view, cwd, path, follow)?;
        let node = target.node.ok_or(Errno::ENOENT)?;
        if !follow && (node.is_link() || matches!(node, Node::Synthetic(Synthetic::Descriptor { .. }))) {
            return Err(Errno::ELOOP);
        }
        if let (Node::Synthetic(Synthetic::Descriptor { pid, fd }), Some(caller)) = (&node, caller) {
            return self.open_executable_descriptor(caller, *pid, *fd);
        }
        let Permissions { mode, user, group } = vfs.permissions(&view, &target.path, &node);
        let Node::Real(real) = node else { return Err(Errno::EACCES) };
        let root = Credentials::default();
        let who = view.credentials.unwrap_or(&root);
        if real.kind() != S_IFREG {
            return Err(Errno::EACCES);
        }
        Permissions { mode, user, group }.demand(who, X_OK)?;
        let file = std::fs::File::open(as_path(&real.path)).map_err(|e| crate::machine::io_errno(&e))?;
        self.vfs.reads(&real);
        let opened = self.open_to_execute(&target.path, &real)?;
        Ok(Executable { file, path: target.path, owner: ProgramFile { mode, user, group }, opened })
    }

    /// As `open_executable`, for the file behind a descriptor (`/proc/PID/fd/N`, fexecve(3)) or what a process executes, which may have no name.
    fn open_executable_descriptor(&mut self, caller: Caller<'_>, pid: Pid, fd: u32) -> Result<Executable, Errno> {
        let own = pid == caller.process.pid;
        let process = if own { Some(caller.process) } else { self.processes.get(pid.0) };
        let id = process.and_then(|process| self.shared.file(process, fd)).ok_or(Errno::ENOENT)?;
        if let FileKind::Name(Place { gone: None, path, .. }) = &self.files[id].kind {
            let path = path.clone();
            return self.open_executable(Some(caller), &path, false);
        }
        let permissions = Permissions::from(&self.regular_stat(id).map_err(|_| Errno::EACCES)?);
        permissions.demand(&caller.thread.credentials, X_OK)?;
        let Permissions { mode, user, group } = permissions;
        let file = self.real_descriptor(id)?.try_clone_to_owned().map_err(|e| crate::machine::io_errno(&e))?;
        let opened = self.open_to_execute_again(id)?;
        let path = self.describe_file(id);
        Ok(Executable { file: file.into(), path, owner: ProgramFile { mode, user, group }, opened })
    }
}
