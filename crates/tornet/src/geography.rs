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
}

impl Geography {
    pub(crate) fn new(places: Vec<Place>, latency_ms: Vec<f64>) -> Geography {
        assert_eq!(latency_ms.len(), places.len() * places.len(), "a square matrix");
        Geography { places, latency_ms }
    }

    /// Reads the table of the data file: a header of codes, then a row per place; comments begin with `#`.
    pub(crate) fn parse(text: &str) -> Result<Geography, Error> {
        let mut lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let header = lines.next().unwrap_or_default();
        let places: Vec<Place> = header.split(',').skip(1).map(|code| Place { code: code.to_owned() }).collect();
        let mut latencies = Vec::new();
        for line in lines {
            for field in line.split(',').skip(1) {
                latencies
                    .push(field.parse().map_err(|_| Error::input(format!("'{field}' is no latency in milliseconds")))?);
            }
        }
        Ok(Geography::new(places, latencies))
    }

    pub fn index(&self, code: &str) -> Option<usize> {
        self.places.iter().position(|place| place.code == code)
    }

    /// One way, in milliseconds.
    pub fn latency_ms(&self, from: usize, to: usize) -> f64 {
        self.latency_ms[from * self.places.len() + to]
    }
}
