//! The namespaces of a host, namespaces(7): one of each kind, which all of its processes are in. `/proc/PID/ns` names them; open files of
//! them can be asked about and entered, which changes nothing. New ones cannot be made.

use crate::ctx::Ctx;
use crate::files::{FileKind, OpenFile};
use crate::ids::{FileId, Pid};
use crate::outcome::SysResult;
use linux_abi::Errno;
use linux_abi::capability::CAP_SYS_ADMIN;
use linux_abi::fs::O_LARGEFILE;
use linux_abi::ioctl::{NS_GET_NSTYPE, NS_GET_OWNER_UID, NS_GET_PARENT, NS_GET_USERNS};
use linux_abi::process::*;

/// One of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Namespace {
    kind: &'static str,
    /// That of Linux's first namespace of the kind.
    pub number: u64,
    /// What makes a new one, clone(2).
    flag: u64,
}

const fn namespace(kind: &'static str, number: u64, flag: u64) -> Namespace {
    Namespace { kind, number, flag }
}

const USER: Namespace = namespace("user", 4_026_531_837, CLONE_NEWUSER);
const PID: Namespace = namespace("pid", 4_026_531_836, CLONE_NEWPID);
const TIME: Namespace = namespace("time", 4_026_531_834, CLONE_NEWTIME);

/// The links in `/proc/PID/ns`.
pub const LINKS: [(&str, Namespace); 10] = [
    ("cgroup", namespace("cgroup", 4_026_531_835, CLONE_NEWCGROUP)),
    ("ipc", namespace("ipc", 4_026_531_839, CLONE_NEWIPC)),
    ("mnt", namespace("mnt", 4_026_531_841, CLONE_NEWNS)),
    ("net", namespace("net", 4_026_531_840, CLONE_NEWNET)),
    ("pid", PID),
    ("pid_for_children", PID),
    ("time", TIME),
    ("time_for_children", TIME),
    ("user", USER),
    ("uts", namespace("uts", 4_026_531_838, CLONE_NEWUTS)),
];

impl Namespace {
    /// What its link shows.
    pub fn text(self) -> Vec<u8> {
        format!("{}:[{}]", self.kind, self.number).into_bytes()
    }

    /// Whether it has a parent, which the first one does not show.
    fn is_hierarchical(self) -> bool {
        self == USER || self == PID
    }
}

/// Opens one.
pub fn open(ctx: &mut Ctx<'_>, namespace: Namespace, cloexec: bool) -> Result<u64, Errno> {
    let file = ctx.kernel.files.insert(OpenFile::new(FileKind::Namespace(namespace), O_LARGEFILE));
    ctx.install(file, cloexec)
}

/// ioctl_ns(2).
pub fn ioctl(ctx: &mut Ctx<'_>, namespace: Namespace, request: u32, address: u64) -> SysResult {
    match request {
        NS_GET_NSTYPE => Ok(namespace.flag),
        NS_GET_USERNS if namespace == USER => Err(Errno::EPERM.into()),
        NS_GET_USERNS => Ok(open(ctx, USER, true)?),
        NS_GET_PARENT => Err(if namespace.is_hierarchical() { Errno::EPERM } else { Errno::EINVAL }.into()),
        NS_GET_OWNER_UID if namespace != USER => Err(Errno::EINVAL.into()),
        NS_GET_OWNER_UID => {
            ctx.process.memory.write_value(address, &0u32)?;
            Ok(0)
        }
        _ => Err(Errno::ENOTTY.into()),
    }
}

/// setns(2): every process is in all of them already. By a descriptor of a process several are entered at once.
pub fn enter(ctx: &mut Ctx<'_>, file: FileId, kinds: u64) -> SysResult {
    let all = LINKS.iter().fold(0, |all, (_, namespace)| all | namespace.flag);
    let kinds = kinds & 0xffff_ffff;
    let entered = match ctx.kernel.files[file].kind {
        FileKind::Namespace(namespace) if kinds == 0 || kinds == namespace.flag => namespace.flag,
        FileKind::Process(pid) if kinds != 0 && kinds & !all == 0 => {
            let lives = |pid: Pid| ctx.kernel.processes.get(pid.0).is_some_and(|process| process.zombie.is_none());
            if pid != ctx.process.pid && !lives(pid) {
                return Err(Errno::ESRCH.into());
            }
            kinds
        }
        _ => return Err(Errno::EINVAL.into()),
    };
    if entered & CLONE_NEWUSER != 0 {
        // Nobody enters the user namespace that he is in.
        return Err(Errno::EINVAL.into());
    }
    ctx.credentials().demand(CAP_SYS_ADMIN)?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_name_kind_and_number() {
        assert_eq!(USER.text(), b"user:[4026531837]");
        assert!(LINKS.is_sorted_by_key(|(name, _)| *name));
    }
}
