/** The frame around every page. */
import { useQueryClient } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Suspense, lazy, useEffect, useRef, useState } from "react";
import { useLocation } from "wouter";

import { keepToken } from "../api/client";
import { keyOf, useMe, useTeam } from "../api/queries";
import { reached } from "../api/reach";
import { useLive, useLiveConnection, useLiveState } from "../api/use-live";
import { Toasts } from "../parts/toast";
import type { PageName } from "../routes";
import { ROUTES, isOffered } from "../routes";
import { useText } from "../text";
import { Header, PALETTE_KEY, SEARCH } from "./header";
import { Help } from "./help";
import { BottomNavigation, SideNavigation } from "./navigation";
import { Notices } from "./notices";
import { useRuleNotices } from "./rule-notices";
import styles from "./shell.module.css";
import { useKeyboard, useShortcuts } from "./shortcuts";
import { text } from "./text";

const loadPalette = () => import("./palette/palette");
const Palette = lazy(loadPalette);
/** After the page itself was loaded: the first key that is typed must not wait for code. */
const LATER = 1500;

interface ShellProps {
  page: PageName | null;
  children: ReactNode;
}

export function Shell({ page, children }: ShellProps) {
  const t = useText(text);
  const [help, setHelp] = useState(false);
  const [palette, setPalette] = usePaletteKey();
  useKeyboard();
  useShellShortcuts(() => setHelp(true));
  useConnection();
  useRuleNotices();
  const main = useFocusOnNavigation();
  return (
    <div className={styles.shell}>
      <a
        href="#main"
        className={styles.skip}
        onClick={(event) => {
          // The address is the page's state: no #main in it.
          event.preventDefault();
          main.current?.focus();
        }}
      >
        {t.skip}
      </a>
      <SideNavigation page={page} />
      <div className={styles.right}>
        <Header onHelp={() => setHelp(true)} onPalette={() => setPalette(true)} />
        <Notices />
        <main id="main" ref={main} tabIndex={-1} className={styles.main}>
          {children}
        </main>
      </div>
      <BottomNavigation page={page} />
      <Help open={help} onClose={() => setHelp(false)} />
      {palette && (
        <Suspense>
          <Palette onClose={() => setPalette(false)} onHelp={() => setHelp(true)} />
        </Suspense>
      )}
      <Toasts />
    </div>
  );
}

/** Whether the palette is open: Ctrl-K, or Cmd-K, opens and closes it wherever the focus is. */
function usePaletteKey() {
  const [open, setOpen] = useState(false);
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
      event.preventDefault();
      setOpen((before) => !before);
    };
    document.addEventListener("keydown", onKeyDown);
    const timer = window.setTimeout(() => void loadPalette().catch(() => {}), LATER);
    return () => {
      document.removeEventListener("keydown", onKeyDown);
      window.clearTimeout(timer);
    };
  }, []);
  return [open, setOpen] as const;
}

function useShellShortcuts(onHelp: () => void): void {
  const t = useText(text);
  const team = useTeam() !== undefined;
  const [, navigate] = useLocation();
  const search = () => {
    const input = document.getElementById(SEARCH);
    input?.focus();
    if (input instanceof HTMLInputElement) input.select();
  };
  useShortcuts(
    [
      { keys: "/", does: t.focusSearch, run: search },
      { keys: PALETTE_KEY, does: t.palette, run: () => {} },
      { keys: "?", does: t.help, run: onHelp },
      ...ROUTES.flatMap(({ key, name, path }) =>
        key && isOffered(name, team) ? [{ keys: `g ${key}`, does: t.goTo(t.pages[name]), run: () => navigate(path) }] : [],
      ),
    ],
    "shell",
  );
}

/** Keeps the stream open for users with access, and loads everything again after it was lost. */
function useConnection(): void {
  const client = useQueryClient();
  const me = useMe().data;
  const state = useLiveState();
  const lost = useRef(false);
  const [, navigate] = useLocation();
  useEffect(() => {
    if (!me) return;
    keepToken(me);
    if (me.login_required && me.role === null) navigate(loginAddress(), { replace: true });
  }, [me, navigate]);
  useLiveConnection(me?.role !== null && me?.role !== undefined);
  useLive(undefined, undefined, () => void client.invalidateQueries());
  useEffect(() => {
    // A stream cannot say why it failed; this can: perhaps the login has ended.
    if (state === "offline") void client.invalidateQueries({ queryKey: keyOf("/me") });
    if (state === "connected") {
      reached();
      if (lost.current) void client.invalidateQueries();
    }
    lost.current = state === "reconnecting" || state === "offline" || (lost.current && state !== "connected");
  }, [state, client]);
}

/** The login page, which returns here. */
export function loginAddress(): string {
  const { pathname, search } = window.location;
  return `/login?${new URLSearchParams({ next: pathname + search }).toString()}`;
}

/** Another page begins at its top, and reading begins at its heading. */
function useFocusOnNavigation() {
  const main = useRef<HTMLElement>(null);
  const [path] = useLocation();
  const before = useRef(path);
  useEffect(() => {
    if (before.current === path) return;
    before.current = path;
    window.scrollTo(0, 0);
    const heading = main.current?.querySelector<HTMLElement>("h1[tabindex]");
    (heading ?? main.current)?.focus({ preventScroll: true });
  }, [path]);
  return main;
}
