//! Two threads of packetdrill, one host, one clock. Whoever holds the lock runs the host. Time passes only where the main thread lets it: when it
//! sleeps, waits for a packet, or looks at the clock again and again. A call that blocks is finished by whoever makes it possible, and
//! the main thread goes on only when the thread that made the call has seen its end, so that the same script always goes the same way.

use crate::host::{Arguments, Host};
use crate::settings::Settings;
use base::{SimDuration, SimTime};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// The threads by number.
const MAIN: usize = 0;
const OTHER: usize = 1;

/// Looks at the clock in a row that show that packetdrill spins until the next event, and how long such a look takes.
const SPINNING: u32 = 4;
const LOOK: SimDuration = SimDuration::from_micros(1);
/// packetdrill sleeps so much less than it means to (MAX_SPIN_USECS), and spins for the rest.
const SHORT_OF: SimDuration = SimDuration::from_micros(20);
/// How long, in real time, the main thread waits for the other one to see the end of its call.
const HANDOVER: Duration = Duration::from_millis(500);

pub struct Session {
    settings: Settings,
    main: ThreadId,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Made when the first call needs it: by then the script has set its sysctls.
    host: Option<Host>,
    looks: u32,
    /// The other thread waits in a call.
    waiting: bool,
    /// Its call is over, and it has not looked at the clock since.
    unseen: bool,
}

impl Session {
    /// The caller's thread is the main one.
    pub fn new(settings: Settings) -> Session {
        let state = State { host: None, looks: 0, waiting: false, unseen: false };
        Session { settings, main: thread::current().id(), state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // After a panic packetdrill ends anyway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn thread(&self) -> usize {
        if thread::current().id() == self.main { MAIN } else { OTHER }
    }

    /// Makes a call and waits for its end. `prepare` says which, and `collect` takes what it returned and left in memory.
    pub fn call<P, T>(
        &self,
        prepare: impl FnOnce(&mut Arguments) -> (u32, [u64; 6], P),
        collect: impl FnOnce(P, u64, &mut dyn FnMut(u64, &mut [u8])) -> T,
    ) -> T {
        let thread = self.thread();
        let mut state = self.lock();
        state.looks = 0;
        let host = state.host.get_or_insert_with(|| Host::new(&self.settings));
        let mut arguments = host.arguments(thread);
        let (number, args, prepared) = prepare(&mut arguments);
        host.begin(thread, arguments, number, args);
        if thread == MAIN {
            // Nobody else would let time pass.
            while !state.is_done(MAIN) {
                let until = state.host().patience();
                state = self.step(state, until);
            }
        } else {
            state.waiting = !state.is_done(OTHER);
            while state.waiting {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        let result = state.host().result(thread);
        let host = state.host();
        collect(prepared, result, &mut |at, bytes| host.read(thread, at, bytes))
    }

    /// Lets the next event happen.
    fn step<'a>(&'a self, mut state: MutexGuard<'a, State>, until: SimTime) -> MutexGuard<'a, State> {
        state.host().step(until);
        self.hand_over(state)
    }

    /// If the other thread's call is over, waits until that thread knows.
    fn hand_over<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if state.waiting && state.is_done(OTHER) {
            (state.waiting, state.unseen) = (false, true);
            self.changed.notify_all();
            let seen = self.changed.wait_timeout_while(state, HANDOVER, |state| state.unseen);
            state = seen.unwrap_or_else(PoisonError::into_inner).0;
            state.unseen = false;
        }
        state
    }

    pub fn packet_arrives(&self, bytes: &[u8]) {
        let mut state = self.lock();
        state.looks = 0;
        state.host.get_or_insert_with(|| Host::new(&self.settings)).receive(bytes);
        drop(self.hand_over(state));
    }

    /// The next packet that leaves, and when; time passes until there is one. None when none comes for long.
    pub fn packet_leaves(&self) -> Option<(SimTime, Vec<u8>)> {
        let mut state = self.lock();
        state.looks = 0;
        let until = state.host.as_ref()?.patience();
        loop {
            if let Some(packet) = state.host().take_sent() {
                return Some(packet);
            }
            if state.host().now() >= until {
                return None;
            }
            state = self.step(state, until);
        }
    }

    /// The main thread sleeps.
    pub fn sleep(&self, time: SimDuration) {
        let mut state = self.lock();
        state.looks = 0;
        let Some(host) = &state.host else { return };
        let until = host.now() + time + SHORT_OF;
        while state.host().now() < until {
            state = self.step(state, until);
        }
    }

    pub fn clock(&self) -> SimTime {
        let mut state = self.lock();
        if self.thread() == OTHER {
            state.unseen = false;
            self.changed.notify_all();
        } else {
            state.looks += 1;
            let host = state.host.get_or_insert_with(|| Host::new(&self.settings));
            let until = host.now() + LOOK;
            if state.looks > SPINNING {
                while state.host().now() < until {
                    state = self.step(state, until);
                }
            }
        }
        state.host.as_ref().map_or(SimTime::ZERO, Host::now)
    }
}

impl State {
    fn host(&mut self) -> &mut Host {
        self.host.as_mut().expect("a host, once a call was made")
    }

    fn is_done(&self, thread: usize) -> bool {
        self.host.as_ref().is_none_or(|host| host.is_done(thread))
    }
}
