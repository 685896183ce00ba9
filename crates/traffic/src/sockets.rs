//! Open TCP sockets, as many as wanted: what they take of a kernel's memory, and how long it takes to open one more.
//!
//! The sockets are the two ends of connections over loopback, which say nothing. What one process may not have, another opens that it starts. Whatever else the
//! kernel refuses ends the opening, and a line says what that was.

use crate::clock;
use crate::output::{Line, Output, Totals};
use mio::net::{TcpListener, TcpStream};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command};
use std::time::Duration;

/// Connections to one port. There are 28,232 ports to connect from (`net.ipv4.ip_local_port_range`), of which connect(2) prefers every other one, and looks for
/// a free one among those: it should not take long to find.
const OF_A_PORT: u64 = 10_000;
/// Descriptors that are none of the sockets that are counted.
const OTHERS: u64 = 64;

#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Sockets to open: two for each connection.
    pub count: u64,
    /// Sockets that other processes have opened for the same purpose, which lines count as well.
    pub before: u64,
    /// A line after so many of them.
    pub every: u64,
    /// How long they stay open when all are there.
    pub hold: Duration,
}

/// Where a kernel says how much of its memory holds objects such as sockets, as proc(5) has it; none where it does not.
fn slab_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Slab:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Asks for as many descriptors as are needed, as far as the system gives them: as root more than the hard limit. Returns how many sockets this
/// process may open.
fn ask_for_descriptors(count: u64) -> io::Result<u64> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let wanted = count + OTHERS;
    if wanted > hard && setrlimit(Resource::RLIMIT_NOFILE, wanted, wanted).is_ok() {
        return Ok(count);
    }
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < wanted {
        setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard)?;
    }
    // Both ends of each.
    Ok(count.min(hard.saturating_sub(OTHERS) / 2 * 2))
}

/// What is open.
struct Open {
    listener: TcpListener,
    /// Connections to it.
    to_port: u64,
    sockets: Vec<TcpStream>,
    full: Vec<TcpListener>,
}

fn listen() -> io::Result<TcpListener> {
    TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
}

impl Open {
    /// One connection more; returns how long the call took that makes a socket and connects it.
    fn open(&mut self) -> io::Result<Duration> {
        if self.to_port == OF_A_PORT {
            self.full.push(std::mem::replace(&mut self.listener, listen()?));
            self.to_port = 0;
        }
        let address = self.listener.local_addr()?;
        let began = clock::now();
        let socket = TcpStream::connect(address)?;
        let took = clock::now() - began;
        self.to_port += 1;
        self.sockets.push(socket);
        loop {
            match self.listener.accept() {
                Ok((socket, _)) => {
                    self.sockets.push(socket);
                    return Ok(took);
                }
                // Over loopback it is there at once, or in a moment of a simulated one's.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    std::thread::sleep(Duration::from_micros(1));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// A process that opens more, and writes where this one does.
fn another(settings: &Settings) -> io::Result<Child> {
    let Settings { count, before, every, hold } = settings;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["sockets", "--count", &count.to_string(), "--before", &before.to_string()]);
    command.args(["--every", &every.to_string(), "--hold", &format!("{} ms", hold.as_millis())]).spawn()
}

/// Opens sockets until all are there or no more are given, and holds them.
///
/// # Errors
/// What the system says before the first socket.
pub fn run(settings: &Settings, output: &mut Output) -> io::Result<()> {
    let count = ask_for_descriptors(settings.count)?;
    let mut open =
        Open { listener: listen()?, to_port: 0, sockets: Vec::with_capacity(count as usize), full: Vec::new() };
    let mut line = |sockets: usize, took: Duration, connections: u64, error: Option<&io::Error>| {
        output.line(&Line::Sockets {
            at: clock::unix(),
            open: settings.before + sockets as u64,
            slab: slab_bytes(),
            connect: (connections > 0).then(|| took.as_secs_f64() / connections as f64),
            limit: error.map(ToString::to_string),
        });
    };
    if settings.before == 0 {
        line(0, Duration::ZERO, 0, None);
    }
    let (mut took, mut connections, mut is_refused) = (Duration::ZERO, 0, false);
    while (open.sockets.len() as u64) < count {
        match open.open() {
            Ok(time) => (took, connections) = (took + time, connections + 1),
            Err(error) => {
                line(open.sockets.len(), took, connections, Some(&error));
                is_refused = true;
                break;
            }
        }
        let sockets = open.sockets.len() as u64;
        if sockets % settings.every.max(2) < 2 || sockets >= count {
            line(open.sockets.len(), took, connections, None);
            (took, connections) = (Duration::ZERO, 0);
        }
    }
    if count < settings.count && !is_refused {
        let more = Settings { count: settings.count - count, before: settings.before + count, ..settings.clone() };
        let ended = another(&more)?.wait()?;
        if !ended.success() {
            return Err(io::Error::other(format!("the process that was to open more has ended: {ended}")));
        }
    } else {
        std::thread::sleep(settings.hold);
    }
    if settings.before > 0 {
        return Ok(());
    }
    output.end(Totals::default());
    Ok(())
}
