//! How much the machine has left: mappings that this process may have (`vm.max_map_count`), and memory. What a guest asks beyond is
//! refused to it while there is still enough for all the others.
//!
//! Both are measured when a budget that was taken from the last measurement is used up, since measuring is slow: counting mappings
//! takes some 0.2 us for each. What is given back meanwhile shows in the next measurement.

use super::available;
use crate::counters::counters;
use std::cell::Cell;
use std::io::Read;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Mappings that no guest gets: turns need some while they move memory, and the simulator's own threads and buffers.
const MAPPINGS_KEPT: i64 = 2_000;
/// The part of what is available that may be used up before it is measured again: others use memory too.
const BYTES_PART: i64 = 8;

/// After a refusal mappings are counted again once the map was changed so often: by less, hardly more has become free.
const CHANGES_TO_COUNT_AGAIN: u64 = 32;
/// Or once it was changed over so many bytes.
const MANY_BYTES: u64 = 64 * 4096;

static MAPPINGS: Budget = Budget::new();
/// How often the map had been changed when a mapping was refused last; `u64::MAX` as long as none was.
static REFUSED_AT: AtomicU64 = AtomicU64::new(u64::MAX);
/// How many there were then.
static LEFT_THEN: AtomicI64 = AtomicI64::new(0);

thread_local! {
    static RAN_OUT: Cell<bool> = const { Cell::new(false) };
}

static BYTES: Budget = Budget::new();
static GROWTH: Budget = Budget::new();

/// What may be used before the next measurement.
struct Budget {
    left: AtomicI64,
    measuring: Mutex<()>,
}

impl Budget {
    const fn new() -> Budget {
        Budget { left: AtomicI64::new(0), measuring: Mutex::new(()) }
    }

    /// Takes from the budget. `measure` tells what there is and how much of it may be taken without asking again.
    fn take(&self, wanted: i64, measure: impl Fn() -> (i64, i64)) -> bool {
        if self.left.fetch_sub(wanted, Ordering::Relaxed) >= wanted {
            return true;
        }
        let _measuring = self.measuring.lock().unwrap_or_else(PoisonError::into_inner);
        let (there, budget) = measure();
        let enough = there >= wanted;
        self.left.store(if enough { budget - wanted } else { 0 }, Ordering::Relaxed);
        enough
    }
}

/// Whether so many mappings more can be made.
pub(super) fn for_mappings(count: usize) -> bool {
    let changes = counters().map_calls;
    let refused_at = REFUSED_AT.load(Ordering::Relaxed);
    let may_be_there = refused_at == u64::MAX
        || count as i64 <= LEFT_THEN.load(Ordering::Relaxed)
        || changes.wrapping_sub(refused_at) >= CHANGES_TO_COUNT_AGAIN;
    let is_there = may_be_there
        && MAPPINGS.take(count as i64, || {
            let left = mappings_limit() - mappings_now() - MAPPINGS_KEPT;
            LEFT_THEN.store(left, Ordering::Relaxed);
            REFUSED_AT.store(if left >= count as i64 { u64::MAX } else { changes }, Ordering::Relaxed);
            (left, left)
        });
    if !is_there {
        RAN_OUT.set(true);
    }
    is_there
}

/// The map was changed over so many bytes: by one change of many pages many mappings can become free.
pub(super) fn changed(bytes: u64) {
    if bytes >= MANY_BYTES && REFUSED_AT.load(Ordering::Relaxed) != u64::MAX {
        REFUSED_AT.store(u64::MAX, Ordering::Relaxed);
    }
}

/// Whether a mapping was refused on this thread since it was asked last, because this process has as many as the machine allows.
pub fn mappings_ran_out() -> bool {
    RAN_OUT.take()
}

/// The same, and it can be asked again.
pub(crate) fn ran_out() -> bool {
    RAN_OUT.get()
}

/// Whether so many bytes of memory more can be touched.
pub(super) fn for_bytes(bytes: u64) -> bool {
    BYTES.take(bytes as i64, || {
        let left = available::now() - bytes_kept();
        (left, left / BYTES_PART)
    })
}

/// Whether a guest may map so many bytes more that it can write. As in Linux it may map more than it can touch, but no piece larger
/// than all memory (`reserved`: unless it says that it knows), and nothing while memory is short.
pub fn for_growth(bytes: u64, reserved: bool) -> bool {
    let possible = reserved || i64::try_from(bytes).is_ok_and(|bytes| bytes <= available::total() + available::swap());
    possible
        && GROWTH.take(i64::try_from(bytes).unwrap_or(i64::MAX / 2), || {
            let left = available::now() - bytes_kept();
            (if left > 0 { i64::MAX } else { 0 }, left / BYTES_PART)
        })
}

/// How memory stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shortage {
    None,
    /// A guest that touches memory could use up the rest within a second.
    Near,
    /// Half of what is kept is gone too, since guests touch what they had mapped before.
    Here,
}

/// Looks how much memory there is, in some 20 us.
pub fn shortage() -> Shortage {
    let left = available::now() - bytes_kept();
    if left <= -bytes_kept() / 2 {
        Shortage::Here
    } else if left < available::total() / 4 {
        Shortage::Near
    } else {
        Shortage::None
    }
}

fn mappings_limit() -> i64 {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count");
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(65_530)
}

/// How many mappings this process has; 0 when the kernel does not tell, which leaves the limit to it.
fn mappings_now() -> i64 {
    let Ok(mut file) = std::fs::File::open("/proc/self/maps") else { return 0 };
    let mut buffer = vec![0; 1 << 16];
    let mut lines = 0;
    while let Ok(length @ 1..) = file.read(&mut buffer) {
        lines += buffer[..length].iter().filter(|byte| **byte == b'\n').count() as i64;
    }
    lines
}

/// Bytes of memory that no guest gets: others of the machine need some, and what touched the last of it would end the whole run.
fn bytes_kept() -> i64 {
    (available::total() / 16).clamp(32 << 20, 4 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_budget_is_measured_when_it_is_used_up_and_refuses_only_what_is_not_there() {
        let (budget, there, measured) = (Budget::new(), Cell::new(100), Cell::new(0));
        let measure = || {
            measured.set(measured.get() + 1);
            (there.get(), there.get() / 2)
        };
        assert!(budget.take(10, measure) && budget.take(40, measure));
        assert_eq!(measured.get(), 1);
        there.set(30);
        assert!(budget.take(30, measure) && !budget.take(31, measure));
        there.set(31);
        assert!(budget.take(31, measure));
        assert_eq!(measured.get(), 4);
    }

    #[test]
    fn this_machine_has_room_and_not_without_end() {
        assert!(mappings_now() > 10 && mappings_limit() > mappings_now());
        assert!(for_mappings(10) && !for_mappings(1 << 40));
        assert!(for_bytes(4096) && !for_bytes(1 << 60));
        assert!(for_growth(4096, false) && for_growth(1 << 46, true) && !for_growth(1 << 46, false));
        assert!(shortage() < Shortage::Here);
    }
}
