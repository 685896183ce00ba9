//! Help texts.

use crate::config::OPTIONS;
use std::fmt::Write;

pub const TOPICS: &[&str] = &["server", "client", "monitor", "phold", "flood", "sockets", "config", "output"];

pub fn topic(name: &str) -> Option<String> {
    Some(match name {
        "server" => server(),
        "client" | "check" => client(),
        "monitor" => monitor(),
        "phold" => phold(),
        "flood" => flood(),
        "sockets" => sockets(),
        "config" => CONFIG.into(),
        "output" => OUTPUT.into(),
        _ => return None,
    })
}

pub fn overview() -> String {
    format!(
        "gnomon-traffic {}: generates traffic between hosts and measures it

Usage: gnomon-traffic COMMAND [OPTIONS]

Commands:
  server    answer downloads, uploads and Markov streams
  client    fetch from servers as web, bulk, performance or Markov clients do, directly or over SOCKS5
  monitor   log the events of a tor's control port
  phold     send messages round among many hosts, some of which have much to do
  flood     have a tor build many circuits through one relay: an attack on a network of one's own
  sockets   open many TCP sockets, and say what that takes
  check     read a client's configuration and say what is wrong with it
  help      explain a command, or one of: config (the client's file), output (the lines that are written)

All write JSON, one object a line, on standard output.

Try it:
  gnomon-traffic server --listen 127.0.0.1:8080 &
  gnomon-traffic client --server 127.0.0.1:8080 --behaviour bulk --count 3
  curl http://127.0.0.1:8080/1000?seed=7 | sha256sum

Exit status: 0 all done and verified, 1 a transfer failed, 2 something is wrong with the input
",
        env!("CARGO_PKG_VERSION")
    )
}

pub fn server() -> String {
    "Answers HTTP/1.1 requests with bytes that follow from a seed

Usage: gnomon-traffic server [OPTIONS]

  -l, --listen ADDRESS:PORT   listen here; may be repeated (default 0.0.0.0:80)
      --log                   write a line for each request
      --idle TIME             close connections on which nothing happens so long (default 300 s; 0 never)
  -h, --help                  this text

Requests:
  GET /SIZE?seed=S            SIZE bytes, such as /1000 or /5MiB, that follow from S (default 0)
  POST /upload?seed=S         takes a body and answers {\"bytes\":N,\"digest\":\"XXH3-64\",\"verified\":true|false|null}:
                              whether it was what S gives; null without a seed
  POST /stream?seed=S         becomes a Markov stream (used by clients of the kind markov)

Word number i of a seed's bytes is SplitMix64's output number i in little-endian form.
"
    .into()
}

pub fn client() -> String {
    let mut text = "Fetches from servers and writes a line per transfer

Usage: gnomon-traffic client FILE.yaml [OPTIONS]
       gnomon-traffic client --server HOST:PORT [OPTIONS]
       gnomon-traffic check FILE.yaml

A file can hold several behaviours ('gnomon-traffic help config'); beside it, only options that are not about a
behaviour may be given, and they win over the file. Times are written like '500 ms', '10 s', '2 min', sizes like
'320 KiB' or '5 MB'.

"
    .to_owned();
    for option in OPTIONS {
        let _ = writeln!(text, "      {:<28} {}", format!("--{} {}", option.name, option.value), option.help);
    }
    text + "  -h, --help                         this text

Examples:
  gnomon-traffic client --server 127.0.0.1:8080 --size '1 MiB' --behaviour bulk --count 10
  gnomon-traffic client --socks 127.0.0.1:9050 --server server1:80 --behaviour performance --stop '10 min'
"
}

pub fn monitor() -> String {
    "Logs the events of a tor's control port

Usage: gnomon-traffic monitor [OPTIONS]

      --control HOST:PORT          the control port (default 127.0.0.1:9051)
      --control-password WORD      its password; without one, a cookie is found through the port itself
      --events NAME,...            which events: CIRC, BW, STREAM have lines of their own, any other
                                   is told as it comes (default CIRC,BW)
      --wait TIME                  how long to try to connect (default 60 s)
      --duration TIME              how long to watch (default: until tor ends)
  -h, --help                       this text
"
    .into()
}

pub fn phold() -> String {
    "Sends messages round among many hosts: PHOLD, which measures simulators

Usage: gnomon-traffic phold --peers BASE --hosts N --number I [OPTIONS]

      --peers BASE                 the hosts are BASE1 to BASEN; or, if BASE is an IPv4 address, have that and the following ones
      --hosts N                    how many there are
      --number I                   which of them this one is, from 1
      --messages N                 messages that this host sends at the start (default 1)
      --seed N                     weights, which are the same on all hosts, and destinations follow from it (default 1)
      --shape F                    of the Pareto distribution of weights; the smaller, the more unequal (default 1.5)
      --port PORT                  the hosts' UDP port (default 9000)
      --delay TIME                 send the first messages so long after the start (default 1 s)
      --duration TIME              end so long after the start (default 60 s)
  -h, --help                       this text

Whoever receives a message sends one on, at once, to another host that is drawn by weight. The last line says how many
came ('handled') and left ('sent').
"
    .into()
}

pub fn flood() -> String {
    "Has a tor build circuits through one relay, between varying others, over its control port

Usage: gnomon-traffic flood --victim RELAY [OPTIONS]

      --victim RELAY               nickname, or $FINGERPRINT
      --count N                    circuits each time (default 1000)
      --every TIME                 how often (default 6 s)
      --start TIME                 begin so long after the start (default 1800 s)
      --stop TIME                  close all of them and end so long after the start (default 3600 s)
      --seed N                     the relays beside the victim follow from it (default 1)
      --control HOST:PORT          tor's control port (default 127.0.0.1:9051)
      --control-password WORD      its password; without one, a cookie is found through the port itself
  -h, --help                       this text

A line each time says how many were begun, refused by tor, built, and failed until then. docs/attacks.md explains what
that does to relays.
"
    .into()
}

pub fn sockets() -> String {
    "Opens TCP sockets, both ends of connections over loopback, and says what that takes

Usage: gnomon-traffic sockets [OPTIONS]

      --count N     sockets, two for each connection (default 1000)
      --every N     a line after so many (default 1000)
      --before N    sockets that lines count besides, which others have (default 0)
      --hold TIME   how long they stay open when all are there (default 0 s)
  -h, --help        this text

It asks the system for as many descriptors as it needs, which takes root beyond the hard limit (ulimit -Hn) and ends at
fs.nr_open; what one process may not have, another opens that it starts. Where no more sockets are given, the last line
but one says why, and the exit status is 0 all the same.
"
    .into()
}

const CONFIG: &str = "The client's configuration, in YAML

socks: 127.0.0.1:9050        # absent: direct connections
isolation: transfer          # SOCKS5 credentials per transfer | flow | behaviour | none
control: 127.0.0.1:9051      # optional: circuits are logged
start: 300 s                 # after the process's start
stop: 3600 s                 # after the process's start; absent: when all counts are done
seed: 7                      # choices and contents follow from it
servers: [server1:80, \"10.1.2.3:80\", \"abcdef.onion:80\"]
behaviours:
  - { kind: web, size: 320 KiB, pause: [1 s, 60 s] }
  - { kind: bulk, size: 5 MiB, count: 10, retries: 2 }
  - { kind: performance, sizes: [50 KiB, 1 MiB, 5 MiB], every: 60 s }
  - { kind: markov, streams: streams.graphml, packets: packets.graphml }

Every behaviour may also have: count, retries, retry_after, timeout, stall, parallel, servers, direction.
Files of models are looked for beside the configuration. docs/traffic.md explains every key.
";

const OUTPUT: &str = "Lines on standard output, each a JSON object

kind        when
start       once, first
transfer    after each attempt at a transfer
circuit     when a circuit of tor was built or failed (client with a control port, monitor)
bandwidth   each second, bytes that tor read and wrote (monitor)
stream      when one of tor's streams changes (monitor with --events STREAM)
event       any other event of the control port (monitor)
circuits    each time that circuits are begun (flood)
sockets     each time that so many were opened (sockets)
request     after each request (server with --log)
end         once, last: totals

docs/traffic.md explains every field.
";
