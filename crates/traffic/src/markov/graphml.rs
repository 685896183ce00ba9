//! Reads a model's GraphML (graphml.graphdrawing.org): `key` elements give attributes their names, `node` elements are states and
//! observations, `edge` elements transitions and emissions.

use super::{Emission, Model, Observation, State};
use crate::random::Distribution;
use roxmltree::{Document, Node, TextPos};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// What is wrong, and where; shown as "line:column: message".
pub struct Problem {
    line: u32,
    column: u32,
    message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

fn problem(pos: TextPos, message: impl Into<String>) -> Problem {
    Problem { line: pos.row, column: pos.col, message: message.into() }
}

/// What a vertex stands for.
#[derive(Clone, Copy)]
enum Vertex {
    State(usize),
    Observation(Observation),
}

/// A vertex or edge with its attributes.
struct Element<'a> {
    node: Node<'a, 'a>,
    /// By name, in place of by key.
    attributes: BTreeMap<&'a str, &'a str>,
}

impl<'a> Element<'a> {
    fn problem(&self, message: impl Into<String>) -> Problem {
        problem(self.node.document().text_pos_at(self.node.range().start), message)
    }

    fn required(&self, name: &str) -> Result<&'a str, Problem> {
        let missing = || self.problem(format!("this {} lacks the attribute '{name}'", self.node.tag_name().name()));
        self.attributes.get(name).copied().ok_or_else(missing)
    }

    fn number(&self, name: &str) -> Result<f64, Problem> {
        let text = self.required(name)?;
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => Err(self.problem(format!("'{name}' is '{text}', which is no number"))),
        }
    }

    /// A number that fulfils `condition`, which `needed` puts into words.
    fn number_where(&self, name: &str, needed: &str, condition: impl Fn(f64) -> bool) -> Result<f64, Problem> {
        let number = self.number(name)?;
        let wrong = || self.problem(format!("'{name}' is {number}, but must be {needed}"));
        condition(number).then_some(number).ok_or_else(wrong)
    }
}

pub fn parse(text: &str) -> Result<Model, Problem> {
    let document = Document::parse(text).map_err(|error| problem(error.pos(), format!("not valid XML: {error}")))?;
    let graph = document.descendants().find(|node| node.tag_name().name() == "graph");
    let graph = graph.ok_or_else(|| problem(TextPos::new(1, 1), "no 'graph' element; this is no GraphML file"))?;
    let names = attribute_names(&document);
    let mut builder = Builder::default();
    for node in graph.children().filter(|node| node.tag_name().name() == "node") {
        builder.vertex(&element(node, &names))?;
    }
    for node in graph.children().filter(|node| node.tag_name().name() == "edge") {
        builder.edge(&element(node, &names))?;
    }
    builder.finish(problem(document.text_pos_at(graph.range().start), ""))
}

/// The names of attributes by the ids of their keys.
fn attribute_names<'a>(document: &'a Document) -> BTreeMap<&'a str, &'a str> {
    let keys = document.descendants().filter(|node| node.tag_name().name() == "key");
    keys.filter_map(|key| Some((key.attribute("id")?, key.attribute("attr.name")?))).collect()
}

fn element<'a>(node: Node<'a, 'a>, names: &BTreeMap<&'a str, &'a str>) -> Element<'a> {
    let data = node.children().filter(|child| child.tag_name().name() == "data");
    let attributes = data.filter_map(|data| Some((*names.get(data.attribute("key")?)?, data.text()?.trim())));
    Element { node, attributes: attributes.filter(|(_, value)| !value.is_empty()).collect() }
}

#[derive(Default)]
struct Builder<'a> {
    vertices: BTreeMap<&'a str, Vertex>,
    states: Vec<State>,
    /// For messages.
    state_names: Vec<String>,
    start: Option<usize>,
}

impl<'a> Builder<'a> {
    fn vertex(&mut self, element: &Element<'a>) -> Result<(), Problem> {
        let id = element.node.attribute("id").ok_or_else(|| element.problem("this node lacks an id"))?;
        let name = element.required("name")?;
        let is_start = name.eq_ignore_ascii_case("start");
        // tgen lets the start do without a type.
        let kind = if is_start { "state" } else { element.required("type")? };
        let vertex = match kind.to_ascii_lowercase().as_str() {
            "state" => {
                self.states.push(State::default());
                self.state_names.push(name.into());
                let index = self.states.len() - 1;
                if is_start && self.start.replace(index).is_some() {
                    return Err(element.problem("a second state named 'start'; a model has one"));
                }
                Vertex::State(index)
            }
            "observation" => Vertex::Observation(match name {
                "+" => Observation::ToServer,
                "-" => Observation::ToClient,
                "F" | "f" => Observation::End,
                _ => return Err(element.problem(format!("observation '{name}'; its name must be '+', '-' or 'F'"))),
            }),
            _ => return Err(element.problem(format!("type '{kind}'; a node is a 'state' or an 'observation'"))),
        };
        match self.vertices.insert(id, vertex) {
            None => Ok(()),
            Some(_) => Err(element.problem(format!("a second node with the id '{id}'"))),
        }
    }

    fn edge(&mut self, element: &Element<'a>) -> Result<(), Problem> {
        let source = self.end(element, "source")?;
        let target = self.end(element, "target")?;
        let weight = element.number_where("weight", "0 or more", |weight| weight >= 0.0)?;
        let kind = element.required("type")?;
        match (kind.to_ascii_lowercase().as_str(), source, target) {
            ("transition", Vertex::State(from), Vertex::State(to)) => {
                self.states[from].transitions.push((weight, to));
            }
            ("emission", Vertex::State(from), Vertex::Observation(observation)) => {
                let delay = distribution(element)?;
                self.states[from].emissions.push(Emission { weight, observation, delay });
            }
            ("transition", ..) => return Err(element.problem("a transition leads from a state to a state")),
            ("emission", ..) => return Err(element.problem("an emission leads from a state to an observation")),
            _ => {
                return Err(element.problem(format!("type '{kind}'; an edge is a 'transition' or an 'emission'")));
            }
        }
        Ok(())
    }

    fn end(&self, element: &Element<'a>, which: &str) -> Result<Vertex, Problem> {
        let id = element.node.attribute(which).unwrap_or_default();
        let unknown = || element.problem(format!("{which} '{id}' is no node of the graph"));
        self.vertices.get(id).copied().ok_or_else(unknown)
    }

    /// Checks that a walk never gets stuck.
    fn finish(self, at: Problem) -> Result<Model, Problem> {
        let wrong = |message: String| Err(Problem { message, ..at });
        let Some(start) = self.start else {
            return wrong("no state is named 'start'; a model begins in one".into());
        };
        let mut reached = vec![false; self.states.len()];
        let mut open = VecDeque::from([start]);
        while let Some(index) = open.pop_front() {
            let state = &self.states[index];
            let name = &self.state_names[index];
            let transitions = state.transitions.iter().filter(|(weight, _)| *weight > 0.0);
            if transitions.clone().count() == 0 && (index == start || can_go_on(state)) {
                return wrong(format!("state '{name}' has no transition with a weight above 0; add one"));
            }
            for &(_, next) in transitions {
                if !self.states[next].emissions.iter().any(|emission| emission.weight > 0.0) {
                    let next = &self.state_names[next];
                    return wrong(format!("state '{next}' has no emission with a weight above 0; add one"));
                }
                if !std::mem::replace(&mut reached[next], true) {
                    open.push_back(next);
                }
            }
        }
        Ok(Model { states: self.states, start })
    }
}

/// Whether a walk that reaches the state may have a step after it.
fn can_go_on(state: &State) -> bool {
    state.emissions.iter().any(|emission| emission.weight > 0.0 && emission.observation != Observation::End)
}

fn distribution(element: &Element) -> Result<Distribution, Problem> {
    let name = element.required("distribution")?;
    let at_least_0 = |name| element.number_where(name, "0 or more", |n| n >= 0.0);
    let above_0 = |name| element.number_where(name, "above 0", |n| n > 0.0);
    Ok(match name.to_ascii_lowercase().as_str() {
        "uniform" => {
            let low = element.number("param_low")?;
            Distribution::Uniform { low, high: element.number_where("param_high", "at least param_low", |n| n >= low)? }
        }
        "normal" => Distribution::Normal { location: at_least_0("param_location")?, scale: at_least_0("param_scale")? },
        "lognormal" => {
            Distribution::LogNormal { location: at_least_0("param_location")?, scale: at_least_0("param_scale")? }
        }
        "exponential" => Distribution::Exponential { rate: above_0("param_rate")? },
        "pareto" => Distribution::Pareto { scale: at_least_0("param_scale")?, shape: above_0("param_shape")? },
        _ => {
            let known = "uniform, normal, lognormal, exponential, pareto";
            return Err(element.problem(format!("distribution '{name}'; use one of {known}")));
        }
    })
}
