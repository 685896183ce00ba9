//! One simulated host, whose two threads make the calls of packetdrill's two.

use crate::settings::Settings;
use base::{HostId, SimDuration, SimTime};
use guest::Worker;
use linux_abi::nr;
use simkernel::host::Addresses;
use simkernel::{Ctx, HostConfig, HostName, Kernel, NetworkSettings, ThreadState, Tid, Wake};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, Ipv6Addr};
use tcpip::Packet;

thread_local! {
    static WORKER: RefCell<Worker> = RefCell::new(Worker::new().expect("a machine on which guests run"));
}

/// Room for the arguments of each thread's calls, in bytes of the simulated process's memory.
const ROOM: u64 = 16 << 20;
/// More than a script waits for any packet.
const PATIENCE: SimDuration = SimDuration::from_secs(300);
/// How the kernel tells an error: the negative errno.
const ERRNO_MAX: u64 = 4095;

/// What the simulated thread was asked, and where its arguments lie.
pub struct Host {
    kernel: Kernel,
    now: SimTime,
    threads: Vec<Tid>,
    /// What the last call of each returned.
    results: [u64; 2],
    /// The rooms of both threads, one after the other.
    rooms: u64,
    settings: Settings,
    /// Packets that have left, and when.
    sent: VecDeque<(SimTime, Vec<u8>)>,
}

/// A call with its arguments in the making.
pub struct Arguments {
    next: u64,
    end: u64,
    writes: Vec<(u64, Vec<u8>)>,
}

impl Arguments {
    /// Where `len` bytes will lie.
    pub fn space(&mut self, len: usize) -> u64 {
        let at = self.next;
        self.next += (len as u64).next_multiple_of(16);
        assert!(self.next <= self.end, "arguments of more than {ROOM} bytes");
        at
    }

    /// Where these bytes will lie.
    pub fn put(&mut self, bytes: Vec<u8>) -> u64 {
        let at = self.space(bytes.len());
        self.writes.push((at, bytes));
        at
    }
}

impl Host {
    pub fn new(settings: &Settings) -> Host {
        guest::map_arenas().expect("addresses for guests");
        WORKER.with(|_| ());
        let now = SimTime::ZERO + SimDuration::from_secs(1);
        let mut kernel = Kernel::new(config(settings));
        let main = kernel.start_by_hand(b"/gnomon-run/data/hosts/host", now).expect("room for a process");
        let mut host = Host {
            kernel,
            now,
            threads: vec![main],
            results: [0; 2],
            rooms: 0,
            settings: settings.clone(),
            sent: VecDeque::new(),
        };
        let anonymous = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let rights = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        host.rooms = host.call(nr::mmap, [0, 2 * ROOM, rights, anonymous, u64::MAX, 0]).expect("room for arguments");
        let thread = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
        let other = host.call(nr::clone, [thread as u64, host.rooms + 4096, 0, 0, 0, 0]).expect("a second thread");
        host.threads.push(Tid(other as u32));
        // As packetdrill does for itself.
        let mut arguments = host.arguments(0);
        let mut ignore = [0u8; 32];
        ignore[..8].copy_from_slice(&(libc::SIG_IGN as u64).to_ne_bytes());
        let action = arguments.put(ignore.to_vec());
        let sigpipe = libc::SIGPIPE as u64;
        host.begin(0, arguments, nr::rt_sigaction, [sigpipe, action, 0, 8, 0, 0]);
        host
    }

    pub fn now(&self) -> SimTime {
        self.now
    }

    /// A call of the first thread that can not wait.
    fn call(&mut self, number: u32, args: [u64; 6]) -> Option<u64> {
        let arguments = self.arguments(0);
        self.begin(0, arguments, number, args);
        self.is_done(0).then(|| self.result(0)).filter(|result| *result < ERRNO_MAX.wrapping_neg())
    }

    pub fn arguments(&self, thread: usize) -> Arguments {
        let next = self.rooms + thread as u64 * ROOM;
        Arguments { next, end: next + ROOM, writes: Vec::new() }
    }

    /// Begins a call, which may have to wait.
    pub fn begin(&mut self, thread: usize, arguments: Arguments, number: u32, args: [u64; 6]) {
        self.turn(self.threads[thread], |ctx| {
            for (at, bytes) in &arguments.writes {
                ctx.process.memory.write(*at, bytes).expect("the room for arguments");
            }
            (number.into(), args)
        });
        if self.is_done(thread) {
            let state = self.kernel.threads.get(self.threads[thread].0);
            self.results[thread] = state.map_or(0, |thread| thread.vcpu.registers().rax);
        }
        self.settle();
    }

    fn turn(&mut self, tid: Tid, choose: impl FnOnce(&mut Ctx<'_>) -> (u64, [u64; 6])) {
        WORKER.with_borrow_mut(|worker| self.kernel.call_by_hand(tid, worker, self.now, choose));
    }

    /// Whether the thread's call is over.
    pub fn is_done(&self, thread: usize) -> bool {
        let state = self.kernel.threads.get(self.threads[thread].0).map(|thread| (thread.state, thread.wake));
        state == Some((ThreadState::Runnable, Wake::First))
    }

    /// What the thread's last call returned.
    pub fn result(&self, thread: usize) -> u64 {
        self.results[thread]
    }

    /// Bytes of the process's memory, read by a thread whose call is over.
    pub fn read(&mut self, thread: usize, at: u64, bytes: &mut [u8]) {
        self.turn(self.threads[thread], |ctx| {
            ctx.process.memory.read(at, bytes).expect("the room for arguments");
            (nr::getpid.into(), [0; 6])
        });
    }

    fn leave(&mut self, packet: &Packet) {
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        self.sent.push_back((self.now, bytes));
    }

    /// Lets everything happen that can happen now.
    fn settle(&mut self) {
        let refuses = self.settings.queue_refuses();
        loop {
            self.kernel.settle_network(self.now);
            while let Some(mut departing) = self.kernel.net.stack.poll_departure() {
                if refuses {
                    let tcpip::Departing { packet, flow, truesize, .. } = departing;
                    self.kernel.net.stack.refused(self.now, flow, &packet, truesize);
                    continue;
                }
                while !self.settings.offload
                    && let Some(first) = departing.packet.split_first()
                {
                    self.leave(&first);
                }
                // Scripts see trains whole, as behind a device that cuts them itself (TSO).
                departing.packet.train_mss = 0;
                self.leave(&departing.packet);
                if let Some(flow) = departing.flow {
                    self.kernel.net.stack.transmitted(self.now, flow, departing.truesize);
                }
            }
            let waiting = (0..self.threads.len()).find(|thread| {
                let tid = self.threads[*thread];
                self.kernel.runnable.contains(&tid) && !self.is_done(*thread)
            });
            let Some(thread) = waiting else { return };
            // The call that it waited in is executed again; if that was its end, the thread makes another, which changes nothing.
            let mut returned = None;
            self.turn(self.threads[thread], |ctx| {
                returned = Some(ctx.thread.vcpu.registers().rax);
                (nr::getpid.into(), [0; 6])
            });
            if let Some(result) = returned {
                self.results[thread] = result;
            }
        }
    }

    fn next_event(&mut self) -> Option<SimTime> {
        [self.kernel.next_timer(), self.kernel.net.next_deadline()].into_iter().flatten().min()
    }

    /// Goes on to the next event, `until` at the latest.
    pub fn step(&mut self, until: SimTime) {
        let at = self.next_event().map_or(until, |at| at.clamp(self.now, until));
        self.now = at;
        self.kernel.fire_timers(at);
        self.settle();
    }

    /// A packet arrives; one that can not be read is dropped.
    pub fn receive(&mut self, bytes: &[u8]) {
        if let Ok(packet) = Packet::parse(bytes) {
            self.kernel.receive_packet(self.now, packet);
        }
        self.settle();
    }

    /// The next packet that has left.
    pub fn take_sent(&mut self) -> Option<(SimTime, Vec<u8>)> {
        self.sent.pop_front()
    }

    /// The last moment at which a packet would still be waited for.
    pub fn patience(&self) -> SimTime {
        self.now + PATIENCE
    }
}

/// The address of packetdrill's own end.
const REMOTE: [(Ipv4Addr, Ipv6Addr); 3] = [
    (Ipv4Addr::new(192, 0, 2, 1), Ipv6Addr::new(0xfd3d, 0xfa7b, 0xd17d, 0, 0, 0, 0, 1)),
    (Ipv4Addr::new(10, 248, 0, 2), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    (Ipv4Addr::new(10, 248, 0, 3), Ipv6Addr::new(0xfd, 0, 0, 0, 0, 0, 0, 2)),
];

fn config(settings: &Settings) -> HostConfig {
    let own = Addresses { v4: settings.address, v6: Some(settings.address6) };
    let mut names = vec![HostName { name: "host".to_owned(), addresses: own }];
    for (at, (v4, v6)) in REMOTE.into_iter().enumerate() {
        names.push(HostName { name: format!("remote{at}"), addresses: Addresses { v4, v6: Some(v6) } });
    }
    let plain = HostConfig::plain(HostId(0), &names[0], &names, &settings.folder);
    std::fs::create_dir_all(&plain.host_dir).expect("a folder");
    let network = NetworkSettings { stack: settings.stack(), ..plain.network };
    HostConfig { network, real_descriptors: 16, ..plain }
}
