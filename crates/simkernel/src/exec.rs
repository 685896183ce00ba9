//! Starting programs: a host's first processes, and `execve`.

use crate::credentials::{Credentials, ProgramFile};
use crate::ctx::Ctx;
use crate::family::INIT;
use crate::fd_table::FdTable;
use crate::files::output::Shown;
use crate::files::{FileKind, OpenFile};
use crate::ids::{FileId, Pid};
use crate::kernel::Kernel;
use crate::process::{Parts, Process};
use crate::shared::{Handlers, Memory, Place};
use crate::signal::Disposition;
use crate::thread::Thread;
use crate::trace::Trace;
use crate::vfs::permission::Permissions;
use crate::vfs::synthetic::Device;
use base::SimTime;
use guest::{AddressSpace, Program, StartArguments, StartError};
use linux_abi::fs::{O_APPEND, O_RDONLY, O_WRONLY, R_OK};
use linux_abi::signal::{SIG_IGN, SS_AUTODISARM, SS_DISABLE, StackT};
use linux_abi::sysinfo::RLIMIT_NOFILE;
use linux_abi::{Errno, Signal};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// A process that an experiment starts.
#[derive(Clone, Debug)]
pub struct ProcessSpec {
    /// The program's file, absolute, as the guest sees it.
    pub path: Vec<u8>,
    /// What its output files are named after.
    pub name: String,
    pub arguments: Vec<Vec<u8>>,
    pub environment: Vec<Vec<u8>>,
    /// Absolute, as the guest sees it.
    pub working_directory: Vec<u8>,
    /// SIGKILL ends it in place of this system call of its own, counted from 1.
    pub kill_at_call: Option<u64>,
    /// Who executes it.
    pub credentials: Credentials,
}

/// How often one `#!` line may lead to another, execve(2).
const SCRIPT_DEPTH_MAX: usize = 4;
const SCRIPT_LINE_MAX: usize = 255;

/// What is to be loaded once `#!` lines are resolved.
struct Resolved {
    program: Program,
    path: Vec<u8>,
    arguments: Vec<Vec<u8>>,
    file: ProgramFile,
}

/// The ids that a program is told of at its start.
struct Start<'a> {
    credentials: &'a Credentials,
    secure: bool,
}

/// Who executes a program: paths may depend on it.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub process: &'a Process,
    pub thread: &'a Thread,
}

/// Why a program does not start: the error for `execve`, and words for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecError {
    pub errno: Errno,
    pub message: String,
}

impl Kernel {
    /// Starts a process of the experiment; its main thread becomes runnable. Descriptors 0, 1 and 2 are /dev/null and the
    /// process's output files.
    ///
    /// # Errors
    /// When the program cannot be loaded; the message says why.
    pub fn spawn(&mut self, spec: &ProcessSpec, now: SimTime) -> Result<Pid, ExecError> {
        let pid = Pid(self.new_id());
        if spec.credentials.user.real != 0 {
            self.vfs.open_to_all(&spec.working_directory);
        }
        let resolved = self.resolve_program(None, &spec.path, spec.arguments.clone())?;
        let (credentials, secure) = spec.credentials.for_program(resolved.file, false);
        let (memory, vcpu) = self.load(&resolved, &spec.environment, &Start { credentials: &credentials, secure })?;
        let place = Place { cwd: spec.working_directory.clone(), ..Place::default() };
        let mut process = self.new_process(pid, memory, place, now);
        process.exe = resolved.path;
        process.has_execed = true;
        process.last_call = spec.kill_at_call.unwrap_or(u64::MAX);
        process.credentials = Arc::new(credentials);
        self.open_standard_files(&mut process, &spec.name)?;
        let mut thread = Thread::new(pid.main_thread(), pid);
        thread.vcpu = vcpu;
        thread.name = short_name(&spec.path);
        thread.credentials = Arc::clone(&process.credentials);
        self.start_process(process, thread);
        Ok(pid)
    }

    /// A process that shares nothing with others, a child of process 1.
    pub(crate) fn new_process(&mut self, pid: Pid, memory: AddressSpace, place: Place, now: SimTime) -> Process {
        let parts = Parts {
            space: self.shared.spaces.insert(Some(Box::new(memory))),
            fds: self.shared.fds.insert(FdTable::default()),
            place: self.shared.places.insert(place),
            handlers: self.shared.handlers.insert(Handlers::default()),
        };
        let mut process = Process::new(pid, INIT, parts, now);
        process.limits.0[RLIMIT_NOFILE as usize].soft = self.config.open_files;
        process
    }

    /// Enters a new process with its one thread, which becomes runnable behind all that are.
    pub(crate) fn start_process(&mut self, process: Process, thread: Thread) {
        let tid = thread.tid;
        self.family.add(&process);
        self.tasks += 1;
        self.processes.put(process.pid.0, Box::new(process));
        self.threads.put(tid.0, Box::new(thread));
        self.runnable.push_back(tid);
    }

    /// Follows `#!` lines to a program that can be loaded.
    fn resolve_program(
        &mut self,
        caller: Option<Caller<'_>>,
        path: &[u8],
        mut arguments: Vec<Vec<u8>>,
    ) -> Result<Resolved, ExecError> {
        let mut path = path.to_vec();
        for _ in 0..=SCRIPT_DEPTH_MAX {
            let (file, name, owner) = self.open_program(caller, &path)?;
            match script_line(&file) {
                None => {
                    let program = Program::open(&file, &name, |interpreter| {
                        self.open_program(caller, interpreter)
                            .map(|(file, ..)| file)
                            .map_err(|error| std::io::Error::from_raw_os_error(error.errno.raw()))
                    });
                    let program = program.map_err(|error| ExecError {
                        errno: errno_of(&error),
                        message: format!("{} {error}", String::from_utf8_lossy(&path)),
                    })?;
                    return Ok(Resolved { program, path: name, arguments, file: owner });
                }
                Some((interpreter, argument)) => {
                    let rest = arguments.into_iter().skip(1);
                    let script = [path.clone()];
                    arguments =
                        std::iter::once(interpreter.clone()).chain(argument).chain(script).chain(rest).collect();
                    path = interpreter;
                }
            }
        }
        let message = format!("{}: too many levels of #! scripts", String::from_utf8_lossy(&path));
        Err(ExecError { errno: Errno::ELOOP, message })
    }

    fn open_program(
        &mut self,
        caller: Option<Caller<'_>>,
        path: &[u8],
    ) -> Result<(File, Vec<u8>, ProgramFile), ExecError> {
        self.open_executable(caller, path).map_err(|errno| {
            let text = errno.description().unwrap_or("error");
            ExecError { errno, message: format!("{}: {text}", String::from_utf8_lossy(path)) }
        })
    }

    /// Descriptors 0, 1 and 2 of a process of the experiment: /dev/null and its output files; and its log of calls.
    /// They are named after the file that the experiment names, even if that is a script.
    fn open_standard_files(&mut self, process: &mut Process, name: &str) -> Result<(), ExecError> {
        let null = self.files.insert(OpenFile::new(FileKind::Device(Device::Null), O_RDONLY));
        let mut create = |kind, stream| {
            let path = self.config.host_dir.join(format!("{name}.{}.{kind}", process.pid.0));
            self.open_standard_output(path.clone(), stream).map_err(|errno| cannot_create(&path, errno))
        };
        let files = [null, create("stdout", Shown::Stdout)?, create("stderr", Shown::Stderr)?];
        for (fd, file) in files.into_iter().enumerate() {
            self.shared.fds[process.fds].replace(fd as u32, file, false);
        }
        self.open_trace(process, name)
    }

    /// The log of calls of a process, if the experiment asks for logs.
    pub(crate) fn open_trace(&mut self, process: &mut Process, name: &str) -> Result<(), ExecError> {
        if let Some(mode) = self.config.strace {
            let file = match self.config.strace_live {
                true => self.open_standard_error(),
                false => self.create_output(&format!("{name}.{}.strace", process.pid.0))?,
            };
            process.trace = Some(Trace { mode, file });
        }
        Ok(())
    }

    fn create_output(&mut self, name: &str) -> Result<FileId, ExecError> {
        let path = self.config.host_dir.join(name);
        self.config.folders.hide(&path);
        self.open_output(path.clone(), O_WRONLY | O_APPEND).map_err(|errno| cannot_create(&path, errno))
    }

    fn load(
        &mut self,
        resolved: &Resolved,
        environment: &[Vec<u8>],
        start: &Start<'_>,
    ) -> Result<(AddressSpace, guest::Vcpu), ExecError> {
        let mut random = [0; 16];
        self.random.fill(&mut random);
        let (user, group) = (start.credentials.user, start.credentials.group);
        let start = StartArguments {
            arguments: &resolved.arguments,
            environment,
            random,
            user: [user.real, user.effective],
            group: [group.real, group.effective],
            secure: start.secure,
        };
        resolved.program.start(&mut self.region, &start).map_err(|error| ExecError {
            errno: errno_of(&error),
            message: format!("{} {error}", String::from_utf8_lossy(&resolved.path)),
        })
    }
}

fn cannot_create(path: &Path, errno: Errno) -> ExecError {
    let text = errno.description().unwrap_or("error");
    ExecError { errno, message: format!("cannot create {}: {text}", path.display()) }
}

impl Ctx<'_> {
    /// `execve(2)` of the calling process. On success the calling thread is the only one, has the process's number, and stands at the
    /// new program's start.
    ///
    /// # Errors
    /// As execve(2); the old program goes on then.
    pub(crate) fn exec(
        &mut self,
        path: &[u8],
        arguments: Vec<Vec<u8>>,
        environment: Vec<Vec<u8>>,
    ) -> Result<(), Errno> {
        let caller = Caller { process: self.process, thread: self.thread };
        let no_new_privileges = self.process.no_new_privileges;
        let result = self.kernel.resolve_program(Some(caller), path, arguments).and_then(|resolved| {
            let (credentials, secure) = self.thread.credentials.for_program(resolved.file, no_new_privileges);
            let loaded = self.kernel.load(&resolved, &environment, &Start { credentials: &credentials, secure })?;
            Ok((resolved, loaded, credentials, secure))
        });
        let (resolved, (memory, vcpu), credentials, secure) = result.map_err(|error| {
            if matches!(error.errno, Errno::ENOEXEC | Errno::ENOMEM) {
                self.report(format!("execve: {}", error.message));
            }
            error.errno
        })?;
        self.end_other_threads();
        self.adopt_own_parts();
        self.leave_memory();
        self.kernel.release_memory(self.process);
        self.process.makes_code = false;
        self.process.space = self.kernel.shared.spaces.insert(None);
        self.process.memory = Memory(Some(Box::new(memory)));
        self.kernel.release_vfork_waiter(self.process);
        self.unshare_descriptors();
        self.unshare_handlers();
        for file in self.fds_mut().take_cloexec() {
            self.kernel.close_descriptor(file, self.process.pid);
        }
        for disposition in &mut self.handlers_mut().0 {
            let kept = if disposition.handler == SIG_IGN { SIG_IGN } else { 0 };
            *disposition = Disposition { handler: kept, ..Disposition::default() };
        }
        self.become_main_thread();
        self.adopt_program_credentials(credentials, secure, resolved.file);
        self.thread.vcpu = vcpu;
        // Place and size of the signal stack go, that it is to be disarmed stays (`setup_new_exec`).
        let ss_flags = SS_DISABLE | self.thread.altstack.ss_flags & SS_AUTODISARM;
        self.thread.altstack = StackT { ss_flags, ..StackT::default() };
        self.thread.rseq = None;
        self.thread.recent.clear();
        self.thread.name = short_name(path);
        self.process.exe = resolved.path;
        self.process.exit_signal = Signal::SIGCHLD.raw();
        self.process.posix_timers.by_id.clear();
        self.process.arm_cpu_timers();
        self.process.locked.clear();
        self.process.barriers = 0;
        self.process.reported.clear();
        self.process.has_execed = true;
        self.process.execs += 1;
        Ok(())
    }

    /// The new program's credentials: one that acts for somebody else, or whose file its user may not read, is closed to others.
    fn adopt_program_credentials(&mut self, new: Credentials, secure: bool, file: ProgramFile) {
        let file = Permissions { mode: file.mode, user: file.user, group: file.group };
        let readable = file.demand(&self.thread.credentials, R_OK).is_ok();
        let (user, group) = (new.user, new.group);
        self.set_credentials(new);
        self.set_dumpable(readable && user.effective == user.real && group.effective == group.real);
        if secure {
            self.thread.parent_death_signal = 0;
        }
    }

    /// The thread that executes a program takes its process's number, execve(2), "Effect on process attributes".
    fn become_main_thread(&mut self) {
        let old = std::mem::replace(&mut self.thread.tid, self.process.pid.main_thread());
        if old != self.thread.tid {
            self.kernel.note_end(self.process.pid, Some(old));
        }
        self.process.threads = vec![self.thread.tid];
        // Deadlines that were set under another number would not find it.
        self.thread.armed = SimTime::MAX;
    }

    /// Gives the caller descriptors of its own: its process, or the calling thread if there are others.
    pub(crate) fn unshare_files(&mut self) {
        if self.process.threads.len() <= 1 {
            return self.unshare_descriptors();
        }
        if self.thread.own_fds.is_none() {
            let copy = self.fds().clone();
            copy.iter().for_each(|(_, file)| self.kernel.files.acquire(file));
            self.thread.own_fds = Some(self.kernel.shared.fds.insert(copy));
        }
    }

    /// As `unshare_files`, for working directory and umask.
    pub(crate) fn unshare_place(&mut self) {
        let shared = &mut self.kernel.shared;
        if self.process.threads.len() > 1 {
            if self.thread.own_place.is_none() {
                let copy = shared.places[self.process.place].clone();
                self.thread.own_place = Some(shared.places.insert(copy));
            }
        } else if shared.places.users(self.process.place) > 1 {
            let copy = shared.places[self.process.place].clone();
            shared.places.release(self.process.place);
            self.process.place = shared.places.insert(copy);
        }
    }

    /// The calling thread is the only one left: what it had for itself is its process's now.
    fn adopt_own_parts(&mut self) {
        if let Some(own) = self.thread.own_fds.take() {
            let old = std::mem::replace(&mut self.process.fds, own);
            self.kernel.release_fds(old, self.process.pid);
        }
        if let Some(own) = self.thread.own_place.take() {
            let old = std::mem::replace(&mut self.process.place, own);
            self.kernel.shared.places.release(old);
        }
    }

    /// The calling thread ends: what it had for itself goes with it.
    pub(crate) fn release_own_parts(&mut self) {
        if let Some(own) = self.thread.own_fds.take() {
            self.kernel.release_fds(own, self.process.pid);
        }
        if let Some(own) = self.thread.own_place.take() {
            self.kernel.shared.places.release(own);
        }
    }

    /// Gives the calling process descriptors of its own.
    pub(crate) fn unshare_descriptors(&mut self) {
        let shared = &mut self.kernel.shared;
        if shared.fds.users(self.process.fds) > 1 {
            let copy = shared.fds[self.process.fds].clone();
            shared.fds.release(self.process.fds);
            copy.iter().for_each(|(_, file)| self.kernel.files.acquire(file));
            self.process.fds = shared.fds.insert(copy);
        }
    }

    /// Gives it signal handlers of its own.
    fn unshare_handlers(&mut self) {
        let shared = &mut self.kernel.shared;
        if shared.handlers.users(self.process.handlers) > 1 {
            let copy = shared.handlers[self.process.handlers].clone();
            shared.handlers.release(self.process.handlers);
            self.process.handlers = shared.handlers.insert(copy);
        }
    }
}

/// The interpreter and the one argument of a `#!` line.
fn script_line(file: &File) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    use std::os::unix::fs::FileExt;
    let mut head = [0u8; SCRIPT_LINE_MAX];
    let read = file.read_at(&mut head, 0).ok()?;
    let line = head[..read].strip_prefix(b"#!")?;
    let line = line.split(|byte| *byte == b'\n').next()?.trim_ascii();
    let end = line.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(line.len());
    let argument = line[end..].trim_ascii();
    (end > 0).then(|| (line[..end].to_vec(), (!argument.is_empty()).then(|| argument.to_vec())))
}

/// What `comm` is after execve: the name by which the program was called, that of a script included; 15 bytes at most.
fn short_name(path: &[u8]) -> Vec<u8> {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    name[..name.len().min(15)].to_vec()
}

fn errno_of(error: &StartError) -> Errno {
    match error {
        StartError::NotExecutable(_) | StartError::FixedAddress => Errno::ENOEXEC,
        StartError::NoMemory => Errno::ENOMEM,
        StartError::NoMappings => crate::machine::no_mappings(),
        StartError::TooBig => Errno::E2BIG,
    }
}
