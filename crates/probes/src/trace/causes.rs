//! What follows from what: which reads a write can stem from, as far as the simulated kernel sees.
//!
//! A *turn* of a thread begins when it is woken and when it asks what is ready (epoll, poll, select) and would wait. What it writes in a turn follows
//! from what it has read in that turn; else from what those have read that woke it; else from anything that its process has read since it last wrote to the
//! same stream. Where that leaves several, contents decide if they can: proxies hand on most of what they read as it is; and what was read in the same
//! turn from the connection that is written to is taken for the question to this answer.

use super::{Caller, Trace};
use crate::choices::{How, WokenBy};
use crate::table::tell;
use crate::tables::{Cause, Mark, Wake};
use base::SimTime;
use base::map::FastMap;
use std::collections::VecDeque;

/// Bytes of a read or a write that are looked at.
const HEAD: usize = 512;
/// Reads of a process that are remembered.
const RECENT: usize = 64;
/// Candidates of one write at most: the latest.
const CANDIDATES: usize = 16;
/// What a write could follow from, the next one to its stream can, too: so many of the latest.
const KEPT: usize = 4;
/// Marks of a process that are remembered.
const MARKS: usize = 1024;
/// Contents are compared by pieces of so many bytes, which is a word.
const PIECE: usize = 8;
/// And so many more of them than the next best has must be common to both.
const CLEARLY: usize = 2;

/// The first bytes of a read or a write.
#[derive(Debug, Default)]
pub struct Head(Vec<u8>);

impl Head {
    /// Bytes that follow.
    pub fn add(&mut self, bytes: &[u8]) {
        let room = HEAD - self.0.len();
        self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// The part of `bytes` that counts.
    pub(super) fn of(bytes: &[u8]) -> &[u8] {
        &bytes[..bytes.len().min(HEAD)]
    }
}

#[derive(Debug)]
struct Recent {
    read: u64,
    connection: u64,
    head: Head,
    sampled: Pieces,
}

impl Recent {
    fn new(read: u64, connection: u64, head: Head) -> Recent {
        let sampled = Pieces::of(&head.0, SAMPLED);
        Recent { read, connection, head, sampled }
    }
}

#[derive(Debug, Default)]
struct Turn {
    /// The row of `wakes`.
    wake: u64,
    /// What it has read since.
    reads: Vec<u64>,
    /// What those had read that woke it.
    inherited: Vec<u64>,
    /// Its reads are those of a mark.
    is_marked: bool,
}

#[derive(Debug, Default)]
struct Process {
    recent: VecDeque<Recent>,
    /// For each stream the last read when it last wrote to it, and what that could follow from.
    written: FastMap<u64, (u64, Vec<u64>)>,
    /// Marks, the latest last, with what had been read for each.
    marks: VecDeque<(String, Vec<u64>)>,
}

#[derive(Debug, Default)]
pub(super) struct Causes {
    turns: FastMap<u64, Turn>,
    processes: FastMap<u64, Process>,
}

impl Causes {
    fn reads_of(&self, tid: u64) -> Vec<u64> {
        self.turns.get(&tid).map_or_else(Vec::new, |turn| {
            if turn.reads.is_empty() { turn.inherited.clone() } else { turn.reads.clone() }
        })
    }
}

impl Trace {
    /// A thread that waited goes on: because of a packet, another thread or what else there is.
    pub fn woken(&mut self, now: SimTime, tid: u64, by: WokenBy, source: u64) {
        let wake = self.number_row();
        tell(&mut self.rows.wakes, Wake { wake, tid, at_ns: now.as_nanos(), by: by.into(), source });
        let is_thread = !matches!(by, WokenBy::Packet | WokenBy::Timer | WokenBy::Start);
        let inherited = if is_thread { self.causes.reads_of(source) } else { Vec::new() };
        self.causes.turns.insert(tid, Turn { wake, inherited, ..Turn::default() });
    }

    /// The row of `wakes` since which a thread runs; 0 if it never waited.
    pub fn wake_of(&self, tid: u64) -> u64 {
        self.causes.turns.get(&tid).map_or(0, |turn| turn.wake)
    }

    /// A thread asks what is ready, and would wait for it: what it does from now on is about that.
    pub fn looks_around(&mut self, tid: u64) {
        if let Some(turn) = self.causes.turns.get_mut(&tid) {
            turn.reads.clear();
            turn.inherited.clear();
            turn.is_marked = false;
        }
    }

    /// The thread that makes the call names what it is about: what it has read in its turn belongs to that; or if it has read nothing,
    /// what it writes follows from what was read under the same name.
    pub fn mark(&mut self, now: SimTime, label: &str) {
        let Caller { pid, tid, wake, .. } = self.caller;
        let mark = self.number_row();
        tell(&mut self.rows.marks, Mark { mark, at_ns: now.as_nanos(), pid, tid, wake, label: label.to_owned() });
        let process = self.causes.processes.entry(pid).or_default();
        let turn = self.causes.turns.entry(tid).or_default();
        let known = process.marks.iter_mut().find(|(name, _)| name == label);
        if turn.reads.is_empty() || turn.is_marked {
            if let Some((_, reads)) = known {
                turn.reads.clone_from(reads);
                turn.is_marked = true;
            }
        } else if let Some((_, reads)) = known {
            reads.clone_from(&turn.reads);
        } else {
            if process.marks.len() == MARKS {
                process.marks.pop_front();
            }
            process.marks.push_back((label.to_owned(), turn.reads.clone()));
        }
    }

    /// A thread is no more.
    pub fn thread_ended(&mut self, tid: u64) {
        self.causes.turns.remove(&tid);
    }

    /// A process is no more.
    pub fn process_ended(&mut self, pid: u64) {
        self.causes.processes.remove(&pid);
    }

    pub(super) fn remember_read(&mut self, read: u64, connection: u64, head: Head) {
        let (pid, tid) = (self.caller.pid, self.caller.tid);
        if pid == 0 {
            return;
        }
        let turn = self.causes.turns.entry(tid).or_default();
        let process = self.causes.processes.entry(pid).or_default();
        if turn.reads.len() == RECENT {
            turn.reads.remove(0);
        }
        turn.reads.push(read);
        if process.recent.len() == RECENT {
            process.recent.pop_front();
        }
        process.recent.push_back(Recent::new(read, connection, head));
    }

    /// Rows for what a write can follow from; `head` are its first bytes.
    pub(super) fn find_causes(&mut self, write: u64, stream: u64, connection: u64, head: &[u8]) {
        let (pid, tid) = (self.caller.pid, self.caller.tid);
        if pid == 0 {
            return;
        }
        let turn = self.causes.turns.get(&tid);
        // A process that has read nothing can go on for another that has.
        let is_about_reads = turn.is_some_and(|turn| !turn.reads.is_empty() || !turn.inherited.is_empty());
        if !is_about_reads && !self.causes.processes.contains_key(&pid) {
            return;
        }
        let process = self.causes.processes.entry(pid).or_default();
        let last = process.recent.back().map_or(0, |recent| recent.read);
        let (since, before) = process.written.remove(&stream).unwrap_or_default();
        let (reads, how) = match turn {
            Some(turn) if turn.is_marked => {
                let mark = |read: &u64| Cause { write, read: *read, how: How::Mark.into() };
                let rows = &mut self.rows.causes;
                turn.reads.iter().for_each(|read| tell(rows, mark(read)));
                return;
            }
            Some(turn) if !turn.reads.is_empty() => (turn.reads.clone(), How::SameTurn),
            Some(turn) if !turn.inherited.is_empty() => (turn.inherited.clone(), How::Wake),
            _ => {
                let new = process.recent.iter().map(|recent| recent.read).filter(|read| *read > since);
                // What was read before may not have left with the last write.
                (before.into_iter().chain(new).collect(), How::Candidate)
            }
        };
        let kept = reads.len().saturating_sub(KEPT);
        process.written.insert(stream, (last, reads[kept..].to_vec()));
        if let [read] = reads[..] {
            // A single read that could have been is no proof.
            tell(&mut self.rows.causes, Cause { write, read, how: how.into() });
            return;
        }
        if let Some(read) = same_bytes(process, &reads, head) {
            tell(&mut self.rows.causes, Cause { write, read, how: How::SameBytes.into() });
            return;
        }
        // An answer goes back where its question came from.
        let asks = |recent: &&Recent| recent.connection == connection && reads.contains(&recent.read);
        if how == How::SameTurn
            && let Some(question) = process.recent.iter().rfind(asks)
        {
            tell(&mut self.rows.causes, Cause { write, read: question.read, how: how.into() });
            return;
        }
        let latest = reads.len().saturating_sub(CANDIDATES);
        for read in &reads[latest..] {
            tell(&mut self.rows.causes, Cause { write, read: *read, how: How::Candidate.into() });
        }
    }
}

/// The read whose contents the write clearly has more of than those of any other. Few pieces are looked at first: what is encrypted has none in common.
fn same_bytes(process: &Process, reads: &[u64], head: &[u8]) -> Option<u64> {
    if head.len() < PIECE {
        return None;
    }
    let candidates = || process.recent.iter().filter(|recent| reads.contains(&recent.read));
    let some = Pieces::of(head, SAMPLED);
    if candidates().all(|recent| recent.sampled.common(&some) == 0) {
        return None;
    }
    let all = Pieces::of(head, EACH);
    let common = |recent: &Recent| Pieces::of(&recent.head.0, EACH).common(&all);
    let mut scores: Vec<(usize, u64)> = candidates().map(|recent| (common(recent), recent.read)).collect();
    scores.sort_unstable();
    let (best, read) = scores.pop()?;
    let next = scores.last().map_or(0, |(score, _)| *score);
    (best >= next + CLEARLY).then_some(read)
}

/// Hashes of a text's pieces, sorted: all of them, or those that a mask chooses.
#[derive(Debug, Default)]
struct Pieces(Vec<u32>);

const EACH: u32 = 0;
/// One of eight.
const SAMPLED: u32 = 7;

impl Pieces {
    fn of(text: &[u8], mask: u32) -> Pieces {
        let mut word = 0u64;
        let hashes = text.iter().enumerate().filter_map(|(at, byte)| {
            word = word << 8 | u64::from(*byte);
            let hash = (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
            (at + 1 >= PIECE && hash & mask == 0).then_some(hash)
        });
        let mut all: Vec<u32> = hashes.collect();
        all.sort_unstable();
        all.dedup();
        Pieces(all)
    }

    fn common(&self, other: &Pieces) -> usize {
        let (mut mine, mut theirs, mut count) = (self.0.iter().peekable(), other.0.iter().peekable(), 0);
        while let (Some(a), Some(b)) = (mine.peek(), theirs.peek()) {
            match a.cmp(b) {
                std::cmp::Ordering::Less => drop(mine.next()),
                std::cmp::Ordering::Greater => drop(theirs.next()),
                std::cmp::Ordering::Equal => {
                    count += 1;
                    mine.next();
                    theirs.next();
                }
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(texts: &[&str]) -> Process {
        let recent = texts.iter().zip(1..).map(|(text, read)| Recent::new(read, read, Head(text.as_bytes().to_vec())));
        Process { recent: recent.collect(), ..Process::default() }
    }

    #[test]
    fn a_number_in_a_request_is_enough() {
        let request = |number: u32, more: &str| format!("GET /item/{number:05} HTTP/1.1\r\nHost: shop\r\n{more}\r\n");
        let reads: Vec<String> = (100..110).map(|number| request(number, "")).collect();
        let process = process(&reads.iter().map(String::as_str).collect::<Vec<_>>());
        let all: Vec<u64> = (1..=10).collect();
        for number in 100..110 {
            let write = request(number, "X-Forwarded-For: 11.0.0.1\r\n");
            assert_eq!(same_bytes(&process, &all, write.as_bytes()), Some(u64::from(number) - 99), "{number}");
        }
        assert_eq!(same_bytes(&process, &all, request(555, "").as_bytes()), None);
        assert_eq!(same_bytes(&process, &all, b"something else altogether, of which nobody has heard"), None);
    }
}
