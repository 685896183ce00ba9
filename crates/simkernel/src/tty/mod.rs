//! Terminals: pseudo-terminal pairs, their line discipline, and the job control of sessions that have one.
//!
//! A [`Pair`] is a terminal (its slave side) with the program that plays the user (its master side). What travels from master to slave goes
//! through the line discipline of `input`, what travels back through `output`; both are functions of the pair's state alone and leave in
//! [`Effects`] what the rest of the kernel must do. `files` opens, closes and hangs up, `jobs` holds sessions and their signals, `calls`
//! and `ioctl` are what system calls on an open terminal do. Linux's N_TTY is the model, character by character.

mod calls;
mod files;
mod input;
mod ioctl;
mod jobs;
mod output;
mod pair;
mod settings;
#[cfg(test)]
mod tests;

pub(crate) use calls::{read, write};
pub(crate) use files::{open_controlling, open_master, open_slave};
pub(crate) use ioctl::ioctl;
pub use pair::{Effects, Pair};

use std::collections::BTreeMap;

/// The number of a terminal: N of `/dev/pts/N`.
pub type TtyId = u32;

/// Which side of a pair an open file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    Master,
    Slave,
}

/// An open file of a terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TtyFile {
    pub tty: TtyId,
    pub side: Side,
    /// It was opened as `/dev/tty`.
    pub controlling: bool,
    /// The terminal was hung up: the file reads as ended and takes nothing any more.
    pub hung: bool,
}

impl TtyFile {
    /// Whether its inode is that of `/dev/pts/N`.
    pub(crate) fn is_named_after_number(self) -> bool {
        self.side == Side::Slave && !self.controlling
    }

    /// The path by which it was opened, as `/proc/PID/fd` shows it.
    pub(crate) fn path(self, exists: bool) -> Vec<u8> {
        match self.side {
            Side::Master => b"/dev/ptmx".to_vec(),
            Side::Slave if self.controlling => b"/dev/tty".to_vec(),
            Side::Slave if exists => format!("/dev/pts/{}", self.tty).into_bytes(),
            Side::Slave => format!("/dev/pts/{} (deleted)", self.tty).into_bytes(),
        }
    }
}

/// The terminals of a host, by number. A number is free again when both sides are closed.
#[derive(Debug, Default)]
pub struct Terminals {
    pairs: BTreeMap<TtyId, Pair>,
}

impl Terminals {
    /// The pair of this number, whether or not its master is still open.
    pub fn get(&self, tty: TtyId) -> Option<&Pair> {
        self.pairs.get(&tty)
    }

    /// The pair behind an open file, which always exists.
    pub(crate) fn of(&self, file: TtyFile) -> &Pair {
        &self.pairs[&file.tty]
    }

    pub(crate) fn of_mut(&mut self, file: TtyFile) -> &mut Pair {
        self.pairs.get_mut(&file.tty).expect("an open file keeps its pair")
    }

    /// A terminal that can be opened by its name in `/dev/pts`.
    pub fn named(&self, tty: TtyId) -> Option<&Pair> {
        self.get(tty).filter(|pair| pair.master.is_some())
    }

    /// The numbers in `/dev/pts`.
    pub fn numbers(&self) -> impl Iterator<Item = TtyId> + '_ {
        self.pairs.iter().filter(|(_, pair)| pair.master.is_some()).map(|(number, _)| *number)
    }

    /// chmod(2) of a terminal.
    pub(crate) fn set_mode(&mut self, tty: TtyId, mode: u32) {
        if let Some(pair) = self.pairs.get_mut(&tty) {
            pair.mode = mode & 0o7777;
        }
    }

    /// chown(2) of a terminal; u32::MAX leaves one part as it is.
    pub(crate) fn set_owner(&mut self, tty: TtyId, uid: u32, gid: u32) {
        let Some(pair) = self.pairs.get_mut(&tty) else { return };
        if uid != u32::MAX {
            pair.owner.0 = uid;
        }
        if gid != u32::MAX {
            pair.owner.1 = gid;
        }
    }

    fn lowest_free(&self) -> TtyId {
        (0..).find(|number| !self.pairs.contains_key(number)).expect("fewer terminals than numbers")
    }
}
