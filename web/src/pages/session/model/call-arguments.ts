/** The arguments of a tool call, also if only their beginning is loaded, and a summary in one line. */

export type Arguments = Record<string, unknown>;

/** The fields of a JSON object; of one that is cut off, those that are whole and the beginning of a text. */
export function fieldsOf(json: string): Arguments | null {
  try {
    const whole: unknown = JSON.parse(json);
    return typeof whole === "object" && whole !== null && !Array.isArray(whole) ? (whole as Arguments) : null;
  } catch {
    return json.trimStart().startsWith("{") ? cutFields(json) : null;
  }
}

const NAME = /\s*[{,]?\s*("(?:[^"\\]|\\.)*")\s*:\s*/y;
const TEXT = /("(?:[^"\\]|\\.)*)"?/sy;
const ATOM = /(?:true|false|null|-?\d[\d.eE+-]*)(?=\s*[,}])/y;

function cutFields(json: string): Arguments {
  const found: Arguments = {};
  let at = 0;
  for (;;) {
    NAME.lastIndex = at;
    const name = NAME.exec(json)?.[1];
    if (name === undefined) return found;
    at = NAME.lastIndex;
    const [value, length] = cutValue(json, at);
    if (length === 0) return found;
    found[textOf(name.slice(0, -1))] = value;
    at += length;
  }
}

/** The value that begins at a place, and how many characters it takes; 0 where it is not whole and no text. */
function cutValue(json: string, at: number): [unknown, number] {
  TEXT.lastIndex = at;
  const text = TEXT.exec(json);
  if (text) return [textOf(text[1] ?? ""), text[0].length];
  ATOM.lastIndex = at;
  const atom = ATOM.exec(json)?.[0];
  if (atom !== undefined) return [JSON.parse(atom) as unknown, atom.length];
  const end = closing(json, at);
  if (end < 0) return [undefined, 0];
  try {
    return [JSON.parse(json.slice(at, end)) as unknown, end - at];
  } catch {
    return [undefined, 0];
  }
}

/** Behind the bracket that closes the one at a place; -1 where it is cut off. */
function closing(json: string, at: number): number {
  let depth = 0;
  let quoted = false;
  for (let index = at; index < json.length; index += 1) {
    const character = json[index];
    if (quoted && character === "\\") index += 1;
    else if (character === '"') quoted = !quoted;
    else if (!quoted && (character === "{" || character === "[")) depth += 1;
    else if (!quoted && (character === "}" || character === "]")) {
      depth -= 1;
      if (depth <= 0) return depth === 0 ? index + 1 : -1;
    }
  }
  return -1;
}

/** The value of a JSON string without its last quote; half an escape at its end is dropped. */
function textOf(begun: string): string {
  for (const text of [begun, begun.replace(/\\u[\da-f]{0,3}$/i, "")]) {
    try {
      return JSON.parse(`${text}"`) as string;
    } catch {
      // Cut within an escape, or not quite JSON.
    }
  }
  return begun.slice(1);
}

/** The arguments that describe a call best, in order. */
const TELLING = [
  "file_path",
  "path",
  "notebook_path",
  "absolute_path",
  "pattern",
  "query",
  "url",
  "description",
  "prompt",
  "question",
  "message",
  "title",
  "name",
  "id",
];
const LINE_MOST = 300;

const COMMANDS = ["command", "cmd", "commands", "script"];

/** The shell command of a call, without the shell that runs it; null where it calls no command. */
export function commandOf(fields: Arguments | null): string | null {
  if (!fields) return null;
  for (const name of COMMANDS) {
    const value = fields[name];
    const several = name === "commands" && Array.isArray(value) && value.every((each) => typeof each === "string");
    const text = several ? (value as string[]).join("\n") : said(value);
    if (text !== "") return text;
  }
  return null;
}

/** The arguments of a command beside the command itself. */
export function besideCommand(fields: Arguments): [string, unknown][] {
  return Object.entries(fields).filter(([name]) => !COMMANDS.includes(name));
}

/** One line about a call: a command as one types it, else the argument that tells most. */
export function summaryOf(json: string): string {
  const fields = fieldsOf(json);
  if (!fields) return oneLine(json);
  const shell = commandOf(fields);
  if (shell !== null) return `$ ${oneLine(shell)}`;
  const telling = TELLING.map((name) => said(fields[name])).find((text) => text !== "");
  if (telling !== undefined) return oneLine(telling);
  const any = Object.values(fields).map(said).find((text) => text !== "");
  return oneLine(any ?? "");
}

function said(value: unknown): string {
  if (typeof value === "string") return value.trim();
  if (Array.isArray(value) && value.length > 0 && value.every((part) => typeof part === "string")) return command(value);
  return "";
}

/** `bash -lc "ls"` is shown as `ls`. */
function command(parts: string[]): string {
  const last = parts.at(-1) ?? "";
  return parts.length === 3 && /^(?:.*\/)?(?:ba|z|da)?sh$/.test(parts[0] ?? "") && /^-\w*c$/.test(parts[1] ?? "") ? last : parts.join(" ");
}

export function oneLine(text: string): string {
  return text.slice(0, LINE_MOST * 4).replace(/\s+/g, " ").trim().slice(0, LINE_MOST);
}
