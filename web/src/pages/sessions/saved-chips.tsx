/** Saved filters as chips, and saving those that are set. */
import { useState } from "react";

import { Button, Icon, Popup, visible } from "../../parts";
import { useText } from "../../text";
import type { View } from "./filters";
import { countSet, sameFilters } from "./filters";
import type { SavedFilter } from "./saved";
import { LONGEST_NAME, changeSaved, renamed, savedView, searchOf, useSaved, withSaved, withoutSaved } from "./saved";
import styles from "./saved-chips.module.css";
import { text } from "./text";

interface SavedChipsProps {
  view: View;
  onApply: (view: View) => void;
}

export function SavedChips({ view, onApply }: SavedChipsProps) {
  const t = useText(text);
  const all = useSaved();
  const known = all.some((saved) => sameFilters(savedView(saved).filters, view.filters));
  const worth = !known && (countSet(view.filters) > 0 || view.filters.q !== "");
  if (all.length === 0 && !worth) return null;
  return (
    <div className={styles.chips} role="group" aria-label={t.saved}>
      {all.map((saved) => (
        <Chip key={saved.name} saved={saved} all={all} view={view} onApply={onApply} />
      ))}
      {worth && (
        <Popup
          button={
            <>
              <Icon name="star" size={14} />
              {t.save}
            </>
          }
          quiet
        >
          {(close) => (
            <NameForm
              name=""
              does={t.saveDo}
              onName={(name) => {
                changeSaved(withSaved(all, { name, search: searchOf(view) }));
                close();
              }}
            />
          )}
        </Popup>
      )}
    </div>
  );
}

interface ChipProps extends SavedChipsProps {
  saved: SavedFilter;
  all: readonly SavedFilter[];
}

function Chip({ saved, all, view, onApply }: ChipProps) {
  const t = useText(text);
  const on = sameFilters(savedView(saved).filters, view.filters);
  return (
    <span className={styles.chip} data-on={on || undefined}>
      <button type="button" aria-pressed={on} className={styles.name} onClick={() => onApply(savedView(saved))}>
        <bdi dir="auto">{visible(saved.name)}</bdi>
      </button>
      <Popup button={<Icon name="down" size={10} />} label={t.savedMenu(visible(saved.name))} quiet>
        {(close) => (
          <div className={styles.change}>
            <NameForm
              name={saved.name}
              does={t.rename}
              onName={(name) => {
                changeSaved(renamed(all, saved.name, name));
                close();
              }}
            />
            <Button tone="danger" small onClick={() => changeSaved(withoutSaved(all, saved.name))}>
              {t.remove}
            </Button>
          </div>
        )}
      </Popup>
    </span>
  );
}

function NameForm({ name, does, onName }: { name: string; does: string; onName: (name: string) => void }) {
  const t = useText(text);
  const [typed, setTyped] = useState(name);
  return (
    <form
      className={styles.form}
      onSubmit={(event) => {
        event.preventDefault();
        if (typed.trim()) onName(typed);
      }}
    >
      <input
        type="text"
        aria-label={t.saveAs}
        placeholder={t.saveAs}
        dir="auto"
        maxLength={LONGEST_NAME}
        value={typed}
        // The panel was opened to type this name.
        // oxlint-disable-next-line jsx-a11y/no-autofocus
        autoFocus
        onChange={(event) => setTyped(event.target.value)}
      />
      <Button type="submit" small disabled={!typed.trim()}>
        {does}
      </Button>
    </form>
  );
}
