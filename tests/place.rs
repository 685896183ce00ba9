//! Where a run lies does not change it: guests see their directory under one name, whatever its place, name and file system.

mod common;

use common::{capture, digest, find_python, folder, read, run_well, tree, wrote};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory in memory, which is another file system than that of the tests.
struct InMemory(PathBuf);

impl InMemory {
    fn new(name: &str) -> InMemory {
        let path = PathBuf::from(format!("/dev/shm/gnomon-test-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("/dev/shm can be written");
        InMemory(path)
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What programs ask about where they are, and what they leave there.
const ASKS: &str = r#"
pwd; pwd -P; realpath .; readlink /proc/self/cwd /proc/self/fd/1; realpath ../../x; dirname "$PWD"
mkdir -p d/e/f d/g; echo text > d/file; ln d/file d/second; ln -s "$PWD/d/file" d/link; cat d/link; readlink -f d/link
stat -c '%n %i %h %s %b %B %o %d %u %g %a %F %X %Y %Z' . .. ../.. d d/e d/file d/link /tmp
ls -laiR .; find . -printf '%p %i %n %s %y %D\n'; df . /tmp | sed 's/ .*//'; stat -f -c '%t %s %S %l %b %f' . /tmp
rm -r d/e; stat -c %h d; cd ../..; pwd; ls; cd ..; pwd; readlink /proc/self/cwd; ls -ai | grep -w data; stat -c "%n %i %h %s %a %u %Y" . data; cd data/hosts; pwd
cat /proc/self/mounts /proc/self/mountinfo; env | sort; head -c 100 /proc/self/environ | wc -c
cd /tmp; pwd; mktemp -u x.XXXXXX; python=$(command -v python3); "$python" -c 'import os; print(os.getcwd())'
"#;

const SERVES: &str = "import http.server,os\nopen('page','w').write(os.getcwd())\n\
    class H(http.server.SimpleHTTPRequestHandler):\n  def log_message(self,*a): pass\n\
    http.server.HTTPServer(('0.0.0.0',80),H).serve_forever()\n";

fn experiment(python: &str) -> String {
    let asks = ASKS.trim().replace("$(command -v python3)", python);
    format!(
        "general: {{stop_time: 20 s, template_directory: template}}\n\
         network: {{graph: {{type: 1_gbit_switch}}}}\n\
         hosts:\n\
         \x20 asker:\n    network_node_id: 0\n    processes:\n    - path: bash\n      args: [-c, {}]\n\
         \x20 client:\n    network_node_id: 0\n    processes:\n    - path: bash\n      start_time: 3 s\n      \
         args: [-c, 'exec 3<>/dev/tcp/server/80; printf \"GET /page HTTP/1.0\\r\\nX: $PWD\\r\\n\\r\\n\" >&3; cat <&3']\n\
         \x20 server:\n    network_node_id: 0\n    processes:\n    - path: {python}\n      args: [server.py]\n      expected_final_state: running\n",
        serde_json::Value::from(asks)
    )
}

/// The outputs of a run's guests.
fn outputs(data: &Path) -> BTreeMap<String, Vec<u8>> {
    let is_output = |name: &String| name.ends_with(".stdout") || name.ends_with(".stderr");
    tree(&data.join("hosts")).into_iter().filter(|(name, _)| is_output(name)).collect()
}

#[test]
fn data_directories_of_any_name_place_and_file_system_give_the_same_bits() {
    let python = find_python().expect("the test needs a python3 that can be a guest");
    let folder = folder("place/bits");
    fs::create_dir_all(folder.join("template/hosts/server")).expect("a folder");
    fs::write(folder.join("template/hosts/server/server.py"), SERVES).expect("a file");
    fs::write(folder.join("x.yaml"), experiment(&python)).expect("a file");
    let memory = InMemory::new("bits");
    fs::create_dir_all(folder.join("deep/er/and")).expect("a folder");
    let long = format!("deep/er/and/{}", "longer".repeat(30));
    let link = folder.join("link");
    std::os::unix::fs::symlink(folder.join("deep"), &link).expect("a link");
    let in_memory = memory.0.join("o");
    let places = ["o", "gnomon.data", &long, "link/linked", in_memory.to_str().expect("text")];
    for place in places {
        run_well(&folder, "x.yaml", &["-d", place]);
    }
    let first = folder.join(places[0]);
    let asked = wrote(&first.join("hosts"), "asker", "stdout");
    assert!(asked.starts_with("/gnomon-run/data/hosts/asker\n"), "{asked}");
    assert!(wrote(&first.join("hosts"), "client", "stdout").ends_with("\n/gnomon-run/data/hosts/server"));
    for place in &places[1..] {
        let other = folder.join(place);
        assert_eq!(digest(&first), digest(&other), "{place}");
        for (name, content) in outputs(&first) {
            let [ours, theirs] = [content, fs::read(other.join("hosts").join(&name)).expect("an output")];
            assert_eq!(String::from_utf8_lossy(&ours), String::from_utf8_lossy(&theirs), "{name} in {place}");
        }
    }
}

#[test]
fn paths_of_the_machine_lead_to_the_same_files() {
    let folder = folder("place/paths");
    fs::create_dir_all(folder.join("template/shared")).expect("a folder");
    fs::create_dir_all(folder.join("conf")).expect("a folder");
    fs::write(folder.join("template/shared/file"), "shared\n").expect("a file");
    fs::write(folder.join("conf/common"), "beside the run\n").expect("a file");
    let data = folder.join("x.data");
    std::os::unix::fs::symlink(data.join("shared/file"), folder.join("template/shared/link")).expect("a link");
    let data = data.display();
    let script = format!(
        "cat {data}/shared/file ../../shared/link /gnomon-run/data/shared/file; cat ../../../conf/common /gnomon-run/conf/common; \
         cd {data}/hosts; readlink /proc/self/cwd; cd ../..; cat conf/common; cd x.data/shared; readlink /proc/self/cwd; cd /gnomon-run/data/..; cat conf/common; \
         echo mine > {data}/shared/new; cat x.data/shared/new; cd /gnomon-run; cat conf/common; test -d /gnomon-run; echo $?"
    );
    let text = format!(
        "general: {{stop_time: 10 s, template_directory: template}}\nnetwork: {{graph: {{type: 1_gbit_switch}}}}\nhosts:\n  \
         a:\n    network_node_id: 0\n    processes:\n    - {{path: bash, args: [-c, {}]}}\n",
        serde_json::Value::from(script)
    );
    fs::write(folder.join("x.yaml"), text).expect("a file");
    run_well(&folder, "x.yaml", &["-d", "x.data"]);
    let hosts = folder.join("x.data/hosts");
    let beside = "beside the run\n";
    let expected = format!(
        "shared\nshared\nshared\n{beside}{beside}/gnomon-run/data/hosts\n{beside}/gnomon-run/data/shared\n{beside}mine\n{beside}0\n"
    );
    assert_eq!(wrote(&hosts, "a", "stdout"), expected, "{}", wrote(&hosts, "a", "stderr"));
    assert_eq!(read(&folder.join("x.data/shared/new")), "mine\n");
}

/// What lies beside the run's directory is one tree for guests, in which steps up lead where `getcwd` shows.
#[test]
fn relative_paths_walk_the_tree_that_guests_see() {
    let folder = folder("place/relative");
    fs::create_dir_all(folder.join("conf/deep")).expect("a folder");
    fs::write(folder.join("conf/common"), "beside the run\n").expect("a file");
    let script = "cd ../../../conf/deep; pwd -P; cd -P ..; pwd -P; cat common; find . | sort; cd -P ..; pwd -P; ls -d conf data\n\
         cat conf/../conf/common data/hosts/a/../../../conf/common; cd -P ..; pwd -P; test -e etc/passwd; echo $?; cd -P ..; pwd -P\n\
         cd /gnomon-run/conf; stat -c %i .. common > /tmp/one; cd $1/conf; stat -c %i common > /tmp/two; tail -n 1 /tmp/one | cmp - /tmp/two\n\
         echo mine > new; cat /gnomon-run/conf/new; rm /gnomon-run/conf/common; test -e common; echo $?; ls /gnomon-run/conf\n\
         echo more > /gnomon-run/top; cat $1/top; ls /gnomon-run; mkdir /gnomon-run/made; rmdir $1/made; ls -d /gnomon-run/made; true";
    let own = folder.display().to_string();
    let arguments = serde_json::json!(["-c", script, "sh", own]);
    let text = format!(
        "general: {{stop_time: 10 s}}\nnetwork: {{graph: {{type: 1_gbit_switch}}}}\nhosts:\n  \
         a:\n    network_node_id: 0\n    processes:\n    - {{path: bash, args: {arguments}}}\n"
    );
    fs::write(folder.join("x.yaml"), text).expect("a file");
    run_well(&folder, "x.yaml", &["-d", "x.data"]);
    let hosts = folder.join("x.data/hosts");
    let beside = "beside the run\n";
    let expected = format!(
        "/gnomon-run/conf/deep\n/gnomon-run/conf\n{beside}.\n./common\n./deep\n/gnomon-run\nconf\ndata\n{beside}{beside}/\n0\n/\n\
         mine\n1\ndeep\nnew\nmore\nconf\ndata\ntop\nx.yaml\n"
    );
    assert_eq!(wrote(&hosts, "a", "stdout"), expected, "{}", wrote(&hosts, "a", "stderr"));
    assert_eq!(read(&folder.join("conf/common")), beside, "the machine's own");
}

/// Prints the inode numbers of itself and of what it makes and finds.
const NUMBERS: &str = "import os\nopen('made','w').close()\nprint(sorted(os.listdir('/gnomon-run/data')))\n\
    for path in (__file__, 'made', '.', '..', '/gnomon-run', os.path.dirname(__file__), '/usr/bin/env', '/etc/passwd', '/tmp'):\n  \
    print(path[-12:], os.lstat(path).st_ino)\n";

/// Python lists the folder of its script, so guests see what lies there, whoever put it there.
#[test]
fn what_lies_beside_a_script_does_not_change_a_run() {
    let python = find_python().expect("the test needs a python3 that can be a guest");
    let folder = folder("place/beside");
    let scripts = folder.join("scripts");
    fs::create_dir_all(&scripts).expect("a folder");
    fs::write(scripts.join("numbers.py"), NUMBERS).expect("a file");
    let text = format!(
        "general: {{stop_time: 10 s}}\nnetwork: {{graph: {{type: 1_gbit_switch}}}}\nhosts:\n  \
         a:\n    network_node_id: 0\n    processes:\n    - {{path: {python}, args: [{}]}}\n",
        serde_json::Value::from(scripts.join("numbers.py").display().to_string())
    );
    fs::write(folder.join("x.yaml"), text).expect("a file");
    let memory = InMemory::new("beside");
    let in_memory = memory.0.join("o");
    let places = ["scripts/first", "scripts/a", in_memory.to_str().expect("text"), "scripts/z"];
    let printed = places.map(|place| {
        run_well(&folder, "x.yaml", &["-d", place]);
        fs::write(scripts.join(format!("more-{}", place.len())), "").expect("a file");
        (digest(&folder.join(place)), wrote(&folder.join(place).join("hosts"), "a", "stdout"))
    });
    assert!(printed[0].1.contains("numbers.py "), "{}", printed[0].1);
    for (place, other) in places.iter().zip(&printed) {
        assert_eq!(&printed[0], other, "{place}");
    }
    // The list of the folder by the machine's path, and by its name for guests.
    let text = fs::read_to_string(folder.join("x.yaml")).expect("a file");
    let (head, _) = text.split_once("    - {path").expect("processes");
    let lists = format!("ls {}; echo; ls /gnomon-run", scripts.display());
    let text = format!("{head}    - {{path: bash, args: [-c, {}]}}\n", serde_json::Value::from(lists));
    fs::write(folder.join("y.yaml"), text).expect("a file");
    run_well(&folder, "y.yaml", &["-d", "scripts/z2"]);
    let listed = wrote(&scripts.join("z2/hosts"), "a", "stdout");
    let (machine, ours) = listed.split_once("\n\n").expect("two lists");
    assert!(!listed.contains("z2") && !machine.contains("data") && ours.contains("data\n"), "{listed}");
    assert_eq!(ours.replace("data\n", "").trim_end(), machine.trim_end());
}

/// Changes what was there before the run, and looks at it by descriptors that were opened before.
const CHANGES: &str = r#"
import ctypes, fcntl, os, sys
os.chdir(sys.argv[1])
def same(what, one, other): print(what, os.path.samestat(one, other))
def number(path): return os.lstat(path).st_ino
read = os.open('log', os.O_RDONLY); print(os.read(read, 99)); before = os.fstat(read)
with open('log', 'a') as log: log.write('new\n')
print(os.read(read, 99), os.fstat(read).st_size); same('written', before, os.stat('log')); same('read', os.fstat(read), os.stat('log'))
os.chmod('log', 0o600); print(oct(os.fstat(read).st_mode)); os.truncate('log', 2); print(os.fstat(read).st_size)
held = os.open('lock', os.O_RDONLY); fcntl.flock(held, fcntl.LOCK_EX)
other = os.open('lock', os.O_RDWR)
try: fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB); print('two holders')
except BlockingIOError: print('held')
for path, change in (('mode', lambda p: os.chmod(p, 0o640)), ('times', os.utime), ('linked', lambda p: os.link(p, 'more')),
                     ('folder', lambda p: open(p + '/made', 'w').close()), ('folder/below', lambda p: os.chmod(p, 0o700))):
    fd = os.open(path, os.O_RDONLY); old = number(path); change(path)
    same(path, os.fstat(fd), os.stat(path)); print(old == number(path))
fd = os.open('moved', os.O_RDONLY); old = number('moved'); os.rename('moved', 'folder/elsewhere')
with open('folder/elsewhere', 'w') as file: file.write('elsewhere')
print(old == number('folder/elsewhere'), os.read(fd, 99))
fd = os.open('removed', os.O_RDONLY); os.unlink('removed')
os.fchmod(fd, 0o604); print(oct(os.fstat(fd).st_mode)); again = os.open(f'/proc/self/fd/{fd}', os.O_RDWR)
print(os.write(again, b'still'), os.pread(fd, 5, 0))
with open('removed', 'w') as file: file.write('another')
print(os.read(fd, 99), os.fstat(fd).st_nlink); print(os.fstat(fd).st_ino != number('removed'))
libc = ctypes.CDLL(None)
print(libc.renameat2(-100, b'mode', -100, b'times', 2), open('mode').read(), open('times').read())
gone = os.path.abspath('gone/below'); os.makedirs(gone); os.chdir(gone); os.rmdir(gone); os.rmdir(os.path.dirname(gone))
for make in (lambda: os.mkdir('../x'), lambda: open('../y', 'w'), lambda: os.symlink('x', '../../z/u')):
    try: print(make())
    except OSError as error: print(error.strerror)
os.chdir(sys.argv[1]); print(os.path.exists('gone'))
print(sorted({os.lstat(os.path.join(at, name)).st_dev == os.lstat('.').st_dev for at, below, names in os.walk('.') for name in below + names}))
"#;

/// A file of the machine that a guest changes is copied; for guests it stays the one that it was.
#[test]
fn files_of_the_machine_stay_the_same_ones_when_they_are_changed() {
    let python = find_python().expect("the test needs a python3 that can be a guest");
    let folder = folder("place/changes");
    fs::write(folder.join("changes.py"), CHANGES).expect("a file");
    let make = |name: &str| {
        let place = folder.join(name);
        fs::create_dir_all(place.join("folder/below")).expect("a folder");
        for file in ["log", "lock", "mode", "times", "linked", "moved", "removed"] {
            fs::write(place.join(file), format!("{file} as it was\n")).expect("a file");
        }
        [folder.join("changes.py"), place].map(|path| path.display().to_string())
    };
    let native = capture(Command::new(&python).args(make("native")));
    assert!(native.status.success() && !native.stdout.contains("two holders"), "{}{}", native.stdout, native.stderr);
    let text = format!(
        "general: {{stop_time: 10 s}}\nnetwork: {{graph: {{type: 1_gbit_switch}}}}\nhosts:\n  \
         a:\n    network_node_id: 0\n    processes:\n    - {{path: {python}, args: {}}}\n",
        serde_json::to_string(&make("guest")).expect("text")
    );
    fs::write(folder.join("x.yaml"), text).expect("a file");
    run_well(&folder, "x.yaml", &["-d", "o"]);
    let hosts = folder.join("o/hosts");
    assert_eq!(wrote(&hosts, "a", "stdout"), native.stdout, "{}", wrote(&hosts, "a", "stderr"));
    assert_eq!(read(&folder.join("guest/log")), "log as it was\n", "the machine's own");
}
