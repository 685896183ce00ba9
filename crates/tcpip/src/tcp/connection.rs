//! One TCP connection: its state, and how it is born and ends. What segments, timers and the program do to it stands in the
//! neighbouring modules: `input`, `acknowledge`, `recovery`, `output`, `window`, `ack_policy`, `timer`.
//!
//! Sequence numbers are kept in 64 bits, of which the low 32 are the wire's, so that they compare as integers.

use super::ack_policy::AckPolicy;
use super::controller::Controller;
use super::info::{Chronograph, TimeoutRecoveries};
use super::recovery::Recovery;
use super::recv_queue::RecvQueue;
use super::rtt::RttEstimator;
use super::scoreboard::Scoreboard;
use super::send_queue::SendQueue;
use super::timer::Timers;
use super::window::Sizing;
use crate::addr::{Family, FourTuple, Interface};
use crate::config::Config;
use crate::error::SocketError;
use crate::socket::{Readiness, Settings, SocketId};
use crate::wire::tcp::{TcpHeader, TcpOptions, WindowScale};
use base::{SimDuration, SimTime};
use std::num::NonZeroU16;
use std::sync::Arc;

/// RFC 9293 section 3.3.2. Listening and TIME_WAIT are no connections here: see `listen` and `time_wait`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    /// Over on both sides: the stack keeps a small record of it and the connection becomes `Closed`.
    TimeWait,
    Closed,
}

impl State {
    pub fn synchronised(self) -> bool {
        !matches!(self, State::SynSent | State::SynReceived | State::Closed)
    }
    /// Ending the connection now takes something from the peer that it was to get (`tcp_need_reset`), or the handshake's answer from
    /// the program.
    pub fn is_torn(self) -> bool {
        matches!(
            self,
            State::SynSent
                | State::SynReceived
                | State::Established
                | State::CloseWait
                | State::FinWait1
                | State::FinWait2
        )
    }
    /// The program may still write.
    pub fn may_send(self) -> bool {
        matches!(self, State::Established | State::CloseWait)
    }
}

/// What the stack must do about a segment beyond what the connection does itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reply {
    Nothing,
    /// Answer this segment with a RST.
    Reset,
}

#[derive(Debug)]
pub(crate) struct SendState {
    pub iss: u64,
    /// The lowest number not acknowledged.
    pub una: u64,
    /// The next number to send.
    pub nxt: u64,
    pub queue: SendQueue,
    /// The last write announced more (MSG_MORE), and its end waits for that.
    pub more_announced: bool,
    /// The program has shut its side: a FIN follows the queue.
    pub fin_queued: bool,
    /// The peer's window, in bytes from `una`.
    pub window: u32,
    /// The segment that last set the window (SND.WL1).
    pub wl1: u64,
    pub max_window: u32,
    pub scale: u8,
    /// The peer's MSS, bounded by our interface; options count against it.
    pub mss: u32,
    /// End of the last segment sent that was smaller than the MSS (Minshall's variant of Nagle).
    pub small_end: u64,
    /// The end of the last buffer that was given a push mark (tp->pushed_seq).
    pub pushed: u64,
    /// An option has just been set by which nothing waits any more; until the next buffer is begun (TCP_NAGLE_PUSH).
    pub nagle_off_once: bool,
    /// What waits in the host's interface, as Linux counts it (sk_wmem_alloc), in bytes.
    pub in_host: usize,
    /// When the last packet goes on the line, and what follows it may: later than now where pacing holds it (tcp_wstamp_ns).
    pub departs: SimTime,
    /// More may leave when that has become less (TSQ_THROTTLED).
    pub throttled: bool,
    /// When anything left last.
    pub left_at: SimTime,
    /// An acknowledgement came: whoever waits for room hears of it when what may leave has left.
    pub room_made: bool,
    /// Somebody found no room and waits for it (SOCK_NOSPACE).
    pub no_space: bool,
    pub last_sent_at: SimTime,
    pub ip_id: u16,
}

#[derive(Debug)]
pub(crate) struct RecvState {
    pub irs: u64,
    pub queue: RecvQueue,
    /// What was last advertised, in bytes from `wup`.
    pub window: u32,
    /// The number last acknowledged.
    pub wup: u64,
    pub scale: u8,
    /// The largest segment that the peer is believed to send, for acknowledging every second one.
    pub mss: u32,
    /// The payload of each segment of the train that is being taken; 0 where one segment is.
    pub train_mss: u16,
    /// The next segment's header is known, if it is like those before (pred_flags).
    pub predicts: bool,
    /// Where the peer's FIN stands.
    pub fin_at: Option<u64>,
    pub fin_received: bool,
    /// The program has read the end of the stream.
    pub fin_read: bool,
    pub ts_recent: u32,
    pub ts_recent_at: SimTime,
    /// A duplicate to report (RFC 2883).
    pub dsack: Option<(u64, u64)>,
}

impl RecvState {
    /// How many segments so much payload of the arriving train is.
    pub fn segments_of(&self, len: usize) -> u32 {
        if self.train_mss == 0 { 1 } else { len.div_ceil(self.train_mss.into()) as u32 }
    }

    /// The size of the segments that so much arriving payload came in.
    pub fn segment_len(&self, len: usize) -> usize {
        if self.train_mss == 0 { len } else { self.train_mss.into() }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub bytes_sent: u64,
    pub bytes_retransmitted: u64,
    pub segments_in: u32,
    pub segments_out: u32,
    pub data_segments_in: u32,
    pub data_segments_out: u32,
    pub retransmitted: u32,
    pub delivered: u32,
    pub dsack_duplicates: u32,
    pub reordering_seen: u32,
    pub out_of_order_in: u32,
    pub timeouts: u32,
    pub loss_probes: u32,
    pub syn_retransmitted: u32,
    pub delayed_acks: u32,
    pub recoveries: u32,
    /// Reductions of the window that were taken back.
    pub undone: u32,
    pub challenge_acks: u32,
    pub keepalive_probes: u32,
    pub window_probes: u32,
    /// The receive buffer was overfull, and what was dropped because of that: in order, or not.
    pub pruned: u32,
    pub dropped_for_memory: u32,
    pub early_dropped: u32,
    /// Copies that the host's own queue did not take.
    pub copies_refused: u32,
    /// It ended before or after the handshake, without a FIN of ours.
    pub failed_attempt: bool,
    pub reset_established: bool,
    pub abort_on_timeout: bool,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub tuple: FourTuple,
    pub interface: Interface,
    pub state: State,
    pub config: Arc<Config>,
    pub settings: Settings,
    pub snd: SendState,
    pub rcv: RecvState,
    pub board: Scoreboard,
    pub rtt: RttEstimator,
    pub cc: Controller,
    pub recovery: Recovery,
    pub acks: AckPolicy,
    pub sizing: Sizing,
    pub timers: Timers,
    pub counters: Counters,
    pub chronograph: Chronograph,
    pub timeout_recoveries: TimeoutRecoveries,
    pub sack_enabled: bool,
    pub timestamps_enabled: bool,
    pub scaling_enabled: bool,
    pub ts_offset: u32,
    pub error: Option<SocketError>,
    pub read_shut: bool,
    /// Writing was shut before connect(2), which matters only where SYNs cross.
    pub shut_before: bool,
    /// No descriptor refers to it any more.
    pub orphan: bool,
    /// It has ended, and its socket has given up the port that the connection was given: what was bound since is not the connection's.
    pub gave_up_port: bool,
    /// connect(2) has told the program that it is connected.
    pub connect_reported: bool,
    /// The handshake is complete but for the first byte, for which TCP_DEFER_ACCEPT waits.
    pub awaits_data: bool,
    /// The listener that will be given this connection.
    pub parent: Option<SocketId>,
    /// `poll` may have something to send. Where only an acknowledgement is owed (`acks.now`), nothing else leaves.
    pub wants_transmit: bool,
    /// Conditions that became true since the stack last looked.
    pub events: Readiness,
}

/// Numbers that the stack draws for a new connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    pub iss: u32,
    pub ts_offset: u32,
    pub ip_id: u16,
}

/// The 64-bit number whose low half is `wire` and that lies nearest to `near`.
pub(crate) fn extend(near: u64, wire: u32) -> u64 {
    near.wrapping_add_signed(i64::from(wire.wrapping_sub(near as u32) as i32))
}

impl Connection {
    /// An active open: the SYN leaves with the next `poll`.
    pub fn connect(
        now: SimTime,
        tuple: FourTuple,
        interface: Interface,
        config: Arc<Config>,
        settings: Settings,
        draw: Draw,
    ) -> Self {
        let mut conn = Connection::new(now, tuple, interface, config, settings, draw);
        conn.state = State::SynSent;
        conn.connect_reported = false;
        conn
    }

    /// A passive open by this SYN: the SYN-ACK leaves with the next `poll`.
    pub fn accept(
        now: SimTime,
        tuple: FourTuple,
        interface: Interface,
        config: Arc<Config>,
        settings: Settings,
        draw: Draw,
        syn: &TcpHeader,
    ) -> Self {
        let mut conn = Connection::new(now, tuple, interface, config, settings, draw);
        conn.state = State::SynReceived;
        conn.counters.segments_in = 1;
        conn.take_syn(now, syn);
        if conn.timestamps_enabled {
            conn.sizing.expect_stamps();
            conn.rcv.window = conn.sizing.initial_window();
        }
        conn
    }

    fn new(
        now: SimTime,
        tuple: FourTuple,
        interface: Interface,
        config: Arc<Config>,
        settings: Settings,
        draw: Draw,
    ) -> Self {
        let iss = (1 << 32) + u64::from(draw.iss);
        let mss = interface_mss(tuple.family(), interface, &config, &settings);
        let sizing = Sizing::new(&config, &settings, mss);
        let (scaling_enabled, timestamps_enabled) = (config.window_scaling, config.timestamps);
        Connection {
            tuple,
            interface,
            state: State::Closed,
            snd: SendState {
                iss,
                una: iss,
                nxt: iss,
                queue: SendQueue::new(iss + 1),
                more_announced: false,
                fin_queued: false,
                window: 0,
                wl1: 0,
                max_window: 0,
                scale: 0,
                mss,
                small_end: iss,
                pushed: iss + 1,
                nagle_off_once: false,
                in_host: 0,
                departs: SimTime::ZERO,
                throttled: false,
                left_at: now,
                room_made: false,
                no_space: false,
                last_sent_at: now,
                ip_id: draw.ip_id,
            },
            rcv: RecvState {
                irs: 0,
                queue: RecvQueue::new(0),
                window: sizing.initial_window(),
                wup: 0,
                scale: if scaling_enabled { sizing.scale(&config) } else { 0 },
                mss: 536.min(mss),
                train_mss: 0,
                predicts: false,
                fin_at: None,
                fin_received: false,
                fin_read: false,
                ts_recent: 0,
                ts_recent_at: now,
                dsack: None,
            },
            board: Scoreboard::new(),
            rtt: RttEstimator::new(config.rto_min, config.rto_max),
            cc: Controller::new(settings.congestion, config.hz),
            recovery: Recovery::new(config.reordering),
            acks: AckPolicy::new(now),
            sizing,
            timers: Timers::new(),
            counters: Counters::default(),
            chronograph: Chronograph::default(),
            timeout_recoveries: TimeoutRecoveries::default(),
            sack_enabled: config.sack,
            timestamps_enabled,
            scaling_enabled,
            ts_offset: draw.ts_offset,
            error: None,
            read_shut: false,
            shut_before: false,
            orphan: false,
            gave_up_port: false,
            connect_reported: true,
            awaits_data: false,
            parent: None,
            wants_transmit: true,
            events: Readiness::empty(),
            config,
            settings,
        }
    }

    /// Takes what a SYN or SYN-ACK tells: the peer's first number, MSS, window and options (RFC 9293 section 3.7.1, RFC 7323).
    pub fn take_syn(&mut self, now: SimTime, syn: &TcpHeader) {
        let options = &syn.options;
        self.rcv.irs = (1 << 32) + u64::from(syn.seq);
        self.rcv.queue = RecvQueue::new(self.rcv.irs + 1);
        self.rcv.wup = self.rcv.irs + 1;
        let offered = options.mss.map_or(unnamed_mss(self.tuple.family()), |mss| mss.get().into());
        self.snd.mss = self.snd.mss.min(offered.max(48));
        self.snd.window = u32::from(syn.window);
        self.snd.max_window = self.snd.window;
        self.snd.wl1 = self.rcv.irs;
        self.sack_enabled &= options.sack_permitted;
        self.timestamps_enabled &= options.timestamps.is_some();
        self.scaling_enabled &= options.window_scale.is_some();
        if self.scaling_enabled {
            // RFC 7323 section 2.3: no more than 14.
            self.snd.scale = options.window_scale.map_or(0, WindowScale::shift).min(14);
        } else {
            self.rcv.scale = 0;
            self.sizing.forgo_scaling();
        }
        if self.timestamps_enabled
            && let Some(stamps) = options.timestamps
        {
            self.rcv.ts_recent = stamps.value;
            self.rcv.ts_recent_at = now;
        }
        // The first guess at the peer's segments (tcp_initialize_rcv_mss).
        let guess = self.advertised_payload().min(self.snd.mss).min(self.rcv.window / 2);
        self.rcv.mss = guess.clamp(88, 536);
    }

    /// The handshake left no trace here: how long it took is known from the timestamp that the peer echoed, if any.
    pub fn guess_rtt(&mut self, now: SimTime, echo: Option<u32>) {
        self.rtt = RttEstimator::new(self.config.rto_min, self.config.rto_max);
        if let Some(echo) = echo.filter(|_| self.timestamps_enabled) {
            let elapsed = SimDuration::from_millis(self.clock(now).wrapping_sub(echo).max(1).into());
            self.rtt.sample(elapsed, now, self.snd.una, self.snd.nxt);
        }
        self.cc.keep_pace(&self.pipe());
    }

    /// The options of our own SYN or SYN-ACK.
    pub fn syn_options(&self, now: SimTime) -> TcpOptions {
        // Who has asked first asks again for all, whatever the other SYN said that has crossed ours.
        let asks = self.parent.is_none();
        let mss = interface_mss(self.tuple.family(), self.interface, &self.config, &self.settings);
        TcpOptions {
            mss: NonZeroU16::new(mss as u16),
            window_scale: self.scaling_enabled.then(|| WindowScale::new(self.rcv.scale)),
            sack_permitted: self.sack_enabled || (asks && self.config.sack),
            timestamps: (self.timestamps_enabled || (asks && self.config.timestamps)).then(|| self.stamps(now)),
            ..TcpOptions::default()
        }
    }

    /// The clock of our timestamps: milliseconds from an offset of this connection's own (RFC 7323 section 5.4).
    pub fn clock(&self, at: SimTime) -> u32 {
        ((at.as_nanos() / 1_000_000) as u32).wrapping_add(self.ts_offset)
    }

    /// The handshake is done.
    pub fn establish(&mut self, now: SimTime) {
        self.state = State::Established;
        self.acks.established(now);
        self.snd.last_sent_at = now;
        self.grow_send_buffer();
        self.sizing.started(now, self.rcv.queue.next(), self.advertised_payload(), self.rcv.window);
        self.arm_keepalive(now);
        self.events |= Readiness::WRITABLE;
        self.wants_transmit = true;
    }

    /// What must hold whenever nothing is being done to the connection; what does not, in words. For tests: it looks at every record.
    pub fn flaw(&self) -> Option<&'static str> {
        let armed = self.timers.send != SimTime::MAX;
        let waits = !self.board.is_empty() || (self.owes_new() && self.state.synchronised());
        if self.state == State::Closed || self.state == State::TimeWait {
            return armed.then_some("a timer of a connection that is over");
        }
        let first = self.board.head().map_or(self.snd.nxt, |head| head.start);
        [
            (self.board.is_consistent(), "counts of segments are wrong"),
            (self.cc.cwnd() >= 1, "the window is closed"),
            (self.snd.una <= self.snd.nxt, "more is acknowledged than was sent"),
            (first == self.snd.una, "what is in flight does not begin with what is awaited"),
            (armed || !waits || self.wants_transmit, "nothing wakes the connection that owes something"),
            (waits || !armed, "a timer, though nothing is owed"),
        ]
        .into_iter()
        .find_map(|(holds, words)| (!holds).then_some(words))
    }

    /// Ends the connection at once with an error for the program, if there is one (tcp_reset, tcp_write_err).
    pub fn fail(&mut self, error: SocketError) {
        self.counters.abort_on_timeout |= error == SocketError::TimedOut;
        self.error = Some(error);
        self.finish();
        self.events |= Readiness::all();
    }

    /// Ends the connection: nothing more is sent or expected.
    pub fn finish(&mut self) {
        self.counters.failed_attempt |= matches!(self.state, State::SynSent | State::SynReceived);
        self.counters.reset_established |= matches!(self.state, State::Established | State::CloseWait);
        self.state = State::Closed;
        self.snd.queue.clear();
        self.snd.throttled = false;
        self.timers.stop();
        self.rtt.backoff = 0;
        self.wants_transmit = false;
        self.events |= Readiness::HANGUP | Readiness::READABLE | Readiness::WRITABLE | Readiness::READ_HANGUP;
    }

    /// The peer's FIN has been taken or nothing can come any more.
    pub fn read_closed(&self) -> bool {
        self.rcv.fin_received || self.read_shut || self.state == State::Closed
    }

    /// The program can not write any more.
    pub fn write_closed(&self) -> bool {
        self.snd.fin_queued || self.state == State::Closed
    }

    /// All that was written, and the FIN, is acknowledged.
    pub fn fin_acknowledged(&self) -> bool {
        self.snd.fin_queued && self.snd.una > self.snd.queue.tail()
    }

    /// Shuts the sending side: a FIN follows what is queued (RFC 9293 section 3.10.4).
    pub fn shut_write(&mut self) {
        let next = match self.state {
            State::SynReceived | State::Established => State::FinWait1,
            State::CloseWait => State::LastAck,
            _ => return,
        };
        self.state = next;
        self.snd.fin_queued = true;
        self.wants_transmit = true;
        self.events |= Readiness::WRITABLE;
    }

    /// What poll(2) shows (tcp_poll). Remembers that somebody waits for room.
    pub fn readiness(&mut self) -> Readiness {
        let mut ready = Readiness::empty();
        if self.state == State::Closed || (self.read_closed() && self.write_closed()) {
            ready |= Readiness::HANGUP;
        }
        if self.read_closed() {
            ready |= Readiness::READABLE | Readiness::READ_HANGUP;
        }
        if !matches!(self.state, State::SynSent | State::SynReceived) {
            if self.is_readable() {
                ready |= Readiness::READABLE;
            }
            if self.write_closed() || self.is_writeable() {
                ready |= Readiness::WRITABLE;
            } else {
                self.snd.no_space = true;
            }
        }
        if self.error.is_some() {
            ready |= Readiness::ERROR;
        }
        ready
    }

    /// The FIN alone is to be sent: all that was written has been.
    pub fn fin_waits(&self) -> bool {
        self.snd.fin_queued && self.snd.nxt == self.snd.queue.tail()
    }

    /// The payload of the largest segment that the peer may send, by what we told it.
    pub fn advertised_payload(&self) -> u32 {
        let mss = interface_mss(self.tuple.family(), self.interface, &self.config, &self.settings);
        mss - if self.timestamps_enabled { 12 } else { 0 }
    }

    /// There is something to send that never was.
    pub fn owes_new(&self) -> bool {
        self.not_sent() > 0 || self.fin_waits()
    }

    /// Bytes written and never sent (SIOCOUTQNSD).
    pub fn not_sent(&self) -> usize {
        self.snd.queue.tail().saturating_sub(self.snd.nxt.max(self.snd.iss + 1)) as usize
    }
}

/// The MSS of a peer that names none: of the smallest MTU that a network may have (RFC 9293 section 3.7.1).
fn unnamed_mss(family: Family) -> u32 {
    match family {
        Family::V4 => 576 - 40,
        Family::V6 => 1280 - 60,
    }
}

/// What we offer as MSS: the interface's MTU without the two headers, as large as IPv4's length field permits.
fn interface_mss(family: Family, interface: Interface, config: &Config, settings: &Settings) -> u32 {
    let mss = match (interface, family) {
        (Interface::Loopback, Family::V4) => 65_495,
        (Interface::Loopback, Family::V6) => 65_476,
        (Interface::Ethernet, Family::V4) => u32::from(config.mtu).saturating_sub(40),
        (Interface::Ethernet, Family::V6) => u32::from(config.mtu).saturating_sub(60),
    };
    if settings.max_segment > 0 { mss.min(settings.max_segment.into()) } else { mss }
}
