//! What the experiment wants replaced, and whether whoever calls is the one that it is replaced for.

#![allow(unsafe_code)]

use libc::{c_char, c_void};
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// Set by Gnomon for all guests: `cells` or `all`.
const VARIABLE: &CStr = c"GNOMON_CHEAP_CRYPTO";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// The ciphers of relay cells; false in programs that are not tor.
    pub cells: bool,
    /// What libssl encrypts records of TLS 1.3 with.
    pub records: bool,
}

/// The same for the whole life of the program.
pub fn setting() -> Setting {
    static SETTING: OnceLock<Setting> = OnceLock::new();
    *SETTING.get_or_init(|| {
        // SAFETY: a string of C's, which is looked at before the program can change it: at the first call.
        let value = unsafe { libc::getenv(VARIABLE.as_ptr()).as_ref().map(|first| CStr::from_ptr(first).to_bytes()) };
        let (cells, records) = wanted(value.unwrap_or_default());
        Setting { cells: cells && is_tor(), records }
    })
}

/// Cells and records.
fn wanted(value: &[u8]) -> (bool, bool) {
    match value {
        b"cells" => (true, false),
        b"all" => (true, true),
        _ => (false, false),
    }
}

/// tor shows one of its functions to whoever prints its backtraces, or is called so. No other program's AES is touched.
fn is_tor() -> bool {
    // SAFETY: names of C's; the C library's variable is a pointer to a string.
    unsafe {
        if !libc::dlsym(libc::RTLD_DEFAULT, c"aes_crypt_inplace".as_ptr()).is_null() {
            return true;
        }
        let name = libc::dlsym(libc::RTLD_DEFAULT, c"program_invocation_short_name".as_ptr()).cast::<*const c_char>();
        name.as_ref().is_some_and(|name| !name.is_null() && CStr::from_ptr(*name).to_bytes().starts_with(b"tor"))
    }
}

/// Whether code at `address` is libssl's.
pub fn is_libssl(address: *const c_void) -> bool {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the C library fills it in, with a name that lives as long as the library.
    let file = unsafe {
        if libc::dladdr(address, info.as_mut_ptr()) == 0 || info.assume_init_ref().dli_fname.is_null() {
            return false;
        }
        CStr::from_ptr(info.assume_init_ref().dli_fname).to_bytes()
    };
    let name = file.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    name.starts_with(b"libssl.so")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_replaced_unless_it_is_asked_for() {
        assert_eq!(wanted(b""), (false, false));
        assert_eq!(wanted(b"true"), (false, false));
        assert_eq!(wanted(b"cells"), (true, false));
        assert_eq!(wanted(b"all"), (true, true));
        assert!(!is_tor());
        assert!(!is_libssl(wanted as *const c_void));
        assert!(!is_libssl(std::ptr::null()));
    }
}
