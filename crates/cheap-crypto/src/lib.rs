//! Cheap ciphers in place of OpenSSL's: a shared object that guests load before libcrypto (`LD_PRELOAD`), for experiments in which
//! nobody listens and processor time is what matters (`experimental.cheap_crypto`). **It protects nothing**: it keeps the form of
//! ciphers (lengths, tags, positions, wrong keys that fail), and none of their strength.
//!
//! Two uses of libcrypto are replaced, both by who calls what: tor's AES in counter mode and of single blocks, which is its relay
//! cells, and what libssl encrypts records of TLS 1.3 with. All else that a program does with libcrypto is libcrypto's: digests, keys,
//! signatures, TLS 1.2, files that a program encrypts for itself.
//!
//! `cipher.rs` is the cheap cipher, `record.rs` a cipher with a tag made of it; `context.rs` is what this library keeps for an
//! `EVP_CIPHER_CTX`, `evp.rs` holds the functions that take the place of libcrypto's, `original.rs` finds libcrypto's own, and
//! `setting.rs` knows what the experiment wants replaced, and who asks. Nothing of the simulator knows this crate.

mod cipher;
mod context;
mod evp;
mod original;
mod record;
mod setting;
