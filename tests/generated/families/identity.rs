//! Users, groups, capabilities, limits, priorities.

use crate::writer::Writer;

const IDS: &str = "0 0 1 1000 1001 -1 65534";

pub fn write(w: &mut Writer) {
    match w.below(12) {
        0..=4 if w.root => credentials(w),
        0..=4 => {
            w.line("getresuid &4:d &4:d &4:d");
        }
        5..=7 => limits(w),
        8 => {
            let (which, who, nice) = (w.below(4), w.pick(&["0", "#0"]), w.pick(&[-20, 5, 19, 40]));
            // A process's number may be a user's as well, on one of the sides.
            let who = if which == 2 && who == "#0" { "1001" } else { who };
            w.line(&format!("setpriority {which} {who} {nice}"));
            w.line(&format!("getpriority {which} {who}"));
        }
        9 => {
            let call = w.word("sched_getscheduler sched_get_priority_max sched_get_priority_min");
            let argument = if call == "sched_getscheduler" { 0 } else { w.below(7) };
            w.line(&format!("{call} {argument}"));
        }
        10 => super::names::write(w),
        _ => super::files::write(w),
    }
}

fn credentials(w: &mut Writer) {
    let (one, two, three) = (w.word(IDS), w.word(IDS), w.word(IDS));
    let which = w.word("u g");
    match w.below(10) {
        0 => w.line(&format!("set{which}id {one}")),
        1 => w.line(&format!("setre{which}id {one} {two}")),
        2..=3 => w.line(&format!("setres{which}id {one} {two} {three}")),
        4 => w.line(&format!("setfs{which}id {one}")),
        5..=6 => w.line(&format!("getres{which}id &4:d &4:d &4:d")),
        7 => {
            let count = w.pick(&[0, 1, 3, -1]);
            w.line(&format!("setgroups {count} {{d{one} d{two} d5}}"))
        }
        8 => {
            let count = w.pick(&[0, 3, 1, 32]);
            w.line(&format!("getgroups {count} &128:*d"))
        }
        _ => {
            let version = w.pick(&["0x20080522", "0x20080522", "0x20071026", "0"]);
            match w.chance(60) {
                // What a machine's root has may be less than all: the lower ones only.
                true => w.line(&format!("capget {{d{version} d0}} &24")),
                false => {
                    let effective = w.pick(&["0", "0xff", "0xffffffff"]);
                    w.line(&format!("capset {{d{version} d0}} {{d{effective} d0xff d0 d0 d0 d0}}"))
                }
            }
        }
    };
}

fn limits(w: &mut Writer) {
    let resource = w.pick(&[7, 7, 99]);
    let (soft, hard) = (w.pick(&["10", "100", "200", "1000", "-1"]), w.pick(&["200", "256", "100"]));
    if w.chance(50) {
        w.line(&format!("prlimit64 0 {resource} {{q{soft} q{hard}}} 0"));
    } else {
        let format = if resource == 7 { "QQ" } else { "" };
        w.line(&format!("prlimit64 #0 {resource} 0 &16:{format}"));
    }
}
