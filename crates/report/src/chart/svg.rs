//! Writing SVG: the frame that all figures share, and elements with the classes by which a page changes their colours.
//!
//! Classes: `paper` the background, `t` text, `m` muted text, `g` grid, `a` axes, `c0`... the palette's strokes, `f` beside
//! `c0`... for what is filled instead, `p` what was measured elsewhere.

use super::Figure;
use super::ink::Ink;
use super::text;
use std::fmt::Write;

/// The width of every figure; heights follow from what is in them.
pub const WIDTH: f64 = 480.0;
pub const TITLE_SIZE: f64 = 14.0;
pub const LABEL_SIZE: f64 = 12.0;
pub const TICK_SIZE: f64 = 11.5;
pub const SMALL_SIZE: f64 = 11.0;

const INK: &str = "#1c1c1c";
const MUTED: &str = "#5f5f5f";
const GRID: &str = "#e4e4e4";
const AXIS: &str = "#8a8a8a";
/// A grey that no series has.
const REFERENCE: &str = "#6b6b6b";

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// A document under construction.
#[derive(Default)]
pub struct Svg {
    body: String,
}

/// A sample in a legend.
pub enum Key {
    Line(Ink),
    Box(Ink),
    /// The small mark on bars.
    Mark,
    /// A band with a line in it.
    Reference,
}

impl Svg {
    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, size: f64, content: &str) {
        self.styled_text(x, y, anchor, size, "t", INK, "", content);
    }

    pub fn muted(&mut self, x: f64, y: f64, anchor: Anchor, size: f64, content: &str) {
        self.styled_text(x, y, anchor, size, "m", MUTED, "", content);
    }

    /// Reads upwards; `x` and `y` are the middle of its base line.
    pub fn vertical_text(&mut self, x: f64, y: f64, size: f64, content: &str) {
        let turn = format!(" transform=\"rotate(-90 {x:.1} {y:.1})\"");
        self.styled_text(x, y, Anchor::Middle, size, "t", INK, &turn, content);
    }

    fn styled_text(
        &mut self,
        x: f64,
        y: f64,
        anchor: Anchor,
        size: f64,
        class: &str,
        fill: &str,
        more: &str,
        content: &str,
    ) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let content = escape(content);
        let _ = writeln!(
            self.body,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" fill=\"{fill}\"{anchor}{more}>{content}</text>"
        );
    }

    pub fn grid_line(&mut self, from: (f64, f64), to: (f64, f64), is_minor: bool) {
        let width = if is_minor { 0.5 } else { 1.0 };
        self.line(from, to, "g", GRID, width);
    }

    pub fn axis_line(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.line(from, to, "a", AXIS, 1.0);
    }

    /// A dashed line that marks a place on an axis.
    pub fn moment(&mut self, (x, top): (f64, f64), (_, bottom): (f64, f64)) {
        let _ = writeln!(
            self.body,
            "<path class=\"a\" d=\"M{x:.1} {top:.1}V{bottom:.1}\" stroke=\"{AXIS}\" stroke-width=\"1\" stroke-dasharray=\"2 3\" fill=\"none\"/>"
        );
    }

    /// What lies between two values that were measured elsewhere; the corners are the upper left and the lower right one.
    pub fn reference_band(&mut self, (left, top): (f64, f64), (right, bottom): (f64, f64)) {
        let (width, height) = (right - left, bottom - top);
        let _ = writeln!(
            self.body,
            "<rect class=\"f p\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{REFERENCE}\" \
             fill-opacity=\"0.16\"/>"
        );
    }

    /// A value that was measured elsewhere.
    pub fn reference_line(&mut self, points: &[(f64, f64)], name: &str) {
        self.reference(points, name, 1.2, "");
    }

    /// A distribution that was measured elsewhere, through the quantiles that are known.
    pub fn reference_curve(&mut self, points: &[(f64, f64)], name: &str) {
        self.reference(points, name, 1.2, " stroke-dasharray=\"1 3\" stroke-linecap=\"round\"");
    }

    fn reference(&mut self, points: &[(f64, f64)], name: &str, width: f64, more: &str) {
        let _ = writeln!(
            self.body,
            "<polyline class=\"p\" data-name=\"{}\" points=\"{}\" stroke=\"{REFERENCE}\" stroke-width=\"{width}\" fill=\"none\"{more}/>",
            escape(name),
            place_list(points)
        );
    }

    fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str, stroke: &str, width: f64) {
        let _ = writeln!(
            self.body,
            "<path class=\"{class}\" d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\" stroke=\"{stroke}\" stroke-width=\"{width}\" fill=\"none\"/>"
        );
    }

    /// A series' line; `name` and the places of points are what the page's script shows, `of` whose it is in the legend.
    pub fn series_line(&mut self, points: &[(f64, f64)], ink: Ink, width: f64, name: &str, of: &str) {
        if points.is_empty() {
            return;
        }
        let _ = writeln!(
            self.body,
            "<polyline class=\"{}\" data-name=\"{}\"{} points=\"{}\" stroke=\"{}\" stroke-width=\"{width}\" fill=\"none\" stroke-linejoin=\"round\"{}/>",
            ink.class(),
            escape(name),
            belongs(of),
            place_list(points),
            ink.hex(),
            ink.dash_attribute()
        );
    }

    /// The area of a confidence interval.
    pub fn band(&mut self, outline: &[(f64, f64)], ink: Ink, of: &str) {
        let _ = writeln!(
            self.body,
            "<polygon class=\"f {}\"{} points=\"{}\" fill=\"{}\" fill-opacity=\"0.22\"/>",
            ink.class(),
            belongs(of),
            place_list(outline),
            ink.hex()
        );
    }

    /// A bar; `told` appears when the mouse is on it.
    pub fn bar(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), ink: Ink, told: &str, of: &str) {
        let _ = writeln!(
            self.body,
            "<rect class=\"f {}\"{} x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{}\"{}><title>{}</title></rect>",
            ink.class(),
            belongs(of),
            ink.hex(),
            ink.shade_attribute(),
            escape(told)
        );
    }

    /// A pie's slice between two places on its edge, clockwise, which is that share of the whole.
    #[expect(clippy::too_many_arguments, reason = "a shape, how it looks and what it tells")]
    pub fn slice(
        &mut self,
        (x, y): (f64, f64),
        radius: f64,
        from: (f64, f64),
        to: (f64, f64),
        share: f64,
        ink: Ink,
        told: &str,
        of: &str,
    ) {
        let arc = |(x, y): (f64, f64), is_large: bool| {
            format!("A{radius:.1} {radius:.1} 0 {} 1 {x:.2} {y:.2}", u8::from(is_large))
        };
        // An arc from a place to itself is none.
        let path = if share > 0.9999 {
            let (top, bottom) = ((x, y - radius), (x, y + radius));
            format!("M{:.2} {:.2}{}{}Z", top.0, top.1, arc(bottom, false), arc(top, false))
        } else {
            format!("M{x:.2} {y:.2}L{:.2} {:.2}{}Z", from.0, from.1, arc(to, share > 0.5))
        };
        let _ = writeln!(
            self.body,
            "<path class=\"f {}\"{} d=\"{path}\" fill=\"{}\"{} stroke=\"#ffffff\" stroke-width=\"0.8\"><title>{}</title></path>",
            ink.class(),
            belongs(of),
            ink.hex(),
            ink.shade_attribute(),
            escape(told)
        );
    }

    /// Text in the middle of something coloured: white, with a dark edge, so that it can be read on any colour.
    pub fn text_on_colour(&mut self, x: f64, y: f64, size: f64, content: &str) {
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" font-size=\"{size}\" font-weight=\"600\" fill=\"#ffffff\" stroke=\"{INK}\" \
             stroke-width=\"2\" stroke-linejoin=\"round\" paint-order=\"stroke\">{}</text>",
            escape(content)
        );
    }

    /// A short strong line: the mark of a bar, the ends of an interval.
    pub fn stroke(&mut self, from: (f64, f64), to: (f64, f64), width: f64) {
        self.line(from, to, "k", INK, width);
    }

    /// Legend entries from `top` on, as many per row as fit; returns the height that they took.
    pub fn legend(&mut self, top: f64, left: f64, right: f64, entries: &[(Key, String)]) -> f64 {
        const ROW: f64 = 16.0;
        const SAMPLE: f64 = 20.0;
        let (mut x, mut y) = (left, top + 11.0);
        for (key, of) in entries {
            let name = text::shorten(of, SMALL_SIZE, right - left - SAMPLE - 5.0);
            let width = SAMPLE + 5.0 + text::width(&name, SMALL_SIZE, false);
            if x > left && x + width > right {
                (x, y) = (left, y + ROW);
            }
            // What the page's script switches on and off.
            self.begin("e", of);
            match key {
                Key::Line(ink) => self.sample(x, y - 3.8, SAMPLE, *ink),
                Key::Box(ink) => self.bar((x + 5.0, y - 9.0), (10.0, 10.0), *ink, "", ""),
                Key::Reference => {
                    self.reference_band((x + 2.0, y - 9.5), (x + SAMPLE - 2.0, y + 1.0));
                    self.reference_line(&[(x + SAMPLE / 2.0, y - 9.5), (x + SAMPLE / 2.0, y + 1.0)], "");
                }
                Key::Mark => self.stroke((x + 10.0, y - 10.0), (x + 10.0, y + 1.5), 1.6),
            }
            self.text(x + SAMPLE + 5.0, y, Anchor::Start, SMALL_SIZE, &name);
            self.end();
            x += width + 14.0;
        }
        if entries.is_empty() { 0.0 } else { y - top + 7.0 }
    }

    fn sample(&mut self, x: f64, y: f64, width: f64, ink: Ink) {
        let _ = writeln!(
            self.body,
            "<path class=\"{}\" d=\"M{x:.1} {y:.1}h{width}\" stroke=\"{}\" stroke-width=\"2.2\" fill=\"none\"{}/>",
            ink.class(),
            ink.hex(),
            ink.dash_attribute()
        );
    }

    /// Begins a group of a class for the page's script, of what the legend calls so.
    pub fn begin(&mut self, class: &str, of: &str) {
        let _ = writeln!(self.body, "<g class=\"{class}\"{}>", belongs(of));
    }

    pub fn end(&mut self) {
        self.body.push_str("</g>\n");
    }

    /// Title and subtitle; returns the height that they took.
    pub fn heading(&mut self, figure: &Figure) -> f64 {
        let mut y = 6.0;
        for line in text::wrap(&figure.title, TITLE_SIZE, true, WIDTH - 16.0) {
            y += 17.0;
            self.styled_text(8.0, y - 4.0, Anchor::Start, TITLE_SIZE, "t", INK, " font-weight=\"600\"", &line);
        }
        if !figure.subtitle.is_empty() {
            for line in text::wrap(&figure.subtitle, SMALL_SIZE, false, WIDTH - 16.0) {
                y += 14.0;
                self.muted(8.0, y - 2.0, Anchor::Start, SMALL_SIZE, &line);
            }
        }
        y + 4.0
    }

    /// The whole document. `attributes` of the root tell the page's script how to read values off.
    pub fn finish(self, figure: &Figure, height: f64, attributes: &str) -> String {
        let (id, title, description) = (&figure.id, escape(&figure.title), escape(&figure.description()));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" width=\"{WIDTH:.0}\" \
             height=\"{height:.0}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\" font-family=\"Inter, 'Helvetica Neue', Arial, \
             sans-serif\"{attributes}>\n<title id=\"{id}-t\">{title}</title>\n<desc id=\"{id}-d\">{description}</desc>\n\
             <rect class=\"paper\" width=\"{WIDTH:.0}\" height=\"{height:.0}\" fill=\"#ffffff\"/>\n{}</svg>\n",
            self.body
        )
    }
}

fn place_list(points: &[(f64, f64)]) -> String {
    let mut list = String::with_capacity(points.len() * 12);
    for (x, y) in points {
        if !list.is_empty() {
            list.push(' ');
        }
        let _ = write!(list, "{},{}", tenth(*x), tenth(*y));
    }
    list
}

/// A coordinate to a tenth of a pixel, without a needless ".0".
fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Whose something is, by its name in the legend, for the page's script.
fn belongs(of: &str) -> String {
    if of.is_empty() { String::new() } else { format!(" data-of=\"{}\"", escape(of)) }
}

/// For text and attributes of XML and HTML.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML has no way to write these.
            c if c < ' ' && !matches!(c, '\n' | '\t') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
