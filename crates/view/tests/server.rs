//! The page's server: who may ask, what is answered, and the page as one file.

#[path = "records/mod.rs"]
mod records;

use probes::choices::{ReceivedFate, SentFate};
use provenance::generate::{Scenario, record};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A server for a generated run, until it is dropped.
struct Server {
    process: Child,
    port: u16,
    token: String,
    _folder: TempDir,
    run: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Reply {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&self.body)))
    }

    /// The JSON of a picture, which is followed by heat maps.
    fn picture(&self) -> Value {
        let length = u32::from_le_bytes(self.body[..4].try_into().expect("four bytes")) as usize;
        assert_eq!(self.body.len(), 4 + length + 6 * 256 * 128 * 4);
        serde_json::from_slice(&self.body[4..4 + length]).expect("JSON")
    }
}

fn server() -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    std::fs::create_dir(&run).expect("a folder");
    let scenario = Scenario { packets: 20_000, hosts: 20, ..Scenario::default() };
    record(&scenario, &run.join(provenance::FOLDER)).expect("a record");
    serve(folder, run, Command::new(env!("CARGO_BIN_EXE_gnomon-view")))
}

/// A server for `run`, which `command` starts.
fn serve(folder: TempDir, run: PathBuf, mut command: Command) -> Server {
    let mut process = command.arg("serve").arg(&run).arg("0").stdout(Stdio::piped()).spawn().expect("the program");
    let mut line = String::new();
    BufReader::new(process.stdout.take().expect("a pipe")).read_line(&mut line).expect("an address");
    let rest = line.trim().strip_prefix("http://127.0.0.1:").expect("an address on this machine");
    let (port, token) = rest.split_once('/').expect("a token");
    let (port, token) = (port.parse().expect("a port"), token.trim_end_matches('/').to_owned());
    assert!(token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{token}");
    Server { process, port, token, _folder: folder, run }
}

impl Server {
    fn send(&self, request: &str) -> Reply {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.write_all(request.as_bytes()).expect("a request");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("an answer");
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        let head = String::from_utf8(bytes[..end].to_vec()).expect("UTF-8");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        let body = if is_chunked { joined(&bytes[end..]) } else { bytes[end..].to_vec() };
        Reply { status, head, body }
    }

    fn with_host(&self, path: &str, host: &str, more: &str) -> Reply {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n"))
    }

    fn get(&self, path: &str) -> Reply {
        self.with_host(&format!("/{}/{path}", self.token), &format!("127.0.0.1:{}", self.port), "")
    }

    fn post(&self, path: &str, body: &str) -> Reply {
        self.send(&format!(
            "POST /{}/{path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.token,
            self.port,
            body.len()
        ))
    }

    /// Begins a question and leaves its answer.
    fn begin(&self, path: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        let (token, port, length) = (&self.token, self.port, body.len());
        write!(
            stream,
            "POST /{token}/{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .expect("a request");
        stream
    }

    /// The processor time that it has taken, in hundredths of seconds.
    fn processor_time(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).expect("a process");
        let (_, rest) = text.rsplit_once(") ").expect("a name");
        rest.split(' ').skip(11).take(2).map(|time| time.parse::<u64>().expect("a number")).sum()
    }

    /// Waits until the process works, or until it rests.
    fn wait_until(&self, works: bool) {
        for _ in 0..600 {
            let before = self.processor_time();
            std::thread::sleep(Duration::from_millis(100));
            if (self.processor_time() > before + 2) == works {
                return;
            }
        }
        panic!("a minute later, the server {}", if works { "does not work" } else { "still works" });
    }

    fn wait_until_ready(&self) {
        assert_eq!(self.get("first").status, 200);
        while self.get("ready").json()["ready"] != true {
            std::thread::yield_now();
        }
    }
}

/// A body that came in chunks.
fn joined(mut bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let end = bytes.windows(2).position(|two| two == b"\r\n").expect("a size");
        let size = std::str::from_utf8(&bytes[..end]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let size = size.expect("a size");
        if size == 0 {
            return all;
        }
        all.extend(&bytes[end + 2..end + 2 + size]);
        bytes = &bytes[end + 4 + size..];
    }
}

#[test]
fn only_who_knows_the_address_is_answered() {
    let server = server();
    let own = format!("127.0.0.1:{}", server.port);
    let path = format!("/{}/about", server.token);
    assert_eq!(server.with_host(&path, &own, "").status, 200);
    assert_eq!(server.with_host(&path, &format!("localhost:{}", server.port), "").status, 200);
    let mut wrong = server.token.clone().into_bytes();
    wrong[31] = if wrong[31] == b'0' { b'1' } else { b'0' };
    let wrong = String::from_utf8(wrong).expect("ASCII");
    for path in [
        "/",
        "/about",
        "//about",
        &format!("/{wrong}/about"),
        &format!("/{}", server.token),
        &format!("/{}x/about", server.token),
        &format!("/about?{}", server.token),
        "/%2e%2e/about",
    ] {
        let reply = server.with_host(path, &own, "");
        assert_eq!((reply.status, reply.body.len() < 100), (403, true), "{path}");
    }
    // A name that leads here by DNS is another site's.
    for host in [
        "example.org",
        "127.0.0.1",
        "127.0.0.1:1",
        &format!("example.org:{}", server.port),
        &format!("127.0.0.1:{}.example.org", server.port),
        "",
        &format!("[::1]:{}", server.port),
    ] {
        assert_eq!(server.with_host(&path, host, "").status, 403, "{host}");
    }
    assert_eq!(server.with_host(&path, &own, "Host: example.org\r\n").status, 403, "two hosts");
    assert_eq!(server.with_host(&path, &own, "Origin: http://example.org\r\n").status, 403, "another page");
    assert_eq!(server.with_host(&path, &own, "Origin: null\r\n").status, 403, "a page from nowhere");
    assert_eq!(server.with_host(&path, &own, &format!("Origin: http://{own}\r\n")).status, 200);
    assert_eq!(server.send(&format!("GET {path} HTTP/1.0\r\n\r\n")).status, 403, "no host");
    // On this address and no other: the port is free elsewhere.
    assert!(TcpListener::bind(("127.0.0.2", server.port)).is_ok());
}

#[test]
fn answers_keep_browsers_from_everything_else() {
    let server = server();
    let page = server.get("");
    let head = page.head.to_ascii_lowercase();
    for part in [
        "content-security-policy: default-src 'none'; script-src 'self'",
        "frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
        "cross-origin-resource-policy: same-origin",
    ] {
        assert!(head.contains(part), "{part}: {head}");
    }
    let text = String::from_utf8(page.body).expect("UTF-8");
    assert!(!text.contains("http:") && !text.contains("https:"), "the page asks for nothing elsewhere: {text}");
    let size = ["", "page.js", "page.css"].map(|part| server.get(part).body.len()).iter().sum::<usize>();
    assert!(size < 1 << 20, "{size} bytes");
    assert_eq!(server.get("nothing").status, 404);
    assert_eq!(server.post("about", "").status, 404);
    assert_eq!(server.post("sql", &" ".repeat((1 << 20) + 1)).status, 413);
}

#[test]
fn pictures_agree_with_the_record() {
    let server = server();
    let about = server.get("about").json();
    let first = server.get("first").picture();
    server.wait_until_ready();
    let all = server.post("brush", "{}").picture();
    let count = |sql: &str| -> u64 {
        let answer = server.post("sql", sql).json();
        answer["rows"][0][0].as_str().and_then(|cell| cell.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
    };
    assert_eq!(all["packets"], count("SELECT count(*) FROM sent"));
    assert_eq!(about["packets"], all["packets"]);
    // The time in each place agrees with the record, within what bins are wide, in both pictures.
    let relay = count("SELECT host FROM hosts WHERE name = 'relay3'");
    let exact = count(&format!("SELECT sum(downlink_ns)::UBIGINT FROM received WHERE host = {relay}"));
    for picture in [&first, &all] {
        let place = |place: &&Value| place[0] == relay && place[1] == 3;
        let ns = picture["places"].as_array().expect("places").iter().find(place).expect("the relay")[2].as_u64();
        assert!(ns.expect("a number").abs_diff(exact) * 15 <= exact, "{ns:?}, {exact}");
    }
    // A brush: a fate, a host and a range of time.
    let tick = about["tick_ns"].as_u64().expect("a number");
    let brush = json!({ "fates": [17], "host": relay, "layer": "downlink", "time": [100, 2500] });
    let picture = server.post("brush", &brush.to_string()).picture();
    let sql = format!(
        "SELECT count(*) FROM packets WHERE received_fate = 'read' AND host = {relay} AND made_ns // {tick} BETWEEN 100 AND 2500"
    );
    assert_eq!(picture["packets"], count(&sql));
    let slowest = &picture["slowest"][0];
    let number = slowest["packet"].as_str().expect("a number");
    let longest = count(&format!("{} AND packet = {number}", sql.replace("count(*)", "max(downlink_ns)")));
    let most = count(&sql.replace("count(*)", "max(downlink_ns)"));
    assert!(most - longest <= most / 8, "{longest} is not among the slowest, {most}");
    for wrong in [
        "",
        "[",
        "{\"time\": 3}",
        "{\"layers\": {\"moon\": [1, 2]}}",
        "{\"host\": -1}",
        "{\"tme\": [1, 2]}",
        "{\"fates\": [\"x\"]}",
        "{\"flow\": 4294967296}",
    ] {
        assert_eq!(server.post("brush", wrong).status, 400, "{wrong}");
    }
}

#[test]
fn both_pictures_count_what_passed_a_layer() {
    let (folder, run) = records::of_every_fate();
    let server = serve(folder, run, Command::new(env!("CARGO_BIN_EXE_gnomon-view")));
    let first = server.get("first").picture();
    server.wait_until_ready();
    let all = server.post("brush", "{}").picture();
    // Bins of the histograms fall into those of packets, so that times are the same, too.
    for part in ["packets", "places", "links", "histograms"] {
        assert_eq!(first[part], all[part], "{part}");
    }
    let counted = |picture: &Value, host: u32, layer: usize| {
        let places = picture["places"].as_array().expect("places");
        places
            .iter()
            .find(|place| place[0] == host && place[1] == layer)
            .map_or(0, |place| place[3].as_u64().expect("packets"))
    };
    let (near, far) = (|layer| counted(&all, 0, layer), |layer| counted(&all, 1, layer));
    // Of twelve carried packets the router has dropped two and kept one; of nine at the host, programs took or may take six.
    assert_eq!([near(0), near(1), near(2), far(3), far(4), far(5)], [15, 14, 12, 9, 6, 6]);
    // One went round.
    assert_eq!([near(3), near(4), near(5)], [1, 1, 1]);
    // Two were lost, two refused, and one dropped by the queue.
    assert_eq!(all["links"], json!([[0, 1, 14, 2], [0, 0, 0, 3]]));
    let fate = |code: usize| all["fates"][code].as_u64().expect("packets");
    assert_eq!((fate(SentFate::Lost as usize), fate(16 + ReceivedFate::Incomplete as usize)), (2, 2));
    // A click on a place shows those that it counts.
    for (layer, name) in ["downlink", "reassembly", "receive_queue"].iter().enumerate() {
        let picture = server.post("brush", &json!({ "host": 1, "layer": name }).to_string()).picture();
        assert_eq!(picture["packets"], far(3 + layer), "{name}");
    }
    let picture = server.post("brush", &json!({ "fates": [16 + ReceivedFate::Dropped as u64] }).to_string()).picture();
    assert_eq!((counted(&picture, 0, 2), counted(&picture, 1, 3)), (2, 0));
    assert_eq!(picture["histograms"][3].as_array().expect("bins").iter().filter_map(Value::as_u64).sum::<u64>(), 0);
}

#[test]
fn generated_runs_have_the_same_links_in_both_pictures() {
    let server = server();
    let first = server.get("first").picture();
    server.wait_until_ready();
    let all = server.post("brush", "{}").picture();
    assert_eq!(first["links"], all["links"]);
    assert!(all["links"].as_array().expect("links").iter().any(|link| link[3].as_u64() > Some(0)));
}

#[test]
fn a_question_ends_when_who_asked_has_gone() {
    let server = server();
    server.wait_until_ready();
    server.wait_until(false);
    let endless = "SELECT count(*) FROM range(10000000) a, range(1000000) b";
    for path in ["sql", "sql?format=csv"] {
        let asking = server.begin(path, endless);
        server.wait_until(true);
        drop(asking);
        server.wait_until(false);
    }
}

#[test]
fn long_answers_go_out_as_they_are_made() {
    let server = server();
    server.wait_until_ready();
    let mut asking = server.begin("sql?format=csv", "SELECT range AS number FROM range(100000000000)");
    let mut some = vec![0; 4 << 20];
    asking.read_exact(&mut some).expect("the beginning of an answer");
    assert!(some.starts_with(b"HTTP/1.1 200 ") && some.windows(8).any(|part| part == b"\n100000\n"));
    // It waits for its reader, and ends with it.
    server.wait_until(false);
    drop(asking);
    server.wait_until(false);
    let all = server.post("sql?format=json", "SELECT range AS number FROM range(100000)").json();
    assert_eq!((all.as_array().map(Vec::len), &all[99_999]["number"]), (Some(100_000), &json!(99_999)));
    assert_eq!(server.post("sql?format=table", "SELECT 1").status, 400);
    assert_eq!(server.post("sql?format=csv", "SELECT nothing").status, 400);
}

#[test]
fn connections_without_end_leave_the_processor_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    std::fs::create_dir(&run).expect("a folder");
    record(&Scenario { packets: 1_000, hosts: 10, ..Scenario::default() }, &run.join(provenance::FOLDER))
        .expect("a record");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 64; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_gnomon-view")]);
    let server = serve(folder, run, command);
    server.wait_until_ready();
    let open = || TcpStream::connect(("127.0.0.1", server.port)).expect("a connection");
    let connections: Vec<TcpStream> = (0..100).map(|_| open()).collect();
    server.wait_until(false);
    drop(connections);
    assert_eq!(server.get("about").status, 200);
}

#[test]
fn a_broken_record_is_told_in_place_of_an_address() {
    let (folder, run) = records::of_every_fate();
    records::truncate(&run, "sent");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gnomon-view"));
    let output = command.arg("serve").arg(&run).arg("0").output().expect("the program");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{told}");
    assert!(told.starts_with("gnomon: ") && told.contains("sent"), "{told}");
    drop(folder);
}

#[test]
fn a_packets_story_goes_over_hosts() {
    let server = server();
    // A packet in the middle: written because of a read, and read before a write.
    let sql = "SELECT s.packet FROM sent s JOIN received r USING (packet) JOIN writes w ON w.stream = s.stream AND w.\"offset\" <= s.\"offset\" AND \
               w.\"offset\" + w.bytes >= s.\"offset\" + s.payload JOIN causes c ON c.write = w.write JOIN causes d ON d.read = r.read \
               WHERE s.protocol = 6 AND s.payload > 0 AND r.fate = 'read' LIMIT 1";
    let answer = server.post("sql", sql).json();
    let packet = answer["rows"][0][0].as_str().expect("a packet").to_owned();
    let story = server.get(&format!("packet?packet={packet}")).json();
    assert_eq!(story["packet"]["packet"], packet.as_str());
    let before = story["before"].as_array().expect("a list");
    let after = story["after"].as_array().expect("a list");
    assert!(!before.is_empty() && !after.is_empty(), "{story}");
    // What came before was read at the host that sent this one.
    assert_eq!(before.last().expect("one")["packet"]["host"], story["packet"]["from_host"]);
    assert_eq!(after[0]["packet"]["from_host"], story["packet"]["host"]);
    assert_eq!(server.get("packet?packet=18446744073709551615").status, 400);
    let memory = server.get("memory").json();
    let bytes = |part: &Value| part[1].as_u64().unwrap_or(0);
    let written: u64 = memory["parts"].as_array().expect("parts").iter().map(bytes).sum();
    let sum = server.post("sql", "SELECT sum(bytes) FROM writes WHERE address > 0").json();
    assert_eq!(sum["rows"][0][0], written.to_string());
    // The same safeguards as on the command line.
    assert_eq!(server.post("sql", "COPY (SELECT 1) TO 'x'").status, 400);
    assert_eq!(server.post("sql", "SELECT * FROM read_text('/etc/passwd')").status, 400);
    assert_eq!(server.post("sql?format=csv", "SELECT 1 AS x").body, b"x\n1\n");
}

#[test]
fn what_leaked_from_a_range_is_told() {
    let server = server();
    let question =
        "SELECT printf('%x', address) AS address, bytes, stream FROM writes WHERE bytes > 16 ORDER BY write LIMIT 1";
    let row = server.post("sql", question).json()["rows"][0].clone();
    let (address, bytes) = (row[0].as_str().expect("an address"), row[1].as_str().expect("a number"));
    let told = server.get(&format!("leak?range=0x{address}+{bytes}")).json();
    assert!(
        told["packet_count"].as_u64().expect("a number") > 0 && told["from"][0]["bytes"].as_u64() > Some(0),
        "{told}"
    );
    let (packet, arrival) = (&told["packets"][0], &told["read_by"][0]);
    assert!(packet["packet"].as_str().expect("a number").parse::<u64>().is_ok(), "{packet}");
    assert!(arrival["hop"] == 1 && arrival["address"].as_str().expect("an address").starts_with("0x"), "{arrival}");
    assert!(server.get("leak?range=0x1+8").json()["from"].as_array().expect("a list").is_empty());
    assert_eq!(server.get("leak?range=nonsense").status, 400);
}

#[test]
fn a_page_is_one_file() {
    let server = server();
    let out = server.run.with_file_name("page.html");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gnomon-view"));
    let output = command.arg("page").arg(&server.run).arg(&out).output().expect("the program");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&out).expect("a page");
    assert!(text.contains("relay3") && !text.contains("src=\"") && !text.contains("<link rel=\"stylesheet\""));
    assert!(text.len() < 4 << 20, "{} bytes", text.len());
}

/// The compiler's strict checks, which the bundler leaves out.
#[test]
fn the_pages_sources_have_right_types() {
    let compiler = std::path::Path::new(env!("VIEW_NODE_MODULES")).join("@typescript/typescript-linux-x64/lib/tsc");
    let output = Command::new(compiler).args(["-p", env!("CARGO_MANIFEST_DIR")]).output().expect("the compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
