"""``POST /api/v1/chat``: the chat tried from the console is the chat that users have, and leaves a trace of who did."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agenttrace.run.simulator import faults
from agenttrace.run.simulator.faults import Fault
from agenttrace.serve.access import passwords
from agenttrace.serve.access.access_store import AccessStore

from .harness import CHAT_APP, Heard, Running, Stack, run_with
from .seeds import audit, change, log_in

#: Faults whose end a user sees; none that the client would try again for long.
FAULTS: dict[str, list[Fault]] = {
    "a good answer": [],
    "the key is refused": [faults.status(401)],
    "the question is refused": [faults.status(400)],
    "an error in the middle": [faults.error_frame("InternalError", 500)],
    "a stream that breaks off": [faults.reset(2)],
}
sites = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, module_database_url: str) -> Iterator[Running]:
    home: Path = tmp_path_factory.mktemp("server")
    limits = {"failure_threshold": 10**6, "daily_tokens": 10**9, "user_calls_per_minute": 10**6}
    server = Running(home, module_database_url, run=limits)
    yield server
    server.close()


async def say(stack: Stack, message: str = "你好", *, site: int = 1, **body: Any) -> Heard:  # noqa: ANN401 - any field
    return await change(stack, "/chat", {"message": message, "site_id": site} | body)


def told(heard: Heard) -> tuple[int, str, list[tuple[str, object]]]:
    """What a user gets to see of an answer."""
    seen = [(event.kind, event.data.get("content") or event.data.get("message")) for event in heard.events]
    # How the answer was cut into pieces depends on the moment.
    texts = [text for kind, text in seen if kind == "message"]
    ends = [(kind, text) for kind, text in seen if kind != "message"]
    detail = "" if heard.events else heard.json()["detail"]
    return heard.status, detail, [("text", "".join(map(str, texts))), *ends]


@pytest.mark.parametrize("script", [pytest.param(script, id=name) for name, script in FAULTS.items()])
def test_the_console_gets_the_answers_that_users_get(server: Running, script: list[Fault]) -> None:
    """Whatever happens upstream: status, text, last event and error message are those of the users' endpoint."""

    async def body(stack: Stack) -> None:
        stack.sim.script(CHAT_APP, *script)
        theirs = await stack.chat("今天的营业额怎么样？", user="somebody", site=next(sites))
        stack.sim.script(CHAT_APP, *script)
        ours = await say(stack, "今天的营业额怎么样？", site=next(sites))
        assert told(ours) == told(theirs)
        assert ours.headers["Content-Type"] == theirs.headers["Content-Type"]
        assert [event.kind for event in ours.events if event.kind != "message"] in (["done"], ["error"])

    server.run(body(server.stack))


@pytest.mark.parametrize("guard", ["breaker", "rate", "budget"])
def test_a_guard_refuses_the_console_as_it_refuses_users(home: Path, database_url: str, guard: str) -> None:
    """An open breaker, a full window and a spent budget have the same texts, as a stream or as a status."""

    async def body(stack: Stack) -> None:
        if guard == "breaker":
            await stack.engine.breaker.hold_open(CHAT_APP)
        if guard == "rate":
            await stack.chat()
            await say(stack)
        theirs, ours = await stack.chat(), await say(stack)
        assert told(ours) == told(theirs)
        waits = [int(heard.headers.get("Retry-After", 0)) for heard in (theirs, ours)]
        # The window of each began with another message, a moment apart.
        assert all(0 < wait <= 60 for wait in waits) if guard == "rate" else waits == [0, 0]
        assert ours.status == (429 if guard == "rate" else 200)
        assert guard == "rate" or ours.last.kind == "error"

    limits = {"budget": {"daily_tokens": 1}, "rate": {"user_calls_per_minute": 1}, "breaker": {}}
    run_with(home, database_url, body, run=limits[guard])


def test_a_conversation_continues(server: Running) -> None:
    """The second message is in the conversation of the first, and both are those of the console's own user."""

    async def body(stack: Stack) -> None:
        first = (await say(stack, "你好")).last.data
        second = (await say(stack, "然后呢？", conversation_id=first["conversation_id"])).last.data
        assert second["conversation_id"] == first["conversation_id"]
        sql = "SELECT user_id, site_id FROM biz.ai_conversations WHERE id = %s"
        assert await stack.rows(sql, first["conversation_id"]) == [("console:local", 1)]
        theirs = (await stack.chat()).last.data["conversation_id"]
        refused = await say(stack, conversation_id=theirs)
        assert (refused.status, refused.json()["detail"]) == (404, "There is no such conversation.")

    server.run(body(server.stack))


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(message=st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=30))
def test_the_audit_log_knows_the_conversation_but_no_word_of_it(server: Running, message: str) -> None:
    """Each turn is one row with the conversation it is in; what was said is not in the log."""

    async def body(stack: Stack) -> None:
        before = len(await audit(stack))
        said = f"secret {message}"
        conversation = (await say(stack, said, site=7)).last.data["conversation_id"]
        assert (await audit(stack))[before:] == [("chat", f"site 7, conversation {conversation}", "done")]

    server.run(body(server.stack))


def test_a_turn_that_was_refused_is_audited_too(home: Path, database_url: str) -> None:
    """What a status refuses leaves its reason in the audit log, beside the conversation that was meant."""

    async def body(stack: Stack) -> None:
        refused = await say(stack, conversation_id=99)
        assert await audit(stack) == [("chat", "site 1, conversation 99", refused.json()["detail"])]

    async def unconfigured(stack: Stack) -> None:
        heard = await say(stack)
        assert heard.status == 503
        assert "DASHSCOPE_API_KEY" in heard.json()["missing"]

    run_with(home, database_url, body)
    run_with(home, database_url, unconfigured, configured=False)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"message": "a"}, "site_id"),
        ({"message": "a", "site_id": 0}, "site_id"),
        ({"message": "a", "site_id": 2**63}, "site_id"),
        ({"message": "a", "site_id": "1"}, "site_id"),
        ({"message": " ", "site_id": 1}, "message"),
        ({"message": "a", "site_id": 1, "entry": "other"}, "entry"),
        ({"message": "a", "site_id": 1, "user_id": "u1"}, "user_id"),
    ],
)
def test_a_wrong_body_is_refused_with_the_field(server: Running, body: object, named: str) -> None:
    """A body that cannot be used is 422 and names the field; no admin can speak as another user."""
    heard = server.run(change(server.stack, "/chat", body))
    assert heard.status == 422
    assert named in heard.json()["detail"]


def test_admins_chat_under_their_own_names(home: Path, database_url: str) -> None:
    """The user of a conversation is the admin who is logged in."""

    async def body(stack: Stack) -> None:
        access: AccessStore = stack.app.state.access
        access.users.add("anna", "admin", passwords.hashed("a long password"))
        await log_in(stack, "anna", "a long password")
        assert (await say(stack)).last.kind == "done"
        assert await stack.rows("SELECT user_id FROM biz.ai_conversations") == [("console:anna",)]
        entry = access.audit.page(1)[0]
        assert (entry.user, entry.action) == ("anna", "chat")

    run_with(home, database_url, body, serve={"login": "always"})
