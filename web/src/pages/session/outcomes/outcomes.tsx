/** What came of a session: files, commits, pull requests and tests, each with where it is known from. */
import { useState } from "react";

import { useGet } from "../../../api/queries";
import type { ChangedFile, SessionCommit, SessionDetail, SessionOutcomes, SessionTests } from "../../../api/shapes";
import { useFormat } from "../../../format";
import type { Column } from "../../../parts";
import { Button, Drawer, Loaded, PathText, Section, Table, Text, safeAddress, visible } from "../../../parts";
import { useText } from "../../../text";
import { text } from "./text";

type KnownFrom = ChangedFile["known_from"][number];

/** Opens the outcomes; they are loaded when they are first shown. */
export function OutcomesButton({ session }: { session: SessionDetail }) {
  const t = useText(text);
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button title={t.hint} onClick={() => setOpen(true)}>
        {t.name}
      </Button>
      <Drawer open={open} onClose={() => setOpen(false)} title={t.name}>
        <Inside session={session.key} />
      </Drawer>
    </>
  );
}

function Inside({ session }: { session: string }) {
  const query = useGet<SessionOutcomes>(`/sessions/${session}/outcomes`);
  return <Loaded query={query}>{(found) => <Outcomes found={found} />}</Loaded>;
}

function Outcomes({ found }: { found: SessionOutcomes }) {
  const t = useText(text);
  const { files, commits, tests, pull_requests: requests } = found;
  if (files.length + commits.length + tests.length + requests.length === 0) return <p className="faint">{t.nothing}</p>;
  return (
    <>
      {files.length > 0 && <Files files={files} />}
      {commits.length > 0 && <Commits commits={commits} />}
      {requests.length > 0 && (
        <Section title={t.requests}>
          <ul>
            {requests.map(({ url }) => (
              <li key={url}>
                <Address url={url} />
              </li>
            ))}
          </ul>
        </Section>
      )}
      {tests.length > 0 && <Tests tests={tests} />}
      {commits.length > 0 && !found.repository && <p className="faint">{t.elsewhere}</p>}
    </>
  );
}

function Address({ url }: { url: string }) {
  const safe = safeAddress(url);
  return safe === null ? <Text>{url}</Text> : <a href={safe} rel="noreferrer noopener" target="_blank">{visible(url)}</a>;
}

function useKnown(): (known: readonly KnownFrom[]) => string {
  const t = useText(text);
  return (known) => known.map((each) => t.sources[each]).join(", ");
}

function Files({ files }: { files: readonly ChangedFile[] }) {
  const t = useText(text);
  const f = useFormat();
  const known = useKnown();
  const count = (sign: string, lines: number | null) => (lines === null ? "" : `${sign}${f.count(lines)}`);
  const columns: Column<ChangedFile>[] = [
    { name: "file", title: t.file, lead: true, cell: (file) => <PathText>{file.path}</PathText> },
    { name: "lines", title: t.changed, end: true, cell: (file) => `${count("+", file.added)} ${count("−", file.removed)}`.trim() || "–" },
    {
      name: "kept",
      title: t.kept,
      end: true,
      cell: ({ lines_kept: kept, lines_compared: of }) => (
        <span title={t.keptHint}>{kept === null || of === null ? "–" : `${f.count(kept)} / ${f.count(of)}`}</span>
      ),
    },
    { name: "known", title: t.known, cell: (file) => known(file.known_from) },
  ];
  return (
    <Section title={t.files}>
      <Table label={t.files} columns={columns} rows={files} rowKey={(file) => file.path} />
    </Section>
  );
}

function Commits({ commits }: { commits: readonly SessionCommit[] }) {
  const t = useText(text);
  const known = useKnown();
  const kept = (commit: SessionCommit) => {
    if (commit.kept === null) return "–";
    if (commit.kept_as !== null) return t.keptAs(commit.kept_as.slice(0, 10));
    return commit.kept ? t.yes : t.no;
  };
  const columns: Column<SessionCommit>[] = [
    { name: "commit", title: t.commit, cell: (commit) => <Text mono>{commit.hash.slice(0, 10)}</Text> },
    { name: "subject", title: t.subject, lead: true, cell: (commit) => <Text>{commit.subject}</Text> },
    { name: "kept", title: t.inBranch, cell: (commit) => <span title={commit.branches.map(visible).join("\n")}>{kept(commit)}</span> },
    { name: "known", title: t.known, cell: (commit) => known(commit.known_from) },
  ];
  return (
    <Section title={t.commitList}>
      <Table label={t.commitList} columns={columns} rows={commits} rowKey={(commit) => commit.hash} />
    </Section>
  );
}

function Tests({ tests }: { tests: readonly SessionTests[] }) {
  const t = useText(text);
  const f = useFormat();
  const number = (count: number | null) => (count === null ? "?" : f.count(count));
  const rows = tests.map((run, place) => ({ ...run, place }));
  const columns: Column<(typeof rows)[number]>[] = [
    { name: "command", title: t.command, lead: true, cell: (run) => <Text line mono>{run.command}</Text> },
    { name: "passed", title: t.passed, end: true, cell: (run) => number(run.passed) },
    { name: "failed", title: t.failed, end: true, cell: (run) => number(run.failed) },
  ];
  return (
    <Section title={t.tests}>
      <Table label={t.tests} columns={columns} rows={rows} rowKey={(run) => run.place} />
    </Section>
  );
}
