//! The frames of a Python interpreter (CPython 3.11 to 3.14), read from a program's memory without its help.
//!
//! An interpreter evaluates its functions in C functions of its own (`_PyEval_EvalFrameDefault`), one of which may stand for several of them. From 3.13
//! on it tells where its structures have what (`_Py_DebugOffsets` at the beginning of `_PyRuntime`); for those before, the places are in
//! `Include/internal/` of CPython's sources, and have been the same in every release of a minor version.

use crate::program::Frame;
use crate::walker::Walker;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Where an interpreter's file has what leads to its frames, as it was linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PythonFile {
    /// `_PyRuntime`.
    pub(crate) runtime: u64,
    /// `Py_Version`.
    pub(crate) version: u64,
    /// The code that evaluates.
    pub(crate) evaluation: Vec<Range<u64>>,
}

/// A function of a Python program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PythonCode {
    /// With the names of what it is defined in: `Class.method`.
    pub name: String,
    pub file: String,
    /// Where it begins.
    pub line: u32,
}

/// Interpreters, threads, frames: more of either are a broken chain.
const MOST_THREADS: usize = 4096;
const MOST_FRAMES: usize = 1024;
/// The longest name that is read.
const LONGEST_NAME: u64 = 512;
/// Code objects that are remembered.
const MOST_CODES: usize = 1 << 16;

/// Offsets in an interpreter's structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offsets {
    interpreters_head: u64,
    interpreter_next: u64,
    threads_head: u64,
    thread_next: u64,
    thread_id: u64,
    /// In the thread's state: the frame, or what leads to it.
    current_frame: u64,
    /// In what `current_frame` leads to, before 3.13.
    frame_of_c_frame: Option<u64>,
    previous: u64,
    code: u64,
    owner: u64,
    /// A flag of frames with which an evaluation begins (3.11); from 3.12 on such have an owner of their own.
    is_entry: Option<u64>,
    filename: u64,
    name: u64,
    qualified_name: u64,
    first_line: u64,
    /// Sizes of the headers of texts.
    ascii_header: u64,
    compact_header: u64,
}

/// From this owner on a frame is no function's.
const FIRST_OTHER_OWNER: u8 = 3;

const OFFSETS_3_11: Offsets = Offsets {
    interpreters_head: 40,
    interpreter_next: 0,
    threads_head: 16,
    thread_next: 8,
    thread_id: 152,
    current_frame: 56,
    frame_of_c_frame: Some(8),
    previous: 48,
    code: 32,
    owner: 69,
    is_entry: Some(68),
    filename: 112,
    name: 120,
    qualified_name: 128,
    first_line: 72,
    ascii_header: 48,
    compact_header: 72,
};

const OFFSETS_3_12: Offsets = Offsets {
    threads_head: 72,
    thread_id: 136,
    frame_of_c_frame: Some(0),
    previous: 8,
    code: 0,
    owner: 70,
    is_entry: None,
    first_line: 68,
    ascii_header: 40,
    compact_header: 56,
    ..OFFSETS_3_11
};

/// The words of `_Py_DebugOffsets` that are needed, in 3.13 and 3.14.
const WORDS_3_13: [usize; 13] = [5, 8, 9, 21, 24, 23, 29, 30, 33, 35, 36, 37, 39];
const WORDS_3_14: [usize; 13] = [5, 8, 9, 24, 27, 26, 32, 33, 36, 40, 41, 42, 44];
const DEBUG_WORDS: usize = 48;
const COOKIE: u64 = u64::from_le_bytes(*b"xdebugpy");

/// Reads a program's memory: whether all of the buffer was filled.
pub type ReadMemory<'a> = &'a dyn Fn(u64, &mut [u8]) -> bool;

fn word(read: ReadMemory<'_>, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    read(address, &mut bytes).then(|| u64::from_le_bytes(bytes))
}

impl Offsets {
    /// Those of the interpreter whose runtime and version lie at these addresses.
    fn find(read: ReadMemory<'_>, runtime: u64, version: u64) -> Option<Offsets> {
        let version = word(read, version)? as u32;
        match version >> 16 {
            0x30b => Some(OFFSETS_3_11),
            0x30c => Some(OFFSETS_3_12),
            0x30d => Offsets::told(read, runtime, &WORDS_3_13),
            0x30e => Offsets::told(read, runtime, &WORDS_3_14),
            _ => None,
        }
    }

    fn told(read: ReadMemory<'_>, runtime: u64, places: &[usize; 13]) -> Option<Offsets> {
        let mut bytes = [0; 8 * DEBUG_WORDS];
        if !read(runtime, &mut bytes) {
            return None;
        }
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[8 * at + byte]));
        if word(0) != COOKIE {
            return None;
        }
        let told = places.map(word);
        // No structure of an interpreter is larger; anything else is not what it seems.
        if told.iter().any(|offset| *offset > 1 << 20) {
            return None;
        }
        let [head, next, threads, thread_next, id, current, previous, code, owner, filename, name, qualified, line] =
            told;
        Some(Offsets {
            interpreters_head: head,
            interpreter_next: next,
            threads_head: threads,
            thread_next,
            thread_id: id,
            current_frame: current,
            frame_of_c_frame: None,
            previous,
            code,
            owner,
            is_entry: None,
            filename,
            name,
            qualified_name: qualified,
            first_line: line,
            ..OFFSETS_3_12
        })
    }
}

/// What of a code object tells it from another that came to lie at its address later: its texts, and its first line.
type Identity = [u64; 4];

/// An interpreter in a program's memory.
#[derive(Debug)]
pub struct Python {
    runtime: u64,
    version: u64,
    offsets: Option<Offsets>,
    /// The code that evaluates, where it lies.
    evaluation: Vec<Range<u64>>,
    codes: BTreeMap<u64, (Identity, Arc<PythonCode>)>,
    /// The states of threads, by the addresses of the threads' own structures.
    threads: BTreeMap<u64, u64>,
}

/// What Python evaluates in one of its functions of C, the innermost first.
pub type Evaluation = Vec<Arc<PythonCode>>;

impl Python {
    /// The interpreter among a walker's files, if there is one.
    pub fn find(walker: &mut Walker) -> Option<Python> {
        let (bias, file) = walker.pythons().pop()?;
        let placed = |address: u64| address.wrapping_add(bias);
        Some(Python {
            runtime: placed(file.runtime),
            version: placed(file.version),
            offsets: None,
            evaluation: file.evaluation.iter().map(|range| placed(range.start)..placed(range.end)).collect(),
            codes: BTreeMap::new(),
            threads: BTreeMap::new(),
        })
    }

    /// Whether an address lies in the code that evaluates.
    pub fn evaluates(&self, frame: &Frame) -> bool {
        let address = frame.address.wrapping_sub(frame.is_return.into());
        self.evaluation.iter().any(|range| range.contains(&address))
    }

    /// What the thread whose FS base is `fs_base` evaluates: for each function of C that does, the innermost first. Empty when it is no
    /// thread of Python's, or its frames make no sense at this moment.
    pub fn evaluations(&mut self, read: ReadMemory<'_>, fs_base: u64) -> Vec<Evaluation> {
        let mut frame = self.current_frame(read, fs_base);
        let Some(offsets) = self.offsets else { return Vec::new() };
        let mut evaluations = Vec::new();
        let mut current = Evaluation::new();
        // One read has all that is needed of a frame.
        let mut bytes = [0; 80];
        for _ in 0..MOST_FRAMES {
            let Some(at) = frame.filter(|at| *at != 0) else { break };
            if !read(at, &mut bytes) {
                break;
            }
            let field = |offset: u64| {
                let at = offset as usize;
                bytes.get(at..at + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
            };
            let byte = |offset: u64| bytes.get(offset as usize).copied().unwrap_or(0);
            if byte(offsets.owner) >= FIRST_OTHER_OWNER {
                evaluations.push(std::mem::take(&mut current));
            } else {
                // Low bits of references are marks.
                if let Some(code) = self.code(&offsets, read, field(offsets.code) & !7) {
                    current.push(code);
                }
                if offsets.is_entry.is_some_and(|offset| byte(offset) != 0) {
                    evaluations.push(std::mem::take(&mut current));
                }
            }
            frame = Some(field(offsets.previous));
        }
        if !current.is_empty() {
            evaluations.push(current);
        }
        evaluations
    }

    /// Where the frame lies that the thread whose FS base is `fs_base` evaluates, 0 for none: as long as that is the same, so is what
    /// [`evaluations`](Self::evaluations) tells. None when it is no thread of Python's.
    pub fn current_frame(&mut self, read: ReadMemory<'_>, fs_base: u64) -> Option<u64> {
        if self.offsets.is_none() {
            self.offsets = Offsets::find(read, self.runtime, self.version);
        }
        let offsets = self.offsets?;
        let thread = self.thread(&offsets, read, fs_base)?;
        let at = word(read, thread + offsets.current_frame)?;
        match offsets.frame_of_c_frame {
            Some(offset) if at != 0 => word(read, at.wrapping_add(offset)),
            _ => Some(at),
        }
    }

    /// The state of a thread.
    fn thread(&mut self, offsets: &Offsets, read: ReadMemory<'_>, fs_base: u64) -> Option<u64> {
        if let Some(known) = self.threads.get(&fs_base)
            && word(read, known + offsets.thread_id) == Some(fs_base)
        {
            return Some(*known);
        }
        let mut interpreter = word(read, self.runtime + offsets.interpreters_head)?;
        let mut seen = 0;
        while interpreter != 0 && seen < MOST_THREADS {
            let mut thread = word(read, interpreter.wrapping_add(offsets.threads_head))?;
            while thread != 0 && seen < MOST_THREADS {
                if word(read, thread.wrapping_add(offsets.thread_id))? == fs_base {
                    self.threads.insert(fs_base, thread);
                    return Some(thread);
                }
                thread = word(read, thread.wrapping_add(offsets.thread_next))?;
                seen += 1;
            }
            interpreter = word(read, interpreter.wrapping_add(offsets.interpreter_next))?;
            seen += 1;
        }
        None
    }

    fn code(&mut self, offsets: &Offsets, read: ReadMemory<'_>, at: u64) -> Option<Arc<PythonCode>> {
        // What is needed lies close together.
        let (first, mut bytes) = (offsets.first_line, [0; 96]);
        if at == 0 || !read(at.wrapping_add(first), &mut bytes) {
            return None;
        }
        let field = |offset: u64| {
            let at = offset.wrapping_sub(first) as usize;
            bytes.get(at..at + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
        };
        let line = field(first) as u32;
        let texts = [field(offsets.name), field(offsets.qualified_name), field(offsets.filename)];
        let identity = [texts[0], texts[1], texts[2], line.into()];
        if let Some((known, code)) = self.codes.get(&at)
            && *known == identity
        {
            return Some(code.clone());
        }
        let name = text(offsets, read, texts[1]).or_else(|| text(offsets, read, texts[0]))?;
        let file = text(offsets, read, texts[2])?;
        let code = Arc::new(PythonCode { name, file, line });
        if self.codes.len() >= MOST_CODES {
            self.codes.clear();
        }
        self.codes.insert(at, (identity, code.clone()));
        Some(code)
    }
}

/// A text of Python.
fn text(offsets: &Offsets, read: ReadMemory<'_>, at: u64) -> Option<String> {
    let mut head = [0; 40];
    if at == 0 || !read(at, &mut head) {
        return None;
    }
    let length = u64::from_le_bytes(head[16..24].try_into().ok()?).min(LONGEST_NAME) as usize;
    let state = u32::from_le_bytes(head[32..36].try_into().ok()?);
    // Bit fields: whether it is interned (2 bits, 8 or 16 where threads run free), the bytes of a sign (3), compact, ASCII.
    let (width, flags) = [2, 8, 16]
        .into_iter()
        .map(|at| (state >> at & 7, state >> (at + 3)))
        .find(|(width, flags)| matches!(width, 1 | 2 | 4) && flags & 1 != 0)?;
    let start = at + if flags & 2 != 0 { offsets.ascii_header } else { offsets.compact_header };
    let mut bytes = vec![0; length * width as usize];
    if !read(start, &mut bytes) {
        return None;
    }
    let signs = bytes.chunks_exact(width as usize).map(|sign| {
        let value = sign.iter().rev().fold(0u32, |value, byte| value << 8 | u32::from(*byte));
        char::from_u32(value).unwrap_or('\u{fffd}')
    });
    Some(signs.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory as words by address.
    struct Memory(BTreeMap<u64, u64>);

    impl Memory {
        fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
            for (index, byte) in bytes.iter_mut().enumerate() {
                let at = address + index as u64;
                let Some(word) = self.0.get(&(at & !7)) else { return false };
                *byte = word.to_le_bytes()[(at & 7) as usize];
            }
            true
        }

        fn text(&mut self, at: u64, text: &str) {
            let state = 1 << 2 | 1 << 5 | 1 << 6;
            for (offset, word) in [(0, 0), (8, 0), (16, text.len() as u64), (24, 0), (32, state)] {
                self.0.insert(at + offset, word);
            }
            for (index, part) in text.as_bytes().chunks(8).enumerate() {
                let mut word = [0; 8];
                word[..part.len()].copy_from_slice(part);
                self.0.insert(at + 40 + 8 * index as u64, u64::from_le_bytes(word));
            }
        }
    }

    /// An interpreter of 3.12 with one thread that evaluates: inner and outer in one function of C, main in another.
    fn interpreter() -> (Memory, Python) {
        let mut memory = Memory(BTreeMap::new());
        for base in [0x1000, 0x2000, 0x3000, 0x4000, 0x9000] {
            (0..40).for_each(|index| _ = memory.0.insert(base + 8 * index, 0));
        }
        memory.0.insert(0x500, 0x030c_01f0);
        memory.0.insert(0x1000 + 40, 0x2000);
        memory.0.insert(0x2000 + 72, 0x3000);
        memory.0.insert(0x3000 + 136, 0x7777);
        memory.0.insert(0x3000 + 56, 0x4000);
        memory.0.insert(0x4000, 0x5000);
        let frames = [
            (0x5000, 0xa000, 0x5100, 0u64),
            (0x5100, 0xa400, 0x5200, 0),
            (0x5200, 1, 0x5300, 3),
            (0x5300, 0xa800, 0, 0),
        ];
        for (at, code, previous, owner) in frames {
            (0..10).for_each(|index| _ = memory.0.insert(at + 8 * index, 0));
            memory.0.insert(at, code);
            memory.0.insert(at + 8, previous);
            memory.0.insert(at + 64, owner << 48);
        }
        for (index, name) in ["inner", "outer", "main"].into_iter().enumerate() {
            let code = 0xa000 + 0x400 * index as u64;
            (0..40).for_each(|index| _ = memory.0.insert(code + 8 * index, 0));
            memory.0.insert(code + 64, (10 * index as u64) << 32);
            memory.0.insert(code + 112, 0x9800);
            memory.0.insert(code + 128, code + 0x200);
            memory.text(code + 0x200, name);
        }
        memory.text(0x9800, "/usr/lib/a_file.py");
        let python = Python {
            runtime: 0x1000,
            version: 0x500,
            offsets: None,
            evaluation: std::iter::once(0x100..0x200).collect(),
            codes: BTreeMap::new(),
            threads: BTreeMap::new(),
        };
        (memory, python)
    }

    #[test]
    fn frames_are_told_apart_by_the_functions_that_evaluate_them() {
        let (memory, mut python) = interpreter();
        let read = |address: u64, bytes: &mut [u8]| memory.read(address, bytes);
        for _ in 0..2 {
            let evaluations = python.evaluations(&read, 0x7777);
            let names: Vec<Vec<&str>> =
                evaluations.iter().map(|codes| codes.iter().map(|code| code.name.as_str()).collect()).collect();
            assert_eq!(names, [vec!["inner", "outer"], vec!["main"]]);
            assert_eq!((evaluations[1][0].file.as_str(), evaluations[1][0].line), ("/usr/lib/a_file.py", 20));
        }
        assert!(python.evaluations(&read, 0x8888).is_empty(), "no thread of it");
        assert!(python.evaluates(&Frame { address: 0x200, is_return: true }));
        assert!(!python.evaluates(&Frame { address: 0x200, is_return: false }));
    }

    #[test]
    fn a_chain_without_an_end_and_missing_memory_end_nothing() {
        let (mut memory, mut python) = interpreter();
        memory.0.insert(0x5300 + 8, 0x5000);
        let read = |address: u64, bytes: &mut [u8]| memory.read(address, bytes);
        let frames: usize = python.evaluations(&read, 0x7777).iter().map(Vec::len).sum();
        assert!(frames <= MOST_FRAMES);
        assert!(python.evaluations(&|_, _| false, 0x7777).is_empty());
    }
}
