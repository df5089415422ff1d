"""How long cached results are valid, which of them are read, and how many are kept, on a real PostgreSQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.run.catalog.catalog import AppCatalog
from agenttrace.run.results.cache import AICacheService, CacheRule, expires_at
from run.world import World, open_world

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
#: The document's table: days, or None for 23:59:59 of the same day.
KEPT = {
    "app2_finance": None,
    "app3_clue": 7,
    "app4_analysis": 7,
    "app5_tactics": 7,
    "app6_note_analysis": 30,
    "app7_customer_analysis": 7,
    "app8_clue_consolidated": 7,
}
SHANGHAI = ZoneInfo("Asia/Shanghai")
#: Among them places whose clocks change at midnight, so that 23:59:59 is twice or never.
ZONES = ("Asia/Shanghai", "UTC", "Europe/Berlin", "America/Asuncion", "Asia/Beirut", "Pacific/Apia", "America/Havana")

moments = st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1), timezones=st.sampled_from(ZONES).map(ZoneInfo))


@pytest.fixture(scope="module")
def world(module_database_url: str) -> Iterator[World]:
    with open_world(module_database_url) as world:
        yield world


@pytest.fixture(scope="module")
def cache(world: World) -> AICacheService:
    return AICacheService(world.database, clock=lambda: NOW)


@pytest.fixture(scope="module")
def rules() -> dict[str, CacheRule]:
    apps = AppCatalog.load(None).apps.values()
    return {app.cache.cache_type: app.cache for app in apps if app.cache is not None}


def test_the_catalog_keeps_the_documents_results(rules: dict[str, CacheRule]) -> None:
    """The default catalog caches exactly the results of the document's table."""
    assert rules.keys() == KEPT.keys()


# Feature: P14-ai-dashscope-migration, Property 14: 缓存过期策略正确性
@given(cache_type=st.sampled_from(sorted(KEPT)), written_at=moments)
def test_results_are_valid_as_long_as_the_document_says(
    cache: AICacheService, rules: dict[str, CacheRule], cache_type: str, written_at: datetime
) -> None:
    """App2's results end at 23:59:59 of the business day, App6's after 30 days, all others after 7."""
    end = cache.expiry(rules[cache_type], written_at)
    assert end is not None
    days = KEPT[cache_type]
    if days is None:
        local = written_at.astimezone(SHANGHAI)
        assert end == datetime(local.year, local.month, local.day, 23, 59, 59, tzinfo=SHANGHAI)
    else:
        assert end - written_at.astimezone(UTC) == timedelta(days=days)


@pytest.mark.parametrize("zone", ZONES)
def test_the_day_ends_on_the_same_day_everywhere(zone: str) -> None:
    """On every day in any time zone a result ends with the last second of the business day on which it was written."""
    place = ZoneInfo(zone)
    rule = CacheRule(cache_type="x", end_of_day=True)
    for half_days in range(2 * 365 * 16):
        written_at = datetime(2010, 1, 1, tzinfo=UTC) + timedelta(hours=12 * half_days)
        end = expires_at(rule, written_at, zone)
        assert end is not None
        day = written_at.astimezone(place).date()
        assert end.astimezone(place).date() == day
        assert (end + timedelta(seconds=1)).astimezone(place).date() > day


# -- what is read -------------------------------------------------------------------------------------------------

targets = st.sampled_from(("a", "b"))
ends = st.one_of(st.none(), st.integers(-3, 3).map(lambda seconds: NOW + timedelta(seconds=seconds)))
statuses = st.sampled_from(("valid", "expired", "invalidated", "generating", None))
datasets = st.lists(
    st.tuples(targets, statuses, ends),
    max_size=12,
    # What the two unique indexes allow.
    unique_by=(lambda row: (row[0], row[1]) if row[1] in ("valid", "generating") else object(),),
)


# Feature: P14-ai-dashscope-migration, Property 15: 缓存查询过滤
@given(rows=datasets)
def test_only_valid_results_are_read(
    world: World, cache: AICacheService, rows: list[tuple[str, str | None, datetime | None]]
) -> None:
    """A read finds the row that is valid and has not expired, and never another."""
    world.do("TRUNCATE biz.ai_cache")
    for number, (target, status, end) in enumerate(rows):
        world.do(
            "INSERT INTO biz.ai_cache (cache_type, site_id, target_id, result_json, status, expires_at)"
            " VALUES ('app3_clue', 1, %s, jsonb_build_object('n', %s::int), %s, %s)",
            target,
            number,
            status,
            end,
        )
    for target in ("a", "b"):
        readable = [
            number
            for number, (of, status, end) in enumerate(rows)
            if of == target and status == "valid" and (end is None or end > NOW)
        ]
        found = world.run(cache.get("app3_clue", 1, target))
        assert ([] if found is None else [found["result_json"]["n"]]) == readable
        assert world.run(cache.get("app3_clue", 2, target)) is None
        assert world.run(cache.get("app4_analysis", 1, target)) is None


# -- how many are kept --------------------------------------------------------------------------------------------

ADD = """
INSERT INTO biz.ai_cache (cache_type, site_id, target_id, result_json, status, created_at)
SELECT %s, 1, gen_random_uuid()::text, '{}', %s, %s + n * interval '1 second' FROM generate_series(1, %s) AS n
RETURNING id
"""
KEPT_FIRST = """
SELECT id FROM biz.ai_cache WHERE cache_type = %s
ORDER BY CASE WHEN status IN ('valid', 'generating') THEN 0 ELSE 1 END, created_at DESC, id DESC LIMIT %s
"""


# Feature: P14-ai-dashscope-migration, Property 16: 缓存保留上限
@given(
    writes=st.lists(
        st.tuples(
            st.sampled_from(("app2_finance", "app3_clue", "app8_clue_consolidated")),
            st.sampled_from(("valid", "expired", "invalidated", "generating")),
            st.integers(0, 20).map(lambda minutes: NOW - timedelta(minutes=minutes)),
            st.integers(1, 9),
        ),
        max_size=12,
    ),
    limit=st.integers(0, 20),
)
def test_each_type_is_trimmed_to_its_limit(
    world: World, cache: AICacheService, writes: list[tuple[Any, ...]], limit: int
) -> None:
    """Trimming leaves each type its limit, history going before what is in use and older before newer."""
    world.do("TRUNCATE biz.ai_cache")
    written: Counter[str] = Counter()
    for write in writes:
        written[write[0]] += len(world.all(ADD, *write))
    wanted = {name: world.all(KEPT_FIRST, name, limit) for name in written}
    deleted = world.run(cache.trim(limit))
    assert deleted == sum(max(0, count - limit) for count in written.values())
    for name in written:
        left = world.all("SELECT id FROM biz.ai_cache WHERE cache_type = %s", name)
        assert sorted(left) == sorted(wanted[name])
    assert world.run(cache.trim(limit)) == 0


def test_20000_results_of_an_application_are_kept_and_all_conversations(world: World, cache: AICacheService) -> None:
    """By default 20,000 rows of each type stay, and App1's conversations have no limit."""
    world.do("TRUNCATE biz.ai_cache")
    world.do("INSERT INTO biz.ai_conversations (user_id, site_id) SELECT 'u', 1 FROM generate_series(1, 20001)")
    for cache_type, count in (("app2_finance", 20_001), ("app3_clue", 20_000), ("app6_note_analysis", 25_000)):
        world.all(ADD, cache_type, "expired", NOW, count)
    world.all(ADD, "app6_note_analysis", "valid", NOW - timedelta(days=1), 1)
    assert world.run(cache.trim()) == 1 + 5_001
    assert dict(world.all("SELECT cache_type, count(*) FROM biz.ai_cache GROUP BY 1")) == dict.fromkeys(
        ("app2_finance", "app3_clue", "app6_note_analysis"), 20_000
    )
    assert world.one("SELECT count(*) FROM biz.ai_cache WHERE status = 'valid'") == 1, "the oldest row, but in use"
    assert world.one("SELECT count(*) FROM biz.ai_conversations") == 20_001
