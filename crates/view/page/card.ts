// A view in its frame: a title, what it tells, a drawing, and files of it.

import type { About, Picture, Source } from "./data.ts";
import { type Colours, h } from "./dom.ts";
import { CanvasPen, type Pen, SvgPen } from "./pen.ts";
import type { State } from "./state.ts";

/** What all views draw from. */
export interface Shown {
  about: About; source: Source; state: State; colours: Colours;
  /** What the brush leaves, and all packets. */
  picture: Picture; whole: Picture;
  name(host: number): string;
  /** Changes the state, and asks for what follows from it. */
  change(how: (state: State) => void): void;
}

export type Cell = string | number;

export function save(name: string, blob: Blob): void {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function csv(rows: Cell[][]): Blob {
  const cell = (value: Cell) => (/[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
  return new Blob([rows.map((row) => row.map(cell).join(",")).join("\n"), "\n"], { type: "text/csv" });
}

export abstract class View {
  readonly section: HTMLElement;
  protected readonly canvas = h("canvas", { tabindex: 0 });
  protected readonly body = h("div", { class: "body" });
  protected readonly hint = h("p", { class: "hint" });
  protected shown: Shown | undefined;
  protected readonly tools = h("span", { class: "tools" });

  constructor(protected readonly id: string, title: string, hint: string) {
    this.hint.textContent = hint;
    this.canvas.setAttribute("aria-label", `${title}. ${hint}`);
    this.canvas.setAttribute("role", "img");
    const file = (kind: string) =>
      h("button", { class: "file", title: `Save this view as ${kind}`, "aria-label": `${title} as ${kind}`, "data-file": kind, click: () => this.save(kind) }, kind);
    this.section = h("section", { id, class: "card" },
      h("header", {}, h("h2", {}, title), this.tools, h("span", { class: "files" }, file("SVG"), file("PNG"), file("CSV"))),
      this.hint, this.body);
    this.body.append(this.canvas);
  }

  /** How high the drawing is in so much width. */
  abstract height(width: number): number;
  abstract draw(pen: Pen, width: number): void;
  abstract rows(): Cell[][];

  show(shown: Shown): void {
    this.shown = shown;
    this.paint();
  }

  protected get at(): Shown {
    if (!this.shown) throw new Error("nothing to show yet");
    return this.shown;
  }

  protected get width(): number {
    return Math.max(this.body.clientWidth, 280);
  }

  protected paint(): void {
    this.paintOn(this.canvas, this.width, devicePixelRatio);
  }

  private paintOn(canvas: HTMLCanvasElement, width: number, scale: number): void {
    const height = this.height(width);
    const [wide, high] = [Math.round(width * scale), Math.round(height * scale)];
    if (canvas.width !== wide || canvas.height !== high) {
      canvas.width = wide;
      canvas.height = high;
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    const context = canvas.getContext("2d");
    if (!context) return;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    const pen = new CanvasPen(context);
    pen.rect(0, 0, width, height, this.at.colours.ground);
    this.draw(pen, width);
  }

  private save(kind: string): void {
    if (!this.shown) return;
    const name = `${this.at.about.run}-${this.id}`;
    const width = Math.max(this.width, 640);
    if (kind === "CSV") save(`${name}.csv`, csv(this.rows()));
    else if (kind === "SVG") {
      const pen = new SvgPen();
      this.draw(pen, width);
      save(`${name}.svg`, new Blob([pen.file(width, this.height(width), this.at.colours.ground)], { type: "image/svg+xml" }));
    } else {
      const canvas = h("canvas");
      this.paintOn(canvas, width, 2);
      canvas.toBlob((blob) => blob && save(`${name}.png`, blob));
    }
  }

  /** Where on the drawing a pointer is. */
  protected point(event: MouseEvent): [number, number] {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }
}

/** A view whose drawing is a list of rows, of which each can be chosen by pointer and keyboard. */
export abstract class ListView extends View {
  protected static readonly ROW = 24;
  private cursor = -1;

  constructor(id: string, title: string, hint: string) {
    super(id, title, hint);
    this.canvas.setAttribute("role", "listbox");
    this.canvas.classList.add("choosable");
    this.canvas.addEventListener("click", (event) => this.choose(this.rowAt(event)));
    this.canvas.addEventListener("mousemove", (event) => this.move(this.rowAt(event)));
    this.canvas.addEventListener("mouseleave", () => this.move(-1));
    this.canvas.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) this.move(Math.min(Math.max(this.cursor + step, 0), this.length - 1));
      else if (event.key === "Enter" || event.key === " ") this.choose(this.cursor);
      else return;
      event.preventDefault();
    });
  }

  abstract get length(): number;
  protected abstract head(pen: Pen, width: number): void;
  protected abstract row(pen: Pen, place: number, y: number, width: number): void;
  protected abstract chosen(place: number): boolean;
  protected abstract choose(place: number): void;

  height(): number {
    return ListView.ROW * (Math.max(this.length, 1) + 1) + 4;
  }

  draw(pen: Pen, width: number): void {
    const { colours } = this.at;
    this.head(pen, width);
    if (this.length === 0) pen.text(this.at.picture.packets === 0 ? "No packets." : "Packets are being read …", 6, ListView.ROW * 1.5, colours.soft);
    for (let place = 0; place < this.length; place++) {
      const top = ListView.ROW * (place + 1);
      if (this.chosen(place)) pen.rect(0, top, width, ListView.ROW, colours.accent, 0.22);
      else if (place === this.cursor) pen.rect(0, top, width, ListView.ROW, colours.soft, 0.16);
      this.row(pen, place, top + ListView.ROW / 2, width);
    }
  }

  private rowAt(event: MouseEvent): number {
    const place = Math.floor(this.point(event)[1] / ListView.ROW) - 1;
    return place < this.length ? place : -1;
  }

  private move(place: number): void {
    if (place === this.cursor) return;
    this.cursor = place;
    this.paint();
  }

  /** The time in each layer as one bar. */
  protected bar(pen: Pen, ns: number[], x: number, y: number, width: number, most: number): void {
    let left = x;
    for (const [layer, time] of ns.entries()) {
      const part = (width * time) / Math.max(most, 1);
      if (part > 0.3) pen.rect(left, y - 6, part, 12, this.at.colours.layers[layer] ?? "");
      left += part;
    }
  }
}
