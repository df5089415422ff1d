/** Saved views: what is the same, where they lead, and what earlier versions left in the browser. */
import { expect, test } from "vitest";

import { addressOf, readOld, spelled } from "./views";

test("Two searches that select the same are the same, in whatever order their values stand.", () => {
  expect(spelled("agent=b&agent=a&errors=true")).toBe(spelled("?errors=true&agent=a&agent=b&q="));
  expect(spelled("agent=a")).not.toBe(spelled("agent=a&errors=true"));
  expect(spelled("")).toBe("");
});

test("A view leads to its page, whatever its search says.", () => {
  expect(addressOf({ page: "sessions", search: "" })).toBe("/sessions");
  expect(addressOf({ page: "usage", search: "by=model&project=%2Fa%20b" })).toBe("/usage?by=model&project=%2Fa+b");
  expect(addressOf({ page: "usage", search: "//evil.example/#x" })).toBe("/usage?%2F%2Fevil.example%2F%23x=");
});

test("What a browser kept and is no filter is left out.", () => {
  expect(readOld('[{"name":"a","search":""},{"name":3},null,"x",{"name":" ","search":""}]')).toEqual([{ name: "a", search: "" }]);
  expect(readOld("{")).toEqual([]);
  expect(readOld(null)).toEqual([]);
});
