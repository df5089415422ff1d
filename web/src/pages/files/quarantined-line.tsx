/** One line that could not be understood, whole. */
import { useGet } from "../../api/queries";
import type { QuarantineDetail } from "../../api/shapes";
import { useFormat } from "../../format";
import { Code, Copy, Drawer, Facts, Loaded, PathText, Text, Time } from "../../parts";
import { useText } from "../../text";
import { text } from "./text";

export function QuarantinedLine({ id, onClose }: { id: number; onClose: () => void }) {
  const t = useText(text);
  const f = useFormat();
  const found = useGet<QuarantineDetail>(`/quarantine/${id}`);
  return (
    <Drawer open title={t.entry(id)} onClose={onClose}>
      <Loaded query={found}>
        {(row) => (
          <>
            <Facts
              facts={[
                [t.reason, <Text key="reason">{row.reason}</Text>],
                [t.path, <PathText key="path">{row.file}</PathText>],
                [t.offset, f.count(row.offset)],
                [t.length, f.size(row.length)],
                [t.found, <Time key="found" at={row.found_at} as="exact" />],
                [t.outcome, row.retry_result ?? undefined],
              ]}
            />
            <Copy text={`${row.file}:${row.offset}`} label={t.copyPlace} />
            <h3>{t.line}</h3>
            {row.line === null ? <p className="soft">{t.tooLong}</p> : <Code text={row.line} label={t.line} />}
            {row.cut && <p className="soft">{t.cut}</p>}
          </>
        )}
      </Loaded>
    </Drawer>
  );
}
