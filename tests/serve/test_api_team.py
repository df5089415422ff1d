"""``/api/v1`` on a team's store: who works, persons and machines, filters, groups and facets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from agenttrace.config import Settings
from agenttrace.config.sections import TeamSettings
from team_rig import write_team

from .views_rig import Client, ask, found_logs


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    logs = found_logs(tmp_path_factory.mktemp("team"))
    write_team(logs.settings)
    return msgspec.structs.replace(logs.settings, team=TeamSettings(name="Checkout"))


def test_the_team(settings: Settings) -> None:
    """Persons, machines and what they work on; the settings say whose server it is."""

    async def body(client: Client) -> tuple[Any, Any]:
        return await client.json("/team"), await client.json("/settings")

    team, known = ask(settings, body)
    assert known["team"] == {"name": "Checkout"}
    assert team["name"] == "Checkout"
    assert [row["name"] for row in team["persons"]] == ["amy", "ben", "陈晨", None]
    assert [row["name"] for row in team["machines"]] == [
        "build-7",
        "desktop-amy",
        "laptop-amy",
        "laptop-ben",
        "mac-chen",
    ]
    assert [each["person"] for each in team["now"]] == ["amy", "ben", "陈晨"]
    assert team["persons"][0]["week"]["tokens"] == 1_103_000


def test_lists_and_facets(settings: Settings) -> None:
    """Rows have both names, every value of a facet is a filter, and each finds as many sessions as the facet says."""

    async def body(client: Client) -> None:
        facets = await client.json("/sessions/facets")
        assert {each["value"]: each["count"] for each in facets["persons"]} == {"amy": 3, "ben": 1, "陈晨": 1}
        for name in ("person", "machine"):
            for facet in facets[f"{name}s"]:
                found = await client.json("/sessions", **{name: facet["value"]})
                assert found["total"] == facet["count"]
                assert {row[name] for row in found["items"]} == {facet["value"]}
        unowned = await client.json("/sessions", person="")
        assert [row["session_id"] for row in unowned["items"]] == ["build"]

    ask(settings, body)


def test_usage_and_insights(settings: Settings) -> None:
    """By person and machine, split and filtered."""

    async def body(client: Client) -> None:
        usage = await client.json("/usage", by="person", split="machine", since="30d")
        parts = {row["group"]: sorted(part["name"] for part in row["parts"]) for row in usage["rows"]}
        assert parts["amy"] == ["desktop-amy", "laptop-amy"]
        only = await client.json("/usage", by="person", machine="laptop-ben")
        assert [row["group"] for row in only["rows"]] == ["ben"]
        tools = await client.json("/insights/tools", by="person", since="30d")
        assert {row["part"] for row in tools["items"]} == {"amy", "ben", "陈晨", ""}
        models = await client.json("/insights/models", by="machine", person="amy", since="30d")
        assert {row["part"] for row in models["items"]} == {"desktop-amy", "laptop-amy"}

    ask(settings, body)


def test_a_machine_of_its_own_has_no_team(tmp_path: Path) -> None:
    """No team in the settings, no facets, and one row without a name."""
    logs = found_logs(tmp_path)
    logs.append("alone", "turn.begin", prompt="go")
    logs.record()

    async def body(client: Client) -> None:
        assert (await client.json("/settings"))["team"] is None
        facets = await client.json("/sessions/facets")
        assert (facets["persons"], facets["machines"]) == ([], [])
        team = await client.json("/team")
        assert (team["name"], [row["name"] for row in team["persons"]]) == (None, [None])

    ask(logs.settings, body)


def test_without_a_store(tmp_path: Path) -> None:
    """Nothing, and no error."""

    async def body(client: Client) -> None:
        team = await client.json("/team")
        assert (team["persons"], team["machines"], team["now"]) == ([], [], [])

    ask(found_logs(tmp_path).settings, body)
