/** The shortcuts of this page and of all pages. */
import { Dialog } from "../parts/dialog";
import { useText } from "../text";
import type { Shortcut } from "./keys";
import styles from "./shell.module.css";
import { useShortcutList } from "./shortcuts";
import { text } from "./text";

export function Help({ open, onClose }: { open: boolean; onClose: () => void }) {
  const t = useText(text);
  const page = useShortcutList("page");
  const shell = useShortcutList("shell");
  return (
    <Dialog open={open} onClose={onClose} title={t.shortcuts} wide={page.length > 0}>
      <div className={styles.help}>
        {page.length > 0 && <Keys title={t.shortcutsOf.page} shortcuts={page} />}
        <Keys title={t.shortcutsOf.shell} shortcuts={shell} />
      </div>
    </Dialog>
  );
}

const NAMES: Record<string, string> = { ArrowDown: "↓", ArrowUp: "↑", ArrowLeft: "←", ArrowRight: "→", Escape: "Esc", " ": "␣" };

function Keys({ title, shortcuts }: { title: string; shortcuts: readonly Shortcut[] }) {
  const t = useText(text);
  return (
    <section>
      <h3>{title}</h3>
      <dl className={styles.keys}>
        {shortcuts.map(({ keys, does }) => (
          <div key={keys + does}>
            <dt>
              {(keys === " " ? [keys] : keys.split(" ")).map((key, index) => (
                <span key={key}>
                  {index > 0 && <span className="faint"> {t.followedBy} </span>}
                  <kbd>{NAMES[key] ?? key}</kbd>
                </span>
              ))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
