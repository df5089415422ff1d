/** A JSON value as a tree to open and close; big ones show a part at a time. */
import { useState } from "react";

import { useFormat } from "../format";
import { useText } from "../text";
import { Button } from "./button";
import styles from "./json-view.module.css";
import { beginning, visible } from "./text";
import { text } from "./words";

interface JsonViewProps {
  value: unknown;
  /** The number of levels that are initially open. */
  open?: number;
}

const STEP = 100;
const STRING_STEP = 2000;
const PARSED_MOST = 2_000_000;

/** The JSON value of a text; undefined if it is not JSON, or too long to parse here. */
export function parsed(json: string): unknown {
  if (json.length > PARSED_MOST) return undefined;
  try {
    return JSON.parse(json) as unknown;
  } catch {
    return undefined;
  }
}

export function JsonView({ value, open = 2 }: JsonViewProps) {
  return (
    // Scrollable by keyboard.
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className={styles.tree} tabIndex={0} role="group" aria-label="JSON">
      <Value value={value} open={open} />
    </div>
  );
}

function Value({ value, open }: { value: unknown; open: number }) {
  if (typeof value === "string") return <LongString value={value} />;
  if (value === null || typeof value !== "object") return <span className={styles.atom}>{String(value)}</span>;
  return <Branch value={value} open={open} />;
}

function LongString({ value }: { value: string }) {
  const t = useText(text);
  const f = useFormat();
  const [shown, setShown] = useState(STRING_STEP);
  const here = beginning(value, shown);
  return (
    <>
      <bdi dir="auto" className={styles.string}>
        {visible(here)}
      </bdi>
      {here.length < value.length && (
        <Button small tone="quiet" onClick={() => setShown(shown * 5)}>
          {t.moreChars(f.count(here.length), f.count(value.length))}
        </Button>
      )}
    </>
  );
}

function Branch({ value, open }: { value: object; open: number }) {
  const t = useText(text);
  const f = useFormat();
  const [opened, setOpened] = useState(open > 0);
  const [shown, setShown] = useState(STEP);
  const list = Array.isArray(value);
  const names = list ? null : Object.keys(value);
  const length = list ? value.length : (names?.length ?? 0);
  if (length === 0) return <span className={styles.atom}>{list ? "[]" : "{}"}</span>;
  return (
    <details open={opened} onToggle={(event) => setOpened(event.currentTarget.open)} className={styles.branch}>
      <summary>
        {list ? "[…]" : "{…}"} <span className="faint">{t.items(f.count(length))}</span>
      </summary>
      {opened && (
        <ul role="list">
          {Array.from({ length: Math.min(length, shown) }, (_, index) => {
            const name = names?.[index] ?? index;
            return (
              <li key={name}>
                <bdi dir="auto" className={styles.name}>
                  {visible(beginning(String(name), STRING_STEP))}
                </bdi>
                : <Value value={(value as Record<string | number, unknown>)[name]} open={open - 1} />
              </li>
            );
          })}
        </ul>
      )}
      {opened && shown < length && (
        <Button small tone="quiet" onClick={() => setShown(shown + STEP * 5)}>
          {t.moreItems(f.count(length - shown))}
        </Button>
      )}
    </details>
  );
}
