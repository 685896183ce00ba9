//! A simulated host as the engine runs it: kernel, network stack, interface, and the events that drive them.

use super::accounting::{Doing, LiveProcesses};
use super::tap::Tap;
use super::worker::{SimWorker, lock};
use base::map::FastMap;
use base::prefetch::prefetch;
use base::{HostId, Rng, SimDuration, SimTime};
use engine::{EventKey, EventQueue, Outbox, Progress};
use interface::{Counters, Departure, Frame, Interface, Verdict};
use probes::Rows;
use probes::choices::{Layer, SentFate};
use probes::trace::Begun;
use recorder::log::Level;
use recorder::{Traffic, TrafficMeter, record};
use simkernel::exec::ProcessSpec;
use simkernel::process::{ExitRecord, ExitStatus};
use simkernel::{Kernel, Pid};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use tcpip::Packet;
use topology::{Fate, Topology};

/// A packet between two hosts' interfaces.
#[derive(Debug)]
pub struct InFlight {
    pub packet: Box<Packet>,
    /// How long its sender's line took for it.
    pub serialized: SimDuration,
}

/// What a host has in its queue. Classes order what happens at one moment: packets first, as the engine delivers them, then the
/// experiment's own actions.
#[derive(Debug)]
enum HostEvent {
    /// A packet reaches the router before the host's downlink.
    Arrival(InFlight),
    /// Process `n` of the host's plan starts.
    Start(usize),
    /// Process `n` of the host's plan gets its shutdown signal.
    Shutdown(usize),
}

const CLASS_PACKET: u8 = 0;
const CLASS_ACTION: u8 = 1;

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

/// Packets of one host that left its interface and arrived nowhere.
#[derive(Debug, Default, Clone, Copy)]
pub struct Gone {
    /// By the network's loss.
    pub lost: u64,
    /// To addresses that no host has.
    pub unroutable: u64,
}

/// The first of `latest` and the times that there are, without a branch for each.
#[inline]
fn earliest<const N: usize>(latest: SimTime, times: [Option<SimTime>; N]) -> SimTime {
    times.iter().fold(latest, |first, time| first.min(time.unwrap_or(SimTime::MAX)))
}

/// The numbers of a packet, or of a train's.
fn numbers_of(packet: &Packet) -> std::ops::Range<u64> {
    packet.number..packet.number + packet.segments() as u64
}

fn traffic(counters: Counters) -> Traffic {
    Traffic {
        rx_bytes: counters.delivered_bytes,
        tx_bytes: counters.sent_bytes,
        rx_packets: counters.delivered,
        tx_packets: counters.sent,
        dropped_packets: counters.dropped,
    }
}

/// The moment at which a host was interrupted in the midst of a window, when it began, and where time had moved to.
#[derive(Debug, Clone, Copy)]
struct Interrupted {
    began: SimTime,
    now: SimTime,
}

pub struct SimHost {
    pub id: HostId,
    pub name: String,
    pub kernel: Kernel,
    pub guests: Vec<Guest>,
    pub tap: Tap,
    pub interface: Interface,
    pub gone: Gone,
    pub events_handled: u64,
    /// Stop for a debugger before the first guest starts.
    pub pause_before_start: Option<fn(&str)>,
    pub traffic: Option<TrafficMeter>,
    pub live: LiveProcesses,
    network: Arc<Network>,
    links_random: Rng,
    events: EventQueue<HostEvent>,
    output_limit_told: bool,
    /// Where it goes on once its worker has what another one had.
    interrupted: Option<Interrupted>,
    /// What the host had done when the last window began, and what it did in it.
    cost_before: u64,
    cost: u64,
    /// Packets that were carried to each other host, where that is counted.
    pub sent_to: Option<BTreeMap<HostId, u64>>,
    /// All that was recorded goes to the files with each window: other processes of the run rely on this one no longer than that.
    pub records_windows: bool,
    /// When what guests wrote goes to the files at the latest.
    next_flush: SimTime,
}

impl SimHost {
    pub fn new(
        id: HostId,
        name: String,
        kernel: Kernel,
        network: Arc<Network>,
        interface: Interface,
        links_random: Rng,
    ) -> SimHost {
        SimHost {
            id,
            name,
            kernel,
            guests: Vec::new(),
            tap: Tap::new(),
            interface,
            gone: Gone::default(),
            events_handled: 0,
            pause_before_start: None,
            traffic: None,
            live: LiveProcesses::default(),
            network,
            links_random,
            events: EventQueue::new(id),
            output_limit_told: false,
            interrupted: None,
            cost_before: 0,
            cost: 0,
            sent_to: None,
            records_windows: false,
            next_flush: SimTime::ZERO + OUTPUT_DELAY,
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
            self.interface.next_deadline(),
            self.next_completion(),
        ];
        Some(earliest(SimTime::MAX, candidates)).filter(|time| *time != SimTime::MAX)
    }

    /// When the stack must hear of what has left. If nobody waits for that, it hears of it with whatever happens next.
    fn next_completion(&self) -> Option<SimTime> {
        self.interface.next_completion().filter(|_| self.kernel.net.stack.waits_for_transmission())
    }

    fn handle(&mut self, event: HostEvent, now: SimTime, worker: &mut SimWorker) {
        match event {
            HostEvent::Arrival(in_flight) => self.arrive(in_flight, now, worker),
            HostEvent::Start(index) => self.start(index, now, worker),
            HostEvent::Shutdown(index) => self.shut_down(index, now, worker),
        }
    }

    /// Handles what has happened by now, in its order: deliveries of the interface, and events.
    fn catch_up(&mut self, now: SimTime, worker: &mut SimWorker) {
        self.complete(now);
        loop {
            let event = self.events.next_time().filter(|time| *time <= now);
            let delivery = self.interface.next_delivery().filter(|time| *time <= now);
            if delivery.is_some_and(|delivery| event.is_none_or(|event| delivery <= event)) {
                self.take_deliveries(now, delivery, worker);
            } else if event.is_some()
                && let Some(event) = self.events.pop()
            {
                self.events_handled += 1;
                self.expect_next();
                self.handle(event.event, now, worker);
            } else {
                return;
            }
        }
    }

    /// Brings near what the next event is about: another host made it, long enough ago for caches to have lost it.
    fn expect_next(&self) {
        if let Some((_, HostEvent::Arrival(next))) = self.events.peek() {
            prefetch(&*next.packet);
        }
    }

    fn arrive(&mut self, in_flight: InFlight, now: SimTime, worker: &mut SimWorker) {
        let (number, segments) = (in_flight.packet.number, in_flight.packet.segments() as u64);
        if let Some(trace) = self.kernel.net.stack.trace() {
            trace.at_router(now, number, segments, in_flight.packet.wire_len() as u64);
        }
        let work = self.begin_work(number);
        self.interface.receive(now, in_flight.packet, in_flight.serialized);
        self.end_work(work, Layer::Downlink, segments);
        self.take_deliveries(now, Some(now), worker);
    }

    /// Gives the kernel what the host has by `until`.
    fn take_deliveries(&mut self, now: SimTime, until: Option<SimTime>, worker: &mut SimWorker) {
        while let Some(packet) = until.and_then(|until| self.interface.poll_delivery(until)) {
            let (number, segments) = (packet.number, packet.segments() as u64);
            self.tap.inbound(self.id, now, &packet, worker);
            if let Some(trace) = self.kernel.net.stack.trace() {
                trace.passed_router(now, number, segments);
            }
            let work = self.begin_work(number);
            self.kernel.receive_packet(now, *packet);
            self.end_work(work, Layer::Reassembly, segments);
        }
    }

    fn start(&mut self, index: usize, now: SimTime, worker: &mut SimWorker) {
        if let Some(pause) = self.pause_before_start.take() {
            pause(&format!("before the first guest of host '{}' starts", self.name));
        }
        worker.turn_to(Doing::Kernel, self.id, now);
        let guest = &mut self.guests[index];
        guest.started_at = now;
        match self.kernel.spawn(&guest.spec, now) {
            Ok(pid) => {
                guest.pid = Some(pid);
                self.live.started();
                record!(
                    worker.log,
                    Level::Info,
                    now,
                    self.id,
                    "started process {} ({}), which has the number {pid} there",
                    self.kernel.outer_id(pid.0),
                    guest.path
                );
            }
            Err(error) => {
                record!(worker.log, Level::Error, now, self.id, "cannot start {}: {}", guest.path, error.message);
                self.kernel.note_own_refusal(&error.message);
                guest.failed = Some(error.message);
            }
        }
        self.kernel.note_own_refusal("the files of a program's start");
        worker.turn_to(Doing::Stack, self.id, now);
    }

    fn shut_down(&mut self, index: usize, now: SimTime, worker: &mut SimWorker) {
        let guest = &self.guests[index];
        let Some(pid) = guest.pid.filter(|_| guest.ended.is_none()) else { return };
        let Some(signal) = linux_abi::Signal::from_raw(guest.shutdown_signal) else { return };
        record!(
            worker.log,
            Level::Info,
            now,
            self.id,
            "sending {signal} to process {} ({})",
            self.kernel.outer_id(pid.0),
            guest.path
        );
        self.kernel.signal_process(pid, linux_abi::signal::Siginfo::kill(signal, linux_abi::signal::SI_USER, 0, 0));
    }

    /// Runs everything that can happen at this moment. False when it was interrupted.
    fn settle(
        &mut self,
        moment: Interrupted,
        horizon: SimTime,
        outbox: &mut Outbox<InFlight>,
        worker: &mut SimWorker,
    ) -> bool {
        let mut now = moment.now;
        loop {
            worker.turn_to(Doing::Kernel, self.id, now);
            let others = [self.events.next_time(), self.interface.next_deadline(), self.next_completion()];
            let until = earliest(horizon, others);
            let Some(came_to) = self.kernel.run_threads(&mut worker.guest, now, until) else {
                self.interrupted = Some(Interrupted { now, ..moment });
                self.exchange_samples(worker);
                return false;
            };
            now = came_to;
            worker.turn_to(Doing::Stack, self.id, now);
            self.exchange_samples(worker);
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
        for report in std::mem::take(&mut self.kernel.reports) {
            let number = self.kernel.outer_id(report.pid.0);
            record!(worker.log, Level::Warning, now, self.id, "{} ({}): {}", report.program, number, report.message);
        }
        true
    }

    /// Events, and turns of threads, as a measure of what its windows cost.
    pub fn work_done(&self) -> u64 {
        self.events_handled + self.kernel.turns
    }

    /// Rows of the record go to the worker that executes the host.
    fn exchange_rows(&mut self, worker: &mut SimWorker) {
        if let (Some(trace), Some(record)) = (self.kernel.net.stack.trace(), &mut worker.record) {
            trace.exchange_rows(&mut record.rows);
        }
    }

    /// A layer begins to work for a packet; Some if that is measured.
    #[inline]
    fn begin_work(&mut self, packet: u64) -> Option<Begun> {
        self.kernel.net.stack.trace().and_then(|trace| trace.begin_work(packet))
    }

    #[inline]
    fn end_work(&mut self, work: Option<Begun>, layer: Layer, packets: u64) {
        if let Some(trace) = self.kernel.net.stack.trace() {
            trace.end_work(work, layer, packets);
        }
    }

    /// Samples of threads go to the worker that executes the host.
    #[inline]
    fn exchange_samples(&mut self, worker: &mut SimWorker) {
        if let Some(profile) = &mut worker.profile {
            profile.take_threads(self.id, &mut self.kernel);
        }
    }

    /// The end of the run: what the host has not told of packets and bytes.
    pub fn last_rows(&mut self, now: SimTime) -> Rows {
        let incoming: BTreeSet<u64> = self.interface.incoming().flat_map(numbers_of).collect();
        let stack = &mut self.kernel.net.stack;
        stack.finish_trace(now);
        let Some(trace) = stack.trace() else { return Rows::default() };
        trace.finish_router(now, |number| incoming.contains(&number));
        trace.take_rows()
    }

    fn flush_outputs(&mut self, now: SimTime) {
        if now >= self.next_flush {
            self.next_flush = now + OUTPUT_DELAY;
            self.kernel.flush_outputs();
        }
    }

    fn record_loopback(&mut self, worker: &mut SimWorker) {
        if self.kernel.net.stack.loopback_seen() == 0 {
            return;
        }
        for (time, packet) in self.kernel.net.stack.take_loopback_seen() {
            self.tap.loopback(time, &packet, worker);
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
        let number = self.kernel.outer_id(exit.pid.0);
        self.tap.digest.exit(exit.at, number, status);
        let guest = self.guests.iter_mut().find(|guest| guest.pid == Some(exit.pid));
        let path = guest.as_ref().map_or("a child process", |guest| guest.path.as_str());
        record!(worker.log, Level::Info, exit.at, self.id, "process {number} ({path}) {text}");
        if let Some(guest) = guest {
            guest.ended = Some(exit.status);
            self.live.ended();
        }
    }

    /// Moves what the stack has sent to the interface, and from there to the other hosts.
    fn transmit(&mut self, now: SimTime, outbox: &mut Outbox<InFlight>, worker: &mut SimWorker) {
        loop {
            while let Some(departing) = self.kernel.net.stack.poll_departure() {
                let (flow, number, segments) =
                    (departing.flow, departing.packet.number, departing.packet.segments() as u64);
                let work = self.begin_work(number);
                let verdict = self.interface.send(now, Frame::from(departing));
                self.end_work(work, Layer::Uplink, segments);
                match (verdict, flow) {
                    (Verdict::Refused(frame), _) => {
                        let Frame { flow, charge, packet, .. } = *frame;
                        self.kernel.net.stack.refused(now, flow, &packet, charge as usize);
                    }
                    (Verdict::Congested, Some(flow)) => self.kernel.net.stack.congested(flow),
                    _ => {}
                }
            }
            while let Some(departure) = self.interface.poll_departure(now) {
                self.tap.outbound(self.id, now, &departure.packet, worker);
                let (number, segments) = (departure.packet.number, departure.packet.segments() as u64);
                let work = self.begin_work(number);
                self.depart(departure, outbox, worker);
                self.end_work(work, Layer::Route, segments);
            }
            if let Some(trace) = self.kernel.net.stack.trace() {
                for (number, packets) in self.interface.take_dropped() {
                    trace.gone(now, number, packets, SentFate::Dropped);
                }
            }
            // What a queue has dropped makes room for more at once.
            if !self.complete(now) {
                return;
            }
            self.kernel.settle_network(now);
        }
    }

    /// Tells the stack what has left by now; whether anything had.
    fn complete(&mut self, now: SimTime) -> bool {
        let mut any = false;
        while let Some(done) = self.interface.poll_completion(now) {
            any = true;
            self.kernel.net.stack.transmitted(now, done.flow, done.charge as usize);
        }
        any
    }

    /// Carries a packet to the interface that it is for, unless the network loses it.
    fn depart(&mut self, departure: Departure, outbox: &mut Outbox<InFlight>, worker: &mut SimWorker) {
        let dst = departure.packet.ip.dst;
        if let Some(to) = self.network.host_at.get(&dst).copied() {
            self.carry(to, departure, outbox, worker);
        } else if self.kernel.net.stack.config().is_for_many(dst) {
            let network = self.network.clone();
            for to in network.topology.neighbours(self.id) {
                self.carry(to, departure.clone(), outbox, worker);
            }
        } else {
            self.gone.unroutable += 1;
            let packet = &departure.packet;
            if let Some(trace) = self.kernel.net.stack.trace() {
                trace.gone(departure.at, packet.number, packet.segments() as u64, SentFate::Unroutable);
            }
        }
    }

    /// Each segment of a train has a fate of its own; those that arrive one after the other do so together.
    fn carry(&mut self, to: HostId, mut departure: Departure, outbox: &mut Outbox<InFlight>, worker: &mut SimWorker) {
        let (segments, has_payload) = (departure.packet.segments(), !departure.packet.payload.is_empty());
        let mut draw = || self.network.topology.fate(self.id, to, departure.at, has_payload, &mut self.links_random);
        let mut fate = draw();
        if segments > 1 {
            let fates: Vec<Fate> = std::iter::once(fate).chain((1..segments).map(|_| draw())).collect();
            let mut runs: Vec<&[Fate]> = fates.chunk_by(|a, b| a == b).collect();
            fate = runs.pop().map_or(fate, |last| last[0]);
            for run in runs {
                if let Some(part) = departure.split(run.len()) {
                    self.carry_one(to, part, run[0], outbox, worker);
                }
            }
        }
        self.carry_one(to, departure, fate, outbox, worker);
    }

    fn carry_one(
        &mut self,
        to: HostId,
        departure: Departure,
        fate: Fate,
        outbox: &mut Outbox<InFlight>,
        worker: &mut SimWorker,
    ) {
        let Departure { at, packet, serialized } = departure;
        if let Some(trace) = self.kernel.net.stack.trace() {
            let route = match fate {
                Fate::Arrives(delay) => Some(delay),
                Fate::Lost => None,
            };
            trace.left(at, packet.number, packet.segments() as u64, to, route);
        }
        match fate {
            Fate::Arrives(delay) => {
                if let Some(sent) = &mut self.sent_to {
                    *sent.entry(to).or_default() += packet.segments() as u64;
                }
                outbox.send(to, at + delay, InFlight { packet, serialized });
            }
            Fate::Lost => {
                self.gone.lost += packet.segments() as u64;
                Tap::lost(self.id, at, &packet, worker);
            }
        }
    }
}

impl SimHost {
    fn run_window(&mut self, horizon: SimTime, outbox: &mut Outbox<InFlight>, worker: &mut SimWorker) -> Progress {
        if let Some(moment) = self.interrupted.take() {
            if !self.settle(moment, horizon, outbox, worker) {
                return Progress::Waits;
            }
            self.flush_outputs(moment.began);
        } else {
            self.kernel.used_fixed = false;
            self.cost_before = self.work_done();
        }
        while let Some(next) = self.next_time().filter(|time| *time < horizon) {
            // Where calls take time, threads have come further than some timers that they set.
            let now = next.max(self.kernel.now);
            if let Some(meter) = &mut self.traffic {
                meter.advance(now, || traffic(self.interface.counters()));
            }
            self.kernel.fire_timers(now);
            self.catch_up(now, worker);
            if !self.settle(Interrupted { began: now, now }, horizon, outbox, worker) {
                return Progress::Waits;
            }
            self.flush_outputs(now);
        }
        if self.records_windows {
            self.kernel.write_out_outputs();
            self.tap.flush(horizon, worker);
        }
        self.cost = self.work_done() - self.cost_before;
        if let Some(meter) = &self.traffic {
            meter.publish(traffic(self.interface.counters()));
        }
        Progress::Done
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

    fn run_until(&mut self, horizon: SimTime, outbox: &mut Outbox<InFlight>, worker: &mut SimWorker) -> Progress {
        if let Some(forecast) = &worker.forecast {
            lock(forecast).begin();
        }
        worker.turn_to(Doing::Stack, self.id, self.kernel.now);
        self.exchange_rows(worker);
        self.kernel.vfs.visitor.enter_window(outbox.window_start());
        let progress = self.run_window(horizon, outbox, worker);
        self.exchange_rows(worker);
        worker.turn_to(Doing::Engine, self.id, self.kernel.now);
        if let Some(forecast) = &worker.forecast {
            lock(forecast).end(self.id, self.kernel.used_fixed);
        }
        progress
    }

    fn expects_exclusive(&self) -> bool {
        self.interrupted.is_some() || self.kernel.used_fixed
    }

    fn last_cost(&self) -> u64 {
        self.cost
    }
}
