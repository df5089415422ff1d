/** Lengths of texts as the server counts them: code points, not UTF-16 units. */

export function charactersOf(text: string): number {
  let count = text.length;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code < 0xd800 || code > 0xdbff) continue;
    const next = text.charCodeAt(at + 1);
    if (next >= 0xdc00 && next <= 0xdfff) {
      count -= 1;
      at += 1;
    }
  }
  return count;
}
