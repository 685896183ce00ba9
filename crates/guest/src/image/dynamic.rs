//! What the dynamic linker is told of an image (PT_DYNAMIC; System V ABI, "Dynamic Section"): functions, and where code begins. It is there
//! when section headers are not.

use super::elf::ElfHeader;
use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};

const ENTRY_BYTES: u64 = 16;
const SYMBOL_BYTES: u64 = 24;
const RELOCATION_BYTES: u64 = 24;
/// More of a table than any image has: its end is not trusted.
const SYMBOLS_MAX: u64 = 1 << 22;
const RELOCATIONS_MAX: u64 = 1 << 22;

/// Addresses relative to the first page.
#[derive(Debug, Default)]
pub(super) struct Dynamic {
    pub(super) functions: Vec<(u64, u64)>,
    /// Where functions of unknown length begin.
    pub(super) starts: Vec<u64>,
}

/// The values that are of use here.
#[derive(Default)]
struct Tags {
    init: [u64; 2],
    arrays: Vec<(u64, u64)>,
    symbols: u64,
    hash: u64,
    gnu_hash: u64,
    relocations: (u64, u64),
}

pub(super) fn read(memory: &[u8], data: &[u8], header: &ElfHeader) -> Dynamic {
    dynamic(memory, data, header).unwrap_or_default()
}

fn dynamic(memory: &[u8], data: &[u8], header: &ElfHeader) -> Option<Dynamic> {
    let file = elf::FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = file.endian().ok()?;
    let programs = file.program_headers(endian, data).ok()?;
    let program = programs.iter().find(|program| program.p_type(endian) == elf::PT_DYNAMIC)?;
    let start = program.p_vaddr(endian).wrapping_sub(header.linked_at);
    let tags = tags(memory, header, start, program.p_memsz(endian));
    let mut found = Dynamic::default();
    found.starts.extend(tags.init.iter().filter(|at| **at != u64::MAX));
    for (array, bytes) in &tags.arrays {
        let words = (0..(*bytes).min(1 << 16) / 8).filter_map(|index| word64(memory, array.wrapping_add(8 * index)));
        found.starts.extend(words.map(|at| at.wrapping_sub(header.linked_at)));
    }
    relocated(memory, header, &tags, &mut found);
    for index in 1..symbol_count(memory, &tags).unwrap_or(0).min(SYMBOLS_MAX) {
        let at = tags.symbols.wrapping_add(index * SYMBOL_BYTES);
        let Some((first, value, size)) = word64(memory, at)
            .zip(word64(memory, at.wrapping_add(8)))
            .zip(word64(memory, at.wrapping_add(16)))
            .map(|((a, b), c)| (a, b, c))
        else {
            break;
        };
        // st_info and st_shndx lie above the name.
        let (kind, section) = (first >> 32 & 0xf, first >> 48);
        let is_function = [elf::STT_FUNC, elf::STT_GNU_IFUNC].iter().any(|known| u64::from(*known) == kind);
        let start = value.wrapping_sub(header.linked_at);
        if is_function && section != 0 && header.is_code(start) {
            found.starts.push(start);
            found.functions.push((start, start.saturating_add(size)));
        }
    }
    Some(found)
}

fn tags(memory: &[u8], header: &ElfHeader, start: u64, bytes: u64) -> Tags {
    let mut tags = Tags { init: [u64::MAX; 2], ..Tags::default() };
    let (mut starts, mut lengths) = ([u64::MAX; 3], [0; 3]);
    for index in 0..bytes / ENTRY_BYTES {
        let at = start.wrapping_add(index * ENTRY_BYTES);
        let Some((tag, value)) = word64(memory, at).zip(word64(memory, at.wrapping_add(8))) else { break };
        let place = value.wrapping_sub(header.linked_at);
        match u32::try_from(tag) {
            Ok(elf::DT_NULL) => break,
            Ok(elf::DT_INIT) => tags.init[0] = place,
            Ok(elf::DT_FINI) => tags.init[1] = place,
            Ok(elf::DT_PREINIT_ARRAY) => starts[0] = place,
            Ok(elf::DT_INIT_ARRAY) => starts[1] = place,
            Ok(elf::DT_FINI_ARRAY) => starts[2] = place,
            Ok(elf::DT_PREINIT_ARRAYSZ) => lengths[0] = value,
            Ok(elf::DT_INIT_ARRAYSZ) => lengths[1] = value,
            Ok(elf::DT_FINI_ARRAYSZ) => lengths[2] = value,
            Ok(elf::DT_SYMTAB) => tags.symbols = place,
            Ok(elf::DT_HASH) => tags.hash = place,
            Ok(elf::DT_GNU_HASH) => tags.gnu_hash = place,
            Ok(elf::DT_RELA) => tags.relocations.0 = place,
            Ok(elf::DT_RELASZ) => tags.relocations.1 = value,
            _ => {}
        }
    }
    tags.arrays = starts.into_iter().zip(lengths).filter(|(at, _)| *at != u64::MAX).collect();
    tags
}

/// What relocations will put into the arrays of functions to be called at the start and at the end.
fn relocated(memory: &[u8], header: &ElfHeader, tags: &Tags, found: &mut Dynamic) {
    let (table, bytes) = tags.relocations;
    for index in 0..(bytes / RELOCATION_BYTES).min(RELOCATIONS_MAX) {
        let at = table.wrapping_add(index * RELOCATION_BYTES);
        let (Some(place), Some(kind), Some(addend)) =
            (word64(memory, at), word64(memory, at.wrapping_add(8)), word64(memory, at.wrapping_add(16)))
        else {
            break;
        };
        let place = place.wrapping_sub(header.linked_at);
        let in_array = tags.arrays.iter().any(|(array, bytes)| place >= *array && place - *array < *bytes);
        if in_array && kind & 0xffff_ffff == u64::from(elf::R_X86_64_RELATIVE) {
            found.starts.push(addend.wrapping_sub(header.linked_at));
        }
    }
}

/// The hash tables alone say how many symbols there are: DT_HASH outright, GNU's by its highest chain.
fn symbol_count(memory: &[u8], tags: &Tags) -> Option<u64> {
    if tags.hash != 0 {
        return word32(memory, tags.hash.wrapping_add(4)).map(u64::from);
    }
    if tags.gnu_hash == 0 {
        return None;
    }
    let word = |index: u64| word32(memory, tags.gnu_hash.wrapping_add(4 * index)).map(u64::from);
    let (buckets, first, filter) = (word(0)?, word(1)?, word(2)?);
    let (table, chains) = (4 + 2 * filter, 4 + 2 * filter + buckets);
    let mut last = 0;
    for bucket in 0..buckets {
        last = last.max(word(table + bucket)?);
    }
    if last < first {
        return Some(first);
    }
    // A chain ends with an odd hash.
    while word(chains + (last - first))? & 1 == 0 && last < SYMBOLS_MAX {
        last += 1;
    }
    Some(last + 1)
}

fn word32(memory: &[u8], at: u64) -> Option<u32> {
    memory.get(usize::try_from(at).ok()?..)?.first_chunk().copied().map(u32::from_le_bytes)
}

fn word64(memory: &[u8], at: u64) -> Option<u64> {
    memory.get(usize::try_from(at).ok()?..)?.first_chunk().copied().map(u64::from_le_bytes)
}
