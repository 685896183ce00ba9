//! `/proc/sysvipc`: the tables of System V objects, proc_sysvipc(5).

use super::synthetic::{Synthetic, View};
use crate::ipc::segments::{PAGE, attachments};
use linux_abi::fs::DT_REG;
use std::fmt::Write;

pub fn lookup(view: &View<'_>, rest: &[&str]) -> Option<Synthetic> {
    let text = match rest {
        [] => return Some(Synthetic::Directory(["msg", "sem", "shm"].map(|name| (name, DT_REG as u8)).to_vec())),
        ["shm"] => segments(view),
        ["sem"] => semaphores(view),
        ["msg"] => messages(view),
        _ => return None,
    };
    Some(Synthetic::File(text.into_bytes()))
}

/// Writing to a string cannot fail.
macro_rules! line {
    ($text:expr, $($argument:tt)*) => { let _ = writeln!($text, $($argument)*); };
}

fn segments(view: &View<'_>) -> String {
    let own = view.process.and_then(|process| process.memory.resident());
    let spaces = || view.shared.spaces.iter().filter_map(|space| space.as_deref()).chain(own);
    let mut text = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      \
                    ctime                   rss                  swap\n"
        .to_owned();
    for (id, segment) in view.ipc.segments.ids.iter() {
        let (data, perm) = (&segment.data, &segment.data.shm_perm);
        let attached = attachments(segment, spaces());
        line!(
            text,
            "{:>10} {id:>10}  {:>4o} {:>21} {:>5} {:>5}  {attached:>5} {:>5} {:>5} {:>5} {:>5} {:>10} {:>10} {:>10} {:>21} {:>21}",
            perm.key,
            perm.mode,
            data.shm_segsz,
            data.shm_cpid,
            data.shm_lpid,
            perm.uid,
            perm.gid,
            perm.cuid,
            perm.cgid,
            data.shm_atime,
            data.shm_dtime,
            data.shm_ctime,
            segment.pages() * PAGE,
            0
        );
    }
    text
}

fn semaphores(view: &View<'_>) -> String {
    let mut text = "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n".to_owned();
    for (id, set) in view.ipc.semaphores.ids.iter() {
        let perm = &set.perm;
        line!(
            text,
            "{:>10} {id:>10}  {:>4o} {:>10} {:>5} {:>5} {:>5} {:>5} {:>10} {:>10}",
            perm.key,
            perm.mode,
            set.semaphores.len(),
            perm.uid,
            perm.gid,
            perm.cuid,
            perm.cgid,
            set.operated,
            set.changed
        );
    }
    text
}

fn messages(view: &View<'_>) -> String {
    let mut text = "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      stime      rtime      \
                    ctime\n"
        .to_owned();
    for (id, queue) in view.ipc.messages.ids.iter() {
        let (data, perm) = (&queue.data, &queue.data.msg_perm);
        line!(
            text,
            "{:>10} {id:>10}  {:>4o}  {:>10} {:>10} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5} {:>10} {:>10} {:>10}",
            perm.key,
            perm.mode,
            data.msg_cbytes,
            data.msg_qnum,
            data.msg_lspid,
            data.msg_lrpid,
            perm.uid,
            perm.gid,
            perm.cuid,
            perm.cgid,
            data.msg_stime,
            data.msg_rtime,
            data.msg_ctime
        );
    }
    text
}
