//! Places and the latencies between them.

use crate::Error;

/// A country, or what else hosts are said to be in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// ISO 3166 code, upper case.
    pub code: String,
}

/// Places and the time that a packet takes from one to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Geography {
    pub places: Vec<Place>,
    /// One way, in milliseconds; square, by the places' indices. The diagonal is within a place.
    latency_ms: Vec<f64>,
    /// The standard deviation of latencies' logarithms, likewise.
    spread: Vec<f64>,
}

impl Geography {
    /// Reads the tables of the data files: a header of codes, then a row per place; comments begin with `#`. Both have the same places.
    pub(crate) fn parse(latencies: &str, spreads: &str) -> Result<Geography, Error> {
        let (places, latency_ms) = table(latencies)?;
        let (same, spread) = table(spreads)?;
        if places != same {
            return Err(Error::input("the tables of latencies and of their spreads are about different places"));
        }
        Ok(Geography { places, latency_ms, spread })
    }

    pub fn index(&self, code: &str) -> Option<usize> {
        self.places.iter().position(|place| place.code == code)
    }

    /// One way, in milliseconds: the median over pairs of hosts.
    pub fn latency_ms(&self, from: usize, to: usize) -> f64 {
        self.latency_ms[from * self.places.len() + to]
    }

    /// The standard deviation of its logarithm over pairs of hosts.
    pub fn spread(&self, from: usize, to: usize) -> f64 {
        self.spread[from * self.places.len() + to]
    }
}

/// Places, and a number for each pair of them.
fn table(text: &str) -> Result<(Vec<Place>, Vec<f64>), Error> {
    let mut lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let header = lines.next().unwrap_or_default();
    let places: Vec<Place> = header.split(',').skip(1).map(|code| Place { code: code.to_owned() }).collect();
    let mut numbers = Vec::new();
    for field in lines.flat_map(|line| line.split(',').skip(1)) {
        numbers.push(field.parse().map_err(|_| Error::input(format!("'{field}' is no number")))?);
    }
    match numbers.len() == places.len() * places.len() {
        true => Ok((places, numbers)),
        false => Err(Error::input(format!("{} numbers for {} places", numbers.len(), places.len()))),
    }
}
