/** The view of the list and its address, periods, marked text. */
import { describe, expect, test } from "vitest";

import { NO_FILTERS, countSet, passes, searchOf, viewOf } from "./filters";
import { bySession, foundItems } from "./found-texts";
import { piecesOf } from "./marked-text";
import { PRESETS, dayPlus, daysOf, monthPeriod, periodOf, presetOf } from "./period";
import type { SearchHit } from "../../api/shapes";

const ALL =
  "agent=codex&agent=kimi&project=%2Fa+b&state=working&state=waiting&model=m&q=x%26y&since=7d&until=2026-11-15&min_cost=0.5&errors=true&commits=true&outcome=files&outcome=failed_tests&label=bug&label=a+b&score=quality%3C3&score=tests%3E%3D0.5&starred=true&machine=laptop&person=amy&sort=cost&order=asc";

const written = (search: string) => searchOf(viewOf(search));

describe("the address", () => {
  test("Every filter that is written is read back as it was.", () => {
    expect(written(ALL)).toBe(ALL);
    expect(viewOf(written(ALL))).toEqual(viewOf(ALL));
  });

  test("What no filter can be is left out instead of being sent to the server.", () => {
    expect(written("state=asleep&since=whenever&until=%22&min_cost=-3&errors=maybe&score=quality&score=quality%3Cmany&sort=colour&order=up")).toBe("");
  });

  test("The usual view writes nothing.", () => {
    expect(written("sort=last&order=desc")).toBe("");
    expect(countSet(NO_FILTERS)).toBe(0);
    expect(countSet(viewOf(ALL).filters)).toBe(14);
  });
});

describe("conditions on scores", () => {
  test("A session without the score meets none.", () => {
    const scores = { quality: 3, tests: 1 };
    expect(["quality<3", "quality<=3", "quality=3", "quality==3", "quality>=3", "quality>3"].map((test) => passes(scores, test))).toEqual(
      [false, true, true, true, true, false],
    );
    expect(passes(scores, "speed>0")).toBe(false);
    expect(passes(scores, "quality")).toBe(false);
  });
});

describe("periods", () => {
  test("From a first to a last day and back, both being part of it.", () => {
    expect(periodOf("2026-10-30", "2026-10-31")).toEqual({ since: "2026-10-30", until: "2026-11-01" });
    expect(daysOf(periodOf("2026-10-30", "2026-10-31"))).toEqual({ first: "2026-10-30", last: "2026-10-31" });
    expect(periodOf("2026-11-02", "2026-11-01")).toEqual({ since: "2026-11-01", until: "2026-11-03" });
    expect(daysOf({ since: "7d", until: "" })).toEqual({ first: "", last: "" });
  });

  test("A preset is known by the address, and so is none.", () => {
    expect(presetOf({ since: "yesterday", until: "today" })).toBe("yesterday");
    expect(presetOf({ since: "last-month", until: "this-month" })).toBe("last-month");
    expect(presetOf({ since: "7d", until: "" })).toBe("7d");
    expect(presetOf({ since: "7d", until: "2026-11-01" })).toBe(null);
    expect(viewOf("since=last-week&until=this-week").filters).toMatchObject(PRESETS["last-week"]);
  });

  test("Days and months follow each other across years.", () => {
    expect(dayPlus("2024-02-28", 1)).toBe("2024-02-29");
    expect(dayPlus("2026-01-01", -1)).toBe("2025-12-31");
    expect(dayPlus("yesterday", 1)).toBe("");
    expect(monthPeriod("2026-12")).toEqual({ since: "2026-12-01", until: "2027-01-01" });
    expect(monthPeriod("2026-02")).toEqual({ since: "2026-02-01", until: "2026-03-01" });
  });
});

describe("what was found", () => {
  const hit = (event: number, key: string): SearchHit => ({
    event_no: event,
    annotation_id: null,
    at: null,
    session: { key, session_id: key, agent: "codex", title: null, project: null },
    span_id: null,
    span: null,
    kind: "text",
    snippet: [],
  });

  test("Hits stand together by session, the session of the newest first.", () => {
    const groups = bySession([hit(9, "a"), hit(8, "b"), hit(7, "a")]);
    expect(groups.map((group) => group.map(({ event_no: number }) => number))).toEqual([[9, 7], [8]]);
  });

  test("Texts have a heading even where no title fits.", () => {
    expect(foundItems([], 0, [hit(1, "a")]).map(({ kind }) => kind)).toEqual(["heading", "session", "hit"]);
  });

  test("The pieces of a marked text are the text, and the hits are what was sought.", () => {
    const pieces = piecesOf("Test the test", "TEST");
    expect(pieces.map(({ text }) => text).join("")).toBe("Test the test");
    expect(pieces.filter(({ hit }) => hit).map(({ text }) => text)).toEqual(["Test", "test"]);
    expect(piecesOf("İstanbul", "i")).toEqual([{ text: "İstanbul", hit: false }]);
    expect(piecesOf("x", "")).toEqual([{ text: "x", hit: false }]);
  });
});
