//! Users by country: userstats-relay-country.csv of Tor Metrics ("date,country,users,...").

use super::lines::{Line, text};
use crate::Error;
use crate::geography::Geography;
use std::path::Path;

/// Users per place, summed over all days of the file. Countries that the geography lacks, and the row of all countries together
/// (without a code), are left out.
pub(super) fn read(path: &Path, geography: &Geography) -> Result<Vec<f64>, Error> {
    parse(path, &text(path)?, geography)
}

fn parse(path: &Path, text: &str, geography: &Geography) -> Result<Vec<f64>, Error> {
    let mut users = vec![0.0; geography.places.len()];
    let rows = Line::all(path, text).filter(|line| !line.text.is_empty() && !line.text.starts_with('#'));
    for line in rows.filter(|line| !line.text.starts_with("date,")) {
        let mut fields = line.text.split(',').skip(1);
        let (Some(country), Some(number)) = (fields.next(), fields.next()) else {
            return Err(line.wrong("'DATE,COUNTRY,USERS,...'"));
        };
        let number: f64 = number.parse().map_err(|_| line.wrong("a number of users in the third column"))?;
        if let Some(place) = geography.index(&country.to_ascii_uppercase()) {
            users[place] += number;
        }
    }
    if users.iter().all(|number| *number == 0.0) {
        return Err(Error::input(format!("{}: has no users of any country with known latencies", path.display())));
    }
    Ok(users)
}
