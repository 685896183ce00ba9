// Drawing, once for the screen and PNG files (a canvas) and for SVG files.

export interface Pen {
  rect(x: number, y: number, width: number, height: number, fill: string, alpha?: number): void;
  frame(x: number, y: number, width: number, height: number, stroke: string, wide?: number): void;
  line(x1: number, y1: number, x2: number, y2: number, stroke: string, wide?: number, alpha?: number): void;
  disc(x: number, y: number, radius: number, fill: string, stroke?: string): void;
  text(text: string, x: number, y: number, fill: string, style?: TextStyle): void;
  image(image: HTMLCanvasElement, x: number, y: number, width: number, height: number): void;
}

export interface TextStyle { size?: number; align?: "left" | "center" | "right"; bold?: boolean; widest?: number }

const FONT = "system-ui, 'DejaVu Sans', sans-serif";

let measurer: CanvasRenderingContext2D | null = null;

function fit(text: string, style: TextStyle): string {
  if (!style.widest) return text;
  measurer ??= document.createElement("canvas").getContext("2d");
  if (!measurer) return text;
  measurer.font = font(style);
  if (measurer.measureText(text).width <= style.widest) return text;
  let short = text;
  while (short.length > 1 && measurer.measureText(`${short}…`).width > style.widest) short = short.slice(0, -1);
  return `${short}…`;
}

const font = (style: TextStyle) => `${style.bold ? "600 " : ""}${style.size ?? 12}px ${FONT}`;

export class CanvasPen implements Pen {
  constructor(private readonly context: CanvasRenderingContext2D) {}

  rect(x: number, y: number, width: number, height: number, fill: string, alpha = 1): void {
    this.context.globalAlpha = alpha;
    this.context.fillStyle = fill;
    this.context.fillRect(x, y, width, height);
    this.context.globalAlpha = 1;
  }

  frame(x: number, y: number, width: number, height: number, stroke: string, wide = 1): void {
    this.context.strokeStyle = stroke;
    this.context.lineWidth = wide;
    this.context.strokeRect(x, y, width, height);
  }

  line(x1: number, y1: number, x2: number, y2: number, stroke: string, wide = 1, alpha = 1): void {
    const { context } = this;
    context.globalAlpha = alpha;
    context.strokeStyle = stroke;
    context.lineWidth = wide;
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x2, y2);
    context.stroke();
    context.globalAlpha = 1;
  }

  disc(x: number, y: number, radius: number, fill: string, stroke?: string): void {
    const { context } = this;
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.fillStyle = fill;
    context.fill();
    if (stroke) {
      context.strokeStyle = stroke;
      context.lineWidth = 2;
      context.stroke();
    }
  }

  text(text: string, x: number, y: number, fill: string, style: TextStyle = {}): void {
    this.context.font = font(style);
    this.context.textAlign = style.align ?? "left";
    this.context.textBaseline = "middle";
    this.context.fillStyle = fill;
    this.context.fillText(fit(text, style), x, y);
  }

  image(image: HTMLCanvasElement, x: number, y: number, width: number, height: number): void {
    this.context.imageSmoothingEnabled = false;
    this.context.drawImage(image, x, y, width, height);
  }
}

const escape = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
const short = (value: number) => String(Math.round(value * 100) / 100);

export class SvgPen implements Pen {
  private readonly parts: string[] = [];

  rect(x: number, y: number, width: number, height: number, fill: string, alpha = 1): void {
    this.add("rect", { x, y, width, height, fill, ...(alpha < 1 && { "fill-opacity": alpha }) });
  }

  frame(x: number, y: number, width: number, height: number, stroke: string, wide = 1): void {
    this.add("rect", { x, y, width, height, fill: "none", stroke, "stroke-width": wide });
  }

  line(x1: number, y1: number, x2: number, y2: number, stroke: string, wide = 1, alpha = 1): void {
    this.add("line", { x1, y1, x2, y2, stroke, "stroke-width": wide, "stroke-opacity": alpha });
  }

  disc(x: number, y: number, radius: number, fill: string, stroke?: string): void {
    this.add("circle", { cx: x, cy: y, r: radius, fill, ...(stroke && { stroke, "stroke-width": 2 }) });
  }

  text(text: string, x: number, y: number, fill: string, style: TextStyle = {}): void {
    const anchor = { left: "start", center: "middle", right: "end" }[style.align ?? "left"];
    this.add("text", { x, y, fill, "font-size": style.size ?? 12, "text-anchor": anchor, "dominant-baseline": "central",
      "font-family": FONT, ...(style.bold && { "font-weight": 600 }) }, escape(fit(text, style)));
  }

  image(image: HTMLCanvasElement, x: number, y: number, width: number, height: number): void {
    this.add("image", { x, y, width, height, href: image.toDataURL(), preserveAspectRatio: "none", "image-rendering": "pixelated" });
  }

  file(width: number, height: number, ground: string): string {
    const size = `width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"`;
    return `<svg xmlns="http://www.w3.org/2000/svg" ${size}><rect width="100%" height="100%" fill="${ground}"/>${this.parts.join("")}</svg>\n`;
  }

  private add(name: string, attributes: Record<string, string | number>, inner = ""): void {
    const list = Object.entries(attributes).map(([key, value]) => ` ${key}="${typeof value === "number" ? short(value) : escape(value)}"`);
    this.parts.push(`<${name}${list.join("")}>${inner}</${name}>`);
  }
}
