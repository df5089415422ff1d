"""Notifications: a real program in the place of notify-send."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from agenttrace.rules.actions import notify
from agenttrace.rules.actions.contract import ActionResult
from agenttrace.rules.actions.notify import Notify, notifier
from agenttrace.rules.facts import Facts
from rules.sending import MASK, SECRET, event, message

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="notify-send")


@pytest.fixture
def desktop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A desktop whose notify-send writes its arguments to a file."""
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("PATH", str(tmp_path))
    install(tmp_path, "json.dump(sys.argv[1:], open(place + '/shown', 'w'))")
    return tmp_path


def install(place: Path, program: str) -> None:
    """A notify-send that does this."""
    script = place / "notify-send"
    script.write_text(f"#!{sys.executable}\nimport json, sys, time\nplace = {str(place)!r}\n{program}\n")
    script.chmod(0o700)


def show(*events: Facts, title: str = "") -> ActionResult:
    return asyncio.run(Notify(MASK).run(message(*events, title=title, type="notify")))


def test_shown(desktop: Path) -> None:
    result = show(event("Mend the shop", tool="shell"), title="Tools")
    assert (result.outcome, result.detail) == ("done", "shown on the desktop")
    *options, title, text = json.loads((desktop / "shown").read_text())
    assert options == ["--app-name=AgentTrace", "--"]
    assert (title, text) == ("Tools", "Mend the shop · claude-code · shop · tool shell")
    assert result.answer == {"title": "Tools", "text": text}


@pytest.mark.parametrize(
    "hostile",
    ["--action=x", "-u critical", "$(id)", "a\nb", "\x00", "\ud800", "'; id", '"', "<a href='http://x'>y</a>", "&amp;"],
)
def test_texts_are_arguments(desktop: Path, hostile: str) -> None:
    """Never options, markup, or a part of a script."""
    result = show(event(hostile), title=hostile)
    assert result.detail == "shown on the desktop"
    *options, title, text = json.loads((desktop / "shown").read_text())
    assert options == ["--app-name=AgentTrace", "--"]
    assert "\n" not in title + text
    assert "<" not in text


def test_secrets_are_masked_and_texts_cut(desktop: Path) -> None:
    show(event(f"{SECRET} " + "x" * 5000))
    shown = (desktop / "shown").read_text()
    assert SECRET not in shown
    assert len(shown) < 1000


def test_no_desktop(desktop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The console shows it; that is no failure."""
    monkeypatch.delenv("DISPLAY")
    for name in ("WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    result = show()
    assert (result.outcome, result.detail) == ("done", "no desktop here; shown in the console")
    assert not (desktop / "shown").exists()
    assert result.answer["title"] == "A tool has failed"


def test_a_desktop_that_fails(desktop: Path) -> None:
    install(desktop, "sys.exit('no bus')")
    result = show()
    assert result.outcome == "done"
    assert "no bus" in result.detail


def test_a_desktop_that_hangs(desktop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "_SECONDS", 0.3)
    install(desktop, "time.sleep(60)")
    result = show()
    assert result.outcome == "done"
    assert "no answer" in result.detail


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_desktops(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are variables of the script, which is always the same."""
    monkeypatch.setattr(sys, "platform", platform)
    hostile = '" & (do shell script "id") & "'
    first, second = notifier("title", hostile), notifier("other", "text")
    assert first is not None
    assert second is not None
    assert first.argv == second.argv
    assert first.environment == {"AGENTTRACE_TITLE": "title", "AGENTTRACE_TEXT": hostile}
