"""``python -m benchmarks [WHAT] [--mb N] [--spans N] [--json]``: one benchmark, a group (such as console), or all."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
from rich.console import Console

from benchmarks import (
    agent_databases,
    agent_logs,
    collector,
    console_opening,
    console_pages,
    export,
    first_start,
    guard,
    intake,
    limits,
    masking,
    ours,
    peers,
    queries,
    rules,
    run_guards,
    run_proxy,
    run_streams,
    run_triggers,
    team,
    team_live,
    team_push,
    tiers,
)
from benchmarks.generate import cached_claude, generate_lines
from benchmarks.table import Result, Row, show
from benchmarks.truth import Truth

DATA = Path(__file__).parent / "data"
#: One directory per process, so that concurrent runs do not delete each other's files.
WORK = DATA / f"work-{os.getpid()}"
PEERS = DATA / "peers"


def measure_import(megabytes: float) -> Result:
    """Import a tree of Claude Code sessions: AgentTrace, AgentTrace with the search index, agentsview."""
    tree, truth = cached_claude(DATA, megabytes)
    plain = ours.import_tree(tree, WORK / "ours", index=False)
    again = ours.second_pass(tree, WORK / "ours")
    indexed = ours.import_tree(tree, WORK / "ours", index=True)
    base = plain.cost.cpu_seconds
    rows = [
        _import_row("agenttrace record --once", plain, truth, base),
        _import_row("the same with --index", indexed, truth, base),
        Row("a second pass, nothing new", {"CPU s": f"{again.cpu_seconds:.2f}", "wall s": f"{again.wall_seconds:.1f}"}),
    ]
    try:
        theirs = peers.agentsview(PEERS, tree, WORK / "agentsview")
        name = f"agentsview {peers.AGENTSVIEW_VERSION} sync"
        rows.append(_import_row(name, theirs, truth, base))
    except peers.AbsentError as error:
        rows.append(Row("agentsview sync", {}, note=str(error)))
    return Result(f"Import of {truth.bytes / 1e6:.0f} MB, {truth.files} files, {truth.lines} lines", rows)


def _import_row(who: str, done: peers.Imported, truth: Truth, base: float) -> Row:
    figures = {
        "CPU s": f"{done.cost.cpu_seconds:.1f}",
        "CPU s/GB": f"{done.cost.cpu_seconds / truth.bytes * 1e9:.1f}",
        "wall s": f"{done.cost.wall_seconds:.1f}",
        "peak MB": f"{done.cost.peak_mb:.0f}",
        "store / logs": f"{done.stored_bytes / truth.bytes:.2f}",
        "tokens exact": "yes" if done.agrees(truth) else "NO",
    }
    return Row(who, figures, done.cost.cpu_seconds / base)


def measure_lines(megabytes: float) -> Result:
    """CPU per gigabyte of 2 KB lines: AgentTrace, rsyslog, the OpenTelemetry Collector, and the machine's limits."""
    path = DATA / f"lines-{megabytes:g}mb.jsonl"
    if not path.exists():
        generate_lines(path, megabytes)
    with path.open("rb") as file:
        count = sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 22), b""))
    gigabytes = path.stat().st_size / 1e9
    cost, summary = ours.record_once(path, WORK / "ours", index=False)
    assert summary.recorded == count, summary
    base = cost.cpu_seconds
    rows = [_line_row("agenttrace record --once", base, gigabytes, base), _own_format(path, base)]
    for parse, name in ((True, "rsyslog imfile, JSON parsed"), (False, "rsyslog imfile, plain")):
        try:
            theirs = peers.rsyslog(PEERS, path, count, WORK / "rsyslog", parse=parse)
            rows.append(_line_row(name, theirs.cpu_seconds, gigabytes, base))
        except peers.AbsentError as error:
            rows.append(Row(name, {}, note=str(error)))
    for parse, name in ((True, f"{collector.NAME} filelog, JSON parsed"), (False, "the same, plain")):
        try:
            theirs = collector.tail(PEERS, path, count, WORK / "collector", parse=parse)
            rows.append(_line_row(name, theirs.cpu_seconds, gigabytes, base))
        except peers.AbsentError as error:
            rows.append(Row(name, {}, note=str(error)))
    for name, limit in limits.LIMITS.items():
        spent = limits.cpu_seconds(limit, path, WORK)
        rows.append(_line_row(f"limit: {name}", spent, gigabytes, base))
    rows += [Row(name, {"CPU s/GB": value}, note="not run here") for name, value in peers.QUOTED.items()]
    return Result(f"{path.stat().st_size / 1e6:.0f} MB of 2 KB JSON lines", rows)


def _own_format(like: Path, base: float) -> Row:
    path = like.with_name(like.stem + "-own.jsonl")
    if not path.exists():
        ours.write_own_lines(path, like)
    cost, _ = ours.record_once(path, WORK / "ours")
    return _line_row("the same, in the AgentTrace log format", cost.cpu_seconds, path.stat().st_size / 1e9, base)


def _line_row(who: str, spent: float, gigabytes: float, base: float) -> Row:
    figures = {"CPU s": f"{spent:.2f}", "CPU s/GB": f"{spent / gigabytes:.1f}"}
    return Row(who, figures, spent / base)


def measure_latency(_: float) -> Result:
    """Time from the end of a write to the committed row."""
    taken = [seconds * 1000 for seconds in ours.latency(WORK / "latency")]
    points = {"p50 ms": 0.5, "p90 ms": 0.9, "p99 ms": 0.99}
    figures = {name: f"{taken[int(len(taken) * share)]:.1f}" for name, share in points.items()}
    rows = [Row("agenttrace record", figures | {"max ms": f"{taken[-1]:.1f}"})]
    return Result(f"Latency of {len(taken)} lines, one at a time", rows)


def measure_idle(_: float) -> Result:
    """Follow ten thousand idle files, and a home directory with logs of all agents."""
    found = ours.idle(WORK / "idle")
    figures = {
        "CPU %": f"{found.cpu_share * 100:.2f}",
        "RSS MB": f"{found.rss_mb:.0f}",
        "restart s": f"{found.restart_seconds:.2f}",
    }
    rows = [Row("10,000 idle files", figures), agent_logs.measure_home(WORK / "home")]
    return Result("Following idle files for 30 s", rows)


def measure_queries(_: float, spans: int = 1_000_000) -> Result:
    """Query a store of a million spans."""
    connection = queries.build(DATA / f"spans-{spans}", WORK / "queries", spans)
    stored = connection.execute("SELECT count(*) FROM spans").fetchone()[0]
    rows = [
        Row(
            each.question,
            {"median ms": f"{each.median_ms:.2f}", "worst ms": f"{each.worst_ms:.2f}", "rows": str(each.rows)},
        )
        for each in queries.measure(connection)
    ]
    connection.close()
    return Result(f"Queries on a store of {stored} spans", rows)


def measure_dedup(megabytes: float) -> Result:
    """Read everything again: the same files, and a copy of the tree in another directory."""
    tree, truth = cached_claude(DATA, megabytes)
    work, copy = WORK / "dedup", WORK / "copy"
    first, _ = ours.record_once(tree / "projects", work, index=False)
    again, unchanged = ours.record_once(tree / "projects", work, index=False, fresh=False)
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(tree / "projects", copy / "projects")
    replay, copied = ours.record_once(copy / "projects", work, index=False, fresh=False)
    shutil.rmtree(copy)
    base = first.cpu_seconds
    rows = [Row("first import", {"CPU s": f"{base:.1f}", "new": str(truth.lines), "known": "0"}, 1.0)]
    for name, cost, summary in (("second run", again, unchanged), ("copy of all files", replay, copied)):
        figures = {"CPU s": f"{cost.cpu_seconds:.1f}", "new": str(summary.recorded), "known": str(summary.duplicate)}
        rows.append(Row(name, figures, cost.cpu_seconds / base))
    return Result(f"Reading {truth.bytes / 1e6:.0f} MB again", rows, base="the first import")


def measure_tiers(_: float) -> Result:
    """One lookup in each tier of the deduplicator."""
    taken = tiers.microseconds(WORK / "tiers")
    rows = [Row(name, {"CPU µs per event": f"{spent:.2f}"}) for name, spent in taken.items()]
    return Result("Deduplication lookup in a store of 1,000,000 events", rows)


RECORD: dict[str, Callable[[float], Result]] = {
    "import": measure_import,
    "lines": measure_lines,
    "latency": measure_latency,
    "idle": measure_idle,
    "queries": measure_queries,
    "dedup": measure_dedup,
    "tiers": measure_tiers,
    "agents": lambda megabytes: agent_logs.measure(WORK / "agents", megabytes),
    "database": lambda megabytes: agent_databases.measure(WORK / "database", megabytes),
    "start": lambda megabytes: first_start.measure(DATA, WORK / "start", megabytes),
    "guard": lambda _: guard.measure(WORK / "guard"),
}
RUN: dict[str, Callable[[float], Result]] = {
    "calls": lambda _: run_proxy.measure_calls(PEERS, WORK),
    "chat": lambda _: run_proxy.measure_chat(PEERS, WORK),
    "streams": lambda _: run_streams.measure(WORK),
    "triggers": lambda _: run_triggers.measure_triggers(WORK),
    "chains": lambda _: run_triggers.measure_chains(WORK),
    "admission": lambda _: run_guards.measure(WORK),
}
CONSOLE: dict[str, Callable[[float], Result]] = {
    "opening": lambda _: console_opening.measure(DATA, PEERS, WORK),
    "pages": lambda _: console_pages.measure(DATA, PEERS, WORK),
}
EXPORT: dict[str, Callable[[float], Result]] = {
    "sending": lambda _: export.measure(DATA, WORK),
    "intake": lambda _: intake.measure(PEERS, WORK),
    "masking": lambda _: masking.measure(DATA, PEERS, WORK),
}
OTHER: dict[str, Callable[[float], Result]] = {"rules": lambda _: rules.measure(WORK)}
TEAM: dict[str, Callable[[float], Result]] = {
    "team": lambda spans: team.measure(WORK / "team", int(spans), STORES),
    "live": lambda _: team_live.measure(WORK, STORES),
    "push": lambda megabytes: team_push.measure(DATA, PEERS, WORK / "push", megabytes, STORES),
}
#: The stores that ``team`` measures; those that are installed where there are none.
STORES: list[str] = []
MEASUREMENTS = RECORD | RUN | CONSOLE | EXPORT | OTHER | TEAM
GROUPS = {"all": MEASUREMENTS, "record": RECORD, "run": RUN, "console": CONSOLE, "export": EXPORT}


def main() -> None:
    """Run the benchmarks of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("what", nargs="?", default="all", choices=[*MEASUREMENTS, *GROUPS])
    parser.add_argument("--mb", type=float, default=400, help="size of generated logs (default: 400)")
    parser.add_argument("--spans", type=int, default=1_000_000, help="size of the team's store (default: 1000000)")
    parser.add_argument("--store", action="append", default=[], help="team: sqlite, chdb or clickhouse://…; repeatable")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    given = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    chosen = GROUPS.get(given.what) or {given.what: MEASUREMENTS[given.what]}
    try:
        STORES.extend(given.store)
        sizes = dict.fromkeys(chosen, given.mb) | {"team": given.spans}
        measure_all(chosen, sizes, as_json=given.json)
    finally:
        shutil.rmtree(WORK, ignore_errors=True)


def measure_all(chosen: dict[str, Callable[[float], Result]], sizes: dict[str, float], *, as_json: bool) -> None:
    """Run the benchmarks one after the other, so that they do not affect each other."""
    console = Console()
    results = {}
    for name, measurement in chosen.items():
        results[name] = measurement(sizes[name])
        if not as_json:
            show(results[name], console if console.is_terminal else Console(width=120))
    if as_json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n")


if __name__ == "__main__":
    main()
