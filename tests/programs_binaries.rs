//! Kinds of executables, and what a dynamic loader is asked to do: each on its own, and side by side on one host.

mod common;

use common::{capture, digest, find_program, folder, read, root, run_well, tree, wrote};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The experiment: one host, on which all programs run at once.
fn experiment(processes: &[String]) -> String {
    format!(
        "general: {{ stop_time: 1 min, data_directory: run.data }}\n\
         network: {{ graph: {{ type: 1_gbit_switch }} }}\n\
         hosts:\n  host:\n    network_node_id: 0\n    processes:\n{}",
        processes.concat()
    )
}

/// A process as YAML, which must exit with 0.
fn process(words: &[&str], variables: &[(&str, &str)]) -> String {
    let arguments = serde_json::to_string(&words[1..]).expect("JSON is YAML");
    let path = [("PATH", "/usr/bin:/bin")];
    let variables: Vec<String> =
        path.iter().chain(variables).map(|(name, value)| format!("{name}: '{value}'")).collect();
    format!("    - {{ path: '{}', args: {arguments}, environment: {{ {} }} }}\n", words[0], variables.join(", "))
}

/// Runs the processes with one worker and with two, which must not differ. Returns what each wrote to standard output and to
/// standard error, in the order of the processes.
fn run_twice(folder: &Path, processes: &[String]) -> Vec<(String, String)> {
    fs::write(folder.join("run.yaml"), experiment(processes)).unwrap();
    let data = folder.join("run.data");
    let run = |workers: &str| {
        if data.exists() {
            fs::remove_dir_all(&data).unwrap();
        }
        run_well(folder, "run.yaml", &["--parallelism", workers]);
        (digest(&data), tree(&data.join("hosts")))
    };
    let (first, second) = (run("1"), run("2"));
    assert!(first == second, "{}: the runs differ", folder.display());
    let host = data.join("hosts/host");
    let mut outputs: Vec<(u32, PathBuf)> = tree(&host)
        .into_keys()
        .filter(|name| name.ends_with(".stdout"))
        .map(|name| (name.split('.').rev().nth(1).expect("a number").parse().expect("a number"), host.join(name)))
        .collect();
    outputs.sort_unstable();
    let texts = |(_, file): &(u32, PathBuf)| (read(file), read(&file.with_extension("stderr")));
    outputs.iter().map(texts).collect()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Compiles a program of `tests/languages` with `compiler`; None where it cannot make that kind.
fn build(compiler: &str, source: &str, folder: &Path, name: &str, options: &[&str]) -> Option<PathBuf> {
    let result = folder.join(name);
    let mut command = Command::new(find_program(compiler)?);
    command.args(["-O1", "-std=gnu11", "-pthread", "-w"]).arg("-o").arg(&result);
    command.arg(root().join("tests/languages").join(source)).args(options);
    let output = capture(&mut command);
    if !output.status.success() {
        common::leave_out(&format!("{command:?}: {}", output.stderr));
        return None;
    }
    Some(result)
}

fn library(source: &str, folder: &Path, name: &str) -> PathBuf {
    let file = format!("{}-{name}.so", source.trim_end_matches(".c"));
    let definition = format!("-DNAME=\"{name}\"");
    build("gcc", source, folder, &file, &["-shared", "-fPIC", &definition]).expect("gcc makes libraries")
}

const LAST: &str = "after main\n";

/// Runs programs natively and all at once as guests, `copies` of each.
fn compare_all(folder: &Path, programs: &[PathBuf], copies: usize) {
    let words: Vec<[&str; 1]> = programs.iter().map(|program| [text(program)]).collect();
    let processes: Vec<String> =
        words.iter().flat_map(|words| vec![process(words, &[("KIND", "value")]); copies]).collect();
    let outputs = run_twice(folder, &processes);
    assert_eq!(outputs.len(), programs.len() * copies);
    for (program, outputs) in programs.iter().zip(outputs.chunks(copies)) {
        let native = capture(Command::new(program).env_clear().env("PATH", "/usr/bin:/bin").env("KIND", "value"));
        assert!(native.status.success() && native.stdout.ends_with(LAST), "{}: {}", program.display(), native.stdout);
        for (output, errors) in outputs {
            assert_eq!(*output, native.stdout, "{}: {errors}", program.display());
        }
    }
}

#[test]
fn glibc_programs_of_each_linkage_run_side_by_side() {
    let folder = folder("binaries/glibc");
    let kinds: &[(&str, &[&str])] = &[
        ("pie", &[]),
        ("fixed", &["-no-pie"]),
        ("static", &["-static", "-DLIBC_WITHOUT_NAMES"]),
        ("static-pie", &["-static-pie", "-DLIBC_WITHOUT_NAMES"]),
        ("fixed-elsewhere", &["-no-pie", "-Wl,-Ttext-segment=0x10000000"]),
    ];
    let programs: Vec<PathBuf> =
        kinds.iter().filter_map(|(name, options)| build("gcc", "kinds.c", &folder, name, options)).collect();
    assert_eq!(programs.len(), kinds.len(), "gcc makes all of them");
    compare_all(&folder, &programs, 3);
}

#[test]
fn musl_programs_of_each_linkage_run_side_by_side() {
    let folder = folder("binaries/musl");
    let kinds: &[(&str, &[&str])] =
        &[("pie", &[]), ("fixed", &["-no-pie"]), ("static", &["-static"]), ("static-pie", &["-static-pie", "-fPIE"])];
    let programs: Vec<PathBuf> =
        kinds.iter().filter_map(|(name, options)| build("musl-gcc", "kinds.c", &folder, name, options)).collect();
    assert_eq!(programs.len(), 4, "musl-gcc is missing: tools/install-packages test");
    compare_all(&folder, &programs, 2);
}

/// Constants among code, and branches that lead to where only a decoder would see something.
#[test]
fn what_only_reads_like_code_stays_as_it_is() {
    let folder = folder("binaries/data");
    let kinds: [(&str, &[&str]); 3] = [
        ("data_in_code", &["-O1", "-s", "-Wl,-z,noseparate-code"]),
        ("data_in_code", &["-O1", "-s", "-no-pie", "-Wl,-z,noseparate-code"]),
        ("far_branch", &["-O1", "-s", "-no-pie", "-fcf-protection=none"]),
    ];
    let build = |(number, (name, options)): (usize, &(&str, &[&str]))| {
        build("gcc", &format!("{name}.c"), &folder, &format!("{name}{number}"), options).expect("gcc")
    };
    let programs: Vec<PathBuf> = kinds.iter().enumerate().map(build).collect();
    let processes: Vec<String> = programs.iter().map(|program| process(&[text(program)], &[])).collect();
    for (program, (output, errors)) in programs.iter().zip(run_twice(&folder, &processes)) {
        let native = capture(&mut Command::new(program));
        assert!(native.status.success() && !native.stdout.is_empty(), "{}", program.display());
        assert_eq!(output, native.stdout, "{}: {errors}", program.display());
    }
}

/// What linkers can be told that a loader has to cope with.
#[test]
fn programs_of_unusual_layout_run() {
    let folder = folder("binaries/layout");
    let loader = folder.join("a-loader");
    fs::copy("/lib64/ld-linux-x86-64.so.2", &loader).unwrap();
    let interpreter = format!("-Wl,--dynamic-linker={}", loader.display());
    let kinds: &[(&str, &[&str])] = &[
        ("executable-stack", &["-z", "execstack"]),
        ("packed-relocations", &["-Wl,-z,pack-relative-relocs"]),
        ("without-relro", &["-z", "norelro"]),
        ("bound-at-once", &["-z", "now"]),
        ("code-with-data", &["-z", "noseparate-code"]),
        ("large-pages", &["-Wl,-z,max-page-size=0x200000"]),
        ("old-hashes", &["-Wl,--hash-style=sysv"]),
        ("own-loader", &[&interpreter]),
        ("protected-stack", &["-fstack-protector-all", "-D_FORTIFY_SOURCE=2"]),
        ("indirect-branches", &["-fcf-protection=full"]),
        ("at-once", &["-O3", "-flto"]),
    ];
    let mut programs: Vec<PathBuf> =
        kinds.iter().filter_map(|(name, options)| build("gcc", "kinds.c", &folder, name, options)).collect();
    assert!(programs.len() >= 9, "{programs:?}");
    let plain = build("gcc", "kinds.c", &folder, "plain", &[]).expect("gcc");
    programs.push(edited(&plain, "without-sections", drop_sections));
    programs.push(edited(&plain, "writable-code", make_writable));
    let fixed = build("gcc", "kinds.c", &folder, "fixed", &["-no-pie"]).expect("gcc");
    programs.push(edited(&fixed, "fixed-writable-code", make_writable));
    compare_all(&folder, &programs, 1);
}

/// A copy of an executable with changed bytes.
fn edited(program: &Path, name: &str, edit: fn(&mut [u8])) -> PathBuf {
    let path = program.with_file_name(name);
    fs::copy(program, &path).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    edit(&mut bytes);
    fs::write(&path, bytes).unwrap();
    path
}

/// No table of sections: e_shoff, e_shentsize, e_shnum and e_shstrndx are 0 (elf(5)).
fn drop_sections(file: &mut [u8]) {
    file[40..48].fill(0);
    file[58..64].fill(0);
}

/// All segments that are loaded become readable, writable and executable: p_flags at offset 4 of each PT_LOAD.
fn make_writable(file: &mut [u8]) {
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte));
    let (start, size, count) = (number(&file[32..40]), number(&file[54..56]), number(&file[56..58]));
    for header in file[start..start + size * count].chunks_mut(size) {
        if header[..4] == [1, 0, 0, 0] {
            header[4] = 7;
        }
    }
}

#[test]
fn libraries_are_loaded_at_run_time_and_in_spaces_of_their_own() {
    let folder = folder("binaries/loading");
    let (first, second) = (library("library.c", &folder, "first"), library("library.c", &folder, "second"));
    for (name, options) in [("loading", &[][..]), ("loading-fixed", &["-no-pie"])] {
        let program = build("gcc", "loading.c", &folder, name, options).expect("gcc");
        let native = capture(Command::new(&program).args([&first, &second]));
        assert!(native.status.success() && native.stdout.contains("space 2 counts 1, own 1"), "{}", native.stdout);
        let guests = vec![process(&[text(&program), text(&first), text(&second)], &[]); 2];
        for (output, errors) in run_twice(&folder, &guests) {
            assert_eq!(output, native.stdout, "{errors}");
        }
    }
}

#[test]
fn each_guest_has_its_own_libraries() {
    let folder = folder("binaries/preload");
    let (one, two) = (library("preload.c", &folder, "one"), library("preload.c", &folder, "two"));
    let both = format!("{} {}", one.display(), two.display());
    let audit = build("gcc", "audit.c", &folder, "audit.so", &["-shared", "-fPIC"]).expect("gcc");
    let places = ["here", "there"].map(|name| {
        let place = folder.join(name);
        fs::create_dir(&place).unwrap();
        fs::copy(library("library.c", &folder, name), place.join("libchosen.so")).unwrap();
        place
    });
    let linked = ["-L", text(&places[0]), "-lchosen"];
    let user = build("gcc", "user.c", &folder, "user", &linked).expect("gcc");
    let (uname, user) = (["/usr/bin/uname", "-n"], [text(&user)]);
    let shell = ["/bin/sh", "-c", "uname -n; LD_PRELOAD= uname -n; echo $(uname -n)"];
    let guests = [
        process(&uname, &[("LD_PRELOAD", text(&one))]),
        process(&uname, &[("LD_PRELOAD", text(&two))]),
        process(&uname, &[]),
        process(&uname, &[("LD_PRELOAD", &both), ("LD_BIND_NOW", "1")]),
        process(&shell, &[("LD_PRELOAD", text(&two))]),
        process(&user, &[("LD_LIBRARY_PATH", text(&places[0]))]),
        process(&user, &[("LD_LIBRARY_PATH", text(&places[1]))]),
        process(&uname, &[("LD_AUDIT", text(&audit))]),
        process(&uname, &[("LD_PRELOAD", "/no/such/library.so")]),
    ];
    let outputs = run_twice(&folder, &guests);
    let said: Vec<&str> = outputs.iter().map(|(output, _)| output.as_str()).collect();
    let expected = [
        "host-one\n",
        "host-two\n",
        "host\n",
        "host-two-one\n",
        "host-two\nhost\nhost-two\n",
        "here comes\nlinked with here\nhere goes with 1\n",
        "there comes\nlinked with there\nthere goes with 1\n",
        "host\n",
        "host\n",
    ];
    assert_eq!(said, expected);
    assert!(outputs[7].1.contains("loads libc.so.6\n"), "{}", outputs[7].1);
    assert!(outputs[8].1.contains("cannot be preloaded"), "{}", outputs[8].1);
}

const SOCKS: &str = r#"
general: { stop_time: 1 min, data_directory: run.data }
network:
  graph:
    type: gml
    inline: |
      graph [
        node [ id 0 host_bandwidth_down "100 Mbit" host_bandwidth_up "100 Mbit" ]
        edge [ source 0 target 0 latency "10 ms" packet_loss 0.002 ]
      ]
hosts:
  web:
    network_node_id: 0
    processes:
    - { path: /usr/bin/python3, args: -u -m http.server 80, expected_final_state: running }
  proxy:
    network_node_id: 0
    ip_addr: 11.0.0.99
    processes:
    - { path: /usr/bin/python3, args: [-u, "SCRIPT", "9050"], expected_final_state: running }
  client:
    network_node_id: 0
    processes:
    - { path: /usr/bin/torsocks, args: "-a 11.0.0.99 -P 9050 CURL http://web/through", start_time: 2 s, environment: { PATH: "/usr/bin:/bin" } }
    - { path: /usr/bin/curl, args: "-q -sS -o /dev/null -w '%{http_code}' http://web/direct", start_time: 2 s }
    - { path: /usr/bin/torsocks, args: "-a 11.0.0.99 -P 9050 CURL http://nobody.invalid/", start_time: 4 s, environment: { PATH: "/usr/bin:/bin" }, expected_final_state: { exited: 6 } }
"#;

#[test]
fn torsocks_takes_curl_through_a_proxy() {
    assert!(find_program("torsocks").is_some(), "torsocks is missing: tools/install-packages test");
    let folder = folder("binaries/torsocks");
    let script = root().join("tests/languages/socks.py");
    let curl = "curl -q -sS -o /dev/null -w '%{http_code}'";
    fs::write(folder.join("run.yaml"), SOCKS.replace("SCRIPT", text(&script)).replace("CURL", curl)).unwrap();
    let hosts = folder.join("run.data/hosts");
    let run = |workers| {
        if folder.join("run.data").exists() {
            fs::remove_dir_all(folder.join("run.data")).unwrap();
        }
        run_well(&folder, "run.yaml", &["--parallelism", workers]);
        (digest(&folder.join("run.data")), tree(&hosts))
    };
    assert!(run("1") == run("2"), "the runs differ");
    let asked = wrote(&hosts, "proxy", "stdout");
    let lines: Vec<String> = asked.lines().map(|line| line.replace(char::is_numeric, "")).collect();
    assert_eq!(lines, ["resolve web ", "connect ... ", "resolve nobody.invalid "], "{asked}");
    let log = wrote(&hosts, "web", "stderr");
    let from = |page: &str| log.lines().find(|line| line.contains(page)).and_then(|line| line.split(' ').next());
    assert_eq!(from("/through"), Some("11.0.0.99"), "{log}");
    assert!(from("/direct").is_some_and(|address| address != "11.0.0.99"), "the other one goes its own way: {log}");
}

/// Whatever maps code of an ELF file, in whatever order and with whatever alignment: it sees the simulated processor, and no call traps.
#[test]
fn code_is_rewritten_however_it_is_mapped() {
    const WAYS: [&str; 11] = [
        "dlopen",
        "in-order",
        "early",
        "reverse",
        "again",
        "whole-first",
        "late",
        "memfd",
        "flat",
        "flat-late",
        "anywhere",
    ];
    let folder = folder("binaries/views");
    let program = build("gcc", "elf_views.c", &folder, "views", &["-ldl"]).expect("gcc");
    let library = |alignment: &&str| {
        let page_size = format!("-Wl,-z,max-page-size={alignment}");
        let options = ["-shared", "-fPIC", "-DLIBRARY", "-Wl,-e,entry", &page_size];
        build("gcc", "elf_views.c", &folder, &format!("{alignment}.so"), &options).expect("gcc makes libraries")
    };
    let libraries: Vec<PathBuf> = ["0x1000", "0x8000", "0x200000"].iter().map(library).collect();
    let ways = libraries.iter().flat_map(|library| WAYS.map(|way| (way, text(library))));
    let processes: Vec<String> = ways.map(|(way, library)| process(&[text(&program), way, library], &[])).collect();
    let outputs = run_twice(&folder, &processes);
    for ((output, errors), way) in outputs.iter().zip(WAYS.iter().cycle()) {
        // "Genu" of "GenuineIntel".
        assert_eq!(*output, format!("{way} 756e6547 1000\n"), "{errors}");
    }
    assert_eq!(outputs.len(), WAYS.len() * libraries.len());
    let stats = common::stats(&folder.join("run.data"));
    let interception = &stats["gnomon"]["interception"];
    // ld.so has one that stays.
    let misses = interception["misses"].as_object().expect("a table");
    assert!(misses.keys().all(|site| site.contains("/ld-linux")), "{interception}");
    assert_eq!(stats["gnomon"]["computing"]["reproducible"], true, "{}", stats["gnomon"]["interferences"]);
}
