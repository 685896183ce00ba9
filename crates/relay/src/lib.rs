//! A relay of Tor: an ordinary Linux program of one thread, started as tor is.

mod channel;
mod circuit;
mod connection;
mod defence;
mod design;
mod esp;
mod flow;
mod http;
mod kernel;
mod labels;
mod layer;
mod own;
mod parameters;
mod policy;
mod relay;
mod resolver;
mod statistics;
mod stream;
mod torrc;
mod upload;

use onion_program::{clock, log, tls};
use std::ffi::OsString;
use std::process::ExitCode;

const HELP: &str = "\
A relay of Tor whose connections to other relays are an experiment's

Usage: gnomon-relay [--defaults-torrc FILE] [-f FILE] [--hush] [--OPTION VALUE]...

Files and options are tor's. Those that count here: Nickname, Address, ORPort, DataDirectory, ContactInfo, BandwidthRate,
BandwidthBurst, ExitRelay, ExitPolicy, ExitPolicyRejectPrivate, DirAuthority, DirCache, PublishServerDescriptor, Schedulers (KIST
or Vanilla), KISTSchedRunInterval, DisableOOSCheck, ShutdownWaitLength, TestingTorNetwork (for that policy alone),
DoSCircuitCreation... and DoSConnection.... Others are left to tor.

Its own:
      --LinkDesign NAME      What lies between it and its like, where both ends know it: 'vanilla' (all circuits share a connection),
                             'pctcp' (a connection for each circuit), 'pctcp-ipsec' (the same without TLS, in segments that leave
                             room for IPsec), 'torchestra' (one for light circuits, one for heavy ones), or
                             'imux' (as many as circuits that are active want)
      --CircuitScheduler NAME
                             Which circuit's cell is next: 'round-robin', or 'ewma' (who has sent least of late)
      --ConnectionScheduler NAME
                             Which of imux's connections takes it: 'circuit-rr', 'cell-rr', 'ewma-mapping', 'shortest-queue', 'kist'
      --ConnLimit N          Sockets that it has open at most [default: what the system allows; with imux, what it has at first]
      --ImuxTau T            The part of them that imux may take [default: 0.9]
      --ImuxChannelConnections N
                             Connections that a channel of imux has at most [default: as its algorithm says]
      --ImuxActive HOW       Which circuits imux counts: 'opened', 'ewma' or 'label' [default: opened]
      --TorchestraHeavy HOW  Which circuits torchestra takes for heavy: by 'label' or 'ewma' [default: label]
      --ClientLabels FILE    Lines 'ADDRESS web' or 'ADDRESS bulk': what a guard tells other relays of its clients' circuits
      --TCPNoDelay 0|1       Send on connections without Nagle's rule, by which tor sends [default: 0]
      --KISTFormula YEAR     How KIST reckons: '2018' as tor, each 2 ms; '2014' as first published, each 10 ms [default: 2018]
      --ChannelCircuitRate N, --ChannelCircuitBurst N
                             Circuits that another relay may create per second, and at once [default: any number]
      --NetworkReentry WHAT  Whether an exit lets streams to relays out: '0', '1', or 'auto', as the consensus says [default: auto]
      --RelaysFirst 0|1      Let exiting streams give their sockets up where connections of relays and clients need them [default: 0]
      --PuzzleEffort N       Attempts that a circuit must have cost its client (docs/attacks.md) [default: 0]
      --MaxRelayEarly N      RELAY_EARLY cells of a circuit; 0 for any number [default: 8]
      --HandshakeTimeout T   How long a connection's handshake may take; 0 for ever [default: 60 seconds]
      --MaxHandshakes N      Handshakes that may be unfinished, the oldest is given up; 0 for any number [default: 0]
      --StatisticsFile FILE  Append a line of JSON each second: channels, connections, circuits, streams, cells that wait
  -h, --help                 Print help
  -V, --version              Print version

It is a guard, a middle relay or an exit. Questions to the directory go on to an authority. Its keys are
DataDirectory/keys/secret_id_key, as tor's, and gnomon_relay_seed, from which all others follow; what is missing is made.
";

/// Runs until it is ended by a signal, or cannot go on; `arguments` without the program's name.
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    if arguments.iter().any(|argument| argument == "-h" || argument == "--help") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    if arguments.iter().any(|argument| argument == "-V" || argument == "--version") {
        println!("gnomon-relay {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    let settings = match torrc::read(lexopt::Parser::from_args(arguments)) {
        Ok(settings) => settings,
        Err(error) => {
            eprintln!("gnomon-relay: {error}");
            return ExitCode::from(2);
        }
    };
    match relay::Relay::new(settings).and_then(|mut relay| relay.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::warn(&error);
            eprintln!("gnomon-relay: {error}");
            ExitCode::FAILURE
        }
    }
}
