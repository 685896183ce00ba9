//! The page's server: on this machine only, for whoever knows the address that was printed.
//!
//! Every path begins with a random token. Requests for another host's name are refused, lest a foreign page reach it through a name that resolves to this machine, and so
//! are those that come from another page.

use crate::brush::Brush;
use crate::columns::Columns;
use crate::error::{Error, Result};
use crate::formats::Format;
use crate::record::{Record, batches};
use crate::reply::{Answered, Work};
use crate::{hexadecimal, leak, memory, packet, page, picture, query};
use duckdb::Connection;
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
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// The longest question.
const LONGEST_BODY: usize = 1 << 20;
/// Rows that the page shows of an answer.
const SHOWN_ROWS: usize = 500;
/// Connections at a time.
const CONNECTIONS: usize = 256;
/// How long none is taken after one that could not be.
const REST: Duration = Duration::from_millis(50);

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

/// The server of a run's page.
pub struct Server {
    listener: TcpListener,
    app: Arc<App>,
}

impl Server {
    /// # Errors
    /// When the record cannot be read.
    pub fn new(door: Door, record: Record) -> Result<Server> {
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
        Ok(Server { listener: door.listener, app: Arc::new(app) })
    }

    /// Serves the page until the process ends.
    ///
    /// # Errors
    /// When the machine has no room for its threads.
    pub fn serve(self) -> Result<()> {
        let reader = Arc::clone(&self.app);
        std::thread::spawn(move || {
            let _ = reader.columns.set(reader.load().map_err(|error| error.to_string()));
        });
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(self.accept())
    }

    async fn accept(self) -> Result<()> {
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let place = Arc::clone(&places).acquire_owned().await.expect("nobody closes it");
            let Ok((stream, _)) = listener.accept().await else {
                // It broke at once, which is the browser's matter; or the process has no more descriptors, and the next would fail, too.
                tokio::time::sleep(REST).await;
                continue;
            };
            let app = Arc::clone(&self.app);
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let app = Arc::clone(&app);
                    async move { Ok::<_, std::convert::Infallible>(respond(app, request).await) }
                });
                let mut http = http1::Builder::new();
                http.timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(60));
                let _ = http.serve_connection(TokioIo::new(stream), service).await;
                drop(place);
            });
        }
    }
}

/// What is answered: a kind, and bytes.
type Answer = Result<(&'static str, Vec<u8>)>;

async fn respond(app: Arc<App>, request: Request<Incoming>) -> Response<Answered> {
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
    let connection = match app.record().connect() {
        Ok(connection) => connection,
        Err(error) => return refusal(&error),
    };
    if let (&Method::POST, "sql", Some(format)) = (&parts.method, path.as_str(), parameter(&asked, "format")) {
        return match file(connection, &body, format).await {
            Ok(body) => response(StatusCode::OK, "application/octet-stream", body),
            Err(error) => refusal(&error),
        };
    }
    // Sums and questions take a thread for a while.
    let work = Work::begin(connection, move |connection| app.answer(connection, &parts.method, &path, &asked, &body));
    match work.end().await {
        Some(Some(Ok((kind, bytes)))) => reply(StatusCode::OK, kind, bytes),
        Some(Some(Err(error))) => refusal(&error),
        Some(None) => reply(StatusCode::NOT_FOUND, "text/plain", b"There is no such page.\n".to_vec()),
        None => reply(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", b"The server has a mistake.\n".to_vec()),
    }
}

/// The answer to a question of the page's box as a file, however long.
async fn file(connection: Connection, body: &[u8], format: &str) -> Result<Answered> {
    let sql = question(body)?.to_owned();
    let format: Format = format.parse()?;
    if format == Format::Table {
        return Err(Error::new("tables are for terminals: csv, json, arrow, parquet"));
    }
    Answered::parts(connection, move |connection, parts| query::answer(connection, &sql, format, parts)).await
}

fn question(body: &[u8]) -> Result<&str> {
    std::str::from_utf8(body).map_err(|_| Error::new("the question is no UTF-8"))
}

/// A parameter behind a path.
fn parameter<'a>(asked: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = asked.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

fn refusal(error: &Error) -> Response<Answered> {
    reply(StatusCode::BAD_REQUEST, "text/plain; charset=utf-8", error.to_string().into_bytes())
}

fn reply(status: StatusCode, kind: &'static str, bytes: Vec<u8>) -> Response<Answered> {
    response(status, kind, Answered::Whole(Full::new(Bytes::from(bytes))))
}

fn response(status: StatusCode, kind: &'static str, body: Answered) -> Response<Answered> {
    let mut response = Response::new(body);
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

    fn answer(&self, connection: &Connection, method: &Method, path: &str, asked: &str, body: &[u8]) -> Option<Answer> {
        const JSON: &str = "application/json";
        let parameter = |name: &str| parameter(asked, name);
        let number = |name: &str| parameter(name).and_then(|value| value.parse::<u64>().ok());
        let told = |value: Result<Value>| value.map(|value| (JSON, value.to_string().into_bytes()));
        Some(match (method, path) {
            (&Method::GET, "") => Ok(("text/html; charset=utf-8", page::served().into_bytes())),
            (&Method::GET, "page.js") => Ok(("text/javascript; charset=utf-8", page::SCRIPT.into())),
            (&Method::GET, "page.css") => Ok(("text/css; charset=utf-8", page::STYLE.into())),
            (&Method::GET, "about") => told(Ok(self.about.clone())),
            (&Method::GET, "ready") => told(self.ready()),
            (&Method::GET, "first") => self.first(connection),
            (&Method::POST, "brush") => self.brush(body),
            (&Method::GET, "packet") => told(packet::story(connection, number("packet").unwrap_or(0))),
            (&Method::GET, "memory") => {
                let base = parameter("base").and_then(|base| u64::from_str_radix(base, 16).ok()).unwrap_or(0);
                let bits = number("bits").unwrap_or(0).min(64) as u32;
                let between = (number("from").unwrap_or(0), number("to").unwrap_or(u64::MAX));
                told(memory::map(connection, base, bits, between))
            }
            (&Method::GET, "leak") => {
                let run = self.record().run().to_path_buf();
                told(leak::told(&run, parameter("range").unwrap_or_default(), parameter("sure") == Some("true")))
            }
            (&Method::POST, "sql") => question(body).and_then(|sql| shown(connection, sql)),
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

    fn first(&self, connection: &Connection) -> Answer {
        let picture = picture::of_summary(connection, &self.about);
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
}

/// The first rows of the answer to a question of the page's box.
fn shown(connection: &Connection, sql: &str) -> Answer {
    let sql = query::admit(connection, sql)?;
    let mut statement = connection.prepare(&sql)?;
    let (schema, batches) = batches(&mut statement)?;
    let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut more = false;
    'all: for batch in batches {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            if rows.len() == SHOWN_ROWS {
                more = true;
                break 'all;
            }
            rows.push(hexadecimal::cells(&batch, row).collect());
        }
    }
    Ok(("application/json", json!({ "columns": names, "rows": rows, "more": more }).to_string().into_bytes()))
}
