//! What is in each table: its columns, and how they follow from the runs.

use super::{Column, Table, Values};
use crate::run::{Direction, Ending, Run};
use crate::sections::{Context, differences, public, utilisations};
use std::sync::Arc;

const IN_WINDOW: &str = "whether it began in the span that the report's distributions are about";

/// A run, with the texts that all its rows share.
struct Named<'a> {
    run: &'a Run,
    label: Arc<str>,
    group: Arc<str>,
}

fn named<'a>(context: &Context<'a>) -> Vec<Named<'a>> {
    let of_subject = |subject: &crate::subject::Subject<'a>| {
        let group: Arc<str> = subject.label.as_str().into();
        let named = |run: &&'a Run| Named { run, label: run.label.as_str().into(), group: Arc::clone(&group) };
        subject.runs.iter().map(named).collect::<Vec<_>>()
    };
    context.subjects.iter().flat_map(of_subject).collect()
}

fn text<R>(rows: &[R], name: &'static str, about: &'static str, of: impl Fn(&R) -> Option<Arc<str>>) -> Column {
    Column { name, about, values: Values::Text(rows.iter().map(of).collect()) }
}

fn integer<R>(rows: &[R], name: &'static str, about: &'static str, of: impl Fn(&R) -> Option<u64>) -> Column {
    let values = rows.iter().map(|row| of(row).map(|value| i64::try_from(value).unwrap_or(i64::MAX)));
    Column { name, about, values: Values::Integer(values.collect()) }
}

/// What is no finite number is missing.
fn number<R>(rows: &[R], name: &'static str, about: &'static str, of: impl Fn(&R) -> Option<f64>) -> Column {
    Column {
        name,
        about,
        values: Values::Number(rows.iter().map(|row| of(row).filter(|value| value.is_finite())).collect()),
    }
}

fn truth<R>(rows: &[R], name: &'static str, about: &'static str, of: impl Fn(&R) -> Option<bool>) -> Column {
    Column { name, about, values: Values::Truth(rows.iter().map(of).collect()) }
}

/// The columns by which rows of all tables are brought together.
fn keys<'a, R>(rows: &[R], run: impl Fn(&R) -> &Named<'a>) -> Vec<Column> {
    vec![
        text(rows, "run", "the run, as the report calls it", |row| Some(Arc::clone(&run(row).label))),
        text(rows, "group", "the runs that are samples of the same experiment", |row| {
            Some(Arc::clone(&run(row).group))
        }),
        integer(rows, "seed", "the run's seed", |row| run(row).run.seed()),
    ]
}

pub fn runs(context: &Context) -> Table {
    let rows = named(context);
    let stats = |row: &Named, of: fn(&crate::run::SimStats) -> Option<f64>| row.run.stats.as_ref().and_then(of);
    let mut columns = keys(&rows, |row| row);
    columns.extend([
        text(&rows, "directory", "the data directory, as it was named", |row| {
            Some(row.run.directory.display().to_string().into())
        }),
        text(&rows, "digest", "of all packets and exits: equal runs have the same", |row| {
            row.run.stats.as_ref()?.digest.as_deref().map(Arc::from)
        }),
        text(&rows, "profile", "the profile of the Tor network", |row| {
            row.run.network.as_ref()?.profile.as_deref().map(Arc::from)
        }),
        integer(&rows, "network_seed", "the seed with which the Tor network was generated", |row| {
            row.run.network.as_ref()?.seed
        }),
        truth(&rows, "finished", "whether it came to its end", |row| Some(row.run.ending() == Ending::Finished)),
        integer(&rows, "hosts", "simulated hosts", |row| Some(row.run.hosts.len() as u64)),
        number(&rows, "simulated_s", "simulated time, in seconds", |row| Some(row.run.end_s())),
        number(&rows, "wall_s", "time that the run took, in seconds", |row| stats(row, |stats| stats.wall_s)),
        number(&rows, "peak_resident_bytes", "largest resident memory of the simulator's process, in bytes", |row| {
            stats(row, |stats| stats.peak_resident_bytes)
        }),
        number(
            &rows,
            "window_from_s",
            "where the span begins that distributions are about, in simulated seconds",
            |row| Some(context.window(row.run).start),
        ),
        number(&rows, "window_until_s", "where it ends, in simulated seconds", |row| Some(context.window(row.run).end)),
        integer(&rows, "transfers", "transfers that began in the span", |row| {
            Some(context.transfers(row.run).count() as u64)
        }),
        integer(&rows, "failed_transfers", "those of them that failed", |row| {
            Some(context.transfers(row.run).filter(|transfer| transfer.error.is_some()).count() as u64)
        }),
        integer(&rows, "damaged_lines", "lines of the run's files that could not be read", |row| {
            Some(row.run.damaged_lines() as u64)
        }),
    ]);
    Table { name: "runs", about: "The runs of the report.", columns }
}

pub fn transfers(context: &Context) -> Table {
    let runs = named(context);
    let of_run = |named| Named::transfers(named);
    let rows: Vec<_> = runs.iter().flat_map(of_run).collect();
    let mut columns = keys(&rows, |(run, _)| run);
    columns.extend([
        text(&rows, "host", "the client", |(_, transfer)| Some(Arc::clone(&transfer.host))),
        text(
            &rows,
            "behaviour",
            "what kind of client it is; ways through bridges and to onion services are told apart",
            |(_, transfer)| Some(Arc::clone(&transfer.behaviour)),
        ),
        text(&rows, "direction", "download or upload", |(_, transfer)| {
            Some(match transfer.direction {
                Direction::Download => "download".into(),
                Direction::Upload => "upload".into(),
            })
        }),
        integer(&rows, "bytes", "payload that was asked for, in bytes", |(_, transfer)| Some(transfer.bytes)),
        number(&rows, "start_s", "when the client opened its connection, in simulated seconds", |(_, transfer)| {
            Some(transfer.start_s)
        }),
        number(&rows, "request_s", "from the start to the sending of the request, in seconds", |(_, transfer)| {
            transfer.request_s
        }),
        number(&rows, "first_byte_s", "from the start to the first byte of the answer, in seconds", |(_, transfer)| {
            transfer.first_byte_s
        }),
        number(&rows, "last_byte_s", "from the start to the last byte, in seconds", |(_, transfer)| {
            transfer.last_byte_s
        }),
        number(&rows, "end_s", "when it ended, well or not, in simulated seconds", |(_, transfer)| {
            Some(transfer.end_s)
        }),
        truth(&rows, "done", "whether all bytes arrived", |(_, transfer)| Some(transfer.is_done())),
        truth(&rows, "verified", "whether the content was compared, and right", |(_, transfer)| {
            Some(transfer.verified)
        }),
        truth(&rows, "is_retry", "whether it is a further attempt at one that had failed", |(_, transfer)| {
            Some(transfer.is_retry)
        }),
        text(&rows, "error_stage", "the stage at which it failed, as its program calls it", |(_, transfer)| {
            transfer.error.as_ref().map(|error| Arc::clone(&error.stage))
        }),
        text(&rows, "error_reason", "why", |(_, transfer)| {
            transfer.error.as_ref().map(|error| Arc::clone(&error.reason))
        }),
        truth(&rows, "in_window", IN_WINDOW, |(run, transfer)| {
            let window = context.window(run.run);
            Some(window.start <= transfer.start_s && transfer.start_s <= window.end)
        }),
    ]);
    Table { name: "transfers", about: "All transfers of clients, failed ones and further attempts included.", columns }
}

pub fn circuits(context: &Context) -> Table {
    let runs = named(context);
    let rows: Vec<_> = runs.iter().flat_map(Named::circuits).collect();
    let mut columns = keys(&rows, |(run, _)| run);
    columns.extend([
        number(&rows, "at_s", "when it was launched, in simulated seconds", |(_, circuit)| Some(circuit.at_s)),
        number(
            &rows,
            "build_s",
            "from its launch to its last hop, in seconds; none if it was not built or taken over",
            |(_, circuit)| circuit.build_s,
        ),
        text(&rows, "purpose", "what tor built it for", |(_, circuit)| Some(Arc::clone(&circuit.purpose))),
        text(&rows, "error", "why it was not built", |(_, circuit)| circuit.error.clone()),
        truth(&rows, "in_window", IN_WINDOW, |(run, circuit)| {
            let window = context.window(run.run);
            Some(window.start <= circuit.at_s && circuit.at_s <= window.end)
        }),
    ]);
    Table { name: "circuits", about: "All circuits that clients' tors reported.", columns }
}

pub fn relays(context: &Context) -> Table {
    let runs = named(context);
    let of_run = |named| {
        let run: &Run = Named::run(named);
        let used = utilisations(context, run);
        let relays: Vec<&String> = run.hosts.iter().filter(|host| run.role(host).is_relay()).collect();
        let with = move |host| {
            let used = used.iter().find(|used| used.host == host);
            (named, host, used.map(|used| (used.mean, used.p95)))
        };
        relays.into_iter().map(with).collect::<Vec<_>>()
    };
    let rows: Vec<(&Named, &String, Option<(f64, f64)>)> = runs.iter().flat_map(of_run).collect();
    let mut columns = keys(&rows, |(run, ..)| run);
    let bytes = |received: bool| {
        move |(named, host, _): &(&Named, &String, Option<(f64, f64)>)| {
            let traffic = named.run.traffic.as_ref()?;
            let window = context.window(named.run);
            let bins = if received { &traffic.received } else { &traffic.sent };
            Some(bins.get(*host).map_or(0.0, |bins| bins.between(window.start, window.end)))
        }
    };
    columns.extend([
        text(&rows, "host", "the simulated host", |(_, host, _)| Some(host.as_str().into())),
        text(&rows, "nickname", "as its descriptor calls it", |(run, host, _)| Some(run.run.display_name(host).into())),
        text(&rows, "role", "authority, guard, guard-exit, exit, middle or bridge", |(run, host, _)| {
            Some(run.run.role(host).name().into())
        }),
        number(&rows, "uplink_bits_per_s", "configured, in bits per second", |(run, host, _)| {
            run.run.bandwidths(host)?.up
        }),
        number(&rows, "downlink_bits_per_s", "configured, in bits per second", |(run, host, _)| {
            run.run.bandwidths(host)?.down
        }),
        number(&rows, "sent_bytes", "IP packets that it sent in the span, in bytes", bytes(false)),
        number(&rows, "received_bytes", "IP packets that it received in the span, in bytes", bytes(true)),
        number(
            &rows,
            "utilisation",
            "sent over what the uplink could have sent in the span, as a share of 1",
            |(.., used)| used.map(|(mean, _)| mean),
        ),
        number(&rows, "utilisation_p95", "its 95th percentile over intervals, as a share of 1", |(.., used)| {
            used.map(|(_, p95)| p95)
        }),
    ]);
    Table { name: "relays", about: "All relays, authorities and bridges.", columns }
}

pub fn public(context: &Context) -> Table {
    let rows = public::all(context);
    let columns = vec![
        text(&rows, "subject", "the run or group, as the report calls it", |row| Some(row.subject.as_str().into())),
        text(&rows, "quantity", "what is compared, as the page calls it, in base units", |row| {
            Some(row.name.as_str().into())
        }),
        number(&rows, "value", "its median or share; of a group, the mean over runs", |row| Some(row.value.mean)),
        number(&rows, "error", "half the 95 % confidence interval of a group's value", |row| row.value.error),
        number(&rows, "q1", "first quartile here, where the quantity has one", |row| row.quartiles.map(|both| both.0)),
        number(&rows, "q3", "third quartile here, where the quantity has one", |row| row.quartiles.map(|both| both.1)),
        number(&rows, "public_q1", "first quartile of the public network", |row| Some(row.public.quartiles()[0])),
        number(&rows, "public_median", "median of the public network", |row| Some(row.public.quartiles()[1])),
        number(&rows, "public_q3", "third quartile of the public network", |row| Some(row.public.quartiles()[2])),
        text(&rows, "measured", "where and when the public values were measured", |row| {
            Some(row.public.label.as_str().into())
        }),
        text(&rows, "verdict", "whether the value lies below, within or above the public quartiles", |row| {
            Some(row.verdict().name().into())
        }),
    ];
    Table { name: "public", about: "Values of runs and groups beside those of the public Tor network.", columns }
}

pub fn differences(context: &Context) -> Table {
    let rows = differences::all(context);
    let columns = vec![
        text(&rows, "first", "the group that others are compared with: the report's first", |row| {
            Some(row.first.as_str().into())
        }),
        text(&rows, "second", "the group that is compared with it", |row| Some(row.second.as_str().into())),
        text(&rows, "quantity", "what is compared, as the page calls it, in base units", |row| {
            Some(row.quantity.as_str().into())
        }),
        integer(&rows, "pairs", "runs of the same seed", |row| Some(row.difference.pairs as u64)),
        number(&rows, "first_mean", "over the first group's runs", |row| Some(row.difference.first)),
        number(&rows, "second_mean", "over the second group's runs", |row| Some(row.difference.second)),
        number(&rows, "difference", "mean over pairs of the second's less the first's", |row| {
            Some(row.difference.mean)
        }),
        number(&rows, "error", "half the width of its 95 % confidence interval", |row| row.difference.error),
        number(&rows, "effect", "Cohen's d of paired samples", |row| row.difference.effect),
        number(&rows, "p", "of a two-sided paired t test", |row| row.difference.p),
        number(&rows, "p_adjusted", "the same for all quantities of the second group together (Holm)", |row| {
            row.p_adjusted
        }),
        number(&rows, "p_permutation", "of a two-sided permutation test over signs", |row| {
            Some(row.difference.p_permutation)
        }),
        truth(&rows, "differs", "whether p_adjusted is below 0.05", differences::Compared::differs),
    ];
    Table { name: "differences", about: "How groups differ from the first one, by runs of the same seed.", columns }
}

impl<'a> Named<'a> {
    fn run(&self) -> &'a Run {
        self.run
    }

    fn transfers(&self) -> impl Iterator<Item = (&Named<'a>, &'a crate::run::Transfer)> {
        self.run.transfers.iter().map(move |transfer| (self, transfer))
    }

    fn circuits(&self) -> impl Iterator<Item = (&Named<'a>, &'a crate::run::Circuit)> {
        self.run.circuits.iter().map(move |circuit| (self, circuit))
    }
}
