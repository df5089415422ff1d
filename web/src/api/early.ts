/** Answers that were requested before the application was loaded; each is used once, and only while it is new. */

export const API = "/api/v1";

interface Begun {
  at: number;
  response: Promise<Response>;
}

/** In milliseconds; later the page asks again. */
const FRESH = 5000;
const begun = new Map<string, Begun>();

/** How every answer is requested. */
export const REQUEST: RequestInit & { headers: Record<string, string> } = {
  headers: { Accept: "application/json" },
  credentials: "same-origin",
  cache: "no-store",
};

export function requestEarly(url: string): void {
  const response = fetch(url, REQUEST);
  // An error is for the request that follows.
  response.catch(() => {});
  begun.set(url, { at: performance.now(), response });
}

/** The answer of an address, where it was requested early and is none but a good one. */
export async function takeEarly(url: string): Promise<Response | null> {
  const found = begun.get(url);
  begun.delete(url);
  if (!found || performance.now() - found.at > FRESH) return null;
  try {
    const response = await found.response;
    return response.ok ? response : null;
  } catch {
    return null;
  }
}
