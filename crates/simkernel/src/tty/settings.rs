//! The settings of a terminal: what a new one has, and the forms in which programs read and write them.

use linux_abi::ioctl::Termios;
use linux_abi::tty::*;

/// The group that terminals belong to (`tty` in Debian's `/etc/group`).
pub(super) const TTY_GROUP: u32 = 5;

/// Speeds by the number that CBAUD encodes; from 0x1001 on, the second row.
const SPEEDS: [u32; 16] = [0, 50, 75, 110, 134, 150, 200, 300, 600, 1200, 1800, 2400, 4800, 9600, 19200, 38400];
const HIGH_SPEEDS: [u32; 15] = [
    57_600, 115_200, 230_400, 460_800, 500_000, 576_000, 921_600, 1_000_000, 1_152_000, 1_500_000, 2_000_000,
    2_500_000, 3_000_000, 3_500_000, 4_000_000,
];
/// CBAUD's value for a speed that stands in `c_ospeed` alone.
const BOTHER: u32 = 0x1000;
/// Where the input's speed stands in `c_cflag`.
const INPUT_SHIFT: u32 = 16;

/// The settings of a new pseudo-terminal.
pub(super) fn initial() -> Termios2 {
    let mut c_cc = [0; NCCS];
    let control = |letter: u8| letter & 0x1f;
    for (place, character) in [
        (VINTR, control(b'C')),
        (VQUIT, control(b'\\')),
        (VERASE, 0x7f),
        (VKILL, control(b'U')),
        (VEOF, control(b'D')),
        (VMIN, 1),
        (VSTART, control(b'Q')),
        (VSTOP, control(b'S')),
        (VSUSP, control(b'Z')),
        (VREPRINT, control(b'R')),
        (VDISCARD, control(b'O')),
        (VWERASE, control(b'W')),
        (VLNEXT, control(b'V')),
    ] {
        c_cc[place] = character;
    }
    Termios2 {
        c_iflag: ICRNL | IXON,
        c_oflag: OPOST | ONLCR,
        c_cflag: B38400 | CS8 | CREAD,
        c_lflag: ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN,
        c_line: 0,
        c_cc,
        c_ispeed: 38_400,
        c_ospeed: 38_400,
    }
}

/// The speed that `c_cflag` encodes; None for one that it leaves to `c_ospeed`.
fn speed_of(code: u32) -> Option<u32> {
    match code {
        0..=15 => Some(SPEEDS[code as usize]),
        BOTHER => None,
        _ => HIGH_SPEEDS.get((code & 0xf) as usize - 1).copied(),
    }
}

/// TCGETS.
pub(super) fn shown(termios: &Termios2) -> Termios {
    Termios {
        c_iflag: termios.c_iflag,
        c_oflag: termios.c_oflag,
        c_cflag: termios.c_cflag,
        c_lflag: termios.c_lflag,
        c_line: termios.c_line,
        c_cc: termios.c_cc,
    }
}

/// TCSETS: speeds follow from `c_cflag`.
pub(super) fn of_termios(termios: &Termios, present: &Termios2) -> Termios2 {
    completed(Termios2 {
        c_iflag: termios.c_iflag,
        c_oflag: termios.c_oflag,
        c_cflag: termios.c_cflag,
        c_lflag: termios.c_lflag,
        c_line: termios.c_line,
        c_cc: termios.c_cc,
        ..*present
    })
}

/// What is set is what the terminal can have: a pair has eight bits, no parity, and always listens.
pub(super) fn completed(mut termios: Termios2) -> Termios2 {
    if let Some(speed) = speed_of(termios.c_cflag & CBAUD) {
        termios.c_ospeed = speed;
    }
    match termios.c_cflag >> INPUT_SHIFT & CBAUD {
        0 => termios.c_ispeed = termios.c_ospeed,
        code => termios.c_ispeed = speed_of(code).unwrap_or(termios.c_ispeed),
    }
    termios.c_cflag = termios.c_cflag & !(CSIZE | PARENB) | CS8 | CREAD;
    termios
}

/// TCGETA.
pub(super) fn shown_short(termios: &Termios2) -> Termio {
    let mut c_cc = [0; 8];
    c_cc.copy_from_slice(&termios.c_cc[..8]);
    Termio {
        c_iflag: termios.c_iflag as u16,
        c_oflag: termios.c_oflag as u16,
        c_cflag: termios.c_cflag as u16,
        c_lflag: termios.c_lflag as u16,
        c_line: termios.c_line,
        c_cc,
        pad0: 0,
    }
}

/// TCSETA: the lower halves, and the first eight characters.
pub(super) fn of_short(short: &Termio, present: &Termios2) -> Termios2 {
    let mut termios = *present;
    let lower = |whole: u32, half: u16| whole & 0xffff_0000 | u32::from(half);
    termios.c_iflag = lower(termios.c_iflag, short.c_iflag);
    termios.c_oflag = lower(termios.c_oflag, short.c_oflag);
    termios.c_cflag = lower(termios.c_cflag, short.c_cflag);
    termios.c_lflag = lower(termios.c_lflag, short.c_lflag);
    termios.c_line = short.c_line;
    termios.c_cc[..8].copy_from_slice(&short.c_cc);
    completed(termios)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_follow_the_flags() {
        let mut termios = initial();
        termios.c_cflag = 0x1002 | CS8;
        assert_eq!(completed(termios).c_ospeed, 115_200);
        termios.c_cflag = BOTHER | CS8;
        termios.c_ospeed = 12_345;
        let set = completed(termios);
        assert_eq!((set.c_ospeed, set.c_ispeed), (12_345, 12_345));
        assert_eq!(set.c_cflag, BOTHER | CS8 | CREAD);
    }

    #[test]
    fn short_settings_keep_the_upper_halves() {
        let mut termios = initial();
        termios.c_lflag |= EXTPROC;
        let mut short = shown_short(&termios);
        short.c_lflag &= !(ECHO as u16);
        let set = of_short(&short, &termios);
        assert_eq!(set.c_lflag, termios.c_lflag & !ECHO);
    }
}
