"""Which files are there: homes of agents, named paths and patterns, each file once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from agenttrace.record.files.discover import Root, agent_roots, expanded, is_companion, list_files, named_roots
from agenttrace.record.formats import AGENTS


def make(path: Path, seconds: int = 0) -> Path:
    """A log, last written so many seconds after the beginning of time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(f'{{"name": "{path.name}"}}\n'.encode("utf-8", "surrogateescape"))
    os.utime(path, (seconds, seconds))
    return path


def found(*roots: Path, exclude: tuple[str, ...] = ()) -> list[str]:
    """The paths of a listing, relative to the first root's directory."""
    listing = list_files([Root(root) for root in roots], exclude)
    return [os.path.relpath(one.path, os.path.realpath(roots[0])) for one in listing.files]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.1", "a.jsonl.12", "a.jsonl.zst", "a.jsonl.1.zst", ".jsonl"])
def test_names_of_logs(tmp_path: Path, name: str) -> None:
    """Rotated and compressed logs are logs."""
    make(tmp_path / name)
    assert found(tmp_path) == [name]


@pytest.mark.parametrize("name", ["a.json", "a.jsonl.bak", "a.jsonl.tmp", "ajsonl", "a.jsonl.1x", "a.txt", "a.jsonl~"])
def test_names_of_other_files(tmp_path: Path, name: str) -> None:
    """Files beside logs are ignored."""
    make(tmp_path / name)
    assert found(tmp_path) == []


def test_named_file_needs_no_ending(tmp_path: Path) -> None:
    """A file that the user names is read whatever it is called."""
    path = make(tmp_path / "session.log")
    assert [one.path for one in list_files(named_roots([str(path)])).files] == [str(path)]


def test_order(tmp_path: Path) -> None:
    """Oldest first, so that originals come before their copies; subagents' files after all main logs."""
    make(tmp_path / "b.jsonl", 30)
    make(tmp_path / "s" / "subagents" / "agent-1.jsonl", 10)
    make(tmp_path / "z.jsonl", 20)
    make(tmp_path / "a.jsonl", 30)
    assert found(tmp_path) == ["z.jsonl", "a.jsonl", "b.jsonl", os.path.join("s", "subagents", "agent-1.jsonl")]
    assert is_companion(str(tmp_path / "s" / "subagents" / "agent-1.jsonl"))


def test_excluded(tmp_path: Path) -> None:
    """Globs of the settings keep files out."""
    make(tmp_path / "a.jsonl")
    make(tmp_path / "private" / "b.jsonl")
    assert found(tmp_path, exclude=("*/private/*",)) == ["a.jsonl"]


def test_each_file_once(tmp_path: Path) -> None:
    """Links, hard links, loops and roots inside each other: one file, under its own path."""
    path = make(tmp_path / "inner" / "a.jsonl")
    (tmp_path / "link.jsonl").symlink_to(path)
    (tmp_path / "again").symlink_to(tmp_path / "inner")
    (tmp_path / "inner" / "up").symlink_to(tmp_path)
    (tmp_path / "dead.jsonl").symlink_to(tmp_path / "nowhere")
    (tmp_path / "round.jsonl").symlink_to(tmp_path / "round.jsonl")
    listing = list_files([Root(tmp_path), Root(tmp_path / "inner"), Root(tmp_path / "link.jsonl")])
    assert [one.path for one in listing.files] == [str(path)]
    os.link(path, tmp_path / "hard.jsonl")
    assert len(list_files([Root(tmp_path)]).files) == 1


def test_links_out_of_what_is_watched(tmp_path: Path) -> None:
    """They are not followed, and said; if asked for they are, and their files go by their real paths."""
    outside, logs = tmp_path / "outside", tmp_path / "logs"
    path, secret = make(outside / "deep" / "a.jsonl"), make(outside / "secret")
    logs.mkdir()
    (logs / "link").symlink_to(outside / "deep")
    (logs / "x.jsonl").symlink_to(secret)
    (logs / "readme").symlink_to(secret)
    listing = list_files([Root(logs)])
    assert listing.files == []
    assert sorted(listing.links) == [(str(logs / "link"), str(outside / "deep")), (str(logs / "x.jsonl"), str(secret))]
    asked = list_files([Root(logs)], follow=True)
    assert (sorted(one.path for one in asked.files), asked.links) == ([str(path), str(secret)], [])


def test_links_between_what_is_watched(tmp_path: Path) -> None:
    """Where another root covers it, it is read anyway."""
    path = make(tmp_path / "two" / "a.jsonl")
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "link").symlink_to(tmp_path / "two")
    listing = list_files([Root(tmp_path / "one"), Root(tmp_path / "two")])
    assert ([one.path for one in listing.files], listing.links) == ([str(path)], [])


def test_a_named_path_may_be_a_link(tmp_path: Path) -> None:
    """A file or a directory that the user named; what a pattern matches is not named."""
    path = make(tmp_path / "outside" / "a.jsonl")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "link").symlink_to(path.parent)
    (tmp_path / "logs" / "x.jsonl").symlink_to(path)
    for named in ("link", "x.jsonl", "link/a.jsonl"):
        assert [one.path for one in list_files(named_roots([str(tmp_path / "logs" / named)])).files] == [str(path)]
    for pattern in ("*.jsonl", "*", "**/*.jsonl", "l?nk"):
        roots = named_roots([str(tmp_path / "logs" / pattern)])
        assert list_files(roots).files == []
        assert list_files(roots).links
        assert [one.path for one in list_files(roots, follow=True).files] == [str(path)]


def test_what_is_not_there(tmp_path: Path) -> None:
    """Roots that do not exist yet are no problem."""
    listing = list_files([Root(tmp_path / "nowhere"), Root(tmp_path / "nowhere" / "a.jsonl")])
    assert (listing.files, listing.unreadable) == ([], [])


def test_pattern_is_matched_at_every_look(tmp_path: Path) -> None:
    """A pattern gives what matches it now, directories too."""
    (root,) = named_roots([str(tmp_path / "*" / "logs")])
    assert expanded(root) == []
    make(tmp_path / "one" / "logs" / "a.jsonl", 1)
    make(tmp_path / "two" / "logs" / "b.jsonl", 2)
    make(tmp_path / "two" / "other" / "c.jsonl", 3)
    assert [Path(one.path).name for one in list_files([root]).files] == ["a.jsonl", "b.jsonl"]
    (deep,) = named_roots([str(tmp_path / "**" / "c.jsonl")])
    assert [Path(one.path).name for one in list_files([deep]).files] == ["c.jsonl"]


def test_path_that_looks_like_a_pattern(tmp_path: Path) -> None:
    """A file that is there is itself, whatever characters its name has."""
    path = make(tmp_path / "[a]*.jsonl")
    make(tmp_path / "a.jsonl")
    assert [one.path for one in list_files(named_roots([str(path)])).files] == [str(path)]


def test_home_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """``~`` is the home of the user who runs it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert named_roots(["~/logs"]) == [Root(tmp_path / "logs")]


@pytest.mark.parametrize(
    ("environ", "log"),
    [
        ({}, ".claude/projects/-p/0f4d6a51-7a1e-4f6a-9b0e-2f3a61f4c001.jsonl"),
        ({"CLAUDE_CONFIG_DIR": "elsewhere"}, "elsewhere/projects/-p/0f4d6a51-7a1e-4f6a-9b0e-2f3a61f4c001.jsonl"),
        ({}, ".codex/sessions/2026/01/02/rollout-x.jsonl"),
        ({}, ".codex/sessions/2026/01/02/rollout-x.jsonl.zst"),
        ({"CODEX_HOME": "elsewhere"}, "elsewhere/archived_sessions/rollout-x.jsonl"),
        ({}, ".kimi/sessions/0123/abc/wire.jsonl"),
        ({"KIMI_SHARE_DIR": "elsewhere"}, "elsewhere/sessions/0123/abc/wire.jsonl"),
        ({"AGENTTRACE_HOME": "elsewhere"}, "elsewhere/logs/a.jsonl"),
    ],
)
def test_homes_of_agents(tmp_path: Path, environ: Mapping[str, str], log: str) -> None:
    """Every agent is looked for where it writes, its own variables included."""
    make(tmp_path / log)
    variables = {name: str(tmp_path / value) for name, value in environ.items()}
    listing = list_files(agent_roots(AGENTS, variables, tmp_path))
    assert [os.path.relpath(one.path, tmp_path) for one in listing.files] == [os.path.normpath(log)]


def test_only_logs_of_the_agent_in_its_home(tmp_path: Path) -> None:
    """In an agent's home its own rule says what is a session log."""
    make(tmp_path / ".codex" / "sessions" / "history.jsonl")
    make(tmp_path / ".claude" / "projects" / "history.jsonl")
    assert list_files(agent_roots(AGENTS, {}, tmp_path)).files == []


def test_a_pattern_of_an_agent_does_not_widen_where_links_may_lead(tmp_path: Path) -> None:
    """Aider's logs are searched for in the user's directory; a link from elsewhere into that directory is no log."""
    home = tmp_path.resolve()
    project, outside = home / "project", home / "private"
    project.mkdir()
    outside.mkdir()
    (project / ".aider.chat.history.md").write_text("# aider chat started at 2026-11-16 00:47:35\n")
    (outside / "secret.jsonl").write_text("{}\n")
    (outside / ".aider.chat.history.md").symlink_to(outside / "secret.jsonl")
    logs = home / ".claude" / "projects"
    logs.mkdir(parents=True)
    (logs / "link.jsonl").symlink_to(outside / "secret.jsonl")
    listing = list_files(agent_roots(AGENTS, {}, home))
    assert [found.path for found in listing.files] == [str(project / ".aider.chat.history.md")]
    assert {path for path, _ in listing.links} == {
        str(logs / "link.jsonl"),
        str(outside / ".aider.chat.history.md"),
    }
