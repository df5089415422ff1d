import { describe, expect, it } from "vitest";

import css from "./tokens.css?raw";

/** Every colour of the style sheet as [light, dark]. */
const COLOURS = new Map(
  [...css.matchAll(/--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)/g)].map(
    ([, name = "", light = "", dark = ""]) => [name, [light, dark] as const],
  ),
);

function luminance(colour: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
    const part = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one: string, other: string): number {
  const [light = 0, dark = 0] = [luminance(one), luminance(other)].toSorted((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}

function colour(name: string, theme: number): string {
  const found = COLOURS.get(name)?.[theme];
  if (!found) throw new Error(`no colour ${name}`);
  return found;
}

const GROUNDS = ["ground", "surface", "raised", "sunken", "hover", "chosen"];
const INKS = ["ink", "ink-soft", "ink-faint", "accent", "working", "waiting", "failed", "money"];
const PAIRS: [string, string, number][] = [
  ...GROUNDS.flatMap((ground) => INKS.map((ink): [string, string, number] => [ink, ground, 4.5])),
  ...["working", "waiting", "failed"].map((tone): [string, string, number] => [tone, `${tone}-wash`, 4.5]),
  ["ink", "failed-wash", 4.5],
  ["ink", "working-wash", 4.5],
  ["ink", "hit", 4.5],
  ["accent-ink", "accent", 4.5],
  ...["ground", "surface", "raised"].map((ground): [string, string, number] => ["line-strong", ground, 3]),
  ...["turn", "step", "tool", "series-1", "series-2", "series-3", "series-4", "series-5", "series-6", "series-7", "series-8"].map(
    (part): [string, string, number] => [part, "surface", 3],
  ),
];

describe.each([
  ["light", 0],
  ["dark", 1],
])("the %s theme", (_, theme) => {
  it("has the contrast that WCAG AA asks for, in every pair that pages use", () => {
    const poor = PAIRS.map(([ink, ground, least]) => ({
      pair: `${ink} on ${ground}`,
      least,
      has: Number(contrast(colour(ink, theme), colour(ground, theme)).toFixed(2)),
    })).filter(({ least, has }) => has < least);
    expect(poor).toEqual([]);
  });
});
