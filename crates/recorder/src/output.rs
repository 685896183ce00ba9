//! Files that grow by appending (guests' output, strace logs, captures): many thousand of them on few descriptors.
//!
//! An [`OutputFile`] belongs to its host and holds what is not yet written; an [`OutputPool`] belongs to a worker and holds
//! open descriptors, opened for appending and closed again when others are used more recently. Neither is shared, so writing
//! takes no lock; a host that moves to another worker writes through that worker's pool, and since every descriptor appends,
//! the order of the bytes is that of the calls.

use crate::error::{Error, Result};
use base::map::FastMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Source of the keys under which pools find open files. The numbers show nowhere.
static NEXT_KEY: AtomicU64 = AtomicU64::new(0);

/// One file that is only ever appended to.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    key: u64,
    /// Not yet written.
    buffer: Vec<u8>,
    /// How much is gathered before it is written.
    buffer_limit: usize,
    written: u64,
}

/// Descriptors of files in use lately, at most `capacity` of them.
#[derive(Debug)]
pub struct OutputPool {
    capacity: usize,
    slots: Vec<Slot>,
    by_key: FastMap<u64, usize>,
    /// Where the search for a victim goes on (second-chance replacement).
    hand: usize,
    opens: u64,
}

#[derive(Debug)]
struct Slot {
    key: u64,
    file: File,
    used: bool,
}

impl OutputFile {
    /// What is gathered unless said otherwise.
    pub const DEFAULT_BUFFER: usize = 16 * 1024;

    /// Creates the file, empty, at once, so that a silent guest leaves an empty file.
    pub fn create(path: PathBuf, pool: &mut OutputPool) -> Result<OutputFile> {
        OutputFile::with_buffer(path, Self::DEFAULT_BUFFER, pool)
    }

    /// As [`OutputFile::create`], gathering up to `buffer_limit` bytes; 0 writes each piece at once.
    pub fn with_buffer(path: PathBuf, buffer_limit: usize, pool: &mut OutputPool) -> Result<OutputFile> {
        let key = NEXT_KEY.fetch_add(1, Ordering::Relaxed);
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path);
        drop(file.map_err(|error| Error::io("create", &path, error))?);
        pool.opens += 1;
        Ok(OutputFile { path, key, buffer: Vec::new(), buffer_limit, written: 0 })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes so far, those still in the buffer included.
    pub fn len(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends. Touches the file only when the buffer is full.
    pub fn write(&mut self, bytes: &[u8], pool: &mut OutputPool) -> Result<()> {
        if self.buffer.len() + bytes.len() <= self.buffer_limit {
            self.buffer.extend_from_slice(bytes);
            return Ok(());
        }
        self.flush(pool)?;
        if bytes.len() >= self.buffer_limit {
            self.written += bytes.len() as u64;
            return pool.append(self.key, &self.path, bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes what is in the buffer if it could not take `bytes` more: these then reach the file together, unless there are more than the
    /// buffer holds.
    pub fn make_room(&mut self, bytes: usize, pool: &mut OutputPool) -> Result<()> {
        if self.buffer.len() + bytes > self.buffer_limit { self.flush(pool) } else { Ok(()) }
    }

    /// Writes what is in the buffer and gives its memory back.
    pub fn flush(&mut self, pool: &mut OutputPool) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.buffer);
        self.written += bytes.len() as u64;
        pool.append(self.key, &self.path, &bytes)
    }

    /// Gives the rest up and lets the descriptor go: the file cannot be written any more.
    pub fn abandon(mut self, pool: &mut OutputPool) -> PathBuf {
        self.buffer.clear();
        pool.forget(self.key);
        self.path.clone()
    }

    /// Writes the rest and lets the descriptor go.
    pub fn close(mut self, pool: &mut OutputPool) -> Result<()> {
        let flushed = self.flush(pool);
        pool.forget(self.key);
        flushed
    }
}

/// The last resort for a run that ends by an error: what is in the buffer is not lost. A failure here cannot be reported;
/// whoever wants to know uses [`OutputFile::close`].
impl Drop for OutputFile {
    fn drop(&mut self) {
        if !self.buffer.is_empty()
            && let Ok(mut file) = open_append(&self.path)
        {
            let _ = file.write_all(&self.buffer);
        }
    }
}

impl OutputPool {
    /// A pool of at most `capacity` descriptors (at least 1).
    pub fn new(capacity: usize) -> OutputPool {
        OutputPool { capacity: capacity.max(1), slots: Vec::new(), by_key: FastMap::default(), hand: 0, opens: 0 }
    }

    /// A pool for one of `workers` workers, which together take at most a quarter of `descriptor_limit` (guests' own files
    /// need descriptors too), and no more than pays.
    pub fn for_worker(descriptor_limit: u64, workers: usize) -> OutputPool {
        const ENOUGH: u64 = 1024;
        let share = descriptor_limit / 4 / workers.max(1) as u64;
        OutputPool::new(share.min(ENOUGH) as usize)
    }

    /// How many descriptors are open now.
    pub fn open_files(&self) -> usize {
        self.slots.len()
    }

    /// How often a file was opened: far above the number of files, the pool is too small.
    pub fn opens(&self) -> u64 {
        self.opens
    }

    fn append(&mut self, key: u64, path: &Path, bytes: &[u8]) -> Result<()> {
        let slot = self.slot_for(key, path).map_err(|error| Error::io("open", path, error))?;
        self.slots[slot].used = true;
        self.slots[slot].file.write_all(bytes).map_err(|error| Error::io("write to", path, error))
    }

    fn slot_for(&mut self, key: u64, path: &Path) -> io::Result<usize> {
        if let Some(&slot) = self.by_key.get(&key) {
            return Ok(slot);
        }
        let new = Slot { key, file: open_append(path)?, used: true };
        self.opens += 1;
        let slot = if self.slots.len() < self.capacity {
            self.slots.push(new);
            self.slots.len() - 1
        } else {
            let victim = self.victim();
            self.by_key.remove(&self.slots[victim].key);
            self.slots[victim] = new;
            victim
        };
        self.by_key.insert(key, slot);
        Ok(slot)
    }

    /// The first slot from the hand on that was not used since the hand passed it last.
    fn victim(&mut self) -> usize {
        loop {
            let candidate = self.hand;
            self.hand = (self.hand + 1) % self.slots.len();
            if !std::mem::take(&mut self.slots[candidate].used) {
                return candidate;
            }
        }
    }

    fn forget(&mut self, key: u64) {
        let Some(slot) = self.by_key.remove(&key) else { return };
        self.slots.swap_remove(slot);
        if let Some(moved) = self.slots.get(slot) {
            self.by_key.insert(moved.key, slot);
        }
        if self.hand >= self.slots.len() {
            self.hand = 0;
        }
    }
}

fn open_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).open(path)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs;

    /// A directory that goes with the test.
    pub(crate) struct TempDir {
        pub(crate) path: PathBuf,
    }

    impl TempDir {
        pub(crate) fn new(name: &str) -> TempDir {
            let path = std::env::temp_dir().join(format!("gnomon-recorder-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).unwrap();
            TempDir { path }
        }
    }

    impl Drop for TempDir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.path);
        }
    }

    fn open_files(temp: &TempDir, pool: &mut OutputPool, count: usize, buffer: usize) -> Vec<OutputFile> {
        let path = |i| temp.path.join(format!("{i}.stdout"));
        (0..count).map(|i| OutputFile::with_buffer(path(i), buffer, pool).unwrap()).collect()
    }

    #[test]
    fn many_files_share_few_descriptors_and_keep_their_order() {
        let temp = TempDir::new("pool");
        let mut pool = OutputPool::new(4);
        let mut files = open_files(&temp, &mut pool, 50, 8);
        for round in 0..20 {
            for (i, file) in files.iter_mut().enumerate() {
                file.write(format!("{i}:{round};").as_bytes(), &mut pool).unwrap();
                assert!(pool.open_files() <= 4);
            }
        }
        for file in files {
            file.close(&mut pool).unwrap();
        }
        assert_eq!(pool.open_files(), 0);
        for i in 0..50 {
            let expected: String = (0..20).map(|round| format!("{i}:{round};")).collect();
            assert_eq!(fs::read_to_string(temp.path.join(format!("{i}.stdout"))).unwrap(), expected);
        }
    }

    #[test]
    fn a_file_that_moves_between_pools_stays_in_order() {
        let temp = TempDir::new("moves");
        let (mut a, mut b) = (OutputPool::new(2), OutputPool::new(2));
        let mut file = open_files(&temp, &mut a, 1, 0).pop().unwrap();
        for round in 0..10 {
            let pool = if round % 2 == 0 { &mut a } else { &mut b };
            file.write(&[b'0' + round], pool).unwrap();
        }
        assert_eq!(fs::read_to_string(file.path()).unwrap(), "0123456789");
        assert_eq!((file.len(), a.opens(), b.opens()), (10, 2, 1));
    }

    #[test]
    fn files_in_use_stay_open() {
        let temp = TempDir::new("lru");
        let mut pool = OutputPool::new(3);
        let mut files = open_files(&temp, &mut pool, 20, 0);
        files[0].write(b"x", &mut pool).unwrap();
        let opens = pool.opens();
        for other in 1..20 {
            files[0].write(b"x", &mut pool).unwrap();
            files[other].write(b"y", &mut pool).unwrap();
        }
        assert!(pool.opens() - opens <= 19 + 2, "the busy file was reopened {} times", pool.opens() - opens - 19);
    }

    #[test]
    fn dropping_loses_nothing_and_creation_truncates() {
        let temp = TempDir::new("drop");
        let mut pool = OutputPool::new(1);
        let path = temp.path.join("f");
        fs::write(&path, "old").unwrap();
        let mut file = OutputFile::create(path.clone(), &mut pool).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        assert!(file.is_empty());
        file.write(b"kept", &mut pool).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"", "still gathered");
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"kept");
    }

    #[test]
    fn workers_share_the_descriptors() {
        assert_eq!(OutputPool::for_worker(20_000, 16).capacity, 312);
        assert_eq!(OutputPool::for_worker(u64::MAX, 2).capacity, 1024);
        assert_eq!(OutputPool::for_worker(16, 64).capacity, 1);
    }

    #[test]
    fn failures_name_the_file() {
        let mut pool = OutputPool::new(1);
        let error = OutputFile::create(PathBuf::from("/nonexistent/x.stdout"), &mut pool).unwrap_err();
        assert!(error.to_string().starts_with("cannot create '/nonexistent/x.stdout': No such file"), "{error}");
    }
}
