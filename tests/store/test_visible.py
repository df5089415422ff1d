"""The wrapper that answers a store's questions for a member or viewer of a team."""

from __future__ import annotations

from pathlib import Path

import pytest

from agenttrace.calendar import day_finder
from agenttrace.store.rows import ChangesCursor
from agenttrace.store.sight import Sight
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.store.store import Store
from agenttrace.store.visible import HiddenError, VisibleStore
from team_rig import TEAM, team_rows

#: Answered by means of other questions.
_DERIVED = {"session"}


@pytest.fixture
def seen(tmp_path: Path) -> VisibleStore:
    store = SqliteStore.open(tmp_path / "agenttrace.db", read_only=False)
    return VisibleStore(store, Sight(role="member", person="amy", key=b"k"))


def test_every_question_is_answered_for_the_sight() -> None:
    """A new question of the protocol has to be answered here as well: the stub of the protocol answers nothing."""
    questions = {name for name in vars(Store) if not name.startswith("_")} - _DERIVED
    assert questions - set(vars(VisibleStore)) == set()


def test_what_concerns_the_server_is_not_there(seen: VisibleStore) -> None:
    """Log files, quarantined lines, exports, the connection, and copies of the store."""
    for name in ("files", "quarantine", "exports", "status", "retention", "annotation_table", "connection", "commit"):
        with pytest.raises(HiddenError):
            getattr(seen, name)
    with pytest.raises(HiddenError):
        seen.changes_since(ChangesCursor())
    with pytest.raises(HiddenError):
        seen.merge([], day_of=str)


def test_hashes_need_the_key() -> None:
    """The same name has one hash under one key, another one under another, and kinds do not share any."""
    one, other = Sight(role="viewer", key=b"one"), Sight(role="member", key=b"other")
    assert one.name("project", "/srv/shop") == one.name("project", "/srv/shop")
    assert one.name("project", "/srv/shop") != other.name("project", "/srv/shop")
    assert one.name("project", "x").partition("-")[2] != one.name("session", "x").partition("-")[2]


def test_a_viewer_has_no_sessions_of_their_own() -> None:
    """Neither the person nor shared machines count for a viewer."""
    sight = Sight(role="viewer", person="amy", shared=frozenset(("laptop",)))
    assert (sight.persons, sight.machines) == (frozenset(), frozenset())


def test_groups_of_sessions_do_not_name_what_is_hidden(seen: VisibleStore) -> None:
    """Amy sees her own directories, hashes of others, and as many sessions as are listed."""
    store = seen.over
    store.merge(team_rows(), day_of=day_finder("UTC"))
    own = {each.project for each in TEAM if each.person == "amy"}
    groups = {each.name: each.sessions for each in seen.session_groups("project")}
    assert own < set(groups)
    assert not ({each.project for each in TEAM} - own) & set(groups)
    assert sum(groups.values()) == len(seen.sessions()) == len(TEAM)
    assert [each.sessions for each in seen.session_groups("agent")] == [len(TEAM)]
    assert len(seen.session_groups("project", 1)) == 1
