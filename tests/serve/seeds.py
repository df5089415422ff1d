"""A run half that has done something, for the tests of the console: jobs in most states, their calls, and chats."""

# ruff: noqa: ANN401 - answers are JSON

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agenttrace.run.jobs.jobs import TriggerEvent
from agenttrace.run.simulator import faults

from .harness import Heard, Stack

API = "/api/v1"
EVENTS = ("consumption", "note_created", "task_assigned", "dws_completed")
#: A member whose jobs fail, because the application refuses the prompt.
UNLUCKY = 13


async def get(stack: Stack, path: str, **query: Any) -> Any:
    """The JSON of an answer that has to be there."""
    heard = await stack.request("GET", API + path, params=query)
    assert heard.status == 200, heard.body
    return heard.json()


async def change(stack: Stack, path: str, body: object = None) -> Heard:
    """What a page does when a user presses a button."""
    token = (await get(stack, "/me"))["csrf"]
    return await stack.request("POST", API + path, json=body, headers={"X-CSRF-Token": token})


async def log_in(stack: Stack, name: str, password: str) -> None:
    """From now on the requests are this user's; the cookie is stored as in a browser."""
    heard = await change(stack, "/login", {"name": name, "password": password})
    assert heard.status == 200, heard.body
    stack.http.headers["Cookie"] = heard.headers["Set-Cookie"].partition(";")[0]


async def audit(stack: Stack) -> list[tuple[str, str, str]]:
    """Action, target and outcome of every row of the audit log, the oldest first."""
    rows = await pages(stack, "/audit", {}, 500)
    return [(row["action"], row["target"], row["outcome"]) for row in reversed(rows)]


async def pages(stack: Stack, path: str, query: Mapping[str, Any], limit: int) -> list[dict[str, Any]]:
    """All items of a list, page by page."""
    items: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = await get(stack, path, **query, **cursor, limit=limit)
        assert len(page["items"]) <= limit
        items += page["items"]
        if page["next"] is None:
            return items
        assert len(page["items"]) == limit
        cursor = {"cursor": page["next"]}


async def trigger(stack: Stack, event_type: str = "consumption", **fields: Any) -> int:
    """A job that waits; its number."""
    event = TriggerEvent(event_type=event_type, **{"site_id": 1, **fields})
    return (await stack.engine.dispatcher.handle_trigger(event)).job_id


async def finished(stack: Stack, event_type: str = "consumption", **fields: Any) -> int:
    """A job that was run to its end; its number."""
    job_id = await trigger(stack, event_type, **fields)
    await stack.engine.dispatcher.execute(job_id)
    return job_id


async def seed(stack: Stack) -> None:
    """Jobs of every event for three stores: finished, waiting, cancelled, duplicate and failed ones; and two chats."""
    for number in range(16):
        fields = {"site_id": 1 + number % 3, "member_id": number % 5, "is_forced": number % 4 == 0}
        payload = {"coach_id": 8} if number % 2 else None
        job_id = await trigger(stack, EVENTS[number // 4], payload=payload, **fields)
        if number % 3 == 0:
            await stack.engine.dispatcher.execute(job_id)
        elif number % 3 == 1:
            await stack.engine.dispatcher.jobs.cancel(job_id)
    stack.sim.script("sim-app6-note", faults.status(400))
    stack.sim.script("sim-app8-consolidate", faults.status(400))
    await finished(stack, "note_created", site_id=2, member_id=UNLUCKY)
    await trigger(stack, "note_created", site_id=2, member_id=UNLUCKY)
    for user in ("u1", "u2"):
        assert (await stack.chat("营业额怎么样？", user=user)).last.kind == "done"
