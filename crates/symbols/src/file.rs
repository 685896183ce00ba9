//! One ELF file: its functions by address, its lines; its unwind tables. Addresses are those that it is linked at.

use crate::python::PythonFile;
use addr2line::Loader;
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameHdr, EvaluationResult, LittleEndian, RegisterRule, UnwindContext,
    UnwindSection, Value,
};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ObjectSymbol, ReadCache, SymbolKind};
use std::fs::File;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file of which only what is asked for is read.
type Elf<'a> = ElfFile64<'a, Endianness, &'a ReadCache<File>>;

/// Where distributions keep debug information apart from programs, by build id.
const DEBUG_FILES: &str = "/usr/lib/debug/.build-id";
/// A symbol without a size is taken to reach this far at most.
const UNSIZED_BYTES_MAX: u64 = 64 << 10;

/// A function of a symbol table.
#[derive(Debug)]
struct Symbol {
    start: u64,
    end: u64,
    name: String,
}

/// What is needed of a file to find callers.
pub(crate) struct UnwindFile {
    pub(crate) sections: framehop::ExplicitModuleSectionInfo<Bytes>,
    /// Where execution begins.
    entry: u64,
    /// Where an interpreter of Python has what leads to its frames, if the file is one.
    pub(crate) python: Option<PythonFile>,
}

/// What is needed of a file to name addresses.
pub(crate) struct SymbolFile {
    /// By start.
    symbols: Vec<Symbol>,
    /// Functions by the unwind tables, by start: of code that has no names.
    ranges: Vec<Range<u64>>,
    /// Where lines come from: the file itself, or the one with its debug information.
    lines: Option<Loader>,
}

/// A section.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bytes(Arc<[u8]>);

impl Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl UnwindFile {
    /// Reads a file. None when it is no ELF file of this machine.
    pub(crate) fn read(path: &Path) -> Option<UnwindFile> {
        let cache = ReadCache::new(File::open(path).ok()?);
        let elf = Elf::parse(&cache).ok()?;
        // Others' tables of symbols are not worth looking through.
        let is_python = path.file_name().is_some_and(|name| name.to_string_lossy().contains("python"));
        let python = if is_python { PythonFile::of(&elf) } else { None };
        Some(UnwindFile { sections: unwind_sections(&elf), entry: elf.entry(), python })
    }

    /// The caller of the function around an address by the row of `.eh_frame` for it, with rsp and rbp as they are there. `register` knows
    /// registers by their numbers in DWARF, `read` gives the eight bytes at an address.
    pub(crate) fn caller(
        &self,
        address: u64,
        register: &dyn Fn(u16) -> Option<u64>,
        read: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Option<(u64, u64, u64)> {
        let sections = &self.sections;
        let (frames, index) = (sections.eh_frame.as_ref()?, sections.eh_frame_hdr.as_ref()?);
        let start = |range: &Option<Range<u64>>| range.as_ref().map_or(0, |range| range.start);
        let bases = BaseAddresses::default()
            .set_eh_frame(start(&sections.eh_frame_svma))
            .set_eh_frame_hdr(start(&sections.eh_frame_hdr_svma))
            .set_text(start(&sections.text_svma));
        let tables = EhFrame::new(frames, LittleEndian);
        let index = EhFrameHdr::new(index, LittleEndian).parse(&bases, 8).ok()?;
        let fde = index.table()?.fde_for_address(&tables, &bases, address, EhFrame::cie_from_offset).ok()?;
        let mut context = UnwindContext::new();
        let row = fde.unwind_info_for_address(&tables, &bases, &mut context, address).ok()?;
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register: base, offset } => register(base.0)?.wrapping_add_signed(*offset),
            CfaRule::Expression(expression) => {
                evaluate(expression.get(&tables).ok()?, fde.cie().encoding(), register, read)?
            }
        };
        let saved = |number: u16| match row.register(gimli::Register(number)) {
            RegisterRule::Offset(offset) => Some(cfa.wrapping_add_signed(offset)),
            _ => None,
        };
        const RETURN_ADDRESS: u16 = 16;
        let caller = read(saved(RETURN_ADDRESS)?)?;
        let rbp = match saved(RBP) {
            Some(at) => read(at)?,
            None => register(RBP)?,
        };
        Some((caller, cfa, rbp))
    }

    /// Whether an address lies in what is executed first, which nothing has called, though some tables do not say so.
    pub(crate) fn begins(&self, address: u64) -> bool {
        // `_start` of any C library is no longer.
        const BYTES: u64 = 64;
        self.entry != 0 && address.wrapping_sub(self.entry) < BYTES
    }

    /// Whether the code at an address is `rt_sigreturn(2)`, as the end of a signal handler returns to.
    pub(crate) fn returns_from_signal(&self, address: u64) -> bool {
        const CALLS: [&[u8]; 2] = [&[0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05], &[0xb8, 15, 0, 0, 0, 0x0f, 0x05]];
        let (Some(text), Some(range)) = (&self.sections.text, &self.sections.text_svma) else { return false };
        let code = address.checked_sub(range.start).and_then(|at| text.get(usize::try_from(at).ok()?..));
        code.is_some_and(|code| CALLS.iter().any(|call| code.starts_with(call)))
    }
}

/// Numbers of registers in DWARF.
pub(crate) const RBP: u16 = 6;
pub(crate) const RSP: u16 = 7;

/// What an expression of unwind tables comes to.
fn evaluate(
    expression: gimli::Expression<gimli::EndianSlice<'_, LittleEndian>>,
    encoding: gimli::Encoding,
    register: &dyn Fn(u16) -> Option<u64>,
    read: &mut dyn FnMut(u64) -> Option<u64>,
) -> Option<u64> {
    let mut evaluation = expression.evaluation(encoding);
    let mut result = evaluation.evaluate().ok()?;
    loop {
        result = match result {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresRegister { register: wanted, .. } => {
                evaluation.resume_with_register(Value::Generic(register(wanted.0)?)).ok()?
            }
            EvaluationResult::RequiresMemory { address, .. } => {
                evaluation.resume_with_memory(Value::Generic(read(address)?)).ok()?
            }
            _ => return None,
        };
    }
    match evaluation.result().first()?.location {
        gimli::Location::Address { address } => Some(address),
        gimli::Location::Value { value } => value.to_u64(u64::MAX).ok(),
        _ => None,
    }
}

impl PythonFile {
    fn of(elf: &Elf<'_>) -> Option<PythonFile> {
        let symbols = || elf.symbols().chain(elf.dynamic_symbols());
        let address = |wanted: &str| {
            let found = symbols().find(|symbol| symbol.is_definition() && symbol.name() == Ok(wanted));
            found.map(|symbol| symbol.address())
        };
        let (runtime, version) = (address("_PyRuntime")?, address("Py_Version")?);
        let mut evaluation: Vec<Range<u64>> = symbols()
            .filter(|symbol| symbol.name().is_ok_and(|name| name.starts_with("_PyEval_EvalFrameDefault")))
            .map(|symbol| symbol.address()..symbol.address().saturating_add(symbol.size()))
            .collect();
        evaluation.sort_by_key(|range| range.start);
        evaluation.dedup();
        Some(PythonFile { runtime, version, evaluation })
    }
}

impl SymbolFile {
    /// Reads a file. None when it is no ELF file of this machine.
    pub(crate) fn read(path: &Path) -> Option<SymbolFile> {
        let cache = ReadCache::new(File::open(path).ok()?);
        let elf = Elf::parse(&cache).ok()?;
        let debug_file = debug_file(&elf);
        let mut symbols = functions(&elf);
        let debug_cache = debug_file.as_ref().and_then(|path| File::open(path).ok()).map(ReadCache::new);
        if let Some(cache) = &debug_cache
            && let Ok(debug) = Elf::parse(cache)
        {
            symbols.extend(functions(&debug));
        }
        // Of several names for one address the first in the table's order of binding stays: `sort_by_key` is stable.
        symbols.sort_by_key(|symbol| symbol.start);
        symbols.dedup_by_key(|symbol| symbol.start);
        let has_lines = elf.section_by_name(".debug_line").is_some();
        let lines = if has_lines { Some(path.to_path_buf()) } else { debug_file };
        let lines = lines.and_then(|path| Loader::new(path).ok());
        Some(SymbolFile { symbols, ranges: unwind_ranges(&elf), lines })
    }

    /// The function around an address, and its start.
    pub(crate) fn function(&self, address: u64) -> Option<(&str, u64)> {
        let behind = self.symbols.partition_point(|symbol| symbol.start <= address);
        // Aliases of parts of a function lie inside it: look back a little.
        let candidates = self.symbols[..behind].iter().rev().take(8);
        candidates.filter(|symbol| address < symbol.end).map(|symbol| (symbol.name.as_str(), symbol.start)).next()
    }

    /// The function around an address by the unwind tables: where it begins.
    pub(crate) fn range_start(&self, address: u64) -> Option<u64> {
        let behind = self.ranges.partition_point(|range| range.start <= address);
        self.ranges[..behind].last().filter(|range| address < range.end).map(|range| range.start)
    }

    /// The functions around an address by the debug information, the innermost first: (name, file, line).
    pub(crate) fn lines(&self, address: u64) -> Vec<(Option<String>, Option<String>, Option<u32>)> {
        let mut found = Vec::new();
        let Some(mut frames) = self.lines.as_ref().and_then(|lines| lines.find_frames(address).ok()) else {
            return found;
        };
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
            let location = frame.location.as_ref();
            let file = location.and_then(|location| location.file).map(str::to_owned);
            found.push((name.map(|name| demangled(&name)), file, location.and_then(|location| location.line)));
        }
        found
    }
}

/// What names begin with that C++ and Rust compilers have encoded. Others are not touched: a function `f` of C is no `float`.
const ENCODED: [&str; 2] = ["_Z", "_R"];

/// A name as the program's source has it.
pub(crate) fn demangled(name: &str) -> String {
    if !ENCODED.iter().any(|begin| name.starts_with(begin)) {
        return name.to_owned();
    }
    addr2line::demangle_auto(name.into(), None).into_owned()
}

fn functions(elf: &Elf<'_>) -> Vec<Symbol> {
    let mut list = Vec::new();
    for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
        let is_code = matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Label | SymbolKind::Unknown);
        let Ok(name) = symbol.name() else { continue };
        if !is_code || !symbol.is_definition() || name.is_empty() {
            continue;
        }
        let bytes = if symbol.size() > 0 { symbol.size() } else { UNSIZED_BYTES_MAX };
        list.push(Symbol {
            start: symbol.address(),
            end: symbol.address().saturating_add(bytes),
            name: name.to_owned(),
        });
    }
    list
}

/// The file with the debug information of a stripped one, if it is installed.
fn debug_file(elf: &Elf<'_>) -> Option<PathBuf> {
    let id: String = elf.build_id().ok()??.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = Path::new(DEBUG_FILES).join(id.get(..2)?).join(format!("{}.debug", id.get(2..)?));
    path.is_file().then_some(path)
}

fn unwind_sections(elf: &Elf<'_>) -> framehop::ExplicitModuleSectionInfo<Bytes> {
    let range = |name: &str| {
        let section = elf.section_by_name(name)?;
        Some(section.address()..section.address().saturating_add(section.size()))
    };
    let bytes = |name: &str| {
        let data = elf.section_by_name(name)?.uncompressed_data().ok()?;
        Some(Bytes(data.into()))
    };
    framehop::ExplicitModuleSectionInfo {
        text_svma: range(".text"),
        text: bytes(".text"),
        got_svma: range(".got"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: bytes(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: bytes(".eh_frame_hdr"),
        debug_frame: bytes(".debug_frame"),
        ..Default::default()
    }
}

/// The functions that `.eh_frame` knows.
fn unwind_ranges(elf: &Elf<'_>) -> Vec<Range<u64>> {
    let Some(section) = elf.section_by_name(".eh_frame") else { return Vec::new() };
    let Ok(data) = section.uncompressed_data() else { return Vec::new() };
    let tables = EhFrame::new(&data, LittleEndian);
    let text = elf.section_by_name(".text").map_or(0, |text| text.address());
    let bases = BaseAddresses::default().set_eh_frame(section.address()).set_text(text);
    let mut ranges = Vec::new();
    let mut entries = tables.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        if let CieOrFde::Fde(partial) = entry
            && let Ok(fde) = partial.parse(|tables, bases, offset| tables.cie_from_offset(bases, offset))
        {
            ranges.push(fde.initial_address()..fde.initial_address().saturating_add(fde.len()));
        }
    }
    ranges.sort_by_key(|range| range.start);
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_encoded_names_are_decoded() {
        for plain in ["f", "g", "main", "i", "_start", "Ss"] {
            assert_eq!(demangled(plain), plain);
        }
        assert_eq!(demangled("_ZN4base4timeEi"), "base::time(int)");
        assert_eq!(demangled("_RNvC6_123foo3bar"), "123foo::bar");
    }
}
