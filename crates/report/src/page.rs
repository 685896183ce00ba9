//! The page: one HTML file that needs nothing else, with every figure as SVG in it.

use crate::chart::{COLOURS, FONTS, Figure};
use crate::run::Run;
use crate::sections::{Context, Row, Section, Since, Table};
use crate::tables;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Writes the page.
pub fn write(context: &Context, summary: &[Row], sections: &[Section], data: &[tables::Table]) -> String {
    let mut page = String::with_capacity(1 << 20);
    let title = title(context);
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{}{STYLE}{}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n",
        fonts(),
        colours()
    );
    navigation(&mut page, sections);
    page.push_str("</header>\n<main>\n");
    summary_section(&mut page, context, summary);
    for part in sections {
        section(&mut page, part);
    }
    tables_section(&mut page, data);
    method(&mut page, context);
    damage(&mut page, context);
    let _ = write!(page, "</main>\n<div id=\"tip\" hidden></div>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
    page
}

fn title(context: &Context) -> String {
    let labels: Vec<&str> = context.subjects.iter().map(|subject| subject.label.as_str()).collect();
    escape(&match labels.as_slice() {
        [one] => format!("Report on {one}"),
        several => format!("Comparison of {}", several.join(", ")),
    })
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

fn navigation(page: &mut String, sections: &[Section]) {
    page.push_str("<nav aria-label=\"Sections\"><a href=\"#summary\">Summary</a>");
    for section in sections {
        let _ = write!(page, " <a href=\"#{}\">{}</a>", section.id, escape(section.title));
    }
    page.push_str(" <a href=\"#data\">Data</a> <a href=\"#method\">Method and inputs</a></nav>\n");
}

fn summary_section(page: &mut String, context: &Context, rows: &[Row]) {
    page.push_str("<section id=\"summary\">\n<h2>Summary</h2>\n");
    let mut header = vec![String::new()];
    header.extend(context.subjects.iter().map(|subject| subject.title()));
    let rows =
        rows.iter().map(|row| [row.name.clone()].into_iter().chain(row.cells.iter().cloned()).collect()).collect();
    let text_columns = header.len();
    table(page, &Table { title: String::new(), header, rows, text_columns });
    page.push_str("</section>\n");
}

fn section(page: &mut String, section: &Section) {
    let _ = writeln!(page, "<section id=\"{}\">\n<h2>{}</h2>", section.id, escape(section.title));
    for text in &section.texts {
        let _ = writeln!(page, "<p>{}</p>", escape(text));
    }
    for missing in &section.missing {
        let _ = writeln!(page, "<p class=\"missing\">{}</p>", escape(missing));
    }
    if !section.figures.is_empty() {
        page.push_str("<div class=\"figures\">\n");
        section.figures.iter().for_each(|one| figure(page, one));
        page.push_str("</div>\n");
    }
    section.tables.iter().for_each(|one| table(page, one));
    page.push_str("</section>\n");
}

fn figure(page: &mut String, figure: &Figure) {
    let id = &figure.id;
    let _ = write!(page, "<figure id=\"{id}\">\n{}<figcaption>", figure.to_svg());
    if !figure.caption.is_empty() {
        let _ = write!(page, "{} ", escape(&figure.caption));
    }
    page.push_str("<span class=\"files\">");
    for extension in ["pdf", "png", "svg", "csv"] {
        let _ = write!(page, "<a href=\"{id}.{extension}\">{}</a> ", extension.to_uppercase());
    }
    page.push_str("</span></figcaption>\n</figure>\n");
}

fn table(page: &mut String, table: &Table) {
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

/// Where the data lie that everything else is made of.
fn tables_section(page: &mut String, data: &[tables::Table]) {
    let folder = tables::FOLDER;
    let _ = writeln!(
        page,
        "<section id=\"data\">\n<h2>Data</h2>\n<p>One row for each observation; <a href=\"{folder}/datapackage.json\">datapackage.json</a> \
         describes every column ({}).</p>\n<ul>",
        tables::SCHEMA
    );
    for table in data {
        let name = table.name;
        let _ = writeln!(
            page,
            "<li>{name}: {} rows <span class=\"files\"><a href=\"{folder}/{name}.csv\">CSV</a> <a \
             href=\"{folder}/{name}.parquet\">Parquet</a></span></li>",
            table.rows()
        );
    }
    page.push_str("</ul>\n</section>\n");
}

fn method(page: &mut String, context: &Context) {
    page.push_str("<section id=\"method\">\n<h2>Method and inputs</h2>\n");
    for text in method_texts(context) {
        let _ = writeln!(page, "<p>{}</p>", escape(&text));
    }
    let header = ["Run", "Group", "Directory", "Seed", "Digest", "About"].map(str::to_owned).to_vec();
    let mut rows = Vec::new();
    for subject in &context.subjects {
        for run in &subject.runs {
            let group = if subject.is_group() { subject.label.clone() } else { String::new() };
            rows.push(vec![
                run.label.clone(),
                group,
                run.directory.display().to_string(),
                seed(run),
                digest(run),
                span(context, run),
            ]);
        }
    }
    let text_columns = header.len();
    table(page, &Table { title: "Runs".into(), header, rows, text_columns });
    page.push_str("</section>\n");
}

fn seed(run: &Run) -> String {
    run.seed().map(|seed| seed.to_string()).unwrap_or_default()
}

/// Its beginning, as one compares digests by eye.
fn digest(run: &Run) -> String {
    let digest = run.stats.as_ref().and_then(|stats| stats.digest.as_deref());
    digest.map(|digest| digest.chars().take(12).collect()).unwrap_or_default()
}

fn span(context: &Context, run: &Run) -> String {
    let window = context.window(run);
    format!("{:.0} s to {:.0} s", window.start, window.end)
}

fn method_texts(context: &Context) -> Vec<String> {
    let mut texts = vec![
        "Times are simulated unless they say otherwise. Distributions, shares and means are about the time after \
         bootstrapping (from the network's bootstrap end to the end of the run) unless the report was asked for another span; \
         figures over time show everything. Quantiles are interpolated linearly between neighbouring values (Hyndman and Fan's \
         definition 7)."
            .to_owned(),
    ];
    if context.since == Since::Request {
        texts.push("Times to first and last byte count from the request, without SOCKS.".into());
    }
    for subject in context.subjects.iter().filter(|subject| subject.is_group()) {
        texts.push(format!(
            "\u{201c}{}\u{201d} is a group of {} runs. Each of its curves is the mean over runs of the value at that quantile \
             (or of that interval of time), with a 95 % confidence interval from Student\u{2019}s t distribution with {} \
             degrees of freedom: mean ± t · s / √n, with the sample standard deviation s over runs. The method is that of \
             Jansen, Tracey and Goldberg, \u{201c}Once is Never Enough: Foundations for Sound Statistical Inference in Tor \
             Network Experimentation\u{201d} (USENIX Security 2021). Lower ends do not go below zero. In tables, ± is half the \
             interval\u{2019}s width.",
            subject.label,
            subject.runs.len(),
            subject.runs.len() - 1
        ));
        texts.extend(repeated_seeds(&subject.runs).map(|seed| {
            format!(
                "Warning: runs of \u{201c}{}\u{201d} have the same seed {seed}. They are not independent.",
                subject.label
            )
        }));
    }
    texts
}

fn repeated_seeds(runs: &[&Run]) -> Option<u64> {
    let mut seeds: Vec<u64> = runs.iter().filter_map(|run| run.seed()).collect();
    seeds.sort_unstable();
    seeds.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// What could not be read, file by file.
fn damage(page: &mut String, context: &Context) {
    const MOST_FILES: usize = 40;
    let mut rows = Vec::new();
    for run in context.runs() {
        for damage in &run.damage {
            rows.push(vec![
                run.label.clone(),
                damage.file.clone(),
                damage.lines.to_string(),
                damage.first.to_string(),
                damage.why.clone(),
            ]);
        }
    }
    if rows.is_empty() {
        return;
    }
    let files = rows.len();
    rows.truncate(MOST_FILES);
    let lines: usize = context.runs().map(Run::damaged_lines).sum();
    let _ = writeln!(
        page,
        "<section id=\"damage\">\n<h2>What could not be read</h2>\n<p>{lines} lines of {files} files were left out: broken, or \
         cut off because the run was still going on or was killed.</p>"
    );
    let header = ["Run", "File", "Lines", "First", "Why"].map(str::to_owned).to_vec();
    let text_columns = header.len();
    table(page, &Table { title: String::new(), header, rows, text_columns });
    page.push_str("</section>\n");
}

/// Text for HTML.
fn escape(text: &str) -> String {
    crate::chart::escape(text)
}
