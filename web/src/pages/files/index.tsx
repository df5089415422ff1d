/** Log files with their offsets, and the quarantine. */
import { useGet } from "../../api/queries";
import type { QuarantineList } from "../../api/shapes";
import { useFormat } from "../../format";
import { Badge, Page, Tabs, panelProps } from "../../parts";
import { useText } from "../../text";
import { useChoice } from "../../url";
import { FileTable } from "./file-table";
import { Quarantine } from "./quarantine";
import { text } from "./text";

export default function Files() {
  const t = useText(text);
  const f = useFormat();
  const [tab, setTab] = useChoice("tab", ["files", "quarantine"]);
  const waiting = useGet<QuarantineList>("/quarantine", { limit: 1 }, { every: 5000 }).data?.open ?? 0;
  const choices = [
    { value: "files" as const, label: t.files },
    {
      value: "quarantine" as const,
      label: (
        <>
          {t.quarantine} {waiting > 0 && <Badge tone="waiting">{f.count(waiting)}</Badge>}
        </>
      ),
    },
  ];
  return (
    <Page title={t.title} note={t.note}>
      <Tabs id="files" label={t.tabs} choices={choices} value={tab} onChange={(value) => setTab(value, { push: true })} />
      <div {...panelProps("files", tab)}>{tab === "files" ? <FileTable /> : <Quarantine />}</div>
    </Page>
  );
}
