// A packet's way over its hosts, with the packets that led to it and that follow from it: tree and waterfall.

import { type Cell, View } from "./card.ts";
import type { PacketRow, Story as Told } from "./data.ts";
import { bytes, h, seconds, span, words } from "./dom.ts";
import type { Pen } from "./pen.ts";

interface Stay { layer: number; host: number; from: number; ns: number }
interface Line { row: PacketRow; kind: string; deep: number; stays: Stay[]; asked: boolean }

const ROW = 30;

const number = (row: PacketRow, name: string) => Number(row[name] ?? 0);

/** Where a packet was, one after the other. */
function stays(row: PacketRow, layers: string[]): Stay[] {
  const from = number(row, "from_host"), to = row["host"] === null ? number(row, "to_host") : number(row, "host");
  let at = number(row, "made_ns") - number(row, "socket_ns");
  return layers.map((name, layer) => {
    if (name === "downlink" && row["arrived_ns"] !== null) at = number(row, "arrived_ns");
    const stay = { layer, host: layer < 3 ? from : to, from: at, ns: number(row, `${name}_ns`) };
    at += stay.ns;
    return stay;
  });
}

const HOW: Record<string, string> = {
  same_bytes: "same bytes", same_turn: "same turn of the program", wake: "through a thread that it woke", candidate: "may follow", mark: "same request",
};

export class Story extends View {
  private told: Told | undefined;
  private asked: string | undefined;
  private trouble = "";
  private lines: Line[] = [];
  private readonly summary = h("p", { class: "summary", "aria-live": "polite" });

  constructor() {
    super("story", "A packet's way", "Each row is a packet, each bar a layer of a host. Above the chosen packet stands what led to it, below what followed; copies and fragments are set in.");
    this.body.before(this.summary);
    this.canvas.classList.add("choosable");
    this.canvas.addEventListener("click", (event) => {
      const line = this.lines[Math.floor((this.point(event)[1] - 24) / ROW)];
      if (line) this.at.change((state) => { state.packet = String(line.row["packet"]); });
    });
  }

  override show(shown: Parameters<View["show"]>[0]): void {
    this.shown = shown;
    const packet = shown.state.packet;
    if (packet !== this.asked) {
      this.asked = packet;
      this.told = undefined;
      this.trouble = "";
      if (packet) {
        void shown.source.story(packet).then((told) => { if (this.asked === packet) this.told = told; },
          (error: Error) => { this.trouble = error.message; }).finally(() => { if (this.asked === packet) this.arrange(); });
      }
    }
    this.arrange();
  }

  private arrange(): void {
    const { told } = this, { layers } = this.at.about;
    const line = (row: PacketRow, kind: string, deep = 0, asked = false): Line => ({ row, kind, deep, asked, stays: stays(row, layers) });
    this.lines = told
      ? [...told.before.map(({ how, packet }) => line(packet, `before (${HOW[how] ?? how})`)), line(told.packet, "this packet", 0, true),
          ...told.relatives.slice(0, 12).map((row) => line(row, this.relation(row, told.packet), 1)),
          ...told.after.map(({ how, packet }) => line(packet, `after (${HOW[how] ?? how})`))]
      : [];
    this.summary.replaceChildren(...this.sentence());
    this.canvas.hidden = this.lines.length === 0;
    this.section.classList.toggle("empty", this.lines.length === 0);
    if (this.lines.length > 0) this.paint();
  }

  private relation(row: PacketRow, asked: PacketRow): string {
    if (row["parent"] === asked["packet"] || (row["parent"] === asked["parent"] && number(row, "parent") > 0)) return "fragment";
    if (row["packet"] === asked["parent"]) return "whole datagram";
    if (row["quotes"] === asked["packet"]) return "answers it";
    return number(row, "made_ns") > number(asked, "made_ns") ? "later copy" : "earlier copy";
  }

  private sentence(): (Node | string)[] {
    if (this.trouble) return [this.trouble];
    const asked = this.lines.find((line) => line.asked);
    if (!asked) return [this.asked ? "Its story is being read …" : "Choose a packet in the list of the slowest."];
    const { about } = this.at, all = asked.stays.reduce((sum, stay) => sum + stay.ns, 0);
    const longest = [...asked.stays].sort((a, b) => b.ns - a.ns)[0]!;
    const where = `${words(about.layers[longest.layer] ?? "")} of ${this.at.name(longest.host)}`;
    const { host, layer } = this.at.state, chosen = asked.stays.find((stay) => stay.host === host && about.layers[stay.layer] === layer);
    const there = chosen && chosen !== longest ? ` It spent ${span(chosen.ns)} in the ${words(layer ?? "")} of ${this.at.name(chosen.host)}.` : "";
    const fate = words(String(asked.row["received_fate"] ?? asked.row["fate"]));
    return [
      `Packet ${this.label(asked.row)}, ${bytes(number(asked.row, "bytes"))} from ${this.at.name(number(asked.row, "from_host"))} to ${this.at.name(asked.stays[5]!.host)}, waited longest in the `,
      h("strong", {}, where), `: ${span(longest.ns)} of ${span(all)}, ${Math.round((100 * longest.ns) / Math.max(all, 1))} %.${there} It was ${fate}.`,
    ];
  }

  private label(row: PacketRow): string {
    const packet = BigInt(String(row["packet"]));
    return `${this.at.name(Number(packet >> 40n))}:${packet & ((1n << 40n) - 1n)}`;
  }

  height(): number {
    return 24 + this.lines.length * ROW + 24;
  }

  draw(pen: Pen, width: number): void {
    const { colours, about } = this.at, left = Math.min(300, width * 0.36), right = width - 12;
    const starts = this.lines.map((line) => line.stays[0]!.from), ends = this.lines.map((line) => line.stays[5]!.from + line.stays[5]!.ns);
    const from = Math.min(...starts), to = Math.max(...ends, from + 1), x = (ns: number) => left + ((ns - from) / (to - from)) * (right - left);
    let at = left;
    for (const [layer, name] of about.layers.entries()) {
      pen.rect(at, 6, 10, 10, colours.layers[layer] ?? "");
      pen.text(words(name), at + 14, 11, colours.soft, { size: 11 });
      at += 26 + 6.4 * name.length;
    }
    for (const [place, line] of this.lines.entries()) {
      const y = 24 + place * ROW;
      if (line.asked) pen.rect(0, y, width, ROW, colours.accent, 0.16);
      const inset = 6 + line.deep * 16;
      pen.text(`${this.at.name(line.stays[0]!.host)} → ${this.at.name(line.stays[5]!.host)}`, inset, y + 10, colours.text, { bold: line.asked, widest: left - inset - 8 });
      pen.text(`${line.kind}, ${this.label(line.row)}`, inset, y + 22, colours.soft, { size: 10, widest: left - inset - 8 });
      for (const stay of line.stays) {
        if (stay.ns === 0) continue;
        const wide = Math.max(x(stay.from + stay.ns) - x(stay.from), 1);
        pen.rect(x(stay.from), y + 5, wide, 18, colours.layers[stay.layer] ?? "");
        const label = `${this.at.name(stay.host)} ${words(about.layers[stay.layer] ?? "")} ${span(stay.ns)}`;
        if (wide > 70) pen.text(label, x(stay.from) + 5, y + 14, colours.dark ? "#10141a" : "#ffffff", { size: 11, widest: wide - 10 });
      }
    }
    const foot = this.height() - 12;
    pen.text(seconds(from), left, foot, colours.soft, { size: 11 });
    pen.text(`${span(to - from)} in all`, (left + right) / 2, foot, colours.soft, { size: 11, align: "center" });
    pen.text(seconds(to), right, foot, colours.soft, { size: 11, align: "right" });
  }

  rows(): Cell[][] {
    return [["packet", "relation", "host", "layer", "from_ns", "ns"], ...this.lines.flatMap((line) =>
      line.stays.map((stay): Cell[] => [String(line.row["packet"]), line.kind, this.at.name(stay.host), this.at.about.layers[stay.layer] ?? "", stay.from, stay.ns]))];
  }
}
