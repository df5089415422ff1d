/** Choosing: tabs, a few alternatives side by side, one of many, a search box. */
import type { KeyboardEvent, ReactNode } from "react";
import { useCallback, useEffect, useId, useRef, useState } from "react";

import { useText } from "../text";
import styles from "./controls.module.css";
import type { IconName } from "./icon";
import { Icon } from "./icon";
import { text } from "./words";

export interface Choice<T extends string> {
  value: T;
  label: ReactNode;
  icon?: IconName;
  /** Shown as a hint. */
  title?: string;
}

interface ChoiceProps<T extends string> {
  /** The current choice, for screen readers. */
  label: string;
  choices: readonly Choice<T>[];
  /** Null: none of them. */
  value: T | null;
  onChange: (value: T) => void;
}

/** Moves the choice with the arrow keys, as a group of radio buttons or tabs does. */
function stepped<T extends string>(event: KeyboardEvent, { choices, value, onChange }: ChoiceProps<T>): void {
  const moves: Record<string, number> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  const at = choices.findIndex((choice) => choice.value === value);
  const move = moves[event.key];
  let next = move === undefined ? -1 : (at + move + choices.length) % choices.length;
  if (event.key === "Home") next = 0;
  if (event.key === "End") next = choices.length - 1;
  const choice = choices[next];
  if (!choice) return;
  event.preventDefault();
  event.stopPropagation();
  onChange(choice.value);
  event.currentTarget.querySelectorAll<HTMLElement>("[data-choice]")[next]?.focus();
}

/** Tabs; give the content below `role="tabpanel"` with `panelProps(id, value)`. */
export function Tabs<T extends string>(props: ChoiceProps<T> & { id?: string }) {
  const own = useId();
  const id = props.id ?? own;
  return (
    <div role="tablist" aria-label={props.label} className={styles.tabs} onKeyDown={(event) => stepped(event, props)}>
      {props.choices.map((choice) => (
        <button
          key={choice.value}
          type="button"
          role="tab"
          data-choice
          id={`${id}-tab-${choice.value}`}
          aria-controls={props.id && choice.value === props.value ? `${id}-panel` : undefined}
          aria-selected={choice.value === props.value}
          tabIndex={choice.value === props.value ? 0 : -1}
          title={choice.title}
          onClick={() => props.onChange(choice.value)}
        >
          {choice.icon && <Icon name={choice.icon} />}
          {choice.label}
        </button>
      ))}
    </div>
  );
}

/** The attributes of the part that the tabs of this id change. */
export function panelProps(id: string, value: string) {
  return { role: "tabpanel", id: `${id}-panel`, "aria-labelledby": `${id}-tab-${value}` } as const;
}

/** A choice between a few alternatives. */
export function Segmented<T extends string>(props: ChoiceProps<T> & { iconsOnly?: boolean }) {
  return (
    <div role="radiogroup" aria-label={props.label} className={styles.segmented} onKeyDown={(event) => stepped(event, props)}>
      {props.choices.map((choice, index) => (
        <button
          key={choice.value}
          type="button"
          role="radio"
          data-choice
          aria-checked={choice.value === props.value}
          aria-label={props.iconsOnly && typeof choice.label === "string" ? choice.label : undefined}
          tabIndex={choice.value === props.value || (props.value === null && index === 0) ? 0 : -1}
          title={choice.title ?? (props.iconsOnly && typeof choice.label === "string" ? choice.label : undefined)}
          onClick={() => props.onChange(choice.value)}
        >
          {choice.icon && <Icon name={choice.icon} size={14} />}
          {!props.iconsOnly && choice.label}
        </button>
      ))}
    </div>
  );
}

interface SelectProps {
  label: string;
  value: string;
  options: readonly { value: string; label: string }[];
  onChange: (value: string) => void;
  /** Shown first, for no choice (""). */
  none?: string;
  /** The label is only read out. */
  bare?: boolean;
}

/** One of many. */
export function Select({ label, value, options, onChange, none, bare }: SelectProps) {
  return (
    <label className={styles.select} data-set={value !== "" && none !== undefined ? true : undefined}>
      <span className={bare ? "unseen" : undefined}>{label}</span>
      <select value={value} onChange={(event) => onChange(event.target.value)}>
        {none !== undefined && <option value="">{none}</option>}
        {options.map((option) => (
          <option key={option.value} value={option.value}>
            {option.label}
          </option>
        ))}
      </select>
      <Icon name="down" size={12} />
    </label>
  );
}

interface SearchInputProps {
  label: string;
  value: string;
  /** Called when typing rests, and at once for Enter and clearing. */
  onChange: (value: string) => void;
  onSubmit?: (value: string) => void;
  placeholder?: string;
  id?: string;
  /** The search of the whole console, not a filter of one page. */
  main?: boolean;
  /** Debounce time of typing, in milliseconds. */
  rest?: number;
}

export function SearchInput({ label, value, onChange, onSubmit, placeholder, id, main, rest = 250 }: SearchInputProps) {
  const t = useText(text);
  const [typed, setTyped] = useState(value);
  const input = useRef<HTMLInputElement>(null);
  const told = useRef(value);
  const change = useRef(onChange);
  useEffect(() => {
    change.current = onChange;
  });
  useEffect(() => {
    // The value changed from outside, for instance by the back button; our own change must not undo later typing.
    if (value !== told.current) setTyped(value);
    told.current = value;
  }, [value]);
  const tell = useCallback((next: string) => {
    told.current = next;
    change.current(next);
  }, []);
  useEffect(() => {
    if (typed === told.current) return undefined;
    const timer = window.setTimeout(() => tell(typed), rest);
    return () => window.clearTimeout(timer);
  }, [typed, rest, tell]);
  const clear = () => {
    setTyped("");
    tell("");
    input.current?.focus();
  };
  return (
    <form
      role={main ? "search" : undefined}
      className={styles.search}
      onSubmit={(event) => {
        event.preventDefault();
        tell(typed);
        onSubmit?.(typed);
      }}
    >
      <Icon name="search" />
      <input
        ref={input}
        id={id}
        type="search"
        enterKeyHint="search"
        aria-label={label}
        placeholder={placeholder ?? label}
        autoComplete="off"
        spellCheck={false}
        dir="auto"
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          if (typed) clear();
          else input.current?.blur();
        }}
      />
      {typed && (
        <button type="button" aria-label={t.clearSearch} title={t.clear} onClick={clear}>
          <Icon name="close" size={12} />
        </button>
      )}
    </form>
  );
}
