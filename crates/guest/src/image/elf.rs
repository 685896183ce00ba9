//! What we need of an ELF file: its kind, segments, interpreter, and where its functions lie.

use super::{IMAGE_BYTES_MAX, PAGE, page_down, page_up, zeroed};
use gimli::{BaseAddresses, CieOrFde, EhFrame, EhFrameHdr, NativeEndian, UnwindSection};
use object::elf;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, SectionKind};

/// Why a file cannot be an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElfError {
    pub reason: String,
    /// Linux comes upon it when the old program is gone already: what executes the file ends by this
    /// signal.
    pub signal: Option<i32>,
}

impl std::fmt::Display for ElfError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for ElfError {}

fn refuse<T>(reason: impl Into<String>) -> Result<T, ElfError> {
    Err(ElfError { reason: reason.into(), signal: None })
}

/// As Linux refuses segments (`elf_load`).
fn refuse_late<T>(reason: impl Into<String>) -> Result<T, ElfError> {
    Err(ElfError { reason: reason.into(), signal: Some(libc::SIGSEGV) })
}

/// The longest name of an interpreter, with its end (PATH_MAX).
const PATH_BYTES_MAX: usize = 4096;

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
    /// The largest alignment that a segment asks for, in bytes: a power of two, a page at least.
    pub alignment: u64,
    /// The program asks for a stack that it may execute (PT_GNU_STACK): its compiler puts code there.
    pub(crate) executable_stack: bool,
}

impl ElfHeader {
    /// # Errors
    /// When the file is no image for this machine.
    pub fn parse(data: &[u8]) -> Result<ElfHeader, ElfError> {
        ElfHeader::parse_head(data, data.len() as u64)
    }

    /// As [`parse`](Self::parse), of the first bytes of a file of `file_bytes`. Its interpreter is known if its name lies in them.
    pub(super) fn parse_head(data: &[u8], file_bytes: u64) -> Result<ElfHeader, ElfError> {
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
        // Without any, execve(2) takes the file for none of its formats (`load_elf_phdrs`).
        if headers.is_empty() {
            return refuse("has no program headers");
        }
        let mut loads = Vec::new();
        let (mut interpreter, mut relro, mut phdr, mut alignment) = (None, None, None, PAGE);
        let mut executable_stack = false;
        let is_interpreted = headers.iter().any(|program| program.p_type(endian) == elf::PT_INTERP);
        let first_instruction = (!is_interpreted).then(|| header.e_entry(endian));
        for program in headers {
            let (address, memory) = (program.p_vaddr(endian), program.p_memsz(endian));
            match program.p_type(endian) {
                elf::PT_LOAD => {
                    loads.push(load_segment(program, endian, file_bytes, first_instruction)?);
                    let asked = program.p_align(endian);
                    alignment = if asked.is_power_of_two() { alignment.max(asked) } else { alignment };
                }
                elf::PT_INTERP if interpreter.is_none() => {
                    let bytes = program.data(endian, data).unwrap_or(&[]);
                    if !(2..=PATH_BYTES_MAX).contains(&bytes.len()) || bytes.last() != Some(&0) {
                        return refuse("the name of its interpreter has no end, or is none");
                    }
                    interpreter = Some(bytes.split(|b| *b == 0).next().unwrap_or(&[]).to_vec());
                }
                elf::PT_GNU_RELRO => relro = Some((address, address.saturating_add(memory))),
                elf::PT_PHDR => phdr = Some(address),
                elf::PT_GNU_STACK => executable_stack = program.p_flags(endian) & elf::PF_X != 0,
                _ => {}
            }
        }
        // Of two at one address the later one counts, in whatever order the file has the others.
        loads.sort_by_key(|segment| segment.address);
        let Some(first) = loads.first().copied() else { return refuse_late("has nothing to load") };
        let linked_at = page_down(first.address);
        let phdr = phdr.unwrap_or_else(|| first.address + header.e_phoff(endian).saturating_sub(first.file_offset));
        loads.iter_mut().for_each(|segment| segment.address -= linked_at);
        let end = loads.iter().map(|segment| segment.address + segment.memory_bytes).max().unwrap_or(0);
        if end > IMAGE_BYTES_MAX {
            return refuse("takes more than 16 GiB of addresses");
        }
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
            alignment,
            executable_stack,
        })
    }

    /// Whether an address, relative to the first page, lies in what the file has of an executable segment.
    pub(crate) fn is_code(&self, address: u64) -> bool {
        self.code_end(address).is_some()
    }

    /// Where that ends.
    fn code_end(&self, address: u64) -> Option<u64> {
        let inside = |s: &&Segment| s.executable && address >= s.address && address - s.address < s.file_bytes;
        self.segments.iter().find(inside).map(|s| s.address + s.file_bytes)
    }

    /// The file's pages as the kernel and ld.so would map them, `span` bytes; what lies past the file is zero.
    ///
    /// # Errors
    /// When the machine has no memory for that.
    pub(super) fn memory_image(&self, data: &[u8]) -> Result<Vec<u8>, ElfError> {
        let Some(mut memory) = zeroed(self.span) else { return refuse("the machine has no memory for it") };
        for segment in &self.segments {
            let from = page_down(segment.file_offset);
            let to = page_up(segment.file_offset + segment.file_bytes).min(data.len() as u64);
            let at = page_down(segment.address);
            let room = self.span - at;
            let bytes = (to.saturating_sub(from)).min(room);
            memory[at as usize..(at + bytes) as usize].copy_from_slice(&data[from as usize..(from + bytes) as usize]);
            if segment.file_bytes == 0 {
                // Nothing of the file: zeroes, whatever lay there before (`elf_load`).
                let end = page_up(segment.address + segment.memory_bytes).min(self.span);
                memory[page_up(segment.address).min(end) as usize..end as usize].fill(0);
            } else if segment.writable && segment.memory_bytes > segment.file_bytes {
                let tail = segment.address + segment.file_bytes;
                memory[tail as usize..page_up(tail).min(self.span) as usize].fill(0);
            }
        }
        Ok(memory)
    }
}

fn load_segment(
    program: &elf::ProgramHeader64<Endianness>,
    endian: Endianness,
    file_len: u64,
    first_instruction: Option<u64>,
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
    if segment.memory_bytes < segment.file_bytes || segment.address % PAGE != segment.file_offset % PAGE {
        return refuse_late("a segment has more bytes than memory, or is misaligned");
    }
    let (Some(file_end), Some(_)) = (file_end, memory_end.filter(|end| *end < 1 << 46)) else {
        return refuse("a segment lies outside of what can be addressed");
    };
    if file_end <= file_len {
        return Ok(segment);
    }
    let reason = "a segment lies outside the file (is it truncated?)";
    // Linux maps what the file lacks, and the program faults where it touches that: here only its very first
    // instruction is looked at.
    let place = first_instruction.and_then(|at| at.checked_sub(segment.address)).filter(|at| *at < segment.file_bytes);
    match place {
        Some(at) if segment.executable && segment.file_offset + at >= page_up(file_len) => {
            Err(ElfError { reason: reason.into(), signal: Some(libc::SIGBUS) })
        }
        _ => refuse(reason),
    }
}

/// What is known of a file's code.
pub(crate) struct KnownCode {
    /// Ranges of functions, and pieces of them, relative to the image's first page, sorted.
    pub(crate) ranges: Vec<(u64, u64)>,
    /// Most of the executable bytes lie in none of them.
    pub(crate) is_sparse: bool,
}

/// Sections with code: executable segments may hold data as well. Empty where the file does not say, or says what cannot be: a program begins
/// in one.
fn code_sections(file: &ElfFile64<'_, Endianness>, header: &ElfHeader) -> Vec<(u64, u64)> {
    let is_code = |section: &object::read::elf::ElfSection64<'_, '_, Endianness>| section.kind() == SectionKind::Text;
    let range = |section: object::read::elf::ElfSection64<'_, '_, Endianness>| {
        let from = section.address().wrapping_sub(header.linked_at);
        (from, from.saturating_add(section.size()))
    };
    let sections: Vec<(u64, u64)> = file.sections().filter(is_code).map(range).collect();
    let begins_in = |(from, to): &(u64, u64)| (*from..*to).contains(&header.entry);
    let is_library = header.entry.wrapping_add(header.linked_at) == 0;
    if is_library || sections.iter().any(begins_in) { sections } else { Vec::new() }
}

/// Where code lies for certain: from symbols, unwind tables and Go's table, and of what can be reached
/// beside them. A file may lack its section headers, or any of these.
pub(crate) fn function_ranges(memory: &[u8], data: &[u8], header: &ElfHeader) -> KnownCode {
    let mut ranges = Vec::new();
    let mut seeds = vec![header.entry];
    let file = ElfFile64::<Endianness>::parse(data).ok();
    if let Some(file) = &file {
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            let start = symbol.address().wrapping_sub(header.linked_at);
            if symbol.kind() == object::SymbolKind::Text && header.is_code(start) {
                seeds.push(start);
                ranges.push((start, start.saturating_add(symbol.size())));
            }
        }
        let relative = |at: u64| at.wrapping_sub(header.linked_at);
        ranges.extend(super::go::function_ranges(file).into_iter().map(|(from, to)| (relative(from), relative(to))));
    }
    frames(file.as_ref(), memory, data, header, &mut ranges);
    let dynamic = super::dynamic::read(memory, data, header);
    ranges.extend(dynamic.functions);
    seeds.extend(dynamic.starts);
    ranges.retain_mut(|(from, to)| {
        let is_sane = from < to && *to <= header.span;
        // What is behind the file's bytes are zeroes, however many.
        *to = header.code_end(*from).map_or(*from, |end| end.min(*to));
        let is_kept = is_sane && from < to;
        if !is_kept {
            seeds.push(*from);
        }
        is_kept
    });
    seeds.retain(|seed| header.is_code(*seed));
    let sections = file.as_ref().map_or(Vec::new(), |file| code_sections(file, header));
    let (reached, is_sparse) = super::descent::follow(memory, header, &sections, &ranges, seeds);
    ranges.extend(reached);
    ranges.sort_unstable();
    ranges.dedup();
    KnownCode { ranges, is_sparse }
}

/// Ranges from unwind tables: where the section is, where the program header of their index says, or where one is to be recognised.
fn frames(
    file: Option<&ElfFile64<'_, Endianness>>,
    memory: &[u8],
    data: &[u8],
    header: &ElfHeader,
    ranges: &mut Vec<(u64, u64)>,
) {
    let section = file.and_then(|file| file.section_by_name(".eh_frame"));
    if let Some((section, bytes)) = section.and_then(|section| Some((section.address(), section.data().ok()?)))
        && !bytes.is_empty()
    {
        return frame_ranges(bytes, section, header.linked_at, ranges);
    }
    let Some(at) = indexed_frames(memory, data, header).or_else(|| recognised_frames(memory, header)) else { return };
    frame_ranges(memory.get(at as usize..).unwrap_or(&[]), at.wrapping_add(header.linked_at), header.linked_at, ranges);
}

/// Where the unwind tables begin, as PT_GNU_EH_FRAME says.
fn indexed_frames(memory: &[u8], data: &[u8], header: &ElfHeader) -> Option<u64> {
    let file = elf::FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = file.endian().ok()?;
    let programs = file.program_headers(endian, data).ok()?;
    let index = programs.iter().find(|program| program.p_type(endian) == elf::PT_GNU_EH_FRAME)?;
    let start = index.p_vaddr(endian).wrapping_sub(header.linked_at);
    let bytes = memory.get(start as usize..start.checked_add(index.p_memsz(endian))? as usize)?;
    let bases = BaseAddresses::default().set_eh_frame_hdr(index.p_vaddr(endian));
    let parsed = EhFrameHdr::new(bytes, NativeEndian).parse(&bases, 8).ok()?;
    match parsed.eh_frame_ptr() {
        gimli::Pointer::Direct(at) => Some(at.wrapping_sub(header.linked_at)),
        gimli::Pointer::Indirect(_) => None,
    }
}

/// Where the first entry of unwind tables begins that can be recognised: a CIE of version 1 with one of the usual augmentations.
fn recognised_frames(memory: &[u8], header: &ElfHeader) -> Option<u64> {
    const ALIGNMENT: usize = 4;
    let looks_like_one = |bytes: &[u8]| {
        let [length, identity, rest @ ..] = bytes.as_chunks::<4>().0 else { return false };
        let augmented = rest.as_flattened().strip_prefix(&[1]).unwrap_or(&[]);
        let usual = [&b"zR\0"[..], b"zPLR\0", b"zRS\0"].iter().any(|usual| augmented.starts_with(usual));
        (12..256).contains(&u32::from_le_bytes(*length)) && *identity == [0; 4] && usual
    };
    header.segments.iter().filter(|segment| !segment.writable).find_map(|segment| {
        let (from, to) = (segment.address as usize, (segment.address + segment.file_bytes) as usize);
        let bytes = memory.get(from..to.min(memory.len()))?;
        let starts = (0..bytes.len().saturating_sub(20)).step_by(ALIGNMENT);
        starts
            .map(|at| (at, &bytes[at..at + 20]))
            .find(|(_, bytes)| looks_like_one(bytes))
            .map(|(at, _)| (from + at) as u64)
    })
}

fn frame_ranges(bytes: &[u8], address: u64, linked_at: u64, ranges: &mut Vec<(u64, u64)>) {
    let bases = BaseAddresses::default().set_eh_frame(address);
    let frames = EhFrame::new(bytes, NativeEndian);
    let mut entries = frames.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else { continue };
        // A signal trampoline's entry begins a byte early, so that unwinders which look one byte back find it.
        let early = u64::from(fde.cie().is_signal_trampoline());
        let start = fde.initial_address().wrapping_sub(linked_at);
        ranges.push((start.saturating_add(early), start.saturating_add(fde.len())));
    }
}
