//! `gnomon-view`: started by `gnomon query` and `gnomon view`, which read the user's command line. Its own is theirs to it.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use view::{
    Error, Format, Record, Result, confine, page as pages, query, record,
    server::{Door, serve as serve_page},
};

const USAGE: &str = "gnomon-view is started by 'gnomon query' and 'gnomon view': see 'gnomon help view'";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["serve", run, port] => serve(Path::new(run), port),
        ["page", run, out] => page(Path::new(run), out),
        ["query", run, format, out, sql] => answer(Path::new(run), format, out, sql),
        _ => Err(Error::new(USAGE)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "gnomon: {error}");
            ExitCode::from(2)
        }
    }
}

/// Answers a question into the file `out`, or on standard output, which is "-".
fn answer(run: &Path, format: &str, out: &str, sql: &str) -> Result<()> {
    let format: Format = format.parse()?;
    let folder = record::folder(run)?;
    let mut out: Box<dyn Write + Send> = match out {
        "-" => Box::new(io::stdout()),
        path => Box::new(File::create(path).map_err(|error| Error::new(format!("cannot create '{path}': {error}")))?),
    };
    confine::confine(&folder)?;
    let record = Record::open(run)?;
    let mut out = BufWriter::new(&mut out);
    query::answer(&record.connect()?, sql, format, &mut out)?;
    Ok(out.flush()?)
}

/// Shows a run in a browser, until the process ends.
fn serve(run: &Path, port: &str) -> Result<()> {
    let port = port.parse().map_err(|_| Error::new(format!("'{port}' is no port")))?;
    let folder = record::folder(run)?;
    let door = Door::open(port)?;
    confine::confine(&folder)?;
    writeln!(io::stdout(), "{}", door.address())?;
    serve_page(door, run)
}

/// Writes a run's page as one file.
fn page(run: &Path, out: &str) -> Result<()> {
    let folder = record::folder(run)?;
    let mut out = create(out)?;
    confine::confine(&folder)?;
    Ok(out.write_all(pages::whole(&Record::open(run)?)?.as_bytes())?)
}

fn create(path: &str) -> Result<File> {
    File::create(path).map_err(|error| Error::new(format!("cannot create '{path}': {error}")))
}
