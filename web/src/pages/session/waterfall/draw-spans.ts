/** All spans of a session on a small canvas: time from left to right, reading order from top to bottom. */
import type { SpanTable } from "../model/span-table";
import type { TimeScale } from "../model/time-scale";

const COLOURS = ["--turn", "--step", "--tool"];
const FEW = 500;
/** A turn, its model calls, their tools, and the same of a subagent. */
const LANES = 6;

export function drawSpans(
  canvas: HTMLCanvasElement,
  table: SpanTable,
  scale: TimeScale,
  width: number,
  height: number,
  now: number,
  // Few spans are drawn as the rows below are; many would be one thin line, and are drawn by their depth.
  deep = table.length > FEW,
): void {
  const sharp = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * sharp);
  canvas.height = Math.round(height * sharp);
  const pen = canvas.getContext("2d");
  if (!pen) return;
  pen.scale(sharp, sharp);
  drawPauses(pen, scale, width, height, resolved(canvas, "--line"));
  const perLength = width / (scale.length || 1);
  const lanes = deep ? LANES : Math.max(table.length, 1);
  const perLane = (height - 4) / lanes;
  const thick = Math.max(Math.min(perLane * 0.8, deep ? 8 : 4), 1);
  const bar = (row: number) => {
    const left = scale.lengthAt(table.start[row] ?? 0) * perLength;
    const right = scale.lengthAt(table.endOf(row, now)) * perLength;
    const lane = deep ? Math.min(table.order.depth[row] ?? 0, LANES - 1) : (table.order.position[row] ?? 0);
    pen.fillRect(left, 2 + lane * perLane, Math.max(right - left, 1), thick);
  };
  // One colour after the other: changing the pen for each of thirty thousand bars is what would take long.
  COLOURS.forEach((name, kind) => {
    pen.fillStyle = resolved(canvas, name);
    pen.globalAlpha = kind === 0 ? 0.45 : 0.9;
    for (let row = 0; row < table.length; row += 1) if (table.kind[row] === kind) bar(row);
  });
  pen.globalAlpha = 1;
  pen.fillStyle = resolved(canvas, "--failed");
  for (let row = 0; row < table.length; row += 1) if (table.statusOf(row) === "error") bar(row);
}

function drawPauses(pen: CanvasRenderingContext2D, scale: TimeScale, width: number, height: number, colour: string): void {
  const perLength = width / (scale.length || 1);
  pen.fillStyle = colour;
  pen.globalAlpha = 0.6;
  for (const pause of scale.pauses) {
    const left = scale.lengthAt(pause.from) * perLength;
    pen.fillRect(left, 0, Math.max(scale.lengthAt(pause.to) * perLength - left, 1), height);
  }
  pen.globalAlpha = 1;
}

/** A canvas does not know `light-dark()`: the colour as the browser has worked it out. */
function resolved(canvas: HTMLCanvasElement, name: string): string {
  canvas.style.color = `var(${name})`;
  const colour = getComputedStyle(canvas).color;
  canvas.style.color = "";
  return colour;
}
