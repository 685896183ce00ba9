//! NETINFO, which says the time and who sees whom under which address (tor-spec, "NETINFO cells").

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Netinfo {
    /// Seconds since 1970; 0 by clients, who do not tell.
    pub time_s: u32,
    /// Under which the sender sees the receiver.
    pub other: Option<IpAddr>,
    /// The sender's own.
    pub own: Vec<IpAddr>,
}

impl Netinfo {
    pub fn write(&self) -> Vec<u8> {
        let mut body = self.time_s.to_be_bytes().to_vec();
        address(&mut body, self.other.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)));
        body.push(self.own.len().min(8) as u8);
        for own in self.own.iter().take(8) {
            address(&mut body, *own);
        }
        body
    }

    /// Nothing if it ends too early; addresses of unknown kinds are passed over.
    pub fn read(body: &[u8]) -> Option<Netinfo> {
        let (time, rest) = body.split_first_chunk::<4>()?;
        let (other, rest) = read_address(rest)?;
        let (count, mut rest) = rest.split_first()?;
        let mut own = Vec::new();
        for _ in 0..*count {
            let (address, after) = read_address(rest)?;
            own.extend(address);
            rest = after;
        }
        Some(Netinfo { time_s: u32::from_be_bytes(*time), other, own })
    }
}

fn address(body: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            body.extend_from_slice(&[4, 4]);
            body.extend_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            body.extend_from_slice(&[6, 16]);
            body.extend_from_slice(&address.octets());
        }
    }
}

fn read_address(bytes: &[u8]) -> Option<(Option<IpAddr>, &[u8])> {
    let ([kind, length], rest) = bytes.split_first_chunk::<2>()?;
    let (value, rest) = rest.split_at_checked(usize::from(*length))?;
    let address = match kind {
        4 => value.try_into().ok().map(|octets: [u8; 4]| IpAddr::V4(Ipv4Addr::from(octets))),
        6 => value.try_into().ok().map(|octets: [u8; 16]| IpAddr::V6(Ipv6Addr::from(octets))),
        _ => None,
    };
    Some((address, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn netinfo_comes_back_as_it_was_written() {
        let netinfo = Netinfo {
            time_s: 946_684_800,
            other: Some("1.2.3.4".parse().expect("an address")),
            own: vec!["5.6.7.8".parse().expect("an address"), "::9".parse().expect("an address")],
        };
        let body = netinfo.write();
        assert_eq!(Netinfo::read(&body), Some(netinfo));
        for end in 0..body.len() {
            assert_eq!(Netinfo::read(&body[..end]), None);
        }
    }
}
