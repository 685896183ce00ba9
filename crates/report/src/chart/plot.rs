//! Drawing lines over two axes.

use super::ink::Colour;
use super::scale::Scale;
use super::svg::{Anchor, Key, LABEL_SIZE, SMALL_SIZE, Svg, TICK_SIZE, WIDTH};
use super::text;
use super::{Along, Axis, Figure, Plot, Reference, ScaleKind, Series};

const PLOT_HEIGHT: f64 = 210.0;
const RIGHT_MARGIN: f64 = 14.0;
/// Names at lines' ends are shortened to this.
const WIDEST_NAME: f64 = 110.0;
const NAME_ROW: f64 = 13.0;
/// Points nearer than this to the one before are not seen.
const RESOLUTION: f64 = 0.35;

/// Where the data lie on paper.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

pub fn draw(figure: &Figure, plot: &Plot) -> String {
    let mut svg = Svg::default();
    let (x, y) = scales(plot);
    let has_keys = plot.series.iter().any(|series| series.key.is_some());
    let names_at_ends = plot.names_at_ends && !has_keys && (2..=9).contains(&named(plot).count());
    let heading = svg.heading(figure);
    let left = 26.0 + y.ticks.iter().map(|(_, label)| text::width(label, TICK_SIZE, false)).fold(0.0, f64::max) + 4.0;
    let widest = named(plot).map(|series| text::width(&end_name(series), SMALL_SIZE, false)).fold(0.0, f64::max);
    let right = WIDTH - RIGHT_MARGIN - if names_at_ends { widest + 10.0 } else { 0.0 };
    // A wide number at the axis's end stays on the paper.
    let last = x.ticks.last().filter(|(value, _)| *value >= x.to).map_or("", |(_, label)| label);
    let right = right.min(WIDTH - text::width(last, TICK_SIZE, false) / 2.0 - 1.0);
    let legend = if names_at_ends { 0.0 } else { svg.legend(heading, left, WIDTH - RIGHT_MARGIN, &legend(plot)) };
    let top = heading + legend + 6.0;
    let frame = Frame { left, right, top, bottom: top + PLOT_HEIGHT };
    let (x, y) = (x.place(frame.left, frame.right), y.place(frame.bottom, frame.top));
    if let Some(reference) = &plot.reference {
        svg.begin("d", &reference_name(reference));
        draw_reference_band(&mut svg, reference, plot.interval, &frame, &x, &y);
        svg.end();
    }
    draw_axes(&mut svg, plot, &frame, &x, &y);
    for (at, name) in plot.moments.iter().filter(|(at, _)| x.from < *at && *at < x.to) {
        draw_moment(&mut svg, &frame, x.at(*at), name);
    }
    if let Some(reference) = &plot.reference {
        svg.begin("d", &reference_name(reference));
        draw_reference_lines(&mut svg, reference, plot.interval, &frame, &x, &y);
        svg.end();
        if names_at_ends {
            svg.muted(frame.right - 4.0, frame.top + 11.0, Anchor::End, SMALL_SIZE, &reference_name(reference));
        }
    }
    let drawn: Vec<Vec<(f64, f64)>> = plot.series.iter().map(|series| places(series, &x, &y)).collect();
    let faint = plot.series.iter().filter(|series| series.ink.colour == Colour::Faint).count();
    svg.begin("d", "");
    for series in &plot.series {
        draw_band(&mut svg, series, plot.interval, &x, &y, &legend_name(series, faint));
    }
    for (series, places) in plot.series.iter().zip(&drawn) {
        let is_one_of_many = series.ink.colour == Colour::Faint || series.key.is_some();
        let width = if is_one_of_many { 1.0 } else { 1.8 };
        svg.series_line(places, series.ink, width, &series.name, &legend_name(series, faint));
    }
    svg.end();
    if names_at_ends {
        name_ends(&mut svg, plot, &frame, &drawn);
    }
    svg.finish(figure, frame.bottom + 44.0, &reading(plot, &x, &y))
}

/// Series that the reader shall tell apart.
fn named(plot: &Plot) -> impl Iterator<Item = &Series> {
    plot.series.iter().filter(|series| series.ink.colour != Colour::Faint)
}

fn end_name(series: &Series) -> String {
    text::shorten(&series.name, SMALL_SIZE, WIDEST_NAME)
}

fn legend(plot: &Plot) -> Vec<(Key, String)> {
    let mut entries: Vec<(Key, String)> = Vec::new();
    for series in named(plot) {
        let name = series.key.as_ref().unwrap_or(&series.name);
        if !entries.iter().any(|(_, known)| known == name) {
            entries.push((Key::Line(series.ink), name.clone()));
        }
    }
    let faint: Vec<&Series> = plot.series.iter().filter(|series| series.ink.colour == Colour::Faint).collect();
    match faint.as_slice() {
        [] => {}
        [one] => entries.push((Key::Line(one.ink), one.name.clone())),
        many => entries.push((Key::Line(many[0].ink), legend_name(many[0], many.len()))),
    }
    entries.extend(plot.reference.iter().map(|reference| (Key::Reference, reference_name(reference))));
    // One line needs no explanation beyond the title.
    if entries.len() < 2 { Vec::new() } else { entries }
}

/// What the legend calls a series, of a plot with so many faint ones.
fn legend_name(series: &Series, faint: usize) -> String {
    match &series.key {
        _ if series.ink.colour == Colour::Faint && faint > 1 => format!("{faint} others"),
        Some(key) => key.clone(),
        None => series.name.clone(),
    }
}

/// For the legend.
pub fn reference_name(reference: &Reference) -> String {
    format!("{} (quartiles)", reference.name)
}

/// Below everything else: what lies between the quartiles.
fn draw_reference_band(svg: &mut Svg, reference: &Reference, along: Along, frame: &Frame, x: &Scale, y: &Scale) {
    let [low, _, high] = reference.quartiles;
    match along {
        Along::X => svg.reference_band((x.at(low), frame.top), (x.at(high), frame.bottom)),
        Along::Y => svg.reference_band((frame.left, y.at(high)), (frame.right, y.at(low))),
    }
}

fn draw_reference_lines(svg: &mut Svg, reference: &Reference, along: Along, frame: &Frame, x: &Scale, y: &Scale) {
    let [_, middle, _] = reference.quartiles;
    match along {
        Along::X => svg.reference_line(&[(x.at(middle), frame.top), (x.at(middle), frame.bottom)], ""),
        Along::Y => svg.reference_line(&[(frame.left, y.at(middle)), (frame.right, y.at(middle))], &reference.name),
    }
    if reference.is_distribution && along == Along::X {
        // Beyond the axes a quantile has no place.
        let inside = |(_, value): &&(f64, f64)| x.from <= *value && *value <= x.to;
        let places: Vec<(f64, f64)> =
            reference.quantiles.iter().filter(inside).map(|(share, value)| (x.at(*value), y.at(*share))).collect();
        svg.reference_curve(&places, &reference.name);
    }
}

fn scales(plot: &Plot) -> (Scale, Scale) {
    let points = || plot.series.iter().flat_map(|series| &series.points);
    let ends = |along: Along, value: fn(&super::Point) -> f64, axis: &Axis| {
        let mut range = (f64::MAX, f64::MIN);
        let mut add = |value: f64| {
            if value.is_finite() && (axis.scale == ScaleKind::Linear || value > 0.0) {
                range = (range.0.min(value), range.1.max(value));
            }
        };
        for point in points() {
            add(value(point));
            if let Some((low, high)) = point.interval.filter(|_| plot.interval == along) {
                add(low);
                add(high);
            }
        }
        // The quartiles are to be seen, also where all values lie on one side of them.
        let quartiles = plot.reference.iter().filter(|_| plot.interval == along).flat_map(|one| one.quartiles);
        quartiles.for_each(&mut add);
        if range.0 > range.1 { (1.0, 10.0) } else { range }
    };
    let (x_least, x_most) = ends(Along::X, |point| point.x, &plot.x);
    let (y_least, y_most) = ends(Along::Y, |point| point.y, &plot.y);
    (Scale::new(&plot.x, x_least, x_most, 7), Scale::new(&plot.y, y_least, y_most, 5))
}

fn draw_axes(svg: &mut Svg, plot: &Plot, frame: &Frame, x: &Scale, y: &Scale) {
    // The page's script draws others where it shows a part.
    svg.begin("ticks", "");
    for value in &x.minor {
        svg.grid_line((x.at(*value), frame.top), (x.at(*value), frame.bottom), true);
    }
    for value in &y.minor {
        svg.grid_line((frame.left, y.at(*value)), (frame.right, y.at(*value)), true);
    }
    for (value, label) in &x.ticks {
        svg.grid_line((x.at(*value), frame.top), (x.at(*value), frame.bottom), false);
        svg.axis_line((x.at(*value), frame.bottom), (x.at(*value), frame.bottom + 4.0));
        svg.text(x.at(*value), frame.bottom + 16.5, Anchor::Middle, TICK_SIZE, label);
    }
    for (value, label) in &y.ticks {
        svg.grid_line((frame.left, y.at(*value)), (frame.right, y.at(*value)), false);
        svg.text(frame.left - 5.0, y.at(*value) + 4.0, Anchor::End, TICK_SIZE, label);
    }
    svg.end();
    svg.axis_line((frame.left, frame.bottom), (frame.right, frame.bottom));
    svg.axis_line((frame.left, frame.top), (frame.left, frame.bottom));
    let middle = (frame.left + frame.right) / 2.0;
    svg.text(middle, frame.bottom + 35.0, Anchor::Middle, LABEL_SIZE, &axis_title(&plot.x, x));
    svg.vertical_text(15.0, (frame.top + frame.bottom) / 2.0, LABEL_SIZE, &axis_title(&plot.y, y));
}

/// A vertical line through the whole plot, its name beside it where there is room.
fn draw_moment(svg: &mut Svg, frame: &Frame, at: f64, name: &str) {
    svg.moment((at, frame.top), (at, frame.bottom));
    let width = text::width(name, SMALL_SIZE, false) + 8.0;
    let (place, anchor) = if at + width < frame.right { (at + 4.0, Anchor::Start) } else { (at - 4.0, Anchor::End) };
    svg.muted(place, frame.top + 11.0, anchor, SMALL_SIZE, name);
}

/// "Time to last byte (s)".
pub fn axis_title(axis: &Axis, scale: &Scale) -> String {
    if scale.symbol.is_empty() { axis.label.clone() } else { format!("{} ({})", axis.label, scale.symbol) }
}

/// A series' points on paper, thinned to what can be seen.
fn places(series: &Series, x: &Scale, y: &Scale) -> Vec<(f64, f64)> {
    let is_drawable = |value: f64, scale: &Scale| value.is_finite() && (value > 0.0 || !scale.is_log());
    let mut places: Vec<(f64, f64)> = Vec::new();
    let count = series.points.len();
    for (i, point) in series.points.iter().enumerate() {
        if !is_drawable(point.x, x) || !is_drawable(point.y, y) {
            continue;
        }
        let place = (x.at(point.x), y.at(point.y));
        if let Some(&(last_x, last_y)) = places.last() {
            let is_near = (place.0 - last_x).abs() < RESOLUTION && (place.1 - last_y).abs() < RESOLUTION;
            if is_near && i + 1 < count {
                continue;
            }
            if series.is_step {
                places.push((place.0, last_y));
            }
        }
        places.push(place);
    }
    places
}

fn draw_band(svg: &mut Svg, series: &Series, along: Along, x: &Scale, y: &Scale, of: &str) {
    let with = series.points.iter().filter_map(|point| Some((point, point.interval?)));
    let (mut there, mut back) = (Vec::new(), Vec::new());
    for (point, (low, high)) in with {
        let (from, to) = match along {
            Along::X => {
                let low = if x.is_log() { low.max(x.from) } else { low };
                ((x.at(low), y.at(point.y)), (x.at(high), y.at(point.y)))
            }
            Along::Y => ((x.at(point.x), y.at(low)), (x.at(point.x), y.at(high))),
        };
        there.push(from);
        back.push(to);
    }
    if there.len() > 1 {
        there.extend(back.into_iter().rev());
        svg.band(&there, series.ink, of);
    }
}

/// Writes names beside the lines' ends, moved apart where they would overlap, each led to by a short line.
fn name_ends(svg: &mut Svg, plot: &Plot, frame: &Frame, drawn: &[Vec<(f64, f64)>]) {
    let mut ends: Vec<(f64, &Series)> = Vec::new();
    for (series, places) in plot.series.iter().zip(drawn) {
        if let (Some((_, y)), true) = (places.last(), series.ink.colour != Colour::Faint) {
            ends.push((*y, series));
        }
    }
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let wanted: Vec<f64> = ends.iter().map(|(y, _)| *y).collect();
    let rows = spread(&wanted, NAME_ROW, frame.top + 2.0, frame.bottom);
    for ((end, series), row) in ends.iter().zip(rows) {
        svg.series_line(&[(frame.right, *end), (frame.right + 6.0, row)], series.ink, 1.2, "", &series.name);
        svg.begin("e", &series.name);
        svg.text(frame.right + 9.0, row + 4.0, Anchor::Start, SMALL_SIZE, &end_name(series));
        svg.end();
    }
}

/// Places at least `gap` apart, near the wanted ones (ascending), within the ends if there is room.
fn spread(wanted: &[f64], gap: f64, top: f64, bottom: f64) -> Vec<f64> {
    let mut rows = wanted.to_vec();
    for i in 1..rows.len() {
        rows[i] = rows[i].max(rows[i - 1] + gap);
    }
    let mut limit = bottom;
    for row in rows.iter_mut().rev() {
        *row = row.min(limit);
        limit = *row - gap;
    }
    if let Some(first) = rows.first().filter(|first| **first < top) {
        let shift = top - first;
        rows.iter_mut().for_each(|row| *row += shift);
    }
    rows
}

/// How the page's script gets from places to values: "start end from to factor log|lin symbol" per axis.
fn reading(plot: &Plot, x: &Scale, y: &Scale) -> String {
    let axis = |scale: &Scale| {
        let kind = if scale.is_log() { "log" } else { "lin" };
        let (from, to) = (scale.from * scale.factor, scale.to * scale.factor);
        format!("{:.1} {:.1} {from:.6} {to:.6} {kind} {}", scale.start, scale.end, scale.symbol)
    };
    let steps = if plot.series.iter().all(|series| series.is_step) { " data-step=\"1\"" } else { "" };
    format!(" data-x=\"{}\" data-y=\"{}\"{steps}", axis(x), axis(y))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_move_apart_and_stay_inside() {
        assert_eq!(spread(&[10.0, 12.0, 50.0], 10.0, 0.0, 100.0), [10.0, 20.0, 50.0]);
        assert_eq!(spread(&[98.0, 99.0], 10.0, 0.0, 100.0), [90.0, 100.0]);
        assert_eq!(spread(&[0.0, 1.0], 10.0, 5.0, 100.0), [5.0, 15.0]);
        assert!(spread(&[], 10.0, 0.0, 1.0).is_empty());
    }
}
