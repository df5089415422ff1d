"""Notes, scores, labels and stars at Langfuse and LangSmith: each once, after its trace, changed and removed there."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langfuse.api.scores.types.create_score_request import CreateScoreRequest
from langsmith.schemas import FeedbackCreate

from agenttrace.cli import export_run
from agenttrace.destinations import DestinationSettings
from agenttrace.export.destination import Delivery
from agenttrace.export.langfuse import LangfuseDestination
from agenttrace.export.langsmith import LangSmithDestination
from agenttrace.store.annotations import NewAnnotation
from agenttrace.store.sqlite.store import SqliteStore
from export.fake_langfuse import PUBLIC, SECRET, FakeLangfuse
from export.fake_langsmith import KEY, FakeLangSmith
from export.faulty_server import Fault
from export.rig import World

Server = FakeLangfuse | FakeLangSmith
KINDS = ("langfuse", "langsmith")


def found(server: Server) -> dict[str, dict[str, Any]]:
    """What the server has beside traces."""
    return server.scores if isinstance(server, FakeLangfuse) else server.feedback


def there(kind: str, url: str, **changes: Any) -> DestinationSettings:  # noqa: ANN401 - any setting
    keys = {"public_key": PUBLIC, "secret_key": SECRET} if kind == "langfuse" else {"api_key": KEY}
    fields: dict[str, Any] = {"name": "there", "type": kind, "url": url, "start": "all", "timeout_seconds": 5.0, **keys}
    return DestinationSettings(**(fields | changes))


class Scene:
    """A recorded session, a server, and deliveries to it."""

    def __init__(self, root: Path, kind: str, server: Server, **changes: Any) -> None:  # noqa: ANN401
        self.kind, self.server = kind, server
        self.settings = there(kind, server.url, **changes)
        self.world = World(root, self.settings)
        self.world.turn("one", 1)
        self.world.record()

    async def deliver(self, rounds: int = 30) -> None:
        """Deliver until nothing is left to do, turning the clock over every wait."""
        make = LangfuseDestination if self.kind == "langfuse" else LangSmithDestination
        destination = make(self.settings)
        with self.world.courier(destination) as courier:
            for _ in range(rounds):
                await courier.deliver()
                self.world.passed += courier.waits + 400.0
        await destination.close()

    def write(self, change: Callable[[SqliteStore, int], object]) -> None:
        with self.world.opened_store() as store:
            change(store, store.sessions()[0].id)

    def put(self, **fields: Any) -> None:  # noqa: ANN401
        new = {"source": "person", "author": "ann"} | fields
        self.write(lambda store, number: store.annotation_table.put(NewAnnotation(session=number, **new)))


def run(root: Path, kind: str, body: Callable[[Scene], Any], **changes: Any) -> None:  # noqa: ANN401
    async def main() -> None:
        async with FakeLangfuse() if kind == "langfuse" else FakeLangSmith() as server:
            await body(Scene(root, kind, server, **changes))

    asyncio.run(main())


@pytest.mark.parametrize("kind", KINDS)
def test_each_arrives_once_after_its_trace(tmp_path: Path, kind: str) -> None:
    """Nothing is sent before the turn is acknowledged; afterwards each kind once, as the backend has it."""

    async def body(scene: Scene) -> None:
        scene.put(kind="note", text="look at this")
        scene.put(kind="label", name="bug")
        scene.put(kind="star")
        scene.put(kind="score", name="quality", value=2.5, text="tests are red")
        await scene.deliver()
        assert found(scene.server) == {}
        scene.world.seal(quiet_seconds=0)
        await scene.deliver()
        sent = found(scene.server)
        assert len(sent) == 4
        before = len(scene.server.received)
        await scene.deliver()
        assert [each.path for each in scene.server.received[before:] if "score" in each.path] == []
        assert [each.path for each in scene.server.received[before:] if "feedback" in each.path] == []
        comments = {each["name" if kind == "langfuse" else "key"]: each.get("comment") for each in sent.values()}
        assert comments == {"note": "look at this", "label": None, "star": None, "quality": "tests are red"}
        for each in sent.values():
            if isinstance(scene.server, FakeLangfuse):
                assert each["sessionId"] == "one"
                CreateScoreRequest(**each)
            else:
                assert each["run_id"] in scene.server.runs
                assert each["extend_trace_retention"] is False
                FeedbackCreate(**each)

    run(tmp_path, kind, body)


@pytest.mark.parametrize("kind", KINDS)
def test_changed_ones_are_updated_and_removed_ones_removed(tmp_path: Path, kind: str) -> None:
    async def body(scene: Scene) -> None:
        scene.world.seal(quiet_seconds=0)
        scene.put(kind="score", name="quality", value=2.0)
        scene.put(kind="label", name="bug")
        await scene.deliver()
        scene.put(kind="score", name="quality", value=5.0, text="fixed")
        scene.write(lambda store, number: store.annotation_table.remove_named(number, "label", "bug"))
        await scene.deliver()
        (score,) = found(scene.server).values()
        assert (score["value" if kind == "langfuse" else "score"], score["comment"]) == (5.0, "fixed")
        scene.put(kind="label", name="bug")
        await scene.deliver()
        assert len(found(scene.server)) == 2

    run(tmp_path, kind, body)


@pytest.mark.parametrize("kind", KINDS)
def test_texts_follow_the_switch_and_are_masked(tmp_path: Path, kind: str) -> None:
    """Without texts a note stays here, and a score has no comment; secrets never leave."""
    secret = "sk-ant-api03-" + "a1B2" * 20

    async def body(scene: Scene) -> None:
        scene.world.seal(quiet_seconds=0)
        scene.put(kind="note", text=f"the key is {secret}")
        scene.put(kind="score", name="quality", value=1.0, text=f"because of {secret}")
        scene.put(kind="label", name="bug")
        await scene.deliver()
        whole = b"".join(each.body for each in scene.server.received if "runs" not in each.path)
        assert secret.encode() not in whole
        texts = [each.get("comment") for each in found(scene.server).values()]
        if scene.settings.prompts == "off":
            assert len(texts) == 2
            assert set(texts) == {None}
        else:
            assert len(texts) == 3
            assert len([text for text in texts if text]) == 2

    for place, switch in enumerate(("off", "masked")):
        (tmp_path / str(place)).mkdir()
        run(tmp_path / str(place), kind, body, prompts=switch)


_faults = st.lists(
    st.sampled_from(
        [
            Fault("close"),
            Fault("close", handled=True),
            Fault("reply", 500, handled=True),
            Fault("reply", 503),
            Fault("reply", 429, (("Retry-After", "1"),)),
            Fault("reply", 404),
        ]
    ),
    max_size=5,
)


@pytest.mark.parametrize("kind", KINDS)
def test_lost_answers_make_no_second_one(tmp_path_factory: pytest.TempPathFactory, kind: str) -> None:
    """Whatever the server does, each annotation is there once in the end, in its latest version."""

    @settings(max_examples=10, deadline=None)
    @given(first=_faults, second=_faults)
    def check(first: list[Fault], second: list[Fault]) -> None:
        async def body(scene: Scene) -> None:
            scene.world.seal(quiet_seconds=0)
            await scene.deliver()
            scene.put(kind="note", text="one")
            scene.put(kind="score", name="q", value=1.0)
            scene.server.faults.extend(first)
            await scene.deliver()
            scene.put(kind="score", name="q", value=2.0)
            scene.server.faults.extend(second)
            await scene.deliver()
            values = [
                each.get("value") if kind == "langfuse" else each.get("score") for each in found(scene.server).values()
            ]
            assert sorted(values, key=str) == ([2.0, "note"] if kind == "langfuse" else [2.0, None])

        run(tmp_path_factory.mktemp("scene"), kind, body)

    check()


@pytest.mark.parametrize("kind", KINDS)
def test_a_refusal_is_kept_with_its_reason(tmp_path: Path, kind: str) -> None:
    async def body(scene: Scene) -> None:
        scene.world.seal(quiet_seconds=0)
        await scene.deliver()
        scene.put(kind="score", name="q", value=1.0)
        scene.put(kind="star")
        scene.server.faults.append(Fault("reply", 400, body=b"no such score config"))
        await scene.deliver()
        assert len(found(scene.server)) == 1
        with scene.world.opened_store() as store:
            ((number, states),) = store.exports.annotations.counts().items()
            assert states == {"acknowledged": 1, "refused": 1}
            assert "no such score config" in store.exports.annotations.refused(number)[0][1]
            assert store.exports.ledgers().refusals[number] == store.exports.annotations.refused(number)[0][1]
            store.exports.retry(number, ["refused"])
        await scene.deliver()
        assert len(found(scene.server)) == 2

    run(tmp_path, kind, body)


def test_a_span_has_its_own(tmp_path: Path) -> None:
    """What is about a span goes to that span, once it was acknowledged."""

    async def body(scene: Scene) -> None:
        scene.world.seal(quiet_seconds=0)
        with scene.world.opened_store() as store:
            session = store.sessions()[0]
            tool = next(span for span in store.spans(session) if span.kind == "tool")
        scene.put(kind="score", name="q", value=1.0, span_id=tool.span_id)
        await scene.deliver()
        (score,) = found(scene.server).values()
        assert (score["traceId"], score["observationId"]) == (tool.trace_id.hex(), tool.span_id.hex())
        assert msgspec.json.encode(score)

    run(tmp_path, "langfuse", body)


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_run_says_how_many_were_sent_and_are_left(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the reason, and exit code 1 where some are left; the next run sends these, and tells of no other."""

    async def body(scene: Scene) -> None:
        settings = scene.world.settings
        for word, value in (("one", 1.0), ("two", 2.0)):
            scene.put(kind="score", name=word, value=value)
        scene.put(kind="label", name="bug")

        async def once() -> tuple[bool, dict[str, Any]]:
            before, began = export_run.tally(settings), time.time()
            left = await export_run.send_once(settings, lambda: False, lambda: None)
            troubled = export_run._report(settings, before, export_run.tally(settings, began), left, 0.1, as_json=True)
            (told,) = json.loads(capsys.readouterr().out)["destinations"]
            return troubled, told

        scene.world.seal(quiet_seconds=0)
        with pytest.MonkeyPatch.context() as patch:
            failed = Delivery(verdict="retry", reason="HTTP 503")
            patch.setattr(LangfuseDestination, "send_annotation", lambda *_: asyncio.sleep(0, failed))
            patch.setattr(LangSmithDestination, "send_annotation", lambda *_: asyncio.sleep(0, failed))
            troubled, told = await once()
        assert troubled
        assert (told["annotations"], told["left_annotations"]) == (0, 3)
        assert told["acknowledged"] > 0
        assert told["reason"] == "3 notes, scores or labels wait (HTTP 503)"
        troubled, told = await once()
        assert not troubled
        assert (told["annotations"], told["refused_annotations"], told["left_annotations"]) == (3, 0, 0)
        assert export_run._outcome(told, "span") == "3 annotations acknowledged"
        assert len(found(scene.server)) == 3
        _, told = await once()
        assert export_run._outcome(told, "span") == "nothing new was sent"

    run(tmp_path, kind, body)
