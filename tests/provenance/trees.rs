//! Packets that belong together.

use crate::common::{folder, wrote};
use crate::record;
use crate::table::{Row, Table, number, word};
use std::collections::BTreeMap;

#[test]
fn a_tree_has_fragments_copies_and_what_quotes_a_packet() {
    let folder = folder("provenance-trees");
    let data = record(&folder, "run", "packets", "1");
    let (sent, received) = (Table::read(&data, "sent"), Table::read(&data, "received"));
    let packets = sent.by("packet");
    let arrived: BTreeMap<u64, &Row> = received.rows.iter().map(|row| (number(row, "packet"), row)).collect();

    // Datagrams of 8 KB: six fragments each, named by their datagram; whole if all came, else the lost one has a name.
    let (mut whole, mut broken) = (0, 0);
    for parent in sent.rows.iter().filter(|row| word(row, "fate") == "fragmented") {
        let number_of = number(parent, "packet");
        let fragments: Vec<&Row> = sent.rows.iter().filter(|row| number(row, "parent") == number_of).collect();
        assert_eq!(fragments.len(), 6, "{parent:?}");
        // It goes where they go, and has left when the last of them has.
        let left = |row: &Row| number(row, "made_ns") + number(row, "uplink_ns");
        let last = fragments.iter().max_by_key(|row| left(row)).expect("six");
        for value in [left, |row| number(row, "to_host"), |row| number(row, "route_ns")] as [fn(&Row) -> u64; 3] {
            assert_eq!(value(parent), value(last), "{parent:?} {last:?}");
        }
        let fates: Vec<&str> = fragments
            .iter()
            .map(|row| arrived.get(&number(row, "packet")).map_or("", |row| word(row, "fate")))
            .collect();
        let lost = fragments.iter().filter(|row| word(row, "fate") == "lost").count();
        let dropped = fates.iter().filter(|fate| **fate == "dropped").count();
        if lost + dropped == 0 {
            assert!(fates.iter().all(|fate| *fate == "read"), "{fates:?}");
            whole += 1;
        } else {
            assert!(fates.iter().all(|fate| matches!(*fate, "incomplete" | "dropped" | "")), "{fates:?}");
            broken += 1;
        }
    }
    let back: usize = wrote(&data.join("hosts"), "other", "stdout").trim().parse().unwrap();
    assert!(whole >= 2 * back && broken >= 1 && whole + broken >= 40, "{whole} {broken} {back}");

    // Copies name what carried the byte before, on the same stream and at the same place.
    let copies: Vec<&Row> = sent.rows.iter().filter(|row| number(row, "copy_of") != 0).collect();
    assert!(copies.len() >= 5, "{}", copies.len());
    for copy in copies {
        let original = packets[&number(copy, "copy_of")];
        assert_eq!(number(original, "stream"), number(copy, "stream"));
        let (from, to) = (number(original, "offset"), number(original, "offset") + number(original, "payload"));
        let at = number(copy, "offset");
        assert!(number(copy, "payload") == 0 || (from..to).contains(&at), "{original:?} {copy:?}");
        assert!(number(original, "made_ns") <= number(copy, "made_ns"));
    }

    // The datagram for nobody, and the ICMP message that quotes it.
    let error = sent.rows.iter().find(|row| number(row, "protocol") == 1).expect("an ICMP message");
    let quoted = number(error, "quotes");
    assert_eq!(word(arrived[&quoted], "fate"), "nobody");
    assert_eq!(number(packets[&quoted], "payload"), 6);
}
