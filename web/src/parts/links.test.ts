import { describe, expect, it } from "vitest";

import { safeAddress } from "./links";

describe("addresses in text of agents", () => {
  it("become links to the web and to mail", () => {
    expect(safeAddress("https://example.com/a?b#c")).toBe("https://example.com/a?b#c");
    expect(safeAddress("mailto:a@example.com")).toBe("mailto:a@example.com");
  });

  it("become no links where they could run, read or stay here", () => {
    const bad = ["javascript:alert(1)", " JaVaScRiPt:alert(1)", "java\nscript:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "blob:x", "/api/v1/logout", "//host/x", "x", ""];
    expect(bad.map(safeAddress).filter((address) => address !== null)).toEqual([]);
  });
});
