/** Times, tokens, cost and price of a span. */
import type { ReactNode } from "react";

import type { SpanDetail } from "../../../api/shapes";
import type { Format } from "../../../format";
import { useFormat } from "../../../format";
import { Elapsed, Facts, Text } from "../../../parts";
import { useText } from "../../../text";
import { useSessionTools } from "../session-context";
import { text } from "../text";
import { text as priceText } from "./price-text";
import styles from "./pane.module.css";

type Words = (typeof text)["en"]["pane"];
type PriceProps = { price: NonNullable<SpanDetail["price"]> };
type Fact = readonly [ReactNode, ReactNode | undefined];

export function PaneFacts({ detail }: { detail: SpanDetail }) {
  const t = useText(text).pane;
  const f = useFormat();
  const { live } = useSessionTools();
  return (
    <div className={styles.facts}>
      <Facts facts={times(detail, live, t, f)} />
      {detail.kind === "step" && <Facts facts={spent(detail, t, f)} />}
    </div>
  );
}

function times(detail: SpanDetail, live: boolean, t: Words, f: Format): Fact[] {
  const turn = f.count(detail.turn_index + 1);
  return [
    [t.facts.started, f.exact(detail.start)],
    [t.facts.ended, detail.end ? f.exact(detail.end) : "–"],
    [t.facts.duration, detail.end || (live && detail.status === "open") ? <Elapsed key="d" start={detail.start} end={detail.end} /> : "–"],
    [t.facts.model, detail.model ? <Text key="m">{detail.model}</Text> : undefined],
    [t.facts.place, detail.kind === "turn" || detail.session.agent === "otlp" ? t.placeTurn(turn) : t.place(turn, f.count(detail.step_n))],
    [t.facts.stream, detail.stream && detail.stream !== "main" ? <Text key="s" mono>{detail.stream}</Text> : undefined],
  ];
}

function spent(detail: SpanDetail, t: Words, f: Format): Fact[] {
  const { usage, price } = detail;
  const count = (name: string) => (usage?.[name] === undefined ? undefined : f.count(usage[name]));
  const reasoning = usage?.["reasoning_tokens"];
  return [
    [t.facts.input, count("input_tokens")],
    [t.facts.cacheRead, count("cache_read_tokens")],
    [t.facts.cacheWrite, count("cache_write_tokens")],
    [t.facts.output, count("output_tokens")],
    [t.facts.reasoning, reasoning ? f.count(reasoning) : undefined],
    [t.facts.cost, <CostLine key="c" detail={detail} />],
    [t.facts.price, price ? <Price key="p" price={price} /> : undefined],
    [t.facts.source, price ? <PriceSource key="s" price={price} /> : undefined],
  ];
}

/** The cost, or why it is unknown, with its caveats. */
function CostLine({ detail }: { detail: SpanDetail }) {
  const t = useText(text).pane;
  const f = useFormat();
  const remarks = [detail.counted ? "" : t.elsewhere, detail.estimated ? t.estimated : ""].filter((remark) => remark !== "");
  const unknown = detail.usage === null ? t.noTokens : t.noPrice(detail.model ?? "?");
  const amount = detail.cost === null ? (detail.counted ? unknown : "–") : f.money(detail.cost, detail.currency);
  return (
    <>
      <span className={styles.money}>{amount}</span>
      {remarks.map((remark) => (
        <span key={remark} className={styles.remark}>
          {remark}
        </span>
      ))}
    </>
  );
}

function PriceSource({ price }: PriceProps) {
  const t = useText(priceText);
  return <Text>{price.checked ? t.checked(price.source, price.checked) : price.source}</Text>;
}

function Price({ price }: PriceProps) {
  const t = useText(priceText);
  const f = useFormat();
  const money = (amount: number | null) => f.money(amount, price.currency);
  const terms = [price.above === null ? "" : t.above(f.count(price.above)), ...price.terms.map(t.term), price.since && t.since(price.since)].filter((term) => term !== "");
  return (
    <>
      {t.line(money(price.input), money(price.output))}
      {(price.cache_read !== null || price.cache_write !== null) && (
        <span className={styles.remark}>{t.cache(money(price.cache_read), money(price.cache_write))}</span>
      )}
      {terms.map((term) => (
        <span key={term} className={styles.remark}>
          {term}
        </span>
      ))}
    </>
  );
}
