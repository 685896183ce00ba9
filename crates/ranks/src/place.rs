//! Which of how many processes this is, as those that start parallel programs tell it.

/// A process's place in a run over several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// From 0.
    pub rank: usize,
    pub size: usize,
}

/// Names of the variables that hold rank and size, and who sets them.
const VARIABLES: [(&str, &str); 3] = [
    // Open MPI's mpirun.
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    // MPICH's mpiexec, and Slurm's srun with PMI.
    ("PMI_RANK", "PMI_SIZE"),
    // Slurm's srun with PMIx. The size alone is also set for scripts that start nothing in parallel.
    ("PMIX_RANK", "SLURM_NTASKS"),
];

impl Place {
    /// What `variable` says of this process; None where it was started alone, or as the only one.
    pub fn told_by(variable: impl Fn(&str) -> Option<String>) -> Option<Place> {
        let number = |name| variable(name)?.trim().parse::<usize>().ok();
        let told = |(rank, size)| Some(Place { rank: number(rank)?, size: number(size)? });
        VARIABLES.into_iter().find_map(told).filter(|place| place.size > 1 && place.rank < place.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(variables: &[(&str, &str)]) -> Option<Place> {
        Place::told_by(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn each_starter_is_understood() {
        let second = Some(Place { rank: 1, size: 4 });
        assert_eq!(told(&[("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "4")]), second);
        assert_eq!(told(&[("PMI_RANK", "1"), ("PMI_SIZE", "4")]), second);
        assert_eq!(told(&[("PMIX_RANK", "1"), ("SLURM_NTASKS", "4")]), second);
    }

    #[test]
    fn one_process_alone_has_no_place() {
        assert_eq!(told(&[]), None);
        assert_eq!(told(&[("SLURM_NTASKS", "4")]), None);
        assert_eq!(told(&[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "1")]), None);
        assert_eq!(told(&[("PMI_RANK", "4"), ("PMI_SIZE", "4")]), None);
    }
}
