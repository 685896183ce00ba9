//! Packets as bytes for another process of the same run: exactly what the packet in memory holds, trains and all, without checksums.
//! Both processes are one build, so the form has no version.

use crate::packet::{Packet, Transport};
use crate::wire::WireError;
use crate::wire::icmp::IcmpHeader;
use crate::wire::ip::IpHeader;
use crate::wire::tcp::TcpHeader;
use crate::wire::udp::UdpHeader;
use bytes::Bytes;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const TCP: u8 = 0;
const UDP: u8 = 1;
const ICMP: u8 = 2;
const ICMP6: u8 = 3;
const RAW: u8 = 4;

const IS_V6: u8 = 1;
const DONT_FRAGMENT: u8 = 2;
const MORE_FRAGMENTS: u8 = 4;

impl Packet {
    /// Appends all that the packet is: some 50 bytes and the payload.
    pub fn pack(&self, out: &mut Vec<u8>) {
        pack_ip(&self.ip, out);
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.train_mss.to_le_bytes());
        out.extend_from_slice(&(self.payload.len() as u32).to_le_bytes());
        match &self.transport {
            Transport::Tcp(tcp) => {
                out.push(TCP);
                tcp.emit(out);
            }
            Transport::Udp(udp) => {
                out.push(UDP);
                out.extend_from_slice(&udp.src_port.to_le_bytes());
                out.extend_from_slice(&udp.dst_port.to_le_bytes());
            }
            Transport::Icmp(icmp) => pack_icmp(ICMP, icmp, out),
            Transport::Icmp6(icmp) => pack_icmp(ICMP6, icmp, out),
            Transport::Raw { protocol } => out.extend_from_slice(&[RAW, *protocol]),
        }
        out.extend_from_slice(&self.payload);
    }

    /// Takes the packet that [`Packet::pack`] made off the beginning of `bytes`.
    ///
    /// # Errors
    /// When they are no packet; `bytes` is anywhere then.
    pub fn unpack(bytes: &mut &[u8]) -> Result<Packet, WireError> {
        let ip = unpack_ip(bytes)?;
        let number = u64::from_le_bytes(take(bytes)?);
        let train_mss = u16::from_le_bytes(take(bytes)?);
        let length = u32::from_le_bytes(take(bytes)?) as usize;
        let [kind] = take(bytes)?;
        let transport = match kind {
            TCP => {
                let (tcp, rest) = TcpHeader::parse(bytes)?;
                *bytes = rest;
                Transport::Tcp(tcp)
            }
            UDP => {
                let (src_port, dst_port) = (u16::from_le_bytes(take(bytes)?), u16::from_le_bytes(take(bytes)?));
                Transport::Udp(UdpHeader { src_port, dst_port })
            }
            ICMP => Transport::Icmp(unpack_icmp(bytes)?),
            ICMP6 => Transport::Icmp6(unpack_icmp(bytes)?),
            RAW => {
                let [protocol] = take(bytes)?;
                Transport::Raw { protocol }
            }
            _ => return Err(WireError::Malformed),
        };
        let (payload, rest) = bytes.split_at_checked(length).ok_or(WireError::Truncated)?;
        *bytes = rest;
        Ok(Packet { ip, transport, payload: Bytes::copy_from_slice(payload), train_mss, number })
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], WireError> {
    let (taken, rest) = bytes.split_first_chunk().ok_or(WireError::Truncated)?;
    *bytes = rest;
    Ok(*taken)
}

fn pack_ip(ip: &IpHeader, out: &mut Vec<u8>) {
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    let flags =
        flag(ip.is_v6(), IS_V6) | flag(ip.dont_fragment, DONT_FRAGMENT) | flag(ip.more_fragments, MORE_FRAGMENTS);
    out.extend_from_slice(&[flags, ip.ttl, ip.tos]);
    out.extend_from_slice(&ip.id.to_le_bytes());
    out.extend_from_slice(&ip.fragment_offset.to_le_bytes());
    for address in [ip.src, ip.dst] {
        match address {
            IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
            IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
        }
    }
}

fn unpack_ip(bytes: &mut &[u8]) -> Result<IpHeader, WireError> {
    let [flags, ttl, tos] = take(bytes)?;
    let id = u32::from_le_bytes(take(bytes)?);
    let fragment_offset = u16::from_le_bytes(take(bytes)?);
    let mut address = || -> Result<IpAddr, WireError> {
        Ok(match flags & IS_V6 {
            0 => Ipv4Addr::from(take::<4>(bytes)?).into(),
            _ => Ipv6Addr::from(take::<16>(bytes)?).into(),
        })
    };
    let (src, dst) = (address()?, address()?);
    let (dont_fragment, more_fragments) = (flags & DONT_FRAGMENT != 0, flags & MORE_FRAGMENTS != 0);
    Ok(IpHeader { src, dst, id, ttl, tos, dont_fragment, more_fragments, fragment_offset })
}

fn pack_icmp(kind: u8, icmp: &IcmpHeader, out: &mut Vec<u8>) {
    out.extend_from_slice(&[kind, icmp.kind, icmp.code]);
    out.extend_from_slice(&icmp.rest.to_le_bytes());
}

fn unpack_icmp(bytes: &mut &[u8]) -> Result<IcmpHeader, WireError> {
    let [kind, code] = take(bytes)?;
    Ok(IcmpHeader { kind, code, rest: u32::from_le_bytes(take(bytes)?) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tcp::{SackBlocks, TcpFlags, TcpOptions, Timestamps, WindowScale};
    use std::num::NonZeroU16;

    fn all() -> Vec<Packet> {
        let v4 = IpHeader { id: 0xbeef, ..IpHeader::new([11, 0, 0, 1], [11, 0, 0, 2]) };
        let v6 = |last| Ipv6Addr::new(0xfd00, 0x6e, 0, 0, 0, 0, 0xb00, last);
        let v6 = IpHeader { tos: 0x28, id: 0xdead_beef, ..IpHeader::new(v6(1), v6(2)) };
        let mut sack = SackBlocks::default();
        for block in 0..3 {
            assert!(sack.push(block * 100, block * 100 + 50));
        }
        let stamps = Some(Timestamps { value: 1, echo: u32::MAX });
        let syn = TcpOptions {
            mss: NonZeroU16::new(1460),
            window_scale: Some(WindowScale::new(7)),
            sack_permitted: true,
            timestamps: stamps,
            ..TcpOptions::default()
        };
        let ack = TcpOptions { timestamps: stamps, sack, ..TcpOptions::default() };
        let tcp = |flags, options| {
            Transport::Tcp(TcpHeader {
                src_port: 40_000,
                dst_port: 80,
                seq: 0xffff_fff0,
                ack: 7,
                flags,
                window: 9,
                options,
            })
        };
        let icmp = IcmpHeader { kind: 3, code: 1, rest: 0x1234_5678 };
        let train = Bytes::from((0..200_000u32).map(|byte| byte as u8).collect::<Vec<_>>());
        let mut packets = Vec::new();
        for ip in [v4, v6] {
            packets.push(Packet::new(ip, tcp(TcpFlags::SYN, syn.clone()), Bytes::new()));
            packets.push(Packet::new(ip, tcp(TcpFlags::ACK | TcpFlags::PSH, ack.clone()), Bytes::from_static(b"odd")));
            let long = tcp(TcpFlags::ACK | TcpFlags::FIN, TcpOptions::default());
            packets.push(Packet { train_mss: 1448, number: 9 << 40 | 7, ..Packet::new(ip, long, train.clone()) });
            let udp = Transport::Udp(UdpHeader { src_port: 53, dst_port: 9 });
            packets.push(Packet::new(ip, udp, Bytes::from_static(b"hello")));
            packets.push(Packet::new(ip, Transport::Icmp(icmp), Bytes::from_static(b"xyz")));
            packets.push(Packet::new(ip, Transport::Icmp6(icmp), Bytes::new()));
            let fragment = IpHeader { more_fragments: true, fragment_offset: 185, dont_fragment: false, ttl: 3, ..ip };
            packets.push(Packet::new(fragment, Transport::Raw { protocol: 17 }, Bytes::from_static(b"fragment")));
        }
        packets
    }

    #[test]
    fn packets_come_out_as_they_went_in() {
        let packets = all();
        let mut bytes = Vec::new();
        packets.iter().for_each(|packet| packet.pack(&mut bytes));
        let mut rest = bytes.as_slice();
        for packet in &packets {
            assert_eq!(Packet::unpack(&mut rest).as_ref(), Ok(packet));
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        for packet in all().iter().filter(|packet| packet.train_mss == 0) {
            let mut bytes = Vec::new();
            packet.pack(&mut bytes);
            for length in 0..bytes.len() {
                assert!(Packet::unpack(&mut &bytes[..length]).is_err(), "{length} bytes of {packet:?}");
            }
        }
    }
}
