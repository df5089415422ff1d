"""Logs of live agents against the books of the model they talked to: every token and every call of them."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agenttrace.config import ensure_home, load_settings
from agenttrace.model import Event
from agenttrace.record.recorder import Recorder
from agenttrace.record.texts.search_index import index_all
from agenttrace.store.questions import NOTHING, Reason
from agenttrace.store.sqlite.agreement import check
from agenttrace.store.sqlite.span_rows import NOT_IN_LOG
from store_on import store_on

DATA = Path(__file__).resolve().parents[1] / "data"
#: Logs of agents in the layout of their home directories, and those of which only the projects are here.
HOMES = (
    "cline-3.0.65",
    "continue-cli-1.5.47",
    "copilot-1.0.102",
    "gemini-cli-0.61.0",
    "opencode-1.18.33",
    "pi-0.87.1",
)
PROJECTS = ("claude-code-2.1.325", "qwen-code-0.24.4")
#: Those that say goodbye when a process ends.
ENDED = ("copilot-1.0.102",)
#: Nothing in their logs says that they were killed, or that the call failed.
UNFINISHED = {"1794789998554_g5xnz", "1794790009662_v9niy", "1bc6b6b0-b4c1-4cc4-bb6a-14ca096968be"}
#: Its process was ended when the answers to all of its prompts were there.
ENDED_LATER = "1794789954995_yw94z"
KINDS = ("input", "cache_read", "cache_write", "output")
#: What is golden, and not in the log of these agents.
NOT_SAID = {
    "agent_version": ("continue-cli-1.5.47", "gemini-cli-0.61.0", "pi-0.87.1"),
    # A document of Continue has nothing that tells a copy from an original.
    "forked_from": ("continue-cli-1.5.47",),
    # Anthropic's API has no number of them, and Cline does not write it.
    "reasoning": (
        *("claude-code-2.1.325", "cline-3.0.65", "continue-cli-1.5.47"),
        *("copilot-1.0.102", "opencode-1.18.33", "pi-0.87.1"),
    ),
}
#: Every golden field of a session, so that a new one does not go unnoticed.
FACTS = {
    "title": "title",
    "cwd": "project",
    "git_branch": "branch",
    "model": "model",
    "agent_version": "version",
    "forked_from": "parent",
}
FIELDS = {
    *FACTS,
    *("session_id", "files", "parent_session_id", "prompts", "turns", "tool_calls", "tool_call_count", "tool_errors"),
    *("tool_calls_without_result", "errors", "model_responses", "model_response_count", "usage"),
    *("copied_response_count", "copied_usage_do_not_count", "extra"),
    "mock_run_labels",  # what the runs were called when the samples were made
}
EXTRA = {
    *("subagents", "status", "exit_code", "metadata_usage_cumulative", "aggregateUsage", "usage_total_in_file"),
    *("last_cost_state_modelUsage", "record_types", "event_types", "entry_types", "record_kinds", "events_by_type"),
    "assistant_usage_events_rows",  # of an index of Copilot's, which is not read
    "compaction_usage_only_in",  # words
}
#: How the samples call the states of a tool call.
STATES = {"completed": "ok", "none": "unclosed", "running": "unclosed", "open": "unclosed"}

_USAGE = """
SELECT sessions.session_id, sum(responses.input_tokens), sum(responses.cache_read_tokens),
    sum(responses.cache_write_tokens), sum(responses.output_tokens), count(*)
FROM responses JOIN sessions ON sessions.id = responses.session_id
WHERE response {} IN (SELECT response FROM spans WHERE stream = ? AND response NOT NULL) GROUP BY 1
"""


def expected(agent: str) -> dict[str, Any]:
    """The golden figures; those of a subagent count for the session that it worked for."""
    found: dict[str, Any] = json.loads((DATA / agent / "EXPECTED.json").read_text())
    sessions = {golden["session_id"]: golden for golden in found["sessions"]}
    for golden in list(sessions.values()):
        parent = sessions.get(golden["parent_session_id"])
        if parent is not None:
            parent["usage"] = _sum([parent["usage"], golden["usage"]])
            for name in ("model_response_count", "tool_call_count", "tool_errors", "tool_calls_without_result"):
                parent[name] += golden[name]
            for name in ("tool_calls", "model_responses", "errors", "files"):
                parent[name] += golden[name]
            for name in parent["extra"].keys() & {"record_kinds", "events_by_type"}:
                parent["extra"][name] = {"main": parent["extra"][name], "subagent": golden["extra"][name]}
            stream = golden["session_id"]
            parent["extra"].setdefault("subagents", {})[stream] = {"prompts": golden["prompts"]}
            del sessions[golden["session_id"]]
    found["sessions"] = list(sessions.values())
    return found


@pytest.fixture(scope="module", params=(*PROJECTS, *HOMES))
def agent(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def store(agent: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    home = tmp_path_factory.mktemp("home")
    settings = load_settings({"HOME": str(home), "AGENTTRACE_HOME": str(home / "data")})
    ensure_home(settings)
    if agent in HOMES:
        # Read where they are: nothing may be written there.
        recorder = Recorder(settings, environ={"HOME": str(DATA / agent)})
    else:
        recorder = Recorder(settings, paths=[str(DATA / agent / "projects")], environ={})
    summary = recorder.run_once()
    assert summary.quarantined == summary.duplicate == summary.pending == 0
    yield recorder.connection
    recorder.close()


def tokens(store: sqlite3.Connection, *, in_log: bool) -> dict[str, tuple[Counter[str], int]]:
    """Tokens and calls by session: those that messages tell, or the others."""
    rows = store.execute(_USAGE.format("NOT" if in_log else ""), (NOT_IN_LOG,))
    return {session: (Counter(dict(zip(KINDS, counts, strict=True))), calls) for session, *counts, calls in rows}


def _sum(usages: list[dict[str, int]]) -> Counter[str]:
    return Counter({kind: sum(usage[kind] for usage in usages) for kind in KINDS})


def test_each_session_used_what_the_model_answered(agent: str, store: sqlite3.Connection) -> None:
    """The calls that messages tell are those of the books, session by session, copies in forks not counted again."""
    found = tokens(store, in_log=True)
    for golden in expected(agent)["sessions"]:
        usage, calls = found.pop(golden["session_id"], (_sum([]), 0))
        assert (usage, calls) == (_sum([golden["usage"]]), golden["model_response_count"]), golden["session_id"]
    assert not found


def test_no_answered_call_is_missing(agent: str, store: sqlite3.Connection) -> None:
    """With the calls that no message has, all that the model answered in full is there, each call once."""
    if agent in HOMES:
        assert not tokens(store, in_log=False), "nothing of these logs tells of such calls"
        return
    books = expected(agent)["answered_by_mock_but_not_in_the_log"]
    missing = [call["usage"] for call in books if call["complete"]]
    found = list(tokens(store, in_log=False).values())
    assert sum((usage for usage, _ in found), Counter()) == +_sum(missing)
    rows = store.execute("SELECT sum(input_tokens), sum(output_tokens) FROM usage_rollup").fetchone()
    total = _sum([expected(agent)["totals"]["usage_recorded"], *missing])
    assert rows == (total["input"], total["output"])


def test_turns_tools_and_errors_are_those_of_the_books(agent: str, store: sqlite3.Connection) -> None:
    """Prompts are turns, also where a fork gives all of them one id; tools end as they did."""
    prompts = "SELECT count(*) FROM spans WHERE session_id = ? AND stream = 'main' AND kind = 'turn' AND {}"
    asked = "json_extract(attributes, '$.origin') IS NULL"
    for golden in expected(agent)["sessions"]:
        number, state, errors = store.execute(
            "SELECT id, state, errors FROM sessions WHERE session_id = ?", (golden["session_id"],)
        ).fetchone()
        copied = golden["copied_response_count"]
        assert store.execute(prompts.format(asked), (number,)).fetchone()[0] == golden["turns"] + copied
        tools = dict(
            store.execute(
                "SELECT status, count(*) FROM spans WHERE session_id = ? AND kind = 'tool' GROUP BY 1", (number,)
            )
        )
        assert sum(tools.values()) == golden["tool_call_count"]
        assert tools.get("error", 0) == golden["tool_errors"]
        left = tools.get("unclosed", 0) + tools.get("open", 0)
        assert left == golden["tool_calls_without_result"]
        # That a call failed is in the log of most.
        failed = golden["model_response_count"] == 0 and (bool(golden["errors"]) or agent == "cline-3.0.65")
        assert errors == golden["tool_errors"] + failed
        over = "ended" if agent in ENDED else "waiting"
        assert state == over or golden["session_id"] in UNFINISHED


def sessions(agent: str, store: sqlite3.Connection) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each golden session with its number in the store."""
    numbers = dict(store.execute("SELECT session_id, id FROM sessions"))
    for golden in expected(agent)["sessions"]:
        yield numbers.pop(golden["session_id"]), golden
    assert not numbers


def test_every_golden_field_is_compared(agent: str) -> None:
    """A field that is new in the samples is compared by a test, or it is said here why not."""
    for golden in expected(agent)["sessions"]:
        assert golden.keys() == FIELDS
        assert golden["extra"].keys() <= EXTRA


def test_facts_of_sessions(agent: str, store: sqlite3.Connection) -> None:
    """Title, directory, branch, model, version and the session that one was forked from, where lists look for them."""
    listed = {session.id: session for session in store_on(store).sessions()}
    goldens = list(sessions(agent, store))
    for number, golden in goldens:
        found = [getattr(listed[number], field) for field in FACTS.values()]
        prompt = listed[number].first_prompt
        golden["forked_from"] = original(golden, [each for _, each in goldens])
        wanted = [None if agent in NOT_SAID.get(name, ()) else golden[name] for name in FACTS]
        if wanted[0] in ("Untitled Session", prompt):
            wanted[0] = None  # lists show the first prompt then
            found[0] = None if found[0] == prompt else found[0]
        assert found == wanted, golden["session_id"]


def original(golden: dict[str, Any], others: list[dict[str, Any]]) -> str | None:
    """The session that one was forked from; of OpenCode the title tells which it was."""
    named: str | None = golden["forked_from"]
    if named is None or not named.startswith("not recorded"):
        return named
    title = golden["title"].removesuffix(" (fork #1)")
    (found,) = (each["session_id"] for each in others if each["title"] == title)
    return str(found)


def test_prompts_are_those_of_the_books(agent: str, store: sqlite3.Connection) -> None:
    """Without the tag and the quotes that programs put around them; a fork begins with those that it copied."""
    query = (
        "SELECT attributes FROM spans WHERE session_id = ? AND stream = ? AND kind = 'turn' ORDER BY turn_index, start"
    )
    for number, golden in sessions(agent, store):
        turns = [json.loads(told) for (told,) in store.execute(query, (number, "main")) if told]
        found = [turn["prompt"] for turn in turns if "origin" not in turn]
        wanted = [re.sub(r'^<user_input mode="act">|</user_input>$|^"|"$', "", each) for each in golden["prompts"]]
        copied = golden["copied_response_count"]
        assert found[copied:] == wanted, golden["session_id"]
        assert len(found) == copied + len(wanted)


def test_each_tool_call_is_that_of_the_books(agent: str, store: sqlite3.Connection) -> None:
    """Its id, its name, how it ended, whose it was, and the model call that asked for it."""
    query = """
        SELECT json_extract(tool.attributes, '$.call'), tool.name, tool.status, tool.stream, step.response
        FROM spans tool LEFT JOIN spans step ON step.session_id = tool.session_id AND step.span_id = tool.parent_id
        WHERE tool.session_id = ? AND tool.kind = 'tool'
    """
    for number, golden in sessions(agent, store):
        found = {call: rest for call, *rest in store.execute(query, (number,))}
        calls = golden["tool_calls"]
        assert len(calls) == len(found) == golden["tool_call_count"]
        asked = {
            call: tuple(response["usage"][kind] for kind in KINDS)
            for response in golden["model_responses"]
            for call in response["tool_call_ids"]
        }
        for call in calls:
            name, status, stream, response = found[call["id"]]
            assert name == f"execute_tool {call['name']}"
            assert STATES.get(status, status) == STATES.get(call["status"], call["status"])
            if "agent_id" in call:
                assert stream == (call["agent_id"] or "main") or stream in golden["extra"]["subagents"]
            if call["id"] in asked:
                row = "input_tokens, cache_read_tokens, cache_write_tokens, output_tokens"
                used = store.execute(f"SELECT {row} FROM responses WHERE response = ?", (response,)).fetchone()
                assert used == asked[call["id"]], call


def test_each_response_used_what_the_model_answered(agent: str, store: sqlite3.Connection) -> None:
    """One by one, with the tokens of thinking where the log has them."""
    kinds = (*KINDS, "reasoning")
    columns = ", ".join(f"{kind}_tokens" for kind in kinds)
    query = f"""
        SELECT {columns} FROM responses WHERE session_id = ?
        AND response NOT IN (SELECT response FROM spans WHERE stream = ? AND response NOT NULL)
    """
    for number, golden in sessions(agent, store):
        usages = [response["usage"] for response in golden["model_responses"]]
        if agent in NOT_SAID["reasoning"]:
            usages = [usage | {"reasoning": 0} for usage in usages]
        found = Counter(store.execute(query, (number, NOT_IN_LOG)).fetchall())
        assert found == Counter(tuple(usage[kind] for kind in kinds) for usage in usages), golden["session_id"]


def test_copies_are_in_the_fork_and_count_in_the_original(agent: str, store: sqlite3.Connection) -> None:
    """A fork shows the calls that it copied; their tokens belong to another session."""
    query = """
        SELECT count(DISTINCT r.response), sum(input_tokens), sum(cache_read_tokens), sum(cache_write_tokens),
            sum(output_tokens)
        FROM spans JOIN responses r ON r.response = spans.response
        WHERE spans.session_id = ? AND r.session_id != spans.session_id AND spans.stream != ?
    """
    for number, golden in sessions(agent, store):
        copied, *tokens = store.execute(query, (number, NOT_IN_LOG)).fetchone()
        assert copied == golden["copied_response_count"], golden["session_id"]
        if copied:
            assert tokens == [golden["copied_usage_do_not_count"][kind] for kind in KINDS]


def test_errors_can_be_read(agent: str, store: sqlite3.Connection) -> None:
    """Why a call failed is found in the session, also where the next attempt worked."""
    if not any(golden["errors"] for golden in expected(agent)["sessions"]):
        return
    index_all(store_on(store))
    words = "SELECT count(*) FROM search JOIN processed_events ON event_no = search.rowid WHERE search MATCH ? AND "
    for number, golden in sessions(agent, store):
        for error in golden["errors"]:
            if "message" in error:
                phrase = '"' + error["message"].replace('"', '""') + '"'
                found = store.execute(f"{words} session_id = ?", (phrase, number)).fetchone()[0]
                assert found, (golden["session_id"], error)
            else:
                steps = "SELECT count(*) FROM spans WHERE session_id = ? AND kind = 'step' AND status = 'unclosed'"
                assert store.execute(steps, (number,)).fetchone()[0] == 1


def test_subagents_are_streams_of_their_session(agent: str, store: sqlite3.Connection) -> None:
    """Each with the call that started it, what it was asked, and what it used."""
    for number, golden in sessions(agent, store):
        told = golden["extra"].get("subagents", {})
        streams = "SELECT DISTINCT stream FROM spans WHERE session_id = ? AND stream NOT IN ('main', ?)"
        found = {stream for (stream,) in store.execute(streams, (number, NOT_IN_LOG))}
        assert {name.removeprefix("agent-") for name in told} == {name.removeprefix("agent-") for name in found}
        links = dict(store.execute("SELECT stream, call FROM links WHERE session_id = ?", (number,)))
        calls = {call["id"] for call in golden["tool_calls"]}
        assert links.keys() >= found
        assert {links[stream] for stream in found} <= calls
        prompts = "SELECT json_extract(attributes, '$.prompt') FROM spans WHERE session_id = ? AND stream = ?"
        for stream in found:
            asked = told.get(stream, {}).get("prompts")
            if asked:
                rows = store.execute(f"{prompts} AND kind = 'turn'", (number, stream)).fetchall()
                assert [text for (text,) in rows] == asked


def _total(records: dict[str, Any]) -> int:
    return sum(_total(each) if isinstance(each, dict) else each for each in records.values())


def test_every_line_is_counted(agent: str, store: sqlite3.Connection) -> None:
    """As many lines of each session as the books have records of its files; of a database, events."""
    counts = ("record_types", "event_types", "entry_types", "record_kinds", "events_by_type")
    files = [(Path(path), lines) for path, lines in store.execute("SELECT filepath, lines FROM file_offsets")]
    for number, golden in sessions(agent, store):
        records = [golden["extra"][name] for name in counts if name in golden["extra"]]
        if not records:
            continue
        if agent == "opencode-1.18.33":
            query = "SELECT count(*) FROM processed_events WHERE session_id = ?"
            found = store.execute(query, (number,)).fetchone()[0]
        else:
            names = {Path(name).parts[-2:] for name in golden["files"]}
            found = sum(lines for path, lines in files if path.parts[-2:] in names)
        assert found == _total(records[0]), golden["session_id"]


def test_sessions_of_kilo_are_checked_like_those_of_opencode(tmp_path: Path) -> None:
    """Kilo writes the same tables at another place."""
    database = tmp_path / ".local" / "share" / "kilo" / "kilo.db"
    database.parent.mkdir(parents=True)
    shutil.copy(DATA / "opencode-1.18.33" / ".local" / "share" / "opencode" / "opencode.db", database)
    settings = load_settings({"HOME": str(tmp_path), "AGENTTRACE_HOME": str(tmp_path / "data")})
    ensure_home(settings)
    with closing(Recorder(settings, environ={"HOME": str(tmp_path)})) as recorder:
        recorder.run_once()
        found = Counter((each.agent, recorder.store.agreement(each.id).status) for each in recorder.store.sessions())
    assert found == {("kilo", "agree"): 12, ("kilo", "nothing"): 1}


COST_STATE = (
    *("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "cacheCreationEphemeral1hInputTokens"),
    *("outputTokens", "thinkingTokens", "webSearchRequests"),
)
LATEST_TOTALS = """
    SELECT model, input_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens,
        reasoning_tokens, web_searches
    FROM totals WHERE session_id = ? AND scope = 'session'
    AND at = (SELECT max(at) FROM totals WHERE session_id = ? AND scope = 'session')
"""


def test_how_runs_ended(agent: str, store: sqlite3.Connection) -> None:
    """What Cline says of a session is what its last turn says, unless the process was ended after its answer."""
    query = "SELECT status FROM spans WHERE session_id = ? AND stream = 'main' AND kind = 'turn' ORDER BY start DESC"
    for number, golden in sessions(agent, store):
        if "status" not in golden["extra"]:
            continue
        status = golden["extra"]["status"]
        last = store.execute(query, (number,)).fetchone()[0]
        state = store.execute("SELECT state FROM sessions WHERE id = ?", (number,)).fetchone()[0]
        assert golden["extra"]["exit_code"] == {"completed": 0, "failed": 1}[status]
        if golden["session_id"] in UNFINISHED:
            assert (status, last, state) == ("failed", "open", "working")
        elif golden["session_id"] == ENDED_LATER:
            assert (status, last, state) == ("failed", "ok", "waiting")
        else:
            assert (last, state) == ({"completed": "ok", "failed": "error"}[status], "waiting")


def test_the_agents_own_totals(agent: str, store: sqlite3.Connection) -> None:
    """Those of Cline have no helper in them, those of Continue nothing of what a fork copied; Claude's are stored."""
    query = """
        SELECT coalesce(sum(input_tokens), 0), coalesce(sum(cache_read_tokens), 0),
            coalesce(sum(cache_write_tokens), 0), coalesce(sum(output_tokens), 0)
        FROM responses WHERE session_id = ? AND response IN (SELECT response FROM spans WHERE stream = 'main')
    """
    for number, golden in sessions(agent, store):
        found = store.execute(query, (number,)).fetchone()
        for name in ("metadata_usage_cumulative", "aggregateUsage"):
            if total := golden["extra"].get(name):
                cached, written = total["cacheReadTokens"], total["cacheWriteTokens"]
                assert found == (total["inputTokens"] - cached - written, cached, written, total["outputTokens"])
        if "last_cost_state_modelUsage" in golden["extra"]:
            told = golden["extra"]["last_cost_state_modelUsage"]
            rows = store.execute(LATEST_TOTALS, (number, number)).fetchall()
            assert {model: tuple(counts) for model, *counts in rows} == {
                model: tuple(counts[name] for name in COST_STATE) for model, counts in told.items()
            }
        if total := golden["extra"].get("usage_total_in_file"):
            details = total["promptTokensDetails"]
            own = (total["promptTokens"], details["cachedTokens"], details["cacheWriteTokens"])
            assert found == (*own, total["completionTokens"])


#: Sessions without a call, or of a program that was killed, so that its total may be an older one.
NO_TOTAL = {
    *("ses_e1e34dd88ffes755rtjN30pLGf", "1794789979997_s9wmg"),
    *("1794789954995_yw94z", "1794789998554_g5xnz", "1794790009662_v9niy"),
}


@pytest.mark.parametrize("agent", ["cline-3.0.65", "continue-cli-1.5.47", "opencode-1.18.33"], indirect=True)
def test_each_session_agrees_with_what_its_agent_says(agent: str, store: sqlite3.Connection) -> None:
    """OpenCode counts copies in forks, and each subagent; Cline leaves out subagents, Continue leaves out copies."""
    responses = "SELECT count(DISTINCT response) FROM spans WHERE session_id = ? AND response NOT NULL AND stream {}"
    for number, golden in sessions(agent, store):
        found = check(store, number)
        if golden["session_id"] in NO_TOTAL:
            assert found == NOTHING
            continue
        streams = "= 'main'" if agent == "cline-3.0.65" else "NOT NULL"
        copied = golden["copied_response_count"] if agent == "continue-cli-1.5.47" else 0
        held = store.execute(responses.format(streams), (number,)).fetchone()[0]
        assert (found.status, found.checked) == ("agree", held - copied), golden["session_id"]
        assert found.claimed == found.counted
        assert sum(found.claimed.values()) > 0
        assert found.reasons == ([Reason("copied", copied)] if copied else [])


def test_the_totals_of_all_sessions(agent: str, store: sqlite3.Connection) -> None:
    """Sessions, prompts, calls, tools and tokens of the whole sample."""
    totals = json.loads((DATA / agent / "EXPECTED.json").read_text())["totals"]
    found = expected(agent)["sessions"]
    count = "SELECT count(*) FROM {} WHERE {}"
    assert store.execute(count.format("spans", "kind = 'tool'")).fetchone()[0] == totals["tool_calls"]
    assert (
        store.execute(count.format("spans", "kind = 'tool' AND status = 'error'")).fetchone()[0]
        == (totals["tool_errors"])
    )
    assert sum(golden["model_response_count"] for golden in found) == totals["model_responses_recorded"]
    usage = sum((used for used, _ in tokens(store, in_log=True).values()), Counter())
    assert usage == +_sum([totals["usage_recorded"]])


def test_aider_is_read_as_its_books_say(tmp_path: Path) -> None:
    """Chats, prompts, estimates, commits and edits."""
    books = json.loads((DATA / "aider-0.86.2" / "EXPECTED.json").read_text())["sessions"]
    settings = load_settings({"HOME": str(tmp_path), "AGENTTRACE_HOME": str(tmp_path / "data")})
    ensure_home(settings)
    with closing(Recorder(settings, environ={"HOME": str(DATA / "aider-0.86.2")})) as recorder:
        recorder.run_once()
        names = recorder.connection.execute("SELECT session_id, id FROM sessions ORDER BY session_id").fetchall()
        assert len(names) == len(books)
        for (name, number), golden in zip(names, books, strict=True):
            assert golden.keys() == {"started_local_time", "prompts", "token_lines", "commits", "applied"}
            assert name.startswith(golden["started_local_time"].replace(":", "").replace(" ", "T"))
            notices = [json.loads(line.raw) for line in recorder.store.lines(session=number)]
            texts = [block["text"] for block in notices if block["kind"] == "notice"]
            assert [block["text"] for block in notices if block["kind"] == "prompt"] == golden["prompts"]
            for kind, start in (("token_lines", "Tokens: "), ("commits", "Commit "), ("applied", "Applied edit to ")):
                assert [text for text in texts if text.startswith(start)] == [each.strip() for each in golden[kind]]
            query = "SELECT count(*), coalesce(min(estimated), 1) FROM responses WHERE session_id = ?"
            found = recorder.connection.execute(query, (number,)).fetchone()
            assert found == (len(golden["token_lines"]), 1)
        _check_calls_of_aider(recorder.connection)


def _check_calls_of_aider(store: sqlite3.Connection) -> None:
    """Each request of its own history is a turn; rounded figures are not those of the provider, and are marked."""
    books = json.loads((DATA / "aider-0.86.2" / "EXPECTED.json").read_text())
    history = (DATA / "aider-0.86.2" / "project" / ".aider.llm.history").read_text()
    asked, answered = (len(re.findall(f"^{name} 2026", history, re.MULTILINE)) for name in ("TO LLM", "LLM RESPONSE"))
    assert (asked, answered) == (books["llm_history"]["to_llm"], books["llm_history"]["llm_response"])
    count = "SELECT count(*) FROM {}"
    assert store.execute(count.format("spans WHERE kind = 'turn'")).fetchone()[0] == asked
    # One answer was cut off before its figures were written.
    responses = store.execute(count.format("responses")).fetchone()[0]
    assert responses == answered - 1 < books["mock_totals"]["http_200"]
    rounded = store.execute("SELECT sum(input_tokens), sum(output_tokens), min(estimated) FROM responses").fetchone()
    usage = books["mock_totals"]["usage_all"]
    assert rounded[2] == 1
    assert rounded[:2] != (usage["input"] + usage["cache_read"], usage["output"])


def test_steps_last_as_long_as_the_calls() -> None:
    """What telemetry says of a call's duration is its step's, and no line of telemetry makes it longer."""
    folder = DATA / "qwen-code-0.24.4" / "projects"
    told: dict[str, int] = {}
    for line in (folder / "-home-dev-qwen-work" / "chats").glob("*.jsonl"):
        for record in map(json.loads, line.read_text().splitlines()):
            event = record.get("systemPayload", {}).get("uiEvent", {})
            if event.get("event.name") == "qwen-code.api_response" and "subagent_id" not in event:
                told[record["uuid"]] = event["duration_ms"]
    assert told
    steps = _steps(folder)
    assert steps
    for uuid, duration in steps.items():
        assert told[uuid] <= duration <= told[uuid] + 30, uuid


def _steps(folder: Path) -> dict[str, float]:
    """Milliseconds of each step by the telemetry that tells of it, folded file by file."""
    from agenttrace.record.formats.qwen_code import QwenCode
    from agenttrace.record.ingest.fold import Folder, StreamState

    agent, found = QwenCode(), {}
    for path in folder.glob("*/chats/*.jsonl"):
        source = agent.recognise(path, path.read_bytes())
        assert source is not None
        folder_ = Folder(source.session_id, "main", "qwen", StreamState())
        for number, raw in enumerate(path.read_bytes().splitlines()):
            event = agent.decode(raw, source)
            assert isinstance(event, Event)
            folder_.feed(number.to_bytes(16), event.at, agent.acts(event, source, folder_.state.memory))
        spans = [span for span in folder_.changed.values() if span.kind == "step"]
        for span in spans:
            assert span.end is not None
            assert span.response_name is not None
            if source.parent_session is None:
                found[span.response_name.removeprefix("qwen:")] = (span.end - span.start) / 1000
    return found
