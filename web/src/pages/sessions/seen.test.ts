/** Which sessions are marked as having new activity. */
import { describe, expect, test } from "vitest";

import { NOTHING_SEEN, allSeen, arrived, isUnseen, looked, opened, readSeen } from "./seen";

const at = (minute: number) => `2026-11-15T11:${String(minute).padStart(2, "0")}:00.000000Z`;
const MINUTE = 60_000;

describe("unseen", () => {
  test("At the first visit nothing is marked; what is said after it is.", () => {
    const seen = looked(arrived(NOTHING_SEEN, 1), at(10), 2);
    expect(isUnseen(seen, { key: "a", last_at: at(10) })).toBe(false);
    expect(isUnseen(seen, { key: "a", last_at: at(11) })).toBe(true);
  });

  test("Going away for a moment keeps the marks, half an hour makes what was shown seen.", () => {
    const first = looked(arrived(NOTHING_SEEN, 0), at(10), 0);
    const later = looked(first, at(20), MINUTE);
    expect(isUnseen(arrived(later, 5 * MINUTE), { key: "a", last_at: at(15) })).toBe(true);
    const next = arrived(later, 40 * MINUTE);
    expect(isUnseen(next, { key: "a", last_at: at(20) })).toBe(false);
    expect(isUnseen(next, { key: "a", last_at: at(21) })).toBe(true);
  });

  test("A session that was opened is marked again only when it says more.", () => {
    const seen = opened(looked(NOTHING_SEEN, at(1), 0), { key: "a", last_at: at(5) });
    expect(isUnseen(seen, { key: "a", last_at: at(5) })).toBe(false);
    expect(isUnseen(seen, { key: "b", last_at: at(5) })).toBe(true);
    expect(isUnseen(seen, { key: "a", last_at: at(6) })).toBe(true);
    expect(opened(seen, { key: "a", last_at: at(4) })).toBe(seen);
  });

  test("Marking all as seen takes every mark away and forgets single sessions.", () => {
    const seen = allSeen(opened(looked(NOTHING_SEEN, at(1), 0), { key: "a", last_at: at(5) }), at(9));
    expect(isUnseen(seen, { key: "b", last_at: at(9) })).toBe(false);
    expect(seen.sessions).toEqual({});
  });

  test("What is kept does not grow without end.", () => {
    let seen = looked(NOTHING_SEEN, "2026-01-01T00:00:00.000000Z", 0);
    for (let number = 0; number < 600; number += 1) seen = opened(seen, { key: `k${number}`, last_at: at(1) });
    expect(Object.keys(seen.sessions)).toHaveLength(500);
  });

  test("What a browser kept is read back, and anything else counts as nothing.", () => {
    const seen = opened(looked(NOTHING_SEEN, at(1), 7), { key: "a", last_at: at(5) });
    expect(readSeen(JSON.stringify(seen))).toEqual(seen);
    expect(readSeen('{"baseline":4,"sessions":{"a":1}}')).toEqual(NOTHING_SEEN);
    expect(readSeen("no")).toEqual(NOTHING_SEEN);
    expect(readSeen("null")).toEqual(NOTHING_SEEN);
  });
});
