//! Random numbers: the one place that asks the system for them.

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use std::fs;
use std::io::Read;

/// A generator that begins with random bytes of the system's, which in a simulation follow from the experiment's seed.
pub fn from_system() -> Result<ChaCha20Rng, String> {
    let mut seed = [0; 32];
    let file = "/dev/urandom";
    fs::File::open(file).and_then(|mut file| file.read_exact(&mut seed)).map_err(|error| format!("{file}: {error}"))?;
    Ok(ChaCha20Rng::from_seed(seed))
}
