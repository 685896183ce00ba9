//! What a simulated host is told about itself.

use base::{HostId, SeedTree};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;

/// A name and its address, for `/etc/hosts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName {
    pub name: String,
    pub address: Ipv4Addr,
}

#[derive(Clone, Debug)]
pub struct HostConfig {
    pub id: HostId,
    /// `uname -n`, and the key of the host's random streams.
    pub name: String,
    /// The address of `eth0`.
    pub address: Ipv4Addr,
    /// The run's directory: the only place where guests may write.
    pub data_dir: PathBuf,
    /// The host's own folder in it: where guests start, and where the private parts of `/tmp` and its like lie.
    pub host_dir: PathBuf,
    /// Every host of the experiment, shared between all of them.
    pub hosts: Arc<[HostName]>,
    pub seeds: SeedTree,
    /// Log every guest's system calls to a file.
    pub strace: Option<linux_abi::strace::Mode>,
    /// How many real descriptors this host may keep open between calls.
    pub real_descriptors: usize,
}
