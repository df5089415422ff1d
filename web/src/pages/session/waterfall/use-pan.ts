/** Wheel and pointer over the bars: ctrl+wheel zooms around the pointer, shift+wheel and dragging move the window. */
import type { RefObject } from "react";
import { useEffect, useRef } from "react";

import type { Window } from "./use-scale";

/** A movement of fewer pixels is a click. */
const CLICK = 4;

export function usePan(area: RefObject<HTMLElement | null>, timeHead: RefObject<HTMLElement | null>, view: Window): void {
  const latest = useRef(view);
  useEffect(() => {
    latest.current = view;
  });
  useEffect(() => {
    const element = area.current;
    if (!element) return undefined;
    const box = () => timeHead.current?.getBoundingClientRect();
    const onWheel = (event: WheelEvent) => {
      const bars = box();
      if (!bars || event.clientX < bars.left) return;
      if (event.ctrlKey || event.metaKey) {
        const around = latest.current.timeAt((event.clientX - bars.left) / bars.width);
        latest.current.zoom(2 ** (Math.sign(event.deltaY) * Math.min(Math.abs(event.deltaY) / 200, 0.5)), around);
      } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        latest.current.pan((event.deltaX || event.deltaY) / bars.width);
      } else return;
      event.preventDefault();
    };
    let last: number | null = null;
    let moved = 0;
    const onDown = (event: PointerEvent) => {
      const bars = box();
      // Fingers scroll the list; the minimap is theirs for zooming.
      if (!bars || event.button !== 0 || event.pointerType === "touch" || event.clientX < bars.left) return;
      last = event.clientX;
      moved = 0;
    };
    const onMove = (event: PointerEvent) => {
      const bars = box();
      if (last === null || !bars) return;
      const by = event.clientX - last;
      moved += Math.abs(by);
      if (moved < CLICK) return;
      last = event.clientX;
      latest.current.pan(-by / bars.width);
    };
    const onUp = () => {
      last = null;
    };
    // A drag that ends on a row is no choice of that row.
    const onClick = (event: MouseEvent) => {
      if (moved >= CLICK) event.stopPropagation();
      moved = 0;
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    element.addEventListener("pointerdown", onDown);
    window.addEventListener("pointermove", onMove);
    window.addEventListener("pointerup", onUp);
    element.addEventListener("click", onClick, true);
    return () => {
      element.removeEventListener("wheel", onWheel);
      element.removeEventListener("pointerdown", onDown);
      window.removeEventListener("pointermove", onMove);
      window.removeEventListener("pointerup", onUp);
      element.removeEventListener("click", onClick, true);
    };
  }, [area, timeHead]);
}
