//! Memory that the C library keeps for later, which a client among thousands on one machine has no use for.
#![allow(unsafe_code, reason = "neither the standard library nor nix asks for malloc_trim")]

/// Gives free memory back to the system: a directory's documents take several times what is kept of them.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: frees only what nobody has; malloc_trim(3) may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
