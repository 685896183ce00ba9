//! One figure of the grid: a panel for each round trip, goodput over loss, both logarithmic, with the formulas.

use super::{Outcome, theory};
use std::fmt::Write as _;

const PANEL: (f64, f64) = (250.0, 200.0);
const GAP: (f64, f64) = (46.0, 58.0);
const HEAD: f64 = 84.0;
const COLUMNS: usize = 3;
/// Loss that is zero has a place of its own at the left.
const NO_LOSS: f64 = 3e-5;
const X: (f64, f64) = (2e-5, 5e-2);
/// Mbit/s.
const Y: (f64, f64) = (0.1, 1200.0);
/// Rates and their colours, which differ in brightness, too.
const RATES: [(u64, &str); 3] = [(1, "#b2182b"), (30, "#7b6d00"), (1000, "#08519c")];
const FORMULAS: [(&str, &str); 3] =
    [("Mathis et al. 1997", "6 4"), ("Padhye et al. 1998, full model", "2 3"), ("RFC 9438, section 5.1", "none")];

struct Panel {
    left: f64,
    top: f64,
}

impl Panel {
    fn x(&self, loss: f64) -> f64 {
        let loss = if loss > 0.0 { loss } else { NO_LOSS };
        self.left + PANEL.0 * (loss / X.0).ln() / (X.1 / X.0).ln()
    }

    fn y(&self, mbit: f64) -> f64 {
        self.top + PANEL.1 * (1.0 - (mbit.clamp(Y.0, Y.1) / Y.0).ln() / (Y.1 / Y.0).ln())
    }

    fn text(&self, svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
        let _ = writeln!(svg, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#);
    }

    fn axes(&self, svg: &mut String) {
        let (right, bottom) = (self.left + PANEL.0, self.top + PANEL.1);
        for (mbit, label) in [(0.1, "0.1"), (1.0, "1"), (10.0, "10"), (100.0, "100"), (1000.0, "1000")] {
            let y = self.y(mbit);
            let _ = writeln!(svg, r##"<path d="M{:.1} {y:.1}H{right:.1}" stroke="#ddd"/>"##, self.left);
            self.text(svg, self.left - 5.0, y + 4.0, "end", label);
        }
        for (loss, label) in [(NO_LOSS, "0"), (1e-4, "0.01 %"), (1e-3, "0.1 %"), (1e-2, "1 %"), (0.03, "3 %")] {
            let x = self.x(loss);
            let _ = writeln!(svg, r##"<path d="M{x:.1} {:.1}V{bottom:.1}" stroke="#ddd"/>"##, self.top);
            self.text(svg, x, bottom + 15.0, "middle", label);
        }
        let _ = writeln!(
            svg,
            r##"<rect x="{:.1}" y="{:.1}" width="{}" height="{}" fill="none" stroke="#444"/>"##,
            self.left, self.top, PANEL.0, PANEL.1
        );
    }

    fn formulas(&self, svg: &mut String, rtt: f64) {
        // The largest window that half of a receive buffer of 6 MiB allows.
        let window = f64::from(6_291_456 / 2) / theory::SEGMENT;
        let formulas: [&dyn Fn(f64) -> f64; 3] =
            [&|p| theory::mathis(rtt, p), &|p| theory::padhye(rtt, p, window), &|p| theory::rfc9438(rtt, p)];
        for ((_, dashes), formula) in FORMULAS.iter().zip(formulas) {
            let mut path = String::new();
            for step in 0..=40 {
                let p = 6e-5 * (X.1 / 6e-5_f64).powf(f64::from(step) / 40.0);
                let mbit = formula(p) / 1e6;
                if (Y.0..=1000.0).contains(&mbit) {
                    let _ =
                        write!(path, "{}{:.1} {:.1}", if path.is_empty() { "M" } else { "L" }, self.x(p), self.y(mbit));
                }
            }
            let _ = writeln!(svg, r##"<path d="{path}" fill="none" stroke="#777" stroke-dasharray="{dashes}"/>"##);
        }
    }

    fn points(&self, svg: &mut String, outcomes: &[&Outcome]) {
        for (mbit, colour) in RATES {
            let of_rate: Vec<&&Outcome> = outcomes.iter().filter(|outcome| outcome.cell.mbit == mbit).collect();
            for outcome in of_rate {
                let (x, linux, ours) = (self.x(outcome.cell.loss), outcome.linux.mean / 1e6, outcome.ours.mean / 1e6);
                let half = 2.09 * outcome.linux.variance.sqrt() / 1e6;
                let _ = writeln!(
                    svg,
                    r#"<path d="M{x:.1} {:.1}V{:.1}" stroke="{colour}" stroke-width="1.5"/><circle cx="{x:.1}" cy="{:.1}" r="5" fill="none" stroke="{colour}" stroke-width="1.3"/><circle cx="{x:.1}" cy="{:.1}" r="2.2" fill="{colour}"/>"#,
                    self.y(linux + half),
                    self.y(linux - half),
                    self.y(linux),
                    self.y(ours),
                );
            }
        }
    }
}

/// The figure as an SVG document.
pub fn draw(outcomes: &[Outcome]) -> String {
    let mut rtts: Vec<u64> = outcomes.iter().map(|outcome| outcome.cell.rtt_ms).collect();
    rtts.sort_unstable();
    rtts.dedup();
    let rows = rtts.len().div_ceil(COLUMNS);
    let width = COLUMNS as f64 * (PANEL.0 + GAP.0) + 24.0;
    let height = HEAD + rows as f64 * (PANEL.1 + GAP.1);
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11"><title>Goodput of TCP by loss, round trip and rate</title><rect width="100%" height="100%" fill="white"/>"#
    );
    svg.push('\n');
    legend(&mut svg);
    for (at, rtt_ms) in rtts.iter().enumerate() {
        let panel = Panel {
            left: 46.0 + (at % COLUMNS) as f64 * (PANEL.0 + GAP.0),
            top: HEAD + (at / COLUMNS) as f64 * (PANEL.1 + GAP.1),
        };
        panel.axes(&mut svg);
        panel.text(
            &mut svg,
            panel.left,
            panel.top - 7.0,
            "start",
            &format!("round trip {rtt_ms} ms: goodput in Mbit/s by loss"),
        );
        panel.formulas(&mut svg, *rtt_ms as f64 / 1000.0);
        let here: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.cell.rtt_ms == *rtt_ms).collect();
        panel.points(&mut svg, &here);
    }
    svg + "</svg>\n"
}

fn legend(svg: &mut String) {
    let mut x = 46.0;
    for (mbit, colour) in RATES {
        let name = if mbit == 1000 { "1 Gbit/s".to_owned() } else { format!("{mbit} Mbit/s") };
        let _ = writeln!(
            svg,
            r#"<circle cx="{x}" cy="22" r="5" fill="none" stroke="{colour}" stroke-width="1.3"/><circle cx="{x}" cy="22" r="2.2" fill="{colour}"/><text x="{}" y="26">{name}</text>"#,
            x + 10.0
        );
        x += 90.0;
    }
    let _ =
        writeln!(svg, r#"<text x="{x}" y="26">rings: Linux, with the 95 % interval of the mean; dots: Gnomon</text>"#);
    let mut x = 46.0;
    for (name, dashes) in FORMULAS {
        let _ = writeln!(
            svg,
            r##"<path d="M{x} 48h34" stroke="#777" stroke-dasharray="{dashes}"/><text x="{}" y="52">{name}</text>"##,
            x + 40.0
        );
        x += 60.0 + 7.0 * name.len() as f64;
    }
}
