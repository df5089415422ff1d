/** What is known of an event, on one line. */
export function factsText(facts: Record<string, unknown>): string {
  return Object.entries(facts)
    .map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : String(value)}`)
    .join(", ");
}
