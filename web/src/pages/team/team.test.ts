/** Who works on what. */
import { describe, expect, test } from "vitest";

import type { SessionRow } from "../../api/shapes";
import { isOffered, navigation } from "../../routes";
import { fits } from "../sessions/rows";
import { viewOf } from "../sessions/filters";
import { apiParams, nextOf, questionOf } from "../usage/question";
import { isOfTeam, nowByPerson } from "./now";

const ANY = { since: null, until: null };

function row(key: string, person: string | null, state: SessionRow["state"], minute: number): SessionRow {
  const at = (minutes: number) => `2026-11-15T11:${String(minutes).padStart(2, "0")}:00.000000Z`;
  return { key, person, state, machine: null, started_at: at(0), last_at: at(minute) } as SessionRow;
}

describe("who works on what now", () => {
  const rows = [
    row("a", "ben", "waiting", 9),
    row("b", null, "working", 8),
    row("c", "Amy", "waiting", 20),
    row("d", "Amy", "working", 3),
    row("e", "Amy", "working", 7),
    row("f", "ben", "ended", 30),
  ];

  test("Persons are in the order of their names in any case, sessions without one last.", () => {
    expect(nowByPerson(rows).map(({ person }) => person)).toEqual(["Amy", "ben", null]);
  });

  test("Sessions that work come before those that wait, the latest first; others are not of now.", () => {
    expect(nowByPerson(rows).map(({ sessions }) => sessions.map(({ session }) => session))).toEqual([["e", "d", "c"], ["a"], ["b"]]);
  });

  test("A session waits since its last event, and works since it began.", () => {
    const sessions = nowByPerson(rows)[0]?.sessions ?? [];
    expect(sessions.map(({ since }) => since?.slice(14, 16))).toEqual(["00", "00", "20"]);
  });

  test("A machine of its own has no team.", () => {
    expect(isOfTeam({ working: [row("b", null, "working", 8)], waiting: [] })).toBe(false);
    expect(isOfTeam({ working: [], waiting: rows })).toBe(true);
  });
});

test("The page of the team is offered on a team's server only.", () => {
  expect(navigation(false).flat()).not.toContain("team");
  expect(navigation(true).flat()).toContain("team");
  expect(isOffered("usage", false)).toBe(true);
});

test("Rows of the live stream are filtered by person and machine as the server does it.", () => {
  const { filters } = viewOf("person=amy&machine=laptop");
  const known = { ...row("a", "amy", "working", 1), models: [], machine: "laptop" };
  expect(fits(known, filters, ANY)).toBe(true);
  expect(fits({ ...known, person: null }, filters, ANY)).toBe(false);
  expect(fits({ ...known, machine: "desktop" }, filters, ANY)).toBe(false);
});

test("A row of usage leads to the days of its person, and keeps the other filters.", () => {
  const question = questionOf("by=person&machine=laptop");
  const group = { group: "amy", key: null } as Parameters<typeof nextOf>[0];
  expect(nextOf(group, question)).toBe("/usage?machine=laptop&person=amy");
  expect(apiParams(question)).toMatchObject({ by: "person", machine: ["laptop"] });
});
