//! `experimental.cheap_crypto`: real programs with OpenSSL's ciphers replaced still understand each other, and nobody else; a Tor network
//! does all that it does otherwise.

mod common;

use common::tor::Network;
use common::{find_program, folder, leave_out, read, run, run_well, stats};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::sync::Once;

/// Puts the library beside gnomon, where it is looked for. `cargo build -p cheap-crypto` leaves it where this program is, and `make test` calls that.
fn place_library() {
    static PLACED: Once = Once::new();
    PLACED.call_once(|| {
        let built = std::env::current_exe().expect("this program").with_file_name(LIBRARY);
        assert!(built.is_file(), "{}: cargo build --release -p cheap-crypto", built.display());
        let place = Path::new(env!("CARGO_BIN_EXE_gnomon")).with_file_name(LIBRARY);
        let new = folder("cheap-crypto/library").join(LIBRARY);
        fs::copy(built, &new).and_then(|_| fs::rename(&new, place)).expect("a library beside gnomon");
    });
}

const LIBRARY: &str = "libgnomon_cheap_crypto.so";

/// Downloads by behaviour and size: how many, all of them complete and verified.
fn downloads(run: &common::tor::Run) -> Vec<(String, u64)> {
    let mut all: Vec<_> = run.transfers().into_iter().map(|transfer| (transfer.behaviour, transfer.bytes)).collect();
    all.sort();
    all
}

#[test]
fn a_tor_network_does_the_same_with_cheap_ciphers() {
    place_library();
    let folder = folder("cheap-crypto/tor");
    let network = Network::new(&folder, &["--bootstrap", "75 s", "--duration", "150 s", "--bulk-size", "1 MiB"]);
    let real = network.run(&[]);
    let expected = downloads(&real);
    assert!(expected.len() > 15, "{expected:?}");
    let mut digests = vec![real.digest()];
    assert_eq!(real.stats()["gnomon"]["provenance"]["cheap_crypto"], Value::Null);

    for what in ["cells", "all"] {
        let run = network.run(&["--cheap-crypto", what, "--parallelism", "1"]);
        assert_eq!(downloads(&run), expected, "{what}");
        for host in run.tors() {
            let log = run.log(host);
            assert!(log.contains("Bootstrapped 100% (done): Done"), "{what}: {host}:\n{log}");
            assert!(!log.contains("[err]") && !log.contains("Bug:"), "{what}: {host}:\n{log}");
        }
        assert_eq!(run.stats()["gnomon"]["provenance"]["cheap_crypto"], what);
        let log = read(&run.data.join("gnomon.log"));
        assert!(log.contains(&format!("experimental.cheap_crypto: {what}: the ciphers of")), "{log}");
        assert!(log.contains("libgnomon_cheap_crypto.so: SHA-256 "), "{log}");
        digests.push(run.digest());
    }
    assert_eq!(network.run(&["--cheap-crypto", "all", "--parallelism", "2"]).digest(), digests[2]);
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), 3, "what is on the wire differs");
}

#[test]
fn networks_are_made_with_cheap_ciphers_on_request() {
    place_library();
    let folder = folder("cheap-crypto/new");
    let network = Network::new(&folder, &["--cheap-crypto"]);
    assert!(read(&network.file("gnomon.yaml")).contains("\n  cheap_crypto: all\n"));
    let checked = common::capture(common::gnomon().args(["check", "gnomon.yaml"]).current_dir(&network.folder));
    assert_eq!(checked.code(), 0, "{}", checked.stderr);
}

/// nginx, and clients that fetch a page of a megabyte: curl like all, one without the library, one over TLS 1.2, which nobody touches, and one
/// that takes the cipher of processors without AES.
const TLS: &str = r#"
general: { stop_time: 20 s, data_directory: tls.data, model_unblocked_syscall_latency: true }
experimental: { cheap_crypto: all }
network: { graph: { type: 1_gbit_switch } }
x-curl: &curl
  path: curl
  start_time: 5 s
hosts:
  server:
    network_node_id: 0
    processes:
      - path: sh
        args:
          - -c
          - |
            openssl req -x509 -newkey rsa:2048 -nodes -keyout server.key -out server.crt -days 9 -subj /CN=server \
              -addext subjectAltName=DNS:server 2> /dev/null
            seq 1 200000 > page
            exec nginx -p . -c nginx.conf -e error.log
        expected_final_state: running
  like: { network_node_id: 0, processes: [ { <<: *curl, args: "-q -sSf --cacert ../server/server.crt --tlsv1.3 -o page https://server/page" } ] }
  chacha: { network_node_id: 0, processes: [ { <<: *curl, args: "-q -sSf --cacert ../server/server.crt --tls13-ciphers TLS_CHACHA20_POLY1305_SHA256 -o page https://server/page" } ] }
  older: { network_node_id: 0, processes: [ { <<: *curl, args: "-q -sSf --cacert ../server/server.crt --tls-max 1.2 -o page https://server/page" } ] }
  without:
    network_node_id: 0
    processes:
      - path: env
        args: "-u LD_PRELOAD curl -q -sSf --cacert ../server/server.crt --tlsv1.3 -o page https://server/page"
        start_time: 5 s
        expected_final_state: { exited: 35 }
"#;

const NGINX: &str = "worker_processes 1; daemon off; pid nginx.pid; events { }\n\
    http { access_log off; client_body_temp_path .; proxy_temp_path .; fastcgi_temp_path .; uwsgi_temp_path .; scgi_temp_path .;\n\
    server { listen 443 ssl; server_name server; ssl_certificate server.crt; ssl_certificate_key server.key;\n\
    ssl_protocols TLSv1.2 TLSv1.3; root .; } }\n";

#[test]
fn web_servers_and_clients_understand_each_other_and_nobody_else() {
    place_library();
    if ["nginx", "curl", "openssl"].iter().any(|program| find_program(program).is_none()) {
        return leave_out("nginx, curl and openssl are needed");
    }
    let folder = folder("cheap-crypto/tls");
    fs::create_dir_all(folder.join("template/hosts/server")).unwrap();
    fs::write(folder.join("template/hosts/server/nginx.conf"), NGINX).unwrap();
    let with_template = TLS.replace("data_directory:", "template_directory: template, data_directory:");
    fs::write(folder.join("tls.yaml"), with_template).unwrap();
    run_well(&folder, "tls.yaml", &["--parallelism", "1"]);
    let hosts = folder.join("tls.data/hosts");
    let page = read(&hosts.join("server/page"));
    assert!(page.len() > 1_000_000);
    for host in ["like", "chacha", "older"] {
        assert!(read(&hosts.join(host).join("page")) == page, "{host}");
    }
    assert!(!hosts.join("without/page").exists());
    let said = common::wrote(&hosts, "without", "stderr");
    assert!(said.contains("SSL") || said.contains("bad record mac"), "{said}");

    let digest = common::digest(&folder.join("tls.data"));
    fs::remove_dir_all(folder.join("tls.data")).unwrap();
    run_well(&folder, "tls.yaml", &["--parallelism", "2"]);
    assert_eq!(common::digest(&folder.join("tls.data")), digest);
    let programs = &stats(&folder.join("tls.data"))["gnomon"]["provenance"]["programs"];
    assert!(programs.as_object().is_some_and(|all| all.keys().any(|path| path.ends_with("libgnomon_cheap_crypto.so"))));
}

#[test]
fn what_the_experiment_preloads_is_preloaded_too() {
    place_library();
    let folder = folder("cheap-crypto/preload");
    let experiment = "general: { stop_time: 5 s, data_directory: given.data }\n\
        experimental: { cheap_crypto: cells }\nnetwork: { graph: { type: 1_gbit_switch } }\n\
        hosts: { one: { network_node_id: 0, processes: [ { path: sh, args: [-c, 'echo $GNOMON_CHEAP_CRYPTO $LD_PRELOAD'], \
        environment: { LD_PRELOAD: libz.so.1 } } ] } }\n";
    fs::write(folder.join("given.yaml"), experiment).unwrap();
    run_well(&folder, "given.yaml", &[]);
    let said = common::wrote(&folder.join("given.data/hosts"), "one", "stdout");
    assert_eq!(said, "cells libz.so.1:/gnomon-run/data/cheap-crypto.so\n");
}

#[test]
fn without_the_library_it_is_told_what_to_build() {
    let folder = folder("cheap-crypto/missing");
    let elsewhere = folder.join("gnomon");
    fs::hard_link(env!("CARGO_BIN_EXE_gnomon"), &elsewhere)
        .or_else(|_| fs::copy(env!("CARGO_BIN_EXE_gnomon"), &elsewhere).map(drop))
        .unwrap();
    let experiment = "general: { stop_time: 5 s }\nexperimental:\n  cheap_crypto: all\nnetwork: { graph: { type: 1_gbit_switch } }\n\
        hosts: { one: { network_node_id: 0, processes: [ { path: 'true' } ] } }\n";
    fs::write(folder.join("x.yaml"), experiment).unwrap();
    let output = common::capture(common::limited(&elsewhere).args(["run", "x.yaml"]).current_dir(&folder));
    assert_eq!(output.code(), 2, "{}", output.stderr);
    let expected = "x.yaml:3:17: experimental.cheap_crypto: needs libgnomon_cheap_crypto.so beside gnomon";
    assert!(output.stderr.contains(expected) && output.stderr.contains("make build"), "{}", output.stderr);
    let odd = run(&folder, "x.yaml", &["--cheap-crypto", "true"]);
    assert_eq!(odd.code(), 2);
    assert!(odd.stderr.contains("--cheap-crypto") && odd.stderr.contains("cells"), "{}", odd.stderr);
}
