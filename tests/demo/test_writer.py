"""The demo's player: reproducible and live."""

from __future__ import annotations

import json
import math
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agenttrace.demo import FORMATS, environment, past, play

from .counting import COUNTERS, LOGS

_NOON = 1_794_700_000.0


def _ticking(stop: threading.Event | None = None, ticks: float = math.inf) -> Callable[[], float]:
    """A clock that advances by 0.01 s on each read and may stop the demo."""
    seen = 0

    def clock() -> float:
        nonlocal seen
        seen += 1
        if stop is not None and seen >= ticks:
            stop.set()
        return _NOON + seen / 100

    return clock


def _play(home: Path, *, seed: int = 1, sessions: int = 5) -> None:
    stop = threading.Event()
    play(home, speed=math.inf, seed=seed, stop=stop, sessions=sessions, clock=_ticking())


def _tree(home: Path) -> dict[str, bytes]:
    found = sorted(path for path in home.rglob("*") if path.is_file())
    return {str(path.relative_to(home)): path.read_bytes().replace(str(home).encode(), b"~") for path in found}


def test_one_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    """The same seed under the same clock writes the same tree, byte for byte; another seed writes a different one."""
    _play(tmp_path / "a")
    _play(tmp_path / "b")
    _play(tmp_path / "c", seed=2)
    assert _tree(tmp_path / "a") == _tree(tmp_path / "b")
    assert _tree(tmp_path / "a") != _tree(tmp_path / "c")


@given(ticks=st.integers(1, 1500), seed=st.integers(0, 20))
def test_a_stop_at_any_line_leaves_whole_lines(ticks: int, seed: int) -> None:
    """Stopped at any moment, every log can be read and its usage counted."""
    stop = threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        play(Path(folder), speed=math.inf, seed=seed, stop=stop, sessions=5, clock=_ticking(stop, ticks))
        for count in COUNTERS.values():
            assert count(Path(folder)).requests >= 0


def test_agents_write_at_the_same_time(tmp_path: Path) -> None:
    """Long before the first session is over, every agent has begun one."""
    stop = threading.Event()
    play(tmp_path, speed=math.inf, seed=1, stop=stop, sessions=1, clock=_ticking(stop, 120))
    assert all(list(tmp_path.glob(LOGS[agent])) for agent in FORMATS)


def test_a_live_demo_stops_on_request(tmp_path: Path) -> None:
    """Without a number of sessions it goes on until the event is set; times are those of the wall clock."""
    stop, began = threading.Event(), time.time()
    player = threading.Thread(target=play, args=(tmp_path,), kwargs={"speed": 50, "seed": 1, "stop": stop})
    player.start()
    wires: list[Path] = []
    while not wires:
        wires = [path for path in tmp_path.glob(".kimi/sessions/*/*/wire.jsonl") if path.stat().st_size > 600]
        time.sleep(0.01)
    stop.set()
    player.join(30)
    assert not player.is_alive()
    stamps = [json.loads(raw)["timestamp"] for raw in wires[0].read_text("utf-8").splitlines()[1:]]
    assert began <= min(stamps) <= max(stamps) <= time.time()


def test_environment_points_to_what_is_written(tmp_path: Path) -> None:
    """Every variable names a directory that the demo fills with logs."""
    _play(tmp_path)
    for home in environment(tmp_path).values():
        assert list(Path(home).rglob("*.jsonl"))


def test_history_has_past_timestamps(tmp_path: Path) -> None:
    """Sessions of earlier days carry the times of those days, in the files and on them."""
    past(tmp_path, days=5, seed=1, now=_NOON)
    stamps = [
        json.loads(raw)["timestamp"]
        for path in tmp_path.glob(".kimi/sessions/*/*/wire.jsonl")
        for raw in path.read_text("utf-8").splitlines()[1:]
    ]
    assert stamps
    assert _NOON - 5 * 86_400 <= min(stamps) <= max(stamps) < _NOON
    assert all(path.stat().st_mtime < _NOON for path in tmp_path.rglob("*") if path.is_file())
