// Times in layers: heat maps over time, and box plots.

import { type Cell, View } from "./card.ts";
import { PAIRS, type Picture } from "./data.ts";
import { count, h, seconds, span, words } from "./dom.ts";
import type { Pen } from "./pen.ts";
import type { Range } from "./state.ts";

const TICKS = 4096;
const FIRST_OCTAVE = 7;

/** The bin of a time, with its fraction. */
export function binOf(ns: number): number {
  if (ns < 2 ** FIRST_OCTAVE) return ns > 0 ? 1 : 0;
  const octave = Math.floor(Math.log2(ns));
  return 1 + (octave - FIRST_OCTAVE) * 8 + (ns / 2 ** octave - 1) * 8;
}

interface Panel { x: number; y: number; width: number; height: number }

/** Powers of ten between two bins. */
function decades(from: number, to: number): number[] {
  return [1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11].filter((ns) => binOf(ns) >= from && binOf(ns) <= to);
}

export class Heat extends View {
  private drag: { layer: number; from: Range; to: Range } | undefined;
  private low = 0;
  private high = PAIRS;

  constructor() {
    super("heat", "Time in each layer, over the run", "The stronger the colour, the more packets. Drag a rectangle to see only those packets everywhere; arrow keys move the chosen time, Escape clears.");
    this.canvas.addEventListener("pointerdown", (event) => this.down(event));
    this.canvas.addEventListener("pointermove", (event) => this.moved(event));
    this.canvas.addEventListener("pointerup", (event) => this.up(event));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.classList.add("brushable");
  }

  override show(shown: Parameters<View["show"]>[0]): void {
    this.shown = shown;
    const { heat } = shown.whole;
    this.low = PAIRS;
    this.high = 0;
    for (let place = 0; place < heat.length; place++) {
      const pair = place % PAIRS;
      if (heat[place] && pair > 0) {
        if (pair < this.low) this.low = pair;
        if (pair > this.high) this.high = pair;
      }
    }
    this.low = Math.max(0, Math.min(this.low, this.high) - 1);
    this.high = Math.min(PAIRS, this.high + 2);
    this.paint();
  }

  private across(width: number): number {
    return width > 620 ? 3 : width > 420 ? 2 : 1;
  }

  height(width: number): number {
    return Math.ceil(6 / this.across(width)) * 158 + 6;
  }

  private panel(layer: number, width: number): Panel {
    const across = this.across(width), wide = width / across;
    return { x: (layer % across) * wide + 48, y: Math.floor(layer / across) * 158 + 22, width: wide - 58, height: 112 };
  }

  draw(pen: Pen, width: number): void {
    const { about, colours, picture, whole } = this.at;
    const brushed = picture !== whole;
    for (const [layer, name] of about.layers.entries()) {
      const panel = this.panel(layer, width), { x, y, height } = panel;
      pen.rect(x - 44, y - 17, 9, 9, colours.layers[layer] ?? "");
      pen.text(words(name), x - 30, y - 12, colours.text, { bold: true });
      pen.image(this.image(layer, picture, brushed ? whole : undefined), x, y, panel.width, height);
      pen.frame(x, y, panel.width, height, colours.line);
      for (const ns of decades(this.low * 2, this.high * 2)) {
        const at = this.yOf(binOf(ns), panel);
        pen.line(x - 4, at, x, at, colours.soft);
        pen.text(span(ns), x - 6, at, colours.soft, { size: 10, align: "right" });
      }
      for (const share of [0, 0.5, 1]) {
        pen.text(seconds(about.last_ns * share), x + panel.width * share, y + height + 10, colours.soft,
          { size: 10, align: share === 0 ? "left" : share === 1 ? "right" : "center" });
      }
      this.selection(pen, layer, panel);
    }
  }

  private selection(pen: Pen, layer: number, panel: Panel): void {
    const { state, about, colours } = this.at, { x, y, width, height } = panel;
    const bins = state.layers[about.layers[layer] ?? ""];
    if (!state.time && !bins) return;
    const [from, to] = state.time ?? [0, TICKS - 1], [low, high] = bins ?? [this.low * 2, this.high * 2];
    const left = x + (from / TICKS) * width, right = x + ((to + 1) / TICKS) * width;
    const top = Math.max(this.yOf(high + 1, panel), y), bottom = Math.min(this.yOf(low, panel), y + height);
    pen.frame(left, top, Math.max(right - left, 2), Math.max(bottom - top, 2), colours.accent, bins ? 2.5 : 1.5);
  }

  private yOf(bin: number, panel: Panel): number {
    return panel.y + panel.height * (1 - (bin / 2 - this.low) / (this.high - this.low));
  }

  /** The cells of a layer; where only some packets are chosen, all others stay grey behind them. */
  private image(layer: number, picture: Picture, behind: Picture | undefined): HTMLCanvasElement {
    const { about, colours } = this.at, rows = this.high - this.low;
    const canvas = h("canvas", { width: about.columns, height: rows });
    const context = canvas.getContext("2d");
    if (!context) return canvas;
    const image = context.createImageData(about.columns, rows);
    const base = layer * about.columns * PAIRS;
    let most = 1;
    for (let place = base; place < base + about.columns * PAIRS; place++) most = Math.max(most, picture.heat[place] ?? 0);
    const scale = 1 / Math.log(most + 1);
    const table = Array.from({ length: 256 }, (_, share) => colours.heat(share / 255));
    for (let column = 0; column < about.columns; column++) {
      for (let pair = this.low; pair < this.high; pair++) {
        const place = base + column * PAIRS + pair, found = picture.heat[place] ?? 0;
        const at = ((rows - 1 - (pair - this.low)) * about.columns + column) * 4;
        const colour = found > 0 ? table[Math.round(Math.log(found + 1) * scale * 255)] : behind?.heat[place] ? colours.grey : undefined;
        if (!colour) continue;
        [image.data[at], image.data[at + 1], image.data[at + 2], image.data[at + 3]] = [colour[0], colour[1], colour[2], 255];
      }
    }
    context.putImageData(image, 0, 0);
    return canvas;
  }

  /** Tick and bin at a point of a layer's panel. */
  private place(point: Range, layer: number): Range {
    const panel = this.panel(layer, this.width);
    const share = Math.min(Math.max((point[0] - panel.x) / panel.width, 0), 1);
    const up = Math.min(Math.max(1 - (point[1] - panel.y) / panel.height, 0), 1);
    return [Math.min(Math.floor(share * TICKS), TICKS - 1), Math.min(Math.floor((this.low + up * (this.high - this.low)) * 2), 255)];
  }

  private down(event: PointerEvent): void {
    const point = this.point(event);
    const layer = this.at.about.layers.findIndex((_, layer) => {
      const panel = this.panel(layer, this.width);
      return point[0] >= panel.x - 4 && point[0] <= panel.x + panel.width + 4 && point[1] >= panel.y - 4 && point[1] <= panel.y + panel.height + 4;
    });
    if (layer < 0 || !this.at.source.live) return;
    this.canvas.setPointerCapture(event.pointerId);
    const at = this.place(point, layer);
    this.drag = { layer, from: at, to: at };
  }

  private moved(event: PointerEvent): void {
    if (!this.drag) return;
    this.drag.to = this.place(this.point(event), this.drag.layer);
    this.brush();
  }

  private up(event: PointerEvent): void {
    if (!this.drag) return;
    this.drag.to = this.place(this.point(event), this.drag.layer);
    const { from, to, layer } = this.drag;
    if (Math.abs(from[0] - to[0]) < TICKS / 200 && Math.abs(from[1] - to[1]) < 2) {
      this.at.change((state) => {
        state.time = undefined;
        delete state.layers[this.at.about.layers[layer] ?? ""];
      });
    } else this.brush();
    this.drag = undefined;
  }

  private brush(): void {
    const drag = this.drag;
    if (!drag) return;
    const ends = (place: 0 | 1): Range => [Math.min(drag.from[place], drag.to[place]), Math.max(drag.from[place], drag.to[place])];
    this.at.change((state) => {
      const [time, bins] = [ends(0), ends(1)];
      // Narrow in one direction means that only the other is meant.
      if (bins[1] - bins[0] >= 2) state.layers[this.at.about.layers[drag.layer] ?? ""] = bins;
      else delete state.layers[this.at.about.layers[drag.layer] ?? ""];
      state.time = time[1] - time[0] >= TICKS / 200 ? time : undefined;
    });
  }

  private key(event: KeyboardEvent): void {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    this.at.change((state) => {
      const [from, to] = state.time ?? [0, TICKS / 8 - 1];
      const by = state.time ? Math.max(Math.min((step * TICKS) / 32, TICKS - 1 - to), -from) : 0;
      state.time = [from + by, to + by];
    });
  }

  rows(): Cell[][] {
    const { about, picture } = this.at, rows: Cell[][] = [["layer", "from_ns", "from_latency_ns", "packets"]];
    for (let place = 0; place < picture.heat.length; place++) {
      const packets = picture.heat[place] ?? 0;
      if (packets === 0) continue;
      const pair = place % PAIRS, column = Math.floor(place / PAIRS) % about.columns, layer = Math.floor(place / PAIRS / about.columns);
      rows.push([about.layers[layer] ?? "", column * about.tick_ns * (TICKS / about.columns), about.bins_ns[pair * 2] ?? 0, packets]);
    }
    return rows;
  }
}

const SHARES = [0.05, 0.25, 0.5, 0.75, 0.95, 1];

export class Boxes extends View {
  constructor() {
    super("boxes", "Time in each layer", "Boxes hold the middle half of packets that spent time there, whiskers nine tenths, the dot is the longest. Packets that passed it in no time are counted at the right.");
  }

  height(): number {
    return 6 * 30 + 34;
  }

  /** The bins at the shares, of packets that spent time. */
  private quantiles(layer: number): number[] | undefined {
    const bins = this.at.picture.histograms[layer] ?? [], all = bins.reduce((sum, found, bin) => (bin > 0 ? sum + found : sum), 0);
    if (all === 0) return undefined;
    let passed = 0, share = 0;
    const found: number[] = [];
    for (let bin = 1; bin < bins.length; bin++) {
      passed += bins[bin] ?? 0;
      while (share < SHARES.length && passed >= Math.max(1, all * (SHARES[share] ?? 1))) {
        found.push(bin);
        share++;
      }
    }
    return found;
  }

  draw(pen: Pen, width: number): void {
    const { about, colours, picture } = this.at, all = about.layers.map((_, layer) => this.quantiles(layer));
    const most = Math.max(...all.map((found) => found?.[5] ?? 0), binOf(1e6)), least = Math.min(...all.map((found) => found?.[0] ?? 255), binOf(1e5));
    const left = 104, right = width - 64, x = (bin: number) => left + ((bin - least) / Math.max(most - least, 1)) * (right - left);
    for (const ns of decades(least, most)) {
      pen.line(x(binOf(ns)), 4, x(binOf(ns)), 6 * 30 + 6, colours.line);
      pen.text(span(ns), x(binOf(ns)), 6 * 30 + 18, colours.soft, { size: 11, align: "center" });
    }
    pen.text("none", width - 6, 6 * 30 + 18, colours.soft, { size: 11, align: "right" });
    for (const [layer, name] of about.layers.entries()) {
      const y = layer * 30 + 19, found = all[layer], colour = colours.layers[layer] ?? "";
      pen.text(words(name), 6, y, colours.text);
      pen.text(count(picture.histograms[layer]?.[0] ?? 0), width - 6, y, colours.soft, { align: "right" });
      if (!found) continue;
      const [p5, p25, p50, p75, p95, top] = found.map(x) as [number, number, number, number, number, number];
      pen.line(p5, y, p95, y, colour, 2);
      pen.rect(p25, y - 9, Math.max(p75 - p25, 2), 18, colour);
      pen.line(p50, y - 9, p50, y + 9, colours.ground, 2.5);
      pen.disc(top, y, 3, colour);
    }
  }

  rows(): Cell[][] {
    const { about, picture } = this.at;
    return [["layer", "packets", "without_time", "p5_ns", "p25_ns", "p50_ns", "p75_ns", "p95_ns", "most_ns"],
      ...about.layers.map((name, layer): Cell[] => {
        const bins = picture.histograms[layer] ?? [], passed = bins.reduce((sum, found) => sum + found, 0);
        return [name, passed, bins[0] ?? 0, ...(this.quantiles(layer) ?? []).map((bin) => about.bins_ns[bin] ?? 0)];
      })];
  }
}
