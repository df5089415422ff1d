/** Tools, models and files of both sessions. */
import type { FileComparison, FileFigures, ModelComparison, Spent, ToolComparison, ToolFigures } from "../../api/shapes";
import { useFormat } from "../../format";
import { ModelName, PathText, Section, Text } from "../../parts";
import { useText } from "../../text";
import styles from "./compare.module.css";
import { Difference } from "./difference";
import type { SideColumn } from "./side-table";
import { SideTable } from "./side-table";
import { text } from "./text";

export function ToolTable({ tools }: { tools: readonly ToolComparison[] }) {
  const t = useText(text);
  const f = useFormat();
  if (tools.length === 0) return null;
  const calls = (tool: ToolFigures) => (
    <span title={t.took(f.duration(tool.duration_ms))}>
      {f.count(tool.calls)}
      {tool.failed > 0 && <span className={`${styles.failed} ${styles.below}`}>{t.failures(f.count(tool.failed))}</span>}
    </span>
  );
  const columns: SideColumn<ToolComparison>[] = [
    { title: t.tool, cell: (tool) => <Text>{tool.name}</Text> },
    { title: t.calls("A"), cell: (tool) => calls(tool.a) },
    { title: t.calls("B"), cell: (tool) => calls(tool.b) },
    { title: t.difference, cell: (tool) => <Difference a={tool.a.calls} b={tool.b.calls} show={f.count} short /> },
  ];
  return (
    <Section open title={t.tools}>
      <SideTable label={t.tools} columns={columns} rows={tools} rowKey={(tool) => tool.name} />
    </Section>
  );
}

function tokensOf(spent: Spent): number {
  return spent.input_tokens + spent.cache_read_tokens + spent.cache_write_tokens + spent.output_tokens;
}

export function ModelTable({ models }: { models: readonly ModelComparison[] }) {
  const t = useText(text);
  const f = useFormat();
  if (models.length === 0) return null;
  const spent = (of: Spent) => (
    <>
      {f.tokens(tokensOf(of))}
      <span className={`${styles.money} ${styles.below}`}>{f.cost(of)}</span>
    </>
  );
  const columns: SideColumn<ModelComparison>[] = [
    { title: t.model, cell: (row) => <ModelName id={row.model} /> },
    { title: t.tokens("A"), cell: (row) => spent(row.a) },
    { title: t.tokens("B"), cell: (row) => spent(row.b) },
    { title: t.difference, cell: (row) => <Difference a={tokensOf(row.a)} b={tokensOf(row.b)} show={f.tokens} short /> },
  ];
  return (
    <Section open title={t.models}>
      <SideTable label={t.models} columns={columns} rows={models} rowKey={(row) => row.model} />
    </Section>
  );
}

export function FileTable({ files }: { files: readonly FileComparison[] }) {
  const t = useText(text);
  const f = useFormat();
  const lines = (file: FileFigures | null) => {
    if (file === null) return "–";
    const number = (count: number | null) => (count === null ? "?" : f.count(count));
    return `+${number(file.added)} −${number(file.removed)}`;
  };
  const whose = (file: FileComparison) => (file.a && file.b ? t.both : t.only(file.a ? "A" : "B"));
  const columns: SideColumn<FileComparison>[] = [
    { title: t.file, cell: (file) => <PathText>{file.path}</PathText> },
    { title: t.changedBy, cell: whose },
    { title: "A", cell: (file) => lines(file.a) },
    { title: "B", cell: (file) => lines(file.b) },
  ];
  return (
    <Section open title={t.files}>
      {files.length > 0 ? (
        <SideTable label={t.files} columns={columns} rows={files} rowKey={(file) => file.path} />
      ) : (
        <p className="faint">{t.noFiles}</p>
      )}
    </Section>
  );
}
