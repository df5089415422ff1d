"""Logs of all agents that live in their own directories, recorded as they are: whose they are, and what is in them."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest

from agenttrace.config import RecordSettings, Settings, ensure_home
from agenttrace.record.files.discover import agent_roots, list_files
from agenttrace.record.files.kinds import is_recorded, tracked_file
from agenttrace.record.formats import AGENTS
from agenttrace.record.formats.contract import Agent
from agenttrace.record.recorder import Recorder, Summary
from agenttrace.record.texts.search_index import index_all
from agenttrace.store import open_store
from agenttrace.store.batch import FileRow
from agenttrace.store.sqlite.database import connect
from agenttrace.views.status import file_states
from faults.store_rig import Rows, differences, rows
from store_on import store_on

DATA = Path(__file__).resolve().parents[1] / "data"
#: The sample of each agent, and a prompt, an answer and the result of a tool in it.
SAMPLES = {
    "aider": ("aider-0.86.2", ("Fix the bug in", "this is a plain answer", "received. Cost")),
    "cline": ("cline-3.0.65", ("helper to count the lines", "reports three lines", "first line")),
    "continue": ("continue-cli-1.5.47", ("2+2",)),
    "copilot-cli": ("copilot-1.0.102", ("notes.txt",)),
    "gemini-cli": ("gemini-cli-0.61.0", ("notes.txt",)),
    "opencode": ("opencode-1.18.33", ("notes.txt",)),
    "pi": ("pi-0.87.1", ("notes.txt",)),
}
NAMES = tuple(SAMPLES)


def agent_of(name: str) -> Agent:
    return next(agent for agent in AGENTS if agent.name == name)


class Home:
    """A user's directory with the sample of an agent, and stores of it."""

    def __init__(self, root: Path, sample: str) -> None:
        self.root, self.home = root, root / "user"
        shutil.copytree(DATA / sample, self.home, ignore=shutil.ignore_patterns("before-resume"))

    def settings(self, name: str, **record: int) -> Settings:
        found = Settings(home=self.root / name, record=RecordSettings(**record))  # type: ignore[arg-type]
        ensure_home(found)
        return found

    def record(self, settings: Settings, *, backwards: bool = False) -> Summary:
        with closing(Recorder(settings, environ={"HOME": str(self.home)})) as recorder:
            recorder.scan()
            if backwards:
                recorder.dirty = dict(reversed(recorder.dirty.items()))
            recorder.drain(fair=False)
            return recorder.finish(0.0)

    def rows(self, name: str, **record: int) -> Rows:
        settings = self.settings(name, **record)
        self.record(settings)
        return rows(settings.home)


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def home(name: str, tmp_path: Path) -> Home:
    return Home(tmp_path, SAMPLES[name][0])


def logs(name: str) -> Iterator[Path]:
    agent = agent_of(name)
    for path in sorted((DATA / SAMPLES[name][0]).rglob("*")):
        if (
            path.is_file()
            and agent.is_log(path)
            and "before-resume" not in str(path)
            and path.name != "MOCK_BOOKS.jsonl"
        ):
            yield path


@pytest.mark.parametrize(("mine", "other"), list(product(NAMES, NAMES)))
def test_no_format_claims_the_logs_of_another(mine: str, other: str) -> None:
    """By what the head of a log says, whatever its name and its place are."""
    found = 0
    for path in logs(mine):
        file = tracked_file(str(path), FileRow(filepath=str(path)), 1 << 25, agent_of(mine))
        head = file.head()
        file.close()
        source = agent_of(other).recognise(Path("/somewhere/else.jsonl"), head)
        # Kilo's tables are OpenCode's.
        assert (source is not None) == (mine == other), path
        found += 1
    assert found


def test_old_formats_claim_none_of_them(name: str) -> None:
    """Nor does a format that was there before."""
    for path in logs(name):
        file = tracked_file(str(path), FileRow(filepath=str(path)), 1 << 25, agent_of(name))
        head = file.head()
        file.close()
        # Databases and documents are recognised by their own agent alone.
        others = [agent for agent in AGENTS if agent.name not in (*NAMES, "kilo") and agent.writes_lines]
        assert not [agent.name for agent in others if agent.recognise(Path("/x/y.jsonl"), head) is not None], path


#: Where logs are when a variable of the agent says ``/moved``.
MOVED = {
    ("aider", "AIDER_CHAT_HISTORY_FILE"): ["/moved"],
    ("claude-code", "CLAUDE_CONFIG_DIR"): ["/moved/projects"],
    ("claude-code", "XDG_CONFIG_HOME"): ["/moved/claude/projects", "/moved/Claude/local-agent-mode-sessions"],
    ("claude-code", "APPDATA"): ["/moved/Claude/local-agent-mode-sessions"],
    ("cline", "CLINE_DIR"): ["/moved/data/sessions"],
    ("cline", "CLINE_DATA_DIR"): ["/moved/sessions"],
    ("codex", "CODEX_HOME"): ["/moved/sessions", "/moved/archived_sessions"],
    ("continue", "CONTINUE_GLOBAL_DIR"): ["/moved/sessions"],
    ("copilot-cli", "COPILOT_HOME"): ["/moved/session-state"],
    ("gemini-cli", "GEMINI_CLI_HOME"): ["/moved/.gemini/tmp"],
    ("goose", "GOOSE_PATH_ROOT"): ["/moved/data/sessions"],
    ("goose", "XDG_DATA_HOME"): ["/moved/goose/sessions"],
    ("goose", "APPDATA"): ["/moved/Block/goose/data/sessions"],
    ("grok", "GROK_HOME"): ["/moved/sessions"],
    ("kilo", "KILO_DB"): ["/moved"],
    ("kilo", "XDG_DATA_HOME"): ["/moved/kilo/kilo.db", "/moved/kilo/kilo-*.db"],
    ("kimi-cli", "KIMI_SHARE_DIR"): ["/moved/sessions"],
    ("kimi-code", "KIMI_CODE_HOME"): ["/moved/sessions"],
    ("opencode", "OPENCODE_DB"): ["/moved"],
    ("opencode", "XDG_DATA_HOME"): ["/moved/opencode/opencode.db", "/moved/opencode/opencode-*.db"],
    ("pi", "PI_CODING_AGENT_DIR"): ["/moved/sessions"],
    ("qwen-code", "QWEN_HOME"): ["/moved/projects", "/moved/tmp"],
    ("qwen-code", "QWEN_RUNTIME_DIR"): ["/moved/projects", "/moved/tmp"],
    ("roo-code", "XDG_CONFIG_HOME"): [
        f"/moved/{editor}/User/globalStorage/rooveterinaryinc.roo-cline/tasks"
        for editor in ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
    ],
    ("roo-code", "APPDATA"): [
        f"/moved/{editor}/User/globalStorage/rooveterinaryinc.roo-cline/tasks"
        for editor in ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
    ],
}


class Asked(dict[str, str]):
    """An environment that knows which variables were asked for."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def get(self, name: str, otherwise: str | None = None) -> str | None:  # type: ignore[override]
        self.names.add(name)
        return otherwise


def test_every_variable_of_an_agent_is_tested() -> None:
    """Those that a format asks for are those that it names, and each of them is in the table above."""
    for agent in AGENTS:
        asked = Asked()
        agent.homes(asked, Path("/home/me"))
        if agent.name not in ("agenttrace", "otlp"):
            assert asked.names == set(agent.traits.variables), agent.name
    assert {(agent.name, name) for agent in AGENTS for name in agent.traits.variables} == set(MOVED)


@pytest.mark.parametrize(("agent", "variable"), MOVED)
def test_a_variable_moves_the_logs(agent: str, variable: str) -> None:
    """As a whole path, and with the user's directory in it."""
    user = Path("/home/me")
    homes = agent_of(agent).homes({variable: "/moved"}, user)
    assert [str(each) for each in homes if each.is_relative_to("/moved")] == MOVED[agent, variable]
    if variable != "APPDATA":  # Windows gives it as a whole path
        assert [
            str(each).replace("/home/me/moved", "/moved")
            for each in agent_of(agent).homes({variable: "~/moved"}, user)
            if each.is_relative_to("/home/me/moved")
        ] == MOVED[agent, variable]


@pytest.mark.parametrize(
    ("agent", "log", "settings", "days"),
    [
        ("claude-code", "projects/-p/s.jsonl", None, 30),
        ("claude-code", "projects/-p/s.jsonl", '{"cleanupPeriodDays": 90}', 90),
        ("claude-code", "projects/-p/s.jsonl", '{"cleanupPeriodDays": 0}', 0),
        ("claude-code", "projects/-p/s.jsonl", '{"cleanupPeriodDays": "90"}', 30),
        ("claude-code", "projects/-p/s.jsonl", f'{{"cleanupPeriodDays": 1{"0" * 400}}}', 30),
        ("claude-code", "projects/-p/s.jsonl", '{"cleanupPeriodDays": -1', 30),
        ("gemini-cli", ".gemini/tmp/p/chats/s.jsonl", None, 30),
        ("gemini-cli", ".gemini/tmp/p/chats/s.jsonl", '{"general": {"sessionRetention": {"maxAge": "2w"}}}', 14),
        ("gemini-cli", ".gemini/tmp/p/chats/s.jsonl", '{"general": {"sessionRetention": {"maxAge": "12h"}}}', 0.5),
        ("gemini-cli", ".gemini/tmp/p/chats/s.jsonl", '{"general": {"sessionRetention": {"maxCount": 5}}}', 30),
        ("gemini-cli", ".gemini/tmp/p/chats/s.jsonl", '{"general": {"sessionRetention": {"maxAge": "soon"}}}', None),
        ("gemini-cli", ".gemini/tmp/p/chats/s.jsonl", '{"general": {"sessionRetention": {"enabled": false}}}', None),
    ],
)
def test_after_how_long_an_agent_deletes(
    tmp_path: Path, agent: str, log: str, settings: str | None, days: float | None
) -> None:
    """As its settings say, or else by its default; settings that cannot be read are none."""
    place = tmp_path / log
    base = tmp_path / ".gemini" if agent == "gemini-cli" else tmp_path
    base.mkdir(exist_ok=True)
    if settings is not None:
        (base / "settings.json").write_text(settings)
    assert [cleanup.days for cleanup in agent_of(agent).cleanups([place])] == ([] if days is None else [days])


@pytest.mark.parametrize(
    ("most", "surplus"), [(1, ["a", "a2", "b", "c"]), (2, ["a", "a2", "b"]), (3, ["b"]), (4, []), (0, []), ("3", [])]
)
def test_sessions_beyond_the_number_that_an_agent_keeps(tmp_path: Path, most: object, surplus: list[str]) -> None:
    """The next session is one of them; two files of one session count once, other projects and helpers not at all."""
    chats = tmp_path / ".gemini" / "tmp" / "p" / "chats"
    logs = {
        "a": chats / "session-2026-01-01T10-00-aaaaaaaa.jsonl",
        "a2": chats / "session-2026-01-03T10-00-aaaaaaaa.jsonl",
        "b": chats / "session-2026-01-01T11-00-bbbbbbbb.jsonl",
        "c": chats / "session-2026-01-04T11-00-cccccccc.jsonl",
        "helper": chats / "cccccccc-0000" / "dddddddd.jsonl",
        "other": tmp_path / ".gemini" / "tmp" / "q" / "chats" / "session-2026-01-01T10-00-eeeeeeee.jsonl",
    }
    for age, log in enumerate(reversed(logs.values())):
        log.parent.mkdir(parents=True, exist_ok=True)
        log.touch()
        os.utime(log, (1_790_000_000 - age, 1_790_000_000 - age))
    os.utime(logs["a2"], (1_789_999_997.5, 1_789_999_997.5))
    settings = {"general": {"sessionRetention": {"maxCount": most}}}
    (tmp_path / ".gemini" / "settings.json").write_text(json.dumps(settings))
    (found,) = agent_of("gemini-cli").cleanups(list(logs.values()))
    del logs["other"]  # it is counted for itself
    assert {name for name, log in logs.items() if log in found.surplus} == set(surplus)
    assert found.most == (most if isinstance(most, int) and most else None)


def test_other_agents_delete_nothing_by_age() -> None:
    """None of them has such a setting."""
    for agent in AGENTS:
        if agent.name not in ("claude-code", "gemini-cli"):
            assert agent.cleanups([Path("/home/me/projects/p/chats/tmp/x.jsonl")]) == []


def test_several_directories_of_claude_code() -> None:
    """Its variable may name more than one."""
    homes = agent_of("claude-code").homes({"CLAUDE_CONFIG_DIR": "/one, ~/two"}, Path("/home/me"))
    assert homes[:2] == [Path("/one/projects"), Path("/home/me/two/projects")]


@pytest.mark.parametrize(("name", "variable"), [("opencode", "OPENCODE_DB"), ("kilo", "KILO_DB")])
def test_a_database_with_a_relative_name(name: str, variable: str) -> None:
    """It is in the directory for data, wherever the recorder was started; one in memory is none."""
    user = Path("/home/me")
    assert agent_of(name).homes({variable: "work.db"}, user) == [user / ".local" / "share" / name / "work.db"]
    assert agent_of(name).homes({variable: ":memory:"}, user) == []


def test_where_batches_end_changes_nothing(home: Home) -> None:
    """Line by line or all at once: the same rows."""
    assert differences(home.rows("one", batch_lines=1), home.rows("all")) == {}


def test_read_again_nothing_is_new(home: Home) -> None:
    """Without a memory of the files, in the other order."""
    settings = home.settings("home")
    first = home.record(settings)
    before = rows(settings.home)
    with closing(connect(settings.home / "agenttrace.db")) as connection:
        connection.execute("DELETE FROM file_offsets")
    again = home.record(settings, backwards=True)
    assert (again.recorded, again.quarantined, again.duplicate) == (0, 0, first.recorded)
    assert differences(rows(settings.home), before).keys() <= {"file_offsets", "streams"}


def _unrecorded(home: Home, settings: Settings, name: str) -> list[str]:
    """The logs of which the store does not have everything, as their kind of source tells."""
    listing = list_files(agent_roots([agent_of(name)], {}, home.home))
    assert listing.files
    with open_store(settings) as store:
        known = dict(store.files.rows())
    return [each.path for each in listing.files if not is_recorded(each, known.get(each.path), 1 << 25)]


def _behind(home: Home, settings: Settings, name: str) -> int:
    """What the status says."""
    listing = list_files(agent_roots([agent_of(name)], {}, home.home))
    with open_store(settings) as store:
        return sum(file["behind"] for file in file_states(store, listing, 1 << 25)[0])


def test_whether_a_log_is_recorded(home: Home, name: str) -> None:
    """A log is recorded when all of it was read, whatever a position in it means; a change of it is not."""
    settings = home.settings("home")
    with closing(Recorder(settings, environ={"HOME": str(home.root / "empty")})) as recorder:
        recorder.run_once()
    agent = agent_of(name)
    logs = list_files(agent_roots([agent], {}, home.home)).files
    assert len(_unrecorded(home, settings, name)) == len(logs)
    home.record(settings)
    assert _unrecorded(home, settings, name) == []
    assert _behind(home, settings, name) == 0
    for found in logs:
        if agent.table is not None:
            with closing(sqlite3.connect(found.path)) as connection:
                # Other tables do not matter.
                connection.execute("CREATE TABLE other (x)")
                connection.executemany("INSERT INTO other VALUES (?)", [("x" * 1000,)] * 100)
                connection.commit()
                assert _unrecorded(home, settings, name) == []
                assert _behind(home, settings, name) == 0
                connection.execute("INSERT INTO event SELECT 'new', aggregate_id, 1000, type, data FROM event LIMIT 1")
                connection.commit()
        elif agent.writes_documents:
            # Of the same size: a document may change in place.
            os.utime(found.path, (1, 1))
        else:
            with open(found.path, "ab") as log:
                log.write(b"x")
        assert found.path in _unrecorded(home, settings, name)


def test_sums_do_not_depend_on_the_order_of_files(home: Home) -> None:
    """Forks first or originals first: each response counts once."""
    sums = []
    for backwards in (False, True):
        settings = home.settings(f"home-{backwards}")
        home.record(settings, backwards=backwards)
        with closing(connect(settings.home / "agenttrace.db")) as connection:
            query = "SELECT count(*), sum(input_tokens), sum(output_tokens), sum(cache_read_tokens) FROM responses"
            sums.append(connection.execute(query).fetchone())
    assert sums[0] == sums[1]


def test_every_session_has_a_time_and_no_span_ends_before_it_begins(home: Home) -> None:
    """All of it happened within an hour of the day on which the samples were made."""
    settings = home.settings("home")
    home.record(settings)
    with closing(connect(settings.home / "agenttrace.db")) as connection:
        for started, last in connection.execute("SELECT started_at, last_at FROM sessions"):
            assert 1_794_786_000_000_000 < started <= last < 1_794_800_000_000_000
        times = connection.execute('SELECT start, "end" FROM spans').fetchall()
    assert times
    assert not [(start, end) for start, end in times if end is not None and end < start]
    assert not [(start, end) for start, end in times if end is not None and end - start > 3_600_000_000]


def test_prompts_answers_and_results_are_found(home: Home, name: str) -> None:
    """What is in the log is in the search index."""
    settings = home.settings("home")
    home.record(settings)
    with closing(connect(settings.home / "agenttrace.db")) as connection:
        store = store_on(connection)
        index_all(store)
        for words in SAMPLES[name][1]:
            phrase = f'"{words}"'
            query = "SELECT count(*) FROM search WHERE search MATCH ?"
            assert connection.execute(query, (phrase,)).fetchone()[0], words


def test_what_streams_remember_is_small(home: Home) -> None:
    """However long a session is."""
    settings = home.settings("home")
    home.record(settings)
    with closing(connect(settings.home / "agenttrace.db")) as connection:
        assert max(len(row[0]) for row in connection.execute("SELECT state FROM streams")) < 20_000


#: Logs as they were when their agent was killed, and the session that they became.
KILLED = {
    "copilot-cli": ("kill.events.jsonl", "killtool.events.jsonl"),
    "gemini-cli": ("kill.jsonl", "killtool.jsonl"),
    "pi": ("killed.jsonl", "killtool.jsonl"),
    "qwen": ("kill.jsonl", "killtool.jsonl"),
    # Its samples have no file of that: so many lines of a log.
    "claude-code": ("e64b9e82:29", "7626114a:22"),
}
#: Agents of which only the projects are in the samples, and where they are in a home directory.
PROJECTS = {"qwen": ("qwen-code-0.24.4", ".qwen"), "claude-code": ("claude-code-2.1.325", ".claude")}


def _prefix(sample: Path, state: str) -> bytes:
    session, _, number = state.partition(":")
    if not number:
        return (sample / "before-resume" / state).read_bytes()
    log = next((sample / "projects").glob(f"*/{session}*.jsonl"))
    return b"".join(log.read_bytes().splitlines(keepends=True)[: int(number)])


@pytest.mark.parametrize(("name", "state"), [(name, state) for name, states in KILLED.items() for state in states])
def test_recorded_when_it_was_killed_and_when_it_was_resumed(name: str, state: str, tmp_path: Path) -> None:
    """A prefix first and then the whole gives what the whole gives at once."""
    sample = PROJECTS[name][0] if name in PROJECTS else SAMPLES[name][0]
    home = Home(tmp_path, sample)
    if name in PROJECTS:
        (home.home / PROJECTS[name][1]).mkdir()
        (home.home / "projects").rename(home.home / PROJECTS[name][1] / "projects")
    prefix = _prefix(DATA / sample, state)
    whole = next(
        path
        for path in sorted(home.home.rglob("*.jsonl"))
        if path.name != "MOCK_BOOKS.jsonl" and path.read_bytes().startswith(prefix)
    )
    for other in home.home.rglob("*.jsonl"):
        if other != whole:
            other.unlink()  # which of two files of a session is read first makes a difference of its own
    expected = home.rows("at once")
    assert expected["spans"]
    data, times = whole.read_bytes(), whole.stat().st_mtime_ns
    settings = home.settings("in two")
    whole.write_bytes(prefix)
    os.utime(whole, ns=(times, times))
    home.record(settings)
    with whole.open("ab") as file:
        file.write(data[len(prefix) :])
    os.utime(whole, ns=(times, times))
    home.record(settings)
    assert differences(rows(settings.home), expected) == {}


def test_a_document_of_a_killed_agent_and_what_became_of_it(tmp_path: Path) -> None:
    """Cline's older state first: the tokens of a message that is written anew count once."""
    home = Home(tmp_path, SAMPLES["cline"][0])
    sums = []
    for earlier in (False, True):
        settings = home.settings(f"home-{earlier}")
        for old in (DATA / "cline-3.0.65" / "before-resume").rglob("*.messages.json") if earlier else ():
            place = next(home.home.rglob(old.name))
            whole = place.read_bytes()
            place.write_bytes(old.read_bytes())
            home.record(settings)
            place.write_bytes(whole)
        home.record(settings)
        with closing(connect(settings.home / "agenttrace.db")) as connection:
            query = "SELECT sum(input_tokens), sum(output_tokens), count(*) FROM responses"
            turns = "SELECT kind, count(*) FROM spans GROUP BY 1 ORDER BY 1"
            sums.append((connection.execute(query).fetchone(), connection.execute(turns).fetchall()))
    assert sums[0] == sums[1]
