//! A process's memory as `/proc/PID` shows it: maps, smaps, and totals.
//!
//! What is resident depends on the machine, so a mapping that can be accessed counts as resident up to 16 MiB: all figures follow from
//! the mappings alone. The most that there has been is in `memory_use`.

use crate::locked::LockedRanges;
use guest::{AddressSpace, Marks, PROT_EXEC, PROT_READ, PROT_WRITE, Vma, VmaKind};
use std::fmt::Write;

const RESIDENT_MAX: u64 = 16 << 20;
const PAGE: u64 = 4096;

/// Sums over the mappings of a process, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    pub size: u64,
    /// Resident memory of its own, of files, and shared with others.
    pub anonymous: u64,
    pub files: u64,
    pub shared: u64,
    pub data: u64,
    pub stack: u64,
    pub text: u64,
    pub libraries: u64,
}

impl Totals {
    pub fn of(memory: &AddressSpace) -> Totals {
        let mut totals = Totals::default();
        let mut programs = 0;
        for vma in memory.mappings() {
            let length = vma.end - vma.start;
            totals.size += length;
            match (vma.shared, vma.kind) {
                (true, _) => totals.shared += resident(vma),
                (_, VmaKind::Image(_) | VmaKind::File { .. }) => totals.files += resident(vma),
                _ => totals.anonymous += resident(vma),
            }
            match vma.kind {
                VmaKind::Stack => totals.stack += length,
                _ if vma.prot & PROT_EXEC != 0 => {
                    // The first text is the program's own.
                    *(if programs == 0 { &mut totals.text } else { &mut totals.libraries }) += length;
                    programs += 1;
                }
                _ if vma.prot & PROT_WRITE != 0 && !vma.shared => totals.data += length,
                _ => {}
            }
        }
        totals
    }

    pub fn resident(&self) -> u64 {
        self.anonymous + self.files + self.shared
    }

    /// proc_pid_statm(5), in pages.
    pub fn statm(&self) -> String {
        let pages = |bytes: u64| bytes / PAGE;
        format!(
            "{} {} {} {} 0 {} 0\n",
            pages(self.size),
            pages(self.resident()),
            pages(self.files + self.shared),
            pages(self.text),
            pages(self.data + self.stack)
        )
    }

    /// The lines of proc_pid_status(5), with so many bytes locked, and so many resident when it was looked at before.
    pub fn status(&self, locked: u64, peak: u64) -> String {
        let lines = [
            ("VmPeak", self.size),
            ("VmSize", self.size),
            ("VmLck", locked),
            ("VmPin", 0),
            ("VmHWM", self.resident().max(peak)),
            ("VmRSS", self.resident()),
            ("RssAnon", self.anonymous),
            ("RssFile", self.files),
            ("RssShmem", self.shared),
            ("VmData", self.data),
            ("VmStk", self.stack),
            ("VmExe", self.text),
            ("VmLib", self.libraries),
            ("VmPTE", self.resident() / 512),
            ("VmSwap", 0),
        ];
        lines.iter().map(|(name, bytes)| format!("{name}:\t{:>8} kB\n", bytes / 1024)).collect()
    }
}

fn resident(vma: &Vma) -> u64 {
    let accessible = vma.prot & (PROT_READ | PROT_WRITE | PROT_EXEC) != 0;
    if accessible { (vma.end - vma.start).min(RESIDENT_MAX) } else { 0 }
}

/// The words of proc_pid_pagemap(5) from a page on: which pages are there, and that they are of files or shared. Where they lie is not told,
/// as to readers without CAP_SYS_ADMIN.
pub fn page_words(memory: &AddressSpace, from: u64, words: &mut [u64]) {
    const PRESENT: u64 = 1 << 63;
    const OF_FILE_OR_SHARED: u64 = 1 << 61;
    const MAPPED_ONCE: u64 = 1 << 56;
    let end = from + words.len() as u64 * PAGE;
    for vma in memory.mappings().filter(|vma| vma.start < end && vma.end > from) {
        let word = if vma.shared || is_of_file(vma) { OF_FILE_OR_SHARED } else { MAPPED_ONCE };
        let (first, last) = (vma.start.max(from), (vma.start + resident(vma)).clamp(from, end));
        for address in (first..last).step_by(PAGE as usize) {
            words[((address - from) / PAGE) as usize] = PRESENT | word;
        }
    }
}

/// Whether a mapping's pages are a file's, and none of them has been written to.
fn is_of_file(vma: &Vma) -> bool {
    matches!(vma.kind, VmaKind::Image(_) | VmaKind::File { .. }) && vma.prot & PROT_WRITE == 0
}

/// What of each mapping lies on the one node, numa(7).
pub fn numa_maps(memory: &AddressSpace) -> Vec<u8> {
    let mut text = Vec::new();
    for vma in memory.mappings() {
        text.extend(format!("{:08x} default", vma.start).into_bytes());
        match memory.mapping_name(vma) {
            b"" => {}
            b"[heap]" => text.extend(b" heap"),
            b"[stack]" => text.extend(b" stack"),
            name => {
                text.extend(b" file=");
                text.extend(escaped(name));
            }
        }
        let pages = resident(vma) / PAGE;
        let what = if vma.shared || is_of_file(vma) {
            format!("mapped={pages}")
        } else {
            format!("anon={pages} dirty={pages}")
        };
        if pages > 0 {
            text.extend(format!(" {what} N0={pages} kernelpagesize_kB=4").into_bytes());
        }
        text.push(b'\n');
    }
    text
}

/// A path in a line of words (`seq_file_path`).
fn escaped(path: &[u8]) -> Vec<u8> {
    let escape = |byte: &u8| match byte {
        b'\n' | b'\t' | b'=' | b' ' | b'\\' => format!("\\{byte:03o}").into_bytes(),
        byte => vec![*byte],
    };
    path.iter().flat_map(escape).collect()
}

/// The memory map, in the form of proc_pid_maps(5).
pub fn maps(memory: &AddressSpace) -> Vec<u8> {
    memory.mappings().flat_map(|vma| line(memory, vma)).collect()
}

fn line(memory: &AddressSpace, vma: &Vma) -> Vec<u8> {
    let flag = |bit: u8, letter: char| if vma.prot & bit != 0 { letter } else { '-' };
    let (r, w, x) = (flag(PROT_READ, 'r'), flag(PROT_WRITE, 'w'), flag(PROT_EXEC, 'x'));
    let offset = match vma.kind {
        VmaKind::File { offset, .. } => offset,
        _ => 0,
    };
    let shared = if vma.shared { 's' } else { 'p' };
    let name = memory.mapping_name(vma);
    let mut line = format!("{:08x}-{:08x} {r}{w}{x}{shared} {offset:08x} 00:00 0 ", vma.start, vma.end).into_bytes();
    if !name.is_empty() {
        line.resize(line.len().max(73), b' ');
        line.extend_from_slice(name);
    }
    line.push(b'\n');
    line
}

/// Every mapping with its sums, proc_pid_smaps(5).
pub fn smaps(memory: &AddressSpace, locked: &LockedRanges) -> Vec<u8> {
    let mut text = Vec::new();
    for vma in memory.mappings() {
        text.extend(line(memory, vma));
        text.extend(
            format!(
                "Size:           {:>8} kB\nKernelPageSize:        4 kB\nMMUPageSize:           4 kB\n",
                (vma.end - vma.start) / 1024
            )
            .into_bytes(),
        );
        let private = if vma.shared { 0 } else { resident(vma) };
        let locked = locked.within(vma.start, vma.end);
        text.extend(sums(resident(vma), private, locked).into_bytes());
        text.extend(format!("THPeligible:           0\nVmFlags: {}\n", flags(vma)).into_bytes());
    }
    text
}

/// What the kernel has noted of a mapping, by two letters each, in the order of its bits (`show_smap_vma_flags`).
fn flags(vma: &Vma) -> String {
    let marks = vma.marks();
    let may_write = !marks.has(Marks::NEVER_WRITTEN);
    let shared = vma.shared && may_write;
    let flags = [
        ("rd", vma.prot & PROT_READ != 0),
        ("wr", vma.prot & PROT_WRITE != 0),
        ("ex", vma.prot & PROT_EXEC != 0),
        ("sh", shared),
        ("mr", true),
        ("mw", may_write),
        ("me", true),
        ("ms", vma.shared),
        ("gd", vma.grows() || vma.kind == VmaKind::Stack),
        ("lo", vma.is_locked() || marks.has(Marks::LOCKED_WHEN_TOUCHED)),
        ("sr", marks.has(Marks::SEQUENTIAL)),
        ("rr", marks.has(Marks::RANDOM)),
        ("dc", marks.has(Marks::NOT_FORKED)),
        ("lf", marks.has(Marks::LOCKED_WHEN_TOUCHED)),
        ("ac", !vma.shared && vma.prot & PROT_WRITE != 0),
        ("wf", marks.has(Marks::WIPED)),
        ("dd", marks.has(Marks::NOT_DUMPED)),
        ("sd", true),
        ("hg", marks.has(Marks::HUGE)),
        ("nh", marks.has(Marks::NOT_HUGE)),
    ];
    flags.iter().filter(|(_, is_set)| *is_set).fold(String::new(), |text, (flag, _)| text + flag + " ")
}

/// The sums over all mappings.
pub fn smaps_rollup(memory: &AddressSpace, locked: u64) -> Vec<u8> {
    let (mut all, mut private, mut first, mut last) = (0, 0, u64::MAX, 0);
    for vma in memory.mappings() {
        (first, last) = (first.min(vma.start), last.max(vma.end));
        all += resident(vma);
        private += if vma.shared { 0 } else { resident(vma) };
    }
    let head = format!("{:08x}-{last:08x} ---p 00000000 00:00 0 ", first.min(last));
    format!("{head:<73}[rollup]\n{}", sums(all, private, locked)).into_bytes()
}

fn sums(resident: u64, private: u64, locked: u64) -> String {
    let lines = [
        ("Rss", resident),
        ("Pss", resident),
        ("Pss_Dirty", private),
        ("Shared_Clean", 0),
        ("Shared_Dirty", resident - private),
        ("Private_Clean", 0),
        ("Private_Dirty", private),
        ("Referenced", resident),
        ("Anonymous", private),
        ("AnonHugePages", 0),
        ("Swap", 0),
        ("SwapPss", 0),
        ("Locked", locked),
    ];
    let mut text = String::new();
    for (name, bytes) in lines {
        let name = format!("{name}:");
        writeln!(text, "{name:<15} {:>8} kB", bytes / 1024).expect("a string takes everything");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_shown_in_pages_and_kilobytes() {
        let totals = Totals { size: 8 << 20, anonymous: 1 << 20, files: 1 << 20, text: 4096, ..Totals::default() };
        assert_eq!(totals.statm(), "2048 512 256 1 0 0 0\n");
        assert!(totals.status(0, 0).contains("VmRSS:\t    2048 kB\n"));
    }
}
