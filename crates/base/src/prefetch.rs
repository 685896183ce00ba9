//! Memory that is needed soon: a hint to the processor, without any effect that a program could see.

/// Asks the processor to bring the cache lines of a value near, while other work is done. On other processors than x86-64 nothing is asked.
#[inline]
#[allow(unsafe_code, reason = "the instruction is only offered for a bare pointer")]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..size_of::<T>()).step_by(CACHE_LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing, whatever the address, and this one lies inside the value.
        unsafe { _mm_prefetch::<_MM_HINT_T0>((&raw const *value).cast::<i8>().add(line)) }
    }
}

/// Bytes of a cache line.
const CACHE_LINE: usize = 64;
