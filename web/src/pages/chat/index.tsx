/** A test chat with the assistant, for operators. */
import { useGet, useMe } from "../../api/queries";
import type { Catalog } from "../../api/shapes";
import { Empty, LinkButton, Loaded, Page } from "../../parts";
import { useText } from "../../text";
import { Away, isAway } from "../runs/away";
import { MissingSettings } from "../runs/unavailable";
import { Talk } from "./talk";
import { text } from "./text";

export default function Chat() {
  const t = useText(text);
  const me = useMe();
  const catalog = useGet<Catalog>("/catalog", {}, { fresh: 60_000 });
  if (me.data && me.data.role !== "admin") {
    return (
      <Page title={t.title}>
        <Empty icon="chat" title={t.viewer}>
          <p>{t.viewerWhy}</p>
          <LinkButton href={callsOf(catalog.data?.chat_app)}>{t.toCalls}</LinkButton>
        </Empty>
      </Page>
    );
  }
  if (!catalog.data && isAway(catalog.error)) {
    return (
      <Page title={t.title}>
        <Away error={catalog.error} />
      </Page>
    );
  }
  return (
    <Loaded query={catalog} lines={8}>
      {(known) => (
        <Talk
          catalog={known}
          notice={known.chat_app === null ? <p>{t.noApp}</p> : <MissingSettings names={known.chat_missing} />}
        />
      )}
    </Loaded>
  );
}

/** The calls of the application that users chat with; of all applications while it is not known. */
function callsOf(app: string | null | undefined): string {
  return `/runs?tab=calls${app ? `&app=${encodeURIComponent(app)}` : ""}`;
}
