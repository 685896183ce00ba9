//! How many connections a channel may have, and which is closed if it has too many (IMUX, section 4.1).

/// What a relay is told of IMUX.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Sockets that a relay may have open: ConnLimit.
    pub conn_limit: usize,
    /// The part of them that connections between relays may take: τ.
    pub tau: f64,
    /// Connections that a channel has at most, whatever the algorithm says.
    pub per_channel: usize,
}

/// τ as published.
pub const TAU: f64 = 0.9;

/// What Algorithm 1 is given for one channel.
#[derive(Clone, Copy, Debug)]
pub struct Channel {
    /// Its connections, opening ones too.
    pub connections: usize,
    /// Its circuits that are active.
    pub active: usize,
}

/// Algorithm 1, GETMAXCONNS: connections that the channel may have, one at least. `all_active` are the relay's circuits that are active,
/// `sockets` what it has open.
pub fn most_connections(limits: &Limits, channel: Channel, all_active: usize, sockets: usize) -> usize {
    if channel.active == 0 || all_active == 0 {
        return 1;
    }
    let total = limits.conn_limit as f64 * limits.tau;
    let left = total - sockets as f64;
    let share = channel.active as f64 / all_active as f64 * total;
    let connections = channel.connections as f64;
    let most = share.min(connections * 2.0).min(connections + left);
    (most.max(1.0) as usize).min(limits.per_channel.max(1))
}

/// Connections that other relays open or that are being closed which may take sockets above those that Algorithm 1 deals out.
pub fn most_newcomers(limits: &Limits) -> usize {
    ((limits.conn_limit as f64 * (1.0 - limits.tau) / 2.0) as usize).max(1)
}

/// A connection that may be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub key: usize,
    pub is_open: bool,
    /// Rises with each connection that the relay makes or takes.
    pub serial: u64,
    pub last_used_ms: u64,
}

/// Which is closed first: one that is not yet open, of these the youngest; else the one that was not used for longest.
pub fn to_close(candidates: &[Candidate]) -> Option<Candidate> {
    let opening = candidates.iter().filter(|candidate| !candidate.is_open).max_by_key(|candidate| candidate.serial);
    opening.or_else(|| candidates.iter().min_by_key(|candidate| (candidate.last_used_ms, candidate.serial))).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { conn_limit: 1000, tau: 0.9, per_channel: usize::MAX };

    fn most(connections: usize, active: usize, all_active: usize, sockets: usize) -> usize {
        most_connections(&LIMITS, Channel { connections, active }, all_active, sockets)
    }

    #[test]
    fn a_channel_gets_its_share_doubling_what_it_has() {
        assert_eq!(most(500, 10, 100, 100), 90, "a tenth of 900");
        assert_eq!(most(3, 10, 100, 100), 6, "twice what it has");
        assert_eq!(most(1, 0, 100, 100), 1);
        assert_eq!(most(40, 0, 100, 100), 1, "no circuit is active");
        assert_eq!(most(4, 1, 0, 10), 1);
    }

    #[test]
    fn the_relays_limit_is_kept() {
        assert_eq!(most(40, 50, 100, 890), 50, "ten are left");
        assert_eq!(most(40, 50, 100, 920), 20, "too many are open");
        assert_eq!(most(40, 50, 100, 990), 1, "one remains");
        let capped = Limits { per_channel: 4, ..LIMITS };
        assert_eq!(most_connections(&capped, Channel { connections: 40, active: 50 }, 100, 100), 4);
    }

    #[test]
    fn what_is_not_open_goes_first_then_what_was_not_used_for_longest() {
        let connection = |key, is_open, serial, last_used_ms| Candidate { key, is_open, serial, last_used_ms };
        let all = [
            connection(0, true, 1, 50),
            connection(1, true, 2, 10),
            connection(2, false, 3, 0),
            connection(3, false, 4, 0),
        ];
        assert_eq!(to_close(&all).map(|candidate| candidate.key), Some(3));
        assert_eq!(to_close(&all[..3]).map(|candidate| candidate.key), Some(2));
        assert_eq!(to_close(&all[..2]).map(|candidate| candidate.key), Some(1));
        assert_eq!(to_close(&[]), None);
    }
}
