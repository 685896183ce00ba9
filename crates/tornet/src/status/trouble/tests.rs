//! Logs of networks that carry nothing, and of those that do.

use super::*;
use std::fs;

const BEGUN: &str = "Jan 01 00:00:20.007 [notice] Choosing valid-after time in vote as 2000-01-01 00:00:30: consensus_set=0, last_interval=30\n";
const PUBLISHED_LINE: &str = "Jan 01 00:00:30.008 [notice] Time to publish the consensus and discard old votes\n\
     Jan 01 00:00:30.008 [notice] Published ns consensus\n";
const REJECTED: &str = "Jan 01 00:00:20.007 [warn] cfx_enabled=0 >= cfx_enabled=0\n\
     Jan 01 00:00:20.007 [warn] Duplicate value for \"cfx_enabled=0\" parameter\n\
     Jan 01 00:00:20.007 [err] format_networkstatus_vote(): Bug: Generated a networkstatus vote we couldn't parse: <<network\n\
     cc_alg=2 cfx_enabled=0 cfx_enabled=0\n\
     Jan 01 00:00:25.008 [warn] We don't have enough votes to generate a consensus: 0 of 2\n\
     Jan 01 00:00:30.008 [notice] Time to publish the consensus and discard old votes\n\
     Jan 01 00:00:30.008 [warn] Not enough info to publish pending ns consensus\n";

/// The data directory of a run of three authorities, a relay and two clients, at a second of simulated time.
struct Left(tempfile::TempDir);

impl Left {
    fn new(now_s: u32) -> Left {
        let left = Left(tempfile::tempdir().expect("a temporary folder"));
        left.write(
            "tor-network.json",
            r#"{"profile":"tiny","seed":3,"stop_s":180.0,"hosts":{
              "authority1":{"role":"authority","behaviour":null},"authority2":{"role":"authority","behaviour":null},
              "authority3":{"role":"authority","behaviour":null},"guard1":{"role":"guard","behaviour":null},
              "server1":{"role":"server","behaviour":null},"webclient1":{"role":"client","behaviour":"web"},
              "webclient2":{"role":"client","behaviour":"web"}}}"#,
        );
        left.write("progress.csv", &format!("sim_s,wall_s\n{now_s},1\n"));
        left
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    fn authorities(&self, text: &str) {
        for number in 1..=3 {
            self.write(&format!("hosts/authority{number}/tor.1000.stdout"), text);
        }
    }

    fn client(&self, number: u32, log: &str, socks: &str, reason: &str) {
        let folder = format!("hosts/webclient{number}");
        self.write(&format!("{folder}/tor.1000.stdout"), log);
        let error = format!(r#"{{"stage":"socks","reason":"{reason}","detail":""}}"#);
        let lines = format!("{{\"kind\":\"start\"}}\n{{\"kind\":\"transfer\",\"socks\":{socks},\"error\":{error}}}\n");
        self.write(&format!("{folder}/gnomon-traffic.1001.stdout"), &lines);
    }

    fn trouble(&self) -> Option<Trouble> {
        Trouble::find(self.0.path()).expect("readable files")
    }

    fn text(&self) -> String {
        self.trouble().expect("a trouble").text
    }
}

#[test]
fn authorities_name_the_reason_for_which_there_is_no_consensus() {
    let left = Left::new(180);
    left.authorities(REJECTED);
    let trouble = left.trouble().expect("a trouble");
    assert_eq!((trouble.kind, trouble.is_early), (TroubleKind::NoConsensus, false));
    assert_eq!(
        trouble.text,
        "no consensus: 3 of 3 authorities wrote 'Duplicate value for \"cfx_enabled=0\" parameter' (hosts/authority1/tor.1000.stdout:2)"
    );
    left.write("hosts/authority2/tor.1000.stdout", PUBLISHED_LINE);
    assert_eq!(left.trouble(), None, "one authority has published");
}

#[test]
fn authorities_that_wrote_nothing_or_never_voted_are_counted() {
    let left = Left::new(180);
    let alone = REJECTED.split_inclusive('\n').skip(4).collect::<String>();
    left.write("hosts/authority2/tor.1000.stdout", &alone);
    left.write(
        "hosts/authority3/tor.1000.stdout",
        "Jan 01 00:02:50.000 [notice] Bootstrapped 0% (starting): Starting\n",
    );
    assert_eq!(
        left.text(),
        "no consensus: 1 of 3 authorities wrote 'We don't have enough votes to generate a consensus: 0 of 2' \
         (hosts/authority2/tor.1000.stdout:1); 1 had not voted yet; 1 wrote nothing"
    );
}

#[test]
fn an_authority_that_ended_at_its_start_names_the_option() {
    let left = Left::new(180);
    left.authorities("Jan 01 00:00:01.000 [warn] Failed to parse/validate config: Unknown option 'X'.  Failing.\n");
    assert!(
        left.text().starts_with("no consensus: 3 of 3 authorities wrote 'Failed to parse/validate config: "),
        "{}",
        left.text()
    );
}

#[test]
fn a_run_that_ended_before_the_first_consensus_was_too_short() {
    let left = Left::new(20);
    left.write("conf/authority.torrc", "TestingV3AuthInitialVotingInterval 30 seconds\n");
    let early = "no consensus yet: the first is due after 30 s, and the run is at 20 s";
    assert_eq!(left.text(), early);
    left.authorities(BEGUN);
    assert_eq!(left.text(), early);
    assert!(left.trouble().expect("a trouble").is_early);
    left.write("progress.csv", "sim_s,wall_s\n");
    assert_eq!(left.trouble(), None, "nothing is simulated yet");
}

#[test]
fn clients_whose_transfers_had_no_circuit_are_counted_with_the_reason() {
    let left = Left::new(180);
    left.authorities(
        &(PUBLISHED_LINE.to_owned()
            + "Jan 01 00:00:31.000 [notice] The current consensus has no exit nodes. Tor can\n"),
    );
    left.write("hosts/guard1/tor.1000.stdout", "Jan 01 00:00:34.000 [notice] Bootstrapped 100% (done): Done\n");
    let log =
        "Jan 01 00:00:54.000 [notice] Bootstrapped 100% (done): Done\nJan 01 00:01:54.000 [warn] Something else\n";
    left.client(1, log, "null", "stall");
    left.client(2, log, "null", "timeout");
    assert_eq!(
        left.text(),
        "no circuit was built to a server: all 2 transfers of 2 clients waited for one in vain; \
         'The current consensus has no exit nodes. Tor can' (hosts/authority1/tor.1000.stdout:3)"
    );
    left.write("hosts/guard1/tor.1000.stdout", "Jan 01 00:00:34.000 [notice] Bootstrapped 5% (conn): Connecting\n");
    assert!(left.text().ends_with("; 1 of 1 relays are not bootstrapped"), "{}", left.text());
    left.authorities(&(PUBLISHED_LINE.to_owned()
        + "Jan 01 00:00:31.000 [notice] The current consensus has no exit nodes. Tor can\n"
        + "Jan 01 00:00:39.000 [notice] The current consensus contains exit nodes. Tor can build exit and internal paths.\n"));
    assert!(left.text().contains("'Something else' (hosts/webclient1/tor.1000.stdout:2)"), "{}", left.text());
    left.client(2, log, "0.5", "stall");
    assert_eq!(left.trouble(), None, "a transfer had a circuit");
}

#[test]
fn transfers_that_were_refused_may_have_had_circuits() {
    let left = Left::new(180);
    left.authorities(PUBLISHED_LINE);
    left.client(1, "", "null", "refused");
    assert!(
        left.text().starts_with("no transfer came through a circuit: all 1 of 1 clients failed before"),
        "{}",
        left.text()
    );
}

#[test]
fn clients_without_transfers_are_judged_by_their_bootstrap() {
    let left = Left::new(100);
    left.authorities(PUBLISHED_LINE);
    assert_eq!(left.trouble(), None, "no client has begun");
    let log = "Jan 01 00:00:54.000 [notice] Bootstrapped 45% (loading_descriptors): Loading\n";
    left.write("hosts/webclient1/tor.1000.stdout", log);
    assert_eq!(left.text(), "no circuit yet: the first of 2 clients began 46 s ago");
    left.write("progress.csv", "sim_s,wall_s\n180,1\n");
    assert!(left.text().starts_with("no circuit was built: none of 2 clients is bootstrapped"), "{}", left.text());
    let arti =
        "2000-01-01T00:00:58.125Z  INFO arti::subcommands::proxy: Sufficiently bootstrapped; proxy now functional.\n";
    left.write("hosts/webclient2/arti.1000.stderr", arti);
    assert_eq!(left.trouble(), None, "a client is bootstrapped");
}

#[test]
fn logs_without_notices_say_nothing() {
    let left = Left::new(180);
    let warnings = "Jan 01 00:00:01.007 [warn] You are running Tor as root. You don't need to.\n";
    left.authorities(warnings);
    left.write("hosts/webclient1/tor.1000.stdout", warnings);
    assert_eq!(left.trouble(), None);
    left.client(1, warnings, "null", "stall");
    let text = left.text();
    assert!(text.contains("name no reason") && text.ends_with("the authorities' logs have no notices"), "{text}");
}

#[test]
fn other_experiments_have_no_trouble() {
    let empty = tempfile::tempdir().expect("a temporary folder");
    assert_eq!(Trouble::find(empty.path()).expect("no error"), None);
}
