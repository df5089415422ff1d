/** Where spans are sent: each destination with its ledger. */
import { useGet } from "../../api/queries";
import type { Exports as ExportsShape } from "../../api/shapes";
import { Copy, Icon, Loaded, Page } from "../../parts";
import { useTypeable } from "../../program";
import { useText } from "../../text";
import { DestinationCard } from "./destination";
import styles from "./exports.module.css";
import { None } from "./none";
import { text } from "./text";

export default function Exports() {
  const t = useText(text);
  const found = useGet<ExportsShape>("/exports", {}, { every: 2000 });
  return (
    <Page title={t.title} note={t.note}>
      <Loaded query={found} lines={8}>
        {({ exporter, destinations }) =>
          destinations.length > 0 ? (
            <>
              {!exporter.running && <Stopped />}
              {destinations.map((row) => (
                <DestinationCard key={row.name} row={row} />
              ))}
            </>
          ) : (
            <None />
          )
        }
      </Loaded>
    </Page>
  );
}

function Stopped() {
  const t = useText(text);
  const up = useTypeable()("agenttrace up");
  return (
    <p className={styles.stopped} role="status">
      <Icon name="warn" />
      <span>
        {t.stopped} <code>{up}</code>
      </span>
      <Copy text={up} />
    </p>
  );
}
