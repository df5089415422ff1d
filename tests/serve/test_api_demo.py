"""``/api/v1/demo``: the button of the empty page, with and without a recorder beside the server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agenttrace.record import demo_data
from agenttrace.record.lock import RecorderLock
from agenttrace.record.recorder import Recorder
from agenttrace.record.watcher import Watcher

from .servers import eventually
from .trace_rig import API, Logs
from .views_rig import Client, ask, found_logs


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return found_logs(tmp_path)


@contextmanager
def recorder_beside(logs: Logs) -> Iterator[None]:
    """A recorder as ``agenttrace up`` has it."""
    stop = threading.Event()
    with RecorderLock(logs.settings.home):
        recorder = Recorder(logs.settings, environ={"HOME": str(logs.directory)})
        thread = threading.Thread(target=Watcher(recorder, stop).run)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            recorder.close()


async def change_demo(client: Client) -> None:
    """Load and remove, each twice; what a session of the user's says stays."""

    async def sessions() -> list[bool]:
        return [each["demo"] for each in (await client.json("/sessions?limit=500"))["items"]]

    assert await client.json("/demo") == {"state": "absent"}
    for _ in range(2):
        assert (await client.send("POST", "/demo")).json() == {"state": "loaded"}
    await eventually(lambda: _are(sessions, 50))
    assert (await sessions()).count(False) == 1
    for _ in range(2):
        assert (await client.send("DELETE", "/demo")).json() == {"state": "absent"}
    await eventually(lambda: _is(sessions, [False]))
    entries = (await client.json("/audit"))["items"]
    assert [(each["action"], each["outcome"]) for each in entries] == [
        *[("demo.remove", "done")] * 2,
        *[("demo.load", "done")] * 2,
    ]


async def _are(sessions: Callable[[], Awaitable[list[bool]]], count: int) -> bool:
    return len(await sessions()) >= count


async def _is(sessions: Callable[[], Awaitable[list[bool]]], expected: list[bool]) -> bool:
    return await sessions() == expected


@pytest.mark.parametrize("beside", [True, False])
def test_demo_data_comes_and_goes(logs: Logs, beside: bool) -> None:
    """The recorder reads it as soon as it is there; without one the server records it itself."""
    logs.append("mine", "turn.begin", prompt="hello")
    if beside:
        with recorder_beside(logs):
            ask(logs.settings, change_demo)
    else:
        logs.record()
        ask(logs.settings, change_demo)


def test_only_admins_may_change_it(logs: Logs) -> None:
    """A viewer reads whether there is demo data; a request without the page's token changes nothing."""

    async def body(client: Client) -> None:
        viewer, _ = client.context.access.tokens.create("reader", "viewer", None)
        for method in ("POST", "DELETE"):
            headers = {"Authorization": f"Bearer {viewer}"}
            assert (await client.send(method, "/demo", None, headers)).status == 403
            assert (await client.send(method, "/demo", None, {})).status == 403
        async with client.http.get(client.url + API + "/demo") as response:
            assert response.status == 200
        assert demo_data.state(logs.settings.home) == "absent"

    ask(logs.settings, body)


def test_requests_at_the_same_time(logs: Logs) -> None:
    """One of them changes something; the others are answered, and what is left is whole."""

    async def body(client: Client) -> None:
        token = {"X-CSRF-Token": (await client.json("/me"))["csrf"]}
        answers = await asyncio.gather(
            *(client.send(method, "/demo", None, token) for method in ("POST", "DELETE", "POST", "DELETE") * 2)
        )
        assert {each.status for each in answers} <= {200, 409}
        assert (await client.send("DELETE", "/demo", None, token)).status == 200

    logs.append("mine", "turn.begin", prompt="hello")
    logs.record()
    ask(logs.settings, body)
    assert demo_data.state(logs.settings.home) == "absent"
    assert not (logs.settings.home / "demo").exists()


def test_a_full_disk_is_a_clear_answer(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 with what the system says; nothing is left behind that would be recorded."""

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("agenttrace.demo.writer.past", full)

    async def body(client: Client) -> None:
        answer = await client.send("POST", "/demo")
        assert answer.status == 503
        assert "No space left on device" in answer.json()["detail"]
        assert await client.json("/demo") == {"state": "absent"}

    ask(logs.settings, body)
