/** One scale of type for all style sheets: sizes are tokens; the parts and the shell have weights of the scale, too. */
import { expect, test } from "vitest";

const SHEETS = import.meta.glob<string>("../**/*.css", { query: "?raw", import: "default", eager: true });

/** Declarations of a property that use no token, by file. */
function others(property: string, files: RegExp, allowed: RegExp): string[] {
  return Object.entries(SHEETS)
    .filter(([file]) => files.test(file) && !/(tokens|fonts)\.css$/.test(file))
    .flatMap(([file, css]) =>
      [...css.matchAll(new RegExp(`\\b${property}: ([^;]+);`, "g"))]
        .map(([, value = ""]) => value)
        .filter((value) => !allowed.test(value))
        .map((value) => `${file}: ${property}: ${value}`),
    );
}

test("Style sheets are read.", () => {
  expect(Object.keys(SHEETS).length).toBeGreaterThan(40);
});

test("Every size of text is one of the scale.", () => {
  // The root, which the scale is relative to.
  expect(others("font-size", /./, /^(var\(--(tiny|small|normal|big|title|huge|code)\)|inherit|16px)$/)).toEqual([]);
});

test("Every weight of the shared parts is one of the scale.", () => {
  const shared = /\.\.\/(parts|shell|saved-views)|^\.\//;
  expect(others("font-weight", shared, /^(var\(--(plain|medium|strong)\)|inherit)$/)).toEqual([]);
});
