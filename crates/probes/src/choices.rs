//! The words that columns of choices hold, as enumerations.

/// Declares an enumeration whose variants have words.
macro_rules! choice {
    ($(#[doc = $text:literal])+ $name:ident { $($(#[doc = $about:literal])* $variant:ident = $word:literal,)+ }) => {
        $(#[doc = $text])+
        #[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
        pub enum $name { $($(#[doc = $about])* $variant,)+ }

        impl $name {
            /// All words, in the order of their numbers.
            pub const WORDS: &'static [&'static str] = &[$($word,)+];
        }

        impl From<$name> for u64 {
            fn from(value: $name) -> u64 {
                value as u64
            }
        }
    };
}

choice! {
    /// What became of a packet on its sender's side.
    SentFate {
        /// It waits in the host's interface, at the end of the run.
        Waiting = "waiting",
        /// The network carried it to the router before the other host.
        Carried = "carried",
        /// It went round the loopback interface.
        Looped = "looped",
        /// The network lost it on its way.
        Lost = "lost",
        /// No host has its address.
        Unroutable = "unroutable",
        /// The interface's queue had no room, which the socket heard.
        Refused = "refused",
        /// The interface's queue dropped it later.
        Dropped = "dropped",
        /// It followed a packet that was refused, and was taken back.
        TakenBack = "taken_back",
        /// It was too large for the link, and went in fragments: where and when the last of them went.
        Fragmented = "fragmented",
    }
}

choice! {
    /// What became of a packet on its receiver's side.
    ReceivedFate {
        /// Its last byte waits to be read, at the end of the run.
        Waiting = "waiting",
        /// A program read its last byte.
        Read = "read",
        /// The stack itself took it: acknowledgements, handshakes, control messages.
        Handled = "handled",
        /// All its bytes had come before.
        Duplicate = "duplicate",
        /// The queue at the last router dropped it.
        Dropped = "dropped",
        /// The socket's buffer or window had no room.
        NoRoom = "no_room",
        /// No socket is there for it.
        Nobody = "nobody",
        /// The socket was closed before anybody read it.
        Unread = "unread",
        /// A fragment whose datagram never became whole.
        Incomplete = "incomplete",
        /// The address is not this host's.
        NotOurs = "not_ours",
    }
}

choice! {
    /// How it is known that a write follows from a read.
    How {
        /// The bytes are the same.
        SameBytes = "same_bytes",
        /// The thread read and wrote without waiting between.
        SameTurn = "same_turn",
        /// Another thread read and woke the one that wrote.
        Wake = "wake",
        /// One of several reads that it may follow from.
        Candidate = "candidate",
        /// The program has marked both with one request.
        Mark = "mark",
    }
}

choice! {
    /// What woke a thread.
    WokenBy {
        Packet = "packet",
        Timer = "timer",
        Signal = "signal",
        Futex = "futex",
        Pipe = "pipe",
        Thread = "thread",
        Start = "start",
    }
}

choice! {
    /// A layer in which a packet spends time, in the order of its way.
    Layer {
        Socket = "socket",
        Uplink = "uplink",
        Route = "route",
        Downlink = "downlink",
        Reassembly = "reassembly",
        ReceiveQueue = "receive_queue",
    }
}

choice! {
    /// The call that wrote or read.
    Call {
        Other = "other",
        Write = "write",
        Writev = "writev",
        Send = "send",
        Sendmsg = "sendmsg",
        Sendmmsg = "sendmmsg",
        Sendfile = "sendfile",
        Splice = "splice",
        Read = "read",
        Readv = "readv",
        Recv = "recv",
        Recvmsg = "recvmsg",
        Recvmmsg = "recvmmsg",
        /// The stack or the kernel itself.
        Kernel = "kernel",
    }
}

choice! {
    /// Which end of a stream tells of it.
    Side {
        Writer = "writer",
        Reader = "reader",
    }
}

choice! {
    /// How an end of a stream came to its end.
    End {
        /// It is open at the end of the run.
        Open = "open",
        /// Its program closed it, or the peer ended it in order.
        Closed = "closed",
        /// It was reset, timed out or was given up.
        Broken = "broken",
    }
}
