//! The settings of `net.ipv4` and `net.core` that have an effect, by Linux's names and in its words (ip-sysctl). A change holds at
//! once: for new sockets, and for what connections look at as they go.

use crate::config::{Config, CongestionControl};
use base::SimDuration;

/// How a setting is written, what it may be, and where it lies.
enum Form {
    /// 0 is off; a number up to this is on.
    Flag(u64, fn(&mut Config) -> &mut bool),
    /// From, to.
    Count(u64, u64, fn(&mut Config) -> &mut u32),
    /// Whole units of so many nanoseconds, from, to.
    Time(u64, u64, u64, fn(&mut Config) -> &mut SimDuration),
    /// A buffer's least, first and largest size.
    Sizes(fn(&mut Config) -> [&mut u32; 3]),
    Ports,
    Congestion,
    Timestamps,
}

/// Units of time, in nanoseconds.
const NS: u64 = 1;
const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

const INT_MAX: u64 = i32::MAX as u64;
const UINT_MAX: u64 = u32::MAX as u64;

const SYSCTLS: &[(&str, Form)] = &[
    ("net/core/rmem_default", Form::Count(2304, INT_MAX, |c| &mut c.udp_recv_buffer)),
    ("net/core/rmem_max", Form::Count(2304, INT_MAX, |c| &mut c.recv_argument_max)),
    ("net/core/somaxconn", Form::Count(0, INT_MAX, |c| &mut c.somaxconn)),
    ("net/core/wmem_default", Form::Count(4608, INT_MAX, |c| &mut c.udp_send_buffer)),
    ("net/core/wmem_max", Form::Count(4608, INT_MAX, |c| &mut c.send_argument_max)),
    ("net/ipv4/ip_autobind_reuse", Form::Flag(1, |c| &mut c.autobind_reuse)),
    ("net/ipv4/ip_default_ttl", Form::Count(1, 255, |c| &mut c.ttl)),
    ("net/ipv4/ip_local_port_range", Form::Ports),
    ("net/ipv4/tcp_abort_on_overflow", Form::Flag(255, |c| &mut c.abort_on_overflow)),
    ("net/ipv4/tcp_autocorking", Form::Flag(1, |c| &mut c.autocork)),
    ("net/ipv4/tcp_comp_sack_delay_ns", Form::Time(NS, 0, u64::MAX, |c| &mut c.compression_delay)),
    ("net/ipv4/tcp_comp_sack_nr", Form::Count(0, 255, |c| &mut c.compressed_max)),
    ("net/ipv4/tcp_comp_sack_slack_ns", Form::Time(NS, 0, u64::MAX, |c| &mut c.compression_slack)),
    ("net/ipv4/tcp_congestion_control", Form::Congestion),
    ("net/ipv4/tcp_dsack", Form::Flag(255, |c| &mut c.dsack)),
    ("net/ipv4/tcp_early_retrans", Form::Count(0, 4, |c| &mut c.early_retransmission)),
    ("net/ipv4/tcp_fin_timeout", Form::Time(S, 0, INT_MAX / 1000, |c| &mut c.fin_timeout)),
    ("net/ipv4/tcp_frto", Form::Count(0, 255, |c| &mut c.frto)),
    ("net/ipv4/tcp_invalid_ratelimit", Form::Time(MS, 0, INT_MAX, |c| &mut c.challenge_interval)),
    ("net/ipv4/tcp_keepalive_intvl", Form::Time(S, 0, INT_MAX / 1000, |c| &mut c.keep_interval)),
    ("net/ipv4/tcp_keepalive_probes", Form::Count(0, 255, |c| &mut c.keep_count)),
    ("net/ipv4/tcp_keepalive_time", Form::Time(S, 0, INT_MAX / 1000, |c| &mut c.keep_idle)),
    ("net/ipv4/tcp_limit_output_bytes", Form::Count(0, INT_MAX, |c| &mut c.limit_output_bytes)),
    ("net/ipv4/tcp_max_reordering", Form::Count(0, INT_MAX, |c| &mut c.reordering_max)),
    ("net/ipv4/tcp_max_syn_backlog", Form::Count(0, INT_MAX, |c| &mut c.max_syn_backlog)),
    ("net/ipv4/tcp_min_tso_segs", Form::Count(1, 255, |c| &mut c.min_tso_segs)),
    ("net/ipv4/tcp_moderate_rcvbuf", Form::Flag(255, |c| &mut c.recv_autotune)),
    ("net/ipv4/tcp_notsent_lowat", Form::Count(0, UINT_MAX, |c| &mut c.not_sent_low_water)),
    ("net/ipv4/tcp_orphan_retries", Form::Count(0, 255, |c| &mut c.orphan_retries)),
    ("net/ipv4/tcp_pacing_ca_ratio", Form::Count(0, 1000, |c| &mut c.pacing_avoidance)),
    ("net/ipv4/tcp_pacing_ss_ratio", Form::Count(0, 1000, |c| &mut c.pacing_slow_start)),
    ("net/ipv4/tcp_reordering", Form::Count(0, INT_MAX, |c| &mut c.reordering)),
    ("net/ipv4/tcp_retrans_collapse", Form::Flag(255, |c| &mut c.retransmission_collapse)),
    ("net/ipv4/tcp_retries2", Form::Count(0, 255, |c| &mut c.retries)),
    ("net/ipv4/tcp_rmem", Form::Sizes(|c| [&mut c.recv_buffer_min, &mut c.recv_buffer, &mut c.recv_buffer_max])),
    ("net/ipv4/tcp_rto_max_ms", Form::Time(MS, 1000, 120_000, |c| &mut c.rto_max)),
    ("net/ipv4/tcp_rto_min_us", Form::Time(US, 1, INT_MAX, |c| &mut c.rto_min)),
    ("net/ipv4/tcp_sack", Form::Flag(255, |c| &mut c.sack)),
    ("net/ipv4/tcp_slow_start_after_idle", Form::Flag(255, |c| &mut c.slow_start_after_idle)),
    ("net/ipv4/tcp_syn_linear_timeouts", Form::Count(0, 127, |c| &mut c.syn_linear_timeouts)),
    ("net/ipv4/tcp_syn_retries", Form::Count(1, 127, |c| &mut c.syn_retries)),
    ("net/ipv4/tcp_synack_retries", Form::Count(0, 255, |c| &mut c.synack_retries)),
    ("net/ipv4/tcp_syncookies", Form::Count(0, 2, |c| &mut c.syn_cookies)),
    ("net/ipv4/tcp_timestamps", Form::Timestamps),
    ("net/ipv4/tcp_tso_rtt_log", Form::Count(0, 255, |c| &mut c.near_shift)),
    ("net/ipv4/tcp_tso_win_divisor", Form::Count(0, 255, |c| &mut c.tso_win_divisor)),
    ("net/ipv4/tcp_tw_reuse", Form::Count(0, 2, |c| &mut c.time_wait_reuse)),
    ("net/ipv4/tcp_tw_reuse_delay", Form::Time(MS, 1, INT_MAX, |c| &mut c.time_wait_reuse_delay)),
    ("net/ipv4/tcp_window_scaling", Form::Flag(255, |c| &mut c.window_scaling)),
    ("net/ipv4/tcp_wmem", Form::Sizes(|c| [&mut c.send_buffer_min, &mut c.send_buffer, &mut c.send_buffer_max])),
];

/// Why a setting was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SysctlError {
    /// No setting with an effect has this name.
    Unknown,
    /// Linux would refuse the value, too.
    Invalid,
    /// What the value names is not there.
    Absent,
}

/// The names of all settings with an effect, with slashes, in the order of the alphabet.
pub fn names() -> impl Iterator<Item = &'static str> {
    SYSCTLS.iter().map(|(name, _)| *name)
}

fn form(name: &str) -> Option<&'static Form> {
    SYSCTLS.iter().find(|(known, _)| *known == name).map(|(_, form)| form)
}

/// The numbers of a value, if it is nothing else.
fn numbers(text: &str) -> Option<Vec<u64>> {
    text.split_ascii_whitespace().map(|word| word.parse().ok()).collect()
}

impl Config {
    /// The value of a setting (`net/ipv4/tcp_sack`), as `/proc/sys` shows it, without the line's end.
    pub fn sysctl(&self, name: &str) -> Option<String> {
        let mut config = self.clone();
        Some(match form(name)? {
            Form::Flag(_, at) => u8::from(*at(&mut config)).to_string(),
            Form::Count(_, _, at) => at(&mut config).to_string(),
            Form::Time(unit, _, _, at) => (at(&mut config).as_nanos() / unit).to_string(),
            Form::Sizes(at) => at(&mut config).map(|size| size.to_string()).join("\t"),
            Form::Ports => format!("{}\t{}", self.ephemeral_ports.0, self.ephemeral_ports.1),
            Form::Timestamps => match (self.timestamps, self.timestamps_from_zero) {
                (false, _) => "0".to_owned(),
                (true, false) => "1".to_owned(),
                (true, true) => "2".to_owned(),
            },
            Form::Congestion => match self.congestion_control {
                CongestionControl::Cubic => "cubic".to_owned(),
                CongestionControl::Reno => "reno".to_owned(),
            },
        })
    }

    /// Changes a setting, by its name with slashes.
    pub fn set_sysctl(&mut self, name: &str, value: &str) -> Result<(), SysctlError> {
        let value = value.trim();
        let numbers = numbers(value);
        let one = || match numbers.as_deref() {
            Some([number]) => Ok(*number),
            _ => Err(SysctlError::Invalid),
        };
        let within = |number: u64, least: u64, most: u64| {
            if (least..=most).contains(&number) { Ok(number) } else { Err(SysctlError::Invalid) }
        };
        match form(name).ok_or(SysctlError::Unknown)? {
            Form::Flag(most, at) => *at(self) = within(one()?, 0, *most)? != 0,
            Form::Count(least, most, at) => *at(self) = within(one()?, *least, *most)? as u32,
            Form::Time(unit, least, most, at) => {
                *at(self) = SimDuration::from_nanos(unit * within(one()?, *least, *most)?);
            }
            Form::Sizes(at) => {
                let Some([least, first, largest]) = numbers.as_deref() else { return Err(SysctlError::Invalid) };
                for number in [least, first, largest] {
                    within(*number, 1, INT_MAX)?;
                }
                let places = at(self);
                for (place, number) in places.into_iter().zip([least, first, largest]) {
                    *place = *number as u32;
                }
            }
            Form::Ports => match numbers.as_deref() {
                Some([low, high]) if 1 <= *low && low <= high && *high <= 65_535 => {
                    self.ephemeral_ports = (*low as u16, *high as u16);
                }
                _ => return Err(SysctlError::Invalid),
            },
            Form::Congestion => {
                self.congestion_control = match value {
                    "cubic" => CongestionControl::Cubic,
                    "reno" => CongestionControl::Reno,
                    "" => return Err(SysctlError::Invalid),
                    _ => return Err(SysctlError::Absent),
                }
            }
            Form::Timestamps => {
                let form = within(one()?, 0, 2)?;
                (self.timestamps, self.timestamps_from_zero) = (form > 0, form == 2);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn every_setting_reads_back_what_it_shows() {
        let mut config = Config::new(Ipv4Addr::LOCALHOST);
        for name in names() {
            let value = config.sysctl(name).unwrap();
            assert_eq!(config.set_sysctl(name, &value), Ok(()), "{name} {value}");
            assert_eq!(config.sysctl(name), Some(value));
            assert!(config.set_sysctl(name, "many").is_err(), "{name}");
            assert_eq!(config.set_sysctl(name, ""), Err(SysctlError::Invalid), "{name}");
        }
        assert!(names().is_sorted());
    }

    #[test]
    fn values_are_bounded_as_on_linux() {
        let mut config = Config::new(Ipv4Addr::LOCALHOST);
        assert_eq!(config.sysctl("net/ipv4/tcp_rmem").as_deref(), Some("4096\t131072\t33554432"));
        assert_eq!(config.sysctl("net/ipv4/tcp_wmem").as_deref(), Some("4096\t16384\t4194304"));
        assert_eq!(config.set_sysctl("net/ipv4/tcp_wmem", "4096 20000 30000\n"), Ok(()));
        assert_eq!((config.send_buffer, config.send_buffer_max), (20_000, 30_000));
        for (name, value) in [
            ("net/ipv4/tcp_wmem", "4096 20000"),
            ("net/ipv4/tcp_syn_retries", "128"),
            ("net/ipv4/tcp_timestamps", "3"),
            ("net/ipv4/ip_local_port_range", "2000 1000"),
            ("net/core/rmem_max", "100"),
        ] {
            assert_eq!(config.set_sysctl(name, value), Err(SysctlError::Invalid), "{name} {value}");
        }
        assert_eq!(config.set_sysctl("net/ipv4/tcp_congestion_control", "vegas"), Err(SysctlError::Absent));
        assert_eq!(config.sysctl("net/ipv4/tcp_orphan_retries").as_deref(), Some("0"));
        for form in ["0", "1", "2"] {
            assert_eq!(config.set_sysctl("net/ipv4/tcp_timestamps", form), Ok(()));
            assert_eq!(config.sysctl("net/ipv4/tcp_timestamps").as_deref(), Some(form));
        }
        assert_eq!(config.set_sysctl("net/ipv4/tcp_retries1", "3"), Err(SysctlError::Unknown));
    }
}
