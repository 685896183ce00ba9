//! What guests' computing costs, from the experiment's options: budgets, pre-emption, the speed of hosts' processors.

use ::profile::costs::{self, Cost, Costs};
use base::SimDuration;
use base::wall::WallClock;
use linux_abi::nr;
use scenario::{CpuSpeed, HostPlan, Plan};
use simkernel::host::{CallCost, ComputingRules};
use simkernel::intervals::{self, ProcessorModel, ProgramModel};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How much processor time lies between two looks at a guest that does not come back.
const TICK: Duration = Duration::from_millis(20);
/// The same where computing takes simulated time: others have to wait for so long.
const MODEL_TICK: Duration = Duration::from_millis(4);

/// The rules for one host.
pub fn rules(plan: &Plan, host: &HostPlan) -> ComputingRules {
    let options = &plan.experimental;
    let wall = |time: SimDuration| Duration::from_nanos(time.as_nanos());
    let defaults = ComputingRules { speed: host.options.cpu_speed.map(relative), ..ComputingRules::default() };
    if options.native_preemption_enabled {
        let interval = wall(options.native_preemption_native_interval);
        let nap = options.native_preemption_sim_interval;
        return ComputingRules { budget: Some(interval), interval, first_nap: nap, last_nap: nap, ..defaults };
    }
    ComputingRules { budget: options.compute_budget.map(wall), ..defaults }
}

/// What calls cost on one host: what its own option says, or the whole experiment's.
pub fn call_cost(plan: &Plan, host: &HostPlan) -> Option<CallCost> {
    // As the experiment's usual costs are to each other.
    const LOOKS_PER_CALL: u64 = 100;
    let own = host.options.call_latency.filter(|latency| !latency.is_zero());
    let of_host =
        own.map(|each| CallCost { each, look: SimDuration::from_nanos((each.as_nanos() / LOOKS_PER_CALL).max(1)) });
    of_host.or(plan.general.model_unblocked_syscall_latency.then_some(CallCost {
        each: plan.experimental.unblocked_syscall_latency,
        look: plan.experimental.unblocked_vdso_latency,
    }))
}

/// What computing costs by `experimental.cpu_model`.
#[derive(Clone, Debug)]
pub struct CpuModel {
    costs: Costs,
    programs: BTreeMap<String, Arc<ProgramModel>>,
}

impl CpuModel {
    /// The plan's, if it has one.
    ///
    /// # Errors
    /// When the file says what makes no sense, with its place.
    pub fn load(plan: &Plan) -> Result<Option<CpuModel>, String> {
        let Some(path) = &plan.cpu_model else { return Ok(None) };
        let costs = Costs::load(path, &|name| nr::number(name).is_some()).map_err(|error| error.to_string())?;
        let program = |(key, list): (&String, &Vec<Cost>)| (key.clone(), Arc::new(program_model(list)));
        let programs = costs.programs.iter().map(program).collect();
        Ok(Some(CpuModel { costs, programs }))
    }

    /// What counts on a host.
    pub fn of_host(&self, host: &str) -> ProcessorModel {
        let on_host = self.costs.on_host(host);
        let programs = on_host.iter().map(|(name, key)| ((*name).to_owned(), self.programs[*key].clone())).collect();
        ProcessorModel { programs, mean_ns: costs::mean(self.costs.programs.values().flatten()) }
    }
}

fn program_model(list: &[Cost]) -> ProgramModel {
    let number = |name: &str| match name {
        costs::START => Some(intervals::START),
        _ => nr::number(name).map(|number| number as u16),
    };
    let mut model = ProgramModel { mean_ns: costs::mean(list.iter()), ..ProgramModel::default() };
    for cost in list {
        if let (Some(from), Some(to)) = (number(&cost.from), number(&cost.to)) {
            let times = cost.times.clone().into_boxed_slice();
            model.pairs.entry((from, to)).or_default().push((intervals::size_class(cost.bytes), times));
        }
    }
    model.pairs.values_mut().for_each(|sizes| sizes.sort_by_key(|(size, _)| *size));
    model
}

/// How often workers look.
pub fn tick(plan: &Plan) -> Duration {
    let options = &plan.experimental;
    let mut tick = TICK;
    if plan.hosts.iter().any(|host| host.options.cpu_speed.is_some()) {
        tick = tick.min(MODEL_TICK);
    }
    if options.native_preemption_enabled {
        tick = tick.min(Duration::from_nanos(options.native_preemption_native_interval.as_nanos()));
    }
    tick
}

/// What the log says before the run.
pub fn warning(plan: &Plan) -> Option<String> {
    let modelled: Vec<&HostPlan> = plan.hosts.iter().filter(|host| host.options.cpu_speed.is_some()).collect();
    let first = modelled.first()?;
    let factor = first.options.cpu_speed.map_or(1.0, relative);
    Some(format!(
        "cpu_speed: computing takes simulated time on {} hosts ({}: {factor:.3} times this machine's speed), so this run is not \
         reproducible to the bit",
        modelled.len(),
        first.name
    ))
}

/// A processor's speed in units of this machine's.
fn relative(speed: CpuSpeed) -> f64 {
    match speed {
        CpuSpeed::Relative { millionths } => millionths as f64 / 1e6,
        CpuSpeed::Clock { khz } => khz as f64 / machine_khz(),
    }
}

/// How fast this machine's time-stamp counter runs, which is its processors' nominal clock rate.
fn machine_khz() -> f64 {
    static KHZ: OnceLock<f64> = OnceLock::new();
    *KHZ.get_or_init(|| {
        let (clock, before) = (WallClock::start(), guest::time_stamp());
        std::thread::sleep(Duration::from_millis(20));
        let (elapsed, after) = (clock.elapsed(), guest::time_stamp());
        after.wrapping_sub(before) as f64 / (elapsed.as_secs_f64() * 1e3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_rates_are_seen_against_this_machine_s() {
        let machine = machine_khz();
        assert!((100_000.0..20_000_000.0).contains(&machine), "{machine} kHz");
        let half = relative(CpuSpeed::Clock { khz: (machine / 2.0) as u64 });
        assert!((half - 0.5).abs() < 0.001, "{half}");
        assert!((relative(CpuSpeed::Relative { millionths: 250_000 }) - 0.25).abs() < 1e-9);
    }
}
