/** Settings with their sources, the checks of doctor, and the audit log. */
import { useIsAdmin } from "../../api/queries";
import { Page, Tabs, panelProps } from "../../parts";
import { useText } from "../../text";
import { useChoice } from "../../url";
import { Audit } from "./audit";
import { Findings } from "./findings";
import { SettingTable } from "./setting-table";
import { text } from "./text";

const TABS = ["settings", "doctor", "audit"] as const;

export default function Settings() {
  const t = useText(text);
  const [tab, setTab] = useChoice("tab", TABS);
  const admin = useIsAdmin();
  const choices = TABS.filter((value) => value !== "audit" || admin).map((value) => ({ value, label: t[value] }));
  return (
    <Page title={t.title}>
      <Tabs id="settings" label={t.tabs} choices={choices} value={tab} onChange={(value) => setTab(value, { push: true })} />
      <div {...panelProps("settings", tab)}>
        {tab === "settings" && <SettingTable />}
        {tab === "doctor" && <Findings />}
        {tab === "audit" && <Audit />}
      </div>
      <p className="soft">
        <a href="/third-party-notices.txt" target="_blank" rel="noreferrer">
          {t.notices}
        </a>
      </p>
    </Page>
  );
}
