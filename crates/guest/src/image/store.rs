//! The store: one memfd that holds every composed image once, and packs of images as programs load them.

use super::composed::Composed;
use super::elf::{ElfError, ElfHeader};
use super::gs::GsAccess;
use super::patches::{Candidate, Copied, Patches};
use super::rewrite::{Rewritten, Site};
use super::{IMAGE_BYTES_MAX, PAGE, page_down, page_up, zeroed};
use crate::counters;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Identity and version of a real file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey {
    pub device: u64,
    pub inode: u64,
    pub bytes: u64,
    pub modified_ns: i128,
}

impl FileKey {
    /// # Errors
    /// When `fstat` fails.
    pub fn of(file: &File) -> std::io::Result<FileKey> {
        use std::os::unix::fs::MetadataExt;
        let meta = file.metadata()?;
        let modified_ns = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
        Ok(FileKey { device: meta.dev(), inode: meta.ino(), bytes: meta.len(), modified_ns })
    }
}

/// How many addresses lie between an image and its sled, in bytes: whole pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Gap(pub(crate) u64);

impl Gap {
    pub(crate) const NONE: Gap = Gap(0);
}

/// A composed image: an ELF file's pages with special instructions rewritten, followed by its sled.
#[derive(Debug)]
pub struct Image {
    pub key: FileKey,
    /// Where the file was when it was composed.
    path: PathBuf,
    pub header: ElfHeader,
    /// Where it begins in the store, and where its sled does.
    pub(crate) offset: u64,
    pub(crate) sled_offset: u64,
    /// Addresses between the image's end and its sled. Those that name places in the sled count them.
    pub(crate) gap: Gap,
    /// The sled, in whole pages.
    pub(crate) sled_bytes: u64,
    sites: Vec<Site>,
    /// As in [`Rewritten`], like the others.
    entries: Vec<(u64, u64)>,
    moved: Vec<(u64, u64)>,
    accesses: Vec<GsAccess>,
    patches: Patches,
}

impl Image {
    /// Bytes of address space from its first page to the end of its sled, in whole pages.
    pub fn mapped_bytes(&self) -> u64 {
        self.sled_start() + self.sled_bytes
    }

    /// Bytes that it takes in one piece: with its sled, if that lies right behind it.
    pub fn joined_bytes(&self) -> u64 {
        if self.gap == Gap::NONE { self.mapped_bytes() } else { self.header.span }
    }

    /// Where its sled begins, relative to the image.
    pub(crate) fn sled_start(&self) -> u64 {
        self.header.span + self.gap.0
    }

    /// The file's path on this machine, for debuggers and reports; it may lie elsewhere by now.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How much of it lies before its first segment that can be written.
    pub(crate) fn read_only_bytes(&self) -> u64 {
        let writable = self.header.segments.iter().find(|segment| segment.writable);
        writable.map_or(self.header.span, |segment| page_down(segment.address))
    }

    /// Its data behind its last segment that can be executed, with what becomes its zeroes.
    pub(crate) fn data_range(&self) -> Option<(u64, u64)> {
        let header = &self.header;
        let last_code = header.segments.iter().filter(|segment| segment.executable);
        let code_end = last_code.map(|segment| page_up(segment.address + segment.memory_bytes)).max().unwrap_or(0);
        let (from, to) = (code_end.max(self.read_only_bytes()), page_up(header.span));
        (from < to).then_some((from, to))
    }

    /// Pages that every start of the image writes: what ld.so relocates, and small initialised data behind it.
    pub(crate) fn relocated_ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        const SMALL_DATA_BYTES: u64 = 16 << 10;
        let header = &self.header;
        header.segments.iter().filter(|segment| segment.writable && segment.file_bytes > 0).filter_map(move |segment| {
            let (from, end) = (page_down(segment.address), page_up(segment.address + segment.file_bytes));
            let relro_end = header.relro.filter(|(at, _)| page_down(*at) == from).map_or(from, |(_, to)| page_up(to));
            let to = if end.saturating_sub(relro_end) <= SMALL_DATA_BYTES { end } else { relro_end };
            (to > from).then_some((from, to))
        })
    }

    /// What it takes of the store.
    fn store_range(&self) -> std::ops::Range<u64> {
        self.offset..self.sled_offset + self.sled_bytes
    }

    /// The address relative to the image that an offset in the store stands for.
    fn relative_of_store(&self, offset: u64) -> u64 {
        if offset >= self.sled_offset { offset - self.sled_offset + self.sled_start() } else { offset - self.offset }
    }

    /// For an address in the sled, relative to the image: the address in the original code that it stands for.
    pub(crate) fn original_address(&self, relative: u64) -> Option<u64> {
        let at = self.moved.binary_search_by_key(&relative, |(place, _)| *place).ok()?;
        Some(self.moved[at].1)
    }

    /// The access relative to GS in the middle of which the sled has an address relative to the image.
    pub(crate) fn gs_access(&self, relative: u64) -> Option<GsAccess> {
        let begun = self.accesses.partition_point(|access| access.start <= relative);
        self.accesses[..begun].last().filter(|access| relative < access.end).copied()
    }

    /// The instruction whose place in the sled ends at an address relative to the image: where it lay, and its bytes.
    pub(crate) fn replaced_instruction(&self, relative: u64) -> Option<(u64, [u8; 15])> {
        let at = self.sites.binary_search_by_key(&relative, |site| site.sled_return).ok()?;
        let site = &self.sites[at];
        Some((site.original_return - u64::from(site.length), site.bytes))
    }

    /// Where the sled has the instruction that lay inside of a patch, both relative to the image.
    pub(crate) fn entry(&self, relative: u64) -> Option<u64> {
        let at = self.entries.binary_search_by_key(&relative, |(original, _)| *original).ok()?;
        Some(self.entries[at].1)
    }

    /// For any address in the sled, relative to the image: an address of the original code close to what it stands for.
    pub(crate) fn nearby_address(&self, relative: u64) -> Option<u64> {
        let begun = self.moved.partition_point(|(place, _)| *place <= relative);
        let last = self.moved[..begun].last().filter(|_| relative >= self.sled_start())?;
        Some(last.1)
    }

    /// Whether something in it was replaced.
    pub(crate) fn is_patched(&self) -> bool {
        !self.patches.is_empty()
    }

    /// The least and the largest displacement of the jumps that it was given.
    pub(crate) fn displacements(&self) -> Option<(u32, u32)> {
        self.patches.displacements()
    }

    /// Stretches of `code` that may have been copied from around a patch of this image.
    pub(crate) fn copies_around(&self, code: &[u8], candidate: Candidate) -> Vec<Copied<'_>> {
        self.patches.copies_around(code, candidate, |from, bytes| images().read(self, from, bytes))
    }

    /// For an address behind a rewritten instruction, relative to the image: where the sled goes on.
    pub(crate) fn sled_address(&self, relative: u64) -> Option<u64> {
        self.sites.iter().find(|site| site.original_return == relative).map(|site| site.sled_return)
    }
}

/// A program's images (and other private file mappings) as its first guest placed them, ready to be mapped as a whole.
#[derive(Debug)]
pub(crate) struct Pack {
    /// Where it begins in the store.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// (offset in the pack, bytes, file, file offset), by offset.
    pub(crate) parts: Vec<PackPart>,
    /// As in [`PackRecording`].
    pub(crate) written: Vec<(u64, u64)>,
}

/// One mapping inside a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackPart {
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    pub(crate) key: FileKey,
    /// None for a composed image, the file offset for plain data.
    pub(crate) data_offset: Option<u64>,
}

/// The process-wide store.
#[derive(Debug)]
pub struct Images {
    file: File,
    fd: RawFd,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: u64,
    headers: BTreeMap<FileKey, Option<Arc<ElfHeader>>>,
    images: BTreeMap<(FileKey, Gap), Result<Arc<Image>, ElfError>>,
    packs: BTreeMap<FileKey, Arc<Pack>>,
    recordings: BTreeMap<FileKey, PackRecording>,
}

/// A part of a pack to be, with its bytes when it is plain data.
pub(crate) type RecordedPart = (PackPart, Option<Vec<u8>>);

/// What the first guest of a program left.
#[derive(Debug)]
pub(crate) struct PackRecording {
    pub(crate) bytes: u64,
    pub(crate) parts: Vec<RecordedPart>,
    /// Ranges of pages that its start wrote, from the stack's top to what it mapped behind its images.
    pub(crate) written: Vec<(u64, u64)>,
}

/// The process-wide store, created on first use.
pub fn images() -> &'static Images {
    static STORE: OnceLock<Images> = OnceLock::new();
    STORE.get_or_init(|| {
        // SAFETY: the name is a valid C string; the result is checked before it becomes an owned descriptor.
        let fd = unsafe { libc::memfd_create(c"gnomon-images".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(fd >= 0, "memfd_create: {}", std::io::Error::last_os_error());
        // SAFETY: `fd` is a fresh descriptor that nothing else owns.
        let file = unsafe { File::from_raw_fd(fd) };
        Images { file, fd, state: Mutex::default() }
    })
}

fn unreadable(error: std::io::Error) -> ElfError {
    ElfError { reason: format!("cannot be read: {error}"), signal: None }
}

/// Reads what a file's shape needs: its first bytes, unless its program headers lie elsewhere.
fn read_header(key: FileKey, file: &File) -> Result<ElfHeader, ElfError> {
    const HEAD_BYTES: u64 = 64 << 10;
    let mut head = vec![0; key.bytes.min(HEAD_BYTES) as usize];
    file.read_exact_at(&mut head, 0).map_err(unreadable)?;
    ElfHeader::parse_head(&head, key.bytes).or_else(|_| ElfHeader::parse(&read_whole(key, file)?))
}

fn read_whole(key: FileKey, file: &File) -> Result<Vec<u8>, ElfError> {
    let data = Some(key.bytes).filter(|bytes| *bytes <= IMAGE_BYTES_MAX).and_then(zeroed);
    let mut data =
        data.ok_or_else(|| ElfError { reason: "the machine has no memory for so large a file".into(), signal: None })?;
    file.read_exact_at(&mut data, 0).map_err(unreadable)?;
    Ok(data)
}

impl Images {
    /// The composed image of a file with its sled right behind it, made on first use.
    ///
    /// # Errors
    /// When the file is no ELF image for this machine.
    pub fn get(&self, key: FileKey, file: &File) -> Result<Arc<Image>, ElfError> {
        self.with_gap(key, file, Gap::NONE)
    }

    /// As [`get`](Self::get), with a gap between the image and its sled.
    pub(crate) fn with_gap(&self, key: FileKey, file: &File, gap: Gap) -> Result<Arc<Image>, ElfError> {
        let mut state = self.lock();
        if let Some(known) = state.images.get(&(key, gap)) {
            return known.clone();
        }
        let made = self.compose(&mut state, key, file, gap).map(Arc::new);
        state.images.insert((key, gap), made.clone());
        made
    }

    /// The shape of a file, without composing it. None when it is no ELF image for this machine.
    pub(crate) fn header(&self, key: FileKey, file: &File) -> Option<Arc<ElfHeader>> {
        let mut magic = [0u8; 4];
        if file.read_exact_at(&mut magic, 0).is_err() || magic != *b"\x7fELF" {
            return None;
        }
        let mut state = self.lock();
        let known = state.headers.entry(key).or_insert_with(|| read_header(key, file).ok().map(Arc::new));
        known.clone()
    }

    /// What lies at an offset of the store that is mapped at `address`: the file, what is to be added to the addresses that it was linked at,
    /// and the address that this one stands for. None for data, and while an image is composed.
    pub(crate) fn file_at(&self, offset: u64, address: u64) -> Option<(PathBuf, u64, u64)> {
        let state = self.state.try_lock().ok()?;
        let composed = || state.images.values().filter_map(|image| image.as_ref().ok());
        let in_pack = || {
            let pack = state.packs.values().find(|pack| (pack.offset..pack.offset + pack.bytes).contains(&offset))?;
            let at = offset - pack.offset;
            let part = pack.parts.iter().find(|part| (part.at..part.at + part.bytes).contains(&at))?;
            let image = state.images.get(&(part.key, Gap::NONE))?.as_ref().ok()?;
            part.data_offset.is_none().then(|| (image, at - part.at))
        };
        let alone = || {
            let image = composed().find(|image| image.store_range().contains(&offset))?;
            Some((image, image.relative_of_store(offset)))
        };
        let (image, relative) = alone().or_else(in_pack)?;
        let start = address - relative;
        let shown = image.nearby_address(relative).unwrap_or(relative);
        Some((image.path.clone(), start.wrapping_sub(image.header.linked_at), start + shown))
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.fd
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn compose(&self, state: &mut State, key: FileKey, file: &File, gap: Gap) -> Result<Image, ElfError> {
        let data = read_whole(key, file)?;
        let composed = Composed::with_gap(&data, gap)?;
        let sled_bytes = page_up(composed.sled_bytes());
        let Composed { header, memory, rewritten } = composed;
        let Rewritten { sled, sites, entries, moved, accesses, patches, left } = rewritten;
        counters::count_sites(sites.len() as u64, left);
        let offset = self.reserve(state, header.span + sled_bytes).map_err(unreadable)?;
        let sled_offset = offset + header.span;
        self.write_sparse(offset, &memory).map_err(unreadable)?;
        for (at, page) in &sled.pages {
            self.file.write_all_at(&page[..], sled_offset + at).map_err(unreadable)?;
        }
        let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default();
        Ok(Image { key, path, header, offset, sled_offset, gap, sled_bytes, sites, entries, moved, accesses, patches })
    }

    /// Reads what an image has from an address on, relative to it; what is neither image nor sled reads as zero. False when that fails.
    fn read(&self, image: &Image, from: u64, bytes: &mut [u8]) -> bool {
        bytes.fill(0);
        let (span, end) = (image.header.span, from + bytes.len() as u64);
        let parts = [(0, span, image.offset), (image.sled_start(), image.mapped_bytes(), image.sled_offset)];
        parts.into_iter().all(|(start, stop, offset)| {
            let (first, last) = (from.max(start), end.min(stop));
            first >= last
                || self
                    .file
                    .read_exact_at(
                        &mut bytes[(first - from) as usize..(last - from) as usize],
                        offset + (first - start),
                    )
                    .is_ok()
        })
    }

    fn reserve(&self, state: &mut State, bytes: u64) -> std::io::Result<u64> {
        let offset = state.used;
        self.file.set_len(offset + bytes)?;
        state.used += bytes;
        Ok(offset)
    }

    /// Writes pages that hold something; the others stay holes.
    fn write_sparse(&self, offset: u64, memory: &[u8]) -> std::io::Result<()> {
        let holds_something = |page: &&[u8]| page.iter().any(|byte| *byte != 0);
        let mut at = 0;
        while at < memory.len() {
            let filled: usize = memory[at..].chunks(PAGE as usize).take_while(holds_something).map(<[u8]>::len).sum();
            self.file.write_all_at(&memory[at..at + filled], offset + at as u64)?;
            at += filled.max(PAGE as usize);
        }
        Ok(())
    }

    /// The pack of a program, if an earlier guest of it has left a recording. None also when it cannot be written: then images
    /// are mapped one by one.
    pub(crate) fn pack(&self, program: FileKey) -> Option<Arc<Pack>> {
        let mut state = self.lock();
        if let Some(pack) = state.packs.get(&program) {
            return Some(pack.clone());
        }
        let recording = state.recordings.remove(&program)?;
        let pack = Arc::new(self.make_pack(&mut state, recording).ok()?);
        state.packs.insert(program, pack.clone());
        Some(pack)
    }

    /// Keeps what the first guest of a program did while it started.
    pub(crate) fn record(&self, program: FileKey, recording: PackRecording) {
        let mut state = self.lock();
        if !state.packs.contains_key(&program) {
            state.recordings.entry(program).or_insert(recording);
        }
    }

    fn make_pack(&self, state: &mut State, recording: PackRecording) -> std::io::Result<Pack> {
        let PackRecording { bytes, parts, written } = recording;
        let offset = self.reserve(state, bytes)?;
        for (part, data) in &parts {
            match (data, state.images.get(&(part.key, Gap::NONE))) {
                (Some(data), _) => self.write_sparse(offset + part.at, data)?,
                (None, Some(Ok(image))) => {
                    let mut memory = vec![0u8; image.mapped_bytes() as usize];
                    self.file.read_exact_at(&mut memory, image.offset)?;
                    self.write_sparse(offset + part.at, &memory)?;
                }
                (None, _) => {}
            }
        }
        let parts = parts.into_iter().map(|(part, _)| part).collect();
        Ok(Pack { offset, bytes, parts, written })
    }
}
