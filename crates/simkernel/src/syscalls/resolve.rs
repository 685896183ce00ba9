//! Walks with the restrictions of openat2(2): no symbolic links, not out of a directory, that directory as the root.

use super::paths::{is_special, start_of, without_slashes};
use crate::ctx::Ctx;
use crate::vfs::mounts::is_below;
use crate::vfs::synthetic::{Synthetic, is_magic_link};
use crate::vfs::walk::Node;
use linux_abi::Errno;
use linux_abi::fs::*;
use rustix::fs::CWD;
use std::collections::VecDeque;

const HERE: u64 = AT_FDCWD as u64;
/// Links followed before ELOOP.
const LINKS_MAX: usize = 40;
const KNOWN: u64 =
    RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH | RESOLVE_IN_ROOT | RESOLVE_CACHED;

/// Restrictions that exclude each other are found before the path is read (`build_open_flags`). EINVAL.
pub(super) fn check(resolve: u64) -> Result<(), Errno> {
    let both = RESOLVE_BENEATH | RESOLVE_IN_ROOT;
    if resolve & !KNOWN != 0 || resolve & both == both { Err(Errno::EINVAL) } else { Ok(()) }
}

/// The absolute path, without links, that a restricted walk leads to. EINVAL, ELOOP, EXDEV, EAGAIN, and the errors of walks.
pub(super) fn resolve(ctx: &mut Ctx<'_>, dirfd: u64, path: &[u8], flags: u32, resolve: u64) -> Result<Vec<u8>, Errno> {
    let has = |flag| resolve & flag != 0;
    if has(RESOLVE_CACHED) && flags & (O_TRUNC | O_CREAT | O_TMPFILE) != 0 {
        return Err(Errno::EAGAIN);
    }
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    let follow = flags & O_NOFOLLOW == 0 && flags & (O_CREAT | O_EXCL) != O_CREAT | O_EXCL;
    // The folder of an absolute path is looked at only where it is the root.
    let from_root = path.starts_with(b"/") && !has(RESOLVE_IN_ROOT);
    let start = if from_root { Vec::new() } else { start_of(ctx, dirfd)? };
    let start = if start == b"/" { Vec::new() } else { start };
    // What a descriptor leads to that is no folder leads nowhere.
    if !from_root && ctx.lookup(&start).is_ok_and(|node| !node.is_directory()) {
        return Err(Errno::ENOTDIR);
    }
    let names_folder = flags & O_CREAT != 0 && without_slashes(path).1 && !is_special(path);
    Walk { ctx, start, resolve, follow, names_folder, links: 0 }.run(path)
}

struct Walk<'a, 'b> {
    ctx: &'a mut Ctx<'b>,
    start: Vec<u8>,
    resolve: u64,
    /// A link in the last place is followed.
    follow: bool,
    /// What is to be created is called as only a folder can be: EISDIR, whatever is there (`open_last_lookups`).
    names_folder: bool,
    links: usize,
}

impl Walk<'_, '_> {
    fn has(&self, flag: u64) -> bool {
        self.resolve & flag != 0
    }

    /// Where an absolute path, or link, begins.
    fn root(&self) -> Result<Vec<u8>, Errno> {
        match () {
            () if self.has(RESOLVE_BENEATH) => Err(Errno::EXDEV),
            () if self.has(RESOLVE_IN_ROOT) => Ok(self.start.clone()),
            () => Ok(Vec::new()),
        }
    }

    fn run(mut self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        let mut at = if path.starts_with(b"/") { self.root()? } else { self.start.clone() };
        let mut rest = components(path);
        while let Some(name) = rest.pop_front() {
            match &name[..] {
                b"." => {}
                b".." if at == self.start && self.has(RESOLVE_BENEATH) => return Err(Errno::EXDEV),
                b".." if at == self.start && self.has(RESOLVE_IN_ROOT) => {}
                b".." => at.truncate(at.iter().rposition(|&byte| byte == b'/').unwrap_or(0)),
                _ if self.names_folder && rest.is_empty() => {
                    self.check_devices(&at)?;
                    return Err(Errno::EISDIR);
                }
                _ => {
                    let here = [&at[..], b"/", &name].concat();
                    match self.link_text(&here, rest.is_empty())? {
                        Some(text) => {
                            if text.starts_with(b"/") {
                                at = self.root()?;
                            }
                            let mut longer = components(&text);
                            longer.append(&mut rest);
                            rest = longer;
                        }
                        None => at = here,
                    }
                }
            }
        }
        self.check_devices(&at)?;
        if path.ends_with(b"/") && self.ctx.lookup(&at).is_ok_and(|node| !node.is_directory()) {
            return Err(Errno::ENOTDIR);
        }
        Ok(if at.is_empty() { b"/".to_vec() } else { at })
    }

    /// The text of a link that is to be followed; None for anything else.
    fn link_text(&mut self, path: &[u8], last: bool) -> Result<Option<Vec<u8>>, Errno> {
        let node = self.ctx.walk(HERE, path, false)?.node;
        let text = match node {
            Some(Node::Real(node)) if node.kind() == S_IFLNK => {
                let text = rustix::fs::readlinkat(CWD, &node.path[..], Vec::new()).map_err(crate::vfs::errno)?;
                text.into_bytes()
            }
            Some(Node::Synthetic(Synthetic::Link(_))) if is_magic_link(path) && self.has(RESOLVE_NO_MAGICLINKS) => {
                return if last && !self.follow { Ok(None) } else { Err(Errno::ELOOP) };
            }
            Some(Node::Synthetic(Synthetic::Link(text))) => text,
            Some(Node::Synthetic(Synthetic::Descriptor { .. } | Synthetic::Namespace(_))) if !last || self.follow => {
                let fenced = self.has(RESOLVE_BENEATH) || self.has(RESOLVE_IN_ROOT);
                let refused = self.has(RESOLVE_NO_MAGICLINKS) || self.has(RESOLVE_NO_SYMLINKS);
                return Err(if fenced && !refused { Errno::EXDEV } else { Errno::ELOOP });
            }
            Some(node) if !last && !node.is_directory() => return Err(Errno::ENOTDIR),
            None if !last => return Err(Errno::ENOENT),
            _ => return Ok(None),
        };
        if last && !self.follow {
            return Ok(None);
        }
        self.links += 1;
        if self.has(RESOLVE_NO_SYMLINKS) || self.links > LINKS_MAX {
            return Err(Errno::ELOOP);
        }
        Ok(Some(text))
    }

    /// RESOLVE_NO_XDEV: the path may not lead to another file system, of which `/proc`, `/sys` and `/dev` are some.
    fn check_devices(&self, path: &[u8]) -> Result<(), Errno> {
        const OTHERS: [&[u8]; 3] = [b"/proc", b"/sys", b"/dev"];
        let system = |path: &[u8]| OTHERS.iter().position(|other| is_below(path, other));
        if self.has(RESOLVE_NO_XDEV) && system(path) != system(&self.start) { Err(Errno::EXDEV) } else { Ok(()) }
    }
}

fn components(path: &[u8]) -> VecDeque<Vec<u8>> {
    path.split(|&byte| byte == b'/').filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect()
}
