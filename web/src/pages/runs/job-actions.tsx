/** Cancel and re-run a job: for admins, with confirmation. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";

import { post } from "../../api/client";
import { useIsAdmin } from "../../api/queries";
import type { JobAccepted, JobDetail, JobRow } from "../../api/shapes";
import { useFormat } from "../../format";
import { Badge, Button, Confirm, toast } from "../../parts";
import { useText } from "../../text";
import { jobTokens } from "./figures";
import styles from "./runs.module.css";
import { isOver } from "./statuses";
import { text } from "./text";

export function JobActions({ job }: { job: JobDetail }) {
  const t = useText(text).actions;
  const admin = useIsAdmin();
  const [asks, setAsks] = useState<"cancel" | "rerun" | null>(null);
  const running = !isOver(job.status);
  return (
    <>
      {running && job.cancel_requested && <Badge tone="waiting">{t.willEnd}</Badge>}
      {admin && running && !job.cancel_requested && (
        <Button tone="danger" icon="stop" onClick={() => setAsks("cancel")}>
          {t.cancel}
        </Button>
      )}
      {admin && (
        <Button icon="refresh" onClick={() => setAsks("rerun")}>
          {t.rerun}
        </Button>
      )}
      {asks === "cancel" && <AskCancel job={job} onClose={() => setAsks(null)} />}
      {asks === "rerun" && <AskRerun job={job} onClose={() => setAsks(null)} />}
    </>
  );
}

interface AskProps {
  job: JobDetail;
  onClose: () => void;
}

function AskCancel({ job, onClose }: AskProps) {
  const t = useText(text).actions;
  const client = useQueryClient();
  const cancelling = useMutation({
    mutationFn: () => post<JobRow>(`/jobs/${job.id}/cancel`),
    onSuccess: async (row) => {
      toast(isOver(row.status) ? t.cancelled(job.id) : t.cancelAsked(job.id));
      onClose();
      await client.invalidateQueries({ queryKey: [`/jobs/${job.id}`] });
    },
  });
  return (
    <Confirm
      open
      danger
      title={t.cancelTitle(job.id)}
      yes={t.cancel}
      busy={cancelling.isPending}
      error={cancelling.error}
      onYes={() => cancelling.mutate()}
      onClose={onClose}
    >
      <p>{job.status === "pending" ? t.cancelPending : t.cancelRunning}</p>
    </Confirm>
  );
}

function AskRerun({ job, onClose }: AskProps) {
  const t = useText(text).actions;
  const f = useFormat();
  const [, navigate] = useLocation();
  const rerunning = useMutation({
    mutationFn: () => post<JobAccepted>(`/jobs/${job.id}/rerun`),
    onSuccess: (accepted) => {
      toast(t.rerunDone(accepted.job_id));
      onClose();
      navigate(`/runs/jobs/${accepted.job_id}`);
    },
  });
  const tokens = jobTokens(job.steps);
  return (
    <Confirm
      open
      title={t.rerunTitle(job.id)}
      yes={t.rerun}
      busy={rerunning.isPending}
      error={rerunning.error}
      onYes={() => rerunning.mutate()}
      onClose={onClose}
    >
      <div className={styles.stack}>
        <p>{t.rerunWhat}</p>
        <p>{t.rerunCalls(job.steps.length)}</p>
        <p>{tokens > 0 ? t.rerunCost(f.count(tokens)) : t.rerunUnknown}</p>
      </div>
    </Confirm>
  );
}
