/** Whether the server answers at all. */
import { useSyncExternalStore } from "react";

import { Store } from "../store";

const reachable = new Store(true);

export function reached(): void {
  reachable.set(true);
}

export function unreached(): void {
  reachable.set(false);
}

export function useReachable(): boolean {
  return useSyncExternalStore(reachable.subscribe, reachable.read);
}
