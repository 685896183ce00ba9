//! Restartable sequences, rseq(2): a thread's area says on which processor it runs, and names the
//! sequence that it is in. A thread that is taken off the processor, moves to another, or gets a signal
//! within one goes on at its abort handler (linux/rseq.h, kernel/rseq.c).

use crate::ctx::Ctx;
use crate::outcome::SysResult;
use crate::thread::Thread;
use linux_abi::{Errno, Signal};

/// Bytes of `struct rseq` in its first version, and what it is aligned to.
const AREA_BYTES: u32 = 32;
const UNREGISTER: i32 = 1;
/// Where `rseq_cs` is in the area.
const SEQUENCE_AT: u64 = 8;

/// What a thread has registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Area {
    address: u64,
    bytes: u32,
    /// Stands before each abort handler.
    signature: u32,
}

/// rseq(2).
pub(super) fn rseq(ctx: &mut Ctx<'_>, [address, bytes, flags, signature, ..]: [u64; 6]) -> SysResult {
    let wanted = Area { address, bytes: bytes as u32, signature: signature as u32 };
    let registered = ctx.thread.rseq;
    if flags as i32 == UNREGISTER {
        let area = registered.filter(|area| area.address == address && area.bytes == wanted.bytes);
        if area.ok_or(Errno::EINVAL)?.signature != wanted.signature {
            return Err(Errno::EPERM.into());
        }
        ctx.thread.rseq = None;
        write_processor(ctx, address, [0, u32::MAX])?;
        return Ok(0);
    }
    if flags as i32 != 0 {
        return Err(Errno::EINVAL.into());
    }
    if let Some(area) = registered {
        let same = area.address == address && area.bytes == wanted.bytes;
        return Err(match (same, area.signature == wanted.signature) {
            (false, _) => Errno::EINVAL,
            (true, false) => Errno::EPERM,
            (true, true) => Errno::EBUSY,
        }
        .into());
    }
    if wanted.bytes < AREA_BYTES || !address.is_multiple_of(AREA_BYTES.into()) {
        return Err(Errno::EINVAL.into());
    }
    write_processor(ctx, address, [ctx.thread.vcpu.processor(); 2])?;
    ctx.thread.rseq = Some(wanted);
    Ok(0)
}

/// Every thread that has the caller's memory is interrupted, as far as it can tell: programs put
/// something of their own into `cpu_id_start`, and know by its being gone (TCMalloc).
pub(super) fn interrupt_all(ctx: &Ctx<'_>) {
    let space = ctx.process.space;
    let has_memory = |thread: &&Thread| {
        let of_other = || ctx.kernel.processes.get(thread.pid.0).is_some_and(|process| process.space == space);
        thread.pid == ctx.process.pid || of_other()
    };
    let others = ctx.kernel.threads.iter().filter(has_memory);
    for thread in others.chain([&*ctx.thread]) {
        if let Some(area) = thread.rseq {
            // An area that is gone is its thread's own loss.
            let _ = ctx.process.memory.write_value(area.address, &[thread.vcpu.processor(); 2]);
        }
    }
}

/// Writes `cpu_id_start` and `cpu_id`, and leaves no sequence.
fn write_processor(ctx: &Ctx<'_>, address: u64, numbers: [u32; 2]) -> Result<(), crate::Outcome> {
    ctx.process.memory.write_value(address, &numbers)?;
    ctx.process.memory.write_value(address + SEQUENCE_AT, &0u64)?;
    Ok(())
}

impl Ctx<'_> {
    /// The calling thread is interrupted between two instructions: its area names its processor, and if it
    /// is in a sequence, it goes on at that one's abort handler.
    pub(crate) fn abort_sequence(&mut self) {
        let Some(area) = self.thread.rseq else { return };
        let _ = self.process.memory.write_value(area.address, &[self.thread.vcpu.processor(); 2]);
        let sequence: u64 = self.process.memory.read_value(area.address + SEQUENCE_AT).unwrap_or(0);
        if sequence == 0 {
            return;
        }
        // Version and flags, start, length, abort handler.
        let Ok([_, start, length, handler]) = self.process.memory.read_value::<[u64; 4]>(sequence) else {
            return self.raise(Signal::SIGSEGV);
        };
        let inside = self.thread.vcpu.registers().rip.wrapping_sub(start) < length;
        let signature: Option<u32> = self.process.memory.read_value(handler.wrapping_sub(4)).ok();
        let left = self.process.memory.write_value(area.address + SEQUENCE_AT, &0u64).is_ok();
        if inside && (signature != Some(area.signature) || !left) {
            return self.raise(Signal::SIGSEGV);
        }
        if inside {
            self.thread.vcpu.registers_mut().rip = handler;
        }
    }
}
