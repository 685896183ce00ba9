//! Who orders transfers: an actor does one behaviour, one thing after the other, until its count is done.

use super::transfer::Work;
use crate::config::{Behaviour, Direction, Kind};
use crate::markov::{Model, Observation, Walk};
use crate::random::Random;
use std::collections::BTreeMap;
use std::time::Duration;

/// What an actor wants at a moment.
#[derive(Debug, PartialEq)]
pub enum Wish {
    /// A transfer, now. Its flow, for actors that have flows.
    Transfer { flow: u64 },
    /// To be asked again after this time, about a flow or about itself.
    Ask { after: Duration, flow: Option<u64> },
}

/// A walk that starts over waits at least this long, so that a model which ends at once does not stop time.
const RESTART: Duration = Duration::from_millis(1);

/// The least time between steps of one walk: with none, an endless model would keep the event loop from looking at connections.
const STEP: Duration = Duration::from_micros(1);

pub struct Actor {
    /// Index of the behaviour.
    pub behaviour: usize,
    random: Random,
    /// Seeds of transfers come from a stream of their own, so that they do not depend on when others ended.
    seeds: Random,
    started: u64,
    running: u64,
    /// The place in the list of sizes, for performance clients.
    turn: u64,
    flows: Flows,
}

/// The flows of a Markov actor.
#[derive(Default)]
struct Flows {
    generator: Option<Walk>,
    open: BTreeMap<u64, Flow>,
    begun: u64,
}

/// A sequence of streams.
struct Flow {
    /// `None` when it has ended, or is one stream only.
    walk: Option<Walk>,
    running: u64,
    failed: bool,
}

impl Actor {
    pub fn new(behaviour: usize, number: u64, seed: u64) -> Self {
        let stream = |purpose| Random::derive(seed, &[behaviour as u64, number, purpose]);
        Actor {
            behaviour,
            random: stream(0),
            seeds: stream(1),
            started: 0,
            running: 0,
            turn: 0,
            flows: Flows::default(),
        }
    }

    /// Whether everything that was asked is done.
    pub fn is_done(&self, behaviour: &Behaviour) -> bool {
        self.running == 0 && self.has_started_all(behaviour)
    }

    fn has_started_all(&self, behaviour: &Behaviour) -> bool {
        behaviour.count.is_some_and(|count| self.started >= count)
    }

    /// What the next transfer is: work, seed, server, and a timeout that the behaviour itself does not have.
    pub fn draw(&mut self, behaviour: &Behaviour) -> (Work, u64, usize, Option<Duration>) {
        let server = self.random.below(behaviour.servers.len() as u64) as usize;
        let transfer = |size| match behaviour.direction {
            Direction::Download => Work::Download(size),
            Direction::Upload => Work::Upload(size),
        };
        let (work, timeout) = match &behaviour.kind {
            Kind::Web { size, .. } | Kind::Bulk { size } => (transfer(*size), None),
            Kind::Performance { sizes, .. } => {
                let index = match sizes[0].weight > 0.0 {
                    true => self.random.weighted(sizes.iter().map(|probe| probe.weight)),
                    false => (self.turn % sizes.len() as u64) as usize,
                };
                self.turn += 1;
                (transfer(sizes[index].size), Some(sizes[index].timeout))
            }
            Kind::Markov(models) => (Work::Stream(models.packets.clone()), None),
        };
        (work, self.seeds.next(), server, timeout)
    }

    /// What the actor wants when it is asked, about itself or about one of its flows.
    pub fn asked(&mut self, behaviour: &Behaviour, flow: Option<u64>, wishes: &mut Vec<Wish>) {
        if self.has_started_all(behaviour) {
            return;
        }
        match (&behaviour.kind, flow) {
            (Kind::Markov(models), None) => self.begin_flow(behaviour, models.flows.clone().as_deref(), wishes),
            (Kind::Markov(models), Some(flow)) => {
                self.step_flow(behaviour, models.streams.clone().as_deref(), flow, wishes)
            }
            (Kind::Performance { every, .. }, _) => {
                self.start(0, wishes);
                wishes.push(Wish::Ask { after: *every, flow: None });
            }
            _ => self.start(0, wishes),
        }
    }

    fn start(&mut self, flow: u64, wishes: &mut Vec<Wish>) {
        self.started += 1;
        self.running += 1;
        wishes.push(Wish::Transfer { flow });
    }

    /// A transfer has ended for good.
    pub fn ended(&mut self, behaviour: &Behaviour, flow: u64, success: bool, wishes: &mut Vec<Wish>) {
        self.running -= 1;
        let after = match &behaviour.kind {
            Kind::Web { pause: (low, high), .. } => {
                let pause = low.as_nanos() as f64 + (*high - *low).as_nanos() as f64 * self.random.unit();
                let least = if success || !low.is_zero() { Duration::ZERO } else { behaviour.retry_after };
                Duration::from_nanos(pause as u64).max(least)
            }
            Kind::Bulk { .. } if success => Duration::ZERO,
            Kind::Bulk { .. } => behaviour.retry_after,
            Kind::Performance { .. } => return,
            Kind::Markov(models) => {
                if let Some(open) = self.flows.open.get_mut(&flow) {
                    open.running -= 1;
                    open.failed |= !success;
                }
                return self.close_flow(behaviour, models.flows.is_some(), flow, wishes);
            }
        };
        wishes.push(Wish::Ask { after, flow: None });
    }

    /// Begins the next flow; with a model of flows, asks for the moment of the one after it.
    fn begin_flow(&mut self, behaviour: &Behaviour, model: Option<&Model>, wishes: &mut Vec<Wish>) {
        if let Some(model) = model {
            let walk = self.flows.generator.get_or_insert_with(|| model.walk());
            let (observation, delay) = walk.step(model, &mut self.random);
            if observation == Observation::End {
                self.flows.generator = None;
                return wishes.push(Wish::Ask { after: delay.max(RESTART), flow: None });
            }
            wishes.push(Wish::Ask { after: delay.max(STEP), flow: None });
        }
        self.flows.begun += 1;
        let flow = self.flows.begun;
        let Kind::Markov(models) = &behaviour.kind else { return };
        let walk = models.streams.as_ref().map(|model| model.walk());
        self.flows.open.insert(flow, Flow { walk, running: 0, failed: false });
        self.step_flow(behaviour, models.streams.clone().as_deref(), flow, wishes);
    }

    /// The next event of a flow: a stream, or its end.
    fn step_flow(&mut self, behaviour: &Behaviour, model: Option<&Model>, flow: u64, wishes: &mut Vec<Wish>) {
        let Some(open) = self.flows.open.get_mut(&flow) else { return };
        let (stream, after) = match (model, &mut open.walk) {
            (Some(model), Some(walk)) => match walk.step(model, &mut self.random) {
                (Observation::End, _) => (false, None),
                (_, delay) => (true, Some(delay)),
            },
            _ => (true, None),
        };
        if after.is_none() {
            open.walk = None;
        }
        if stream {
            open.running += 1;
            self.start(flow, wishes);
        }
        match after {
            Some(after) => wishes.push(Wish::Ask { after: after.max(STEP), flow: Some(flow) }),
            None => {
                let Kind::Markov(models) = &behaviour.kind else { return };
                self.close_flow(behaviour, models.flows.is_some(), flow, wishes);
            }
        }
    }

    /// Forgets a flow that has ended; without a model of flows, the next one follows.
    fn close_flow(&mut self, behaviour: &Behaviour, has_model: bool, flow: u64, wishes: &mut Vec<Wish>) {
        let Some(open) = self.flows.open.get(&flow) else { return };
        if open.walk.is_some() || open.running > 0 {
            return;
        }
        let after = if open.failed { behaviour.retry_after } else { RESTART };
        self.flows.open.remove(&flow);
        if !has_model {
            wishes.push(Wish::Ask { after, flow: None });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Peers, Probe};

    fn behaviour(kind: Kind, count: Option<u64>) -> Behaviour {
        let mut servers = Peers::default();
        servers.add("server[1-2]:80").unwrap();
        Behaviour {
            kind,
            direction: Direction::Download,
            servers: servers.into(),
            count,
            retries: 0,
            retry_after: Duration::from_secs(3),
            timeout: None,
            stall: None,
            parallel: 1,
        }
    }

    fn asked(actor: &mut Actor, behaviour: &Behaviour) -> Vec<Wish> {
        let mut wishes = Vec::new();
        actor.asked(behaviour, None, &mut wishes);
        wishes
    }

    fn ended(actor: &mut Actor, behaviour: &Behaviour, success: bool) -> Vec<Wish> {
        let mut wishes = Vec::new();
        actor.ended(behaviour, 0, success, &mut wishes);
        wishes
    }

    #[test]
    fn pauses_of_web_clients_are_uniform() {
        let pause = (Duration::from_secs(1), Duration::from_secs(60));
        let web = behaviour(Kind::Web { size: 1, pause }, None);
        let mut actor = Actor::new(0, 0, 1);
        let mut pauses = Vec::new();
        for _ in 0..20_000 {
            assert_eq!(asked(&mut actor, &web), [Wish::Transfer { flow: 0 }]);
            match ended(&mut actor, &web, true)[..] {
                [Wish::Ask { after, flow: None }] => pauses.push(after.as_secs_f64()),
                ref other => panic!("{other:?}"),
            }
        }
        assert!(pauses.iter().all(|pause| (1.0..60.0).contains(pause)));
        let mean = pauses.iter().sum::<f64>() / pauses.len() as f64;
        // The standard error is 0.12 s.
        assert!((mean - 30.5).abs() < 0.6, "{mean}");
    }

    #[test]
    fn failures_that_take_no_time_are_followed_by_a_pause() {
        let wait = [Wish::Ask { after: Duration::from_secs(3), flow: None }];
        for kind in [Kind::Bulk { size: 1 }, Kind::Web { size: 1, pause: (Duration::ZERO, Duration::ZERO) }] {
            let behaviour = behaviour(kind, Some(2));
            let mut actor = Actor::new(0, 0, 1);
            asked(&mut actor, &behaviour);
            assert_eq!(ended(&mut actor, &behaviour, false), wait);
            asked(&mut actor, &behaviour);
            assert!(!actor.is_done(&behaviour));
            assert_eq!(ended(&mut actor, &behaviour, true), [Wish::Ask { after: Duration::ZERO, flow: None }]);
            assert!(actor.is_done(&behaviour) && asked(&mut actor, &behaviour).is_empty());
        }
    }

    #[test]
    fn performance_clients_measure_each_size_in_turn_whatever_the_last_one_does() {
        let sizes = [1, 2, 3].map(|size| Probe { size, timeout: Duration::from_secs(size), weight: 0.0 }).to_vec();
        let every = Duration::from_secs(60);
        let behaviour = behaviour(Kind::Performance { sizes, every }, None);
        let mut actor = Actor::new(0, 0, 1);
        for size in [1, 2, 3, 1, 2] {
            assert_eq!(
                asked(&mut actor, &behaviour),
                [Wish::Transfer { flow: 0 }, Wish::Ask { after: every, flow: None }]
            );
            let (work, _, _, timeout) = actor.draw(&behaviour);
            assert!(matches!(work, Work::Download(s) if s == size));
            assert_eq!(timeout, Some(Duration::from_secs(size)));
        }
        assert!(ended(&mut actor, &behaviour, true).is_empty());
    }

    #[test]
    fn contents_do_not_depend_on_when_transfers_end() {
        let bulk = behaviour(Kind::Bulk { size: 1 }, None);
        let seeds = |pauses: bool| -> Vec<u64> {
            let mut actor = Actor::new(0, 0, 1);
            (0..5)
                .map(|_| {
                    asked(&mut actor, &bulk);
                    if pauses {
                        ended(&mut actor, &bulk, false);
                    }
                    actor.draw(&bulk).1
                })
                .collect()
        };
        assert_eq!(seeds(true), seeds(false));
        assert_ne!(Actor::new(0, 0, 1).draw(&bulk).1, Actor::new(0, 1, 1).draw(&bulk).1);
        assert_ne!(Actor::new(0, 0, 1).draw(&bulk).1, Actor::new(1, 0, 1).draw(&bulk).1);
    }
}
