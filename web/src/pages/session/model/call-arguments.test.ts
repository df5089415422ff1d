/** Arguments of calls as people read them. */
import { describe, expect, test } from "vitest";

import { besideCommand, commandOf, fieldsOf, summaryOf } from "./call-arguments";

describe("commands", () => {
  test.each([
    ['{"command":"npm test","description":"Run tests"}', "npm test"],
    ['{"command":["bash","-lc","ls -l"]}', "ls -l"],
    ['{"cmd":["git","status"]}', "git status"],
    ['{"commands":["cd a","make"]}', "cd a\nmake"],
    ['{"command":"make\\ncut off he', "make\ncut off he"],
  ])("%s", (json, command) => {
    expect(commandOf(fieldsOf(json))).toBe(command);
    expect(summaryOf(json)).toBe(`$ ${command.replace("\n", " ")}`);
  });

  test("Other calls are no commands.", () => {
    expect(commandOf(fieldsOf('{"file_path":"/a/b.py"}'))).toBeNull();
    expect(commandOf(fieldsOf('{"command":{"deep":1}}'))).toBeNull();
    expect(commandOf(fieldsOf("not JSON"))).toBeNull();
    expect(summaryOf('{"file_path":"/a/b.py"}')).toBe("/a/b.py");
  });

  test("What is beside a command is kept.", () => {
    expect(besideCommand({ command: "ls", timeout: 5 })).toEqual([["timeout", 5]]);
  });
});
