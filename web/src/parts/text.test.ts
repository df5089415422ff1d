import { describe, expect, it } from "vitest";

import { pieces } from "./code";
import { beginning, visible } from "./text";

describe("visible text", () => {
  it("leaves ordinary text of every script as it is", () => {
    for (const text of ["plain\ttext\r\nlines", "中文，标点", "مرحبا שלום", "👩‍💻 👍🏽 नमस्ते", "a\u0301"]) {
      expect(visible(text)).toBe(text);
    }
  });

  it("shows every character that changes the direction of others", () => {
    for (const code of [0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069, 0x200e, 0x200f, 0x61c]) {
      const shown = visible(`a${String.fromCharCode(code)}b`);
      expect(shown).toBe(`a⟦U+${code.toString(16).toUpperCase().padStart(4, "0")}⟧b`);
    }
  });

  it("shows control characters as their pictures", () => {
    expect(visible("\u001b[31mred\u0000\u007f")).toBe("␛[31mred␀␡");
    expect(visible("\u009b")).toBe("⟦U+009B⟧");
  });

  it("spells out what is hidden in tags", () => {
    const hidden = [..."ignore"].map((letter) => String.fromCodePoint(0xe0000 + letter.charCodeAt(0))).join("");
    expect(visible(`hi${hidden}!`)).toBe("hi⟦U+E0000 ignore⟧!");
  });

  it("shows half a character as what it is, and whole ones whole", () => {
    expect(visible("a\ud83db")).toBe("a⟦U+D83D⟧b");
    expect(visible("\udc69")).toBe("⟦U+DC69⟧");
    expect(visible("👩")).toBe("👩");
  });
});

describe("pieces of a text", () => {
  it("are the text again, none too long, none ending in half a character", () => {
    const text = "ab👩‍💻cdé👍".repeat(50);
    for (const length of [2, 3, 7, 100, 10_000]) {
      const parts = pieces(text, length);
      expect(parts.join("")).toBe(text);
      expect(parts.every((part) => part.length <= length && part.isWellFormed())).toBe(true);
    }
  });

  it("have a beginning that is never cut inside a character", () => {
    expect(beginning("a👩b", 2)).toBe("a");
    expect(beginning("a👩b", 3)).toBe("a👩");
    expect(beginning("ab", 5)).toBe("ab");
  });
});
