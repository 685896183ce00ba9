//! From the master to the terminal: the line discipline N_TTY, as termios(3) describes it and Linux does it.

use super::Side;
use super::output::is_control;
use super::pair::{Cell, DISCIPLINE_BYTES, Echo, Pair, WIRE_BYTES};
use crate::user_io::ByteSink;
use crate::wait::Events;
use linux_abi::tty::*;
use linux_abi::{Errno, Signal};

const NEWLINE: u8 = b'\n';
const BACKSPACE: u8 = 0x08;

/// What a character takes away.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Eraser {
    Character,
    Word,
    Line,
}

/// Lower case, in Latin-1.
fn to_lower(c: u8) -> u8 {
    match c {
        b'A'..=b'Z' | 0xc0..=0xd6 | 0xd8..=0xde => c + 0x20,
        _ => c,
    }
}

/// Letters and digits, in Latin-1.
fn is_alphanumeric(c: u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, 0xc0..=0xd6 | 0xd8..=0xf6 | 0xf8..=0xff)
}

impl Pair {
    /// The master writes: what fits is taken, and goes through the discipline as far as that has room.
    pub(super) fn write_input(&mut self, data: &[u8]) -> usize {
        if self.master_stopped {
            return 0;
        }
        let fits = data.len().min(WIRE_BYTES - self.incoming.len());
        self.incoming.extend(&data[..fits]);
        self.pump();
        fits
    }

    /// Moves what waits into the discipline.
    pub(super) fn pump(&mut self) {
        let before = self.incoming.len();
        self.arrived = Some(self.outgoing.len());
        while !self.incoming.is_empty() && self.make_room() {
            let Some(c) = self.incoming.pop_front() else { break };
            self.receive(c);
        }
        self.arrived = None;
        if self.incoming.len() < before {
            self.show_echoes();
            self.has_room(Side::Master);
            if !self.is_canonical() && !self.cells.is_empty() {
                self.effects.slave |= Events::READABLE;
                self.effects.told.push((Side::Slave, Events::READABLE));
            }
        }
    }

    /// Whether the discipline takes another byte. A line that is too long takes all, and keeps the last in its last place.
    fn make_room(&mut self) -> bool {
        let width = if self.input_flag(PARMRK) { 3 } else { 1 };
        let free = DISCIPLINE_BYTES - self.cells.len().min(DISCIPLINE_BYTES);
        let room = free.div_ceil(width) as isize - 1;
        if room > 0 {
            return true;
        }
        let overflow = self.local_flag(ICANON) && self.complete == 0;
        if overflow && room < 0 {
            self.cells.pop_back();
        }
        overflow
    }

    fn put(&mut self, byte: u8, ends: bool) {
        self.cells.push_back(Cell { byte, ends });
    }

    /// A byte that means itself, doubled where PARMRK would make it a mark.
    fn put_data(&mut self, c: u8) {
        if c == 0xff && self.input_flag(PARMRK) {
            self.put(c, false);
        }
        self.put(c, false);
    }

    fn receive(&mut self, c: u8) {
        let mut c = c;
        if self.input_flag(ISTRIP) {
            c &= 0x7f;
        }
        if self.input_flag(IUCLC) && self.local_flag(IEXTEN) {
            c = to_lower(c);
        }
        if std::mem::take(&mut self.literal_next) {
            return self.receive_plain(c);
        }
        if self.local_flag(EXTPROC) {
            return self.put(c, false);
        }
        if self.is_raw() {
            return self.put(c, false);
        }
        if self.receive_flow_control(c) || self.receive_signal(c) {
            return;
        }
        self.restart_by_any();
        let mut returned = false;
        match c {
            b'\r' if self.input_flag(IGNCR) => return,
            b'\r' if self.input_flag(ICRNL) => (c, returned) = (NEWLINE, true),
            NEWLINE if self.input_flag(INLCR) => c = b'\r',
            _ => {}
        }
        if self.local_flag(ICANON) && self.receive_canonical(c) {
            return;
        }
        if self.local_flag(ECHO) && returned {
            self.finish_erasing();
            self.echo(Echo::Byte(NEWLINE));
        } else {
            self.echo_input(c);
        }
        self.put_data(c);
    }

    /// No setting asks for a look at the input.
    fn is_raw(&self) -> bool {
        const LOOKED_AT: u32 = ISTRIP | IUCLC | IGNCR | ICRNL | INLCR | IXON | PARMRK;
        !self.input_flag(LOOKED_AT) && !self.local_flag(ICANON | ISIG | ECHO)
    }

    /// A character without a special meaning.
    fn receive_plain(&mut self, c: u8) {
        self.restart_by_any();
        self.echo_input(c);
        self.put_data(c);
    }

    /// Echoes a character that becomes input.
    fn echo_input(&mut self, c: u8) {
        if self.local_flag(ECHO) {
            self.finish_erasing();
            self.mark_start();
            self.echo_char(c);
        }
    }

    /// The first character of a line says where its input begins on the screen.
    fn mark_start(&mut self) {
        if self.complete == self.cells.len() {
            self.echo(Echo::StartColumn);
        }
    }

    fn receive_flow_control(&mut self, c: u8) -> bool {
        if !self.input_flag(IXON) {
            return false;
        }
        if self.is_special(c, VSTART) {
            self.start_output();
            self.show_echoes();
            return true;
        }
        if self.is_special(c, VSTOP) {
            self.stop_output();
            return true;
        }
        false
    }

    /// IXANY: any character lets stopped output go on.
    fn restart_by_any(&mut self) {
        if self.stopped && !self.stopped_by_call && self.input_flag(IXON) && self.input_flag(IXANY) {
            self.start_output();
            self.show_echoes();
        }
    }

    pub(super) fn stop_output(&mut self) {
        if !self.stopped {
            self.stopped = true;
            self.tell_packet(TIOCPKT_STOP, TIOCPKT_START);
        }
    }

    pub(super) fn start_output(&mut self) {
        if self.stopped && !self.stopped_by_call {
            self.stopped = false;
            self.has_room(Side::Slave);
            self.tell_packet(TIOCPKT_START, TIOCPKT_STOP);
        }
    }

    fn receive_signal(&mut self, c: u8) -> bool {
        if !self.local_flag(ISIG) {
            return false;
        }
        let signal = match c {
            c if self.is_special(c, VINTR) => Signal::SIGINT,
            c if self.is_special(c, VQUIT) => Signal::SIGQUIT,
            c if self.is_special(c, VSUSP) => Signal::SIGTSTP,
            _ => return false,
        };
        self.send_signal(signal);
        if self.input_flag(IXON) {
            self.start_output();
        }
        if self.local_flag(ECHO) {
            self.echo_char(c);
        } else {
            self.show_echoes();
        }
        true
    }

    /// A signal to the foreground group, with NOFLSH off also the end of all that waits in both directions.
    pub(super) fn send_signal(&mut self, signal: Signal) {
        self.effects.signals.push(signal);
        if !self.local_flag(NOFLSH) {
            self.echoes.clear();
            self.flush_output();
            self.forget_input();
        }
    }

    /// Forgets what the discipline holds.
    fn forget_input(&mut self) {
        self.cells.clear();
        self.complete = 0;
        self.erasing = false;
        self.tell_packet(TIOCPKT_FLUSHREAD, 0);
    }

    /// TCFLSH of input: also what has not come as far as the discipline.
    pub(super) fn flush_input(&mut self) {
        self.incoming.clear();
        self.has_room(Side::Master);
        self.forget_input();
    }

    /// The part of canonical mode. Whether the character is done with.
    fn receive_canonical(&mut self, c: u8) -> bool {
        let extended = self.local_flag(IEXTEN);
        if self.is_special(c, VERASE) {
            self.erase(Eraser::Character);
        } else if self.is_special(c, VKILL) {
            self.erase(Eraser::Line);
        } else if extended && self.is_special(c, VWERASE) {
            self.erase(Eraser::Word);
        } else if extended && self.is_special(c, VLNEXT) {
            self.receive_literal_next();
        } else if extended && self.local_flag(ECHO) && self.is_special(c, VREPRINT) {
            self.reprint(c);
        } else if c == NEWLINE {
            if self.local_flag(ECHO) || self.local_flag(ECHONL) {
                self.echo(Echo::Byte(NEWLINE));
            }
            self.end_line(c);
        } else if self.is_special(c, VEOF) {
            self.end_line(DISABLED_CHAR);
        } else if self.is_special(c, VEOL) || extended && self.is_special(c, VEOL2) {
            if self.local_flag(ECHO) {
                self.mark_start();
                self.echo_char(c);
            }
            if c == 0xff && self.input_flag(PARMRK) {
                self.put(c, false);
            }
            self.end_line(c);
        } else {
            return false;
        }
        true
    }

    fn end_line(&mut self, byte: u8) {
        self.put(byte, true);
        self.complete = self.cells.len();
        self.effects.slave |= Events::READABLE;
        self.effects.told.push((Side::Slave, Events::READABLE));
    }

    fn receive_literal_next(&mut self) {
        self.literal_next = true;
        if self.local_flag(ECHO) {
            self.finish_erasing();
            if self.local_flag(ECHOCTL) {
                self.echo(Echo::Byte(b'^'));
                self.echo(Echo::Byte(BACKSPACE));
            }
        }
    }

    /// VREPRINT: the line so far, once more on a line of its own.
    fn reprint(&mut self, c: u8) {
        self.finish_erasing();
        self.echo_char(c);
        self.echo(Echo::Byte(NEWLINE));
        for place in self.complete..self.cells.len() {
            self.echo_char(self.cells[place].byte);
        }
    }

    /// ECHOPRT: closes a list of erased characters.
    fn finish_erasing(&mut self) {
        if std::mem::take(&mut self.erasing) {
            self.echo(Echo::Byte(b'/'));
        }
    }

    fn erase(&mut self, eraser: Eraser) {
        if self.cells.len() == self.complete {
            return;
        }
        if eraser == Eraser::Line && !(self.local_flag(ECHO) && self.shows_kill()) {
            self.cells.truncate(self.complete);
            if self.local_flag(ECHO) {
                self.finish_erasing();
                self.echo_char(self.termios.c_cc[VKILL]);
                if self.local_flag(ECHOK) {
                    self.echo(Echo::Byte(NEWLINE));
                }
            }
            return;
        }
        let mut in_word = false;
        while self.cells.len() > self.complete {
            let start = self.last_character();
            let c = self.cells[start].byte;
            if self.is_continuation(c) {
                break;
            }
            if eraser == Eraser::Word {
                if is_alphanumeric(c) || c == b'_' {
                    in_word = true;
                } else if in_word {
                    break;
                }
            }
            let rest: Vec<u8> = self.cells.drain(start..).skip(1).map(|cell| cell.byte).collect();
            if self.local_flag(ECHO) {
                self.echo_erased(c, &rest, eraser);
            }
            if eraser == Eraser::Character {
                break;
            }
        }
        if self.cells.len() == self.complete && self.local_flag(ECHO) {
            self.finish_erasing();
        }
    }

    /// VKILL takes the line's characters off the screen one by one.
    fn shows_kill(&self) -> bool {
        self.local_flag(ECHOK) && self.local_flag(ECHOKE) && self.local_flag(ECHOE)
    }

    /// Where the last character of the line begins: in UTF-8 it may have several bytes.
    fn last_character(&self) -> usize {
        let mut start = self.cells.len() - 1;
        while start > self.complete && self.is_continuation(self.cells[start].byte) {
            start -= 1;
        }
        start
    }

    /// Shows that a character, whose further bytes are `rest`, is gone.
    fn echo_erased(&mut self, c: u8, rest: &[u8], eraser: Eraser) {
        let over = [Echo::Byte(BACKSPACE), Echo::Byte(b' '), Echo::Byte(BACKSPACE)];
        if self.local_flag(ECHOPRT) {
            if !std::mem::replace(&mut self.erasing, true) {
                self.echo(Echo::Byte(b'\\'));
            }
            self.echo_char(c);
            for byte in rest {
                self.echo(Echo::Byte(*byte));
                self.echo(Echo::BackColumn);
            }
        } else if eraser == Eraser::Character && !self.local_flag(ECHOE) {
            self.echo_char(self.termios.c_cc[VERASE]);
        } else if c == b'\t' {
            let (columns, after_tab) = self.columns_before_tab();
            self.echo(Echo::EraseTab { columns, after_tab });
        } else {
            let paired = is_control(c) && self.local_flag(ECHOCTL);
            let times = usize::from(paired) + usize::from(!is_control(c) || paired);
            for echo in over.iter().cycle().take(times * over.len()) {
                self.echo(*echo);
            }
        }
    }

    /// The columns that the line takes since its last tab, or since its start; and which of the two.
    fn columns_before_tab(&self) -> (u32, bool) {
        let mut columns = 0;
        for cell in self.cells.range(self.complete..).rev() {
            match cell.byte {
                b'\t' => return (columns % 8, true),
                c if is_control(c) => columns += if self.local_flag(ECHOCTL) { 2 } else { 0 },
                c if !self.is_continuation(c) => columns += 1,
                _ => {}
            }
        }
        (columns % 8, false)
    }

    /// Reads what a line, or in raw mode the queue, has for the buffer.
    pub(super) fn read_input(&mut self, sink: &mut dyn ByteSink) -> Result<usize, Errno> {
        let (bytes, taken) =
            if self.is_canonical() { self.line_part(sink.remaining()) } else { self.queued(sink.remaining()) };
        // What cannot be stored is lost (`iterate_tty_read`).
        let done = sink.put(&bytes);
        let ended = self.cells.drain(..taken).next_back().is_some_and(|cell| cell.ends);
        self.complete = self.complete.saturating_sub(taken);
        if self.is_canonical() && done > 0 && !ended && sink.remaining() == 0 {
            self.skip_end_of_file();
        }
        self.pump();
        if done < bytes.len() && done == 0 { Err(Errno::EFAULT) } else { Ok(done) }
    }

    fn queued(&self, max: usize) -> (Vec<u8>, usize) {
        let bytes: Vec<u8> = self.cells.iter().take(max).map(|cell| cell.byte).collect();
        let taken = bytes.len();
        (bytes, taken)
    }

    /// The first complete line, as much of it as fits; and how many cells that takes. VEOF's mark is taken without being read.
    fn line_part(&self, max: usize) -> (Vec<u8>, usize) {
        let cells = self.cells.iter().take(max.min(self.complete));
        let mut bytes = Vec::new();
        for cell in cells {
            if cell.ends {
                let is_mark = cell.byte == DISABLED_CHAR;
                let taken = bytes.len() + 1;
                bytes.extend((!is_mark).then_some(cell.byte));
                return (bytes, taken);
            }
            bytes.push(cell.byte);
        }
        let taken = bytes.len();
        (bytes, taken)
    }

    /// A read that ended within a line, exactly in front of VEOF's mark, takes the mark too: the next one must not seem to be the
    /// file's end.
    fn skip_end_of_file(&mut self) {
        if self.complete > 0 && self.cells[0] == (Cell { byte: DISABLED_CHAR, ends: true }) {
            self.cells.pop_front();
            self.complete -= 1;
        }
    }

    /// FIONREAD: complete lines in canonical mode, without VEOF's marks.
    pub(super) fn unread(&self) -> usize {
        if !self.is_canonical() {
            return self.cells.len();
        }
        let mark = Cell { byte: DISABLED_CHAR, ends: true };
        self.cells.range(..self.complete).filter(|cell| **cell != mark).count()
    }

    /// TCSETS and its relatives.
    pub(super) fn set_termios(&mut self, termios: Termios2) {
        let old = std::mem::replace(&mut self.termios, termios);
        self.tell_packet_settings(&old);
        if (old.c_lflag ^ termios.c_lflag) & (ICANON | EXTPROC) != 0 {
            self.cells.iter_mut().for_each(|cell| cell.ends = false);
            self.complete = 0;
            if self.local_flag(ICANON)
                && let Some(last) = self.cells.back_mut()
            {
                // What was there becomes a line of its own.
                last.ends = true;
                self.complete = self.cells.len();
            }
            self.erasing = false;
            self.literal_next = false;
        }
        if old.c_iflag & IXON != 0 && !self.input_flag(IXON) {
            self.start_output();
            self.show_echoes();
        }
        self.effects.slave |= Events::READABLE | Events::WRITABLE;
    }

    /// Packet mode tells of changes in flow control, and (with EXTPROC) of all.
    fn tell_packet_settings(&mut self, old: &Termios2) {
        const CTRL_Q: u8 = 0x11;
        const CTRL_S: u8 = 0x13;
        let flows = |termios: &Termios2| {
            termios.c_iflag & IXON != 0 && termios.c_cc[VSTOP] == CTRL_S && termios.c_cc[VSTART] == CTRL_Q
        };
        let (before, after) = (flows(old), flows(&self.termios));
        if before != after {
            let now = if after { TIOCPKT_DOSTOP } else { TIOCPKT_NOSTOP };
            self.tell_packet(now, TIOCPKT_DOSTOP | TIOCPKT_NOSTOP);
        }
        if (old.c_lflag | self.termios.c_lflag) & EXTPROC != 0 {
            self.tell_packet(TIOCPKT_IOCTL, 0);
        }
    }
}
