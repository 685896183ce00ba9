//! The page: one HTML file that needs nothing else, with every figure as SVG in it.

use crate::html::{document, escape, figure, table};
use crate::run::Run;
use crate::sections::{Context, Row, Section, Since, Table};
use crate::tables;
use std::fmt::Write;

/// Writes the page.
pub fn write(context: &Context, summary: &[Row], sections: &[Section], data: &[tables::Table]) -> String {
    let mut page = String::with_capacity(1 << 20);
    summary_section(&mut page, context, summary);
    for part in sections {
        section(&mut page, part);
    }
    tables_section(&mut page, data);
    method(&mut page, context);
    damage(&mut page, context);
    document(&title(context), &navigation(sections), &page)
}

fn title(context: &Context) -> String {
    let labels: Vec<&str> = context.subjects.iter().map(|subject| subject.label.as_str()).collect();
    match labels.as_slice() {
        [one] => format!("Report on {one}"),
        several => format!("Comparison of {}", several.join(", ")),
    }
}

fn navigation(sections: &[Section]) -> String {
    let mut links = String::from("<a href=\"#summary\">Summary</a>");
    for section in sections {
        let _ = write!(links, " <a href=\"#{}\">{}</a>", section.id, escape(section.title));
    }
    links + " <a href=\"#data\">Data</a> <a href=\"#method\">Method and inputs</a>"
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
        section.figures.iter().for_each(|one| figure(page, "", one));
        page.push_str("</div>\n");
    }
    section.tables.iter().for_each(|one| table(page, one));
    page.push_str("</section>\n");
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
