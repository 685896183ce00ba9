//! Mappings in the runner's field of addresses, and what can be done with them.

use crate::writer::{Kind, Writer};

/// A place in the field, as the runner writes it.
fn place(w: &mut Writer) -> String {
    let page = w.below(12) as u64;
    let odd = if w.chance(5) { 0x100 } else { 0 };
    format!("%{:#x}", page * 4096 + odd)
}

fn size(w: &mut Writer) -> u64 {
    w.pick(&[4096, 4096, 8192, 8192, 12288, 1, 5000, 0, 16384])
}

pub fn write(w: &mut Writer) {
    let (at, size) = (place(w), size(w));
    match w.below(24) {
        0..=4 => map(w, &at, size),
        5..=6 => {
            w.line(&format!("munmap {at} {size}"));
        }
        7..=9 => {
            let rights = w.pick(&[0, 1, 3, 3, 3, 2, 5, 7, 16, 0x1000003]);
            w.line(&format!("mprotect {at} {size} {rights}"));
        }
        10..=11 => remap(w, &at, size),
        12..=13 => {
            let advice = w.pick(&[4, 4, 4, 8, 0, 1, 3, 9, 10, 16, 17, 18, 19, 22, 23, 21, 99]);
            w.line(&format!("madvise {at} {size} {advice}"));
        }
        14 => {
            let flags = w.pick(&[4, 1, 2, 5, 8]);
            w.line(&format!("msync {at} {size} {flags}"));
        }
        15 => {
            let call = w.word("mlock munlock mlock2");
            w.line(&format!("{call} {at} {size} 0"));
        }
        // Other calls tell what can be read and written.
        16..=18 => {
            let call = w.word("write write read");
            // Where a write to a file faults, newer kernels leave the file longer than older ones.
            let kinds = [Kind::PipeWriter, Kind::Event, Kind::File];
            let fd = w.fd(if call == "read" { &kinds } else { &kinds[..2] });
            let length = w.pick(&[1, 8, 100, 5000]);
            let at = format!("{at}+{}", w.pick(&[0, 4090, 4000]));
            w.line(&format!("{call} {fd} {at} {length}"));
        }
        19..=20 => {
            let value = w.below(256);
            w.line(&format!("getrandom {at} 0 0"));
            w.line(&format!("poke {at} {value}"));
        }
        21..=22 => {
            w.line(&format!("peek {at}"));
        }
        _ => {
            super::files::open(w);
        }
    }
}

fn map(w: &mut Writer, at: &str, size: u64) {
    let rights = w.pick(&[3, 3, 3, 1, 0, 2, 7]);
    let file = w.chance(35) && w.has(&[Kind::File]);
    let sharing = w.pick(&[1, 2, 2, 3, 0]);
    // Where the kernel chooses, it chooses otherwise: that must not be a hole in the field.
    let fixed = w.pick(&[0x10, 0x10, 0x10, 0x100000, 0]);
    let fixed = if has_holes(w) && fixed == 0 { 0x10 } else { fixed };
    let kind = if fixed == 0 { "z" } else { "a" };
    let fd = if file { w.fd(&[Kind::File]) } else { "-1".to_owned() };
    let flags = sharing | fixed | if file { 0 } else { 0x20 } | w.flags(&[0x8000]);
    let offset = if file { w.pick(&[0, 0, 4096, 100]) } else { 0 };
    w.line(&format!("mmap:{kind} {at} {size} {rights} {flags:#x} {fd} {offset}"));
}

fn remap(w: &mut Writer, at: &str, size: u64) {
    let new = w.pick(&[4096, 8192, 12288, 16384, 0]);
    let flags = w.pick(&[0, 1, 1, 3, 3, 5, 7, 2]);
    let flags = if has_holes(w) && matches!(flags, 1 | 5) { 3 } else { flags };
    let to = if flags & 2 != 0 { place(w) } else { "0".to_owned() };
    let kind = if flags & 2 != 0 { "a" } else { "z" };
    w.line(&format!("mremap:{kind} {at} {size} {new} {flags} {to}"));
}

/// Whether some of the field may not be mapped any more.
fn has_holes(w: &Writer) -> bool {
    w.lines.iter().any(|line| line.contains(" munmap ") || line.contains(" mremap:"))
}
