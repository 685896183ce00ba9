//! The network graph (GML): a node per place and kind of line that some host is attached to, and an edge for each pair.

use crate::network::{Attachment, Network};
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
        let place = &network.geography.places[attachment.place].code;
        match attachment.link {
            None => place.clone(),
            Some(link) => format!("{place} {}", network.spec.client_links[link].name),
        }
    }

    /// Latency of the host's own line in milliseconds, and its loss.
    fn line(network: &Network, attachment: Attachment) -> (f64, f64) {
        attachment.link.map_or((0.0, 0.0), |link| {
            let class = &network.spec.client_links[link];
            (class.latency.as_nanos() as f64 / 1e6, class.loss)
        })
    }

    pub(crate) fn gml(&self, network: &Network) -> String {
        let mut text = String::from(
            "# Written by gnomon tor new. Nodes are countries, and the kinds of lines of homes in them.\ngraph [\n  directed 0\n",
        );
        for (attachment, id) in &self.0 {
            let label = Self::label(network, *attachment);
            let _ = writeln!(
                text,
                "  node [ id {id} label \"{label}\" host_bandwidth_down \"1 Gbit\" host_bandwidth_up \"1 Gbit\" ]"
            );
        }
        for (from, from_id) in &self.0 {
            for (to, to_id) in self.0.range(from..) {
                let ((from_ms, from_loss), (to_ms, to_loss)) = (Self::line(network, *from), Self::line(network, *to));
                let latency = network.geography.latency_ms(from.place, to.place) + from_ms + to_ms;
                let _ = write!(
                    text,
                    "  edge [ source {from_id} target {to_id} latency \"{} us\"",
                    (latency * 1000.0).round()
                );
                let loss = 1.0 - (1.0 - from_loss) * (1.0 - to_loss);
                if loss > 0.0 {
                    let _ = write!(text, " packet_loss {loss:.6}");
                }
                text += " ]\n";
            }
        }
        text + "]\n"
    }
}
