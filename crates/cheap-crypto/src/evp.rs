//! The functions that take the place of libcrypto's. Each does libcrypto's own thing unless the context is one whose cipher is replaced.
//!
//! libcrypto's contexts are set up as ever, so whatever else a program asks of them is answered rightly; it is the work on data, and the
//! start of each record, that does not reach libcrypto.

#![allow(unsafe_code, non_snake_case)]
// `original!` stands within unsafe blocks, and outside of them.
#![allow(unused_unsafe)]

use crate::cipher::{BLOCK, Block, Counter, Key, load, store};
use crate::context::{self, Kind, Known, Records, State};
use crate::original::{self, Cipher, Ctx};
use crate::record::Record;
use crate::setting::{is_libssl, setting};
use libc::{c_int, c_uchar, c_void};

/// From <openssl/evp.h>.
const EVP_CTRL_AEAD_SET_IVLEN: c_int = 0x9;
const EVP_CTRL_AEAD_GET_TAG: c_int = 0x10;
const EVP_CTRL_AEAD_SET_TAG: c_int = 0x11;
/// From here to the last: how TLS 1.2 uses these ciphers, which is left alone.
const EVP_CTRL_AEAD_SET_IV_FIXED: c_int = 0x12;
const EVP_CTRL_AEAD_TLS1_AAD: c_int = 0x16;

/// Of the replaced ciphers with a tag, as of those in their place.
const IV_LEN: usize = 12;

/// libcrypto's own, or `$otherwise` for a program without it, which has no contexts either.
macro_rules! original {
    ($name:ident($($argument:expr),*), $otherwise:expr) => {
        match original::$name() {
            // SAFETY: with the arguments that the program gave.
            Some(function) => unsafe { function($($argument),*) },
            None => $otherwise,
        }
    };
}

fn nid(cipher: *const Cipher) -> c_int {
    match original::EVP_CIPHER_get_nid().or_else(original::EVP_CIPHER_nid) {
        // SAFETY: a cipher of libcrypto's, which the program gave.
        Some(function) => unsafe { function(cipher) },
        None => 0,
    }
}

/// # Safety
///
/// Null, or a key of this length in bytes.
unsafe fn key_at(key: *const c_uchar, len: usize) -> Key {
    // SAFETY: the caller's.
    Key::new(unsafe { std::slice::from_raw_parts(key, len) })
}

/// # Safety
///
/// Null, which stands for zeros, or 16 bytes.
unsafe fn block_at(iv: *const c_uchar) -> Block {
    // SAFETY: the caller's.
    unsafe { iv.cast::<Block>().as_ref() }.copied().unwrap_or_default()
}

/// How tor begins with AES, and gives it another key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EVP_CipherInit(
    ctx: *mut Ctx,
    cipher: *const Cipher,
    key: *const c_uchar,
    iv: *const c_uchar,
    enc: c_int,
) -> c_int {
    if !setting().cells || cipher.is_null() || key.is_null() {
        return original!(EVP_CipherInit(ctx, cipher, key, iv, enc), 0);
    }
    // SAFETY: arguments are what libcrypto demands of them, as long as the cipher says.
    unsafe {
        if let Some(state) = context::state(ctx).filter(|state| state.cipher == cipher) {
            match &mut state.kind {
                Kind::Counter { key: own, counter } => {
                    (*own, *counter) = (key_at(key, state.key_len), Counter::at(block_at(iv)));
                    return 1;
                }
                Kind::Blocks { key: own } => {
                    *own = key_at(key, state.key_len);
                    return 1;
                }
                Kind::Original | Kind::Records(_) => {}
            }
        }
        context::detach(ctx);
        let done = original!(EVP_CipherInit(ctx, cipher, key, iv, enc), 0);
        let (kind, len) = match context::known(nid(cipher)) {
            Some(Known::Counter(len)) => {
                (Kind::Counter { key: key_at(key, len), counter: Counter::at(block_at(iv)) }, len)
            }
            Some(Known::Blocks(len)) => (Kind::Blocks { key: key_at(key, len) }, len),
            Some(Known::Tagged(_)) | None => return done,
        };
        if done == 1
            && let Some(state) = context::attach(ctx, kind)
        {
            (state.cipher, state.key_len) = (cipher, len);
        }
        done
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn EVP_EncryptInit(
    ctx: *mut Ctx,
    cipher: *const Cipher,
    key: *const c_uchar,
    iv: *const c_uchar,
) -> c_int {
    // SAFETY: libcrypto's does the same.
    unsafe { EVP_CipherInit(ctx, cipher, key, iv, 1) }
}

/// How libssl begins with a cipher, gives it its key, and begins with each record. Hands on who calls.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn EVP_CipherInit_ex(
    _ctx: *mut Ctx,
    _cipher: *const Cipher,
    _engine: *mut c_void,
    _key: *const c_uchar,
    _iv: *const c_uchar,
    _enc: c_int,
) -> c_int {
    // The return address becomes the seventh argument, and leaves the stack aligned for the call.
    std::arch::naked_asm!("push qword ptr [rsp]", "call {inner}", "pop rcx", "ret", inner = sym cipher_init_ex)
}

unsafe extern "C" fn cipher_init_ex(
    ctx: *mut Ctx,
    cipher: *const Cipher,
    engine: *mut c_void,
    key: *const c_uchar,
    iv: *const c_uchar,
    enc: c_int,
    caller: *const c_void,
) -> c_int {
    if !setting().records {
        return original!(EVP_CipherInit_ex(ctx, cipher, engine, key, iv, enc), 0);
    }
    // SAFETY: arguments are what libcrypto demands of them, as long as the cipher says.
    unsafe {
        if !cipher.is_null() {
            stop_replacing(ctx);
            let done = original!(EVP_CipherInit_ex(ctx, cipher, engine, key, iv, enc), 0);
            // For TLS 1.3 libssl gives keys later, for TLS 1.2 at once.
            if done == 1
                && key.is_null()
                && iv.is_null()
                && let Some(Known::Tagged(len)) = context::known(nid(cipher))
                && is_libssl(caller)
                && let Some(state) = context::attach(ctx, Kind::Records(Records::new(enc == 1)))
            {
                (state.cipher, state.key_len) = (cipher, len);
            }
            return done;
        }
        let Some(State { kind: Kind::Records(records), key_len, .. }) = context::state(ctx) else {
            return original!(EVP_CipherInit_ex(ctx, cipher, engine, key, iv, enc), 0);
        };
        if enc != -1 {
            records.encrypts = enc == 1;
        }
        if !key.is_null() {
            records.key = Some(key_at(key, *key_len));
            let done = original!(EVP_CipherInit_ex(ctx, cipher, engine, key, iv, enc), 0);
            if done != 1 {
                return done;
            }
        }
        if let (false, Some(key)) = (iv.is_null(), &records.key) {
            records.record = Some(Record::new(key, std::slice::from_raw_parts(iv, IV_LEN)));
            records.tag_len = 0;
        }
        1
    }
}

/// From here on, libcrypto's own cipher is used.
unsafe fn stop_replacing(ctx: *mut Ctx) {
    // SAFETY: a context of the program's, as everywhere here.
    if let Some(state) = unsafe { context::state(ctx) } {
        state.kind = Kind::Original;
    }
}

/// The work on data: None when it is libcrypto's.
///
/// # Safety
///
/// As libcrypto demands: `from` has `len` bytes, and `to`, where it is not null, takes as many.
#[inline]
unsafe fn update(
    ctx: *mut Ctx,
    to: *mut c_uchar,
    written: *mut c_int,
    from: *const c_uchar,
    len: c_int,
    decrypts: bool,
) -> Option<c_int> {
    // SAFETY: the caller's; Gnomon runs on processors with AES only.
    unsafe {
        let state = context::state(ctx)?;
        let size = usize::try_from(len).ok()?;
        let done = match &mut state.kind {
            Kind::Original => return None,
            Kind::Counter { key, counter } => {
                counter.apply(key, from, to, size);
                true
            }
            Kind::Blocks { key } => blocks(key, to, from, size, decrypts),
            Kind::Records(records) => match &mut **records {
                Records { key: Some(key), record: Some(record), encrypts, .. } => {
                    match (to.is_null(), *encrypts) {
                        (true, _) => record.header(std::slice::from_raw_parts(from, size)),
                        (false, true) => record.encrypt(key, from, to, size),
                        (false, false) => record.decrypt(key, from, to, size),
                    }
                    true
                }
                _ => false,
            },
        };
        *written = if done { len } else { 0 };
        Some(c_int::from(done))
    }
}

/// Whole blocks, as tor has them; another number of bytes is an error.
///
/// # Safety
///
/// As of `update`.
#[target_feature(enable = "aes")]
unsafe fn blocks(key: &Key, to: *mut c_uchar, from: *const c_uchar, len: usize, decrypts: bool) -> bool {
    for at in (0..len / BLOCK).map(|number| number * BLOCK) {
        // SAFETY: a whole block is left of both.
        unsafe {
            let block = load(&from.add(at).cast::<Block>().read());
            let block = if decrypts { key.decrypt(block) } else { key.encrypt(block) };
            to.add(at).cast::<Block>().write(store(block));
        }
    }
    len.is_multiple_of(BLOCK)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn EVP_EncryptUpdate(
    ctx: *mut Ctx,
    to: *mut c_uchar,
    written: *mut c_int,
    from: *const c_uchar,
    len: c_int,
) -> c_int {
    // SAFETY: arguments are what libcrypto demands of them.
    match unsafe { update(ctx, to, written, from, len, false) } {
        Some(done) => done,
        None => original!(EVP_EncryptUpdate(ctx, to, written, from, len), 0),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn EVP_DecryptUpdate(
    ctx: *mut Ctx,
    to: *mut c_uchar,
    written: *mut c_int,
    from: *const c_uchar,
    len: c_int,
) -> c_int {
    // SAFETY: arguments are what libcrypto demands of them.
    match unsafe { update(ctx, to, written, from, len, true) } {
        Some(done) => done,
        None => original!(EVP_DecryptUpdate(ctx, to, written, from, len), 0),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn EVP_CipherUpdate(
    ctx: *mut Ctx,
    to: *mut c_uchar,
    written: *mut c_int,
    from: *const c_uchar,
    len: c_int,
) -> c_int {
    // SAFETY: arguments are what libcrypto demands of them. Who decrypts single blocks says so by the function that is called.
    let done = unsafe {
        match context::state(ctx) {
            Some(State { kind: Kind::Records(_), .. }) => update(ctx, to, written, from, len, false),
            _ => None,
        }
    };
    match done {
        Some(done) => done,
        None => original!(EVP_CipherUpdate(ctx, to, written, from, len), 0),
    }
}

/// The end of a record: makes its tag, or compares it with the one that came.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EVP_CipherFinal_ex(ctx: *mut Ctx, to: *mut c_uchar, written: *mut c_int) -> c_int {
    // SAFETY: arguments are what libcrypto demands of them; Gnomon runs on processors with AES only.
    unsafe {
        let Some(records) = context::state(ctx).and_then(State::records) else {
            return original!(EVP_CipherFinal_ex(ctx, to, written), 0);
        };
        *written = 0;
        // A record is used once.
        let (Some(key), Some(record)) = (&records.key, records.record.take()) else { return 0 };
        let tag = record.tag(key);
        if records.encrypts {
            (records.tag, records.tag_len) = (tag, BLOCK);
            return 1;
        }
        let len = records.tag_len;
        c_int::from(len != 0 && records.tag[..len] == tag[..len])
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn EVP_CIPHER_CTX_ctrl(ctx: *mut Ctx, kind: c_int, number: c_int, at: *mut c_void) -> c_int {
    // SAFETY: arguments are what libcrypto demands of them: `at` has `number` bytes of a tag.
    unsafe {
        if let Some(records) = context::state(ctx).and_then(State::records) {
            let len = usize::try_from(number).ok().filter(|len| (1..=BLOCK).contains(len));
            match (kind, len) {
                (EVP_CTRL_AEAD_GET_TAG, Some(len)) if records.encrypts && records.tag_len != 0 => {
                    std::ptr::copy_nonoverlapping(records.tag.as_ptr(), at.cast(), len);
                    return 1;
                }
                (EVP_CTRL_AEAD_GET_TAG, _) => return 0,
                (EVP_CTRL_AEAD_SET_TAG, Some(len)) if !at.is_null() => {
                    std::ptr::copy_nonoverlapping(at.cast(), records.tag.as_mut_ptr(), len);
                    records.tag_len = len;
                    return 1;
                }
                (EVP_CTRL_AEAD_SET_IVLEN, _) if number as usize != IV_LEN => stop_replacing(ctx),
                (EVP_CTRL_AEAD_SET_IV_FIXED..=EVP_CTRL_AEAD_TLS1_AAD, _) => stop_replacing(ctx),
                _ => {}
            }
        }
    }
    original!(EVP_CIPHER_CTX_ctrl(ctx, kind, number, at), 0)
}

/// tor writes the counter there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EVP_CIPHER_CTX_iv_noconst(ctx: *mut Ctx) -> *mut c_uchar {
    // SAFETY: a context of the program's.
    match unsafe { context::state(ctx) } {
        Some(State { kind: Kind::Counter { counter, .. }, .. }) => counter.next.as_mut_ptr(),
        _ => original!(EVP_CIPHER_CTX_iv_noconst(ctx), std::ptr::null_mut()),
    }
}

/// libssl asks before each record, and libcrypto takes a while to answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EVP_CIPHER_CTX_get_iv_length(ctx: *const Ctx) -> c_int {
    // SAFETY: a context of the program's.
    match unsafe { context::state(ctx) } {
        Some(State { kind: Kind::Records(_), .. }) => IV_LEN as c_int,
        _ => original!(EVP_CIPHER_CTX_get_iv_length(ctx), 0),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn EVP_CIPHER_CTX_copy(to: *mut Ctx, from: *const Ctx) -> c_int {
    // SAFETY: contexts of the program's.
    unsafe {
        context::detach(to);
        let done = original!(EVP_CIPHER_CTX_copy(to, from), 0);
        context::copy(to, from, done == 1);
        done
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn EVP_CIPHER_CTX_reset(ctx: *mut Ctx) -> c_int {
    // SAFETY: a context of the program's.
    unsafe { context::detach(ctx) };
    original!(EVP_CIPHER_CTX_reset(ctx), 0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn EVP_CIPHER_CTX_free(ctx: *mut Ctx) {
    // SAFETY: a context of the program's.
    unsafe { context::detach(ctx) };
    original!(EVP_CIPHER_CTX_free(ctx), ());
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn EVP_CIPHER_CTX_get_app_data(ctx: *const Ctx) -> *mut c_void {
    // SAFETY: a context of the program's.
    unsafe { context::state(ctx) }.map_or(std::ptr::null_mut(), |state| state.app_data)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn EVP_CIPHER_CTX_set_app_data(ctx: *mut Ctx, data: *mut c_void) {
    // SAFETY: a context of the program's.
    unsafe {
        let state = context::state(ctx).map(std::ptr::from_mut);
        let state = state.or_else(|| context::attach(ctx, Kind::Original).map(std::ptr::from_mut));
        if let Some(state) = state.and_then(|state| state.as_mut()) {
            state.app_data = data;
        }
    }
}
