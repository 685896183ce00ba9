//! Hosts that wait, within a round, for what one worker at a time can have ([`take_exclusive`](crate::Worker::take_exclusive)).
//!
//! Nobody sleeps for it: a worker that meets such a host leaves it here and goes on with others. Whoever has the exclusive thing runs what is here
//! before all else. A worker may go to the barrier when nothing is here, or when another has the thing after it has looked: that one
//! looks again once it has given it up.

use crate::sync::{AtomicUsize, Mutex, Ordering, fence, lock};

#[derive(Debug)]
#[repr(align(128))]
pub struct Waiting {
    hosts: Mutex<Vec<u32>>,
    /// How many there are, to be read without the lock.
    count: AtomicUsize,
}

/// A worker, as far as those that wait are concerned.
pub trait Holder {
    /// Takes the exclusive thing, unless another worker has it; whether it is this one's now.
    fn take(&mut self) -> bool;
    fn give_up(&mut self);
    /// Runs a host, with the exclusive thing.
    fn run(&mut self, host: u32);
}

impl Waiting {
    pub fn new() -> Self {
        Waiting { hosts: Mutex::new(Vec::new()), count: AtomicUsize::new(0) }
    }

    pub fn push(&self, host: u32) {
        let mut hosts = lock(&self.hosts);
        hosts.push(host);
        self.count.store(hosts.len(), Ordering::Relaxed);
        drop(hosts);
        // Before the worker looks whether another one has the thing: either it sees that this is not so, or that one sees the host.
        fence(Ordering::SeqCst);
    }

    fn pop(&self) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        let mut hosts = lock(&self.hosts);
        let host = hosts.pop();
        self.count.store(hosts.len(), Ordering::Relaxed);
        host
    }

    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Runs the hosts that wait, if the worker can have what they need.
    pub fn run(&self, worker: &mut impl Holder) {
        if !self.is_empty() && worker.take() {
            while let Some(host) = self.pop() {
                worker.run(host);
            }
        }
    }

    /// The last of a round: nothing waits any more, or waits for a worker that will look again.
    pub fn finish(&self, worker: &mut impl Holder) {
        loop {
            self.run(worker);
            worker.give_up();
            fence(Ordering::SeqCst);
            // What another worker left here while this one had the thing is nobody else's to run. If another has it by now, that one looks.
            if self.is_empty() || !worker.take() {
                return;
            }
        }
    }
}
