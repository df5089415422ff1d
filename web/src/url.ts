/** The state of a page in its address: one value, several, a number or a flag; empty values are not written. */
import { useCallback, useMemo } from "react";
import { useSearch } from "wouter";
import { navigate } from "wouter/use-browser-location";

export { useParams as useRouteParams } from "wouter";

export type ParamValue = string | number | boolean | readonly string[] | null | undefined;
export type Params = Readonly<Record<string, ParamValue>>;

/** How an address changes: `push` makes a step that the back button undoes, otherwise the present one is replaced. */
export interface How {
  push?: boolean;
}

/** The search part with these changes; null, "", false and [] take a value out. */
export function changed(search: string, changes: Params): string {
  const params = new URLSearchParams(search);
  for (const [name, value] of Object.entries(changes)) {
    params.delete(name);
    for (const text of written(value)) params.append(name, text);
  }
  return params.toString();
}

function written(value: ParamValue): string[] {
  if (value === null || value === undefined || value === "" || value === false) return [];
  if (typeof value === "object") return value.filter((text) => text !== "");
  if (typeof value === "number" && !Number.isFinite(value)) return [];
  return [String(value)];
}

/** An address of the console or of its API with these values. */
export function address(path: string, params: Params = {}): string {
  const search = changed("", params);
  return search ? `${path}?${search}` : path;
}

/** The number that a text is; null for anything else. */
export function numberOf(text: string | null): number | null {
  if (text === null || text.trim() === "") return null;
  const number = Number(text);
  return Number.isFinite(number) ? number : null;
}

/** Whether a flag is set. */
export function flagOf(text: string | null): boolean {
  return text === "true" || text === "1";
}

function change(changes: Params, how: How = {}): void {
  // Read at the moment of the change: two changes in one event must not undo each other.
  const before = window.location.search.replace(/^\?/, "");
  const after = changed(before, changes);
  if (after === changed(before, {})) return;
  const { pathname, hash } = window.location;
  navigate(pathname + (after ? `?${after}` : "") + hash, { replace: !how.push });
}

export interface UrlParams {
  text(name: string): string;
  list(name: string): string[];
  number(name: string): number | null;
  flag(name: string): boolean;
  /** Several values at once; the others stay. */
  change(changes: Params, how?: How): void;
}

/** All values of the address. */
export function useParams(): UrlParams {
  const search = useSearch();
  return useMemo(() => {
    const params = new URLSearchParams(search);
    return {
      text: (name) => params.get(name) ?? "",
      list: (name) => params.getAll(name),
      number: (name) => numberOf(params.get(name)),
      flag: (name) => flagOf(params.get(name)),
      change,
    };
  }, [search]);
}

type Setter<T> = (value: T, how?: How) => void;

function useSetter<T extends ParamValue>(name: string): Setter<T> {
  return useCallback((value: T, how?: How) => change({ [name]: value }, how), [name]);
}

/** One text of the address, "" if missing; the fallback is not written. */
export function useParam(name: string, fallback = ""): [string, Setter<string | null>] {
  const value = useParams().text(name) || fallback;
  const set = useCallback(
    (next: string | null, how?: How) => change({ [name]: next === fallback ? null : next }, how),
    [name, fallback],
  );
  return [value, set];
}

/** One of several texts; any other value in the address counts as the first one, which is not written. */
export function useChoice<T extends string>(name: string, choices: readonly [T, ...T[]]): [T, Setter<T>] {
  const [value, set] = useParam(name, choices[0]);
  return [choices.find((choice) => choice === value) ?? choices[0], set];
}

/** A repeated value. */
export function useListParam(name: string): [string[], Setter<readonly string[]>] {
  const search = useSearch();
  const value = useMemo(() => new URLSearchParams(search).getAll(name), [search, name]);
  return [value, useSetter<readonly string[]>(name)];
}

/** A number. */
export function useNumberParam(name: string): [number | null, Setter<number | null>] {
  return [useParams().number(name), useSetter<number | null>(name)];
}

/** A flag. */
export function useFlagParam(name: string): [boolean, Setter<boolean>] {
  return [useParams().flag(name), useSetter<boolean>(name)];
}
