//! Who has which host, in a run over several processes.

use scenario::Plan;

/// Consecutive hosts for each rank, so that all have about as many processes of the plan.
pub fn by_processes(plan: &Plan, ranks: usize) -> Vec<u32> {
    let costs: Vec<u64> = plan.hosts.iter().map(|host| 1 + host.processes.len() as u64).collect();
    consecutive(&costs, ranks)
}

fn consecutive(costs: &[u64], ranks: usize) -> Vec<u32> {
    let total: u64 = costs.iter().sum();
    let mut before = 0;
    let rank_of = |cost: &u64| {
        // The rank in whose share the host's middle lies.
        let middle = before + cost / 2;
        before += cost;
        (middle * ranks as u64 / total.max(1)).min(ranks as u64 - 1) as u32
    };
    costs.iter().map(rank_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_about_the_same() {
        assert_eq!(consecutive(&[1, 1, 1, 1], 2), [0, 0, 1, 1]);
        assert_eq!(consecutive(&[1, 1], 3), [0, 1]);
        assert_eq!(consecutive(&[10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], 2), [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(consecutive(&[], 2), [] as [u32; 0]);
    }
}
