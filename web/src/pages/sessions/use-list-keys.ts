/** Keyboard navigation of the list: j and k move the focus, so Enter and screen readers work as usual. */
import type { RefObject } from "react";
import { useCallback, useEffect, useRef, useState } from "react";

import { navigate } from "wouter/use-browser-location";

import type { SessionRow } from "../../api/shapes";
import type { VirtualListHandle } from "../../parts";
import { useShortcuts } from "../../shell/shortcuts";
import { useText } from "../../text";
import { address } from "../../url";
import type { Picked } from "./picked";
import { markSeen } from "./seen";
import { linkId } from "./session-item";
import { text } from "./text";

/** Listens for them; call the answer with the key of a row that takes the focus in another way. */
export function useListKeys(rows: readonly SessionRow[], list: RefObject<VirtualListHandle | null>, picked: Picked) {
  const t = useText(text);
  const [key, setKey] = useState<string | null>(null);
  const at = key === null ? -1 : rows.findIndex((row) => row.key === key);
  const wanted = useRef<string | null>(null);
  const go = (index: number) => {
    const row = rows[Math.min(Math.max(index, 0), rows.length - 1)];
    if (!row) return;
    wanted.current = row.key;
    setKey(row.key);
    list.current?.scrollTo(rows.indexOf(row));
  };
  useEffect(() => {
    // A row far away is there only after the list has scrolled to it.
    const link = wanted.current === null ? null : document.getElementById(linkId(wanted.current));
    if (!link) return;
    wanted.current = null;
    link.focus({ preventScroll: true });
  });
  useShortcuts([
    { keys: "j", does: t.next, run: () => go(at + 1) },
    { keys: "k", does: t.previous, run: () => go(at < 0 ? 0 : at - 1) },
    { keys: "ArrowDown", does: t.next, run: () => go(at + 1), hidden: true },
    { keys: "ArrowUp", does: t.previous, run: () => go(at < 0 ? 0 : at - 1), hidden: true },
    {
      keys: "v",
      does: t.comparing.key,
      run: () => {
        const row = rows[at];
        if (row) picked.toggle(row.key);
      },
    },
    {
      keys: "V",
      does: t.comparing.openKey,
      run: () => {
        const [a, b] = picked.keys;
        if (a !== undefined && b !== undefined) navigate(address("/compare", { a, b }));
      },
    },
    {
      keys: "x",
      does: t.markSeen,
      run: () => {
        const row = rows[at];
        if (row) markSeen(row);
      },
    },
  ]);
  return useCallback((focused: string) => setKey(focused), []);
}
