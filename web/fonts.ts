/**
 * The fonts of the page, from their npm packages: cut down to the characters and features that the interface uses, which
 * is a third of their size, and preloaded. Chinese is shown in a font of the system, or else in one that comes in a hundred
 * files, of which a browser loads those with characters that it shows. Other characters are shown in fonts of the system.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";

import type { Plugin } from "vite";

const require = createRequire(import.meta.url);
const CACHE = join(import.meta.dirname, "node_modules", ".cache", "fonts");
const WEIGHTS = { min: 400, max: 700 };
/** Kerning and accents. */
const FEATURES = ["kern", "ccmp", "locl", "mark"];
/** Digits of one width. In a font of their own, because Inter has hyphens and spaces of that width as well. */
const DIGITS = ["tnum"];

interface Font {
  /** In style sheets: `@fonts/NAME.woff2`. */
  name: string;
  source: string;
  /** Needed for the first page. */
  preload: boolean;
  /** Its characters; `fonts.css` names the same ranges. */
  ranges: Range[];
  features: string[];
}

type Range = [first: number, last: number];

/** Dashes, quotes, bullets, arrows and the minus sign. */
const SIGNS: Range[] = [
  [0x2010, 0x2027],
  [0x2190, 0x2193],
  [0x2212, 0x2212],
];
const LATIN: Range[] = [
  [0x20, 0x2f],
  [0x3a, 0x7e],
  [0xa0, 0xff],
  [0x131, 0x131],
  [0x152, 0x153],
  [0x2030, 0x203a],
  [0x20ac, 0x20ac],
  [0x2122, 0x2122],
  ...SIGNS,
];
/** Code is mostly ASCII. */
const CODE: Range[] = [[0x20, 0x7e], [0xa0, 0xa0], [0xb7, 0xb7], [0xd7, 0xd7], ...SIGNS];

const INTER = "@fontsource-variable/inter/files/inter-latin-wght-normal.woff2";
const MONO = "@fontsource-variable/jetbrains-mono/files/jetbrains-mono-latin-wght-normal.woff2";

const CHINESE = "@fontsource-variable/noto-sans-sc/wght.css";
/** Characters of East Asia, without private use and presentation forms of other scripts; the system has signs and emoji. */
const EAST_ASIAN: Range[] = [
  [0x2e80, 0xa4cf],
  [0xf900, 0xfaff],
  [0xfe30, 0xfe4f],
  [0xff00, 0xffef],
  [0x20000, 0x3ffff],
];

const FONTS: Font[] = [
  { name: "inter", source: INTER, preload: true, ranges: LATIN, features: FEATURES },
  { name: "digits", source: INTER, preload: true, ranges: [[0x30, 0x39]], features: DIGITS },
  { name: "mono", source: MONO, preload: false, ranges: CODE, features: FEATURES },
];

interface Converter {
  convert: (font: Buffer, format: "truetype" | "woff2") => Promise<Buffer>;
}

/** What harfbuzzjs exports of HarfBuzz: all arguments and results are numbers. */
type HarfBuzz = Record<string, (...values: number[]) => number> & { memory: WebAssembly.Memory };

const MEMORY_WRITABLE = 2;
const FEATURE_TAGS = 6;
/** Without hints; with the box that stands for a character which no font has. */
const FLAGS = 0x1 | 0x40;

function tag(name: string): number {
  return [...name].reduce((sum, letter) => (sum << 8) + letter.charCodeAt(0), 0);
}

/** A TrueType font with these characters and features, and a part of its weights. */
async function subset(font: Buffer, { ranges, features }: Font): Promise<Buffer> {
  const { instance } = await WebAssembly.instantiate(readFileSync(require.resolve("harfbuzzjs/dist/harfbuzz-subset.wasm")));
  const hb = instance.exports as unknown as HarfBuzz;
  const call = (name: string, ...values: number[]): number => {
    const run = hb[name];
    if (!run) throw new Error(`HarfBuzz has no ${name}`);
    return run(...values);
  };
  call("_initialize");
  const place = call("malloc", font.byteLength);
  new Uint8Array(hb.memory.buffer).set(font, place);
  const face = call("hb_face_create", call("hb_blob_create", place, font.byteLength, MEMORY_WRITABLE, 0, 0), 0);
  const input = call("hb_subset_input_create_or_fail");
  call("hb_subset_input_set_flags", input, FLAGS);
  const kept = call("hb_subset_input_set", input, FEATURE_TAGS);
  call("hb_set_clear", kept);
  for (const feature of features) call("hb_set_add", kept, tag(feature));
  const unicodes = call("hb_subset_input_unicode_set", input);
  for (const [first, last] of ranges) for (let each = first; each <= last; each += 1) call("hb_set_add", unicodes, each);
  call("hb_subset_input_set_axis_range", input, face, tag("wght"), WEIGHTS.min, WEIGHTS.max, Number.NaN);
  const made = call("hb_face_reference_blob", call("hb_subset_or_fail", face, input));
  const [start, length] = [call("hb_blob_get_data", made, 0), call("hb_blob_get_length", made)];
  if (length === 0) throw new Error("the font cannot be cut down");
  // The memory is that of this call: nothing in it has to be freed.
  return Buffer.from(new Uint8Array(hb.memory.buffer).slice(start, start + length));
}

async function make(font: Font): Promise<void> {
  const { convert } = require("fontverter") as Converter;
  const source = readFileSync(require.resolve(font.source));
  const version = createHash("sha256").update(source).update(JSON.stringify([font, WEIGHTS, FLAGS])).digest("hex");
  const [file, mark] = [join(CACHE, `${font.name}.woff2`), join(CACHE, `${font.name}.version`)];
  if (existsSync(file) && existsSync(mark) && readFileSync(mark, "utf8") === version) return;
  mkdirSync(CACHE, { recursive: true });
  writeFileSync(file, await convert(await subset(await convert(source, "truetype"), font), "woff2"));
  writeFileSync(mark, version);
}

/** The ranges of a style sheet, such as `U+4e00,U+4e10-4e1f`, without those that are not East Asian. */
function eastAsian(ranges: string): string {
  return ranges
    .split(",")
    .filter((range) => {
      const [first = 0, last = first] = range.trim().replace("U+", "").split("-").map((digits) => Number.parseInt(digits, 16));
      return EAST_ASIAN.some(([from, to]) => first >= from && last <= to);
    })
    .join();
}

/** The style sheet of the Chinese font, without the files for other characters. */
function makeChinese(): void {
  const source = require.resolve(CHINESE);
  const files = join(relative(CACHE, dirname(source)), "files").replaceAll("\\", "/");
  const faces = readFileSync(source, "utf8").matchAll(/@font-face \{[^}]*url\(\.\/files\/([^)]+)\)[^}]*unicode-range: ([^;]+);\s*\}/g);
  const sheet = [...faces].flatMap(([, file = "", ranges = ""]) => {
    const kept = eastAsian(ranges);
    const from = `url("${files}/${file}") format("woff2")`;
    const weights = `${WEIGHTS.min} ${WEIGHTS.max}`;
    return kept
      ? [`@font-face { font-family: "Noto Sans SC Variable"; font-display: swap; font-weight: ${weights}; src: ${from}; unicode-range: ${kept}; }\n`]
      : [];
  });
  if (sheet.length === 0) throw new Error("the style sheet of the Chinese font is not as it was");
  mkdirSync(CACHE, { recursive: true });
  writeFileSync(join(CACHE, "chinese.css"), sheet.join(""));
}

/** Makes the subsets, preloads what the first page needs, and adds the licences of the fonts to the notices. */
export function fonts(notices: string): Plugin {
  return {
    name: "fonts",
    config: async () => {
      // One after the other: the converter is not made for several at once.
      if (!process.env["VITEST"]) for (const font of FONTS) await make(font);
      makeChinese();
      return { resolve: { alias: { "@fonts": CACHE } } };
    },
    transformIndexHtml: {
      order: "post",
      handler: (_html, { bundle }) =>
        FONTS.filter(({ preload }) => preload).flatMap(({ name }) => {
          const file = Object.keys(bundle ?? {}).find((each) => each.startsWith(`assets/${name}-`) && each.endsWith(".woff2"));
          const attrs = { rel: "preload", as: "font", type: "font/woff2", crossorigin: true, href: `/${file}` };
          return file ? [{ tag: "link", attrs, injectTo: "head" as const }] : [];
        }),
    },
    generateBundle: {
      order: "post",
      handler(_options, bundle) {
        const file = bundle[notices];
        if (file?.type === "asset") file.source = `${String(file.source)}\n${[INTER, MONO, CHINESE].map(licence).join("\n")}`;
      },
    },
  };
}

/** As the notices of the other packages are written. */
function licence(source: string): string {
  const name = source.split("/").slice(0, 2).join("/");
  const home = dirname(require.resolve(`${name}/package.json`));
  const { version, license } = JSON.parse(readFileSync(join(home, "package.json"), "utf8")) as Record<string, string>;
  return `## ${name} - ${version} (${license})\n\n${readFileSync(join(home, "LICENSE"), "utf8").trim()}\n`;
}
