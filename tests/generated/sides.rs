//! The two sides of a comparison: programs run natively, in namespaces of their own, and as guests of a host.

use crate::common::{Output, capture, compile_with, folder, gnomon, limited};
use crate::explained;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::RwLock;
use std::time::Duration;

/// What a comparison of one program came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Alike,
    /// Native runs differ among themselves.
    Unstable,
    /// A known difference; which.
    Explained(&'static str),
    Differs {
        native: String,
        guest: String,
    },
}

/// Native runs of a program that differs, beside the first, some at a time: busy machines make programs differ that are alike, such as
/// those that wait for the kernel to collect sockets which only messages refer to.
const NATIVE_AGAIN: usize = 9;
const AT_A_TIME: usize = 3;
/// What lies between them.
const PAUSE: Duration = Duration::from_millis(400);

pub struct Sides {
    folder: PathBuf,
    runner: PathBuf,
    root: bool,
    /// Held by whoever compares; alone by whoever looks again at what differs: natively, echoes of terminals come when a worker of the
    /// kernel has time.
    quiet: RwLock<()>,
}

impl Sides {
    /// None where programs cannot have namespaces of their own: nothing of the machine may be touched.
    pub fn new(name: &str) -> Option<Sides> {
        let folder = folder(name);
        let runner = compile_with("tests/generated/runner.c", &folder, &["-static-pie"]);
        let root = fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| map.split_whitespace().nth(2) != Some("1"))
            && capture(std::process::Command::new("id").arg("-u")).stdout.trim() == "0";
        let sides = Sides { folder, runner, root, quiet: RwLock::new(()) };
        let (_, output) = sides.run_natively(&[vec![]]);
        if output.code() != 0 {
            println!("left out, since there are no namespaces for the native side: {}", output.stderr.trim_end());
            return None;
        }
        Some(sides)
    }

    /// Whether the native side may become any user.
    pub fn is_root(&self) -> bool {
        self.root
    }

    /// Compares each program.
    pub fn judge(&self, programs: &[Vec<String>]) -> Vec<Verdict> {
        let comparing = self.quiet.read().expect("nobody panicked");
        let (native, guest) = std::thread::scope(|scope| {
            let native = scope.spawn(|| self.native(programs));
            let guest = self.guest(programs);
            (native.join().expect("the native side"), guest)
        });
        drop(comparing);
        let judge_one = |place: usize| self.judge_one(&programs[place], &native[place], &guest[place]);
        (0..programs.len()).map(judge_one).collect()
    }

    fn judge_one(&self, program: &[String], native: &str, guest: &str) -> Verdict {
        if native == guest {
            return Verdict::Alike;
        }
        if let Some(reason) = explained::reason(program, native, guest) {
            return Verdict::Explained(reason);
        }
        let _alone = self.quiet.write().expect("nobody panicked");
        let mut again = Vec::new();
        while again.len() < NATIVE_AGAIN {
            again.extend(self.native(&vec![program.to_vec(); AT_A_TIME]));
            if again.iter().any(|other| other == guest) {
                return Verdict::Alike;
            }
            std::thread::sleep(PAUSE);
        }
        if again.iter().any(|other| other != native) {
            return Verdict::Unstable;
        }
        // What went before it on its host may be the reason.
        let alone = self.guest(&[program.to_vec()]).remove(0);
        if alone == native {
            return Verdict::Unstable;
        }
        Verdict::Differs { native: native.to_owned(), guest: alone }
    }

    /// What both sides print, and where they differ.
    pub fn show(&self, program: &[String]) -> String {
        let native = self.native(&[program.to_vec()]).remove(0);
        let guest = self.guest(&[program.to_vec()]).remove(0);
        let mut text = String::new();
        for (number, line) in program.iter().enumerate() {
            text += &format!("{number:3}: {line}\n");
        }
        let (native, guest): (Vec<&str>, Vec<&str>) = (native.lines().collect(), guest.lines().collect());
        let head = native.iter().zip(&guest).take_while(|(a, b)| a == b).count();
        let tail = native[head..].iter().rev().zip(guest[head..].iter().rev()).take_while(|(a, b)| a == b).count();
        native[..head].iter().for_each(|line| text += &format!("      {line}\n"));
        native[head..native.len() - tail].iter().for_each(|line| text += &format!("    - {line}\n"));
        guest[head..guest.len() - tail].iter().for_each(|line| text += &format!("    + {line}\n"));
        native[native.len() - tail..].iter().for_each(|line| text += &format!("      {line}\n"));
        text
    }

    /// What each program prints natively.
    pub fn native(&self, programs: &[Vec<String>]) -> Vec<String> {
        self.all(programs, Self::run_natively)
    }

    /// What each program prints as a guest.
    pub fn guest(&self, programs: &[Vec<String>]) -> Vec<String> {
        self.all(programs, Self::run_as_guests)
    }

    /// Runs all programs; one that takes the runner with it does not hide those after it.
    fn all(&self, programs: &[Vec<String>], run: impl Fn(&Self, &[Vec<String>]) -> (String, Output)) -> Vec<String> {
        let mut printed = Vec::new();
        while printed.len() < programs.len() {
            let (stdout, output) = run(self, &programs[printed.len()..]);
            let parts = take_apart(&stdout);
            let got = parts.len().min(programs.len() - printed.len());
            printed.extend(parts.into_iter().take(got));
            if output.code() != 0 || got == 0 {
                let last = match got {
                    0 => {
                        printed.push(String::new());
                        printed.last_mut()
                    }
                    _ => printed.last_mut(),
                };
                last.expect("one").push_str(&format!(
                    "(the run ended here: {}: {})\n",
                    output.code(),
                    output.stderr.trim_end()
                ));
            }
        }
        printed
    }

    /// A folder for a run, open to all: who has become another user executes programs too.
    fn place(&self) -> tempfile::TempDir {
        let place = tempfile::tempdir_in(&self.folder).expect("a folder");
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
        place
    }

    fn run_natively(&self, programs: &[Vec<String>]) -> (String, Output) {
        let place = self.place();
        let file = write(place.path(), programs);
        let work = place.path().join("work");
        fs::create_dir(&work).expect("a folder");
        let mut command = limited(&self.runner);
        command.arg("--private").arg(&file).args(["0", &programs.len().to_string()]).current_dir(&work);
        let output = capture(&mut command);
        (output.stdout.clone(), output)
    }

    fn run_as_guests(&self, programs: &[Vec<String>]) -> (String, Output) {
        let place = self.place();
        let file = write(place.path(), programs);
        let mut command = gnomon();
        command.args(["exec", "--quiet", "--stop-time", "2 h"]).arg(&self.runner).arg(&file);
        command.args(["0", &programs.len().to_string()]).current_dir(place.path());
        let output = capture(&mut command);
        (output.stdout.clone(), output)
    }
}

/// A program as its file has it, names of calls and all; lines that shrinking emptied are left out.
pub fn text(program: &[String]) -> String {
    program.iter().map(|line| format!("{line}\n")).collect()
}

/// Writes programs as the runner reads them: calls by number.
fn write(folder: &Path, programs: &[Vec<String>]) -> PathBuf {
    let mut text = String::new();
    for (number, program) in programs.iter().enumerate() {
        text += &format!("program {number}\n");
        for line in program {
            text += &numbered(line);
            text.push('\n');
        }
    }
    let path = folder.join("programs");
    fs::write(&path, text).expect("a file");
    path
}

/// A line with its call's number in place of its name. What is no call belongs to the runner.
fn numbered(line: &str) -> String {
    let mut words = line.splitn(3, ' ');
    let (Some(actor), Some(call)) = (words.next(), words.next()) else { return line.to_owned() };
    let (name, kind) = call.split_once(':').map_or((call, String::new()), |(name, kind)| (name, format!(":{kind}")));
    let call = linux_abi::nr::number(name).map_or(name.to_owned(), |number| number.to_string());
    match words.next() {
        Some(rest) => format!("{actor} {call}{kind} {rest}"),
        None => format!("{actor} {call}{kind}"),
    }
}

/// Takes the output apart into programs.
fn take_apart(stdout: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for line in stdout.lines() {
        if line.starts_with("program ") {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push_str(line);
            part.push('\n');
        }
    }
    parts
}
