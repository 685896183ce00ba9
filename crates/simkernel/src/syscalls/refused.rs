//! Calls that a kernel refuses which was built and set up with care: what is left out answers ENOSYS, what only an administrator of the
//! machine may do EPERM. Programs ask for these and know what to do without; so nothing is reported.

use crate::ctx::Ctx;
use crate::outcome::SysResult;
use linux_abi::Errno;

/// Left out of the kernel (`CONFIG_KEYS`, `CONFIG_AIO`, `CONFIG_MODIFY_LDT_SYSCALL` and so on), or of Linux altogether.
pub(super) fn absent(_ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    Err(Errno::ENOSYS.into())
}

/// mount(2), swapon(2), init_module(2), bpf(2), ptrace(2), io_uring_setup(2) and others: for the machine's administrator, who is no guest.
/// `kernel.io_uring_disabled` and `kernel.yama.ptrace_scope` at their strictest give the same.
pub(super) fn not_permitted(_ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    Err(Errno::EPERM.into())
}

/// perf_event_open(2) where `kernel.perf_event_paranoid` is 3.
pub(super) fn no_access(_ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    Err(Errno::EACCES.into())
}

/// io_uring_enter(2), io_uring_register(2): no descriptor is a ring.
pub(super) fn no_ring(ctx: &mut Ctx<'_>, [fd, ..]: [u64; 6]) -> SysResult {
    ctx.file(fd)?;
    Err(Errno::EOPNOTSUPP.into())
}

/// setns(2).
pub(super) fn setns(ctx: &mut Ctx<'_>, [fd, kinds, ..]: [u64; 6]) -> SysResult {
    let file = ctx.opened(fd)?;
    crate::namespaces::enter(ctx, file, kinds)
}

/// name_to_handle_at(2): no file system gives handles out.
pub(super) fn no_handles(ctx: &mut Ctx<'_>, [dirfd, path, _, _, flags, _]: [u64; 6]) -> SysResult {
    use linux_abi::fs::{AT_EMPTY_PATH, AT_SYMLINK_FOLLOW};
    if flags as u32 & !(AT_EMPTY_PATH | AT_SYMLINK_FOLLOW) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let path = ctx.path_argument(path)?;
    if !path.is_empty() {
        ctx.walk(dirfd, &path, false)?.node.ok_or(Errno::ENOENT)?;
    }
    Err(Errno::EOPNOTSUPP.into())
}

/// pkey_alloc(2): the processor has no protection keys.
pub(super) fn pkey_alloc(_ctx: &mut Ctx<'_>, [flags, rights, ..]: [u64; 6]) -> SysResult {
    const RIGHTS: u64 = 3;
    Err(if flags != 0 || rights & !RIGHTS != 0 { Errno::EINVAL } else { Errno::ENOSPC }.into())
}

/// pkey_free(2).
pub(super) fn pkey_free(_ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    Err(Errno::EINVAL.into())
}

/// pkey_mprotect(2): only the key that stands for none.
pub(super) fn pkey_mprotect(ctx: &mut Ctx<'_>, [address, bytes, prot, key, ..]: [u64; 6]) -> SysResult {
    if key as i32 != -1 {
        return Err(Errno::EINVAL.into());
    }
    super::memory::mprotect(ctx, [address, bytes, prot, 0, 0, 0])
}

#[cfg(test)]
mod tests {
    use crate::test_machine::{A, Machine};
    use linux_abi::{Errno, nr};

    #[test]
    fn what_is_refused_is_refused_as_kernels_do() {
        let mut m = Machine::new(A);
        let calls = [
            (nr::io_uring_setup, Errno::EPERM),
            (nr::ptrace, Errno::EPERM),
            (nr::mount, Errno::EPERM),
            (nr::bpf, Errno::EPERM),
            (nr::perf_event_open, Errno::EACCES),
            (nr::userfaultfd, Errno::EPERM),
            (nr::keyctl, Errno::ENOSYS),
            (nr::pkey_alloc, Errno::ENOSPC),
        ];
        for (number, errno) in calls {
            assert_eq!(m.call(number, &[0; 6]), Err(errno), "{:?}", nr::name(number.into()));
        }
        assert_eq!(m.call(nr::pkey_alloc, &[1]), Err(Errno::EINVAL));
        assert_eq!(m.call(nr::io_uring_enter, &[77]), Err(Errno::EBADF));
        assert!(m.kernel.reports.is_empty(), "nothing is reported");
    }
}
