//! Servers and their clients as Debian ships them: processes that fork workers, save in the background, share memory and files.
//! The experiments are in `tests/servers`. Each is run with one worker and with two, which must not differ in anything.

mod common;

use common::{digest, find_program, folder, read, root, run_well, tree};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs `tests/servers/NAME.yaml` with these options; returns the hosts' directories.
fn run_once(name: &str, programs: &[&str], options: &[&str]) -> PathBuf {
    for program in programs {
        assert!(find_program(program).is_some(), "{program} is missing: tools/install-packages test");
    }
    let folder = folder(&format!("servers/{name}"));
    let file = format!("{name}.yaml");
    fs::copy(root().join("tests/servers").join(&file), folder.join(&file)).unwrap();
    run_well(&folder, &file, options);
    folder.join("run.data/hosts")
}

/// Runs `tests/servers/NAME.yaml` twice; returns the hosts' directories.
fn run_twice(name: &str, programs: &[&str]) -> PathBuf {
    for program in programs {
        assert!(find_program(program).is_some(), "{program} is missing: tools/install-packages test");
    }
    let folder = folder(&format!("servers/{name}"));
    let file = format!("{name}.yaml");
    fs::copy(root().join("tests/servers").join(&file), folder.join(&file)).unwrap();
    let data = folder.join("run.data");
    let run = |workers: &str| {
        if data.exists() {
            fs::remove_dir_all(&data).unwrap();
        }
        run_well(&folder, &file, &["--parallelism", workers]);
        (digest(&data), tree(&data.join("hosts")))
    };
    let (first, files) = run("1");
    let (second, same) = run("2");
    assert_eq!(first, second, "{name}: digests");
    for (path, content) in &files {
        assert!(same.get(path) == Some(content), "{name}: {path} differs from run to run");
    }
    assert!(files.keys().eq(same.keys()), "{name}: other files");
    data.join("hosts")
}

/// What the host's only process, a shell, wrote.
fn said(hosts: &Path, host: &str) -> String {
    read(&hosts.join(host).join("bash.1000.stdout"))
}

/// The lines of `text`, each with how often it is there.
fn counted(text: &str) -> std::collections::BTreeMap<&str, usize> {
    let mut counts = std::collections::BTreeMap::new();
    for line in text.lines() {
        *counts.entry(line).or_default() += 1;
    }
    counts
}

#[test]
fn etcds_that_start_together_elect_within_two_seconds() {
    for seed in ["1", "2", "3"] {
        let hosts = run_once("etcd", &["etcd", "etcdctl"], &["--seed", seed]);
        assert_eq!(said(&hosts, "client"), "OK\nkey\nvalue\n", "seed {seed}");
        let log = read(&hosts.join("e1/etcd.1000.stderr"));
        // Until then etcd has asked the others for two seconds whether there is a cluster.
        let second = |words: &str| -> u32 {
            let line = log.lines().find(|line| line.contains(words)).expect("the line of these words");
            let time = line.split("00:00:").nth(1).and_then(|time| time.get(..2)).expect("a time");
            time.parse().expect("seconds")
        };
        assert!(second("elected leader") - second("starting server") <= 2, "seed {seed}: {log}");
    }
}

#[test]
fn murmurd_listens_once_it_has_measured_the_processor() {
    let hosts = run_twice("murmurd", &["murmurd"]);
    assert_eq!(said(&hosts, "client"), "listens\n");
    let stats = common::stats(hosts.parent().expect("the run's folder"));
    let computing = &stats["gnomon"]["computing"];
    assert_eq!((&computing["reproducible"], &computing["clock_loops"]), (&true.into(), &1.into()));
}

#[test]
fn nginx_serves_with_two_workers_and_reloads() {
    let hosts = run_twice("nginx", &["nginx", "curl", "pgrep"]);
    let text = said(&hosts, "many");
    let lines = counted(&text);
    assert_eq!(lines.get("3231941463 108894"), Some(&30), "the page's checksum: {text}");
    let answers = |start: &'static str| -> Vec<usize> {
        lines.iter().filter(|(line, _)| line.starts_with(start)).map(|(_, count)| *count).collect()
    };
    let (first, second) = (answers("first "), answers("second "));
    assert_eq!((first.len(), first.iter().sum()), (2, 20), "both workers answer: {text}");
    assert_eq!((second.len(), second.iter().sum()), (2, 20), "both new workers answer: {text}");
    assert!(text.ends_with("curl 7\n"), "nobody listens in the end: {text}");
    let long = fs::read(hosts.join("slow/long")).unwrap();
    assert!(long == fs::read(hosts.join("web/www/long")).unwrap(), "a download outlives the reload");
    let text = said(&hosts, "web");
    assert!(text.contains("4 processes\nnginx ended with 0\n"), "master, an old worker, two new ones: {text}");
    let log = read(&hosts.join("web/access.log"));
    assert_eq!(log.lines().filter(|line| line.contains(" 200 ")).count(), 71, "{log}");
}

#[test]
fn redis_saves_by_forking_and_finds_its_data_again() {
    let hosts = run_twice("redis", &["redis-server", "redis-cli", "redis-benchmark"]);
    let expected = "errors: 0, replies: 300\nBackground saving started\nOK\n\
                    rdb_bgsave_in_progress:0\nrdb_last_bgsave_status:ok\n\
                    Background append only file rewriting started\n\
                    aof_rewrite_in_progress:0\naof_last_bgrewrite_status:ok\n\
                    value5+\nsubscribe\nnews\n1\n1\nmessage\nnews\nhello\nOK\nQUEUED\nQUEUED\n1\n2\n\
                    value300\nmaster_link_status:up\n\
                    restarted\nvalue300\nsaving\n2\nOK\nkilled\nvalue1\nbreath\n";
    assert_eq!(said(&hosts, "client"), expected);
    // Its file is a link to redis-check-rdb, whose name the outputs have.
    let log = read(&hosts.join("store/redis-check-rdb.1000.stdout"));
    for line in ["Background saving terminated with success", "Background AOF rewrite terminated with success"] {
        assert!(log.contains(line), "'{line}' is not in:\n{log}");
    }
    assert!(log.contains("Background RDB transfer terminated with success"), "for the replica, by a pipe:\n{log}");
    let results = read(&hosts.join("load/redis-benchmark.1000.stdout"));
    let rates = results.lines().skip(1).map(|line| line.split('"').nth(3).expect("a rate").parse::<f64>().unwrap());
    let rates: Vec<f64> = rates.collect();
    assert_eq!(rates.len(), 4, "{results}");
    // 20 clients with a request each per round trip of 2 ms make 10,000 per second at most.
    assert!(rates.iter().all(|rate| (9_500.0..10_000.0).contains(rate)), "{results}");
    let longest =
        results.lines().skip(1).map(|line| line.split('"').rev().nth(1).expect("a time").parse::<f64>().unwrap());
    assert!(longest.into_iter().all(|time| time < 2.3), "it polls while it waits, and is hardly late: {results}");
}

#[test]
fn rsync_brings_what_changed() {
    let hosts = run_twice("rsync", &["rsync"]);
    let text = said(&hosts, "client");
    let (first, second) = text.split_once("*deleting").expect("two transfers");
    let expected = "data           \tfiles\nclosed         \t\n\
                    @ERROR: access denied to closed from client (11.0.0.1)\nfailed\n\
                    Number of files: 28 (reg: 23, dir: 4, link: 1)\nLiteral data: 2,371,768 bytes\n\
                    copy/file4 640 1 2000-01-01 00:00:01 +0000\n\
                    copy/file5 644 2 2000-01-01 00:00:01 +0000\n\
                    copy/file6 644 1 1999-05-06 07:08:09 +0000\n\
                    copy/below/link 777 1 2000-01-01 00:00:01 +0000\n";
    assert_eq!(first, expected);
    for line in [".f...p..... file8", "<f..t...... large", "<f+++++++++ new", "<f+++++++++ below/moved"] {
        assert!(second.contains(line), "'{line}' is not in:\n{second}");
    }
    assert!(second.contains("Literal data: 45,025 bytes\nMatched data: 1,287,767 bytes\n"), "{second}");
    assert!(second.ends_with("then: \ncompressed\n"), "nothing is left to do: {second}");
    assert!(tree(&hosts.join("store/data")) == tree(&hosts.join("client/copy")), "the trees differ");
}

#[test]
fn git_clones_and_pushes() {
    let hosts = run_twice("git", &["git", "python3"]);
    let text = said(&hosts, "developer");
    let subjects: Vec<String> = text
        .lines()
        .map(|line| {
            line.split(',')
                .map(|commit| commit.split_once(' ').map_or(commit, |words| words.1))
                .collect::<Vec<_>>()
                .join(",")
        })
        .collect();
    let log = "change4,change3,change2,first,";
    let head = text.lines().rev().find_map(|line| line.strip_suffix("\tHEAD")).expect("a head");
    let expected = [log, log, "pushed,change4,", &format!("again,pushed,{log}"), "smart", "native", "sound"];
    assert_eq!(subjects[..7], expected, "{text}");
    assert_eq!(text.lines().nth(8), Some(&format!("{head}\trefs/heads/main")[..]), "{text}");
    assert_eq!(text.lines().last(), Some("nothing: 128"), "{text}");
    let requests = read(&hosts.join("forge/bash.1000.stderr"));
    for request in ["GET /project.git/objects/", "POST /cgi-bin/git/project.git/git-upload-pack", "git-receive-pack"] {
        assert!(requests.contains(request), "'{request}' is not in:\n{requests}");
    }
}

/// Asserts that `text` has the lines, in this order, whatever is between them.
fn assert_lines(text: &str, lines: &[&str]) {
    let mut rest = text.lines();
    for line in lines {
        assert!(rest.any(|found| found == *line), "'{line}' is not, or not there, in:\n{text}");
    }
}

#[test]
fn apache_lighttpd_and_haproxy_serve() {
    let programs = ["apache2", "lighttpd", "haproxy", "curl", "wget", "ab", "wrk"];
    let hosts = run_twice("web", &programs);
    let text = said(&hosts, "client");
    assert_lines(&text, &["apache", "lighttpd", "apache", "lighttpd", "apache", "lighttpd", "2052179976 588895"]);
    assert_lines(&text, &["POST question a body"]);
    let complete = ["Complete requests:      300", "Failed requests:        0"];
    assert_lines(&text, &[&complete[..], &complete[..], &["Keep-Alive requests:    300"]].concat());
    assert!(text.contains(" requests in ") && !text.contains("Non-2xx") && !text.contains("errors"), "{text}");
}

#[test]
fn small_servers_of_many_kinds_serve() {
    let programs = [
        "memcached",
        "mosquitto",
        "mosquitto_pub",
        "dnsmasq",
        "named",
        "dig",
        "vsftpd",
        "lftp",
        "ncat",
        "socat",
        "iperf",
    ];
    let hosts = run_twice("small", &[&programs[..], &["nc.openbsd"]].concat());
    let text = said(&hosts, "client");
    let cached = ["STORED", "VALUE a 0 5", "hello", "END"];
    assert_lines(&text.replace('\r', ""), &[&cached[..], &["a/b first", "a/c second"]].concat());
    assert_lines(&text, &["192.0.2.7", "\"words\"", "192.0.2.2", "ns.example.", "192.0.2.1", "192.0.2.2", "NXDOMAIN"]);
    assert_lines(&text, &["2052179976 588895", "-rw-r--r--    1 0        0          588895 Dec 31 10:00 file"]);
    assert_lines(&text, &["THREE", "got five"]);
    assert!(text.lines().last().is_some_and(|line| line.contains(" 4.00 MBytes ")), "iperf's result: {text}");
    for name in ["one", "two", "four", "six"] {
        assert_eq!(read(&hosts.join("netcat").join(name)), format!("{name}\n"));
    }
}

#[test]
fn postgres_serves_clients_at_once() {
    let hosts = run_twice("postgres", &["psql", "pgbench", "setpriv", "pgrep"]);
    let server = "postgres: postgres postgres 11.0.0.2 SELECT\n";
    assert_eq!(
        said(&hosts, "db"),
        format!("{server}{server}ended with 0\nended with 0\n"),
        "titles of processes, ends"
    );
    assert_eq!(
        said(&hosts, "second").lines().take(5).collect::<Vec<_>>(),
        ["946684812.0", "180", "UPDATE 1", "946684813.0", "10|1090"],
        "waits for a lock"
    );
    let victims = [said(&hosts, "first"), said(&hosts, "second")];
    let deadlocks = victims.iter().filter(|text| text.contains("ERROR:  deadlock detected"));
    assert_eq!(deadlocks.count(), 1, "one of two is chosen: {victims:?}");
    assert!(victims[0].contains("Asynchronous notification \"news\" with payload \"hello\""), "{victims:?}");
    let load = "done\nnumber of transactions actually processed: 120/120\n\
                number of failed transactions: 0 (0.000%)\nt\n120\n1090\n";
    assert_eq!(said(&hosts, "load"), load, "nothing is lost by the death of a process and a restart");
    let log = read(&hosts.join("db/bash.1000.stderr"));
    for line in ["was terminated by signal 9: Killed", "all server processes terminated; reinitializing"] {
        assert!(log.contains(line), "'{line}' is not in:\n{log}");
    }
}

#[test]
fn ssh_carries_commands_files_and_connections() {
    let hosts = run_twice("ssh", &["sshd", "ssh", "ssh-keygen", "scp", "sftp", "rsync", "git", "ncat", "curl"]);
    let (piped, file) = ("2245526238 1288895\n", "2052179976 588895");
    let expected = format!(
        "server\nroot\n11.0.0.1\nexit 7\nexit 255\n{piped}{piped}out\nerr\nPermission denied\n\
         {file} \n{file}\nhost_key.pub\nfetched\nforwarded\nforwarded\nbackwards\n\
         Exit request sent.\n<f.st...... tree/b\nfirst\n"
    );
    // Guests are root and look into root's folder, which the simulator's user may not.
    let said = said(&hosts, "client");
    let is_root = nix::unistd::geteuid().is_root();
    let of_bash =
        |line: &&str| !is_root && line.starts_with("bash: ") && line.ends_with(".bashrc: Permission denied\n");
    assert_eq!(said.split_inclusive('\n').filter(|line| !of_bash(line)).collect::<String>(), expected);
}

/// The hosts' directories of a run of an example that needs no set-up.
fn run_example(name: &str) -> PathBuf {
    let folder = folder(&format!("servers/example-{name}"));
    let example = root().join(format!("examples/{name}/{name}.yaml"));
    run_well(&folder, example.to_str().expect("UTF-8"), &[]);
    folder.join(format!("{name}.data/hosts"))
}

#[test]
fn clients_of_postgres_feel_their_distance() {
    let hosts = run_example("postgres");
    let rate = |host: &str| -> f64 {
        let text = said(&hosts, host);
        let rate = text.lines().find_map(|line| line.strip_prefix("tps = "));
        rate.and_then(|rate| rate.split(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("{host}: {text}"))
    };
    let rates = [rate("rack"), rate("city"), rate("overseas")];
    assert!(rates[0] > rates[1] && rates[1] > rates[2] && rates[2] > 0.5, "{rates:?}");
}

#[test]
fn a_swarm_of_libtorrent_completes() {
    let debian = Command::new("/usr/bin/python3").args(["-c", "import libtorrent"]).stderr(Stdio::null()).status();
    if !debian.is_ok_and(|status| status.success()) {
        return common::leave_out("there is no python3-libtorrent");
    }
    let folder = folder("servers/example-bittorrent");
    for name in ["bittorrent.yaml", "swarm.py"] {
        fs::copy(root().join("examples/bittorrent").join(name), folder.join(name)).unwrap();
    }
    let data = folder.join("bittorrent.data");
    let run = |workers: &str| {
        if data.exists() {
            fs::remove_dir_all(&data).unwrap();
        }
        run_well(&folder, "bittorrent.yaml", &["--parallelism", workers]);
        digest(&data)
    };
    assert_eq!(run("1"), run("2"), "digests");
    // Named after what the link leads to, as python3.11.
    let said = |host: &str| {
        let files = fs::read_dir(data.join("hosts").join(host)).unwrap().flatten();
        let mut printed =
            files.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "stdout"));
        read(&printed.next().expect("standard output"))
    };
    let made = said("seed").strip_prefix("seed ").expect("what the seed has").trim_end().to_owned();
    for (number, transports) in [(1, "tcp"), (2, "tcp"), (3, "utp"), (4, "utp"), (5, "")] {
        let text = said(&format!("leecher{number}"));
        assert!(text.starts_with(&format!("complete {made} in ")), "leecher {number}: {text}");
        assert!(text.contains(&format!(" over {transports}")), "leecher {number}: {text}");
    }
}

#[test]
fn a_page_comes_through_the_gateway() {
    let hosts = run_example("ssh");
    let text = said(&hosts, "laptop");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], ["this is gateway", "2052179976 588895"], "{text}");
    assert!(lines[2].starts_with("588895 bytes in "), "{text}");
    assert!(fs::read(hosts.join("laptop/page")).unwrap() == fs::read(hosts.join("web/www/page")).unwrap());
}
