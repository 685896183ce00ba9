//! The monitor: events of one tor's control port as JSON lines.

use crate::clock;
use crate::config::Peer;
use crate::control::Event;
use crate::control::circuits::{self, Circuits};
use crate::control_link::ControlLink;
use crate::output::{Line, Output, Totals};
use crate::signals;
use mio::{Events, Poll, Token};
use std::io;
use std::time::Duration;

const SIGNALS: Token = Token(0);
const CONTROL: Token = Token(1);

/// What to watch.
pub struct Watch {
    pub control: Peer,
    pub password: Option<String>,
    /// Names of events, as SETEVENTS takes them.
    pub events: Vec<String>,
    /// How long to try to connect.
    pub wait: Duration,
    /// How long to watch; without it, until tor ends.
    pub duration: Option<Duration>,
}

/// Watches until tor ends, the time is up or the program is asked to end. The error says why nothing could be watched.
pub fn run(watch: Watch, output: &mut Output) -> io::Result<()> {
    let began = clock::now();
    let mut poll = Poll::new()?;
    let _signals = signals::register(poll.registry(), SIGNALS)?;
    output.line(&Line::Start {
        version: env!("CARGO_PKG_VERSION"),
        behaviours: None,
        seed: None,
        listen: None,
        control: Some(watch.control.to_string()),
        unix: clock::unix(),
    });
    let mut link = ControlLink::new(watch.control, watch.password, watch.events.join(" "), CONTROL);
    let mut again = link.connect(poll.registry());
    let end = watch.duration.map(|duration| began + duration);
    let (mut events, mut scratch, mut circuits, mut count) =
        (Events::with_capacity(8), vec![0; 8192], Circuits::default(), 0);
    loop {
        let now = clock::now();
        if again.is_some() && (link.was_ready || now >= began + watch.wait) {
            break;
        }
        if end.is_some_and(|end| now >= end) || output.is_closed() {
            break;
        }
        if again.is_some_and(|at| at <= now) {
            again = link.connect(poll.registry());
            continue;
        }
        let wait = again.into_iter().chain(end).min().map(|at| at - now);
        match poll.poll(&mut events, wait) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => result?,
        }
        if events.iter().any(|event| event.token() == SIGNALS) {
            break;
        }
        let mut happened = Vec::new();
        if events.iter().any(|event| event.token() == CONTROL) {
            again = link.drive(&mut scratch, &mut happened).or(again);
        }
        count += happened.len() as u64;
        happened.iter().for_each(|event| tell(event, &mut circuits, output));
    }
    output.end(Totals { events: Some(count), ..Default::default() });
    match link.trouble {
        Some(trouble) if !link.was_ready => Err(io::Error::other(trouble)),
        _ => Ok(()),
    }
}

/// Circuits, bandwidth and streams have lines of their own; everything else is told as it came.
fn tell(event: &Event, circuits: &mut Circuits, output: &mut Output) {
    match event.name.as_str() {
        "CIRC" => {
            if let Some(circuit) = circuits.event(event, clock::now()) {
                output.line(&Line::Circuit(&circuit));
            }
        }
        "BW" => {
            if let Some((read, written)) = circuits::bandwidth(event) {
                output.line(&Line::Bandwidth { at: clock::unix(), read, written });
            }
        }
        "STREAM" => {
            if let Some(stream) = circuits::stream(event) {
                output.line(&Line::Stream(&stream));
            }
        }
        name => output.line(&Line::Event { at: clock::unix(), event: name, text: &event.text }),
    }
}
