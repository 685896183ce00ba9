//! What a debugger learns that the simulator runs under: one function that it has a breakpoint on, and a table of guest threads that it
//! reads.
//!
//! Nothing here is called unless the process was started by a debugger (`--gdb`).

use crate::registers::Registers;
use std::arch::asm;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Threads that the table has room for.
const THREADS: usize = 512;
/// Words of one thread: its number (0 for a free place), whether it runs, the number of the call that it waits in plus one, 16 bytes
/// of name, and the registers in the order of [`words_of`].
const WORDS: usize = 24;

static TABLE: [[AtomicU64; WORDS]; THREADS] = [const { [const { AtomicU64::new(0) }; WORDS] }; THREADS];

static HERE: AtomicBool = AtomicBool::new(false);

/// Whether the simulator runs under a debugger.
#[inline]
pub(crate) fn is_here() -> bool {
    HERE.load(Ordering::Relaxed)
}

/// Stops for the debugger for the first time, with what it must know in registers: rdi is the address of the function that tells it
/// everything else, rsi that of the table of threads, rdx its places, rcx the words of each.
pub fn meet_debugger() {
    HERE.store(true, Ordering::Relaxed);
    let tells = told as extern "C" fn(*const u8, usize) as usize;
    // SAFETY: a breakpoint changes nothing; the debugger goes on behind it. Without one the process ends here, which is all that the
    // option promises then.
    unsafe {
        asm!("int3", in("rdi") tells, in("rsi") TABLE.as_ptr(), in("rdx") THREADS, in("rcx") WORDS, options(nostack));
    }
}

/// Tells the debugger something. It may stop here, read memory and set breakpoints.
pub fn tell_debugger(text: &str) {
    told(text.as_ptr(), text.len());
}

/// Where the debugger has its breakpoint: the text is in rdi and rsi.
#[inline(never)]
extern "C" fn told(text: *const u8, bytes: usize) {
    std::hint::black_box((text, bytes));
}

/// A guest thread for the table.
#[derive(Clone, Copy, Debug)]
pub struct ShownThread<'a> {
    pub tid: u32,
    pub name: &'a [u8],
    pub runs: bool,
    /// The number of the call that it waits in.
    pub call: Option<u64>,
    /// `rip` being an address of the program's own code.
    pub registers: Registers,
}

/// Enters a thread into the table, or brings its entry up to date. Without a free place it is left out.
pub fn show_thread(thread: &ShownThread<'_>) {
    let tid = u64::from(thread.tid);
    let place = |wanted: u64| TABLE.iter().find(|slot| slot[0].load(Ordering::Relaxed) == wanted);
    let Some(slot) = place(tid).or_else(|| place(0)) else { return };
    let mut name = [0u8; 16];
    let bytes = thread.name.len().min(15);
    name[..bytes].copy_from_slice(&thread.name[..bytes]);
    let half = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| name[at + i]));
    let head = [tid, thread.runs.into(), thread.call.map_or(0, |call| call + 1), half(0), half(8)];
    for (word, value) in slot.iter().zip(head.into_iter().chain(words_of(&thread.registers))) {
        word.store(value, Ordering::Relaxed);
    }
}

/// Takes a thread out of the table.
pub fn forget_thread(tid: u32) {
    for slot in &TABLE {
        if slot[0].load(Ordering::Relaxed) == u64::from(tid) {
            slot[0].store(0, Ordering::Relaxed);
        }
    }
}

/// rip, rsp, rbp, rbx, r12 to r15, rax, rcx, rdx, rsi, rdi, r8 to r11, fs_base.
fn words_of(r: &Registers) -> [u64; 18] {
    [
        r.rip, r.rsp, r.rbp, r.rbx, r.r12, r.r13, r.r14, r.r15, r.rax, r.rcx, r.rdx, r.rsi, r.rdi, r.r8, r.r9, r.r10,
        r.r11, r.fs_base,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_come_and_go() {
        let thread = |tid: u32, rip: u64| ShownThread {
            tid,
            name: b"a thread with a long name",
            runs: false,
            call: Some(0),
            registers: Registers { rip, ..Registers::default() },
        };
        let known = |tid: u64| TABLE.iter().filter(|slot| slot[0].load(Ordering::Relaxed) == tid).count();
        show_thread(&thread(7000, 1));
        show_thread(&thread(7001, 2));
        show_thread(&thread(7000, 3));
        assert_eq!((known(7000), known(7001)), (1, 1));
        let slot = TABLE.iter().find(|slot| slot[0].load(Ordering::Relaxed) == 7000).unwrap();
        let words: Vec<u64> = slot.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        assert_eq!((words[1], words[2], words[5]), (0, 1, 3));
        assert_eq!(&words[3].to_le_bytes(), b"a thread");
        forget_thread(7000);
        assert_eq!((known(7000), known(7001)), (0, 1));
    }
}
