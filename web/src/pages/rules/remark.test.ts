import { expect, it } from "vitest";

import { CHINESE, inChinese } from "./remark";

it("tells a remark with its facts, and one that is new in the words of the server", () => {
  expect(inChinese({ code: "latest_lines", facts: { megabytes: 100 }, text: "Only 100 MB." })).toContain("100 MB");
  expect(inChinese({ code: "odd" as "latest_lines", facts: {}, text: "Something new." })).toBe("Something new.");
  for (const sentence of Object.values(CHINESE)) expect(sentence(() => "7")).toMatch(/[\u4e00-\u9fff]/);
});
