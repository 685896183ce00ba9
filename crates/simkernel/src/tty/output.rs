//! From the terminal to its master: output processing (OPOST) and echoes.

use super::Side;
use super::pair::{DISCIPLINE_BYTES, Echo, Pair, WIRE_BYTES};
use crate::wait::Events;
use linux_abi::tty::*;

/// Echoes that wait for room; older ones are forgotten.
const ECHOES_MAX: usize = 3808;
const TAB: u32 = 8;

/// Control characters, as the kernel's tables have them: ASCII's only.
pub(super) fn is_control(c: u8) -> bool {
    c < 0x20 || c == 0x7f
}

/// Upper case, in Latin-1.
fn to_upper(c: u8) -> u8 {
    match c {
        b'a'..=b'z' | 0xdf..=0xf6 | 0xf8..=0xff => c - 0x20,
        _ => c,
    }
}

impl Pair {
    /// Bytes that the terminal can show now: none while output is stopped.
    pub(super) fn output_room(&self) -> usize {
        if self.stopped { 0 } else { (DISCIPLINE_BYTES - 1 + WIRE_BYTES).saturating_sub(self.outgoing.len()) }
    }

    pub(super) fn show(&mut self, bytes: &[u8]) {
        self.outgoing.extend(bytes);
        self.effects.master |= Events::READABLE;
        // What is shown in one go arrives in one go.
        if !self.effects.told.contains(&(Side::Master, Events::READABLE)) && !bytes.is_empty() {
            self.effects.told.push((Side::Master, Events::READABLE));
        }
    }

    /// A second or later byte of a character in UTF-8, where the terminal knows of that.
    pub(super) fn is_continuation(&self, c: u8) -> bool {
        self.input_flag(IUTF8) && c & 0xc0 == 0x80
    }

    /// Shows what fits of a program's output; how much of it that was.
    pub(super) fn write_output(&mut self, data: &[u8]) -> usize {
        if !self.output_flag(OPOST) {
            let fits = data.len().min(self.output_room());
            self.show(&data[..fits]);
            return fits;
        }
        data.iter().take_while(|c| self.output_byte(**c)).count()
    }

    /// Output processing of one byte. Whether there was room for what it becomes.
    fn output_byte(&mut self, c: u8) -> bool {
        let room = self.output_room();
        if room == 0 {
            return false;
        }
        let mut shown = c;
        match c {
            b'\n' => {
                if self.output_flag(ONLRET) {
                    self.column = 0;
                }
                if self.output_flag(ONLCR) {
                    if room < 2 {
                        return false;
                    }
                    (self.column, self.start_column) = (0, 0);
                    self.show(b"\r\n");
                    return true;
                }
                self.start_column = self.column;
            }
            b'\r' if self.output_flag(ONOCR) && self.column == 0 => return true,
            b'\r' if self.output_flag(OCRNL) => {
                shown = b'\n';
                if self.output_flag(ONLRET) {
                    (self.column, self.start_column) = (0, 0);
                }
            }
            b'\r' => (self.column, self.start_column) = (0, 0),
            b'\t' => return self.output_tab(room),
            0x08 => self.column = self.column.saturating_sub(1),
            _ if is_control(c) => {}
            _ => {
                if self.output_flag(OLCUC) {
                    shown = to_upper(c);
                }
                if !self.is_continuation(shown) {
                    self.column += 1;
                }
            }
        }
        self.show(&[shown]);
        true
    }

    fn output_tab(&mut self, room: usize) -> bool {
        let spaces = TAB - self.column % TAB;
        if self.termios.c_oflag & TABDLY != XTABS {
            self.column += spaces;
            self.show(b"\t");
            return true;
        }
        if room < spaces as usize {
            return false;
        }
        self.column += spaces;
        self.show(&b"        "[..spaces as usize]);
        true
    }

    /// Adds a step to the echoes.
    pub(super) fn echo(&mut self, echo: Echo) {
        if self.echoes.len() >= ECHOES_MAX {
            self.echoes.pop_front();
        }
        self.echoes.push_back(echo);
    }

    /// Echoes a character of input: control characters as ^X with ECHOCTL.
    pub(super) fn echo_char(&mut self, c: u8) {
        let as_pair = self.local_flag(ECHOCTL) && is_control(c) && c != b'\t';
        self.echo(if as_pair { Echo::Control(c) } else { Echo::Byte(c) });
    }

    /// Shows the echoes that there is room for.
    pub(super) fn show_echoes(&mut self) {
        while let Some(echo) = self.echoes.front().copied() {
            if !self.show_echo(echo) {
                return;
            }
            self.echoes.pop_front();
        }
    }

    /// Whether there was room for one step.
    fn show_echo(&mut self, echo: Echo) -> bool {
        let room = self.output_room();
        match echo {
            Echo::StartColumn => self.start_column = self.column,
            Echo::BackColumn => self.column = self.column.saturating_sub(1),
            Echo::EraseTab { columns, after_tab } => {
                let columns = if after_tab { columns } else { columns + self.start_column };
                let back = TAB - columns % TAB;
                if room < back as usize {
                    return false;
                }
                self.show(&[0x08; TAB as usize][..back as usize]);
                self.column = self.column.saturating_sub(back);
            }
            Echo::Control(c) => {
                if room < 2 {
                    return false;
                }
                self.show(&[b'^', c ^ 0o100]);
                self.column += 2;
            }
            // 0xff is the mark of steps in Linux's buffer, and passes by output processing.
            Echo::Byte(0xff) if room > 0 => {
                self.show(&[0xff]);
                self.column += 1;
            }
            Echo::Byte(c) if self.output_flag(OPOST) => return self.output_byte(c),
            Echo::Byte(c) if room > 0 => self.show(&[c]),
            Echo::Byte(_) => return false,
        }
        true
    }
}
