import { describe, expect, it } from "vitest";

import { formText as ruleFormWords } from "./pages/rules/form-text";
import { text as ruleWords } from "./pages/rules/text";
import { text as partWords } from "./parts/words";
import { text as shellWords } from "./shell/text";
import type { Texts } from "./text";
import { preferred } from "./text";

describe("the language", () => {
  it("is the first of the browser's that we have", () => {
    expect(preferred(["fr-FR", "zh-Hans-CN", "en"])).toBe("zh");
    expect(preferred(["en-GB", "zh"])).toBe("en");
    expect(preferred(["ZH-TW"])).toBe("zh");
    expect(preferred(["fr", "zha"])).toBe("en");
    expect(preferred([])).toBe("en");
  });
});

function leaves(texts: Texts, path = ""): [string, Texts[string]][] {
  return Object.entries(texts).flatMap(([name, value]) =>
    typeof value === "object" ? leaves(value, `${path}${name}.`) : [[path + name, value] as [string, Texts[string]]],
  );
}

describe.each([
  ["shell", shellWords],
  ["parts", partWords],
  ["rules", ruleWords],
  ["form of rules", ruleFormWords],
])("the words of the %s", (_, words: { en: Texts; zh: Texts }) => {
  it("exist in both languages, with text in each", () => {
    const english = leaves(words.en);
    const chinese = leaves(words.zh);
    expect(chinese.map(([path]) => path)).toEqual(english.map(([path]) => path));
    expect([...english, ...chinese].filter(([, value]) => value === "")).toEqual([]);
  });

  it("are Chinese where they are said to be", () => {
    const spoken = leaves(words.zh).filter(([, value]) => typeof value === "string");
    expect(spoken.filter(([, value]) => !/\p{Script=Han}/u.test(String(value)))).toEqual([]);
  });
});
