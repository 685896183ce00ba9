//! `general.start_date`: everything that shows a date shows the experiment's, files and real certificates included.

mod common;

use common::{Output, capture, digest, find_program, find_python, folder, gnomon, read, run, run_well, wrote};
use std::fs;
use std::path::Path;

const DATE: &str = "2026-11-22T08:30:00Z";
const DATE_S: u64 = 1_795_336_200;

fn exec(folder: &Path, date: &str, script: &str) -> Output {
    let mut command = gnomon();
    command.args(["exec", "--quiet", "--start-date", date, "bash", "-c", script]).current_dir(folder);
    capture(&mut command)
}

#[test]
fn clocks_files_and_proc_show_the_start_date() {
    let folder = folder("dates/clocks");
    let script = "date -u +%FT%T; stat -c %Y /proc/uptime; stat -c %Y /dev/shm; touch new; stat -c %Y new; sleep 5; \
        touch later; stat -c %Y later; stat -c %W later; grep btime /proc/stat; uptime -s; date -u +%s; ls -l --time-style=full-iso later";
    let output = exec(&folder, DATE, script);
    let start = |offset: u64| (DATE_S + offset).to_string();
    let expected = ["2026-11-22T08:30:00".to_owned(), start(0), start(0), start(0), start(5), start(5)];
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(lines[..6], expected, "{}", output.stderr);
    let boot: u64 = lines[6].strip_prefix("btime ").and_then(|time| time.parse().ok()).expect("the boot's time");
    assert!((DATE_S - 86_000..=DATE_S - 1000).contains(&boot), "{boot}");
    // uptime takes the time from the uptime, and both are cut to seconds.
    let shown = |boot: u64| base::date::date_and_time(boot as i64);
    assert!([shown(boot), shown(boot + 1)].contains(&lines[7].to_owned()), "{boot}: {}", lines[7]);
    assert_eq!(lines[8], start(5));
    assert!(lines[9].contains("2026-11-22 08:30:05."), "{}", lines[9]);
}

#[test]
fn waiting_for_a_moment_of_the_real_time_clock_ends_at_that_moment() {
    let Some(python) = find_python() else { panic!("no python3 that can be a guest") };
    let folder = folder("dates/waiting");
    let script = "import threading,time,signal,ctypes\n\
        begin=time.time()\n\
        libc=ctypes.CDLL(None,use_errno=True)\n\
        class T(ctypes.Structure): _fields_=[('s',ctypes.c_long),('n',ctypes.c_long)]\n\
        libc.clock_nanosleep(0,1,ctypes.byref(T(int(begin)+3,0)),None)\n\
        print(int(time.time()))\n\
        lock=threading.Lock(); lock.acquire(); print(lock.acquire(timeout=2), int(time.time()))\n\
        print(time.gmtime().tm_year, int(time.time()-time.monotonic()))\n";
    let mut command = gnomon();
    command.args(["exec", "--quiet", "--start-date", DATE, &python, "-c", script]).current_dir(&folder);
    let output = capture(&mut command);
    let expected = format!("{}\nFalse {}\n2026 ", DATE_S + 3, DATE_S + 5);
    let boot = output.stdout.strip_prefix(&expected).unwrap_or_else(|| panic!("{}{}", output.stdout, output.stderr));
    let boot: u64 = boot.trim().parse().expect("the boot's time");
    assert!((DATE_S - 86_000..=DATE_S - 1000).contains(&boot), "{boot}");
}

/// A web server with a certificate of today, and a client that checks it.
fn web(folder: &Path) -> String {
    let nginx = "daemon off; pid nginx.pid; error_log stderr; user root; events {} http { access_log off; server { listen 443 ssl; \
        server_name server; ssl_certificate cert.pem; ssl_certificate_key key.pem; return 200 verified; } }";
    let template = folder.join("template/hosts/server");
    fs::create_dir_all(&template).expect("a folder");
    let mut request = std::process::Command::new("openssl");
    request.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=server"]);
    request.args(["-addext", "subjectAltName=DNS:server", "-keyout", "key.pem", "-out", "cert.pem"]);
    let made = capture(request.current_dir(&template));
    assert!(made.status.success(), "{}", made.stderr);
    fs::write(template.join("nginx.conf"), nginx).expect("a file");
    "general: {stop_time: 20 s, template_directory: template}\n\
     network: {graph: {type: 1_gbit_switch}}\n\
     hosts:\n\
     \x20 server:\n\
     \x20   network_node_id: 0\n\
     \x20   processes:\n\
     \x20   - {path: nginx, args: [-p, ., -c, nginx.conf], expected_final_state: running}\n\
     \x20 client:\n\
     \x20   network_node_id: 0\n\
     \x20   processes:\n\
     \x20   - path: curl\n\
     \x20     args: [-sS, --cacert, ../server/cert.pem, \"https://server/\"]\n\
     \x20     start_time: 2 s\n\
     \x20     expected_final_state: {exited: EXIT}\n"
        .to_owned()
}

#[test]
fn a_certificate_of_today_holds_now_and_not_in_the_year_2000() {
    for program in ["nginx", "curl", "openssl"] {
        assert!(find_program(program).is_some(), "the test needs {program}");
    }
    let folder = folder("dates/certificate");
    let experiment = web(&folder);
    fs::write(folder.join("now.yaml"), experiment.replace("EXIT", "0")).expect("a file");
    // CURLE_PEER_FAILED_VERIFICATION, libcurl-errors(3).
    fs::write(folder.join("old.yaml"), experiment.replace("EXIT", "60")).expect("a file");
    run_well(&folder, "now.yaml", &["--start-date", "now", "-d", "now.data"]);
    assert_eq!(wrote(&folder.join("now.data/hosts"), "client", "stdout"), "verified");
    run_well(&folder, "old.yaml", &["-d", "old.data"]);
    let error = wrote(&folder.join("old.data/hosts"), "client", "stderr");
    assert!(error.contains("not yet valid"), "{error}");
    // The date that was "now" is named, and the run can be repeated.
    run_well(&folder, "now.data/processed-config.yaml", &["-d", "again.data"]);
    assert_eq!(digest(&folder.join("now.data")), digest(&folder.join("again.data")));
}

#[test]
fn captures_have_the_date() {
    let Some(tshark) = find_program("tshark") else { panic!("the test needs tshark") };
    let folder = folder("dates/capture");
    let text = format!(
        "general: {{stop_time: 10 s, start_date: {DATE}}}\nhost_option_defaults: {{pcap_enabled: true}}\nnetwork: {{graph: {{type: 1_gbit_switch}}}}\n\
         hosts:\n  a:\n    network_node_id: 0\n    processes:\n    - {{path: bash, args: [-c, 'sleep 3; echo x > /dev/udp/b/9'], expected_final_state: {{exited: 0}}}}\n\
         \x20 b: {{network_node_id: 0, processes: []}}\n"
    );
    fs::write(folder.join("x.yaml"), text).expect("a file");
    run_well(&folder, "x.yaml", &["-d", "x.data"]);
    let mut command = std::process::Command::new(tshark);
    command.args(["-r", "x.data/hosts/a/eth0.pcap", "-T", "fields", "-e", "frame.time_epoch"]).current_dir(&folder);
    let output = capture(&mut command);
    let first = output.stdout.lines().next().unwrap_or_default();
    assert!(first.starts_with(&(DATE_S + 3).to_string()), "{first} {}", output.stderr);
}

#[test]
fn make_builds_what_is_older_and_complains_of_nothing() {
    let folder = folder("dates/make");
    fs::create_dir_all(folder.join("template/hosts/host")).expect("a folder");
    fs::write(folder.join("template/hosts/host/source"), "text\n").expect("a file");
    fs::write(folder.join("template/hosts/host/Makefile"), "built: source /usr/bin/make\n\tcp $< $@\n")
        .expect("a file");
    let text = "general: {stop_time: 1 min, template_directory: template}\nnetwork: {graph: {type: 1_gbit_switch}}\nhosts:\n  host:\n    network_node_id: 0\n    \
        processes:\n    - {path: bash, environment: {PATH: /usr/bin}, args: [-c, 'make && sleep 1 && make'], expected_final_state: {exited: 0}}\n";
    fs::write(folder.join("x.yaml"), text).expect("a file");
    run_well(&folder, "x.yaml", &["--start-date", "now", "-d", "now.data"]);
    let hosts = folder.join("now.data/hosts");
    assert_eq!(wrote(&hosts, "host", "stdout"), "cp source built\nmake: 'built' is up to date.\n");
    assert_eq!(wrote(&hosts, "host", "stderr"), "");
}

#[test]
fn bad_dates_are_refused_where_they_stand() {
    let folder = folder("dates/refused");
    let text = |date: &str| {
        format!(
            "general:\n  stop_time: 10 s\n  start_date: {date}\nnetwork: {{graph: {{type: 1_gbit_switch}}}}\nhosts: {{a: {{network_node_id: 0, processes: []}}}}\n"
        )
    };
    for (date, part) in [
        ("2026-02-30", "the calendar has no 2026-02-30; correct it"),
        ("tomorrow", "write one such as 2026-11-22T08:30:00Z"),
        ("1969-01-01", "dates go from 1970-01-02 to 2106-01-01"),
        ("now", "'--start-date now' takes the machine's"),
    ] {
        fs::write(folder.join("x.yaml"), text(date)).expect("a file");
        let output = run(&folder, "x.yaml", &[]);
        assert_eq!(output.code(), 2, "{date}");
        assert!(output.stderr.contains("x.yaml:3:15: general.start_date: "), "{}", output.stderr);
        assert!(output.stderr.contains(part), "{date}: {}", output.stderr);
    }
    let output = exec(&folder, "2107-01-01", "true");
    assert_eq!(output.code(), 2);
    assert!(output.stderr.contains("--start-date"), "{}", output.stderr);
}

#[test]
fn tor_networks_of_another_date_have_certificates_of_it() {
    let folder = folder("dates/tor");
    let mut command = gnomon();
    let output = capture(command.args(["tor", "new", "--start-date", "2026-11-22", "net"]).current_dir(&folder));
    assert_eq!(output.code(), 0, "{}", output.stderr);
    assert!(read(&folder.join("net/gnomon.yaml")).contains("  start_date: 2026-11-22T00:00:00Z\n"));
    assert!(read(&folder.join("net/template/conf/bandwidths")).starts_with("1795305601\n"));
    let hosts = folder.join("net/template/hosts");
    let authority = fs::read_dir(&hosts).expect("a folder").map(|entry| entry.expect("an entry").path());
    let certificates: Vec<String> = authority
        .map(|host| host.join("keys/authority_certificate"))
        .filter(|path| path.exists())
        .map(|path| read(&path))
        .collect();
    assert!(!certificates.is_empty());
    for certificate in certificates {
        assert!(
            certificate.contains("dir-key-published 2026-10-22 00:00:00\ndir-key-expires 2036-10-22"),
            "{certificate}"
        );
    }
    let output =
        capture(gnomon().args(["tor", "new", "--start-date", "2026-11-22T00:00:07", "odd"]).current_dir(&folder));
    assert_eq!(output.code(), 2);
    assert!(output.stderr.contains("give a --start-date at one of them"), "{}", output.stderr);
}
