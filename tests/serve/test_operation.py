"""Health, metrics, errors and the OpenAPI document: what those see who run the server."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agenttrace.run.simulator import faults

from .harness import CHAT, CHAT_APP, INTERNAL, SECRET, TOKEN, Heard, Stack, bearer, run_with

CONSOLE = "/api/v1/"
DOCS = Path(__file__).resolve().parents[2] / "docs"


def values(heard: Heard) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample by its name and labels."""
    assert heard.status == 200
    families = text_string_to_metric_families(heard.body.decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


async def trigger(stack: Stack, **body: object) -> Heard:
    return await stack.request("POST", "/api/internal/ai/trigger", json=body, headers=INTERNAL)


def test_metrics_agree_with_what_happened(home: Path, database_url: str) -> None:
    """Requests, turns, triggers, budget, breakers and jobs are the numbers of what was just done."""

    async def body(stack: Stack) -> None:
        done = (await stack.chat()).last.data
        await trigger(stack, event_type="consumption", site_id=1, member_id=2)
        await trigger(stack, event_type="consumption", site_id=1, member_id=2)
        await stack.request("GET", "/api/internal/ai/jobs/1")
        await stack.engine.breaker.hold_open(CHAT_APP)
        await stack.chat()
        found = values(await stack.request("GET", "/metrics"))
        chat: dict[str, str] = {"route": CHAT, "method": "POST", "status": "200"}
        job = {"route": "/api/internal/ai/jobs/{job_id}", "method": "GET", "status": "401"}
        expected = {
            key("agenttrace_http_requests_total", **chat): 2,
            key("agenttrace_http_requests_total", **job): 1,
            key("agenttrace_chat_turns_total", outcome="done"): 1,
            key("agenttrace_chat_turns_total", outcome="circuit_open"): 1,
            key("agenttrace_triggers_total", event_type="consumption", status="pending"): 1,
            key("agenttrace_triggers_total", event_type="consumption", status="skipped_duplicate"): 1,
            key("agenttrace_budget_tokens", period="daily", kind="used"): done["tokens_used"],
            key("agenttrace_budget_tokens", period="daily", kind="limit"): 100_000,
            key("agenttrace_budget_tokens", period="monthly", kind="reserved"): 0,
            key("agenttrace_breaker_state", app_id=CHAT_APP, state="open"): 1,
            key("agenttrace_breaker_state", app_id=CHAT_APP, state="closed"): 0,
            key("agenttrace_jobs", status="pending"): 1,
            key("agenttrace_streams_open"): 0,
            key("agenttrace_database_up"): 1,
        }
        assert {name: found.get(name) for name in expected} == expected

    run_with(home, database_url, body)


def test_open_streams_and_hang_ups_are_counted(home: Path, database_url: str) -> None:
    """A stream that is open is shown, and one whose listener left is counted as hung up."""

    async def body(stack: Stack) -> None:
        stack.sim.script(CHAT_APP, faults.hang(2))
        async with stack.chatting() as response:
            await response.content.readany()
            assert values(await stack.request("GET", "/metrics"))[key("agenttrace_streams_open")] == 1
        assert stack.engine.chat is not None
        await stack.engine.chat.drain(20)
        found = values(await stack.request("GET", "/metrics"))
        assert found[key("agenttrace_streams_open")] == 0
        assert found[key("agenttrace_chat_turns_total", outcome="hung_up")] == 1

    run_with(home, database_url, body)


def test_unknown_paths_make_no_labels(home: Path, database_url: str) -> None:
    """For any number of unknown paths the metrics have one label."""

    async def body(stack: Stack) -> None:
        for number in range(5):
            assert (await stack.request("GET", f"/nothing/{number}")).status == 404
        found = values(await stack.request("GET", "/metrics"))
        assert found[key("agenttrace_http_requests_total", route="other", method="GET", status="404")] == 5
        assert not any("nothing" in str(name) for name in found)

    run_with(home, database_url, body)


def test_readiness_is_about_database_and_tables(home: Path, database_url: str) -> None:
    """Ready with all revisions, even without DashScope; not ready with an older one or without a database."""

    async def body(stack: Stack) -> None:
        ready = await stack.request("GET", "/readyz")
        assert (ready.status, ready.json()["status"]) == (200, "ready")
        assert "DASHSCOPE_API_KEY" in ready.json()["missing"]
        await stack.engine.database.execute("UPDATE biz.agenttrace_revision SET version_num = '0001'")
        older = await stack.request("GET", "/readyz")
        assert (older.status, older.json()["database"], older.json()["migrated"]) == (503, True, False)
        await stack.engine.database.close()
        away = await stack.request("GET", "/readyz")
        assert (away.status, away.json()["database"]) == (503, False)
        assert (await stack.request("GET", "/healthz")).json() == {"status": "alive"}
        assert values(await stack.request("GET", "/metrics"))[key("agenttrace_database_up")] == 0

    run_with(home, database_url, body, configured=False)


def test_a_database_that_is_away_is_503(home: Path, database_url: str) -> None:
    """While the database is away requests fail with a problem that says so, and nothing of its address."""

    async def body(stack: Stack) -> None:
        await stack.engine.database.close()
        heard = await stack.request("GET", "/api/internal/ai/jobs", headers=INTERNAL)
        assert heard.status == 503
        assert heard.headers["Content-Type"] == "application/problem+json"
        assert "database" in heard.json()["detail"]

    run_with(home, database_url, body)


def test_an_unexpected_error_is_answered_without_its_text(
    home: Path, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault of ours is a 500 in the usual form; its text is for the log alone."""

    async def body(stack: Stack) -> None:
        await stack.engine.database.execute("DROP TABLE biz.ai_trigger_jobs CASCADE")
        heard = await stack.request("GET", "/api/internal/ai/jobs", headers=INTERNAL)
        assert heard.status == 500
        assert heard.headers["Content-Type"] == "application/problem+json"
        assert heard.json().keys() == {"title", "status", "detail"}
        assert "ai_trigger_jobs" not in heard.body.decode()

    run_with(home, database_url, body)
    assert any(record.name.startswith("agenttrace.serve") and record.exc_info for record in caplog.records)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", CHAT, 405),
        ("DELETE", "/api/internal/ai/jobs/1", 405),
        ("POST", "/healthz", 405),
    ],
)
def test_every_error_is_a_problem(home: Path, database_url: str, method: str, path: str, status: int) -> None:
    """Unknown paths and methods answer in the same form as all other errors."""

    async def body(stack: Stack) -> None:
        heard = await stack.request(method, path, headers=INTERNAL)
        assert heard.status == status
        assert heard.headers["Content-Type"] == "application/problem+json"
        assert heard.json()["status"] == status

    run_with(home, database_url, body)


def test_no_secret_reaches_a_log_or_an_answer(home: Path, database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever is asked, with good and bad credentials: neither logs nor answers hold a token, key or secret."""
    caplog.set_level(logging.DEBUG)
    answers: list[bytes] = []

    async def body(stack: Stack) -> None:
        good = bearer()
        stack.sim.script(CHAT_APP, faults.status(401), faults.status(400), faults.error_frame("InternalError", 500))
        for headers in (good, good, good, good, INTERNAL, {"Authorization": "Internal-Token wrong-token-of-somebody"}):
            for path in (CHAT, "/api/internal/ai/trigger", "/api/internal/ai/jobs?token=query-secret"):
                json = {"message": "你好"}
                answers.append((await stack.request("POST", path, json=json, headers=headers)).body)
        answers.append((await stack.request("GET", "/metrics")).body)

    run_with(home, database_url, body)
    told = "\n".join([record.getMessage() for record in caplog.records] + [repr(answer) for answer in answers])
    for secret in (SECRET, TOKEN, "sim-key", "wrong-token-of-somebody", "query-secret", bearer()["Authorization"][7:]):
        assert secret not in told


def test_the_document_describes_every_endpoint(home: Path, database_url: str) -> None:
    """Each endpoint has a summary, its answers, its errors as problems, and the key it needs; references resolve."""

    async def body(stack: Stack) -> None:
        document: dict[str, Any] = (await stack.request("GET", "/openapi.json")).json()
        named = {path for path in document["paths"] if not path.startswith(CONSOLE)}
        assert named == {
            "/api/internal/ai/trigger",
            "/api/internal/ai/jobs",
            "/api/internal/ai/jobs/{job_id}",
            "/api/internal/ai/jobs/{job_id}/cancel",
            "/api/internal/ai/jobs/{job_id}/rerun",
            "/api/internal/ai/cache",
            "/api/internal/ai/clues",
            CHAT,
            "/healthz",
            "/readyz",
            "/metrics",
            "/v1/traces",
            "/v1/logs",
            "/v1/metrics",
        }
        schemes = document["components"]["securitySchemes"]
        for path, methods in document["paths"].items():
            for operation in methods.values():
                assert operation["summary"]
                assert operation["responses"]["200"]["content"]
                if path.startswith(CONSOLE):
                    assert operation["tags"]
                elif path.startswith("/api"):
                    ((name, _),) = operation["security"][0].items()
                    assert name in schemes
                    assert "application/problem+json" in operation["responses"]["401"]["content"]
        guide = (DOCS / "query-api.md").read_text(encoding="utf-8")
        for path in document["paths"].keys() - named:
            # The guide shortens what it says twice: every part of a path that is a word is somewhere in it.
            words = [word for word in path.removeprefix(CONSOLE).split("/") if word.isidentifier()]
            assert all(word in guide for word in words), path
        for reference in references(document):
            assert reference.startswith("#/components/schemas/")
            assert reference.rpartition("/")[2] in document["components"]["schemas"]

    run_with(home, database_url, body)


def references(value: object) -> list[str]:
    """All ``$ref`` of a document."""
    if isinstance(value, list):
        return [found for item in value for found in references(item)]
    if not isinstance(value, dict):
        return []
    own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
    return own + [found for item in value.values() for found in references(item)]


def test_the_root_names_the_paths_for_programs(home: Path, database_url: str) -> None:
    """Without a browser's ``Accept`` the root is a short text; other addresses of the page are none."""

    async def body(stack: Stack) -> None:
        for method in ("GET", "HEAD"):
            heard = await stack.request(method, "/", headers={"Accept": "*/*"})
            assert heard.status == 200
            assert heard.headers["Content-Type"].startswith("text/plain")
        assert b"/openapi.json" in (await stack.request("GET", "/")).body
        page = await stack.request("GET", "/", headers={"Accept": "text/html"})
        assert page.headers["Content-Type"].startswith("text/html")
        assert (await stack.request("GET", "/nowhere")).status == 404

    run_with(home, database_url, body)


def test_health_knows_the_applications_of_the_server(home: Path, database_url: str) -> None:
    """What the server was started with counts, not what its environment says."""

    async def body(stack: Stack) -> None:
        checks = (await stack.request("GET", "/api/v1/doctor")).json()["checks"]
        (found,) = [check["found"] for check in checks if check["name"] == "applications"]
        assert found == f"11 can be called, at {stack.sim.base_url}"

    run_with(home, database_url, body)
