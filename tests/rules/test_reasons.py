"""Reasons: a code with facts, stored and read back, and a sentence for each."""

from __future__ import annotations

import string
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from agenttrace.store.rule_reasons import _SENTENCES, Reason, ReasonCode, read, written

FACTS = st.one_of(st.none(), st.integers(-(2**53), 2**53), st.text(st.characters(exclude_categories=["Cs"])))


@given(st.sampled_from(get_args(ReasonCode)), st.data())
def test_a_reason_is_read_as_it_was_written(code: ReasonCode, data: st.DataObject) -> None:
    """Whatever its facts are, braces among them; what is not known is said to be so."""
    names = [name for _, name, _, _ in string.Formatter().parse(_SENTENCES[code]) if name]
    reason = Reason(code=code, facts={name: data.draw(FACTS) for name in names})
    sentence, found = read(written(reason))
    assert found == reason
    assert sentence == reason.sentence
    assert all(str(value) in (sentence or "") for value in reason.facts.values() if value is not None)


def test_what_an_action_failed_with_is_a_text() -> None:
    """Also one that looks like a reason, of another version or of a server."""
    for text in (None, "hook: HTTP 500", '{"code":', '{"code":"new","facts":{}}', '{"code":"cost"}'):
        assert read(written(text)) == (text, None)
