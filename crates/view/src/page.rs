//! The page: its parts as build.rs has made them, and as one file with what it shows.

use crate::brush::Brush;
use crate::columns::Columns;
use crate::error::Result;
use crate::record::Record;
use crate::{memory, packet, picture};
use serde_json::{Value, json};

pub const SCRIPT: &str = include_str!(concat!(env!("OUT_DIR"), "/page.js"));
pub const STYLE: &str = include_str!(concat!(env!("OUT_DIR"), "/page.css"));
const FRAME: &str = include_str!("../page/index.html");

/// Packets of which a page without a server knows the whole story.
const STORIES: usize = 40;

/// The page as the server gives it, which asks for script, style and data.
pub fn served() -> String {
    FRAME
        .replace("<!--policy-->", "")
        .replace("<!--style-->", "<link rel=\"stylesheet\" href=\"page.css\">")
        .replace("<!--script-->", "<script src=\"page.js\" defer></script>")
}

/// The page as one file that asks for nothing.
///
/// # Errors
/// When the record cannot be read.
pub fn whole(record: &Record) -> Result<String> {
    let data = data(record)?;
    let policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:\">";
    // What begins a tag would end the script.
    let data = data.to_string().replace('<', "\\u003c");
    Ok(FRAME.replace("<!--policy-->", policy).replace("<!--style-->", &format!("<style>{STYLE}</style>")).replace(
        "<!--script-->",
        &format!(
            "<script type=\"application/json\" id=\"data\">{data}</script><script>{}</script>",
            SCRIPT.replace("</script", "<\\/script")
        ),
    ))
}

fn data(record: &Record) -> Result<Value> {
    let about = picture::about(record)?;
    let columns = Columns::load(record)?;
    let connection = record.connect()?;
    let picture = if columns.is_empty() {
        picture::of_summary(&connection, &about)?
    } else {
        picture::of_brush(&columns, &Brush::default())
    };
    let mut stories = serde_json::Map::new();
    for slow in picture.about["slowest"].as_array().into_iter().flatten().take(STORIES) {
        if let Some(number) = slow["packet"].as_str()
            && let Ok(packet) = number.parse()
        {
            stories.insert(number.to_owned(), packet::story(&connection, packet)?);
        }
    }
    // Most cells are empty: place and count of the others.
    let heat: Vec<u32> = picture.heat.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    let cells: Vec<(usize, u32)> = heat.iter().copied().enumerate().filter(|(_, count)| *count > 0).collect();
    Ok(json!({
        "about": about, "picture": picture.about, "heat": cells, "stories": stories, "memory": memory::map(&connection, 0, 0, (0, u64::MAX))?,
    }))
}
