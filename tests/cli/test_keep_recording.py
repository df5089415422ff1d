"""Recording that fails is told and begun again; nothing that runs beside it ends with it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agenttrace.cli import record
from agenttrace.cli.record import keep_recording
from agenttrace.cli.stopping import beside
from agenttrace.config import Settings, SettingsError, ensure_home
from agenttrace.record import health
from agenttrace.record.recorder import Recorder, Summary
from agenttrace.record.watcher import Watcher
from agenttrace.store import open_store
from agenttrace.store.errors import CorruptStoreError
from agenttrace.views.checks import recorder as recorder_checks
from agenttrace.views.status import collected


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(record, "FIRST_PAUSE", 0.01)
    found = Settings(home=tmp_path / "home")
    ensure_home(found)
    return found


def failing(times: int, error: Exception, then: Callable[[], None] = lambda: None) -> Callable[[], Summary]:
    left = [times]

    def work() -> Summary:
        left[0] -= 1
        if left[0] >= 0:
            raise error
        then()
        return Summary(recorded=7)

    return work


@pytest.mark.parametrize("error", [RuntimeError("odd"), sqlite3.OperationalError("disk is full"), OSError("gone")])
def test_it_is_begun_again(settings: Settings, error: Exception) -> None:
    """Until it works; meanwhile status and doctor say why it does not."""
    seen: list[health.RecordingProblem | None] = []
    work = failing(3, error, lambda: seen.append(health.problem(settings.home)))
    assert keep_recording(settings, threading.Event(), work).recorded == 7
    assert seen[0] is not None
    assert (seen[0].restarts, str(error) in seen[0].reason) == (3, True)
    assert health.problem(settings.home) is None


def test_what_runs_beside_it_goes_on(settings: Settings) -> None:
    """A server is stopped when recording has ended, and not when it fails."""
    stopped_after: list[int] = []
    attempts = [0]

    async def server(stop: asyncio.Event) -> None:
        await stop.wait()
        stopped_after.append(attempts[0])

    def work() -> Summary:
        attempts[0] += 1
        if attempts[0] < 4:
            raise ValueError("a bug")
        return Summary()

    with beside(server, lambda error: pytest.fail(str(error))):
        keep_recording(settings, threading.Event(), work)
    assert stopped_after == [4]


def test_a_stop_is_not_waited_for(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the pause is."""
    monkeypatch.setattr(record, "FIRST_PAUSE", 1000.0)
    stop = threading.Event()
    threading.Timer(0.05, stop.set).start()
    assert keep_recording(settings, stop, failing(1000, RuntimeError("odd"))) == Summary()


def test_what_the_user_must_put_right_is_raised(settings: Settings) -> None:
    """Trying again would not help."""
    error = SettingsError(where="file", key="x", problem="is wrong", fix="Mend it.")
    with pytest.raises(SettingsError):
        keep_recording(settings, threading.Event(), failing(1, error))


def test_a_store_that_is_damaged_again_is_not_rebuilt_for_ever(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is reported, and everything else continues until the program ends."""
    rebuilt = []
    monkeypatch.setattr("agenttrace.record.recovery.recover", lambda *_, **__: rebuilt.append(1))
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    keep_recording(settings, stop, failing(1000, CorruptStoreError("damaged")))
    assert rebuilt == [1]
    assert health.problem(settings.home) is not None


def test_a_watcher_says_what_holds_it_up(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """To every process that asks for the status, until a round has come to its end."""
    made = Recorder(settings, paths=[str(settings.home / "logs")])
    stop = threading.Event()
    watcher = Watcher(made, stop)
    monkeypatch.setattr(stop, "wait", lambda _: True)

    def scan() -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(made, "scan", scan)
        watcher._round(None)
    with open_store(settings) as store:
        assert collected(store, settings)["recorder"]["problem"] == "database or disk is full"
        assert any(check.name == "recording" and check.state == "fail" for check in recorder_checks(settings))
        watcher._round(None)
        assert collected(store, settings)["recorder"]["problem"] is None
    made.close()
