//! A host for tests: a kernel and one process whose threads make system calls by hand, with real guest memory but without guest
//! code.

use crate::ctx::Ctx;
use crate::host::Addresses;
use crate::ids::{Pid, Tid};
use crate::kernel::Kernel;
use crate::outcome::Outcome;
use crate::process::{ExitStatus, Process};
use crate::shared::{Memory, Place};
use crate::thread::Thread;
use crate::{HostConfig, HostName, syscalls};
use base::{HostId, SimDuration, SimTime};
use guest::AddressSpace;
use linux_abi::sockaddr::SockaddrIn;
use linux_abi::socket::*;
use linux_abi::{Errno, nr};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use zerocopy::{FromBytes, Immutable, IntoBytes};

pub const A: Ipv4Addr = Ipv4Addr::new(11, 0, 0, 1);
pub const B: Ipv4Addr = Ipv4Addr::new(11, 0, 0, 2);

/// A host's addresses: fd00::11.0.0.1 beside 11.0.0.1.
pub fn addresses_of(v4: Ipv4Addr) -> Addresses {
    Addresses { v4, v6: Some(Ipv6Addr::from_bits(0xfd00 << 112 | u128::from(v4.to_bits()))) }
}

/// A host with one process, whose threads make calls by hand.
pub struct Machine {
    pub kernel: Kernel,
    pub process: Option<Box<Process>>,
    pub now: SimTime,
    /// Where the next argument goes in the process's memory.
    next: u64,
}

impl Machine {
    pub fn new(address: Ipv4Addr) -> Machine {
        // Each host of each test has its own part of the arenas.
        static HOSTS: AtomicU32 = AtomicU32::new(100);
        guest::map_arenas().unwrap();
        let names = [A, B]
            .map(|address| HostName { name: format!("host{}", address.octets()[3]), addresses: addresses_of(address) });
        let own = HostName { name: format!("host{}", address.octets()[3]), addresses: addresses_of(address) };
        let id = HostId(HOSTS.fetch_add(1, Ordering::Relaxed));
        let config = HostConfig {
            hosts: vec![names[0].clone(); 1000].into_iter().collect(),
            // Where nobody can make a file.
            ..HostConfig::plain(id, &own, &names, Path::new("/proc/nonexistent"))
        };
        let mut kernel = Kernel::new(config);
        let memory = AddressSpace::new(&mut kernel.region).unwrap();
        let next = memory.stack_end() - (4 << 20);
        let pid = Pid(kernel.new_id());
        let mut process = Box::new(kernel.new_process(pid, memory, Place::default(), SimTime::ZERO));
        process.memory = Memory(kernel.shared.spaces[process.space].take());
        Machine { kernel, process: Some(process), now: SimTime::ZERO, next }
    }

    pub fn memory(&self) -> &AddressSpace {
        &self.process.as_ref().unwrap().memory
    }

    /// A thread that has made no call yet.
    pub fn thread(&mut self) -> Tid {
        let tid = Tid(self.kernel.new_id());
        let pid = self.process.as_ref().unwrap().pid;
        self.kernel.threads.put(tid.0, Box::new(Thread::new(tid, pid)));
        tid
    }

    pub fn execute(&mut self, tid: Tid, number: u32, args: [u64; 6]) -> Result<u64, Outcome> {
        let mut thread = self.kernel.threads.take(tid.0).unwrap();
        let mut process = self.process.take().unwrap();
        self.kernel.now = self.now;
        let mut ctx = Ctx { kernel: &mut self.kernel, process: &mut process, thread: &mut thread, now: self.now };
        let result = syscalls::execute(&mut ctx, number.into(), args);
        self.process = Some(process);
        self.kernel.threads.put(tid.0, thread);
        result
    }

    /// A call that does not wait.
    pub fn call(&mut self, number: u32, args: &[u64]) -> Result<u64, Errno> {
        let tid = self.thread();
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        match self.execute(tid, number, all) {
            Ok(value) => Ok(value),
            Err(Outcome::Errno(errno)) => Err(errno),
            Err(other) => panic!("{}: {other:?}", nr::name(number.into()).unwrap()),
        }
    }

    /// A call that has to wait: its thread.
    pub fn blocked(&mut self, number: u32, args: &[u64]) -> Tid {
        let tid = self.thread();
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        assert_eq!(self.execute(tid, number, all), Err(Outcome::Block));
        tid
    }

    /// Executes a waiting call again if it was woken. None while it waits.
    pub fn resume(&mut self, tid: Tid) -> Option<Result<u64, Errno>> {
        let place = self.kernel.runnable.iter().position(|runnable| *runnable == tid)?;
        self.kernel.runnable.remove(place);
        let call = self.kernel.threads.get(tid.0).unwrap().call;
        match self.execute(tid, call.number as u32, call.args) {
            Ok(value) => Some(Ok(value)),
            Err(Outcome::Errno(errno)) => Some(Err(errno)),
            Err(Outcome::Block) => None,
            Err(other) => panic!("{other:?}"),
        }
    }

    /// Lets another process of the host exit with status 0.
    pub fn end(&mut self, pid: u32) {
        let own = self.process.take().unwrap();
        let own_pid = own.pid.0;
        self.kernel.processes.put(own_pid, own);
        let process = self.kernel.processes.take(pid).unwrap();
        let thread = self.kernel.threads.take(pid).unwrap();
        self.kernel.end_process(process, thread, ExitStatus::Exited(0), self.now);
        self.process = self.kernel.processes.take(own_pid);
    }

    /// Makes a process the child of another one.
    pub fn adopt(&mut self, child: u32, parent: u32) {
        let mut process = self.kernel.processes.take(child).unwrap();
        self.kernel.family.remove(&process);
        process.parent = Pid(parent);
        self.kernel.family.add(&process);
        self.kernel.processes.put(child, process);
    }

    /// Lets time pass up to `at`.
    pub fn advance(&mut self, at: SimDuration) {
        let end = SimTime::ZERO + at;
        while let Some(next) = self.kernel.next_timer().into_iter().chain(self.kernel.net.next_deadline()).min()
            && next <= end
        {
            self.now = self.now.max(next);
            self.kernel.fire_timers(self.now);
            self.kernel.settle_network(self.now);
        }
        self.now = end;
    }

    /// Chooses where the next argument goes.
    pub fn set_next(&mut self, at: u64) {
        self.next = at;
    }

    pub fn room(&mut self, len: usize) -> u64 {
        let at = self.next;
        self.next += (len as u64).next_multiple_of(16);
        at
    }

    pub fn put<T: IntoBytes + Immutable + ?Sized>(&mut self, value: &T) -> u64 {
        let at = self.room(value.as_bytes().len());
        self.memory().write(at, value.as_bytes()).unwrap();
        at
    }

    pub fn bytes(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory().read(at, &mut bytes).unwrap();
        bytes
    }

    pub fn value<T: FromBytes + IntoBytes>(&self, at: u64) -> T {
        self.memory().read_value(at).unwrap()
    }

    pub fn socket(&mut self, kind: i32) -> u64 {
        self.call(nr::socket, &[AF_INET as u64, kind as u64, 0]).unwrap()
    }

    pub fn name(&mut self, ip: Ipv4Addr, port: u16) -> u64 {
        self.put(&SockaddrIn::from(SocketAddrV4::new(ip, port)))
    }

    pub fn bind(&mut self, fd: u64, ip: Ipv4Addr, port: u16) -> Result<u64, Errno> {
        let name = self.name(ip, port);
        self.call(nr::bind, &[fd, name, 16])
    }

    pub fn connect(&mut self, fd: u64, ip: Ipv4Addr, port: u16) -> Result<u64, Errno> {
        let name = self.name(ip, port);
        self.call(nr::connect, &[fd, name, 16])
    }

    pub fn listener(&mut self, port: u16) -> u64 {
        let fd = self.socket(SOCK_STREAM);
        self.bind(fd, Ipv4Addr::UNSPECIFIED, port).unwrap();
        self.call(nr::listen, &[fd, 5]).unwrap();
        fd
    }

    /// Two ends of a connection over the loopback interface.
    pub fn connection(&mut self) -> (u64, u64) {
        let server = self.listener(80);
        let client = self.socket(SOCK_STREAM);
        assert_eq!(self.connect(client, Ipv4Addr::LOCALHOST, 80), Ok(0));
        let session = self.call(nr::accept, &[server]).unwrap();
        (client, session)
    }

    pub fn write(&mut self, fd: u64, data: &[u8]) -> Result<u64, Errno> {
        let at = self.put(data);
        self.call(nr::write, &[fd, at, data.len() as u64])
    }

    /// What one `recvfrom` gives.
    pub fn recv(&mut self, fd: u64, len: usize, flags: u32) -> Result<Vec<u8>, Errno> {
        let at = self.room(len);
        let count = self.call(nr::recvfrom, &[fd, at, len as u64, flags.into()])?;
        Ok(self.bytes(at, count as usize))
    }

    pub fn set_option(&mut self, fd: u64, level: i32, option: i32, value: i32) -> Result<u64, Errno> {
        let at = self.put(&value);
        self.call(nr::setsockopt, &[fd, level as u64, option as u64, at, 4])
    }

    pub fn option(&mut self, fd: u64, level: i32, option: i32) -> Result<i32, Errno> {
        let (value, len) = (self.put(&-1i32), self.put(&4i32));
        self.call(nr::getsockopt, &[fd, level as u64, option as u64, value, len])?;
        Ok(self.value(value))
    }
}
