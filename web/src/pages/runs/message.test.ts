import { describe, expect, it } from "vitest";

import { messageOf } from "./message";

const WORDS = ["", "请分析。", "one\n\ntwo", "{not json}", "[1] a footnote", "{\n\n}x"];
const DOCUMENTS = [{}, [], { a: [1, { b: "x\n\ny" }] }, ["{", "}"], { "": null }];

describe("a prompt or an answer", () => {
  it("is its words and the JSON after an empty line", () => {
    for (const words of WORDS) {
      for (const json of DOCUMENTS) {
        for (const space of [undefined, 2]) {
          const text = `${words ? `${words}\n\n` : ""}${JSON.stringify(json, null, space)}`;
          expect(messageOf(text)).toEqual({ words, json });
        }
      }
    }
  });

  it("is only words where no JSON document ends it", () => {
    for (const text of ["", "12", '"x"', "null", "{", "{} and more", "a\n\n{} and more", "a {}"]) {
      expect(messageOf(text)).toEqual({ words: text, json: undefined });
    }
  });
});
