import { expect, test } from "vitest";

import { typeable } from "./program";

test("every command of an advice begins with what starts the program, and nothing else changes", () => {
  const program = "uvx --from '/a $& b' agenttrace";
  expect(typeable("agenttrace up", program)).toBe(`${program} up`);
  expect(typeable("Start it: agenttrace up, or for good: agenttrace service install", program)).toBe(
    `Start it: ${program} up, or for good: ${program} service install`,
  );
  for (const other of ["Set it in agenttrace.toml, where agenttrace is started.", "the processes of agenttrace", "myagenttrace up"]) {
    expect(typeable(other, program)).toBe(other);
  }
  expect(typeable("agenttrace up", "agenttrace")).toBe("agenttrace up");
});
