//! Several ranks in one process, with a way between them in memory: what happens does not depend on who has which host.

mod phold;

use base::{HostId, SeedTree, SimDuration, SimTime};
use engine::{Config, Ending, Engine, Envelope, Outcome, Peers, Policy, Ranks, Standing, Totals};
use phold::{Phold, Plan, Token};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex};

/// What all ranks write to.
struct Meeting {
    ranks: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    generation: u64,
    standings: Vec<Standing>,
    agreed: Option<Standing>,
    /// By target rank.
    mail: Vec<Vec<Envelope<u64>>>,
    /// What was in `mail` when the last round closed.
    delivered: Vec<Vec<Envelope<u64>>>,
    gone: Option<usize>,
}

struct Way {
    own: usize,
    meeting: Arc<Meeting>,
    /// Rounds before this rank is no longer there.
    leaves_after: Mutex<Option<u64>>,
}

impl Peers<u64> for Way {
    fn send(&self, rank: usize, messages: &mut Vec<Envelope<u64>>) -> Result<(), String> {
        assert_ne!(rank, self.own, "no mail to oneself");
        self.meeting.state.lock().unwrap().mail[rank].append(messages);
        Ok(())
    }

    fn agree(&self, own: Standing, take: &mut dyn FnMut(Envelope<u64>)) -> Result<Standing, String> {
        let mut state = self.meeting.state.lock().unwrap();
        if let Some(rounds) = self.leaves_after.lock().unwrap().as_mut() {
            if *rounds == 0 {
                state.gone = Some(self.own);
                self.meeting.changed.notify_all();
                return Err("this rank goes".to_owned());
            }
            *rounds -= 1;
        }
        let generation = state.generation;
        state.standings.push(own);
        if state.standings.len() == self.meeting.ranks {
            let sum = |of: fn(&Totals) -> u64| state.standings.iter().map(|standing| of(&standing.totals)).sum();
            let agreed = Standing {
                next: state.standings.iter().filter_map(|standing| standing.next).min(),
                halt: state.standings.iter().any(|standing| standing.halt),
                totals: Totals { hosts_run: sum(|t| t.hosts_run), messages_sent: sum(|t| t.messages_sent) },
            };
            state.standings.clear();
            state.agreed = Some(agreed);
            state.generation += 1;
            let ranks = self.meeting.ranks;
            state.delivered = std::mem::replace(&mut state.mail, (0..ranks).map(|_| Vec::new()).collect());
            self.meeting.changed.notify_all();
        }
        while state.generation == generation {
            if let Some(gone) = state.gone {
                return Err(format!("rank {gone} has gone"));
            }
            state = self.meeting.changed.wait(state).unwrap();
        }
        state.delivered[self.own].drain(..).rev().for_each(take);
        Ok(state.agreed.unwrap())
    }
}

fn plan() -> Arc<Plan> {
    let mut rng = SeedTree::new(9).stream("", "latencies");
    let incoming = (0..50).map(|_| SimDuration::from_nanos(100_000 + rng.below(30) * 100_000)).collect();
    Arc::new(Plan {
        hosts: 50,
        balls_per_host: 4,
        incoming,
        spread: 2_000_000,
        grain: 100_000,
        wait: 300_000,
        work: 0,
        exclusive_of: 0,
    })
}

fn config(workers: usize, policy: Policy) -> Config {
    Config { workers, policy, stop_time: SimTime::from_nanos(20_000_000), runahead: None }
}

/// By rank: its hosts, and how its run ended.
fn run(
    plan: &Arc<Plan>,
    of_host: &[u32],
    count: usize,
    config: Config,
    leaves: Option<u64>,
) -> Vec<(Vec<Phold>, Outcome)> {
    let mail = (0..count).map(|_| Vec::new()).collect();
    let state = Mutex::new(State { mail, ..State::default() });
    let meeting = Arc::new(Meeting { ranks: count, state, changed: Condvar::new() });
    std::thread::scope(|scope| {
        let rank = |own: usize| {
            let meeting = meeting.clone();
            scope.spawn(move || {
                let leaves_after = Mutex::new(leaves.filter(|_| own + 1 == count));
                let way = Way { own, meeting, leaves_after };
                let ranks = Ranks { own, count, of_host: of_host.to_vec() };
                let hosts = ranks.own_hosts().map(|host| Phold::new(plan, HostId(host as u32), 1)).collect();
                let holder = Arc::new(AtomicUsize::new(0));
                let setup = |worker| Ok(Token { holder: holder.clone(), worker: worker + 1 });
                let engine = Engine::with_ranks(config, hosts, &plan.incoming, ranks).expect("a sound configuration");
                let (hosts, outcome) = engine.run_with(&AtomicBool::new(false), setup, |_| (), Some(&way));
                (hosts, outcome.expect("no failure"))
            })
        };
        let threads: Vec<_> = (0..count).map(rank).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn digests(plan: &Plan, of_host: &[u32], ranks: &[(Vec<Phold>, Outcome)]) -> Vec<u64> {
    let mut hosts: Vec<_> = ranks.iter().map(|(hosts, _)| hosts.iter()).collect();
    (0..plan.hosts as usize).map(|host| hosts[of_host[host] as usize].next().unwrap().digest).collect()
}

#[test]
fn digests_do_not_depend_on_ranks() {
    let plan = plan();
    let (alone, outcome) = phold::run(&plan, 1, config(1, Policy::Static));
    let expected: Vec<u64> = alone.iter().map(|host| host.digest).collect();
    let mut rng = SeedTree::new(3).stream("", "ranks");
    for count in [1, 2, 3, 5] {
        // The last rank has no host at all in one of the cases.
        for filled in [count, (count - 1).max(1)] {
            let of_host: Vec<u32> = (0..plan.hosts).map(|_| rng.below(filled as u64) as u32).collect();
            for (workers, policy) in
                [(1, Policy::Serial), (2, Policy::Steal), (3, Policy::Static), (2, Policy::StealLongest)]
            {
                let ranks = run(&plan, &of_host, count, config(workers, policy), None);
                assert_eq!(digests(&plan, &of_host, &ranks), expected, "{count} ranks, {workers} workers, {policy:?}");
                for (_, other) in &ranks {
                    assert_eq!((other.ending, other.last_window), (Ending::Complete, outcome.last_window));
                    assert_eq!(other.workers[0].rounds, outcome.workers[0].rounds);
                }
            }
        }
    }
}

#[test]
fn a_rank_that_goes_ends_the_run_of_the_others() {
    let plan = plan();
    let of_host: Vec<u32> = (0..plan.hosts).map(|host| host % 3).collect();
    for workers in [1, 2] {
        let ranks = run(&plan, &of_host, 3, config(workers, Policy::Steal), Some(5));
        for (_, outcome) in &ranks[..2] {
            assert_eq!(outcome.ending, Ending::Interrupted);
            assert_eq!(outcome.lost.as_deref(), Some("rank 2 has gone"));
            assert_eq!(outcome.workers[0].rounds, 5, "the windows that all ranks agreed on");
        }
        assert_eq!(ranks[2].1.lost.as_deref(), Some("this rank goes"));
    }
}

#[test]
fn the_numbers_of_hosts_and_ranks_must_agree() {
    let plan = plan();
    let ranks = Ranks { own: 0, count: 2, of_host: vec![1; 50] };
    let hosts = vec![Phold::new(&plan, HostId(0), 1)];
    assert!(Engine::with_ranks(config(1, Policy::Steal), hosts, &plan.incoming, ranks).is_err());
}
