//! Options that are accepted though nothing follows from them, where on Linux something could. The
//! log names each once per program, and docs/linux-compatibility.md lists them; all other options
//! act, or mean nothing on a simulated network, or are refused.

use crate::ctx::Ctx;
use crate::kernel::Report;
use linux_abi::socket::*;

/// Level, option, name, and what does not happen.
const OPTIONS: &[(i32, i32, &str, &str)] = &[
    (SOL_SOCKET, SO_DONTROUTE, "SO_DONTROUTE", "every host is reached alike"),
    (SOL_SOCKET, SO_PRIORITY, "SO_PRIORITY", "queues go by the type of service"),
    (SOL_SOCKET, SO_SELECT_ERR_QUEUE, "SO_SELECT_ERR_QUEUE", "the error queue is no POLLPRI"),
    (SOL_SOCKET, SO_RCVMARK, "SO_RCVMARK", "packets have no marks"),
    (SOL_SOCKET, SO_RCVPRIORITY, "SO_RCVPRIORITY", "packets have no priorities"),
    (SOL_IP, IP_CHECKSUM, "IP_CHECKSUM", "checksums are not told"),
    (SOL_IP, IP_RECVFRAGSIZE, "IP_RECVFRAGSIZE", "sizes of fragments are not told"),
    (SOL_IPV6, IPV6_RECVPATHMTU, "IPV6_RECVPATHMTU", "path MTUs are not told"),
    (SOL_IPV6, IPV6_RECVFRAGSIZE, "IPV6_RECVFRAGSIZE", "sizes of fragments are not told"),
    (SOL_IPV6, IPV6_FLOWINFO_SEND, "IPV6_FLOWINFO_SEND", "flow labels are 0"),
    (SOL_IPV6, IPV6_MTU, "IPV6_MTU", "fragments are as large as the link allows"),
    (SOL_TCP, TCP_THIN_LINEAR_TIMEOUTS, "TCP_THIN_LINEAR_TIMEOUTS", "timeouts double"),
    (SOL_TCP, TCP_SAVE_SYN, "TCP_SAVE_SYN", "SYNs are not kept"),
    (SOL_TCP, TCP_FASTOPEN, "TCP_FASTOPEN", "no SYN brings data"),
];

/// A program has set an option to a value that is not its default.
pub(super) fn note(ctx: &mut Ctx<'_>, level: i32, option: i32) {
    /// Apart from the numbers of calls.
    const OPTION: u64 = 1 << 63;
    let Some((.., name, why)) = OPTIONS.iter().find(|entry| (entry.0, entry.1) == (level, option)) else { return };
    if ctx.process.reported.insert(OPTION | (level as u64) << 32 | option as u64) {
        let message = format!("socket option {name} has no effect: {why}");
        ctx.kernel.reports.push(Report { pid: ctx.process.pid, program: ctx.process.program_name(), message });
    }
}
