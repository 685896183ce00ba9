//! A simulated host with one process, whose threads make calls by hand.

use crate::folder;
use base::{HostId, SimDuration, SimTime};
use guest::Worker;
use simkernel::host::Addresses;
use simkernel::{Ctx, HostConfig, HostName, Kernel, ThreadState, Tid};
use std::cell::RefCell;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

thread_local! {
    static WORKER: RefCell<Worker> = RefCell::new(Worker::new().expect("a machine on which guests run"));
}

/// What guests can make the process use.
const MEMORY: u64 = 1 << 30;

/// How much of the stack, from here on, belongs to arguments: it lies in its midst.
pub const AREA_BYTES: u64 = 1 << 20;

pub struct Machine {
    pub kernel: Kernel,
    pub now: SimTime,
    /// All threads that were ever seen.
    pub threads: Vec<Tid>,
    /// Where arguments go.
    pub area: u64,
    next: u64,
}

impl Machine {
    /// A host that writes in a folder of its own.
    pub fn new() -> Machine {
        guest::map_arenas().expect("addresses for guests");
        guest::limit_memory(MEMORY);
        // Before the first copy that may fault.
        WORKER.with(|_| ());
        let mut kernel = Kernel::new(config(&folder::empty("run")));
        let now = SimTime::ZERO;
        let main = kernel.start_by_hand(b"/gnomon-run/data/hosts/host1", now).expect("room for a process");
        let mut machine = Machine { kernel, now, threads: vec![main], area: 0, next: 0 };
        machine.with(main, |ctx| {
            let area = ctx.process.memory.stack_end() - (4 << 20);
            (linux_abi::nr::sched_yield.into(), [area, 0, 0, 0, 0, 0])
        });
        machine.area = machine.kernel.threads.get(main.0).expect("a thread").call.args[0];
        machine.next = machine.area;
        machine
    }

    /// A thread's turn, in which it makes the chosen call, unless it still has another to do.
    pub fn with(&mut self, tid: Tid, choose: impl FnOnce(&mut Ctx<'_>) -> (u64, [u64; 6])) {
        WORKER.with_borrow_mut(|worker| self.kernel.call_by_hand(tid, worker, self.now, choose));
        for tid in &self.kernel.runnable {
            if !self.threads.contains(tid) {
                self.threads.push(*tid);
            }
        }
    }

    /// All threads could execute: nothing that they were given ends the simulator.
    pub fn check_threads(&self) {
        for thread in self.kernel.threads.iter() {
            assert!(thread.vcpu.can_be_loaded(), "thread {}: {:?}", thread.tid, thread.vcpu.registers());
        }
    }

    /// A call of the first thread: what it returned. A call that waits goes on as long as time brings something.
    pub fn call(&mut self, number: u32, args: &[u64]) -> u64 {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        let main = self.threads[0];
        self.with(main, |_| (number.into(), all));
        for _ in 0..16 {
            match self.kernel.threads.get(main.0).map(|thread| (thread.state, thread.wake)) {
                Some((ThreadState::Runnable, simkernel::Wake::First)) => break,
                Some((ThreadState::Runnable, _)) => self.with(main, |_| (linux_abi::nr::sched_yield.into(), [0; 6])),
                Some(_) if self.pass_time() => {}
                _ => break,
            }
        }
        self.result(main)
    }

    /// What a thread's last call returned.
    pub fn result(&self, tid: Tid) -> u64 {
        self.kernel.threads.get(tid.0).map_or(0, |thread| thread.vcpu.registers().rax)
    }

    /// Puts an argument into the first thread's memory: where it lies.
    pub fn put(&mut self, bytes: &[u8]) -> u64 {
        let at = self.next;
        self.next += (bytes.len() as u64).next_multiple_of(16);
        if self.next > self.area + AREA_BYTES {
            self.next = self.area;
            return self.area;
        }
        let main = self.threads[0];
        self.with(main, |ctx| {
            ctx.process.memory.write(at, bytes).expect("the stack");
            (linux_abi::nr::sched_yield.into(), [0; 6])
        });
        at
    }

    /// Goes on to the next moment at which something happens; false when nothing will.
    pub fn pass_time(&mut self) -> bool {
        let deadlines = [self.kernel.next_timer(), self.kernel.net.stack.next_deadline()];
        let Some(next) = deadlines.into_iter().flatten().min() else { return false };
        self.pass_to(next.min(self.now + SimDuration::from_secs(3600)));
        true
    }

    /// Lets timers fire and packets leave, to nowhere.
    pub fn pass_to(&mut self, moment: SimTime) {
        self.now = self.now.max(moment);
        self.kernel.fire_timers(self.now);
        self.kernel.settle_network(self.now);
        while self.kernel.poll_transmit(self.now).is_some() {}
        self.kernel.settle_network(self.now);
    }

    /// Ends all processes, which must leave nothing behind.
    pub fn end(mut self) {
        WORKER.with_borrow_mut(|worker| self.kernel.end_by_hand(worker, self.now));
        assert!(self.kernel.region.is_free(), "memory of processes that ended");
    }
}

fn config(data: &Path) -> HostConfig {
    let addresses = |last: u8| Addresses {
        v4: Ipv4Addr::new(11, 0, 0, last),
        v6: Some(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0xb00, last.into())),
    };
    let names = [1, 2].map(|last| HostName { name: format!("host{last}"), addresses: addresses(last) });
    let plain = HostConfig::plain(HostId(0), &names[0], &names, data);
    std::fs::create_dir_all(&plain.host_dir).expect("a folder");
    HostConfig { real_descriptors: 16, open_files: 256, ..plain }
}
