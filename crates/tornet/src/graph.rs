//! The network graph (GML): a node per place and kind of line that some host is attached to, and an edge for each pair.

use crate::network::{Attachment, Network};
use crate::paths::{self, JITTER_STEP_MS, PathModel};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The graph's nodes, numbered in the order of attachments.
#[derive(Debug)]
pub(crate) struct Nodes(BTreeMap<Attachment, usize>);

impl Nodes {
    pub(crate) fn of(network: &Network) -> Nodes {
        let mut nodes: BTreeMap<Attachment, usize> = network.hosts.iter().map(|host| (host.attachment, 0)).collect();
        for (number, id) in nodes.values_mut().enumerate() {
            *id = number;
        }
        Nodes(nodes)
    }

    pub(crate) fn id(&self, attachment: Attachment) -> usize {
        self.0[&attachment]
    }

    fn label(network: &Network, attachment: Attachment) -> String {
        let mut label = network.geography.places[attachment.place].code.clone();
        if network.spec.paths == PathModel::Varied {
            let _ = write!(label, " {}", attachment.site + 1);
        }
        if let Some(link) = attachment.link {
            let _ = write!(label, " {}", network.spec.client_links[link].name);
        }
        label
    }

    /// In the form that Shadow's reader wants: a line for each key, no comments, no numbers of packets lost but with a point.
    pub(crate) fn gml(&self, network: &Network) -> String {
        let (about, step) = match network.spec.paths {
            PathModel::Even => ("Nodes are countries, and the kinds of lines of homes in them.", String::new()),
            PathModel::Varied => (
                "Nodes are sites in countries, and the kinds of lines of homes at them. jitter_step is Gnomon's own: delays drift from one \
                 value to the next in this time.",
                format!("  jitter_step \"{JITTER_STEP_MS} ms\"\n"),
            ),
        };
        let mut text = format!("graph [\n  directed 0\n  comment \"Written by gnomon tor new. {about}\"\n{step}");
        for (attachment, id) in &self.0 {
            let label = Self::label(network, *attachment);
            let _ = writeln!(
                text,
                "  node [\n    id {id}\n    label \"{label}\"\n    host_bandwidth_down \"1 Gbit\"\n    host_bandwidth_up \"1 Gbit\"\n  ]"
            );
        }
        for (from, from_id) in &self.0 {
            for (to, to_id) in self.0.range(from..) {
                let way = paths::way(network, *from, *to);
                let us = |ms: f64| (ms * 1000.0).round();
                let latency = us(way.latency_ms);
                let _ =
                    writeln!(text, "  edge [\n    source {from_id}\n    target {to_id}\n    latency \"{latency} us\"");
                if us(way.jitter_ms) > 0.0 {
                    let _ = writeln!(text, "    jitter \"{} us\"", us(way.jitter_ms));
                }
                if way.loss > 0.0 {
                    let _ = writeln!(text, "    packet_loss {:.6}", way.loss);
                }
                text += "  ]\n";
            }
        }
        text + "]\n"
    }
}
