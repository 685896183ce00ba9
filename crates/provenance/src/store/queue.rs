//! The way from workers to the thread that writes: bounded by rows, so that a record which is slower than its run slows the run and does
//! not fill the memory. Whoever waits for nothing is not woken: to wake a thread takes as long as hundreds of rows. Emptied rows go back to
//! the workers, since memory that one thread takes and another gives up is contended for.

use crate::error::{Error, Result};
use probes::Rows;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Rows that may wait: some 100 bytes each.
const MOST_ROWS: usize = 1 << 20;

/// Emptied rows that are kept for workers.
const MOST_SPARES: usize = 256;

/// What the thread that writes is told.
#[derive(Debug)]
pub enum Message {
    /// Rows of windows, by their numbers.
    Rows(Vec<(u64, Rows)>),
    /// All rows of windows below this number are there.
    Windows(u64),
    /// Nothing follows.
    Finish,
    /// Nobody wants the rest.
    Abandon,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Message>,
    rows: usize,
    /// Empty, with the room that they had.
    spares: Vec<Rows>,
    /// Whether the thread that writes waits for a message, and how many wait for it.
    idle: bool,
    waiting: usize,
    /// What stopped the thread that writes; it takes nothing more.
    failed: Option<Error>,
}

#[derive(Debug, Default)]
pub struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    emptied: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while too much waits already. Rows for a thread that has failed are dropped.
    pub fn push(&self, message: Message) {
        let mut state = self.lock();
        while state.rows >= MOST_ROWS && state.failed.is_none() {
            state.waiting += 1;
            state = self.emptied.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        if state.failed.is_none() {
            state.rows += rows_of(&message);
            state.messages.push_back(message);
            let idle = state.idle;
            drop(state);
            if idle {
                self.filled.notify_one();
            }
        }
    }

    /// Rows that were emptied, for whoever fills the next ones: so many that it has `wanted`, as far as there are.
    pub fn take_spares(&self, wanted: usize, spares: &mut Vec<Rows>) {
        let lacks = wanted.saturating_sub(spares.len());
        let mut state = self.lock();
        let kept = state.spares.len().saturating_sub(lacks);
        spares.extend(state.spares.drain(kept..));
    }

    /// The next message, as soon as there is one; takes rows that were emptied since the last.
    pub fn pop(&self, emptied: &mut Vec<Rows>) -> Message {
        let mut state = self.lock();
        let room = MOST_SPARES - state.spares.len().min(MOST_SPARES);
        emptied.truncate(room);
        state.spares.append(emptied);
        loop {
            if let Some(message) = state.messages.pop_front() {
                state.rows -= rows_of(&message);
                let waited_for = state.waiting > 0;
                drop(state);
                if waited_for {
                    self.emptied.notify_all();
                }
                return message;
            }
            state.idle = true;
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle = false;
        }
    }

    /// Nothing is taken from now on.
    pub fn fail(&self, error: Error) {
        let mut state = self.lock();
        state.failed = Some(error);
        state.messages.clear();
        state.rows = 0;
        drop(state);
        self.emptied.notify_all();
    }

    pub fn check(&self) -> Result<()> {
        self.lock().failed.clone().map_or(Ok(()), Err)
    }
}

fn rows_of(message: &Message) -> usize {
    match message {
        Message::Rows(windows) => windows.iter().map(|(_, rows)| rows.len()).sum(),
        _ => 0,
    }
}
