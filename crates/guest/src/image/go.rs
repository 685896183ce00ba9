//! Where the functions of a Go program lie, which names no symbols when it is stripped: from the table that its runtime unwinds
//! by (`.gopclntab`, as `src/runtime/symtab.go` describes it since Go 1.18). The table itself is left as it is.

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection};

/// Since Go 1.18 and Go 1.20.
const MAGICS: [u32; 2] = [0xffff_fff0, 0xffff_fff1];
/// Offsets in `pcHeader`.
const POINTER_BYTES: usize = 7;
const FUNCTIONS: usize = 8;
const TEXT_START: usize = 24;
const TABLE_START: usize = 64;
/// How far functions may end before their section does when nothing else tells where they begin.
const PADDING: u64 = 64;

/// Ranges of functions, as linked; none when the file is no Go program of a known version.
pub(super) fn function_ranges(file: &ElfFile64<'_, Endianness>) -> Vec<(u64, u64)> {
    let table = file.section_by_name(".gopclntab").and_then(|section| section.data().ok());
    let text = file.section_by_name(".text").map(|section| (section.address(), section.size()));
    table.zip(text).and_then(|(table, text)| read(table, text)).unwrap_or_default()
}

fn read(table: &[u8], (text, text_bytes): (u64, u64)) -> Option<Vec<(u64, u64)>> {
    if !MAGICS.contains(&word32(table, 0)?) || table.get(POINTER_BYTES) != Some(&8) {
        return None;
    }
    let count = usize::try_from(word64(table, FUNCTIONS)?).ok()?;
    let entries = table.get(usize::try_from(word64(table, TABLE_START)?).ok()?..)?;
    // Pairs of a function's offset in the text and of its description's; one more offset ends the last function.
    let offsets = (0..=count).map(|index| word32(entries, index.checked_mul(8)?)).collect::<Option<Vec<_>>>()?;
    let end = u64::from(*offsets.last()?);
    // Go 1.26 no longer says where the text starts: it is its section, unless a C linker has put other code there.
    let start = match word64(table, TEXT_START)? {
        0 if end <= text_bytes && text_bytes - end <= PADDING => text,
        start => start,
    };
    if start < text || end > text_bytes - (start - text).min(text_bytes) {
        return None;
    }
    Some(offsets.windows(2).map(|pair| (start + u64::from(pair[0]), start + u64::from(pair[1]))).collect())
}

fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
}

fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().copied().map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of two functions at offsets 0x10 and 0x30, which end at 0x50.
    fn table(magic: u32, text_start: u64) -> Vec<u8> {
        let mut bytes = magic.to_le_bytes().to_vec();
        bytes.extend_from_slice(&[0, 0, 1, 8]);
        for word in [2, 1, text_start, 0, 0, 0, 0, 80, 0] {
            bytes.extend_from_slice(&u64::to_le_bytes(word));
        }
        for word in [0x10u32, 99, 0x30, 99, 0x50] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn functions_are_found_where_the_table_or_the_section_says() {
        let functions = |start: u64| Some(vec![(start + 0x10, start + 0x30), (start + 0x30, start + 0x50)]);
        assert_eq!(read(&table(0xffff_fff0, 0x401000), (0x400f00, 0x2000)), functions(0x401000));
        assert_eq!(read(&table(0xffff_fff1, 0), (0x401000, 0x60)), functions(0x401000));
    }

    #[test]
    fn what_is_not_understood_is_left_alone() {
        assert_eq!(read(&table(0xffff_fffb, 0x401000), (0x401000, 0x2000)), None);
        assert_eq!(read(&table(0xffff_fff1, 0), (0x401000, 0x2000)), None);
        assert_eq!(read(&table(0xffff_fff1, 0x401000), (0x401000, 0x4f)), None);
        assert_eq!(read(&table(0xffff_fff1, 0x10), (0x401000, 0x2000)), None);
        let cut = table(0xffff_fff1, 0x401000);
        assert_eq!(read(&cut[..cut.len() - 1], (0x401000, 0x2000)), None);
    }
}
