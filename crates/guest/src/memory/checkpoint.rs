//! A copy of a guest's memory to which it can go back.

use super::{AddressSpace, PROT_WRITE};
use crate::arena::HostRegion;

impl AddressSpace {
    /// A copy of everything as it is now, for [`go_back`](Self::go_back). The address space must have been entered. None where what is written may
    /// be seen by others, at fixed addresses, and when memory or addresses are lacking.
    pub fn keep(&mut self, region: &mut HostRegion) -> Option<AddressSpace> {
        if self.needs_fixed() || self.vmas.iter().any(|vma| vma.shared && vma.prot & PROT_WRITE != 0) {
            return None;
        }
        let mut copy = self.fork(region)?;
        // It is no child: nothing is wiped in it, and what was locked is.
        copy.wipes = false;
        copy.vmas = self.vmas.clone();
        Some(copy)
    }

    /// Makes everything what it was when `kept` was taken. Nothing may have been mapped or unmapped by a call since then.
    pub fn go_back(&mut self, mut kept: AddressSpace, region: &mut HostRegion) {
        for shared in self.blocks.iter().filter_map(|block| block.shared.as_ref()) {
            shared.exchange(self.id, kept.id);
        }
        std::mem::swap(self, &mut kept);
        std::mem::swap(&mut self.id, &mut kept.id);
        kept.release(region);
    }
}
