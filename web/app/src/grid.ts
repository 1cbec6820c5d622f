// Paints ranks as cells: one pixel each in an image that is scaled up, so that 10,240 cost a tenth of a millisecond.

// As server/edge/view_json.h writes them.
export const stateOf = (byte: number): number => byte >> 5;
export const STATE_NAMES = ["live", "draining", "left", "lost", "not in the epoch"] as const;
const LOST = 3;
const DRAINING = 1;
const NOT_MEASURED = 31;

// The program's own share of the time, 0 to 1; undefined where it was not measured.
export function ownOf(byte: number): number | undefined {
  const share = byte & 31;
  return share === NOT_MEASURED ? undefined : share / 30;
}

export interface Layout {
  readonly columns: number;
  readonly rows: number;
  // Edge of a cell in CSS pixels.
  readonly cell: number;
}

// Cells as large as fit into the width and some height, from 3 to 28 pixels.
export function layOut(ranks: number, width: number): Layout {
  const height = 420;
  const fitting = Math.floor(Math.sqrt((width * height) / Math.max(1, ranks)));
  const cell = Math.max(3, Math.min(28, fitting));
  const columns = Math.max(1, Math.min(ranks, Math.floor(width / cell)));
  return { columns, rows: Math.ceil(ranks / columns), cell };
}

type Rgb = readonly [number, number, number];

export interface Colours {
  readonly low: Rgb;
  readonly high: Rgb;
  readonly unknown: Rgb;
  readonly gone: Rgb;
  readonly lost: Rgb;
  readonly draining: Rgb;
  readonly mark: string;
  readonly paper: string;
}

// The range of own time that the colours span: from the least rank to the greatest, at least 20 points.
export function rangeOf(bytes: Uint8Array): { least: number; most: number } {
  let least = 1;
  let most = 0;
  for (const byte of bytes) {
    const own = stateOf(byte) <= DRAINING ? ownOf(byte) : undefined;
    if (own === undefined) continue;
    least = Math.min(least, own);
    most = Math.max(most, own);
  }
  if (most < least) return { least: 0, most: 1 };
  const middle = (least + most) / 2;
  return { least: Math.max(0, Math.min(least, middle - 0.1)), most: Math.min(1, Math.max(most, middle + 0.1)) };
}

function colourOf(byte: number, range: { least: number; most: number }, colours: Colours): Rgb {
  const state = stateOf(byte);
  if (state === LOST) return colours.lost;
  if (state === DRAINING) return colours.draining;
  const own = ownOf(byte);
  if (state > DRAINING) return colours.gone;
  if (own === undefined) return colours.unknown;
  // Squared: what is usual stays pale.
  const at = Math.max(0, Math.min(1, (own - range.least) / (range.most - range.least))) ** 2;
  const mix = (index: 0 | 1 | 2): number => Math.round(colours.low[index] + at * (colours.high[index] - colours.low[index]));
  return [mix(0), mix(1), mix(2)];
}

export interface Picture {
  readonly canvas: HTMLCanvasElement;
  readonly bytes: Uint8Array;
  readonly layout: Layout;
  readonly colours: Colours;
  // Ranks that are to blame: framed.
  readonly marked: ReadonlySet<number>;
  readonly focused: number | undefined;
}

export function paint({ canvas, bytes, layout, colours, marked, focused }: Picture): void {
  const scale = globalThis.devicePixelRatio || 1;
  const { columns, rows, cell } = layout;
  const width = Math.round(columns * cell * scale);
  const height = Math.round(rows * cell * scale);
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const context = canvas.getContext("2d");
  if (!context) return;
  const small = document.createElement("canvas");
  small.width = columns;
  small.height = rows;
  const pixels = new ImageData(columns, rows);
  const range = rangeOf(bytes);
  bytes.forEach((byte, rank) => pixels.data.set([...colourOf(byte, range, colours), 255], 4 * rank));
  small.getContext("2d")?.putImageData(pixels, 0, 0);
  context.imageSmoothingEnabled = false;
  context.clearRect(0, 0, width, height);
  context.drawImage(small, 0, 0, width, height);
  const edge = cell * scale;
  paintGaps(context, edge, width, height, cell, colours.paper);
  const frame = (rank: number, line: number): void =>
    context.strokeRect((rank % columns) * edge + line / 2, Math.floor(rank / columns) * edge + line / 2, edge - line, edge - line);
  context.strokeStyle = colours.mark;
  context.lineWidth = Math.max(scale, edge / 8);
  for (const rank of marked) frame(rank, context.lineWidth);
  // Lost ranks are crossed out: not by colour alone.
  context.strokeStyle = colours.paper;
  context.lineWidth = Math.max(scale / 2, edge / 10);
  context.beginPath();
  bytes.forEach((byte, rank) => {
    if (stateOf(byte) !== LOST) return;
    const left = (rank % columns) * edge;
    const top = Math.floor(rank / columns) * edge;
    context.moveTo(left + edge / 4, top + edge / 4);
    context.lineTo(left + (3 * edge) / 4, top + (3 * edge) / 4);
    context.moveTo(left + (3 * edge) / 4, top + edge / 4);
    context.lineTo(left + edge / 4, top + (3 * edge) / 4);
  });
  context.stroke();
  if (focused === undefined) return;
  context.strokeStyle = colours.mark;
  context.lineWidth = 2 * scale;
  frame(focused, -2 * scale);
}

function paintGaps(context: CanvasRenderingContext2D, edge: number, width: number, height: number, cell: number, paper: string): void {
  if (cell < 6) return;
  context.strokeStyle = paper;
  context.lineWidth = 1;
  context.beginPath();
  for (let x = edge; x < width; x += edge) {
    context.moveTo(x, 0);
    context.lineTo(x, height);
  }
  for (let y = edge; y < height; y += edge) {
    context.moveTo(0, y);
    context.lineTo(width, y);
  }
  context.stroke();
}
