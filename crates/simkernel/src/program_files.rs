//! The files that processes execute: `/proc/PID/exe` leads to them whatever becomes of their names, and nobody writes to them meanwhile.

use crate::files::regular::RegularFile;
use crate::files::{FileKind, OpenFile};
use crate::ids::FileId;
use crate::kernel::Kernel;
use crate::process::Process;
use crate::vfs::RealNode;
use linux_abi::Errno;
use linux_abi::fs::{IN_ACCESS, IN_OPEN, O_RDONLY};
use std::collections::BTreeMap;

/// In place of a descriptor's number: what the process executes.
pub(crate) const PROGRAM: u32 = u32::MAX;

/// How many processes of the host execute a file, by its inode number.
#[derive(Debug, Default)]
pub(crate) struct ProgramFiles(BTreeMap<u64, u32>);

impl ProgramFiles {
    fn begin(&mut self, number: u64) {
        *self.0.entry(number).or_default() += 1;
    }

    fn end(&mut self, number: u64) {
        if let Some(users) = self.0.get_mut(&number) {
            *users -= 1;
            if *users == 0 {
                self.0.remove(&number);
            }
        }
    }
}

impl Kernel {
    /// Opens a file that is to be executed, or that says by what. ETXTBSY while somebody writes to it (`deny_write_access`).
    pub(crate) fn open_to_execute(&mut self, path: &[u8], node: &RealNode) -> Result<FileId, Errno> {
        let file = RegularFile {
            serial: self.vfs.new_serial(),
            real: node.path.clone(),
            path: path.to_vec(),
            writes: false,
            in_run: node.writable,
            number: self.vfs.identities.of_node(node),
            offset: 0,
            pinned: None,
            unlinked: false,
        };
        self.enter_executable(file)
    }

    /// The same of a file that is open already, and may have no name any more.
    pub(crate) fn open_to_execute_again(&mut self, id: FileId) -> Result<FileId, Errno> {
        let (path, serial) = (self.describe_file(id), self.vfs.new_serial());
        let FileKind::Regular(file) = &self.files[id].kind else { return Err(Errno::EACCES) };
        let pinned = file.pinned.as_ref().map(|fd| fd.try_clone().map_err(|error| crate::machine::io_errno(&error)));
        let file = RegularFile {
            serial,
            real: file.real.clone(),
            path,
            writes: false,
            in_run: file.in_run,
            number: file.number,
            offset: 0,
            pinned: pinned.transpose()?,
            unlinked: false,
        };
        self.enter_executable(file)
    }

    fn enter_executable(&mut self, file: RegularFile) -> Result<FileId, Errno> {
        if !file.is_memory() && self.files.is_written(file.number) {
            return Err(Errno::ETXTBSY);
        }
        let id = self.files.insert(OpenFile::new(FileKind::Regular(Box::new(file)), O_RDONLY));
        self.open_file_event(id, IN_OPEN);
        self.open_file_event(id, IN_ACCESS);
        self.note_access(id, 1);
        Ok(id)
    }

    /// ETXTBSY for a file that is executed: nobody may write to it.
    pub(crate) fn demand_idle_text(&self, number: u64) -> Result<(), Errno> {
        if self.program_files.0.contains_key(&number) { Err(Errno::ETXTBSY) } else { Ok(()) }
    }

    /// A process executes this file from now on, and no other one.
    pub(crate) fn adopt_program(&mut self, process: &mut Process, file: FileId) {
        self.release_program(process);
        if let Some(number) = self.number_of(file) {
            self.program_files.begin(number);
        }
        process.program = Some(file);
    }

    /// A child executes what its parent does.
    pub(crate) fn inherit_program(&mut self, child: &mut Process, parent: &Process) {
        let Some(file) = parent.program else { return };
        self.files.acquire(file);
        self.adopt_program(child, file);
    }

    pub(crate) fn release_program(&mut self, process: &mut Process) {
        let Some(file) = process.program.take() else { return };
        if let Some(number) = self.number_of(file) {
            self.program_files.end(number);
        }
        self.release_file(file);
    }

    fn number_of(&self, file: FileId) -> Option<u64> {
        match &self.files[file].kind {
            FileKind::Regular(file) => Some(file.number),
            _ => None,
        }
    }
}
