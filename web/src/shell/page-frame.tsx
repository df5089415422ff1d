/** One page: loaded when it is opened, and alone in its failure. */
import type { ReactNode } from "react";
import { Suspense } from "react";

import { Boundary } from "../parts/boundary";
import { Button, LinkButton } from "../parts/button";
import { Page, useTitle } from "../parts/layout";
import { Empty, Loading, sentence } from "../parts/states";
import { Text } from "../parts/text-view";
import { useText } from "../text";
import { text } from "./text";

/** Navigating to another path clears an error. */
export function PageFrame({ path, title, children }: { path: string; title: string; children: ReactNode }) {
  // Until the page sets its own.
  useTitle(title);
  return (
    <Boundary until={path} instead={(error, retry) => <BrokenPage error={error} retry={retry} />}>
      <Suspense fallback={<Loading lines={8} />}>{children}</Suspense>
    </Boundary>
  );
}

/** Code that is not on the server any more, or could not be fetched. */
function isStale(error: unknown): boolean {
  return error instanceof Error && /import|preload|module script/i.test(error.message);
}

function BrokenPage({ error, retry }: { error: unknown; retry: () => void }) {
  const t = useText(text);
  const stale = isStale(error);
  return (
    <Page title={t.broken}>
      <Empty icon="warn" title={stale ? t.stale : t.brokenNote}>
        {!stale && <Text mono>{sentence(error)}</Text>}
        {/* The browser remembers a module that could not be loaded: only a new page asks again. */}
        <Button icon="refresh" onClick={stale ? () => window.location.reload() : retry}>
          {t.reload}
        </Button>
      </Empty>
    </Page>
  );
}

export function NotFound() {
  const t = useText(text);
  return (
    <Page title={t.notFound}>
      <Empty icon="search" title={t.notFoundNote}>
        <LinkButton href="/">{t.toOverview}</LinkButton>
      </Empty>
    </Page>
  );
}
