"""The live stream: every change arrives, a break loses nothing, and no subscriber delays another."""

# ruff: noqa: ANN401 - messages are JSON

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agenttrace.ids import session_key, session_number
from agenttrace.record.formats.contract import Content
from agenttrace.record.recorder import Recorder
from agenttrace.serve.api.live import hub as hub_module
from agenttrace.serve.api.live.hub import Hub, Subscriber
from agenttrace.serve.api.sessions.session_index import SessionIndex
from agenttrace.serve.api.sessions.timeline import whole_timeline
from agenttrace.serve.api.shapes.spans import Timeline
from agenttrace.serve.api.trace_reader import TraceReader
from agenttrace.store.annotations import NewAnnotation
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.retention import Retention
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.store.store import Store

from .servers import eventually
from .test_api_sessions import compare_always
from .trace_rig import Logs, Message, Stream, console, following, opened, parsed

COLUMNS = [
    field.name
    for field in msgspec.structs.fields(Timeline)
    if field.name not in ("session", "cursor", "complete", "next", "streams")
]


def key_of(name: str) -> str:
    """The key of a session in our format."""
    return session_key(session_number("agenttrace", name))


class View:
    """What a page knows: rows and spans, merged from the messages it has heard."""

    def __init__(self) -> None:
        self.rows: dict[str, Any] = {}
        self.spans: dict[str, dict[str, Any]] = {}
        self.texts: dict[str, list[dict[str, Any]]] = {}
        self.cursors: list[int] = []
        self.resets = 0
        self.last_id: str | None = None

    def hear(self, message: Message) -> None:
        if message.kind == "comment":
            return
        self.last_id = message.id
        self.cursors.append(message.cursor)
        if message.kind == "sessions":
            self.rows |= {row["session_id"]: row for row in message.data["rows"]}
        elif message.kind == "timeline":
            assert not message.data["complete"]
            self.spans |= spans_of(message.data)
        elif message.kind == "texts":
            self.texts |= message.data["spans"]
        self.resets += message.kind == "reset"

    def hear_all(self, heard: Iterable[Message]) -> View:
        for message in heard:
            self.hear(message)
        return self

    def events(self) -> dict[str, int]:
        return {name: row["events"] for name, row in self.rows.items()}


def spans_of(timeline: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The rows of a timeline by span, with the names of their streams."""
    rows = zip(*(timeline[column] for column in COLUMNS), strict=True)
    found = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    return {span["span_id"]: span | {"stream": timeline["streams"][span["stream"]]} for span in found}


async def true_spans(reader: TraceReader, index: SessionIndex, name: str) -> dict[str, dict[str, Any]]:
    """All spans of a session as they are."""

    def question(store: Store) -> Timeline:
        (session,) = store.sessions_by_number([session_number("agenttrace", name)])
        return whole_timeline(store, session, index.prices)

    found = await reader.query(question, empty=lambda: pytest.fail("there is no store"))
    return spans_of(msgspec.to_builtins(found))


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    made = Logs(tmp_path)
    made.append("first")
    return made


# -- over HTTP, with a recorder that follows the files ------------------------------------------------------------


def work(logs: Logs, sessions: int, lines: int, wait: Callable[[float], object]) -> dict[str, int]:
    """What agents do: turns, model calls and tools in several sessions at once; how many lines each has written."""
    chance = random.Random(lines)
    written: dict[str, int] = {}
    for _ in range(lines):
        name = f"s{chance.randrange(sessions)}"
        turn = written.get(name, 0) // 6
        kind, fields = _ACTS[written.get(name, 0) % 6]
        logs.append(name, kind, turn=turn, **{key: str(value).format(turn) for key, value in fields.items()})
        written[name] = written.get(name, 0) + 1
        wait(chance.choice([0, 0, 0.002, 0.05]))
    return written


_ACTS: list[tuple[str, dict[str, Any]]] = [
    ("turn.begin", {"prompt": "question {}"}),
    ("step.begin", {"step": "a", "model": "qwen-max"}),
    ("tool.begin", {"step": "a", "id": "call {}", "name": "Bash"}),
    ("step.end", {"step": "a", "response": "r{}"}),
    ("tool.end", {"id": "call {}", "status": "error"}),
    ("turn.end", {"status": "ok"}),
]


def test_every_line_arrives_although_the_connection_breaks(logs: Logs) -> None:
    """Whatever real agents' lines a real recorder takes up, and wherever the connection is cut, a page that goes on
    from its last id has in the end every session and every span as they are, and its cursor never went back."""
    logs.record()

    async def main() -> None:
        async with console(logs.settings) as server:
            view, context = View(), server.context
            cursor = (await server.json("/sessions"))["cursor"]
            chance, breaks = random.Random(7), 0
            with logs.watched():
                done = asyncio.create_task(asyncio.to_thread(work, logs, 4, 150, time.sleep))
                headers: dict[str, str] = {}
                while not (done.done() and view.events() == done.result()):
                    breaks += 1
                    async with server.live(headers, after=cursor, session=key_of("s1")) as stream:
                        await heard_some(view, stream, chance.randrange(1, 25), done)
                    headers = {"Last-Event-ID": str(view.last_id)}
            assert breaks > 3
            assert view.resets == 0
            assert view.cursors == sorted(view.cursors)
            assert view.spans == await true_spans(context.reader, context.index, "s1")
            listed = {row["session_id"]: row for row in (await server.json("/sessions"))["items"]}
            assert view.rows == {name: listed[name] for name in view.rows}

    asyncio.run(main())


async def heard_some(view: View, stream: Stream, count: int, done: asyncio.Task[dict[str, int]]) -> None:
    """So many messages, then the line is cut; or all of them, once everything was written."""
    for _ in range(count):
        view.hear(await following(stream))
        if done.done() and view.events() == done.result():
            return


def test_an_agents_own_log_arrives(logs: Logs) -> None:
    """Lines appended to a file of Claude Code are heard of as they come, each with its session."""
    source = Path(__file__).resolve().parents[1] / "data/claude-code-2.1.197/projects/-home-dev-work"
    name = "bb1bce27-aee4-45f3-aff7-ef5e31cd4b65"
    lines = (source / f"{name}.jsonl").read_bytes().splitlines(keepends=True)
    logs.record()

    async def main() -> None:
        async with console(logs.settings) as server:
            view = View()
            async with server.live() as stream:
                view.hear(await following(stream))
                with logs.watched(), (logs.directory / f"{name}.jsonl").open("ab", buffering=0) as file:
                    for line in lines:
                        file.write(line)
                        await asyncio.sleep(0)
                    while view.rows.get(name, {}).get("turns", 0) < 2:
                        view.hear(await following(stream))
            assert view.rows[name]["agent"] == "claude-code"
            assert view.cursors == sorted(view.cursors)

    asyncio.run(main())


def test_a_silent_stream_says_that_it_is_alive(tmp_path: Path) -> None:
    """While nothing happens comments are sent, also where nothing was ever recorded."""
    quiet = Logs(tmp_path, heartbeat=0.05)

    async def main() -> None:
        async with console(quiet.settings) as server, server.live() as stream:
            assert (await anext(stream)).kind == "hello"
            assert [(await anext(stream)).kind for _ in range(3)] == ["comment"] * 3

    asyncio.run(main())


def test_the_server_stops_while_pages_listen(logs: Logs) -> None:
    """Open streams do not keep the server from stopping; each ends properly, and new ones are refused."""

    async def main() -> None:
        async with console(logs.settings) as server, server.live() as one, server.live() as other:
            for stream in (one, other):
                assert (await anext(stream)).kind == "hello"
            async with asyncio.timeout(20):
                await server.stop()
                for stream in (one, other):
                    with pytest.raises(StopAsyncIteration):
                        await anext(stream)
            assert await (await server.context.hub.join()).take() != b""
            assert not is_following()

    asyncio.run(main())


@pytest.mark.parametrize("session", ["s1", "", "f" * 16, "0" * 17])
def test_what_is_no_key_is_refused(logs: Logs, session: str) -> None:
    """A session that is watched is named by its key."""

    async def main() -> None:
        async with console(logs.settings) as server:
            assert (await server.get("/live", session=session)).status == 400
            server.context.life.stopping = True
            assert (await server.get("/live")).status == 503

    asyncio.run(main())


# -- the hub itself -----------------------------------------------------------------------------------------------


class Rig:
    """A hub on a store that the test fills line by line."""

    def __init__(self, logs: Logs, recorder: Recorder, reader: TraceReader, index: SessionIndex) -> None:
        self.logs, self.recorder, self.reader, self.index = logs, recorder, reader, index
        self.hub = Hub(reader, index)

    async def write(self, session: str, kind: str = "message", **fields: Any) -> None:
        """A line, recorded and committed."""
        self.logs.append(session, kind, **fields)
        await asyncio.to_thread(self.recorder.run_once)

    async def resumed(self, last: Message) -> list[Message]:
        """The messages for a subscriber that watches a session and reconnects."""
        subscriber = await self.hub.join(key_of("s0"), last.id)
        self.hub.leave(subscriber)
        return parsed(await subscriber.take())

    async def heard(self, subscriber: Subscriber, enough: Callable[[View], bool], view: View | None = None) -> View:
        """The messages of a subscriber until there are enough."""
        view = view or View()
        async with asyncio.timeout(30):
            while not enough(view):
                view.hear_all(parsed(await subscriber.take()))
        return view


@asynccontextmanager
async def rig(logs: Logs) -> AsyncIterator[Rig]:
    with logs.recorder() as recorder, opened(logs.settings) as (reader, index):
        recorder.run_once()
        made = Rig(logs, recorder, reader, index)
        try:
            yield made
        finally:
            made.hub.close()


def is_following() -> bool:
    """Whether a hub looks for commits."""
    return any(task.get_name() == "live" and not task.done() for task in asyncio.all_tasks())


def has(name: str, events: int) -> Callable[[View], bool]:
    """That a session's row with so many events was heard."""
    return lambda view: view.events().get(name) == events


def test_after_any_message_one_can_go_on(logs: Logs) -> None:
    """Cut after any message, and again after any that came then, going on from its id gives with what was heard
    before every row and span as they are, and no row of a session in which nothing happened since."""

    async def main() -> None:
        async with rig(logs) as made:
            await made.index.refresh()
            subscriber = await made.hub.join(key_of("s0"), str(made.index.cursor))
            steps = iter(range(1000))
            heard: list[Message] = []

            async def act() -> bool:
                number = next(steps)
                kind, fields = _ACTS[number % 6]
                texts = {key: str(value).format(number // 6) for key, value in fields.items()}
                await made.write(f"s{number // 6 % 2}", kind, turn=number // 12, **texts)
                return number < 23

            while await act():
                heard += parsed(await subscriber.take())
            while heard[-1].cursor < 25:
                heard += parsed(await subscriber.take())
            truth = await true_spans(made.reader, made.index, "s0")
            everything = View().hear_all(heard)
            assert everything.spans == truth
            assert {message.kind for message in heard} == {"hello", "sessions", "timeline", "texts"}
            for cut in range(1, len(heard) + 1):
                resumed = await made.resumed(heard[cut - 1])
                changed = {row["session_id"] for message in heard[cut:] for row in message.data.get("rows", ())}
                assert View().hear_all(resumed).rows.keys() == changed
                for second in range(1, len(resumed) + 1):
                    third = await made.resumed(resumed[second - 1])
                    view = View().hear_all([*heard[:cut], *resumed[:second], *third])
                    assert (view.rows, view.spans, view.resets) == (everything.rows, truth, 0)
                    assert view.cursors == sorted(view.cursors)

    asyncio.run(main())


def test_marks_that_mean_nothing_are_answered_with_a_reset(logs: Logs) -> None:
    """From a mark of another time, of the future, or of nobody's making everything is to be loaded again, once; from
    a cursor of a list, or without any, it is not."""
    for _ in range(5):
        logs.append("first")

    async def main() -> None:
        async with rig(logs) as made:
            await made.index.refresh()
            cursor, epoch = made.index.cursor, made.index.epoch
            marks = ["nonsense", "", "-1", "1e3", "٣", str(cursor + 1), str(cursor - 1), f"{cursor}-other", "9" * 40]
            for mark in marks:
                first, second = parsed(await (await made.hub.join(None, mark)).take())
                assert (first.kind, second.kind) == ("hello", "reset"), mark
                assert first.data["cursor"] == second.data["cursor"] == second.cursor == cursor
            for known in (str(cursor), f"{cursor}-{epoch}", None):
                (only,) = parsed(await (await made.hub.join(None, known)).take())
                assert (only.kind, only.id, only.data["cursor"]) == ("hello", f"{cursor}-{epoch}", cursor)

    asyncio.run(main())


def test_a_slow_subscriber_is_reset_and_delays_no_other(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for a reader that takes nothing never exceeds its limit by more than a message; it is told to load
    everything again, while others hear every change."""
    monkeypatch.setattr(hub_module, "MOST_PENDING", 4_000)

    async def main() -> None:
        async with rig(logs) as made:
            slow, quick = await made.hub.join(), await made.hub.join()
            view = View()
            for number in range(1, 20):
                await made.write("busy")
                await made.heard(quick, has("busy", number), view)
            assert view.resets == 0
            waiting = await slow.take()
            assert len(waiting) < 4_000 + 2_000
            behind = View().hear_all(parsed(waiting))
            assert behind.resets == 1
            assert behind.cursors == sorted(behind.cursors)
            # From there on it gets everything again.
            await made.write("busy")
            assert (await made.heard(slow, has("busy", 20))).resets == 0

    asyncio.run(main())


def test_nothing_runs_without_a_subscriber(logs: Logs) -> None:
    """The task that looks for commits begins with the first subscriber and ends with the last."""

    async def main() -> None:
        async with rig(logs) as made:
            assert not is_following()
            one, other = await made.hub.join(), await made.hub.join()
            assert is_following()
            made.hub.leave(one)
            await made.write("a")
            await made.heard(other, has("a", 1))
            made.hub.leave(other)

            async def rests() -> bool:
                return not is_following()

            await eventually(rests)
            # And a later subscriber gets what changes then, and only that.
            await made.write("b")
            third = await made.hub.join()
            await made.write("c")
            assert (await made.heard(third, has("c", 1))).events() == {"c": 1}

    asyncio.run(main())


def test_only_spans_of_the_watched_session_are_sent(logs: Logs) -> None:
    """Spans are sent to the subscribers of their session, and to no others."""

    async def main() -> None:
        async with rig(logs) as made:
            watching, other = await made.hub.join(key_of("a")), await made.hub.join(key_of("b"))
            await made.write("a", "turn.begin", prompt="x")
            await made.write("c", "turn.begin", prompt="x")
            heard = await made.heard(watching, has("c", 1))
            assert heard.spans == await true_spans(made.reader, made.index, "a") != {}
            assert (await made.heard(other, has("c", 1))).spans == {}

    asyncio.run(main())


def test_what_is_said_in_changed_spans_goes_with_them(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts that were told are those that one would be given who asks, cut where they are long; where many spans
    change at once, or much is said in them, none are told."""

    async def main() -> None:
        async with rig(logs) as made:
            subscriber = await made.hub.join(key_of("a"))
            await made.write("a", "turn.begin", turn=1, prompt="a question")
            await made.write("a", "step.begin", turn=1, step=1)
            await made.write("a", "message", turn=1, step=1, role="assistant", text="long " * 5_000)
            await made.write("a", "tool.begin", turn=1, step=1, id="t1", name="Bash", arguments={"command": "ls"})
            await made.write("a", "tool.end", turn=1, id="t1", status="ok", result="a.txt")
            heard = await made.heard(subscriber, has("a", 5))
            assert heard.texts.keys() == heard.spans.keys()
            asked = await made.reader.query(
                lambda store: made.reader.texts.contents(
                    store,
                    store.sessions_by_number([session_number("agenttrace", "a")])[0],
                    [bytes.fromhex(span) for span in heard.spans],
                ),
                empty=dict[bytes, list[Content]],
            )
            assert heard.texts == {
                span_id.hex(): [
                    {
                        "kind": said.kind,
                        "text": said.text[: hub_module.TEXT_CHARS],
                        "chars": len(said.text),
                        "index": index,
                        "call": said.call,
                        "media": None,
                    }
                    for index, said in enumerate(contents)
                ]
                for span_id, contents in asked.items()
            }
            kinds = {piece["kind"] for pieces in heard.texts.values() for piece in pieces}
            assert kinds == {"prompt", "text", "arguments", "result"}

            known = dict(heard.texts)
            monkeypatch.setattr(hub_module, "MOST_TEXT_CHARS", 4)
            await made.write("a", "message", turn=1, step=1, role="assistant", text="more")
            await made.heard(subscriber, has("a", 6), heard)
            monkeypatch.setattr(hub_module, "MOST_TEXT_CHARS", 64_000)
            monkeypatch.setattr(hub_module, "MOST_SPANS_WITH_TEXTS", 0)
            await made.write("a", "message", turn=1, step=1, role="assistant", text="most")
            await made.heard(subscriber, has("a", 7), heard)
            assert heard.texts == known

    asyncio.run(main())


def test_an_interruption_is_sent_without_an_event(tmp_path: Path) -> None:
    """A silent session is sent as interrupted, to subscribers and to those that reconnect."""
    stale = Logs(tmp_path, stale_minutes=1)
    stale.append("quiet", "turn.begin", ts=time.time() - 58.5)

    async def main() -> None:
        async with rig(stale) as made:
            subscriber = await made.hub.join()
            mark = parsed(await subscriber.take())[0].id
            view = await made.heard(subscriber, lambda view: "quiet" in view.rows)
            assert view.rows["quiet"]["state"] == "interrupted"
            assert f"{view.cursors[-1]}" == mark.partition("-")[0]
            back = await made.heard(await made.hub.join(None, mark), lambda view: "quiet" in view.rows)
            assert back.rows == view.rows

    asyncio.run(main())


def test_sessions_that_vanish_are_a_reset(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """When retention removes sessions, all subscribers are reset, also those that were away meanwhile."""
    compare_always(monkeypatch)
    logs.append("old", ts=1_000.0)

    async def main() -> None:
        async with rig(logs) as made:
            subscriber = await made.hub.join()
            mark = parsed(await subscriber.take())[0].id
            await asyncio.to_thread(_prune, logs)
            assert (await made.heard(subscriber, lambda view: view.resets == 1)).rows == {}
            assert (await made.heard(await made.hub.join(None, mark), lambda view: view.resets == 1)).rows == {}

    asyncio.run(main())


def _prune(logs: Logs) -> None:
    connection = connect(logs.store)
    Retention(connection).prune(time.time() - 3600)
    connection.close()


def test_a_bill_that_moves_is_a_reset_for_who_watches(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """When tokens of a watched session turn out to be another's, its spans are loaded again; others hear the row."""
    compare_always(monkeypatch)
    answered: dict[str, Any] = {"response": "r", "model": "qwen-max", "usage": {"output_tokens": 1_000}}
    logs.append("copy", "usage", ts=2_000.0, **answered)

    async def main() -> None:
        async with rig(logs) as made:
            watching, other = await made.hub.join(key_of("copy")), await made.hub.join()
            await made.write("original", "usage", ts=1_000.0, **answered)
            await made.heard(watching, lambda view: view.resets == 1)
            view = await made.heard(other, lambda view: "copy" in view.rows)
            assert view.rows["copy"]["bill"]["requests"] == 0
            assert view.resets == 0

    asyncio.run(main())


def test_too_much_at_once_is_a_reset(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """When too many sessions change, all subscribers are reset."""
    monkeypatch.setattr(hub_module, "MOST_ROWS", 3)

    async def main() -> None:
        async with rig(logs) as made:
            subscriber = await made.hub.join()
            mark = parsed(await subscriber.take())[0].id
            for number in range(5):
                logs.append(f"n{number}")
            await made.write("last")
            assert (await made.heard(subscriber, lambda view: view.resets == 1)).rows == {}
            assert (await made.heard(await made.hub.join(None, mark), lambda view: view.resets == 1)).rows == {}

    asyncio.run(main())


def test_a_round_that_fails_is_said_once_and_made_good(
    logs: Logs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """When spans cannot be read the streams stay open, their subscribers are reset, and updates continue."""
    monkeypatch.setattr(hub_module, "_RETRY_SECONDS", 0.01)

    async def main() -> None:
        async with rig(logs) as made:
            watching, other = await made.hub.join(key_of("a")), await made.hub.join()
            await made.write("a", "turn.begin", prompt="x")
            await made.heard(watching, has("a", 1))
            for current in made.reader._stores:
                assert current.opened is not None
                current.opened.close()
            await made.write("a", "turn.end")
            await made.heard(watching, lambda view: view.resets == 1)
            assert [record.levelname for record in caplog.records] == ["WARNING"]
            await made.write("b")
            await made.heard(watching, has("b", 1))
            await made.heard(other, has("b", 1))

    asyncio.run(main())


def test_many_pages_hear_the_same(logs: Logs) -> None:
    """Fifty subscribers hear one message each for a change, all the same."""

    async def main() -> None:
        async with rig(logs) as made:
            subscribers = [await made.hub.join() for _ in range(50)]
            for subscriber in subscribers:
                await subscriber.take()
            await made.write("a")
            texts = {await subscriber.take() for subscriber in subscribers}
            assert [message.kind for message in parsed(texts.pop())] == ["sessions"]
            assert texts == set()

    asyncio.run(main())


def test_readers_and_the_recorder_do_not_wait_for_each_other(logs: Logs) -> None:
    """Lists that are asked for all the time while lines come never fail, and never show fewer events than before."""

    async def main() -> None:
        async with console(logs.settings) as server:
            stop = threading.Event()
            with logs.watched():
                writing = asyncio.create_task(asyncio.to_thread(work, logs, 3, 100, stop.wait))
                seen: dict[str, int] = {}
                while not (writing.done() and seen | writing.result() == seen):
                    for row in (await server.json("/sessions"))["items"]:
                        assert row["events"] >= seen.get(row["session_id"], 0)
                        seen[row["session_id"]] = row["events"]

    asyncio.run(main())


def test_what_is_written_beside_a_session_arrives(logs: Logs) -> None:
    """A note makes no event; its session's row comes all the same, at once, with the other marks."""
    logs.append("one", "turn.begin", turn=1)
    logs.record(index=False)

    async def body() -> None:
        async with console(logs.settings) as server, server.live(session=key_of("one")) as stream:
            assert (await following(stream)).kind == "hello"
            with SqliteStore.open(logs.store, read_only=False) as store:
                number = session_number("agenttrace", "one")
                table = store.annotation_table
                for text in ("first", "second"):
                    table.put(NewAnnotation(session=number, kind="note", source="person", author="ann", text=text))
            seen: list[int] = []
            while not seen or seen[-1] < 2:
                message = await following(stream)
                if message.kind == "sessions":
                    seen += [row["marks"]["notes"] for row in message.data["rows"]]
            rows = {row.session_id: row for row in server.context.index.rows()}
            assert rows["one"].marks.notes == 2

    asyncio.run(body())
