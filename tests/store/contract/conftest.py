"""Every test of the contract runs for every engine."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings

import clickhouse_on

from . import machine, team_machine

#: Examples of each test on ClickHouse, where a question takes milliseconds.
_FEW = 2
_PARAMS = [
    pytest.param(each, marks=[pytest.mark.team, pytest.mark.xdist_group("clickhouse")])
    if each == "clickhouse"
    else each
    for each in machine.ENGINES
]


@pytest.fixture(params=_PARAMS, scope="module", autouse=True)
def engine(request: pytest.FixtureRequest) -> None:
    """The engine that is tested."""
    if request.param == "clickhouse" and not clickhouse_on.has_clickhouse():
        pytest.skip("needs chdb (make test-team) or a server at TEST_CLICKHOUSE_URL")
    machine.engine, team_machine.team_engine = request.param, "sqlite"


@pytest.fixture(autouse=True)
def few_examples(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few examples of tests that ask ClickHouse."""
    given = getattr(request.function, "_hypothesis_internal_use_settings", None)
    if "clickhouse" in (machine.engine, team_machine.team_engine) and given is not None:
        few = settings(given, max_examples=min(_FEW, given.max_examples), phases=[Phase.explicit, Phase.generate])
        monkeypatch.setattr(request.function, "_hypothesis_internal_use_settings", few)
