//! The one table of probes: each is a table of the record. Columns, the reference page and the static probes of the program follow
//! from what stands here.

use crate::choices::{Call, End, How, Layer, ReceivedFate, SentFate, Side, WokenBy};
use crate::table::{Kind, Row, Table, table};
use std::net::IpAddr;

/// All tables, in the order of the reference page.
pub const TABLES: &[Table] = &[
    Sent::TABLE,
    Received::TABLE,
    Write::TABLE,
    Read::TABLE,
    Cause::TABLE,
    Wake::TABLE,
    Stream::TABLE,
    Tcp::TABLE,
    LayerTime::TABLE,
    Link::TABLE,
    Mark::TABLE,
    HostName::TABLE,
    Cost::TABLE,
];

table! {
    /// A packet, as its sender knows it. Its times follow each other without gap: it was written at `made_ns - socket_ns`, its last bit
    /// left at `made_ns + uplink_ns`, and it reached the last router `route_ns` later.
    Sent = sent (packet, parent, copy_of, stream, offset, payload, to_host, made_ns, socket_ns, uplink_ns, route_ns, fate), layer "uplink", key (packet) {
        packet: u64 = Kind::Packet, "The packet.";
        parent: u64 = Kind::Packet, "The datagram that it is a fragment of.";
        copy_of: u64 = Kind::Packet, "The packet that carried its first byte before, if it is sent again.";
        quotes: u64 = Kind::Packet, "The packet that it answers, if it is an ICMP message or a reset.";
        stream: u64 = Kind::Stream, "The stream whose bytes it carries, or belongs to.";
        offset: u64 = Kind::Offset, "Where its payload begins in the stream; of datagrams, the number of the whole packet.";
        payload: u64 = Kind::Bytes, "Bytes behind the transport's header.";
        bytes: u64 = Kind::Bytes, "Bytes of the IP packet.";
        protocol: u64 = Kind::Plain, "The IP protocol's number: 6 is TCP, 17 UDP, 1 ICMP.";
        flags: u64 = Kind::Plain, "TCP's flags as in its header: 1 FIN, 2 SYN, 4 RST, 8 PSH, 16 ACK.";
        to_host: u64 = Kind::Host, "The host that it goes to; its own, round the loopback interface or where no host is.";
        made_ns: u64 = Kind::Time, "When the stack made it.";
        socket_ns: u64 = Kind::Duration, "From the write of its last byte until it was made.";
        uplink_ns: u64 = Kind::Duration, "From then until its last bit had left: the interface's queue and the line.";
        uplink_queue_bytes: u64 = Kind::Bytes, "What waited in the interface's queue when it was made, in bytes of IP packets.";
        route_ns: u64 = Kind::Duration, "From then until it reached the router before the other host.";
        fate: u64 = Kind::Choice(SentFate::WORDS), "What became of it on this side.";
    }
}

table! {
    /// A packet, as a receiver knows it: one row for each host that it reached. Its times go on where those of `sent` end.
    Received = received (packet, host, arrived_ns, downlink_ns, reassembly_ns, receive_queue_ns, receive_queue_bytes, read, fate), layer "downlink", key (packet, host) {
        packet: u64 = Kind::Packet, "The packet.";
        host: u64 = Kind::Host, "The host that has it.";
        arrived_ns: u64 = Kind::Time, "When it reached the router before the host.";
        downlink_ns: u64 = Kind::Duration, "From then until the host had it: the router's queue and the line. Of a packet that the router dropped or still had: until it did, or the run ended; the histograms leave it out.";
        reassembly_ns: u64 = Kind::Duration, "From then until no byte or fragment before its end was missing.";
        receive_queue_ns: u64 = Kind::Duration, "From then until a program had read its last byte.";
        receive_queue_bytes: u64 = Kind::Bytes, "What could be read from its socket before it.";
        read: u64 = Kind::Row, "The row of `reads` that took its last byte.";
        fate: u64 = Kind::Choice(ReceivedFate::WORDS), "What became of it on this side.";
    }
}

table! {
    /// Bytes that a program gave to a socket.
    Write = writes (write, stream, offset, bytes, at_ns, pid, tid, call, address, wake), layer "socket", key (write) {
        write: u64 = Kind::Row, "The row.";
        stream: u64 = Kind::Stream, "The stream.";
        offset: u64 = Kind::Offset, "Where the bytes begin in it; of datagrams, the number of the packet.";
        bytes: u64 = Kind::Bytes, "How many the socket took.";
        at_ns: u64 = Kind::Time, "When.";
        pid: u64 = Kind::Plain, "The process, by its number on its host.";
        tid: u64 = Kind::Plain, "The thread.";
        call: u64 = Kind::Choice(Call::WORDS), "The system call.";
        address: u64 = Kind::Memory, "Where the bytes lay in its memory: the first of them.";
        wake: u64 = Kind::Row, "The row of `wakes` since which the thread runs.";
    }
}

table! {
    /// Bytes that a program took from a socket.
    Read = reads (read, stream, offset, bytes, at_ns, pid, tid, call, address, wake), layer "receive_queue", key (read) {
        read: u64 = Kind::Row, "The row.";
        stream: u64 = Kind::Stream, "The stream.";
        offset: u64 = Kind::Offset, "Where the bytes begin in it; of datagrams, the number of the packet.";
        bytes: u64 = Kind::Bytes, "How many it took; of a datagram all, where its buffer was too small.";
        at_ns: u64 = Kind::Time, "When.";
        pid: u64 = Kind::Plain, "The process, by its number on its host.";
        tid: u64 = Kind::Plain, "The thread.";
        call: u64 = Kind::Choice(Call::WORDS), "The system call.";
        address: u64 = Kind::Memory, "Where the bytes went in its memory: the first of them.";
        wake: u64 = Kind::Row, "The row of `wakes` since which the thread runs.";
    }
}

table! {
    /// That a write can follow from a read.
    Cause = causes (write, read, how), layer "kernel", key (write, read) {
        write: u64 = Kind::Row, "The write.";
        read: u64 = Kind::Row, "The read.";
        how: u64 = Kind::Choice(How::WORDS), "How that is known.";
    }
}

table! {
    /// That a thread which waited was woken.
    Wake = wakes (wake, tid, at_ns, by, source), layer "kernel", key (wake) {
        wake: u64 = Kind::Row, "The row.";
        tid: u64 = Kind::Plain, "The thread that was woken.";
        at_ns: u64 = Kind::Time, "When.";
        by: u64 = Kind::Choice(WokenBy::WORDS), "By what.";
        source: u64 = Kind::Plain, "The packet, or the thread; 0 of anything else.";
    }
}

table! {
    /// An end of a stream: each end that the run has tells of it when it ends, or at the end of the run.
    Stream = streams (stream, side, host, local_port, remote_port, opened_ns, closed_ns, bytes, left_bytes, end), layer "socket", key (stream, side) {
        stream: u64 = Kind::Stream, "The stream.";
        side: u64 = Kind::Choice(Side::WORDS), "Which end tells this.";
        host: u64 = Kind::Host, "Its host.";
        protocol: u64 = Kind::Plain, "The IP protocol's number.";
        local_address: IpAddr = Kind::Ip, "This end's address.";
        local_port: u64 = Kind::Plain, "This end's port.";
        remote_address: IpAddr = Kind::Ip, "The other end's address.";
        remote_port: u64 = Kind::Plain, "The other end's port.";
        opened_ns: u64 = Kind::Time, "When it began.";
        closed_ns: u64 = Kind::Time, "When it ended.";
        bytes: u64 = Kind::Bytes, "What was written here, or read.";
        left_bytes: u64 = Kind::Bytes, "At the writer what was never acknowledged, at the reader what came in order and was never read.";
        end: u64 = Kind::Choice(End::WORDS), "How it ended.";
    }
}

table! {
    /// What a connection's sender goes by, when one of it has changed, at most once in ten milliseconds.
    Tcp = tcp (stream, at_ns, cwnd_bytes, srtt_ns, in_flight_bytes), layer "socket", key (stream, at_ns) {
        stream: u64 = Kind::Stream, "The stream that it sends.";
        at_ns: u64 = Kind::Time, "When.";
        cwnd_bytes: u64 = Kind::Bytes, "The congestion window.";
        srtt_ns: u64 = Kind::Duration, "The smoothed round-trip time.";
        in_flight_bytes: u64 = Kind::Bytes, "Sent and not acknowledged.";
    }
}

table! {
    /// Packets by the time that they spent in a layer: a histogram for each host, layer and second.
    LayerTime = layers (from_ns, host, layer, latency_bin, packets, bytes), layer "summary", key (from_ns, bin) {
        from_ns: u64 = Kind::Time, "The beginning of the second in which they left the layer.";
        bin: u64 = Kind::Plain, "Host, layer and bin in one number, to sort by: host * 65536 + layer * 4096 + latency_bin.";
        host: u64 = Kind::Host, "The host.";
        layer: u64 = Kind::Choice(Layer::WORDS), "The layer.";
        latency_bin: u64 = Kind::Plain, "Sixteen bins for each power of two of nanoseconds.";
        packets: u64 = Kind::Count, "How many.";
        bytes: u64 = Kind::Bytes, "Of IP packets.";
    }
}

table! {
    /// What went from one host to another, second by second.
    Link = links (from_ns, src, dst, packets, bytes, lost, dropped), layer "summary", key (from_ns, pair) {
        from_ns: u64 = Kind::Time, "The beginning of the second in which it left.";
        pair: u64 = Kind::Plain, "Both hosts in one number, to sort by: src * 4194304 + dst.";
        src: u64 = Kind::Host, "The sender.";
        dst: u64 = Kind::Host, "The receiver.";
        packets: u64 = Kind::Count, "Packets that left, lost ones too.";
        bytes: u64 = Kind::Bytes, "Of IP packets.";
        lost: u64 = Kind::Count, "Packets that the network lost.";
        dropped: u64 = Kind::Count, "Packets that the sender's queue refused or dropped.";
    }
}

table! {
    /// What a program marked, by writing to the simulated device for it.
    Mark = marks (mark, at_ns, pid, tid, wake), layer "kernel", key (mark) {
        mark: u64 = Kind::Row, "The row.";
        at_ns: u64 = Kind::Time, "When.";
        pid: u64 = Kind::Plain, "The process.";
        tid: u64 = Kind::Plain, "The thread.";
        wake: u64 = Kind::Row, "The row of `wakes` since which the thread runs.";
        label: String = Kind::Text, "What it wrote.";
    }
}

table! {
    /// The experiment's hosts.
    HostName = hosts (host, up_bits, down_bits), layer "experiment", key (host) {
        host: u64 = Kind::Host, "Its place in the experiment.";
        name: String = Kind::Text, "Its name.";
        address: IpAddr = Kind::Ip, "Its address.";
        up_bits: u64 = Kind::Plain, "What its line carries away, in bits per second.";
        down_bits: u64 = Kind::Plain, "What its line brings, in bits per second.";
    }
}

table! {
    /// Processor time of the machine that one packet of 256 took in a layer. It differs from run to run, unlike all other tables. A layer that works
    /// for a packet more than once has as many rows.
    Cost = costs (packet, layer, host_ns), layer "machine", key (packet, layer) {
        packet: u64 = Kind::Packet, "The packet.";
        layer: u64 = Kind::Choice(Layer::WORDS), "The layer.";
        host_ns: u64 = Kind::MachineTime, "How long; of packets that go together, its share.";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unlike_and_keys_come_first() {
        let mut names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TABLES.len());
        for table in TABLES {
            let mut columns: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
            columns.sort_unstable();
            columns.dedup();
            assert_eq!(columns.len(), table.columns.len(), "{}", table.name);
            assert!(table.arguments.len() <= 12, "{}", table.name);
            assert!(table.arguments.iter().all(|name| columns.binary_search(name).is_ok()), "{}", table.name);
            assert!(table.key >= 1 && table.columns.iter().all(|column| column.text.ends_with('.')), "{}", table.name);
        }
    }
}
