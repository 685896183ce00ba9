//! What IPsec takes of a segment: ESP in transport mode (RFC 4303) with AES-GCM and an ICV of 16 bytes (RFC 4106), over IPv4.
//!
//! A packet is IP's header (20 bytes), ESP's (8: SPI, sequence number), the IV (8), what is encrypted, and the ICV (16). What is encrypted is the TCP
//! segment, padding, and two bytes, the padding's length and the next header; all of it is a multiple of four bytes long.

use mio::net::TcpStream;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::SocketAddr;

/// Where the kernel does not tell.
pub const USUAL_MTU: u32 = 1500;

const IP_HEADER: u32 = 20;
const TCP_HEADER: u32 = 20;
const ESP_HEADER: u32 = 8;
const IV: u32 = 8;
const ICV: u32 = 16;
const TRAILER: u32 = 2;
const ALIGNMENT: u32 = 4;

/// Bytes that TCP may put behind its header, options among them, so that the packet with ESP is no longer than `mtu`: the maximum segment size.
pub fn segment(mtu: u32) -> u32 {
    let encrypted = mtu.saturating_sub(IP_HEADER + ESP_HEADER + IV + ICV) / ALIGNMENT * ALIGNMENT;
    encrypted.saturating_sub(TRAILER + TCP_HEADER).max(LEAST)
}

/// Linux's least for TCP_MAXSEG (TCP_MIN_MSS).
const LEAST: u32 = 88;

/// A connection whose segments are so long at most, in both directions: what is said in the SYN binds the other end.
pub fn connect(address: SocketAddr, segment: u32) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking().cloexec(), None)?;
    // The kernel's most is 32,767.
    socket.set_tcp_mss(segment.min(32_767))?;
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
        _ => {}
    }
    Ok(TcpStream::from_std(socket.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_with_esp_is_no_longer_than_the_way_allows() {
        assert_eq!(segment(1500), 1426);
        for mtu in 576..9000 {
            let inner = TCP_HEADER + segment(mtu) + TRAILER;
            let packet = |inner: u32| IP_HEADER + ESP_HEADER + IV + inner.next_multiple_of(ALIGNMENT) + ICV;
            assert!(packet(inner) <= mtu && packet(inner + 1) > mtu, "{mtu}");
        }
        assert_eq!(segment(0), LEAST);
    }

    #[test]
    fn both_ends_keep_to_the_segment() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = connect(listener.local_addr().unwrap(), 1426).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        // Less what time stamps take, where there are any.
        for socket in [Socket::from(std::net::TcpStream::from(sender)), Socket::from(accepted)] {
            assert!((1400..=1426).contains(&socket.tcp_mss().unwrap()));
        }
    }
}
