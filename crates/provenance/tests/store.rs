//! The store: the same files whoever was first, all rows in order, and what stays when it ends early.

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use probes::tables::TABLES;
use probes::{Level, Rows};
use provenance::generate::{Generator, Scenario, record};
use provenance::{FOLDER, Options, Record, RunId, Store};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn scenario() -> Scenario {
    Scenario { packets: 20_000, hosts: 12, ..Scenario::default() }
}

/// A store of small segments.
fn store(folder: &Path, generator: &Generator) -> Store {
    let options = Options { segment_rows: 600, ..Options::new(Level::All, RunId::new([7; 8]), generator.hosts()) };
    Store::create(folder, options).unwrap()
}

/// All files below a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.strip_prefix(folder).unwrap().to_path_buf(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// One row of each table to each worker in turn, the tables of some from behind: as unlike one worker's order as can be.
fn dealt(mut rows: Rows, workers: usize) -> Vec<Rows> {
    let mut hands = vec![Rows::default(); workers];
    macro_rules! deal {
        ($($name:ident),+) => {$(
            for (place, row) in rows.$name.drain(..).enumerate() {
                let hand = &mut hands[place % workers].$name;
                if place % workers == 1 { hand.insert(0, row) } else { hand.push(row) }
            }
        )+};
    }
    deal!(sent, received, writes, reads, causes, wakes, streams, tcp, layers, links, marks);
    hands
}

fn written_by(workers: usize) -> BTreeMap<PathBuf, Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("record");
    let mut generator = Generator::new(&scenario());
    let store = store(&folder, &generator);
    let mut window = 0;
    while let Some(rows) = generator.window() {
        let handles = dealt(rows, workers).into_iter().map(|rows| (store.handle(), rows));
        if window % 16 == 0 {
            std::thread::scope(|scope| {
                for (handle, rows) in handles {
                    scope.spawn(move || handle.push(window, rows));
                }
            });
        } else {
            handles.rev().for_each(|(handle, rows)| handle.push(window, rows));
        }
        window += 1;
        // A worker that is ahead must not count.
        if window % 3 == 0 {
            store.windows_done(window - 1).unwrap();
        }
        store.windows_done(window).unwrap();
    }
    store.finish().unwrap();
    files(&folder)
}

#[test]
fn files_are_the_same_for_any_number_of_workers() {
    let one = written_by(1);
    assert!(one[Path::new("sent/00000.parquet")].len() > 50_000, "its segments were merged");
    for workers in [2, 3, 8] {
        let several = written_by(workers);
        assert_eq!(one.keys().collect::<Vec<_>>(), several.keys().collect::<Vec<_>>());
        for (path, bytes) in &one {
            assert!(several[path] == *bytes, "{} differs with {workers} workers", path.display());
        }
    }
}

/// The numbers of a table's first column, file by file.
fn keys(table: &Path) -> Vec<Vec<u64>> {
    let mut paths: Vec<PathBuf> = fs::read_dir(table).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "parquet"));
    paths.sort();
    let keys = |path: &PathBuf| {
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        reader.get_row_iter(None).unwrap().map(|row| row.unwrap().get_ulong(0).unwrap()).collect()
    };
    paths.iter().map(keys).collect()
}

#[test]
fn every_row_is_there_and_each_file_is_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let summary = record(&scenario(), &folder.path().join("record")).unwrap();
    assert_eq!(summary.tables.len(), TABLES.len());
    for table in &summary.tables {
        let files = keys(&folder.path().join("record").join(table.name));
        assert!(files.iter().all(|keys| keys.is_sorted()), "{}", table.name);
        assert_eq!(files.iter().map(Vec::len).sum::<usize>() as u64, table.rows, "{}", table.name);
        assert!(table.rows > 0 || table.name == "costs", "{}", table.name);
    }
    let mut packets = keys(&folder.path().join("record/sent")).concat();
    let count = packets.len();
    packets.sort_unstable();
    packets.dedup();
    assert_eq!(packets.len(), count);
}

/// The name of the folder that [`a_store_for_ever`] writes to.
const CHILD: &str = "GNOMON_TEST_RECORD";

/// No test of its own: the process that the next one kills.
#[test]
#[ignore = "a part of another test"]
fn a_store_for_ever() {
    let folder = PathBuf::from(std::env::var_os(CHILD).expect("the other test's"));
    let mut generator = Generator::new(&Scenario { packets: 50_000_000, ..Scenario::default() });
    let store = store(&folder, &generator);
    for window in 0.. {
        store.handle().push(window, generator.window().unwrap_or_default());
        store.windows_done(window + 1).unwrap();
        println!("{window}");
    }
}

#[test]
fn a_run_that_is_killed_leaves_what_was_closed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("record");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "a_store_for_ever"])
        .env(CHILD, &folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while !folder.join("received/00020.parquet").exists() {
        lines.next().expect("it writes until it is killed").unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    for table in ["sent", "received", "hosts", "layers"] {
        let files = keys(&folder.join(table));
        assert!(files[0].is_empty() && files[1..].iter().all(|keys| !keys.is_empty() && keys.is_sorted()), "{table}");
    }
    assert!(keys(&folder.join("sent")).len() > 16);
}

#[test]
fn many_segments_become_one_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("record");
    let mut generator = Generator::new(&scenario());
    let store = store(&folder, &generator);
    let (mut window, mut made) = (0, 0);
    while let Some(rows) = generator.window() {
        made += rows.sent.len();
        store.handle().push(window, rows);
        window += 1;
        store.windows_done(window).unwrap();
    }
    let summary = store.finish().unwrap();
    assert!(summary.unmerged.is_empty());
    let sent = keys(&folder.join("sent"));
    assert_eq!((sent.len(), sent[0].len()), (1, made));
    assert!(sent[0].windows(2).all(|pair| pair[0] < pair[1]));
    let written = summary.tables.iter().find(|table| table.name == "sent").unwrap().bytes;
    assert_eq!(written, fs::metadata(folder.join("sent/00000.parquet")).unwrap().len());
    assert!(!folder.join("sent.merging").exists());
}

#[test]
fn a_store_that_is_given_up_keeps_what_was_closed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("record");
    let mut generator = Generator::new(&scenario());
    let store = store(&folder, &generator);
    for window in 0..400 {
        store.handle().push(window, generator.window().unwrap());
        store.windows_done(window + 1).unwrap();
    }
    drop(store);
    let sent = keys(&folder.join("sent"));
    assert!(sent.len() > 1, "a segment was closed");
    assert!(sent[0].is_empty() && sent[1..].iter().all(|keys| keys.len() >= 600));
}

#[test]
fn a_record_that_cannot_be_written_ends_the_run_with_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("record");
    let mut generator = Generator::new(&scenario());
    let store = store(&folder, &generator);
    fs::create_dir(folder.join("sent/00001.parquet.part")).unwrap();
    let mut window = 0;
    let error = loop {
        let Some(rows) = generator.window() else { break store.finish().unwrap_err() };
        store.handle().push(window, rows);
        window += 1;
        if store.windows_done(window).is_err() {
            // It stays so, and nobody waits for a thread that is gone.
            assert!(store.windows_done(window).is_err());
            break store.finish().unwrap_err();
        }
    };
    let text = error.to_string();
    assert!(text.starts_with("cannot create") && text.contains("sent/00001.parquet.part"), "{text}");
}

#[test]
fn a_folder_that_is_there_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let error = Store::create(folder.path(), Options::new(Level::All, RunId::default(), Vec::new())).unwrap_err();
    assert!(error.to_string().contains("File exists"), "{error}");
}

#[test]
fn a_finished_record_says_so_and_what_is_missing_later_is_told() {
    let run = tempfile::tempdir().unwrap();
    let folder = run.path().join(FOLDER);
    let mut generator = Generator::new(&scenario());
    let store = store(&folder, &generator);
    let notice = || Record::open(run.path()).unwrap().notice();
    for window in 0..400 {
        store.handle().push(window, generator.window().unwrap());
        store.windows_done(window + 1).unwrap();
    }
    assert!(notice().unwrap().contains("is not finished"), "{:?}", notice());
    store.finish().unwrap();
    assert_eq!(notice(), None);

    // Without the mark, as earlier records are.
    let schema = folder.join("schema.json");
    let text = fs::read_to_string(&schema).unwrap();
    fs::write(&schema, text.replace("\"finished\": true,", "")).unwrap();
    assert!(notice().unwrap().contains("does not say whether its run came to an end"), "{:?}", notice());
    fs::write(&schema, text).unwrap();

    let last = fs::read_dir(folder.join("layers")).unwrap().map(|entry| entry.unwrap().path()).max().unwrap();
    let whole = fs::read(&last).unwrap();
    fs::remove_file(&last).unwrap();
    let told = notice().unwrap();
    assert!(told.contains("is damaged: table 'layers' has ") && told.contains(" files of the "), "{told}");
    fs::write(&last, &whole[..whole.len() / 2]).unwrap();
    assert!(notice().unwrap().contains("cannot read"), "{:?}", notice());
    fs::write(&last, &whole).unwrap();
    assert_eq!(notice(), None);
}

#[test]
fn a_store_that_is_given_up_is_not_marked_as_finished() {
    let run = tempfile::tempdir().unwrap();
    let generator = Generator::new(&scenario());
    drop(store(&run.path().join(FOLDER), &generator));
    assert!(Record::open(run.path()).unwrap().notice().unwrap().contains("is not finished"));
}
