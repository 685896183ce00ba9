//! One exchange between all ranks: bytes to those for whom there are some, and one reduction of what each knows, which also tells how many
//! messages each is to wait for.

use base::wall::WallClock;
use mpi::collective::SystemOperation;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ranks::frame::{self, Frame, NEVER, SUMS, Standing, write_out};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Tags of messages: bytes of even and of odd exchanges, since a fast rank sends for the next while a slow one still receives; and the news
/// that a rank has gone.
const BYTES: [i32; 2] = [1, 2];
const GONE: i32 = 3;

/// Messages of MPI have at most 2^31 - 1 elements.
const LARGEST: usize = 1 << 30;

/// How long a rank looks without pause, and how long the pauses are from then on.
const EAGER: Duration = Duration::from_micros(200);
const PAUSE: Duration = Duration::from_micros(50);
/// How long the last message of a rank that leaves may take.
const FAREWELL: Duration = Duration::from_millis(300);

pub struct Exchange {
    world: SimpleCommunicator,
    rank: usize,
    size: usize,
    /// By rank, what is to be sent.
    outgoing: Vec<Vec<u8>>,
    /// By rank, what has come in this exchange.
    incoming: Vec<Vec<u8>>,
    number: u64,
}

/// What ranks reduce by the maximum of each element: the complement of the earliest event, the wish to halt, and for each rank a row that
/// only it fills: its sums, and how many messages it sends to each.
const FIXED: usize = 2;

impl Exchange {
    pub fn new(world: SimpleCommunicator) -> Exchange {
        let (rank, size) = (world.rank() as usize, world.size() as usize);
        let empty = || (0..size).map(|_| Vec::new()).collect();
        Exchange { world, rank, size, outgoing: empty(), incoming: empty(), number: 0 }
    }

    /// Adds to what is sent to a rank in the next exchange.
    pub fn add(&mut self, rank: usize, bytes: &[u8]) {
        self.outgoing[rank].extend_from_slice(bytes);
    }

    /// Appends frames of what has come.
    pub fn put_received(&mut self, out: &mut Vec<u8>) {
        for (rank, bytes) in self.incoming.iter_mut().enumerate().filter(|(_, bytes)| !bytes.is_empty()) {
            frame::put_bytes(rank as u32, bytes, out);
            bytes.clear();
        }
    }

    /// Sends, receives and agrees. Where a rank has gone, the own simulator included, it tells the simulator and leaves.
    pub fn run(&mut self, own: Standing, simulator: &UnixStream) -> Standing {
        let tag = BYTES[(self.number % 2) as usize];
        self.number += 1;
        let row = SUMS + self.size;
        let mut mine = vec![0; FIXED + self.size * row];
        mine[0] = NEVER - own.next.unwrap_or(NEVER);
        mine[1] = own.halt.into();
        let begin = FIXED + self.rank * row;
        mine[begin..begin + SUMS].copy_from_slice(&own.sums);
        for (to, bytes) in self.outgoing.iter().enumerate() {
            mine[begin + SUMS + to] = bytes.len().div_ceil(LARGEST) as u64;
        }
        let mut all = vec![0u64; mine.len()];
        let mut received = 0;
        let (world, outgoing, incoming) = (&self.world, &self.outgoing, &mut self.incoming);
        let mut patience = Patience::new(simulator);
        mpi::request::scope(|scope| {
            let mut requests: Vec<_> = outgoing
                .iter()
                .enumerate()
                .flat_map(|(to, bytes)| bytes.chunks(LARGEST).map(move |chunk| (to, chunk)))
                .map(|(to, chunk)| world.process_at_rank(to as i32).immediate_send_with_tag(scope, chunk, tag))
                .collect();
            let maximum = SystemOperation::max();
            let mut reduction = Some(world.immediate_all_reduce_into(scope, &mine[..], &mut all[..], maximum));
            while reduction.is_some() || !requests.is_empty() {
                reduction = reduction.and_then(|request| request.test().err());
                requests = requests.into_iter().filter_map(|request| request.test().err()).collect();
                received += receive(world, tag, incoming);
                patience.wait(world);
            }
        });
        let rows = || all[FIXED..].chunks(row);
        let expected: u64 = rows().map(|row| row[SUMS + self.rank]).sum();
        while received < expected {
            received += receive(world, tag, incoming);
            patience.wait(world);
        }
        self.outgoing.iter_mut().for_each(Vec::clear);
        let mut sums = [0; SUMS];
        for (place, sum) in sums.iter_mut().enumerate() {
            *sum = rows().map(|row| row[place]).sum();
        }
        let next = Some(NEVER - all[0]).filter(|next| *next != NEVER);
        Standing { next, halt: all[1] != 0, sums }
    }

    /// The simulator has gone before its time: so does its rank.
    pub fn leave(&self) -> ! {
        leave(&self.world)
    }
}

/// Tells the other ranks that this one has gone, and ends the process without waiting for them.
fn leave(world: &SimpleCommunicator) -> ! {
    let clock = WallClock::start();
    mpi::request::scope(|scope| {
        let others = (0..world.size()).filter(|rank| *rank != world.rank());
        let mut requests: Vec<_> = others
            .map(|rank| world.process_at_rank(rank).immediate_send_with_tag(scope, &[0u8; 0][..], GONE))
            .collect();
        // What is on its way is carried on by looking for what will not come.
        while clock.elapsed() < FAREWELL {
            requests = requests.into_iter().filter_map(|request| request.test().err()).collect();
            let _ = world.any_process().immediate_probe_with_tag(BYTES[0]);
            std::thread::sleep(PAUSE);
        }
        std::process::exit(1)
    })
}

/// Receives the messages that are here; how many.
fn receive(world: &SimpleCommunicator, tag: i32, incoming: &mut [Vec<u8>]) -> u64 {
    let mut received = 0;
    while let Some((message, status)) = world.any_process().immediate_matched_probe_with_tag(tag) {
        let from = &mut incoming[status.source_rank() as usize];
        let filled = from.len();
        from.resize(filled + status.count(u8::equivalent_datatype()) as usize, 0);
        message.matched_receive_into(&mut from[filled..]);
        received += 1;
    }
    received
}

/// How a rank waits for others: without pause at first, since they often are as far; then with pauses, looking whether anybody has gone.
struct Patience<'a> {
    since: WallClock,
    simulator: &'a UnixStream,
}

impl Patience<'_> {
    fn new(simulator: &UnixStream) -> Patience<'_> {
        Patience { since: WallClock::start(), simulator }
    }

    fn wait(&mut self, world: &SimpleCommunicator) {
        if self.since.elapsed() < EAGER {
            return std::thread::yield_now();
        }
        if let Some(status) = world.any_process().immediate_probe_with_tag(GONE) {
            let mut out = Vec::new();
            Frame::Lost(format!("rank {} has gone", status.source_rank())).put(&mut out);
            let _ = write_out(&mut &*self.simulator, &mut out);
            leave(world);
        }
        let mut ends = [PollFd::new(self.simulator.as_fd(), PollFlags::POLLHUP)];
        if poll(&mut ends, PollTimeout::ZERO).is_ok_and(|count| count > 0) {
            leave(world);
        }
        std::thread::sleep(PAUSE);
    }
}
