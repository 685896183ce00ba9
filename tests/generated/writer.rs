//! What families of calls write programs with: dice, and what a program has made so far.

use base::seed::{Rng, SeedTree};

/// What a descriptor refers to, as far as the writer of a program knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Folder,
    /// Of O_PATH.
    Place,
    PipeReader,
    PipeWriter,
    Event,
    Timer,
    Signals,
    Epoll,
    Inotify,
    UnixStream,
    UnixDatagram,
    UnixPacket,
    Tcp,
    Udp,
    Tcp6,
    Udp6,
    Netlink,
    Queue,
    Terminal,
    Process,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    Thread,
    Process,
}

/// A program that is being written.
pub struct Writer {
    rng: Rng,
    pub lines: Vec<String>,
    /// Actors beside the first.
    pub actors: Vec<Actor>,
    fds: Vec<(String, Kind)>,
    /// Results of shmget and its like, by call.
    pub ids: Vec<(&'static str, String)>,
    /// Whether calls may wait: somebody else can go on.
    pub may_wait: bool,
    /// A number that no program beside it has, for ports.
    pub number: u64,
    /// Whether users count: the native side is root.
    pub root: bool,
}

impl Writer {
    pub fn new(seed: u64, number: u64, root: bool) -> Self {
        let rng = SeedTree::new(seed).stream(&number.to_string(), "generated program");
        Writer {
            rng,
            lines: Vec::new(),
            actors: Vec::new(),
            fds: Vec::new(),
            ids: Vec::new(),
            may_wait: false,
            number,
            root,
        }
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.rng.below(bound as u64) as usize
    }

    /// True in `percent` of all cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// One of the words of `from`.
    pub fn word(&mut self, from: &'static str) -> &'static str {
        let count = from.split_ascii_whitespace().count();
        let place = self.below(count);
        from.split_ascii_whitespace().nth(place).expect("a word")
    }

    /// The sum of some of `bits`, each in a quarter of all cases.
    pub fn flags(&mut self, bits: &[u64]) -> u64 {
        bits.iter().filter(|_| self.below(4) == 0).fold(0, |sum, bit| sum | bit)
    }

    /// A number as programs pass them: small, at a limit, or strange.
    pub fn number(&mut self) -> i64 {
        match self.below(10) {
            0..=4 => self.below(16) as i64,
            5 => self.below(70_000) as i64,
            6 => -1 - self.below(3) as i64,
            7 => self.pick(&[4095, 4096, 4097, 65_535, 65_536, 1 << 20]),
            8 => self.pick(&[i64::from(i32::MAX), i64::from(i32::MIN), i64::MAX, i64::MIN, 1 << 32]),
            _ => 1 << self.below(32),
        }
    }

    /// A length of data.
    pub fn length(&mut self) -> usize {
        match self.below(12) {
            0 => 0,
            1 => self.pick(&[4095, 4096, 4097, 8192]),
            _ => 1 + self.below(24),
        }
    }

    /// Writes a line for a random actor; returns its number.
    pub fn line(&mut self, text: &str) -> usize {
        let actor = if self.actors.is_empty() { 0 } else { self.below(self.actors.len() + 1) };
        self.line_of(actor, text)
    }

    pub fn line_of(&mut self, actor: usize, text: &str) -> usize {
        self.lines.push(format!("{actor} {text}"));
        self.lines.len() - 1
    }

    /// As `line`, for a call that ends by itself after a while.
    pub fn timed_line(&mut self, text: &str) -> usize {
        let line = self.line(text);
        self.lines[line].insert(1, '~');
        line
    }

    pub fn made(&mut self, fd: String, kind: Kind) {
        self.fds.push((fd, kind));
    }

    /// A line whose result is a descriptor.
    pub fn making(&mut self, kind: Kind, text: &str) -> String {
        let line = self.line(text);
        let fd = format!("${line}");
        self.made(fd.clone(), kind);
        fd
    }

    /// A line that closes a descriptor. Some are used afterwards all the same.
    pub fn closing(&mut self, fd: &str) {
        self.line(&format!("close {fd}"));
        if self.chance(80) {
            self.fds.retain(|(known, _)| known != fd);
        }
    }

    pub fn has(&self, kinds: &[Kind]) -> bool {
        self.fds.iter().any(|(_, kind)| kinds.contains(kind))
    }

    pub fn count(&self, kinds: &[Kind]) -> usize {
        self.fds.iter().filter(|(_, kind)| kinds.contains(kind)).count()
    }

    /// A descriptor, mostly of these kinds, now and then another or none.
    pub fn fd(&mut self, kinds: &[Kind]) -> String {
        let fitting: Vec<usize> = (0..self.fds.len()).filter(|i| kinds.contains(&self.fds[*i].1)).collect();
        let dice = self.below(100);
        if !fitting.is_empty() && dice < 94 {
            // The latest ones are the most interesting.
            let place = self.below(fitting.len()).max(self.below(fitting.len()));
            return self.fds[fitting[place]].0.clone();
        }
        self.any_fd()
    }

    pub fn any_fd(&mut self) -> String {
        if self.fds.is_empty() || self.chance(4) {
            return self.word("-1 -1 77 255 256 -100").to_owned();
        }
        let place = self.below(self.fds.len());
        self.fds[place].0.clone()
    }

    /// The pid of an actor, or something near it.
    pub fn pid(&mut self) -> String {
        let actor = self.below(self.actors.len() + 1);
        match self.below(14) {
            0 => "0".to_owned(),
            1 => format!("#{actor}.t"),
            _ => format!("#{actor}"),
        }
    }

    /// The number of an actor's thread or process.
    pub fn thread(&mut self) -> String {
        let actor = self.below(self.actors.len() + 1);
        if self.chance(50) { format!("#{actor}.t") } else { format!("#{actor}") }
    }

    /// What a program passes where the kernel reads or writes: mostly `good`.
    pub fn or_bad(&mut self, good: String) -> String {
        match self.below(40) {
            0 => "!b".to_owned(),
            1 => "0".to_owned(),
            2 => "!r".to_owned(),
            3 => "!e1".to_owned(),
            _ => good,
        }
    }

    /// Data to write, as a pointer, with its length.
    pub fn data(&mut self) -> (String, usize) {
        let (good, length) = self.good_data();
        let pointer = self.or_bad(good.clone());
        // What lies behind the page of `!r` is chance.
        (if pointer == "!r" && length > 4096 { good } else { pointer }, length)
    }

    /// Data that can be read. Where a write to a file faults, newer kernels leave the file longer than older ones.
    pub fn good_data(&mut self) -> (String, usize) {
        let length = self.length();
        let seed = self.below(200);
        (format!("{{f{seed}*{length}}}"), length)
    }

    /// An array of buffers to write from or to read into, as a pointer, with their number.
    pub fn vectors(&mut self, reading: bool) -> (String, usize) {
        self.vectors_of(reading, true)
    }

    /// The same, with or without bad ones.
    pub fn vectors_of(&mut self, reading: bool, with_bad: bool) -> (String, usize) {
        let count = self.below(4);
        let mut text = "{".to_owned();
        for _ in 0..count {
            let length = self.below(20);
            let seed = self.below(200);
            let part = if reading { format!("&{length}:x") } else { format!("{{f{seed}*{length}}}") };
            let part = if with_bad { self.or_bad(part) } else { part };
            text += &format!("p{part} q{length} ");
        }
        (text.trim_end().to_owned() + "}", count)
    }

    pub fn mode(&mut self) -> &'static str {
        self.word("0644 0600 0755 0 0777 0444 0222 04755 01777 02755")
    }
}
