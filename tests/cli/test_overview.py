"""``agenttrace overview`` as users run it."""

from __future__ import annotations

import time

from .conftest import Program


def test_figures_and_what_needs_the_user(program: Program) -> None:
    """Three periods, what fails with a way to mend it, and the projects, inside of 80 columns; and the same as JSON."""
    program.home.mkdir(mode=0o700, exist_ok=True)
    (program.home / "agenttrace.toml").write_text('[budgets.all]\nperiod = "day"\ntokens = 1_000\n')
    for name, ago, tokens in (("now", 1.0, 900), ("before", 400.0 * 86_400, 50)):
        at = time.time() - ago
        begin = {"type": "session.begin", "id": "s", "ts": at, "project": "/home/dev/shop", "title": name}
        usage = {"input_tokens": tokens, "output_tokens": 0}
        used = {"type": "usage", "id": "u", "turn": 1, "model": "gpt-5", "response": name, "usage": usage, "ts": at}
        program.log(name, begin, {"type": "turn.begin", "id": "t", "turn": 1, "prompt": "go", "ts": at}, used)
    program.run("record", "--once")
    shown = program.run("overview", env={"COLUMNS": "80"}).stdout
    assert max(map(len, shown.splitlines())) <= 80
    for text in (
        "today",
        "this week",
        "this month",
        "1 working",
        "budget all: 90% used",
        "agenttrace up",
        "/home/dev/shop",
    ):
        assert text in shown
    found = program.json("overview")
    assert [each["tokens"] for each in found["periods"]] == [900, 900, 900]
    assert [each["kind"] for each in found["attention"]] == ["recorder_stopped", "budget"]
    assert found["sessions"] == {"working": 1, "waiting": 0, "interrupted": 0}
    assert sum(sum(day["hours"]) for day in found["activity"]) == 1
    assert [each["project"] for each in found["projects"]] == ["/home/dev/shop"]
