"""Machine and person in the tools, on a team's store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agenttrace.config import Settings
from cli.conftest import Program
from team_rig import write_team

from .rig import Asker, serving


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    user: Path = tmp_path_factory.mktemp("team")
    program = Program(user)
    write_team(Settings(home=program.home))
    with serving(program) as asker:
        yield asker


def test_filters(team: Asker) -> None:
    """Lists, search, errors and usage of one person or machine."""
    listed = team.fields("list_sessions", person="ben")["sessions"]
    assert [(each["session"], each["machine"], each["person"]) for each in listed] == [("parcels", "laptop-ben", "ben")]
    hits = team.fields("search", query="carriers", machine="laptop-ben")["hits"]
    assert {hit["session"] for hit in hits} == {"parcels"}
    assert team.fields("search", query="carriers", person="amy")["hits"] == []
    assert {each["session"] for each in team.fields("errors", machine="laptop-amy")["errors"]} == {"prices"}
    assert team.fields("errors", person="ben")["errors"] == []


def test_groups(team: Asker) -> None:
    """Usage and figures of tools and models by person and machine."""
    usage = team.fields("usage", by="person")
    assert {each.get("group"): each["requests"] for each in usage["groups"]} == {"amy": 3, "ben": 1, "陈晨": 1, None: 1}
    tools = team.fields("insights", view="tools", by="person", since="all")["tools"]
    assert {each.get("part") or "" for each in tools} == {"amy", "ben", "陈晨", ""}
    models = team.fields("insights", view="models", by="machine", person="amy", since="all")["models"]
    assert {each["part"] for each in models} == {"desktop-amy", "laptop-amy"}
