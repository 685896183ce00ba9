//! The fonts of figures, and how wide a text is.

use skrifa::instance::{LocationRef, Size};
use skrifa::{FontRef, MetadataProvider};
use std::sync::OnceLock;

/// Inter, regular and semi-bold: weight and file. Licence and origin stand in `assets/README.md`.
pub const FONTS: [(u32, &[u8]); 2] =
    [(400, include_bytes!("../../assets/Inter-400.ttf")), (600, include_bytes!("../../assets/Inter-600.ttf"))];

/// Advances of the characters below 128 at a size of one pixel, by font; wider characters count as an "n".
type Advances = [[f32; 128]; 2];

fn advances() -> &'static Advances {
    static ADVANCES: OnceLock<Advances> = OnceLock::new();
    ADVANCES.get_or_init(|| FONTS.map(|(_, data)| advances_of(data)))
}

fn advances_of(data: &[u8]) -> [f32; 128] {
    let font = FontRef::new(data).expect("the embedded font is sound");
    let (charmap, metrics) = (font.charmap(), font.glyph_metrics(Size::new(1.0), LocationRef::default()));
    std::array::from_fn(|code| {
        let glyph = charmap.map(code as u32);
        glyph.and_then(|glyph| metrics.advance_width(glyph)).unwrap_or(0.0)
    })
}

/// The width of `text` in pixels at `size`.
pub fn width(text: &str, size: f64, is_bold: bool) -> f64 {
    let table = &advances()[usize::from(is_bold)];
    let sum: f32 = text.chars().map(|c| table.get(c as usize).copied().unwrap_or(table[usize::from(b'n')])).sum();
    f64::from(sum) * size
}

/// Breaks a text into lines that are no wider than `width_px`, where words allow it.
pub fn wrap(text: &str, size: f64, is_bold: bool, width_px: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if width(&format!("{line} {word}"), size, is_bold) <= width_px => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A text that is no wider than `width_px`, shortened in its middle: both ends of a name tell.
pub fn shorten(text: &str, size: f64, width_px: f64) -> String {
    if width(text, size, false) <= width_px {
        return text.to_owned();
    }
    let letters: Vec<char> = text.chars().collect();
    let shortened = |kept: usize| {
        let tail = kept / 3;
        let head: String = letters[..kept - tail].iter().collect();
        let tail: String = letters[letters.len() - tail..].iter().collect();
        format!("{head}\u{2026}{tail}")
    };
    let fits = (1..letters.len()).rev().map(shortened).find(|text| width(text, size, false) <= width_px);
    fits.unwrap_or_else(|| "\u{2026}".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_those_of_a_proportional_font() {
        assert!(width("i", 13.0, false) < width("m", 13.0, false) / 2.0);
        assert!(width("bold", 13.0, true) > width("bold", 13.0, false));
        let word = width("bandwidth", 13.0, false);
        assert!((50.0..80.0).contains(&word), "{word}");
    }

    #[test]
    fn texts_are_wrapped_and_shortened_to_a_width() {
        let lines = wrap("Time to last byte, 50 KiB, performance clients", 14.0, true, 200.0);
        assert!(lines.len() > 1 && lines.iter().all(|line| width(line, 14.0, true) <= 200.0), "{lines:?}");
        let short = shorten("a-very-long-name-of-a-relay-17", 12.0, 100.0);
        assert!(width(&short, 12.0, false) <= 100.0 && short.starts_with("a-very") && short.ends_with("17"), "{short}");
        assert_eq!(shorten("short", 12.0, 100.0), "short");
    }
}
