/** A link that opens a file in the chosen editor; nothing where there is none, or its path is not whole. */
import { EDITOR_NAMES, editorLink, useEditor } from "../editor";
import { useText } from "../text";
import buttons from "./button.module.css";
import { Icon } from "./icon";
import { text } from "./words";

export function OpenFile({ path, line = null }: { path: string; line?: number | null }) {
  const t = useText(text);
  const editor = useEditor();
  const link = editorLink(editor, path, line);
  if (link === null || editor === null || editor === "none") return null;
  const label = t.openFile(EDITOR_NAMES[editor]);
  return (
    <a href={link} className={buttons.icon} aria-label={label} title={label}>
      <Icon name="out" size={14} />
    </a>
  );
}
