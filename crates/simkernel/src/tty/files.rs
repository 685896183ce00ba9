//! Opening, closing and hanging up terminals.

use super::{Pair, Side, TtyFile, TtyId};
use crate::ctx::Ctx;
use crate::files::{FileKind, OpenFile};
use crate::ids::FileId;
use crate::kernel::Kernel;
use crate::outcome::SysResult;
use crate::wait::Events;
use linux_abi::Errno;
use linux_abi::fs::{O_ACCMODE, O_ASYNC, O_CLOEXEC, O_NOCTTY, O_WRONLY};

/// What everyone learns who waits for a terminal that is gone.
const GONE: Events = Events(Events::READABLE.0 | Events::WRITABLE.0 | Events::HUP.0 | Events::ERR.0);

/// Opens `/dev/ptmx`: a new pair, whose terminal is locked. `status` is what F_GETFL shows.
pub(crate) fn open_master(ctx: &mut Ctx<'_>, flags: u32, status: u32) -> SysResult {
    let tty = ctx.kernel.terminals.lowest_free();
    let file = TtyFile { tty, side: Side::Master, controlling: false, hung: false };
    let id = ctx.kernel.files.insert(OpenFile::new(FileKind::Terminal(file), status));
    let mut pair = Pair::new(ctx.now);
    pair.master = Some(id);
    pair.owner.0 = ctx.credentials().user.fs;
    ctx.kernel.terminals.pairs.insert(tty, pair);
    Ok(ctx.install(id, flags & O_CLOEXEC != 0)?)
}

/// Opens `/dev/tty`. ENXIO without a controlling terminal.
pub(crate) fn open_controlling(ctx: &mut Ctx<'_>, flags: u32, status: u32) -> SysResult {
    let tty = ctx.process.terminal.ok_or(Errno::ENXIO)?;
    open(ctx, TtyFile { tty, side: Side::Slave, controlling: true, hung: false }, flags | O_NOCTTY, status)
}

/// Opens a terminal: it may become the controlling one. EIO while it is locked, and once its master is closed.
pub(crate) fn open_slave(ctx: &mut Ctx<'_>, tty: TtyId, flags: u32, status: u32) -> SysResult {
    open(ctx, TtyFile { tty, side: Side::Slave, controlling: false, hung: false }, flags, status)
}

fn open(ctx: &mut Ctx<'_>, file: TtyFile, flags: u32, status: u32) -> SysResult {
    let pair = ctx.kernel.terminals.pairs.get_mut(&file.tty).ok_or(Errno::EIO)?;
    if pair.locked || pair.master.is_none() {
        return Err(Errno::EIO.into());
    }
    pair.slave_closed = false;
    let id = ctx.kernel.files.insert(OpenFile::new(FileKind::Terminal(file), status));
    pair.slaves.push(id);
    if flags & O_NOCTTY == 0 && flags & O_ACCMODE != O_WRONLY {
        ctx.adopt_terminal(file.tty);
    }
    Ok(ctx.install(id, flags & O_CLOEXEC != 0)?)
}

impl Kernel {
    /// The last descriptor of an open file of a terminal is closed.
    pub(crate) fn close_terminal(&mut self, id: FileId, file: TtyFile) {
        let pair = self.terminals.of_mut(file);
        if file.hung {
            pair.hung -= 1;
        } else if file.side == Side::Slave {
            pair.slaves.retain(|slave| *slave != id);
            if pair.slaves.is_empty() {
                pair.slave_closed = true;
                if let Some(master) = pair.master {
                    self.notify(master, Events::HUP | Events::READABLE);
                }
            }
        } else {
            pair.master = None;
            self.hang_up(file.tty);
        }
        let pair = self.terminals.of(file);
        if pair.master.is_none() && pair.hung == 0 && pair.slaves.is_empty() {
            self.terminals.pairs.remove(&file.tty);
        }
    }

    /// What an open file of a terminal is ready for.
    pub(crate) fn poll_terminal(&self, file: TtyFile) -> Events {
        match file.side {
            _ if file.hung => GONE,
            Side::Master => self.terminals.of(file).poll_master(),
            Side::Slave => self.terminals.of(file).poll_slave(),
        }
    }

    /// Hangs a terminal up: its open files are good for nothing any more, and its session learns of it.
    pub(crate) fn hang_up(&mut self, tty: TtyId) {
        let Some(pair) = self.terminals.pairs.get_mut(&tty) else { return };
        let slaves = std::mem::take(&mut pair.slaves);
        pair.hung += slaves.len() as u32;
        pair.slave_closed = true;
        pair.packet_status = 0;
        pair.forget_all();
        let master = pair.master;
        for slave in &slaves {
            if let FileKind::Terminal(file) = &mut self.files[*slave].kind {
                file.hung = true;
            }
            self.files[*slave].status &= !O_ASYNC;
        }
        self.hang_up_session(tty);
        for file in slaves.into_iter().chain(master) {
            self.notify(file, GONE);
        }
    }

    /// Does what an operation on a pair has caused, but for its signals.
    pub(super) fn notify_sides(&mut self, tty: TtyId) {
        let Some(pair) = self.terminals.pairs.get_mut(&tty) else { return };
        let (to_master, to_slave) = (std::mem::take(&mut pair.effects.master), std::mem::take(&mut pair.effects.slave));
        let master = pair.master.filter(|_| !to_master.is_empty());
        let slaves = if to_slave.is_empty() { Vec::new() } else { pair.slaves.clone() };
        if let Some(master) = master {
            self.notify(master, to_master);
        }
        for slave in slaves {
            self.notify(slave, to_slave);
        }
        self.tell_sides(tty);
    }

    /// Sends the signals of the files that have O_ASYNC.
    fn tell_sides(&mut self, tty: TtyId) {
        let Some(pair) = self.terminals.pairs.get_mut(&tty) else { return };
        for (side, events) in std::mem::take(&mut pair.effects.told) {
            let Some(pair) = self.terminals.pairs.get(&tty) else { return };
            let files = match side {
                Side::Master => pair.master.into_iter().collect(),
                Side::Slave => pair.slaves.clone(),
            };
            files.into_iter().for_each(|file| self.tell_by_signal(file, events));
        }
    }
}

impl Pair {
    /// What was on its way is lost with the line.
    fn forget_all(&mut self) {
        self.cells.clear();
        self.complete = 0;
        self.incoming.clear();
        self.echoes.clear();
    }
}
