/** Addresses in text of agents: which of them may become links. */

/** The address, where it leads to the web or to mail; null for everything else: scripts, data, this page's own paths. */
export function safeAddress(address: string): string | null {
  try {
    const url = new URL(address);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}
