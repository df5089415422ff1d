/** What is known of an event, on one line; ids of calls are for programs. */
export function factsText(facts: Record<string, unknown>): string {
  return Object.entries(facts)
    .filter(([name]) => name !== "call")
    .map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : String(value)}`)
    .join(", ");
}
