//! The CSV form of figures: a header with units, a row per point or bar, numbers in base units.

use super::{Along, Bars, Plot, Reference};

pub fn of_plot(plot: &Plot) -> String {
    let mut table = Table::default();
    let has_intervals = plot.series.iter().flat_map(|series| &series.points).any(|point| point.interval.is_some());
    let interval_column = match plot.interval {
        Along::X => plot.x.column,
        Along::Y => plot.y.column,
    };
    let mut header = vec!["series".to_owned(), plot.x.column.to_owned(), plot.y.column.to_owned()];
    if has_intervals {
        header.extend([format!("low_{interval_column}"), format!("high_{interval_column}")]);
    }
    table.row(header);
    for series in &plot.series {
        for point in &series.points {
            let mut row = vec![series.name.clone(), number(point.x), number(point.y)];
            if has_intervals {
                row.extend(ends(point.interval));
            }
            table.row(row);
        }
    }
    if let Some(reference) = &plot.reference {
        for (share, value) in &reference.quantiles {
            let share_cell = if reference.is_distribution { number(*share) } else { String::new() };
            let name =
                if reference.is_distribution { reference.name.clone() } else { quantile_name(reference, *share) };
            let mut row = match plot.interval {
                Along::X => vec![name, number(*value), share_cell],
                Along::Y => vec![name, share_cell, number(*value)],
            };
            if has_intervals {
                row.extend(ends(None));
            }
            table.row(row);
        }
    }
    table.text()
}

/// "public Tor, 2019, 25 %".
fn quantile_name(reference: &Reference, share: f64) -> String {
    format!("{}, {} %", reference.name, number(share * 100.0))
}

pub fn of_bars(bars: &Bars) -> String {
    let mut table = Table::default();
    let all = || bars.series.iter().flat_map(|series| &series.bars);
    let has_intervals = all().any(|bar| bar.interval.is_some());
    let column = bars.axis.column;
    let mut header = vec!["series".to_owned(), bars.category_column.to_owned(), column.to_owned()];
    if has_intervals {
        header.extend([format!("low_{column}"), format!("high_{column}")]);
    }
    header.extend(bars.mark.iter().map(|mark| mark.column.to_owned()));
    table.row(header);
    for series in &bars.series {
        for (category, bar) in bars.categories.iter().zip(&series.bars) {
            let Some(value) = bar.value else { continue };
            let mut row = vec![series.name.clone(), category.clone(), number(value)];
            if has_intervals {
                row.extend(ends(bar.interval));
            }
            if bars.mark.is_some() {
                row.push(bar.mark.map(number).unwrap_or_default());
            }
            table.row(row);
        }
    }
    for (share, value) in bars.reference.iter().flat_map(|reference| &reference.quantiles) {
        let reference = bars.reference.as_ref().expect("its quantiles are there");
        let mut row = vec![reference.name.clone(), format!("{} %", number(share * 100.0)), number(*value)];
        if has_intervals {
            row.extend(ends(None));
        }
        if bars.mark.is_some() {
            row.push(String::new());
        }
        table.row(row);
    }
    table.text()
}

fn ends(interval: Option<(f64, f64)>) -> [String; 2] {
    interval.map(|(low, high)| [number(low), number(high)]).unwrap_or_default()
}

/// Nanoseconds are the finest that is measured.
fn number(value: f64) -> String {
    format!("{}", (value * 1e9).round() / 1e9)
}

/// Rows of comma-separated values in memory.
struct Table(csv::Writer<Vec<u8>>);

impl Default for Table {
    fn default() -> Table {
        Table(csv::Writer::from_writer(Vec::new()))
    }
}

impl Table {
    fn row(&mut self, cells: Vec<String>) {
        self.0.write_record(cells).expect("memory can be written to, and rows are of equal length");
    }

    fn text(self) -> String {
        let bytes = self.0.into_inner().expect("memory can be written to");
        String::from_utf8(bytes).expect("cells are text")
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;

    #[test]
    fn plots_have_a_row_per_point_with_units_in_the_header() {
        let point = |x, y, interval| Point { x, y, interval };
        let series = |name: &str, points| Series::line(name.into(), Ink::solid(0), points);
        let plot = Plot {
            x: Axis::new("Time", "time_s", Unit::Seconds),
            y: Axis::new("Rate", "rate_bit_per_s", Unit::BitsPerSecond),
            series: vec![
                series("a, b", vec![point(0.5, 10.0, Some((9.0, 11.0)))]),
                series("c", vec![point(0.1 + 0.2, 1.0, None)]),
            ],
            interval: Along::Y,
            names_at_ends: false,
            moments: Vec::new(),
            reference: None,
        };
        let expected =
            "series,time_s,rate_bit_per_s,low_rate_bit_per_s,high_rate_bit_per_s\n\"a, b\",0.5,10,9,11\nc,0.3,1,,\n";
        assert_eq!(super::of_plot(&plot), expected);
    }

    #[test]
    fn bars_have_a_row_per_bar_that_there_is() {
        let bar = |value, mark| Bar { value, interval: None, mark };
        let bars = Bars {
            axis: Axis::new("Utilisation", "utilisation", Unit::Share),
            category_column: "relay",
            categories: vec!["r1".into(), "r2".into()],
            series: vec![BarSeries {
                name: "run".into(),
                ink: Ink::solid(0),
                bars: vec![bar(Some(0.5), Some(0.9)), bar(None, None)],
            }],
            is_stacked: false,
            mark: Some(Mark { name: "95th percentile".into(), column: "utilisation_p95" }),
            reference: None,
        };
        assert_eq!(super::of_bars(&bars), "series,relay,utilisation,utilisation_p95\nrun,r1,0.5,0.9\n");
    }
}
