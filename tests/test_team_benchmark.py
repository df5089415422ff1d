"""The benchmark of a team's store: what is sent to it, and what its questions are compared with."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import pytest

from agenttrace.store import open_team_store
from agenttrace.store.rows import EventRow, StoredSession, StoredSpan

ROOT = Path(__file__).resolve().parents[1]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("benchmarks are not part of a source distribution", allow_module_level=True)
sys.path.insert(0, str(ROOT))

from benchmarks import team, team_rows  # noqa: E402 - found by the line above


def test_every_question_has_a_target(tmp_path: Path) -> None:
    """All questions are compared with what they may take, and one that takes as long has missed it."""
    with open_team_store(str(tmp_path / "team.db")) as store:
        team.take_all(store, 400)
        for question in team.questions(store):
            most = team.target_of(question)
            assert [team.judged(question, most - 0.1), team.judged(question, most)] == ["ok", "MISSED"]


def test_pages_of_a_live_session_have_what_became_of_its_lines() -> None:
    """Each page continues the one before, and has the session with lines and their spans."""
    pages = team_rows.live_pages(10)
    for page, rows in pages:
        assert {StoredSession, StoredSpan, EventRow} <= set(map(type, rows)), page
    assert all(earlier.until == later.after for (earlier, _), (later, _) in pairwise(pages))
