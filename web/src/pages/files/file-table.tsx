/** Every log file with its offset, and totals over all of them. */
import { usePages } from "../../api/queries";
import type { FileList, FileRow, RecordingState } from "../../api/shapes";
import { useFormat } from "../../format";
import type { Column } from "../../parts";
import { Bar, Button, Empty, Loaded, PathText, SearchInput, Segmented, Stat, Stats, Table, Text, Time } from "../../parts";
import { useTypeable } from "../../program";
import { useText } from "../../text";
import { useChoice, useParam } from "../../url";
import styles from "./files.module.css";
import { Internals } from "./recording";
import { text } from "./text";

const STATES = ["all", "behind", "gone", "error"] as const;

export function FileTable() {
  const t = useText(text);
  const f = useFormat();
  const [state, setState] = useChoice("state", STATES);
  const [wanted, setWanted] = useParam("find");
  const pages = usePages<FileRow, FileList>("/files", { state, q: wanted }, { keep: true, every: 2000 });
  return (
    <Loaded query={pages}>
      {() => (
        <div className={styles.stack}>
          {pages.first && <Recording state={pages.first.recording} />}
          {pages.first && <Internals state={pages.first.recording} />}
          <Bar label={t.files}>
            <SearchInput label={t.find} placeholder={t.find} value={wanted} onChange={setWanted} />
            <Segmented
              label={t.state}
              value={state}
              choices={STATES.map((value) => ({ value, label: t.states[value] }))}
              onChange={(value) => setState(value)}
            />
            <span className="soft">{t.total(f.count(pages.first?.total ?? 0))}</span>
          </Bar>
          {pages.items.length > 0 ? (
            <Rows rows={pages.items} />
          ) : (
            <Empty title={t.noFiles} icon="files">
              <p>{t.noFilesHow}</p>
              {(wanted || state !== "all") && (
                <Button
                  onClick={() => {
                    setWanted("");
                    setState("all");
                  }}
                >
                  {t.clear}
                </Button>
              )}
            </Empty>
          )}
          {pages.hasNextPage && (
            <Button busy={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
              {t.more}
            </Button>
          )}
        </div>
      )}
    </Loaded>
  );
}

function Recording({ state }: { state: RecordingState }) {
  const t = useText(text);
  const typeable = useTypeable();
  const f = useFormat();
  const behind = state.behind_bytes > 0 ? t.behindIn(f.size(state.behind_bytes), f.count(state.behind_files)) : t.nothing;
  return (
    <Stats>
      <Stat
        label={t.recorder}
        value={state.running ? t.running(String(state.pid ?? "?")) : t.stopped}
        note={state.running ? undefined : typeable(t.start)}
        tone={state.running ? "working" : "waiting"}
      />
      <Stat label={t.behind} value={behind} tone={state.behind_bytes > 0 ? "waiting" : "plain"} />
      <Stat label={t.read} value={f.size(state.read_bytes)} />
      <Stat label={t.recorded} value={f.count(state.lines.recorded)} />
      <Stat label={t.duplicate} value={f.count(state.lines.duplicate)} />
      <Stat label={t.ignored} value={f.count(state.lines.ignored)} />
      {state.problem !== null && <Stat label={t.problem} value={<Text>{state.problem}</Text>} note={t.problemNote} tone="failed" />}
      <Stat
        label={t.quarantined}
        value={f.count(state.lines.quarantined)}
        note={state.counted_only > 0 ? t.countedOnly(f.count(state.counted_only)) : undefined}
        tone={state.quarantine_open > 0 ? "waiting" : "plain"}
      />
      {state.links_not_followed > 0 && <Stat label={t.links} value={f.count(state.links_not_followed)} note={t.linksNote} tone="waiting" />}
      {state.lost_bytes > 0 && <Stat label={t.lost} value={f.size(state.lost_bytes)} note={t.lostNote} tone="failed" />}
      {state.search_backlog > 0 && <Stat label={t.backlog} value={f.count(state.search_backlog)} />}
      <Stat label={t.database} value={f.size(state.database_bytes)} />
    </Stats>
  );
}

function Rows({ rows }: { rows: FileRow[] }) {
  const t = useText(text);
  const f = useFormat();
  const columns: Column<FileRow>[] = [
    { name: "path", title: t.path, lead: true, cell: (row) => <PathText>{row.path}</PathText> },
    { name: "offset", title: t.offset, end: true, width: "8rem", cell: (row) => f.count(row.offset) },
    { name: "size", title: t.size, end: true, width: "8rem", cell: (row) => (row.size === null ? "–" : f.count(row.size)) },
    {
      name: "behind",
      title: t.behind,
      end: true,
      width: "7rem",
      cell: (row) => (row.behind > 0 ? <strong>{f.size(row.behind)}</strong> : <span className="faint">0</span>),
    },
    { name: "lines", title: t.lines, end: true, width: "7rem", cell: (row) => f.count(row.lines) },
    { name: "last", title: t.last, width: "9rem", cell: (row) => <Time at={row.last_read_at} as="ago" /> },
    { name: "remarks", title: t.remarks, width: "16rem", cell: (row) => <Remarks row={row} /> },
  ];
  return <Table label={t.files} columns={columns} rows={rows} rowKey={(row) => row.path} />;
}

function Remarks({ row }: { row: FileRow }) {
  const t = useText(text);
  const f = useFormat();
  const remarks = [
    row.gone && t.gone,
    row.generation > 0 && t.generation(row.generation),
    row.lost_bytes > 0 && t.lostBytes(f.size(row.lost_bytes)),
    row.quarantined > 0 && t.notUnderstood(f.count(row.quarantined)),
    row.counted_only > 0 && t.countedOnly(f.count(row.counted_only)),
  ].filter(Boolean);
  return (
    <>
      {row.error && (
        <span className={styles.error}>
          <Text>{row.error}</Text>
        </span>
      )}
      <span className="soft">{remarks.join("; ")}</span>
    </>
  );
}
