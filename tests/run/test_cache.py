"""The cache of results: one valid row a target, leases that are taken once, history that is trimmed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agenttrace.run.results.cache import AICacheService, CacheRule
from run.world import World, open_world, written

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
TARGET = ("app3_clue", 1, "member:7")
STATES = "SELECT status FROM biz.ai_cache WHERE (cache_type, site_id, target_id) = (%s, %s, %s) ORDER BY id"


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def move(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    with open_world(database_url) as world:
        yield world


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(world: World, clock: Clock) -> AICacheService:
    return AICacheService(world.database, clock=clock)


async def store(
    cache: AICacheService,
    result: dict[str, Any],
    *,
    target: tuple[str, int, str] = TARGET,
    end: datetime | None = None,
    generating: int | None = None,
) -> int:
    async with cache.database.transaction() as connection:
        return await written(connection, cache.storing(*target, result, end, "job_1", generating))


def states(world: World, target: tuple[str, int, str] = TARGET) -> list[str]:
    return [status for (status,) in world.all(STATES, *target)]


# -- storing ------------------------------------------------------------------------------------------------------


def test_a_new_result_takes_the_place_of_the_old(world: World, cache: AICacheService) -> None:
    """The newest result is the valid one; those before it are history, and other targets are not changed."""
    other = ("app3_clue", 1, "member:8")
    world.run(store(cache, {"n": 0}, target=other))
    ids = [world.run(store(cache, {"n": n})) for n in range(3)]
    assert states(world) == ["expired", "expired", "valid"]
    found = world.run(cache.get(*TARGET))
    assert found is not None
    assert (found["id"], found["result_json"], found["triggered_by"]) == (ids[-1], {"n": 2}, "job_1")
    assert states(world, other) == ["valid"]


def test_many_writers_at_once_leave_one_valid_result(world: World, cache: AICacheService) -> None:
    """Forty writers of one target, some with work they had taken, all succeed, and one result is valid."""

    async def write(number: int) -> None:
        generating = await cache.begin_generating(*TARGET) if number % 4 == 0 else None
        await store(cache, {"n": number}, generating=generating)

    async def race() -> None:
        await asyncio.gather(*(write(number) for number in range(40)))

    world.run(race())
    assert sorted(states(world)) == ["expired"] * 39 + ["valid"]


def test_a_result_is_stored_with_its_transaction_or_not_at_all(world: World, cache: AICacheService) -> None:
    """When the transaction fails, the earlier result is still the valid one."""
    world.run(store(cache, {"n": 1}))

    async def fail() -> None:
        async with cache.database.transaction() as connection:
            await written(connection, cache.storing(*TARGET, {"n": 2}, None, "job_2"))
            await connection.execute("SELECT 1 / 0")

    with pytest.raises(Exception, match="division by zero"):
        world.run(fail())
    found = world.run(cache.get(*TARGET))
    assert found is not None
    assert found["result_json"] == {"n": 1}
    assert states(world) == ["valid"]


def test_odd_characters_do_not_lose_a_result(world: World, cache: AICacheService) -> None:
    """What jsonb refuses is replaced, and everything else arrives as it was."""
    world.run(store(cache, {"a\x00": "b\ud800", "escaped": "\\u0000", "deep": [{"线索": "😀"}], "nan": float("inf")}))
    found = world.run(cache.get(*TARGET))
    assert found is not None
    expected = {"a\ufffd": "b\ufffd", "escaped": "\\u0000", "deep": [{"线索": "😀"}], "nan": None}
    assert found["result_json"] == expected


def test_a_result_expires_at_its_time(world: World, cache: AICacheService, clock: Clock) -> None:
    """A result is read until its time and not from then on, whether it was marked as expired or not."""
    end = cache.expiry(CacheRule(cache_type="app3_clue", days=7))
    assert end == START + timedelta(days=7)
    world.run(store(cache, {"n": 1}, end=end))
    clock.move(7 * 86400 - 1)
    assert world.run(cache.get(*TARGET)) is not None
    assert world.run(cache.expire_due()) == 0
    clock.move(1)
    assert world.run(cache.get(*TARGET)) is None
    assert world.run(cache.expire_due()) == 1
    assert states(world) == ["expired"]


def test_without_a_clock_the_databases_own_counts(world: World) -> None:
    """By default results expire, and leases are taken, by the clock that all machines share."""
    cache = AICacheService(world.database)
    now = world.one("SELECT now()")
    world.run(store(cache, {"n": 1}, end=now))
    assert world.run(cache.get(*TARGET)) is None
    world.run(store(cache, {"n": 2}, end=now + timedelta(hours=1)))
    assert world.run(cache.get(*TARGET)) is not None
    assert world.run(cache.begin_generating(*TARGET, lease=0)) is not None
    assert world.run(cache.begin_generating(*TARGET, lease=600)) is not None, "a lease of no length is over at once"
    assert world.run(cache.begin_generating(*TARGET)) is None
    assert world.run(cache.expire_due()) == 0
    assert world.one("SELECT bool_and(created_at BETWEEN %s AND now()) FROM biz.ai_cache", now) is True
    rule = CacheRule(cache_type="x", days=1)
    end = cache.expiry(rule)
    assert end is not None
    assert abs(end - now - timedelta(days=1)) < timedelta(hours=1)
    assert cache.expiry(CacheRule(cache_type="x")) is None


# -- generating ---------------------------------------------------------------------------------------------------


def test_work_on_a_target_is_taken_once(world: World, cache: AICacheService) -> None:
    """Of many that want to generate the same result one gets the work; on another target there is other work."""

    async def race() -> list[int | None]:
        return await asyncio.gather(*(cache.begin_generating(*TARGET, f"job_{n}") for n in range(30)))

    assert sum(taken is not None for taken in world.run(race())) == 1
    assert world.run(cache.get(*TARGET)) is None, "nothing that is being made is read"
    assert world.run(cache.begin_generating("app3_clue", 2, "member:7")) is not None


def test_the_old_result_is_read_while_the_new_one_is_made(world: World, cache: AICacheService) -> None:
    """The valid result stays until the new one is stored, which uses the work's row up."""
    world.run(store(cache, {"n": 1}))
    taken = world.run(cache.begin_generating(*TARGET))
    found = world.run(cache.get(*TARGET))
    assert found is not None
    assert found["result_json"] == {"n": 1}
    assert world.run(store(cache, {"n": 2}, generating=taken)) == taken
    assert states(world) == ["expired", "valid"]
    assert world.run(cache.begin_generating(*TARGET)) is not None


def test_work_given_back_can_be_taken_again(world: World, cache: AICacheService) -> None:
    """Abandoning frees the target and leaves no trace; a stored result cannot be abandoned."""
    taken = world.run(cache.begin_generating(*TARGET))
    assert taken is not None
    world.run(cache.abandon(taken))
    assert states(world) == []
    again = world.run(cache.begin_generating(*TARGET))
    assert again is not None
    world.run(store(cache, {"n": 1}, generating=again))
    world.run(cache.abandon(again))
    assert states(world) == ["valid"]


def test_the_lease_of_a_dead_worker_expires(world: World, cache: AICacheService, clock: Clock) -> None:
    """When the lease is over the work can be taken anew; who comes back late still stores, but not in its place."""
    dead = world.run(cache.begin_generating(*TARGET, lease=600))
    clock.move(599)
    assert world.run(cache.begin_generating(*TARGET)) is None
    assert world.run(cache.expire_due()) == 0
    clock.move(1)
    heir = world.run(cache.begin_generating(*TARGET))
    assert heir not in (None, dead)
    late = world.run(store(cache, {"from": "the dead"}, generating=dead))
    assert late not in (dead, heir)
    assert states(world) == ["expired", "generating", "valid"]
    world.run(store(cache, {"from": "the heir"}, generating=heir))
    assert states(world) == ["expired", "valid", "expired"]


def test_a_work_row_of_another_target_is_not_used_up(world: World, cache: AICacheService) -> None:
    """A result goes to its own target even when it names work on another one."""
    taken = world.run(cache.begin_generating("app3_clue", 1, "member:8"))
    assert world.run(store(cache, {"n": 1}, generating=taken)) != taken
    assert states(world, ("app3_clue", 1, "member:8")) == ["generating"]
    assert states(world) == ["valid"]


def test_stale_work_is_swept_away(world: World, cache: AICacheService, clock: Clock) -> None:
    """Rows that a crash left generating are expired when their lease is over."""
    world.run(cache.begin_generating(*TARGET, lease=10))
    clock.move(10)
    assert world.run(cache.expire_due()) == 1
    assert states(world) == ["expired"]


# -- by hand, and lists -------------------------------------------------------------------------------------------


@pytest.fixture
def crowd(world: World, cache: AICacheService) -> list[int]:
    targets = [
        (kind, site, f"member:{n}") for kind in ("app3_clue", "app4_analysis") for site in (1, 2) for n in (7, 8)
    ]
    return [world.run(store(cache, {"n": n}, target=target)) for n, target in enumerate(targets)]


@pytest.mark.parametrize(
    ("which", "count"),
    [
        ({"cache_type": "app3_clue"}, 4),
        ({"site_id": 2}, 4),
        ({"target_id": "member:7"}, 4),
        ({"cache_type": "app3_clue", "site_id": 1, "target_id": "member:7"}, 1),
        ({"cache_type": "app9"}, 0),
    ],
)
@pytest.mark.usefixtures("crowd")
def test_results_are_invalidated_by_what_they_are_about(
    world: World, cache: AICacheService, which: dict[str, Any], count: int
) -> None:
    """Exactly the valid results that match are taken out of use, once."""
    assert world.run(cache.invalidate(**which)) == count
    gone = world.run(cache.list(**which))
    assert {row["status"] for row in gone} <= {"invalidated"}
    assert len(world.run(cache.list(status="invalidated"))) == len(gone) == count
    assert world.run(cache.invalidate(**which)) == 0


def test_one_result_is_invalidated_by_its_id(world: World, cache: AICacheService, crowd: list[int]) -> None:
    """An id takes one result out of use; without any word on which ones, nothing is touched."""
    assert world.run(cache.invalidate(crowd[0])) == 1
    assert world.run(cache.get("app3_clue", 1, "member:7")) is None
    with pytest.raises(ValueError, match="say which"):
        world.run(cache.invalidate())
    assert world.one("SELECT count(*) FROM biz.ai_cache WHERE status = 'valid'") == len(crowd) - 1


def test_what_is_being_made_is_not_invalidated(world: World, cache: AICacheService) -> None:
    """Work on a target goes on when its old result is taken out of use."""
    world.run(store(cache, {"n": 1}))
    world.run(cache.begin_generating(*TARGET))
    assert world.run(cache.invalidate(cache_type="app3_clue")) == 1
    assert states(world) == ["invalidated", "generating"]


def test_lists_come_in_pages_newest_first(world: World, cache: AICacheService, crowd: list[int]) -> None:
    """Page after page gives each row once, without the results unless they are asked for."""
    pages: list[int] = []
    while page := world.run(cache.list(limit=3, before_id=pages[-1] if pages else None)):
        pages += [row["id"] for row in page]
        assert all("result_json" not in row for row in page)
    assert pages == crowd[::-1]
    assert [row["result_json"] for row in world.run(cache.list(site_id=1, bodies=True))] == [
        {"n": n} for n in (5, 4, 1, 0)
    ]
    assert [row["id"] for row in world.run(cache.list(cache_type="app4_analysis", target_id="member:8"))] == [
        crowd[7],
        crowd[5],
    ]


def test_tidying_passes_locked_rows_by(world: World, cache: AICacheService, clock: Clock) -> None:
    """Expiring and trimming do not wait for a row that is being written, and get it the next time."""
    ids = [world.run(store(cache, {"n": n}, target=("app3_clue", 1, str(n)), end=START)) for n in range(3)]

    async def scene() -> tuple[int, int]:
        async with world.database.transaction() as connection:
            await connection.execute("SELECT FROM biz.ai_cache WHERE id = %s FOR UPDATE", [ids[0]])
            return await cache.expire_due(), await cache.trim(0)

    assert world.run(scene()) == (2, 2)
    assert world.run(cache.expire_due()) == 1
    assert world.run(cache.trim(0)) == 1
