//! Pseudo-terminals: both ends, settings, the line discipline.

use crate::writer::{Kind, Writer};

fn open(w: &mut Writer) {
    let actor = w.below(w.actors.len() + 1);
    let master = w.line_of(actor, "openat -100 \"/dev/ptmx\" 0x902 0");
    w.line_of(actor, &format!("ioctl ${master} 0x40045431 {{d0}}"));
    let slave = w.line_of(actor, &format!("ioctl ${master} 0x5441 0x902"));
    w.made(format!("${master}"), Kind::Terminal);
    w.made(format!("${slave}"), Kind::Terminal);
}

/// What is typed: letters, ends of lines and the characters that mean something.
fn typed(w: &mut Writer) -> (String, usize) {
    let length = 1 + w.below(8);
    let mut text = "{".to_owned();
    for _ in 0..length {
        let c = w.pick(&[97, 98, 99, 10, 10, 13, 4, 127, 21, 23, 22, 17, 19, 9, 18, 3, 26, 28, 0, 255, 65]);
        text += &format!("b{c} ");
    }
    (text.trim_end().to_owned() + "}", length)
}

pub fn write(w: &mut Writer) {
    if !w.has(&[Kind::Terminal]) {
        open(w);
        return;
    }
    let fd = w.fd(&[Kind::Terminal]);
    match w.below(12) {
        0..=3 => {
            let (text, length) = typed(w);
            w.line(&format!("write {fd} {text} {length}"));
        }
        4..=6 => {
            let length = w.pick(&[1, 4, 64]);
            w.line(&format!("read {fd} &{length}:x {length}"));
        }
        7 => settings(w, &fd),
        8 => {
            let request = w.pick(&[
                "0x541b &4:d",
                "0x5411 &4:d",
                "0x5413 &8:x",
                "0x5414 {w24 w80 w1 w2}",
                "0x540b 0",
                "0x540b 1",
                "0x540b 2",
                "0x540a 0",
                "0x540a 1",
                "0x5424 &4:d",
                "0x540f &4:p",
                "0x5429 &4:p",
                "0x80045438 &4:d",
            ]);
            w.line(&format!("ioctl {fd} {request}"));
        }
        9 => {
            let events = w.pick(&[1, 4, 5]);
            w.line(&format!("poll &{{d{fd} w{events} w0}}:.6w 1 0"));
        }
        10 => {
            w.line(&format!("ioctl {fd} 0x5401 &36:uuuubx"));
        }
        _ => {
            w.closing(&fd);
        }
    }
}

/// TCSETS and its like: input, output, control and local modes, then the control characters.
fn settings(w: &mut Writer, fd: &str) {
    let request = w.pick(&["0x5402", "0x5403", "0x5404"]);
    let input = w.flags(&[0x100, 0x40, 0x80, 0x400, 0x800, 0x20, 0x2000, 0x4000]) | 0x100;
    let output = w.flags(&[1, 4, 8, 0x10, 0x20, 2]);
    let local = w.flags(&[1, 2, 8, 0x10, 0x20, 0x40, 0x80, 0x200, 0x800, 0x8000]) | w.pick(&[2, 0]);
    let least = w.pick(&[1, 0, 3]);
    w.line(&format!(
        "ioctl {fd} {request} {{d{input:#x} d{output:#x} d0xbf d{local:#x} b0 b3 b28 b127 b21 b4 b0 b{least} b0 b17 b19 b26 b0 b18 b15 b23 b22 b0 b0 b0}}"
    ));
}
