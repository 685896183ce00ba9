//! Circuit and stream events (control-spec, sections 4.1.1 and 4.1.2) as records.

use super::{Event, keywords};
use crate::clock::{self, Time};
use crate::output::{Circuit, TorStream};
use std::collections::BTreeMap;

/// Circuits that have been launched, with the moment, until they are built or fail.
#[derive(Default)]
pub struct Circuits {
    launched: BTreeMap<u64, Time>,
}

impl Circuits {
    /// A record when a circuit has been built, or has failed before that.
    pub fn event(&mut self, event: &Event, now: Time) -> Option<Circuit> {
        if event.name != "CIRC" {
            return None;
        }
        let mut words = event.text.split(' ');
        let id = words.next()?.parse().ok()?;
        let status = words.next()?;
        let path = words.next().filter(|word| word.starts_with('$')).unwrap_or_default();
        let keywords = keywords(&event.text);
        let value = |name: &str| keywords.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        let error = match status {
            "LAUNCHED" => {
                self.launched.insert(id, now);
                return None;
            }
            "BUILT" => None,
            // A circuit that was built before is not among those launched.
            "FAILED" | "CLOSED" if self.launched.contains_key(&id) => {
                Some(value("REASON").unwrap_or_else(|| status.into()))
            }
            _ => return None,
        };
        // One that was launched before the connection stood has no known time.
        let launched = self.launched.remove(&id);
        let path: Vec<String> = path.split(',').filter(|hop| !hop.is_empty()).map(str::to_owned).collect();
        Some(Circuit {
            id,
            at: clock::unix(),
            build: launched.filter(|_| error.is_none()).map(|at| clock::seconds(now - at)),
            hops: path.len(),
            purpose: value("PURPOSE"),
            path,
            error,
        })
    }
}

/// A record of a STREAM event.
pub fn stream(event: &Event) -> Option<TorStream> {
    let mut words = event.text.split(' ');
    let id = words.next()?.parse().ok()?;
    let status = words.next()?.to_owned();
    let circuit = words.next()?.parse().ok()?;
    let target = words.next()?.to_owned();
    let keywords = keywords(&event.text);
    let reason = keywords.into_iter().find(|(key, _)| key == "REASON").map(|(_, value)| value);
    Some(TorStream { id, at: clock::unix(), status, circuit, target, reason })
}

/// Bytes read and written, of a BW event.
pub fn bandwidth(event: &Event) -> Option<(u64, u64)> {
    let mut numbers = event.text.split(' ').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn event(text: &str) -> Event {
        Event { name: "CIRC".into(), text: text.into() }
    }

    #[test]
    fn circuits_are_timed_from_launch_to_built() {
        let mut circuits = Circuits::default();
        let start = clock::now();
        assert_eq!(
            circuits.event(&event("5 LAUNCHED PURPOSE=GENERAL TIME_CREATED=2000-01-01T00:00:01.5"), start),
            None
        );
        assert_eq!(circuits.event(&event("5 EXTENDED $AA~one PURPOSE=GENERAL"), start), None);
        let text = "5 BUILT $AA~one,$BB~two,$CC~three BUILD_FLAGS=NEED_CAPACITY PURPOSE=GENERAL";
        let built = circuits.event(&event(text), start + Duration::from_millis(250)).expect("a record");
        assert_eq!((built.id, built.build, built.hops, built.error), (5, Some(0.25), 3, None));
        assert_eq!(built.path, ["$AA~one", "$BB~two", "$CC~three"]);
        assert_eq!(built.purpose.as_deref(), Some("GENERAL"));
        assert_eq!(circuits.event(&event("5 CLOSED $AA~one PURPOSE=GENERAL REASON=FINISHED"), start), None);
    }

    #[test]
    fn failures_before_that_are_told_once() {
        let mut circuits = Circuits::default();
        let now = clock::now();
        circuits.event(&event("6 LAUNCHED PURPOSE=HS_CLIENT_REND"), now);
        let failed =
            circuits.event(&event("6 FAILED $AA~one PURPOSE=HS_CLIENT_REND REASON=TIMEOUT"), now).expect("a record");
        assert_eq!((failed.build, failed.hops, failed.error.as_deref()), (None, 1, Some("TIMEOUT")));
        assert_eq!(circuits.event(&event("6 CLOSED PURPOSE=HS_CLIENT_REND REASON=TIMEOUT"), now), None);
        // One that was launched before we looked.
        let built = circuits.event(&event("7 BUILT $AA PURPOSE=GENERAL"), now).expect("a record");
        assert_eq!((built.build, built.hops), (None, 1));
    }

    #[test]
    fn streams_and_bandwidth() {
        let text = "9 FAILED 5 10.0.0.1:80 REASON=END REMOTE_REASON=CONNECTREFUSED";
        let record = stream(&Event { name: "STREAM".into(), text: text.into() }).expect("a record");
        assert_eq!((record.id, record.circuit, record.target.as_str()), (9, 5, "10.0.0.1:80"));
        assert_eq!(record.reason.as_deref(), Some("END"));
        assert_eq!(bandwidth(&Event { name: "BW".into(), text: "100 200".into() }), Some((100, 200)));
        assert_eq!(bandwidth(&Event { name: "BW".into(), text: "100".into() }), None);
    }
}
