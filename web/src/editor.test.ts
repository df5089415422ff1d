/** Links that open files in an editor. */
import { describe, expect, test } from "vitest";

import { editorLink, isThisMachine } from "./editor";

describe("editors", () => {
  test("A link has the whole path, and a line where one is known.", () => {
    expect(editorLink("vscode", "/w/a b.py", 7)).toBe("vscode://file/w/a%20b.py:7");
    expect(editorLink("cursor", "C:\\w\\a.py")).toBe("cursor://file/C%3A/w/a.py");
    expect(editorLink("idea", "/w/a.py", 2)).toBe("idea://open?file=/w/a.py&line=2");
  });

  test("Without an editor, or a whole path, there is no link.", () => {
    expect(editorLink(null, "/w/a.py")).toBeNull();
    expect(editorLink("none", "/w/a.py")).toBeNull();
    expect(editorLink("vscode", "a.py")).toBeNull();
    expect(editorLink("vscode", "//server/share")).toBeNull();
    expect(editorLink("vscode", "javascript:alert(1)")).toBeNull();
  });

  test("Only names of this machine are this machine.", () => {
    expect(["localhost", "127.0.0.1", "127.3.2.1", "[::1]"].every(isThisMachine)).toBe(true);
    expect(["example.org", "127.evil.org", "10.0.0.1", "localhost.evil.org"].some(isThisMachine)).toBe(false);
  });
});
