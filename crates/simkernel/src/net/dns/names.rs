//! What the resolver knows: a name and the addresses of every host of the experiment, and `localhost`. Made once and shared by all hosts.

use crate::host::Addresses;
use base::map::FastMap;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A name as DNS transmits it: labels behind their lengths, and a zero at the end (RFC 1035 section 3.1). Here in lower case always.
type WireName = Box<[u8]>;

/// Longest name and longest label, in bytes (RFC 1035 section 2.3.4).
pub(super) const MAX_NAME: usize = 255;
pub(super) const MAX_LABEL: usize = 63;

/// Names and addresses, each by the other.
#[derive(Debug)]
pub struct NameTable {
    /// None: the name exists because others lie below it, without data of its own (RFC 8020 section 2).
    addresses: FastMap<WireName, Option<Addresses>>,
    names: BTreeMap<IpAddr, WireName>,
}

const LOCALHOST: Addresses = Addresses { v4: Ipv4Addr::LOCALHOST, v6: Some(Ipv6Addr::LOCALHOST) };

/// What there is under a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found<'a> {
    Addresses(Addresses),
    /// The name that an address has.
    Pointer(&'a [u8]),
    /// The name exists and has no data.
    Nothing,
    /// There is neither that name nor one below it.
    NoSuchName,
}

impl NameTable {
    /// The table of these hosts. Names that DNS cannot express (empty labels, labels above 63 bytes) are left out; where a name or
    /// an address comes twice, the first counts, as in `/etc/hosts`.
    pub fn new<'a>(hosts: impl IntoIterator<Item = (&'a str, Addresses)>) -> Self {
        let mut table = NameTable { addresses: FastMap::default(), names: BTreeMap::new() };
        for (name, addresses) in std::iter::once(("localhost", LOCALHOST)).chain(hosts) {
            if let Some(wire) = wire_name(name) {
                table.add(wire, addresses);
            }
        }
        table
    }

    fn add(&mut self, name: WireName, addresses: Addresses) {
        let mut parent = parent_of(&name);
        while !parent.is_empty() {
            self.addresses.entry(parent.into()).or_default();
            parent = parent_of(parent);
        }
        for address in [Some(addresses.v4.into()), addresses.v6.map(IpAddr::V6)].into_iter().flatten() {
            self.names.entry(address).or_insert_with(|| name.clone());
        }
        self.addresses.entry(name).or_default().get_or_insert(addresses);
    }

    /// Looks up a name in wire format and lower case.
    pub(super) fn find(&self, name: &[u8]) -> Found<'_> {
        match self.addresses.get(name) {
            Some(Some(addresses)) => return Found::Addresses(*addresses),
            Some(None) => return Found::Nothing,
            None => {}
        }
        if name == b"\0" || name == b"\x04arpa\0" {
            Found::Nothing
        } else if let Some(octets) = strip_zone(name, b"\x07in-addr\x04arpa\0") {
            self.find_v4(octets)
        } else if let Some(nibbles) = strip_zone(name, b"\x03ip6\x04arpa\0") {
            self.find_v6(nibbles)
        } else if strip_zone(name, b"\x09localhost\0").is_some() {
            // RFC 6761 section 6.3: every name below localhost is it, too.
            Found::Addresses(LOCALHOST)
        } else {
            Found::NoSuchName
        }
    }

    /// RFC 1035 section 3.5: the octets of an address, last first, as labels in decimal; fewer than four stand for all addresses
    /// that begin so.
    fn find_v4(&self, labels: &[u8]) -> Found<'_> {
        let mut octets = Vec::with_capacity(4);
        for label in labels_of(labels) {
            match decimal(label) {
                Some(octet) if octets.len() < 4 => octets.insert(0, octet),
                _ => return Found::NoSuchName,
            }
        }
        let with_rest = |rest: u8| {
            let mut whole = [rest; 4];
            whole[..octets.len()].copy_from_slice(&octets);
            IpAddr::from(whole)
        };
        self.find_between(with_rest(0), with_rest(255))
    }

    /// RFC 3596 section 2.5: the nibbles of an address, last first, as labels in hexadecimal.
    fn find_v6(&self, labels: &[u8]) -> Found<'_> {
        let (mut prefix, mut count) = (0u128, 0);
        for label in labels_of(labels) {
            let nibble = match label {
                [digit @ (b'0'..=b'9' | b'a'..=b'f')] if count < 32 => char::from(*digit).to_digit(16),
                _ => None,
            };
            let Some(nibble) = nibble else { return Found::NoSuchName };
            prefix |= u128::from(nibble) << (4 * count);
            count += 1;
        }
        let rest = 128 - 4 * count;
        let low = prefix.checked_shl(rest).unwrap_or(0);
        let high = low | 1u128.checked_shl(rest).map_or(u128::MAX, |end| end - 1);
        self.find_between(IpAddr::from(low.to_be_bytes()), IpAddr::from(high.to_be_bytes()))
    }

    /// The one address that both ends are, or whether there is any between them.
    fn find_between(&self, low: IpAddr, high: IpAddr) -> Found<'_> {
        match self.names.range(low..=high).next() {
            Some((_, name)) if low == high => Found::Pointer(name),
            Some(_) => Found::Nothing,
            None => Found::NoSuchName,
        }
    }
}

/// A name in text as wire format; None when it has no such form.
fn wire_name(name: &str) -> Option<WireName> {
    let mut wire = Vec::with_capacity(name.len() + 2);
    for label in name.split('.') {
        if label.is_empty() || label.len() > MAX_LABEL {
            return None;
        }
        wire.push(label.len() as u8);
        wire.extend(label.bytes().map(|byte| byte.to_ascii_lowercase()));
    }
    wire.push(0);
    (wire.len() <= MAX_NAME).then(|| wire.into())
}

/// The name without its first label; empty for the root.
fn parent_of(name: &[u8]) -> &[u8] {
    match name[0] {
        0 => &[],
        len => &name[1 + usize::from(len)..],
    }
}

/// The labels of a name without its final zero.
fn labels_of(mut name: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, rest) = name.split_first()?;
        let (label, rest) = rest.split_at(usize::from(*len));
        name = rest;
        Some(label)
    })
}

/// The labels of `name` before `zone`, if that is where it lies.
fn strip_zone<'a>(name: &'a [u8], zone: &[u8]) -> Option<&'a [u8]> {
    let mut rest = name;
    while rest.len() > zone.len() {
        rest = parent_of(rest);
    }
    (rest == zone).then(|| &name[..name.len() - zone.len()])
}

/// An octet as `in-addr.arpa` has it: without leading zeros.
fn decimal(label: &[u8]) -> Option<u8> {
    let canonical = label == b"0" || (label.first() != Some(&b'0') && label.iter().all(u8::is_ascii_digit));
    canonical.then(|| std::str::from_utf8(label).ok()?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> NameTable {
        let hosts = [("web", [11, 0, 0, 1]), ("www.example.com", [11, 0, 1, 2]), ("again", [11, 0, 0, 1])];
        NameTable::new(hosts.map(|(name, v4)| (name, addresses(v4))))
    }

    /// Only the first network has IPv6.
    fn addresses(v4: [u8; 4]) -> Addresses {
        let v6 = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0xb00, u16::from(v4[3]));
        Addresses { v4: v4.into(), v6: (v4[2] == 0).then_some(v6) }
    }

    fn find<'a>(table: &'a NameTable, name: &str) -> Found<'a> {
        let wire = if name.is_empty() { b"\0"[..].into() } else { wire_name(name).unwrap() };
        table.find(&wire)
    }

    #[test]
    fn hosts_have_addresses_and_addresses_names() {
        let table = table();
        assert_eq!(find(&table, "web"), Found::Addresses(addresses([11, 0, 0, 1])));
        assert_eq!(find(&table, "again"), Found::Addresses(addresses([11, 0, 0, 1])));
        assert_eq!(find(&table, "www.example.com"), Found::Addresses(addresses([11, 0, 1, 2])));
        assert_eq!(find(&table, "1.0.0.11.in-addr.arpa"), Found::Pointer(b"\x03web\0"));
        assert_eq!(find(&table, "2.1.0.11.in-addr.arpa"), Found::Pointer(b"\x03www\x07example\x03com\0"));
        assert_eq!(find(&table, "1.0.0.127.in-addr.arpa"), Found::Pointer(b"\x09localhost\0"));
    }

    #[test]
    fn localhost_and_all_below_it_are_the_host_itself() {
        let table = table();
        assert_eq!(find(&table, "localhost"), Found::Addresses(LOCALHOST));
        assert_eq!(find(&table, "a.b.localhost"), Found::Addresses(LOCALHOST));
        assert_eq!(find(&table, "notlocalhost"), Found::NoSuchName);
        // A label that only looks as if it ended there.
        assert_eq!(table.find(b"\x0b.\x09localhost\0"), Found::NoSuchName);
        assert_eq!(table.find(b"\x0e1\x07in-addr\x04arpa\0"), Found::NoSuchName);
    }

    #[test]
    fn addresses_of_ipv6_have_names_by_their_nibbles() {
        let table = table();
        let web = format!("1.0.0.0.0.0.b.0{}.0.0.d.f.ip6.arpa", ".0".repeat(20));
        assert_eq!(find(&table, &web), Found::Pointer(b"\x03web\0"));
        let local = format!("1{}.ip6.arpa", ".0".repeat(31));
        assert_eq!(find(&table, &local), Found::Pointer(b"\x09localhost\0"));
        for above in ["ip6.arpa", "d.f.ip6.arpa", &web[2..], &local[2..]] {
            assert_eq!(find(&table, above), Found::Nothing, "{above}");
        }
        let other = web.replacen('1', "2", 1);
        for nothing in [&other, &format!("0.{web}"), "e.f.ip6.arpa", "00.ip6.arpa", "g.ip6.arpa", "-.ip6.arpa"] {
            assert_eq!(find(&table, nothing), Found::NoSuchName, "{nothing}");
        }
    }

    #[test]
    fn names_above_others_exist_without_data() {
        let table = table();
        for name in ["", "com", "example.com", "arpa", "in-addr.arpa", "11.in-addr.arpa", "1.0.11.in-addr.arpa"] {
            assert_eq!(find(&table, name), Found::Nothing, "{name}");
        }
    }

    #[test]
    fn everything_else_does_not_exist() {
        let table = table();
        let reverse = ["2.0.0.11", "12", "2.0.11", "01.0.0.11", "1.0.0.256", "5.1.0.0.11", "x.0.0.11", "+1.0.0.11"];
        let reverse = reverse.map(|octets| format!("{octets}.in-addr.arpa"));
        for name in ["xweb", "a.web", "example.org", "ip7.arpa", "net"] {
            assert_eq!(find(&table, name), Found::NoSuchName, "{name}");
        }
        for name in reverse {
            assert_eq!(find(&table, &name), Found::NoSuchName, "{name}");
        }
    }

    #[test]
    fn names_that_dns_cannot_express_are_left_out() {
        let long = "a".repeat(64);
        for name in ["", "a..b", "a.", &long, &["a"; 128].join(".")] {
            assert_eq!(wire_name(name), None, "{name}");
        }
        assert_eq!(wire_name(&["a"; 127].join(".")).unwrap().len(), MAX_NAME);
        assert_eq!(wire_name("Web").unwrap()[..], *b"\x03web\0");
    }
}
