/** Whether a media query holds; for what differs by more than its style. */
import { useCallback, useSyncExternalStore } from "react";

/** Where rows of tables are cards, and filters are in a drawer. */
export const NARROW = "(max-width: 45rem)";

export function useMedia(query: string): boolean {
  const subscribe = useCallback(
    (listener: () => void) => {
      const media = window.matchMedia(query);
      media.addEventListener("change", listener);
      return () => media.removeEventListener("change", listener);
    },
    [query],
  );
  return useSyncExternalStore(subscribe, () => window.matchMedia(query).matches);
}
