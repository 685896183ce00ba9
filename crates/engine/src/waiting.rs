//! Hosts that wait, within a round, for what one worker at a time can have ([`take_exclusive`](crate::Worker::take_exclusive)).
//!
//! Nobody sleeps for it: a worker that meets such a host leaves it here and goes on with others. Whoever has the exclusive thing runs what is here
//! before all else. A worker may go to the barrier when nothing is here, or when another has the thing after it has looked: that one
//! looks again once it has given it up.

use crate::mailbox::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Waiting {
    hosts: Mutex<Vec<u32>>,
    /// How many there are, to be read without the lock.
    count: AtomicUsize,
}

impl Waiting {
    pub fn push(&self, host: u32) {
        let mut hosts = lock(&self.hosts);
        hosts.push(host);
        self.count.store(hosts.len(), Ordering::SeqCst);
    }

    pub fn pop(&self) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        let mut hosts = lock(&self.hosts);
        let host = hosts.pop();
        self.count.store(hosts.len(), Ordering::SeqCst);
        host
    }

    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }
}
