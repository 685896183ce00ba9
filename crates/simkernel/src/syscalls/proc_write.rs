//! Writes to what can be set in `/proc`: settings of the host, names and ratings of processes. Of anything else only what Linux lets a process
//! write is taken, without effect.

use crate::ctx::Ctx;
use crate::files::FileKind;
use crate::ids::FileId;
use crate::outcome::SysResult;
use crate::process::Process;
use crate::user_io::{ByteSource, UserBuffers};
use crate::vfs::settings::Settings;
use linux_abi::Errno;
use linux_abi::capability::CAP_SYS_RESOURCE;
use linux_abi::fs::IN_MODIFY;
use tcpip::sysctl::SysctlError;

/// No more than a page is taken at once, as Linux does here.
const WRITE_MAX: usize = 4096;
const NAME_MAX: usize = 15;

/// write(2) to a file that is made up. EINVAL for what cannot be read as a value.
pub(super) fn write(ctx: &mut Ctx<'_>, id: FileId, buffers: &UserBuffers) -> SysResult {
    let FileKind::Snapshot(file) = &ctx.kernel.files[id].kind else { return Err(Errno::EBADF.into()) };
    let path = file.path.clone();
    let mut source = buffers.source(&ctx.process.memory);
    let mut bytes = vec![0; source.remaining().min(WRITE_MAX)];
    let taken = source.take(&mut bytes);
    if taken < bytes.len() {
        return Err(Errno::EFAULT.into());
    }
    set(ctx, &String::from_utf8_lossy(&path), &bytes)?;
    ctx.kernel.open_file_event(id, IN_MODIFY);
    Ok(buffers.total() as u64)
}

/// The same of bytes that come from elsewhere (splice).
pub(super) fn write_bytes(ctx: &mut Ctx<'_>, id: FileId, bytes: &[u8]) -> Result<usize, Errno> {
    let FileKind::Snapshot(file) = &ctx.kernel.files[id].kind else { return Err(Errno::EBADF) };
    let path = file.path.clone();
    set(ctx, &String::from_utf8_lossy(&path), &bytes[..bytes.len().min(WRITE_MAX)])?;
    ctx.kernel.open_file_event(id, IN_MODIFY);
    Ok(bytes.len())
}

/// A setting below `/proc/sys`: one of the network stack's is changed there, and shown as it took it.
fn set_setting(ctx: &mut Ctx<'_>, name: &str, bytes: &[u8]) -> Result<(), Errno> {
    if !Settings::is_of_stack(name) {
        return ctx.kernel.shared.settings.set(name, bytes);
    }
    let value = std::str::from_utf8(bytes).map_err(|_| Errno::EINVAL)?;
    let stack = &mut ctx.kernel.net.stack;
    stack.set_sysctl(name, value).map_err(|error| match error {
        SysctlError::Absent => Errno::ENOENT,
        SysctlError::Invalid | SysctlError::Unknown => Errno::EINVAL,
    })?;
    let shown = stack.config().sysctl(name).unwrap_or_default();
    ctx.kernel.shared.settings.set(name, shown.as_bytes())
}

fn set(ctx: &mut Ctx<'_>, path: &str, bytes: &[u8]) -> Result<(), Errno> {
    if let Some(name) = path.strip_prefix("/proc/sys/") {
        return set_setting(ctx, name, bytes);
    }
    let Some(rest) = path.strip_prefix("/proc/") else { return Ok(()) };
    let of_process = rest.split_once('/').and_then(|(pid, what)| Some((pid.parse::<u32>().ok()?, what)));
    // Nothing else of the system's own is written (`proc_reg_write`).
    let Some((pid, what)) = of_process else { return Err(Errno::EIO) };
    match what.split('/').next_back().unwrap_or(what) {
        "comm" => set_name(ctx, pid, what, bytes),
        "oom_score_adj" => {
            let value = i32::try_from(number(bytes)?).ok().filter(|value| (-1000..=1000).contains(value));
            let value = value.ok_or(Errno::EINVAL)?;
            let raises = ctx.credentials().can(CAP_SYS_RESOURCE);
            let process = named(ctx, pid)?;
            if value < process.oom_score_adj && !raises {
                return Err(Errno::EACCES);
            }
            process.oom_score_adj = value;
            Ok(())
        }
        "coredump_filter" => {
            const KNOWN: u32 = 0x1ff;
            let value = number(bytes)?;
            let value = u32::try_from(value).map_err(|_| if value < 0 { Errno::EINVAL } else { Errno::ERANGE })?;
            named(ctx, pid)?.dump_filter = value & KNOWN;
            Ok(())
        }
        "loginuid" => {
            let value = std::str::from_utf8(bytes.trim_ascii()).ok().and_then(|text| text.parse().ok());
            named(ctx, pid)?.login_uid = value.ok_or(Errno::EINVAL)?;
            Ok(())
        }
        "autogroup" | "clear_refs" | "gid_map" | "oom_adj" | "sched" | "setgroups" | "timerslack_ns" | "uid_map" => {
            Ok(())
        }
        _ if what.starts_with("attr/") => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

/// A number up to the first NUL, in C's notations, with space around it (`kstrtol` of what `strstrip` leaves). EINVAL.
fn number(bytes: &[u8]) -> Result<i64, Errno> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = std::str::from_utf8(bytes[..end].trim_ascii()).map_err(|_| Errno::EINVAL)?;
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, radix) = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if digits.len() > 1 && digits.starts_with('0') => (digits, 8),
        None => (digits, 10),
    };
    if !digits.starts_with(|first: char| first.is_digit(radix)) {
        return Err(Errno::EINVAL);
    }
    i64::from_str_radix(digits, radix).map(|value| sign * value).map_err(|_| Errno::EINVAL)
}

/// The process that has a thread of a number. ESRCH when it is over.
fn named<'a>(ctx: &'a mut Ctx<'_>, tid: u32) -> Result<&'a mut Process, Errno> {
    super::system::named_process(ctx, tid.into())
}

/// The name of a thread: that in the path (`task/TID/comm`), or the main one. EINVAL for a thread of another process.
fn set_name(ctx: &mut Ctx<'_>, pid: u32, what: &str, bytes: &[u8]) -> Result<(), Errno> {
    let tid = what.strip_prefix("task/").and_then(|rest| rest.split('/').next()?.parse().ok()).unwrap_or(pid);
    let own = ctx.process.pid;
    if named(ctx, pid)?.pid != own {
        return Err(Errno::EINVAL);
    }
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()).min(NAME_MAX);
    let name = bytes[..end].to_vec();
    if tid == ctx.thread.tid.0 {
        ctx.thread.name = name;
        return Ok(());
    }
    ctx.kernel.threads.get_mut(tid).ok_or(Errno::ESRCH)?.name = name;
    Ok(())
}
