// From and to where in programs' memory bytes went: a square of 256 parts, of which each opens to 256 more.

import { type Cell, View } from "./card.ts";
import type { MemoryMap } from "./data.ts";
import { bytes, count, h } from "./dom.ts";
import type { Pen } from "./pen.ts";

const SIDE = 16;

export class Memory extends View {
  private map: MemoryMap | undefined;
  private asked = "";
  private trouble = "";
  private cursor = -1;
  private which: "both" | "written" | "read" = "both";
  private readonly path = h("p", { class: "path" });
  private readonly order = h("button", { class: "order", click: () => {
    this.which = this.which === "both" ? "written" : this.which === "written" ? "read" : "both";
    this.repaint();
  } });

  constructor() {
    super("memory", "Memory", "Bytes by the address that programs wrote them from and read them to. Rows are one hexadecimal digit, columns the next; click a part to open it.");
    this.tools.append(this.order);
    this.body.before(this.path);
    this.canvas.classList.add("choosable");
    this.canvas.addEventListener("click", (event) => this.open(this.part(event)));
    this.canvas.addEventListener("mousemove", (event) => this.move(this.part(event)));
    this.canvas.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: SIDE, ArrowUp: -SIDE }[event.key];
      if (step) this.move((Math.max(this.cursor, 0) + step + 256) % 256);
      else if (event.key === "Enter") this.open(this.cursor);
      else if (event.key === "Backspace") this.at.change((state) => { state.memory = undefined; });
      else return;
      event.preventDefault();
    });
  }

  override show(shown: Parameters<View["show"]>[0]): void {
    this.shown = shown;
    const { memory, time } = shown.state, tick = shown.about.tick_ns;
    const [base, bits] = memory ?? ["0", 0];
    const [from, to] = time ? [time[0] * tick, (time[1] + 1) * tick] : [0, shown.about.last_ns * 2 + 1e12];
    const asked = [base, bits, from, to].join();
    if (asked !== this.asked) {
      this.asked = asked;
      void shown.source.memory(base, bits, from, to).then((map) => {
        if (this.asked !== asked) return;
        this.map = map;
        this.trouble = "";
      }, (error: Error) => { this.trouble = error.message; }).finally(() => this.repaint());
    }
    this.repaint();
  }

  private repaint(): void {
    this.order.textContent = { both: "written and read", written: "written", read: "read" }[this.which];
    const { map } = this;
    const top = h("button", { click: () => this.at.change((state) => { state.memory = undefined; }) }, "all addresses");
    this.path.replaceChildren(...(map && this.at.state.memory ? [top, ` 0x${map.base} and ${bytes(2 ** map.bits)} from there`]
      : [map ? `0x${map.base} and ${bytes(2 ** map.bits)} from there${this.trouble ? `. ${this.trouble}` : ""}` : this.trouble]));
    this.paint();
  }

  height(width: number): number {
    return Math.min(width, 420) * 0.8 + 44;
  }

  private grid(width: number) {
    return { left: 30, top: 20, cell: (width - 36) / SIDE, high: (this.height(width) - 48) / SIDE };
  }

  private weight(part: [number, number, number, number]): number {
    return this.which === "both" ? part[1] + part[2] : this.which === "written" ? part[1] : part[2];
  }

  draw(pen: Pen, width: number): void {
    const { colours } = this.at, { left, top, cell, high } = this.grid(width);
    for (let digit = 0; digit < SIDE; digit++) {
      pen.text(digit.toString(16), left + (digit + 0.5) * cell, 10, colours.soft, { size: 11, align: "center" });
      pen.text(digit.toString(16), 16, top + (digit + 0.5) * high, colours.soft, { size: 11, align: "center" });
    }
    const parts = this.map?.parts ?? [], most = Math.max(...parts.map((part) => this.weight(part)), 1);
    for (let part = 0; part < 256; part++) {
      pen.rect(left + (part % SIDE) * cell, top + Math.floor(part / SIDE) * high, cell - 1, high - 1, colours.line, 0.35);
    }
    for (const part of parts) {
      const found = this.weight(part);
      if (found === 0) continue;
      const [red, green, blue] = colours.heat(Math.log(found + 1) / Math.log(most + 1));
      pen.rect(left + (part[0] % SIDE) * cell, top + Math.floor(part[0] / SIDE) * high, cell - 1, high - 1, `rgb(${red | 0},${green | 0},${blue | 0})`);
    }
    if (this.cursor >= 0) {
      pen.frame(left + (this.cursor % SIDE) * cell, top + Math.floor(this.cursor / SIDE) * high, cell - 1, high - 1, colours.accent, 2);
      const part = parts.find(([place]) => place === this.cursor);
      pen.text(`0x${this.base(this.cursor)}: ${part ? `${bytes(part[1])} written, ${bytes(part[2])} read, ${count(part[3])} calls` : "nothing"}`, left, this.height(width) - 12, colours.text);
    } else if (parts.length === 0) pen.text("Nothing was written or read here.", left, this.height(width) - 12, colours.soft);
  }

  private base(part: number): string {
    const { map } = this;
    return map ? (BigInt(`0x${map.base}`) + (BigInt(part) << BigInt(map.bits - 8))).toString(16) : "";
  }

  private part(event: MouseEvent): number {
    const [x, y] = this.point(event), { left, top, cell, high } = this.grid(this.width);
    const column = Math.floor((x - left) / cell), row = Math.floor((y - top) / high);
    return column >= 0 && column < SIDE && row >= 0 && row < SIDE ? row * SIDE + column : -1;
  }

  private move(part: number): void {
    if (part === this.cursor) return;
    this.cursor = part;
    this.paint();
  }

  private open(part: number): void {
    const { map } = this;
    if (part < 0 || !map || map.bits <= 12 || !this.at.source.live) return;
    this.at.change((state) => { state.memory = [this.base(part), map.bits - 8]; });
  }

  rows(): Cell[][] {
    return [["address", "written_bytes", "read_bytes", "calls"], ...(this.map?.parts ?? []).map(([part, written, read, times]) => [`0x${this.base(part)}`, written, read, times])];
  }
}
