//! Who may do what with a file: mode bits against a thread's ids and capabilities, path_resolution(7).

use crate::credentials::Credentials;
use linux_abi::Errno;
use linux_abi::capability::*;
use linux_abi::fs::{R_OK, S_IFDIR, S_IFMT, S_IFREG, S_ISGID, S_ISUID, S_ISVTX, S_IXGRP, Stat, X_OK};

const ANY_EXECUTE: u32 = 0o111;

/// What decides about a file: its type with its permission bits, and its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Permissions {
    pub mode: u32,
    pub user: u32,
    pub group: u32,
}

impl From<&Stat> for Permissions {
    fn from(stat: &Stat) -> Self {
        Permissions { mode: stat.st_mode, user: stat.st_uid, group: stat.st_gid }
    }
}

impl Permissions {
    /// Of a pipe or socket without a name, which belongs to who makes it.
    pub fn nameless(mode: u32, who: &Credentials) -> Self {
        Permissions { mode, user: who.user.fs, group: who.group.fs }
    }

    fn is_directory(&self) -> bool {
        self.mode & S_IFMT == S_IFDIR
    }

    /// Demands some of `R_OK`, `W_OK`, `X_OK`. EACCES.
    pub fn demand(&self, who: &Credentials, wanted: u32) -> Result<(), Errno> {
        let granted = if who.user.fs == self.user {
            self.mode >> 6
        } else if who.is_member(self.group) {
            self.mode >> 3
        } else {
            self.mode
        };
        if granted & wanted == wanted || self.is_overridden(who, wanted) { Ok(()) } else { Err(Errno::EACCES) }
    }

    /// CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, capabilities(7).
    fn is_overridden(&self, who: &Credentials, wanted: u32) -> bool {
        let executable = self.is_directory() || self.mode & ANY_EXECUTE != 0;
        if who.can(CAP_DAC_OVERRIDE) && (wanted & X_OK == 0 || executable) {
            return true;
        }
        let only = if self.is_directory() { R_OK | X_OK } else { R_OK };
        who.can(CAP_DAC_READ_SEARCH) && wanted & !only == 0
    }

    /// Whether it is one's own, or one may act as if it were.
    pub fn is_owned_by(&self, who: &Credentials) -> bool {
        who.user.fs == self.user || who.can(CAP_FOWNER)
    }

    /// Removing or renaming a file of this directory: with the sticky bit only the owners of the two may. EPERM.
    pub fn demand_removal(&self, who: &Credentials, file: Permissions) -> Result<(), Errno> {
        let own = self.user == who.user.fs || file.is_owned_by(who);
        if self.mode & S_ISVTX == 0 || own { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// The mode that chmod(2) really sets. EPERM for a file of somebody else.
    pub fn demand_mode(&self, who: &Credentials, mode: u32) -> Result<u32, Errno> {
        if !self.is_owned_by(who) {
            return Err(Errno::EPERM);
        }
        let keeps_group = who.is_member(self.group) || who.can(CAP_FSETID);
        Ok(if keeps_group { mode } else { mode & !S_ISGID })
    }

    /// Whether chown(2) may set this owner, which may take bits from the mode: that is for the owner, even where
    /// nothing else changes (`setattr_prepare`). EPERM.
    pub fn demand_owner(&self, who: &Credentials, user: Option<u32>, group: Option<u32>) -> Result<(), Errno> {
        let own = who.user.fs == self.user;
        let user_stays = user.is_none_or(|user| own && user == self.user);
        let group_is_own = group.is_none_or(|group| own && (group == self.group || who.is_member(group)));
        let may_give = who.can(CAP_CHOWN) || (user_stays && group_is_own);
        let keeps_mode = self.after_chown(who) == self.mode;
        if may_give && (keeps_mode || self.is_owned_by(who)) { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// The mode once somebody has set the owner: as `without_privileges`, and without the set-group-id bit of another's
    /// group (`setattr_should_drop_sgid`).
    pub fn after_chown(&self, who: &Credentials) -> u32 {
        let keeps_group = self.is_directory() || who.is_member(self.group) || who.can(CAP_FSETID);
        self.without_privileges() & if keeps_group { u32::MAX } else { !S_ISGID }
    }

    /// The mode without what a change of owner or content takes away: the set-user-id bit, and the set-group-id bit of what a group
    /// may execute.
    pub fn without_privileges(&self) -> u32 {
        let group = if self.mode & S_IXGRP != 0 { S_ISGID } else { 0 };
        if self.is_directory() { self.mode } else { self.mode & !(S_ISUID | group) }
    }

    /// The mode once somebody has changed the content: without the bits that would lend rights to what is there now (`file_remove_privs`).
    pub fn after_write(&self, who: &Credentials) -> u32 {
        if self.mode & S_IFMT != S_IFREG || who.can(CAP_FSETID) {
            return self.mode;
        }
        let group = if who.is_member(self.group) { 0 } else { S_ISGID };
        self.without_privileges() & !group
    }

    /// Owner and mode of a new file in this directory: one with the set-group-id bit hands on its group, and directories the bit too.
    pub fn of_new(&self, who: &Credentials, mode: u32) -> Permissions {
        let new = Permissions { mode, user: who.user.fs, group: who.group.fs };
        if self.mode & S_ISGID == 0 {
            return new;
        }
        let inherited = Permissions { group: self.group, ..new };
        if new.is_directory() {
            return Permissions { mode: mode | S_ISGID, ..inherited };
        }
        let foreign = !who.is_member(self.group) && !who.can(CAP_FSETID);
        let drops = mode & (S_ISGID | S_IXGRP) == S_ISGID | S_IXGRP && foreign;
        Permissions { mode: if drops { mode & !S_ISGID } else { mode }, ..inherited }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux_abi::fs::W_OK;

    fn file(mode: u32) -> Permissions {
        Permissions { mode: S_IFREG | mode, user: 5, group: 7 }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let (owner, member, other) =
            (Credentials::of_user(5, 7, &[]), Credentials::of_user(6, 6, &[7]), Credentials::of_user(6, 6, &[]));
        assert_eq!(file(0o077).demand(&owner, R_OK), Err(Errno::EACCES));
        assert_eq!(file(0o707).demand(&member, R_OK), Err(Errno::EACCES));
        assert_eq!(file(0o004).demand(&other, R_OK), Ok(()));
        assert_eq!(file(0o640).demand(&member, R_OK), Ok(()));
        assert_eq!(file(0o640).demand(&member, R_OK | W_OK), Err(Errno::EACCES));
    }

    #[test]
    fn root_needs_one_execute_bit() {
        let root = Credentials::default();
        assert_eq!(file(0).demand(&root, R_OK | W_OK), Ok(()));
        assert_eq!(file(0o666).demand(&root, X_OK), Err(Errno::EACCES));
        assert_eq!(file(0o001).demand(&root, X_OK), Ok(()));
        let directory = Permissions { mode: S_IFDIR, user: 5, group: 5 };
        assert_eq!(directory.demand(&root, R_OK | W_OK | X_OK), Ok(()));
    }

    #[test]
    fn giving_nothing_away_still_takes_bits_from_the_mode() {
        let (owner, other) = (Credentials::of_user(5, 6, &[]), Credentials::of_user(6, 6, &[]));
        assert_eq!(file(0o644).demand_owner(&other, None, None), Ok(()));
        assert_eq!(file(0o4644).demand_owner(&other, None, None), Err(Errno::EPERM));
        assert_eq!(file(0o2644).demand_owner(&other, None, None), Err(Errno::EPERM));
        assert_eq!(file(0o2644).demand_owner(&Credentials::of_user(6, 6, &[7]), None, None), Ok(()));
        assert_eq!(file(0o2644).demand_owner(&owner, None, None), Ok(()));
        assert_eq!(file(0o2644).after_chown(&owner), S_IFREG | 0o644);
        assert_eq!(file(0o6654).after_chown(&Credentials::default()), S_IFREG | 0o654);
    }

    #[test]
    fn groups_are_handed_on_by_directories() {
        let directory = Permissions { mode: S_IFDIR | S_ISGID | 0o777, user: 0, group: 9 };
        let who = Credentials::of_user(5, 5, &[]);
        let made = directory.of_new(&who, S_IFDIR | 0o755);
        assert_eq!((made.group, made.mode & S_ISGID), (9, S_ISGID));
        let made = directory.of_new(&who, S_IFREG | S_ISGID | 0o775);
        assert_eq!((made.user, made.group, made.mode & S_ISGID), (5, 9, 0));
    }
}
