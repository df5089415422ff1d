"""Applications at an OpenAI-compatible endpoint, end to end: HTTP, PostgreSQL, guards, run log and trace."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agenttrace.run.catalog.catalog import AppCatalog
from agenttrace.run.jobs.jobs import TriggerEvent
from agenttrace.run.simulator import Simulator, faults
from agenttrace.run.simulator.openai_endpoint import SNAPSHOT
from serve.harness import CHAT, CHAT_APP, INTERNAL, TOKEN, Heard, Stack, bearer, run_with
from serve.seeds import get

KEY = {"MY_KEY": "sk-0123456789abcdef", "INTERNAL_API_TOKEN": TOKEN}
MODEL = "my-model"
SCHEMA = {"type": "object", "properties": {"mood": {"enum": ["good", "bad"]}, "summary": {"type": "string"}}}


def tables(simulator: Simulator) -> dict[str, Any]:
    """A catalog of one's own: a chat and an application that judges reviews."""
    there = {"provider": "openai", "base_url": simulator.openai_url, "model": MODEL, "api_key_env": "MY_KEY"}
    review = {
        "type": "review",
        "system": "You judge reviews of shop ${site_id}.",
        "prompt": "Judge the review in payload.",
        "schema": SCHEMA,
        "cache": {"type": "review", "keep": 7, "target": "member"},
    }
    talk = {"type": "talk", "stream": True, "rate": "user", "system": "You help ${user_id}."}
    return {
        "catalog": {"base": "none", "connector": "shop"},
        "apps": {"talk": {**there, **talk}, "review": {**there, **review}},
        "events": {"review_written": {"lanes": ["review"]}},
    }


GUIDE = Path(__file__).parents[2] / "docs" / "running-apps.md"
BLOCKS = [tomllib.loads(text) for text in re.findall(r"^```toml\n(.*?)^```", GUIDE.read_text("utf-8"), re.M | re.S)]


def test_every_catalog_of_the_guide_can_be_read() -> None:
    """What the guide shows is understood, alone or beside the catalog that ships."""
    assert len(BLOCKS) >= 5
    known = {"assistant": BLOCKS[0]["apps"]["assistant"]}
    for block in BLOCKS:
        catalog = AppCatalog.load({}, {**block, "apps": {**known, **block.get("apps", {})}})
        assert set(block.get("apps", {})) <= set(catalog.apps)


def test_the_catalog_of_the_guide_runs(home: Path, database_url: str) -> None:
    """The first catalog of the guide is a whole one: with its one variable users chat."""
    own = BLOCKS[0]
    app = own["apps"]["assistant"]

    def at_simulator(simulator: Simulator) -> Mapping[str, Any]:
        return {**own, "apps": {"assistant": {**app, "base_url": simulator.openai_url}}}

    async def body(stack: Stack) -> None:
        assert stack.engine.missing == ("INTERNAL_API_TOKEN",)
        heard = await said(stack)
        assert (heard.last.kind, heard.text) == ("done", stack.sim.calls[-1].text)
        assert stack.sim.calls[-1].app_id == app["model"]
        assert stack.sim.calls[-1].body["messages"][0]["content"].startswith("You answer the customers of store 1")

    run_with(home, database_url, body, environ={app["api_key_env"]: "sk-x"}, tables=at_simulator)


def lines_of(home: Path) -> list[dict[str, Any]]:
    """What the trace log says."""
    paths = (home / "logs").glob("runs-*.jsonl")
    return [json.loads(line) for path in paths for line in path.read_text("utf-8").splitlines()]


async def calls(stack: Stack) -> list[tuple[Any, ...]]:
    return await stack.rows("SELECT app_type, status, model, tokens_used FROM biz.ai_run_logs ORDER BY id")


async def said(stack: Stack, language: str = "en", message: str = "Hello", **body: Any) -> Heard:  # noqa: ANN401
    headers = bearer() | {"Accept-Language": language}
    return await stack.request("POST", CHAT, json={"message": message} | body, headers=headers)


def test_a_catalog_of_ones_own_needs_its_own_variables_only(home: Path, database_url: str) -> None:
    """With the one key and the token nothing is missing, and there is nothing of the eight applications."""

    async def body(stack: Stack) -> None:
        assert stack.engine.missing == ()
        assert set(stack.engine.catalog.apps) == {"talk", "review"}
        ready = (await stack.request("GET", "/readyz")).json()
        assert ready["missing"] == []

    run_with(home, database_url, body, environ=KEY, tables=tables)


def test_a_conversation(home: Path, database_url: str) -> None:
    """The history is sent as messages, the run log and the trace have the model that answered, and cached tokens."""

    async def body(stack: Stack) -> None:
        stack.sim.answer(MODEL, "你好 world")
        first = await said(stack, message="one", entry="task", target_id="7")
        second = await said(stack, message="two", entry="task", target_id="7")
        assert (first.text, second.last.kind) == ("你好 world", "done")
        assert [call.body["messages"] for call in stack.sim.calls] == [
            [_system(), _user("one")],
            [_system(), _user("one"), {"role": "assistant", "content": "你好 world"}, _user("two")],
        ]
        rows = await calls(stack)
        assert [row[:3] for row in rows] == [("talk", "success", MODEL + SNAPSHOT)] * 2
        assert [row[3] for row in rows] == [first.last.data["tokens_used"], second.last.data["tokens_used"]]
        sessions = await stack.rows("SELECT cloud_session_id FROM biz.ai_conversations")
        assert sessions == [(None,)]

    run_with(home, database_url, body, environ=KEY, tables=tables)
    ends = [line for line in lines_of(home) if line["type"] == "step.end"]
    assert [line["model"] for line in ends] == [MODEL + SNAPSHOT] * 2
    assert "cache_read_tokens" not in ends[0]["usage"]
    assert ends[1]["usage"]["cache_read_tokens"] > ends[1]["usage"]["input_tokens"] > 0


def _system() -> dict[str, str]:
    return {"role": "system", "content": "You help u1."}


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def test_an_application_with_its_own_rate_limit(home: Path, database_url: str) -> None:
    """It holds for all users and for the steps of jobs together, and is shown where limits and breakers are shown."""

    def limited(simulator: Simulator) -> dict[str, Any]:
        found = tables(simulator)
        own = {"title": {"en": "Talk", "zh": "聊天"}, "rate_limit": {"calls": 2, "seconds": 3600}}
        found["apps"]["talk"] |= own
        return found

    async def body(stack: Stack) -> None:
        said_by = [
            await stack.request("POST", CHAT, json={"message": "Hello"}, headers=bearer(f"u{n}")) for n in range(3)
        ]
        assert [heard.status for heard in said_by] == [200, 200, 429]
        assert 3590 < int(said_by[2].headers["Retry-After"]) <= 3600
        [(message,)] = await stack.rows("SELECT error_message FROM biz.ai_run_logs WHERE status = 'rate_limited'")
        assert message.startswith("2 calls in 3600 s are all that talk may get")
        guards = await get(stack, "/guards")
        windows = {(row["scope"], row["key"]): (row["calls"], row["limit"]) for row in guards["limits"]}
        assert windows == {("app", "talk"): (2, 2), ("user", "u0"): (1, 10), ("user", "u1"): (1, 10)}
        shown = {row["app"]: (row["provider"], row["model"], row["titles"]) for row in guards["breakers"]}
        assert shown["talk"] == ("openai", MODEL, {"en": "Talk", "zh": "聊天"})
        [talk, _] = (await get(stack, "/catalog"))["apps"]
        assert (talk["model"], talk["title"], talk["app_limit"], talk["app_limit_seconds"]) == (MODEL, "Talk", 2, 3600)

    run_with(home, database_url, body, environ=KEY, tables=limited)


def test_a_conversation_that_began_at_dashscope_goes_on(home: Path, database_url: str) -> None:
    """The session of another provider is not used: what was said there is sent along."""

    async def at_dashscope(stack: Stack) -> None:
        stack.sim.answer(CHAT_APP, "here")
        await said(stack, message="one", entry="task", target_id="7")
        assert (await stack.rows("SELECT cloud_session_id FROM biz.ai_conversations"))[0][0]

    async def elsewhere(stack: Stack) -> None:
        await said(stack, message="two", entry="task", target_id="7")
        sent = stack.sim.calls[-1].body["messages"]
        assert [turn["content"] for turn in sent[1:]] == ["one", "here", "two"]

    run_with(home, database_url, at_dashscope)
    run_with(home, database_url, elsewhere, environ=KEY, tables=tables)


def test_an_event(home: Path, database_url: str) -> None:
    """A trigger runs the chain: the schema is asked for, the result is kept, the connector is the catalog's."""

    async def body(stack: Stack) -> None:
        event = {"event_type": "review_written", "site_id": 3, "member_id": 5, "payload": {"text": "nice"}}
        accepted = (await stack.request("POST", "/api/internal/ai/trigger", json=event, headers=INTERNAL)).json()
        assert await stack.engine.dispatcher.execute(accepted["trigger_job_id"]) == "completed"
        sent = stack.sim.calls[-1].body
        assert sent["response_format"]["json_schema"]["schema"] == SCHEMA
        assert sent["messages"][0]["content"] == "You judge reviews of shop 3."
        assert sent["messages"][1]["content"].startswith("Judge the review in payload.")
        kept = await stack.engine.cache.get("review", 3, "5")
        assert kept is not None
        assert kept["result_json"]["mood"] == "good"
        job = await stack.engine.dispatcher.jobs.view(accepted["trigger_job_id"])
        assert job is not None
        assert job.job.connector_type == "shop"
        assert [row[:3] for row in await calls(stack)] == [("review", "success", MODEL + SNAPSHOT)]

    run_with(home, database_url, body, environ=KEY, tables=tables)


@pytest.mark.parametrize(
    ("language", "text"), [("en-GB,en;q=0.9,zh;q=0.1", "The AI budget is used up."), ("zh-CN", "AI 额度已用完")]
)
def test_the_budget_refuses(home: Path, database_url: str, language: str, text: str) -> None:
    """What does not fit the budget is never sent; the user reads why in their own language."""

    async def body(stack: Stack) -> None:
        heard = await said(stack, language)
        assert (heard.last.kind, heard.last.data) == ("error", {"code": "budget_exceeded", "message": text})
        assert stack.sim.calls == []
        assert [row[:2] for row in await calls(stack)] == [("talk", "budget_exceeded")]

    run_with(home, database_url, body, environ=KEY, tables=tables, run={"daily_tokens": 10})


def test_the_breaker_opens(home: Path, database_url: str) -> None:
    """A failing endpoint opens the breaker of its application alone, under the application's own name."""

    async def body(stack: Stack) -> None:
        stack.sim.always(MODEL, faults.status(503))
        assert (await said(stack)).last.data["code"] == "upstream"
        asked = len(stack.sim.calls)
        assert (await said(stack)).last.data["code"] == "circuit_open"
        assert len(stack.sim.calls) == asked
        states = {view.app_id: view.state.value for view in await stack.engine.breaker.states()}
        assert states == {"openai/talk": "open"}
        stack.sim.always(MODEL, None)
        accepted = await stack.engine.dispatcher.handle_trigger(TriggerEvent(event_type="review_written", site_id=1))
        assert await stack.engine.dispatcher.execute(accepted.job_id) == "completed"

    run_with(home, database_url, body, environ=KEY, tables=tables, run={"failure_threshold": 1})


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (faults.status(401), "auth"),
        (faults.status(403), "auth"),
        (faults.status(404), "upstream"),
        (faults.status(429, retry_after=3), "upstream"),
        (faults.status("context_length_exceeded", 400), "upstream"),
        (faults.error_frame("content_filter", 400, after_chunks=2), "upstream"),
    ],
)
def test_errors_reach_the_user_and_the_run_log(home: Path, database_url: str, fault: Any, code: str) -> None:  # noqa: ANN401
    """One error event, never in the provider's words; the run log has them; none of these opens the breaker."""

    async def body(stack: Stack) -> None:
        stack.sim.always(MODEL, fault)
        heard = await said(stack)
        assert heard.last.data["code"] == code
        assert fault.message not in heard.body.decode()
        [(message,)] = await stack.rows("SELECT error_message FROM biz.ai_run_logs")
        assert fault.message in message
        assert len(stack.sim.calls) == 1
        assert await stack.engine.breaker.states() == []

    run_with(home, database_url, body, environ=KEY, tables=tables, run={"failure_threshold": 1})


def test_what_is_not_configured_says_so_and_the_rest_works(home: Path, database_url: str) -> None:
    """An application without its variable is refused with that name; the one that needs none is called."""

    def two(simulator: Simulator) -> Mapping[str, Any]:
        found = tables(simulator)
        local = {name: value for name, value in found["apps"]["review"].items() if name != "api_key_env"}
        return {
            **found,
            "apps": {**found["apps"], "review": local},
            "events": {
                "review_written": {"lanes": ["review"]},
                "talked": {"lanes": ["talk"]},
            },
        }

    async def body(stack: Stack) -> None:
        assert stack.engine.missing == ("MY_KEY",)
        refused = await said(stack)
        assert (refused.status, refused.json()["missing"]) == (503, ["MY_KEY"])
        shown = (await stack.request("GET", "/api/v1/catalog")).json()
        assert (shown["chat_app"], shown["chat_missing"]) == ("talk", ["MY_KEY"])
        event = {"event_type": "talked", "site_id": 1}
        refused = await stack.request("POST", "/api/internal/ai/trigger", json=event, headers=INTERNAL)
        assert (refused.status, refused.json()["missing"]) == (503, ["MY_KEY"])
        dispatcher = stack.engine.dispatcher
        accepted = await dispatcher.handle_trigger(TriggerEvent(event_type="review_written", site_id=1))
        assert await dispatcher.execute(accepted.job_id) == "completed"
        accepted = await dispatcher.handle_trigger(TriggerEvent(event_type="talked", site_id=1))
        assert await dispatcher.execute(accepted.job_id) == "failed"
        job = await dispatcher.jobs.view(accepted.job_id)
        assert job is not None
        assert "not configured" in (job.job.error_message or "")

    run_with(home, database_url, body, environ={"INTERNAL_API_TOKEN": TOKEN}, tables=two)
