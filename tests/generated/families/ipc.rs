//! System V objects and POSIX message queues.

use crate::writer::{Kind, Writer};

pub fn write(w: &mut Writer) {
    match w.below(4) {
        0 => segments(w),
        1 => semaphores(w),
        2 => messages(w),
        _ => queues(w),
    }
}

fn key(w: &mut Writer) -> u64 {
    if w.chance(40) { 0 } else { 0x5000 + w.number % 4096 * 4 + w.below(2) as u64 }
}

fn get_flags(w: &mut Writer) -> &'static str {
    w.pick(&["01600", "01600", "03600", "0", "01000", "0600"])
}

/// The result of an earlier call, mostly.
fn id(w: &mut Writer, call: &str) -> String {
    let known: Vec<String> = w.ids.iter().filter(|(of, _)| *of == call).map(|(_, id)| id.clone()).collect();
    if known.is_empty() || w.chance(5) {
        return w.word("-1 0 99999").to_owned();
    }
    let place = w.below(known.len());
    known[place].clone()
}

fn get(w: &mut Writer, call: &'static str, middle: &str) {
    let (key, flags) = (key(w), get_flags(w));
    let line = w.line(&format!("{call}:k {key}{middle} {flags}"));
    w.ids.push((call, format!("${line}")));
}

fn segments(w: &mut Writer) {
    let id = id(w, "shmget");
    match w.below(8) {
        0..=1 => {
            let size = w.pick(&[4096, 4096, 8192, 1, 0]);
            get(w, "shmget", &format!(" {size}"));
        }
        2..=3 => {
            let (at, flags) = w.pick(&[
                ("%0x4000", "0x4000"),
                ("%0x4000", "0"),
                ("%0x6000", "0x5000"),
                ("%0x4001", "0x2000"),
                ("%0x4001", "0"),
            ]);
            w.line("munmap %0x4000 16384");
            w.line(&format!("shmat:a {id} {at} {flags}"));
        }
        4 => {
            w.line("shmdt %0x4000");
        }
        5 => {
            w.line("poke %0x4000 7");
            w.line("peek %0x6000");
        }
        6 => {
            w.line(&format!("shmctl {id} 2 &112:.4dddd.24q.32q"));
        }
        _ => {
            w.line(&format!("shmctl {id} 0 0"));
        }
    }
}

fn semaphores(w: &mut Writer) {
    let id = id(w, "semget");
    match w.below(9) {
        0..=1 => {
            let count = w.pick(&[1, 3, 3, 0, -1]);
            get(w, "semget", &format!(" {count}"));
        }
        2..=4 => {
            let count = 1 + w.below(2);
            let mut operations = String::new();
            for _ in 0..count {
                let (number, change) = (w.pick(&[0, 0, 1, 2, 5]), w.pick(&[1, 1, -1, 2, 0, 0x7fff, -2]));
                let flags = if w.may_wait && w.chance(50) { 0 } else { 0x800 } | w.pick(&[0, 0, 0x1000]);
                operations += &format!("w{number} w{change} w{flags} ");
            }
            w.line(&format!("semop {id} {{{}}} {count}", operations.trim_end()));
        }
        5 => {
            let (number, value) = (w.pick(&[0, 1, 9]), w.pick(&[0, 1, 5, -1, 40000]));
            w.line(&format!("semctl {id} {number} 16 {value}"));
        }
        6 => {
            let (number, command) = (w.pick(&[0, 1, 2]), w.pick(&[12, 14, 15]));
            w.line(&format!("semctl {id} {number} {command}"));
        }
        7 => {
            w.line(&format!("semctl {id} 0 13 &16:www"));
        }
        _ => {
            w.line(&format!("semctl {id} 0 0"));
        }
    }
}

fn messages(w: &mut Writer) {
    let id = id(w, "msgget");
    let wait = if w.may_wait && w.chance(40) { 0 } else { 0x800 };
    match w.below(7) {
        0..=1 => get(w, "msgget", ""),
        2..=3 => {
            let (kind, size) = (w.pick(&[1, 2, 3, 0, -1]), w.pick(&[0, 4, 16, 8193]));
            w.line(&format!("msgsnd {id} {{q{kind} s\"message of sixteen\" z16}} {size} {wait}"));
        }
        4..=5 => {
            let (kind, size) = (w.pick(&[0, 1, 2, -2, -9]), w.pick(&[32, 32, 4, 0]));
            let flags = wait | w.flags(&[0x1000, 0x2000, 0x4000]);
            w.line(&format!("msgrcv {id} &48:qx {size} {kind} {flags:#x}"));
        }
        _ => {
            w.line(&format!("msgctl {id} 0 0"));
        }
    }
}

fn queues(w: &mut Writer) {
    if !w.has(&[Kind::Queue]) || w.chance(15) {
        let name = w.word("qa qb qa qc /q .");
        let flags = w.pick(&["0x42", "0x842", "0x842", "0xc2", "0x800", "1", "0x840"]);
        let flags = if w.may_wait { flags } else { w.pick(&["0x842", "0x8c2", "0x800", "0x802"]) };
        let shape = w.pick(&["0", "{q0 q2 q16 q0 z32}", "{q0 q3 q8 q0 z32}", "{q0 q0 q8 q0 z32}"]);
        w.making(Kind::Queue, &format!("mq_open \"{name}\" {flags} 0600 {shape}"));
        return;
    }
    let fd = w.fd(&[Kind::Queue]);
    match w.below(7) {
        0..=2 => {
            let (size, priority) = (w.pick(&[0, 4, 8, 17]), w.pick(&[0, 1, 5, 32768]));
            w.line(&format!("mq_timedsend {fd} {{f9*20}} {size} {priority} {{q1 q0}}"));
        }
        3..=4 => {
            let size = w.pick(&[16, 16, 8, 8192]);
            w.line(&format!("mq_timedreceive {fd} &{size}:x {size} &4:d {{q1 q0}}"));
        }
        5 => {
            w.line(&format!("mq_getsetattr {fd} 0 &64:qqqq"));
        }
        _ => {
            let name = w.word("qa qb qz");
            w.line(&format!("mq_unlink \"{name}\""));
        }
    }
}
