/** The file changes of a tool call, as texts before and after. */
import type { Arguments } from "./call-arguments";
import { fieldsOf } from "./call-arguments";

export interface Edit {
  path: string;
  before: string;
  after: string;
  /** The texts are those of the whole file, not of a part of it at an unknown place. */
  whole: boolean;
}

const PATHS = ["file_path", "path", "filePath", "notebook_path", "absolute_path", "filename"];
const OLD = ["old_string", "old_str", "old", "old_text", "oldText", "oldString"];
const NEW = ["new_string", "new_str", "new", "new_text", "newText", "newString", "new_source"];
/** Tools that write a whole file: a `content` elsewhere may be anything. */
const WRITES = /^(?:write|create|save)(?:_?(?:file|to_file))?$/i;
const PATCH = /^\*\*\* Begin Patch/m;

function first(fields: Arguments, names: readonly string[]): string | null {
  for (const name of names) {
    const value = fields[name];
    if (typeof value === "string") return value;
  }
  return null;
}

/** The edits of a call; empty if it changes no file, or if only its beginning is loaded. */
export function editsOf(tool: string, json: string): Edit[] {
  if (PATCH.test(json) && !json.trimStart().startsWith("{")) return patchEdits(json);
  const fields = fieldsOf(json);
  if (!fields) return [];
  const patch = patchIn(fields);
  if (patch !== null) return patchEdits(patch);
  const path = first(fields, PATHS) ?? "";
  const content = first(fields, ["content", "contents", "file_text"]);
  if (content !== null && WRITES.test(tool)) return [{ path, before: "", after: content, whole: true }];
  return replacements(fields, path);
}

function replacements(fields: Arguments, path: string): Edit[] {
  const several = [fields["edits"], fields["edit"]].flat().filter((edit) => typeof edit === "object" && edit !== null);
  const parts = several.length > 0 ? (several as Arguments[]) : [fields];
  return parts.flatMap((part) => {
    const after = first(part, NEW);
    return after === null ? [] : [{ path: first(part, PATHS) ?? path, before: first(part, OLD) ?? "", after, whole: false }];
  });
}

/** A patch as one of the arguments, or inside a command. */
function patchIn(fields: Arguments): string | null {
  const command = [fields["command"], fields["cmd"]].flat();
  const texts = [fields["input"], fields["patch"], ...command].filter((value) => typeof value === "string");
  return texts.find((text) => PATCH.test(text)) ?? null;
}

const FILE = /^\*\*\* (Add|Update|Delete) File: (.+)$/;

/** The edits of an apply_patch text; each hunk is one edit. */
export function patchEdits(patch: string): Edit[] {
  const found: Edit[] = [];
  let path = "";
  let whole = false;
  let before: string[] = [];
  let after: string[] = [];
  const close = () => {
    if (before.length > 0 || after.length > 0) found.push({ path, before: joined(before), after: joined(after), whole });
    before = [];
    after = [];
  };
  for (const line of patch.slice(Math.max(patch.search(PATCH), 0)).split("\n")) {
    const file = FILE.exec(line);
    if (file || line.startsWith("@@") || line.startsWith("*** ")) close();
    if (file) {
      path = file[2] ?? "";
      whole = file[1] === "Add";
    } else if (line.startsWith("*** End Patch")) break;
    else if (line.startsWith("+")) after.push(line.slice(1));
    else if (line.startsWith("-")) before.push(line.slice(1));
    else if (line.startsWith(" ")) {
      before.push(line.slice(1));
      after.push(line.slice(1));
    }
  }
  close();
  return found;
}

function joined(lines: readonly string[]): string {
  return lines.length > 0 ? `${lines.join("\n")}\n` : "";
}

/** Whether a call may change files, by its name and the beginning of its arguments. */
export function changesFiles(tool: string, json: string): boolean {
  return editsOf(tool, json).length > 0 || PATCH.test(json);
}
