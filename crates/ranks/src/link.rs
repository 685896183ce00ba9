//! The simulator's end of the way to the other ranks.

use crate::frame::{self, Frame, Frames, Graph, Standing};
use crate::place::Place;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a wait is interrupted to see whether the run was asked to stop.
const LOOK: Duration = Duration::from_millis(50);
/// How long a simulator that was asked to stop waits before it gives the others up, which first come to the end of
/// their window. Where `mpirun` itself was asked, it kills what does not end within a second; but then all are told at
/// once and end their windows early, so nobody waits that long.
const PATIENCE: Duration = Duration::from_secs(30);
/// So often does it look in vain.
const LOOKS_WHEN_STOPPING: u128 = PATIENCE.as_millis() / LOOK.as_millis();
/// How many bytes for one rank are gathered before they go to the companion, in the midst of a window.
const EARLY: usize = 64 << 10;

/// A companion that runs, and through it the other ranks.
#[derive(Debug)]
pub struct Link {
    place: Place,
    /// By rank, bytes on their way; locked by whichever worker has some.
    outgoing: Vec<Mutex<Vec<u8>>>,
    writer: Mutex<UnixStream>,
    reader: Mutex<Frames<UnixStream>>,
    companion: Mutex<Child>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ended(error: &io::Error) -> String {
    format!("gnomon-ranks, which connects the ranks, has ended ({error}); what MPI said of it stands above")
}

impl Link {
    /// Starts the companion, which must be `program`, and waits until MPI has connected it. Call it before the process closes its box.
    ///
    /// # Errors
    /// When there is no such program, or MPI says something else than the environment.
    pub fn start(program: &Path, place: Place) -> Result<Link, String> {
        let connect = || -> io::Result<(UnixStream, UnixStream, Child)> {
            let (own, other) = UnixStream::pair()?;
            let companion = Command::new(program).stdin(OwnedFd::from(other)).spawn()?;
            Ok((own.try_clone()?, own, companion))
        };
        let (reader, writer, companion) =
            connect().map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let mut reader = Frames::new(reader);
        match reader.read().map_err(|error| ended(&error))? {
            Some(Frame::Hello { rank, size }) if (rank as usize, size as usize) == (place.rank, place.size) => {}
            Some(Frame::Hello { rank, size }) => {
                return Err(format!(
                    "the environment says that this is rank {} of {}, and MPI that it is rank {rank} of {size}: mpirun and {} are \
                     of different MPIs; use the mpirun of the MPI that Gnomon was built with",
                    place.rank,
                    place.size,
                    program.display()
                ));
            }
            _ => return Err(ended(&io::ErrorKind::UnexpectedEof.into())),
        }
        reader.stream().set_read_timeout(Some(LOOK)).map_err(|error| ended(&error))?;
        Ok(Link {
            place,
            outgoing: (0..place.size).map(|_| Mutex::default()).collect(),
            writer: Mutex::new(writer),
            reader: Mutex::new(reader),
            companion: Mutex::new(companion),
        })
    }

    pub fn place(&self) -> Place {
        self.place
    }

    /// Adds what `put` appends to the bytes for a rank, which may set out at once.
    ///
    /// # Errors
    /// When the companion has gone.
    pub fn send(&self, rank: usize, put: impl FnOnce(&mut Vec<u8>)) -> Result<(), String> {
        let mut outgoing = lock(&self.outgoing[rank]);
        put(&mut outgoing);
        if outgoing.len() < EARLY {
            return Ok(());
        }
        let mut frame = Vec::with_capacity(outgoing.len() + 2 * frame::HEADER);
        frame::put_bytes(rank as u32, &outgoing, &mut frame);
        outgoing.clear();
        frame::write_out(&mut *lock(&self.writer), &mut frame).map_err(|error| ended(&error))
    }

    /// Waits until all ranks have called this. Gives `take` the bytes that each other rank has sent here since the last time, one call for each
    /// that has sent any, and returns what the ranks come to together. One thread at a time; not while another is in [`Link::send`].
    ///
    /// # Errors
    /// When a rank has gone, or none answers after `is_stopping` has become true.
    pub fn exchange(
        &self,
        own: Standing,
        is_stopping: &dyn Fn() -> bool,
        take: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<Standing, String> {
        let mut frames = Vec::new();
        for (rank, outgoing) in self.outgoing.iter().enumerate() {
            let mut outgoing = lock(outgoing);
            if !outgoing.is_empty() {
                frame::put_bytes(rank as u32, &outgoing, &mut frames);
                outgoing.clear();
            }
        }
        Frame::Standing(own).put(&mut frames);
        lock(&self.writer).write_all(&frames).map_err(|error| ended(&error))?;
        let mut reader = lock(&self.reader);
        let mut looks: u128 = 0;
        loop {
            match reader.read() {
                Ok(Some(Frame::Bytes { rank, bytes })) => take(rank as usize, &bytes),
                Ok(Some(Frame::Standing(all))) => return Ok(all),
                Ok(Some(Frame::Lost(reason))) => return Err(reason),
                Ok(_) => return Err(ended(&io::ErrorKind::UnexpectedEof.into())),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    looks += u128::from(is_stopping());
                    if looks > LOOKS_WHEN_STOPPING {
                        return Err("the other ranks do not answer, and this one was asked to stop".to_owned());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ended(&error)),
            }
        }
    }

    /// Gives every rank what each has to say, in the order of their numbers.
    ///
    /// # Errors
    /// As [`Link::exchange`].
    pub fn share(&self, own: &[u8], is_stopping: &dyn Fn() -> bool) -> Result<Vec<Vec<u8>>, String> {
        let mut all = vec![Vec::new(); self.place.size];
        for rank in (0..self.place.size).filter(|rank| *rank != self.place.rank) {
            self.send(rank, |out| out.extend_from_slice(own))?;
        }
        self.exchange(Standing::default(), is_stopping, &mut |rank, bytes| all[rank] = bytes.to_vec())?;
        all[self.place.rank] = own.to_vec();
        Ok(all)
    }

    /// Divides a graph so that its parts cost about the same and few packets go between them; by host, its part. The companion does it
    /// (METIS), without the other ranks.
    ///
    /// # Errors
    /// When the companion has gone, or METIS refuses the graph.
    pub fn partition(&self, graph: &Graph) -> Result<Vec<u32>, String> {
        let mut frame = Vec::new();
        Frame::Graph(graph.clone()).put(&mut frame);
        lock(&self.writer).write_all(&frame).map_err(|error| ended(&error))?;
        let mut reader = lock(&self.reader);
        loop {
            match reader.read() {
                Ok(Some(Frame::Parts(parts))) if parts.len() == graph.weights.len() => {
                    return Ok(parts.into_iter().map(|part| (part as u32).min(graph.parts - 1)).collect());
                }
                Ok(Some(_)) => return Err("METIS cannot divide the hosts by these costs".to_owned()),
                Ok(None) => return Err(ended(&io::ErrorKind::UnexpectedEof.into())),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Err(error) => return Err(ended(&error)),
            }
        }
    }

    /// The run is over on all ranks: waits until the companion has taken its leave of the others.
    pub fn end(self) {
        let mut frame = Vec::new();
        Frame::End.put(&mut frame);
        if lock(&self.writer).write_all(&frame).is_ok() {
            let _ = lock(&self.companion).wait();
        }
    }
}
