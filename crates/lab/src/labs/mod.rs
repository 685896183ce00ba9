//! The laboratories: what each repeats, and how its measurements are read.
//!
//! A new one is a file with a `LAB` and a line in `LABS`.

mod imux;
mod imux_attack;
mod imux_sockets;
mod loader;
mod onion_profile;
mod phold;
mod provenance;
mod scheduling;
mod tor_large;
mod tor_threads;

use crate::case::{Case, Setting};
use crate::claim::{Judgement, Publication};
use crate::measurements::Measurements;
use crate::page::shown;
use crate::reading::Quantity;
use report::Estimate;
use report::chart::{Bar, Figure, Point};
use report::html::Table;

/// A laboratory.
#[derive(Debug)]
pub struct Lab {
    /// As the command line names it.
    pub name: &'static str,
    pub title: &'static str,
    /// For lists: what is measured, in a few words.
    pub about: &'static str,
    pub publications: &'static [&'static Publication],
    /// What was published, and what is measured here.
    pub published: &'static str,
    pub measured: &'static str,
    /// Figures that can be asked for one by one: the name, and what it shows.
    pub figures: &'static [(&'static str, &'static str)],
    pub cases: fn(&Setting) -> Vec<Case>,
    pub findings: fn(&Setting, &Measurements) -> Findings,
}

/// What a laboratory's measurements say.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    pub notes: Vec<String>,
    pub judgements: Vec<Judgement>,
    pub figures: Vec<Figure>,
    pub tables: Vec<Table>,
}

impl Findings {
    /// These, and then the others.
    fn and(mut self, others: Findings) -> Findings {
        self.notes.extend(others.notes);
        self.judgements.extend(others.judgements);
        self.figures.extend(others.figures);
        self.tables.extend(others.tables);
        self
    }
}

/// All laboratories.
pub const LABS: &[Lab] =
    &[loader::LAB, phold::LAB, tor_threads::LAB, tor_large::LAB, provenance::LAB, imux::LAB, onion_profile::LAB];

/// The laboratory of that name.
pub fn find(name: &str) -> Option<&'static Lab> {
    LABS.iter().find(|lab| lab.name == name)
}

const THESIS: Publication = Publication {
    short: "Tracey 2017",
    authors: "Justin Tracey",
    title: "Building a Better Tor Experimentation Platform from the Magic of Dynamic ELFs",
    place: "Master\u{2019}s thesis, University of Waterloo, 2017",
};

const PAPER: Publication = Publication {
    short: "Tracey, Jansen and Goldberg 2018",
    authors: "Justin Tracey, Rob Jansen and Ian Goldberg",
    title: "High Performance Tor Experimentation from the Magic of Dynamic ELFs",
    place: "Workshop on Cyber Security Experimentation and Test, 2018",
};

/// A cell with a quantity's mean and interval.
fn cell(measurements: &Measurements, key: &str, quantity: Quantity) -> String {
    let estimate = measurements.estimate(key, quantity).filter(|estimate| estimate.mean.is_finite());
    estimate.map_or_else(|| "–".to_owned(), |estimate| shown(quantity.unit, estimate.mean, estimate.error))
}

/// A point of a figure with its interval; none if nothing was measured.
fn point(x: f64, values: &[f64]) -> Option<Point> {
    let estimate = Estimate::of(values)?;
    estimate.mean.is_finite().then(|| Point { x, y: estimate.mean, interval: estimate.low().zip(estimate.high()) })
}

/// A bar with its interval; empty if nothing was measured.
fn bar(values: &[f64]) -> Bar {
    point(0.0, values).map_or_else(Bar::default, |point| Bar {
        value: Some(point.y),
        interval: point.interval,
        mark: None,
    })
}

fn words(header: &[&str]) -> Vec<String> {
    header.iter().map(|word| (*word).to_owned()).collect()
}
