//! Users by country: userstats-relay-country.csv of Tor Metrics ("date,country,users,..."), or the shares that staging made of it.

use super::lines::{Line, text};
use super::stage::median;
use crate::Error;
use crate::geography::Geography;
use base::StartDate;
use std::collections::BTreeMap;
use std::path::Path;

/// Users per place, summed over all days of the file, or as it has their shares. Countries that the geography lacks are left out.
pub(super) fn read(path: &Path, geography: &Geography) -> Result<Vec<f64>, Error> {
    let text = text(path)?;
    let by_country = if text.trim_start().starts_with('{') { shares(path, &text)? } else { parse(path, &text)?.sums() };
    let mut users = vec![0.0; geography.places.len()];
    for (country, number) in by_country {
        if let Some(place) = geography.index(&country.to_ascii_uppercase()) {
            users[place] += number;
        }
    }
    if users.iter().all(|number| *number == 0.0) {
        return Err(Error::input(format!("{}: has no users of any country with known latencies", path.display())));
    }
    Ok(users)
}

/// The file `userinfo_staging_...json`: {"de": 0.08, ...}.
fn shares(path: &Path, text: &str) -> Result<BTreeMap<String, f64>, Error> {
    let wrong = |line: usize, what: &str| {
        Error::input(format!(
            "{}:{line}: {what}; shares of users by country belong here, as 'gnomon tor stage' writes them",
            path.display()
        ))
    };
    let shares: BTreeMap<String, f64> =
        serde_json::from_str(text).map_err(|error| wrong(error.line(), &error.to_string()))?;
    match shares.iter().find(|(_, share)| !share.is_finite() || **share < 0.0) {
        Some((country, share)) => Err(wrong(1, &format!("'{country}' has {share}"))),
        None => Ok(shares),
    }
}

/// Users of each day by country, lower case; countries that nobody knows are left out.
#[derive(Debug)]
pub(super) struct Days(BTreeMap<u64, BTreeMap<String, f64>>);

/// No countries: all together, anonymous proxies, satellites, unknown.
const NO_COUNTRIES: [&str; 4] = ["", "a1", "a2", "??"];

/// The table's days.
pub(super) fn days(path: &Path) -> Result<Days, Error> {
    parse(path, &text(path)?)
}

fn parse(path: &Path, text: &str) -> Result<Days, Error> {
    let mut days: BTreeMap<u64, BTreeMap<String, f64>> = BTreeMap::new();
    let rows = Line::all(path, text).filter(|line| !line.text.is_empty() && !line.text.starts_with('#'));
    for line in rows.filter(|line| !line.text.starts_with("date,")) {
        let mut fields = line.text.split(',');
        let (Some(date), Some(country), Some(number)) = (fields.next(), fields.next(), fields.next()) else {
            return Err(line.wrong("'DATE,COUNTRY,USERS,...'"));
        };
        let date = StartDate::parse(date).map_err(|_| line.wrong("a date (YYYY-MM-DD) in the first column"))?;
        let number: f64 = number.parse().map_err(|_| line.wrong("a number of users in the third column"))?;
        if !(0.0..1e12).contains(&number) {
            return Err(line.wrong("a number of users in the third column"));
        }
        let country = country.to_ascii_lowercase();
        if !NO_COUNTRIES.contains(&country.as_str()) {
            *days.entry(date.unix_seconds()).or_default().entry(country).or_default() += number.trunc();
        }
    }
    Ok(Days(days))
}

impl Days {
    fn sums(&self) -> BTreeMap<String, f64> {
        let mut sums = BTreeMap::new();
        for (country, number) in self.0.values().flatten() {
            *sums.entry(country.clone()).or_default() += number;
        }
        sums
    }

    /// Medians of countries' shares over the days from `first` to `last` (seconds since 1970), made to add up to 1.
    pub(super) fn shares(&self, first: u64, last: u64, path: &Path) -> Result<BTreeMap<String, f64>, Error> {
        let mut of_days: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for countries in self.0.range(first..=last).map(|(_, countries)| countries) {
            let total: f64 = countries.values().sum();
            for (country, number) in countries.iter().filter(|_| total > 0.0) {
                of_days.entry(country).or_default().push(number / total);
            }
        }
        let mut shares: BTreeMap<String, f64> =
            of_days.into_iter().map(|(country, mut of_days)| (country.to_owned(), median(&mut of_days))).collect();
        let total: f64 = shares.values().sum();
        if total == 0.0 {
            return Err(Error::input(format!(
                "{}: has no users on any day of the consensuses' time; fetch the table anew, or name that of the same month",
                path.display()
            )));
        }
        shares.values_mut().for_each(|share| *share /= total);
        Ok(shares)
    }
}
