//! The companion of one rank's simulator: the only program of Gnomon that links with MPI.
//!
//! It is started by the simulator, with one end of a pair of sockets as its standard input, and ends with it. One thread does all: it
//! sleeps in the socket while a window is executed, and sees to MPI while ranks wait for each other, when it also looks whether
//! one of them has gone. No call of MPI in it waits for another rank.

mod exchange;
mod partition;

use exchange::Exchange;
use mpi::Threading;
use mpi::traits::*;
use nix::sys::signal::{SigSet, Signal};
use ranks::frame::{Frame, Frames, write_out};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

fn main() -> ExitCode {
    // The simulator has the same signals, and needs the others to end its recordings in order.
    let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
    let _ = signals.thread_block();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gnomon-ranks: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<()> {
    let simulator = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    if simulator.peer_addr().is_err() {
        return Err(io::Error::other("'gnomon run' starts this program under mpirun; it does nothing by itself"));
    }
    let (universe, _) = mpi::initialize_with_threading(Threading::Single)
        .ok_or_else(|| io::Error::other("MPI is running in this process already"))?;
    let world = universe.world();
    let mut writer = simulator.try_clone()?;
    let mut frames = Frames::new(simulator);
    let mut out = Vec::new();
    Frame::Hello { rank: world.rank() as u32, size: world.size() as u32 }.put(&mut out);
    write_out(&mut writer, &mut out)?;
    let mut exchange = Exchange::new(world);
    loop {
        match frames.read() {
            Ok(Some(Frame::Bytes { rank, bytes })) => exchange.add(rank as usize, &bytes),
            Ok(Some(Frame::Standing(own))) => {
                let all = exchange.run(own, frames.stream());
                exchange.put_received(&mut out);
                Frame::Standing(all).put(&mut out);
                if write_out(&mut writer, &mut out).is_err() {
                    exchange.leave();
                }
            }
            Ok(Some(Frame::Graph(graph))) => {
                Frame::Parts(partition::divide(&graph)).put(&mut out);
                write_out(&mut writer, &mut out)?;
            }
            Ok(Some(Frame::End)) => return Ok(()),
            _ => exchange.leave(),
        }
    }
}
