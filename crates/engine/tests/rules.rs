//! The rules of the model, one by one, on a host whose behaviour each test writes down.

use base::{HostId, SimDuration, SimTime};
use engine::{
    Config, Ending, Engine, Error, EventKey, EventQueue, Host, Outbox, Outcome, Policy, Progress, WindowCosts,
    WindowEnd, Worker,
};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

const MS: u64 = 1_000_000;

fn ms(n: u64) -> SimTime {
    SimTime::from_nanos(n * MS)
}

/// What a scripted host does when an event with this text happens at this time.
type Script = fn(&mut Actions<'_, '_>, SimTime, &'static str);

struct Actions<'a, 'b> {
    id: HostId,
    queue: &'a mut EventQueue<&'static str>,
    outbox: &'b mut Outbox<&'static str>,
}

struct Scripted {
    id: HostId,
    queue: EventQueue<&'static str>,
    script: Script,
    /// What happened: time and text.
    log: Vec<(SimTime, &'static str)>,
    horizons: Vec<SimTime>,
}

impl Scripted {
    fn new(id: u32, script: Script, events: &[(u64, &'static str)]) -> Self {
        let mut queue = EventQueue::new(HostId(id));
        for (time, event) in events {
            queue.schedule(SimTime::from_nanos(*time), 0, *event);
        }
        Scripted { id: HostId(id), queue, script, log: Vec::new(), horizons: Vec::new() }
    }
}

impl Host for Scripted {
    type Message = &'static str;
    type Worker = Recorder;

    fn next_event(&self) -> Option<SimTime> {
        self.queue.next_time()
    }

    fn deliver(&mut self, time: SimTime, source: HostId, sequence: u64, message: &'static str) {
        assert_ne!(message, "undeliverable");
        self.queue.push(EventKey { time, class: 1, source, sequence }, message);
    }

    fn run_until(&mut self, horizon: SimTime, outbox: &mut Outbox<&'static str>, worker: &mut Recorder) -> Progress {
        worker.hosts.push(self.id);
        self.horizons.push(horizon);
        while let Some(event) = self.queue.pop_before(horizon) {
            self.log.push((event.key.time, event.event));
            let mut actions = Actions { id: self.id, queue: &mut self.queue, outbox };
            (self.script)(&mut actions, event.key.time, event.event);
        }
        Progress::Done
    }
}

/// Worker state that must stay on its thread.
#[derive(Default)]
struct Recorder {
    hosts: Vec<HostId>,
    windows: Arc<AtomicU64>,
    _not_send: std::marker::PhantomData<std::rc::Rc<()>>,
}

impl Worker for Recorder {
    fn window_ended(&mut self, _: u64, _: SimTime, _: &WindowCosts) {
        self.windows.fetch_add(1, Ordering::Relaxed);
    }
}

fn quiet(_: &mut Actions<'_, '_>, _: SimTime, _: &'static str) {}

fn config(workers: usize) -> Config {
    Config { workers, policy: Policy::Steal, stop_time: ms(1000), runahead: None }
}

fn run(config: Config, hosts: Vec<Scripted>, latencies_ms: &[u64]) -> (Vec<Scripted>, Result<Outcome, Error>) {
    let latencies: Vec<_> = latencies_ms.iter().map(|n| SimDuration::from_millis(*n)).collect();
    let engine = Engine::new(config, hosts, &latencies).unwrap();
    engine.run(&AtomicBool::new(false), |_| Ok(Recorder::default()), |_| ())
}

#[test]
fn the_stop_time_is_exclusive() {
    for workers in [1, 2] {
        let last = 1000 * MS - 1;
        let host = Scripted::new(0, quiet, &[(1000 * MS, "at"), (last, "before"), (0, "first"), (u64::MAX, "never")]);
        let (hosts, outcome) = run(config(workers), vec![host], &[10]);
        assert_eq!(hosts[0].log, [(SimTime::ZERO, "first"), (SimTime::from_nanos(last), "before")]);
        assert!(hosts[0].horizons.iter().all(|horizon| *horizon <= ms(1000)));
        assert_eq!(outcome.unwrap().ending, Ending::Complete);
    }
}

#[test]
fn each_host_runs_ahead_by_its_own_incoming_latency() {
    let hosts = vec![
        Scripted::new(0, quiet, &[(0, "a")]),
        Scripted::new(1, quiet, &[(4 * MS, "b"), (6 * MS, "c")]),
        Scripted::new(2, quiet, &[(4 * MS, "d")]),
    ];
    let (hosts, outcome) = run(config(1), hosts, &[1, 5, 3]);
    assert_eq!(hosts[0].horizons, [ms(1)]);
    assert_eq!(hosts[1].horizons, [ms(5), ms(4 + 5)]);
    assert_eq!(hosts[2].horizons, [ms(4 + 3)]);
    let outcome = outcome.unwrap();
    assert_eq!(outcome.last_window, ms(4));
    assert_eq!(outcome.workers[0].rounds, 2);
    assert_eq!(outcome.workers[0].hosts_run, 4);
}

#[test]
fn windows_of_lonely_hosts_end_after_100_ms() {
    let hosts = vec![Scripted::new(0, quiet, &[(0, "a"), (99 * MS, "b"), (950 * MS, "c")])];
    let engine = Engine::new(config(1), hosts, &[SimDuration::MAX]).unwrap();
    let (hosts, _) = engine.run(&AtomicBool::new(false), |_| Ok(Recorder::default()), |_| ());
    assert_eq!(hosts[0].horizons, [ms(100), ms(1000)]);
}

#[test]
fn messages_of_one_moment_come_by_source_and_sequence_after_timers() {
    let send: Script = |actions, now, text| {
        if text == "go" {
            let to = HostId(3);
            let words = [["c1", "c2"], ["b1", "b2"], ["a1", "a2"]][actions.id.index()];
            actions.outbox.send(to, now + SimDuration::from_millis(5), words[0]);
            actions.outbox.send(to, now + SimDuration::from_millis(5), words[1]);
        }
    };
    for workers in [1, 2, 4] {
        let mut hosts: Vec<_> = (0..3).map(|id| Scripted::new(id, send, &[(0, "go")])).collect();
        hosts.push(Scripted::new(3, send, &[(5 * MS, "timer")]));
        let (hosts, _) = run(config(workers), hosts, &[5, 5, 5, 5]);
        let order: Vec<_> = hosts[3].log.iter().map(|(_, text)| *text).collect();
        assert_eq!(order, ["timer", "c1", "c2", "b1", "b2", "a1", "a2"], "{workers} workers");
    }
}

/// Host 0 sends to host 1 with 2 ms latency.
fn send_after_2_ms(actions: &mut Actions<'_, '_>, now: SimTime, text: &'static str) {
    if text == "go" {
        actions.outbox.send(HostId(1), now + SimDuration::from_millis(2), "hello");
    }
}

#[test]
fn a_runahead_floor_delays_messages_to_the_window_end_and_counts_them() {
    let hosts = || vec![Scripted::new(0, send_after_2_ms, &[(0, "go"), (4 * MS, "go")]), Scripted::new(1, quiet, &[])];
    let (exact, outcome) = run(config(1), hosts(), &[2, 2]);
    assert_eq!(exact[1].log, [(ms(2), "hello"), (ms(6), "hello")]);
    assert_eq!(outcome.unwrap().workers[0].messages_delayed, 0);

    let wide = Config { runahead: Some(SimDuration::from_millis(5)), ..config(1) };
    let (delayed, outcome) = run(wide, hosts(), &[2, 2]);
    assert_eq!(delayed[1].log, [(ms(5), "hello"), (ms(6), "hello")]);
    assert_eq!(outcome.unwrap().workers[0].messages_delayed, 1);
}

#[test]
fn a_message_faster_than_declared_is_an_error_that_names_the_sender() {
    let hosts = vec![Scripted::new(0, send_after_2_ms, &[(0, "go")]), Scripted::new(1, quiet, &[])];
    let (_, outcome) = run(config(1), hosts, &[3, 3]);
    let Err(Error::Panic { host, message, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(host, Some(HostId(0)));
    assert!(message.contains("host#0 sent host#1 a message for 2000000 ns"), "{message}");
}

#[test]
fn a_panic_names_its_host_and_ends_the_run_for_all_workers() {
    let bomb: Script = |actions, now, text| {
        assert_ne!(text, "boom", "host {} blew up", actions.id.0);
        actions.queue.schedule(now + SimDuration::from_millis(1), 0, text);
    };
    for workers in [1, 2, 8] {
        let mut hosts: Vec<_> = (0..20).map(|id| Scripted::new(id, bomb, &[(0, "tick")])).collect();
        hosts[13].queue.schedule(ms(50), 0, "boom");
        let (hosts, outcome) = run(config(workers), hosts, &[1; 20]);
        let Err(Error::Panic { host: Some(HostId(13)), message, .. }) = outcome else { panic!("{outcome:?}") };
        assert!(message.contains("host 13 blew up"), "{message}");
        assert_eq!(hosts.len(), 20);
        assert!(hosts.iter().all(|host| (50..=51).contains(&host.log.len())), "the failed window is the last");
    }
}

#[test]
fn a_panic_while_delivering_names_the_receiver() {
    let send: Script =
        |actions, now, _| actions.outbox.send(HostId(1), now + SimDuration::from_millis(1), "undeliverable");
    for workers in [1, 2] {
        let hosts = vec![Scripted::new(0, send, &[(0, "go")]), Scripted::new(1, quiet, &[])];
        let (_, outcome) = run(config(workers), hosts, &[1, 1]);
        assert!(matches!(outcome, Err(Error::Panic { host: Some(HostId(1)), .. })), "{outcome:?}");
    }
}

#[test]
fn a_host_that_leaves_events_behind_is_reported() {
    struct Lazy;
    impl Host for Lazy {
        type Message = ();
        type Worker = ();
        fn next_event(&self) -> Option<SimTime> {
            Some(ms(3))
        }
        fn deliver(&mut self, _: SimTime, _: HostId, _: u64, _: ()) {}
        fn run_until(&mut self, _: SimTime, _: &mut Outbox<()>, _: &mut ()) -> Progress {
            Progress::Done
        }
    }
    let engine = Engine::new(config(2), vec![Lazy], &[SimDuration::from_millis(1)]).unwrap();
    let (_, outcome) = engine.run(&AtomicBool::new(false), |_| Ok(()), |_| ());
    assert!(outcome.unwrap_err().to_string().contains("left an event at 3000000 ns undone"));
}

#[test]
fn the_stop_flag_ends_the_run_at_a_window_end() {
    let tick: Script = |actions, now, text| actions.queue.schedule(now + SimDuration::from_millis(1), 0, text);
    for workers in [1, 3] {
        let hosts = (0..5).map(|id| Scripted::new(id, tick, &[(0, "tick")])).collect();
        let engine = Engine::new(config(workers), hosts, &[SimDuration::from_millis(1); 5]).unwrap();
        let stop = AtomicBool::new(false);
        let mut seen = Vec::new();
        let on_window = |end: &WindowEnd| {
            seen.push((end.windows, end.complete_until));
            stop.store(end.windows == 10, Ordering::Relaxed);
        };
        let (hosts, outcome) = engine.run(&stop, |_| Ok(Recorder::default()), on_window);
        assert_eq!(outcome.unwrap().ending, Ending::Interrupted);
        let ticks = hosts[0].log.len();
        assert!((10..=12).contains(&ticks), "{ticks}");
        assert!(hosts.iter().all(|host| host.log.len() == ticks), "all hosts end with the same window");
        let expected: Vec<_> = (0..=ticks as u64).map(|n| (n, ms(n))).collect();
        assert_eq!(seen, expected);
    }
}

#[test]
fn the_callback_sees_totals_and_the_stop_time_last() {
    let hosts = vec![Scripted::new(0, send_after_2_ms, &[(0, "go")]), Scripted::new(1, quiet, &[])];
    for_each_window(hosts, &[2, 2], |ends| {
        let last = ends.last().unwrap();
        assert_eq!((last.complete_until, last.windows), (ms(1000), 2));
        assert_eq!((last.totals.messages_sent, last.totals.hosts_run), (1, 2));
    });
}

fn for_each_window(hosts: Vec<Scripted>, latencies_ms: &[u64], check: impl FnOnce(&[WindowEnd])) {
    let latencies: Vec<_> = latencies_ms.iter().map(|n| SimDuration::from_millis(*n)).collect();
    let mut ends = Vec::new();
    let engine = Engine::new(config(2), hosts, &latencies).unwrap();
    let (_, outcome) = engine.run(&AtomicBool::new(false), |_| Ok(Recorder::default()), |end| ends.push(*end));
    outcome.unwrap();
    check(&ends);
}

#[test]
fn all_workers_have_ended_a_window_before_the_callback_hears_of_it() {
    let tick: Script = |actions, now, text| actions.queue.schedule(now + SimDuration::from_millis(1), 0, text);
    let hosts = (0..7).map(|id| Scripted::new(id, tick, &[(0, "tick")])).collect();
    let engine = Engine::new(config(3), hosts, &[SimDuration::from_millis(1); 7]).unwrap();
    let windows = Arc::new(AtomicU64::new(0));
    let setup = |_| Ok(Recorder { windows: windows.clone(), ..Recorder::default() });
    let (_, outcome) = engine.run(&AtomicBool::new(false), setup, |end| {
        let ended = windows.load(Ordering::Relaxed);
        assert!((3 * end.windows..=3 * end.windows + 2).contains(&ended), "{ended} after {end:?}");
    });
    assert_eq!(outcome.unwrap().workers[0].rounds, 1000);
}

#[test]
fn a_panicking_callback_ends_the_run() {
    let hosts = (0..4).map(|id| Scripted::new(id, quiet, &[(0, "a")])).collect();
    let engine = Engine::new(config(2), hosts, &[SimDuration::from_millis(1); 4]).unwrap();
    let (_, outcome) = engine.run(&AtomicBool::new(false), |_| Ok(Recorder::default()), |_| panic!("callback"));
    assert_eq!(outcome.unwrap_err(), Error::Panic { worker: 0, host: None, message: "callback".into() });
}

#[test]
fn a_worker_that_cannot_be_set_up_ends_the_run_before_it_begins() {
    for failing in [0, 2] {
        let setup =
            |worker| if worker == failing { Err("no guest machinery".to_owned()) } else { Ok(Recorder::default()) };
        let hosts = vec![Scripted::new(0, quiet, &[(0, "a")])];
        let engine = Engine::new(config(3), hosts, &[SimDuration::from_millis(1)]).unwrap();
        let (hosts, outcome) = engine.run(&AtomicBool::new(false), setup, |_| ());
        assert_eq!(outcome.unwrap_err(), Error::WorkerSetup { worker: failing, reason: "no guest machinery".into() });
        assert!(hosts[0].log.is_empty());
    }
}

#[test]
fn setup_runs_once_on_each_workers_own_thread() {
    let calls = AtomicUsize::new(0);
    let caller = std::thread::current().id();
    let setup = |worker: usize| {
        calls.fetch_add(1, Ordering::Relaxed);
        assert_eq!(worker == 0, std::thread::current().id() == caller);
        Ok(Recorder::default())
    };
    let engine = Engine::new(config(3), Vec::<Scripted>::new(), &[]).unwrap();
    let (_, outcome) = engine.run(&AtomicBool::new(false), setup, |_| ());
    assert_eq!(outcome.unwrap().workers.len(), 3);
    assert_eq!(calls.into_inner(), 3);
}

#[test]
fn bad_configurations_are_refused() {
    let new = |config, latencies: &[SimDuration]| {
        let hosts = vec![Scripted::new(0, quiet, &[]), Scripted::new(1, quiet, &[])];
        Engine::new(config, hosts, latencies).map_or_else(ControlFlow::Break, |_| ControlFlow::Continue(()))
    };
    let one = SimDuration::from_millis(1);
    assert_eq!(new(config(1), &[one]), ControlFlow::Break(Error::LookaheadCount { hosts: 2, lookaheads: 1 }));
    assert_eq!(new(config(0), &[one; 2]), ControlFlow::Break(Error::Workers { asked: 0 }));
    let zero = [one, SimDuration::ZERO];
    assert_eq!(new(config(1), &zero), ControlFlow::Break(Error::ZeroLookahead { host: HostId(1) }));
    assert_eq!(new(Config { runahead: Some(one), ..config(1) }, &zero), ControlFlow::Continue(()));
}
