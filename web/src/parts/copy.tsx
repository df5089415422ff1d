/** Copies a text. */
import { useEffect, useState } from "react";

import { useText } from "../text";
import { Button, IconButton } from "./button";
import type { IconName } from "./icon";
import { toast } from "./toast";
import { text } from "./words";

type Source = string | (() => string | Promise<string>);

interface CopyProps {
  /** The text, or a function that gets it. */
  text: Source;
  /** On the button; without it there is only the drawing. */
  label?: string;
  /** What is shown on hover; without a label also the name for screen readers. */
  hint?: string;
  /** As high as other buttons, beside them. */
  large?: boolean;
  /** Of what is copied, where several things can be. */
  of?: IconName;
}

export function Copy({ text: source, label, hint, large, of = "copy" }: CopyProps) {
  const t = useText(text);
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return undefined;
    const timer = window.setTimeout(() => setDone(false), 1600);
    return () => window.clearTimeout(timer);
  }, [done]);
  const run = () => void copy(source).then(setDone, () => toast(t.copyFailed, { failed: true }));
  const icon = done ? "check" : of;
  if (label) {
    return (
      <Button icon={icon} small={!large} title={hint} onClick={run}>
        {done ? t.copied : label}
      </Button>
    );
  }
  return <IconButton icon={icon} label={done ? t.copied : (hint ?? t.copy)} onClick={run} />;
}

/** Copies a text to the clipboard, also over plain HTTP, where browsers have no clipboard API. */
export async function copy(source: Source): Promise<boolean> {
  const value = typeof source === "string" ? source : await source();
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(value);
    return true;
  }
  const field = document.createElement("textarea");
  field.value = value;
  field.readOnly = true;
  document.body.append(field);
  field.select();
  const worked = document.execCommand("copy");
  field.remove();
  if (!worked) throw new Error("not copied");
  return true;
}
