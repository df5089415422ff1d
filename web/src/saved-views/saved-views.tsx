/** Saved views of a page as chips, and saving what it shows. */
import { useState } from "react";

import { useIsAdmin } from "../api/queries";
import type { SavedView } from "../api/shapes";
import { Button } from "../parts/button";
import { copy } from "../parts/copy";
import { Icon } from "../parts/icon";
import { Popup } from "../parts/popup";
import { visible } from "../parts/text";
import { toast } from "../parts/toast";
import { useText } from "../text";
import styles from "./saved-views.module.css";
import { text } from "./text";
import { useOldFilters, useViewChange, useViews } from "./use-views";
import type { ViewPage } from "./views";
import { LONGEST_NAME, addressOf, spelled } from "./views";

interface SavedViewsProps {
  page: ViewPage;
  /** What the page shows, as the search part of its address; "" for what it shows anyway. */
  search: string;
  /** Shows a view. */
  onApply: (search: string) => void;
}

export function SavedViews({ page, search, onApply }: SavedViewsProps) {
  const t = useText(text);
  useOldFilters();
  const all = useViews().filter((view) => view.page === page);
  const views = useViewChange();
  const shown = spelled(search);
  const worth = shown !== "" && !all.some((view) => spelled(view.search) === shown);
  if (all.length === 0 && !worth) return null;
  return (
    <div className={styles.chips} role="group" aria-label={t.saved}>
      {all.map((view) => (
        <Chip key={view.id} view={view} search={shown} onApply={onApply} />
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
                views.save(page, name, shown);
                close();
              }}
            />
          )}
        </Popup>
      )}
    </div>
  );
}

interface ChipProps {
  view: SavedView;
  search: string;
  onApply: (search: string) => void;
}

function Chip({ view, search, onApply }: ChipProps) {
  const t = useText(text);
  const on = spelled(view.search) === search;
  return (
    <span className={styles.chip} data-on={on || undefined}>
      <button type="button" aria-pressed={on} className={styles.name} onClick={() => onApply(view.search)}>
        <bdi dir="auto">{visible(view.name)}</bdi>
      </button>
      <Popup button={<Icon name="down" size={10} />} label={t.menu(visible(view.name))} quiet>
        {(close) => (view.mine ? <OwnMenu view={view} search={search} onDone={close} /> : <OthersMenu view={view} onDone={close} />)}
      </Popup>
    </span>
  );
}

function OwnMenu({ view, search, onDone }: { view: SavedView; search: string; onDone: () => void }) {
  const t = useText(text);
  const views = useViewChange();
  const done = (run: () => void) => () => {
    run();
    onDone();
  };
  return (
    <div className={styles.menu}>
      <NameForm name={view.name} does={t.rename} onName={(name) => done(() => views.change(view, { name }))()} />
      <label className={styles.share}>
        <input
          type="checkbox"
          checked={view.shared}
          onChange={(event) => views.change(view, { shared: event.target.checked })}
        />
        {t.share}
      </label>
      <div className={styles.actions}>
        {search !== "" && spelled(view.search) !== search && (
          <Button small onClick={done(() => views.change(view, { search }))}>
            {t.update}
          </Button>
        )}
        <LinkCopy view={view} onDone={onDone} />
        <Button tone="danger" small onClick={done(() => views.remove(view))}>
          {t.remove}
        </Button>
      </div>
    </div>
  );
}

function OthersMenu({ view, onDone }: { view: SavedView; onDone: () => void }) {
  const t = useText(text);
  const admin = useIsAdmin();
  const views = useViewChange();
  return (
    <div className={styles.menu}>
      <span className="faint">{t.sharedBy(visible(view.owner))}</span>
      <div className={styles.actions}>
        <LinkCopy view={view} onDone={onDone} />
        {admin && (
          <Button
            tone="danger"
            small
            onClick={() => {
              views.remove(view);
              onDone();
            }}
          >
            {t.remove}
          </Button>
        )}
      </div>
    </div>
  );
}

function LinkCopy({ view, onDone }: { view: SavedView; onDone: () => void }) {
  const t = useText(text);
  const run = () => {
    void copy(window.location.origin + addressOf(view)).then(
      () => toast(t.linkCopied),
      () => toast(t.linkFailed, { failed: true }),
    );
    onDone();
  };
  return (
    <Button small icon="link" onClick={run}>
      {t.copyLink}
    </Button>
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
