//! The way from workers to the thread that writes: bounded by rows, so that a record which is slower than its run slows the run and does
//! not fill the memory.

use crate::error::{Error, Result};
use probes::Rows;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Rows that may wait: some 100 bytes each.
const MOST_ROWS: usize = 1 << 20;

/// What the thread that writes is told.
#[derive(Debug)]
pub enum Message {
    /// Rows of a window.
    Rows(u64, Box<Rows>),
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
            state = self.emptied.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.failed.is_none() {
            if let Message::Rows(_, rows) = &message {
                state.rows += rows.len();
            }
            state.messages.push_back(message);
            drop(state);
            self.filled.notify_one();
        }
    }

    /// The next message, as soon as there is one.
    pub fn pop(&self) -> Message {
        let mut state = self.lock();
        loop {
            if let Some(message) = state.messages.pop_front() {
                if let Message::Rows(_, rows) = &message {
                    state.rows -= rows.len();
                    self.emptied.notify_all();
                }
                return message;
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
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
