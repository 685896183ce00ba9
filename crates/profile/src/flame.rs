//! Flame graphs as SVG: who calls whom from the bottom up, each as wide as the processor time that it and what it calls take.
//!
//! Between two profiles, colours say what has become more (red) and less (blue); widths are the second one's.

use crate::record::Unit;
use crate::tables::{Selection, label};
use report::chart::escape;
use std::collections::BTreeMap;
use std::fmt::Write;

const WIDTH: f64 = 960.0;
const ROW: f64 = 17.0;
const TEXT: f64 = 11.0;
/// About the width of a letter.
const LETTER: f64 = 6.1;
/// Narrower ones are left out: nobody could see them.
const NARROWEST: f64 = 0.4;
/// Callers beyond this height are left out.
const TALLEST: usize = 200;

/// A function as it was called: what it takes with all that it calls, in one profile and in another.
#[derive(Debug, Default)]
pub(crate) struct Node {
    weights: [f64; 2],
    calls: BTreeMap<String, Node>,
}

impl Node {
    /// Adds the stacks of a selection, so that all together weigh `scale` times the processor time.
    pub(crate) fn add(&mut self, selection: &Selection<'_>, which: usize, scale: f64) {
        let labels: Vec<String> = selection.profile.functions.iter().map(label).collect();
        for (stack, weight) in selection.stacks() {
            let weight = weight as f64 * scale;
            let mut node = &mut *self;
            node.weights[which] += weight;
            for id in stack.iter().take(TALLEST) {
                node = node.calls.entry(labels[*id as usize].clone()).or_default();
                node.weights[which] += weight;
            }
        }
    }

    fn height(&self, narrowest: f64) -> usize {
        let calls = self.calls.values().filter(|node| node.shown() >= narrowest);
        1 + calls.map(|node| node.height(narrowest)).max().unwrap_or(0)
    }

    fn shown(&self) -> f64 {
        self.weights[1]
    }
}

/// Draws a tree of weights in this unit; `per` follows a value of it.
pub(crate) fn draw(root: &Node, is_difference: bool, unit: Unit, per: &str) -> String {
    let all = root.shown();
    if all <= 0.0 {
        return String::new();
    }
    let narrowest = all * NARROWEST / WIDTH;
    let height = root.height(narrowest) as f64 * ROW + 4.0;
    let mut svg = format!(
        "<svg class=\"flame\" viewBox=\"0 0 {WIDTH} {height:.0}\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" \
         font-family=\"Inter, sans-serif\" font-size=\"{TEXT}\">\n"
    );
    let mut drawing = Drawing { svg: &mut svg, all, height, narrowest, is_difference, unit, per };
    drawing.node("all", root, 0.0, 0);
    svg.push_str("</svg>\n");
    svg
}

struct Drawing<'a> {
    svg: &'a mut String,
    all: f64,
    height: f64,
    narrowest: f64,
    is_difference: bool,
    unit: Unit,
    per: &'a str,
}

impl Drawing<'_> {
    fn weight(&self, weight: f64) -> String {
        let per = self.per;
        match self.unit {
            Unit::Nanoseconds if per.is_empty() => format!("{:.3} s", weight / 1e9),
            Unit::Nanoseconds => format!("{:.3} us{per}", weight / 1e3),
            Unit::Instructions if per.is_empty() => format!("{weight:.0} instructions"),
            Unit::Instructions => format!("{weight:.1} instructions{per}"),
        }
    }

    fn node(&mut self, name: &str, node: &Node, x: f64, depth: usize) {
        let width = node.shown() / self.all * WIDTH;
        let y = self.height - (depth as f64 + 1.0) * ROW - 2.0;
        let share = 100.0 * node.shown() / self.all;
        let colour = if self.is_difference { difference_colour(node, self.all) } else { colour(name) };
        let mut title = format!("{name}\n{} ({share:.2} %)", self.weight(node.shown()));
        if self.is_difference {
            let _ = write!(title, ", before {}", self.weight(node.weights[0]));
        }
        let _ = write!(
            self.svg,
            "<g><title>{}</title><rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"{}\" fill=\"{colour}\" stroke=\"#fff\" \
             stroke-width=\"0.4\"/>",
            escape(&title),
            width.max(0.2),
            ROW - 1.0
        );
        let room = ((width - 4.0) / LETTER) as usize;
        if room >= 3 {
            let text: String = if name.chars().count() <= room {
                name.to_owned()
            } else {
                name.chars().take(room - 1).chain(['…']).collect()
            };
            let _ = write!(
                self.svg,
                "<text x=\"{:.2}\" y=\"{:.1}\" fill=\"#111\">{}</text>",
                x + 2.0,
                y + 12.0,
                escape(&text)
            );
        }
        self.svg.push_str("</g>\n");
        let mut at = x;
        for (name, call) in &node.calls {
            if call.shown() >= self.narrowest && depth < TALLEST {
                self.node(name, call, at, depth + 1);
            }
            at += call.shown() / self.all * WIDTH;
        }
    }
}

/// A warm colour that depends on the name alone.
fn colour(name: &str) -> String {
    let hash = name.bytes().fold(2_166_136_261u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(16_777_619));
    let hue = match name {
        _ if name.starts_with('[') => 200 + hash % 25,
        _ if name.ends_with("(gnomon)") => 110 + hash % 40,
        _ => 18 + hash % 38,
    };
    format!("hsl({hue},{}%,{}%)", 62 + hash / 64 % 18, 66 + hash / 4096 % 12)
}

/// Red where it has become more, blue where less, by what it is of the whole.
fn difference_colour(node: &Node, all: f64) -> String {
    let change = (node.weights[1] - node.weights[0]) / all;
    let strength = (change.abs() * 20.0).min(1.0);
    let light = 94.0 - 34.0 * strength;
    format!("hsl({},85%,{light:.0}%)", if change >= 0.0 { 8 } else { 215 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::tests::profile;

    #[test]
    fn a_graph_has_a_box_for_each_way_of_calls() {
        let profile = profile();
        let mut root = Node::default();
        root.add(&Selection::new(&profile, |row| row.process.is_some()), 1, 1.0);
        let svg = draw(&root, false, Unit::Nanoseconds, "");
        // all, main, a, a called by a, b, the call, what the simulator did.
        assert_eq!(svg.matches("<rect").count(), 7, "{svg}");
        assert!(svg.contains("<title>[sendto]\n") && svg.contains("(8.89 %)"), "{svg}");
        let svg = draw(&root, false, Unit::Instructions, "/cell");
        assert!(svg.contains("<title>[sendto]\n80.0 instructions/cell"), "{svg}");
        assert!(draw(&Node::default(), false, Unit::Nanoseconds, "").is_empty());
    }

    #[test]
    fn what_has_become_more_is_red_and_less_blue() {
        let profile = profile();
        let mut root = Node::default();
        root.add(&Selection::new(&profile, |row| row.host == Some(1)), 0, 1.0);
        root.add(&Selection::new(&profile, |row| row.host == Some(0)), 1, 1.0);
        let svg = draw(&root, true, Unit::Nanoseconds, "");
        assert!(svg.contains("hsl(8,85%,60%)"), "{svg}");
        assert!(svg.contains(", before "), "{svg}");
    }
}
