//! The configuration of arti, the Tor Project's client in Rust: one file for all hosts that run it.

use crate::kinds::Instead;
use crate::network::{Network, Role};
use crate::torrc::{OR_PORT, SOCKS_PORT};
use std::fmt::Write;

/// In the folder `conf`.
pub(crate) const FILE: &str = "arti.toml";

/// What it says; None for networks without arti. Programs start in their host's folder, from which relative paths begin.
pub(crate) fn configuration(network: &Network) -> Option<String> {
    if !network.has_clients(Instead::Arti) {
        return None;
    }
    let mut text = format!(
        "\
# Settings of every arti of this network; a host that is to have others wants a file of its own.

[application]
allow_running_as_root = true
watch_configuration = false

[proxy]
socks_listen = \"127.0.0.1:{SOCKS_PORT}\"

[logging]
console = \"info\"
time_granularity = \"1ms\"
log_sensitive_information = true

# The host's folder.
[storage]
cache_dir = \"arti/cache\"
state_dir = \"arti/state\"

[storage.permissions]
dangerously_trust_everyone = true

# Addresses are what the experiment says, and say nothing of who runs a relay.
[address_filter]
allow_local_addrs = true

[path_rules]
ipv4_subnet_family_prefix = 33
ipv6_subnet_family_prefix = 129

# The directory authorities, of which the first consensus is fetched, too.
[tor_network]
"
    );
    let mut identities = Vec::new();
    let mut caches = String::new();
    for authority in network.with_role(Role::Authority) {
        let keys = authority.authority.as_ref().expect("authorities have keys");
        let identity = authority.identity.as_ref().expect("authorities have identities");
        identities.push(format!("\"{}\"", keys.v3_identity));
        let _ = writeln!(
            caches,
            "  {{ rsa_identity = \"{}\", ed_identity = \"{}\", orports = [\"{}:{OR_PORT}\"] }}, # {}",
            identity.fingerprint,
            keys.ed25519.base64(),
            authority.address,
            authority.name
        );
    }
    let _ =
        write!(text, "authorities = {{ v3idents = [{}] }}\nfallback_caches = [\n{caches}]\n", identities.join(", "));
    Some(text)
}
