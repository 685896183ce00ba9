// Where time went, by host and layer; flows; the slowest packets.

import { type Cell, ListView } from "./card.ts";
import type { FlowRow, Place, SlowRow } from "./data.ts";
import { count, h, seconds, span, words } from "./dom.ts";
import type { Pen } from "./pen.ts";
import type { Sort } from "./state.ts";

const sum = (numbers: number[]) => numbers.reduce((all, number) => all + number, 0);

const NEXT: Record<Sort, Sort> = { lines: "mean", mean: "total", total: "lines" };
const ORDER: Record<Sort, string> = { lines: "lines, by time per packet", mean: "all layers, by time per packet", total: "all layers, by time of all packets" };
/** Lines with the queues before them: what fills sockets and receive queues elsewhere. */
const LINES = ["uplink", "downlink"];

/** Host and layer, by the time that packets spent there. */
export class Places extends ListView {
  private places: Place[] = [];
  private most = 1;
  private readonly order = h("button", { class: "order", click: () => this.at.change((state) => { state.sort = NEXT[state.sort]; }) });

  constructor() {
    super("places", "Where did time go?", "Hosts' lines with their queues; behind a slow one, sockets and receive queues fill on other hosts, which the button shows too. Click a row to see only what passed there, the slowest packets first.");
    this.tools.append(this.order);
  }

  override show(shown: Parameters<ListView["show"]>[0]): void {
    const { sort } = shown.state, mean = sort !== "total";
    const lines = LINES.map((name) => shown.about.layers.indexOf(name));
    // The mean of very few packets says little.
    const few = Math.max(1, shown.picture.packets / 20_000);
    const weight = ([, , ns, packets]: Place) => (mean ? (packets < few ? 0 : ns / packets) : ns);
    this.places = shown.picture.places.filter(([, layer, ns]) => ns > 0 && (sort !== "lines" || lines.includes(layer))).sort((a, b) => weight(b) - weight(a)).slice(0, 14);
    this.most = Math.max(...this.places.map(weight), 1);
    this.order.textContent = ORDER[sort];
    this.order.title = "Change the order";
    super.show(shown);
  }

  get length(): number {
    return this.places.length;
  }

  private columns(width: number) {
    return { name: 6, bar: Math.min(230, width * 0.36), mean: width - 150, total: width - 70, packets: width - 6 };
  }

  protected head(pen: Pen, width: number): void {
    const at = this.columns(width), soft = this.at.colours.soft;
    pen.text("host, layer", at.name, 12, soft, { size: 11 });
    pen.text("per packet", at.mean, 12, soft, { size: 11, align: "right" });
    pen.text("in all", at.total, 12, soft, { size: 11, align: "right" });
    pen.text("packets", at.packets, 12, soft, { size: 11, align: "right" });
  }

  protected row(pen: Pen, place: number, y: number, width: number): void {
    const [host, layer, ns, packets] = this.places[place]!;
    const { colours, about, state } = this.at, at = this.columns(width);
    pen.text(`${this.at.name(host)} · ${words(about.layers[layer] ?? "")}`, at.name, y, colours.text, { widest: at.bar - at.name - 8 });
    const mean = state.sort !== "total", weight = mean ? ns / packets : ns;
    pen.rect(at.bar, y - 7, Math.max(1, ((at.mean - 74 - at.bar) * weight) / this.most), 14, colours.layers[layer] ?? "");
    pen.text(span(ns / packets), at.mean, y, colours.text, { align: "right", bold: mean });
    pen.text(span(ns), at.total, y, colours.text, { align: "right", bold: !mean });
    pen.text(count(packets), at.packets, y, colours.soft, { align: "right" });
  }

  protected chosen(place: number): boolean {
    const [host, layer] = this.places[place]!;
    return this.at.state.host === host && this.at.state.layer === this.at.about.layers[layer];
  }

  protected choose(place: number): void {
    const found = this.places[place];
    if (!found) return;
    const off = this.chosen(place);
    this.at.change((state) => {
      state.host = off ? undefined : found[0];
      state.layer = off ? undefined : this.at.about.layers[found[1]];
    });
  }

  rows(): Cell[][] {
    const { about } = this.at;
    const rows = [...this.at.picture.places].sort((a, b) => b[2] - a[2]);
    return [["host", "layer", "ns", "packets"], ...rows.map(([host, layer, ns, packets]) => [this.at.name(host), about.layers[layer] ?? "", ns, packets])];
  }
}

export class Flows extends ListView {
  constructor() {
    super("flows", "Flows", "Streams with the longest time in all layers together. Click one to see it alone.");
  }

  private get list(): FlowRow[] {
    return this.at.picture.flows.slice(0, 16);
  }

  get length(): number {
    return this.list.length;
  }

  protected head(pen: Pen, width: number): void {
    const soft = this.at.colours.soft;
    pen.text("from, to", 6, 12, soft, { size: 11 });
    pen.text("time by layer", Math.min(190, width * 0.36), 12, soft, { size: 11 });
    pen.text("in all", width - 66, 12, soft, { size: 11, align: "right" });
    pen.text("packets", width - 6, 12, soft, { size: 11, align: "right" });
  }

  protected row(pen: Pen, place: number, y: number, width: number): void {
    const flow = this.list[place]!, { colours } = this.at, bar = Math.min(190, width * 0.36);
    pen.text(`${this.at.name(flow.src)} → ${this.at.name(flow.dst)}`, 6, y, colours.text, { widest: bar - 14 });
    this.bar(pen, flow.ns, bar, y, width - 130 - bar, sum(this.list[0]!.ns));
    pen.text(span(sum(flow.ns)), width - 66, y, colours.text, { align: "right" });
    pen.text(count(flow.packets), width - 6, y, colours.soft, { align: "right" });
  }

  protected chosen(place: number): boolean {
    return this.at.state.flow === this.list[place]!.flow;
  }

  protected choose(place: number): void {
    const flow = this.list[place];
    if (flow) this.at.change((state) => { state.flow = state.flow === flow.flow ? undefined : flow.flow; });
  }

  rows(): Cell[][] {
    const { about, picture } = this.at;
    return [["stream", "from", "to", "packets", ...about.layers.map((layer) => `${layer}_ns`)],
      ...picture.flows.map((flow) => [flow.stream, this.at.name(flow.src), this.at.name(flow.dst), flow.packets, ...flow.ns])];
  }
}

export class Packets extends ListView {
  constructor() {
    super("packets", "Slowest packets", "Click one for its way and what came before and after it. Times here are within six percent.");
  }

  private get list(): SlowRow[] {
    return this.at.picture.slowest.slice(0, 16);
  }

  get length(): number {
    return this.list.length;
  }

  protected head(pen: Pen, width: number): void {
    const soft = this.at.colours.soft, at = this.columns(width);
    pen.text("made at", at.at, 12, soft, { size: 11 });
    pen.text("from, to", at.name, 12, soft, { size: 11 });
    pen.text("time by layer", at.bar, 12, soft, { size: 11 });
    pen.text("in all", at.total, 12, soft, { size: 11, align: "right" });
    pen.text("became", at.fate, 12, soft, { size: 11 });
  }

  private columns(width: number) {
    return { at: 6, name: 70, bar: Math.min(240, width * 0.42), total: width - 84, fate: width - 74 };
  }

  protected row(pen: Pen, place: number, y: number, width: number): void {
    const row = this.list[place]!, { colours, about } = this.at, at = this.columns(width);
    pen.text(seconds(row.at), at.at, y, colours.soft);
    pen.text(`${this.at.name(row.src)} → ${this.at.name(row.dst)}`, at.name, y, colours.text, { widest: at.bar - at.name - 8 });
    this.bar(pen, row.ns, at.bar, y, at.total - 62 - at.bar, Math.max(...this.list.map((row) => sum(row.ns))));
    pen.text(span(sum(row.ns)), at.total, y, colours.text, { align: "right" });
    pen.text(words(about.fates[row.fate] ?? ""), at.fate, y, colours.soft, { widest: 70 });
  }

  protected chosen(place: number): boolean {
    return this.at.state.packet === this.list[place]!.packet;
  }

  protected choose(place: number): void {
    const row = this.list[place];
    if (row) this.at.change((state) => { state.packet = row.packet; });
  }

  rows(): Cell[][] {
    const { about, picture } = this.at;
    return [["packet", "made_ns", "from", "to", "fate", ...about.layers.map((layer) => `${layer}_ns`)],
      ...picture.slowest.map((row) => [row.packet, row.at, this.at.name(row.src), this.at.name(row.dst), about.fates[row.fate] ?? "", ...row.ns])];
  }
}
