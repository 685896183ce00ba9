//! Names of Unix sockets: parsing, binding, finding (unix(7), "Address format").

use super::{Key, Kind, UnixId};
use crate::ctx::Ctx;
use crate::ids::FileId;
use crate::net::address::RawAddress;
use crate::outcome::SysResult;
use crate::vfs::walk::{Node, Target};
use linux_abi::Errno;
use linux_abi::fs::{AT_FDCWD, S_IFSOCK, W_OK};
use linux_abi::socket::AF_UNIX;

/// Bytes before the path.
const FAMILY: usize = 2;
/// `sizeof(struct sockaddr_un)`.
const MAX: usize = 110;

/// What an address names.
#[derive(PartialEq, Eq, Debug)]
enum Parsed<'a> {
    /// Only the family: `bind` chooses a name.
    Empty,
    Path(&'a [u8]),
    Abstract(&'a [u8]),
}

/// EINVAL for a wrong length or family.
fn parse(name: &[u8]) -> Result<Parsed<'_>, Errno> {
    let family = name.first_chunk::<2>().map(|family| i32::from(u16::from_ne_bytes(*family)));
    if family != Some(AF_UNIX) || name.len() > MAX {
        return Err(Errno::EINVAL);
    }
    match &name[FAMILY..] {
        [] => Ok(Parsed::Empty),
        [0, name @ ..] => Ok(Parsed::Abstract(name)),
        path => Ok(Parsed::Path(path.split(|&b| b == 0).next().unwrap_or(path))),
    }
}

/// An address as the kernel returns it; without a name only the family.
pub fn shown(name: &RawAddress) -> RawAddress {
    if name.is_empty() { RawAddress::from_slice(&(AF_UNIX as u16).to_ne_bytes()) } else { name.clone() }
}

fn address_of(path: &[u8], terminated: bool) -> RawAddress {
    let mut name = RawAddress::from_slice(&(AF_UNIX as u16).to_ne_bytes());
    name.extend_from_slice(path);
    if terminated {
        name.push(0);
    }
    name
}

/// bind(2). EINVAL when the socket has a name, EADDRINUSE when the name is taken.
pub fn bind(ctx: &mut Ctx<'_>, file: FileId, name: &[u8]) -> SysResult {
    let id = ctx.kernel.unix_id(file)?;
    let parsed = parse(name)?;
    let socket = ctx.kernel.unix_socket(id)?;
    let (kind, is_bound) = (socket.kind, !socket.name.is_empty());
    let (key, name) = match parsed {
        Parsed::Empty => {
            autobind(ctx, id)?;
            return Ok(0);
        }
        // The name of a file is looked at before the socket's own (`unix_bind_bsd`).
        Parsed::Path(path) => {
            let place = new_place(ctx, path)?;
            if is_bound {
                // Its file is made, and removed again.
                ctx.kernel.name_event(&place.path, linux_abi::fs::IN_CREATE);
                ctx.kernel.name_event(&place.path, linux_abi::fs::IN_DELETE);
                return Err(Errno::EINVAL.into());
            }
            let mode = ctx.kernel.unix_socket(id)?.permissions.mode & 0o7777;
            (bind_path(ctx, path, place, mode)?, address_of(path, true))
        }
        Parsed::Abstract(_) if is_bound => return Err(Errno::EINVAL.into()),
        Parsed::Abstract(name) => (Key::Abstract(kind, name.to_vec()), address_of(&[&[0], name].concat(), false)),
    };
    if ctx.kernel.unix.names.contains_key(&key) {
        return Err(Errno::EADDRINUSE.into());
    }
    take(ctx, id, key, name)?;
    Ok(0)
}

fn take(ctx: &mut Ctx<'_>, id: UnixId, key: Key, name: RawAddress) -> Result<(), Errno> {
    let socket = ctx.kernel.unix_socket_mut(id)?;
    socket.key = Some(key.clone());
    socket.name = name;
    ctx.kernel.unix.names.insert(key, id);
    Ok(())
}

/// Gives a socket without a name a free abstract one of five hexadecimal digits.
pub(super) fn autobind(ctx: &mut Ctx<'_>, id: UnixId) -> Result<(), Errno> {
    let socket = ctx.kernel.unix_socket(id)?;
    if !socket.name.is_empty() {
        return Ok(());
    }
    let kind = socket.kind;
    let unix = &mut ctx.kernel.unix;
    loop {
        unix.autobound = (unix.autobound + 1) & 0xf_ffff;
        let digits = format!("{:05x}", unix.autobound).into_bytes();
        let key = Key::Abstract(kind, digits.clone());
        if !unix.names.contains_key(&key) {
            return take(ctx, id, key, address_of(&[&[0], &digits[..]].concat(), false));
        }
    }
}

/// A socket whose receiver wants to know who sends (SO_PASSCRED, SO_PASSPIDFD) gets a name when it connects or sends
/// (`unix_may_passcred`).
pub(super) fn autobind_if_known(ctx: &mut Ctx<'_>, id: UnixId) -> Result<(), Errno> {
    if ctx.kernel.unix_socket(id)?.wants_senders() { autobind(ctx, id) } else { Ok(()) }
}

/// Where a socket's file can be created. EADDRINUSE, ENOENT, EACCES.
fn new_place(ctx: &mut Ctx<'_>, path: &[u8]) -> Result<Target, Errno> {
    let target = ctx.walk(AT_FDCWD as u64, path, false)?;
    if target.node.is_some() {
        return Err(Errno::EADDRINUSE);
    }
    if target.slash {
        return Err(Errno::ENOENT);
    }
    ctx.demand_new(&target.path)?;
    Ok(target)
}

/// Creates the socket's file, with the mode that the socket has had so far (`unix_bind_bsd`).
fn bind_path(ctx: &mut Ctx<'_>, path: &[u8], place: Target, mode: u32) -> Result<Key, Errno> {
    ctx.create_with(S_IFSOCK | mode, |vfs, new| vfs.mknod(&place.path, new))?;
    ctx.kernel.name_event(&place.path, linux_abi::fs::IN_CREATE);
    match ctx.walk(AT_FDCWD as u64, path, false)?.node {
        Some(Node::Real(node)) => Ok(Key::Inode(ctx.kernel.vfs.identities.of_node(&node))),
        _ => Err(Errno::EIO),
    }
}

/// Whether an address can name a socket at all. EINVAL.
pub(super) fn check(name: &[u8]) -> Result<(), Errno> {
    match parse(name)? {
        Parsed::Empty => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}

/// The socket that an address names, for one of this type. ECONNREFUSED when nobody is bound to it, ENOENT when there is no such file,
/// EACCES without write permission for it, EPROTOTYPE when the file belongs to a socket of another type.
pub(super) fn find(ctx: &mut Ctx<'_>, kind: Kind, name: &[u8]) -> Result<UnixId, Errno> {
    let key = match parse(name)? {
        Parsed::Empty => return Err(Errno::EINVAL),
        Parsed::Abstract(name) => Key::Abstract(kind, name.to_vec()),
        Parsed::Path(path) => {
            let target = ctx.walk(AT_FDCWD as u64, path, true)?;
            let node = target.node.ok_or(Errno::ENOENT)?;
            ctx.demand(&target.path, &node, W_OK)?;
            match node {
                Node::Real(node) if node.kind() == S_IFSOCK => Key::Inode(ctx.kernel.vfs.identities.of_node(&node)),
                _ => return Err(Errno::ECONNREFUSED),
            }
        }
    };
    let found = ctx.kernel.unix.names.get(&key).copied().ok_or(Errno::ECONNREFUSED)?;
    if ctx.kernel.unix_socket(found)?.kind == kind { Ok(found) } else { Err(Errno::EPROTOTYPE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_apart() {
        let with = |path: &[u8]| address_of(path, false);
        assert_eq!(parse(&with(b"")), Ok(Parsed::Empty));
        assert_eq!(parse(&with(b"/tmp/x\0junk")), Ok(Parsed::Path(b"/tmp/x")));
        assert_eq!(parse(&with(b"\0a\0b")), Ok(Parsed::Abstract(b"a\0b")));
        assert_eq!(parse(&with(&[b'x'; 108])), Ok(Parsed::Path(&[b'x'; 108])));
        assert_eq!(parse(&with(&[b'x'; 109])), Err(Errno::EINVAL));
        assert_eq!(parse(&[1]), Err(Errno::EINVAL));
        assert_eq!(parse(&[2, 0, b'x']), Err(Errno::EINVAL));
    }
}
