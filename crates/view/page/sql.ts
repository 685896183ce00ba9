// A box for questions in SQL.

import { type Shown, csv, save } from "./card.ts";
import type { Answer } from "./data.ts";
import { h } from "./dom.ts";

const EXAMPLE = "SELECT fate, received_fate, count(*) AS packets, avg(total_ns) / 1e6 AS mean_ms\nFROM packets GROUP BY ALL ORDER BY packets DESC";

export class Sql {
  private shown: Shown | undefined;
  private answer: Answer | undefined;
  private readonly question = h("textarea", { rows: 4, spellcheck: "false", "aria-label": "A question in SQL",
    keydown: (event: KeyboardEvent) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void this.ask(); } });
  private readonly told = h("p", { class: "hint", "aria-live": "polite" });
  private readonly table = h("div", { class: "answer", tabindex: 0 });
  private readonly files = h("span", { class: "files" });
  readonly section: HTMLElement;

  constructor() {
    this.question.value = EXAMPLE;
    for (const format of ["CSV", "JSON", "Parquet"]) {
      this.files.append(h("button", { class: "file", title: `Save the whole answer as ${format}`, click: () => void this.save(format) }, format));
    }
    this.section = h("section", { id: "sql", class: "card wide" },
      h("header", {}, h("h2", {}, "SQL"), h("span", { class: "tools" }), this.files),
      h("p", { class: "hint" }, "DuckDB's SQL over the run's tables; one SELECT at a time. SHOW TABLES and DESCRIBE packets tell what is there. Ctrl and Enter asks."),
      this.question, h("p", {}, h("button", { class: "ask", click: () => void this.ask() }, "Ask")), this.told, this.table);
  }

  show(shown: Shown): void {
    const first = !this.shown;
    this.shown = shown;
    this.section.hidden = !shown.source.live;
    if (first && shown.state.sql) this.question.value = shown.state.sql;
  }

  private async ask(): Promise<void> {
    const { shown } = this;
    if (!shown) return;
    const question = this.question.value;
    this.told.textContent = "…";
    shown.change((state) => { state.sql = question === EXAMPLE ? undefined : question; });
    try {
      const start = performance.now();
      this.answer = await shown.source.sql(question);
      const { rows, more, columns } = this.answer;
      this.told.textContent = `${more ? "the first " : ""}${rows.length} ${rows.length === 1 ? "row" : "rows"}, ${Math.round(performance.now() - start)} ms`;
      this.table.replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, ...columns.map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((cell) => h("td", { class: /^(-?[\d.]+|0x[\da-f]+)$/.test(cell) ? "number" : "" }, cell)))))));
    } catch (error) {
      this.told.textContent = (error as Error).message;
      this.table.replaceChildren();
    }
  }

  private async save(format: string): Promise<void> {
    const { shown } = this;
    if (!shown) return;
    try {
      if (format === "CSV" && this.answer && !this.answer.more) save("answer.csv", csv([this.answer.columns, ...this.answer.rows]));
      else save(`answer.${format.toLowerCase()}`, await shown.source.file(this.question.value, format.toLowerCase()));
    } catch (error) {
      this.told.textContent = (error as Error).message;
    }
  }
}
