"""Answers beside their sessions: whatever an application answers can be stored, and is stored once."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.cli.kept_answers import as_text, kept_in
from agenttrace.masking import Mask
from agenttrace.rules.actions.chain import Kept
from agenttrace.store.questions import SessionFilter
from rules.rig import Rig
from secret_planting import leaks, secret


@given(st.text(st.characters(exclude_categories=[])), st.integers(1, 3))
def test_any_answer_becomes_a_text(answer: str, times: int) -> None:
    """Without characters that are not text, and no longer than a note may be."""
    found = as_text(answer * times * 2_000)
    assert len(found) <= 10_000
    assert not [char for char in found if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") and char not in "\n\t"]


def test_what_is_kept_is_kept_once(tmp_path: Path) -> None:
    """Note, score and label with the rule as their author, masked; a repeat of the action changes nothing."""
    rig = Rig(tmp_path, {"rules": {}, "actions": {}})
    try:
        rig.turn(1)
        (session,) = rig.store.sessions(SessionFilter())
        keep = kept_in(rig.store, Mask(()).text)
        for _ in range(2):
            keep(Kept("k:note", session.id, None, "note", "r", text=f"The key is {secret('x')}\x00\u2028"))
            keep(Kept("k:score", session.id, None, "score", "r", "session-score", 7.0, "Why."))
            keep(Kept("k:label", session.id, None, "label", "r", "smooth"))
        found = rig.store.annotations([session.id])[session.id]
        assert {(each.kind, each.name, each.value) for each in found} == {
            ("note", "", None),
            ("score", "session-score", 7.0),
            ("label", "smooth", None),
        }
        assert len(found) == 3
        assert {(each.source, each.author) for each in found} == {("rule", "r")}
        assert not leaks("".join(each.text for each in found))
        with pytest.raises(ValueError, match="no such session"):
            keep(Kept("k", 999, None, "note", "r", text="x"))
    finally:
        rig.close()
