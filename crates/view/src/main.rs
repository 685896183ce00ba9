//! `gnomon-view`: started by `gnomon query` and `gnomon view`, which read the user's command line. Its own is theirs to it.

use std::io::{self, BufWriter, Stdout, Write};
use std::path::Path;
use std::process::ExitCode;
use view::server::{Door, Server};
use view::{Error, Format, Record, Result, confine, output, page as pages, query, record};

const USAGE: &str = "gnomon-view is started by 'gnomon query' and 'gnomon view': see 'gnomon help view'";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["serve", run, port] => serve(Path::new(run), port),
        ["page", run, "-"] => page(Path::new(run)),
        ["page", run, out] => output::write(out, &["page", run, "-"]),
        ["query", run, format, "-", sql] => answer(Path::new(run), format, sql),
        ["query", run, format, out, sql] => output::write(out, &["query", run, format, "-", sql]),
        _ => Err(Error::new(USAGE)),
    };
    done.unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "gnomon: {error}");
        ExitCode::from(2)
    })
}

/// Answers a question on standard output.
fn answer(run: &Path, format: &str, sql: &str) -> Result<ExitCode> {
    let format: Format = format.parse()?;
    confine::confine(&record::folder(run)?)?;
    let record = Record::open(run)?;
    print(|out| query::answer(&record.connect()?, sql, format, out))
}

/// Writes a run's page as one file on standard output.
fn page(run: &Path) -> Result<ExitCode> {
    confine::confine(&record::folder(run)?)?;
    let page = pages::whole(&Record::open(run)?)?;
    print(|out| Ok(out.write_all(page.as_bytes())?))
}

/// Shows a run in a browser, until the process ends.
fn serve(run: &Path, port: &str) -> Result<ExitCode> {
    let port = port.parse().map_err(|_| Error::new(format!("'{port}' is no port")))?;
    let folder = record::folder(run)?;
    let door = Door::open(port)?;
    confine::confine(&folder)?;
    let address = door.address();
    let server = Server::new(door, Record::open(run)?)?;
    writeln!(io::stdout(), "{address}")?;
    server.serve()?;
    Ok(ExitCode::SUCCESS)
}

/// Writes on standard output. That ends well, too, if its reader wants no more, as `head` does.
fn print(write: impl FnOnce(&mut BufWriter<Printed>) -> Result<()>) -> Result<ExitCode> {
    let mut out = BufWriter::new(Printed { to: io::stdout(), is_refused: false });
    let done = write(&mut out).and_then(|()| Ok(out.flush()?));
    if !out.get_ref().is_refused {
        done?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Standard output, and whether its reader has gone.
struct Printed {
    to: Stdout,
    is_refused: bool,
}

impl Printed {
    fn note<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        self.is_refused |= done.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        done
    }
}

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.to.write(bytes);
        self.note(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.to.flush();
        self.note(done)
    }
}
