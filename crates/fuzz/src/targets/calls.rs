//! System calls of any number, with any arguments and any memory behind them, by threads and processes that they make themselves.
//!
//! A call is a byte for the thread, its number in two, and six arguments. An argument is a byte, by itself a small number or what an earlier
//! call returned, or one that says what follows: a number, bytes in memory (with arguments among them), an address.

use super::machine::{AREA_BYTES, Machine};
use crate::input::Input;
use base::SimDuration;
use linux_abi::signal::{RtSigframe, StackT};
use simkernel::Ctx;
use tcpip::Packet;
use zerocopy::IntoBytes;

/// Calls of one input, those that go on after a wait counted again.
const TURNS: usize = 96;
/// Numbers from here on are no calls: time passes, a packet comes, the thread's stack pointer
/// becomes an argument.
const TIME: u16 = 0xff00;
const PACKET: u16 = 0xff01;
const STACK: u16 = 0xff02;

pub fn run(data: &[u8]) {
    execute(data);
}

/// What each call returned, those that wait what they were left with.
fn execute(data: &[u8]) -> Vec<u64> {
    let mut input = Input::new(data);
    let mut machine = Machine::new();
    let mut memory = Memory { area: machine.area, next: machine.area, results: Vec::new() };
    for _ in 0..TURNS {
        if input.is_empty() {
            break;
        }
        let before = input;
        let (actor, number) = (input.byte(), input.u16());
        match number {
            TIME => {
                let span = SimDuration::from_nanos(1 << (input.byte() % 48));
                machine.pass_to(machine.now + span);
                continue;
            }
            PACKET => {
                let length = usize::from(input.byte());
                if let Ok(packet) = Packet::parse(input.take(length)) {
                    machine.kernel.receive_packet(machine.now, packet);
                    machine.kernel.settle_network(machine.now);
                }
                continue;
            }
            _ => {}
        }
        let wanted = machine.threads[usize::from(actor) % machine.threads.len()];
        let runnable = &machine.kernel.runnable;
        let tid = if runnable.contains(&wanted) { Some(wanted) } else { runnable.front().copied() };
        let Some(tid) = tid else {
            // All wait, or none is left.
            input = before;
            if machine.pass_time() {
                continue;
            }
            break;
        };
        let mut made = false;
        machine.with(tid, |ctx| {
            made = true;
            if number == STACK {
                ctx.thread.vcpu.registers_mut().rsp = memory.argument(&mut input, ctx, 0);
                return (linux_abi::nr::sched_yield.into(), [0; 6]);
            }
            let args = [(); 6].map(|()| memory.argument(&mut input, ctx, 0));
            (u64::from(number % (linux_abi::nr::COUNT as u16 + 1)), args)
        });
        machine.check_threads();
        if made {
            memory.results.push(machine.result(tid));
        } else {
            input = before;
        }
    }
    machine.end();
    memory.results
}

/// Where arguments go, and what calls returned.
struct Memory {
    area: u64,
    next: u64,
    results: Vec<u64>,
}

/// Addresses at which something begins, ends or never is.
const PLACES: [u64; 8] =
    [0, 1, 0xfff, 0x7fff_ffff_f000, 0x8000_0000_0000, 0xffff_8000_0000_0000, u64::MAX - 4095, u64::MAX];

impl Memory {
    fn argument(&mut self, input: &mut Input<'_>, ctx: &mut Ctx<'_>, depth: u32) -> u64 {
        match input.byte() {
            small @ 0..64 => small.into(),
            index @ 64..128 => self.results.get(usize::from(index - 64)).copied().unwrap_or_default(),
            128 => input.u32() as i32 as u64,
            129 => input.u64(),
            130 => self.block(input, ctx, depth),
            131 => {
                let length = usize::from(input.byte());
                let bytes = input.take(length);
                let at = ctx.process.memory.stack_end() - bytes.len() as u64;
                self.put(ctx, at, bytes)
            }
            132 => self.area + u64::from(input.u16()) * 16 % AREA_BYTES,
            133 => PLACES[usize::from(input.byte()) % PLACES.len()],
            134 => 1 << (input.byte() % 64),
            135 => u64::from(ctx.process.pid.0),
            136 => u64::from(ctx.thread.tid.0),
            137 => self.frame(input, ctx, depth),
            negative => i64::from(negative as i8) as u64,
        }
    }

    /// Bytes, some of them arguments.
    fn block(&mut self, input: &mut Input<'_>, ctx: &mut Ctx<'_>, depth: u32) -> u64 {
        let (length, places) = (usize::from(input.byte()), input.byte() % 8);
        let mut bytes = input.take(length).to_vec();
        for _ in 0..if depth < 2 { places } else { 0 } {
            let at = usize::from(input.byte());
            let value = self.argument(input, ctx, depth + 1).to_le_bytes();
            let end = (at + 8).min(bytes.len());
            if at < end {
                bytes[at..end].copy_from_slice(&value[..end - at]);
            }
        }
        let at = self.room(length as u64);
        self.put(ctx, at, &bytes)
    }

    /// A signal's frame, as a handler might leave it: where the stack pointer is behind the
    /// handler's return address.
    fn frame(&mut self, input: &mut Input<'_>, ctx: &mut Ctx<'_>, depth: u32) -> u64 {
        let mut frame = RtSigframe::default();
        let [flags, rsp, rip, rflags, segments, fpstate, mask, stack, stack_flags, stack_size] =
            [(); 10].map(|()| if depth < 2 { self.argument(input, ctx, depth + 1) } else { 0 });
        let context = &mut frame.uc.uc_mcontext;
        (context.rsp, context.rip, context.eflags, context.fpstate) = (rsp, rip, rflags, fpstate);
        (context.cs, context.ss) = (0x33 ^ segments as u16, 0x2b ^ (segments >> 16) as u16);
        (frame.uc.uc_flags, frame.uc.uc_sigmask) = (flags, mask);
        frame.uc.uc_stack = StackT { ss_sp: stack, ss_flags: stack_flags as u32, ss_size: stack_size, pad0: 0 };
        let at = self.room(size_of::<RtSigframe>() as u64);
        self.put(ctx, at, frame.as_bytes()) + 8
    }

    /// Where so many bytes go.
    fn room(&mut self, length: u64) -> u64 {
        let at = self.next;
        self.next += length.next_multiple_of(16) + 16;
        if self.next > self.area + AREA_BYTES / 2 {
            self.next = self.area;
        }
        at
    }

    fn put(&self, ctx: &Ctx<'_>, at: u64, bytes: &[u8]) -> u64 {
        // The stack may be gone.
        let _ = ctx.process.memory.write(at, bytes);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_do_what_they_say() {
        let results = execute(include_bytes!("../../corpus/calls/files"));
        assert_eq!(results[..4], [3, 5, 0, 5], "openat, write, lseek, pread64: {results:x?}");
        let results = execute(include_bytes!("../../corpus/calls/inet"));
        assert_eq!(
            results[..8],
            [3, 0, 0, 4, 115u64.wrapping_neg(), 5, 5, 5],
            "a connection carries bytes: {results:x?}"
        );
        let results = execute(include_bytes!("../../corpus/calls/processes"));
        assert_eq!(results[0], results[1], "a fork, and the number of its child: {results:x?}");
    }
}
