// What leaked from here? The programs and hosts that bytes of a range of memory reached.

import { type Cell, type Shown, csv, save } from "./card.ts";
import type { Arrival, Leak as Told, Program } from "./data.ts";
import { bytes, count, h, seconds } from "./dom.ts";

const HINT = "Where the bytes of a buffer went: an address and how many bytes, as a program printed them, or the part of the memory that is open above. "
  + "Programs that wrote after they had read may have passed bytes on.";

export class Leak {
  private shown: Shown | undefined;
  private answer: Told | undefined;
  private asked: string | undefined;
  private readonly range = h("input", { type: "text", size: 34, spellcheck: "false", placeholder: "0x1000a3f00010+64", "aria-label": "A range of addresses",
    keydown: (event: KeyboardEvent) => { if (event.key === "Enter") this.ask(this.range.value.trim()); } });
  private readonly told = h("p", { class: "told", "aria-live": "polite" });
  private readonly table = h("div", { class: "answer", tabindex: 0 });
  private readonly packets = h("p", { class: "packets" });
  readonly section = h("section", { id: "leak", class: "card wide" },
    h("header", {}, h("h2", {}, "What leaked from here?"), h("span", { class: "tools" }),
      h("span", { class: "files" }, h("button", { class: "file", title: "Save the programs as CSV", click: () => save("leak.csv", csv(this.rows())) }, "CSV"))),
    h("p", { class: "hint" }, HINT),
    h("p", {}, this.range, " ", h("button", { class: "ask", click: () => this.ask(this.range.value.trim() || this.open()) }, "Follow")), this.told, this.table, this.packets);

  show(shown: Shown): void {
    this.shown = shown;
    const { leak } = shown.state;
    this.section.hidden = !shown.source.live;
    if (leak === this.asked) return;
    this.asked = leak;
    this.range.value = leak ?? "";
    if (leak) void this.follow(leak);
    else this.paint("");
  }

  /** The part of the memory that the view of it has opened. */
  private open(): string {
    const [base, bits] = this.shown?.state.memory ?? ["0", 0];
    return bits === 0 ? "" : `0x${base}+${2n ** BigInt(bits)}`;
  }

  private ask(range: string): void {
    if (range === "") this.paint("Write an address, or open a part of the memory above.");
    else this.shown?.change((state) => { state.leak = range; });
  }

  private async follow(range: string): Promise<void> {
    this.answer = undefined;
    this.paint("…");
    try {
      const answer = await this.shown?.source.leak(range);
      if (this.asked !== range) return;
      this.answer = answer;
      this.paint(this.summary());
    } catch (error) {
      if (this.asked === range) this.paint((error as Error).message);
    }
  }

  private summary(): string {
    const { answer } = this;
    if (!answer || answer.from.length === 0) return "No program gave bytes from there to a socket.";
    const given = answer.from.reduce((sum, from) => sum + from.bytes, 0);
    const readers = (arrivals: Arrival[]) => new Set(arrivals.map((arrival) => arrival.program.host));
    const sure = readers(answer.read_by.filter((arrival) => arrival.sure)), all = readers(answer.read_by);
    const perhaps = all.size > sure.size ? `, and perhaps on ${all.size - sure.size} more` : "";
    const whose = answer.from.map((from) => named(from.program)).join(", ");
    return `Programs on ${sure.size} ${sure.size === 1 ? "host" : "hosts"}${perhaps} read bytes from there. ${bytes(given)} were written by ${whose}; ${count(answer.packet_count)} packets have or may have them.`;
  }

  private paint(told: string): void {
    this.told.textContent = told;
    const { answer, shown } = this;
    this.table.replaceChildren();
    this.packets.replaceChildren();
    if (!answer || !shown || answer.from.length === 0) return;
    const host = (name: string) => shown.about.hosts.find((host) => host.name === name)?.host;
    const choose = (program: Program) => h("button", { class: "host", click: () => shown.change((state) => { state.host = host(program.host); state.layer = undefined; }) }, named(program));
    this.table.append(h("table", {}, h("thead", {}, h("tr", {}, ...["read by", "bytes", "first at", "to address", "from"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, ...answer.read_by.map((arrival) => h("tr", {}, h("td", {}, choose(arrival.program)), h("td", { class: "number" }, String(arrival.bytes)),
        h("td", { class: "number" }, seconds(arrival.first_ns)), h("td", {}, arrival.address), h("td", {}, way(arrival)))))));
    const rest = answer.packet_count - answer.packets.length;
    this.packets.append("Packets with them: ", ...answer.packets.flatMap(({ packet, name, sure }) => [
      h("button", { class: "packet", title: sure ? "It has them" : "Perhaps it has them", click: () => shown.change((state) => { state.packet = packet; }) }, name), " "]),
    rest > 0 ? `and ${count(rest)} more.` : "");
  }

  private rows(): Cell[][] {
    return [["host", "process", "hop", "sure", "bytes", "reads", "first_ns", "address", "from_host", "from_process"], ...(this.answer?.read_by ?? []).map((arrival) => [
      arrival.program.host, arrival.program.pid, arrival.hop, String(arrival.sure), arrival.bytes, arrival.reads, arrival.first_ns, arrival.address, arrival.from.host, arrival.from.pid])];
  }
}

const named = ({ host, pid }: Program) => `${host}, process ${pid}`;

function way({ hop, sure, from }: Arrival): string {
  if (hop === 1) return named(from);
  return sure ? `${named(from)}, which passed them on` : `perhaps ${named(from)}, which wrote after it had read them`;
}
