/** The chain of a job as a graph: a step is a link that shows its calls below. */
import { Link } from "wouter";

import type { ChainStep } from "../../api/shapes";
import { useFormat } from "../../format";
import { Elapsed, Text, visible } from "../../parts";
import { useText, useTitle } from "../../text";
import { address } from "../../url";
import type { Group, Placed } from "./chain-graph";
import { layout } from "./chain-graph";
import styles from "./chain.module.css";
import { roughly, stepFigures } from "./figures";
import { StepMark } from "./statuses";
import { text } from "./text";

/** Sixteenths of a rem; chain.module.css has the same. */
const WIDTH = 176;
const HEIGHT = 72;
const BESIDE = 16;
const BELOW = 32;

interface ChainViewProps {
  job: number;
  steps: readonly ChainStep[];
  chosen: string | undefined;
  /** Calls whose tokens are estimates. */
  estimated: ReadonlySet<number>;
}

export function ChainView(props: ChainViewProps) {
  const t = useText(text).graph;
  return (
    <nav aria-label={t.title} className={styles.chain}>
      {layout(props.steps).map((group, index) => (
        <GroupView key={group.places[0]?.step.name} group={group} label={t.lane(index + 1)} {...props} />
      ))}
    </nav>
  );
}

function GroupView({ group, label, ...props }: ChainViewProps & { group: Group<ChainStep>; label: string }) {
  const width = group.lanes * (WIDTH + BESIDE) - BESIDE;
  const height = group.rows * (HEIGHT + BELOW) - BELOW;
  return (
    <div className={styles.group}>
      <svg
        className={styles.arrows}
        viewBox={`0 0 ${width} ${height}`}
        style={{ width: `${width / 16}rem`, height: `${height / 16}rem` }}
        aria-hidden="true"
      >
        {arrows(group).map((path) => (
          <path key={path} d={path} />
        ))}
      </svg>
      <ol role="list" aria-label={label} className={styles.steps}>
        {group.places.map((place) => (
          <li key={place.step.name} style={{ gridColumn: place.lane + 1, gridRow: place.row + 1 }}>
            <StepNode step={place.step} {...props} />
          </li>
        ))}
      </ol>
    </div>
  );
}

/** From the lower edge of one step to the upper edge of the next, and the head of the arrow. */
function arrows(group: Group<ChainStep>): string[] {
  const at = new Map(group.places.map((place) => [place.step.name, place]));
  return group.arrows.flatMap(({ from, to }) => {
    const [start, end] = [at.get(from), at.get(to)];
    if (!start || !end) return [];
    const [x1, y1] = [middle(start), start.row * (HEIGHT + BELOW) + HEIGHT];
    const [x2, y2] = [middle(end), end.row * (HEIGHT + BELOW) - 1];
    const bend = y2 - BELOW / 2;
    return [`M${x1} ${y1}C${x1} ${bend} ${x2} ${bend} ${x2} ${y2}`, `M${x2 - 4} ${y2 - 5}L${x2} ${y2}L${x2 + 4} ${y2 - 5}`];
  });
}

function middle(place: Placed<ChainStep>): number {
  return place.lane * (WIDTH + BESIDE) + WIDTH / 2;
}

function StepNode({ job, step, chosen, estimated }: ChainViewProps & { step: ChainStep }) {
  const t = useText(text).graph;
  const titleOf = useTitle();
  const f = useFormat();
  const sums = stepFigures(step.calls, estimated);
  return (
    <>
      {step.after.length > 0 && (
        <span className={styles.after}>
          <span aria-hidden="true">↓ </span>
          {t.after(visible(step.after.join(", ")))}
        </span>
      )}
      <Link
        href={address(`/runs/jobs/${job}`, { step: step.name })}
        replace
        className={styles.node}
        data-status={step.status}
        aria-current={step.name === chosen ? "true" : undefined}
      >
        <span className={styles.title}>
          <Text line>{titleOf(step)}</Text>
          <StepMark step={step} bare />
        </span>
        <span className={styles.name}>
          <Text line mono>
            {step.name}
          </Text>
        </span>
        <span className={styles.sums}>
          {step.calls.length > 0 && (
            <>
              <Elapsed start={sums.start} end={sums.end} />
              <span title={t.wholeTokens(f.count(sums.tokens))}>{t.tokens(roughly(f.tokens(sums.tokens), sums.estimated))}</span>
              {sums.attempts > 1 && (
                <span className={styles.again} title={t.attempts(sums.attempts)}>
                  <span aria-hidden="true">×{sums.attempts}</span>
                  <span className="unseen">{t.attempts(sums.attempts)}</span>
                </span>
              )}
            </>
          )}
        </span>
      </Link>
    </>
  );
}
