//! `gnomon-view query`: answers in every form, and what a question may not do.

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use provenance::generate::{Scenario, record};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A generated run of a few thousand packets.
fn run() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let scenario = Scenario { packets: 5_000, hosts: 12, ..Scenario::default() };
    let run = folder.path().join("it's a run");
    fs::create_dir(&run).expect("a folder");
    record(&scenario, &run.join(provenance::FOLDER)).expect("a record");
    (folder, run)
}

fn ask_into(run: &Path, format: &str, out: &str, sql: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gnomon-view"));
    command.arg("query").arg(run).args([format, out, sql]).output().expect("the program")
}

/// The answer as CSV.
fn ask(run: &Path, sql: &str) -> String {
    let output = ask_into(run, "csv", "-", sql);
    assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn refusal(run: &Path, sql: &str) -> String {
    let output = ask_into(run, "csv", "-", sql);
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(2), true), "{sql}");
    String::from_utf8(output.stderr).expect("UTF-8")
}

#[test]
fn tables_are_there_and_packets_have_both_ends() {
    let (_folder, run) = run();
    for table in probes::tables::TABLES {
        let columns = ask(&run, &format!("SELECT * FROM {} LIMIT 0", table.name));
        let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        assert_eq!(columns.trim_end(), names.join(","), "{}", table.name);
    }
    // Every packet once, though some were never received.
    let counts = ask(&run, "SELECT (SELECT count(*) FROM sent), count(*), count(host) < count(*) FROM packets");
    let counts: Vec<&str> = counts.lines().nth(1).expect("a row").split(',').collect();
    assert_eq!((counts[0], counts[2]), (counts[1], "true"));
    // Layers follow each other without gap.
    let gaps = "SELECT count(*) FROM packets WHERE received_fate = 'read' AND to_host != from_host AND NOT EXISTS \
                (SELECT 1 FROM reads r WHERE r.read = packets.read AND r.at_ns = written_ns + total_ns)";
    assert_eq!(ask(&run, gaps).lines().nth(1), Some("0"));
}

#[test]
fn addresses_are_hexadecimal_as_programs_print_them() {
    let (_folder, run) = run();
    let question = "SELECT 0x10 + 1 AS number, '0x10' AS text, 0xff::UBIGINT AS address";
    assert_eq!(ask(&run, question), "number,text,address\n17,0x10,255\n");
    let table = ask_into(&run, "table", "-", question).stdout;
    assert!(String::from_utf8_lossy(&table).contains("    17  0x10     0xff\n"), "{}", String::from_utf8_lossy(&table));
}

#[test]
fn answers_have_five_forms() {
    let (folder, run) = run();
    let sql = "SELECT 7::UBIGINT AS n, 'a \"b\", c' AS text, NULL AS gone, 0.5::DOUBLE AS half, true AS yes, sum(x) AS total \
               FROM (VALUES (18446744073709551615::UBIGINT), (1)) t(x)";
    let said = |format: &str| String::from_utf8(ask_into(&run, format, "-", sql).stdout).expect("UTF-8");
    assert_eq!(said("csv"), "n,text,gone,half,yes,total\n7,\"a \"\"b\"\", c\",,0.5,true,18446744073709551616\n");
    let json: serde_json::Value = serde_json::from_str(&said("json")).expect("JSON");
    assert_eq!(json[0]["n"], 7);
    assert_eq!((&json[0]["text"], &json[0]["gone"]), (&"a \"b\", c".into(), &serde_json::Value::Null));
    assert_eq!((&json[0]["half"], &json[0]["yes"]), (&0.5.into(), &true.into()));
    assert_eq!(json[0]["total"], "18446744073709551616", "beyond 64 bits, as text");
    assert!(said("table").contains("(1 row)"), "{}", said("table"));
    assert_eq!(String::from_utf8(ask_into(&run, "json", "-", "SELECT 1 WHERE false").stdout).expect("UTF-8"), "[]\n");

    let file = folder.path().join("answer");
    let path = file.to_str().expect("UTF-8");
    assert!(ask_into(&run, "arrow", path, sql).status.success());
    let mut batches =
        arrow_ipc::reader::StreamReader::try_new(File::open(&file).expect("a file"), None).expect("Arrow");
    assert_eq!(batches.next().expect("a batch").expect("Arrow").num_columns(), 6);

    let sql = "SELECT packet, fate, CASE WHEN parent > 0 THEN parent END AS parent FROM sent ORDER BY packet";
    assert!(ask_into(&run, "parquet", path, sql).status.success());
    let reader = SerializedFileReader::new(File::open(&file).expect("a file")).expect("Parquet");
    let lines = ask(&run, sql);
    let mut rows = 0;
    for (row, line) in reader.get_row_iter(None).expect("rows").zip(lines.lines().skip(1)) {
        let row = row.expect("a row");
        let fields: Vec<String> = row.get_column_iter().map(|(_, field)| plain(field)).collect();
        assert_eq!(fields.join(","), line);
        rows += 1;
    }
    assert_eq!(rows, lines.lines().count() - 1);
}

fn plain(field: &Field) -> String {
    match field {
        Field::Null => String::new(),
        Field::ULong(number) => number.to_string(),
        Field::Str(text) => text.clone(),
        other => panic!("{other}"),
    }
}

#[test]
fn a_question_reads_nothing_else_and_writes_nothing() {
    let (folder, run) = run();
    let secret = folder.path().join("secret.csv");
    fs::write(&secret, "a,b\n1,2\n").expect("a file");
    let before = tree(folder.path());
    let (secret, inside) = (quoted(&secret), quoted(&run.join("provenance/sent")));
    let attempts = [
        "COPY (SELECT 1) TO 'OUT'",
        "COPY sent TO 'IN/copy.parquet'",
        "EXPORT DATABASE 'IN/all'",
        "ATTACH 'OUT'",
        "ATTACH 'IN/base.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "LOAD 'SECRET'",
        "SET enable_external_access = true",
        "SET threads = 1",
        "RESET lock_configuration",
        "PRAGMA enable_profiling",
        "PRAGMA database_list",
        "CREATE TABLE t AS SELECT 1",
        "DROP VIEW sent",
        "CREATE SECRET (TYPE s3)",
        "USE memory",
        "CALL pragma_version()",
        "EXPLAIN ANALYZE SELECT 1",
        "PREPARE p AS SELECT 1",
        "CHECKPOINT",
        "VACUUM",
        "SELECT 1; COPY (SELECT 1) TO 'OUT'",
        "SELECT 1; SELECT 2",
        "SELECT * FROM read_csv('SECRET')",
        "SELECT * FROM 'SECRET'",
        "SELECT * FROM read_text('SECRET')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_blob('IN/../../../../secret.csv')",
        "SELECT * FROM read_text('IN/../../../../secret.csv')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM read_parquet('https://example.org/x.parquet')",
        "SELECT * FROM sniff_csv('SECRET')",
        "SELECT * FROM read_json('/proc/self/environ')",
        "SELECT getenv('HOME')",
        "SELECT * FROM query('COPY (SELECT 1) TO ''OUT''')",
        "SELECT * FROM query_table('SECRET')",
        "SELECT * FROM read_duckdb('OUT')",
        "",
        ";",
        "SELEC 1",
        "SELECT 1) TO 'OUT'; --",
    ];
    for attempt in attempts {
        let out = quoted(&folder.path().join("out"));
        let sql = attempt.replace("SECRET", &secret).replace("OUT", &out).replace("IN/", &format!("{inside}/"));
        let told = refusal(&run, &sql);
        assert!(told.starts_with("gnomon: ") && !told.contains("panicked"), "{sql}: {told}");
    }
    // Harmless alone, and still so: they may answer, but leave nothing.
    for sql in [
        "FROM enable_logging(storage := 'file', storage_path := 'OUT')",
        "FROM duckdb_settings()",
        "FROM duckdb_secrets()",
    ] {
        ask_into(&run, "csv", "-", &sql.replace("OUT", &quoted(&folder.path().join("log"))));
    }
    assert_eq!(tree(folder.path()), before, "something was written");
}

fn quoted(path: &Path) -> String {
    path.to_str().expect("UTF-8").replace('\'', "''")
}

/// Every file with its size.
fn tree(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.push((path.clone(), 0));
            found.extend(tree(&path));
        } else {
            found.push((path.clone(), fs::metadata(&path).expect("a file").len()));
        }
    }
    found.sort();
    found
}

#[test]
fn a_file_stays_as_it_was_until_the_answer_is_there() {
    let (folder, run) = run();
    let out = folder.path().join("keep.csv");
    let path = out.to_str().expect("UTF-8");
    fs::write(&out, "mine\n").expect("a file");
    fs::set_permissions(&out, fs::Permissions::from_mode(0o640)).expect("a file");
    let before = tree(folder.path());
    // One fails at once, the other when a part of the answer is there.
    for sql in [
        "SELECT nocolumn FROM sent",
        "SELECT error('enough') FROM range(10000) t(x) WHERE x > 9000 OR error('x') IS NULL",
    ] {
        let output = ask_into(&run, "csv", path, sql);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{sql}: {told}");
        assert!(told.starts_with("gnomon: ") && told.lines().all(|line| !line.contains("panicked")), "{told}");
        assert_eq!(
            (fs::read_to_string(&out).expect("a file"), tree(folder.path())),
            ("mine\n".to_owned(), before.clone())
        );
    }
    assert!(ask_into(&run, "csv", path, "SELECT 7 AS n").status.success());
    assert_eq!(fs::read_to_string(&out).expect("a file"), "n\n7\n");
    assert_eq!(fs::metadata(&out).expect("a file").permissions().mode() & 0o777, 0o640);
    assert_eq!(tree(folder.path()).len(), before.len(), "something was left");
    // A link leads to the file, and stays; what is no file is written to.
    let link = folder.path().join("link.csv");
    std::os::unix::fs::symlink(&out, &link).expect("a link");
    assert!(ask_into(&run, "csv", link.to_str().expect("UTF-8"), "SELECT 8 AS n").status.success());
    assert!(link.is_symlink() && fs::read_to_string(&out).expect("a file") == "n\n8\n");
    let output = ask_into(&run, "csv", "/dev/stdout", "SELECT 9 AS n");
    assert_eq!((output.status.success(), output.stdout.as_slice()), (true, b"n\n9\n".as_slice()));
    let output = ask_into(&run, "csv", folder.path().to_str().expect("UTF-8"), "SELECT 9 AS n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot create"), "a folder");
}

#[test]
fn a_page_of_a_broken_record_leaves_the_file_alone() {
    let (folder, run) = run();
    let out = folder.path().join("keep.html");
    fs::write(&out, "mine\n").expect("a file");
    let segments = fs::read_dir(run.join("provenance/received")).expect("a table");
    for segment in segments {
        let path = segment.expect("a segment").path();
        // The end, which says what is where, stays.
        let mut bytes = fs::read(&path).expect("a segment");
        let middle = bytes.len() * 3 / 4;
        bytes[4..middle].fill(0xff);
        fs::write(&path, bytes).expect("a segment");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_gnomon-view"));
    let output = command.arg("page").arg(&run).arg(&out).output().expect("the program");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.starts_with("gnomon: ") && !told.contains("panicked"), "{told}");
    assert_eq!(fs::read_to_string(&out).expect("a file"), "mine\n");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2, "something was left");
}

#[test]
fn an_answer_ends_quietly_when_its_reader_has_had_enough() {
    let (_folder, run) = run();
    for format in ["csv", "json", "arrow", "parquet"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gnomon-view"));
        command.arg("query").arg(&run).args([format, "-", "SELECT range FROM range(3000000)"]);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program");
        let mut some = [0; 4];
        process.stdout.take().expect("a pipe").read_exact(&mut some).expect("the beginning");
        let output = process.wait_with_output().expect("an end");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), told.as_ref()), (Some(0), ""), "{format}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_remedy() {
    let (folder, run) = run();
    let told = refusal(&folder.path().join("nowhere"), "SELECT 1");
    assert!(told.contains("is no data directory of a run") && told.contains("--provenance packets"), "{told}");
    let told = refusal(folder.path(), "SELECT 1");
    assert!(told.contains("has no provenance"), "{told}");
    assert!(refusal(&run, "SELECT nam FROM hosts").contains("\"name\""), "DuckDB says what was meant");
    let output = ask_into(&run, "csv", "/nowhere/answer", "SELECT 1");
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot create '/nowhere/answer'"));
    // A record of histograms alone has the other tables too, without rows.
    for table in ["sent", "received", "writes"] {
        fs::remove_dir_all(run.join("provenance").join(table)).expect("a table");
    }
    assert_eq!(ask(&run, "SELECT count(*) FROM packets"), "count_star()\n0\n");
}
