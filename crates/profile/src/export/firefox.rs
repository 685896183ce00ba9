//! The Firefox Profiler's processed format: a track for each thread of each process, over simulated time.

use crate::read::Kind;
use crate::record::Unit;
use crate::tables::{Selection, label};
use base::map::FastMap;
use fxprof_processed_profile::{
    CategoryColor, CpuDelta, Frame, FrameFlags, FrameInfo, Profile, ReferenceTimestamp, SamplingInterval, Timestamp,
};
use std::time::Duration;

/// Processes of different hosts have the same numbers; the format wants others.
const HOST_SHIFT: u32 = 1 << 16;

pub(super) fn write(selection: &Selection<'_>) -> std::io::Result<Vec<u8>> {
    let source = selection.profile;
    let interval = SamplingInterval::from_hz(source.about.rate.max(1.0) as f32);
    let mut profile = Profile::new("Gnomon", ReferenceTimestamp::from_millis_since_unix_epoch(0.0), interval);
    let categories = [
        (Kind::Native, profile.add_category("Native", CategoryColor::Orange)),
        (Kind::Made, profile.add_category("Generated code", CategoryColor::Yellow)),
        (Kind::Python, profile.add_category("Python", CategoryColor::Blue)),
        (Kind::Call, profile.add_category("System call", CategoryColor::LightRed)),
        (Kind::Simulator, profile.add_category("Simulator", CategoryColor::Green)),
    ];
    let category =
        |kind: Kind| categories.iter().find(|(known, _)| *known == kind).map_or(categories[0].1, |(_, c)| *c);
    let frames: Vec<FrameInfo> = source
        .functions
        .iter()
        .map(|function| FrameInfo {
            frame: Frame::Label(profile.intern_string(&label(function))),
            category_pair: category(function.kind).into(),
            flags: FrameFlags::empty(),
        })
        .collect();
    let mut processes = FastMap::default();
    let mut threads = FastMap::default();
    let begin = Timestamp::from_nanos_since_reference(0);
    let mut rows = selection.rows.clone();
    rows.sort_by_key(|row| row.time_ns);
    for row in rows {
        let process = *processes.entry((row.host, row.process)).or_insert_with(|| {
            let number =
                row.host.map_or(0, |host| (host + 1).wrapping_mul(HOST_SHIFT)).wrapping_add(row.process.unwrap_or(0));
            let name = match (row.host, row.process) {
                (Some(_), Some(process)) => format!("{}: {} ({process})", source.host(row), source.program(row)),
                (Some(_), None) => format!("{}: host", source.host(row)),
                _ => "engine".to_owned(),
            };
            profile.add_process(&name, number, begin)
        });
        let thread = *threads.entry((row.host, row.process, row.thread)).or_insert_with(|| {
            let is_main = row.thread == row.process;
            profile.add_thread(process, row.thread.unwrap_or(0), begin, is_main)
        });
        let stack = source.stacks[row.stack as usize].iter().map(|id| frames[*id as usize].clone());
        let stack = profile.intern_stack_frames(thread, stack);
        let (time, weight) = match source.about.unit {
            Unit::Nanoseconds => (CpuDelta::from(Duration::from_nanos(row.weight_ns)), 1),
            Unit::Instructions => (CpuDelta::ZERO, i32::try_from(row.weight_ns).unwrap_or(i32::MAX)),
        };
        profile.add_sample(thread, Timestamp::from_nanos_since_reference(row.time_ns), stack, time, weight);
    }
    profile.set_symbolicated(true);
    serde_json::to_vec(&profile).map_err(std::io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_samples() {
        let profile = crate::tables::tests::profile();
        let bytes = write(&Selection::new(&profile, |_| true)).unwrap();
        let read: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        let threads = read["threads"].as_array().unwrap();
        assert_eq!(threads.len(), 3);
        let samples: u64 = threads.iter().filter_map(|thread| thread["samples"]["length"].as_u64()).sum();
        assert_eq!(samples as usize, profile.rows.len());
    }
}
