"""Time until overview, usage, list and large sessions are usable, and until a search has hits, in three programs."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from playwright.sync_api import Browser

from benchmarks.console_browser import PATIENCE_S, Found, Opened, View, chromium, find, visit
from benchmarks.console_data import LARGE, Logs, cached_logs
from benchmarks.console_programs import PROGRAMS, Served
from benchmarks.peers import AbsentError
from benchmarks.table import Result, Row

VISITS = 5
#: Texts of the generated sessions are made of such words.
WORD = "function"
#: What is measured: a program's page, and what it shows.
Target = tuple[Served, str, View]


@contextlib.contextmanager
def all_served(data: Path, peers: Path, work: Path) -> Iterator[tuple[Logs, list[Served], list[Row]]]:
    """Every available program, and a row for each that is not available."""
    logs = cached_logs(data / "console")
    with contextlib.ExitStack() as stack:
        found, absent = [], []
        for name, program in PROGRAMS.items():
            try:
                found.append(stack.enter_context(program(peers, work, logs)))
            except AbsentError as error:
                absent.append(Row(name, {}, note=str(error)))
        yield logs, found, absent


def measure(data: Path, peers: Path, work: Path) -> Result:
    """Visit the programs in turns, so that other load on the machine affects all of them equally."""
    work = work / "console-opening"
    with all_served(data, peers, work) as (_, programs, absent), chromium() as browser:
        targets = list(_targets(programs))
        visits: list[list[Opened]] = [[] for _ in targets]
        for number in range(VISITS):
            for (program, what, view), done in zip(targets, visits, strict=True):
                _visit_once(browser, program, what, view, done, data / "console-pictures" if number == 0 else None)
        searches = _searches(browser, programs, data / "console-pictures")
    rows = [_row(target, done, _base(targets, visits, target)) for target, done in zip(targets, visits, strict=True)]
    rows += searches
    title = f"Opening pages in Chromium, {VISITS} visits each by somebody who was never there: median (least-most)"
    return Result(title, rows + absent)


def _searches(browser: Browser, programs: Sequence[Served], pictures: Path) -> list[Row]:
    """A word that many texts have, in turns; programs without a search of all texts have no row."""
    asked = [(program, program.search, list[Found]()) for program in programs if program.search is not None]
    for number in range(VISITS):
        for program, search, done in asked:
            picture = pictures / f"{program.name.replace(' ', '-')}-search.png" if number == 0 else None
            found = find(browser, search, WORD, program.servers, picture)
            done += [] if found is None else [found]
    base = statistics.median(each.milliseconds for each in asked[0][2]) if asked and asked[0][2] else None
    return [_search_row(program, done, base) for program, _, done in asked]


def _search_row(program: Served, done: Sequence[Found], base: float | None) -> Row:
    who = f"{program.name}: search for a word"
    if not done:
        return Row(who, {"usable ms": f"not in {PATIENCE_S:.0f} s"})
    taken = [each.milliseconds for each in done]
    median = statistics.median(taken)
    figures = {
        "usable ms": f"{median:.0f} ({min(taken):.0f}-{max(taken):.0f})",
        "server CPU s": f"{statistics.mean(each.cpu_seconds for each in done):.2f}",
    }
    return Row(who, figures, median / base if base else None)


def _targets(programs: Sequence[Served]) -> Iterator[Target]:
    for name in ("overview", "usage"):
        for program in programs:
            if name in program.pages:
                yield program, name, program.pages[name]
    for program in programs:
        yield program, "sessions", program.sessions
    for size in LARGE:
        for program in programs:
            for (spans, name), view in program.large.items():
                if spans == size:
                    yield program, f"{size:,} spans, {name}", view


def _visit_once(
    browser: Browser, program: Served, what: str, view: View, done: list[Opened], pictures: Path | None
) -> None:
    # A page that was not usable in time once is not tried again.
    if pictures is None and not done:
        return
    name = f"{program.name} {what}".replace(",", "").replace(" ", "-")
    opened = visit(browser, view, program.servers, pictures / f"{name}.png" if pictures else None)
    if opened is not None:
        done.append(opened)


def _base(targets: Sequence[Target], visits: Sequence[list[Opened]], wanted: Target) -> float | None:
    """The time of AgentTrace's page for the same purpose; of two pages, the slower one."""
    size = wanted[1].split(",", 2)[:2]
    same = [
        statistics.median(each.usable for each in done)
        for (program, what, _), done in zip(targets, visits, strict=True)
        if program is targets[0][0] and what.split(",", 2)[:2] == size and done
    ]
    return max(same, default=None)


def _row(target: Target, visits: Sequence[Opened], base: float | None) -> Row:
    program, what, _ = target
    who = f"{program.name}: {what}"
    if not visits:
        return Row(who, {"usable ms": f"not in {PATIENCE_S:.0f} s"})
    figures = {
        "first paint ms": _range(visits, lambda each: each.paint),
        "rows ms": _range(visits, lambda each: each.rows),
        "usable ms": _range(visits, lambda each: each.usable),
        "long tasks ms": _range(visits, lambda each: each.long),
        "heap MB": f"{statistics.median(each.heap_mb for each in visits):.1f}",
        "process MB": f"{statistics.median(each.process_mb for each in visits):.0f}",
        "nodes": f"{statistics.median(each.nodes for each in visits):.0f}",
        "screens": f"{statistics.median(each.reach for each in visits):.0f}",
        "server CPU s": f"{statistics.mean(each.cpu_seconds for each in visits):.2f}",
    }
    usable = statistics.median(each.usable for each in visits)
    return Row(who, figures, usable / base if base else None)


def _range(visits: Sequence[Opened], figure: Callable[[Opened], float]) -> str:
    values = [figure(each) for each in visits]
    return f"{statistics.median(values):.0f} ({min(values):.0f}-{max(values):.0f})"
