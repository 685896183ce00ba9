//! Writing the report's files.

use crate::chart::{Figure, to_png};
use crate::error::{Error, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a report consists of besides `index.html`.
const EXTENSIONS: [&str; 3] = ["svg", "png", "csv"];

/// Writes page and figures into `folder`, which is made where it does not exist; figures of an earlier report that this one
/// does not have are removed. Returns the page's path.
pub fn write(folder: &Path, page: &str, figures: &[&Figure]) -> Result<PathBuf> {
    fs::create_dir_all(folder).map_err(|error| Error::io("make the folder", folder, error))?;
    let path = folder.join("index.html");
    remove_old_figures(folder, &path);
    write_figures(folder, figures)?;
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

/// Draws on several threads: pictures are most of a report's time.
fn write_figures(folder: &Path, figures: &[&Figure]) -> Result<()> {
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
    for (extension, content) in
        EXTENSIONS.into_iter().zip([svg.clone().into_bytes(), to_png(&svg), figure.to_csv().into_bytes()])
    {
        let path = folder.join(format!("{}.{extension}", figure.id));
        fs::write(&path, content).map_err(|error| Error::io("write", &path, error))?;
    }
    Ok(())
}
