"""Times in queries to servers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.export.moments import iso

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.integers(0, 253_402_300_799_000_000))
def test_a_moment_is_exact_to_the_millisecond(microseconds: int) -> None:
    """The text is the same time, truncated to milliseconds and never rounded up."""
    read = (datetime.fromisoformat(iso(microseconds)) - EPOCH) // timedelta(milliseconds=1)
    assert read == microseconds // 1_000


@pytest.mark.parametrize("absurd", [-1, -(2**70), 2**70])
def test_a_moment_without_a_date_becomes_the_nearest_that_has_one(absurd: int) -> None:
    """A broken clock does not prevent a query."""
    assert iso(absurd) in ("1970-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z")
