//! Guests without a simulated kernel: the few system calls by which ld.so and libc start are answered here, with the least that
//! they need. What is left is the cost of `guest` itself.

use crate::child::Loader;
use guest::{AddressSpace, Backing, Exit, HostRegion, MapRequest, Passed, Program, StartArguments, Vcpu, Worker};
use linux_abi::fs::Stat;
use linux_abi::{Errno, nr};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};

const ARCH_SET_FS: u64 = 0x1002;
const MAP_PRIVATE: u64 = 2;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
/// The first descriptor that a guest opens.
const FIRST_FD: u64 = 3;

/// A region full of guests.
pub struct BareHost {
    region: HostRegion,
    program: String,
    alive: Vec<BareGuest>,
}

struct BareGuest {
    space: AddressSpace,
    vcpu: Box<Vcpu>,
    files: Vec<Option<(File, Vec<u8>)>>,
}

impl BareHost {
    pub fn new(host: u32, hosts: u32, program: &str) -> BareHost {
        BareHost { region: HostRegion::new(host, hosts), program: program.to_owned(), alive: Vec::new() }
    }
}

impl Loader for BareHost {
    fn load_one(&mut self, worker: &mut Worker) {
        let file = File::open(&self.program).expect("the program");
        let name = self.program.as_bytes();
        let open = |path: &[u8]| File::open(OsStr::from_bytes(path));
        let program = Program::open(&file, name, open).expect("a program that can be loaded");
        let arguments = StartArguments {
            name: b"/guest",
            arguments: &[name.to_vec()],
            environment: &[],
            random: [7; 16],
            user: [0; 2],
            group: [0; 2],
            secure: false,
        };
        let (space, vcpu) = program.start(&mut self.region, &arguments).expect("room");
        let mut guest = BareGuest { space, vcpu: Box::new(vcpu), files: Vec::new() };
        guest.run_until_it_waits(&mut self.region, worker);
        self.alive.push(guest);
    }
}

impl BareGuest {
    fn run_until_it_waits(&mut self, region: &mut HostRegion, worker: &mut Worker) {
        loop {
            match self.vcpu.run(worker) {
                Exit::Syscall => {}
                // ld.so notes when it started.
                Exit::ReadTsc => {
                    self.vcpu.complete_tsc(0);
                    continue;
                }
                Exit::Fault(fault) if !matches!(self.space.pass_trap(&mut self.vcpu, &fault), Passed::No) => continue,
                exit => panic!("a guest that starts came back with {exit:?}"),
            }
            let registers = *self.vcpu.registers();
            let arguments = [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9];
            if registers.rax == u64::from(nr::pause) {
                self.space.seal_startup();
                return;
            }
            let result = self.call(registers.rax as u32, arguments, region);
            self.vcpu.registers_mut().rax = result.unwrap_or_else(|errno| errno.to_return());
        }
    }

    fn call(&mut self, number: u32, arguments: [u64; 6], region: &mut HostRegion) -> Result<u64, Errno> {
        let [a, b, c, d, ..] = arguments;
        match number {
            nr::openat => self.open(b),
            nr::close => {
                self.files[(a - FIRST_FD) as usize] = None;
                Ok(0)
            }
            nr::read => self.read(a, b, c, 0),
            nr::pread64 => self.read(a, b, c, d),
            nr::fstat => self.stat(a, b),
            nr::newfstatat => self.stat(a, c),
            nr::mmap => self.map(arguments, region),
            nr::mprotect => self.space.mprotect(a, b, c as u8).map(|()| 0).map_err(|_| Errno::ENOMEM),
            nr::munmap => self.space.munmap(a, b).map(|()| 0).map_err(|_| Errno::EINVAL),
            nr::brk => Ok(self.space.brk(a)),
            nr::arch_prctl if a == ARCH_SET_FS => {
                self.vcpu.registers_mut().set_fs_base(b).map(|()| 0).map_err(|_| Errno::EPERM)
            }
            nr::set_tid_address => Ok(1000),
            nr::set_robust_list => Ok(0),
            nr::access => Err(Errno::ENOENT),
            nr::prlimit64 => self.space.write(d, &[0xff; 16]).map(|()| 0).map_err(|_| Errno::EFAULT),
            nr::getrandom => {
                let bytes = vec![1; b as usize];
                self.space.write(a, &bytes).map(|()| b).map_err(|_| Errno::EFAULT)
            }
            _ => Err(Errno::ENOSYS),
        }
    }

    fn open(&mut self, path: u64) -> Result<u64, Errno> {
        let path = self.space.read_cstr(path, 4096).ok().flatten().ok_or(Errno::EFAULT)?;
        let file = File::open(OsStr::from_bytes(&path)).map_err(|_| Errno::ENOENT)?;
        self.files.push(Some((file, path)));
        Ok(FIRST_FD + self.files.len() as u64 - 1)
    }

    fn file(&self, fd: u64) -> Result<&(File, Vec<u8>), Errno> {
        let index = fd.checked_sub(FIRST_FD).ok_or(Errno::EBADF)?;
        self.files.get(index as usize).and_then(Option::as_ref).ok_or(Errno::EBADF)
    }

    fn read(&self, fd: u64, to: u64, bytes: u64, offset: u64) -> Result<u64, Errno> {
        let mut data = vec![0; bytes as usize];
        let read = self.file(fd)?.0.read_at(&mut data, offset).map_err(|_| Errno::EIO)?;
        self.space.write(to, &data[..read]).map_err(|_| Errno::EFAULT)?;
        Ok(read as u64)
    }

    fn stat(&self, fd: u64, to: u64) -> Result<u64, Errno> {
        let metadata = self.file(fd)?.0.metadata().map_err(|_| Errno::EIO)?;
        let stat = Stat {
            st_dev: metadata.dev(),
            st_ino: metadata.ino(),
            st_nlink: 1,
            st_mode: metadata.mode(),
            st_size: metadata.len() as i64,
            st_blksize: 4096,
            ..Stat::default()
        };
        self.space.write_value(to, &stat).map(|()| 0).map_err(|_| Errno::EFAULT)
    }

    fn map(&mut self, arguments: [u64; 6], region: &mut HostRegion) -> Result<u64, Errno> {
        let [hint, bytes, prot, flags, fd, offset] = arguments;
        let taken = self.files.get_mut(fd.wrapping_sub(FIRST_FD) as usize).and_then(Option::take);
        let backing = match &taken {
            Some((file, name)) if flags & MAP_ANONYMOUS == 0 => Backing::File { file, offset, name },
            _ => Backing::Anonymous,
        };
        let request = MapRequest {
            hint,
            bytes,
            prot: prot as u8,
            shared: flags & MAP_PRIVATE == 0,
            fixed: flags & MAP_FIXED != 0,
            no_replace: false,
            backing,
        };
        let result = self.space.mmap(region, &request).map_err(|_| Errno::ENOMEM);
        if taken.is_some() {
            self.files[(fd - FIRST_FD) as usize] = taken;
        }
        result
    }
}
