"""What applications answered: texts, scores and labels, in whatever they are wrapped."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.rules.actions.answers import Score, answered_labels, answered_object, answered_score, answered_text

PROSE = st.text(st.characters(exclude_characters="{}`", exclude_categories=["Cs"]), max_size=40)


@given(st.floats(0, 10), PROSE, PROSE, PROSE, st.booleans())
def test_a_score_is_found_in_fences_and_prose(value: float, before: str, after: str, reason: str, fence: bool) -> None:
    """Whatever stands around the object, the score is the number that was written."""
    text = json.dumps({"score": value, "reason": reason})
    wrapped = f"```json\n{text}\n```" if fence else text
    found = answered_score(f"{before}\n{wrapped}\n{after}")
    assert found == Score(value, reason.strip())


@given(st.one_of(st.text(), st.integers(), st.floats(), st.none(), st.lists(st.integers()), st.booleans()))
def test_a_score_is_never_guessed(value: object) -> None:
    """A score is a number from 0 to 10, or a text that is one; anything else is none."""
    found = answered_score(json.dumps({"score": value}))
    if found is not None:
        assert 0 <= found.value <= 10
        assert not isinstance(value, bool | list | None)


@pytest.mark.parametrize(
    "answer",
    [
        "8",
        "Score: 8/10",
        '{"score": 11}',
        '{"score": -1}',
        '{"score": "high"}',
        '{"score": "10 of 100"}',
        '{"score": true}',
        '{"score": 7} or rather {"score": 4}',
        '{"score": 7',
        '{"result": {"score": 7}}',
        '{"score": 1e999}',
        "",
    ],
)
def test_no_score(answer: str) -> None:
    """Answers without one clear score."""
    assert answered_score(answer) is None


@pytest.mark.parametrize(
    ("answer", "value"), [('{"score": "7/10"}', 7), ('{"score": " 6.5 "}', 6.5), ('{"score": 0}', 0)]
)
def test_scores_as_texts(answer: str, value: float) -> None:
    """Models write numbers as texts."""
    found = answered_score(answer)
    assert found is not None
    assert found.value == value


def test_texts_for_people() -> None:
    """Texts and lists of the object, without figures; what is no object as it is, without its fence."""
    review = {"summary": "It went well.", "went_wrong": ["a", "b"], "labels": ["smooth"], "score": 3, "do_better": []}
    assert answered_text(json.dumps(review)) == "It went well.\nWent wrong:\n- a\n- b"
    assert answered_text("Just words.") == "Just words."
    assert answered_text("```\nJust words.\n```") == "Just words."
    assert answered_text('{"score": 3}') == ""
    assert answered_text('{"deep": {"a": 1}}') == '{"deep": {"a": 1}}'


def test_labels() -> None:
    """A few short ones, each once."""
    assert answered_labels('{"labels": ["a", " b  c ", "a", 3, "", "x"]}') == ["a", "b c", "x"]
    assert answered_labels('{"label": "only"}') == ["only"]
    assert answered_labels('{"labels": ["' + "x" * 65 + '"]}') == []
    assert len(answered_labels(json.dumps({"labels": list("abcdefgh")}))) == 5
    assert answered_labels("no object") == []


@given(st.text(alphabet='{}[]",:ab1 \n', max_size=300))
def test_nothing_breaks_the_reading(answer: str) -> None:
    """Whatever comes is read, or is not."""
    assert isinstance(answered_object(answer), dict)
    assert isinstance(answered_text(answer), str)
    answered_score(answer)
    answered_labels(answer)
