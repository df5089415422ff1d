/** A table of figures whose order is in the address, with the calls behind a row at the side. */
import type { ReactNode } from "react";
import { useMemo, useState } from "react";
import { Link } from "wouter";

import { useFormat } from "../../format";
import type { Column, Sort } from "../../parts";
import { Button, ModelName, PathText, Table, Text } from "../../parts";
import { useText } from "../../text";
import { changed, useParams } from "../../url";
import { CallDrawer } from "./calls";
import styles from "./insights.module.css";
import type { Question, Split } from "./question";
import { narrowed, sorted } from "./question";
import { text } from "./text";

/** A column, and what its rows are ordered by. */
export interface FigureColumn<T> extends Column<T> {
  value: (row: T) => number | string | null;
}

interface FiguresTableProps<T> {
  label: string;
  /** Of the first column, which names the row. */
  title: string;
  rows: readonly T[];
  columns: readonly FigureColumn<T>[];
  /** The column that is the order by default. */
  usual: string;
  question: Question;
  by: Split | null;
  nameOf: (row: T) => string;
  partOf: (row: T) => string | null;
  /** Whether the rows are tools; otherwise models. */
  tools: boolean;
}

const PAGE = 100;

export function FiguresTable<T>(props: FiguresTableProps<T>) {
  const { label, rows, question, by, nameOf, partOf, tools, usual } = props;
  const t = useText(text);
  const f = useFormat();
  const params = useParams();
  const [most, setMost] = useState(PAGE);
  const columns = useColumns(props);
  const wish = params.text("sort");
  const sort: Sort = {
    by: columns.some(({ name }) => name === wish) ? wish : usual,
    order: params.text("order") === "asc" ? "asc" : "desc",
  };
  const value = columns.find(({ name }) => name === sort.by)?.value;
  const ordered = useMemo(() => (value ? sorted(rows, value, sort.order) : rows), [rows, value, sort.order]);
  const chosen = params.list("tool")[0] ?? null;
  const part = by === null ? null : params.text("part");
  const open = (row: T) => params.change({ tool: nameOf(row) || "-", part: partOf(row) }, { push: true });
  return (
    <>
      <div className={styles.frame}>
        <Table
          label={label}
          columns={columns}
          rows={ordered.slice(0, most)}
          rowKey={(row) => `${nameOf(row)}\n${partOf(row) ?? ""}`}
          sort={sort}
          onSort={({ by: name, order }) => params.change({ sort: name, order })}
          onOpen={open}
        />
      </div>
      {ordered.length > most && (
        <div className={styles.more}>
          <Button onClick={() => setMost(most + PAGE * 5)}>{t.more(f.count(Math.min(ordered.length - most, PAGE * 5)))}</Button>
        </div>
      )}
      <CallDrawer
        name={chosen === "-" ? "" : chosen}
        part={part || null}
        question={narrowed(question, by, part)}
        tools={tools}
        onClose={() => params.change({ tool: null, part: null })}
      />
    </>
  );
}

/** The name and the part of a row, before its figures. */
function useColumns<T>({ title, columns, by, nameOf, partOf, tools }: FiguresTableProps<T>): FigureColumn<T>[] {
  const t = useText(text);
  return useMemo(() => {
    const name: FigureColumn<T> = {
      name: "name",
      title,
      lead: true,
      sortable: true,
      value: nameOf,
      cell: (row) => <Name name={nameOf(row)} part={partOf(row)} tools={tools} missing={tools ? t.none : t.noModel} />,
    };
    if (by === null) return [name, ...columns];
    const part: FigureColumn<T> = {
      name: "part",
      title: t.bys[by],
      sortable: true,
      value: partOf,
      cell: (row) => <Part by={by} part={partOf(row)} />,
    };
    // One column more: the least important one has no room.
    return [name, part, ...columns.filter((column) => !column.wideOnly)];
  }, [title, columns, by, nameOf, partOf, tools, t]);
}

function Name({ name, part, tools, missing }: { name: string; part: string | null; tools: boolean; missing: string }) {
  const here = changed(window.location.search.replace(/^\?/, ""), { tool: name || "-", part });
  return (
    <Link href={`/insights?${here}`} className={styles.name}>
      {name === "" ? missing : tools ? <Text line>{name}</Text> : <ModelName id={name} />}
    </Link>
  );
}

function Part({ by, part }: { by: Split; part: string | null }): ReactNode {
  const t = useText(text);
  if (!part) return <span className="faint">{by === "project" ? t.noProject : by === "model" ? t.noModel : t.none}</span>;
  return <span className={styles.part}>{by === "project" ? <PathText>{part}</PathText> : by === "model" ? <ModelName id={part} /> : <Text line>{part}</Text>}</span>;
}
