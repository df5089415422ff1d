/** The application: the current page, and what all pages share. */
import { QueryClientProvider } from "@tanstack/react-query";
import { Route, Switch, matchRoute, useLocation, useRouter } from "wouter";
import { navigate } from "wouter/use-browser-location";

import { whenLoginNeeded } from "./api/client";
import { makeClient } from "./api/queries";
import { NotFound, PageFrame } from "./shell/page-frame";
import { Preferences } from "./shell/preferences";
import { Shell, loginAddress } from "./shell/shell";
import styles from "./shell/shell.module.css";
import { text } from "./shell/text";
import type { PageRoute } from "./routes";
import { ROUTES } from "./routes";
import { useText } from "./text";

const client = makeClient();

whenLoginNeeded(() => {
  if (window.location.pathname !== "/login") navigate(loginAddress(), { replace: true });
});

export function App() {
  return (
    <QueryClientProvider client={client}>
      <Pages />
    </QueryClientProvider>
  );
}

function Pages() {
  const route = useRouteHere();
  const pages = (
    <Switch>
      {ROUTES.map((each) => (
        <Route key={each.name} path={each.pattern ?? each.path}>
          <Framed route={each} />
        </Route>
      ))}
      <Route>
        <NotFound />
      </Route>
    </Switch>
  );
  if (route?.name === "login") {
    return (
      <div className={styles.bare}>
        <main id="main">{pages}</main>
        <footer>
          <Preferences files={false} />
        </footer>
      </div>
    );
  }
  return <Shell page={route?.name ?? null}>{pages}</Shell>;
}

function Framed({ route }: { route: PageRoute }) {
  const t = useText(text);
  const [path] = useLocation();
  return (
    <PageFrame path={path} title={t.pages[route.name]}>
      <route.page />
    </PageFrame>
  );
}

function useRouteHere(): PageRoute | undefined {
  const { parser } = useRouter();
  const [path] = useLocation();
  return ROUTES.find((route) => matchRoute(parser, route.pattern ?? route.path, path)[0]);
}
