//! Policies for the memory of a machine with several nodes (NUMA, set_mempolicy(2)). Hosts have one node: what is asked is kept and told, and
//! nothing follows from it.

use linux_abi::Errno;

/// Modes (linux/mempolicy.h).
const MPOL_DEFAULT: u32 = 0;
const MPOL_PREFERRED: u32 = 1;
const MPOL_BIND: u32 = 2;
const MPOL_INTERLEAVE: u32 = 3;
const MPOL_LOCAL: u32 = 4;
const MPOL_PREFERRED_MANY: u32 = 5;
const MPOL_WEIGHTED_INTERLEAVE: u32 = 6;
/// Flags beside them.
const MPOL_F_NUMA_BALANCING: u32 = 1 << 13;
const MPOL_F_RELATIVE_NODES: u32 = 1 << 14;
const MPOL_F_STATIC_NODES: u32 = 1 << 15;
const MPOL_MODE_FLAGS: u32 = MPOL_F_NUMA_BALANCING | MPOL_F_RELATIVE_NODES | MPOL_F_STATIC_NODES;
/// The nodes of a host.
pub(crate) const NODES: u64 = 1;

/// The policy of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryPolicy {
    /// A mode with its flags.
    pub(crate) mode: u32,
    pub(crate) nodes: u64,
}

impl MemoryPolicy {
    /// A mode and nodes as a program gives them (`mpol_new`, `sanitize_mpol_flags`). EINVAL.
    pub(crate) fn new(mode: u64, nodes: u64) -> Result<MemoryPolicy, Errno> {
        const BOTH: u32 = MPOL_F_STATIC_NODES | MPOL_F_RELATIVE_NODES;
        let mode = mode as u32;
        let (kind, flags) = (mode & !MPOL_MODE_FLAGS, mode & MPOL_MODE_FLAGS);
        let balances = flags & MPOL_F_NUMA_BALANCING != 0;
        let valid = match kind {
            _ if flags & BOTH == BOTH => false,
            _ if balances && !matches!(kind, MPOL_BIND | MPOL_PREFERRED_MANY) => false,
            MPOL_DEFAULT => nodes == 0,
            MPOL_LOCAL => nodes == 0 && flags & BOTH == 0,
            MPOL_PREFERRED if nodes == 0 => flags & BOTH == 0,
            MPOL_PREFERRED | MPOL_BIND | MPOL_INTERLEAVE | MPOL_PREFERRED_MANY | MPOL_WEIGHTED_INTERLEAVE => {
                nodes & NODES != 0
            }
            _ => false,
        };
        match kind {
            _ if !valid => Err(Errno::EINVAL),
            MPOL_DEFAULT => Ok(MemoryPolicy::default()),
            MPOL_PREFERRED if nodes == 0 => Ok(MemoryPolicy { mode: MPOL_LOCAL, nodes: 0 }),
            _ => Ok(MemoryPolicy { mode, nodes: nodes & NODES }),
        }
    }

    pub(crate) fn interleaves(self) -> bool {
        matches!(self.mode & !MPOL_MODE_FLAGS, MPOL_INTERLEAVE | MPOL_WEIGHTED_INTERLEAVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_judged_as_on_linux() {
        let new = |mode: u32, nodes| MemoryPolicy::new(mode.into(), nodes);
        assert_eq!(new(MPOL_BIND, 1), Ok(MemoryPolicy { mode: MPOL_BIND, nodes: 1 }));
        assert_eq!(new(MPOL_BIND, 3), Ok(MemoryPolicy { mode: MPOL_BIND, nodes: 1 }), "as far as there are nodes");
        assert_eq!(new(MPOL_PREFERRED, 0), Ok(MemoryPolicy { mode: MPOL_LOCAL, nodes: 0 }));
        for (mode, nodes) in [(MPOL_BIND, 0), (MPOL_BIND, 2), (MPOL_DEFAULT, 1), (MPOL_LOCAL, 1), (7, 1)] {
            assert_eq!(new(mode, nodes), Err(Errno::EINVAL), "{mode} {nodes}");
        }
        assert_eq!(new(MPOL_INTERLEAVE | MPOL_F_STATIC_NODES | MPOL_F_RELATIVE_NODES, 1), Err(Errno::EINVAL));
        assert_eq!(new(MPOL_INTERLEAVE | MPOL_F_NUMA_BALANCING, 1), Err(Errno::EINVAL));
    }
}
