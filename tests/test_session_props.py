"""Conversations get a key that leads back to them, and are continued by rule (properties 3 and 4), on PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.compat.conversation import make_session_id, parse_session_id, should_reuse
from agenttrace.run.chat.conversation import Conversation, ConversationService
from agenttrace.run.states import ConversationEntry
from run.world import World, open_world

ages = st.one_of(
    st.none(),
    st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=4000)),
    st.sampled_from([timedelta(days=3, minutes=-1), timedelta(days=3, minutes=1)]),
)


@pytest.fixture(scope="module")
def world(module_database_url: str) -> Iterator[World]:
    with open_world(module_database_url) as world:
        yield world


def resolved(world: World, entry: str = "task") -> Conversation:
    return world.run(ConversationService(world.database).resolve("u", 1, entry, "t"))


def count_from(world: World, number: int) -> None:
    """No conversation; the next one gets this number."""
    world.do("DELETE FROM biz.ai_conversations")
    world.one("SELECT setval(pg_get_serial_sequence('biz.ai_conversations', 'id'), %s, false)", number)


# Feature: P14-ai-dashscope-migration, Property 3: session_id 格式不变量
@given(st.integers(min_value=1, max_value=2**63 - 1))
def test_session_id_has_its_form_and_leads_back(world: World, number: int) -> None:
    """Whatever number a conversation gets, its key has the form of the document and leads back to it, and stays."""
    count_from(world, number)
    made = resolved(world)
    assert made.id == number
    assert re.fullmatch(r"^conv_\d+_\d+$", made.session_id)
    assert len(made.session_id) <= 100
    assert parse_session_id(made.session_id) == number
    created = world.one("SELECT floor(extract(epoch FROM created_at))::bigint FROM biz.ai_conversations")
    assert made.session_id == make_session_id(number, created)
    assert resolved(world).session_id == made.session_id


@given(st.text(max_size=40).filter(lambda text: not re.fullmatch(r"conv_[1-9][0-9]*_[0-9]+", text)))
def test_other_texts_are_no_session_ids(text: str) -> None:
    """Whatever does not have the form is refused, not misread."""
    with pytest.raises(ValueError, match="not the session id"):
        parse_session_id(text)


# Feature: P14-ai-dashscope-migration, Property 4: 对话复用规则
@given(st.sampled_from(ConversationEntry), ages)
def test_reuse_rule(world: World, entry: ConversationEntry, age: timedelta | None) -> None:
    """Tasks always go on with their conversation, customers and coaches within three days, general talk never."""
    count_from(world, 1)
    earlier = None
    if age is not None:
        earlier = resolved(world, entry)
        world.do("UPDATE biz.ai_conversations SET last_message_at = now() - %s WHERE id = %s", age, earlier.id)
    found = resolved(world, entry)
    goes_on = earlier is not None and found.id == earlier.id
    expected = {
        "task": age is not None,
        "customer": age is not None and age <= timedelta(days=3),
        "coach": age is not None and age <= timedelta(days=3),
        "general": False,
    }
    assert goes_on == expected[entry] == should_reuse(entry, age)
    assert found.is_new != goes_on
