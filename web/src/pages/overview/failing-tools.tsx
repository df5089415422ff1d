/** The tools that fail most often, of the last thirty days; nothing where the server does not know them. */
import { Link } from "wouter";

import { useGet } from "../../api/queries";
import { useFormat } from "../../format";
import { Section, visible } from "../../parts";
import { useText } from "../../text";
import { address } from "../../url";
import styles from "./projects.module.css";
import { FAILING_TOOLS } from "./questions";
import { text } from "./text";

/** A tool as `/insights/tools` lists it. */
export interface ToolFigures {
  tool: string;
  calls: number;
  failures: number;
  failure_rate: number;
  p50_ms: number | null;
  p95_ms: number | null;
}

const EVERY = 60_000;

/** The answer; the page asks as soon as it is opened, not when its own answer is shown. */
export function useFailingTools(): { items: ToolFigures[] } | undefined {
  return useGet<{ items: ToolFigures[] }>(FAILING_TOOLS, {}, { every: EVERY, fresh: EVERY }).data;
}

export function FailingTools() {
  const t = useText(text);
  const f = useFormat();
  const found = useFailingTools();
  if (!found) return null;
  const tools = found.items.filter((each) => each.failures > 0);
  return (
    <Section title={t.tools} note={t.month} actions={<Link href={address("/insights", { tab: "tools", sort: "failures" })}>{t.insights}</Link>}>
      {tools.length === 0 ? (
        <p className="soft">{t.noFailures}</p>
      ) : (
        <table className={`${styles.table} ${styles.tools}`} aria-label={t.tools}>
          <thead>
            <tr>
              <th scope="col">{t.tool}</th>
              <th scope="col">{t.failureRate}</th>
              <th scope="col">{t.failures}</th>
              <th scope="col">{t.calls}</th>
              <th scope="col">{t.p95}</th>
            </tr>
          </thead>
          <tbody>
            {tools.map((each) => (
              <tr key={each.tool}>
                <th scope="row" title={visible(each.tool)}>
                  <Link href={address("/insights", { tab: "tools", tool: each.tool })}>{visible(each.tool)}</Link>
                </th>
                <td className={styles.bad}>{f.percent(each.failure_rate)}</td>
                <td>{f.count(each.failures)}</td>
                <td>{f.count(each.calls)}</td>
                <td>{f.duration(each.p95_ms)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Section>
  );
}
