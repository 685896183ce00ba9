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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::time::Duration;

    /// As networkx writes it, with attributes of type int where it found integers.
    const SAMPLE: &str = r#"<?xml version='1.0' encoding='utf-8'?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="d6" for="edge" attr.name="param_rate" attr.type="double" />
  <key id="d5" for="edge" attr.name="param_scale" attr.type="int" />
  <key id="d4" for="edge" attr.name="param_location" attr.type="double" />
  <key id="d3" for="edge" attr.name="distribution" attr.type="string" />
  <key id="d2" for="edge" attr.name="weight" attr.type="double" />
  <key id="d1" for="edge" attr.name="type" attr.type="string" />
  <key id="n1" for="node" attr.name="name" attr.type="string" />
  <key id="n0" for="node" attr.name="type" attr.type="string" />
  <graph edgedefault="directed">
    <node id="s0"><data key="n0">state</data><data key="n1">start</data></node>
    <node id="s1"><data key="n0">state</data><data key="n1">on</data></node>
    <node id="o1"><data key="n0">observation</data><data key="n1">+</data></node>
    <node id="o2"><data key="n0">observation</data><data key="n1">-</data></node>
    <node id="o3"><data key="n0">observation</data><data key="n1">F</data></node>
    <edge source="s0" target="s1"><data key="d1">transition</data><data key="d2">1</data></edge>
    <edge source="s1" target="s1"><data key="d1">transition</data><data key="d2">1.0</data></edge>
    <edge source="s1" target="o1">
      <data key="d1">emission</data><data key="d2">0.2</data><data key="d3">normal</data><data key="d4">5000</data><data key="d5">10</data>
    </edge>
    <edge source="s1" target="o2"><data key="d1">emission</data><data key="d2">0.79</data><data key="d3">exponential</data><data key="d6">0.001</data></edge>
    <edge source="s1" target="o3"><data key="d1">emission</data><data key="d2">0.01</data><data key="d3">lognormal</data><data key="d4">30</data><data key="d5">1</data></edge>
  </graph>
</graphml>
"#;

    #[test]
    fn walks_have_the_statistics_of_their_model() {
        let model = parse(SAMPLE).map_err(|problem| problem.to_string()).expect("a model");
        let mut random = Random::new(3);
        let (mut up, mut down, mut ends) = (Vec::new(), Vec::new(), 0);
        for _ in 0..2000 {
            let mut walk = model.walk();
            loop {
                match walk.step(&model, &mut random) {
                    (Observation::ToServer, delay) => up.push(delay.as_micros() as f64),
                    (Observation::ToClient, delay) => down.push(delay.as_micros() as f64),
                    (Observation::End, delay) => {
                        // e^30 microseconds are three months: the ceiling holds.
                        assert_eq!(delay, Duration::from_secs(600));
                        ends += 1;
                        break;
                    }
                }
            }
        }
        assert_eq!(ends, 2000);
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        // Steps before an end are geometric with a mean of 99: about 198,000 in all, a fifth of them up.
        assert!((190_000..206_000).contains(&(up.len() + down.len())));
        let share = up.len() as f64 / (up.len() + down.len()) as f64;
        assert!((share - 0.2 / 0.99).abs() < 0.005, "{share}");
        assert!((mean(&up) - 5000.0).abs() < 1.0, "{}", mean(&up));
        assert!((mean(&down) - 1000.0).abs() < 15.0, "{}", mean(&down));
    }

    #[test]
    fn the_same_seed_walks_the_same_way() {
        let model = parse(SAMPLE).map_err(|problem| problem.to_string()).expect("a model");
        let steps = |seed| {
            let (mut walk, mut random) = (model.walk(), Random::new(seed));
            (0..50).map(|_| walk.step(&model, &mut random)).collect::<Vec<_>>()
        };
        assert_eq!(steps(1), steps(1));
        assert_ne!(steps(1), steps(2));
    }

    fn refusal(from: &str, to: &str) -> String {
        assert!(SAMPLE.contains(from), "{from}");
        parse(&SAMPLE.replacen(from, to, 1)).map(|_| ()).expect_err(to).to_string()
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        let cases = [
            (
                "<data key=\"n1\">-</data>",
                "<data key=\"n1\">*</data>",
                "15:5: observation '*'; its name must be '+', '-' or 'F'",
            ),
            (
                "<data key=\"n1\">start</data>",
                "<data key=\"n1\">go</data>",
                "11:3: no state is named 'start'; a model begins in one",
            ),
            (
                "<data key=\"n1\">on</data>",
                "<data key=\"n1\">start</data>",
                "13:5: a second state named 'start'; a model has one",
            ),
            (
                "exponential",
                "poisson",
                "22:5: distribution 'poisson'; use one of uniform, normal, lognormal, exponential, pareto",
            ),
            (">0.001<", ">0<", "22:5: 'param_rate' is 0, but must be above 0"),
            (">0.79<", ">-1<", "22:5: 'weight' is -1, but must be 0 or more"),
            (">0.79<", ">many<", "22:5: 'weight' is 'many', which is no number"),
            ("<data key=\"d2\">1.0</data>", "", "18:5: this edge lacks the attribute 'weight'"),
            ("target=\"o3\"", "target=\"o9\"", "23:5: target 'o9' is no node of the graph"),
            ("target=\"o3\"", "target=\"s0\"", "23:5: an emission leads from a state to an observation"),
            (
                "<data key=\"d2\">1.0</data>",
                "<data key=\"d2\">0</data>",
                "11:3: state 'on' has no transition with a weight above 0; add one",
            ),
            ("id=\"s1\"", "id=\"s0\"", "13:5: a second node with the id 's0'"),
        ];
        for (from, to, message) in cases {
            assert_eq!(refusal(from, to), message);
        }
        assert!(refusal("</graphml>", "").contains("not valid XML"));
    }

    /// The walk would have nothing to tell.
    #[test]
    fn a_state_that_is_reached_needs_an_emission() {
        let text = SAMPLE.replace("source=\"s0\" target=\"s1\"", "source=\"s0\" target=\"s0\"");
        let message = parse(&text).map(|_| ()).expect_err("no emission").to_string();
        assert_eq!(message, "11:3: state 'start' has no emission with a weight above 0; add one");
    }
}
