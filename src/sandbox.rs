//! The box around the whole process: it gives up the real network, and it may write only inside the run's directory.
//!
//! The binary calls [`leave_network`] and [`confine_writes`], in this order, before it starts a thread and before the first
//! guest runs; threads started later are born inside. Neither can be undone by the process itself. Descriptors that are open
//! already (standard output, for one) keep working.
//!
//! This is the second line: guests' system calls are answered by the simulated kernel, which neither opens real sockets nor
//! writes outside the run's directory. The box holds when that fails.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use std::fmt;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;

/// How the network was given up; in the order in which the ways are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// An empty network namespace (network_namespaces(7)); needs CAP_SYS_ADMIN.
    Namespace,
    /// The same inside a new user namespace (user_namespaces(7)), for users without privileges.
    UserNamespace,
    /// A filter (seccomp(2)) that refuses all sockets but those of the local family.
    SocketFilter,
}

impl Network {
    const ALL: [Network; 3] = [Network::Namespace, Network::UserNamespace, Network::SocketFilter];

    /// As `check --sandbox=WAY` names it.
    pub fn name(self) -> &'static str {
        match self {
            Network::Namespace => "namespace",
            Network::UserNamespace => "user-namespace",
            Network::SocketFilter => "filter",
        }
    }

    pub fn from_name(name: &str) -> Option<Network> {
        Network::ALL.into_iter().find(|way| way.name() == name)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Network::Namespace => "given up: the process is in an empty network namespace",
            Network::UserNamespace => {
                "given up: the process is in an empty network namespace of its own user namespace"
            }
            Network::SocketFilter => "given up: a seccomp filter refuses every socket that is not of the local family",
        })
    }
}

/// Whether writing is confined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Files {
    /// By Landlock (landlock(7)), of this ABI version.
    Confined { abi: i32 },
    /// Landlock is missing; the reason, with the remedy.
    Open { reason: String },
}

impl fmt::Display for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Files::Confined { abi } => write!(f, "writable only in the run's directory (Landlock, ABI {abi})"),
            Files::Open { reason } => {
                write!(f, "outside the run's directory only the simulated kernel keeps guests from writing: {reason}")
            }
        }
    }
}

/// Whether the run's directory outlives the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    Kept,
    /// The process itself removes it: it may remove empty directories beside it too.
    Temporary,
}

/// Why there is no box. A run must not start then.
#[derive(Debug)]
pub enum SandboxError {
    /// None of the ways worked; each with its reason.
    Network(Vec<(Network, String)>),
    /// The network was given up, and is still there.
    Leak,
    Files(String),
}

impl fmt::Display for SandboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SandboxError::Network(tries) => {
                f.write_str("cannot give up the real network, so nothing was run:")?;
                for (way, reason) in tries {
                    write!(f, "\n  {}: {reason}", way.name())?;
                }
                f.write_str(
                    "\nOne of these is needed: CAP_SYS_ADMIN (run as root, or 'docker run --cap-add SYS_ADMIN'), unprivileged user \
                     namespaces ('sysctl kernel.unprivileged_userns_clone=1', and on Ubuntu \
                     'kernel.apparmor_restrict_unprivileged_userns=0'), or a kernel with CONFIG_SECCOMP_FILTER",
                )
            }
            SandboxError::Leak => f.write_str(
                "the real network can still be reached after it was given up, so nothing was run; please report this with the \
                 output of 'gnomon check --sandbox'",
            ),
            SandboxError::Files(reason) => write!(f, "cannot confine writing to the run's directory: {reason}"),
        }
    }
}

impl std::error::Error for SandboxError {}

/// Gives up the real network for the calling thread and all that it starts: call it while there is no other. `only` allows
/// one way instead of the first that works.
///
/// # Errors
/// When no way works; the text says what is needed.
pub fn leave_network(only: Option<Network>) -> Result<Network, SandboxError> {
    let mut tries = Vec::new();
    for way in Network::ALL.into_iter().filter(|way| only.is_none_or(|only| only == *way)) {
        let tried = match way {
            Network::Namespace => unshare(CloneFlags::CLONE_NEWNET).map_err(|errno| namespace_reason(way, errno)),
            Network::UserNamespace => enter_user_namespace(),
            Network::SocketFilter => refuse_sockets(),
        };
        match tried {
            Ok(()) if network_is_reachable() => return Err(SandboxError::Leak),
            Ok(()) => return Ok(way),
            Err(reason) => tries.push((way, reason)),
        }
    }
    Err(SandboxError::Network(tries))
}

fn namespace_reason(way: Network, errno: Errno) -> String {
    match (way, errno) {
        (Network::Namespace, Errno::EPERM) => "needs CAP_SYS_ADMIN".into(),
        (_, Errno::EPERM | Errno::ENOSPC) => "unprivileged user namespaces are switched off".into(),
        (Network::UserNamespace, Errno::EINVAL) => {
            "the process already has several threads, or no user namespaces".into()
        }
        (_, errno) => format!("unshare: {}", errno.desc()),
    }
}

/// The process keeps its user and group: they are mapped to themselves.
fn enter_user_namespace() -> Result<(), String> {
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)
        .map_err(|errno| namespace_reason(Network::UserNamespace, errno))?;
    // Without the maps the process is shown as nobody, and works all the same.
    let _ = fs::write("/proc/self/setgroups", "deny");
    let _ = fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"));
    let _ = fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"));
    Ok(())
}

/// Numbers from `asm/unistd_64.h`; calls of the x32 ABI have this bit set.
const SYS_SOCKET: i64 = 41;
const SYS_IO_URING_SETUP: i64 = 425;
const X32_BIT: i64 = 0x4000_0000;
const AF_UNIX: u64 = 1;

/// socket(2) with another family than the local one answers EACCES, and so does io_uring_setup(2), since a ring can make
/// sockets too. Calls of other architectures kill the process, as the filter compiler has it.
fn refuse_sockets() -> Result<(), String> {
    let build = || -> Result<BpfProgram, seccompiler::BackendError> {
        let not_local = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, AF_UNIX)?;
        let rule = SeccompRule::new(vec![not_local])?;
        let rules = [
            (SYS_SOCKET, vec![rule]),
            (SYS_IO_URING_SETUP, Vec::new()),
            (X32_BIT | SYS_SOCKET, Vec::new()),
            (X32_BIT | SYS_IO_URING_SETUP, Vec::new()),
        ];
        let refused = SeccompAction::Errno(Errno::EACCES as u32);
        SeccompFilter::new(rules.into(), SeccompAction::Allow, refused, TargetArch::x86_64)?.try_into()
    };
    let filter = build().map_err(|error| error.to_string())?;
    seccompiler::apply_filter(&filter).map_err(|error| error.to_string())
}

/// Whether there is a route to the world. Connecting a datagram socket looks for one and sends nothing; the address is
/// reserved for documentation (RFC 5737).
pub fn network_is_reachable() -> bool {
    let world = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 9));
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| socket.connect(world)).is_ok()
}

/// The newest Landlock that this was written for. Older kernels enforce what they know of it.
const LANDLOCK: ABI = ABI::V6;

/// Confines writing to `directory` (and `/dev/null`) for the calling thread and all that it starts; reading and executing stay
/// possible everywhere. Also keeps the process from signalling others and from their abstract sockets, where the kernel can.
///
/// # Errors
/// When the kernel has Landlock and refuses it. A kernel without it is no error but [`Files::Open`].
pub fn confine_writes(directory: &Path, lifetime: Lifetime) -> Result<Files, SandboxError> {
    let status = restrict(directory, lifetime).map_err(|error| SandboxError::Files(error.to_string()))?;
    let open = |reason: &str| Files::Open { reason: reason.into() };
    Ok(match status.landlock {
        _ if status.ruleset == RulesetStatus::NotEnforced => open("Landlock was not enforced"),
        LandlockStatus::Available { effective_abi, kernel_abi } => {
            Files::Confined { abi: kernel_abi.unwrap_or(effective_abi as i32) }
        }
        LandlockStatus::NotEnabled => open("the kernel has Landlock switched off; boot it with lsm=landlock,..."),
        _ => open("the kernel has no Landlock; use Linux 5.13 or later with CONFIG_SECURITY_LANDLOCK"),
    })
}

fn restrict(directory: &Path, lifetime: Lifetime) -> Result<landlock::RestrictionStatus, Box<dyn std::error::Error>> {
    let writing = AccessFs::from_write(LANDLOCK);
    let mut rules = vec![
        PathBeneath::new(PathFd::new(directory)?, writing),
        PathBeneath::new(PathFd::new("/dev/null")?, writing & AccessFs::from_file(LANDLOCK)),
    ];
    if let (Lifetime::Temporary, Some(parent)) = (lifetime, directory.parent()) {
        rules.push(PathBeneath::new(PathFd::new(parent)?, BitFlags::from(AccessFs::RemoveDir)));
    }
    let rules = rules.into_iter().map(Ok::<_, RulesetError>);
    let ruleset = Ruleset::default()
        .handle_access(writing)?
        .handle_access(AccessNet::from_all(LANDLOCK))?
        .scope(Scope::from_all(LANDLOCK))?
        .create()?
        .add_rules(rules)?;
    Ok(ruleset.restrict_self()?)
}

/// Whether a file can be made in `directory`: a probe for reports.
pub fn is_writable(directory: &Path) -> bool {
    let probe = directory.join(format!(".gnomon-probe-{}", std::process::id()));
    match fs::OpenOptions::new().write(true).create_new(true).open(&probe) {
        Ok(_) => fs::remove_file(&probe).is_ok(),
        Err(error) => error.kind() == io::ErrorKind::AlreadyExists,
    }
}
