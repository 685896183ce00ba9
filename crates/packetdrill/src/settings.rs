//! What the host under test is told: flags of the command line, and sysctls, which scripts write below a folder that stands for `/proc/sys`.

use base::SimDuration;
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use tcpip::{Config, CongestionControl};

/// `--so_flags`: `name=value`, separated by commas.
#[derive(Clone, Debug)]
pub struct Settings {
    pub address: Ipv4Addr,
    pub address6: Ipv6Addr,
    pub mtu: u16,
    pub hz: u32,
    /// Where sysctls lie as files.
    pub sysctls: PathBuf,
    /// A folder that is the host's own.
    pub folder: PathBuf,
}

impl Settings {
    pub fn parse(flags: &str) -> Result<Settings, String> {
        let mut settings = Settings {
            address: Ipv4Addr::new(192, 168, 0, 1),
            address6: Ipv6Addr::new(0xfd3d, 0x0a0b, 0x17d6, 0, 0, 0, 0, 1),
            mtu: 1500,
            hz: 1000,
            sysctls: "/proc/sys".into(),
            folder: "/tmp".into(),
        };
        for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
            let (name, value) = flag.split_once('=').ok_or_else(|| format!("{flag}: not name=value"))?;
            let known = match name {
                "address" => value.parse().map(|address| settings.address = address).is_ok(),
                "address6" => value.parse().map(|address| settings.address6 = address).is_ok(),
                "mtu" => value.parse().map(|mtu| settings.mtu = mtu).is_ok(),
                "hz" => value.parse().map(|hz| settings.hz = hz).is_ok(),
                "sysctls" => {
                    settings.sysctls = value.into();
                    true
                }
                "folder" => {
                    settings.folder = value.into();
                    true
                }
                _ => false,
            };
            if !known {
                return Err(format!("{flag}: unknown name, or not a value of it"));
            }
        }
        Ok(settings)
    }

    /// What the stack is told. A sysctl that it has no knob for is left alone.
    pub fn stack(&self) -> Config {
        let mut config = Config {
            mtu: self.mtu,
            hz: self.hz,
            orphans_packets: true,
            tso_win_divisor: 3,
            ..Config::new(self.address)
        };
        let sysctl = |name: &str| read(&self.sysctls, name);
        let number = |name: &str| sysctl(name)?.first().copied();
        let flag = |name: &str, place: &mut bool| {
            if let Some(value) = number(name) {
                *place = value != 0;
            }
        };
        let count = |name: &str, place: &mut u32| {
            if let Some(value) = number(name).and_then(|value| u32::try_from(value).ok()) {
                *place = value;
            }
        };
        flag("net/ipv4/tcp_autocorking", &mut config.autocork);
        flag("net/ipv4/tcp_sack", &mut config.sack);
        flag("net/ipv4/tcp_timestamps", &mut config.timestamps);
        flag("net/ipv4/tcp_window_scaling", &mut config.window_scaling);
        flag("net/ipv4/tcp_slow_start_after_idle", &mut config.slow_start_after_idle);
        flag("net/ipv4/tcp_moderate_rcvbuf", &mut config.recv_autotune);
        count("net/ipv4/tcp_syn_retries", &mut config.syn_retries);
        count("net/ipv4/tcp_syn_linear_timeouts", &mut config.syn_linear_timeouts);
        count("net/ipv4/tcp_synack_retries", &mut config.synack_retries);
        count("net/ipv4/tcp_retries2", &mut config.retries);
        count("net/ipv4/tcp_notsent_lowat", &mut config.not_sent_low_water);
        count("net/ipv4/tcp_min_tso_segs", &mut config.min_tso_segs);
        count("net/ipv4/tcp_tso_win_divisor", &mut config.tso_win_divisor);
        count("net/core/somaxconn", &mut config.somaxconn);
        if let Some(&[_, first, most]) = sysctl("net/ipv4/tcp_rmem").as_deref() {
            (config.recv_buffer, config.recv_buffer_max) = (first as u32, most as u32);
        }
        if let Some(&[_, first, most]) = sysctl("net/ipv4/tcp_wmem").as_deref() {
            (config.send_buffer, config.send_buffer_max) = (first as u32, most as u32);
        }
        if let Some(seconds) = number("net/ipv4/tcp_fin_timeout") {
            config.fin_timeout = SimDuration::from_secs(seconds);
        }
        if let Ok(name) = fs::read_to_string(self.sysctls.join("net/ipv4/tcp_congestion_control")) {
            config.congestion_control =
                if name.trim() == "reno" { CongestionControl::Reno } else { CongestionControl::Cubic };
        }
        config
    }
}

/// The numbers of a sysctl; None where it is not there or has none.
fn read(folder: &Path, name: &str) -> Option<Vec<u64>> {
    let text = fs::read_to_string(folder.join(name)).ok()?;
    text.split_whitespace().map(|word| word.parse().ok()).collect()
}
