"""The internal endpoints: closed to strangers (property 11), clear about what they were sent, true to the jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agenttrace.client import AsyncTriggerClient
from serve.harness import INTERNAL, TOKEN, Heard, Running, Stack, run_with

API = "/api/internal/ai"
numbers = count(1)
ENDPOINTS = [
    ("POST", "/trigger"),
    ("GET", "/jobs"),
    ("GET", "/jobs/1"),
    ("POST", "/jobs/1/cancel"),
    ("POST", "/jobs/1/rerun"),
    ("GET", "/cache?cache_type=app3_clue&site_id=1"),
    ("GET", "/clues?site_id=1&member_id=1"),
]
header_texts = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60)
headers = st.one_of(
    st.none(),
    header_texts,
    header_texts.map(lambda text: f"Internal-Token {text}"),
    st.sampled_from(
        [
            "Internal-Token",
            "Internal-Token ",
            f"Bearer {TOKEN}",
            TOKEN,
            f"Internal-Token {TOKEN}x",
            f"Internal-Token {TOKEN[:-1]}",
            f"Internal-Token {TOKEN} {TOKEN}",
            f"Internal-Token {TOKEN.upper()}",
            f"Internal-Token: {TOKEN}",
            "Internal-Token é密",
        ]
    ),
).filter(lambda text: text is None or text.split() != ["Internal-Token", TOKEN])
bodies = st.one_of(
    st.binary(max_size=60),
    st.just(b'{"event_type": "consumption", "site_id": 1}'),
)


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, module_database_url: str) -> Iterator[Running]:
    home: Path = tmp_path_factory.mktemp("server")
    server = Running(home, module_database_url)
    yield server
    server.close()


def is_problem(heard: Heard, status: int) -> dict[str, Any]:
    """The problem that the answer is."""
    assert heard.status == status, heard.body
    assert heard.headers["Content-Type"] == "application/problem+json"
    told: dict[str, Any] = heard.json()
    assert told["status"] == status
    assert told["title"]
    assert told["detail"]
    return told


# Feature: P14-ai-dashscope-migration, Property 11: 内部 API 认证
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(authorization=headers, endpoint=st.sampled_from(ENDPOINTS), body=bodies)
def test_without_the_token_nothing_happens(
    server: Running, authorization: str | None, endpoint: tuple[str, str], body: bytes
) -> None:
    """A missing, malformed or wrong token is 401, whatever else the request holds, and leaves no job behind."""
    method, path = endpoint
    sent = {} if authorization is None else {"Authorization": authorization}
    before = server.run(server.stack.rows("SELECT count(*) FROM biz.ai_trigger_jobs"))
    heard = server.run(server.stack.request(method, API + path, headers=sent, data=body if method == "POST" else None))
    told = is_problem(heard, 401)
    assert TOKEN not in str(told)
    assert heard.headers["WWW-Authenticate"] == "Internal-Token"
    assert server.run(server.stack.rows("SELECT count(*) FROM biz.ai_trigger_jobs")) == before


# Feature: P14-ai-dashscope-migration, Property 11: 内部 API 认证
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    event_type=st.sampled_from(["consumption", "dws_completed", "note_created", "task_assigned"]),
    site_id=st.integers(1, 2**63 - 1),
    member_id=st.one_of(st.none(), st.integers(0, 2**63 - 1)),
    payload=st.one_of(st.none(), st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=3)),
    is_forced=st.booleans(),
)
def test_with_the_token_every_event_becomes_a_job(
    server: Running, event_type: str, site_id: int, member_id: int | None, payload: object, is_forced: bool
) -> None:
    """The right token and a sound body give a job that is pending, or a duplicate of one."""
    body = {"event_type": event_type, "site_id": site_id, "member_id": member_id, "payload": payload}
    heard = server.run(trigger(server.stack, **body, is_forced=is_forced))
    assert heard.status == 200, heard.body
    answer = heard.json()
    named = {"duplicate_of"} if answer["status"] == "skipped_duplicate" else set()
    assert answer.keys() == {"trigger_job_id", "status"} | named
    rows = server.run(
        server.stack.rows(
            "SELECT event_type, site_id, member_id, is_forced, status FROM biz.ai_trigger_jobs WHERE id = %s",
            answer["trigger_job_id"],
        )
    )
    assert rows == [(event_type, site_id, member_id, is_forced, answer["status"])]
    assert answer["status"] in (("pending",) if is_forced else ("pending", "skipped_duplicate"))


async def trigger(stack: Stack, **body: object) -> Heard:
    return await stack.request("POST", f"{API}/trigger", json=body, headers=INTERNAL)


def test_the_scheme_is_compared_without_case(server: Running) -> None:
    """``internal-token`` is the same scheme, as HTTP has it; the token itself is exact."""
    headers = {"Authorization": f"internal-token   {TOKEN} "}
    assert server.run(server.stack.request("GET", f"{API}/jobs", headers=headers)).status == 200


def test_two_authorization_headers_are_none(server: Running) -> None:
    """A request with two tokens is refused, even if one of them is right."""
    headers = [("Authorization", INTERNAL["Authorization"]), ("Authorization", "Internal-Token other")]
    is_problem(server.run(server.stack.request("GET", f"{API}/jobs", headers=headers)), 401)


@pytest.mark.parametrize(
    ("body", "status", "named"),
    [
        (b"", 400, "JSON"),
        (b"{", 400, "JSON"),
        (b"\xff\xfe", 400, "JSON"),
        (b'{"event_type": "consumption", "site_id": 1, "payload": {"a": NaN}}', 400, "JSON"),
        (b'{"event_type": "\\ud800", "site_id": 1}', 400, "JSON"),
        (b"[" * 5000 + b"]" * 5000, 422, "nested"),
        (b'{"event_type": "consumption", "site_id": 1, "payload": %b}' % nested(600), 422, "nested"),
        (b"[]", 422, "TriggerRequest"),
        (b'{"event_type": "consumption"}', 422, "site_id"),
        (b'{"site_id": 1}', 422, "event_type"),
        (b'{"event_type": "consumption", "site_id": "1"}', 422, "site_id"),
        (b'{"event_type": "consumption", "site_id": true}', 422, "site_id"),
        (b'{"event_type": "consumption", "site_id": 9223372036854775808}', 422, "site_id"),
        (b'{"event_type": "consumption", "site_id": 1, "member": 2}', 422, "member"),
        (b'{"event_type": "consumption", "site_id": 1, "payload": []}', 422, "payload"),
        (b'{"event_type": "consumption", "site_id": 1, "is_forced": "yes"}', 422, "is_forced"),
        (b'{"event_type": "consumption", "site_id": 1, "connector_type": "a\\u0000b"}', 422, "connector_type"),
        (b'{"event_type": "birthday", "site_id": 1}', 422, "consumption"),
    ],
)
def test_a_wrong_body_is_told_what_is_wrong(server: Running, body: bytes, status: int, named: str) -> None:
    """400 for what is no JSON, 422 for what is not a trigger, and the field by its name."""
    heard = server.run(server.stack.request("POST", f"{API}/trigger", data=body, headers=INTERNAL))
    assert named in is_problem(heard, status)["detail"]


@pytest.mark.parametrize("depth", [600, 3000])
def test_a_payload_that_is_nested_deep_spoils_no_list(server: Running, depth: int) -> None:
    """A row that an earlier version stored is shown, cut, wherever it is listed."""
    site = 100_000 + depth
    stored = (
        "INSERT INTO biz.ai_trigger_jobs (site_id, event_type, payload, event_date) "
        "VALUES (%s, 'consumption', %s::text::jsonb, now()::date) RETURNING id"
    )

    async def body() -> list[Heard]:
        ((number,),) = await server.stack.rows(stored, site, nested(depth).decode())
        paths = (f"{API}/jobs?site_id={site}", f"{API}/jobs/{number}", f"/api/v1/jobs/{number}", "/api/v1/jobs")
        return [await server.stack.request("GET", path, headers=INTERNAL) for path in paths]

    assert [heard.status for heard in server.run(body())] == [200, 200, 200, 200]


def test_the_same_event_of_a_day_runs_once_unless_forced(server: Running) -> None:
    """Of twenty equal triggers at once exactly one is pending; a forced one is pending as well."""
    event = {"event_type": "consumption", "site_id": 555, "member_id": next(numbers)}

    async def body() -> list[str]:
        heard = await asyncio.gather(*(trigger(server.stack, **event) for _ in range(20)))
        forced = await trigger(server.stack, **event, is_forced=True)
        return [answer.json()["status"] for answer in (*heard, forced)]

    *statuses, forced = server.run(body())
    assert sorted(statuses) == ["pending"] + 19 * ["skipped_duplicate"]
    assert forced == "pending"


def test_jobs_are_listed_filtered_and_paged(server: Running) -> None:
    """Each filter keeps exactly the jobs that fit, and pages of any size make up the whole list."""
    site = 7000

    async def body() -> None:
        for member in range(5):
            await trigger(server.stack, event_type="note_created", site_id=site, member_id=member)
        await trigger(server.stack, event_type="consumption", site_id=site, member_id=1)

        async def listed(**filters: str | int) -> dict[str, Any]:
            params: dict[str, str | int] = {"site_id": site, **filters}
            heard = await server.stack.request("GET", f"{API}/jobs", params=params, headers=INTERNAL)
            assert heard.status == 200, heard.body
            answer: dict[str, Any] = heard.json()
            return answer

        everything = (await listed())["jobs"]
        ids = [job["id"] for job in everything]
        assert len(ids) == 6
        assert ids == sorted(ids, reverse=True)
        assert [job["id"] for job in (await listed(event_type="consumption"))["jobs"]] == ids[:1]
        assert {job["event_type"] for job in (await listed(member_id=1))["jobs"]} == {"note_created", "consumption"}
        assert (await listed(status="completed"))["jobs"] == []
        assert len((await listed(status="pending"))["jobs"]) == 6
        created = everything[2]["created_at"]
        assert [job["id"] for job in (await listed(since=created))["jobs"]] == ids[:3]
        assert [job["id"] for job in (await listed(until=created))["jobs"]] == ids[3:]
        paged: list[int] = []
        before: dict[str, int] = {}
        while True:
            page = await listed(limit=4, **before)
            paged += [job["id"] for job in page["jobs"]]
            if page["next_before"] is None:
                break
            before = {"before": page["next_before"]}
        assert paged == ids

    server.run(body())


@pytest.mark.parametrize(
    "query",
    ["status=done", "limit=0", "limit=501", "site_id=x", "since=yesterday", "since=2026-01-01T00:00:00", "sort=id"],
)
def test_a_wrong_filter_is_told(server: Running, query: str) -> None:
    """A filter that means nothing is an error, not an empty or unfiltered list."""
    heard = server.run(server.stack.request("GET", f"{API}/jobs?{query}", headers=INTERNAL))
    assert query.partition("=")[0] in is_problem(heard, 422)["detail"]


def test_a_job_is_shown_cancelled_and_run_again(server: Running) -> None:
    """A waiting job can be cancelled once; run again it is a new, forced job that names the old one."""

    async def body() -> None:
        stack = server.stack
        member = next(numbers)
        job_id = (await trigger(stack, event_type="task_assigned", site_id=81, member_id=member)).json()[
            "trigger_job_id"
        ]
        shown = (await stack.request("GET", f"{API}/jobs/{job_id}", headers=INTERNAL)).json()
        assert (shown["id"], shown["status"], shown["app_chain"]) == (job_id, "pending", "app4→app5")
        assert shown["steps"] == []
        cancelled = await stack.request("POST", f"{API}/jobs/{job_id}/cancel", headers=INTERNAL)
        assert cancelled.json() == {"trigger_job_id": job_id, "status": "cancelled"}
        again = await stack.request("POST", f"{API}/jobs/{job_id}/cancel", headers=INTERNAL)
        assert "cancelled" in is_problem(again, 409)["detail"]
        rerun = (await stack.request("POST", f"{API}/jobs/{job_id}/rerun", headers=INTERNAL)).json()
        assert rerun["status"] == "pending"
        new = (await stack.request("GET", f"{API}/jobs/{rerun['trigger_job_id']}", headers=INTERNAL)).json()
        assert (new["rerun_of"], new["is_forced"], new["member_id"]) == (job_id, True, member)

    server.run(body())


def test_a_finished_job_shows_its_steps(server: Running) -> None:
    """After its chain has run, the job shows each step with prompt, response and tokens."""

    async def body() -> dict[str, Any]:
        stack = server.stack
        answer = (await trigger(stack, event_type="task_assigned", site_id=82, member_id=next(numbers))).json()
        await stack.engine.dispatcher.execute(answer["trigger_job_id"])
        path = f"{API}/jobs/{answer['trigger_job_id']}"
        shown: dict[str, Any] = (await stack.request("GET", path, headers=INTERNAL)).json()
        return shown

    job = server.run(body())
    assert job["status"] == "completed"
    assert [step["step"] for step in job["steps"]] == ["app4", "app5"]
    assert all(step["status"] == "success" and step["tokens_used"] > 0 and step["response"] for step in job["steps"])


@pytest.mark.parametrize("job_id", [2**62, 2**70, 0, -1])
@pytest.mark.parametrize(("method", "suffix"), [("GET", ""), ("POST", "/cancel"), ("POST", "/rerun")])
def test_a_job_that_is_not_there_is_404(server: Running, job_id: int, method: str, suffix: str) -> None:
    """Whatever number is asked for, a job that does not exist is a problem of its own."""
    is_problem(server.run(server.stack.request(method, f"{API}/jobs/{job_id}{suffix}", headers=INTERNAL)), 404)


def test_without_variables_the_endpoints_say_what_is_missing(home: Path, database_url: str) -> None:
    """Not configured is 503 with the names of all missing variables, with a token or without."""

    async def body(stack: Stack) -> None:
        for sent in ({}, INTERNAL):
            for method, path in ENDPOINTS:
                told = is_problem(await stack.request(method, API + path, headers=sent), 503)
                assert {"DASHSCOPE_API_KEY", "INTERNAL_API_TOKEN"} <= set(told["missing"])
                assert "DASHSCOPE_APP_ID_1_CHAT" in told["detail"]

    run_with(home, database_url, body, configured=False)


def test_changes_and_refusals_are_in_the_audit_log(home: Path, database_url: str) -> None:
    """Who triggered, cancelled and ran again what, how it ended, and wrong tokens, which never are in it themselves."""

    async def body(stack: Stack) -> None:
        event = {"event_type": "consumption", "site_id": 3, "member_id": 9, "payload": {"note": "private"}}
        job = (await stack.request("POST", f"{API}/trigger", json=event, headers=INTERNAL)).json()["trigger_job_id"]
        await stack.request("POST", f"{API}/trigger", json=event | {"event_type": "none"}, headers=INTERNAL)
        await stack.request("POST", f"{API}/jobs/{job}/cancel", headers=INTERNAL)
        await stack.request("POST", f"{API}/jobs/{job}/cancel", headers=INTERNAL)
        await stack.request("POST", f"{API}/jobs/{job}/rerun", headers=INTERNAL)
        await stack.request("GET", f"{API}/jobs", headers=INTERNAL)
        wrong = {"Authorization": "Internal-Token a-guess-of-somebody"}
        assert (await stack.request("POST", f"{API}/trigger", json=event, headers=wrong)).status == 401
        access = stack.app.state.access
        access.refusals.close()
        entries = list(reversed(access.audit.page(20)))
        assert [(entry.user, entry.action, entry.outcome) for entry in entries] == [
            ("api:internal", "event.trigger", "done"),
            ("api:internal", "event.trigger", entries[1].outcome),
            ("api:internal", "job.cancel", "done"),
            ("api:internal", "job.cancel", f"Job {job} is over: cancelled."),
            ("api:internal", "job.rerun", "done"),
            ("nobody", "token", "refused"),
        ]
        assert entries[0].target == f"consumption, site 3, member 9, job {job}"
        assert entries[1].outcome.startswith("event_type: ")
        assert {entry.address for entry in entries} == {"127.0.0.1"}
        assert "private" not in repr(entries)
        assert "a-guess-of-somebody" not in repr(entries)

    run_with(home, database_url, body)


def test_wrong_tokens_wait_and_the_right_one_does_not(home: Path, database_url: str) -> None:
    """Each further guess of an address is answered later, up to a limit; whoever knows the token is served at once."""

    async def body(stack: Stack) -> None:
        waited: list[float] = []

        async def sleep(seconds: float) -> None:
            waited.append(seconds)

        stack.app.state.access.refusals.sleep = sleep
        wrong = {"Authorization": "Internal-Token a-guess-of-somebody"}
        for _ in range(13):
            is_problem(await stack.request("GET", f"{API}/jobs", headers=wrong), 401)
        assert waited == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]
        assert (await stack.request("GET", f"{API}/jobs", headers=INTERNAL)).status == 200
        assert len(waited) == 8

    run_with(home, database_url, body)


async def read(stack: Stack, path: str) -> Heard:
    return await stack.request("GET", API + path, headers=INTERNAL)


def test_results_and_clues_can_be_read(server: Running) -> None:
    """A back end gets the valid result of a member, a page of a store's, and the member's clues, newest day first."""

    async def body(stack: Stack) -> None:
        site, member = 700 + next(numbers), 20317
        job_id = (await trigger(stack, event_type="consumption", site_id=site, member_id=member)).json()[
            "trigger_job_id"
        ]
        await stack.engine.dispatcher.execute(job_id)
        async with AsyncTriggerClient(stack.url, TOKEN) as client:
            result = await client.result("app7_customer_analysis", site, str(member))
            assert result is not None
            assert (result["target_id"], result["triggered_by"]) == (str(member), f"job_{job_id}")
            assert result["result"]["profile"]
            assert await client.result("app7_customer_analysis", site, "1") is None
            (clue,) = await client.clues(site, member)
            assert (clue["trigger_job_id"], len(clue["clues"])) == (job_id, 4)
            assert await client.clues(site, 1) == []
        await stack.engine.cache.invalidate(result["id"])
        query = f"/cache?cache_type=app7_customer_analysis&site_id={site}"
        assert (await read(stack, query)).json() == {"results": [], "next_before": None}
        page = (await read(stack, f"/cache?cache_type=app3_clue&site_id={site}&limit=1")).json()
        assert [row["target_id"] for row in page["results"]] == [str(member)]

    server.run(body(server.stack))


@pytest.mark.parametrize(
    "query", ["/cache", "/cache?cache_type=a", "/cache?cache_type=a&site_id=x", "/clues?site_id=1"]
)
def test_a_question_about_nobody_is_refused(server: Running, query: str) -> None:
    """What is needed and missing, or wrong, is 422."""
    is_problem(server.run(read(server.stack, query)), 422)
