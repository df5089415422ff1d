/** The filters above a list; behind a button if there is no room. */
import { useState } from "react";

import type { Catalog } from "../../api/shapes";
import { Bar, Button, Drawer, Icon, NARROW, Select, useMedia, visible } from "../../parts";
import { useText, useTitle } from "../../text";
import { useParams } from "../../url";
import { PeriodFilter } from "../sessions/period-filter";
import styles from "./filters.module.css";
import { NumberField } from "./number-field";
import { text } from "./text";
import type { Filters } from "./use-filters";
import { NO_FILTERS, isFiltered } from "./use-filters";

interface FilterBarProps {
  filters: Filters;
  statuses: readonly string[];
  catalog: Catalog | undefined;
  /** Jobs have an event; calls may be those of one job. */
  events?: boolean;
}

export function FilterBar({ filters, statuses, catalog, events }: FilterBarProps) {
  const t = useText(text);
  const titleOf = useTitle();
  const params = useParams();
  const words: Record<string, string> = t.statuses;
  const apps = (catalog?.apps ?? []).map((app) => ({ value: app.app, label: `${app.app} ${visible(titleOf(app))}` }));
  const names = (catalog?.events ?? []).map(({ event }) => ({ value: event, label: visible(event) }));
  const [open, setOpen] = useState(false);
  const narrow = useMedia(NARROW);
  const clear = isFiltered(filters) && (
    <Button tone="quiet" small onClick={() => params.change(NO_FILTERS)}>
      {t.clear}
    </Button>
  );
  const controls = (
    <>
      <Select
        label={t.status}
        value={filters.status}
        none={t.any}
        options={statuses.map((status) => ({ value: status, label: words[status] ?? status }))}
        onChange={(status) => params.change({ status })}
      />
      {events && (
        <Select
          label={t.event}
          value={filters.event}
          none={t.any}
          options={withChosen(names, filters.event)}
          onChange={(event) => params.change({ event })}
        />
      )}
      <Select
        label={t.app}
        value={filters.app}
        none={t.any}
        options={withChosen(apps, filters.app)}
        onChange={(app) => params.change({ app })}
      />
      <NumberField label={t.store} value={filters.site} onChange={(site) => params.change({ site })} />
      <NumberField label={t.member} value={filters.member} onChange={(member) => params.change({ member })} />
      <PeriodFilter period={filters} onChange={(period) => params.change({ ...period })} open={narrow} />
      {filters.job && (
        <button type="button" className={styles.chip} onClick={() => params.change({ job: null })}>
          {t.ofJob(filters.job)}
          <Icon name="close" size={12} />
        </button>
      )}
    </>
  );
  if (!narrow) {
    return (
      <Bar label={t.filters}>
        {controls}
        {clear}
      </Bar>
    );
  }
  const set = Object.values(filters).filter((value) => value !== "").length;
  return (
    <Bar>
      <Button icon="filter" onClick={() => setOpen(true)}>
        {set > 0 ? t.filtersSet(set) : t.filters}
      </Button>
      {clear}
      <Drawer open={open} onClose={() => setOpen(false)} title={t.filters}>
        <div className={styles.drawer}>{controls}</div>
      </Drawer>
    </Bar>
  );
}

/** The options, and selected values that are not among them: an old event, or an edited address. */
function withChosen(options: { value: string; label: string }[], chosen: string) {
  if (!chosen || options.some((option) => option.value === chosen)) return options;
  return [...options, { value: chosen, label: visible(chosen) }];
}
