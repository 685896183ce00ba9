//! The one table of options: every key of `general`, `network`, `experimental` and `host_option_defaults` with its type,
//! default, role and help text. The reader of files, the command line, its help, the documentation and
//! `processed-config.yaml` all follow from it.

use crate::setting::{
    AddressSpace, CheapCrypto, ClockOffset, CpuSpeed, Cpus, Expression, Kind, LogLevel, MemoryLimit, OpenFiles,
    QueueDiscipline, Scalar, Scheduler, Setting, SocketBuffer, StraceMode, Sysctls,
};
use base::{ByteSize, SimDuration, StartDate};
use probes::{Identifiers, Level};
use topology::NetworkModel;

/// What an option does here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Must be given, in the file or on the command line.
    Required,
    Works,
    /// Accepted, since existing experiments set it; the reason why it changes nothing.
    NoEffect(&'static str),
}

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionSpec {
    /// The section of the file that it belongs to, such as `general`.
    pub section: &'static str,
    /// Its key in that section.
    pub key: &'static str,
    pub kind: Kind,
    /// As it would be written in a file.
    pub default: &'static str,
    pub role: Role,
    /// The letter of its short form on the command line.
    pub short: Option<char>,
    pub help: &'static str,
}

impl OptionSpec {
    /// `section.key`, which is how messages and `Overrides` name it.
    pub fn path(&self) -> String {
        format!("{}.{}", self.section, self.key)
    }

    /// The long flag without its dashes: the key with `-` for `_`. The level of hosts' logs would clash with
    /// `general.log_level`, and is `host-log-level`.
    pub fn flag(&self) -> String {
        let host_log_level = self.section == "host_option_defaults" && self.key == "log_level";
        let prefix = if host_log_level { "host-" } else { "" };
        format!("{prefix}{}", self.key.replace('_', "-"))
    }
}

/// All options, in the order in which help and documentation show them.
pub fn options() -> impl Iterator<Item = &'static OptionSpec> + Clone {
    [General::OPTIONS, NetworkOptions::OPTIONS, HostOptions::OPTIONS, Experimental::OPTIONS].into_iter().flatten()
}

/// A section of options: a struct with a typed field for each row.
pub(crate) trait Section: Sized {
    const OPTIONS: &'static [OptionSpec];
    fn defaults() -> Self;
    /// Sets the option `key`, which must be one of `OPTIONS`.
    fn set(&mut self, key: &str, scalar: Scalar<'_>) -> Result<(), String>;
    /// Every key with its value as a YAML scalar.
    fn entries(&self) -> Vec<(&'static str, String)>;
}

macro_rules! section {
    (
        $(#[$doc:meta])* $name:ident in $section:literal {
            $($key:ident: $type:ty = $default:literal, $role:expr, $short:expr, $help:literal;)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $(#[doc = $help] pub $key: $type,)+
        }

        impl Section for $name {
            const OPTIONS: &'static [OptionSpec] = &[$(OptionSpec {
                section: $section,
                key: stringify!($key),
                kind: <$type as Setting>::KIND,
                default: $default,
                role: $role,
                short: $short,
                help: $help,
            }),+];

            fn defaults() -> Self {
                $(let $key = <$type as Setting>::read(Scalar { text: $default, plain: true })
                    .expect(concat!("the default of ", stringify!($key)));)+
                $name { $($key),+ }
            }

            fn set(&mut self, key: &str, scalar: Scalar<'_>) -> Result<(), String> {
                match key {
                    $(stringify!($key) => self.$key = Setting::read(scalar)?,)+
                    other => unreachable!("no option {other}"),
                }
                Ok(())
            }

            fn entries(&self) -> Vec<(&'static str, String)> {
                vec![$((stringify!($key), self.$key.write())),+]
            }
        }
    };
}

use Role::{NoEffect, Required, Works};

section! {
    /// `general`: the experiment as a whole.
    General in "general" {
        stop_time: SimDuration = "0 sec", Required, Some('e'),
            "The simulated time at which the experiment ends";
        bootstrap_end_time: SimDuration = "0 sec", Works, None,
            "Until this simulated time nothing is lost and bandwidth is unlimited";
        data_directory: String = "shadow.data", Works, Some('d'),
            "Where the run's output goes; must not exist yet";
        heartbeat_interval: Option<SimDuration> = "1 sec", Works, None,
            "The simulated time between heartbeat messages in the log";
        log_level: LogLevel = "info", Works, Some('l'),
            "How much is logged on standard output";
        model_unblocked_syscall_latency: bool = "false", Works, None,
            "Whether system calls that do not block take simulated time, so that busy loops end";
        parallelism: u32 = "0", Works, Some('p'),
            "How many threads run the simulation; 0 means one per physical core";
        progress: bool = "false", Works, None,
            "Whether progress is shown on standard error";
        seed: u32 = "1", Works, Some('s'),
            "The seed of all randomness: the same plan and seed give the same run";
        start_date: StartDate = "2000-01-01T00:00:00Z", Works, None,
            "The date at which hosts' clocks begin, in UTC: a day, or a day and a time. On the command line 'now' is this moment, which processed-config.yaml then names";
        template_directory: Option<String> = "null", Works, None,
            "A directory that is copied to the data directory first";
    }
}

section! {
    /// `network`, without the graph, which is no option.
    NetworkOptions in "network" {
        ipv6: bool = "false", Works, None,
            "Whether every host has an IPv6 address too: fd00::11.0.0.1 beside 11.0.0.1";
        use_shortest_path: bool = "true", Works, None,
            "Whether packets take the path of smallest latency, or only direct edges between nodes";
    }
}

section! {
    /// `host_option_defaults`, and a host's own `host_options`.
    HostOptions in "host_option_defaults" {
        address_space: Option<AddressSpace> = "null", Works, None,
            "How many addresses a host's processes have together, of 64 TiB for all hosts; a browser with all its processes takes 8 TiB; null: as many as other hosts";
        call_latency: Option<SimDuration> = "null", Works, None,
            "How long a system call takes on a host whose processor is slow or busy (a read of a clock a hundredth of it), which two runs repeat; null: as general.model_unblocked_syscall_latency says";
        clock_offset: Option<ClockOffset> = "null", Works, None,
            "How far a host's real-time clock is fast (5 ms) or slow (-5 ms), up to a year; 0: it shows simulated time; null: up to 10 ms fast, drawn by the seed for each host (docs/time.md)";
        cpu_speed: Option<CpuSpeed> = "null", Works, None,
            "How fast a host's processor is: against this machine's (0.5), or its clock rate (1.2 GHz). Guests' computing then takes simulated time as measured, and two runs differ; null: it takes none";
        cpus: Cpus = "1", Works, None,
            "How many processors a host has, up to 256. Where computing takes time (cpu_speed, call_latency), so many of its threads compute at once; elsewhere programs only see them (docs/time.md)";
        log_level: Option<LogLevel> = "null", Works, None,
            "How much is logged about hosts; null means as much as about everything else";
        open_files: OpenFiles = "1024", Works, None,
            "How many descriptors each process may have at first (its soft limit, up to the hard one of 1048576)";
        pcap_capture_size: ByteSize = "65535 B", Works, None,
            "How much of each packet is captured";
        pcap_enabled: bool = "false", Works, None,
            "Whether each host's packets are captured";
        qdisc: Option<QueueDiscipline> = "null", Works, None,
            "The queue discipline of a host's interface (docs/network-model.md); null: experimental.interface_qdisc";
        sysctl: Option<Sysctls> = "null", Works, None,
            "Settings of a host's network stack that differ from Linux's, such as 'net.ipv4.tcp_sack = 0, net.ipv4.tcp_rmem = 4096 87380 6291456' (docs/network-model.md); programs may change them later";
    }
}

section! {
    /// `experimental`.
    Experimental in "experimental" {
        cheap_crypto: CheapCrypto = "off", Works, None,
            "Whether OpenSSL's ciphers are replaced on all hosts by cheap ones of the same form, which protect nothing: 'cells' those of tor's relay cells, 'all' those of TLS 1.3 too (docs/cheap-crypto.md). Nothing may be concluded about processors then";
        coalescing: SimDuration = "100 us", Works, None,
            "How long consecutive segments of one write may take their line and still arrive as one, as network cards and Linux's GRO hand them on (docs/network-model.md); 0: each by itself";
        compute_budget: Option<SimDuration> = "10 sec", Works, None,
            "The processor time that a guest may take between two system calls; beyond it, its computing takes simulated time and the run cannot be repeated to the bit; null: any";
        cpu_model: Option<String> = "null", Works, None,
            "A file of what computing costs between two system calls, as 'gnomon profile --costs' writes it (docs/profiling.md): guests' computing then takes simulated time drawn from it by the seed, the same in every run; null: none, or as cpu_speed says";
        interface_qdisc: QueueDiscipline = "fifo", Works, None,
            "The queue discipline of hosts' interfaces: in which order they send what sockets hand over (docs/network-model.md)";
        max_unapplied_cpu_latency: SimDuration = "1 us",
            NoEffect("the clock of a guest moves with each call"), None,
            "How much execution time may gather before the clock of a guest moves";
        memory_limit: Option<MemoryLimit> = "null", Works, None,
            "How much of the machine's memory the run may take before guests are refused more; null: all but a sixteenth of it";
        native_preemption_enabled: bool = "false", Works, None,
            "Whether the next two options take the place of compute_budget";
        native_preemption_native_interval: SimDuration = "100 ms", Works, None,
            "The processor time after which a guest that makes no system call is interrupted, each time";
        native_preemption_sim_interval: SimDuration = "10 ms", Works, None,
            "The simulated time that such an interruption takes";
        network_model: NetworkModel = "gnomon", Works, None,
            "Whose rules lines, queues, loss and jitter follow: Gnomon's, or those of Shadow 3.3, to compare results with it (docs/network-model.md)";
        output_limit: Option<ByteSize> = "16 GiB", Works, None,
            "How much the programs of a host may write to standard output and error, all together; then there is no space (ENOSPC); null: any";
        packet_identifiers: Identifiers = "number", Works, None,
            "What is made for each packet that leaves beside its number, and dropped, to measure its cost where provenance is recorded: nothing ('number'), or a UUID of time ('uuid1') or of a hash ('uuid5')";
        provenance: Level = "off", Works, None,
            "How much of what happens to packets and bytes is recorded below provenance/ in the data directory: 'summary' times by host and layer, 'packets' each packet, 'all' writes, reads and what follows from what, too (docs/provenance.md). The simulation is the same";
        provenance_filter: Option<Expression> = "null", Works, None,
            "Which packets are recorded, as an expression in CEL about the columns of their rows, such as 'host == \"relay3\" && uplink_ns > 1000000' (docs/provenance.md); null: all";
        report_errors_to_stderr: bool = "true", Works, None,
            "Whether errors are shown on standard error too";
        runahead: Option<SimDuration> = "1 ms",
            NoEffect("each host runs ahead by its own smallest incoming latency, and no packet is delayed for it"), None,
            "A lower bound for how far workers would run ahead";
        scheduler: Scheduler = "thread-per-core",
            NoEffect("workers share all hosts, and guests have no threads of the machine"), None,
            "How hosts would be assigned to threads";
        socket_recv_autotune: bool = "true", Works, None,
            "Whether TCP's receive buffers grow with the connection";
        socket_recv_buffer: SocketBuffer = "131072 B", Works, None,
            "The initial size of sockets' receive buffers";
        socket_send_autotune: bool = "true", Works, None,
            "Whether TCP's send buffers grow with the connection";
        socket_send_buffer: SocketBuffer = "16384 B", Works, None,
            "The initial size of sockets' send buffers";
        soil_registers: bool = "false", Works, None,
            "A check of Gnomon itself: the simulator leaves noise in all registers that guests must find empty, before each of their turns";
        standstill_after: Option<SimDuration> = "10 sec", Works, None,
            "The wall time without progress after which it is told which host and program the run waits for; null: never";
        strace_logging_mode: StraceMode = "off", Works, None,
            "Whether every guest's system calls are logged to a file";
        tcp_nagle: bool = "true", Works, None,
            "Whether a small TCP segment waits for the acknowledgement of another, as on Linux, where a program has not set TCP_NODELAY; Shadow has no such rule";
        unblocked_syscall_latency: SimDuration = "1 us", Works, None,
            "How long a system call takes when general.model_unblocked_syscall_latency is set";
        unblocked_vdso_latency: SimDuration = "10 ns", Works, None,
            "How long a read of a clock takes when general.model_unblocked_syscall_latency is set";
        use_cpu_pinning: bool = "true", Works, None,
            "Whether each worker stays on one core";
        use_dynamic_runahead: bool = "false",
            NoEffect("each host runs ahead by its own smallest incoming latency"), None,
            "Whether the runahead would follow the latencies in use";
        use_memory_manager: bool = "false",
            NoEffect("guests' memory is always mapped in the simulator"), None,
            "Whether guests' memory would be mapped";
        use_new_tcp: bool = "false",
            NoEffect("there is one TCP"), None,
            "Whether another TCP would be used";
        use_object_counters: bool = "true",
            NoEffect("there are no object counters"), None,
            "Whether allocated objects would be counted";
        use_preload_libc: bool = "true",
            NoEffect("system calls are intercepted without preloading a library"), None,
            "Whether a library that intercepts libc would be preloaded";
        use_preload_openssl_crypto: bool = "false",
            NoEffect("experimental.cheap_crypto is what replaces OpenSSL's ciphers"), None,
            "Whether OpenSSL's AES would be skipped";
        use_preload_openssl_rng: bool = "true",
            NoEffect("all sources of randomness are simulated, so OpenSSL runs unmodified"), None,
            "Whether OpenSSL's random numbers would be replaced";
        use_sched_fifo: bool = "false",
            NoEffect("guests are not scheduled by the machine's kernel"), None,
            "Whether workers would use the SCHED_FIFO policy";
        use_syscall_counters: bool = "true", Works, None,
            "Whether system calls are counted by name";
        use_worker_spinning: bool = "true",
            NoEffect("workers decide by themselves how long to spin"), None,
            "Whether waiting workers would spin";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_shadow() {
        // Some are not Shadow's: its experiments leave them at their defaults.
        let expected = [
            ("general.stop_time", "0 sec"),
            ("general.bootstrap_end_time", "0 sec"),
            ("general.data_directory", "\"shadow.data\""),
            ("general.heartbeat_interval", "1 sec"),
            ("general.log_level", "info"),
            ("general.model_unblocked_syscall_latency", "false"),
            ("general.parallelism", "0"),
            ("general.progress", "false"),
            ("general.seed", "1"),
            ("general.start_date", "2000-01-01T00:00:00Z"),
            ("general.template_directory", "null"),
            ("network.ipv6", "false"),
            ("network.use_shortest_path", "true"),
            ("host_option_defaults.address_space", "null"),
            ("host_option_defaults.call_latency", "null"),
            ("host_option_defaults.clock_offset", "null"),
            ("host_option_defaults.cpu_speed", "null"),
            ("host_option_defaults.cpus", "1"),
            ("host_option_defaults.log_level", "null"),
            ("host_option_defaults.open_files", "1024"),
            ("host_option_defaults.pcap_capture_size", "65535 B"),
            ("host_option_defaults.pcap_enabled", "false"),
            ("host_option_defaults.qdisc", "null"),
            ("host_option_defaults.sysctl", "null"),
            ("experimental.cheap_crypto", "off"),
            ("experimental.coalescing", "100 us"),
            ("experimental.compute_budget", "10 sec"),
            ("experimental.cpu_model", "null"),
            ("experimental.interface_qdisc", "fifo"),
            ("experimental.max_unapplied_cpu_latency", "1 us"),
            ("experimental.memory_limit", "null"),
            ("experimental.native_preemption_enabled", "false"),
            ("experimental.native_preemption_native_interval", "100 ms"),
            ("experimental.native_preemption_sim_interval", "10 ms"),
            ("experimental.network_model", "gnomon"),
            ("experimental.output_limit", "17179869184 B"),
            ("experimental.packet_identifiers", "number"),
            ("experimental.provenance", "off"),
            ("experimental.provenance_filter", "null"),
            ("experimental.report_errors_to_stderr", "true"),
            ("experimental.runahead", "1 ms"),
            ("experimental.scheduler", "thread-per-core"),
            ("experimental.socket_recv_autotune", "true"),
            ("experimental.socket_recv_buffer", "131072 B"),
            ("experimental.socket_send_autotune", "true"),
            ("experimental.socket_send_buffer", "16384 B"),
            ("experimental.soil_registers", "false"),
            ("experimental.standstill_after", "10 sec"),
            ("experimental.strace_logging_mode", "off"),
            ("experimental.tcp_nagle", "true"),
            ("experimental.unblocked_syscall_latency", "1 us"),
            ("experimental.unblocked_vdso_latency", "10 ns"),
            ("experimental.use_cpu_pinning", "true"),
            ("experimental.use_dynamic_runahead", "false"),
            ("experimental.use_memory_manager", "false"),
            ("experimental.use_new_tcp", "false"),
            ("experimental.use_object_counters", "true"),
            ("experimental.use_preload_libc", "true"),
            ("experimental.use_preload_openssl_crypto", "false"),
            ("experimental.use_preload_openssl_rng", "true"),
            ("experimental.use_sched_fifo", "false"),
            ("experimental.use_syscall_counters", "true"),
            ("experimental.use_worker_spinning", "true"),
        ];
        let sections = [
            ("general", General::defaults().entries()),
            ("network", NetworkOptions::defaults().entries()),
            ("host_option_defaults", HostOptions::defaults().entries()),
            ("experimental", Experimental::defaults().entries()),
        ];
        let actual: Vec<(String, String)> = sections
            .into_iter()
            .flat_map(|(name, entries)| entries.into_iter().map(move |(key, value)| (format!("{name}.{key}"), value)))
            .collect();
        let expected: Vec<(String, String)> = expected.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        assert_eq!(actual, expected);
        assert_eq!(
            options().map(OptionSpec::path).collect::<Vec<_>>(),
            actual.into_iter().map(|(k, _)| k).collect::<Vec<_>>()
        );
    }

    #[test]
    fn flags_are_unique_and_known() {
        let mut flags: Vec<String> = options().map(OptionSpec::flag).collect();
        assert!(flags.contains(&"host-log-level".into()) && flags.contains(&"use-cpu-pinning".into()));
        let count = flags.len();
        flags.sort();
        flags.dedup();
        assert_eq!(flags.len(), count);
        let mut shorts: Vec<char> = options().filter_map(|o| o.short).collect();
        shorts.sort_unstable();
        assert_eq!(shorts, ['d', 'e', 'l', 'p', 's']);
    }
}
