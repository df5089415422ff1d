/** Copies the agent's own command that resumes a session; on hover, the command and what it cannot do. */
import type { ResumeHint } from "../../../api/shapes";
import { Copy, visible } from "../../../parts";
import { useText } from "../../../text";
import { text } from "./text";

export function CopyResume({ resume }: { resume: ResumeHint }) {
  const t = useText(text);
  const remarks = [resume.limit && t.limits[resume.limit], resume.directory_gone && t.directoryGone];
  const hint = [visible(resume.command), ...remarks].filter(Boolean).join("\n");
  return <Copy text={resume.command} label={t.copy} hint={hint} large of="terminal" />;
}
