//! Epoll, timers and pipes as calls find them.

use super::regular::RegularFile;
use super::{FileKind, OpenFile};
use crate::test_machine::{A, Machine};
use linux_abi::event::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLLEXCLUSIVE, EPOLLIN, EPOLLONESHOT, EpollEvent};
use linux_abi::fs::{O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY};
use linux_abi::{Errno, nr};

fn pipe(m: &mut Machine, flags: u32) -> (u64, u64) {
    let out = m.room(8);
    m.call(nr::pipe2, &[out, flags.into()]).unwrap();
    let [read, write]: [i32; 2] = m.value(out);
    (read as u64, write as u64)
}

fn read(m: &mut Machine, fd: u64, len: usize) -> Result<Vec<u8>, Errno> {
    let at = m.room(len);
    let count = m.call(nr::read, &[fd, at, len as u64])?;
    Ok(m.bytes(at, count as usize))
}

fn watch(m: &mut Machine, epoll: u64, fd: u64, events: u32) -> Result<u64, Errno> {
    let event = m.put(&EpollEvent { events, data: fd });
    m.call(nr::epoll_ctl, &[epoll, EPOLL_CTL_ADD as u64, fd, event])
}

#[test]
fn the_end_of_a_pipe_is_seen_by_who_waits() {
    let mut m = Machine::new(A);
    let (r, w) = pipe(&mut m, 0);
    let buffer = m.room(8);
    let reader = m.blocked(nr::read, &[r, buffer, 8]);
    let copy = m.call(nr::dup, &[w]).unwrap();
    m.call(nr::close, &[w]).unwrap();
    assert_eq!(m.resume(reader), None, "a duplicate keeps the end open");
    m.call(nr::close, &[copy]).unwrap();
    assert_eq!(m.resume(reader), Some(Ok(0)));
}

#[test]
fn a_long_write_goes_on_where_it_stopped() {
    let mut m = Machine::new(A);
    let (r, w) = pipe(&mut m, 0);
    let data: Vec<u8> = (0..200_000u32).map(|i| (i / 7) as u8).collect();
    let at = m.put(&data[..]);
    let writer = m.blocked(nr::write, &[w, at, data.len() as u64]);
    let mut seen = Vec::new();
    while seen.len() < data.len() {
        seen.extend(read(&mut m, r, 30_000).unwrap());
        if m.kernel.runnable.contains(&writer) && m.resume(writer).is_some() {
            break;
        }
    }
    while seen.len() < data.len() {
        seen.extend(read(&mut m, r, 30_000).unwrap());
    }
    assert!(seen == data);
}

#[test]
fn a_file_is_written_as_long_as_somebody_can_write_to_it() {
    let mut m = Machine::new(A);
    let mut open = |number: u64, path: &[u8], flags: u32| {
        let serial = m.kernel.vfs.new_serial();
        let file = RegularFile {
            serial,
            real: "/real".into(),
            path: path.to_vec(),
            writes: flags != O_RDONLY,
            in_run: true,
            number,
            offset: 0,
            pinned: None,
            unlinked: false,
        };
        m.kernel.files.insert(OpenFile::new(FileKind::Regular(Box::new(file)), flags))
    };
    let [first, second, reader] = [O_WRONLY, O_RDWR, O_RDONLY].map(|flags| open(7, b"/a", flags));
    open(8, b"/b", O_RDONLY);
    open(9, b"/memfd:c", O_RDWR);
    let files = &mut m.kernel.files;
    assert_eq!([7, 8, 9].map(|number| files.is_written(number)), [true, false, false]);
    for (closed, is_written) in [(first, true), (reader, true), (second, false)] {
        files.remove(closed);
        assert_eq!(files.is_written(7), is_written);
    }
}

#[test]
fn spliced_bytes_arrive_and_the_rest_stays() {
    let mut m = Machine::new(A);
    let (r1, w1) = pipe(&mut m, O_NONBLOCK);
    let (r2, w2) = pipe(&mut m, O_NONBLOCK);
    m.write(w1, b"abcdef").unwrap();
    assert_eq!(m.call(nr::tee, &[r1, w2, 3, 0]), Ok(3));
    assert_eq!(m.call(nr::splice, &[r1, 0, w2, 0, 4, 0]), Ok(4));
    assert_eq!(read(&mut m, r2, 16).unwrap(), b"abcabcd");
    assert_eq!(read(&mut m, r1, 16).unwrap(), b"ef");
    assert_eq!(m.call(nr::splice, &[r1, 0, w2, 0, 4, 2]), Err(Errno::EAGAIN));
    assert_eq!(m.call(nr::splice, &[r1, 0, w1, 0, 4, 0]), Err(Errno::EINVAL));
}

#[test]
fn one_shot_interests_rest_until_they_are_renewed() {
    let mut m = Machine::new(A);
    let (r, w) = pipe(&mut m, 0);
    let epoll = m.call(nr::epoll_create1, &[0]).unwrap();
    watch(&mut m, epoll, r, EPOLLIN | EPOLLONESHOT).unwrap();
    assert_eq!(watch(&mut m, epoll, r, EPOLLIN), Err(Errno::EEXIST));
    let out = m.room(64);
    m.write(w, b"1").unwrap();
    assert_eq!(m.call(nr::epoll_wait, &[epoll, out, 4, 0]), Ok(1));
    m.write(w, b"2").unwrap();
    assert_eq!(m.call(nr::epoll_wait, &[epoll, out, 4, 0]), Ok(0));
    m.call(nr::epoll_ctl, &[epoll, EPOLL_CTL_DEL as u64, r, 0]).unwrap();
    watch(&mut m, epoll, r, EPOLLIN).unwrap();
    for _ in 0..2 {
        assert_eq!(m.call(nr::epoll_wait, &[epoll, out, 4, 0]), Ok(1), "a level is reported as long as it holds");
    }
    m.call(nr::close, &[r]).unwrap();
    assert_eq!(m.call(nr::epoll_wait, &[epoll, out, 4, 0]), Ok(0), "a closed file is forgotten");
}

#[test]
fn an_exclusive_event_wakes_one_instance() {
    let mut m = Machine::new(A);
    let (r, w) = pipe(&mut m, 0);
    let out = m.room(64);
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let epoll = m.call(nr::epoll_create1, &[0]).unwrap();
            watch(&mut m, epoll, r, EPOLLIN | EPOLLEXCLUSIVE).unwrap();
            m.blocked(nr::epoll_wait, &[epoll, out, 4, u64::MAX])
        })
        .collect();
    m.write(w, b"x").unwrap();
    assert_eq!(m.kernel.runnable.len(), 1);
    assert_eq!(m.resume(waiters[0]), Some(Ok(1)));
}

#[test]
fn nested_instances_are_woken_and_cycles_refused() {
    let mut m = Machine::new(A);
    let (r, w) = pipe(&mut m, 0);
    let (inner, outer) = (m.call(nr::epoll_create1, &[0]).unwrap(), m.call(nr::epoll_create1, &[0]).unwrap());
    watch(&mut m, inner, r, EPOLLIN).unwrap();
    watch(&mut m, outer, inner, EPOLLIN).unwrap();
    assert_eq!(watch(&mut m, inner, outer, EPOLLIN), Err(Errno::ELOOP));
    assert_eq!(watch(&mut m, inner, inner, EPOLLIN), Err(Errno::EINVAL));
    let out = m.room(64);
    let waiter = m.blocked(nr::epoll_wait, &[outer, out, 4, u64::MAX]);
    m.write(w, b"x").unwrap();
    assert_eq!(m.resume(waiter), Some(Ok(1)));
}

#[test]
fn descriptors_run_out_at_the_limit() {
    let mut m = Machine::new(A);
    let limit = m.put(&[3u64, 10]);
    m.call(nr::setrlimit, &[7, limit]).unwrap();
    let (r, _) = pipe(&mut m, 0);
    let out = m.room(8);
    let files = m.kernel.files.len();
    assert_eq!(m.call(nr::pipe2, &[out, 0]), Err(Errno::EMFILE));
    assert_eq!(m.kernel.files.len(), files, "nothing is left of the attempt");
    assert_eq!(m.call(nr::dup, &[r]), Ok(2));
    assert_eq!(m.call(nr::dup, &[r]), Err(Errno::EMFILE));
    assert_eq!(m.call(nr::dup2, &[r, 3]), Err(Errno::EBADF));
}
