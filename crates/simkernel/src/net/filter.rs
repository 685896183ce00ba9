//! SO_ATTACH_FILTER and its relatives (socket(7), networking/filter.rst): programs of classic BPF
//! that judge what comes to a socket.

use super::errno;
use super::interfaces::{ETHERNET_INDEX, LOOPBACK_INDEX};
use super::options::common::Request;
use super::options::value::Place;
use crate::bpf::{self, Input, Instruction, PROGRAM_MAX};
use crate::ctx::Ctx;
use crate::ids::FileId;
use crate::outcome::{Outcome, SysResult};
use guest::AddressSpace;
use linux_abi::Errno;
use linux_abi::socket::{SO_ATTACH_FILTER, SO_LOCK_FILTER, SOL_SOCKET};
use std::sync::Arc;
use tcpip::{FilteredPacket, Interface, PacketFilter};

/// `sizeof(struct sock_fprog)`.
const PROGRAM_BYTES: usize = 16;

/// Offsets from which on a program looks at other things than the data (`linux/filter.h`): what is
/// known of the packet, its network header, its link header.
const KNOWN: u32 = -0x1000_i32 as u32;
const NETWORK: u32 = -0x10_0000_i32 as u32;
const LINK: u32 = -0x20_0000_i32 as u32;

/// `SKF_AD_*`: what is known of a packet.
mod known {
    pub const PROTOCOL: u32 = 0;
    pub const PACKET_TYPE: u32 = 4;
    pub const INTERFACE: u32 = 8;
    pub const ATTRIBUTE: u32 = 12;
    pub const NESTED_ATTRIBUTE: u32 = 16;
    pub const MARK: u32 = 20;
    pub const QUEUE: u32 = 24;
    pub const HARDWARE: u32 = 28;
    pub const HASH: u32 = 32;
    pub const PROCESSOR: u32 = 36;
    pub const XOR: u32 = 40;
    pub const VLAN_TAG: u32 = 44;
    pub const HAS_VLAN_TAG: u32 = 48;
    pub const PAYLOAD: u32 = 52;
    pub const RANDOM: u32 = 56;
    pub const VLAN_PROTOCOL: u32 = 60;
}

/// ARPHRD_ETHER and ARPHRD_LOOPBACK.
const ETHERNET_HARDWARE: u32 = 1;
const LOOPBACK_HARDWARE: u32 = 772;

/// A program that judges what comes to a socket.
#[derive(Debug)]
pub struct SocketFilter {
    program: Box<[Instruction]>,
}

impl SocketFilter {
    /// The program that a `struct sock_fprog` of `len` bytes names. EINVAL, EFAULT.
    pub fn read(memory: &AddressSpace, value: u64, len: usize) -> Result<Arc<SocketFilter>, Outcome> {
        if len != PROGRAM_BYTES {
            return Err(Errno::EINVAL.into());
        }
        let [count, instructions]: [u64; 2] = memory.read_value(value)?;
        let count = usize::from(count as u16);
        if instructions == 0 || !(1..=PROGRAM_MAX).contains(&count) {
            return Err(Errno::EINVAL.into());
        }
        let mut bytes = vec![0; count * Instruction::BYTES];
        memory.read(instructions, &mut bytes)?;
        let (chunks, _) = bytes.as_chunks();
        let program: Box<[_]> = chunks.iter().map(|bytes| Instruction::from_bytes(*bytes)).collect();
        bpf::check(&program, may_load).map_err(|_| Errno::EINVAL)?;
        Ok(Arc::new(SocketFilter { program }))
    }

    /// How many bytes of a message between processes its receiver may have; 0 drops it.
    pub fn judge_message(&self, data: &[u8]) -> usize {
        let packet = FilteredPacket { bytes: data, data: 0, interface: Interface::Loopback };
        bpf::run(&self.program, &Seen { packet: &packet, is_packet: false }) as usize
    }
}

/// setsockopt(2) of SO_ATTACH_FILTER, SO_DETACH_FILTER and SO_LOCK_FILTER. EPERM when it is locked,
/// ENOENT, EINVAL.
pub(super) fn set(ctx: &mut Ctx<'_>, file: FileId, request: Request) -> Result<(), Outcome> {
    let Request { option, number, value, len } = request;
    let socket = ctx.inet(file)?;
    let id = socket.id;
    if socket.kept.get(SOL_SOCKET, SO_LOCK_FILTER) == Some(1) && !(option == SO_LOCK_FILTER && number != 0) {
        return Err(Errno::EPERM.into());
    }
    let filter = match option {
        SO_LOCK_FILTER => {
            ctx.inet_mut(file)?.kept.set(SOL_SOCKET, option, i32::from(number != 0));
            return Ok(());
        }
        SO_ATTACH_FILTER => Some(SocketFilter::read(&ctx.process.memory, value, len)?),
        _ => None,
    };
    let for_stack = filter.clone().map(|filter| Box::new(ForStack(filter)) as Box<dyn PacketFilter>);
    let had = ctx.kernel.net.stack.set_filter(id, for_stack).map_err(errno)?;
    let is_detached = filter.is_none();
    ctx.inet_mut(file)?.filter = filter;
    if is_detached && !had { Err(Errno::ENOENT.into()) } else { Ok(()) }
}

/// getsockopt(2) of SO_ATTACH_FILTER: the program, for which the place's length counts instructions;
/// 0 asks for their number alone. EINVAL.
pub(crate) fn get(memory: &AddressSpace, filter: Option<&SocketFilter>, place: Place) -> SysResult {
    let program = filter.map_or(&[][..], |filter| &filter.program);
    if place.len > 0 && place.len < program.len() {
        return Err(Errno::EINVAL.into());
    }
    if place.len > 0 {
        let bytes: Vec<u8> = program.iter().flat_map(|instruction| instruction.to_bytes()).collect();
        memory.write(place.value, &bytes)?;
    }
    place.store_len(memory, program.len())
}

/// The loads, and what else filters of sockets may have beside what all may (bpf_check_classic).
fn may_load(instruction: &Instruction) -> bool {
    let Instruction { code, k, .. } = *instruction;
    match code {
        0x20 | 0x28 | 0x30 => k < KNOWN || is_known(k - KNOWN),
        0x40 | 0x48 | 0x50 | 0xb1 | 0x9c => true,
        0x94 => k != 0,
        _ => false,
    }
}

fn is_known(what: u32) -> bool {
    what.is_multiple_of(4) && what <= known::VLAN_PROTOCOL
}

/// What a program sees.
struct Seen<'a> {
    packet: &'a FilteredPacket<'a>,
    /// It came by an interface; a message between processes did not.
    is_packet: bool,
}

impl Seen<'_> {
    fn at(&self, start: usize, offset: u32, size: u32) -> Option<u32> {
        let start = start.checked_add(offset as usize)?;
        let bytes = self.packet.bytes.get(start..start + size as usize)?;
        Some(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
    }

    fn known(&self, what: u32) -> Option<u32> {
        let is_loopback = self.packet.interface == Interface::Loopback;
        let is_v6 = self.packet.bytes.first().is_some_and(|first| first >> 4 == 6);
        Some(match what {
            known::PROTOCOL if !self.is_packet => 0,
            known::PROTOCOL => {
                if is_v6 {
                    0x86dd
                } else {
                    0x0800
                }
            }
            known::INTERFACE | known::HARDWARE if !self.is_packet => return None,
            known::INTERFACE => (if is_loopback { LOOPBACK_INDEX } else { ETHERNET_INDEX }) as u32,
            known::HARDWARE => {
                if is_loopback {
                    LOOPBACK_HARDWARE
                } else {
                    ETHERNET_HARDWARE
                }
            }
            known::PAYLOAD => self.payload()?,
            // The same for the same packet in every run, and different from packet to packet.
            known::RANDOM | known::HASH => self
                .packet
                .bytes
                .iter()
                .fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)),
            // To this host, without marks and tags, by the only queue and processor.
            known::PACKET_TYPE
            | known::MARK
            | known::QUEUE
            | known::PROCESSOR
            | known::VLAN_TAG
            | known::HAS_VLAN_TAG
            | known::VLAN_PROTOCOL
            | known::ATTRIBUTE
            | known::NESTED_ATTRIBUTE => 0,
            _ => return None,
        })
    }

    /// Where the transport's payload begins (skb_get_poff), counted from the data.
    fn payload(&self) -> Option<u32> {
        let (header, protocol) = match self.packet.bytes.first()? >> 4 {
            6 => (40, self.at(0, 6, 1)?),
            _ => (4 * (self.at(0, 0, 1)? & 15), self.at(0, 9, 1)?),
        };
        let transport = match protocol {
            6 => 4 * (self.at(header as usize, 12, 1)? >> 4),
            17 | 1 | 58 => 8,
            _ => 0,
        };
        (header + transport).checked_sub(self.packet.data as u32)
    }
}

impl Input for Seen<'_> {
    fn length(&self) -> u32 {
        (self.packet.bytes.len() - self.packet.data) as u32
    }

    fn load(&self, offset: u32, size: u32) -> Option<u32> {
        match offset {
            KNOWN.. => self.known(offset - KNOWN),
            NETWORK.. if self.is_packet => self.at(0, offset - NETWORK, size),
            // Link headers are not simulated.
            LINK.. => None,
            _ => self.at(self.packet.data, offset, size),
        }
    }

    fn exchange(&self, offset: u32, a: u32, x: u32) -> Option<u32> {
        (offset == KNOWN + known::XOR).then_some(a ^ x)
    }
}

/// A filter as the stack keeps it.
#[derive(Debug)]
pub struct ForStack(pub Arc<SocketFilter>);

impl PacketFilter for ForStack {
    fn judge(&self, packet: &FilteredPacket<'_>) -> usize {
        bpf::run(&self.0.program, &Seen { packet, is_packet: true }) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(program: &[(u16, u32)]) -> SocketFilter {
        let instruction = |&(code, k): &(u16, u32)| Instruction { code, jump_true: 0, jump_false: 0, k };
        SocketFilter { program: program.iter().map(instruction).collect() }
    }

    /// A UDP packet over IPv4 with four bytes of payload.
    fn packet() -> Vec<u8> {
        let mut bytes = vec![0; 32];
        (bytes[0], bytes[9], bytes[21], bytes[28]) = (0x45, 17, 7, 99);
        bytes
    }

    fn judge(program: &[(u16, u32)]) -> usize {
        let bytes = packet();
        let packet = FilteredPacket { bytes: &bytes, data: 20, interface: Interface::Ethernet };
        ForStack(Arc::new(filter(program))).judge(&packet)
    }

    const RETURN_A: (u16, u32) = (0x16, 0);

    #[test]
    fn a_program_sees_the_transport_first_and_can_look_behind_itself() {
        assert_eq!(judge(&[(0x28, 0), RETURN_A]), 7);
        assert_eq!(judge(&[(0x30, 8), RETURN_A]), 99);
        assert_eq!(judge(&[(0x30, NETWORK + 9), RETURN_A]), 17);
        assert_eq!(judge(&[(0x80, 0), RETURN_A]), 12);
        assert_eq!(judge(&[(0x20, 12), RETURN_A]), 0);
    }

    #[test]
    fn what_is_known_of_a_packet_has_offsets_of_its_own() {
        assert_eq!(judge(&[(0x20, KNOWN + known::PROTOCOL), RETURN_A]), 0x0800);
        assert_eq!(judge(&[(0x20, KNOWN + known::INTERFACE), RETURN_A]), 2);
        assert_eq!(judge(&[(0x20, KNOWN + known::PAYLOAD), RETURN_A]), 8);
        assert_eq!(judge(&[(0x00, 6), (0x01, 3), (0x20, KNOWN + known::XOR), RETURN_A]), 5);
    }

    #[test]
    fn programs_of_sockets_have_loads_that_those_of_calls_have_not() {
        let check = |program: &[(u16, u32)]| bpf::check(&filter(program).program, may_load).is_ok();
        assert!(check(&[(0x30, 3), (0xb1, 0), (0x94, 5), RETURN_A]));
        assert!(!check(&[(0x94, 0), RETURN_A]));
        assert!(!check(&[(0x20, KNOWN + 64), RETURN_A]));
        assert!(!check(&[(0x20, 0)]));
    }

    #[test]
    fn a_message_between_processes_is_its_bytes() {
        assert_eq!(filter(&[(0x30, 1), RETURN_A]).judge_message(&[5, 6]), 6);
        assert_eq!(filter(&[(0x20, KNOWN + known::PROTOCOL), RETURN_A]).judge_message(&[5]), 0);
    }
}
