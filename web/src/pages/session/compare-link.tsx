/** From a session to the choice of another one to compare it with. */
import { LinkButton } from "../../parts";
import { useText, words } from "../../text";
import { address } from "../../url";
import styles from "./compare-link.module.css";

const text = words({
  en: { compareWith: "Compare with…" },
  zh: { compareWith: "与…对比" },
});

export function CompareLink({ session }: { session: string }) {
  const t = useText(text);
  return (
    <span className={styles.link} title={t.compareWith}>
      <LinkButton href={address("/sessions", { compare: [session] })} icon="compare">
        <span className={styles.word}>{t.compareWith}</span>
      </LinkButton>
    </span>
  );
}
