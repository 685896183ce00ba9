//! setsockopt(2) and getsockopt(2) with Linux's bounds and defaults.

use super::{Kind, Role, Stack};
use crate::addr::Family;
use crate::error::SocketError;
use crate::filter::PacketFilter;
use crate::ports::Hold;
use crate::socket::{OptionName, PMTUDISC_WANT, Settings, SocketId, SocketOption, deferred_seconds, deferred_timeouts};
use crate::tcp::connection::{Connection, State};
use crate::tcp::window::CLAMP_MIN;
use base::{SimDuration, SimTime};
use std::sync::Arc;

/// The longest that TCP_LINGER2 keeps an orphan (TCP_FIN_TIMEOUT_MAX), in seconds.
const FIN_TIMEOUT_MAX: u32 = 120;

/// SOCK_MIN_SNDBUF and SOCK_MIN_RCVBUF.
const MIN_SEND_BUFFER: u32 = 4608;
const MIN_RECV_BUFFER: u32 = 2304;

impl Stack {
    pub(super) fn tcp_settings(&self, family: Family) -> Settings {
        Settings {
            family,
            user: 0,
            device: None,
            reuse_address: false,
            reuse_port: false,
            keepalive: false,
            broadcast: false,
            linger: Settings::NO_LINGER,
            send_buffer: self.config.send_buffer,
            recv_buffer: self.config.recv_buffer,
            send_buffer_locked: false,
            recv_buffer_locked: false,
            recv_low_water: 1,
            no_delay: false,
            cork: false,
            keep_idle: whole_seconds(self.config.keep_idle),
            keep_interval: whole_seconds(self.config.keep_interval),
            keep_count: self.config.keep_count as u8,
            user_timeout: 0,
            syn_count: 0,
            deferred_timeouts: 0,
            max_segment: 0,
            not_sent_low_water: 0,
            linger2: whole_seconds(self.config.fin_timeout).min(u16::MAX.into()) as u16,
            window_clamp: 0,
            max_pacing_rate: u64::MAX,
            congestion: self.config.congestion_control,
            tos: 0,
            ttl: self.config.ttl as u8,
            v6_only: false,
            traffic_class: 0,
            hop_limit: 64,
            recv_errors: [false; 2],
            mtu_discover: [PMTUDISC_WANT; 2],
            interactive: false,
            dont_fragment6: false,
            least_hops: [0; 2],
            free_bind: false,
        }
    }

    pub(super) fn udp_settings(&self, family: Family) -> Settings {
        let (send_buffer, recv_buffer) = (self.config.udp_send_buffer, self.config.udp_recv_buffer);
        Settings { send_buffer, recv_buffer, ..self.tcp_settings(family) }
    }

    /// setsockopt(2). Errors: `InvalidArgument` for values that Linux refuses, `NoSuchOption` for TCP options of UDP sockets.
    pub fn set_option(&mut self, now: SimTime, id: SocketId, option: SocketOption) -> Result<(), SocketError> {
        let most = (self.config.send_argument_max, self.config.recv_argument_max);
        self.set_option_within(now, id, option, most)
    }

    /// SO_SNDBUFFORCE and SO_RCVBUFFORCE: a size of a buffer beyond what the system allows.
    pub fn force_buffer(&mut self, now: SimTime, id: SocketId, option: SocketOption) -> Result<(), SocketError> {
        const MOST: u32 = i32::MAX as u32 / 2;
        self.set_option_within(now, id, option, (MOST, MOST))
    }

    /// Buffers take no more than `most`, for sending and receiving, before it is doubled.
    fn set_option_within(
        &mut self,
        now: SimTime,
        id: SocketId,
        option: SocketOption,
        most: (u32, u32),
    ) -> Result<(), SocketError> {
        let largest = self.config.recv_buffer_max;
        if matches!(option, SocketOption::V6Only(_)) {
            self.give_up_chosen_port(id);
        }
        let bound = self.slot_mut(id).is_some() && self.hold_of(id.index) != Hold::None;
        let slot = self.slot_mut(id).ok_or(SocketError::BadSocket)?;
        if bound && matches!(option, SocketOption::V6Only(_)) {
            // ipv6(7): before bind alone.
            return Err(SocketError::InvalidArgument);
        }
        let stream = matches!(slot.kind, Kind::Tcp(_));
        if matches!(option, SocketOption::WindowClamp(0)) && has_window(&slot.kind) {
            // Only before there is a connection, or behind it, its window may be anything (`tcp_set_window_clamp`).
            return Err(SocketError::InvalidArgument);
        }
        let settings = match &mut slot.kind {
            Kind::Tcp(socket) => &mut socket.settings,
            Kind::Udp(_) if is_tcp_only(&option) => return Err(SocketError::NoSuchOption),
            Kind::Udp(socket) => &mut socket.settings,
            Kind::TimeWait(..) => return Err(SocketError::BadSocket),
        };
        store(settings, option, most)?;
        if stream {
            if let SocketOption::RecvLowWater(_) = option {
                // Half of the buffer at most, as large as that may become (tcp_set_rcvlowat).
                let locked = settings.recv_buffer_locked;
                let buffer = if locked { settings.recv_buffer } else { largest };
                settings.recv_low_water = settings.recv_low_water.min(buffer / 2).max(1);
            }
            // ECN belongs to the stack (__ip_sock_set_tos).
            settings.tos &= !3;
            settings.traffic_class &= !3;
        }
        let (settings, hold) = (settings.clone(), self.hold_of(id.index));
        if matches!(option, SocketOption::ReuseAddress(_) | SocketOption::ReusePort(_) | SocketOption::Device(_)) {
            self.hold_as(id.index, hold, &settings);
        }
        if let Some(conn) = self.connection_at(id.index) {
            apply(conn, now, option, settings);
            self.sync(now, id.index);
        }
        Ok(())
    }

    /// Brings what a socket holds of its port in line with its settings.
    fn hold_as(&mut self, index: u32, hold: Hold, settings: &Settings) {
        let hold = self.ports_of(index).update(hold, index, settings);
        match &mut self.slots[index as usize].kind {
            Kind::Tcp(socket) => socket.hold = hold,
            Kind::Udp(socket) => socket.hold = hold,
            Kind::TimeWait(..) => {}
        }
    }

    /// SO_ATTACH_FILTER, and SO_DETACH_FILTER for `None`. Whether there was one before.
    pub fn set_filter(&mut self, id: SocketId, filter: Option<Box<dyn PacketFilter>>) -> Result<bool, SocketError> {
        let place = match self.slot_mut(id).map(|slot| &mut slot.kind) {
            Some(Kind::Tcp(socket)) => &mut socket.filter,
            Some(Kind::Udp(socket)) => &mut socket.filter,
            _ => return Err(SocketError::BadSocket),
        };
        Ok(std::mem::replace(place, filter.map(Arc::new)).is_some())
    }

    /// Whose socket it is: the user that SO_REUSEPORT shares ports with.
    pub fn set_user(&mut self, id: SocketId, user: u32) {
        if let Ok(settings) = self.settings_mut(id) {
            settings.user = user;
        }
    }

    /// getsockopt(2); buffer sizes as Linux shows them: doubled if they were set, as grown if they are tuned.
    pub fn option(&mut self, id: SocketId, name: OptionName) -> Result<SocketOption, SocketError> {
        let slot = self.slot_mut(id).ok_or(SocketError::BadSocket)?;
        let (settings, conn) = match &slot.kind {
            Kind::Tcp(socket) => match &socket.role {
                Role::Connection(conn) => (&socket.settings, Some(conn)),
                _ => (&socket.settings, None),
            },
            Kind::Udp(socket) => (&socket.settings, None),
            Kind::TimeWait(..) => return Err(SocketError::BadSocket),
        };
        let s = settings;
        Ok(match name {
            OptionName::ReuseAddress => SocketOption::ReuseAddress(s.reuse_address),
            OptionName::ReusePort => SocketOption::ReusePort(s.reuse_port),
            OptionName::KeepAlive => SocketOption::KeepAlive(s.keepalive),
            OptionName::Broadcast => SocketOption::Broadcast(s.broadcast),
            OptionName::Linger => {
                let is_set = s.linger != Settings::NO_LINGER;
                SocketOption::Linger(is_set.then(|| SimDuration::from_secs(s.linger.into())))
            }
            OptionName::SendBuffer => {
                SocketOption::SendBuffer(conn.map_or(s.send_buffer, |conn| conn.sizing.send_buffer))
            }
            OptionName::RecvBuffer => {
                SocketOption::RecvBuffer(conn.map_or(s.recv_buffer, |conn| conn.sizing.recv_buffer))
            }
            OptionName::BufferLocks => {
                let locks = u32::from(s.send_buffer_locked) | u32::from(s.recv_buffer_locked) << 1;
                SocketOption::BufferLocks(locks)
            }
            OptionName::RecvLowWater => SocketOption::RecvLowWater(s.recv_low_water),
            OptionName::NoDelay => SocketOption::NoDelay(s.no_delay),
            OptionName::Cork => SocketOption::Cork(s.cork),
            OptionName::QuickAck => SocketOption::QuickAck(conn.map_or(!s.interactive, |conn| !conn.acks.interactive)),
            OptionName::KeepIdle => SocketOption::KeepIdle(SimDuration::from_secs(s.keep_idle.into())),
            OptionName::KeepInterval => SocketOption::KeepInterval(SimDuration::from_secs(s.keep_interval.into())),
            OptionName::KeepCount => SocketOption::KeepCount(s.keep_count.into()),
            OptionName::UserTimeout => SocketOption::UserTimeout(s.user_timeout()),
            OptionName::SynCount => SocketOption::SynCount(s.syn_count.into()),
            OptionName::DeferAccept => SocketOption::DeferAccept(deferred_seconds(s.deferred_timeouts)),
            OptionName::MaxSegment => {
                let unconnected = if s.max_segment > 0 { s.max_segment.into() } else { 536 };
                SocketOption::MaxSegment(conn.map_or(unconnected, |conn| conn.payload_mss()))
            }
            OptionName::NotSentLowWater => SocketOption::NotSentLowWater(s.not_sent_low_water),
            OptionName::Linger2 => SocketOption::Linger2(SimDuration::from_secs(s.linger2.into())),
            OptionName::MaxPacingRate => SocketOption::MaxPacingRate(s.max_pacing_rate),
            OptionName::WindowClamp => SocketOption::WindowClamp(conn.map_or(s.window_clamp, |conn| conn.sizing.clamp)),
            OptionName::Congestion => SocketOption::Congestion(s.congestion),
            OptionName::TypeOfService => SocketOption::TypeOfService(s.tos),
            OptionName::TimeToLive => SocketOption::TimeToLive(s.ttl),
            OptionName::V6Only => SocketOption::V6Only(s.v6_only),
            OptionName::TrafficClass => SocketOption::TrafficClass(s.traffic_class),
            OptionName::HopLimit => SocketOption::HopLimit(s.hop_limit),
            OptionName::RecvErrors => SocketOption::RecvErrors(s.recv_errors[0]),
            OptionName::RecvErrors6 => SocketOption::RecvErrors6(s.recv_errors[1]),
            OptionName::MtuDiscover => SocketOption::MtuDiscover(s.mtu_discover[0].into()),
            OptionName::MtuDiscover6 => SocketOption::MtuDiscover6(s.mtu_discover[1].into()),
            OptionName::DontFragment6 => SocketOption::DontFragment6(s.dont_fragment6),
            OptionName::Device => SocketOption::Device(s.device),
            OptionName::LeastHops => SocketOption::LeastHops(s.least_hops[0].into()),
            OptionName::LeastHops6 => SocketOption::LeastHops6(s.least_hops[1].into()),
            OptionName::FreeBind => SocketOption::FreeBind(s.free_bind),
        })
    }
}

/// Whether it listens, or has a connection that is not over.
fn has_window(kind: &Kind) -> bool {
    match kind {
        Kind::Tcp(socket) => match &socket.role {
            Role::Idle => false,
            Role::Listener(_) => true,
            Role::Connection(conn) => conn.state != State::Closed,
        },
        _ => false,
    }
}

fn is_tcp_only(option: &SocketOption) -> bool {
    !matches!(
        option,
        SocketOption::ReuseAddress(_)
            | SocketOption::ReusePort(_)
            | SocketOption::KeepAlive(_)
            | SocketOption::Broadcast(_)
            | SocketOption::Linger(_)
            | SocketOption::SendBuffer(_)
            | SocketOption::RecvBuffer(_)
            | SocketOption::BufferLocks(_)
            | SocketOption::RecvLowWater(_)
            | SocketOption::MaxPacingRate(_)
            | SocketOption::TypeOfService(_)
            | SocketOption::TimeToLive(_)
            | SocketOption::V6Only(_)
            | SocketOption::TrafficClass(_)
            | SocketOption::HopLimit(_)
            | SocketOption::RecvErrors(_)
            | SocketOption::RecvErrors6(_)
            | SocketOption::MtuDiscover(_)
            | SocketOption::MtuDiscover6(_)
            | SocketOption::DontFragment6(_)
            | SocketOption::Device(_)
            | SocketOption::LeastHops(_)
            | SocketOption::LeastHops6(_)
            | SocketOption::FreeBind(_)
    )
}

fn whole_seconds(time: SimDuration) -> u32 {
    u32::try_from(time.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX)
}

fn in_range(value: u64, low: u64, high: u64) -> Result<(), SocketError> {
    if (low..=high).contains(&value) { Ok(()) } else { Err(SocketError::InvalidArgument) }
}

/// Takes a value as tcp(7) and socket(7) say.
fn store(s: &mut Settings, option: SocketOption, most: (u32, u32)) -> Result<(), SocketError> {
    let seconds = |d: SimDuration| d.as_nanos() / 1_000_000_000;
    match option {
        SocketOption::ReuseAddress(on) => s.reuse_address = on,
        SocketOption::ReusePort(on) => s.reuse_port = on,
        SocketOption::KeepAlive(on) => s.keepalive = on,
        SocketOption::Broadcast(on) => s.broadcast = on,
        SocketOption::Linger(time) => {
            s.linger = time.map_or(Settings::NO_LINGER, |time| whole_seconds(time).min(Settings::NO_LINGER - 1))
        }
        SocketOption::SendBuffer(size) => {
            s.send_buffer = size.min(most.0).saturating_mul(2).max(MIN_SEND_BUFFER);
            s.send_buffer_locked = true;
        }
        SocketOption::RecvBuffer(size) => {
            s.recv_buffer = size.min(most.1).saturating_mul(2).max(MIN_RECV_BUFFER);
            s.recv_buffer_locked = true;
        }
        SocketOption::BufferLocks(locks) => {
            in_range(u64::from(locks), 0, 3)?;
            (s.send_buffer_locked, s.recv_buffer_locked) = (locks & 1 != 0, locks & 2 != 0);
        }
        SocketOption::RecvLowWater(bytes) => s.recv_low_water = bytes.max(1),
        SocketOption::NoDelay(on) => s.no_delay = on,
        SocketOption::Cork(on) => s.cork = on,
        SocketOption::QuickAck(on) => s.interactive = !on,
        SocketOption::KeepIdle(idle) => {
            in_range(seconds(idle), 1, 32_767)?;
            s.keep_idle = whole_seconds(idle);
        }
        SocketOption::KeepInterval(interval) => {
            in_range(seconds(interval), 1, 32_767)?;
            s.keep_interval = whole_seconds(interval);
        }
        SocketOption::KeepCount(count) => {
            in_range(u64::from(count), 1, 127)?;
            s.keep_count = count as u8;
        }
        SocketOption::UserTimeout(timeout) => {
            s.user_timeout = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        }
        SocketOption::SynCount(count) => {
            in_range(u64::from(count), 1, 127)?;
            s.syn_count = u8::try_from(count).unwrap_or(u8::MAX);
        }
        SocketOption::DeferAccept(seconds) => s.deferred_timeouts = deferred_timeouts(seconds),
        SocketOption::MaxSegment(mss) => {
            if mss != 0 {
                in_range(u64::from(mss), 88, 32_767)?;
            }
            s.max_segment = mss as u16;
        }
        SocketOption::NotSentLowWater(bytes) => s.not_sent_low_water = bytes,
        SocketOption::Linger2(timeout) => s.linger2 = whole_seconds(timeout).min(FIN_TIMEOUT_MAX) as u16,
        SocketOption::WindowClamp(bytes) => s.window_clamp = if bytes > 0 { bytes.max(CLAMP_MIN) } else { 0 },
        SocketOption::MaxPacingRate(rate) => s.max_pacing_rate = rate,
        SocketOption::Congestion(kind) => s.congestion = kind,
        SocketOption::TypeOfService(tos) => s.tos = tos,
        SocketOption::TimeToLive(ttl) => {
            in_range(u64::from(ttl), 1, 255)?;
            s.ttl = ttl;
        }
        SocketOption::V6Only(on) => s.v6_only = on,
        SocketOption::TrafficClass(class) => s.traffic_class = class,
        SocketOption::HopLimit(hops) => s.hop_limit = hops,
        SocketOption::RecvErrors(on) => s.recv_errors[0] = on,
        SocketOption::RecvErrors6(on) => s.recv_errors[1] = on,
        SocketOption::MtuDiscover(how) | SocketOption::MtuDiscover6(how) => {
            in_range(u64::from(how), 0, 5)?;
            s.mtu_discover[usize::from(matches!(option, SocketOption::MtuDiscover6(_)))] = how as u8;
        }
        SocketOption::DontFragment6(on) => s.dont_fragment6 = on,
        SocketOption::Device(device) => s.device = device,
        SocketOption::LeastHops(hops) | SocketOption::LeastHops6(hops) => {
            let hops = u8::try_from(hops).map_err(|_| SocketError::InvalidArgument)?;
            s.least_hops[usize::from(matches!(option, SocketOption::LeastHops6(_)))] = hops;
        }
        SocketOption::FreeBind(on) => s.free_bind = on,
    }
    Ok(())
}

/// Brings a live connection in line with a changed option.
fn apply(conn: &mut Connection, now: SimTime, option: SocketOption, settings: Settings) {
    match option {
        SocketOption::SendBuffer(_) => {
            conn.sizing.send_buffer = settings.send_buffer;
            conn.make_room();
        }
        SocketOption::RecvBuffer(_) => conn.sizing.recv_buffer = settings.recv_buffer,
        SocketOption::RecvLowWater(_) if !settings.recv_buffer_locked => {
            conn.sizing.hold_at_least(settings.recv_low_water);
        }
        SocketOption::WindowClamp(_) => conn.sizing.set_clamp(settings.window_clamp, conn.rcv.window),
        SocketOption::Congestion(kind) => conn.cc.switch(kind, conn.config.hz),
        SocketOption::NoDelay(true) => {
            conn.snd.nagle_off_once = true;
            conn.wants_transmit = true;
        }
        SocketOption::Cork(false) => {
            conn.snd.nagle_off_once |= settings.no_delay;
            conn.wants_transmit = true;
        }
        SocketOption::QuickAck(on) => {
            conn.set_quick_ack(on);
        }
        _ => {}
    }
    conn.settings = settings;
    if matches!(option, SocketOption::KeepAlive(_) | SocketOption::KeepIdle(_)) {
        conn.timers.keepalive_probes = 0;
        conn.arm_keepalive(now);
    }
}
