//! What this library keeps for an `EVP_CIPHER_CTX`: whether its cipher is replaced, and how far it is.
//!
//! It hangs where programs may keep a pointer of their own (`EVP_CIPHER_CTX_set_app_data`), which costs nothing to look up; a program's own
//! pointer is kept in here then.

#![allow(unsafe_code)]

use crate::cipher::{BLOCK, Block, Counter, Key};
use crate::original::{self, Cipher, Ctx};
use crate::record::Record;
use libc::c_void;

/// What takes the place of a context's cipher.
#[derive(Clone)]
pub enum Kind {
    /// Nothing.
    Original,
    /// tor's counter mode.
    Counter { key: Key, counter: Counter },
    /// tor's single blocks.
    Blocks { key: Key },
    /// A cipher with a tag, of libssl's: there are fewer of these than of circuits, and they are larger.
    Records(Box<Records>),
}

/// A direction of a connection.
#[derive(Clone, Copy)]
pub struct Records {
    /// None until the key is given.
    pub key: Option<Key>,
    pub encrypts: bool,
    /// The record that is under way.
    pub record: Option<Record>,
    /// What was received, or is to be sent, of which the first bytes count.
    pub tag: Block,
    pub tag_len: usize,
}

#[derive(Clone)]
pub struct State {
    pub kind: Kind,
    /// What the program was told to be using, with the length of its key in bytes.
    pub cipher: *const Cipher,
    pub key_len: usize,
    /// The program's own pointer.
    pub app_data: *mut c_void,
}

/// What is replaced, and how long its key is in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Known {
    Counter(usize),
    Blocks(usize),
    Tagged(usize),
}

/// By the numbers that OpenSSL gives to ciphers (NIDs), which never change.
pub fn known(nid: i32) -> Option<Known> {
    Some(match nid {
        904 => Known::Counter(16), // AES-128-CTR
        905 => Known::Counter(24),
        906 => Known::Counter(32),
        418 => Known::Blocks(16), // AES-128-ECB
        422 => Known::Blocks(24),
        426 => Known::Blocks(32),
        895 => Known::Tagged(16), // AES-128-GCM
        898 => Known::Tagged(24),
        901 => Known::Tagged(32),
        1018 => Known::Tagged(32), // ChaCha20-Poly1305
        _ => return None,
    })
}

impl State {
    fn new(kind: Kind) -> State {
        State { kind, cipher: std::ptr::null(), key_len: 0, app_data: std::ptr::null_mut() }
    }

    pub fn records(&mut self) -> Option<&mut Records> {
        match &mut self.kind {
            Kind::Records(records) => Some(records),
            _ => None,
        }
    }
}

impl Records {
    pub fn new(encrypts: bool) -> Box<Records> {
        Box::new(Records { key: None, encrypts, record: None, tag: [0; BLOCK], tag_len: 0 })
    }
}

/// # Safety
///
/// `ctx` must be a context of libcrypto's, or null, and nobody else use it meanwhile, as libcrypto demands too.
#[inline]
pub unsafe fn state<'a>(ctx: *const Ctx) -> Option<&'a mut State> {
    if ctx.is_null() {
        return None;
    }
    // SAFETY: the caller's; what hangs there is null or was put there by `attach`, since all others' goes through this library.
    unsafe { original::EVP_CIPHER_CTX_get_app_data()?(ctx).cast::<State>().as_mut() }
}

/// Takes the place of what was there; the program's own pointer stays. Without libcrypto's part in it, nothing is replaced.
///
/// # Safety
///
/// As of `state`; `ctx` is not null.
pub unsafe fn attach<'a>(ctx: *mut Ctx, kind: Kind) -> Option<&'a mut State> {
    // SAFETY: the caller's.
    unsafe {
        if let Some(state) = state(ctx) {
            state.kind = kind;
            return Some(state);
        }
        let set = original::EVP_CIPHER_CTX_set_app_data()?;
        original::EVP_CIPHER_CTX_get_app_data()?;
        let new = Box::into_raw(Box::new(State::new(kind)));
        set(ctx, new.cast());
        new.as_mut()
    }
}

/// Forgets all of it.
///
/// # Safety
///
/// As of `state`.
pub unsafe fn detach(ctx: *mut Ctx) {
    // SAFETY: the caller's; what hangs there came from a Box, and nothing points to it any more.
    unsafe {
        if let (Some(state), Some(set)) = (state(ctx), original::EVP_CIPHER_CTX_set_app_data()) {
            set(ctx, std::ptr::null_mut());
            drop(Box::from_raw(state));
        }
    }
}

/// After libcrypto has copied `from` to `to`, with the pointer to what hangs at `from`: gives `to` its own, or nothing when that failed.
///
/// # Safety
///
/// As of `state`.
pub unsafe fn copy(to: *mut Ctx, from: *const Ctx, done: bool) {
    // SAFETY: the caller's.
    unsafe {
        let (Some(state), Some(set)) = (state(from), original::EVP_CIPHER_CTX_set_app_data()) else { return };
        let own = if done { Box::into_raw(Box::new(state.clone())) } else { std::ptr::null_mut() };
        set(to, own.cast());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As <openssl/obj_mac.h> has them.
    #[test]
    fn ciphers_are_known_by_their_numbers() {
        let header = std::fs::read_to_string("/usr/include/openssl/obj_mac.h").unwrap_or_default();
        for line in header.lines() {
            let mut words = line.split_whitespace().skip(1);
            let (Some(name), Some(number)) = (words.next(), words.next()) else { continue };
            let Some((mode, bits)) = name
                .strip_prefix("NID_aes_")
                .and_then(|rest| rest.split_once('_'))
                .and_then(|(bits, mode)| Some((mode, bits.parse::<usize>().ok()?)))
            else {
                continue;
            };
            let expected = match mode {
                "ctr" => Some(Known::Counter(bits / 8)),
                "ecb" => Some(Known::Blocks(bits / 8)),
                "gcm" => Some(Known::Tagged(bits / 8)),
                _ => None,
            };
            assert_eq!(known(number.parse().expect("a number")), expected, "{line}");
        }
        assert_eq!(known(1018), Some(Known::Tagged(32)));
        assert_eq!(known(0), None);
    }
}
