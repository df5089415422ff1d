/** Numbers of stores, members and jobs, which are 64-bit integers in the database. */

/** The number as the server wants it; null for anything that is none. */
export function wholeNumber(text: string): string | null {
  const digits = /^0*(\d{1,18})$/.exec(text.trim());
  return digits?.[1] ?? null;
}
