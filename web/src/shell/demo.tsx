/** Before anything was recorded, and demo data: loaded here, and removed again. */
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { change } from "../api/client";
import { keyOf, useGet, useIsAdmin } from "../api/queries";
import type { DemoData, Overview } from "../api/shapes";
import { Button } from "../parts/button";
import { Copy } from "../parts/copy";
import { Icon } from "../parts/icon";
import { Empty, sentence } from "../parts/states";
import { toast } from "../parts/toast";
import { useTypeable } from "../program";
import { useText } from "../text";
import { text } from "./demo-text";
import styles from "./shell.module.css";

/** While the recorder still removes. */
const SOON = 1000;
const FRESH = 60_000;

function useDemo() {
  const query = useGet<DemoData>("/demo", {}, { fresh: FRESH });
  const removing = query.data?.state === "removing";
  useGet<DemoData>("/demo", {}, { when: removing, every: SOON, fresh: 0 });
  return query;
}

function useDemoChange(method: "POST" | "DELETE") {
  const t = useText(text);
  const client = useQueryClient();
  return useMutation({
    mutationFn: () => change<DemoData>(method, "/demo"),
    onSuccess: async (answer) => {
      client.setQueryData(keyOf("/demo"), answer);
      if (answer.state === "absent") toast(t.done);
      await client.invalidateQueries();
    },
    onError: (error) => toast(sentence(error), { failed: true }),
  });
}

/** On a machine without any logs. */
export function NothingRecorded() {
  const t = useText(text);
  const admin = useIsAdmin();
  const recording = useGet<Overview>("/overview").data?.recording.running ?? true;
  const load = useDemoChange("POST");
  const up = useTypeable()("agenttrace up");
  return (
    <Empty icon="sessions" title={recording ? t.nothingYet : t.nothing}>
      <p>{recording ? t.recordingNote : t.startNote}</p>
      {!recording && (
        <>
          <span className={styles.command}>
            <code>{up}</code>
            <Copy text={up} />
          </span>
          <p className="faint">{t.checkoutNote}</p>
        </>
      )}
      <p>{admin ? t.demoNote : t.askAdmin}</p>
      {admin && (
        <Button tone="main" busy={load.isPending} onClick={() => load.mutate()}>
          {t.load}
        </Button>
      )}
    </Empty>
  );
}

/** Above every page as long as there is demo data. */
export function DemoNotice() {
  const t = useText(text);
  const admin = useIsAdmin();
  const state = useDemo().data?.state ?? "absent";
  const remove = useDemoChange("DELETE");
  if (state === "absent") return null;
  return (
    <div className={styles.notice}>
      <Icon name="sessions" />
      <span>{state === "removing" ? t.removing : t.loaded}</span>
      {admin && state === "loaded" && (
        <Button small busy={remove.isPending} onClick={() => remove.mutate()}>
          {t.remove}
        </Button>
      )}
    </div>
  );
}
