//! Differences that are known, each with its reason. A program is explained by the first line on which the two sides differ, if that is the
//! result of a call named here; what comes after it follows from it.

/// A difference: the call, what it returns natively and as a guest ("" for anything), and why.
struct Known {
    calls: &'static [&'static str],
    native: &'static str,
    guest: &'static str,
    /// What the line must contain.
    with: &'static str,
    /// What an earlier line must contain.
    after: &'static str,
    reason: &'static str,
}

const fn known(
    calls: &'static [&'static str],
    [native, guest]: [&'static str; 2],
    with: &'static str,
    reason: &'static str,
) -> Known {
    Known { calls, native, guest, with, after: "", reason }
}

/// The same, behind a line that contains something.
const fn after(after: &'static str, known: Known) -> Known {
    Known { after, ..known }
}

const TICK: &str =
    "a timer of a nanosecond has expired by the next call of Linux; here time stands still until somebody waits";
const DATE: &str =
    "how often a timer of the real-time clock has expired since 1970 is a matter of the date, which is simulated";
const NO_SPLICE: &str = "terminals are not spliced; programs read and write them instead";
const NO_RIGHT: &str = "AT_EMPTY_PATH asks who opened a descriptor, whatever the path";
const OTHERS_SLACK: &str =
    "threads of a process may have their own rights; here its files ask the main thread about all of them";
const LIVES: &str =
    "a removed folder lives on, and its watches, while something is open that had a name in it; here it does not";
const READS: &[&str] = &["read", "readv", "pread64", "preadv", "preadv2", "splice"];

const LISTED: &str = "ext4: the position of a folder that was listed is a hash, to which reading and seeking add";
const HELD: &str =
    "a splice that waits for its input holds the pipe's lock, and whoever reads or writes the pipe waits for that";
const OVERLAPPING: &str = "what overlaps is copied within the cache's pages as the processor happens to do it";

/// What a call "returns" that ended its actor.
const GONE: &str = "actor";

const GROUP: &str =
    "a stream that was bound to a group of hosts keeps it as its name behind a connection that was refused";

const DEVICE: &str = "the owner of a device, for all hosts of one machine, is not changed";
const APART: &str = "Linux does not join neighbouring mappings whose pages were touched apart";
const GROWS: &str = "private memory of a file does not grow in place";
const WAITS: &str = "where in the kernel a thread waits is not told";
const DRIVER: &str = "how long the description of an interface is follows from its driver";
const REMOVED: &str = "a folder that was removed takes no extended attributes, since its place on the machine is gone";

const KNOWN: &[Known] = &[
    after("chown", known(&["newfstatat", "fstat"], ["0 [ mode 20", "0 [ mode 20"], "", DEVICE)),
    known(&["mremap"], ["-EFAULT", "ok"], " 1 0", APART),
    known(&["mremap"], ["ok", "-ENOMEM"], " 0 0", GROWS),
    after("/wchan", known(&["read", "pread64"], ["not 0", "0"], "", WAITS)),
    after("w18 ", known(&["read"], ["5 [ ", "5 [ "], "", DRIVER)),
    after("unlinkat", known(&["fsetxattr"], ["0", "-ENOENT"], "", REMOVED)),
    after("b224 ", known(&["getsockname"], ["0 [ inet 127.", "0 [ inet 224."], "", GROUP)),
    after("{q0 q0 q0 q1}", known(&["poll", "ppoll", "select", "pselect6", "epoll_wait"], ["", "0"], "", TICK)),
    known(&["linkat"], ["-ENOENT", ""], " 0x1", NO_RIGHT),
    after("timerslack_ns", known(&["read", "pread64"], ["-EPERM", ""], "", OTHERS_SLACK)),
    known(
        &["recvmsg", "readv"],
        ["-EFAULT", ""],
        "!b",
        "Linux joins segments in one buffer, of which a call copies all or nothing",
    ),
    after("{q0 q0 q0 q1}", known(&["read", "readv"], ["8", "-EAGAIN"], "", TICK)),
    after(" 3 {q500000 q7 q1000000 ", known(&["read", "readv"], ["8", "8"], "", DATE)),
    after("/dev/ptmx", known(&["splice", "sendfile"], ["", "-EINVAL"], "", NO_SPLICE)),
    after(
        " 0x12 $",
        known(&["write", "pwrite64"], ["", ""], " %0x", "a file's private mapping does not grow with the file"),
    ),
    known(&["ioctl"], ["0 [", "0 [ 0 ]"], " 0x5411 ", "a connection that failed or was reset has nothing left to send"),
    known(READS, ["-EINVAL", "-EISDIR"], "", LISTED),
    known(&["lseek"], ["", ""], " 3", "what fallocate made is data to ext4, a hole here"),
    known(&["lseek"], ["", ""], " 4", "what fallocate made is data to ext4, a hole here"),
    after(" getdents64 ", known(&["lseek"], ["", ""], " 1", LISTED)),
    after(" getdents64 ", known(&["splice"], ["-EINVAL", GONE], "", LISTED)),
];

/// Why a program may print something else as a guest; None if nothing explains it.
pub fn reason(program: &[String], native: &str, guest: &str) -> Option<&'static str> {
    let printed = guest;
    let (native, guest) = native.lines().zip(guest.lines()).find(|(native, guest)| native != guest)?;
    if waits_for_splice(program, printed, native) {
        return Some(HELD);
    }
    if let (Some(native), Some(guest)) = (left(native), left(guest)) {
        return reason_of_files(program, printed, native, guest);
    }
    let (number, native) = result(native)?;
    let ended = if guest.contains(" ends actor ") { GONE } else { guest.trim_start() };
    let (other, guest) = result(guest).unwrap_or((number, ended));
    if number != other {
        return None;
    }
    if without_inodes(native) == without_inodes(guest) {
        return Some("ext4 gives the number of a file that is gone to the next one");
    }
    let line = program.get(number)?;
    let call = line.split(' ').nth(1)?.split(':').next()?;
    let fits = |known: &&Known| {
        known.calls.contains(&call)
            && native.starts_with(known.native)
            && guest.starts_with(known.guest)
            && line.contains(known.with)
            && program[..=number].iter().any(|line| line.contains(known.after))
    };
    let count = |result: &str| result.split(' ').next().map(str::to_owned);
    if READS.contains(&call)
        && count(native) == count(guest)
        && program[..number].iter().any(|line| sends_to_itself(program, line))
    {
        return Some(OVERLAPPING);
    }
    // EINVAL: there is no room for what is told.
    let tells_of_end = guest.contains(":400:") || guest.contains(":8000:") || guest == "-EINVAL";
    if line.contains(":I") && native.starts_with("-EAGAIN") && tells_of_end && removes_opened(&program[..number]) {
        return Some(LIVES);
    }
    KNOWN.iter().find(fits).map(|known| known.reason)
}

/// Whether a folder was removed after something had been opened by a name in it.
fn removes_opened(program: &[String]) -> bool {
    let call =
        |line: &str| line.split(' ').nth(1).and_then(|call| call.split(':').next()).unwrap_or_default().to_owned();
    let path = |line: &str| line.split('"').nth(1).map(str::to_owned);
    let opens_in = |line: &String, folder: &str| {
        let of: Option<usize> = line.split(' ').nth(2).and_then(|fd| fd.strip_prefix('$')?.parse().ok());
        let by_descriptor =
            of.and_then(|of| program.get(of)).and_then(|line| path(line)).is_some_and(|of| of == folder);
        let by_path =
            path(line).is_some_and(|path| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')));
        call(line).starts_with("open") && (by_path || by_descriptor)
    };
    program.iter().enumerate().any(|(place, line)| {
        let removes = (call(line) == "unlinkat" && line.ends_with(" 0x200")) || call(line) == "rmdir";
        let folder = path(line).filter(|_| removes);
        folder.is_some_and(|folder| program[..place].iter().any(|line| opens_in(line, &folder)))
    })
}

/// Whether a line sends a file's bytes to the same file, opened once more.
fn sends_to_itself(program: &[String], line: &str) -> bool {
    let mut words = line.split(' ').skip(1);
    if words.next().and_then(|call| call.split(':').next()) != Some("sendfile") {
        return false;
    }
    let mut name = || {
        let opened: usize = words.next()?.strip_prefix('$')?.parse().ok()?;
        program.get(opened)?.split('"').nth(1)
    };
    let out = name();
    out.is_some() && out == name()
}

/// Whether a call natively waits, but not as a guest, while a splice waits that holds the lock of a pipe.
fn waits_for_splice(program: &[String], printed: &str, native: &str) -> bool {
    let waiting = |line: &str| line.trim_start().strip_suffix(" blocks")?.parse::<usize>().ok();
    let Some(waits) = waiting(native) else { return false };
    let ended = |number: usize| printed.lines().any(|line| line.trim_start().starts_with(&format!("{number} then")));
    printed.lines().filter_map(waiting).any(|number| {
        let is_splice = program.get(number).is_some_and(|line| line.split(' ').nth(1) == Some("splice"));
        number < waits && is_splice && !ended(number)
    })
}

/// What a call shows, but for the numbers of files.
fn without_inodes(shown: &str) -> String {
    let mut parts = shown.split("inode ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + "inode" + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// Of a file that was left: all but its length and contents, and these.
fn left(text: &str) -> Option<(&str, u64, &str)> {
    let (head, rest) = text.trim_start().strip_prefix("left ")?.split_once(" size ")?;
    let (size, hash) = rest.split_once(" hash ")?;
    Some((head, size.parse().ok()?, hash))
}

/// Why a file may have been left longer, or with something else in it. What was `printed` until then is alike.
fn reason_of_files(
    program: &[String],
    printed: &str,
    native: (&str, u64, &str),
    guest: (&str, u64, &str),
) -> Option<&'static str> {
    let returned = |calls: &[&str], fits: &dyn Fn(&str, &str) -> bool| {
        printed.lines().filter_map(result).any(|(number, result)| {
            let line = program.get(number).map_or("", String::as_str);
            line.split(' ').nth(1).is_some_and(|call| calls.contains(&call)) && fits(line, result)
        })
    };
    let moves = |result: &str| result.starts_with(|c: char| ('1'..='9').contains(&c));
    match native.0 == guest.0 {
        true if native.1 != guest.1 => None,
        true if returned(&["sendfile", "splice"], &|_, result| moves(result)) => Some(OVERLAPPING),
        // From memory that shows the file that is written.
        true if returned(&["write"], &|line, result| line.contains(" %") && moves(result)) => Some(OVERLAPPING),
        _ => None,
    }
}

/// The number of a line and what it returned, at once or later.
pub fn result(text: &str) -> Option<(usize, &str)> {
    let (head, result) = text.trim_start().split_once(" = ")?;
    Some((head.split(' ').next()?.parse().ok()?, result))
}
