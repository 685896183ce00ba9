//! libcrypto's own functions, behind those that take their place. This library does not load libcrypto: most guests have none.

#![allow(unsafe_code)]

use libc::{c_char, c_int, c_uchar, c_void};
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// `EVP_CIPHER_CTX`, of which only libcrypto knows what it holds.
pub enum Ctx {}
/// `EVP_CIPHER`.
pub enum Cipher {}

/// The function that this library hides; null when the program has no libcrypto.
fn find(name: &CStr) -> *mut c_void {
    // SAFETY: names of C's; libcrypto is named only to those who have it already, and stays loaded with whoever called.
    unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, name.as_ptr());
        if !next.is_null() {
            return next;
        }
        // A program's plug-in may have it to itself, where "next" does not look.
        let libraries: [*const c_char; 2] = [c"libcrypto.so.3".as_ptr(), c"libcrypto.so.1.1".as_ptr()];
        let handles = libraries.map(|library| libc::dlopen(library, libc::RTLD_LAZY | libc::RTLD_NOLOAD));
        let found =
            handles.into_iter().filter(|handle| !handle.is_null()).map(|handle| libc::dlsym(handle, name.as_ptr()));
        found.into_iter().find(|function| !function.is_null()).unwrap_or(std::ptr::null_mut())
    }
}

/// For each function of libcrypto one that returns it, None where libcrypto has no such.
macro_rules! functions {
    ($($name:ident($($type:ty),*) -> $result:ty;)+) => {
        $(pub fn $name() -> Option<unsafe extern "C" fn($($type),*) -> $result> {
            static FOUND: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            let mut found = FOUND.load(Ordering::Relaxed);
            if found.is_null() {
                let name = concat!(stringify!($name), "\0");
                found = find(CStr::from_bytes_with_nul(name.as_bytes()).ok()?);
                FOUND.store(found, Ordering::Relaxed);
            }
            // SAFETY: null is None, and all else the function of this name, of the type that OpenSSL's headers give it.
            unsafe { std::mem::transmute(found) }
        })+
    };
}

#[allow(non_snake_case)]
mod named {
    use super::*;

    functions! {
        EVP_CipherInit(*mut Ctx, *const Cipher, *const c_uchar, *const c_uchar, c_int) -> c_int;
        EVP_CipherInit_ex(*mut Ctx, *const Cipher, *mut c_void, *const c_uchar, *const c_uchar, c_int) -> c_int;
        EVP_EncryptUpdate(*mut Ctx, *mut c_uchar, *mut c_int, *const c_uchar, c_int) -> c_int;
        EVP_DecryptUpdate(*mut Ctx, *mut c_uchar, *mut c_int, *const c_uchar, c_int) -> c_int;
        EVP_CipherUpdate(*mut Ctx, *mut c_uchar, *mut c_int, *const c_uchar, c_int) -> c_int;
        EVP_CipherFinal_ex(*mut Ctx, *mut c_uchar, *mut c_int) -> c_int;
        EVP_CIPHER_CTX_ctrl(*mut Ctx, c_int, c_int, *mut c_void) -> c_int;
        EVP_CIPHER_CTX_copy(*mut Ctx, *const Ctx) -> c_int;
        EVP_CIPHER_CTX_reset(*mut Ctx) -> c_int;
        EVP_CIPHER_CTX_free(*mut Ctx) -> ();
        EVP_CIPHER_CTX_iv_noconst(*mut Ctx) -> *mut c_uchar;
        EVP_CIPHER_CTX_get_iv_length(*const Ctx) -> c_int;
        EVP_CIPHER_CTX_get_app_data(*const Ctx) -> *mut c_void;
        EVP_CIPHER_CTX_set_app_data(*mut Ctx, *mut c_void) -> ();
        EVP_CIPHER_get_nid(*const Cipher) -> c_int;
        EVP_CIPHER_nid(*const Cipher) -> c_int;
    }
}

pub use named::*;
