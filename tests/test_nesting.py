"""Nesting: measured and cut without walking too deep."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agenttrace.nesting import CUT, cut, is_too_deep
from agenttrace.run.results.storable import storable_json, stored_json

VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=20,
)


def depth(value: Any) -> int:  # noqa: ANN401 - any JSON value
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if parts is None else 1 + max(map(depth, parts), default=0)


@given(VALUES, st.integers(1, 5))
def test_a_cut_value_is_as_deep_as_it_may_be(value: Any, most: int) -> None:  # noqa: ANN401
    """What is not too deep is as it was; of anything else, all that is not too deep."""
    assert is_too_deep(value, most) is (depth(value) > most)
    found = cut(value, most)
    assert depth(found) == min(depth(value), most)
    assert found == value if depth(value) <= most else CUT in json.dumps(found, ensure_ascii=False)


def test_a_value_deeper_than_the_stack() -> None:
    """What Python itself cannot walk through is measured, stored and read."""
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    assert is_too_deep(value)
    assert CUT in storable_json(value)
    assert stored_json("[" * 100_000 + "]" * 100_000) == {"error": "nested too deep to be read"}
    # Or taking it apart again would go too deep as well.
    while isinstance(value, list):
        value = value.pop()
