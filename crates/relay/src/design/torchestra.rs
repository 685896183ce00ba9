//! Which circuits are heavy (Gopal and Heninger, "Torchestra: reducing interactive traffic delays over Tor", WPES 2012).

/// A circuit becomes heavy when its mean is this many times that of the light ones.
const UP: f64 = 1.4;
/// A circuit becomes light when its mean is below this part of that of the heavy ones.
const DOWN: f64 = 0.3;

/// A circuit's mean of cells sent of late, and where it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    pub cells: f64,
    pub is_heavy: bool,
}

/// Which of a channel's circuits are heavy now, by their places.
pub fn classify(circuits: &[Load]) -> Vec<bool> {
    let mean = |heavy: bool| {
        let cells = circuits.iter().filter(|circuit| circuit.is_heavy == heavy).map(|circuit| circuit.cells);
        let (sum, count) = cells.fold((0.0, 0), |(sum, count), cells| (sum + cells, count + 1));
        if count == 0 { 0.0 } else { sum / f64::from(count) }
    };
    let (light, heavy) = (mean(false), mean(true));
    circuits
        .iter()
        .map(|circuit| if circuit.is_heavy { circuit.cells >= DOWN * heavy } else { circuit.cells > UP * light })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heavy(circuits: &[(f64, bool)]) -> Vec<bool> {
        classify(
            &circuits.iter().map(|(cells, is_heavy)| Load { cells: *cells, is_heavy: *is_heavy }).collect::<Vec<_>>(),
        )
    }

    #[test]
    fn who_sends_more_than_the_light_becomes_heavy_and_back() {
        assert_eq!(heavy(&[(100.0, false)]), [false], "alone it is the mean");
        assert_eq!(heavy(&[(10.0, false), (10.0, false), (100.0, false)]), [false, false, true], "the mean is 40");
        assert_eq!(heavy(&[(10.0, false), (100.0, true), (20.0, true)]), [false, true, true], "0.3 of 60 is 18");
        assert_eq!(heavy(&[(10.0, false), (100.0, true), (10.0, true)]), [false, true, false]);
        assert_eq!(heavy(&[(0.0, false), (0.0, false)]), [false, false]);
    }
}
