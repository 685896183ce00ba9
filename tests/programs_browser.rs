//! Browsers: the largest programs that people own. A page of many parts over TLS, from another host, by a certificate authority of the
//! experiment (`examples/browser`).

mod common;

use common::{capture, digest, find_program, folder, gnomon, read, run_well, set_up, stats, wrote};
use std::fs;
use std::path::{Path, PathBuf};

/// What the page's script says of it.
const RESULT: &str =
    "secure: true; pictures: 240x160 240x160 240x160 240x160; colour: rgb(1, 2, 3); size: 40px; sum: 7002996; wasm: 42";

/// What the server is asked for, in some order.
const REQUESTS: [&str; 15] = [
    "200 GET / TLSv1.3",
    "200 GET /background.bmp TLSv1.3",
    "200 GET /colours.css TLSv1.3",
    "200 GET /first.js TLSv1.3",
    "200 GET /list1.json TLSv1.3",
    "200 GET /list2.json TLSv1.3",
    "200 GET /list3.json TLSv1.3",
    "200 GET /page.js TLSv1.3",
    "200 GET /picture1.bmp TLSv1.3",
    "200 GET /picture2.bmp TLSv1.3",
    "200 GET /picture3.bmp TLSv1.3",
    "200 GET /picture4.bmp TLSv1.3",
    "200 GET /style.css TLSv1.3",
    "204 GET /favicon.ico TLSv1.3",
    REPORT,
];

/// What the page's script says of it, as it tells the server.
const REPORT: &str = "204 POST /report?secure%3A%20true%3B%20pictures%3A%20240x160%20240x160%20240x160%20240x160%3B%20\
                      colour%3A%20rgb(1%2C%202%2C%203)%3B%20size%3A%2040px%3B%20sum%3A%207002996%3B%20wasm%3A%2042 TLSv1.3";

/// The example in a folder of its own.
fn example(name: &str) -> PathBuf {
    for program in ["chromium", "firefox-esr", "nginx", "openssl", "certutil"] {
        assert!(find_program(program).is_some(), "{program} is missing: tools/install-packages test");
    }
    let folder = folder(&format!("browser/{name}"));
    set_up("browser", &folder);
    folder
}

/// Runs `browser.yaml`, with chromium, or `firefox.yaml`; the data directory.
fn run(folder: &Path, name: &str, arguments: &[&str]) -> PathBuf {
    let data = folder.join(format!("{name}.data"));
    if data.exists() {
        fs::remove_dir_all(&data).unwrap();
    }
    run_well(folder, &format!("{name}.yaml"), arguments);
    data
}

/// What the visitor prints: the page as it is in the end.
fn page(data: &Path) -> String {
    wrote(&data.join("hosts"), "visitor", "stdout")
}

/// What the server was asked for, sorted.
fn requests(data: &Path) -> Vec<String> {
    let mut requests: Vec<String> = read(&data.join("hosts/web/access.log")).lines().map(str::to_owned).collect();
    requests.sort_unstable();
    requests
}

/// Nothing of the machine has made a difference: data among the code that browsers generate is not taken for code either.
fn assert_undisturbed(data: &Path) {
    let causes = stats(data)["gnomon"]["interferences"].as_object().cloned().unwrap_or_default();
    assert!(causes.is_empty(), "the machine had a say: {causes:?}");
}

#[test]
fn chromium_loads_a_page_of_many_parts_over_tls() {
    let folder = example("tls");
    let data = run(&folder, "browser", &[]);
    let text = page(&data);
    assert!(text.contains(RESULT), "{text}");
    assert_eq!(requests(&data), REQUESTS);
    assert_undisturbed(&data);
}

#[test]
fn chromium_refuses_a_certificate_of_an_unknown_authority() {
    let folder = example("stranger");
    fs::remove_dir_all(folder.join("template/hosts/visitor/home/.pki")).expect("what it trusts");
    let data = run(&folder, "browser", &[]);
    assert_eq!(page(&data), "");
    let complaints = wrote(&data.join("hosts"), "visitor", "stderr");
    assert!(complaints.contains("Page load failed: net::ERR_CERT_AUTHORITY_INVALID"), "{complaints}");
    assert_eq!(read(&data.join("hosts/web/access.log")), "");
}

#[test]
fn firefox_loads_a_page_of_many_parts_over_tls() {
    let folder = example("firefox");
    let outcome = |data: &Path| {
        let picture = fs::read(data.join("hosts/visitor/page.png")).expect("a picture of the page");
        assert!(picture.starts_with(b"\x89PNG"), "{} bytes", picture.len());
        (digest(data), page(data), picture)
    };
    let data = run(&folder, "firefox", &["--parallelism", "1"]);
    let first = outcome(&data);
    assert!(first.1.contains(RESULT), "{}", first.1);
    assert_eq!(requests(&data), REQUESTS);
    assert_undisturbed(&data);
    let data = run(&folder, "firefox", &["--parallelism", "2"]);
    assert!(outcome(&data) == first, "one worker and two");
}

#[test]
fn firefox_refuses_a_certificate_of_an_unknown_authority() {
    let folder = example("firefox-stranger");
    fs::remove_file(folder.join("template/hosts/visitor/firefox/cert9.db")).expect("what it trusts");
    let file = folder.join("firefox.yaml");
    let text = read(&file).replace("start_time: 1 s", "start_time: 1 s\n        expected_final_state: { exited: 1 }");
    fs::write(&file, text).unwrap();
    let data = run(&folder, "firefox", &[]);
    assert!(!page(&data).contains("<html"), "{}", page(&data));
    let complaints = wrote(&data.join("hosts"), "visitor", "stderr");
    assert!(complaints.contains("WebDriver:Navigate: insecure certificate"), "{complaints}");
    assert_eq!(read(&data.join("hosts/web/access.log")), "");
}

#[test]
fn chromium_is_one_process_where_it_is_asked_to() {
    let folder = folder("browser/single");
    let page = "data:text/html,<script>document.write(`<p>${6 * 7}, ${navigator.language}</p>`)</script>";
    let options = "--headless=new --no-sandbox --single-process --no-zygote --disable-gpu --user-data-dir=/tmp/profile \
                   --no-first-run --disable-background-networking --disable-component-update --disable-sync --dump-dom";
    let arguments = ["exec", "/usr/lib/chromium/chromium"].into_iter().chain(options.split_whitespace()).chain([page]);
    let output = capture(gnomon().args(arguments).current_dir(&folder));
    assert_eq!(output.code(), 0, "{}", output.stderr);
    assert!(output.stdout.contains("<p>42, en-US</p>"), "{}", output.stdout);
}

#[test]
fn chromium_has_the_addresses_that_it_needs_among_many_hosts() {
    let folder = example("many");
    let file = folder.join("browser.yaml");
    let mut text = read(&file);
    text = text.replace("  visitor:\n", "  visitor:\n    host_options: { address_space: 8 TiB }\n");
    text.extend((0..100).map(|index| format!("  idle{index}: {{ network_node_id: 0, processes: [] }}\n")));
    fs::write(&file, text).unwrap();
    let data = run(&folder, "browser", &[]);
    assert!(page(&data).contains(RESULT), "{}", page(&data));
}
