/** The top of every page: search, live mark, help, preferences, who is logged in. */
import { useQueryClient } from "@tanstack/react-query";
import { useLocation } from "wouter";

import { useMe } from "../api/queries";
import { logout } from "../api/visit";
import { Button, IconButton } from "../parts/button";
import { SearchInput } from "../parts/controls";
import { Icon } from "../parts/icon";
import { Popup } from "../parts/popup";
import { sentence } from "../parts/states";
import { Text } from "../parts/text-view";
import { toast } from "../parts/toast";
import { useText } from "../text";
import { address, useParam } from "../url";
import { LiveMark } from "./live-mark";
import { Mark } from "./navigation";
import { Preferences } from "./preferences";
import styles from "./shell.module.css";
import { text } from "./text";

export const SEARCH = "search-everything";
/** The name of a user without a user name: logged in by the local link, or without a login. */
const LOCAL = "local";

/** As it is written on this machine's keyboards. */
export const PALETTE_KEY = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘K" : "Ctrl+K";

interface HeaderProps {
  onHelp: () => void;
  onPalette: () => void;
}

export function Header({ onHelp, onPalette }: HeaderProps) {
  const t = useText(text);
  return (
    <header className={styles.header}>
      <span className={styles.headerMark}>
        <Mark />
      </span>
      <GlobalSearch />
      <button type="button" className={styles.palette} title={`${t.palette} (${PALETTE_KEY})`} onClick={onPalette}>
        <span className="unseen">{t.palette}</span>
        <kbd>{PALETTE_KEY}</kbd>
      </button>
      <div className={styles.tools}>
        <LiveMark />
        <span className={styles.wideOnly}>
          <IconButton icon="keyboard" label={`${t.shortcuts} (?)`} onClick={onHelp} />
        </span>
        <span className={styles.wideOnly}>
          <Popup button={<Icon name="settings" />} label={`${t.theme}, ${t.language}`} side="end" quiet>
            {() => <Preferences />}
          </Popup>
        </span>
        <UserMenu />
      </div>
    </header>
  );
}

/** Enter goes to the sessions that match; there, they follow what is typed. */
function GlobalSearch() {
  const t = useText(text);
  const [path, navigate] = useLocation();
  const [sought, seek] = useParam("q");
  
  const onSessions = path === "/sessions";
  return (
    <div className={styles.search}>
      <kbd aria-hidden="true">/</kbd>
      <SearchInput
        id={SEARCH}
        main
        label={t.search}
        placeholder={t.searchHint}
        value={onSessions ? sought : ""}
        onChange={(value) => onSessions && seek(value)}
        onSubmit={(value) => !onSessions && navigate(address("/sessions", { q: value }))}
      />
    </div>
  );
}

function UserMenu() {
  const t = useText(text);
  const me = useMe().data;
  const client = useQueryClient();
  const [, navigate] = useLocation();
  // Without a login there is no log out.
  if (!me?.name || !me.role || !me.login_required) return null;
  const { role } = me;
  const name = me.name === LOCAL ? t.byLink : me.name;
  const leave = () =>
    void logout(client).then(
      () => navigate("/login"),
      (error: unknown) => toast(sentence(error), { failed: true }),
    );
  return (
    <Popup button={<Icon name="user" />} label={t.user(name)} side="end" quiet>
      {() => (
        <div className={styles.user}>
          <strong>
            <Text>{name}</Text>
          </strong>
          <span className="faint">{t.roles[role]}</span>
          <Button onClick={leave}>{t.logout}</Button>
        </div>
      )}
    </Popup>
  );
}
