import { expect, test } from "vitest";

import { ROUTES } from "../routes";
import { pageAt } from "./code";

test("every route has the page that is loaded early at its address", () => {
  for (const { name, path } of ROUTES) expect(pageAt(name === "session" ? `${path}01` : path)).toBe(name);
  expect(pageAt("/sessions/")).toBe("sessions");
  expect(pageAt("/runs/jobs/3")).toBe("runs");
  expect(pageAt("/constructor")).toBeNull();
});
