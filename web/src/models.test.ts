/** Names and colours of models, of every model in the price table too. */
import { describe, expect, test } from "vitest";

import prices from "../../src/agenttrace/prices/prices.toml?raw";
import { modelColour, modelName, modelNames } from "./models";
import css from "./style/tokens.css?raw";

/** The ids of all models that have a price. */
const IDS = [...prices.matchAll(/^"([^"]+)" = [[{]/gm)].map(([, id = ""]) => id);

test.each([
  ["claude-sonnet-4-5", "Sonnet 4.5"],
  ["claude-sonnet-4-5-20250929", "Sonnet 4.5"],
  ["claude-sonnet-4.5", "Sonnet 4.5"],
  ["claude-3-5-sonnet-20241022", "Sonnet 3.5"],
  ["claude-3-7-sonnet-latest", "Sonnet 3.7"],
  ["claude-sonnet-4-20250514", "Sonnet 4"],
  ["claude-opus-4-0", "Opus 4"],
  ["claude-sonnet-4-5[1m]", "Sonnet 4.5 1M"],
  ["us.anthropic.claude-haiku-4-5-20251001-v1:0", "Haiku 4.5"],
  ["anthropic/claude-opus-5.5", "Opus 5.5"],
  ["claude-opus-4-5@20251101", "Opus 4.5"],
  ["gpt-5.2-codex", "GPT-5.2 Codex"],
  ["gpt-5.1-codex-max", "GPT-5.1 Codex Max"],
  ["gpt-4o-mini", "GPT-4o mini"],
  ["gpt-4o-2024-05-13", "GPT-4o"],
  ["o3-mini", "o3 mini"],
  ["codex-mini", "Codex mini"],
  ["qwen3-max", "Qwen3 Max"],
  ["qwen3-coder-plus", "Qwen3 Coder Plus"],
  ["qwen-max", "Qwen Max"],
  ["kimi-k2-thinking", "Kimi K2 Thinking"],
  ["kimi-k2.7-code-highspeed", "Kimi K2.7 Code Highspeed"],
  ["deepseek-v4-pro", "DeepSeek V4 Pro"],
  ["deepseek-chat", "DeepSeek Chat"],
  ["glm-4.5-air", "GLM-4.5 Air"],
  ["glm-4.7-flashx", "GLM-4.7 FlashX"],
  ["models/gemini-2.5-flash-lite", "Gemini 2.5 Flash Lite"],
  ["gemini-3-pro-preview", "Gemini 3 Pro"],
  ["mock-gpt", "mock-gpt"],
  ["<synthetic>", "<synthetic>"],
  ["", ""],
])("%s is called %s", (id, name) => {
  expect(modelName(id)).toBe(name);
});

test("Every model with a price is said without hyphens between words, and none is called nothing.", () => {
  expect(IDS.length).toBeGreaterThan(100);
  for (const id of IDS) expect(modelName(id)).toMatch(/^(?:(?:GPT|GLM)-[\d.]+o?|o\d|[A-Z][\w.]*)(?: [\w.]+)*$/);
});

test("Where two models would be called the same, each has its id.", () => {
  const names = modelNames(["claude-sonnet-4-5", "claude-sonnet-4-5-20250929", "qwen3-max"]);
  expect([...names.values()]).toEqual(["claude-sonnet-4-5", "claude-sonnet-4-5-20250929", "Qwen3 Max"]);
});

// -- colours ----------------------------------------------------------------------------------------------------------

const [, LIGHT = "", DARK = ""] = /--surface: light-dark\((#\w+), (#\w+)\)/.exec(css) ?? [];
const channels = (colour: string) => [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16) / 255);
const linear = (colour: string) => channels(colour).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));

function contrast(one: string, other: string): number {
  const [bright = 0, dark = 0] = [one, other]
    .map((colour) => linear(colour).reduce((sum, part, at) => sum + part * ([0.2126, 0.7152, 0.0722][at] ?? 0), 0))
    .toSorted((a, b) => b - a);
  return (bright + 0.05) / (dark + 0.05);
}

/** The distance in OKLab: 0.02 is just noticed. */
function distance(one: string, other: string): number {
  const [a, b] = [one, other].map((colour) => {
    const [red = 0, green = 0, blue = 0] = linear(colour);
    const l = Math.cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue);
    const m = Math.cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue);
    const s = Math.cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue);
    return [0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s, 1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s, 0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s];
  });
  return Math.hypot(...(a ?? []).map((part, at) => part - (b?.[at] ?? 0)));
}

describe.each(["light", "dark"] as const)("colours of the %s theme", (theme) => {
  test("Every model with a price, and any other, is seen on a surface.", () => {
    const ground = theme === "light" ? LIGHT : DARK;
    const ids = [...IDS, "mock-gpt", "<synthetic>", "", "llama-4", "mistral-large"];
    expect(ids.filter((id) => contrast(modelColour(id)[theme], ground) < 3)).toEqual([]);
  });

  test("Models that people use side by side are told apart.", () => {
    const used = [
      "claude-sonnet-4-5", "claude-sonnet-5", "claude-opus-4-5", "claude-opus-5", "claude-haiku-4-5", "gpt-5.2", "gpt-5.2-codex",
      "qwen3-max", "qwen3-coder-plus", "kimi-k2", "deepseek-v4-pro", "glm-4.6", "gemini-2.5-pro", "gemini-2.5-flash",
    ];
    const pairs = used.flatMap((one, at) => used.slice(at + 1).map((other) => [one, other] as const));
    const near = pairs.filter(([one, other]) => distance(modelColour(one)[theme], modelColour(other)[theme]) < 0.035);
    expect(near).toEqual([]);
  });
});

test("The colour of a model is its own for good, whatever build of it is used.", () => {
  expect(modelColour("claude-sonnet-4-5-20250929")).toEqual(modelColour("anthropic/claude-sonnet-4-5"));
  expect(Object.fromEntries(["claude-sonnet-4-5", "gpt-5.2-codex", "qwen3-max", "mock-gpt"].map((id) => [id, modelColour(id)]))).toMatchInlineSnapshot(`
    {
      "claude-sonnet-4-5": {
        "dark": "#ec8f69",
        "light": "#a24c26",
      },
      "gpt-5.2-codex": {
        "dark": "#b2cbfc",
        "light": "#294890",
      },
      "mock-gpt": {
        "dark": "#e9925e",
        "light": "#a05015",
      },
      "qwen3-max": {
        "dark": "#a9dd88",
        "light": "#2f5a01",
      },
    }
  `);
});
