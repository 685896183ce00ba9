//! Options that the kernel keeps with a socket, and the rules by which it takes and shows them.

use linux_abi::Errno;
use smallvec::SmallVec;

/// The answer to values that ask for what is not simulated: that of a kernel without the option.
pub(crate) const REFUSED: Errno = Errno::ENOPROTOOPT;

/// Options of one socket that only the kernel looks at, where they differ from their defaults.
#[derive(Clone, Debug, Default)]
pub struct Kept(SmallVec<[(i32, i32, i32); 2]>);

impl Kept {
    pub fn get(&self, level: i32, option: i32) -> Option<i32> {
        self.0.iter().find(|entry| (entry.0, entry.1) == (level, option)).map(|entry| entry.2)
    }

    pub fn set(&mut self, level: i32, option: i32, value: i32) {
        match self.0.iter_mut().find(|entry| (entry.0, entry.1) == (level, option)) {
            Some(entry) => entry.2 = value,
            None => self.0.push((level, option, value)),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What an option takes, and what it shows when nobody has set it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    /// On or off by any number; off at first.
    Flag,
    /// The same, on at first.
    FlagOn,
    /// On or off by 1 and 0; EINVAL for other numbers.
    Bit,
    /// A number from `least` to `most`; EINVAL for others.
    Number { default: i32, least: i32, most: i32 },
    /// What is not simulated: stays at `only`. Other numbers that Linux takes are refused, those
    /// that it does not take are EINVAL.
    Only { only: i32, least: i32, most: i32 },
    /// Shows a number, and cannot be set.
    Fixed(i32),
    /// Takes any number, does nothing, and shows 0.
    Ignored,
    /// Takes any number, does nothing, and cannot be read.
    SetOnly,
}

/// Numbers without bounds.
pub(crate) const ANY: Rule = Rule::Number { default: 0, least: i32::MIN, most: i32::MAX };

/// An option of which nothing but "off" is simulated.
pub(crate) const fn off(most: i32) -> Rule {
    Rule::Only { only: 0, least: 0, most }
}

impl Rule {
    /// What getsockopt(2) shows at first. ENOPROTOOPT for options that cannot be read.
    pub fn default(self) -> Result<i32, Errno> {
        match self {
            Rule::Flag | Rule::Bit | Rule::Ignored => Ok(0),
            Rule::FlagOn => Ok(1),
            Rule::Number { default, .. } => Ok(default),
            Rule::Only { only, .. } => Ok(only),
            Rule::Fixed(value) => Ok(value),
            Rule::SetOnly => Err(Errno::ENOPROTOOPT),
        }
    }

    /// What becomes of a number that a program sets. EINVAL, ENOPROTOOPT.
    pub fn accept(self, number: i32) -> Result<i32, Errno> {
        match self {
            Rule::Flag | Rule::FlagOn => Ok(i32::from(number != 0)),
            Rule::Bit if !(0..=1).contains(&number) => Err(Errno::EINVAL),
            Rule::Number { least, most, .. } | Rule::Only { least, most, .. } if !(least..=most).contains(&number) => {
                Err(Errno::EINVAL)
            }
            Rule::Only { only, .. } if number != only => Err(REFUSED),
            Rule::Bit | Rule::Number { .. } | Rule::Only { .. } => Ok(number),
            Rule::Ignored | Rule::SetOnly => Ok(0),
            Rule::Fixed(_) => Err(Errno::ENOPROTOOPT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_options_remember_the_last_value() {
        let mut kept = Kept::default();
        assert_eq!(kept.get(0, 8), None);
        kept.set(0, 8, 1);
        kept.set(0, 8, 0);
        assert_eq!(kept.get(0, 8), Some(0));
    }

    #[test]
    fn flags_take_any_number_and_bounds_hold() {
        assert_eq!(Rule::Flag.accept(7), Ok(1));
        assert_eq!(Rule::Bit.accept(7), Err(Errno::EINVAL));
        let hops = Rule::Number { default: 1, least: -1, most: 255 };
        assert_eq!((hops.default(), hops.accept(3), hops.accept(256)), (Ok(1), Ok(3), Err(Errno::EINVAL)));
    }

    #[test]
    fn what_is_not_simulated_can_be_switched_off() {
        assert_eq!(off(1).accept(0), Ok(0));
        assert_eq!(off(1).accept(1), Err(REFUSED));
        assert_eq!(off(1).accept(2), Err(Errno::EINVAL));
    }
}
