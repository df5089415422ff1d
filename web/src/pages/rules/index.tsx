/** Rules: how they are switched, what they did, and the form that writes them. */
import { useState } from "react";

import { useGet, useIsAdmin } from "../../api/queries";
import type { Rule, RuleList } from "../../api/shapes";
import { Button, Copy, Empty, Icon, Loaded, Page, PathText, Section, Text } from "../../parts";
import { useTypeable } from "../../program";
import { useText } from "../../text";
import { useFlagParam } from "../../url";
import { Form } from "./form";
import { Log } from "./log";
import { NotificationSwitch } from "./notification-switch";
import { RuleCard } from "./rule-card";
import styles from "./rules.module.css";
import { text } from "./text";

/** The rule that the form is about; null: a new one. */
type Edited = Rule | null | undefined;

export default function Rules() {
  const t = useText(text);
  const admin = useIsAdmin();
  const found = useGet<RuleList>("/rules", {}, { every: 2000 });
  const [chosen, setEdited] = useState<Edited>(undefined);
  const [asked, setAsked] = useFlagParam("new");
  const edited = chosen === undefined && asked ? null : chosen;
  const close = () => {
    setEdited(undefined);
    setAsked(false);
  };
  return (
    <Page
      title={t.title}
      note={t.note}
      actions={
        admin &&
        found.data && (
          <Button tone="main" icon="plus" onClick={() => setEdited(null)}>
            {t.newRule}
          </Button>
        )
      }
    >
      <NotificationSwitch />
      <Loaded query={found} lines={8}>
        {(list) => (
          <>
            <Trouble list={list} />
            <Lists list={list} onEdit={setEdited} />
            <Log rules={list.items} />
            {edited !== undefined && <Form key={edited?.name ?? ""} rule={edited} list={list} onClose={close} />}
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Trouble({ list }: { list: RuleList }) {
  const t = useText(text);
  const up = useTypeable()("agenttrace up");
  const idle = !list.engine.running && list.items.some((rule) => rule.mode !== "off");
  return (
    <>
      {list.problem && (
        <p className={styles.trouble} role="alert">
          <Icon name="warn" />
          <span>
            {t.problem} <Text>{list.problem}</Text>
          </span>
        </p>
      )}
      {idle && (
        <p className={styles.trouble} role="status">
          <Icon name="warn" />
          <span>
            {t.stopped} <code>{up}</code>
          </span>
          <Copy text={up} />
        </p>
      )}
    </>
  );
}

/** Rules of the user; then the ready-made ones, which stay where they are when they are switched. */
function Lists({ list, onEdit }: { list: RuleList; onEdit: (rule: Rule) => void }) {
  const t = useText(text);
  const ready = list.items.filter((rule) => rule.origin === "ready");
  const mine = list.items.filter((rule) => rule.origin !== "ready");
  return (
    <>
      <Section title={t.mine} open>
        {mine.length > 0 ? (
          <Cards rules={mine} onEdit={onEdit} />
        ) : (
          <Empty title={t.noneTitle} icon="rules">
            <p>{t.noneNote}</p>
          </Empty>
        )}
        {mine.some((rule) => rule.origin === "file") && (
          <p className={styles.file}>
            {t.fileNote} <PathText>{list.file}</PathText>
          </p>
        )}
      </Section>
      {ready.length > 0 && (
        <Section title={t.ready} note={t.readyNote} open>
          <Cards rules={ready} onEdit={onEdit} />
        </Section>
      )}
    </>
  );
}

function Cards({ rules, onEdit }: { rules: Rule[]; onEdit: (rule: Rule) => void }) {
  return (
    <ul role="list" className={styles.cards}>
      {rules.map((rule) => (
        <li key={rule.name}>
          <RuleCard rule={rule} onEdit={() => onEdit(rule)} />
        </li>
      ))}
    </ul>
  );
}
