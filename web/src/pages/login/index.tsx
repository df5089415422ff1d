/** Who are you? On the machine itself a link answers that, from elsewhere a name and a password. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import type { FormEvent } from "react";
import { useState } from "react";
import { useLocation } from "wouter";

import { useGet, useMe } from "../../api/queries";
import type { Me } from "../../api/shapes";
import { afterLogin, login } from "../../api/visit";
import { Button, Code, LinkButton, sentence } from "../../parts";
import { useTitle } from "../../parts/layout";
import { useTypeable } from "../../program";
import { Mark } from "../../shell/navigation";
import { useText } from "../../text";
import { useParam } from "../../url";
import styles from "./login.module.css";
import { text } from "./text";

const GUIDE = "https://github.com/agenttrace/agenttrace/blob/main/docs/console-access.md";

export default function Login() {
  const t = useText(text);
  useTitle(t.title);
  return (
    <div className={styles.page}>
      <div className={styles.brand}>
        <Mark />
        <span>AgentTrace</span>
      </div>
      <p className={styles.about}>{t.about}</p>
      <div className={styles.card}>
        <h1>{t.title}</h1>
        <Ways />
      </div>
      <p className={styles.guide}>
        <a href={GUIDE} target="_blank" rel="noreferrer">
          {t.guide}
        </a>
      </p>
    </div>
  );
}

/** By the link, by name, or neither yet. */
function Ways() {
  const t = useText(text);
  const typeable = useTypeable();
  const me = useMe().data;
  const [to] = useParam("next");
  const next = afterLogin(to);
  if (me?.name) {
    return (
      <div className={styles.way}>
        <p>{t.already(me.name)}</p>
        <LinkButton href={next} tone="main">
          {t.goOn}
        </LinkButton>
      </div>
    );
  }
  if (me?.by_link) {
    return (
      <>
        <ByLink />
        <BySso title={me.sso} next={next} />
        {me.users_exist && (
          <>
            <p className={styles.or}>{t.orByName}</p>
            <Form next={next} />
          </>
        )}
      </>
    );
  }
  if (me && !me.users_exist && me.sso) return <BySso title={me.sso} next={next} />;
  if (me && !me.users_exist) {
    return (
      <div className={styles.way}>
        <strong>{t.nobody}</strong>
        <p>{t.howTo}</p>
        <Code text={typeable("agenttrace user add NAME --role admin")} label={t.howTo} />
      </div>
    );
  }
  return (
    <>
      {me?.login_required && <p className={styles.note}>{t.note}</p>}
      <BySso title={me?.sso ?? null} next={next} />
      {me?.sso && <p className={styles.or}>{t.orByName}</p>}
      <Form next={next} />
    </>
  );
}

/** The polling interval for a login by the link in another window of this browser. */
const ASK_MS = 3000;

function ByLink() {
  const t = useText(text);
  const typeable = useTypeable();
  const [link] = useParam("link");
  useGet<Me>("/me", {}, { every: ASK_MS });
  return (
    <div className={styles.way}>
      {link === "old" && (
        <p className={styles.wrong} role="alert">
          {t.oldLink}
        </p>
      )}
      <p>{t.byLink}</p>
      <Code text={typeable("agenttrace open")} label={t.byLink} />
      <p className="faint">{typeable(t.forScripts)}</p>
    </div>
  );
}

/** By the provider of OpenID Connect, which is another site: the browser goes there, and comes back with a login. */
function BySso({ title, next }: { title: string | null; next: string }) {
  const t = useText(text);
  const [failed] = useParam("sso");
  if (title === null) return null;
  return (
    <div className={styles.way}>
      {failed && (
        <p className={styles.wrong} role="alert">
          {t.sso[failed as keyof typeof t.sso] ?? t.sso.failed}
        </p>
      )}
      <LinkButton href={`/login/oidc?next=${encodeURIComponent(next)}`} tone="main" leaves>
        {t.bySso(title)}
      </LinkButton>
    </div>
  );
}

function Form({ next }: { next: string }) {
  const t = useText(text);
  const client = useQueryClient();
  const [, navigate] = useLocation();
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const entering = useMutation({
    mutationFn: () => login(client, name, password),
    onSuccess: () => navigate(next, { replace: true }),
  });
  function enter(event: FormEvent) {
    event.preventDefault();
    entering.mutate();
  }
  return (
    <form className={styles.form} onSubmit={enter}>
      <label className={styles.field}>
        {t.name}
        <input name="name" autoComplete="username" required value={name} onChange={(event) => setName(event.target.value)} />
      </label>
      <label className={styles.field}>
        {t.password}
        <input
          name="password"
          type="password"
          autoComplete="current-password"
          required
          value={password}
          onChange={(event) => setPassword(event.target.value)}
        />
      </label>
      {entering.error && (
        <p className={styles.wrong} role="alert">
          {sentence(entering.error)}
        </p>
      )}
      <Button tone="main" type="submit" busy={entering.isPending}>
        {t.enter}
      </Button>
    </form>
  );
}
