//! Signals that ask the program for something, as one more descriptor of its event loop.

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::io;
use std::os::fd::AsRawFd;

/// Those for which tor has an answer.
const TAKEN: [Signal; 5] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2];

/// Where signals come in, rather than end the program.
pub struct Signals {
    descriptor: SignalFd,
}

impl Signals {
    /// From now on `token` becomes readable when one comes. Call it while the program has one thread.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub fn register(registry: &Registry, token: Token) -> io::Result<Signals> {
        let taken: SigSet = TAKEN.into_iter().collect();
        taken.thread_block()?;
        let descriptor = SignalFd::with_flags(&taken, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        registry.register(&mut SourceFd(&descriptor.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Signals { descriptor })
    }

    /// The next that has come.
    pub fn take(&mut self) -> Option<Signal> {
        let came = self.descriptor.read_signal().ok()??;
        Signal::try_from(i32::try_from(came.ssi_signo).ok()?).ok()
    }
}
