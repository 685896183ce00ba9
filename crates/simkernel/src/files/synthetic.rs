//! Open files that exist on no disk: snapshots of `/proc`'s contents, devices, directories.

use crate::ids::Pid;
use crate::kernel::Kernel;
use crate::user_io::{ByteSink, ByteSource};
use crate::vfs::list::Entry;
use crate::vfs::synthetic::Device;
use linux_abi::Errno;
use linux_abi::fs::Stat;

const CHUNK: usize = 4096;
/// The longest label of a mark, in bytes.
const LABEL: usize = 256;

/// A program that a process executes: another one has other memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    pub pid: Pid,
    /// `Process::execs` meanwhile.
    pub execs: u32,
}

/// What the reader of a synthetic file gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// What it held when it was opened.
    Content,
    /// `/proc/PID/mem`: the memory of a process, which is also written.
    Memory(Image),
    /// `/proc/PID/pagemap`: a word for each of its pages.
    Pages(Image),
    /// EINVAL.
    Nothing,
}

/// A synthetic file as it was when it was opened.
#[derive(Debug)]
pub struct Snapshot {
    pub path: Vec<u8>,
    pub content: Vec<u8>,
    pub offset: u64,
    pub shown: Shown,
    /// When the content was made: at a turn of the host, before a call of a process. Until the next
    /// one nothing changes.
    pub made: (u64, u64),
}

impl Snapshot {
    pub fn new(path: Vec<u8>, content: Vec<u8>) -> Self {
        Snapshot { path, content, offset: 0, shown: Shown::Content, made: (0, 0) }
    }

    /// Whether it belongs to a process and can be read when that is over: then it is empty, or not
    /// the process's own.
    pub fn outlives_process(&self) -> bool {
        const NAMES: [&[u8]; 5] = [b"/auxv", b"/environ", b"/mountinfo", b"/mounts", b"/mountstats"];
        NAMES.iter().any(|name| self.path.ends_with(name)) || self.path.windows(5).any(|part| part == b"/net/")
    }

    /// Whether there is something to be passed on to other files.
    pub fn has_content(&self) -> bool {
        self.shown == Shown::Content
    }

    /// Whether splice can read it: what belongs to a process is had by read(2) alone, except what tells of mounts and of the network.
    pub fn gives_pages(&self) -> bool {
        const SPLICED: [&[u8]; 3] = [b"/mountinfo", b"/mounts", b"/mountstats"];
        let rest = self.path.strip_prefix(b"/proc/");
        let of_process = rest.is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_digit));
        let is_spliced = self.is_of_system() || SPLICED.iter().any(|name| self.path.ends_with(name));
        self.has_content() && (!of_process || is_spliced)
    }

    /// Whether its offsets are addresses of a process, or follow from them.
    pub fn is_of_memory(&self) -> bool {
        matches!(self.shown, Shown::Memory(_) | Shown::Pages(_))
    }

    /// Whether epoll can wait for it: files of the system and its settings can be waited for, those of processes cannot, but for mounts.
    pub fn is_pollable(&self) -> bool {
        let Some(rest) = self.path.strip_prefix(b"/proc/") else { return self.path.starts_with(b"/sys/") };
        !rest.first().is_some_and(u8::is_ascii_digit)
            || [&b"/mounts"[..], b"/mountinfo"].iter().any(|name| rest.ends_with(name))
    }

    /// Whether it is made as it is read: a file of `/proc` or `/sys`.
    pub fn is_of_kernel(&self) -> bool {
        self.path.starts_with(b"/proc/") || self.path.starts_with(b"/sys/")
    }

    /// Whether it is one of `/proc` that belongs to no process and is no setting, or one of the network (`proc_reg_file_ops`).
    pub fn is_of_system(&self) -> bool {
        let Some(rest) = self.path.strip_prefix(b"/proc/") else { return false };
        let of_process = rest.first().is_some_and(u8::is_ascii_digit);
        if of_process { self.path.windows(5).any(|part| part == b"/net/") } else { !rest.starts_with(b"sys/") }
    }

    /// Whether it is made line by line as it is read, so that nobody knows its end (`seq_lseek`).
    pub fn has_no_end(&self) -> bool {
        const PLAIN: [&[u8]; 8] = [
            b"auxv",
            b"cmdline",
            b"coredump_filter",
            b"environ",
            b"loginuid",
            b"oom_adj",
            b"oom_score_adj",
            b"sessionid",
        ];
        let (folder, name) = self.path.split_at(self.path.iter().rposition(|&byte| byte == b'/').unwrap_or(0));
        let of_process = self.path.get(6).is_some_and(u8::is_ascii_digit);
        let is_plain = of_process && (folder.ends_with(b"/attr") || PLAIN.contains(&name.get(1..).unwrap_or(b"")));
        self.path.starts_with(b"/proc/") && !self.path.starts_with(b"/proc/sys/") && !is_plain
    }

    /// What `stat` says of its size: files of `/proc` have none, those of `/sys` a page.
    pub fn shown_size(&self) -> u64 {
        match () {
            () if self.path.starts_with(b"/proc/") => 0,
            () if self.path.starts_with(b"/sys/") => 4096,
            () => self.content.len() as u64,
        }
    }

    pub fn read(&mut self, sink: &mut dyn ByteSink, position: Option<u64>) -> Result<usize, Errno> {
        if self.shown == Shown::Nothing {
            return Err(Errno::EINVAL);
        }
        let start = position.unwrap_or(self.offset);
        let rest = self.content.get(start as usize..).unwrap_or(&[]);
        let want = rest.len().min(sink.remaining());
        let done = sink.put(&rest[..want]);
        if done == 0 && want > 0 {
            return Err(Errno::EFAULT);
        }
        if position.is_none() {
            self.offset += done as u64;
        }
        Ok(done)
    }
}

/// An open directory. Its entries are read at the first `getdents64` and again after a rewind.
#[derive(Debug)]
pub struct Directory {
    pub path: Vec<u8>,
    pub entries: Option<Vec<Entry>>,
    pub position: usize,
    /// What it was when it was removed. What has its name since is another one.
    pub gone: Option<Box<Stat>>,
}

impl Directory {
    pub fn new(path: Vec<u8>) -> Self {
        Directory { path, entries: None, position: 0, gone: None }
    }
}

impl Kernel {
    pub(crate) fn device_read(&mut self, device: Device, sink: &mut dyn ByteSink) -> Result<usize, Errno> {
        match device {
            Device::Null | Device::Tty | Device::Ptmx | Device::Mark => Ok(0),
            Device::Zero | Device::Full => fill(sink, |_| {}),
            Device::Random | Device::Urandom => {
                let random = &mut self.random;
                fill(sink, |chunk| random.fill(chunk))
            }
        }
    }

    /// A mark: as many bytes as a label has, the rest is forgotten.
    pub(crate) fn mark_write(&mut self, source: &mut dyn ByteSource) -> Result<usize, Errno> {
        let done = source.remaining();
        if self.records_calls {
            let mut label = [0; LABEL];
            let label = &mut label[..LABEL.min(done)];
            let taken = source.take(label);
            self.note_mark(&label[..taken]);
        }
        source.skip(source.remaining());
        Ok(done)
    }
}

/// Fills a sink with chunks that `produce` writes over zeros.
pub fn fill(sink: &mut dyn ByteSink, mut produce: impl FnMut(&mut [u8])) -> Result<usize, Errno> {
    let mut done = 0;
    while sink.remaining() > 0 {
        let mut chunk = [0; CHUNK];
        let chunk = &mut chunk[..CHUNK.min(sink.remaining())];
        produce(chunk);
        let moved = sink.put(chunk);
        done += moved;
        if moved < chunk.len() {
            return if done == 0 { Err(Errno::EFAULT) } else { Ok(done) };
        }
    }
    Ok(done)
}

/// Writes to a device: taken and forgotten, but for `/dev/full`.
pub fn device_write(device: Device, source: &mut dyn ByteSource) -> Result<usize, Errno> {
    match device {
        Device::Full if source.remaining() > 0 => Err(Errno::ENOSPC),
        _ => {
            let done = source.remaining();
            source.skip(done);
            Ok(done)
        }
    }
}
