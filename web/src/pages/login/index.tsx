/** Who are you? On the machine itself a link answers that, from elsewhere a name and a password. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import type { FormEvent } from "react";
import { useState } from "react";
import { useLocation } from "wouter";

import { useGet, useMe } from "../../api/queries";
import type { Me } from "../../api/shapes";
import { afterLogin, login } from "../../api/visit";
import { Button, Code, Empty, LinkButton, Page, Section, sentence } from "../../parts";
import { useText } from "../../text";
import { useParam } from "../../url";
import styles from "./login.module.css";
import { text } from "./text";

export default function Login() {
  const t = useText(text);
  const me = useMe();
  const [next] = useParam("next");
  return (
    <Page title={t.title} note={me.data?.login_required && !me.data.by_link ? t.note : undefined}>
      <div className={styles.card}>
        <Section title={t.title}>
          {me.data?.name ? (
            <Empty title={t.already(me.data.name)}>
              <LinkButton href={afterLogin(next)}>{t.goOn}</LinkButton>
            </Empty>
          ) : me.data?.by_link ? (
            <>
              <ByLink />
              {me.data.users_exist && (
                <>
                  <p className={styles.or}>{t.orByName}</p>
                  <Form next={afterLogin(next)} />
                </>
              )}
            </>
          ) : me.data && !me.data.users_exist ? (
            <Empty title={t.nobody}>
              <p>{t.howTo}</p>
              <Code text="agenttrace user add NAME --role admin" label={t.howTo} />
            </Empty>
          ) : (
            <Form next={afterLogin(next)} />
          )}
        </Section>
      </div>
    </Page>
  );
}

/** The polling interval for a login by the link in another window of this browser. */
const ASK_MS = 3000;

function ByLink() {
  const t = useText(text);
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
      <Code text="agenttrace open" label={t.byLink} />
      <p className="faint">{t.forScripts}</p>
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
