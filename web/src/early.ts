/**
 * Runs before the application, which is loaded meanwhile: requests the code of the page at this address, and the answers
 * that every page needs, or the overview. It imports nothing large.
 */
import { API, requestEarly } from "./api/early";
import type { PageName } from "./pages/code";
import { CODE, pageAt } from "./pages/code";
import { FAILING_TOOLS } from "./pages/overview/questions";

/** The first is what the page waits for longest, so that it goes before the code. */
const OVERVIEW = ["/overview", "/limits", FAILING_TOOLS];
const QUESTIONS = ["/me", "/demo"];

function begin(page: PageName | null): void {
  if (page === null) return;
  const [first, ...others] = page === "login" ? [] : page === "overview" ? [...OVERVIEW, ...QUESTIONS] : QUESTIONS;
  if (first) requestEarly(API + first);
  CODE[page]().catch(() => {});
  for (const each of others) requestEarly(API + each);
}

begin(pageAt(window.location.pathname));
