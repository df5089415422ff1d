"""Conversations get a key that leads back to them, and are taken up again by rule (properties 3 and 4)."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.run.conversation import ENTRIES, make_session_id, parse_session_id, should_reuse

ages = st.one_of(
    st.none(),
    st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=4000)),
    st.timedeltas(min_value=timedelta(days=3, seconds=-2), max_value=timedelta(days=3, seconds=2)),
    st.just(timedelta(days=3)),
)


# Feature: P14-ai-dashscope-migration, Property 3: session_id 格式不变量
@given(st.integers(min_value=1, max_value=2**63 - 1), st.integers(min_value=0, max_value=2**40))
def test_session_id_has_its_form_and_leads_back(conversation_id: int, created: int) -> None:
    """A session id matches the form of the document, and the conversation's id can be read from it."""
    session_id = make_session_id(conversation_id, created)
    assert re.fullmatch(r"^conv_\d+_\d+$", session_id)
    assert len(session_id) <= 100
    assert parse_session_id(session_id) == conversation_id


@given(st.text(max_size=40).filter(lambda text: not re.fullmatch(r"conv_[1-9][0-9]*_[0-9]+", text)))
def test_other_texts_are_no_session_ids(text: str) -> None:
    """Whatever does not have the form is refused, not misread."""
    with pytest.raises(ValueError, match="not the session id"):
        parse_session_id(text)


# Feature: P14-ai-dashscope-migration, Property 4: 对话复用规则
@given(st.sampled_from(ENTRIES), ages)
def test_reuse_rule(entry: str, age: timedelta | None) -> None:
    """Tasks always go on with their conversation, customers and coaches within three days, general talk never."""
    expected = {
        "task": age is not None,
        "customer": age is not None and age <= timedelta(days=3),
        "coach": age is not None and age <= timedelta(days=3),
        "general": False,
    }
    assert should_reuse(entry, age) == expected[entry]
