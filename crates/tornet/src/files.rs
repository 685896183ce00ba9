//! The files of an experiment, in memory and on disk.

use crate::graph::Nodes;
use crate::network::{Host, Network, Role};
use crate::{Error, Instead, Programs, arti, experiment, load, markov, relay_options, torrc, traffic};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Files by their path below the experiment's folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Files(BTreeMap<PathBuf, Vec<u8>>);

impl Files {
    /// Everything that `network` needs. `how` is the command line, for the experiment's head.
    pub fn of(network: &Network, programs: &Programs, how: &str) -> Files {
        let mut files = Files::default();
        let nodes = Nodes::of(network);
        files.add("gnomon.yaml", experiment::yaml(network, programs, &nodes, how));
        files.add("network.gml", nodes.gml(network));
        files.add("template/tor-network.json", experiment::network_json(network));
        for shared in torrc::shared(network, programs.obfs4proxy.as_deref()) {
            files.add(format!("template/conf/{}", shared.name), shared.text);
        }
        if let Some(text) = arti::configuration(network) {
            files.add(format!("template/conf/{}", arti::FILE), text);
        }
        files.add("template/conf/no-countries", "");
        files.add("template/conf/bandwidths", bandwidths(network));
        if let Some(labels) = relay_options::labels(network) {
            files.add("template/conf/client-labels", labels);
        }
        if network.spec.clients.markov > 0 {
            files
                .add("template/conf/flows.graphml", markov::flows(&load::warm_up(network), load::flows_per_s(network)));
            files.add("template/conf/streams.graphml", markov::streams());
            files.add("template/conf/packets.graphml", markov::packets());
        }
        for host in &network.hosts {
            files.add_host(network, host);
        }
        files
    }

    fn add(&mut self, path: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>) {
        self.0.insert(path.into(), bytes.into());
    }

    fn add_host(&mut self, network: &Network, host: &Host) {
        let folder = PathBuf::from(format!("template/hosts/{}", host.name));
        if host.role.runs_tor() && network.other_client(host) != Some(Instead::Arti) {
            self.add(folder.join("torrc"), torrc::of_host(network, host));
        }
        if let Some(identity) = &host.identity {
            self.add(folder.join("keys/secret_id_key"), identity.secret_id_key.as_str());
        }
        if let Some(keys) = &host.authority {
            self.add(folder.join("keys/authority_identity_key"), keys.identity_key.as_str());
            self.add(folder.join("keys/authority_signing_key"), keys.signing_key.as_str());
            self.add(folder.join("keys/authority_certificate"), keys.certificate.as_str());
            // A tor makes its own, which nobody else would know before the run.
            if network.has_clients(Instead::Arti) {
                self.add(folder.join("keys/ed25519_master_id_secret_key"), keys.ed25519.secret_file());
            }
        }
        if let Some(keys) = &host.onion {
            let folder = folder.join(torrc::ONION_FOLDER);
            self.add(folder.join("hostname"), format!("{}\n", keys.address));
            self.add(folder.join("hs_ed25519_secret_key"), keys.secret_key.as_slice());
            self.add(folder.join("hs_ed25519_public_key"), keys.public_key.as_slice());
        }
        if let Some(obfs4) = &host.obfs4 {
            self.add(folder.join("pt_state/obfs4_state.json"), obfs4.state.as_str());
        }
        if let Role::Client(behaviour) = host.role {
            let begin_s = experiment::Times::of(network, host).begin_s;
            self.add(folder.join("traffic.yaml"), traffic::of_client(network, host, behaviour, begin_s));
        }
    }

    /// Paths and contents, sorted by path.
    pub fn iter(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        self.0.iter().map(|(path, bytes)| (path.as_path(), bytes.as_slice()))
    }

    /// Writes all below `folder`, which must not exist. Folders are the user's alone, as tor demands of those with keys.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        if fs::symlink_metadata(folder).is_ok() {
            return Err(Error::input(format!("{} exists; remove it, or name another folder", folder.display())));
        }
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        builder.create(folder).map_err(Error::writing(folder))?;
        builder.mode(0o700);
        for (path, bytes) in self.iter() {
            let path = folder.join(path);
            if let Some(parent) = path.parent() {
                builder.create(parent).map_err(Error::writing(parent))?;
            }
            fs::write(&path, bytes).map_err(Error::writing(&path))?;
            if path.parent().is_some_and(|parent| parent.ends_with("keys") || parent.ends_with(torrc::ONION_FOLDER)) {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(Error::writing(&path))?;
            }
        }
        Ok(())
    }
}

/// The bandwidth file of all authorities (bandwidth-file-spec, version 1.0): weights as the model has them.
fn bandwidths(network: &Network) -> String {
    // The moment at which clocks begin, and one more second: tor wants it in the past, and recent.
    let made_at = network.spec.start_date.unix_seconds() + 1;
    let mut text = format!("{made_at}\n");
    for host in &network.hosts {
        let (Some(identity), true) = (&host.identity, host.role != Role::Bridge) else { continue };
        let _ = writeln!(text, "node_id=${}\tbw={}\tnick={}", identity.fingerprint, host.weight.max(1), host.name);
    }
    text
}
