//! Writing the report's files.

use crate::chart::{Figure, to_pdf, to_png};
use crate::error::{Error, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a report consists of besides `index.html`.
const EXTENSIONS: [&str; 4] = ["svg", "pdf", "png", "csv"];
/// Figures with their captions, for LaTeX.
const CAPTIONS: &str = "figures.tex";

/// Writes page and figures into `folder`, which is made where it does not exist; figures of an earlier report that this one
/// does not have are removed. Returns the page's path.
pub fn write(folder: &Path, page: &str, figures: &[&Figure]) -> Result<PathBuf> {
    fs::create_dir_all(folder).map_err(|error| Error::io("make the folder", folder, error))?;
    let path = folder.join("index.html");
    remove_old_figures(folder, &path);
    write_figures(folder, figures)?;
    let captions = folder.join(CAPTIONS);
    if figures.is_empty() {
        let _ = fs::remove_file(&captions);
    } else {
        fs::write(&captions, in_latex(figures)).map_err(|error| Error::io("write", &captions, error))?;
    }
    fs::write(&path, page).map_err(|error| Error::io("write", &path, error))?;
    Ok(path)
}

/// Files that an earlier page in this folder had as figures: those only, since the folder is the user's.
fn remove_old_figures(folder: &Path, page: &Path) {
    let Ok(page) = fs::read_to_string(page) else { return };
    for id in page.split("<figure id=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
        let is_id = id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        for extension in EXTENSIONS.iter().filter(|_| is_id) {
            // One that is gone already is as good.
            let _ = fs::remove_file(folder.join(format!("{id}.{extension}")));
        }
    }
}

/// All figures as LaTeX has them, to copy from.
fn in_latex(figures: &[&Figure]) -> String {
    let mut text =
        "% Figures of a report of Gnomon, with their captions: copy what is wanted. Needs \\usepackage{graphicx}.\n"
            .to_owned();
    for figure in figures {
        text += &format!(
            "\n\\begin{{figure}}\n  \\centering\n  \\includegraphics[width=\\columnwidth]{{{id}.pdf}}\n  \\caption{{{caption}}}\n  \\label{{fig:{id}}}\n\\end{{figure}}\n",
            id = figure.id,
            caption = latex(&format!("{}. {}", figure.title, figure.full_caption())),
        );
    }
    text
}

/// Text as LaTeX reads it.
fn latex(text: &str) -> String {
    let mut escaped = String::new();
    for sign in text.chars() {
        match sign {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => escaped.extend(['\\', sign]),
            '\\' => escaped += "\\textbackslash{}",
            '~' => escaped += "\\textasciitilde{}",
            '^' => escaped += "\\textasciicircum{}",
            '\u{2009}' | '\u{202f}' => escaped += "\\,",
            '\u{a0}' => escaped.push('~'),
            '\u{2013}' => escaped += "--",
            '\u{2212}' => escaped += "$-$",
            '\u{b1}' => escaped += "$\\pm$",
            '\u{b5}' | '\u{3bc}' => escaped += "$\\mu$",
            _ => escaped.push(sign),
        }
    }
    escaped
}

/// Figures whose ids come again, as names do that differ in punctuation only, get a number.
pub fn make_ids_unique<'a>(figures: impl Iterator<Item = &'a mut Figure>) {
    let mut known = BTreeSet::new();
    for figure in figures {
        let id = figure.id.clone();
        let mut count = 1;
        while !known.insert(figure.id.clone()) {
            count += 1;
            figure.id = format!("{id}-{count}");
        }
    }
}

/// Writes each figure's files into `folder`, which must exist. Draws on several threads: pictures are most of a report's time.
pub fn write_figures(folder: &Path, figures: &[&Figure]) -> Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let work = || loop {
            match figures.get(next.fetch_add(1, Ordering::Relaxed)) {
                Some(figure) => write_figure(folder, figure)?,
                None => return Ok(()),
            }
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("drawing does not panic"))
    })
}

fn write_figure(folder: &Path, figure: &Figure) -> Result<()> {
    let svg = figure.to_svg();
    let pdf = to_pdf(&svg, &figure.title, &figure.full_caption());
    let contents = [svg.clone().into_bytes(), pdf, to_png(&svg), figure.to_csv().into_bytes()];
    for (extension, content) in EXTENSIONS.into_iter().zip(contents) {
        let path = folder.join(format!("{}.{extension}", figure.id));
        fs::write(&path, content).map_err(|error| Error::io("write", &path, error))?;
    }
    Ok(())
}
