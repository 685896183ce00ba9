//! Programs' connections to the SOCKS port, and their streams.

use super::{Client, Due};
use crate::circuit::{Circuit, Owner};
use crate::socks::{Said, answer, reply};
use crate::stream::{STREAM_STEP, STREAM_WINDOW, State, Stream, Taken};
use mio::{Interest, Token};
use onion::circuit::message::{self, EndReason, LONGEST, Message};
use onion_program::log;
use std::io;

/// Cells of one stream that are read at once.
const BATCH: usize = 16;
/// Bytes that a program may say before its stream is there.
const MOST_EARLY: usize = 16 * 1024;
/// How long an exit may take to answer the first two that are asked, and others, in milliseconds (tor's `compute_retry_timeout`).
const FIRST_ASKED_MS: u64 = 10_000;
const LATER_ASKED_MS: u64 = 15_000;
/// At how many exits a target may fail for reasons of its own before it is given up (tor's `MAX_RESOLVE_FAILURES`).
const MOST_FAILED: u32 = 3;

impl Client {
    pub(super) fn accept(&mut self) {
        loop {
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                Ok((mut socket, _)) => {
                    let serial = self.fresh_serial();
                    let interest = Interest::READABLE | Interest::WRITABLE;
                    if let Err(error) = self.poll.registry().register(&mut socket, Token(serial as usize), interest) {
                        log::warn(format_args!("watching a connection: {error}"));
                        continue;
                    }
                    let now = self.clock.ms();
                    self.streams.insert(serial, Box::new(Stream::new(socket, now)));
                    self.timers.set(now + self.settings.socks_timeout_ms, Due::Stream(serial));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.accept_later = false;
                    return;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // Nothing will say that others wait. They get their turn when a descriptor is free.
                    if !std::mem::replace(&mut self.accept_later, true) {
                        log::warn(format_args!("accepting a connection: {error}; those that wait are taken later"));
                    }
                    return;
                }
            }
        }
    }

    pub(super) fn stream_ready(&mut self, serial: u64) {
        self.write_stream(serial);
        let Some(stream) = self.streams.get(&serial) else { return };
        match stream.state {
            State::Talking(_) => self.talk(serial),
            State::Waiting | State::Asking => self.read_early(serial),
            State::Open => self.read_stream(serial),
            State::Ending => {}
        }
    }

    fn talk(&mut self, serial: u64) {
        let mut buffer = [0; 1024];
        loop {
            let now = self.clock.ms();
            let Some(stream) = self.streams.get_mut(&serial) else { return };
            let count = match stream.read(&mut buffer) {
                Ok(Taken::Bytes(count)) => count,
                Ok(Taken::Nothing) => return,
                Ok(Taken::End) | Err(_) => return self.drop_stream(serial),
            };
            let State::Talking(talk) = &mut stream.state else { return };
            let mut out = Vec::new();
            let said = talk.said(&buffer[..count], &mut out);
            stream.say(&out);
            match said {
                Said::Nothing | Said::Answered => self.write_stream(serial),
                Said::Wants(target, isolation, early) => {
                    (stream.target, stream.isolation, stream.early) = (target, isolation, early);
                    (stream.state, stream.began_ms) = (State::Waiting, now);
                    self.ports.insert(stream.target.port, now);
                    self.timers.set(now + self.settings.socks_timeout_ms, Due::Stream(serial));
                    self.must_assign = true;
                    self.ask_for_second();
                    self.write_stream(serial);
                    return self.read_early(serial);
                }
                Said::Wrong => return self.end_program(serial),
            }
        }
    }

    /// What a program says before its stream is there waits; if it goes, nobody needs the stream.
    fn read_early(&mut self, serial: u64) {
        let mut buffer = [0; 4096];
        loop {
            let Some(stream) = self.streams.get_mut(&serial) else { return };
            if stream.early.len() >= MOST_EARLY {
                return;
            }
            match stream.read(&mut buffer) {
                Ok(Taken::Bytes(count)) => stream.early.extend_from_slice(&buffer[..count]),
                Ok(Taken::Nothing) => return,
                Ok(Taken::End) | Err(_) => return self.forget_stream(serial, EndReason::Done),
            }
        }
    }

    /// Gives streams without circuit one, or has one built.
    pub(super) fn assign(&mut self) {
        let waiting: Vec<u64> =
            self.streams.iter().filter(|(_, stream)| stream.is_waiting()).map(|(serial, _)| *serial).collect();
        for serial in waiting {
            self.assign_one(serial);
        }
    }

    fn assign_one(&mut self, serial: u64) {
        let (now, dirtiness) = (self.clock.ms(), self.settings.dirtiness_ms);
        let Some(stream) = self.streams.get(&serial).filter(|stream| stream.is_waiting()) else { return };
        let (isolation, port) = (stream.isolation.clone(), stream.target.port);
        let takes = |circuit: &Circuit| circuit.takes(&isolation, port, dirtiness, now);
        // One that is in use already, the latest; of clean ones the oldest.
        let rank = |serial: u64, circuit: &Circuit| (circuit.dirty_ms, std::cmp::Reverse(serial));
        let best = self.circuits.iter().filter(|(_, circuit)| circuit.is_open && takes(circuit));
        let best = best.max_by_key(|(serial, circuit)| rank(**serial, circuit)).map(|(serial, _)| *serial);
        if let Some(circuit) = best {
            return self.ask(serial, circuit);
        }
        let mut coming = self.circuits.values_mut().filter(|circuit| !circuit.is_open && takes(circuit));
        match coming.by_ref().max_by_key(|circuit| circuit.isolation.is_some()) {
            // Others look for one of their own.
            Some(circuit) => circuit.isolation = Some(isolation),
            None => {
                if !self.launch(port, Some(isolation)) {
                    self.ask_for_second();
                }
            }
        }
    }

    /// Asks a circuit's exit for a stream's target.
    fn ask(&mut self, serial: u64, circuit_serial: u64) {
        let now = self.clock.ms();
        let circuit = self.circuits.get_mut(&circuit_serial).expect("just found");
        let Some(number) = circuit.fresh_stream(Owner::Program(serial)) else {
            circuit.is_retired = true;
            self.must_assign = true;
            return;
        };
        let stream = self.streams.get_mut(&serial).expect("just found");
        if circuit.dirty_ms.is_none() {
            circuit.dirty_ms = Some(now);
            self.timers.set(now + self.settings.dirtiness_ms, Due::Circuit(circuit_serial));
        }
        circuit.isolation = Some(stream.isolation.clone());
        stream.state = State::Asking;
        (stream.on, stream.asked_ms) = (Some((circuit_serial, number)), now);
        stream.tries += 1;
        self.timers.set(now + self.asked_timeout_ms(serial), Due::Stream(serial));
        let target = &self.streams[&serial].target;
        let begin = message::begin(&target.host, target.port);
        self.say(circuit_serial, message::Command::BEGIN, number, &begin);
        self.ask_for_second();
    }

    fn asked_timeout_ms(&self, serial: u64) -> u64 {
        let usual = if self.streams[&serial].tries <= 2 { FIRST_ASKED_MS } else { LATER_ASKED_MS };
        self.settings.stream_timeout_ms.unwrap_or(usual)
    }

    /// A program may have waited too long, or an exit taken too long.
    pub(super) fn check_stream(&mut self, serial: u64) {
        let now = self.clock.ms();
        let Some(stream) = self.streams.get(&serial) else { return };
        let is_late = now >= stream.began_ms + self.settings.socks_timeout_ms;
        match stream.state {
            State::Talking(_) if is_late => self.drop_stream(serial),
            State::Waiting | State::Asking if is_late => {
                self.leave_circuit(serial, Some(EndReason::Timeout));
                self.refuse(serial, reply::EXPIRED);
            }
            State::Asking if now >= stream.asked_ms + self.asked_timeout_ms(serial) => {
                log::notice(format_args!(
                    "We tried for {} seconds to connect to '{}'. Retrying on a new circuit.",
                    (now - stream.asked_ms) / 1000,
                    stream.target.host
                ));
                self.look_elsewhere(serial, Some(EndReason::Timeout));
            }
            _ => {}
        }
    }

    /// Takes a stream off its circuit, telling the exit if a reason is given.
    fn leave_circuit(&mut self, serial: u64, tell: Option<EndReason>) {
        let Some((circuit, number)) = self.streams.get_mut(&serial).and_then(|stream| stream.on.take()) else { return };
        if let Some(reason) = tell {
            self.say(circuit, message::Command::END, number, &message::end(reason, None));
        }
        if let Some(circuit) = self.circuits.get_mut(&circuit) {
            circuit.streams.remove(&number);
        }
        // It may have been the last of a circuit that takes no others.
        self.check_circuit(circuit);
    }

    /// Tries another circuit; this one takes no more streams.
    fn look_elsewhere(&mut self, serial: u64, tell: Option<EndReason>) {
        if let Some((circuit, _)) = self.streams.get(&serial).and_then(|stream| stream.on)
            && let Some(circuit) = self.circuits.get_mut(&circuit)
        {
            circuit.is_retired = true;
        }
        self.leave_circuit(serial, tell);
        self.circuit_gone(serial);
    }

    /// The circuit of a stream has ended.
    pub(super) fn circuit_gone(&mut self, serial: u64) {
        let Some(stream) = self.streams.get_mut(&serial) else { return };
        stream.on = None;
        if stream.is_pending() {
            stream.state = State::Waiting;
            self.must_assign = true;
        } else {
            self.end_program(serial);
        }
    }

    pub(super) fn stream_message(&mut self, serial: u64, message: &Message<'_>) -> Result<(), &'static str> {
        use message::Command as M;
        let Some(stream) = self.streams.get_mut(&serial) else { return Ok(()) };
        match message.command {
            M::CONNECTED => {
                if matches!(stream.state, State::Asking) {
                    self.connected(serial);
                }
            }
            M::SENDME => {
                stream.package += STREAM_STEP;
                if stream.package > STREAM_WINDOW {
                    return Err("a SENDME of a stream that was not due");
                }
            }
            M::END => {
                let reason = message.body.first().copied().unwrap_or(EndReason::Misc as u8);
                self.ended(serial, reason);
            }
            _ => {}
        }
        Ok(())
    }

    fn connected(&mut self, serial: u64) {
        let stream = self.streams.get_mut(&serial).expect("just found");
        stream.state = State::Open;
        stream.say(&answer(reply::GRANTED));
        self.write_stream(serial);
        self.read_stream(serial);
    }

    /// The exit has ended it, or has not begun it.
    fn ended(&mut self, serial: u64, reason: u8) {
        let stream = self.streams.get_mut(&serial).expect("just found");
        if !stream.is_pending() {
            self.leave_circuit(serial, None);
            return self.end_program(serial);
        }
        stream.failures += u32::from(is_of_target(reason));
        if is_retriable(reason) && stream.failures < MOST_FAILED {
            return self.look_elsewhere(serial, None);
        }
        if stream.failures == MOST_FAILED {
            log::notice(format_args!(
                "Have tried resolving or connecting to address '{}' at {MOST_FAILED} different places. Giving up.",
                stream.target.host
            ));
        }
        self.leave_circuit(serial, None);
        self.refuse(serial, reply_of(reason));
    }

    /// Tells a program that there will be no stream.
    fn refuse(&mut self, serial: u64, code: u8) {
        if let Some(stream) = self.streams.get_mut(&serial) {
            stream.say(&answer(code));
        }
        self.end_program(serial);
    }

    /// Closes a program's connection once it has got what is left for it.
    fn end_program(&mut self, serial: u64) {
        if let Some(stream) = self.streams.get_mut(&serial) {
            stream.state = State::Ending;
            self.write_stream(serial);
        }
    }

    pub(super) fn stream_data(&mut self, serial: u64, body: &[u8]) -> Result<(), &'static str> {
        let Some(stream) = self.streams.get_mut(&serial) else { return Ok(()) };
        if matches!(stream.state, State::Open) {
            stream.deliver(body)?;
            self.to_flush.insert(serial);
        }
        Ok(())
    }

    /// Writes what has come for a program, and asks for more.
    pub(super) fn write_stream(&mut self, serial: u64) {
        let Some(stream) = self.streams.get_mut(&serial) else { return };
        if stream.write().is_err() {
            return self.forget_stream(serial, EndReason::Done);
        }
        match (&stream.state, stream.on) {
            (State::Ending, _) if stream.has_written_all() => self.drop_stream(serial),
            (State::Open, Some((circuit, number))) => {
                for _ in 0..stream.take_due() {
                    self.say(circuit, message::Command::SENDME, number, &[]);
                }
            }
            _ => {}
        }
    }

    /// Cells that a stream may send now.
    fn room(&self, serial: u64) -> usize {
        let of = || {
            let stream = self.streams.get(&serial)?;
            let circuit = self.circuits.get(&stream.on?.0)?;
            let channel = self.channels.get(&circuit.channel)?;
            Some(channel.room().min(circuit.package as usize).min(stream.package as usize))
        };
        of().unwrap_or(0)
    }

    /// Sends what a program says, at first what it has said early, as far as windows and the channel have room for it.
    fn read_stream(&mut self, serial: u64) {
        let mut buffer = [0; BATCH * LONGEST];
        loop {
            let room = self.room(serial).min(BATCH);
            let Some(stream) = self.streams.get_mut(&serial) else { return };
            let (State::Open, Some((circuit, number))) = (&stream.state, stream.on) else { return };
            if room == 0 {
                self.blocked.insert(serial);
                return;
            }
            let taken = if stream.early.is_empty() {
                stream.read(&mut buffer[..room * LONGEST])
            } else {
                let count = stream.early.len().min(room * LONGEST);
                buffer[..count].copy_from_slice(&stream.early[..count]);
                stream.early.drain(..count);
                Ok(Taken::Bytes(count))
            };
            match taken {
                Ok(Taken::Bytes(count)) => {
                    for part in buffer[..count].chunks(LONGEST) {
                        self.streams.get_mut(&serial).expect("just read").package -= 1;
                        self.say(circuit, message::Command::DATA, number, part);
                    }
                }
                Ok(Taken::Nothing) => return,
                Ok(Taken::End) | Err(_) => return self.forget_stream(serial, EndReason::Done),
            }
        }
    }

    /// Lets streams go on for which there is room again.
    pub(super) fn resume(&mut self) {
        let ready: Vec<u64> = self.blocked.iter().copied().filter(|serial| self.room(*serial) > 0).collect();
        for serial in ready {
            self.blocked.remove(&serial);
            self.read_stream(serial);
        }
    }

    /// Ends a stream from this side.
    fn forget_stream(&mut self, serial: u64, reason: EndReason) {
        self.leave_circuit(serial, Some(reason));
        self.drop_stream(serial);
    }

    fn drop_stream(&mut self, serial: u64) {
        self.blocked.remove(&serial);
        if let Some(mut stream) = self.streams.remove(&serial) {
            let _ = self.poll.registry().deregister(&mut stream.socket);
        }
    }
}

/// Whether another exit may do better (tor's `edge_reason_is_retriable`).
fn is_retriable(reason: u8) -> bool {
    use EndReason as R;
    [R::Hibernating, R::ResourceLimit, R::ExitPolicy, R::ResolveFailed, R::Misc, R::NoRoute]
        .iter()
        .any(|retriable| *retriable as u8 == reason)
}

/// Whether it is probably the target that fails, and not the exit: others are asked, but not for ever (tor's
/// `connection_ap_process_end_not_open`).
fn is_of_target(reason: u8) -> bool {
    use EndReason as R;
    [R::ResolveFailed, R::Misc, R::NoRoute].iter().any(|of_target| *of_target as u8 == reason)
}

/// What a program is told (tor's `stream_end_reason_to_socks5_response`).
fn reply_of(reason: u8) -> u8 {
    use EndReason as R;
    let is = |reasons: &[R]| reasons.iter().any(|one| *one as u8 == reason);
    if is(&[R::ResolveFailed, R::NoRoute]) {
        reply::HOST_UNREACHABLE
    } else if is(&[R::ConnectRefused, R::ConnectionReset]) {
        reply::REFUSED
    } else if is(&[R::ExitPolicy]) {
        reply::NOT_ALLOWED
    } else if is(&[R::Destroy, R::Timeout]) {
        reply::EXPIRED
    } else {
        reply::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_everywhere_is_given_up() {
        for reason in 0..=u8::MAX {
            let is_counted = is_of_target(reason);
            assert_eq!(is_counted, [1, 2, 8].contains(&reason), "{reason}");
            assert!(!is_counted || is_retriable(reason), "{reason}: another exit is asked first");
        }
        assert_eq!([1, 2, 8].map(reply_of), [reply::FAILURE, reply::HOST_UNREACHABLE, reply::HOST_UNREACHABLE]);
    }
}
