/** From a session to the choice of another one to compare it with. */
import { LinkButton } from "../../parts";
import { useText, words } from "../../text";
import { address } from "../../url";

const text = words({
  en: { compareWith: "Compare with…" },
  zh: { compareWith: "与…对比" },
});

export function CompareLink({ session }: { session: string }) {
  const t = useText(text);
  return <LinkButton href={address("/sessions", { compare: [session] })}>{t.compareWith}</LinkButton>;
}
