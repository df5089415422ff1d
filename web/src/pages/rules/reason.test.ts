import { describe, expect, it } from "vitest";

import type { Reason } from "../../api/shapes";
import { CHINESE, inChinese } from "./reason";

const why = (code: Reason["code"], facts: Reason["facts"] = {}): Reason => ({ code, facts });

describe("reasons in Chinese", () => {
  it("have their facts", () => {
    expect(inChinese({ reason: "cost is 0.10", why: why("cost", { value: "0.10" }) })).toBe("费用为 0.10");
    expect(inChinese({ reason: "agent is unknown", why: why("is", { name: "agent", value: null }) })).toBe("智能体为 未知");
    for (const sentence of Object.values(CHINESE)) expect(sentence(() => "7")).toMatch(/[一-鿿]/);
  });

  it("stay as they are where an action failed, and where another version wrote them", () => {
    expect(inChinese({ reason: "hook: HTTP 500", why: null })).toBe("hook: HTTP 500");
    expect(inChinese({ reason: "new", why: why("of another version" as Reason["code"]) })).toBe("new");
    expect(inChinese({ reason: null, why: null })).toBe("");
  });
});
