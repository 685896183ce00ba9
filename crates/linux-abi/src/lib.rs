//! The interface between x86-64 Linux and its programs: numbers, flags, structures with their exact layout, error numbers;
//! and, on top of them, a decoder that prints a system call as strace does.
//!
//! It holds no state and knows no simulator: whoever serves or shows system calls may use it. Constants are grouped by
//! subject in modules and keep their C names. Bit sets are `u32` (`u64` where the kernel's word is that wide), everything
//! else that C calls `int` is `i32`. Structures implement zerocopy's traits, so they are read from and written to guest
//! memory as bytes.

/// Defines one family of constants together with the table of their names, which the strace decoder reads.
macro_rules! constants {
    ($(#[$meta:meta])* $table:ident: $type:ty { $($(#[$doc:meta])* $name:ident = $value:expr,)* }) => {
        $($(#[$doc])* pub const $name: $type = $value;)*
        $(#[$meta])*
        pub const $table: crate::Names = &[$((stringify!($name), $name as i64 as u64)),*];
    };
}

/// Fails the build unless a structure has the size that the kernel gives it.
macro_rules! assert_size {
    ($($type:ty = $size:literal),* $(,)?) => {
        $(const _: () = assert!(size_of::<$type>() == $size);)*
    };
}

pub mod aio;
pub mod capability;
pub mod diag;
pub mod errno;
pub mod event;
pub mod fs;
pub mod ioctl;
pub mod ipc;
pub mod mm;
pub mod net;
pub mod nr;
pub mod process;
pub mod signal;
pub mod sockaddr;
pub mod socket;
pub mod strace;
pub mod sysinfo;
pub mod time;
pub mod tty;

pub use errno::Errno;
pub use signal::Signal;
pub use sockaddr::{SockAddr, UnixName};

/// A family of constants: names and values, the values sign-extended to 64 bits.
pub type Names = &'static [(&'static str, u64)];

/// The name that a value has in its family.
pub fn name_of(names: Names, value: u64) -> Option<&'static str> {
    names.iter().find(|(_, known)| *known == value).map(|(name, _)| *name)
}
