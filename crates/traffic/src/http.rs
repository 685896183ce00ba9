//! The part of HTTP/1.1 (RFC 9112) that client and server need of each other's heads.

/// The name under which a connection becomes a Markov stream.
pub const STREAM_PROTOCOL: &str = "gnomon-stream/1";

/// Header fields of one head, at most.
const MAX_FIELDS: usize = 48;

/// A response's head.
#[derive(Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub reason: String,
    pub content_length: Option<u64>,
    pub head_bytes: usize,
}

/// Reads the head at the beginning of `bytes`; `None` while it is incomplete.
pub fn response(bytes: &[u8]) -> Result<Option<Response>, String> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut head = httparse::Response::new(&mut fields);
    match head.parse(bytes) {
        Err(error) => Err(format!("not an HTTP response: {error}")),
        Ok(httparse::Status::Partial) => Ok(None),
        Ok(httparse::Status::Complete(head_bytes)) => Ok(Some(Response {
            status: head.code.unwrap_or(0),
            reason: head.reason.unwrap_or_default().into(),
            content_length: content_length(head.headers)?,
            head_bytes,
        })),
    }
}

/// How a request's body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    Length(u64),
    Chunked,
}

/// A request's head.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    /// Without the query.
    pub path: String,
    pub seed: Option<u64>,
    pub body: Body,
    /// The client waits for "100 Continue" before it sends the body.
    pub expects_continue: bool,
    pub keep_alive: bool,
    /// The client wants the connection to become a Markov stream.
    pub wants_stream: bool,
    pub head_bytes: usize,
}

/// Reads the head at the beginning of `bytes`; `None` while it is incomplete. The error is what to tell the client.
pub fn request(bytes: &[u8]) -> Result<Option<Request>, String> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut head = httparse::Request::new(&mut fields);
    let head_bytes = match head.parse(bytes) {
        Err(error) => return Err(format!("not an HTTP request: {error}")),
        Ok(httparse::Status::Partial) => return Ok(None),
        Ok(httparse::Status::Complete(length)) => length,
    };
    let (path, query) = match head.path.unwrap_or("/").split_once('?') {
        Some((path, query)) => (path, query),
        None => (head.path.unwrap_or("/"), ""),
    };
    let has = |name: &str, word: &str| {
        let values = head.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        let mut words = values.flat_map(|field| field.value.split(|byte| *byte == b','));
        words.any(|value| value.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
    };
    let body = match has("transfer-encoding", "chunked") {
        true => Body::Chunked,
        false => Body::Length(content_length(head.headers)?.unwrap_or(0)),
    };
    Ok(Some(Request {
        method: head.method.unwrap_or_default().into(),
        path: path.into(),
        seed: seed(query)?,
        body,
        expects_continue: has("expect", "100-continue"),
        keep_alive: head.version == Some(1) && !has("connection", "close"),
        wants_stream: has("upgrade", STREAM_PROTOCOL),
        head_bytes,
    }))
}

fn seed(query: &str) -> Result<Option<u64>, String> {
    let value = query.split('&').find_map(|part| part.strip_prefix("seed="));
    let wrong = |_| "the seed is no whole number below 2^64".to_owned();
    value.map(|value| value.parse().map_err(wrong)).transpose()
}

fn content_length(fields: &[httparse::Header]) -> Result<Option<u64>, String> {
    let Some(field) = fields.iter().find(|field| field.name.eq_ignore_ascii_case("content-length")) else {
        return Ok(None);
    };
    let text = str::from_utf8(field.value).unwrap_or_default().trim();
    match text.parse() {
        Ok(length) if text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(Some(length)),
        _ => Err("the Content-Length is no number".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_curl_are_understood() {
        let text = b"PUT /upload?x=1&seed=77 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\nrest";
        let request = request(text).expect("valid").expect("complete");
        assert_eq!((request.method.as_str(), request.path.as_str()), ("PUT", "/upload"));
        assert_eq!((request.seed, request.body, request.head_bytes), (Some(77), Body::Chunked, text.len() - 4));
        assert!(request.expects_continue && request.keep_alive && !request.wants_stream);
    }

    #[test]
    fn heads_may_be_incomplete_or_wrong() {
        let text = b"GET / HTTP/1.0\r\nConnection: Upgrade, close\r\nUpgrade: gnomon-stream/1\r\n\r\n";
        for length in 0..text.len() {
            assert_eq!(request(&text[..length]), Ok(None), "{length}");
        }
        let head = request(text).expect("valid").expect("complete");
        assert!(head.wants_stream && !head.keep_alive);
        for wrong in [
            "GET /\r\n\r\n",
            "GET /?seed=x HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
            "\x16\x03\x01",
        ] {
            assert!(request(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(response(b"SSH-2.0-OpenSSH\r\n\r\n").is_err());
        let answer =
            response(b"HTTP/1.1 404 Not Found\r\ncontent-length: 12\r\n\r\n").expect("valid").expect("complete");
        assert_eq!((answer.status, answer.reason.as_str(), answer.content_length), (404, "Not Found", Some(12)));
    }
}
