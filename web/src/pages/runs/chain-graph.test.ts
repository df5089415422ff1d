import { describe, expect, it } from "vitest";

import type { Ordered } from "./chain-graph";
import { layout } from "./chain-graph";

/** Numbers that look random and are the same each time. */
function dice(seed: number): (sides: number) => number {
  let state = seed * 2_654_435_761 + 1;
  return (sides) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * sides);
  };
}

/** Any steps: chains, joins, forks, circles, and names that are not there. */
function anySteps(seed: number): Ordered[] {
  const roll = dice(seed);
  const count = roll(14);
  return Array.from({ length: count }, (_, index) => ({
    name: `s${index}`,
    after: Array.from({ length: roll(3) }, () => `s${roll(seed % 2 ? Math.max(index, 1) : count + 2)}`),
  }));
}

const SEEDS = Array.from({ length: 400 }, (_, seed) => seed);
const names = (steps: readonly Ordered[]) => steps.map((step) => step.name).sort();

describe("the places of a chain's steps", () => {
  it("hold each step once, and no two at the same place", () => {
    for (const seed of SEEDS) {
      const steps = anySteps(seed);
      const groups = layout(steps);
      expect(names(groups.flatMap((group) => group.places.map(({ step }) => step)))).toEqual(names(steps));
      for (const group of groups) {
        const cells = group.places.map(({ lane, row }) => `${lane} ${row}`);
        expect(new Set(cells).size).toBe(cells.length);
        expect(group.places.every(({ lane, row }) => lane < group.lanes && row < group.rows)).toBe(true);
      }
    }
  });

  it("have only arrows that lead down", () => {
    for (const seed of SEEDS) {
      for (const group of layout(anySteps(seed))) {
        const rowOf = new Map(group.places.map(({ step, row }) => [step.name, row]));
        for (const { from, to } of group.arrows) expect(rowOf.get(to)).toBeGreaterThan(rowOf.get(from) ?? Infinity);
      }
    }
  });

  it("have an arrow for each thing waited for, where nothing goes in circles", () => {
    for (const seed of SEEDS.filter((each) => each % 2)) {
      const steps = anySteps(seed).map((step) => ({ ...step, after: step.after.filter((name) => name !== step.name) }));
      const drawn = layout(steps).flatMap((group) => group.arrows.map(({ from, to }) => `${from} ${to}`));
      const wanted = steps.flatMap((step) => [...new Set(step.after)].map((name) => `${name} ${step.name}`));
      expect(drawn.sort()).toEqual(wanted.sort());
    }
  });

  it("do not depend on the order in which steps of one lane are told", () => {
    const chain = [{ name: "a", after: [] }, { name: "b", after: ["a"] }, { name: "c", after: ["b"] }];
    const rows = (steps: Ordered[]) => layout(steps).map((group) => group.places.map(({ step, row }) => [step.name, row]));
    expect(rows([...chain].reverse())).toEqual(rows(chain));
  });

  it("put lanes of their own side by side, and a lane's steps below each other", () => {
    const steps = [
      { name: "app3", after: [] },
      { name: "app8", after: ["app3"] },
      { name: "app7", after: ["app8"] },
      { name: "app4", after: [] },
      { name: "app5", after: ["app4"] },
    ];
    const found = layout(steps).map(({ lanes, rows, places }) => [lanes, rows, places.map(({ step }) => step.name)]);
    expect(found).toEqual([
      [1, 3, ["app3", "app8", "app7"]],
      [1, 2, ["app4", "app5"]],
    ]);
  });

  it("keep lanes that are joined in one group", () => {
    const [group, ...others] = layout([
      { name: "a", after: [] },
      { name: "b", after: [] },
      { name: "join", after: ["a", "b"] },
    ]);
    expect(others).toEqual([]);
    expect(group).toMatchObject({ lanes: 2, rows: 2 });
  });
});
