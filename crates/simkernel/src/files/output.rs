//! Standard output and error of guests: files in the host's folder that hold no real descriptor. Bytes are gathered and appended
//! in batches. A host's guests may write so much and no more (`experimental.output_limit`); then there is no space, as on a full disk.

use crate::ids::FileId;
use crate::kernel::Kernel;
use crate::user_io::ByteSource;
use linux_abi::Errno;
use linux_abi::fs::{O_APPEND, O_WRONLY};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::{FileKind, OpenFile};

/// Gathered bytes that are written at once.
const BATCH: usize = 16 << 10;

/// An output file, whether or not a guest still has it open.
#[derive(Debug)]
pub struct Output {
    pub path: PathBuf,
    buffer: Vec<u8>,
    /// How much of the buffer is in the file already.
    in_file: usize,
    /// It is the simulator's own standard error: everything is written at once.
    live: bool,
    /// The simulator's own stream that shows it as well.
    shown: Option<Shown>,
    /// Nobody reads that stream any more.
    reader_is_gone: bool,
    /// It counts against the limit of outputs.
    is_limited: bool,
    /// Bytes ever written.
    pub size: u64,
    /// Chained over what was written, batch by batch (batches depend on the guests alone).
    hash: u128,
    /// The first failure to write it: the run cannot be trusted any more.
    pub error: Option<String>,
}

/// A stream of the simulator that shows what a guest writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    Stdout,
    Stderr,
}

impl Shown {
    /// Writes all, in pieces that a pipe with room takes at once: a reader that rests must not keep a run from ending.
    fn write(self, mut bytes: &[u8]) -> std::io::Result<()> {
        /// PIPE_BUF: that much goes into a pipe which poll(2) calls writable.
        const PIECE: usize = 4096;
        let patience = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
        let fd = match self {
            Shown::Stdout => stdout.as_fd(),
            Shown::Stderr => stderr.as_fd(),
        };
        while !bytes.is_empty() {
            let poll = || rustix::event::poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::OUT)], Some(&patience));
            if rustix::io::retry_on_intr(poll)? > 0 {
                let piece = &bytes[..bytes.len().min(PIECE)];
                let written = rustix::io::retry_on_intr(|| rustix::io::write(fd, piece))?;
                bytes = &bytes[written..];
            } else if guest::is_ending() {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
        }
        Ok(())
    }
}

impl Output {
    /// A hash of everything written so far.
    pub fn content_hash(&self) -> [u8; 16] {
        self.hash.to_le_bytes()
    }

    /// Takes up to `room` bytes.
    fn append(&mut self, source: &mut dyn ByteSource, room: usize) -> Result<usize, Errno> {
        let mut done = 0;
        while source.remaining() > 0 && done < room {
            let start = self.buffer.len();
            let want = source.remaining().min(BATCH).min(room - done);
            self.buffer.resize(start + want, 0);
            let got = source.take(&mut self.buffer[start..]);
            self.buffer.truncate(start + got);
            done += got;
            if self.buffer.len() >= BATCH || self.live {
                self.flush();
            }
            if got < want {
                break;
            }
        }
        self.size += done as u64;
        if done == 0 && source.remaining() > 0 { Err(Errno::EFAULT) } else { Ok(done) }
    }

    fn flush(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        let seed = (self.hash ^ (self.hash >> 64)) as u64;
        self.hash = xxh3_128_with_seed(&self.buffer, seed);
        if self.live {
            // A reader that has gone is no failure.
            let _ = std::io::stderr().write_all(&self.buffer);
            self.buffer.clear();
            return;
        }
        self.write_out();
        if let Some(shown) = self.shown.filter(|_| !self.reader_is_gone)
            && let Err(error) = shown.write(&self.buffer)
        {
            self.reader_is_gone = true;
            self.error.get_or_insert(format!("the simulator's own {shown:?}: {error}"));
        }
        self.buffer.clear();
        self.in_file = 0;
    }

    /// Brings the file up to date. The batch goes on.
    fn write_out(&mut self) {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC;
        let mut rest = &self.buffer[self.in_file..];
        if rest.is_empty() || self.live {
            return;
        }
        self.in_file = self.buffer.len();
        let result = rustix::fs::open(&self.path, flags, Mode::from_raw_mode(0o644)).and_then(|fd| {
            while !rest.is_empty() {
                let written = rustix::io::write(&fd, rest)?;
                rest = &rest[written..];
            }
            Ok(())
        });
        if let Err(error) = result {
            self.error.get_or_insert(format!("{}: {error}", self.path.display()));
        }
    }
}

impl Kernel {
    /// Creates an output file, empty, and opens it for a guest. EIO and the like when it cannot be created.
    pub fn open_output(&mut self, path: PathBuf, status: u32) -> Result<FileId, Errno> {
        self.vfs.changes(path.as_os_str().as_bytes());
        std::fs::File::create(&path).map_err(|e| crate::machine::io_errno(&e))?;
        Ok(self.add_output(path, status, false, None))
    }

    /// As `open_output`, for standard output or error of a process of the experiment.
    pub(crate) fn open_standard_output(&mut self, path: PathBuf, stream: Shown) -> Result<FileId, Errno> {
        self.vfs.changes(path.as_os_str().as_bytes());
        std::fs::File::create(&path).map_err(|e| crate::machine::io_errno(&e))?;
        Ok(self.add_output(path, O_WRONLY | O_APPEND, false, Some(stream)))
    }

    /// Opens the simulator's own standard error as an output file.
    pub(crate) fn open_standard_error(&mut self) -> FileId {
        self.add_output("standard error".into(), O_WRONLY | O_APPEND, true, None)
    }

    fn add_output(&mut self, path: PathBuf, status: u32, live: bool, stream: Option<Shown>) -> FileId {
        self.outputs.push(Output {
            path,
            buffer: Vec::new(),
            in_file: 0,
            live,
            shown: stream.filter(|_| self.config.show_outputs),
            reader_is_gone: false,
            is_limited: stream.is_some(),
            size: 0,
            hash: 0,
            error: None,
        });
        let output = self.outputs.len() as u32 - 1;
        self.files.insert(OpenFile::new(FileKind::Output(output), status))
    }

    /// ENOSPC beyond the limit, EPIPE where nobody reads any more.
    pub(crate) fn output_write(&mut self, output: u32, source: &mut dyn ByteSource) -> Result<usize, Errno> {
        let number = output;
        let output = &mut self.outputs[output as usize];
        if output.reader_is_gone {
            return Err(Errno::EPIPE);
        }
        if !output.is_limited {
            return output.append(source, usize::MAX);
        }
        let room = self.config.output_limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.output_bytes));
        if room == 0 && source.remaining() > 0 {
            self.outputs_refused += 1;
            return Err(Errno::ENOSPC);
        }
        let before = output.buffer.len();
        let done = output.append(source, usize::try_from(room).unwrap_or(usize::MAX))?;
        if output.buffer.len() < before + done {
            self.vfs.changes(output.path.as_os_str().as_bytes());
        }
        self.output_bytes += done as u64;
        let end = output.size;
        if let Some(profiling) = &mut self.profiling {
            profiling.note_output(number, end, self.now);
        }
        Ok(done)
    }

    /// Writes everything gathered. Call it at the end of the run, and before anyone looks at the files.
    pub fn flush_outputs(&mut self) {
        self.note_news_of_outputs();
        for output in &mut self.outputs {
            output.flush();
        }
    }

    /// Files of outputs are about to change, outside of any call.
    fn note_news_of_outputs(&mut self) {
        for output in self.outputs.iter().filter(|output| output.buffer.len() > output.in_file && !output.live) {
            self.vfs.changes(output.path.as_os_str().as_bytes());
        }
        self.note_own_refusal("a file of what its programs write to standard output");
    }

    /// Brings the files up to date for those who look from outside, or after a death; their hashes do not depend on it.
    pub fn write_out_outputs(&mut self) {
        self.note_news_of_outputs();
        for output in &mut self.outputs {
            output.write_out();
        }
    }

    /// Every output file ever opened, in order.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// Where guests see an output file.
    pub(crate) fn shown_output(&self, output: u32) -> PathBuf {
        self.config.shown(&self.outputs[output as usize].path)
    }

    /// Makes sure that a guest that looks at an output file by its path sees what was written. Whether it is one.
    pub(crate) fn flush_output_at(&mut self, real: &[u8]) -> bool {
        // All lie in the host's folder itself: most lookups need no search.
        let folder = self.config.host_dir.as_os_str().as_bytes();
        let name = real.strip_prefix(folder).and_then(|rest| rest.strip_prefix(b"/"));
        if name.is_none_or(|name| name.contains(&b'/')) {
            return false;
        }
        let output = self.outputs.iter_mut().find(|output| output.path.as_os_str().as_bytes() == real);
        output.map(Output::flush).is_some()
    }
}
