//! A browser, by the few commands of WebDriver that the tests need.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The key of the answer in which WebDriver names an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Chromium without a window, and the driver that it listens to.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.request("DELETE", &format!("/session/{}", self.session), None);
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// A program in PATH.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

impl Browser {
    /// None where this machine has no chromium with its driver; under CI that is a failure.
    pub fn start() -> Option<Browser> {
        let (Some(driver), Some(chromium)) = (find("chromedriver"), find("chromium")) else {
            assert!(std::env::var_os("CI").is_none(), "chromium and chromium-driver are missing");
            println!("left out: chromium or chromium-driver is missing");
            return None;
        };
        let mut driver = Command::new(driver).arg("--port=0").stdout(Stdio::piped()).spawn().expect("the driver");
        let mut lines = BufReader::new(driver.stdout.take().expect("a pipe")).lines();
        let port = loop {
            let line = lines.next().expect("the driver tells its port").expect("UTF-8");
            if let Some((_, port)) = line.split_once("started successfully on port ") {
                break port.trim_end_matches('.').parse().expect("a port");
            }
        };
        // The driver must always find somebody who reads what it says.
        std::thread::spawn(move || lines.for_each(drop));
        let mut browser = Browser { driver, port, session: String::new() };
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--window-size=1440,1000",
            "--disable-gpu",
            "--force-device-scale-factor=1",
        ];
        let options = json!({ "binary": chromium, "args": arguments });
        let wanted = json!({ "capabilities": { "alwaysMatch": { "goog:chromeOptions": options } } });
        let told = browser.request("POST", "/session", Some(wanted));
        browser.session = told["sessionId"].as_str().unwrap_or_else(|| panic!("{told}")).to_owned();
        Some(browser)
    }

    fn request(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let body = body.map_or_else(String::new, |body| body.to_string());
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the driver");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.port,
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).expect("a command");
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).expect("a head");
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().expect("a length");
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer).expect("an answer");
        let mut answer: Value = serde_json::from_slice(&answer).expect("JSON");
        answer["value"].take()
    }

    fn command(&self, method: &str, path: &str, body: Value) -> Value {
        let told =
            self.request(method, &format!("/session/{}/{path}", self.session), (method == "POST").then_some(body));
        assert!(told["error"].is_null(), "{path}: {told}");
        told
    }

    pub fn open(&self, address: &str) {
        self.command("POST", "url", json!({ "url": address }));
    }

    /// What JavaScript returns.
    pub fn script(&self, script: &str) -> Value {
        self.command("POST", "execute/sync", json!({ "script": script, "args": [] }))
    }

    /// Looks again until JavaScript returns something true.
    pub fn wait(&self, script: &str) -> Value {
        for _ in 0..20_000 {
            let told = self.script(&format!("return {script}"));
            if told != Value::Null && told != Value::Bool(false) {
                return told;
            }
        }
        panic!("never: {script}");
    }

    fn element(&self, selector: &str) -> Value {
        let found = self.command("POST", "element", json!({ "using": "css selector", "value": selector }));
        json!({ ELEMENT: found[ELEMENT] })
    }

    /// Presses at one point of an element, moves over the others and lets go at the last; points are shares of its width and height.
    pub fn drag(&self, selector: &str, points: &[(f64, f64)]) {
        self.script(&format!("document.querySelector('{selector}').scrollIntoView({{block: 'center'}})"));
        let size = self.script(&format!(
            "const box = document.querySelector('{selector}').getBoundingClientRect(); return [box.width, box.height]"
        ));
        let (width, height) = (size[0].as_f64().expect("a width"), size[1].as_f64().expect("a height"));
        let element = self.element(selector);
        let mut steps = Vec::new();
        for (place, (x, y)) in points.iter().enumerate() {
            let (x, y) = (((x - 0.5) * width).round(), ((y - 0.5) * height).round());
            steps.push(json!({ "type": "pointerMove", "duration": 0, "origin": element, "x": x, "y": y }));
            if place == 0 {
                steps.push(json!({ "type": "pointerDown", "button": 0 }));
            }
        }
        steps.push(json!({ "type": "pointerUp", "button": 0 }));
        self.command("POST", "actions", json!({ "actions": [{ "type": "pointer", "id": "mouse", "actions": steps }] }));
    }

    /// Clicks at a point, in pixels from the upper left corner.
    pub fn click(&self, selector: &str, x: f64, y: f64) {
        self.script(&format!("document.querySelector('{selector}').scrollIntoView({{block: 'center'}})"));
        let size = self.script(&format!(
            "const box = document.querySelector('{selector}').getBoundingClientRect(); return [box.width, box.height]"
        ));
        let share = |at: f64, size: &Value| at / size.as_f64().expect("a size");
        self.drag(selector, &[(share(x, &size[0]), share(y, &size[1]))]);
    }

    pub fn key(&self, selector: &str, key: &str) {
        self.script(&format!("document.querySelector('{selector}').focus()"));
        let steps = json!([{ "type": "keyDown", "value": key }, { "type": "keyUp", "value": key }]);
        self.command("POST", "actions", json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": steps }] }));
    }

    /// A picture of the page's upper part, as PNG.
    pub fn screenshot(&self, width: u32, height: u32) -> Vec<u8> {
        self.command("POST", "window/rect", json!({ "width": width, "height": height }));
        self.script("scrollTo(0, 0)");
        // Once what the new size has changed is drawn.
        self.command(
            "POST",
            "execute/async",
            json!({ "script": "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))", "args": [] }),
        );
        let told = self.command("GET", "screenshot", Value::Null);
        decode(told.as_str().expect("a picture"))
    }
}

/// Base64.
fn decode(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let value = |byte: u8| DIGITS.iter().position(|digit| *digit == byte).map(|place| place as u32);
    let mut bytes = Vec::new();
    for four in text.as_bytes().chunks(4) {
        let bits = four.iter().fold(0, |bits, byte| bits << 6 | value(*byte).unwrap_or(0));
        let count = four.iter().filter(|byte| **byte != b'=').count() - 1;
        bytes.extend(&bits.to_be_bytes()[1..1 + count]);
    }
    bytes
}
