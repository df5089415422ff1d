/** Copies the address of the current view, with the session's key, because a prefix of the id may become ambiguous. */
import { IconButton, copy, toast } from "../../parts";
import { useText } from "../../text";
import { changed } from "../../url";
import { text } from "./text";

interface CopyLinkProps {
  hint: string;
  session: string;
  /** With the details of this span. */
  span?: string;
}

export function CopyLink({ hint, session, span }: CopyLinkProps) {
  const t = useText(text);
  const link = () => {
    const search = changed(window.location.search, span === undefined ? {} : { span });
    return `${window.location.origin}/sessions/${session}${search ? `?${search}` : ""}`;
  };
  const run = () =>
    void copy(link).then(
      () => toast(t.linkCopied),
      () => toast(t.linkFailed, { failed: true }),
    );
  return <IconButton icon="link" label={hint} onClick={run} />;
}
