/** Models as people say them, and the colour that each of them has everywhere and for good. */

/** Where ids come from: `us.anthropic.`, `anthropic/`, `models/`, `openrouter/anthropic/`. */
const ORIGIN = /^(?:[a-z0-9_-]+\/)+|^(?:(?:us|eu|apac|global|jp|au)\.)?[a-z0-9]+\.(?=claude)/i;
/** What names a build of a model: a date, a version of Bedrock, `latest`, `preview`. */
const BUILD = /(?:[-@](?:20\d{6}|20\d\d-\d\d-\d\d|\d\d-20\d\d|latest|preview|exp)|-v\d+(?::\d+)?|:\d+|\*)$/i;
/** A long context, which Claude Code writes behind the id. */
const CONTEXT = /\[(\d+)(k|m)\]$/i;

/** Words that are not written with a capital letter first, or not only there. */
const WORDS: Record<string, string> = { mini: "mini", nano: "nano", flashx: "FlashX", vl: "VL", ai: "AI", oss: "OSS", for: "for" };

interface Parts {
  /** The name of the line of models, such as `claude-sonnet` or `gpt`. */
  line: string;
  version: string;
  /** What follows: `codex`, `mini`, `thinking`. */
  more: string[];
}

const VERSION = /^v?\d+(?:\.\d+)*[a-z]?$/i;

/** The id without its origin and build. */
function plain(id: string): string {
  let left = id.trim().replace(ORIGIN, "").replace(CONTEXT, "");
  for (let next = left.replace(BUILD, ""); next !== left; next = left.replace(BUILD, "")) left = next;
  return left.toLowerCase();
}

/** The parts of an id of a line that is known; null of all others. */
function partsOf(id: string): Parts | null {
  const words = plain(id).split("-").filter(Boolean);
  const [first = "", ...rest] = words;
  if (first === "claude") return claudeOf(rest);
  if (/^o\d$/.test(first)) return { line: "o", version: first.slice(1), more: rest };
  const fused = /^(qwen|gemini|gpt|glm|kimi|deepseek)(\d[\w.]*)$/.exec(first);
  if (fused) return { line: fused[1] ?? "", version: fused[2] ?? "", more: rest };
  if (!["gpt", "codex", "kimi", "qwen", "deepseek", "glm", "gemini"].includes(first)) return null;
  const isVersion = VERSION.test(rest[0] ?? "") || /^k\d/.test(rest[0] ?? "");
  return { line: first, version: isVersion ? (rest[0] ?? "") : "", more: isVersion ? rest.slice(1) : rest };
}

/** `sonnet-4-5`, `3-5-sonnet`, `sonnet-4.5`: the version stands before or after the name. */
function claudeOf(words: readonly string[]): Parts | null {
  const numbers = words.filter((word) => /^\d[\d.]*$/.test(word));
  const [name, ...more] = words.filter((word) => !numbers.includes(word));
  if (name === undefined) return null;
  const version = numbers.join(".").replace(/\.0$/, "");
  return { line: `claude-${name}`, version, more };
}

function capital(word: string): string {
  return WORDS[word] ?? word.charAt(0).toUpperCase() + word.slice(1);
}

/** `Sonnet 4.5`, `GPT-5.2 Codex`, `Qwen3 Max`; what is not known stays as it is. */
export function modelName(id: string): string {
  const parts = partsOf(id);
  if (!parts) return id;
  const { line, version, more } = parts;
  const context = CONTEXT.exec(id.trim());
  const rest = [...more.map(capital), ...(context ? [`${context[1]}${context[2]?.toUpperCase()}`] : [])];
  return [said(line, version), ...rest].join(" ");
}

function said(line: string, version: string): string {
  if (line.startsWith("claude-")) return [capital(line.slice(7)), version].filter(Boolean).join(" ");
  if (line === "o") return `o${version}`;
  if (line === "gpt" || line === "glm") return [line.toUpperCase(), version].filter(Boolean).join("-");
  if (line === "qwen") return `Qwen${version}`;
  const name = line === "deepseek" ? "DeepSeek" : capital(line);
  return [name, version.toUpperCase()].filter(Boolean).join(" ");
}

/** The names of several models that stand side by side: where two would be called the same, each has its id. */
export function modelNames(ids: readonly string[]): Map<string, string> {
  const names = new Map(ids.map((id) => [id, modelName(id)]));
  const counts = new Map<string, number>();
  for (const name of names.values()) counts.set(name, (counts.get(name) ?? 0) + 1);
  return new Map([...names].map(([id, name]) => [id, (counts.get(name) ?? 0) > 1 ? id : name]));
}

// -- colours ----------------------------------------------------------------------------------------------------------

/** A colour in the light and in the dark theme. */
export interface ModelColour {
  light: string;
  dark: string;
}

/** Each line of models has a hue, one thirteenth of the circle from the next. */
const HUES: Record<string, number> = {
  "claude-mythos": 15,
  "claude-sonnet": 43,
  glm: 70,
  o: 98,
  qwen: 126,
  gpt: 153,
  "claude-haiku": 181,
  deepseek: 209,
  kimi: 237,
  codex: 264,
  "claude-opus": 292,
  gemini: 320,
  "claude-fable": 347,
};
/** Versions of a line differ in lightness; every one of these has a contrast of 3:1 on a surface. */
const LIGHT = [0.52, 0.42, 0.61];
const DARK = [0.74, 0.84, 0.65];
const CHROMA = 0.125;
const SMALL = new Set(["mini", "nano", "flash", "flashx", "lite", "air", "turbo", "highspeed", "coder", "code", "luna", "terra"]);
const MADE = new Map<string, ModelColour>();

/** The colour of a model: a function of its id alone, so that it is the same in every chart and after every visit. */
export function modelColour(id: string): ModelColour {
  const key = plain(id);
  let found = MADE.get(key);
  if (!found) {
    found = colourOf(key);
    MADE.set(key, found);
  }
  return found;
}

/** The same for a style sheet. */
export function modelCss(id: string): string {
  const { light, dark } = modelColour(id);
  return `light-dark(${light}, ${dark})`;
}

function colourOf(key: string): ModelColour {
  const parts = partsOf(key);
  const line = parts && (parts.line === "gpt" && parts.more.includes("codex") ? "codex" : parts.line);
  const known = line === null ? undefined : HUES[line];
  // What is of no known line has a hue by chance, which is the same one each time.
  const hue = known ?? hash(line ?? key) % 360;
  const variants = parts ? parts.more.filter((word) => word !== "codex") : [];
  const step = parts ? versionStep(parts.version) + variantStep(variants) : hash(key);
  const turn = variants.length > 0 ? ((hash(variants.join("-")) % 3) - 1) * 8 : 0;
  const shade = step % LIGHT.length;
  return { light: hex(LIGHT[shade] ?? 0.5, hue + turn), dark: hex(DARK[shade] ?? 0.7, hue + turn) };
}

/** Versions that follow each other differ: 4.5 and 4.6, 4.6 and 5, 5.1 and 5.2. */
function versionStep(version: string): number {
  const number = Number.parseFloat(version.replace(/^[a-z]+/i, ""));
  return Number.isFinite(number) ? Math.round(number * 10) : 0;
}

/** The small and the special one of a version differ from the large one. */
function variantStep(variants: readonly string[]): number {
  if (variants.length === 0) return 0;
  return variants.some((word) => SMALL.has(word)) ? 2 : 1;
}

/** FNV-1a. */
function hash(text: string): number {
  let found = 0x811c9dc5;
  for (const character of text) found = Math.imul(found ^ (character.codePointAt(0) ?? 0), 0x01000193) >>> 0;
  return found;
}

/** OKLCH as `#rrggbb`; the chroma is the largest up to the usual one that a screen can show. */
function hex(lightness: number, hue: number): string {
  for (let chroma = CHROMA; ; chroma -= 0.005) {
    const channels = linear(lightness, chroma, (hue * Math.PI) / 180);
    if (chroma <= 0 || channels.every((channel) => channel >= -0.0005 && channel <= 1.0005)) {
      return `#${channels.map((channel) => byte(channel).toString(16).padStart(2, "0")).join("")}`;
    }
  }
}

/** See https://bottosson.github.io/posts/oklab/ */
function linear(lightness: number, chroma: number, angle: number): [number, number, number] {
  const [a, b] = [chroma * Math.cos(angle), chroma * Math.sin(angle)];
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
}

function byte(channel: number): number {
  const clipped = Math.min(Math.max(channel, 0), 1);
  return Math.round(255 * (clipped <= 0.0031308 ? 12.92 * clipped : 1.055 * clipped ** (1 / 2.4) - 0.055));
}
