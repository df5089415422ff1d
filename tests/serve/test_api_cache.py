"""Cached results in the console: listed page by page, and invalidated by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .harness import Heard, Running, Stack, run_with
from .seeds import audit, change, finished, get, pages

Row = dict[str, Any]

#: The parameters of the list, and the columns that they are about.
COLUMNS = {"type": "cache_type", "site": "site_id", "target": "target_id", "status": "status"}
filters = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["app2_finance", "app3_clue", "app6_note_analysis", "nothing"]),
        "site": st.integers(0, 3),
        "target": st.sampled_from(["1", "2", "today", "nothing"]),
        "status": st.sampled_from(["valid", "expired", "invalidated", "generating"]),
    },
)
outdated = st.fixed_dictionaries(
    {},
    optional={
        "cache_type": st.sampled_from(["app3_clue", "app6_note_analysis", "app8_clue_consolidated"]),
        "site_id": st.integers(1, 2),
        "target_id": st.sampled_from(["1", "2"]),
    },
).filter(bool)


async def fill(stack: Stack) -> None:
    """Results of two stores and two members, some of them twice, so that the first ones are no longer valid."""
    await finished(stack, "dws_completed")
    for site in (1, 2):
        for member in (1, 2):
            await finished(stack, site_id=site, member_id=member)
    await finished(stack, "note_created", site_id=2, member_id=1)
    await finished(stack, member_id=1, is_forced=True)
    await stack.engine.cache.begin_generating("app3_clue", 1, "99")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, module_database_url: str) -> Iterator[Running]:
    home: Path = tmp_path_factory.mktemp("server")
    server = Running(home, module_database_url)
    server.run(fill(server.stack))
    yield server
    server.close()


def is_problem(heard: Heard, status: int) -> str:
    """What the problem says that the answer is."""
    assert heard.status == status, heard.body
    assert heard.headers["Content-Type"] == "application/problem+json"
    detail: str = heard.json()["detail"]
    return detail


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(query=filters, limit=st.integers(1, 9))
def test_the_pages_are_the_results_that_fit(server: Running, query: Row, limit: int) -> None:
    """Whatever the filters and the size of a page: all pages together are the results that fit, newest first."""

    async def body(stack: Stack) -> None:
        whole = await pages(stack, "/cache", {}, 500)
        fitting = [row for row in whole if all(row[COLUMNS[name]] == value for name, value in query.items())]
        assert await pages(stack, "/cache", query, limit) == fitting
        assert [row["id"] for row in whole] == sorted((row["id"] for row in whole), reverse=True)

    server.run(body(server.stack))


def test_only_the_detail_has_the_whole_result(server: Running) -> None:
    """Lists have every column but the result; the detail has what the application gave."""

    async def body(stack: Stack) -> None:
        rows = await stack.rows("SELECT id, result_json FROM biz.ai_cache ORDER BY id DESC")
        listed = await pages(stack, "/cache", {}, 500)
        details = [await get(stack, f"/cache/{number}") for number, _ in rows]
        assert [detail.pop("result") for detail in details] == [result for _, result in rows]
        assert details == listed
        assert any(result for _, result in rows)

    server.run(body(server.stack))


def test_the_types_are_the_catalog_s(server: Running) -> None:
    """What can be filtered by is every type that an application keeps results under, whether there are any or not."""
    kept = {app.cache.cache_type for app in server.stack.engine.catalog.apps.values() if app.cache}
    assert server.run(get(server.stack, "/cache", site=0))["types"] == sorted(kept)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(wanted=outdated)
def test_exactly_the_valid_results_that_match_are_invalidated(server: Running, wanted: Row) -> None:
    """Invalidating by type, store or target changes the valid results that have all of it, and no other."""

    async def body(stack: Stack) -> None:
        before = await pages(stack, "/cache", {}, 500)
        fits = [
            row["id"]
            for row in before
            if row["status"] == "valid" and all(row[name] == value for name, value in wanted.items())
        ]
        told = len(await audit(stack))
        assert (await change(stack, "/cache/invalidate", wanted)).json() == {"invalidated": len(fits)}
        after = await pages(stack, "/cache", {}, 500)
        assert after == [row | {"status": "invalidated"} if row["id"] in fits else row for row in before]
        ((action, target, outcome),) = (await audit(stack))[told:]
        assert (action, outcome) == ("cache.invalidate", "done")
        assert all(f"{name} {value}" in target for name, value in wanted.items())
        await stack.engine.database.execute("UPDATE biz.ai_cache SET status = 'valid' WHERE id = ANY(%s)", [fits])

    server.run(body(server.stack))


def test_one_result_is_invalidated_once(home: Path, database_url: str) -> None:
    """A result by its number: invalidated, then 409; an unknown one is 404; each attempt is in the audit log."""

    async def body(stack: Stack) -> None:
        await finished(stack, "note_created", member_id=1)
        number = (await get(stack, "/cache"))["items"][0]["id"]
        assert (await change(stack, f"/cache/{number}/invalidate")).json() == {"invalidated": 1}
        assert (await get(stack, f"/cache/{number}"))["status"] == "invalidated"
        over = is_problem(await change(stack, f"/cache/{number}/invalidate"), 409)
        absent = is_problem(await change(stack, "/cache/999/invalidate"), 404)
        assert await audit(stack) == [
            ("cache.invalidate", str(number), "done"),
            ("cache.invalidate", str(number), over),
            ("cache.invalidate", "999", absent),
        ]

    run_with(home, database_url, body)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"cache_type": None}, 400),
        (None, 400),
        ({"cache_type": ""}, 422),
        ({"site_id": "1"}, 422),
        ({"site_id": 2**63}, 422),
        ({"target_id": "a\x00"}, 422),
        ({"site_id": 1, "more": 2}, 422),
    ],
)
def test_everything_at_once_is_never_meant(server: Running, body: object, status: int) -> None:
    """An empty or impossible filter is refused, and no result is invalidated."""
    before = server.run(get(server.stack, "/cache"))
    is_problem(server.run(change(server.stack, "/cache/invalidate", body)), status)
    assert server.run(get(server.stack, "/cache")) == before
