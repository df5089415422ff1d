/** The way to every page: at the side on wide screens, at the bottom on narrow ones. */
import { useState } from "react";
import { Link } from "wouter";

import { useTeam } from "../api/queries";
import { Drawer } from "../parts/dialog";
import { Icon } from "../parts/icon";
import type { PageName } from "../routes";
import { navigation, pathOf } from "../routes";
import { useText } from "../text";
import { Preferences } from "./preferences";
import styles from "./navigation.module.css";
import { text } from "./text";

interface NavigationProps {
  /** The page that is open. */
  page: PageName | null;
}

const GROUPS = ["recorded", "run", "machine"] as const;
const AT_BOTTOM: PageName[] = ["overview", "sessions", "usage", "runs"];

/** A session belongs to the sessions, and so do two of them. */
function marked(name: PageName, page: PageName | null): "page" | "true" | undefined {
  if (name === page) return "page";
  return name === "sessions" && (page === "session" || page === "compare") ? "true" : undefined;
}

function PageLink({ name, page }: NavigationProps & { name: PageName }) {
  const t = useText(text);
  return (
    <Link href={pathOf(name)} aria-current={marked(name, page)} className={styles.link}>
      <Icon name={name} />
      <span>{t.pages[name]}</span>
    </Link>
  );
}

export function SideNavigation({ page }: NavigationProps) {
  const t = useText(text);
  return (
    <nav aria-label={t.navigation} className={styles.side}>
      <Link href="/" className={styles.mark} aria-label="AgentTrace">
        <Mark />
        <span>AgentTrace</span>
      </Link>
      <Groups page={page} />
    </nav>
  );
}

function Groups({ page }: NavigationProps) {
  const t = useText(text);
  const team = useTeam() !== undefined;
  return navigation(team).map((names, index) => {
    const group = GROUPS[index] ?? "machine";
    return (
      <div key={group} className={styles.group}>
        <span id={`group-${group}`}>{t.groups[group]}</span>
        <ul role="list" aria-labelledby={`group-${group}`}>
          {names.map((name) => (
            <li key={name}>
              <PageLink name={name} page={page} />
            </li>
          ))}
        </ul>
      </div>
    );
  });
}

export function BottomNavigation({ page }: NavigationProps) {
  const t = useText(text);
  const [open, setOpen] = useState(false);
  return (
    <nav aria-label={t.navigation} className={styles.bottom}>
      {AT_BOTTOM.map((name) => (
        <PageLink key={name} name={name} page={page} />
      ))}
      <button type="button" className={styles.link} aria-expanded={open} onClick={() => setOpen(true)}>
        <Icon name="menu" />
        <span>{t.more}</span>
      </button>
      <Drawer open={open} onClose={() => setOpen(false)} title={t.navigation}>
        {/* A choice closes the drawer; the keyboard's Enter on a link is a click, too. */}
        {/* oxlint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/no-static-element-interactions */}
        <div className={styles.all} onClick={(event) => event.target instanceof Element && event.target.closest("a") && setOpen(false)}>
          <Groups page={page} />
        </div>
        <Preferences />
      </Drawer>
    </nav>
  );
}

/** Three spans of a trace and the moment it has come to. */
export function Mark() {
  return (
    <svg width="20" height="20" viewBox="0 0 20 20" aria-hidden="true" className={styles.drawing}>
      <path d="M2 5h15M5 10h9M9.5 15h4" fill="none" strokeWidth="2.6" strokeLinecap="round" />
      <circle cx="17" cy="15" r="1.9" />
    </svg>
  );
}
