/** Caveats of the numbers: unpriced tokens, estimates, duplicates, sessions that wait to be examined. */
import { useState } from "react";

import type { Bill } from "../../api/shapes";
import { useFormat } from "../../format";
import { Button, Code, Dialog, visible } from "../../parts";
import { useText } from "../../text";
import styles from "./remarks-strip.module.css";
import { remarksText } from "./remarks-text";

/** A price for each of these models, to be completed. */
export function priceLines(models: readonly string[]): string {
  return models
    .map((model) => `[prices.${JSON.stringify(model)}]\ncurrency = "USD"\ninput = 0.00\noutput = 0.00\ncache_read = 0.00\n`)
    .join("\n");
}

export function RemarksStrip({ bill, notExamined = 0 }: { bill: Bill; notExamined?: number }) {
  const t = useText(remarksText);
  const f = useFormat();
  const [open, setOpen] = useState(false);
  const { unpriced_tokens: unpriced, unpriced_models: models, estimated_requests: estimated, folded_copies: folded } = bill;
  if (!unpriced && !estimated && !folded && !notExamined) return <p className={styles.strip}>{t.allCounted}</p>;
  return (
    <ul role="list" className={styles.strip}>
      {unpriced > 0 && (
        <li className={styles.unpriced}>
          <strong>{t.unpriced(f.tokens(unpriced))}</strong> {t.unpricedNote(named(models, t))}{" "}
          <Button tone="quiet" small onClick={() => setOpen(true)}>
            {t.setPrice}
          </Button>
        </li>
      )}
      {estimated > 0 && (
        <li>
          <strong>{t.estimated(f.count(estimated))}</strong> {t.estimatedNote}
        </li>
      )}
      {folded > 0 && (
        <li>
          <strong>{t.folded(f.count(folded))}</strong> {t.foldedNote}
        </li>
      )}
      {notExamined > 0 && (
        <li>
          <strong>{t.notExamined(f.count(notExamined))}</strong> {t.notExaminedNote}
        </li>
      )}
      <Dialog open={open} onClose={() => setOpen(false)} title={t.setPrice} wide>
        <div className={styles.how}>
          <p>{t.priceHow}</p>
          <Code label="agenttrace.toml" text={priceLines(models)} />
          <p className="faint">{t.priceMore}</p>
        </div>
      </Dialog>
    </ul>
  );
}

function named(models: readonly string[], t: (typeof remarksText)["en"]): string {
  const shown = models.slice(0, 3).map((model) => visible(model)).join(", ");
  return models.length > 3 ? t.andMore(shown, models.length - 3) : shown;
}
