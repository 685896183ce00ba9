//! A line on standard error that is drawn over and over: progress on a terminal.

use std::io::{IsTerminal, Write};

/// Used where the terminal does not tell its width.
const USUAL_WIDTH: usize = 80;

/// Standard error as a place for one changing line. Writing to it never fails: who watches may have gone.
#[derive(Debug)]
pub struct Terminal {
    /// Whether a line is on the screen.
    drawn: bool,
}

impl Terminal {
    pub fn stderr() -> Terminal {
        Terminal { drawn: false }
    }

    /// Whether standard error is a terminal. Elsewhere only whole lines belong.
    pub fn is_terminal() -> bool {
        std::io::stderr().is_terminal()
    }

    /// The columns that a line may fill. Asked anew each time, since windows are resized.
    pub fn width(&self) -> usize {
        let columns = terminal_size::terminal_size_of(std::io::stderr()).map(|(width, _)| usize::from(width.0));
        // One column stays free: a full line would wrap on some terminals.
        columns.filter(|columns| *columns > 1).unwrap_or(USUAL_WIDTH) - 1
    }

    /// Draws `line` (without a newline) in place of the one before.
    pub fn redraw(&mut self, line: &str) {
        let _ = write!(std::io::stderr(), "\r{line}\x1b[K");
        self.drawn = true;
    }

    /// Removes the line, so that other output begins at the left.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.clear();
    }
}
