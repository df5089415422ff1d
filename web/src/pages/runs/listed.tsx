/** The pages of a list, or the reason why it is empty. */
import type { ReactNode } from "react";

import type { Pages } from "../../api/queries";
import { Button, Empty, LinkButton, Loaded, useSteadyError } from "../../parts";
import { useText } from "../../text";
import { useParams } from "../../url";
import { isAway } from "./away";
import styles from "./runs.module.css";
import { text } from "./text";
import { Command, Unavailable } from "./unavailable";
import { NO_FILTERS } from "./use-filters";

interface ListedProps<T> {
  pages: Pages<T>;
  /** The filters. */
  bar: ReactNode;
  filtered: boolean;
  /** Shown if the list is empty. */
  none: ReactNode;
  children: ReactNode;
}

export function Listed<T>({ pages, bar, filtered, none, children }: ListedProps<T>) {
  const t = useText(text);
  const error = useSteadyError(pages);
  if (isAway(error) && pages.data === undefined) return <Unavailable error={error} />;
  return (
    <div className={styles.stack}>
      {bar}
      <Loaded query={pages} lines={10}>
        {() => {
          if (pages.items.length === 0) return filtered ? <NothingFits /> : none;
          return (
            <>
              <div className={styles.rows}>{children}</div>
              {pages.hasNextPage && (
                <div>
                  <Button busy={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
                    {t.more}
                  </Button>
                </div>
              )}
            </>
          );
        }}
      </Loaded>
    </div>
  );
}

function NothingFits() {
  const t = useText(text);
  const params = useParams();
  return (
    <Empty title={t.nothingFits}>
      <Button onClick={() => params.change(NO_FILTERS)}>{t.clear}</Button>
    </Empty>
  );
}

/** How a first job is made. */
export function TriggerHint({ title, how, chat }: { title: string; how: string; chat?: boolean }) {
  const t = useText(text);
  return (
    <Empty icon="runs" title={title}>
      <p>{how}</p>
      <Command text="agenttrace trigger consumption --site 1 --member 2" />
      {chat && <LinkButton href="/chat">{t.toChat}</LinkButton>}
    </Empty>
  );
}
