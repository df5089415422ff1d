/** Starting an event by hand: for admins, as a program would report it. */
import { useMutation } from "@tanstack/react-query";
import { useId, useState } from "react";
import { useLocation } from "wouter";

import { post } from "../../api/client";
import { useIsAdmin } from "../../api/queries";
import type { Catalog, JobAccepted } from "../../api/shapes";
import { Button, Dialog, Failed, Select, toast } from "../../parts";
import { useText } from "../../text";
import { idOf, payloadOf } from "./payload";
import styles from "./start-event.module.css";
import { text } from "./text";

export function StartEvent({ catalog }: { catalog: Catalog | undefined }) {
  const t = useText(text).start;
  const admin = useIsAdmin();
  const [open, setOpen] = useState(false);
  if (!admin || !catalog || catalog.events.length === 0) return null;
  return (
    <>
      <Button icon="plus" onClick={() => setOpen(true)}>
        {t.button}
      </Button>
      {open && <Form events={catalog.events.map(({ event }) => event)} onClose={() => setOpen(false)} />}
    </>
  );
}

function Form({ events, onClose }: { events: string[]; onClose: () => void }) {
  const words = useText(text);
  const t = words.start;
  const form = useId();
  const [, navigate] = useLocation();
  const [event, setEvent] = useState(events[0] ?? "");
  const [site, setSite] = useState("1");
  const [member, setMember] = useState("");
  const [typed, setTyped] = useState("");
  const [forced, setForced] = useState(false);
  const starting = useMutation({
    mutationFn: (data: unknown) => post<JobAccepted>("/jobs", data),
    onSuccess: (accepted) => {
      const { job_id: id, duplicate_of: first } = accepted;
      toast(first === null ? t.started(id) : t.duplicate(first));
      onClose();
      navigate(`/runs/jobs/${first ?? id}`);
    },
  });
  const store = idOf(site) || undefined;
  const who = member.trim() === "" ? null : idOf(member);
  const payload = payloadOf(typed);
  const fits = store !== undefined && who !== undefined && payload !== undefined;
  return (
    <Dialog
      open
      onClose={onClose}
      title={t.title}
      actions={
        <>
          <Button onClick={onClose}>{t.back}</Button>
          <Button tone="main" type="submit" form={form} busy={starting.isPending} disabled={!fits}>
            {t.button}
          </Button>
        </>
      }
    >
      <form
        id={form}
        className={styles.form}
        onSubmit={(submitted) => {
          submitted.preventDefault();
          if (fits) starting.mutate({ event_type: event, site_id: store, member_id: who, payload, is_forced: forced });
        }}
      >
        <p className="soft">{t.what}</p>
        <Select label={words.event} value={event} options={events.map((value) => ({ value, label: value }))} onChange={setEvent} />
        <Field label={words.store} value={site} onChange={setSite} wrong={store === undefined ? words.wholeNumber : null} />
        <Field label={t.member} value={member} onChange={setMember} wrong={who === undefined ? words.wholeNumber : null} />
        <label className={styles.field}>
          <span>{t.payload}</span>
          <textarea
            rows={4}
            spellCheck={false}
            dir="ltr"
            value={typed}
            placeholder='{"coach_id": 8}'
            aria-invalid={payload === undefined || undefined}
            onChange={(changed) => setTyped(changed.target.value)}
          />
          {payload === undefined && <span className={styles.wrong}>{t.noObject}</span>}
        </label>
        <label className={styles.check}>
          <input type="checkbox" checked={forced} onChange={(changed) => setForced(changed.target.checked)} />
          {t.forced}
        </label>
        {starting.error && <Failed error={starting.error} title={t.title} />}
      </form>
    </Dialog>
  );
}

interface FieldProps {
  label: string;
  value: string;
  onChange: (value: string) => void;
  /** The error message. */
  wrong: string | null;
}

function Field({ label, value, onChange, wrong }: FieldProps) {
  return (
    <label className={styles.field}>
      <span>{label}</span>
      <input
        type="text"
        inputMode="numeric"
        autoComplete="off"
        value={value}
        aria-invalid={wrong !== null || undefined}
        onChange={(event) => onChange(event.target.value)}
      />
      {wrong !== null && <span className={styles.wrong}>{wrong}</span>}
    </label>
  );
}
