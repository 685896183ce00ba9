//! One process's memory as the simulated kernel sees it. (Bodies follow; the signatures are the contract.)

/// A guest pointer that does not hold what was claimed of it: the simulated kernel answers EFAULT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    pub address: u64,
}

#[derive(Debug)]
pub struct AddressSpace {}

impl AddressSpace {
    /// Copies `buf.len()` bytes out of the guest.
    pub fn read(&self, _address: u64, _buf: &mut [u8]) -> Result<(), Fault> {
        unimplemented!()
    }
    /// Copies `data` into the guest.
    pub fn write(&self, _address: u64, _data: &[u8]) -> Result<(), Fault> {
        unimplemented!()
    }
    /// As `read`, but stops at the first bad byte: how many were copied.
    pub fn read_partial(&self, _address: u64, _buf: &mut [u8]) -> usize {
        unimplemented!()
    }
    /// As `write`, but stops at the first bad byte: how many were copied.
    pub fn write_partial(&self, _address: u64, _data: &[u8]) -> usize {
        unimplemented!()
    }
    /// A NUL-terminated string of at most `max` bytes, without its NUL; None when it is longer.
    pub fn read_cstr(&self, _address: u64, _max: usize) -> Result<Option<Vec<u8>>, Fault> {
        unimplemented!()
    }
    pub fn read_value<T: zerocopy::FromBytes + zerocopy::IntoBytes>(&self, _address: u64) -> Result<T, Fault> {
        unimplemented!()
    }
    pub fn write_value<T: zerocopy::IntoBytes + zerocopy::Immutable>(&self, _address: u64, _value: &T) -> Result<(), Fault> {
        unimplemented!()
    }
}
