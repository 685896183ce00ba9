//! Terminals: what is typed and written at a pair, under settings of any kind.

use super::machine::Machine;
use crate::input::Input;
use linux_abi::fs::{O_NOCTTY, O_NONBLOCK, O_RDWR};
use linux_abi::nr;

const TIOCSPTLCK: u64 = 0x4004_5431;
const TIOCGPTPEER: u64 = 0x5441;
/// Requests that take or give a small structure.
const REQUESTS: [u64; 24] = [
    0x5401,
    0x5402,
    0x5403,
    0x5404,
    0x5405,
    0x5409,
    0x540a,
    0x540b,
    0x540e,
    0x540f,
    0x5410,
    0x5411,
    0x5412,
    0x5413,
    0x5414,
    0x541b,
    0x5420,
    0x5422,
    0x5423,
    0x5424,
    0x5425,
    0x5428,
    0x5429,
    0x402c_542b,
];
const STEPS: usize = 64;
const ROOM: u64 = 4096;

pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut machine = Machine::new();
    let path = machine.put(b"/dev/ptmx\0");
    let flags = u64::from(O_RDWR | O_NOCTTY | O_NONBLOCK);
    let master = machine.call(nr::openat, &[-100i64 as u64, path, flags]);
    let unlocked = machine.put(&0u32.to_le_bytes());
    machine.call(nr::ioctl, &[master, TIOCSPTLCK, unlocked]);
    let slave = machine.call(nr::ioctl, &[master, TIOCGPTPEER, flags]);
    let room = machine.area + (512 << 10);
    for _ in 0..STEPS {
        if input.is_empty() {
            break;
        }
        let step = input.byte();
        let fd = if step & 1 == 0 { master } else { slave };
        match step >> 1 & 3 {
            0 => {
                let length = usize::from(input.byte());
                let bytes = input.take(length);
                let at = machine.put(bytes);
                machine.call(nr::write, &[fd, at, bytes.len() as u64]);
            }
            1 => {
                let got = machine.call(nr::read, &[fd, room, u64::from(input.byte()) << (step >> 4)]);
                assert!((got as i64) <= (255 << 15).max(ROOM as i64));
            }
            2 => {
                let request = REQUESTS[usize::from(input.byte()) % REQUESTS.len()];
                let length = usize::from(input.byte() % 64);
                let at = machine.put(input.take(length));
                machine.call(nr::ioctl, &[fd, request, at]);
            }
            _ => {
                let at = machine.put(&[fd.to_le_bytes(), 0x0400_0000_0000u64.to_le_bytes()].concat()[..8]);
                machine.call(nr::poll, &[at, 1, 0]);
                machine.pass_time();
            }
        }
    }
    machine.end();
}
