//! The page in a browser: what a user finds, what a brush changes, files, keys, and how long it takes.
//!
//! Needs chromium and its driver (Debian's chromium and chromium-driver).

mod driver;

use driver::Browser;
use provenance::generate::{Scenario, record};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A row of a list on the page.
const ROW: f64 = 24.0;
const READY: &str = "document.documentElement.dataset.ready";

struct Server {
    process: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn generated(packets: u64) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("generated");
    fs::create_dir(&run).expect("a folder");
    record(&Scenario { packets, ..Scenario::default() }, &run.join(provenance::FOLDER)).expect("a record");
    (folder, run)
}

fn serve(run: &Path) -> Server {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gnomon-view"));
    let mut process = command.arg("serve").arg(run).arg("0").stdout(Stdio::piped()).spawn().expect("the program");
    let mut address = String::new();
    BufReader::new(process.stdout.take().expect("a pipe")).read_line(&mut address).expect("an address");
    Server { process, address: address.trim().to_owned() }
}

fn text(browser: &Browser, selector: &str) -> String {
    let told = browser.script(&format!("return document.querySelector('{selector}').textContent"));
    told.as_str().unwrap_or_default().to_owned()
}

/// Where screenshots go: `cargo test -p view --test page` leaves them to be looked at.
fn keep(name: &str, picture: &[u8]) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::create_dir_all(folder).expect("a folder");
    fs::write(folder.join(name), picture).expect("a file");
}

#[test]
fn a_slow_relay_is_found_in_three_clicks() {
    let Some(browser) = Browser::start() else { return };
    let (_folder, run) = generated(200_000);
    let server = serve(&run);
    browser.open(&server.address);
    browser.wait(READY);
    keep("view-light.png", &browser.screenshot(1440, 1000));
    // The first row of the first list, then the first of the slowest packets.
    browser.click("#places canvas", 200.0, 1.5 * ROW);
    browser.wait("document.documentElement.dataset.redrawn > 0");
    assert!(text(&browser, ".chips").contains("downlink of relay3"), "{}", text(&browser, ".chips"));
    browser.click("#packets canvas", 200.0, 1.5 * ROW);
    let summary =
        browser.wait("document.querySelector('.summary strong') && document.querySelector('.summary').textContent");
    let summary = summary.as_str().expect("a sentence");
    assert!(summary.contains("waited longest in the downlink of relay3"), "{summary}");
    keep("view-story.png", &browser.screenshot(1440, 1400));
    // The address shows the same to somebody else.
    let address = browser.script("return location.href");
    browser.open("about:blank");
    browser.open(address.as_str().expect("an address"));
    browser.wait("document.querySelector('.summary strong')");
    assert!(text(&browser, ".summary").contains("downlink of relay3"));
    browser.script("document.querySelector('.theme').click()");
    browser.wait("document.documentElement.dataset.theme === 'dark'");
    keep("view-dark.png", &browser.screenshot(1440, 2900));
}

#[test]
fn a_brush_holds_in_all_views_and_keys_do_what_pointers_do() {
    let Some(browser) = Browser::start() else { return };
    let (_folder, run) = generated(50_000);
    let server = serve(&run);
    browser.open(&server.address);
    browser.wait(READY);
    let all = text(&browser, ".told");
    let redrawn = |browser: &Browser| browser.script("return Number(document.documentElement.dataset.redrawn ?? 0)");
    let settle = |before: Value| browser.wait(&format!("(document.documentElement.dataset.redrawn ?? 0) > {before}"));
    let before = redrawn(&browser);
    browser.drag("#heat canvas", &[(0.10, 0.12), (0.14, 0.2), (0.2, 0.35)]);
    settle(before);
    let address = browser.script("return location.hash");
    let address = address.as_str().expect("an address");
    assert!(address.contains("time=") && address.contains("in-socket="), "{address}");
    assert!(text(&browser, ".told").contains(" of "), "{}", text(&browser, ".told"));
    // Escape takes all away.
    browser.key("#heat canvas", "\u{e00c}");
    browser.wait("location.hash === ''");
    assert_eq!(text(&browser, ".told"), all);
    // Down to the first row, and Enter.
    browser.key("#places canvas", "\u{e015}");
    browser.key("#places canvas", "\u{e007}");
    browser.wait("location.hash.includes('layer=')");
    browser.key("#heat canvas", "\u{e014}");
    browser.wait("location.hash.includes('time=')");
    browser.key("#hosts canvas", "\u{e014}");
    browser.key("#hosts canvas", "\u{e007}");
    browser.wait("!location.hash.includes('layer=') && location.hash.includes('host=')");
    // Memory opens part by part.
    browser.wait("document.querySelector('#memory .path').textContent.includes('0x')");
    browser.click("#memory canvas", 50.0, 28.0);
    browser.wait("location.hash.includes('memory=')");
    // What leaked from the part that is open: a click, and another for a packet with it.
    browser.script("document.querySelector('#leak .ask').click()");
    browser.wait("location.hash.includes('leak=') && document.querySelector('#leak .answer td .host')");
    assert!(
        text(&browser, "#leak .told").contains(" packets have or may have them"),
        "{}",
        text(&browser, "#leak .told")
    );
    browser.script("document.querySelector('#leak .packet').click()");
    browser.wait("location.hash.includes('packet=') && document.querySelector('.summary strong')");
    // A question, and its answer.
    browser.script("const box = document.querySelector('textarea'); box.value = 'SELECT 6 * 7 AS x'; document.querySelector('#sql .ask').click()");
    assert_eq!(browser.wait("document.querySelector('#sql .answer td')?.textContent"), "42");
    browser.script("const box = document.querySelector('textarea'); box.value = 'DROP VIEW sent'; document.querySelector('#sql .ask').click()");
    browser.wait("document.querySelector('#sql [aria-live]').textContent.includes('SELECT')");
    // Nothing was refused by the page's own policy, nor went wrong.
    assert!(!text(&browser, ".told").contains("rror"), "{}", text(&browser, ".told"));
}

#[test]
fn every_view_can_be_saved() {
    let Some(browser) = Browser::start() else { return };
    let (_folder, run) = generated(20_000);
    let server = serve(&run);
    browser.open(&server.address);
    browser.wait(READY);
    let (x, y) = (200.0, 1.5 * ROW);
    browser.click("#packets canvas", x, y);
    browser.wait("document.querySelector('.summary strong')");
    browser.script(
        "window.saved = []; const make = URL.createObjectURL; HTMLAnchorElement.prototype.click = function () { window.saved.at(-1).name = this.download; }; \
         URL.createObjectURL = (blob) => { window.saved.push({ type: blob.type, size: blob.size, blob }); return make(blob); }; \
         document.querySelectorAll('[data-file]').forEach((button) => button.click());",
    );
    let count = browser.script("return document.querySelectorAll('[data-file]').length").as_u64().expect("a number");
    assert_eq!(count, 8 * 3);
    browser.wait(&format!("window.saved.length === {count} && window.saved.every((file) => file.name)"));
    let saved = browser.script("return window.saved.map(({ name, type, size }) => [name, type, size])");
    for file in saved.as_array().expect("files") {
        assert!(file[2].as_u64().expect("a size") > 60, "{file}");
        assert!(file[0].as_str().expect("a name").starts_with("generated-"), "{file}");
    }
    // SVG files are well-formed.
    browser.script(
        "window.parsed = undefined; Promise.all(window.saved.filter(({ type }) => type.startsWith('image/svg')).map(({ blob }) => blob.text())).then((texts) => { \
         window.parsed = texts.map((text) => new DOMParser().parseFromString(text, 'image/svg+xml').querySelector('parsererror') === null); })",
    );
    assert_eq!(browser.wait("window.parsed"), serde_json::json!(vec![true; 8]));
}

#[test]
fn a_page_of_one_file_asks_for_nothing() {
    let Some(browser) = Browser::start() else { return };
    let (folder, run) = generated(20_000);
    let out = folder.path().join("page.html");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gnomon-view"));
    assert!(command.arg("page").arg(&run).arg(&out).status().expect("the program").success());
    browser.open(&format!("file://{}", out.display()));
    browser.wait("document.documentElement.dataset.first");
    browser.click("#places canvas", 200.0, 1.5 * ROW);
    browser.click("#packets canvas", 200.0, 1.5 * ROW);
    browser.wait("document.querySelector('.summary strong')");
    let asked = browser.script("return performance.getEntriesByType('resource').map((entry) => entry.name).filter((name) => !name.startsWith('data:'))");
    assert_eq!(asked, Value::Array(Vec::new()));
    assert_eq!(browser.script("return document.querySelector('#sql').hidden"), true);
}

/// Prints how long things take; with `GNOMON_VIEW_PACKETS` for so many packets, of which 10 million are the goal's:
///
///     GNOMON_VIEW_PACKETS=10000000 cargo test --release -p view --test page speed -- --nocapture
///
/// `GNOMON_VIEW_RUN` names a run that is there.
#[test]
fn speed() {
    let Some(browser) = Browser::start() else { return };
    let packets = std::env::var("GNOMON_VIEW_PACKETS").ok().and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let given = std::env::var_os("GNOMON_VIEW_RUN").map(PathBuf::from);
    let made = given.is_none().then(|| generated(packets));
    let run = given.unwrap_or_else(|| made.as_ref().expect("generated").1.clone());
    let server = serve(&run);
    browser.open(&server.address);
    let number =
        |script: &str| browser.wait(script).as_str().and_then(|text| text.parse::<f64>().ok()).expect("a number");
    let first = number("document.documentElement.dataset.first");
    let ready = number(READY);
    let mut times = Vec::new();
    // Rectangles of several sizes over all layers, as somebody looks around.
    for step in 0..40u32 {
        let (column, row) = (f64::from(step % 3), f64::from(step / 3 % 2));
        let (left, top) = ((column + 0.25 + f64::from(step % 5) * 0.03) / 3.0, (row + 0.2) / 2.0);
        let before = browser.script("return Number(document.documentElement.dataset.redrawn ?? 0)");
        browser.drag(
            "#heat canvas",
            &[(left, top), (left + 0.05 + f64::from(step % 7) * 0.01, top + 0.2 + f64::from(step % 4) * 0.03)],
        );
        browser.wait(&format!("document.documentElement.dataset.redrawn > {before}"));
        times.push(number("document.documentElement.dataset.redraw"));
    }
    times.sort_by(f64::total_cmp);
    let memory = browser.script("return performance.memory ? performance.memory.usedJSHeapSize / 1048576 : 0");
    let told = text(&browser, ".told");
    println!(
        "{told} first picture {first:.0} ms, brushing ready {ready:.0} ms, brush to views redrawn {:.0} ms (median), {:.0} ms (95 %), {:.0} ms (most), JavaScript {memory} MB",
        times[times.len() / 2],
        times[times.len() * 95 / 100],
        times[times.len() - 1],
    );
    assert!(first < ready && times.iter().all(|time| *time > 0.0));
}
