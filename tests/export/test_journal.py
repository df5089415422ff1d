"""The journal beside the store: acknowledged spans are never sent again, even if the store is lost."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.export.journal import Journal
from agenttrace.record.recovery import recover
from agenttrace.store.exports import SpanKey

from .rig import Shelf, World, target
from .test_courier import lost_answer, lost_request

places = st.builds(SpanKey, st.integers(0, 2**48 - 1), st.binary(min_size=8, max_size=8))


@given(st.lists(st.tuples(st.sampled_from("SA"), st.lists(places, max_size=4)), max_size=12), st.integers(0, 15))
def test_the_journal_has_the_last_mark_of_each_span(
    tmp_path_factory: pytest.TempPathFactory, said: list[Any], torn: int
) -> None:
    """Acknowledged stays acknowledged, half a record at the end is dropped, and later records are read."""
    home = tmp_path_factory.mktemp("home")
    journal = Journal(home, "there")
    expected: dict[bytes, str] = {}
    for mark, some in said:
        journal.add(mark, some)
        journal.close()
        with journal.path.open("ab") as file:
            file.write(random.Random(torn).randbytes(torn))
        for place in some:
            expected[place.span_id] = "A" if "A" in (mark, expected.get(place.span_id)) else mark
    assert {span_id: mark for span_id, (mark, _) in Journal(home, "there").read().items()} == expected


def _lose(world: World, how: str) -> None:
    if how == "deleted":
        for path in world.settings.home.glob("agenttrace.db*"):
            path.unlink()
        return
    with world.store.open("r+b") as file:
        size = world.store.stat().st_size
        match how:
            case "garbage":
                file.write(random.Random(1).randbytes(size))
            case "first page":
                file.write(random.Random(1).randbytes(16_384))
            case "cut off":
                file.truncate(size // 2)
    recover(world.settings.home)


@pytest.mark.parametrize("how", ["deleted", "garbage", "first page", "cut off"])
@pytest.mark.parametrize("ignores_repeats", [False, True])
def test_a_lost_store_sends_nothing_twice(tmp_path: Path, how: str, ignores_repeats: bool) -> None:
    """After the store was deleted or destroyed and everything was imported anew, what had been acknowledged is not sent
    again, what had been sent without an answer is unknown, and what had not been sent is sent."""
    world = World(tmp_path, target())
    for number in range(6):
        world.turn("s", number)
    world.record()
    world.seal(quiet_seconds=0)
    shelf = Shelf(max_spans=6)
    world.deliver(shelf, rounds=1)
    shelf.faults = [lost_request]
    world.deliver(shelf, rounds=1)
    assert world.states()["acknowledged"] == world.states()["unknown"] == 6
    _lose(world, how)
    world.record()
    world.seal(quiet_seconds=0)
    shelf.ignores_repeats = ignores_repeats
    requests = len(shelf.requests)
    world.deliver(shelf)
    assert set(shelf.ids.values()) == {1}
    # Where the ledger could be read, the user still decides about unknown spans.
    assert len(shelf.spans) in ((12, 18) if ignores_repeats else (12,))
    assert world.states()["acknowledged"] == len(shelf.spans)
    assert world.states()["unknown"] == 18 - len(shelf.spans)
    assert {span.span_id for sent in shelf.requests[requests:] for span in sent}.isdisjoint(
        span.span_id for span in shelf.requests[0]
    )


def test_a_destination_that_is_added_again_continues(tmp_path: Path) -> None:
    """What it has stays known to the ledger."""
    world = World(tmp_path, target())
    world.turn("s", 1)
    world.record()
    world.seal(quiet_seconds=0)
    shelf = Shelf()
    shelf.faults = [lost_answer]
    world.deliver(shelf)
    world.reconfigured()
    world.record()
    world.reconfigured(target())
    world.record()
    world.turn("s", 2)
    world.record()
    world.seal(quiet_seconds=0)
    world.deliver(shelf)
    assert set(shelf.ids.values()) == {1}
    assert shelf.ids.keys() == world.span_ids()
