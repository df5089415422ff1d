"""Limits of providers: windows from logs and from the status line of Claude Code, and blocks of five hours."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.config import Settings, ensure_home
from agenttrace.record.formats.codex_limits import limit_windows
from agenttrace.record.recorder import Recorder
from agenttrace.rules import state_files
from agenttrace.rules.budgets import HOUR
from agenttrace.rules.limits import after_pause, block_start, limit_crossings, limit_states
from agenttrace.store import open_store
from agenttrace.store.questions import ProviderWindow
from spending import NOON, Spent, opened, settings_with, spend

DATA = Path(__file__).resolve().parents[1] / "data"
SAMPLES = Path(__file__).resolve().parents[3] / "shared/samples/codex/local-voice-assistant-codex-scrubbed"
SECOND = 1_000_000


def window(used: float, *, at: int = NOON, end: int = NOON + HOUR, name: str = "primary") -> ProviderWindow:
    """A window of Codex."""
    return ProviderWindow(agent="codex", name=name, resets_at=end, window_minutes=300, used_percent=used, at=at)


def test_windows_of_all_versions_of_codex() -> None:
    """Ends in seconds, in seconds that are left, and none at all; a null window is none."""
    now = {"used_percent": 12.5, "window_minutes": 300, "resets_at": 1_794_398_400}
    older = {"used_percent": 3, "window_minutes": 10_080, "resets_in_seconds": 60}
    (first, second) = limit_windows({"primary": now, "secondary": older, "plan_type": "pro"}, NOON)
    assert (first.name, first.used_percent, first.resets_at, first.minutes) == ("primary", 12.5, NOON, 300)
    assert (second.name, second.resets_at, second.plan) == ("secondary", NOON + 60 * SECOND, "pro")
    (own,) = limit_windows({"limit_id": "codex_small", "primary": now, "secondary": None}, NOON)
    assert own.name == "codex_small primary"
    for nothing in (None, {}, {"primary": {"used_percent": 3}}, {"primary_used_percent": 3}, {"primary": [1]}):
        assert list(limit_windows(nothing, NOON)) == []


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(), lambda inner: st.lists(inner)))
def test_no_value_of_a_line_fails(value: Any) -> None:  # noqa: ANN401
    """Whatever stands where a number should."""
    window = {"used_percent": value, "resets_at": value, "resets_in_seconds": value, "window_minutes": value}
    for limits in (value, {"primary": value}, {"primary": window, "plan_type": value, "limit_id": value}):
        list(limit_windows(limits, NOON))


def _rollout(home: Path, *limits: tuple[int, dict[str, Any]]) -> None:
    """A log of Codex that ends with these limits, each at so many seconds after noon."""
    (source,) = (DATA / "codex-0.166.0").rglob("*.jsonl")
    target = home / ".codex" / source.relative_to(DATA / "codex-0.166.0")
    target.parent.mkdir(parents=True)
    shutil.copy(source, target)
    with target.open("a", encoding="utf-8") as file:
        for after, told in limits:
            second = f"2026-11-11T12:{after // 60:02d}:{after % 60:02d}.000Z"
            payload = {"type": "token_count", "info": None, "rate_limits": told}
            file.write(json.dumps({"timestamp": second, "type": "event_msg", "payload": payload}) + "\n")


def _recorded(home: Path) -> Settings:
    settings = Settings(home=home / "data")
    ensure_home(settings)
    recorder = Recorder(settings, paths=[str(home / ".codex")], environ={})
    try:
        recorder.run_once()
    finally:
        recorder.close()
    return settings


def test_codex_s_windows_are_recorded(tmp_path: Path) -> None:
    """The latest report of a window counts, whatever the order; the end of a window that moves by seconds is one."""
    end = NOON // SECOND + 3600
    told: list[tuple[int, dict[str, Any]]] = [
        (9, {"primary": {"used_percent": 40.0, "window_minutes": 300, "resets_at": end + 2}}),
        (5, {"primary": {"used_percent": 30.0, "window_minutes": 300, "resets_at": end}, "secondary": None}),
    ]
    _rollout(tmp_path, *told)
    settings = _recorded(tmp_path)
    with open_store(settings) as store:
        (found,) = store.provider_windows()
        assert (found.agent, found.used_percent, found.at) == ("codex", 40.0, NOON + 9 * SECOND)
        assert abs(found.resets_at - end * SECOND) <= 2 * SECOND
        (state,) = limit_states(store, settings, NOON + 60 * SECOND)
        assert (state.share, state.expired, state.source) == (0.4, False, "log")
        (state,) = limit_states(store, settings, NOON + 2 * HOUR)
        assert state.expired
        assert limit_crossings([state]) == []


@pytest.mark.skipif(not SAMPLES.exists(), reason="the samples are not here")
def test_windows_in_real_logs(tmp_path: Path) -> None:
    """Both windows of a log of 2025 are found, and have expired since."""
    target = tmp_path / ".codex/sessions/2025/12/25"
    target.mkdir(parents=True)
    source = next(
        path for path in sorted(SAMPLES.glob("*.jsonl")) if b'"rate_limits":{"primary":{' in path.read_bytes()
    )
    name = source.name.partition(".")[0]
    shutil.copy(source, target / f"{name}.jsonl")
    settings = _recorded(tmp_path)
    with open_store(settings) as store:
        states = limit_states(store, settings, NOON)
    assert [(state.name, state.window_minutes, state.expired) for state in states] == [
        ("primary", 300, True),
        ("secondary", 10_080, True),
    ]


def test_a_window_that_will_be_exhausted(tmp_path: Path) -> None:
    """Sixty percent after two of five hours: nothing is left long before it resets."""
    settings = settings_with(tmp_path, {})
    with opened(settings) as store:
        from agenttrace.store.batch import Batch

        store.commit(Batch(limits=[window(60.0, end=NOON + 3 * HOUR)]), day_of=lambda _: "2026-11-11")
        (state,) = limit_states(store, settings, NOON)
    assert (state.share, state.rate) == (0.6, 0.3)
    assert state.exhausted_at == NOON + 80 * 60 * SECOND
    assert [crossing.threshold for crossing in limit_crossings([state])] == [0.5]


reports = st.lists(
    st.builds(
        window,
        st.integers(0, 100).map(float),
        at=st.integers(0, 100).map(lambda minute: NOON + minute * 60 * SECOND),
        end=st.sampled_from([NOON + HOUR, NOON + HOUR + 3 * SECOND, NOON + 6 * HOUR]),
    ),
    max_size=8,
)


@given(reports, st.randoms(use_true_random=False))
def test_the_latest_report_wins_in_any_order(tmp_path_factory: pytest.TempPathFactory, told: Any, shuffle: Any) -> None:  # noqa: ANN401
    """However reports are ordered and divided into batches, windows are those of the latest report."""
    from agenttrace.store.batch import Batch

    settings = settings_with(tmp_path_factory.mktemp("windows"), {})
    with opened(settings) as store:
        for each in shuffle.sample(told, len(told)):
            store.commit(Batch(limits=[each]), day_of=lambda _: "2026-11-11")
        found = store.provider_windows()
    latest = max((each.at for each in told), default=None)
    assert [each.at for each in found] == ([] if latest is None else [latest])


# -- the status line of Claude Code -----------------------------------------------------------------------------------


def _said(five: float, end: int = NOON // SECOND + 3600) -> dict[str, Any]:
    return {"rate_limits": {"five_hour": {"used_percentage": five, "resets_at": end}, "seven_day": None}}


def test_windows_of_the_status_line(tmp_path: Path) -> None:
    """They are stored and take the place of an estimate; an older session does not lower them."""
    settings = settings_with(tmp_path, {})
    state_files.note_windows(str(settings.home), _said(42.0))
    state_files.note_windows(str(settings.home), _said(23.5))
    state_files.note_windows(str(settings.home), _said(99.0, NOON // SECOND - 7200))
    state_files.note_windows(str(settings.home), {"rate_limits": None})
    with opened(settings) as store:
        spend(store, Spent(name="1", agent="claude-code", at=NOON - HOUR))
        (state,) = limit_states(store, settings, NOON)
        assert (state.name, state.share, state.source, state.window_minutes) == ("five_hour", 0.42, "statusline", 300)
        (state,) = limit_states(store, settings, NOON + 2 * HOUR)
        assert (state.name, state.share, state.source, state.requests) == ("five_hour", None, "estimated", 1)


def test_a_damaged_file_of_windows_is_none(tmp_path: Path) -> None:
    """It is written anew with the next report."""
    settings = settings_with(tmp_path, {})
    path = Path(state_files.claude_path(str(settings.home)))
    path.parent.mkdir()
    for damage in ("", "[1]", '{"five_hour": {"used_percent": "x"}}', '{"five_hour": 1}', "{" * 100_000):
        path.write_text(damage)
        assert limit_states(None, settings, NOON) == []
        assert state_files.note_windows(str(settings.home), _said(42.0))["five_hour"]["used_percent"] == 42.0


# -- blocks of five hours ---------------------------------------------------------------------------------------------


def _blocks(times: list[int]) -> list[int]:
    """The beginnings of all blocks, in the plainest way: as ccusage has them."""
    starts: list[int] = []
    for at in times:
        if not starts or at - starts[-1] >= 5 * HOUR:
            starts.append(at - at % HOUR)
    return starts


@given(
    st.lists(st.integers(0, 60 * 60), max_size=60).map(lambda minutes: sorted(NOON + m * 60 * SECOND for m in minutes))
)
def test_the_last_block_needs_no_look_at_all_responses(times: list[int]) -> None:
    """The hours with responses are enough, and after a pause of five hours what was before it does not matter."""
    hours = sorted({at - at % HOUR for at in times})
    begun = after_pause(hours, NOON - 6 * HOUR)
    assert begun is not None
    assert block_start(hours[begun:]) == (_blocks(times)[-1] if times else None)


def test_a_block_is_estimated(tmp_path: Path) -> None:
    """From the full hour before the first response, for five hours; another agent has none."""
    settings = settings_with(tmp_path, {})
    with opened(settings) as store:
        spend(
            store,
            Spent(name="1", agent="claude-code", at=NOON - 7 * HOUR // 2),
            Spent(name="2", agent="claude-code", at=NOON),
            Spent(name="3", agent="codex", at=NOON - 20 * HOUR),
        )
        (state,) = limit_states(store, settings, NOON)
        assert (state.start, state.resets_at) == (NOON - 4 * HOUR, NOON + HOUR)
        assert (state.requests, state.tokens, state.costs) == (2, 2_000_000, {"USD": 2.0})
        assert limit_crossings([state]) == []
        assert limit_states(store, settings, NOON + HOUR) == []
