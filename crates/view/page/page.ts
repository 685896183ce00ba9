// The page: reads what there is, keeps state and address alike, and has all views show what the brush leaves.

import type { Shown, View } from "./card.ts";
import { type About, type Picture, source } from "./data.ts";
import { colours, count, h, seconds, span, words } from "./dom.ts";
import { Hosts } from "./hosts.ts";
import { Boxes, Heat } from "./layers.ts";
import { Flows, Packets, Places } from "./lists.ts";
import { Leak } from "./leak.ts";
import { Memory } from "./memory.ts";
import { Sql } from "./sql.ts";
import { type State, brush, read, write } from "./state.ts";
import { Story } from "./story.ts";

const from = source();
const leak = new Leak();
const sql = new Sql();
const views: View[] = [new Places(), new Packets(), new Story(), new Heat(), new Boxes(), new Flows(), new Hosts(), new Memory()];
const chips = h("div", { class: "chips", role: "list", "aria-label": "What is looked at" });
const fates = h("div", { class: "chips", "aria-label": "What became of packets" });
const told = h("p", { class: "told", "aria-live": "polite" });
const title = h("h1", {}, "Gnomon");
const theme = h("button", { class: "theme", click: () => change((state) => { state.theme = isDark() ? "light" : "dark"; }) });
const root = document.documentElement;

let about: About;
let state: State;
let whole: Picture;
let picture: Picture;
/** Whether packets can be brushed. */
let ready = false;
let asking = false;
let shownBrush = "{}";

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (state.theme ? state.theme === "dark" : prefersDark.matches);
const names = new Map<number, string>();
const name = (host: number) => names.get(host) ?? `host ${host}`;

function change(how: (state: State) => void): void {
  const before = write(state);
  how(state);
  const after = write(state);
  if (after === before) return;
  history.replaceState(null, "", after ? `#${after}` : location.pathname);
  follow();
}

/** Shows the state, and asks for the packets that it chooses if others are shown. */
function follow(): void {
  root.dataset["theme"] = isDark() ? "dark" : "light";
  if (ready && JSON.stringify(brush(state)) !== shownBrush) void ask();
  else show();
}

/** One question at a time; whatever was brushed meanwhile is the next. */
async function ask(): Promise<void> {
  if (asking) return;
  asking = true;
  const start = performance.now();
  try {
    const chosen = JSON.stringify(brush(state));
    picture = chosen === "{}" ? whole : await from.brush(JSON.parse(chosen) as object);
    shownBrush = chosen;
    show();
  } catch (error) {
    complain(error);
    shownBrush = JSON.stringify(brush(state));
  } finally {
    asking = false;
  }
  // When the pixels are there.
  await new Promise((done) => requestAnimationFrame(done));
  root.dataset["redrawn"] = String(Number(root.dataset["redrawn"] ?? 0) + 1);
  root.dataset["redraw"] = String(performance.now() - start);
  if (JSON.stringify(brush(state)) !== shownBrush) void ask();
}

function complain(error: unknown): void {
  told.textContent = (error as Error).message;
  told.classList.add("trouble");
}

function show(): void {
  const shown: Shown = { about, source: from, state, colours: colours(isDark()), picture: from.live ? picture : alone(), whole, name, change };
  theme.textContent = isDark() ? "Light" : "Dark";
  told.classList.remove("trouble");
  const part = picture === whole ? `${count(whole.packets)} packets` : `${count(picture.packets)} of ${count(whole.packets)} packets`;
  const wait = !from.live ? "" : ready ? "" : about.packets > 0 ? ". Packets are being read; brushing begins in a moment" : ". The run recorded no single packets, so nothing can be brushed";
  told.textContent = `${part}, ${about.hosts.length} hosts, ${seconds(about.last_ns)} of simulated time${wait}.`;
  showChips();
  for (const view of views) view.show(shown);
  leak.show(shown);
  sql.show(shown);
}

/** What a page without a server can leave out by itself: rows of lists. */
function alone(): Picture {
  const { host, layer, flow } = state, place = about.layers.indexOf(layer ?? "");
  const at = (row: { src: number; dst: number }) =>
    host === undefined || (place < 0 ? row.src === host || row.dst === host : (place < 3 ? row.src : row.dst) === host);
  const rank = (row: { ns: number[] }) => (place < 0 ? 0 : -(row.ns[place] ?? 0));
  const keep = <T extends { src: number; dst: number; ns: number[] }>(rows: T[]) => rows.filter(at).sort((a, b) => rank(a) - rank(b));
  return { ...whole, flows: keep(whole.flows).filter((row) => flow === undefined || row.flow === flow), slowest: keep(whole.slowest) };
}

function chip(text: string, remove: (state: State) => void): HTMLElement {
  return h("button", { class: "chip", role: "listitem", title: "Take this away", click: () => change(remove) }, text, h("span", { "aria-hidden": "true" }, " ×"));
}

function showChips(): void {
  const { time, layers, host, layer, pair, flow } = state, ns = (bin: number) => span(about.bins_ns[bin] ?? 0);
  const found: HTMLElement[] = [];
  if (host !== undefined) found.push(chip(layer ? `${words(layer)} of ${name(host)}` : name(host), (state) => { state.host = state.layer = undefined; }));
  if (time) found.push(chip(`made ${seconds(time[0] * about.tick_ns)} to ${seconds((time[1] + 1) * about.tick_ns)}`, (state) => { state.time = undefined; }));
  for (const [layer, [low, high]] of Object.entries(layers)) found.push(chip(`${ns(low)} to ${ns(high)} in ${words(layer)}`, (state) => { delete state.layers[layer]; }));
  if (pair) found.push(chip(`${name(pair[0])} → ${name(pair[1])}`, (state) => { state.pair = undefined; }));
  if (flow !== undefined) found.push(chip(`one flow`, (state) => { state.flow = undefined; }));
  if (found.length > 0) found.push(h("button", { class: "clear", click: () => clear() }, "Clear (Esc)"));
  chips.replaceChildren(...found);
  const counted = Object.entries(about.fates).map(([code, word]) => ({ code: Number(code), word, packets: whole.fates[Number(code)] ?? 0, left: picture.fates[Number(code)] ?? 0 }));
  fates.replaceChildren(...counted.filter(({ packets }) => packets > 0).sort((a, b) => b.packets - a.packets).map(({ code, word, left }) => {
    const on = state.fates?.includes(code) ?? false;
    return h("button", { class: on ? "chip on" : "chip fate", "aria-pressed": String(on), title: "See only packets of which this became", disabled: !ready, click: () => change((state) => {
      const chosen = new Set(state.fates ?? []);
      if (!chosen.delete(code)) chosen.add(code);
      state.fates = chosen.size > 0 ? [...chosen] : undefined;
    }) }, `${words(word)} ${count(left)}`);
  }));
}

function clear(): void {
  change((state) => {
    state.time = state.host = state.layer = state.pair = state.flow = state.fates = undefined;
    state.layers = {};
  });
}

async function main(): Promise<void> {
  const app = document.getElementById("app");
  app?.append(h("header", { class: "top" }, title, chips, theme), told, fates, h("main", {}, ...views.map((view) => view.section), leak.section, sql.section));
  const [known, first] = await Promise.all([from.about(), from.first()]);
  about = known;
  for (const { host, name } of about.hosts) names.set(host, name);
  whole = picture = first;
  title.textContent = about.run;
  document.title = `${about.run}: where did these bytes wait?`;
  state = read(location.hash, about.layers);
  follow();
  root.dataset["first"] = String(performance.now());
  prefersDark.addEventListener("change", follow);
  addEventListener("hashchange", () => { state = read(location.hash, about.layers); follow(); });
  addEventListener("resize", follow);
  addEventListener("keydown", (event) => { if (event.key === "Escape") clear(); });
  if (!from.live || !(await from.ready())) return;
  whole = picture = await from.brush({});
  ready = true;
  follow();
  root.dataset["ready"] = String(performance.now());
}

main().catch(complain);
