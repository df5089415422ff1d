/** The palette: everything by its name, from the keyboard. A combobox with a list of options, in a modal dialog. */
import { useEffect, useId, useMemo, useRef, useState } from "react";
import type { KeyboardEvent } from "react";
import { useLocation } from "wouter";

import { useGet } from "../../api/queries";
import type { SessionFacets, SessionList } from "../../api/shapes";
import { remember, remembered } from "../../memory";
import { Icon } from "../../parts/icon";
import { visible } from "../../parts/text";
import { useText } from "../../text";
import { useItems } from "./use-items";
import type { Item, Section } from "./items";
import { readRecent, sections, withRecent } from "./items";
import styles from "./palette.module.css";
import { text } from "./text";

const KEPT = "palette";
/** How long a pause in typing is, in milliseconds. */
const PAUSE = 80;
const SESSIONS = 8;

interface PaletteProps {
  onClose: () => void;
  onHelp: () => void;
}

export default function Palette({ onClose, onHelp }: PaletteProps) {
  const t = useText(text);
  const dialog = useRef<HTMLDialogElement>(null);
  const [typed, setTyped] = useState("");
  const [, navigate] = useLocation();
  const [recent] = useState(() => readRecent(remembered(KEPT)));
  const found = useFound(typed, recent, onHelp);
  useEffect(() => {
    if (dialog.current && !dialog.current.open) dialog.current.showModal();
  }, []);
  const choose = (item: Item) => {
    remember(KEPT, JSON.stringify(withRecent(recent, item)));
    onClose();
    if (item.run) item.run();
    else if (item.href) navigate(item.href);
  };
  return (
    // Escape is the keyboard's way; a click on the veil is one more.
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions, jsx-a11y/click-events-have-key-events
    <dialog
      ref={dialog}
      aria-label={t.title}
      className={styles.palette}
      onClose={onClose}
      onClick={(event) => event.target === dialog.current && onClose()}
    >
      <Combobox typed={typed} onType={setTyped} found={found} onChoose={choose} />
    </dialog>
  );
}

/** The entries for what is typed; sessions come from the server after a pause in typing. */
function useFound(typed: string, recent: ReturnType<typeof readRecent>, onHelp: () => void): Section[] {
  const paused = usePaused(typed.trim());
  const asked = { words: paused, limit: SESSIONS };
  const sessions = useGet<SessionList>("/sessions", asked, { when: paused !== "", keep: true, fresh: 10_000 });
  const facets = useGet<SessionFacets>("/sessions/facets", {}, { fresh: 60_000 }).data;
  const items = useItems({ typed, sessions: paused === "" ? undefined : sessions.data?.items, facets, recent, onHelp });
  const answered = paused === typed.trim() && !sessions.isPlaceholderData;
  // Never a moment behind what is typed: Enter takes the first entry of the list.
  return useMemo(() => sections(items, typed, recent.map(({ id }) => id), answered), [items, typed, recent, answered]);
}

function usePaused(typed: string): string {
  const [paused, setPaused] = useState(typed);
  useEffect(() => {
    const timer = window.setTimeout(() => setPaused(typed), PAUSE);
    return () => window.clearTimeout(timer);
  }, [typed]);
  return typed === "" ? "" : paused;
}

interface ComboboxProps {
  typed: string;
  onType: (typed: string) => void;
  found: Section[];
  onChoose: (item: Item) => void;
}

function Combobox({ typed, onType, found, onChoose }: ComboboxProps) {
  const t = useText(text);
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState<string | null>(null);
  const items = found.flatMap((section) => section.items);
  const index = Math.max(0, items.findIndex((item) => item.id === at));
  const active = items[index];
  const place = (item: Item) => `${id}-${items.indexOf(item)}`;
  useEffect(() => {
    list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  }, [active?.id]);
  const move = (next: number) => setAt(items[(next + items.length) % items.length]?.id ?? null);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    const keys: Record<string, () => void> = {
      ArrowDown: () => move(index + 1),
      ArrowUp: () => move(index - 1),
      PageDown: () => move(Math.min(index + 8, items.length - 1)),
      PageUp: () => move(Math.max(index - 8, 0)),
      Enter: () => active && onChoose(active),
    };
    const run = keys[event.key];
    if (!run) return;
    event.preventDefault();
    run();
  };
  return (
    <>
      <div className={styles.input}>
        <Icon name="search" />
        <input
          type="text"
          role="combobox"
          aria-label={t.title}
          aria-expanded={items.length > 0}
          aria-controls={`${id}-list`}
          aria-activedescendant={active ? place(active) : undefined}
          aria-autocomplete="list"
          placeholder={t.hint}
          dir="auto"
          autoComplete="off"
          spellCheck={false}
          maxLength={200}
          value={typed}
          // The dialog was opened to type here.
          // oxlint-disable-next-line jsx-a11y/no-autofocus
          autoFocus
          onChange={(event) => {
            onType(event.target.value);
            setAt(null);
          }}
          onKeyDown={onKeyDown}
        />
        <kbd aria-hidden="true">Esc</kbd>
      </div>
      <div ref={list} id={`${id}-list`} role="listbox" aria-label={t.title} className={styles.list}>
        {found.map(({ group, items: members }) => (
          <div key={group} role="group" aria-labelledby={`${id}-${group}`} className={styles.group}>
            <span id={`${id}-${group}`} role="presentation" className={styles.heading}>
              {t.groups[group]}
            </span>
            {members.map((item) => (
              <Option key={item.id} id={place(item)} item={item} chosen={item === active} onChoose={onChoose} onPoint={setAt} />
            ))}
          </div>
        ))}
      </div>
      <p role="status" className={items.length > 0 ? "unseen" : styles.none}>
        {items.length > 0 ? t.results(items.length) : t.none}
      </p>
      <footer className={styles.keys}>{t.keys}</footer>
    </>
  );
}

interface OptionProps {
  id: string;
  item: Item;
  chosen: boolean;
  onChoose: (item: Item) => void;
  onPoint: (id: string) => void;
}

function Option({ id, item, chosen, onChoose, onPoint }: OptionProps) {
  return (
    // Its keys are those of the input, which keeps the focus.
    // oxlint-disable-next-line jsx-a11y/click-events-have-key-events
    <div
      id={id}
      role="option"
      tabIndex={-1}
      aria-selected={chosen}
      className={styles.option}
      onClick={() => onChoose(item)}
      onPointerMove={() => !chosen && onPoint(item.id)}
    >
      <Icon name={item.icon} />
      <bdi dir="auto" className={styles.label}>
        {visible(item.label)}
      </bdi>
      {item.note && (
        <bdi dir="auto" className={styles.note}>
          {visible(item.note)}
        </bdi>
      )}
    </div>
  );
}
