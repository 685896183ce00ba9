//! The same program as processes of the machine: the native side of `namespaces`.

use crate::machine;
use base::wall::WallClock;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// `pause(2)`.
const PAUSE: &str = "34 ";

/// Starts `count` processes from each of `threads` threads and waits until all of them block.
pub fn load(program: &Path, count: usize, threads: usize) -> Value {
    let used = machine::used_kb();
    let clock = WallClock::start();
    let mut children: Vec<Child> = std::thread::scope(|scope| {
        let loaders: Vec<_> = (0..threads).map(|_| scope.spawn(|| start_all(program, count))).collect();
        loaders.into_iter().flat_map(|loader| loader.join().expect("a loader that ends")).collect()
    });
    let seconds = clock.elapsed().as_secs_f64();
    let kilobytes = machine::used_kb().saturating_sub(used);
    for child in &mut children {
        let _ = child.kill();
    }
    for child in &mut children {
        let _ = child.wait();
    }
    json!({ "seconds": seconds, "kb": kilobytes })
}

fn start_all(program: &Path, count: usize) -> Vec<Child> {
    let start = |_| {
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("a process starts")
    };
    let children: Vec<Child> = (0..count).map(start).collect();
    for child in &children {
        while !is_paused(child.id()) {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    children
}

fn is_paused(process: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/syscall")).is_ok_and(|text| text.starts_with(PAUSE))
}
