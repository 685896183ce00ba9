//! Texts of experiment files.

use std::fmt::Write;

/// One host on which a program that only waits is started so many times within the first simulated second; all still wait at the end.
pub fn waiting(processes: u32) -> String {
    let mut text = String::from(
        "# Made by gnomon lab: so many copies of a program that waits.\n\
         general: { stop_time: 2 s, heartbeat_interval: null }\n\
         network: { graph: { type: 1_gbit_switch } }\n\
         hosts:\n  host:\n    network_node_id: 0\n    processes:\n",
    );
    for _ in 0..processes {
        text += "    - { path: sleep, args: '1000', start_time: 1 s, expected_final_state: running }\n";
    }
    text
}

/// One host on which a program opens so many sockets and holds them.
pub fn sockets(count: u64) -> String {
    format!(
        "# Made by gnomon lab: so many sockets, both ends of connections over loopback.\n\
         general: {{ stop_time: 1 h, heartbeat_interval: null }}\n\
         network: {{ graph: {{ type: 1_gbit_switch }} }}\n\
         hosts:\n  host:\n    network_node_id: 0\n    processes:\n    - \
         {{ path: gnomon-traffic, args: [sockets, --count, \"{count}\", --every, \"{count}\", --hold, \"1 s\"] }}\n"
    )
}

/// An experiment up to its hosts, which are all equally far from each other, at node 0. `stop` is in simulated seconds.
pub fn beginning(about: &str, stop: u32, latency: &str) -> String {
    lossy(about, stop, latency, 0.0)
}

/// The same, of whose packets a share is lost between any two hosts.
pub fn lossy(about: &str, stop: u32, latency: &str, loss: f64) -> String {
    let loss = if loss > 0.0 { format!(" packet_loss {loss}") } else { String::new() };
    format!(
        "# Made by gnomon lab: {about}.
general: {{ stop_time: {stop} s, heartbeat_interval: null }}
network:
  graph:
    type: gml
    inline: |
      graph [
        node [ id 0 host_bandwidth_down \"1 Gbit\" host_bandwidth_up \"1 Gbit\" ]
        edge [ source 0 target 0 latency \"{latency}\"{loss} ]
      ]
hosts:
"
    )
}

/// PHOLD between hosts that are all 50 ms apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phold {
    pub hosts: u32,
    /// That each host sends at the start.
    pub messages: u32,
    /// For how long messages travel, in simulated seconds.
    pub seconds: u32,
}

impl Phold {
    pub fn text(self) -> String {
        let Phold { hosts, messages, seconds } = self;
        let stop = seconds + 2;
        let mut text = beginning(&format!("PHOLD with {hosts} hosts and {messages} messages of each"), stop, "50 ms");
        let end = seconds + 1;
        for number in 1..=hosts {
            let address = std::net::Ipv4Addr::from(0x0a01_0000 + number);
            let _ = writeln!(
                text,
                "  node{number}: {{ network_node_id: 0, ip_addr: {address}, processes: [{{ path: gnomon-traffic, args: 'phold --peers \
                 10.1.0.1 --hosts {hosts} --number {number} --messages {messages} --delay 1s --duration {end}s' }}] }}"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_have_the_programs_they_name() {
        assert_eq!(waiting(7).matches("path: sleep").count(), 7);
        assert!(sockets(70).contains("sockets, --count, \"70\", --every, \"70\""), "{}", sockets(70));
        let text = Phold { hosts: 300, messages: 2, seconds: 5 }.text();
        assert_eq!(text.matches("path: gnomon-traffic").count(), 300);
        assert!(text.contains("node300: { network_node_id: 0, ip_addr: 10.1.1.44,"), "{text}");
    }
}
