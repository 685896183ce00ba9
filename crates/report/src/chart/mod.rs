//! Figures: one description of what is shown, from which SVG, PDF, PNG and CSV follow.
//!
//! A `Figure` knows nothing of runs. Data stay in base units (seconds, bytes, bits per second, shares of 1); axes choose how
//! to show them, and CSV files hold them as they are, with the unit in the column's name.

mod bars;
mod data;
mod ink;
mod pdf;
mod pies;
mod plot;
mod png;
mod scale;
mod svg;
mod text;
mod unit;

pub use ink::{COLOURS, Ink};
pub use pdf::to_pdf;
pub use png::to_png;
pub use svg::escape;
pub use text::FONTS;
pub use unit::Unit;

/// A figure with its title. Files are called by `id`.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Of lower-case letters, digits and hyphens; unique in a report.
    pub id: String,
    /// What is shown, of what.
    pub title: String,
    /// A line below the title: how many of what, averaged over what.
    pub subtitle: String,
    /// For the page, below the figure: what to know when reading it.
    pub caption: String,
    pub chart: Chart,
}

#[derive(Clone, Debug)]
pub enum Chart {
    Plot(Plot),
    Bars(Bars),
    /// A pie for each category, of the series' parts in it; intervals and marks are left to the data.
    Pies(Bars),
}

/// Lines over two axes.
#[derive(Clone, Debug)]
pub struct Plot {
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
    /// Which axis the intervals of points are about.
    pub interval: Along,
    /// Whether to write names beside the lines' ends rather than into a legend.
    pub names_at_ends: bool,
    /// Moments of the x axis that matter, with their names.
    pub moments: Vec<(f64, &'static str)>,
    /// What is known from elsewhere of the values along `interval`.
    pub reference: Option<Reference>,
}

/// Values measured elsewhere, to lay the figure's own beside: a band between the quartiles, a line at the median.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    pub name: String,
    /// (share, value): ascending, with the shares of a quarter, the half and three quarters among them.
    pub quantiles: Vec<(f64, f64)>,
    /// First quartile, median, third quartile.
    pub quartiles: [f64; 3],
    /// Whether the other axis is that of shares, so that the quantiles have places in the plot.
    pub is_distribution: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Along {
    X,
    Y,
}

#[derive(Clone, Debug)]
pub struct Axis {
    pub label: String,
    /// The data's column in CSV files, with its unit.
    pub column: &'static str,
    pub unit: Unit,
    pub scale: ScaleKind,
    /// Ends of the axis where the data shall not decide.
    pub from: Option<f64>,
    pub to: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleKind {
    Linear,
    Log,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Series {
    pub name: String,
    /// What the legend calls it, together with others of the same; by default its name.
    pub key: Option<String>,
    pub ink: Ink,
    /// Whether the value stays until the next point, rather than changing evenly.
    pub is_step: bool,
    pub points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    /// The ends of the confidence interval, along the plot's `interval`.
    pub interval: Option<(f64, f64)>,
}

/// Horizontal bars: a row per category, in which series follow each other, one below the other or end to end.
#[derive(Clone, Debug)]
pub struct Bars {
    pub axis: Axis,
    /// The column of categories in CSV files.
    pub category_column: &'static str,
    pub categories: Vec<String>,
    pub series: Vec<BarSeries>,
    pub is_stacked: bool,
    /// What the small mark on a bar is, for the legend.
    pub mark: Option<Mark>,
    pub reference: Option<Reference>,
}

#[derive(Clone, Debug)]
pub struct Mark {
    pub name: String,
    pub column: &'static str,
}

#[derive(Clone, Debug)]
pub struct BarSeries {
    pub name: String,
    pub ink: Ink,
    /// By category.
    pub bars: Vec<Bar>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bar {
    /// None: there is nothing to show.
    pub value: Option<f64>,
    pub interval: Option<(f64, f64)>,
    pub mark: Option<f64>,
}

impl Axis {
    pub fn new(label: &str, column: &'static str, unit: Unit) -> Axis {
        Axis { label: label.to_owned(), column, unit, scale: ScaleKind::Linear, from: None, to: None }
    }

    pub fn from(mut self, from: f64) -> Axis {
        self.from = Some(from);
        self
    }

    pub fn to(mut self, to: f64) -> Axis {
        self.to = Some(to);
        self
    }

    pub fn scaled(mut self, scale: ScaleKind) -> Axis {
        self.scale = scale;
        self
    }
}

impl Series {
    /// A line that changes evenly between its points.
    pub fn line(name: String, ink: Ink, points: Vec<Point>) -> Series {
        Series { name, key: None, ink, is_step: false, points }
    }

    /// A line whose value stays until the next point.
    pub fn steps(name: String, ink: Ink, points: Vec<Point>) -> Series {
        Series { name, key: None, ink, is_step: true, points }
    }
}

impl Point {
    pub fn at(x: f64, y: f64) -> Point {
        Point { x, y, interval: None }
    }
}

impl Bar {
    /// Where the rightmost of bar, mark and interval ends.
    fn reach(self) -> f64 {
        [self.value, self.mark, self.interval.map(|(_, high)| high)].into_iter().flatten().fold(0.0, f64::max)
    }
}

impl Figure {
    /// The figure as a document of its own. Colours are those for white paper; a page may give others by the classes of
    /// `svg`.
    pub fn to_svg(&self) -> String {
        match &self.chart {
            Chart::Plot(plot) => plot::draw(self, plot),
            Chart::Bars(bars) => bars::draw(self, bars),
            Chart::Pies(bars) => pies::draw(self, bars),
        }
    }

    /// What stands below a figure in a paper: subtitle and caption, as sentences.
    pub fn full_caption(&self) -> String {
        let sentence = |text: &str| match text.trim() {
            "" => String::new(),
            text if text.ends_with(['.', '!', '?']) => text.to_owned(),
            text => format!("{text}."),
        };
        [sentence(&self.subtitle), sentence(&self.caption)].join(" ").trim().to_owned()
    }

    /// The figure's data, one row per point or bar.
    pub fn to_csv(&self) -> String {
        match &self.chart {
            Chart::Plot(plot) => data::of_plot(plot),
            Chart::Bars(bars) | Chart::Pies(bars) => data::of_bars(bars),
        }
    }

    /// The title with what the subtitle adds: for those who do not see the figure.
    pub fn description(&self) -> String {
        if self.subtitle.is_empty() { self.title.clone() } else { format!("{} ({})", self.title, self.subtitle) }
    }
}
