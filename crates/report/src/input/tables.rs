//! The tables that the simulator leaves: host-traffic.csv and progress.csv. Columns are found by their names.

use super::lines::{Counter, unreadable};
use crate::bins::Bins;
use crate::run::{Damage, HostTraffic, Progress};
use csv::{ByteRecord, Reader, ReaderBuilder};
use std::fs::File;
use std::path::Path;

type Columns = Vec<usize>;

/// Reads host-traffic.csv, whose rows tell of intervals of `interval_s` that end at their time. `None` where there is none.
pub fn host_traffic(path: &Path, interval_s: f64, damage: &mut Vec<Damage>) -> Option<HostTraffic> {
    let name = "host-traffic.csv";
    let (mut reader, columns) =
        open(path, name, &["time_s", "host", "rx_bytes", "tx_bytes", "dropped_packets"], damage)?;
    let mut traffic = HostTraffic::default();
    each_row(&mut reader, name, damage, |row| {
        let (time, received) = (number(row, columns[0])?, number(row, columns[2])?);
        let (sent, dropped) = (number(row, columns[3])?, number(row, columns[4])?);
        let host = std::str::from_utf8(row.get(columns[1])?).ok()?;
        let middle = time - interval_s / 2.0;
        add(&mut traffic.received, host, interval_s, middle, received);
        add(&mut traffic.sent, host, interval_s, middle, sent);
        traffic.dropped_packets += dropped;
        Some(())
    });
    Some(traffic)
}

fn add(table: &mut std::collections::BTreeMap<String, Bins>, host: &str, width_s: f64, at_s: f64, amount: f64) {
    match table.get_mut(host) {
        Some(bins) => bins.add(at_s, amount),
        None => table.entry(host.to_owned()).or_insert_with(|| Bins::new(width_s)).add(at_s, amount),
    }
}

/// Reads progress.csv; empty where there is none.
pub fn progress(path: &Path, damage: &mut Vec<Damage>) -> Vec<Progress> {
    let name = "progress.csv";
    let mut rows = Vec::new();
    let names = ["sim_s", "wall_s", "rss_bytes", "processes"];
    let Some((mut reader, columns)) = open(path, name, &names, damage) else { return rows };
    let in_use = reader.byte_headers().ok().and_then(|header| header.iter().position(|column| column == b"pss_bytes"));
    each_row(&mut reader, name, damage, |row| {
        rows.push(Progress {
            simulated_s: number(row, columns[0])?,
            wall_s: number(row, columns[1])?,
            in_use_bytes: in_use.and_then(|column| number(row, column)),
            resident_bytes: number(row, columns[2])?,
            processes: number(row, columns[3])?,
        });
        Some(())
    });
    rows
}

/// Opens a table and finds the columns. A file that lacks one is damage.
fn open(path: &Path, name: &str, names: &[&str], damage: &mut Vec<Damage>) -> Option<(Reader<File>, Columns)> {
    if !path.exists() {
        return None;
    }
    let mut reader = match base::input::open(path) {
        Ok(file) => ReaderBuilder::new().flexible(true).quoting(false).buffer_capacity(1 << 18).from_reader(file),
        Err(error) => {
            damage.push(unreadable(name, &error));
            return None;
        }
    };
    let header = match reader.byte_headers() {
        Ok(header) => header.clone(),
        Err(error) => {
            damage.push(unreadable(name, &error));
            return None;
        }
    };
    let find = |wanted: &str| header.iter().position(|column| column.trim_ascii() == wanted.as_bytes());
    match names.iter().map(|wanted| find(wanted).ok_or(wanted)).collect::<Result<Columns, _>>() {
        Ok(columns) => Some((reader, columns)),
        Err(missing) => {
            damage.push(unreadable(name, &format!("its first line has no column '{missing}'")));
            None
        }
    }
}

fn each_row(
    reader: &mut Reader<File>,
    name: &str,
    damage: &mut Vec<Damage>,
    mut take: impl FnMut(&ByteRecord) -> Option<()>,
) {
    let mut counter = Counter::new(name);
    let columns = reader.byte_headers().map_or(0, ByteRecord::len);
    let mut row = ByteRecord::new();
    let mut number = 1;
    loop {
        number += 1;
        match reader.read_byte_record(&mut row) {
            Ok(false) => break,
            // A last row that was cut off inside a number would be read as a smaller number; one without all columns is
            // certainly broken.
            Ok(true) if row.len() == columns && take(&row).is_some() => {}
            Ok(true) => counter.add(number, "a row that lacks a column or has no number where one belongs"),
            Err(error) => {
                counter.add(number, &error.to_string());
                break;
            }
        }
    }
    damage.extend(counter.damage());
}

fn number(row: &ByteRecord, column: usize) -> Option<f64> {
    let value: f64 = std::str::from_utf8(row.get(column)?).ok()?.trim().parse().ok()?;
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.csv");
        std::fs::write(&path, text).unwrap();
        (folder, path)
    }

    #[test]
    fn traffic_is_summed_by_host_and_interval() {
        let (_folder, path) = file(
            "time_s,host,rx_bytes,tx_bytes,rx_packets,tx_packets,dropped_packets\n\
             1,relay1,100,200,1,2,0\n1,relay2,5,6,1,1,1\n3,relay1,10,20,1,1,2\n",
        );
        let mut damage = Vec::new();
        let traffic = host_traffic(&path, 1.0, &mut damage).unwrap();
        assert!(damage.is_empty());
        assert_eq!(traffic.sent["relay1"].sums(), [200.0, 0.0, 20.0]);
        assert_eq!(traffic.received["relay2"].sums(), [5.0]);
        assert_eq!(traffic.dropped_packets, 3.0);
    }

    #[test]
    fn columns_may_be_in_any_order_and_more() {
        let (_folder, path) = file("wall_s,sim_s,new,processes,rss_bytes,pss_bytes\n1,2,x,14,100,80\n");
        let (_other, earlier) = file("sim_s,wall_s,mem_available_bytes,rss_bytes,processes\n2,1,1000,100,14\n");
        let mut damage = Vec::new();
        let told = Progress {
            simulated_s: 2.0,
            wall_s: 1.0,
            in_use_bytes: Some(80.0),
            resident_bytes: 100.0,
            processes: 14.0,
        };
        assert_eq!(progress(&path, &mut damage), [told]);
        assert_eq!(progress(&earlier, &mut damage), [Progress { in_use_bytes: None, ..told }]);
        assert!(damage.is_empty());
    }

    #[test]
    fn broken_rows_are_counted_and_left_out() {
        let (_folder, path) = file(
            "time_s,host,rx_bytes,tx_bytes,rx_packets,tx_packets,dropped_packets\n\
             1,relay1,100,200,1,2,0\nx,relay1,1,1,1,1,1\n2,relay1,1,1,1,1,0\n3,relay1,4",
        );
        let mut damage = Vec::new();
        let traffic = host_traffic(&path, 1.0, &mut damage).unwrap();
        assert_eq!(traffic.sent["relay1"].total(), 201.0);
        assert_eq!((damage[0].lines, damage[0].first), (2, 3));
    }

    #[test]
    fn a_table_that_lacks_a_column_is_damage_and_a_missing_one_is_not() {
        let (_folder, path) = file("time_s,host\n1,a\n");
        let mut damage = Vec::new();
        assert_eq!(host_traffic(&path, 1.0, &mut damage), None);
        assert!(damage[0].why.contains("rx_bytes"), "{}", damage[0].why);
        damage.clear();
        assert_eq!(host_traffic(&path.with_extension("none"), 1.0, &mut damage), None);
        assert!(damage.is_empty());
    }
}
