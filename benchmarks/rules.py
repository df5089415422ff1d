"""Rules: what they cost the recorder, how fast the engine decides, and how long an event takes to a delivered webhook.

Recording is measured as the time of two recorders in one process, without rules and with twenty. In turns they get
the same five sessions of 500 lines, so that both meet the same machine; every eighth call fails. The engine runs on the
store that has rules, takes its events and sends its messages; while the other recorder works, it is stopped. What rules
cost is the median of these turns, of CPU and of wall time, which has the waits for the engine's transactions.

How fast the engine is: it gets 100,000 failed calls that were recorded before, and asks each of twenty rules about each
of them. Most filters do not match, as in real life; some rules sample, collect by a cooldown, or reach their cap. For
the delivery, ``agenttrace record`` follows a log with the engine beside it, as users run it: a tool fails every 25 ms,
and a receiver on 127.0.0.1 says when its message arrived.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from agenttrace.cli.rules_run import register_rules
from agenttrace.config import load_settings
from agenttrace.record.recorder import Recorder
from agenttrace.rules.lock import owner
from benchmarks.measure import sandbox_environ
from benchmarks.run_processes import Meter, Process, running
from benchmarks.table import Result, Row

EVENTS, RULES, LINES = 100_000, 20, 500
#: Sessions that a recorder gets in one turn.
TURN = 5
DELIVERIES, PAUSE = 400, 0.025
_CLI = (sys.executable, "-m", "agenttrace.cli.main")
_RECEIVER = """
import asyncio, json, sys, time
from aiohttp import web
async def take(request):
    body = await request.json()
    if body["rule"] == "delivered":
        got.append((body["events"][0]["facts"]["tool"], time.time()))
    return web.Response()
async def told(request):
    return web.json_response(got)
got = []
async def main():
    app = web.Application(client_max_size=1 << 30)
    app.router.add_post("/", take)
    app.router.add_get("/told", told)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(json.dumps(runner.addresses[0][1]), flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


class _Engine(NamedTuple):
    cpu_seconds: float
    wall_seconds: float
    events: int
    firings: int


class _Recorded(NamedTuple):
    """Seconds of each turn, CPU and wall."""

    cpu: list[float]
    wall: list[float]


def measure(work: Path) -> Result:
    """The recorder without and with rules, the engine, and the delivery."""
    home, load = work / "rules", os.getloadavg()[0]
    shutil.rmtree(home, ignore_errors=True)
    with _receiver() as (url, receiver):
        plain, ruled, beside = _recorded(home, url)
        engine = _decided(home, url)
        taken = sorted(_delivered(home, url, receiver))
    rows = [
        _recording("recording without rules", plain, plain),
        _recording(f"the same with {RULES} rules, the engine beside it", ruled, plain),
        Row(
            f"the engine meanwhile: {beside.events:,} events, {beside.firings:,} decisions",
            {"CPU s": f"{beside.cpu_seconds:.2f}"},
        ),
        Row(
            f"the engine alone: {engine.events:,} events, {RULES} rules asked about each, {engine.firings:,} decisions",
            {"CPU s": f"{engine.cpu_seconds:.2f}", "events/s": f"{engine.events / engine.wall_seconds:,.0f}"},
        ),
        Row(
            f"a failed tool to its delivered webhook, {len(taken)} times",
            {
                f"p{share} ms": f"{taken[min(len(taken) * share // 100, len(taken) - 1)] * 1000:.0f}"
                for share in (50, 99)
            },
        ),
    ]
    title = f"{EVENTS:,} recorded events and {RULES} rules; load {load:.2f} before, {os.getloadavg()[0]:.2f} after"
    return Result(title, rows)


def _recording(who: str, taken: _Recorded, base: _Recorded) -> Row:
    figures = {"CPU s": f"{sum(taken.cpu):.2f}", "wall s": f"{sum(taken.wall):.2f}"}
    if taken is not base:
        figures |= {"more CPU": _more(taken.cpu, base.cpu), "more wall": _more(taken.wall, base.wall)}
    return Row(who, figures)


def _more(taken: list[float], base: list[float]) -> str:
    """How much more, of the median of two turns, in which each was first once: a busy machine disturbs some."""
    pairs = range(0, len(taken) - 1, 2)
    return f"{statistics.median(sum(taken[at : at + 2]) / sum(base[at : at + 2]) - 1 for at in pairs):+.2%}"


def sessions() -> Iterator[bytes]:
    """Sessions in the format of AgentTrace; every eighth tool call fails."""
    calls = 0
    for session in range(EVENTS // LINES):
        lines: list[dict[str, object]] = []
        turn = 0
        while len(lines) < LINES:
            turn += 1
            lines.append({"type": "turn.begin", "turn": turn, "id": f"t{turn}", "prompt": "Go on with the work. " * 10})
            for step in range(3):
                name = f"{turn}.{step}"
                lines.append({"type": "step.begin", "turn": turn, "id": name, "model": "claude-sonnet-4-5"})
                calls += 1
                call = {"id": f"c{calls}", "name": "shell"}
                lines.append({"type": "tool.begin", **call, "arguments": {"command": "make test " * 20}})
                status = "error" if calls % 8 == 0 else "ok"
                lines.append({"type": "tool.end", **call, "status": status, "result": "All is well. " * 40})
                usage = {"input_tokens": 1000, "output_tokens": 50}
                response = f"{session} {name}"
                lines.append({"type": "step.end", "turn": turn, "id": name, "response": response, "usage": usage})
            lines.append({"type": "turn.end", "turn": turn, "id": f"t{turn}"})
        stamps = range(1_790_000_000 + session * 600, 2_000_000_000)
        named = zip(lines[:LINES], stamps, strict=False)
        yield b"".join(_line(f"s{session}", stamp, line) for line, stamp in named)


def failures() -> Iterator[tuple[str, bytes]]:
    """Sessions in which every call fails: as many calls as there are events."""
    calls = LINES // 2
    for session in range(EVENTS // calls):
        name, stamp = f"f{session}", 1_790_000_000 + session * 600
        lines: list[dict[str, object]] = [{"type": "turn.begin", "turn": 1, "id": "t1"}]
        for call in range(calls):
            named = {"id": f"c{call}", "name": f"t{call % 10}"}
            lines.append({"type": "tool.begin", **named, "arguments": {}})
            lines.append({"type": "tool.end", **named, "status": "error", "result": "x"})
        yield name, b"".join(_line(name, stamp + place, line) for place, line in enumerate(lines))


def _line(session: str, stamp: float, line: dict[str, object]) -> bytes:
    return json.dumps({"v": 1, "session": session, "ts": stamp, **line}).encode() + b"\n"


def _rules(url: str) -> str:
    """Twenty rules: filters that match, filters that do not, settle times, cooldowns and samples."""
    kinds = ("tool.failed", "session.waiting", "session.ended", "turn.failed")
    extras = (
        'where = { project = "other" }',
        'settle = "10s"',
        'cooldown = "10m"',
        "sample = 0.2",
        "where = { min_cost = 1 }",
    )
    found = [f'[actions.hook]\ntype = "webhook"\nurl = "{url}"\nallow_private = true\n']
    for number in range(RULES - 1):
        extra = extras[number % len(extras)]
        found.append(f'[rules.r{number}]\non = "{kinds[number % 4]}"\nstart = "all"\ndo = ["hook"]\n{extra}\n')
    found.append(
        '[rules.delivered]\non = "tool.failed"\nmax_per_day = 100000\ndo = ["hook"]\nwhere = { tool = "d*" }\n'
    )
    return "\n".join(found)


def _rules_of_calls(url: str) -> str:
    """Twenty rules about failed calls: each event is asked of all of them."""
    wheres = ('project = "other"', 'agent = "codex"', 'tool = "none"', 'branch = "main"', "min_cost = 1", 'label = "x"')
    extras = [f"where = {{ {wheres[number % len(wheres)]} }}" for number in range(RULES - 5)]
    extras += ["sample = 0.02", "sample = 0.05", 'sample = 0.02\nsettle = "10s"']
    extras += ['where = { tool = "t1" }\ncooldown = "10m"', 'where = { tool = "t2" }']
    found = [f'[actions.hook]\ntype = "webhook"\nurl = "{url}"\nallow_private = true\n']
    for number, extra in enumerate(extras):
        found.append(f'[rules.r{number}]\non = "tool.failed"\nstart = "all"\ndo = ["hook"]\n{extra}\n')
    return "\n".join(found)


def _environ(home: Path, store: Path) -> dict[str, str]:
    return sandbox_environ(home, AGENTTRACE_HOME=str(store))


def _recorded(home: Path, url: str) -> tuple[_Recorded, _Recorded, _Engine]:
    """Recording without rules and with them, and what the engine did beside the latter."""
    recorders, store = [_recorder(home, "plain", ""), _recorder(home, "store", _rules(url))], home / "store"
    command = [*_CLI, "rules", "run", "--until-input-ends"]
    with running(command, environ=_environ(home, store)) as engine:
        began = time.perf_counter()
        while owner(store) != engine.pid:
            assert time.perf_counter() < began + 60, engine.complaints()
            time.sleep(0.05)
        plain, ruled = _in_turns(recorders, engine)
        (events,) = _query(store, "SELECT count(*) FROM processed_events")
        assert events == EVENTS, events
        _until_decided(store)
        spent, wall = Meter(engine.pid).cpu_seconds(), time.perf_counter() - began
    (asked,) = _query(store, "SELECT count(DISTINCT event_key) FROM rule_firings")
    (firings,) = _query(store, "SELECT count(*) FROM rule_firings")
    return plain, ruled, _Engine(spent, wall, asked, firings)


def _recorder(home: Path, name: str, rules: str) -> tuple[Recorder, Path]:
    """A recorder with these rules, and where its logs are written."""
    store, logs = home / name, home / f"{name}-logs"
    for folder in (store, logs):
        folder.mkdir(parents=True, mode=0o700)
    (store / "agenttrace.toml").write_text(rules)
    settings = load_settings(_environ(home, store))
    register_rules(settings)
    return Recorder(settings, paths=[str(logs)]), logs


def _in_turns(recorders: Sequence[tuple[Recorder, Path]], engine: Process) -> tuple[_Recorded, _Recorded]:
    """Both record the same; the engine, which belongs to the second, is stopped while the first does."""
    taken = (_Recorded([], []), _Recorded([], []))
    named = [(f"s{number}.jsonl", data) for number, data in enumerate(sessions())]
    for start in range(0, len(named), TURN):
        for which in (0, 1) if start // TURN % 2 else (1, 0):
            os.kill(engine.pid, signal.SIGCONT if which else signal.SIGSTOP)
            recorder, logs = recorders[which]
            cpu, wall = time.process_time(), time.perf_counter()
            for name, data in named[start : start + TURN]:
                (logs / name).write_bytes(data)
                recorder.scan()
                recorder.drain()
            taken[which].cpu.append(time.process_time() - cpu)
            taken[which].wall.append(time.perf_counter() - wall)
    os.kill(engine.pid, signal.SIGCONT)
    for recorder, _ in recorders:
        recorder.close()
    return taken


def _until_decided(store: Path) -> None:
    """Until the engine has asked all rules about all events."""
    while _query(store, "SELECT count(*) FROM rule_events")[0] or _query(store, _TO_DECIDE)[0]:
        time.sleep(0.1)


def _decided(home: Path, url: str) -> _Engine:
    """Record the failed calls, and let the engine decide about each of them."""
    store, logs = home / "calls", home / "calls-logs"
    for folder in (store, logs):
        folder.mkdir(parents=True, mode=0o700)
    (store / "agenttrace.toml").write_text(_rules_of_calls(url))
    settings = load_settings(_environ(home, store))
    register_rules(settings)
    for name, data in failures():
        (logs / f"{name}.jsonl").write_bytes(data)
    with contextlib.closing(Recorder(settings, paths=[str(logs)])) as recorder:
        recorder.run_once()
    (events,) = _query(store, "SELECT count(*) FROM rule_events")
    began = time.perf_counter()
    command, null = [*_CLI, "rules", "run"], subprocess.DEVNULL
    with subprocess.Popen(command, env=_environ(home, store), stdout=null, stderr=null) as process:
        _until_decided(store)
        wall = time.perf_counter() - began
        process.send_signal(signal.SIGTERM)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    (firings,) = _query(store, "SELECT count(*) FROM rule_firings")
    return _Engine(used.ru_utime + used.ru_stime, wall, events, firings)


#: Those that wait for another day, as their rule has reached its cap, are decided.
_TO_DECIDE = "SELECT count(*) FROM rule_firings WHERE state = 'settling' AND reason IS NULL"


def _query(store: Path, sql: str) -> tuple[int, ...]:
    with contextlib.closing(sqlite3.connect(f"file:{store / 'agenttrace.db'}?mode=ro", uri=True)) as connection:
        found: tuple[int, ...] = connection.execute(sql).fetchone()
    return found


def _delivered(home: Path, url: str, receiver: Process) -> list[float]:
    """Seconds from the write of a line to the arrival of its message."""
    logs, store = home / "live", home / "live-store"
    for folder in (store, logs):
        folder.mkdir(parents=True, mode=0o700)
    (store / "agenttrace.toml").write_text(_rules(url))
    written: dict[str, float] = {}
    path = logs / "live.jsonl"
    command = [*_CLI, "record", str(logs), "--json"]
    with running(command, environ=_environ(home, store)):
        _write(path, {"type": "turn.begin", "turn": 1, "id": "t1"})
        # The engine has started when the first message arrives.
        for attempt in range(600):
            _fail(path, f"d-first-{attempt}")
            time.sleep(0.2)
            if _told(url):
                break
        for number in range(DELIVERIES):
            written[f"d{number}"] = time.time()
            _fail(path, f"d{number}")
            time.sleep(PAUSE)
        until = time.monotonic() + 120
        while len(arrived := {tool: at for tool, at in _told(url) if tool in written}) < DELIVERIES:
            assert time.monotonic() < until, f"{len(arrived)} of {DELIVERIES} arrived; {receiver.pid}"
            time.sleep(0.2)
    return [arrived[tool] - at for tool, at in written.items()]


def _fail(path: Path, tool: str) -> None:
    _write(
        path,
        {"type": "tool.begin", "id": tool, "name": tool, "arguments": {}},
        {"type": "tool.end", "id": tool, "status": "error", "result": "x"},
    )


def _write(path: Path, *lines: dict[str, object]) -> None:
    with path.open("ab") as file:
        for line in lines:
            file.write(_line("live", time.time(), line))


def _told(url: str) -> list[tuple[str, float]]:
    with urllib.request.urlopen(url + "told") as answer:
        found: list[tuple[str, float]] = json.load(answer)
    return found


@contextlib.contextmanager
def _receiver() -> Iterator[tuple[str, Process]]:
    environ = sandbox_environ(Path(__file__).parent / "data")
    with running([sys.executable, "-c", _RECEIVER], environ=environ) as process:
        yield f"http://127.0.0.1:{process.line()}/", process
