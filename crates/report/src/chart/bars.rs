//! Drawing horizontal bars.

use super::plot::{axis_title, reference_name};
use super::scale::Scale;
use super::svg::{Anchor, Key, LABEL_SIZE, SMALL_SIZE, Svg, TICK_SIZE, WIDTH};
use super::{Bar, Bars, Figure, Unit, text};

const RIGHT_MARGIN: f64 = 18.0;
const WIDE_RIGHT_MARGIN: f64 = 48.0;
/// Names of categories are shortened to this.
const WIDEST_NAME: f64 = 150.0;
const ROW_GAP: f64 = 7.0;

pub fn draw(figure: &Figure, bars: &Bars) -> String {
    let mut svg = Svg::default();
    let heading = svg.heading(figure);
    let names: Vec<String> = bars.categories.iter().map(|name| text::shorten(name, TICK_SIZE, WIDEST_NAME)).collect();
    let left = 8.0 + names.iter().map(|name| text::width(name, TICK_SIZE, false)).fold(0.0, f64::max) + 8.0;
    let is_nearly_whole = bars.axis.unit == Unit::Share && (0.7..=1.0).contains(&largest(bars));
    // Values stand behind the bars' ends: within the axis's room, or, where that ends at the whole, in the margin.
    let right = WIDTH - if is_nearly_whole { WIDE_RIGHT_MARGIN } else { RIGHT_MARGIN };
    let reach = if is_nearly_whole { 1.0 } else { largest(bars) * 1.1 };
    let legend = svg.legend(heading, 8.0, right, &legend(bars));
    let top = heading + legend + 4.0;
    let bars_per_row = if bars.is_stacked { 1 } else { bars.series.len().max(1) };
    let thickness = if bars_per_row == 1 { 14.0 } else { (26.0 / bars_per_row as f64).max(7.0) };
    let row_height = thickness * bars_per_row as f64 + ROW_GAP;
    let bottom = top + row_height * names.len() as f64 + ROW_GAP / 2.0;
    let wanted = ((right - left) / 62.0) as usize;
    let scale = Scale::new(&bars.axis, 0.0, reach, wanted).place(left, right);
    if let Some(reference) = &bars.reference {
        let [low, middle, high] = reference.quartiles.map(|value| scale.at(value));
        svg.reference_band((low, top), (high, bottom));
        svg.reference_line(&[(middle, top), (middle, bottom)], "");
    }
    for (value, label) in &scale.ticks {
        svg.grid_line((scale.at(*value), top), (scale.at(*value), bottom), false);
        svg.text(scale.at(*value), bottom + 14.0, Anchor::Middle, TICK_SIZE, label);
    }
    for (index, name) in names.iter().enumerate() {
        let row_top = top + ROW_GAP / 2.0 + row_height * index as f64;
        let middle = row_top + (row_height - ROW_GAP) / 2.0;
        svg.text(left - 6.0, middle + 4.0, Anchor::End, TICK_SIZE, name);
        draw_row(&mut svg, bars, index, row_top, thickness, &scale);
    }
    svg.axis_line((left, top), (left, bottom));
    svg.text((left + right) / 2.0, bottom + 32.0, Anchor::Middle, LABEL_SIZE, &axis_title(&bars.axis, &scale));
    svg.finish(figure, bottom + 41.0, "")
}

pub fn legend(bars: &Bars) -> Vec<(Key, String)> {
    let mut entries = Vec::new();
    if bars.series.len() > 1 {
        entries.extend(bars.series.iter().map(|series| (Key::Box(series.ink), series.name.clone())));
    }
    entries.extend(bars.mark.iter().map(|mark| (Key::Mark, mark.name.clone())));
    entries.extend(bars.reference.iter().map(|reference| (Key::Reference, reference_name(reference))));
    entries
}

/// The end of the longest bar, mark or interval.
fn largest(bars: &Bars) -> f64 {
    let mut largest: f64 = 0.0;
    for index in 0..bars.categories.len() {
        let row = bars.series.iter().map(|series| series.bars[index]);
        let sum: f64 = row.clone().filter_map(|bar| bar.value).sum();
        let single = row.map(Bar::reach).fold(0.0, f64::max);
        largest = largest.max(if bars.is_stacked { sum } else { single });
    }
    let reference = bars.reference.as_ref().map_or(0.0, |reference| reference.quartiles[2]);
    let largest = largest.max(reference);
    if largest > 0.0 { largest } else { 1.0 }
}

fn draw_row(svg: &mut Svg, bars: &Bars, index: usize, row_top: f64, thickness: f64, scale: &Scale) {
    let (mut y, mut begin) = (row_top, 0.0);
    for series in &bars.series {
        let bar = series.bars[index];
        if let Some(value) = bar.value {
            let shown = bars.axis.unit.show(value);
            let told = format!("{}, {}: {shown}", bars.categories[index], series.name);
            let (from, to) = (scale.at(begin), scale.at(begin + value));
            // Side by side, bars need a hair's breadth between them.
            let gap = if bars.is_stacked { 0.0 } else { 0.6 };
            svg.bar((from, y), (to - from, thickness - gap), series.ink, &told, &series.name);
            draw_marks(svg, bar, y, thickness, scale);
            if !bars.is_stacked && thickness >= 9.0 {
                let is_clear = is_free_behind(bar, &shown, scale) && !meets_reference(bars, value, &shown, scale);
                let end = if is_clear { value } else { bar.reach() };
                let base = y + thickness / 2.0 + 3.7;
                svg.muted(scale.at(end) + 5.0, base, Anchor::Start, SMALL_SIZE - 0.5, &shown);
            }
            begin += if bars.is_stacked { value } else { 0.0 };
        }
        y += if bars.is_stacked { 0.0 } else { thickness };
    }
}

/// Whether the bar's value fits between its end and its mark.
fn is_free_behind(bar: Bar, shown: &str, scale: &Scale) -> bool {
    let (Some(value), Some(mark), None) = (bar.value, bar.mark, bar.interval) else { return false };
    mark < value || scale.at(mark) - scale.at(value) > text::width(shown, SMALL_SIZE, false) + 12.0
}

/// Whether the bar's value, behind its end, would lie on the reference's band.
fn meets_reference(bars: &Bars, value: f64, shown: &str, scale: &Scale) -> bool {
    let Some(reference) = &bars.reference else { return false };
    let (from, to) = (scale.at(value), scale.at(value) + text::width(shown, SMALL_SIZE, false) + 8.0);
    let [low, _, high] = reference.quartiles.map(|value| scale.at(value));
    from < high && low < to
}

fn draw_marks(svg: &mut Svg, bar: Bar, y: f64, thickness: f64, scale: &Scale) {
    if let Some(mark) = bar.mark {
        svg.stroke((scale.at(mark), y - 1.0), (scale.at(mark), y + thickness + 0.4), 1.6);
    }
    if let Some((low, high)) = bar.interval {
        let middle = y + thickness / 2.0;
        svg.stroke((scale.at(low), middle), (scale.at(high), middle), 1.0);
        for end in [low, high] {
            svg.stroke((scale.at(end), middle - 2.5), (scale.at(end), middle + 2.5), 1.0);
        }
    }
}
