//! A simulated host as the engine runs it: kernel, network stack, access links, captures, and the events that drive them.

use super::accounting::{Doing, LiveProcesses};
use super::worker::SimWorker;
use base::map::FastMap;
use base::{HostId, Rng, SimDuration, SimTime};
use engine::{EventKey, EventQueue, Outbox};
use recorder::log::Level;
use recorder::{Capture, Direction, HostDigest, Traffic, TrafficMeter, record};
use simkernel::exec::ProcessSpec;
use simkernel::host::Slice;
use simkernel::process::{ExitRecord, ExitStatus};
use simkernel::{Kernel, Pid};
use std::net::IpAddr;
use std::sync::Arc;
use tcpip::Packet;
use topology::{Downlink, Fate, Sent, Topology, Uplink};

/// A packet between two hosts' access links.
#[derive(Debug)]
pub struct InFlight {
    packet: Packet,
    /// How long its sender's line took for it.
    serialized: SimDuration,
}

/// What a host has in its queue. Classes order what happens at one moment: packets first, as the engine delivers them, then the
/// experiment's own actions.
#[derive(Debug)]
enum HostEvent {
    /// A packet reaches the downlink's router.
    Arrival(InFlight),
    /// A packet has passed the downlink.
    Delivery(Packet),
    /// Process `n` of the host's plan starts.
    Start(usize),
    /// Process `n` of the host's plan gets its shutdown signal.
    Shutdown(usize),
    /// The uplink's backlog has gone down.
    Transmit,
}

const CLASS_PACKET: u8 = 0;
const CLASS_ACTION: u8 = 1;
const CLASS_TRANSMIT: u8 = 2;

/// The stack holds packets back while the uplink has this much (or two packets) to send, as tcp_limit_output_bytes does on
/// Linux: a bulk sender then loses nothing in its own host's queue.
const UPLINK_BACKLOG: SimDuration = SimDuration::from_millis(1);

/// The simulated time that guests' output may wait in buffers: whoever looks at a run under way sees what is not older.
const OUTPUT_DELAY: SimDuration = SimDuration::from_secs(10);

/// One process of the plan, and what became of it.
#[derive(Debug, Clone)]
pub struct Guest {
    pub path: String,
    pub spec: ProcessSpec,
    pub shutdown_signal: i32,
    pub expected: scenario::FinalState,
    pub pid: Option<Pid>,
    pub ended: Option<ExitStatus>,
    pub started_at: SimTime,
    /// Why it could not be started.
    pub failed: Option<String>,
}

/// What all hosts share.
#[derive(Debug)]
pub struct Network {
    pub topology: Topology,
    pub host_at: FastMap<IpAddr, HostId>,
}

/// Packets of one host, by what became of them.
#[derive(Debug, Default, Clone, Copy)]
pub struct PacketCounts {
    pub sent: u64,
    pub sent_bytes: u64,
    pub delivered: u64,
    pub delivered_bytes: u64,
    pub lost: u64,
    pub dropped: u64,
    pub unroutable: u64,
}

impl PacketCounts {
    fn traffic(&self) -> Traffic {
        Traffic {
            rx_bytes: self.delivered_bytes,
            tx_bytes: self.sent_bytes,
            rx_packets: self.delivered,
            tx_packets: self.sent,
            dropped_packets: self.dropped,
        }
    }
}

pub struct SimHost {
    pub id: HostId,
    pub name: String,
    pub kernel: Kernel,
    pub guests: Vec<Guest>,
    pub digest: HostDigest,
    pub counts: PacketCounts,
    pub capture: Option<Capture>,
    pub loopback_capture: Option<Capture>,
    pub events_handled: u64,
    /// Stop for a debugger before the first guest starts.
    pub pause_before_start: Option<fn(&str)>,
    pub traffic: Option<TrafficMeter>,
    pub live: LiveProcesses,
    network: Arc<Network>,
    uplink: Uplink<Packet>,
    downlink: Downlink,
    links_random: Rng,
    events: EventQueue<HostEvent>,
    transmit_scheduled: bool,
    output_limit_told: bool,
    /// When what guests wrote goes to the files at the latest.
    next_flush: SimTime,
    headers: Vec<u8>,
}

impl SimHost {
    pub fn new(
        id: HostId,
        name: String,
        kernel: Kernel,
        network: Arc<Network>,
        uplink: Uplink<Packet>,
        downlink: Downlink,
        links_random: Rng,
    ) -> SimHost {
        SimHost {
            id,
            name,
            kernel,
            guests: Vec::new(),
            digest: HostDigest::new(),
            counts: PacketCounts::default(),
            capture: None,
            loopback_capture: None,
            events_handled: 0,
            pause_before_start: None,
            traffic: None,
            live: LiveProcesses::default(),
            network,
            uplink,
            downlink,
            links_random,
            events: EventQueue::new(id),
            transmit_scheduled: false,
            output_limit_told: false,
            next_flush: SimTime::ZERO + OUTPUT_DELAY,
            headers: Vec::with_capacity(128),
        }
    }

    /// Adds a process of the plan.
    pub fn add_guest(&mut self, guest: Guest, start: SimTime, shutdown: Option<SimTime>) {
        let index = self.guests.len();
        self.guests.push(guest);
        self.events.schedule(start, CLASS_ACTION, HostEvent::Start(index));
        if let Some(time) = shutdown {
            self.events.schedule(time, CLASS_ACTION, HostEvent::Shutdown(index));
        }
    }

    fn next_time(&self) -> Option<SimTime> {
        let candidates = [
            self.events.next_time(),
            self.kernel.next_timer(),
            self.kernel.net.stack.next_deadline(),
            self.uplink.next_departure(),
        ];
        candidates.into_iter().flatten().min()
    }

    fn handle(&mut self, event: HostEvent, now: SimTime, worker: &mut SimWorker) {
        match event {
            HostEvent::Arrival(in_flight) => self.arrive(in_flight, now, worker),
            HostEvent::Delivery(packet) => self.receive(packet, now, worker),
            HostEvent::Start(index) => self.start(index, now, worker),
            HostEvent::Shutdown(index) => self.shut_down(index, now, worker),
            HostEvent::Transmit => self.transmit_scheduled = false,
        }
    }

    fn arrive(&mut self, in_flight: InFlight, now: SimTime, worker: &mut SimWorker) {
        let bytes = in_flight.packet.wire_len() as u64;
        match self.downlink.receive(now, bytes, in_flight.serialized) {
            Ok(at) if at <= now => self.receive(in_flight.packet, now, worker),
            Ok(at) => self.events.schedule(at, CLASS_PACKET, HostEvent::Delivery(in_flight.packet)),
            Err(topology::Dropped) => self.counts.dropped += 1,
        }
    }

    fn receive(&mut self, packet: Packet, now: SimTime, worker: &mut SimWorker) {
        self.counts.delivered += 1;
        self.counts.delivered_bytes += packet.wire_len() as u64;
        capture(&mut self.capture, &packet, now, Direction::Inbound, worker);
        self.kernel.receive_packet(now, packet);
    }

    fn start(&mut self, index: usize, now: SimTime, worker: &mut SimWorker) {
        if let Some(pause) = self.pause_before_start.take() {
            pause(&format!("before the first guest of host '{}' starts", self.name));
        }
        let guest = &mut self.guests[index];
        guest.started_at = now;
        match self.kernel.spawn(&guest.spec, now) {
            Ok(pid) => {
                guest.pid = Some(pid);
                self.live.started();
                record!(worker.log, Level::Info, now, self.id, "started process {} ({})", pid.0, guest.path);
            }
            Err(error) => {
                record!(worker.log, Level::Error, now, self.id, "cannot start {}: {}", guest.path, error.message);
                self.kernel.note_own_refusal(&error.message);
                guest.failed = Some(error.message);
            }
        }
    }

    fn shut_down(&mut self, index: usize, now: SimTime, worker: &mut SimWorker) {
        let guest = &self.guests[index];
        let Some(pid) = guest.pid.filter(|_| guest.ended.is_none()) else { return };
        let Some(signal) = linux_abi::Signal::from_raw(guest.shutdown_signal) else { return };
        record!(worker.log, Level::Info, now, self.id, "sending {signal} to process {} ({})", pid.0, guest.path);
        self.kernel.signal_process(pid, linux_abi::signal::Siginfo::kill(signal, linux_abi::signal::SI_USER, 0, 0));
    }

    /// Runs everything that can happen at this moment.
    fn settle(&mut self, mut now: SimTime, horizon: SimTime, outbox: &mut Outbox<InFlight>, worker: &mut SimWorker) {
        loop {
            worker.activity.set(Doing::Kernel);
            let until = [Some(horizon), self.events.next_time(), self.uplink.next_departure()];
            let until = until.into_iter().flatten().min().unwrap_or(horizon);
            let slice = Slice { until, line_is_free: !self.transmit_scheduled };
            now = self.kernel.run_threads(&mut worker.guest, now, slice);
            worker.activity.set(Doing::Stack);
            let woke = self.kernel.settle_network(now);
            self.record_loopback(worker);
            self.transmit(now, outbox, worker);
            if !woke && self.kernel.runnable.is_empty() {
                break;
            }
        }
        if self.kernel.outputs_refused > 0 && !std::mem::replace(&mut self.output_limit_told, true) {
            record!(
                worker.log,
                Level::Warning,
                now,
                self.id,
                "standard output and error have reached their limit (experimental.output_limit): more is refused (ENOSPC)"
            );
        }
        for exit in self.kernel.take_exits() {
            self.note_exit(&exit, worker);
        }
        for report in self.kernel.reports.drain(..) {
            record!(
                worker.log,
                Level::Warning,
                now,
                self.id,
                "{} ({}): {}",
                report.program,
                report.pid.0,
                report.message
            );
        }
    }

    /// Packets of the host with itself take no time and no link; captures and the digest have them all the same.
    fn record_loopback(&mut self, worker: &mut SimWorker) {
        for (time, packet) in self.kernel.net.stack.take_loopback_seen() {
            self.headers.clear();
            packet.emit_headers(&mut self.headers);
            self.digest.packet(time, &self.headers, &[&packet.payload]);
            capture(&mut self.loopback_capture, &packet, time, Direction::Outbound, worker);
        }
    }

    fn note_exit(&mut self, exit: &ExitRecord, worker: &mut SimWorker) {
        let (text, status) = match exit.status {
            ExitStatus::Exited(code) => (format!("exited with status {code}"), code),
            ExitStatus::Signaled(signal) => {
                let name = linux_abi::Signal::from_raw(signal).map_or_else(String::new, |signal| signal.to_string());
                (format!("was killed by {name}"), 256 + signal)
            }
        };
        self.digest.exit(exit.at, exit.pid.0, status);
        let guest = self.guests.iter_mut().find(|guest| guest.pid == Some(exit.pid));
        let path = guest.as_ref().map_or("a child process", |guest| guest.path.as_str());
        record!(worker.log, Level::Info, exit.at, self.id, "process {} ({path}) {text}", exit.pid.0);
        if let Some(guest) = guest {
            guest.ended = Some(exit.status);
            self.live.ended();
        }
    }

    /// Moves packets from the stack to the uplink while it takes them.
    fn transmit(&mut self, now: SimTime, outbox: &mut Outbox<InFlight>, worker: &mut SimWorker) {
        while let Some((departure, packet)) = self.uplink.pop(now) {
            self.depart(departure, packet, now, outbox);
        }
        loop {
            let backlog = self.uplink.backlog(now);
            let two_packets = self.uplink.serialization(now, 3000);
            if backlog > UPLINK_BACKLOG.max(two_packets) {
                if !self.transmit_scheduled && self.kernel.net.stack.wants_transmit() {
                    self.transmit_scheduled = true;
                    let later = now + SimDuration::from_nanos(backlog.as_nanos() / 2);
                    self.events.schedule(later, CLASS_TRANSMIT, HostEvent::Transmit);
                }
                return;
            }
            let Some(packet) = self.kernel.poll_transmit(now) else { return };
            self.headers.clear();
            packet.emit_headers(&mut self.headers);
            self.digest.packet(now, &self.headers, &[&packet.payload]);
            capture(&mut self.capture, &packet, now, Direction::Outbound, worker);
            self.counts.sent += 1;
            self.counts.sent_bytes += packet.wire_len() as u64;
            match self.uplink.send(now, flow_of(&packet), packet.wire_len() as u64, packet) {
                Sent::Departs(departure, packet) => self.depart(departure, packet, now, outbox),
                Sent::Queued => {}
                Sent::Dropped(_) => self.counts.dropped += 1,
            }
        }
    }

    fn depart(&mut self, departure: SimTime, packet: Packet, now: SimTime, outbox: &mut Outbox<InFlight>) {
        let Some(&to) = self.network.host_at.get(&packet.ip.dst) else {
            self.counts.unroutable += 1;
            return;
        };
        match self.network.topology.fate(self.id, to, departure, &mut self.links_random) {
            Fate::Arrives(delay) => {
                let serialized = self.uplink.serialization(now, packet.wire_len() as u64);
                outbox.send(to, departure + delay, InFlight { packet, serialized });
            }
            _ => self.counts.lost += 1,
        }
    }
}

/// What round-robin takes turns between: connections and sockets, by their ports and peer.
fn flow_of(packet: &Packet) -> u64 {
    let ports = match &packet.transport {
        tcpip::Transport::Tcp(tcp) => (u64::from(tcp.src_port) << 16) | u64::from(tcp.dst_port),
        tcpip::Transport::Udp(udp) => (1 << 32) | (u64::from(udp.src_port) << 16) | u64::from(udp.dst_port),
        _ => 2 << 32,
    };
    let peer = match packet.ip.dst {
        IpAddr::V4(v4) => v4.to_bits(),
        IpAddr::V6(v6) => v6.segments().iter().fold(0u32, |sum, word| sum.rotate_left(5) ^ u32::from(*word)),
    };
    ports ^ (u64::from(peer) << 33)
}

fn capture(capture: &mut Option<Capture>, packet: &Packet, now: SimTime, direction: Direction, worker: &mut SimWorker) {
    let Some(open) = capture else { return };
    let mut bytes = Vec::with_capacity(packet.wire_len());
    packet.emit(&mut bytes);
    if let Err(error) = open.packet(now, direction, &bytes, &[], &mut worker.outputs) {
        worker.fail(error.to_string());
        record!(worker.log, Level::Error, now, None::<HostId>, "{error}; this capture ends here");
        if let Some(Err(error)) = capture.take().map(|capture| capture.cut(&mut worker.outputs)) {
            worker.fail(error.to_string());
        }
    }
}

impl engine::Host for SimHost {
    type Message = InFlight;
    type Worker = SimWorker;

    fn next_event(&self) -> Option<SimTime> {
        self.next_time()
    }

    fn deliver(&mut self, arrival: SimTime, from: HostId, sequence: u64, message: InFlight) {
        let key = EventKey { time: arrival, class: CLASS_PACKET, source: from, sequence };
        self.events.push(key, HostEvent::Arrival(message));
    }

    fn run_until(&mut self, horizon: SimTime, outbox: &mut Outbox<InFlight>, worker: &mut SimWorker) {
        worker.activity.set(Doing::Stack);
        while let Some(next) = self.next_time().filter(|time| *time < horizon) {
            // Where calls take time, threads have come further than some timers that they set.
            let now = next.max(self.kernel.now);
            if let Some(meter) = &mut self.traffic {
                let counts = &self.counts;
                meter.advance(now, || counts.traffic());
            }
            self.kernel.fire_timers(now);
            while self.events.next_time().is_some_and(|time| time <= now) {
                let Some(event) = self.events.pop() else { break };
                self.events_handled += 1;
                self.handle(event.event, now, worker);
            }
            self.settle(now, horizon, outbox, worker);
            if now >= self.next_flush {
                self.next_flush = now + OUTPUT_DELAY;
                self.kernel.flush_outputs();
            }
        }
        if let Some(meter) = &self.traffic {
            meter.publish(self.counts.traffic());
        }
        worker.activity.set(Doing::Engine);
    }
}
