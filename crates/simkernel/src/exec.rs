//! Starting programs: a host's first processes, and `execve`.

use crate::credentials::{Credentials, ProgramFile};
use crate::ctx::Ctx;
use crate::family::INIT;
use crate::fd_table::FdTable;
use crate::files::output::Shown;
use crate::files::{FileKind, OpenFile};
use crate::ids::{FileId, Pid};
use crate::kernel::Kernel;
use crate::process::{ExitStatus, Parts, Process};
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

/// How many `#!` lines may lead one to another (`exec_binprm`).
const SCRIPTS_MAX: usize = 5;
/// As much of a file is looked at (`BINPRM_BUF_SIZE`).
const SCRIPT_HEAD_BYTES: usize = 256;

/// An opened program, or a script.
pub(crate) struct Executable {
    pub file: File,
    /// As the host knows it.
    pub path: Vec<u8>,
    pub owner: ProgramFile,
    /// What `/proc/PID/exe` leads to.
    pub opened: FileId,
}

/// A program as execve is asked for it.
pub(crate) struct Asked<'a> {
    pub path: &'a [u8],
    /// What the program is told of its name, which a script's interpreter can open.
    pub name: Vec<u8>,
    /// A link in the last place counts for what it leads to.
    pub follow: bool,
    /// The name means a descriptor that is closed before anybody could open it: a script's interpreter would not find it.
    pub is_closed: bool,
}

impl Asked<'_> {
    pub fn by_path(path: &[u8]) -> Asked<'_> {
        Asked { path, name: path.to_vec(), follow: true, is_closed: false }
    }
}

/// What is to be loaded once `#!` lines are resolved.
struct Resolved {
    program: Program,
    path: Vec<u8>,
    /// AT_EXECFN: of a script its own.
    name: Vec<u8>,
    arguments: Vec<Vec<u8>>,
    owner: ProgramFile,
    opened: FileId,
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
    /// It is found out only when there is no way back to the old program, which ends by this signal.
    pub signal: Option<i32>,
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
        let resolved = self.resolve_program(None, &Asked::by_path(&spec.path), spec.arguments.clone())?;
        let (credentials, secure) = spec.credentials.for_program(resolved.owner, false);
        let (memory, vcpu) = self.load(&resolved, &spec.environment, &Start { credentials: &credentials, secure })?;
        let place = Place { cwd: spec.working_directory.clone(), ..Place::default() };
        let mut process = self.new_process(pid, memory, place, now);
        process.exe = resolved.path;
        self.adopt_program(&mut process, resolved.opened);
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
    pub(crate) fn start_process(&mut self, process: Process, mut thread: Thread) {
        let tid = thread.tid;
        self.processors.start(&mut thread.placement);
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
        asked: &Asked<'_>,
        mut arguments: Vec<Vec<u8>>,
    ) -> Result<Resolved, ExecError> {
        let (mut path, mut follow, mut name) = (asked.path.to_vec(), asked.follow, asked.name.clone());
        for _ in 0..=SCRIPTS_MAX {
            let found = self.open_program(caller, &path, follow)?;
            let Some((interpreter, argument)) = script_line(&found.file) else {
                return self.open_images(caller, found, asked.name.clone(), arguments);
            };
            self.release_file(found.opened);
            if asked.is_closed {
                return Err(failed(&name, Errno::ENOENT));
            }
            if interpreter.is_empty() {
                // It would be the working directory.
                return Err(failed(&name, Errno::EACCES));
            }
            let rest = arguments.into_iter().skip(1);
            arguments = std::iter::once(interpreter.clone()).chain(argument).chain([name]).chain(rest).collect();
            (path, follow, name) = (interpreter.clone(), true, interpreter);
        }
        let message = format!("{}: too many levels of #! scripts", String::from_utf8_lossy(&path));
        Err(ExecError { errno: Errno::ELOOP, message, signal: None })
    }

    /// Reads a program's image and its interpreter's.
    fn open_images(
        &mut self,
        caller: Option<Caller<'_>>,
        found: Executable,
        name: Vec<u8>,
        arguments: Vec<Vec<u8>>,
    ) -> Result<Resolved, ExecError> {
        let Executable { file, path, owner, opened } = found;
        let program = Program::open(&file, &path, |interpreter| {
            let found = self.open_program(caller, interpreter, true);
            let found = found.map_err(|error| std::io::Error::from_raw_os_error(error.errno.raw()))?;
            self.release_file(found.opened);
            Ok(found.file)
        });
        match program {
            Ok(program) => Ok(Resolved { program, path, name, arguments, owner, opened }),
            Err(error) => {
                self.release_file(opened);
                Err(ExecError {
                    errno: errno_of(&error),
                    message: format!("{} {error}", String::from_utf8_lossy(&path)),
                    signal: error.signal(),
                })
            }
        }
    }

    fn open_program(&mut self, caller: Option<Caller<'_>>, path: &[u8], follow: bool) -> Result<Executable, ExecError> {
        self.open_executable(caller, path, follow).map_err(|errno| failed(path, errno))
    }

    /// Descriptors 0, 1 and 2 of a process of the experiment: /dev/null and its output files; and its log of calls.
    /// They are named after the file that the experiment names, even if that is a script.
    fn open_standard_files(&mut self, process: &mut Process, name: &str) -> Result<(), ExecError> {
        let null = self.files.insert(OpenFile::new(FileKind::Device(Device::Null), O_RDONLY));
        let number = self.outer_id(process.pid.0);
        let mut create = |kind, stream| {
            let path = self.config.host_dir.join(format!("{name}.{number}.{kind}"));
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
                false => self.create_output(&format!("{name}.{}.strace", self.outer_id(process.pid.0)))?,
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
            name: &resolved.name,
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
            signal: error.signal(),
        })
    }
}

fn failed(path: &[u8], errno: Errno) -> ExecError {
    let text = errno.description().unwrap_or("error");
    ExecError { errno, message: format!("{}: {text}", String::from_utf8_lossy(path)), signal: None }
}

fn cannot_create(path: &Path, errno: Errno) -> ExecError {
    let text = errno.description().unwrap_or("error");
    ExecError { errno, message: format!("cannot create {}: {text}", path.display()), signal: None }
}

impl Ctx<'_> {
    /// `execve(2)` of the calling process. On success the calling thread is the only one, has the process's number, and stands at the
    /// new program's start.
    ///
    /// # Errors
    /// As execve(2); the old program goes on then.
    pub(crate) fn exec(
        &mut self,
        asked: &Asked<'_>,
        arguments: Vec<Vec<u8>>,
        environment: Vec<Vec<u8>>,
    ) -> Result<(), Errno> {
        let caller = Caller { process: self.process, thread: self.thread };
        let no_new_privileges = self.thread.no_new_privileges;
        let result = self.kernel.resolve_program(Some(caller), asked, arguments).and_then(|resolved| {
            let (credentials, secure) = self.thread.credentials.for_program(resolved.owner, no_new_privileges);
            match self.kernel.load(&resolved, &environment, &Start { credentials: &credentials, secure }) {
                Ok(loaded) => Ok((resolved, loaded, credentials, secure)),
                Err(error) => {
                    self.kernel.release_file(resolved.opened);
                    Err(error)
                }
            }
        });
        let (resolved, (memory, vcpu), credentials, secure) = result.map_err(|error| {
            if matches!(error.errno, Errno::ENOEXEC | Errno::ENOMEM) {
                self.report(format!("execve: {}", error.message));
            }
            if let Some(signal) = error.signal {
                self.process.ending = Some(ExitStatus::Signaled(signal));
            }
            error.errno
        })?;
        self.end_other_threads();
        self.adopt_own_parts();
        self.leave_memory();
        self.kernel.release_memory(self.process);
        self.process.makes_code = false;
        self.process.uses_gs = false;
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
        self.adopt_program_credentials(credentials, secure, resolved.owner);
        self.thread.vcpu = vcpu;
        // Place and size of the signal stack go, that it is to be disarmed stays (`setup_new_exec`).
        let ss_flags = SS_DISABLE | self.thread.altstack.ss_flags & SS_AUTODISARM;
        self.thread.altstack = StackT { ss_flags, ..StackT::default() };
        self.thread.rseq = None;
        self.show_processor();
        self.thread.recent.clear();
        self.thread.name = short_name(&asked.name);
        self.process.exe = resolved.path;
        self.kernel.adopt_program(self.process, resolved.opened);
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
    let mut head = [0u8; SCRIPT_HEAD_BYTES];
    file.read_at(&mut head, 0).ok()?;
    parse_script_line(&head)
}

/// As `load_script` reads what a file begins with, which zeroes follow; the last byte only ends a word.
fn parse_script_line(head: &[u8]) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let ends_word = |byte: &u8| is_blank(byte) || *byte == 0;
    let all = head.strip_prefix(b"#!")?;
    let whole = all.iter().position(|byte| *byte == b'\n');
    let line = &all[..whole.unwrap_or(all.len() - 1)];
    let from = line.iter().position(|byte| !is_blank(byte))?;
    let end_in = |text: &[u8]| text[from..].iter().position(ends_word).map(|length| from + length);
    // An interpreter without an end is one that was cut off.
    let end = if whole.is_some() { end_in(line).unwrap_or(line.len()) } else { end_in(all)? };
    let text = |bytes: &[u8]| bytes.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
    let rest = &line[end..];
    let argument = match rest.first() {
        Some(0) | None => Vec::new(),
        Some(_) => {
            let rest = &rest[rest.iter().position(|byte| !is_blank(byte)).unwrap_or(rest.len())..];
            let last = rest.iter().rposition(|byte| !is_blank(byte)).map_or(0, |last| last + 1);
            text(&rest[..last])
        }
    };
    Some((line[from..end].to_vec(), (!argument.is_empty()).then_some(argument)))
}

/// What `comm` is after execve: the name by which the program was called, that of a script included; 15 bytes at most.
fn short_name(path: &[u8]) -> Vec<u8> {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    name[..name.len().min(15)].to_vec()
}

fn errno_of(error: &StartError) -> Errno {
    match error {
        StartError::NotExecutable(_) | StartError::FixedAddress => Errno::ENOEXEC,
        StartError::NoInterpreter { errno, .. } => Errno::from_raw(*errno).unwrap_or(Errno::ENOENT),
        StartError::BadInterpreter(_) => Errno::ELIBBAD,
        StartError::NoMemory => Errno::ENOMEM,
        StartError::NoMappings => crate::machine::no_mappings(),
        StartError::TooBig => Errno::E2BIG,
    }
}
