/** Every setting with its value and its origin. */
import { useGet } from "../../api/queries";
import type { SettingList, SettingRow } from "../../api/shapes";
import type { Column } from "../../parts";
import { Badge, Bar, Button, Empty, Facts, Loaded, PathText, SearchInput, Table, Text } from "../../parts";
import { useText } from "../../text";
import { useFlagParam, useParam } from "../../url";
import styles from "./settings.module.css";
import { text } from "./text";

export function SettingTable() {
  const t = useText(text);
  const found = useGet<SettingList>("/settings");
  const [wanted, setWanted] = useParam("find");
  const [changed, setChanged] = useFlagParam("changed");
  return (
    <Loaded query={found}>
      {(list) => {
        const rows = list.items.filter((row) => fits(row, wanted, changed));
        return (
          <div className={styles.stack}>
            <p className="soft">{t.note(list.file)}</p>
            <Facts facts={[[t.home, <PathText key="home">{list.home}</PathText>]]} />
            <Bar>
              <SearchInput label={t.find} value={wanted} onChange={setWanted} />
              <label className={styles.check}>
                <input type="checkbox" checked={changed} onChange={(event) => setChanged(event.target.checked)} />
                {t.changed}
              </label>
            </Bar>
            {rows.length > 0 ? (
              <Rows rows={rows} />
            ) : (
              <Empty title={changed && !wanted ? t.allDefault : t.nothing}>
                <Button
                  onClick={() => {
                    setWanted("");
                    setChanged(false);
                  }}
                >
                  {t.clear}
                </Button>
              </Empty>
            )}
          </div>
        );
      }}
    </Loaded>
  );
}

function fits(row: SettingRow, wanted: string, changed: boolean): boolean {
  const words = `${row.name} ${row.description} ${shown(row.value)}`.toLowerCase();
  return (!changed || row.origin !== "default") && words.includes(wanted.toLowerCase());
}

function Rows({ rows }: { rows: SettingRow[] }) {
  const t = useText(text);
  const columns: Column<SettingRow>[] = [
    { name: "name", title: t.name, lead: true, width: "13rem", cell: (row) => <code>{row.name}</code> },
    { name: "value", title: t.value, width: "16rem", cell: (row) => <Value row={row} /> },
    {
      name: "origin",
      title: t.origin,
      width: "12rem",
      cell: (row) => <span className={row.origin === "default" ? "faint" : undefined} lang="en">{row.origin}</span>,
    },
    { name: "meaning", title: t.meaning, cell: (row) => <span className="soft" lang="en">{row.description}</span> },
  ];
  return <Table label={t.settings} columns={columns} rows={rows} rowKey={(row) => row.name} />;
}

function Value({ row }: { row: SettingRow }) {
  const t = useText(text);
  if (row.value === null) return <span className="faint">{t.notSet}</span>;
  if (row.secret) return <Badge tone="plain">{t.secret}</Badge>;
  const value = shown(row.value);
  return value ? <Text mono>{value}</Text> : <span className="faint">{t.empty}</span>;
}

function shown(value: unknown): string {
  if (Array.isArray(value)) return value.map(shown).join(", ");
  return typeof value === "object" && value !== null ? JSON.stringify(value) : String(value ?? "");
}
