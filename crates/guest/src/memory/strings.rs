//! Where a program's arguments and environment lie in its memory: `/proc/PID/cmdline` and `environ` show what the program has made
//! of them since, which is how servers tell what their processes do (setproctitle).

use super::{AddressSpace, PROT_READ};
use std::sync::Arc;

/// As much of a title is shown, get_mm_proctitle in Linux's fs/proc/base.c.
const TITLE_BYTES_MAX: u64 = 4096;

/// The first and the last address of each, the environment right behind the arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strings {
    pub(crate) arguments: (u64, u64),
    pub(crate) environment: (u64, u64),
    /// The auxiliary vector as the program got it, whatever it has made of it since.
    pub(crate) auxiliary: Arc<[u8]>,
}

impl AddressSpace {
    pub(crate) fn set_strings(&mut self, strings: Strings) {
        self.strings = strings;
    }

    /// The arguments, each with its NUL; or, where the program has written over the last NUL, the text that begins where they did.
    /// The address space need not have been entered.
    pub fn command_line(&self) -> Vec<u8> {
        let (start, end) = self.strings.arguments;
        let arguments = self.peek(start, end);
        if arguments.last().is_none_or(|last| *last == 0) {
            return arguments;
        }
        let mut title = self.peek(start, self.strings.environment.1.min(start + TITLE_BYTES_MAX));
        let length = title.iter().position(|byte| *byte == 0).map_or(title.len(), |nul| nul + 1);
        title.truncate(length);
        title
    }

    /// The variables, each with its NUL, where the program found them. The address space need not have been entered.
    pub fn environment(&self) -> Vec<u8> {
        self.peek(self.strings.environment.0, self.strings.environment.1)
    }

    /// The auxiliary vector, its end included.
    pub fn auxiliary(&self) -> &[u8] {
        &self.strings.auxiliary
    }

    /// What is in `[start, end)` of one block, wherever it lies now; only as far as it is readable.
    fn peek(&self, start: u64, end: u64) -> Vec<u8> {
        let mut bytes = vec![0; self.accessible(start, end - start, PROT_READ) as usize];
        let copied = self.read_parked(start, &mut bytes);
        bytes.truncate(copied);
        bytes
    }
}
