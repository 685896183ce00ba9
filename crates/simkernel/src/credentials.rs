//! Who a thread acts as: users, groups and capabilities, credentials(7), capabilities(7).
//!
//! Pure rules: which change is allowed, and what follows from it. Each thread has credentials of its own, as on Linux; a process
//! keeps those of its main thread for everyone who asks about it. Who may do what with files says `vfs/permission.rs`.

use linux_abi::Errno;
use linux_abi::capability::*;
use linux_abi::fs::{S_ISGID, S_ISUID, S_IXGRP};
use std::sync::Arc;

/// Every capability that there is.
pub const ALL_CAPABILITIES: u64 = (1 << (CAP_LAST_CAP + 1)) - 1;
/// What follows the file system's user: capabilities(7), "Effect of user ID changes on capabilities".
const FILE_CAPABILITIES: u64 = 1 << CAP_CHOWN
    | 1 << CAP_DAC_OVERRIDE
    | 1 << CAP_DAC_READ_SEARCH
    | 1 << CAP_FOWNER
    | 1 << CAP_FSETID
    | 1 << CAP_LINUX_IMMUTABLE
    | 1 << CAP_MKNOD
    | 1 << CAP_MAC_OVERRIDE;
const ROOT: u32 = 0;
/// Locks of the secure bits stand above them.
const SECURE_BITS_ALL: u32 = 0xff;
const SECURE_LOCKS: u32 = 0xaa;

/// The four user or group ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ids {
    pub real: u32,
    pub effective: u32,
    pub saved: u32,
    /// Whose files are one's own.
    pub fs: u32,
}

impl Ids {
    pub const fn all(id: u32) -> Self {
        Ids { real: id, effective: id, saved: id, fs: id }
    }

    fn has(&self, id: u32) -> bool {
        id == self.real || id == self.effective || id == self.saved
    }

    /// setuid(2), setgid(2). EPERM.
    fn set(self, id: u32, privileged: bool) -> Result<Ids, Errno> {
        match privileged {
            true => Ok(Ids::all(id)),
            false if id == self.real || id == self.saved => Ok(Ids { effective: id, fs: id, ..self }),
            false => Err(Errno::EPERM),
        }
    }

    /// setreuid(2), setregid(2). EPERM.
    fn set_pair(self, real: Option<u32>, effective: Option<u32>, privileged: bool) -> Result<Ids, Errno> {
        let foreign_real = real.is_some_and(|id| id != self.real && id != self.effective);
        let foreign_effective = effective.is_some_and(|id| !self.has(id));
        if !privileged && (foreign_real || foreign_effective) {
            return Err(Errno::EPERM);
        }
        let mut ids = Ids { real: real.unwrap_or(self.real), effective: effective.unwrap_or(self.effective), ..self };
        if real.is_some() || effective.is_some_and(|id| id != self.real) {
            ids.saved = ids.effective;
        }
        ids.fs = ids.effective;
        Ok(ids)
    }

    /// setresuid(2), setresgid(2). EPERM.
    fn set_three(self, [real, effective, saved]: [Option<u32>; 3], privileged: bool) -> Result<Ids, Errno> {
        // What would change nothing leaves the id for files alone (`__sys_setresuid`).
        let differs = |new: Option<u32>, from: &[u32]| new.is_some_and(|new| from.iter().any(|old| *old != new));
        let changes = differs(real, &[self.real])
            || differs(effective, &[self.effective, self.fs])
            || differs(saved, &[self.saved]);
        if !changes {
            return Ok(self);
        }
        if !privileged && [real, effective, saved].into_iter().flatten().any(|id| !self.has(id)) {
            return Err(Errno::EPERM);
        }
        let effective = effective.unwrap_or(self.effective);
        let (real, saved) = (real.unwrap_or(self.real), saved.unwrap_or(self.saved));
        Ok(Ids { real, effective, saved, fs: effective })
    }

    fn includes_root(&self) -> bool {
        self.has(ROOT)
    }
}

/// The five sets of capabilities, by bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    pub effective: u64,
    pub permitted: u64,
    pub inheritable: u64,
    pub bounding: u64,
    pub ambient: u64,
}

impl Capabilities {
    const NONE: Capabilities =
        Capabilities { effective: 0, permitted: 0, inheritable: 0, bounding: ALL_CAPABILITIES, ambient: 0 };
    pub(crate) const ROOT: Capabilities =
        Capabilities { effective: ALL_CAPABILITIES, permitted: ALL_CAPABILITIES, ..Capabilities::NONE };
}

/// Which call changes ids, where calls differ in nothing else.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    One(u32),
    Pair([Option<u32>; 2]),
    Three([Option<u32>; 3]),
}

impl Change {
    fn apply(self, ids: Ids, privileged: bool) -> Result<Ids, Errno> {
        match self {
            Change::One(id) => ids.set(id, privileged),
            Change::Pair([real, effective]) => ids.set_pair(real, effective, privileged),
            Change::Three(three) => ids.set_three(three, privileged),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credentials {
    pub user: Ids,
    pub group: Ids,
    /// Supplementary groups, in rising order.
    pub groups: Arc<[u32]>,
    pub capabilities: Capabilities,
    pub securebits: u32,
}

impl Default for Credentials {
    /// Root's, without supplementary groups.
    fn default() -> Self {
        Credentials {
            user: Ids::default(),
            group: Ids::default(),
            groups: Arc::from([]),
            capabilities: Capabilities::ROOT,
            securebits: 0,
        }
    }
}

/// A program that is to be executed: what its file says of ids.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProgramFile {
    pub mode: u32,
    pub user: u32,
    pub group: u32,
}

impl Credentials {
    /// Those of a user after a login.
    pub fn of_user(user: u32, group: u32, groups: &[u32]) -> Self {
        let capabilities = if user == ROOT { Capabilities::ROOT } else { Capabilities::NONE };
        let mut sorted = groups.to_vec();
        sorted.sort_unstable();
        Credentials { user: Ids::all(user), group: Ids::all(group), groups: sorted.into(), capabilities, securebits: 0 }
    }

    #[inline]
    pub fn can(&self, capability: u32) -> bool {
        self.capabilities.effective & 1 << capability != 0
    }

    /// EPERM without a capability.
    #[inline]
    pub fn demand(&self, capability: u32) -> Result<(), Errno> {
        if self.can(capability) { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// Whether files of a group are files of one's group.
    pub fn is_member(&self, group: u32) -> bool {
        group == self.group.fs || self.groups.binary_search(&group).is_ok()
    }

    pub fn has_secure_bit(&self, bit: u32) -> bool {
        self.securebits & bit != 0
    }

    /// setuid(2), setreuid(2), setresuid(2).
    pub fn change_user(&self, change: Change) -> Result<Credentials, Errno> {
        let user = change.apply(self.user, self.can(CAP_SETUID))?;
        let mut new = Credentials { user, ..self.clone() };
        if !self.has_secure_bit(SECBIT_NO_SETUID_FIXUP) {
            new.follow_user(self);
        }
        Ok(new)
    }

    /// What becomes of capabilities when users change, capabilities(7).
    fn follow_user(&mut self, old: &Credentials) {
        let set = &mut self.capabilities;
        if old.user.includes_root() && !self.user.includes_root() {
            if old.securebits & SECBIT_KEEP_CAPS == 0 {
                set.permitted = 0;
                set.effective = 0;
            }
            set.ambient = 0;
        }
        match (old.user.effective == ROOT, self.user.effective == ROOT) {
            (true, false) => set.effective = 0,
            (false, true) => set.effective = set.permitted,
            _ => {}
        }
    }

    /// setgid(2), setregid(2), setresgid(2).
    pub fn change_group(&self, change: Change) -> Result<Credentials, Errno> {
        let group = change.apply(self.group, self.can(CAP_SETGID))?;
        Ok(Credentials { group, ..self.clone() })
    }

    /// setfsuid(2). None when it may not.
    pub fn change_file_user(&self, id: u32) -> Option<Credentials> {
        if !self.user.has(id) && id != self.user.fs && !self.can(CAP_SETUID) {
            return None;
        }
        let mut new = Credentials { user: Ids { fs: id, ..self.user }, ..self.clone() };
        let set = &mut new.capabilities;
        if !self.has_secure_bit(SECBIT_NO_SETUID_FIXUP) {
            match (self.user.fs == ROOT, id == ROOT) {
                (true, false) => set.effective &= !FILE_CAPABILITIES,
                (false, true) => set.effective |= set.permitted & FILE_CAPABILITIES,
                _ => {}
            }
        }
        Some(new)
    }

    /// setfsgid(2). None when it may not.
    pub fn change_file_group(&self, id: u32) -> Option<Credentials> {
        let allowed = self.group.has(id) || id == self.group.fs || self.can(CAP_SETGID);
        allowed.then(|| Credentials { group: Ids { fs: id, ..self.group }, ..self.clone() })
    }

    /// setgroups(2). EPERM.
    pub fn change_groups(&self, mut groups: Vec<u32>) -> Result<Credentials, Errno> {
        self.demand(CAP_SETGID)?;
        groups.sort_unstable();
        Ok(Credentials { groups: groups.into(), ..self.clone() })
    }

    /// capset(2). EPERM.
    pub fn change_capabilities(&self, effective: u64, permitted: u64, inheritable: u64) -> Result<Credentials, Errno> {
        let old = &self.capabilities;
        let within = |set: u64, limit: u64| set & !limit == 0;
        let inherits = self.can(CAP_SETPCAP) || within(inheritable, old.inheritable | old.permitted);
        if !inherits
            || !within(inheritable, old.inheritable | old.bounding)
            || !within(permitted, old.permitted)
            || !within(effective, permitted)
        {
            return Err(Errno::EPERM);
        }
        let ambient = old.ambient & permitted & inheritable;
        let capabilities = Capabilities { effective, permitted, inheritable, ambient, bounding: old.bounding };
        Ok(Credentials { capabilities, ..self.clone() })
    }

    /// prctl(PR_CAPBSET_DROP). EPERM, EINVAL.
    pub fn drop_bounding(&self, capability: u64) -> Result<Credentials, Errno> {
        self.demand(CAP_SETPCAP)?;
        let bit = capability_bit(capability)?;
        let bounding = self.capabilities.bounding & !bit;
        Ok(Credentials { capabilities: Capabilities { bounding, ..self.capabilities }, ..self.clone() })
    }

    /// prctl(PR_SET_SECUREBITS). EPERM.
    pub fn change_securebits(&self, bits: u64) -> Result<Credentials, Errno> {
        let new = bits as u32;
        let old = self.securebits;
        // Each lock holds the bit below it, and itself.
        let held = old & SECURE_LOCKS | (old & SECURE_LOCKS) >> 1;
        if bits & !u64::from(SECURE_BITS_ALL) != 0 || (old ^ new) & held != 0 || !self.can(CAP_SETPCAP) {
            return Err(Errno::EPERM);
        }
        Ok(Credentials { securebits: new, ..self.clone() })
    }

    /// prctl(PR_SET_KEEPCAPS). EPERM.
    pub fn keep_capabilities(&self, keep: bool) -> Result<Credentials, Errno> {
        if self.has_secure_bit(SECBIT_KEEP_CAPS_LOCKED) {
            return Err(Errno::EPERM);
        }
        let rest = self.securebits & !SECBIT_KEEP_CAPS;
        Ok(Credentials { securebits: rest | if keep { SECBIT_KEEP_CAPS } else { 0 }, ..self.clone() })
    }

    /// prctl(PR_CAP_AMBIENT) but for the question. EPERM, EINVAL.
    pub fn change_ambient(&self, command: u32, capability: u64) -> Result<Credentials, Errno> {
        let mut set = self.capabilities;
        match command {
            PR_CAP_AMBIENT_CLEAR_ALL if capability == 0 => set.ambient = 0,
            PR_CAP_AMBIENT_LOWER => set.ambient &= !capability_bit(capability)?,
            PR_CAP_AMBIENT_RAISE => {
                let bit = capability_bit(capability)?;
                if set.permitted & set.inheritable & bit == 0 || self.has_secure_bit(SECBIT_NO_CAP_AMBIENT_RAISE) {
                    return Err(Errno::EPERM);
                }
                set.ambient |= bit;
            }
            _ => return Err(Errno::EINVAL),
        }
        Ok(Credentials { capabilities: set, ..self.clone() })
    }

    /// What execve(2) makes of them, and whether the program is to distrust its environment (AT_SECURE).
    pub fn for_program(&self, file: ProgramFile, no_new_privileges: bool) -> (Credentials, bool) {
        let mut new = self.clone();
        if !no_new_privileges {
            if file.mode & S_ISUID != 0 {
                new.user.effective = file.user;
            }
            if file.mode & (S_ISGID | S_IXGRP) == S_ISGID | S_IXGRP {
                new.group.effective = file.group;
            }
        }
        let elevated = new.gain_by_program(self, no_new_privileges);
        new.user.saved = new.user.effective;
        new.user.fs = new.user.effective;
        new.group.saved = new.group.effective;
        new.group.fs = new.group.effective;
        new.securebits &= !SECBIT_KEEP_CAPS;
        (new, elevated)
    }

    /// Capabilities after execve(2), capabilities(7), "Transformation of capabilities during execve()"; no file has any itself.
    fn gain_by_program(&mut self, old: &Credentials, no_new_privileges: bool) -> bool {
        let before = old.capabilities;
        let user = self.user.effective;
        let is_root = !self.has_secure_bit(SECBIT_NOROOT);
        let whole = is_root && user == ROOT;
        // Linux 6.18 compares with the effective ids of before, 6.1 with the real ones (`cap_bprm_creds_from_file`).
        let changed = user != old.user.effective || !old.is_member(self.group.effective);
        let mut permitted = 0;
        if is_root && (user == ROOT || old.user.real == ROOT) {
            permitted = before.bounding | before.inheritable;
        }
        if no_new_privileges && (changed || permitted & !before.permitted != 0) {
            self.user.effective = self.user.real;
            self.group.effective = self.group.real;
            permitted &= before.permitted;
        }
        let set = &mut self.capabilities;
        if changed {
            set.ambient = 0;
        }
        set.permitted = permitted | set.ambient;
        set.effective = if whole { set.permitted } else { set.ambient };
        let grew = set.permitted & !set.ambient != 0;
        let acts_for_another = self.user.effective != old.user.real || self.group.effective != old.group.real;
        changed || acts_for_another || (old.user.real != ROOT && (whole || grew))
    }

    /// Whether a change leaves the process less trustworthy to those who could look into it before: it loses "dumpable" then.
    pub fn is_guarded_after(&self, old: &Credentials) -> bool {
        self.user.effective != old.user.effective
            || self.user.fs != old.user.fs
            || self.group.effective != old.group.effective
            || self.group.fs != old.group.fs
            || self.capabilities.permitted & !old.capabilities.permitted != 0
    }

    /// What access(2) asks about: the real ids instead of those of the file system.
    pub fn for_access(&self) -> Credentials {
        let mut new = self.clone();
        new.user.fs = self.user.real;
        new.group.fs = self.group.real;
        if !self.has_secure_bit(SECBIT_NO_SETUID_FIXUP) {
            new.capabilities.effective = if self.user.real == ROOT { self.capabilities.permitted } else { 0 };
        }
        new
    }

    /// Whether a signal may be sent to a process with these credentials, kill(2).
    pub fn may_signal(&self, target: &Credentials) -> bool {
        let reaches = |id: u32| id == target.user.real || id == target.user.saved;
        reaches(self.user.effective) || reaches(self.user.real) || self.can(CAP_KILL)
    }

    /// Whether a process may be looked into by way of its files, ptrace(2), "Ptrace access mode checking", PTRACE_MODE_FSCREDS.
    pub fn may_look_into(&self, target: &Credentials, dumpable: bool) -> bool {
        self.may_examine([self.user.fs, self.group.fs], target, dumpable)
    }

    /// The same by way of a call that names it: PTRACE_MODE_REALCREDS.
    pub fn may_attach_to(&self, target: &Credentials, dumpable: bool) -> bool {
        self.may_examine([self.user.real, self.group.real], target, dumpable)
    }

    fn may_examine(&self, [user, group]: [u32; 2], target: &Credentials, dumpable: bool) -> bool {
        let same = |ids: Ids, id: u32| id == ids.real && id == ids.effective && id == ids.saved;
        let own = same(target.user, user) && same(target.group, group);
        self.can(CAP_SYS_PTRACE) || (own && dumpable && self.covers(target))
    }

    /// Whether whoever acts as `target` could do nothing that these could not (`cap_issubset`).
    pub fn covers(&self, target: &Credentials) -> bool {
        target.capabilities.permitted & !self.capabilities.permitted == 0
    }
}

/// The bit of a capability. EINVAL when there is none of that number.
pub fn capability_bit(capability: u64) -> Result<u64, Errno> {
    if capability > CAP_LAST_CAP.into() { Err(Errno::EINVAL) } else { Ok(1 << capability) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(real: u32, effective: u32, saved: u32) -> Ids {
        Ids { real, effective, saved, fs: effective }
    }

    #[test]
    fn leaving_root_for_good_takes_all_capabilities() {
        let root = Credentials::default();
        let user = root.change_user(Change::One(5)).unwrap();
        assert_eq!(user.user, Ids::all(5));
        assert_eq!((user.capabilities.permitted, user.capabilities.effective), (0, 0));
        assert_eq!(user.change_user(Change::One(0)), Err(Errno::EPERM));
    }

    #[test]
    fn leaving_root_for_a_while_keeps_what_is_permitted() {
        let away = Credentials::default().change_user(Change::Pair([None, Some(5)])).unwrap();
        assert_eq!(away.user, ids(0, 5, 5));
        assert_eq!((away.can(CAP_CHOWN), away.capabilities.permitted), (false, ALL_CAPABILITIES));
        let back = away.change_user(Change::Pair([None, Some(0)])).unwrap();
        assert!(back.can(CAP_CHOWN));
    }

    #[test]
    fn the_saved_id_follows_the_real_one_of_a_pair() {
        assert_eq!(ids(1, 2, 3).set_pair(Some(2), Some(1), false), Ok(ids(2, 1, 1)));
        assert_eq!(ids(1, 2, 3).set_pair(None, Some(1), false), Ok(ids(1, 1, 3)));
        assert_eq!(ids(1, 2, 3).set_pair(Some(3), None, false), Err(Errno::EPERM));
        assert_eq!(ids(1, 2, 3).set_pair(None, Some(3), false), Ok(ids(1, 3, 3)));
    }

    #[test]
    fn a_set_user_id_program_gives_its_owner_to_those_who_take_new_privileges() {
        let user = Credentials::of_user(5, 5, &[]);
        let file = ProgramFile { mode: S_ISUID | 0o755, user: 0, group: 0 };
        let (new, secure) = user.for_program(file, false);
        assert_eq!((new.user, secure), (ids(5, 0, 0), true));
        assert!(new.can(CAP_SYS_ADMIN));
        let (same, secure) = user.for_program(file, true);
        assert_eq!((same.user, secure), (ids(5, 5, 5), false));
        assert!(!same.can(CAP_CHOWN));
    }

    #[test]
    fn who_takes_no_new_privileges_keeps_the_effective_user() {
        let other = Credentials { user: ids(0, 1000, 0), ..Credentials::default() };
        let (new, secure) = other.for_program(ProgramFile::default(), true);
        assert_eq!((new.user, secure), (ids(0, 1000, 1000), true));
    }

    #[test]
    fn ambient_capabilities_survive_a_plain_program() {
        let root = Credentials::default();
        let raised = root
            .change_capabilities(ALL_CAPABILITIES, ALL_CAPABILITIES, 1 << CAP_NET_BIND_SERVICE)
            .and_then(|new| new.keep_capabilities(true))
            .and_then(|new| new.change_user(Change::One(5)))
            .and_then(|new| new.change_ambient(PR_CAP_AMBIENT_RAISE, CAP_NET_BIND_SERVICE.into()))
            .unwrap();
        let (new, secure) = raised.for_program(ProgramFile::default(), false);
        assert_eq!((new.capabilities.effective, secure), (1 << CAP_NET_BIND_SERVICE, false));
    }

    #[test]
    fn locked_secure_bits_stay() {
        let locked = Credentials::default().change_securebits((SECBIT_NOROOT | SECBIT_NOROOT_LOCKED).into()).unwrap();
        assert_eq!(locked.change_securebits(SECBIT_NOROOT_LOCKED.into()), Err(Errno::EPERM));
        assert!(locked.change_securebits((SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_KEEP_CAPS).into()).is_ok());
    }

    #[test]
    fn signals_reach_ones_own_processes() {
        let (mine, other, root) =
            (Credentials::of_user(5, 5, &[]), Credentials::of_user(6, 6, &[]), Credentials::default());
        assert!(mine.may_signal(&mine) && root.may_signal(&other));
        assert!(!mine.may_signal(&other) && !mine.may_signal(&root));
    }
}
