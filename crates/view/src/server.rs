//! The page's server: on this machine only, for whoever knows the address that was printed.
//!
//! Every path begins with a random token. Requests for another host's name are refused, lest a foreign page reach it through a name that resolves to this machine, and so
//! are those that come from another page.

use crate::brush::Brush;
use crate::columns::Columns;
use crate::error::{Error, Result};
use crate::formats::Format;
use crate::record::Record;
use crate::{memory, packet, page, picture, query};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The longest question.
const LONGEST_BODY: usize = 1 << 20;
/// Rows that the page shows of an answer.
const SHOWN_ROWS: usize = 500;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// A socket that listens, and the token that requests must know.
pub struct Door {
    listener: TcpListener,
    token: String,
    port: u16,
}

impl Door {
    /// Opens a port of 127.0.0.1; 0 is any.
    ///
    /// # Errors
    /// When the port is taken.
    pub fn open(port: u16) -> Result<Door> {
        let listener = TcpListener::bind(("127.0.0.1", port)).map_err(|error| {
            Error::new(format!(
                "cannot listen on 127.0.0.1:{port}: {error}; choose another with --port, or none for any"
            ))
        })?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let mut random = [0u8; 16];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let token = random.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Door { listener, token, port })
    }

    /// Where a browser finds the page.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.port, self.token)
    }
}

struct App {
    token: String,
    port: u16,
    record: Mutex<Record>,
    about: Value,
    /// Whether the first picture is there: reading all packets would take the processors from it.
    begun: Mutex<bool>,
    beginning: Condvar,
    /// All packets, once they are read; or why they cannot be.
    columns: OnceLock<std::result::Result<Columns, String>>,
}

/// Serves the page of a run until the process ends.
///
/// # Errors
/// When the record cannot be read.
pub fn serve(door: Door, run: &Path) -> Result<()> {
    let record = Record::open(run)?;
    let about = picture::about(&record)?;
    let app = App {
        token: door.token,
        port: door.port,
        record: Mutex::new(record),
        about,
        begun: Mutex::new(false),
        beginning: Condvar::new(),
        columns: OnceLock::new(),
    };
    let app = Arc::new(app);
    let reader = Arc::clone(&app);
    std::thread::spawn(move || {
        let _ = reader.columns.set(reader.load().map_err(|error| error.to_string()));
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async move {
        let listener = tokio::net::TcpListener::from_std(door.listener)?;
        loop {
            // A connection that breaks at once is the browser's matter.
            let Ok((stream, _)) = listener.accept().await else { continue };
            let app = Arc::clone(&app);
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let app = Arc::clone(&app);
                    async move { Ok::<_, std::convert::Infallible>(respond(app, request).await) }
                });
                let mut http = http1::Builder::new();
                http.timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(60));
                let _ = http.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    })
}

/// What is answered: a kind, and bytes.
type Answer = Result<(&'static str, Vec<u8>)>;

async fn respond(app: Arc<App>, request: Request<Incoming>) -> Response<Full<Bytes>> {
    if !app.is_ours(request.headers()) {
        return reply(StatusCode::FORBIDDEN, "text/plain", b"This address is for one page only.\n".to_vec());
    }
    let (parts, body) = request.into_parts();
    let Some(path) = app.within(parts.uri.path()) else {
        return reply(
            StatusCode::FORBIDDEN,
            "text/plain",
            b"Open the address that 'gnomon view' has printed.\n".to_vec(),
        );
    };
    let (path, asked) = (path.to_owned(), parts.uri.query().unwrap_or_default().to_owned());
    let body = match Limited::new(body, LONGEST_BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => return reply(StatusCode::PAYLOAD_TOO_LARGE, "text/plain", b"The question is too long.\n".to_vec()),
    };
    // Sums and questions take a thread for a while.
    let answer = tokio::task::spawn_blocking(move || app.answer(&parts.method, &path, &asked, &body)).await;
    match answer {
        Ok(Some(Ok((kind, bytes)))) => reply(StatusCode::OK, kind, bytes),
        Ok(Some(Err(error))) => {
            reply(StatusCode::BAD_REQUEST, "text/plain; charset=utf-8", error.to_string().into_bytes())
        }
        Ok(None) => reply(StatusCode::NOT_FOUND, "text/plain", b"There is no such page.\n".to_vec()),
        Err(_) => reply(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", b"The server has a mistake.\n".to_vec()),
    }
}

fn reply(status: StatusCode, kind: &'static str, bytes: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(bytes)));
    *response.status_mut() = status;
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

impl App {
    /// Whether a request names this server as its host, and comes from no other page.
    fn is_ours(&self, headers: &HeaderMap) -> bool {
        let names = [format!("127.0.0.1:{}", self.port), format!("localhost:{}", self.port)];
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        let is_named = host.is_some_and(|host| names.iter().any(|name| name == host)) && hosts.next().is_none();
        let is_own = |origin: &HeaderValue| {
            origin.to_str().is_ok_and(|origin| names.iter().any(|name| origin == format!("http://{name}")))
        };
        is_named && headers.get_all(header::ORIGIN).iter().all(is_own)
    }

    /// The path behind the token.
    fn within<'a>(&self, path: &'a str) -> Option<&'a str> {
        let (token, rest) = path.strip_prefix('/')?.split_once('/')?;
        // All of it is looked at, so that the time taken tells nothing.
        let differ = token.bytes().zip(self.token.bytes()).fold(0, |all, (a, b)| all | a ^ b);
        (token.len() == self.token.len() && differ == 0).then_some(rest)
    }

    fn record(&self) -> std::sync::MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn load(&self) -> Result<Columns> {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        while !*begun {
            begun = self.beginning.wait(begun).unwrap_or_else(PoisonError::into_inner);
        }
        drop(begun);
        let record = self.record().another()?;
        Columns::load(&record)
    }

    fn answer(&self, method: &Method, path: &str, asked: &str, body: &[u8]) -> Option<Answer> {
        const JSON: &str = "application/json";
        let parameter = |name: &str| {
            asked
                .split('&')
                .filter_map(|pair| pair.split_once('='))
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value)
        };
        let number = |name: &str| parameter(name).and_then(|value| value.parse::<u64>().ok());
        let told = |value: Result<Value>| value.map(|value| (JSON, value.to_string().into_bytes()));
        Some(match (method, path) {
            (&Method::GET, "") => Ok(("text/html; charset=utf-8", page::served().into_bytes())),
            (&Method::GET, "page.js") => Ok(("text/javascript; charset=utf-8", page::SCRIPT.into())),
            (&Method::GET, "page.css") => Ok(("text/css; charset=utf-8", page::STYLE.into())),
            (&Method::GET, "about") => told(Ok(self.about.clone())),
            (&Method::GET, "ready") => told(self.ready()),
            (&Method::GET, "first") => self.first(),
            (&Method::POST, "brush") => self.brush(body),
            (&Method::GET, "packet") => told(self.packet(number("packet").unwrap_or(0))),
            (&Method::GET, "memory") => {
                let base = parameter("base").and_then(|base| u64::from_str_radix(base, 16).ok()).unwrap_or(0);
                let bits = number("bits").unwrap_or(0).min(64) as u32;
                let between = (number("from").unwrap_or(0), number("to").unwrap_or(u64::MAX));
                told(self.record().another().and_then(|record| memory::map(&record, base, bits, between)))
            }
            (&Method::POST, "sql") => self.sql(body, parameter("format")),
            _ => return None,
        })
    }

    fn ready(&self) -> Result<Value> {
        match self.columns.get() {
            None => Ok(json!({ "ready": false })),
            Some(Ok(columns)) => Ok(json!({ "ready": true, "packets": columns.len() })),
            Some(Err(error)) => Err(Error::new(error.clone())),
        }
    }

    fn first(&self) -> Answer {
        let record = self.record().another()?;
        let picture = picture::of_summary(&record, self.about["tick_ns"].as_u64().unwrap_or(1));
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.beginning.notify_all();
        let picture = picture?;
        Ok(("application/octet-stream", picture.bytes()))
    }

    fn brush(&self, body: &[u8]) -> Answer {
        let value = serde_json::from_slice(body).map_err(|error| Error::new(format!("no brush: {error}")))?;
        let brush = Brush::read(&value)?;
        let columns = match self.columns.get() {
            Some(Ok(columns)) => columns,
            Some(Err(error)) => return Err(Error::new(error.clone())),
            None => return Err(Error::new("packets are still being read")),
        };
        Ok(("application/octet-stream", picture::of_brush(columns, &brush).bytes()))
    }

    fn packet(&self, number: u64) -> Result<Value> {
        let connection = self.record().connect()?;
        packet::story(&connection, number)
    }

    /// A question of the page's box: its first rows, or all as a file.
    fn sql(&self, body: &[u8], format: Option<&str>) -> Answer {
        let sql = std::str::from_utf8(body).map_err(|_| Error::new("the question is no UTF-8"))?;
        let connection = self.record().connect()?;
        let Some(format) = format else { return shown(&connection, sql) };
        let format: Format = format.parse()?;
        let mut bytes = Vec::new();
        query::answer(&connection, sql, format, &mut bytes)?;
        Ok(("application/octet-stream", bytes))
    }
}

fn shown(connection: &duckdb::Connection, sql: &str) -> Answer {
    let sql = query::admit(connection, sql)?;
    let mut statement = connection.prepare(&sql)?;
    let batches = statement.stream_arrow([])?;
    let names: Vec<String> = batches.get_schema().fields().iter().map(|field| field.name().clone()).collect();
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut more = false;
    'all: for batch in batches {
        for row in 0..batch.num_rows() {
            if rows.len() == SHOWN_ROWS {
                more = true;
                break 'all;
            }
            rows.push(batch.columns().iter().map(|column| crate::json::text(column, row)).collect());
        }
    }
    Ok(("application/json", json!({ "columns": names, "rows": rows, "more": more }).to_string().into_bytes()))
}
