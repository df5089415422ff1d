"""Every change through the API is in the audit log, whatever becomes of it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI, Request

from agenttrace.serve.access import audit
from agenttrace.serve.access.access_store import AccessStore
from agenttrace.serve.access.audit import audited
from agenttrace.serve.access.visitor import Visitor
from agenttrace.serve.problems import ProblemError

from .access_rig import Rig, run_guarded


def test_every_change_is_in_the_log(home: Path) -> None:
    """Who, from where, what, on what; done, why not, or refused."""

    async def body(rig: Rig) -> None:
        adam, vera = rig.user("adam", "admin"), rig.user("vera")
        statuses = []
        for token, name in ((adam, "one"), (adam, "missing"), (adam, "bad"), (vera, "two"), (None, "three")):
            csrf = await rig.csrf(token)
            statuses.append((await rig.ask("POST", f"/api/v1/things/{name}", token=token, csrf=csrf)).status)
        assert statuses == [204, 404, 500, 403, 401]
        rig.access.refusals.close()
        items = (await rig.ask("GET", "/api/v1/audit", token=adam)).json()["items"]
        assert {item["address"] for item in items} == {"127.0.0.1"}
        assert [(item["user"], item["action"], item["target"], item["outcome"]) for item in reversed(items)] == [
            ("adam", "thing.change", "one", "done"),
            ("adam", "thing.change", "missing", "There is no such thing."),
            ("adam", "thing.change", "bad", "ZeroDivisionError"),
            ("vera", "change", "POST /api/v1/things/two", "refused"),
            ("nobody", "change", "POST /api/v1/things/three", "refused"),
        ]

    run_guarded(home, body, bind="0.0.0.0")


def test_logins_and_logouts_are_in_the_log(home: Path) -> None:
    """Also the user and the address."""

    async def body(rig: Rig) -> None:
        token = rig.user("anna")
        await rig.log_in("anna")
        await rig.log_in("anna", "not the password")
        await rig.ask("POST", "/api/v1/logout", token=token, csrf=await rig.csrf(token))
        found = [(entry.user, entry.action, entry.target, entry.outcome) for entry in rig.access.audit.page(10)]
        assert found == [
            ("anna", "logout", "anna", "done"),
            ("nobody", "login", "anna", "refused"),
            ("anna", "login", "anna", "done"),
        ]

    run_guarded(home, body, bind="0.0.0.0")


def test_the_log_in_pages(home: Path) -> None:
    """Page after page by their cursors is the whole log, newest first; an invented cursor is refused."""

    async def body(rig: Rig) -> None:
        token = rig.local()
        for number in range(7):
            rig.access.audit.begin("anna", "10.0.0.1", "job.cancel", str(number), "done")
        targets, path = [], "/api/v1/audit?limit=3"
        while path:
            page = (await rig.ask("GET", path, token=token)).json()
            targets += [item["target"] for item in page["items"]]
            path = page["next"] and f"/api/v1/audit?limit=3&cursor={page['next']}"
        assert targets == [str(number) for number in reversed(range(7))]
        assert (await rig.ask("GET", "/api/v1/audit?cursor=WzFlOTld", token=token)).status == 400

    run_guarded(home, body)


# ── the context manager itself ──


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AccessStore]:
    with AccessStore(tmp_path / "access.db") as opened:
        yield opened


def request_to(store: AccessStore) -> Request:
    app = FastAPI()
    app.state.access = store
    visitor = Visitor(name="anna", role="admin", address="10.0.0.1")
    return Request({"type": "http", "app": app, "headers": [], "state": {"visitor": visitor}})


def outcomes(store: AccessStore) -> list[str]:
    return [entry.outcome for entry in store.audit.page(10)]


def break_log(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "access.db") as connection:
        connection.execute("ALTER TABLE audit RENAME TO gone")
    connection.close()


def test_an_entry_is_there_before_the_change(store: AccessStore) -> None:
    """Should the program die over the change, the log says that it was begun."""

    async def main() -> None:
        async with audited(request_to(store), "job.cancel", "1"):
            assert outcomes(store) == ["under way"]
        assert outcomes(store) == ["done"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ProblemError(409, "It is over."), "It is over."),
        (ValueError("a secret"), "ValueError"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
    ],
)
def test_errors_pass_as_they_are(store: AccessStore, error: BaseException, outcome: str) -> None:
    """The error itself is raised, and the log has the text of the answer, or the kind of error only."""

    async def main() -> None:
        with pytest.raises(type(error)) as caught:
            async with audited(request_to(store), "job.cancel", "1"):
                raise error
        assert caught.value is error

    asyncio.run(main())
    assert outcomes(store) == [outcome]


def test_a_cancelled_change(store: AccessStore) -> None:
    """It is cancelled as before, and the log has it."""

    async def main() -> None:
        begun = asyncio.Event()

        async def change() -> None:
            async with audited(request_to(store), "job.cancel", "1"):
                begun.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(change())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert outcomes(store) == ["CancelledError"]


def test_without_the_log_nothing_is_changed(store: AccessStore, tmp_path: Path) -> None:
    """What cannot be written down is not done."""
    break_log(tmp_path)

    async def main() -> None:
        with pytest.raises(sqlite3.OperationalError):
            async with audited(request_to(store), "job.cancel", "1"):
                pytest.fail("the change was made")

    asyncio.run(main())


def test_a_log_that_fails_hides_no_error(store: AccessStore, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If the outcome cannot be written, the change's own error stays what it was, and the server's log says so."""
    error = ProblemError(409, "It is over.")

    async def main() -> None:
        async with audited(request_to(store), "job.cancel", "1"):
            break_log(tmp_path)
            raise error

    with pytest.raises(ProblemError) as caught:
        asyncio.run(main())
    assert caught.value is error
    assert "entry 1 of the audit log could not be written" in caplog.text


def test_without_a_user_nothing_is_changed(store: AccessStore) -> None:
    """Without the gate there is no user for the log, and nothing is done."""

    async def main() -> None:
        request = Request({"type": "http", "app": request_to(store).app, "headers": []})
        with pytest.raises(ProblemError, match="Log in first"):
            async with audited(request, "job.cancel", "1"):
                pytest.fail("the change was made")

    asyncio.run(main())
    assert outcomes(store) == []


def test_entries_of_programs_are_bounded(store: AccessStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Endless triggers and refusals do not fill the disk; changes by users stay."""
    monkeypatch.setattr(audit, "MOST_INTERNAL", 20)
    monkeypatch.setattr(audit, "_TRIM_EVERY", 10)
    store.audit.begin("anna", "10.0.0.1", "job.cancel", "1", "done")
    for number in range(95):
        store.audit.begin(audit.INTERNAL, "10.0.0.1", "event.trigger", str(number), "done")
    kept = [entry.target for entry in store.audit.page(1000) if entry.user == audit.INTERNAL]
    assert kept == [str(number) for number in range(94, 94 - len(kept), -1)]
    assert 20 <= len(kept) < 30
    assert store.audit.page(1000)[-1].user == "anna"


def test_entries_that_wait_together_are_written_together(store: AccessStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty changes at once wait for the disk a few times, not a hundred; each has its own entry and outcome."""
    written: list[int] = []
    write = store.audit.write

    def counted(steps: list[audit.Beginning | audit.Ending]) -> list[int]:
        written.append(len(steps))
        return write(steps)

    monkeypatch.setattr(store.audit, "write", counted)

    async def change(number: int) -> None:
        async with audited(request_to(store), "job.cancel", str(number)):
            if number % 10 == 0:
                raise ProblemError(409, f"{number} is over.")

    async def main() -> None:
        await asyncio.gather(*(change(number) for number in range(50)), return_exceptions=True)

    asyncio.run(main())
    assert sum(written) == 100
    assert len(written) < 50
    found = {entry.target: entry.outcome for entry in store.audit.page(100)}
    assert found == {str(n): f"{n} is over." if n % 10 == 0 else "done" for n in range(50)}
