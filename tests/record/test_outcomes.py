"""What came of a session: from the logs of live agents, from commands, and from real git repositories."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.config import ensure_home, load_settings
from agenttrace.model import Session
from agenttrace.record.command_outcomes import TestRun, command_outcomes, of_interest
from agenttrace.record.formats import AGENTS
from agenttrace.record.formats.contract import Commit, FileChange, PullRequest
from agenttrace.record.formats.diffs import envelope_changes, hunks_of, text_change
from agenttrace.record.outcome_updates import OutcomeUpdates, update_all
from agenttrace.record.outcomes import Fact, figures_of, relative_to, session_facts
from agenttrace.record.recorder import Recorder
from agenttrace.record.repository import Repository, lines_still_there
from agenttrace.store import open_store
from agenttrace.store.questions import OutcomeFigures
from agenttrace.store.store import Store
from agenttrace.views.outcome_figures import outcomes_by_session
from agenttrace.views.outcomes import outcomes_of

DATA = Path(__file__).resolve().parents[1] / "data"
SCRUBBED = Path(__file__).resolve().parents[3] / "shared" / "samples" / "kimi" / "ihhashi-scrubbed"
HOMES = ("cline-3.0.65", "continue-cli-1.5.47", "copilot-1.0.102", "gemini-cli-0.61.0", "opencode-1.18.33", "pi-0.87.1")
PATHS = {"claude-code-2.1.325": "projects", "qwen-code-0.24.4": "projects", "aider-0.86.2": "project"}


# -- the logs of live agents ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=(*HOMES, *PATHS))
def sample(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Store]]:
    agent = str(request.param)
    home = tmp_path_factory.mktemp("home")
    settings = load_settings({"HOME": str(home), "AGENTTRACE_HOME": str(home / "data")})
    ensure_home(settings)
    if agent in HOMES:
        recorder = Recorder(settings, environ={"HOME": str(DATA / agent)})
    else:
        recorder = Recorder(settings, paths=[str(DATA / agent / PATHS[agent])], environ={})
    recorder.run_once()
    recorder.close()
    with open_store(settings) as store:
        yield agent, store


def test_the_edit_of_each_agent_is_one_file_with_one_line(sample: tuple[str, Store]) -> None:
    agent, store = sample
    changed: dict[str, list[FileChange]] = {}
    for session in store.sessions():
        for fact in session_facts(store, session):
            if isinstance(fact.what, FileChange):
                changed.setdefault(session.session_id, []).append(fact.what)
    golden = json.loads((DATA / agent / "EXPECTED.json").read_text())["sessions"]
    edits = {each["session_id"] for each in golden if "edit" in str(each.get("mock_run_labels"))}
    if agent != "aider-0.86.2":
        assert edits
        # Of Cline's two runs, the patch of the first one was refused.
        assert set(changed) <= edits
    assert len(changed) == 1
    ((change,),) = changed.values()
    assert change.path.endswith("app.py")
    if agent == "aider-0.86.2":
        assert (change.added, change.removed) == (None, None)
    else:
        assert (change.added, change.removed, change.lines) == (1, 1, ("    return a + b",))


def test_aider_names_its_commit() -> None:
    agent = next(each for each in AGENTS if each.name == "aider")
    line = json.dumps({"chat": "c", "began": "", "n": 3, "kind": "notice", "text": "Commit b10ed62 fix: the sum"})
    assert list(agent.outcomes(line.encode())) == [Commit(hash="b10ed62", subject="fix: the sum")]


def _said(agent: str, lines: list[dict[str, Any]], tmp_path: Path) -> list[Fact]:
    """The facts of a session of these lines, recorded."""
    settings = load_settings({"HOME": str(tmp_path), "AGENTTRACE_HOME": str(tmp_path / "data")})
    ensure_home(settings)
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    recorder = Recorder(settings, paths=[str(log)], environ={})
    recorder.run_once()
    recorder.close()
    with open_store(settings) as store:
        (session,) = store.sessions()
        assert session.agent == agent
        return session_facts(store, session)


def claude_lines(command: str, output: str, *, cwd: str = "/nowhere") -> list[dict[str, Any]]:
    """A session of Claude Code that runs one command."""
    common = {
        "sessionId": "5bc45ad6-0000-4000-8000-000000000001",
        "cwd": cwd,
        "version": "2.1.325",
        "isSidechain": False,
    }
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": command}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": output}
    message = {"id": "m1", "role": "assistant", "model": "claude-sonnet-4-5", "content": [call]}
    usage = {"input_tokens": 3, "output_tokens": 2}
    return [
        common
        | {
            "type": "user",
            "uuid": "u1",
            "timestamp": "2026-11-16T00:00:00Z",
            "message": {"role": "user", "content": "go"},
        },
        common
        | {
            "type": "assistant",
            "uuid": "u2",
            "timestamp": "2026-11-16T00:00:01Z",
            "message": message | {"usage": usage},
        },
        common
        | {
            "type": "user",
            "uuid": "u3",
            "timestamp": "2026-11-16T00:00:02Z",
            "message": {"role": "user", "content": [result]},
        },
    ]


def test_a_commit_counts_when_the_output_names_it(tmp_path: Path) -> None:
    command = "git add -A && git commit -m \"$(cat <<'EOF'\nfix: the sum\n\npytest\nEOF\n)\""
    (fact,) = _said("claude-code", claude_lines(command, "[main 1a2b3c4] fix: the sum\n 1 file changed"), tmp_path)
    assert fact.known_from == "command output"
    assert fact.what == Commit(hash="1a2b3c4", subject="fix: the sum", branch="main")


#: What git prints for a commit and for one that it amended.
_MADE, _AMENDED = "[main 1a2b3c4] sum\n 1 file changed\n", "[main 2b3c4d5] sum\n Date: Mon Nov 16\n 1 file changed\n"


@pytest.mark.parametrize(
    ("command", "output", "hashes"),
    [
        ("git commit -m sum && git commit -a --amend --no-edit", _MADE + _AMENDED, ["2b3c4d5"]),
        ("git commit --amend --no-edit", _AMENDED, ["2b3c4d5"]),
        ("git commit -m sum; git switch x; git commit --amend", _MADE + _AMENDED.replace("main", "x"), None),
        ("git commit -m 'use --amend'; git cherry-pick x", _MADE + _AMENDED.replace(" Date", " x"), None),
        ("git commit -m sum; git cherry-pick x", _MADE + _AMENDED, None),
    ],
)
def test_an_amended_commit_counts_once(command: str, output: str, hashes: list[str] | None, tmp_path: Path) -> None:
    """As what it became; other commits, and those of another branch, stay beside it."""
    facts = _said("claude-code", claude_lines(command, output), tmp_path)
    found = [fact.what.hash for fact in facts if isinstance(fact.what, Commit)]
    assert found == (hashes or ["1a2b3c4", "2b3c4d5"])
    assert figures_of(facts, None).commits == len(found)


def test_git_dates_the_commits_that_it_amends(project: Path) -> None:
    """What tells an amended commit is in the output of the git that is installed here."""
    commands = ("commit", "--allow-empty", "-m", "one"), ("commit", "--allow-empty", "--amend", "-m", "two")
    output = "".join(git(project, *arguments) for arguments in commands)
    found = [*command_outcomes("git commit -m one && git commit --amend -m two", output)]
    assert [(each.subject, each.amends) for each in found if isinstance(each, Commit)] == [
        ("one", False),
        ("two", True),
    ]


def test_a_commit_that_failed_is_none(tmp_path: Path) -> None:
    assert not _said("claude-code", claude_lines("git commit -m x", "nothing to commit"), tmp_path)


def test_a_pull_request_link_of_claude_code(tmp_path: Path) -> None:
    link = {"type": "pr-link", "sessionId": "5bc45ad6-0000-4000-8000-000000000001", "prNumber": 7}
    link |= {"prUrl": "https://github.com/a/b/pull/7", "prRepository": "a/b", "timestamp": "2026-11-16T00:00:03Z"}
    # The same one is printed by the command, and counts once.
    lines = claude_lines("gh pr create --fill", "https://github.com/a/b/pull/7\n")
    facts = _said("claude-code", [*lines, link, link], tmp_path)
    assert [fact.what for fact in facts] == [PullRequest(url="https://github.com/a/b/pull/7")]


def test_codex_patches_count_once_they_are_applied(tmp_path: Path) -> None:
    patch = (
        "*** Begin Patch\n*** Update File: a.py\n@@\n def f():\n-    return 1\n+    return 2\n"
        "*** Add File: b.py\n+x = 1\n+y = 2\n*** End Patch"
    )
    when = {"timestamp": "2026-11-16T00:00:00.000Z"}
    lines: list[dict[str, Any]] = [
        when | {"type": "session_meta", "payload": {"id": "01a1de77-0000-7000-8000-000000000000", "cwd": "/w"}}
    ]
    for number, output in enumerate(('{"output":"Success.","metadata":{"exit_code":0}}', "apply_patch failed: no")):
        call = {"type": "custom_tool_call", "call_id": f"c{number}", "name": "apply_patch", "input": patch}
        done = {"type": "custom_tool_call_output", "call_id": f"c{number}", "output": output}
        lines += [when | {"type": "response_item", "payload": each} for each in (call, done)]
    whats = [fact.what for fact in _said("codex", lines, tmp_path)]
    assert all(isinstance(what, FileChange) for what in whats)
    assert [(what.path, what.added, what.removed) for what in whats if isinstance(what, FileChange)] == [
        ("a.py", 1, 1),
        ("b.py", 2, 0),
    ]


def _codex(*payloads: dict[str, Any]) -> list[dict[str, Any]]:
    """A rollout of Codex with these payloads."""
    lines = [{"type": "session_meta", "payload": {"id": "01a1de77-0000-7000-8000-000000000000", "cwd": "/w"}}]
    for payload in payloads:
        kind = "event_msg" if payload["type"].startswith("patch_apply") else "response_item"
        lines.append({"type": kind, "payload": payload})
    return [line | {"timestamp": f"2026-11-16T00:00:{at:02}.000Z"} for at, line in enumerate(lines)]


_PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-b = 1\n+b = 2\n+c = 3\n*** Delete File: old.py\n*** End Patch\n"
_CALL = {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": _PATCH, "status": "completed"}
_DONE = {"type": "custom_tool_call_output", "call_id": "c1", "output": "Exit code: 0\nWall time: 0 seconds\nOutput:\n"}
#: As Codex writes it since 0.137: whole paths, where the patch has those relative to the directory.
_END = {
    "type": "patch_apply_end",
    "call_id": "c1",
    "turn_id": "t1",
    "stdout": "Success.",
    "stderr": "",
    "success": True,
    "changes": {
        "/w/a.py": {
            "type": "update",
            "unified_diff": "@@ -1,3 +1,4 @@\n a = 0\n-b = 1\n+b = 2\n+c = 3\n d = 4\n",
            "move_path": None,
        },
        "/w/old.py": {"type": "delete", "content": "x\ny\n"},
    },
    "status": "completed",
}


@pytest.mark.parametrize("order", [(_CALL, _END, _DONE), (_CALL, _DONE, _END)], ids=["end first", "output first"])
def test_a_patch_of_codex_that_two_lines_report_counts_once(order: tuple[dict[str, Any], ...], tmp_path: Path) -> None:
    whats = [fact.what for fact in _said("codex", _codex(*order), tmp_path)]
    changes = {relative_to("/w", what.path): what for what in whats if isinstance(what, FileChange)}
    assert len(changes) == len(whats) == 2
    assert (changes["a.py"].added, changes["a.py"].removed, changes["a.py"].lines) == (2, 1, ("b = 2", "c = 3"))
    # Only the end of a patch has what was in a deleted file.
    assert (changes["old.py"].added, changes["old.py"].removed) == (0, 2 if order[1] is _END else 0)


@pytest.mark.parametrize(
    ("end", "done", "count"),
    [
        ({"success": False, "status": "failed"}, {"output": "Exit code: 1\nOutput:\n"}, 0),
        ({"success": False, "status": "declined", "changes": {}}, {"output": "patch rejected by user"}, 0),
        # Before 0.60 the end of a patch does not have its changes.
        ({"changes": None}, {}, 2),
    ],
)
def test_a_patch_of_codex_that_failed(end: dict[str, Any], done: dict[str, Any], count: int, tmp_path: Path) -> None:
    assert len(_said("codex", _codex(_CALL, _END | end, _DONE | done), tmp_path)) == count


@pytest.mark.parametrize(
    ("change", "path", "added", "removed"),
    [
        ({"type": "add", "content": "p\n\nq"}, "/w/a.py", 3, 0),
        ({"type": "update", "unified_diff": "@@ -1 +1 @@\n-a\n+b\n", "move_path": "/w/b.py"}, "/w/b.py", 1, 1),
    ],
)
def test_ends_of_patches(change: dict[str, Any], path: str, added: int, removed: int, tmp_path: Path) -> None:
    (fact,) = _said("codex", _codex(_END | {"changes": {"/w/a.py": change}}), tmp_path)
    assert isinstance(fact.what, FileChange)
    assert (fact.what.path, fact.what.added, fact.what.removed) == (path, added, removed)


def _tools(sample: str, name: str) -> dict[str, Any]:
    """The parameters of a tool as the log of a live agent has them."""

    def found(value: object) -> Iterator[dict[str, Any]]:
        if isinstance(value, dict):
            if value.get("name") == name and "parameters" in value:
                yield value["parameters"]["properties"]
            for part in value.values():
                yield from found(part)
        elif isinstance(value, list):
            for part in value:
                yield from found(part)

    for log in sorted((DATA / sample).rglob("*.jsonl")):
        for line in log.read_text().splitlines():
            for parameters in found(json.loads(line)) if f'"name":"{name}"' in line else ():
                return parameters
    raise LookupError(name)


def test_tools_that_no_sample_calls_have_the_parameters_that_are_read() -> None:
    """Edits of Kimi Code and ``write`` of Pi: the logs of live agents describe the tools, but do not call them."""
    assert {"path", "old_string", "new_string", "replace_all"} <= set(_tools("kimi-code-2.1.0", "Edit"))
    assert {"path", "content"} <= set(_tools("kimi-code-2.1.0", "Write"))
    assert {"path", "content"} <= set(_tools("pi-0.87.1", "write"))


@pytest.mark.parametrize(
    ("name", "arguments", "added", "removed"),
    [
        ("Edit", {"path": "a.py", "old_string": "x\ny", "new_string": "x\nz\nz"}, 2, 1),
        ("Edit", {"path": "a.py", "old_string": "x", "new_string": "y", "replace_all": True}, None, None),
        ("Write", {"path": "a.py", "content": "x\ny\n"}, 2, None),
    ],
)
def test_edits_of_kimi_code(name: str, arguments: dict[str, Any], added: int | None, removed: int | None) -> None:
    agent = next(each for each in AGENTS if each.name == "kimi-code")
    call = {"event": {"type": "tool.call", "toolCallId": "c", "name": name, "args": arguments}}
    (change,) = agent.outcomes(json.dumps(call, separators=(",", ":")).encode())
    assert isinstance(change, FileChange)
    assert (change.path, change.added, change.removed, change.asked) == ("a.py", added, removed, True)


def test_the_file_that_kimi_cli_wrote(tmp_path: Path) -> None:
    """From the fixtures of its program: one file, new."""
    log = DATA / "kimi-code-migration-fixtures"
    settings = load_settings({"HOME": str(tmp_path), "AGENTTRACE_HOME": str(tmp_path / "data")})
    ensure_home(settings)
    recorder = Recorder(settings, paths=[str(log)], environ={})
    recorder.run_once()
    facts = [fact for session in recorder.store.sessions() for fact in session_facts(recorder.store, session)]
    recorder.close()
    (change,) = [fact.what for fact in facts if isinstance(fact.what, FileChange)]
    assert (change.path.rpartition("/")[2], change.added, change.removed) == ("translated.py", 9, 0)


@pytest.mark.skipif(not SCRUBBED.is_dir(), reason="needs the shared samples")
def test_the_files_of_a_real_session_of_kimi_cli(tmp_path: Path) -> None:
    """27 results of edits; one of them shows the 26 places that it changed in one file, and all of them count."""
    settings = load_settings({"HOME": str(tmp_path), "AGENTTRACE_HOME": str(tmp_path / "data")})
    ensure_home(settings)
    recorder = Recorder(settings, paths=[str(SCRUBBED)], environ={})
    recorder.run_once()
    facts = [fact for session in recorder.store.sessions() for fact in session_facts(recorder.store, session)]
    recorder.close()
    changes = [fact.what for fact in facts if isinstance(fact.what, FileChange)]
    assert len(changes) == 27 - 1 + 26
    net = sum(len(new.splitlines()) - len(old.splitlines()) for old, new in _shown(SCRUBBED))
    added, removed = (sum(getattr(change, name) for change in changes) for name in ("added", "removed"))
    assert added - removed == net == 3538
    assert added == 3673


def _shown(logs: Path) -> Iterator[tuple[str, str]]:
    """The texts before and after that results of edits show."""
    for log in logs.rglob("*.jsonl"):
        for line in map(json.loads, log.read_text().splitlines()):
            message = line.get("message")
            if isinstance(message, dict) and message.get("type") == "ToolResult":
                for each in message["payload"]["return_value"].get("display") or ():
                    if each["type"] == "diff":
                        yield each["old_text"], each["new_text"]


# -- commands ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "output", "passed", "failed"),
    [
        ("pytest -q", "..F\n1 failed, 2 passed in 0.12s", 2, 1),
        (".venv/bin/python -m pytest tests -x", "=== 12 passed, 1 skipped, 2 warnings in 3.40s ===", 12, 0),
        ("cd web && npx vitest run", " Test Files  1 passed (1)\n      Tests  1 failed | 3 passed (4)\n", 3, 1),
        ("npm test", "Tests:       1 failed, 3 passed, 4 total\n", 3, 1),
        ("npm run test:unit -- --silent", "# tests 4\n# pass 3\n# fail 1\n", 3, 1),
        ("go test ./...", "ok  \ta/b\t0.1s\nFAIL\ta/c\t0.2s\nok  \ta/d\t(cached)\n", 2, 1),
        (
            "go test -v .",
            "--- PASS: TestA (0.0s)\n    --- PASS: TestA/x (0.0s)\n--- FAIL: TestB (0.0s)\nFAIL\ta\t1s",
            1,
            1,
        ),
        ("cargo test", "test result: ok. 3 passed; 0 failed;\ntest result: FAILED. 1 passed; 2 failed;", 4, 2),
        ("make test", "\x1b[32m5 passed\x1b[0m in 1.00s\n== 5 passed in 1.00s ==", 5, 0),
        ("python -m unittest", "Ran 5 tests in 0.001s\n\nFAILED (failures=1, errors=1)\n", 3, 2),
        ("FOO=1 timeout 60 uv run pytest", "3 passed in 1s", 3, 0),
        ("mvn -q test", "Tests run: 4, Failures: 1, Errors: 0, Skipped: 1\n", 2, 1),
        ("A='x y' B=\"z\" nice -n 5 timeout -k 5 30s pytest", "3 passed in 1s", 3, 0),
        ("python -W ignore -m pytest", "3 passed in 1s", 3, 0),
        (".venv/bin/python -u manage.py test shop", "Ran 2 tests in 0.1s\n\nOK\n", 2, 0),
        ("npm --prefix web run test", "# pass 3\n# fail 0\n", 3, 0),
        ("yarn workspace shop test --ci", "Tests: 2 passed, 2 total", 2, 0),
        ("make -C web \\\n  VERBOSE=1 test-unit", "3 passed in 1s", 3, 0),
        ("pytest", "Killed", None, None),
    ],
)
def test_summaries_of_tests(command: str, output: str, passed: int | None, failed: int | None) -> None:
    (run,) = command_outcomes(command, output)
    assert isinstance(run, TestRun)
    assert (run.passed, run.failed) == (passed, failed)


@pytest.mark.parametrize(
    "command",
    [
        "cat pytest.ini",
        "grep -r 'git commit' .",
        "echo pytest",
        "git log",
        "cat <<EOF\npytest\nEOF",
        "gh pr view 3",
        "ls tests",
        "make build; cat test.txt",
        "make build\ncat test.txt",
        "make build > test.log",
        "mvn package && ./deploy test",
        "npm --version; test -f package.json",
        "npm -x build",
    ],
)
def test_commands_that_only_mention_something(command: str) -> None:
    assert not of_interest(command)


@pytest.mark.parametrize(
    "command",
    [
        " ".join(f"V{number}='x'" for number in range(60)) + " docker run shop",
        "npm " + "--a " * 60 + "!",
        "python " + "-W " * 60 + "!",
        "timeout " + "-k 5 " * 60 + "!",
        "\n" * 4000,
        ";" * 4000,
    ],
    ids=str.__len__,
)
def test_each_word_of_a_command_is_read_in_one_way(command: str) -> None:
    """Words that can be read in two ways would take for ever: every word doubles the time."""
    assert not of_interest(command)


@pytest.mark.parametrize(
    "output",
    [
        "9" * 5000 + " passed in 1s",
        "Tests: " + "9" * 90_000 + " total",
        "Tests: " + "9" * 5000 + " passed, 1 total",
        "Tests:" + "\t" * 50_000 + "x" * 40_000,
        "Ran 1 test in 1s\n\nFAILED (failures=" + "9" * 5000 + ")",
        "test result: ok. " + "9" * 5000 + " passed; 0 failed",
    ],
    ids=str.__len__,
)
def test_numbers_that_no_test_run_has(output: str) -> None:
    (run,) = command_outcomes("pytest", output)
    assert isinstance(run, TestRun)
    assert (run.passed or 0, run.failed or 0) in ((0, 0), (1, 0))


@given(st.text(), st.text())
def test_any_command_and_output_can_be_read(command: str, output: str) -> None:
    for prefix in ("", "pytest; git commit; gh pr create; "):
        list(command_outcomes(prefix + command, output))


@given(st.binary(max_size=300))
def test_any_line_can_be_asked_for_outcomes(raw: bytes) -> None:
    hints = b'{"structuredPatch":1,"pr-link":2,"fileDiff":3,"diff":4,"patch":"*** Begin Patch","apply_patch":1,"x":'
    for agent in AGENTS:
        list(agent.outcomes(raw))
        list(agent.outcomes(hints + raw + b"}"))


_KEYS = [
    "type",
    "message",
    "content",
    "toolUseResult",
    "structuredPatch",
    "lines",
    "filePath",
    "prUrl",
    "payload",
    "call_id",
    "output",
    "input",
    "changes",
    "data",
    "part",
    "state",
    "metadata",
    "filediff",
    "files",
    "patch",
    "detailedContent",
    "result",
    "success",
    "fileEdits",
    "toolCalls",
    "resultDisplay",
    "fileDiff",
    "toolCallResult",
    "return_value",
    "display",
    "event",
    "args",
    "name",
    "id",
    "arguments",
    "details",
    "item",
    "toolCallStates",
    "status",
]
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["+a", "@@ -1 +1 @@\n-a\n+b", "success", "diff"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=5),
    max_leaves=25,
)


@given(st.dictionaries(st.sampled_from(_KEYS), _JSON, max_size=6))
def test_lines_of_any_shape_can_be_asked(line: dict[str, Any]) -> None:
    raw = json.dumps(line | {"hints": '"pr-link""notebook_path""filediff""tool.result""editor""name":"write"'}).encode()
    for agent in AGENTS:
        list(agent.outcomes(raw))


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_a_change_of_texts_balances(old: list[str], new: list[str]) -> None:
    (change,) = text_change("f", "\n".join(old), "\n".join(new))
    assert change.added is not None
    assert change.removed is not None
    assert change.added - change.removed == len("\n".join(new).splitlines()) - len("\n".join(old).splitlines())


def test_headers_of_diffs_are_no_lines() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n--- b\n+++ c\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-q\n+r\n"
    assert [line for hunk in hunks_of(diff) for line in hunk.lines] == [" a", "--- b", "+++ c", "-q", "+r"]


def test_a_patch_with_deleted_and_moved_files() -> None:
    patch = "*** Begin Patch\n*** Delete File: old\n*** Update File: a\n*** Move to: b\n@@\n-x\n+y\n*** End Patch\n+no"
    found = [(change.path, change.added, change.removed) for change in envelope_changes(patch)]
    assert found == [("old", 0, 0), ("b", 1, 1)]


def test_paths_below_the_project_are_relative() -> None:
    assert relative_to("/w/p", "/w/p/src/a.py") == "src/a.py"
    assert relative_to("/w/p", "/w/pq/a.py") == "/w/pq/a.py"
    assert relative_to("C:\\w", "C:\\w\\a.py") == "a.py"
    assert relative_to(None, "a.py") == "a.py"


# -- repositories -----------------------------------------------------------------------------------------------------


def git(directory: Path, *arguments: str) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *arguments], cwd=directory, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    git(place, "config", "user.email", "dev@example.com")
    git(place, "config", "user.name", "Dev")
    (place / "app.py").write_text("def add(a, b):\n    return a + b\n")
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", "first")
    return place


def test_commits_of_the_time_and_author(project: Path) -> None:
    at = int(git(project, "log", "-1", "--format=%ct")) * 1_000_000
    git(project, "commit", "-q", "--allow-empty", "-m", "other", "--author", "Else <else@example.com>")
    repository = Repository(str(project))
    assert repository.exists
    assert [each.subject for each in repository.commits_between(at - 5_000_000, at + 60_000_000)] == ["first"]
    assert repository.commits_between(at - 9_000_000, at - 5_000_000) == []


def test_a_commit_that_was_reset_is_not_kept(project: Path) -> None:
    git(project, "commit", "-q", "--allow-empty", "-m", "second")
    second = git(project, "rev-parse", "HEAD").strip()
    repository = Repository(str(project))
    assert [each.hash for each in [repository.commit(second[:7])] if each] == [second]
    assert repository.branches_with(second) == ["main"]
    git(project, "reset", "-q", "--hard", "HEAD~1")
    assert Repository(str(project)).branches_with(second) == []
    assert repository.commit("0" * 40) is None
    assert repository.commit("--help") is None
    git(project, "branch", "1234567")
    assert repository.commit("1234567") is None


def _head(project: Path) -> str:
    return git(project, "rev-parse", "HEAD").strip()


def _change(project: Path, text: str, *arguments: str) -> str:
    """A commit of a change of its own."""
    (project / f"{text}.py").write_text(f"{text} = 1\n")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", text, *arguments)
    return _head(project)


def _became(project: Path, commit: str) -> tuple[bool | None, str | None]:
    found = Repository(str(project)).kept([commit[:9]])[commit[:9]]
    assert found.hash == commit
    return found.kept, found.successor


def test_a_commit_that_was_amended_or_rebased_is_kept_as_another(project: Path) -> None:
    git(project, "switch", "-q", "-c", "work")
    first = _change(project, "one", "--date=2026-11-01T00:00:00Z")
    (project / "one.py").write_text("one = 2\n")
    git(project, "commit", "-q", "-a", "--amend", "--no-edit")
    amended = _head(project)
    assert amended != first
    assert _became(project, first) == (True, amended)
    git(project, "switch", "-q", "main")
    _change(project, "other")
    git(project, "rebase", "-q", "main", "work")
    rebased = _head(project)
    assert _became(project, first) == (True, rebased)
    assert _became(project, amended) == (True, rebased)
    assert _became(project, rebased) == (True, None)


def test_a_branch_that_was_deleted(project: Path) -> None:
    git(project, "switch", "-q", "-c", "work")
    commit = _change(project, "one")
    git(project, "switch", "-q", "main")
    git(project, "branch", "-q", "copy", "work")
    git(project, "branch", "-q", "-D", "work")
    assert Repository(str(project)).branches_with(commit) == ["copy"]
    git(project, "branch", "-q", "-D", "copy")
    assert _became(project, commit) == (False, None)
    # Removed from the repository too: nothing is known any more.
    git(project, "reflog", "expire", "--expire=now", "--all")
    git(project, "gc", "-q", "--prune=now")
    assert Repository(str(project)).kept([commit]) == {}


def test_a_branch_that_was_merged_and_deleted(project: Path) -> None:
    git(project, "switch", "-q", "-c", "work")
    commit = _change(project, "one")
    git(project, "switch", "-q", "main")
    git(project, "merge", "-q", "--no-ff", "--no-edit", "work")
    git(project, "branch", "-q", "-D", "work")
    assert _became(project, commit) == (True, None)


@pytest.mark.parametrize("message", [(), ("-m", "all of it")], ids=["message of git", "message of the user"])
def test_a_squash_merge(project: Path, message: tuple[str, ...]) -> None:
    """Git's own message names the commits; with another message only the lines of the files tell."""
    git(project, "switch", "-q", "-c", "work")
    one, two = _change(project, "one"), _change(project, "two")
    git(project, "switch", "-q", "main")
    git(project, "merge", "-q", "--squash", "work")
    git(project, "commit", "-q", "--no-edit", *message)
    git(project, "branch", "-q", "-D", "work")
    kept = (False, None) if message else (True, _head(project))
    assert (_became(project, one), _became(project, two)) == (kept, kept)
    assert lines_still_there(str(project), "two.py", ["two = 1"]) == (1, 1)


def test_a_revert_names_a_commit_and_does_not_keep_it(project: Path) -> None:
    git(project, "switch", "-q", "-c", "work")
    commit = _change(project, "one")
    git(project, "switch", "-q", "main")
    git(project, "commit", "-q", "--allow-empty", "-m", f"Revert one\n\nThis reverts commit {commit}.")
    git(project, "branch", "-q", "-D", "work")
    assert _became(project, commit) == (False, None)


def test_a_default_branch_of_a_remote_is_no_branch_of_its_own(project: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(project), "clone")
    assert Repository(str(tmp_path / "clone")).branches_with(_head(project)) == ["main", "origin/main"]


def test_a_repository_that_was_moved(project: Path) -> None:
    commit = _head(project)
    project.rename(project.parent / "elsewhere")
    repository = Repository(str(project))
    assert not repository.exists
    assert repository.kept([commit]) == {}


def _a_git(directory: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of this name that stands for git in a repository where it needs long."""
    directory.mkdir()
    exists = 'case "$*" in *is-inside-work-tree*) echo true; exit;; esac'
    (directory / "git").write_text(f"#!/bin/sh\n{exists}\n{script}\n")
    (directory / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize("script", ["sleep 600 & sleep 600", "yes", "exec >&-; sleep 600"])
def test_git_is_stopped_when_it_takes_too_long_or_prints_too_much(
    script: str, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what it has started, which would keep its output open."""
    _a_git(tmp_path / "bin", f"echo $$ >> {tmp_path}/started\n{script}", monkeypatch)
    monkeypatch.setattr("agenttrace.record.repository.TIMEOUT", 0.2)
    repository = Repository(str(project))
    assert repository.exists
    assert repository.branches_with("1234567") is None
    for process in (tmp_path / "started").read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(process), 0)


@pytest.mark.parametrize("logs", ["*--branches*", "*--grep*"], ids=["no log", "no messages"])
def test_without_an_answer_it_is_not_known_whether_a_commit_was_kept(
    logs: str, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that takes too long is no proof that nothing became of a commit."""
    lost = _change(project, "one")
    git(project, "reset", "-q", "--hard", "HEAD~1")
    assert _became(project, lost) == (False, None)
    _a_git(tmp_path / "bin", f'case "$*" in {logs}) exit 1;; esac; exec {shutil.which("git")} "$@"', monkeypatch)
    assert _became(project, lost) == (None, None)


def test_of_very_many_commits_it_is_not_known_which_one_became_another(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = _change(project, "one", "--date=2026-11-01T00:00:00Z")
    git(project, "reset", "-q", "--hard", "HEAD~1")
    _change(project, "two")
    monkeypatch.setattr("agenttrace.record.repository._MOST_LOGGED", 1)
    assert _became(project, lost) == (None, None)


def test_messages_are_read_whatever_encoding_git_prints(project: Path) -> None:
    git(project, "config", "i18n.logOutputEncoding", "ISO-8859-1")
    git(project, "commit", "-q", "--allow-empty", "-m", "prüfen")
    found = Repository(str(project)).commit(_head(project))
    assert found is not None
    assert found.subject == "prüfen"


def test_many_questions_have_one_time_limit(project: Path) -> None:
    commit = _head(project)
    repository = Repository(str(project), deadline=time.monotonic() + 60)
    assert repository.kept([commit])[commit].kept
    repository._deadline = time.monotonic()
    assert repository.kept([commit]) == {}
    assert not Repository(str(project), deadline=time.monotonic()).exists


def test_lines_of_files_outside_are_not_looked_for(project: Path) -> None:
    (project.parent / "secret").write_text("key\n")
    (project / "link").symlink_to(project.parent / "secret")
    os.mkfifo(project / "fifo")
    assert lines_still_there(str(project), "app.py", ["    return a + b", "", "    gone"]) == (1, 2)
    assert lines_still_there(str(project), "deleted.py", ["x"]) == (0, 1)
    assert lines_still_there(str(project), "app.py", ["", " "]) is None
    for path in ("../secret", str(project.parent / "secret"), "link", "fifo", "a\0b", "a\ud800b", "a" * 5000):
        assert lines_still_there(str(project), path, ["key"]) is None


def test_comparing_files_has_a_time_limit(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change = FileChange(path="app.py", added=1, lines=("def add(a, b):",))
    fact = Fact(what=change, known_from="tool call", at=1, span_id=None)
    session = Session(id=1, agent="claude-code", session_id="s", project=str(project))
    assert [file.lines_kept for file in outcomes_of(session, [fact]).files] == [1]
    monkeypatch.setattr("agenttrace.views.outcomes.BUDGET", 0)
    assert [(file.added, file.lines_kept) for file in outcomes_of(session, [fact]).files] == [(1, None)]


def test_a_hostile_repository_runs_nothing(project: Path) -> None:
    """Whatever a repository's configuration names is not started by any question."""
    ran = project.parent / "ran"
    program = project.parent / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    hooks = project / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-index-change", "reference-transaction", "post-checkout", "pre-auto-gc", "fsmonitor-watchman"):
        (hooks / name).write_text(program.read_text())
        (hooks / name).chmod(0o755)
    for name in [
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "core.askPass",
        "core.editor",
        "gpg.program",
        "gpg.ssh.program",
        "diff.external",
        "credential.helper",
        "pager.log",
        "pager.config",
        "pager.for-each-ref",
        "uploadpack.packObjectsHook",
        "core.gitProxy",
        "core.alternateRefsCommand",
        "filter.x.clean",
        "filter.x.smudge",
        "filter.x.process",
        "diff.x.textconv",
        "alias.log",
    ]:
        git(project, "config", name, f"!{program}" if name.startswith("alias") else str(program))
    git(project, "config", "log.showSignature", "true")
    git(project, "config", "core.repositoryFormatVersion", "1")
    git(project, "config", "extensions.partialClone", "origin")
    git(project, "config", "remote.origin.url", f"ext::{program}")
    git(project, "config", "remote.origin.promisor", "true")
    git(project, "config", "protocol.ext.allow", "always")
    (project / ".gitattributes").write_text("* filter=x diff=x\n")
    # The last commit is signed, and its parent is missing: git would start a verifier, and fetch from the remote.
    tree = git(project, "rev-parse", "HEAD^{tree}").strip()
    who = "Dev <dev@example.com> 1794733000 +0000"
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n abc\n -----END PGP SIGNATURE-----"
    (project / "commit").write_text(
        f"tree {tree}\nparent {'1' * 40}\nauthor {who}\ncommitter {who}\n{signature}\n\nhostile\n"
    )
    head = git(project, "hash-object", "-t", "commit", "-w", "commit").strip()
    lost = git(project, "rev-parse", "HEAD").strip()
    (project / ".git" / "refs" / "heads" / "main").write_text(head + "\n")
    repository = Repository(str(project))
    assert repository.exists
    repository.commits_between(0, 4_000_000_000_000_000)
    repository.branches_with(head)
    assert repository.commit(head[:8]) is not None
    repository.commit("1234567890")
    repository.kept([head[:8], lost])
    repository.author()
    assert not ran.exists()


def test_directories_that_are_no_repositories(tmp_path: Path) -> None:
    for directory in (str(tmp_path), str(tmp_path / "gone"), "relative", "", "/\0"):
        repository = Repository(directory)
        assert not repository.exists
        assert repository.commits_between(0, 1) == []


def test_a_session_with_its_repository(project: Path, tmp_path: Path) -> None:
    settings = load_settings({"HOME": str(tmp_path), "AGENTTRACE_HOME": str(tmp_path / "data")})
    ensure_home(settings)
    short = git(project, "rev-parse", "--short", "HEAD").strip()
    git(project, "commit", "-q", "--allow-empty", "-m", "lost")
    lost = git(project, "rev-parse", "--short", "HEAD").strip()
    git(project, "reset", "-q", "--hard", "HEAD~1")
    log = tmp_path / "log.jsonl"
    output = f"[main {short}] first\n[main {lost}] lost\n[main 1234567] elsewhere\n"
    lines = claude_lines("git commit -am x; git commit --amend", output, cwd=str(project))
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    recorder = Recorder(settings, paths=[str(log)], environ={})
    recorder.run_once()
    recorder.close()
    with open_store(settings) as store:
        (session,) = store.sessions()
        facts = session_facts(store, session)
    found = outcomes_of(session, facts)
    assert found.repository
    assert [(commit.subject, commit.kept, commit.branches) for commit in found.commits] == [
        ("first", True, ["main"]),
        ("lost", False, []),
        ("elsewhere", None, []),
    ]
    assert found.commits[0].known_from == ["command output", "repository"]
    assert found.kept_commits == (1, 2)
    assert [commit.kept for commit in outcomes_of(session, facts, repository=False).commits] == [None] * 3


# -- copies, and figures in the background ----------------------------------------------------------------------------


def test_a_fork_does_not_repeat_what_its_original_did(tmp_path: Path) -> None:
    settings = load_settings({"HOME": str(tmp_path), "AGENTTRACE_HOME": str(tmp_path / "data")})
    ensure_home(settings)
    logs = tmp_path / "logs"
    logs.mkdir()
    first, second = "5bc45ad6-0000-4000-8000-000000000001", "6bc45ad6-0000-4000-8000-000000000002"
    lines = claude_lines("git commit -m x; pytest", "[main 1a2b3c4] x\n3 passed in 1s\n")
    copies = [line | {"sessionId": second, "forkedFrom": {"sessionId": first}} for line in lines]
    own = claude_lines("git commit -m y", "[main 2b3c4d5] y\n")
    for number, line in enumerate(own):
        line |= {"sessionId": second, "uuid": f"v{number}", "timestamp": f"2026-11-16T00:01:0{number}Z"}
    own[1]["message"]["id"] = "m2"
    for name, written in ((first, lines), (second, copies + own)):
        (logs / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in written))
    recorder = Recorder(settings, paths=[str(logs)], environ={})
    recorder.run_once()
    updates = OutcomeUpdates(recorder.store)
    while recorder.store.outcome_table.waiting(time.time()):
        updates.step(0)
    stored = recorder.store.outcomes([session.id for session in recorder.store.sessions()])
    found = {session.session_id: stored[session.id] for session in recorder.store.sessions()}
    recorder.close()
    assert found[first].figures == OutcomeFigures(commits=1, test_runs=1, tests_passed=3, tests_failed=0)
    assert found[second].figures == OutcomeFigures(commits=1)
    assert (found[first].hashes, found[second].hashes) == (["1a2b3c4"], ["2b3c4d5"])
    assert {share.model for each in found.values() for share in each.shares} == {"claude-sonnet-4-5"}


def test_a_result_that_cannot_be_read_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in a list nor in the recorder, which examines sessions while it records."""
    lines = claude_lines("git commit -m x", "[main 1a2b3c4] x\n")
    odd = claude_lines("git commit -m odd", "[main 2b3c4d5] odd\n")
    for number, line in enumerate(odd):
        line |= {"uuid": f"v{number}", "timestamp": f"2026-11-15T00:01:0{number}Z"}
    odd[1]["message"]["id"] = "m2"

    def read(command: str, output: str) -> Iterator[Any]:
        if "odd" in command:
            raise ValueError
        return command_outcomes(command, output)

    monkeypatch.setattr("agenttrace.record.outcomes.command_outcomes", read)
    facts = _said("claude-code", odd + lines, tmp_path)
    assert [fact.what.hash for fact in facts if isinstance(fact.what, Commit)] == ["1a2b3c4"]


def test_lines_that_cannot_be_read_are_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For instance those of a format whose package is not installed at the moment."""
    settings = load_settings({"HOME": str(tmp_path), "AGENTTRACE_HOME": str(tmp_path / "data")})
    ensure_home(settings)
    log = tmp_path / "log.jsonl"
    lines = claude_lines("git commit -m x", "[main 1a2b3c4] x\n")
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    recorder = Recorder(settings, paths=[str(log)], environ={})
    recorder.run_once()
    store = recorder.store
    (session,) = store.sessions()
    with monkeypatch.context() as without:
        without.setattr("agenttrace.record.texts.contents.AGENTS", ())
        update_all(store)
    assert store.outcomes([session.id])[session.id].figures.commits == 0
    assert store.outcome_table.waiting(time.time()) == []
    assert store.outcome_table.waiting(time.time() + 3_600) == [session.id]
    assert outcomes_by_session(store, [session])[session.id].figures.commits == 1
    recorder.close()
