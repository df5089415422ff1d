/** The layout of a chain: dependent steps in one lane, lanes side by side, later steps below. */

/** The dependencies of a position. */
export interface Ordered {
  name: string;
  after: readonly string[];
}

export interface Placed<T> {
  step: T;
  lane: number;
  row: number;
}

export interface Arrow {
  from: string;
  to: string;
}

/** Steps that hang together; different groups have nothing to wait for from each other. */
export interface Group<T> {
  lanes: number;
  rows: number;
  places: Placed<T>[];
  arrows: Arrow[];
}

/** The groups in the order of their first steps. */
export function layout<T extends Ordered>(steps: readonly T[]): Group<T>[] {
  const sorted = inOrder(steps);
  return together(sorted).map(placed);
}

interface Linked<T> {
  step: T;
  /** The existing predecessors in `after`: a chain may have lost steps since, and must not be cyclic. */
  before: string[];
}

/** The steps so that each comes after all that it waits for; otherwise as they were. */
function inOrder<T extends Ordered>(steps: readonly T[]): Linked<T>[] {
  const names = new Set(steps.map((step) => step.name));
  const done = new Set<string>();
  const sorted: Linked<T>[] = [];
  const take = (step: T) => {
    sorted.push({ step, before: [...new Set(step.after)].filter((name) => done.has(name)) });
    done.add(step.name);
  };
  let left = [...steps];
  while (left.length > 0) {
    const ready = left.find((step) => step.after.every((name) => done.has(name) || !names.has(name)));
    // In a circle nothing is ready: its first step has to do.
    const next = ready ?? left[0];
    if (!next) break;
    take(next);
    left = left.filter((step) => step !== next);
  }
  return sorted;
}

function together<T extends Ordered>(sorted: readonly Linked<T>[]): Linked<T>[][] {
  const groupOf = new Map<string, Linked<T>[]>();
  for (const linked of sorted) {
    const own = [linked];
    groupOf.set(linked.step.name, own);
    for (const name of linked.before) {
      const [into, from] = [groupOf.get(name), groupOf.get(linked.step.name)];
      if (!into || !from || into === from) continue;
      into.push(...from);
      for (const moved of from) groupOf.set(moved.step.name, into);
    }
  }
  const place = new Map(sorted.map((linked, index) => [linked, index]));
  const order = (linked: Linked<T>) => place.get(linked) ?? 0;
  return [...new Set(groupOf.values())].map((group) => group.sort((a, b) => order(a) - order(b)));
}

function placed<T extends Ordered>(group: readonly Linked<T>[]): Group<T> {
  const at = new Map<string, Placed<T>>();
  /** The last step of each lane. */
  const ends: string[] = [];
  const arrows: Arrow[] = [];
  for (const { step, before } of group) {
    const goesOn = before.map((name) => ends.indexOf(name)).find((lane) => lane >= 0);
    const lane = goesOn ?? ends.length;
    ends[lane] = step.name;
    const row = Math.max(-1, ...before.map((name) => at.get(name)?.row ?? -1)) + 1;
    at.set(step.name, { step, lane, row });
    arrows.push(...before.map((from) => ({ from, to: step.name })));
  }
  const places = [...at.values()];
  return { lanes: ends.length, rows: Math.max(...places.map(({ row }) => row)) + 1, places, arrows };
}
