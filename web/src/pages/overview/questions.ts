/** The tools that fail most often, of the last thirty days: what the overview asks beside its own answer. */
export const FAILING_TOOLS = "/insights/tools?since=30d&sort=failures&limit=5";
