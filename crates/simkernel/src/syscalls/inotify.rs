//! inotify_init, inotify_add_watch, inotify_rm_watch. What is told to watches is in `files/inotify.rs`.

use crate::ctx::Ctx;
use crate::files::inotify::{IN_MASK_CREATE, INSTANCES_MAX, Inotify, check_mask};
use crate::files::{FileKind, OpenFile};
use crate::ids::Pid;
use crate::outcome::SysResult;
use crate::vfs::synthetic::Synthetic;
use crate::vfs::walk::Node;
use linux_abi::Errno;
use linux_abi::fs::{AT_FDCWD, IN_DONT_FOLLOW, IN_MASK_ADD, IN_ONLYDIR, O_CLOEXEC, O_NONBLOCK, O_RDONLY, R_OK};

/// inotify_init(2).
pub(super) fn inotify_init(ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    inotify_init1(ctx, [0; 6])
}

/// inotify_init1(2).
pub(super) fn inotify_init1(ctx: &mut Ctx<'_>, [flags, ..]: [u64; 6]) -> SysResult {
    let flags = flags as u32;
    if flags & !(O_CLOEXEC | O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL.into());
    }
    if ctx.kernel.watchers.len() >= INSTANCES_MAX {
        return Err(Errno::EMFILE.into());
    }
    let kind = FileKind::Inotify(Box::<Inotify>::default());
    let file = ctx.kernel.files.insert(OpenFile::new(kind, O_RDONLY | flags & O_NONBLOCK));
    ctx.kernel.watchers.add(file);
    Ok(ctx.install(file, flags & O_CLOEXEC != 0)?)
}

/// The instance behind a descriptor. EBADF, EINVAL.
fn instance<'a>(ctx: &'a mut Ctx<'_>, fd: u64) -> Result<&'a mut Inotify, Errno> {
    let file = ctx.opened(fd)?;
    match &mut ctx.kernel.files[file].kind {
        FileKind::Inotify(instance) => Ok(instance),
        FileKind::Name(_) => Err(Errno::EBADF),
        _ => Err(Errno::EINVAL),
    }
}

/// inotify_add_watch(2).
pub(super) fn inotify_add_watch(ctx: &mut Ctx<'_>, [fd, path, mask, ..]: [u64; 6]) -> SysResult {
    let mask = mask as u32;
    check_mask(mask)?;
    ctx.opened(fd)?;
    if mask & (IN_MASK_ADD | IN_MASK_CREATE) == IN_MASK_ADD | IN_MASK_CREATE {
        return Err(Errno::EINVAL.into());
    }
    instance(ctx, fd)?;
    let path = ctx.path_argument(path)?;
    let target = ctx.walk(AT_FDCWD as u64, &path, mask & IN_DONT_FOLLOW == 0)?;
    let node = target.node.ok_or(Errno::ENOENT)?;
    if mask & IN_ONLYDIR != 0 && !node.is_directory() {
        return Err(Errno::ENOTDIR.into());
    }
    ctx.demand(&target.path, &node, R_OK)?;
    let (number, watched) = match &node {
        Node::Real(node) => (ctx.kernel.vfs.identities.of_node(node), Some(target.path)),
        Node::Synthetic(Synthetic::Descriptor { pid, fd }) if let Some(of) = file_behind(ctx, *pid, *fd) => of,
        Node::Synthetic(_) => (crate::vfs::synthetic::number(&target.path), Some(target.path)),
    };
    let watched = watched.map(|path| ctx.kernel.vfs.machine_path(&path).into_owned());
    Ok(instance(ctx, fd)?.add(watched.as_deref(), number, mask)? as u64)
}

/// Number and path, if it has one still, of the regular file that a process has behind a descriptor: a link below `/proc` leads to it.
fn file_behind(ctx: &Ctx<'_>, pid: Pid, fd: u32) -> Option<(u64, Option<Vec<u8>>)> {
    let own = pid == ctx.process.pid;
    let process = if own { &*ctx.process } else { ctx.kernel.processes.get(pid.0)? };
    match &ctx.kernel.files[ctx.kernel.shared.file(process, fd)?].kind {
        FileKind::Regular(file) => Some((file.number, (!file.unlinked).then(|| file.path.clone()))),
        _ => None,
    }
}

/// inotify_rm_watch(2).
pub(super) fn inotify_rm_watch(ctx: &mut Ctx<'_>, [fd, wd, ..]: [u64; 6]) -> SysResult {
    instance(ctx, fd)?.remove(wd as i32)?;
    let file = ctx.opened(fd)?;
    ctx.kernel.notify(file, crate::wait::Events::READABLE);
    Ok(0)
}
