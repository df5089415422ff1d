/** The language of a text, for highlighting: from the name of its file, or from how it begins. */

const ENDINGS: Record<string, string> = {
  bash: "bash", sh: "bash", zsh: "bash", c: "c", h: "c", cc: "cpp", cpp: "cpp", hpp: "cpp", cs: "csharp", css: "css", scss: "css",
  diff: "diff", patch: "diff", dockerfile: "dockerfile", go: "go", html: "xml", svg: "xml", vue: "xml", xml: "xml", ini: "ini",
  toml: "ini", cfg: "ini", java: "java", js: "javascript", mjs: "javascript", cjs: "javascript", jsx: "javascript", json: "json",
  jsonl: "json", kt: "kotlin", lua: "lua", makefile: "makefile", mk: "makefile", md: "markdown", php: "php", py: "python",
  pyi: "python", rb: "ruby", rs: "rust", sql: "sql", swift: "swift", ts: "typescript", mts: "typescript", tsx: "typescript",
  yaml: "yaml", yml: "yaml",
};
/** Names in fences of Markdown that are no endings. */
const NAMES: Record<string, string> = {
  "c++": "cpp", console: "bash", golang: "go", javascript: "javascript", kotlin: "kotlin", markdown: "markdown", python: "python",
  ruby: "ruby", rust: "rust", shell: "bash", typescript: "typescript", csharp: "csharp",
};

function known(name: string, table: Record<string, string>): string | null {
  return Object.hasOwn(table, name) ? (table[name] ?? null) : null;
}

/** The language of a file by its name; null where it is not known. */
export function languageOf(path: string): string | null {
  const name = (path.split(/[/\\]/).at(-1) ?? "").toLowerCase();
  return known(name.split(".").at(-1) ?? "", ENDINGS);
}

/** The language of a fence: ```` ```py ````. */
export function fenceLanguage(name: string): string | null {
  const lower = name.toLowerCase();
  return known(lower, NAMES) ?? known(lower, ENDINGS);
}

/** The language of an output by its first characters; null for plain text. */
export function guessed(text: string): string | null {
  const start = text.trimStart().slice(0, 200);
  if (/^(?:diff --git |--- \S+\n\+\+\+ |@@ -\d)/.test(start)) return "diff";
  if (/^[{[]\s*["{[\]}]/.test(start)) return "json";
  if (/^<(?:!doctype html|html|\?xml|svg)\b/i.test(start)) return "xml";
  return null;
}

/** Whether a text is read line by line, so that its columns matter: a traceback, an output. */
export function isTraceback(text: string): boolean {
  return /Traceback \(most recent call last\)|^\s+at \S.*[(:]|^\s+File "|panicked at|^goroutine \d+|^\s*\^+\s*$|^E {2,}\S|^exit code:? \d+$|\n {2,}\S/im.test(text);
}
