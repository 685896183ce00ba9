//! Choosing relays and places from a model.
//!
//! Relays are chosen as the field does ("Once is Never Enough", USENIX Security 2021; tornettools): those of a role are sorted by
//! weight and cut into as many bins as relays are wanted, and the one in the middle of each bin is taken. So a small network has
//! the shape of the large one, and the seed changes only what is left open.

use crate::Error;
use crate::model::{Model, ModelRelay};
use crate::network::Role;
use base::Rng;

/// `count` relays of one role, fastest first. A role without relays in the model is filled from all relays.
pub(crate) fn relays<'a>(
    model: &'a Model,
    role: Role,
    count: usize,
    rng: &mut Rng,
) -> Result<Vec<&'a ModelRelay>, Error> {
    let wanted = if role == Role::Bridge { Role::Middle } else { role };
    let mut candidates: Vec<&ModelRelay> = model.relays.iter().filter(|relay| relay.role == wanted).collect();
    if candidates.is_empty() {
        candidates = model.relays.iter().collect();
    }
    if candidates.is_empty() {
        return Err(Error::input("the model has no relays to choose from"));
    }
    candidates.sort_by_key(|relay| std::cmp::Reverse(relay.weight));
    let total = candidates.len();
    Ok((0..count)
        .map(|bin| {
            let (start, end) = (bin * total / count, ((bin + 1) * total / count).max(bin * total / count + 1));
            middle_of(&candidates[start.min(total - 1)..end.min(total)], rng)
        })
        .collect())
}

/// One from the middle fifth of a bin: its median, give or take, so that different seeds sample different networks.
fn middle_of<'a>(bin: &[&'a ModelRelay], rng: &mut Rng) -> &'a ModelRelay {
    let width = (bin.len() / 5).max(1);
    let first = (bin.len() - width) / 2;
    bin[first + rng.below(width as u64) as usize]
}

/// An index, with the given weights' probabilities. Weights that add up to nothing give the first.
pub(crate) fn weighted(weights: &[f64], rng: &mut Rng) -> usize {
    let total: f64 = weights.iter().sum();
    let mut left = rng.unit() * total;
    for (index, weight) in weights.iter().enumerate() {
        if left < *weight {
            return index;
        }
        left -= weight;
    }
    weights.iter().rposition(|weight| *weight > 0.0).unwrap_or(0)
}
