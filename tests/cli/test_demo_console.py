"""``agenttrace demo --console``: everything that AgentTrace shows is there, and alive."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from console_login import login_headers

from .conftest import Program, eventually, stop

pytest.importorskip("psycopg", reason="the run half is not installed")


#: Agents whose logs do not say that a session is over.
_MOST_WAITING = 5


class Api:
    """The API of the demo."""

    def __init__(self, url: str, home: Path) -> None:
        self.http = httpx.Client(base_url=f"{url}/api/v1", headers=login_headers(home), timeout=30, trust_env=False)

    def get(self, path: str) -> Any:  # noqa: ANN401 - any JSON
        answer = self.http.get(path)
        assert answer.status_code == 200, f"{path}: {answer.text}"
        return answer.json()

    def sessions(self, **filters: str) -> list[dict[str, Any]]:
        return list(
            self.get(f"/sessions?limit=500&{'&'.join(f'{name}={text}' for name, text in filters.items())}")["items"]
        )


def test_everything_is_alive(
    program: Program, background: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """Working sessions that grow, a refused span, running jobs, a rule that fired, a budget at 80 %, notes, an error.

    Settings of the user are not used, nothing but this machine is named, and Ctrl-C removes everything.
    """
    elsewhere = tmp_path / "mine.toml"
    elsewhere.write_text('[destinations.mine]\ntype = "otlp"\nurl = "http://127.0.0.1:9/v1/traces"\n', encoding="utf-8")
    program.environment |= {"AGENTTRACE_CONFIG": str(elsewhere), "TMPDIR": str(tmp_path)}
    process = background("demo", "--console", "--port", "0", "--days", "15", "--speed", "8", "--json")
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())
    home = Path(told["home"])
    api = Api(told["url"], home / ".agenttrace")
    with closing(api.http):
        _everything(api)
    stop(process)
    assert process.returncode == 0
    assert not home.exists()
    assert list(program.user.iterdir()) == []


def _everything(api: Api) -> None:
    _past_is_there(api)
    eventually(lambda: api.sessions(state="working"), "a working session")
    events = sum(each["events"] for each in api.sessions())
    eventually(lambda: sum(each["events"] for each in api.sessions()) > events, "a session that grows")
    _exports(api)
    _rules(api)
    eventually(lambda: any(job["status"] == "running" for job in api.get("/jobs")["items"]), "a running job")
    eventually(lambda: _breakers(api).get("app6") in ("open", "half_open"), "a breaker that opens for good")
    (budget,) = api.get("/limits")["budgets"]
    assert 0.75 < budget["share"] < 1.1


def _breakers(api: Api) -> dict[str, str]:
    return {each["app"]: each["state"] for each in api.get("/guards")["breakers"]}


def _past_is_there(api: Api) -> None:
    """Six agents and five projects over two weeks, with notes, scores, labels and errors."""
    found = api.sessions()
    assert len({each["agent"] for each in found}) >= 5
    assert len({each["project"] for each in found}) >= 5
    days = {each["started_at"][:10] for each in found}
    assert len(days) >= 10
    assert len({each["started_at"][11:13] for each in found}) >= 6
    assert any(each["errors"] for each in found)
    assert sum(each["state"] == "waiting" for each in found) <= _MOST_WAITING
    kinds = {each["kind"] for each in api.get("/insights/findings")["items"]}
    assert kinds == {"retry_loop", "repeated_failure", "cache_break", "expensive_turn", "long_wait"}
    marks = [each["marks"] for each in found]
    assert sum(mark["notes"] for mark in marks) >= 2
    assert {name for mark in marks for name in mark["scores"]} >= {"quality", "tests"}
    assert any(mark["starred"] for mark in marks)
    assert any("flaky" in mark["labels"] for mark in marks)


def _exports(api: Api) -> None:
    """One destination, of this machine, which took all spans but one."""

    def one() -> dict[str, Any] | None:
        (found,) = api.get("/exports")["destinations"]
        return found if found["refused"] and found["acknowledged"] > 100 else None

    found = eventually(one, "a refused span")
    assert found["address"].startswith("http://127.0.0.1:")
    assert found["refused"] == 1
    (span,) = api.get("/exports/collector/spans?state=refused")["items"]
    assert "refuses one span" in str(span)


def _rules(api: Api) -> None:
    """A rule fired, and its action was done."""
    fired = eventually(
        lambda: [each for each in api.get("/rules/firings?limit=200")["items"] if each["rule"] == "failed-tools"],
        "a rule that fires",
    )
    assert {each["event"] for each in fired} == {"tool.failed"}
    eventually(
        lambda: [
            each
            for each in api.get("/rules/firings?limit=200")["items"]
            if each["rule"] == "failed-tools" and each["state"] == "done"
        ],
        "an action that was done",
    )
