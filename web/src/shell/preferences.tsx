/** Theme and language. */
import { Segmented } from "../parts/controls";
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

export function Preferences() {
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

function LanguageSwitch() {
  const t = useText(text);
  return <Segmented label={t.language} value={useLanguage()} onChange={setLanguage} choices={LANGUAGES} />;
}
