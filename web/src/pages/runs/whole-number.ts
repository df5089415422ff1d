/** Numbers of stores, members and jobs, which are 64-bit integers in the database. */

/** The number for the server; null if it is invalid. */
export function wholeNumber(text: string): string | null {
  const digits = /^0*(\d{1,18})$/.exec(text.trim());
  return digits?.[1] ?? null;
}
