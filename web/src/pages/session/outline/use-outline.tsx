/** Whether the outline is shown: beside the session where there is room, else in a drawer. */
import type { ReactNode } from "react";
import { useState } from "react";

import { remember, remembered } from "../../../memory";
import { Drawer, useMedia } from "../../../parts";
import { useText } from "../../../text";
import { text } from "./text";

const KEPT = "outline";
const WIDE = "(min-width: 75rem)";
/** Wide enough for the details of a span and the outline. */
const ROOMY = "(min-width: 105rem)";

export interface OutlineState {
  shown: boolean;
  /** Beside the session. */
  beside: boolean;
  /** Over it. */
  over: boolean;
  roomy: boolean;
  toggle: () => void;
  /** One went to a place: a drawer would cover it. */
  leave: () => void;
}

export function useOutline(): OutlineState {
  const wide = useMedia(WIDE);
  const roomy = useMedia(ROOMY);
  const [wanted, setWanted] = useState(() => remembered(KEPT) !== "off");
  const [drawer, setDrawer] = useState(false);
  const toggle = () => {
    if (!wide) return setDrawer(!drawer);
    remember(KEPT, wanted ? "off" : null);
    return setWanted(!wanted);
  };
  const beside = wide && wanted;
  const over = !wide && drawer;
  return { shown: beside || over, beside, over, roomy, toggle, leave: () => setDrawer(false) };
}

export function OutlineDrawer({ outline, children }: { outline: OutlineState; children: ReactNode }) {
  const t = useText(text);
  return (
    <Drawer open={outline.over} onClose={outline.leave} title={t.name}>
      {outline.over && children}
    </Drawer>
  );
}
