//! The state of a pseudo-terminal pair.

use super::{Side, settings};
use crate::ids::{FileId, Pid};
use crate::wait::Events;
use base::SimTime;
use linux_abi::Signal;
use linux_abi::ioctl::Winsize;
use linux_abi::tty::*;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Bytes that a side's line discipline holds; the one place more is for the byte that ends a line.
pub(super) const DISCIPLINE_BYTES: usize = 4096;
/// Bytes that wait between the two sides in front of a full discipline. On Linux it is between 8 and 18 thousand, depending on the sizes
/// of writes.
pub(super) const WIRE_BYTES: usize = 16 << 10;

/// One byte of input that the terminal's reader has not read yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cell {
    pub byte: u8,
    /// It ends a line.
    pub ends: bool,
}

/// One step of an echo, done when there is room for what it shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Echo {
    /// A byte, through output processing.
    Byte(u8),
    /// A control character as ^X.
    Control(u8),
    /// Back over a tab: the columns of what stands between it and the last tab, or (`false`) the start of the line.
    EraseTab { columns: u32, after_tab: bool },
    /// The line's input begins in this column.
    StartColumn,
    /// A byte that took no column of its own.
    BackColumn,
}

/// What an operation on a pair has caused outside of it.
#[derive(Debug, Default)]
pub struct Effects {
    /// For the foreground process group.
    pub signals: SmallVec<[Signal; 1]>,
    /// Events for the files of either side.
    pub master: Events,
    pub slave: Events,
    /// What is told by signal to files with O_ASYNC, in this order.
    pub told: SmallVec<[(Side, Events); 1]>,
}

/// A terminal and its master.
#[derive(Debug)]
pub struct Pair {
    /// The master's open file, until it is closed.
    pub master: Option<FileId>,
    /// The terminal's open files, those that were hung up not among them.
    pub slaves: Vec<FileId>,
    /// Open files of a terminal that was hung up.
    pub hung: u32,
    /// The terminal was opened, and is closed everywhere at the moment.
    pub slave_closed: bool,
    /// Nobody may open the terminal yet (TIOCSPTLCK).
    pub locked: bool,
    /// TIOCEXCL, of master and slave.
    pub exclusive: [bool; 2],
    pub window: Winsize,
    /// The session whose controlling terminal it is.
    pub session: Option<Pid>,
    /// Its foreground process group.
    pub foreground: Option<Pid>,
    pub mode: u32,
    pub owner: (u32, u32),
    pub opened: SimTime,
    /// Packet mode, and what has happened since it was last told.
    pub packet: bool,
    pub packet_status: u8,

    pub termios: Termios2,
    pub(super) cells: VecDeque<Cell>,
    /// How many of them belong to lines that are complete.
    pub(super) complete: usize,
    pub(super) literal_next: bool,
    /// ECHOPRT shows erased characters at the moment.
    pub(super) erasing: bool,
    /// What the master has written and the discipline has no room for.
    pub(super) incoming: VecDeque<u8>,
    /// What the terminal has shown and the master has not read.
    pub(super) outgoing: VecDeque<u8>,
    pub(super) echoes: VecDeque<Echo>,
    /// The cursor's column, and the one in which the line's input began.
    pub(super) column: u32,
    pub(super) start_column: u32,
    /// Output is stopped, and it was by TCXONC rather than by a character.
    pub(super) stopped: bool,
    pub(super) stopped_by_call: bool,
    /// The master has stopped what it writes itself.
    pub(super) master_stopped: bool,
    /// While the discipline takes what the master has written: how much of `outgoing` was there before. The rest is on its way, and a signal
    /// from the keyboard flushes it.
    pub(super) arrived: Option<usize>,
    /// A write by master or slave found no room: who tells by signal does so when there is some.
    pub(super) wants_room: [bool; 2],
    pub(super) effects: Effects,
}

impl Pair {
    pub fn new(now: SimTime) -> Self {
        Pair {
            master: None,
            slaves: Vec::new(),
            hung: 0,
            slave_closed: false,
            locked: true,
            exclusive: [false; 2],
            window: Winsize::default(),
            session: None,
            foreground: None,
            mode: 0o620,
            owner: (0, settings::TTY_GROUP),
            opened: now,
            packet: false,
            packet_status: 0,
            termios: settings::initial(),
            cells: VecDeque::new(),
            complete: 0,
            literal_next: false,
            erasing: false,
            incoming: VecDeque::new(),
            outgoing: VecDeque::new(),
            echoes: VecDeque::new(),
            column: 0,
            start_column: 0,
            stopped: false,
            stopped_by_call: false,
            master_stopped: false,
            arrived: None,
            wants_room: [false; 2],
            effects: Effects::default(),
        }
    }

    pub(super) fn input_flag(&self, flag: u32) -> bool {
        self.termios.c_iflag & flag != 0
    }

    pub(super) fn output_flag(&self, flag: u32) -> bool {
        self.termios.c_oflag & flag != 0
    }

    pub(super) fn local_flag(&self, flag: u32) -> bool {
        self.termios.c_lflag & flag != 0
    }

    /// Input is handed out by lines.
    pub(super) fn is_canonical(&self) -> bool {
        self.local_flag(ICANON) && !self.local_flag(EXTPROC)
    }

    /// Whether `c` is this special character: a disabled one is none.
    pub(super) fn is_special(&self, c: u8, place: usize) -> bool {
        c != DISABLED_CHAR && c == self.termios.c_cc[place]
    }

    /// A side can write again.
    pub(super) fn has_room(&mut self, side: Side) {
        let (events, place) = match side {
            Side::Master => (&mut self.effects.master, 0),
            Side::Slave => (&mut self.effects.slave, 1),
        };
        *events |= Events::WRITABLE;
        if std::mem::take(&mut self.wants_room[place]) {
            self.effects.told.push((side, Events::WRITABLE));
        }
    }

    /// Something that packet mode tells the master.
    pub(super) fn tell_packet(&mut self, set: u8, clear: u8) {
        if self.packet {
            self.packet_status = self.packet_status & !clear | set;
            self.effects.master |= Events::READABLE | Events::PRI;
        }
    }

    /// What the terminal has for its readers.
    fn input_ready(&self) -> bool {
        if self.is_canonical() {
            return self.complete > 0;
        }
        let (time, min) = (self.termios.c_cc[VTIME], self.termios.c_cc[VMIN]);
        let least = if time == 0 && min > 0 { usize::from(min) } else { 1 };
        self.cells.len() >= least
    }

    pub fn poll_slave(&self) -> Events {
        Events::READABLE.when(self.input_ready()) | Events::WRITABLE.when(self.output_room() > 0)
    }

    pub fn poll_master(&self) -> Events {
        let status = self.packet && self.packet_status != 0;
        Events::READABLE.when(!self.outgoing.is_empty() || status)
            | Events::PRI.when(status)
            | Events::HUP.when(self.slave_closed)
            | Events::WRITABLE.when(self.incoming.len() < WIRE_BYTES && !self.master_stopped)
    }

    /// Bytes that the master can read now, as its discipline counts them.
    pub(super) fn master_unread(&self) -> usize {
        self.outgoing.len().min(DISCIPLINE_BYTES - 1)
    }

    /// Forgets what is between the terminal and the master's discipline.
    pub(super) fn flush_output(&mut self) {
        self.outgoing.truncate(self.arrived.unwrap_or(usize::MAX).min(DISCIPLINE_BYTES - 1));
        self.has_room(Side::Slave);
        self.tell_packet(TIOCPKT_FLUSHWRITE, 0);
    }
}
