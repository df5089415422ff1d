/** The entries of the palette: what the server found, what is known, and what can be done. */
import { useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";
import { useLocation } from "wouter";

import { useIsAdmin, useMe, useTeam } from "../../api/queries";
import type { SessionFacets, SessionRow } from "../../api/shapes";
import { logout } from "../../api/visit";
import { modelName } from "../../models";
import { copy } from "../../parts/copy";
import { sentence } from "../../parts/states";
import { toast } from "../../parts/toast";
import { navigation, pathOf } from "../../routes";
import { useViews } from "../../saved-views/use-views";
import { addressOf } from "../../saved-views/views";
import type { Language } from "../../text";
import { setLanguage, useText } from "../../text";
import type { Theme } from "../../theme";
import { setTheme } from "../../theme";
import { address } from "../../url";
import { text as shellText } from "../text";
import type { Item, Recent } from "./items";
import { SEARCH_ALL } from "./items";
import { text } from "./text";

interface Sources {
  typed: string;
  /** What the server found; undefined: nothing is asked. */
  sessions: readonly SessionRow[] | undefined;
  facets: SessionFacets | undefined;
  recent: readonly Recent[];
  onHelp: () => void;
}

export function useItems({ typed, sessions, facets, recent, onHelp }: Sources): Item[] {
  const actions = useActions(onHelp);
  const pages = usePages();
  const views = useViews().map((view): Item => ({
    id: `view:${view.id}`,
    group: "views",
    label: view.name,
    note: view.mine ? undefined : view.owner,
    icon: "star",
    href: addressOf(view),
  }));
  const searchAll = useSearchAll(typed.trim());
  const known = [...(sessions ?? []).map(sessionItem), ...views, ...pages, ...facetItems(facets), ...actions];
  const missing = recent.filter(({ id, href }) => href !== undefined && !known.some((item) => item.id === id));
  // Sessions of the list are those that the server found; remembered ones are for the empty input.
  const remembered = typed.trim() === "" ? missing.map(recentItem) : [];
  return [...known, ...remembered, ...searchAll];
}

function sessionItem(row: SessionRow): Item {
  return {
    id: `session:${row.key}`,
    group: "sessions",
    label: row.title ?? row.session_id,
    note: [row.project && lastPart(row.project), row.agent].filter(Boolean).join(" · "),
    icon: "session",
    href: `/sessions/${row.key}`,
  };
}

function recentItem(kept: Recent): Item {
  return { ...kept, icon: kept.group === "sessions" ? "session" : "clock" };
}

export function lastPart(path: string): string {
  return path.split(/[\\/]/).findLast((part) => part !== "") ?? path;
}

function facetItems(facets: SessionFacets | undefined): Item[] {
  const projects = (facets?.projects ?? []).filter(({ value }) => value !== "");
  return [
    ...projects.map(({ value }): Item => ({
      id: `project:${value}`,
      group: "projects",
      label: lastPart(value),
      note: value,
      icon: "files",
      href: address("/sessions", { project: [value] }),
    })),
    ...(facets?.models ?? []).map(({ value }): Item => ({
      id: `model:${value}`,
      group: "models",
      label: modelName(value),
      note: value,
      icon: "usage",
      href: address("/sessions", { model: [value] }),
    })),
    ...(facets?.persons ?? []).map(({ value }) => teamItem("person", value)),
    ...(facets?.machines ?? []).map(({ value }) => teamItem("machine", value)),
  ];
}

function teamItem(kind: "person" | "machine", value: string): Item {
  const icon = kind === "person" ? "user" : "system";
  return { id: `${kind}:${value}`, group: "team", label: value, icon, href: address("/sessions", { [kind]: [value] }) };
}

function usePages(): Item[] {
  const t = useText(shellText);
  const p = useText(text);
  const team = useTeam() !== undefined;
  return navigation(team).flat().map((name) => ({
    id: `page:${name}`,
    group: "pages",
    label: t.pages[name],
    words: name === "settings" ? p.settingsWords : undefined,
    icon: name,
    href: pathOf(name),
  }));
}

function useSearchAll(typed: string): Item[] {
  const t = useText(text);
  if (typed === "") return [];
  const label = t.searchAll(typed);
  return [{ id: SEARCH_ALL, group: "actions", label, words: typed, icon: "search", href: address("/sessions", { q: typed }) }];
}

function useActions(onHelp: () => void): Item[] {
  const t = useText(text);
  const me = useMe().data;
  const admin = useIsAdmin();
  const client = useQueryClient();
  const [, navigate] = useLocation();
  return useMemo(() => {
    const themes: Theme[] = ["light", "dark", "system"];
    const languages: Language[] = ["en", "zh"];
    const icons = { light: "sun", dark: "moon", system: "system" } as const;
    const copyLink = () =>
      void copy(window.location.href).then(
        () => toast(t.linkCopied),
        () => toast(t.linkFailed, { failed: true }),
      );
    const leave = () =>
      void logout(client).then(
        () => navigate("/login"),
        (error: unknown) => toast(sentence(error), { failed: true }),
      );
    const items: Item[] = [
      { id: "action:copy", group: "actions", label: t.copyLink, icon: "link", run: copyLink },
      ...(admin ? [{ id: "action:rule", group: "actions", label: t.newRule, icon: "plus", href: "/rules?new=true" } as const] : []),
      ...themes.map((theme): Item => ({
        id: `action:theme-${theme}`,
        group: "actions",
        label: t.theme[theme],
        words: t.themeWords,
        icon: icons[theme],
        run: () => setTheme(theme),
      })),
      ...languages.map((language): Item => ({
        id: `action:language-${language}`,
        group: "actions",
        label: t.languages[language],
        words: t.languageWords,
        icon: "chat",
        run: () => setLanguage(language),
      })),
      { id: "action:shortcuts", group: "actions", label: t.shortcuts, icon: "keyboard", run: onHelp },
    ];
    if (me?.login_required) items.push({ id: "action:logout", group: "actions", label: t.logout, icon: "login", run: leave });
    return items;
  }, [t, me, admin, client, navigate, onHelp]);
}
