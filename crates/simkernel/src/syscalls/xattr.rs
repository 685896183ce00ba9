//! Extended attributes, xattr(7). They are kept by the simulation, for files in writable areas; files of the machine have none, and get a
//! copy of their own when they are given one, where that is possible.

use super::paths::{behind, start_of};
use crate::ctx::Ctx;
use crate::files::FileKind;
use crate::outcome::{Outcome, SysResult};
use crate::vfs::synthetic::{self, Synthetic};
use crate::vfs::walk::Node;
use crate::vfs::{RealNode, errno};
use linux_abi::Errno;
use linux_abi::capability::{CAP_SETFCAP, CAP_SYS_ADMIN};
use linux_abi::fs::{AT_FDCWD, IN_ATTRIB, IN_ISDIR, R_OK, S_IFDIR, S_IFREG, S_ISVTX, W_OK};

/// The attribute that lends capabilities to who executes the file.
const CAPABILITIES: &[u8] = b"security.capability";

const HERE: u64 = AT_FDCWD as u64;
const NAME_MAX: usize = 255;
const VALUE_MAX: u64 = 65_536;
const CREATE: u32 = 1;
const REPLACE: u32 = 2;

/// What a call is about.
struct Subject {
    path: Vec<u8>,
    /// None for what has no attributes.
    holder: Option<Holder>,
}

/// What keeps attributes.
enum Holder {
    Real(RealNode),
    /// A device below `/dev`, by its inode number.
    Device(u64),
}

impl Holder {
    fn of(ctx: &mut Ctx<'_>, path: &[u8], node: Node) -> Option<Self> {
        match node {
            Node::Real(node) => Some(Holder::Real(node)),
            Node::Synthetic(device @ Synthetic::Device(_)) => {
                Some(Holder::Device(ctx.with_vfs(|_, view| synthetic::stat(view, path, &device)).st_ino))
            }
            Node::Synthetic(_) => None,
        }
    }

    fn number(&self, ctx: &mut Ctx<'_>) -> u64 {
        match self {
            Holder::Real(node) => ctx.kernel.vfs.identities.of_node(node),
            Holder::Device(number) => *number,
        }
    }
}

fn by_path(ctx: &mut Ctx<'_>, path: u64, follow: bool) -> Result<Subject, Outcome> {
    let path = ctx.path_argument(path)?;
    let (path, node) = behind(ctx, HERE, &path, follow)?;
    let holder = Holder::of(ctx, &path, node);
    Ok(Subject { path, holder })
}

fn by_descriptor(ctx: &mut Ctx<'_>, fd: u64) -> Result<Subject, Outcome> {
    let id = ctx.file(fd)?;
    match &ctx.kernel.files[id].kind {
        FileKind::Regular(file) => {
            let (path, real, writable) = (file.path.clone(), file.real.clone(), file.in_run);
            let stat = rustix::fs::fstat(ctx.kernel.real_descriptor(id)?).map_err(|e| Outcome::from(errno(e)))?;
            Ok(Subject { path, holder: Some(Holder::Real(RealNode { path: real, stat, writable })) })
        }
        FileKind::Directory(_) | FileKind::Device(_) => {
            let path = match &ctx.kernel.files[id].kind {
                FileKind::Device(device) => synthetic::device_path(*device),
                _ => start_of(ctx, fd)?,
            };
            let node = ctx.lookup(&path).ok();
            let holder = node.and_then(|node| Holder::of(ctx, &path, node));
            Ok(Subject { path, holder })
        }
        FileKind::Name(_) => Err(Errno::EBADF.into()),
        _ => Ok(Subject { path: Vec::new(), holder: None }),
    }
}

/// An attribute's name. ERANGE, EOPNOTSUPP.
fn name_argument(ctx: &Ctx<'_>, address: u64) -> Result<Vec<u8>, Outcome> {
    let name = ctx.process.memory.read_cstr(address, NAME_MAX)?.ok_or(Errno::ERANGE)?;
    if name.is_empty() { Err(Errno::ERANGE.into()) } else { Ok(name) }
}

/// Which names there are, and who may use them on what (`xattr_permission`, then `xattr_resolve_name`). EPERM, ENODATA, EACCES,
/// EOPNOTSUPP, EINVAL.
fn check_name(ctx: &mut Ctx<'_>, name: &[u8], path: &[u8], holder: &Holder, changes: bool) -> Result<(), Errno> {
    let hidden = if changes { Errno::EPERM } else { Errno::ENODATA };
    let class = [&b"user."[..], b"trusted.", b"security."].into_iter().find(|class| name.starts_with(class));
    match class {
        Some(b"trusted.") if !ctx.credentials().can(CAP_SYS_ADMIN) => return Err(hidden),
        // Who may not set capabilities of files learns that from their value (`demand_capabilities`).
        Some(b"security.") if changes && name != CAPABILITIES => ctx.credentials().demand(CAP_SYS_ADMIN)?,
        Some(b"user.") => {
            let Holder::Real(node) = holder else { return Err(hidden) };
            if !matches!(node.kind(), S_IFREG | S_IFDIR) {
                return Err(hidden);
            }
            let permissions = ctx.permissions(path, &Node::Real(node.clone()));
            let is_shared = node.kind() == S_IFDIR && permissions.mode & S_ISVTX != 0;
            if changes && is_shared && !permissions.is_owned_by(ctx.credentials()) {
                return Err(Errno::EPERM);
            }
            permissions.demand(ctx.credentials(), if changes { W_OK } else { R_OK })?;
        }
        None if !name.starts_with(b"system.") => {
            let node = match holder {
                Holder::Real(node) => Node::Real(node.clone()),
                Holder::Device(_) => ctx.lookup(path)?,
            };
            ctx.demand(path, &node, if changes { W_OK } else { R_OK })?;
        }
        _ => {}
    }
    let class = class.ok_or(Errno::EOPNOTSUPP)?;
    if class.len() == name.len() { Err(Errno::EINVAL) } else { Ok(()) }
}

/// What is on no disk has no attributes, and those of users only files and directories could.
fn without_attributes(name: &[u8], changes: bool) -> Errno {
    match name.starts_with(b"user.") {
        true if changes => Errno::EPERM,
        true => Errno::ENODATA,
        false => Errno::EOPNOTSUPP,
    }
}

/// What a call that sets an attribute is given: read before it comes to the file. EINVAL, ERANGE, E2BIG, EFAULT.
struct Given {
    name: Vec<u8>,
    content: Vec<u8>,
    flags: u32,
}

fn given(ctx: &Ctx<'_>, [name, value, bytes, flags]: [u64; 4]) -> Result<Given, Outcome> {
    let flags = flags as u32;
    if flags & !(CREATE | REPLACE) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let name = name_argument(ctx, name)?;
    if bytes > VALUE_MAX {
        return Err(Errno::E2BIG.into());
    }
    let mut content = vec![0; bytes as usize];
    ctx.process.memory.read(value, &mut content)?;
    Ok(Given { name, content, flags })
}

/// setxattr(2).
pub(super) fn setxattr(ctx: &mut Ctx<'_>, [path, name, value, bytes, flags, _]: [u64; 6]) -> SysResult {
    let given = given(ctx, [name, value, bytes, flags])?;
    let subject = by_path(ctx, path, true)?;
    set(ctx, subject, given)
}

/// lsetxattr(2).
pub(super) fn lsetxattr(ctx: &mut Ctx<'_>, [path, name, value, bytes, flags, _]: [u64; 6]) -> SysResult {
    let given = given(ctx, [name, value, bytes, flags])?;
    let subject = by_path(ctx, path, false)?;
    set(ctx, subject, given)
}

/// fsetxattr(2).
pub(super) fn fsetxattr(ctx: &mut Ctx<'_>, [fd, name, value, bytes, flags, _]: [u64; 6]) -> SysResult {
    let given = given(ctx, [name, value, bytes, flags])?;
    let subject = by_descriptor(ctx, fd)?;
    set(ctx, subject, given)
}

fn set(ctx: &mut Ctx<'_>, subject: Subject, Given { name, content, flags }: Given) -> SysResult {
    if name == CAPABILITIES {
        demand_capabilities(ctx, &content)?;
    }
    let holder = subject.holder.ok_or(without_attributes(&name, true))?;
    check_name(ctx, &name, &subject.path, &holder, true)?;
    let holder = writable(ctx, &subject.path, &holder)?;
    let number = holder.number(ctx);
    let attributes = ctx.kernel.vfs.xattrs.entry(number).or_default();
    match attributes.contains_key(&name) {
        true if flags & CREATE != 0 => return Err(Errno::EEXIST.into()),
        false if flags & REPLACE != 0 => return Err(Errno::ENODATA.into()),
        _ => {}
    }
    attributes.insert(name, content);
    changed(ctx, &subject.path, &holder, number);
    Ok(0)
}

/// Capabilities that a file is to lend must be well formed, and set by who may (`cap_convert_nscap`). EINVAL, EPERM.
fn demand_capabilities(ctx: &Ctx<'_>, content: &[u8]) -> Result<(), Errno> {
    const REVISION: u32 = 0xff00_0000;
    const SECOND: (u32, usize) = (0x0200_0000, 20);
    const THIRD: (u32, usize) = (0x0300_0000, 24);
    let magic = content.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes) & REVISION);
    let form = magic.map(|revision| (revision, content.len()));
    if !content.is_empty() && form != Some(SECOND) && form != Some(THIRD) {
        return Err(Errno::EINVAL);
    }
    ctx.credentials().demand(CAP_SETFCAP)
}

/// The file where it can be changed. EROFS.
fn writable(ctx: &mut Ctx<'_>, path: &[u8], holder: &Holder) -> Result<Holder, Errno> {
    match holder {
        Holder::Device(number) => Ok(Holder::Device(*number)),
        Holder::Real(node) if node.writable => Ok(Holder::Real(node.clone())),
        Holder::Real(node) => ctx.kernel.for_change(path, node).map(Holder::Real),
    }
}

fn changed(ctx: &mut Ctx<'_>, path: &[u8], holder: &Holder, number: u64) {
    let (mut kind, mut unlinked) = (0, false);
    if let Holder::Real(node) = holder {
        unlinked = node.stat.st_nlink == 0;
        ctx.kernel.vfs.identities.change(number, ctx.now);
        kind = if node.kind() == S_IFDIR { IN_ISDIR } else { 0 };
    }
    ctx.kernel.file_event(path, number, IN_ATTRIB | kind, unlinked);
}

/// getxattr(2).
pub(super) fn getxattr(ctx: &mut Ctx<'_>, [path, name, value, bytes, ..]: [u64; 6]) -> SysResult {
    let name = name_argument(ctx, name)?;
    let subject = by_path(ctx, path, true)?;
    get(ctx, &subject, name, value, bytes)
}

/// lgetxattr(2).
pub(super) fn lgetxattr(ctx: &mut Ctx<'_>, [path, name, value, bytes, ..]: [u64; 6]) -> SysResult {
    let name = name_argument(ctx, name)?;
    let subject = by_path(ctx, path, false)?;
    get(ctx, &subject, name, value, bytes)
}

/// fgetxattr(2).
pub(super) fn fgetxattr(ctx: &mut Ctx<'_>, [fd, name, value, bytes, ..]: [u64; 6]) -> SysResult {
    let name = name_argument(ctx, name)?;
    let subject = by_descriptor(ctx, fd)?;
    get(ctx, &subject, name, value, bytes)
}

fn get(ctx: &mut Ctx<'_>, subject: &Subject, name: Vec<u8>, value: u64, bytes: u64) -> SysResult {
    if name.starts_with(b"system.posix_acl_") {
        return Err(Errno::ENODATA.into());
    }
    let holder = subject.holder.as_ref().ok_or(without_attributes(&name, false))?;
    check_name(ctx, &name, &subject.path, holder, false)?;
    let number = holder.number(ctx);
    let content = ctx.kernel.vfs.xattrs.get(&number).and_then(|all| all.get(&name)).ok_or(Errno::ENODATA)?;
    answer(ctx, content, value, bytes)
}

/// The length of an answer, which is stored if there is room. ERANGE.
fn answer(ctx: &Ctx<'_>, content: &[u8], address: u64, bytes: u64) -> SysResult {
    if bytes > 0 {
        if bytes < content.len() as u64 {
            return Err(Errno::ERANGE.into());
        }
        ctx.process.memory.write(address, content)?;
    }
    Ok(content.len() as u64)
}

/// listxattr(2).
pub(super) fn listxattr(ctx: &mut Ctx<'_>, [path, list, bytes, ..]: [u64; 6]) -> SysResult {
    let subject = by_path(ctx, path, true)?;
    show(ctx, &subject, list, bytes)
}

/// llistxattr(2).
pub(super) fn llistxattr(ctx: &mut Ctx<'_>, [path, list, bytes, ..]: [u64; 6]) -> SysResult {
    let subject = by_path(ctx, path, false)?;
    show(ctx, &subject, list, bytes)
}

/// flistxattr(2).
pub(super) fn flistxattr(ctx: &mut Ctx<'_>, [fd, list, bytes, ..]: [u64; 6]) -> SysResult {
    let subject = by_descriptor(ctx, fd)?;
    show(ctx, &subject, list, bytes)
}

fn show(ctx: &mut Ctx<'_>, subject: &Subject, list: u64, bytes: u64) -> SysResult {
    let Some(holder) = &subject.holder else { return Ok(0) };
    let number = holder.number(ctx);
    let names = ctx.kernel.vfs.xattrs.get(&number).into_iter().flat_map(|all| all.keys());
    let text: Vec<u8> = names.flat_map(|name| name.iter().copied().chain([0])).collect();
    answer(ctx, &text, list, bytes)
}

/// removexattr(2).
pub(super) fn removexattr(ctx: &mut Ctx<'_>, [path, name, ..]: [u64; 6]) -> SysResult {
    let name = name_argument(ctx, name)?;
    let subject = by_path(ctx, path, true)?;
    remove(ctx, &subject, name)
}

/// lremovexattr(2).
pub(super) fn lremovexattr(ctx: &mut Ctx<'_>, [path, name, ..]: [u64; 6]) -> SysResult {
    let name = name_argument(ctx, name)?;
    let subject = by_path(ctx, path, false)?;
    remove(ctx, &subject, name)
}

/// fremovexattr(2).
pub(super) fn fremovexattr(ctx: &mut Ctx<'_>, [fd, name, ..]: [u64; 6]) -> SysResult {
    let name = name_argument(ctx, name)?;
    let subject = by_descriptor(ctx, fd)?;
    remove(ctx, &subject, name)
}

fn remove(ctx: &mut Ctx<'_>, subject: &Subject, name: Vec<u8>) -> SysResult {
    let holder = subject.holder.as_ref().ok_or(without_attributes(&name, true))?;
    check_name(ctx, &name, &subject.path, holder, true)?;
    if name == CAPABILITIES {
        ctx.credentials().demand(CAP_SETFCAP)?;
    }
    if let Holder::Real(node) = holder
        && !ctx.kernel.vfs.writable(&subject.path)
        && !node.writable
    {
        return Err(Errno::EROFS.into());
    }
    let number = holder.number(ctx);
    let removed = ctx.kernel.vfs.xattrs.get_mut(&number).and_then(|all| all.remove(&name));
    removed.ok_or(Errno::ENODATA)?;
    changed(ctx, &subject.path, holder, number);
    Ok(0)
}
