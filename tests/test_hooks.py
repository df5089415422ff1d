"""Hooks in the settings of agents: put in and taken out, with all that the user wrote kept."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.hooks import json_text
from agenttrace.hooks.entries import (
    HookConflictError,
    own_commands,
    with_hooks,
    without_hooks,
)
from agenttrace.hooks.installing import HookError, Installer
from agenttrace.hooks.json_text import BadDocumentError
from agenttrace.hooks.status_line import with_status_line, without_status_line
from agenttrace.hooks.targets import TARGETS, Target, find_target

COMMAND = "/opt/agent trace/bin/agenttrace guard --agent claude-code"
GROUPS = {
    event: {"hooks": [{"type": "command", "command": COMMAND, "timeout": 10}]}
    for event in ("PreToolUse", "UserPromptSubmit")
}
STATUS = "/opt/bin/agenttrace statusline"

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)
_others = st.fixed_dictionaries({"hooks": st.lists(st.fixed_dictionaries({"command": st.text()}), max_size=2)}) | values
_hooks = st.dictionaries(
    st.sampled_from(["PreToolUse", "UserPromptSubmit", "Stop", "x.y", ""]), st.lists(_others, max_size=2), max_size=3
)
documents = st.builds(
    lambda rest, hooks: {**rest, **({} if hooks is None else {"hooks": hooks})},
    st.dictionaries(st.text(max_size=8).filter(lambda key: key not in ("hooks", "statusLine")), values, max_size=4),
    st.none() | _hooks,
)
_styles = st.sampled_from(
    [
        {"indent": 2},
        {"indent": 4},
        {"indent": "\t"},
        {},
        {"separators": (",", ":")},
        {"indent": 2, "ensure_ascii": False},
    ]
)


def _comments(text: str) -> str:
    """The document as some people write it: with comments behind the lines, and other line ends."""
    return text.replace("\n", " // a, { comment }\r\n") + "\n/* the end */"


@given(documents, _styles, st.booleans())
def test_taken_out_again_the_document_is_what_it_was(
    document: dict[str, Any], style: dict[str, Any], spoken: bool
) -> None:
    """Whatever is in the settings; commands are there once, however often they are put in."""
    text = json.dumps(document, **style)
    if spoken and '"\n' not in text:
        text = _comments(text)
    edited = with_hooks(text, GROUPS)
    assert own_commands(edited.text) == {event: [COMMAND] for event in GROUPS}
    read = json_text.parse(edited.text).value()
    assert {key: value for key, value in read.items() if key != "hooks"} == {
        key: value for key, value in document.items() if key != "hooks"
    }
    again = with_hooks(edited.text, GROUPS)
    assert own_commands(again.text) == own_commands(edited.text)
    back = without_hooks(edited.text, edited.created).text
    assert json_text.parse(back).value() == document
    assert without_hooks(back, edited.created).text == back


@given(documents, _styles)
def test_a_document_as_programs_write_it_is_the_same_to_the_letter(
    document: dict[str, Any], style: dict[str, Any]
) -> None:
    """Where nothing in it was empty, as an empty list is written in many ways."""
    text = json.dumps(document, **style)
    edited = with_hooks(text, GROUPS)
    back = without_hooks(edited.text, edited.created).text
    if document and document.get("hooks") != {} and [] not in (document.get("hooks") or {}).values():
        assert back == text
    if "statusLine" not in document:
        assert json.loads(without_status_line(with_status_line(text, STATUS))) == document


@given(documents, _styles)
def test_the_scanner_reads_what_the_library_reads(document: dict[str, Any], style: dict[str, Any]) -> None:
    """Values of any shape."""
    text = json.dumps(document, **style)
    assert json_text.parse(text).value() == json.loads(text)


@given(st.text(alphabet='{}[]",:/* \n1ae\\') | st.text())
def test_bad_documents_are_refused(text: str) -> None:
    """With a line and a reason, and never otherwise."""
    with suppress(BadDocumentError, HookConflictError):
        assert own_commands(with_hooks(text, GROUPS).text) == {event: [COMMAND] for event in GROUPS}


@pytest.mark.parametrize("text", ["[]", "1", '{"hooks": []}', '{"hooks": {"PreToolUse": {}}}', '{"hooks": null}'])
def test_what_the_user_wrote_is_not_replaced(text: str) -> None:
    """Hooks are only added to an object of lists."""
    with pytest.raises(HookConflictError):
        with_hooks(text, GROUPS)


def test_hooks_of_others_stay() -> None:
    """In their order, with their comments, also where the user moved the command into a group."""
    text = """{
  // my settings
  "model": "opus",
  "hooks": {
    "PreToolUse": [
      { "matcher": "Bash", "hooks": [{ "type": "command", "command": "mine" }] } // keep
    ]
  }
}
"""
    edited = with_hooks(text, GROUPS)
    assert edited.text.startswith(text.partition(" // keep")[0])
    assert "// my settings" in edited.text
    assert "// keep" in edited.text
    assert edited.created == ("hooks.UserPromptSubmit",)
    assert without_hooks(edited.text, edited.created).text == text
    moved = text.replace('"command": "mine" }', f'"command": "mine" }}, {{ "command": "{COMMAND}" }}')
    assert without_hooks(moved, ()).text == text


def test_one_s_own_status_line_is_there_once() -> None:
    """Put in again it is the same; another copy of the program takes its place, with the fields that the user added."""
    own = with_status_line("{}", STATUS)
    assert with_status_line(own, STATUS) == own
    padded = own.replace('"type"', '"padding": 0, "type"')
    changed = json.loads(with_status_line(padded, f"/new{STATUS}"))["statusLine"]
    assert (changed["command"], changed["padding"]) == (f"/new{STATUS}", 0)
    assert json.loads(without_status_line(own)) == {}


_commands = st.text(min_size=1).filter(str.strip)
_odd_commands = st.sampled_from(["it's", "a 'b' \"c\"", "'\"'\"'", "x\\'y\n", "é\\u0027"])


@given(_commands | _odd_commands, _styles)
def test_the_user_s_status_line_is_called_and_comes_back(command: str, style: dict[str, Any]) -> None:
    """As one word of a shell, whatever is in it; taken out, the document is what it was to the letter."""
    text = json.dumps({"a": 1, "statusLine": {"type": "command", "command": command, "padding": 2}, "b": []}, **style)
    wrapped = with_status_line(text, STATUS)
    line = json.loads(wrapped)["statusLine"]
    assert (line["type"], line["padding"]) == ("command", 2)
    assert shlex.split(line["command"]) == [*STATUS.split(), "--then", command]
    assert with_status_line(wrapped, STATUS) == wrapped
    moved = with_status_line(wrapped, f"/new{STATUS}")
    assert shlex.split(json.loads(moved)["statusLine"]["command"])[-1] == command
    assert without_status_line(wrapped) == text
    assert without_status_line(moved) == text
    assert without_status_line(text) == text
    escaped = with_status_line(text.replace("'", "\\u0027"), STATUS)
    assert json.loads(escaped) == json.loads(wrapped)


@pytest.mark.parametrize(
    "line", ['"off"', "{}", '{"type": "static", "command": "x"}', '{"command": 3}', '{"command": " "}']
)
def test_a_status_line_that_is_no_command_stays(line: str) -> None:
    """And the error names what to write."""
    text = f'{{"statusLine": {line}}}'
    with pytest.raises(HookConflictError, match="agenttrace statusline --then"):
        with_status_line(text, STATUS)
    assert without_status_line(text) == text


@pytest.mark.parametrize(
    "command", [f"x; {STATUS}", f"{STATUS} | cut -c1-80", f'{STATUS} --then "x"', f"{STATUS} --then 'a' 'b'"]
)
def test_a_line_that_the_user_wrote_with_agenttrace_in_it_stays(command: str) -> None:
    """It is the user's: it is neither called, which would print the line twice, nor taken out."""
    text = json.dumps({"statusLine": {"type": "command", "command": command}})
    with pytest.raises(HookConflictError, match="of your own"):
        with_status_line(text, STATUS)
    assert without_status_line(text) == text


# -- files --------------------------------------------------------------------------------------------------------


@pytest.fixture
def installer(tmp_path: Path) -> Installer:
    """Of a user without any agents."""
    return Installer(tmp_path / "data", {}, tmp_path, ["/opt/bin/agenttrace"])


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.agent)
def test_a_file_that_was_not_there_is_gone_again(installer: Installer, target: Target, tmp_path: Path) -> None:
    """It is shown first, written once, and reported as installed; a second time changes nothing."""
    plan = installer.plan_install(target)
    assert plan.changes
    assert "+" in plan.difference()
    assert not plan.path.exists()
    assert installer.apply(plan) is None
    assert f"guard --agent {target.agent}" in plan.path.read_text().replace('", "', " ")
    status = installer.status(target)
    assert (status.installed, status.current, status.problem) == (True, True, None)
    again = installer.plan_install(target)
    assert (again.changes, again.difference()) == (False, "")
    other = Installer(tmp_path / "data", {}, tmp_path, ["/usr/bin/agenttrace"])
    assert (other.status(target).installed, other.status(target).current) == (True, False)
    other.apply(other.plan_install(target))
    assert "/opt/bin" not in plan.path.read_text()
    installer.apply(installer.plan_uninstall(target))
    assert not plan.path.exists()
    assert not installer.status(target).installed
    assert not installer.plan_uninstall(target).changes


def _claude(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / ".claude/settings.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


CLAUDE = next(target for target in TARGETS if target.agent == "claude-code")


def test_agents_have_short_names() -> None:
    """As people write them."""
    names = ("claude", "Codex", "gemini", "qwen", "copilot_cli", "opencode")
    assert [target.agent for target in map(find_target, names) if target] == [target.agent for target in TARGETS]
    assert find_target("vim") is None


def test_settings_are_the_same_afterwards(installer: Installer, tmp_path: Path) -> None:
    """To the byte, behind a link, with the mode of the file; a copy of the old one is beside it."""
    text = '\ufeff{\r\n\t"hooks": {},\r\n\t"model": "opus" // mine\r\n}'
    path = _claude(tmp_path, text)
    path.chmod(0o600)
    real = tmp_path / "dotfiles.json"
    path.rename(real)
    path.symlink_to(real)
    backup = installer.apply(installer.plan_install(CLAUDE, status_line=True))
    assert backup is not None
    assert backup.read_bytes().decode() == text
    assert path.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o600
    assert installer.status(CLAUDE).status_line
    assert (
        json_text.parse(real.read_bytes().decode()).value()["statusLine"]["command"] == "/opt/bin/agenttrace statusline"
    )
    installer.apply(installer.plan_uninstall(CLAUDE))
    assert json_text.parse(real.read_bytes().decode()).value() == {"hooks": {}, "model": "opus"}
    assert "// mine\r\n" in real.read_bytes().decode()


def test_the_guard_is_installed_where_the_status_line_cannot_be(installer: Installer, tmp_path: Path) -> None:
    """The plan says why; the status line alone is refused; and without it nothing is said about it."""
    text = '{"statusLine": "off"}'
    _claude(tmp_path, text)
    plan = installer.plan_install(CLAUDE, status_line=True)
    assert "--then" in (plan.status_line_problem or "")
    installer.apply(plan)
    status = installer.status(CLAUDE)
    assert (status.installed, status.current, status.status_line) == (True, True, False)
    assert installer.plan_install(CLAUDE, status_line=True).status_line_problem == plan.status_line_problem
    with pytest.raises(HookError, match="--then"):
        installer.plan_install(CLAUDE, status_line=True, guard=False)
    assert installer.plan_install(CLAUDE).status_line_problem is None
    installer.apply(installer.plan_uninstall(CLAUDE))
    assert plan.path.read_text() == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b'{"hooks": {', "not valid JSON (line 1"),
        (b'{"a": 1,\n "b": tru}', "not valid JSON (line 2"),
        (b"\xff\xfe{}", "is not UTF-8 text"),
        (b'{"hooks": 3}', "is not an object"),
    ],
)
def test_bad_settings_are_refused_with_the_reason(
    installer: Installer, tmp_path: Path, text: bytes, problem: str
) -> None:
    """And stay as they are."""
    path = _claude(tmp_path, text)
    for plan in (installer.plan_install, installer.plan_uninstall):
        if plan == installer.plan_uninstall and b"3" in text:
            continue  # there is nothing to take out
        with pytest.raises(HookError, match=re.escape(problem)):
            plan(CLAUDE)
    assert problem in (installer.status(CLAUDE).problem or problem)
    assert path.read_bytes() == text


def test_a_file_that_must_not_be_written(installer: Installer, tmp_path: Path) -> None:
    """Read-only, changed while the user was asked, or a directory."""
    path = _claude(tmp_path, "{}")
    plan = installer.plan_install(CLAUDE)
    path.write_text('{"new": 1}')
    with pytest.raises(HookError, match="has changed meanwhile"):
        installer.apply(plan)
    path.chmod(0o400)
    with pytest.raises(HookError, match="is read-only"):
        installer.plan_install(CLAUDE)
    path.chmod(0o600)
    path.unlink()
    path.mkdir()
    with pytest.raises(HookError, match="is not a file"):
        installer.plan_install(CLAUDE)


def test_the_copy_of_a_lost_memory(installer: Installer, tmp_path: Path) -> None:
    """Without the note of what was created, what is empty stays, and all commands are gone."""
    _claude(tmp_path, '{"model": "opus"}')
    installer.apply(installer.plan_install(CLAUDE))
    (tmp_path / "data/hooks.json").unlink()
    installer.apply(installer.plan_uninstall(CLAUDE))
    assert installer.status(CLAUDE).installed is False
    found = json.loads((tmp_path / ".claude/settings.json").read_text())
    assert found["model"] == "opus"
