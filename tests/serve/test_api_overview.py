"""``/api/v1/overview``: the first page in one answer, and what it costs when many ask for it."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.config.rules import parse_budget
from agenttrace.serve.api import answers
from agenttrace.serve.api.answers import Cached
from agenttrace.serve.api.live.overview import DAYS, last_days
from agenttrace.store import open_store
from agenttrace.views.status import collected

from .servers import eventually
from .trace_rig import Logs
from .views_rig import Client, ask, found_logs

COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "requests")

#: Tokens of budgets: one that is not reached, one nearly, and one that is.
LIMITS = {"far": 100_000, "near": 110, "over": 50}


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return found_logs(tmp_path)


def use(logs: Logs, session: str, days_ago: float, tokens: int, model: str = "qwen-max") -> None:
    """A response of so many tokens, so long ago."""
    at = time.time() - days_ago * 86_400
    usage = {"input_tokens": tokens, "output_tokens": 1}
    logs.append(session, "usage", ts=at, model=model, response=f"{session} {days_ago} {model}", usage=usage)


def sums(bills: list[dict[str, Any]]) -> dict[str, int]:
    return {name: sum(bill[name] for bill in bills) for name in COUNTS}


# -- usage --------------------------------------------------------------------------------------------------------


@given(st.dates(date(1971, 1, 1), date(9999, 12, 31)))
def test_days_have_no_gap(today: date) -> None:
    """The last thirty days, each one after the other, up to today."""
    found = [date.fromisoformat(day) for day in last_days(today.isoformat())]
    assert len(found) == DAYS == 30
    assert found[-1] == today
    assert {after - before for before, after in pairwise(found)} == {timedelta(days=1)}


def test_usage_adds_up(logs: Logs) -> None:
    """The days are those of the thirty, the month is their sum, and models and agents each add up to the whole."""
    for days_ago in (0, 0.001, 1, 7, 29, 31, 400):
        use(logs, f"s{days_ago}", days_ago, 100 + round(days_ago))
    use(logs, "unpriced", 3, 7, model="mystery")
    logs.use_samples()
    logs.record(index=False)

    async def body(client: Client) -> None:
        before = datetime.now().astimezone().date()
        found = await client.json("/overview")
        today = found["days"][-1]["day"]
        assert before.isoformat() <= today <= datetime.now().astimezone().date().isoformat()
        assert [day["day"] for day in found["days"]] == last_days(today)
        for whole, parts in (
            (found["month"], [day["bill"] for day in found["days"]]),
            (found["month"], [part["bill"] for part in found["month_by_model"]]),
            (found["month"], [part["bill"] for part in found["month_by_agent"]]),
            (found["today"], [part["bill"] for part in found["today_by_model"]]),
            (found["today"], [part["bill"] for part in found["today_by_agent"]]),
            *((day["bill"], [part["bill"] for part in day["parts"]]) for day in found["days"]),
        ):
            assert sums([whole]) == sums(parts)
        assert found["today"] == found["days"][-1]["bill"] == found["figures"]["periods"][0]["bill"]
        usage = await client.json("/usage", since=found["days"][0]["day"], by="month")
        assert found["month"] == usage["total"]
        assert found["month"]["unpriced_models"] == usage["total"]["unpriced_models"]
        assert "mystery" in found["month"]["unpriced_models"]

    ask(logs.settings, body)


def test_the_future_is_no_part_of_the_month(logs: Logs) -> None:
    """What a clock that goes wrong has dated into the future is in none of the thirty days, nor in their sum."""
    use(logs, "now", 0, 10)
    use(logs, "ahead", -40, 1000)
    logs.record(index=False)

    async def body(client: Client) -> None:
        found = await client.json("/overview")
        assert found["month"]["input_tokens"] == sum(day["bill"]["input_tokens"] for day in found["days"]) == 10

    ask(logs.settings, body)


# -- sessions -----------------------------------------------------------------------------------------------------


def test_what_runs_now(logs: Logs) -> None:
    """Working sessions, those that wait since less than a day, and those that broke off since; the latest first."""
    now = time.time()
    for name, seconds in (("older", 60), ("newer", 5), ("broken", 7200), ("long broken", 200_000)):
        logs.append(name, "turn.begin", ts=now - seconds, prompt=f"do {name}")
    for name, seconds in (("waits", 30), ("left", 200_000)):
        logs.append(name, "turn.begin", ts=now - seconds - 1, prompt=name)
        logs.append(name, "turn.end", ts=now - seconds)
    logs.record(index=False)

    async def body(client: Client) -> None:
        found = await client.json("/overview")
        named = {state: [row["session_id"] for row in found[state]] for state in ("working", "waiting", "failed")}
        assert named == {"working": ["newer", "older"], "waiting": ["waits"], "failed": ["broken"]}
        assert found["working"][0]["title"] == "do newer"

    ask(logs.settings, body)


def test_what_needs_the_user(logs: Logs) -> None:
    """A recorder that does not run, lines that were not understood and budgets that are crossed, the worst first."""
    use(logs, "now", 0, 100)
    with (logs.directory / "now.jsonl").open("ab") as stream:
        stream.write(b"no JSON at all\n")
    logs.record(index=False)
    budgets = {name: parse_budget(name, {"period": "month", "tokens": tokens}) for name, tokens in LIMITS.items()}
    settings = msgspec.structs.replace(logs.settings, budgets=budgets)

    async def body(client: Client) -> None:
        found = await client.json("/overview")
        named = [(each["kind"], each["name"], each["level"]) for each in found["attention"]]
        assert named == [
            ("recorder_stopped", None, "failed"),
            ("budget", "over", "failed"),
            ("lines_quarantined", None, "waiting"),
            ("budget", "near", "waiting"),
        ]

    ask(settings, body)


# -- recording ----------------------------------------------------------------------------------------------------


def test_recording_is_as_the_command_line_says(logs: Logs) -> None:
    """Files, bytes, lines, tiers and quarantine are those of ``agenttrace status``; the overview has no files."""
    logs.use_samples()
    logs.append("good", "turn.begin", prompt="hello")
    with (logs.directory / "good.jsonl").open("ab") as stream:
        stream.write(b"no JSON at all\n")
    logs.record()
    (logs.directory / "fresh.jsonl").write_bytes(b"x" * 17)

    async def body(client: Client) -> Any:  # noqa: ANN401 - JSON
        overview = (await client.json("/overview"))["recording"]
        state = (await client.json("/files"))["recording"]
        assert overview == {name: state[name] for name in overview}
        return state

    state = ask(logs.settings, body)
    with open_store(logs.settings) as store:
        expected = collected(store, logs.settings)
    for name in ("file_count", "read_bytes", "behind_bytes", "behind_files", "lost_bytes", "lines", "search_backlog"):
        assert state[name] == expected[name], name
    assert state["behind_bytes"] == 17
    assert state["quarantine_open"] == expected["quarantine"]["open"] >= 1
    assert state["running"] is False
    assert [tier["tier"] for tier in state["dedup"]] == ["l0", "l1", "l2"]
    asked = sum(tier["hits"] for tier in state["dedup"]) + state["new_events"]
    for tier in state["dedup"]:
        assert tier["rate"] == pytest.approx(tier["hits"] / asked)


def test_before_anything_was_recorded(logs: Logs) -> None:
    """Without a store everything is empty and nothing an error, and the run half says why it is away."""

    async def body(client: Client) -> None:
        found = await client.json("/overview")
        assert found["working"] == found["waiting"] == found["failed"] == []
        assert found["month"]["requests"] == 0
        assert len(found["days"]) == 30
        assert found["recording"]["lines"]["lines"] == 0
        assert found["attention"] == []
        assert found["run"] | {"available": False, "reason": "The run half is away."} == found["run"]
        assert found["exports"]["destinations"] == []

    ask(logs.settings, body)
    assert not logs.store.exists()


def test_it_follows_what_is_recorded(logs: Logs) -> None:
    """While a recorder runs, a new session, its tokens and the recorder are shown."""

    async def body(client: Client) -> None:
        before = await client.json("/overview")
        assert before["today"]["requests"] == 0
        logs.append("live", "turn.begin", prompt="now")
        use(logs, "live", 0, 50)

        async def there() -> bool:
            found = await client.json("/overview")
            return found["today"]["requests"] == 1 and [row["session_id"] for row in found["working"]] == ["live"]

        await eventually(there)

    with logs.watched():
        ask(logs.settings, body)


def test_the_same_overview_is_not_sent_again(logs: Logs) -> None:
    """While nothing but the time has changed, the answer is 304, however often it was built again."""
    logs.append("one", "turn.begin", ts=datetime.now(UTC).timestamp() - 5, prompt="x")
    logs.record()

    async def body(client: Client) -> None:
        tag = (await client.get("/overview")).headers["ETag"]
        first = (await client.json("/overview"))["at"]

        async def made_anew() -> bool:
            assert (await client.get("/overview", headers={"If-None-Match": tag})).status == 304
            return bool((await client.json("/overview"))["at"] != first)

        await eventually(made_anew)

    ask(logs.settings, body)


# -- what it costs ------------------------------------------------------------------------------------------------


def test_many_pages_cost_as_much_as_one() -> None:
    """For any number of callers it is built once; when it expires, once more; a failure affects its caller only."""
    made = 0

    async def make() -> int:
        nonlocal made
        made += 1
        await asyncio.sleep(0)
        if made == 2:
            raise OSError("no luck")
        return made

    async def main() -> None:
        lasting, brief = Cached(make, 3600.0), Cached(make, 0.0)
        assert await asyncio.gather(*(lasting.get() for _ in range(50))) == [1] * 50
        assert await lasting.get() == 1
        with pytest.raises(OSError, match="no luck"):
            await brief.get()
        found = await brief.get()
        assert found == made == 3

    asyncio.run(main())


def test_an_old_answer_is_valid_until_something_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a version it is built again when it is old and the version is another one, or when it is invalidated."""
    monkeypatch.setattr(answers, "_SHARE", 0)
    made, version = 0, 1

    async def make() -> int:
        nonlocal made
        made += 1
        return made

    async def current() -> int:
        return version

    async def main() -> None:
        nonlocal version
        lasting, brief = (Cached(make, seconds, version=current) for seconds in (3600.0, 0.0))
        assert [await lasting.get(), await brief.get(), await brief.get()] == [1, 2, 2]
        version = 2
        assert [await lasting.get(), await brief.get()] == [1, 3]
        await brief.invalidate()
        assert await brief.get() == 4

    asyncio.run(main())
