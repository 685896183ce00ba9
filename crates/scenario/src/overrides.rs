//! Values from the command line, which win over the file's.

use crate::error::{Place, ScenarioError};
use crate::options::{OptionSpec, options};
use crate::suggest::remedy;

/// Option values in the order in which they were given; the last one of an option counts. They go through the same checks as
/// the file's; what is wrong with one names its flag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    pub(crate) values: Vec<(&'static OptionSpec, String)>,
}

impl Overrides {
    /// Sets an option by its spec, as found in `options()`.
    pub fn set(&mut self, option: &'static OptionSpec, value: impl Into<String>) {
        self.values.push((option, value.into()));
    }

    /// Sets an option by its path, such as `general.stop_time`.
    pub fn set_path(&mut self, path: &str, value: impl Into<String>) -> Result<(), ScenarioError> {
        match options().find(|option| option.path() == path) {
            Some(option) => {
                self.set(option, value);
                Ok(())
            }
            None => {
                let known: Vec<String> = options().map(OptionSpec::path).collect();
                let message = format!("unknown option{}", remedy(path, known.iter().map(String::as_str)));
                Err(ScenarioError::one(Place::Flag(path.to_owned()), "", message))
            }
        }
    }
}

/// How an error names an option of the command line.
pub(crate) fn flag_place(option: &OptionSpec) -> Place {
    Place::Flag(format!("--{}", option.flag()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_paths_are_refused() {
        let mut overrides = Overrides::default();
        assert!(overrides.set_path("general.seed", "5").is_ok());
        assert_eq!(
            overrides.set_path("general.sed", "5").unwrap_err().to_string(),
            "general.sed: unknown option; did you mean 'general.seed'?"
        );
    }
}
