//! The line discipline by itself: what comes out on either side of a pair. Sessions and calls are tested against Linux by the guest
//! programs `tty_*`.

use super::Pair;
use crate::user_io::VecSink;
use crate::wait::Events;
use base::SimTime;
use linux_abi::Signal;
use linux_abi::tty::*;

fn pair() -> Pair {
    Pair::new(SimTime::ZERO)
}

fn echoed(pair: &mut Pair) -> Vec<u8> {
    pair.outgoing.drain(..).collect()
}

fn read(pair: &mut Pair, len: usize) -> Vec<u8> {
    let mut sink = VecSink::new(len);
    pair.read_input(&mut sink).unwrap();
    sink.data
}

#[test]
fn a_line_is_echoed_and_read_when_it_is_complete() {
    let mut pair = pair();
    assert_eq!(pair.write_input(b"ab\x7f"), 3);
    assert_eq!(echoed(&mut pair), b"ab\x08 \x08");
    assert!(!pair.poll_slave().intersects(Events::IN));
    pair.write_input(b"c\r");
    assert_eq!(echoed(&mut pair), b"c\r\n");
    assert!(pair.poll_slave().intersects(Events::IN));
    assert_eq!(read(&mut pair, 2), b"ac");
    assert_eq!(read(&mut pair, 10), b"\n");
}

#[test]
fn signals_flush_what_was_typed() {
    let mut pair = pair();
    pair.write_input(b"abc\x03d\n");
    assert_eq!(pair.effects.signals[..], [Signal::SIGINT]);
    assert_eq!(read(&mut pair, 10), b"d\n");
}

#[test]
fn stopped_output_keeps_echoes_for_later() {
    let mut pair = pair();
    pair.write_input(b"\x13");
    assert_eq!(pair.write_output(b"text"), 0);
    pair.write_input(b"a");
    assert_eq!(echoed(&mut pair), b"");
    pair.write_input(b"\x11");
    assert_eq!(echoed(&mut pair), b"a");
    assert_eq!(pair.write_output(b"text"), 4);
}

#[test]
fn packet_mode_tells_of_flow_control() {
    let mut pair = pair();
    pair.packet = true;
    pair.write_input(b"\x13");
    assert_eq!(pair.packet_status, TIOCPKT_STOP);
    pair.write_input(b"\x11");
    assert_eq!(pair.packet_status, TIOCPKT_START);
    pair.packet_status = 0;
    let mut termios = pair.termios;
    termios.c_iflag &= !IXON;
    pair.set_termios(termios);
    assert_eq!(pair.packet_status, TIOCPKT_NOSTOP);
}

#[test]
fn what_does_not_fit_waits_in_front_of_the_discipline() {
    let mut pair = pair();
    let mut termios = pair.termios;
    (termios.c_iflag, termios.c_lflag, termios.c_oflag) = (0, 0, 0);
    pair.set_termios(termios);
    let taken: usize = std::iter::repeat_with(|| pair.write_input(&[b'x'; 1000])).take_while(|n| *n > 0).sum();
    assert_eq!(taken, 4095 + 16384);
    assert_eq!(pair.unread(), 4095);
    assert!(!pair.poll_master().intersects(Events::OUT));
    assert_eq!(read(&mut pair, 1000).len(), 1000);
    assert_eq!(pair.unread(), 4095);
    assert!(pair.poll_master().intersects(Events::OUT));
}
