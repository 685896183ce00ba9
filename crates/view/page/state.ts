// What is looked at. It lives in the address, so that a link shows the same.

export type Sort = "lines" | "mean" | "total";
export type Range = [number, number];

export interface State {
  time?: Range | undefined;
  layers: Record<string, Range>;
  host?: number | undefined;
  layer?: string | undefined;
  pair?: Range | undefined;
  flow?: number | undefined;
  fates?: number[] | undefined;
  packet?: string | undefined;
  /** Base in hexadecimal digits, and bits. */
  memory?: [string, number] | undefined;
  /** A range of addresses that is followed. */
  leak?: string | undefined;
  /** Which places are listed: lines with their queues, by time per packet; or all, by time per packet or in all. */
  sort: Sort;
  theme?: string | undefined;
  sql?: string | undefined;
}

function range(text: string | null): Range | undefined {
  const ends = text?.split("-").map(Number);
  return ends?.length === 2 && ends.every(Number.isFinite) ? [ends[0]!, ends[1]!] : undefined;
}

export function read(hash: string, layers: string[]): State {
  const words = new URLSearchParams(hash.replace(/^#/, ""));
  const number = (name: string) => (/^\d+$/.test(words.get(name) ?? "") ? Number(words.get(name)) : undefined);
  const brushed: Record<string, Range> = {};
  for (const layer of layers) {
    const found = range(words.get(`in-${layer}`));
    if (found) brushed[layer] = found;
  }
  const [base, bits] = words.get("memory")?.split(":") ?? [];
  return {
    time: range(words.get("time")),
    layers: brushed,
    host: number("host"),
    layer: layers.find((layer) => layer === words.get("layer")),
    pair: range(words.get("pair")),
    flow: number("flow"),
    fates: words.get("fate")?.split(",").map(Number).filter(Number.isFinite),
    packet: /^\d+$/.test(words.get("packet") ?? "") ? words.get("packet")! : undefined,
    memory: base && /^[0-9a-f]+$/.test(base) ? [base, Number(bits) || 0] : undefined,
    leak: /^[0-9a-fx+.]+$/.test(words.get("leak") ?? "") ? words.get("leak")! : undefined,
    sort: (["mean", "total"] as const).find((sort) => sort === words.get("sort")) ?? "lines",
    theme: words.get("theme") ?? undefined,
    sql: words.get("sql") ?? undefined,
  };
}

export function write(state: State): string {
  const words = new URLSearchParams();
  const set = (name: string, value: string | number | undefined) => {
    if (value !== undefined && value !== "") words.set(name, String(value));
  };
  set("time", state.time?.join("-"));
  for (const [layer, ends] of Object.entries(state.layers)) set(`in-${layer}`, ends.join("-"));
  set("host", state.host);
  set("layer", state.layer);
  set("pair", state.pair?.join("-"));
  set("flow", state.flow);
  set("fate", state.fates?.join(","));
  set("packet", state.packet);
  set("memory", state.memory?.join(":"));
  set("leak", state.leak);
  if (state.sort !== "lines") set("sort", state.sort);
  set("theme", state.theme);
  set("sql", state.sql);
  return words.toString();
}

/** The part of a state that chooses packets, as the server wants it. */
export function brush(state: State): object {
  const { time, layers, host, layer, pair, flow, fates } = state;
  return {
    ...(time && { time }), ...(Object.keys(layers).length > 0 && { layers }), ...(host !== undefined && { host }),
    ...(host !== undefined && layer && { layer }), ...(pair && { pair }), ...(flow !== undefined && { flow }), ...(fates && { fates }),
  };
}
