//! The program as a child process, and a SOCKS5 proxy in a thread.

#![allow(dead_code)]

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_gnomon-traffic");

/// A server on a port of its own; it ends with the value.
pub struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
    pub address: String,
}

impl Server {
    pub fn start(options: &[&str]) -> Self {
        let mut child = Command::new(PROGRAM)
            .args(["server", "--listen", "127.0.0.1:0", "--log"])
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let start = line(&mut stdout);
        let address = start["listen"][0].as_str().expect("an address").to_owned();
        Server { child, stdout, address }
    }

    pub fn port(&self) -> &str {
        self.address.rsplit(':').next().expect("a port")
    }

    /// The next line of its log.
    pub fn line(&mut self) -> Value {
        line(&mut self.stdout)
    }

    /// Asks it to end, and returns what it still said, and its exit status.
    pub fn end(mut self) -> (Vec<Value>, Option<i32>) {
        terminate(&self.child);
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).expect("output");
        (lines(&text), self.child.wait().expect("an end").code())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn terminate(child: &Child) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
}

fn line(stdout: &mut impl BufRead) -> Value {
    let mut text = String::new();
    stdout.read_line(&mut text).expect("a line");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("'{text}': {error}"))
}

pub fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("'{line}': {error}"))).collect()
}

/// What a run of the program left.
pub struct Run {
    pub lines: Vec<Value>,
    pub status: Option<i32>,
    pub stderr: String,
}

impl Run {
    pub fn of_kind(&self, kind: &str) -> Vec<&Value> {
        self.lines.iter().filter(|line| line["kind"] == kind).collect()
    }

    pub fn transfers(&self) -> Vec<&Value> {
        self.of_kind("transfer")
    }

    /// The only transfer.
    pub fn transfer(&self) -> &Value {
        match self.transfers()[..] {
            [transfer] => transfer,
            ref others => panic!("{} transfers: {others:?}; {}", others.len(), self.stderr),
        }
    }
}

pub fn run(args: &[&str]) -> Run {
    finished(Command::new(PROGRAM).args(args).output().expect("the program"))
}

pub fn finished(output: Output) -> Run {
    Run {
        lines: lines(&String::from_utf8(output.stdout).expect("UTF-8")),
        status: output.status.code(),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// Runs a client with options alone.
pub fn client(args: &[&str]) -> Run {
    run(&[&["client"], args].concat())
}

/// Runs a client with a configuration, written to `folder`.
pub fn client_with(folder: &Path, config: &str) -> Run {
    let file = folder.join("client.yaml");
    std::fs::write(&file, config).expect("a file");
    client(&[file.to_str().expect("UTF-8")])
}

/// What a proxy does with the connections that it is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    Forward,
    /// Changes the last byte of all that passes to the client.
    Corrupt,
    /// Answers CONNECT with this code.
    Refuse(u8),
    /// Ends the connection after so many bytes to the client.
    CutAfter(usize),
    /// Says nothing after CONNECT.
    Hang,
    /// Accepts no credentials.
    NoCredentials,
}

/// One CONNECT: host as it was given, port, user name and password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub host: String,
    pub port: u16,
    pub credentials: Option<(String, String)>,
}

/// A SOCKS5 proxy. Names are looked up here, except that each ending with ".onion" is the host 127.0.0.1.
pub struct Proxy {
    pub address: String,
    pub asked: Arc<Mutex<Vec<Asked>>>,
}

impl Proxy {
    /// `manner` is asked for each connection, with its number from 0.
    pub fn start(manner: impl Fn(usize) -> Manner + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        thread::spawn(move || {
            for (number, socket) in listener.incoming().enumerate() {
                let (log, manner) = (log.clone(), manner(number));
                thread::spawn(move || serve(socket.expect("a connection"), manner, &log));
            }
        });
        Proxy { address, asked }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no panic").clone()
    }
}

/// `None` where the client goes away.
fn serve(mut client: TcpStream, manner: Manner, log: &Mutex<Vec<Asked>>) -> Option<()> {
    let asked = negotiate(&mut client, manner)?;
    let host = if asked.host.ends_with(".onion") { "127.0.0.1".into() } else { asked.host.clone() };
    let port = asked.port;
    log.lock().expect("no panic").push(asked);
    match manner {
        Manner::Refuse(code) => {
            client.write_all(&[5, code, 0, 1, 0, 0, 0, 0, 0, 0]).ok()?;
            return Some(());
        }
        Manner::Hang => {
            let _ = client.read(&mut [0; 1]);
            return None;
        }
        _ => {}
    }
    let Ok(mut server) = TcpStream::connect((host.as_str(), port)) else {
        return client.write_all(&[5, 5, 0, 1, 0, 0, 0, 0, 0, 0]).ok();
    };
    client.write_all(&[5, 0, 0, 1, 127, 0, 0, 1, 0, 1]).ok()?;
    let (mut from_client, mut to_server) = (client.try_clone().ok()?, server.try_clone().ok()?);
    thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let mut passed = 0;
    let mut buffer = [0; 4096];
    loop {
        let mut length = server.read(&mut buffer).ok().filter(|length| *length > 0)?;
        if let Manner::CutAfter(limit) = manner {
            length = length.min(limit - passed);
        }
        if manner == Manner::Corrupt && passed > 1000 {
            buffer[length - 1] ^= 1;
        }
        passed += length;
        client.write_all(&buffer[..length]).ok()?;
        if manner == Manner::CutAfter(passed) {
            let _ = server.shutdown(Shutdown::Both);
            let _ = client.shutdown(Shutdown::Both);
            return None;
        }
    }
}

fn bytes(client: &mut TcpStream, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    client.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

fn text(client: &mut TcpStream) -> Option<String> {
    let length = bytes(client, 1)?[0].into();
    String::from_utf8(bytes(client, length)?).ok()
}

fn negotiate(client: &mut TcpStream, manner: Manner) -> Option<Asked> {
    let [5, count] = bytes(client, 2)?[..] else { return None };
    let methods = bytes(client, count.into())?;
    if manner == Manner::NoCredentials && !methods.contains(&0) {
        client.write_all(&[5, 0xff]).ok()?;
        return None;
    }
    client.write_all(&[5, methods[0]]).ok()?;
    let mut credentials = None;
    if methods[0] == 2 {
        assert_eq!(bytes(client, 1)?, [1]);
        credentials = Some((text(client)?, text(client)?));
        client.write_all(&[1, 0]).ok()?;
    }
    let kind = bytes(client, 4)?[3];
    let host = match kind {
        1 => <[u8; 4]>::try_from(bytes(client, 4)?).ok().map(|octets| std::net::Ipv4Addr::from(octets).to_string())?,
        3 => text(client)?,
        _ => {
            <[u8; 16]>::try_from(bytes(client, 16)?).ok().map(|octets| std::net::Ipv6Addr::from(octets).to_string())?
        }
    };
    let port = u16::from_be_bytes(bytes(client, 2)?.try_into().ok()?);
    Some(Asked { host, port, credentials })
}

/// A port on which nothing listens.
pub fn closed_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address")
}

/// A port whose connections are served by `serve`, one after the other.
pub fn serve_with(serve: impl Fn(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || listener.incoming().for_each(|socket| serve(socket.expect("a connection"))));
    address
}
