//! Hidden Markov models in the form of tgen's GraphML files (tgen `doc/TGen-Markov-Models.md`): which events happen, and how long
//! after each the next one is due.
//!
//! A walk begins in the state named "start". Each step takes one of the state's transitions, by weight, then one of the new state's
//! emissions, by weight. The emission leads to an observation and draws a delay, in microseconds, which passes before the next step.

mod graphml;

use crate::random::{Distribution, Random};
use std::path::Path;
use std::time::Duration;

/// What a step brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation {
    /// `+`: a packet from client to server, or a new stream or flow.
    ToServer,
    /// `-`: a packet from server to client, or a new stream or flow.
    ToClient,
    /// `F`: nothing more happens.
    End,
}

/// A valid model: from the start, every walk can go on until an `End`.
#[derive(Clone, Debug)]
pub struct Model {
    states: Vec<State>,
    start: usize,
}

#[derive(Clone, Debug, Default)]
struct State {
    /// Weight and next state.
    transitions: Vec<(f64, usize)>,
    emissions: Vec<Emission>,
}

#[derive(Clone, Copy, Debug)]
struct Emission {
    weight: f64,
    observation: Observation,
    delay: Distribution,
}

/// No delay is longer, as in tgen.
const LONGEST_DELAY: Duration = Duration::from_secs(600);

impl Model {
    /// Reads a GraphML file. The error names file, line, what is wrong and the remedy.
    pub fn load(path: &Path) -> Result<Model, String> {
        let text = crate::files::text(path).map_err(|error| format!("{}: {error}", path.display()))?;
        graphml::parse(&text).map_err(|problem| format!("{}:{problem}", path.display()))
    }

    /// Reads a GraphML text. The error names line, what is wrong and the remedy.
    pub fn parse(text: &str) -> Result<Model, String> {
        graphml::parse(text).map_err(|problem| problem.to_string())
    }

    /// How long a walk of at most so many steps takes.
    pub fn rehearse(&self, seed: u64, steps: usize) -> Duration {
        let (mut walk, mut random) = (self.walk(), Random::new(seed));
        let steps = (0..steps).map(|_| walk.step(self, &mut random));
        steps.take_while(|(observation, _)| *observation != Observation::End).map(|(_, delay)| delay).sum()
    }

    /// A walk from the start.
    pub fn walk(&self) -> Walk {
        Walk { state: self.start }
    }
}

/// Where a walk through a model stands.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    state: usize,
}

impl Walk {
    /// The next observation and the delay after it.
    pub fn step(&mut self, model: &Model, random: &mut Random) -> (Observation, Duration) {
        let transitions = &model.states[self.state].transitions;
        self.state = transitions[choose(transitions.iter().map(|(weight, _)| *weight), random)].1;
        let emissions = &model.states[self.state].emissions;
        let emission = emissions[choose(emissions.iter().map(|emission| emission.weight), random)];
        (emission.observation, delay(emission.delay.sample(random)))
    }
}

/// By weight; a choice of one takes no random number.
fn choose(weights: impl ExactSizeIterator<Item = f64> + Clone, random: &mut Random) -> usize {
    if weights.len() == 1 { 0 } else { random.weighted(weights) }
}

/// Whole microseconds between 0 and the ceiling.
fn delay(micros: f64) -> Duration {
    let ceiling = LONGEST_DELAY.as_micros() as f64;
    Duration::from_micros(micros.round().clamp(0.0, ceiling) as u64)
}
