//! Documents of CollecTor one after the other, from folders, files and archives (.tar.xz, .tar, .xz) as they were fetched, and parsed on
//! several threads.
//!
//! One thread reads and decompresses, the others parse; only so many documents wait between them as there are threads, so memory does not
//! grow with the archive. What an archive may become has bounds.

use crate::Error;
use base::{ByteSize, input};
use lzma_rust2::XzReader;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// A consensus has 3 to 4 MB; some folders have a day's descriptors in one file.
const LONGEST_DOCUMENT: ByteSize = ByteSize(256 << 20);
/// A month of bandwidth files of all authorities has some 15 GB.
const LONGEST_CONTENT: u64 = 256 << 30;
/// Archives of CollecTor have a fiftieth of their content. The bound is felt only beyond so much that small archives never meet it.
const MOST_EXPANSION: u64 = 500;
const EXPANSION_FROM: u64 = 256 << 20;
/// For xz's dictionary: 64 MiB are usual (xz -9).
const XZ_MEMORY_KIB: u32 = 512 << 10;

const XZ_MAGIC: &[u8] = b"\xfd7zXZ\0";
/// "ustar" in a tar header, and where.
const TAR_MAGIC: (usize, &[u8]) = (257, b"ustar");
const BLOCK: usize = 512;
const BUFFER: usize = 256 << 10;

/// A document with the name that messages have for it: in an archive, ARCHIVE/NAME.
#[derive(Debug)]
pub(super) struct Document {
    pub path: PathBuf,
    bytes: Vec<u8>,
}

impl Document {
    /// Bytes that are not UTF-8 (contact lines) are replaced.
    pub(super) fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }
}

/// How far the reading of one kind of documents is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// "consensuses".
    pub what: &'static str,
    pub documents: u64,
    /// Of the files as they lie on the disk.
    pub read: ByteSize,
    pub total: ByteSize,
}

/// Parses the documents of `paths` on `threads` threads, and hands what came out to `take` on this one, in any order. Returns how many
/// there were.
///
/// # Errors
/// The first that reading or parsing gives; nothing is taken after it.
pub(super) fn each<T: Send>(
    what: &'static str,
    paths: &[PathBuf],
    threads: usize,
    told: &mut dyn FnMut(Progress),
    parse: impl Fn(&Document) -> Result<T, Error> + Sync,
    mut take: impl FnMut(T) -> Result<(), Error>,
) -> Result<u64, Error> {
    let mut all = Vec::new();
    for path in paths {
        all.extend(files(path)?);
    }
    let size = |path: &PathBuf| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let total = ByteSize(all.iter().map(size).sum());
    let read = AtomicU64::new(0);
    let mut documents = 0;
    std::thread::scope(|scope| {
        let (to_parse, documents_to_parse) = sync_channel(threads);
        let (parsed, results) = sync_channel(threads);
        // The parsers own it: when they have ended, the reader's next document finds nobody, and it ends too.
        let documents_to_parse = Arc::new(Mutex::new(documents_to_parse));
        let (failed, read, all, parse) = (parsed.clone(), &read, &all, &parse);
        scope.spawn(move || {
            let mut send = |document| to_parse.send(document).is_ok();
            for path in all {
                match visit(path, read, &mut send) {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(error) => {
                        // Nobody listens any more when another error came first.
                        let _ = failed.send(Err(error));
                        return;
                    }
                }
            }
        });
        for _ in 0..threads.max(1) {
            let (documents, parsed) = (Arc::clone(&documents_to_parse), parsed.clone());
            scope.spawn(move || parse_all(&documents, parse, &parsed));
        }
        drop((documents_to_parse, parsed));
        for result in results {
            take(result?)?;
            documents += 1;
            told(Progress { what, documents, read: ByteSize(read.load(Ordering::Relaxed)), total });
        }
        Ok(documents)
    })
}

fn parse_all<T>(
    documents: &Mutex<Receiver<Document>>,
    parse: &impl Fn(&Document) -> Result<T, Error>,
    parsed: &SyncSender<Result<T, Error>>,
) {
    loop {
        let document = documents.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(document) = document else { return };
        if parsed.send(parse(&document)).is_err() {
            return;
        }
    }
}

/// The file itself, or all files of the folder and those in it, in the order of their names.
pub(super) fn files(path: &Path) -> Result<Vec<PathBuf>, Error> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let unreadable = |error| Error::input(format!("{} cannot be read: {error}", path.display()));
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        entries.push(entry.map_err(unreadable)?.path());
    }
    entries.sort();
    let mut found = Vec::new();
    for entry in entries {
        found.extend(files(&entry)?);
    }
    Ok(found)
}

/// Sends the documents of a file; false when they are not wanted any more. What a file is, its content says.
fn visit(path: &Path, read: &AtomicU64, send: &mut dyn FnMut(Document) -> bool) -> Result<bool, Error> {
    let named = |error: input::InputError| Error::input(format!("{} {error}", path.display()));
    let file = input::open(path).map_err(named)?;
    let begun = read.load(Ordering::Relaxed);
    // xz is read byte by byte in places.
    let mut file = BufReader::with_capacity(BUFFER, Counted { file, read });
    let head = head(&mut file).map_err(|error| named(error.into()))?;
    let is_xz = head.starts_with(XZ_MAGIC);
    let file = Cursor::new(head).chain(file);
    if !is_xz {
        return content(path, file, send);
    }
    let decompressed = XzReader::new_mem_limit(file, true, XZ_MEMORY_KIB);
    content(path, Bounded { inner: decompressed, given: 0, read, begun }, send)
}

/// Sends what decompressed content holds: the documents of an archive, or the one that it is.
fn content(path: &Path, mut reader: impl Read, send: &mut dyn FnMut(Document) -> bool) -> Result<bool, Error> {
    let head = head(&mut reader).map_err(broken(path))?;
    let (at, magic) = TAR_MAGIC;
    let is_tar = head.get(at..).is_some_and(|rest| rest.starts_with(magic));
    let mut reader = Cursor::new(head).chain(reader);
    if is_tar {
        return archive(path, reader, send);
    }
    document(path.to_path_buf(), &mut reader).map(send)
}

fn archive(path: &Path, reader: impl Read, send: &mut dyn FnMut(Document) -> bool) -> Result<bool, Error> {
    let mut archive = tar::Archive::new(reader);
    // Raw, since entries with long names and other attributes would be read whole; they are passed over.
    for entry in archive.entries().map_err(broken(path))?.raw(true) {
        let mut entry = entry.map_err(broken(path))?;
        if entry.header().entry_type() != tar::EntryType::Regular {
            continue;
        }
        let name = path.join(String::from_utf8_lossy(&entry.path_bytes()).trim_start_matches('/'));
        let length = entry.header().entry_size().map_err(broken(path))?;
        if length > LONGEST_DOCUMENT.0 {
            let error = input::InputError::TooLong(LONGEST_DOCUMENT);
            return Err(Error::input(format!("{} {error}", name.display())));
        }
        if !send(document(name, &mut entry)?) {
            return Ok(false);
        }
    }
    // To the end of what was compressed, whose checksums stand there.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(broken(path))?;
    Ok(true)
}

fn broken(path: &Path) -> impl Fn(io::Error) -> Error {
    move |error| Error::input(format!("{} cannot be read: {error}; fetch it again, or name another", path.display()))
}

fn document(path: PathBuf, reader: &mut impl Read) -> Result<Document, Error> {
    match input::bounded(reader, LONGEST_DOCUMENT) {
        Ok(bytes) => Ok(Document { path, bytes }),
        Err(input::InputError::Io(error)) => Err(broken(&path)(error)),
        Err(error) => Err(Error::input(format!("{} {error}", path.display()))),
    }
}

/// The first block, or as much as there is.
fn head(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(BLOCK);
    reader.take(BLOCK as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// Counts what is read of files.
struct Counted<'a> {
    file: File,
    read: &'a AtomicU64,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Decompressed content, within bounds: some kilobytes of xz can stand for terabytes.
struct Bounded<'a, R> {
    inner: R,
    given: u64,
    /// What was read of files, and had been before this one.
    read: &'a AtomicU64,
    begun: u64,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let given = self.inner.read(buffer)?;
        self.given += given as u64;
        let compressed = self.read.load(Ordering::Relaxed).saturating_sub(self.begun);
        let is_bomb = self.given > EXPANSION_FROM && self.given / MOST_EXPANSION > compressed;
        if is_bomb || self.given > LONGEST_CONTENT {
            return Err(io::Error::other(format!(
                "{} MiB of it decompress to {} MiB, which no archive of CollecTor does",
                compressed >> 20,
                self.given >> 20
            )));
        }
        Ok(given)
    }
}
