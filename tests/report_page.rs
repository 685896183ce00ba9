//! The page of a report in a browser: names in legends are switches, and what is marked by dragging is shown large.

mod common;
#[path = "../crates/report/tests/synthetic/mod.rs"]
mod synthetic;

use common::{capture, folder, gnomon};
use std::fs;
use synthetic::Network;

/// Does what a reader does, and says in the document's title what came of it.
const READER: &str = r"<script>
const svg = [...document.querySelectorAll('svg[data-x]')].find(svg => svg.querySelectorAll('.e').length > 1);
const hidden = () => [...svg.querySelectorAll('[data-of]')].filter(part => part.style.display === 'none').length;
const box = svg.getBoundingClientRect();
const at = (x, y) => ({ clientX: box.left + box.width * x, clientY: box.top + box.height * y, button: 0, pointerType: 'mouse', bubbles: true });
const said = [];
svg.querySelector('.e').dispatchEvent(new MouseEvent('click', { bubbles: true }));
said.push('off ' + svg.querySelectorAll('.e.off').length, 'hidden ' + (hidden() > 0));
svg.querySelector('.e').dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }));
said.push('hidden ' + hidden());
svg.dispatchEvent(new PointerEvent('pointerdown', at(0.3, 0.4)));
svg.dispatchEvent(new PointerEvent('pointermove', at(0.6, 0.7)));
svg.dispatchEvent(new PointerEvent('pointerup', at(0.6, 0.7)));
said.push('larger ' + /matrix\([2-9]/.test(svg.querySelector('.d').getAttribute('transform')));
said.push('ticks ' + (svg.querySelectorAll('.part text').length > 3), svg.querySelector('.ticks').style.display);
svg.dispatchEvent(new MouseEvent('dblclick', { bubbles: true }));
said.push('whole ' + (svg.querySelector('.part') === null && svg.querySelector('.ticks').style.display === ''));
document.title = said.join(', ');
</script></body>";

#[test]
fn names_are_switches_and_what_is_marked_is_shown_large() {
    let folder = folder("report-page");
    let data = folder.join("run.data");
    synthetic::write(&data, &Network::tiny(1));
    let report = capture(gnomon().args(["report", "-o", "report", "run.data"]).current_dir(&folder));
    assert_eq!(report.code(), 0, "{}", report.stderr);
    let page = common::read(&folder.join("report/index.html")).replace("</body>", READER);
    fs::write(folder.join("read.html"), page).unwrap();
    let address = format!("file://{}", folder.join("read.html").display());
    let options = "--headless=new --no-sandbox --disable-gpu --user-data-dir=/tmp/profile --no-first-run --disable-extensions \
                   --disable-background-networking --disable-component-update --disable-sync --window-size=1000,800 --dump-dom";
    let arguments =
        ["exec", "/usr/lib/chromium/chromium"].into_iter().chain(options.split_whitespace()).chain([&*address]);
    let output = capture(gnomon().args(arguments).current_dir(&folder));
    assert_eq!(output.code(), 0, "{}", output.stderr);
    let title = output.stdout.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
    let expected = "off 1, hidden true, hidden 0, larger true, ticks true, none, whole true";
    assert_eq!(title, Some(expected), "{}", output.stderr);
}
