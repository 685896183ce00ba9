//! Pipes, and moving data between descriptors without copying it to memory.

use crate::writer::{Kind, Writer};

const ENDS: &[Kind] = &[Kind::PipeReader, Kind::PipeWriter];

pub fn open(w: &mut Writer) {
    let wait = w.may_wait && w.chance(60);
    let flags = if wait { 0 } else { 0x800 } | w.flags(&[0x80000, 0x4000]);
    let line = w.line(&format!("pipe2 &8:dd {flags:#x}"));
    w.made(format!("${line}.0"), Kind::PipeReader);
    w.made(format!("${line}.4"), Kind::PipeWriter);
}

pub fn write(w: &mut Writer) {
    if w.count(ENDS) == 0 || w.chance(8) {
        open(w);
        return;
    }
    let (reader, writer) = (w.fd(&[Kind::PipeReader]), w.fd(&[Kind::PipeWriter]));
    match w.below(18) {
        0..=3 => {
            let (data, length) = w.data();
            w.line(&format!("write {writer} {data} {length}"));
        }
        4..=6 => {
            let length = w.length();
            let to = w.or_bad(format!("&{length}:x"));
            w.line(&format!("read {reader} {to} {length}"));
        }
        7 => {
            let (vectors, count) = w.vectors(true);
            w.line(&format!("readv {reader} {vectors} {count}"));
        }
        8 => {
            let (vectors, count) = w.vectors(false);
            w.line(&format!("writev {writer} {vectors} {count}"));
        }
        9 => {
            w.line(&format!("ioctl {reader} 0x541b &4:d"));
        }
        10 => {
            let size = w.pick(&[4096, 1, 65536, 5000, 0, 1 << 20]);
            w.line(&format!("fcntl {writer} 1031 {size}"));
            w.line(&format!("fcntl {reader} 1032"));
        }
        11..=13 => splice(w, &reader, &writer),
        14..=15 => poll(w, &reader, &writer),
        16 => {
            w.closing(&writer);
        }
        _ => {
            w.closing(&reader);
        }
    }
}

fn poll(w: &mut Writer, reader: &str, writer: &str) {
    let (one, two) = (w.pick(&[1, 5, 0, 0x2001]), w.pick(&[4, 5, 0, 8]));
    w.line(&format!("poll &{{d{reader} w{one} w0 d{writer} w{two} w0}}:.6w.6w 2 0"));
}

fn splice(w: &mut Writer, reader: &str, writer: &str) {
    let (file, length) = (w.fd(&[Kind::File, Kind::UnixStream, Kind::Tcp]), w.length());
    let flags = w.pick(&[2, 2, 3, 0x12]);
    let offset = if w.chance(60) { "0".to_owned() } else { format!("&{{q{}}}:!q", w.below(30)) };
    match w.below(4) {
        0 => w.line(&format!("splice {reader} 0 {file} {offset} {length} {flags}")),
        1 => w.line(&format!("splice {file} {offset} {writer} 0 {length} {flags}")),
        2 => w.line(&format!("splice {reader} 0 {writer} 0 {length} {flags}")),
        _ => w.line(&format!("tee {reader} {writer} {length} {flags}")),
    };
}
