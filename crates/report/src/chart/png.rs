//! PNG from SVG, with the embedded fonts only: the same picture on every machine.

use super::text::FONTS;
use resvg::{tiny_skia, usvg};
use std::sync::{Arc, OnceLock};

/// Pixels per unit of the SVG: 960 pixels of width are sharp in print at a column's width.
const PIXELS_PER_UNIT: f32 = 2.0;

fn fonts() -> Arc<usvg::fontdb::Database> {
    static FONT_DATABASE: OnceLock<Arc<usvg::fontdb::Database>> = OnceLock::new();
    let database = FONT_DATABASE.get_or_init(|| {
        let mut database = usvg::fontdb::Database::new();
        FONTS.iter().for_each(|(_, data)| database.load_font_data(data.to_vec()));
        database.set_sans_serif_family("Inter");
        Arc::new(database)
    });
    Arc::clone(database)
}

/// An SVG document as shapes.
pub(super) fn tree_of(svg: &str) -> usvg::Tree {
    let options = usvg::Options { fontdb: fonts(), font_family: "Inter".to_owned(), ..usvg::Options::default() };
    usvg::Tree::from_str(svg, &options).expect("figures are well-formed SVG")
}

/// Draws an SVG document.
///
/// # Panics
///
/// On documents that are no SVG: figures are made by this crate.
pub fn to_png(svg: &str) -> Vec<u8> {
    let tree = tree_of(svg);
    let size = tree.size();
    let pixels = |length: f32| (length * PIXELS_PER_UNIT).ceil() as u32;
    let mut picture = tiny_skia::Pixmap::new(pixels(size.width()), pixels(size.height())).expect("figures have a size");
    let zoom = tiny_skia::Transform::from_scale(PIXELS_PER_UNIT, PIXELS_PER_UNIT);
    resvg::render(&tree, zoom, &mut picture.as_mut());
    picture.encode_png().expect("a picture in memory can be encoded")
}
