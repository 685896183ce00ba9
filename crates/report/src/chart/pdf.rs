//! PDF from SVG, for papers: shapes stay shapes, text is drawn as outlines of the embedded fonts over the same text unseen, for searching and copying.
//!
//! Knows what figures are made of: paths, lines, rectangles and text in plain colours, some of them translucent. Bytes follow from the
//! document alone: there is no date in them.

use super::png::tree_of;
use pdf_writer::types::{LineCapStyle, LineJoinStyle, TextRenderingMode};
use pdf_writer::{Content, Filter, Finish, Name, Pdf, Rect, Ref, Str, TextStr};
use resvg::tiny_skia::{PathSegment, Point, Transform};
use resvg::usvg::{FillRule, Group, LineCap, LineJoin, Node, Paint, Path, Text, Tree};
use std::collections::BTreeMap;

/// A unit of the SVG is a CSS pixel: three quarters of a point.
const POINTS_PER_UNIT: f32 = 0.75;
const FONT: Name<'_> = Name(b"F1");

/// Draws an SVG document on one page of its size. Title and caption become the document's title and subject.
///
/// # Panics
///
/// On documents that are no SVG: figures are made by this crate.
pub fn to_pdf(svg: &str, title: &str, caption: &str) -> Vec<u8> {
    let tree = tree_of(svg);
    let mut page = Page { content: Content::new(), opacities: BTreeMap::new() };
    page.draw(&tree);
    page.into_document(&tree, title, caption)
}

struct Page {
    content: Content,
    /// Opacities in thousandths, with the numbers of their graphics states.
    opacities: BTreeMap<u16, usize>,
}

fn state_name(number: usize) -> String {
    format!("G{number}")
}

impl Page {
    fn draw(&mut self, tree: &Tree) {
        let height = tree.size().height() * POINTS_PER_UNIT;
        // SVG counts from the top.
        self.content.transform([POINTS_PER_UNIT, 0.0, 0.0, -POINTS_PER_UNIT, 0.0, height]);
        self.group(tree.root());
    }

    fn group(&mut self, group: &Group) {
        for node in group.children() {
            match node {
                Node::Group(group) => self.group(group),
                Node::Path(path) => self.path(path),
                Node::Text(text) => {
                    self.group(text.flattened());
                    self.unseen(text);
                }
                Node::Image(_) => unreachable!("figures have no pictures"),
            }
        }
    }

    fn path(&mut self, path: &Path) {
        if !path.is_visible() {
            return;
        }
        let opacity = |of: f32| (of * 1000.0).round() as u16;
        if let Some(fill) = path.fill()
            && let Paint::Color(colour) = fill.paint()
        {
            self.begin(path, opacity(fill.opacity().get()));
            self.content.set_fill_rgb(share(colour.red), share(colour.green), share(colour.blue));
            self.outline(path);
            match fill.rule() {
                FillRule::NonZero => self.content.fill_nonzero(),
                FillRule::EvenOdd => self.content.fill_even_odd(),
            };
            self.content.restore_state();
        }
        if let Some(stroke) = path.stroke()
            && let Paint::Color(colour) = stroke.paint()
        {
            self.begin(path, opacity(stroke.opacity().get()));
            self.content.set_stroke_rgb(share(colour.red), share(colour.green), share(colour.blue));
            self.content.set_line_width(stroke.width().get());
            self.content.set_line_cap(match stroke.linecap() {
                LineCap::Butt => LineCapStyle::ButtCap,
                LineCap::Round => LineCapStyle::RoundCap,
                LineCap::Square => LineCapStyle::ProjectingSquareCap,
            });
            self.content.set_line_join(match stroke.linejoin() {
                LineJoin::Miter | LineJoin::MiterClip => LineJoinStyle::MiterJoin,
                LineJoin::Round => LineJoinStyle::RoundJoin,
                LineJoin::Bevel => LineJoinStyle::BevelJoin,
            });
            if let Some(dashes) = stroke.dasharray() {
                self.content.set_dash_pattern(dashes.iter().copied(), stroke.dashoffset());
            }
            self.outline(path);
            self.content.stroke();
            self.content.restore_state();
        }
    }

    /// Sets what holds until the state is restored.
    fn begin(&mut self, path: &Path, opacity: u16) {
        self.content.save_state();
        let transform = path.abs_transform();
        if !transform.is_identity() {
            self.content.transform(matrix(transform));
        }
        if opacity < 1000 {
            let next = self.opacities.len();
            let number = *self.opacities.entry(opacity).or_insert(next);
            self.content.set_parameters(Name(state_name(number).as_bytes()));
        }
    }

    fn outline(&mut self, path: &Path) {
        // Hundredths of a unit cannot be seen.
        let near = |mut point: Point| {
            (point.x, point.y) = ((point.x * 100.0).round() / 100.0, (point.y * 100.0).round() / 100.0);
            point
        };
        let mut at = (0.0, 0.0);
        for segment in path.data().segments() {
            let segment = match segment {
                PathSegment::MoveTo(to) => PathSegment::MoveTo(near(to)),
                PathSegment::LineTo(to) => PathSegment::LineTo(near(to)),
                PathSegment::QuadTo(by, to) => PathSegment::QuadTo(near(by), near(to)),
                PathSegment::CubicTo(one, other, to) => PathSegment::CubicTo(near(one), near(other), near(to)),
                PathSegment::Close => PathSegment::Close,
            };
            match segment {
                PathSegment::MoveTo(to) => _ = self.content.move_to(to.x, to.y),
                PathSegment::LineTo(to) => _ = self.content.line_to(to.x, to.y),
                PathSegment::QuadTo(by, to) => {
                    // The same curve as a cubic one.
                    let third = |from: f32, to: f32| from + (to - from) * 2.0 / 3.0;
                    let (one, other) = ((third(at.0, by.x), third(at.1, by.y)), (third(to.x, by.x), third(to.y, by.y)));
                    let near = |value: f32| (value * 100.0).round() / 100.0;
                    self.content.cubic_to(near(one.0), near(one.1), near(other.0), near(other.1), to.x, to.y);
                }
                PathSegment::CubicTo(one, other, to) => {
                    self.content.cubic_to(one.x, one.y, other.x, other.y, to.x, to.y);
                }
                PathSegment::Close => _ = self.content.close_path(),
            }
            if let PathSegment::MoveTo(to)
            | PathSegment::LineTo(to)
            | PathSegment::QuadTo(_, to)
            | PathSegment::CubicTo(_, _, to) = segment
            {
                at = (to.x, to.y);
            }
        }
    }

    /// The text in a standard font, not painted.
    fn unseen(&mut self, text: &Text) {
        let bounds = text.bounding_box();
        let words: String = text.chunks().iter().map(|chunk| chunk.text()).collect();
        let size =
            text.chunks().first().and_then(|chunk| chunk.spans().first()).map_or(10.0, |span| span.font_size().get());
        self.content.save_state();
        self.content.transform(matrix(text.abs_transform()));
        self.content.begin_text();
        self.content.set_font(FONT, size);
        self.content.set_text_rendering_mode(TextRenderingMode::Invisible);
        // The page is upside down.
        self.content.set_text_matrix([1.0, 0.0, 0.0, -1.0, bounds.left(), bounds.bottom()]);
        self.content.show(Str(&windows_1252(&words)));
        self.content.end_text();
        self.content.restore_state();
    }

    fn into_document(self, tree: &Tree, title: &str, caption: &str) -> Vec<u8> {
        let [catalog, pages, page, content, font, info] = [1, 2, 3, 4, 5, 6].map(Ref::new);
        let mut pdf = Pdf::new();
        pdf.catalog(catalog).pages(pages);
        pdf.pages(pages).kids([page]).count(1);
        let mut sheet = pdf.page(page);
        let (width, height) = (tree.size().width() * POINTS_PER_UNIT, tree.size().height() * POINTS_PER_UNIT);
        sheet.media_box(Rect::new(0.0, 0.0, width, height)).parent(pages).contents(content);
        let mut resources = sheet.resources();
        resources.fonts().pair(FONT, font);
        let mut states = resources.ext_g_states();
        for (opacity, number) in &self.opacities {
            let alpha = f32::from(*opacity) / 1000.0;
            let name = state_name(*number);
            states
                .insert(Name(name.as_bytes()))
                .start::<pdf_writer::writers::ExtGraphicsState<'_>>()
                .stroking_alpha(alpha)
                .non_stroking_alpha(alpha);
        }
        states.finish();
        resources.finish();
        sheet.finish();
        let packed = miniz_oxide::deflate::compress_to_vec_zlib(&self.content.finish(), 9);
        pdf.stream(content, &packed).filter(Filter::FlateDecode);
        pdf.type1_font(font).base_font(Name(b"Helvetica")).encoding_predefined(Name(b"WinAnsiEncoding"));
        pdf.document_info(info).title(TextStr(title)).subject(TextStr(caption)).creator(TextStr("Gnomon"));
        pdf.finish()
    }
}

fn share(of_255: u8) -> f32 {
    f32::from(of_255) / 255.0
}

fn matrix(transform: Transform) -> [f32; 6] {
    [transform.sx, transform.ky, transform.kx, transform.sy, transform.tx, transform.ty]
}

/// Text in the encoding of the standard fonts; what that does not have becomes a space or a sign that is read alike.
fn windows_1252(text: &str) -> Vec<u8> {
    let byte = |sign: char| match sign {
        '\u{2009}' | '\u{202f}' => b' ',
        '\u{2013}' => 0x96,
        '\u{2014}' => 0x97,
        '\u{2019}' => 0x92,
        '\u{2212}' => b'-',
        '\u{2026}' => 0x85,
        ' '..='~' | '\u{a0}'..='\u{ff}' => sign as u8,
        _ => b'?',
    };
    text.chars().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SVG: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 100 40\" width=\"100\" height=\"40\">\
        <rect width=\"100\" height=\"40\" fill=\"#ffffff\"/><path d=\"M0 0L10 10\" stroke=\"#d55e00\" stroke-width=\"2\" \
        stroke-dasharray=\"2 3\" fill=\"none\"/><rect x=\"5\" y=\"5\" width=\"9\" height=\"9\" fill=\"#0072b2\" fill-opacity=\"0.22\"/>\
        <text x=\"4\" y=\"20\" font-size=\"11\">Time 1\u{2009}s</text></svg>";

    fn text(pdf: &[u8]) -> String {
        pdf.iter().map(|byte| char::from(*byte)).collect()
    }

    /// The page's operators, unpacked.
    fn operators(pdf: &[u8]) -> String {
        let find = |what: &[u8]| pdf.windows(what.len()).position(|at| at == what).expect("a stream");
        let (from, to) = (find(b"stream\n") + b"stream\n".len(), find(b"\nendstream"));
        text(&miniz_oxide::inflate::decompress_to_vec_zlib(&pdf[from..to]).expect("zlib"))
    }

    #[test]
    fn shapes_colours_dashes_and_text_are_there() {
        let pdf = to_pdf(SVG, "A title", "What is shown.");
        assert_eq!(pdf, to_pdf(SVG, "A title", "What is shown."), "the same bytes each time");
        let document = text(&pdf);
        assert!(document.starts_with("%PDF-") && document.trim_end().ends_with("%%EOF"));
        assert!(document.contains("/Title (A title)") && document.contains("/Subject (What is shown.)"), "{document}");
        assert!(document.contains("/MediaBox [0 0 75 30]") && document.contains("/ca 0.22"), "{document}");
        let page = operators(&pdf);
        assert!(page.contains("[2 3] 0 d") && page.contains("0.8352941 0.36862746 0 RG"), "{page}");
        assert!(page.contains("/G0 gs") && page.contains("(Time 1 s) Tj"), "{page}");
    }
}
