//! What we need of an ELF file: its kind, segments, interpreter, and where its functions lie.

use super::{PAGE, page_down, page_up};
use gimli::{BaseAddresses, CieOrFde, EhFrame, NativeEndian, UnwindSection};
use object::elf;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol};

/// Why a file cannot be an image. `errno` is what `execve` answers on Linux.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElfError {
    pub reason: String,
}

impl std::fmt::Display for ElfError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for ElfError {}

fn refuse<T>(reason: impl Into<String>) -> Result<T, ElfError> {
    Err(ElfError { reason: reason.into() })
}

/// One PT_LOAD segment; addresses relative to the image's first page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub address: u64,
    pub memory_bytes: u64,
    pub file_offset: u64,
    pub file_bytes: u64,
    pub readable: bool,
    pub writable: bool,
    pub executable: bool,
}

/// The shape of an ELF file.
#[derive(Clone, Debug)]
pub struct ElfHeader {
    /// Address of the first page as linked: 0 for position-independent files.
    pub linked_at: u64,
    /// Must be loaded at `linked_at` (ET_EXEC).
    pub fixed: bool,
    /// Relative to the first page, like all below.
    pub entry: u64,
    pub program_headers: u64,
    pub program_header_count: u16,
    pub interpreter: Option<Vec<u8>>,
    pub segments: Vec<Segment>,
    /// Range that ld.so makes read-only after relocation.
    pub relro: Option<(u64, u64)>,
    /// Whole pages from the first to the end of the last segment.
    pub span: u64,
}

impl ElfHeader {
    pub fn parse(data: &[u8]) -> Result<ElfHeader, ElfError> {
        let header = match elf::FileHeader64::<Endianness>::parse(data) {
            Ok(header) => header,
            Err(_) => return refuse("not a 64-bit ELF file"),
        };
        let endian = match header.endian() {
            Ok(Endianness::Little) => Endianness::Little,
            _ => return refuse("not a little-endian ELF file"),
        };
        if header.e_machine(endian) != elf::EM_X86_64 {
            return refuse("not an x86-64 ELF file");
        }
        let kind = header.e_type(endian);
        if kind != elf::ET_DYN && kind != elf::ET_EXEC {
            return refuse("neither an executable nor a shared object");
        }
        let Ok(headers) = header.program_headers(endian, data) else {
            return refuse("its program headers lie outside the file");
        };
        let mut loads = Vec::new();
        let (mut interpreter, mut relro, mut phdr) = (None, None, None);
        for program in headers {
            let (address, memory) = (program.p_vaddr(endian), program.p_memsz(endian));
            match program.p_type(endian) {
                elf::PT_LOAD => loads.push(load_segment(program, endian, data.len() as u64)?),
                elf::PT_INTERP => {
                    let bytes = program.data(endian, data).unwrap_or(&[]);
                    interpreter = Some(bytes.split(|b| *b == 0).next().unwrap_or(&[]).to_vec());
                }
                elf::PT_GNU_RELRO => relro = Some((address, address.saturating_add(memory))),
                elf::PT_PHDR => phdr = Some(address),
                _ => {}
            }
        }
        let Some(first) = loads.first().copied() else { return refuse("has nothing to load") };
        let linked_at = page_down(first.address);
        let phdr = phdr.unwrap_or_else(|| first.address + header.e_phoff(endian).saturating_sub(first.file_offset));
        let mut previous_end = linked_at;
        for segment in &mut loads {
            if segment.address < previous_end {
                return refuse("its segments overlap or are not in order");
            }
            previous_end = segment.address + segment.memory_bytes;
            segment.address -= linked_at;
        }
        let end = loads.last().map_or(0, |last| last.address + last.memory_bytes);
        Ok(ElfHeader {
            linked_at,
            fixed: kind == elf::ET_EXEC,
            entry: header.e_entry(endian).wrapping_sub(linked_at),
            program_headers: phdr.wrapping_sub(linked_at),
            program_header_count: headers.len() as u16,
            interpreter,
            segments: loads,
            relro: relro.map(|(from, to)| (from.wrapping_sub(linked_at), to.wrapping_sub(linked_at))),
            span: page_up(end),
        })
    }

    /// The file's pages as the kernel and ld.so would map them, `span` bytes; what lies past the file is zero.
    pub fn memory_image(&self, data: &[u8]) -> Vec<u8> {
        let mut memory = vec![0u8; self.span as usize];
        for segment in &self.segments {
            let from = page_down(segment.file_offset);
            let to = page_up(segment.file_offset + segment.file_bytes).min(data.len() as u64);
            let at = page_down(segment.address);
            let room = self.span - at;
            let bytes = (to.saturating_sub(from)).min(room);
            memory[at as usize..(at + bytes) as usize].copy_from_slice(&data[from as usize..(from + bytes) as usize]);
            if segment.writable && segment.memory_bytes > segment.file_bytes {
                let tail = segment.address + segment.file_bytes;
                memory[tail as usize..page_up(tail).min(self.span) as usize].fill(0);
            }
        }
        memory
    }
}

fn load_segment(
    program: &elf::ProgramHeader64<Endianness>,
    endian: Endianness,
    file_len: u64,
) -> Result<Segment, ElfError> {
    let flags = program.p_flags(endian);
    let segment = Segment {
        address: program.p_vaddr(endian),
        memory_bytes: program.p_memsz(endian),
        file_offset: program.p_offset(endian),
        file_bytes: program.p_filesz(endian),
        readable: flags & elf::PF_R != 0,
        writable: flags & elf::PF_W != 0,
        executable: flags & elf::PF_X != 0,
    };
    let file_end = segment.file_offset.checked_add(segment.file_bytes);
    let memory_end = segment.address.checked_add(segment.memory_bytes);
    let sane = file_end.is_some_and(|end| end <= file_len)
        && memory_end.is_some_and(|end| end < 1 << 46)
        && segment.memory_bytes >= segment.file_bytes
        && segment.address % PAGE == segment.file_offset % PAGE;
    if sane { Ok(segment) } else { refuse("a segment lies outside the file or is misaligned (is it truncated?)") }
}

/// Ranges of functions relative to the image's first page, sorted, from unwind tables, symbols and Go's table.
pub(crate) fn function_ranges(data: &[u8], header: &ElfHeader) -> Vec<(u64, u64)> {
    let mut ranges = Vec::new();
    let Ok(file) = ElfFile64::<Endianness>::parse(data) else { return ranges };
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        if symbol.kind() == object::SymbolKind::Text && symbol.size() > 0 && symbol.address() >= header.linked_at {
            let start = symbol.address() - header.linked_at;
            ranges.push((start, start + symbol.size()));
        }
    }
    if let Some(section) = file.section_by_name(".eh_frame")
        && let Ok(bytes) = section.data()
    {
        let mut bases = BaseAddresses::default().set_eh_frame(section.address());
        if let Some(text) = file.section_by_name(".text") {
            bases = bases.set_text(text.address());
        }
        frame_ranges(bytes, &bases, header.linked_at, &mut ranges);
    }
    let relative = |at: u64| at.wrapping_sub(header.linked_at);
    ranges.extend(super::go::function_ranges(&file).into_iter().map(|(from, to)| (relative(from), relative(to))));
    ranges.retain(|(from, to)| from < to && *to <= header.span);
    ranges.sort_unstable();
    ranges.dedup();
    ranges
}

fn frame_ranges(bytes: &[u8], bases: &BaseAddresses, linked_at: u64, ranges: &mut Vec<(u64, u64)>) {
    let frames = EhFrame::new(bytes, NativeEndian);
    let mut entries = frames.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else { continue };
        // A signal trampoline's entry begins a byte early, so that unwinders which look one byte back find it.
        let early = u64::from(fde.cie().is_signal_trampoline());
        let start = fde.initial_address().wrapping_sub(linked_at);
        ranges.push((start.saturating_add(early), start.saturating_add(fde.len())));
    }
}
