/** The projects that cost the most in the last thirty days. */
import { Link } from "wouter";

import type { OverviewFigures } from "../../api/shapes";
import { Cost, Section, Tokens, visible } from "../../parts";
import { useText } from "../../text";
import { address } from "../../url";
import { amountOf, measureFor } from "../usage/measure";
import { ShareBar } from "../usage/share-bar";
import styles from "./projects.module.css";
import { text } from "./text";

export function TopProjects({ figures: { projects } }: { figures: OverviewFigures }) {
  const t = useText(text);
  // Shares of cost where all of it is in one currency.
  const measure = measureFor("", { costs: Object.assign({}, ...projects.map((each) => each.bill.costs)) });
  const most = Math.max(0, ...projects.map((each) => amountOf(each.bill, measure)));
  return (
    <Section title={t.projects} note={t.month} actions={<Link href={address("/usage", { by: "project" })}>{t.details}</Link>}>
      {projects.length === 0 ? (
        <p className="faint">{t.nothingUsed}</p>
      ) : (
        <table className={`${styles.table} ${styles.projects}`} aria-label={t.projects}>
          <thead>
            <tr>
              <th scope="col">{t.project}</th>
              <th scope="col" aria-hidden="true" />
              <th scope="col">{t.tokens}</th>
              <th scope="col">{t.cost}</th>
            </tr>
          </thead>
          <tbody>
            {projects.map((each) => (
              <tr key={each.project ?? ""}>
                <th scope="row" title={visible(each.project ?? t.noProject)}>
                  {each.project === null ? (
                    <span className="soft">{t.noProject}</span>
                  ) : (
                    <Link href={address("/usage", { project: [each.project], since: "30d" })}>
                      <bdi dir="auto">{visible(nameOf(each.project))}</bdi>
                    </Link>
                  )}
                </th>
                <td aria-hidden="true">
                  <ShareBar share={most ? amountOf(each.bill, measure) / most : 0} colour="var(--accent)" />
                </td>
                <td>
                  <Tokens bill={each.bill} />
                </td>
                <td>
                  <Cost bill={each.bill} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Section>
  );
}

/** The end of a path distinguishes projects. */
function nameOf(path: string): string {
  return path.split(/[\\/]/).findLast(Boolean) ?? path;
}
