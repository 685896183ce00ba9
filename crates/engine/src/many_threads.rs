//! Tests of what workers meet by, on real threads; `tests/interleavings.rs` tries every order.

use crate::barrier::Barrier;
use crate::worklist::{Claim, WorkList};
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn nobody_passes_before_all_have_come() {
    for workers in [1, 2, 3, 7] {
        let barrier = Barrier::new(workers);
        let count = AtomicU64::new(0);
        let closed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    for round in 1..=2_000 {
                        count.fetch_add(1, Ordering::Relaxed);
                        barrier.meet(|| {
                            assert_eq!(count.load(Ordering::Relaxed), round * workers as u64);
                            closed.fetch_add(1, Ordering::Relaxed);
                        });
                        assert_eq!(closed.load(Ordering::Relaxed), round, "closed by one, before anybody goes on");
                        assert_eq!(count.load(Ordering::Relaxed), round * workers as u64);
                        barrier.meet(|| ());
                    }
                });
            }
        });
    }
}

#[test]
fn entries_are_for_their_round_only() {
    let list = WorkList::with_capacity(2);
    assert_eq!(list.claim(0), Claim::NotYet);
    list.publish(0, &[5, 6]);
    assert_eq!([list.claim(0), list.claim(0), list.claim(0)], [Claim::Entry(5), Claim::Entry(6), Claim::Empty]);
    assert_eq!(list.claim(1), Claim::NotYet);
    list.publish(1, &[7]);
    assert_eq!([list.claim(1), list.claim(1)], [Claim::Entry(7), Claim::Empty]);
}

#[test]
fn each_entry_is_claimed_once_by_any_number_of_threads() {
    let list = WorkList::with_capacity(10_000);
    let entries: Vec<u32> = (0..10_000).collect();
    list.publish(3, &entries);
    let claim_all =
        || std::iter::from_fn(|| if let Claim::Entry(e) = list.claim(3) { Some(e) } else { None }).collect();
    let mut claimed: Vec<u32> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(claim_all)).collect();
        threads.into_iter().flat_map(|t| -> Vec<u32> { t.join().unwrap() }).collect()
    });
    claimed.sort_unstable();
    assert_eq!(claimed, entries);
}
