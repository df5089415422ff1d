import { describe, expect, it } from "vitest";

import { wholeNumber } from "./whole-number";

describe("a whole number", () => {
  it("is written as the server reads it, whatever is around it", () => {
    for (const number of ["0", "7", "4711", "999999999999999999"]) {
      for (const said of [number, ` ${number} `, `00${number}`]) expect(wholeNumber(said)).toBe(number);
    }
  });

  it("is nothing else", () => {
    for (const other of ["", " ", "-1", "1.5", "1e3", "0x10", "１", "seven", "1 2", "1000000000000000000"]) {
      expect(wholeNumber(other)).toBeNull();
    }
  });
});
