//! SIGTERM and SIGINT as a readable end in the event loop, so that the program can say what it did before it ends.

use mio::net::UnixStream;
use mio::{Interest, Registry, Token};
use std::io;

/// Ends the loop that polls `registry` when the program is asked to end: `token` becomes readable. Keep the value.
pub fn register(registry: &Registry, token: Token) -> io::Result<UnixStream> {
    let (mut read, write) = UnixStream::pair()?;
    let write = std::os::unix::net::UnixStream::from(std::os::fd::OwnedFd::from(write));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
    }
    registry.register(&mut read, token, Interest::READABLE)?;
    Ok(read)
}
