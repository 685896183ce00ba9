//! Requests on open terminals, ioctl_tty(2).

use super::{Pair, Side, TtyFile, settings};
use crate::ctx::Ctx;
use crate::outcome::SysResult;
use linux_abi::fs::{O_CREAT, O_EXCL, O_NOCTTY, O_TRUNC, makedev};
use linux_abi::ioctl::*;
use linux_abi::tty::*;
use linux_abi::{Errno, Signal};
use zerocopy::{Immutable, IntoBytes};

/// What a request does to the terminal that only its foreground may do.
const CHANGES: [u32; 9] = [TCSETS, TCSETSW, TCSETSF, TCSETA, TCSETAW, TCSETAF, TCSETS2, TCSETSW2, TCSETSF2];

/// ioctl(2) on a terminal. Most requests mean the terminal, by whichever side they come.
pub(crate) fn ioctl(ctx: &mut Ctx<'_>, file: TtyFile, request: u32, arg: u64) -> SysResult {
    if file.hung {
        return Err(if request == TIOCSPGRP { Errno::ENOTTY } else { Errno::EIO }.into());
    }
    let result = match request {
        TIOCSCTTY | TIOCNOTTY | TIOCGPGRP | TIOCSPGRP | TIOCGSID => of_session(ctx, file, request, arg),
        TIOCGPTN | TIOCSPTLCK | TIOCGPTLCK | TIOCPKT | TIOCGPKT | TIOCSIG | TIOCGPTPEER => {
            of_master(ctx, file, request, arg)
        }
        TCGETS | TCGETS2 | TCGETA => shown_settings(ctx, file, request, arg),
        TCSBRK | TCSBRKP | TIOCSBRK | TIOCCBRK | TCXONC | TCFLSH => of_flow(ctx, file, request, arg),
        TIOCVHANGUP => {
            ctx.kernel.hang_up(file.tty);
            ctx.take_own_signals();
            Ok(0)
        }
        request if CHANGES.contains(&request) => change_settings(ctx, file, request, arg),
        _ => of_terminal(ctx, file, request, arg),
    };
    ctx.settle_terminal(file.tty);
    result
}

fn put<T: IntoBytes + Immutable>(ctx: &Ctx<'_>, address: u64, value: &T) -> SysResult {
    ctx.process.memory.write_value(address, value)?;
    Ok(0)
}

fn pair<'a>(ctx: &'a mut Ctx<'_>, file: TtyFile) -> &'a mut Pair {
    ctx.kernel.terminals.of_mut(file)
}

/// Controlling terminal and foreground group.
fn of_session(ctx: &mut Ctx<'_>, file: TtyFile, request: u32, arg: u64) -> SysResult {
    let own = ctx.process.terminal == Some(file.tty);
    let by_master = file.side == Side::Master;
    match request {
        TIOCSCTTY => {
            ctx.demand_terminal(file.tty, arg as i32 == 1)?;
            Ok(0)
        }
        TIOCNOTTY if !own || by_master => Err(Errno::ENOTTY.into()),
        TIOCNOTTY => {
            ctx.give_up_terminal();
            Ok(0)
        }
        TIOCGPGRP if own || by_master => {
            let group = pair(ctx, file).foreground.map_or(0, |group| group.0);
            put(ctx, arg, &group)
        }
        TIOCGSID if own || by_master => {
            let session = pair(ctx, file).session.ok_or(Errno::ENOTTY)?.0;
            put(ctx, arg, &session)
        }
        TIOCSPGRP => {
            if let Err(outcome) = ctx.check_foreground(file.tty, Signal::SIGTTOU) {
                return Err(if outcome == Errno::EIO.into() { Errno::ENOTTY.into() } else { outcome });
            }
            let group: i32 = ctx.process.memory.read_value(arg)?;
            ctx.set_foreground(file.tty, group)?;
            Ok(0)
        }
        _ => Err(Errno::ENOTTY.into()),
    }
}

/// What only the master answers.
fn of_master(ctx: &mut Ctx<'_>, file: TtyFile, request: u32, arg: u64) -> SysResult {
    if file.side != Side::Master {
        return Err(if request == TIOCGPTPEER { Errno::EIO } else { Errno::ENOTTY }.into());
    }
    match request {
        TIOCGPTN => put(ctx, arg, &file.tty),
        TIOCSPTLCK => {
            let value: i32 = ctx.process.memory.read_value(arg)?;
            pair(ctx, file).locked = value != 0;
            Ok(0)
        }
        TIOCGPTLCK => {
            let locked = i32::from(pair(ctx, file).locked);
            put(ctx, arg, &locked)
        }
        TIOCPKT => {
            let value: i32 = ctx.process.memory.read_value(arg)?;
            let pair = pair(ctx, file);
            if value != 0 && !pair.packet {
                pair.packet_status = 0;
            }
            pair.packet = value != 0;
            Ok(0)
        }
        TIOCGPKT => {
            let packet = i32::from(pair(ctx, file).packet);
            put(ctx, arg, &packet)
        }
        TIOCSIG => {
            let known = [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTSTP];
            let signal = known.into_iter().find(|signal| signal.raw() == arg as i32).ok_or(Errno::EINVAL)?;
            pair(ctx, file).effects.signals.push(signal);
            Ok(0)
        }
        // As it is not opened by open(2), F_GETFL shows O_CLOEXEC and no O_LARGEFILE.
        _ => super::open_slave(ctx, file.tty, arg as u32, arg as u32 & !(O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC)),
    }
}

fn shown_settings(ctx: &mut Ctx<'_>, file: TtyFile, request: u32, arg: u64) -> SysResult {
    let termios = pair(ctx, file).termios;
    match request {
        TCGETS => put(ctx, arg, &settings::shown(&termios)),
        TCGETA => put(ctx, arg, &settings::shown_short(&termios)),
        _ => put(ctx, arg, &termios),
    }
}

fn change_settings(ctx: &mut Ctx<'_>, file: TtyFile, request: u32, arg: u64) -> SysResult {
    ctx.check_foreground(file.tty, Signal::SIGTTOU)?;
    let present = pair(ctx, file).termios;
    let memory = &ctx.process.memory;
    let termios = match request {
        TCSETS | TCSETSW | TCSETSF => settings::of_termios(&memory.read_value(arg)?, &present),
        TCSETA | TCSETAW | TCSETAF => settings::of_short(&memory.read_value(arg)?, &present),
        _ => settings::completed(memory.read_value(arg)?),
    };
    let pair = pair(ctx, file);
    if matches!(request, TCSETSF | TCSETAF | TCSETSF2) {
        pair.flush_input();
    }
    pair.set_termios(termios);
    Ok(0)
}

/// Breaks (there is no line that could carry one), stopping and flushing.
fn of_flow(ctx: &mut Ctx<'_>, file: TtyFile, request: u32, arg: u64) -> SysResult {
    if file.side == Side::Slave {
        ctx.check_foreground(file.tty, Signal::SIGTTOU)?;
    }
    let by_master = file.side == Side::Master;
    let pair = pair(ctx, file);
    match (request, arg) {
        (TCFLSH, TCIFLUSH | TCOFLUSH | TCIOFLUSH) if by_master => {
            if arg != TCOFLUSH {
                pair.flush_shown();
            }
            if arg != TCIFLUSH {
                pair.flush_unheard();
            }
        }
        (TCFLSH, TCIFLUSH) => pair.flush_input(),
        (TCFLSH, TCOFLUSH) => pair.flush_output(),
        (TCFLSH, TCIOFLUSH) => {
            pair.flush_input();
            pair.flush_output();
        }
        (TCXONC, TCOOFF | TCOON) if by_master => {
            pair.master_stopped = arg == TCOOFF;
            pair.has_room(Side::Master);
        }
        (TCXONC, TCOOFF) if !pair.stopped_by_call => {
            pair.stop_output();
            pair.stopped_by_call = true;
        }
        (TCXONC, TCOON) if pair.stopped_by_call => {
            pair.stopped_by_call = false;
            pair.start_output();
        }
        (TCXONC, TCIOFF | TCION) if !by_master => {
            let place = if arg == TCIOFF { VSTOP } else { VSTART };
            pair.send_character(pair.termios.c_cc[place]);
        }
        (TCXONC, TCOOFF | TCOON | TCIOFF | TCION) => {}
        (TCFLSH | TCXONC, _) => return Err(Errno::EINVAL.into()),
        _ => {}
    }
    Ok(0)
}

fn of_terminal(ctx: &mut Ctx<'_>, file: TtyFile, request: u32, arg: u64) -> SysResult {
    let side = usize::from(file.side == Side::Slave);
    match request {
        FIONREAD => {
            let pair = pair(ctx, file);
            let count = if file.side == Side::Master { pair.master_unread() } else { pair.unread() };
            put(ctx, arg, &(count as i32))
        }
        TIOCOUTQ => put(ctx, arg, &0i32),
        TIOCGWINSZ => {
            let window = pair(ctx, file).window;
            put(ctx, arg, &window)
        }
        TIOCSWINSZ => {
            let window: Winsize = ctx.process.memory.read_value(arg)?;
            let pair = pair(ctx, file);
            if std::mem::replace(&mut pair.window, window) != window {
                pair.effects.signals.push(Signal::SIGWINCH);
            }
            Ok(0)
        }
        TIOCEXCL | TIOCNXCL => {
            pair(ctx, file).exclusive[side] = request == TIOCEXCL;
            Ok(0)
        }
        TIOCGEXCL => {
            let exclusive = i32::from(pair(ctx, file).exclusive[side]);
            put(ctx, arg, &exclusive)
        }
        TIOCGETD => put(ctx, arg, &0i32),
        TIOCSETD => {
            let discipline: i32 = ctx.process.memory.read_value(arg)?;
            if discipline == 0 { Ok(0) } else { Err(Errno::EINVAL.into()) }
        }
        TIOCGDEV => put(ctx, arg, &(makedev(PTS_MAJOR, file.tty) as u32)),
        // Typing into another program's terminal.
        TIOCSTI => Err(Errno::EIO.into()),
        TIOCCONS => Err(Errno::EINVAL.into()),
        _ => Err(Errno::ENOTTY.into()),
    }
}

impl Pair {
    /// Forgets what the master could read.
    fn flush_shown(&mut self) {
        self.outgoing.clear();
        self.has_room(Side::Slave);
    }

    /// Forgets what the master has written and the terminal's discipline has not taken.
    fn flush_unheard(&mut self) {
        self.incoming.clear();
        self.has_room(Side::Master);
    }

    /// Shows a character past stopped output, as TCIOFF and TCION do. Nothing for a disabled one.
    fn send_character(&mut self, c: u8) {
        if c != DISABLED_CHAR {
            self.show(&[c]);
        }
    }
}
