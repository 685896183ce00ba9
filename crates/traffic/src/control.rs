//! Tor's control protocol (torspec: control-spec), as far as it takes to authenticate and to be told events. No I/O: bytes go in,
//! bytes and events come out.

pub mod circuits;

/// An asynchronous event, such as "CIRC" with what stands behind the word; or, once events come, a reply to what was said besides, by
/// its status ("250", "552"), and a line of its data ([`DATA`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub name: String,
    pub text: String,
}

/// What events are called that are lines of a reply's data.
pub const DATA: &str = "data";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Asked how to authenticate.
    Asked,
    Authenticating,
    Subscribing,
    Ready,
}

/// One connection to a control port.
pub struct Control {
    state: State,
    password: Option<String>,
    /// Events to subscribe to.
    events: String,
    inbox: Vec<u8>,
    /// What the port said about authentication.
    methods: Vec<String>,
    cookie_file: Option<String>,
    /// Inside data, which ends with a line of one dot; of a reply, or of an event.
    in_data: bool,
    of_reply: bool,
}

/// A line is never longer; circuits' paths are a few hundred bytes.
const LONGEST_LINE: usize = 256 << 10;

impl Control {
    /// The first message, and the connection. `events` are names with spaces between them.
    pub fn begin(events: String, password: Option<String>) -> (String, Self) {
        let control = Control {
            state: State::Asked,
            password,
            events,
            inbox: Vec::new(),
            methods: Vec::new(),
            cookie_file: None,
            in_data: false,
            of_reply: false,
        };
        ("PROTOCOLINFO 1\r\n".into(), control)
    }

    pub fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// Takes what came. Appends what is to be sent and what has happened. The error ends the connection; it says what to do.
    pub fn arrived(&mut self, bytes: &[u8], send: &mut String, events: &mut Vec<Event>) -> Result<(), String> {
        self.inbox.extend_from_slice(bytes);
        let mut start = 0;
        while let Some(length) = self.inbox[start..].iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(&self.inbox[start..start + length]).trim_end().to_owned();
            start += length + 1;
            self.line(&line, send, events)?;
        }
        self.inbox.drain(..start);
        match self.inbox.len() {
            0..=LONGEST_LINE => Ok(()),
            _ => Err("a line without end; this is no control port".into()),
        }
    }

    fn line(&mut self, line: &str, send: &mut String, events: &mut Vec<Event>) -> Result<(), String> {
        if self.in_data {
            self.in_data = line != ".";
            if self.in_data && self.of_reply && self.is_ready() {
                events.push(Event { name: DATA.into(), text: line.into() });
            }
            return Ok(());
        }
        let (Some(status), Some(separator), Some(text)) = (line.get(..3), line.get(3..4), line.get(4..)) else {
            return Err(format!("'{line}' is no reply of a control port"));
        };
        self.in_data = separator == "+";
        self.of_reply = status != "650";
        match (status, separator) {
            ("650", _) => {
                let (name, text) = text.split_once(' ').unwrap_or((text, ""));
                events.push(Event { name: name.into(), text: text.into() });
                Ok(())
            }
            (_, " ") if self.is_ready() => {
                events.push(Event { name: status.into(), text: text.into() });
                Ok(())
            }
            ("250", "-") => {
                self.information(text);
                Ok(())
            }
            ("250", " ") => self.succeeded(send),
            ("250", _) => Ok(()),
            _ => Err(self.refusal(text)),
        }
    }

    fn refusal(&self, text: &str) -> String {
        match self.state {
            State::Authenticating => format!("the control port refused to authenticate: {text}"),
            State::Subscribing => format!("the control port refused to send the events '{}': {text}", self.events),
            _ => format!("the control port said: {text}"),
        }
    }

    /// A line of the reply to PROTOCOLINFO (control-spec, section 3.21).
    fn information(&mut self, text: &str) {
        let Some(auth) = text.strip_prefix("AUTH ") else { return };
        let keywords = keywords(auth);
        let value = |name: &str| keywords.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        self.methods = value("METHODS").unwrap_or_default().split(',').map(str::to_owned).collect();
        self.cookie_file = value("COOKIEFILE");
    }

    fn succeeded(&mut self, send: &mut String) -> Result<(), String> {
        match self.state {
            State::Asked => {
                send.push_str(&self.authenticate()?);
                self.state = State::Authenticating;
            }
            State::Authenticating => {
                send.push_str(&format!("SETEVENTS {}\r\n", self.events));
                self.state = State::Subscribing;
            }
            State::Subscribing => self.state = State::Ready,
            State::Ready => {}
        }
        Ok(())
    }

    /// The strongest way that is open: a given password, no secret at all, or the cookie that lies in a file.
    fn authenticate(&self) -> Result<String, String> {
        let offers = |method: &str| self.methods.iter().any(|m| m == method);
        if let Some(password) = self.password.as_ref().filter(|_| offers("HASHEDPASSWORD")) {
            let quoted = password.replace('\\', "\\\\").replace('"', "\\\"");
            return Ok(format!("AUTHENTICATE \"{quoted}\"\r\n"));
        }
        if offers("NULL") {
            return Ok("AUTHENTICATE\r\n".into());
        }
        match &self.cookie_file {
            Some(file) if offers("COOKIE") => {
                let cookie = std::fs::read(file).map_err(|error| format!("cannot read the cookie {file}: {error}"))?;
                let hex: String = cookie.iter().map(|byte| format!("{byte:02x}")).collect();
                Ok(format!("AUTHENTICATE {hex}\r\n"))
            }
            _ => Err(format!(
                "the control port wants one of {}; give a password, or set 'CookieAuthentication 1' in torrc",
                self.methods.join(", ")
            )),
        }
    }
}

/// KEY=VALUE words, values possibly in double quotes with backslash escapes.
fn keywords(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some((key, after)) = rest.split_once('=') {
        let key = key.rsplit(' ').next().unwrap_or(key).to_owned();
        let (value, length) = match after.strip_prefix('"') {
            Some(quoted) => unquote(quoted),
            None => {
                let end = after.find(' ').unwrap_or(after.len());
                (after[..end].to_owned(), end)
            }
        };
        found.push((key, value));
        rest = after[length..].trim_start();
    }
    found
}

/// The text up to the closing quote, and the bytes up to behind it, the opening quote included.
fn unquote(quoted: &str) -> (String, usize) {
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, at + 2),
            '\\' => value.extend(chars.next().map(|(_, c)| c)),
            c => value.push(c),
        }
    }
    (value, quoted.len() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(control: &mut Control, text: &str) -> Result<(String, Vec<Event>), String> {
        let (mut send, mut events) = (String::new(), Vec::new());
        for byte in text.as_bytes() {
            control.arrived(&[*byte], &mut send, &mut events)?;
        }
        Ok((send, events))
    }

    #[test]
    fn a_session_with_a_cookie() {
        let folder = tempfile::tempdir().expect("a folder");
        let cookie = folder.path().join("control \"cookie\"");
        std::fs::write(&cookie, [0xab; 32]).expect("a cookie");
        let (hello, mut control) = Control::begin("CIRC BW".into(), None);
        assert_eq!(hello, "PROTOCOLINFO 1\r\n");
        let quoted = cookie.display().to_string().replace('"', "\\\"");
        let reply = format!(
            "250-PROTOCOLINFO 1\r\n250-AUTH METHODS=COOKIE,SAFECOOKIE COOKIEFILE=\"{quoted}\"\r\n250-VERSION Tor=\"0.4.9.1\"\r\n250 OK\r\n"
        );
        let (send, _) = feed(&mut control, &reply).expect("a reply");
        assert_eq!(send, format!("AUTHENTICATE {}\r\n", "ab".repeat(32)));
        assert_eq!(feed(&mut control, "250 OK\r\n").expect("a reply").0, "SETEVENTS CIRC BW\r\n");
        assert!(!control.is_ready());
        let (send, events) =
            feed(&mut control, "250 OK\r\n650 BW 12 34\r\n650+NS\r\nr data\r\n650 BW 1 1\r\n.\r\n650 OK\r\n")
                .expect("events");
        assert!(control.is_ready() && send.is_empty());
        let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
        assert_eq!(names, ["BW", "NS", "OK"]);
        assert_eq!(events[0].text, "12 34");
    }

    #[test]
    fn replies_come_with_their_data_once_events_come() {
        let (_, mut control) = Control::begin("CIRC".into(), None);
        feed(&mut control, "250-AUTH METHODS=NULL\r\n250 OK\r\n250 OK\r\n250 OK\r\n").expect("replies");
        let replies = "250+ns/all=\r\nr one\r\ns Running\r\n.\r\n250 OK\r\n552 No such router\r\n";
        let (_, events) = feed(&mut control, replies).expect("replies");
        let told: Vec<(&str, &str)> = events.iter().map(|event| (event.name.as_str(), event.text.as_str())).collect();
        assert_eq!(told, [(DATA, "r one"), (DATA, "s Running"), ("250", "OK"), ("552", "No such router")]);
    }

    #[test]
    fn refusals_say_what_to_do() {
        let (_, mut control) = Control::begin("CIRC".into(), None);
        let reply = "250-AUTH METHODS=HASHEDPASSWORD\r\n250 OK\r\n";
        assert!(feed(&mut control, reply).expect_err("no password").contains("give a password"));
        let (_, mut control) = Control::begin("CIRC".into(), Some("a\"b".into()));
        assert_eq!(feed(&mut control, reply).expect("a reply").0, "AUTHENTICATE \"a\\\"b\"\r\n");
        assert!(
            feed(&mut control, "515 Bad authentication\r\n").expect_err("wrong").contains("refused to authenticate")
        );
        let (_, mut control) = Control::begin("CIRC".into(), None);
        assert!(feed(&mut control, "HTTP/1.1 400 Bad Request\r\n").is_err());
        let (_, mut control) = Control::begin("CIRC".into(), None);
        assert_eq!(feed(&mut control, "250-AUTH METHODS=NULL\r\n250 OK\r\n").expect("a reply").0, "AUTHENTICATE\r\n");
    }
}
