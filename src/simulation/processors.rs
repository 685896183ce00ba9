//! Which processors workers stay on: each on a core of its own as long as there are any, and near each other.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::fs;
use std::path::Path;

/// A processor as the kernel counts them, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Processor {
    number: usize,
    /// The socket, and the core in it; processors of one core share nearly all of it.
    socket: u64,
    core: u64,
}

/// The processors for so many workers; none when there are too few, or when one worker has no other to meet. A worker that wakes
/// another at a barrier would otherwise often get it onto its own processor, and wait for it there.
///
/// They begin with the core that this thread is on, so that runs side by side do not all begin with the first.
pub fn processors_for(workers: usize) -> Vec<usize> {
    let Ok(allowed) = sched_getaffinity(Pid::from_raw(0)) else { return Vec::new() };
    let allowed = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false)).map(where_it_is).collect();
    choose(allowed, nix::sched::sched_getcpu().unwrap_or(0), workers)
}

/// By `/sys/devices/system/cpu`; where that does not tell, every processor is a core of the one socket.
fn where_it_is(number: usize) -> Processor {
    let folder = format!("/sys/devices/system/cpu/cpu{number}/topology");
    let read = |name: &str| fs::read_to_string(Path::new(&folder).join(name)).ok()?.trim().parse().ok();
    Processor {
        number,
        socket: read("physical_package_id").unwrap_or(0),
        core: read("core_id").unwrap_or(number as u64),
    }
}

fn choose(mut allowed: Vec<Processor>, here: usize, workers: usize) -> Vec<usize> {
    if workers < 2 || workers > allowed.len() {
        return Vec::new();
    }
    allowed.sort_by_key(|processor| (processor.socket, processor.core, processor.number));
    let mut cores: Vec<Vec<usize>> = allowed
        .chunk_by(|a, b| (a.socket, a.core) == (b.socket, b.core))
        .map(|core| core.iter().map(|one| one.number).collect())
        .collect();
    let first = cores.iter().position(|core| core.contains(&here)).unwrap_or(0);
    cores.rotate_left(first);
    // The first of each core, then the second: nobody shares a core while another is idle.
    let threads = cores.iter().map(Vec::len).max().unwrap_or(0);
    let turns = (0..threads).flat_map(|thread| cores.iter().filter_map(move |core| core.get(thread)));
    turns.copied().take(workers).collect()
}

/// Best effort: it changes nothing but speed.
pub fn stay_on(processor: usize) {
    let mut set = CpuSet::new();
    if set.set(processor).is_ok() {
        let _ = sched_setaffinity(Pid::from_raw(0), &set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Machines count the first processors of all cores, then the second ones (`far`), or both of a core side by side.
    fn machine(sockets: u64, cores: u64, far: bool) -> Vec<Processor> {
        let all = sockets * cores;
        let number = |core: u64, thread: u64| if far { core + thread * all } else { 2 * core + thread };
        let of_core = |core: u64| {
            [0, 1].map(|thread| Processor {
                number: number(core, thread) as usize,
                socket: core / cores,
                core: core % cores,
            })
        };
        (0..all).flat_map(of_core).collect()
    }

    fn cores_of(machine: &[Processor], chosen: &[usize]) -> usize {
        let core = |number: &usize| {
            let processor = machine.iter().find(|one| one.number == *number).expect("one of the machine");
            (processor.socket, processor.core)
        };
        chosen.iter().map(core).collect::<std::collections::BTreeSet<_>>().len()
    }

    #[test]
    fn workers_have_cores_of_their_own_whichever_way_processors_are_counted() {
        for far in [false, true] {
            let machine = machine(2, 4, far);
            for (here, workers) in [(0, 2), (0, 8), (5, 8), (11, 3), (15, 8)] {
                let chosen = choose(machine.clone(), here, workers);
                assert_eq!(cores_of(&machine, &chosen), workers, "{far} {here} {chosen:?}");
            }
            let all = choose(machine.clone(), 3, 16);
            assert_eq!(cores_of(&machine, &all[..8]), 8);
            assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), 16, "each once: {all:?}");
        }
    }

    #[test]
    fn workers_begin_on_their_own_core_and_fill_a_socket_first() {
        let machine = machine(2, 4, true);
        // Processor 12 is the second of core 4, the first core of the second socket.
        assert_eq!(choose(machine.clone(), 12, 4), [4, 5, 6, 7]);
        assert_eq!(choose(machine.clone(), 0, 4), [0, 1, 2, 3]);
        assert_eq!(choose(machine.clone(), 99, 2), [0, 1], "a processor that is not among them");
        assert_eq!(choose(machine.clone(), 0, 1), [0; 0]);
        assert_eq!(choose(machine, 0, 17), [0; 0]);
    }

    #[test]
    fn where_the_machine_does_not_tell_every_processor_is_a_core() {
        let flat: Vec<Processor> = (0..4).map(|number| Processor { number, socket: 0, core: number as u64 }).collect();
        assert_eq!(choose(flat, 2, 3), [2, 3, 0]);
        assert_eq!(where_it_is(usize::MAX), Processor { number: usize::MAX, socket: 0, core: usize::MAX as u64 });
    }
}
