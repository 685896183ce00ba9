//! Compares every structure and constant with what the machine's C headers say: a small C program per group of headers
//! prints sizes, offsets and values. Constants that the headers are too old for are skipped by `#ifdef`; structures never.

use linux_abi::{
    Names, capability, event, fs, ioctl, ipc, mm, net, nr, process, signal, sockaddr, socket, sysinfo, time, tty,
};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// What one structure looks like in Rust.
struct Layout {
    c_name: &'static str,
    size: usize,
    /// The field's C name, and its offset here.
    fields: Vec<(&'static str, usize)>,
}

/// `layout!(Type, "struct c", { field: "c_field", same_name })`
macro_rules! layout {
    ($type:ty, $c:literal, { $($field:ident $(: $c_field:literal)?),* $(,)? }) => {
        Layout {
            c_name: $c,
            size: size_of::<$type>(),
            fields: vec![$((layout!(@name $field $($c_field)?), std::mem::offset_of!($type, $field))),*],
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $c_field:literal) => { $c_field };
}

/// Compiles and runs a C program; what it printed.
fn run_c(name: &str, source: &str) -> String {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (code, program) = (dir.join(format!("{name}.c")), dir.join(name));
    std::fs::write(&code, source).unwrap();
    let compiled = Command::new("cc").arg("-w").arg(&code).arg("-o").arg(&program).output().expect("cc is needed");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new(&program).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn program(headers: &[&str], body: &str) -> String {
    let includes: String = headers.iter().map(|header| format!("#include <{header}>\n")).collect();
    format!(
        "#define _GNU_SOURCE\n{includes}#include <stdio.h>\n#include <stddef.h>\nint main(void) {{\n{body}return 0;\n}}\n"
    )
}

fn check_layouts(name: &str, headers: &[&str], layouts: &[Layout]) {
    let (mut body, mut expected) = (String::new(), String::new());
    for layout in layouts {
        let c = layout.c_name;
        writeln!(body, "printf(\"{c} %zu\\n\", sizeof({c}));").unwrap();
        writeln!(expected, "{c} {}", layout.size).unwrap();
        for (field, offset) in &layout.fields {
            writeln!(body, "printf(\"{c}.{field} %zu\\n\", offsetof({c}, {field}));").unwrap();
            writeln!(expected, "{c}.{field} {offset}").unwrap();
        }
    }
    let printed = run_c(name, &program(headers, &body));
    for (ours, theirs) in expected.lines().zip(printed.lines()) {
        assert_eq!(ours, theirs, "left: here, right: the C headers");
    }
    assert_eq!(expected.lines().count(), printed.lines().count());
}

/// Compares all constants that the headers define; fails when they define fewer than `at_least`.
fn check_constants(name: &str, headers: &[&str], families: &[Names], at_least: usize) {
    let mut body = String::new();
    let all = || families.iter().flat_map(|family| family.iter());
    for (constant, _) in all() {
        // glibc defines its enumerators as macros too, so that the preprocessor sees most of them.
        writeln!(body, "#ifdef {constant}\nprintf(\"{constant} %lld\\n\", (long long)({constant}));\n#endif").unwrap();
    }
    let printed = run_c(name, &program(headers, &body));
    for line in printed.lines() {
        let (constant, value) = line.split_once(' ').unwrap();
        let value: i64 = value.parse().unwrap();
        let (_, ours) = all().find(|(known, _)| *known == constant).unwrap();
        assert_eq!(*ours as u32, value as u32, "{constant}");
        assert!(*ours == value as u64 || value >> 32 == -1 || value >> 32 == 0, "{constant}");
    }
    let found = printed.lines().count();
    assert!(found >= at_least, "the headers define only {found} of {} constants", all().count());
}

#[test]
fn structures_of_files_and_time() {
    let layouts = [
        layout!(fs::Stat, "struct stat", {
            st_dev, st_ino, st_nlink, st_mode, st_uid, st_gid, st_rdev, st_size, st_blksize, st_blocks, st_atime: "st_atim",
            st_mtime: "st_mtim", st_ctime: "st_ctim",
        }),
        layout!(fs::Statx, "struct statx", {
            stx_mask, stx_blksize, stx_attributes, stx_nlink, stx_uid, stx_gid, stx_mode, stx_ino, stx_size, stx_blocks,
            stx_attributes_mask, stx_atime, stx_btime, stx_ctime, stx_mtime, stx_rdev_major, stx_rdev_minor, stx_dev_major,
            stx_dev_minor,
        }),
        layout!(fs::Statfs, "struct statfs", {
            f_type, f_bsize, f_blocks, f_bfree, f_bavail, f_files, f_ffree, f_fsid, f_namelen, f_frsize, f_flags,
        }),
        layout!(fs::Iovec, "struct iovec", { iov_base, iov_len }),
        layout!(fs::Flock, "struct flock", { l_type, l_whence, l_start, l_len, l_pid }),
        layout!(fs::FOwnerEx, "struct f_owner_ex", { kind: "type", pid }),
        layout!(fs::Utimbuf, "struct utimbuf", { actime, modtime }),
        layout!(time::Timespec, "struct timespec", { tv_sec, tv_nsec }),
        layout!(time::Timeval, "struct timeval", { tv_sec, tv_usec }),
        layout!(time::Itimerspec, "struct itimerspec", { it_interval, it_value }),
        layout!(time::Itimerval, "struct itimerval", { it_interval, it_value }),
        layout!(time::Timezone, "struct timezone", { tz_minuteswest, tz_dsttime }),
        layout!(time::Tms, "struct tms", { tms_utime, tms_stime, tms_cutime, tms_cstime }),
        layout!(sysinfo::Rlimit, "struct rlimit", { rlim_cur, rlim_max }),
        layout!(sysinfo::Utsname, "struct utsname", { sysname, nodename, release, version, machine, domainname }),
        layout!(sysinfo::Sysinfo, "struct sysinfo", {
            uptime, loads, totalram, freeram, sharedram, bufferram, totalswap, freeswap, procs, totalhigh, freehigh, mem_unit,
        }),
        layout!(sysinfo::Rusage, "struct rusage", {
            ru_utime, ru_stime, ru_maxrss, ru_ixrss, ru_idrss, ru_isrss, ru_minflt, ru_majflt, ru_nswap, ru_inblock, ru_oublock,
            ru_msgsnd, ru_msgrcv, ru_nsignals, ru_nvcsw, ru_nivcsw,
        }),
        layout!(event::Pollfd, "struct pollfd", { fd, events, revents }),
        layout!(event::EpollEvent, "struct epoll_event", { events, data }),
    ];
    let headers = [
        "sys/stat.h",
        "sys/statfs.h",
        "sys/uio.h",
        "fcntl.h",
        "utime.h",
        "time.h",
        "sys/time.h",
        "sys/times.h",
        "sys/resource.h",
        "sys/utsname.h",
        "sys/sysinfo.h",
        "poll.h",
        "sys/epoll.h",
    ];
    check_layouts("layout_files", &headers, &layouts);
}

#[test]
fn structures_of_sockets() {
    let layouts = [
        layout!(socket::Msghdr, "struct msghdr", {
            msg_name, msg_namelen, msg_iov, msg_iovlen, msg_control, msg_controllen, msg_flags,
        }),
        layout!(socket::Mmsghdr, "struct mmsghdr", { msg_hdr, msg_len }),
        layout!(socket::Cmsghdr, "struct cmsghdr", { cmsg_len, cmsg_level, cmsg_type }),
        layout!(socket::Ucred, "struct ucred", { pid, uid, gid }),
        layout!(socket::Linger, "struct linger", { l_onoff, l_linger }),
        layout!(socket::IpMreq, "struct ip_mreq", { imr_multiaddr, imr_interface }),
        layout!(socket::IpMreqn, "struct ip_mreqn", { imr_multiaddr, imr_address, imr_ifindex }),
        layout!(socket::IpMreqSource, "struct ip_mreq_source", { imr_multiaddr, imr_interface, imr_sourceaddr }),
        layout!(socket::GroupReq, "struct group_req", { gr_interface, gr_group }),
        layout!(socket::GroupSourceReq, "struct group_source_req", { gsr_interface, gsr_group, gsr_source }),
        layout!(socket::Ipv6Mreq, "struct ipv6_mreq", { ipv6mr_multiaddr, ipv6mr_ifindex: "ipv6mr_interface" }),
        layout!(socket::InPktinfo, "struct in_pktinfo", { ipi_ifindex, ipi_spec_dst, ipi_addr }),
        layout!(socket::In6Pktinfo, "struct in6_pktinfo", { ipi6_addr, ipi6_ifindex }),
        layout!(sockaddr::SockaddrIn, "struct sockaddr_in", { sin_family, sin_port, sin_addr, sin_zero }),
        layout!(sockaddr::SockaddrIn6, "struct sockaddr_in6", {
            sin6_family, sin6_port, sin6_flowinfo, sin6_addr, sin6_scope_id,
        }),
        layout!(sockaddr::SockaddrUn, "struct sockaddr_un", { sun_family, sun_path }),
        layout!(socket::SockExtendedErr, "struct sock_extended_err", {
            ee_errno, ee_origin, ee_type, ee_code, ee_info, ee_data,
        }),
        layout!(ioctl::Ifreq, "struct ifreq", { ifr_name, ifr_data: "ifr_addr" }),
        layout!(ioctl::Ifconf, "struct ifconf", { ifc_len, ifc_buf }),
    ];
    check_layouts(
        "layout_sockets",
        &["time.h", "sys/socket.h", "netinet/in.h", "sys/un.h", "net/if.h", "linux/errqueue.h"],
        &layouts,
    );
}

/// The kernel's `tcp_info` grows at its end: what the headers have must agree.
#[test]
fn tcp_info_agrees_as_far_as_the_headers_go() {
    let info = layout!(net::TcpInfo, "struct tcp_info", {
        tcpi_state, tcpi_ca_state, tcpi_retransmits, tcpi_probes, tcpi_backoff, tcpi_options, tcpi_rto, tcpi_ato, tcpi_snd_mss,
        tcpi_rcv_mss, tcpi_unacked, tcpi_sacked, tcpi_lost, tcpi_retrans, tcpi_fackets, tcpi_last_data_sent,
        tcpi_last_ack_sent, tcpi_last_data_recv, tcpi_last_ack_recv, tcpi_pmtu, tcpi_rcv_ssthresh, tcpi_rtt, tcpi_rttvar,
        tcpi_snd_ssthresh, tcpi_snd_cwnd, tcpi_advmss, tcpi_reordering, tcpi_rcv_rtt, tcpi_rcv_space, tcpi_total_retrans,
        tcpi_pacing_rate, tcpi_max_pacing_rate, tcpi_bytes_acked, tcpi_bytes_received, tcpi_segs_out, tcpi_segs_in,
        tcpi_notsent_bytes, tcpi_min_rtt, tcpi_data_segs_in, tcpi_data_segs_out, tcpi_delivery_rate, tcpi_busy_time,
        tcpi_rwnd_limited, tcpi_sndbuf_limited, tcpi_delivered, tcpi_delivered_ce, tcpi_bytes_sent, tcpi_bytes_retrans,
        tcpi_dsack_dups, tcpi_reord_seen, tcpi_rcv_ooopack, tcpi_snd_wnd,
    });
    let mut layouts = [info];
    let print_size = "printf(\"%zu\", sizeof(struct tcp_info));\n";
    let size: usize = run_c("tcp_info_size", &program(&["linux/tcp.h"], print_size)).parse().unwrap();
    assert!(size >= 232, "Linux 6.1 has 232 bytes");
    layouts[0].size = size;
    check_layouts("layout_tcp_info", &["linux/tcp.h"], &layouts);
}

#[test]
fn structures_and_constants_of_communication() {
    let layouts = [
        layout!(ipc::IpcPerm, "struct ipc_perm", { key: "__key", uid, gid, cuid, cgid, mode, seq: "__seq" }),
        layout!(ipc::ShmidDs, "struct shmid_ds", {
            shm_perm, shm_segsz, shm_atime, shm_dtime, shm_ctime, shm_cpid, shm_lpid, shm_nattch,
        }),
        layout!(ipc::Shminfo, "struct shminfo", { shmmax, shmmin, shmmni, shmseg, shmall }),
        layout!(ipc::ShmInfo, "struct shm_info", { used_ids, shm_tot, shm_rss, shm_swp }),
        layout!(ipc::SemidDs, "struct semid_ds", { sem_perm, sem_otime, sem_ctime, sem_nsems }),
        layout!(ipc::Seminfo, "struct seminfo", {
            semmap, semmni, semmns, semmnu, semmsl, semopm, semume, semusz, semvmx, semaem,
        }),
        layout!(ipc::Sembuf, "struct sembuf", { sem_num, sem_op, sem_flg }),
        layout!(ipc::MsqidDs, "struct msqid_ds", {
            msg_perm, msg_stime, msg_rtime, msg_ctime, msg_cbytes: "__msg_cbytes", msg_qnum, msg_qbytes, msg_lspid, msg_lrpid,
        }),
        layout!(ipc::Msginfo, "struct msginfo", {
            msgpool, msgmap, msgmax, msgmnb, msgmni, msgssz, msgtql, msgseg,
        }),
        layout!(ipc::MqAttr, "struct mq_attr", { mq_flags, mq_maxmsg, mq_msgsize, mq_curmsgs }),
    ];
    let headers = ["sys/shm.h", "sys/sem.h", "sys/msg.h", "mqueue.h"];
    check_layouts("layout_ipc", &headers, &layouts);
    let families = [
        ipc::IPC_FLAGS,
        ipc::IPC_COMMANDS,
        ipc::SHM_COMMANDS,
        ipc::SHM_FLAGS,
        ipc::SHM_MODES,
        ipc::SEM_COMMANDS,
        ipc::MSG_COMMANDS,
        ipc::MSGRCV_FLAGS,
    ];
    check_constants("constants_ipc", &headers, &families, 30);
}

#[test]
fn structures_that_only_the_kernel_headers_have() {
    let layouts = [
        layout!(process::CloneArgs, "struct clone_args", {
            flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup,
        }),
        layout!(process::RobustListHead, "struct robust_list_head", { next: "list", futex_offset, list_op_pending }),
        layout!(process::CapHeader, "struct __user_cap_header_struct", { version, pid }),
        layout!(process::CapData, "struct __user_cap_data_struct", { effective, permitted, inheritable }),
        layout!(fs::OpenHow, "struct open_how", { flags, mode, resolve }),
        layout!(net::Nlmsghdr, "struct nlmsghdr", { nlmsg_len, nlmsg_type, nlmsg_flags, nlmsg_seq, nlmsg_pid }),
        layout!(net::Ifinfomsg, "struct ifinfomsg", { ifi_family, ifi_type, ifi_index, ifi_flags, ifi_change }),
        layout!(net::Ifaddrmsg, "struct ifaddrmsg", { ifa_family, ifa_prefixlen, ifa_flags, ifa_scope, ifa_index }),
        layout!(net::Rtattr, "struct rtattr", { rta_len, rta_type }),
        layout!(sockaddr::SockaddrNl, "struct sockaddr_nl", { nl_family, nl_pid, nl_groups }),
        layout!(ioctl::Termios, "struct termios", { c_iflag, c_oflag, c_cflag, c_lflag, c_line, c_cc }),
        layout!(tty::Termios2, "struct termios2", { c_iflag, c_oflag, c_cflag, c_lflag, c_line, c_cc, c_ispeed, c_ospeed }),
        layout!(tty::Termio, "struct termio", { c_iflag, c_oflag, c_cflag, c_lflag, c_line, c_cc }),
        layout!(ioctl::Winsize, "struct winsize", { ws_row, ws_col, ws_xpixel, ws_ypixel }),
    ];
    let headers = [
        "linux/time_types.h",
        "linux/sched.h",
        "linux/futex.h",
        "linux/capability.h",
        "linux/openat2.h",
        "linux/netlink.h",
        "linux/rtnetlink.h",
        "asm/termbits.h",
        "asm/termios.h",
    ];
    check_layouts("layout_kernel", &headers, &layouts);
}

#[test]
fn structures_of_signals() {
    let layouts = [
        layout!(signal::KernelSigaction, "struct sigaction", {
            handler: "sa_handler", flags: "sa_flags", restorer: "sa_restorer", mask: "sa_mask",
        }),
        layout!(signal::Siginfo, "siginfo_t", { si_signo, si_errno, si_code, fields: "_sifields" }),
        layout!(signal::StackT, "stack_t", { ss_sp, ss_flags, ss_size }),
        layout!(signal::Ucontext, "struct ucontext", { uc_flags, uc_link, uc_stack, uc_mcontext, uc_sigmask }),
        layout!(signal::Sigcontext, "struct sigcontext", {
            r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags, cs, gs, fs, ss, err, trapno,
            oldmask, cr2, fpstate, reserved1,
        }),
        layout!(signal::FpxSwBytes, "struct _fpx_sw_bytes", { magic1, extended_size, xfeatures, xstate_size, padding }),
        layout!(signal::SignalfdSiginfo, "struct signalfd_siginfo", {
            ssi_signo, ssi_errno, ssi_code, ssi_pid, ssi_uid, ssi_fd, ssi_tid, ssi_band, ssi_overrun, ssi_trapno, ssi_status,
            ssi_int, ssi_ptr, ssi_utime, ssi_stime, ssi_addr, ssi_addr_lsb, ssi_syscall, ssi_call_addr, ssi_arch,
        }),
        layout!(signal::Sigevent, "struct sigevent", {
            sigev_value, sigev_signo, sigev_notify, sigev_tid: "sigev_notify_thread_id",
        }),
    ];
    check_layouts(
        "layout_signals",
        &["linux/signal.h", "asm/sigcontext.h", "asm/ucontext.h", "linux/signalfd.h"],
        &layouts,
    );
}

/// The constructors of `Siginfo` put each value where the C names find it.
#[test]
fn siginfo_constructors_fill_the_right_members() {
    use signal::{Siginfo, Signal};
    use zerocopy::IntoBytes;
    let cases: [(&str, Siginfo, &str); 6] = [
        ("kill", Siginfo::kill(Signal::SIGTERM, signal::SI_USER, 1001, 7), "info.si_pid == 1001 && info.si_uid == 7"),
        (
            "queue",
            Siginfo::queue(Signal::SIGUSR1, 5, 6, 0x1122_3344_5566),
            "(long)info.si_ptr == 0x112233445566 && info.si_pid == 5",
        ),
        ("fault", Siginfo::fault(Signal::SIGSEGV, signal::SEGV_MAPERR, 0x1234), "(long)info.si_addr == 0x1234"),
        (
            "child",
            Siginfo::child(signal::CLD_EXITED, 1002, 8, 3, 11, 12),
            "info.si_pid == 1002 && info.si_uid == 8 && info.si_status == 3 && info.si_utime == 11 && info.si_stime == 12",
        ),
        (
            "timer",
            Siginfo::timer(Signal::SIGALRM, 4, 9, 77),
            "info.si_tid == 4 && info.si_overrun == 9 && info.si_int == 77",
        ),
        ("sys", Siginfo::sys(2, 0x4567, 39, 0xc000_003e), "(long)info.si_call_addr == 0x4567 && info.si_syscall == 39"),
    ];
    let mut body = String::new();
    for (name, info, condition) in &cases {
        let bytes = info.as_bytes().iter().map(u8::to_string).collect::<Vec<_>>().join(",");
        writeln!(
            body,
            "{{ union {{ unsigned char b[128]; siginfo_t info; }} u = {{ {{ {bytes} }} }}; siginfo_t info = u.info;"
        )
        .unwrap();
        writeln!(body, "printf(\"{name} %d %d\\n\", info.si_signo, ({condition})); }}").unwrap();
    }
    let expected: String = cases.iter().map(|(name, info, _)| format!("{name} {} 1\n", info.si_signo)).collect();
    assert_eq!(run_c("siginfo", &program(&["linux/signal.h"], &body)), expected);
}

#[test]
fn constants_of_the_c_library() {
    let headers = [
        "fcntl.h",
        "unistd.h",
        "sys/stat.h",
        "sys/file.h",
        "sys/mman.h",
        "sys/uio.h",
        "sys/inotify.h",
        "dirent.h",
        "poll.h",
        "sys/epoll.h",
        "sys/eventfd.h",
        "sys/timerfd.h",
        "sys/signalfd.h",
        "signal.h",
        "time.h",
        "sys/time.h",
        "sys/wait.h",
        "sys/resource.h",
        "sys/random.h",
        "sched.h",
        "sys/socket.h",
        "netinet/in.h",
        "netinet/tcp.h",
        "netinet/udp.h",
        "sys/ioctl.h",
        "net/if.h",
        "sys/prctl.h",
        "linux/memfd.h",
    ];
    let families = [
        fs::AT_FLAGS,
        fs::ACCESS_MODES,
        fs::WHENCE,
        fs::FILE_TYPES,
        fs::FCNTL_COMMANDS,
        fs::LOCK_TYPES,
        fs::FLOCK_OPERATIONS,
        fs::MEMFD_FLAGS,
        fs::SEALS,
        fs::FALLOCATE_FLAGS,
        fs::RENAME_FLAGS,
        fs::FADVISE,
        fs::RWF_FLAGS,
        fs::SPLICE_FLAGS,
        fs::INOTIFY_MASK,
        fs::DIRENT_TYPES,
        fs::STATX_MASK,
        mm::PROT_FLAGS,
        mm::MAP_TYPES,
        mm::MAP_FLAGS,
        mm::MREMAP_FLAGS,
        mm::MSYNC_FLAGS,
        mm::MLOCKALL_FLAGS,
        mm::ADVICE,
        time::CLOCK_IDS,
        time::ITIMERS,
        event::POLL_EVENTS,
        event::EPOLL_EVENTS,
        event::EPOLL_CTL_OPS,
        event::EPOLL_CREATE_FLAGS,
        event::EVENTFD_FLAGS,
        event::TIMERFD_FLAGS,
        event::TIMERFD_SETTIME_FLAGS,
        event::SIGNALFD_FLAGS,
        ioctl::IOCTLS,
        ioctl::INTERFACE_FLAGS,
        sysinfo::RLIMITS,
        sysinfo::RUSAGE_WHO,
        sysinfo::GETRANDOM_FLAGS,
        process::WAIT_OPTIONS,
        process::ID_TYPES,
        process::SCHED_POLICIES,
        process::PRIORITY_WHICH,
        signal::SIGPROCMASK_HOW,
        signal::SS_FLAGS,
        signal::SI_CODES,
        signal::ILL_CODES,
        signal::FPE_CODES,
        signal::SEGV_CODES,
        signal::BUS_CODES,
        signal::TRAP_CODES,
        signal::CLD_CODES,
        signal::POLL_CODES,
        signal::SIGEV_KINDS,
        socket::FAMILIES,
        socket::SOCKET_TYPES,
        socket::SOCKET_FLAGS,
        socket::IP_PROTOCOLS,
        socket::SOCKET_LEVELS,
        socket::SOCKET_OPTIONS,
        socket::TCP_OPTIONS,
        socket::UDP_OPTIONS,
        socket::IP_OPTIONS,
        socket::IPV6_OPTIONS,
        socket::MSG_FLAGS,
        socket::SCM_TYPES,
        socket::SHUTDOWN_HOW,
    ];
    check_constants("constants_libc", &headers, &families, 600);
}

#[test]
fn constants_of_the_kernel_headers() {
    let headers = [
        "linux/sched.h",
        "linux/futex.h",
        "linux/prctl.h",
        "linux/capability.h",
        "linux/securebits.h",
        "asm/prctl.h",
        "linux/auxvec.h",
        "asm/signal.h",
        "linux/seccomp.h",
        "linux/netlink.h",
        "linux/sockios.h",
        "linux/fcntl.h",
        "linux/tcp.h",
        "linux/memfd.h",
        "asm/termbits.h",
        "asm/termios.h",
    ];
    let families = [
        capability::CAPABILITIES,
        capability::SECURE_BITS,
        capability::AMBIENT_COMMANDS,
        capability::CAPABILITY_VERSIONS,
        process::CLONE_FLAGS,
        process::FUTEX_COMMANDS,
        process::PRCTL,
        process::ARCH_PRCTL,
        process::AUXV_KEYS,
        process::SECCOMP_OPERATIONS,
        signal::SA_FLAGS,
        fs::OPEN_FLAGS,
        fs::FCNTL_COMMANDS,
        fs::SEALS,
        ioctl::IOCTLS,
        tty::INPUT_FLAGS,
        tty::OUTPUT_FLAGS,
        tty::CONTROL_FLAGS,
        tty::LOCAL_FLAGS,
        tty::PACKET_FLAGS,
        tty::SETTINGS_REQUESTS,
        tty::FLUSH_QUEUES,
        tty::FLOW_ACTIONS,
        tty::SPECIAL_CHARACTERS,
        net::NETLINK_OPTIONS,
        net::TCPI_OPTIONS,
        socket::TCP_OPTIONS,
    ];
    check_constants("constants_kernel", &headers, &families, 200);
}

#[test]
fn system_call_numbers() {
    let mut body = String::new();
    for (_, name) in nr::ALL {
        writeln!(body, "#ifdef __NR_{name}\nprintf(\"{name} %d\\n\", __NR_{name});\n#endif").unwrap();
    }
    let printed = run_c("numbers", &program(&["asm/unistd_64.h"], &body));
    assert!(printed.lines().count() >= 350);
    for line in printed.lines() {
        let (name, number) = line.split_once(' ').unwrap();
        assert_eq!(nr::number(name), number.parse().ok(), "{name}");
    }
}
