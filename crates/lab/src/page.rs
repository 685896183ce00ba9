//! The page: claims with verdicts first, then each laboratory with what was published, its figures and its tables.

use crate::Chapter;
use crate::case::Setting;
use crate::claim::{Judgement, Publication};
use report::CONFIDENCE;
use report::chart::Unit;
use report::html::{Table, document, escape, figure, table};
use std::fmt::Write;

/// Writes the page. Figures lie in folders named after their laboratories.
pub fn write(chapters: &[Chapter], setting: &Setting, provenance: &[(String, String)]) -> String {
    let mut links = String::from("<a href=\"#verdicts\">Verdicts</a>");
    for chapter in chapters {
        let _ = write!(links, " <a href=\"#{}\">{}</a>", chapter.lab.name, escape(chapter.lab.title));
    }
    links += " <a href=\"#method\">Method</a> <a href=\"#provenance\">Provenance</a>";
    let mut page = String::new();
    verdicts(&mut page, chapters);
    chapters.iter().for_each(|one| chapter(&mut page, one));
    method(&mut page, setting);
    origin(&mut page, chapters, provenance);
    document("Published experiments, repeated", &links, &page)
}

fn verdicts(page: &mut String, chapters: &[Chapter]) {
    page.push_str("<section id=\"verdicts\">\n<h2>Verdicts</h2>\n");
    let count = |name: &str| {
        let all = chapters.iter().flat_map(|chapter| &chapter.findings.judgements);
        all.filter(|judgement| judgement.verdict.name() == name).count()
    };
    let _ = writeln!(
        page,
        "<p>{} claims are confirmed, {} contradicted, {} undecided.</p>",
        count("confirmed"),
        count("contradicted"),
        count("undecided")
    );
    let row = |lab: &str, judgement: &Judgement| {
        vec![lab.to_owned(), judgement.claim.statement.clone(), measured(judgement), judgement.verdict.text()]
    };
    let rows = chapters
        .iter()
        .flat_map(|chapter| chapter.findings.judgements.iter().map(move |judgement| row(chapter.lab.name, judgement)));
    text_table(page, "", &["Laboratory", "Claim", "Measured", "Verdict"], rows.collect());
    page.push_str("</section>\n");
}

/// The mean with half the interval's width.
fn measured(judgement: &Judgement) -> String {
    let unit = judgement.claim.unit;
    judgement.estimate.map_or_else(|| "–".to_owned(), |estimate| shown(unit, estimate.mean, estimate.error))
}

/// A value, with what it may be off if that is known.
pub fn shown(unit: Unit, value: f64, error: Option<f64>) -> String {
    match error {
        Some(error) if error.is_finite() => unit.show_with_error(value, error),
        _ => unit.show(value),
    }
}

fn chapter(page: &mut String, chapter: &Chapter) {
    let (lab, findings) = (chapter.lab, &chapter.findings);
    let _ = writeln!(page, "<section id=\"{}\">\n<h2>{}</h2>", lab.name, escape(lab.title));
    paragraph(page, &format!("Published: {}", lab.published));
    paragraph(page, &format!("Measured: {}", lab.measured));
    for publication in lab.publications {
        paragraph(page, &citation(publication));
    }
    for note in &findings.notes {
        paragraph(page, note);
    }
    let problems = chapter.measurements.skipped().into_iter().map(|text| format!("Left out: {text}"));
    let failures = chapter.measurements.failures().into_iter().map(|text| format!("Failed: {text}"));
    for text in problems.chain(failures) {
        let _ = writeln!(page, "<p class=\"missing\">{}</p>", escape(&text));
    }
    let rows = findings.judgements.iter().map(claim_row).collect();
    text_table(page, "Claims", &["Claim", "Published", "Source", "Holds if", "Measured", "Verdict"], rows);
    if !findings.figures.is_empty() {
        page.push_str("<div class=\"figures\">\n");
        findings.figures.iter().for_each(|one| figure(page, &format!("{}/", lab.name), one));
        page.push_str("</div>\n");
    }
    findings.tables.iter().for_each(|one| table(page, one));
    let name = lab.name;
    let _ = writeln!(
        page,
        "<p class=\"files\"><a href=\"{name}/measurements.csv\">{name}/measurements.csv</a></p>\n</section>"
    );
}

fn claim_row(judgement: &Judgement) -> Vec<String> {
    let claim = &judgement.claim;
    vec![
        claim.statement.clone(),
        claim.published.clone(),
        claim.source.text(),
        claim.bound.text(claim.unit),
        measured(judgement),
        judgement.verdict.text(),
    ]
}

fn citation(publication: &Publication) -> String {
    format!(
        "{}: {}, \u{201c}{}\u{201d} ({}).",
        publication.short, publication.authors, publication.title, publication.place
    )
}

fn method(page: &mut String, setting: &Setting) {
    page.push_str("<section id=\"method\">\n<h2>Method</h2>\n");
    paragraph(
        page,
        &format!(
            "Size {}; each case was to be measured {} times, the cases one after the other in each round, so that what drifts on the \
             machine meets all alike. Values are means over repetitions; ± is half the width of the {:.0} % confidence interval by \
             Student\u{2019}s t distribution. Ratios are taken within a round.",
            setting.size.name(),
            setting.repetitions,
            CONFIDENCE * 100.0
        ),
    );
    paragraph(
        page,
        "A claim is confirmed if the whole interval keeps the claim\u{2019}s bound, contradicted if none of it does, and undecided \
         otherwise, or where this machine or this size cannot tell. Published times were measured on other machines: a verdict about \
         one says how Gnomon on this machine stands to them, not that they were wrong.",
    );
    page.push_str("</section>\n");
}

fn origin(page: &mut String, chapters: &[Chapter], provenance: &[(String, String)]) {
    page.push_str("<section id=\"provenance\">\n<h2>Provenance</h2>\n");
    let mut rows: Vec<Vec<String>> = provenance.iter().map(|(name, value)| vec![name.clone(), value.clone()]).collect();
    for chapter in chapters {
        let machines = chapter.measurements.machines();
        if machines.len() > 1 {
            let name = chapter.lab.name;
            let text = format!("The runs of {name} were made on different machines or by different versions.");
            let _ = writeln!(page, "<p class=\"missing\">{}</p>", escape(&text));
        }
        rows.extend(machines.into_iter().map(|machine| vec![format!("runs of {}", chapter.lab.name), machine]));
    }
    text_table(page, "", &["What", "Value"], rows);
    page.push_str("</section>\n");
}

fn paragraph(page: &mut String, text: &str) {
    let _ = writeln!(page, "<p>{}</p>", escape(text));
}

fn text_table(page: &mut String, title: &str, header: &[&str], rows: Vec<Vec<String>>) {
    let header: Vec<String> = header.iter().map(|name| (*name).to_owned()).collect();
    let text_columns = header.len();
    table(page, &Table { title: title.to_owned(), header, rows, text_columns });
}

#[cfg(test)]
mod tests {
    use crate::case::{Setting, Size};
    use crate::reading::tests::stats;
    use crate::{Failure, LABS, Request, Runner, Task, run};

    /// Gives runs that take as long as their case's place, but none of the second repetition of the last case.
    struct Invented;

    impl Runner for Invented {
        fn earlier(&mut self, _: &Task) -> Option<String> {
            None
        }

        fn run(&mut self, task: &Task) -> Result<String, Failure> {
            if task.number == task.total {
                return Err(Failure::Run("no <room> left".into()));
            }
            Ok(stats(task.case.key.len() as f64 + 0.01 * f64::from(task.repetition), 100_000_000))
        }
    }

    #[test]
    fn the_page_has_each_labs_claims_figures_and_troubles() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let setting = Setting { memory_bytes: 8 << 30, ..Setting::tried(Size::Small, &[]) };
        let request = Request {
            labs: LABS.iter().collect(),
            setting,
            report_only: false,
            output: folder.path().to_path_buf(),
            provenance: vec![("command".into(), "gnomon lab all".into())],
        };
        let written = run(&request, &mut Invented).expect("a page");
        let page = std::fs::read_to_string(&written.page).expect("the page");
        for lab in LABS {
            assert!(page.contains(&format!("<section id=\"{}\">", lab.name)), "{}", lab.name);
            let table = folder.path().join(lab.name).join("measurements.csv");
            assert!(std::fs::read_to_string(table).expect("a table").lines().count() > 2, "{}", lab.name);
        }
        assert_eq!(written.failures.len(), 1);
        assert!(page.contains("no &lt;room&gt; left") && page.contains("gnomon lab all"), "escaped, and whole");
        for (lab, judgements) in &written.judgements {
            assert!(!judgements.is_empty(), "{}", lab.name);
            for judgement in judgements {
                assert!(page.contains(&report::html::escape(&judgement.claim.statement)), "{judgement:?}");
            }
        }
        let figures = page.matches("<figure id=").count();
        assert!(figures >= LABS.len(), "{figures} figures");
        for path in page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(path.starts_with('#') || folder.path().join(path).is_file(), "{path}");
        }
    }

    #[test]
    fn labs_that_nobody_asked_for_and_that_have_no_runs_are_left_out() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let setting = Setting { repetitions: 1, processors: 1, ..Setting::tried(Size::Smallest, &[]) };
        let labs = vec![&LABS[0]];
        let output = folder.path().to_path_buf();
        let request = Request { labs, setting, report_only: false, output, provenance: Vec::new() };
        let written = run(&request, &mut Invented).expect("a page");
        let page = std::fs::read_to_string(&written.page).expect("the page");
        assert!(
            page.contains(&format!("id=\"{}\"", LABS[0].name)) && !page.contains(&format!("id=\"{}\"", LABS[1].name))
        );
        assert_eq!(written.judgements.len(), 1);
    }
}
