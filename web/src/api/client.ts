/** Asking the server: JSON in and out, problems as errors, and no answer transferred or parsed twice. */
import type { Params } from "../url";
import { address } from "../url";
import { API, REQUEST, takeEarly } from "./early";
import { reached, unreached } from "./reach";
import type { Me } from "./shapes";

export { API } from "./early";

/** An error that the server returned, with a sentence for the user. */
export class ProblemError extends Error {
  readonly status: number;
  readonly title: string;
  readonly detail: string;

  constructor(status: number, title: string, detail: string) {
    super(detail);
    this.name = "ProblemError";
    this.status = status;
    this.title = title;
    this.detail = detail;
  }
}

/** The server cannot be reached. */
export class UnreachableError extends Error {
  constructor() {
    super("AgentTrace cannot be reached");
    this.name = "UnreachableError";
  }
}

interface Known {
  tag: string;
  answer: WeakRef<object>;
}

/*
 * The answer of each address and its entity tag. The page sends If-None-Match itself (`cache: "no-store"`) instead of using
 * the browser's cache: so the browser does not write texts of agents to disk, and a 304 needs no parsing and returns the
 * same object, so that nothing is rendered again. Answers are weak references: a component that shows one keeps it alive,
 * and leaving a page frees its memory.
 */
const known = new Map<string, Known>();
const KNOWN_MOST = 300;

function remembered(url: string): { tag: string; answer: object } | null {
  const entry = known.get(url);
  const answer = entry?.answer.deref();
  if (!entry || !answer) {
    known.delete(url);
    return null;
  }
  return { tag: entry.tag, answer };
}

function keep(url: string, tag: string | null, answer: unknown): void {
  known.delete(url);
  if (!tag || typeof answer !== "object" || answer === null) return;
  known.set(url, { tag, answer: new WeakRef(answer) });
  const oldest = known.keys().next().value;
  if (known.size > KNOWN_MOST && oldest !== undefined) known.delete(oldest);
}

/** GET a path below /api/v1. */
export async function get<T>(path: string, params: Params = {}, signal?: AbortSignal): Promise<T> {
  const url = address(API + path, params);
  const before = remembered(url);
  const headers = before ? { ...REQUEST.headers, "If-None-Match": before.tag } : REQUEST.headers;
  const response = (await takeEarly(url)) ?? (await ask(url, { ...REQUEST, headers, signal }));
  if (response.status === 304 && before) return before.answer as T;
  if (!response.ok) throw await problem(response);
  const answer = (await body(response)) as T;
  keep(url, response.headers.get("ETag"), answer);
  return answer;
}

type Method = "POST" | "PUT" | "PATCH" | "DELETE";

/** Changes something below /api/v1, with the CSRF token of this page. */
export async function change<T>(method: Method, path: string, data: unknown = {}): Promise<T> {
  return (await body(await send(path, data, undefined, method))) as T;
}

/** POST JSON to a path below /api/v1, with the CSRF token of this page. */
export async function post<T>(path: string, data: unknown = {}, signal?: AbortSignal): Promise<T> {
  const response = await send(path, data, signal);
  return (response.status === 204 ? null : await body(response)) as T;
}

/** POST, and the answer as it comes: for streams. Problems are thrown like those of {@link post}. */
export async function send(path: string, data: unknown, signal?: AbortSignal, method: Method = "POST"): Promise<Response> {
  const response = await sendOnce(method, path, data, await csrf(), signal);
  if (response.ok) return response;
  const error = await problem(response);
  // The token dies with the server's process or the login; another page may have got a new one.
  if (error.status !== 403 || path === "/login") throw error;
  const again = await sendOnce(method, path, data, await csrf(true), signal);
  if (!again.ok) throw await problem(again);
  return again;
}

function sendOnce(method: Method, path: string, data: unknown, token: string, signal?: AbortSignal): Promise<Response> {
  return ask(API + path, {
    method,
    headers: { "Content-Type": "application/json", Accept: "application/json", "X-CSRF-Token": token },
    body: JSON.stringify(data),
    cache: "no-store",
    signal,
  });
}

let token: string | null = null;

async function csrf(anew = false): Promise<string> {
  if (token === null || anew) keepToken(await get<Me>("/me"));
  return token ?? "";
}

/** Sets the CSRF token; it changes with login and logout. */
export function keepToken(me: Me): void {
  token = me.csrf;
}

async function ask(url: string, request: RequestInit): Promise<Response> {
  try {
    const response = await fetch(url, { credentials: "same-origin", ...request });
    reached();
    return response;
  } catch (error) {
    if (request.signal?.aborted) throw error;
    unreached();
    throw new UnreachableError();
  }
}

async function body(response: Response): Promise<unknown> {
  try {
    return await response.json();
  } catch (error) {
    if (error instanceof DOMException) throw error;
    if (error instanceof SyntaxError) throw new ProblemError(response.status, "Not JSON", "The server's answer is not JSON.");
    unreached();
    throw new UnreachableError();
  }
}

type Listener = () => void;
let onLoginNeeded: Listener = () => {};

/** What happens when the server wants a login first. */
export function whenLoginNeeded(listener: Listener): void {
  onLoginNeeded = listener;
}

async function problem(response: Response): Promise<ProblemError> {
  if (response.status === 401 && !response.url.endsWith("/login")) onLoginNeeded();
  let told: Partial<Record<"title" | "detail", unknown>> = {};
  try {
    told = (await response.json()) as typeof told;
  } catch {
    // Not ours, for instance a proxy's page: the status has to do.
  }
  const title = typeof told.title === "string" ? told.title : response.statusText || `HTTP ${response.status}`;
  return new ProblemError(response.status, title, typeof told.detail === "string" ? told.detail : title);
}
