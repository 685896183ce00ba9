//! What pages of results are made of: the document around them, figures, tables. One HTML file that needs nothing else, with every figure
//! as SVG in it; what it links to lies beside it.

use crate::chart::{COLOURS, FONTS, Figure};
pub use crate::sections::Table;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A whole page: the title is text, `links` (what the navigation has) and `main` are HTML.
pub fn document(title: &str, links: &str, main: &str) -> String {
    let title = escape(title);
    let (fonts, colours) = (fonts(), colours());
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{fonts}{STYLE}{colours}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n\
         <nav aria-label=\"Sections\">{links}</nav>\n</header>\n<main>\n{main}</main>\n<div id=\"tip\" hidden></div>\n\
         <script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

fn fonts() -> String {
    let face = |(weight, data): &(u32, &[u8])| {
        format!(
            "@font-face{{font-family:Inter;font-weight:{weight};src:url(data:font/ttf;base64,{})}}\n",
            STANDARD.encode(data)
        )
    };
    FONTS.iter().map(face).collect()
}

/// The palette on dark pages.
fn colours() -> String {
    let mut rules = String::from("@media (prefers-color-scheme: dark) {\n");
    for (index, (_, dark)) in COLOURS.iter().enumerate() {
        let _ =
            writeln!(rules, "svg .c{index} {{ stroke: {dark}; }} svg .f.c{index} {{ fill: {dark}; stroke: none; }}");
    }
    rules + "}\n"
}

/// A figure with links to its files, which lie in `folder`: a path from the page with a slash at its end, or nothing.
pub fn figure(page: &mut String, folder: &str, figure: &Figure) {
    let id = &figure.id;
    let _ = write!(page, "<figure id=\"{id}\">\n{}<figcaption>", figure.to_svg());
    if !figure.caption.is_empty() {
        let _ = write!(page, "{} ", escape(&figure.caption));
    }
    page.push_str("<span class=\"files\">");
    for extension in ["pdf", "png", "svg", "csv"] {
        let _ = write!(page, "<a href=\"{folder}{id}.{extension}\">{}</a> ", extension.to_uppercase());
    }
    page.push_str("</span></figcaption>\n</figure>\n");
}

/// A table; nothing if it has no rows.
pub fn table(page: &mut String, table: &Table) {
    if table.rows.is_empty() {
        return;
    }
    page.push_str("<div class=\"table\"><table>\n");
    if !table.title.is_empty() {
        let _ = writeln!(page, "<caption>{}</caption>", escape(&table.title));
    }
    let class = |column: usize| if column < table.text_columns { "" } else { " class=\"n\"" };
    page.push_str("<thead><tr>");
    for (column, name) in table.header.iter().enumerate() {
        let _ = write!(page, "<th scope=\"col\"{}>{}</th>", class(column), escape(name));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        page.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let (tag, scope) = if column == 0 { ("th", " scope=\"row\"") } else { ("td", "") };
            // Short texts stay in one line where numbers follow: rows of one height are compared more easily.
            let stays = column < table.text_columns && table.text_columns < row.len() && cell.chars().count() <= 28;
            let class = if stays { " class=\"s\"" } else { class(column) };
            let _ = write!(page, "<{tag}{scope}{class}>{}</{tag}>", escape(cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div>\n");
}

/// Text for HTML.
pub fn escape(text: &str) -> String {
    crate::chart::escape(text)
}
