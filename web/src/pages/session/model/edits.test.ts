import { describe, expect, it } from "vitest";

import { fieldsOf, summaryOf } from "./call-arguments";
import { charactersOf } from "./characters";
import { editsOf } from "./edits";

describe("arguments", () => {
  it("are read from any beginning of their JSON: what is whole, and the text that is cut", () => {
    const fields = { command: 'echo "a\\b" \n\u00e9\u4e2d', list: [1, { a: "]" }], deep: { x: [true] }, n: -1.5e3, last: "tail" };
    const json = JSON.stringify(fields);
    for (let end = 1; end <= json.length; end += 1) {
      const found = fieldsOf(json.slice(0, end)) ?? {};
      // A text that is cut is a beginning; everything else is what it was.
      const whole = Object.entries(fields).flatMap(([name, value]) => {
        const here = found[name];
        return here === undefined ? [] : [[name, typeof value === "string" && value.startsWith(String(here)) ? here : value]];
      });
      expect(found).toEqual(Object.fromEntries(whole));
    }
    expect(fieldsOf(json)).toEqual(fields);
    expect(fieldsOf('{"command": "sleep 1", "content": "abc')).toEqual({ command: "sleep 1", content: "abc" });
  });

  it("are summed up in one line by what tells most, however a command is wrapped", () => {
    expect(summaryOf('{"description": "d", "command": "ls\\n  -l"}')).toBe("$ ls -l");
    expect(summaryOf('{"command": ["bash", "-lc", "make test"]}')).toBe("$ make test");
    expect(summaryOf('{"command": ["git", "status"]}')).toBe("$ git status");
    expect(summaryOf('{"content": "x", "file_path": "/a/b"}')).toBe("/a/b");
    expect(summaryOf("*** Begin Patch\n*** End Patch")).toBe("*** Begin Patch *** End Patch");
    expect(summaryOf("{}")).toBe("");
    expect(summaryOf("[1]")).toBe("[1]");
  });
});

describe("edits", () => {
  it("are found in the shapes that agents write", () => {
    const one = { path: "f", before: "a", after: "b", whole: false };
    const json = (value: unknown) => JSON.stringify(value);
    expect(editsOf("Edit", json({ file_path: "f", old_string: "a", new_string: "b" }))).toEqual([one]);
    expect(editsOf("StrReplaceFile", json({ path: "f", edit: { old: "a", new: "b" } }))).toEqual([one]);
    expect(editsOf("StrReplaceFile", json({ path: "f", edit: [{ old: "a", new: "b" }] }))).toEqual([one]);
    expect(editsOf("MultiEdit", json({ file_path: "f", edits: [{ old_string: "a", new_string: "b" }] }))).toEqual([one]);
    expect(editsOf("Write", json({ file_path: "f", content: "b" }))).toEqual([{ ...one, before: "", whole: true }]);
    expect(editsOf("Bash", json({ command: "ls", content: "x" }))).toEqual([]);
    expect(editsOf("Bash", "no json")).toEqual([]);
  });

  it("of a patch keep the lines around a change on both sides, wherever the patch stands", () => {
    const patch = "*** Begin Patch\n*** Update File: a.py\n@@ def f\n x\n-old\n+new\n@@\n-gone\n*** Add File: b.py\n+hi\n*** End Patch\n";
    const edits = [
      { path: "a.py", before: "x\nold\n", after: "x\nnew\n", whole: false },
      { path: "a.py", before: "gone\n", after: "", whole: false },
      { path: "b.py", before: "", after: "hi\n", whole: true },
    ];
    expect(editsOf("apply_patch", patch)).toEqual(edits);
    expect(editsOf("apply_patch", JSON.stringify({ input: patch }))).toEqual(edits);
    expect(editsOf("shell", JSON.stringify({ command: ["bash", "-lc", `apply_patch <<'E'\n${patch}E`] }))).toEqual(edits);
  });
});

describe("charactersOf", () => {
  it("counts as the server does: code points, halves of pairs alone too", () => {
    for (const text of ["", "abc", "a😀b", "😀😀", "\ud83d", "x\ud83d", "\ude00\ud83d"]) {
      expect(charactersOf(text)).toBe([...text].length);
    }
  });
});

describe("names of other agents", () => {
  it("are understood: Pi, OpenCode", () => {
    expect(editsOf("edit", '{"path": "/a", "edits": [{"oldText": "x", "newText": "y"}]}')).toEqual([{ path: "/a", before: "x", after: "y", whole: false }]);
    expect(editsOf("edit", '{"filePath": "/a", "oldString": "x", "newString": "y"}')).toEqual([{ path: "/a", before: "x", after: "y", whole: false }]);
  });
});
