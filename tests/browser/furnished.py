"""A machine with something on every page, whenever the tests run: logs of the last days, rules, a destination, jobs."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from urllib.request import Request, urlopen
from zoneinfo import ZoneInfo

from cli.collector import collecting
from cli.conftest import CLAUDE, HOMES, Program, eventually, stop
from console_login import login_headers
from team_rig import MIDDAY

#: A destination that refused every span and is paused (new spans are queued after an hour, when no test runs any more);
#: a rule that ran, and one whose action could not run.
SETTINGS = """
[usage]
timezone = "{timezone}"

[export]
quiet_seconds = 3600

[destinations.archive]
type = "otlp"
url = "{collector}"
start = "all"

[budgets.shop]
period = "day"
tokens = 1_000_000

[rules.lookout]
title = "A tool has failed"
on = "tool.failed"
start = "all"
do = ["desktop"]

[rules.unreachable]
on = "tool.failed"
start = "all"
do = ["nowhere"]

[actions.nowhere]
type = "webhook"
url = "http://127.0.0.1:9/hidden-path"
"""
#: The day on which the fixtures of the agents were recorded, and how long ago it shall have been.
RECORDED, DAYS_AGO = datetime(2026, 11, 15, tzinfo=UTC), 2
#: What the simulator is asked; it answers the same every time.
QUESTION = "今天的营业额怎么样？"


def use_recent_fixtures(program: Program) -> None:
    """Give the user the logs of four agents as if they had been written two days ago, at the same hours of that day."""
    program.use_fixtures()
    today = datetime.now(ZoneInfo(MIDDAY)).replace(hour=0, minute=0, second=0, microsecond=0)
    shift = today - timedelta(days=DAYS_AGO) - RECORDED
    seconds = round(shift.total_seconds())

    def hour(found: re.Match[str]) -> str:
        return (datetime.strptime(found[0], "%Y-%m-%dT%H") + shift).strftime("%Y-%m-%dT%H")

    def moment(found: re.Match[str]) -> str:
        return str(int(found[0]) + seconds * (1000 if len(found[0]) == 13 else 1))

    for home in HOMES:
        for path in (program.user / home).rglob("*.json*"):
            text = re.sub(rf"{RECORDED:%Y-%m-%d}T\d\d", hour, path.read_text("utf-8"))
            path.write_text(re.sub(r"\b17947\d{5}(\d{3})?\b", moment, text), "utf-8")


@contextmanager
def furnishing(program: Program, write_more: Callable[[Program, float], None]) -> Iterator[None]:
    """Write logs and settings of a user; what the settings name is there until the block is left."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"):
        program.environment.pop(name, None)
    use_recent_fixtures(program)
    write_more(program, time.time() - 2 * 3600)
    simulator = program.start("simulate-dashscope", "--port", "0", "--json")
    assert simulator.stdout is not None
    try:
        with collecting() as collector:
            collector.manner = "refuse"
            program.environment |= json.loads(simulator.stdout.readline())["environment"]
            settings = SETTINGS.format(timezone=MIDDAY, collector=collector.url)
            (program.home / "agenttrace.toml").write_text(settings)
            program.run("record", "--once", "--index")
            program.run("export", "run", "--once", code=1)
            program.run("export", "pause", "archive")
            yield
    finally:
        stop(simulator)


def work(program: Program, url: str) -> None:
    """Run a chain and a chat, and wait until rules and recorder have done what follows from them."""
    program.run("trigger", "consumption", "--site", "1", "--member", "2", "--url", url, "--wait")
    chat(program, url)
    eventually(lambda: {each["state"] for each in program.json("rules", "log")} == {"done", "failed"}, "the rules")
    eventually(lambda: program.json("status")["behind_bytes"] == 0, "the recorder")


def chat(program: Program, url: str) -> None:
    """Ask a question, and read the answer to its end."""
    headers = login_headers(program.home) | {"Content-Type": "application/json", "Origin": url}
    with urlopen(Request(f"{url}/api/v1/me", headers=headers), timeout=60) as response:
        headers["X-CSRF-Token"] = json.load(response)["csrf"]
    body = json.dumps({"message": QUESTION, "site_id": 1, "entry": "general"}).encode()
    with urlopen(Request(f"{url}/api/v1/chat", body, headers), timeout=60) as response:
        response.read()


def failed_span(program: Program) -> str:
    """The span of the failed tool call in the session of Claude Code."""
    spans = program.json("show", CLAUDE)["spans"]
    return str(next(span["span_id"] for span in spans if span["status"] == "error" and span["kind"] == "tool"))
