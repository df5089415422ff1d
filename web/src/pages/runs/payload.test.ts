import { expect, test } from "vitest";

import { idOf, payloadOf } from "./payload";

test("an object is taken, nothing is null, anything else is refused", () => {
  expect(payloadOf('{"coach_id": 8}')).toEqual({ coach_id: 8 });
  expect(payloadOf("  ")).toBeNull();
  for (const wrong of ["[1]", "3", "null", '"a"', "{", "{'a': 1}"]) expect(payloadOf(wrong)).toBeUndefined();
});

test("a number that would be rounded is refused", () => {
  expect(idOf("20317")).toBe(20317);
  expect(idOf("9007199254740993")).toBeUndefined();
  for (const wrong of ["", "x", "1.5", "-1"]) expect(idOf(wrong)).toBeUndefined();
});
