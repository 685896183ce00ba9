//! What the host under test is told: flags of the command line, and sysctls, which scripts write below a folder that stands for `/proc/sys`.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use tcpip::Config;

/// `--so_flags`: `name=value`, separated by commas.
#[derive(Clone, Debug)]
pub struct Settings {
    pub address: Ipv4Addr,
    pub address6: Ipv6Addr,
    pub mtu: u16,
    pub hz: u32,
    /// The device takes trains of segments whole (TSO).
    pub offload: bool,
    /// The file with the last `tc` command line of the script, once there was one.
    pub qdisc: PathBuf,
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
            offload: true,
            qdisc: "/dev/null".into(),
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
                "offload" => value.parse().map(|offload| settings.offload = offload).is_ok(),
                "qdisc" => {
                    settings.qdisc = value.into();
                    true
                }
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

    /// Whether the script has given the device a queue without room: `tc qdisc add dev tun0 root pfifo limit 0`.
    pub fn queue_refuses(&self) -> bool {
        let command = fs::read_to_string(&self.qdisc).unwrap_or_default();
        let words: Vec<&str> = command.split_whitespace().collect();
        let sets = words.iter().any(|word| matches!(*word, "add" | "replace" | "change"));
        sets && words.windows(2).any(|pair| pair == ["limit", "0"])
    }

    /// What the stack is told. A sysctl that it has no knob for is left alone.
    pub fn stack(&self) -> Config {
        let mut config = Config { mtu: self.mtu, hz: self.hz, orphans_packets: true, ..Config::new(self.address) };
        for name in tcpip::sysctl::names() {
            if let Ok(value) = fs::read_to_string(self.sysctls.join(name)) {
                // What Linux would refuse, the script's shell has been told of.
                let _ = config.set_sysctl(name, &value);
            }
        }
        config
    }
}
