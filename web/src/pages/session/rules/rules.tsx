/** What rules did about a session. */
import { useState } from "react";

import { usePages } from "../../../api/queries";
import type { RuleFiring, RuleFiringList, SessionDetail } from "../../../api/shapes";
import { Button, Drawer, Loaded } from "../../../parts";
import { useText } from "../../../text";
import { FiringDrawer } from "../../rules/firing";
import { Firings } from "../../rules/firings";
import { text } from "../../rules/text";

/** Opens the list; it is loaded when it is first shown. */
export function RulesButton({ session }: { session: SessionDetail }) {
  const t = useText(text);
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button title={t.sessionHint} onClick={() => setOpen(true)}>
        {t.session}
      </Button>
      <Drawer open={open} onClose={() => setOpen(false)} title={t.sessionHint}>
        <Inside session={session.key} />
      </Drawer>
    </>
  );
}

function Inside({ session }: { session: string }) {
  const t = useText(text);
  const [shown, setShown] = useState<number | null>(null);
  const pages = usePages<RuleFiring, RuleFiringList>("/rules/firings", { session, limit: 50 }, { every: 2000 });
  return (
    <Loaded query={pages}>
      {() => (
        <>
          {pages.items.length > 0 ? (
            <Firings ofSession rows={pages.items} onOpen={(row) => setShown(row.id)} />
          ) : (
            <p className="faint">{t.sessionNone}</p>
          )}
          {pages.hasNextPage && (
            <Button busy={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
              {t.more}
            </Button>
          )}
          {shown !== null && <FiringDrawer id={shown} onClose={() => setShown(null)} />}
        </>
      )}
    </Loaded>
  );
}
