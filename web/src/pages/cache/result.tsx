/** One cached result whole. */
import { useGet } from "../../api/queries";
import type { CacheDetail } from "../../api/shapes";
import { Button, Copy, Drawer, Facts, JsonView, Loaded, StateMark, Text, Time } from "../../parts";
import { useText } from "../../text";
import { text } from "./text";

interface ResultProps {
  id: number;
  onClose: () => void;
  /** Absent for those who may not. */
  onInvalidate?: () => void;
}

export function Result({ id, onClose, onInvalidate }: ResultProps) {
  const t = useText(text);
  const found = useGet<CacheDetail>(`/cache/${id}`);
  const valid = found.data?.status === "valid";
  return (
    <Drawer
      open
      title={t.one(id)}
      onClose={onClose}
      actions={
        onInvalidate && valid ? (
          <Button tone="danger" onClick={onInvalidate}>
            {t.take}
          </Button>
        ) : undefined
      }
    >
      <Loaded query={found}>
        {(row) => (
          <>
            <Facts
              facts={[
                [t.type, row.cache_type],
                [t.site, row.site_id],
                [t.target, <Text key="target">{row.target_id}</Text>],
                [t.status, <StateMark key="status" state={row.status} />],
                [t.made, <Time key="made" at={row.created_at} as="exact" />],
                [t.expires, row.expires_at ? <Time key="expires" at={row.expires_at} as="exact" /> : t.never],
                [t.by, row.triggered_by ?? undefined],
              ]}
            />
            <h3>
              {t.body} <Copy text={() => JSON.stringify(row.result, null, 2)} />
            </h3>
            <JsonView value={row.result} open={3} />
          </>
        )}
      </Loaded>
    </Drawer>
  );
}
