/** Theme, language and editor. */
import { EDITORS, EDITOR_NAMES, setEditor, useEditor } from "../editor";
import { Segmented, Select } from "../parts/controls";
import type { Language } from "../text";
import { setLanguage, useLanguage, useText } from "../text";
import { setTheme, useTheme } from "../theme";
import styles from "./shell.module.css";
import { text } from "./text";

// Each language has its own name for itself, so that users find theirs.
const LANGUAGES: { value: Language; label: string }[] = [
  { value: "en", label: "English" },
  { value: "zh", label: "中文" },
];

/** All of them, or only those of the page itself: before the login there are no files to open. */
export function Preferences({ files = true }: { files?: boolean }) {
  const t = useText(text);
  return (
    <div className={styles.preferences}>
      <div className={styles.preference}>
        <span>{t.theme}</span>
        <ThemeSwitch />
      </div>
      <div className={styles.preference}>
        <span>{t.language}</span>
        <LanguageSwitch />
      </div>
      {files && <EditorSelect />}
    </div>
  );
}

function ThemeSwitch() {
  const t = useText(text);
  return (
    <Segmented
      label={t.theme}
      value={useTheme()}
      onChange={setTheme}
      iconsOnly
      choices={[
        { value: "system", label: t.themes.system, icon: "system" },
        { value: "light", label: t.themes.light, icon: "sun" },
        { value: "dark", label: t.themes.dark, icon: "moon" },
      ]}
    />
  );
}

/** Which editor files are opened in; only where the browser is on the machine with the files. */
function EditorSelect() {
  const t = useText(text);
  const editor = useEditor();
  if (editor === null) return null;
  const options = EDITORS.map((name) => ({ value: name, label: name === "none" ? t.noEditor : EDITOR_NAMES[name] }));
  return (
    <div className={styles.preference}>
      <span aria-hidden="true">{t.editor}</span>
      <Select bare label={t.editor} value={editor} options={options} onChange={setEditor} />
    </div>
  );
}

function LanguageSwitch() {
  const t = useText(text);
  return <Segmented label={t.language} value={useLanguage()} onChange={setLanguage} choices={LANGUAGES} />;
}
