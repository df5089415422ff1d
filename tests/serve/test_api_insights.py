"""``/api/v1/insights``: tools and models over many sessions, and the calls behind their figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .servers import Outliving
from .trace_rig import Logs
from .views_rig import Client, found_logs, serving


class Server(Outliving[Client]):
    """One server for all tests."""

    def __init__(self, logs: Logs) -> None:
        super().__init__(serving(logs.settings))
        self.client = self.value

    def get(self, path: str, **query: Any) -> Any:  # noqa: ANN401 - JSON
        return self.run(self.client.json(f"/insights/{path}", **query))

    def status(self, path: str, **query: Any) -> int:  # noqa: ANN401 - JSON
        return self.run(self.client.get(f"/insights/{path}", **query)).status


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:  # noqa: ANN401 - a generator
    logs = found_logs(tmp_path_factory.mktemp("insights"))
    logs.use_samples()
    for number, name in enumerate(("loop", "other")):
        logs.append(name, "turn.begin", turn=1, prompt="build it")
        for step in range(1, 5 - number):
            place = {"turn": 1, "step": step}
            logs.append(name, "usage", **place, model="gpt-5", usage={"input_tokens": 10, "output_tokens": 2})
            logs.append(name, "tool.begin", **place, id=f"c{step}", name="Bash", arguments={"command": "make"})
            error = "no rule to make target" if number == 0 or step > 1 else "other"
            logs.append(name, "tool.end", **place, id=f"c{step}", status="error", error=error)
    logs.record(index=False)
    server = Server(logs)
    yield server
    server.close()


def test_tools(server: Server) -> None:
    """Counts add up however they are divided; the order is that of a figure; filters leave out."""
    whole = server.get("tools")
    assert whole["calls"] == sum(each["calls"] for each in whole["items"]) > 0
    assert whole["failures"] == sum(each["failures"] for each in whole["items"]) > 0
    for each in whole["items"]:
        assert each["failure_rate"] == each["failures"] / each["calls"]
        assert each["part"] is None
        assert (each["p50_ms"] is None) == (each["timed"] == 0)
    for by in ("agent", "project", "model"):
        parts = server.get("tools", by=by)
        assert (parts["calls"], parts["failures"]) == (whole["calls"], whole["failures"])
        assert len(parts["items"]) >= len(whole["items"])
    rates = server.get("tools", sort="failure_rate", limit=3)
    assert [each["failure_rate"] for each in rates["items"]] == sorted(
        (each["failure_rate"] for each in whole["items"]), reverse=True
    )[:3]
    assert rates["left_out"] == len(whole["items"]) - 3
    names = [each["tool"] for each in server.get("tools", sort="name")["items"]]
    assert names == sorted(names)
    assert server.get("tools", agent="codex")["calls"] < whole["calls"]
    assert server.get("tools", until="2001-01-01") == {**whole, "calls": 0, "failures": 0, "items": []}


def test_models(server: Server) -> None:
    """The cost of models is that of the usage page; what the log does not tell is null."""
    found = server.get("models", sort="cost")
    usage = {row["group"]: row["bill"] for row in server.run(server.client.json("/usage", by="model"))["rows"]}
    for each in found["items"]:
        if each["model"] in usage:
            assert each["costs"] == usage[each["model"]]["costs"]
            assert each["cache_read_tokens"] == usage[each["model"]]["cache_read_tokens"]
        assert (each["p95_ms"] is None) == (each["timed"] == 0)
        speed = each["output_tokens_per_second"]
        assert speed is None or speed > 0
        for currency, cost in each["costs"].items():
            assert each["cost_per_turn"][currency] == pytest.approx(cost / each["turns"])
    assert {each["model"] for each in found["items"]} >= usage.keys()


def test_the_calls_behind_a_row(server: Server) -> None:
    """Failures of a tool, the latest first, and its longest calls, each with its session and span."""
    worst = server.get("tools", sort="failures", limit=1)["items"][0]
    found = server.get("calls", tool=worst["tool"], limit=100)
    assert len(found["failed"]) == min(worst["failures"], 100)
    assert found["slow"][0]["duration_ms"] == worst["max_ms"]
    assert [each["at"] for each in found["failed"]] == sorted((each["at"] for each in found["failed"]), reverse=True)
    for each in (*found["failed"], *found["slow"]):
        span = server.run(server.client.json(f"/sessions/{each['session']}/spans/{each['span_id']}"))
        assert span["kind"] == "tool"
    model = server.get("models")["items"][0]
    assert server.get("calls", model=model["model"])["slow"][0]["duration_ms"] == model["max_ms"]


def test_findings(server: Server) -> None:
    """Each has a sentence and leads to spans that are there; kinds and limits leave out."""
    items = server.get("findings")["items"]
    assert {each["kind"] for each in items} >= {"retry_loop", "repeated_failure", "expensive_turn"}
    for each in items:
        assert each["text"]
        assert each["spans"]
        for span in each["spans"]:
            server.run(server.client.json(f"/sessions/{span['session']}/spans/{span['span_id']}"))
    turns = server.get("findings", kind="expensive_turn", limit=1)["items"]
    assert {each["kind"] for each in turns} == {"expensive_turn"}
    assert len({currency for each in turns for currency in each["costs"]}) == len(turns)
    assert turns == [each for each in items if each in turns]
    loop = next(each for each in items if each["kind"] == "retry_loop")
    assert (loop["count"], loop["tool"], loop["arguments"]) == (4, "Bash", '{"command": "make"}')
    assert server.get("findings", agent="nobody") == {"items": []}


def test_questions_that_are_refused(server: Server) -> None:
    """A time that is none, calls of nothing, a figure that there is not."""
    assert server.status("tools", since="soon") == 400
    assert server.status("calls") == 400
    assert server.status("tools", sort="beauty") == 422
    assert server.status("models", by="model") == 422


def test_before_anything_is_recorded(tmp_path: Path) -> None:
    """An empty answer, no error."""
    with_nothing = Server(found_logs(tmp_path))
    try:
        assert with_nothing.get("tools", by="model")["items"] == []
        assert with_nothing.get("models")["items"] == []
        assert with_nothing.get("calls", tool="Bash") == {"failed": [], "slow": []}
    finally:
        with_nothing.close()
