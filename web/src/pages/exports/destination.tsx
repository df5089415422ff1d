/** One destination: its state, its spans by delivery state, and actions. */
import { useIsAdmin } from "../../api/queries";
import type { Destination } from "../../api/shapes";
import { useFormat } from "../../format";
import { Badge, DestinationMark, Facts, Section, Text, Time, visible } from "../../parts";
import { useText } from "../../text";
import { useParams } from "../../url";
import { Controls, Refused, Unknown } from "./actions";
import styles from "./exports.module.css";
import { LedgerBar } from "./ledger-bar";
import { Spans } from "./spans";
import type { Listed } from "./states";
import { LISTED } from "./states";
import { text } from "./text";

/** The type of a destination that is the server of a team. */
const TEAM = "team";

export function DestinationCard({ row }: { row: Destination }) {
  const t = useText(text);
  const admin = useIsAdmin();
  const params = useParams();
  const listed = params.text("of") === row.name ? LISTED.find((state) => state === params.text("state")) : undefined;
  const list = (state: Listed | null) => params.change({ of: state && row.name, state }, { push: true });
  const toggle = (state: Listed) => list(state === listed ? null : state);
  return (
    <Section
      title={<Text>{row.name}</Text>}
      note={<Place row={row} />}
      actions={admin && row.state !== "removed" ? <Controls row={row} /> : undefined}
    >
      <div className={styles.card}>
        <How row={row} />
        <LedgerBar row={row} listed={listed} onList={toggle} />
        {row.kind === TEAM && <p className="soft">{t.team}</p>}
        {row.refused > 0 && row.kind !== TEAM && <Refused row={row} open={listed === "refused"} onShow={() => toggle("refused")} />}
        {row.unknown > 0 && <Unknown row={row} open={listed === "unknown"} onShow={() => toggle("unknown")} />}
        <Figures row={row} />
        {listed && <Spans row={row} state={listed} onClose={() => list(null)} />}
      </div>
    </Section>
  );
}

function Place({ row }: { row: Destination }) {
  return (
    <span className={styles.place}>
      <Badge>{row.kind}</Badge> {row.address && <Text mono>{row.address}</Text>}
    </span>
  );
}

/** The state, with why and for how long. */
function How({ row }: { row: Destination }) {
  const t = useText(text);
  const f = useFormat();
  return (
    <p className={styles.how}>
      <DestinationMark state={row.state} />
      {row.retry_at && <span className="soft">{t.until(f.timeOfDay(row.retry_at))}</span>}
      {row.reason && <Text className={styles.reason}>{row.reason}</Text>}
    </p>
  );
}

function Figures({ row }: { row: Destination }) {
  const t = useText(text);
  const f = useFormat();
  const error = row.last_error && row.last_error !== row.reason;
  return (
    <div className={styles.figures}>
      <Facts
        facts={[
          [t.last, row.last_success_at ? <Time key="last" at={row.last_success_at} /> : undefined],
          [t.oldest, row.oldest_queued_at ? <Time key="oldest" at={row.oldest_queued_at} /> : undefined],
          [t.sent, row.requests > 0 ? t.sentIn(f.size(row.sent_bytes), f.count(row.requests)) : undefined],
          [t.annotations, row.annotations > 0 ? f.count(row.annotations) : undefined],
          [t.refusedAnnotations, row.refused_annotations > 0 ? `${f.count(row.refused_annotations)} (${visible(row.refusal ?? "")})` : undefined],
          [t.rejected, row.rejected > 0 ? t.rejectedSpans(f.count(row.rejected)) : undefined],
          row.since ? [t.since, <Time key="since" at={row.since} as="clock" />] : [t.begins, row.added_at ? t.everything : undefined],
        ]}
      />
      {error && (
        <p>
          <span className="soft">{t.lastError}</span> <Text>{row.last_error}</Text>{" "}
          <span className="faint">
            <Time at={row.last_error_at} />
          </span>
        </p>
      )}
    </div>
  );
}
