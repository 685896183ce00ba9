//! `imux`: designs of what lies between two relays of Tor, by what clients wait for.

use super::{Findings, Lab, cell, imux_attack, imux_sockets, point, words};
use crate::case::{Case, Clients, Experiment, PARALLELISM, Setting, Size};
use crate::claim::{Bound, Claim, Judgement, Publication, Source};
use crate::measurements::Measurements;
use crate::page::shown;
use crate::reading::{Downloads, Reading, WALL};
use report::Estimate;
use report::chart::{Along, Axis, Chart, Figure, Ink, Plot, Point, Series, Unit};
use report::html::Table;

pub const LAB: Lab = Lab {
    name: "imux",
    title: "Connections between relays: vanilla, Torchestra, PCTCP and IMUX",
    about: "downloads through a Tor network by the design of the connections between relays",
    publications: &[&PAPER],
    published: "Patched tors of 2014 (0.2.5.2-alpha) in a simulated network of 500 relays, 1,350 web, 150 bulk and 300 measuring clients. With round robin, IMUX \
                lets half of the web downloads take at least 12 % less time than vanilla, 29 % of them more than 20 % less; the upper quartile falls from \
                4.5 to 3.3 s. Torchestra and PCTCP are as vanilla. IMUX by EWMA mapping and by shortest queue is worse than vanilla. With KIST all are \
                faster, and IMUX has later first bytes for 40 % and faster bulk downloads for 87 %.",
    measured: "The same numbers of clients for each relay, in networks of 'gnomon tor new' whose relays are gnomon-relays (docs/relays.md) and whose clients are \
               today's tor or light ones (--clients), with fixed windows as in 2014, circuits by EWMA, and circuits' labels from the experiment. Relays' lines are the built-in \
               model's times one factor, which was chosen once for vanilla's upper quartile of web. Each repetition is a network of another seed, \
               which all designs share.",
    figures: &[
        ("5", "IMUX's schedulers of connections"),
        ("7", "vanilla, Torchestra, PCTCP and IMUX"),
        (EIGHT, "the same with KIST, as published in 2014 and as tor has it today"),
        (LOSS, "figure 7 with one packet in a hundred lost between relays; not in the paper"),
        (IPSEC, "PCTCP with TLS, and with ESP instead; not in the paper"),
        ("2b", "what a relay relays while its sockets are used up, without IMUX"),
        ("6", "the same with IMUX"),
        ("2c", "memory of a million sockets, natively and simulated"),
        ("3", "throughput, and time to open a socket, by open sockets, natively and simulated"),
    ],
    cases,
    findings,
};

pub(super) const PAPER: Publication = Publication {
    short: "Geddes, Jansen and Hopper 2014",
    authors: "John Geddes, Rob Jansen and Nicholas Hopper",
    title: "IMUX: Managing Tor Connections from Two to Infinity, and Beyond",
    place: "Workshop on Privacy in the Electronic Society, 2014",
};

/// Figures about downloads: those that can be asked for, and the half of figure 8 that comes with it.
const PLOTS: [&str; 6] = ["5", "7", EIGHT, EIGHT_TODAY, LOSS, IPSEC];

/// With KIST as it was published in 2014, as in the paper.
const EIGHT: &str = "8";

/// Figure 8 with today's KIST, which comes with figure 8.
const EIGHT_TODAY: &str = "8-today";

/// What relays' lines are multiplied by, so that the upper quartile of vanilla's web downloads is near the published 4.5 s. It was
/// chosen once, at scale 0.1, by two seeds that the laboratory's figures do not use (4.55 and 3.57 s), and nothing else was.
const LINES: f64 = 0.06;

/// The figure that is not the paper's: figure 7's designs where one packet in a hundred is lost between relays.
const LOSS: &str = "loss";

/// Nor this one: a connection for each circuit with TLS, as the paper evaluated it, and with ESP in its place, as it was proposed for use.
const IPSEC: &str = "ipsec";

/// A design, and the figures that show it.
struct Design {
    key: &'static str,
    title: &'static str,
    figures: &'static [&'static str],
    options: &'static [&'static str],
}

const VANILLA: &str = "vanilla";
const DESIGNS: [Design; 18] = [
    Design {
        key: VANILLA,
        title: "vanilla",
        figures: &["5", "7", EIGHT, EIGHT_TODAY, IPSEC],
        options: &["--scheduler=vanilla", "--link-design=vanilla"],
    },
    Design {
        key: "torchestra",
        title: "Torchestra",
        figures: &["7"],
        options: &["--scheduler=vanilla", "--link-design=torchestra"],
    },
    Design {
        key: "pctcp",
        title: "PCTCP",
        figures: &["7", IPSEC],
        options: &["--scheduler=vanilla", "--link-design=pctcp"],
    },
    Design {
        key: "pctcp-ipsec",
        title: "PCTCP, ESP in place of TLS",
        figures: &[IPSEC],
        options: &["--scheduler=vanilla", "--link-design=pctcp-ipsec"],
    },
    Design {
        key: "imux",
        title: "IMUX",
        figures: &["5", "7"],
        options: &["--scheduler=vanilla", "--link-design=imux", "--connection-scheduler=circuit-rr"],
    },
    Design {
        key: "imux-ewma",
        title: "IMUX, EWMA mapping",
        figures: &["5"],
        options: &["--scheduler=vanilla", "--link-design=imux", "--connection-scheduler=ewma-mapping"],
    },
    Design {
        key: "imux-shortest",
        title: "IMUX, shortest queue",
        figures: &["5"],
        options: &["--scheduler=vanilla", "--link-design=imux", "--connection-scheduler=shortest-queue"],
    },
    Design {
        key: "vanilla-kist-2014",
        title: "vanilla, KIST of 2014",
        figures: &[EIGHT],
        options: &["--scheduler=kist", "--kist-formula=2014", "--link-design=vanilla"],
    },
    Design {
        key: "torchestra-kist-2014",
        title: "Torchestra, KIST of 2014",
        figures: &[EIGHT],
        options: &["--scheduler=kist", "--kist-formula=2014", "--link-design=torchestra"],
    },
    Design {
        key: "pctcp-kist-2014",
        title: "PCTCP, KIST of 2014",
        figures: &[EIGHT],
        options: &["--scheduler=kist", "--kist-formula=2014", "--link-design=pctcp"],
    },
    Design {
        key: "imux-kist-2014",
        title: "IMUX, KIST of 2014",
        figures: &[EIGHT],
        options: &["--scheduler=kist", "--kist-formula=2014", "--link-design=imux", "--connection-scheduler=kist"],
    },
    Design {
        key: "vanilla-kist",
        title: "vanilla, today's KIST",
        figures: &[EIGHT_TODAY],
        options: &["--scheduler=kist", "--link-design=vanilla"],
    },
    Design {
        key: "torchestra-kist",
        title: "Torchestra, today's KIST",
        figures: &[EIGHT_TODAY],
        options: &["--scheduler=kist", "--link-design=torchestra"],
    },
    Design {
        key: "pctcp-kist",
        title: "PCTCP, today's KIST",
        figures: &[EIGHT_TODAY],
        options: &["--scheduler=kist", "--link-design=pctcp"],
    },
    Design {
        key: "imux-kist",
        title: "IMUX, today's KIST",
        figures: &[EIGHT_TODAY],
        options: &["--scheduler=kist", "--link-design=imux", "--connection-scheduler=kist"],
    },
    Design {
        key: "vanilla-loss",
        title: "vanilla, 1 % lost",
        figures: &[LOSS],
        options: &["--scheduler=vanilla", "--link-design=vanilla", "--core-loss=0.01"],
    },
    Design {
        key: "pctcp-loss",
        title: "PCTCP, 1 % lost",
        figures: &[LOSS],
        options: &["--scheduler=vanilla", "--link-design=pctcp", "--core-loss=0.01"],
    },
    Design {
        key: "imux-loss",
        title: "IMUX, 1 % lost",
        figures: &[LOSS],
        options: &[
            "--scheduler=vanilla",
            "--link-design=imux",
            "--connection-scheduler=circuit-rr",
            "--core-loss=0.01",
        ],
    },
];

/// What clients do, and which of their times a figure is about.
#[derive(Clone, Copy)]
enum Times {
    First,
    Web,
    Bulk,
}

impl Times {
    fn of(self, reading: &Reading) -> Vec<f64> {
        let of = |behaviour: &str| reading.downloads.get(behaviour);
        let mut times = match self {
            Times::First => reading.downloads.values().flat_map(|of: &Downloads| of.first_s.iter().copied()).collect(),
            Times::Web => of("web").map(|of| of.last_s.clone()).unwrap_or_default(),
            Times::Bulk => of("bulk").map(|of| of.last_s.clone()).unwrap_or_default(),
        };
        times.sort_by(f64::total_cmp);
        times
    }
}

/// The value below which a share of them lies, linear between neighbours; not a number if there are none.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = share * last as f64;
    let (below, rest) = (place.floor() as usize, place.fract());
    sorted[below] + rest * (sorted[(below + 1).min(last)] - sorted[below])
}

/// Per cents at which two distributions are compared.
fn shares() -> impl Iterator<Item = f64> {
    (1..100).map(|percent| f64::from(percent) / 100.0)
}

/// At which share of the quantiles the first's are below so many times the second's.
fn share_below(first: &[f64], second: &[f64], times: f64) -> f64 {
    if first.is_empty() || second.is_empty() {
        return f64::NAN;
    }
    let is_below = |share: &f64| quantile(first, *share) <= times * quantile(second, *share);
    shares().filter(is_below).count() as f64 / shares().count() as f64
}

/// Whether a plot belongs to what was asked for.
fn is_wanted(setting: &Setting, plot: &str) -> bool {
    let figure = if plot == EIGHT_TODAY { EIGHT } else { plot };
    match setting.size {
        _ if !setting.figures.is_empty() => setting.figures.iter().any(|wanted| wanted == figure),
        Size::Full => true,
        _ => figure == "7",
    }
}

fn is_shown(setting: &Setting, design: &Design) -> bool {
    design.figures.iter().any(|plot| is_wanted(setting, plot))
}

fn scale(setting: &Setting) -> f64 {
    setting.scale.unwrap_or(match setting.size {
        Size::Smallest => 0.01,
        Size::Small => 0.1,
        Size::Full => 1.0,
    })
}

/// Options of `gnomon tor new` for a network of that share of the published one.
fn network(setting: &Setting) -> Vec<String> {
    let scale = scale(setting);
    let count = |published: f64| ((published * scale).round() as u64).max(1).to_string();
    let (bootstrap, settle, total) = match setting.size {
        Size::Smallest => ("75s", "5s", "110s"),
        Size::Small => ("120s", "60s", "300s"),
        Size::Full => ("300s", "300s", "2400s"),
    };
    let options = [
        ("--profile", "tiny".to_owned()),
        ("--relays", count(500.0)),
        ("--web-clients", count(1350.0)),
        ("--bulk-clients", count(150.0)),
        ("--performance-clients", count(300.0)),
        ("--performance-weights", "1,1,1".to_owned()),
        ("--servers", count(500.0)),
        ("--amount", "endless".to_owned()),
        ("--bootstrap", bootstrap.to_owned()),
        ("--settle", settle.to_owned()),
        ("--duration", total.to_owned()),
        ("--congestion-control", "fixed".to_owned()),
        ("--paths", "varied".to_owned()),
        ("--relay-bandwidth-factor", LINES.to_string()),
        ("--relay-kind", "gnomon".to_owned()),
        ("--circuit-scheduler", "ewma".to_owned()),
        ("--conn-limit", "1024".to_owned()),
        ("--imux-active", "label".to_owned()),
    ];
    let clients = (setting.clients == Clients::Light).then(|| "--client-kind=gnomon".to_owned());
    options.into_iter().map(|(name, value)| format!("{name}={value}")).chain(clients).collect()
}

/// A case's key: a share of the published network in thousandths is part of it, and what clients are if they are not tor.
fn key(setting: &Setting, design: &str) -> String {
    let clients = if setting.clients == Clients::Light { "-light" } else { "" };
    format!("{design}-{}{clients}", (scale(setting) * 1000.0).round())
}

fn cases(setting: &Setting) -> Vec<Case> {
    let case = |design: &Design| Case {
        key: key(setting, design.key),
        factors: vec![
            ("design", design.key.to_owned()),
            ("scale", scale(setting).to_string()),
            ("clients", setting.clients.name().to_owned()),
        ],
        experiment: Experiment::Downloads {
            name: format!("imux-{}", design.key),
            options: network(setting)
                .into_iter()
                .chain(design.options.iter().map(|option| (*option).to_owned()))
                .collect(),
        },
        options: vec![PARALLELISM.to_owned(), setting.processors.max(1).to_string()],
        memory_bytes: ((scale(setting) * 16.0 + 0.5) * f64::from(1 << 30)) as u64,
    };
    let designs = DESIGNS.iter().filter(|design| is_shown(setting, design)).map(case);
    designs.chain(imux_attack::cases(setting)).chain(imux_sockets::cases(setting)).collect()
}

fn findings(setting: &Setting, measurements: &Measurements) -> Findings {
    let shown: Vec<&Design> = DESIGNS.iter().filter(|design| is_shown(setting, design)).collect();
    let study = Study { setting, measurements };
    let attack = imux_attack::findings(setting, measurements).and(imux_sockets::findings(setting, measurements));
    if shown.is_empty() {
        return attack;
    }
    let wanted = PLOTS.into_iter().filter(|plot| is_wanted(setting, plot));
    let figures = wanted.flat_map(|plot| study.figures(plot, &shown)).collect();
    Findings {
        notes: vec![format!(
            "A network of {} of the published one, whose clients are {}. Relays' lines are {LINES} times those of the built-in model. A claim about the share of downloads is \
             judged by quantiles: at which share of 1 % to 99 % of the distribution one design's time is below the other's.",
            scale(setting),
            match setting.clients {
                Clients::Tor => "today's tor",
                Clients::Light => "gnomon-onion-clients",
            }
        )],
        judgements: study.judgements(&shown),
        figures,
        tables: vec![study.table(&shown)],
    }
    .and(attack)
}

struct Study<'a> {
    setting: &'a Setting,
    measurements: &'a Measurements,
}

impl Study<'_> {
    /// Of each repetition: something of the times of two designs.
    fn paired(&self, first: &str, second: &str, times: Times, of: impl Fn(&[f64], &[f64]) -> f64) -> Vec<f64> {
        let keys = [first, second].map(|design| key(self.setting, design));
        self.measurements.paired(&keys[0], &keys[1], |a, b| of(&times.of(a), &times.of(b)))
    }

    fn times(&self, design: &str, times: Times) -> Vec<Vec<f64>> {
        let key = key(self.setting, design);
        self.measurements.paired(&key, &key, |reading, _| times.of(reading))
    }

    /// Three plots, as published: first byte, web, bulk.
    fn figures(&self, figure: &str, shown: &[&Design]) -> Vec<Figure> {
        let designs: Vec<&&Design> = shown.iter().filter(|design| design.figures.contains(&figure)).collect();
        if designs.len() < 2 {
            return Vec::new();
        }
        let kinds = [
            ("first-byte", "Time to first byte, all clients", Times::First),
            ("web", "Time to last byte of 320 KiB, web clients", Times::Web),
            ("bulk", "Time to last byte of 5 MiB, bulk clients", Times::Bulk),
        ];
        let kinds = kinds.into_iter();
        kinds
            .map(|(id, title, times)| {
                let series = designs.iter().enumerate().map(|(at, design)| self.series(at, design, times));
                Figure {
                    id: format!("imux-{figure}-{id}"),
                    title: match figure {
                        LOSS => format!("One packet in a hundred lost between relays: {title}"),
                        IPSEC => format!("A connection for each circuit, by TLS or ESP: {title}"),
                        EIGHT => format!("Figure 8, KIST of 2014: {title}"),
                        EIGHT_TODAY => format!("Figure 8, today's KIST: {title}"),
                        _ => format!("Figure {figure}: {title}"),
                    },
                    subtitle: "share of the downloads, by the design of connections between relays".to_owned(),
                    caption: "Each quantile's mean over the repetitions, with 95 % intervals at some. In brackets: the downloads of all repetitions.".to_owned(),
                    chart: Chart::Plot(Plot {
                        x: Axis::new("Time", "time_s", Unit::Seconds),
                        y: Axis::new("Share of downloads", "share", Unit::Share).from(0.0),
                        series: series.filter(|series| !series.points.is_empty()).collect(),
                        interval: Along::X,
                        names_at_ends: false,
                        moments: Vec::new(),
                        reference: None,
                    }),
                }
            })
            .collect()
    }

    fn series(&self, at: usize, design: &Design, times: Times) -> Series {
        let runs = self.times(design.key, times);
        let at_share = |(place, share): (usize, f64)| {
            let values: Vec<f64> = runs.iter().map(|times| quantile(times, share)).collect();
            let found = point(0.0, &values)?;
            let interval = found.interval.filter(|_| (place + 1) % 10 == 0);
            Some(Point { x: found.y, y: share, interval })
        };
        let downloads: usize = runs.iter().map(Vec::len).sum();
        Series {
            name: format!("{} ({downloads})", design.title),
            key: None,
            ink: Ink::solid(at),
            is_step: false,
            points: shares().enumerate().filter_map(at_share).collect(),
        }
    }

    fn table(&self, designs: &[&Design]) -> Table {
        let value = |design: &str, times: Times, share: f64| {
            let values: Vec<f64> = self.times(design, times).iter().map(|times| quantile(times, share)).collect();
            let found = Estimate::of(&values).filter(|found| found.mean.is_finite());
            found.map_or_else(|| "–".to_owned(), |found| shown(Unit::Seconds, found.mean, found.error))
        };
        let failed = |design: &str| {
            let key = key(self.setting, design);
            let share = |reading: &Reading| {
                let failed: f64 = reading.downloads.values().map(|of| of.failed).sum();
                let done: f64 = reading.downloads.values().map(|of| of.last_s.len() as f64).sum();
                failed / (failed + done)
            };
            let values = self.measurements.paired(&key, &key, |reading, _| share(reading));
            let found = Estimate::of(&values).filter(|found| found.mean.is_finite());
            found.map_or_else(|| "–".to_owned(), |found| shown(Unit::Share, found.mean, found.error))
        };
        let downloads = |design: &str| {
            let key = key(self.setting, design);
            let counts = self.measurements.paired(&key, &key, |reading, _| {
                reading.downloads.values().map(|of| of.last_s.len() as f64).sum::<f64>()
            });
            (counts.iter().sum::<f64>() as u64).to_string()
        };
        let row = |design: &&Design| {
            vec![
                design.title.to_owned(),
                downloads(design.key),
                value(design.key, Times::First, 0.5),
                value(design.key, Times::Web, 0.5),
                value(design.key, Times::Web, 0.75),
                value(design.key, Times::Bulk, 0.5),
                failed(design.key),
                cell(self.measurements, &key(self.setting, design.key), WALL),
            ]
        };
        Table {
            title:
                "Downloads of all repetitions, their medians and upper quartile, those that failed, and time of a run"
                    .to_owned(),
            header: words(&[
                "Design",
                "Downloads",
                "First byte",
                "Web",
                "Web, upper quartile",
                "Bulk",
                "Failed",
                "Run time",
            ]),
            rows: designs.iter().map(row).collect(),
            text_columns: 1,
        }
    }

    fn judgements(&self, designs: &[&Design]) -> Vec<Judgement> {
        let is_there = |key: &str| designs.iter().any(|design| design.key == key);
        let obstacle =
            || (scale(self.setting) < 0.2).then(|| "such a network is too small for a verdict: --scale 0.2".to_owned());
        let claim = |passage, statement: &str, published: &str, bound, unit| Claim {
            statement: statement.to_owned(),
            published: published.to_owned(),
            source: Source { publication: &PAPER, passage },
            bound,
            unit,
        };
        let ratio_at = |share: f64| move |a: &[f64], b: &[f64]| quantile(a, share) / quantile(b, share);
        let faster = |by: f64| move |a: &[f64], b: &[f64]| share_below(a, b, 1.0 - by);
        let mut all = Vec::new();
        let mut add = |first: &str, second: &str, times, of: &dyn Fn(&[f64], &[f64]) -> f64, claim: Claim| {
            if is_there(first) && is_there(second) {
                all.push(claim.judge(&self.paired(first, second, times, of), obstacle()));
            }
        };
        let seven = "section 5.4, Figure 7";
        add(
            "imux",
            VANILLA,
            Times::Web,
            &faster(0.12),
            claim(
                seven,
                "With IMUX at least half of the web downloads take 12 % less than with vanilla",
                "half",
                Bound::AtLeast(0.5),
                Unit::Share,
            ),
        );
        add(
            "imux",
            VANILLA,
            Times::Web,
            &faster(0.2),
            claim(
                seven,
                "With IMUX at least 29 % of the web downloads take 20 % less",
                "29 %",
                Bound::AtLeast(0.29),
                Unit::Share,
            ),
        );
        add(
            "imux",
            VANILLA,
            Times::Web,
            &ratio_at(0.75),
            claim(
                seven,
                "With IMUX the upper quartile of web downloads is at most 3.3/4.5 of vanilla's",
                "4.5 to 3.3 s: 0.73",
                Bound::AtMost(3.3 / 4.5),
                Unit::Fraction,
            ),
        );
        add(
            "imux",
            VANILLA,
            Times::Bulk,
            &faster(0.1),
            claim(
                seven,
                "With IMUX at least a tenth of the bulk downloads take 10 % less",
                "10 to 12 % for 10 %",
                Bound::AtLeast(0.1),
                Unit::Share,
            ),
        );
        add(
            "imux",
            VANILLA,
            Times::First,
            &faster(0.2),
            claim(
                seven,
                "With IMUX at least 26 % of the first bytes come 20 % sooner than with vanilla",
                "20 to 23 % for 26 %",
                Bound::AtLeast(0.26),
                Unit::Share,
            ),
        );
        add(
            "imux",
            "torchestra",
            Times::Web,
            &faster(0.25),
            claim(
                "abstract",
                "With IMUX some web downloads (1 % at least) take 25 % less than with Torchestra",
                "up to 25 %",
                Bound::AtLeast(0.01),
                Unit::Share,
            ),
        );
        for (other, title) in [("torchestra", "Torchestra"), ("pctcp", "PCTCP")] {
            add(
                "imux",
                other,
                Times::First,
                &faster(0.2),
                claim(
                    seven,
                    &format!("With IMUX at least 11 % of the first bytes come 20 % sooner than with {title}"),
                    "11 %",
                    Bound::AtLeast(0.11),
                    Unit::Share,
                ),
            );
            add(
                other,
                VANILLA,
                Times::Web,
                &ratio_at(0.5),
                claim(
                    seven,
                    &format!("{title} is as vanilla: its median of web downloads is within a twentieth"),
                    "identical",
                    Bound::Between(0.95, 1.05),
                    Unit::Fraction,
                ),
            );
        }
        let lost = |statement: &str| format!("Where one packet in a hundred is lost between relays: {statement}");
        for (design, title) in [("imux-loss", "IMUX"), ("pctcp-loss", "PCTCP")] {
            add(
                design,
                "vanilla-loss",
                Times::Web,
                &faster(0.12),
                claim(
                    seven,
                    &lost(&format!("with {title} at least half of the web downloads take 12 % less than with vanilla")),
                    "half, for IMUX; what was lost is not told",
                    Bound::AtLeast(0.5),
                    Unit::Share,
                ),
            );
            add(
                design,
                "vanilla-loss",
                Times::First,
                &faster(0.2),
                claim(
                    seven,
                    &lost(&format!("with {title} at least 26 % of the first bytes come 20 % sooner than with vanilla")),
                    "20 to 23 % for 26 %, for IMUX",
                    Bound::AtLeast(0.26),
                    Unit::Share,
                ),
            );
        }
        let five = "section 5.4, Figure 5";
        for (other, title) in [("imux-ewma", "EWMA mapping"), ("imux-shortest", "shortest queue")] {
            add(
                other,
                VANILLA,
                Times::Web,
                &ratio_at(0.5),
                claim(
                    five,
                    &format!("IMUX by {title} is worse than vanilla: its median of web downloads is larger"),
                    "worse",
                    Bound::AtLeast(1.0),
                    Unit::Fraction,
                ),
            );
            add(
                "imux",
                other,
                Times::Web,
                &ratio_at(0.5),
                claim(
                    five,
                    &format!("IMUX by round robin is better than by {title}: its median of web downloads is smaller"),
                    "better",
                    Bound::AtMost(1.0),
                    Unit::Fraction,
                ),
            );
        }
        add(
            "imux-ewma",
            "imux-shortest",
            Times::Web,
            &ratio_at(0.5),
            claim(
                five,
                "IMUX by EWMA mapping is better than by shortest queue: its median of web downloads is smaller",
                "slightly better",
                Bound::AtMost(1.0),
                Unit::Fraction,
            ),
        );
        let eight = "section 5.4, Figure 8";
        for (kist, title) in [("kist-2014", "KIST of 2014"), ("kist", "today's KIST")] {
            let (vanilla, imux) = (format!("vanilla-{kist}"), format!("imux-{kist}"));
            add(
                &vanilla,
                VANILLA,
                Times::Web,
                &ratio_at(0.5),
                claim(
                    eight,
                    &format!("With {title} downloads are faster: vanilla's median of web downloads is smaller with it"),
                    "improved",
                    Bound::AtMost(1.0),
                    Unit::Fraction,
                ),
            );
            add(
                &imux,
                &vanilla,
                Times::First,
                &|a, b| 1.0 - share_below(a, b, 1.0),
                claim(
                    eight,
                    &format!("With {title}, IMUX has later first bytes than vanilla for at least 40 %"),
                    "40 %",
                    Bound::AtLeast(0.4),
                    Unit::Share,
                ),
            );
            add(
                &imux,
                &vanilla,
                Times::Web,
                &ratio_at(0.5),
                claim(
                    eight,
                    &format!("With {title}, IMUX's web downloads are slower: its median is larger than vanilla's"),
                    "slower",
                    Bound::AtLeast(1.0),
                    Unit::Fraction,
                ),
            );
            add(
                &imux,
                &vanilla,
                Times::Bulk,
                &faster(0.1),
                claim(
                    eight,
                    &format!("With {title}, IMUX's bulk downloads take 10 % less than vanilla's for at least 87 %"),
                    "10 to 28 % for 87 %",
                    Bound::AtLeast(0.87),
                    Unit::Share,
                ),
            );
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_are_compared_by_quantiles() {
        let vanilla: Vec<f64> = (1..=100).map(f64::from).collect();
        let half: Vec<f64> = vanilla.iter().map(|time| if *time <= 50.0 { time * 0.5 } else { *time }).collect();
        assert_eq!(quantile(&[1.0, 3.0], 0.5), 2.0);
        assert!((share_below(&half, &vanilla, 0.8) - 0.5).abs() < 0.02);
        assert_eq!(share_below(&vanilla, &vanilla, 1.0), 1.0);
        assert_eq!(share_below(&vanilla, &vanilla, 0.9), 0.0);
        assert!(share_below(&[], &vanilla, 1.0).is_nan() && quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn figures_choose_designs() {
        let setting = |size, figures: &[&str]| Setting {
            scale: Some(0.2),
            clients: Clients::Tor,
            ..Setting::tried(size, figures)
        };
        let keys = |setting: &Setting| cases(setting).into_iter().map(|case| case.key).collect::<Vec<_>>();
        assert_eq!(keys(&setting(Size::Small, &[])), ["vanilla-200", "torchestra-200", "pctcp-200", "imux-200"]);
        assert_eq!(keys(&setting(Size::Small, &["5"])).len(), 4);
        let eight = keys(&setting(Size::Small, &["8"]));
        assert_eq!(eight.len(), 9);
        assert!(eight.contains(&"imux-kist-200".to_owned()) && eight.contains(&"imux-kist-2014-200".to_owned()));
        assert_eq!(keys(&setting(Size::Full, &[])).len(), DESIGNS.len() + 4 + 7);
        let light = Setting { clients: Clients::Light, ..setting(Size::Small, &[]) };
        assert_eq!(keys(&light)[0], "vanilla-200-light");
        assert!(network(&light).contains(&"--client-kind=gnomon".to_owned()));
        let options = network(&setting(Size::Small, &[]));
        assert!(
            options.contains(&"--relays=100".to_owned()) && options.contains(&"--web-clients=270".to_owned()),
            "{options:?}"
        );
    }
}
