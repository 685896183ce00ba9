//! Downloads by LibTorrent through circuits of each length: the publication's Figure 1 and its future work.
//!
//! The downloader builds the circuit, and its LibTorrent reaches the seed by a SOCKS5 proxy that sends into the circuit.

use super::{
    ENDED, EXIT, HOPS, Host, IPV8_3, PEER, RELAY, RELAYS, RUNNING, SEEDER_START_S, claim, each, point, shown_of,
    too_few, words,
};
use crate::case::{Case, Experiment, PARALLELISM, Program, Setting, Size};
use crate::claim::Bound;
use crate::experiment;
use crate::labs::Findings;
use crate::measurements::Measurements;
use crate::reading::Reading;
use report::chart::{Along, Axis, Chart, Figure, Ink, Plot, Series, Unit};
use report::html::Table;

const TORRENT: Program = Program { file: "ipv8_torrent.py", text: include_str!("../../../programs/ipv8_torrent.py") };
const DOWNLOADER: &str = "downloader";
/// Without a circuit.
const DIRECT: &str = "direct";

struct Loss {
    key: &'static str,
    title: &'static str,
    /// Of the packets between two hosts.
    share: f64,
}

const LOSSES: [Loss; 2] = [
    Loss { key: "torrent", title: "no loss", share: 0.0 },
    Loss { key: "torrent-loss", title: "loss of 0.5 %", share: 0.005 },
];

/// Bytes of a download; the published file has 50 MB.
fn bytes(setting: &Setting) -> u32 {
    match setting.size {
        Size::Smallest => 200_000,
        Size::Small => 2_000_000,
        Size::Full => 50_000_000,
    }
}

fn text_of(loss: &Loss, bytes: u32) -> String {
    let lengths: String = HOPS.iter().map(|hops| format!(", \"{hops}\"")).collect();
    // With loss, three hops carry some 100 kB/s; and some time for building circuits.
    let stop_s = 200 + HOPS.len() as u32 * (30 + bytes / 50_000);
    let about = format!("downloads through tunnels, {}", loss.title);
    let mut text = experiment::lossy(&about, stop_s, "10 ms", loss.share);
    let mut host = |name: &str, program: &Program, arguments: &str, start_s: u32, state: &str| {
        Host { name, program, arguments, start_s, environment: "ENDPOINT: python", options: "", state }
            .write(&mut text);
    };
    host("tracker", &PEER, "tracker", 1, RUNNING);
    (1..=RELAYS).for_each(|number| host(&format!("relay{number}"), &PEER, RELAY, 2, RUNNING));
    host("exit", &PEER, EXIT, 2, RUNNING);
    host("seed", &TORRENT, &format!("seed, \"{bytes}\""), 2, RUNNING);
    let download = format!("download, \"{bytes}\", {DIRECT}{lengths}");
    host(DOWNLOADER, &TORRENT, &download, SEEDER_START_S, ENDED);
    text
}

pub fn cases(setting: &Setting) -> Vec<Case> {
    let bytes = bytes(setting);
    let case = |loss: &Loss| Case {
        key: loss.key.to_owned(),
        factors: vec![("program", format!("LibTorrent, {}", loss.title)), ("packets", String::new())],
        experiment: Experiment::Printed {
            experiment: Box::new(Experiment::Python {
                packages: &IPV8_3,
                programs: &[PEER, TORRENT],
                text: text_of(loss, bytes),
            }),
            host: DOWNLOADER,
        },
        options: vec![PARALLELISM.to_owned(), setting.processors.clamp(1, 8).to_string()],
        memory_bytes: 1 << 30,
    };
    LOSSES.iter().map(case).collect()
}

/// A number of the download through a circuit of that length.
fn number(reading: &Reading, length: &str, name: &str) -> f64 {
    let row = reading.printed.iter().find(|row| row["hops"] == length);
    row.and_then(|row| row[name].as_f64()).unwrap_or(f64::NAN)
}

fn throughput(reading: &Reading, length: &str) -> f64 {
    number(reading, length, "bytes") * 8.0 / number(reading, length, "seconds")
}

pub fn findings(setting: &Setting, measurements: &Measurements) -> Findings {
    let judge = |loss: &Loss| {
        let claim = claim(
            format!("LibTorrent, {}: throughput falls from 1 to 3 hops", loss.title),
            "more hops severely limit the throughput of downloads",
            "section \u{201c}Problem description\u{201d}, Figure 1",
            Bound::AtMost(1.0),
            Unit::Fraction,
        );
        let ratio = |reading: &Reading| throughput(reading, "3") / throughput(reading, "1");
        claim.judge(&each(measurements, loss.key, ratio), too_few(setting))
    };
    Findings {
        notes: vec![format!(
            "Downloads are of {} bytes by libtorrent 2.1.1 (uTP) with pyipv8 3.2, one after the other; hosts are 10 ms from each other, on lines of 1 Gbit/s. The downloader’s \
             LibTorrent uses a SOCKS5 proxy in its process, which sends into the circuit; the seed is outside of it. Computing takes no simulated time there, so that the \
             network and uTP alone limit the throughput and each seed of a run gives the same numbers again. Most of uTP’s packets are longer than a line \
             carries once they have the tunnel’s headers, and travel there in two fragments. The numbers of Figure 1 are not printed.",
            bytes(setting)
        )],
        judgements: LOSSES.iter().map(judge).collect(),
        figures: vec![figure(measurements)],
        tables: vec![table(measurements)],
    }
}

fn figure(measurements: &Measurements) -> Figure {
    let at = |loss: &Loss, x: f64, length: &str| {
        point(x, &each(measurements, loss.key, |reading| throughput(reading, length)))
    };
    let last = f64::from(*HOPS.last().expect("there are lengths"));
    let mut series = Vec::new();
    for (index, loss) in LOSSES.iter().enumerate() {
        let points = HOPS.iter().filter_map(|hops| at(loss, f64::from(*hops), &hops.to_string())).collect();
        series.push(Series::line(loss.title.to_owned(), Ink::solid(index), points));
        let direct = [0.0, last].into_iter().filter_map(|x| at(loss, x, DIRECT)).collect();
        series.push(Series::line(format!("{}, without a tunnel", loss.title), Ink::dashed(index, 1), direct));
    }
    Figure {
        id: "onion-profile-torrent".to_owned(),
        title: "Throughput of downloads by LibTorrent".to_owned(),
        subtitle: "by the circuit’s number of hops; 0 hops end in the downloader’s own process".to_owned(),
        caption: "Published as Figure 1, without numbers. Means over repetitions with 95 % intervals; from the connection to the last piece."
            .to_owned(),
        chart: Chart::Plot(Plot {
            x: Axis::new("Hops", "hops", Unit::Count).from(0.0),
            y: Axis::new("Throughput", "throughput", Unit::BitsPerSecond).from(0.0),
            series: series.into_iter().filter(|series| !series.points.is_empty()).collect(),
            interval: Along::Y,
            names_at_ends: false,
            moments: Vec::new(),
            reference: None,
        }),
    }
}

/// What was lost and sent again.
fn table(measurements: &Measurements) -> Table {
    let mut rows = Vec::new();
    for loss in &LOSSES {
        for length in [DIRECT.to_owned()].into_iter().chain(HOPS.map(|hops| hops.to_string())) {
            let shown = |unit, of: &dyn Fn(&Reading) -> f64| shown_of(measurements, unit, loss.key, of);
            let count = |name: &'static str| shown(Unit::Count, &|reading| number(reading, &length, name));
            rows.push(vec![
                loss.title.to_owned(),
                length.clone(),
                shown(Unit::BitsPerSecond, &|reading| throughput(reading, &length)),
                count("packets"),
                count("lost"),
                count("timeouts"),
                count("resent"),
                shown(Unit::Share, &|reading| number(reading, &length, "resent") / number(reading, &length, "packets")),
            ]);
        }
    }
    Table {
        title: "Downloads by LibTorrent: loss and retransmissions at the seed".to_owned(),
        header: words(&["Network", "Hops", "Throughput", "Packets", "Lost", "Timeouts", "Sent again", "Share"]),
        rows,
        text_columns: 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_follows_from_a_downloads_line() {
        let rows = serde_json::json!([{"hops": "3", "bytes": 1000, "seconds": 2.0, "resent": 7, "packets": 70}]);
        let reading = Reading { printed: rows.as_array().unwrap().clone(), ..Reading::default() };
        assert_eq!(throughput(&reading, "3"), 4000.0);
        assert_eq!(number(&reading, "3", "resent"), 7.0);
        assert!(throughput(&reading, "1").is_nan());
    }

    #[test]
    fn packets_are_lost_in_one_experiment_only() {
        let texts = LOSSES.each_ref().map(|loss| text_of(loss, 1000));
        assert!(!texts[0].contains("packet_loss") && texts[1].contains("packet_loss 0.005 ]"), "{}", texts[1]);
        assert!(texts[1].contains("download, \"1000\", direct, \"0\", \"1\", \"2\", \"3\"]"), "{}", texts[1]);
    }
}
