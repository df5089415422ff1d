"""Couriers: whatever a destination does, no span is lost, none that arrived is sent again, and doubt is reported."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.export.courier import GIVE_UP_AFTER
from agenttrace.export.destination import Delivery
from agenttrace.export.span import ExportSpan

from .rig import Shelf, World, target

Fault = Callable[[Shelf, Sequence[ExportSpan]], Delivery]


class KilledError(Exception):
    """Stands for a SIGKILL: nothing that comes after it happens."""


def busy(shelf: Shelf, spans: Sequence[ExportSpan]) -> Delivery:
    return Delivery(verdict="retry", reason="503 later", retry_after=7.0)


def blocked(shelf: Shelf, spans: Sequence[ExportSpan]) -> Delivery:
    return Delivery(verdict="blocked", reason="401 who are you")


def lost_request(shelf: Shelf, spans: Sequence[ExportSpan]) -> Delivery:
    return Delivery(verdict="unknown", reason="no answer")


def lost_answer(shelf: Shelf, spans: Sequence[ExportSpan]) -> Delivery:
    shelf.keep(spans)
    return Delivery(verdict="unknown", reason="no answer")


def half_stored(shelf: Shelf, spans: Sequence[ExportSpan]) -> Delivery:
    shelf.keep(spans[: len(spans) // 2])
    # A destination that breaks down over one span alone, again and again, has that span set aside: another test.
    return Delivery(verdict="unknown", reason="500 broke down", broke_down=len(spans) > 1)


def too_large(shelf: Shelf, spans: Sequence[ExportSpan]) -> Delivery:
    if len(spans) == 1:
        shelf.keep(spans)
        return Delivery(verdict="accepted")
    return Delivery(verdict="too_large", reason="413")


def raises(shelf: Shelf, spans: Sequence[ExportSpan]) -> Delivery:
    raise ValueError("a fault of ours")


def killed_before(shelf: Shelf, spans: Sequence[ExportSpan]) -> Delivery:
    raise KilledError


def killed_after(shelf: Shelf, spans: Sequence[ExportSpan]) -> Delivery:
    shelf.keep(spans)
    raise KilledError


FAULTS = [busy, blocked, lost_request, lost_answer, half_stored, too_large, raises, killed_before, killed_after]


class MortalShelf(Shelf):
    """A destination whose sender may be killed while it sends."""

    async def send(self, spans: Sequence[ExportSpan]) -> Delivery:
        try:
            return await super().send(spans)
        except KilledError:
            # Not an Exception: nothing of the courier's own handling runs.
            raise asyncio.CancelledError from None


class ForgetfulShelf(MortalShelf):
    """A destination that accepts into memory, stores a little with each look at it, and may lose its memory."""

    def __init__(self, max_spans: int) -> None:
        super().__init__(ignores_repeats=True, can_read_back=True, max_spans=max_spans)
        self.accepted_is_stored = False
        self.memory: list[ExportSpan] = []

    def keep(self, spans: Iterable[ExportSpan]) -> None:
        self.memory += spans

    async def present(self, spans: Sequence[ExportSpan]) -> Set[bytes] | None:
        stored, self.memory = self.memory[:4], self.memory[4:]
        super().keep(stored)
        return await super().present(spans)


def forgets(shelf: Shelf, spans: Sequence[ExportSpan]) -> Delivery:
    assert isinstance(shelf, ForgetfulShelf)
    shelf.keep(spans)
    shelf.memory.clear()
    return Delivery(verdict="accepted")


@settings(max_examples=60)
@given(faults=st.lists(st.sampled_from([*FAULTS, forgets, forgets]), max_size=6), portion=st.sampled_from([1, 3, 500]))
def test_accepted_spans_are_acknowledged_once_stored(faults: list[Fault], portion: int) -> None:
    """A destination that accepts spans before it stores them, and loses what it has not stored: what is acknowledged is
    stored, at any time, and in the end everything is, once."""
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory), target())
        for number in range(4):
            world.turn("s", number, steps=2)
        world.record()
        world.seal(quiet_seconds=0)
        shelf = ForgetfulShelf(portion)
        shelf.faults = list(faults)
        for _ in range(3):
            with suppress(asyncio.CancelledError):
                world.deliver(shelf, rounds=4)
            acknowledged = world.rows("SELECT span_id FROM export_spans WHERE state = 'acknowledged'")
            assert {row[0] for row in acknowledged} <= shelf.ids.keys()
        delivered(world, shelf)
        assert world.states()["acknowledged"] == len(world.span_ids()) == len(shelf.spans)
        assert set(shelf.ids.values()) == {1}


def delivered(world: World, shelf: Shelf) -> None:
    """Deliver everything; a courier that is killed is followed by another one."""
    for _ in range(50):
        try:
            world.deliver(shelf)
        except asyncio.CancelledError:
            continue
        return
    pytest.fail("never ended")


@pytest.mark.parametrize("way", ["ignores repeats", "can be read back", "neither"])
@settings(max_examples=60)
@given(
    faults=st.lists(st.sampled_from(FAULTS), max_size=8), turns=st.integers(1, 4), portion=st.sampled_from([1, 3, 500])
)
def test_every_span_arrives_once_under_any_faults(way: str, faults: list[Fault], turns: int, portion: int) -> None:
    """Answers that are lost, requests that are lost, refusals, kills before and after: in the end every span is there
    exactly once; where the destination keeps repeats and cannot be asked, at most once, and each that is not known to
    be there is one that the ledger calls unknown."""
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory), target())
        for number in range(turns):
            world.turn("s", number, steps=2)
        world.record()
        world.seal(quiet_seconds=0)
        shelf = MortalShelf(
            ignores_repeats=way == "ignores repeats", can_read_back=way == "can be read back", max_spans=portion
        )
        shelf.faults = list(faults)
        delivered(world, shelf)
        states = world.states()
        everything = world.span_ids()
        assert states["queued"] == states["sending"] == states["refused"] == states["dropped"] == 0
        assert set(shelf.ids.values()) <= {1}
        acknowledged = {row[0] for row in world.rows("SELECT span_id FROM export_spans WHERE state = 'acknowledged'")}
        if way == "neither":
            assert acknowledged <= shelf.ids.keys()
            assert states["acknowledged"] + states["unknown"] == len(everything)
        else:
            assert acknowledged == shelf.ids.keys() == everything
        requests = len(shelf.requests)
        delivered(world, shelf)
        assert len(shelf.requests) == requests


class SilentShelf(Shelf):
    """A destination that can be asked, as far as is known, and does not answer questions while ``silent``."""

    silent = True

    async def present(self, spans: Sequence[ExportSpan]) -> Set[bytes] | None:
        return None if self.silent else await super().present(spans)


def test_spans_become_unknown_when_reading_back_keeps_failing(tmp_path: Path) -> None:
    """No span stays in ``sending`` for good: after the stated time it is unknown, others are sent meanwhile, and once
    the destination answers again it is settled by itself."""
    world = World(tmp_path, target())
    world.turn("s", 1)
    world.record()
    world.seal(quiet_seconds=0)
    shelf = SilentShelf(can_read_back=True)
    shelf.faults = [lost_answer]
    lost = world.span_ids()

    async def rounds(count: int) -> None:
        with world.courier(shelf) as courier:
            for _ in range(count):
                await courier.deliver()
                world.passed += 60.0

    asyncio.run(rounds(3))
    assert world.states()["sending"] == len(lost)
    world.turn("s", 2)
    world.record()
    world.seal(quiet_seconds=0)
    asyncio.run(rounds(3))
    assert world.states()["acknowledged"] == len(world.span_ids() - lost), "the others are not held up"
    asyncio.run(rounds(int(GIVE_UP_AFTER / 60) + 5))
    assert (world.states()["sending"], world.states()["unknown"]) == (0, len(lost))
    shelf.silent = False
    asyncio.run(rounds(10))
    assert world.states()["acknowledged"] == len(world.span_ids())
    assert set(shelf.ids.values()) == {1}


def test_a_refused_span_does_not_affect_others(tmp_path: Path) -> None:
    """A destination that refuses a request for one bad span gets all others; that one is refused, with the answer."""
    world = World(tmp_path, target())
    for number in range(5):
        world.turn("s", number)
    world.record()
    world.seal(quiet_seconds=0)
    bad = sorted(world.span_ids())[7]
    shelf = Shelf()

    def answer(_: Shelf, spans: Sequence[ExportSpan]) -> Delivery | None:
        found = any(span.span_id == bad for span in spans)
        return Delivery(verdict="refused", reason="400 malformed") if found else None

    shelf.always = answer
    world.deliver(shelf)
    assert world.states()["acknowledged"] == len(world.span_ids()) - 1 == len(shelf.spans)
    assert world.rows("SELECT span_id, answer FROM export_spans WHERE state = 'refused'") == [(bad, "400 malformed")]


def test_partial_success_is_not_sent_again(tmp_path: Path) -> None:
    """Spans that a destination names as refused are refused; where it gives only a count, the ledger notes it."""
    world = World(tmp_path, target("named"), target("counted"))
    world.turn("s", 1)
    world.record()
    world.seal(quiet_seconds=0)
    bad = sorted(world.span_ids())[0]
    named, counted = Shelf(), Shelf()
    named.faults = [lambda shelf, spans: Delivery(verdict="accepted", rejected={bad: "no such model"})]
    counted.faults = [lambda shelf, spans: Delivery(verdict="accepted", rejected_count=2, reason="two were bad")]
    world.deliver(named, "named")
    world.deliver(counted, "counted")
    assert len(named.requests) == len(counted.requests) == 1
    assert (world.states("named")["refused"], world.states("named")["acknowledged"]) == (1, 2)
    assert world.states("counted")["acknowledged"] == 3
    assert world.rows("SELECT rejected FROM export_destinations ORDER BY destination_id") == [(0,), (2,)]
    assert "2 of 3 spans refused: two were bad" in {
        row[0] for row in world.rows("SELECT answer FROM export_spans WHERE answer IS NOT NULL")
    }


def test_a_span_that_breaks_the_destination_is_set_aside(tmp_path: Path) -> None:
    """Where every request with one span in it breaks the server, that span ends as unknown and the others arrive;
    a server that is down for everybody sets nothing aside."""
    world = World(tmp_path, target())
    for number in range(3):
        world.turn("s", number)
    world.record()
    world.seal(quiet_seconds=0)
    (poison,) = world.rows("SELECT span_id FROM export_spans ORDER BY queue_no LIMIT 1 OFFSET 2")[0]
    shelf = Shelf(ignores_repeats=True)
    down = [True]

    def answer(_: Shelf, spans: Sequence[ExportSpan]) -> Delivery | None:
        broken = down[0] or any(span.span_id == poison for span in spans)
        return Delivery(verdict="unknown", reason="500", broke_down=True) if broken else None

    shelf.always = answer
    world.deliver(shelf, rounds=60)
    assert world.states()["queued"] == len(world.span_ids())
    down[0] = False
    world.deliver(shelf)
    assert world.rows("SELECT span_id FROM export_spans WHERE state = 'unknown'") == [(poison,)]
    assert shelf.ids.keys() == world.span_ids() - {poison}


def test_an_outage_of_hours_loses_nothing_and_asks_seldom(tmp_path: Path) -> None:
    """Ten hours of refused connections, with new turns all the time: all arrives afterwards, and meanwhile the
    destination was asked a few hundred times at most."""
    world = World(tmp_path, target())
    shelf = Shelf()
    shelf.always = lambda shelf, spans: Delivery(verdict="retry", reason="connection refused")

    async def main() -> None:
        number = 0
        with world.courier(shelf) as courier:
            began = world.passed
            while world.passed - began < 36_000:
                number += 1
                if number % 20 == 0:
                    world.turn("s", number)
                    world.record()
                    world.seal(quiet_seconds=0)
                await courier.deliver()
                world.passed += max(courier.waits, 1.0)

    world.turn("s", 0)
    world.record()
    world.seal(quiet_seconds=0)
    asyncio.run(main())
    assert 50 < len(shelf.requests) < 300
    shelf.always = lambda shelf, spans: None
    world.deliver(shelf)
    assert shelf.ids.keys() == world.span_ids()
    assert set(shelf.ids.values()) == {1}


def test_retry_after_is_respected(tmp_path: Path) -> None:
    """Nothing is sent before the moment that the destination named."""
    world = World(tmp_path, target())
    world.turn("s", 1)
    world.record()
    world.seal(quiet_seconds=0)
    shelf = Shelf()
    shelf.faults = [lambda shelf, spans: Delivery(verdict="retry", reason="429", retry_after=500.0)]

    async def main() -> None:
        with world.courier(shelf) as courier:
            await courier.deliver()
            world.passed += 498
            await courier.deliver()
            assert len(shelf.requests) == 1
            world.passed += 3
            await courier.deliver()
            assert len(shelf.requests) == 2

    asyncio.run(main())


def test_pause_retry_and_accept(tmp_path: Path) -> None:
    """A paused destination gets nothing; unknown spans are sent again, or count as delivered, as the user decides."""
    world = World(tmp_path, target())
    world.turn("s", 1)
    world.record()
    world.seal(quiet_seconds=0)
    shelf = Shelf()
    with world.opened_store() as store:
        store.exports.destinations.set_paused("there", True)
    world.deliver(shelf, rounds=3)
    assert shelf.requests == []
    with world.opened_store() as store:
        store.exports.destinations.set_paused("there", False)
    shelf.faults = [lost_request, lost_request]
    world.deliver(shelf)
    assert world.states()["unknown"] == 3
    with world.opened_store() as store:
        assert store.exports.ledger.retry(1, ["unknown"]) == 3
    world.deliver(shelf)
    assert world.states()["unknown"] == 3
    with world.opened_store() as store:
        assert store.exports.ledger.accept(1) == 3
    world.deliver(shelf)
    assert world.states()["acknowledged"] == 3
    assert len(shelf.requests) == 2


def test_acknowledged_is_final(tmp_path: Path) -> None:
    """Nothing that the ledger offers leads from acknowledged to the queue, and neither does sealing again."""
    world = World(tmp_path, target())
    world.turn("s", 1)
    world.record()
    world.seal(quiet_seconds=0)
    shelf = Shelf()
    world.deliver(shelf)
    with world.opened_store() as store:
        ledger = store.exports.ledger
        ledger.retry(1, ["acknowledged", "refused", "unknown"])
        ledger.mark([1, 2, 3], "queued")
        store.connection.execute("INSERT INTO export_touched SELECT DISTINCT session_id, trace_id, 0 FROM spans")
    world.seal(quiet_seconds=0)
    world.deliver(shelf)
    assert len(shelf.requests) == 1
