//! Colours and dashes. The colours are those of Okabe and Ito, "Color Universal Design" (2008), which people with any usual
//! colour blindness tell apart; yellow is left out, since it vanishes on paper. Dashes tell lines apart without colour.

/// A colour of the palette, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    Palette(usize),
    /// For what stands back: many lines of which only the whole matters.
    Faint,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ink {
    pub colour: Colour,
    /// 0: solid; others count through the dashes.
    pub dash: usize,
}

/// On white paper, and on a dark page.
pub const COLOURS: [(&str, &str); 7] = [
    ("#0072b2", "#4fb0e8"),
    ("#d55e00", "#ff8a3c"),
    ("#009e73", "#2ecc9e"),
    ("#b8578f", "#e291bf"),
    ("#e69f00", "#f2b93b"),
    ("#56b4e9", "#9bd5f7"),
    ("#5a5a5a", "#b5b5b5"),
];
pub const FAINT: &str = "#b4b4b4";

const SHADES: [&str; 3] = ["", "0.55", "0.3"];
const DASHES: [&str; 4] = ["", "6 3", "2 2", "9 3 2 3"];

impl Ink {
    pub fn solid(colour: usize) -> Ink {
        Ink { colour: Colour::Palette(colour), dash: 0 }
    }

    pub fn dashed(colour: usize, dash: usize) -> Ink {
        Ink { colour: Colour::Palette(colour), dash }
    }

    pub fn faint() -> Ink {
        Ink { colour: Colour::Faint, dash: 0 }
    }

    /// The SVG class, by which a page changes the colour.
    pub fn class(&self) -> String {
        match self.colour {
            Colour::Palette(index) => format!("c{}", index % COLOURS.len()),
            Colour::Faint => "cf".to_owned(),
        }
    }

    /// On white paper.
    pub fn hex(&self) -> &'static str {
        match self.colour {
            Colour::Palette(index) => COLOURS[index % COLOURS.len()].0,
            Colour::Faint => FAINT,
        }
    }

    /// How often all colours were taken before this one.
    fn rounds(&self) -> usize {
        match self.colour {
            Colour::Palette(index) => index / COLOURS.len(),
            Colour::Faint => 0,
        }
    }

    /// The attribute of a lighter box, or nothing. Colours that come again are lighter.
    pub fn shade_attribute(&self) -> String {
        match SHADES[self.rounds() % SHADES.len()] {
            "" => String::new(),
            shade => format!(" fill-opacity=\"{shade}\""),
        }
    }

    /// The attribute of a dashed stroke, or nothing. Colours that come again have the next dash.
    pub fn dash_attribute(&self) -> String {
        match DASHES[(self.dash + self.rounds()) % DASHES.len()] {
            "" => String::new(),
            dash => format!(" stroke-dasharray=\"{dash}\""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_series_than_colours_differ_in_their_dashes_and_shades() {
        let (first, again) = (Ink::solid(0), Ink::solid(COLOURS.len()));
        assert_eq!(first.class(), again.class());
        assert_ne!(first.dash_attribute(), again.dash_attribute());
        assert_ne!(first.shade_attribute(), again.shade_attribute());
    }
}
