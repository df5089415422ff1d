/** The checks of doctor, failures first. */
import { useGet } from "../../api/queries";
import type { Check, Doctor } from "../../api/shapes";
import { Button, Copy, Loaded, StateMark, Text } from "../../parts";
import { useTypeable } from "../../program";
import { useText } from "../../text";
import styles from "./settings.module.css";
import { text } from "./text";

const ORDER = { fail: 0, warn: 1, ok: 2 };
const LOOKS = { fail: "failed", warn: "waiting", ok: "completed" } as const;

export function Findings() {
  const t = useText(text);
  const found = useGet<Doctor>("/doctor");
  return (
    <Loaded query={found} lines={12}>
      {(doctor) => {
        const checks = [...doctor.checks].sort((a, b) => ORDER[a.state] - ORDER[b.state]);
        const failed = checks.filter((check) => check.state === "fail").length;
        const warned = checks.filter((check) => check.state === "warn").length;
        return (
          <div className={styles.stack}>
            <div className={styles.verdict}>
              <StateMark
                state={failed ? "failed" : warned ? "waiting" : "completed"}
                label={failed || warned ? t.wrong(failed, warned) : t.well}
              />
              <Button small busy={found.isFetching} onClick={() => void found.refetch()}>
                {t.again}
              </Button>
            </div>
            <ul role="list" aria-label={t.checks} className={styles.checks}>
              {checks.map((check, index) => (
                <Finding key={`${check.name} ${index}`} check={check} />
              ))}
            </ul>
          </div>
        );
      }}
    </Loaded>
  );
}

function Finding({ check }: { check: Check }) {
  const t = useText(text);
  const fix = useTypeable()(check.fix ?? "");
  return (
    <li className={styles.finding}>
      <StateMark state={LOOKS[check.state]} label={t.states[check.state]} />
      <strong lang="en">{check.name}</strong>
      <div>
        <Text>{check.found}</Text>
        {fix && (
          <p className={styles.fix}>
            <span className="soft">{t.fix}: </span>
            <Text>{fix}</Text> <Copy text={fix} />
          </p>
        )}
      </div>
    </li>
  );
}
