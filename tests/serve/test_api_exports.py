"""``/api/v1/exports``: every destination with its ledger, the spans in it, and what users may change about them."""

# ruff: noqa: ANN401 - answers are JSON

from __future__ import annotations

import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.destinations import DestinationSettings
from agenttrace.export.lock import ExporterLock
from agenttrace.export.sealing import Sealer
from agenttrace.store.exports import STATES, State
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.exports import LedgerReader
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.views.exports import exports_fields

from .servers import eventually
from .trace_rig import Logs
from .views_rig import Client, ask, found_logs

SECRETS = ("hunter2", "hidden-header", "hidden-key")
THERE = DestinationSettings(
    name="there",
    type="otlp",
    url=f"http://me:{SECRETS[0]}@127.0.0.1:1/v1/traces",
    headers={"authorization": SECRETS[1]},
    start="all",
)
FILES = DestinationSettings(name="files", type="jsonl", path="/nowhere/out", api_key=SECRETS[2], start="all")
TURNS = 4
#: Of each turn: itself, a model call, a tool.
SPANS = TURNS * 3


def write_turns(logs: Logs, session: str, turns: int = TURNS) -> None:
    """Turns that are over, an hour ago."""
    then = time.time() - 3600
    for turn in range(1, turns + 1):
        at = then + turn
        logs.append(session, "turn.begin", turn=turn, prompt=f"question {turn}", ts=at, id=f"t{turn}")
        logs.append(session, "step.begin", turn=turn, step=1, id=f"s{turn}", model="qwen-max", ts=at)
        logs.append(session, "tool.begin", turn=turn, step=1, id=f"c{turn}", name="Bash", ts=at)
        logs.append(session, "tool.end", turn=turn, id=f"c{turn}", status="ok", ts=at)
        logs.append(session, "step.end", turn=turn, step=1, id=f"s{turn}", ts=at)
        logs.append(session, "turn.end", turn=turn, id=f"t{turn}", ts=at + 0.5)


def sealed(root: Path, *destinations: DestinationSettings) -> Logs:
    """A session that is recorded and queued for these destinations, and sent to none."""
    logs = found_logs(root)
    logs.settings = msgspec.structs.replace(logs.settings, destinations=destinations or (THERE, FILES))
    write_turns(logs, "one")
    logs.record(index=False)
    with writing(logs) as store:
        Sealer(store, logs.settings).run(quiet_seconds=0)
    return logs


def writing(logs: Logs) -> SqliteStore:
    return SqliteStore.open(logs.store, read_only=False)


def number_of(store: SqliteStore, name: str = "there") -> int:
    return next(row.destination_id for row in store.exports.destinations.rows() if row.name == name)


def mark(logs: Logs, count: int, state: State, answer: str | None = None, name: str = "there") -> None:
    """Say that so many of the queued spans came to this."""
    with writing(logs) as store:
        ledger, number = store.exports.ledger, number_of(store, name)
        chosen = [entry.queue_no for entry in ledger.entries(number, "queued", count)]
        ledger.send(dict.fromkeys(chosen, b"digest"))
        ledger.mark(chosen, state, answer)


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return sealed(tmp_path)


async def shown(client: Client, name: str = "there") -> dict[str, Any]:
    found = await client.json("/exports")
    return next(each for each in found["destinations"] if each["name"] == name)


# -- what is shown --------------------------------------------------------------------------------------------


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("mark"), st.integers(1, SPANS), st.sampled_from(["acknowledged", "refused", "unknown", "dropped"])
        ),
        st.tuples(st.just("retry"), st.sampled_from([("refused",), ("unknown",), ("refused", "unknown")])),
        st.tuples(st.just("accept")),
        st.tuples(st.just("pause")),
        st.tuples(st.just("resume")),
    ),
    max_size=8,
)


@settings(max_examples=20)
@given(steps=STEPS)
def test_counts_and_lists_are_those_of_the_ledger_whatever_happened_to_it(steps: list[tuple[Any, ...]]) -> None:
    """After any changes each span is counted once, in the state it is in, and is in the list of just that state;
    what a change says it did is what it did; another destination is never touched."""
    with tempfile.TemporaryDirectory() as directory:
        logs = sealed(Path(directory))
        ask(logs.settings, lambda client: _carry_out(client, logs, steps))


async def _carry_out(client: Client, logs: Logs, steps: list[tuple[Any, ...]]) -> None:
    expected: Counter[str] = Counter(queued=SPANS)
    paused = False
    for action, *more in steps:
        if action == "mark":
            count, state = more
            moved = min(count, expected["queued"])
            mark(logs, count, state, f"answer: {state}")
            expected.update({state: moved, "queued": -moved})
        elif action == "retry":
            (states,) = more
            moved = sum(expected[state] for state in states)
            assert (await client.post("/exports/there/retry", {"states": states})).json() == {"spans": moved}
            expected.update(dict.fromkeys(states, 0) | {"queued": moved})
            expected.subtract({state: expected[state] for state in states})
        elif action == "accept":
            moved = expected["unknown"]
            assert (await client.post("/exports/there/accept", {})).json() == {"spans": moved}
            expected.update({"acknowledged": moved, "unknown": -moved})
        else:
            paused = action == "pause"
            assert (await client.post(f"/exports/there/{action}", {})).json()["paused"] is paused

    async def agrees() -> bool:
        each = await shown(client)
        return each["paused"] is paused and all(each[state] == expected[state] for state in STATES)

    # What others change is shown within a second.
    await eventually(agrees)
    assert (await shown(client, "files"))["queued"] == SPANS
    await _lists_are(client, logs, expected)


async def _lists_are(client: Client, logs: Logs, expected: Counter[str]) -> None:
    with writing(logs) as store:
        stored = dict(store.connection.execute("SELECT hex(span_id), state FROM export_spans WHERE destination_id = 1"))
    listed: dict[str, str] = {}
    for state in ("queued", "sending", "refused", "unknown", "dropped"):
        rows = await client.pages("/exports/there/spans", 5, state=state)
        assert len(rows) == expected[state]
        assert {row["state"] for row in rows} <= {state}
        if state in ("refused", "unknown", "dropped"):
            assert {row["answer"] for row in rows} <= {f"answer: {state}"}
        listed |= {row["span_id"].upper(): state for row in rows}
    assert listed == {span: state for span, state in stored.items() if state != "acknowledged"}


def test_a_span_in_a_list_leads_to_its_session(logs: Logs) -> None:
    """With the key of its session and its own id it is found; the answer of the destination is shown with it."""
    mark(logs, 2, "refused", "400: no such project")

    async def body(client: Client) -> None:
        found = await client.json("/exports/there/spans", state="refused")
        assert found["next"] is None
        assert len(found["items"]) == 2
        with closing(connect(logs.store, read_only=True)) as connection:
            known = {
                (f"{session:016x}", span.hex()): (name, kind)
                for session, span, name, kind in connection.execute("SELECT session_id, span_id, name, kind FROM spans")
            }
        for row in found["items"]:
            assert (row["span"], row["kind"]) == known[row["session"], row["span_id"]]
            assert (row["session_id"], row["agent"], row["title"]) == ("one", "agenttrace", "question 1")
            assert (row["answer"], row["attempts"], row["late"]) == ("400: no such project", 1, False)

    ask(logs.settings, body)


def test_a_span_that_is_gone_from_the_store_is_listed_all_the_same(logs: Logs) -> None:
    """Where it was is known, its name no longer."""
    mark(logs, 1, "dropped", "removed")
    with writing(logs) as store:
        store.connection.execute("DELETE FROM spans")
        store.connection.execute("DELETE FROM sessions")

    async def body(client: Client) -> None:
        (row,) = (await client.json("/exports/there/spans", state="dropped"))["items"]
        assert row["span"] is row["session_id"] is row["title"] is None
        assert len(row["span_id"]) == 16

    ask(logs.settings, body)


def test_what_changed_too_late_is_counted_and_listed(logs: Logs) -> None:
    """Of acknowledged spans that were changed since, how many and which."""
    mark(logs, SPANS, "acknowledged")
    with writing(logs) as store:
        (span,) = store.connection.execute("SELECT span_id FROM export_spans LIMIT 1").fetchone()
        store.exports.ledger.mark_late(number_of(store), [span])

    async def body(client: Client) -> None:
        assert (await shown(client))["late"] == 1
        (row,) = (await client.json("/exports/there/spans", state="late"))["items"]
        assert (row["span_id"], row["state"], row["late"]) == (span.hex(), "acknowledged", True)

    ask(logs.settings, body)


def test_how_a_destination_is_depends_on_who_sends(logs: Logs) -> None:
    """No exporter; one that runs; a destination that waits, with its reason; one that cannot be used."""

    def state(name: str = "there") -> tuple[str, str | None]:
        with SqliteStore.open(logs.store) as store:
            found = exports_fields(store.exports.ledgers(), logs.settings)["destinations"]
        each = next(each for each in found if each["name"] == name)
        return each["state"], each["reason"]

    assert state() == ("stopped", None)
    with ExporterLock(logs.settings.home):
        assert state() == ("sending", None)
        mark(logs, SPANS, "acknowledged")
        assert state() == ("idle", None)
        with writing(logs) as store:
            store.exports.ledger.requested(1, sent_bytes=0, error="503 later", retry_at=time.time() + 60)
        assert state() == ("waiting", "503 later")
        with writing(logs) as store:
            store.exports.ledger.requested(1, sent_bytes=10)
            store.exports.destinations.keep_unusable({"files": "no key"})
        assert state() == ("idle", None)
        assert state("files") == ("unused", "no key")
    # What another process could not use is no news once it has ended.
    assert state("files") == ("stopped", None)
    missing = msgspec.structs.replace(FILES, missing=("A_KEY",))
    logs.settings = msgspec.structs.replace(logs.settings, destinations=(THERE, missing))
    assert state("files") == ("unused", "A_KEY is not set in the environment")


def test_ledgers_are_counted_once_for_each_commit(logs: Logs) -> None:
    """The same object as long as nothing was committed, and new figures after each commit."""
    reader = LedgerReader()
    with SqliteStore.open(logs.store) as store:
        before = reader.read(store)
        assert reader.read(store) is before
        mark(logs, 3, "acknowledged")
        after = reader.read(store)
        assert after.counts[1]["acknowledged"] == 3
        assert before.counts[1]["acknowledged"] == 0
        assert reader.read(store) is after


def test_before_anything_was_recorded(tmp_path: Path) -> None:
    """Destinations are shown as configured; what would change them says that there is nothing yet."""
    logs = found_logs(tmp_path)
    logs.settings = msgspec.structs.replace(logs.settings, destinations=(THERE,))

    async def body(client: Client) -> None:
        found = await client.json("/exports")
        assert found["exporter"] == {"running": False, "pid": None}
        assert [(each["name"], each["state"], each["queued"]) for each in found["destinations"]] == [
            ("there", "stopped", 0)
        ]
        assert (await client.get("/exports/there/spans", state="queued")).status == 404
        assert (await client.post("/exports/there/pause", {})).status == 404

    ask(logs.settings, body)
    assert not logs.store.exists()


# -- what can be changed --------------------------------------------------------------------------------------


def test_a_backfill_sends_earlier_turns(tmp_path: Path) -> None:
    """A destination that began now gets what was before, once, from the moment that was named."""
    logs = sealed(tmp_path, msgspec.structs.replace(THERE, start="now"))

    async def body(client: Client) -> None:
        assert (await shown(client))["queued"] == 0
        found = (await client.post("/exports/there/backfill", {"since": "10m"})).json()
        assert (found["traces"], found["since"] is None) == (0, False)
        for _ in range(2):
            assert (await client.post("/exports/there/backfill", {"since": "all"})).json() == {
                "traces": TURNS,
                "since": None,
            }
            with writing(logs) as store:
                Sealer(store, logs.settings).run(quiet_seconds=0)

    ask(logs.settings, body)
    assert ask(logs.settings, shown)["queued"] == SPANS


def test_changes_are_in_the_audit_log(logs: Logs) -> None:
    """Each with what it was about and how it ended; a refused one too."""
    mark(logs, 2, "unknown")

    async def body(client: Client) -> list[tuple[str, str, str]]:
        await client.post("/exports/there/pause", {})
        await client.post("/exports/there/resume", {})
        await client.post("/exports/there/retry", {"states": ["refused"]})
        await client.post("/exports/there/accept", {})
        await client.post("/exports/there/backfill", {"since": "30d"})
        await client.post("/exports/nowhere/pause", {})
        rows = client.context.access.audit.page(20)
        return [(row.action, row.target, row.outcome) for row in reversed(rows)]

    told = ask(logs.settings, body)
    assert told[:5] == [
        ("export.pause", "there", "done"),
        ("export.resume", "there", "done"),
        ("export.retry", "there: refused", "done"),
        ("export.accept", "there: 2 spans", "done"),
        ("export.backfill", "there: since 30d", "done"),
    ]
    assert told[5][:2] == ("export.pause", "nowhere")
    assert "no destination named nowhere" in told[5][2]


@pytest.mark.parametrize(
    ("path", "sent", "status"),
    [
        ("/exports/nowhere/pause", {}, 404),
        ("/exports/nowhere/retry", {"states": ["refused"]}, 404),
        ("/exports/there/retry", {"states": []}, 422),
        ("/exports/there/retry", {"states": ["acknowledged"]}, 422),
        ("/exports/there/backfill", {}, 422),
        ("/exports/there/backfill", {"since": "soon"}, 400),
        ("/exports/there/backfill", [], 422),
        (f"/exports/{'x' * 65}/pause", {}, 422),
    ],
)
def test_what_cannot_be_meant_is_refused_and_changes_nothing(logs: Logs, path: str, sent: Any, status: int) -> None:
    """Each mistake is a problem with its status, and the ledger stays as it was."""
    before = logs.store.read_bytes()

    async def body(client: Client) -> None:
        answer = await client.post(path, sent)
        assert answer.status == status, answer.body
        assert answer.json()["detail"]
        assert (await shown(client))["queued"] == SPANS

    ask(logs.settings, body)
    assert logs.store.read_bytes() == before


def test_a_change_without_the_token_of_the_page_is_refused(logs: Logs) -> None:
    """No other site can have spans sent again."""

    async def body(client: Client) -> None:
        for action in ("pause", "resume", "retry", "accept", "backfill"):
            assert (await client.post(f"/exports/there/{action}", {}, headers={})).status == 403
        assert (await shown(client))["paused"] is False

    ask(logs.settings, body)


def test_secrets_are_in_no_answer(logs: Logs) -> None:
    """Neither keys nor headers nor the password in an address, wherever destinations are spoken of."""

    async def body(client: Client) -> str:
        paths = ("/exports", "/overview", "/settings", "/doctor")
        bodies = [(await client.get(path)).body for path in paths]
        bodies += [(await client.get("/exports/there/spans", state="queued")).body]
        bodies += [(await client.post("/exports/there/pause", {})).body]
        return b"".join(bodies).decode()

    told = ask(logs.settings, body)
    assert "127.0.0.1:1/v1/traces" in told
    assert [secret for secret in SECRETS if secret in told] == []
