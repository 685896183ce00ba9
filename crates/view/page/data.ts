// What the server tells, or the page brings along when it is one file.

export interface Host { host: number; name: string; address: string; up: number; down: number }

export interface About {
  run: string; id: string | null; level: string | null; packets: number;
  tick_ns: number; last_ns: number; hosts: Host[]; layers: string[];
  fates: Record<string, string>; bins_ns: number[]; columns: number;
}

export interface FlowRow { flow: number; stream: string; src: number; dst: number; packets: number; ns: number[] }
export interface SlowRow { packet: string; src: number; dst: number; at: number; ns: number[]; fate: number }

/** Host, layer, nanoseconds, packets. */
export type Place = [number, number, number, number];
/** From, to, packets, lost. */
export type LinkRow = [number, number, number, number];

export interface Picture {
  packets: number; places: Place[]; links: LinkRow[]; flows: FlowRow[]; slowest: SlowRow[];
  fates: number[]; histograms: number[][];
  /** For each layer, column of time and pair of bins: packets. */
  heat: Uint32Array;
}

export type PacketRow = Record<string, number | string | null>;
export interface Step { how: string; packet: PacketRow }
export interface Story { packet: PacketRow; before: Step[]; after: Step[]; relatives: PacketRow[] }
/** Part, bytes written, bytes read, times. */
export type MemoryPart = [number, number, number, number];
export interface MemoryMap { base: string; bits: number; parts: MemoryPart[] }
export interface Program { host: string; pid: number }
/** That bytes came to a program; hop 1 is from the one whose memory it was. */
export interface Arrival { from: Program; program: Program; hop: number; sure: boolean; reads: number; bytes: number; address: string; first_ns: number }
export interface Leak {
  addresses: string; from: { program: Program; writes: number; bytes: number; first_ns: number }[]; read_by: Arrival[];
  hosts: { host: string; packets: number; bytes: number; sure: boolean }[];
  packets: { packet: string; name: string; sure: boolean }[]; packet_count: number;
}
export interface Answer { columns: string[]; rows: string[][]; more: boolean }

interface Whole {
  about: About; picture: Omit<Picture, "heat">; heat: [number, number][];
  stories: Record<string, Story>; memory: MemoryMap;
}

export const PAIRS = 128;

/** Where data comes from. */
export interface Source {
  /** Whether it can be asked for more than it has shown. */
  live: boolean;
  about(): Promise<About>;
  first(): Promise<Picture>;
  /** Resolves when packets can be brushed; tells whether there are any. */
  ready(): Promise<boolean>;
  brush(brush: object): Promise<Picture>;
  story(packet: string): Promise<Story>;
  memory(base: string, bits: number, from: number, to: number): Promise<MemoryMap>;
  leak(range: string): Promise<Leak>;
  sql(question: string): Promise<Answer>;
  file(question: string, format: string): Promise<Blob>;
}

async function ask(path: string, body?: string): Promise<Response> {
  const response = await fetch(path, body === undefined ? {} : { method: "POST", body });
  if (!response.ok) throw new Error(await response.text());
  return response;
}

async function json<T>(path: string, body?: string): Promise<T> {
  return (await ask(path, body)).json() as Promise<T>;
}

async function picture(path: string, body?: string): Promise<Picture> {
  const bytes = await (await ask(path, body)).arrayBuffer();
  const length = new DataView(bytes).getUint32(0, true);
  const told = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length))) as Omit<Picture, "heat">;
  return { ...told, heat: new Uint32Array(bytes, 4 + length) };
}

const server: Source = {
  live: true,
  about: () => json("about"),
  first: () => picture("first"),
  async ready() {
    for (;;) {
      const told = await json<{ ready: boolean; packets?: number }>("ready");
      if (told.ready) return (told.packets ?? 0) > 0;
      await new Promise((done) => setTimeout(done, 150));
    }
  },
  brush: (brush) => picture("brush", JSON.stringify(brush)),
  story: (packet) => json(`packet?packet=${packet}`),
  memory: (base, bits, from, to) => json(`memory?base=${base}&bits=${bits}&from=${from}&to=${to}`),
  leak: (range) => json(`leak?range=${range}`),
  sql: (question) => json("sql", question),
  file: async (question, format) => (await ask(`sql?format=${format}`, question)).blob(),
};

function file(whole: Whole): Source {
  const heat = new Uint32Array(whole.about.layers.length * whole.about.columns * PAIRS);
  for (const [place, count] of whole.heat) heat[place] = count;
  const all: Picture = { ...whole.picture, heat };
  const alone = () => Promise.reject(new Error("This page stands alone: open the run with 'gnomon view' for this."));
  return {
    live: false,
    about: () => Promise.resolve(whole.about),
    first: () => Promise.resolve(all),
    ready: () => Promise.resolve(false),
    brush: () => Promise.resolve(all),
    story(packet) {
      const story = whole.stories[packet];
      return story ? Promise.resolve(story) : alone();
    },
    memory: (_base, bits) => (bits === 0 ? Promise.resolve(whole.memory) : alone()),
    leak: alone,
    sql: alone,
    file: alone,
  };
}

export function source(): Source {
  const own = document.getElementById("data");
  return own ? file(JSON.parse(own.textContent ?? "") as Whole) : server;
}
