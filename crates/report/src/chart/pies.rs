//! Drawing pies: one for each category, whose slices are the series' shares of their sum.

use super::bars::legend;
use super::svg::{Anchor, SMALL_SIZE, Svg, TICK_SIZE, WIDTH};
use super::{Bars, Figure, text};
use std::f64::consts::TAU;

const PER_ROW: usize = 3;
const RADIUS: f64 = 58.0;
/// Smaller slices have no room for their share.
const LEAST_TOLD: f64 = 0.06;
const NAME_HEIGHT: f64 = 20.0;

pub fn draw(figure: &Figure, bars: &Bars) -> String {
    let mut svg = Svg::default();
    let heading = svg.heading(figure);
    let top = heading + svg.legend(heading, 8.0, WIDTH - 18.0, &legend(bars)) + 6.0;
    let columns = bars.categories.len().clamp(1, PER_ROW);
    let (column, row) = (WIDTH / columns as f64, 2.0 * RADIUS + NAME_HEIGHT + 10.0);
    for (index, name) in bars.categories.iter().enumerate() {
        let x = column * ((index % columns) as f64 + 0.5);
        let y = top + row * (index / columns) as f64 + RADIUS;
        pie(&mut svg, bars, index, (x, y));
        let name = text::shorten(name, TICK_SIZE, column - 12.0);
        svg.text(x, y + RADIUS + 14.0, Anchor::Middle, TICK_SIZE, &name);
    }
    let rows = bars.categories.len().div_ceil(columns);
    svg.finish(figure, top + row * rows as f64, "")
}

/// From the top, clockwise.
fn pie(svg: &mut Svg, bars: &Bars, index: usize, (x, y): (f64, f64)) {
    let values = || bars.series.iter().map(|series| series.bars[index].value.unwrap_or(0.0).max(0.0));
    let sum: f64 = values().sum();
    if sum <= 0.0 {
        svg.muted(x, y, Anchor::Middle, SMALL_SIZE, "nothing");
        return;
    }
    let at = |turn: f64, radius: f64| (x + radius * (turn * TAU).sin(), y - radius * (turn * TAU).cos());
    let mut begin = 0.0;
    for (series, value) in bars.series.iter().zip(values()).filter(|(_, value)| *value > 0.0) {
        let (share, end) = (value / sum, begin + value / sum);
        let told = format!("{}, {}: {}", bars.categories[index], series.name, bars.axis.unit.show(value));
        svg.slice((x, y), RADIUS, at(begin, RADIUS), at(end, RADIUS), share, series.ink, &told, &series.name);
        begin = end;
    }
    // Above all slices, so that none covers its neighbour's share.
    let mut begin = 0.0;
    for value in values() {
        let share = value / sum;
        if share >= LEAST_TOLD {
            let (x, y) = at(begin + share / 2.0, RADIUS * 0.66);
            svg.text_on_colour(x, y + 4.0, SMALL_SIZE, &format!("{:.0}\u{a0}%", share * 100.0));
        }
        begin += share;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Axis, Bar, BarSeries, Chart, Ink, Unit};

    #[test]
    fn slices_are_parts_of_each_pie() {
        let series = |name: &str, index: usize, values: [f64; 2]| BarSeries {
            name: name.to_owned(),
            ink: Ink::solid(index),
            bars: values.map(|value| Bar { value: Some(value), ..Bar::default() }).to_vec(),
        };
        let figure = Figure {
            id: "p".into(),
            title: "Pies".into(),
            subtitle: String::new(),
            caption: String::new(),
            chart: Chart::Pies(Bars {
                axis: Axis::new("Share", "share", Unit::Share),
                category_column: "role",
                categories: vec!["seeder".into(), "exit".into()],
                series: vec![series("crypto", 0, [0.6, 0.5]), series("rest", 1, [0.2, 0.0])],
                is_stacked: true,
                mark: None,
                reference: None,
            }),
        };
        let svg = figure.to_svg();
        // Two slices and one whole pie, which has no share of another beside it.
        assert_eq!(svg.matches("<path class=\"f ").count(), 3, "{svg}");
        for told in ["75\u{a0}%", "25\u{a0}%", "100\u{a0}%", "seeder, crypto: 60.0\u{a0}%", ">exit<"] {
            assert!(svg.contains(told), "{told}: {svg}");
        }
        assert!(crate::chart::to_png(&svg).len() > 1000);
        assert_eq!(figure.to_csv().lines().count(), 5);
    }
}
