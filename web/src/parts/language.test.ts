/** Languages by name and by content. */
import { describe, expect, test } from "vitest";

import { fenceLanguage, guessed, isTraceback, languageOf } from "./language";

describe("languages", () => {
  test.each([
    ["/a/b.py", "python"],
    ["C:\\x\\Main.TSX", "typescript"],
    ["Dockerfile", "dockerfile"],
    ["Makefile", "makefile"],
    ["notes.txt", null],
    ["constructor", null],
    ["", null],
  ])("%s", (path, language) => expect(languageOf(path)).toBe(language));

  test("Fences have names and endings.", () => {
    expect([fenceLanguage("Python"), fenceLanguage("ts"), fenceLanguage("c++"), fenceLanguage("__proto__")]).toEqual(["python", "typescript", "cpp", null]);
  });

  test("Outputs are told by how they begin.", () => {
    expect([guessed('{"a": 1}'), guessed("[]"), guessed("diff --git a/x b/x"), guessed("[info] text"), guessed("hello")]).toEqual(["json", "json", "diff", null, null]);
  });

  test("Tracebacks need their columns.", () => {
    expect(isTraceback('Traceback (most recent call last):\n  File "a.py", line 1')).toBe(true);
    expect(isTraceback("Error: x\n    at f (/a.js:1:2)")).toBe(true);
    expect(isTraceback("Exit code 1\n...F..\nE   TimeoutError: too slow\n1 failed")).toBe(true);
    expect(isTraceback("File does not exist.")).toBe(false);
  });
});
