//! placeholder
use crate::host::HostConfig;
#[derive(Debug)]
pub struct Vfs {}
impl Vfs {
    pub fn new(_c: &HostConfig) -> Self { Vfs {} }
    pub fn forget_fifo(&mut self, _p: crate::files::pipe::PipeId) {}
}
