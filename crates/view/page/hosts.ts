// Hosts as a graph: who sends to whom, and where packets spend their time, at the moments that a slider chooses.

import { type Cell, View } from "./card.ts";
import type { LinkRow } from "./data.ts";
import { count, h, seconds, span, words } from "./dom.ts";
import type { Pen } from "./pen.ts";

const TICKS = 4096;
/** Hosts that are drawn. */
const MOST = 72;

interface Node { host: number; x: number; y: number; radius: number; layer: number; ns: number; packets: number }

export class Hosts extends View {
  private nodes: Node[] = [];
  private hover: Node | undefined;
  private readonly slider = h("input", { type: "range", min: 0, max: 15, step: 1, value: 0, "aria-label": "Which part of the run", input: () => this.slide() });
  private readonly label = h("output", {});
  private readonly whole = h("button", { click: () => this.at.change((state) => { state.time = undefined; }) }, "show the whole run");

  constructor() {
    super("hosts", "Hosts", "Discs grow with the time that packets spend at a host (not on the way between hosts), in the colour of the layer that has most of it. Click a host to see its packets; the slider takes a sixteenth of the run.");
    this.body.append(h("div", { class: "slider" }, this.slider,
      this.label, this.whole));
    this.canvas.classList.add("choosable");
    this.canvas.addEventListener("mousemove", (event) => this.over(this.find(event)));
    this.canvas.addEventListener("mouseleave", () => this.over(undefined));
    this.canvas.addEventListener("click", (event) => this.choose(this.find(event)));
    this.canvas.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key], { nodes } = this;
      if (step) this.over(nodes[(nodes.findIndex((node) => node.host === this.hover?.host) + step + nodes.length) % nodes.length]);
      else if (event.key === "Enter" || event.key === " ") this.choose(this.hover);
      else return;
      event.preventDefault();
    });
  }

  override show(shown: Parameters<View["show"]>[0]): void {
    const { time } = shown.state;
    this.whole.hidden = !time;
    this.slider.disabled = !shown.source.live;
    if (time) this.slider.value = String(Math.round((time[0] / TICKS) * 16));
    this.label.textContent = time ? `${seconds(time[0] * shown.about.tick_ns)} to ${seconds((time[1] + 1) * shown.about.tick_ns)}` : "whole run";
    super.show(shown);
  }

  height(width: number): number {
    return Math.min(width * 0.86, 470);
  }

  private slide(): void {
    const part = Number(this.slider.value) * (TICKS / 16);
    this.at.change((state) => { state.time = [part, part + TICKS / 16 - 1]; });
  }

  private place(width: number): void {
    const { about, whole, picture } = this.at, height = this.height(width);
    const busy = new Map<number, number>();
    for (const [host, , , packets] of whole.places) busy.set(host, (busy.get(host) ?? 0) + packets);
    const hosts = about.hosts.map(({ host }) => host);
    const drawn = hosts.length <= MOST ? hosts : hosts.sort((a, b) => (busy.get(b) ?? 0) - (busy.get(a) ?? 0)).slice(0, MOST).sort((a, b) => a - b);
    const times = new Map<number, number[]>(), packets = new Map<number, number>();
    for (const [host, layer, ns, found] of picture.places) {
      const all = times.get(host) ?? about.layers.map(() => 0);
      // The way between hosts is nobody's waiting.
      if (about.layers[layer] !== "route") all[layer] = ns;
      times.set(host, all);
      packets.set(host, Math.max(packets.get(host) ?? 0, found));
    }
    const sum = (host: number) => (times.get(host) ?? []).reduce((all, ns) => all + ns, 0);
    const most = Math.max(...drawn.map(sum), 1);
    this.nodes = drawn.map((host, place) => {
      const turn = (2 * Math.PI * place) / drawn.length - Math.PI / 2, ns = sum(host), all = times.get(host) ?? [0];
      return {
        host, ns, packets: packets.get(host) ?? 0, layer: all.indexOf(Math.max(...all)), radius: ns > 0 ? 4 + 12 * Math.sqrt(ns / most) : 3,
        x: width / 2 + Math.cos(turn) * (width / 2 - 78), y: height / 2 + Math.sin(turn) * (height / 2 - 30),
      };
    });
  }

  draw(pen: Pen, width: number): void {
    this.place(width);
    const { colours, picture, state, about } = this.at, at = new Map(this.nodes.map((node) => [node.host, node]));
    const most = Math.max(...picture.links.map(([, , packets]) => packets), 1), centre = state.host ?? this.hover?.host;
    for (const [src, dst, packets] of picture.links as LinkRow[]) {
      const [from, to] = [at.get(src), at.get(dst)];
      if (!from || !to || from === to) continue;
      const near = src === centre || dst === centre;
      pen.line(from.x, from.y, to.x, to.y, near ? colours.accent : colours.soft, 0.5 + 4 * (packets / most), near ? 0.8 : centre === undefined ? 0.3 : 0.1);
    }
    for (const node of this.nodes) {
      pen.disc(node.x, node.y, node.radius, node.ns > 0 ? (colours.layers[node.layer] ?? "") : colours.line, node.host === centre ? colours.text : undefined);
    }
    const taken: [number, number][] = [];
    const named = this.nodes.filter((node) => node.ns > 0 || this.nodes.length <= 40).sort((a, b) => b.ns - a.ns).concat(this.nodes.filter((node) => node.host === centre));
    for (const node of named) {
      const right = node.x >= width / 2;
      // Where names would lie on each other, the first stays: the one with more time.
      if (node.host !== centre && taken.some(([x, y]) => Math.abs(x - node.x) < 90 && Math.abs(y - node.y) < 13)) continue;
      taken.push([node.x, node.y]);
      pen.text(this.at.name(node.host), node.x + (right ? node.radius + 4 : -node.radius - 4), node.y, colours.text, { size: 11, align: right ? "left" : "right", bold: node.host === centre });
    }
    const told = this.hover && this.nodes.find((node) => node.host === this.hover?.host);
    if (told) {
      const text = `${this.at.name(told.host)}: ${span(told.ns)} for ${count(told.packets)} packets, most in ${words(about.layers[told.layer] ?? "")}`;
      pen.text(text, 6, this.height(width) - 10, colours.text, { bold: true });
    }
  }

  private find(event: MouseEvent): Node | undefined {
    const [x, y] = this.point(event);
    const far = (node: Node) => Math.hypot(node.x - x, node.y - y);
    const nearest = [...this.nodes].sort((a, b) => far(a) - far(b))[0];
    return nearest && far(nearest) < nearest.radius + 8 ? nearest : undefined;
  }

  private over(node: Node | undefined): void {
    if (node?.host === this.hover?.host) return;
    this.hover = node;
    this.paint();
  }

  private choose(node: Node | undefined): void {
    if (!node) return;
    this.at.change((state) => {
      state.host = state.host === node.host && !state.layer ? undefined : node.host;
      state.layer = undefined;
    });
  }

  rows(): Cell[][] {
    return [["from", "to", "packets", "lost"], ...this.at.picture.links.map(([src, dst, packets, lost]) => [this.at.name(src), this.at.name(dst), packets, lost])];
  }
}
