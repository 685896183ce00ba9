//! Starting a program: images placed, stack built as the kernel's `execve` leaves it, first instruction chosen.

use crate::arena::HostRegion;
use crate::cpu;
use crate::image::{ElfError, FileKey, Image, PAGE, images};
use crate::memory::{self, AddressSpace, MapError, Strings, ran_out};
use crate::registers::{FIXED_FLAGS, Registers};
use crate::vcpu::Vcpu;
use std::fs::File;
use std::sync::Arc;

/// An opened program: its image and its interpreter's.
#[derive(Debug, Clone)]
pub struct Program {
    key: FileKey,
    image: Arc<Image>,
    name: Vec<u8>,
    interpreter: Option<(Arc<Image>, Vec<u8>)>,
}

/// What a new process is given.
#[derive(Debug, Clone, Copy)]
pub struct StartArguments<'a> {
    /// AT_EXECFN: the name by which the program was called.
    pub name: &'a [u8],
    pub arguments: &'a [Vec<u8>],
    pub environment: &'a [Vec<u8>],
    /// AT_RANDOM: stack protectors and pointer guards come from here.
    pub random: [u8; 16],
    /// Real and effective ids.
    pub user: [u32; 2],
    pub group: [u32; 2],
    /// AT_SECURE: the program is not to trust its environment.
    pub secure: bool,
}

/// Why a program cannot be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartError {
    /// ENOEXEC: the file is no program that can be loaded.
    NotExecutable(ElfError),
    /// The interpreter cannot be opened.
    NoInterpreter { name: Vec<u8>, errno: i32 },
    /// ELIBBAD: the interpreter is no program that can be loaded.
    BadInterpreter(ElfError),
    /// ENOEXEC: the program must lie at addresses that guests cannot have.
    FixedAddress,
    /// ENOMEM
    NoMemory,
    /// ENOMEM: this process has as many mappings as the machine allows.
    NoMappings,
    /// E2BIG
    TooBig,
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StartError::NotExecutable(error) | StartError::BadInterpreter(error) => write!(f, "cannot be loaded: {error}"),
            StartError::NoInterpreter { name, errno } => {
                let error = std::io::Error::from_raw_os_error(*errno);
                write!(f, "cannot be loaded: its interpreter {}: {error}", String::from_utf8_lossy(name))
            }
            StartError::FixedAddress => {
                f.write_str("is linked to fixed addresses below 64 KiB or above 1 TiB, where no guest can lie: link it elsewhere or as PIE")
            }
            StartError::NoMemory => f.write_str("does not fit into its host's addresses"),
            StartError::NoMappings => f.write_str(
                "finds no room: the run has as many memory mappings as this machine allows; raise the limit by 'sysctl vm.max_map_count=1000000'",
            ),
            StartError::TooBig => f.write_str("its arguments and environment are larger than a quarter of its stack"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<MapError> for StartError {
    fn from(_: MapError) -> Self {
        StartError::no_room()
    }
}

impl StartError {
    /// The signal that ends the process, where Linux comes upon the error only when the program that executes this one
    /// is gone.
    pub fn signal(&self) -> Option<i32> {
        match self {
            StartError::NotExecutable(error) | StartError::BadInterpreter(error) => error.signal,
            _ => None,
        }
    }

    /// Why a program finds no room.
    fn no_room() -> StartError {
        if ran_out() { StartError::NoMappings } else { StartError::NoMemory }
    }
}

/// The largest size of arguments and environment: a quarter of the stack, as on Linux.
const ARGUMENT_BYTES_MAX: usize = 2 << 20;

impl Program {
    /// Reads a program. `open_interpreter` opens the path that its PT_INTERP names.
    ///
    /// # Errors
    /// When it or its interpreter is no image for this machine.
    pub fn open(
        file: &File,
        name: &[u8],
        open_interpreter: impl FnOnce(&[u8]) -> std::io::Result<File>,
    ) -> Result<Program, StartError> {
        let no_elf =
            |error: std::io::Error| StartError::NotExecutable(ElfError { reason: error.to_string(), signal: None });
        let key = FileKey::of(file).map_err(no_elf)?;
        let image = images().get(key, file).map_err(StartError::NotExecutable)?;
        if image.header.fixed && !memory::is_fixed_range(image.header.linked_at, image.mapped_bytes()) {
            return Err(StartError::FixedAddress);
        }
        let interpreter = match &image.header.interpreter {
            None => None,
            Some(path) => {
                let file = open_interpreter(path).map_err(|error| StartError::NoInterpreter {
                    name: path.clone(),
                    errno: error.raw_os_error().unwrap_or(libc::ENOENT),
                })?;
                let key = FileKey::of(&file).map_err(no_elf)?;
                let bad = |reason: String, signal| {
                    let name = String::from_utf8_lossy(path);
                    StartError::BadInterpreter(ElfError { reason: format!("its interpreter {name} {reason}"), signal })
                };
                let loader = images().get(key, &file).map_err(|error| bad(error.reason, error.signal))?;
                if loader.header.fixed {
                    return Err(bad("lies at fixed addresses".into(), None));
                }
                Some((loader, path.clone()))
            }
        };
        Ok(Program { key, image, name: name.to_vec(), interpreter })
    }

    /// Fills a fresh address space and a fresh vcpu.
    ///
    /// # Errors
    /// When it does not fit.
    pub fn start(
        &self,
        region: &mut HostRegion,
        arguments: &StartArguments<'_>,
    ) -> Result<(AddressSpace, Vcpu), StartError> {
        let image_bytes =
            if self.image.header.fixed { 0 } else { self.image.mapped_bytes() + (self.alignment() - PAGE) };
        let mut space = AddressSpace::for_program(region, image_bytes).ok_or_else(StartError::no_room)?;
        space.begin_program(self.key, self.interpreter.is_some());
        match self.fill(&mut space, arguments) {
            Ok(registers) => {
                let mut vcpu = Vcpu::new();
                *vcpu.registers_mut() = registers;
                Ok((space, vcpu))
            }
            Err(error) => {
                space.release(region);
                Err(error)
            }
        }
    }

    /// To what its first address is aligned (`load_elf_binary`), as far as a host's addresses allow it.
    fn alignment(&self) -> u64 {
        const GREATEST: u64 = 1 << 30;
        self.image.header.alignment.min(GREATEST)
    }

    fn fill(&self, space: &mut AddressSpace, arguments: &StartArguments<'_>) -> Result<Registers, StartError> {
        let mut free = space.stack_end();
        let program = if self.image.header.fixed {
            space.place_fixed(self.image.clone(), &self.name)?
        } else {
            let start = free.next_multiple_of(self.alignment());
            space.place(start, self.image.clone(), &self.name)?;
            space.enforce_segments(start);
            free = start + self.image.mapped_bytes();
            start
        };
        space.protect_segments(program);
        if self.image.header.executable_stack {
            space.make_stack_executable();
        }
        let mut entry = program + self.image.header.entry;
        let mut loader_base = 0;
        if let Some((loader, name)) = &self.interpreter {
            loader_base = free;
            space.place(loader_base, loader.clone(), name)?;
            space.protect_segments(loader_base);
            entry = loader_base + loader.header.entry;
        }
        let rsp = self.build_stack(space, arguments, program, loader_base)?;
        Ok(Registers { rip: entry, rsp, rflags: FIXED_FLAGS, ..Registers::default() })
    }

    /// Lays out the stack as in the System V ABI, "Initial Stack and Register State": from the top down the strings, then the
    /// auxiliary vector, the environment, the arguments, and argc at rsp. Returns rsp.
    fn build_stack(
        &self,
        space: &mut AddressSpace,
        arguments: &StartArguments<'_>,
        program: u64,
        loader_base: u64,
    ) -> Result<u64, StartError> {
        let total: usize = arguments.arguments.iter().chain(arguments.environment).map(|text| text.len() + 9).sum();
        if total > ARGUMENT_BYTES_MAX {
            return Err(StartError::TooBig);
        }
        let mut top = space.stack_end() - 8;
        let mut push = |bytes: &[u8]| {
            top -= bytes.len() as u64 + 1;
            let mut with_end = bytes.to_vec();
            with_end.push(0);
            space.write(top, &with_end).map(|()| top).map_err(|_| StartError::no_room())
        };
        let file_name = push(arguments.name)?;
        let mut environment =
            arguments.environment.iter().rev().map(|text| push(text)).collect::<Result<Vec<_>, _>>()?;
        let mut argv = arguments.arguments.iter().rev().map(|text| push(text)).collect::<Result<Vec<_>, _>>()?;
        environment.reverse();
        argv.reverse();
        let first_variable = environment.first().copied().unwrap_or(file_name);
        let first_argument = argv.first().copied().unwrap_or(first_variable);
        let platform = push(b"x86_64")?;
        let random = (platform - 16) & !15;
        space.write(random, &arguments.random).map_err(|_| StartError::no_room())?;

        let header = &self.image.header;
        let auxiliary = [
            (libc::AT_HWCAP, cpu::HWCAP),
            (libc::AT_PAGESZ, PAGE),
            (libc::AT_CLKTCK, 100),
            (libc::AT_PHDR, program + header.program_headers),
            (libc::AT_PHENT, 56),
            (libc::AT_PHNUM, header.program_header_count.into()),
            (libc::AT_BASE, loader_base),
            (libc::AT_FLAGS, 0),
            (libc::AT_ENTRY, program + header.entry),
            (libc::AT_UID, arguments.user[0].into()),
            (libc::AT_EUID, arguments.user[1].into()),
            (libc::AT_GID, arguments.group[0].into()),
            (libc::AT_EGID, arguments.group[1].into()),
            (libc::AT_SECURE, arguments.secure.into()),
            (libc::AT_RANDOM, random),
            (libc::AT_HWCAP2, cpu::HWCAP2),
            (libc::AT_EXECFN, file_name),
            (libc::AT_PLATFORM, platform),
            (libc::AT_NULL, 0),
        ];
        let mut words = vec![argv.len() as u64];
        words.extend(argv);
        words.push(0);
        words.extend(environment);
        words.push(0);
        words.extend(auxiliary.iter().flat_map(|(key, value)| [*key, *value]));
        let rsp = (random - 8 * words.len() as u64) & !15;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        space.write(rsp, &bytes).map_err(|_| StartError::no_room())?;
        space.set_strings(Strings {
            arguments: (first_argument, first_variable),
            environment: (first_variable, file_name),
            auxiliary: auxiliary.iter().flat_map(|(key, value)| [*key, *value]).flat_map(u64::to_le_bytes).collect(),
        });
        Ok(rsp)
    }
}
