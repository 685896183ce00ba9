// Elements, numbers as people read them, and colours.

type Child = Node | string | undefined | null | false;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Record<string, string | number | boolean | ((event: never) => void) | undefined> = {}, ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value as unknown as EventListener);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child): child is Node | string => Boolean(child)));
  return element;
}

/** A time of nanoseconds with its unit, three digits of it. */
export function span(ns: number): string {
  if (ns === 0) return "0";
  const units: [number, string][] = [[3.6e12, "h"], [1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  const [size, unit] = units.find(([size]) => ns >= size) ?? [1, "ns"];
  const value = ns / size;
  return `${value >= 100 ? Math.round(value) : Number(value.toPrecision(3))} ${unit}`;
}

export function count(value: number): string {
  if (value >= 1e9) return `${Number((value / 1e9).toPrecision(3))} G`;
  if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3))} M`;
  return value >= 1e4 ? `${Number((value / 1e3).toPrecision(3))} k` : String(value);
}

export function bytes(value: number): string {
  for (const [size, unit] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]] as const) {
    if (value >= size) return `${Number((value / size).toPrecision(3))} ${unit}`;
  }
  return `${value} B`;
}

export const seconds = (ns: number) => `${(ns / 1e9).toFixed(ns < 1e10 ? 3 : 2)} s`;

/** Layers' names as words. */
export const words = (name: string) => name.replaceAll("_", " ");

export interface Colours {
  dark: boolean; text: string; soft: string; line: string; ground: string; accent: string; grey: [number, number, number];
  layers: string[]; heat: (share: number) => [number, number, number];
}

const LIGHT_STOPS = [[150, 195, 228], [90, 158, 208], [40, 115, 180], [8, 75, 145], [5, 30, 70]] as const;
const DARK_STOPS = [[52, 92, 150], [48, 125, 178], [52, 165, 165], [140, 205, 115], [253, 231, 100]] as const;

function along(stops: readonly (readonly [number, number, number])[]) {
  return (share: number): [number, number, number] => {
    const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
    const left = stops[Math.floor(at)]!, right = stops[Math.min(Math.floor(at) + 1, stops.length - 1)]!;
    const mix = (place: 0 | 1 | 2) => left[place] + (right[place] - left[place]) * (at % 1);
    return [mix(0), mix(1), mix(2)];
  };
}

export function colours(dark: boolean): Colours {
  return dark
    ? { dark, text: "#e8eaed", soft: "#a3abb5", line: "#3a424c", ground: "#181c21", accent: "#ffb454", grey: [44, 49, 56],
        layers: ["#5aa9e6", "#f2b134", "#9aa3ad", "#ff7a4d", "#d68fc4", "#3cc49a"], heat: along(DARK_STOPS) }
    : { dark, text: "#1c2126", soft: "#5b6670", line: "#d5dae0", ground: "#ffffff", accent: "#b34700", grey: [228, 231, 235],
        layers: ["#0a6ebd", "#c98a00", "#7d8791", "#d1450c", "#b5549c", "#0a8f68"], heat: along(LIGHT_STOPS) };
}
