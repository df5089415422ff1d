/** The choice between cost and tokens. */
import type { Bill } from "../../api/shapes";
import { Segmented } from "../../parts";
import { useText } from "../../text";
import { useParam } from "../../url";
import type { Measure } from "./measure";
import { measureFor, measuresOf } from "./measure";
import { remarksText } from "./remarks-text";

/** The measure of the address, if this bill has it. */
export function useMeasure(bill: Pick<Bill, "costs">): Measure {
  const [asked] = useParam("measure");
  return measureFor(asked, bill);
}

export function MeasureSwitch({ bill }: { bill: Pick<Bill, "costs"> }) {
  const t = useText(remarksText);
  const [asked, ask] = useParam("measure");
  const measures = measuresOf(bill);
  const several = measures.length > 2;
  const label = (measure: Measure) => {
    if (measure === "tokens") return t.tokens;
    return several ? t.costIn(measure) : t.cost;
  };
  if (measures.length < 2) return null;
  return (
    <Segmented
      label={t.measure}
      value={measureFor(asked, bill)}
      choices={measures.map((measure) => ({ value: measure, label: label(measure) }))}
      onChange={(measure) => ask(measure)}
    />
  );
}
